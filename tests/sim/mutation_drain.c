/* Rules of drains and cordons, broken on purpose. */
#include <string.h>

#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"
#include "tests/sim/mutation.h"
#include "tests/sim/world.h"

static bool is_draining(const struct agent *agent)
{
    return agent->row.drain.asked && agent->row.drain.state == DRAIN_STATE_DRAINING;
}

static bool is_from(const struct handoff *handoff, const char *agent_id)
{
    return strcmp(handoff->row.source, agent_id) == 0;
}

static bool is_wish(const struct coord_event *event)
{
    return event->kind == COORD_EVENT_ELIGIBILITY || event->kind == COORD_EVENT_DRAIN ||
           event->kind == COORD_EVENT_DRAIN_CANCEL;
}

/* ---- what the core knows while it decides; put back after the step */

static void hide_wishes(struct cluster *cluster, enum mutation mutation)
{
    for (size_t i = 0; i < cluster->agents.count; i++) {
        struct agent *agent = cluster->agents.items[i];

        if (mutation == MUTATION_LEAVER_RECEIVES && agent->drain_deadline_ms == 0)
            agent->row.drain.asked = false;
        else if (mutation == MUTATION_CORDON_RECEIVES)
            agent->row.eligibility.cordoned = false;
    }
}

static void put_wishes_back(struct world *world, enum mutation mutation)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        struct agent *agent = cluster_agent(&world->host.cluster, agent_name(i));

        if (agent != NULL && mutation == MUTATION_LEAVER_RECEIVES &&
            world->checks.leavers[i].leaving)
            agent->row.drain.asked = true;
        if (agent != NULL && mutation == MUTATION_CORDON_RECEIVES &&
            world->checks.leavers[i].cordoned)
            agent->row.eligibility.cordoned = true;
    }
}

static bool is_due(const struct world *world, const struct agent *agent)
{
    const struct agent_drain *drain = &agent->row.drain;

    return is_draining(agent) && drain->on_deadline == DRAIN_DEADLINE_FORCE &&
           drain->deadline_at != API_UNKNOWN && world->now_ms >= drain->deadline_at - HOST_WALL_MS;
}

/* Overdue or not, the core is not told before the step, but the world sees it. */
static void set_overdue(struct world *world, bool overdue)
{
    struct cluster *cluster = &world->host.cluster;

    for (size_t i = 0; i < cluster->agents.count; i++) {
        struct agent *agent = cluster->agents.items[i];

        if (!is_due(world, agent))
            continue;
        agent->row.drain.overdue = overdue;
        agent->drain_deadline_ms = 0;
    }
}

static void end_times(struct world *world)
{
    struct cluster *cluster = &world->host.cluster;

    for (size_t i = 0; i < cluster->agents.count; i++) {
        if (cluster->agents.items[i]->drain_deadline_ms != 0 && world_between(world, 0, 30) == 0)
            cluster->agents.items[i]->drain_deadline_ms = world->now_ms;
    }
}

/* The planner's are taken for somebody's, who is not asked. */
static void set_planned(struct world *world, const struct coord_event *event, bool planned)
{
    struct cluster *cluster = &world->host.cluster;

    for (size_t i = 0; i < cluster->handoffs.count; i++) {
        struct handoff *handoff = cluster->handoffs.items[i];

        if (is_from(handoff, event->name) && handoff->row.operation == 0)
            handoff->row.planned = planned;
    }
}

void mutation_bend_drain_event(struct world *world, const struct coord_event *event)
{
    enum mutation mutation = world->config.mutation;

    switch (mutation) {
    case MUTATION_LEAVER_RECEIVES:
    case MUTATION_CORDON_RECEIVES:
        if (!is_wish(event))
            hide_wishes(&world->host.cluster, mutation);
        break;
    case MUTATION_DEADLINE_WAITS:
        set_overdue(world, false);
        break;
    case MUTATION_DEADLINE_EARLY:
        if (event->kind != COORD_EVENT_START)
            end_times(world);
        break;
    case MUTATION_DRAIN_KEEPS_MOVING:
        if (event->kind == COORD_EVENT_DRAIN_CANCEL)
            set_planned(world, event, false);
        break;
    default:
        break;
    }
}

