#include "agent/producer.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/consumer.h"
#include "common/clock.h"
#include "tests/unit/agent/mock_kafka.h"

#define OUTPUT "out"
#define DEAD   "dead"
#define GROUP  "group"

static struct mock_kafka mock;
static struct producer *producer;
static struct producer_config config;

static const struct baton_record record = {
    .topic = "in",
    .partition = 4,
    .offset = 77,
    .timestamp_ms = 1600000000000,
    .key = {"rk", 2},
    .value = {"rv", 2},
    .headers = (struct baton_header[]){{"trace", {"t1", 2}}, {"trace", {NULL, 0}}, {"e", {"", 0}}},
    .header_count = 3,
};
static const struct baton_output output = {.key = {"k", 1}, .value = {"v", 1}};

static void setup(void)
{
    mock_kafka_start(&mock);
    mock_kafka_set(&mock, "socket.timeout.ms", "2000");
    mock_kafka_topic(&mock, OUTPUT, 1);
    mock_kafka_topic(&mock, DEAD, 1);
    mock_kafka_topic(&mock, "in", 5);
    config = (struct producer_config){.kafka = &mock.kafka,
                                      .client_id = "test",
                                      .transactional_id = "baton.test",
                                      .output = OUTPUT,
                                      .dead_letter = DEAD};
}

static void teardown(void)
{
    producer_destroy(producer);
    mock_kafka_finish(&mock);
}

TestSuite(producer, .init = setup, .fini = teardown, .timeout = 60);

static void open_producer(void)
{
    struct err err;

    cr_assert_eq(producer_create(&config, &producer, &err), ERR_NONE, "%s", err.text);
    cr_assert_eq(producer_init(producer, MOCK_WAIT_MS, &err), ERR_NONE, "%s", err.text);
}

static void open_at_least_once(void)
{
    config.transactional_id = NULL;
    open_producer();
}

static enum err_code try_send(const struct baton_output *what, struct err *reterr)
{
    return producer_send(producer, PRODUCER_TOPIC_OUTPUT, &record, what, MOCK_WAIT_MS, reterr);
}

static void send_output(const struct baton_output *what)
{
    struct err err;

    cr_assert_eq(try_send(what, &err), ERR_NONE, "%s", err.text);
}

static enum err_code try_commit(int timeout_ms, struct err *reterr)
{
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
    enum err_code code;

    rd_kafka_topic_partition_list_add(offsets, "in", 4)->offset = 78;
    code = producer_commit(producer, offsets, GROUP, timeout_ms, reterr);
    rd_kafka_topic_partition_list_destroy(offsets);
    return code;
}

static void commit(void)
{
    struct err err;

    cr_assert_eq(try_commit(MOCK_WAIT_MS, &err), ERR_NONE, "%s", err.text);
}

/* Outputs or the commit fail; whichever sees it first. */
static enum err_code fail(struct err *reterr)
{
    enum err_code code = try_send(&output, reterr);

    return code == ERR_NONE ? try_commit(MOCK_WAIT_MS, reterr) : code;
}

/* ---- reading back */

static struct task_partition partition;
static struct consumer *reader;

static void open_reader(const char *topic)
{
    char *topics[] = {(char *)(uintptr_t)topic};
    const struct consumer_config reading = {.kafka = &mock.kafka,
                                            .client_id = "reader",
                                            .group_id = "reader",
                                            .topics = topics,
                                            .topic_count = 1,
                                            .partitions = &partition,
                                            .partition_count = 1};

    cr_assert_eq(consumer_create(&reading, &reader, NULL), ERR_NONE);
    cr_assert_eq(consumer_assign(reader, (int64_t[]){0}, NULL), ERR_NONE);
}

static rd_kafka_message_t *read_one(void)
{
    int64_t deadline_ms = clock_mono_ms() + MOCK_WAIT_MS;
    struct consumer_item item;

    do
        consumer_peek(reader, 0, &item);
    while (item.kind == CONSUMER_NOTHING && clock_mono_ms() < deadline_ms);
    cr_assert_eq(item.kind, CONSUMER_RECORD);
    return item.message;
}

static void assert_bytes(const void *data, size_t bytes, struct baton_bytes expected)
{
    cr_assert_eq(data == NULL, expected.data == NULL);
    cr_assert_eq(bytes, expected.bytes);
    cr_assert(bytes == 0 || memcmp(data, expected.data, bytes) == 0);
}

