/* All else that is compiled into the library is hidden from its users (Makefile). */
#pragma GCC visibility push(default)
#include "producer/partitioner.h"
#pragma GCC visibility pop

#include <stdbool.h>
#include <stdio.h>

#include "common/hash/key_map.h"

static bool is_known(enum baton_partitioner_hash hash)
{
    return hash == BATON_PARTITIONER_MURMUR2 || hash == BATON_PARTITIONER_CRC32;
}

int32_t baton_partitioner_partition(const struct baton_partitioner *partitioner, const void *key,
                                    size_t key_bytes, int32_t partition_count)
{
    if (partitioner->initial_partitions < 1 || !is_known(partitioner->hash) ||
        partition_count < 1 || (uint32_t)partition_count < partitioner->initial_partitions)
        return -1;
    struct key_map map = {
        .hash = partitioner->hash == BATON_PARTITIONER_CRC32 ? KEY_HASH_CRC32 : KEY_HASH_MURMUR2,
        .partitions = {.initial = partitioner->initial_partitions,
                       .now = (uint32_t)partition_count},
    };
    return (int32_t)key_partition(&map, key, key_bytes);
}

int32_t baton_partitioner_callback(const rd_kafka_topic_t *topic, const void *key, size_t key_bytes,
                                   int32_t partition_count, void *topic_opaque,
                                   void *message_opaque)
{
    if (key == NULL)
        return rd_kafka_msg_partitioner_random(topic, key, key_bytes, partition_count, topic_opaque,
                                               message_opaque);
    int32_t partition = baton_partitioner_partition(topic_opaque, key, key_bytes, partition_count);
    /* With -1 (RD_KAFKA_PARTITION_UA) librdkafka would keep the record and ask again whenever the
     * topic changes, until message.timeout.ms. The first partition that the topic lacks is refused
     * at once. */
    return partition < 0 ? partition_count : partition;
}

int baton_partitioner_set(rd_kafka_topic_conf_t *topic_conf,
                          const struct baton_partitioner *partitioner, char *reterr,
                          size_t reterr_bytes)
{
    if (partitioner->initial_partitions < 1 || partitioner->initial_partitions > INT32_MAX) {
        (void)snprintf(reterr, reterr_bytes,
                       "initial_partitions is %u: set it to the number of partitions that the "
                       "topic had at first (initial_partitions of the job), 1 to %d",
                       (unsigned)partitioner->initial_partitions, INT32_MAX);
        return -1;
    }
    if (!is_known(partitioner->hash)) {
        (void)snprintf(reterr, reterr_bytes,
                       "hash is %d: set it to BATON_PARTITIONER_MURMUR2 or "
                       "BATON_PARTITIONER_CRC32, as the job's map says",
                       (int)partitioner->hash);
        return -1;
    }
    rd_kafka_topic_conf_set_partitioner_cb(topic_conf, baton_partitioner_callback);
    /* It comes back to us as a const: the cast is librdkafka's wish. */
    rd_kafka_topic_conf_set_opaque(topic_conf, (void *)partitioner);
    return 0;
}