/* ---- what the core decides */

static bool owns_nothing(const struct world *world, const char *agent_id)
{
    const struct job *job = host_job(world);

    for (size_t i = 0; job != NULL && i < job->processors.count; i++) {
        if (rows_text_equal(job->processors.items[i].placement.agent, agent_id))
            return false;
    }
    return true;
}

static void call_drained(struct world *world)
{
    struct cluster *cluster = &world->host.cluster;

    for (size_t i = 0; i < cluster->agents.count; i++) {
        struct agent *agent = cluster->agents.items[i];

        if (is_draining(agent) && owns_nothing(world, agent->row.agent_id))
            agent->row.drain.state = DRAIN_STATE_DRAINED;
    }
}

/* A start begins to work when Kafka's stamps have been read. */
static bool begins_work(const struct update *update)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct change *change = &update->changes.items[i];

        if (change->kind == CHANGE_EVENT && strcmp(change->event.kind, "coordinator_started") == 0)
            return true;
    }
    return false;
}

static void forget_deadlines(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->agents.count; i++)
        cluster->agents.items[i]->drain_deadline_ms = 0;
}

static void forget_wishes(struct world *world, const struct coord_event *event)
{
    struct agent *agent = cluster_agent(&world->host.cluster, event->registration.agent_id);

    if (agent == NULL)
        return;
    agent->row.drain.asked = false;
    agent->row.eligibility.cordoned = false;
}

/* It was taken from its owner in this step because that one's drain is overdue. */
static bool is_forced_out(const struct world *world, const struct processor *processor)
{
    const struct checks_owner *before = &world->checks.before[processor->placement.processor];

    return before->agent >= 0 && processor->placement.agent != NULL && processor->handoff != NULL &&
           processor->handoff->row.forced && checks_is_forced_out(world, (size_t)before->agent) &&
           agent_of_name(processor->placement.agent) != (size_t)before->agent;
}

static void give_to(struct processor *processor, const struct agent *agent)
{
    rows_text_set(&processor->placement.agent, agent->row.agent_id);
    rows_text_set(&processor->placement.agent_incarnation, agent->row.incarnation);
    rows_text_set(&processor->handoff->row.target, agent->row.agent_id);
    rows_text_set(&processor->handoff->row.target_incarnation, agent->row.incarnation);
}

static void bend_forced(struct world *world, struct update *update)
{
    const struct job *job = host_job(world);

    for (size_t i = 0; job != NULL && i < job->processors.count; i++) {
        struct processor *processor = &job->processors.items[i];
        const struct checks_owner *before = &world->checks.before[i];

        if (!is_forced_out(world, processor))
            continue;
        if (world->config.mutation == MUTATION_FORCE_KEEPS_EPOCH)
            mutation_keep_epoch(update, processor, before->epoch);
        else
            give_to(processor,
                    cluster_agent(&world->host.cluster, agent_name((size_t)before->agent)));
    }
}

void mutation_bend_drain_update(struct world *world, const struct coord_event *event,
                                struct update *update)
{
    enum mutation mutation = world->config.mutation;

    switch (mutation) {
    case MUTATION_DRAINED_EARLY:
        call_drained(world);
        break;
    case MUTATION_DRAIN_FORGOTTEN:
        if (event->kind == COORD_EVENT_AGENT_REGISTER)
            forget_wishes(world, event);
        break;
    case MUTATION_DRAIN_KEEPS_MOVING:
        if (event->kind == COORD_EVENT_DRAIN_CANCEL)
            set_planned(world, event, true);
        break;
    case MUTATION_LEAVER_RECEIVES:
    case MUTATION_CORDON_RECEIVES:
        if (!is_wish(event))
            put_wishes_back(world, mutation);
        break;
    case MUTATION_DEADLINE_FORGOTTEN:
        if (begins_work(update))
            forget_deadlines(&world->host.cluster);
        break;
    case MUTATION_DEADLINE_WAITS:
        set_overdue(world, true);
        break;
    case MUTATION_FORCE_KEEPS_EPOCH:
    case MUTATION_FORCE_TO_LEAVER:
        bend_forced(world, update);
        break;
    default:
        break;
    }
}
