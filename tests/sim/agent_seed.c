/*
 * Snapshots between the modelled agents (agent/task_seed.c, snapshot_serve.c, snapshot_fetch.c):
 * what the source has on disk when it begins is what arrives, some time later, or nothing. Asked
 * are those whom the document names, and they give to whom theirs does.
 */
#include <assert.h>
#include <string.h>

#include "tests/sim/agent_model.h"
#include "tests/sim/world.h"

static bool is_among(char *const *tokens, size_t count, const char *token)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(tokens[i], token) == 0)
            return true;
    }
    return false;
}

/* The whole of it, or the part that goes to the task's processor. */
static bool may_read(const struct document_task *told, const struct sim_task *task, bool part,
                     const char *token)
{
    if (!part)
        return is_among(told->readers.items, told->readers.count, token);
    return told->part_processor == task->processor &&
           is_among(told->part_readers.items, told->part_readers.count, token);
}

/* What the part would be replayed onto, were it not known how far it is. */
static bool knows_all(const struct store_image *image, const struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        if (image->learned[task->core.partitions[i].partition] == API_UNKNOWN)
            return false;
    }
    return true;
}

/* What the sender leaves out (agent/store_owner.c): in a partition that is inherited most keys are
 * the parent's. */
static void take_keys(const struct world *world, const struct sim_task *task, size_t partition,
                      struct kafka_counts *counts)
{
    struct key_map map = task->map;

    if (map.partitions.now == map.partitions.initial)
        return;
    if (map.processors.now <= task->processor)
        map.processors.now = task->processor + 1;
    for (uint8_t key = 0; key < KAFKA_KEYS; key++) {
        uint32_t place = kafka_place(&world->kafka, partition, key, map.partitions.now);

        if (key_processor(&map, place) != task->processor)
            counts->of[key] = 0;
    }
}

/* The sender may be further, with other keys only (agent/store_seed.c). */
static void rest_at_bound(struct store_image *image, const struct sim_task *task, size_t partition)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        const struct task_partition *at = &task->core.partitions[i];

        if (at->partition != partition || !task_is_inherited(at) || at->bound == API_UNKNOWN ||
            image->learned[partition] <= at->bound)
            continue;
        image->learned[partition] = at->bound;
        image->records[partition] = at->bound_records;
    }
}

static void take_part(const struct world *world, struct store_image *image,
                      const struct sim_task *task)
{
    for (size_t p = 0; p < KAFKA_PARTITIONS_MAX; p++) {
        bool taken = false;

        for (size_t i = 0; i < task->core.partition_count && !taken; i++)
            taken = task->core.partitions[i].partition == p;
        if (taken) {
            take_keys(world, task, p, &image->counts[p]);
            rest_at_bound(image, task, p);
            continue;
        }
        image->learned[p] = API_UNKNOWN;
        image->records[p] = API_UNKNOWN;
        image->counts[p] = (struct kafka_counts){0};
    }
}

/* A task there that has a checkpoint and gives it; NULL: none. */
static const struct sim_slot *find_source(const struct world *world,
                                          const struct document_source *source,
                                          const struct sim_task *task, const char *token)
{
    uint32_t processor = source->parent ? task->core.config.parent : task->processor;

    for (size_t i = 0; i < WORLD_PROCESSES; i++) {
        const struct sim_agent *agent = &world->agents[i];
        const struct sim_slot *slot = &agent->slots[processor];

        if ((i == task->agent && !source->parent) || !agent->alive || agent->paused ||
            strcmp(agent_name(agent->identity), source->agent) != 0 || !slot->used ||
            slot->task == NULL || !slot->task->store_open || !slot->task->store->exists ||
            slot->task->store->damaged || slot->task->store->half_written ||
            !may_read(&slot->told, task, source->parent, token) ||
            (source->parent && !knows_all(&slot->task->store->disk, task)))
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
        source = find_source(world, &told->sources.items[i], task, told->seed_token);
    if (source == NULL) {
        fail(world, task, "nobody gives it");
        return;
    }
    task->seed.active = true;
    task->seed.cancelled = false;
    task->seed.source = source->task->agent;
    task->seed.part = source->task->processor != task->processor;
    task->seed.starts = world->agents[source->task->agent].starts;
    task->seed.image = source->task->store->disk;
    if (task->seed.part)
        take_part(world, &task->seed.image, task);
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
    uint32_t processor = task->seed.part ? task->core.config.parent : task->processor;
    const struct sim_slot *slot = &world->agents[task->seed.source].slots[processor];

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
    world->tally->of[TALLY_SEEDED_PART] += task->seed.part;
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
