#include "producer/partitioner.h"

#include <criterion/criterion.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/golden/partitions.h"

#define TOPIC   "orders"
#define COUNT   5 /* partitions of it */
#define WAIT_MS 30000

/* ---- where a key belongs */

static void check_key(const struct golden_key *key)
{
    for (size_t i = 0; i < GOLDEN_SIZES; i++) {
        struct linhash_size size = key->places[i].size;
        struct baton_partitioner murmur2 = {size.initial, BATON_PARTITIONER_MURMUR2};
        struct baton_partitioner crc32 = {size.initial, BATON_PARTITIONER_CRC32};
        int32_t now = (int32_t)size.now;
        cr_assert_eq(baton_partitioner_partition(&murmur2, key->bytes, key->count, now),
                     (int32_t)key->places[i].by_murmur2);
        cr_assert_eq(baton_partitioner_partition(&crc32, key->bytes, key->count, now),
                     (int32_t)key->places[i].by_crc32);
        /* The empty key is never taken for none: for that librdkafka would be asked, with no topic.
         */
        cr_assert_eq(baton_partitioner_callback(NULL, key->bytes, key->count, now, &murmur2, NULL),
                     (int32_t)key->places[i].by_murmur2);
    }
}

Test(partitioner, agrees_with_the_golden_vectors)
{
    golden_each_key(check_key);
}

static void check_doubling(const struct golden_key *key)
{
    for (uint32_t level = 0; level < 8; level++) {
        struct baton_partitioner murmur2 = {3, BATON_PARTITIONER_MURMUR2};
        struct baton_partitioner crc32 = {3, BATON_PARTITIONER_CRC32};
        int32_t now = 3 << level;
        cr_assert_eq(
            baton_partitioner_partition(&murmur2, key->bytes, key->count, now),
            rd_kafka_msg_partitioner_murmur2(NULL, key->bytes, key->count, now, NULL, NULL));
        cr_assert_eq(
            baton_partitioner_partition(&crc32, key->bytes, key->count, now),
            rd_kafka_msg_partitioner_consistent(NULL, key->bytes, key->count, now, NULL, NULL));
    }
}

Test(partitioner, equals_librdkafkas_own_at_every_doubling)
{
    golden_each_key(check_doubling);
}

Test(partitioner, has_no_answer_below_the_initial_count_or_without_a_valid_partitioner)
{
    static const struct {
        struct baton_partitioner partitioner;
        int32_t count;
    } cases[] = {
        {{4, BATON_PARTITIONER_MURMUR2}, 3}, {{4, BATON_PARTITIONER_CRC32}, 0},
        {{4, BATON_PARTITIONER_CRC32}, -4},  {{0, BATON_PARTITIONER_MURMUR2}, 4},
        {{UINT32_MAX, 0}, INT32_MAX},        {{4, (enum baton_partitioner_hash)2}, 4},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_assert_eq(baton_partitioner_partition(&cases[i].partitioner, "k", 1, cases[i].count), -1,
                     "case %zu", i);
}

/* ---- what is refused */

Test(partitioner, a_wrong_partitioner_is_refused_with_what_to_do)
{
    static const struct {
        struct baton_partitioner partitioner;
        const char *text;
    } cases[] = {
        {{0, BATON_PARTITIONER_MURMUR2}, "initial_partitions is 0: set it to the number of"},
        {{UINT32_MAX, BATON_PARTITIONER_CRC32}, "initial_partitions is 4294967295: set it to the"},
        {{1, (enum baton_partitioner_hash)7}, "hash is 7: set it to BATON_PARTITIONER_MURMUR2 or"},
    };
    rd_kafka_topic_conf_t *conf = rd_kafka_topic_conf_new();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256] = "";
        cr_assert_eq(baton_partitioner_set(conf, &cases[i].partitioner, text, sizeof(text)), -1);
        cr_assert_eq(strncmp(text, cases[i].text, strlen(cases[i].text)), 0, "%s", text);
        cr_assert_eq(baton_partitioner_set(conf, &cases[i].partitioner, NULL, 0), -1);
    }
    rd_kafka_topic_conf_destroy(conf);
}

