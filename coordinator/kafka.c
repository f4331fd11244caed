#include "coordinator/kafka.h"
#include "coordinator/kafka_private.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"
#include "coordinator/core/rows.h"

#define GREETING_PERIOD_MS 1000

static const char *const call_names[] = {
    [KAFKA_CALL_INSPECT] = "inspect",
    [KAFKA_CALL_COMMIT] = "commit",
    [KAFKA_CALL_SAMPLE] = "sample",
    [KAFKA_CALL_FENCE] = "fence",
    [KAFKA_CALL_TOPICS] = "topics",
    [KAFKA_CALL_GROUPS] = "groups",
    [KAFKA_CALL_CLAIM] = "claim",
    [KAFKA_CALL_STAMPS] = "stamps",
    [KAFKA_CALL_CREATE_PARTITIONS] = "create_partitions",
};

const char *kafka_call_name(enum kafka_call_kind kind)
{
    return call_names[kind];
}

/* ---- time and failures */

bool kafka_stopping(const struct kafka *kafka)
{
    return __atomic_load_n(&kafka->stop, __ATOMIC_ACQUIRE);
}

bool kafka_backoff(struct kafka *kafka, int64_t deadline_ms)
{
    if (kafka_stopping(kafka) || clock_mono_ms() + KAFKA_BACKOFF_MS > deadline_ms)
        return false;
    struct pollfd stop = {.fd = kafka->stop_fd, .events = POLLIN};
    (void)poll(&stop, 1, KAFKA_BACKOFF_MS); /* an interrupted wait is only shorter */
    return !kafka_stopping(kafka);
}

int kafka_slice(int64_t deadline_ms)
{
    int64_t left_ms = deadline_ms - clock_mono_ms();
    return left_ms < 1 ? 1 : left_ms > KAFKA_SLICE_MS ? KAFKA_SLICE_MS : (int)left_ms;
}

bool kafka_retriable(rd_kafka_resp_err_t code)
{
    switch ((int)code) {
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__WAIT_COORD:
    case RD_KAFKA_RESP_ERR__WAIT_CACHE:
    case RD_KAFKA_RESP_ERR__IN_PROGRESS:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
    case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_COORDINATOR:
    case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS:
    case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND:
    case RD_KAFKA_RESP_ERR_NOT_CONTROLLER:
    case RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS:
    case RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR:
    case RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH:
    case RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH:
    case RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT:
    case RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED:
        return true;
    default:
        return false;
    }
}

enum err_code kafka_fail(struct err *reterr, rd_kafka_resp_err_t code, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args); /* a long text is cut */
    va_end(args);
    bool retriable = kafka_retriable(code);
    /* What is wrong with the line (a password, a certificate) the client says to the log alone. */
    const char *where = code == RD_KAFKA_RESP_ERR__TRANSPORT
                            ? "; why is in the coordinator's log, event=kafka_client"
                            : "";
    enum err_code result = err_set(reterr, retriable ? ERR_UNAVAILABLE : ERR_KAFKA, "%s: %s (%s)%s",
                                   what, rd_kafka_err2str(code), rd_kafka_err2name(code), where);
    if (reterr != NULL) {
        reterr->retriable = retriable;
        reterr->detail = code;
    }
    return result;
}

void kafka_result_fail(struct kafka_result *result, const struct err *err)
{
    result->failed = true;
    result->refused = !err->retriable;
    free(result->detail);
    result->detail = mem_strdup(err->text);
}

/* ---- the thread */

static void drop_call(void *message)
{
    kafka_call_finish(message);
    free(message);
}

