#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/kafka_private.h"

#define ADMIN_TIMEOUT_MS 5000
#define ADMIN_SLICE_MS   100

/* ---- topics */

/* One answer about the topic; the first fault of a partition speaks for the topic. */
static rd_kafka_resp_err_t read_topic(const struct rd_kafka_metadata_topic *seen,
                                      struct kafka_topic *ret_topic)
{
    if (seen->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        return RD_KAFKA_RESP_ERR_NO_ERROR; /* an answer, too: it does not exist */
    if (seen->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return seen->err;
    for (int i = 0; i < seen->partition_cnt; i++) {
        rd_kafka_resp_err_t code = seen->partitions[i].err;
        /* A replica that is away does not keep the leader from answering. */
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE)
            return code;
    }
    ret_topic->exists = true;
    ret_topic->partition_count = (uint32_t)seen->partition_cnt;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t ask_topic_once(struct kafka *kafka, rd_kafka_topic_t *handle,
                                          int timeout_ms, struct kafka_topic *ret_topic)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->client, 0, handle, &metadata, timeout_ms);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return code;
    code = metadata->topic_cnt == 1 ? read_topic(&metadata->topics[0], ret_topic)
                                    : RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
    rd_kafka_metadata_destroy(metadata);
    return code;
}

enum err_code kafka_ask_topic(struct kafka *kafka, const char *name, int64_t deadline_ms,
                              struct kafka_topic *ret_topic, struct err *reterr)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(kafka->client, name, NULL);
    struct kafka_topic topic = {.name = mem_strdup(name), .retention_ms = -1};
    rd_kafka_resp_err_t code;
    assert(handle != NULL); /* the name was checked by Kafka's own rule */
    do
        code = ask_topic_once(kafka, handle, kafka_slice(deadline_ms), &topic);
    while (kafka_retriable(code) && kafka_backoff(kafka, deadline_ms));
    rd_kafka_topic_destroy(handle);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        free(topic.name);
        return kafka_fail(reterr, code, "metadata of topic %s", name);
    }
    *ret_topic = topic;
    return ERR_NONE;
}

/* ---- admin requests */

struct kafka_admin kafka_admin_begin(struct kafka *kafka, rd_kafka_admin_op_t kind)
{
    char text[128];
    struct kafka_admin admin = {.kafka = kafka,
                                .options = rd_kafka_AdminOptions_new(kafka->client, kind),
                                .queue = rd_kafka_queue_new(kafka->client)};
    rd_kafka_resp_err_t code = rd_kafka_AdminOptions_set_request_timeout(
        admin.options, ADMIN_TIMEOUT_MS, text, sizeof(text));
    assert(code == RD_KAFKA_RESP_ERR_NO_ERROR);
    return admin;
}

/*
 * A request to a group's coordinator that has timed out stays behind in librdkafka (2.0.2), which
 * carries it on when a broker comes up, though what belongs to it is freed: the process ends at an
 * assertion. It goes with its client.
 */
void kafka_admin_end(struct kafka_admin *admin, rd_kafka_resp_err_t code)
{
    rd_kafka_queue_destroy(admin->queue);
    rd_kafka_AdminOptions_destroy(admin->options);
    if (code == RD_KAFKA_RESP_ERR__TIMED_OUT)
        kafka_renew_client(admin->kafka);
}

/* The answer to the request that was just sent; NULL with *ret_code when there is none. */
rd_kafka_event_t *kafka_admin_await(struct kafka_admin *admin, rd_kafka_resp_err_t *ret_code)
{
    rd_kafka_event_t *event = NULL;
    /* The request has its own timeout; this one is a bound on top of it. */
    int64_t deadline_ms = clock_mono_ms() + ADMIN_TIMEOUT_MS + KAFKA_SLICE_MS;
    while (event == NULL && !kafka_stopping(admin->kafka) && clock_mono_ms() < deadline_ms)
        event = rd_kafka_queue_poll(admin->queue, ADMIN_SLICE_MS);
    *ret_code = event == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(event);
    if (*ret_code != RD_KAFKA_RESP_ERR_NO_ERROR && event != NULL) {
        rd_kafka_event_destroy(event);
        event = NULL;
    }
    return event;
}

/* ---- configuration of topics */

static void read_config(const rd_kafka_ConfigResource_t *resource, struct kafka_topic *topic)
{
    size_t count = 0;
    int64_t retention_bytes = -1;
    bool has_delete = false;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &count);
    for (size_t i = 0; i < count; i++) {
        const char *name = rd_kafka_ConfigEntry_name(entries[i]);
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);
        if (value == NULL)
            continue;
        if (strcmp(name, "cleanup.policy") == 0) {
            topic->compacted = strstr(value, "compact") != NULL;
            has_delete = strstr(value, "delete") != NULL;
        } else if (strcmp(name, "retention.ms") == 0) {
            topic->retention_ms = strtoll(value, NULL, 10);
        } else if (strcmp(name, "retention.bytes") == 0) {
            retention_bytes = strtoll(value, NULL, 10);
        }
    }
    if (topic->retention_ms < 0)
        topic->retention_ms = -1;
    topic->deletes = has_delete && (topic->retention_ms >= 0 || retention_bytes >= 0);
}

