#include "tests/sim/coordinator_model.h"

#include <string.h>

#include "tests/sim/world.h"

#define LOST_MS         10000
#define ALIVE_MS        2000
#define SECOND_TRY_MS   3000 /* before a halted processor is tried on the other agent */
#define DOCUMENT_MS_MAX 200
/* A zombie is left to itself for long. */
#define SWEEP_DOCUMENT_MS_MAX 8000

static bool is_reachable(const struct world *world, size_t agent)
{
    return world->agents[agent].alive && !world->agents[agent].paused;
}

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
        const struct sim_placement *placement = &self->placements[i];
        const struct sim_handoff *handoff = &placement->handoff;
        bool learns = handoff->target == agent && (handoff->stage == SIM_HANDOFF_LEARNING ||
                                                   handoff->stage == SIM_HANDOFF_RELEASING);

        contact->document.of[i].wanted = learns || (placement->owner == agent && !placement->idle);
        contact->document.of[i].role = learns ? TASK_ROLE_LEARNER : TASK_ROLE_ACTIVE;
        contact->document.of[i].epoch = learns ? 0 : placement->epoch;
        contact->document.of[i].handoff =
            handoff->stage == SIM_HANDOFF_NONE ? 0 : placement->handoff.id;
        contact->document.of[i].release = !learns && handoff->stage == SIM_HANDOFF_RELEASING;
    }
}

/* What was decided is durable before anyone hears of it. */
static void publish(struct world *world)
{
    world->coordinator.version++;
    for (size_t i = 0; i < WORLD_AGENTS; i++)
        send(world, i);
}

static void place(struct world *world, uint32_t processor, size_t owner)
{
    struct sim_placement *placement = placement_of(world, processor);

    placement->owner = owner;
    placement->epoch = ++world->coordinator.epoch;
    placement->decided_ms = world->now_ms;
    placement->fenced = placement->failed = placement->idle = false;
    world_trace(world, "coordinator: processor %u belongs to agent %zu under epoch %llu", processor,
                owner, (unsigned long long)placement->epoch);
}

/* A hand-over is over with it. */
static void decide(struct world *world, uint32_t processor, size_t owner)
{
    placement_of(world, processor)->handoff.stage = SIM_HANDOFF_NONE;
    place(world, processor, owner);
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
    checks_started(world);
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
        const struct sim_placement *placement = placement_of(world, i);

        if (placement->owner == agent && !placement->idle)
            decide(world, i, agent);
        else if (placement->handoff.stage == SIM_HANDOFF_RELEASING)
            coordinator_cancel(world, i);
        if (placement_of(world, i)->follow.agent == agent)
            placement_of(world, i)->follow.sending = false;
    }
    world->coordinator.contacts[agent] = (struct sim_contact){.heard_ms = world->now_ms};
    publish(world);
}

void coordinator_move(struct world *world, uint32_t processor, size_t owner)
{
    const struct sim_handoff *handoff = &placement_of(world, processor)->handoff;

    world->tally->of[TALLY_MOVE]++;
    world->tally->of[TALLY_FORCED] +=
        handoff->target == owner &&
        (handoff->stage == SIM_HANDOFF_LEARNING || handoff->stage == SIM_HANDOFF_RELEASING);
    decide(world, processor, owner);
    publish(world);
}

void coordinator_raise(struct world *world, uint32_t processor)
{
    world->tally->of[TALLY_RAISE]++;
    decide(world, processor, placement_of(world, processor)->owner);
    publish(world);
}

void coordinator_hand_over(struct world *world, uint32_t processor, size_t target)
{
    struct sim_placement *placement = placement_of(world, processor);

    if (placement->handoff.stage != SIM_HANDOFF_NONE || placement->idle ||
        placement->owner == target)
        return;
    world->tally->of[TALLY_HANDOFF]++;
    placement->handoff = (struct sim_handoff){
        .stage = SIM_HANDOFF_LEARNING, .id = ++world->coordinator.handoff, .target = target};
    world_trace(world, "coordinator: agent %zu learns processor %u", target, processor);
    publish(world);
}

