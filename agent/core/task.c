#include "agent/core/task.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/task_internal.h"

#define PHASE(phase) FSM_BIT(TASK_PHASE_##phase)
/* Whatever happens, a task can be closed and can fail while anything of it is open. */
#define PHASE_ENDS (PHASE(CLOSED) | PHASE(FAILED))
/* With a producer it can also be found fenced, and be repaired. */
#define PHASE_WORK (PHASE(PRODUCER) | PHASE(FENCED) | PHASE_ENDS)

static const struct fsm_table phase_table =
    {
        .name = "task",
        .state_count = TASK_PHASE_COUNT,
        .states =
            {
                [TASK_PHASE_OPEN] = {"open", PHASE(RANGES) | PHASE_ENDS},
                [TASK_PHASE_RANGES] = {"ranges", PHASE(OPEN) | PHASE(SEED) | PHASE(VERIFY) |
                                                     PHASE(LEARN) | PHASE(PRODUCER) | PHASE_ENDS},
                [TASK_PHASE_SEED] = {"seed", PHASE(OPEN) | PHASE(RANGES) | PHASE_ENDS},
                [TASK_PHASE_VERIFY] = {"verify",
                                       PHASE(LEARN) | PHASE(PRODUCER) | PHASE(RANGES) | PHASE_ENDS},
                [TASK_PHASE_LEARN] = {"learn", PHASE(PRODUCER) | PHASE(CHECKPOINT) | PHASE_ENDS},
                [TASK_PHASE_PRODUCER] = {"producer", PHASE(COMMITTED) | PHASE(FENCED) | PHASE_ENDS},
                [TASK_PHASE_COMMITTED] = {"committed", PHASE(REPLAY) | PHASE(OPEN) | PHASE_WORK},
                [TASK_PHASE_REPLAY] = {"replay", PHASE(STAMP) | PHASE(PAUSED) | PHASE(CHECKPOINT) |
                                                     PHASE_WORK},
                [TASK_PHASE_STAMP] = {"stamp",
                                      PHASE(ACTIVE) | PHASE(PAUSED) | PHASE(RELEASE) | PHASE_WORK},
                [TASK_PHASE_ACTIVE] = {"active", PHASE(REINIT) | PHASE(RELEASE) | PHASE_WORK},
                [TASK_PHASE_PAUSED] = {"paused",
                                       PHASE(PRODUCER) | PHASE(COMMITTED) | PHASE(CHECKPOINT) |
                                           PHASE_ENDS},
                [TASK_PHASE_REINIT] = {"reinit", PHASE(PAUSED) | PHASE(RELEASE) | PHASE_WORK},
                [TASK_PHASE_RELEASE] = {"release", PHASE(CHECKPOINT) | PHASE_WORK},
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
    [TASK_PHASE_SEED] = TASK_ACTION_SEED + 1,
    [TASK_PHASE_VERIFY] = TASK_ACTION_VERIFY + 1,
    [TASK_PHASE_PRODUCER] = TASK_ACTION_OPEN_PRODUCER + 1,
    [TASK_PHASE_COMMITTED] = TASK_ACTION_FETCH_COMMITTED + 1,
};

void task_init(struct task *task, const struct task_config *config,
               const struct task_desired *desired, struct task_partition *partitions,
               size_t partition_count, int64_t now_ms)
{
    *task = (struct task){
        .config = *config,
        .desired = *desired,
        .partitions = partitions,
        .partition_count = partition_count,
        .commit_due_ms = TASK_NEVER,
        .checkpoint_due_ms = TASK_NEVER,
        .renew_due_ms = TASK_NEVER,
        .renew_ms = TASK_RENEW_MS,
        .watch_due_ms = TASK_NEVER,
        .notice_due_ms = TASK_NEVER,
        .rest_until_ms = TASK_NEVER,
        .followed_ms = TASK_NEVER,
        .halted_offset = API_UNKNOWN,
    };
    for (size_t i = 0; i < partition_count; i++)
        task_init_partition(&partitions[i]);
    task_find_parents(task);
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
    task->awaited = action;
    task_push(actions, action);
}

void task_give_up(struct task *task)
{
    task->waiting = task->splitting = false;
    for (size_t i = 0; i < task->partition_count; i++)
        task->partitions[i].committing = API_UNKNOWN;
}

void task_move(struct task *task, enum task_phase phase, int64_t now_ms)
{
    if (task->phase.state != (int)phase)
        (void)fsm_move(&task->phase, phase, now_ms); /* the shell measures; the core has no use */
    task->caught_up = task->caught_up && phase == TASK_PHASE_LEARN;
    task->releasing =
        task->releasing && (phase == TASK_PHASE_RELEASE || phase == TASK_PHASE_CHECKPOINT);
}

void task_back_off(struct task *task, int64_t now_ms)
{
    /* It worked for a while: this failure is not the next of a row. */
    if (task->phase.state == TASK_PHASE_ACTIVE &&
        now_ms - task->phase.since_ms >= TASK_BACKOFF_MAX_MS)
        task->backoff_ms = 0;
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
    task->warm = false;
    task->trailing = false;
    task->commit_due_ms = TASK_NEVER;
    task_hold(task);
    task_unpin(task);
    task_give_up(task);
    task_ask(task, actions, TASK_ACTION_CLOSE);
}

void task_end(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    task->rest_until_ms = TASK_NEVER;
    task_move(task, TASK_PHASE_CLOSED, now_ms);
    close_all(task, actions);
}

void task_fail(struct task *task, struct task_actions *actions, int64_t retry_ms, int64_t now_ms)
{
    if (task->released) { /* nothing to come back for, whatever became of the state */
        task_end(task, actions, now_ms);
        return;
    }
    task_move(task, TASK_PHASE_FAILED, now_ms);
    task->retry_ms = retry_ms;
    close_all(task, actions);
    task_push(actions, TASK_ACTION_REPORT);
}

void task_fence(struct task *task, struct task_actions *actions, const char *detail, int64_t now_ms)
{
    task_set_problem(task, "fenced", detail, now_ms);
    task->fenced = true;
    task_move(task, TASK_PHASE_FENCED, now_ms);
    close_all(task, actions);
    task_push(actions, TASK_ACTION_REPORT);
}

void task_enter(struct task *task, struct task_actions *actions, enum task_phase phase,
                int64_t now_ms)
{
    task_move(task, phase, now_ms);
    if (task->retry_ms > now_ms)
        return;
    if (phase == TASK_PHASE_OPEN || phase == TASK_PHASE_PRODUCER)
        task->epoch_tried = task->desired.epoch;
    if (phase == TASK_PHASE_OPEN) {
        task->restart = task->seed_given_up = task->seeded = false;
        task->seed_failures = 0;
        task->halted_offset = API_UNKNOWN;
        task_clear_strange(task);
    }
    if (phase == TASK_PHASE_PRODUCER) {
        assert(!task->desired.learner);
        assert(!task->released);
        assert(!task->fenced || task->desired.epoch > task->epoch_working);
        task->epoch_working = task->desired.epoch;
        task->fenced = false;
        task->warm = false; /* used up by this, whatever comes of it */
    }
    task_ask(task, actions, (enum task_action)(phase_action[phase] - 1));
}

/* Of Kafka or the store, in any phase: tried again from here, or from the start. */
static void handle_failure(struct task *task, const struct task_event *event,
                           struct task_actions *actions)
{
    const char *code = event->code != NULL ? event->code : "kafka_unreachable";
    bool hopeless;

    /* The log's start has passed what was learned; there is a copy to begin anew with. */
    if (event->kind == TASK_EVENT_POSITION_LOST && task->desired.learner &&
        task->desired.seed != TASK_SEED_NONE && strcmp(code, "history_lost") == 0)
        code = "seeding_failed";
    task_set_problem(task, code, event->detail, event->now_ms);
    hopeless = task_back_off_from(task, event);
    if (hopeless || event->kind == TASK_EVENT_STORE_FAILED ||
        event->kind == TASK_EVENT_POSITION_LOST)
        task_fail(task, actions, task->retry_ms, event->now_ms);
    else if (event->kind == TASK_EVENT_PRODUCER_FAILED)
        task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
}

/* The watch of at_least_once looks again at its next turn; what else is wrong is more telling. */
static void handle_committed_failed(struct task *task, const struct task_event *event,
                                    struct task_actions *actions)
{
    if (task->phase.state == TASK_PHASE_COMMITTED)
        handle_failure(task, event, actions);
    else if (task->stopping && !task_is_clean(task)) /* the last commit would wait in vain, too */
        task_end(task, actions, event->now_ms);
    else if (task->code[0] == '\0')
        task_set_problem(task, event->code != NULL ? event->code : "kafka_unreachable",
                         event->detail, event->now_ms);
}

static void handle_corrupt(struct task *task, const struct task_event *event,
                           struct task_actions *actions)
{
    task_set_problem(task, "state_set_aside", event->detail, event->now_ms);
    task_back_off(task, event->now_ms);
    task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
    task_push(actions, TASK_ACTION_UNASSIGN);
    task_push(actions, TASK_ACTION_SET_ASIDE);
    task_fail(task, actions, task->retry_ms, event->now_ms);
}

static void handle_broken(struct task *task, const struct task_event *event,
                          struct task_actions *actions)
{
    task_set_problem(task, event->code != NULL ? event->code : "transaction_failed", event->detail,
                     event->now_ms);
    if (event->fatal) {
        task_fail(task, actions, event->now_ms + TASK_RECHECK_MS, event->now_ms);
    } else if (task->phase.state == TASK_PHASE_LEARN) { /* no producer, nothing to repair */
        task_back_off(task, event->now_ms);
        task_fail(task, actions, task->retry_ms, event->now_ms);
    } else {
        task_repair(task, actions, event->now_ms);
    }
}

static bool is_in(const struct task *task, enum task_phase first, enum task_phase last)
{
    return task->phase.state >= (int)first && task->phase.state <= (int)last;
}

static void handle_tick(struct task *task, const struct task_event *event,
                        struct task_actions *actions)
{
    enum task_phase phase = (enum task_phase)task->phase.state;
    int64_t now_ms = event->now_ms;

    if (task->waiting)
        return;
    if (phase == TASK_PHASE_LEARN || is_in(task, TASK_PHASE_REPLAY, TASK_PHASE_PAUSED))
        task_tick_working(task, actions, now_ms);
    else if (phase == TASK_PHASE_CHECKPOINT && now_ms >= task->rest_until_ms)
        task_release(task, actions, now_ms);
    else if (phase == TASK_PHASE_FAILED && now_ms >= task->retry_ms)
        task_enter(task, actions, TASK_PHASE_OPEN, now_ms);
    else if (phase_action[phase] != 0 && now_ms >= task->retry_ms)
        task_enter(task, actions, phase, now_ms);
}

/* Once a release has begun under an epoch only a higher one takes it back, and once it is done
 * nothing does: what is reported of it stays as it was done. */
static void handle_desired(struct task *task, const struct task_event *event,
                           struct task_actions *actions)
{
    const struct task_desired *desired = &event->desired;
    uint64_t handoff = task->desired.handoff;
    enum task_seed seed = task->desired.seed;

    if (!task->released && desired->epoch >= task->desired.epoch + (task->releasing ? 1 : 0)) {
        bool learner = task->desired.learner && desired->learner;

        task_take_rested(task, event);
        task_take_chosen(task, event);
        if (desired->split.handoff != task->desired.split.handoff)
            task_forget_split_bounds(task);
        task->desired = *desired;
        task->desired.learner = learner;
    }
    /* D3.5: a standby has been caught up with what was told before the hand-over began. */
    if (task->desired.learner && task->desired.handoff != handoff && task->desired.handoff != 0) {
        task->followed_ms = TASK_NEVER;
        task->caught_up = false;
        task_push(actions, TASK_ACTION_REPORT);
    }
    task_seed_desired(task, actions, seed, event->now_ms);
    if (event->restart && task->phase.state == TASK_PHASE_FAILED)
        task->retry_ms = event->now_ms;
    else if (event->restart && task->halting)
        task->restart = true;
}

#define ACTION(action) (UINT32_C(1) << TASK_ACTION_##action)

static const uint32_t answered[TASK_EVENT_COUNT] = {
    [TASK_EVENT_STORE_OPENED] = ACTION(OPEN_STORE),
    [TASK_EVENT_STORE_FAILED] = ACTION(OPEN_STORE) | ACTION(DROP_STATE) | ACTION(SEED),
    [TASK_EVENT_SEEDED] = ACTION(SEED),
    [TASK_EVENT_SEED_FAILED] = ACTION(SEED),
    [TASK_EVENT_RANGES] = ACTION(QUERY_RANGES),
    [TASK_EVENT_RANGES_FAILED] = ACTION(QUERY_RANGES),
    [TASK_EVENT_VERIFIED] = ACTION(VERIFY),
    [TASK_EVENT_VERIFY_MISMATCH] = ACTION(VERIFY),
    [TASK_EVENT_VERIFY_FAILED] = ACTION(VERIFY),
    [TASK_EVENT_PRODUCER_READY] = ACTION(OPEN_PRODUCER),
    [TASK_EVENT_PRODUCER_FENCED] = ACTION(OPEN_PRODUCER),
    [TASK_EVENT_PRODUCER_FAILED] = ACTION(OPEN_PRODUCER),
    [TASK_EVENT_COMMITTED_READ] = ACTION(FETCH_COMMITTED),
    [TASK_EVENT_COMMITTED_FAILED] = ACTION(FETCH_COMMITTED),
    [TASK_EVENT_COMMIT_DONE] = ACTION(COMMIT),
    [TASK_EVENT_COMMIT_FENCED] = ACTION(COMMIT),
    [TASK_EVENT_COMMIT_FAILED] = ACTION(COMMIT),
    [TASK_EVENT_STATE_DROPPED] = ACTION(DROP_STATE),
    [TASK_EVENT_RECORD_REFUSED] = ACTION(OPEN_STORE),
    [TASK_EVENT_CLOSED] = ACTION(CLOSE),
};

static bool is_answer(const struct task *task, const struct task_event *event)
{
    return task->waiting && (answered[event->kind] & (UINT32_C(1) << task->awaited)) != 0;
}

/*
 * An event that answers nothing. Late answers, and what is said of things that have been closed
 * since, mean nothing any more; what was said of a record or a position while a commit was under
 * way will come up again when reading goes on.
 */
static bool is_heard(const struct task *task, const struct task_event *event)
{
    bool learning = task->phase.state == TASK_PHASE_LEARN;

    switch (event->kind) {
    case TASK_EVENT_START:
        return task->phase.state == TASK_PHASE_OPEN && !task->waiting;
    case TASK_EVENT_TICK:
    case TASK_EVENT_DESIRED:
    case TASK_EVENT_FOLLOW:
    case TASK_EVENT_STOP:
        return true;
    case TASK_EVENT_RANGES:
        return is_in(task, TASK_PHASE_VERIFY, TASK_PHASE_CHECKPOINT);
    case TASK_EVENT_CHECKPOINTED:
    case TASK_EVENT_CHECKPOINT_FAILED:
        return task->checkpoint_running && is_in(task, TASK_PHASE_OPEN, TASK_PHASE_CHECKPOINT);
    case TASK_EVENT_COMMIT_FENCED:
    case TASK_EVENT_OUTPUT_FAILED:
        return is_in(task, TASK_PHASE_REPLAY, TASK_PHASE_RELEASE) &&
               task->phase.state != TASK_PHASE_PAUSED;
    case TASK_EVENT_ASSIGN_FAILED:
        return is_in(task, TASK_PHASE_LEARN, TASK_PHASE_RELEASE);
    case TASK_EVENT_STORE_CORRUPT:
    case TASK_EVENT_STORE_FAILED:
        return learning || is_in(task, TASK_PHASE_REPLAY, TASK_PHASE_CHECKPOINT);
    case TASK_EVENT_FULL:
    case TASK_EVENT_POSITION_LOST:
    case TASK_EVENT_RECORD_REFUSED:
        return learning || (is_in(task, TASK_PHASE_REPLAY, TASK_PHASE_ACTIVE) && !task->waiting);
    default:
        return false;
    }
}

static void handle_life(struct task *task, const struct task_event *event,
                        struct task_actions *actions)
{
    switch (event->kind) {
    case TASK_EVENT_START:
        task_take_rested(task, event);
        task_take_chosen(task, event);
        task_enter(task, actions, TASK_PHASE_OPEN, event->now_ms);
        break;
    case TASK_EVENT_TICK:
        handle_tick(task, event, actions);
        break;
    case TASK_EVENT_DESIRED:
        handle_desired(task, event, actions);
        break;
    case TASK_EVENT_FOLLOW:
        task_follow(task, event, actions);
        break;
    case TASK_EVENT_STOP:
        task->stopping = true;
        task_seed_stop(task, actions);
        if (task->rest_until_ms != TASK_NEVER)
            task_release(task, actions, event->now_ms);
        break;
    default:
        assert(event->kind == TASK_EVENT_CLOSED);
        task_drop_checkpoint(task);
        break;
    }
}

static void handle_opening(struct task *task, const struct task_event *event,
                           struct task_actions *actions)
{
    switch (event->kind) {
    case TASK_EVENT_STORE_OPENED:
        task_store_opened(task, event, actions);
        break;
    case TASK_EVENT_RANGES:
        task_ranges(task, event, actions);
        break;
    case TASK_EVENT_SEEDED:
        task_seeded(task, event, actions);
        break;
    case TASK_EVENT_SEED_FAILED:
        task_seed_failed(task, event, actions);
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
    case TASK_EVENT_COMMITTED_FAILED:
        handle_committed_failed(task, event, actions);
        break;
    default:
        assert(event->kind == TASK_EVENT_STORE_FAILED || event->kind == TASK_EVENT_RANGES_FAILED ||
               event->kind == TASK_EVENT_PRODUCER_FAILED);
        handle_failure(task, event, actions);
        break;
    }
}

static void handle_working(struct task *task, const struct task_event *event,
                           struct task_actions *actions)
{
    switch (event->kind) {
    case TASK_EVENT_COMMIT_DONE:
        task_commit_done(task, actions, event->now_ms);
        break;
    case TASK_EVENT_COMMIT_FENCED:
        task_fence(task, actions, event->detail, event->now_ms);
        break;
    case TASK_EVENT_CHECKPOINTED:
        task_checkpointed(task, actions, event->now_ms);
        break;
    case TASK_EVENT_CHECKPOINT_FAILED:
        task_checkpoint_failed(task, event, actions);
        break;
    case TASK_EVENT_STATE_DROPPED:
        task_state_dropped(task, event, actions);
        break;
    case TASK_EVENT_STORE_CORRUPT:
        handle_corrupt(task, event, actions);
        break;
    case TASK_EVENT_POSITION_LOST:
        handle_failure(task, event, actions);
        break;
    case TASK_EVENT_RECORD_REFUSED:
        task_refuse(task, event, actions);
        break;
    case TASK_EVENT_FULL:
        task->full = true;
        break;
    case TASK_EVENT_ASSIGN_FAILED:
        task->assigned = false;
        /* On the way through an activation already: its replay assigns anew. */
        if (!is_in(task, TASK_PHASE_PRODUCER, TASK_PHASE_COMMITTED))
            handle_broken(task, event, actions);
        break;
    default:
        assert(event->kind == TASK_EVENT_COMMIT_FAILED || event->kind == TASK_EVENT_OUTPUT_FAILED);
        handle_broken(task, event, actions);
        break;
    }
}

static void dispatch(struct task *task, const struct task_event *event,
                     struct task_actions *actions)
{
    if (event->kind <= TASK_EVENT_STOP || event->kind == TASK_EVENT_CLOSED)
        handle_life(task, event, actions);
    else if (event->kind <= TASK_EVENT_COMMITTED_FAILED && event->kind != TASK_EVENT_STORE_CORRUPT)
        handle_opening(task, event, actions);
    else
        handle_working(task, event, actions);
}

/* After every event: what waits for its turn (a stop, a higher epoch) is taken up as soon as no
 * answer is outstanding. */
static void settle(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    enum task_phase phase = (enum task_phase)task->phase.state;
    bool newer = task->desired.epoch > task->epoch_working;

    if (task->waiting || is_in(task, TASK_PHASE_RELEASE, TASK_PHASE_CLOSED))
        return;
    if (task->stopping || (phase == TASK_PHASE_ACTIVE && task->desired.release &&
                           task->desired.epoch == task->epoch_working)) {
        task_release(task, actions, now_ms);
    } else if ((phase == TASK_PHASE_FENCED && newer) ||
               (phase == TASK_PHASE_FAILED && task->desired.epoch > task->epoch_tried)) {
        task->retry_ms = now_ms;
        task_enter(task, actions, TASK_PHASE_OPEN, now_ms);
    } else if (phase == TASK_PHASE_LEARN && !task->desired.learner) {
        task->retry_ms = now_ms;
        task_enter(task, actions, TASK_PHASE_PRODUCER, now_ms);
    } else if (newer && is_in(task, TASK_PHASE_COMMITTED, TASK_PHASE_ACTIVE) &&
               phase != TASK_PHASE_STAMP) {
        /* In STAMP the first commit comes first: it is due, and what it carries is not repeated. */
        task_reinit(task, actions, now_ms);
    } else if (task_is_to_split(task)) {
        task_split(task, actions);
    } else if (phase == TASK_PHASE_ACTIVE && task->desired.paused) {
        task_pause(task, actions, now_ms);
    } else if (phase == TASK_PHASE_PAUSED && (newer || !task->desired.paused)) {
        task->retry_ms = now_ms;
        task_enter(task, actions, TASK_PHASE_PRODUCER, now_ms);
    }
}

static int64_t next_wake(const struct task *task, int64_t now_ms)
{
    enum task_phase phase = (enum task_phase)task->phase.state;

    if (task->waiting)
        return TASK_NEVER;
    if (phase_action[phase] != 0 || phase == TASK_PHASE_FAILED)
        return task->retry_ms;
    if (phase == TASK_PHASE_LEARN || is_in(task, TASK_PHASE_REPLAY, TASK_PHASE_PAUSED))
        return task_wake_working(task, now_ms);
    return task->rest_until_ms;
}

void task_step(struct task *task, const struct task_event *event, struct task_actions *ret_actions)
{
    bool answer = is_answer(task, event);
    bool heard = answer || is_heard(task, event);

    ret_actions->count = 0;
    if (answer)
        task->waiting = false;
    /* A stop does not wait for an activation to get on: nothing was put out, all can be closed. */
    if (heard && !(answer && task->stopping && task->phase.state < TASK_PHASE_REPLAY))
        dispatch(task, event, ret_actions);
    settle(task, ret_actions, event->now_ms);
    task_order(task, event->now_ms);
    ret_actions->wake_ms = next_wake(task, event->now_ms);
}

void task_progress(struct task *task, size_t index, int64_t position, int64_t now_ms)
{
    struct task_partition *partition = &task->partitions[index];

    assert(index < task->partition_count);
    assert(task_may_read(task));
    assert(position >= partition->position);
    assert(position <= task_limit(task, index));
    if (position == partition->position)
        return;
    partition->position = position;
    if (task_may_output(task) && task->commit_due_ms == TASK_NEVER)
        task->commit_due_ms = now_ms + task->config.commit_interval_ms;
}

const char *task_phase_name(enum task_phase phase)
{
    return fsm_state_name(&phase_table, phase);
}
