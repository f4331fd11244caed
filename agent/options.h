/* The agent's options (common/opts.h); docs/configuration.md is printed from the table in
 * options.c. */
#ifndef BATON_AGENT_OPTIONS_H
#define BATON_AGENT_OPTIONS_H

#include "common/opts.h"

struct agent_options {
    char *config_file; /* read by opts itself */
    char *agent_id;    /* default: the host's name */
    char *coordinator; /* http://host:port */
    char *state_dir;
    char *plugin_dir;    /* "" : no plugins */
    char *listen;        /* host:port of /healthz, /readyz, /metrics, /version; port 0 picks one */
    char *tags;          /* "zone=a,rack=7" */
    int64_t capacity;    /* most tasks */
    int64_t cache_bytes; /* write-back cache of one task */
    int64_t state_bytes_max; /* LMDB map limit of one task */
    bool state_sync;         /* fdatasync at checkpoints */
    int64_t checkpoint_interval_ms;
    int64_t stop_timeout_ms; /* how long a stop may wait for tasks to commit and checkpoint */
    int on_term;             /* index of agent_on_term_names */
    int log_level;
};

extern const struct opts_entry agent_options_table[];
extern const size_t agent_options_count;

#endif
