/*
 * The fold: how each kind of change alters the cluster in memory. The same code runs when a step
 * records a change and when the store loads a row, so memory and disk can not disagree about what a
 * row means.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/update.h"
#include "coordinator/core/view.h"

/* ---- jobs */

static void add_processor(struct job *job, size_t number)
{
    job->processors.items[number] = (struct processor){
        .placement = {.job = mem_strdup(job->row.name), .processor = (uint32_t)number},
        .stored_at = API_UNKNOWN,
    };
}

/* Processors are only ever added; new ones have no owner until a placement says otherwise. */
static void grow_processors(struct job *job)
{
    size_t count = job->processors.count;
    assert(job->row.processors >= count);
    assert(job->row.processors <= job->row.partitions);
    if (job->processors.capacity < job->row.partitions) {
        job->processors.capacity = job->row.partitions;
        job->processors.items =
            mem_realloc(job->processors.items, job->processors.capacity, sizeof(struct processor));
    }
    if (job->nascent && count < job->row.processors) {
        job->nascent = false;
        count++;
    }
    for (; count < job->row.processors; count++)
        add_processor(job, count);
    job->processors.count = count;
}

static void apply_job(struct cluster *cluster, struct job_row *row)
{
    size_t index;
    struct job *job;
    if (cluster_find_job(cluster, row->name, &index)) {
        job = cluster->jobs.items[index];
        rows_finish_job(&job->row);
    } else {
        job = mem_calloc(1, sizeof(*job));
        cluster->jobs.items = mem_grow(cluster->jobs.items, cluster->jobs.count,
                                       &cluster->jobs.capacity, sizeof(struct job *));
        memmove(&cluster->jobs.items[index + 1], &cluster->jobs.items[index],
                (cluster->jobs.count - index) * sizeof(struct job *));
        cluster->jobs.items[index] = job;
        cluster->jobs.count++;
    }
    job->row = *row;
    *row = (struct job_row){0};
    grow_processors(job);
}

static void apply_job_removed(struct cluster *cluster, const char *name)
{
    size_t index;
    if (!cluster_find_job(cluster, name, &index))
        return;
    cluster_destroy_job(cluster->jobs.items[index]);
    cluster->jobs.count--;
    memmove(&cluster->jobs.items[index], &cluster->jobs.items[index + 1],
            (cluster->jobs.count - index) * sizeof(struct job *));
}

/* ---- processors */

static struct processor *find_processor(struct cluster *cluster, const char *name, uint32_t number)
{
    struct job *job = cluster_job(cluster, name);
    assert(job != NULL);
    assert(number < job->processors.count + job->nascent);
    return &job->processors.items[number];
}

static void apply_placement(struct cluster *cluster, struct placement_row *row)
{
    struct processor *processor = find_processor(cluster, row->job, row->processor);
    if (row->epoch != processor->placement.epoch)
        processor->active_since_ms = 0;
    if (!rows_text_equal(row->agent, processor->placement.agent)) {
        processor->fence_retry_ms = 0;
        processor->fence_backoff_ms = 0;
    }
    rows_finish_placement(&processor->placement);
    processor->placement = *row;
    *row = (struct placement_row){0};
}

static void apply_observation(struct cluster *cluster, struct observation_row *row)
{
    struct processor *processor = find_processor(cluster, row->job, row->processor);
    free(processor->stored.items);
    processor->stored.items = row->progress.items;
    processor->stored.count = row->progress.count;
    processor->stored_at = row->at;
    row->progress.items = NULL;
    row->progress.count = 0;
}

/* ---- agents */

static void forget_arrivals(struct cluster *cluster, const char *agent_id);
static void forget_standbys(struct cluster *cluster, const char *agent_id);

/* What an earlier incarnation reported says nothing about the new one. */
static void forget_reports(struct agent *agent)
{
    agent->applied = (struct document_version){0};
    agent->stopping = false;
    cluster_clear_strays(agent);
}

static void apply_agent(struct cluster *cluster, struct agent_row *row)
{
    size_t index;
    struct agent *agent;
    if (cluster_find_agent(cluster, row->agent_id, &index)) {
        agent = cluster->agents.items[index];
        if (strcmp(agent->row.incarnation, row->incarnation) != 0)
            forget_reports(agent);
        rows_finish_agent(&agent->row);
    } else {
        agent = mem_calloc(1, sizeof(*agent));
        cluster->agents.items = mem_grow(cluster->agents.items, cluster->agents.count,
                                         &cluster->agents.capacity, sizeof(struct agent *));
        memmove(&cluster->agents.items[index + 1], &cluster->agents.items[index],
                (cluster->agents.count - index) * sizeof(struct agent *));
        cluster->agents.items[index] = agent;
        cluster->agents.count++;
        agent->seen_at = API_UNKNOWN;
    }
    agent->row = *row;
    *row = (struct agent_row){0};
}

