#include "agent/task_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/backoff.h"
#include "agent/core/reconcile.h"
#include "api/schema.h"
#include "api/text.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"
#include "common/rng.h"

#define RETRY_MIN_MS 500
#define RETRY_MAX_MS 30000

struct slot {
    struct document_job job; /* as it was told last */
    struct document_task task;
    enum reconcile_state state;
    struct task_thread *thread; /* NULL: DOWN */
    int64_t retry_ms;
    struct backoff backoff;
    bool spent;                /* as in reconcile_slot */
    bool removed;              /* freed at the end of the step */
    struct task_report report; /* DOWN: what is reported of it */
};

struct task_table {
    const struct task_ops *ops;
    const struct task_thread_context *context;
    struct rng rng; /* jitter of retries */
    struct agent_document document;
    bool stopping;
    bool dirty;                       /* what is wanted or what there is has changed */
    int64_t wake_ms;                  /* of the next retry */
    struct document_version reported; /* in the report that is under way or was sent last */
    struct {
        struct slot *items;
        size_t count, capacity;
    } slots;
    struct { /* last reports of tasks that are gone */
        struct task_report *items;
        size_t count, capacity;
        size_t sending; /* the first ones, which are in the report under way */
    } closed;
};

/* `detail` may be NULL. */
static void log_task(enum log_level level, const char *event, const struct slot *slot,
                     const char *detail)
{
    const char *role = schema_enum_name(schema_names_task_role, (int)slot->task.role);
    if (detail == NULL)
        log_write(level, event, LOG_STR("job", slot->job.name),
                  LOG_INT("processor", slot->task.processor), LOG_INT("epoch", slot->task.epoch),
                  LOG_STR("role", role), LOG_END);
    else
        log_write(level, event, LOG_STR("job", slot->job.name),
                  LOG_INT("processor", slot->task.processor), LOG_INT("epoch", slot->task.epoch),
                  LOG_STR("role", role), LOG_STR("detail", detail), LOG_END);
}

/* ---- slots */

static void slot_tell(struct slot *slot, const struct document_job *job,
                      const struct document_task *task)
{
    schema_free(&schema_document_job, &slot->job);
    schema_free(&schema_document_task, &slot->task);
    schema_copy(&schema_document_job, &slot->job, job);
    schema_copy(&schema_document_task, &slot->task, task);
}

static void slot_finish(struct slot *slot)
{
    assert(slot->thread == NULL);
    schema_free(&schema_document_job, &slot->job);
    schema_free(&schema_document_task, &slot->task);
    schema_free(&schema_task_report, &slot->report);
}

static struct slot *slot_add(struct task_table *table)
{
    table->slots.items = mem_grow(table->slots.items, table->slots.count, &table->slots.capacity,
                                  sizeof(*table->slots.items));
    struct slot *slot = &table->slots.items[table->slots.count++];
    *slot = (struct slot){.state = RECONCILE_DOWN};
    backoff_init(&slot->backoff, RETRY_MIN_MS, RETRY_MAX_MS);
    return slot;
}

/* What is reported of a task that could not even be started. */
static void slot_report_failure(struct slot *slot, const char *detail)
{
    struct task_problem *problem = mem_calloc(1, sizeof(*problem));
    *problem = (struct task_problem){.code = mem_strdup("task_not_started"),
                                     .detail = mem_strdup(detail),
                                     .since_at = clock_wall_ms()};
    schema_free(&schema_task_report, &slot->report);
    schema_default(&schema_task_report, &slot->report);
    slot->report.job = mem_strdup(slot->job.name);
    slot->report.job_incarnation = mem_strdup(slot->job.incarnation);
    slot->report.processor = slot->task.processor;
    slot->report.role = slot->task.role;
    slot->report.state = TASK_STATE_FAILED;
    slot->report.epoch = slot->task.epoch;
    slot->report.handoff = slot->task.handoff;
    slot->report.problems.items = problem;
    slot->report.problems.count = 1;
}