static void carry_out(struct kafka *kafka, const struct kafka_call *call,
                      struct kafka_result *result)
{
    switch (call->kind) {
    case KAFKA_CALL_INSPECT:
        kafka_inspect(kafka, call, result);
        return;
    case KAFKA_CALL_COMMIT:
        kafka_commit(kafka, call, result);
        return;
    case KAFKA_CALL_SAMPLE:
        kafka_sample(kafka, call, result);
        return;
    case KAFKA_CALL_FENCE:
        kafka_fence(kafka, call, result);
        return;
    case KAFKA_CALL_TOPICS:
        kafka_topics(kafka, call, result);
        return;
    case KAFKA_CALL_GROUPS:
        kafka_groups(kafka, call, result);
        return;
    case KAFKA_CALL_CLAIM:
        kafka_claim(kafka, call, result);
        return;
    case KAFKA_CALL_CREATE_PARTITIONS:
        kafka_create_partitions(kafka, call, result);
        return;
    case KAFKA_CALL_STAMPS:
        kafka_stamps(kafka, call, result);
        return;
    case KAFKA_CALL_COUNT:
        break;
    }
    assert(!"a kind of call");
}

static void serve(struct kafka *kafka, struct kafka_call *call)
{
    struct kafka_result *result = mem_calloc(1, sizeof(*result));
    result->id = call->id;
    result->kind = call->kind;
    result->job = rows_text_copy(call->job); /* NULL: it is about all jobs */
    int64_t start_ms = clock_mono_ms();
    carry_out(kafka, call, result);
    __atomic_add_fetch(&kafka->counts.calls[call->kind], 1, __ATOMIC_RELAXED);
    if (result->failed) {
        __atomic_add_fetch(&kafka->counts.failures[call->kind], 1, __ATOMIC_RELAXED);
        log_warn("kafka_call_failed", LOG_STR("call", kafka_call_name(call->kind)),
                 LOG_STR("job", call->job), LOG_BOOL("refused", result->refused),
                 LOG_STR("detail", result->detail), LOG_INT("took_ms", clock_mono_ms() - start_ms),
                 LOG_END);
    } else {
        __atomic_store_n(&kafka->answered, true, __ATOMIC_RELEASE);
        log_debug("kafka_call", LOG_STR("call", kafka_call_name(call->kind)),
                  LOG_STR("job", call->job), LOG_INT("took_ms", clock_mono_ms() - start_ms),
                  LOG_END);
    }
    if (kafka_stopping(kafka)) { /* given up half-way: not an answer of Kafka's */
        kafka_result_finish(result);
        free(result);
        return;
    }
    kafka->deliver(kafka->context, result);
}

/* Until a broker has answered once, ask for nothing in particular: readiness waits for it. */
static void greet(struct kafka *kafka)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_topic_t *none = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->client, 0, none, &metadata, KAFKA_SLICE_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    log_info("kafka_answers", LOG_INT("brokers", metadata->broker_cnt), LOG_END);
    rd_kafka_metadata_destroy(metadata);
    __atomic_store_n(&kafka->answered, true, __ATOMIC_RELEASE);
}

static void serve_clients(struct kafka *kafka)
{
    /* Callbacks of the consumers (errors, throttling) queue up unless they are served. */
    rd_kafka_poll(kafka->client, 0);
    rd_kafka_poll(kafka->committed, 0);
}

static void *run(void *context)
{
    struct kafka *kafka = context;
    while (!kafka_stopping(kafka)) {
        if (!kafka_answered(kafka))
            greet(kafka);
        struct kafka_call *call =
            mailbox_receive(kafka->mailbox, clock_mono_ms() + GREETING_PERIOD_MS);
        if (call != NULL && !kafka_stopping(kafka))
            serve(kafka, call);
        if (call != NULL)
            drop_call(call);
        serve_clients(kafka);
    }
    return NULL;
}

/* ---- life */

static enum err_code create_uncommitted(struct kafka *kafka, rd_kafka_t **ret_client,
                                        struct err *reterr)
{
    static const struct kafka_property properties[] = {
        {"isolation.level", "read_uncommitted"},
        {"allow.auto.create.topics", "false"},
        {"enable.auto.commit", "false"},
        {"debug", "feature"}, /* see kafka_versions.h */
    };
    return kafka_client_create(kafka, kafka->options, RD_KAFKA_CONSUMER, properties,
                               sizeof(properties) / sizeof(properties[0]), ret_client, reterr);
}