static void apply_agent_removed(struct cluster *cluster, const char *agent_id)
{
    size_t index;
    if (!cluster_find_agent(cluster, agent_id, &index))
        return;
    forget_arrivals(cluster, agent_id);
    forget_standbys(cluster, agent_id);
    cluster_destroy_agent(cluster->agents.items[index]);
    cluster->agents.count--;
    memmove(&cluster->agents.items[index], &cluster->agents.items[index + 1],
            (cluster->agents.count - index) * sizeof(struct agent *));
}

/* ---- operations */

static void remove_operation(struct cluster *cluster, size_t index)
{
    cluster_destroy_operation(cluster->operations.items[index]);
    cluster->operations.count--;
    memmove(&cluster->operations.items[index], &cluster->operations.items[index + 1],
            (cluster->operations.count - index) * sizeof(struct operation *));
}

static void drop_oldest_finished(struct cluster *cluster)
{
    size_t finished = 0, oldest = SIZE_MAX;
    for (size_t i = 0; i < cluster->operations.count; i++) {
        if (!view_operation_finished(cluster->operations.items[i]->row.state))
            continue;
        finished++;
        if (oldest == SIZE_MAX)
            oldest = i;
    }
    if (finished > CLUSTER_OPERATIONS_FINISHED_MAX)
        remove_operation(cluster, oldest);
}

static void apply_operation(struct cluster *cluster, struct operation_row *row)
{
    size_t index;
    struct operation *operation;
    if (cluster_find_operation(cluster, row->id, &index)) {
        operation = cluster->operations.items[index];
        rows_finish_operation(&operation->row);
    } else {
        operation = mem_calloc(1, sizeof(*operation));
        cluster->operations.items =
            mem_grow(cluster->operations.items, cluster->operations.count,
                     &cluster->operations.capacity, sizeof(struct operation *));
        memmove(&cluster->operations.items[index + 1], &cluster->operations.items[index],
                (cluster->operations.count - index) * sizeof(struct operation *));
        cluster->operations.items[index] = operation;
        cluster->operations.count++;
    }
    operation->row = *row;
    *row = (struct operation_row){0};
    drop_oldest_finished(cluster);
}

/* ---- hand-overs */

/* A split that has not been released leaves nothing. */
static void forget_nascent(struct job *job, struct processor *processor)
{
    if (processor != cluster_nascent(job))
        return;
    cluster_finish_processor(processor);
    job->nascent = false;
}

static void expect_nascent(struct job *job, const struct handoff_row *row)
{
    if (row->processor != job->processors.count || job->nascent)
        return;
    assert(row->kind == HANDOFF_KIND_SPLIT && handoff_before_release(row->state));
    assert(row->processor < job->processors.capacity);
    add_processor(job, row->processor);
    job->nascent = true;
}

static void remove_handoff(struct cluster *cluster, size_t index)
{
    struct handoff *handoff = cluster->handoffs.items[index];
    struct processor *processor = find_processor(cluster, handoff->row.job, handoff->row.processor);
    assert(processor->handoff == handoff);
    processor->handoff = NULL;
    cluster_forget_learner(processor);
    forget_nascent(cluster_job(cluster, handoff->row.job), processor);
    cluster_destroy_handoff(handoff);
    cluster->handoffs.count--;
    memmove(&cluster->handoffs.items[index], &cluster->handoffs.items[index + 1],
            (cluster->handoffs.count - index) * sizeof(struct handoff *));
}

static struct handoff *insert_handoff(struct cluster *cluster, size_t index,
                                      const struct handoff_row *row)
{
    struct handoff *handoff = mem_calloc(1, sizeof(*handoff));
    expect_nascent(cluster_job(cluster, row->job), row);
    struct processor *processor = find_processor(cluster, row->job, row->processor);
    assert(processor->handoff == NULL);
    processor->handoff = handoff;
    cluster->handoffs.items = mem_grow(cluster->handoffs.items, cluster->handoffs.count,
                                       &cluster->handoffs.capacity, sizeof(struct handoff *));
    memmove(&cluster->handoffs.items[index + 1], &cluster->handoffs.items[index],
            (cluster->handoffs.count - index) * sizeof(struct handoff *));
    cluster->handoffs.items[index] = handoff;
    cluster->handoffs.count++;
    fsm_init(&handoff->fsm, &handoff_table, (int)row->state, 0);
    return handoff;
}

static void apply_handoff(struct cluster *cluster, struct handoff_row *row)
{
    size_t index;
    bool known = cluster_find_handoff(cluster, row->id, &index);
    if (handoff_ended(row->state)) {
        if (known)
            remove_handoff(cluster, index);
        return;
    }
    struct handoff *handoff =
        known ? cluster->handoffs.items[index] : insert_handoff(cluster, index, row);
    rows_finish_handoff(&handoff->row);
    handoff->row = *row;
    handoff->fsm.state = (int)row->state; /* since when is the step's to say */
    *row = (struct handoff_row){0};
}