static void slot_start(struct task_table *table, struct slot *slot, int64_t now_ms)
{
    struct err err;
    enum err_code code =
        table->ops->start(table->context, &slot->job, &slot->task, &slot->thread, &err);

    slot->spent = false;
    if (code == ERR_NONE) {
        schema_free(&schema_task_report, &slot->report);
        slot->state = RECONCILE_RUNNING;
        log_task(LOG_LEVEL_INFO, "task_started", slot, NULL);
        return;
    }
    slot->thread = NULL;
    slot->state = RECONCILE_DOWN;
    slot->retry_ms = now_ms + backoff_next_ms(&slot->backoff, rng_next(&table->rng));
    slot_report_failure(slot, err.text);
    log_task(LOG_LEVEL_ERROR, "task_not_started", slot, err.text);
}

/* What is said of a thread's end, and whether it was in order. */
static const char *name_end(const struct slot *slot, bool *ret_orderly)
{
    *ret_orderly = true;
    if (slot->state == RECONCILE_STOPPING)
        return "task_closed";
    if (slot->report.released)
        return "task_released";
    if (slot->report.state == TASK_STATE_CLOSED)
        return "task_restarting";
    *ret_orderly = false;
    return "task_ended";
}

/* The thread has ended: because it was told to, because it has given up what it owned, because what
 * it was told can not change in a running task, or by mistake. */
static void slot_join(struct task_table *table, struct slot *slot, int64_t now_ms)
{
    const char *event;
    bool orderly;

    schema_free(&schema_task_report, &slot->report);
    table->ops->report(slot->thread, &slot->report);
    table->ops->join(slot->thread);
    slot->thread = NULL;
    event = name_end(slot, &orderly);
    slot->state = RECONCILE_DOWN;
    slot->spent = (slot->report.state == TASK_STATE_FENCED || slot->report.released) &&
                  slot->report.epoch >= slot->task.epoch; /* not one that it never worked under */
    if (orderly)
        backoff_reset(&slot->backoff);
    slot->retry_ms =
        orderly ? now_ms : now_ms + backoff_next_ms(&slot->backoff, rng_next(&table->rng));
    log_task(orderly ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, event, slot,
             schema_enum_name(schema_names_task_state, (int)slot->report.state));
}

/* Its last report is told once more. Of a task that never ran there is nothing to tell. */
static void slot_remove(struct task_table *table, struct slot *slot)
{
    if (slot->report.state == TASK_STATE_CLOSED || slot->report.state == TASK_STATE_FENCED) {
        table->closed.items = mem_grow(table->closed.items, table->closed.count,
                                       &table->closed.capacity, sizeof(*table->closed.items));
        table->closed.items[table->closed.count++] = slot->report;
        slot->report = (struct task_report){0};
    }
    slot->removed = true;
}

/* ---- the table */

struct task_table *task_table_create(const struct task_ops *ops,
                                     const struct task_thread_context *context)
{
    struct task_table *table = mem_calloc(1, sizeof(*table));
    uint64_t seed;
    table->ops = ops;
    table->context = context;
    table->wake_ms = INT64_MAX;
    rng_bytes(&seed, sizeof(seed));
    rng_init(&table->rng, seed);
    return table;
}

void task_table_destroy(struct task_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->slots.count; i++)
        slot_finish(&table->slots.items[i]);
    for (size_t i = 0; i < table->closed.count; i++)
        schema_free(&schema_task_report, &table->closed.items[i]);
    schema_free(&schema_agent_document, &table->document);
    free(table->slots.items);
    free(table->closed.items);
    free(table);
}

/* Views of the slots for the core; free(). */
static struct reconcile_slot *view(const struct task_table *table)
{
    struct reconcile_slot *slots = mem_calloc(table->slots.count + 1, sizeof(*slots));
    for (size_t i = 0; i < table->slots.count; i++) {
        const struct slot *slot = &table->slots.items[i];
        slots[i] = (struct reconcile_slot){.job = &slot->job,
                                           .task = &slot->task,
                                           .state = slot->state,
                                           .retry_ms = slot->retry_ms,
                                           .spent = slot->spent};
    }
    return slots;
}

