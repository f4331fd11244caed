/* Jobs: a PUT that creates or changes one, and DELETE. What Kafka says to a PUT comes in
 * step_creation.c. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "api/schema.h"
#include "api/spec.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/step_job.h"
#include "coordinator/core/view.h"

/* ---- conditions */

/* False: answered 412. `job` NULL: there is none. */
static bool meets_conditions(struct step *step, const struct job *job)
{
    const struct coord_event *event = step->event;
    if (event->if_none_match && job != NULL) {
        step_problem(step, event->request, "precondition_failed",
                     "there is a job \"%s\", at generation %llu", event->name,
                     (unsigned long long)job->row.generation);
        return false;
    }
    if (event->if_match == 0)
        return true;
    if (job == NULL) {
        step_problem(step, event->request, "precondition_failed", "there is no job \"%s\"",
                     event->name);
        return false;
    }
    if (event->if_match != UINT64_MAX && event->if_match != job->row.generation) {
        step_problem(step, event->request, "precondition_failed",
                     "job \"%s\" is at generation %llu, not %llu", event->name,
                     (unsigned long long)job->row.generation, (unsigned long long)event->if_match);
        return false;
    }
    return true;
}

static const char *user_of_group(const struct cluster *cluster, const char *group_id)
{
    for (size_t i = 0; i < cluster->jobs.count; i++)
        if (strcmp(cluster->jobs.items[i]->row.spec.group_id, group_id) == 0)
            return cluster->jobs.items[i]->row.name;
    for (size_t i = 0; i < cluster->creations.count; i++)
        if (strcmp(cluster->creations.items[i].spec.group_id, group_id) == 0)
            return cluster->creations.items[i].name;
    return NULL;
}

static void answer_busy(struct step *step, const char *detail)
{
    step_problem(step, step->event->request, "busy", "%s", detail)->retry_after_s = 1;
}

/* ---- PUT */

/* The request waits until Kafka has said what there is. `job` NULL: it creates one. */
static void ask_kafka(struct step *step, const struct job *job)
{
    struct cluster *cluster = step->cluster;
    struct coord_event *event = step->event;
    struct kafka_call *call = step_call(step, KAFKA_CALL_INSPECT, &event->spec, event->name);
    /* The output of a job that is there can not change, so it is not asked for again. */
    call->output = job == NULL ? rows_text_copy(event->spec.output) : NULL;
    call->dead_letter = rows_text_copy(event->spec.dead_letter_topic);
    call->transactions = event->spec.delivery == DELIVERY_EXACTLY_ONCE;
    cluster->creations.items =
        mem_grow(cluster->creations.items, cluster->creations.count, &cluster->creations.capacity,
                 sizeof(struct pending_creation));
    cluster->creations.items[cluster->creations.count++] = (struct pending_creation){
        .request = event->request,
        .call = call->id,
        .name = mem_strdup(event->name),
        .spec = event->spec,
        .actor = rows_text_copy(event->actor),
        .generation = job != NULL ? job->row.generation : 0,
        .deadline_ms = event->now_ms + CREATION_WAIT_MS,
    };
    event->spec = (struct job_spec){0};
}

static void put_new(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    const struct coord_event *event = step->event;
    size_t creating = 0;
    for (size_t i = 0; i < cluster->creations.count; i++)
        creating += cluster->creations.items[i].generation == 0;
    if (cluster->jobs.count + creating >= API_JOBS_MAX) {
        step_problem(step, event->request, "limit_reached", "there are %zu jobs, the most is %d",
                     cluster->jobs.count, API_JOBS_MAX);
        return;
    }
    const char *user = user_of_group(cluster, event->spec.group_id);
    if (user != NULL) {
        step_problem(step, event->request, "group_in_use", "group \"%s\" is that of job \"%s\"",
                     event->spec.group_id, user);
        return;
    }
    ask_kafka(step, NULL);
}

/* Names of the fields that differ, for the event: "on_error, dead_letter_topic". */
static char *changed_fields(const struct job_spec *before, const struct job_spec *after)
{
    struct strbuf names = {0};
    for (size_t i = 0; i < schema_job_spec.field_count; i++) {
        struct schema_type field = schema_job_spec;
        field.fields = &schema_job_spec.fields[i];
        field.field_count = 1;
        if (!schema_equal(&field, before, after))
            strbuf_printf(&names, "%s%s", names.bytes > 0 ? ", " : "", field.fields->name);
    }
    return strbuf_take(&names);
}

void step_job_update(struct step *step, struct job *job, struct job_spec *spec,
                     struct creation_verdict *verdict, const char *actor)
{
    char *fields = changed_fields(&job->row.spec, spec);
    struct change change = step_job_change(job);
    schema_free(&schema_job_spec, &change.job.spec);
    change.job.spec = *spec;
    *spec = (struct job_spec){0};
    change.job.generation++;
    if (verdict != NULL)
        step_job_take_warnings(&change.job, verdict);
    step_change(step, &change);
    step_event(step, (struct event_about){"job_updated", .job = job->row.name, .actor = actor},
               "generation %llu; changed: %s", (unsigned long long)job->row.generation, fields);
    free(fields);
    step_job_renew_documents(step, job);
    step_topics_due(step, job, step->event->now_ms); /* it may be what a finding asked for */
    step_forgive(step, job);
}

