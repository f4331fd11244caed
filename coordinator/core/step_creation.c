/* PUTs of jobs that waited for Kafka's answer: refused, or carried out. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/step_group.h"
#include "coordinator/core/step_job.h"

void step_job_take_warnings(struct job_row *row, struct creation_verdict *verdict)
{
    for (size_t i = 0; i < row->warnings.count; i++)
        free(row->warnings.items[i]);
    free(row->warnings.items);
    row->warnings.items = verdict->warnings.items;
    row->warnings.count = verdict->warnings.count;
    verdict->warnings.items = NULL;
    verdict->warnings.count = 0;
}

/* ---- creation */

/* The row takes the creation's specification and what the verdict found. */
static void make_row(struct step *step, struct pending_creation *creation,
                     struct creation_verdict *verdict, uint64_t operation, struct job_row *ret_row)
{
    static const enum effective_partitioner effective[] = {
        [PARTITIONER_AUTO] = EFFECTIVE_PARTITIONER_UNDETERMINED,
        [PARTITIONER_MURMUR2] = EFFECTIVE_PARTITIONER_MURMUR2,
        [PARTITIONER_CRC32] = EFFECTIVE_PARTITIONER_CRC32,
        [PARTITIONER_OPAQUE] = EFFECTIVE_PARTITIONER_OPAQUE,
    };
    enum partitioner partitioner = creation->spec.partitioner;
    *ret_row = (struct job_row){
        .name = mem_strdup(creation->name),
        .incarnation = mem_strdup(step->event->uuid),
        .state = JOB_STATE_CREATING,
        .generation = 1,
        .created_at = step->event->now_at,
        .spec = creation->spec,
        .partitions_initial = verdict->partitions_initial,
        .partitions = verdict->partitions,
        .processors_initial = creation->spec.processors,
        .processors = creation->spec.processors,
        .map_version = 1,
        .partitioner = effective[partitioner],
        .partitioner_reason = mem_strdup(
            partitioner == PARTITIONER_AUTO ? "not sampled yet" : "set in the specification"),
        .operation = operation,
        .pause = {.changed_at = API_UNKNOWN},
        .group = {.since_at = API_UNKNOWN},
    };
    if (step_groups_watched(step->cluster) && creation->spec.start == START_COMMITTED)
        ret_row->group = (struct group_row){GROUP_HOLD_STARTING, step->event->now_at};
    creation->spec = (struct job_spec){0};
    ret_row->origins.items = verdict->origins.items;
    ret_row->origins.count = verdict->origins.count;
    ret_row->starts.items = verdict->starts.items;
    ret_row->starts.count = verdict->starts.count;
    verdict->origins.items = NULL;
    verdict->origins.count = 0;
    verdict->starts.items = NULL;
    verdict->starts.count = 0;
    step_job_take_warnings(ret_row, verdict);
}

static void record_placements(struct step *step, struct job *job)
{
    for (size_t i = 0; i < job->processors.count; i++) {
        struct change change = step_placement_change(&job->processors.items[i]);
        change.placement.reason = mem_strdup("the job is being created");
        change.placement.changed_at = step->event->now_at;
        step_change(step, &change);
    }
}

static void create(struct step *step, struct pending_creation *creation,
                   struct creation_verdict *verdict)
{
    static const char *const starts[] = {"earliest", "latest", "committed"};
    struct change change = {.kind = CHANGE_JOB};
    uint64_t operation = step->cluster->meta.operation_id + 1;
    make_row(step, creation, verdict, operation, &change.job);
    step_change(step, &change);
    struct job *job = cluster_job(step->cluster, creation->name);
    uint64_t started =
        step_start_operation(step, OPERATION_KIND_CREATE_JOB, OPERATION_STEP_COMMIT_STARTS,
                             &job->row, NULL, creation->actor);
    assert(started == operation);
    record_placements(step, job);
    step_open_first_windows(step, job, verdict->ends.items, verdict->ends.count);
    step_event(step,
               (struct event_about){"job_created", .job = job->row.name, .operation = operation,
                                    .actor = creation->actor},
               "%zu inputs of %u partitions, %u processors, start %s", job->row.spec.inputs.count,
               job->row.partitions, job->row.processors, starts[job->row.spec.start]);
    step_answer_job(step, creation->request, 201, job);
}

