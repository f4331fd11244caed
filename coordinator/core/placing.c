#include "coordinator/core/placing.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"

bool placing_stays(const struct cluster *cluster, const struct agent *agent, int64_t now_ms)
{
    return cluster_agent_alive(cluster, agent, now_ms) && !agent->stopping;
}

bool placing_may_receive(const struct cluster *cluster, const struct agent *agent, int64_t now_ms)
{
    return placing_stays(cluster, agent, now_ms) && cluster_agent_schedulable(agent);
}

/* API_UNKNOWN counts as more than anything. */
static uint64_t lag_of(const struct cluster *cluster, const struct job *job,
                       const struct processor *processor, const struct standby *standby)
{
    int64_t most = cluster_standby_lag(cluster, job, processor, standby).most;
    return most >= 0 ? (uint64_t)most : PLAN_UNKNOWN;
}

const struct standby *placing_best_standby(const struct cluster *cluster, const struct job *job,
                                           const struct processor *processor, int64_t now_ms)
{
    const struct standby *best = NULL;
    for (size_t i = 0; i < processor->standbys.count; i++) {
        const struct standby *standby = &processor->standbys.items[i];
        const struct agent *agent = cluster_agent(cluster, standby->row.agent);
        if (placing_may_receive(cluster, agent, now_ms) &&
            (best == NULL ||
             lag_of(cluster, job, processor, standby) < lag_of(cluster, job, processor, best)))
            best = standby;
    }
    return best;
}

struct agent *placing_choose_target(const struct cluster *cluster, const struct job *job,
                                    const struct processor *processor, int64_t now_ms)
{
    const struct standby *standby = placing_best_standby(cluster, job, processor, now_ms);
    if (standby != NULL)
        return cluster_agent(cluster, standby->row.agent);
    uint32_t *tasks = cluster_count_tasks(cluster);
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *agent = cluster->agents.items[i];
        if (tasks[i] < agent->row.capacity && !cluster_is_refused(job, agent) &&
            placing_may_receive(cluster, agent, now_ms) &&
            !rows_text_equal(processor->placement.agent, agent->row.agent_id) &&
            (best == SIZE_MAX || tasks[i] < tasks[best]))
            best = i;
    }
    free(tasks);
    return best != SIZE_MAX ? cluster->agents.items[best] : NULL;
}

/* Of the job's processors, what it learns of them included. */
static uint32_t count_of_job(const struct job *job, const struct agent *agent)
{
    uint32_t count = 0;
    for (size_t p = 0; p < job->processors.count + job->nascent; p++) {
        const struct processor *processor = &job->processors.items[p];
        count += rows_text_equal(processor->placement.agent, agent->row.agent_id) ||
                 (processor->handoff != NULL &&
                  strcmp(processor->handoff->row.target, agent->row.agent_id) == 0);
    }
    return count;
}

struct agent *placing_choose_for_new(const struct cluster *cluster, const struct job *job,
                                     int64_t now_ms, const uint32_t *planned)
{
    uint32_t *tasks = cluster_count_tasks(cluster);
    struct agent *best = NULL;
    uint32_t best_of_job = 0, best_tasks = 0;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        struct agent *agent = cluster->agents.items[i];
        uint32_t more = planned != NULL ? planned[i] : 0;
        uint32_t of_job = count_of_job(job, agent) + more;
        tasks[i] += more;
        if (tasks[i] >= agent->row.capacity || cluster_is_refused(job, agent) ||
            !placing_may_receive(cluster, agent, now_ms))
            continue;
        if (best == NULL || of_job < best_of_job ||
            (of_job == best_of_job && tasks[i] < best_tasks)) {
            best = agent;
            best_of_job = of_job;
            best_tasks = tasks[i];
        }
    }
    free(tasks);
    return best;
}

static bool is_guarded(const struct cluster *cluster, const struct job *job,
                       const struct processor *processor, int64_t now_ms)
{
    const struct standby *best = placing_best_standby(cluster, job, processor, now_ms);
    return best != NULL && cluster_standby_ready(cluster, job, processor, best);
}

int64_t placing_given_up_at(const struct cluster *cluster, const struct job *job,
                            const struct processor *processor, int64_t now_ms)
{
    if (processor->placement.agent == NULL)
        return INT64_MAX;
    const struct agent *owner = cluster_agent(cluster, processor->placement.agent);
    if (owner->gone_ms == 0)
        return INT64_MAX;
    /* Nobody waits for one that was to leave. */
    if (cluster_agent_leaving(owner))
        return owner->gone_ms;
    int64_t grace_ms = owner->gone_ms + job->row.spec.rejoin_grace_ms;
    if (owner->row.state != AGENT_STATE_LOST || !is_guarded(cluster, job, processor, now_ms))
        return grace_ms;
    /* Nor, with somebody who has the state, for one that did not say that it goes; but one that was
     * lost before a restart may have come back meanwhile, and is to be heard. */
    int64_t heard_ms = cluster->listening_ms + cluster->config.agent_timeout_ms;
    int64_t lost_ms = owner->gone_ms > heard_ms ? owner->gone_ms : heard_ms;
    return lost_ms < grace_ms ? lost_ms : grace_ms;
}

