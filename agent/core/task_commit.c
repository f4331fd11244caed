/* The working life: commits, checkpoints, the one repair, and the way out. */
#include "agent/core/task_internal.h"

#include <assert.h>
#include <stdio.h>
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

struct stamp task_stamp(const struct task *task, size_t index)
{
    const struct task_partition *partition = &task->partitions[index];
    struct stamp stamp = {.processor = task->config.processor,
                          .epoch = task->epoch_working,
                          .records = partition->records};

    if (task->splitting && partition->leaving) {
        stamp.processor = task->desired.split.processor;
        stamp.epoch = task->desired.split.epoch;
    }
    task_stamp_bound(task, index, &stamp);
    memcpy(stamp.incarnation, task->config.incarnation, sizeof(stamp.incarnation));
    return stamp;
}

void task_commit(struct task *task, struct task_actions *actions)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];
        bool stamped = task->commit_all || (task->splitting && partition->leaving);
        bool moved = partition->position != partition->t1;

        partition->committing =
            partition->owned && (moved || stamped) ? partition->position : API_UNKNOWN;
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

static bool wants_checkpoint(const struct task *task)
{
    return task->config.stateful && !task->checkpoint_running && !task_is_checkpointed(task);
}

/* At a point where state and committed offsets agree: write the state when it is time. */
void task_checkpoint_if_due(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    if (wants_checkpoint(task) && (task->full || now_ms >= task->checkpoint_due_ms))
        task_checkpoint(task, actions, now_ms);
}

void task_set_offsets_retention(struct task *task, int64_t retention_ms)
{
    int64_t renew_ms;

    if (retention_ms == API_UNKNOWN)
        return;
    assert(retention_ms > 0);
    renew_ms = retention_ms / 4 < TASK_RENEW_MS ? retention_ms / 4 : TASK_RENEW_MS;
    if (task->renew_due_ms != TASK_NEVER)
        task->renew_due_ms += renew_ms - task->renew_ms;
    task->renew_ms = renew_ms;
}

static void begin_work(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    task_move(task, TASK_PHASE_ACTIVE, now_ms);
    task_settle_problem(task, now_ms);
    task_forget_rested(task);
    task_forget_chosen(task);
    task->watch_due_ms = task->config.exactly_once ? TASK_NEVER : now_ms + TASK_WATCH_MS;
    task_push(actions, TASK_ACTION_REPORT);
}

/* T1 as Kafka has it now. */
static void take_commit(struct task *task, int64_t now_ms)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        if (partition->committing == API_UNKNOWN)
            continue;
        if (partition->committing != partition->t1)
            task->backoff_ms = 0; /* it gets on */
        partition->t1 = partition->committing;
        partition->committing = API_UNKNOWN;
    }
    task->commit_due_ms = TASK_NEVER;
    if (task->commit_all)
        task->renew_due_ms = now_ms + task->renew_ms;
    task->commit_all = false;
}

/* A higher epoch before the release was done: S1 stays here. */
static bool is_given_back(const struct task *task)
{
    return task->desired.epoch > task->epoch_working;
}

/* The last commit was that of a pause, which no new epoch has overtaken. */
static bool is_to_rest(const struct task *task)
{
    return task->phase.state == TASK_PHASE_REINIT && task->desired.paused &&
           task->desired.epoch == task->epoch_working;
}

void task_commit_done(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    take_commit(task, now_ms);
    if (task->splitting)
        task_split_done(task, actions);
    if (task->phase.state == TASK_PHASE_STAMP && !task->desired.paused)
        begin_work(task, actions, now_ms);
    if (task->stopping || (task->phase.state == TASK_PHASE_RELEASE && !is_given_back(task)))
        task_release(task, actions, now_ms);
    else if (task->halting)
        task_fail(task, actions, task->restart ? now_ms : TASK_NEVER, now_ms);
    else if (task->phase.state == TASK_PHASE_STAMP || is_to_rest(task))
        task_rest(task, actions, now_ms);
    else if (task->phase.state == TASK_PHASE_REINIT || task->phase.state == TASK_PHASE_RELEASE)
        task_reinit(task, actions, now_ms);
    else
        task_checkpoint_if_due(task, actions, now_ms);
}

