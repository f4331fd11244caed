/* KAFKA_CALL_INSPECT, KAFKA_CALL_TOPICS, KAFKA_CALL_STAMPS, KAFKA_CALL_COMMIT and
 * KAFKA_CALL_CLAIM. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/kafka_private.h"

#define INSPECT_LIMIT_MS 15000
#define COMMIT_LIMIT_MS  15000
#define TOPICS_LIMIT_MS  3000 /* others wait for it, and it comes again soon */
#define STAMPS_LIMIT_MS  3000 /* likewise */
#define PROBE_ID         "baton.probe"

/* ---- topics */

static enum err_code inspect_topic(struct kafka *kafka, const char *name, int64_t deadline_ms,
                                   struct kafka_topic *ret_topic, struct err *reterr)
{
    enum err_code code = kafka_ask_topic(kafka, name, deadline_ms, ret_topic, reterr);
    if (code == ERR_NONE && ret_topic->exists)
        code = kafka_ask_topic_config(kafka, deadline_ms, ret_topic, reterr);
    return code;
}

static enum err_code inspect_topics(struct kafka *kafka, const struct kafka_call *call,
                                    int64_t deadline_ms, struct kafka_inspection *inspection,
                                    struct err *reterr)
{
    enum err_code code = ERR_NONE;
    inspection->inputs.items = mem_calloc(call->inputs.count, sizeof(*inspection->inputs.items));
    inspection->inputs.count = call->inputs.count;
    for (size_t i = 0; i < call->inputs.count && code == ERR_NONE; i++)
        code = inspect_topic(kafka, call->inputs.items[i], deadline_ms,
                             &inspection->inputs.items[i], reterr);
    if (code == ERR_NONE && call->output != NULL)
        code = inspect_topic(kafka, call->output, deadline_ms, &inspection->output, reterr);
    if (code == ERR_NONE && call->dead_letter != NULL)
        code =
            inspect_topic(kafka, call->dead_letter, deadline_ms, &inspection->dead_letter, reterr);
    return code;
}

/* ---- partitions */

/* All partitions of the inputs that exist, in the order of topics and numbers. */
static rd_kafka_topic_partition_list_t *list_partitions(const struct kafka_inspection *inspection)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        const struct kafka_topic *topic = &inspection->inputs.items[i];
        for (uint32_t p = 0; p < topic->partition_count; p++)
            rd_kafka_topic_partition_list_add(list, topic->name, (int32_t)p);
    }
    return list;
}

static void prepare_partitions(struct kafka_inspection *inspection)
{
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        struct kafka_topic *topic = &inspection->inputs.items[i];
        topic->partitions.items =
            mem_calloc(topic->partition_count, sizeof(*topic->partitions.items));
        topic->partitions.count = topic->partition_count;
        for (uint32_t p = 0; p < topic->partition_count; p++)
            topic->partitions.items[p] =
                (struct kafka_partition){API_UNKNOWN, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN, NULL};
    }
}

static struct kafka_partition *find_partition(struct kafka_inspection *inspection,
                                              const rd_kafka_topic_partition_t *seen)
{
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        struct kafka_topic *topic = &inspection->inputs.items[i];
        if (strcmp(topic->name, seen->topic) == 0 && seen->partition >= 0 &&
            (uint32_t)seen->partition < topic->partition_count)
            return &topic->partitions.items[seen->partition];
    }
    return NULL;
}

static void keep_edge(struct kafka_inspection *inspection, enum kafka_edge edge,
                      const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++) {
        struct kafka_partition *partition = find_partition(inspection, &list->elems[i]);
        assert(partition != NULL); /* we asked for it */
        int64_t offset = list->elems[i].offset;
        switch (edge) {
        case KAFKA_EDGE_LOG_START:
            partition->log_start = offset;
            break;
        case KAFKA_EDGE_STABLE_END:
            partition->stable_end = offset;
            break;
        case KAFKA_EDGE_END:
            partition->end = offset;
            break;
        }
    }
}

