/* What time and the lives of agents bring to hand-overs. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/step_internal.h"

static struct processor *processor_of(const struct step *step, const struct handoff_row *row)
{
    struct job *job = cluster_job(step->cluster, row->job);
    assert(job != NULL);
    return &job->processors.items[row->processor];
}

/* The source works, and will hear of it. */
static bool may_release(const struct step *step, const struct handoff *handoff)
{
    const struct processor *processor = processor_of(step, &handoff->row);
    const struct agent *source = cluster_agent(step->cluster, handoff->row.source);
    const struct task_report *report = cluster_report(step->cluster, processor);
    return source != NULL && !source->stopping &&
           cluster_agent_alive(step->cluster, source, step->event->now_ms) && report != NULL &&
           report->state == TASK_STATE_ACTIVE;
}

/* It can not go on, so there is nothing that it would release. */
static bool has_source_failed(const struct step *step, const struct handoff *handoff)
{
    const struct task_report *report =
        cluster_report(step->cluster, processor_of(step, &handoff->row));
    return report != NULL && report->state == TASK_STATE_FAILED;
}

static void take_from_failed(struct step *step, struct handoff *handoff)
{
    const struct handoff_row *row = &handoff->row;
    char *reason =
        text_printf("agent %s has failed with it and %s has caught up", row->source, row->target);
    step_handoff_force(step, cluster_job(step->cluster, row->job), processor_of(step, row),
                       cluster_agent(step->cluster, row->target), reason);
    free(reason);
}

void step_resume_handoffs(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->handoffs.count; i++) {
        struct handoff *handoff = cluster->handoffs.items[i];
        int64_t spent_ms = step->event->now_at - handoff->row.changed_at;
        handoff->fsm.since_ms = step->event->now_ms - (spent_ms > 0 ? spent_ms : 0);
        handoff->begun_ms = step->event->now_ms;
        handoff->stop_ms = 0;
    }
}

/* It is registered as the hand-over knows it, and was heard of. */
static const struct agent *find_live(const struct step *step, const char *agent_id,
                                     const char *incarnation)
{
    const struct agent *agent = cluster_agent(step->cluster, agent_id);
    if (agent == NULL || strcmp(agent->row.incarnation, incarnation) != 0 || agent->stopping ||
        !cluster_agent_alive(step->cluster, agent, step->event->now_ms))
        return NULL;
    return agent;
}

static bool is_gone(const struct cluster *cluster, const char *agent_id)
{
    const struct agent *agent = cluster_agent(cluster, agent_id);
    return agent == NULL || agent->row.state != AGENT_STATE_ALIVE;
}

/* It was given its time. */
static void give_up_learner(struct step *step, struct handoff *handoff)
{
    const struct task_report *report =
        cluster_learner_report(step->cluster, processor_of(step, &handoff->row));
    char *failure = report != NULL ? step_describe_failure(report)
                                   : text_printf("nothing is heard of its learner");
    char *error = text_printf("agent %s could not learn it for %d s: %s", handoff->row.target,
                              LEARNER_PATIENCE_MS / 1000, failure);
    step_handoff_cancel(step, handoff, false, error);
    free(error);
    free(failure);
}

