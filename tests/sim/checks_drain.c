/* What must hold of agents that people cordon, or ask to leave. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/core/handoff.h"
#include "coordinator/core/placing.h"
#include "tests/sim/world.h"

/* So often in a row is more than the order of things within a step. */
#define IDLE_STEPS_MAX 3

static const struct agent *known(const struct world *world, size_t agent)
{
    return world->host.loaded ? cluster_agent(&world->host.cluster, agent_name(agent)) : NULL;
}

static bool is_leaving(const struct agent *agent)
{
    return agent != NULL && agent->row.drain.asked &&
           agent->row.drain.state != DRAIN_STATE_CANCELLED;
}

static bool is_draining(const struct agent *agent)
{
    return agent->row.drain.asked && agent->row.drain.state == DRAIN_STATE_DRAINING;
}

static bool is_forced_out(const struct agent *agent)
{
    return agent != NULL && is_draining(agent) && agent->row.drain.overdue &&
           agent->row.drain.on_deadline == DRAIN_DEADLINE_FORCE;
}

bool checks_is_leaving(const struct world *world, size_t agent)
{
    return is_leaving(known(world, agent));
}

bool checks_is_forced_out(const struct world *world, size_t agent)
{
    return is_forced_out(known(world, agent));
}

/* ---- before a step */

void checks_before_drain(struct world *world)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        const struct agent *agent = known(world, i);

        world->checks.leavers[i].leaving = is_leaving(agent);
        world->checks.leavers[i].overdue = agent != NULL && agent->row.drain.overdue;
        world->checks.leavers[i].cordoned = agent != NULL && agent->row.eligibility.cordoned;
    }
}

/* ---- who is to leave */

static void check_drained(struct world *world, size_t agent)
{
    const struct job *job = host_job(world);

    for (uint32_t i = 0; job != NULL && i < job->processors.count; i++) {
        struct checks_owner owner = checks_describe(world, &job->processors.items[i]);

        if (owner.agent == (int)agent)
            checks_fail(world, "agent %zu is drained and owns processor %u", agent, i);
        if (owner.handoff != 0 && owner.source == (int)agent)
            checks_fail(world, "agent %zu is drained, but its hand-over of processor %u goes on",
                        agent, i);
    }
}

/* Times of the events are those of the world, see coordinator_host.h. */
static void check_deadline(struct world *world, size_t agent, const struct agent_drain *drain,
                           const struct update *update)
{
    int64_t due_ms = drain->deadline_at - HOST_WALL_MS;

    if (drain->deadline_at == API_UNKNOWN || drain->overdue ||
        world->host.cluster.recovery.state != RECOVERY_NONE)
        return;
    if (world->now_ms >= due_ms)
        checks_fail(world, "the drain of agent %zu goes on %lld ms after its deadline", agent,
                    (long long)(world->now_ms - due_ms));
    else if (update->wake_ms > due_ms)
        checks_fail(world, "the drain of agent %zu has a deadline, but nothing wakes for it",
                    agent);
}

static bool is_of(const struct coord_event *event, enum coord_event_kind kind, size_t agent)
{
    const char *name = kind == COORD_EVENT_AGENT_REGISTER && event->kind == kind
                           ? event->registration.agent_id
                           : event->name;

    return event->kind == kind && strcmp(name, agent_name(agent)) == 0;
}

/* What people asked for lasts. */
static void check_lasts(struct world *world, size_t index, const struct agent *agent,
                        const struct coord_event *event)
{
    const struct checks_leaver *before = &world->checks.leavers[index];
    const struct agent_drain *drain = &agent->row.drain;
    bool anew = drain->until_restart && is_of(event, COORD_EVENT_AGENT_REGISTER, index);
    bool late = drain->on_deadline == DRAIN_DEADLINE_CANCEL && drain->deadline_at != API_UNKNOWN &&
                world->now_ms >= drain->deadline_at - HOST_WALL_MS;

    if (before->leaving && !is_leaving(agent) &&
        (!drain->asked || (!anew && !late && !is_of(event, COORD_EVENT_DRAIN_CANCEL, index))))
        checks_fail(world, "agent %zu is not to leave any more, but nobody said so", index);
    if (before->cordoned && !agent->row.eligibility.cordoned &&
        !is_of(event, COORD_EVENT_ELIGIBILITY, index))
        checks_fail(world, "agent %zu is not cordoned any more, but nobody said so", index);
}

