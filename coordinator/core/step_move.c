/*
 * Moves that somebody asked for: of one processor, or evening out a job now. Each is an operation.
 *
 *   move        QUEUE (until the processor's present hand-over has ended) -> HAND_OVER -> END
 *   rebalance   EVEN_OUT: every agent counts as a newcomer once more, until nothing is owed -> END
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/placing.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/view.h"

static bool may_receive(const struct step *step, const struct agent *agent)
{
    return placing_may_receive(step->cluster, agent, step->event->now_ms);
}

/* NULL: answered why not. */
static struct job *find_running_job(struct step *step)
{
    const struct coord_event *event = step->event;
    struct job *job = cluster_job(step->cluster, event->name);
    if (job == NULL) {
        step_problem(step, event->request, "job_not_found", "there is no job \"%s\"", event->name);
        return NULL;
    }
    if (job->row.state == JOB_STATE_RUNNING && job->row.pause.on) {
        step_problem(step, event->request, "move_refused",
                     "job \"%s\" is paused, and nothing of it moves; resume it first",
                     job->row.name);
        return NULL;
    }
    if (job->row.state == JOB_STATE_RUNNING && cluster_is_held(job)) {
        step_problem(
            step, event->request, "move_refused",
            "others are in the group of job \"%s\", and nothing of it moves until they have "
            "left",
            job->row.name);
        return NULL;
    }
    if (job->row.state == JOB_STATE_RUNNING)
        return job;
    step_problem(step, event->request, "move_refused", "job \"%s\" is %s, not running",
                 job->row.name, schema_enum_name(schema_names_job_state, (int)job->row.state));
    return NULL;
}

static void enter_step(struct step *step, struct operation *operation, enum operation_step next)
{
    struct change change = step_operation_change(operation);
    change.operation.step = next;
    rows_text_set(&change.operation.error, NULL);
    change.operation.updated_at = step->event->now_at;
    step_change(step, &change);
}

/* ---- a move: the request */

static bool is_full(const struct cluster *cluster, const struct agent *agent)
{
    size_t index = 0;
    uint32_t *tasks = cluster_count_tasks(cluster);
    (void)cluster_find_agent(cluster, agent->row.agent_id, &index); /* it is there */
    bool full = tasks[index] >= agent->row.capacity;
    free(tasks);
    return full;
}

/* NULL: answered why not. */
static struct agent *find_target(struct step *step, const struct job *job,
                                 const struct processor *processor)
{
    uint64_t request = step->event->request;
    const char *agent_id = step->event->move.agent;
    const char *owner = processor->placement.agent;
    if (agent_id == NULL) {
        struct agent *chosen =
            placing_choose_target(step->cluster, job, processor, step->event->now_ms);
        if (chosen == NULL)
            step_problem(step, request, "move_refused",
                         "no other agent is alive, neither cordoned nor drained, and has room");
        return chosen;
    }
    struct agent *agent = cluster_agent(step->cluster, agent_id);
    if (agent == NULL)
        step_problem(step, request, "agent_not_found", "there is no agent %s", agent_id);
    else if (!cluster_agent_schedulable(agent))
        step_problem(step, request, "move_refused", "agent %s is %s", agent_id,
                     cluster_say_unschedulable(agent));
    else if (!may_receive(step, agent))
        step_problem(step, request, "move_refused", "agent %s is not alive, or about to leave",
                     agent_id);
    else if (!rows_text_equal(owner, agent_id) &&
             (processor->handoff == NULL ||
              strcmp(processor->handoff->row.target, agent_id) != 0) &&
             is_full(step->cluster, agent))
        step_problem(step, request, "move_refused", "agent %s is full: its capacity is %u",
                     agent_id, agent->row.capacity);
    else
        return agent;
    return NULL;
}

static struct operation *find_move(const struct cluster *cluster, const struct job *job,
                                   uint32_t processor)
{
    for (size_t i = 0; i < cluster->operations.count; i++) {
        struct operation *operation = cluster->operations.items[i];
        if (operation->row.kind == OPERATION_KIND_MOVE &&
            !view_operation_finished(operation->row.state) &&
            operation->row.processor == processor &&
            strcmp(operation->row.job_incarnation, job->row.incarnation) == 0)
            return operation;
    }
    return NULL;
}

