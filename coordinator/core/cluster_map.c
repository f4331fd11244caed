/* What the maps of D2 make of a job: the partitions of each processor, and the document of each
 * agent. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/handoff.h"

/*
 * The partitions of a processor are an arithmetic progression: a bucket that is not split yet at
 * the present level takes every (M0 * 2^L)-th, a split one or the child of one every second of
 * these. So the list is made without asking linhash for each of the job's partitions.
 */
static void owned_among(const struct job *job, uint32_t processor, uint32_t processors,
                        struct uint_list *ret_owned)
{
    struct linhash_size size = {.initial = job->row.processors_initial, .now = processors};
    assert(processor < size.now);
    uint64_t base = (uint64_t)size.initial << linhash_level(size);
    uint32_t split = linhash_split_pointer(size);
    uint64_t stride = processor < split || processor >= base ? base * 2 : base;
    struct uint_list owned = {
        .items = mem_calloc((size_t)(job->row.partitions / stride) + 1, sizeof(uint32_t))};
    for (uint64_t partition = processor; partition < job->row.partitions; partition += stride)
        owned.items[owned.count++] = (uint32_t)partition;
    *ret_owned = owned;
}

/* Of what a split makes: as if it were there. */
void cluster_owned_partitions(const struct job *job, uint32_t processor,
                              struct uint_list *ret_owned)
{
    bool nascent = job->nascent && processor == job->row.processors;
    owned_among(job, processor, job->row.processors + nascent, ret_owned);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

void cluster_read_partitions(const struct job *job, uint32_t processor, struct uint_list *ret_read)
{
    struct uint_list owned;
    cluster_owned_partitions(job, processor, &owned);
    struct uint_list read = {.items = mem_calloc(owned.count * 33, sizeof(uint32_t))};
    for (size_t i = 0; i < owned.count; i++) {
        read.items[read.count++] = owned.items[i];
        if (!job->row.spec.stateful || !cluster_keeps_keys(job))
            continue;
        read.count +=
            linhash_ancestors(owned.items[i], job->row.partitions_initial, &read.items[read.count]);
    }
    free(owned.items);
    qsort(read.items, read.count, sizeof(uint32_t), compare_numbers);
    size_t distinct = 0;
    for (size_t i = 0; i < read.count; i++)
        if (distinct == 0 || read.items[distinct - 1] != read.items[i])
            read.items[distinct++] = read.items[i];
    read.count = distinct;
    *ret_read = read;
}

/* ---- documents */

static bool owned_by(const struct processor *processor, const struct agent *agent)
{
    return processor->placement.agent != NULL &&
           strcmp(processor->placement.agent, agent->row.agent_id) == 0;
}

/* It learns the processor as the target of a hand-over; without state there is nothing to learn. */
static bool learned_by(const struct job *job, const struct processor *processor,
                       const struct agent *agent)
{
    const struct handoff *handoff = processor->handoff;
    return handoff != NULL && job->row.spec.stateful &&
           handoff_before_release(handoff->row.state) &&
           strcmp(handoff->row.target, agent->row.agent_id) == 0 &&
           strcmp(handoff->row.target_incarnation, agent->row.incarnation) == 0;
}

/* Its agent's row has changed when it is another start: see register_start. */
static bool guarded_by(const struct processor *processor, const struct agent *agent)
{
    return cluster_standby(processor, agent->row.agent_id) != NULL;
}

/* What the agent has of it; false: nothing. */
static bool role_of(const struct job *job, const struct processor *processor,
                    const struct agent *agent, enum task_role *ret_role)
{
    if (owned_by(processor, agent))
        *ret_role = TASK_ROLE_ACTIVE;
    else if (learned_by(job, processor, agent))
        *ret_role = TASK_ROLE_LEARNER;
    else if (guarded_by(processor, agent))
        *ret_role = TASK_ROLE_STANDBY;
    else
        return false;
    return true;
}

static size_t count_tasks(const struct job *job, const struct agent *agent)
{
    size_t count = 0;
    enum task_role role;
    if (job->row.state != JOB_STATE_RUNNING)
        return 0;
    for (size_t i = 0; i < job->processors.count + job->nascent; i++)
        count += role_of(job, &job->processors.items[i], agent, &role);
    return count;
}

static void describe_job(const struct job *job, struct document_job *ret_job)
{
    const struct job_row *row = &job->row;
    *ret_job = (struct document_job){
        .name = mem_strdup(row->name),
        .incarnation = mem_strdup(row->incarnation),
        .partitions_initial = row->partitions_initial,
        .partitions = row->partitions,
        .processors_initial = row->processors_initial,
        .processors = row->processors,
        .processors_settled = cluster_settled(job),
        .partitioner = row->partitioner,
        .paused = cluster_is_held(job),
        .frozen = row->group.hold == GROUP_HOLD_FROZEN && !row->pause.on,
        .waiting = row->group.hold == GROUP_HOLD_STARTING ||
                   (row->group.hold == GROUP_HOLD_WAITING && !row->pause.on),
    };
    schema_copy(&schema_job_spec, &ret_job->spec, &row->spec);
    if (row->origins.count > 0) {
        ret_job->origins.items =
            mem_memdup(row->origins.items, row->origins.count * sizeof(*row->origins.items));
        ret_job->origins.count = row->origins.count;
    }
    ret_job->windows.items = cluster_list_windows(job);
    ret_job->windows.count = job->windows.count;
}

/* The same of a split, whose epoch is handed out by then. */
static void describe_split(const struct handoff *split, struct document_task *task)
{
    if (split == NULL || split->row.state != HANDOFF_STATE_RELEASING)
        return;
    const struct uint_list *partitions = &split->row.partitions;
    task->split_handoff = split->row.id;
    task->split_processor = split->row.processor;
    task->split_epoch = split->row.target_epoch;
    task->split_partitions.items =
        mem_memdup(partitions->items, partitions->count * sizeof(*partitions->items));
    task->split_partitions.count = partitions->count;
}

/* The source hears of its hand-over when it shall release, not before: until then nothing changes
 * for it. */
static void describe_task(const struct job *job, const struct processor *processor,
                          enum task_role role, struct document_task *ret_task)
{
    const struct handoff *handoff = processor->handoff;
    bool owned = role == TASK_ROLE_ACTIVE;
    bool release = owned && handoff != NULL && handoff->row.state == HANDOFF_STATE_RELEASING;
    *ret_task = (struct document_task){
        .job = mem_strdup(job->row.name),
        .processor = processor->placement.processor,
        .role = role,
        .epoch = owned ? processor->placement.epoch : 0,
        .handoff = owned ? processor->placement.handoff : 0,
        .release = release,
    };
    if (release || role == TASK_ROLE_LEARNER)
        ret_task->handoff = handoff->row.id;
    if (owned)
        describe_split(cluster_split_of(job, ret_task->processor), ret_task);
    const struct placement_row *placement = &processor->placement;
    if (owned && placement->paused_t1.count > 0) {
        ret_task->paused_t1.items = mem_memdup(
            placement->paused_t1.items, placement->paused_t1.count * sizeof(struct input_offset));
        ret_task->paused_t1.count = placement->paused_t1.count;
    }
    if (owned && placement->chosen.count > 0) {
        ret_task->chosen.items = mem_memdup(placement->chosen.items,
                                            placement->chosen.count * sizeof(struct chosen_offset));
        ret_task->chosen.count = placement->chosen.count;
    }
    cluster_owned_partitions(job, ret_task->processor, &ret_task->owned);
    cluster_read_partitions(job, ret_task->processor, &ret_task->read);
    ret_task->bounds.items = cluster_list_bounds(job, ret_task->processor, &ret_task->bounds.count);
    ret_task->skips.items = cluster_list_skips(job, &ret_task->read, &ret_task->skips.count);
}

static void describe_tasks(const struct cluster *cluster, const struct job *job,
                           const struct agent *agent, struct agent_document *document)
{
    for (size_t p = 0; p < job->processors.count + job->nascent; p++) {
        const struct processor *processor = &job->processors.items[p];
        enum task_role role;
        if (!role_of(job, processor, agent, &role))
            continue;
        struct document_task *task = &document->tasks.items[document->tasks.count++];
        describe_task(job, processor, role, task);
        cluster_describe_seeds(cluster, job, processor, agent, task);
        cluster_describe_crashes(cluster, job, agent, task);
    }
}

void cluster_document(const struct cluster *cluster, const struct agent *agent,
                      struct agent_document *ret_document)
{
    size_t job_count = 0, task_count = 0;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        size_t tasks = count_tasks(cluster->jobs.items[i], agent);
        job_count += tasks > 0;
        task_count += tasks;
    }
    *ret_document = (struct agent_document){.version = cluster_document_version(cluster, agent)};
    ret_document->jobs.items = mem_calloc(job_count, sizeof(struct document_job));
    ret_document->tasks.items = mem_calloc(task_count, sizeof(struct document_task));
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        if (count_tasks(job, agent) == 0)
            continue;
        describe_job(job, &ret_document->jobs.items[ret_document->jobs.count++]);
        describe_tasks(cluster, job, agent, ret_document);
    }
    assert(ret_document->jobs.count == job_count);
    assert(ret_document->tasks.count == task_count);
}

