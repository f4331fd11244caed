/*
 * The Kafka thread on librdkafka's mock cluster: what it does when brokers fail. What the mock does
 * not have (descriptions of groups and configurations) is tested on a real broker, by
 * tests/system/test_contract_http.py.
 */
#include <criterion/criterion.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h> /* after it */
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/kafka_private.h"

/* Numbers of Kafka's protocol. */
#define API_LIST_OFFSETS  2
#define API_METADATA      3
#define API_OFFSET_COMMIT 8
#define API_OFFSET_FETCH  9

#define TOPIC      "in"
#define PARTITIONS 3
#define GROUP      "group"
#define LIMIT_MS   8000
#define RESULTS    8

struct play {
    rd_kafka_t *host;
    rd_kafka_mock_cluster_t *cluster;
    struct opts_kafka options;
    struct kafka *kafka;
    sem_t delivered;
    struct kafka_result *results[RESULTS];
    size_t result_count;
};

static void deliver(void *context, struct kafka_result *result)
{
    struct play *play = context;
    cr_assert_lt(play->result_count, RESULTS);
    play->results[play->result_count++] = result;
    sem_post(&play->delivered);
}

static void begin(struct play *play)
{
    char text[256];
    struct err err = {0};
    *play = (struct play){0};
    sem_init(&play->delivered, 0, 0);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    play->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    cr_assert_not_null(play->host, "%s", text);
    play->cluster = rd_kafka_mock_cluster_new(play->host, 1);
    rd_kafka_mock_topic_create(play->cluster, TOPIC, PARTITIONS, 1);
    play->options.items = mem_calloc(1, sizeof(*play->options.items));
    play->options.count = 1;
    play->options.items[0].name = mem_strdup("bootstrap.servers");
    play->options.items[0].value = mem_strdup(rd_kafka_mock_cluster_bootstraps(play->cluster));
    cr_assert_eq(kafka_create(&play->options, &play->kafka, &err), ERR_NONE, "%s", err.text);
}

static void end(struct play *play)
{
    kafka_destroy(play->kafka);
    for (size_t i = 0; i < play->result_count; i++) {
        kafka_result_finish(play->results[i]);
        free(play->results[i]);
    }
    rd_kafka_mock_cluster_destroy(play->cluster);
    rd_kafka_destroy(play->host);
    free(play->options.items[0].name);
    free(play->options.items[0].value);
    free(play->options.items);
    sem_destroy(&play->delivered);
}

