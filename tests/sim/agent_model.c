/* Agents: their life, their table of tasks, and the turns of a task's thread. */
#include "tests/sim/agent_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/world.h"

#define WAIT_MS_MAX        100
#define RANGES_INTERVAL_MS 2000
#define REPORT_INTERVAL_MS 500
#define FLUSH_RETRY_MS     1000
#define RESTART_PAUSE_MS   500

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
                                      bool release)
{
    bool learner = role != TASK_ROLE_ACTIVE;

    return (struct task_desired){.epoch = learner ? 0 : epoch,
                                 .handoff = handoff,
                                 .learner = learner,
                                 .release = !learner && release};
}

static struct sim_task *task_start(struct world *world, size_t agent,
                                   const struct document_task *told, bool skip_poison)
{
    uint32_t processor = told->processor;
    struct task_desired desired = desired_of(told->role, told->epoch, told->handoff, told->release);
    struct sim_task *task = mem_calloc(1, sizeof(*task));
    struct task_config config = {
        .incarnation = WORLD_INCARNATION,
        .processor = processor,
        .exactly_once = world->config.exactly_once,
        .stateful = world->config.stateful,
        .commit_interval_ms = 50,
        .checkpoint_interval_ms = 400,
        .acceptable_lag = world->config.acceptable_lag,
    };
    struct task_partition *partitions = mem_calloc(KAFKA_PARTITIONS_MAX, sizeof(*partitions));
    size_t count = 0;

    for (uint32_t i = 0; i < world->kafka.partition_count; i++) {
        if (kafka_processor_of(&world->kafka, i) == processor)
            partitions[count++] = (struct task_partition){
                .partition = i, .owned = true, .t0 = world->coordinator.origins[i]};
    }
    task->agent = agent;
    task->processor = processor;
    task->skip_poison = skip_poison;
    task->role = told->role;
    task_init(&task->core, &config, &desired, partitions, count, world->now_ms);
    world->tally->of[TALLY_LEARNER] += desired.learner;
    (void)agent_event(task, TASK_EVENT_START, NULL, NULL);
    world_trace(world, "agent %zu: task %u starts %s under epoch %llu", agent, processor,
                desired.learner ? "as a learner" : "active", (unsigned long long)desired.epoch);
    return task;
}

static void task_destroy(struct sim_task *task)
{
    if (task == NULL)
        return;
    if (task->store_open)
        store_model_crash(task->store);
    task_finish(&task->core);
    free(task->producer.queue);
    free(task);
}

static bool is_done(const struct sim_task *task)
{
    return task->core.phase.state == TASK_PHASE_CLOSED && !task->consumer_open &&
           !task->store_open && task->event_count == 0 &&
           task->action_next == task->actions.count && !task->call.active;
}

/* ---- the table of tasks (agent/task_table.c) */

static void slot_tell(struct world *world, struct sim_slot *slot,
                      const struct agent_document *document, const struct reconcile_action *action)
{
    slot->told = document->tasks.items[action->task];
    slot->skip_poison = document->jobs.items == &world->jobs[1];
}

static void act_on_slot(struct world *world, size_t agent, const struct agent_document *document,
                        const struct reconcile_action *action, struct sim_slot *slot)
{
    switch (action->kind) {
    case RECONCILE_STOP:
        slot->task->inbox.stop = true;
        slot->task->poked = true;
        slot->state = RECONCILE_STOPPING;
        world->tally->of[TALLY_STOP]++;
        break;
    case RECONCILE_REMOVE:
        slot->used = false;
        break;
    case RECONCILE_DESIRE:
        slot_tell(world, slot, document, action);
        slot->task->inbox.desired = true;
        slot->task->inbox.role = slot->told.role;
        slot->task->inbox.epoch = slot->told.epoch;
        slot->task->inbox.handoff = slot->told.handoff;
        slot->task->inbox.release = slot->told.release;
        slot->task->inbox.skip_poison = slot->skip_poison;
        slot->task->poked = true;
        break;
    case RECONCILE_START:
        slot_tell(world, slot, document, action);
        slot->used = true;
        slot->spent = false;
        slot->state = RECONCILE_RUNNING;
        slot->reported = false;
        slot->task = task_start(world, agent, &slot->told, slot->skip_poison);
        slot->task->store =
            world->config.stateful ? &world->agents[agent].disks[slot->told.processor] : NULL;
        break;
    }
}

