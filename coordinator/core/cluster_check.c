/* The invariants of coordinator/core/cluster.h, for tests, the simulator, and what was loaded from
 * disk. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/view.h"

static const char *check_offsets(const struct job_row *row)
{
    size_t expected = row->spec.inputs.count * row->partitions;
    if (row->origins.count != expected)
        return "an input partition without an origin, or one too many";
    if (row->starts.count != expected)
        return "an input partition without a start, or one too many";
    for (size_t i = 0; i < expected; i++) {
        const struct input_offset *origin = &row->origins.items[i], *start = &row->starts.items[i];
        if (origin->topic != i / row->partitions || origin->partition != i % row->partitions)
            return "origins are not in the order of topic and partition";
        if (start->topic != origin->topic || start->partition != origin->partition)
            return "starts are not in the order of the origins";
        if (origin->offset < 0 || start->offset < origin->offset)
            return "a job starts before its origin, or at an unknown offset";
    }
    return NULL;
}

static const char *check_counts(const struct job *job)
{
    const struct job_row *row = &job->row;
    if (row->partitions_initial < 1 || row->partitions < row->partitions_initial)
        return "fewer partitions than initially";
    if (row->processors_initial < 1 || row->processors < row->processors_initial)
        return "fewer processors than initially";
    if (row->processors_initial != row->spec.processors)
        return "the initial number of processors is not the specification's";
    if (row->partitions < row->processors)
        return "more processors than partitions";
    if (job->processors.count != row->processors)
        return "a processor without a placement";
    return NULL;
}

static const char *check_group(const struct job_row *row)
{
    const struct group_row *group = &row->group;
    if (group->hold != GROUP_HOLD_NONE && group->since_at == API_UNKNOWN)
        return "a hold for the sake of the group without its time";
    if (group->hold == GROUP_HOLD_STARTING && row->spec.start != START_COMMITTED)
        return "a job that waits for offsets which it does not start from";
    return NULL;
}

static const char *check_owner(const struct cluster *cluster, const struct job *job,
                               const struct placement_row *placement)
{
    if (placement->agent_incarnation == NULL)
        return "an owner without an incarnation";
    if (job->row.state != JOB_STATE_RUNNING && job->row.state != JOB_STATE_DELETING)
        return "an owner for a processor of a job that does not run";
    const struct agent *agent = cluster_agent(cluster, placement->agent);
    if (agent == NULL)
        return "an owner that is no agent";
    if (strcmp(agent->row.incarnation, placement->agent_incarnation) != 0)
        return "an epoch that was given to another incarnation of its owner";
    if (placement->epoch == 0)
        return "an owner without an epoch";
    return NULL;
}

static const char *check_placement(const struct cluster *cluster, const struct job *job,
                                   uint32_t number)
{
    const struct placement_row *placement = &job->processors.items[number].placement;
    if (strcmp(placement->job, job->row.name) != 0 || placement->processor != number)
        return "a placement in another's place";
    if (placement->epoch > cluster->meta.epoch)
        return "an epoch that was never handed out";
    if (placement->handoff > cluster->meta.handoff_id)
        return "a placement by a hand-over that was never made";
    if (placement->agent != NULL)
        return check_owner(cluster, job, placement);
    if (placement->agent_incarnation != NULL || placement->activated || placement->handoff != 0)
        return "an activation without an owner";
    return NULL;
}

/* The placement is that of the end that has the processor at this point of its hand-over. */
static const char *check_handoff(const struct cluster *cluster, const struct job *job,
                                 const struct processor *processor)
{
    const struct handoff *handoff = processor->handoff;
    const struct placement_row *placement = &processor->placement;
    if (handoff == NULL)
        return NULL;
    const struct handoff_row *row = &handoff->row;
    if (row->id == 0 || row->id > cluster->meta.handoff_id ||
        cluster_handoff(cluster, row->id) != handoff)
        return "a hand-over with a number that was never handed out, or that is not listed";
    if (strcmp(row->job_incarnation, job->row.incarnation) != 0 ||
        row->processor != placement->processor || job->row.state != JOB_STATE_RUNNING)
        return "a hand-over in another's place, or of a job that does not run";
    if (handoff_ended(row->state) || handoff->fsm.state != (int)row->state)
        return "a hand-over that has ended, or is in two states";
    bool before = handoff_before_release(row->state);
    const struct agent *target = cluster_agent(cluster, row->target);
    if (target == NULL || strcmp(target->row.incarnation, row->target_incarnation) != 0)
        return "a hand-over to who is no agent, or another incarnation of it";
    if (before && strcmp(row->source, row->target) == 0)
        return "a hand-over to its own source";
    if (before && row->target_epoch != 0)
        return "an epoch for a target before the release";
    if (!rows_text_equal(placement->agent, before ? row->source : row->target) ||
        placement->epoch != (before ? row->source_epoch : row->target_epoch))
        return "a hand-over whose processor is neither the source's nor the target's";
    if (!before && placement->handoff != row->id)
        return "a target that has its processor from elsewhere";
    return NULL;
}

