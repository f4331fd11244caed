/* Hand-overs: every transition of coordinator/core/handoff.h is made here. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/step_internal.h"

struct change step_handoff_change(const struct handoff *handoff)
{
    struct change change = {.kind = CHANGE_HANDOFF};
    rows_copy_handoff(&change.handoff, &handoff->row);
    return change;
}

static struct processor *processor_of(const struct step *step, const struct handoff_row *row)
{
    struct job *job = cluster_job(step->cluster, row->job);
    assert(job != NULL);
    return &job->processors.items[row->processor];
}

/* Its document has changed; NULL: there is no such agent any more. */
static void renew(struct step *step, const char *agent_id)
{
    struct agent *agent = cluster_agent(step->cluster, agent_id);
    if (agent != NULL)
        step_renew_document(step, agent);
}

/* ---- one transition */

/* A copy of the row that is in the next state, for the caller to complete. */
static struct change begin_move(const struct step *step, const struct handoff *handoff,
                                enum handoff_state next)
{
    int64_t now_ms = step->event->now_ms;
    struct change change = step_handoff_change(handoff);
    struct fsm fsm = handoff->fsm;
    int64_t *spent_ms = &change.handoff.spent_ms[fsm.state];
    int64_t added_ms = fsm_move(&fsm, (int)next, now_ms);
    *spent_ms = *spent_ms == API_UNKNOWN ? added_ms : *spent_ms + added_ms;
    change.handoff.state = next;
    change.handoff.changed_at = step->event->now_at;
    return change;
}

/* Takes the change. NULL: it has ended. */
static struct handoff *finish_move(struct step *step, struct change *change)
{
    uint64_t id = change->handoff.id;
    step_change(step, change);
    struct handoff *handoff = cluster_handoff(step->cluster, id);
    if (handoff != NULL)
        handoff->fsm.since_ms = step->event->now_ms;
    return handoff;
}

static void say(struct step *step, const struct handoff_row *row, const char *kind,
                const char *text)
{
    step_event(step,
               (struct event_about){.kind = kind,
                                    .processor = processor_of(step, row),
                                    .agent = row->target,
                                    .operation = row->operation,
                                    .actor = ACTOR_COORDINATOR},
               "hand-over %llu from %s to %s%s: %s", (unsigned long long)row->id, row->source,
               row->target, row->forced ? ", forced" : "", text);
}

/* Of coming into a state. */
static const char *const kinds[] = {
    [HANDOFF_STATE_LEARNING] = "handoff_learning",
    [HANDOFF_STATE_CAUGHT_UP] = "handoff_caught_up",
    [HANDOFF_STATE_RELEASING] = "handoff_releasing",
    [HANDOFF_STATE_RELEASED] = "handoff_released",
    [HANDOFF_STATE_ACTIVATING] = "handoff_activating",
    [HANDOFF_STATE_DONE] = "handoff_done",
    [HANDOFF_STATE_CANCELLED] = "handoff_cancelled",
    [HANDOFF_STATE_FAILED] = "handoff_failed",
};

static void move(struct step *step, struct handoff *handoff, enum handoff_state next,
                 const char *text)
{
    struct change change = begin_move(step, handoff, next);
    handoff = finish_move(step, &change);
    say(step, &handoff->row, kinds[next], text);
}

/* DONE, CANCELLED or FAILED. `error` NULL: none; may be a text of the row. */
static void end(struct step *step, struct handoff *handoff, enum handoff_state state,
                const char *error, const char *text)
{
    struct change change = begin_move(step, handoff, state);
    rows_text_set(&change.handoff.error, error);
    if (state == HANDOFF_STATE_DONE) {
        int64_t gap_ms = handoff->stop_ms != 0 ? step->event->now_ms - handoff->stop_ms
                                               : step->event->now_at - change.handoff.stopped_at;
        change.handoff.output_gap_ms = gap_ms > 0 ? gap_ms : 0;
    }
    struct handoff_row row;
    rows_copy_handoff(&row, &change.handoff);
    (void)finish_move(step, &change);
    say(step, &row, kinds[state], text != NULL ? text : error);
    if (row.operation != 0)
        step_move_ended(step, &row);
    rows_finish_handoff(&row);
    step->place = true; /* the next may start, and a newcomer may have all that it is owed */
}

