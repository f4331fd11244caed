#include "tests/unit/agent/core/task_rig.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/mem.h"

#define STEPS_MAX 200

static const struct {
    char letter;
    bool answered;
    enum task_event_kind good;
} actions[] = {
    [TASK_ACTION_OPEN_STORE] = {'O', true, TASK_EVENT_STORE_OPENED},
    [TASK_ACTION_QUERY_RANGES] = {'R', true, TASK_EVENT_RANGES},
    [TASK_ACTION_SEED] = {'G', true, TASK_EVENT_SEEDED},
    [TASK_ACTION_CANCEL_SEED] = {'g', false, TASK_EVENT_TICK},
    [TASK_ACTION_VERIFY] = {'V', true, TASK_EVENT_VERIFIED},
    [TASK_ACTION_WARM_PRODUCER] = {'W', false, TASK_EVENT_TICK},
    [TASK_ACTION_OPEN_PRODUCER] = {'P', true, TASK_EVENT_PRODUCER_READY},
    [TASK_ACTION_FETCH_COMMITTED] = {'F', true, TASK_EVENT_COMMITTED_READ},
    [TASK_ACTION_ASSIGN] = {'A', false, TASK_EVENT_TICK},
    [TASK_ACTION_COMMIT] = {'C', true, TASK_EVENT_COMMIT_DONE},
    [TASK_ACTION_CHECKPOINT] = {'K', false, TASK_EVENT_TICK},
    [TASK_ACTION_CLOSE_PRODUCER] = {'p', false, TASK_EVENT_TICK},
    [TASK_ACTION_DROP_STATE] = {'D', true, TASK_EVENT_STATE_DROPPED},
    [TASK_ACTION_SET_ASIDE] = {'S', false, TASK_EVENT_TICK},
    [TASK_ACTION_UNASSIGN] = {'U', false, TASK_EVENT_TICK},
    [TASK_ACTION_FORGET] = {'L', false, TASK_EVENT_TICK},
    [TASK_ACTION_CLOSE] = {'X', true, TASK_EVENT_CLOSED},
    [TASK_ACTION_REPORT] = {'!', false, TASK_EVENT_TICK},
};

enum task_event_kind rig_good_answer(enum task_action action)
{
    return actions[action].good;
}

void rig_init_desired(struct rig *rig, const struct task_config *config,
                      const struct task_desired *desired)
{
    struct task_partition *partitions = mem_calloc(RIG_PARTITIONS, sizeof(*partitions));

    *rig = (struct rig){.now_ms = 1000};
    for (uint32_t i = 0; i < RIG_PARTITIONS; i++) {
        partitions[i] = (struct task_partition){.partition = i, .owned = true, .t0 = 0};
        rig->stored[i] = 40;
        rig->copy[i] = 48;
        rig->ranges[i] = (struct task_range){.log_start = 0, .stable_end = 100, .end = 100};
        rig->committed[i] = (struct task_committed){
            .offset = 50,
            .stamped = true,
            .stamp = {RIG_INCARNATION, 5, RIG_EPOCH - 1, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN}};
        rig->records[i] = API_UNKNOWN;
    }
    task_init(&rig->task, config, desired, partitions, RIG_PARTITIONS, rig->now_ms);
}

void rig_init_config(struct rig *rig, const struct task_config *config)
{
    rig_init_desired(rig, config, &(struct task_desired){.epoch = RIG_EPOCH});
}

static const struct task_config usual = {
    .incarnation = RIG_INCARNATION,
    .processor = 5,
    .exactly_once = true,
    .stateful = true,
    .commit_interval_ms = 100,
    .checkpoint_interval_ms = 10000,
    .acceptable_lag = 4,
};

void rig_init(struct rig *rig)
{
    rig_init_config(rig, &usual);
}

void rig_init_learner(struct rig *rig)
{
    rig_init_desired(rig, &usual, &(struct task_desired){.learner = true, .handoff = RIG_HANDOFF});
}

void rig_finish(struct rig *rig)
{
    task_finish(&rig->task);
}

void rig_set_origin(struct rig *rig, size_t index, int64_t t0)
{
    struct task_partition *partition = &rig->task.partitions[index];

    partition->t0 = partition->position = partition->checkpointed = partition->limit = t0;
}

enum task_phase rig_phase(const struct rig *rig)
{
    return (enum task_phase)rig->task.phase.state;
}

/* Carries out what changes the other side: a checkpoint and a commit are noted when they are
 * answered. */
static void take_effect(struct rig *rig, enum task_event_kind kind)
{
    for (size_t i = 0; i < rig->task.partition_count; i++) {
        const struct task_partition *partition = &rig->task.partitions[i];

        if (kind == TASK_EVENT_SEEDED && rig->task.waiting && rig->task.awaited == TASK_ACTION_SEED)
            rig->stored[i] = rig->copy[i];
        if (kind == TASK_EVENT_CHECKPOINTED)
            rig->stored[i] = partition->freezing;
        if (kind == TASK_EVENT_CHECKPOINTED)
            rig->records[i] = rig->freezing[i];
        if (kind == TASK_EVENT_COMMIT_DONE && partition->committing != API_UNKNOWN) {
            rig->committed[i] =
                (struct task_committed){partition->committing, true, task_stamp(&rig->task, i)};
        }
    }
}

