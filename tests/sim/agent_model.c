/* Tasks: their beginning and end, and the turns of a task's thread. */
#include "tests/sim/agent_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash/linhash.h"
#include "common/mem.h"
#include "tests/sim/world.h"

#define WAIT_MS_MAX        100
#define RANGES_INTERVAL_MS 2000
#define REPORT_INTERVAL_MS 100
#define FLUSH_RETRY_MS     1000

size_t agent_partition(const struct sim_task *task, size_t index)
{
    return task->core.partitions[index].partition;
}

struct task_event *agent_event(struct sim_task *task, enum task_event_kind kind, const char *code,
                               const char *detail)
{
    struct task_event *event;

    assert(task->event_count < SIM_EVENTS_MAX);
    event = &task->events[(task->event_next + task->event_count++) % SIM_EVENTS_MAX];
    *event = (struct task_event){.kind = kind, .code = code, .detail = detail};
    return event;
}

/* ---- tasks begin and end */

static struct task_desired desired_of(enum task_role role, uint64_t epoch, uint64_t handoff,
                                      bool release, bool paused)
{
    bool learner = role != TASK_ROLE_ACTIVE;

    return (struct task_desired){.epoch = learner ? 0 : epoch,
                                 .handoff = handoff,
                                 .learner = learner,
                                 .release = !learner && release,
                                 .paused = !learner && paused};
}

/* Owners alone hold back for others in the group. */
static void desire_hold(struct task_desired *desired, bool frozen, bool waiting)
{
    desired->frozen = !desired->learner && frozen;
    desired->waiting = !desired->learner && waiting;
}

void agent_take_rested(const struct document_task *told, int64_t *ret_t1)
{
    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        ret_t1[i] = API_UNKNOWN;
    for (size_t i = 0; i < told->paused_t1.count; i++)
        ret_t1[told->paused_t1.items[i].partition] = told->paused_t1.items[i].offset;
}

void agent_take_skips(const struct world *world, const struct document_task *told,
                      struct sim_task *task)
{
    bool untold = world->config.mutation == MUTATION_SKIP_UNTOLD && told->role != TASK_ROLE_ACTIVE;

    assert(told->skips.count <= API_SKIPS_MAX);
    task->inbox.skip_count = untold ? 0 : told->skips.count;
    for (size_t i = 0; i < task->inbox.skip_count; i++)
        task->inbox.skips[i] = told->skips.items[i];
}

/* True: they are other ones than before. */
static bool use_skips(struct sim_task *task)
{
    bool changed = task->skip_count != task->inbox.skip_count;

    task->skip_count = task->inbox.skip_count;
    for (size_t i = 0; i < task->skip_count; i++)
        task->skips[i] = task->inbox.skips[i];
    for (size_t i = 0; i < task->core.partition_count; i++) {
        struct task_partition *partition = &task->core.partitions[i];

        partition->skip_count = 0;
        for (size_t k = 0; k < task->skip_count; k++) {
            if (task->skips[k].partition != partition->partition)
                continue;
            if (partition->skip_count++ == 0)
                partition->skips = &task->skips[k];
        }
    }
    return changed; /* none is ever taken back */
}

static const int64_t *find_rested(struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++)
        task->rested[i] = task->inbox.t1[agent_partition(task, i)];
    return task->rested;
}

static int64_t origin_of(const struct document_job *job, uint32_t partition)
{
    for (size_t i = 0; i < job->origins.count; i++) {
        if (job->origins.items[i].partition == partition)
            return job->origins.items[i].offset;
    }
    return API_UNKNOWN;
}

static struct task_config make_config(const struct document_job *job, uint32_t processor)
{
    struct task_config config = {
        .processor = processor,
        .parent = processor < job->processors_initial
                      ? processor
                      : linhash_parent(processor, job->processors_initial),
        .exactly_once = job->spec.delivery == DELIVERY_EXACTLY_ONCE,
        .stateful = job->spec.stateful,
        .commit_interval_ms = 50,
        .checkpoint_interval_ms = 400,
        .acceptable_lag = job->spec.acceptable_lag,
        .seed_records_min = 30,
        .partitions_initial = job->partitions_initial,
        .settle_ms = job->spec.settle_ms,
    };

    memcpy(config.incarnation, job->incarnation, sizeof(config.incarnation));
    return config;
}

