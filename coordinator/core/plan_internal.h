/*
 * What the parts of the planner share: plan.c prepares, plan_place.c finds owners for what has
 * none, plan_leave.c for what is to leave, plan_even.c evens out, plan_slots.c says which moves
 * start now. Internal to coordinator/core/plan*.c; pure.
 */
#ifndef BATON_COORDINATOR_CORE_PLAN_INTERNAL_H
#define BATON_COORDINATOR_CORE_PLAN_INTERNAL_H

#include "coordinator/core/plan.h"

#define PLAN_NOBODY SIZE_MAX

/* An agent with the loads that it has once the changes so far are carried out. */
struct candidate {
    const struct plan_agent *agent;
    uint32_t tasks;   /* what takes room there, until what moves has arrived */
    uint32_t total;   /* processors of all jobs that it ends up with */
    uint32_t in_job;  /* ... of the job that is looked at */
    uint32_t movable; /* ... of these, those that the plan may move */
    uint32_t intents; /* ... of these, those that it has not got yet */
    bool newcomer;    /* to the job that is looked at */
    uint32_t share;   /* homeless processors that it still gets, of all jobs; of that job */
    uint32_t share_in_job;
    uint32_t learners; /* on it, once the changes so far are carried out */
};

struct item { /* a processor */
    const struct plan_processor *processor;
    size_t index;  /* in the input */
    size_t owner;  /* candidate, or PLAN_NOBODY */
    size_t target; /* of its hand-over */
    size_t wanted; /* where it ends up */
    size_t job;    /* number of its job, in the order of names */
    bool movable;
    bool homeless; /* without owner, or its owner is gone; until it is placed */
    bool placed;   /* by this plan */
    char *reason;  /* of the last decision about it, or NULL */
    size_t order;  /* in which moves were decided */
};

struct job_range {
    struct item *items;
    size_t count;
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
int plan_compare_candidates(const void *a, const void *b); /* by id */
void plan_add(struct planning *planning, enum plan_kind kind, const struct item *item,
              const char *target, char *reason);

/* Visits the jobs by name, with the candidates' counts those of the job. */
void plan_for_each_job(struct planning *planning,
                       void (*visit)(struct planning *planning, const struct job_range *job));

/* What has no owner, or none any more, gets one that has room. */
void plan_place_homeless(struct planning *planning);

/* New owners for what agents of the job have that are to leave. */
void plan_leave(struct planning *planning, const struct job_range *job);

/* The item ends up with `to`. Takes the reason. */
void plan_decide(struct planning *planning, struct item *item, size_t to, char *reason);

/* Cancels and moves towards newcomers, after everything has an owner that can have one. */
void plan_even_out(struct planning *planning);

/* The item's hand-over under way is the plan's to take back. */
bool plan_has_intent(const struct item *item);
/* Says which of the moves begin now, in the order in which they were decided, and which wait. */
void plan_add_moves(struct planning *planning);

#endif
