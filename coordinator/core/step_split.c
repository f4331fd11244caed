/*
 * Splits: the job's next processor gets its partitions from its parent, which goes on with the rest
 * (coordinator/core/handoff.h has the states).
 *
 * The source is the owner of the parent, whoever that becomes. Nothing that happens to it ends a
 * split, which waits until there is an owner at work: before it was told, because nothing has
 * changed; afterwards, because the committed offsets may carry the new processor's stamp already,
 * which fences every owner that was not told of it.
 *
 * Where topics have grown, the new processor inherits records from partitions that its parent keeps
 * (agent/core/task_inherit.c). The source is told only when the settle windows of those are closed:
 * what a producer of an earlier count writes there afterwards, for keys that have left, is nobody's
 * any more. Up to where the new processor inherits is what the source's commit says, and durable in
 * the update that makes the processor.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/placing.h"
#include "coordinator/core/step_job.h"
#include "coordinator/core/view.h"

static struct processor *parent_of(const struct step *step, const struct handoff_row *row)
{
    struct job *job = cluster_job(step->cluster, row->job);
    assert(job != NULL);
    return &job->processors.items[cluster_parent(job, row->processor)];
}

static void renew(struct step *step, const char *agent_id)
{
    struct agent *agent = cluster_agent(step->cluster, agent_id);
    if (agent != NULL)
        step_renew_document(step, agent);
}

/* ---- beginning */

const char *step_split_find_obstacle(const struct step *step, const struct job *job,
                                     const struct processor *parent)
{
    if (job->row.pause.on)
        return "waits: the job is paused";
    if (cluster_is_held(job))
        return "waits: others are in the job's group";
    if (parent->handoff != NULL)
        return "waits: the processor to be split is on its way to another agent";
    if (parent->placement.agent == NULL)
        return "waits: the processor to be split has no owner";
    const struct agent *owner = cluster_agent(step->cluster, parent->placement.agent);
    if (!placing_stays(step->cluster, owner, step->event->now_ms) || cluster_agent_leaving(owner))
        return "waits: the owner of the processor to be split is gone, or is to leave";
    const struct task_report *report = cluster_report(step->cluster, parent);
    return report == NULL || report->state != TASK_STATE_ACTIVE
               ? "waits: the processor to be split is not active"
               : NULL;
}

/* The partitions that the next processor gets. */
static void list_partitions(const struct job *job, struct uint_list *ret_partitions)
{
    struct job grown = *job;
    grown.row.processors++;
    grown.nascent = false;
    cluster_owned_partitions(&grown, job->row.processors, ret_partitions);
}

void step_split_start(struct step *step, struct job *job, const struct agent *target,
                      uint64_t operation, const char *reason)
{
    assert(!job->nascent);
    uint32_t child = job->row.processors;
    const struct processor *parent = &job->processors.items[cluster_parent(job, child)];
    struct change change = step_handoff_make_row(step, job, parent, target);
    bool learns = job->row.spec.stateful;
    change.handoff.kind = HANDOFF_KIND_SPLIT;
    change.handoff.processor = child;
    change.handoff.parent = parent->placement.processor;
    free(change.handoff.partitions.items);
    list_partitions(job, &change.handoff.partitions);
    change.handoff.state = learns ? HANDOFF_STATE_LEARNING : HANDOFF_STATE_CAUGHT_UP;
    change.handoff.operation = operation;
    change.handoff.reason = text_printf("%s", reason);
    struct handoff *handoff = step_handoff_finish_move(step, &change);
    handoff->begun_ms = step->event->now_ms;
    step_handoff_say(step, &handoff->row, "handoff_started", handoff->row.reason);
    renew(step, handoff->row.target);
}

void step_split_recovered(struct step *step, const struct job *job, const struct processor *parent,
                          const struct document_task *told)
{
    const struct agent *owner = cluster_agent(step->cluster, parent->placement.agent);
    struct change change = step_handoff_make_row(step, job, parent, owner);
    change.handoff.id = told->split_handoff;
    change.handoff.kind = HANDOFF_KIND_SPLIT;
    change.handoff.processor = told->split_processor;
    change.handoff.parent = parent->placement.processor;
    free(change.handoff.partitions.items);
    list_partitions(job, &change.handoff.partitions);
    change.handoff.state = HANDOFF_STATE_RELEASING;
    change.handoff.target_epoch = told->split_epoch;
    change.handoff.reason = text_printf("recovered: agent %s was told of it", owner->row.agent_id);
    struct handoff *handoff = step_handoff_finish_move(step, &change);
    handoff->begun_ms = step->event->now_ms;
    step_renew_document(step, cluster_agent(step->cluster, parent->placement.agent));
}

