/* What a task says of itself: what it does not know any more is not told. */
#include <criterion/criterion.h>

#include "agent/task_private.h"
#include "api/schema.h"
#include "common/clock.h"

static char name[] = "orders", incarnation[] = "44444444-4444-4444-8444-444444444444";
static struct agent_options options = {.agent_id = "a1"};
static const struct task_thread_context context = {.options = &options};
static struct task_partition partition;
static struct task_thread task;
static struct task_report report;
static char *failing[1];

static void setup(void)
{
    partition = (struct task_partition){
        .owned = true,
        .t0 = 0,
        .t1 = 40,
        .position = 40,
        .split_bound = API_UNKNOWN,
        .range = {.log_start = 5, .stable_end = 90, .end = 100},
    };
    task.context = &context;
    task.job.name = name;
    task.job.incarnation = incarnation;
    task.core.partitions = &partition;
    task.core.partition_count = 1;
    task.core.halted_offset = API_UNKNOWN;
    task.failing = failing;
    task.core.phase.state = TASK_PHASE_ACTIVE;
}

static void teardown(void)
{
    schema_free(&schema_task_report, &report);
}

TestSuite(task_report, .init = setup, .fini = teardown);

static const struct partition_progress *fill(int64_t age_ms)
{
    task.ranges_ms = clock_mono_ms() - age_ms;
    task_report_fill(&task, &report);
    cr_assert_eq(report.progress.count, 1);
    cr_assert_eq(report.progress.items[0].t1, 40);
    cr_assert_eq(report.progress.items[0].t2, partition.position);
    return &report.progress.items[0];
}

static void assert_ranges(const struct partition_progress *told, int64_t log_start,
                          int64_t stable_end, int64_t end)
{
    cr_assert_eq(told->log_start, log_start);
    cr_assert_eq(told->stable_end, stable_end);
    cr_assert_eq(told->end, end);
}

Test(task_report, tells_where_the_log_ends)
{
    assert_ranges(fill(10000), 5, 90, 100);
}

Test(task_report, a_position_is_proof_of_an_end)
{
    partition.position = 95;
    assert_ranges(fill(0), 5, 95, 100);
}

Test(task_report, an_end_that_nobody_has_told_for_long_is_unknown)
{
    assert_ranges(fill(20000), API_UNKNOWN, API_UNKNOWN, API_UNKNOWN);
}

Test(task_report, a_failed_task_that_waits_for_another_offset_tells_what_it_was_judged_by)
{
    task.core.phase.state = TASK_PHASE_FAILED;
    partition.strange = true;
    assert_ranges(fill(20000), 5, 90, 100);
}

Test(task_report, any_other_failed_task_does_not)
{
    task.core.phase.state = TASK_PHASE_FAILED;
    assert_ranges(fill(20000), API_UNKNOWN, API_UNKNOWN, API_UNKNOWN);
}
