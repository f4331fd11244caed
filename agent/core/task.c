#include "agent/core/task.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/task_internal.h"

#define PHASE(phase) FSM_BIT(TASK_PHASE_##phase)
/* Whatever happens, a task can be closed, fail, and be found fenced while anything of it is open.
 */
#define PHASE_ENDS (PHASE(CLOSED) | PHASE(FAILED))

static const struct fsm_table phase_table =
    {
        .name = "task",
        .state_count = TASK_PHASE_COUNT,
        .states =
            {
                [TASK_PHASE_OPEN] = {"open", PHASE(RANGES) | PHASE_ENDS},
                [TASK_PHASE_RANGES] = {"ranges", PHASE(VERIFY) | PHASE(PRODUCER) | PHASE_ENDS},
                [TASK_PHASE_VERIFY] = {"verify", PHASE(PRODUCER) | PHASE_ENDS},
                [TASK_PHASE_PRODUCER] = {"producer", PHASE(COMMITTED) | PHASE(FENCED) | PHASE_ENDS},
                [TASK_PHASE_COMMITTED] = {"committed", PHASE(REPLAY) | PHASE(OPEN) |
                                                           PHASE(PRODUCER) | PHASE(FENCED) |
                                                           PHASE_ENDS},
                [TASK_PHASE_REPLAY] = {"replay", PHASE(STAMP) | PHASE(PRODUCER) |
                                                     PHASE(CHECKPOINT) | PHASE(FENCED) |
                                                     PHASE_ENDS},
                [TASK_PHASE_STAMP] = {"stamp", PHASE(ACTIVE) | PHASE(PRODUCER) | PHASE(RELEASE) |
                                                   PHASE(FENCED) | PHASE_ENDS},
                [TASK_PHASE_ACTIVE] = {"active",
                                       PHASE(REINIT) | PHASE(RELEASE) | PHASE(PRODUCER) |
                                           PHASE(FENCED) | PHASE_ENDS},
                [TASK_PHASE_REINIT] = {"reinit", PHASE(PRODUCER) | PHASE(RELEASE) |
                                                     PHASE(FENCED) | PHASE_ENDS},
                [TASK_PHASE_RELEASE] = {"release", PHASE(CHECKPOINT) | PHASE(FENCED) | PHASE_ENDS},
                [TASK_PHASE_CHECKPOINT] = {"checkpoint", PHASE_ENDS},
                [TASK_PHASE_CLOSED] = {"closed", 0},
                [TASK_PHASE_FENCED] = {"fenced", PHASE(OPEN) | PHASE(CLOSED)},
                [TASK_PHASE_FAILED] = {"failed", PHASE(OPEN) | PHASE(CLOSED)},
            },
};

/* What a phase asks for when it is entered and when its retry is due. */
static const int phase_action[TASK_PHASE_COUNT] = {
    [TASK_PHASE_OPEN] = TASK_ACTION_OPEN_STORE + 1,
    [TASK_PHASE_RANGES] = TASK_ACTION_QUERY_RANGES + 1,
    [TASK_PHASE_VERIFY] = TASK_ACTION_VERIFY + 1,
    [TASK_PHASE_PRODUCER] = TASK_ACTION_OPEN_PRODUCER + 1,
    [TASK_PHASE_COMMITTED] = TASK_ACTION_FETCH_COMMITTED + 1,
};

void task_init(struct task *task, const struct task_config *config, uint64_t epoch,
               struct task_partition *partitions, size_t partition_count, int64_t now_ms)
{
    *task = (struct task){
        .config = *config,
        .epoch = epoch,
        .partitions = partitions,
        .partition_count = partition_count,
        .commit_due_ms = TASK_NEVER,
        .checkpoint_due_ms = TASK_NEVER,
        .renew_due_ms = TASK_NEVER,
        .watch_due_ms = TASK_NEVER,
    };
    for (size_t i = 0; i < partition_count; i++) {
        partitions[i].t1 = API_UNKNOWN;
        partitions[i].position = partitions[i].t0;
        partitions[i].checkpointed = partitions[i].t0;
        partitions[i].limit = partitions[i].t0;
        partitions[i].committing = API_UNKNOWN;
        partitions[i].range = (struct task_range){API_UNKNOWN, API_UNKNOWN, API_UNKNOWN};
    }
    fsm_init(&task->phase, &phase_table, TASK_PHASE_OPEN, now_ms);
}