/* ---- beginning */

static struct change make_row(struct step *step, const struct job *job,
                              const struct processor *processor, const struct agent *target)
{
    const struct placement_row *placement = &processor->placement;
    struct change change = {.kind = CHANGE_HANDOFF,
                            .handoff = {
                                .id = ++step->cluster->meta.handoff_id,
                                .kind = HANDOFF_KIND_RELOCATE,
                                .job = mem_strdup(job->row.name),
                                .job_incarnation = mem_strdup(job->row.incarnation),
                                .processor = placement->processor,
                                .source = mem_strdup(placement->agent),
                                .source_incarnation = mem_strdup(placement->agent_incarnation),
                                .source_epoch = placement->epoch,
                                .target = mem_strdup(target->row.agent_id),
                                .target_incarnation = mem_strdup(target->row.incarnation),
                                .started_at = step->event->now_at,
                                .changed_at = step->event->now_at,
                                .stopped_at = API_UNKNOWN,
                                .output_gap_ms = API_UNKNOWN,
                            }};
    cluster_owned_partitions(job, placement->processor, &change.handoff.partitions);
    for (size_t i = 0; i < HANDOFF_PHASES; i++)
        change.handoff.spent_ms[i] = API_UNKNOWN;
    return change;
}

void step_handoff_start(struct step *step, const struct job *job, struct processor *processor,
                        struct handoff_wish wish)
{
    assert(processor->handoff == NULL);
    assert(processor->placement.agent != NULL);
    assert(strcmp(processor->placement.agent, wish.target->row.agent_id) != 0);
    struct change change = make_row(step, job, processor, wish.target);
    bool learns = job->row.spec.stateful;
    change.handoff.state = learns ? HANDOFF_STATE_LEARNING : HANDOFF_STATE_RELEASING;
    change.handoff.planned = wish.planned;
    change.handoff.operation = wish.operation;
    change.handoff.reason = step_text("%s", wish.reason);
    if (!learns)
        change.handoff.stopped_at = step->event->now_at;
    struct handoff *handoff = finish_move(step, &change);
    handoff->stop_ms = learns ? 0 : step->event->now_ms;
    say(step, &handoff->row, "handoff_started", handoff->row.reason);
    renew(step, learns ? handoff->row.target : handoff->row.source);
}

/* ---- release */

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

static void ask_for_release(struct step *step, struct handoff *handoff)
{
    struct change change = begin_move(step, handoff, HANDOFF_STATE_RELEASING);
    change.handoff.stopped_at = step->event->now_at;
    handoff = finish_move(step, &change);
    handoff->stop_ms = step->event->now_ms;
    say(step, &handoff->row, kinds[HANDOFF_STATE_RELEASING],
        "the source is told to commit and stop");
    renew(step, handoff->row.source);
}

/* Owner and epoch become the target's, durably, before it hears of it. */
static void give_to_target(struct step *step, struct handoff *handoff, const char *reason)
{
    struct processor *processor = processor_of(step, &handoff->row);
    struct agent *target = cluster_agent(step->cluster, handoff->row.target);
    assert(target != NULL);
    char *text = step_text("hand-over %llu from %s: %s", (unsigned long long)handoff->row.id,
                           handoff->row.source, reason);
    if (processor->placement.agent != NULL)
        renew(step, processor->placement.agent);
    step_give(step, processor, target, NULL, text);
    free(text);
}

static void is_released(struct step *step, struct handoff *handoff)
{
    struct change change = begin_move(step, handoff, HANDOFF_STATE_RELEASED);
    change.handoff.target_epoch = step->cluster->meta.epoch + 1; /* which it is given below */
    handoff = finish_move(step, &change);
    cluster_forget_learner(processor_of(step, &handoff->row));
    say(step, &handoff->row, kinds[HANDOFF_STATE_RELEASED], "the source has committed and stopped");
    give_to_target(step, handoff, handoff->row.reason);
}

