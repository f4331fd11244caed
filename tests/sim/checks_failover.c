/*
 * When a processor may be taken from its owner without that one's doing: because it is lost, is
 * late with its drain, or can not have the state; and where a standby is in its place.
 */
#include <string.h>

#include "coordinator/core/handoff.h"
#include "tests/sim/world.h"

static const struct agent *registered(const struct world *world, size_t agent)
{
    return cluster_agent(&world->host.cluster, agent_name(agent));
}

/* ---- standbys */

uint32_t checks_list_standbys(const struct processor *processor)
{
    uint32_t agents = 0;

    for (size_t i = 0; i < processor->standbys.count; i++)
        agents |= 1U << agent_of_name(processor->standbys.items[i].row.agent);
    return agents;
}

bool checks_is_standby(const struct world *world, const struct sim_request *request,
                       const struct document_task *task)
{
    const struct standby_row *row =
        durable_standby(&world->durable, task->job, task->processor, agent_name(request->asker));

    return task->role == TASK_ROLE_STANDBY && task->epoch == 0 && task->handoff == 0 &&
           row != NULL && agent_start_of(row->agent_incarnation) == request->start;
}

static int64_t find_t1(const struct partition_progress *items, size_t count, size_t partition)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i].partition == partition)
            return items[i].t1;
    }
    return API_UNKNOWN;
}

/* T1 as the owner said it last, if it did. */
static int64_t told_t1(const struct processor *processor, size_t partition)
{
    const struct task_report *report = &processor->observed.report;
    int64_t t1 = API_UNKNOWN;

    if (processor->observed.known)
        t1 = find_t1(report->progress.items, report->progress.count, partition);
    return t1 != API_UNKNOWN ? t1
                             : find_t1(processor->stored.items, processor->stored.count, partition);
}

/* Who takes over at once has learned it, by what it really has and not by what it reports. A host
 * that has crashed meanwhile can not be asked. */
static void check_standby(struct world *world, uint32_t processor, const struct checks_owner *after)
{
    const struct processor *at = &host_job(world)->processors.items[processor];
    const struct sim_task *task = world->agents[after->agent].slots[processor].task;

    if (task == NULL || world->agents[after->agent].starts != after->start ||
        task->core.phase.state != TASK_PHASE_LEARN)
        return;
    for (size_t i = 0; i < task->core.partition_count; i++) {
        size_t partition = agent_partition(task, i);
        int64_t t1 = told_t1(at, partition);

        /* Added a moment ago: the owner is lost before it has told of it. There is little in it. */
        if (t1 == API_UNKNOWN && partition >= world->config.partitions)
            continue;
        if (t1 == API_UNKNOWN ||
            task->core.partitions[i].position + world->config.acceptable_lag < t1)
            checks_fail(world,
                        "partition %zu: its standby takes over at once and is at %lld, T1 is %lld",
                        partition, (long long)task->core.partitions[i].position, (long long)t1);
    }
}

static bool has_stood_by(const struct checks_owner *before, const struct checks_owner *after)
{
    return after->agent >= 0 && (before->standbys & (1U << after->agent)) != 0;
}

static const char *miss_standby(const struct world *world, const struct processor *processor)
{
    for (size_t i = 0; i < processor->standbys.count; i++) {
        const struct standby *standby = &processor->standbys.items[i];
        const struct task_report *report = cluster_standby_report(&world->host.cluster, standby);

        if (report == NULL)
            return "a standby that is not reported";
        if (report->state != TASK_STATE_CAUGHT_UP)
            return "a standby that has not caught up";
    }
    if (processor->standbys.count < world->config.standbys &&
        processor->standby_lack != STANDBY_LACK_AGENT)
        return "a standby that has not begun";
    return NULL;
}

const char *checks_miss_standby(const struct world *world)
{
    const struct job *job = host_job(world);
    const char *missing = NULL;

    /* What can not be learned has none, and what is halted is not followed. */
    if (world->config.truncates || world->config.compacts || world->config.damages)
        return NULL;
    for (size_t i = 0; i < job->processors.count && missing == NULL; i++)
        missing = miss_standby(world, &job->processors.items[i]);
    return missing;
}

/* ---- who may have it */

/* In this very step. */
static bool has_caught_up(const struct update *update, uint64_t handoff)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct change *change = &update->changes.items[i];

        if (change->kind == CHANGE_HANDOFF && change->handoff.id == handoff &&
            change->handoff.state == HANDOFF_STATE_CAUGHT_UP)
            return true;
    }
    return false;
}

/* The owner says that it can not go on: who has learned it takes it, or who has its state. */
static bool is_relieved(const struct world *world, uint32_t processor, bool has_state,
                        const struct checks_owner *before, const struct checks_owner *after)
{
    const struct processor_observed *observed =
        &host_job(world)->processors.items[processor].observed;
    const struct task_report *report = &observed->report;

    if (!observed->known || report->epoch != before->epoch || report->state != TASK_STATE_FAILED)
        return false;
    if (before->handoff != 0 && before->state != HANDOFF_STATE_ACTIVATING)
        return has_state && before->target == after->agent && handoff_before_release(before->state);
    return (before->source == after->agent || has_stood_by(before, after)) &&
           report->problems.count > 0 && handoff_is_hopeless(report->problems.items[0].code);
}

/* Without a learner that has the state the owner gets its grace, anew after each load. */
void checks_taken(struct world *world, uint32_t processor, const struct checks_owner *before,
                  const struct checks_owner *after, const struct update *update)
{
    const struct checks_contact *contact = &world->checks.contacts[before->agent];
    int64_t gone_ms = world->now_ms - contact->gone_ms;
    bool has_state = before->handoff != 0 && (before->target == after->agent
                                                  ? before->state == HANDOFF_STATE_CAUGHT_UP ||
                                                        before->state == HANDOFF_STATE_RELEASING ||
                                                        has_caught_up(update, before->handoff)
                                                  : before->source == after->agent);

    bool stood_by = has_stood_by(before, after);

    world->tally->of[TALLY_FAILOVER]++;
    world->tally->of[TALLY_STANDBY_FAILOVER] += stood_by;
    if (registered(world, (size_t)before->agent) == NULL)
        return; /* people say that it will not come back */
    if (is_relieved(world, processor, has_state, before, after)) {
        if (before->handoff == 0)
            check_standby(world, processor, after);
        return;
    }
    if (checks_is_forced_out(world, (size_t)before->agent) &&
        (before->handoff != after->handoff || handoff_before_release(before->state))) {
        world->tally->of[TALLY_DRAIN_FORCED]++;
        return;
    }
    if (contact->gone_ms == 0)
        checks_fail(world, "processor %u is taken from agent %d, which is there", processor,
                    before->agent);
    if (has_state || after->asked || checks_is_leaving(world, (size_t)before->agent) ||
        gone_ms >= world->config.rejoin_grace_ms)
        return;
    if (stood_by && registered(world, (size_t)before->agent)->row.state == AGENT_STATE_LOST)
        check_standby(world, processor, after);
    else
        checks_fail(world, "processor %u is taken from agent %d %lld ms after it was lost",
                    processor, before->agent, (long long)gone_ms);
}