static void keep_committed(struct kafka_inspection *inspection,
                           const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *seen = &list->elems[i];
        struct kafka_partition *partition = find_partition(inspection, seen);
        if (partition == NULL || seen->offset < 0)
            continue;
        partition->committed = seen->offset;
        if (seen->metadata != NULL && seen->metadata_size > 0)
            partition->metadata =
                mem_printf("%.*s", (int)seen->metadata_size, (const char *)seen->metadata);
    }
}

static enum err_code inspect_committed(struct kafka *kafka, const struct kafka_call *call,
                                       const rd_kafka_topic_partition_list_t *list,
                                       int64_t deadline_ms, struct kafka_inspection *inspection,
                                       struct err *reterr)
{
    rd_kafka_topic_partition_list_t *committed = NULL;
    enum err_code code =
        kafka_ask_committed(kafka, call->group_id, list, deadline_ms, &committed, reterr);
    if (code == ERR_NONE) {
        keep_committed(inspection, committed);
        rd_kafka_topic_partition_list_destroy(committed);
    }
    return code;
}

/*
 * Log starts first, then what is committed, stable ends before ends: others may write and commit
 * meanwhile, and still start <= stable end <= end, and nothing is committed past the end.
 */
static enum err_code inspect_partitions(struct kafka *kafka, const struct kafka_call *call,
                                        int64_t deadline_ms, struct kafka_inspection *inspection,
                                        struct err *reterr)
{
    static const enum kafka_edge edges[] = {KAFKA_EDGE_LOG_START, KAFKA_EDGE_STABLE_END,
                                            KAFKA_EDGE_END};
    enum err_code code = ERR_NONE;
    rd_kafka_topic_partition_list_t *list = list_partitions(inspection);
    prepare_partitions(inspection);
    if (list->cnt == 0)
        goto out;
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]) && code == ERR_NONE; i++) {
        if (edges[i] == KAFKA_EDGE_STABLE_END)
            code = inspect_committed(kafka, call, list, deadline_ms, inspection, reterr);
        if (code == ERR_NONE)
            code = kafka_ask_edge(kafka, edges[i], deadline_ms, list, reterr);
        if (code == ERR_NONE)
            keep_edge(inspection, edges[i], list);
    }
out:
    rd_kafka_topic_partition_list_destroy(list);
    return code;
}

/* ---- transactions */

/*
 * Two answers together: a producer of ours could initialise a transactional.id (so brokers and ACLs
 * allow it at all), and the versions that the brokers offer are those of 2.5 or newer.
 */
static enum err_code inspect_transactions(struct kafka *kafka, int64_t deadline_ms,
                                          struct kafka_inspection *inspection, struct err *reterr)
{
    if (!kafka->transactions_seen) {
        struct err err;
        enum err_code code = kafka_init_transactions(kafka, PROBE_ID, deadline_ms, &err);
        if (code != ERR_NONE && err.detail == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE) {
            inspection->broker_detail = mem_strdup(err.text);
            return ERR_NONE; /* transactions_supported stays false */
        }
        if (code != ERR_NONE) {
            if (reterr != NULL)
                *reterr = err;
            return code;
        }
        kafka->transactions_seen = true;
    }
    enum kafka_capability capability =
        kafka_versions_transactions(kafka->versions, &inspection->broker_detail);
    inspection->transactions_supported = capability != KAFKA_CAPABILITY_NO;
    if (capability == KAFKA_CAPABILITY_NO)
        kafka->transactions_seen = false; /* ask anew next time: brokers are upgraded */
    return ERR_NONE;
}

/* ---- calls */

