/*
 * Standbys: agents that learn a processor for good. coordinator/core/plan_standby.h says where they
 * are; here that is carried out, and reports of them are judged.
 *
 * When its agent gets the processor, or is to, a standby becomes the owner's task, or the learner
 * of a hand-over: the agent goes on with the state that it has.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/placing.h"
#include "coordinator/core/plan_standby.h"
#include "coordinator/core/step_internal.h"

static void remove_row(struct step *step, const struct processor *processor, const char *agent_id)
{
    struct change change = {.kind = CHANGE_STANDBY_REMOVED,
                            .standby = {.job = mem_strdup(processor->placement.job),
                                        .processor = processor->placement.processor,
                                        .agent = mem_strdup(agent_id)}};
    step_change(step, &change);
}

/* ---- beginning and ending */

static void begin(struct step *step, struct processor *processor, struct agent *agent,
                  const char *reason)
{
    struct change change = {.kind = CHANGE_STANDBY,
                            .standby = {.job = mem_strdup(processor->placement.job),
                                        .processor = processor->placement.processor,
                                        .agent = mem_strdup(agent->row.agent_id),
                                        .agent_incarnation = mem_strdup(agent->row.incarnation),
                                        .reason = text_printf("%s", reason),
                                        .started_at = step->event->now_at}};
    step_change(step, &change);
    step_renew_document(step, agent);
    step_event(step,
               (struct event_about){"standby_started", .processor = processor,
                                    .agent = agent->row.agent_id, .actor = ACTOR_COORDINATOR},
               "%s", reason);
}

static void end(struct step *step, struct processor *processor, const char *agent_id,
                const char *reason)
{
    struct agent *agent = cluster_agent(step->cluster, agent_id);
    cluster_note_kept(step->cluster, &cluster_standby(processor, agent_id)->observed);
    remove_row(step, processor, agent->row.agent_id);
    step_renew_document(step, agent);
    step_event(step,
               (struct event_about){"standby_ended", .processor = processor,
                                    .agent = agent->row.agent_id, .actor = ACTOR_COORDINATOR},
               "%s", reason);
}

void step_standby_becomes(struct step *step, struct processor *processor, const struct agent *agent)
{
    if (cluster_standby(processor, agent->row.agent_id) != NULL)
        remove_row(step, processor, agent->row.agent_id);
}

void step_end_standbys(struct step *step, const struct job *job, const char *reason)
{
    for (size_t p = 0; p < job->processors.count; p++) {
        struct processor *processor = &job->processors.items[p];
        while (processor->standbys.count > 0) {
            char *agent_id = mem_strdup(processor->standbys.items[0].row.agent);
            end(step, processor, agent_id, reason);
            free(agent_id);
        }
    }
}

/* The new start has the state on its disk, and goes on from there. */
void step_standbys_of_new_start(struct step *step, const struct agent *agent)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++) {
        const struct job *job = step->cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++) {
            struct standby *standby =
                cluster_standby(&job->processors.items[p], agent->row.agent_id);
            if (standby == NULL)
                continue;
            struct change change = {.kind = CHANGE_STANDBY};
            rows_copy_standby(&change.standby, &standby->row);
            rows_text_set(&change.standby.agent_incarnation, agent->row.incarnation);
            step_change(step, &change);
            standby->ready = standby->learned = false;
        }
    }
}

/* ---- reports */

void step_standby_reported(struct step *step, const struct job *job, struct processor *processor,
                           struct standby *standby)
{
    const struct task_report *report = &standby->observed.report;
    bool ready = cluster_standby_ready(step->cluster, job, processor, standby);
    if (report->state == TASK_STATE_FAILED && step_refuse_standby(step, standby, report))
        step->place = true; /* it goes elsewhere */
    if (ready && !standby->ready)
        step->place = true; /* its slot is free, or it is waited for */
    standby->ready = ready;
    standby->learned = standby->learned || ready;
}

void step_standby_rescue(struct step *step, const struct job *job, struct processor *processor)
{
    const struct task_report *report = &processor->observed.report;
    const struct standby *best =
        placing_best_standby(step->cluster, job, processor, step->event->now_ms);
    if (processor->handoff != NULL || best == NULL ||
        !handoff_is_hopeless(step_failure_code(report)) ||
        !cluster_standby_ready(step->cluster, job, processor, best))
        return;
    char *reason = text_printf("agent %s can not rebuild it and %s has its standby",
                               processor->placement.agent, best->row.agent);
    step_handoff_force(step, job, processor, cluster_agent(step->cluster, best->row.agent), reason);
    free(reason);
}

/* ---- the plan */

struct survey {              /* the plan's input, and what its rows are of */
    struct plan_host *hosts; /* by agent */
    struct plan_guarded *processors;
    struct processor **sources;
    struct plan_holding *holdings;
    size_t processor_count, holding_count, holding_capacity;
};

static void list_hosts(const struct step *step, struct survey *survey)
{
    const struct cluster *cluster = step->cluster;
    uint32_t *tasks = cluster_count_tasks(cluster);
    survey->hosts = mem_calloc(cluster->agents.count, sizeof(struct plan_host));
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *agent = cluster->agents.items[i];
        survey->hosts[i] = (struct plan_host){
            .agent_id = agent->row.agent_id,
            .zone = cluster_agent_zone(agent),
            .capacity = agent->row.capacity,
            .load = tasks[i],
            .max_learners = agent->row.max_learners,
            .barred = !placing_may_receive(cluster, agent, step->event->now_ms),
        };
    }
    for (size_t i = 0; i < cluster->handoffs.count; i++) {
        const struct handoff *handoff = cluster->handoffs.items[i];
        size_t index;
        if (cluster_is_learning(cluster_job(cluster, handoff->row.job), handoff) &&
            cluster_find_agent(cluster, handoff->row.target, &index))
            survey->hosts[index].learners++;
    }
    free(tasks);
}

