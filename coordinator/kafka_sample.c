/*
 * KAFKA_CALL_SAMPLE: by which hash do keys lie in their partitions? Reads the newest records of
 * each partition and counts those that murmur2 (Java's producers) and crc32 (librdkafka's) would
 * have put where they are.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash/key_map.h"
#include "common/mem.h"
#include "coordinator/kafka_private.h"

#define SAMPLE_LIMIT_MS   10000
#define RECORDS_MAX       1000 /* of one partition, with a key */
#define RECORDS_TOTAL_MAX 1000000
#define BYTES_MAX         ((size_t)256 * 1024 * 1024) /* of all records that are read */
#define POLL_SLICE_MS     100
/* Markers of transactions and aborted records take offsets, too: start a little earlier than 1,000.
 */
#define OFFSETS_BACK 2000

struct progress { /* of one partition */
    int64_t end;
    uint32_t keyed;
    bool done;
};

struct sampling {
    const struct kafka_call *call;
    rd_kafka_topic_partition_list_t *list; /* start offsets; sorted by topic and partition */
    struct progress *progress;             /* by index in the list */
    size_t pending;
    size_t records, bytes;
    struct kafka_sample *sample;
};

/* Starts at the newest OFFSETS_BACK offsets of each partition; what is empty is done. */
static enum err_code find_ranges(struct kafka *kafka, int64_t deadline_ms,
                                 struct sampling *sampling, struct err *reterr)
{
    rd_kafka_topic_partition_list_t *list = sampling->list;
    enum err_code code = kafka_ask_edge(kafka, KAFKA_EDGE_STABLE_END, deadline_ms, list, reterr);
    for (int i = 0; i < list->cnt && code == ERR_NONE; i++)
        sampling->progress[i].end = list->elems[i].offset;
    if (code == ERR_NONE)
        code = kafka_ask_edge(kafka, KAFKA_EDGE_LOG_START, deadline_ms, list, reterr);
    for (int i = 0; i < list->cnt && code == ERR_NONE; i++) {
        int64_t end = sampling->progress[i].end;
        if (list->elems[i].offset >= end) {
            sampling->progress[i].done = true;
            continue;
        }
        if (list->elems[i].offset < end - OFFSETS_BACK)
            list->elems[i].offset = end - OFFSETS_BACK;
        sampling->pending++;
    }
    return code;
}

/* A record from before the topic had so many partitions lies in an ancestor of where it would be
 * put now. */
static bool lies_well(uint32_t hash, struct linhash_size size, uint32_t partition)
{
    uint32_t bucket = linhash_bucket(hash, size);

    while (bucket != partition && bucket >= size.initial)
        bucket = linhash_parent(bucket, size.initial);
    return bucket == partition;
}

static void count_record(struct sampling *sampling, const rd_kafka_message_t *message,
                         struct progress *progress)
{
    struct kafka_sample *sample = sampling->sample;
    /* librdkafka's consistent_random takes an empty key for none: where it lies says nothing. */
    if (message->key == NULL || message->key_len == 0) {
        sample->keyless++;
        return;
    }
    struct linhash_size size = {.initial = sampling->call->partitions_initial,
                                .now = sampling->call->partitions};
    uint32_t partition = (uint32_t)message->partition;
    uint32_t by_murmur2 = key_hash(KEY_HASH_MURMUR2, message->key, message->key_len);
    uint32_t by_crc32 = key_hash(KEY_HASH_CRC32, message->key, message->key_len);
    bool murmur2_fits = lies_well(by_murmur2, size, partition);
    bool crc32_fits = lies_well(by_crc32, size, partition);
    sample->keyed++;
    sample->murmur2 += murmur2_fits;
    sample->crc32 += crc32_fits;
    sample->both += murmur2_fits && crc32_fits;
    progress->keyed++;
}

static void finish_partition(struct sampling *sampling, struct progress *progress)
{
    assert(!progress->done);
    progress->done = true;
    sampling->pending--;
}

static int find_index(const struct sampling *sampling, const rd_kafka_message_t *message)
{
    const char *topic = rd_kafka_topic_name(message->rkt);
    for (int i = 0; i < sampling->list->cnt; i++) {
        const rd_kafka_topic_partition_t *item = &sampling->list->elems[i];
        if (item->partition == message->partition && strcmp(item->topic, topic) == 0)
            return i;
    }
    return -1;
}

