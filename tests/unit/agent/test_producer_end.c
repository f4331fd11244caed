/* The end of a producer whose outputs are still on their way. */
#include <criterion/criterion.h>

#include "agent/producer.h"
#include "common/clock.h"
#include "tests/unit/agent/mock_kafka.h"

static const int first_ms = 100, second_ms = 400; /* when the two answers come */
static const struct baton_record record = {.topic = "in", .key = {"k", 1}, .value = {"v", 1}};
static const struct baton_output output = {.key = {"k", 1}, .value = {"v", 1}};

static struct producer *open_producer(const struct mock_kafka *mock)
{
    const struct producer_config config = {.kafka = &mock->kafka,
                                           .client_id = "test",
                                           .transactional_id = "baton.test",
                                           .output = "out",
                                           .dead_letter = "dead"};
    struct producer *producer;
    struct err err;

    cr_assert_eq(producer_create(&config, &producer, &err), ERR_NONE, "%s", err.text);
    cr_assert_eq(producer_init(producer, MOCK_WAIT_MS, &err), ERR_NONE, "%s", err.text);
    return producer;
}

/* Two outputs are sent. True when the first answer has come and the second is still on its way. */
static bool stage(struct mock_kafka *mock, struct producer *producer, int64_t *ret_sent_ms)
{
    int64_t deadline_ms = clock_mono_ms() + MOCK_WAIT_MS;
    struct err err;
    size_t left = 1;

    rd_kafka_mock_broker_push_request_error_rtts(
        mock->cluster, MOCK_BROKER, MOCK_PRODUCE, (size_t)2,
        RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, first_ms,
        RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, second_ms);
    *ret_sent_ms = clock_mono_ms();
    cr_assert_eq(
        producer_send(producer, PRODUCER_TOPIC_OUTPUT, &record, &output, MOCK_WAIT_MS, &err),
        ERR_NONE);
    cr_assert_eq(producer_send_dead(producer, &record, "bad", MOCK_WAIT_MS, &err), ERR_NONE);
    while (producer_poll(producer, &err) == ERR_NONE && clock_mono_ms() < deadline_ms)
        continue;
    cr_assert_eq(producer_poll(producer, &err), ERR_FENCED, "%s", err.text);
    rd_kafka_mock_broker_error_stack_cnt(mock->cluster, MOCK_BROKER, MOCK_PRODUCE, &left);
    return left == 0 && clock_mono_ms() - *ret_sent_ms < second_ms;
}

/*
 * One that comes in while librdkafka destroys the client makes it free its error's text twice. A
 * machine that stands still for the moment between the two answers stages nothing: once more then.
 */
Test(producer_end, waits_for_the_fences_that_are_on_their_way, .timeout = 60)
{
    bool staged = false;

    for (int i = 0; i < 10 && !staged; i++) {
        struct mock_kafka mock;
        struct producer *producer;
        int64_t sent_ms;

        mock_kafka_start(&mock);
        mock_kafka_topic(&mock, "out", 1);
        mock_kafka_topic(&mock, "dead", 1);
        producer = open_producer(&mock);
        staged = stage(&mock, producer, &sent_ms);
        producer_destroy(producer);
        cr_assert(!staged || clock_mono_ms() - sent_ms >= second_ms);
        mock_kafka_finish(&mock);
    }
    cr_assert(staged, "the second was on its way once");
}

/* librdkafka ends the process when it is to ask for a partition while it is destroyed. */
Test(producer_end, right_after_the_first_output_of_a_transaction, .timeout = 60)
{
    struct mock_kafka mock;
    struct err err;

    mock_kafka_start(&mock);
    mock_kafka_topic(&mock, "out", 1);
    mock_kafka_topic(&mock, "dead", 1);
    for (int i = 0; i < 300; i++) {
        struct producer *producer = open_producer(&mock);

        cr_assert_eq(
            producer_send(producer, PRODUCER_TOPIC_OUTPUT, &record, &output, MOCK_WAIT_MS, &err),
            ERR_NONE);
        producer_destroy(producer);
    }
    mock_kafka_finish(&mock);
}