void task_finish(struct task *task)
{
    free(task->partitions);
    *task = (struct task){0};
}

void task_push(struct task_actions *actions, enum task_action action)
{
    assert(actions->count < TASK_ACTIONS_MAX);
    actions->items[actions->count++] = action;
}

void task_ask(struct task *task, struct task_actions *actions, enum task_action action)
{
    assert(!task->waiting);
    task->waiting = true;
    task_push(actions, action);
}

void task_move(struct task *task, enum task_phase phase, int64_t now_ms)
{
    if (task->phase.state != (int)phase)
        (void)fsm_move(&task->phase, phase, now_ms); /* the shell measures; the core has no use */
}

void task_set_problem(struct task *task, const char *code, const char *detail, int64_t now_ms)
{
    if (strcmp(task->code, code) != 0)
        task->problem_since_ms = now_ms;
    (void)snprintf(task->code, sizeof(task->code), "%s", code);
    (void)snprintf(task->detail, sizeof(task->detail), "%s", detail == NULL ? "" : detail);
}

void task_set_problem_at(struct task *task, size_t index, const char *code, const char *detail,
                         int64_t now_ms)
{
    const struct task_partition *partition = &task->partitions[index];
    char text[TASK_DETAIL_BYTES];

    (void)snprintf(text, sizeof(text),
                   "input %u partition %u: %s (T0 %lld, T1 %lld, T2 %lld, log %lld..%lld)",
                   partition->topic, partition->partition, detail, (long long)partition->t0,
                   (long long)partition->t1, (long long)partition->position,
                   (long long)partition->range.log_start, (long long)partition->range.end);
    task_set_problem(task, code, text, now_ms);
}

void task_clear_problem(struct task *task)
{
    task->code[0] = '\0';
    task->detail[0] = '\0';
}

void task_back_off(struct task *task, int64_t now_ms)
{
    task->retry_ms = now_ms + task->backoff_ms;
    task->backoff_ms = task->backoff_ms == 0 ? TASK_BACKOFF_MIN_MS : task->backoff_ms * 2;
    if (task->backoff_ms > TASK_BACKOFF_MAX_MS)
        task->backoff_ms = TASK_BACKOFF_MAX_MS;
}

static void close_all(struct task *task, struct task_actions *actions)
{
    task->assigned = false;
    task->halting = false;
    task->commit_all = false;
    task->full = false;
    task->commit_due_ms = TASK_NEVER;
    task->checkpoint_due_ms = TASK_NEVER;
    task->renew_due_ms = TASK_NEVER;
    task->watch_due_ms = TASK_NEVER;
    task_hold(task);
    task->waiting = false;
    task_ask(task, actions, TASK_ACTION_CLOSE);
    task_push(actions, TASK_ACTION_REPORT);
}

void task_fail(struct task *task, struct task_actions *actions, int64_t retry_ms, int64_t now_ms)
{
    task_move(task, TASK_PHASE_FAILED, now_ms);
    task->retry_ms = retry_ms;
    close_all(task, actions);
}

void task_fence(struct task *task, struct task_actions *actions, const char *detail, int64_t now_ms)
{
    task_set_problem(task, "fenced", detail, now_ms);
    task_move(task, TASK_PHASE_FENCED, now_ms);
    close_all(task, actions);
}

void task_enter(struct task *task, struct task_actions *actions, enum task_phase phase,
                int64_t now_ms)
{
    task_move(task, phase, now_ms);
    if (task->retry_ms > now_ms)
        return;
    if (phase == TASK_PHASE_PRODUCER)
        task->epoch_working = task->epoch;
    task_ask(task, actions, (enum task_action)(phase_action[phase] - 1));
}

/* Failures that any phase can meet. */
static void handle_failure(struct task *task, const struct task_event *event,
                           struct task_actions *actions)
{
    const char *code = event->code != NULL ? event->code : "kafka_unreachable";

