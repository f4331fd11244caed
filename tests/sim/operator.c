#include "tests/sim/operator.h"

#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/dry_run.h"
#include "tests/sim/world.h"

#define ASK_PAUSE_MS 300

/* ---- who may receive */

/* What the people ask with is the number of the request; 0: it could not be sent. */
/* Some look first, and want what they have seen; by the time they are heard it may be another. */
static uint64_t ask(struct world *world, struct coord_event *event)
{
    char plan[API_PLAN_ID_BYTES + 1];

    event->now_ms = world->now_ms;
    event->now_at = HOST_WALL_MS + world->now_ms;
    if (world->host.loaded && world_between(world, 0, 1) == 0 &&
        dry_run_identify(&world->host.cluster, event, plan))
        *step_plan_of(event) = mem_strdup(plan);
    return host_ask(world, event);
}

static uint64_t set_eligible(struct world *world, size_t agent, bool schedulable)
{
    struct coord_event event = {.kind = COORD_EVENT_ELIGIBILITY,
                                .name = mem_strdup(agent_name(agent)),
                                .eligibility = {.schedulable = schedulable}};

    return ask(world, &event);
}

static uint64_t drain(struct world *world, size_t agent, struct drain_request wish)
{
    struct coord_event event = {.kind = COORD_EVENT_DRAIN, .name = mem_strdup(agent_name(agent))};

    event.drain = wish;
    return ask(world, &event);
}

static uint64_t cancel_drain(struct world *world, size_t agent)
{
    struct coord_event event = {.kind = COORD_EVENT_DRAIN_CANCEL,
                                .name = mem_strdup(agent_name(agent))};

    return host_ask(world, &event);
}

static bool is_leaving(const struct agent_row *row)
{
    return row->drain.asked && row->drain.state != DRAIN_STATE_CANCELLED;
}

static struct drain_request draw_drain(struct world *world)
{
    static const int64_t longest_ms[] = {100, 3000, 30000};
    struct drain_request wish = {.deadline_ms = API_UNKNOWN};

    if (world_between(world, 0, 2) > 0)
        wish.deadline_ms = world_between(world, 1, longest_ms[world_between(world, 0, 2)]);
    wish.on_deadline =
        world_between(world, 0, 2) > 0 ? DRAIN_DEADLINE_FORCE : DRAIN_DEADLINE_CANCEL;
    return wish;
}

void operator_send_away(struct world *world, size_t agent)
{
    struct sim_operator *self = &world->operator;

    self->leaver = (int)agent;
    self->parting = draw_drain(world);
    self->parting_ms = 0;
    world_trace(world, "agent %zu is to leave in the end", agent);
}

/* As the coordinator publishes it: what is durable. */
static const char *miss_of_agent(const struct world *world, size_t agent)
{
    const struct sim_operator *self = &world->operator;
    const struct agent_row *row = durable_agent(&world->durable, agent_name(agent));
    bool leaves = self->leaver == (int)agent;

    if (row == NULL)
        return leaves ? "an agent to leave that is not known" : NULL;
    if (row->eligibility.cordoned)
        return "a cordoned agent";
    if (!leaves)
        return is_leaving(row) ? "an agent that is to leave" : NULL;
    if (!row->drain.asked || self->parting_ms == 0)
        return "an agent that is not asked to leave";
    return row->drain.state == DRAIN_STATE_DRAINING ? "an agent that has not left" : NULL;
}

const char *operator_miss(const struct world *world)
{
    const char *missing = NULL;

    for (size_t i = 0; world->operator.reopens && i<WORLD_AGENTS && missing == NULL; i++)
        missing = miss_of_agent(world, i);
    return missing;
}

/* The next thing that is to be asked for; 0: none is. */
static uint64_t tidy(struct world *world)
{
    struct sim_operator *self = &world->operator;

    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        const struct agent_row *row = durable_agent(&world->durable, agent_name(i));

        if (row == NULL)
            continue;
        if (row->eligibility.cordoned)
            return set_eligible(world, i, true);
        if (self->leaver != (int)i && is_leaving(row))
            return cancel_drain(world, i);
    }
    if (self->leaver >= 0) {
        const struct agent_row *row =
            durable_agent(&world->durable, agent_name((size_t)self->leaver));

        if (row != NULL && (self->parting_ms == 0 || !row->drain.asked))
            return drain(world, (size_t)self->leaver, self->parting);
    }
    return 0;
}