static void assert_header(const rd_kafka_message_t *message, size_t index, const char *name,
                          const char *value)
{
    rd_kafka_headers_t *headers;
    const char *found;
    const void *data;
    size_t bytes;

    cr_assert_eq(rd_kafka_message_headers(message, &headers), RD_KAFKA_RESP_ERR_NO_ERROR);
    cr_assert_eq(rd_kafka_header_get_all(headers, index, &found, &data, &bytes),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
    cr_assert_str_eq(found, name);
    assert_bytes(data, bytes, (struct baton_bytes){value, value == NULL ? 0 : strlen(value)});
}

static size_t header_count(const rd_kafka_message_t *message)
{
    rd_kafka_headers_t *headers;

    return rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR
               ? rd_kafka_header_cnt(headers)
               : 0;
}

/* ---- outputs */

Test(producer, writes_null_and_empty_as_they_are)
{
    static const struct baton_output cases[] = {
        {.key = {"k", 1}, .value = {"v", 1}},  {.key = {NULL, 0}, .value = {NULL, 0}},
        {.key = {"", 0}, .value = {"", 0}},    {.key = {"k", 1}, .value = {NULL, 0}},
        {.key = {NULL, 0}, .value = {"v", 1}}, {.key = {"\0x", 2}, .value = {"\0", 1}},
    };
    const size_t count = sizeof(cases) / sizeof(cases[0]);

    open_producer();
    for (size_t i = 0; i < count; i++)
        send_output(&cases[i]);
    commit();
    open_reader(OUTPUT);
    for (size_t i = 0; i < count; i++) {
        rd_kafka_message_t *message = read_one();
        rd_kafka_timestamp_type_t type;

        assert_bytes(message->key, message->key_len, cases[i].key);
        assert_bytes(message->payload, message->len, cases[i].value);
        cr_assert_eq(rd_kafka_message_timestamp(message, &type), record.timestamp_ms);
        consumer_pop(reader, 0);
    }
    consumer_destroy(reader);
}

Test(producer, passes_headers_on_unless_the_output_has_its_own)
{
    struct baton_header own[] = {{"own", {"1", 1}}};

    open_producer();
    send_output(&output);
    send_output(&(struct baton_output){.key = {"k", 1}, .headers = own, .header_count = 1});
    send_output(&(struct baton_output){.key = {"k", 1}, .headers = own, .header_count = 0});
    commit();
    open_reader(OUTPUT);
    cr_assert_eq(header_count(read_one()), 3);
    assert_header(read_one(), 0, "trace", "t1");
    assert_header(read_one(), 1, "trace", NULL);
    assert_header(read_one(), 2, "e", "");
    consumer_pop(reader, 0);
    cr_assert_eq(header_count(read_one()), 1);
    assert_header(read_one(), 0, "own", "1");
    consumer_pop(reader, 0);
    cr_assert_eq(header_count(read_one()), 0);
    consumer_destroy(reader);
}

Test(producer, a_record_without_a_time_gets_the_present_one)
{
    struct baton_record timeless = record;
    rd_kafka_timestamp_type_t type;
    int64_t before_ms = clock_wall_ms();

    timeless.timestamp_ms = -1;
    open_producer();
    cr_assert_eq(producer_send(producer, PRODUCER_TOPIC_OUTPUT, &timeless, &output, 1000, NULL),
                 ERR_NONE);
    commit();
    open_reader(OUTPUT);
    cr_assert_geq(rd_kafka_message_timestamp(read_one(), &type), before_ms);
    consumer_destroy(reader);
}

Test(producer, adds_the_place_when_asked_to)
{
    config.provenance = true;
    open_producer();
    send_output(&output);
    commit();
    open_reader(OUTPUT);
    cr_assert_eq(header_count(read_one()), 6);
    assert_header(read_one(), 3, "baton-topic", "in");
    assert_header(read_one(), 4, "baton-partition", "4");
    assert_header(read_one(), 5, "baton-offset", "77");
    consumer_destroy(reader);
}

Test(producer, a_dead_letter_is_the_record_with_its_place_and_the_reason)
{
    rd_kafka_message_t *message;

    open_producer();
    cr_assert_eq(producer_send_dead(producer, &record, "not a number", 1000, NULL), ERR_NONE);
    commit();
    open_reader(DEAD);
    message = read_one();
    assert_bytes(message->key, message->key_len, record.key);
    assert_bytes(message->payload, message->len, record.value);
    cr_assert_eq(header_count(message), 7);
    assert_header(message, 5, "baton-offset", "77");
    assert_header(message, 6, "baton-error", "not a number");
    consumer_destroy(reader);
}

Test(producer, an_output_needs_a_topic)
{
    config.output = config.dead_letter = NULL;
    open_producer();
    cr_assert_eq(try_send(&output, NULL), ERR_INVALID);
    cr_assert_eq(producer_send_dead(producer, &record, "why", 1000, NULL), ERR_INVALID);
    commit(); /* offsets alone are a transaction, too */
}

Test(producer, commits_one_transaction_after_the_other)
{
    open_producer();
    for (int i = 0; i < 5; i++) {
        send_output(&output);
        commit();
    }
    cr_assert_eq(producer_poll(producer, NULL), ERR_NONE);
}

Test(producer, without_transactions_a_commit_waits_for_the_outputs)
{
    open_at_least_once();
    send_output(&output);
    commit();
    open_reader(OUTPUT);
    (void)read_one();
    consumer_destroy(reader);
}

/* ---- refusals for good */

static void expect_too_large(enum err_code code, const struct err *err)
{
    cr_assert_eq(code, ERR_INVALID, "%s", err->text);
    cr_assert(strstr(err->text, "too large") != NULL, "%s", err->text);
    cr_assert(strstr(err->text, "max.message.bytes") != NULL, "%s", err->text);
}

Test(producer, an_output_too_large_for_the_client_is_invalid)
{
    size_t bytes = 2 * 1000 * 1000;
    void *data = calloc(1, bytes);
    struct err err;

    open_producer();
    expect_too_large(try_send(&(struct baton_output){.value = {data, bytes}}, &err), &err);
    free(data);
}

Test(producer, an_output_too_large_for_the_topic_is_invalid)
{
    struct err err;

    open_producer();
    mock_kafka_fail(&mock, MOCK_PRODUCE, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, 1);
    expect_too_large(fail(&err), &err);
    /* Whatever is asked afterwards, the reason stays the same. */
    expect_too_large(producer_poll(producer, &err), &err);
    expect_too_large(try_send(&output, &err), &err);
    expect_too_large(try_commit(1000, &err), &err);
}

Test(producer, without_transactions_too)
{
    struct err err;

    open_at_least_once();
    mock_kafka_fail(&mock, MOCK_PRODUCE, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, 1);
    expect_too_large(fail(&err), &err);
}

Test(producer, what_is_not_allowed_is_invalid)
{
    static const struct {
        enum mock_api api;
        rd_kafka_resp_err_t error;
    } cases[] = {
        {MOCK_PRODUCE, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED},
        {MOCK_PRODUCE, RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP},
        {MOCK_ADD_PARTITIONS, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED},
        {MOCK_ADD_OFFSETS, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED},
        {MOCK_TXN_OFFSET_COMMIT, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED},
        {MOCK_END_TXN, RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED},
    };
    struct err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_producer();
        mock_kafka_fail(&mock, cases[i].api, cases[i].error, 1);
        cr_assert_eq(fail(&err), ERR_INVALID, "case %zu: %s", i, err.text);
        producer_destroy(producer);
        producer = NULL;
        rd_kafka_mock_clear_request_errors(mock.cluster, (int16_t)cases[i].api);
    }
}