static void begin_move(struct step *step, const struct job *job, const struct processor *processor,
                       const struct agent *target)
{
    uint64_t id = step_start_operation(step, OPERATION_KIND_MOVE, OPERATION_STEP_QUEUE, &job->row,
                                       step->event->move.reason, NULL);
    struct operation *operation = cluster_operation(step->cluster, id);
    struct change change = step_operation_change(operation);
    change.operation.processor = processor->placement.processor;
    rows_text_set(&change.operation.target, target->row.agent_id);
    step_change(step, &change);
    operation->retry_ms = INT64_MAX; /* only other events bring it on */
    step_event(step,
               (struct event_about){.kind = "move_requested",
                                    .processor = processor,
                                    .agent = target->row.agent_id,
                                    .operation = id},
               "%s",
               step->event->move.reason != NULL ? step->event->move.reason
                                                : "asked for without a reason");
    step_answer_operation(step, step->event->request, 202, operation);
}

void step_move(struct step *step)
{
    const struct coord_event *event = step->event;
    struct job *job = find_running_job(step);
    if (job == NULL)
        return;
    if (event->move.processor >= job->processors.count) {
        step_problem(step, event->request, "processor_not_found",
                     "job \"%s\" has no processor %u; it has %zu, from 0 on", job->row.name,
                     event->move.processor, job->processors.count);
        return;
    }
    struct processor *processor = &job->processors.items[event->move.processor];
    if (processor->placement.agent == NULL) {
        step_problem(step, event->request, "move_refused",
                     "processor %u has no owner; it is placed as soon as an agent has room",
                     event->move.processor);
        return;
    }
    const struct operation *present = find_move(step->cluster, job, event->move.processor);
    if (present != NULL &&
        (event->move.agent == NULL || strcmp(present->row.target, event->move.agent) == 0)) {
        step_answer_operation(step, event->request, 202, present);
        return;
    }
    if (present != NULL) {
        step_problem(step, event->request, "move_refused",
                     "operation op-%llu moves it to %s; cancel that one first",
                     (unsigned long long)present->row.id, present->row.target);
        return;
    }
    const struct agent *target = find_target(step, job, processor);
    if (target != NULL)
        begin_move(step, job, processor, target);
}

/* ---- a move: going on */

static void adopt(struct step *step, struct operation *operation, struct handoff *handoff)
{
    struct change change = step_handoff_change(handoff);
    change.handoff.planned = false;
    change.handoff.operation = operation->row.id;
    step_change(step, &change);
    enter_step(step, operation, OPERATION_STEP_HAND_OVER);
}

static void start_move(struct step *step, struct operation *operation, const struct job *job,
                       struct processor *processor, struct agent *target)
{
    const struct agent *owner = cluster_agent(step->cluster, processor->placement.agent);
    char *reason = text_printf("op-%llu: %s", (unsigned long long)operation->row.id,
                               operation->row.reason != NULL ? operation->row.reason
                                                             : "asked for without a reason");
    if (owner->row.state != AGENT_STATE_ALIVE) {
        step_handoff_force(step, job, processor, target, reason);
        adopt(step, operation, processor->handoff);
    } else {
        step_handoff_start(step, job, processor,
                           (struct handoff_wish){
                               .target = target, .operation = operation->row.id, .reason = reason});
        enter_step(step, operation, OPERATION_STEP_HAND_OVER);
    }
    free(reason);
}

const char *step_move_find_obstacle(const struct cluster *cluster, const struct job *job,
                                    const struct agent *target)
{
    uint32_t on_agent = 0, of_job = 0;
    if (!job->row.spec.stateful)
        return NULL;
    for (size_t i = 0; i < cluster->handoffs.count; i++) {
        const struct handoff *handoff = cluster->handoffs.items[i];
        const struct job *other = cluster_job(cluster, handoff->row.job);
        if (!cluster_is_learning(other, handoff))
            continue;
        of_job += other == job;
        on_agent += strcmp(handoff->row.target, target->row.agent_id) == 0;
    }
    if (target->row.max_learners > 0 && on_agent >= target->row.max_learners)
        return "waits for a learner slot: as many processors learn there as the agent's "
               "max_learners allows";
    if (job->row.spec.max_learners > 0 && of_job >= job->row.spec.max_learners)
        return "waits for a learner slot: as many processors of the job learn as its max_learners "
               "allows";
    return NULL;
}

void step_move_say_obstacle(struct step *step, const struct operation *operation,
                            const char *obstacle)
{
    if (rows_text_equal(operation->row.error, obstacle))
        return;
    struct change change = step_operation_change(operation);
    rows_text_set(&change.operation.error, obstacle);
    change.operation.updated_at = step->event->now_at;
    step_change(step, &change);
}

