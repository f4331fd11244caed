/* What befalls a world, and what it is fed with. */
#include "tests/sim/world.h"

#define RECORDS_MAX         400 /* of a partition */
#define RECORDS_MAX_GROWING 100 /* they are learned more than once */
#define LATE_INPUTS         40

static size_t any_agent(struct world *world)
{
    return (size_t)world_between(world, 0, (int64_t)world->config.agents - 1);
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
    world->agents[agent].lost = world->config.never_returns && agent == 0;
    world->tally->of[TALLY_NEVER_RETURNS] += world->agents[agent].lost;
}

/*
 * It only stands still, but its host is given up: the same agent starts on another one, with empty
 * disks. When the old one goes on there are two of them.
 */
void chaos_replace(struct world *world, size_t agent)
{
    struct sim_agent *self = &world->agents[agent], *ghost = &world->agents[WORLD_GHOST];

    world_trace(world, "agent %zu starts on another host", agent);
    world->tally->of[TALLY_GHOST]++;
    *ghost = *self;
    ghost->lost = true;
    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        struct sim_task *task = ghost->slots[i].task;

        if (task == NULL)
            continue;
        task->agent = WORLD_GHOST;
        if (task->store != NULL)
            task->store = &ghost->disks[i];
    }
    *self = (struct sim_agent){.identity = agent,
                               .starts = ghost->starts,
                               .actions_done = ghost->actions_done,
                               .back_ms = world->now_ms + world_between(world, 0, 3000)};
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
    if (world_between(world, 0, 3) == 0 && !world->agents[WORLD_GHOST].alive)
        chaos_replace(world, agent);
}

static void damage(struct world *world)
{
    struct store_model *disk = &world->agents[any_agent(world)].disks[any_processor(world)];

    if (!world->config.damages || !disk->exists)
        return;
    world->tally->of[TALLY_DAMAGED]++;
    disk->damaged = true;
}

static void leave(struct world *world)
{
    size_t agent = any_agent(world);

    if (world->agents[agent].alive && !world->agents[agent].paused)
        link_leave(world, agent);
}

/* One cut off does its work as if nothing were: it is who must be shut out. */
static void cut_off(struct world *world)
{
    size_t agent = any_agent(world);
    int64_t until_ms = world->now_ms + some_while(world);
    int64_t direction = world_between(world, 0, 2);

    world_trace(world, "agent %zu is cut off, direction %lld", agent, (long long)direction);
    world->tally->of[direction == 0 ? TALLY_CUT_BOTH : TALLY_CUT_ONE]++;
    if (direction != 1)
        world->network.cut_asking_ms[agent] = until_ms;
    if (direction != 2)
        world->network.cut_hearing_ms[agent] = until_ms;
}

/* ---- the coordinator */

static void crash_host(struct world *world)
{
    struct sim_host *host = &world->host;

    if (!host->alive)
        return;
    world->tally->of[TALLY_HOST_CRASH]++;
    host_crash(world);
    host->back_ms = world->now_ms + some_while(world);
}

static void stall_host(struct world *world)
{
    struct sim_host *host = &world->host;

    if (!host->alive || host->paused)
        return;
    world->tally->of[TALLY_HOST_PAUSE]++;
    host->paused = true;
    host->back_ms = world->now_ms + some_while(world);
    world_trace(world, "coordinator stands still, in stage %d", (int)host->stage);
}

/* ---- Kafka */

