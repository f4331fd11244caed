/* Splits: a new processor that gets a part of what another one has (D2, D4). */
#include <stddef.h>

#include "common/hash/linhash.h"
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

/* One split of a job goes on at a time, so only the newest can be without its state. */
uint32_t cluster_settled(const struct job *job)
{
    const struct processor *child = cluster_split_child(job);
    return child != NULL ? child->placement.processor : job->row.processors;
}

struct processor *cluster_split_child(const struct job *job)
{
    uint32_t count = job->row.processors;
    if (job->nascent)
        return cluster_nascent(job);
    if (count == 0 || job->processors.count < count)
        return NULL;
    struct processor *newest = &job->processors.items[count - 1];
    return newest->handoff != NULL && newest->handoff->row.kind == HANDOFF_KIND_SPLIT ? newest
                                                                                      : NULL;
}

struct handoff *cluster_split_of(const struct job *job, uint32_t processor)
{
    const struct processor *nascent = cluster_nascent(job);
    return nascent != NULL && cluster_parent(job, nascent->placement.processor) == processor
               ? nascent->handoff
               : NULL;
}
