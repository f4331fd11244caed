/*
 * More partitions for a task that is at work: everything that has a place for each partition gets
 * more of them, and what was there stays as it is. The consumer goes on fetching the others.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/reconcile.h"
#include "agent/task_private.h"
#include "common/clock.h"
#include "common/hash/linhash.h"
#include "common/logger.h"
#include "common/mem.h"

/* A broker may hear of new partitions later than the coordinator did. */
#define METADATA_TIMEOUT_MS 1000
#define RETRY_MS            200
#define PATIENCE_MS         10000

bool task_grow_possible(const struct task_thread *thread, const struct task_desired *desired,
                        const struct document_task *task)
{
    return task_may_grow(&thread->core, desired) && thread->consumer != NULL &&
           reconcile_is_subset(&thread->desired.owned, &task->owned) &&
           reconcile_is_subset(&thread->desired.read, &task->read);
}

/* The partitions of `task` that the thread does not have yet, with T0; heap. NULL: one of them has
 * no origin. */
static struct task_partition *list_added(const struct task_thread *thread,
                                         const struct document_job *job,
                                         const struct document_task *task, size_t *ret_count)
{
    struct task_partition *added =
        mem_calloc(job->spec.inputs.count * task->read.count, sizeof(*added));

    *ret_count = 0;
    for (uint32_t topic = 0; topic < job->spec.inputs.count; topic++) {
        for (size_t i = 0; i < task->read.count; i++) {
            uint32_t partition = task->read.items[i];
            int64_t origin = task_told_origin(job, topic, partition);

            if (task_told_holds(&thread->desired.read, partition))
                continue;
            if (origin == API_UNKNOWN) {
                free(added);
                return NULL;
            }
            added[(*ret_count)++] = (struct task_partition){
                .topic = topic,
                .partition = partition,
                .owned = task_told_holds(&task->owned, partition),
                .t0 = origin,
            };
        }
    }
    return added;
}

#define GROW(items, before, added)                                                                 \
    do {                                                                                           \
        (items) = mem_realloc((items), (before) + (added), sizeof(*(items)));                      \
        memset(&(items)[before], 0, (added) * sizeof(*(items)));                                   \
    } while (0)

static void grow_scratch(struct task_thread *thread, size_t before, size_t added)
{
    GROW(thread->lineage, before, added);
    GROW(thread->offsets, before, added);
    GROW(thread->records, before, added);
    GROW(thread->policies, before, added);
    GROW(thread->followed, before, added);
    GROW(thread->rested, before, added);
    GROW(thread->chosen, before, added);
    GROW(thread->ranges, before, added);
    GROW(thread->failing, before, added);
    GROW(thread->committed, before, added);
    for (size_t i = before; i < before + added; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        thread->lineage[i] = (struct store_position){
            .topic = partition->topic,
            .partition = partition->partition,
            .root = linhash_root(partition->partition, thread->core.config.partitions_initial),
            .next_offset = partition->position,
            .record_time_ms = API_UNKNOWN,
            .last_offset = API_UNKNOWN,
            .records = API_UNKNOWN,
        };
    }
}

/* Not before the client knows the partitions: it would say that there are none. */
static enum err_code check_known(struct task_thread *thread, const struct document_job *job,
                                 struct err *reterr)
{
    for (size_t i = 0; i < job->spec.inputs.count; i++) {
        enum err_code code =
            consumer_refresh(thread->consumer, i, job->partitions, METADATA_TIMEOUT_MS, reterr);
        if (code != ERR_NONE)
            return code;
    }
    return ERR_NONE;
}

void task_watch_anew(struct task_thread *thread)
{
    const struct observer_watch_config watch = {
        .topics = thread->job.spec.inputs.items,
        .partitions = thread->core.partitions,
        .partition_count = thread->core.partition_count,
        .wake = task_thread_wake,
        .wake_arg = thread,
    };

    observer_unwatch(thread->watch);
    thread->watch = observer_watch(thread->context->observer, &watch);
    thread->ranges_due_ms = 0; /* what the last one was asked is not answered any more */
    thread->ranges_out = false;
}

static void postpone(struct task_thread *thread, int64_t now_ms)
{
    if (thread->grow_since_ms == 0)
        thread->grow_since_ms = now_ms;
    thread->grow_retry_ms = now_ms + RETRY_MS;
}

static enum err_code read_added(struct task_thread *thread, size_t before, struct err *reterr)
{
    if (!thread->core.assigned) { /* stateless learners read nothing */
        consumer_grow(thread->consumer, thread->core.partitions, thread->core.partition_count);
        return ERR_NONE;
    }
    for (size_t i = before; i < thread->core.partition_count; i++)
        thread->offsets[i] = thread->core.partitions[i].position;
    consumer_grow(thread->consumer, thread->core.partitions, thread->core.partition_count);
    return consumer_assign_more(thread->consumer, before, thread->offsets, reterr);
}

enum task_grow_result task_grow_try(struct task_thread *thread, const struct document_job *job,
                                    const struct document_task *task)
{
    int64_t now_ms = clock_mono_ms();
    size_t before = thread->core.partition_count, count;
    struct task_partition *added;
    enum err_code code;
    struct err err;

    assert(thread->event_count == 0); /* events hold pointers to what moves here */
    if (check_known(thread, job, &err) != ERR_NONE) {
        bool patient = thread->grow_since_ms == 0 || now_ms - thread->grow_since_ms < PATIENCE_MS;

        postpone(thread, now_ms);
        log_warn("grow_waiting", LOG_STR("job", job->name), LOG_INT("processor", task->processor),
                 LOG_STR("error", err.text), LOG_END);
        return patient ? TASK_GROW_LATER : TASK_GROW_IMPOSSIBLE;
    }
    thread->grow_since_ms = thread->grow_retry_ms = 0;
    added = list_added(thread, job, task, &count);
    if (added == NULL || count == 0) {
        free(added);
        return TASK_GROW_IMPOSSIBLE;
    }
    HOOK_HERE(thread, "grow");
    task_grow(&thread->core, added, count, now_ms);
    free(added);
    grow_scratch(thread, before, count);
    code = read_added(thread, before, &err);
    task_watch_anew(thread);
    log_info("task_grown", LOG_STR("job", job->name), LOG_INT("processor", task->processor),
             LOG_INT("partitions_before", (int64_t)before),
             LOG_INT("partitions", (int64_t)thread->core.partition_count), LOG_END);
    HOOK_HERE(thread, "grown");
    if (code != ERR_NONE)
        (void)task_thread_event(thread, TASK_EVENT_ASSIGN_FAILED, "kafka_unreachable", err.text);
    return TASK_GROW_DONE;
}
