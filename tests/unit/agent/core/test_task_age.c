/* S16: a kept state that may lack tombstones which compaction has removed is not gone on with. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

#define DAY_MS INT64_C(86400000)

static struct rig the_rig;
static struct rig *const rig = &the_rig;

static void setup(void)
{
    rig_init(rig);
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->policies[i] = (struct task_policy){.compacted = true, .delete_retention_ms = DAY_MS};
}

static void teardown(void)
{
    rig_finish(rig);
}

TestSuite(task_age, .init = setup, .fini = teardown);

static const char *store_opened(int64_t age_ms)
{
    return rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_STORE_OPENED,
                                                   .rebuilds_from_latest = true,
                                                   .state_age_ms = age_ms});
}

static const char *open_latest(int64_t age_ms)
{
    (void)rig_give(rig, TASK_EVENT_START);
    cr_assert_str_eq(store_opened(age_ms), "R");
    return rig_give(rig, TASK_EVENT_RANGES);
}

static void expect_set_aside(const char *reason)
{
    rig_assert(strchr(rig->letters, 'S') != NULL);
    cr_assert_str_eq(rig->task.code, "state_set_aside");
    cr_assert(strstr(rig->task.detail, reason) != NULL, "%s", rig->task.detail);
    cr_assert(strstr(rig->task.detail, "tombstones for 86400 s") != NULL, "%s", rig->task.detail);
}

Test(task_age, a_state_older_than_the_tombstones_is_set_aside_and_relearned)
{
    (void)open_latest(DAY_MS);
    expect_set_aside("written 86400 s ago");
    cr_assert_str_eq(store_opened(API_UNKNOWN), "R", "a new state, which nobody has written");
    rig_go(rig, TASK_PHASE_REPLAY);
    cr_assert_eq(rig->task.partitions[0].position, 0);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig->task.code, "state_set_aside", "still readable");
}

Test(task_age, a_state_of_unknown_age_is_set_aside)
{
    (void)open_latest(API_UNKNOWN);
    expect_set_aside("nobody knows when");
}

Test(task_age, the_time_that_passes_until_the_topics_are_looked_at_counts)
{
    (void)rig_give(rig, TASK_EVENT_START);
    (void)store_opened(0);
    rig->now_ms += DAY_MS;
    (void)rig_give(rig, TASK_EVENT_RANGES);
    expect_set_aside("written 86400 s ago");
}

Test(task_age, a_younger_state_is_kept)
{
    cr_assert_str_eq(open_latest(DAY_MS - 1), "V");
}

Test(task_age, on_a_topic_that_is_not_compacted_age_is_nothing)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->policies[i].compacted = false;
    cr_assert_str_eq(open_latest(100 * DAY_MS), "V");
}

Test(task_age, a_state_that_lacks_nothing_is_kept)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->ranges[i].stable_end = rig->ranges[i].end = rig->stored[i];
    cr_assert_str_eq(open_latest(100 * DAY_MS), "V");
}

Test(task_age, one_partition_is_enough)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->policies[i].compacted = i == 2;
    (void)open_latest(2 * DAY_MS);
    expect_set_aside("written 172800 s ago");
}

Test(task_age, logic_that_counts_is_judged_by_its_count)
{
    (void)rig_give(rig, TASK_EVENT_START);
    (void)rig_give_event(
        rig, (struct task_event){.kind = TASK_EVENT_STORE_OPENED, .state_age_ms = 100 * DAY_MS});
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "V");
}