/* The slots in use, and which they are. */
static size_t view_slots(struct world *world, size_t agent, struct reconcile_slot *ret_views,
                         struct sim_slot **ret_slots)
{
    size_t count = 0;

    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        struct sim_slot *slot = &world->agents[agent].slots[i];

        if (!slot->used)
            continue;
        ret_slots[count] = slot;
        ret_views[count++] = (struct reconcile_slot){
            .job = &world->jobs[slot->skip_poison ? 1 : 0],
            .task = &slot->told,
            .state = slot->state,
            .retry_ms = slot->retry_ms,
            .spent = slot->spent,
        };
    }
    return count;
}

static void reconcile(struct world *world, size_t agent)
{
    struct sim_agent *self = &world->agents[agent];
    struct document_task tasks[KAFKA_PROCESSORS_MAX];
    struct agent_document document = {
        .jobs = {.items = &world->jobs[self->wanted.skip_poison ? 1 : 0], .count = 1},
        .tasks = {.items = tasks},
    };
    struct reconcile_slot views[KAFKA_PROCESSORS_MAX];
    struct sim_slot *slots[KAFKA_PROCESSORS_MAX];
    struct reconcile_actions actions;
    size_t count = view_slots(world, agent, views, slots);

    for (uint32_t i = 0; i < world->kafka.processor_count; i++) {
        if (self->wanted.of[i].wanted)
            tasks[document.tasks.count++] = (struct document_task){
                .job = world->jobs[0].name,
                .processor = i,
                .role = self->wanted.of[i].role,
                .epoch = self->wanted.of[i].epoch,
                .handoff = self->wanted.of[i].handoff,
                .release = self->wanted.of[i].release,
                .owned = world->owned[i],
                .read = world->owned[i],
            };
    }
    reconcile_compute(&document, views, count, world->now_ms, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        const struct reconcile_action *action = &actions.items[i];

        act_on_slot(world, agent, &document, action,
                    action->slot != RECONCILE_NONE
                        ? slots[action->slot]
                        : &self->slots[document.tasks.items[action->task].processor]);
    }
    reconcile_actions_finish(&actions);
}

/* What agent/task_report.c says of a task. */
static struct sim_report report_of(const struct world *world, const struct sim_task *task)
{
    const struct task *core = &task->core;
    struct sim_report report = {
        .agent = task->agent,
        .start = world->agents[task->agent].starts,
        .processor = task->processor,
        .learner = core->desired.learner,
        .state = task_state(core),
        .epoch = task_epoch(core),
        .handoff = core->desired.handoff,
        .released = core->released,
    };

    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        report.t1[i] = report.t2[i] = API_UNKNOWN;
    for (size_t i = 0; i < core->partition_count; i++) {
        report.t1[agent_partition(task, i)] = core->partitions[i].t1;
        report.t2[agent_partition(task, i)] = core->partitions[i].position;
    }
    memcpy(report.code, core->code, sizeof(report.code));
    return report;
}

static void post(struct world *world, const struct sim_report *report)
{
    struct sim_report copy = *report;

    mutation_bend_report(world, &copy);
    if (copy.released)
        checks_released(world, &copy);
    coordinator_post(world, &copy);
}

static void slot_join(struct world *world, size_t agent, struct sim_slot *slot)
{
    struct sim_task *task = slot->task;
    enum task_state state = task_state(&task->core);

    world_trace(world, "agent %zu: task %u has ended", agent, task->processor);
    slot->spent = (state == TASK_STATE_FENCED || task->core.released) &&
                  task_epoch(&task->core) >= slot->told.epoch;
    slot->retry_ms =
        world->now_ms +
        (slot->state == RECONCILE_STOPPING || state == TASK_STATE_CLOSED ? 0 : RESTART_PAUSE_MS);
    slot->state = RECONCILE_DOWN;
    slot->report = report_of(world, task);
    slot->reported = true;
    slot->report_due_ms = world->now_ms + REPORT_INTERVAL_MS;
    post(world, &slot->report);
    task_destroy(task);
    slot->task = NULL;
}

