#include "coordinator/core/step.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "api/schema.h"
#include "api/text.h"
#include "common/mem.h"
#include "coordinator/core/step_group.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/step_recovery.h"
#include "coordinator/core/view.h"

void coord_event_finish(struct coord_event *event)
{
    free(event->actor);
    free(event->name);
    free(event->incarnation);
    free(event->reason);
    free(event->plan);
    switch (event->kind) {
    case COORD_EVENT_JOB_PUT:
        schema_free(&schema_job_spec, &event->spec);
        break;
    case COORD_EVENT_AGENT_REGISTER:
        schema_free(&schema_agent_registration, &event->registration);
        break;
    case COORD_EVENT_REPORT:
        schema_free(&schema_agent_report, &event->report);
        break;
    case COORD_EVENT_MOVE:
        schema_free(&schema_move_request, &event->move);
        break;
    case COORD_EVENT_EXPAND:
        schema_free(&schema_expansion_request, &event->expansion);
        break;
    case COORD_EVENT_ELIGIBILITY:
        schema_free(&schema_eligibility_request, &event->eligibility);
        break;
    case COORD_EVENT_DRAIN:
        schema_free(&schema_drain_request, &event->drain);
        break;
    case COORD_EVENT_SKIP:
        schema_free(&schema_skip_request, &event->skip);
        break;
    case COORD_EVENT_OFFSETS:
        schema_free(&schema_offsets_request, &event->offsets);
        break;
    case COORD_EVENT_MAINTENANCE:
        schema_free(&schema_maintenance_request, &event->maintenance);
        break;
    case COORD_EVENT_PLAN:
        schema_free(&schema_plan_request, &event->plan_request);
        break;
    case COORD_EVENT_KAFKA:
        kafka_result_finish(&event->kafka);
        break;
    default:
        break;
    }
    *event = (struct coord_event){0};
}

/* ---- deciding */

static void decide(struct step *step)
{
    if (step->decided)
        return;
    step->decided = true;
    step->cluster->meta.decision++;
}

void step_change(struct step *step, struct change *change)
{
    decide(step);
    update_change(step->update, step->cluster, change);
}

void step_renew_document(struct step *step, struct agent *agent)
{
    decide(step);
    agent->document_decision = step->cluster->meta.decision;
}

struct change step_job_change(const struct job *job)
{
    struct change change = {.kind = CHANGE_JOB};
    rows_copy_job(&change.job, &job->row);
    return change;
}

struct change step_placement_change(const struct processor *processor)
{
    struct change change = {.kind = CHANGE_PLACEMENT};
    rows_copy_placement(&change.placement, &processor->placement);
    return change;
}

struct change step_agent_change(const struct agent *agent)
{
    struct change change = {.kind = CHANGE_AGENT};
    rows_copy_agent(&change.agent, &agent->row);
    return change;
}

struct change step_operation_change(const struct operation *operation)
{
    struct change change = {.kind = CHANGE_OPERATION};
    rows_copy_operation(&change.operation, &operation->row);
    return change;
}

void step_event(struct step *step, struct event_about about, const char *format, ...)
{
    const char *actor = about.actor != NULL ? about.actor : step->event->actor;
    const char *job = about.job;
    int64_t processor = API_UNKNOWN;
    if (about.processor != NULL) {
        job = about.processor->placement.job;
        processor = about.processor->placement.processor;
    }
    va_list args;
    va_start(args, format);
    struct change change = {
        .kind = CHANGE_EVENT,
        .event = {
            .id = ++step->cluster->meta.event_id,
            .at = step->event->now_at,
            .kind = mem_strdup(about.kind),
            .job = rows_text_copy(job),
            .processor = processor,
            .agent = rows_text_copy(about.agent),
            .operation = about.operation != 0 ? view_operation_name(about.operation) : NULL,
            .actor = mem_strdup(actor != NULL ? actor : ACTOR_COORDINATOR),
            .detail = text_vprintf(format, args),
        }};
    va_end(args);
    step_change(step, &change);
}

/* ---- answering */

