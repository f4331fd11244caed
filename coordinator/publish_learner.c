#include "coordinator/publish_learner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"

static int64_t add(int64_t sum, int64_t more)
{
    int64_t total;
    return __builtin_add_overflow(sum, more, &total) ? INT64_MAX : total;
}

/* Whose owner it follows: what a split is to make is its parent's still. */
static const struct processor *followed_by(const struct cluster *cluster,
                                           const struct processor *processor)
{
    const struct job *job = cluster_job(cluster, processor->placement.job);
    return processor == cluster_nascent(job)
               ? &job->processors.items[cluster_parent(job, processor->placement.processor)]
               : processor;
}

/* The learner says itself where it goes to: T1 as it follows it, of the owner's S1 (D3.3). */
static void sum_up(const struct task_report *report, struct learner_view *view)
{
    view->learned_records = view->target_records = view->replay_records = API_UNKNOWN;
    if (report == NULL || report->progress.count == 0)
        return;
    int64_t learned = 0, target = 0, replay = 0;
    bool known = true;
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *progress = &report->progress.items[i];
        if (progress->t0 < 0 || progress->t2 < progress->t0)
            return;
        learned = add(learned, progress->t2 - progress->t0);
        known = known && progress->t1 >= progress->t0;
        if (!known)
            continue;
        target = add(target, progress->t1 - progress->t0);
        if (progress->t2 < progress->t1)
            replay = add(replay, progress->t1 - progress->t2);
    }
    view->learned_records = learned;
    if (!known)
        return;
    view->target_records = target;
    view->replay_records = replay;
}

static int64_t estimate(int64_t records, double per_s)
{
    if (records == 0)
        return 0;
    double ms = per_s > 0 ? (double)records / per_s * 1000.0 : 1e15;
    return records > 0 && ms < 1e15 ? (int64_t)ms : API_UNKNOWN;
}

void publish_measure_learner(const struct cluster *cluster, const struct processor *processor,
                             const struct task_report *report, struct learner_view *view)
{
    const struct task_report *owner = cluster_report(cluster, followed_by(cluster, processor));
    sum_up(report, view);
    view->lag_records = report != NULL ? report->caught_up_lag : API_UNKNOWN;
    view->replayed_per_s = report != NULL ? report->replayed_per_s : 0;
    /* Of a hand-over that is past its release the report is the owner's itself. */
    view->incoming_per_s = owner != NULL && owner != report ? owner->records_per_s : 0;
    view->eta_ms = estimate(view->replay_records, view->replayed_per_s - view->incoming_per_s);
}

const char *publish_stuck(const struct task_report *report)
{
    for (size_t i = 0; report != NULL && i < report->problems.count; i++) {
        const char *code = report->problems.items[i].code;
        /* These say what is over. */
        if (strcmp(code, "state_set_aside") != 0 && strcmp(code, "state_ahead") != 0)
            return code;
    }
    return NULL;
}

static void set(struct learner_view *view, const char *stuck, char *waiting)
{
    view->stuck = stuck != NULL ? mem_strdup(stuck) : NULL;
    view->waiting = waiting;
}

const char *publish_detail(const struct task_report *report, const char *code)
{
    for (size_t i = 0; i < report->problems.count; i++)
        if (strcmp(report->problems.items[i].code, code) == 0)
            return report->problems.items[i].detail;
    return "";
}

/* When all rows will be there is said, not when the learner will be ready: what it has to replay
 * from there on is not known before. */
static void explain_seeding(const struct task_report *report, struct learner_view *view)
{
    const char *source = report->seed_source == NULL ? "(not known yet)" : report->seed_source;
    char *text = text_printf("the state is coming from agent %s: %" PRIu64 " of %" PRIu64 " rows",
                             source, report->seed_rows, report->seed_rows_total);
    if (report->seed_rows_per_s > 0 && report->seed_rows <= report->seed_rows_total) {
        double left = (double)(report->seed_rows_total - report->seed_rows);
        char *more = text_printf("%s, %.0f rows/s: the rest in %.1f s", text,
                                 report->seed_rows_per_s, left / report->seed_rows_per_s);
        free(text);
        text = more;
    }
    set(view, NULL, text);
}