void agent_take_partitions(const struct document_job *job, const struct document_task *told,
                           struct sim_task *task)
{
    task->inbox.read_count = (uint32_t)told->read.count;
    for (size_t i = 0; i < told->read.count; i++) {
        task->inbox.read[i] = told->read.items[i];
        task->inbox.origins[i] = origin_of(job, told->read.items[i]);
    }
    task->inbox.map = (struct key_map){
        .partitions = {.initial = job->partitions_initial, .now = job->partitions},
        .processors = {.initial = job->processors_initial, .now = job->processors}};
    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        task->inbox.bounds[i] = task->inbox.bound_records[i] = API_UNKNOWN;
    for (size_t i = 0; i < told->bounds.count; i++) {
        const struct ancestor_bound *bound = &told->bounds.items[i];

        task->inbox.bounds[bound->partition] = bound->offset;
        task->inbox.bound_records[bound->partition] = bound->records;
    }
    memset(task->inbox.windows, 0, sizeof(task->inbox.windows));
    for (size_t i = 0; i < job->windows.count; i++)
        task->inbox.windows[job->windows.items[i].partition] = job->windows.items[i];
}

static void use_windows(const struct world *world, struct sim_task *task)
{
    task->map = task->inbox.map;
    agent_use_bounds(world, task);
    for (size_t i = 0; i < task->core.partition_count; i++) {
        const struct settle_window *window = &task->inbox.windows[agent_partition(task, i)];
        struct task_window told = {.told = window->number > 0,
                                   .number = window->number,
                                   .first_end = window->first_end,
                                   .end = window->end,
                                   .fence = window->number > 0 ? window->fence : API_UNKNOWN};

        task_tell_window(&task->core, i, &told, world->now_ms);
    }
}

/* False: it is to begin anew (agent/task_grow.c). */
static bool grow(struct world *world, struct sim_task *task, const struct task_desired *desired)
{
    struct task_partition added[KAFKA_PARTITIONS_MAX] = {0};
    size_t count = 0, before = task->core.partition_count;

    if (!agent_has_smaller_sets(task))
        return false;
    if (!task_may_grow(&task->core, desired) || !task->consumer_open || world_chance(world, 100)) {
        world->tally->of[TALLY_GROWN_ANEW]++;
        return false;
    }
    for (uint32_t i = 0; i < task->inbox.read_count; i++) {
        bool known = (agent_told_sets(task) >> task->inbox.read[i] & 1) == 0; /* it has gone */

        for (size_t k = 0; k < before; k++)
            known = known || agent_partition(task, k) == task->inbox.read[i];
        if (!known)
            added[count++] = (struct task_partition){
                .partition = task->inbox.read[i],
                .owned = (task->inbox.owned >> task->inbox.read[i] & 1) != 0,
                .t0 = task->inbox.origins[i]};
    }
    world->tally->of[desired->learner ? TALLY_GROWN_LEARNER : TALLY_GROWN]++;
    task_grow(&task->core, added, count, world->now_ms);
    for (size_t i = before; i < task->core.partition_count; i++)
        task->next[i] = task->core.partitions[i].position;
    world_trace(world, "agent %zu task %u: has grown to %zu partitions", task->agent,
                task->processor, task->core.partition_count);
    return true;
}

static bool owns(const struct document_task *told, uint32_t partition)
{
    for (size_t i = 0; i < told->owned.count; i++) {
        if (told->owned.items[i] == partition)
            return true;
    }
    return false;
}

struct sim_task *agent_task_start(struct world *world, size_t agent, const struct sim_slot *slot)
{
    const struct document_task *told = &slot->told;
    struct task_desired desired =
        desired_of(told->role, told->epoch, told->handoff, told->release, slot->job.paused);
    struct sim_task *task = mem_calloc(1, sizeof(*task));
    struct task_config config = make_config(&slot->job, told->processor);
    struct task_partition *partitions = mem_calloc(KAFKA_PARTITIONS_MAX, sizeof(*partitions));

