/*
 * More processors, or more partitions, that somebody asked for: what is refused of either, and the
 * operations of the former.
 *
 *   expand_processors   SPLIT: one split after the other, each durable by itself, until there are
 *                       as many processors as are wanted -> END
 *
 * What keeps the next split from beginning is waited for, and the operation says so.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/expansion.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/placing.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/view.h"

/* After one that began by itself has failed the next is not begun before. */
#define AUTO_PAUSE_MS (10 * 60000)

static void refuse(struct step *step, const char *detail)
{
    step_problem(step, step->event->request, "expansion_refused", "%s", detail);
}

/* ---- what holds for both */

/* A job that can be expanded now; NULL: answered why not. */
static struct job *find_expandable(struct step *step)
{
    const struct coord_event *event = step->event;
    struct job *job = cluster_job(step->cluster, event->name);
    if (job == NULL) {
        step_problem(step, event->request, "job_not_found", "there is no job \"%s\"", event->name);
        return NULL;
    }
    const struct operation *present = step_find_expansion(step->cluster, job);
    if (job->row.state != JOB_STATE_RUNNING)
        step_problem(step, event->request, "expansion_refused", "job \"%s\" is %s, not running",
                     job->row.name, schema_enum_name(schema_names_job_state, (int)job->row.state));
    else if (job->row.pause.on)
        refuse(step, "the job is paused, and nothing of it moves; resume it first");
    else if (cluster_is_held(job))
        refuse(step, "others are in the job's group, and nothing of it moves until they have left");
    else if (present != NULL)
        step_problem(step, event->request, "expansion_refused",
                     "op-%" PRIu64 " expands the job already; wait for its end, or cancel it",
                     present->row.id);
    else
        return job;
    return NULL;
}

/* ---- processors */

/* Why a job whose partitions have grown can not have processors that inherit; NULL: it can. */
static char *refuse_inheriting(const struct job *job, int64_t wanted)
{
    const struct job_row *row = &job->row;
    if (row->partitions == row->partitions_initial)
        return NULL;
    if (!cluster_keeps_keys(job))
        return text_printf(
            "the job's partitions have grown, and it began with %u partitions and %u "
            "processors: only of partitions that are processors times a power of two "
            "do keys stay together; create a new job from the same group",
            row->partitions_initial, row->processors_initial);
    if (wanted > row->partitions_initial && row->partitioner != EFFECTIVE_PARTITIONER_MURMUR2 &&
        row->partitioner != EFFECTIVE_PARTITIONER_CRC32)
        return text_printf("processors beyond the initial %u partitions get a part of the keys of "
                           "their ancestors, and nobody knows how keys are spread: %s",
                           row->partitions_initial,
                           row->partitioner_reason != NULL ? row->partitioner_reason : "not known");
    return NULL;
}

/* Counts that can not be; true: answered. */
static bool refuse_processors(struct step *step, const struct job *job, int64_t wanted)
{
    const struct job_row *row = &job->row;
    uint64_t request = step->event->request;
    if (wanted <= row->processors)
        step_problem(step, request, "expansion_refused",
                     "the job has %u processors already, and can not have fewer: ask for more than "
                     "that",
                     row->processors);
    else if (wanted > row->partitions)
        step_problem(step, request, "expansion_refused",
                     "%" PRId64 " processors are more than the %u partitions of an input: those "
                     "without one would have nothing to do; expand the partitions first",
                     wanted, row->partitions);
    else if (row->spec.max_processors != 0 && wanted > row->spec.max_processors)
        step_problem(step, request, "expansion_refused",
                     "the job's max_processors is %u; raise it first", row->spec.max_processors);
    else {
        char *refusal = refuse_inheriting(job, wanted);
        if (refusal == NULL)
            return false;
        refuse(step, refusal);
        free(refusal);
    }
    return true;
}

static struct operation *start(struct step *step, const struct job *job, uint32_t goal,
                               const char *reason, const char *actor)
{
    uint64_t id = step_start_operation(step, OPERATION_KIND_EXPAND_PROCESSORS, OPERATION_STEP_SPLIT,
                                       &job->row, reason, actor);
    struct operation *operation = cluster_operation(step->cluster, id);
    struct change change = step_operation_change(operation);
    change.operation.goal = goal;
    step_change(step, &change);
    step_event(
        step,
        (struct event_about){
            .kind = "expansion_requested", .job = job->row.name, .operation = id, .actor = actor},
        "from %u processors to %u: %s", job->row.processors, goal,
        reason != NULL ? reason : "asked for without a reason");
    return operation;
}

static void expand_processors(struct step *step, struct job *job)
{
    const struct coord_event *event = step->event;
    if (refuse_processors(step, job, event->expansion.processors))
        return;
    uint32_t goal = (uint32_t)event->expansion.processors;
    if (event->expansion.dry_run) {
        struct expansion_plan *plan = mem_calloc(1, sizeof(*plan));
        expansion_look_ahead(step->cluster, job, goal, event->now_ms, plan);
        step_answer(step, event->request, 200, &schema_expansion_plan, plan);
        return;
    }
    const struct operation *operation = start(step, job, goal, event->expansion.reason, NULL);
    step_answer_operation(step, event->request, 202, operation);
}

/* ---- going on */

