#include "agent/task_table.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/logger.h"
#include "common/mem.h"
#include "tests/unit/agent/fake_tasks.h"

#define OLD "00000000-0000-4000-8000-000000000001"
#define NEW "00000000-0000-4000-8000-000000000002"

static struct task_table *table;
static const struct task_thread_context context;

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    fake_tasks_reset();
    table = task_table_create(&fake_task_ops, &context);
}

static void teardown(void)
{
    task_table_stop(table, 0);
    for (size_t i = 0; i < fake_task_count; i++)
        fake_tasks[i].ended = true;
    task_table_step(table, 0);
    cr_assert_eq(task_table_count(table).running, 0);
    cr_assert_eq(fake_tasks_joined, fake_task_count);
    task_table_destroy(table);
}

TestSuite(task_table, .init = setup, .fini = teardown);

/* A document of job "orders" with processors 0..count-1 of the given epoch. */
static void want_as(enum task_role role, uint64_t decision, const char *incarnation, uint32_t count,
                    uint64_t epoch, int64_t now_ms)
{
    struct agent_document document = {.version = {1, decision}};
    document.jobs.items = mem_calloc(1, sizeof(*document.jobs.items));
    document.jobs.count = 1;
    schema_default(&schema_document_job, &document.jobs.items[0]);
    document.jobs.items[0].name = mem_strdup("orders");
    document.jobs.items[0].incarnation = mem_strdup(incarnation);
    document.tasks.items = mem_calloc(count + 1, sizeof(*document.tasks.items));
    document.tasks.count = count;
    for (uint32_t i = 0; i < count; i++)
        document.tasks.items[i] = (struct document_task){
            .job = mem_strdup("orders"), .processor = i, .role = role, .epoch = epoch};
    task_table_want(table, &document, now_ms);
    cr_assert_null(document.tasks.items);
}

static void want(uint64_t decision, const char *incarnation, uint32_t count, uint64_t epoch,
                 int64_t now_ms)
{
    want_as(TASK_ROLE_ACTIVE, decision, incarnation, count, epoch, now_ms);
}

static struct agent_report collect(void)
{
    struct agent_report report = {0};
    task_table_collect(table, &report);
    task_table_sending(table);
    return report;
}

/* States of the collected report's tasks as digits, in its order. */
static void expect_states(const char *states)
{
    struct agent_report report = collect();
    char found[FAKE_TASKS_MAX + 1] = "";
    for (size_t i = 0; i < report.tasks.count; i++)
        found[i] = (char)('0' + report.tasks.items[i].state);
    cr_assert_str_eq(found, states);
    schema_free(&schema_agent_report, &report);
}

#define ACTIVE_STATE "5"
#define CLOSED_STATE "8"
#define FENCED_STATE "9"
#define FAILED_STATE ":" /* 10 */

Test(task_table, starts_what_is_wanted_and_reports_it)
{
    want(17, NEW, 2, 7, 0);
    cr_assert_eq(fake_task_count, 2);

    struct agent_report report = collect();
    cr_assert_eq(report.version.decision, 17);
    cr_assert_eq(report.tasks.count, 2);
    cr_assert_eq(report.tasks.items[1].processor, 1);
    cr_assert_eq(report.tasks.items[1].epoch, 7);
    schema_free(&schema_agent_report, &report);

    /* The same again changes nothing. */
    want(18, NEW, 2, 7, 0);
    cr_assert_eq(fake_task_count, 2);
    cr_assert_eq(fake_tasks[0].desires + fake_tasks[1].desires, 0);
}

Test(task_table, tells_a_task_what_is_new)
{
    want(17, NEW, 2, 7, 0);
    want(18, NEW, 2, 8, 0);
    cr_assert_eq(fake_task_count, 2);
    cr_assert_eq(fake_tasks[0].epoch, 8);
    cr_assert_eq(fake_tasks[1].desires, 1);
    want(19, NEW, 2, 8, 0);
    cr_assert_eq(fake_tasks[1].desires, 1);
}

Test(task_table, a_dropped_task_closes_and_is_told_of_until_that_is_delivered)
{
    want(17, NEW, 2, 7, 0);
    want(18, NEW, 1, 7, 0);
    cr_assert(fake_tasks[1].stopped);
    cr_assert_eq(task_table_count(table).stopping, 1);
    task_table_step(table, 0);
    cr_assert_eq(fake_tasks_joined, 0);
    expect_states(ACTIVE_STATE ACTIVE_STATE);

    fake_tasks[1].state = TASK_STATE_CLOSED;
    fake_tasks[1].ended = true;
    task_table_step(table, 0);
    cr_assert_eq(fake_tasks_joined, 1);
    cr_assert_eq(task_table_count(table).running, 1);
    /* Goal: a report that did not arrive does not lose it, one that did ends it. */
    expect_states(ACTIVE_STATE CLOSED_STATE);
    expect_states(ACTIVE_STATE CLOSED_STATE);
    task_table_delivered(table);
    expect_states(ACTIVE_STATE);
}

