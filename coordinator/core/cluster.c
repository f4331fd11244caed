#include "coordinator/core/cluster.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/view.h"

/* ---- life of the parts */

void cluster_finish_observed(struct processor_observed *observed)
{
    free(observed->agent);
    free(observed->agent_incarnation);
    if (observed->known)
        schema_free(&schema_task_report, &observed->report);
    *observed = (struct processor_observed){0};
}

void cluster_finish_standby(struct standby *standby)
{
    rows_finish_standby(&standby->row);
    cluster_finish_observed(&standby->observed);
}

void cluster_finish_processor(struct processor *processor)
{
    rows_finish_placement(&processor->placement);
    cluster_finish_observed(&processor->observed);
    cluster_finish_observed(&processor->learner);
    for (size_t i = 0; i < processor->standbys.count; i++)
        cluster_finish_standby(&processor->standbys.items[i]);
    free(processor->standbys.items);
    free(processor->stored.items);
    free(processor->told.items);
    free(processor->waits);
    free(processor->waits_for);
    cluster_forget_lost(processor);
    free(processor->avoid);
}

void cluster_set_observed(struct processor_observed *observed, const struct agent *agent,
                          struct task_report *report)
{
    int64_t stored_ms = observed->stored_ms;
    cluster_finish_observed(observed);
    *observed = (struct processor_observed){
        .known = true,
        .agent = mem_strdup(agent->row.agent_id),
        .agent_incarnation = mem_strdup(agent->row.incarnation),
        .report = *report,
        .serial = agent->reports,
        .received_ms = agent->seen_ms,
        .received_at = agent->seen_at,
        .stored_ms = stored_ms,
    };
    *report = (struct task_report){0};
}

void cluster_forget_learner(struct processor *processor)
{
    cluster_finish_observed(&processor->learner);
}

void cluster_clear_findings(struct job_topics *topics)
{
    for (size_t i = 0; i < topics->findings.count; i++) {
        free(topics->findings.items[i].topic);
        free(topics->findings.items[i].detail);
    }
    topics->findings.count = 0;
}

void cluster_destroy_job(struct job *job)
{
    if (job == NULL)
        return;
    for (size_t i = 0; i < job->processors.count + job->nascent; i++)
        cluster_finish_processor(&job->processors.items[i]);
    cluster_finish_skips(job);
    cluster_finish_windows(job);
    free(job->processors.items);
    for (size_t i = 0; i < job->arrivals.count; i++)
        rows_finish_arrival(&job->arrivals.items[i]);
    free(job->arrivals.items);
    cluster_clear_findings(&job->topics);
    free(job->topics.findings.items);
    free(job->topics.adopt_error);
    free(job->group.who);
    free(job->group.error);
    free(job->group.claim_error);
    rows_finish_job(&job->row);
    free(job);
}

void cluster_clear_strays(struct agent *agent)
{
    for (size_t i = 0; i < agent->strays.count; i++) {
        free(agent->strays.items[i].job);
        free(agent->strays.items[i].job_incarnation);
    }
    agent->strays.count = 0;
}

void cluster_clear_kept(struct agent *agent)
{
    for (size_t i = 0; i < agent->kept.count; i++)
        schema_free(&schema_kept_state, &agent->kept.items[i]);
    free(agent->kept.items);
    agent->kept.items = NULL;
    agent->kept.count = agent->kept.capacity = 0;
}

void cluster_destroy_agent(struct agent *agent)
{
    if (agent == NULL)
        return;
    cluster_clear_kept(agent);
    cluster_clear_crashes(agent);
    cluster_clear_strays(agent);
    free(agent->strays.items);
    rows_finish_agent(&agent->row);
    free(agent);
}

void cluster_destroy_operation(struct operation *operation)
{
    if (operation == NULL)
        return;
    rows_finish_operation(&operation->row);
    free(operation);
}

void cluster_destroy_handoff(struct handoff *handoff)
{
    if (handoff == NULL)
        return;
    rows_finish_handoff(&handoff->row);
    free(handoff);
}

void cluster_remove_poll(struct cluster *cluster, size_t index)
{
    assert(index < cluster->polls.count);
    free(cluster->polls.items[index].agent_id);
    cluster->polls.count--;
    memmove(&cluster->polls.items[index], &cluster->polls.items[index + 1],
            (cluster->polls.count - index) * sizeof(*cluster->polls.items));
}

