#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SWEEP_RECORDS 40

/* ---- chance */

bool world_chance(struct world *world, uint32_t permille)
{
    return !world->calm && permille > 0 && rng_below(&world->rng, 1000) < permille;
}

int64_t world_between(struct world *world, int64_t from, int64_t to)
{
    return from + (int64_t)rng_below(&world->rng, (uint64_t)(to - from) + 1);
}

void world_trace(const struct world *world, const char *format, ...)
{
    va_list args;

    if (!world->config.trace)
        return;
    (void)printf("%8lld %6llu  ", (long long)world->now_ms, (unsigned long long)world->steps);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)printf("\n");
}

/* ---- making */

/* The times that agents and coordinator go by, against the steps that there are. */
static void draw_times(struct world *world)
{
    static const int64_t step_ms[] = {2, 2, 6, 20};
    static const int64_t timeout_ms[] = {2000, 5000, 10000};
    static const int64_t grace_ms[] = {0, 1000, 5000, 30000};
    struct world_config *config = &world->config;

    config->step_ms_max = step_ms[world_between(world, 0, 3)];
    config->core.verify = true;
    config->core.protocol = (struct protocol_range)PROTOCOL_RANGE_OURS;
    config->core.agent_timeout_ms = timeout_ms[world_between(world, 0, 2)];
    config->core.report_interval_ms = 500;
    config->core.poll_wait_ms_max = world_between(world, 500, 25000);
    config->core.topics_interval_ms = 5000;
    config->rejoin_grace_ms = grace_ms[world_between(world, 0, 3)];
}

#define PROCESSORS_FIRST_MAX 2 /* at creation */

static void draw_config(struct world *world)
{
    struct world_config *config = &world->config;

    if (config->drawn)
        return;
    config->exactly_once = world_between(world, 0, 9) < 8;
    config->stateful = world_between(world, 0, 9) < 9;
    config->partitions = (size_t)world_between(world, 1, KAFKA_PARTITIONS_MAX);
    config->processors = (size_t)world_between(world, 1,
                                               (int64_t)config->partitions < PROCESSORS_FIRST_MAX
                                                   ? (int64_t)config->partitions
                                                   : PROCESSORS_FIRST_MAX);
    config->fault_permille = (uint32_t)world_between(world, 0, 3) * 30;
    config->chaos_permille = (uint32_t)world_between(world, 1, 3) * 10;
    config->damages = world_between(world, 0, 3) == 0;
    config->truncates = world_between(world, 0, 3) == 0;
    config->poisons = world_between(world, 0, 3) == 0;
    config->cache_records = (uint32_t)world_between(world, 3, 60);
    config->acceptable_lag = world_between(world, 0, 2) * 5;
    config->agents = (size_t)world_between(world, 2, WORLD_AGENTS);
    config->capacity = (uint32_t)config->processors * (uint32_t)world_between(world, 1, 2);
    config->max_learners = (uint32_t)world_between(world, 0, 2);
    config->never_returns = world_between(world, 0, 4) == 0;
    config->left_alone = world_between(world, 0, 3) == 0;
    config->evens_out = !config->left_alone && world_between(world, 0, 1) == 0;
    config->compacts = config->stateful && !config->left_alone && world_between(world, 0, 7) == 0;
    config->sends_away = world_between(world, 0, 2) == 0;
    config->sends_at_once = !config->left_alone && world_between(world, 0, 1) == 0;
    if (config->left_alone) {
        config->fault_permille = 0;
        config->damages = config->truncates = config->poisons = false;
    }
    config->tells_kept = world_between(world, 0, 1) == 0;
    /* Not drawn: seeds are other worlds with every draw. */
    config->standbys = config->stateful ? (uint32_t[]){1, 0, 0, 2, 0, 1}[config->seed % 6] : 0;
    if (config->standbys > 0)
        config->capacity *= 2;
    config->grows = config->seed % 5 == 1 && !config->left_alone;
    if (config->grows && config->partitions > KAFKA_PARTITIONS_MAX / 2)
        config->partitions = KAFKA_PARTITIONS_MAX / 2;
    config->expands =
        config->seed % 5 < 3 && (config->grows || config->partitions > config->processors);
    if (config->expands)
        config->capacity = KAFKA_PARTITIONS_MAX * 4;
    draw_times(world);
    if (config->expands && config->step_ms_max > 5)
        config->step_ms_max = 5; /* more tasks have to have their turns in the same time */
    config->core.groups_interval_ms = guests_come(config) ? 500 : 0;
}