Test(task_table, what_closed_after_the_report_is_in_the_next)
{
    want(17, NEW, 1, 7, 0);
    expect_states(ACTIVE_STATE);
    want(18, NEW, 0, 0, 0);
    fake_tasks[0].state = TASK_STATE_CLOSED;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    task_table_delivered(table);
    expect_states(CLOSED_STATE);
    task_table_delivered(table);
    expect_states("");
}

Test(task_table, a_task_wanted_again_while_it_closes_starts_after_it)
{
    want(17, NEW, 1, 7, 0);
    want(18, NEW, 0, 0, 0);
    want(19, NEW, 1, 8, 0);
    cr_assert_eq(fake_task_count, 1);
    fake_tasks[0].state = TASK_STATE_CLOSED;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    cr_assert_eq(fake_task_count, 2);
    cr_assert_eq(fake_tasks[1].epoch, 8);
    expect_states(ACTIVE_STATE);
}

Test(task_table, a_closed_task_that_runs_again_is_reported_once)
{
    want(17, NEW, 1, 7, 0);
    want(18, NEW, 0, 0, 0);
    fake_tasks[0].state = TASK_STATE_CLOSED;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    want(19, NEW, 1, 8, 0);
    expect_states(ACTIVE_STATE);
}

/* ---- hand-overs */

static void release_first(void)
{
    fake_tasks[0].state = TASK_STATE_CLOSED;
    fake_tasks[0].released = true;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
}

static void expect_released(void)
{
    struct agent_report report = collect();
    cr_assert_eq(report.tasks.count, 1);
    cr_assert_eq(report.tasks.items[0].state, TASK_STATE_CLOSED);
    cr_assert_eq(report.tasks.items[0].epoch, 7);
    cr_assert(report.tasks.items[0].released);
    schema_free(&schema_agent_report, &report);
}

Test(task_table, a_released_task_is_told_of_until_the_document_drops_it)
{
    want(17, NEW, 1, 7, 0);
    release_first();
    cr_assert_eq(task_table_count(table).running, 0);
    cr_assert_eq(task_table_wake_ms(table), INT64_MAX);
    for (int i = 0; i < 3; i++) {
        expect_released();
        task_table_delivered(table);
        task_table_step(table, 1000000);
    }
    want(18, NEW, 1, 7, 1000000); /* under its epoch it is over, whatever else is said */
    cr_assert_eq(fake_task_count, 1);
    want(19, NEW, 0, 0, 1000000);
    expect_released();
    task_table_delivered(table);
    expect_states("");
}

Test(task_table, what_was_released_is_given_back_with_a_higher_epoch)
{
    want(17, NEW, 1, 7, 0);
    release_first();
    want(18, NEW, 1, 8, 0);
    cr_assert_eq(fake_task_count, 2);
    cr_assert_eq(fake_tasks[1].epoch, 8);
    expect_states(ACTIVE_STATE);
}

Test(task_table, what_is_given_back_while_it_closes_starts_after_it)
{
    want(17, NEW, 1, 7, 0);
    want(18, NEW, 1, 8, 0);
    fake_tasks[0].epoch = 7; /* it had released under that one when it was told */
    release_first();
    cr_assert_eq(fake_task_count, 2);
    cr_assert_eq(fake_tasks[1].epoch, 8);
}

Test(task_table, a_task_that_closes_to_be_made_anew_is_at_once)
{
    want(17, NEW, 1, 7, 0);
    fake_tasks[0].state = TASK_STATE_CLOSED;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    cr_assert_eq(fake_task_count, 2);
    expect_states(ACTIVE_STATE);
}

Test(task_table, a_new_incarnation_waits_for_the_old_one)
{
    want(17, OLD, 1, 7, 0);
    want(18, NEW, 1, 8, 0);
    cr_assert(fake_tasks[0].stopped);
    cr_assert_eq(fake_task_count, 1);
    fake_tasks[0].state = TASK_STATE_CLOSED;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    cr_assert_eq(fake_task_count, 2);
    cr_assert_str_eq(fake_tasks[1].incarnation, NEW);
    expect_states(ACTIVE_STATE CLOSED_STATE);
}

Test(task_table, a_task_that_can_not_be_started_is_reported_and_tried_again)
{
    want(17, NEW, 1, 7, 0);
    fake_tasks[0].state = TASK_STATE_CLOSED;
    fake_tasks_refuse = true;
    want(18, NEW, 2, 7, 1000);

    struct agent_report report = collect();
    cr_assert_eq(report.tasks.count, 2);
    const struct task_report *failed = &report.tasks.items[1];
    cr_assert_eq(failed->state, TASK_STATE_FAILED);
    cr_assert_eq(failed->epoch, 7);
    cr_assert_eq(failed->problems.count, 1);
    cr_assert_str_eq(failed->problems.items[0].code, "task_not_started");
    cr_assert_str_eq(failed->problems.items[0].detail, "no more threads");
    schema_free(&schema_agent_report, &report);

    /* The pauses grow from half a second. */
    int64_t first_ms = task_table_wake_ms(table);
    cr_assert_geq(first_ms, 1250);
    cr_assert_leq(first_ms, 1500);
    task_table_step(table, first_ms);
    cr_assert_geq(task_table_wake_ms(table) - first_ms, 500);

    fake_tasks_refuse = false;
    task_table_step(table, first_ms + 1);
    cr_assert_eq(fake_task_count, 1);
    task_table_step(table, task_table_wake_ms(table));
    cr_assert_eq(fake_task_count, 2);
    cr_assert_eq(task_table_wake_ms(table), INT64_MAX);
    expect_states(CLOSED_STATE ACTIVE_STATE);
}

