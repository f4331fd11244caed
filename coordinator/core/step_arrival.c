/*
 * Who is owed processors (D5): arrivals.
 *
 * An agent that owns nothing of a job that others run is a newcomer to it, once per start; and so
 * is one, again, whose processors others took over while it was lost. It is owed its share until
 * nothing is owed to it of any job. A start in between changes nothing about that.
 */
#include <stdlib.h>
#include <string.h>

#include "coordinator/core/handoff.h"
#include "coordinator/core/placing.h"
#include "coordinator/core/step_internal.h"

/* ---- loss and return */

void step_note_taken_over(struct step *step, struct job *job, struct agent *owner)
{
    int64_t calm_ms = owner->gone_ms - owner->newcomer_from_ms;
    step_set_arrival(step, job, owner, true);
    if (owner->row.state != AGENT_STATE_LOST || owner->taken_over_ms == owner->gone_ms)
        return; /* it has left in order, which is no fault; or this is the same absence */
    if (owner->taken_over_ms == 0 || calm_ms >= RETURN_CALM_MS)
        owner->takeovers = 0;
    owner->takeovers++;
    owner->taken_over_ms = owner->gone_ms;
}

/* The first return counts at once; the more often it is lost, the longer it has to stay before it
 * is trusted with processors again. */
void step_note_return(struct step *step, struct agent *agent)
{
    int64_t pause_ms = 0;
    if (agent->gone_ms == 0 || agent->taken_over_ms != agent->gone_ms)
        return;
    for (uint32_t i = 1; i < agent->takeovers && pause_ms < RETURN_PAUSE_MS_MAX; i++)
        pause_ms = pause_ms == 0 ? RETURN_PAUSE_MS_MIN : pause_ms * 2;
    if (pause_ms > RETURN_PAUSE_MS_MAX)
        pause_ms = RETURN_PAUSE_MS_MAX;
    agent->newcomer_from_ms = step->event->now_ms + pause_ms;
    if (pause_ms > 0)
        step_event(step,
                   (struct event_about){"agent_unsteady", .agent = agent->row.agent_id,
                                        .actor = ACTOR_COORDINATOR},
                   "its processors were taken over %u times; it gets none back for %lld s",
                   agent->takeovers, (long long)(pause_ms / 1000));
}

/* ---- newcomers */

/*
 * Whether it has come to a job that others run. Who was there when a job was placed first has got
 * its share, if only nothing.
 */
static bool comes_to(const struct job *job, const char *agent_id)
{
    bool others = false;
    for (size_t p = 0; p < job->processors.count; p++) {
        const char *owner = job->processors.items[p].placement.agent;
        if (rows_text_equal(owner, agent_id))
            return false;
        others = others || owner != NULL;
    }
    return others;
}

static bool is_newcomer(const struct job *job, const struct agent *agent)
{
    const struct arrival_row *arrival = cluster_arrival(job, agent->row.agent_id);
    if (arrival != NULL && arrival->open)
        return true;
    if (arrival != NULL && strcmp(arrival->incarnation, agent->row.incarnation) == 0)
        return false;
    return comes_to(job, agent->row.agent_id);
}

/* Not trusted yet, or cordoned: nothing is decided about it, what it is owed stays owed. */
static bool has_to_wait(const struct step *step, const struct agent *agent)
{
    return step->event->now_ms < agent->newcomer_from_ms || !cluster_agent_schedulable(agent);
}

void step_note_uncordoned(struct step *step, const struct agent *agent)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++) {
        struct job *job = step->cluster->jobs.items[i];
        if (job->row.state == JOB_STATE_RUNNING && comes_to(job, agent->row.agent_id))
            step_set_arrival(step, job, agent, true);
    }
}