void step_handoff_force(struct step *step, const struct job *job, struct processor *processor,
                        struct agent *target, const char *reason)
{
    struct handoff *handoff = processor->handoff;
    char *learner = handoff != NULL ? mem_strdup(handoff->row.target) : NULL;
    const struct agent *owner = processor->placement.agent != NULL
                                    ? cluster_agent(step->cluster, processor->placement.agent)
                                    : NULL;
    bool before = handoff == NULL || handoff_before_release(handoff->row.state);
    struct change change;
    if (handoff == NULL) {
        change = make_row(step, job, processor, target);
        change.handoff.planned = true;
        change.handoff.reason = step_text("%s", reason);
    } else {
        change = handoff->row.state != HANDOFF_STATE_RELEASED
                     ? begin_move(step, handoff, HANDOFF_STATE_RELEASED)
                     : step_handoff_change(handoff);
        rows_text_set(&change.handoff.target, target->row.agent_id);
        rows_text_set(&change.handoff.target_incarnation, target->row.incarnation);
    }
    change.handoff.state = HANDOFF_STATE_RELEASED;
    change.handoff.forced = change.handoff.forced || before;
    change.handoff.target_epoch = step->cluster->meta.epoch + 1;
    if (change.handoff.stopped_at == API_UNKNOWN)
        change.handoff.stopped_at =
            owner != NULL && owner->seen_at != API_UNKNOWN ? owner->seen_at : step->event->now_at;
    if (handoff != NULL && handoff->row.state == HANDOFF_STATE_RELEASED)
        step_change(step, &change); /* only its target is another */
    else
        handoff = finish_move(step, &change);
    if (handoff->stop_ms == 0 && before)
        handoff->stop_ms =
            owner != NULL && owner->seen_ms != 0 ? owner->seen_ms : step->event->now_ms;
    cluster_forget_learner(processor);
    say(step, &handoff->row, "handoff_forced", reason);
    give_to_target(step, handoff, reason);
    if (learner != NULL)
        renew(step, learner);
    free(learner);
}

/* ---- coming to nothing */

static void give_back(struct step *step, struct processor *processor, const char *agent_id)
{
    struct agent *source = cluster_agent(step->cluster, agent_id);
    if (source == NULL)
        return;
    if (processor->placement.agent != NULL)
        renew(step, processor->placement.agent);
    step_give(step, processor, source, NULL, "given back: its hand-over came to nothing");
    step_event(step,
               (struct event_about){"processor_given_back", .processor = processor,
                                    .agent = source->row.agent_id, .actor = ACTOR_COORDINATOR},
               "epoch %llu", (unsigned long long)processor->placement.epoch);
}

void step_handoff_cancel(struct step *step, struct handoff *handoff, bool again, const char *error)
{
    struct processor *processor = processor_of(step, &handoff->row);
    bool told = handoff->row.state == HANDOFF_STATE_RELEASING;
    char *source = mem_strdup(handoff->row.source), *target = mem_strdup(handoff->row.target);
    end(step, handoff, HANDOFF_STATE_CANCELLED, error, NULL);
    renew(step, target);
    /* It may have stopped by now, or be about to: only a new epoch tells the two apart (D4). */
    if (told)
        give_back(step, processor, source);
    processor->handoff_retry_ms = again ? 0 : step->event->now_ms + HANDOFF_RETRY_MS;
    free(source);
    free(target);
}

void step_cancel_handoffs(struct step *step, const struct job *job, const char *error)
{
    for (size_t i = 0; i < job->processors.count; i++) {
        struct handoff *handoff = job->processors.items[i].handoff;
        if (handoff == NULL)
            continue;
        if (handoff_before_release(handoff->row.state))
            step_handoff_cancel(step, handoff, true, error);
        else
            end(step, handoff, HANDOFF_STATE_FAILED, error, NULL);
    }
}

/* After the release the target could not: who gave it up takes it again, if it is there. */
static void has_failed(struct step *step, struct handoff *handoff, const char *error)
{
    struct processor *processor = processor_of(step, &handoff->row);
    const struct agent *source = cluster_agent(step->cluster, handoff->row.source);
    bool back = source != NULL && !source->stopping &&
                cluster_agent_alive(step->cluster, source, step->event->now_ms) &&
                strcmp(handoff->row.source, handoff->row.target) != 0;
    end(step, handoff, HANDOFF_STATE_FAILED, error, NULL);
    if (back)
        give_back(step, processor, source->row.agent_id);
}

