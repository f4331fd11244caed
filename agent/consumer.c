#include "agent/consumer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kafka_conf.h"
#include "common/clock.h"
#include "common/mem.h"

#define BATCH_MESSAGES     512
#define REFRESH_TIMEOUT_MS 1000

/* What was taken out of one partition's queue and not yet worked on. */
struct lane {
    rd_kafka_queue_t *queue;
    rd_kafka_message_t *messages[BATCH_MESSAGES];
    size_t next, count;
};

struct consumer {
    struct consumer_config config;
    char **topics; /* copies */
    rd_kafka_t *client;
    rd_kafka_queue_t *main_queue;
    struct lane *lanes; /* one a partition */
    bool brokers_down;  /* written by the error callback, which runs inside consumer_poll */
};

static const char *topic_of(const struct consumer *consumer, size_t index)
{
    return consumer->topics[consumer->config.partitions[index].topic];
}

static int32_t partition_of(const struct consumer *consumer, size_t index)
{
    return (int32_t)consumer->config.partitions[index].partition;
}

static void on_error(rd_kafka_t *client, int error, const char *reason, void *opaque)
{
    struct consumer *consumer = opaque;

    (void)client;
    (void)reason; /* the client logs it as well */
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        consumer->brokers_down = true;
}

static void on_queue(rd_kafka_t *client, void *opaque)
{
    struct consumer *consumer = opaque;

    (void)client;
    consumer->config.wake(consumer->config.wake_arg);
}

static enum err_code create_client(struct consumer *consumer, struct err *reterr)
{
    const struct kafka_conf_item items[] = {
        {"client.id", consumer->config.client_id, false, false},
        /* More than a second of records: librdkafka 2.0.2 sleeps a second when the queue is full
           (D9). */
        {"queued.min.messages", "1000000", false, false},
        {"queued.max.messages.kbytes", "65536", false, false},
        {"fetch.queue.backoff.ms", "10", true, false},
        {"fetch.wait.max.ms", "100", false, false},
        {"fetch.error.backoff.ms", "100", false, false},
        {"socket.timeout.ms", "10000", false, false},
        {"group.id", consumer->config.group_id, false, true},
        {"enable.auto.commit", "false", false, true},
        {"enable.auto.offset.store", "false", false, true},
        {"auto.offset.reset", "error", false, true},
        {"enable.partition.eof", "true", false, true},
        {"allow.auto.create.topics", "false", false, true},
        {"check.crcs", "true", false, true},
        {"isolation.level", "read_committed", false, true},
    };
    rd_kafka_conf_t *conf;
    enum err_code code = kafka_conf_create(items, sizeof(items) / sizeof(items[0]),
                                           consumer->config.kafka, &conf, reterr);

    if (code != ERR_NONE)
        return code;
    rd_kafka_conf_set_opaque(conf, consumer);
    rd_kafka_conf_set_error_cb(conf, on_error);
    return kafka_conf_client(RD_KAFKA_CONSUMER, conf, &consumer->client, reterr);
}

static void open_lane(struct consumer *consumer, size_t index)
{
    struct lane *lane = &consumer->lanes[index];

    lane->queue = rd_kafka_queue_get_partition(consumer->client, topic_of(consumer, index),
                                               partition_of(consumer, index));
    assert(lane->queue != NULL);
    rd_kafka_queue_forward(lane->queue, NULL);
    if (consumer->config.wake != NULL)
        rd_kafka_queue_cb_event_enable(lane->queue, on_queue, consumer);
}

static void free_topics(struct consumer *consumer)
{
    for (size_t i = 0; i < consumer->config.topic_count; i++)
        free(consumer->topics[i]);
    free(consumer->topics);
}

enum err_code consumer_create(const struct consumer_config *config, struct consumer **ret_consumer,
                              struct err *reterr)
{
    struct consumer *consumer = mem_calloc(1, sizeof(*consumer));
    enum err_code code;