static void apply_arrival(struct cluster *cluster, struct arrival_row *row)
{
    size_t index;
    struct job *job = cluster_job(cluster, row->job);
    assert(job != NULL);
    if (cluster_find_arrival(job, row->agent, &index)) {
        rows_finish_arrival(&job->arrivals.items[index]);
    } else {
        job->arrivals.items = mem_grow(job->arrivals.items, job->arrivals.count,
                                       &job->arrivals.capacity, sizeof(struct arrival_row));
        memmove(&job->arrivals.items[index + 1], &job->arrivals.items[index],
                (job->arrivals.count - index) * sizeof(struct arrival_row));
        job->arrivals.count++;
    }
    job->arrivals.items[index] = *row;
    *row = (struct arrival_row){0};
}

static void forget_arrivals(struct cluster *cluster, const char *agent_id)
{
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        struct job *job = cluster->jobs.items[i];
        size_t index;
        if (!cluster_find_arrival(job, agent_id, &index))
            continue;
        rows_finish_arrival(&job->arrivals.items[index]);
        job->arrivals.count--;
        memmove(&job->arrivals.items[index], &job->arrivals.items[index + 1],
                (job->arrivals.count - index) * sizeof(struct arrival_row));
    }
}

/* ---- standbys */

static void apply_standby(struct cluster *cluster, struct standby_row *row)
{
    size_t index;
    struct processor *processor = find_processor(cluster, row->job, row->processor);
    if (cluster_find_standby(processor, row->agent, &index)) {
        rows_finish_standby(&processor->standbys.items[index].row);
    } else {
        processor->standbys.items = mem_grow(processor->standbys.items, processor->standbys.count,
                                             &processor->standbys.capacity, sizeof(struct standby));
        memmove(&processor->standbys.items[index + 1], &processor->standbys.items[index],
                (processor->standbys.count - index) * sizeof(struct standby));
        processor->standbys.count++;
        processor->standbys.items[index] = (struct standby){0};
    }
    processor->standbys.items[index].row = *row;
    *row = (struct standby_row){0};
}

static void remove_standby(struct processor *processor, const char *agent_id)
{
    size_t index;
    if (!cluster_find_standby(processor, agent_id, &index))
        return;
    cluster_finish_standby(&processor->standbys.items[index]);
    processor->standbys.count--;
    memmove(&processor->standbys.items[index], &processor->standbys.items[index + 1],
            (processor->standbys.count - index) * sizeof(struct standby));
}

static void forget_standbys(struct cluster *cluster, const char *agent_id)
{
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++)
            remove_standby(&job->processors.items[p], agent_id);
    }
}

/* ---- all kinds */

void cluster_apply(struct cluster *cluster, struct change *change)
{
    switch (change->kind) {
    case CHANGE_META:
        cluster->meta = change->meta;
        break;
    case CHANGE_JOB:
        apply_job(cluster, &change->job);
        break;
    case CHANGE_JOB_REMOVED:
        apply_job_removed(cluster, change->job.name);
        break;
    case CHANGE_PLACEMENT:
        apply_placement(cluster, &change->placement);
        break;
    case CHANGE_AGENT:
        apply_agent(cluster, &change->agent);
        break;
    case CHANGE_AGENT_REMOVED:
        apply_agent_removed(cluster, change->agent.agent_id);
        break;
    case CHANGE_OPERATION:
        apply_operation(cluster, &change->operation);
        break;
    case CHANGE_HANDOFF:
        apply_handoff(cluster, &change->handoff);
        break;
    case CHANGE_ARRIVAL:
        apply_arrival(cluster, &change->arrival);
        break;
    case CHANGE_STANDBY:
        apply_standby(cluster, &change->standby);
        break;
    case CHANGE_STANDBY_REMOVED:
        remove_standby(find_processor(cluster, change->standby.job, change->standby.processor),
                       change->standby.agent);
        break;
    case CHANGE_MAINTENANCE:
        rows_finish_hold(&cluster->maintenance.hold);
        cluster->maintenance = change->maintenance;
        change->maintenance = (struct maintenance_row){0};
        break;
    case CHANGE_SKIP:
        cluster_apply_skip(cluster, &change->skip);
        break;
    case CHANGE_WINDOW:
        cluster_apply_window(cluster, &change->window);
        break;
    case CHANGE_OBSERVATION:
        apply_observation(cluster, &change->observation);
        break;
    case CHANGE_EVENT:
        break; /* history: the store alone keeps it */
    }
    change_finish(change);
}