/* ---- reports */

static char *describe_failure(const struct task_report *report)
{
    if (report->problems.count == 0)
        return step_text("the task has failed and gives no reason");
    return step_text("%s: %s", report->problems.items[0].code, report->problems.items[0].detail);
}

/* The source, while it is told to release. */
static bool source_reported(struct step *step, struct handoff *handoff,
                            const struct task_report *report)
{
    if (handoff_is_released(&handoff->row, report)) {
        is_released(step, handoff);
        return true;
    }
    if (report->state == TASK_STATE_FENCED) {
        step_handoff_cancel(step, handoff, false, "the source was fenced before it released");
        return true;
    }
    if (report->state == TASK_STATE_FAILED) {
        char *failure = describe_failure(report);
        char *error = step_text("the source has failed: %s", failure);
        step_handoff_cancel(step, handoff, false, error);
        free(error);
        free(failure);
        return true;
    }
    return false;
}

/* The target, as the owner. */
static bool target_reported(struct step *step, struct handoff *handoff,
                            const struct task_report *report)
{
    if (report->handoff != handoff->row.id)
        return false;
    if (handoff->row.state == HANDOFF_STATE_RELEASED && report->state != TASK_STATE_FENCED &&
        report->state != TASK_STATE_CLOSED) {
        move(step, handoff, HANDOFF_STATE_ACTIVATING, "the target works under the new epoch");
    }
    if (handoff->row.state != HANDOFF_STATE_ACTIVATING)
        return false;
    if (report->state == TASK_STATE_ACTIVE) {
        end(step, handoff, HANDOFF_STATE_DONE, NULL, "the first commit of the target is there");
        return false; /* that it is active is still to be noted */
    }
    if (report->state == TASK_STATE_FAILED) {
        char *failure = describe_failure(report);
        has_failed(step, handoff, failure);
        free(failure);
        return true;
    }
    return false;
}

bool step_handoff_owner_reported(struct step *step, struct processor *processor)
{
    struct handoff *handoff = processor->handoff;
    const struct task_report *report = &processor->observed.report;
    if (handoff == NULL)
        return false;
    switch (handoff->row.state) {
    case HANDOFF_STATE_RELEASING:
        return source_reported(step, handoff, report);
    case HANDOFF_STATE_RELEASED:
    case HANDOFF_STATE_ACTIVATING:
        return target_reported(step, handoff, report);
    default:
        return false;
    }
}

static void learner_failed(struct step *step, struct handoff *handoff,
                           const struct task_report *report)
{
    struct job *job = cluster_job(step->cluster, handoff->row.job);
    const struct agent *target = cluster_agent(step->cluster, handoff->row.target);
    char *failure = describe_failure(report);
    char *error = step_text("agent %s can not learn it: %s", handoff->row.target, failure);
    /* It would fail again: the next try is for a new start of the agent, or for somebody to ask. */
    step_set_arrival(step, job, target, false);
    step_handoff_cancel(step, handoff, false, error);
    free(error);
    free(failure);
}

void step_handoff_learner_reported(struct step *step, struct processor *processor)
{
    struct handoff *handoff = processor->handoff;
    const struct task_report *report = cluster_learner_report(step->cluster, processor);
    if (report == NULL)
        return;
    if (report->state == TASK_STATE_FAILED) {
        learner_failed(step, handoff, report);
        return;
    }
    if (handoff->row.state == HANDOFF_STATE_LEARNING && report->state == TASK_STATE_CAUGHT_UP)
        move(step, handoff, HANDOFF_STATE_CAUGHT_UP, "the target has caught up");
    else if (handoff->row.state == HANDOFF_STATE_CAUGHT_UP && report->state != TASK_STATE_CAUGHT_UP)
        move(step, handoff, HANDOFF_STATE_LEARNING, "the target has fallen behind");
}

/* ---- other changes */