void agent_tend(struct world *world, size_t agent)
{
    struct sim_agent *self = &world->agents[agent];
    bool dirty = false;

    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        struct sim_slot *slot = &self->slots[i];

        if (slot->used && slot->task != NULL && is_done(slot->task)) {
            slot_join(world, agent, slot);
            dirty = true;
        }
        if (slot->used && slot->reported && world->now_ms >= slot->report_due_ms) {
            slot->report_due_ms = world->now_ms + REPORT_INTERVAL_MS;
            post(world, &slot->report);
        }
        dirty = dirty ||
                (slot->used && slot->state == RECONCILE_DOWN && world->now_ms >= slot->retry_ms);
    }
    if (dirty && self->has_document)
        reconcile(world, agent);
}

void agent_take_document(struct world *world, size_t agent, const struct sim_wanted *wanted)
{
    struct sim_agent *self = &world->agents[agent];

    if (self->has_document && wanted->version <= self->wanted.version)
        return;
    self->wanted = *wanted;
    self->has_document = true;
    reconcile(world, agent);
}

void agent_take_follow(struct world *world, size_t agent, uint32_t processor, const int64_t *t1)
{
    struct sim_slot *slot = &world->agents[agent].slots[processor];

    if (!slot->used || slot->state != RECONCILE_RUNNING)
        return;
    slot->task->inbox.follow = true;
    memcpy(slot->task->inbox.followed, t1, sizeof(slot->task->inbox.followed));
    slot->task->poked = true;
}

/* ---- the agent's life */

void agent_start(struct world *world, size_t agent)
{
    world->agents[agent].starts++;
    world->agents[agent].alive = true;
    world_trace(world, "agent %zu starts", agent);
    coordinator_register(world, agent);
}

void agent_crash(struct world *world, size_t agent)
{
    struct sim_agent *self = &world->agents[agent];

    world_trace(world, "agent %zu crashes", agent);
    self->alive = self->paused = self->has_document = false;
    self->wanted = (struct sim_wanted){0};
    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        task_destroy(self->slots[i].task);
        self->slots[i] = (struct sim_slot){0};
    }
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
        struct sim_report early = report_of(world, task);

        post(world, &early);
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

static void take_desired(struct sim_task *task)
{
    struct task_event *event;

    if (task->role == TASK_ROLE_ACTIVE && task->inbox.role != TASK_ROLE_ACTIVE) {
        (void)agent_event(task, TASK_EVENT_STOP, NULL, NULL);
        return;
    }
    event = agent_event(task, TASK_EVENT_DESIRED, NULL, NULL);
    event->desired =
        desired_of(task->inbox.role, task->inbox.epoch, task->inbox.handoff, task->inbox.release);
    event->restart = task->inbox.skip_poison != task->skip_poison;
    task->skip_poison = task->inbox.skip_poison;
    task->role = task->inbox.role;
}

static void take_followed(struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++)
        task->followed[i] = task->inbox.followed[agent_partition(task, i)];
    agent_event(task, TASK_EVENT_FOLLOW, NULL, NULL)->offsets = task->followed;
}

static void serve_inbox(struct sim_task *task)
{
    if (task->inbox.desired)
        take_desired(task);
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
    struct sim_report fresh;

    if (world->now_ms < task->report_due_ms)
        return;
    task->report_due_ms = world->now_ms + REPORT_INTERVAL_MS;
    fresh = report_of(world, task);
    post(world, &fresh);
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
    if (task->worked)
        task->wait_ms = world->now_ms;
    checks_turn(world, task);
    task->worked = false;
}

static void run_stage(struct world *world, struct sim_task *task)
{
    switch (task->stage) {
    case SIM_STAGE_INBOX:
        task->poked = false;
        serve_inbox(task);
        task->stage = SIM_STAGE_STORE;
        break;
    case SIM_STAGE_STORE:
        serve_store(world, task);
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
        return !is_done(task) && (task->poked || world->now_ms >= task->wait_ms);
    return true;
}

int64_t agent_due_ms(const struct sim_task *task)
{
    int64_t due_ms = task->call.active ? task->call.due_ms : task->wait_ms;

    if (is_done(task) || (task->waits_for_flush && task->store->flush == STORE_MODEL_RUNNING))
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
