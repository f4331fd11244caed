/*
 * Questions about what was: events, and operations that are no longer in memory. Answered from the
 * store, between the steps of the owner thread, which alone uses this. A question for events that
 * there are none of yet may wait for the first one.
 */
#ifndef BATON_COORDINATOR_ARCHIVE_H
#define BATON_COORDINATOR_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/step.h"
#include "coordinator/store.h"

enum archive_query_kind {
    ARCHIVE_QUERY_EVENTS,
    ARCHIVE_QUERY_OPERATIONS,
    ARCHIVE_QUERY_OPERATION,
    ARCHIVE_QUERY_HANDOFFS,
    ARCHIVE_QUERY_HANDOFF,
    ARCHIVE_QUERY_BACKUP /* not a question, but of the store as well: see archive_backup.h */
};

struct archive_query { /* owns `job` */
    enum archive_query_kind kind;
    uint64_t request;
    char *job;       /* of a list: NULL for all */
    uint32_t limit;  /* of a list */
    uint64_t after;  /* EVENTS: ids above it */
    bool last;       /* EVENTS: of these the newest `limit` */
    int64_t wait_ms; /* EVENTS: for the first one, when there is none */
    uint64_t before; /* OPERATIONS, HANDOFFS: ids below it; 0: from the newest on */
    bool only_state; /* OPERATIONS, HANDOFFS: in one of these */
    enum operation_state state;
    enum handoff_state handoff_state;
    uint64_t operation; /* OPERATION */
    uint64_t handoff;   /* HANDOFF */
};

void archive_query_finish(struct archive_query *query);

struct archive {
    struct store *store;
    int64_t wait_ms_max;
    void (*answer)(void *context, struct answer *answer); /* takes the content */
    void *context;
    /* Adds to a view of a hand-over or an operation that is under way what is not stored of it;
     * NULL: nothing does. */
    void (*complete)(void *context, const struct schema_type *type, void *view);
    struct {
        struct archive_wait *items;
        size_t count, capacity;
    } waits;
    const char *backup_dir;        /* borrowed; NULL or "": backups are refused */
    struct archive_backup *backup; /* under way, or NULL */
};

void archive_init(struct archive *archive, struct store *store, int64_t wait_ms_max,
                  void (*answer)(void *context, struct answer *answer), void *context);
void archive_finish(struct archive *archive); /* also of one that was never initialised: zeroed */

/* Answers now, or keeps the question (taking its content). */
void archive_ask(struct archive *archive, struct archive_query *query);
/* OPERATION_WAIT and OPERATION_CANCEL for an operation that is not in memory. */
void archive_old_operation(struct archive *archive, const struct coord_event *event);
/* HANDOFF_CANCEL for one that has ended. */
void archive_old_handoff(struct archive *archive, const struct coord_event *event);

void archive_see_update(struct archive *archive, const struct update *update); /* committed */
void archive_forget(struct archive *archive, uint64_t request);                /* client is gone */
int64_t archive_deadline_ms(const struct archive *archive);                    /* INT64_MAX: none */
void archive_tick(struct archive *archive, int64_t now_ms);

/* An answer with a problem body, Retry-After when the code is store_failed. */
struct answer archive_problem(uint64_t request, const char *code, const char *detail);

#endif