static rd_kafka_resp_err_t ask_config_once(struct kafka *kafka, struct kafka_topic *topic)
{
    struct kafka_admin admin = kafka_admin_begin(kafka, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic->name);
    rd_kafka_DescribeConfigs(kafka->client, &resource, 1, admin.options, admin.queue);
    rd_kafka_resp_err_t code;
    rd_kafka_event_t *event = kafka_admin_await(&admin, &code);
    if (event != NULL) {
        size_t count = 0;
        const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(event), &count);
        code =
            count == 1 ? rd_kafka_ConfigResource_error(resources[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            read_config(resources[0], topic);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_ConfigResource_destroy(resource);
    kafka_admin_end(&admin, code);
    return code;
}

enum err_code kafka_ask_topic_config(struct kafka *kafka, int64_t deadline_ms,
                                     struct kafka_topic *topic, struct err *reterr)
{
    rd_kafka_resp_err_t code;
    do
        code = ask_config_once(kafka, topic);
    while (kafka_retriable(code) && kafka_backoff(kafka, deadline_ms));
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail(reterr, code, "configuration of topic %s", topic->name);
    return ERR_NONE;
}

/* ---- where partitions start and end */

/*
 * rd_kafka_offsets_for_times asks for all partitions at once, one request a leader, and hands what
 * we say as time through to the broker: -2 and -1 are the ListOffsets protocol's own words for the
 * log's start and end, the same that rd_kafka_query_watermark_offsets sends, partition by
 * partition. The end is the last stable offset on a read_committed client.
 */
static rd_kafka_resp_err_t ask_edge_once(rd_kafka_t *client, int64_t wanted, int timeout_ms,
                                         rd_kafka_topic_partition_list_t *offsets)
{
    for (int i = 0; i < offsets->cnt; i++)
        offsets->elems[i].offset = wanted;
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(client, offsets, timeout_ms);
    for (int i = 0; i < offsets->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        code = offsets->elems[i].err;
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR && offsets->elems[i].offset < 0)
            code = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE; /* was not answered */
    }
    return code;
}

/*
 * A client remembers a topic's partitions for minutes, and another one of ours has just heard that
 * there are more. What it can not look up now, the next question will say.
 */
static void renew_metadata(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *list,
                           int64_t deadline_ms)
{
    for (int i = 0; i < list->cnt; i++) {
        const struct rd_kafka_metadata *metadata = NULL;
        if (i > 0 && strcmp(list->elems[i].topic, list->elems[i - 1].topic) == 0)
            continue;
        rd_kafka_topic_t *handle = rd_kafka_topic_new(client, list->elems[i].topic, NULL);
        assert(handle != NULL); /* the name was checked by Kafka's own rule */
        if (rd_kafka_metadata(client, 0, handle, &metadata, kafka_slice(deadline_ms)) ==
            RD_KAFKA_RESP_ERR_NO_ERROR)
            rd_kafka_metadata_destroy(metadata);
        rd_kafka_topic_destroy(handle);
    }
}

enum err_code kafka_ask_edge(struct kafka *kafka, enum kafka_edge edge, int64_t deadline_ms,
                             rd_kafka_topic_partition_list_t *offsets, struct err *reterr)
{
    static const char *const names[] = {"log starts", "last stable offsets", "log ends"};
    rd_kafka_t *client = edge == KAFKA_EDGE_END ? kafka->client : kafka->committed;
    int64_t wanted = edge == KAFKA_EDGE_LOG_START ? RD_KAFKA_OFFSET_BEGINNING : RD_KAFKA_OFFSET_END;
    rd_kafka_resp_err_t code = ask_edge_once(client, wanted, kafka_slice(deadline_ms), offsets);
    if (code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
        renew_metadata(client, offsets, deadline_ms);
        code = ask_edge_once(client, wanted, kafka_slice(deadline_ms), offsets);
    }
    while (kafka_retriable(code) && kafka_backoff(kafka, deadline_ms))
        code = ask_edge_once(client, wanted, kafka_slice(deadline_ms), offsets);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail(reterr, code, "%s of topic %s", names[edge], offsets->elems[0].topic);
    return ERR_NONE;
}

/* ---- offsets of a group */

static rd_kafka_resp_err_t first_error(const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++) {
        if (list->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR)
            return list->elems[i].err;
    }
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* The group's part of a result: its partitions, or the error of the group or of a partition. */
static rd_kafka_resp_err_t read_group_result(const rd_kafka_group_result_t **groups, size_t count,
                                             const rd_kafka_topic_partition_list_t **ret_partitions)
{
    if (count != 1)
        return RD_KAFKA_RESP_ERR__BAD_MSG;
    const rd_kafka_error_t *error = rd_kafka_group_result_error(groups[0]);
    if (error != NULL)
        return rd_kafka_error_code(error);
    const rd_kafka_topic_partition_list_t *partitions = rd_kafka_group_result_partitions(groups[0]);
    if (partitions == NULL)
        return RD_KAFKA_RESP_ERR__BAD_MSG;
    *ret_partitions = partitions;
    return first_error(partitions);
}

static enum err_code create_reader(struct kafka *kafka, const char *group_id,
                                   rd_kafka_t **ret_client, struct err *reterr)
{
    const struct kafka_property properties[] = {
        {"group.id", group_id},
        {"isolation.level", "read_committed"}, /* not what a transaction that may still abort has
                                                  written */
        {"enable.auto.commit", "false"},
        {"allow.auto.create.topics", "false"},
        {"debug", "feature"},
    };
    return kafka_client_create(kafka, kafka->options, RD_KAFKA_CONSUMER, properties,
                               sizeof(properties) / sizeof(properties[0]), ret_client, reterr);
}

static rd_kafka_resp_err_t ask_committed_once(rd_kafka_t *client,
                                              rd_kafka_topic_partition_list_t *partitions)
{
    rd_kafka_resp_err_t code = rd_kafka_committed(client, partitions, ADMIN_TIMEOUT_MS);
    /* Why the group can not be read (rights, say) is told by another way. */
    rd_kafka_message_t *told =
        code == RD_KAFKA_RESP_ERR__TIMED_OUT ? rd_kafka_consumer_poll(client, 0) : NULL;
    if (told != NULL && told->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        code = told->err;
    if (told != NULL)
        rd_kafka_message_destroy(told);
    return code != RD_KAFKA_RESP_ERR_NO_ERROR ? code : first_error(partitions);
}

/*
 * By a consumer of the group that never joins it, made for the question: the Admin API's
 * ListConsumerGroupOffsets ends the process in librdkafka 2.0.2 when the group's coordinator is not
 * there yet, as on a cluster that has just begun.
 */
enum err_code kafka_ask_committed(struct kafka *kafka, const char *group_id,
                                  const rd_kafka_topic_partition_list_t *partitions,
                                  int64_t deadline_ms,
                                  rd_kafka_topic_partition_list_t **ret_committed,
                                  struct err *reterr)
{
    rd_kafka_topic_partition_list_t *seen = NULL;
    rd_kafka_t *client = NULL;
    rd_kafka_resp_err_t code;
    if (create_reader(kafka, group_id, &client, reterr) != ERR_NONE)
        return ERR_KAFKA;
    do {
        if (seen != NULL)
            rd_kafka_topic_partition_list_destroy(seen);
        seen = rd_kafka_topic_partition_list_copy(partitions);
        code = ask_committed_once(client, seen);
    } while (kafka_retriable(code) && kafka_backoff(kafka, deadline_ms));
    rd_kafka_destroy(client);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_topic_partition_list_destroy(seen);
        return kafka_fail(reterr, code, "committed offsets of group %s", group_id);
    }
    *ret_committed = seen;
    return ERR_NONE;
}

static rd_kafka_resp_err_t alter_committed_once(struct kafka *kafka, const char *group_id,
                                                const rd_kafka_topic_partition_list_t *offsets)
{
    struct kafka_admin admin =
        kafka_admin_begin(kafka, RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS);
    rd_kafka_AlterConsumerGroupOffsets_t *request =
        rd_kafka_AlterConsumerGroupOffsets_new(group_id, offsets);
    rd_kafka_AlterConsumerGroupOffsets(kafka->client, &request, 1, admin.options, admin.queue);
    rd_kafka_resp_err_t code;
    rd_kafka_event_t *event = kafka_admin_await(&admin, &code);
    if (event != NULL) {
        size_t count = 0;
        const rd_kafka_topic_partition_list_t *seen = NULL;
        const rd_kafka_group_result_t **groups = rd_kafka_AlterConsumerGroupOffsets_result_groups(
            rd_kafka_event_AlterConsumerGroupOffsets_result(event), &count);
        code = read_group_result(groups, count, &seen);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_AlterConsumerGroupOffsets_destroy(request);
    kafka_admin_end(&admin, code);
    return code;
}

enum err_code kafka_alter_committed(struct kafka *kafka, const char *group_id,
                                    const rd_kafka_topic_partition_list_t *offsets,
                                    int64_t deadline_ms, struct err *reterr)
{
    rd_kafka_resp_err_t code;
    do
        code = alter_committed_once(kafka, group_id, offsets);
    while (kafka_retriable(code) && kafka_backoff(kafka, deadline_ms));
    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID || code == RD_KAFKA_RESP_ERR_NON_EMPTY_GROUP)
        return kafka_fail(reterr, code, "group %s has members: its offsets can not be set",
                          group_id);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail(reterr, code, "setting the offsets of group %s", group_id);
    return ERR_NONE;
}
