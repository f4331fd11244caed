/*
 * The receiving end of snapshots (D8): a thread that gets the state of one task from another agent
 * and builds a data file of it (agent/store_seed.h). Nothing of it is the task's state until the
 * task's thread installs it.
 *
 *   RUNNING --> DONE    complete, verified and on disk: store_seed_install takes it over
 *           '-> FAILED  nothing is left; why, says the error
 *
 * It tries each source in turn, and gives up when none could be finished. At one source: a page
 * that did not come is asked for again; when the transfer has ended there, or what came is damaged,
 * it begins anew; SNAPSHOT_RESTARTS_MAX times. Whatever was built is thrown away then, so what is
 * served is of one checkpoint of one copy.
 *
 * Owned by the task's thread.
 */
#ifndef BATON_AGENT_SNAPSHOT_FETCH_H
#define BATON_AGENT_SNAPSHOT_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/store.h"
#include "common/err.h"

#define SNAPSHOT_RESTARTS_MAX 2
#define SNAPSHOT_TRIES_MAX    3 /* of one page */
#define SNAPSHOT_REQUEST_MS   20000

struct snapshot_fetch;

struct snapshot_source {
    const char *agent;
    const char *address; /* http://host:port */
    bool parent; /* it has the state of the parent, and gives the part that is this processor's */
};

struct snapshot_fetch_config { /* copied */
    const struct snapshot_source *sources;
    size_t source_count;
    const char *token;
    uint32_t parent;                     /* processor that this one is split off from */
    struct store_owners owners;          /* as they are with this processor, for a part */
    const struct store_position *needed; /* that a part must know (store_seed_bound) */
    size_t needed_count;
    struct store_config store;
    struct store_identity identity;
    void (*wake)(void *arg); /* any thread: it has ended; must not block */
    void *wake_arg;
};

enum snapshot_fetch_state { SNAPSHOT_FETCH_RUNNING, SNAPSHOT_FETCH_DONE, SNAPSHOT_FETCH_FAILED };

struct snapshot_progress {
    char source[64]; /* agent that it comes from; "" before the first */
    uint64_t rows, rows_total, bytes;
    int64_t begun_ms; /* clock_mono_ms */
};

enum err_code snapshot_fetch_start(const struct snapshot_fetch_config *config,
                                   struct snapshot_fetch **ret_fetch, struct err *reterr) MUSTCHECK;

/* FAILED: `reterr` says why. */
enum snapshot_fetch_state snapshot_fetch_state(struct snapshot_fetch *fetch,
                                               struct snapshot_progress *ret_progress,
                                               struct err *reterr);
/* It ends soon, FAILED unless it was DONE. */
void snapshot_fetch_cancel(struct snapshot_fetch *fetch);
/* Cancels it, waits for its end. NULL is fine. What was DONE and not installed is left to be
 * cleared by the next. */
void snapshot_fetch_destroy(struct snapshot_fetch *fetch);

#endif