Test(producer, an_initialisation_that_is_not_allowed_is_invalid)
{
    struct err err;

    mock_kafka_fail(&mock, MOCK_INIT_PRODUCER_ID,
                    RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 1);
    cr_assert_eq(producer_create(&config, &producer, &err), ERR_NONE);
    cr_assert_eq(producer_init(producer, MOCK_WAIT_MS, &err), ERR_INVALID, "%s", err.text);
}

Test(producer, a_topic_that_does_not_exist_is_not_found_before_the_time_is_over)
{
    int64_t before_ms = clock_mono_ms();
    struct err err;

    rd_kafka_mock_topic_set_error(mock.cluster, OUTPUT, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    open_producer();
    cr_assert_eq(fail(&err), ERR_NOT_FOUND, "%s", err.text);
    cr_assert_lt(clock_mono_ms() - before_ms, MOCK_WAIT_MS - 2000);
}

/* ---- fences */

Test(producer, is_fenced_wherever_a_newer_one_is_noticed)
{
    static const struct {
        enum mock_api api;
        rd_kafka_resp_err_t error;
    } cases[] = {
        {MOCK_PRODUCE, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH},
        {MOCK_ADD_PARTITIONS, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH},
        {MOCK_ADD_PARTITIONS, RD_KAFKA_RESP_ERR_PRODUCER_FENCED},
        {MOCK_ADD_OFFSETS, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH},
        {MOCK_ADD_OFFSETS, RD_KAFKA_RESP_ERR_PRODUCER_FENCED},
        {MOCK_TXN_OFFSET_COMMIT, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH},
        {MOCK_END_TXN, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH},
        {MOCK_END_TXN, RD_KAFKA_RESP_ERR_PRODUCER_FENCED},
    };
    struct err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_producer();
        mock_kafka_fail(&mock, cases[i].api, cases[i].error, 1);
        cr_assert_eq(fail(&err), ERR_FENCED, "case %zu: %s", i, err.text);
        /* The client answers _FATAL or _STATE from now on; it is a fence still. */
        cr_assert_eq(try_send(&output, &err), ERR_FENCED, "case %zu: %s", i, err.text);
        cr_assert_eq(try_commit(1000, &err), ERR_FENCED, "case %zu: %s", i, err.text);
        producer_destroy(producer);
        producer = NULL;
        rd_kafka_mock_clear_request_errors(mock.cluster, (int16_t)cases[i].api);
    }
}

