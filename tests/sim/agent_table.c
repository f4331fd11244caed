/* An agent's table of tasks (agent/task_table.c), what it reports of them, and its life. */
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/sim/agent_model.h"
#include "tests/sim/world.h"

#define RESTART_PAUSE_MS 500

/* ---- reports */

static void fill_progress(const struct world *world, const struct sim_report *report,
                          struct task_report *ret_report)
{
    size_t count = 0;

    ret_report->progress.items =
        mem_calloc(world->kafka.partition_count, sizeof(*ret_report->progress.items));
    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        if (report->t0[i] == API_UNKNOWN)
            continue;
        ret_report->progress.items[count++] = (struct partition_progress){.partition = (uint32_t)i,
                                                                          .t0 = report->t0[i],
                                                                          .t1 = report->t1[i],
                                                                          .t2 = report->t2[i],
                                                                          .log_start = API_UNKNOWN,
                                                                          .stable_end = API_UNKNOWN,
                                                                          .end = API_UNKNOWN};
    }
    ret_report->progress.count = count;
}

static void fill_consuming(const struct sim_report *report, struct task_report *ret_report)
{
    if (!report->consuming)
        return;
    ret_report->consuming.items = mem_calloc(KAFKA_PARTITIONS_MAX, sizeof(uint32_t));
    for (uint32_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        if ((report->owned >> i & 1) != 0)
            ret_report->consuming.items[ret_report->consuming.count++] = i;
}

static void fill_windows(const struct sim_report *report, struct task_report *ret_report)
{
    ret_report->windows.items =
        mem_calloc(KAFKA_PARTITIONS_MAX, sizeof(*ret_report->windows.items));
    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        if (report->windows[i].number > 0)
            ret_report->windows.items[ret_report->windows.count++] = report->windows[i];
}

static void fill_split_bounds(const struct sim_report *report, struct task_report *ret_report)
{
    ret_report->split_bounds.items =
        mem_calloc(KAFKA_PARTITIONS_MAX, sizeof(*ret_report->split_bounds.items));
    for (uint32_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        if (report->t0[i] != API_UNKNOWN && report->split_bound[i] != API_UNKNOWN)
            ret_report->split_bounds.items[ret_report->split_bounds.count++] =
                (struct ancestor_bound){.partition = i,
                                        .offset = report->split_bound[i],
                                        .records = report->split_bound_records[i]};
}

static void fill_halted(const struct sim_report *report, struct task_report *ret_report)
{
    if (report->halted_offset == API_UNKNOWN)
        return;
    ret_report->halted.items = mem_calloc(1, sizeof(*ret_report->halted.items));
    ret_report->halted.items[0] = (struct input_offset){
        .partition = (uint32_t)report->halted_partition, .offset = report->halted_offset};
    ret_report->halted.count = 1;
}

static void fill_report(const struct world *world, const struct document_job *job,
                        const struct sim_report *report, struct task_report *ret_report)
{
    *ret_report = (struct task_report){
        .job = mem_strdup(WORLD_JOB),
        .job_incarnation = mem_strdup(job != NULL ? job->incarnation : world->incarnation),
        .processor = report->processor,
        .role = report->role,
        .state = report->state,
        .epoch = report->epoch,
        .handoff = report->handoff,
        .released = report->released,
        .split = report->split,
        .caught_up_lag = report->caught_up_lag};
    fill_progress(world, report, ret_report);
    fill_consuming(report, ret_report);
    fill_windows(report, ret_report);
    fill_split_bounds(report, ret_report);
    fill_halted(report, ret_report);
    if (report->code[0] == '\0')
        return;
    ret_report->problems.items = mem_calloc(1, sizeof(*ret_report->problems.items));
    ret_report->problems.items[0] = (struct task_problem){.code = mem_strdup(report->code),
                                                          .detail = mem_strdup("of the core")};
    ret_report->problems.count = 1;
}

void agent_collect(struct world *world, size_t agent, struct agent_report *report)
{
    struct sim_agent *self = &world->agents[agent];
    size_t count = 0;

    report->tasks.items =
        mem_calloc(KAFKA_PROCESSORS_MAX + SIM_CLOSED_MAX, sizeof(*report->tasks.items));
    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        const struct sim_slot *slot = &self->slots[i];

        if (slot->used)
            fill_report(world, &slot->job, slot->task != NULL ? &slot->task->report : &slot->report,
                        &report->tasks.items[count++]);
    }
    for (size_t i = 0; i < self->closed_count; i++) {
        /* A task that was started again says more than what was said of it before. */
        if (!self->slots[self->closed[i].processor].used)
            fill_report(world, NULL, &self->closed[i], &report->tasks.items[count++]);
    }
    report->tasks.count = count;
    self->closed_sending = self->closed_count;
}

void agent_delivered(struct world *world, size_t agent)
{
    struct sim_agent *self = &world->agents[agent];

    self->closed_count -= self->closed_sending;
    memmove(&self->closed[0], &self->closed[self->closed_sending],
            self->closed_count * sizeof(self->closed[0]));
    self->closed_sending = 0;
}

/* ---- the table of tasks (agent/task_table.c) */

static void slot_free(struct sim_slot *slot)
{
    schema_free(&schema_document_job, &slot->job);
    schema_free(&schema_document_task, &slot->told);
    *slot = (struct sim_slot){0};
}

static void slot_tell(struct sim_slot *slot, const struct agent_document *document,
                      const struct reconcile_action *action)
{
    schema_free(&schema_document_job, &slot->job);
    schema_free(&schema_document_task, &slot->told);
    schema_copy(&schema_document_job, &slot->job, &document->jobs.items[action->job]);
    schema_copy(&schema_document_task, &slot->told, &document->tasks.items[action->task]);
}

static void slot_start(struct world *world, size_t agent, struct sim_slot *slot)
{
    slot->used = true;
    slot->spent = false;
    slot->state = RECONCILE_RUNNING;
    slot->task = agent_task_start(world, agent, slot);
    slot->task->store =
        world->config.stateful ? &world->agents[agent].disks[slot->told.processor] : NULL;
}

static void slot_desire(const struct world *world, struct sim_slot *slot)
{
    slot->task->inbox.desired = true;
    slot->task->inbox.role = slot->told.role;
    slot->task->inbox.epoch = slot->told.epoch;
    slot->task->inbox.handoff = slot->told.handoff;
    slot->task->inbox.release = slot->told.release;
    agent_take_split(&slot->told, slot->task);
    slot->task->inbox.paused = slot->job.paused;
    slot->task->inbox.seed = agent_seed_of(&slot->job, &slot->told);
    slot->task->inbox.frozen = slot->job.frozen;
    slot->task->inbox.waiting = slot->job.waiting;
    slot->task->inbox.rested = slot->told.paused_t1.count > 0;
    agent_take_rested(&slot->told, slot->task->inbox.t1);
    agent_take_partitions(&slot->job, &slot->told, slot->task);
    agent_take_skips(world, &slot->told, slot->task);
    slot->task->inbox.skip_poison = slot->job.spec.on_error == ON_ERROR_SKIP;
    slot->task->poked = true;
}

/* Its last report is told once more. */
static void slot_remove(struct sim_agent *self, struct sim_slot *slot)
{
    if ((slot->report.state == TASK_STATE_CLOSED || slot->report.state == TASK_STATE_FENCED) &&
        self->closed_count < SIM_CLOSED_MAX)
        self->closed[self->closed_count++] = slot->report;
    slot_free(slot);
}

static void act_on_slot(struct world *world, size_t agent, const struct reconcile_action *action,
                        struct sim_slot *slot)
{
    struct sim_agent *self = &world->agents[agent];

    switch (action->kind) {
    case RECONCILE_STOP:
        slot->task->inbox.stop = true;
        slot->task->poked = true;
        slot->state = RECONCILE_STOPPING;
        world->tally->of[TALLY_STOP]++;
        break;
    case RECONCILE_REMOVE:
        slot_remove(self, slot);
        break;
    case RECONCILE_DESIRE:
        slot_tell(slot, &self->document, action);
        slot_desire(world, slot);
        break;
    case RECONCILE_START:
        slot_tell(slot, &self->document, action);
        slot_start(world, agent, slot);
        break;
    }
}

/* The slots in use, and which they are. */
static size_t view_slots(struct sim_agent *self, struct reconcile_slot *ret_views,
                         struct sim_slot **ret_slots)
{
    size_t count = 0;

    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        struct sim_slot *slot = &self->slots[i];

        if (!slot->used)
            continue;
        ret_slots[count] = slot;
        ret_views[count++] = (struct reconcile_slot){
            .job = &slot->job,
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
    struct reconcile_slot views[KAFKA_PROCESSORS_MAX];
    struct sim_slot *slots[KAFKA_PROCESSORS_MAX];
    struct reconcile_actions actions;
    size_t count = view_slots(self, views, slots);

    reconcile_compute(self->link.leaving == LINK_STAYS ? &self->document : NULL, views, count,
                      world->now_ms, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        const struct reconcile_action *action = &actions.items[i];

        act_on_slot(world, agent, action,
                    action->slot != RECONCILE_NONE
                        ? slots[action->slot]
                        : &self->slots[self->document.tasks.items[action->task].processor]);
    }
    reconcile_actions_finish(&actions);
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
    agent_publish(world, task);
    slot->report = task->report;
    agent_task_destroy(task);
    slot->task = NULL;
    link_report_now(world, agent);
}

void agent_tend(struct world *world, size_t agent)
{
    struct sim_agent *self = &world->agents[agent];
    bool dirty = false;

    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        struct sim_slot *slot = &self->slots[i];

        if (slot->used && slot->task != NULL && agent_task_done(slot->task)) {
            slot_join(world, agent, slot);
            dirty = true;
        }
        dirty = dirty ||
                (slot->used && slot->state == RECONCILE_DOWN && world->now_ms >= slot->retry_ms);
    }
    if (dirty)
        reconcile(world, agent);
    link_tend(world, agent);
}

void agent_take_document(struct world *world, size_t agent, struct agent_document *document)
{
    struct sim_agent *self = &world->agents[agent];

    checks_accepted(world, agent, document);
    schema_free(&schema_agent_document, &self->document);
    self->document = *document;
    *document = (struct agent_document){0};
    reconcile(world, agent);
}

void agent_stop_tasks(struct world *world, size_t agent)
{
    reconcile(world, agent);
}

bool agent_is_idle(const struct world *world, size_t agent)
{
    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        if (world->agents[agent].slots[i].task != NULL)
            return false;
    }
    return true;
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
    link_start(world, agent);
}

void agent_crash(struct world *world, size_t agent)
{
    struct sim_agent *self = &world->agents[agent];

    if (self->alive)
        world_trace(world, "agent %zu ends", agent);
    self->alive = self->paused = false;
    self->closed_count = self->closed_sending = 0;
    schema_free(&schema_agent_document, &self->document);
    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        agent_task_destroy(self->slots[i].task);
        self->slots[i].task = NULL;
        slot_free(&self->slots[i]);
    }
}
