/* The working life: commits, checkpoints, the one repair, halting, a higher epoch, the watch. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig *const rig = &rig_shared;

TestSuite(task_work, .init = rig_setup, .fini = rig_teardown);

static void at_least_once(void)
{
    const struct task_config config = {.incarnation = RIG_INCARNATION,
                                       .processor = 5,
                                       .stateful = true,
                                       .commit_interval_ms = 100,
                                       .checkpoint_interval_ms = 10000};

    rig_finish(rig);
    rig_init_config(rig, &config);
}

/* Reads on by one in partition 0, and commits it. */
static const char *work(void)
{
    rig_read(rig, 0, rig->task.partitions[0].position + 1);
    cr_assert_str_eq(rig_tick(rig, 100), "C");
    return rig_give(rig, TASK_EVENT_COMMIT_DONE);
}

/* ---- commits */

Test(task_work, commits_at_the_interval_what_moved)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig_tick(rig, 500), "", "nothing moved");
    rig_read(rig, 1, 52);
    cr_assert_str_eq(rig_tick(rig, 0), "");
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + 100);
    rig_read(rig, 1, 55);
    cr_assert_str_eq(rig_tick(rig, 99), "");
    cr_assert_str_eq(rig_tick(rig, 1), "C");
    cr_assert_eq(rig->task.partitions[0].committing, API_UNKNOWN);
    cr_assert_eq(rig->task.partitions[1].committing, 55);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "");
    cr_assert_eq(rig->task.partitions[1].t1, 55);
    cr_assert_eq(rig->task.partitions[0].t1, 50);
}

/* ---- checkpoints */

Test(task_work, checkpoints_follow_a_commit)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    rig->now_ms += 10000; /* both are due */
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    rig_assert(!rig->task.checkpoint_running);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "K");
    cr_assert_eq(rig->task.partitions[0].freezing, 60);
    rig_read(rig, 0, 70); /* reading goes on while it is written */
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "");
    cr_assert_eq(rig->task.partitions[0].checkpointed, 60);
}

Test(task_work, an_idle_task_checkpoints_what_it_has)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)work();
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    cr_assert_str_eq(rig_tick(rig, 10000), "", "there is nothing new");
}

Test(task_work, a_replay_checkpoints_on_its_way)
{
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read_all(rig, 45);
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    cr_assert_eq(rig->task.partitions[1].freezing, 45);
    rig_read_all(rig, 48);
    cr_assert_str_eq(rig_tick(rig, 20000), "", "one at a time");
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    cr_assert_str_eq(rig_tick(rig, 0), "K");
}

Test(task_work, a_full_cache_commits_and_checkpoints_early)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_FULL), "");
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms);
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "K");
    cr_assert(task_may_read(&rig->task));

    rig_read(rig, 0, 70); /* full again before it is written: reading waits, commits do not */
    (void)rig_give(rig, TASK_EVENT_FULL);
    cr_assert(!task_may_read(&rig->task));
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "");
    cr_assert_neq(rig->actions.wake_ms, rig->now_ms, "it does not spin");
    cr_assert_str_eq(rig_tick(rig, 0), "");
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms);
    cr_assert_str_eq(rig_tick(rig, 0), "K");
    cr_assert(task_may_read(&rig->task));
}

Test(task_work, a_full_cache_in_a_replay_is_frozen_at_once)
{
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read(rig, 0, 45);
    (void)rig_give(rig, TASK_EVENT_FULL);
    cr_assert_str_eq(rig_tick(rig, 0), "K");
}

Test(task_work, a_checkpoint_that_fails_is_shown_until_it_succeeds)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)work();
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINT_FAILED), "");
    cr_assert_str_eq(rig->task.code, "store_failed");
    cr_assert_str_eq(work(), "", "work goes on");
    (void)rig_desire(rig, RIG_EPOCH + 1, false);
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    (void)rig_tick(rig, 0);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig->task.code, "store_failed", "a new epoch does not mend a disk");
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_work, a_checkpoint_that_can_not_be_tried_again_opens_the_store_anew)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)work();
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    cr_assert_str_eq(rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_CHECKPOINT_FAILED,
                                                             .fatal = true}),
                     "X!");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig_tick(rig, 0), "O");
}

