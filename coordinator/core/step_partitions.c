/*
 * More partitions: the operation expand_partitions, for those that somebody asks for and for those
 * that somebody has added to the topics already, which are adopted.
 *
 *   SAMPLE             by which hash keys lie where they are: the new count must place them so, too
 *   RECORD_ENDS        where each partition ends: from there on a record whose key will belong to a
 *                      new partition is an old-count record
 *   CREATE_PARTITIONS  of each input topic that has fewer
 *   COMMIT_STARTS      0 for the new ones, where the group holds nothing yet
 *   END                the map has them; settle windows are open; agents are told
 *
 * Each is repeated after a restart and judged by what Kafka says (D6). Until END nobody reads the
 * new partitions. Since N0 = M0 * 2^j no key changes its processor, and a partition and its
 * descendants have one owner (D2): nothing moves.
 *
 * Of topics that somebody else has expanded the ends are those of the moment at which it was seen.
 * Old-count records from before that are not counted, but their order is kept like that of the
 * others: the new partitions are read only when there is a window. When records of theirs are gone
 * by then, or before the map has them, they are not read at all.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "api/stamp.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "coordinator/core/creation.h"
#include "coordinator/core/step_group.h"
#include "coordinator/core/step_job.h"
#include "coordinator/core/view.h"

/* After an attempt to adopt partitions has failed, the next look that finds them waits so long. */
#define ADOPT_RETRY_MS 600000

/* ---- what is refused */

char *step_refuse_partitions(const struct job_row *row, int64_t wanted)
{
    struct linhash_size size = {.initial = row->processors_initial, .now = row->partitions_initial};
    if (wanted <= row->partitions)
        return text_printf("the job has %u partitions already, and topics never lose any: ask for "
                           "more than that",
                           row->partitions);
    if (wanted > API_PARTITIONS_MAX)
        return text_printf("%" PRId64 " partitions are more than a job may have (%d)", wanted,
                           API_PARTITIONS_MAX);
    if (size.now < size.initial || linhash_split_pointer(size) != 0)
        return text_printf(
            "the job began with %u partitions and %u processors: only of partitions "
            "that are processors times a power of two do keys stay on their "
            "processors; create a new job with other processors, from the same group",
            size.now, size.initial);
    if (row->partitioner == EFFECTIVE_PARTITIONER_OPAQUE)
        return text_printf("nobody knows how keys are spread over partitions, so nobody could say "
                           "where they would go: %s",
                           row->partitioner_reason);
    return NULL;
}

static bool is_expansion(const struct operation *operation, const struct job *job)
{
    return (operation->row.kind == OPERATION_KIND_EXPAND_PARTITIONS ||
            operation->row.kind == OPERATION_KIND_EXPAND_PROCESSORS) &&
           !view_operation_finished(operation->row.state) &&
           strcmp(operation->row.job_incarnation, job->row.incarnation) == 0;
}

struct operation *step_find_expansion(const struct cluster *cluster, const struct job *job)
{
    for (size_t i = 0; i < cluster->operations.count; i++)
        if (is_expansion(cluster->operations.items[i], job))
            return cluster->operations.items[i];
    return NULL;
}

/* ---- life */

static struct operation *begin(struct step *step, const struct job *job, uint32_t wanted,
                               const char *reason)
{
    uint64_t id = step_start_operation(step, OPERATION_KIND_EXPAND_PARTITIONS,
                                       OPERATION_STEP_SAMPLE, &job->row, reason, NULL);
    struct change change = step_operation_change(cluster_operation(step->cluster, id));
    change.operation.goal = wanted;
    step_change(step, &change);
    step_event(step, (struct event_about){"expansion_began", .job = job->row.name, .operation = id},
               "partitions: %u to %u; %s", job->row.partitions, wanted,
               reason != NULL ? reason : "asked for without a reason");
    return cluster_operation(step->cluster, id);
}

