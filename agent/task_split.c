/* Partitions that leave a running task, for a processor that is split from its own. */
#include <stdlib.h>
#include <string.h>

#include "agent/task_private.h"
#include "common/mem.h"

void task_split_told(struct task_thread *thread)
{
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        struct task_partition *partition = &thread->core.partitions[i];

        partition->leaving =
            task_told_holds(&thread->desired.split_partitions, partition->partition);
    }
}

/* Those of `told` that have not gone yet. */
static bool same_set(const struct task_thread *thread, const struct document_task *task,
                     const struct uint_list *told, bool owned_only)
{
    bool gone = thread->core.split_done != 0 && thread->core.split_done == task->split_handoff;
    size_t next = 0;

    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        if (partition->topic != 0 || (owned_only && !partition->owned))
            continue;
        while (gone && next < told->count &&
               task_told_holds(&task->split_partitions, told->items[next]))
            next++;
        if (next == told->count || told->items[next] != partition->partition)
            return false;
        next++;
    }
    while (gone && next < told->count &&
           task_told_holds(&task->split_partitions, told->items[next]))
        next++;
    return next == told->count;
}

bool task_split_same_sets(const struct task_thread *thread, const struct document_task *task)
{
    return same_set(thread, task, &task->owned, true) && same_set(thread, task, &task->read, false);
}

/* ---- what is kept by a partition's index */

/* Events that wait for their turn: one that is of a partition which has gone means nothing. */
static void move_events(struct task_thread *thread, const size_t *moved)
{
    for (size_t i = 0; i < thread->event_count; i++) {
        struct task_event *event =
            &thread->events[(thread->event_next + i) % TASK_EVENTS_MAX].event;

        if (event->kind != TASK_EVENT_POSITION_LOST && event->kind != TASK_EVENT_RECORD_REFUSED &&
            event->kind != TASK_EVENT_VERIFY_MISMATCH)
            continue;
        if (moved[event->index] == SIZE_MAX)
            *event = (struct task_event){.kind = TASK_EVENT_TICK};
        else
            event->index = moved[event->index];
    }
}

static void move_scratch(struct task_thread *thread, size_t to, size_t from)
{
    thread->lineage[to] = thread->lineage[from];
    thread->offsets[to] = thread->offsets[from];
    thread->records[to] = thread->records[from];
    thread->followed[to] = thread->followed[from];
    thread->rested[to] = thread->rested[from];
    thread->chosen[to] = thread->chosen[from];
    thread->ranges[to] = thread->ranges[from];
    thread->policies[to] = thread->policies[from];
    thread->failing[to] = thread->failing[from];
    thread->committed[to] = thread->committed[from];
}

void task_split_forget(struct task_thread *thread)
{
    size_t count = thread->core.partition_count, kept = 0;
    size_t *moved = mem_calloc(count, sizeof(*moved));

    if (thread->consumer != NULL)
        consumer_forget(thread->consumer);
    for (size_t i = 0; i < count; i++) {
        moved[i] = SIZE_MAX;
        if (thread->core.partitions[i].given) {
            task_read_note(thread, i, NULL);
            task_garbage_left(thread, i);
            continue;
        }
        moved[i] = kept;
        move_scratch(thread, kept++, i);
    }
    for (size_t i = kept; i < count; i++)
        thread->failing[i] = NULL; /* moved, or none */
    move_events(thread, moved);
    free(moved);
    thread->read_next = 0;
    task_forget(&thread->core);
    if (thread->watch != NULL)
        task_watch_anew(thread);
}
