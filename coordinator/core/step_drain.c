/*
 * Drains: agents that are to leave (the tag for leaving members).
 *
 *   (asked) --> DRAINING --> DRAINED       it owns nothing, and nobody needs its states any more
 *                   |            |
 *                   +------------+--> CANCELLED   by DELETE, at its deadline, or by a new start
 *
 * What it has, the planner hands over elsewhere (plan_leave.c); this file begins and ends drains,
 * and keeps their deadlines.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/placing.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/view.h"

static uint32_t count_owned(const struct cluster *cluster, const struct agent *agent)
{
    uint32_t owned = 0;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++)
            owned += rows_text_equal(job->processors.items[p].placement.agent, agent->row.agent_id);
    }
    return owned;
}

/* A hand-over from it may still come back to it: the state is there. And one on its last steps to
 * it arrives, before it can be handed on. */
static bool is_needed(const struct cluster *cluster, const struct agent *agent)
{
    for (size_t i = 0; i < cluster->handoffs.count; i++)
        if (strcmp(cluster->handoffs.items[i]->row.source, agent->row.agent_id) == 0 ||
            strcmp(cluster->handoffs.items[i]->row.target, agent->row.agent_id) == 0)
            return true;
    return false;
}

static void end(struct step *step, struct agent *agent, enum drain_state state, const char *error)
{
    struct change change = step_agent_change(agent);
    change.agent.drain.state = state;
    change.agent.drain.ended_at = step->event->now_at;
    rows_text_set(&change.agent.drain.error, error);
    step_change(step, &change);
    agent->drain_deadline_ms = 0;
    step->place = true;
}

static void answer(struct step *step, uint32_t status, const struct agent *agent)
{
    struct drain_view *view = mem_calloc(1, sizeof(*view));
    view_drain(step->cluster, agent, view);
    step_answer(step, step->event->request, status, &schema_drain_view, view);
}

/* ---- beginning */

/* Somebody learns what it has already: the room there is taken for it. */
static bool is_being_followed(const struct step *step, const struct agent *leaver)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->handoffs.count; i++) {
        const struct handoff_row *row = &cluster->handoffs.items[i]->row;
        if (row->kind != HANDOFF_KIND_SPLIT && strcmp(row->source, leaver->row.agent_id) == 0 &&
            placing_may_receive(cluster, cluster_agent(cluster, row->target), step->event->now_ms))
            return true;
    }
    return false;
}

static bool anybody_may_take(const struct step *step, const struct agent *leaver)
{
    const struct cluster *cluster = step->cluster;
    uint32_t *tasks = cluster_count_tasks(cluster);
    bool found = is_being_followed(step, leaver);
    for (size_t i = 0; i < cluster->agents.count && !found; i++) {
        const struct agent *agent = cluster->agents.items[i];
        found = agent != leaver && tasks[i] < agent->row.capacity &&
                placing_may_receive(cluster, agent, step->event->now_ms);
    }
    free(tasks);
    return found;
}

static bool is_the_same(const struct agent *agent, const struct drain_request *wish)
{
    const struct agent_drain *drain = &agent->row.drain;
    return cluster_agent_leaving(agent) && drain->deadline_ms == wish->deadline_ms &&
           drain->on_deadline == wish->on_deadline && drain->until_restart == wish->until_restart &&
           rows_text_equal(drain->reason, wish->reason);
}

/* What came to nothing before is tried anew at once. */
static void forgive(struct step *step, const struct agent *agent)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++) {
        struct job *job = step->cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++) {
            struct processor *processor = &job->processors.items[p];
            if (!rows_text_equal(processor->placement.agent, agent->row.agent_id))
                continue;
            processor->handoff_retry_ms = 0;
            processor->handoff_backoff_ms = 0;
        }
    }
}

