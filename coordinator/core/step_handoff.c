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
struct change step_handoff_begin_move(const struct step *step, const struct handoff *handoff,
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
struct handoff *step_handoff_finish_move(struct step *step, struct change *change)
{
    uint64_t id = change->handoff.id;
    step_change(step, change);
    struct handoff *handoff = cluster_handoff(step->cluster, id);
    if (handoff != NULL)
        handoff->fsm.since_ms = step->event->now_ms;
    return handoff;
}

void step_handoff_say(struct step *step, const struct handoff_row *row, const char *kind,
                      const char *text)
{
    /* What a split was to make is gone when it has come to nothing. */
    const struct processor named = {.placement = {.job = row->job, .processor = row->processor}};
    step_event(step,
               (struct event_about){.kind = kind,
                                    .processor = &named,
                                    .agent = row->target,
                                    .operation = row->operation,
                                    .actor = ACTOR_COORDINATOR},
               "%s %llu from %s to %s%s: %s",
               row->kind == HANDOFF_KIND_SPLIT ? "split" : "hand-over", (unsigned long long)row->id,
               row->source, row->target, row->forced ? ", forced" : "", text);
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

void step_handoff_move(struct step *step, struct handoff *handoff, enum handoff_state next,
                       const char *text)
{
    struct change change = step_handoff_begin_move(step, handoff, next);
    handoff = step_handoff_finish_move(step, &change);
    step_handoff_say(step, &handoff->row, kinds[next], text);
}

/* DONE, CANCELLED or FAILED. `error` NULL: none; may be a text of the row. */
void step_handoff_end(struct step *step, struct handoff *handoff, enum handoff_state state,
                      const char *error, const char *text)
{
    struct change change = step_handoff_begin_move(step, handoff, state);
    cluster_note_kept(step->cluster, &processor_of(step, &handoff->row)->learner);
    rows_text_set(&change.handoff.error, error);
    if (state == HANDOFF_STATE_DONE) {
        processor_of(step, &handoff->row)->handoff_backoff_ms = 0;
        rows_text_set(&processor_of(step, &handoff->row)->avoid, NULL);
        int64_t gap_ms = handoff->stop_ms != 0 ? step->event->now_ms - handoff->stop_ms
                                               : step->event->now_at - change.handoff.stopped_at;
        change.handoff.output_gap_ms = gap_ms > 0 ? gap_ms : 0;
    }
    struct handoff_row row;
    rows_copy_handoff(&row, &change.handoff);
    (void)step_handoff_finish_move(step, &change);
    step_handoff_say(step, &row, kinds[state], text != NULL ? text : error);
    if (row.operation != 0)
        step_move_ended(step, &row);
    if (row.kind == HANDOFF_KIND_SPLIT)
        step_expansion_ended(step, &row);
    rows_finish_handoff(&row);
    step->place = true; /* the next may start, and a newcomer may have all that it is owed */
}

/* ---- beginning */

struct change step_handoff_make_row(struct step *step, const struct job *job,
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
                                .parent = API_UNKNOWN,
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
    struct change change = step_handoff_make_row(step, job, processor, wish.target);
    step_standby_becomes(step, processor, wish.target);
    bool learns = job->row.spec.stateful;
    change.handoff.state = learns ? HANDOFF_STATE_LEARNING : HANDOFF_STATE_RELEASING;
    change.handoff.planned = wish.planned;
    change.handoff.operation = wish.operation;
    change.handoff.reason = text_printf("%s", wish.reason);
    if (!learns)
        change.handoff.stopped_at = step->event->now_at;
    struct handoff *handoff = step_handoff_finish_move(step, &change);
    handoff->begun_ms = step->event->now_ms;
    handoff->stop_ms = learns ? 0 : step->event->now_ms;
    step_handoff_say(step, &handoff->row, "handoff_started", handoff->row.reason);
    renew(step, learns ? handoff->row.target : handoff->row.source);
}

/* ---- release */

void step_handoff_ask_release(struct step *step, struct handoff *handoff)
{
    struct change change = step_handoff_begin_move(step, handoff, HANDOFF_STATE_RELEASING);
    change.handoff.stopped_at = step->event->now_at;
    handoff = step_handoff_finish_move(step, &change);
    handoff->stop_ms = step->event->now_ms;
    step_handoff_say(step, &handoff->row, kinds[HANDOFF_STATE_RELEASING],
                     "the source is told to commit and stop");
    renew(step, handoff->row.source);
}

/* Owner and epoch become the target's, durably, before it hears of it. */
static void give_to_target(struct step *step, struct handoff *handoff, const char *reason)
{
    struct processor *processor = processor_of(step, &handoff->row);
    struct agent *target = cluster_agent(step->cluster, handoff->row.target);
    assert(target != NULL);
    char *text = text_printf("hand-over %llu from %s: %s", (unsigned long long)handoff->row.id,
                             handoff->row.source, reason);
    if (processor->placement.agent != NULL)
        renew(step, processor->placement.agent);
    step_give(step, processor, target, NULL, text);
    free(text);
}

static void is_released(struct step *step, struct handoff *handoff)
{
    struct change change = step_handoff_begin_move(step, handoff, HANDOFF_STATE_RELEASED);
    change.handoff.target_epoch = step->cluster->meta.epoch + 1; /* which it is given below */
    handoff = step_handoff_finish_move(step, &change);
    cluster_forget_learner(processor_of(step, &handoff->row));
    step_handoff_say(step, &handoff->row, kinds[HANDOFF_STATE_RELEASED],
                     "the source has committed and stopped");
    give_to_target(step, handoff, handoff->row.reason);
    step->place = true; /* its learner's slot is free */
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
    if (owner != NULL && owner != target && owner->row.state == AGENT_STATE_LOST)
        cluster_note_lost(processor, owner->row.agent_id);
    struct change change;
    if (handoff == NULL) {
        change = step_handoff_make_row(step, job, processor, target);
        change.handoff.planned = true;
        change.handoff.reason = text_printf("%s", reason);
    } else {
        change = handoff->row.state != HANDOFF_STATE_RELEASED
                     ? step_handoff_begin_move(step, handoff, HANDOFF_STATE_RELEASED)
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
        handoff = step_handoff_finish_move(step, &change);
    if (handoff->stop_ms == 0 && before)
        handoff->stop_ms =
            owner != NULL && owner->seen_ms != 0 ? owner->seen_ms : step->event->now_ms;
    cluster_forget_learner(processor);
    step_handoff_say(step, &handoff->row, "handoff_forced", reason);
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

/* The planner is to leave it alone for a while. */
static void delay_next(const struct step *step, struct processor *processor, const char *target)
{
    int64_t backoff_ms = processor->handoff_backoff_ms * 2;
    if (backoff_ms < HANDOFF_RETRY_MS)
        backoff_ms = HANDOFF_RETRY_MS;
    if (backoff_ms > HANDOFF_RETRY_MS_MAX)
        backoff_ms = HANDOFF_RETRY_MS_MAX;
    processor->handoff_backoff_ms = backoff_ms;
    rows_text_set(&processor->avoid, target);
    processor->handoff_retry_ms = step->event->now_ms + backoff_ms;
}

void step_handoff_cancel(struct step *step, struct handoff *handoff, bool again, const char *error)
{
    if (handoff->row.kind == HANDOFF_KIND_SPLIT) {
        step_split_cancel(step, handoff, again, error);
        return;
    }
    struct processor *processor = processor_of(step, &handoff->row);
    bool told = handoff->row.state == HANDOFF_STATE_RELEASING;
    char *source = mem_strdup(handoff->row.source), *target = mem_strdup(handoff->row.target);
    step_handoff_end(step, handoff, HANDOFF_STATE_CANCELLED, error, NULL);
    renew(step, target);
    /* It may have stopped by now, or be about to: only a new epoch tells the two apart (D4). */
    if (told)
        give_back(step, processor, source);
    if (again)
        processor->handoff_retry_ms = 0;
    else
        delay_next(step, processor, target);
    free(source);
    free(target);
}

void step_cancel_handoffs(struct step *step, const struct job *job, bool keep_told_splits,
                          const char *error)
{
    bool keep = keep_told_splits && job->nascent &&
                !handoff_is_cancellable(&cluster_nascent(job)->handoff->row);
    if (job->nascent && !keep) { /* nobody goes on with what may have been given */
        struct handoff *split = cluster_nascent(job)->handoff;
        renew(step, split->row.target);
        step_handoff_end(step, split, HANDOFF_STATE_CANCELLED, error, NULL);
    }
    for (size_t i = 0; i < job->processors.count; i++) {
        struct handoff *handoff = job->processors.items[i].handoff;
        if (handoff == NULL)
            continue;
        if (handoff_before_release(handoff->row.state))
            step_handoff_cancel(step, handoff, true, error);
        else
            step_handoff_end(step, handoff, HANDOFF_STATE_FAILED, error, NULL);
    }
}

/* After the release the target could not: who gave it up takes it again. */
static void has_failed(struct step *step, struct handoff *handoff, bool back, const char *error)
{
    struct processor *processor = processor_of(step, &handoff->row);
    char *source = mem_strdup(handoff->row.source), *target = mem_strdup(handoff->row.target);
    step_handoff_end(step, handoff, HANDOFF_STATE_FAILED, error, NULL);
    delay_next(step, processor, target);
    if (back)
        give_back(step, processor, source);
    free(source);
    free(target);
}

/* ---- reports */

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
        char *failure = step_describe_failure(report);
        char *error = text_printf("the source has failed: %s", failure);
        step_handoff_cancel(step, handoff, false, error);
        free(error);
        free(failure);
        return true;
    }
    return false;
}

/* True: the hand-over has ended. */
static bool target_failed(struct step *step, struct handoff *handoff,
                          const struct task_report *report)
{
    const struct handoff_row *row = &handoff->row;
    if (row->kind == HANDOFF_KIND_SPLIT)
        return step_split_target_failed(step, handoff, report);
    const struct agent *source = cluster_agent(step->cluster, row->source);
    bool other = strcmp(row->source, row->target) != 0;
    bool back = other && source != NULL && !source->stopping &&
                cluster_agent_alive(step->cluster, source, step->event->now_ms);
    /* The source is the only one that has the state: it is waited for (advance_after). */
    if (other && !back && handoff_is_hopeless(step_failure_code(report)))
        return false;
    char *failure = step_describe_failure(report);
    (void)step_refuse(step, handoff, report); /* else it may be tried again some time later */
    has_failed(step, handoff, back, failure);
    free(failure);
    return true;
}

/* The target, as the owner. */
static bool target_reported(struct step *step, struct handoff *handoff,
                            const struct task_report *report)
{
    if (report->handoff != handoff->row.id)
        return false;
    if (handoff->row.state == HANDOFF_STATE_RELEASED && report->state != TASK_STATE_FENCED &&
        report->state != TASK_STATE_CLOSED) {
        step_handoff_move(step, handoff, HANDOFF_STATE_ACTIVATING,
                          "the target works under the new epoch");
    }
    if (handoff->row.state != HANDOFF_STATE_ACTIVATING)
        return false;
    /* S31: what stops it would stop every other agent as well. */
    if (report->state == TASK_STATE_FAILED &&
        (report->halted.count > 0 || report->found.count > 0)) {
        step_handoff_end(step, handoff, HANDOFF_STATE_DONE, NULL,
                         "the target is as far as the input lets it come");
        return false;
    }
    if (report->state == TASK_STATE_ACTIVE || report->state == TASK_STATE_PAUSED) {
        step_handoff_end(step, handoff, HANDOFF_STATE_DONE, NULL,
                         "the first commit of the target is there");
        return false; /* that it is active, or paused, is still to be noted */
    }
    return report->state == TASK_STATE_FAILED && target_failed(step, handoff, report);
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
    if (handoff->row.kind == HANDOFF_KIND_SPLIT && step_split_learner_failed(step, handoff, report))
        return;
    /* What may pass is tried again by the agent; but a source that stops needs a target now. */
    if (!step_refuse(step, handoff, report) && handoff->row.state != HANDOFF_STATE_RELEASING) {
        if (handoff->failing_ms == 0)
            handoff->failing_ms = step->event->now_ms;
        if (handoff->row.state == HANDOFF_STATE_CAUGHT_UP)
            step_handoff_move(step, handoff, HANDOFF_STATE_LEARNING,
                              "the target has failed, and tries again");
        return;
    }
    char *failure = step_describe_failure(report);
    char *error = text_printf("agent %s can not learn it: %s", handoff->row.target, failure);
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
    if (report->state == TASK_STATE_LEARNING || report->state == TASK_STATE_CAUGHT_UP)
        handoff->failing_ms = 0;
    if (handoff->row.state == HANDOFF_STATE_LEARNING && report->state == TASK_STATE_CAUGHT_UP)
        step_handoff_move(step, handoff, HANDOFF_STATE_CAUGHT_UP, "the target has caught up");
    else if (handoff->row.state == HANDOFF_STATE_CAUGHT_UP && report->state != TASK_STATE_CAUGHT_UP)
        step_handoff_move(step, handoff, HANDOFF_STATE_LEARNING, "the target has fallen behind");
}

/* ---- other changes */

void step_handoff_follow_epoch(struct step *step, struct processor *processor)
{
    struct handoff *handoff = processor->handoff;
    const struct placement_row *placement = &processor->placement;
    step_split_follow_epoch(step, processor);
    if (handoff == NULL)
        return;
    if (handoff->row.state == HANDOFF_STATE_RELEASING) {
        char *target = mem_strdup(handoff->row.target);
        step_handoff_end(step, handoff, HANDOFF_STATE_CANCELLED,
                         "the source got a new epoch before it released", NULL);
        renew(step, target);
        free(target);
        return;
    }
    bool before = handoff_before_release(handoff->row.state);
    uint64_t epoch = before ? handoff->row.source_epoch : handoff->row.target_epoch;
    if (epoch == placement->epoch)
        return;
    struct change change = handoff->row.state == HANDOFF_STATE_ACTIVATING
                               ? step_handoff_begin_move(step, handoff, HANDOFF_STATE_RELEASED)
                               : step_handoff_change(handoff);
    bool moved = change.handoff.state != handoff->row.state;
    rows_text_set(before ? &change.handoff.source_incarnation : &change.handoff.target_incarnation,
                  placement->agent_incarnation);
    *(before ? &change.handoff.source_epoch : &change.handoff.target_epoch) = placement->epoch;
    if (moved)
        (void)step_handoff_finish_move(step, &change);
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
        if (handoff_is_cancellable(&handoff->row))
            step_handoff_cancel(step, handoff, true, error);
        else if (!handoff_before_release(handoff->row.state)) /* else it goes to another agent */
            step_handoff_end(step, handoff, HANDOFF_STATE_FAILED, error, NULL);
    }
    free(error);
}
