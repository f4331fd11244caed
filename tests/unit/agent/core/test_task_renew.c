/* Committed offsets that do not move are committed again before Kafka forgets them (D3.7). */
#include <criterion/criterion.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig *const rig = &rig_shared;

TestSuite(task_renew, .init = rig_setup, .fini = rig_teardown);

Test(task_renew, renews_unmoved_offsets_hourly)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_settle(rig);
    cr_assert_eq(rig->actions.wake_ms, rig->task.renew_due_ms);
    cr_assert_str_eq(rig_tick(rig, rig->task.renew_due_ms - rig->now_ms), "C");
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        cr_assert_eq(rig->task.partitions[i].committing, 50);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_eq(rig->task.renew_due_ms, rig->now_ms + TASK_RENEW_MS);
}

Test(task_renew, renews_offsets_at_a_quarter_of_their_retention)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_settle(rig);
    int64_t stamped_ms = rig->task.renew_due_ms - TASK_RENEW_MS;
    task_set_offsets_retention(&rig->task, API_UNKNOWN);
    cr_assert_eq(rig->task.renew_due_ms, stamped_ms + TASK_RENEW_MS, "hourly while not known");
    task_set_offsets_retention(&rig->task, 600000);
    task_set_offsets_retention(&rig->task, 600000);
    cr_assert_eq(rig->task.renew_due_ms, stamped_ms + 150000, "also what is due already");
    task_set_offsets_retention(&rig->task, API_UNKNOWN);
    cr_assert_eq(rig->task.renew_due_ms, stamped_ms + 150000, "what was known holds");
    cr_assert_str_eq(rig_tick(rig, rig->task.renew_due_ms - rig->now_ms), "C");
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_eq(rig->task.renew_due_ms, rig->now_ms + 150000);
    task_set_offsets_retention(&rig->task, 7 * 24 * 4 * TASK_RENEW_MS);
    cr_assert_eq(rig->task.renew_due_ms, rig->now_ms + TASK_RENEW_MS, "hourly at the least");
}
