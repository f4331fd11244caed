/* The hot path: fetched records through the logic, up to the core's limits. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/task_private.h"
#include "common/clock.h"
#include "common/hash/key_map.h"
#include "common/logger.h"
#include "common/mem.h"

#define LANE_RECORDS_MAX 512 /* of one partition before the next gets its turn */
/* Then the task looks up: commits are due, someone wants to stop it. Logic may be slow, partitions
 * many. */
#define ROUND_MS_MAX    20
#define SEND_TIMEOUT_MS 10000

uint64_t task_read_fingerprint(const rd_kafka_message_t *message)
{
    rd_kafka_timestamp_type_t type;

    return store_fingerprint(message->key, message->key_len, message->payload, message->len,
                             rd_kafka_message_timestamp(message, &type));
}

static void take_headers(struct task_thread *thread, const rd_kafka_message_t *message,
                         struct baton_record *record)
{
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t bytes;

    if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return; /* it has none */
    for (size_t i = 0;
         rd_kafka_header_get_all(headers, i, &name, &value, &bytes) == RD_KAFKA_RESP_ERR_NO_ERROR;
         i++) {
        thread->headers =
            mem_grow(thread->headers, i, &thread->headers_capacity, sizeof(*thread->headers));
        thread->headers[i] = (struct baton_header){.name = name, .value = {value, bytes}};
        record->header_count = i + 1;
    }
    record->headers = thread->headers;
}

static void take_record(struct task_thread *thread, size_t index, const rd_kafka_message_t *message,
                        struct baton_record *ret_record)
{
    const struct task_partition *partition = &thread->core.partitions[index];
    rd_kafka_timestamp_type_t type;

    *ret_record = (struct baton_record){
        .topic = thread->job.spec.inputs.items[partition->topic],
        .partition = message->partition,
        .offset = message->offset,
        .timestamp_ms = rd_kafka_message_timestamp(message, &type),
        .key = {message->key, message->key_len},
        .value = {message->payload, message->len},
    };
    take_headers(thread, message, ret_record);
}

static void emit(void *arg, const struct baton_record *record, const struct baton_output *output)
{
    struct task_thread *thread = arg;

    if (thread->sink_code != ERR_NONE)
        return; /* the first failure decides; the whole transaction is given up */
    thread->sink_code = producer_send(thread->producer, PRODUCER_TOPIC_OUTPUT, record, output,
                                      SEND_TIMEOUT_MS, &thread->sink_err);
    if (thread->sink_code == ERR_NONE)
        thread->counters.outputs++;
    else
        (void)err_prefix(&thread->sink_err, "%s partition %" PRId32 " offset %" PRId64,
                         record->topic, record->partition, record->offset);
}

static bool report_sink(struct task_thread *thread)
{
    if (thread->sink_code == ERR_NONE)
        return true;
    task_act_producer_error(thread, TASK_EVENT_OUTPUT_FAILED, &thread->sink_err);
    thread->sink_code = ERR_NONE;
    return false;
}

static bool refuse(struct task_thread *thread, size_t index, int64_t offset, const char *code,
                   const char *detail)
{
    struct task_event *event = task_thread_event(thread, TASK_EVENT_RECORD_REFUSED, code, detail);

    event->index = index;
    event->offset = offset;
    return false;
}

/*
 * A record whose logic returned an error. Before T1 (silent) the same error was met and passed when
 * it was live, whatever the policy is now: it is passed again.
 */
static bool pass_error(struct task_thread *thread, size_t index, const struct baton_record *record,
                       bool silent, const char *code, const char *detail)
{
    if (silent)
        return true;
    switch (thread->job.spec.on_error) {
    case ON_ERROR_SKIP:
        thread->counters.skipped_error++;
        return true;
    case ON_ERROR_DEAD_LETTER:
        thread->sink_code = producer_send_dead(thread->producer, record, detail, SEND_TIMEOUT_MS,
                                               &thread->sink_err);
        if (!report_sink(thread))
            return false;
        thread->counters.dead_lettered++;
        return true;
    case ON_ERROR_HALT:
        break;
    }
    return refuse(thread, index, record->offset, code, detail);
}

static bool pass_keyless(struct task_thread *thread, size_t index, int64_t offset, bool silent)
{
    if (!silent && thread->job.spec.null_key == NULL_KEY_HALT)
        return refuse(thread, index, offset, "null_key_halt", "the record has no key");
    if (!silent)
        thread->counters.skipped_null_key++;
    return true;
}

/* The partition's, with this record (D8). */
static int64_t record_time(const struct store_position *lineage, const struct baton_record *record)
{
    return record->timestamp_ms > lineage->record_time_ms ? record->timestamp_ms
                                                          : lineage->record_time_ms;
}