/* T2 of the least advanced disk that has any: what is before it is needed by nobody who has it. */
static int64_t needed_from(const struct world *world, size_t partition)
{
    int64_t needed = world->checks.committed[partition];

    for (size_t i = 0; i < WORLD_PROCESSES * KAFKA_PROCESSORS_MAX && world->config.stateful; i++) {
        uint32_t processor = (uint32_t)(i % KAFKA_PROCESSORS_MAX);
        const struct store_model *disk = &world->agents[i / KAFKA_PROCESSORS_MAX].disks[processor];

        if (processor != kafka_processor_of(&world->kafka, partition) &&
            !checks_inherits(world, processor, partition))
            continue;
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

/* What is committed has had its effect; a state that is behind can not be completed any more. */
static void compact(struct world *world)
{
    size_t partition = any_partition(world);

    if (!world->config.compacts || world->checks.committed[partition] <= 0)
        return;
    kafka_compact(&world->kafka, partition, world->checks.committed[partition]);
    world->tally->of[TALLY_COMPACTED]++;
    world_trace(world, "kafka: partition %zu is compacted up to %lld", partition,
                (long long)world->kafka.partitions[partition].compacted);
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
    switch (world_between(world, 0, 15)) {
    case 0:
        crash(world);
        break;
    case 1:
    case 2:
        stall(world);
        break;
    case 3:
        leave(world);
        break;
    case 4:
        cut_off(world);
        break;
    case 5:
        crash_host(world);
        break;
    case 6:
        stall_host(world);
        break;
    case 7:
        damage(world);
        break;
    case 8:
        truncate(world);
        break;
    case 9:
        clean(world);
        compact(world);
        break;
    case 10:
        expire(world);
        break;
    default:
        operator_strike(world);
        break;
    }
}

/* ---- input */

static void wake_readers(struct world *world)
{
    for (size_t i = 0; i < WORLD_PROCESSES; i++) {
        for (size_t k = 0; k < KAFKA_PROCESSORS_MAX; k++) {
            if (world->agents[i].slots[k].task != NULL)
                world->agents[i].slots[k].task->poked = true;
        }
    }
}

/* Most producers know how many partitions there are; some have known fewer for long. */
static size_t place_of(struct world *world, size_t partition, uint8_t key)
{
    const struct kafka_model *kafka = &world->kafka;
    size_t known = kafka->partition_count;
    int64_t rarity = world->now_ms < world->old_until_ms ? 7 : 400;

    if (known == kafka->partitions_initial)
        return partition;
    if (world->calm)
        rarity = 2;
    if (world_between(world, 0, rarity) == 0)
        known = (size_t)world_between(world, (int64_t)kafka->partitions_initial,
                                      (int64_t)kafka->partition_count);
    world->tally->of[TALLY_OLD_COUNT] += known != kafka->partition_count;
    return kafka_place(kafka, partition, key, known);
}

void chaos_input(struct world *world)
{
    size_t partition = any_partition(world);
    uint8_t key = (uint8_t)world_between(world, 0, KAFKA_KEYS - 1);
    uint8_t writer = (uint8_t)world_between(world, 0, KAFKA_WRITERS - 1);
    int64_t choice = world_between(world, 0, 9);

    partition = place_of(world, partition, key);
    if (kafka_end_of(&world->kafka, partition) >=
        (world->config.grows ? RECORDS_MAX_GROWING + (world->calm ? LATE_INPUTS : 0) : RECORDS_MAX))
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

/* Of two processes with one name each may win, and the other one then tries for ever. People end
 * the older one, unless it is the one that lost: that is to find out by itself. */
void chaos_end_ghost(struct world *world)
{
    const struct sim_agent *ghost = &world->agents[WORLD_GHOST];
    const struct sim_agent *present = &world->agents[ghost->identity];
    const struct agent_row *known = durable_agent(&world->durable, agent_name(ghost->identity));

    if (ghost->alive && (!ghost->link.registered || !present->alive || known == NULL ||
                         agent_start_of(known->incarnation) != present->starts))
        agent_crash(world, WORLD_GHOST);
}

static void end_writers(struct world *world)
{
    for (uint8_t i = 0; i < KAFKA_WRITERS; i++)
        kafka_end_writer(&world->kafka, i, i == 0);
}

/* All that was to be split is; producers of earlier counts write once more, and whoever has what
 * was split begins anew. */
void chaos_late(struct world *world)
{
    for (size_t i = 0; i < LATE_INPUTS; i++)
        chaos_input(world);
    end_writers(world);
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        if (!world->agents[i].alive || world_between(world, 0, 2) != 0)
            continue;
        agent_crash(world, i);
        world->agents[i].back_ms = world->now_ms + 1000;
    }
}

void chaos_end(struct world *world)
{
    end_writers(world);
    for (size_t i = 0; i < WORLD_PROCESSES; i++)
        world->agents[i].back_ms = world->now_ms;
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        world->network.cut_asking_ms[i] = world->network.cut_hearing_ms[i] = 0;
    }
    chaos_end_ghost(world);
    world->host.back_ms = world->now_ms;
    if (world->config.poisons)
        world->operator.wants_skip = true;
    wake_readers(world);
}