/* Why it is not there yet, or not getting there. */
void publish_explain_learner(const struct cluster *cluster, const struct processor *processor,
                             const struct task_report *report, struct learner_view *view)
{
    const char *code = publish_stuck(report);
    if (report == NULL)
        set(view, NULL, text_printf("agent %s has not reported the learner yet", view->agent));
    else if (code != NULL)
        set(view, code, text_printf("%s: %s", code, publish_detail(report, code)));
    else if (report->state == TASK_STATE_OPENING)
        set(view, NULL, text_printf("the target is opening its state and its Kafka clients"));
    else if (report->state == TASK_STATE_SEEDING)
        explain_seeding(report, view);
    else if (cluster_report(cluster, followed_by(cluster, processor)) == NULL)
        set(view, "source_not_heard",
            text_printf("the source does not report how far it has committed"));
    else if (view->replay_records < 0)
        set(view, "source_not_heard",
            text_printf("it is not known yet how far the source has committed"));
    else if (view->replay_records > 0 && view->replayed_per_s > 0 &&
             view->replayed_per_s <= view->incoming_per_s)
        set(view, "learning_too_slow",
            text_printf("%" PRId64 " records to go, but more come in (%.0f/s) than it learns "
                        "(%.0f/s)",
                        view->replay_records, view->incoming_per_s, view->replayed_per_s));
    else
        set(view, NULL, text_printf("%" PRId64 " records to go", view->replay_records));
}

static void list_partitions(const struct job *job, const struct processor_view *owner,
                            const struct task_report *report, struct learner_view *view)
{
    view->partitions.items = mem_calloc(report->progress.count, sizeof(*view->partitions.items));
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *told = &report->progress.items[i];
        struct partition_view *partition = &view->partitions.items[view->partitions.count++];
        *partition =
            (struct partition_view){.topic = mem_strdup(job->row.spec.inputs.items[told->topic]),
                                    .partition = told->partition,
                                    .t0 = told->t0,
                                    .t1 = told->t1,
                                    .t2 = told->t2,
                                    .log_start = told->log_start,
                                    .stable_end = told->stable_end,
                                    .end = told->end,
                                    .lag_records = API_UNKNOWN,
                                    .window_at = API_UNKNOWN,
                                    .fence = API_UNKNOWN,
                                    .old_records = API_UNKNOWN,
                                    .old_at = API_UNKNOWN,
                                    .window_closes_at = API_UNKNOWN};
        for (size_t k = 0; k < owner->owned.count; k++)
            partition->owned = partition->owned || owner->owned.items[k] == told->partition;
        if (told->t1 >= 0 && told->t2 >= 0)
            partition->lag_records = told->t1 > told->t2 ? told->t1 - told->t2 : 0;
    }
}

void publish_list_learners(const struct cluster *cluster, const struct job *job,
                           const struct processor *processor, struct processor_view *view)
{
    const struct handoff *handoff = processor->handoff;
    if (handoff == NULL || !handoff_before_release(handoff->row.state) || !job->row.spec.stateful)
        return;
    const struct task_report *report = cluster_learner_report(cluster, processor);
    view->learners.items = mem_calloc(1, sizeof(*view->learners.items));
    view->learners.count = 1;
    struct learner_view *learner = view->learners.items;
    learner->agent = mem_strdup(handoff->row.target);
    learner->handoff = handoff->row.id;
    learner->state =
        mem_strdup(report == NULL ? "assigned"
                                  : schema_enum_name(schema_names_task_state, (int)report->state));
    learner->reported_at = report != NULL ? processor->learner.received_at : API_UNKNOWN;
    publish_measure_learner(cluster, processor, report, learner);
    publish_explain_learner(cluster, processor, report, learner);
    if (report != NULL)
        list_partitions(job, view, report, learner);
}
