/* The task's thread and snapshots: what it gives to others, and what it gets
 * (agent/core/task_seed.c decides when). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store_seed.h"
#include "agent/store_view.h"
#include "agent/task_private.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"

static struct snapshot_key key_of(const struct task_thread *thread)
{
    return (struct snapshot_key){.job = thread->job.name,
                                 .incarnation = thread->job.incarnation,
                                 .processor = thread->desired.processor};
}

/* ---- giving */

void task_seed_permit(struct task_thread *thread)
{
    const struct snapshot_key key = key_of(thread);
    const struct document_task *desired = &thread->desired;

    if (thread->context->snapshots != NULL)
        snapshot_serve_permit(thread->context->snapshots, &key,
                              (const char *const *)desired->readers.items, desired->readers.count);
    if (thread->context->snapshots != NULL) {
        const struct store_part part = {
            .owners = task_garbage_owners_with(thread, desired->part_processor + 1),
            .processor = desired->part_processor,
        };

        snapshot_serve_permit_part(thread->context->snapshots, &key, &part,
                                   (const char *const *)desired->part_readers.items,
                                   part.owners.map.processors.now > 0 ? desired->part_readers.count
                                                                      : 0);
    }
}

void task_seed_offer(struct task_thread *thread)
{
    const struct snapshot_key key = key_of(thread);

    if (thread->context->snapshots != NULL && thread->store != NULL)
        snapshot_serve_offer(thread->context->snapshots, &key, store_share_acquire(thread->store));
}

void task_seed_withdraw(struct task_thread *thread)
{
    const struct snapshot_key key = key_of(thread);

    if (thread->context->snapshots != NULL)
        snapshot_serve_withdraw(thread->context->snapshots, &key);
}

void task_seed_end(struct task_thread *thread)
{
    const struct snapshot_key key = key_of(thread);

    assert(thread->fetch == NULL);
    if (thread->context->snapshots != NULL) {
        const struct store_part none = {0};

        snapshot_serve_permit(thread->context->snapshots, &key, NULL, 0);
        snapshot_serve_permit_part(thread->context->snapshots, &key, &none, NULL, 0);
    }
}

/* ---- getting */

static void refuse(struct task_thread *thread, const char *detail)
{
    log_warn("seeding_failed", LOG_STR("job", thread->job.name),
             LOG_INT("processor", thread->desired.processor), LOG_STR("error", detail), LOG_END);
    (void)task_thread_event(thread, TASK_EVENT_SEED_FAILED, "seeding_failed", detail);
}

/*
 * S2, and where of it nothing more is read however far the sender is. What is inherited has no last
 * record then, nor while the bound is not known: so a state that has one past the bound is one that
 * was read on there (task_inherit.c).
 */
static struct store_position *list_needed(const struct task_thread *thread)
{
    size_t count = thread->core.partition_count;
    struct store_position *needed = mem_calloc(count, sizeof(*needed));

    for (size_t i = 0; i < count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];
        bool inherited = task_is_inherited(partition);
        bool is_bound = inherited && partition->bound != API_UNKNOWN;

        needed[i] = thread->lineage[i];
        needed[i].next_offset = is_bound ? partition->bound : INT64_MAX;
        needed[i].last_offset = is_bound    ? partition->bound - 1
                                : inherited ? API_UNKNOWN
                                            : INT64_MAX;
        needed[i].records = partition->bound_records;
    }
    return needed;
}

void task_seed_start(struct task_thread *thread)
{
    const struct document_task *desired = &thread->desired;
    struct store_position *needed = list_needed(thread);
    struct snapshot_source *sources = mem_calloc(desired->sources.count + 1, sizeof(*sources));
    struct snapshot_fetch_config config = {
        .sources = sources,
        .source_count = desired->sources.count,
        .token = desired->seed_token == NULL ? "" : desired->seed_token,
        .parent = thread->core.config.parent,
        .owners = task_garbage_owners_with(thread, desired->processor + 1),
        .needed = needed,
        .needed_count = thread->core.partition_count,
        .wake = task_thread_wake,
        .wake_arg = thread,
    };
    struct err err;

    assert(thread->fetch == NULL);
    for (size_t i = 0; i < desired->sources.count; i++)
        sources[i] = (struct snapshot_source){.agent = desired->sources.items[i].agent,
                                              .address = desired->sources.items[i].address,
                                              .parent = desired->sources.items[i].parent &&
                                                        config.owners.map.processors.now > 0};
    task_act_describe_store(thread, &config.store, &config.identity);
    HOOK_HERE(thread, "seed_before");
    if (snapshot_fetch_start(&config, &thread->fetch, &err) != ERR_NONE)
        refuse(thread, err.text);
    free(needed);
    free(sources);
}

void task_seed_cancel(struct task_thread *thread)
{
    if (thread->fetch != NULL)
        snapshot_fetch_cancel(thread->fetch);
}

/* What was fetched takes the place of the task's state, which is opened as any that was kept. */
static void install(struct task_thread *thread)
{
    enum store_condition condition = STORE_FRESH;
    char reason[ERR_TEXT_BYTES] = "";
    struct err err;
    enum err_code code;

    HOOK_HERE(thread, "seed_install");
    task_seed_withdraw(thread);
    store_close(thread->store);
    thread->store = NULL;
    code = store_seed_install(thread->directory, &err);
    if (code == ERR_NONE)
        code = task_act_open_state(thread, &condition, reason, &err);
    if (code == ERR_NONE && condition != STORE_KEPT)
        code = err_set(&err, ERR_CORRUPT, "what was fetched does not open: %s", reason);
    if (code != ERR_NONE) {
        (void)task_thread_event(thread, TASK_EVENT_STORE_FAILED, "store_failed", err.text);
        return;
    }
    task_act_opened(thread, TASK_EVENT_SEEDED, reason);
}

void task_seed_serve(struct task_thread *thread)
{
    enum snapshot_fetch_state state;
    struct err err;

    if (thread->fetch == NULL)
        return;
    state = snapshot_fetch_state(thread->fetch, &thread->seeding, &err);
    if (state == SNAPSHOT_FETCH_RUNNING)
        return;
    snapshot_fetch_destroy(thread->fetch);
    thread->fetch = NULL;
    if (state == SNAPSHOT_FETCH_FAILED) {
        refuse(thread, err.text);
        return;
    }
    log_info("seeded", LOG_STR("job", thread->job.name),
             LOG_INT("processor", thread->desired.processor),
             LOG_STR("source", thread->seeding.source), LOG_INT("rows", thread->seeding.rows),
             LOG_INT("bytes", thread->seeding.bytes),
             LOG_INT("took_ms", clock_mono_ms() - thread->seeding.begun_ms), LOG_END);
    install(thread);
}

void task_seed_close(struct task_thread *thread)
{
    snapshot_fetch_destroy(thread->fetch);
    thread->fetch = NULL;
}
