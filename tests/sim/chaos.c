/* What befalls a world, and what it is fed with. */
#include "tests/sim/world.h"

#define RECORDS_MAX 400 /* of a partition */

static size_t any_agent(struct world *world)
{
    return (size_t)world_between(world, 0, WORLD_AGENTS - 1);
}

static uint32_t any_processor(struct world *world)
{
    return (uint32_t)world_between(world, 0, (int64_t)world->kafka.processor_count - 1);
}

static size_t any_partition(struct world *world)
{
    return (size_t)world_between(world, 0, (int64_t)world->kafka.partition_count - 1);
}

/* Mostly short, now and then longer than any time-out. */
static int64_t some_while(struct world *world)
{
    static const int64_t longest_ms[] = {50, 500, 5000, 15000, 60000};

    return world_between(world, 1, longest_ms[world_between(world, 0, 4)]);
}

/* ---- agents */

static void crash(struct world *world)
{
    size_t agent = any_agent(world);

    if (!world->agents[agent].alive)
        return;
    world->tally->of[TALLY_CRASH]++;
    agent_crash(world, agent);
    world->agents[agent].back_ms = world->now_ms + some_while(world);
}

static void stall(struct world *world)
{
    size_t agent = any_agent(world);

    if (!world->agents[agent].alive || world->agents[agent].paused)
        return;
    world->tally->of[TALLY_PAUSE]++;
    world->agents[agent].paused = true;
    world->agents[agent].back_ms = world->now_ms + some_while(world);
    world_trace(world, "agent %zu stands still", agent);
}

static void damage(struct world *world)
{
    struct store_model *disk = &world->agents[any_agent(world)].disks[any_processor(world)];

    if (!world->config.damages || !disk->exists)
        return;
    world->tally->of[TALLY_DAMAGED]++;
    disk->damaged = true;
}

/* ---- the coordinator's own doing */

static void decide(struct world *world)
{
    uint32_t processor = any_processor(world);
    const struct sim_placement *placement = &world->coordinator.placements[processor];
    size_t other = placement->owner == 0 ? 1 : 0;

    if (placement->idle)
        return;
    switch (world_between(world, 0, 7)) {
    case 0:
        coordinator_raise(world, processor);
        break;
    case 1:
        coordinator_idle(world, processor, world->now_ms + some_while(world));
        break;
    case 2:
        coordinator_cancel(world, processor);
        if (world_between(world, 0, 1) == 0) /* and thought better of it */
            coordinator_hand_over(world, processor, other);
        break;
    case 3:
    case 4:
    case 5:
        if (world->agents[other].alive)
            coordinator_hand_over(world, processor, other);
        break;
    default:
        if (world->agents[other].alive)
            coordinator_move(world, processor, other);
        break;
    }
}

/* ---- Kafka */

/* T2 of the least advanced disk that has any: what is before it is needed by nobody who has it. */
static int64_t needed_from(const struct world *world, size_t partition)
{
    int64_t needed = world->checks.committed[partition];

    for (size_t i = 0; i < WORLD_AGENTS && world->config.stateful; i++) {
        const struct store_model *disk =
            &world->agents[i].disks[kafka_processor_of(&world->kafka, partition)];

        if (disk->exists && disk->disk.learned[partition] < needed)
            needed = disk->disk.learned[partition];
    }
    return needed;
}

static void truncate(struct world *world)
{
    size_t partition = any_partition(world);
    int64_t before = needed_from(world, partition);
    struct task_range range = kafka_range(&world->kafka, partition);

    if (!world->config.truncates)
        return;
    if (world_between(world, 0, 5) == 0)
        before = world_between(world, range.log_start, range.stable_end);
    if (before <= range.log_start)
        return;
    kafka_delete_records(&world->kafka, partition, before);
    world->tally->of[TALLY_TRUNCATED]++;
    world->tally->of[TALLY_EMPTIED] += before == range.end;
    world_trace(world, "kafka: partition %zu starts at %lld now", partition, (long long)before);
}

static void clean(struct world *world)
{
    world->tally->of[TALLY_CLEANED]++;
    kafka_clean(&world->kafka, any_partition(world));
}

static void expire(struct world *world)
{
    uint32_t processor = any_processor(world);

    if (world->now_ms - world->kafka.transactions[processor].since_ms > 1000)
        kafka_expire(&world->kafka, processor);
}

void chaos_strike(struct world *world)
{
    switch (world_between(world, 0, 9)) {
    case 0:
        crash(world);
        break;
    case 1:
    case 2:
        stall(world);
        break;
    case 3:
    case 4:
        decide(world);
        break;
    case 5:
        damage(world);
        break;
    case 6:
        truncate(world);
        break;
    case 7:
        clean(world);
        break;
    case 8:
        expire(world);
        break;
    default:
        if (world_between(world, 0, 9) == 0)
            coordinator_respec(world);
        break;
    }
}

/* ---- input */

static void wake_readers(struct world *world)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        for (size_t k = 0; k < KAFKA_PROCESSORS_MAX; k++) {
            if (world->agents[i].slots[k].task != NULL)
                world->agents[i].slots[k].task->poked = true;
        }
    }
}

void chaos_input(struct world *world)
{
    size_t partition = any_partition(world);
    uint8_t key = (uint8_t)world_between(world, 0, KAFKA_KEYS - 1);
    uint8_t writer = (uint8_t)world_between(world, 0, KAFKA_WRITERS - 1);
    int64_t choice = world_between(world, 0, 9);

    if (kafka_end_of(&world->kafka, partition) >= RECORDS_MAX)
        return;
    if (choice < 6) {
        bool poison = world->config.poisons && world_chance(world, 10);

        for (int64_t i = world_between(world, 1, 3); i > 0; i--)
            kafka_append(&world->kafka, partition, key, poison);
    } else if (choice < 8) {
        kafka_append_open(&world->kafka, partition, key, writer);
    } else {
        bool commit = world_between(world, 0, 2) != 0;

        world->tally->of[TALLY_ABORTED_INPUT] += !commit;
        kafka_end_writer(&world->kafka, writer, commit);
    }
    wake_readers(world);
}

void chaos_end(struct world *world)
{
    for (uint8_t i = 0; i < KAFKA_WRITERS; i++)
        kafka_end_writer(&world->kafka, i, i == 0);
    for (size_t i = 0; i < WORLD_AGENTS; i++)
        world->agents[i].back_ms = world->now_ms;
    for (size_t i = 0; i < world->kafka.processor_count; i++)
        world->coordinator.placements[i].back_ms = world->now_ms;
    wake_readers(world);
}
