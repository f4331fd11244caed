#include "tests/sim/mutation.h"

#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/sim/agent_model.h"
#include "tests/sim/world.h"

const char *const mutation_options[MUTATION_COUNT] = {[MUTATION_NONE] = "none",
#define MUTATION_OPTION(name, option, text) [MUTATION_##name] = (option),
                                                      MUTATION_KINDS(MUTATION_OPTION)
#undef MUTATION_OPTION
};

const char *const mutation_texts[MUTATION_COUNT] = {[MUTATION_NONE] = "",
#define MUTATION_TEXT(name, option, text) [MUTATION_##name] = (text),
                                                    MUTATION_KINDS(MUTATION_TEXT)
#undef MUTATION_TEXT
};

/* ---- what the core is told */

static void hide_stamps(struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        if (task->committed[i].offset != API_UNKNOWN)
            task->committed[i].stamp = task_stamp(&task->core, i);
    }
}

static void pretend_origin(struct sim_task *task, struct task_event *event)
{
    for (size_t i = 0; i < task->core.partition_count; i++)
        task->committed[i] = (struct task_committed){.offset = task->core.partitions[i].t0,
                                                     .stamped = true,
                                                     .stamp = task_stamp(&task->core, i)};
    event->kind = TASK_EVENT_COMMITTED_READ;
    event->committed = task->committed;
}

static void hide_counts(struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++)
        task->committed[i].stamp.records = API_UNKNOWN;
}

/* Of the first partition the T1 that was told before is kept. */
static void mix(struct sim_task *task)
{
    if (task->core.partitions[0].t1 != API_UNKNOWN)
        task->followed[0] = task->core.partitions[0].t1;
}

void mutation_bend_event(enum mutation mutation, struct sim_task *task, struct task_event *event)
{
    switch (mutation) {
    case MUTATION_NO_METADATA_CHECK:
        if (event->kind == TASK_EVENT_COMMITTED_READ)
            hide_stamps(task);
        break;
    case MUTATION_NO_COUNT:
        if (event->kind == TASK_EVENT_COMMITTED_READ)
            hide_counts(task);
        break;
    case MUTATION_UNKNOWN_IS_ZERO:
        if (event->kind == TASK_EVENT_COMMITTED_FAILED)
            pretend_origin(task, event);
        break;
    case MUTATION_T1_MIXED:
        if (event->kind == TASK_EVENT_FOLLOW)
            mix(task);
        break;
    case MUTATION_RELEASED_IN_DOUBT:
        if (event->kind == TASK_EVENT_COMMIT_FAILED && task->core.releasing)
            event->kind = TASK_EVENT_COMMIT_DONE;
        break;
    case MUTATION_TRUST_IN_DOUBT:
        if (event->kind == TASK_EVENT_COMMIT_FAILED)
            event->kind = TASK_EVENT_COMMIT_DONE;
        break;
    case MUTATION_FROZEN_WORKS:
        if (event->kind == TASK_EVENT_DESIRED && event->desired.frozen)
            event->desired.paused = event->desired.frozen = false;
        break;
    default:
        break;
    }
}

/* ---- what the core does */

static void call_it_active(struct task *core, int64_t now_ms)
{
    if (core->phase.state != TASK_PHASE_STAMP || core->waiting)
        return;
    task_move(core, TASK_PHASE_ACTIVE, now_ms);
    core->commit_all = false;
    core->commit_due_ms = TASK_NEVER;
    core->watch_due_ms = core->config.exactly_once ? TASK_NEVER : now_ms + TASK_WATCH_MS;
}

static bool commits(const struct task_actions *actions)
{
    return actions->count > 0 && actions->items[actions->count - 1] == TASK_ACTION_COMMIT;
}

static void leave_unmoved(struct task *core, const struct task_actions *actions)
{
    if (!commits(actions) || core->phase.state != TASK_PHASE_STAMP)
        return;
    for (size_t i = 0; i < core->partition_count; i++) {
        if (core->partitions[i].committing == core->partitions[i].t1)
            core->partitions[i].committing = API_UNKNOWN;
    }
}

