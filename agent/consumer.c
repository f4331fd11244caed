#include "agent/consumer_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kafka_conf.h"
#include "common/mem.h"

/* librdkafka before 2.2 looks only once a second whether a queue that was full has room again. */
#define FIXED_BACKOFF_VERSION 0x020200ff

const char *consumer_topic_of(const struct consumer *consumer, size_t index)
{
    return consumer->topics[consumer->config.partitions[index].topic];
}

int32_t consumer_partition_of(const struct consumer *consumer, size_t index)
{
    return (int32_t)consumer->config.partitions[index].partition;
}

static enum consumer_item_kind kind_of(rd_kafka_resp_err_t error)
{
    switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        return CONSUMER_RECORD;
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
        return CONSUMER_END;
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
        return CONSUMER_LOST;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        return CONSUMER_MISSING;
    default:
        return CONSUMER_FAILED;
    }
}

static bool is_of_the_line(int error)
{
    return error == RD_KAFKA_RESP_ERR__TRANSPORT || error == RD_KAFKA_RESP_ERR__AUTHENTICATION ||
           error == RD_KAFKA_RESP_ERR__SSL || error == RD_KAFKA_RESP_ERR__RESOLVE;
}

/*
 * What librdkafka learns of a topic (deleted, access revoked) it puts into the queues of its
 * partitions as errors of the client: reading the queue calls this instead of returning a message.
 */
static void on_error(rd_kafka_t *client, int error, const char *reason, void *opaque)
{
    struct consumer *consumer = opaque;
    struct lane *lane = consumer->filling;

    (void)client;
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        consumer->brokers_down = true;
    } else if (is_of_the_line(error)) {
        (void)snprintf(consumer->down_reason, sizeof(consumer->down_reason), "%s", reason);
    } else if (lane != NULL) {
        lane->trouble = kind_of((rd_kafka_resp_err_t)error);
        (void)snprintf(lane->detail, sizeof(lane->detail), "%s", reason);
    }
}

static void on_queue(rd_kafka_t *client, void *opaque)
{
    struct consumer *consumer = opaque;

    (void)client;
    consumer->config.wake(consumer->config.wake_arg);
}

static int64_t share_of(int64_t total, size_t partition_count, int64_t least, int64_t most)
{
    int64_t share = total / (int64_t)partition_count;

    return share < least ? least : share > most ? most : share;
}

/*
 * All queues of a task together must hold what is processed while nothing is fetched: a second with
 * librdkafka before 2.2 (D9), else the duration of a commit. Measured at 400,000 records/s; a
 * message takes 350 bytes there beside its value.
 */
struct consumer_limits consumer_limits(size_t partition_count)
{
    bool slow = rd_kafka_version() < FIXED_BACKOFF_VERSION;
    int64_t messages = slow ? 400000 : 200000;
    int64_t kbytes = slow ? 131072 : 65536;

    return (struct consumer_limits){
        .messages = share_of(messages, partition_count, 500, messages),
        .kbytes = share_of(kbytes, partition_count, 64, kbytes),
        /* One more answer may come when a queue is all but full. A larger record comes alone. */
        .fetch_bytes = share_of(kbytes * 1024, partition_count, 262144, 1048576),
    };
}