/* ---- the job */

static void make_spec(const struct world *world, struct job_spec *ret_spec)
{
    const struct world_config *config = &world->config;
    char **inputs = mem_calloc(1, sizeof(char *));

    schema_default(&schema_job_spec, ret_spec);
    inputs[0] = mem_strdup("in");
    ret_spec->inputs.items = inputs;
    ret_spec->inputs.count = 1;
    ret_spec->output = mem_strdup("out");
    ret_spec->group_id = mem_strdup("group");
    ret_spec->logic.kind = LOGIC_KIND_BUILTIN;
    ret_spec->logic.name = mem_strdup("count");
    ret_spec->delivery = config->exactly_once ? DELIVERY_EXACTLY_ONCE : DELIVERY_AT_LEAST_ONCE;
    ret_spec->stateful = config->stateful;
    ret_spec->processors = (uint32_t)config->processors;
    ret_spec->start = START_EARLIEST;
    ret_spec->acceptable_lag = config->acceptable_lag;
    ret_spec->settle_ms = world->config.grows ? 200 : 2000;
    ret_spec->max_learners = config->max_learners;
    ret_spec->standbys = config->standbys;
    ret_spec->seed = (enum seed)(config->seed / 6 % 3);
    ret_spec->rejoin_grace_ms = config->rejoin_grace_ms;
    ret_spec->on_error = world->operator.wants_skip ? ON_ERROR_SKIP : ON_ERROR_HALT;
}

static void put(struct world *world)
{
    struct coord_event event = {.kind = COORD_EVENT_JOB_PUT, .name = mem_strdup(WORLD_JOB)};

    make_spec(world, &event.spec);
    world->operator.request = host_ask(world, &event);
}

static void delete (struct world *world)
{
    struct coord_event event = {.kind = COORD_EVENT_JOB_DELETE, .name = mem_strdup(WORLD_JOB)};

    world->operator.request = host_ask(world, &event);
}

static void hold(struct world *world, const struct job *job)
{
    struct sim_operator *self = &world->operator;
    struct coord_event event = {.kind = COORD_EVENT_MAINTENANCE};

    if (job->row.pause.on != self->wants_pause) {
        event.kind = self->wants_pause ? COORD_EVENT_PAUSE : COORD_EVENT_RESUME;
        event.name = mem_strdup(WORLD_JOB);
        world->tally->of[self->wants_pause ? TALLY_JOB_PAUSED : TALLY_JOB_RESUMED]++;
    } else if (world->host.cluster.maintenance.hold.on != self->wants_maintenance) {
        event.maintenance.enabled = self->wants_maintenance;
        world->tally->of[TALLY_MAINTENANCE]++;
    } else {
        return;
    }
    self->request = host_ask(world, &event);
}

void operator_turn(struct world *world)
{
    struct sim_operator *self = &world->operator;
    const struct job *job = host_job(world);

    if (!world->host.alive || !world->host.loaded || self->request != 0 ||
        world->now_ms < self->ask_ms)
        return;
    self->ask_ms = world->now_ms + ASK_PAUSE_MS;
    if (self->wants_job &&
        (job == NULL || (job->row.state == JOB_STATE_RUNNING &&
                         (job->row.spec.on_error == ON_ERROR_SKIP) != self->wants_skip)))
        put(world);
    else if (!self->wants_job && job != NULL && job->row.state != JOB_STATE_DELETING)
        delete (world);
    else if (job != NULL && job->row.state == JOB_STATE_RUNNING)
        hold(world, job);
    if (self->request == 0 && self->reopens)
        self->request = tidy(world);
}

int64_t operator_due_ms(const struct world *world)
{
    return world->operator.request == 0 && world->host.alive ? world->operator.ask_ms : INT64_MAX;
}

