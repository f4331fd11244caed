/* Is the topic the one that the state was made of? (TASK_ACTION_VERIFY) */
#include "agent/task_private.h"
#include "common/clock.h"

#define VERIFY_TIMEOUT_MS 10000

enum verify_result { VERIFY_SAME, VERIFY_OTHER, VERIFY_LOST, VERIFY_NOT_YET };

/*
 * Reads the record that was applied last again. SAME: it is the same, or there is nothing to
 * compare with (compaction and aborted tails leave gaps).
 */
static enum verify_result verify_one(struct task_thread *thread, size_t index)
{
    const struct store_position *lineage = &thread->lineage[index];
    struct consumer_item item;

    if (lineage->last_offset < thread->ranges[index].log_start)
        return VERIFY_SAME; /* no longer in the log, or nothing was applied yet */
    consumer_peek(thread->consumer, index, &item);
    switch (item.kind) {
    case CONSUMER_RECORD:
        return item.offset != lineage->last_offset ||
                       task_read_fingerprint(item.message) == lineage->last_fingerprint
                   ? VERIFY_SAME
                   : VERIFY_OTHER;
    case CONSUMER_END:
        return VERIFY_SAME;
    case CONSUMER_LOST:
    case CONSUMER_MISSING:
        return VERIFY_LOST;
    case CONSUMER_FAILED:
        task_read_note(thread, index, item.detail);
        consumer_pop(thread->consumer, index);
        break;
    case CONSUMER_NOTHING:
        break;
    }
    return VERIFY_NOT_YET;
}

/* False: not all have been read yet. */
static bool verify_all(struct task_thread *thread)
{
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        switch (verify_one(thread, i)) {
        case VERIFY_SAME:
            continue;
        case VERIFY_OTHER:
            task_thread_event(thread, TASK_EVENT_VERIFY_MISMATCH, NULL, NULL)->index = i;
            return true;
        case VERIFY_LOST: /* the log was cut in the meantime; new ranges will show where */
            (void)task_thread_event(thread, TASK_EVENT_VERIFY_FAILED, NULL,
                                    "a record last applied has left the log");
            return true;
        case VERIFY_NOT_YET:
            return false;
        }
    }
    (void)task_thread_event(thread, TASK_EVENT_VERIFIED, NULL, NULL);
    return true;
}

int64_t task_verify_start_of(const struct task_partition *partition)
{
    return task_is_inherited_whole(partition) ? API_UNKNOWN : partition->position;
}

void task_verify(struct task_thread *thread)
{
    int64_t deadline_ms = clock_mono_ms() + VERIFY_TIMEOUT_MS;
    struct err err;

    for (size_t i = 0; i < thread->core.partition_count; i++) {
        int64_t last = thread->lineage[i].last_offset;
        bool readable = last >= thread->ranges[i].log_start;

        if (readable)
            thread->offsets[i] = last;
        else
            thread->offsets[i] = task_verify_start_of(&thread->core.partitions[i]);
    }
    if (consumer_assign(thread->consumer, thread->offsets, &err) != ERR_NONE) {
        (void)task_thread_event(thread, TASK_EVENT_VERIFY_FAILED, NULL, err.text);
        return;
    }
    while (!verify_all(thread)) {
        if (clock_mono_ms() >= deadline_ms) {
            (void)task_thread_event(thread, TASK_EVENT_VERIFY_FAILED, NULL,
                                    "the records last applied could not be read again in time");
            break;
        }
        task_thread_wait(thread, deadline_ms);
    }
    consumer_unassign(thread->consumer);
}
