/* The coordinator's options (common/opts.h); docs/configuration.md is printed from the table in
 * options.c. */
#ifndef BATON_COORDINATOR_OPTIONS_H
#define BATON_COORDINATOR_OPTIONS_H

#include "common/opts.h"

struct coordinator_options {
    char *listen;     /* host:port; port 0 picks one */
    char *database;   /* path of the SQLite file */
    char *backup_dir; /* "": none */
    int64_t agent_timeout_ms;
    int64_t report_interval_ms;
    int64_t poll_wait_max_ms;
    int64_t http_connections_max;
    int64_t history_age_ms; /* of events, operations and hand-overs that have ended; 0: any */
    int64_t history_events; /* most that are kept, as the next two */
    int64_t history_operations;
    int64_t history_handoffs;
    bool recover;
    int log_level; /* enum log_level */
};

extern const struct opts_entry coordinator_options_table[];
extern const size_t coordinator_options_count;

#endif
