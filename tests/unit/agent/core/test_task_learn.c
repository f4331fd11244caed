/* Learners: how far they read, when they have caught up, and how they become active. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig rig_memory, *const rig = &rig_memory;

static void setup(void)
{
    rig_init_learner(rig);
}

static void teardown(void)
{
    rig_expect_stops(rig);
    rig_finish(rig);
}

TestSuite(task_learn, .init = setup, .fini = teardown);

static void expect_limits(int64_t limit_0, int64_t limit_1, int64_t limit_2)
{
    cr_assert_eq(rig->task.partitions[0].limit, limit_0);
    cr_assert_eq(rig->task.partitions[1].limit, limit_1);
    cr_assert_eq(rig->task.partitions[2].limit, limit_2);
}

static struct task_desired active(uint64_t epoch)
{
    return (struct task_desired){.epoch = epoch, .handoff = RIG_HANDOFF};
}

Test(task_learn, opens_verifies_and_waits_for_a_t1)
{
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_str_eq(rig->letters, "A");
    expect_limits(40, 40, 40);
    cr_assert(task_may_read(&rig->task));
    cr_assert_not(task_may_output(&rig->task));
    cr_assert_eq(task_state(&rig->task), TASK_STATE_LEARNING);
    cr_assert_eq(task_epoch(&rig->task), 0);
    cr_assert_eq(task_caught_up_lag(&rig->task), API_UNKNOWN);
    rig_settle(rig);
    rig_assert(rig_phase(rig) == TASK_PHASE_LEARN);
}

Test(task_learn, a_t1_that_was_told_before_is_followed_from_the_start)
{
    (void)rig_give(rig, TASK_EVENT_START);
    (void)rig_follow(rig, 50, 60, 40);
    rig_go(rig, TASK_PHASE_LEARN);
    expect_limits(50, 60, 40);
}

Test(task_learn, goes_up_to_the_t1_and_no_further)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 50, 60, 40);
    expect_limits(50, 60, 40);
    rig_read(rig, 0, 50);
    (void)rig_follow(rig, 55, 61, 42);
    expect_limits(55, 61, 42);
    /* An older one that comes late holds what is past it. */
    rig_read(rig, 0, 55);
    (void)rig_follow(rig, 50, 60, 41);
    expect_limits(55, 60, 41);
}

Test(task_learn, takes_a_vector_whole_or_not_at_all)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 50, 50, 50);
    (void)rig_follow(rig, 60, API_UNKNOWN, 60);
    expect_limits(50, 50, 50);
    cr_assert_eq(rig->task.partitions[0].t1, 50);
}

Test(task_learn, is_caught_up_by_positions_within_the_acceptable_lag)
{
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_str_eq(rig_follow(rig, 50, 50, 50), "");
    rig_read_all(rig, 45);
    cr_assert_eq(task_caught_up_lag(&rig->task), 5);
    cr_assert_str_eq(rig_tick(rig, 1), "");
    rig_read(rig, 0, 46);
    rig_read(rig, 1, 46);
    cr_assert_str_eq(rig_tick(rig, 1), ""); /* one is not */
    rig_read(rig, 2, 46);
    cr_assert_str_eq(rig_tick(rig, 1), "!W");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
    cr_assert_eq(task_caught_up_lag(&rig->task), 4);
}

Test(task_learn, is_not_caught_up_with_a_t1_of_long_ago)
{
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_str_eq(rig_follow(rig, 42, 42, 42), "!W");
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + 2001);
    cr_assert_str_eq(rig_tick(rig, 2000), "");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
    cr_assert_str_eq(rig_tick(rig, 1), "!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_LEARNING);
    /* The producer is still warm. */
    cr_assert_str_eq(rig_follow(rig, 43, 43, 43), "!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
}

Test(task_learn, falls_behind_again)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 42, 42, 42);
    cr_assert_str_eq(rig_follow(rig, 60, 42, 42), "!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_LEARNING);
    cr_assert_eq(task_caught_up_lag(&rig->task), 20);
}

