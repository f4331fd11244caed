/*
 * A part of S1 goes to a new processor, the rest stays (D4, split).
 *
 * The task finishes its batch and makes one commit, in which the partitions that leave carry the
 * stamp of the new processor, with the epoch that was handed out for it. From then on they are not
 * this processor's, whatever happens next: a commit whose end nobody knows is repaired as any
 * other, and at the activation that follows the stamps tell whether it had happened. So they do
 * for any other owner of this processor, which is told of the same split.
 */
#include "agent/core/task_internal.h"

#include <assert.h>
#include <string.h>

static bool is_leaving(const struct task_partition *partition)
{
    return partition->leaving && partition->owned;
}

bool task_is_to_split(const struct task *task)
{
    const struct task_split *split = &task->desired.split;

    /* What others have committed is theirs to choose: not even what is leaving is stamped. */
    if (task->desired.frozen || task->desired.waiting)
        return false;
    if (task->phase.state != TASK_PHASE_ACTIVE || split->handoff == 0 || task->halting ||
        split->handoff == task->split_done || task->desired.epoch != task->epoch_working)
        return false;
    for (size_t i = 0; i < task->partition_count; i++) {
        if (is_leaving(&task->partitions[i]))
            return true;
    }
    return false;
}

void task_split(struct task *task, struct task_actions *actions)
{
    task->splitting = true;
    task_commit(task, actions);
}

static void give(struct task_partition *partition)
{
    partition->owned = false;
    partition->given = true;
    partition->limit = partition->position; /* nothing more of it is applied */
}

/* Released: nothing of it is owned any more. */
static void finish(struct task *task, struct task_actions *actions)
{
    task->split_done = task->desired.split.handoff;
    task_push(actions, TASK_ACTION_FORGET);
    task_push(actions, TASK_ACTION_REPORT);
}

void task_split_done(struct task *task, struct task_actions *actions)
{
    task->splitting = false;
    for (size_t i = 0; i < task->partition_count; i++) {
        const struct task_partition *partition = &task->partitions[i];

        if (!is_leaving(partition))
            continue;
        if (partition->parent != TASK_NO_PARENT)
            task_take_split_bound(task, i, task->partitions[partition->parent].position,
                                  task->partitions[partition->parent].records);
        give(&task->partitions[i]);
    }
    finish(task, actions);
}

static bool is_given(const struct task *task, const struct task_committed *committed)
{
    const struct task_split *split = &task->desired.split;

    return committed->stamped && committed->stamp.processor == split->processor &&
           committed->stamp.epoch == split->epoch &&
           strcmp(committed->stamp.incarnation, task->config.incarnation) == 0;
}

/* Without transactions some of it may have gone, and some not. */
void task_find_given(struct task *task, const struct task_event *event,
                     struct task_actions *actions)
{
    bool any = false, left = false;

    if (task->desired.split.handoff == 0)
        return;
    for (size_t i = 0; i < task->partition_count; i++) {
        if (!is_leaving(&task->partitions[i]))
            continue;
        if (is_given(task, &event->committed[i])) {
            task_take_split_bound(task, i, event->committed[i].stamp.bound,
                                  event->committed[i].stamp.bound_records);
            give(&task->partitions[i]);
            any = true;
        } else {
            left = true;
        }
    }
    if (any && !left)
        finish(task, actions);
    else if (any)
        task_push(actions, TASK_ACTION_FORGET);
}

void task_forget(struct task *task)
{
    size_t kept = 0, halted = task->halted_index;

    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].given) {
            if (i == task->halted_index)
                task->halted_offset = API_UNKNOWN;
            halted -= i < task->halted_index;
            continue;
        }
        task->partitions[kept++] = task->partitions[i];
    }
    assert(kept > 0); /* a processor keeps the partition of its own number */
    task->halted_index = halted;
    task->partition_count = kept;
    task_find_parents(task); /* they are known by their indexes */
}