Test(task_table, a_thread_that_ended_by_itself_is_started_again_later)
{
    want(17, NEW, 1, 7, 0);
    fake_tasks[0].state = TASK_STATE_FAILED;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    expect_states(FAILED_STATE);
    cr_assert_eq(fake_task_count, 1);
    task_table_step(table, task_table_wake_ms(table));
    cr_assert_eq(fake_task_count, 2);
}

Test(task_table, a_fenced_task_is_started_for_a_higher_epoch_only)
{
    want(17, NEW, 1, 7, 0);
    fake_tasks[0].state = TASK_STATE_FENCED;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    expect_states(FENCED_STATE);
    cr_assert_eq(task_table_wake_ms(table), INT64_MAX);
    task_table_step(table, 1000000);
    want(18, NEW, 1, 7, 1000000);
    cr_assert_eq(fake_task_count, 1);
    want(19, NEW, 1, 8, 1000000);
    cr_assert_eq(fake_task_count, 2);
    expect_states(ACTIVE_STATE);
}

/* It ended before it heard of the higher epoch, under which nothing has fenced it. */
Test(task_table, a_fence_of_an_older_epoch_does_not_hold)
{
    want(17, NEW, 1, 7, 0);
    want(18, NEW, 1, 8, 0);
    fake_tasks[0].epoch = 7;
    fake_tasks[0].state = TASK_STATE_FENCED;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    task_table_step(table, 1000000);
    cr_assert_eq(fake_task_count, 2);
    expect_states(ACTIVE_STATE);
}

/* An agent that comes back after others took over may be told to learn before it finds that out. */
Test(task_table, a_task_fenced_when_it_is_to_learn_learns)
{
    want(17, NEW, 1, 7, 0);
    want_as(TASK_ROLE_LEARNER, 18, NEW, 1, 0, 0);
    fake_tasks[0].epoch = 7;
    fake_tasks[0].state = TASK_STATE_FENCED;
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    cr_assert_neq(task_table_wake_ms(table), INT64_MAX);
    task_table_step(table, task_table_wake_ms(table));
    cr_assert_eq(fake_task_count, 2);
    cr_assert_eq(task_table_wake_ms(table), INT64_MAX);
}

Test(task_table, a_stop_ignores_later_documents)
{
    want(17, NEW, 2, 7, 0);
    task_table_stop(table, 0);
    cr_assert(fake_tasks[0].stopped);
    cr_assert(fake_tasks[1].stopped);
    want(18, NEW, 4, 8, 0);
    cr_assert_eq(fake_task_count, 2);
    fake_tasks[0].ended = true;
    task_table_step(table, 0);
    cr_assert_eq(task_table_count(table).running, 1);
    cr_assert_eq(fake_task_count, 2);
}

Test(task_table, passes_on_what_learners_follow)
{
    struct input_offset offset = {0, 1, 99};
    struct follow follows[] = {
        {.job = (char *)"orders", .processor = 1, .committed = {&offset, 1}},
        {.job = (char *)"gone", .processor = 0, .committed = {&offset, 1}},
        {.job = (char *)"orders", .processor = 0, .committed = {&offset, 1}}};
    struct report_answer answer = {.follow = {follows, 3}};

    want(17, NEW, 3, 7, 0);
    struct agent_report report = collect();
    schema_free(&schema_agent_report, &report);
    task_table_follow(table, &answer);
    cr_assert_eq(fake_tasks[0].follows, 1);
    cr_assert_eq(fake_tasks[1].follows, 1);
    cr_assert_eq(fake_tasks[2].follows, 0);

    /* An answer to a report from before the present document may be about another job. */
    want(18, OLD, 3, 8, 0);
    task_table_follow(table, &answer);
    cr_assert_eq(fake_tasks[1].follows, 1);
}

Test(task_table, tasks_that_come_and_go)
{
    for (uint64_t round = 1; round <= 10; round++) {
        want(round, NEW, (uint32_t)(round * 7 % 12), round, 0);
        for (size_t i = 0; i < fake_task_count; i++) {
            if (fake_tasks[i].stopped && !fake_tasks[i].ended) {
                fake_tasks[i].state = TASK_STATE_CLOSED;
                fake_tasks[i].ended = true;
            }
        }
        task_table_step(table, 0);
        struct task_table_counts counts = task_table_count(table);
        cr_assert_eq(counts.running, round * 7 % 12);
        cr_assert_eq(counts.wanted, counts.running);
        cr_assert_eq(counts.down, 0);
    }
    cr_assert_gt(fake_tasks_joined, 10);
}