/* It is over for the reason that its time is. */
static void check_not_early(struct world *world, size_t agent, const struct agent_drain *drain)
{
    const struct checks_leaver *before = &world->checks.leavers[agent];
    bool forced = drain->overdue && !before->overdue;
    bool cancelled = drain->state == DRAIN_STATE_CANCELLED && before->leaving &&
                     drain->error != NULL && strstr(drain->error, "deadline") != NULL;

    if ((forced || cancelled) &&
        (drain->deadline_at == API_UNKNOWN || world->now_ms < drain->deadline_at - HOST_WALL_MS))
        checks_fail(world, "the drain of agent %zu is called late before its deadline", agent);
}

static void check_cancelled(struct world *world, size_t agent)
{
    const struct job *job = host_job(world);

    for (uint32_t i = 0; job != NULL && i < job->processors.count; i++) {
        const struct handoff *handoff = job->processors.items[i].handoff;

        if (handoff != NULL && handoff->row.id == world->checks.before[i].handoff &&
            handoff->row.planned && handoff_before_release(handoff->row.state) &&
            agent_of_name(handoff->row.source) == agent)
            checks_fail(world, "the drain of agent %zu is cancelled, but processor %u leaves it",
                        agent, i);
    }
}

/* ---- what is forced */

static bool is_refused(const struct job *job, const struct agent *agent)
{
    const struct arrival_row *arrival = cluster_arrival(job, agent->row.agent_id);

    return arrival != NULL && arrival->refused != NULL;
}

static bool anybody_could_take(const struct world *world, const struct job *job)
{
    const struct cluster *cluster = &world->host.cluster;
    uint32_t *tasks = cluster_count_tasks(cluster);
    bool found = false;

    for (size_t i = 0; i < cluster->agents.count; i++)
        found = found || (placing_may_receive(cluster, cluster->agents.items[i], world->now_ms) &&
                          tasks[i] < cluster->agents.items[i]->row.capacity &&
                          !is_refused(job, cluster->agents.items[i]));
    free(tasks);
    return found;
}

static bool has_left_over(const struct world *world, size_t agent)
{
    const struct job *job = host_job(world);

    if (job == NULL || job->row.state != JOB_STATE_RUNNING || !anybody_could_take(world, job))
        return false;
    for (size_t i = 0; i < job->processors.count; i++) {
        const struct processor *processor = &job->processors.items[i];
        struct checks_owner owner = checks_describe(world, processor);

        if (owner.agent == (int)agent &&
            (owner.handoff == 0 || handoff_before_release(owner.state)) &&
            world->now_ms >= processor->handoff_retry_ms)
            return true;
    }
    return false;
}

static void check_forced_out(struct world *world, size_t agent, const struct agent *row)
{
    uint32_t *idle_steps = &world->checks.leavers[agent].idle_steps;
    /* While it asks Kafka whether its database is of today, it decides nothing. */
    bool decides = world->host.cluster.recovery.state == RECOVERY_NONE;

    *idle_steps =
        decides && is_forced_out(row) && has_left_over(world, agent) ? *idle_steps + 1 : 0;
    if (*idle_steps > IDLE_STEPS_MAX)
        checks_fail(world, "the drain of agent %zu is overdue, but what is left is not taken",
                    agent);
}

/* ---- who receives */