/* ---- before the source is told */

void step_split_cancel(struct step *step, struct handoff *handoff, bool again, const char *error)
{
    assert(handoff_is_cancellable(&handoff->row));
    char *target = mem_strdup(handoff->row.target);
    struct operation *operation = cluster_operation(step->cluster, handoff->row.operation);
    step_handoff_end(step, handoff, HANDOFF_STATE_CANCELLED, error, NULL);
    renew(step, target);
    if (!again && operation != NULL && operation->row.state == OPERATION_STATE_RUNNING)
        step_end_operation(step, operation, OPERATION_STATE_FAILED, error);
    free(target);
}

/* ---- settle windows of what the parent keeps */

static const struct window_report *find_report(const struct task_report *report,
                                               const struct settle_window *window)
{
    for (size_t i = 0; i < report->windows.count; i++) {
        const struct window_report *told = &report->windows.items[i];
        if (told->topic == window->topic && told->partition == window->partition)
            return told;
    }
    return NULL;
}

static bool has_committed(const struct task_report *report, const struct settle_window *window)
{
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *progress = &report->progress.items[i];
        if (progress->topic == window->topic && progress->partition == window->partition)
            return progress->t1 != API_UNKNOWN && progress->t1 >= window->fence;
    }
    return false;
}

/* Closed, as far as the database and the owner know, which has committed what came before. */
static bool is_settled(const struct window *window, const struct task_report *report)
{
    if (window == NULL || window->row.window.fence == API_UNKNOWN)
        return false;
    const struct window_report *told = find_report(report, &window->row.window);
    return told != NULL && told->number == window->row.window.number && !told->stale &&
           has_committed(report, &window->row.window);
}

/* Of those partitions, in how many topics that is still waited for. */
static size_t count_unsettled(const struct step *step, const struct handoff_row *row)
{
    const struct job *job = cluster_job(step->cluster, row->job);
    const struct task_report *report = cluster_report(step->cluster, parent_of(step, row));
    size_t count = 0;
    if (row->processor < job->row.partitions_initial)
        return 0; /* whole trees leave */
    for (uint32_t topic = 0; topic < job->row.spec.inputs.count; topic++)
        count += report == NULL ||
                 !is_settled(cluster_window(job, topic, (uint32_t)row->parent), report);
    return count;
}

/* For whoever asks why the operation does not get on. Without an owner at work nobody knows whether
 * a window is closed. */
static void say_unsettled(struct step *step, const struct handoff *handoff, size_t count)
{
    const struct operation *operation = cluster_operation(step->cluster, handoff->row.operation);
    const struct job *job = cluster_job(step->cluster, handoff->row.job);
    if (operation == NULL || view_operation_finished(operation->row.state))
        return;
    const char *obstacle =
        count == 0 ? NULL : step_split_find_obstacle(step, job, parent_of(step, &handoff->row));
    if (count == 0 || obstacle != NULL) {
        step_move_say_obstacle(step, operation, obstacle);
        return;
    }
    char *text =
        text_printf("waits: producers may still write by an earlier number of partitions; "
                    "the settle windows of partition %lld close when none has for %lld s",
                    (long long)handoff->row.parent, (long long)job->row.spec.settle_ms / 1000);
    step_move_say_obstacle(step, operation, text);
    free(text);
}

/* The parent is held by an owner that works, and that will hear of it. */
static bool may_release(const struct step *step, const struct handoff *handoff)
{
    const struct processor *parent = parent_of(step, &handoff->row);
    const struct job *job = cluster_job(step->cluster, handoff->row.job);
    const struct task_report *report = cluster_report(step->cluster, parent);
    if (parent->handoff != NULL || report == NULL || report->state != TASK_STATE_ACTIVE ||
        cluster_is_held(job))
        return false;
    const struct agent *owner = cluster_agent(step->cluster, parent->placement.agent);
    return placing_stays(step->cluster, owner, step->event->now_ms) &&
           count_unsettled(step, &handoff->row) == 0;
}