const char *rig_give_event(struct rig *rig, struct task_event event)
{
    const char *broken;

    event.now_ms = rig->now_ms;
    if (event.offsets == NULL && event.kind != TASK_EVENT_START && event.kind != TASK_EVENT_DESIRED)
        event.offsets = rig->stored;
    event.records = rig->records;
    event.ranges = rig->ranges;
    if (task_wants_policy(&rig->task))
        event.policies = rig->policies;
    event.committed = rig->committed;
    take_effect(rig, event.kind);
    if (rig->awaiting && event.kind == rig_good_answer(rig->awaited))
        rig->awaiting = false;
    task_step(&rig->task, &event, &rig->actions);
    broken = task_check(&rig->task);
    cr_assert_null(broken, "%s", broken);
    for (size_t i = 0; i < rig->actions.count; i++) {
        enum task_action action = rig->actions.items[i];

        rig->letters[i] = actions[action].letter;
        if (actions[action].answered) {
            rig->awaiting = true;
            rig->awaited = action;
        }
        if (action == TASK_ACTION_FORGET)
            task_forget(&rig->task);
        for (size_t k = 0; k < rig->task.partition_count; k++) {
            if (action == TASK_ACTION_SET_ASIDE)
                rig->stored[k] = rig->records[k] = API_UNKNOWN;
            if (action == TASK_ACTION_CHECKPOINT)
                rig->freezing[k] = rig->task.partitions[k].records;
        }
    }
    rig->letters[rig->actions.count] = '\0';
    return rig->letters;
}

const char *rig_give(struct rig *rig, enum task_event_kind kind)
{
    return rig_give_event(
        rig, (struct task_event){.kind = kind, .code = NULL, .detail = "because the test says so"});
}

const char *rig_tick(struct rig *rig, int64_t after_ms)
{
    rig->now_ms += after_ms;
    return rig_give(rig, TASK_EVENT_TICK);
}

const char *rig_desire(struct rig *rig, uint64_t epoch, bool restart)
{
    return rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_DESIRED,
                                                   .desired = {.epoch = epoch},
                                                   .restart = restart});
}

const char *rig_want(struct rig *rig, struct task_desired desired)
{
    return rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_DESIRED, .desired = desired});
}

const char *rig_follow(struct rig *rig, int64_t t1_0, int64_t t1_1, int64_t t1_2)
{
    const int64_t offsets[RIG_PARTITIONS] = {t1_0, t1_1, t1_2};

    return rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_FOLLOW, .offsets = offsets});
}

/* One good answer, a checkpoint that ends, or a tick at its time; false: nothing is due. */
static bool advance(struct rig *rig)
{
    if (rig->task.waiting) {
        cr_assert(rig->awaiting, "the task waits for an answer to nothing");
        (void)rig_give(rig, rig_good_answer(rig->awaited));
        return true;
    }
    if (rig->task.checkpoint_running) {
        (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
        return true;
    }
    if (rig->actions.wake_ms > rig->now_ms + 20000)
        return false;
    if (rig->now_ms < rig->actions.wake_ms)
        rig->now_ms = rig->actions.wake_ms;
    (void)rig_give(rig, TASK_EVENT_TICK);
    return true;
}

void rig_go(struct rig *rig, enum task_phase phase)
{
    if (rig->task.phase.state == TASK_PHASE_OPEN && !rig->task.waiting && rig->now_ms == 1000)
        (void)rig_give(rig, TASK_EVENT_START);
    for (int i = 0; i < STEPS_MAX && rig_phase(rig) != phase; i++) {
        if (rig_phase(rig) == TASK_PHASE_REPLAY && !rig->task.waiting) {
            for (size_t k = 0; k < rig->task.partition_count; k++)
                rig_read(rig, k, task_limit(&rig->task, k));
            (void)rig_give(rig, TASK_EVENT_TICK);
            continue;
        }
        rig_assert(advance(rig));
    }
    rig_assert(rig_phase(rig) == phase);
}

void rig_settle(struct rig *rig)
{
    for (int i = 0; i < STEPS_MAX; i++) {
        if (!advance(rig))
            return;
    }
    rig_assert(false && "it never comes to rest");
}

void rig_expect_stops(struct rig *rig)
{
    (void)rig_give(rig, TASK_EVENT_STOP);
    for (int i = 0; i < STEPS_MAX; i++) {
        if (rig_phase(rig) == TASK_PHASE_CLOSED && !rig->task.waiting)
            return;
        rig_assert(rig->task.waiting || rig->task.checkpoint_running);
        (void)advance(rig);
    }
    rig_assert(false && "it never closes");
}

void rig_read(struct rig *rig, size_t index, int64_t position)
{
    task_progress(&rig->task, index, position, rig->now_ms);
}

void rig_read_records(struct rig *rig, size_t index, int64_t position)
{
    while (rig->task.partitions[index].position < position) {
        task_progress(&rig->task, index, rig->task.partitions[index].position + 1, rig->now_ms);
        task_count_record(&rig->task, index);
    }
}

void rig_read_all(struct rig *rig, int64_t position)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig_read(rig, i, position);
}

/* ---- the rig of suites that need nothing else */

struct rig rig_shared;

void rig_setup(void)
{
    rig_init(&rig_shared);
}

void rig_teardown(void)
{
    rig_finish(&rig_shared);
}

void rig_setup_started(void)
{
    rig_setup();
    (void)rig_give(&rig_shared, TASK_EVENT_START);
}

void rig_teardown_started(void)
{
    rig_expect_stops(&rig_shared);
    rig_teardown();
}
