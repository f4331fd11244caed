#include "tests/sim/coordinator_model.h"

#include <string.h>

#include "tests/sim/world.h"

#define LOST_MS         10000
#define ALIVE_MS        2000
#define SECOND_TRY_MS   3000 /* before a halted processor is tried on the other agent */
#define DOCUMENT_MS_MAX 200
/* A zombie is left to itself for long. */
#define SWEEP_DOCUMENT_MS_MAX 8000

static struct sim_placement *placement_of(struct world *world, uint32_t processor)
{
    return &world->coordinator.placements[processor];
}

/* ---- documents */

static void send(struct world *world, size_t agent)
{
    struct sim_coordinator *self = &world->coordinator;
    struct sim_contact *contact = &self->contacts[agent];

    contact->sending = !world_chance(world, 100);
    contact->due_ms = world->now_ms + world_between(world, 0,
                                                    world->config.sweep == WORLD_NO_SWEEP
                                                        ? DOCUMENT_MS_MAX
                                                        : SWEEP_DOCUMENT_MS_MAX);
    contact->document =
        (struct sim_wanted){.version = self->version, .skip_poison = self->skip_poison};
    for (size_t i = 0; i < world->kafka.processor_count; i++) {
        contact->document.of[i].owned =
            self->placements[i].owner == agent && !self->placements[i].released;
        contact->document.of[i].epoch = self->placements[i].epoch;
    }
}

/* What was decided is durable before anyone hears of it. */
static void publish(struct world *world)
{
    world->coordinator.version++;
    for (size_t i = 0; i < WORLD_AGENTS; i++)
        send(world, i);
}

static void decide(struct world *world, uint32_t processor, size_t owner)
{
    struct sim_placement *placement = placement_of(world, processor);

    placement->owner = owner;
    placement->epoch = ++world->coordinator.epoch;
    placement->decided_ms = world->now_ms;
    placement->fenced = placement->failed = placement->released = false;
    world_trace(world, "coordinator: processor %u belongs to agent %zu under epoch %llu", processor,
                owner, (unsigned long long)placement->epoch);
}

/* ---- decisions */

void coordinator_open(struct world *world)
{
    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        struct task_committed start = {.stamped = true,
                                       .stamp = {.incarnation = WORLD_INCARNATION}};

        start.offset = kafka_range(&world->kafka, i).log_start;
        start.stamp.processor = kafka_processor_of(&world->kafka, i);
        world->coordinator.origins[i] = start.offset;
        world->kafka.partitions[i].origin = start.offset;
        world->kafka.group.of[i] = start;
        checks_start(world, i, start.offset);
    }
    for (uint32_t i = 0; i < world->kafka.processor_count; i++)
        decide(world, i,
               world->config.sweep != WORLD_NO_SWEEP
                   ? 0
                   : (size_t)world_between(world, 0, WORLD_AGENTS - 1));
    publish(world);
}

void coordinator_register(struct world *world, size_t agent)
{
    for (uint32_t i = 0; i < world->kafka.processor_count; i++) {
        if (placement_of(world, i)->owner == agent && !placement_of(world, i)->released)
            decide(world, i, agent);
    }
    world->coordinator.contacts[agent] = (struct sim_contact){.heard_ms = world->now_ms};
    publish(world);
}

void coordinator_move(struct world *world, uint32_t processor, size_t owner)
{
    world->tally->of[TALLY_MOVE]++;
    decide(world, processor, owner);
    publish(world);
}

void coordinator_raise(struct world *world, uint32_t processor)
{
    world->tally->of[TALLY_RAISE]++;
    decide(world, processor, placement_of(world, processor)->owner);
    publish(world);
}

void coordinator_release(struct world *world, uint32_t processor, int64_t back_ms)
{
    placement_of(world, processor)->released = true;
    placement_of(world, processor)->back_ms = back_ms;
    publish(world);
}

void coordinator_respec(struct world *world)
{
    if (world->coordinator.skip_poison)
        return;
    world_trace(world, "coordinator: on_error is skip from now on");
    world->tally->of[TALLY_RESPEC]++;
    world->coordinator.skip_poison = true;
    publish(world);
}

/* ---- observations */

void coordinator_hear(struct world *world, size_t agent, uint32_t processor, enum task_state state,
                      uint64_t epoch, const char *code)
{
    struct sim_placement *placement = placement_of(world, processor);

    world->coordinator.contacts[agent].heard_ms = world->now_ms;
    if (placement->owner != agent || placement->epoch != epoch)
        return; /* an observation, no more */
    if (state == TASK_STATE_ACTIVE)
        placement->newest_active = epoch;
    placement->fenced = state == TASK_STATE_FENCED;
    placement->failed = state == TASK_STATE_FAILED &&
                        (strncmp(code, "history_", 8) == 0 || strcmp(code, "state_ahead") == 0);
    if (state == TASK_STATE_FAILED && strcmp(code, "record_failed") == 0 && world->calm)
        coordinator_respec(world);
}

static bool is_reachable(const struct world *world, size_t agent)
{
    return world->agents[agent].alive && !world->agents[agent].paused;
}

static bool is_alive(const struct world *world, size_t agent)
{
    return world->now_ms - world->coordinator.contacts[agent].heard_ms <= ALIVE_MS &&
           is_reachable(world, agent);
}

static void serve_contact(struct world *world, size_t agent)
{
    struct sim_contact *contact = &world->coordinator.contacts[agent];

    if (!is_reachable(world, agent))
        return;
    contact->heard_ms = world->now_ms;
    if (contact->sending && contact->due_ms <= world->now_ms) {
        contact->sending = false;
        contact->applied = contact->document.version;
        agent_take_document(world, agent, &contact->document);
    } else if (!contact->sending && contact->applied < world->coordinator.version) {
        send(world, agent);
    }
}

static void serve_placement(struct world *world, uint32_t processor)
{
    struct sim_placement *placement = placement_of(world, processor);
    size_t other = placement->owner == 0 ? 1 : 0;

    if (placement->released) {
        if (world->now_ms >= placement->back_ms)
            coordinator_move(world, processor, is_alive(world, other) ? other : placement->owner);
        return;
    }
    if (placement->fenced) {
        placement->fenced = false;
        coordinator_raise(world, processor);
    } else if (is_alive(world, other) &&
               (world->now_ms - world->coordinator.contacts[placement->owner].heard_ms > LOST_MS ||
                (placement->failed && world->now_ms - placement->decided_ms > SECOND_TRY_MS))) {
        coordinator_move(world, processor, other);
    }
}

void coordinator_turn(struct world *world)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++)
        serve_contact(world, i);
    for (uint32_t i = 0; i < world->kafka.processor_count; i++)
        serve_placement(world, i);
}

int64_t coordinator_due_ms(const struct world *world)
{
    int64_t due_ms = world->now_ms + 500;

    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        const struct sim_contact *contact = &world->coordinator.contacts[i];

        if (is_reachable(world, i) && contact->sending && contact->due_ms < due_ms)
            due_ms = contact->due_ms;
    }
    return due_ms;
}
