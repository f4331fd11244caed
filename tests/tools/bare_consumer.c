/*
 * A consumer that does nothing: reads a topic from its start to its end, read_committed, and says
 * how fast. What a job's rate is compared with, on the same machine in the same run.
 *
 * usage: bare_consumer BOOTSTRAP TOPIC PARTITIONS -> "<records> <milliseconds>"
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"

#define BATCH 1024

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK) {
        (void)fprintf(stderr, "%s\n", text);
        abort();
    }
}

static rd_kafka_t *open_client(const char *bootstrap)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *client;
    char text[256];

    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "group.id", "bare");
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.partition.eof", "true");
    set(conf, "queued.min.messages", "1000000");
    client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (client == NULL) {
        (void)fprintf(stderr, "%s\n", text);
        abort();
    }
    return client;
}

static long drain(rd_kafka_queue_t *queue, int partitions)
{
    rd_kafka_message_t *messages[BATCH];
    long records = 0;

    for (int ends = 0; ends < partitions;) {
        ssize_t count = rd_kafka_consume_batch_queue(queue, 1000, messages, BATCH);

        for (ssize_t i = 0; i < count; i++) {
            if (messages[i]->err == RD_KAFKA_RESP_ERR_NO_ERROR)
                records++;
            else if (messages[i]->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
                ends++;
            rd_kafka_message_destroy(messages[i]);
        }
    }
    return records;
}

int main(int argc, char **argv)
{
    int partitions = argc == 4 ? (int)strtol(argv[3], NULL, 10) : 0;
    rd_kafka_topic_partition_list_t *list;
    rd_kafka_queue_t *queue;
    rd_kafka_t *client;
    int64_t began_ms;
    long records;

    if (partitions < 1) {
        (void)fprintf(stderr, "usage: bare_consumer BOOTSTRAP TOPIC PARTITIONS\n");
        return 2;
    }
    client = open_client(argv[1]);
    rd_kafka_poll_set_consumer(client);
    list = rd_kafka_topic_partition_list_new(partitions);
    for (int p = 0; p < partitions; p++)
        rd_kafka_topic_partition_list_add(list, argv[2], p)->offset = RD_KAFKA_OFFSET_BEGINNING;
    began_ms = clock_mono_ms();
    if (rd_kafka_assign(client, list) != RD_KAFKA_RESP_ERR_NO_ERROR)
        abort();
    queue = rd_kafka_queue_get_consumer(client);
    records = drain(queue, partitions);
    (void)printf("%ld %lld\n", records, (long long)(clock_mono_ms() - began_ms));
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(client);
    return 0;
}
