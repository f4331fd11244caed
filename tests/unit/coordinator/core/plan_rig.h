/*
 * A cluster as the planner sees it, that plans can be carried out in: what tests of evening out
 * share. Loads are those of its processors.
 */
#ifndef BATON_TESTS_COORDINATOR_CORE_PLAN_RIG_H
#define BATON_TESTS_COORDINATOR_CORE_PLAN_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/plan.h"

#define PLAN_RIG_AGENTS     8
#define PLAN_RIG_JOBS       4
#define PLAN_RIG_PROCESSORS 96

struct fleet {
    char names[PLAN_RIG_AGENTS][8];
    struct plan_agent agents[PLAN_RIG_AGENTS];
    size_t agent_count;
    struct plan_processor processors[PLAN_RIG_PROCESSORS];
    size_t processor_count;
    struct plan_newcomer newcomers[PLAN_RIG_AGENTS * PLAN_RIG_JOBS];
    size_t newcomer_count;
    struct plan_refusal refusals[PLAN_RIG_AGENTS];
    size_t refusal_count;
};

extern const char *const plan_rig_jobs[PLAN_RIG_JOBS]; /* names */

/* `from` as it is, but with texts of its own. */
void plan_rig_copy(struct fleet *ret_copy, const struct fleet *from);
void plan_rig_add_agents(struct fleet *fleet, size_t count, uint32_t capacity);
void plan_rig_add_processors(struct fleet *fleet, const char *job, size_t count, size_t owner);
void plan_rig_add_newcomer(struct fleet *fleet, const char *job, size_t agent);
bool plan_rig_is_newcomer(const struct fleet *fleet, const char *job, const char *agent_id);
size_t plan_rig_agent(const struct fleet *fleet, const char *agent_id); /* SIZE_MAX: none */
void plan_rig_count_loads(struct fleet *fleet);
uint32_t plan_rig_count_in_job(const struct fleet *fleet, const char *job, size_t agent);

void plan_rig_plan(struct fleet *fleet, struct plan *ret_plan);
/* Those that are not just waiting. */
size_t plan_rig_count_changes(const struct plan *plan);
/* As the coordinator does at once: learners start and go, nothing has arrived yet. */
void plan_rig_begin(struct fleet *fleet, const struct plan *plan);
/* The processor's hand-over ends well. */
void plan_rig_arrive(struct fleet *fleet, size_t processor);
void plan_rig_arrive_all(struct fleet *fleet);

/*
 * What holds for every plan: no processor twice; only newcomers are handed anything, but by
 * agents that are to leave; nobody cordoned gets anything; capacity and
 * max_learners are kept from the begin on. `what` is named when not.
 */
void plan_rig_check(const struct fleet *fleet, const struct plan *plan, const char *what);

#endif