/* The one that has not ended, or NULL. One of an operation that was cancelled is finished first. */
static struct handoff *find_split(const struct job *job)
{
    for (size_t p = job->processors.count + job->nascent; p-- > 0;) {
        struct handoff *handoff = job->processors.items[p].handoff;
        if (handoff != NULL && handoff->row.kind == HANDOFF_KIND_SPLIT)
            return handoff;
    }
    return NULL;
}

static void begin_split(struct step *step, struct operation *operation, struct job *job)
{
    uint32_t child = job->row.processors;
    const struct processor *parent = &job->processors.items[cluster_parent(job, child)];
    const char *obstacle = step_split_find_obstacle(step, job, parent);
    const struct agent *target =
        placing_choose_for_new(step->cluster, job, step->event->now_ms, NULL);
    if (obstacle == NULL && target == NULL)
        obstacle = "waits: no agent is alive, neither cordoned nor drained, and has room";
    if (obstacle == NULL)
        obstacle = step_move_find_obstacle(step->cluster, job, target);
    if (obstacle != NULL) {
        step_move_say_obstacle(step, operation, obstacle);
        return;
    }
    step_move_say_obstacle(step, operation, NULL);
    char *reason = expansion_explain(job, child, target, operation->row.reason);
    step_split_start(step, job, target, operation->row.id, reason);
    free(reason);
}

void step_advance_expansion(struct step *step, struct operation *operation, struct job *job)
{
    operation->retry_ms = INT64_MAX; /* only other events bring it on */
    if (operation->row.count_reached != job->row.processors)
        step_note_reached(step, operation);
    if (find_split(job) != NULL)
        return;
    if (job->row.processors >= operation->row.goal) {
        job->expand_retry_ms = 0;
        step_end_operation(step, operation, OPERATION_STATE_SUCCEEDED, NULL);
    } else {
        begin_split(step, operation, job);
    }
}

void step_expansion_ended(struct step *step, const struct handoff_row *row)
{
    struct operation *operation = cluster_operation(step->cluster, row->operation);
    if (row->state == HANDOFF_STATE_FAILED && operation != NULL &&
        !view_operation_finished(operation->row.state))
        step_end_operation(step, operation, OPERATION_STATE_FAILED, row->error);
}

void step_cancel_expansion(struct step *step, struct operation *operation)
{
    const struct coord_event *event = step->event;
    uint64_t id = operation->row.id;
    struct job *job = cluster_job(step->cluster, operation->row.job);
    struct handoff *handoff = find_split(job);
    if (handoff != NULL && handoff->row.operation != id)
        handoff = NULL;
    bool past = handoff != NULL && !handoff_is_cancellable(&handoff->row);
    if (past && handoff->row.processor + 1 == operation->row.goal) {
        step_problem(step, event->request, "operation_not_cancellable",
                     "op-%" PRIu64 ": the source is told to give the partitions of the last new "
                     "processor up, or has done so; the target must finish",
                     id);
        return;
    }
    step_end_operation(step, operation, OPERATION_STATE_CANCELLED, NULL);
    if (handoff != NULL && !past)
        step_split_cancel(step, handoff, true, "its operation was cancelled");
    step_event(
        step,
        (struct event_about){.kind = "operation_cancelled", .job = job->row.name, .operation = id},
        "%s", event->reason != NULL ? event->reason : "asked for without a reason");
    step_answer_ended(step, event->request, id);
}

/* ---- by itself */

/* Agents that could have a processor of the job, or have one. */
static uint32_t count_hosts(const struct step *step, const struct job *job)
{
    const struct cluster *cluster = step->cluster;
    uint32_t *tasks = cluster_count_tasks(cluster);
    uint32_t count = 0;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *agent = cluster->agents.items[i];
        bool has = false;
        for (size_t p = 0; p < job->processors.count; p++)
            has = has ||
                  rows_text_equal(job->processors.items[p].placement.agent, agent->row.agent_id);
        count += placing_may_receive(cluster, agent, step->event->now_ms) &&
                 !cluster_is_refused(job, agent) && (has || tasks[i] < agent->row.capacity);
    }
    free(tasks);
    return count;
}

static bool may_grow(const struct step *step, const struct job *job)
{
    const struct job_row *row = &job->row;
    uint32_t most = row->spec.max_processors != 0 && row->spec.max_processors < row->partitions
                        ? row->spec.max_processors
                        : row->partitions;
    char *refusal = refuse_inheriting(job, (int64_t)row->processors + 1);
    bool refused = refusal != NULL;
    free(refusal);
    return !refused && row->spec.auto_expand && row->state == JOB_STATE_RUNNING &&
           !cluster_is_held(job) && !step->cluster->maintenance.hold.on && row->processors < most &&
           !job->nascent && step->event->now_ms >= job->expand_retry_ms &&
           step_find_expansion(step->cluster, job) == NULL;
}

void step_expand_auto(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        struct job *job = cluster->jobs.items[i];
        if (!may_grow(step, job) || count_hosts(step, job) <= job->row.processors)
            continue;
        job->expand_retry_ms = step->event->now_ms + AUTO_PAUSE_MS; /* unless it goes well */
        (void)start(step, job, job->row.processors + 1,
                    "auto_expand: there are more agents than processors", ACTOR_COORDINATOR);
    }
}

void step_expand(struct step *step)
{
    struct job *job = find_expandable(step);
    if (job == NULL)
        return;
    if (step->event->expansion.processors != API_UNKNOWN)
        expand_processors(step, job);
    else
        step_expand_partitions(step, job);
}