/* False: an event is queued that says why the record was not applied. */
static bool apply(struct task_thread *thread, size_t index, const struct baton_record *record,
                  bool silent)
{
    const struct logic_sink sink = {.emit = emit, .arg = thread};
    struct store_position *lineage = &thread->lineage[index];
    struct logic_place place = {
        .root = lineage->root,
        .record_time_ms = record_time(lineage, record),
        .state_ttl_ms = thread->job.spec.state_ttl_ms,
    };
    enum err_code code;
    struct err err;

    if (record->key.data == NULL)
        return pass_keyless(thread, index, record->offset, silent);
    if (task_crash_refuses(thread, index, record->offset, silent))
        return false;
    crash_enter(thread->crashes,
                (struct crash_place){lineage->topic, lineage->partition, record->offset});
    code = logic_apply(thread->logic, thread->store, place, record, silent ? NULL : &sink, &err);
    crash_leave();
    switch (code) {
    case ERR_NONE:
        if (!report_sink(thread))
            return false;
        break;
    case ERR_LOGIC:
        if (!pass_error(thread, index, record, silent, "record_failed", err.text))
            return false;
        break;
    case ERR_CORRUPT:
        (void)task_thread_event(thread, TASK_EVENT_STORE_CORRUPT, NULL, err.text);
        return false;
    default:
        (void)task_thread_event(thread, TASK_EVENT_STORE_FAILED, "store_failed", err.text);
        return false;
    }
    lineage->record_time_ms = place.record_time_ms;
    return true;
}

#define NO_PLACE UINT32_MAX

/* The partition that the record's key belongs to by the present number of partitions; NO_PLACE: the
 * topic was never expanded, or nobody can tell. */
static uint32_t place_key(const struct task_thread *thread, const struct baton_record *record)
{
    struct key_map map;

    if (thread->job.partitions == thread->job.partitions_initial || record->key.data == NULL ||
        !task_told_map(&thread->job, thread->job.processors, &map))
        return NO_PLACE;
    if (!key_has_place(map.hash, record->key.bytes))
        return NO_PLACE;
    return key_partition(&map, record->key.data, record->key.bytes);
}

/* The record lies where its key was put before there were so many partitions: its producer did not
 * know. What was written before there were is not meant. */
static bool is_old_count(const struct task_thread *thread, size_t index, uint32_t place,
                         int64_t offset)
{
    const struct task_partition *partition = &thread->core.partitions[index];

    return place != NO_PLACE && place != partition->partition && partition->window.told &&
           offset >= partition->window.end;
}

/* Where there is no place nobody can tell: what was inherited is its owner's then, without a key.
 */
static enum task_verdict judge_key(const struct task_thread *thread, size_t index, uint32_t place,
                                   int64_t offset)
{
    struct key_map map;

    if (place != NO_PLACE && task_told_map(&thread->job, thread->job.processors, &map))
        return task_judge_key(&thread->core, index, &map, place, offset);
    return task_is_inherited(&thread->core.partitions[index]) ? TASK_VERDICT_PASS
                                                              : TASK_VERDICT_APPLY;
}

/*
 * Whose key it is depends on who reads it, and when: a parent has applied what it passes after the
 * split, and its child passes what the parent applies. So the partition's time goes by it as if it
 * were applied, or rows would die at different records for different readers.
 */
static void meet_other_key(struct task_thread *thread, size_t index,
                           const struct baton_record *record)
{
    if (record->key.data != NULL) /* apply() leaves out those without one */
        thread->lineage[index].record_time_ms = record_time(&thread->lineage[index], record);
}

static bool pass_misrouted(struct task_thread *thread, size_t index,
                           const struct baton_record *record, uint32_t place, bool silent)
{
    char text[128];

    (void)snprintf(text, sizeof(text),
                   "its key belongs to partition %" PRIu32 ", which another processor has", place);
    return pass_error(thread, index, record, silent, "misrouted", text);
}

static void meet_old(struct task_thread *thread, size_t index, bool silent, int64_t now_ms)
{
    if (silent)
        task_meet_old_again(&thread->core, index);
    else if (task_meet_old(&thread->core, index, now_ms, clock_wall_ms()))
        thread->report_due_ms = 0; /* the window was closed, and others rely on that */
}

