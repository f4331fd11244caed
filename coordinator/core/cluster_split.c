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
    uint32_t count = job->row.processors;
    if (count == 0 || job->processors.count < count)
        return 0;
    const struct handoff *handoff = job->processors.items[count - 1].handoff;
    bool split = handoff != NULL && handoff->row.kind == HANDOFF_KIND_SPLIT;
    return split ? count - 1 : count;
}

struct handoff *cluster_split_of(const struct job *job, uint32_t processor)
{
    const struct processor *nascent = cluster_nascent(job);
    return nascent != NULL && cluster_parent(job, nascent->placement.processor) == processor
               ? nascent->handoff
               : NULL;
}