void operator_take(struct world *world, const struct sim_request *request,
                   const struct answer *answer)
{
    struct sim_operator *self = &world->operator;

    if (request->id == self->request) {
        self->request = 0;
        if (request->event == COORD_EVENT_DRAIN && answer->status < 300)
            self->parting_ms = world->now_ms;
    }
    if (request->event == COORD_EVENT_DRAIN && answer->type == &schema_problem_body &&
        strcmp(((const struct problem_body *)answer->body)->code, "drain_refused") == 0)
        world->tally->of[TALLY_DRAIN_REFUSED]++;
    world_trace(world, "people are answered %u", answer->status);
    world->tally->of[answer->status < 300 ? TALLY_ASKED : TALLY_ASKED_IN_VAIN]++;
}

void operator_forget(struct world *world)
{
    world->operator.request = 0;
}

/* ---- wishes */

void operator_move(struct world *world, uint32_t processor, int agent)
{
    struct coord_event event = {.kind = COORD_EVENT_MOVE, .name = mem_strdup(WORLD_JOB)};

    event.move.processor = processor;
    event.move.agent = agent >= 0 ? mem_strdup(agent_name((size_t)agent)) : NULL;
    (void)ask(world, &event);
}

void operator_rebalance(struct world *world)
{
    struct coord_event event = {.kind = COORD_EVENT_REBALANCE, .name = mem_strdup(WORLD_JOB)};

    (void)ask(world, &event);
}

/* One more, or as many as there can be. */
static void expand_processors(struct world *world)
{
    const struct job *job = host_job(world);
    struct coord_event event = {.kind = COORD_EVENT_EXPAND, .name = mem_strdup(WORLD_JOB)};
    int64_t now = job != NULL ? (int64_t)job->row.processors : 1;

    event.expansion.partitions = API_UNKNOWN;
    event.expansion.processors =
        world_between(world, 0, 1) == 0 ? now + 1 : (int64_t)world->kafka.partition_count;
    (void)host_ask(world, &event);
}

static void move_any(struct world *world)
{
    uint32_t processor = (uint32_t)world_between(world, 0, (int64_t)world->config.processors - 1);

    operator_move(world, processor, (int)world_between(world, -1, WORLD_AGENTS - 1));
}

static void cancel_handoff(struct world *world)
{
    const struct cluster *cluster = &world->host.cluster;
    struct coord_event event = {.kind = COORD_EVENT_HANDOFF_CANCEL};

    if (cluster->handoffs.count == 0)
        return;
    event.handoff =
        cluster->handoffs.items[world_between(world, 0, (int64_t)cluster->handoffs.count - 1)]
            ->row.id;
    (void)host_ask(world, &event);
}

static void ask_of_operation(struct world *world, enum coord_event_kind kind)
{
    const struct cluster *cluster = &world->host.cluster;
    struct coord_event event = {.kind = kind};

    if (cluster->operations.count == 0)
        return;
    event.operation = cluster->operations.items[cluster->operations.count - 1]->row.id;
    if (kind == COORD_EVENT_OPERATION_WAIT)
        event.wait_ms = world_between(world, 0, world->config.core.poll_wait_ms_max);
    (void)host_ask(world, &event);
}

static void forget_agent(struct world *world)
{
    struct coord_event event = {
        .kind = COORD_EVENT_AGENT_FORGET,
        .name = mem_strdup(agent_name((size_t)world_between(world, 0, WORLD_AGENTS - 1)))};

    (void)host_ask(world, &event);
}

static size_t any_agent(struct world *world)
{
    return (size_t)world_between(world, 0, (int64_t)world->config.agents - 1);
}

static void drain_any(struct world *world)
{
    struct drain_request wish = draw_drain(world);

    wish.until_restart = world_between(world, 0, 3) == 0;
    (void)drain(world, any_agent(world), wish);
}