/* A log that does not start at 0 is the usual case. */
static void make_input(struct world *world)
{
    int64_t records =
        world->config.sweep != WORLD_NO_SWEEP ? SWEEP_RECORDS : world_between(world, 0, 30);

    for (int64_t i = 0; i < records; i++)
        chaos_input(world);
    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        if (world_between(world, 0, 2) == 0)
            kafka_delete_records(&world->kafka, i, world_between(world, 0, 20));
    }
}

/* In sweeps the first agent has everything when the next one comes. */
static void start_agents(struct world *world)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        struct sim_agent *agent = &world->agents[i];

        agent->identity = i;
        agent->lost = i >= world->config.agents;
        agent->back_ms = agent->lost                             ? INT64_MAX
                         : i == 0                                ? world->now_ms
                         : world->config.sweep != WORLD_NO_SWEEP ? world->now_ms + 1000
                         : world_between(world, 0, 2) == 0
                             ? world->now_ms
                             : world->now_ms + world_between(world, 0, 5000);
    }
}

static void open_world(struct world *world, const struct world_config *config, struct tally *tally)
{
    *world = (struct world){.config = *config, .now_ms = 1000, .tally = tally};
    rng_init(&world->rng, config->seed);
    draw_config(world);
    world_trace(world, "seed %llu: %s, %s, %zu partitions, %zu processors, faults %u, chaos %u",
                (unsigned long long)config->seed,
                world->config.exactly_once ? "exactly_once" : "at_least_once",
                world->config.stateful ? "stateful" : "stateless", world->config.partitions,
                world->config.processors, world->config.fault_permille,
                world->config.chaos_permille);
    kafka_open(&world->kafka, world->config.partitions, world->config.processors,
               checks_watcher(world));
    make_input(world);
    durable_open(&world->durable);
    world->operator.wants_job = true;
    world->operator.leaver = - 1;
    world->sweeping = config->sweep != WORLD_NO_SWEEP;
    host_start(world);
    start_agents(world);
    world->agents[WORLD_GHOST].lost = true;
}

static void close_world(struct world *world)
{
    for (size_t i = 0; i < WORLD_PROCESSES; i++)
        agent_crash(world, i);
    admin_crash(world);
    host_finish(world);
    durable_close(&world->durable);
    network_finish(&world->network);
    world->tally->of[TALLY_ABORT] += world->kafka.aborts;
    world->tally->of[TALLY_EXPIRY] += world->kafka.expiries;
    world->tally->of[TALLY_LATE] += world->kafka.late;
    world->tally->steps += world->steps;
    kafka_close(&world->kafka);
    checks_finish(&world->checks);
}

/* ---- one step */

/* An earlier start stands still until the one that took its place is known, which is refused for
 * as long as the earlier one is heard of. */
static bool may_come_back(const struct world *world, const struct sim_agent *agent)
{
    if (agent == &world->agents[WORLD_GHOST])
        return agent->alive && world->agents[agent->identity].link.registered;
    return agent->alive || !agent->lost;
}

static void wake_agents(struct world *world)
{
    for (size_t i = 0; i < WORLD_PROCESSES; i++) {
        struct sim_agent *agent = &world->agents[i];

        if (agent->alive && !agent->paused) {
            agent_tend(world, i);
        } else if (may_come_back(world, agent) && world->now_ms >= agent->back_ms) {
            if (!agent->alive)
                agent_start(world, i);
            if (agent->paused)
                world_trace(world, "agent %zu goes on", i);
            agent->paused = false;
        }
    }
}

static void wake_host(struct world *world)
{
    struct sim_host *host = &world->host;

    if ((host->alive && !host->paused) || world->now_ms < host->back_ms)
        return;
    if (!host->alive)
        host_start(world);
    if (host->paused)
        world_trace(world, "coordinator goes on");
    host->paused = false;
}

/* Where steps take long it does more in one, or it could not keep up. */
static bool step_coordinator(struct world *world)
{
    bool worked = false;

    network_turn(world);
    operator_turn(world);
    for (int64_t i = 0; i <= world->config.step_ms_max / 5; i++)
        worked = admin_turn(world) || host_turn(world) || worked;
    return worked;
}

/*
 * One task of those that have something to do; false: none has. Where there may be more processors
 * than at first, most places are empty: each task has its turn as often as any other all the same.
 */