    task_set_problem(task, code, event->detail, event->now_ms);
    task_back_off(task, event->now_ms);
    if (event->fatal || event->kind == TASK_EVENT_STORE_FAILED ||
        event->kind == TASK_EVENT_POSITION_LOST)
        task_fail(task, actions, event->fatal ? event->now_ms + TASK_RECHECK_MS : task->retry_ms,
                  event->now_ms);
    else if (event->kind == TASK_EVENT_PRODUCER_FAILED)
        task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
}

static void handle_corrupt(struct task *task, const struct task_event *event,
                           struct task_actions *actions)
{
    task_set_problem(task, "state_set_aside", event->detail, event->now_ms);
    task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
    task_push(actions, TASK_ACTION_UNASSIGN);
    task_push(actions, TASK_ACTION_SET_ASIDE);
    task_fail(task, actions, event->now_ms, event->now_ms);
}

static void handle_refused(struct task *task, const struct task_event *event)
{
    char text[TASK_DETAIL_BYTES];

    (void)snprintf(text, sizeof(text), "offset %lld: %s", (long long)event->offset, event->detail);
    task_set_problem_at(task, event->index, event->code, text, event->now_ms);
    task_hold(task);
    task->halting = true;
    task->commit_all = true; /* so that the commit happens, moved or not */
    task->commit_due_ms = event->now_ms;
}

static void handle_commit_end(struct task *task, const struct task_event *event,
                              struct task_actions *actions)
{
    switch (event->kind) {
    case TASK_EVENT_COMMIT_DONE:
        task_commit_done(task, actions, event->now_ms);
        break;
    case TASK_EVENT_COMMIT_FENCED:
        task_fence(task, actions, event->detail, event->now_ms);
        break;
    default:
        task_set_problem(task, event->code != NULL ? event->code : "transaction_failed",
                         event->detail, event->now_ms);
        if (event->fatal)
            task_fail(task, actions, event->now_ms + TASK_RECHECK_MS, event->now_ms);
        else
            task_repair(task, actions, event->now_ms);
        break;
    }
}

static void handle_tick(struct task *task, const struct task_event *event,
                        struct task_actions *actions)
{
    enum task_phase phase = (enum task_phase)task->phase.state;
    int64_t now_ms = event->now_ms;

    if (task->waiting)
        return;
    if (phase == TASK_PHASE_REPLAY || phase == TASK_PHASE_STAMP || phase == TASK_PHASE_ACTIVE)
        task_tick_working(task, actions, now_ms);
    else if (phase == TASK_PHASE_FAILED && now_ms >= task->retry_ms)
        task_enter(task, actions, TASK_PHASE_OPEN, now_ms);
    else if (phase_action[phase] != 0 && now_ms >= task->retry_ms)
        task_enter(task, actions, phase, now_ms);
}

static void handle_desired(struct task *task, const struct task_event *event)
{
    if (event->epoch > task->epoch)
        task->epoch = event->epoch;
    if (event->restart && task->phase.state == TASK_PHASE_FAILED)
        task->retry_ms = event->now_ms;
}

/* Does the event answer what the task waits for? (Ranges are also observed in between.) */
static bool is_answer(const struct task *task, const struct task_event *event)
{
    switch (event->kind) {
    case TASK_EVENT_START:
    case TASK_EVENT_TICK:
    case TASK_EVENT_DESIRED:
    case TASK_EVENT_STOP:
    case TASK_EVENT_CHECKPOINTED:
    case TASK_EVENT_CHECKPOINT_FAILED:
    case TASK_EVENT_OUTPUT_FAILED:
    case TASK_EVENT_POSITION_LOST:
    case TASK_EVENT_RECORD_REFUSED:
    case TASK_EVENT_STORE_CORRUPT:
    case TASK_EVENT_FULL:
        return false;
    case TASK_EVENT_RANGES:
    case TASK_EVENT_RANGES_FAILED:
        return task->phase.state == TASK_PHASE_RANGES;
    default:
        return true;
    }
}