static void fail(struct step *step, struct operation *operation, struct job *job, const char *error)
{
    job->topics.adopt_ms = step->event->now_ms + ADOPT_RETRY_MS;
    rows_text_set(&job->topics.adopt_error, error);
    step_event(step,
               (struct event_about){"expansion_failed", .job = job->row.name,
                                    .operation = operation->row.id, .actor = ACTOR_COORDINATOR},
               "%s", error);
    step_end_operation(step, operation, OPERATION_STATE_FAILED, error);
}

void step_expand_partitions(struct step *step, struct job *job)
{
    const struct expansion_request *wish = &step->event->expansion;
    char *refusal = step_refuse_partitions(&job->row, wish->partitions);
    if (refusal != NULL) {
        step_problem(step, step->event->request, "expansion_refused", "%s", refusal);
        free(refusal);
    } else if (wish->dry_run) {
        struct expansion_plan *plan = mem_calloc(1, sizeof(*plan));
        *plan = (struct expansion_plan){.job = mem_strdup(job->row.name),
                                        .processors = job->row.processors,
                                        .partitions = (uint32_t)wish->partitions};
        step_answer(step, step->event->request, 200, &schema_expansion_plan, plan);
    } else {
        step_answer_operation(step, step->event->request, 202,
                              begin(step, job, (uint32_t)wish->partitions, wish->reason));
    }
}

/* As long as it is not known that the topics have them. Those that they have all the same are
 * adopted with the next look, as anybody's are: nobody would read them. */
void step_cancel_partitions(struct step *step, struct operation *operation)
{
    if (operation->row.step != OPERATION_STEP_COMMIT_STARTS) {
        const char *reason = step->event->reason;
        uint64_t id = operation->row.id;
        step_event(step,
                   (struct event_about){
                       .kind = "operation_cancelled", .job = operation->row.job, .operation = id},
                   "%s", reason != NULL ? reason : "asked for without a reason");
        step_end_operation(step, operation, OPERATION_STATE_CANCELLED, "asked for");
        step_answer_ended(step, step->event->request, id);
        return;
    }
    step_problem(step, step->event->request, "operation_not_cancellable",
                 "op-%" PRIu64 ": partitions have been added, and topics never lose any",
                 operation->row.id);
}

void step_end_expansions(struct step *step, const struct job *job, const char *error)
{
    struct operation *operation = step_find_expansion(step->cluster, job);
    if (operation != NULL)
        step_end_operation(step, operation, OPERATION_STATE_CANCELLED, error);
}

/* ---- partitions that somebody else has added */

/* How many partitions all inputs have, when that is more than the job knows; else 0. */
static uint32_t count_common(const struct job_row *row, const struct kafka_inspection *inspection)
{
    uint32_t count = inspection->inputs.count > 0 ? inspection->inputs.items[0].partition_count : 0;
    for (size_t i = 0; i < inspection->inputs.count; i++)
        if (!inspection->inputs.items[i].exists ||
            inspection->inputs.items[i].partition_count != count)
            return 0;
    return inspection->inputs.count == row->spec.inputs.count && count > row->partitions ? count
                                                                                         : 0;
}

/* New partitions begin at 0 (D1), and no record is passed over that nobody chose to lose. Where
 * some are gone before the job could read them, in words; free(). NULL: nowhere. */
static char *find_gone(const struct job_row *row, const struct kafka_inspection *inspection)
{
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        const struct kafka_topic *topic = &inspection->inputs.items[i];
        for (size_t p = row->partitions; p < topic->partitions.count; p++)
            if (topic->partitions.items[p].log_start > 0)
                return text_printf("\"%s\" partition %zu: records from 0 to %" PRId64
                                   " are gone, and the job has not read them; it passes over none "
                                   "by itself: create the job anew from what the topics hold",
                                   topic->name, p, topic->partitions.items[p].log_start);
    }
    return NULL;
}

