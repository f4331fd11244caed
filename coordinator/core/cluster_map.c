/* What the maps of D2 make of a job: the partitions of each processor, and the document of each
 * agent. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "coordinator/core/cluster.h"

/*
 * The partitions of a processor are an arithmetic progression: a bucket that is not split yet at
 * the present level takes every (M0 * 2^L)-th, a split one or the child of one every second of
 * these. So the list is made without asking linhash for each of the job's partitions.
 */
void cluster_owned_partitions(const struct job *job, uint32_t processor,
                              struct uint_list *ret_owned)
{
    struct linhash_size size = {.initial = job->row.processors_initial, .now = job->row.processors};
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

static size_t count_owned(const struct job *job, const struct agent *agent)
{
    size_t count = 0;
    for (size_t i = 0; i < job->processors.count; i++)
        count += owned_by(&job->processors.items[i], agent);
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
        .partitioner = row->partitioner,
    };
    schema_copy(&schema_job_spec, &ret_job->spec, &row->spec);
    if (row->origins.count > 0) {
        ret_job->origins.items =
            mem_memdup(row->origins.items, row->origins.count * sizeof(*row->origins.items));
        ret_job->origins.count = row->origins.count;
    }
}

static void describe_task(const struct job *job, const struct processor *processor,
                          struct document_task *ret_task)
{
    *ret_task = (struct document_task){
        .job = mem_strdup(job->row.name),
        .processor = processor->placement.processor,
        .role = TASK_ROLE_ACTIVE,
        .epoch = processor->placement.epoch,
    };
    cluster_owned_partitions(job, ret_task->processor, &ret_task->owned);
    cluster_read_partitions(job, ret_task->processor, &ret_task->read);
}

void cluster_document(const struct cluster *cluster, const struct agent *agent,
                      struct agent_document *ret_document)
{
    size_t job_count = 0, task_count = 0;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        size_t owned = job->row.state == JOB_STATE_RUNNING ? count_owned(job, agent) : 0;
        job_count += owned > 0;
        task_count += owned;
    }
    *ret_document = (struct agent_document){.version = cluster_document_version(cluster, agent)};
    ret_document->jobs.items = mem_calloc(job_count, sizeof(struct document_job));
    ret_document->tasks.items = mem_calloc(task_count, sizeof(struct document_task));
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        if (job->row.state != JOB_STATE_RUNNING || count_owned(job, agent) == 0)
            continue;
        describe_job(job, &ret_document->jobs.items[ret_document->jobs.count++]);
        for (size_t p = 0; p < job->processors.count; p++)
            if (owned_by(&job->processors.items[p], agent))
                describe_task(job, &job->processors.items[p],
                              &ret_document->tasks.items[ret_document->tasks.count++]);
    }
    assert(ret_document->jobs.count == job_count);
    assert(ret_document->tasks.count == task_count);
}