/* ---- update */

/* The job that the request was to change, still as it was when Kafka was asked; NULL: answered. */
static struct job *find_unchanged(struct step *step, const struct pending_creation *creation)
{
    struct job *job = cluster_job(step->cluster, creation->name);
    if (job != NULL && job->row.state == JOB_STATE_DELETING) {
        step_problem(step, creation->request, "job_deleting", "job \"%s\" is being deleted",
                     creation->name);
        return NULL;
    }
    if (job == NULL) {
        step_problem(step, creation->request, "busy",
                     "job \"%s\" was deleted while Kafka was asked about this request",
                     creation->name)
            ->retry_after_s = 1;
        return NULL;
    }
    assert(job->row.generation == creation->generation); /* no other PUT was let in meanwhile */
    return job;
}

/* ---- the answer */

static void refuse(struct step *step, const struct pending_creation *creation,
                   struct creation_verdict *verdict)
{
    const struct field_error *first = &verdict->faults.items[0];
    struct answer *answer;
    if (verdict->faults.count == 1)
        answer = step_problem(step, creation->request, verdict->code, "%s: %s", first->pointer,
                              first->detail);
    else
        answer = step_problem(step, creation->request, verdict->code,
                              "%zu things are wrong; first %s: %s", verdict->faults.count,
                              first->pointer, first->detail);
    problem_take_faults(answer->body, &verdict->faults);
}

static void answer_unavailable(struct step *step, const struct pending_creation *creation,
                               const char *detail)
{
    step_problem(step, creation->request, "kafka_unavailable", "%s", detail)->retry_after_s = 2;
}

/* True: there is nothing in the way. Else the request is answered. */
static bool accepted(struct step *step, const struct pending_creation *creation,
                     struct creation_verdict *verdict)
{
    if (verdict->code != NULL)
        refuse(step, creation, verdict);
    else if (verdict->unknown != NULL)
        answer_unavailable(step, creation, verdict->unknown);
    else
        return true;
    return false;
}

static void carry_out_creation(struct step *step, struct pending_creation *creation,
                               const struct kafka_inspection *inspection)
{
    struct creation_verdict verdict;
    creation_judge(&creation->spec, inspection, &verdict);
    if (accepted(step, creation, &verdict))
        create(step, creation, &verdict);
    creation_finish(&verdict);
}

static void carry_out_update(struct step *step, struct pending_creation *creation,
                             const struct kafka_inspection *inspection)
{
    struct creation_verdict verdict;
    struct job *job = find_unchanged(step, creation);
    if (job == NULL)
        return;
    creation_judge_update(&creation->spec, &job->row, inspection, &verdict);
    if (accepted(step, creation, &verdict)) {
        step_job_update(step, job, &creation->spec, &verdict, creation->actor);
        step_answer_job(step, creation->request, 200, job);
    }
    creation_finish(&verdict);
}

void step_creation_result(struct step *step, size_t index)
{
    const struct kafka_result *result = &step->event->kafka;
    struct pending_creation creation = cluster_take_creation(step->cluster, index);
    if (result->failed)
        answer_unavailable(step, &creation,
                           result->detail != NULL ? result->detail : "no detail was given");
    else if (creation.generation == 0)
        carry_out_creation(step, &creation, &result->inspection);
    else
        carry_out_update(step, &creation, &result->inspection);
    cluster_finish_creation(&creation);
}

void step_expire_creations(struct step *step)
{
    struct cluster *cluster = step->cluster;
    for (size_t i = cluster->creations.count; i-- > 0;) {
        if (step->event->now_ms < cluster->creations.items[i].deadline_ms)
            continue;
        struct pending_creation creation = cluster_take_creation(cluster, i);
        answer_unavailable(step, &creation, "Kafka did not answer in time");
        cluster_finish_creation(&creation);
    }
}
