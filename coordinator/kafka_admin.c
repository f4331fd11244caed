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

struct admin {
    struct kafka *kafka;
    rd_kafka_AdminOptions_t *options;
    rd_kafka_queue_t *queue;
};

static struct admin admin_begin(struct kafka *kafka, rd_kafka_admin_op_t kind)
{
    char text[128];
    struct admin admin = {.kafka = kafka,
                          .options = rd_kafka_AdminOptions_new(kafka->client, kind),
                          .queue = rd_kafka_queue_new(kafka->client)};
    rd_kafka_resp_err_t code = rd_kafka_AdminOptions_set_request_timeout(
        admin.options, ADMIN_TIMEOUT_MS, text, sizeof(text));
    assert(code == RD_KAFKA_RESP_ERR_NO_ERROR);
    return admin;
}

static void admin_end(struct admin *admin)
{
    rd_kafka_queue_destroy(admin->queue);
    rd_kafka_AdminOptions_destroy(admin->options);
}

/* The answer to the request that was just sent; NULL with *ret_code when there is none. */
static rd_kafka_event_t *admin_await(struct admin *admin, rd_kafka_resp_err_t *ret_code)
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
    struct admin admin = admin_begin(kafka, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic->name);
    rd_kafka_DescribeConfigs(kafka->client, &resource, 1, admin.options, admin.queue);
    rd_kafka_resp_err_t code;
    rd_kafka_event_t *event = admin_await(&admin, &code);
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
    admin_end(&admin);
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
enum err_code kafka_ask_edge(struct kafka *kafka, enum kafka_edge edge, int64_t deadline_ms,
                             rd_kafka_topic_partition_list_t *offsets, struct err *reterr)
{
    static const char *const names[] = {"log starts", "last stable offsets", "log ends"};
    rd_kafka_t *client = edge == KAFKA_EDGE_END ? kafka->client : kafka->committed;
    int64_t wanted = edge == KAFKA_EDGE_LOG_START ? RD_KAFKA_OFFSET_BEGINNING : RD_KAFKA_OFFSET_END;
    rd_kafka_resp_err_t code;
    do {
        for (int i = 0; i < offsets->cnt; i++)
            offsets->elems[i].offset = wanted;
        code = rd_kafka_offsets_for_times(client, offsets, kafka_slice(deadline_ms));
        for (int i = 0; i < offsets->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
            code = offsets->elems[i].err;
            if (code == RD_KAFKA_RESP_ERR_NO_ERROR && offsets->elems[i].offset < 0)
                code = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE; /* was not answered */
        }
    } while (kafka_retriable(code) && kafka_backoff(kafka, deadline_ms));
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail(reterr, code, "%s of topic %s", names[edge], offsets->elems[0].topic);
    return ERR_NONE;
}

/* ---- the group */

static rd_kafka_resp_err_t describe_group(struct kafka *kafka, const char *group_id,
                                          uint32_t *ret_members,
                                          rd_kafka_consumer_group_state_t *ret_state)
{
    struct admin admin = admin_begin(kafka, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
    rd_kafka_DescribeConsumerGroups(kafka->client, &group_id, 1, admin.options, admin.queue);
    rd_kafka_resp_err_t code;
    rd_kafka_event_t *event = admin_await(&admin, &code);
    if (event != NULL) {
        size_t count = 0;
        const rd_kafka_ConsumerGroupDescription_t **groups =
            rd_kafka_DescribeConsumerGroups_result_groups(
                rd_kafka_event_DescribeConsumerGroups_result(event), &count);
        code = RD_KAFKA_RESP_ERR__BAD_MSG;
        if (count == 1) {
            const rd_kafka_error_t *error = rd_kafka_ConsumerGroupDescription_error(groups[0]);
            code = error == NULL ? RD_KAFKA_RESP_ERR_NO_ERROR : rd_kafka_error_code(error);
            *ret_members = (uint32_t)rd_kafka_ConsumerGroupDescription_member_count(groups[0]);
            *ret_state = rd_kafka_ConsumerGroupDescription_state(groups[0]);
        }
        rd_kafka_event_destroy(event);
    }
    admin_end(&admin);
    return code;
}

/* UNKNOWN when the group is not in the list. */
static rd_kafka_resp_err_t list_group(struct kafka *kafka, const char *group_id,
                                      rd_kafka_consumer_group_state_t *ret_state)
{
    struct admin admin = admin_begin(kafka, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPS);
    rd_kafka_ListConsumerGroups(kafka->client, admin.options, admin.queue);
    rd_kafka_resp_err_t code;
    rd_kafka_event_t *event = admin_await(&admin, &code);
    *ret_state = RD_KAFKA_CONSUMER_GROUP_STATE_UNKNOWN;
    if (event != NULL) {
        const rd_kafka_ListConsumerGroups_result_t *result =
            rd_kafka_event_ListConsumerGroups_result(event);
        size_t count = 0;
        const rd_kafka_error_t **errors = rd_kafka_ListConsumerGroups_result_errors(result, &count);
        if (count > 0) /* a broker did not say: its groups are unknown */
            code = rd_kafka_error_code(errors[0]);
        const rd_kafka_ConsumerGroupListing_t **groups =
            rd_kafka_ListConsumerGroups_result_valid(result, &count);
        for (size_t i = 0; i < count; i++) {
            if (strcmp(rd_kafka_ConsumerGroupListing_group_id(groups[i]), group_id) == 0)
                *ret_state = rd_kafka_ConsumerGroupListing_state(groups[i]);
        }
        rd_kafka_event_destroy(event);
    }
    admin_end(&admin);
    return code;
}

static bool is_nothing(rd_kafka_consumer_group_state_t state)
{
    return state == RD_KAFKA_CONSUMER_GROUP_STATE_DEAD ||
           state == RD_KAFKA_CONSUMER_GROUP_STATE_UNKNOWN;
}

/*
 * Groups of the newer consumer protocol (KIP-848) are "dead" or not found to the description that
 * librdkafka 2.0.2 asks for, but they are in the list of groups, with their state. Their members
 * can not be counted then: one stands for all.
 */
static rd_kafka_resp_err_t ask_group_once(struct kafka *kafka, const char *group_id,
                                          uint32_t *ret_members,
                                          rd_kafka_consumer_group_state_t *ret_state)
{
    rd_kafka_resp_err_t code = describe_group(kafka, group_id, ret_members, ret_state);
    if (code == RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND) {
        *ret_members = 0;
        *ret_state = RD_KAFKA_CONSUMER_GROUP_STATE_DEAD;
        code = RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR || !is_nothing(*ret_state) || *ret_members > 0)
        return code;
    code = list_group(kafka, group_id, ret_state);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR && !is_nothing(*ret_state) &&
        *ret_state != RD_KAFKA_CONSUMER_GROUP_STATE_EMPTY)
        *ret_members = 1;
    return code;
}