void task_checkpointed(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    for (size_t i = 0; i < task->partition_count; i++)
        task->partitions[i].checkpointed = task->partitions[i].freezing;
    task->checkpoint_running = false;
    task->checkpoint_failing = false;
    task_clear_problem_of(task, "store_failed");
    if (task->phase.state == TASK_PHASE_LEARN)
        task->backoff_ms = 0; /* it gets on */
    if (task->phase.state == TASK_PHASE_CHECKPOINT)
        task_release(task, actions, now_ms);
}

void task_checkpoint_failed(struct task *task, const struct task_event *event,
                            struct task_actions *actions)
{
    task->checkpoint_failing = true;
    if (!task->halting) /* what it halts for is what has to be read */
        task_set_problem(task, "store_failed", event->detail, event->now_ms);
    if (task->phase.state == TASK_PHASE_CHECKPOINT) { /* what is on disk is older, not wrong */
        task_end(task, actions, event->now_ms);
    } else if (event->fatal) {
        task_back_off(task, event->now_ms);
        task_fail(task, actions, task->retry_ms, event->now_ms);
    }
}

/* A record that can not be passed: what is before it is committed, then the task halts. */
void task_refuse(struct task *task, const struct task_event *event, struct task_actions *actions)
{
    char text[TASK_DETAIL_BYTES / 2];

    (void)snprintf(text, sizeof(text), "offset %lld: %s", (long long)event->offset,
                   event->detail == NULL ? "" : event->detail);
    task_set_problem_at(task, event->index, event->code == NULL ? "record_failed" : event->code,
                        text, event->now_ms);
    task->halted_index = event->index;
    task->halted_offset = event->offset;
    if (!task_may_output(task)) { /* T1 is further on: nothing may be committed */
        task_fail(task, actions, TASK_NEVER, event->now_ms);
        return;
    }
    task_hold(task);
    task->halting = true;
    task->commit_all = true; /* so that the commit happens, moved or not */
    task->commit_due_ms = event->now_ms;
}

/* D3.2, the one repair: drop what is not checkpointed, go through D3.1 again, replay. */
void task_repair(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    if (task->stopping) { /* closing drops it as well */
        task_end(task, actions, now_ms);
        return;
    }
    task->assigned = false;
    task->commit_due_ms = TASK_NEVER;
    task->commit_all = false;
    task->halting = false;
    task_hold(task);
    task_back_off(task, now_ms);
    task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
    task_push(actions, TASK_ACTION_UNASSIGN);
    task_move(task, TASK_PHASE_PRODUCER, now_ms);
    task_give_up(task);
    task_ask(task, actions, TASK_ACTION_DROP_STATE);
}

void task_state_dropped(struct task *task, const struct task_event *event,
                        struct task_actions *actions)
{
    task_take_positions(task, event);
    task_drop_checkpoint(task);
    task_enter(task, actions, TASK_PHASE_PRODUCER, event->now_ms);
}

/* Whoever takes over waits for the coordinator's disk and for Kafka: not for this task's writing.
 */
static bool rests(struct task *task, int64_t now_ms)
{
    if (!task->stopping && now_ms < task->rest_until_ms && task->rest_until_ms != TASK_NEVER)
        return true;
    task->rest_until_ms = TASK_NEVER;
    return false;
}

/* One step on the way out, or of giving S1 up: last commit, last checkpoint, close. */
void task_release(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    enum task_phase phase = (enum task_phase)task->phase.state;

    if (phase == TASK_PHASE_STAMP || phase == TASK_PHASE_ACTIVE || phase == TASK_PHASE_REINIT) {
        task_move(task, TASK_PHASE_RELEASE, now_ms);
        /* Only ACTIVE holds what it gives up: its stamp is on all of S1. */
        task->releasing = phase == TASK_PHASE_ACTIVE && task->desired.release;
        /* Without transactions an older commit may have landed last: make sure of T1. */
        if (task->releasing && !task->config.exactly_once)
            task->commit_all = true;
        if (!task_is_clean(task) || task->commit_all) {
            task_commit(task, actions);
            return;
        }
        phase = TASK_PHASE_RELEASE;
    }
    if (phase == TASK_PHASE_RELEASE || phase == TASK_PHASE_REPLAY || phase == TASK_PHASE_LEARN ||
        phase == TASK_PHASE_PAUSED)
        task_move(task, TASK_PHASE_CHECKPOINT, now_ms);
    if (phase == TASK_PHASE_RELEASE &&
        task->releasing) { /* the checkpoint is of no concern to the next owner */
        task->released = true;
        task->rest_until_ms = now_ms + TASK_REST_MS;
        task_push(actions, TASK_ACTION_REPORT);
    }
    if (task->phase.state == TASK_PHASE_CHECKPOINT) {
        task_hold(task);
        if (rests(task, now_ms))
            return;
        if (wants_checkpoint(task))
            task_checkpoint(task, actions, now_ms);
        if (task->checkpoint_running && !task->checkpoint_failing)
            return;
    }
    task_end(task, actions, now_ms);
}

