/* An operation that is under way, as readers see it: what it waits for, how long. Owner thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "api/schema.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/view.h"
#include "coordinator/publish_job.h"

struct under_way { /* all borrowed */
    const struct cluster *cluster;
    const struct operation *operation;
    const struct job *job;         /* NULL: there is none of that incarnation */
    const struct handoff *handoff; /* that is waited for; NULL: none */
};

/* A split of the job, whoever asked for it: the next one begins when it has ended. */
static const struct handoff *find_split(const struct job *job)
{
    for (size_t p = job->processors.count + job->nascent; p-- > 0;) {
        const struct handoff *handoff = job->processors.items[p].handoff;
        if (handoff != NULL && handoff->row.kind == HANDOFF_KIND_SPLIT)
            return handoff;
    }
    return NULL;
}

static const struct handoff *find_handoff(const struct job *job, const struct operation_row *row)
{
    if (job == NULL)
        return NULL;
    if (row->kind == OPERATION_KIND_EXPAND_PROCESSORS)
        return find_split(job);
    return row->kind == OPERATION_KIND_MOVE && row->processor >= 0 &&
                   (size_t)row->processor < job->processors.count
               ? job->processors.items[row->processor].handoff
               : NULL;
}

/* As step_operation_cancel decides. */
static bool is_cancellable(const struct under_way *under_way)
{
    const struct operation_row *row = &under_way->operation->row;
    const struct handoff *handoff = under_way->handoff;
    bool own = handoff != NULL && handoff->row.operation == row->id;
    switch (row->kind) {
    case OPERATION_KIND_CREATE_JOB:
    case OPERATION_KIND_DELETE_JOB:
        return false;
    case OPERATION_KIND_MOVE:
        return !own || handoff_before_release(handoff->row.state);
    case OPERATION_KIND_REBALANCE:
        return true;
    case OPERATION_KIND_EXPAND_PROCESSORS:
        return !own || handoff_is_cancellable(&handoff->row) ||
               (int64_t)handoff->row.processor + 1 != row->goal;
    case OPERATION_KIND_EXPAND_PARTITIONS:
        return row->step != OPERATION_STEP_COMMIT_STARTS;
    }
    return false;
}

/* ---- how long */

/* How many of the splits after that of processor `after` move the partition. */
static uint32_t count_splits(const struct job *job, uint32_t partition, uint32_t after,
                             uint32_t goal)
{
    struct linhash_size size = {.initial = job->row.processors_initial, .now = goal};
    uint32_t ancestors[32], bucket = linhash_bucket(partition, size);
    uint32_t count = linhash_ancestors(bucket, size.initial, ancestors), splits = bucket > after;
    for (uint32_t i = 0; i < count; i++)
        splits += ancestors[i] > after;
    return splits;
}

/* Adds what later splits learn of what this processor has; false: it has not said how far it is. */
static bool add_records(const struct job *job, const struct processor *owner, uint32_t after,
                        uint32_t goal, double *records)
{
    if (!owner->observed.known)
        return false;
    const struct task_report *report = &owner->observed.report;
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *item = &report->progress.items[i];
        uint32_t splits = count_splits(job, item->partition, after, goal);
        if (splits > 0 && (item->t0 < 0 || item->t1 < item->t0))
            return false;
        *records += splits > 0 ? (double)(item->t1 - item->t0) * splits : 0;
    }
    return true;
}

/* Of the splits that have not begun, one after the other at the rate of the last learner.
 * Partitions that have ancestors are not estimated: what is read of those is not known here. */
static int64_t estimate_rest(const struct job *job, uint32_t after, int64_t goal)
{
    double records = 0;
    if (after + 1 >= goal || !job->row.spec.stateful)
        return 0;
    if (job->row.partitions != job->row.partitions_initial)
        return API_UNKNOWN;
    for (size_t p = 0; p < job->processors.count; p++)
        if (!add_records(job, &job->processors.items[p], after, (uint32_t)goal, &records))
            return API_UNKNOWN;
    if (records == 0)
        return 0;
    double ms = job->replayed_per_s > 0 ? records / job->replayed_per_s * 1000.0 : 1e15;
    return ms < 1e15 ? (int64_t)ms : API_UNKNOWN;
}

static int64_t estimate(const struct under_way *under_way, const struct handoff_view *handoff)
{
    const struct operation_row *row = &under_way->operation->row;
    if (row->kind != OPERATION_KIND_EXPAND_PROCESSORS || handoff->eta_ms == API_UNKNOWN)
        return API_UNKNOWN;
    int64_t rest_ms = estimate_rest(under_way->job, handoff->processor, row->goal);
    return rest_ms == API_UNKNOWN ? API_UNKNOWN : handoff->eta_ms + rest_ms;
}