    consumer->config = *config;
    consumer->topics = mem_calloc(config->topic_count, sizeof(*consumer->topics));
    for (size_t i = 0; i < config->topic_count; i++)
        consumer->topics[i] = mem_strdup(config->topics[i]);
    code = create_client(consumer, reterr);
    if (code != ERR_NONE) {
        free_topics(consumer);
        free(consumer);
        return code;
    }
    rd_kafka_poll_set_consumer(consumer->client);
    consumer->main_queue = rd_kafka_queue_get_consumer(consumer->client);
    consumer->lanes = mem_calloc(config->partition_count, sizeof(*consumer->lanes));
    for (size_t i = 0; i < config->partition_count; i++)
        open_lane(consumer, i);
    *ret_consumer = consumer;
    return ERR_NONE;
}

static void drop_lane(struct lane *lane)
{
    for (; lane->next < lane->count; lane->next++)
        rd_kafka_message_destroy(lane->messages[lane->next]);
    lane->next = lane->count = 0;
}

static bool fill_lane(struct lane *lane)
{
    ssize_t count = rd_kafka_consume_batch_queue(lane->queue, 0, lane->messages, BATCH_MESSAGES);

    lane->next = 0;
    lane->count = count > 0 ? (size_t)count : 0;
    return lane->count > 0;
}

void consumer_destroy(struct consumer *consumer)
{
    if (consumer == NULL)
        return;
    for (size_t i = 0; i < consumer->config.partition_count; i++) {
        rd_kafka_queue_cb_event_enable(consumer->lanes[i].queue, NULL, NULL);
        drop_lane(&consumer->lanes[i]);
    }
    consumer_unassign(consumer);
    for (size_t i = 0; i < consumer->config.partition_count; i++)
        rd_kafka_queue_destroy(consumer->lanes[i].queue);
    rd_kafka_queue_destroy(consumer->main_queue);
    rd_kafka_destroy(consumer->client);
    free_topics(consumer);
    free(consumer->lanes);
    free(consumer);
}

/*
 * Unassigning raises each partition's version inside librdkafka before the call returns, so
 * whatever is still queued or comes in late is thrown away by the client when it is popped: reading
 * the lanes empty afterwards gives nothing old.
 */
void consumer_unassign(struct consumer *consumer)
{
    (void)rd_kafka_assign(consumer->client, NULL); /* nothing assigned is not an error */
    for (size_t i = 0; i < consumer->config.partition_count; i++) {
        do
            drop_lane(&consumer->lanes[i]);
        while (fill_lane(&consumer->lanes[i]));
    }
}

static rd_kafka_topic_partition_list_t *make_list(const struct consumer *consumer)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)consumer->config.partition_count);

    return list;
}

enum err_code consumer_assign(struct consumer *consumer, const int64_t *offsets, struct err *reterr)
{
    rd_kafka_topic_partition_list_t *list = make_list(consumer);
    rd_kafka_resp_err_t error;

    consumer_unassign(consumer);
    for (size_t i = 0; i < consumer->config.partition_count; i++) {
        rd_kafka_topic_partition_list_add(list, topic_of(consumer, i), partition_of(consumer, i))
            ->offset = offsets[i];
    }
    error = rd_kafka_assign(consumer->client, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_KAFKA, "assigning partitions: %s", rd_kafka_err2str(error));
    return ERR_NONE;
}

void consumer_peek(struct consumer *consumer, size_t index, struct consumer_item *ret_item)
{
    struct lane *lane = &consumer->lanes[index];
    rd_kafka_message_t *message;

    *ret_item = (struct consumer_item){.kind = CONSUMER_NOTHING, .offset = API_UNKNOWN};
    if (lane->next == lane->count && !fill_lane(lane))
        return;
    message = lane->messages[lane->next];
    ret_item->message = message;
    ret_item->offset = message->offset;
    ret_item->detail =
        message->err == RD_KAFKA_RESP_ERR_NO_ERROR ? NULL : rd_kafka_message_errstr(message);
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        ret_item->kind = CONSUMER_RECORD;
    else if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        ret_item->kind = CONSUMER_END;
    else if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
             message->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
        ret_item->kind = CONSUMER_LOST;
    else
        ret_item->kind = CONSUMER_FAILED;
}

