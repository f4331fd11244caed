/* The end: no faults, no input, everybody is back who ever will be. All must come to rest. */
#include <string.h>

#include "coordinator/core/view.h"
#include "tests/sim/world.h"

#define END_MS_MAX     INT64_C(900000) /* virtual: longer than any pause of the core's or Kafka's */
#define END_STEPS_MAX  60000
#define PARTING_MS_MAX 30000 /* after the deadline of a drain, when all works */

/* Its owner can not go on, and is right. */
static bool is_halted(const struct world *world, uint32_t processor)
{
    const struct job *job = host_job(world);
    const struct placement_row *placement = &job->processors.items[processor].placement;

    return placement->agent != NULL && placement->trouble != NULL &&
           strncmp(placement->trouble, "history_", 8) == 0 &&
           checks_is_halted(world, processor, agent_of_name(placement->agent));
}

static bool has_halted(const struct world *world)
{
    for (uint32_t i = 0; i < host_job(world)->processors.count; i++) {
        if (is_halted(world, i))
            return true;
    }
    return false;
}

/* What is missing of it; NULL: nothing. */
static const char *miss_at_work(const struct world *world, uint32_t processor)
{
    const struct processor *at = &host_job(world)->processors.items[processor];
    const struct task_report *report = cluster_report(&world->host.cluster, at);

    if (at->placement.agent == NULL)
        return "a processor without an owner";
    if (at->handoff != NULL)
        return "a hand-over that has not ended";
    if (world_active(world, processor) == NULL)
        return "a processor whose owner is not active";
    if (!at->placement.activated || report == NULL || report->state != TASK_STATE_ACTIVE)
        return "an active owner that the coordinator does not know of";
    return NULL;
}

/* By its owner: without transactions a zombie may have been ahead. */
static bool is_read(const struct world *world, uint32_t processor)
{
    const struct sim_task *task = world_active(world, processor);
    size_t wanted = 0;

    for (size_t i = 0; i < host_job(world)->row.partitions; i++)
        wanted += kafka_processor_of(&world->kafka, i) == processor;
    for (size_t i = 0; i < task->core.partition_count; i++)
        wanted -= task->core.partitions[i].owned;
    if (wanted != 0)
        return false; /* it has not heard of an expansion yet */
    for (size_t i = 0; i < task->core.partition_count; i++) {
        size_t partition = agent_partition(task, i);
        int64_t end = kafka_end_of(&world->kafka, partition);

        if (!task->core.partitions[i].owned)
            continue;
        if (task->core.partitions[i].t1 != end || world->checks.committed[partition] != end)
            return false;
    }
    return true;
}

/* Everybody is here and has heard who owns what. */
static const char *miss_of_agent(const struct world *world, size_t index)
{
    const struct sim_agent *agent = &world->agents[index];
    const struct agent *known = cluster_agent(&world->host.cluster, agent_name(index));

    if (agent->lost)
        return NULL;
    if (!agent->alive || agent->link.leaving != LINK_STAYS)
        return "an agent that is not here";
    if (!agent->link.registered || known == NULL || known->row.state != AGENT_STATE_ALIVE ||
        agent_start_of(known->row.incarnation) != agent->starts)
        return "an agent that is not registered";
    if (cluster_compare_versions(agent->link.after,
                                 cluster_document_version(&world->host.cluster, known)) != 0)
        return "an agent without its newest document";
    return NULL;
}

/* A task where it does not belong, that has not heard of it or is about to end. */
static bool has_strays(const struct world *world, const struct job *job)
{
    for (size_t i = 0; i < WORLD_PROCESSES; i++) {
        for (size_t k = 0; k < job->processors.count; k++) {
            const struct sim_slot *slot = &world->agents[i].slots[k];
            const char *owner = job->processors.items[k].placement.agent;

            if (slot->used && slot->told.role == TASK_ROLE_ACTIVE &&
                (i == WORLD_GHOST || owner == NULL || agent_of_name(owner) != i))
                return true;
        }
    }
    return false;
}

static bool has_operations(const struct world *world)
{
    const struct cluster *cluster = &world->host.cluster;

    for (size_t i = 0; i < cluster->operations.count; i++) {
        if (!view_operation_finished(cluster->operations.items[i]->row.state))
            return true;
    }
    return false;
}