Test(task_learn, becomes_active_in_place)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 50, 50, 50);
    rig_read_all(rig, 48);
    (void)rig_tick(rig, 1);
    cr_assert_str_eq(rig_want(rig, active(RIG_EPOCH)), "P");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_REPLAYING);
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH);
    cr_assert_eq(task_caught_up_lag(&rig->task), API_UNKNOWN);
    cr_assert_not(task_may_read(&rig->task));
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_PRODUCER_READY), "F");
    /* T1 is what Kafka says now, and what was fetched stays: no ASSIGN. */
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->committed[i].offset = 52;
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "");
    rig_assert(rig_phase(rig) == TASK_PHASE_REPLAY);
    expect_limits(52, 52, 52);
    rig_read_all(rig, 52);
    (void)rig_tick(rig, 0);
    rig_assert(rig_phase(rig) == TASK_PHASE_STAMP);
    rig_read(rig, 0, 57); /* the first commit carries what was read in the meantime */
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    cr_assert_eq(rig->task.partitions[0].committing, 57);
    cr_assert_eq(rig->task.partitions[1].committing, 52);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_ACTIVE);
    cr_assert_eq(task_stamp(&rig->task, 0).epoch, RIG_EPOCH);
}

/* A standby, that is caught up with what its owner said before, gets a hand-over: D3.5. */
Test(task_learn, a_new_hand_over_begins_with_a_new_t1)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_want(rig, (struct task_desired){.learner = true}); /* a standby */
    (void)rig_follow(rig, 42, 42, 42);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
    cr_assert_str_eq(
        rig_want(rig, (struct task_desired){.handoff = RIG_HANDOFF + 1, .learner = true}), "!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_LEARNING);
    cr_assert_eq(task_caught_up_lag(&rig->task), API_UNKNOWN);
    expect_limits(42, 42, 42);
    cr_assert_str_eq(rig_follow(rig, 43, 43, 43), "!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
    /* It is a standby again: what it follows is as good as before. */
    cr_assert_str_eq(rig_want(rig, (struct task_desired){.learner = true}), "");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
}

/* S28: Kafka's T1 went back, or the owner reported more than is there now. */
Test(task_learn, ahead_of_t1_it_is_not_promoted_as_it_is)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_want(rig, (struct task_desired){.learner = true});
    (void)rig_follow(rig, 60, 60, 60);
    rig_read_all(rig, 60);
    (void)rig_tick(rig, 0);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
    (void)rig_want(rig, active(RIG_EPOCH));
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "pUSO"); /* 50 */
    cr_assert_str_eq(rig->task.code, "state_ahead");
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
    rig_go(rig, TASK_PHASE_REPLAY);
    cr_assert_eq(rig->task.partitions[0].position, 0);
    cr_assert_eq(rig->task.partitions[0].limit, 50);
    rig_go(rig, TASK_PHASE_ACTIVE);
}

Test(task_learn, never_learns_again_once_it_was_told_to_be_active)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_want(rig, active(RIG_EPOCH));
    (void)rig_want(rig, (struct task_desired){.learner = true});
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH);
    cr_assert_str_eq(rig_follow(rig, 99, 99, 99), "");
    cr_assert_eq(rig->task.partitions[0].t1, 50);
}

Test(task_learn, told_while_it_opens_it_does_not_learn_first)
{
    (void)rig_give(rig, TASK_EVENT_START);
    (void)rig_want(rig, active(RIG_EPOCH));
    rig_go(rig, TASK_PHASE_PRODUCER);
    rig_assert(rig->task.assigned == false);
}

Test(task_learn, a_newer_owner_fences_it)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_want(rig, active(RIG_EPOCH));
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    rig->committed[2].stamp.epoch = RIG_EPOCH + 1;
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "X!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FENCED);
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH);
}

Test(task_learn, a_failed_init_of_the_warm_producer_makes_a_fresh_one)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 42, 42, 42);
    (void)rig_want(rig, active(RIG_EPOCH));
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_PRODUCER_FAILED), "p");
    cr_assert_str_eq(rig_tick(rig, 0), "P");
}

Test(task_learn, writes_its_state_on_the_way_and_before_it_closes)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 90, 90, 90);
    rig_read_all(rig, 60);
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    cr_assert_eq(rig->stored[1], 60);
    rig_read_all(rig, 61);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_FULL), "");
    cr_assert_str_eq(rig_tick(rig, 0), "K");
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    rig_read_all(rig, 70);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "K");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "X");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->stored[2], 70);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CLOSED);
    cr_assert_not(rig->task.released);
}

