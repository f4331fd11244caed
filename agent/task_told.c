/* What the coordinator says about the partitions of one task. */
#include "agent/task_private.h"

/* The offsets of the task's partitions out of a list; what it does not name is unknown. */
void task_told_offsets(const struct task_thread *thread, const struct input_offset *items,
                       size_t count, int64_t *ret_offsets)
{
    size_t next = 0; /* behind the last one found: they come in the same order */

    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        ret_offsets[i] = API_UNKNOWN;
        for (size_t k = 0; k < count && ret_offsets[i] == API_UNKNOWN; k++) {
            const struct input_offset *offset = &items[(next + k) % count];

            if (offset->topic != partition->topic || offset->partition != partition->partition)
                continue;
            ret_offsets[i] = offset->offset;
            next = (next + k + 1) % count;
        }
    }
}

/* NULL: it was not paused. Good until the next call. */
const int64_t *task_told_rested(struct task_thread *thread, const struct document_task *task)
{
    if (task->paused_t1.count == 0)
        return NULL;
    task_told_offsets(thread, task->paused_t1.items, task->paused_t1.count, thread->rested);
    return thread->rested;
}

/* NULL: nobody has chosen anything. Good until the next call. */
const struct task_choice *task_told_chosen(struct task_thread *thread,
                                           const struct document_task *task)
{
    if (task->chosen.count == 0)
        return NULL;
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        thread->chosen[i] = (struct task_choice){API_UNKNOWN, API_UNKNOWN};
        for (size_t k = 0; k < task->chosen.count; k++) {
            const struct chosen_offset *chosen = &task->chosen.items[k];

            if (chosen->topic == partition->topic && chosen->partition == partition->partition)
                thread->chosen[i] = (struct task_choice){chosen->found, chosen->offset};
        }
    }
    return thread->chosen;
}

/* Those of thread->desired, which are in the order of partitions. */
void task_told_skips(struct task_thread *thread)
{
    const struct input_offset *items = thread->desired.skips.items;

    for (size_t i = 0; i < thread->core.partition_count; i++) {
        struct task_partition *partition = &thread->core.partitions[i];

        partition->skips = NULL;
        partition->skip_count = 0;
        for (size_t k = 0; k < thread->desired.skips.count; k++) {
            if (items[k].topic != partition->topic || items[k].partition != partition->partition)
                continue;
            if (partition->skips == NULL)
                partition->skips = &items[k];
            partition->skip_count++;
        }
    }
}

bool task_told_same_skips(const struct document_task *a, const struct document_task *b)
{
    if (a->skips.count != b->skips.count)
        return false;
    for (size_t i = 0; i < a->skips.count; i++) {
        const struct input_offset *left = &a->skips.items[i], *right = &b->skips.items[i];

        if (left->topic != right->topic || left->partition != right->partition ||
            left->offset != right->offset)
            return false;
    }
    return true;
}