static void dispatch(struct task *task, const struct task_event *event,
                     struct task_actions *actions)
{
    switch (event->kind) {
    case TASK_EVENT_START:
        task_enter(task, actions, TASK_PHASE_OPEN, event->now_ms);
        break;
    case TASK_EVENT_TICK:
        handle_tick(task, event, actions);
        break;
    case TASK_EVENT_DESIRED:
        handle_desired(task, event);
        break;
    case TASK_EVENT_STOP:
        task->stopping = true;
        break;
    case TASK_EVENT_STORE_OPENED:
        if (event->set_aside)
            task_set_problem(task, "state_set_aside", event->detail, event->now_ms);
        task_store_opened(task, event, actions);
        break;
    case TASK_EVENT_RANGES:
        task_ranges(task, event, actions);
        break;
    case TASK_EVENT_RANGES_FAILED:
        if (task->phase.state == TASK_PHASE_RANGES)
            handle_failure(task, event, actions);
        break;
    case TASK_EVENT_VERIFIED:
    case TASK_EVENT_VERIFY_MISMATCH:
    case TASK_EVENT_VERIFY_FAILED:
        task_verified(task, event, actions);
        break;
    case TASK_EVENT_PRODUCER_READY:
        task_enter(task, actions, TASK_PHASE_COMMITTED, event->now_ms);
        break;
    case TASK_EVENT_PRODUCER_FENCED:
        task_fence(task, actions, event->detail, event->now_ms);
        break;
    case TASK_EVENT_COMMITTED_READ:
        task_committed_read(task, event, actions);
        break;
    case TASK_EVENT_COMMIT_DONE:
    case TASK_EVENT_COMMIT_FENCED:
    case TASK_EVENT_COMMIT_FAILED:
    case TASK_EVENT_OUTPUT_FAILED:
        handle_commit_end(task, event, actions);
        break;
    case TASK_EVENT_CHECKPOINTED:
        if (task->checkpoint_running)
            task_checkpointed(task, actions, event->now_ms);
        break;
    case TASK_EVENT_CHECKPOINT_FAILED: /* the store keeps the frozen state and tries again */
        task_set_problem(task, "store_failed", event->detail, event->now_ms);
        if (task->phase.state == TASK_PHASE_CHECKPOINT) {
            task->checkpoint_running = false;
            task_move(task, TASK_PHASE_CLOSED, event->now_ms);
            task_push(actions, TASK_ACTION_CLOSE);
        }
        break;
    case TASK_EVENT_STATE_DROPPED:
        task_state_dropped(task, event, actions);
        break;
    case TASK_EVENT_STORE_CORRUPT:
        handle_corrupt(task, event, actions);
        break;
    case TASK_EVENT_RECORD_REFUSED:
        handle_refused(task, event);
        break;
    case TASK_EVENT_FULL:
        task->full = true;
        break;
    case TASK_EVENT_CLOSED:
        task->checkpoint_running = false;
        break;
    case TASK_EVENT_STORE_FAILED:
    case TASK_EVENT_PRODUCER_FAILED:
    case TASK_EVENT_COMMITTED_FAILED:
    case TASK_EVENT_POSITION_LOST:
        handle_failure(task, event, actions);
        break;
    }
}

/* After every event: what waits for its turn (a stop, a higher epoch) is taken up as soon as no
 * answer is outstanding. */
static void settle(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    enum task_phase phase = (enum task_phase)task->phase.state;

    if (task->waiting || phase == TASK_PHASE_CLOSED || phase == TASK_PHASE_RELEASE ||
        phase == TASK_PHASE_CHECKPOINT)
        return;
    if (task->stopping) {
        task_release(task, actions, now_ms);
        return;
    }
    if (task->epoch <= task->epoch_working)
        return;
    if (phase == TASK_PHASE_FENCED || phase == TASK_PHASE_FAILED) {
        task->retry_ms = now_ms;
        task_enter(task, actions, TASK_PHASE_OPEN, now_ms);
    } else if (phase == TASK_PHASE_ACTIVE || phase == TASK_PHASE_REPLAY) {
        task_reinit(task, actions, now_ms);
    } else if (phase == TASK_PHASE_STAMP) { /* records may be applied that no commit covers */
        task_repair(task, actions, now_ms);
    }
}

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_wake(const struct task *task)
{
    enum task_phase phase = (enum task_phase)task->phase.state;
    int64_t wake_ms = TASK_NEVER;

    if (task->waiting)
        return TASK_NEVER;
    if (phase_action[phase] != 0 || phase == TASK_PHASE_FAILED)
        wake_ms = task->retry_ms;
    if (phase == TASK_PHASE_REPLAY || phase == TASK_PHASE_STAMP || phase == TASK_PHASE_ACTIVE) {
        wake_ms = earliest(task->commit_due_ms, task->watch_due_ms);
        if (!task->checkpoint_running && task->config.stateful && !task_is_checkpointed(task))
            wake_ms = earliest(wake_ms, task->checkpoint_due_ms);
        wake_ms = earliest(wake_ms, task->renew_due_ms);
    }
    return wake_ms;
}

