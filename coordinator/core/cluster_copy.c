/*
 * A second cluster that is all that the first one is, but for the requests that wait: whatever a
 * step decides on it, it would decide on the first one. For looks ahead (dry_run.h) and for tests.
 */
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/rows.h"

/* The copied struct still shares what the original owns: each function below replaces that. */

static void own_observed(struct processor_observed *observed)
{
    struct task_report shared = observed->report;
    observed->agent = rows_text_copy(observed->agent);
    observed->agent_incarnation = rows_text_copy(observed->agent_incarnation);
    if (observed->known)
        schema_copy(&schema_task_report, &observed->report, &shared);
}

static void own_standby(struct standby *standby)
{
    struct standby_row shared = standby->row;
    rows_copy_standby(&standby->row, &shared);
    own_observed(&standby->observed);
}

static void own_processor(struct processor *processor)
{
    struct placement_row shared = processor->placement;
    rows_copy_placement(&processor->placement, &shared);
    own_observed(&processor->observed);
    own_observed(&processor->learner);
    processor->handoff = NULL; /* linked when the hand-overs are there */
    processor->avoid = rows_text_copy(processor->avoid);
    processor->waits = rows_text_copy(processor->waits);
    processor->waits_for = rows_text_copy(processor->waits_for);
    for (size_t i = 0; i < CLUSTER_LOST_MAX; i++)
        processor->lost[i] = rows_text_copy(processor->lost[i]);
    processor->stored.items = mem_memdup(
        processor->stored.items, processor->stored.count * sizeof(*processor->stored.items));
    processor->told.items =
        mem_memdup(processor->told.items, processor->told.count * sizeof(*processor->told.items));
    processor->standbys.items = mem_memdup(
        processor->standbys.items, processor->standbys.count * sizeof(*processor->standbys.items));
    processor->standbys.capacity = processor->standbys.count;
    for (size_t i = 0; i < processor->standbys.count; i++)
        own_standby(&processor->standbys.items[i]);
}

static void own_findings(struct job_topics *topics)
{
    topics->adopt_error = rows_text_copy(topics->adopt_error);
    topics->findings.items = mem_memdup(topics->findings.items,
                                        topics->findings.count * sizeof(*topics->findings.items));
    topics->findings.capacity = topics->findings.count;
    for (size_t i = 0; i < topics->findings.count; i++) {
        topics->findings.items[i].topic = rows_text_copy(topics->findings.items[i].topic);
        topics->findings.items[i].detail = rows_text_copy(topics->findings.items[i].detail);
    }
}

static struct job *copy_job(const struct job *job)
{
    struct job *copy = mem_memdup(job, sizeof(*job));
    rows_copy_job(&copy->row, &job->row);
    own_findings(&copy->topics);
    copy->group.who = rows_text_copy(job->group.who);
    copy->group.error = rows_text_copy(job->group.error);
    copy->group.claim_error = rows_text_copy(job->group.claim_error);
    size_t count = job->processors.count + job->nascent;
    copy->processors.items = mem_calloc(job->processors.capacity, sizeof(*job->processors.items));
    if (count > 0)
        memcpy(copy->processors.items, job->processors.items,
               count * sizeof(*job->processors.items));
    for (size_t i = 0; i < count; i++)
        own_processor(&copy->processors.items[i]);
    copy->arrivals.items = mem_calloc(job->arrivals.count, sizeof(*copy->arrivals.items));
    copy->arrivals.capacity = copy->arrivals.count;
    for (size_t i = 0; i < copy->arrivals.count; i++)
        rows_copy_arrival(&copy->arrivals.items[i], &job->arrivals.items[i]);
    copy->skips.items = mem_calloc(job->skips.count, sizeof(*copy->skips.items));
    copy->skips.capacity = copy->skips.count;
    for (size_t i = 0; i < copy->skips.count; i++)
        rows_copy_skip(&copy->skips.items[i], &job->skips.items[i]);
    copy->windows.items =
        mem_memdup(job->windows.items, job->windows.count * sizeof(*job->windows.items));
    copy->windows.capacity = copy->windows.count;
    for (size_t i = 0; i < copy->windows.count; i++)
        rows_copy_window(&copy->windows.items[i].row, &job->windows.items[i].row);
    return copy;
}