/* ---- processors */

/* How much its target has still to learn, by its newest report. */
static uint64_t records_behind(const struct cluster *cluster, const struct processor *processor)
{
    const struct task_report *report = cluster_learner_report(cluster, processor);
    return report != NULL && report->caught_up_lag >= 0 ? (uint64_t)report->caught_up_lag
                                                        : PLAN_UNKNOWN;
}

static void describe_handoff(const struct cluster *cluster, const struct job *job,
                             const struct processor *processor, struct plan_processor *described)
{
    const struct handoff *handoff = processor->handoff;
    described->target = handoff->row.target;
    /* While no other may begin this one is not given up for a better one either. */
    described->fixed = !handoff->row.planned || cluster->maintenance.hold.on ||
                       (handoff->row.state != HANDOFF_STATE_LEARNING &&
                        handoff->row.state != HANDOFF_STATE_CAUGHT_UP);
    described->behind = records_behind(cluster, processor);
    described->learning = cluster_is_learning(job, handoff);
    /* Whoever is asked for, what has no owner left is taken over. */
    if (described->gone || described->owner == NULL)
        described->fixed = false;
}

static void describe_standby(const struct cluster *cluster, int64_t now_ms, const struct job *job,
                             const struct processor *processor, struct plan_processor *described)
{
    const struct standby *best = placing_best_standby(cluster, job, processor, now_ms);
    described->standby_behind = PLAN_UNKNOWN;
    if (best == NULL)
        return;
    described->standby_on = cluster_agent(cluster, best->row.agent)->row.agent_id;
    described->standby_behind = lag_of(cluster, job, processor, best);
    described->standby_ready = cluster_standby_ready(cluster, job, processor, best);
}

/* Why people want no planned hand-over of the job to begin. One that asks for evening it out now
 * knows of the maintenance. */
static const char *find_hold(const struct cluster *cluster, const struct job *job)
{
    if (job->row.pause.on)
        return "the job is paused";
    if (job->row.group.hold != GROUP_HOLD_NONE)
        return "others are in the job's group";
    return cluster->maintenance.hold.on && cluster_rebalance_of(cluster, job) == 0
               ? "maintenance is on"
               : NULL;
}

static struct plan_processor describe_processor(const struct cluster *cluster, int64_t now_ms,
                                                const struct job *job,
                                                const struct processor *processor)
{
    struct plan_processor described = {
        .job = job->row.name,
        .processor = processor->placement.processor,
        .owner = processor->placement.agent,
        .gone = now_ms >= placing_given_up_at(cluster, job, processor, now_ms),
        .behind = PLAN_UNKNOWN,
        .kept_behind = PLAN_UNKNOWN,
        .stateless = !job->row.spec.stateful,
        .max_learners = job->row.spec.max_learners,
        .avoid = processor->avoid,
        .resting = now_ms < processor->handoff_retry_ms,
    };
    describe_standby(cluster, now_ms, job, processor, &described);
    if (processor->handoff != NULL)
        describe_handoff(cluster, job, processor, &described);
    return described;
}

static void list_processors(struct placing *placing, const struct cluster *cluster, int64_t now_ms)
{
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
        const char *held = find_hold(cluster, job);
        for (size_t p = 0; p < job->processors.count; p++) {
            size_t at = placing->processor_count++;
            placing->sources[at] = &job->processors.items[p];
            placing->jobs[at] = job;
            placing->processors[at] =
                describe_processor(cluster, now_ms, job, &job->processors.items[p]);
            placing->processors[at].held =
                held == NULL && cluster_split_of(job, (uint32_t)p) != NULL ? "it is being split"
                                                                           : held;
        }
    }
}

/* ---- kept states */

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