static void advance_queued(struct step *step, struct operation *operation, const struct job *job)
{
    struct processor *processor = &job->processors.items[operation->row.processor];
    struct handoff *handoff = processor->handoff;
    struct agent *target = cluster_agent(step->cluster, operation->row.target);
    if (target == NULL || !may_receive(step, target)) {
        step_end_operation(step, operation, OPERATION_STATE_FAILED,
                           "the target has left, is not heard of, or is cordoned or drained");
        return;
    }
    bool planned = handoff != NULL && handoff->row.planned &&
                   (handoff->row.state == HANDOFF_STATE_LEARNING ||
                    handoff->row.state == HANDOFF_STATE_CAUGHT_UP);
    if (planned && strcmp(handoff->row.target, operation->row.target) == 0) {
        adopt(step, operation, handoff);
        return;
    }
    if (planned)
        step_handoff_cancel(step, handoff, true, "superseded: it shall go to another agent");
    if (processor->handoff != NULL || processor->placement.agent == NULL ||
        cluster_split_of(job, processor->placement.processor) != NULL)
        return; /* in its turn */
    if (strcmp(processor->placement.agent, operation->row.target) == 0) {
        step_end_operation(step, operation, OPERATION_STATE_SUCCEEDED, NULL);
        return;
    }
    const struct agent *owner = cluster_agent(step->cluster, processor->placement.agent);
    /* Who is lost is taken over from at once, and a standby learns in no slot of a hand-over. */
    bool at_once = owner->row.state != AGENT_STATE_ALIVE ||
                   cluster_standby(processor, target->row.agent_id) != NULL;
    const char *obstacle = at_once ? NULL : step_move_find_obstacle(step->cluster, job, target);
    if (obstacle != NULL)
        step_move_say_obstacle(step, operation, obstacle);
    else
        start_move(step, operation, job, processor, target);
}

void step_move_ended(struct step *step, const struct handoff_row *row)
{
    struct operation *operation = cluster_operation(step->cluster, row->operation);
    if (operation == NULL || operation->row.kind != OPERATION_KIND_MOVE ||
        view_operation_finished(operation->row.state))
        return;
    if (row->state != HANDOFF_STATE_DONE) {
        step_end_operation(step, operation, OPERATION_STATE_FAILED, row->error);
    } else if (!rows_text_equal(row->target, operation->row.target)) {
        char *error = text_printf("it went to %s: %s was lost", row->target, operation->row.target);
        step_end_operation(step, operation, OPERATION_STATE_FAILED, error);
        free(error);
    } else {
        step_end_operation(step, operation, OPERATION_STATE_SUCCEEDED, NULL);
    }
}

/* ---- rebalance */

void step_rebalance(struct step *step)
{
    struct cluster *cluster = step->cluster;
    struct job *job = find_running_job(step);
    if (job == NULL)
        return;
    uint64_t id = cluster_rebalance_of(cluster, job);
    if (id == 0) {
        const char *reason = step->event->reason;
        id = step_start_operation(step, OPERATION_KIND_REBALANCE, OPERATION_STEP_EVEN_OUT,
                                  &job->row, reason, NULL);
        cluster_operation(cluster, id)->retry_ms = INT64_MAX;
        step_event(step,
                   (struct event_about){
                       .kind = "rebalance_requested", .job = job->row.name, .operation = id},
                   "%s", reason != NULL ? reason : "asked for without a reason");
        step_forgive(step, job);
        job->even = false; /* until there is a plan */
        for (size_t i = 0; i < cluster->agents.count; i++) {
            struct agent *agent = cluster->agents.items[i];
            if (!may_receive(step, agent))
                continue;
            agent->newcomer_from_ms = 0;
            step_set_arrival(step, job, agent, true);
        }
        step->place = true;
    }
    step_answer_operation(step, step->event->request, 202, cluster_operation(cluster, id));
}

static void end_rebalance(struct step *step, struct operation *operation)
{
    char *error = rows_text_copy(operation->row.error); /* some agent could not have its share */
    step_end_operation(step, operation,
                       error != NULL ? OPERATION_STATE_FAILED : OPERATION_STATE_SUCCEEDED, error);
    free(error);
}

/* ---- both */

void step_advance_move(struct step *step, struct operation *operation, struct job *job)
{
    operation->retry_ms = INT64_MAX;
    if (operation->row.step == OPERATION_STEP_QUEUE)
        advance_queued(step, operation, job);
    else if (operation->row.step == OPERATION_STEP_EVEN_OUT && job->even)
        end_rebalance(step, operation);
}

static void close_arrivals(struct step *step, struct job *job)
{
    for (size_t i = 0; i < job->arrivals.count; i++) {
        const struct agent *agent = cluster_agent(step->cluster, job->arrivals.items[i].agent);
        if (job->arrivals.items[i].open)
            step_set_arrival(step, job, agent, false);
    }
}