enum err_code kafka_ask_group(struct kafka *kafka, const char *group_id, int64_t deadline_ms,
                              uint32_t *ret_members, char **ret_state, struct err *reterr)
{
    uint32_t members = 0;
    rd_kafka_consumer_group_state_t state = RD_KAFKA_CONSUMER_GROUP_STATE_UNKNOWN;
    rd_kafka_resp_err_t code;
    do
        code = ask_group_once(kafka, group_id, &members, &state);
    while (kafka_retriable(code) && kafka_backoff(kafka, deadline_ms));
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail(reterr, code, "description of group %s", group_id);
    *ret_members = members;
    *ret_state = is_nothing(state) ? NULL : mem_strdup(rd_kafka_consumer_group_state_name(state));
    return ERR_NONE;
}

/* ---- its offsets */

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

static rd_kafka_resp_err_t ask_committed_once(struct kafka *kafka, const char *group_id,
                                              const rd_kafka_topic_partition_list_t *partitions,
                                              rd_kafka_topic_partition_list_t **ret_committed)
{
    struct admin admin = admin_begin(kafka, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
    /* Not what a transaction that may still abort has written. */
    rd_kafka_error_t *error = rd_kafka_AdminOptions_set_require_stable_offsets(admin.options, 1);
    assert(error == NULL);
    rd_kafka_ListConsumerGroupOffsets_t *request =
        rd_kafka_ListConsumerGroupOffsets_new(group_id, partitions);
    rd_kafka_ListConsumerGroupOffsets(kafka->client, &request, 1, admin.options, admin.queue);
    rd_kafka_resp_err_t code;
    rd_kafka_event_t *event = admin_await(&admin, &code);
    if (event != NULL) {
        size_t count = 0;
        const rd_kafka_topic_partition_list_t *seen = NULL;
        const rd_kafka_group_result_t **groups = rd_kafka_ListConsumerGroupOffsets_result_groups(
            rd_kafka_event_ListConsumerGroupOffsets_result(event), &count);
        code = read_group_result(groups, count, &seen);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            *ret_committed = rd_kafka_topic_partition_list_copy(seen);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_ListConsumerGroupOffsets_destroy(request);
    admin_end(&admin);
    return code;
}

enum err_code kafka_ask_committed(struct kafka *kafka, const char *group_id,
                                  const rd_kafka_topic_partition_list_t *partitions,
                                  int64_t deadline_ms,
                                  rd_kafka_topic_partition_list_t **ret_committed,
                                  struct err *reterr)
{
    rd_kafka_resp_err_t code;
    do
        code = ask_committed_once(kafka, group_id, partitions, ret_committed);
    while (kafka_retriable(code) && kafka_backoff(kafka, deadline_ms));
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail(reterr, code, "committed offsets of group %s", group_id);
    return ERR_NONE;
}

static rd_kafka_resp_err_t alter_committed_once(struct kafka *kafka, const char *group_id,
                                                const rd_kafka_topic_partition_list_t *offsets)
{
    struct admin admin = admin_begin(kafka, RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS);
    rd_kafka_AlterConsumerGroupOffsets_t *request =
        rd_kafka_AlterConsumerGroupOffsets_new(group_id, offsets);
    rd_kafka_AlterConsumerGroupOffsets(kafka->client, &request, 1, admin.options, admin.queue);
    rd_kafka_resp_err_t code;
    rd_kafka_event_t *event = admin_await(&admin, &code);
    if (event != NULL) {
        size_t count = 0;
        const rd_kafka_topic_partition_list_t *seen = NULL;
        const rd_kafka_group_result_t **groups = rd_kafka_AlterConsumerGroupOffsets_result_groups(
            rd_kafka_event_AlterConsumerGroupOffsets_result(event), &count);
        code = read_group_result(groups, count, &seen);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_AlterConsumerGroupOffsets_destroy(request);
    admin_end(&admin);
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
