/* Agents that can not have what they came for, because what they would learn it from is gone. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/step_internal.h"

const char *step_failure_code(const struct task_report *report)
{
    return report->problems.count > 0 ? report->problems.items[0].code : NULL;
}

char *step_describe_failure(const struct task_report *report)
{
    if (report->problems.count == 0)
        return text_printf("the task has failed and gives no reason");
    return text_printf("%s: %s", report->problems.items[0].code, report->problems.items[0].detail);
}

/* A rebalance can not say that all went well. */
static void note_in_rebalance(struct step *step, const struct handoff_row *row,
                              const struct task_problem *problem)
{
    const struct operation *operation = cluster_operation(step->cluster, row->operation);
    if (operation == NULL || operation->row.kind != OPERATION_KIND_REBALANCE ||
        operation->row.error != NULL)
        return;
    struct change change = step_operation_change(operation);
    change.operation.error = text_printf("agent %s can not learn processor %u: %s: %s", row->target,
                                         row->processor, problem->code, problem->detail);
    change.operation.updated_at = step->event->now_at;
    step_change(step, &change);
}

static void refuse(struct step *step, const char *job_name, const char *agent_id,
                   const struct task_report *report)
{
    const struct task_problem *problem = &report->problems.items[0];
    const struct job *job = cluster_job(step->cluster, job_name);
    const struct agent *agent = cluster_agent(step->cluster, agent_id);
    if (cluster_is_refused(job, agent))
        return; /* the first says enough */
    struct change change = {.kind = CHANGE_ARRIVAL,
                            .arrival = {.job = mem_strdup(job_name),
                                        .agent = mem_strdup(agent_id),
                                        .incarnation = mem_strdup(agent->row.incarnation),
                                        .open = false,
                                        .refused = mem_strdup(problem->code),
                                        .refused_detail = mem_strdup(problem->detail),
                                        .refused_processor = report->processor,
                                        .refused_at = step->event->now_at}};
    step_change(step, &change);
}

bool step_refuse(struct step *step, const struct handoff *handoff, const struct task_report *report)
{
    const struct handoff_row *row = &handoff->row;
    if (!handoff_is_hopeless(step_failure_code(report)))
        return false;
    note_in_rebalance(step, row, &report->problems.items[0]);
    refuse(step, row->job, row->target, report);
    return true;
}

bool step_refuse_standby(struct step *step, const struct standby *standby,
                         const struct task_report *report)
{
    if (!handoff_is_hopeless(step_failure_code(report)))
        return false;
    refuse(step, standby->row.job, standby->row.agent, report);
    return true;
}

void step_forgive(struct step *step, struct job *job)
{
    for (size_t i = 0; i < job->processors.count; i++) {
        job->processors.items[i].handoff_retry_ms = 0;
        job->processors.items[i].handoff_backoff_ms = 0;
    }
    for (size_t i = 0; i < job->arrivals.count; i++) {
        const struct agent *agent = cluster_agent(step->cluster, job->arrivals.items[i].agent);
        if (cluster_is_refused(job, agent))
            step_set_arrival(step, job, agent, true);
    }
    step->place = true;
}
