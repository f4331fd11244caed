/*
 * The linear-hashing partitioner for producers that use librdkafka (installed as
 * <baton/partitioner.h>). Licence: Apache-2.0.
 *
 * Doubling a topic needs none of this: at N0 * 2^j partitions it puts each key where every stock
 * producer does. It is for topics with other counts (docs/producers.md). All producers of a topic
 * have to use it then, with the same initial_partitions and the same hash; the Java one is
 * producer/java.
 *
 *     static const struct baton_partitioner partitioner = {.initial_partitions = 4};
 *     rd_kafka_topic_conf_t *topic_conf = rd_kafka_topic_conf_new();
 *     if (baton_partitioner_set(topic_conf, &partitioner, text, sizeof(text)) != 0)
 *         ... say text, and stop
 *     rd_kafka_conf_set_default_topic_conf(conf, topic_conf); or rd_kafka_topic_new(...)
 *
 * Threads: nothing here keeps or changes anything, so any thread may call it. librdkafka calls the
 * partitioner from threads that produce, and from its own when a topic's partitions become known.
 */
#ifndef BATON_PARTITIONER_H
#define BATON_PARTITIONER_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum baton_partitioner_hash {
    BATON_PARTITIONER_MURMUR2 = 0, /* Java's producers; librdkafka's murmur2 and murmur2_random */
    BATON_PARTITIONER_CRC32 = 1    /* librdkafka's consistent and consistent_random (its default) */
};

struct baton_partitioner {
    /* N0: how many partitions the topic had when its keys were first put by hash. The job's
     * `initial_partitions`; it never changes, however often the topic is expanded. At least 1. */
    uint32_t initial_partitions;
    enum baton_partitioner_hash hash; /* of the job's map: `partitioner` */
};

/*
 * Where a key belongs while the topic has partition_count partitions. An empty key is a key as any
 * other (key may be NULL then). Returns -1 when there is no answer: partition_count is below
 * initial_partitions, or the partitioner is none that baton_partitioner_set takes.
 */
int32_t baton_partitioner_partition(const struct baton_partitioner *partitioner, const void *key,
                                    size_t key_bytes, int32_t partition_count);

/*
 * Makes a topic configuration use the partitioner: its partitioner callback, and its opaque, which
 * librdkafka hands to the callback. The partitioner is borrowed and has to stay as it is until the
 * producer is destroyed. Returns 0; or -1 with a text in reterr (cut to reterr_bytes, which may be
 * 0) that says what to do, and then topic_conf is as it was.
 *
 * Records without a key (NULL) go to a partition at random, of those that are available if there
 * are any, as with murmur2_random; `sticky.partitioning.linger.ms` works as there.
 *
 * A record that has no place, because the topic has fewer partitions than initial_partitions, is
 * refused with RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION: by rd_kafka_produce, or in its delivery report
 * when the topic was not known yet. It is never put somewhere else.
 */
int baton_partitioner_set(rd_kafka_topic_conf_t *topic_conf,
                          const struct baton_partitioner *partitioner, char *reterr,
                          size_t reterr_bytes);

/*
 * The callback itself, for those who set it with rd_kafka_topic_conf_set_partitioner_cb. The
 * topic's opaque must be the struct baton_partitioner. Who needs that opaque for something else
 * writes a callback of his own around baton_partitioner_partition.
 */
int32_t baton_partitioner_callback(const rd_kafka_topic_t *topic, const void *key, size_t key_bytes,
                                   int32_t partition_count, void *topic_opaque,
                                   void *message_opaque);

#ifdef __cplusplus
}
#endif

#endif