void cluster_remove_operation_wait(struct cluster *cluster, size_t index)
{
    assert(index < cluster->operation_waits.count);
    cluster->operation_waits.count--;
    memmove(&cluster->operation_waits.items[index], &cluster->operation_waits.items[index + 1],
            (cluster->operation_waits.count - index) * sizeof(*cluster->operation_waits.items));
}

void cluster_finish_creation(struct pending_creation *creation)
{
    free(creation->name);
    free(creation->actor);
    schema_free(&schema_job_spec, &creation->spec);
    *creation = (struct pending_creation){0};
}

struct pending_creation cluster_take_creation(struct cluster *cluster, size_t index)
{
    assert(index < cluster->creations.count);
    struct pending_creation creation = cluster->creations.items[index];
    cluster->creations.count--;
    memmove(&cluster->creations.items[index], &cluster->creations.items[index + 1],
            (cluster->creations.count - index) * sizeof(*cluster->creations.items));
    return creation;
}

void cluster_init(struct cluster *cluster, struct coord_config config)
{
    assert(config.agent_timeout_ms > 0);
    *cluster = (struct cluster){.config = config,
                                .maintenance = {.hold = {.changed_at = API_UNKNOWN}},
                                .place_ms = INT64_MAX,
                                .observations_ms = INT64_MAX,
                                .wake_ms = INT64_MAX};
}

void cluster_finish(struct cluster *cluster)
{
    rows_finish_hold(&cluster->maintenance.hold);
    for (size_t i = 0; i < cluster->jobs.count; i++)
        cluster_destroy_job(cluster->jobs.items[i]);
    free(cluster->jobs.items);
    for (size_t i = 0; i < cluster->agents.count; i++)
        cluster_destroy_agent(cluster->agents.items[i]);
    free(cluster->agents.items);
    for (size_t i = 0; i < cluster->operations.count; i++)
        cluster_destroy_operation(cluster->operations.items[i]);
    free(cluster->operations.items);
    for (size_t i = 0; i < cluster->handoffs.count; i++)
        cluster_destroy_handoff(cluster->handoffs.items[i]);
    free(cluster->handoffs.items);
    while (cluster->polls.count > 0)
        cluster_remove_poll(cluster, cluster->polls.count - 1);
    free(cluster->polls.items);
    free(cluster->operation_waits.items);
    for (size_t i = 0; i < cluster->creations.count; i++)
        cluster_finish_creation(&cluster->creations.items[i]);
    free(cluster->creations.items);
    recovery_finish(&cluster->recovery);
    *cluster = (struct cluster){0};
}

/* ---- finding */

bool cluster_is_held(const struct job *job)
{
    return job->row.pause.on || job->row.group.hold != GROUP_HOLD_NONE;
}