void coordinator_cancel(struct world *world, uint32_t processor)
{
    struct sim_placement *placement = placement_of(world, processor);
    enum sim_handoff_stage stage = placement->handoff.stage;

    if (stage != SIM_HANDOFF_LEARNING && stage != SIM_HANDOFF_RELEASING)
        return;
    world_trace(world, "coordinator: processor %u stays", processor);
    world->tally->of[TALLY_CANCEL]++;
    placement->handoff.stage = SIM_HANDOFF_NONE;
    if (stage == SIM_HANDOFF_RELEASING) {
        world->tally->of[TALLY_GIVE_BACK]++;
        if (world->config.mutation != MUTATION_SAME_EPOCH_BACK)
            decide(world, processor, placement->owner);
    }
    publish(world);
}

void coordinator_idle(struct world *world, uint32_t processor, int64_t back_ms)
{
    placement_of(world, processor)->handoff.stage = SIM_HANDOFF_NONE;
    placement_of(world, processor)->idle = true;
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

void coordinator_post(struct world *world, const struct sim_report *report)
{
    struct sim_coordinator *self = &world->coordinator;
    int times = 1;

    if (world_chance(world, 50)) {
        world->tally->of[TALLY_REPORT_LOST]++;
        return;
    }
    if (world_chance(world, 50)) {
        world->tally->of[TALLY_REPORT_TWICE]++;
        times = 2;
    }
    for (; times > 0 && self->mail_count < SIM_MAIL_MAX; times--) {
        bool late = world_chance(world, 50);

        self->mail[self->mail_count] = *report;
        self->mail[self->mail_count++].due_ms =
            world->now_ms + world_between(world, 0, late ? 5000 : 20);
        world->tally->of[TALLY_REPORT_LATE] += late;
    }
}

static bool is_echo(const struct sim_placement *placement, const struct sim_report *report)
{
    return placement->owner == report->agent && placement->epoch == report->epoch &&
           !report->learner;
}

/* One vector of one commit; kept until the next one is known. */
static void take_t1(struct world *world, const struct sim_report *report)
{
    struct sim_placement *placement = placement_of(world, report->processor);

    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        if (kafka_processor_of(&world->kafka, i) == report->processor &&
            report->t1[i] == API_UNKNOWN)
            return;
    }
    placement->t1_known = true;
    memcpy(placement->t1, report->t1, sizeof(placement->t1));
}

static void answer_learner(struct world *world, const struct sim_report *report)
{
    struct sim_placement *placement = placement_of(world, report->processor);

    if (!placement->t1_known || world_chance(world, 100))
        return;
    placement->follow = (struct sim_follow){.sending = true,
                                            .agent = report->agent,
                                            .due_ms = world->now_ms + world_between(world, 0, 50)};
    memcpy(placement->follow.t1, placement->t1, sizeof(placement->t1));
}

static void hear_learner(struct world *world, const struct sim_report *report)
{
    struct sim_handoff *handoff = &placement_of(world, report->processor)->handoff;

    answer_learner(world, report);
    if (handoff->stage == SIM_HANDOFF_NONE || handoff->stage == SIM_HANDOFF_ACTIVATING ||
        handoff->id != report->handoff || handoff->target != report->agent)
        return;
    if (report->state == TASK_STATE_FAILED) {
        coordinator_cancel(world, report->processor);
    } else if (report->state == TASK_STATE_CAUGHT_UP && handoff->stage == SIM_HANDOFF_LEARNING) {
        handoff->stage = SIM_HANDOFF_RELEASING;
        world_trace(world, "coordinator: processor %u is to be released", report->processor);
        publish(world);
    }
}

/* Durable first: owner and epoch, then the documents. */
static void hear_released(struct world *world, const struct sim_report *report)
{
    struct sim_placement *placement = placement_of(world, report->processor);
    bool believed = placement->handoff.stage == SIM_HANDOFF_RELEASING &&
                    placement->handoff.id == report->handoff && is_echo(placement, report);

    if (world->config.mutation == MUTATION_OLD_RELEASE &&
        placement->handoff.stage == SIM_HANDOFF_RELEASING && placement->owner == report->agent)
        believed = true;
    world->tally->of[believed ? TALLY_RELEASED : TALLY_STALE_RELEASED]++;
    if (!believed)
        return;
    checks_believed(world, report);
    take_t1(world, report);
    placement->handoff.stage = SIM_HANDOFF_ACTIVATING;
    place(world, report->processor, placement->handoff.target);
    publish(world);
}

