/* Who owns what: epochs are given here and nowhere else. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/plan.h"
#include "coordinator/core/step_internal.h"

void step_give(struct step *step, struct processor *processor, struct agent *agent,
               const char *trouble, const char *reason)
{
    const struct handoff *handoff = processor->handoff;
    struct change change = step_placement_change(processor);
    rows_text_set(&change.placement.agent, agent->row.agent_id);
    rows_text_set(&change.placement.agent_incarnation, agent->row.incarnation);
    change.placement.epoch = ++step->cluster->meta.epoch;
    change.placement.activated = false;
    change.placement.handoff =
        handoff != NULL && !handoff_before_release(handoff->row.state) ? handoff->row.id : 0;
    rows_text_set(&change.placement.trouble, trouble);
    rows_text_set(&change.placement.reason, reason);
    change.placement.changed_at = step->event->now_at;
    step_change(step, &change);
    step_renew_document(step, agent);
    step_handoff_follow_epoch(step, processor);
}

void step_take_away(struct step *step, struct processor *processor, const char *reason)
{
    assert(processor->placement.agent != NULL);
    struct agent *agent = cluster_agent(step->cluster, processor->placement.agent);
    struct change change = step_placement_change(processor);
    rows_text_set(&change.placement.agent, NULL);
    rows_text_set(&change.placement.agent_incarnation, NULL);
    change.placement.activated = false;
    change.placement.handoff = 0;
    rows_text_set(&change.placement.trouble, NULL);
    rows_text_set(&change.placement.reason, reason);
    change.placement.changed_at = step->event->now_at;
    step_change(step, &change);
    step_renew_document(step, agent);
}

void step_set_arrival(struct step *step, struct job *job, const struct agent *agent, bool open)
{
    const struct arrival_row *known = cluster_arrival(job, agent->row.agent_id);
    if (known != NULL && known->open == open &&
        strcmp(known->incarnation, agent->row.incarnation) == 0)
        return;
    struct change change = {.kind = CHANGE_ARRIVAL,
                            .arrival = {.job = mem_strdup(job->row.name),
                                        .agent = mem_strdup(agent->row.agent_id),
                                        .incarnation = mem_strdup(agent->row.incarnation),
                                        .open = open}};
    step_change(step, &change);
}

/* ---- the planner's view of the cluster */

struct placing {
    struct plan_agent *agents;
    size_t agent_count;
    struct plan_processor *processors;
    struct processor **sources; /* of the same index */
    struct job **jobs;          /* of the same index */
    uint64_t *kept_records;     /* how far the state on kept_on is */
    size_t processor_count;
    struct plan_newcomer *newcomers;
    size_t newcomer_count, newcomer_capacity;
    size_t *first; /* index of processor 0, by job; SIZE_MAX: the job does not run */
};

static bool may_receive(const struct step *step, const struct agent *agent)
{
    return cluster_agent_alive(step->cluster, agent, step->event->now_ms) && !agent->stopping;
}

/* When its owner is given up; INT64_MAX: it is there, or nobody can tell yet. */
static int64_t given_up_at(const struct cluster *cluster, const struct job *job,
                           const struct placement_row *placement)
{
    if (placement->agent == NULL)
        return INT64_MAX;
    const struct agent *owner = cluster_agent(cluster, placement->agent);
    return owner->gone_ms != 0 ? owner->gone_ms + job->row.spec.rejoin_grace_ms : INT64_MAX;
}

/* How much its target has still to learn, by its newest report. */
static uint64_t records_behind(const struct cluster *cluster, const struct processor *processor)
{
    const struct task_report *report = cluster_learner_report(cluster, processor);
    return report != NULL && report->caught_up_lag >= 0 ? (uint64_t)report->caught_up_lag
                                                        : PLAN_UNKNOWN;
}

static struct plan_processor describe_processor(const struct step *step, const struct job *job,
                                                const struct processor *processor)
{
    const struct handoff *handoff = processor->handoff;
    struct plan_processor described = {
        .job = job->row.name,
        .processor = processor->placement.processor,
        .owner = processor->placement.agent,
        .gone = step->event->now_ms >= given_up_at(step->cluster, job, &processor->placement),
        .behind = PLAN_UNKNOWN,
    };
    if (handoff == NULL)
        return described;
    described.target = handoff->row.target;
    described.fixed = !handoff->row.planned || (handoff->row.state != HANDOFF_STATE_LEARNING &&
                                                handoff->row.state != HANDOFF_STATE_CAUGHT_UP);
    described.behind = records_behind(step->cluster, processor);
    /* Whoever is asked for, what has no owner left is taken over. */
    if (described.gone || described.owner == NULL)
        described.fixed = false;
    return described;
}