static struct agent *copy_agent(const struct agent *agent)
{
    struct agent *copy = mem_memdup(agent, sizeof(*agent));
    rows_copy_agent(&copy->row, &agent->row);
    copy->kept.items = mem_calloc(agent->kept.count, sizeof(*copy->kept.items));
    copy->kept.capacity = copy->kept.count;
    for (size_t i = 0; i < copy->kept.count; i++)
        schema_copy(&schema_kept_state, &copy->kept.items[i], &agent->kept.items[i]);
    copy->crashes.items = mem_calloc(agent->crashes.count, sizeof(*copy->crashes.items));
    for (size_t i = 0; i < copy->crashes.count; i++)
        schema_copy(&schema_crash_note, &copy->crashes.items[i], &agent->crashes.items[i]);
    copy->strays.items =
        mem_memdup(agent->strays.items, agent->strays.count * sizeof(*agent->strays.items));
    copy->strays.capacity = copy->strays.count;
    for (size_t i = 0; i < copy->strays.count; i++) {
        copy->strays.items[i].job = rows_text_copy(agent->strays.items[i].job);
        copy->strays.items[i].job_incarnation =
            rows_text_copy(agent->strays.items[i].job_incarnation);
    }
    return copy;
}

static struct operation *copy_operation(const struct operation *operation)
{
    struct operation *copy = mem_memdup(operation, sizeof(*operation));
    rows_copy_operation(&copy->row, &operation->row);
    return copy;
}

static struct handoff *copy_handoff(const struct handoff *handoff)
{
    struct handoff *copy = mem_memdup(handoff, sizeof(*handoff));
    rows_copy_handoff(&copy->row, &handoff->row);
    return copy;
}

static void link_handoffs(struct cluster *copy, const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count + job->nascent; p++)
            if (job->processors.items[p].handoff != NULL)
                copy->jobs.items[i]->processors.items[p].handoff =
                    cluster_handoff(copy, job->processors.items[p].handoff->row.id);
    }
}

#define COPY_LIST(list, copy_one)                                                                  \
    do {                                                                                           \
        ret_copy->list.items = mem_calloc(cluster->list.count, sizeof(*ret_copy->list.items));     \
        ret_copy->list.capacity = cluster->list.count;                                             \
        for (size_t i = 0; i < cluster->list.count; i++)                                           \
            ret_copy->list.items[i] = copy_one(cluster->list.items[i]);                            \
    } while (0)

void cluster_copy(struct cluster *ret_copy, const struct cluster *cluster)
{
    *ret_copy = *cluster;
    ret_copy->recovery.detail = rows_text_copy(cluster->recovery.detail);
    /* What it collects is not copied: nothing is looked ahead before it is over. */
    ret_copy->recovery.agents.items = NULL;
    ret_copy->recovery.agents.count = ret_copy->recovery.agents.capacity = 0;
    ret_copy->recovery.stamps.items = NULL;
    ret_copy->recovery.stamps.count = ret_copy->recovery.stamps.capacity = 0;
    rows_copy_hold(&ret_copy->maintenance.hold, &cluster->maintenance.hold);
    COPY_LIST(jobs, copy_job);
    COPY_LIST(agents, copy_agent);
    COPY_LIST(operations, copy_operation);
    COPY_LIST(handoffs, copy_handoff);
    link_handoffs(ret_copy, cluster);
    ret_copy->polls.items = NULL;
    ret_copy->polls.count = ret_copy->polls.capacity = 0;
    ret_copy->operation_waits.items = NULL;
    ret_copy->operation_waits.count = ret_copy->operation_waits.capacity = 0;
    ret_copy->creations.items = NULL;
    ret_copy->creations.count = ret_copy->creations.capacity = 0;
}