/* The split under way. Until it is released it is the parent that has an owner. */
static const char *check_nascent(const struct cluster *cluster, const struct job *job)
{
    const struct processor *nascent = cluster_nascent(job);
    if (nascent == NULL)
        return NULL;
    const struct handoff *handoff = nascent->handoff;
    if (handoff == NULL || cluster_handoff(cluster, handoff->row.id) != handoff ||
        handoff->row.kind != HANDOFF_KIND_SPLIT || !handoff_before_release(handoff->row.state) ||
        handoff->fsm.state != (int)handoff->row.state)
        return "a processor to come without the split that makes it";
    const struct handoff_row *row = &handoff->row;
    if (row->processor != job->processors.count || job->row.state != JOB_STATE_RUNNING ||
        strcmp(row->job_incarnation, job->row.incarnation) != 0 ||
        nascent->placement.agent != NULL || row->processor >= job->row.partitions)
        return "a split in another's place, of a job that does not run, or without partitions";
    bool releasing = row->state == HANDOFF_STATE_RELEASING;
    if ((row->target_epoch != 0) != releasing || row->target_epoch > cluster->meta.epoch)
        return "a split's epoch is handed out when its source is told";
    const struct placement_row *parent =
        &job->processors.items[cluster_parent(job, row->processor)].placement;
    if (parent->agent != NULL &&
        (strcmp(parent->agent, row->source) != 0 || parent->epoch != row->source_epoch))
        return "a split whose source does not own its parent";
    const struct agent *target = cluster_agent(cluster, row->target);
    if (!releasing &&
        (target == NULL || strcmp(target->row.incarnation, row->target_incarnation) != 0))
        return "a split to who is no agent, or another incarnation of it";
    return NULL;
}

static const char *check_standbys(const struct cluster *cluster, const struct job *job,
                                  const struct processor *processor)
{
    const struct handoff *handoff = processor->handoff;
    size_t count = processor->standbys.count;
    if (count > 0 && (job->row.state != JOB_STATE_RUNNING || !job->row.spec.stateful))
        return "a standby of a job that does not run, or has no state";
    if (count > job->row.spec.standbys)
        return "more standbys than the job wants";
    for (size_t i = 0; i < count; i++) {
        const struct standby_row *row = &processor->standbys.items[i].row;
        const struct agent *agent = cluster_agent(cluster, row->agent);
        if (strcmp(row->job, job->row.name) != 0 ||
            row->processor != processor->placement.processor)
            return "a standby in another's place";
        if (i > 0 && strcmp(processor->standbys.items[i - 1].row.agent, row->agent) >= 0)
            return "standbys are not in the order of their agents, or two are on one";
        if (agent == NULL || strcmp(agent->row.incarnation, row->agent_incarnation) != 0)
            return "a standby on who is no agent, or another incarnation of it";
        if (rows_text_equal(processor->placement.agent, row->agent))
            return "a standby on its owner's agent";
        if (handoff != NULL && strcmp(handoff->row.target, row->agent) == 0)
            return "a standby on the target of a hand-over";
    }
    return NULL;
}

static const char *check_arrivals(const struct cluster *cluster, const struct job *job)
{
    for (size_t i = 0; i < job->arrivals.count; i++) {
        const struct arrival_row *row = &job->arrivals.items[i];
        if (i > 0 && strcmp(job->arrivals.items[i - 1].agent, row->agent) >= 0)
            return "arrivals are not in the order of their agents";
        if (cluster_agent(cluster, row->agent) == NULL)
            return "an arrival of who is no agent";
    }
    return NULL;
}