static void ask_release(struct step *step, struct handoff *handoff)
{
    struct change change = step_handoff_begin_move(step, handoff, HANDOFF_STATE_RELEASING);
    change.handoff.stopped_at = step->event->now_at;
    change.handoff.target_epoch = ++step->cluster->meta.epoch;
    handoff = step_handoff_finish_move(step, &change);
    handoff->stop_ms = step->event->now_ms;
    step_handoff_say(step, &handoff->row, "handoff_releasing",
                     "the source is told to commit them for the new processor");
    renew(step, handoff->row.source);
}

/* Why it can not go on like this; NULL: it can. free() */
static char *find_end(const struct step *step, const struct handoff *handoff)
{
    const struct handoff_row *row = &handoff->row;
    const struct agent *target = cluster_agent(step->cluster, row->target);
    const struct processor *parent = parent_of(step, row);
    if (target == NULL || strcmp(target->row.incarnation, row->target_incarnation) != 0 ||
        !placing_stays(step->cluster, target, step->event->now_ms))
        return text_printf("agent %s has left, or is not heard of", row->target);
    if (!cluster_agent_schedulable(target))
        return text_printf("agent %s is %s", row->target, cluster_say_unschedulable(target));
    const struct agent *owner = parent->placement.agent != NULL
                                    ? cluster_agent(step->cluster, parent->placement.agent)
                                    : NULL;
    if (owner != NULL && cluster_agent_leaving(owner))
        return text_printf("agent %s is to leave, and hands its processors over first",
                           owner->row.agent_id);
    return NULL;
}

void step_split_advance(struct step *step, struct handoff *handoff)
{
    if (handoff->row.state == HANDOFF_STATE_RELEASING)
        return; /* only the source's word moves it */
    char *end = find_end(step, handoff);
    if (end == NULL)
        say_unsettled(step, handoff, count_unsettled(step, &handoff->row));
    if (end != NULL)
        step_split_cancel(step, handoff, true, end);
    else if (handoff->failing_ms != 0 &&
             step->event->now_ms >= handoff->failing_ms + LEARNER_PATIENCE_MS)
        step_split_cancel(step, handoff, false, "its target could not learn it for too long");
    else if (handoff->row.state == HANDOFF_STATE_CAUGHT_UP && may_release(step, handoff))
        ask_release(step, handoff);
    free(end);
}

bool step_split_learner_failed(struct step *step, struct handoff *handoff,
                               const struct task_report *report)
{
    if (handoff->row.state == HANDOFF_STATE_RELEASING)
        return true; /* it, or another agent, will have to */
    if (!handoff_is_hopeless(step_failure_code(report)))
        return false;
    char *failure = step_describe_failure(report);
    char *error = text_printf("agent %s can not learn processor %u: %s", handoff->row.target,
                              handoff->row.processor, failure);
    step_split_cancel(step, handoff, false, error);
    free(error);
    free(failure);
    return true;
}

/* ---- the parent */

void step_split_follow_epoch(struct step *step, const struct processor *processor)
{
    const struct placement_row *placement = &processor->placement;
    const struct job *job = cluster_job(step->cluster, placement->job);
    const struct handoff *handoff = cluster_split_of(job, placement->processor);
    if (handoff == NULL || placement->epoch == handoff->row.source_epoch)
        return;
    struct change change = step_handoff_change(handoff);
    rows_text_set(&change.handoff.source, placement->agent);
    rows_text_set(&change.handoff.source_incarnation, placement->agent_incarnation);
    change.handoff.source_epoch = placement->epoch;
    step_change(step, &change);
}

/* ---- the release */

/* The target, unless it can not have it any more; at worst the source, which is there. */
static struct agent *choose_owner(const struct step *step, const struct job *job,
                                  const struct handoff_row *row)
{
    int64_t now_ms = step->event->now_ms;
    struct agent *target = cluster_agent(step->cluster, row->target);
    if (target != NULL && placing_may_receive(step->cluster, target, now_ms))
        return target;
    struct agent *other = placing_choose_for_new(step->cluster, job, now_ms, NULL);
    return other != NULL ? other : cluster_agent(step->cluster, row->source);
}

static void add_processor(struct step *step, const struct job *job)
{
    struct change change = step_job_change(job);
    change.job.processors++;
    change.job.map_version++;
    step_change(step, &change);
}

