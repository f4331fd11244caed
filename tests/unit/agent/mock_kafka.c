#include "tests/unit/agent/mock_kafka.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

void mock_kafka_set(struct mock_kafka *mock, const char *name, const char *value)
{
    struct opts_kafka *kafka = &mock->kafka;

    kafka->items = mem_realloc(kafka->items, kafka->count + 1, sizeof(*kafka->items));
    kafka->items[kafka->count].name = mem_strdup(name);
    kafka->items[kafka->count++].value = mem_strdup(value);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    cr_assert_eq(rd_kafka_conf_set(conf, name, value, text, sizeof(text)), RD_KAFKA_CONF_OK, "%s",
                 text);
}

void mock_kafka_start(struct mock_kafka *mock)
{
    mock_kafka_start_brokers(mock, "1");
}

void mock_kafka_start_brokers(struct mock_kafka *mock, const char *count)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[256];
    char bootstrap[256];

    *mock = (struct mock_kafka){0};
    /* The client with this property makes the cluster and is connected to it. */
    set(conf, "test.mock.num.brokers", count);
    set(conf, "log_level", "3");
    set(conf, "linger.ms", "0");
    mock->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    cr_assert_not_null(mock->host, "%s", text);
    mock->cluster = rd_kafka_handle_mock_cluster(mock->host);
    cr_assert_not_null(mock->cluster);
    (void)snprintf(bootstrap, sizeof(bootstrap), "%s",
                   rd_kafka_mock_cluster_bootstraps(mock->cluster));
    mock_kafka_set(mock, "bootstrap.servers", bootstrap);
    mock_kafka_set(mock, "log_level", "0");
    mock_kafka_set(mock, "reconnect.backoff.max.ms", "500");
}

void mock_kafka_finish(struct mock_kafka *mock)
{
    rd_kafka_destroy(mock->host);
    for (size_t i = 0; i < mock->kafka.count; i++) {
        free(mock->kafka.items[i].name);
        free(mock->kafka.items[i].value);
    }
    free(mock->kafka.items);
}

void mock_kafka_topic(struct mock_kafka *mock, const char *topic, int partition_count)
{
    cr_assert_eq(rd_kafka_mock_topic_create(mock->cluster, topic, partition_count, 1),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
}

void mock_kafka_fail(struct mock_kafka *mock, enum mock_api api, rd_kafka_resp_err_t error,
                     size_t times)
{
    for (size_t i = 0; i < times; i++)
        rd_kafka_mock_push_request_errors_array(mock->cluster, (int16_t)api, 1, &error);
}

void mock_kafka_delay(struct mock_kafka *mock, int rtt_ms)
{
    cr_assert_eq(rd_kafka_mock_broker_set_rtt(mock->cluster, MOCK_BROKER, rtt_ms),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
}

static void *bytes(const char *text)
{
    return (void *)(uintptr_t)text;
}

static size_t length(const char *text)
{
    return text == NULL ? 0 : strlen(text);
}

static void put(struct mock_kafka *mock, const char *topic, int32_t partition, const char *key,
                const char *value, int64_t timestamp_ms, rd_kafka_headers_t *headers)
{
    rd_kafka_resp_err_t error = rd_kafka_producev(
        mock->host, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(partition),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(bytes(key), length(key)),
        RD_KAFKA_V_VALUE(bytes(value), length(value)), RD_KAFKA_V_TIMESTAMP(timestamp_ms),
        RD_KAFKA_V_HEADERS(headers == NULL ? rd_kafka_headers_new(0) : headers), RD_KAFKA_V_END);

    cr_assert_eq(error, RD_KAFKA_RESP_ERR_NO_ERROR, "%s", rd_kafka_err2str(error));
}

void mock_kafka_write(struct mock_kafka *mock, const char *topic, int32_t partition,
                      const char *key, const char *value, int64_t timestamp_ms,
                      rd_kafka_headers_t *headers)
{
    put(mock, topic, partition, key, value, timestamp_ms, headers);
    cr_assert_eq(rd_kafka_flush(mock->host, MOCK_WAIT_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
}

void mock_kafka_fill(struct mock_kafka *mock, const char *topic, int32_t partition, int count)
{
    for (int i = 0; i < count; i++) {
        char value[16];

        (void)snprintf(value, sizeof(value), "%d", i);
        put(mock, topic, partition, "k", value, 0, NULL);
    }
    cr_assert_eq(rd_kafka_flush(mock->host, MOCK_WAIT_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
}