/* A record, or the end of a partition. Another error is one that librdkafka retries by itself. */
static void see_message(struct sampling *sampling, const rd_kafka_message_t *message)
{
    if (message->rkt == NULL)
        return;
    int index = find_index(sampling, message);
    struct progress *progress = index < 0 ? NULL : &sampling->progress[index];
    if (progress == NULL || progress->done)
        return;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        sampling->records++;
        sampling->bytes += message->len + message->key_len;
        count_record(sampling, message, progress);
        if (progress->keyed == RECORDS_MAX || message->offset + 1 >= progress->end)
            finish_partition(sampling, progress);
    } else if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF ||
               message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET) {
        finish_partition(sampling, progress);
    }
}

static enum err_code create_consumer(struct kafka *kafka, rd_kafka_t **ret_consumer,
                                     struct err *reterr)
{
    static const struct kafka_property properties[] = {
        {"isolation.level", "read_committed"},
        {"allow.auto.create.topics", "false"},
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", "error"},
        /* Never joined nor committed to: assign() wants a name, that is all. */
        {"group.id", "baton-coordinator"},
        /* The sample is small; do not fetch the rest of the topic behind it. */
        {"queued.min.messages", "1000"},
        {"queued.max.messages.kbytes", "16384"},
    };
    enum err_code code =
        kafka_client_create(kafka, kafka->options, RD_KAFKA_CONSUMER, properties,
                            sizeof(properties) / sizeof(properties[0]), ret_consumer, reterr);
    if (code == ERR_NONE)
        rd_kafka_poll_set_consumer(*ret_consumer);
    return code;
}

static enum err_code read_records(struct kafka *kafka, struct sampling *sampling,
                                  int64_t deadline_ms, struct err *reterr)
{
    rd_kafka_t *consumer = NULL;
    enum err_code code = create_consumer(kafka, &consumer, reterr);
    if (code != ERR_NONE)
        return code;
    rd_kafka_topic_partition_list_t *assigned = rd_kafka_topic_partition_list_new(16);
    for (int i = 0; i < sampling->list->cnt; i++) {
        const rd_kafka_topic_partition_t *item = &sampling->list->elems[i];
        if (!sampling->progress[i].done)
            rd_kafka_topic_partition_list_add(assigned, item->topic, item->partition)->offset =
                item->offset;
    }
    rd_kafka_resp_err_t refused = rd_kafka_assign(consumer, assigned);
    rd_kafka_topic_partition_list_destroy(assigned);
    if (refused != RD_KAFKA_RESP_ERR_NO_ERROR)
        code = kafka_fail(reterr, refused, "reading samples");
    while (code == ERR_NONE && sampling->pending > 0 && !kafka_stopping(kafka) &&
           clock_mono_ms() < deadline_ms && sampling->records < RECORDS_TOTAL_MAX &&
           sampling->bytes < BYTES_MAX) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, POLL_SLICE_MS);
        if (message == NULL)
            continue;
        see_message(sampling, message);
        rd_kafka_message_destroy(message);
    }
    rd_kafka_destroy(consumer);
    return code;
}

/*
 * The time limit may end it before every partition was read: what was counted is still true, and
 * when nothing was counted although there were records, the call has failed.
 */
static enum err_code sample(struct kafka *kafka, struct sampling *sampling, struct err *reterr)
{
    int64_t deadline_ms = clock_mono_ms() + SAMPLE_LIMIT_MS;
    enum err_code code = find_ranges(kafka, deadline_ms, sampling, reterr);
    if (code == ERR_NONE && sampling->pending > 0)
        code = read_records(kafka, sampling, deadline_ms, reterr);
    if (code == ERR_NONE && sampling->pending > 0 && sampling->records == 0)
        code = kafka_fail(reterr, RD_KAFKA_RESP_ERR__TIMED_OUT, "reading samples");
    return code;
}

void kafka_sample(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result)
{
    struct sampling sampling = {.call = call, .sample = &result->sample};
    struct err err;
    assert(call->partitions_initial >= 1 && call->partitions >= call->partitions_initial);
    sampling.list = rd_kafka_topic_partition_list_new(16);
    for (size_t i = 0; i < call->inputs.count; i++) {
        for (uint32_t p = 0; p < call->partitions; p++)
            rd_kafka_topic_partition_list_add(sampling.list, call->inputs.items[i], (int32_t)p);
    }
    sampling.progress = mem_calloc((size_t)sampling.list->cnt, sizeof(*sampling.progress));
    if (sample(kafka, &sampling, &err) != ERR_NONE)
        kafka_result_fail(result, &err);
    rd_kafka_topic_partition_list_destroy(sampling.list);
    free(sampling.progress);
}
