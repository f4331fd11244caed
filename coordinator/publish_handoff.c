/* A hand-over as readers see it: how far its target is, and what it waits for. Owner thread. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/core/handoff.h"
#include "coordinator/publish_job.h"

/* The learner says itself where it goes to: T1 as it follows it, of the owner's S1 (D3.3). */
static int64_t sum_replay(const struct task_report *report)
{
    int64_t sum = 0;
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *progress = &report->progress.items[i];
        if (progress->t1 < 0 || progress->t2 < 0)
            return API_UNKNOWN;
        if (progress->t2 < progress->t1 &&
            __builtin_add_overflow(sum, progress->t1 - progress->t2, &sum))
            return INT64_MAX;
    }
    return report->progress.count > 0 ? sum : API_UNKNOWN;
}

static double source_rate(const struct cluster *cluster, const struct processor *processor)
{
    const struct task_report *report = cluster_report(cluster, processor);
    return report != NULL ? report->records_per_s : 0;
}

static int64_t estimate(int64_t records, double per_s)
{
    if (records == 0)
        return 0;
    double ms = per_s > 0 ? (double)records / per_s * 1000.0 : 1e15;
    return records > 0 && ms < 1e15 ? (int64_t)ms : API_UNKNOWN;
}

/* Why a learner is not there yet, or not getting there. */
static char *explain_learning(const struct cluster *cluster, const struct processor *processor,
                              const struct task_report *report, const struct handoff_view *view)
{
    if (report == NULL)
        return publish_text("agent %s has not reported the learner yet", view->target);
    if (report->problems.count > 0)
        return publish_text("%s: %s", report->problems.items[0].code,
                            report->problems.items[0].detail);
    if (report->state == TASK_STATE_OPENING)
        return publish_text("the target is opening its state and its Kafka clients");
    if (cluster_report(cluster, processor) == NULL)
        return publish_text("the source does not report how far it has committed");
    if (view->replay_records < 0)
        return publish_text("it is not known yet how far the source has committed");
    if (view->replay_records > 0 && report->replayed_per_s > 0 &&
        report->replayed_per_s <= source_rate(cluster, processor))
        return publish_text("%" PRId64 " records to go, but more come in (%.0f/s) than it learns "
                            "(%.0f/s)",
                            view->replay_records, source_rate(cluster, processor),
                            report->replayed_per_s);
    return publish_text("%" PRId64 " records to go", view->replay_records);
}

static char *explain(const struct cluster *cluster, const struct processor *processor,
                     const struct task_report *report, const struct handoff_view *view)
{
    switch (view->state) {
    case HANDOFF_STATE_LEARNING:
        return explain_learning(cluster, processor, report, view);
    case HANDOFF_STATE_CAUGHT_UP:
        return publish_text("the target has caught up; the source is not active, or about to "
                            "leave");
    case HANDOFF_STATE_RELEASING:
        return publish_text("the source commits and stops");
    case HANDOFF_STATE_RELEASED:
        return publish_text("agent %s has not reported that it begins", view->target);
    case HANDOFF_STATE_ACTIVATING:
        return publish_text("the target shuts out older producers and makes its first commit");
    case HANDOFF_STATE_DONE:
    case HANDOFF_STATE_CANCELLED:
    case HANDOFF_STATE_FAILED:
        return NULL;
    }
    assert(!"a state of a hand-over");
    return NULL;
}

void publish_complete_handoff(const struct cluster *cluster, const struct handoff *handoff,
                              struct handoff_view *view)
{
    const struct job *job = cluster_job(cluster, handoff->row.job);
    const struct processor *processor = &job->processors.items[handoff->row.processor];
    const struct task_report *report = handoff_before_release(handoff->row.state)
                                           ? cluster_learner_report(cluster, processor)
                                           : cluster_report(cluster, processor);
    if (report != NULL) {
        view->lag_records = report->caught_up_lag;
        view->replay_records = sum_replay(report);
        view->replayed_per_s = report->replayed_per_s;
        view->eta_ms = estimate(view->replay_records,
                                report->replayed_per_s - source_rate(cluster, processor));
    }
    free(view->waiting);
    view->waiting = explain(cluster, processor, report, view);
}