/* True: they can not be read, by whoever's wish. */
static bool refuse_gone(struct step *step, struct job *job,
                        const struct kafka_inspection *inspection)
{
    struct operation *present = step_find_expansion(step->cluster, job);
    char *gone = find_gone(&job->row, inspection);
    if (gone == NULL)
        return false;
    rows_text_set(&job->topics.adopt_error, gone);
    if (present != NULL && present->row.kind == OPERATION_KIND_EXPAND_PARTITIONS)
        fail(step, present, job, gone);
    free(gone);
    return true;
}

/* Why they can not be adopted now; free(). NULL: they can. */
static char *find_adoption_obstacle(const struct step *step, const struct job *job)
{
    const struct operation *present = step_find_expansion(step->cluster, job);
    if (job->row.pause.on)
        return text_printf("they wait: the job is paused");
    if (cluster_is_held(job))
        return text_printf("they wait: others are in the job's group");
    if (present != NULL && present->row.kind == OPERATION_KIND_EXPAND_PROCESSORS)
        return text_printf("they wait: op-%" PRIu64 " adds processors; its end is waited for, or "
                           "cancel it",
                           present->row.id);
    return NULL;
}

void step_adopt_partitions(struct step *step, struct job *job,
                           const struct kafka_inspection *inspection)
{
    uint32_t count = count_common(&job->row, inspection);
    if (refuse_gone(step, job, inspection) || count == 0 || job->row.state != JOB_STATE_RUNNING ||
        step->event->now_ms < job->topics.adopt_ms)
        return;
    char *obstacle = find_adoption_obstacle(step, job);
    if (obstacle != NULL) {
        rows_text_set(&job->topics.adopt_error, obstacle);
        free(obstacle);
        return;
    }
    if (step_find_expansion(step->cluster, job) != NULL)
        return;
    char *refusal = step_refuse_partitions(&job->row, count);
    rows_text_set(&job->topics.adopt_error, NULL);
    if (refusal == NULL)
        (void)begin(step, job, count, "somebody else has added partitions to the inputs");
    free(refusal);
}

/* ---- SAMPLE */

static void call_sample(struct step *step, struct operation *operation, const struct job *job)
{
    struct kafka_call *call = step_call(step, KAFKA_CALL_SAMPLE, &job->row.spec, job->row.name);
    call->partitions_initial = job->row.partitions_initial;
    call->partitions = job->row.partitions;
    operation->call = call->id;
}

static void set_partitioner(struct step *step, const struct job *job,
                            enum effective_partitioner partitioner, const char *reason)
{
    struct change change = step_job_change(job);
    change.job.partitioner = partitioner;
    rows_text_set(&change.job.partitioner_reason, reason);
    step_change(step, &change);
}

/* What was found must be what is known; where nothing is known, something must be found. */
static void judge_sample(struct step *step, struct operation *operation, struct job *job)
{
    char *reason;
    enum effective_partitioner known = job->row.partitioner;
    enum effective_partitioner found = creation_partitioner(&step->event->kafka.sample, &reason);
    bool nothing = found == EFFECTIVE_PARTITIONER_UNDETERMINED;
    char *error = NULL;
    if (nothing && known == EFFECTIVE_PARTITIONER_UNDETERMINED)
        error = text_printf("nobody knows yet how keys are spread over partitions: %s; try again "
                            "when there are records, or create the job with its \"partitioner\"",
                            reason);
    else if (!nothing && known != EFFECTIVE_PARTITIONER_UNDETERMINED && found != known)
        error =
            text_printf("keys do not lie where %s puts them: %s",
                        schema_enum_name(schema_names_effective_partitioner, (int)known), reason);
    else if (found == EFFECTIVE_PARTITIONER_OPAQUE)
        error = text_printf("%s", reason);
    if (error == NULL && known == EFFECTIVE_PARTITIONER_UNDETERMINED)
        set_partitioner(step, job, found, reason);
    if (error != NULL)
        fail(step, operation, job, error);
    else
        step_enter_operation_step(step, operation, OPERATION_STEP_RECORD_ENDS);
    free(error);
    free(reason);
}