static void list_processors(const struct step *step, struct placing *placing)
{
    const struct cluster *cluster = step->cluster;
    size_t count = 0;
    for (size_t i = 0; i < cluster->jobs.count; i++)
        count += cluster->jobs.items[i]->processors.count;
    placing->processors = mem_calloc(count, sizeof(*placing->processors));
    placing->sources = mem_calloc(count, sizeof(struct processor *));
    placing->jobs = mem_calloc(count, sizeof(struct job *));
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
            placing->jobs[at] = job;
            placing->processors[at] = describe_processor(step, job, &job->processors.items[p]);
        }
    }
}

static void count_task(const struct cluster *cluster, const char *agent_id, uint32_t *loads)
{
    size_t index;
    if (agent_id != NULL && cluster_find_agent(cluster, agent_id, &index))
        loads[index]++;
}

/* How many tasks each agent has, learners and those that it is still to close among them. */
static uint32_t *count_loads(const struct cluster *cluster)
{
    uint32_t *loads = mem_calloc(cluster->agents.count, sizeof(uint32_t));
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++) {
            const struct handoff *handoff = job->processors.items[p].handoff;
            count_task(cluster, job->processors.items[p].placement.agent, loads);
            if (handoff != NULL && handoff_before_release(handoff->row.state))
                count_task(cluster, handoff->row.target, loads);
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
        if (!may_receive(step, agent))
            continue;
        placing->agents[placing->agent_count++] = (struct plan_agent){
            .agent_id = agent->row.agent_id, .capacity = agent->row.capacity, .load = loads[i]};
        note_kept(cluster, agent, placing);
    }
    free(loads);
}

/* ---- newcomers (D5): who owns nothing of the job when it is looked at first, once per start */

/*
 * Whether it has come to a job that others run. Who was there when a job was placed first has got
 * its share, if only nothing.
 */
static bool comes_to(const struct job *job, const char *agent_id)
{
    bool others = false;
    for (size_t p = 0; p < job->processors.count; p++) {
        const char *owner = job->processors.items[p].placement.agent;
        if (rows_text_equal(owner, agent_id))
            return false;
        others = others || owner != NULL;
    }
    return others;
}

static bool is_newcomer(const struct job *job, const struct agent *agent)
{
    const struct arrival_row *arrival = cluster_arrival(job, agent->row.agent_id);
    if (arrival != NULL && strcmp(arrival->incarnation, agent->row.incarnation) == 0)
        return arrival->open;
    return comes_to(job, agent->row.agent_id);
}

static void list_newcomers(const struct step *step, struct placing *placing)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        if (job->row.state != JOB_STATE_RUNNING)
            continue;
        for (size_t a = 0; a < placing->agent_count; a++) {
            const struct agent *agent = cluster_agent(cluster, placing->agents[a].agent_id);
            if (!is_newcomer(job, agent))
                continue;
            placing->newcomers =
                mem_grow(placing->newcomers, placing->newcomer_count, &placing->newcomer_capacity,
                         sizeof(struct plan_newcomer));
            placing->newcomers[placing->newcomer_count++] =
                (struct plan_newcomer){.job = job->row.name, .agent_id = agent->row.agent_id};
        }
    }
}

/* What it is owed is not known while processors are with agents that may come back or go. */
static bool is_settled(const struct step *step, const struct job *job)
{
    for (size_t p = 0; p < job->processors.count; p++) {
        const char *owner = job->processors.items[p].placement.agent;
        if (owner == NULL || !may_receive(step, cluster_agent(step->cluster, owner)))
            return false;
    }
    return true;
}

static bool is_owed(const struct job *job, const struct placing *placing, const struct plan *plan,
                    const char *agent_id)
{
    for (size_t p = 0; p < job->processors.count; p++) {
        const struct handoff *handoff = job->processors.items[p].handoff;
        if (handoff != NULL && strcmp(handoff->row.target, agent_id) == 0)
            return true;
    }
    for (size_t i = 0; i < plan->change_count; i++)
        if (plan->changes[i].kind == PLAN_KIND_HAND_OVER &&
            placing->jobs[plan->changes[i].processor] == job &&
            strcmp(plan->changes[i].target, agent_id) == 0)
            return true;
    return false;
}

