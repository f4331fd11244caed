/* Records of a job that are passed by somebody's word. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/rows.h"

static int compare(const struct skip_row *row, uint32_t topic, uint32_t partition, int64_t offset)
{
    if (row->topic != topic)
        return row->topic < topic ? -1 : 1;
    if (row->partition != partition)
        return row->partition < partition ? -1 : 1;
    return (row->offset > offset) - (row->offset < offset);
}

static bool find(const struct job *job, uint32_t topic, uint32_t partition, int64_t offset,
                 size_t *ret_index)
{
    size_t low = 0, high = job->skips.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&job->skips.items[middle], topic, partition, offset) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_index = low;
    return low < job->skips.count && compare(&job->skips.items[low], topic, partition, offset) == 0;
}

const struct skip_row *cluster_skip(const struct job *job, uint32_t topic, uint32_t partition,
                                    int64_t offset)
{
    size_t index;
    return find(job, topic, partition, offset, &index) ? &job->skips.items[index] : NULL;
}

size_t cluster_count_skips(const struct job *job, uint32_t topic, uint32_t partition)
{
    size_t from, to;
    (void)find(job, topic, partition, 0, &from);
    (void)find(job, topic, partition, INT64_MAX, &to);
    return to - from;
}

bool cluster_knows_skips(const struct cluster *cluster, const struct job *job,
                         const struct agent *agent)
{
    struct document_version needed = {.start = cluster->meta.start_number,
                                      .decision = job->skips_decision};
    return job->skips.count == 0 || cluster_compare_versions(agent->applied, needed) >= 0;
}

void cluster_apply_skip(struct cluster *cluster, struct skip_row *row)
{
    size_t index;
    struct job *job = cluster_job(cluster, row->job);
    if (find(job, row->topic, row->partition, row->offset, &index)) {
        rows_finish_skip(&job->skips.items[index]);
    } else {
        job->skips.items = mem_grow(job->skips.items, job->skips.count, &job->skips.capacity,
                                    sizeof(struct skip_row));
        memmove(&job->skips.items[index + 1], &job->skips.items[index],
                (job->skips.count - index) * sizeof(struct skip_row));
        job->skips.count++;
    }
    job->skips.items[index] = *row;
    *row = (struct skip_row){0};
}

struct input_offset *cluster_list_skips(const struct job *job, const struct uint_list *read,
                                        size_t *ret_count)
{
    size_t count = 0;
    struct input_offset *items = mem_calloc(job->skips.count, sizeof(*items));
    for (size_t i = 0; i < job->skips.count; i++) {
        const struct skip_row *row = &job->skips.items[i];
        for (size_t k = 0; k < read->count; k++)
            if (read->items[k] == row->partition)
                items[count++] = (struct input_offset){row->topic, row->partition, row->offset};
    }
    *ret_count = count;
    return items;
}

const char *cluster_check_skips(const struct job *job)
{
    size_t in_partition = 0;
    if (job->skips.count > API_SKIPS_MAX)
        return "more skips than a job may have";
    for (size_t i = 0; i < job->skips.count; i++) {
        const struct skip_row *row = &job->skips.items[i];
        const struct skip_row *before = i > 0 ? &job->skips.items[i - 1] : NULL;
        if (row->topic >= job->row.spec.inputs.count || row->partition >= job->row.partitions ||
            row->offset < 0 || row->processor >= job->row.processors)
            return "a skip of a record that the job can not have";
        if (before != NULL && compare(before, row->topic, row->partition, row->offset) >= 0)
            return "skips are not in order, or one is there twice";
        bool same =
            before != NULL && before->topic == row->topic && before->partition == row->partition;
        in_partition = same ? in_partition + 1 : 1;
        if (in_partition > API_SKIPS_PARTITION_MAX)
            return "more skips than a partition may have";
    }
    return NULL;
}

void cluster_finish_skips(struct job *job)
{
    for (size_t i = 0; i < job->skips.count; i++)
        rows_finish_skip(&job->skips.items[i]);
    free(job->skips.items);
}