/*
 * The epoch rose: finish under the old one, then D3.1 for the new one. The state is whole and
 * stays. At once, also where it waits to ask for the committed offsets again: an open transaction
 * of whoever had the processor in between may hold those up, and an init ends that.
 */
void task_reinit(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    task->retry_ms = now_ms;
    if (task->phase.state == TASK_PHASE_ACTIVE) {
        task_move(task, TASK_PHASE_REINIT, now_ms);
        if (!task_is_clean(task)) {
            task_commit(task, actions);
            return;
        }
    }
    task_hold(task);
    task->halting = false; /* a record that was refused is met again */
    task->commit_due_ms = TASK_NEVER;
    task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
    task_enter(task, actions, TASK_PHASE_PRODUCER, now_ms);
}

static void tick_active(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    task_drop_notice(task, now_ms);
    if (now_ms >= task->renew_due_ms) {
        task->commit_all = true;
        task->commit_due_ms = now_ms;
    }
    if (now_ms >= task->watch_due_ms) { /* before a commit, which would cover up what it shows */
        task->watch_due_ms = now_ms + TASK_WATCH_MS;
        task_ask(task, actions, TASK_ACTION_FETCH_COMMITTED);
    } else if (now_ms >= task->commit_due_ms || (task->full && !task_is_clean(task))) {
        task_commit(task, actions);
    } else if (task_is_clean(task)) {
        task_checkpoint_if_due(task, actions, now_ms);
    }
}

void task_tick_working(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    switch (task->phase.state) {
    case TASK_PHASE_LEARN:
        task_drop_notice(task, now_ms);
        task_checkpoint_if_due(task, actions, now_ms);
        task_learn_check(task, actions, now_ms);
        break;
    case TASK_PHASE_REPLAY:
        task_checkpoint_if_due(task, actions, now_ms);
        task_replay_check(task, actions, now_ms);
        break;
    case TASK_PHASE_STAMP:
        task_commit(task, actions);
        break;
    case TASK_PHASE_PAUSED:
        task_tick_paused(task, actions, now_ms);
        break;
    default:
        assert(task->phase.state == TASK_PHASE_ACTIVE);
        tick_active(task, actions, now_ms);
        break;
    }
}

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Only what a tick would act upon at that time: anything else would make the shell spin. */
int64_t task_wake_working(const struct task *task, int64_t now_ms)
{
    int64_t wake_ms = TASK_NEVER;
    bool clean = task_is_clean(task);

    if (task->phase.state == TASK_PHASE_STAMP)
        return now_ms;
    if ((!task_may_output(task) || clean) && wants_checkpoint(task))
        wake_ms = task->full ? now_ms : task->checkpoint_due_ms;
    if (task->phase.state == TASK_PHASE_LEARN)
        return earliest(earliest(wake_ms, task->notice_due_ms), task_wake_learning(task));
    if (task->phase.state == TASK_PHASE_REPLAY)
        return wake_ms;
    if (task->phase.state == TASK_PHASE_PAUSED)
        return earliest(wake_ms, task_wake_paused(task));
    if (task->full && !clean)
        return now_ms;
    wake_ms = earliest(wake_ms, task->commit_due_ms);
    wake_ms = earliest(wake_ms, task->renew_due_ms);
    wake_ms = earliest(wake_ms, task->watch_due_ms);
    return earliest(wake_ms, task->notice_due_ms);
}
