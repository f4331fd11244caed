/* Owners of a job in whose group others are: frozen for their sake, or waiting until they leave. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig *const rig = &rig_shared;

TestSuite(task_group, .init = rig_setup_started, .fini = rig_teardown_started);

static const struct task_desired frozen = {.epoch = RIG_EPOCH, .paused = true, .frozen = true};
static const struct task_desired waiting = {.epoch = RIG_EPOCH, .paused = true, .waiting = true};
static const struct task_desired alone = {.epoch = RIG_EPOCH + 1};

static void commit_by_others(int64_t offset)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->committed[i] = (struct task_committed){.offset = offset};
}

static void expect_silent(void)
{
    cr_assert_eq(task_state(&rig->task), TASK_STATE_PAUSED);
    cr_assert_not(task_may_output(&rig->task));
}

/* ---- frozen */

static void freeze_at_60(void)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, frozen);
    rig_go(rig, TASK_PHASE_PAUSED);
    expect_silent();
    cr_assert_eq(rig->committed[1].offset, 60);
}

Test(task_group, thawed_goes_on_where_it_was)
{
    freeze_at_60();
    (void)rig_want(rig, alone);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 60);
    cr_assert(rig->committed[1].stamped);
}

Test(task_group, what_an_intruder_committed_is_not_obeyed)
{
    freeze_at_60();
    commit_by_others(70);
    (void)rig_want(rig, alone);
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "offsets_changed");
    cr_assert_eq(rig->committed[1].offset, 70);
}

/* A new owner, too, learns up to T1 and puts nothing on it, not even its stamp. */
Test(task_group, frozen_from_the_start_it_stamps_nothing)
{
    (void)rig_want(rig, frozen);
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read_all(rig, 50);
    (void)rig_tick(rig, 0);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_PAUSED);
    expect_silent();
    cr_assert_eq(rig->committed[0].stamp.epoch, RIG_EPOCH - 1);
}

/* ---- waiting */

static void wait_at_50(void)
{
    commit_by_others(50);
    (void)rig_want(rig, waiting);
    rig_go(rig, TASK_PHASE_REPLAY);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_REPLAYING);
    cr_assert_eq(rig->task.partitions[1].limit, 50);
    rig_read_all(rig, 50);
    (void)rig_tick(rig, 0);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_PAUSED);
    expect_silent();
    cr_assert_not(rig->committed[1].stamped);
}

Test(task_group, waiting_follows_what_others_commit)
{
    wait_at_50();
    rig->task.config.acceptable_lag = 10;
    commit_by_others(55);
    cr_assert_str_eq(rig_tick(rig, TASK_TRAIL_MS - 1), "");
    cr_assert(strchr(rig_tick(rig, 1), 'F') != NULL);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_REPLAY);
    expect_silent(); /* it is as good as there */
    cr_assert_eq(rig->task.partitions[1].limit, 55);
    rig_read_all(rig, 55);
    (void)rig_tick(rig, 0);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_PAUSED);
    cr_assert_eq(rig->task.partitions[1].t1, 55);
    cr_assert_not(rig->committed[1].stamped);
}

Test(task_group, far_behind_it_does_not_say_that_it_has_learned)
{
    wait_at_50();
    rig->task.config.acceptable_lag = 10;
    commit_by_others(61);
    (void)rig_tick(rig, TASK_TRAIL_MS);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_REPLAYING);
}

/* Its stamp is on the offsets by then, or the job was paused before. */
Test(task_group, when_others_have_left_it_takes_over_at_what_they_committed)
{
    wait_at_50();
    commit_by_others(58);
    for (size_t i = 0; i < RIG_PARTITIONS; i++) {
        rig->committed[i].stamped = true;
        rig->committed[i].stamp = task_stamp(&rig->task, i);
        rig->committed[i].stamp.epoch = 0;
    }
    (void)rig_want(rig, alone);
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read_all(rig, 58);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->task.partitions[1].t1, 58);
    cr_assert_eq(rig->committed[1].stamp.epoch, RIG_EPOCH + 1);
}

Test(task_group, a_stamp_of_a_job_before_is_no_fence_while_waiting)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        memcpy(rig->committed[i].stamp.incarnation, RIG_OTHER, sizeof(RIG_OTHER));
    (void)rig_want(rig, waiting);
    rig_go(rig, TASK_PHASE_REPLAY);
    (void)rig_want(rig, alone);
    rig_go(rig, TASK_PHASE_FENCED); /* ... and is one as ever when it is not */
}

Test(task_group, offsets_that_others_turn_back_are_learned_anew)
{
    wait_at_50();
    commit_by_others(45);
    (void)rig_tick(rig, TASK_TRAIL_MS);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_str_eq(rig->task.code, "state_ahead");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_OPEN);
}

Test(task_group, paused_before_it_waits_only_for_what_is_not_below)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, (struct task_desired){.epoch = RIG_EPOCH, .paused = true});
    rig_go(rig, TASK_PHASE_PAUSED);
    commit_by_others(59);
    (void)rig_want(rig, waiting);
    cr_assert(strchr(rig_tick(rig, TASK_TRAIL_MS), 'F') != NULL);
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "offsets_changed");
}

Test(task_group, without_state_nothing_is_read_while_waiting)
{
    rig->task.config.stateful = false;
    commit_by_others(50);
    (void)rig_want(rig, waiting);
    rig_go(rig, TASK_PHASE_PAUSED);
    cr_assert_not(rig->task.assigned);
    commit_by_others(55);
    (void)rig_tick(rig, TASK_TRAIL_MS);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_not(rig->task.assigned);
    expect_silent();
}
