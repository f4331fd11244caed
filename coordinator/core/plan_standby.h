/*
 * Where standbys are: a function without side effects from what is to what should change, each
 * change with its reason. It comes after plan.h's, whose owners and learners go first: standbys
 * have the room and the learner slots that those leave.
 *
 * Each processor gets as many as its job wants, on agents of other zones than its owner's and one
 * another's where there are such, then on who keeps its state, then on the least loaded. Where one
 * is it stays, until its agent leaves, is lost for too long, can not rebuild the state, needs the
 * room, or the job wants fewer. Nothing moves because there is a better place by now.
 *
 * Deterministic, and independent of the order of input rows: same input, same plan.
 */
#ifndef BATON_COORDINATOR_CORE_PLAN_STANDBY_H
#define BATON_COORDINATOR_CORE_PLAN_STANDBY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/cluster.h"
#include "coordinator/core/plan.h"

struct plan_host { /* an agent, alive or not; borrowed texts */
    const char *agent_id;
    const char *zone; /* NULL: not known. Two of which it is not known count as in one */
    uint32_t capacity;
    uint32_t load;         /* tasks of all jobs on it that are no standbys */
    uint32_t max_learners; /* at a time; 0: no limit */
    uint32_t learners;     /* on it for hand-overs */
    bool barred;           /* receives nothing, but keeps what it has */
};

struct plan_guarded { /* a processor of a job with state that runs */
    const char *job;
    uint32_t processor;
    uint32_t wanted;
    const char *owner;     /* NULL: none; what it has stays, and it gets nothing */
    const char *target;    /* of a hand-over before its release, or NULL: as good as a standby */
    bool learning;         /* that target learns: it takes a slot */
    const char *kept_on;   /* who has its state besides, or NULL */
    uint32_t max_learners; /* of the job at a time; 0: no limit */
};

struct plan_holding { /* a standby that is there */
    size_t processor; /* index in the input */
    const char *agent_id;
    bool learning;    /* it has not caught up so far: it takes a slot */
    const char *lost; /* why it is given up, as in "agent a1 ..."; NULL: it is not */
};

struct plan_standby_input {
    const struct plan_host *hosts;
    size_t host_count;
    const struct plan_guarded *processors;
    size_t processor_count;
    const struct plan_holding *holdings;
    size_t holding_count;
    const struct plan_refusal *refusals;
    size_t refusal_count;
};

enum plan_standby_kind { PLAN_STANDBY_END, PLAN_STANDBY_BEGIN };

struct plan_standby_change {
    enum plan_standby_kind kind;
    size_t processor; /* index in the input */
    const char *agent_id;
    char *reason;
};

struct plan_standbys {
    struct plan_standby_change *changes; /* ends first */
    size_t change_count, change_capacity;
    enum standby_lack *lacks; /* by processor */
};

void plan_standby_compute(const struct plan_standby_input *input, struct plan_standbys *ret_plan);
void plan_standby_finish(struct plan_standbys *plan);

#endif
