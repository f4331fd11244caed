/*
 * Operations: what takes several steps and outlives a restart. Each step is recorded before its
 * Kafka call is made, repeated until it is done, and judged by what Kafka says (D6).
 *
 *   create_job   COMMIT_STARTS -> SAMPLE (only with partitioner auto) -> END, the job RUNNING
 *                (with start "committed" the group still commits itself: step_group.c)
 *   delete_job   CLOSE_TASKS -> FENCE (only exactly_once) -> END, the job gone
 *
 * Those that move processors are in step_move.c.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "api/stamp.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "coordinator/core/creation.h"
#include "coordinator/core/step_group.h"
#include "coordinator/core/view.h"

/* ---- life of an operation */

/* What an expansion changes, as it is now; of other kinds nothing. */
static int64_t count_of(enum operation_kind kind, const struct job_row *row)
{
    return kind == OPERATION_KIND_EXPAND_PROCESSORS   ? row->processors
           : kind == OPERATION_KIND_EXPAND_PARTITIONS ? row->partitions
                                                      : API_UNKNOWN;
}

uint64_t step_start_operation(struct step *step, enum operation_kind kind,
                              enum operation_step first, const struct job_row *row,
                              const char *reason, const char *actor)
{
    uint64_t id = ++step->cluster->meta.operation_id;
    const char *asker = actor != NULL ? actor : step->event->actor;
    struct change change = {.kind = CHANGE_OPERATION,
                            .operation = {
                                .id = id,
                                .kind = kind,
                                .job = mem_strdup(row->name),
                                .job_incarnation = mem_strdup(row->incarnation),
                                .state = OPERATION_STATE_RUNNING,
                                .step = first,
                                .processor = API_UNKNOWN,
                                .goal = API_UNKNOWN,
                                .count_before = count_of(kind, row),
                                .count_reached = count_of(kind, row),
                                .actor = mem_strdup(asker != NULL ? asker : ACTOR_COORDINATOR),
                                .reason = rows_text_copy(reason),
                                .created_at = step->event->now_at,
                                .updated_at = step->event->now_at,
                            }};
    step_change(step, &change);
    return id;
}

/* The job as the operation knows it is the job that is there. */
static void note_count(const struct step *step, struct operation_row *row)
{
    const struct job *job = cluster_job(step->cluster, row->job);
    if (job != NULL && strcmp(job->row.incarnation, row->job_incarnation) == 0)
        row->count_reached = count_of(row->kind, &job->row);
}

void step_note_reached(struct step *step, const struct operation *operation)
{
    struct change change = step_operation_change(operation);
    note_count(step, &change.operation);
    change.operation.updated_at = step->event->now_at;
    step_change(step, &change);
}

void step_end_operation(struct step *step, struct operation *operation, enum operation_state state,
                        const char *error)
{
    struct change change = step_operation_change(operation);
    change.operation.state = state;
    if (state == OPERATION_STATE_SUCCEEDED)
        change.operation.step = OPERATION_STEP_END;
    rows_text_set(&change.operation.error, error);
    note_count(step, &change.operation);
    change.operation.updated_at = step->event->now_at;
    /* Before it is recorded: the record may drop this very operation from memory, when 1,000 newer
     * ones have ended before it. */
    operation->call = 0;
    step_change(step, &change);
}

void step_enter_operation_step(struct step *step, struct operation *operation,
                               enum operation_step next)
{
    struct change change = step_operation_change(operation);
    change.operation.step = next;
    rows_text_set(&change.operation.error, NULL);
    change.operation.updated_at = step->event->now_at;
    step_change(step, &change);
    operation->retry_ms = step->event->now_ms;
    operation->backoff_ms = 0;
}

/* Says once, in the operation and in an event, why it does not go on. */
static void say_why(struct step *step, struct operation *operation, const char *error)
{
    char *text = text_printf("%s", error);
    if (rows_text_equal(operation->row.error, text)) {
        free(text);
        return;
    }
    struct change change = step_operation_change(operation);
    free(change.operation.error);
    change.operation.error = text;
    change.operation.updated_at = step->event->now_at;
    step_change(step, &change);
    step_event(step,
               (struct event_about){"operation_waiting", .job = operation->row.job,
                                    .operation = operation->row.id, .actor = ACTOR_COORDINATOR},
               "%s", error);
}