/* ---- what learners follow */

/* Once a split has happened, whoever it makes goes no further in what stays with its parent. That a
 * bound is said is enough: without transactions it is, before all that leaves has left. */
static int64_t followed_of(const struct task_report *report,
                           const struct partition_progress *progress, bool nascent)
{
    for (size_t i = 0; i < report->split_bounds.count && nascent; i++) {
        const struct ancestor_bound *bound = &report->split_bounds.items[i];
        if (bound->topic == progress->topic && bound->partition == progress->partition)
            return bound->offset;
    }
    return progress->t1;
}

/* T1 of those of `partitions` that the processor owns, out of its owner's newest report, unless
 * that came before `since_ms`. Of ancestors that others own the bounds are in the document. */
static bool add_committed(const struct cluster *cluster, const struct job *job, uint32_t processor,
                          int64_t since_ms, const struct uint_list *partitions, bool nascent,
                          struct follow *follow)
{
    const struct processor *owned = &job->processors.items[processor];
    const struct task_report *report = cluster_report(cluster, owned);
    struct linhash_size size = {.initial = job->row.processors_initial, .now = job->row.processors};
    if (report == NULL || owned->observed.received_ms < since_ms)
        return false;
    follow->committed.items =
        mem_realloc(follow->committed.items, follow->committed.count + report->progress.count,
                    sizeof(struct input_offset));
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *progress = &report->progress.items[i];
        if (progress->t1 == API_UNKNOWN || linhash_bucket(progress->partition, size) != processor ||
            bsearch(&progress->partition, partitions->items, partitions->count, sizeof(uint32_t),
                    compare_numbers) == NULL)
            continue;
        follow->committed.items[follow->committed.count++] =
            (struct input_offset){.topic = progress->topic,
                                  .partition = progress->partition,
                                  .offset = followed_of(report, progress, nascent)};
    }
    return true;
}

/* What a split makes follows who has its partitions now. */
bool cluster_follow(const struct cluster *cluster, const struct job *job, uint32_t processor,
                    int64_t now_ms, struct follow *ret_follow)
{
    bool nascent = job->nascent && processor == job->processors.count;
    uint32_t owner = nascent ? cluster_parent(job, processor) : processor;
    struct uint_list read;
    struct follow follow = {.processor = processor};
    const struct handoff *handoff = job->processors.items[processor].handoff;
    int64_t since_ms = now_ms - CLUSTER_FOLLOW_MS;
    if (handoff != NULL && handoff->begun_ms > since_ms)
        since_ms = handoff->begun_ms;
    cluster_read_partitions(job, processor, &read);
    bool known = add_committed(cluster, job, owner, since_ms, &read, nascent, &follow);
    if (known) {
        follow.job = mem_strdup(job->row.name);
        *ret_follow = follow;
    }
    free(read.items);
    return known;
}
