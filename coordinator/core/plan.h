/*
 * Placement (D5): a function without side effects from what is to what should change, each change
 * with its reason.
 *
 * First it places what has no owner, and what had one that is gone. Then it evens the loads out,
 * but only towards newcomers: nothing moves between established agents, and nothing moves when
 * nothing has arrived, left or been asked for. Hand-overs under way that are still wanted are kept,
 * those that are not are superseded or cancelled; a move starts only where it takes a difference of
 * at least two, so nothing swings to and fro.
 *
 * Deterministic, and independent of the order of input rows: same input, same plan. A plan that is
 * carried out in part, computed anew, gives the rest.
 */
#ifndef BATON_COORDINATOR_CORE_PLAN_H
#define BATON_COORDINATOR_CORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_UNKNOWN UINT64_MAX

struct plan_agent { /* borrowed texts */
    const char *agent_id;
    uint32_t capacity;
    uint32_t load; /* tasks of all jobs on it, learners among them */
};

struct plan_processor {
    const char *job;
    uint32_t processor;
    const char *owner;   /* agent id, or NULL; one that is none of the agents stays out of it */
    const char *kept_on; /* the agent with the most advanced kept state, or NULL */
    bool gone;           /* its owner is given up: another agent takes it over */
    const char *target;  /* of the hand-over under way; NULL: none */
    bool fixed;          /* that hand-over is not the plan's to take back */
    uint64_t behind;     /* records that the target has still to learn; PLAN_UNKNOWN */
};

struct plan_newcomer { /* an agent that is owed processors of the job */
    const char *job;
    const char *agent_id;
};

struct plan_input {
    const struct plan_agent *agents; /* alive ones that may receive tasks */
    size_t agent_count;
    const struct plan_processor *processors;
    size_t processor_count;
    const struct plan_newcomer *newcomers;
    size_t newcomer_count;
};

enum plan_kind {
    PLAN_KIND_PLACE,    /* the target gets what has no owner, or whose owner is gone */
    PLAN_KIND_CANCEL,   /* the hand-over under way is not wanted any more; target NULL */
    PLAN_KIND_HAND_OVER /* the target shall learn it, then take it over; supersedes `target` */
};

struct plan_change {
    enum plan_kind kind;
    size_t processor;   /* index in the input */
    const char *target; /* agent id */
    char *reason;
};

struct plan {
    struct plan_change *changes; /* by kind, then in the order in which they should be started */
    size_t change_count;
    uint32_t unplaced_no_agent;    /* processors that stay without owner: nobody is there */
    uint32_t unplaced_no_capacity; /* ... or all are full */
};

void plan_compute(const struct plan_input *input, struct plan *ret_plan);
void plan_finish(struct plan *plan);

#endif