/* ---- what it waits for, and what to do */

static char *say_handoff(const struct under_way *under_way, const struct handoff_view *view)
{
    const char *state = schema_enum_name(schema_names_handoff_state, (int)view->state);
    const char *waiting = view->waiting != NULL ? view->waiting : "it is about to end";
    if (view->kind != HANDOFF_KIND_SPLIT)
        return text_printf("processor %u to agent %s, %s: %s", view->processor, view->target, state,
                           waiting);
    return text_printf("%sprocessor %u, split off %" PRId64 ", to agent %s, %s: %s",
                       under_way->handoff->row.operation == under_way->operation->row.id
                           ? ""
                           : "one that was asked for before has to end: ",
                       view->processor, view->parent, view->target, state, waiting);
}

/* Why the next thing has not begun, as the core has noted it. */
const char *publish_obstacle(const struct operation_row *row)
{
    static const char prefix[] = "waits: ";
    size_t skipped = strncmp(row->error, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    return row->error + skipped;
}

static char *advise_stuck(const char *stuck, const struct handoff_view *handoff)
{
    const struct problem_entry *entry = problem_lookup(stuck);
    if (entry != NULL && entry->action != NULL)
        return mem_strdup(entry->action);
    return text_printf("See why agent %s does not report (GET /v1/agents/%s); when it is lost, "
                       "another owner is found by itself.",
                       handoff->source, handoff->source);
}

/* `handoff` NULL: none is under way. */
static char *advise(const struct under_way *under_way, const struct handoff_view *handoff)
{
    const struct job *job = under_way->job;
    if (job != NULL && job->row.pause.on)
        return mem_strdup("Resume the job: nothing of it moves while it is paused.");
    if (job != NULL && cluster_is_held(job))
        return mem_strdup("Let the others leave the job's group: nothing of it moves before.");
    if (under_way->operation->row.error != NULL)
        return text_printf("It goes on by itself when that is over. See to what is named%s.",
                           is_cancellable(under_way) ? ", or cancel it" : "");
    return handoff != NULL && handoff->stuck != NULL ? advise_stuck(handoff->stuck, handoff) : NULL;
}

static void explain(const struct under_way *under_way, struct operation_view *view)
{
    const struct operation *operation = under_way->operation;
    struct handoff_view handoff;
    bool waits = under_way->handoff != NULL;
    if (waits) {
        view_handoff(&under_way->handoff->row, &handoff);
        publish_complete_handoff(under_way->cluster, under_way->handoff, &handoff);
        view->handoff = (int64_t)handoff.id;
        view->eta_ms = estimate(under_way, &handoff);
    }
    if (operation->row.error != NULL)
        view->waiting = mem_strdup(publish_obstacle(&operation->row));
    else if (waits)
        view->waiting = say_handoff(under_way, &handoff);
    else if (operation->call != 0)
        view->waiting = mem_strdup("Kafka has not answered yet");
    view->action = advise(under_way, waits ? &handoff : NULL);
    if (waits)
        schema_free(&schema_handoff_view, &handoff);
}

void publish_complete_operation(const struct cluster *cluster, const struct operation *operation,
                                struct operation_view *view)
{
    const struct operation_row *row = &operation->row;
    if (view_operation_finished(view->state) || view_operation_finished(row->state))
        return;
    const struct job *job = cluster_job(cluster, row->job);
    if (job != NULL && strcmp(job->row.incarnation, row->job_incarnation) != 0)
        job = NULL;
    struct under_way under_way = {cluster, operation, job, find_handoff(job, row)};
    free(view->waiting);
    free(view->action);
    view->waiting = view->action = NULL;
    view->cancellable = is_cancellable(&under_way);
    explain(&under_way, view);
}

void publish_complete(const struct cluster *cluster, const struct schema_type *type, void *view)
{
    if (type == &schema_handoff_view) {
        const struct handoff *handoff =
            cluster_handoff(cluster, ((const struct handoff_view *)view)->id);
        if (handoff != NULL)
            publish_complete_handoff(cluster, handoff, view);
    } else if (type == &schema_operation_view) {
        uint64_t id;
        const struct operation *operation =
            view_operation_parse(((const struct operation_view *)view)->id, &id)
                ? cluster_operation(cluster, id)
                : NULL;
        if (operation != NULL)
            publish_complete_operation(cluster, operation, view);
    }
}
