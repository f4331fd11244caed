#include "agent/producer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kafka_conf.h"
#include "agent/offsets_call.h"
#include "common/clock.h"
#include "common/mem.h"

/* Between two attempts of a call that was refused for the moment. */
#define REPEAT_MS 20

/* init_transactions is asked again after so long, then after twice as long each time. */
#define INIT_AGAIN_MS_MIN 10
#define INIT_AGAIN_MS_MAX 500

/* A producer that is destroyed waits this long for the answers to what it has sent. */
#define LAST_ANSWERS_MS 500

struct producer {
    rd_kafka_t *client;
    rd_kafka_topic_t *topics[2]; /* by enum producer_topic; NULL: none */
    bool transactional, provenance, initialised;
    bool open;                   /* a transaction is */
    rd_kafka_resp_err_t failure; /* of the first output that was not delivered */
    struct offsets_call *stuck;  /* a call that has not returned in time; NULL: none */
};

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    struct producer *producer = opaque;

    (void)client;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR &&
        producer->failure == RD_KAFKA_RESP_ERR_NO_ERROR)
        producer->failure = message->err;
}

static enum err_code create_client(struct producer *producer, const struct producer_config *config,
                                   struct err *reterr)
{
    const struct kafka_conf_item items[] = {
        {"client.id", config->client_id, false, false},
        {"linger.ms", "5", false, false},
        /* A request in flight is waited for this long, whatever limit a transactional call has. */
        {"socket.timeout.ms", "10000", false, false},
        /* The next transaction is refused while the markers of the one before are written, which
           takes a few milliseconds; librdkafka's 100 ms would be most of a hand-over. */
        {"retry.backoff.ms", "20", false, false},
        /* A commit follows within the commit interval, so more is waiting only when brokers are
           slow. Larger than the largest output. */
        {"queue.buffering.max.messages", "200000", false, false},
        {"queue.buffering.max.kbytes", "131072", false, false},
        /* Baton's topics are there before the job; one that is not found is not waited for. */
        {"topic.metadata.propagation.max.ms", "2000", false, false},
        /* The longest commit interval and a minute more: the broker's abort must not be what ends a
           transaction that is only slow. */
        {"transaction.timeout.ms", "120000", false, false},
        {"acks", "all", false, true},
        {"enable.idempotence", "true", false, true},
        {"allow.auto.create.topics", "false", true, true},
        {"delivery.report.only.error", "true", false, true},
        {"partitioner", "murmur2_random", false, true},
        {"transactional.id", config->transactional_id, false, true},
    };
    size_t count = sizeof(items) / sizeof(items[0]) - (config->transactional_id == NULL ? 1 : 0);
    rd_kafka_conf_t *conf;
    enum err_code code = kafka_conf_create(items, count, config->kafka, &conf, reterr);

    if (code != ERR_NONE)
        return code;
    rd_kafka_conf_set_opaque(conf, producer);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    return kafka_conf_client(RD_KAFKA_PRODUCER, conf, &producer->client, reterr);
}

enum err_code producer_create(const struct producer_config *config, struct producer **ret_producer,
                              struct err *reterr)
{
    struct producer *producer = mem_calloc(1, sizeof(*producer));
    enum err_code code = create_client(producer, config, reterr);

    if (code != ERR_NONE) {
        free(producer);
        return code;
    }
    producer->transactional = config->transactional_id != NULL;
    producer->provenance = config->provenance;
    if (config->output != NULL)
        producer->topics[PRODUCER_TOPIC_OUTPUT] =
            rd_kafka_topic_new(producer->client, config->output, NULL);
    if (config->dead_letter != NULL)
        producer->topics[PRODUCER_TOPIC_DEAD_LETTER] =
            rd_kafka_topic_new(producer->client, config->dead_letter, NULL);
    *ret_producer = producer;
    return ERR_NONE;
}

/*
 * What is on its way, though it belongs to a transaction that is given up, is waited for, for a
 * while. librdkafka (2.0 to 2.14 at least) does not survive being destroyed with it: when it comes
 * to ask for the partition of a new output then, it ends the process at an assertion (`txn_req_cnt
 * > 0`), and an answer that fences the client makes it free the text of its error twice.
 */
