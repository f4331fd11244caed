/* What the files of a consumer share: consumer.c, consumer_grow.c. All of it is the task's
 * thread's. */
#ifndef BATON_AGENT_CONSUMER_PRIVATE_H
#define BATON_AGENT_CONSUMER_PRIVATE_H

#include "agent/consumer.h"

#define BATCH_MESSAGES 512

/* What was taken out of one partition's queue and not yet worked on. */
struct lane {
    rd_kafka_queue_t *queue;
    rd_kafka_message_t *messages[BATCH_MESSAGES];
    size_t next, count;
    enum consumer_item_kind trouble; /* comes after the messages; NOTHING: none */
    char detail[256];                /* of the trouble */
};

struct consumer {
    struct consumer_config config;
    char **topics; /* copies */
    rd_kafka_t *client;
    rd_kafka_topic_t **known; /* the topics, so that the client asks where they are at once */
    struct lane *lanes;       /* one a partition */
    struct {
        struct lane *items;
        size_t count, capacity;
    } left; /* of partitions that are read no more: the client still puts marks into them */
    struct lane *filling;  /* whose queue is being read */
    bool brokers_down;     /* written by the error callback, which runs inside our calls */
    char down_reason[256]; /* what was last wrong with the line to a broker */
    bool strayed;          /* something of a partition came past its lane */
};

const char *consumer_topic_of(const struct consumer *consumer, size_t index);
int32_t consumer_partition_of(const struct consumer *consumer, size_t index);
/* The partition's queue, asked for anew. */
void consumer_open_lane(struct consumer *consumer, size_t index);

#endif