/* One for each topic; false: the source has not said them all, and nothing is guessed. */
static bool knows_bounds(const struct job *job, const struct handoff_row *row,
                         const struct task_report *report)
{
    size_t count = 0;
    if (!cluster_inherits(job, row->processor))
        return true;
    for (size_t i = 0; i < report->split_bounds.count; i++) {
        const struct ancestor_bound *bound = &report->split_bounds.items[i];
        if (bound->partition != row->parent || bound->topic != count || bound->offset < 0)
            return false;
        count++;
    }
    return count == job->row.spec.inputs.count;
}

static void take_bounds(const struct task_report *report, struct placement_row *row)
{
    size_t count = report->split_bounds.count;
    free(row->bounds.items);
    row->bounds.items =
        count == 0 ? NULL
                   : mem_memdup(report->split_bounds.items, count * sizeof(*row->bounds.items));
    row->bounds.count = count;
}

/* Under the epoch that its offsets carry already. */
static void give_to(struct step *step, struct processor *processor, const struct agent *owner,
                    const struct handoff_row *row, const struct task_report *report)
{
    struct change change = step_placement_change(processor);
    rows_text_set(&change.placement.agent, owner->row.agent_id);
    rows_text_set(&change.placement.agent_incarnation, owner->row.incarnation);
    change.placement.epoch = row->target_epoch;
    change.placement.handoff = row->id;
    free(change.placement.reason);
    change.placement.reason = text_printf("split %llu from %s: %s", (unsigned long long)row->id,
                                          row->source, row->reason);
    change.placement.changed_at = step->event->now_at;
    if (cluster_inherits(cluster_job(step->cluster, row->job), row->processor))
        take_bounds(report, &change.placement);
    step_change(step, &change);
}

static void is_released(struct step *step, struct job *job, struct handoff *handoff)
{
    const struct agent *owner = choose_owner(step, job, &handoff->row);
    char *learner = mem_strdup(handoff->row.target);
    add_processor(step, job);
    struct processor *processor = &job->processors.items[handoff->row.processor];
    const struct task_report *report = &job->processors.items[handoff->row.parent].observed.report;
    struct change change = step_handoff_begin_move(step, handoff, HANDOFF_STATE_RELEASED);
    rows_text_set(&change.handoff.target, owner->row.agent_id);
    rows_text_set(&change.handoff.target_incarnation, owner->row.incarnation);
    handoff = step_handoff_finish_move(step, &change);
    cluster_note_kept(step->cluster, &processor->learner);
    cluster_forget_learner(processor);
    give_to(step, processor, owner, &handoff->row, report);
    step_handoff_say(step, &handoff->row, "handoff_released",
                     "the source has committed them for the new processor");
    step_event(step,
               (struct event_about){
                   "processor_added", .processor = processor, .agent = owner->row.agent_id,
                   .operation = handoff->row.operation, .actor = ACTOR_COORDINATOR},
               "epoch %llu; the job has %u processors, map version %llu",
               (unsigned long long)processor->placement.epoch, job->row.processors,
               (unsigned long long)job->row.map_version);
    step_job_renew_documents(step, job);
    renew(step, learner);
    free(learner);
    step->place = true; /* its learner's slot is free, and its parent is no more held */
}

void step_split_source_reported(struct step *step, struct job *job,
                                const struct processor *processor)
{
    struct handoff *handoff = cluster_split_of(job, processor->placement.processor);
    if (handoff != NULL && handoff_is_split(&handoff->row, &processor->observed.report) &&
        knows_bounds(job, &handoff->row, &processor->observed.report))
        is_released(step, job, handoff);
}

/* ---- after it */

/* It is tried again there, and a loss of the target is seen to as any owner's. Records that are
 * gone do not come back; but while a copy of the parent's state can be had they are not needed.
 * Else the next split need not wait for that. */
bool step_split_target_failed(struct step *step, struct handoff *handoff,
                              const struct task_report *report)
{
    const struct job *job = cluster_job(step->cluster, handoff->row.job);
    if (!handoff_is_hopeless(step_failure_code(report)) ||
        cluster_parent_gives(step->cluster, job, &job->processors.items[handoff->row.processor]))
        return false;
    char *failure = step_describe_failure(report);
    step_handoff_end(step, handoff, HANDOFF_STATE_FAILED, failure, NULL);
    free(failure);
    return false;
}
