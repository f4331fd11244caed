/* Giving S1 up: when it is said, when it is not, and how it is taken back. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent/core/task_rig.h"

static struct rig *const rig = &rig_shared;

TestSuite(task_release, .init = rig_setup_started, .fini = rig_teardown_started);

static const struct task_desired release = {
    .epoch = RIG_EPOCH, .handoff = RIG_HANDOFF, .release = true};
static const struct task_desired keep = {.epoch = RIG_EPOCH};
static const struct task_desired give_back = {.epoch = RIG_EPOCH + 1};

static void expect_released(void)
{
    cr_assert(rig->task.released);
    cr_assert_not(task_may_read(&rig->task));
    cr_assert_not(task_may_output(&rig->task));
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH);
    cr_assert_eq(rig->task.desired.handoff, RIG_HANDOFF);
}

Test(task_release, commits_says_so_then_writes_the_state)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    cr_assert_str_eq(rig_want(rig, release), "C");
    cr_assert_not(rig->task.released);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_RELEASING);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "!");
    expect_released();
    cr_assert_eq(task_state(&rig->task), TASK_STATE_RELEASING);
    cr_assert_eq(rig->committed[1].offset, 60);
    cr_assert_str_eq(rig_tick(rig, 999), ""); /* whoever takes over goes first */
    cr_assert_str_eq(rig_tick(rig, 1), "K");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "X");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    expect_released();
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CLOSED);
    cr_assert_eq(rig->stored[1], 60);
}

Test(task_release, what_is_committed_needs_no_other_commit)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig_want(rig, release), "!");
    expect_released();
    rig_assert(rig->actions.wake_ms == rig->now_ms + 1000);
    /* The replay's records are to be written, and it need not wait when it is told to stop. */
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "K");
    expect_released();
}

Test(task_release, waits_for_the_commit_under_way)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    cr_assert_str_eq(rig_tick(rig, 100), "C");
    cr_assert_str_eq(rig_want(rig, release), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "!");
    expect_released();
}

Test(task_release, a_checkpoint_under_way_is_not_waited_for)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig->now_ms += 10000;
    (void)rig_give(rig, TASK_EVENT_TICK);
    rig_assert(rig->task.checkpoint_running);
    cr_assert_str_eq(rig_want(rig, release), "!");
    expect_released();
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "X");
}

Test(task_release, a_commit_in_doubt_is_repaired_and_only_then_said)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, release);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_FAILED), "pUD");
    cr_assert_not(rig->task.released);
    cr_assert_not(rig->task.releasing);
    rig_go(rig, TASK_PHASE_STAMP);
    cr_assert_not(rig->task.released);
    (void)rig_tick(rig, 0);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    expect_released();
    cr_assert_eq(rig->committed[1].offset, 50);
}

Test(task_release, a_fence_at_the_last_commit_is_no_release)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, release);
    (void)rig_give(rig, TASK_EVENT_COMMIT_FENCED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FENCED);
    cr_assert_not(rig->task.released);
}

Test(task_release, who_has_not_activated_does_so_first)
{
    (void)rig_want(rig, release);
    for (enum task_phase phase = TASK_PHASE_RANGES; phase <= TASK_PHASE_STAMP; phase++) {
        if (phase == TASK_PHASE_SEED || phase == TASK_PHASE_LEARN)
            continue;
        rig_go(rig, phase);
        cr_assert_not(rig->task.released);
    }
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "!!");
    expect_released();
    cr_assert_eq(rig->committed[0].stamp.epoch, RIG_EPOCH);
}

Test(task_release, a_higher_epoch_is_activated_before_it_is_released)
{
    struct task_desired higher = release;

    higher.epoch++;
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig_want(rig, higher), "pP");
    rig_go(rig, TASK_PHASE_CHECKPOINT);
    cr_assert(rig->task.released);
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH + 1);
    cr_assert_eq(rig->committed[2].stamp.epoch, RIG_EPOCH + 1);
}

/* ---- taken back */

Test(task_release, a_higher_epoch_takes_it_back_before_it_is_done)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, release);
    cr_assert_str_eq(rig_want(rig, give_back), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "pP");
    cr_assert_not(rig->task.released);
    cr_assert_eq(rig->committed[0].offset, 60); /* the batch was finished */
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH + 1);
    rig_settle(rig);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_ACTIVE);
}

Test(task_release, the_same_epoch_does_not_take_it_back)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, release);
    (void)rig_want(rig, keep);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    expect_released();
}

Test(task_release, once_done_nothing_takes_it_back)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, release);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_str_eq(rig_want(rig, give_back), "");
    expect_released();
    cr_assert_str_eq(rig_tick(rig, 1000), "K");
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    (void)rig_want(rig, give_back);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    expect_released();
    rig_settle(rig);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CLOSED);
}

/* ---- what may happen to the state afterwards */

Test(task_release, a_damaged_state_only_closes_it)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, release);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STORE_CORRUPT), "pUSX");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    rig_settle(rig);
    expect_released();
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CLOSED);
}

Test(task_release, a_state_that_can_not_be_written_only_closes_it)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_want(rig, release);
    cr_assert_str_eq(rig_tick(rig, 1000), "K");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINT_FAILED), "X");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    expect_released();
    cr_assert_eq(rig->stored[0], 40); /* older, not wrong */
}

/* ---- with others */

Test(task_release, a_stop_in_between_does_not_undo_it)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, release);
    (void)rig_give(rig, TASK_EVENT_STOP);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    expect_released();
}

Test(task_release, a_mere_stop_is_not_said_to_be_a_release)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_give(rig, TASK_EVENT_STOP);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_not(rig->task.released);
}

Test(task_release, a_refused_record_stays_for_the_next_owner)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 1, 55);
    (void)rig_give_event(
        rig, (struct task_event){.kind = TASK_EVENT_RECORD_REFUSED, .index = 1, .offset = 55});
    cr_assert_str_eq(rig_want(rig, release), "C");
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    expect_released();
    cr_assert_eq(rig->committed[1].offset, 55);
}

Test(task_release, at_least_once_makes_sure_of_the_offsets)
{
    rig->task.config.exactly_once = false;
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig_want(rig, release), "C");
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        cr_assert_eq(rig->task.partitions[i].committing, 50);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    expect_released();
}

Test(task_release, a_refused_record_halts_it_when_it_is_given_back)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 1, 55);
    (void)rig_give_event(
        rig, (struct task_event){.kind = TASK_EVENT_RECORD_REFUSED, .index = 1, .offset = 55});
    (void)rig_want(rig, release);
    (void)rig_want(rig, give_back);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "X!");
    (void)rig_give(rig, TASK_EVENT_CLOSED); /* and the higher epoch is tried at once */
    cr_assert_str_eq(rig->letters, "O");
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert(task_may_read(&rig->task));
}