/* Writes `count` records with keys, where murmur2 puts them. */
static void produce(const struct play *play, int count)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", play->options.items[0].value, text, sizeof(text));
    rd_kafka_conf_set(conf, "partitioner", "murmur2_random", text, sizeof(text));
    rd_kafka_t *producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    for (int i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key-%d", i);
        cr_assert_eq(rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(TOPIC),
                                       RD_KAFKA_V_KEY(key, strlen(key)), RD_KAFKA_V_VALUE("v", 1),
                                       RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    cr_assert_eq(rd_kafka_flush(producer, LIMIT_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_destroy(producer);
}

static struct kafka_call make_call(enum kafka_call_kind kind, uint64_t id)
{
    struct kafka_call call = {
        .id = id, .kind = kind, .job = mem_strdup("job"), .group_id = mem_strdup(GROUP)};
    call.inputs.items = mem_calloc(1, sizeof(char *));
    call.inputs.items[0] = mem_strdup(TOPIC);
    call.inputs.count = 1;
    call.partitions_initial = call.partitions = PARTITIONS;
    return call;
}

static struct kafka_call make_commit(uint64_t id)
{
    struct kafka_call call = make_call(KAFKA_CALL_COMMIT, id);
    call.offsets.count = PARTITIONS;
    call.offsets.items = mem_calloc(PARTITIONS, sizeof(*call.offsets.items));
    for (uint32_t p = 0; p < PARTITIONS; p++)
        call.offsets.items[p] = (struct kafka_offset){
            .partition = p, .offset = 10 * p, .metadata = mem_printf("b1 stamp %u", p)};
    return call;
}

static struct kafka_result commit(struct play *play)
{
    struct kafka_call call = make_commit(1);
    struct kafka_result result = {0};
    kafka_commit(play->kafka, &call, &result);
    kafka_call_finish(&call);
    return result;
}

/* Goal: what was committed is read back, with its metadata; nothing stored is unknown, not 0. */
Test(kafka, commits_and_reads_back, .timeout = 60)
{
    struct play play;
    begin(&play);
    struct kafka_result result = commit(&play);
    cr_assert_not(result.failed, "%s", result.detail);
    cr_assert_eq(result.committed.count, PARTITIONS);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        char stamp[16];
        snprintf(stamp, sizeof(stamp), "b1 stamp %u", p);
        cr_assert_eq(result.committed.items[p].offset, 10 * p);
        cr_assert_str_eq(result.committed.items[p].metadata, stamp);
    }
    kafka_result_finish(&result);

    rd_kafka_topic_partition_list_t *wanted = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_t *seen = NULL;
    rd_kafka_topic_partition_list_add(wanted, TOPIC, 0);
    cr_assert_eq(
        kafka_ask_committed(play.kafka, "another", wanted, clock_mono_ms() + LIMIT_MS, &seen, NULL),
        ERR_NONE);
    cr_assert_lt(seen->elems[0].offset, 0);
    rd_kafka_topic_partition_list_destroy(wanted);
    rd_kafka_topic_partition_list_destroy(seen);
    end(&play);
}

/* Goal (S10): a group coordinator that is not there for a moment is waited for. */
Test(kafka, waits_for_a_group_coordinator, .timeout = 60)
{
    struct play play;
    begin(&play);
    rd_kafka_mock_push_request_errors(play.cluster, API_OFFSET_COMMIT, 2,
                                      RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
                                      RD_KAFKA_RESP_ERR_NOT_COORDINATOR);
    rd_kafka_mock_push_request_errors(play.cluster, API_OFFSET_FETCH, 2,
                                      RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
                                      RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT);
    struct kafka_result result = commit(&play);
    cr_assert_not(result.failed, "%s", result.detail);
    cr_assert_eq(result.committed.items[2].offset, 20);
    kafka_result_finish(&result);
    end(&play);
}

/* Goal: what will not change by itself is not repeated, and says so; offsets are unknown then, not
 * 0. */
Test(kafka, gives_up_at_once_when_refused, .timeout = 60)
{
    struct play play;
    begin(&play);
    rd_kafka_mock_push_request_errors(play.cluster, API_OFFSET_COMMIT, 1,
                                      RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    struct kafka_result result = commit(&play);
    cr_assert(result.failed && result.refused);
    cr_assert_not_null(strstr(result.detail, "GROUP_AUTHORIZATION_FAILED"), "%s", result.detail);
    cr_assert_eq(result.committed.count, 0);
    kafka_result_finish(&result);

    rd_kafka_mock_push_request_errors(play.cluster, API_OFFSET_COMMIT, 1,
                                      RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID);
    result = commit(&play);
    cr_assert(result.failed && result.refused);
    cr_assert_not_null(strstr(result.detail, "has members"), "%s", result.detail);
    kafka_result_finish(&result);
    end(&play);
}

static rd_kafka_topic_partition_list_t *all_partitions(void)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(PARTITIONS);
    for (int32_t p = 0; p < PARTITIONS; p++)
        rd_kafka_topic_partition_list_add(list, TOPIC, p);
    return list;
}

/* Goal (S9): ends are what the broker says, at the second try if need be, or there are none. */
Test(kafka, asks_for_edges, .timeout = 60)
{
    struct play play;
    struct err err = {0};
    begin(&play);
    produce(&play, 60);
    rd_kafka_topic_partition_list_t *list = all_partitions();
    rd_kafka_mock_push_request_errors(play.cluster, API_LIST_OFFSETS, 2,
                                      RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                      RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE);
    int64_t deadline_ms = clock_mono_ms() + LIMIT_MS;
    cr_assert_eq(kafka_ask_edge(play.kafka, KAFKA_EDGE_END, deadline_ms, list, &err), ERR_NONE,
                 "%s", err.text);
    int64_t sum = 0;
    for (int p = 0; p < PARTITIONS; p++)
        sum += list->elems[p].offset;
    cr_assert_eq(sum, 60);
    cr_assert_eq(kafka_ask_edge(play.kafka, KAFKA_EDGE_LOG_START, deadline_ms, list, &err),
                 ERR_NONE);
    cr_assert_eq(list->elems[1].offset, 0);

    rd_kafka_mock_push_request_errors(play.cluster, API_LIST_OFFSETS, 1,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    cr_assert_eq(kafka_ask_edge(play.kafka, KAFKA_EDGE_END, deadline_ms, list, &err), ERR_KAFKA);
    cr_assert_not(err.retriable);
    cr_assert_not_null(strstr(err.text, "log ends of topic in"), "%s", err.text);
    rd_kafka_topic_partition_list_destroy(list);
    end(&play);
}

/* Goal: a broker that does not answer is not a topic that does not exist. */
Test(kafka, tells_missing_from_unreachable, .timeout = 60)
{
    struct play play;
    struct err err = {0};
    begin(&play);
    struct kafka_topic topic = {0};
    cr_assert_eq(kafka_ask_topic(play.kafka, TOPIC, clock_mono_ms() + LIMIT_MS, &topic, &err),
                 ERR_NONE);
    cr_assert(topic.exists);
    cr_assert_eq(topic.partition_count, PARTITIONS);
    free(topic.name);
    rd_kafka_mock_topic_set_error(play.cluster, "gone", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    cr_assert_eq(kafka_ask_topic(play.kafka, "gone", clock_mono_ms() + LIMIT_MS, &topic, &err),
                 ERR_NONE);
    cr_assert_not(topic.exists);
    free(topic.name);

    rd_kafka_mock_broker_set_down(play.cluster, 1);
    cr_assert_eq(kafka_ask_topic(play.kafka, TOPIC, clock_mono_ms() + 1000, &topic, &err),
                 ERR_UNAVAILABLE);
    cr_assert(err.retriable);
    end(&play);
}

/* Goal: the hash by which records lie where they are is found, from a part of them. */
Test(kafka, samples_keys, .timeout = 60)
{
    struct play play;
    begin(&play);
    struct kafka_call call = make_call(KAFKA_CALL_SAMPLE, 1);
    struct kafka_result result = {0};
    kafka_sample(play.kafka, &call, &result);
    cr_assert_not(result.failed, "%s", result.detail);
    cr_assert_eq(result.sample.keyed, 0);
    kafka_result_finish(&result);

    produce(&play, 4500);
    result = (struct kafka_result){0};
    kafka_sample(play.kafka, &call, &result);
    cr_assert_not(result.failed, "%s", result.detail);
    cr_assert_eq(result.sample.keyed, PARTITIONS * 1000);
    cr_assert_eq(result.sample.murmur2, result.sample.keyed);
    cr_assert_lt(result.sample.crc32, result.sample.keyed / 2);
    cr_assert_eq(result.sample.both, result.sample.crc32);
    kafka_result_finish(&result);
    kafka_call_finish(&call);
    end(&play);
}

/* Goal: the mock offers what brokers before 2.5 do, and that is noticed. */
Test(kafka, notices_old_brokers, .timeout = 60)
{
    struct play play;
    begin(&play);
    struct kafka_call call = make_call(KAFKA_CALL_FENCE, 1);
    call.transactional_ids.count = 2;
    call.transactional_ids.items = mem_calloc(2, sizeof(char *));
    call.transactional_ids.items[0] = mem_strdup("baton.a");
    call.transactional_ids.items[1] = mem_strdup("baton.b");
    struct kafka_result result = {0};
    kafka_fence(play.kafka, &call, &result);
    cr_assert_not(result.failed, "%s", result.detail);
    char *detail = NULL;
    cr_assert_eq(kafka_versions_transactions(play.kafka->versions, &detail), KAFKA_CAPABILITY_NO);
    cr_assert_not_null(strstr(detail, "OffsetFetch up to version 5, 7 is needed"), "%s", detail);
    free(detail);
    kafka_call_finish(&call);
    kafka_result_finish(&result);
    end(&play);
}

/* Goal: one result for each call, in the order in which they were posted. */
Test(kafka, serves_in_order, .timeout = 60)
{
    struct play play;
    begin(&play);
    cr_assert_eq(kafka_start(play.kafka, deliver, &play, NULL), ERR_NONE);
    for (uint64_t id = 1; id <= 3; id++) {
        struct kafka_call call = make_commit(id);
        cr_assert(kafka_post(play.kafka, &call));
        cr_assert_null(call.job); /* taken */
    }
    for (int i = 0; i < 3; i++)
        cr_assert_eq(sem_wait(&play.delivered), 0);
    for (uint64_t id = 1; id <= 3; id++) {
        cr_assert_eq(play.results[id - 1]->id, id);
        cr_assert_not(play.results[id - 1]->failed);
    }
    cr_assert(kafka_answered(play.kafka));
    struct kafka_counts counts;
    kafka_count(play.kafka, &counts);
    cr_assert_eq(counts.calls[KAFKA_CALL_COMMIT], 3);
    cr_assert_eq(counts.failures[KAFKA_CALL_COMMIT], 0);
    end(&play);
}

/* Goal: a stop does not wait for brokers that are away; what was not done is not said to have
 * failed. */
Test(kafka, stops_while_brokers_are_away, .timeout = 60)
{
    struct play play;
    begin(&play);
    rd_kafka_mock_broker_set_down(play.cluster, 1);
    cr_assert_eq(kafka_start(play.kafka, deliver, &play, NULL), ERR_NONE);
    for (uint64_t id = 1; id <= 2; id++) {
        struct kafka_call call = make_commit(id);
        cr_assert(kafka_post(play.kafka, &call));
    }
    int64_t start_ms = clock_mono_ms();
    kafka_stop(play.kafka);
    cr_assert_lt(clock_mono_ms() - start_ms, 3 * KAFKA_SLICE_MS);
    cr_assert_eq(play.result_count, 0);
    cr_assert_not(kafka_answered(play.kafka));
    struct kafka_call late = make_commit(3);
    cr_assert_not(kafka_post(play.kafka, &late));
    kafka_call_finish(&late);
    end(&play);
}

/* Goal: what the operator wants to debug is shown, and the brokers' versions are still learned. */
Test(kafka, keeps_the_operators_debug, .timeout = 60)
{
    struct play play;
    struct err err = {0};
    begin(&play);
    kafka_destroy(play.kafka);
    play.options.items = mem_realloc(play.options.items, 2, sizeof(*play.options.items));
    play.options.items[1].name = "debug";
    play.options.items[1].value = "conf";
    play.options.count = 2;
    cr_assert_eq(kafka_create(&play.options, &play.kafka, &err), ERR_NONE, "%s", err.text);
    char debug[64];
    size_t bytes = sizeof(debug);
    cr_assert_eq(rd_kafka_conf_get(rd_kafka_conf(play.kafka->client), "debug", debug, &bytes),
                 RD_KAFKA_CONF_OK);
    cr_assert_not_null(strstr(debug, "conf"));
    cr_assert_not_null(strstr(debug, "feature"));
    end(&play);
}

Test(kafka, refuses_bad_options)
{
    static const struct {
        char *name, *value;
        const char *says;
    } cases[] = {{"no.such.option", "1", "kafka.no.such.option"},
                 {"bootstrap.servers", "", "kafka.bootstrap.servers: is required"},
                 {"socket.timeout.ms", "never", "kafka.socket.timeout.ms"},
                 {"security.protocol", "pigeon", "kafka.security.protocol"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct opts_kafka options = {.items = mem_calloc(1, sizeof(*options.items)), .count = 1};
        options.items[0].name = cases[i].name;
        options.items[0].value = cases[i].value;
        struct kafka *kafka = NULL;
        struct err err = {0};
        cr_assert_eq(kafka_create(&options, &kafka, &err), ERR_INVALID);
        cr_assert_not_null(strstr(err.text, cases[i].says), "%s", err.text);
        cr_assert_null(kafka);
        free(options.items);
    }
}