void kafka_inspect(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result)
{
    struct kafka_inspection *inspection = &result->inspection;
    int64_t deadline_ms = clock_mono_ms() + INSPECT_LIMIT_MS;
    struct err err;
    enum err_code code = inspect_topics(kafka, call, deadline_ms, inspection, &err);
    struct kafka_group group = {0};
    if (code == ERR_NONE)
        code = kafka_ask_group(kafka, call->group_id, deadline_ms, &group, &inspection->group_state,
                               &err);
    inspection->group_members = group.members;
    inspection->group_who = group.who;
    free(group.group_id);
    if (code == ERR_NONE)
        code = inspect_partitions(kafka, call, deadline_ms, inspection, &err);
    if (code == ERR_NONE && call->transactions)
        code = inspect_transactions(kafka, deadline_ms, inspection, &err);
    if (code != ERR_NONE)
        kafka_result_fail(result, &err);
}

/* Of inputs that were deleted there is no log start to ask for. */
void kafka_topics(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result)
{
    struct kafka_inspection *inspection = &result->inspection;
    int64_t deadline_ms = clock_mono_ms() + TOPICS_LIMIT_MS;
    struct err err;
    enum err_code code = inspect_topics(kafka, call, deadline_ms, inspection, &err);
    if (code == ERR_NONE) {
        rd_kafka_topic_partition_list_t *list = list_partitions(inspection);
        prepare_partitions(inspection);
        if (list->cnt > 0)
            code = kafka_ask_edge(kafka, KAFKA_EDGE_LOG_START, deadline_ms, list, &err);
        if (list->cnt > 0 && code == ERR_NONE)
            keep_edge(inspection, KAFKA_EDGE_LOG_START, list);
        rd_kafka_topic_partition_list_destroy(list);
    }
    if (code != ERR_NONE)
        kafka_result_fail(result, &err);
}

static bool find_input(const struct kafka_call *call, const char *name, uint32_t *ret_topic)
{
    for (size_t i = 0; i < call->inputs.count; i++) {
        if (strcmp(call->inputs.items[i], name) != 0)
            continue;
        *ret_topic = (uint32_t)i;
        return true;
    }
    return false;
}

static void keep_stamps(const struct kafka_call *call, const rd_kafka_topic_partition_list_t *seen,
                        struct kafka_result *result)
{
    result->committed.items = mem_calloc((size_t)seen->cnt + 1, sizeof(*result->committed.items));
    for (int i = 0; i < seen->cnt; i++) {
        const rd_kafka_topic_partition_t *item = &seen->elems[i];
        struct kafka_offset *kept = &result->committed.items[result->committed.count];
        uint32_t topic;
        if (item->offset < 0 || item->partition < 0 || !find_input(call, item->topic, &topic))
            continue;
        *kept = (struct kafka_offset){topic, (uint32_t)item->partition, item->offset, NULL};
        if (item->metadata != NULL && item->metadata_size > 0)
            kept->metadata =
                mem_printf("%.*s", (int)item->metadata_size, (const char *)item->metadata);
        result->committed.count++;
    }
}

void kafka_stamps(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16), *seen = NULL;
    struct err err;
    for (size_t i = 0; i < call->inputs.count; i++)
        for (uint32_t p = 0; p < call->partitions; p++)
            rd_kafka_topic_partition_list_add(list, call->inputs.items[i], (int32_t)p);
    enum err_code code = kafka_ask_committed(kafka, call->group_id, list,
                                             clock_mono_ms() + STAMPS_LIMIT_MS, &seen, &err);
    if (code != ERR_NONE) {
        kafka_result_fail(result, &err);
    } else {
        keep_stamps(call, seen, result);
        rd_kafka_topic_partition_list_destroy(seen);
    }
    rd_kafka_topic_partition_list_destroy(list);
}

static rd_kafka_topic_partition_list_t *list_offsets(const struct kafka_call *call)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)call->offsets.count);
    for (size_t i = 0; i < call->offsets.count; i++) {
        const struct kafka_offset *offset = &call->offsets.items[i];
        assert(offset->topic < call->inputs.count);
        rd_kafka_topic_partition_t *item = rd_kafka_topic_partition_list_add(
            list, call->inputs.items[offset->topic], (int32_t)offset->partition);
        item->offset = offset->offset;
        if (offset->metadata != NULL) { /* librdkafka frees it */
            item->metadata = mem_strdup(offset->metadata);
            item->metadata_size = strlen(offset->metadata);
        }
    }
    return list;
}

