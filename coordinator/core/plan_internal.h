/* What the parts of the planner share. Internal to coordinator/core/plan*.c; pure. */
#ifndef BATON_COORDINATOR_CORE_PLAN_INTERNAL_H
#define BATON_COORDINATOR_CORE_PLAN_INTERNAL_H

#include "coordinator/core/plan.h"

#define PLAN_NOBODY SIZE_MAX

/* An agent with the loads that it has once the changes so far are carried out. */
struct candidate {
    const struct plan_agent *agent;
    uint32_t tasks;   /* what takes room there, until everything is carried out */
    uint32_t total;   /* processors of all jobs that it ends up with */
    uint32_t in_job;  /* ... of the job that is looked at */
    uint32_t movable; /* ... of these, those that the plan may move */
    uint32_t intents; /* ... of these, those that it has not got yet */
    bool newcomer;    /* to the job that is looked at */
};

struct item { /* a processor */
    const struct plan_processor *processor;
    size_t index;  /* in the input */
    size_t owner;  /* candidate, or PLAN_NOBODY */
    size_t target; /* of its hand-over */
    size_t wanted; /* where it ends up */
    bool movable;
    char *reason; /* of the last decision about it, or NULL */
    size_t order; /* in which moves were decided */
};

struct planning {
    const struct plan_input *input;
    struct candidate *candidates; /* by agent id */
    struct item *items;           /* by job, then number */
    size_t decided;               /* moves so far */
    struct plan *plan;
};

bool plan_has_room(const struct candidate *candidate);
/* PLAN_NOBODY: not among the agents. */
size_t plan_find_candidate(const struct planning *planning, const char *agent_id);
void plan_add(struct planning *planning, enum plan_kind kind, const struct item *item,
              const char *target, char *reason);

/* Cancels and moves towards newcomers (plan_even.c), after everything has an owner that can have
 * one. */
void plan_even_out(struct planning *planning);

#endif
