/*
 * What people hold back, until they say otherwise, over restarts, too.
 *
 * A paused job: its owners commit, and stop (D3.4, agent/core/task_pause.c). What of its hand-overs
 * is before the release comes to nothing, what is after it ends, with a target that is paused in
 * its turn. Lost owners are replaced as ever. Resumed, every owner activates under a new epoch, as
 * soon as a look at the group has found nobody in it (step_group.c).
 *
 * Maintenance: no planned hand-over begins, of any job; see placing.c.
 */
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/step_group.h"
#include "coordinator/core/step_job.h"
#include "coordinator/core/view.h"

#define NO_REASON "asked for without a reason"

static void set_hold(const struct step *step, struct hold *hold, bool on, const char *reason)
{
    const char *actor = step->event->actor != NULL ? step->event->actor : ACTOR_COORDINATOR;
    if (hold->on != on) /* said again it is the same decision still, since the first one's time */
        hold->changed_at = step->event->now_at;
    hold->on = on;
    rows_text_set(&hold->reason, reason);
    rows_text_set(&hold->actor, actor);
}

/* ---- pause */

static void end_move(struct step *step, uint64_t id, const char *why)
{
    struct operation *operation = cluster_operation(step->cluster, id);
    if (operation != NULL && operation->row.kind == OPERATION_KIND_MOVE &&
        !view_operation_finished(operation->row.state))
        step_end_operation(step, operation, OPERATION_STATE_CANCELLED, why);
}

/* A split begins anew when the job goes on; one whose source was told goes on then. */
static void cancel_handoffs(struct step *step, struct job *job, const char *why)
{
    if (job->nascent && handoff_is_cancellable(&cluster_nascent(job)->handoff->row))
        step_handoff_cancel(step, cluster_nascent(job)->handoff, true, why);
    for (size_t i = 0; i < job->processors.count; i++) {
        struct handoff *handoff = job->processors.items[i].handoff;
        if (handoff == NULL || !handoff_before_release(handoff->row.state))
            continue;
        end_move(step, handoff->row.operation, why);
        step_handoff_cancel(step, handoff, true, why);
    }
}

/* Moves that wait for their turn; a rebalance goes on when the job does. */
static void cancel_queued(struct step *step, const struct job *job, const char *why)
{
    const struct cluster *cluster = step->cluster;
    uint64_t next = 0;
    size_t index;
    /* Ending one may push the oldest finished one out of the list. */
    while (cluster_find_operation(cluster, next, &index) || index < cluster->operations.count) {
        const struct operation_row *row = &cluster->operations.items[index]->row;
        next = row->id + 1;
        if (row->step == OPERATION_STEP_QUEUE &&
            strcmp(row->job_incarnation, job->row.incarnation) == 0)
            end_move(step, row->id, why);
    }
}

void step_hold_back(struct step *step, struct job *job, const char *why)
{
    cancel_handoffs(step, job, why);
    cancel_queued(step, job, why);
}

/* False: it is so already, for the same reason. */
static bool change_pause(struct step *step, struct job *job, bool on)
{
    const struct hold *pause = &job->row.pause;
    const char *reason = step->event->reason;
    if (pause->on == on && (!on || rows_text_equal(pause->reason, reason)))
        return false;
    struct change change = step_job_change(job);
    set_hold(step, &change.job.pause, on, reason);
    step_change(step, &change);
    step_event(step, (struct event_about){on ? "job_paused" : "job_resumed", .job = job->row.name},
               "%s", reason != NULL ? reason : NO_REASON);
    return true;
}

void step_pause(struct step *step)
{
    struct job *job = step_find_job(step);
    if (job == NULL)
        return;
    bool paused = job->row.pause.on;
    (void)change_pause(step, job, true); /* perhaps only the reason */
    if (!paused) {
        step_hold_back(step, job, "the job was paused");
        step_job_renew_documents(step, job);
        step->place = true;
    }
    step_answer_job(step, step->event->request, 200, job);
}

/* ---- resume */

static void give_anew(struct step *step, struct processor *processor, const char *reason)
{
    struct agent *owner = processor->placement.agent != NULL
                              ? cluster_agent(step->cluster, processor->placement.agent)
                              : NULL;
    if (owner == NULL)
        return;
    step_give(step, processor, owner, processor->placement.trouble, reason);
    step_event(step,
               (struct event_about){"processor_assigned", .processor = processor,
                                    .agent = owner->row.agent_id, .actor = ACTOR_COORDINATOR},
               "epoch %llu: %s", (unsigned long long)processor->placement.epoch,
               processor->placement.reason);
}

