/*
 * A producer with the linear-hashing partitioner: sends lines of standard input to a topic.
 *
 * usage: send BOOTSTRAP TOPIC INITIAL_PARTITIONS murmur2|crc32 [NAME=VALUE...]
 *
 * NAME=VALUE are properties of librdkafka. A line is KEY, a tab, VALUE; one without a tab is a
 * VALUE without a key. Prints PARTITION OFFSET KEY for each record that is acknowledged, in any
 * order. Ends with 1 at the first that is not.
 *
 * Built by make; on your own machine, after `make install`:
 *     cc send.c $(pkg-config --cflags --libs baton-partitioner) -o send
 */
#include "baton/partitioner.h" /* a link into the tree here; elsewhere the installed header */

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES 512

static void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "send: %s: %s\n", what, why);
    _exit(1); /* any thread may be here; the others have nothing to tidy up */
}

/* Delivery reports come in a thread of librdkafka's own, so that reading may wait for a line. */
static void on_event(rd_kafka_t *producer, rd_kafka_event_t *event, void *opaque)
{
    const rd_kafka_message_t *message;

    (void)producer;
    (void)opaque;
    while ((message = rd_kafka_event_message_next(event)) != NULL) {
        if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            fail("a record was not sent", rd_kafka_err2str(message->err));
        (void)printf("%d %lld %.*s\n", (int)message->partition, (long long)message->offset,
                     (int)message->key_len, message->key == NULL ? "" : (const char *)message->key);
    }
    rd_kafka_event_destroy(event);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[TEXT_BYTES];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK)
        fail(name, text);
}

/* The partitioner has to outlive the producer. */
static rd_kafka_t *open_producer(const struct baton_partitioner *partitioner, const char *bootstrap,
                                 char **properties)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[TEXT_BYTES];

    rd_kafka_topic_conf_t *topic_conf = rd_kafka_topic_conf_new();
    if (baton_partitioner_set(topic_conf, partitioner, text, sizeof(text)) != 0)
        fail("partitioner", text);
    rd_kafka_conf_set_default_topic_conf(conf, topic_conf); /* takes it over */
    set(conf, "bootstrap.servers", bootstrap);
    for (char **property = properties; *property != NULL; property++) {
        char *sign = strchr(*property, '=');
        if (sign == NULL)
            fail(*property, "is not NAME=VALUE");
        *sign = '\0';
        set(conf, *property, sign + 1);
    }
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR);
    rd_kafka_conf_set_background_event_cb(conf, on_event);
    rd_kafka_t *producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (producer == NULL)
        fail("client", text);
    rd_kafka_queue_t *reports = rd_kafka_queue_get_main(producer);
    rd_kafka_queue_t *background = rd_kafka_queue_get_background(producer);
    rd_kafka_queue_forward(reports, background);
    rd_kafka_queue_destroy(background);
    rd_kafka_queue_destroy(reports);
    return producer;
}

static void send_line(rd_kafka_t *producer, const char *topic, char *line, size_t bytes)
{
    char *tab = memchr(line, '\t', bytes);
    char *value = tab == NULL ? line : tab + 1;
    size_t key_bytes = tab == NULL ? 0 : (size_t)(tab - line);
    size_t value_bytes = bytes - (size_t)(value - line);
    rd_kafka_resp_err_t error = rd_kafka_producev(
        producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(tab == NULL ? NULL : line, key_bytes),
        RD_KAFKA_V_VALUE(value, value_bytes),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY | RD_KAFKA_MSG_F_BLOCK), RD_KAFKA_V_END);

    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail("a record was refused", rd_kafka_err2str(error));
}

int main(int argc, char **argv)
{
    struct baton_partitioner partitioner;
    char *line = NULL;
    size_t size = 0;
    ssize_t bytes;

    if (argc < 5 || (strcmp(argv[4], "murmur2") != 0 && strcmp(argv[4], "crc32") != 0)) {
        (void)fprintf(stderr, "usage: send BOOTSTRAP TOPIC INITIAL_PARTITIONS murmur2|crc32 "
                              "[NAME=VALUE...]\n");
        return 2;
    }
    partitioner.initial_partitions = (uint32_t)strtoul(argv[3], NULL, 10); /* 0 is refused below */
    partitioner.hash =
        strcmp(argv[4], "crc32") == 0 ? BATON_PARTITIONER_CRC32 : BATON_PARTITIONER_MURMUR2;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    rd_kafka_t *producer = open_producer(&partitioner, argv[1], argv + 5);
    while ((bytes = getline(&line, &size, stdin)) >= 0) {
        if (bytes > 0 && line[bytes - 1] == '\n')
            bytes--;
        send_line(producer, argv[2], line, (size_t)bytes);
    }
    if (rd_kafka_flush(producer, -1) != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail("flush", "records are left");
    rd_kafka_destroy(producer);
    free(line);
    return 0;
}
