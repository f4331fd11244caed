/* What more partitions change in a job: its offsets and its map, settle windows, and what
 * hand-overs that are under way move. Why and when: step_partitions.c. */
#include <stdlib.h>

#include "common/mem.h"
#include "coordinator/core/creation.h"
#include "coordinator/core/step_internal.h"

static void add_offsets(const struct job_row *row, uint32_t wanted, struct input_offset **items,
                        size_t *count)
{
    size_t topics = row->spec.inputs.count;
    struct input_offset *all = mem_calloc(topics * wanted, sizeof(*all));
    for (size_t i = 0; i < topics * wanted; i++) {
        uint32_t topic = (uint32_t)(i / wanted), partition = (uint32_t)(i % wanted);
        int64_t offset = partition < row->partitions
                             ? (*items)[(size_t)topic * row->partitions + partition].offset
                             : 0;
        all[i] = (struct input_offset){topic, partition, offset};
    }
    free(*items);
    *items = all;
    *count = topics * wanted;
}

static void grow_map(struct step *step, const struct job *job, uint32_t wanted)
{
    struct change change = step_job_change(job);
    add_offsets(&job->row, wanted, &change.job.origins.items, &change.job.origins.count);
    add_offsets(&job->row, wanted, &change.job.starts.items, &change.job.starts.count);
    change.job.partitions = wanted;
    change.job.map_version++;
    creation_warn_anew(&change.job);
    step_change(step, &change);
}

/* A new partition that was made together with descendants of its own has a window, too: all that it
 * holds was written by one of the counts from there on. */
static bool has_descendants(const struct job_row *row, size_t partition)
{
    uint64_t stride = row->partitions_initial;
    while (stride <= partition)
        stride *= 2;
    return partition + stride < row->partitions;
}

static void open_windows(struct step *step, const struct job *job,
                         const struct operation *operation)
{
    size_t topics = job->row.spec.inputs.count, wanted = job->row.partitions, count = 0;
    size_t before = operation->row.ends.count / topics;
    struct input_offset *ends = mem_calloc(topics * wanted, sizeof(*ends));
    for (size_t i = 0; i < topics * wanted; i++) {
        size_t topic = i / wanted, partition = i % wanted;
        if (partition < before)
            ends[count++] = operation->row.ends.items[topic * before + partition];
        else if (has_descendants(&job->row, partition))
            ends[count++] = (struct input_offset){(uint32_t)topic, (uint32_t)partition, 0};
    }
    step_open_windows(step, job, ends, count);
    free(ends);
}

static void grow_handoffs(struct step *step, struct job *job)
{
    for (uint32_t i = 0; i < job->processors.count; i++) {
        if (job->processors.items[i].handoff == NULL)
            continue;
        struct change change = step_handoff_change(job->processors.items[i].handoff);
        free(change.handoff.partitions.items);
        cluster_owned_partitions(job, i, &change.handoff.partitions);
        step_change(step, &change);
    }
}

void step_grow_partitions(struct step *step, struct job *job, const struct operation *operation)
{
    grow_map(step, job, (uint32_t)operation->row.goal);
    open_windows(step, job, operation);
    grow_handoffs(step, job);
}