/* When it is given up because its agent is gone; INT64_MAX: it is not gone. */
static int64_t given_up_at(const struct job *job, const struct agent *agent)
{
    return agent->gone_ms == 0 ? INT64_MAX : agent->gone_ms + job->row.spec.rejoin_grace_ms;
}

/* NULL: it stays. */
static const char *say_lost(const struct step *step, const struct job *job,
                            const struct agent *agent)
{
    if (cluster_agent_leaving(agent))
        return "is to leave";
    return step->event->now_ms >= given_up_at(job, agent) ? "is gone" : NULL;
}

static void list_holdings(const struct step *step, const struct job *job,
                          const struct processor *processor, struct survey *survey)
{
    for (size_t i = 0; i < processor->standbys.count; i++) {
        const struct standby *standby = &processor->standbys.items[i];
        const struct agent *agent = cluster_agent(step->cluster, standby->row.agent);
        survey->holdings = mem_grow(survey->holdings, survey->holding_count,
                                    &survey->holding_capacity, sizeof(struct plan_holding));
        survey->holdings[survey->holding_count++] =
            (struct plan_holding){.processor = survey->processor_count,
                                  .agent_id = standby->row.agent,
                                  .learning = !standby->learned,
                                  .lost = say_lost(step, job, agent)};
    }
}

static void list_processors(const struct step *step, const struct placing *placing,
                            struct survey *survey)
{
    survey->processors = mem_calloc(placing->processor_count, sizeof(struct plan_guarded));
    survey->sources = mem_calloc(placing->processor_count, sizeof(struct processor *));
    for (size_t i = 0; i < placing->processor_count; i++) {
        const struct job *job = placing->jobs[i];
        struct processor *processor = placing->sources[i];
        const struct handoff *handoff = processor->handoff;
        bool before = handoff != NULL && handoff_before_release(handoff->row.state);
        if (!job->row.spec.stateful ||
            (job->row.spec.standbys == 0 && processor->standbys.count == 0))
            continue;
        list_holdings(step, job, processor, survey);
        survey->sources[survey->processor_count] = processor;
        survey->processors[survey->processor_count++] =
            (struct plan_guarded){.job = job->row.name,
                                  .processor = processor->placement.processor,
                                  .wanted = job->row.spec.standbys,
                                  .owner = processor->placement.agent,
                                  .target = before ? handoff->row.target : NULL,
                                  .learning = before,
                                  .kept_on = placing->processors[i].kept_on,
                                  .max_learners = job->row.spec.max_learners};
    }
}

static void carry_out(struct step *step, const struct survey *survey,
                      const struct plan_standbys *plan)
{
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_standby_change *change = &plan->changes[i];
        struct processor *processor = survey->sources[change->processor];
        if (change->kind == PLAN_STANDBY_END)
            end(step, processor, change->agent_id, change->reason);
        else
            begin(step, processor, cluster_agent(step->cluster, change->agent_id), change->reason);
    }
}

static void note_lacks(const struct step *step, const struct placing *placing,
                       const struct survey *survey, const struct plan_standbys *plan)
{
    for (size_t i = 0; i < placing->processor_count; i++)
        placing->sources[i]->standby_lack = STANDBY_LACK_NONE;
    for (size_t i = 0; i < survey->processor_count; i++)
        survey->sources[i]->standby_lack = plan->lacks[i];
    for (size_t i = 0; i < placing->processor_count; i++) {
        struct processor *processor = placing->sources[i];
        if (processor->standby_lack != STANDBY_LACK_AGENT)
            processor->standby_lack_at = 0;
        else if (processor->standby_lack_at == 0)
            processor->standby_lack_at = step->event->now_at;
    }
}

void step_plan_standbys(struct step *step, const struct placing *placing)
{
    struct survey survey = {0};
    struct plan_standbys plan;
    list_hosts(step, &survey);
    list_processors(step, placing, &survey);
    struct plan_standby_input input = {.hosts = survey.hosts,
                                       .host_count = step->cluster->agents.count,
                                       .processors = survey.processors,
                                       .processor_count = survey.processor_count,
                                       .holdings = survey.holdings,
                                       .holding_count = survey.holding_count,
                                       .refusals = placing->refusals,
                                       .refusal_count = placing->refusal_count};
    plan_standby_compute(&input, &plan);
    carry_out(step, &survey, &plan);
    note_lacks(step, placing, &survey, &plan);
    plan_standby_finish(&plan);
    free(survey.hosts);
    free(survey.processors);
    free(survey.sources);
    free(survey.holdings);
}

int64_t step_standbys_wake(const struct cluster *cluster, const struct job *job,
                           const struct processor *processor)
{
    int64_t wake_ms = INT64_MAX;
    for (size_t i = 0; i < processor->standbys.count; i++) {
        int64_t due_ms =
            given_up_at(job, cluster_agent(cluster, processor->standbys.items[i].row.agent));
        if (due_ms < wake_ms)
            wake_ms = due_ms;
    }
    return wake_ms;
}