static void note_arrivals(struct step *step, const struct placing *placing, const struct plan *plan)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++) {
        struct job *job = step->cluster->jobs.items[i];
        if (job->row.state != JOB_STATE_RUNNING)
            continue;
        bool settled = is_settled(step, job);
        for (size_t a = 0; a < placing->agent_count; a++) {
            const struct agent *agent = cluster_agent(step->cluster, placing->agents[a].agent_id);
            const struct arrival_row *arrival = cluster_arrival(job, agent->row.agent_id);
            bool known =
                arrival != NULL && strcmp(arrival->incarnation, agent->row.incarnation) == 0;
            if (known && !arrival->open)
                continue;
            bool newcomer = false;
            for (size_t n = 0; n < placing->newcomer_count && !newcomer; n++)
                newcomer = placing->newcomers[n].job == job->row.name &&
                           strcmp(placing->newcomers[n].agent_id, agent->row.agent_id) == 0;
            step_set_arrival(step, job, agent,
                             newcomer &&
                                 (!settled || is_owed(job, placing, plan, agent->row.agent_id)));
        }
    }
}

static void finish_placing(struct placing *placing)
{
    free(placing->agents);
    free(placing->processors);
    free(placing->sources);
    free(placing->jobs);
    free(placing->kept_records);
    free(placing->newcomers);
    free(placing->first);
}

/* ---- carrying the plan out */

static void give_placed(struct step *step, struct processor *processor, struct agent *agent,
                        const char *reason)
{
    step_give(step, processor, agent, NULL, reason);
    step_event(step,
               (struct event_about){"processor_assigned", .processor = processor,
                                    .agent = agent->row.agent_id, .actor = ACTOR_COORDINATOR},
               "epoch %llu: %s", (unsigned long long)processor->placement.epoch, reason);
}

/* Hand-overs of the job during which the target learns. */
static uint32_t count_learners(const struct job *job)
{
    uint32_t count = 0;
    for (size_t p = 0; p < job->processors.count; p++) {
        const struct handoff *handoff = job->processors.items[p].handoff;
        count += handoff != NULL && handoff_before_release(handoff->row.state);
    }
    return count;
}

static void hand_over(struct step *step, const struct job *job, struct processor *processor,
                      struct agent *target, const char *reason)
{
    uint32_t limit = job->row.spec.max_learners;
    if (processor->handoff != NULL)
        step_handoff_cancel(step, processor->handoff, true,
                            "superseded: a newcomer is better off with it");
    if (step->event->now_ms < processor->handoff_retry_ms ||
        (limit > 0 && count_learners(job) >= limit))
        return; /* the plan says it again later */
    step_handoff_start(step, job, processor,
                       (struct handoff_wish){.target = target,
                                             .planned = true,
                                             .operation = step_rebalance_of(step->cluster, job),
                                             .reason = reason});
}

static void carry_out(struct step *step, const struct placing *placing, const struct plan *plan)
{
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_change *planned = &plan->changes[i];
        struct processor *processor = placing->sources[planned->processor];
        const struct job *job = placing->jobs[planned->processor];
        struct agent *target =
            planned->target != NULL ? cluster_agent(step->cluster, planned->target) : NULL;
        switch (planned->kind) {
        case PLAN_KIND_PLACE:
            if (processor->handoff != NULL || processor->placement.agent != NULL)
                step_handoff_force(step, job, processor, target, planned->reason);
            else
                give_placed(step, processor, target, planned->reason);
            break;
        case PLAN_KIND_CANCEL:
            step_handoff_cancel(step, processor->handoff, true, planned->reason);
            break;
        case PLAN_KIND_HAND_OVER:
            hand_over(step, job, processor, target, planned->reason);
            break;
        }
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

static void earliest(int64_t now_ms, int64_t candidate_ms, int64_t *ret_ms)
{
    if (candidate_ms > now_ms && candidate_ms < *ret_ms)
        *ret_ms = candidate_ms;
}

/* When an owner will be given up, or a hand-over may be tried again. */
static int64_t next_plan(const struct step *step, const struct placing *placing)
{
    int64_t now_ms = step->event->now_ms, next_ms = INT64_MAX;
    for (size_t i = 0; i < placing->processor_count; i++) {
        const struct processor *processor = placing->sources[i];
        earliest(now_ms, given_up_at(step->cluster, placing->jobs[i], &processor->placement),
                 &next_ms);
        earliest(now_ms, processor->handoff_retry_ms, &next_ms);
    }
    return next_ms;
}

void step_place(struct step *step)
{
    struct placing placing = {0};
    struct plan plan;
    list_processors(step, &placing);
    list_agents(step, &placing);
    list_newcomers(step, &placing);
    plan_compute(&(struct plan_input){.agents = placing.agents,
                                      .agent_count = placing.agent_count,
                                      .processors = placing.processors,
                                      .processor_count = placing.processor_count,
                                      .newcomers = placing.newcomers,
                                      .newcomer_count = placing.newcomer_count},
                 &plan);
    carry_out(step, &placing, &plan);
    explain_rest(step, &placing, &plan);
    note_arrivals(step, &placing, &plan);
    step->cluster->place_ms = next_plan(step, &placing);
    plan_finish(&plan);
    finish_placing(&placing);
}
