#include "agent/offsets_retention.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define NAME          "offsets.retention.minutes"
#define MS_PER_MINUTE INT64_C(60000)

struct answers {
    int64_t least_ms; /* 0: no broker has said it */
    rd_kafka_resp_err_t error;
};

static int64_t parse(const char *minutes)
{
    char *end = NULL;
    long long value;

    if (minutes == NULL)
        return 0;
    errno = 0;
    value = strtoll(minutes, &end, 10);
    if (errno != 0 || end == minutes || *end != '\0' || value < 1 || value > INT32_MAX)
        return 0; /* Kafka's own range is 1 to INT32_MAX */
    return value * MS_PER_MINUTE;
}

static void take_broker(struct answers *answers, const rd_kafka_ConfigResource_t *broker)
{
    size_t count = 0;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(broker, &count);

    if (rd_kafka_ConfigResource_error(broker) != RD_KAFKA_RESP_ERR_NO_ERROR)
        answers->error = rd_kafka_ConfigResource_error(broker);
    for (size_t i = 0; i < count; i++) {
        int64_t said_ms;

        if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), NAME) != 0)
            continue;
        said_ms = parse(rd_kafka_ConfigEntry_value(entries[i]));
        if (said_ms != 0 && (answers->least_ms == 0 || said_ms < answers->least_ms))
            answers->least_ms = said_ms;
    }
}

static void take_answer(struct answers *answers, rd_kafka_event_t *event)
{
    size_t count = 0;
    const rd_kafka_ConfigResource_t **brokers;

    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        answers->error = rd_kafka_event_error(event);
        return;
    }
    brokers = rd_kafka_DescribeConfigs_result_resources(
        rd_kafka_event_DescribeConfigs_result(event), &count);
    for (size_t i = 0; i < count; i++)
        take_broker(answers, brokers[i]);
}

/* A broker only answers for itself, so each gets a request of its own. */
static void ask_broker(rd_kafka_t *client, int32_t id, int timeout_ms, rd_kafka_queue_t *queue)
{
    char name[16], text[128];
    rd_kafka_ConfigResource_t *broker;
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_resp_err_t error =
        rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, text, sizeof(text));

    assert(error == RD_KAFKA_RESP_ERR_NO_ERROR); /* never fails for this kind of request */
    (void)snprintf(name, sizeof(name), "%d", (int)id);
    broker = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_BROKER, name);
    rd_kafka_DescribeConfigs(client, &broker, 1, options, queue);
    rd_kafka_ConfigResource_destroy(broker);
    rd_kafka_AdminOptions_destroy(options);
}

static void ask_brokers(rd_kafka_t *client, const struct rd_kafka_metadata *metadata,
                        int timeout_ms, struct answers *answers)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    int64_t deadline_ms = clock_mono_ms() + timeout_ms;

    for (int i = 0; i < metadata->broker_cnt; i++)
        ask_broker(client, metadata->brokers[i].id, timeout_ms, queue);
    for (int i = 0; i < metadata->broker_cnt; i++) {
        int64_t left_ms = deadline_ms - clock_mono_ms();
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, left_ms > 0 ? (int)left_ms : 0);

        if (event == NULL)
            break;
        take_answer(answers, event);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue); /* an answer that comes later is dropped */
}

enum err_code offsets_retention_ask(rd_kafka_t *client, int timeout_ms, int64_t *ret_retention_ms,
                                    struct err *reterr)
{
    const struct rd_kafka_metadata *metadata;
    struct answers answers = {.least_ms = 0, .error = RD_KAFKA_RESP_ERR__TIMED_OUT};
    rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, NULL, &metadata, timeout_ms);

    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_UNAVAILABLE, "asking which brokers there are: %s",
                       rd_kafka_err2str(error));
    ask_brokers(client, metadata, timeout_ms, &answers);
    rd_kafka_metadata_destroy(metadata);
    if (answers.least_ms == 0)
        return err_set(reterr, ERR_UNAVAILABLE, "asking the brokers for " NAME ": %s",
                       rd_kafka_err2str(answers.error));
    *ret_retention_ms = answers.least_ms;
    return ERR_NONE;
}
