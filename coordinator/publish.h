/*
 * The published view: what readers over HTTP see, without the owner thread being asked (D6).
 *
 * The owner thread makes a new view out of the cluster when something has changed (publish_build);
 * any thread takes a reference on the newest one (publish_acquire), reads it as long as it likes,
 * for it never changes, and gives the reference back. Parts that did not change are shared with the
 * view before. What readers see was durable before it was published.
 */
#ifndef BATON_COORDINATOR_PUBLISH_H
#define BATON_COORDINATOR_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"
#include "coordinator/core/step.h"

/* ---- the view; all of it is read-only */

struct view_job {
    struct job_view job;
    struct job_status status;
    struct {
        struct processor_view *items;
        size_t count;
    } processors; /* by number */
    struct {
        struct problem_view *items;
        size_t count;
    } problems;
    struct {
        struct skip_view *items;
        size_t count;
    } skips;
    uint64_t map_version;
    enum effective_partitioner partitioner;
    char *partitioner_reason;  /* or NULL */
    struct view_trend *trends; /* by processor; how the lag moves, for the next view */
    size_t references;
};

struct view_agents { /* by id */
    struct agent_view *items;
    size_t count;
    size_t references;
};

struct view_operations { /* those in memory, by number */
    struct operation_view *items;
    size_t count;
    size_t references;
};

struct view_running { /* of them those that have not ended, with what changes all the time */
    struct operation_view *items;
    size_t count;
};

struct view_handoffs { /* those under way, by number */
    struct handoff_view *items;
    size_t count;
};

struct view_drains { /* of agents that were asked to leave, by id */
    struct drain_view *items;
    size_t count;
};

struct view {
    struct {
        struct view_job **items;
        size_t count;
    } jobs; /* by name */
    struct view_agents *agents;
    struct view_operations *operations;
    struct view_running running;
    struct view_handoffs handoffs;
    struct view_drains drains;
    struct maintenance_view maintenance;
    enum recovery_state recovery;
    char *recovery_detail; /* or NULL */
    char cluster[API_UUID_BYTES + 1];
    uint64_t start_number, decision, epoch, event_id;
    size_t references;
};

const struct view_job *view_find_job(const struct view *view, const char *name); /* NULL: none */
const struct agent_view *view_find_agent(const struct view *view, const char *agent_id);
const struct operation_view *view_find_operation(const struct view *view, const char *id);
const struct drain_view *view_find_drain(const struct view *view, const char *agent_id);

/* ---- publishing */

struct publisher;

struct publisher *publisher_create(void);
void publisher_destroy(
    struct publisher *publisher); /* NULL is fine; nobody holds a view any more */

/* Any thread. NULL as long as nothing was published (the store is not loaded). */
const struct view *publish_acquire(struct publisher *publisher);
void publish_release(const struct view *view); /* NULL is fine */

/* What the next view has to look at anew. Owner thread. */
struct publish_dirty { /* zero-initialise; finish with publish_clear */
    bool all, operations;
    struct {
        char **items;
        size_t count, capacity;
    } jobs, agents;
};

void publish_mark_event(struct publish_dirty *dirty, const struct coord_event *event); /* before */
void publish_mark_update(struct publish_dirty *dirty, const struct update *update); /* the step */
bool publish_is_dirty(const struct publish_dirty *dirty);
void publish_clear(struct publish_dirty *dirty);

/* Owner thread: makes the view of what the cluster is now the newest one, and clears `dirty`. */
void publish_build(struct publisher *publisher, const struct cluster *cluster, int64_t now_ms,
                   struct publish_dirty *dirty);
/* Owner thread: adds what the target's and the source's reports tell of a hand-over under way. */
void publish_complete_handoff(const struct cluster *cluster, const struct handoff *handoff,
                              struct handoff_view *view);

/* Owner thread: the same of an operation that has not ended. */
void publish_complete_operation(const struct cluster *cluster, const struct operation *operation,
                                struct operation_view *view);
/* Owner thread: either, when the value is a view of one of these types, and it is under way. */
void publish_complete(const struct cluster *cluster, const struct schema_type *type, void *view);

/* Owner thread: those of all agents. */
void publish_drains(const struct cluster *cluster, struct view_drains *ret_drains);

#endif
