/*
 * The agent's options (common/opts.h); docs/configuration.md is printed from the table in
 * options.c. Set once at the start, then constant: any thread may read.
 */
#ifndef BATON_AGENT_OPTIONS_H
#define BATON_AGENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"
#include "common/err.h"
#include "common/opts.h"

enum agent_on_term { AGENT_ON_TERM_LEAVE, AGENT_ON_TERM_DRAIN, AGENT_ON_TERM_RELEASE };

struct agent_options {
    char *agent_id;    /* "" in the table: the host's name, see agent_options_check */
    char *coordinator; /* http://host:port */
    char *state_dir;
    char *plugin_dir;     /* "" : no plugins */
    char *listen;         /* host:port of /healthz, /readyz, /metrics, /version; port 0 picks one */
    char *advertise;      /* host:port of it for other agents; "": as it listens */
    char *tags;           /* "zone=a,rack=7" */
    int64_t capacity;     /* most tasks */
    int64_t max_learners; /* at a time; 0: no limit */
    int64_t cache_bytes;  /* write-back cache of one task */
    int64_t state_bytes_max;    /* LMDB map limit of one task */
    bool state_sync;            /* fdatasync at checkpoints */
    int64_t state_retention_ms; /* unused states are dropped then; 0: never */
    int64_t checkpoint_interval_ms;
    int64_t snapshots_max;    /* that are sent at a time */
    int64_t snapshot_rate;    /* bytes a second of all that are sent; 0: no limit */
    int64_t stop_timeout_ms;  /* how long a stop may wait for tasks to commit and checkpoint */
    int on_term;              /* enum agent_on_term */
    int64_t drain_timeout_ms; /* with AGENT_ON_TERM_DRAIN */
    int log_level;            /* enum log_level */
};

extern const struct opts_entry agent_options_table[];
extern const size_t agent_options_count;
extern const char *const agent_on_term_names[];

/*
 * What the table can not say. Fills in the host's name as agent_id when none was given, takes the
 * slashes from the coordinator's end, and refuses, naming the option: an invalid agent_id or tag,
 * an address of the coordinator that is none, a plugin_dir that is no directory, kafka.* properties
 * that librdkafka does not take or that are baton's own, no brokers. Reaches no other host.
 */
enum err_code agent_options_check(struct agent_options *options, const struct opts_kafka *kafka,
                                  struct err *reterr) MUSTCHECK;

struct tag_list { /* as in struct agent_registration; finish with tag_list_finish */
    struct tag *items;
    size_t count;
};

/* "zone=a,rack=7": names and values as the registration allows, no name twice; "" is none. */
enum err_code agent_options_tags(const char *text, struct tag_list *ret_tags,
                                 struct err *reterr) MUSTCHECK;
void tag_list_finish(struct tag_list *tags);

/* Why `name` (without "kafka.") is not for the operator to set, or NULL. */
const char *agent_options_kafka_refusal(const char *name);

#endif