struct answer *step_answer(struct step *step, uint64_t request, uint32_t status,
                           const struct schema_type *type, void *body)
{
    struct update *update = step->update;
    update->answers.items = mem_grow(update->answers.items, update->answers.count,
                                     &update->answers.capacity, sizeof(struct answer));
    struct answer *answer = &update->answers.items[update->answers.count];
    *answer = (struct answer){.request = request, .status = status, .type = type, .body = body};
    update->answers.count++;
    return answer;
}

struct answer *step_problem(struct step *step, uint64_t request, const char *code,
                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *detail = text_vprintf(format, args);
    va_end(args);
    struct problem_body *body = mem_calloc(1, sizeof(*body));
    problem_body(body, code, "%s", detail);
    free(detail);
    return step_answer(step, request, body->status, &schema_problem_body, body);
}

void step_answer_job(struct step *step, uint64_t request, uint32_t status, const struct job *job)
{
    struct job_view *view = mem_calloc(1, sizeof(*view));
    view_job(&job->row, view);
    struct answer *answer = step_answer(step, request, status, &schema_job_view, view);
    answer->etag = job->row.generation;
    if (status == 201)
        answer->location = mem_printf("/v1/jobs/%s", job->row.name);
}

void step_answer_operation(struct step *step, uint64_t request, uint32_t status,
                           const struct operation *operation)
{
    struct operation_view *view = mem_calloc(1, sizeof(*view));
    view_operation(&operation->row, view);
    struct answer *answer = step_answer(step, request, status, &schema_operation_view, view);
    if (status == 202)
        answer->location = mem_printf("/v1/operations/%s", view->id);
}

/* ---- Kafka */

struct kafka_call *step_call_of_all(struct step *step, enum kafka_call_kind kind)
{
    struct update *update = step->update;
    update->calls.items = mem_grow(update->calls.items, update->calls.count,
                                   &update->calls.capacity, sizeof(struct kafka_call));
    struct kafka_call *call = &update->calls.items[update->calls.count++];
    *call = (struct kafka_call){.id = ++step->cluster->call, .kind = kind};
    return call;
}

struct kafka_call *step_call(struct step *step, enum kafka_call_kind kind,
                             const struct job_spec *spec, const char *job)
{
    struct kafka_call *call = step_call_of_all(step, kind);
    call->job = mem_strdup(job);
    call->group_id = mem_strdup(spec->group_id);
    call->inputs.items = mem_calloc(spec->inputs.count, sizeof(char *));
    for (size_t i = 0; i < spec->inputs.count; i++)
        call->inputs.items[i] = mem_strdup(spec->inputs.items[i]);
    call->inputs.count = spec->inputs.count;
    return call;
}

static void kafka(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    uint64_t id = step->event->kafka.id;
    assert(id != 0); /* of no call */
    if (step_recovery_result(step))
        return;
    if (id == cluster->topics_call) {
        step_topics_result(step);
        return;
    }
    if (id == cluster->groups_call) {
        step_groups_result(step);
        return;
    }
    if (step_claim_result(step))
        return;
    for (size_t i = 0; i < cluster->operations.count; i++) {
        if (cluster->operations.items[i]->call == id) {
            step_operation_result(step, cluster->operations.items[i]);
            return;
        }
    }
    for (size_t i = 0; i < cluster->creations.count; i++) {
        if (cluster->creations.items[i].call == id) {
            step_creation_result(step, i);
            return;
        }
    }
    /* Nobody's any more: the request went away, or the operation ended otherwise. */
}

/* ---- life */

static void start(struct step *step)
{
    struct cluster *cluster = step->cluster;
    cluster->meta.start_number++;
    cluster->call = cluster->meta.start_number << 32;
    cluster->listening_ms = step->event->now_ms;
    step_recovery_begin(step);
}

void step_begin_work(struct step *step)
{
    struct cluster *cluster = step->cluster;
    step_event(step, (struct event_about){.kind = "coordinator_started"},
               "start number %llu, %zu jobs, %zu agents",
               (unsigned long long)cluster->meta.start_number, cluster->jobs.count,
               cluster->agents.count);
    for (size_t i = 0; i < cluster->agents.count; i++) {
        struct agent *agent = cluster->agents.items[i];
        /* Its grace begins anew: nobody listened until now. */
        if (agent->row.state != AGENT_STATE_ALIVE)
            agent->gone_ms = step->event->now_ms;
        step_renew_document(step, agent);
    }
    step_resume_handoffs(step);
    step_resume_drains(step);
    step->place = true;
}