/* T1 of what its owner reported last, else of what an earlier run stored. */
static uint64_t committed_of(const struct processor *processor)
{
    const struct partition_progress *items = processor->stored.items;
    size_t count = processor->stored.count;
    if (processor->observed.known) {
        items = processor->observed.report.progress.items;
        count = processor->observed.report.progress.count;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (items[i].t1 < 0 || __builtin_add_overflow(sum, (uint64_t)items[i].t1, &sum))
            return PLAN_UNKNOWN;
    return count > 0 ? sum : PLAN_UNKNOWN;
}

/* The owner's own is none that could be moved to. */
static void note_kept(struct placing *placing, size_t at, const struct agent *agent,
                      uint64_t records)
{
    struct plan_processor *processor = &placing->processors[at];
    if (processor->owner != NULL && strcmp(processor->owner, agent->row.agent_id) == 0)
        return;
    if (processor->kept_on != NULL && placing->kept_records[at] >= records)
        return;
    uint64_t committed = committed_of(placing->sources[at]);
    processor->kept_on = agent->row.agent_id;
    placing->kept_records[at] = records;
    processor->kept_behind = committed == PLAN_UNKNOWN ? PLAN_UNKNOWN
                             : committed > records     ? committed - records
                                                       : 0;
}

static void note_kept_on(struct placing *placing, const struct cluster *cluster,
                         const struct agent *agent)
{
    for (size_t i = 0; i < agent->kept.count; i++) {
        const struct kept_state *kept = &agent->kept.items[i];
        size_t index;
        if (!cluster_find_job(cluster, kept->job, &index) || placing->first[index] == SIZE_MAX)
            continue;
        const struct job *job = cluster->jobs.items[index];
        if (strcmp(job->row.incarnation, kept->job_incarnation) == 0 &&
            kept->processor < job->processors.count)
            note_kept(placing, placing->first[index] + kept->processor, agent, records_of(kept));
    }
}

/* ---- agents */

static void list_agents(struct placing *placing, const struct cluster *cluster, int64_t now_ms)
{
    uint32_t *tasks = cluster_count_tasks(cluster);
    placing->agents = mem_calloc(cluster->agents.count, sizeof(*placing->agents));
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *agent = cluster->agents.items[i];
        if (!placing_stays(cluster, agent, now_ms))
            continue;
        bool cordoned = !cluster_agent_schedulable(agent);
        placing->agents[placing->agent_count++] =
            (struct plan_agent){.agent_id = agent->row.agent_id,
                                .capacity = agent->row.capacity,
                                .load = tasks[i],
                                .max_learners = agent->row.max_learners,
                                .cordoned = cordoned,
                                .leaving = cluster_agent_leaving(agent)};
        if (!cordoned) /* else the state would hide one that can be used */
            note_kept_on(placing, cluster, agent);
    }
    free(tasks);
}

static void list_refusals(struct placing *placing, const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        for (size_t a = 0; a < job->arrivals.count; a++) {
            const struct agent *agent = cluster_agent(cluster, job->arrivals.items[a].agent);
            if (!cluster_is_refused(job, agent))
                continue;
            placing->refusals = mem_grow(placing->refusals, placing->refusal_count,
                                         &placing->refusal_capacity, sizeof(struct plan_refusal));
            placing->refusals[placing->refusal_count++] =
                (struct plan_refusal){.job = job->row.name, .agent_id = agent->row.agent_id};
        }
    }
}

void placing_add_newcomer(struct placing *placing, const struct job *job, const struct agent *agent)
{
    placing->newcomers = mem_grow(placing->newcomers, placing->newcomer_count,
                                  &placing->newcomer_capacity, sizeof(struct plan_newcomer));
    placing->newcomers[placing->newcomer_count++] =
        (struct plan_newcomer){.job = job->row.name, .agent_id = agent->row.agent_id};
}

bool placing_is_newcomer(const struct placing *placing, const struct job *job,
                         const struct agent *agent)
{
    for (size_t i = 0; i < placing->newcomer_count; i++)
        if (placing->newcomers[i].job == job->row.name &&
            placing->newcomers[i].agent_id == agent->row.agent_id)
            return true;
    return false;
}

/* ---- */

void placing_init(struct placing *placing, const struct cluster *cluster, int64_t now_ms)
{
    *placing = (struct placing){0};
    list_processors(placing, cluster, now_ms);
    list_agents(placing, cluster, now_ms);
    list_refusals(placing, cluster);
}

struct plan_input placing_input(const struct placing *placing)
{
    return (struct plan_input){.agents = placing->agents,
                               .agent_count = placing->agent_count,
                               .processors = placing->processors,
                               .processor_count = placing->processor_count,
                               .newcomers = placing->newcomers,
                               .newcomer_count = placing->newcomer_count,
                               .refusals = placing->refusals,
                               .refusal_count = placing->refusal_count};
}

void placing_finish(struct placing *placing)
{
    free(placing->agents);
    free(placing->processors);
    free(placing->sources);
    free(placing->jobs);
    free(placing->kept_records);
    free(placing->newcomers);
    free(placing->refusals);
    free(placing->first);
}