bool cluster_find_job(const struct cluster *cluster, const char *name, size_t *ret_index)
{
    size_t low = 0, high = cluster->jobs.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(cluster->jobs.items[middle]->row.name, name);
        if (order == 0) {
            *ret_index = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_index = low;
    return false;
}

bool cluster_find_agent(const struct cluster *cluster, const char *agent_id, size_t *ret_index)
{
    size_t low = 0, high = cluster->agents.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(cluster->agents.items[middle]->row.agent_id, agent_id);
        if (order == 0) {
            *ret_index = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_index = low;
    return false;
}

bool cluster_find_operation(const struct cluster *cluster, uint64_t id, size_t *ret_index)
{
    size_t low = 0, high = cluster->operations.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found = cluster->operations.items[middle]->row.id;
        if (found == id) {
            *ret_index = middle;
            return true;
        }
        if (found < id)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_index = low;
    return false;
}

bool cluster_find_handoff(const struct cluster *cluster, uint64_t id, size_t *ret_index)
{
    size_t low = 0, high = cluster->handoffs.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found = cluster->handoffs.items[middle]->row.id;
        if (found == id) {
            *ret_index = middle;
            return true;
        }
        if (found < id)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_index = low;
    return false;
}

bool cluster_find_arrival(const struct job *job, const char *agent_id, size_t *ret_index)
{
    size_t low = 0, high = job->arrivals.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(job->arrivals.items[middle].agent, agent_id);
        if (order == 0) {
            *ret_index = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_index = low;
    return false;
}

struct job *cluster_job(const struct cluster *cluster, const char *name)
{
    size_t index;
    return cluster_find_job(cluster, name, &index) ? cluster->jobs.items[index] : NULL;
}

struct agent *cluster_agent(const struct cluster *cluster, const char *agent_id)
{
    size_t index;
    return cluster_find_agent(cluster, agent_id, &index) ? cluster->agents.items[index] : NULL;
}

struct operation *cluster_operation(const struct cluster *cluster, uint64_t id)
{
    size_t index;
    return cluster_find_operation(cluster, id, &index) ? cluster->operations.items[index] : NULL;
}

struct handoff *cluster_handoff(const struct cluster *cluster, uint64_t id)
{
    size_t index;
    return cluster_find_handoff(cluster, id, &index) ? cluster->handoffs.items[index] : NULL;
}

uint64_t cluster_rebalance_of(const struct cluster *cluster, const struct job *job)
{
    for (size_t i = 0; i < cluster->operations.count; i++) {
        const struct operation_row *row = &cluster->operations.items[i]->row;
        if (row->kind == OPERATION_KIND_REBALANCE && !view_operation_finished(row->state) &&
            strcmp(row->job_incarnation, job->row.incarnation) == 0)
            return row->id;
    }
    return 0;
}

const struct arrival_row *cluster_arrival(const struct job *job, const char *agent_id)
{
    size_t index;
    return cluster_find_arrival(job, agent_id, &index) ? &job->arrivals.items[index] : NULL;
}

bool cluster_is_refused(const struct job *job, const struct agent *agent)
{
    const struct arrival_row *arrival = cluster_arrival(job, agent->row.agent_id);
    return arrival != NULL && arrival->refused != NULL &&
           strcmp(arrival->incarnation, agent->row.incarnation) == 0;
}

/* ---- what follows from it */

int64_t cluster_agent_deadline(const struct cluster *cluster, const struct agent *agent)
{
    int64_t since_ms =
        agent->seen_ms > cluster->listening_ms ? agent->seen_ms : cluster->listening_ms;
    return since_ms + cluster->config.agent_timeout_ms;
}

bool cluster_agent_alive(const struct cluster *cluster, const struct agent *agent, int64_t now_ms)
{
    return agent->row.state == AGENT_STATE_ALIVE && now_ms < cluster_agent_deadline(cluster, agent);
}

const struct task_report *cluster_report(const struct cluster *cluster,
                                         const struct processor *processor)
{
    const struct placement_row *placement = &processor->placement;
    const struct processor_observed *observed = &processor->observed;
    if (!observed->known || placement->agent == NULL)
        return NULL;
    if (strcmp(observed->agent, placement->agent) != 0 ||
        strcmp(observed->agent_incarnation, placement->agent_incarnation) != 0 ||
        observed->report.epoch != placement->epoch)
        return NULL;
    const struct agent *agent = cluster_agent(cluster, placement->agent);
    return agent != NULL && observed->serial == agent->reports ? &observed->report : NULL;
}

const struct task_report *cluster_learner_report(const struct cluster *cluster,
                                                 const struct processor *processor)
{
    const struct processor_observed *observed = &processor->learner;
    if (!observed->known || processor->handoff == NULL)
        return NULL;
    const struct handoff_row *row = &processor->handoff->row;
    if (!handoff_is_of_learner(row, &observed->report) ||
        strcmp(observed->agent, row->target) != 0 ||
        strcmp(observed->agent_incarnation, row->target_incarnation) != 0)
        return NULL;
    const struct agent *agent = cluster_agent(cluster, row->target);
    return agent != NULL && observed->serial == agent->reports ? &observed->report : NULL;
}

struct document_version cluster_document_version(const struct cluster *cluster,
                                                 const struct agent *agent)
{
    return (struct document_version){.start = cluster->meta.start_number,
                                     .decision = agent->document_decision};
}

int cluster_compare_versions(struct document_version a, struct document_version b)
{
    if (a.start != b.start)
        return a.start < b.start ? -1 : 1;
    if (a.decision != b.decision)
        return a.decision < b.decision ? -1 : 1;
    return 0;
}

char *cluster_transactional_id(const struct cluster *cluster, const struct job *job,
                               uint32_t processor)
{
    return mem_printf("baton.%s.%s.%s.%u", cluster->meta.cluster, job->row.name,
                      job->row.incarnation, processor);
}