void step_list_newcomers(const struct step *step, struct placing *placing)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        if (job->row.state != JOB_STATE_RUNNING)
            continue;
        for (size_t a = 0; a < placing->agent_count; a++) {
            const struct agent *agent = cluster_agent(cluster, placing->agents[a].agent_id);
            if (is_newcomer(job, agent) && !has_to_wait(step, agent))
                placing_add_newcomer(placing, job, agent);
        }
    }
}

/* ---- what is owed still */

/* What had no owner has got one by this plan, which is not looked at anew before the next one. */
static bool has_placed(const struct job *job, const struct placing *placing,
                       const struct plan *plan)
{
    for (size_t i = 0; i < plan->change_count; i++)
        if (plan->changes[i].kind == PLAN_KIND_PLACE &&
            placing->jobs[plan->changes[i].processor] == job)
            return true;
    return false;
}

/*
 * What anybody is owed is not known while processors are with agents that may come back or go, nor
 * while some are on their way by hand-overs that no plan takes back: they can be had only later.
 */
static bool is_settled(const struct step *step, const struct job *job)
{
    for (size_t p = 0; p < job->processors.count; p++) {
        const char *owner = job->processors.items[p].placement.agent;
        const struct handoff *handoff = job->processors.items[p].handoff;
        if (handoff != NULL &&
            (!handoff->row.planned || !handoff_before_release(handoff->row.state)))
            return false;
        if (owner == NULL ||
            !placing_stays(step->cluster, cluster_agent(step->cluster, owner), step->event->now_ms))
            return false;
    }
    return true;
}

static bool is_owed(const struct cluster *cluster, const struct plan *plan, const char *agent_id)
{
    for (size_t i = 0; i < cluster->handoffs.count; i++)
        if (strcmp(cluster->handoffs.items[i]->row.target, agent_id) == 0)
            return true;
    for (size_t i = 0; i < plan->change_count; i++)
        if ((plan->changes[i].kind == PLAN_KIND_HAND_OVER ||
             plan->changes[i].kind == PLAN_KIND_WAIT) &&
            rows_text_equal(plan->changes[i].target, agent_id))
            return true;
    return false;
}

static void note_arrival(struct step *step, const struct placing *placing, struct job *job,
                         const struct agent *agent, bool owed)
{
    const struct arrival_row *arrival = cluster_arrival(job, agent->row.agent_id);
    bool known = arrival != NULL && strcmp(arrival->incarnation, agent->row.incarnation) == 0;
    if ((known && !arrival->open) || has_to_wait(step, agent))
        return;
    step_set_arrival(step, job, agent, placing_is_newcomer(placing, job, agent) && owed);
}

void step_note_arrivals(struct step *step, const struct placing *placing, const struct plan *plan)
{
    const struct cluster *cluster = step->cluster;
    for (size_t a = 0; a < placing->agent_count; a++) {
        const struct agent *agent = cluster_agent(cluster, placing->agents[a].agent_id);
        /* A move of one job may make one of another right: what it is owed ends as a whole. */
        bool owed = is_owed(cluster, plan, agent->row.agent_id);
        for (size_t i = 0; i < cluster->jobs.count; i++) {
            struct job *job = cluster->jobs.items[i];
            if (job->row.state == JOB_STATE_RUNNING)
                note_arrival(step, placing, job, agent,
                             owed || !is_settled(step, job) || has_placed(job, placing, plan));
        }
    }
}

/* ---- whether a job is even */

static bool has_moves(const struct job *job, const struct placing *placing, const struct plan *plan)
{
    for (size_t p = 0; p < job->processors.count; p++)
        if (job->processors.items[p].handoff != NULL)
            return true;
    for (size_t i = 0; i < plan->change_count; i++)
        if (placing->jobs[plan->changes[i].processor] == job)
            return true;
    return false;
}

void step_note_even(struct step *step, const struct placing *placing, const struct plan *plan)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++) {
        struct job *job = step->cluster->jobs.items[i];
        job->even = is_settled(step, job) && !has_moves(job, placing, plan);
    }
}
