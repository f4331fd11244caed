/*
 * Notes when each record of a topic arrives at a read_committed consumer, and when its input was
 * made: what a user of the outputs sees of a job's latency.
 *
 * usage: arrivals BOOTSTRAP TOPIC PARTITIONS FILE
 *
 * Reads from the start until SIGTERM, and then writes one `struct arrival` per record to FILE, in
 * the order of arrival. Nothing is written before, so that no disk can hold the consumer up.
 */
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WAIT_MS     20
#define FIRST_COUNT 65536

/* tests/bench/latency.py reads these. */
struct arrival {
    int64_t arrived_us;   /* wall clock */
    int64_t timestamp_ms; /* of the input: outputs keep it (D8) */
    int32_t partition;
    int32_t unused;
};

struct arrivals {
    struct arrival *items;
    size_t count, size;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "arrivals: %s: %s\n", what, why);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK)
        fail(name, text);
}

static rd_kafka_t *open_client(const char *bootstrap)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *client;
    char text[256];

    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "group.id", "arrivals");
    set(conf, "enable.auto.commit", "false");
    set(conf, "isolation.level", "read_committed");
    set(conf, "auto.offset.reset", "error");
    set(conf, "fetch.wait.max.ms", "10");
    set(conf, "fetch.error.backoff.ms", "10");
    client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (client == NULL)
        fail("client", text);
    return client;
}

static void assign(rd_kafka_t *client, const char *topic, int32_t partitions)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);

    for (int32_t p = 0; p < partitions; p++)
        rd_kafka_topic_partition_list_add(list, topic, p)->offset = RD_KAFKA_OFFSET_BEGINNING;
    if (rd_kafka_assign(client, list) != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail("assign", topic);
    rd_kafka_topic_partition_list_destroy(list);
}

static void note(struct arrivals *arrivals, const rd_kafka_message_t *message)
{
    rd_kafka_timestamp_type_t type;
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now); /* can not fail for this clock */
    if (arrivals->count == arrivals->size) {
        arrivals->size = arrivals->size == 0 ? FIRST_COUNT : 2 * arrivals->size;
        arrivals->items = reallocarray(arrivals->items, arrivals->size, sizeof(*arrivals->items));
        if (arrivals->items == NULL)
            fail("memory", "there is no more");
    }
    arrivals->items[arrivals->count++] = (struct arrival){
        .arrived_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000,
        .timestamp_ms = rd_kafka_message_timestamp(message, &type),
        .partition = message->partition,
    };
}

/* One at a time: a batch call would wait for its batch to fill. */
static void read_until_stopped(rd_kafka_t *client, struct arrivals *arrivals)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);

    while (!stopped) {
        rd_kafka_message_t *message = rd_kafka_consume_queue(queue, WAIT_MS);

        if (message == NULL)
            continue;
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            note(arrivals, message);
        else if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET)
            fail("position lost", rd_kafka_message_errstr(message));
        rd_kafka_message_destroy(message);
    }
    rd_kafka_queue_destroy(queue);
}

static void write_all(const struct arrivals *arrivals, const char *path)
{
    FILE *file = fopen(path, "we");

    if (file == NULL ||
        fwrite(arrivals->items, sizeof(*arrivals->items), arrivals->count, file) != arrivals->count)
        fail(path, "can not be written");
    if (fclose(file) != 0)
        fail(path, "can not be written");
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = on_signal};
    long partitions = argc == 5 ? strtol(argv[3], NULL, 10) : 0;
    struct arrivals arrivals = {.items = NULL};
    rd_kafka_t *client;

    if (partitions < 1 || partitions > 10000) {
        (void)fprintf(stderr, "usage: arrivals BOOTSTRAP TOPIC PARTITIONS FILE\n");
        return 2;
    }
    (void)sigaction(SIGTERM, &action, NULL); /* can not fail for this signal */
    client = open_client(argv[1]);
    rd_kafka_poll_set_consumer(client);
    assign(client, argv[2], (int32_t)partitions);
    read_until_stopped(client, &arrivals);
    write_all(&arrivals, argv[4]);
    rd_kafka_destroy(client);
    free(arrivals.items);
    return 0;
}