void consumer_pop(struct consumer *consumer, size_t index)
{
    struct lane *lane = &consumer->lanes[index];

    assert(lane->next < lane->count);
    rd_kafka_message_destroy(lane->messages[lane->next++]);
}

bool consumer_poll(struct consumer *consumer)
{
    rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer->client, 0);

    /* All partitions have queues of their own: only errors of the client come here, and it logs
     * them. */
    if (message != NULL)
        rd_kafka_message_destroy(message);
    return consumer->brokers_down;
}

rd_kafka_t *consumer_handle(struct consumer *consumer)
{
    return consumer->client;
}

/*
 * librdkafka remembers that a partition had no leader (a broker that was away for a moment) and
 * answers from that memory, without asking again, until its next refresh minutes later. So after a
 * failure it is made to ask.
 */
static void refresh_leaders(const struct consumer *shape, rd_kafka_t *client, int timeout_ms)
{
    for (size_t i = 0; i < shape->config.topic_count; i++) {
        rd_kafka_topic_t *topic = rd_kafka_topic_new(client, shape->topics[i], NULL);
        const struct rd_kafka_metadata *metadata;

        if (topic == NULL)
            continue;
        if (rd_kafka_metadata(client, 0, topic, &metadata, timeout_ms) ==
            RD_KAFKA_RESP_ERR_NO_ERROR)
            rd_kafka_metadata_destroy(metadata); /* the client has taken note of it */
        rd_kafka_topic_destroy(topic);
    }
}

/* ListOffsets for all partitions in one request a broker: -1 asks for the end, -2 for the start. */
static enum err_code list_offsets(const struct consumer *shape, rd_kafka_t *client, int64_t time,
                                  int timeout_ms, int64_t *ret_offsets, struct err *reterr)
{
    rd_kafka_topic_partition_list_t *list = make_list(shape);
    rd_kafka_resp_err_t error;

    for (size_t i = 0; i < shape->config.partition_count; i++) {
        rd_kafka_topic_partition_list_add(list, topic_of(shape, i), partition_of(shape, i))
            ->offset = time;
    }
    error = rd_kafka_offsets_for_times(client, list, timeout_ms);
    for (int i = 0; i < list->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        ret_offsets[i] = list->elems[i].offset;
        error = list->elems[i].err;
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR && ret_offsets[i] < 0)
            error = RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE;
    }
    rd_kafka_topic_partition_list_destroy(list);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        refresh_leaders(shape, client, REFRESH_TIMEOUT_MS);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_UNAVAILABLE, "asking for log start and end: %s",
                       rd_kafka_err2str(error));
    return ERR_NONE;
}

enum err_code consumer_ranges(struct consumer *consumer, rd_kafka_t *observer, int timeout_ms,
                              struct task_range *ret_ranges, struct err *reterr)
{
    size_t count = consumer->config.partition_count;
    int64_t *offsets = mem_calloc(count, 3 * sizeof(*offsets));
    rd_kafka_t *unstable = observer == NULL ? consumer->client : observer;
    enum err_code code;

    code = list_offsets(consumer, consumer->client, -2, timeout_ms, offsets, reterr);
    if (code == ERR_NONE)
        code = list_offsets(consumer, consumer->client, -1, timeout_ms, offsets + count, reterr);
    if (code == ERR_NONE)
        code = list_offsets(consumer, unstable, -1, timeout_ms, offsets + 2 * count, reterr);
    if (code == ERR_NONE)
        consumer->brokers_down = false;
    for (size_t i = 0; i < count; i++) {
        struct task_range known = {offsets[i], offsets[count + i], offsets[2 * count + i]};
        struct task_range unknown = {API_UNKNOWN, API_UNKNOWN, API_UNKNOWN};

        ret_ranges[i] = code == ERR_NONE ? known : unknown;
    }
    free(offsets);
    return code;
}