/* False: one is past the point where it could be undone. */
static bool cancel_handoffs_of(struct step *step, const struct job *job, uint64_t operation,
                               const char *error)
{
    bool all = true;
    for (size_t i = 0; i < job->processors.count; i++) {
        struct handoff *handoff = job->processors.items[i].handoff;
        if (handoff == NULL || handoff->row.operation != operation)
            continue;
        if (handoff_before_release(handoff->row.state))
            step_handoff_cancel(step, handoff, true, error);
        else
            all = false;
    }
    return all;
}

static bool is_past_release(const struct job *job, const struct operation_row *row)
{
    if (row->kind != OPERATION_KIND_MOVE)
        return false;
    const struct handoff *handoff = job->processors.items[row->processor].handoff;
    return handoff != NULL && handoff->row.operation == row->id &&
           !handoff_before_release(handoff->row.state);
}

void step_cancel_move(struct step *step, struct operation *operation)
{
    struct job *job = cluster_job(step->cluster, operation->row.job);
    uint64_t id = operation->row.id;
    if (is_past_release(job, &operation->row)) {
        step_problem(step, step->event->request, "operation_not_cancellable",
                     "op-%llu: the source has given the processor up, the target must finish",
                     (unsigned long long)id);
        return;
    }
    if (operation->row.kind == OPERATION_KIND_REBALANCE)
        close_arrivals(step, job);
    step_end_operation(step, operation, OPERATION_STATE_CANCELLED, NULL);
    (void)cancel_handoffs_of(step, job, id, "its operation was cancelled"); /* others finish */
    step_event(
        step,
        (struct event_about){.kind = "operation_cancelled", .job = job->row.name, .operation = id},
        "%s", step->event->reason != NULL ? step->event->reason : "asked for without a reason");
    step_answer_ended(step, step->event->request, id);
}

void step_cancel_moves(struct step *step, const struct job *job, const char *error)
{
    const struct cluster *cluster = step->cluster;
    uint64_t next = 0;
    size_t index;
    /* Ending one may push the oldest finished one out of the list. */
    while (cluster_find_operation(cluster, next, &index) || index < cluster->operations.count) {
        struct operation *operation = cluster->operations.items[index];
        next = operation->row.id + 1;
        if ((operation->row.kind == OPERATION_KIND_MOVE ||
             operation->row.kind == OPERATION_KIND_REBALANCE ||
             operation->row.kind == OPERATION_KIND_EXPAND_PROCESSORS) &&
            !view_operation_finished(operation->row.state) &&
            strcmp(operation->row.job_incarnation, job->row.incarnation) == 0)
            step_end_operation(step, operation, OPERATION_STATE_CANCELLED, error);
    }
}

/* ---- DELETE of a hand-over */

void step_handoff_cancel_asked(struct step *step)
{
    const struct coord_event *event = step->event;
    struct handoff *handoff = cluster_handoff(step->cluster, event->handoff);
    if (handoff == NULL) {
        step_problem(step, event->request, "handoff_not_found", "no hand-over %llu is under way",
                     (unsigned long long)event->handoff);
        return;
    }
    if (!handoff_is_cancellable(&handoff->row)) {
        step_problem(
            step, event->request, "handoff_not_cancellable",
            "hand-over %llu: the source has given the processor up, the target must finish",
            (unsigned long long)event->handoff);
        return;
    }
    struct job *job = cluster_job(step->cluster, handoff->row.job);
    struct operation *operation = cluster_operation(step->cluster, handoff->row.operation);
    if (operation != NULL && !view_operation_finished(operation->row.state) &&
        (operation->row.kind == OPERATION_KIND_MOVE ||
         operation->row.kind == OPERATION_KIND_EXPAND_PROCESSORS))
        step_end_operation(step, operation, OPERATION_STATE_CANCELLED,
                           "its hand-over was cancelled");
    /* Else the next plan would begin it anew. */
    if (handoff->row.planned)
        step_set_arrival(step, job, cluster_agent(step->cluster, handoff->row.target), false);
    char *error =
        text_printf("cancelled by %s%s%s", event->actor != NULL ? event->actor : "somebody",
                    event->reason != NULL ? ": " : "", event->reason != NULL ? event->reason : "");
    struct handoff_view *view = mem_calloc(1, sizeof(*view));
    view_handoff(&handoff->row, view);
    view->state = HANDOFF_STATE_CANCELLED;
    view->changed_at = event->now_at;
    rows_text_set(&view->error, error);
    step_handoff_cancel(step, handoff, false, error);
    free(error);
    step_answer(step, event->request, 200, &schema_handoff_view, view);
}
