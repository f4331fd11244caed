/* Who owns what: epochs are given here and nowhere else. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/plan.h"
#include "coordinator/core/step_internal.h"

void step_give(struct step *step, struct processor *processor, struct agent *agent,
               const char *trouble, const char *reason)
{
    struct change change = step_placement_change(processor);
    rows_text_set(&change.placement.agent, agent->row.agent_id);
    rows_text_set(&change.placement.agent_incarnation, agent->row.incarnation);
    change.placement.epoch = ++step->cluster->meta.epoch;
    change.placement.activated = false;
    rows_text_set(&change.placement.trouble, trouble);
    rows_text_set(&change.placement.reason, reason);
    change.placement.changed_at = step->event->now_at;
    step_change(step, &change);
    step_renew_document(step, agent);
}

void step_take_away(struct step *step, struct processor *processor, const char *reason)
{
    assert(processor->placement.agent != NULL);
    struct agent *agent = cluster_agent(step->cluster, processor->placement.agent);
    struct change change = step_placement_change(processor);
    rows_text_set(&change.placement.agent, NULL);
    rows_text_set(&change.placement.agent_incarnation, NULL);
    change.placement.activated = false;
    rows_text_set(&change.placement.trouble, NULL);
    rows_text_set(&change.placement.reason, reason);
    change.placement.changed_at = step->event->now_at;
    step_change(step, &change);
    step_renew_document(step, agent);
}

/* ---- the planner's view of the cluster */

struct placing {
    struct plan_agent *agents;
    size_t agent_count;
    struct plan_processor *processors;
    struct processor **sources; /* of the same index */
    uint64_t *kept_records;     /* how far the state on kept_on is */
    size_t processor_count;
    size_t *first; /* index of processor 0, by job; SIZE_MAX: the job does not run */
};

static bool anything_to_place(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        if (job->row.state != JOB_STATE_RUNNING)
            continue;
        for (size_t p = 0; p < job->processors.count; p++)
            if (job->processors.items[p].placement.agent == NULL)
                return true;
    }
    return false;
}

static void list_processors(const struct cluster *cluster, struct placing *placing)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster->jobs.count; i++)
        count += cluster->jobs.items[i]->processors.count;
    placing->processors = mem_calloc(count, sizeof(*placing->processors));
    placing->sources = mem_calloc(count, sizeof(struct processor *));
    placing->kept_records = mem_calloc(count, sizeof(uint64_t));
    placing->first = mem_calloc(cluster->jobs.count, sizeof(size_t));
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        struct job *job = cluster->jobs.items[i];
        placing->first[i] = SIZE_MAX;
        if (job->row.state != JOB_STATE_RUNNING)
            continue;
        placing->first[i] = placing->processor_count;
        for (size_t p = 0; p < job->processors.count; p++) {
            size_t at = placing->processor_count++;
            placing->sources[at] = &job->processors.items[p];
            placing->processors[at] = (struct plan_processor){
                .job = job->row.name,
                .processor = (uint32_t)p,
                .owner = job->processors.items[p].placement.agent,
            };
        }
    }
}

/* How many tasks each agent has, also those that it is still to close. */
static uint32_t *count_loads(const struct cluster *cluster)
{
    uint32_t *loads = mem_calloc(cluster->agents.count, sizeof(uint32_t));
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++) {
            size_t index;
            const char *owner = job->processors.items[p].placement.agent;
            if (owner != NULL && cluster_find_agent(cluster, owner, &index))
                loads[index]++;
        }
    }
    return loads;
}

/* Offsets only compare within a processor, where a state that is further has the higher sum. */
static uint64_t records_of(const struct kept_state *kept)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < kept->learned.count; i++)
        if (kept->learned.items[i].offset > 0 &&
            __builtin_add_overflow(sum, (uint64_t)kept->learned.items[i].offset, &sum))
            return UINT64_MAX;
    return sum;
}

static void note_kept(const struct cluster *cluster, const struct agent *agent,
                      struct placing *placing)
{
    for (size_t i = 0; i < agent->kept.count; i++) {
        const struct kept_state *kept = &agent->kept.items[i];
        size_t index;
        if (!cluster_find_job(cluster, kept->job, &index) || placing->first[index] == SIZE_MAX)
            continue;
        const struct job *job = cluster->jobs.items[index];
        if (strcmp(job->row.incarnation, kept->job_incarnation) != 0 ||
            kept->processor >= job->processors.count)
            continue;
        size_t at = placing->first[index] + kept->processor;
        uint64_t records = records_of(kept);
        if (placing->processors[at].kept_on != NULL && placing->kept_records[at] >= records)
            continue;
        placing->processors[at].kept_on = agent->row.agent_id;
        placing->kept_records[at] = records;
    }
}

static void list_agents(const struct step *step, struct placing *placing)
{
    const struct cluster *cluster = step->cluster;
    uint32_t *loads = count_loads(cluster);
    placing->agents = mem_calloc(cluster->agents.count, sizeof(*placing->agents));
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *agent = cluster->agents.items[i];
        if (!cluster_agent_alive(cluster, agent, step->event->now_ms) || agent->stopping)
            continue;
        placing->agents[placing->agent_count++] = (struct plan_agent){
            .agent_id = agent->row.agent_id, .capacity = agent->row.capacity, .load = loads[i]};
        note_kept(cluster, agent, placing);
    }
    free(loads);
}

static void finish_placing(struct placing *placing)
{
    free(placing->agents);
    free(placing->processors);
    free(placing->sources);
    free(placing->kept_records);
    free(placing->first);
}

/* ---- carrying the plan out */

static void carry_out(struct step *step, const struct placing *placing, const struct plan *plan)
{
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_change *planned = &plan->changes[i];
        struct processor *processor = placing->sources[planned->processor];
        struct agent *agent = cluster_agent(step->cluster, planned->target);
        step_give(step, processor, agent, NULL, planned->reason);
        step_event(step,
                   (struct event_about){"processor_assigned", .processor = processor,
                                        .agent = agent->row.agent_id, .actor = ACTOR_COORDINATOR},
                   "epoch %llu: %s", (unsigned long long)processor->placement.epoch,
                   planned->reason);
    }
}

/* Those that stay without owner say why. Not an event: nothing happened to them. */
static void explain_rest(struct step *step, const struct placing *placing, const struct plan *plan)
{
    const char *reason = plan->unplaced_no_agent > 0 ? "no owner; no agent is alive"
                                                     : "no owner; the agents have no room left";
    for (size_t i = 0; i < placing->processor_count; i++) {
        struct processor *processor = placing->sources[i];
        if (processor->placement.agent != NULL ||
            rows_text_equal(processor->placement.reason, reason))
            continue;
        struct change change = step_placement_change(processor);
        rows_text_set(&change.placement.reason, reason);
        change.placement.changed_at = step->event->now_at;
        step_change(step, &change);
    }
}

void step_place(struct step *step)
{
    if (!anything_to_place(step->cluster))
        return;
    struct placing placing = {0};
    struct plan plan;
    list_processors(step->cluster, &placing);
    list_agents(step, &placing);
    plan_compute(&(struct plan_input){.agents = placing.agents,
                                      .agent_count = placing.agent_count,
                                      .processors = placing.processors,
                                      .processor_count = placing.processor_count},
                 &plan);
    carry_out(step, &placing, &plan);
    explain_rest(step, &placing, &plan);
    plan_finish(&plan);
    finish_placing(&placing);
}