static const char *check_operation_of(const struct cluster *cluster, const struct job *job)
{
    const struct operation *operation = cluster_operation(cluster, job->row.operation);
    bool unfinished = operation != NULL && !view_operation_finished(operation->row.state);
    bool expected = job->row.state == JOB_STATE_CREATING || job->row.state == JOB_STATE_DELETING;
    if (expected && !unfinished)
        return "a job that is being created or deleted without an operation";
    if (!expected && unfinished)
        return "an operation of a job that it has nothing to do for";
    return NULL;
}

static const char *check_job(const struct cluster *cluster, const struct job *job)
{
    const char *broken = check_counts(job);
    if (broken == NULL)
        broken = check_offsets(&job->row);
    if (broken == NULL)
        broken = check_group(&job->row);
    if (broken == NULL)
        broken = check_operation_of(cluster, job);
    if (broken == NULL)
        broken = check_arrivals(cluster, job);
    if (broken == NULL)
        broken = check_nascent(cluster, job);
    if (broken == NULL)
        broken = cluster_check_skips(job);
    if (broken == NULL)
        broken = cluster_check_windows(job);
    for (uint32_t i = 0; broken == NULL && i < job->processors.count; i++) {
        broken = check_placement(cluster, job, i);
        if (broken == NULL)
            broken = check_handoff(cluster, job, &job->processors.items[i]);
        if (broken == NULL)
            broken = check_standbys(cluster, job, &job->processors.items[i]);
    }
    return broken;
}

static const char *check_jobs(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        if (i > 0 && strcmp(cluster->jobs.items[i - 1]->row.name, job->row.name) >= 0)
            return "jobs are not in the order of their names";
        for (size_t j = 0; j < i; j++)
            if (strcmp(cluster->jobs.items[j]->row.spec.group_id, job->row.spec.group_id) == 0)
                return "two jobs with one group";
        const char *broken = check_job(cluster, job);
        if (broken != NULL)
            return broken;
    }
    return NULL;
}

static const char *check_operations(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->operations.count; i++) {
        const struct operation_row *row = &cluster->operations.items[i]->row;
        if (row->id == 0 || row->id > cluster->meta.operation_id)
            return "an operation with a number that was never handed out";
        if (i > 0 && cluster->operations.items[i - 1]->row.id >= row->id)
            return "operations are not in the order of their numbers";
        if (view_operation_finished(row->state))
            continue;
        const struct job *job = cluster_job(cluster, row->job);
        bool named =
            row->kind == OPERATION_KIND_CREATE_JOB || row->kind == OPERATION_KIND_DELETE_JOB;
        if (job == NULL || strcmp(job->row.incarnation, row->job_incarnation) != 0 ||
            (named && job->row.operation != row->id))
            return "an unfinished operation without its job";
    }
    return NULL;
}

static int compare_epochs(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* No two processors hold one epoch: epochs compare across processors (D3.1). */
static const char *check_epochs(const struct cluster *cluster)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < cluster->jobs.count; i++)
        count += cluster->jobs.items[i]->processors.count + cluster->jobs.items[i]->nascent;
    uint64_t *epochs = mem_calloc(count, sizeof(uint64_t));
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++)
            epochs[at++] = job->processors.items[p].placement.epoch;
        if (job->nascent)
            epochs[at++] = cluster_nascent(job)->handoff->row.target_epoch;
    }
    qsort(epochs, count, sizeof(uint64_t), compare_epochs);
    bool twice = false;
    for (size_t i = 1; i < count; i++)
        twice = twice || (epochs[i] != 0 && epochs[i] == epochs[i - 1]);
    free(epochs);
    return twice ? "one epoch was handed out twice" : NULL;
}

static const char *check_agents(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *agent = cluster->agents.items[i];
        if (i > 0 && strcmp(cluster->agents.items[i - 1]->row.agent_id, agent->row.agent_id) >= 0)
            return "agents are not in the order of their ids";
        if (agent->document_decision > cluster->meta.decision)
            return "a document with a version that is still to come";
    }
    return NULL;
}

const char *cluster_check(const struct cluster *cluster)
{
    const char *broken = check_jobs(cluster);
    if (broken == NULL)
        broken = check_operations(cluster);
    if (broken == NULL)
        broken = check_agents(cluster);
    if (broken == NULL)
        broken = check_epochs(cluster);
    return broken;
}