Test(task_work, corrupt_state_is_set_aside_and_relearned)
{
    static const enum task_phase phases[] = {TASK_PHASE_REPLAY, TASK_PHASE_STAMP,
                                             TASK_PHASE_ACTIVE};

    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        rig_go(rig, phases[i]);
        cr_assert_str_eq(rig_give(rig, TASK_EVENT_STORE_CORRUPT), "pUSX!");
        cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
        (void)rig_give(rig, TASK_EVENT_CLOSED);
        cr_assert_str_eq(rig_tick(rig, 0), "O");
        rig_go(rig, TASK_PHASE_REPLAY);
        cr_assert_eq(rig->task.partitions[0].position, 0);
        rig_go(rig, TASK_PHASE_ACTIVE);
        cr_assert_str_eq(rig->task.code, "state_set_aside");
        rig_teardown();
        rig_setup();
    }
}

/* A checkpoint under way when the state is set aside will never be heard of again. */
Test(task_work, checkpoints_go_on_after_the_state_was_set_aside)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)work();
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    (void)rig_desire(rig, RIG_EPOCH + 1, false);
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    rig->committed[0].offset = 50; /* was 51 */
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "pUSO");
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read_all(rig, 45);
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
}

/* ---- D3.2: the one repair */

Test(task_work, a_commit_whose_end_is_not_known_is_asked_of_kafka)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    cr_assert_str_eq(rig_tick(rig, 100), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_FAILED), "pUD");
    cr_assert_eq(rig->task.partitions[0].t1, 50, "not believed");
    cr_assert_str_eq(rig->task.code, "transaction_failed");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_REPLAYING);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STATE_DROPPED), "P");
    cr_assert_eq(rig->task.partitions[0].position, 40, "back to what is on disk");
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    rig->committed[0] =
        (struct task_committed){60, true, task_stamp(&rig->task, 0)}; /* it was done */
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "A");
    cr_assert_eq(rig->task.partitions[0].limit, 60);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_work, a_repair_waits_for_the_checkpoint_under_way)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)work();
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    rig_read(rig, 0, 60);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_OUTPUT_FAILED), "pUD");
    rig->stored[0] = 51; /* it ended while the state was dropped */
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STATE_DROPPED), "P");
    rig_assert(!rig->task.checkpoint_running);
    cr_assert_eq(rig->task.partitions[0].checkpointed, 51);
}

Test(task_work, a_state_that_can_not_be_dropped_is_closed_and_opened)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_give(rig, TASK_EVENT_OUTPUT_FAILED);
    cr_assert_str_eq(rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_STORE_FAILED,
                                                             .code = "store_failed"}),
                     "X!");
    cr_assert_str_eq(rig->task.code, "store_failed");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    rig_go(rig, TASK_PHASE_ACTIVE);
}

/* An output that fails every time must not make a loop of initialisations. */
Test(task_work, repairs_in_a_row_come_with_growing_pauses)
{
    int repairs = 0;

    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_tick(rig, TASK_BACKOFF_MAX_MS);
    for (int64_t end_ms = rig->now_ms + 60000; rig->now_ms < end_ms; repairs++) {
        rig_read(rig, 0, rig->task.partitions[0].position + 1);
        (void)rig_give(rig, TASK_EVENT_OUTPUT_FAILED);
        rig_go(rig, TASK_PHASE_ACTIVE);
        rig_assert(repairs < 30);
    }
    cr_assert_geq(repairs, 10);
    (void)work();
    cr_assert_eq(rig->task.backoff_ms, 0, "it gets on: the next failure is the first");
}

Test(task_work, an_output_that_can_never_be_sent_halts_until_looked_at_again)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_OUTPUT_FAILED,
                                                             .code = "output_failed",
                                                             .detail = "over message.max.bytes",
                                                             .fatal = true}),
                     "X!");
    cr_assert_str_eq(rig->task.code, "output_failed");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_RECHECK_MS);
}

Test(task_work, fenced_at_a_commit_or_in_between)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    (void)rig_tick(rig, 100);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_FENCED), "X!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FENCED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    (void)rig_desire(rig, RIG_EPOCH + 1, false);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_FENCED), "X!", "the producer says so itself");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_FENCED), "", "it is known");
}

Test(task_work, a_position_that_is_gone_is_judged_by_the_ranges)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_POSITION_LOST,
                                                             .index = 1,
                                                             .code = "history_lost"}),
                     "X!");
    cr_assert_str_eq(rig->task.code, "history_lost");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    rig->ranges[1].log_start = 70;
    cr_assert_str_eq(rig_tick(rig, 0), "O");
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "history_lost");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_RECHECK_MS);
}