static bool step_task(struct world *world)
{
    size_t slots = world->config.expands ? KAFKA_PROCESSORS_MAX : PROCESSORS_FIRST_MAX;
    size_t places[WORLD_PROCESSES * KAFKA_PROCESSORS_MAX], count = 0, first;

    for (size_t i = 0; i < WORLD_PROCESSES * slots; i++)
        if (!world->config.expands || world->agents[i / slots].slots[i % slots].task != NULL)
            places[count++] = i;
    if (count == 0)
        return false;
    first = (size_t)world_between(world, 0, (int64_t)count - 1);
    for (size_t i = 0; i < count; i++) {
        size_t at = places[(first + i) % count];
        struct sim_agent *agent = &world->agents[at / slots];
        struct sim_task *task = agent->slots[at % slots].task;

        if (task == NULL || !agent->alive || agent->paused)
            continue;
        if (agent_flush(world, task) || agent_step(world, task))
            return true;
    }
    return false;
}

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t agents_due_ms(const struct world *world)
{
    int64_t due_ms = INT64_MAX;

    for (size_t i = 0; i < WORLD_PROCESSES; i++) {
        const struct sim_agent *agent = &world->agents[i];

        if (!agent->alive || agent->paused) {
            due_ms = earliest(due_ms, may_come_back(world, agent) ? agent->back_ms : INT64_MAX);
            continue;
        }
        due_ms = earliest(due_ms, link_due_ms(world, i));
        for (size_t k = 0; k < KAFKA_PROCESSORS_MAX; k++) {
            const struct sim_slot *slot = &agent->slots[k];

            if (slot->task != NULL)
                due_ms = earliest(due_ms, agent_due_ms(slot->task));
            else if (slot->used && !slot->spent)
                due_ms = earliest(due_ms, slot->retry_ms);
        }
    }
    return due_ms;
}

/* Nothing can happen now: on to when something can. */
static void pass_time(struct world *world)
{
    int64_t due_ms = agents_due_ms(world);

    due_ms = earliest(due_ms, network_due_ms(world));
    due_ms = earliest(due_ms, host_due_ms(world));
    due_ms = earliest(due_ms, admin_due_ms(world));
    due_ms = earliest(due_ms, operator_due_ms(world));
    for (size_t i = 0; i < world->kafka.flight_count; i++)
        due_ms = earliest(due_ms, world->kafka.flight[i].due_ms);
    if (due_ms > world->now_ms && due_ms != INT64_MAX)
        world->now_ms = due_ms;
}

void world_step(struct world *world)
{
    int64_t choice = world_between(world, 0, 99);

    world->steps++;
    world->now_ms += world_between(world, 0, world->config.step_ms_max);
    wake_agents(world);
    wake_host(world);
    if (world_chance(world, world->config.chaos_permille)) {
        chaos_strike(world);
    } else if (choice < 8) {
        kafka_advance(&world->kafka, &world->rng, world->now_ms);
    } else if (choice < 14 && !world->calm) {
        chaos_input(world);
    } else if (choice < 28) {
        (void)step_coordinator(world);
    } else if (!step_task(world)) {
        bool worked = step_coordinator(world);

        kafka_advance(&world->kafka, &world->rng, world->now_ms);
        if (!worked)
            pass_time(world);
    }
}

const struct sim_agent *world_process(const struct world *world, size_t identity, uint32_t start)
{
    const struct sim_agent *present = &world->agents[identity];
    const struct sim_agent *ghost = &world->agents[WORLD_GHOST];

    if (present->alive && present->starts == start)
        return present;
    return ghost->alive && ghost->identity == identity && ghost->starts == start ? ghost : NULL;
}

const struct sim_task *world_active(const struct world *world, uint32_t processor)
{
    const struct job *job = host_job(world);
    const struct placement_row *placement;
    const struct sim_agent *agent;
    const struct sim_task *task;

    if (job == NULL)
        return NULL;
    placement = &job->processors.items[processor].placement;
    if (placement->agent == NULL)
        return NULL;
    agent = &world->agents[agent_of_name(placement->agent)];
    task = agent->slots[processor].task;
    return task != NULL && agent_start_of(placement->agent_incarnation) == agent->starts &&
                   task->core.phase.state == TASK_PHASE_ACTIVE &&
                   task->core.epoch_working == placement->epoch
               ? task
               : NULL;
}

bool world_run(struct world *world, const struct world_config *config, struct tally *tally)
{
    /* Longer where much has to come before what is to be looked at. */
    uint32_t steps;

    open_world(world, config, tally);
    steps = world->config.grows ? config->steps * 3 : config->steps;
    while (world->steps < steps && !world->checks.failed) {
        if (config->sweep == WORLD_NO_SWEEP)
            world_step(world);
        else
            sweep_step(world);
    }
    if (!world->checks.failed)
        world_end(world);
    close_world(world);
    return !world->checks.failed;
}