/* In the order of the call's offsets. */
static void keep_read_back(const struct kafka_call *call,
                           const rd_kafka_topic_partition_list_t *seen, struct kafka_result *result)
{
    result->committed.count = call->offsets.count;
    result->committed.items = mem_calloc(call->offsets.count, sizeof(*result->committed.items));
    for (size_t i = 0; i < call->offsets.count; i++) {
        const struct kafka_offset *wanted = &call->offsets.items[i];
        struct kafka_offset *kept = &result->committed.items[i];
        *kept = (struct kafka_offset){wanted->topic, wanted->partition, API_UNKNOWN, NULL};
        const rd_kafka_topic_partition_t *item = rd_kafka_topic_partition_list_find(
            seen, call->inputs.items[wanted->topic], (int32_t)wanted->partition);
        if (item == NULL || item->offset < 0)
            continue;
        kept->offset = item->offset;
        if (item->metadata != NULL && item->metadata_size > 0)
            kept->metadata =
                mem_printf("%.*s", (int)item->metadata_size, (const char *)item->metadata);
    }
}

/* What Kafka holds afterwards is what counts, so a commit that was not answered is read back, too.
 */
static void commit_and_read_back(struct kafka *kafka, const struct kafka_call *call,
                                 const rd_kafka_topic_partition_list_t *list, int64_t deadline_ms,
                                 struct kafka_result *result)
{
    rd_kafka_topic_partition_list_t *seen = NULL;
    struct err err;
    enum err_code code = kafka_alter_committed(kafka, call->group_id, list, deadline_ms, &err);
    if (code == ERR_NONE || err.retriable)
        code = kafka_ask_committed(kafka, call->group_id, list,
                                   clock_mono_ms() + COMMIT_LIMIT_MS / 3, &seen, &err);
    if (code != ERR_NONE) {
        kafka_result_fail(result, &err);
    } else {
        keep_read_back(call, seen, result);
        rd_kafka_topic_partition_list_destroy(seen);
    }
}

void kafka_commit(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result)
{
    rd_kafka_topic_partition_list_t *list = list_offsets(call);
    commit_and_read_back(kafka, call, list, clock_mono_ms() + COMMIT_LIMIT_MS, result);
    rd_kafka_topic_partition_list_destroy(list);
}

/* Puts what is committed into the list. False: a partition has nothing; said in the result. */
static bool take_committed(rd_kafka_topic_partition_list_t *list,
                           const rd_kafka_topic_partition_list_t *seen, struct kafka_result *result)
{
    for (int i = 0; i < list->cnt; i++) {
        rd_kafka_topic_partition_t *wanted = &list->elems[i];
        const rd_kafka_topic_partition_t *item =
            rd_kafka_topic_partition_list_find(seen, wanted->topic, wanted->partition);
        if (item == NULL || item->offset < 0) {
            result->failed = result->refused = true;
            result->detail = mem_printf("the group has no committed offset of \"%s\" partition %d",
                                        wanted->topic, wanted->partition);
            return false;
        }
        wanted->offset = item->offset;
    }
    return true;
}

/*
 * The broker refuses the commit while the group has members. It is made once: offsets that were
 * read before a failure may be others' past by the time of another try, which reads them anew.
 */
void kafka_claim(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result)
{
    rd_kafka_topic_partition_list_t *list = list_offsets(call);
    rd_kafka_topic_partition_list_t *seen = NULL;
    struct err err;
    if (kafka_ask_committed(kafka, call->group_id, list, clock_mono_ms() + COMMIT_LIMIT_MS / 3,
                            &seen, &err) != ERR_NONE) {
        kafka_result_fail(result, &err);
    } else {
        if (take_committed(list, seen, result))
            commit_and_read_back(kafka, call, list, clock_mono_ms(), result);
        rd_kafka_topic_partition_list_destroy(seen);
    }
    rd_kafka_topic_partition_list_destroy(list);
}