static void advance_before(struct step *step, struct handoff *handoff)
{
    const struct handoff_row *row = &handoff->row;
    struct job *job = cluster_job(step->cluster, row->job);
    struct processor *processor = processor_of(step, row);
    if (find_live(step, row->target, row->target_incarnation) == NULL) {
        char *error = text_printf("agent %s has left, or is not heard of", row->target);
        step_handoff_cancel(step, handoff, true, error);
        free(error);
        return;
    }
    if (row->state != HANDOFF_STATE_RELEASING &&
        !cluster_agent_schedulable(cluster_agent(step->cluster, row->target))) {
        char *error =
            text_printf("agent %s is %s", row->target,
                        cluster_say_unschedulable(cluster_agent(step->cluster, row->target)));
        step_handoff_cancel(step, handoff, true, error);
        free(error);
        return;
    }
    if (is_gone(step->cluster, row->source)) {
        /* Caught up it is as good as a standby. Before that the source has its grace. */
        if (row->state == HANDOFF_STATE_LEARNING)
            return;
        char *reason =
            text_printf("agent %s is gone and %s has caught up", row->source, row->target);
        step_handoff_force(step, job, processor, cluster_agent(step->cluster, row->target), reason);
        free(reason);
        return;
    }
    if (handoff->failing_ms != 0 &&
        step->event->now_ms >= handoff->failing_ms + LEARNER_PATIENCE_MS)
        give_up_learner(step, handoff);
    else if (row->state == HANDOFF_STATE_CAUGHT_UP && may_release(step, handoff))
        step_handoff_ask_release(step, handoff);
    else if (row->state == HANDOFF_STATE_CAUGHT_UP && has_source_failed(step, handoff))
        take_from_failed(step, handoff);
    else if (row->state == HANDOFF_STATE_RELEASING &&
             step->event->now_ms >= handoff->fsm.since_ms + RELEASE_PATIENCE_MS)
        step_handoff_cancel(step, handoff, false, "the source did not release in time");
}

/* The target has failed for good. */
static bool is_hopeless(const struct step *step, const struct handoff *handoff)
{
    const struct task_report *report =
        cluster_report(step->cluster, processor_of(step, &handoff->row));
    return handoff->row.state == HANDOFF_STATE_ACTIVATING && report != NULL &&
           report->state == TASK_STATE_FAILED && handoff_is_hopeless(step_failure_code(report));
}

/* Whoever gave it up has its whole state still, and need not be waited for. One that was lost is
 * owed its share when it is back, as after its grace. */
static void advance_after(struct step *step, struct handoff *handoff)
{
    const struct handoff_row *row = &handoff->row;
    bool gone = is_gone(step->cluster, row->target);
    if (row->kind == HANDOFF_KIND_SPLIT) /* its source has the state of another processor */
        return;
    if (strcmp(row->source, row->target) == 0 || (!gone && !is_hopeless(step, handoff)))
        return;
    struct agent *source = cluster_agent(step->cluster, row->source);
    if (source == NULL || find_live(step, row->source, source->row.incarnation) == NULL)
        return;
    struct job *job = cluster_job(step->cluster, row->job);
    struct agent *target = cluster_agent(step->cluster, row->target);
    char *reason = text_printf("agent %s %s and %s has the state", row->target,
                               gone ? "is gone" : "can not rebuild it", row->source);
    step_handoff_force(step, job, processor_of(step, row), source, reason);
    if (gone && target != NULL)
        step_note_taken_over(step, job, target);
    free(reason);
}

void step_advance_handoffs(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    uint64_t next = 0;
    size_t index;
    /* One that ends leaves the list, and others with it: the place is looked up again. */
    while (cluster_find_handoff(cluster, next, &index) || index < cluster->handoffs.count) {
        struct handoff *handoff = cluster->handoffs.items[index];
        next = handoff->row.id + 1;
        if (handoff_before_release(handoff->row.state) && handoff->row.kind == HANDOFF_KIND_SPLIT)
            step_split_advance(step, handoff);
        else if (handoff_before_release(handoff->row.state))
            advance_before(step, handoff);
        else
            advance_after(step, handoff);
    }
}

int64_t step_handoffs_wake(const struct cluster *cluster)
{
    int64_t wake_ms = INT64_MAX;
    for (size_t i = 0; i < cluster->handoffs.count; i++) {
        const struct handoff *handoff = cluster->handoffs.items[i];
        int64_t due_ms = handoff->fsm.since_ms + RELEASE_PATIENCE_MS;
        if (handoff->row.state == HANDOFF_STATE_RELEASING &&
            handoff->row.kind != HANDOFF_KIND_SPLIT && due_ms < wake_ms)
            wake_ms = due_ms;
        due_ms = handoff->failing_ms + LEARNER_PATIENCE_MS;
        if (handoff->failing_ms != 0 && due_ms < wake_ms)
            wake_ms = due_ms;
    }
    return wake_ms;
}
