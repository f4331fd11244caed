/* Order across an expansion: how long new partitions wait for their ancestors, and when settle
 * windows may be closed. Partitions 1 and 2 were split off from 0; a third one comes from 1. */
#include <criterion/criterion.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

#define SETTLE_MS 5000

static struct rig rig_memory, *const rig = &rig_memory;

static const struct task_config config = {
    .incarnation = RIG_INCARNATION,
    .processor = 5,
    .exactly_once = true,
    .stateful = true,
    .commit_interval_ms = 100,
    .checkpoint_interval_ms = 10000,
    .acceptable_lag = 4,
    .partitions_initial = 1,
    .settle_ms = SETTLE_MS,
};

static void setup(void)
{
    rig_init_config(rig, &config);
}

static void setup_learner(void)
{
    rig_init_desired(rig, &config, &(struct task_desired){.learner = true, .handoff = RIG_HANDOFF});
}

static void teardown(void)
{
    rig_finish(rig);
}

TestSuite(task_order, .init = setup, .fini = teardown);
TestSuite(task_order_learner, .init = setup_learner, .fini = teardown);

static void tell(size_t index, uint64_t number, int64_t fence)
{
    struct task_window told = {.told = true, .number = number, .end = 10, .fence = fence};

    task_tell_window(&rig->task, index, &told, rig->now_ms);
    (void)rig_tick(rig, 0);
}

static void expect_limits(int64_t limit_0, int64_t limit_1, int64_t limit_2)
{
    cr_assert_eq(task_limit(&rig->task, 0), limit_0);
    cr_assert_eq(task_limit(&rig->task, 1), limit_1);
    cr_assert_eq(task_limit(&rig->task, 2), limit_2);
}

/* What the brokers say to a question asked now. */
static void look(int64_t stable_0, int64_t end_0, int64_t stable_1)
{
    task_asks_ranges(&rig->task, rig->now_ms);
    rig->ranges[0] = (struct task_range){0, stable_0, end_0};
    rig->ranges[1] = (struct task_range){0, stable_1, stable_1};
    (void)rig_give(rig, TASK_EVENT_RANGES);
}

/* ---- replays */

Test(task_order, a_replay_takes_ancestors_first)
{
    rig_go(rig, TASK_PHASE_REPLAY);
    expect_limits(50, 40, 40);
    rig_read(rig, 0, 49);
    (void)rig_tick(rig, 0);
    expect_limits(50, 40, 40);
    rig_read(rig, 0, 50);
    (void)rig_tick(rig, 0);
    cr_assert(task_take_cleared(&rig->task));
    cr_assert_not(task_take_cleared(&rig->task));
    expect_limits(50, 50, 50);
}

Test(task_order, a_replay_takes_ancestors_to_their_fence)
{
    tell(0, 1, 45);
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read(rig, 0, 44);
    (void)rig_tick(rig, 0);
    expect_limits(50, 40, 40);
    rig_read(rig, 0, 45);
    (void)rig_tick(rig, 0);
    expect_limits(50, 50, 50);
}

Test(task_order_learner, a_vector_that_was_begun_is_not_put_off_by_newer_ones)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 60, 45, 40);
    expect_limits(60, 40, 40);
    (void)rig_follow(rig, 70, 46, 40);
    expect_limits(70, 40, 40);
    rig_read(rig, 0, 60);
    (void)rig_tick(rig, 0);
    expect_limits(70, 45, 40); /* what the first one had of it */
    rig_read(rig, 0, 70);
    (void)rig_tick(rig, 0);
    expect_limits(70, 46, 40);
}

/* ---- live */

Test(task_order, without_a_word_of_windows_they_count_as_open)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    expect_limits(TASK_UNLIMITED, 50, 50);
    rig_read(rig, 0, 100); /* as the ranges say that were asked for at the start */
    (void)rig_tick(rig, 0);
    expect_limits(TASK_UNLIMITED, 100, 100);
    rig_read(rig, 1, 100);
    cr_assert(task_awaits_order(&rig->task, 1));
}