Test(producer, notices_a_fence_between_two_calls)
{
    int64_t deadline_ms = clock_mono_ms() + MOCK_WAIT_MS;
    struct err err;

    open_producer();
    mock_kafka_fail(&mock, MOCK_PRODUCE, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, 1);
    send_output(&output);
    while (producer_poll(producer, &err) == ERR_NONE && clock_mono_ms() < deadline_ms)
        continue;
    cr_assert_eq(producer_poll(producer, &err), ERR_FENCED, "%s", err.text);
}

Test(producer, a_broken_transaction_is_no_fence)
{
    static const struct {
        enum mock_api api;
        rd_kafka_resp_err_t error;
    } cases[] = {
        {MOCK_ADD_PARTITIONS, RD_KAFKA_RESP_ERR_INVALID_TXN_STATE},
        {MOCK_ADD_OFFSETS, RD_KAFKA_RESP_ERR_INVALID_TXN_STATE},
        {MOCK_ADD_OFFSETS, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING},
        {MOCK_END_TXN, RD_KAFKA_RESP_ERR_INVALID_TXN_STATE},
        {MOCK_END_TXN, (rd_kafka_resp_err_t)120}, /* TRANSACTION_ABORTABLE, newer than 2.0.2 */
        {MOCK_PRODUCE, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER},
    };
    struct err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_producer();
        mock_kafka_fail(&mock, cases[i].api, cases[i].error, 1);
        cr_assert_eq(fail(&err), ERR_KAFKA, "case %zu: %s", i, err.text);
        producer_destroy(producer);
        producer = NULL;
        rd_kafka_mock_clear_request_errors(mock.cluster, (int16_t)cases[i].api);
    }
}

/* ---- what passes */

/* The coordinator writes the markers of the transaction before for longer than librdkafka tries. */
Test(producer, waits_while_the_transaction_before_is_being_completed)
{
    open_producer();
    mock_kafka_fail(&mock, MOCK_ADD_OFFSETS, RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS, 12);
    send_output(&output);
    commit();
}

Test(producer, does_not_wait_for_that_longer_than_it_may)
{
    int64_t before_ms = clock_mono_ms();
    struct err err;

    open_producer();
    mock_kafka_fail(&mock, MOCK_ADD_OFFSETS, RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS, 500);
    cr_assert_eq(try_commit(1000, &err), ERR_KAFKA);
    cr_assert_lt(clock_mono_ms() - before_ms, 9000); /* 500 times take ten seconds and more */
    cr_assert(strstr(err.text, "concurrent") != NULL, "%s", err.text);
}

/* ---- time limits */

/* Each refusal by itself costs half a second in librdkafka. */
Test(producer, is_initialised_soon_after_the_transaction_before_is_complete)
{
    int64_t began_ms = clock_mono_ms();

    mock_kafka_fail(&mock, MOCK_INIT_PRODUCER_ID, RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS, 5);
    open_producer();
    cr_assert_lt(clock_mono_ms() - began_ms, 2300); /* 310 ms of waiting */
}