/* ---- in a producer, on librdkafka's mock of a cluster */

struct report {
    bool came;
    rd_kafka_resp_err_t error;
    int32_t partition;
};

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    struct report *report = message->_private;

    (void)client;
    (void)opaque;
    *report = (struct report){true, message->err, message->partition};
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];
    cr_assert_eq(rd_kafka_conf_set(conf, name, value, text, sizeof(text)), RD_KAFKA_CONF_OK, "%s",
                 text);
}

/* A producer, and the cluster inside it with TOPIC. */
static rd_kafka_t *open_producer(const struct baton_partitioner *partitioner)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_conf_t *topic_conf = rd_kafka_topic_conf_new();
    char text[256];

    set(conf, "test.mock.num.brokers", "1");
    set(conf, "log_level", "3");
    set(conf, "linger.ms", "0");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    cr_assert_eq(baton_partitioner_set(topic_conf, partitioner, text, sizeof(text)), 0, "%s", text);
    rd_kafka_conf_set_default_topic_conf(conf, topic_conf);
    rd_kafka_t *producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    cr_assert_not_null(producer, "%s", text);
    cr_assert_eq(
        rd_kafka_mock_topic_create(rd_kafka_handle_mock_cluster(producer), TOPIC, COUNT, 1),
        RD_KAFKA_RESP_ERR_NO_ERROR);
    return producer;
}

/* What became of a record: refused at once, or what its delivery report says. */
static struct report put(rd_kafka_t *producer, const void *key, size_t key_bytes)
{
    struct report report = {0};
    rd_kafka_resp_err_t error = rd_kafka_producev(
        producer, RD_KAFKA_V_TOPIC(TOPIC), RD_KAFKA_V_VALUE("v", 1),
        RD_KAFKA_V_KEY((void *)key, key_bytes), RD_KAFKA_V_OPAQUE(&report), RD_KAFKA_V_END);

    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return (struct report){true, error, -1};
    cr_assert_eq(rd_kafka_flush(producer, WAIT_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
    cr_assert(report.came);
    return report;
}

Test(partitioner, a_producer_puts_records_where_the_key_belongs)
{
    struct baton_partitioner partitioner = {2, BATON_PARTITIONER_MURMUR2};
    rd_kafka_t *producer = open_producer(&partitioner);
    bool seen[COUNT] = {false};

    for (int number = 0; number < 40; number++) {
        char key[16];
        size_t bytes = (size_t)snprintf(key, sizeof(key), "%d", number);
        struct report report = put(producer, key, bytes);
        cr_assert_eq(report.error, RD_KAFKA_RESP_ERR_NO_ERROR);
        cr_assert_eq(report.partition,
                     baton_partitioner_partition(&partitioner, key, bytes, COUNT));
        seen[report.partition] = true;
    }
    for (int partition = 0; partition < COUNT; partition++)
        cr_assert(seen[partition], "no key was put into %d", partition);
    struct report empty = put(producer, "", 0);
    cr_assert_eq(empty.partition, baton_partitioner_partition(&partitioner, NULL, 0, COUNT));
    cr_assert_eq(put(producer, NULL, 0).error, RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_destroy(producer);
}

/* The topic's metadata is not there yet for the first, and is for the second. */
Test(partitioner, a_record_without_a_place_is_refused_and_not_kept)
{
    struct baton_partitioner partitioner = {COUNT + 1, BATON_PARTITIONER_CRC32};
    rd_kafka_t *producer = open_producer(&partitioner);

    cr_assert_eq(put(producer, "k", 1).error, RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION);
    cr_assert_eq(put(producer, "k", 1).error, RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION);
    cr_assert_eq(rd_kafka_outq_len(producer), 0);
    rd_kafka_destroy(producer);
}
