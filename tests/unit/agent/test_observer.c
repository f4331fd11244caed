#include "agent/observer.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/agent/mock_kafka.h"

#define TOPIC "in"
#define OTHER "other"

#define SLOW_MS 700

static struct mock_kafka mock;
static struct observer *observer;
static struct task_partition partitions[2];
static struct task_policy policies[2];
static int wake_fd;
static atomic_int wakes;
static int taken; /* answers */

static void wake(void *arg)
{
    const uint64_t one = 1;

    (void)arg;
    atomic_fetch_add(&wakes, 1);
    cr_assert_eq(write(wake_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
}

static struct observer_watch *watch(const char *topic)
{
    char *topics[] = {(char *)(uintptr_t)topic};
    const struct observer_watch_config config = {
        .topics = topics, .partitions = partitions, .partition_count = 2, .wake = wake};

    return observer_watch(observer, &config);
}

static void setup(void)
{
    struct err err;

    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    partitions[1].partition = 1;
    mock_kafka_start(&mock);
    mock_kafka_topic(&mock, TOPIC, 2);
    mock_kafka_topic(&mock, OTHER, 2);
    cr_assert_eq(observer_create(&mock.kafka, "test", &observer, &err), ERR_NONE, "%s", err.text);
}

static void teardown(void)
{
    observer_destroy(observer);
    mock_kafka_finish(&mock);
}

TestSuite(observer, .init = setup, .fini = teardown, .timeout = 60);

/* The next question takes three requests of 700 ms. Until the first is in the air. */
static void ask_slowly(struct observer_watch *of)
{
    cr_assert_eq(rd_kafka_mock_broker_push_request_error_rtts(
                     mock.cluster, MOCK_BROKER, MOCK_LIST_OFFSETS, (size_t)3,
                     RD_KAFKA_RESP_ERR_NO_ERROR, SLOW_MS, RD_KAFKA_RESP_ERR_NO_ERROR, SLOW_MS,
                     RD_KAFKA_RESP_ERR_NO_ERROR, SLOW_MS),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
    observer_ask(of, false);
    /* allow(usleep): nothing tells that a request was sent, and the test holds when it was not */
    (void)usleep(100 * 1000);
}

/* The answer to one question, waited for. */
static enum err_code ask_for(struct observer_watch *of, bool policy, struct task_range *ranges,
                             struct err *err)
{
    int64_t deadline_ms = clock_mono_ms() + MOCK_WAIT_MS;
    struct pollfd poll_fd = {.fd = wake_fd, .events = POLLIN};
    enum err_code code = ERR_INTERNAL;

    observer_ask(of, policy);
    while (!observer_take(of, &code, ranges, policies, err)) {
        uint64_t count;

        cr_assert_lt(clock_mono_ms(), deadline_ms);
        if (poll(&poll_fd, 1, MOCK_WAIT_MS) == 1)
            cr_assert_eq(read(wake_fd, &count, sizeof(count)), (ssize_t)sizeof(count));
    }
    taken++;
    return code;
}

static enum err_code ask(struct observer_watch *of, struct task_range *ranges, struct err *err)
{
    return ask_for(of, false, ranges, err);
}

/* A question is given up after a second, and is asked again then, as a task does. */
static void expect_end(struct observer_watch *of, size_t index, int64_t end)
{
    int64_t deadline_ms = clock_mono_ms() + MOCK_WAIT_MS;
    struct task_range ranges[2];
    enum err_code code;
    struct err err;

    do
        code = ask(of, ranges, &err);
    while (code == ERR_UNAVAILABLE && clock_mono_ms() < deadline_ms);
    cr_assert_eq(code, ERR_NONE, "%s", err.text);
    cr_assert_eq(ranges[index].log_start, 0);
    cr_assert_eq(ranges[index].stable_end, end);
    cr_assert_eq(ranges[index].end, end);
}

Test(observer, says_where_partitions_end)
{
    struct observer_watch *of = watch(TOPIC);

    mock_kafka_fill(&mock, TOPIC, 1, 3);
    expect_end(of, 0, 0);
    expect_end(of, 1, 3);
    mock_kafka_fill(&mock, TOPIC, 1, 2);
    expect_end(of, 1, 5);
    observer_unwatch(of);
}

/* The mock cluster has no DescribeConfigs. Real answers: tests/system/test_handoff_history.py. */
Test(observer, a_policy_that_can_not_be_asked_is_no_answer)
{
    struct observer_watch *of = watch(TOPIC);
    struct task_range ranges[2];
    struct err err;

    cr_assert_eq(ask_for(of, true, ranges, &err), ERR_UNAVAILABLE);
    cr_assert(strstr(err.text, "configuration") != NULL, "%s", err.text);
    expect_end(of, 0, 0);
    for (size_t i = 0; i < 2; i++)
        cr_assert(policies[i].compacted && policies[i].delete_retention_ms == 0,
                  "what was not asked is not known to be whole");
    observer_unwatch(of);
}

Test(observer, an_answer_is_taken_once)
{
    struct observer_watch *of = watch(TOPIC);
    struct task_range ranges[2];
    enum err_code code;

    cr_assert_not(observer_take(of, &code, ranges, policies, NULL));
    cr_assert_eq(ask(of, ranges, NULL), ERR_NONE);
    cr_assert_not(observer_take(of, &code, ranges, policies, NULL));
    observer_unwatch(of);
}

Test(observer, an_answer_is_newer_than_the_last_question)
{
    struct observer_watch *of = watch(TOPIC);

    mock_kafka_fill(&mock, TOPIC, 1, 1); /* connects */
    expect_end(of, 0, 0);
    ask_slowly(of);
    mock_kafka_fill(&mock, TOPIC, 0, 4);
    expect_end(of, 0, 4);
    cr_assert_eq(atomic_load(&wakes), taken, "what was asked again was not answered for the first");
    observer_unwatch(of);
}

Test(observer, a_topic_that_is_gone_is_not_found)
{
    struct observer_watch *of = watch(TOPIC);
    struct task_range ranges[2];
    struct err err;

    expect_end(of, 0, 0);
    rd_kafka_mock_topic_set_error(mock.cluster, TOPIC, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    mock_kafka_fail(&mock, MOCK_LIST_OFFSETS, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, 5);
    cr_assert_eq(ask(of, ranges, &err), ERR_NOT_FOUND, "%s", err.text);
    cr_assert(strstr(err.text, TOPIC) != NULL, "%s", err.text);
    rd_kafka_mock_topic_set_error(mock.cluster, TOPIC, RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_mock_clear_request_errors(mock.cluster, MOCK_LIST_OFFSETS);
    (void)ask(of, ranges, &err); /* from memory, perhaps; it makes the client look again */
    expect_end(of, 0, 0);
    observer_unwatch(of);
}

/* librdkafka answers from memory that there is no leader, for minutes, unless it is made to ask. */
Test(observer, asks_again_for_a_leader_that_was_away)
{
    struct observer_watch *of = watch(TOPIC);
    struct task_range ranges[2];
    int64_t before_ms = clock_mono_ms();
    struct err err;

    cr_assert_eq(rd_kafka_mock_partition_set_leader(mock.cluster, TOPIC, 1, -1),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
    cr_assert_eq(ask(of, ranges, &err), ERR_UNAVAILABLE, "%s", err.text);
    cr_assert_lt(clock_mono_ms() - before_ms, 10000);
    cr_assert_eq(rd_kafka_mock_partition_set_leader(mock.cluster, TOPIC, 1, MOCK_BROKER),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
    (void)ask(of, ranges, &err);
    expect_end(of, 1, 0);
    observer_unwatch(of);
}

Test(observer, one_partition_without_a_leader_is_no_ones_trouble_but_its_own)
{
    struct observer_watch *bad = watch(TOPIC), *good = watch(OTHER);
    struct task_range ranges[2];

    mock_kafka_fill(&mock, OTHER, 0, 2);
    cr_assert_eq(rd_kafka_mock_partition_set_leader(mock.cluster, TOPIC, 1, -1),
                 RD_KAFKA_RESP_ERR_NO_ERROR);
    observer_ask(bad, false);
    expect_end(good, 0, 2);
    cr_assert_neq(ask(bad, ranges, NULL), ERR_NONE);
    observer_unwatch(good);
    observer_unwatch(bad);
}

Test(observer, a_broker_that_does_not_answer_is_unavailable_in_time)
{
    struct observer_watch *of = watch(TOPIC);
    struct task_range ranges[2] = {{.end = 77}};
    int64_t before_ms;
    struct err err;

    expect_end(of, 0, 0);
    mock_kafka_delay(&mock, 20000);
    before_ms = clock_mono_ms();
    cr_assert_eq(ask(of, ranges, &err), ERR_UNAVAILABLE);
    cr_assert_lt(clock_mono_ms() - before_ms, 10000);
    cr_assert_eq(ranges[0].end, 77, "what is not known is not made up");
    observer_unwatch(of);
}

Test(observer, is_left_in_the_middle_of_a_question)
{
    struct observer_watch *busy = watch(TOPIC), *queued = watch(OTHER);
    int64_t before_ms;

    expect_end(busy, 0, 0);
    ask_slowly(busy);
    observer_ask(queued, false);
    before_ms = clock_mono_ms();
    observer_unwatch(busy);
    observer_unwatch(queued);
    cr_assert_lt(clock_mono_ms() - before_ms, 2 * SLOW_MS);
    observer_destroy(observer);
    observer = NULL;
    cr_assert_eq(atomic_load(&wakes), taken, "nobody is woken who has left");
}

Test(observer, watches_come_and_go_in_any_order)
{
    struct observer_watch *watches[8];

    for (size_t i = 0; i < 8; i++) {
        watches[i] = watch(i % 2 == 0 ? TOPIC : OTHER);
        observer_ask(watches[i], false);
    }
    observer_unwatch(watches[7]);
    observer_unwatch(watches[3]);
    observer_unwatch(watches[4]);
    expect_end(watches[6], 0, 0);
    expect_end(watches[0], 0, 0);
    observer_unwatch(NULL);
    for (size_t i = 0; i < 7; i++) {
        if (i != 3 && i != 4)
            observer_unwatch(watches[i]);
    }
}
