/*
 * The planner's view of a cluster: its input (plan.h), and what each row of it stands for. It
 * borrows from the cluster and is good for one plan. Pure.
 */
#ifndef BATON_COORDINATOR_CORE_PLACING_H
#define BATON_COORDINATOR_CORE_PLACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/cluster.h"
#include "coordinator/core/plan.h"

struct placing {
    struct plan_agent *agents; /* alive, and not about to leave */
    size_t agent_count;
    struct plan_processor *processors; /* of running jobs */
    struct processor **sources;        /* of the same index */
    struct job **jobs;                 /* of the same index */
    uint64_t *kept_records;            /* how far the state on kept_on is */
    size_t processor_count;
    struct plan_newcomer *newcomers;
    size_t newcomer_count, newcomer_capacity;
    struct plan_refusal *refusals;
    size_t refusal_count, refusal_capacity;
    size_t *first; /* index of processor 0, by job; SIZE_MAX: the job does not run */
};

void placing_init(struct placing *placing, const struct cluster *cluster, int64_t now_ms);
void placing_add_newcomer(struct placing *placing, const struct job *job,
                          const struct agent *agent);
bool placing_is_newcomer(const struct placing *placing, const struct job *job,
                         const struct agent *agent);
struct plan_input placing_input(const struct placing *placing);
void placing_finish(struct placing *placing);

/* It is alive, and not about to leave. */
bool placing_stays(const struct cluster *cluster, const struct agent *agent, int64_t now_ms);
/* And it is not cordoned. */
bool placing_may_receive(const struct cluster *cluster, const struct agent *agent, int64_t now_ms);
/* When the processor's owner is given up; INT64_MAX: it is there, or nobody can tell yet. */
int64_t placing_given_up_at(const struct cluster *cluster, const struct job *job,
                            const struct processor *processor, int64_t now_ms);
/* The one to take it over, on who may receive it: those that are ready first, then the one that
 * lacks least; NULL: there is none. */
const struct standby *placing_best_standby(const struct cluster *cluster, const struct job *job,
                                           const struct processor *processor, int64_t now_ms);
/* Who gets it when nobody has learned it for that: the best standby's agent, else of those that may
 * have it and have room the one with the fewest tasks, but not its owner; NULL: there is none. */
struct agent *placing_choose_target(const struct cluster *cluster, const struct job *job,
                                    const struct processor *processor, int64_t now_ms);
/* Who gets a processor that is new: of those that may have it and have room the one with the fewest
 * of the job, then with the fewest tasks; NULL: there is none. `planned`: how many more each agent
 * would have already, by its index; NULL: none. */
struct agent *placing_choose_for_new(const struct cluster *cluster, const struct job *job,
                                     int64_t now_ms, const uint32_t *planned);

#endif
