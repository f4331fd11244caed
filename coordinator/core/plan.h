/*
 * Placement (D5): a function without side effects from what is to what should change, each change
 * with its reason.
 *
 * In this version it places what has no owner and moves nothing. Deterministic, and independent of
 * the order of input rows: same input, same plan.
 */
#ifndef BATON_COORDINATOR_CORE_PLAN_H
#define BATON_COORDINATOR_CORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan_agent { /* borrowed texts */
    const char *agent_id;
    uint32_t capacity;
    uint32_t load; /* tasks of all jobs placed on it */
};

struct plan_processor {
    const char *job;
    uint32_t processor;
    const char *owner;   /* agent id, or NULL */
    const char *kept_on; /* the agent with the most advanced kept state, or NULL */
};

struct plan_input {
    const struct plan_agent *agents; /* alive ones that may receive tasks */
    size_t agent_count;
    const struct plan_processor *processors;
    size_t processor_count;
};

struct plan_change {
    size_t processor;   /* index in the input */
    const char *target; /* agent id */
    char *reason;
};

struct plan {
    struct plan_change *changes;
    size_t change_count;
    uint32_t unplaced_no_agent;    /* processors that stay without owner: nobody is there */
    uint32_t unplaced_no_capacity; /* ... or all are full */
};

void plan_compute(const struct plan_input *input, struct plan *ret_plan);
void plan_finish(struct plan *plan);

#endif