static void forget_request(struct step *step)
{
    struct cluster *cluster = step->cluster;
    uint64_t request = step->event->request;
    for (size_t i = cluster->polls.count; i-- > 0;)
        if (cluster->polls.items[i].request == request)
            cluster_remove_poll(cluster, i);
    for (size_t i = cluster->operation_waits.count; i-- > 0;)
        if (cluster->operation_waits.items[i].request == request)
            cluster_remove_operation_wait(cluster, i);
    for (size_t i = cluster->creations.count; i-- > 0;) {
        if (cluster->creations.items[i].request != request)
            continue;
        struct pending_creation creation = cluster_take_creation(cluster, i);
        cluster_finish_creation(&creation);
    }
}

/* What somebody holds back, or lets go on. */
static void hold(struct step *step)
{
    if (step->event->kind == COORD_EVENT_PAUSE)
        step_pause(step);
    else if (step->event->kind == COORD_EVENT_RESUME)
        step_resume(step);
    else
        step_maintenance(step);
}

/* What somebody decides about a processor that waits for it. */
static void mend(struct step *step)
{
    if (step->event->kind == COORD_EVENT_SKIP)
        step_skip(step);
    else
        step_offsets(step);
}

static void handle_moves(struct step *step)
{
    if (step->event->kind == COORD_EVENT_MOVE)
        step_move(step);
    else if (step->event->kind == COORD_EVENT_REBALANCE)
        step_rebalance(step);
    else if (step->event->kind == COORD_EVENT_EXPAND)
        step_expand(step);
    else if (step->event->kind == COORD_EVENT_PLAN)
        step_plan(step);
    else
        step_handoff_cancel_asked(step);
}

static void handle(struct step *step)
{
    switch (step->event->kind) {
    case COORD_EVENT_START:
    case COORD_EVENT_TICK:
        return; /* what time brings is done at the end of every step, and below */
    case COORD_EVENT_JOB_PUT:
        step_job_put(step);
        return;
    case COORD_EVENT_JOB_DELETE:
        step_job_delete(step);
        return;
    case COORD_EVENT_AGENT_REGISTER:
        step_agent_register(step);
        return;
    case COORD_EVENT_AGENT_DEREGISTER:
        step_agent_deregister(step);
        return;
    case COORD_EVENT_AGENT_FORGET:
        step_agent_forget(step);
        return;
    case COORD_EVENT_ELIGIBILITY:
        step_eligibility(step);
        return;
    case COORD_EVENT_DRAIN:
        step_drain(step);
        return;
    case COORD_EVENT_DRAIN_CANCEL:
        step_drain_cancel(step);
        return;
    case COORD_EVENT_PAUSE:
    case COORD_EVENT_RESUME:
    case COORD_EVENT_MAINTENANCE:
        hold(step);
        return;
    case COORD_EVENT_POLL:
        step_poll(step);
        return;
    case COORD_EVENT_REPORT:
        step_report(step);
        return;
    case COORD_EVENT_OPERATION_WAIT:
        step_operation_wait(step);
        return;
    case COORD_EVENT_OPERATION_CANCEL:
        step_operation_cancel(step);
        return;
    case COORD_EVENT_MOVE:
    case COORD_EVENT_REBALANCE:
    case COORD_EVENT_EXPAND:
    case COORD_EVENT_PLAN:
    case COORD_EVENT_HANDOFF_CANCEL:
        handle_moves(step);
        return;
    case COORD_EVENT_SKIP:
    case COORD_EVENT_OFFSETS:
        mend(step);
        return;
    case COORD_EVENT_REQUEST_GONE:
        forget_request(step);
        return;
    case COORD_EVENT_KAFKA:
        kafka(step);
        return;
    }
    assert(!"a kind of event");
}

