#include "tests/sim/world.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"

#define END_MS_MAX    INT64_C(900000) /* virtual: longer than any pause of the core's or Kafka's */
#define END_STEPS_MAX 60000
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

static void draw_config(struct world *world)
{
    struct world_config *config = &world->config;

    if (config->drawn)
        return;
    config->exactly_once = world_between(world, 0, 9) < 8;
    config->stateful = world_between(world, 0, 9) < 9;
    config->partitions = (size_t)world_between(world, 1, KAFKA_PARTITIONS_MAX);
    config->processors = config->partitions > 1 ? (size_t)world_between(world, 1, 2) : 1;
    config->fault_permille = (uint32_t)world_between(world, 0, 3) * 30;
    config->chaos_permille = (uint32_t)world_between(world, 1, 3) * 10;
    config->damages = world_between(world, 0, 3) == 0;
    config->truncates = world_between(world, 0, 3) == 0;
    config->poisons = world_between(world, 0, 3) == 0;
    config->cache_records = (uint32_t)world_between(world, 3, 60);
    config->acceptable_lag = world_between(world, 0, 2) * 5;
}

static void make_documents(struct world *world)
{
    for (size_t i = 0; i < 2; i++) {
        struct document_job *job = &world->jobs[i];

        schema_default(&schema_document_job, job);
        job->name = mem_strdup(WORLD_JOB);
        job->incarnation = mem_strdup(WORLD_INCARNATION);
        job->spec.on_error = i == 0 ? ON_ERROR_HALT : ON_ERROR_SKIP;
    }
    for (uint32_t i = 0; i < world->kafka.partition_count; i++) {
        uint32_t processor = kafka_processor_of(&world->kafka, i);
        struct uint_list *owned = &world->owned[processor];

        world->owned_items[processor][owned->count++] = i;
        owned->items = world->owned_items[processor];
    }
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
    make_documents(world);
    make_input(world);
    coordinator_open(world);
    world->sweeping = config->sweep != WORLD_NO_SWEEP;
    for (size_t i = 0; i < WORLD_AGENTS; i++)
        agent_start(world, i);
}

static void close_world(struct world *world)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++)
        agent_crash(world, i);
    for (size_t i = 0; i < 2; i++)
        schema_free(&schema_document_job, &world->jobs[i]);
    world->tally->of[TALLY_ABORT] += world->kafka.aborts;
    world->tally->of[TALLY_EXPIRY] += world->kafka.expiries;
    world->tally->of[TALLY_LATE] += world->kafka.late;
    world->tally->steps += world->steps;
    kafka_close(&world->kafka);
    checks_finish(&world->checks);
}

/* ---- one step */

static void wake_agents(struct world *world)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        struct sim_agent *agent = &world->agents[i];

        if (agent->alive && !agent->paused) {
            agent_tend(world, i);
        } else if (world->now_ms >= agent->back_ms) {
            if (!agent->alive)
                agent_start(world, i);
            if (agent->paused)
                world_trace(world, "agent %zu goes on", i);
            agent->paused = false;
        }
    }
}

