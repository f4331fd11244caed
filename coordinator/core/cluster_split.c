/* Splits: a new processor that gets a part of what another one has (D2, D4). */
#include <stdlib.h>

#include "common/hash/linhash.h"
#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/handoff.h"

struct processor *cluster_nascent(const struct job *job)
{
    return job->nascent ? &job->processors.items[job->processors.count] : NULL;
}

uint32_t cluster_parent(const struct job *job, uint32_t processor)
{
    return processor < job->row.processors_initial
               ? processor
               : linhash_parent(processor, job->row.processors_initial);
}

/* However its split has ended: one that failed has left it without what only the parent has. */
static bool is_settled(const struct job *job, const struct processor *processor)
{
    return processor->placement.settled ||
           processor->placement.processor < job->row.processors_initial;
}

uint32_t cluster_settled(const struct job *job)
{
    uint32_t count = 0;
    while (count < job->processors.count && is_settled(job, &job->processors.items[count]))
        count++;
    return count;
}

struct processor *cluster_split_child(const struct job *job, uint32_t parent)
{
    for (size_t i = (size_t)parent + 1; i < job->processors.count + job->nascent; i++) {
        struct processor *child = &job->processors.items[i];
        if (!is_settled(job, child) && cluster_parent(job, (uint32_t)i) == parent)
            return child;
    }
    return NULL;
}

bool cluster_keeps_keys(const struct job *job)
{
    struct linhash_size size = {.initial = job->row.processors_initial,
                                .now = job->row.partitions_initial};
    return size.now >= size.initial && linhash_split_pointer(size) == 0;
}

bool cluster_inherits(const struct job *job, uint32_t processor)
{
    return job->row.spec.stateful && processor >= job->row.partitions_initial &&
           cluster_keeps_keys(job);
}

static int compare_bounds(const void *a, const void *b)
{
    const struct ancestor_bound *left = a, *right = b;
    if (left->topic != right->topic)
        return left->topic < right->topic ? -1 : 1;
    return (left->partition > right->partition) - (left->partition < right->partition);
}

/* The split that made a processor has decided about its nearest ancestor, those of its ancestors
 * about theirs. */
struct ancestor_bound *cluster_list_bounds(const struct job *job, uint32_t processor,
                                           size_t *ret_count)
{
    struct ancestor_bound *items = NULL;
    size_t count = 0, capacity = 0;
    for (; cluster_inherits(job, processor); processor = cluster_parent(job, processor)) {
        const struct placement_row *row = &job->processors.items[processor].placement;
        for (size_t i = 0; i < row->bounds.count; i++) {
            items = mem_grow(items, count, &capacity, sizeof(*items));
            items[count++] = row->bounds.items[i];
        }
    }
    if (count > 1)
        qsort(items, count, sizeof(*items), compare_bounds);
    *ret_count = count;
    return items;
}

struct handoff *cluster_split_of(const struct job *job, uint32_t processor)
{
    const struct processor *nascent = cluster_nascent(job);
    return nascent != NULL && cluster_parent(job, nascent->placement.processor) == processor
               ? nascent->handoff
               : NULL;
}