Test(task_order, a_child_waits_for_the_high_watermark_of_its_parent)
{
    tell(0, 1, API_UNKNOWN);
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 100);
    (void)rig_tick(rig, 0);
    look(120, 130, 110); /* an open transaction begins at 120 */
    expect_limits(TASK_UNLIMITED, 100, 100);
    cr_assert_not(task_awaits_order(&rig->task, 1), "newer ranges would not help");
    rig_read(rig, 0, 120);
    (void)rig_tick(rig, 0);
    cr_assert_eq(task_limit(&rig->task, 1), 100, "what nobody can read yet is waited for");
    look(130, 140, 130);
    rig_read(rig, 0, 130);
    (void)rig_tick(rig, 0);
    cr_assert_eq(task_limit(&rig->task, 1), 110, "and no more than was there at the first look");
}

Test(task_order, closed_windows_let_everything_through_and_a_late_record_closes_the_gate)
{
    tell(0, 1, 50);
    rig_go(rig, TASK_PHASE_ACTIVE);
    expect_limits(TASK_UNLIMITED, TASK_UNLIMITED, TASK_UNLIMITED);
    rig_read(rig, 1, 70);
    cr_assert(task_meet_old(&rig->task, 0, rig->now_ms, 12345));
    (void)rig_tick(rig, 0);
    cr_assert_eq(task_limit(&rig->task, 1), 70);
    cr_assert(rig->task.partitions[0].window.stale);
    tell(0, 1, 50);
    cr_assert(rig->task.partitions[0].window.stale, "until the coordinator has heard of it");
    tell(0, 2, API_UNKNOWN);
    cr_assert_not(rig->task.partitions[0].window.stale);
    cr_assert_eq(rig->task.partitions[0].window.old_records, 1);
    cr_assert_eq(rig->task.partitions[0].window.old_at, 12345);
    cr_assert_not(task_meet_old(&rig->task, 0, rig->now_ms, 12346), "it is open");
}

/* The owner has said where it may be closed, and goes on until it hears of it. */
Test(task_order, a_record_past_a_fence_that_was_not_told_yet_is_late_as_well)
{
    tell(0, 1, API_UNKNOWN);
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 61);
    cr_assert_not(task_meet_old(&rig->task, 0, rig->now_ms, 12345));
    rig_read(rig, 0, 70);
    tell(0, 1, 61);
    cr_assert_not(rig->task.partitions[0].window.stale, "60 lies before it");
    tell(0, 2, API_UNKNOWN);
    tell(0, 2, 60);
    cr_assert(rig->task.partitions[0].window.stale);
}

Test(task_order, a_replay_tells_of_a_late_record_whose_owner_did_not_live_to)
{
    tell(0, 1, 55);
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 55);
    task_meet_old_again(&rig->task, 0);
    cr_assert_not(rig->task.partitions[0].window.stale);
    rig_read(rig, 0, 56);
    task_meet_old_again(&rig->task, 0);
    cr_assert(rig->task.partitions[0].window.stale);
    cr_assert_eq(rig->task.partitions[0].window.old_records, 0, "it was counted");
}

Test(task_order, hold_lets_nothing_through_before_the_window_is_closed)
{
    rig->task.config.hold_descendants = true;
    tell(0, 1, API_UNKNOWN);
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 100);
    look(100, 100, 100);
    expect_limits(TASK_UNLIMITED, 50, 50);
    cr_assert_not(task_awaits_order(&rig->task, 1));
    tell(0, 1, 100);
    expect_limits(TASK_UNLIMITED, TASK_UNLIMITED, TASK_UNLIMITED);
}

Test(task_order, a_repair_begins_the_order_anew)
{
    tell(0, 1, 50);
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_give(rig, TASK_EVENT_OUTPUT_FAILED);
    rig_go(rig, TASK_PHASE_REPLAY);
    expect_limits(50, 40, 40);
}

/* ---- when a window may be closed */

Test(task_order, settled_is_what_was_committed_past_an_end_of_after_the_time)
{
    tell(0, 1, API_UNKNOWN);
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)task_meet_old(&rig->task, 0, rig->now_ms, 1);
    rig_settle(rig);
    look(100, 100, 100);
    cr_assert_eq(task_settled(&rig->task, 0), API_UNKNOWN, "too early");
    rig->now_ms += SETTLE_MS;
    look(120, 120, 100);
    cr_assert_eq(task_settled(&rig->task, 0), API_UNKNOWN, "not committed so far");
    rig_read(rig, 0, 120);
    (void)rig_tick(rig, 100);
    cr_assert_eq(task_settled(&rig->task, 0), API_UNKNOWN);
    rig_settle(rig);
    cr_assert_eq(task_settled(&rig->task, 0), 120);
    (void)task_meet_old(&rig->task, 0, rig->now_ms, 2);
    cr_assert_eq(task_settled(&rig->task, 0), API_UNKNOWN, "all over again");
}

