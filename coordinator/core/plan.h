/*
 * Placement (D5): a function without side effects from what is to what should change, each change
 * with its reason.
 *
 * First it places what has no owner, and what had one that is gone. Then it empties the agents
 * that are to leave, and evens the loads out, but only towards newcomers: nothing moves between
 * agents that are established and stay, and nothing moves when nothing has arrived, left or been
 * asked for. Hand-overs under way that are still wanted are kept,
 * those that are not are superseded or cancelled; a move starts only where it takes a difference of
 * at least two, so nothing swings to and fro.
 *
 * No more than max_learners learn at a time on an agent, and of a job; what is owed beyond that
 * waits, as does what an agent has no room for yet, and the plan says so.
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
    uint32_t load;         /* tasks of all jobs on it, learners among them; not standbys, which
                              give way (plan_standby.h) */
    uint32_t max_learners; /* at a time; 0: no limit */
    bool cordoned;         /* keeps what it has, or gives it to newcomers; receives nothing */
    bool leaving;          /* and shall give away all that it has; cordoned as well */
};

struct plan_processor {
    const char *job;
    uint32_t processor;
    const char *owner;       /* agent id, or NULL; one that is none of the agents stays out of it */
    const char *kept_on;     /* the agent with the most advanced kept state, or NULL */
    const char *standby_on;  /* the agent with the most advanced standby of those that may receive
                                processors, or NULL */
    bool gone;               /* its owner is given up: another agent takes it over */
    const char *target;      /* of the hand-over under way; NULL: none */
    bool fixed;              /* that hand-over is not the plan's to take back */
    uint64_t behind;         /* records that the target has still to learn; PLAN_UNKNOWN */
    uint64_t kept_behind;    /* ... that the state on kept_on lacks */
    uint64_t standby_behind; /* ... that the standby on standby_on lacks */
    bool standby_ready;      /* which is little enough to take over at once */
    bool learning;           /* the target of the hand-over under way learns: it takes a slot */
    bool stateless;          /* hand-overs of the job need no slot */
    uint32_t max_learners;   /* of the job at a time; 0: no limit */
    const char *avoid;       /* agent that its last hand-over came to nothing on, or NULL */
    bool resting;            /* its last hand-over came to nothing: none is to start now */
    const char *held;        /* why people want none to start; NULL: they do not */
};

struct plan_newcomer { /* an agent that is owed processors of the job */
    const char *job;
    const char *agent_id;
};

struct plan_refusal { /* an agent that can not rebuild states of the job */
    const char *job;
    const char *agent_id;
};

bool plan_is_refused(const struct plan_refusal *refusals, size_t count, const char *job,
                     const char *agent_id);

struct plan_input {
    const struct plan_agent *agents; /* alive ones */
    size_t agent_count;
    const struct plan_processor *processors;
    size_t processor_count;
    const struct plan_newcomer *newcomers;
    size_t newcomer_count;
    const struct plan_refusal *refusals;
    size_t refusal_count;
};

enum plan_kind {
    PLAN_KIND_PLACE,     /* the target gets what has no owner, or whose owner is gone */
    PLAN_KIND_CANCEL,    /* the hand-over under way is not wanted any more; target NULL */
    PLAN_KIND_HAND_OVER, /* the target shall learn it, then take it over; supersedes `target` */
    PLAN_KIND_WAIT       /* the target (NULL: nobody yet) is to get it, but this can not start now;
                            nothing is to be done */
};

struct plan_change {
    enum plan_kind kind;
    size_t processor;   /* index in the input */
    const char *target; /* agent id */
    char *reason;
};

struct plan {
    struct plan_change *changes; /* PLACE first; moves in the order of their start */
    size_t change_count;
    uint32_t unplaced_no_agent;    /* processors that stay without owner: nobody may receive */
    uint32_t unplaced_no_capacity; /* ... or all are full */
};

void plan_compute(const struct plan_input *input, struct plan *ret_plan);
void plan_finish(struct plan *plan);

#endif