void step_give_all_anew(struct step *step, struct job *job, const char *reason)
{
    for (size_t i = 0; i < job->processors.count; i++)
        give_anew(step, &job->processors.items[i], reason);
}

void step_resume(struct step *step)
{
    struct job *job = step_find_job(step);
    if (job == NULL)
        return;
    if (change_pause(step, job, false)) {
        if (step_groups_watched(step->cluster))
            step_group_wait(step, job);
        else
            step_give_all_anew(step, job, "the job was resumed");
        step_job_renew_documents(step, job);
        step->place = true;
    }
    step_answer_job(step, step->event->request, 200, job);
}

/* ---- what owners report */

/* T1 of S1, as it was reported; what is not known is left out. free() its items. */
static void take_t1(const struct job *job, const struct processor *processor,
                    struct placement_row *ret_row)
{
    const struct task_report *report = &processor->observed.report;
    struct uint_list owned;
    size_t count = 0;
    cluster_owned_partitions(job, processor->placement.processor, &owned);
    struct input_offset *items = mem_calloc(report->progress.count, sizeof(*items));
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *progress = &report->progress.items[i];
        for (size_t k = 0; k < owned.count && progress->t1 != API_UNKNOWN; k++)
            if (owned.items[k] == progress->partition)
                items[count++] =
                    (struct input_offset){progress->topic, progress->partition, progress->t1};
    }
    free(owned.items);
    ret_row->paused_t1.items = items;
    ret_row->paused_t1.count = count;
}

void step_is_paused(struct step *step, const struct job *job, struct processor *processor)
{
    const struct placement_row *placement = &processor->placement;
    struct change change = step_placement_change(processor);
    if (job->row.pause.on) { /* else it is held: what others commit is accepted from no T1 on */
        free(change.placement.paused_t1.items);
        take_t1(job, processor, &change.placement);
    }
    bool first = job->row.pause.on && placement->paused_t1.count == 0;
    bool same =
        rows_offsets_equal(placement->paused_t1.items, placement->paused_t1.count,
                           change.placement.paused_t1.items, change.placement.paused_t1.count);
    if (same && placement->trouble == NULL) {
        change_finish(&change);
        return;
    }
    rows_text_set(&change.placement.trouble, NULL);
    step_change(step, &change);
    step_renew_document(step, cluster_agent(step->cluster, placement->agent));
    if (first)
        step_event(step,
                   (struct event_about){"processor_paused", .processor = processor,
                                        .agent = placement->agent},
                   "epoch %llu: all that it put out is committed",
                   (unsigned long long)placement->epoch);
}

void step_note_active(struct step *step, struct processor *processor, struct change *change)
{
    const struct task_report *report = &processor->observed.report;
    if (processor->placement.paused_t1.count == 0)
        return;
    free(change->placement.paused_t1.items);
    change->placement.paused_t1.items = NULL;
    change->placement.paused_t1.count = 0;
    step_renew_document(step, cluster_agent(step->cluster, processor->placement.agent));
    for (size_t i = 0; i < report->problems.count; i++)
        if (strcmp(report->problems.items[i].code, "offsets_accepted") == 0)
            step_event(step,
                       (struct event_about){"offsets_accepted", .processor = processor,
                                            .agent = processor->placement.agent},
                       "%s", report->problems.items[i].detail);
}

/* ---- maintenance */

static void say_maintenance(struct step *step, const struct maintenance_request *wish)
{
    const char *reason = wish->reason != NULL ? wish->reason : NO_REASON;
    if (wish->enabled)
        step_event(step, (struct event_about){.kind = "maintenance_on"}, "%s", reason);
    else
        step_event(step, (struct event_about){.kind = "maintenance_off"}, "%s", reason);
}

void step_maintenance(struct step *step)
{
    const struct maintenance_request *wish = &step->event->maintenance;
    struct cluster *cluster = step->cluster;
    const struct hold *hold = &cluster->maintenance.hold;
    if (hold->on != wish->enabled || (hold->on && !rows_text_equal(hold->reason, wish->reason))) {
        struct change change = {.kind = CHANGE_MAINTENANCE};
        rows_copy_hold(&change.maintenance.hold, hold);
        set_hold(step, &change.maintenance.hold, wish->enabled, wish->reason);
        step_change(step, &change);
        say_maintenance(step, wish);
        step->place = true;
    }
    struct maintenance_view *view = mem_calloc(1, sizeof(*view));
    view_maintenance(&cluster->maintenance, view);
    step_answer(step, step->event->request, 200, &schema_maintenance_view, view);
}