Test(task_order, an_answer_that_was_asked_for_too_early_does_not_settle)
{
    tell(0, 1, API_UNKNOWN);
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)task_meet_old(&rig->task, 0, rig->now_ms, 1);
    task_asks_ranges(&rig->task, rig->now_ms + SETTLE_MS - 1);
    rig->now_ms += 3 * SETTLE_MS;
    (void)rig_give(rig, TASK_EVENT_RANGES);
    rig_read(rig, 0, 100);
    rig_settle(rig);
    cr_assert_eq(task_settled(&rig->task, 0), API_UNKNOWN);
}

/* ---- more partitions: one that was split off from 1, and from 0 before that */

static struct task_partition third(bool owned)
{
    return (struct task_partition){.partition = 3, .owned = owned};
}

static struct task_desired as_it_is(void)
{
    return rig->task.desired;
}

Test(task_order, an_owner_takes_more_partitions_and_stamps_them_with_its_next_commit)
{
    struct task_partition added = third(true);
    struct task_desired desired;

    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    desired = as_it_is();
    cr_assert(task_may_grow(&rig->task, &desired));
    task_grow(&rig->task, &added, 1, rig->now_ms);
    cr_assert_eq(rig->task.partition_count, 4);
    cr_assert_eq(rig->task.partitions[0].position, 60, "the others stay where they are");
    cr_assert_eq(rig->task.partitions[3].parent, 1);
    cr_assert_eq(rig->task.partitions[1].parent, 0);
    cr_assert_eq(rig->task.partitions[3].t1, 0);
    cr_assert_eq(task_limit(&rig->task, 3), 0, "its ancestors first");
    cr_assert_null(task_check(&rig->task));
    /* The rig knows three partitions: what it is told of the fourth is nothing. */
    struct task_actions actions;
    task_step(&rig->task, &(struct task_event){.kind = TASK_EVENT_TICK, .now_ms = rig->now_ms},
              &actions);
    cr_assert_eq(actions.items[0], TASK_ACTION_COMMIT);
    cr_assert_eq(rig->task.partitions[3].committing, 0, "stamped, though nothing was read");
}

Test(task_order, a_task_that_is_to_change_otherwise_is_not_grown)
{
    struct task_desired desired;

    rig_go(rig, TASK_PHASE_REPLAY);
    desired = as_it_is();
    cr_assert_not(task_may_grow(&rig->task, &desired), "T1 of new ones is not known");
    rig_go(rig, TASK_PHASE_ACTIVE);
    desired.epoch++;
    cr_assert_not(task_may_grow(&rig->task, &desired), "somebody else may have had them");
    desired = as_it_is();
    desired.release = true;
    cr_assert_not(task_may_grow(&rig->task, &desired));
    desired = as_it_is();
    desired.paused = true;
    cr_assert_not(task_may_grow(&rig->task, &desired));
    desired = as_it_is();
    desired.learner = true;
    cr_assert_not(task_may_grow(&rig->task, &desired));
    desired = as_it_is();
    cr_assert(task_may_grow(&rig->task, &desired));
}

Test(task_order_learner, a_learner_that_has_grown_waits_for_a_whole_vector)
{
    struct task_partition added = third(true);
    struct task_desired desired;

    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 41, 40, 40);
    desired = as_it_is();
    cr_assert(task_may_grow(&rig->task, &desired));
    task_grow(&rig->task, &added, 1, rig->now_ms);
    cr_assert_eq(task_caught_up_lag(&rig->task), API_UNKNOWN);
    cr_assert_eq(rig->task.partitions[3].t1, API_UNKNOWN);
    cr_assert_eq(task_limit(&rig->task, 3), 0);
    cr_assert_null(task_check(&rig->task));
}