static void act(struct task_table *table, const struct reconcile_action *action, int64_t now_ms)
{
    const struct document_job *job =
        action->job == RECONCILE_NONE ? NULL : &table->document.jobs.items[action->job];
    const struct document_task *task =
        action->task == RECONCILE_NONE ? NULL : &table->document.tasks.items[action->task];
    struct slot *slot =
        action->slot == RECONCILE_NONE ? slot_add(table) : &table->slots.items[action->slot];

    switch (action->kind) {
    case RECONCILE_STOP:
        table->ops->stop(slot->thread);
        slot->state = RECONCILE_STOPPING;
        log_task(LOG_LEVEL_INFO, "task_stopping", slot, NULL);
        break;
    case RECONCILE_REMOVE:
        slot_remove(table, slot);
        break;
    case RECONCILE_DESIRE:
        slot_tell(slot, job, task);
        table->ops->desire(slot->thread, &slot->job, &slot->task);
        log_task(LOG_LEVEL_INFO, "task_desired", slot, NULL);
        break;
    case RECONCILE_START:
        slot_tell(slot, job, task);
        slot_start(table, slot, now_ms);
        break;
    }
}

static void sweep_slots(struct task_table *table)
{
    size_t kept = 0;
    for (size_t i = 0; i < table->slots.count; i++) {
        if (table->slots.items[i].removed)
            slot_finish(&table->slots.items[i]);
        else
            table->slots.items[kept++] = table->slots.items[i];
    }
    table->slots.count = kept;
}

static void reconcile(struct task_table *table, int64_t now_ms)
{
    struct reconcile_slot *slots = view(table);
    struct reconcile_actions actions;

    reconcile_compute(table->stopping ? NULL : &table->document, slots, table->slots.count, now_ms,
                      &actions);
    free(slots); /* the first action may move what it points to */
    for (size_t i = 0; i < actions.count; i++)
        act(table, &actions.items[i], now_ms);
    reconcile_actions_finish(&actions);
    sweep_slots(table);

    slots = view(table);
    table->wake_ms = reconcile_wake_ms(slots, table->slots.count, now_ms);
    free(slots);
    table->dirty = false;
}

void task_table_step(struct task_table *table, int64_t now_ms)
{
    for (size_t i = 0; i < table->slots.count; i++) {
        struct slot *slot = &table->slots.items[i];
        if (slot->thread != NULL && table->ops->ended(slot->thread)) {
            slot_join(table, slot, now_ms);
            table->dirty = true;
        }
    }
    /* Only then: comparing what is wanted takes a while when topics have many partitions. */
    if (table->dirty || now_ms >= table->wake_ms)
        reconcile(table, now_ms);
}

int64_t task_table_wake_ms(const struct task_table *table)
{
    return table->wake_ms;
}

void task_table_want(struct task_table *table, struct agent_document *document, int64_t now_ms)
{
    char version[TEXT_BYTES];

    schema_free(&schema_agent_document, &table->document);
    table->document = *document;
    *document = (struct agent_document){0};
    table->dirty = true;
    text_version(table->document.version, version);
    log_info("document_applied", LOG_STR("version", version),
             LOG_INT("tasks", table->document.tasks.count), LOG_END);
    task_table_step(table, now_ms);
}

void task_table_stop(struct task_table *table, int64_t now_ms)
{
    table->stopping = true;
    table->dirty = true;
    task_table_step(table, now_ms);
}

void task_table_list(const struct task_table *table,
                     void (*visit)(void *arg, const char *job, uint32_t processor), void *arg)
{
    for (size_t i = 0; i < table->document.tasks.count; i++)
        visit(arg, table->document.tasks.items[i].job, table->document.tasks.items[i].processor);
    for (size_t i = 0; i < table->slots.count; i++)
        visit(arg, table->slots.items[i].job.name, table->slots.items[i].task.processor);
}