void kafka_renew_client(struct kafka *kafka)
{
    rd_kafka_t *fresh;
    struct err err;
    if (create_uncommitted(kafka, &fresh, &err) != ERR_NONE) {
        log_warn("kafka_client_not_renewed", LOG_STR("detail", err.text), LOG_END);
        return;
    }
    rd_kafka_destroy_flags(kafka->client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    kafka->client = fresh;
}

static enum err_code create_clients(struct kafka *kafka, struct err *reterr)
{
    static const struct kafka_property committed[] = {
        {"isolation.level", "read_committed"},
        {"allow.auto.create.topics", "false"},
        {"enable.auto.commit", "false"},
    };
    enum err_code code = create_uncommitted(kafka, &kafka->client, reterr);
    if (code != ERR_NONE)
        return code;
    return kafka_client_create(kafka, kafka->options, RD_KAFKA_CONSUMER, committed,
                               sizeof(committed) / sizeof(committed[0]), &kafka->committed, reterr);
}

enum err_code kafka_create(const struct opts_kafka *options, struct kafka **ret_kafka,
                           struct err *reterr)
{
    struct kafka *kafka = mem_calloc(1, sizeof(*kafka));
    kafka->options = options;
    kafka->versions = kafka_versions_create();
    kafka->mailbox = mailbox_create(KAFKA_CALLS_MAX, drop_call);
    kafka->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    enum err_code code = ERR_NONE;
    if (kafka->stop_fd < 0)
        code = err_set(reterr, ERR_IO, "can not make an eventfd: %s", strerrordesc_np(errno));
    if (code == ERR_NONE)
        code = create_clients(kafka, reterr);
    if (code != ERR_NONE) {
        kafka_destroy(kafka);
        return code;
    }
    *ret_kafka = kafka;
    return ERR_NONE;
}

enum err_code kafka_start(struct kafka *kafka,
                          void (*deliver)(void *context, struct kafka_result *result),
                          void *context, struct err *reterr)
{
    kafka->deliver = deliver;
    kafka->context = context;
    int rc = pthread_create(&kafka->thread, NULL, run, kafka);
    if (rc != 0)
        return err_set(reterr, ERR_IO, "can not start a thread: %s", strerrordesc_np(rc));
    (void)pthread_setname_np(kafka->thread, "kafka");
    kafka->started = true;
    return ERR_NONE;
}

void kafka_stop(struct kafka *kafka)
{
    if (kafka == NULL || !kafka->started)
        return;
    uint64_t one = 1;
    __atomic_store_n(&kafka->stop, true, __ATOMIC_RELEASE);
    ssize_t written = write(kafka->stop_fd, &one, sizeof(one));
    assert(written == sizeof(one));
    mailbox_close(kafka->mailbox);
    pthread_join(kafka->thread, NULL);
    kafka->started = false;
}

void kafka_destroy(struct kafka *kafka)
{
    if (kafka == NULL)
        return;
    kafka_stop(kafka);
    if (kafka->client != NULL)
        rd_kafka_destroy(kafka->client);
    if (kafka->committed != NULL)
        rd_kafka_destroy(kafka->committed);
    kafka_versions_destroy(kafka->versions); /* after the clients: they log into it */
    mailbox_destroy(kafka->mailbox);
    if (kafka->stop_fd >= 0)
        (void)close(kafka->stop_fd);
    free(kafka);
}

bool kafka_post(struct kafka *kafka, struct kafka_call *call)
{
    struct kafka_call *message = mem_memdup(call, sizeof(*call));
    if (!mailbox_post(kafka->mailbox, message)) {
        free(message);
        return false;
    }
    *call = (struct kafka_call){0};
    return true;
}

bool kafka_answered(const struct kafka *kafka)
{
    return __atomic_load_n(&kafka->answered, __ATOMIC_ACQUIRE);
}

void kafka_count(const struct kafka *kafka, struct kafka_counts *ret_counts)
{
    for (size_t i = 0; i < KAFKA_CALL_COUNT; i++) {
        ret_counts->calls[i] = __atomic_load_n(&kafka->counts.calls[i], __ATOMIC_RELAXED);
        ret_counts->failures[i] = __atomic_load_n(&kafka->counts.failures[i], __ATOMIC_RELAXED);
    }
}
