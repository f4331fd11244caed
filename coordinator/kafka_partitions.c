/*
 * KAFKA_CALL_CREATE_PARTITIONS: each input that has fewer than the call's partitions gets them;
 * then how many each has. A request that was not answered may have been carried out: what the
 * brokers say of the topics afterwards is what counts.
 */
#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/kafka_private.h"

#define PARTITIONS_LIMIT_MS 10000

static enum err_code create_once(struct kafka *kafka, const char *name, uint32_t count,
                                 struct err *reterr)
{
    char text[256];
    struct kafka_admin admin = kafka_admin_begin(kafka, RD_KAFKA_ADMIN_OP_CREATEPARTITIONS);
    rd_kafka_NewPartitions_t *wanted = rd_kafka_NewPartitions_new(name, count, text, sizeof(text));
    assert(wanted != NULL); /* the name and the count were checked by Kafka's own rules */
    rd_kafka_CreatePartitions(kafka->client, &wanted, 1, admin.options, admin.queue);
    rd_kafka_resp_err_t code;
    rd_kafka_event_t *event = kafka_admin_await(&admin, &code);
    if (event != NULL) {
        size_t topics = 0;
        const rd_kafka_topic_result_t **results = rd_kafka_CreatePartitions_result_topics(
            rd_kafka_event_CreatePartitions_result(event), &topics);
        code = topics == 1 ? rd_kafka_topic_result_error(results[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
        rd_kafka_event_destroy(event);
    }
    rd_kafka_NewPartitions_destroy(wanted);
    kafka_admin_end(&admin, code);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return ERR_NONE;
    return kafka_fail(reterr, code, "adding partitions to topic %s", name);
}

/* Asks until the brokers know them, or the time is over: the last count is the answer. */
static enum err_code ask_count(struct kafka *kafka, const char *name, uint32_t wanted,
                               int64_t deadline_ms, struct kafka_topic *ret_topic,
                               struct err *reterr)
{
    for (;;) {
        enum err_code code = kafka_ask_topic(kafka, name, deadline_ms, ret_topic, reterr);
        if (code != ERR_NONE || !ret_topic->exists || ret_topic->partition_count >= wanted ||
            !kafka_backoff(kafka, deadline_ms))
            return code;
        free(ret_topic->name);
    }
}

static enum err_code expand_topic(struct kafka *kafka, const char *name, uint32_t wanted,
                                  int64_t deadline_ms, struct kafka_topic *ret_topic,
                                  struct err *reterr)
{
    struct err refused = {0};
    enum err_code code = kafka_ask_topic(kafka, name, deadline_ms, ret_topic, reterr), created;
    if (code != ERR_NONE || !ret_topic->exists || ret_topic->partition_count >= wanted)
        return code;
    free(ret_topic->name);
    created = create_once(kafka, name, wanted, &refused);
    code = ask_count(kafka, name, wanted, deadline_ms, ret_topic, reterr);
    if (code == ERR_NONE && created != ERR_NONE && ret_topic->partition_count < wanted) {
        free(ret_topic->name);
        if (reterr != NULL)
            *reterr = refused;
        return created;
    }
    return code;
}

void kafka_create_partitions(struct kafka *kafka, const struct kafka_call *call,
                             struct kafka_result *result)
{
    struct kafka_inspection *inspection = &result->inspection;
    int64_t deadline_ms = clock_mono_ms() + PARTITIONS_LIMIT_MS;
    enum err_code code = ERR_NONE;
    struct err err;
    inspection->inputs.items = mem_calloc(call->inputs.count, sizeof(struct kafka_topic));
    for (size_t i = 0; i < call->inputs.count && code == ERR_NONE; i++) {
        code = expand_topic(kafka, call->inputs.items[i], call->partitions, deadline_ms,
                            &inspection->inputs.items[i], &err);
        inspection->inputs.count += code == ERR_NONE;
    }
    if (code != ERR_NONE)
        kafka_result_fail(result, &err);
}
