/* More partitions for a consumer at work. */
#include <assert.h>
#include <string.h>

#include "agent/consumer_private.h"
#include "common/mem.h"

void consumer_grow(struct consumer *consumer, const struct task_partition *partitions,
                   size_t partition_count)
{
    size_t before = consumer->config.partition_count;

    assert(partition_count >= before);
    consumer->config.partitions = partitions;
    consumer->config.partition_count = partition_count;
    consumer->lanes = mem_realloc(consumer->lanes, partition_count, sizeof(*consumer->lanes));
    memset(&consumer->lanes[before], 0, (partition_count - before) * sizeof(*consumer->lanes));
}

enum err_code consumer_assign_more(struct consumer *consumer, size_t first, const int64_t *offsets,
                                   struct err *reterr)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)(consumer->config.partition_count - first));
    rd_kafka_error_t *error;
    enum err_code code = ERR_NONE;

    for (size_t i = first; i < consumer->config.partition_count; i++) {
        consumer_open_lane(consumer, i);
        rd_kafka_topic_partition_list_add(list, consumer_topic_of(consumer, i),
                                          consumer_partition_of(consumer, i))
            ->offset = offsets[i];
    }
    error = rd_kafka_incremental_assign(consumer->client, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (error != NULL) {
        code = err_set(reterr, ERR_KAFKA, "assigning more partitions: %s",
                       rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    }
    return code;
}

enum err_code consumer_refresh(struct consumer *consumer, size_t topic, uint32_t partition_count,
                               int timeout_ms, struct err *reterr)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(consumer->client, 0, consumer->known[topic], &metadata, timeout_ms);
    int known = 0;

    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (metadata->topic_cnt == 1)
            known = metadata->topics[0].partition_cnt;
        rd_kafka_metadata_destroy(metadata);
    }
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_UNAVAILABLE, "metadata of topic %s: %s", consumer->topics[topic],
                       rd_kafka_err2str(error));
    if (known < 0 || (uint32_t)known < partition_count)
        return err_set(reterr, ERR_UNAVAILABLE, "topic %s: the broker knows %d of %u partitions",
                       consumer->topics[topic], known, partition_count);
    return ERR_NONE;
}
