/*
 * A keyed load at an even pace, light enough not to disturb what is measured beside it.
 *
 * usage: paced_load BOOTSTRAP TOPIC KEYS SEED RATE TOTAL COUNTS
 *
 * Record i is due i/RATE seconds after the start; the ones that have become due are sent every
 * millisecond. A record's timestamp is the time at which it was *due*: a load that was itself held
 * up does not hide the delay. RATE 0: as fast as it goes, stamped with the present. TOTAL 0: until
 * SIGTERM. Keys are "key-<0..KEYS-1>", drawn by the seed; the partitioner is Java's.
 *
 * At the end, when all is acknowledged, COUNTS gets how often each key was sent (KEYS native
 * uint32), and "<records> <most that a record was late, in us>" goes to stdout. A record that could
 * not be delivered is exit code 1.
 */
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/rng.h"

#define TICK_NS        1000000
#define FLUSH_MS       120000
#define BURST_RECORDS  10000 /* between two looks at the clock when there is no pace */
#define FULL_WAIT_MS   10
#define KEY_TEXT_BYTES 32

struct load {
    rd_kafka_t *client;
    const char *topic;
    uint32_t *counts; /* by key */
    uint64_t keys, rate, total;
    uint64_t sent;
    int64_t began_us;
    int64_t late_us_max;
    struct rng rng;
    rd_kafka_resp_err_t failure;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "paced_load: %s: %s\n", what, why);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK)
        fail(name, text);
}

/* Only failures are reported (delivery.report.only.error). */
static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    struct load *load = opaque;

    (void)client;
    load->failure = message->err;
}

static rd_kafka_t *open_client(const char *bootstrap, struct load *load)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *client;
    char text[256];

    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "enable.idempotence", "true");
    set(conf, "partitioner", "murmur2_random");
    set(conf, "linger.ms", "5");
    set(conf, "topic.metadata.refresh.interval.ms", "1000"); /* to hear of new partitions */
    set(conf, "queue.buffering.max.messages", "200000");
    set(conf, "delivery.report.only.error", "true");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, load);
    client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (client == NULL)
        fail("client", text);
    return client;
}

static void send_one(struct load *load, int64_t timestamp_ms)
{
    uint64_t index = rng_below(&load->rng, load->keys);
    char key[KEY_TEXT_BYTES], value[KEY_TEXT_BYTES];
    int key_bytes = snprintf(key, sizeof(key), "key-%" PRIu64, index);
    int value_bytes = snprintf(value, sizeof(value), "%" PRIu64, load->sent);
    rd_kafka_resp_err_t err;

    do {
        err = rd_kafka_producev(
            load->client, RD_KAFKA_V_TOPIC(load->topic), RD_KAFKA_V_KEY(key, (size_t)key_bytes),
            RD_KAFKA_V_VALUE(value, (size_t)value_bytes), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_TIMESTAMP(timestamp_ms), RD_KAFKA_V_END);
        if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            rd_kafka_poll(load->client, FULL_WAIT_MS);
    } while (err == RD_KAFKA_RESP_ERR__QUEUE_FULL && load->failure == RD_KAFKA_RESP_ERR_NO_ERROR);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail("produce", rd_kafka_err2str(err));
    load->counts[index]++;
    load->sent++;
}

static bool is_complete(const struct load *load)
{
    return stopped || (load->total > 0 && load->sent >= load->total);
}

static void send_burst(struct load *load)
{
    int64_t now_ms = clock_wall_ms();

    for (int i = 0; i < BURST_RECORDS && !is_complete(load); i++)
        send_one(load, now_ms);
}

/* Wall time is asked for once per tick and lateness taken off it: so a clock that is being slewed
 * keeps timestamps and arrivals, which another program takes from the same clock, comparable. */
static void send_due(struct load *load)
{
    struct timespec wall;
    int64_t now_us = clock_mono_us(), wall_us;

    (void)clock_gettime(CLOCK_REALTIME, &wall); /* can not fail for this clock */
    wall_us = (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000;
    while (!is_complete(load)) {
        int64_t due_us = load->began_us + (int64_t)(load->sent * 1000000 / load->rate);
        int64_t late_us = now_us - due_us;

        if (late_us < 0)
            return;
        if (late_us > load->late_us_max)
            load->late_us_max = late_us;
        send_one(load, (wall_us - late_us) / 1000);
    }
}

static void run(struct load *load)
{
    const struct itimerspec tick = {.it_interval.tv_nsec = TICK_NS, .it_value.tv_nsec = TICK_NS};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    uint64_t expirations;

    if (timer < 0 || timerfd_settime(timer, 0, &tick, NULL) != 0)
        fail("timer", "the kernel gives none");
    load->began_us = clock_mono_us();
    while (!is_complete(load) && load->failure == RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (load->rate == 0) {
            send_burst(load);
        } else {
            ssize_t taken = read(timer, &expirations, sizeof(expirations));

            (void)taken; /* a signal only makes the turn come early */
            send_due(load);
        }
        rd_kafka_poll(load->client, 0);
    }
    (void)close(timer); /* nothing was written to it */
    if (rd_kafka_flush(load->client, FLUSH_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail("flush", "records were not acknowledged in time");
    if (load->failure != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail("delivery", rd_kafka_err2str(load->failure));
}

static void write_counts(const struct load *load, const char *path)
{
    FILE *file = fopen(path, "we");

    if (file == NULL || fwrite(load->counts, sizeof(*load->counts), load->keys, file) != load->keys)
        fail(path, "can not be written");
    if (fclose(file) != 0)
        fail(path, "can not be written");
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    if (*text == '\0' || *end != '\0')
        fail(text, "is not a number");
    return value;
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = on_signal};
    struct load load = {.failure = RD_KAFKA_RESP_ERR_NO_ERROR};

    if (argc != 8) {
        (void)fprintf(stderr, "usage: paced_load BOOTSTRAP TOPIC KEYS SEED RATE TOTAL COUNTS\n");
        return 2;
    }
    (void)sigaction(SIGTERM, &action, NULL); /* can not fail for this signal */
    load.topic = argv[2];
    load.keys = number(argv[3]);
    rng_init(&load.rng, number(argv[4]));
    load.rate = number(argv[5]);
    load.total = number(argv[6]);
    load.counts = load.keys > 0 ? calloc(load.keys, sizeof(*load.counts)) : NULL;
    if (load.counts == NULL)
        fail(argv[3], "not a number of keys");
    load.client = open_client(argv[1], &load);
    run(&load);
    write_counts(&load, argv[7]);
    (void)printf("%" PRIu64 " %" PRId64 "\n", load.sent, load.late_us_max);
    rd_kafka_destroy(load.client);
    free(load.counts);
    return 0;
}
