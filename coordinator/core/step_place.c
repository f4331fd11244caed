/* Who owns what: epochs are given here and nowhere else. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/placing.h"
#include "coordinator/core/step_internal.h"

void step_give(struct step *step, struct processor *processor, struct agent *agent,
               const char *trouble, const char *reason)
{
    const struct handoff *handoff = processor->handoff;
    struct change change = step_placement_change(processor);
    if (processor->observed.known && strcmp(processor->observed.agent, agent->row.agent_id) != 0)
        cluster_note_kept(step->cluster, &processor->observed);
    step_standby_becomes(step, processor, agent);
    rows_text_set(&change.placement.agent, agent->row.agent_id);
    rows_text_set(&change.placement.agent_incarnation, agent->row.incarnation);
    change.placement.epoch = ++step->cluster->meta.epoch;
    change.placement.activated = false;
    change.placement.handoff =
        handoff != NULL && !handoff_before_release(handoff->row.state) ? handoff->row.id : 0;
    rows_text_set(&change.placement.trouble, trouble);
    rows_text_set(&change.placement.reason, reason);
    change.placement.changed_at = step->event->now_at;
    step_change(step, &change);
    step_renew_document(step, agent);
    step_handoff_follow_epoch(step, processor);
}

void step_take_away(struct step *step, struct processor *processor, const char *reason)
{
    assert(processor->placement.agent != NULL);
    struct agent *agent = cluster_agent(step->cluster, processor->placement.agent);
    struct change change = step_placement_change(processor);
    rows_text_set(&change.placement.agent, NULL);
    rows_text_set(&change.placement.agent_incarnation, NULL);
    change.placement.activated = false;
    change.placement.handoff = 0;
    rows_text_set(&change.placement.trouble, NULL);
    rows_text_set(&change.placement.reason, reason);
    change.placement.changed_at = step->event->now_at;
    step_change(step, &change);
    step_renew_document(step, agent);
}

void step_set_arrival(struct step *step, struct job *job, const struct agent *agent, bool open)
{
    const struct arrival_row *known = cluster_arrival(job, agent->row.agent_id);
    if (known != NULL && known->open == open &&
        strcmp(known->incarnation, agent->row.incarnation) == 0)
        return;
    struct change change = {.kind = CHANGE_ARRIVAL,
                            .arrival = {.job = mem_strdup(job->row.name),
                                        .agent = mem_strdup(agent->row.agent_id),
                                        .incarnation = mem_strdup(agent->row.incarnation),
                                        .open = open}};
    step_change(step, &change);
}

/* ---- carrying the plan out */

static void give_placed(struct step *step, struct processor *processor, struct agent *agent,
                        const char *reason)
{
    step_give(step, processor, agent, NULL, reason);
    step_event(step,
               (struct event_about){"processor_assigned", .processor = processor,
                                    .agent = agent->row.agent_id, .actor = ACTOR_COORDINATOR},
               "epoch %llu: %s", (unsigned long long)processor->placement.epoch, reason);
}

/* Its owner was lost for too long. */
static void take_over(struct step *step, struct job *job, struct processor *processor,
                      struct agent *target, const char *reason)
{
    struct agent *owner = processor->placement.agent != NULL
                              ? cluster_agent(step->cluster, processor->placement.agent)
                              : NULL;
    step_handoff_force(step, job, processor, target, reason);
    if (owner != NULL && owner != target)
        step_note_taken_over(step, job, owner);
}

static void hand_over(struct step *step, const struct job *job, struct processor *processor,
                      struct agent *target, const char *reason)
{
    if (processor->handoff != NULL)
        step_handoff_cancel(step, processor->handoff, true,
                            "superseded: a newcomer is better off with it");
    step_handoff_start(step, job, processor,
                       (struct handoff_wish){.target = target,
                                             .planned = true,
                                             .operation = cluster_rebalance_of(step->cluster, job),
                                             .reason = reason});
}

/* True: something was done at once, that will not end some time and so lead to the next plan. */
static bool carry_out(struct step *step, const struct placing *placing, const struct plan *plan)
{
    bool done = false;
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_change *planned = &plan->changes[i];
        struct processor *processor = placing->sources[planned->processor];
        struct job *job = placing->jobs[planned->processor];
        struct agent *target =
            planned->target != NULL ? cluster_agent(step->cluster, planned->target) : NULL;
        switch (planned->kind) {
        case PLAN_KIND_PLACE:
            if (processor->handoff != NULL || processor->placement.agent != NULL)
                take_over(step, job, processor, target, planned->reason);
            else
                give_placed(step, processor, target, planned->reason);
            done = true;
            break;
        case PLAN_KIND_CANCEL:
            step_handoff_cancel(step, processor->handoff, true, planned->reason);
            done = true;
            break;
        case PLAN_KIND_HAND_OVER:
            hand_over(step, job, processor, target, planned->reason);
            break;
        case PLAN_KIND_WAIT:
            break; /* explain_waits */
        }
    }
    return done;
}