Test(producer, an_initialisation_without_an_answer_ends_in_time)
{
    int64_t before_ms = clock_mono_ms();
    struct err err;

    mock_kafka_delay(&mock, 20000);
    cr_assert_eq(producer_create(&config, &producer, &err), ERR_NONE);
    cr_assert_eq(producer_init(producer, 500, &err), ERR_KAFKA);
    cr_assert_lt(clock_mono_ms() - before_ms, 10000);
    producer_destroy(producer);
    producer = NULL;
    cr_assert_lt(clock_mono_ms() - before_ms, 15000);
}

Test(producer, a_commit_without_an_answer_ends_in_time_and_so_does_the_producer)
{
    int64_t before_ms;

    open_producer();
    send_output(&output);
    commit();
    mock_kafka_delay(&mock, 20000);
    send_output(&output);
    before_ms = clock_mono_ms();
    cr_assert_eq(try_commit(500, NULL), ERR_KAFKA);
    cr_assert_lt(clock_mono_ms() - before_ms, 10000, "a request is waited for: socket.timeout.ms");
    before_ms = clock_mono_ms();
    producer_destroy(producer);
    producer = NULL;
    cr_assert_lt(clock_mono_ms() - before_ms, 10000);
}

/* librdkafka's call does not return before that broker is back, whatever timeout it was given. */
Test(producer, a_group_whose_coordinator_is_away_does_not_hold_the_task)
{
    struct err err;

    mock_kafka_finish(&mock);
    mock_kafka_start_brokers(&mock, "2");
    mock_kafka_set(&mock, "socket.timeout.ms", "2000");
    mock_kafka_topic(&mock, OUTPUT, 1);
    rd_kafka_mock_partition_set_leader(mock.cluster, OUTPUT, 0, MOCK_BROKER);
    rd_kafka_mock_coordinator_set(mock.cluster, "transaction", "baton.test", MOCK_BROKER);
    rd_kafka_mock_coordinator_set(mock.cluster, "group", GROUP, MOCK_BROKER + 1);
    open_producer();
    send_output(&output);
    commit();

    rd_kafka_mock_broker_set_down(mock.cluster, MOCK_BROKER + 1);
    send_output(&output);
    int64_t began_ms = clock_mono_ms();
    cr_assert_eq(try_commit(3000, &err), ERR_TIMEOUT, "%s", err.text);
    cr_assert_not_null(strstr(err.text, "coordinates group " GROUP), "%s", err.text);
    producer_destroy(producer);
    cr_assert_lt(clock_mono_ms() - began_ms, 20000);

    /* A new one is on its way meanwhile, and the one that was left ends when the broker is back. */
    producer = NULL;
    int threads = rd_kafka_thread_cnt();
    open_producer();
    producer_destroy(producer);
    producer = NULL;
    rd_kafka_mock_broker_set_up(mock.cluster, MOCK_BROKER + 1);
    int64_t deadline_ms = clock_mono_ms() + MOCK_WAIT_MS;
    while (rd_kafka_thread_cnt() >= threads && clock_mono_ms() < deadline_ms)
        rd_kafka_poll(mock.host, 10);
    cr_assert_lt(rd_kafka_thread_cnt(), threads, "the one that was left is destroyed");
    open_producer();
    send_output(&output);
    commit();
}

Test(producer, a_full_queue_is_waited_for_and_not_for_ever)
{
    int64_t before_ms;
    struct err err;
    enum err_code code = ERR_NONE;

    mock_kafka_set(&mock, "queue.buffering.max.messages", "5");
    open_at_least_once();
    mock_kafka_delay(&mock, 300);
    for (int i = 0; i < 20; i++) /* some rounds of delivery */
        send_output(&output);
    cr_assert_eq(rd_kafka_mock_broker_set_down(mock.cluster, MOCK_BROKER),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
    before_ms = clock_mono_ms();
    while (code == ERR_NONE)
        code = producer_send(producer, PRODUCER_TOPIC_OUTPUT, &record, &output, 400, &err);
    cr_assert_eq(code, ERR_TIMEOUT, "%s", err.text);
    cr_assert_lt(clock_mono_ms() - before_ms, 15000);
}

Test(producer, is_destroyed_with_outputs_that_nobody_takes)
{
    int64_t before_ms;

    open_producer();
    cr_assert_eq(rd_kafka_mock_broker_set_down(mock.cluster, MOCK_BROKER),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
    for (int i = 0; i < 100; i++)
        send_output(&output);
    before_ms = clock_mono_ms();
    producer_destroy(producer);
    producer = NULL;
    cr_assert_lt(clock_mono_ms() - before_ms, 15000);
}
