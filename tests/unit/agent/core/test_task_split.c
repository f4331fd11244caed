/* A part of S1 goes to a new processor: once, with its stamp, and the rest goes on. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent/core/task_rig.h"

#define CHILD       9
#define CHILD_EPOCH 12

static struct rig rig_memory, *const rig = &rig_memory;

static void setup(void)
{
    rig_init(rig);
    rig->task.partitions[2].leaving = true;
    (void)rig_give(rig, TASK_EVENT_START);
}

static void teardown(void)
{
    rig_expect_stops(rig);
    rig_finish(rig);
}

TestSuite(task_split, .init = setup, .fini = teardown);

static const struct task_desired split = {.epoch = RIG_EPOCH,
                                          .split = {RIG_HANDOFF, CHILD, CHILD_EPOCH}};
static const struct task_desired split_again = {.epoch = RIG_EPOCH + 1,
                                                .split = {RIG_HANDOFF, CHILD, CHILD_EPOCH}};

/* What Kafka has of partition 2 is the new processor's. */
static void stamp_as_child(int64_t offset)
{
    rig->committed[2] = (struct task_committed){
        offset, true, {RIG_INCARNATION, CHILD, CHILD_EPOCH, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN}};
}

static void expect_split(void)
{
    cr_assert_eq(rig->task.split_done, RIG_HANDOFF);
    cr_assert_eq(rig->task.partition_count, 2);
    cr_assert_eq(rig->committed[2].stamp.processor, CHILD);
    cr_assert_eq(rig->committed[2].stamp.epoch, CHILD_EPOCH);
}

Test(task_split, one_commit_gives_it_away_and_the_rest_goes_on)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 60);
    rig_read(rig, 2, 70);
    cr_assert_str_eq(rig_want(rig, split), "C");
    cr_assert_eq(rig->task.split_done, 0, "not before it is committed");
    cr_assert_eq(rig->task.partitions[1].committing, API_UNKNOWN, "nothing of it has moved");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "L!");
    expect_split();
    cr_assert_eq(rig->committed[0].offset, 60);
    cr_assert_eq(rig->committed[0].stamp.processor, 5, "what stays has the own stamp");
    cr_assert_eq(rig->committed[2].offset, 70);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_ACTIVE);
    cr_assert(task_may_read(&rig->task));
    rig_read(rig, 1, 80);
    cr_assert_str_eq(rig_tick(rig, 100), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "");
    cr_assert_eq(rig->committed[1].stamp.processor, 5);
    cr_assert_str_eq(rig_want(rig, split), "", "it is done once");
}

Test(task_split, what_has_not_moved_is_stamped_as_well)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig_want(rig, split), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "L!");
    expect_split();
    cr_assert_eq(rig->committed[2].offset, 50);
}

Test(task_split, a_doubtful_commit_that_was_done_is_seen_by_its_stamp)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 2, 70);
    cr_assert_str_eq(rig_want(rig, split), "C");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_FAILED), "pUD");
    cr_assert_eq(rig->task.split_done, 0, "nobody knows");
    (void)rig_give(rig, TASK_EVENT_STATE_DROPPED);
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    stamp_as_child(70);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "L!A");
    expect_split();
    rig_go(rig, TASK_PHASE_ACTIVE);
}

Test(task_split, a_doubtful_commit_that_was_not_done_is_made_again)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 2, 70);
    (void)rig_want(rig, split);
    (void)rig_give(rig, TASK_EVENT_COMMIT_FAILED);
    (void)rig_give(rig, TASK_EVENT_STATE_DROPPED);
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "A");
    cr_assert_eq(rig->task.split_done, 0);
    rig_settle(rig); /* to the stamp, and then the split */
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_settle(rig);
    expect_split();
}

Test(task_split, another_owner_that_was_told_of_it_finds_it_done)
{
    rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_DESIRED, .desired = split_again});
    stamp_as_child(66);
    rig_go(rig, TASK_PHASE_ACTIVE);
    expect_split();
    cr_assert_eq(rig->committed[2].offset, 66, "it is not touched");
}

Test(task_split, an_owner_that_was_not_told_is_fenced)
{
    stamp_as_child(66);
    rig_go(rig, TASK_PHASE_FENCED);
    cr_assert_eq(rig->task.split_done, 0);
}

Test(task_split, the_stamp_of_another_split_is_a_fence)
{
    (void)rig_want(rig, split);
    stamp_as_child(66);
    rig->committed[2].stamp.epoch++;
    rig_go(rig, TASK_PHASE_FENCED);
}

Test(task_split, a_higher_epoch_comes_first)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 2, 70);
    cr_assert_str_eq(rig_want(rig, split_again), "C");
    cr_assert_not(rig->task.splitting, "under the old epoch it would speak for nobody");
    rig_go(rig, TASK_PHASE_STAMP);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert(rig->task.splitting);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    expect_split();
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH + 1);
}

Test(task_split, a_pause_waits_for_it)
{
    struct task_desired paused = split;

    rig_go(rig, TASK_PHASE_ACTIVE);
    paused.paused = true;
    cr_assert_str_eq(rig_want(rig, paused), "C");
    cr_assert(rig->task.splitting);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    expect_split();
    rig_settle(rig);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_PAUSED);
}

Test(task_split, a_frozen_job_stamps_nothing)
{
    struct task_desired frozen = split;

    frozen.paused = frozen.frozen = true;
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_want(rig, frozen);
    rig_settle(rig);
    cr_assert_eq(rig->task.split_done, 0);
    cr_assert_neq(rig->committed[2].stamp.processor, CHILD);
    (void)rig_want(rig, split);
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_settle(rig);
    expect_split();
}

Test(task_split, a_checkpoint_after_it_has_only_what_stays)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 70);
    (void)rig_want(rig, split);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_str_eq(rig_tick(rig, 10000), "K");
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    cr_assert_eq(rig->stored[0], 70);
    cr_assert_eq(rig->stored[2], 40, "left as it was");
}

static void make_child(bool exactly_once)
{
    struct task_config config = {.incarnation = RIG_INCARNATION,
                                 .processor = CHILD,
                                 .parent = 5,
                                 .exactly_once = exactly_once,
                                 .stateful = true,
                                 .commit_interval_ms = 100,
                                 .checkpoint_interval_ms = 10000};

    rig_expect_stops(rig);
    rig_finish(rig);
    rig_init_config(rig, &config);
    for (size_t i = 0; i < RIG_PARTITIONS; i++) /* of the parent, as in rig_init */
        rig->committed[i].stamp.processor = i == 0 ? 5 : CHILD;
}

Test(task_split, with_transactions_a_stamp_of_the_parent_is_a_fence)
{
    make_child(true);
    rig_go(rig, TASK_PHASE_FENCED);
}

Test(task_split, without_transactions_a_late_commit_of_the_parent_is_none)
{
    make_child(false);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[0].stamp.processor, CHILD);
}
