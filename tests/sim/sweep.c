/*
 * Sweeps: one actor is stopped at its n-th action, for every n, and comes back (or starts anew).
 *
 * The first agent has the only processor. Either it is stopped and given up, or started on another
 * host, and comes back when that one or the other agent is active: a zombie. Or it hands the
 * processor to the other one, anew when that was cancelled, and source, target or coordinator are
 * away for a moment, or for so long that they are given up.
 */
#include "tests/sim/world.h"

#define SWEEP_STEPS 2500

struct world_config sweep_config(enum world_sweep sweep, enum world_victim victim, uint32_t at,
                                 uint64_t seed)
{
    struct world_config config = {
        .seed = seed,
        .steps = SWEEP_STEPS,
        .sweep = sweep,
        .victim = victim,
        .sweep_at = at,
        .drawn = true,
        .exactly_once = seed % 4 != 0,
        .stateful = true,
        .partitions = 2,
        .processors = 1,
        .fault_permille = victim != WORLD_VICTIM_OWNER && seed % 3 == 0 ? 60 : 0,
        .cache_records = 20,
        .acceptable_lag = (int64_t)(seed % 5),
        .step_ms_max = 4,
        .agents = 2,
        .capacity = 2,
        .rejoin_grace_ms = seed % 2 == 0 ? 0 : 1000,
        .core = {.protocol = PROTOCOL_RANGE_OURS,
                 .agent_timeout_ms = 2000,
                 .report_interval_ms = 500,
                 .poll_wait_ms_max = 5000,
                 .verify = true},
    };

    return config;
}

static bool is_active_on(const struct world *world, size_t agent)
{
    const struct sim_task *task = world_active(world, 0);

    return task != NULL && task->agent == agent;
}

/* A moment, or long enough to be given up. */
static int64_t absence_ms(struct world *world)
{
    return world_between(world, 0, 1) == 0 ? world_between(world, 0, 3000)
                                           : world_between(world, 6000, 12000);
}

static void stop_agent(struct world *world, size_t victim)
{
    struct sim_agent *agent = &world->agents[victim];

    world->sweeping = false;
    world_trace(world, "agent %zu is stopped at action %u", victim, agent->actions_done);
    if (world->config.sweep == WORLD_SWEEP_PAUSE)
        agent->paused = true;
    else
        agent_crash(world, victim);
    world->tally->of[agent->paused ? TALLY_PAUSE : TALLY_CRASH]++;
    agent->back_ms = INT64_MAX;
}

static void stop_host(struct world *world)
{
    struct sim_host *host = &world->host;

    world->sweeping = false;
    world_trace(world, "the coordinator is stopped at action %u", host->actions_done);
    if (world->config.sweep == WORLD_SWEEP_PAUSE)
        host->paused = true;
    else
        host_crash(world);
    world->tally->of[host->paused ? TALLY_HOST_PAUSE : TALLY_HOST_CRASH]++;
    host->back_ms = world->now_ms + absence_ms(world);
}

/* ---- the owner */

/* A zombie is left to itself for a while: it does not hear at once that it is one. */
static void bring_back(struct world *world, size_t zombie)
{
    struct sim_agent *agent = &world->agents[zombie];

    agent->back_ms = world->now_ms + world_between(world, 0, 500);
    world->tally->of[TALLY_ZOMBIE]++;
    if (zombie == WORLD_GHOST)
        return; /* it shares its name, and so the network, with who has taken its place */
    world->network.cut_asking_ms[zombie] = world->network.cut_hearing_ms[zombie] =
        agent->back_ms + world_between(world, 0, 8000);
    network_drop_answers(world, zombie);
}

/* Every other one that is paused is replaced by a new start of the same agent. */
static void step_owner(struct world *world)
{
    bool replaced = world->config.sweep == WORLD_SWEEP_PAUSE && world->config.seed % 2 == 0;
    size_t zombie = replaced ? WORLD_GHOST : 0;
    struct sim_agent *agent = &world->agents[0];

    if (world->sweeping && agent->alive && agent->actions_done >= world->config.sweep_at) {
        stop_agent(world, 0);
        if (replaced)
            chaos_replace(world, 0);
    }
    if (!world->sweeping && world->agents[zombie].back_ms == INT64_MAX &&
        (is_active_on(world, 1) || (replaced && is_active_on(world, 0))))
        bring_back(world, zombie);
}

/* ---- a hand-over */

static uint32_t actions_done(const struct world *world)
{
    switch (world->config.victim) {
    case WORLD_VICTIM_COORDINATOR:
        return world->host.actions_done;
    case WORLD_VICTIM_SOURCE:
        return world->agents[0].actions_done;
    default:
        return world->agents[1].actions_done;
    }
}

static void begin_handoff(struct world *world)
{
    if (host_job(world)->processors.items[0].handoff != NULL || host_has_people(world) ||
        !world->agents[1].alive)
        return;
    if (!world->handing_over)
        world->handing_from = actions_done(world);
    world->handing_over = true;
    operator_move(world, 0, 1);
}

static void step_handoff(struct world *world)
{
    size_t victim = world->config.victim == WORLD_VICTIM_SOURCE ? 0 : 1;

    if (is_active_on(world, 0))
        begin_handoff(world);
    if (!world->sweeping || !world->handing_over ||
        actions_done(world) < world->handing_from + world->config.sweep_at)
        return;
    if (world->config.victim == WORLD_VICTIM_COORDINATOR && world->host.alive) {
        stop_host(world);
    } else if (world->config.victim != WORLD_VICTIM_COORDINATOR && world->agents[victim].alive) {
        stop_agent(world, victim);
        world->agents[victim].back_ms = world->now_ms + absence_ms(world);
    }
}

void sweep_step(struct world *world)
{
    if (world->config.victim == WORLD_VICTIM_OWNER)
        step_owner(world);
    else
        step_handoff(world);
    world_step(world);
}