/* New partitions of which the first records are gone: the job leaves all of them, and says so. */
static bool leaves_partitions(const struct world *world, const struct job *job)
{
    for (uint32_t p = job->row.partitions; p < world->kafka.partition_count; p++) {
        if (kafka_range(&world->kafka, p).log_start > 0)
            return job->topics.adopt_error != NULL;
    }
    return false;
}

static const char *miss_of_job(const struct world *world, const struct job *job)
{
    bool halted = false;

    for (uint32_t i = 0; i < job->processors.count; i++) {
        const char *missing = is_halted(world, i) ? NULL : miss_at_work(world, i);

        halted = halted || is_halted(world, i);
        if (missing != NULL)
            return missing;
        if (!is_halted(world, i) && !is_read(world, i))
            return "records that are not read";
    }
    if (job->nascent && !is_halted(world, cluster_parent(job, (uint32_t)job->processors.count)))
        return "a split that has not ended";
    if (world->kafka.partition_count > job->row.partitions && !leaves_partitions(world, job))
        return "partitions that the job does not have yet"; /* which nobody would read */
    /* A move of what is halted waits until it works again. */
    return !halted && has_operations(world) ? "an operation that has not ended" : NULL;
}

static const char *miss_work(const struct world *world)
{
    const struct job *job = host_job(world);
    const char *missing = NULL;

    if (job == NULL || job->row.state != JOB_STATE_RUNNING)
        return "the job";
    if (job->row.pause.on || world->host.cluster.maintenance.hold.on)
        return "a pause that is over";
    if (job->row.group.hold != GROUP_HOLD_NONE)
        return "a hold of the job whose group is empty";
    for (size_t i = 0; i < WORLD_AGENTS && missing == NULL; i++)
        missing = miss_of_agent(world, i);
    if (missing == NULL)
        missing = miss_of_job(world, job);
    if (missing == NULL && world->agents[WORLD_GHOST].alive)
        missing = "an earlier start of an agent";
    if (missing == NULL && has_strays(world, job))
        missing = "a task where it does not belong";
    if (missing == NULL && !kafka_is_at_rest(&world->kafka))
        missing = "a transaction that has not ended";
    if (missing == NULL)
        missing = operator_miss(world);
    if (missing == NULL && host_has_people(world))
        missing = "a request of people that is not answered";
    return missing;
}

static const char *miss_standbys(const struct world *world)
{
    const char *missing = miss_work(world);

    return missing == NULL ? checks_miss_standby(world) : missing;
}

static const char *miss_gone(const struct world *world)
{
    if (!world->host.loaded || host_job(world) != NULL || world->host.stage != HOST_IDLE)
        return "the end of the job";
    for (size_t i = 0; i < WORLD_PROCESSES; i++) {
        for (size_t k = 0; k < KAFKA_PROCESSORS_MAX; k++) {
            if (world->agents[i].slots[k].used)
                return "the end of a task";
        }
    }
    return NULL;
}

static void run_until(struct world *world, const char *(*miss)(const struct world *world))
{
    int64_t end_ms = world->now_ms + END_MS_MAX;
    uint64_t end_steps = world->steps + END_STEPS_MAX;

    for (const char *missing = miss(world); missing != NULL && !world->checks.failed;
         missing = miss(world)) {
        world_step(world);
        chaos_end_ghost(world); /* what people asked for before may have let it win since */
        if (world->now_ms > end_ms || world->steps > end_steps) {
            checks_fail(world, "it does not come to its end: there is still %s", missing);
            return;
        }
    }
}

static bool loses_history(const struct world *world)
{
    return world->config.truncates || world->config.compacts;
}

/* What is halted stays where it is, and what can not be learned any more as well. */
static const char *miss_evenness(const struct world *world)
{
    const char *missing = miss_work(world);

    if (missing != NULL || loses_history(world) || has_halted(world) || checks_is_even(world))
        return missing;
    return "one agent with more than another";
}

/* Of two agents who comes, or comes back, is owed its share. (Of three one may rightly have had
 * nothing when it was lost, and what is placed meanwhile is nothing of its.) */
static bool has_equals(const struct world *world)
{
    return world->config.left_alone && world->config.agents == 2;
}

/* ---- who leaves */

/* Its records can be read again by somebody: else nobody could take over from it. */
static bool may_send_away(const struct world *world)
{
    size_t others = 0;

    for (size_t i = 0; i < WORLD_AGENTS; i++)
        others += !world->agents[i].lost;
    return world->config.sends_away && !loses_history(world) && others > 1;
}