static void checkpoint_first(struct task *core, struct task_actions *actions, int64_t now_ms)
{
    if (!commits(actions) || core->checkpoint_running || !core->config.stateful ||
        now_ms < core->checkpoint_due_ms)
        return;
    actions->count--;
    task_checkpoint(core, actions, now_ms);
    task_push(actions, TASK_ACTION_COMMIT);
}

static void read_on(struct task *core)
{
    for (size_t i = 0; i < core->partition_count; i++) {
        struct task_partition *partition = &core->partitions[i];

        if ((core->phase.state == TASK_PHASE_REPLAY || core->phase.state == TASK_PHASE_LEARN) &&
            partition->limit == partition->t1 && partition->range.stable_end > partition->t1)
            partition->limit = partition->t1 + 1;
    }
}

static void open_again(struct task *core, const struct task_event *event,
                       struct task_actions *actions)
{
    if (event->kind == TASK_EVENT_CLOSED && core->phase.state == TASK_PHASE_FENCED) {
        core->fenced = false;
        core->retry_ms = event->now_ms;
        task_enter(core, actions, TASK_PHASE_OPEN, event->now_ms);
    }
}

static void stop_without_commit(struct task *core, const struct task_event *event,
                                struct task_actions *actions)
{
    if (core->phase.state != TASK_PHASE_RELEASE || !commits(actions) || core->checkpoint_running ||
        !core->config.stateful)
        return;
    actions->count--;
    task_give_up(core);
    task_move(core, TASK_PHASE_CHECKPOINT, event->now_ms);
    task_release(core, actions, event->now_ms);
}

void mutation_bend_step(enum mutation mutation, struct sim_task *task,
                        const struct task_event *event, struct task_actions *actions)
{
    struct task *core = &task->core;

    switch (mutation) {
    case MUTATION_NO_STAMP:
        call_it_active(core, event->now_ms);
        break;
    case MUTATION_SPLIT_OWN_STAMP:
        core->desired.split.processor = core->config.processor;
        core->desired.split.epoch = core->epoch_working;
        break;
    case MUTATION_PARTIAL_STAMP:
        leave_unmoved(core, actions);
        break;
    case MUTATION_EARLY_CHECKPOINT:
        checkpoint_first(core, actions, event->now_ms);
        break;
    case MUTATION_REPLAY_PAST_T1:
        if (event->kind == TASK_EVENT_COMMITTED_READ)
            read_on(core);
        break;
    case MUTATION_LEARN_PAST_T1:
        if (event->kind == TASK_EVENT_FOLLOW)
            read_on(core);
        break;
    case MUTATION_FENCED_REINITS:
        open_again(core, event, actions);
        break;
    case MUTATION_STOP_DROPS_BATCH:
        stop_without_commit(core, event, actions);
        break;
    default:
        break;
    }
}

/* ---- what is reported */

static void pretend_split(const struct sim_slot *slot, struct sim_report *report)
{
    report->split = slot->told.split_handoff;
    for (size_t i = 0; i < slot->told.split_partitions.count; i++) {
        report->t0[slot->told.split_partitions.items[i]] = API_UNKNOWN;
        report->owned &= ~(UINT32_C(1) << slot->told.split_partitions.items[i]);
    }
}

static void take_t1_for_bounds(struct sim_report *report)
{
    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++) {
        if (report->split_bound[i] != API_UNKNOWN)
            report->split_bound[i] = report->t1[i] + 1;
    }
}

void mutation_bend_report(const struct world *world, struct sim_report *report)
{
    const struct sim_slot *slot = &world->agents[report->agent].slots[report->processor];

    switch (world->config.mutation) {
    case MUTATION_EARLY_RELEASED:
        if (slot->task != NULL && slot->task->core.phase.state == TASK_PHASE_RELEASE)
            report->released = slot->task->core.releasing;
        break;
    case MUTATION_SPLIT_BY_DOCUMENT:
        pretend_split(slot, report);
        break;
    case MUTATION_BOUND_LATE:
        take_t1_for_bounds(report);
        break;
    case MUTATION_FROZEN_WORKS:
        if (slot->job.frozen && report->state == TASK_STATE_ACTIVE)
            report->state = TASK_STATE_PAUSED;
        break;
    case MUTATION_RELEASED_COPIED:
        if (report->released)
            report->epoch = slot->told.epoch;
        break;
    default:
        break;
    }
}
