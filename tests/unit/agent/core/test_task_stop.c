/* The way out: from every phase, with answers outstanding, with failures on the way. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig *const rig = &rig_shared;

TestSuite(task_stop, .init = rig_setup, .fini = rig_teardown);

Test(task_stop, an_active_task_commits_checkpoints_and_closes)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "C");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_RELEASING);
    cr_assert(!task_may_output(&rig->task));
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "K");
    cr_assert_eq(rig->task.partitions[0].freezing, 60);
    cr_assert_str_eq(rig_tick(rig, 1000), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "X");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CLOSED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CLOSED), "");
    cr_assert_eq(rig->actions.wake_ms, TASK_NEVER);
}

Test(task_stop, what_is_clean_and_written_is_only_closed)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    (void)rig_give(rig, TASK_EVENT_FULL);
    (void)rig_tick(rig, 0);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "X");
}

Test(task_stop, a_replay_keeps_what_it_has_learned)
{
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read(rig, 0, 43); /* S12 */
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "K");
    cr_assert_eq(rig->task.partitions[0].freezing, 43);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "X");
}

Test(task_stop, a_checkpoint_under_way_comes_first)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    (void)rig_give(rig, TASK_EVENT_FULL);
    (void)rig_tick(rig, 0);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "K");
    rig_read(rig, 0, 70);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "K");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "X");
    cr_assert_eq(rig->stored[0], 70);
}

/* A broker that has just let a question time out would let the last commit time out as well. */
Test(task_stop, a_broker_that_does_not_answer_is_waited_for_once)
{
    for (int clean = 0; clean < 2; clean++) {
        struct task_config config = rig->task.config;

        config.exactly_once = false;
        rig_finish(rig);
        rig_init_config(rig, &config);
        rig_go(rig, TASK_PHASE_ACTIVE);
        rig_read(rig, 0, 60);
        if (clean) {
            (void)rig_tick(rig, config.commit_interval_ms);
            (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
        }
        rig->task.watch_due_ms = rig->now_ms;
        cr_assert_str_eq(rig_tick(rig, 0), "F");
        cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "", "the answer is outstanding");
        cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_FAILED), clean ? "K" : "X");
    }
}

Test(task_stop, a_disk_that_refuses_does_not_hold_it_up)
{
    for (int early = 0; early < 2; early++) {
        rig_go(rig, TASK_PHASE_ACTIVE);
        rig_read(rig, 0, 60);
        (void)rig_give(rig, TASK_EVENT_FULL);
        (void)rig_tick(rig, 0);
        cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "K");
        if (early == 0) {
            cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "");
            cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINT_FAILED), "X");
        } else { /* said once, before: it will not be said again */
            (void)rig_give(rig, TASK_EVENT_CHECKPOINT_FAILED);
            cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "X");
        }
        rig_teardown();
        rig_setup();
    }
}

Test(task_stop, a_commit_that_fails_drops_and_closes)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    (void)rig_give(rig, TASK_EVENT_STOP);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_FAILED), "X");
    cr_assert_eq(rig->stored[0], 40);
}

Test(task_stop, a_commit_that_is_fenced_closes)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    (void)rig_give(rig, TASK_EVENT_STOP);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_FENCED), "X!");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CLOSED), "X");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_CLOSED);
}

/* What was applied under the old epoch is committed: it must reach the disk. */
Test(task_stop, between_two_epochs_the_state_is_written)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "K");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "X");
}

Test(task_stop, an_activation_is_given_up_at_its_next_answer)
{
    static const enum task_phase phases[] = {TASK_PHASE_OPEN, TASK_PHASE_RANGES, TASK_PHASE_VERIFY,
                                             TASK_PHASE_PRODUCER, TASK_PHASE_COMMITTED};

    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        (void)rig_give(rig, TASK_EVENT_START);
        rig_go(rig, phases[i]);
        cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "");
        cr_assert_str_eq(rig_give(rig, rig_good_answer(rig->awaited)), "X", "%s",
                         task_phase_name(phases[i]));
        cr_assert_eq(rig_phase(rig), TASK_PHASE_CLOSED);
        rig_teardown();
        rig_setup();
    }
}

Test(task_stop, failed_fenced_and_waiting_tasks_close_at_once)
{
    rig->ranges[0].log_start = 60;
    rig_go(rig, TASK_PHASE_FAILED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "X");
    rig_teardown();
    rig_setup();
    rig_go(rig, TASK_PHASE_PRODUCER);
    (void)rig_give(rig, TASK_EVENT_PRODUCER_FENCED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "X");
    rig_teardown();
    rig_setup();
    rig_go(rig, TASK_PHASE_PRODUCER);
    (void)rig_give(rig, TASK_EVENT_PRODUCER_FAILED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "X");
}

Test(task_stop, the_first_commit_is_made_before_it_goes)
{
    rig_go(rig, TASK_PHASE_STAMP);
    rig_read(rig, 0, 60);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "C");
    rig_expect_stops(rig);
    cr_assert_eq(rig->stored[0], 60);
    cr_assert_eq(rig->committed[2].stamp.epoch, RIG_EPOCH);
}

Test(task_stop, a_halted_record_does_not_hold_it_up)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 55);
    (void)rig_give_event(
        rig, (struct task_event){.kind = TASK_EVENT_RECORD_REFUSED, .index = 0, .offset = 55});
    rig_expect_stops(rig);
    cr_assert_eq(rig->stored[0], 55);
}

/* Else it could be started again, and initialise, under the epoch that it was fenced in. */
Test(task_stop, a_fenced_task_is_still_fenced_when_it_is_closed)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_give(rig, TASK_EVENT_COMMIT_FENCED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    rig_expect_stops(rig);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FENCED);
    cr_assert_eq(rig->task.epoch_working, RIG_EPOCH);
    rig_teardown();
    rig_setup();
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_give(rig, TASK_EVENT_COMMIT_FENCED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    (void)rig_desire(rig, RIG_EPOCH + 1, false);
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_expect_stops(rig);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CLOSED, "a higher epoch ended that");
}

Test(task_stop, it_stays_closed)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_expect_stops(rig);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, true), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "");
    cr_assert_str_eq(rig_tick(rig, 1000000), "");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_CLOSED);
}