/* ---- RECORD_ENDS */

static void call_inspect(struct step *step, struct operation *operation, const struct job *job)
{
    operation->call = step_call(step, KAFKA_CALL_INSPECT, &job->row.spec, job->row.name)->id;
}

/* What a look at a topic says against going on; both NULL: nothing. */
struct objection {
    char *error; /* it is not allowed */
    char *doubt; /* a broker that is behind, as just after its start, says so, too: look again */
};

static struct objection judge_topic(const struct job *job, const struct operation *operation,
                                    const struct kafka_topic *topic)
{
    uint32_t count = topic->partition_count, before = job->row.partitions;
    struct objection found = {0};
    if (!topic->exists)
        found.doubt = text_printf("a broker says that input \"%s\" does not exist", topic->name);
    else if (count == 0)
        found.doubt =
            text_printf("Kafka did not say how many partitions input \"%s\" has", topic->name);
    else if (count < before)
        found.doubt = text_printf("a broker says that input \"%s\" has %u partitions, and it had "
                                  "%u: the broker is behind, or the topic was deleted and created "
                                  "again",
                                  topic->name, count, before);
    else if (count > operation->row.goal)
        found.error = text_printf("input \"%s\" has %u partitions already, more than the %" PRId64
                                  " that are wanted: all inputs need the same number",
                                  topic->name, count, operation->row.goal);
    return found;
}

/* True: the topics do not allow it, or may not, and it is judged. */
static bool has_objection(struct step *step, struct operation *operation, struct job *job)
{
    const struct kafka_inspection *inspection = &step->event->kafka.inspection;
    struct objection found = {0};
    for (size_t i = 0; i < inspection->inputs.count && found.error == NULL && found.doubt == NULL;
         i++)
        found = judge_topic(job, operation, &inspection->inputs.items[i]);
    bool any = found.error != NULL || found.doubt != NULL;
    if (found.error != NULL)
        fail(step, operation, job, found.error);
    else if (found.doubt != NULL)
        step_retry_operation(step, operation, found.doubt);
    free(found.error);
    free(found.doubt);
    return any;
}

static bool knows_ends(const struct job *job, const struct kafka_inspection *inspection)
{
    bool known = inspection->inputs.count == job->row.spec.inputs.count;
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        const struct kafka_topic *topic = &inspection->inputs.items[i];
        known = known && topic->partitions.count >= job->row.partitions;
        for (size_t p = 0; p < topic->partitions.count; p++)
            known = known && topic->partitions.items[p].log_start >= 0 &&
                    topic->partitions.items[p].end >= 0;
    }
    return known;
}

/* Of the partitions that the job has: what new ones hold is theirs from the start. */
static void record_ends(struct step *step, struct operation *operation, const struct job *job,
                        const struct kafka_inspection *inspection)
{
    struct change change = step_operation_change(operation);
    size_t count = inspection->inputs.count * job->row.partitions, at = 0;
    free(change.operation.ends.items);
    change.operation.ends.items = mem_calloc(count, sizeof(struct input_offset));
    for (uint32_t i = 0; i < inspection->inputs.count; i++)
        for (uint32_t p = 0; p < job->row.partitions; p++)
            change.operation.ends.items[at++] =
                (struct input_offset){i, p, inspection->inputs.items[i].partitions.items[p].end};
    change.operation.ends.count = at;
    change.operation.updated_at = step->event->now_at;
    step_change(step, &change);
    step_enter_operation_step(step, operation, OPERATION_STEP_CREATE_PARTITIONS);
}