    for (size_t i = 0; i < told->read.count; i++)
        partitions[i] = (struct task_partition){.partition = told->read.items[i],
                                                .owned = owns(told, told->read.items[i]),
                                                .t0 = origin_of(&slot->job, told->read.items[i])};
    desired.seed = agent_seed_of(&slot->job, told);
    desire_hold(&desired, slot->job.frozen, slot->job.waiting);
    task->agent = agent;
    task->processor = told->processor;
    task->skip_poison = slot->job.spec.on_error == ON_ERROR_SKIP;
    task->role = told->role;
    task_init(&task->core, &config, &desired, partitions, told->read.count, world->now_ms);
    world->tally->of[TALLY_LEARNER] += desired.learner;
    agent_take_rested(told, task->inbox.t1);
    agent_take_skips(world, told, task);
    (void)use_skips(task);
    agent_take_split(told, task);
    agent_use_split(world, task, &task->core.desired);
    agent_take_partitions(&slot->job, told, task);
    use_windows(world, task);
    agent_event(task, TASK_EVENT_START, NULL, NULL)->offsets =
        told->paused_t1.count > 0 ? find_rested(task) : NULL;
    agent_publish(world, task);
    world_trace(world, "agent %zu: task %u starts %s under epoch %llu", agent, told->processor,
                desired.learner ? "as a learner" : "active", (unsigned long long)desired.epoch);
    return task;
}

void agent_task_destroy(struct sim_task *task)
{
    if (task == NULL)
        return;
    if (task->store_open)
        store_model_crash(task->store);
    task_finish(&task->core);
    free(task->producer.queue);
    free(task);
}

bool agent_task_done(const struct sim_task *task)
{
    return task->core.phase.state == TASK_PHASE_CLOSED && !task->consumer_open &&
           !task->store_open && task->event_count == 0 &&
           task->action_next == task->actions.count && !task->call.active;
}

/* ---- what is said of them */

static struct sim_report report_of(const struct sim_task *task)
{
    const struct task *core = &task->core;
    struct sim_report report = {
        .agent = task->agent,
        .processor = task->processor,
        .role = !core->desired.learner            ? TASK_ROLE_ACTIVE
                : task->role == TASK_ROLE_STANDBY ? TASK_ROLE_STANDBY
                                                  : TASK_ROLE_LEARNER,
        .state = task_state(core),
        .epoch = task_epoch(core),
        .handoff = core->desired.handoff,
        .released = core->released,
        .split = core->split_done,
        .consuming = task_may_output(core),
        .caught_up_lag = task_caught_up_lag(core),
        .halted_offset = API_UNKNOWN,
    };

    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        report.t0[i] = report.t1[i] = report.t2[i] = report.split_bound[i] = API_UNKNOWN;
    for (size_t i = 0; i < core->partition_count; i++) {
        report.t0[agent_partition(task, i)] = core->partitions[i].t0;
        report.t1[agent_partition(task, i)] = core->partitions[i].t1;
        report.t2[agent_partition(task, i)] = core->partitions[i].position;
        report.split_bound[agent_partition(task, i)] = core->partitions[i].split_bound;
        report.split_bound_records[agent_partition(task, i)] =
            core->partitions[i].split_bound_records;
        if (!core->partitions[i].owned)
            continue;
        report.owned |= UINT32_C(1) << agent_partition(task, i);
        report.windows[agent_partition(task, i)] =
            (struct window_report){.partition = core->partitions[i].partition,
                                   .number = core->partitions[i].window.number,
                                   .old_records = core->partitions[i].window.old_records,
                                   .old_at = core->partitions[i].window.old_at,
                                   .settled = task_settled(core, i),
                                   .stale = core->partitions[i].window.stale};
    }
    size_t index;
    if (task_halted(core, &index, &report.halted_offset))
        report.halted_partition = agent_partition(task, index);
    memcpy(report.code, core->code, sizeof(report.code));
    return report;
}

void agent_publish(struct world *world, struct sim_task *task)
{
    struct sim_report report = report_of(task);

    mutation_bend_report(world, &report);
    if (report.released)
        checks_released(world, &report);
    task->report = report;
}

/* ---- one event */

static void give(struct world *world, struct sim_task *task, struct task_event *event)
{
    int phase = task->core.phase.state;

    event->now_ms = world->now_ms;
    mutation_bend_event(world->config.mutation, task, event);
    task_step(&task->core, event, &task->actions);
    mutation_bend_step(world->config.mutation, task, event, &task->actions);
    if (world->config.mutation == MUTATION_EARLY_RELEASED && task->core.releasing) {
        agent_publish(world, task);
        link_report_now(world, task->agent);
    }
    task->action_next = 0;
    task->wake_ms = task->actions.wake_ms;
    if (event->kind != TASK_EVENT_TICK || task->core.phase.state != phase)
        world_trace(world, "agent %zu task %u: %s -> %s%s%s", task->agent, task->processor,
                    agent_event_name(event->kind),
                    task_phase_name((enum task_phase)task->core.phase.state),
                    task->core.code[0] == '\0' ? "" : ", ", task->core.code);
    if (task->actions.count > 0)
        task->worked = true;
    checks_core(world, task, phase);
    if (event->kind == TASK_EVENT_FOLLOW)
        checks_followed(world, task);
}