/* Handlers answer in any case; where nobody waits there is nobody to send it to. */
static void drop_unasked(struct update *update)
{
    size_t kept = 0;
    for (size_t i = 0; i < update->answers.count; i++) {
        struct answer *answer = &update->answers.items[i];
        if (answer->request != 0)
            update->answers.items[kept++] = *answer;
        else
            answer_finish(answer);
    }
    update->answers.count = kept;
}

/*
 * The step was asked to be called by wake_ms; when it is much later now, the coordinator itself
 * stood still, and what agents sent meanwhile is still in the queue. That is like a restart: nobody
 * is lost before there was time to hear of him.
 */
static void notice_stall(struct step *step)
{
    struct cluster *cluster = step->cluster;
    if (step->event->now_ms - STALL_MS > cluster->wake_ms)
        cluster->listening_ms = step->event->now_ms;
}

static void earlier(int64_t *wake_ms, int64_t candidate_ms)
{
    if (candidate_ms < *wake_ms)
        *wake_ms = candidate_ms;
}

/* The next moment at which time alone changes something. */
static int64_t next_wake(const struct cluster *cluster)
{
    int64_t wake_ms = step_recovery_wake(cluster);
    if (cluster->recovery.state != RECOVERY_NONE)
        return wake_ms;
    earlier(&wake_ms, cluster->observations_ms);
    earlier(&wake_ms, cluster->place_ms);
    earlier(&wake_ms, step_handoffs_wake(cluster));
    earlier(&wake_ms, step_drains_wake(cluster));
    earlier(&wake_ms, step_topics_wake(cluster));
    earlier(&wake_ms, step_groups_wake(cluster));
    for (size_t i = 0; i < cluster->agents.count; i++)
        if (cluster->agents.items[i]->row.state == AGENT_STATE_ALIVE)
            earlier(&wake_ms, cluster_agent_deadline(cluster, cluster->agents.items[i]));
    for (size_t i = 0; i < cluster->polls.count; i++)
        earlier(&wake_ms, cluster->polls.items[i].deadline_ms);
    for (size_t i = 0; i < cluster->operation_waits.count; i++)
        earlier(&wake_ms, cluster->operation_waits.items[i].deadline_ms);
    for (size_t i = 0; i < cluster->creations.count; i++)
        earlier(&wake_ms, cluster->creations.items[i].deadline_ms);
    for (size_t i = 0; i < cluster->operations.count; i++) {
        const struct operation *operation = cluster->operations.items[i];
        if (!view_operation_finished(operation->row.state) && operation->call == 0)
            earlier(&wake_ms, operation->retry_ms);
    }
    return wake_ms;
}

/* What may follow from any event. */
static void follow_up(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    step_find_lost(step);
    step_expire_creations(step);
    step_advance_handoffs(step);
    step_advance_drains(step);
    step_expand_auto(step);
    step_advance_operations(step);
    step_look_at_topics(step);
    step_look_at_groups(step);
    step_recovery_verify(step);
    if (step->place || step->event->now_ms >= cluster->place_ms)
        step_place(step);
    step_renew_seeds(step);
    /* Slices of observations only when nobody waits for this update to be durable. */
    if (step->event->kind == COORD_EVENT_TICK && !step->decided)
        step_store_observations(step);
    step_answer_polls(step);
    step_answer_operation_waits(step);
}

void coord_step(struct cluster *cluster, struct coord_event *event, struct update *ret_update)
{
    struct step step = {.cluster = cluster, .event = event, .update = ret_update};
    assert(event->now_ms > 0);
    assert(event->kind == COORD_EVENT_START || cluster->listening_ms > 0);
    notice_stall(&step);
    if (event->kind == COORD_EVENT_START)
        start(&step);
    else if (cluster->recovery.state != RECOVERY_NONE)
        step_recovery(&step);
    else if (!step_plan_is_stale(&step))
        handle(&step);
    if (cluster->recovery.state == RECOVERY_NONE)
        follow_up(&step);
    if (step.decided || event->kind == COORD_EVENT_START) { /* which has a new number */
        struct change meta = {.kind = CHANGE_META, .meta = cluster->meta};
        update_change(ret_update, cluster, &meta);
        ret_update->publish = true;
    }
    drop_unasked(ret_update);
    cluster->wake_ms = next_wake(cluster);
    ret_update->wake_ms = cluster->wake_ms;
}
