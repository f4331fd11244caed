/*
 * Owners of a paused job: they have committed what they put out, hold the state as of that T1, and
 * wait. Between that commit and the next activation the committed offsets may be somebody else's: a
 * plain consumer's that works in the group's place, or those of an operator's tool (D3.4, S45).
 */
#include "agent/core/task_internal.h"

#include <stdio.h>

void task_pause(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    task_move(task, TASK_PHASE_REINIT, now_ms);
    /* Without transactions an older commit may have landed last: make sure of T1. */
    if (!task->config.exactly_once)
        task->commit_all = true;
    if (!task_is_clean(task) || task->commit_all)
        task_commit(task, actions);
    else
        task_rest(task, actions, now_ms);
}

/* What others commit from here on is accepted: people have paused the job, nothing else. */
static void note_rested(struct task *task)
{
    if (task->desired.frozen || task->desired.waiting)
        return;
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        if (partition->owned && partition->rested == API_UNKNOWN)
            partition->rested = partition->t1;
    }
}

void task_rest(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    bool again = task->desired.waiting && task->trailing;

    note_rested(task);
    task->trailing = task->desired.waiting;
    task->trail_due_ms = now_ms + TASK_TRAIL_MS;
    task_hold(task);
    task->commit_all = false;
    task->commit_due_ms = TASK_NEVER;
    task->watch_due_ms = TASK_NEVER;
    if (now_ms >= task->renew_due_ms || task->renew_due_ms == TASK_NEVER)
        task->renew_due_ms = now_ms + task->renew_ms;
    task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
    task_move(task, TASK_PHASE_PAUSED, now_ms);
    task_settle_problem(task, now_ms);
    if (!again) /* else it goes on soon, and the state is written when that is due */
        task->checkpoint_due_ms = now_ms;
    task_checkpoint_if_due(task, actions, now_ms);
    task_push(actions, TASK_ACTION_REPORT);
}

/* Of whoever is in the group nobody renews the offsets for: they are theirs. */
static int64_t due_of(const struct task *task)
{
    return task->desired.waiting ? task->trail_due_ms : task->renew_due_ms;
}

/* Renewing is an activation that puts nothing out: whoever was given the processor, or has set its
 * offsets, is found out before anything is committed. */
void task_tick_paused(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    task_drop_notice(task, now_ms);
    task_checkpoint_if_due(task, actions, now_ms);
    if (now_ms < due_of(task))
        return;
    task->retry_ms = now_ms;
    task_enter(task, actions, task->desired.waiting ? TASK_PHASE_COMMITTED : TASK_PHASE_PRODUCER,
               now_ms);
}

int64_t task_wake_paused(const struct task *task)
{
    int64_t due_ms = due_of(task);

    return due_ms < task->notice_due_ms ? due_ms : task->notice_due_ms;
}

bool task_is_trailing(const struct task *task)
{
    return task->desired.waiting && task->trailing;
}

void task_judge_trailing(struct task *task)
{
    for (size_t i = 0; i < task->partition_count && task->config.stateful; i++) {
        const struct task_partition *partition = &task->partitions[i];

        if (partition->owned && partition->t1 - partition->position > task->config.acceptable_lag)
            task->trailing = false;
    }
}

/* Only of an activation that is still to come: one that is done has put its own stamp on all. */
void task_take_rested(struct task *task, const struct task_event *event)
{
    if (event->offsets == NULL ||
        (task->phase.state == TASK_PHASE_ACTIVE && event->desired.epoch <= task->epoch_working))
        return;
    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].owned && task->partitions[i].rested == API_UNKNOWN)
            task->partitions[i].rested = event->offsets[i];
    }
}

void task_forget_rested(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        task->partitions[i].rested = API_UNKNOWN;
        if (task->partitions[i].owned)
            task->partitions[i].limit = TASK_UNLIMITED;
    }
}

/* What is below T1 has been put out, what is below T2 is in the state. */
static int64_t lowest_of(const struct task_partition *partition)
{
    return partition->rested > partition->position ? partition->rested : partition->position;
}

bool task_is_accepted(const struct task *task, const struct task_partition *partition,
                      int64_t offset)
{
    if (task->desired.waiting) /* below T2 it is learned anew */
        return partition->rested == API_UNKNOWN || offset >= partition->rested;
    return partition->rested != API_UNKNOWN && offset >= lowest_of(partition);
}

void task_accept(struct task *task, size_t index, int64_t offset, int64_t now_ms)
{
    struct task_partition *partition = &task->partitions[index];
    char text[TASK_DETAIL_BYTES / 2];

    if (task->desired.waiting) /* followed */
        return;
    if (task->desired.paused) { /* it may still change; the state goes no further than before */
        partition->t1 = lowest_of(partition);
        task->foreign = true;
        return;
    }
    if (offset == partition->rested)
        return;
    (void)snprintf(text, sizeof(text),
                   "committed by somebody else while the job was paused, at %lld: what is before "
                   "the new offset is learned, and not put out",
                   (long long)partition->rested);
    task_set_problem_at(task, index, "offsets_accepted", text, now_ms);
}