static void give_next(struct world *world, struct sim_task *task)
{
    struct task_event event = task->events[task->event_next];

    task->event_next = (task->event_next + 1) % SIM_EVENTS_MAX;
    task->event_count--;
    give(world, task, &event);
}

/* ---- a turn of the thread, stage by stage (agent/task_thread.c) */

static void take_desired(struct world *world, struct sim_task *task)
{
    struct task_desired desired;
    struct task_event *event;

    world->tally->of[TALLY_STANDBY_LEARNS] +=
        task->role == TASK_ROLE_STANDBY && task->inbox.role == TASK_ROLE_LEARNER;
    if (task->role == TASK_ROLE_ACTIVE && task->inbox.role != TASK_ROLE_ACTIVE) {
        (void)agent_event(task, TASK_EVENT_STOP, NULL, NULL);
        return;
    }
    desired = desired_of(task->inbox.role, task->inbox.epoch, task->inbox.handoff,
                         task->inbox.release, task->inbox.paused);
    desired.seed = task->inbox.seed;
    desire_hold(&desired, task->inbox.frozen, task->inbox.waiting);
    if (!agent_has_same_sets(task) && !grow(world, task, &desired)) {
        (void)agent_event(task, TASK_EVENT_STOP, NULL, NULL);
        return;
    }
    use_windows(world, task);
    event = agent_event(task, TASK_EVENT_DESIRED, NULL, NULL);
    agent_use_split(world, task, &desired);
    event->desired = desired;
    event->offsets = task->inbox.rested ? find_rested(task) : NULL;
    event->restart = use_skips(task) || task->inbox.skip_poison != task->skip_poison;
    task->skip_poison = task->inbox.skip_poison;
    task->role = task->inbox.role;
}

static void take_followed(struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++)
        task->followed[i] = task->inbox.followed[agent_partition(task, i)];
    agent_event(task, TASK_EVENT_FOLLOW, NULL, NULL)->offsets = task->followed;
}

static void serve_inbox(struct world *world, struct sim_task *task)
{
    if (task->inbox.desired)
        take_desired(world, task);
    if (task->inbox.follow)
        take_followed(task);
    if (task->inbox.stop)
        (void)agent_event(task, TASK_EVENT_STOP, NULL, NULL);
    task->inbox.desired = task->inbox.follow = task->inbox.stop = false;
}

/* How is the checkpoint getting on? */
static void serve_store(struct world *world, struct sim_task *task)
{
    struct store_model *store = task->store;

    if (!task->flush_running)
        return;
    switch (store->flush) {
    case STORE_MODEL_RUNNING:
        return;
    case STORE_MODEL_IDLE:
        task->flush_running = false;
        (void)agent_event(task, TASK_EVENT_CHECKPOINTED, NULL, NULL);
        return;
    case STORE_MODEL_FAILED:
        break;
    }
    if (!task->flush_failed) {
        agent_event(task, TASK_EVENT_CHECKPOINT_FAILED, "store_failed", "the disk said so")->fatal =
            world_chance(world, 100);
        task->flush_retry_ms = world->now_ms + FLUSH_RETRY_MS;
    } else if (world->now_ms >= task->flush_retry_ms) {
        task->flush_retry_ms = world->now_ms + FLUSH_RETRY_MS;
        store->flush = STORE_MODEL_RUNNING;
        store->flush_due_ms = world->now_ms + world_between(world, 1, 50);
    }
    task->flush_failed = true;
}

bool agent_flush(struct world *world, struct sim_task *task)
{
    struct store_model *store = task->store;
    bool fail;

    if (!task->store_open || store->flush != STORE_MODEL_RUNNING ||
        store->flush_due_ms > world->now_ms)
        return false;
    fail = world_chance(world, world->config.fault_permille);
    world->tally->of[fail ? TALLY_CHECKPOINT_FAILED : TALLY_CHECKPOINT]++;
    if (world->config.mutation == MUTATION_LATE_FREEZE) {
        for (size_t i = 0; i < task->core.partition_count; i++)
            store->frozen.learned[agent_partition(task, i)] = task->core.partitions[i].position;
    }
    store->torn = world->config.mutation == MUTATION_TORN_CHECKPOINT;
    if (store_model_flush(store, fail, world->now_ms)) {
        world_trace(world, "agent %zu task %u: checkpoint on disk", task->agent, task->processor);
        checks_disk(world, task);
    }
    task->poked = true;
    return true;
}