Test(task_work, a_truncated_log_is_seen_while_active)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig->ranges[0].end = 49;
    task_asks_ranges(&rig->task, rig->now_ms);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "X!");
    cr_assert_str_eq(rig->task.code, "topic_truncated");
}

Test(task_work, an_end_that_is_older_than_what_was_committed_truncates_nothing)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig->ranges[0].end = rig->task.partitions[0].t1;
    task_asks_ranges(&rig->task, rig->now_ms);
    rig->task.partitions[0].t1 += 7;
    rig->task.partitions[0].position += 7;
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "");
}

/* ---- records that are refused */

static const char *refuse(int64_t offset)
{
    return rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_RECORD_REFUSED,
                                                   .index = 0,
                                                   .offset = offset,
                                                   .code = "record_failed",
                                                   .detail = "poison"});
}

Test(task_work, a_refused_record_halts_after_what_is_before_it)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 55);
    cr_assert_str_eq(refuse(55), "");
    cr_assert(!task_may_read(&rig->task));
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "X!");
    cr_assert_eq(rig->task.partitions[0].t1, 55);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FAILED);
    cr_assert_str_eq(rig->task.code, "record_failed");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->actions.wake_ms, TASK_NEVER);
    cr_assert_str_eq(rig_tick(rig, 1000000), "");
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH, false), "", "nothing changed");
    (void)rig_desire(rig, RIG_EPOCH, true);
    cr_assert_str_eq(rig_tick(rig, 0), "O");
}

Test(task_work, a_record_refused_in_the_first_round_keeps_its_problem)
{
    rig_go(rig, TASK_PHASE_STAMP);
    (void)refuse(50);
    (void)rig_tick(rig, 0);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "record_failed");
}

/* The positions are below T1: a commit would turn it back. */
Test(task_work, a_record_refused_in_a_replay_commits_nothing)
{
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read(rig, 0, 45);
    cr_assert_str_eq(refuse(45), "X!");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "record_failed");
    cr_assert_eq(rig->committed[0].offset, 50);
}

Test(task_work, a_change_that_comes_while_it_halts_is_not_lost)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)refuse(50);
    (void)rig_tick(rig, 0);
    (void)rig_desire(rig, RIG_EPOCH, true);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig_tick(rig, 0), "O");
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)refuse(50);
    (void)rig_tick(rig, 0);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->actions.wake_ms, TASK_NEVER, "one change, one more try");
}

Test(task_work, a_record_refused_while_a_checkpoint_runs)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)work();
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    (void)refuse(51);
    (void)rig_tick(rig, 0);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "X!");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    rig_assert(!rig->task.checkpoint_running);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CHECKPOINTED), "", "late");
}

Test(task_work, a_disk_that_fails_and_recovers_does_not_hide_why_it_halts)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)work();
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    (void)refuse(51);
    (void)rig_give(rig, TASK_EVENT_CHECKPOINT_FAILED);
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    (void)rig_tick(rig, 0);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "X!");
    cr_assert_str_eq(rig->task.code, "record_failed");
}

/* ---- a higher epoch */

Test(task_work, a_higher_epoch_finishes_the_batch_under_the_old_one)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "C");
    cr_assert_eq(task_stamp(&rig->task, 0).epoch, RIG_EPOCH);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_ACTIVE);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "pP");
    cr_assert_eq(task_stamp(&rig->task, 0).epoch, RIG_EPOCH + 1);
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "", "the state is whole");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_STAMP);
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    cr_assert_eq(rig->task.partitions[2].committing, 50, "all of S1 is stamped");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "!");
    cr_assert_eq(rig->committed[2].stamp.epoch, RIG_EPOCH + 1);
}

Test(task_work, a_higher_epoch_with_nothing_to_commit)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "pP");
}

Test(task_work, a_higher_epoch_during_a_commit_waits_for_its_answer)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    (void)rig_tick(rig, 100);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "pP");
}

Test(task_work, a_higher_epoch_before_the_stamp_lets_the_first_commit_pass)
{
    rig_go(rig, TASK_PHASE_STAMP);
    rig_read(rig, 0, 60);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "");
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "!pP");
}