static void send_away(struct world *world)
{
    size_t agent;

    do
        agent = (size_t)world_between(world, 0, (int64_t)world->config.agents - 1);
    while (world->agents[agent].lost);
    operator_send_away(world, agent);
}

/* Asked when all was at rest, it has its time, and whoever takes over from it the rest. */
static void check_parting(struct world *world)
{
    const struct sim_operator *self = &world->operator;
    const struct agent_row *row = durable_agent(&world->durable, agent_name((size_t)self->leaver));
    bool drained = row->drain.state == DRAIN_STATE_DRAINED;
    int64_t end_ms = self->parting_ms + self->parting.deadline_ms + PARTING_MS_MAX;

    if (!drained && (self->parting.deadline_ms == API_UNKNOWN ||
                     self->parting.on_deadline != DRAIN_DEADLINE_CANCEL))
        checks_fail(world, "agent %d is not drained in the end", self->leaver);
    if (!world->config.sends_at_once && self->parting.deadline_ms != API_UNKNOWN &&
        world->now_ms > end_ms)
        checks_fail(world, "agent %d left %lld ms after its deadline", self->leaver,
                    (long long)(world->now_ms - self->parting_ms - self->parting.deadline_ms));
    world->tally->of[TALLY_EMPTY] += drained;
}

/* No time alone will change the plan, and nobody is owed anything. */
static bool is_at_rest(const struct world *world)
{
    return world->host.loaded && world->host.cluster.place_ms == INT64_MAX &&
           world->host.cluster.handoffs.count == 0 && world->host.stage == HOST_IDLE;
}

static void run_for(struct world *world, int64_t while_ms)
{
    int64_t end_ms = world->now_ms + while_ms;

    while (world->now_ms < end_ms && !world->checks.failed)
        world_step(world);
}

/* It is stopped, is called lost or signs off, and is back: nothing moves for that. */
static void stop_drained(struct world *world)
{
    size_t agent = (size_t)world->operator.leaver;
    const struct agent_row *row = durable_agent(&world->durable, agent_name(agent));

    if (row->drain.state != DRAIN_STATE_DRAINED || !is_at_rest(world))
        return;
    world->tally->of[TALLY_SAFE_STOP_AT_REST]++;
    world->checks.at_rest = true;
    operator_stop(world, agent);
    run_for(world, world->config.core.agent_timeout_ms + world_between(world, 1000, 10000));
    world->checks.at_rest = false;
}

static void end_empty(struct world *world)
{
    if (world->operator.leaver<0)
        send_away(world);
    run_until(world, miss_work);
    if (!world->checks.failed)
        check_parting(world);
    run_until(world, miss_standbys);
    if (!world->checks.failed)
        stop_drained(world);
}

/* What is left at rest. What a halted processor was about to give away waits with it, whatever of
 * it has gone. */
static void note_undone(struct world *world)
{
    const struct job *job = host_job(world);
    const struct processor *nascent = cluster_nascent(job);

    world->left =
        leaves_partitions(world, job) ? job->row.partitions : world->kafka.partition_count;
    for (uint32_t i = 0; i < job->processors.count; i++)
        world->halted[i] = is_halted(world, i);
    if (nascent != NULL)
        world->halted[nascent->placement.processor] =
            world->halted[cluster_parent(job, nascent->placement.processor)];
}

void world_end(struct world *world)
{
    bool halted;

    world->calm = true;
    world->operator.wants_pause = world->operator.wants_maintenance = false;
    world_trace(world, "the end begins");
    chaos_end(world);
    world->operator.reopens = true;
    if (world->config.sends_at_once && may_send_away(world))
        send_away(world);
    run_until(world, miss_standbys);
    if (world->config.grows && !world->checks.failed) {
        chaos_late(world);
        run_until(world, miss_standbys);
    }
    if (world->config.evens_out)
        operator_rebalance(world);
    if (!world->checks.failed && (world->config.evens_out || has_equals(world))) {
        run_until(world, miss_evenness);
        world->tally->of[world->config.evens_out ? TALLY_EVENED : TALLY_EVEN]++;
    }
    if (!world->checks.failed && may_send_away(world))
        end_empty(world);
    if (world->checks.failed)
        return;
    halted = has_halted(world);
    note_undone(world);
    world->operator.wants_job = false;
    run_until(world, miss_gone);
    if (!world->checks.failed)
        checks_end(world);
    world->tally->of[halted ? TALLY_HALTED : TALLY_FINISHED]++;
}
