/* What splits have left behind in a task's state (agent/store_garbage.c removes it). */
#include "agent/task_private.h"

struct store_owners task_garbage_owners_with(const struct task_thread *thread, uint32_t processors)
{
    struct store_owners owners = {0};

    if (processors >= thread->job.processors_initial)
        owners.hashed = task_told_map(&thread->job, processors, &owners.map);
    return owners;
}

/*
 * The rows of processors that have all they need may go. Before the coordinator says so (an older
 * one does not) they may not, whatever S1 is: the target of a split can still be lost, and another
 * one would learn it from the beginning.
 */
struct store_owners task_garbage_owners(const struct task_thread *thread)
{
    return task_garbage_owners_with(thread, thread->job.processors_settled);
}

void task_garbage_left(struct task_thread *thread, size_t index)
{
    const struct task_partition *partition = &thread->core.partitions[index];
    struct store_position position = thread->lineage[index];

    position.next_offset = partition->position;
    position.records = partition->records;
    position.left_whole = task_is_left_whole(&thread->core, index);
    if (thread->store != NULL)
        store_leave(thread->store, &position);
}

void task_garbage_told(struct task_thread *thread)
{
    const struct store_owners owners = task_garbage_owners(thread);

    if (thread->store != NULL)
        store_tell_owners(thread->store, &owners);
}

void task_garbage_serve(struct task_thread *thread, int64_t now_ms)
{
    struct err err;

    if (thread->store != NULL && store_remove_garbage(thread->store, now_ms, &err) != ERR_NONE)
        (void)task_thread_event(thread, TASK_EVENT_STORE_CORRUPT, NULL, err.text);
}