/* A record that is due. False: it was not applied and stays. */
static bool work_record(struct task_thread *thread, size_t index, const struct consumer_item *item,
                        int64_t now_ms)
{
    struct baton_record record;
    bool silent = !task_may_output(&thread->core), passed = true;
    bool skipped = task_is_skipped(&thread->core, index, item->offset);
    enum task_verdict verdict;
    uint32_t place;

    task_progress(&thread->core, index, item->offset, now_ms); /* a gap before it is behind us */
    take_record(thread, index, item->message, &record);
    place = place_key(thread, &record);
    verdict = judge_key(thread, index, place, item->offset);
    if (skipped)
        thread->counters.skipped_asked += !silent;
    else if (verdict == TASK_VERDICT_MISROUTED)
        passed = pass_misrouted(thread, index, &record, place, silent);
    else if (verdict == TASK_VERDICT_APPLY && !apply(thread, index, &record, silent))
        return false;
    if (!passed)
        return false;
    if (verdict != TASK_VERDICT_APPLY && !skipped)
        meet_other_key(thread, index, &record);
    thread->lineage[index].last_offset = item->offset;
    thread->lineage[index].last_fingerprint = task_read_fingerprint(item->message);
    if (silent)
        thread->counters.replayed++;
    else
        thread->counters.records++;
    task_progress(&thread->core, index, item->offset + 1, now_ms);
    task_count_record(&thread->core, index);
    if (is_old_count(thread, index, place, item->offset))
        meet_old(thread, index, silent, now_ms);
    return true;
}

/* What is at or past the limit is held, and everything before it is known to be done: T2 moves on
 * positions (D3.3). */
static bool is_held(struct task_thread *thread, size_t index, const struct consumer_item *item,
                    int64_t now_ms)
{
    int64_t needed = item->kind == CONSUMER_END ? item->offset : item->offset + 1;
    int64_t limit = task_limit(&thread->core, index);

    if (needed <= limit)
        return false;
    thread->order_held = thread->order_held || task_awaits_order(&thread->core, index);
    task_progress(&thread->core, index, limit, now_ms);
    return true;
}

void task_read_note(struct task_thread *thread, size_t index, const char *detail)
{
    if (thread->failing[index] == NULL && detail == NULL)
        return;
    free(thread->failing[index]);
    thread->failing[index] = detail == NULL ? NULL : mem_strdup(detail);
    if (detail != NULL)
        log_warn("partition_error", LOG_STR("job", thread->job.name),
                 LOG_INT("processor", thread->desired.processor),
                 LOG_INT("partition", thread->core.partitions[index].partition),
                 LOG_STR("error", detail), LOG_END);
}

/* The partition can not be read on from where it is. What is open is given up: when the task opens
 * anew, it compares ranges and fingerprints first. */
static bool lose(struct task_thread *thread, size_t index, const char *code, const char *detail)
{
    task_thread_event(thread, TASK_EVENT_POSITION_LOST, code, detail)->index = index;
    consumer_pop(thread->consumer, index);
    return false;
}

/* One item; false: nothing more to do on this partition in this round. */
static bool work_item(struct task_thread *thread, size_t index, int64_t now_ms)
{
    int64_t position = thread->core.partitions[index].position;
    struct consumer_item item;

    consumer_peek(thread->consumer, index, &item);
    switch (item.kind) {
    case CONSUMER_NOTHING:
        return false;
    case CONSUMER_FAILED:
        task_read_note(thread, index, item.detail);
        break;
    case CONSUMER_LOST:
        return lose(thread, index, "history_lost", item.detail);
    case CONSUMER_MISSING:
        return lose(thread, index, "topic_missing", item.detail);
    case CONSUMER_END:
        task_read_note(thread, index, NULL);
        if (item.offset > position) {
            if (is_held(thread, index, &item, now_ms))
                return false;
            task_progress(&thread->core, index, item.offset, now_ms);
        }
        break;
    case CONSUMER_RECORD:
        task_read_note(thread, index, NULL);
        if (item.offset >= position) {
            if (is_held(thread, index, &item, now_ms) || !work_record(thread, index, &item, now_ms))
                return false;
        }
        break;
    }
    consumer_pop(thread->consumer, index);
    return true;
}

/* What is fetched of one partition, up to a number and a time; true when anything was done. */
static bool work_lane(struct task_thread *thread, size_t index, int64_t until_ms)
{
    bool worked = false;

    if (task_is_inherited_whole(&thread->core.partitions[index]))
        return false; /* whatever has been fetched of it, or can not be */
    for (size_t n = 0; n < LANE_RECORDS_MAX; n++) {
        int64_t now_ms = clock_mono_ms();

        if (now_ms >= until_ms || !work_item(thread, index, now_ms))
            break;
        worked = true;
    }
    return worked;
}

bool task_read_round(struct task_thread *thread)
{
    size_t count = thread->core.partition_count;
    int64_t until_ms = clock_mono_ms() + ROUND_MS_MAX;
    bool worked = false;
    size_t done = 0;

    thread->order_held = false;
    while (done < count && thread->event_count == 0 && clock_mono_ms() < until_ms) {
        worked |= work_lane(thread, (thread->read_next + done++) % count, until_ms);
        if (thread->store != NULL && store_is_full(thread->store)) {
            (void)task_thread_event(thread, TASK_EVENT_FULL, NULL, NULL);
            break;
        }
    }
    thread->read_next = (thread->read_next + done) % count; /* whoever had no turn is the first */
    return worked;
}