static bool may_receive(const struct world *world, int agent)
{
    const struct agent *row = agent >= 0 ? known(world, (size_t)agent) : NULL;

    return row == NULL || (!row->row.eligibility.cordoned && !is_leaving(row));
}

/* It goes back to who gave it up: the state is there. */
static bool returns_to(const struct checks_owner *before, int agent)
{
    return before->handoff != 0 && !handoff_before_release(before->state) &&
           before->source == agent;
}

static bool had_almost_arrived(const struct checks_owner *before, int agent)
{
    return before->handoff != 0 && before->target == agent &&
           before->state == HANDOFF_STATE_RELEASING;
}

static void check_receiver(struct world *world, uint32_t processor,
                           const struct checks_owner *after)
{
    const struct checks_owner *before = &world->checks.before[processor];
    bool begins = after->handoff != 0 &&
                  (after->handoff != before->handoff || after->target != before->target);
    bool learns = after->handoff != 0 && (after->state == HANDOFF_STATE_LEARNING ||
                                          after->state == HANDOFF_STATE_CAUGHT_UP);

    /* What a split makes has to go somewhere: at worst to its source. */
    if (processor >= world->checks.processors && after->source == after->target &&
        !anybody_could_take(world, host_job(world)))
        return;
    if (begins && !may_receive(world, after->target) &&
        (after->handoff != before->handoff || !returns_to(before, after->target)))
        checks_fail(world, "processor %u goes to agent %d, which is cordoned or to leave",
                    processor, after->target);
    if (learns && !may_receive(world, after->target))
        checks_fail(world, "processor %u is learned on agent %d, which is cordoned or to leave",
                    processor, after->target);
    if (after->agent != before->agent && !may_receive(world, after->agent) &&
        !returns_to(before, after->agent) && !had_almost_arrived(before, after->agent))
        checks_fail(world, "processor %u is given to agent %d, which is cordoned or to leave",
                    processor, after->agent);
}

static void check_at_rest(struct world *world, uint32_t processor, const struct checks_owner *after)
{
    const struct checks_owner *before = &world->checks.before[processor];

    if (after->agent != before->agent || after->epoch != before->epoch || after->handoff != 0)
        checks_fail(world, "processor %u moves although only a drained agent was stopped",
                    processor);
}

/* ---- after a step */

static void check_agent(struct world *world, size_t index, const struct coord_event *event,
                        const struct update *update)
{
    const struct agent *agent = known(world, index);

    if (agent != NULL)
        check_lasts(world, index, agent, event);
    if (agent == NULL || !agent->row.drain.asked) {
        world->checks.leavers[index].idle_steps = 0;
        return;
    }
    check_not_early(world, index, &agent->row.drain);
    check_forced_out(world, index, agent);
    if (agent->row.drain.state == DRAIN_STATE_DRAINED)
        check_drained(world, index);
    else if (is_draining(agent))
        check_deadline(world, index, &agent->row.drain, update);
    else if (world->checks.leavers[index].leaving)
        check_cancelled(world, index);
}

void checks_after_drain(struct world *world, const struct coord_event *event,
                        const struct update *update)
{
    const struct job *job = host_job(world);

    for (size_t i = 0; i < WORLD_AGENTS; i++)
        check_agent(world, i, event, update);
    for (uint32_t i = 0; job != NULL && i < job->processors.count; i++) {
        struct checks_owner after = checks_describe(world, &job->processors.items[i]);

        check_receiver(world, i, &after);
        if (world->checks.at_rest)
            check_at_rest(world, i, &after);
    }
}

/* By its own words (coordinator/core/step_drain.c). */
void checks_note_drain(struct world *world, const struct event_view *event)
{
    if (strcmp(event->kind, "drain_cancelled") != 0)
        return;
    world->tally->of[TALLY_DRAIN_ENDED_LATE] += strstr(event->detail, "deadline") != NULL;
    world->tally->of[TALLY_DRAIN_ENDED_ANEW] += strstr(event->detail, "started anew") != NULL;
}