void step_retry_operation(struct step *step, struct operation *operation, const char *error)
{
    int64_t backoff_ms = operation->backoff_ms * 2;
    if (backoff_ms < OPERATION_BACKOFF_MS_MIN)
        backoff_ms = OPERATION_BACKOFF_MS_MIN;
    if (backoff_ms > OPERATION_BACKOFF_MS_MAX)
        backoff_ms = OPERATION_BACKOFF_MS_MAX;
    operation->backoff_ms = backoff_ms;
    /* Between half of it and all, so that many operations do not come back at one moment. */
    int64_t jitter_ms = (int64_t)(step->event->random % (uint64_t)(backoff_ms / 2 + 1));
    operation->retry_ms = step->event->now_ms + backoff_ms / 2 + jitter_ms;
    say_why(step, operation, error);
}

/* ---- create_job: the start offsets */

char *step_start_stamp(const struct job_row *row, uint32_t partition)
{
    struct linhash_size size = {.initial = row->processors_initial, .now = row->processors};
    struct stamp stamp = {.processor = linhash_bucket(partition, size),
                          .epoch = 0,
                          .records = API_UNKNOWN, /* nobody has met any */
                          .bound = API_UNKNOWN,
                          .bound_records = API_UNKNOWN};
    assert(strlen(row->incarnation) == API_UUID_BYTES);
    memcpy(stamp.incarnation, row->incarnation, API_UUID_BYTES + 1);
    char text[STAMP_TEXT_BYTES];
    stamp_format(&stamp, text);
    return mem_strdup(text);
}

static struct kafka_offset wanted_offset(const struct job_row *row, size_t index)
{
    const struct input_offset *start = &row->starts.items[index];
    return (struct kafka_offset){.topic = start->topic,
                                 .partition = start->partition,
                                 .offset = start->offset,
                                 .metadata = step_start_stamp(row, start->partition)};
}

static void call_commit(struct step *step, struct operation *operation, const struct job *job)
{
    const struct job_row *row = &job->row;
    struct kafka_call *call = step_call(step, KAFKA_CALL_COMMIT, &row->spec, row->name);
    call->offsets.items = mem_calloc(row->starts.count, sizeof(struct kafka_offset));
    for (size_t i = 0; i < row->starts.count; i++)
        call->offsets.items[i] = wanted_offset(row, i);
    call->offsets.count = row->starts.count;
    operation->call = call->id;
}

/* What Kafka holds instead of what it should, in words: free(). NULL: all is as it should be. */
static char *find_difference(const struct job_row *row, const struct kafka_result *result)
{
    /* The answer's order is the broker's: each entry is put to the place of its partition first. */
    const struct kafka_offset **held = mem_calloc(row->starts.count, sizeof(*held));
    char *difference = NULL;
    for (size_t i = 0; i < result->committed.count; i++) {
        const struct kafka_offset *offset = &result->committed.items[i];
        if (offset->topic < row->spec.inputs.count && offset->partition < row->partitions)
            held[(size_t)offset->topic * row->partitions + offset->partition] = offset;
    }
    for (size_t i = 0; difference == NULL && i < row->starts.count; i++) {
        struct kafka_offset wanted = wanted_offset(row, i);
        const char *topic = row->spec.inputs.items[wanted.topic];
        if (held[i] == NULL || held[i]->offset == API_UNKNOWN)
            difference = mem_printf("Kafka holds no offset for \"%s\" partition %u", topic,
                                    wanted.partition);
        else if (held[i]->offset != wanted.offset ||
                 !rows_text_equal(held[i]->metadata, wanted.metadata))
            difference = mem_printf("Kafka holds another offset for \"%s\" partition %u: %lld "
                                    "instead of %lld, or with foreign metadata",
                                    topic, wanted.partition, (long long)held[i]->offset,
                                    (long long)wanted.offset);
        free(wanted.metadata);
    }
    free(held);
    return difference;
}

/* ---- create_job: the partitioner, and the end */

static void call_sample(struct step *step, struct operation *operation, const struct job *job)
{
    struct kafka_call *call = step_call(step, KAFKA_CALL_SAMPLE, &job->row.spec, job->row.name);
    call->partitions_initial = job->row.partitions_initial;
    call->partitions = job->row.partitions;
    operation->call = call->id;
}