static void begin(struct step *step, struct agent *agent, const struct drain_request *wish)
{
    const struct coord_event *event = step->event;
    struct change change = step_agent_change(agent);
    struct agent_drain *drain = &change.agent.drain;
    bool goes_on = cluster_agent_leaving(agent);
    if (!goes_on) {
        drain->state = DRAIN_STATE_DRAINING;
        drain->started_at = event->now_at;
        drain->ended_at = API_UNKNOWN;
        drain->processors = count_owned(step->cluster, agent);
    }
    drain->asked = true;
    drain->overdue = false;
    drain->on_deadline = wish->on_deadline;
    drain->until_restart = wish->until_restart;
    drain->deadline_ms = wish->deadline_ms;
    drain->deadline_at =
        wish->deadline_ms != API_UNKNOWN ? event->now_at + wish->deadline_ms : API_UNKNOWN;
    rows_text_set(&drain->reason, wish->reason);
    rows_text_set(&drain->actor, event->actor != NULL ? event->actor : ACTOR_COORDINATOR);
    rows_text_set(&drain->error, NULL);
    step_change(step, &change);
    if (agent->row.drain.state == DRAIN_STATE_DRAINING)
        agent->drain_deadline_ms =
            wish->deadline_ms != API_UNKNOWN ? event->now_ms + wish->deadline_ms : 0;
    step_event(step,
               (struct event_about){goes_on ? "drain_changed" : "drain_requested",
                                    .agent = agent->row.agent_id},
               "%u processors; %s", agent->row.drain.processors,
               wish->reason != NULL ? wish->reason : "asked for without a reason");
    forgive(step, agent);
    step->place = true;
}

/* NULL: answered. */
static struct agent *find_agent(struct step *step)
{
    struct agent *agent = cluster_agent(step->cluster, step->event->name);
    if (agent == NULL)
        step_problem(step, step->event->request, "agent_not_found", "there is no agent %s",
                     step->event->name);
    return agent;
}

void step_drain(struct step *step)
{
    struct agent *agent = find_agent(step);
    if (agent == NULL)
        return;
    if (is_the_same(agent, &step->event->drain)) {
        answer(step, 200, agent); /* its time does not begin anew */
        return;
    }
    uint32_t owned = count_owned(step->cluster, agent);
    if (owned > 0 && !cluster_agent_leaving(agent) && !anybody_may_take(step, agent)) {
        step_problem(step, step->event->request, "drain_refused",
                     "agent %s has %u processors, and no other agent is alive, neither cordoned "
                     "nor drained, and has room",
                     agent->row.agent_id, owned);
        return;
    }
    begin(step, agent, &step->event->drain);
    answer(step, 202, agent);
}

void step_drain_wished(struct step *step, struct agent *agent, enum agent_leaving leaving)
{
    struct drain_request wish = {.deadline_ms = API_UNKNOWN, .until_restart = true};
    if (leaving == AGENT_LEAVING_NO || cluster_agent_leaving(agent))
        return;
    /* One that goes anyway is not waited for, whoever there is. */
    if (leaving == AGENT_LEAVING_DRAIN && count_owned(step->cluster, agent) > 0 &&
        !anybody_may_take(step, agent))
        return;
    wish.reason = mem_strdup("it was told to stop (on_term)");
    begin(step, agent, &wish);
    free(wish.reason);
}

/* ---- ending */

static void cancel_handoffs(struct step *step, const struct agent *agent, const char *error)
{
    struct cluster *cluster = step->cluster;
    uint64_t next = 0;
    size_t index;
    /* One that ends leaves the list, and others with it. */
    while (cluster_find_handoff(cluster, next, &index) || index < cluster->handoffs.count) {
        struct handoff *handoff = cluster->handoffs.items[index];
        next = handoff->row.id + 1;
        if (handoff->row.planned && handoff_before_release(handoff->row.state) &&
            strcmp(handoff->row.source, agent->row.agent_id) == 0)
            step_handoff_cancel(step, handoff, true, error);
    }
}

static void cancel(struct step *step, struct agent *agent, const char *actor, const char *error)
{
    end(step, agent, DRAIN_STATE_CANCELLED, error);
    step_event(
        step, (struct event_about){"drain_cancelled", .agent = agent->row.agent_id, .actor = actor},
        "%s", error);
    cancel_handoffs(step, agent, error);
    step_note_uncordoned(step, agent);
}