static void judge_inspection(struct step *step, struct operation *operation, struct job *job)
{
    const struct kafka_inspection *inspection = &step->event->kafka.inspection;
    if (has_objection(step, operation, job) || refuse_gone(step, job, inspection))
        return;
    if (knows_ends(job, inspection))
        record_ends(step, operation, job, inspection);
    else
        step_retry_operation(step, operation,
                             "Kafka did not say where all partitions begin and end");
}

/* ---- CREATE_PARTITIONS */

static void call_create(struct step *step, struct operation *operation, const struct job *job)
{
    struct kafka_call *call =
        step_call(step, KAFKA_CALL_CREATE_PARTITIONS, &job->row.spec, job->row.name);
    call->partitions = (uint32_t)operation->row.goal;
    operation->call = call->id;
}

static void judge_creation(struct step *step, struct operation *operation, struct job *job)
{
    const struct kafka_inspection *inspection = &step->event->kafka.inspection;
    bool all = inspection->inputs.count == job->row.spec.inputs.count;
    if (has_objection(step, operation, job))
        return;
    for (size_t i = 0; i < inspection->inputs.count; i++)
        all = all && inspection->inputs.items[i].partition_count == operation->row.goal;
    if (all)
        step_enter_operation_step(step, operation, OPERATION_STEP_COMMIT_STARTS);
    else
        step_retry_operation(step, operation, "not all brokers know the new partitions yet");
}

/* ---- COMMIT_STARTS */

static void call_stamps(struct step *step, struct operation *operation, const struct job *job)
{
    struct kafka_call *call = step_call(step, KAFKA_CALL_STAMPS, &job->row.spec, job->row.name);
    call->partitions = (uint32_t)operation->row.goal;
    operation->call = call->id;
}

/* What the group holds of the new partitions, by topic, then partition; NULL where it is nothing.
 * free() */
static const struct kafka_offset **list_held(const struct job *job, uint32_t wanted,
                                             const struct kafka_result *result)
{
    uint32_t before = job->row.partitions, added = wanted - before;
    const struct kafka_offset **held =
        mem_calloc(job->row.spec.inputs.count * added, sizeof(*held));
    for (size_t i = 0; i < result->committed.count; i++) {
        const struct kafka_offset *offset = &result->committed.items[i];
        if (offset->topic < job->row.spec.inputs.count && offset->partition >= before &&
            offset->partition < wanted && offset->offset != API_UNKNOWN)
            held[(size_t)offset->topic * added + offset->partition - before] = offset;
    }
    return held;
}

static bool is_ours(const struct job *job, const struct kafka_offset *held)
{
    struct stamp stamp;
    return held->metadata != NULL && stamp_parse(held->metadata, &stamp) &&
           strcmp(stamp.incarnation, job->row.incarnation) == 0;
}

static void finish(struct step *step, struct operation *operation, struct job *job);

static void call_commit(struct step *step, struct operation *operation, const struct job *job,
                        const struct kafka_offset *const *held)
{
    uint32_t before = job->row.partitions, added = (uint32_t)operation->row.goal - before;
    size_t count = job->row.spec.inputs.count * added;
    struct kafka_call *call = step_call(step, KAFKA_CALL_COMMIT, &job->row.spec, job->row.name);
    call->offsets.items = mem_calloc(count, sizeof(struct kafka_offset));
    for (size_t i = 0; i < count; i++) {
        uint32_t partition = before + (uint32_t)(i % added);
        if (held[i] == NULL)
            call->offsets.items[call->offsets.count++] =
                (struct kafka_offset){.topic = (uint32_t)(i / added),
                                      .partition = partition,
                                      .offset = 0,
                                      .metadata = step_start_stamp(&job->row, partition)};
    }
    operation->call = call->id;
}