/* One task of those that have something to do; false: none has. */
static bool step_task(struct world *world)
{
    size_t count = WORLD_AGENTS * KAFKA_PROCESSORS_MAX;
    size_t first = (size_t)world_between(world, 0, (int64_t)count - 1);

    for (size_t i = 0; i < count; i++) {
        size_t at = (first + i) % count;
        struct sim_agent *agent = &world->agents[at / KAFKA_PROCESSORS_MAX];
        struct sim_task *task = agent->slots[at % KAFKA_PROCESSORS_MAX].task;

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

/* Nothing can happen now: on to when something can. */
static void pass_time(struct world *world)
{
    int64_t due_ms = coordinator_due_ms(world);

    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        const struct sim_agent *agent = &world->agents[i];

        if (!agent->alive || agent->paused) {
            due_ms = earliest(due_ms, agent->back_ms);
            continue;
        }
        for (size_t k = 0; k < KAFKA_PROCESSORS_MAX; k++) {
            if (agent->slots[k].task != NULL)
                due_ms = earliest(due_ms, agent_due_ms(agent->slots[k].task));
        }
    }
    for (size_t i = 0; i < world->kafka.flight_count; i++)
        due_ms = earliest(due_ms, world->kafka.flight[i].due_ms);
    if (due_ms > world->now_ms)
        world->now_ms = due_ms;
}

static void step(struct world *world)
{
    int64_t choice = world_between(world, 0, 99);

    world->steps++;
    world->now_ms += world_between(world, 0, 2);
    wake_agents(world);
    if (world_chance(world, world->config.chaos_permille)) {
        chaos_strike(world);
    } else if (choice < 8) {
        kafka_advance(&world->kafka, &world->rng, world->now_ms);
    } else if (choice < 14 && !world->calm) {
        chaos_input(world);
    } else if (choice < 20) {
        coordinator_turn(world);
    } else if (!step_task(world)) {
        coordinator_turn(world);
        kafka_advance(&world->kafka, &world->rng, world->now_ms);
        pass_time(world);
    }
}

/* ---- the sweep */

static bool is_active_under(const struct world *world, size_t owner)
{
    for (size_t i = 0; i < world->kafka.processor_count; i++) {
        const struct sim_placement *placement = &world->coordinator.placements[i];

        if (placement->owner != owner || placement->newest_active != placement->epoch)
            return false;
    }
    return true;
}

static void stop_victim(struct world *world, size_t victim)
{
    struct sim_agent *agent = &world->agents[victim];

    world->sweeping = false;
    if (world->config.sweep == WORLD_SWEEP_PAUSE)
        agent->paused = true;
    else
        agent_crash(world, victim);
    world_trace(world, "agent %zu is stopped at action %u", victim, agent->actions_done);
    world->tally->of[agent->paused ? TALLY_PAUSE : TALLY_CRASH]++;
    agent->back_ms = INT64_MAX;
}

/* Agent 0 hands everything over to agent 1, anew when that was cancelled. One of them is away for a
 * moment, or for so long that it is given up. */
static void step_handoff_sweep(struct world *world)
{
    size_t victim = world->config.victim == WORLD_VICTIM_SOURCE ? 0 : 1;
    struct sim_agent *agent = &world->agents[victim];

    if (is_active_under(world, 0)) {
        if (!world->handing_over)
            world->handing_from = agent->actions_done;
        world->handing_over = true;
        for (uint32_t i = 0; i < world->kafka.processor_count; i++)
            coordinator_hand_over(world, i, 1);
    }
    if (world->sweeping && world->handing_over && agent->alive &&
        agent->actions_done >= world->handing_from + world->config.sweep_at) {
        stop_victim(world, victim);
        agent->back_ms =
            world->now_ms + (world_between(world, 0, 1) == 0 ? world_between(world, 0, 3000)
                                                             : world_between(world, 12000, 20000));
    }
    step(world);
}

static void step_sweep(struct world *world)
{
    struct sim_agent *agent = &world->agents[0];

    if (world->sweeping && agent->actions_done >= world->config.sweep_at) {
        stop_victim(world, 0);
        for (uint32_t i = 0; i < world->kafka.processor_count; i++)
            coordinator_move(world, i, 1);
        /* What the zombie will read first is what was on its way to it. */
        world->coordinator.contacts[0].sending = false;
    }
    if (!world->sweeping && agent->back_ms == INT64_MAX && is_active_under(world, 1)) {
        agent->back_ms = world->now_ms + world_between(world, 0, 500);
        world->tally->of[TALLY_ZOMBIE]++;
    }
    step(world);
}

/* ---- the end */

static bool is_halted(const struct world *world, uint32_t processor)
{
    const struct sim_placement *placement = &world->coordinator.placements[processor];

    /* While the owner works it needs no copy: what it has is in its memory. */
    return checks_is_halted(world, processor) &&
           (placement->failed || placement->newest_active != placement->epoch);
}

/* Everybody has heard who owns what. */
static bool is_settled(const struct world *world)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        for (size_t k = 0; k < world->kafka.processor_count; k++) {
            if (world->agents[i].slots[k].used && world->coordinator.placements[k].owner != i)
                return false;
        }
    }
    return true;
}

static bool is_finished(const struct world *world)
{
    for (uint32_t i = 0; i < world->kafka.processor_count; i++) {
        const struct sim_placement *placement = &world->coordinator.placements[i];

        if (!is_halted(world, i) && (placement->newest_active != placement->epoch ||
                                     placement->handoff.stage != SIM_HANDOFF_NONE))
            return false;
    }
    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        if (!is_halted(world, kafka_processor_of(&world->kafka, i)) &&
            world->kafka.group.of[i].offset != kafka_end_of(&world->kafka, i))
            return false;
    }
    return kafka_is_at_rest(&world->kafka) && is_settled(world);
}

static bool all_closed(const struct world *world)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        for (size_t k = 0; k < KAFKA_PROCESSORS_MAX; k++) {
            if (world->agents[i].slots[k].task != NULL)
                return false;
        }
    }
    return true;
}

static void run_until(struct world *world, bool (*done)(const struct world *world),
                      const char *failure)
{
    int64_t end_ms = world->now_ms + END_MS_MAX;
    uint64_t end_steps = world->steps + END_STEPS_MAX;

    while (!done(world) && !world->checks.failed) {
        step(world);
        if (world->now_ms > end_ms || world->steps > end_steps) {
            checks_fail(world, "%s", failure);
            return;
        }
    }
}

static void end(struct world *world)
{
    bool halted = false;

    world->calm = true;
    world_trace(world, "the end begins");
    chaos_end(world);
    run_until(world, is_finished, "it does not come to its end");
    for (uint32_t i = 0; i < world->kafka.processor_count; i++) {
        world->halted[i] = is_halted(world, i);
        halted = halted || world->halted[i];
        coordinator_idle(world, i, INT64_MAX);
    }
    run_until(world, all_closed, "not every task closes");
    if (!world->checks.failed)
        checks_end(world);
    world->tally->of[halted ? TALLY_HALTED : TALLY_FINISHED]++;
}

bool world_run(struct world *world, const struct world_config *config, struct tally *tally)
{
    open_world(world, config, tally);
    while (world->steps < config->steps && !world->checks.failed) {
        if (config->sweep == WORLD_NO_SWEEP)
            step(world);
        else if (config->victim == WORLD_VICTIM_OWNER)
            step_sweep(world);
        else
            step_handoff_sweep(world);
    }
    if (!world->checks.failed)
        end(world);
    close_world(world);
    return !world->checks.failed;
}