Test(task_work, a_commit_that_fails_before_the_new_epoch_is_repaired_under_it)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    (void)rig_desire(rig, RIG_EPOCH + 1, false);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_FAILED), "pUD");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STATE_DROPPED), "P");
    cr_assert_eq(rig->task.epoch_working, RIG_EPOCH + 1);
}

Test(task_work, a_halt_under_the_old_epoch_is_tried_again_under_the_new_one)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)refuse(50);
    (void)rig_tick(rig, 0);
    (void)rig_desire(rig, RIG_EPOCH + 1, false);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "X!");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CLOSED), "O");
}

/* ---- at_least_once has no fence: it looks */

Test(task_work, at_least_once_reads_the_stamps_every_second)
{
    at_least_once();
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_WATCH_MS);
    cr_assert_str_eq(rig_tick(rig, TASK_WATCH_MS), "F");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "");
    rig_read(rig, 0, 60);
    rig->now_ms += TASK_WATCH_MS;
    cr_assert_str_eq(rig_tick(rig, 0), "F", "before a commit that would cover it up");
    rig->committed[1].stamp.epoch = RIG_EPOCH + 1;
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "X!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FENCED);
}

Test(task_work, a_watch_that_fails_is_said_and_tried_at_its_next_turn)
{
    at_least_once();
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_tick(rig, TASK_WATCH_MS);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_FAILED), "");
    cr_assert_str_eq(rig->task.code, "kafka_unreachable");
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_WATCH_MS);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "pP", "and delays nothing else");
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig->task.code, "");
    (void)rig_tick(rig, TASK_WATCH_MS);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_FAILED), "");
    (void)rig_tick(rig, TASK_WATCH_MS);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_str_eq(rig->task.code, "");
    (void)rig_tick(rig, TASK_WATCH_MS);
    (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_COMMITTED_FAILED,
                                                  .code = "kafka_unauthorized"});
    cr_assert_str_eq(rig->task.code, "kafka_unauthorized");
    (void)rig_tick(rig, TASK_WATCH_MS);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_work, at_least_once_puts_right_what_a_late_commit_turned_back)
{
    at_least_once();
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)work();
    (void)rig_tick(rig, TASK_WATCH_MS);
    rig->committed[0] = (struct task_committed){
        48, true, {RIG_INCARNATION, 5, RIG_EPOCH - 1, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN}};
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    cr_assert_eq(rig->task.partitions[0].committing, 51);
    cr_assert_eq(rig->task.partitions[1].committing, 50);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);

    (void)rig_tick(rig, TASK_WATCH_MS);
    rig->committed[2].stamp.epoch = RIG_EPOCH - 1; /* the offset is right, the stamp is not */
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_eq(rig->committed[2].stamp.epoch, RIG_EPOCH);

    (void)rig_tick(rig, TASK_WATCH_MS);
    rig->committed[0] = (struct task_committed){.offset = 30, .stamped = false}; /* by a tool */
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_str_eq(rig_tick(rig, 0), "");
}

Test(task_work, exactly_once_is_told_by_the_fence)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_settle(rig);
    cr_assert_eq(rig->actions.wake_ms, rig->task.renew_due_ms);
}

Test(task_work, nothing_spins_while_a_replay_waits_for_records)
{
    at_least_once();
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_tick(rig, TASK_WATCH_MS);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    (void)rig_give(rig, TASK_EVENT_OUTPUT_FAILED);
    (void)rig_give(rig, TASK_EVENT_STATE_DROPPED);
    rig->now_ms += 2 * TASK_RENEW_MS; /* watch and renewal are long due */
    (void)rig_tick(rig, 0);
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_REPLAY);
    rig_assert(rig->actions.wake_ms > rig->now_ms);
}

Test(task_work, nothing_spins_while_a_checkpoint_waits_for_a_commit)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig->now_ms += 10000; /* a checkpoint is due */
    rig_read(rig, 0, 60);
    (void)rig_tick(rig, 0);
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + 100, "the commit's time");
}

/* The record may have been passed by someone else in the meantime; if not it is met again. */
Test(task_work, a_higher_epoch_while_halting_reads_on)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_give_event(
        rig, (struct task_event){.kind = TASK_EVENT_RECORD_REFUSED, .index = 1, .offset = 50});
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "pP");
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    rig->committed[1].offset = 60;
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    rig_assert(rig_phase(rig) == TASK_PHASE_REPLAY);
    cr_assert(task_may_read(&rig->task));
    rig_go(rig, TASK_PHASE_ACTIVE);
}