static void hear_owner(struct world *world, const struct sim_report *report)
{
    struct sim_placement *placement = placement_of(world, report->processor);

    take_t1(world, report);
    if (report->state == TASK_STATE_ACTIVE) {
        placement->newest_active = report->epoch;
        if (placement->handoff.stage == SIM_HANDOFF_ACTIVATING) {
            placement->handoff.stage = SIM_HANDOFF_NONE;
            world->tally->of[TALLY_HANDOFF_DONE]++;
        }
    }
    placement->fenced = report->state == TASK_STATE_FENCED;
    placement->failed =
        report->state == TASK_STATE_FAILED &&
        (strncmp(report->code, "history_", 8) == 0 || strcmp(report->code, "state_ahead") == 0);
    if (report->state == TASK_STATE_FAILED && strcmp(report->code, "record_failed") == 0 &&
        world->calm)
        coordinator_respec(world);
}

static void hear(struct world *world, const struct sim_report *report)
{
    if (report->start != world->agents[report->agent].starts) { /* 409 superseded */
        world->tally->of[TALLY_SUPERSEDED]++;
        return;
    }
    world->coordinator.contacts[report->agent].heard_ms = world->now_ms;
    if (report->learner)
        hear_learner(world, report);
    else if (report->released)
        hear_released(world, report);
    else if (is_echo(placement_of(world, report->processor), report))
        hear_owner(world, report);
    else if (report->state == TASK_STATE_FENCED) /* an observation, no more, as all others */
        world->tally->of[TALLY_STALE_FENCED]++;
}

static void serve_mail(struct world *world)
{
    struct sim_coordinator *self = &world->coordinator;

    for (size_t i = 0; i < self->mail_count;) {
        struct sim_report report = self->mail[i];

        if (report.due_ms > world->now_ms) {
            i++;
            continue;
        }
        self->mail_count--;
        for (size_t k = i; k < self->mail_count; k++)
            self->mail[k] = self->mail[k + 1];
        hear(world, &report);
    }
}

static void serve_follow(struct world *world, uint32_t processor)
{
    struct sim_follow *follow = &placement_of(world, processor)->follow;

    if (!follow->sending || follow->due_ms > world->now_ms || !is_reachable(world, follow->agent))
        return;
    follow->sending = false;
    world->tally->of[TALLY_FOLLOW]++;
    agent_take_follow(world, follow->agent, processor, follow->t1);
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

    if (placement->idle) {
        if (world->now_ms >= placement->back_ms)
            coordinator_move(world, processor, is_alive(world, other) ? other : placement->owner);
        return;
    }
    if (placement->handoff.target == other && placement->handoff.stage != SIM_HANDOFF_NONE &&
        world->now_ms - world->coordinator.contacts[other].heard_ms > LOST_MS)
        coordinator_cancel(world, processor);
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
    serve_mail(world);
    for (size_t i = 0; i < WORLD_AGENTS; i++)
        serve_contact(world, i);
    for (uint32_t i = 0; i < world->kafka.processor_count; i++) {
        serve_follow(world, i);
        serve_placement(world, i);
    }
}

int64_t coordinator_due_ms(const struct world *world)
{
    int64_t due_ms = world->now_ms + 500;

    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        const struct sim_contact *contact = &world->coordinator.contacts[i];

        if (is_reachable(world, i) && contact->sending && contact->due_ms < due_ms)
            due_ms = contact->due_ms;
    }
    for (size_t i = 0; i < world->coordinator.mail_count; i++) {
        if (world->coordinator.mail[i].due_ms < due_ms)
            due_ms = world->coordinator.mail[i].due_ms;
    }
    for (size_t i = 0; i < world->kafka.processor_count; i++) {
        const struct sim_follow *follow = &world->coordinator.placements[i].follow;

        if (follow->sending && is_reachable(world, follow->agent) && follow->due_ms < due_ms)
            due_ms = follow->due_ms;
    }
    return due_ms;
}