void step_handoff_follow_epoch(struct step *step, struct processor *processor)
{
    struct handoff *handoff = processor->handoff;
    const struct placement_row *placement = &processor->placement;
    if (handoff == NULL)
        return;
    if (handoff->row.state == HANDOFF_STATE_RELEASING) {
        char *target = mem_strdup(handoff->row.target);
        end(step, handoff, HANDOFF_STATE_CANCELLED, "the source got a new epoch before it released",
            NULL);
        renew(step, target);
        free(target);
        return;
    }
    bool before = handoff_before_release(handoff->row.state);
    uint64_t epoch = before ? handoff->row.source_epoch : handoff->row.target_epoch;
    if (epoch == placement->epoch)
        return;
    struct change change = handoff->row.state == HANDOFF_STATE_ACTIVATING
                               ? begin_move(step, handoff, HANDOFF_STATE_RELEASED)
                               : step_handoff_change(handoff);
    bool moved = change.handoff.state != handoff->row.state;
    rows_text_set(before ? &change.handoff.source_incarnation : &change.handoff.target_incarnation,
                  placement->agent_incarnation);
    *(before ? &change.handoff.source_epoch : &change.handoff.target_epoch) = placement->epoch;
    if (moved)
        (void)finish_move(step, &change);
    else
        step_change(step, &change);
}

void step_handoff_forget_agent(struct step *step, const struct agent *agent)
{
    struct cluster *cluster = step->cluster;
    char *error = mem_printf("agent %s was forgotten", agent->row.agent_id);
    for (size_t i = cluster->handoffs.count; i-- > 0;) {
        struct handoff *handoff = cluster->handoffs.items[i];
        if (strcmp(handoff->row.target, agent->row.agent_id) != 0)
            continue;
        if (handoff_before_release(handoff->row.state))
            step_handoff_cancel(step, handoff, true, error);
        else
            end(step, handoff, HANDOFF_STATE_FAILED, error, NULL);
    }
    free(error);
}

/* ---- time */

void step_resume_handoffs(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->handoffs.count; i++) {
        struct handoff *handoff = cluster->handoffs.items[i];
        int64_t spent_ms = step->event->now_at - handoff->row.changed_at;
        handoff->fsm.since_ms = step->event->now_ms - (spent_ms > 0 ? spent_ms : 0);
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

static void advance_before(struct step *step, struct handoff *handoff)
{
    const struct handoff_row *row = &handoff->row;
    struct job *job = cluster_job(step->cluster, row->job);
    struct processor *processor = processor_of(step, row);
    if (find_live(step, row->target, row->target_incarnation) == NULL) {
        char *error = step_text("agent %s has left, or is not heard of", row->target);
        step_handoff_cancel(step, handoff, true, error);
        free(error);
        return;
    }
    if (is_gone(step->cluster, row->source)) {
        /* Caught up it is as good as a standby. Before that the source has its grace. */
        if (row->state == HANDOFF_STATE_LEARNING)
            return;
        char *reason = step_text("agent %s is gone and %s has caught up", row->source, row->target);
        step_handoff_force(step, job, processor, cluster_agent(step->cluster, row->target), reason);
        free(reason);
        return;
    }
    if (row->state == HANDOFF_STATE_CAUGHT_UP && may_release(step, handoff))
        ask_for_release(step, handoff);
    else if (row->state == HANDOFF_STATE_RELEASING &&
             step->event->now_ms >= handoff->fsm.since_ms + RELEASE_PATIENCE_MS)
        step_handoff_cancel(step, handoff, false, "the source did not release in time");
}

/* Whoever gave it up has its whole state still, and need not be waited for. */
static void advance_after(struct step *step, struct handoff *handoff)
{
    const struct handoff_row *row = &handoff->row;
    if (!is_gone(step->cluster, row->target) || strcmp(row->source, row->target) == 0)
        return;
    struct agent *source = cluster_agent(step->cluster, row->source);
    if (source == NULL || find_live(step, row->source, source->row.incarnation) == NULL)
        return;
    char *reason = step_text("agent %s is gone and %s has the state", row->target, row->source);
    step_handoff_force(step, cluster_job(step->cluster, row->job), processor_of(step, row), source,
                       reason);
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
        if (handoff_before_release(handoff->row.state))
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
        if (handoff->row.state == HANDOFF_STATE_RELEASING && due_ms < wake_ms)
            wake_ms = due_ms;
    }
    return wake_ms;
}
