/*
 * A look at the topics of each running job now and then: what somebody does to them outside of
 * baton becomes a problem of the job (watch.h). One call at a time, so that whoever waits for Kafka
 * waits for one look at most; with many jobs each has its turn less often. What is found is not
 * durable: after a restart it is found again.
 */
#include <assert.h>

#include "common/mem.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/watch.h"

#define TOPICS_PAUSE_MS 100   /* between two looks */
#define TOPICS_RETRY_MS 60000 /* of a job whose topics may not be described */

void step_topics_due(struct step *step, struct job *job, int64_t due_ms)
{
    struct cluster *cluster = step->cluster;
    job->topics.due_ms = due_ms;
    if (cluster->topics_call == 0 && due_ms < cluster->topics_ms)
        cluster->topics_ms = due_ms;
}

static struct job *find_next(const struct cluster *cluster)
{
    struct job *next = NULL;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        struct job *job = cluster->jobs.items[i];
        if (job->row.state == JOB_STATE_RUNNING &&
            (next == NULL || job->topics.due_ms < next->topics.due_ms))
            next = job;
    }
    return next;
}

void step_look_at_topics(struct step *step)
{
    struct cluster *cluster = step->cluster;
    if (cluster->config.topics_interval_ms == 0 || cluster->topics_call != 0 ||
        step->event->now_ms < cluster->topics_ms)
        return;
    struct job *job = find_next(cluster);
    cluster->topics_ms = job == NULL ? INT64_MAX : job->topics.due_ms;
    if (job == NULL || step->event->now_ms < job->topics.due_ms)
        return;
    struct kafka_call *call = step_call(step, KAFKA_CALL_TOPICS, &job->row.spec, job->row.name);
    call->output = rows_text_copy(job->row.spec.output);
    call->dead_letter = rows_text_copy(job->row.spec.dead_letter_topic);
    job->topics.call = cluster->topics_call = call->id;
    cluster->topics_ms = INT64_MAX;
}

int64_t step_topics_wake(const struct cluster *cluster)
{
    return cluster->config.topics_interval_ms == 0 ? INT64_MAX : cluster->topics_ms;
}

static struct job *find_asked(const struct cluster *cluster, uint64_t call)
{
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        if (cluster->jobs.items[i]->topics.call == call)
            return cluster->jobs.items[i];
    }
    return NULL; /* deleted meanwhile */
}

static void judge(struct step *step, struct job *job)
{
    const struct kafka_inspection *inspection = &step->event->kafka.inspection;
    step_adopt_partitions(step, job, inspection);
    watch_judge(&job->row, inspection, step->event->now_at, &job->topics);
}

void step_topics_result(struct step *step)
{
    struct cluster *cluster = step->cluster;
    const struct kafka_result *result = &step->event->kafka;
    int64_t now_ms = step->event->now_ms, interval_ms = cluster->config.topics_interval_ms;
    struct job *job = find_asked(cluster, result->id);
    assert(result->id == cluster->topics_call);
    cluster->topics_call = 0;
    /* Brokers that do not answer hold up all other calls as well: leave them time. */
    cluster->topics_ms =
        now_ms + (result->failed && !result->refused ? interval_ms : TOPICS_PAUSE_MS);
    if (job == NULL)
        return;
    job->topics.call = 0;
    job->topics.due_ms =
        now_ms + (result->refused && interval_ms < TOPICS_RETRY_MS ? TOPICS_RETRY_MS : interval_ms);
    if (!result->failed) /* else what was found last is still the best that is known */
        judge(step, job);
}