/* Only Kafka can tell whether a new dead letter topic is there, and what to warn of. */
static bool needs_kafka(const struct job_spec *before, const struct job_spec *after)
{
    if (after->dead_letter_topic != NULL &&
        !rows_text_equal(before->dead_letter_topic, after->dead_letter_topic))
        return true;
    return before->history != after->history || (before->standbys == 0) != (after->standbys == 0);
}

static void put_existing(struct step *step, struct job *job)
{
    struct coord_event *event = step->event;
    if (schema_equal(&schema_job_spec, &job->row.spec, &event->spec)) {
        step_answer_job(step, event->request, 200, job);
        return;
    }
    const struct schema_field *field =
        schema_immutable_change(&schema_job_spec, &job->row.spec, &event->spec);
    if (field != NULL) {
        const char *advice = spec_immutable_advice(field);
        struct answer *answer = step_problem(step, event->request, "immutable_field",
                                             "%s can not be changed: %s", field->name, advice);
        struct codec_faults faults = {0};
        char *pointer = mem_printf("/%s", field->name);
        codec_faults_add(&faults, pointer, "can not be changed: %s", advice);
        problem_take_faults(answer->body, &faults);
        free(pointer);
        return;
    }
    if (needs_kafka(&job->row.spec, &event->spec)) {
        ask_kafka(step, job);
        return;
    }
    step_job_update(step, job, &event->spec, NULL, event->actor);
    step_answer_job(step, event->request, 200, job);
}

static void answer_deleting(struct step *step, const struct job *job)
{
    char *operation = view_operation_name(job->row.operation);
    step_problem(step, step->event->request, "job_deleting",
                 "job \"%s\" is being deleted by operation %s", job->row.name, operation);
    free(operation);
}

struct job *step_find_job(struct step *step)
{
    const struct coord_event *event = step->event;
    struct job *job = cluster_job(step->cluster, event->name);
    if (job == NULL)
        step_problem(step, event->request, "job_not_found", "there is no job \"%s\"", event->name);
    else if (job->row.state == JOB_STATE_DELETING)
        step_problem(step, event->request, "job_deleting", "job \"%s\" is being deleted",
                     event->name);
    else
        return job;
    return NULL;
}

void step_job_put(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->creations.count; i++) {
        if (strcmp(cluster->creations.items[i].name, step->event->name) == 0) {
            answer_busy(step, "another request for this job waits for Kafka");
            return;
        }
    }
    if (cluster->creations.count >= CREATIONS_MAX) {
        answer_busy(step, "too many requests wait for Kafka");
        return;
    }
    struct job *job = cluster_job(cluster, step->event->name);
    if (!meets_conditions(step, job))
        return;
    if (job == NULL)
        put_new(step);
    else if (job->row.state == JOB_STATE_DELETING)
        answer_deleting(step, job);
    else
        put_existing(step, job);
}

void step_job_renew_documents(struct step *step, const struct job *job)
{
    const struct processor *nascent = cluster_nascent(job);
    struct agent *learner =
        nascent != NULL ? cluster_agent(step->cluster, nascent->handoff->row.target) : NULL;
    if (learner != NULL)
        step_renew_document(step, learner);
    for (size_t i = 0; i < job->processors.count; i++) {
        const char *owner = job->processors.items[i].placement.agent;
        const struct handoff *handoff = job->processors.items[i].handoff;
        if (owner != NULL)
            step_renew_document(step, cluster_agent(step->cluster, owner));
        if (handoff != NULL)
            step_renew_document(step, cluster_agent(step->cluster, handoff->row.target));
        for (size_t s = 0; s < job->processors.items[i].standbys.count; s++)
            step_renew_document(
                step,
                cluster_agent(step->cluster, job->processors.items[i].standbys.items[s].row.agent));
    }
}

/* ---- DELETE */

static void begin_deletion(struct step *step, struct job *job)
{
    struct cluster *cluster = step->cluster;
    struct operation *creating = cluster_operation(cluster, job->row.operation);
    if (job->row.state == JOB_STATE_CREATING) {
        assert(creating != NULL);
        step_end_operation(step, creating, OPERATION_STATE_CANCELLED, "the job is being deleted");
    }
    step_end_expansions(step, job, "the job is being deleted");
    step_cancel_moves(step, job, "the job is being deleted");
    step_cancel_handoffs(step, job, false, "the job is being deleted");
    step_end_standbys(step, job, "the job is being deleted");
    uint64_t id = step_start_operation(step, OPERATION_KIND_DELETE_JOB, OPERATION_STEP_CLOSE_TASKS,
                                       &job->row, step->event->reason, NULL);
    struct operation *operation = cluster_operation(cluster, id);
    operation->decision = cluster->meta.decision;
    struct change change = step_job_change(job);
    change.job.state = JOB_STATE_DELETING;
    change.job.operation = id;
    step_change(step, &change);
    step_job_renew_documents(step, job);
    step_event(step, (struct event_about){"job_deleting", .job = job->row.name, .operation = id},
               "%s",
               step->event->reason != NULL ? step->event->reason : "asked for without a reason");
}

void step_job_delete(struct step *step)
{
    const struct coord_event *event = step->event;
    struct job *job = cluster_job(step->cluster, event->name);
    if (job == NULL) {
        step_problem(step, event->request, "job_not_found", "there is no job \"%s\"", event->name);
        return;
    }
    if (!meets_conditions(step, job))
        return;
    if (job->row.state != JOB_STATE_DELETING)
        begin_deletion(step, job);
    step_answer_operation(step, event->request, 202,
                          cluster_operation(step->cluster, job->row.operation));
}
