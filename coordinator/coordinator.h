/*
 * The owner thread: the only one that touches the cluster and the store (D6).
 *
 * Others post events and queries into its bounded mailbox. For each event it runs coord_step and
 * carries the update out in order: commit; then hand calls to the Kafka thread, publish, answer. A
 * failed commit undoes the step: what is in memory is dropped, everybody who waits is answered 503
 * store_failed, and the store is loaded again, with growing pauses, until it works.
 *
 *              commit failed                    loaded, and COORD_EVENT_START committed
 *   WORKING ------------------> STORE_FAILED --------------------------------------> WORKING
 *                                  | load or commit failed: again, later
 *                                  | requests: 503; reports and polls, too: agents go on (D6)
 *
 * Readers use the published view meanwhile: it holds nothing that was not durable.
 */
#ifndef BATON_COORDINATOR_COORDINATOR_H
#define BATON_COORDINATOR_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/prom.h"
#include "coordinator/core/step.h"
#include "coordinator/archive.h"
#include "coordinator/kafka.h"
#include "coordinator/metrics_handoff.h"
#include "coordinator/publish.h"
#include "coordinator/store.h"

struct coordinator;

struct coordinator_config {
    const char *database;   /* path */
    const char *backup_dir; /* borrowed; "" or NULL: none */
    struct coord_config core;
    struct store_retention retention; /* of history; zero: the store's defaults */
    struct publisher *publisher;      /* borrowed */
    /* Owner thread: takes the answer's content and zeroes it. */
    void (*answer)(void *context, struct answer *answer);
    void *context;
};

/* Opens and loads the store. */
enum err_code coordinator_create(const struct coordinator_config *config,
                                 struct coordinator **ret_coordinator,
                                 struct err *reterr) MUSTCHECK;
/* Starts the thread. `kafka` is borrowed; it must be stopped after coordinator_stop. */
enum err_code coordinator_start(struct coordinator *coordinator, struct kafka *kafka,
                                struct err *reterr) MUSTCHECK;
void coordinator_stop(struct coordinator *coordinator);    /* what is queued is still carried out */
void coordinator_destroy(struct coordinator *coordinator); /* NULL is fine */

/* Any thread. Takes the content of the event; false when the mailbox is full: it is the caller's.
 */
bool coordinator_post(struct coordinator *coordinator, struct coord_event *event) MUSTCHECK;

/* As coordinator_post. */
bool coordinator_ask(struct coordinator *coordinator, struct archive_query *query) MUSTCHECK;

/* The Kafka thread's delivery: takes the result. */
void coordinator_deliver(void *context, struct kafka_result *result);

bool coordinator_working(const struct coordinator *coordinator); /* any thread */

struct coordinator_counts { /* any thread reads them */
    uint64_t mailbox;       /* messages that wait */
    uint64_t refused;       /* by a full mailbox */
    uint64_t calls_refused; /* calls to Kafka that its thread did not take: failed calls */
    uint64_t steps;
    uint64_t commit_failures;
    uint64_t publications;
};
void coordinator_count(const struct coordinator *coordinator,
                       struct coordinator_counts *ret_counts);
const struct prom_histogram *coordinator_commit_times(const struct coordinator *coordinator);
const struct metrics_handoffs *coordinator_handoffs(const struct coordinator *coordinator);

#ifdef BATON_TEST_HOOKS
/* Between create and start only: the store, to make it fail. */
struct store *coordinator_store(struct coordinator *coordinator);
#endif

#endif
