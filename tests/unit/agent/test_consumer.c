#include "agent/consumer.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/kafka_conf.h"
#include "common/clock.h"
#include "common/mem.h"
#include "tests/unit/agent/mock_kafka.h"

#define TOPIC   "in"
#define GROUP   "group"
#define UNSTAMP "somebody else's"

static struct mock_kafka mock;
static struct task_partition partitions[2];
static struct task committer = {
    .config = {.incarnation = "44444444-4444-4444-8444-444444444444", .processor = 3},
    .epoch_working = 7,
    .partitions = partitions,
    .partition_count = 2,
};
static struct consumer *consumer;
static int wake_fd;
static atomic_bool destroyed;
static atomic_int woken_late;

static void wake(void *arg)
{
    const uint64_t one = 1;

    (void)arg;
    if (atomic_load(&destroyed))
        atomic_fetch_add(&woken_late, 1);
    cr_assert_eq(write(wake_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
}

static bool wait_woken(int timeout_ms)
{
    struct pollfd poll_fd = {.fd = wake_fd, .events = POLLIN};
    uint64_t count;

    if (poll(&poll_fd, 1, timeout_ms) != 1)
        return false;
    cr_assert_eq(read(wake_fd, &count, sizeof(count)), (ssize_t)sizeof(count));
    return true;
}

static void open_consumer(void)
{
    static char topic[] = TOPIC;
    static char *topics[] = {topic};
    const struct consumer_config config = {.kafka = &mock.kafka,
                                           .client_id = "test",
                                           .group_id = GROUP,
                                           .topics = topics,
                                           .topic_count = 1,
                                           .partitions = partitions,
                                           .partition_count = 2,
                                           .wake = wake};
    struct err err;

    for (uint32_t i = 0; i < 2; i++)
        partitions[i] = (struct task_partition){
            .partition = i, .owned = true, .committing = API_UNKNOWN, .t1 = API_UNKNOWN};
    cr_assert_eq(consumer_create(&config, &consumer, &err), ERR_NONE, "%s", err.text);
}

static void setup(void)
{
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    mock_kafka_start(&mock);
    mock_kafka_set(&mock, "topic.metadata.refresh.interval.ms", "200");
    mock_kafka_set(&mock, "socket.timeout.ms", "2000");
    mock_kafka_topic(&mock, TOPIC, 2);
    open_consumer();
}

static void teardown(void)
{
    consumer_destroy(consumer);
    atomic_store(&destroyed, true);
    mock_kafka_finish(&mock);
    cr_assert_eq(atomic_load(&woken_late), 0);
}

TestSuite(consumer, .init = setup, .fini = teardown, .timeout = 60);

static void assign(int64_t first, int64_t second)
{
    struct err err;

    cr_assert_eq(consumer_assign(consumer, (int64_t[]){first, second}, &err), ERR_NONE, "%s",
                 err.text);
}

/* The next item of a partition, waited for. */
static struct consumer_item next(size_t index)
{
    int64_t deadline_ms = clock_mono_ms() + MOCK_WAIT_MS;
    struct consumer_item item;

    for (;;) {
        consumer_peek(consumer, index, &item);
        if (item.kind != CONSUMER_NOTHING || clock_mono_ms() >= deadline_ms)
            return item;
        (void)consumer_poll(consumer);
        (void)wait_woken(50);
    }
}

static void expect(size_t index, enum consumer_item_kind kind, int64_t offset)
{
    struct consumer_item item = next(index);

    cr_assert_eq(item.kind, kind, "kind %d of offset %lld: %s", item.kind, (long long)item.offset,
                 item.detail == NULL ? "" : item.detail);
    cr_assert_eq(item.offset, offset);
    consumer_pop(consumer, index);
}

/* ---- records */

Test(consumer, reads_each_partition_from_its_offset_to_its_end)
{
    mock_kafka_fill(&mock, TOPIC, 0, 5);
    mock_kafka_fill(&mock, TOPIC, 1, 2);
    assign(3, 0);
    expect(0, CONSUMER_RECORD, 3);
    expect(1, CONSUMER_RECORD, 0);
    expect(0, CONSUMER_RECORD, 4);
    expect(0, CONSUMER_END, 5);
    expect(1, CONSUMER_RECORD, 1);
    expect(1, CONSUMER_END, 2);
}

Test(consumer, an_item_stays_until_it_is_popped)
{
    mock_kafka_fill(&mock, TOPIC, 0, 2);
    assign(0, 0);
    cr_assert_eq(next(0).offset, 0);
    cr_assert_eq(next(0).offset, 0);
    consumer_pop(consumer, 0);
    cr_assert_eq(next(0).offset, 1);
}

Test(consumer, what_was_fetched_before_an_assignment_never_comes_up_again)
{
    mock_kafka_fill(&mock, TOPIC, 0, 700); /* more than is taken out of the queue at once */
    assign(0, 0);
    expect(0, CONSUMER_RECORD, 0);
    for (int round = 0; round < 6; round++) {
        int64_t from = 650 - round * 100;

        assign(from, 0);
        for (int64_t offset = from; offset < from + 3; offset++)
            expect(0, CONSUMER_RECORD, offset);
    }
    consumer_unassign(consumer);
    cr_assert_not(wait_woken(300) && next(0).kind != CONSUMER_NOTHING);
}

/* librdkafka forgets a partition that is unassigned before it knows the topic, with its queue. */
Test(consumer, is_assigned_again_before_the_topic_is_known)
{
    mock_kafka_fill(&mock, TOPIC, 0, 3);
    mock_kafka_delay(&mock, 200);
    assign(0, 0);
    consumer_unassign(consumer);
    mock_kafka_delay(&mock, 0);
    while (consumer_poll(consumer) || wait_woken(500)) /* until its metadata has come */
        continue;
    assign(1, 0);
    expect(0, CONSUMER_RECORD, 1);
    expect(0, CONSUMER_RECORD, 2);
    expect(0, CONSUMER_END, 3);
    cr_assert_not(consumer_strayed(consumer));
}

/* What was fetched of the others is read on, without a gap; what is left is not waited for at the
 * end. */
Test(consumer, a_partition_that_is_given_away_is_left_alone)
{
    mock_kafka_fill(&mock, TOPIC, 0, 600);
    mock_kafka_fill(&mock, TOPIC, 1, 3);
    assign(0, 0);
    expect(0, CONSUMER_RECORD, 0);
    expect(1, CONSUMER_RECORD, 0);
    partitions[0].given = true;
    consumer_forget(consumer);
    partitions[0] = partitions[1]; /* as the task does */
    expect(0, CONSUMER_RECORD, 1);
    expect(0, CONSUMER_RECORD, 2);
    expect(0, CONSUMER_END, 3);
    mock_kafka_fill(&mock, TOPIC, 1, 1);
    expect(0, CONSUMER_RECORD, 3);
    mock_kafka_fill(&mock, TOPIC, 0, 1);
    cr_assert_not(consumer_strayed(consumer));
    cr_assert_eq(consumer_assign(consumer, (int64_t[]){2}, NULL), ERR_NONE);
    expect(0, CONSUMER_RECORD, 2);
}

static void assert_bytes(const void *data, size_t bytes, const char *expected)
{
    cr_assert_eq(data == NULL, expected == NULL);
    cr_assert_eq(bytes, expected == NULL ? 0 : strlen(expected));
    cr_assert_eq(memcmp(data == NULL ? "" : data, expected == NULL ? "" : expected, bytes), 0);
}

Test(consumer, tells_null_from_empty)
{
    static const struct {
        const char *key, *value;
    } cases[] = {{NULL, NULL}, {"", ""}, {"k", NULL}, {NULL, "v"}, {"k", ""}, {"", "v"}};
    const size_t count = sizeof(cases) / sizeof(cases[0]);

    for (size_t i = 0; i < count; i++)
        mock_kafka_write(&mock, TOPIC, 0, cases[i].key, cases[i].value, 1000 + (int64_t)i, NULL);
    assign(0, 0);
    for (size_t i = 0; i < count; i++) {
        rd_kafka_message_t *message = next(0).message;
        rd_kafka_timestamp_type_t type;

        assert_bytes(message->key, message->key_len, cases[i].key);
        assert_bytes(message->payload, message->len, cases[i].value);
        cr_assert_eq(rd_kafka_message_timestamp(message, &type), 1000 + (int64_t)i);
        consumer_pop(consumer, 0);
    }
}

Test(consumer, wakes_when_a_record_comes_into_an_empty_queue)
{
    mock_kafka_fill(&mock, TOPIC, 0, 1);
    assign(1, 0);
    expect(0, CONSUMER_END, 1);
    expect(1, CONSUMER_END, 0);
    while (wait_woken(0))
        continue;
    mock_kafka_write(&mock, TOPIC, 0, "k", "v", 0, NULL);
    cr_assert(wait_woken(MOCK_WAIT_MS));
    expect(0, CONSUMER_RECORD, 1);
}

Test(consumer, is_destroyed_with_fetched_records)
{
    mock_kafka_fill(&mock, TOPIC, 0, 600);
    assign(0, 0);
    expect(0, CONSUMER_RECORD, 0); /* teardown does the rest, under the address sanitizer too */
}

Test(consumer, is_destroyed_before_anything_was_assigned)
{
    struct consumer_item item;

    consumer_peek(consumer, 0, &item);
    cr_assert_eq(item.kind, CONSUMER_NOTHING);
}

/* ---- what goes wrong with a partition */

Test(consumer, a_position_past_the_end_is_lost_not_moved)
{
    mock_kafka_fill(&mock, TOPIC, 0, 2);
    assign(7, 0);
    cr_assert_eq(next(0).kind, CONSUMER_LOST);
    cr_assert_not_null(next(0).detail);
}

Test(consumer, a_fetch_that_is_refused_is_told_once_and_goes_on)
{
    mock_kafka_fill(&mock, TOPIC, 0, 1);
    mock_kafka_fail(&mock, MOCK_FETCH, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 2);
    assign(0, 1);
    cr_assert_eq(next(0).kind, CONSUMER_FAILED);
    cr_assert(strstr(next(0).detail, "authorization failed") != NULL, "%s", next(0).detail);
    consumer_pop(consumer, 0);
    expect(0, CONSUMER_RECORD, 0);
}

Test(consumer, a_topic_that_is_gone_is_missing_after_what_was_fetched)
{
    mock_kafka_fill(&mock, TOPIC, 0, 1);
    assign(0, 0);
    expect(0, CONSUMER_RECORD, 0);
    expect(0, CONSUMER_END, 1);
    rd_kafka_mock_topic_set_error(mock.cluster, TOPIC, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    cr_assert_eq(next(0).kind, CONSUMER_MISSING);
    cr_assert(strstr(next(0).detail, TOPIC) != NULL, "%s", next(0).detail);
    consumer_pop(consumer, 0);
    /* Nothing of it is left over for the next assignment. */
    rd_kafka_mock_topic_set_error(mock.cluster, TOPIC, RD_KAFKA_RESP_ERR_NO_ERROR);
    assign(0, 0);
    expect(0, CONSUMER_RECORD, 0);
}

Test(consumer, says_when_all_brokers_are_down_until_one_has_answered)
{
    int64_t deadline_ms = clock_mono_ms() + MOCK_WAIT_MS;

    assign(0, 0);
    expect(0, CONSUMER_END, 0);
    cr_assert_not(consumer_poll(consumer));
    cr_assert_eq(rd_kafka_mock_broker_set_down(mock.cluster, MOCK_BROKER),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
    while (!consumer_poll(consumer) && clock_mono_ms() < deadline_ms)
        (void)wait_woken(50);
    cr_assert(consumer_poll(consumer));
    consumer_answered(consumer);
    cr_assert_not(consumer_poll(consumer));
}

/* ---- committed offsets */

static void read_committed(struct task_committed *committed)
{
    struct err err;

    cr_assert_eq(consumer_committed(consumer, MOCK_WAIT_MS, committed, &err), ERR_NONE, "%s",
                 err.text);
}

static void commit(void)
{
    struct err err;

    cr_assert_eq(consumer_commit(consumer, &committer, MOCK_WAIT_MS, &err), ERR_NONE, "%s",
                 err.text);
}

/* As another tool would: offset 1 of partition 0. */
static void commit_foreign(const char *metadata)
{
    const struct kafka_conf_item items[] = {{"group.id", GROUP, false, true}};
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *element = rd_kafka_topic_partition_list_add(list, TOPIC, 0);
    rd_kafka_conf_t *conf;
    rd_kafka_t *tool;

    element->offset = 1;
    element->metadata = mem_strdup(metadata); /* librdkafka frees it */
    element->metadata_size = strlen(metadata);
    cr_assert_eq(kafka_conf_create(items, 1, &mock.kafka, &conf, NULL), ERR_NONE);
    cr_assert_eq(kafka_conf_client(RD_KAFKA_CONSUMER, conf, &tool, NULL), ERR_NONE);
    cr_assert_eq(rd_kafka_commit(tool, list, 0), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(tool);
}

Test(consumer, offsets_are_unknown_until_they_are_committed)
{
    struct task_committed committed[2] = {{.offset = 77}, {.offset = 77}};

    read_committed(committed);
    cr_assert_eq(committed[0].offset, API_UNKNOWN);
    cr_assert_eq(committed[1].offset, API_UNKNOWN);
    cr_assert_not(committed[0].stamped);
    partitions[0].committing = 5;
    partitions[0].records = API_UNKNOWN;
    commit();
    read_committed(committed);
    cr_assert_eq(committed[0].offset, 5);
    cr_assert(committed[0].stamped);
    cr_assert_eq(committed[0].stamp.processor, 3);
    cr_assert_eq(committed[0].stamp.epoch, 7);
    cr_assert_eq(committed[0].stamp.records, API_UNKNOWN);
    cr_assert_eq(committed[1].offset, API_UNKNOWN, "a partition that was left out");
}

Test(consumer, each_partition_is_committed_with_its_own_number_of_records)
{
    struct task_committed committed[2];

    partitions[0].committing = 5;
    partitions[0].records = 4;
    partitions[1].committing = 9;
    partitions[1].records = 0;
    commit();
    read_committed(committed);
    cr_assert_eq(committed[0].stamp.records, 4);
    cr_assert_eq(committed[1].stamp.records, 0);
    cr_assert_eq(committed[1].stamp.epoch, 7);
}

Test(consumer, metadata_of_others_is_no_stamp)
{
    struct task_committed committed[2];

    commit_foreign(UNSTAMP);
    read_committed(committed);
    cr_assert_eq(committed[0].offset, 1);
    cr_assert_not(committed[0].stamped);
    partitions[0].committing = 1;
    commit();
    commit_foreign("");
    read_committed(committed);
    cr_assert_not(committed[0].stamped);
}

Test(consumer, partitions_of_others_are_not_asked_for)
{
    struct task_committed committed[2] = {{.offset = 77}, {.offset = 77}};

    partitions[0].owned = false;
    read_committed(committed);
    cr_assert_eq(committed[0].offset, 77);
    cr_assert_eq(committed[1].offset, API_UNKNOWN);
}

Test(consumer, a_refused_commit_is_an_error)
{
    struct err err;

    partitions[0].committing = 5;
    commit();
    mock_kafka_fail(&mock, MOCK_OFFSET_COMMIT, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, 1);
    cr_assert_eq(consumer_commit(consumer, &committer, MOCK_WAIT_MS, &err), ERR_KAFKA);
    cr_assert(strstr(err.text, "authorization") != NULL, "%s", err.text);
}

Test(consumer, a_commit_without_an_answer_ends_in_time_and_so_does_the_consumer)
{
    int64_t before_ms;

    consumer_destroy(consumer);
    mock_kafka_set(&mock, "socket.timeout.ms", "6000");
    open_consumer();
    partitions[0].committing = 5;
    commit();
    mock_kafka_delay(&mock, 60000);
    before_ms = clock_mono_ms();
    cr_assert_eq(consumer_commit(consumer, &committer, 300, NULL), ERR_KAFKA);
    cr_assert_lt(clock_mono_ms() - before_ms, 5000);
    consumer_destroy(consumer); /* its request is waited for as long as any */
    consumer = NULL;
    cr_assert_lt(clock_mono_ms() - before_ms, 20000);
}

Test(consumer, committed_offsets_that_do_not_come_are_an_error_in_time)
{
    struct task_committed committed[2] = {{.offset = 77}, {.offset = 77}};
    int64_t before_ms;

    read_committed(committed);
    mock_kafka_delay(&mock, 20000);
    committed[0].offset = committed[1].offset = 77;
    before_ms = clock_mono_ms();
    cr_assert_eq(consumer_committed(consumer, 300, committed, NULL), ERR_UNAVAILABLE);
    cr_assert_lt(clock_mono_ms() - before_ms, 10000);
    cr_assert_eq(committed[0].offset, 77, "unknown is not 0, and nothing is made up");
}

/* The broker tells another request of it, and librdkafka's call ends with a timeout. */
Test(consumer, committed_offsets_that_may_not_be_read_are_told_from_those_that_do_not_come)
{
    struct task_committed committed[2] = {{.offset = 77}, {.offset = 77}};
    struct err err;

    consumer_destroy(consumer); /* it may know who coordinates the group */
    mock_kafka_fail(&mock, MOCK_FIND_COORDINATOR, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
                    1000);
    open_consumer();
    cr_assert_eq(consumer_committed(consumer, MOCK_WAIT_MS, committed, &err), ERR_KAFKA, "%s",
                 err.text);
    cr_assert(strstr(err.text, GROUP) != NULL, "%s", err.text);
    cr_assert(strstr(err.text, "Group authorization failed") != NULL, "%s", err.text);
    cr_assert_eq(committed[0].offset, 77);
}

/* ---- memory */

Test(consumer, queues_share_what_a_task_may_hold)
{
    static const size_t counts[] = {1, 3, 8, 200, 1000, 10000};
    struct consumer_limits alone = consumer_limits(1);

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct consumer_limits each = consumer_limits(counts[i]);
        int64_t count = (int64_t)counts[i];

        cr_assert_geq(each.messages, 500);
        cr_assert_geq(each.kbytes, 64);
        cr_assert_geq(each.fetch_bytes, 262144);
        cr_assert_leq(each.fetch_bytes, 1048576);
        if (count <= 200) {
            cr_assert_leq(each.messages * count, alone.messages);
            cr_assert_leq(each.kbytes * count, alone.kbytes);
        }
    }
}