static void report(struct world *world, struct sim_task *task)
{
    if (world->now_ms < task->report_due_ms)
        return;
    if (task->report_due_ms == 0)
        link_report_now(world, task->agent);
    task->report_due_ms = world->now_ms + REPORT_INTERVAL_MS;
    agent_publish(world, task);
}

static void tick(struct world *world, struct sim_task *task)
{
    struct task_event event = {.kind = TASK_EVENT_TICK};

    give(world, task, &event);
}

static void wait(struct world *world, struct sim_task *task)
{
    task->wait_ms =
        task->wake_ms < world->now_ms + WAIT_MS_MAX ? task->wake_ms : world->now_ms + WAIT_MS_MAX;
    if (task_take_cleared(&task->core) || task->worked)
        task->wait_ms = world->now_ms;
    checks_turn(world, task);
    task->worked = false;
}

static void run_stage(struct world *world, struct sim_task *task)
{
    switch (task->stage) {
    case SIM_STAGE_INBOX:
        task->poked = false;
        serve_inbox(world, task);
        task->stage = SIM_STAGE_STORE;
        break;
    case SIM_STAGE_STORE:
        serve_store(world, task);
        agent_seed_serve(world, task);
        task->read_left = (uint32_t)world_between(world, 1, 12);
        task->stage = SIM_STAGE_READ;
        break;
    case SIM_STAGE_READ:
        if (task->read_left > 0 && task_may_read(&task->core))
            agent_read(world, task);
        else
            task->stage = SIM_STAGE_CLIENTS;
        if (task->event_count > 0)
            task->stage = SIM_STAGE_CLIENTS; /* a round ends with what stops it */
        break;
    case SIM_STAGE_CLIENTS:
        task->stage = SIM_STAGE_TICK;
        agent_poll_producer(world, task);
        if (task->order_held)
            task->ranges_due_ms = world->now_ms;
        if (task->consumer_open && task->core.assigned && world->now_ms >= task->ranges_due_ms) {
            task->ranges_due_ms = world->now_ms + RANGES_INTERVAL_MS;
            agent_observe_ranges(world, task);
        }
        break;
    case SIM_STAGE_TICK:
        task->stage = SIM_STAGE_REPORT;
        tick(world, task);
        break;
    case SIM_STAGE_REPORT:
        report(world, task);
        wait(world, task);
        task->stage = SIM_STAGE_WAIT;
        break;
    case SIM_STAGE_WAIT:
        task->stage = SIM_STAGE_INBOX;
        break;
    }
}

bool agent_may_step(const struct world *world, const struct sim_task *task)
{
    if (task->call.active)
        return world->now_ms >= task->call.due_ms;
    if (task->waits_for_flush && task->store->flush == STORE_MODEL_RUNNING)
        return false;
    if (task->stage == SIM_STAGE_WAIT && task->event_count == 0 &&
        task->action_next == task->actions.count)
        return !agent_task_done(task) && (task->poked || world->now_ms >= task->wait_ms);
    return true;
}

int64_t agent_due_ms(const struct sim_task *task)
{
    int64_t due_ms = task->call.active ? task->call.due_ms : task->wait_ms;

    if (agent_task_done(task) ||
        (task->waits_for_flush && task->store->flush == STORE_MODEL_RUNNING))
        due_ms = INT64_MAX;
    if (task->store_open && task->store->flush == STORE_MODEL_RUNNING &&
        task->store->flush_due_ms < due_ms)
        due_ms = task->store->flush_due_ms;
    return due_ms;
}

bool agent_step(struct world *world, struct sim_task *task)
{
    if (!agent_may_step(world, task))
        return false;
    world->agents[task->agent].actions_done++;
    if (task->call.active)
        agent_serve_call(world, task);
    else if (task->action_next < task->actions.count)
        agent_act(world, task, task->actions.items[task->action_next++]);
    else if (task->event_count > 0)
        give_next(world, task);
    else
        run_stage(world, task);
    return true;
}