static void take_committed(const rd_kafka_topic_partition_t *from, struct task_committed *ret)
{
    char *metadata = mem_calloc(from->metadata_size + 1, 1);

    if (from->metadata_size > 0)
        memcpy(metadata, from->metadata, from->metadata_size);
    ret->offset = from->offset < 0 ? API_UNKNOWN : from->offset;
    ret->stamped = stamp_parse(metadata, &ret->stamp);
    free(metadata);
}

enum err_code consumer_committed(struct consumer *consumer, int timeout_ms,
                                 struct task_committed *ret_committed, struct err *reterr)
{
    rd_kafka_topic_partition_list_t *list = make_list(consumer);
    const struct task_partition *partitions = consumer->config.partitions;
    rd_kafka_resp_err_t error;

    for (size_t i = 0; i < consumer->config.partition_count; i++) {
        if (partitions[i].owned)
            (void)rd_kafka_topic_partition_list_add(list, topic_of(consumer, i),
                                                    partition_of(consumer, i));
    }
    error = rd_kafka_committed(consumer->client, list, timeout_ms);
    for (int i = 0; i < list->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        error = list->elems[i].err;
    for (size_t i = 0, k = 0; i < consumer->config.partition_count; i++) {
        if (partitions[i].owned && error == RD_KAFKA_RESP_ERR_NO_ERROR)
            take_committed(&list->elems[k++], &ret_committed[i]);
    }
    rd_kafka_topic_partition_list_destroy(list);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_UNAVAILABLE, "reading committed offsets: %s",
                       rd_kafka_err2str(error));
    return ERR_NONE;
}

rd_kafka_topic_partition_list_t *consumer_commit_list(const struct consumer *consumer,
                                                      const char *metadata)
{
    rd_kafka_topic_partition_list_t *list = make_list(consumer);
    const struct task_partition *partitions = consumer->config.partitions;

    for (size_t i = 0; i < consumer->config.partition_count; i++) {
        rd_kafka_topic_partition_t *element;

        if (partitions[i].committing == API_UNKNOWN)
            continue;
        element = rd_kafka_topic_partition_list_add(list, topic_of(consumer, i),
                                                    partition_of(consumer, i));
        element->offset = partitions[i].committing;
        element->metadata_size = strlen(metadata);
        /* librdkafka frees it with the list, by its own allocator's free: rd_kafka_mem_free is
         * free(3). */
        element->metadata = mem_strdup(metadata);
    }
    return list;
}

enum err_code consumer_commit(struct consumer *consumer, const char *metadata, struct err *reterr)
{
    rd_kafka_topic_partition_list_t *list = consumer_commit_list(consumer, metadata);
    rd_kafka_resp_err_t error = rd_kafka_commit(consumer->client, list, 0);

    for (int i = 0; i < list->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        error = list->elems[i].err;
    rd_kafka_topic_partition_list_destroy(list);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_KAFKA, "committing offsets: %s", rd_kafka_err2str(error));
    return ERR_NONE;
}

enum err_code consumer_observer_create(const struct opts_kafka *kafka, const char *client_id,
                                       rd_kafka_t **ret_observer, struct err *reterr)
{
    const struct kafka_conf_item items[] = {
        {"client.id", client_id, false, false},
        {"socket.timeout.ms", "10000", false, false},
        {"isolation.level", "read_uncommitted", false, true},
        {"allow.auto.create.topics", "false", false, true},
    };
    rd_kafka_conf_t *conf;
    enum err_code code =
        kafka_conf_create(items, sizeof(items) / sizeof(items[0]), kafka, &conf, reterr);

    return code != ERR_NONE ? code
                            : kafka_conf_client(RD_KAFKA_CONSUMER, conf, ret_observer, reterr);
}
