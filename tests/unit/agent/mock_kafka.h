/*
 * librdkafka's mock cluster for the tests of the agent's Kafka clients: one broker or several in
 * this process that fail as they are told. It knows no control records, no aborted transactions and
 * no history; those are left to the system tests. Owned by the test's thread.
 */
#ifndef BATON_TESTS_MOCK_KAFKA_H
#define BATON_TESTS_MOCK_KAFKA_H

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/opts.h"

#define MOCK_BROKER  1
#define MOCK_WAIT_MS 10000 /* for whatever must come */

struct mock_kafka {
    rd_kafka_t *host; /* of the cluster; also writes records */
    rd_kafka_mock_cluster_t *cluster;
    struct opts_kafka kafka; /* how clients find it: their kafka.* properties */
};

enum mock_api { /* Kafka's numbers of requests */
                MOCK_PRODUCE = 0,
                MOCK_FETCH = 1,
                MOCK_LIST_OFFSETS = 2,
                MOCK_METADATA = 3,
                MOCK_OFFSET_COMMIT = 8,
                MOCK_OFFSET_FETCH = 9,
                MOCK_FIND_COORDINATOR = 10,
                MOCK_INIT_PRODUCER_ID = 22,
                MOCK_ADD_PARTITIONS = 24,
                MOCK_ADD_OFFSETS = 25,
                MOCK_END_TXN = 26,
                MOCK_TXN_OFFSET_COMMIT = 28
};

void mock_kafka_start(struct mock_kafka *mock); /* one broker, MOCK_BROKER */
void mock_kafka_start_brokers(struct mock_kafka *mock, const char *count); /* from that number on */
void mock_kafka_finish(struct mock_kafka *mock);
void mock_kafka_set(struct mock_kafka *mock, const char *name, const char *value);
void mock_kafka_topic(struct mock_kafka *mock, const char *topic, int partition_count);

/* The next `times` requests of that kind are answered with `error`. */
void mock_kafka_fail(struct mock_kafka *mock, enum mock_api api, rd_kafka_resp_err_t error,
                     size_t times);
void mock_kafka_delay(struct mock_kafka *mock, int rtt_ms); /* every answer of the broker */

/* One record to the partition, acknowledged. NULL key and value are null. Takes `headers`. */
void mock_kafka_write(struct mock_kafka *mock, const char *topic, int32_t partition,
                      const char *key, const char *value, int64_t timestamp_ms,
                      rd_kafka_headers_t *headers);
/* `count` records with the key "k" and the values "0", "1", ... */
void mock_kafka_fill(struct mock_kafka *mock, const char *topic, int32_t partition, int count);

#endif