static void free_producer(void *arg)
{
    struct producer *producer = arg;

    if (!producer->transactional) /* else they are never seen */
        (void)rd_kafka_purge(producer->client,
                             RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
    (void)rd_kafka_flush(producer->client, LAST_ANSWERS_MS);
    (void)rd_kafka_purge(producer->client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                               RD_KAFKA_PURGE_F_NON_BLOCKING);
    for (size_t i = 0; i < 2; i++) {
        if (producer->topics[i] != NULL)
            rd_kafka_topic_destroy(producer->topics[i]);
    }
    rd_kafka_destroy(producer->client);
    free(producer);
}

void producer_destroy(struct producer *producer)
{
    if (producer == NULL)
        return;
    if (producer->stuck != NULL)
        offsets_call_leave(producer->stuck, free_producer, producer);
    else
        free_producer(producer);
}

static bool is_fencing(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__FENCED || error == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
           error == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

static bool is_missing(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

/* What will be answered again, whatever is repeated, until someone changes a setting. */
static bool is_refusal(rd_kafka_resp_err_t error)
{
    switch (error) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
        return true;
    default:
        return false;
    }
}

/* What a person can do about it; "" when the error says enough. */
static const char *advice_for(rd_kafka_resp_err_t error)
{
    if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
        error == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE)
        return " (raise kafka.message.max.bytes and the topic's max.message.bytes; a topic that "
               "takes less than a megabyte needs kafka.batch.size below that)";
    return "";
}

static enum err_code refuse(rd_kafka_resp_err_t error, const char *call, const char *text,
                            struct err *reterr)
{
    enum err_code code = is_fencing(error)   ? ERR_FENCED
                         : is_missing(error) ? ERR_NOT_FOUND
                         : is_refusal(error) ? ERR_INVALID
                                             : ERR_KAFKA;

    (void)err_set(reterr, code, "%s: %s%s", call, text, advice_for(error));
    if (reterr != NULL)
        reterr->detail = error;
    return code;
}

/* Takes `error`. */
static enum err_code take_error(rd_kafka_error_t *error, const char *call, struct err *reterr)
{
    enum err_code code =
        refuse(rd_kafka_error_code(error), call, rd_kafka_error_string(error), reterr);

    if (reterr != NULL) {
        reterr->retriable = rd_kafka_error_is_retriable(error);
        reterr->fatal = rd_kafka_error_is_fatal(error);
        reterr->abort_txn = rd_kafka_error_txn_requires_abort(error);
    }
    rd_kafka_error_destroy(error);
    return code;
}

/*
 * The error that made the client or its transaction unusable, ERR_NONE when it is not. What other
 * calls say then is only that it is so (_FATAL, _STATE), and of messages that they were purged.
 */
static enum err_code find_cause(struct producer *producer, struct err *reterr)
{
    char text[256];
    rd_kafka_resp_err_t error = rd_kafka_fatal_error(producer->client, text, sizeof(text));
    rd_kafka_error_t *state = NULL;

    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return refuse(error, "producer", text, reterr);
    if (producer->open) /* is refused in any case: one is open. With the reason if it has failed. */
        state = rd_kafka_begin_transaction(producer->client);
    /* _INCONSISTENT says only how many outputs were not delivered. */
    if (state != NULL && rd_kafka_error_txn_requires_abort(state) &&
        rd_kafka_error_code(state) != RD_KAFKA_RESP_ERR__INCONSISTENT)
        return take_error(state, "transaction", reterr);
    if (state != NULL)
        rd_kafka_error_destroy(state);
    if (producer->failure != RD_KAFKA_RESP_ERR_NO_ERROR)
        return refuse(producer->failure, "an output was not delivered",
                      rd_kafka_err2str(producer->failure), reterr);
    return ERR_NONE;
}

/* Takes `error`. What says nothing of itself may have a cause that does. */
static enum err_code from_error(struct producer *producer, rd_kafka_error_t *error,
                                const char *call, struct err *reterr)
{
    struct err cause;
    enum err_code code = take_error(error, call, reterr);

    if (code != ERR_KAFKA || find_cause(producer, &cause) == ERR_NONE)
        return code;
    if (reterr != NULL)
        *reterr = cause;
    return cause.code;
}

/*
 * While the markers of the owner before are written the broker refuses, and librdkafka asks again
 * only half a second later: most of the pause of a hand-over. The call may be repeated after its
 * time is up, and then asks at once unless an answer is outstanding.
 */
static rd_kafka_error_t *init_transactions(rd_kafka_t *client, int timeout_ms)
{
    int64_t deadline_ms = clock_mono_ms() + timeout_ms;

    for (int64_t again_ms = INIT_AGAIN_MS_MIN;; again_ms *= 2) {
        int64_t left_ms = deadline_ms - clock_mono_ms();
        rd_kafka_error_t *error;

        if (again_ms > INIT_AGAIN_MS_MAX)
            again_ms = INIT_AGAIN_MS_MAX;
        if (left_ms <= again_ms)
            return rd_kafka_init_transactions(client, left_ms > 0 ? (int)left_ms : 0);
        error = rd_kafka_init_transactions(client, (int)again_ms);
        if (error == NULL || !rd_kafka_error_is_retriable(error))
            return error;
        rd_kafka_error_destroy(error);
    }
}

enum err_code producer_init(struct producer *producer, int timeout_ms, struct err *reterr)
{
    rd_kafka_error_t *error;

    assert(!producer->initialised); /* after a failure it is made anew (D9) */
    producer->initialised = true;
    if (!producer->transactional)
        return ERR_NONE;
    error = init_transactions(producer->client, timeout_ms);
    return error == NULL ? ERR_NONE : from_error(producer, error, "init_transactions", reterr);
}

static enum err_code begin(struct producer *producer, struct err *reterr)
{
    rd_kafka_error_t *error;

    if (producer->open || !producer->transactional)
        return ERR_NONE;
    error = rd_kafka_begin_transaction(producer->client);
    if (error != NULL)
        return from_error(producer, error, "begin_transaction", reterr);
    producer->open = true;
    return ERR_NONE;
}

static void add_header(rd_kafka_headers_t *headers, const char *name, const void *value,
                       size_t bytes)
{
    rd_kafka_resp_err_t error =
        rd_kafka_header_add(headers, name, -1, value, value == NULL ? -1 : (ssize_t)bytes);

    assert(error == RD_KAFKA_RESP_ERR_NO_ERROR); /* it only fails for read-only lists */
}

static void add_place(rd_kafka_headers_t *headers, const struct baton_record *record)
{
    char text[32];

    add_header(headers, "baton-topic", record->topic, strlen(record->topic));
    (void)snprintf(text, sizeof(text), "%" PRId32, record->partition);
    add_header(headers, "baton-partition", text, strlen(text));
    (void)snprintf(text, sizeof(text), "%" PRId64, record->offset);
    add_header(headers, "baton-offset", text, strlen(text));
}

/* NULL when the message has no headers. */
static rd_kafka_headers_t *make_headers(const struct baton_header *items, size_t count,
                                        const struct baton_record *place, const char *error)
{
    rd_kafka_headers_t *headers;

    if (count == 0 && place == NULL)
        return NULL;
    headers = rd_kafka_headers_new(count + 4);
    for (size_t i = 0; i < count; i++)
        add_header(headers, items[i].name, items[i].value.data, items[i].value.bytes);
    if (place != NULL)
        add_place(headers, place);
    if (error != NULL)
        add_header(headers, "baton-error", error, strlen(error));
    return headers;
}

static enum err_code send_once(struct producer *producer, rd_kafka_topic_t *topic,
                               const struct baton_record *record, const struct baton_output *output,
                               rd_kafka_headers_t *headers, struct err *reterr)
{
    int64_t timestamp = record->timestamp_ms > 0 ? record->timestamp_ms : 0;
    rd_kafka_resp_err_t error;

    if (headers == NULL)
        error = rd_kafka_producev(
            producer->client, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_KEY(output->key.data, output->key.bytes),
            RD_KAFKA_V_VALUE((void *)(uintptr_t)output->value.data, output->value.bytes),
            RD_KAFKA_V_TIMESTAMP(timestamp), RD_KAFKA_V_END);
    else
        error = rd_kafka_producev(
            producer->client, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_KEY(output->key.data, output->key.bytes),
            RD_KAFKA_V_VALUE((void *)(uintptr_t)output->value.data, output->value.bytes),
            RD_KAFKA_V_TIMESTAMP(timestamp), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        return ERR_NONE;
    if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        return ERR_LIMIT;
    if (error == RD_KAFKA_RESP_ERR__FATAL || error == RD_KAFKA_RESP_ERR__STATE) {
        enum err_code cause = find_cause(producer, reterr);

        if (cause != ERR_NONE)
            return cause;
    }
    return refuse(error, "sending an output", rd_kafka_err2str(error), reterr);
}

static enum err_code send_message(struct producer *producer, rd_kafka_topic_t *topic,
                                  const struct baton_record *record,
                                  const struct baton_output *output, rd_kafka_headers_t *headers,
                                  int timeout_ms, struct err *reterr)
{
    int64_t deadline_ms = 0;
    enum err_code code = begin(producer, reterr);

    while (code == ERR_NONE) {
        code = send_once(producer, topic, record, output, headers, reterr);
        if (code != ERR_LIMIT)
            break;
        /* The client's queue is full: wait until something of it was delivered. */
        if (deadline_ms == 0)
            deadline_ms = clock_mono_ms() + timeout_ms;
        code = ERR_NONE;
        if (clock_mono_ms() >= deadline_ms)
            code =
                err_set(reterr, ERR_TIMEOUT, "the output queue stayed full for %d ms", timeout_ms);
        else
            (void)rd_kafka_poll(producer->client, 10);
    }
    if (code != ERR_NONE && headers != NULL)
        rd_kafka_headers_destroy(headers); /* taken only by a send that succeeds */
    return code;
}

enum err_code producer_send(struct producer *producer, enum producer_topic topic,
                            const struct baton_record *record, const struct baton_output *output,
                            int timeout_ms, struct err *reterr)
{
    const struct baton_header *items = output->headers;
    size_t count = output->header_count;

    if (producer->topics[topic] == NULL)
        return err_set(reterr, ERR_INVALID, "the job's spec names no %s topic",
                       topic == PRODUCER_TOPIC_OUTPUT ? "output" : "dead letter");
    if (items == NULL && count == 0) {
        items = record->headers;
        count = record->header_count;
    }
    return send_message(producer, producer->topics[topic], record, output,
                        make_headers(items, count, producer->provenance ? record : NULL, NULL),
                        timeout_ms, reterr);
}

enum err_code producer_send_dead(struct producer *producer, const struct baton_record *record,
                                 const char *error, int timeout_ms, struct err *reterr)
{
    struct baton_output output = {.key = record->key, .value = record->value};

    if (producer->topics[PRODUCER_TOPIC_DEAD_LETTER] == NULL)
        return err_set(reterr, ERR_INVALID, "the job's spec names no dead letter topic");
    return send_message(producer, producer->topics[PRODUCER_TOPIC_DEAD_LETTER], record, &output,
                        make_headers(record->headers, record->header_count, record, error),
                        timeout_ms, reterr);
}

/*
 * The coordinator refuses it, without effect, while it still writes the markers of the transaction
 * before; with hundreds of partitions for longer than librdkafka tries. Any other error may hide
 * that the call had its effect.
 */
static bool is_worth_repeating(const rd_kafka_error_t *error)
{
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);

    return rd_kafka_error_is_retriable(error) && !rd_kafka_error_txn_requires_abort(error) &&
           (code == RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS ||
            code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS);
}

static enum err_code send_offsets(struct producer *producer,
                                  const rd_kafka_topic_partition_list_t *offsets,
                                  const char *group_id, int timeout_ms, struct err *reterr)
{
    int64_t deadline_ms = clock_mono_ms() + timeout_ms;
    int64_t left_ms = timeout_ms;
    rd_kafka_error_t *error;

    for (;;) {
        enum err_code code = offsets_call_run(producer->client, offsets, group_id, (int)left_ms,
                                              &error, &producer->stuck, reterr);

        if (code != ERR_NONE)
            return code;
        left_ms = deadline_ms - clock_mono_ms();
        if (error == NULL || !is_worth_repeating(error) || left_ms <= 0)
            break;
        rd_kafka_error_destroy(error);
        (void)rd_kafka_poll(producer->client, REPEAT_MS);
    }
    return error == NULL ? ERR_NONE
                         : from_error(producer, error, "send_offsets_to_transaction", reterr);
}

static enum err_code commit_transaction(struct producer *producer,
                                        const rd_kafka_topic_partition_list_t *offsets,
                                        const char *group_id, int timeout_ms, struct err *reterr)
{
    rd_kafka_error_t *error;
    enum err_code code = begin(producer, reterr);

    if (code == ERR_NONE)
        code = send_offsets(producer, offsets, group_id, timeout_ms, reterr);
    if (code != ERR_NONE)
        return code;
    error = rd_kafka_commit_transaction(producer->client, timeout_ms);
    if (error == NULL) {
        producer->open = false;
        return ERR_NONE;
    }
    return from_error(producer, error, "commit_transaction", reterr);
}

enum err_code producer_commit(struct producer *producer,
                              const rd_kafka_topic_partition_list_t *offsets, const char *group_id,
                              int timeout_ms, struct err *reterr)
{
    if (producer->transactional)
        return commit_transaction(producer, offsets, group_id, timeout_ms, reterr);
    if (rd_kafka_flush(producer->client, timeout_ms) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_TIMEOUT, "outputs were not acknowledged within %d ms",
                       timeout_ms);
    return producer_poll(producer, reterr);
}

enum err_code producer_poll(struct producer *producer, struct err *reterr)
{
    (void)rd_kafka_poll(producer->client, 0);
    if (producer->failure == RD_KAFKA_RESP_ERR_NO_ERROR &&
        rd_kafka_fatal_error(producer->client, NULL, 0) == RD_KAFKA_RESP_ERR_NO_ERROR)
        return ERR_NONE;
    return find_cause(producer, reterr);
}
