/*
 * What people decide about committed offsets and about single records.
 *
 * A task that finds committed offsets which are not the job's, or none, fails and shows them
 * (D3.4). The answer comes with a higher epoch: where that is still what is committed, T1 is what
 * was chosen. It becomes Kafka's with the first commit of the activation, under the fence, and
 * before that any failure begins anew with the same answer.
 */
#include "agent/core/task_internal.h"

/* Only of an activation that is still to come: one that is done has put its own stamp on all. */
void task_take_chosen(struct task *task, const struct task_event *event)
{
    static const struct task_choice none = {API_UNKNOWN, API_UNKNOWN};

    if (task->phase.state == TASK_PHASE_ACTIVE && event->desired.epoch <= task->epoch_working)
        return;
    for (size_t i = 0; i < task->partition_count; i++) {
        bool any = event->chosen != NULL && task->partitions[i].owned;

        task->partitions[i].chosen = any ? event->chosen[i] : none;
    }
}

void task_forget_chosen(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++)
        task->partitions[i].chosen = (struct task_choice){API_UNKNOWN, API_UNKNOWN};
}

bool task_is_chosen(const struct task_partition *partition, int64_t committed)
{
    return partition->chosen.offset != API_UNKNOWN && partition->chosen.found == committed;
}

/* It is not T1: nobody is to follow it, or to take it for what the job had committed. */
void task_set_strange(struct task_partition *partition, int64_t committed)
{
    partition->strange = true;
    partition->found = committed;
    partition->t1 = API_UNKNOWN;
}

void task_clear_strange(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++)
        task->partitions[i].strange = false;
}

bool task_is_skipped(const struct task *task, size_t index, int64_t offset)
{
    const struct task_partition *partition = &task->partitions[index];
    size_t low = 0, high = partition->skip_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (partition->skips[middle].offset == offset)
            return true;
        if (partition->skips[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

bool task_halted(const struct task *task, size_t *ret_index, int64_t *ret_offset)
{
    if (task->phase.state != TASK_PHASE_FAILED || task->retry_ms != TASK_NEVER ||
        task->halted_offset == API_UNKNOWN)
        return false;
    *ret_index = task->halted_index;
    *ret_offset = task->halted_offset;
    return true;
}
