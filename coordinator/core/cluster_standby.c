/* Standbys: who has one, and how far it is. */
#include <string.h>

#include "common/hash/linhash.h"
#include "coordinator/core/cluster_internal.h"

bool cluster_find_standby(const struct processor *processor, const char *agent_id,
                          size_t *ret_index)
{
    size_t index = 0; /* there are a few at most */
    while (index < processor->standbys.count &&
           strcmp(processor->standbys.items[index].row.agent, agent_id) < 0)
        index++;
    *ret_index = index;
    return index < processor->standbys.count &&
           strcmp(processor->standbys.items[index].row.agent, agent_id) == 0;
}

struct standby *cluster_standby(const struct processor *processor, const char *agent_id)
{
    size_t index;
    return cluster_find_standby(processor, agent_id, &index) ? &processor->standbys.items[index]
                                                             : NULL;
}

const struct task_report *cluster_standby_report(const struct cluster *cluster,
                                                 const struct standby *standby)
{
    const struct processor_observed *observed = &standby->observed;
    const struct agent *agent = cluster_agent(cluster, standby->row.agent);
    if (!observed->known || agent == NULL || observed->serial != agent->reports ||
        strcmp(observed->agent_incarnation, standby->row.agent_incarnation) != 0)
        return NULL;
    return &observed->report;
}

const char *cluster_agent_zone(const struct agent *agent)
{
    for (size_t i = 0; i < agent->row.tags.count; i++)
        if (strcmp(agent->row.tags.items[i].name, "zone") == 0)
            return agent->row.tags.items[i].value;
    return NULL;
}

/* ---- how far it is */

/* T2 of the partition, or API_UNKNOWN. Both lists are in one order, so `from` is near. */
static int64_t find_learned(const struct task_report *report, size_t *from,
                            const struct partition_progress *like)
{
    for (size_t i = 0; i < report->progress.count; i++) {
        size_t index = (*from + i) % report->progress.count;
        const struct partition_progress *progress = &report->progress.items[index];
        if (progress->topic != like->topic || progress->partition != like->partition)
            continue;
        *from = index + 1;
        return progress->t2;
    }
    return API_UNKNOWN;
}

static struct standby_lag measure(const struct job *job, const struct task_report *report,
                                  const struct partition_progress *owned, size_t count)
{
    static const struct standby_lag unknown = {API_UNKNOWN, API_UNKNOWN};
    struct linhash_size size = {.initial = job->row.processors_initial, .now = job->row.processors};
    struct standby_lag lag = {0, 0};
    size_t from = 0;
    for (size_t i = 0; i < count; i++) {
        if (linhash_bucket(owned[i].partition, size) != report->processor)
            continue; /* an ancestor */
        int64_t learned = find_learned(report, &from, &owned[i]);
        if (owned[i].t1 == API_UNKNOWN || learned == API_UNKNOWN)
            return unknown;
        int64_t behind = owned[i].t1 > learned ? owned[i].t1 - learned : 0;
        if (behind > lag.most)
            lag.most = behind;
        if (__builtin_add_overflow(lag.sum, behind, &lag.sum))
            lag.sum = INT64_MAX;
    }
    return count > 0 ? lag : unknown;
}

struct standby_lag cluster_standby_lag(const struct cluster *cluster, const struct job *job,
                                       const struct processor *processor,
                                       const struct standby *standby)
{
    const struct task_report *report = cluster_standby_report(cluster, standby);
    if (report == NULL ||
        (report->state != TASK_STATE_LEARNING && report->state != TASK_STATE_CAUGHT_UP))
        return (struct standby_lag){API_UNKNOWN, API_UNKNOWN};
    struct standby_lag lag = {API_UNKNOWN, API_UNKNOWN};
    if (processor->observed.known)
        lag = measure(job, report, processor->observed.report.progress.items,
                      processor->observed.report.progress.count);
    /* An owner that is opening, or has failed at that, does not know its T1. */
    return lag.most != API_UNKNOWN
               ? lag
               : measure(job, report, processor->stored.items, processor->stored.count);
}

bool cluster_standby_ready(const struct cluster *cluster, const struct job *job,
                           const struct processor *processor, const struct standby *standby)
{
    int64_t most = cluster_standby_lag(cluster, job, processor, standby).most;
    return most != API_UNKNOWN && most <= job->row.spec.acceptable_lag;
}