static char *say_why_not(const struct placing *placing)
{
    size_t barred = 0;
    for (size_t i = 0; i < placing->agent_count; i++)
        barred += placing->agents[i].cordoned;
    if (placing->agent_count == 0)
        return mem_strdup("no owner; no agent is alive");
    if (barred == placing->agent_count)
        return mem_printf("no owner; %zu agents are alive and all are cordoned or drained", barred);
    if (barred > 0)
        return mem_printf("no owner; %zu agents have no room left, %zu are cordoned or drained",
                          placing->agent_count - barred, barred);
    return mem_strdup("no owner; the agents have no room left");
}

/* Those that stay without owner say why. Not an event: nothing happened to them. */
static void explain_rest(struct step *step, const struct placing *placing)
{
    char *reason = say_why_not(placing);
    for (size_t i = 0; i < placing->processor_count; i++) {
        struct processor *processor = placing->sources[i];
        if (processor->placement.agent != NULL ||
            rows_text_equal(processor->placement.reason, reason))
            continue;
        struct change change = step_placement_change(processor);
        rows_text_set(&change.placement.reason, reason);
        change.placement.changed_at = step->event->now_at;
        step_change(step, &change);
    }
    free(reason);
}

/* Nothing happened to them either, and the next plan says it anew. */
static void explain_waits(const struct placing *placing, const struct plan *plan, int64_t now_at)
{
    bool *untaken = mem_calloc(placing->processor_count, sizeof(*untaken));
    uint32_t waiting = 0;
    for (size_t i = 0; i < placing->processor_count; i++) {
        rows_text_set(&placing->sources[i]->waits, NULL);
        rows_text_set(&placing->sources[i]->waits_for, NULL);
    }
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_change *change = &plan->changes[i];
        if (change->kind != PLAN_KIND_WAIT)
            continue;
        rows_text_set(&placing->sources[change->processor]->waits, change->reason);
        rows_text_set(&placing->sources[change->processor]->waits_for, change->target);
        placing->sources[change->processor]->waits_order = waiting++;
        untaken[change->processor] = change->target == NULL;
    }
    for (size_t i = 0; i < placing->processor_count; i++) {
        struct processor *processor = placing->sources[i];
        if (!untaken[i])
            processor->untaken_at = 0;
        else if (processor->untaken_at == 0)
            processor->untaken_at = now_at;
    }
    free(untaken);
}

static void earliest(int64_t now_ms, int64_t candidate_ms, int64_t *ret_ms)
{
    if (candidate_ms > now_ms && candidate_ms < *ret_ms)
        *ret_ms = candidate_ms;
}

/* When an owner will be given up, a hand-over may be tried again, or an agent is trusted again. */
static int64_t next_plan(const struct step *step, const struct placing *placing)
{
    const struct cluster *cluster = step->cluster;
    int64_t now_ms = step->event->now_ms, next_ms = INT64_MAX;
    for (size_t i = 0; i < placing->processor_count; i++) {
        const struct processor *processor = placing->sources[i];
        earliest(now_ms, placing_given_up_at(cluster, placing->jobs[i], processor, now_ms),
                 &next_ms);
        earliest(now_ms, step_standbys_wake(cluster, placing->jobs[i], processor), &next_ms);
        earliest(now_ms, processor->handoff_retry_ms, &next_ms);
    }
    for (size_t i = 0; i < cluster->agents.count; i++)
        earliest(now_ms, cluster->agents.items[i]->newcomer_from_ms, &next_ms);
    return next_ms;
}

void step_place(struct step *step)
{
    struct placing placing;
    struct plan plan;
    placing_init(&placing, step->cluster, step->event->now_ms);
    step_list_newcomers(step, &placing);
    struct plan_input input = placing_input(&placing);
    plan_compute(&input, &plan);
    bool done = carry_out(step, &placing, &plan);
    step_plan_standbys(step, &placing);
    explain_rest(step, &placing);
    explain_waits(&placing, &plan, step->event->now_at);
    step_note_arrivals(step, &placing, &plan);
    step_note_even(step, &placing, &plan);
    /* What was given out or taken back has made the loads others: at once another look, or whoever
     * is still owed something, or waits for the job to be even, waits for the next accident. */
    step->cluster->place_ms = done ? step->event->now_ms : next_plan(step, &placing);
    plan_finish(&plan);
    placing_finish(&placing);
}