/* `sample` NULL: the specification says how keys are placed. */
static void finish_creation(struct step *step, struct operation *operation, struct job *job,
                            const struct kafka_sample *sample)
{
    struct change change = step_job_change(job);
    change.job.state = JOB_STATE_RUNNING;
    if (sample != NULL) {
        free(change.job.partitioner_reason);
        change.job.partitioner = creation_partitioner(sample, &change.job.partitioner_reason);
    }
    step_change(step, &change);
    step_event(step,
               (struct event_about){"job_running", .job = job->row.name,
                                    .operation = operation->row.id, .actor = ACTOR_COORDINATOR},
               "partitioner %s: %s",
               schema_enum_name(schema_names_effective_partitioner, (int)job->row.partitioner),
               job->row.partitioner_reason);
    step_end_operation(step, operation, OPERATION_STATE_SUCCEEDED, NULL);
    step_topics_due(step, job, step->event->now_ms + step->cluster->config.topics_interval_ms);
    step_groups_due(step);
    step->place = true;
}

/* Where it starts is committed; or is for others to say, until they have left the group. */
static void end_starts(struct step *step, struct operation *operation, struct job *job)
{
    if (job->row.spec.partitioner == PARTITIONER_AUTO)
        step_enter_operation_step(step, operation, OPERATION_STEP_SAMPLE);
    else
        finish_creation(step, operation, job, NULL);
}

/* ---- delete_job */

static bool has_stray(const struct agent *agent, const struct job_row *row)
{
    for (size_t i = 0; i < agent->strays.count; i++) {
        const struct stray_task *stray = &agent->strays.items[i];
        if (stray->state != TASK_STATE_CLOSED && strcmp(stray->job, row->name) == 0 &&
            strcmp(stray->job_incarnation, row->incarnation) == 0)
            return true;
    }
    return false;
}

/*
 * An owner that is alive must say that it works by a document without the task: one that has not
 * yet seen the document with the task would open it later, after the fence. An owner that is not
 * alive is left to the fence.
 */
static bool is_closed(const struct step *step, const struct operation *operation,
                      const struct processor *processor, const struct agent *owner)
{
    const struct cluster *cluster = step->cluster;
    struct document_version needed = {.start = cluster->meta.start_number,
                                      .decision = operation->decision};
    if (cluster_compare_versions(owner->applied, needed) < 0)
        return false;
    const struct processor_observed *observed = &processor->observed;
    return !observed->known || observed->serial != owner->reports ||
           strcmp(observed->agent, owner->row.agent_id) != 0 ||
           strcmp(observed->agent_incarnation, owner->row.incarnation) != 0 ||
           observed->report.state == TASK_STATE_CLOSED;
}

/* Who holds the deletion up, in words: free(). NULL: nobody. */
static char *find_open_task(const struct step *step, const struct operation *operation,
                            const struct job *job)
{
    const struct cluster *cluster = step->cluster;
    int64_t now_ms = step->event->now_ms;
    for (size_t i = 0; i < job->processors.count; i++) {
        const struct processor *processor = &job->processors.items[i];
        if (processor->placement.agent == NULL)
            continue;
        const struct agent *owner = cluster_agent(cluster, processor->placement.agent);
        if (cluster_agent_alive(cluster, owner, now_ms) &&
            !is_closed(step, operation, processor, owner))
            return mem_printf("agent %s has not closed processor %zu", owner->row.agent_id, i);
    }
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *agent = cluster->agents.items[i];
        if (cluster_agent_alive(cluster, agent, now_ms) && has_stray(agent, &job->row))
            return mem_printf("agent %s still has a task of the job", agent->row.agent_id);
    }
    return NULL;
}

static void call_fence(struct step *step, struct operation *operation, const struct job *job)
{
    struct kafka_call *call = step_call(step, KAFKA_CALL_FENCE, &job->row.spec, job->row.name);
    call->transactional_ids.items = mem_calloc(job->processors.count, sizeof(char *));
    for (uint32_t i = 0; i < job->processors.count; i++)
        call->transactional_ids.items[i] = cluster_transactional_id(step->cluster, job, i);
    call->transactional_ids.count = job->processors.count;
    operation->call = call->id;
}

static void finish_deletion(struct step *step, struct operation *operation, const struct job *job)
{
    step_event(step,
               (struct event_about){"job_deleted", .job = job->row.name,
                                    .operation = operation->row.id, .actor = ACTOR_COORDINATOR},
               "tasks are closed; committed offsets of group \"%s\" stay", job->row.spec.group_id);
    struct change change = {.kind = CHANGE_JOB_REMOVED, .job = {.name = mem_strdup(job->row.name)}};
    step_end_operation(step, operation, OPERATION_STATE_SUCCEEDED, NULL);
    step_change(step, &change);
    step->place = true; /* its agents have room now */
}