void task_step(struct task *task, const struct task_event *event, struct task_actions *ret_actions)
{
    ret_actions->count = 0;
    if (is_answer(task, event)) {
        task->waiting = false;
        if (task->stopping && task->phase.state < TASK_PHASE_REPLAY) {
            settle(task, ret_actions, event->now_ms);
            ret_actions->wake_ms = next_wake(task);
            return;
        }
    }
    dispatch(task, event, ret_actions);
    settle(task, ret_actions, event->now_ms);
    ret_actions->wake_ms = next_wake(task);
}

void task_progress(struct task *task, size_t index, int64_t position, int64_t now_ms)
{
    struct task_partition *partition = &task->partitions[index];

    assert(index < task->partition_count);
    assert(position >= partition->position);
    assert(position <= partition->limit);
    if (position == partition->position)
        return;
    partition->position = position;
    if (task_may_output(task) && task->commit_due_ms == TASK_NEVER)
        task->commit_due_ms = now_ms + task->config.commit_interval_ms;
}

bool task_may_read(const struct task *task)
{
    enum task_phase phase = (enum task_phase)task->phase.state;

    return !task->waiting && !task->halting && !(task->full && task->checkpoint_running) &&
           (phase == TASK_PHASE_REPLAY || phase == TASK_PHASE_STAMP || phase == TASK_PHASE_ACTIVE);
}

bool task_may_output(const struct task *task)
{
    return task->phase.state == TASK_PHASE_STAMP || task->phase.state == TASK_PHASE_ACTIVE;
}

enum task_state task_state(const struct task *task)
{
    switch ((enum task_phase)task->phase.state) {
    case TASK_PHASE_OPEN:
    case TASK_PHASE_RANGES:
    case TASK_PHASE_VERIFY:
        return TASK_STATE_OPENING;
    case TASK_PHASE_PRODUCER:
    case TASK_PHASE_COMMITTED:
    case TASK_PHASE_REPLAY:
    case TASK_PHASE_STAMP:
        return TASK_STATE_REPLAYING;
    case TASK_PHASE_ACTIVE:
    case TASK_PHASE_REINIT:
        return TASK_STATE_ACTIVE;
    case TASK_PHASE_RELEASE:
    case TASK_PHASE_CHECKPOINT:
        return TASK_STATE_RELEASING;
    case TASK_PHASE_FENCED:
        return TASK_STATE_FENCED;
    case TASK_PHASE_FAILED:
        return TASK_STATE_FAILED;
    case TASK_PHASE_CLOSED:
    case TASK_PHASE_COUNT:
        break;
    }
    return TASK_STATE_CLOSED;
}

struct stamp task_stamp(const struct task *task)
{
    struct stamp stamp = {.processor = task->config.processor, .epoch = task->epoch_working};

    memcpy(stamp.incarnation, task->config.incarnation, sizeof(stamp.incarnation));
    return stamp;
}

const char *task_phase_name(enum task_phase phase)
{
    return fsm_state_name(&phase_table, phase);
}

const char *task_check(const struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        const struct task_partition *partition = &task->partitions[i];

        if (partition->position < partition->t0)
            return "a position is below the origin";
        if (partition->checkpointed > partition->position)
            return "the checkpoint is ahead of the state";
        if (partition->position > partition->limit)
            return "a position is past its limit";
        if (partition->owned && partition->t1 != API_UNKNOWN &&
            partition->checkpointed > partition->t1 && task->phase.state >= TASK_PHASE_REPLAY &&
            task->phase.state <= TASK_PHASE_CHECKPOINT)
            return "T2 at rest is past T1";
    }
    if (task->phase.state == TASK_PHASE_ACTIVE && task->epoch_working == 0)
        return "active without an epoch";
    return NULL;
}
