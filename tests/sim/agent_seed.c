/*
 * Snapshots between the modelled agents (agent/task_seed.c, snapshot_serve.c, snapshot_fetch.c):
 * what the source has on disk when it begins is what arrives, some time later, or nothing. Asked
 * are those whom the document names, and they give to whom theirs does.
 */
#include <assert.h>
#include <string.h>

#include "tests/sim/agent_model.h"
#include "tests/sim/world.h"

static bool may_read(const struct document_task *told, const char *token)
{
    for (size_t i = 0; i < told->readers.count; i++) {
        if (strcmp(told->readers.items[i], token) == 0)
            return true;
    }
    return false;
}

/* A task there that has a checkpoint and gives it; NULL: none. */
static const struct sim_slot *find_source(const struct world *world, const char *agent_id,
                                          const struct sim_task *task, const char *token)
{
    for (size_t i = 0; i < WORLD_PROCESSES; i++) {
        const struct sim_agent *agent = &world->agents[i];
        const struct sim_slot *slot = &agent->slots[task->processor];

        if (i == task->agent || !agent->alive || agent->paused ||
            strcmp(agent_name(agent->identity), agent_id) != 0 || !slot->used ||
            slot->task == NULL || !slot->task->store_open || !slot->task->store->exists ||
            slot->task->store->damaged || slot->task->store->half_written ||
            !may_read(&slot->told, token))
            continue;
        return slot;
    }
    return NULL;
}

static void fail(struct world *world, struct sim_task *task, const char *why)
{
    world->tally->of[TALLY_SEED_FAILED]++;
    task->seed.active = false;
    (void)agent_event(task, TASK_EVENT_SEED_FAILED, "seeding_failed", why);
}

void agent_seed_start(struct world *world, struct sim_task *task)
{
    const struct document_task *told = &world->agents[task->agent].slots[task->processor].told;
    const struct sim_slot *source = NULL;

    assert(!task->seed.active);
    assert(task->store->flush == STORE_MODEL_IDLE);
    for (size_t i = 0; i < told->sources.count && source == NULL; i++)
        source = find_source(world, told->sources.items[i].agent, task, told->seed_token);
    if (source == NULL) {
        fail(world, task, "nobody gives it");
        return;
    }
    task->seed.active = true;
    task->seed.cancelled = false;
    task->seed.source = source->task->agent;
    task->seed.starts = world->agents[source->task->agent].starts;
    task->seed.image = source->task->store->disk;
    task->seed.due_ms = world->now_ms + (world_chance(world, 100) ? world_between(world, 100, 5000)
                                                                  : world_between(world, 1, 100));
}

void agent_seed_cancel(struct world *world, struct sim_task *task)
{
    if (!task->seed.active)
        return;
    task->seed.cancelled = true;
    task->seed.due_ms = world->now_ms;
}

/* The rules of D8 broken on purpose. */
static void bend(const struct world *world, struct sim_task *task)
{
    const struct sim_slot *slot = &world->agents[task->seed.source].slots[task->processor];

    if (world->config.mutation == MUTATION_SEED_LATE_T2 && slot->task != NULL)
        memcpy(task->seed.image.learned, slot->task->store->disk.learned,
               sizeof(task->seed.image.learned));
    if (world->config.mutation == MUTATION_SEED_SHORT) {
        for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
            task->seed.image.counts[i].of[0] = 0;
    }
}

/* What was fetched is the state, as if the task had kept it. */
static void install(struct world *world, struct sim_task *task)
{
    struct store_model *store = task->store;
    struct task_event *event;

    bend(world, task);
    store_model_close(store);
    store->exists = true;
    store->damaged = false;
    store->disk = task->seed.image;
    (void)store_model_open(store);
    world->tally->of[TALLY_SEEDED]++;
    world->tally->of[TALLY_SEEDED_NEEDED] += task->core.seed_needed;
    checks_disk(world, task);
    agent_take_positions(task);
    event = agent_event(task, TASK_EVENT_SEEDED, NULL, NULL);
    event->offsets = task->offsets;
    event->records = task->records;
}

void agent_seed_serve(struct world *world, struct sim_task *task)
{
    const struct sim_agent *source;

    if (!task->seed.active || world->now_ms < task->seed.due_ms)
        return;
    source = &world->agents[task->seed.source];
    if (task->seed.cancelled) {
        fail(world, task, "cancelled");
    } else if (!source->alive || source->paused || source->starts != task->seed.starts ||
               world_chance(world, world->config.fault_permille)) {
        fail(world, task, "it broke off");
    } else {
        task->seed.active = false;
        install(world, task);
    }
}

enum task_seed agent_seed_of(const struct document_job *job, const struct document_task *told)
{
    if (told->sources.count == 0 || job->spec.seed == SEED_REPLAY)
        return TASK_SEED_NONE;
    return job->spec.seed == SEED_SNAPSHOT ? TASK_SEED_FIRST : TASK_SEED_AUTO;
}
