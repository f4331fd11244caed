/*
 * The coordinator's memory on disk: one SQLite database, written only by update
 * (coordinator/core/update.h), one transaction an update. What is in it when store_commit returns
 * ERR_NONE survives a crash of the process and of the machine.
 *
 * Owned by the owner thread alone, which also reads history pages here, between its steps: there is
 * one connection (D6; two in WAL mode meet a bug of SQLite 3.40), and it locks the file for as long
 * as it is open, so a second coordinator on the same database is refused.
 *
 * After a failed store_commit the caller drops its cluster, loads again and goes on with what was
 * committed (D6).
 */
#ifndef BATON_COORDINATOR_STORE_H
#define BATON_COORDINATOR_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "coordinator/core/update.h"

struct store;

/*
 * Opens the database, makes it when there is none (its folder must exist), brings an older one up
 * to date. Never changes or overwrites a file that it refuses:
 *
 * - ERR_LOCKED: another process has it open.
 * - ERR_FOREIGN: a SQLite database, but not of a coordinator.
 * - ERR_UNSUPPORTED: made by a newer version of baton.
 * - ERR_CORRUPT: not a SQLite database, or damaged.
 * - ERR_IO: can not be created, read or written.
 *
 * The text names the path and what to do.
 */
enum err_code store_open(const char *path, struct store **ret_store, struct err *reterr) MUSTCHECK;
void store_close(struct store *store); /* NULL is fine */

/*
 * Fills `cluster` (as cluster_init left it) with everything durable: all jobs, placements, agents,
 * last stored offsets, running hand-overs, unfinished operations and the newest finished ones. A
 * fresh database gets its cluster UUID here. On failure the cluster is to be finished by the
 * caller, as after success.
 */
enum err_code store_load(struct store *store, struct cluster *cluster,
                         struct err *reterr) MUSTCHECK;

/* All changes of the update, or none when it fails. An update without changes touches nothing. */
enum err_code store_commit(struct store *store, const struct update *update,
                           struct err *reterr) MUSTCHECK;

/*
 * Events with ids above `after`, oldest first, at most `limit` (1..1000). `job` NULL: all. `next`
 * is the last id when there are more now, else NULL. With `last` the newest `limit` of them, after
 * which there are none now. Free with schema_free(&schema_event_page).
 */
struct store_event_query {
    uint64_t after;
    const char *job;
    uint32_t limit;
    bool last;
};
enum err_code store_events(struct store *store, struct store_event_query query,
                           struct event_page *ret_page, struct err *reterr) MUSTCHECK;

/*
 * Operations with ids below `before` (0: from the newest on), newest first, at most `limit`
 * (1..1000). `next` is the last id when there are more, else NULL. Free with
 * schema_free(&schema_operation_page).
 */
struct store_operation_query {
    uint64_t before;
    const char *job; /* NULL: all */
    bool only_state; /* only those in `state` */
    enum operation_state state;
    uint32_t limit;
};
enum err_code store_operations(struct store *store, struct store_operation_query query,
                               struct operation_page *ret_page, struct err *reterr) MUSTCHECK;

/* ERR_NOT_FOUND when there is no such operation (any more). Free with
 * schema_free(&schema_operation_view). */
enum err_code store_operation(struct store *store, uint64_t id, struct operation_view *ret_view,
                              struct err *reterr) MUSTCHECK;

/* Hand-overs, as operations. Free with schema_free(&schema_handoff_page). */
struct store_handoff_query {
    uint64_t before;
    const char *job; /* NULL: all */
    bool only_state; /* only those in `state` */
    enum handoff_state state;
    uint32_t limit;
};
enum err_code store_handoffs(struct store *store, struct store_handoff_query query,
                             struct handoff_page *ret_page, struct err *reterr) MUSTCHECK;

/* ERR_NOT_FOUND when there is none (any more). Free with schema_free(&schema_handoff_view). */
enum err_code store_handoff(struct store *store, uint64_t id, struct handoff_view *ret_view,
                            struct err *reterr) MUSTCHECK;

/*
 * How much history is kept: so many, none older than the age. What is beyond that goes in small
 * slices, as part of later commits that add to the same kind. Finished operations and hand-overs
 * only. Defaults: 100,000 events, 10,000 operations, 10,000 hand-overs, of any age.
 */
struct store_retention {
    uint64_t events;
    uint64_t operations;
    uint64_t handoffs;
    int64_t age_ms; /* by wall time; 0: of any age */
};
void store_retain(struct store *store, struct store_retention retention);

/*
 * Test builds only (BATON_TEST_HOOKS); elsewhere nothing fails on purpose. The n-th statement from
 * now (1: the next) fails once, as on a full disk: before it had an effect, or, as a commit in
 * doubt may, after it.
 */
enum store_failure { STORE_FAILURE_BEFORE, STORE_FAILURE_AFTER };
#ifdef BATON_TEST_HOOKS
void store_fail_at(struct store *store, uint64_t statement, enum store_failure failure);
/* Statements run so far, so that a test knows how many there are to fail. */
uint64_t store_statements(const struct store *store);
#endif

#endif