void step_drain_cancel(struct step *step)
{
    const struct coord_event *event = step->event;
    struct agent *agent = find_agent(step);
    if (agent == NULL)
        return;
    if (!agent->row.drain.asked) {
        step_problem(step, event->request, "drain_not_found", "agent %s is not asked to leave",
                     agent->row.agent_id);
        return;
    }
    if (cluster_agent_leaving(agent)) {
        char *error = text_printf(
            "cancelled by %s%s%s", event->actor != NULL ? event->actor : "somebody",
            event->reason != NULL ? ": " : "", event->reason != NULL ? event->reason : "");
        cancel(step, agent, event->actor, error);
        free(error);
    }
    answer(step, 200, agent);
}

void step_note_new_start(struct step *step, struct agent *agent)
{
    if (cluster_agent_leaving(agent) && agent->row.drain.until_restart)
        cancel(step, agent, ACTOR_COORDINATOR, "the agent has started anew");
}

/* ---- deadlines */

static void force(struct step *step, const struct job *job, struct processor *processor)
{
    const struct handoff *handoff = processor->handoff;
    struct agent *target = NULL;
    if (handoff != NULL && !handoff_before_release(handoff->row.state))
        return; /* it has just come here, and goes on when it has arrived */
    if (handoff != NULL)
        target = cluster_agent(step->cluster, handoff->row.target);
    else if (step->event->now_ms >= processor->handoff_retry_ms)
        target = placing_choose_target(step->cluster, job, processor, step->event->now_ms);
    if (target != NULL)
        step_handoff_force(step, job, processor, target,
                           "the drain's deadline has passed: the source is not waited for");
}

static void force_all(struct step *step, const struct agent *agent)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; job->row.state == JOB_STATE_RUNNING && p < job->processors.count; p++)
            if (rows_text_equal(job->processors.items[p].placement.agent, agent->row.agent_id))
                force(step, job, &job->processors.items[p]);
    }
}

static void pass_deadline(struct step *step, struct agent *agent)
{
    struct change change = step_agent_change(agent);
    change.agent.drain.overdue = true;
    step_change(step, &change);
    agent->drain_deadline_ms = 0;
    step_event(step,
               (struct event_about){"drain_overdue", .agent = agent->row.agent_id,
                                    .actor = ACTOR_COORDINATOR},
               "%u of %u processors are taken over at once", count_owned(step->cluster, agent),
               agent->row.drain.processors);
}

static void finish(struct step *step, struct agent *agent)
{
    end(step, agent, DRAIN_STATE_DRAINED, NULL);
    step_event(step,
               (struct event_about){"drain_done", .agent = agent->row.agent_id,
                                    .actor = ACTOR_COORDINATOR},
               "it has nothing any more and can be stopped; it had %u processors",
               agent->row.drain.processors);
}

static void advance(struct step *step, struct agent *agent)
{
    if (count_owned(step->cluster, agent) == 0 && !is_needed(step->cluster, agent)) {
        finish(step, agent);
        return;
    }
    if (agent->drain_deadline_ms != 0 && step->event->now_ms >= agent->drain_deadline_ms) {
        if (agent->row.drain.on_deadline == DRAIN_DEADLINE_CANCEL) {
            cancel(step, agent, ACTOR_COORDINATOR, "its deadline has passed");
            return;
        }
        pass_deadline(step, agent);
    }
    if (agent->row.drain.overdue)
        force_all(step, agent);
}

void step_advance_drains(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        struct agent *agent = cluster->agents.items[i];
        if (agent->row.drain.asked && agent->row.drain.state == DRAIN_STATE_DRAINING)
            advance(step, agent);
    }
}

void step_resume_drains(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        struct agent *agent = cluster->agents.items[i];
        const struct agent_drain *drain = &agent->row.drain;
        agent->drain_deadline_ms = 0;
        if (!drain->asked || drain->state != DRAIN_STATE_DRAINING || drain->overdue ||
            drain->deadline_at == API_UNKNOWN)
            continue;
        int64_t left_ms = drain->deadline_at - step->event->now_at;
        agent->drain_deadline_ms = step->event->now_ms + (left_ms > 0 ? left_ms : 0);
    }
}

int64_t step_drains_wake(const struct cluster *cluster)
{
    int64_t wake_ms = INT64_MAX;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        int64_t due_ms = cluster->agents.items[i]->drain_deadline_ms;
        if (due_ms != 0 && due_ms < wake_ms)
            wake_ms = due_ms;
    }
    return wake_ms;
}