static void reopen(struct world *world)
{
    for (size_t i = 0; i < world->config.agents; i++) {
        const struct agent_row *row = durable_agent(&world->durable, agent_name(i));

        if (row != NULL && row->eligibility.cordoned)
            (void)set_eligible(world, i, true);
        if (row != NULL && row->drain.asked)
            (void)cancel_drain(world, i);
    }
}

void operator_stop(struct world *world, size_t agent)
{
    world->tally->of[TALLY_SAFE_STOP]++;
    world_trace(world, "agent %zu is drained, and stopped", agent);
    if (world_between(world, 0, 1) == 0) {
        link_leave(world, agent);
        return;
    }
    agent_crash(world, agent);
    world->agents[agent].back_ms = world->now_ms + world_between(world, 1, 20000);
}

static void stop_drained(struct world *world)
{
    for (size_t i = 0; i < world->config.agents; i++) {
        const struct agent_row *row = durable_agent(&world->durable, agent_name(i));

        if (row != NULL && row->drain.asked && row->drain.state == DRAIN_STATE_DRAINED &&
            world->agents[i].alive && !world->agents[i].paused)
            operator_stop(world, i);
    }
}

/* A record that stops somebody, as far as is known, or any other: which is refused. */
static void skip_any(struct world *world)
{
    const struct job *job = host_job(world);
    struct coord_event event = {.kind = COORD_EVENT_SKIP, .name = mem_strdup(WORLD_JOB)};
    uint32_t processor = (uint32_t)world_between(world, 0, (int64_t)world->config.processors - 1);
    const struct task_report *report =
        job != NULL ? cluster_report(&world->host.cluster, &job->processors.items[processor])
                    : NULL;

    event.skip.topic = mem_strdup("in");
    event.skip.partition = processor;
    event.skip.offset = world_between(world, 0, 200);
    if (report != NULL && report->halted.count > 0) {
        event.skip.partition = report->halted.items[0].partition;
        event.skip.offset = report->halted.items[0].offset;
    }
    (void)host_ask(world, &event);
}

/* By doubling; refused where the world's counts do not allow it. */
static void double_partitions(struct world *world)
{
    struct coord_event event = {.kind = COORD_EVENT_EXPAND, .name = mem_strdup(WORLD_JOB)};

    event.expansion.processors = API_UNKNOWN;
    event.expansion.partitions = (int64_t)world->kafka.partition_count * 2;
    if (event.expansion.partitions > KAFKA_PARTITIONS_MAX)
        event.expansion.partitions = 1; /* which is refused */
    (void)host_ask(world, &event);
}

void operator_strike(struct world *world)
{
    if (!world->host.loaded || world->config.left_alone)
        return;
    if (world->config.grows && world->steps % 2 == 1) {
        if (world->kafka.partition_count * 2 <= KAFKA_PARTITIONS_MAX)
            double_partitions(world);
        else
            expand_processors(world);
        return;
    }
    if (world->config.expands && world->steps % 4 == 0) {
        expand_processors(world);
        return;
    }
    switch (world_between(world, 0, 19)) {
    case 19:
        double_partitions(world);
        break;
    case 0:
        operator_rebalance(world);
        break;
    case 1:
        cancel_handoff(world);
        break;
    case 2:
        ask_of_operation(world, COORD_EVENT_OPERATION_CANCEL);
        break;
    case 3:
        ask_of_operation(world, COORD_EVENT_OPERATION_WAIT);
        break;
    case 4:
        forget_agent(world);
        break;
    case 5:
        host_leave(world);
        break;
    case 6:
        if (world_between(world, 0, 3) == 0)
            world->operator.wants_skip = true;
        break;
    case 7:
        (void)set_eligible(world, any_agent(world), false);
        break;
    case 8:
    case 9:
        drain_any(world);
        break;
    case 10:
    case 11:
        reopen(world);
        break;
    case 12:
        stop_drained(world);
        break;
    case 13:
        world->operator.wants_pause = !world->operator.wants_pause;
        break;
    case 15:
        skip_any(world);
        break;
    case 14:
        world->operator.wants_maintenance = !world->operator.wants_maintenance;
        break;
    default:
        move_any(world);
        break;
    }
}
