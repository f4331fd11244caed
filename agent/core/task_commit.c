/* The working life: commits, checkpoints, the one repair, and the way out. */
#include "agent/core/task_internal.h"

#include <assert.h>
#include <string.h>

bool task_is_clean(const struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].owned && task->partitions[i].position != task->partitions[i].t1)
            return false;
    }
    return true;
}

bool task_is_checkpointed(const struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].position != task->partitions[i].checkpointed)
            return false;
    }
    return true;
}

void task_commit(struct task *task, struct task_actions *actions)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];
        bool moved = partition->position != partition->t1;

        partition->committing =
            partition->owned && (moved || task->commit_all) ? partition->position : API_UNKNOWN;
    }
    task_ask(task, actions, TASK_ACTION_COMMIT);
}

void task_checkpoint(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    assert(!task->checkpoint_running);
    for (size_t i = 0; i < task->partition_count; i++)
        task->partitions[i].freezing = task->partitions[i].position;
    task->checkpoint_running = true;
    task->full = false;
    task->checkpoint_due_ms = now_ms + task->config.checkpoint_interval_ms;
    task_push(actions, TASK_ACTION_CHECKPOINT);
}

/* At a point where state and committed offsets agree: write the state when it is time. */
static void checkpoint_if_due(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    bool due = task->full || now_ms >= task->checkpoint_due_ms;

    if (due && task->config.stateful && !task->checkpoint_running && !task_is_checkpointed(task))
        task_checkpoint(task, actions, now_ms);
}

static void begin_work(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    task_move(task, TASK_PHASE_ACTIVE, now_ms);
    task_clear_problem(task);
    task->backoff_ms = 0;
    task->watch_due_ms = task->config.exactly_once ? TASK_NEVER : now_ms + TASK_WATCH_MS;
    task_push(actions, TASK_ACTION_REPORT);
}

void task_commit_done(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        if (partition->committing != API_UNKNOWN)
            partition->t1 = partition->committing;
        partition->committing = API_UNKNOWN;
    }
    task->commit_due_ms = TASK_NEVER;
    if (task->commit_all)
        task->renew_due_ms = now_ms + TASK_RENEW_MS;
    task->commit_all = false;
    if (task->phase.state == TASK_PHASE_STAMP)
        begin_work(task, actions, now_ms);
    if (task->phase.state == TASK_PHASE_RELEASE)
        task_release(task, actions, now_ms);
    else if (task->halting)
        task_fail(task, actions, TASK_NEVER, now_ms);
    else if (task->phase.state == TASK_PHASE_REINIT)
        task_reinit(task, actions, now_ms);
    else
        checkpoint_if_due(task, actions, now_ms);
}

void task_checkpointed(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    for (size_t i = 0; i < task->partition_count; i++)
        task->partitions[i].checkpointed = task->partitions[i].freezing;
    task->checkpoint_running = false;
    if (strcmp(task->code, "store_failed") == 0)
        task_clear_problem(task);
    if (task->phase.state == TASK_PHASE_CHECKPOINT)
        task_release(task, actions, now_ms);
}

/* D3.2, the one repair: drop what is not checkpointed, go through D3.1 again, replay. */
void task_repair(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    if (task->stopping) { /* closing drops it as well */
        task_move(task, TASK_PHASE_CLOSED, now_ms);
        task_push(actions, TASK_ACTION_CLOSE);
        return;
    }
    task->assigned = false;
    task->commit_due_ms = TASK_NEVER;
    task->halting = false;
    task_hold(task);
    task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
    task_push(actions, TASK_ACTION_UNASSIGN);
    task_move(task, TASK_PHASE_PRODUCER, now_ms);
    task_back_off(task, now_ms);
    task_ask(task, actions, TASK_ACTION_DROP_STATE);
}

void task_state_dropped(struct task *task, const struct task_event *event,
                        struct task_actions *actions)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        partition->position = event->offsets[i] == API_UNKNOWN ? partition->t0 : event->offsets[i];
        partition->checkpointed = partition->position;
        partition->limit = partition->position;
        partition->committing = API_UNKNOWN;
    }
    task->checkpoint_running = false;
    task->full = false;
    task_enter(task, actions, TASK_PHASE_PRODUCER, event->now_ms);
}

/* One step on the way out: last commit, last checkpoint, close. */
void task_release(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    enum task_phase phase = (enum task_phase)task->phase.state;

    if (phase == TASK_PHASE_STAMP || phase == TASK_PHASE_ACTIVE || phase == TASK_PHASE_REINIT) {
        task_move(task, TASK_PHASE_RELEASE, now_ms);
        if (!task_is_clean(task) || task->commit_all) {
            task_commit(task, actions);
            return;
        }
        phase = TASK_PHASE_RELEASE;
    }
    if (phase == TASK_PHASE_RELEASE || phase == TASK_PHASE_REPLAY)
        task_move(task, TASK_PHASE_CHECKPOINT, now_ms);
    if (task->phase.state == TASK_PHASE_CHECKPOINT && task->config.stateful) {
        task_hold(task);
        if (task->checkpoint_running)
            return;
        if (!task_is_checkpointed(task)) {
            task_checkpoint(task, actions, now_ms);
            return;
        }
    }
    task_move(task, TASK_PHASE_CLOSED, now_ms);
    task_push(actions, TASK_ACTION_CLOSE);
}

/* The epoch rose: finish under the old one, then D3.1 for the new one. The state is whole and
 * stays. */
void task_reinit(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    enum task_phase phase = (enum task_phase)task->phase.state;

    if (phase == TASK_PHASE_ACTIVE) {
        task_move(task, TASK_PHASE_REINIT, now_ms);
        if (!task_is_clean(task)) {
            task_commit(task, actions);
            return;
        }
    }
    task_hold(task);
    task->commit_due_ms = TASK_NEVER;
    task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
    task_enter(task, actions, TASK_PHASE_PRODUCER, now_ms);
}

void task_tick_working(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    if (task->phase.state == TASK_PHASE_REPLAY) {
        checkpoint_if_due(task, actions, now_ms);
        task_replay_check(task, actions, now_ms);
        return;
    }
    if (now_ms >= task->renew_due_ms && task->phase.state == TASK_PHASE_ACTIVE) {
        task->commit_all = true;
        task->commit_due_ms = now_ms;
    }
    if (now_ms >= task->commit_due_ms || (task->full && !task_is_clean(task))) {
        task_commit(task, actions);
        return;
    }
    if (now_ms >= task->watch_due_ms) {
        task->watch_due_ms = now_ms + TASK_WATCH_MS;
        task_ask(task, actions, TASK_ACTION_FETCH_COMMITTED);
        return;
    }
    if (task_is_clean(task))
        checkpoint_if_due(task, actions, now_ms);
}