Test(task_learn, history_that_is_gone_stops_it_and_the_owner_goes_on)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
    rig->ranges[1].log_start = 5;
    (void)rig_give(rig, TASK_EVENT_START);
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "X!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FAILED);
    cr_assert_str_eq(rig->task.code, "history_incomplete");
    cr_assert_eq(task_epoch(&rig->task), 0);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    /* It is looked at again; and at once when it is to be the owner, which it fails by its epoch.
     */
    cr_assert_str_eq(rig_want(rig, active(RIG_EPOCH)), "O");
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FAILED);
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH);
}

Test(task_learn, a_position_that_is_gone_is_judged_by_the_ranges)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_give_event(
        rig, (struct task_event){.kind = TASK_EVENT_POSITION_LOST, .code = "history_lost"});
    rig_assert(rig_phase(rig) == TASK_PHASE_FAILED);
    rig->ranges[0].log_start = 45;
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig_tick(rig, 0), "O");
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_str_eq(rig->task.code, "history_lost");
}

Test(task_learn, says_that_it_is_slower_than_its_owner)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 60, 60, 60);
    cr_assert_str_eq(rig->task.code, "");
    rig_read_all(rig, 45);
    (void)rig_tick(rig, 9999);
    cr_assert_str_eq(rig->task.code, "");
    (void)rig_follow(rig, 70, 60, 60); /* 25 behind by now */
    (void)rig_tick(rig, 1);
    cr_assert_str_eq(rig->task.code, "learning_too_slow");
    /* Goal: it is over as soon as it has come closer, and when it has caught up. */
    rig_read_all(rig, 50);
    (void)rig_tick(rig, 10000);
    cr_assert_str_eq(rig->task.code, "");
    (void)rig_follow(rig, 80, 80, 80);
    (void)rig_tick(rig, 10000);
    cr_assert_str_eq(rig->task.code, "learning_too_slow");
    rig_read_all(rig, 80);
    (void)rig_follow(rig, 80, 80, 80);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_learn, a_refused_assignment_is_tried_again)
{
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_ASSIGN_FAILED), "X!");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig_tick(rig, 0), "O");
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_str_eq(rig->letters, "A");
}

/* The simulator's find: a refused ASSIGN that is heard when the next activation has begun. */
Test(task_learn, an_assignment_refused_on_the_way_is_made_anew_for_the_replay)
{
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_str_eq(rig_want(rig, active(RIG_EPOCH)), "P");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_ASSIGN_FAILED), "");
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "A");
    rig_go(rig, TASK_PHASE_ACTIVE);
}

/* ---- without state */

Test(task_learn, without_state_there_is_nothing_to_learn)
{
    rig->task.config.stateful = false;
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_str_eq(rig->letters, "");
    cr_assert_not(task_may_read(&rig->task));
    cr_assert_str_eq(rig_follow(rig, 90, 90, 90), "!W");
    cr_assert_eq(task_caught_up_lag(&rig->task), 0);
    (void)rig_want(rig, active(RIG_EPOCH));
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "A");
    cr_assert_eq(rig->task.partitions[0].position, 50);
}

/* S8: the coordinator ends the hand-over when it hears of a failure, so there must be one. */
Test(task_learn, a_topic_that_is_gone_is_a_failure_after_a_bounded_wait)
{
    const struct task_event missing = {
        .kind = TASK_EVENT_RANGES_FAILED, .code = "topic_missing", .detail = "no such topic"};
    int64_t since_ms;

    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_POSITION_LOST,
                                                  .code = "topic_missing",
                                                  .detail = "it is gone"});
    since_ms = rig->now_ms;
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    rig_go(rig, TASK_PHASE_RANGES);
    while (rig->now_ms < since_ms + TASK_MISSING_MS) {
        cr_assert_str_eq(rig_give_event(rig, missing), "");
        rig_assert(rig_phase(rig) == TASK_PHASE_RANGES);
        cr_assert_str_eq(rig_tick(rig, rig->actions.wake_ms - rig->now_ms), "R");
    }
    cr_assert_str_eq(rig_give_event(rig, missing), "X!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FAILED);
    cr_assert_str_eq(rig->task.code, "topic_missing");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_RECHECK_MS);
    /* Looked at again, it is no new wait. */
    (void)rig_tick(rig, TASK_RECHECK_MS);
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    cr_assert_str_eq(rig_give_event(rig, missing), "X!");
}