static enum err_code create_client(struct consumer *consumer, const char *isolation_level,
                                   rd_kafka_t **ret_client, struct err *reterr)
{
    struct consumer_limits limits = consumer_limits(consumer->config.partition_count);
    char messages[24], kbytes[24], fetch_bytes[24];
    const struct kafka_conf_item items[] = {
        {"client.id", consumer->config.client_id, false, false},
        {"queued.min.messages", messages, false, false},
        {"queued.max.messages.kbytes", kbytes, false, false},
        {"fetch.message.max.bytes", fetch_bytes, false, false},
        {"fetch.queue.backoff.ms", "10", true, false},
        {"fetch.wait.max.ms", "100", false, false},
        {"fetch.error.backoff.ms", "100", false, false},
        {"socket.timeout.ms", "10000", false, false},
        /* The topics were there when the job was created: one that is not found is gone. */
        {"topic.metadata.propagation.max.ms", "2000", false, false},
        {"group.id", consumer->config.group_id, false, true},
        /* The newer protocol has no offset commits by those who are no members. */
        {"group.protocol", "classic", true, true},
        {"enable.auto.commit", "false", false, true},
        {"enable.auto.offset.store", "false", false, true},
        {"auto.offset.reset", "error", false, true},
        {"enable.partition.eof", "true", false, true},
        {"allow.auto.create.topics", "false", false, true},
        {"check.crcs", "true", false, true},
        {"isolation.level", isolation_level, false, true},
    };
    rd_kafka_conf_t *conf;
    enum err_code code;

    (void)snprintf(messages, sizeof(messages), "%" PRId64, limits.messages);
    (void)snprintf(kbytes, sizeof(kbytes), "%" PRId64, limits.kbytes);
    (void)snprintf(fetch_bytes, sizeof(fetch_bytes), "%" PRId64, limits.fetch_bytes);
    code = kafka_conf_create(items, sizeof(items) / sizeof(items[0]), consumer->config.kafka, &conf,
                             reterr);
    if (code != ERR_NONE)
        return code;
    rd_kafka_conf_set_opaque(conf, consumer);
    rd_kafka_conf_set_error_cb(conf, on_error);
    return kafka_conf_client(RD_KAFKA_CONSUMER, conf, ret_client, reterr);
}

static void close_lane(struct lane *lane)
{
    if (lane->queue == NULL)
        return;
    rd_kafka_queue_cb_event_enable(lane->queue, NULL, NULL);
    rd_kafka_queue_destroy(lane->queue);
    lane->queue = NULL;
}

/* Forwarding must be off before fetching begins, or what comes first goes elsewhere. */
void consumer_open_lane(struct consumer *consumer, size_t index)
{
    struct lane *lane = &consumer->lanes[index];

    close_lane(lane);
    lane->queue = rd_kafka_queue_get_partition(consumer->client, consumer_topic_of(consumer, index),
                                               consumer_partition_of(consumer, index));
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
    code = create_client(consumer, "read_committed", &consumer->client, reterr);
    if (code != ERR_NONE) {
        free_topics(consumer);
        free(consumer);
        return code;
    }
    rd_kafka_poll_set_consumer(consumer->client);
    /* What is first heard of in an assignment is looked up only with the next second. */
    consumer->known = mem_calloc(config->topic_count, sizeof(*consumer->known));
    for (size_t i = 0; i < config->topic_count; i++)
        consumer->known[i] = rd_kafka_topic_new(consumer->client, consumer->topics[i], NULL);
    consumer->lanes = mem_calloc(config->partition_count, sizeof(*consumer->lanes));
    *ret_consumer = consumer;
    return ERR_NONE;
}

static bool fill_lane(struct consumer *consumer, struct lane *lane)
{
    ssize_t count;

    if (lane->queue == NULL)
        return false; /* nothing was ever assigned */
    consumer->filling = lane;
    count = rd_kafka_consume_batch_queue(lane->queue, 0, lane->messages, BATCH_MESSAGES);
    consumer->filling = NULL;
    lane->next = 0;
    lane->count = count > 0 ? (size_t)count : 0;
    return lane->count > 0;
}

static void empty_lane(struct consumer *consumer, struct lane *lane)
{
    do {
        for (; lane->next < lane->count; lane->next++)
            rd_kafka_message_destroy(lane->messages[lane->next]);
    } while (fill_lane(consumer, lane));
    lane->trouble = CONSUMER_NOTHING;
}

static void empty_left(struct consumer *consumer)
{
    for (size_t i = 0; i < consumer->left.count; i++)
        empty_lane(consumer, &consumer->left.items[i]);
}