static void wait_for_closing(struct step *step, struct operation *operation, const struct job *job)
{
    char *open = find_open_task(step, operation, job);
    if (operation->retry_ms == 0)
        operation->retry_ms = step->event->now_ms + CLOSE_PATIENCE_MS;
    if (open == NULL && job->row.spec.delivery == DELIVERY_EXACTLY_ONCE) {
        step_enter_operation_step(step, operation, OPERATION_STEP_FENCE);
        call_fence(step, operation, job);
    } else if (open == NULL) {
        finish_deletion(step, operation, job);
    } else if (step->event->now_ms >= operation->retry_ms) {
        operation->retry_ms = step->event->now_ms + OPERATION_BACKOFF_MS_MAX;
        say_why(step, operation, open);
    }
    free(open);
}

/* ---- going on */

static void advance(struct step *step, struct operation *operation)
{
    struct job *job = cluster_job(step->cluster, operation->row.job);
    assert(job != NULL);
    if (operation->row.kind == OPERATION_KIND_MOVE ||
        operation->row.kind == OPERATION_KIND_REBALANCE) {
        step_advance_move(step, operation, job);
        return;
    }
    if (operation->row.kind == OPERATION_KIND_EXPAND_PARTITIONS) {
        step_advance_partitions(step, operation, job);
        return;
    }
    if (operation->row.kind == OPERATION_KIND_EXPAND_PROCESSORS) {
        step_advance_expansion(step, operation, job);
        return;
    }
    if (operation->row.step == OPERATION_STEP_CLOSE_TASKS) {
        wait_for_closing(step, operation, job);
        return;
    }
    if (step->event->now_ms < operation->retry_ms)
        return;
    switch (operation->row.step) {
    case OPERATION_STEP_COMMIT_STARTS:
        if (job->row.group.hold == GROUP_HOLD_STARTING)
            end_starts(step, operation, job);
        else
            call_commit(step, operation, job);
        return;
    case OPERATION_STEP_SAMPLE:
        call_sample(step, operation, job);
        return;
    case OPERATION_STEP_FENCE:
        call_fence(step, operation, job);
        return;
    default:
        break;
    }
    assert(!"a step that can be under way");
}

void step_advance_operations(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    /* An operation that ends may push the oldest finished one out of the list: its place is looked
     * up again by number. */
    uint64_t next = 0;
    size_t index;
    while (cluster_find_operation(cluster, next, &index) || index < cluster->operations.count) {
        struct operation *operation = cluster->operations.items[index];
        next = operation->row.id + 1;
        if (!view_operation_finished(operation->row.state) && operation->call == 0)
            advance(step, operation);
    }
}

static void judge_commit(struct step *step, struct operation *operation, struct job *job)
{
    const struct kafka_result *result = &step->event->kafka;
    char *difference = find_difference(&job->row, result);
    if (difference != NULL) {
        /* The refusal explains more than what was found there afterwards. */
        bool explained = result->failed && result->detail != NULL;
        step_retry_operation(step, operation, explained ? result->detail : difference);
    } else {
        end_starts(step, operation, job);
    }
    free(difference);
}

void step_operation_result(struct step *step, struct operation *operation)
{
    const struct kafka_result *result = &step->event->kafka;
    struct job *job = cluster_job(step->cluster, operation->row.job);
    const char *detail = result->detail != NULL ? result->detail : "no detail was given";
    assert(job != NULL);
    operation->call = 0;
    if (operation->row.kind == OPERATION_KIND_EXPAND_PARTITIONS) {
        step_partitions_result(step, operation, job);
        return;
    }
    switch (operation->row.step) {
    case OPERATION_STEP_COMMIT_STARTS:
        judge_commit(step, operation, job);
        return;
    case OPERATION_STEP_SAMPLE:
        if (result->failed)
            step_retry_operation(step, operation, detail);
        else
            finish_creation(step, operation, job, &result->sample);
        return;
    case OPERATION_STEP_FENCE:
        if (result->failed)
            step_retry_operation(step, operation, detail);
        else
            finish_deletion(step, operation, job);
        return;
    default:
        break;
    }
    assert(!"a step that makes calls");
}