/* Nothing of the group's is overwritten that is not this job's. */
static void judge_stamps(struct step *step, struct operation *operation, struct job *job)
{
    uint32_t before = job->row.partitions, added = (uint32_t)operation->row.goal - before;
    size_t count = job->row.spec.inputs.count * added, missing = 0;
    const struct kafka_offset **held =
        list_held(job, (uint32_t)operation->row.goal, &step->event->kafka);
    const struct kafka_offset *foreign = NULL;
    for (size_t i = 0; i < count; i++) {
        missing += held[i] == NULL;
        if (held[i] != NULL && foreign == NULL && !is_ours(job, held[i]))
            foreign = held[i];
    }
    if (foreign != NULL) {
        char *error = text_printf(
            "somebody else has committed offset %" PRId64 " of \"%s\" partition "
            "%u for the job's group: delete it "
            "(kafka-consumer-groups --delete-offsets), and this goes on",
            foreign->offset, job->row.spec.inputs.items[foreign->topic], foreign->partition);
        step_retry_operation(step, operation, error);
        free(error);
    } else if (missing > 0) {
        call_commit(step, operation, job, held);
    } else {
        finish(step, operation, job);
    }
    free(held);
}

/* ---- the end */

/* One that is giving its partitions up finishes that with those that it was told of. */
static const struct processor *find_releasing(const struct job *job)
{
    for (size_t i = 0; i < job->processors.count; i++) {
        const struct handoff *handoff = job->processors.items[i].handoff;
        if (handoff != NULL && handoff->row.state == HANDOFF_STATE_RELEASING)
            return &job->processors.items[i];
    }
    return NULL;
}

static void finish(struct step *step, struct operation *operation, struct job *job)
{
    uint32_t before = job->row.partitions, wanted = (uint32_t)operation->row.goal;
    rows_text_set(&job->topics.adopt_error, NULL);
    if (find_releasing(job) != NULL) {
        step_retry_operation(step, operation, "a hand-over is about to end");
        return;
    }
    step_grow_partitions(step, job, operation);
    step_job_renew_documents(step, job);
    step_event(step,
               (struct event_about){"expansion_done", .job = job->row.name,
                                    .operation = operation->row.id, .actor = ACTOR_COORDINATOR},
               "partitions: %u to %u; settle windows are open", before, wanted);
    step_end_operation(step, operation, OPERATION_STATE_SUCCEEDED, NULL);
    step_topics_due(step, job, step->event->now_ms);
    step->place = true;
}

/* ---- going on */

void step_advance_partitions(struct step *step, struct operation *operation, struct job *job)
{
    if (step->event->now_ms < operation->retry_ms)
        return;
    /* One whose operation was cancelled once its source had been told. Neither the stamps of the
     * starts nor the partitions that it was told of would be right after it. */
    if (job->nascent) {
        step_retry_operation(step, operation, "waits: a processor is being split");
        return;
    }
    switch (operation->row.step) {
    case OPERATION_STEP_SAMPLE:
        call_sample(step, operation, job);
        return;
    case OPERATION_STEP_RECORD_ENDS:
        call_inspect(step, operation, job);
        return;
    case OPERATION_STEP_CREATE_PARTITIONS:
        call_create(step, operation, job);
        return;
    default:
        assert(operation->row.step == OPERATION_STEP_COMMIT_STARTS);
        call_stamps(step, operation, job);
        return;
    }
}

void step_partitions_result(struct step *step, struct operation *operation, struct job *job)
{
    const struct kafka_result *result = &step->event->kafka;
    if (result->failed) {
        step_retry_operation(step, operation,
                             result->detail != NULL ? result->detail : "no detail was given");
        return;
    }
    switch (result->kind) {
    case KAFKA_CALL_SAMPLE:
        judge_sample(step, operation, job);
        return;
    case KAFKA_CALL_INSPECT:
        judge_inspection(step, operation, job);
        return;
    case KAFKA_CALL_CREATE_PARTITIONS:
        judge_creation(step, operation, job);
        return;
    case KAFKA_CALL_STAMPS:
        judge_stamps(step, operation, job);
        return;
    default:
        assert(result->kind == KAFKA_CALL_COMMIT);
        return; /* what is held now is asked next */
    }
}