void consumer_destroy(struct consumer *consumer)
{
    if (consumer == NULL)
        return;
    consumer_unassign(consumer);
    for (size_t i = 0; i < consumer->config.partition_count; i++)
        close_lane(&consumer->lanes[i]);
    for (size_t i = 0; i < consumer->left.count; i++)
        close_lane(&consumer->left.items[i]);
    free(consumer->left.items);
    for (size_t i = 0; i < consumer->config.topic_count; i++)
        rd_kafka_topic_destroy(consumer->known[i]);
    free(consumer->known);
    /* There is no membership to give up; closing would wait, for as long as it takes, until a
       commit that hangs is answered. */
    rd_kafka_destroy_flags(consumer->client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    free_topics(consumer);
    free(consumer->lanes);
    free(consumer);
}

/*
 * Unassigning raises each partition's version inside librdkafka before the call returns, so
 * whatever is still queued or comes in late is thrown away by the client when it is popped: reading
 * the lanes empty afterwards gives nothing old.
 *
 * Stopping goes on after the call, in the client's thread, which puts marks into the queues. A mark
 * that stays in the queue of a partition that is gone keeps that partition for ever, and destroying
 * the client would wait for it (2.0.2). The second call is answered after all that.
 */
void consumer_unassign(struct consumer *consumer)
{
    (void)rd_kafka_assign(consumer->client, NULL); /* nothing assigned is not an error */
    (void)rd_kafka_assign(consumer->client, NULL);
    for (size_t i = 0; i < consumer->config.partition_count; i++)
        empty_lane(consumer, &consumer->lanes[i]);
    empty_left(consumer);
}

static void leave_lane(struct consumer *consumer, const struct lane *lane)
{
    consumer->left.items = mem_grow(consumer->left.items, consumer->left.count,
                                    &consumer->left.capacity, sizeof(struct lane));
    consumer->left.items[consumer->left.count++] = *lane;
}

static rd_kafka_topic_partition_list_t *make_list(const struct consumer *consumer)
{
    return rd_kafka_topic_partition_list_new((int)consumer->config.partition_count);
}

/* What its queues hold is thrown away by the client when it is popped, as with consumer_unassign;
 * the marks that come later are taken out as long as there is the consumer. */
void consumer_forget(struct consumer *consumer)
{
    const struct task_partition *partitions = consumer->config.partitions;
    rd_kafka_topic_partition_list_t *list = make_list(consumer);
    rd_kafka_error_t *error;
    size_t kept = 0;

    for (size_t i = 0; i < consumer->config.partition_count; i++)
        if (partitions[i].given)
            (void)rd_kafka_topic_partition_list_add(list, consumer_topic_of(consumer, i),
                                                    consumer_partition_of(consumer, i));
    error = rd_kafka_incremental_unassign(consumer->client, list);
    rd_kafka_error_destroy(error); /* nothing assigned: nothing to take back */
    rd_kafka_topic_partition_list_destroy(list);
    for (size_t i = 0; i < consumer->config.partition_count; i++) {
        if (!partitions[i].given)
            consumer->lanes[kept++] = consumer->lanes[i];
        else if (consumer->lanes[i].queue != NULL)
            leave_lane(consumer, &consumer->lanes[i]);
    }
    consumer->config.partition_count = kept;
    empty_left(consumer);
}

/*
 * Queues are asked for anew each time: unassigning a partition whose topic's metadata had not come
 * in yet makes librdkafka forget the partition with its queue, and a later assignment reads into
 * another one.
 */
enum err_code consumer_assign(struct consumer *consumer, const int64_t *offsets, struct err *reterr)
{
    rd_kafka_topic_partition_list_t *list = make_list(consumer);
    rd_kafka_resp_err_t error;

    consumer_unassign(consumer);
    consumer->strayed = false;
    for (size_t i = 0; i < consumer->config.partition_count; i++) {
        consumer_open_lane(consumer, i);
        if (offsets[i] == API_UNKNOWN)
            continue;
        rd_kafka_topic_partition_list_add(list, consumer_topic_of(consumer, i),
                                          consumer_partition_of(consumer, i))
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
    if (lane->next == lane->count && lane->trouble == CONSUMER_NOTHING)
        (void)fill_lane(consumer, lane);
    if (lane->next == lane->count) {
        ret_item->kind = lane->trouble;
        ret_item->detail = lane->detail;
        return;
    }
    message = lane->messages[lane->next];
    ret_item->kind = kind_of(message->err);
    ret_item->message = message;
    ret_item->offset = message->offset;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        ret_item->detail = rd_kafka_message_errstr(message);
}

void consumer_pop(struct consumer *consumer, size_t index)
{
    struct lane *lane = &consumer->lanes[index];

    if (lane->next < lane->count) {
        rd_kafka_message_destroy(lane->messages[lane->next++]);
        return;
    }
    assert(lane->trouble != CONSUMER_NOTHING);
    lane->trouble = CONSUMER_NOTHING;
}

bool consumer_poll(struct consumer *consumer)
{
    rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer->client, 0);

    empty_left(consumer);

    /* All partitions have queues of their own: only errors of the client should come here, and it
     * logs them. */
    if (message != NULL) {
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            consumer->strayed = true;
        rd_kafka_message_destroy(message);
    }
    return consumer->brokers_down;
}

const char *consumer_down_reason(const struct consumer *consumer)
{
    return consumer->down_reason;
}

bool consumer_strayed(const struct consumer *consumer)
{
    return consumer->strayed;
}

void consumer_answered(struct consumer *consumer)
{
    consumer->brokers_down = false;
    consumer->down_reason[0] = '\0';
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

static enum err_code committed_error(const struct consumer *consumer, rd_kafka_resp_err_t error,
                                     struct err *reterr)
{
    bool refused = error == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED ||
                   error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;

    return err_set(reterr, refused ? ERR_KAFKA : ERR_UNAVAILABLE,
                   "reading the committed offsets of group %s: %s", consumer->config.group_id,
                   rd_kafka_err2str(error));
}

/* What a client was told of the group, which a call that timed out does not say: no error, mostly.
 */
static rd_kafka_resp_err_t told_of_group(rd_kafka_t *client)
{
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_message_t *told;

    while ((told = rd_kafka_consumer_poll(client, 0)) != NULL) {
        error = told->err;
        rd_kafka_message_destroy(told);
    }
    return error;
}

/*
 * Why the broker has not said the offsets, by another client, as librdkafka asks again by itself
 * and reports no more than a timeout. That client reads uncommitted and so asks without the
 * condition that no transaction on them is open: when it gets an answer, that was the reason (what
 * it hears is used for nothing else). A group that may not be read is told to a consumer when it
 * is polled. (An admin request with require_stable_offsets=false would do as well, were it not for
 * D9: one that times out may end the process.)
 */
static enum err_code find_out_why(struct consumer *consumer,
                                  const rd_kafka_topic_partition_list_t *list, int timeout_ms,
                                  struct err *reterr)
{
    const char *group = consumer->config.group_id;
    rd_kafka_topic_partition_list_t *copy = rd_kafka_topic_partition_list_copy(list);
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__TIMED_OUT, told = RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_t *client;

    if (create_client(consumer, "read_uncommitted", &client, NULL) == ERR_NONE) {
        error = rd_kafka_committed(client, copy, timeout_ms);
        told = error == RD_KAFKA_RESP_ERR_NO_ERROR ? error : told_of_group(client);
        rd_kafka_destroy(client);
    }
    rd_kafka_topic_partition_list_destroy(copy);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_CONFLICT,
                       "a transaction on the committed offsets of group %s has not ended", group);
    return committed_error(consumer, told == RD_KAFKA_RESP_ERR_NO_ERROR ? error : told, reterr);
}

enum err_code consumer_committed(struct consumer *consumer, int timeout_ms,
                                 struct task_committed *ret_committed, struct err *reterr)
{
    int why_ms = timeout_ms / 5; /* kept to find out why there was no answer */
    enum err_code code = ERR_NONE;
    rd_kafka_topic_partition_list_t *list = make_list(consumer);
    const struct task_partition *partitions = consumer->config.partitions;
    rd_kafka_resp_err_t error;

    for (size_t i = 0; i < consumer->config.partition_count; i++) {
        if (partitions[i].owned)
            (void)rd_kafka_topic_partition_list_add(list, consumer_topic_of(consumer, i),
                                                    consumer_partition_of(consumer, i));
    }
    error = rd_kafka_committed(consumer->client, list, timeout_ms - why_ms);
    for (int i = 0; i < list->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        error = list->elems[i].err;
    for (size_t i = 0, k = 0; i < consumer->config.partition_count; i++) {
        if (partitions[i].owned && error == RD_KAFKA_RESP_ERR_NO_ERROR)
            take_committed(&list->elems[k++], &ret_committed[i]);
    }
    if (error == RD_KAFKA_RESP_ERR__TIMED_OUT)
        code = find_out_why(consumer, list, why_ms, reterr);
    else if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        code = committed_error(consumer, error, reterr);
    rd_kafka_topic_partition_list_destroy(list);
    return code;
}

rd_kafka_topic_partition_list_t *consumer_commit_list(const struct consumer *consumer,
                                                      const struct task *task)
{
    rd_kafka_topic_partition_list_t *list = make_list(consumer);
    const struct task_partition *partitions = consumer->config.partitions;
    char metadata[STAMP_TEXT_BYTES];

    for (size_t i = 0; i < consumer->config.partition_count; i++) {
        rd_kafka_topic_partition_t *element;
        struct stamp stamp;

        if (partitions[i].committing == API_UNKNOWN)
            continue;
        element = rd_kafka_topic_partition_list_add(list, consumer_topic_of(consumer, i),
                                                    consumer_partition_of(consumer, i));
        element->offset = partitions[i].committing;
        stamp = task_stamp(task, i);
        stamp_format(&stamp, metadata);
        element->metadata_size = strlen(metadata);
        /* librdkafka frees it with the list, by its own allocator's free: rd_kafka_mem_free is
         * free(3). */
        element->metadata = mem_strdup(metadata);
    }
    return list;
}

static rd_kafka_resp_err_t commit_result(rd_kafka_event_t *event)
{
    const rd_kafka_topic_partition_list_t *list;
    rd_kafka_resp_err_t error;

    if (event == NULL)
        return RD_KAFKA_RESP_ERR__TIMED_OUT;
    error = rd_kafka_event_error(event);
    list = rd_kafka_event_topic_partition_list(event);
    for (int i = 0; list != NULL && i < list->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        error = list->elems[i].err;
    return error;
}

enum err_code consumer_commit(struct consumer *consumer, const struct task *task, int timeout_ms,
                              struct err *reterr)
{
    /* rd_kafka_commit has no limit: it waits as long as the group's coordinator is away. */
    rd_kafka_topic_partition_list_t *list = consumer_commit_list(consumer, task);
    rd_kafka_queue_t *answers = rd_kafka_queue_new(consumer->client);
    rd_kafka_resp_err_t error = rd_kafka_commit_queue(consumer->client, list, answers, NULL, NULL);

    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(answers, timeout_ms);

        error = commit_result(event);
        if (event != NULL)
            rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(answers); /* an answer that comes later is dropped */
    rd_kafka_topic_partition_list_destroy(list);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_KAFKA, "committing offsets: %s", rd_kafka_err2str(error));
    return ERR_NONE;
}