struct task_table_counts task_table_count(const struct task_table *table)
{
    struct task_table_counts counts = {.wanted = table->stopping ? 0 : table->document.tasks.count};
    for (size_t i = 0; i < table->slots.count; i++) {
        enum reconcile_state state = table->slots.items[i].state;
        counts.running += state != RECONCILE_DOWN;
        counts.stopping += state == RECONCILE_STOPPING;
        counts.down += state == RECONCILE_DOWN;
    }
    return counts;
}

/* ---- reports */

static bool is_present(const struct task_table *table, const struct task_report *closed)
{
    for (size_t i = 0; i < table->slots.count; i++) {
        const struct slot *slot = &table->slots.items[i];
        if (slot->task.processor == closed->processor && strcmp(slot->job.name, closed->job) == 0 &&
            strcmp(slot->job.incarnation, closed->job_incarnation) == 0)
            return true;
    }
    return false;
}

void task_table_collect(const struct task_table *table, struct agent_report *report)
{
    size_t count = 0;
    report->version = table->document.version;
    report->tasks.items =
        mem_calloc(table->slots.count + table->closed.count + 1, sizeof(*report->tasks.items));
    for (size_t i = 0; i < table->slots.count; i++) {
        const struct slot *slot = &table->slots.items[i];
        if (slot->thread != NULL)
            table->ops->report(slot->thread, &report->tasks.items[count++]);
        else
            schema_copy(&schema_task_report, &report->tasks.items[count++], &slot->report);
    }
    for (size_t i = 0; i < table->closed.count; i++) {
        /* A task that was started again says more than what was said of it before. */
        if (!is_present(table, &table->closed.items[i]))
            schema_copy(&schema_task_report, &report->tasks.items[count++],
                        &table->closed.items[i]);
    }
    report->tasks.count = count;
}

void task_table_sending(struct task_table *table)
{
    table->reported = table->document.version;
    table->closed.sending = table->closed.count;
}

void task_table_delivered(struct task_table *table)
{
    size_t sent = table->closed.sending;
    if (sent == 0)
        return;
    for (size_t i = 0; i < sent; i++)
        schema_free(&schema_task_report, &table->closed.items[i]);
    table->closed.count -= sent;
    memmove(table->closed.items, table->closed.items + sent,
            table->closed.count * sizeof(*table->closed.items));
    table->closed.sending = 0;
}

/* Begins at `*from`, which goes on behind what was found: answers are in the order of the report,
 * which was in that of the slots. */
static struct slot *find_running(struct task_table *table, const char *job, uint32_t processor,
                                 size_t *from)
{
    for (size_t i = 0; i < table->slots.count; i++) {
        size_t index = (*from + i) % table->slots.count;
        struct slot *slot = &table->slots.items[index];
        if (slot->state == RECONCILE_RUNNING && slot->task.processor == processor &&
            strcmp(slot->job.name, job) == 0) {
            *from = index + 1;
            return slot;
        }
    }
    return NULL;
}

void task_table_follow(struct task_table *table, const struct report_answer *answer)
{
    size_t from = 0;

    /* The answer knows jobs by name. When a document came after the report the name can be another
     * job's by now, so the next answer has to do. */
    if (reconcile_version_compare(table->reported, table->document.version) != 0)
        return;
    for (size_t i = 0; i < answer->follow.count; i++) {
        const struct follow *follow = &answer->follow.items[i];
        struct slot *slot = find_running(table, follow->job, follow->processor, &from);
        if (slot != NULL)
            table->ops->follow(slot->thread, follow->committed.items, follow->committed.count);
    }
}

void task_table_log_running(const struct task_table *table)
{
    for (size_t i = 0; i < table->slots.count; i++) {
        if (table->slots.items[i].thread != NULL)
            log_task(LOG_LEVEL_WARN, "task_not_closed", &table->slots.items[i],
                     "what it did not commit is done anew after the next start");
    }
}
