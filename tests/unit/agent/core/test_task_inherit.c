/* What a new processor inherits of a partition that its parent keeps: up to a bound that the commit
 * of the split decides, and only the own keys. Partitions 1 and 2 were split off from 0. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

#define CHILD       2
#define CHILD_EPOCH 12
#define BOUND       45

static struct rig rig_memory, *const rig = &rig_memory;

static void begin(uint32_t processor, const struct task_desired *desired)
{
    const struct task_config config = {
        .incarnation = RIG_INCARNATION,
        .processor = processor,
        .exactly_once = true,
        .stateful = true,
        .commit_interval_ms = 100,
        .checkpoint_interval_ms = 10000,
        .acceptable_lag = 4,
        .partitions_initial = 1,
        .settle_ms = 1000,
    };

    rig_init_desired(rig, &config, desired);
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->committed[i].stamp.processor = processor;
}

static void setup_parent(void)
{
    begin(0, &(struct task_desired){.epoch = RIG_EPOCH});
    rig->task.partitions[2].leaving = true;
}

static void setup_child(void)
{
    begin(CHILD, &(struct task_desired){.epoch = RIG_EPOCH});
    rig->task.partitions[0].owned = false;
}

static void setup_learner(void)
{
    begin(CHILD, &(struct task_desired){.learner = true, .handoff = RIG_HANDOFF});
    rig->task.partitions[0].owned = false;
}

static void teardown(void)
{
    rig_finish(rig);
}

TestSuite(task_inherit_parent, .init = setup_parent, .fini = teardown);
TestSuite(task_inherit_child, .init = setup_child, .fini = teardown);
TestSuite(task_inherit_learner, .init = setup_learner, .fini = teardown);

static const struct task_desired split = {.epoch = RIG_EPOCH,
                                          .split = {RIG_HANDOFF, CHILD, CHILD_EPOCH}};

/* ---- the parent */

Test(task_inherit_parent, the_commit_that_gives_partitions_away_says_the_bound)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 70);
    cr_assert_str_eq(rig_want(rig, split), "C");
    cr_assert_eq(task_stamp(&rig->task, 2).bound, 70);
    cr_assert_eq(task_stamp(&rig->task, 0).bound, API_UNKNOWN);
    cr_assert_eq(rig->task.partitions[0].split_bound, API_UNKNOWN, "nobody knows how it ends");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "L!");
    cr_assert_eq(rig->task.partitions[0].split_bound, 70);
    rig_read(rig, 0, 80);
    (void)rig_tick(rig, 200);
    cr_assert_eq(rig->task.partitions[0].split_bound, 70, "it stays where it was");
}

Test(task_inherit_parent, a_successor_finds_the_bound_in_the_stamp)
{
    rig_go(rig, TASK_PHASE_COMMITTED);
    rig->task.desired.split = split.split;
    rig->committed[0].offset = 60; /* the one before has gone on since */
    rig->committed[2].stamp = (struct stamp){RIG_INCARNATION, CHILD, CHILD_EPOCH, 48, BOUND, 44};
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(rig->task.split_done, RIG_HANDOFF);
    cr_assert_eq(rig->task.partitions[0].split_bound, BOUND);
    cr_assert_eq(rig->task.partitions[0].split_bound_records, 44);
}

Test(task_inherit_parent, what_it_gives_while_it_works_is_whole)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read(rig, 0, 70);
    (void)rig_want(rig, split);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert(rig->task.partitions[2].given);
    cr_assert(task_is_left_whole(&rig->task, 2));
}

static void find_given(int64_t stored, int64_t bound)
{
    rig->stored[0] = stored;
    rig_go(rig, TASK_PHASE_COMMITTED);
    rig->task.desired.split = split.split;
    rig->committed[2].stamp = (struct stamp){RIG_INCARNATION, CHILD, CHILD_EPOCH, 48, bound, 44};
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert(rig->task.partitions[2].given);
}

Test(task_inherit_parent, what_it_finds_given_is_whole_from_the_bound_on)
{
    find_given(BOUND, BOUND);
    cr_assert(task_is_left_whole(&rig->task, 2));
}

Test(task_inherit_parent, what_it_finds_given_when_it_is_behind_the_bound_is_not_whole)
{
    find_given(BOUND - 1, BOUND);
    cr_assert_not(task_is_left_whole(&rig->task, 2));
}

Test(task_inherit_parent, what_it_finds_given_without_a_bound_is_not_whole)
{
    find_given(BOUND, API_UNKNOWN);
    cr_assert_not(task_is_left_whole(&rig->task, 2));
}

Test(task_inherit_parent, what_was_given_after_its_ancestor_is_not_known_to_be_whole)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig->task.partitions[2].given = true;
    rig->task.partitions[2].parent = TASK_NO_PARENT; /* forgotten before */
    cr_assert_not(task_is_left_whole(&rig->task, 2));
}

/* Processor 1 was split off from 0 and splits 3: that has keys in both. */
Test(task_inherit_parent, what_lies_in_what_it_inherits_itself_counts_as_well)
{
    struct task_partition *partitions = rig->task.partitions;

    rig_go(rig, TASK_PHASE_ACTIVE);
    partitions[0].owned = false;
    partitions[0].bound = 60;
    partitions[2].given = true;
    partitions[2].owned = false;
    partitions[2].parent = 1;
    partitions[1].split_bound = BOUND;
    cr_assert_not(task_is_left_whole(&rig->task, 2));
    partitions[0].bound = partitions[0].position;
    cr_assert(task_is_left_whole(&rig->task, 2));
    partitions[1].split_bound = partitions[1].position + 1;
    cr_assert_not(task_is_left_whole(&rig->task, 2));
}

Test(task_inherit_parent, keys_leave_with_that_commit)
{
    const struct key_map map = {.partitions = {1, 3}, .processors = {1, 2}};

    rig_go(rig, TASK_PHASE_ACTIVE);
    rig->task.partitions[0].window = (struct task_window){.told = true, .number = 1};
    cr_assert_eq(task_judge_key(&rig->task, 0, &map, 2, 55), TASK_VERDICT_APPLY);
    (void)rig_want(rig, split);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_eq(task_judge_key(&rig->task, 0, &map, 2, 55), TASK_VERDICT_MISROUTED,
                 "before any document says so");
    cr_assert_eq(task_judge_key(&rig->task, 0, &map, 0, 55), TASK_VERDICT_APPLY);
}

/* ---- the child */

Test(task_inherit_child, reads_its_ancestor_up_to_the_bound_and_says_so_with_each_commit)
{
    task_tell_bound(&rig->task, 0, BOUND, API_UNKNOWN);
    rig->committed[0].offset = 90; /* which is its owner's */
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->task.partitions[0].position, BOUND);
    cr_assert_eq(task_limit(&rig->task, 0), BOUND);
    cr_assert(task_is_inherited_whole(&rig->task.partitions[0]));
    cr_assert_eq(task_stamp(&rig->task, 2).bound, BOUND);
    cr_assert_eq(task_stamp(&rig->task, 1).bound, API_UNKNOWN);
    rig_read(rig, 2, 60);
    (void)rig_tick(rig, 200);
    cr_assert_eq(rig->task.partitions[0].committing, API_UNKNOWN, "that is for its owner");
    cr_assert_eq(rig->task.partitions[2].committing, 60);
}

Test(task_inherit_child, without_a_bound_nothing_is_guessed)
{
    rig_go(rig, TASK_PHASE_COMMITTED);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "history_incomplete");
}

static void stamp_bound(int64_t bound)
{
    rig->committed[CHILD].stamp.bound = bound;
    rig->committed[CHILD].stamp.bound_records = 44;
}

Test(task_inherit_child, its_own_stamp_says_a_bound_that_the_coordinator_has_lost)
{
    stamp_bound(BOUND);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->task.partitions[0].position, BOUND);
    cr_assert_eq(rig->task.partitions[0].bound_records, 44);
    task_tell_bound(&rig->task, 0, API_UNKNOWN, API_UNKNOWN);
    cr_assert(task_is_inherited_whole(&rig->task.partitions[0]));
    cr_assert_eq(task_stamp(&rig->task, 2).bound, BOUND);
}

Test(task_inherit_child, a_bound_of_somebody_else_is_none)
{
    rig->committed[1].stamp.bound = BOUND; /* on another partition than that of its number */
    rig_go(rig, TASK_PHASE_COMMITTED);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
}

Test(task_inherit_child, two_bounds_are_one_too_many)
{
    task_tell_bound(&rig->task, 0, BOUND + 1, API_UNKNOWN);
    stamp_bound(BOUND);
    rig_go(rig, TASK_PHASE_COMMITTED);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "history_incomplete");
    cr_assert_not_null(strstr(rig->task.detail, "up to 46"), "%s", rig->task.detail);
    cr_assert_not_null(strstr(rig->task.detail, "up to 45"), "%s", rig->task.detail);
}

Test(task_inherit_child, a_state_past_the_bound_is_made_anew)
{
    task_tell_bound(&rig->task, 0, 30, API_UNKNOWN);
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "pUSO");
    cr_assert_str_eq(rig->task.code, "state_ahead");
}

/* Seeded from the parent when nobody knew the bound yet. */
static void seed_past_the_bound(void)
{
    rig->stored[0] = BOUND + 3;
    rig->records[0] = 47;
    rig->ranges[1].log_start = 5; /* there is no other state to be had from the topic */
    rig->task.partitions[0].met = API_UNKNOWN;
}

static void expect_at_the_bound(void)
{
    cr_assert_eq(rig_phase(rig), TASK_PHASE_REPLAY, "%s %s", rig->task.code, rig->task.detail);
    cr_assert_eq(rig->task.partitions[0].position, BOUND);
    cr_assert_eq(rig->task.partitions[0].checkpointed, BOUND);
    cr_assert_eq(rig->task.partitions[0].records, 44);
}

Test(task_inherit_child, a_part_that_was_taken_past_the_bound_is_as_good_as_at_it)
{
    seed_past_the_bound();
    task_tell_bound(&rig->task, 0, BOUND, 44);
    rig_go(rig, TASK_PHASE_REPLAY);
    expect_at_the_bound();
}

Test(task_inherit_child, a_part_is_as_good_when_only_its_own_stamp_says_the_bound)
{
    seed_past_the_bound();
    stamp_bound(BOUND);
    rig_go(rig, TASK_PHASE_REPLAY);
    expect_at_the_bound();
}

Test(task_inherit_learner, a_part_is_as_good_while_a_checkpoint_of_it_is_written)
{
    seed_past_the_bound();
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, BOUND, 50, 50);
    rig_read(rig, 1, 50);
    (void)rig_tick(rig, 10000);
    cr_assert(rig->task.checkpoint_running);
    task_tell_bound(&rig->task, 0, BOUND, 44);
    (void)rig_desire(rig, RIG_EPOCH, false);
    rig_go(rig, TASK_PHASE_REPLAY);
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    expect_at_the_bound();
}

Test(task_inherit_learner, a_part_that_was_read_on_past_the_bound_is_not)
{
    seed_past_the_bound();
    rig->task.desired.seed = TASK_SEED_AUTO;
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, BOUND + 4, 50, 50);
    rig_read_records(rig, 0, BOUND + 4);
    task_tell_bound(&rig->task, 0, BOUND, 44);
    (void)rig_desire(rig, RIG_EPOCH, false);
    rig->task.desired.seed = TASK_SEED_AUTO;
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "pUSO",
                     "a copy can be had, and a bound never moves");
    cr_assert_str_eq(rig->task.code, "state_ahead");
}

Test(task_inherit_child, another_number_of_records_than_its_owner_had_is_not_served)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->records[i] = 40;
    task_tell_bound(&rig->task, 0, BOUND, 44);
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read(rig, 0, BOUND); /* over gaps */
    rig_read_records(rig, 2, task_limit(&rig->task, 2));
    (void)rig_tick(rig, 0);
    rig_read_records(rig, 1, task_limit(&rig->task, 1));
    rig_read_records(rig, 2, task_limit(&rig->task, 2));
    (void)rig_tick(rig, 0);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "history_incomplete");
}

Test(task_inherit_child, what_its_ancestors_log_has_lost_since_is_no_matter)
{
    task_tell_bound(&rig->task, 0, 40, API_UNKNOWN);
    rig->ranges[0] = (struct task_range){.log_start = 90, .stable_end = 100, .end = 100};
    rig_go(rig, TASK_PHASE_ACTIVE);
}

/* To the answer of the first look at the log. */
static const char *look(bool from_latest)
{
    (void)rig_give(rig, TASK_EVENT_START);
    (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_STORE_OPENED,
                                                  .rebuilds_from_latest = from_latest,
                                                  .state_age_ms = 1000});
    return rig_give(rig, TASK_EVENT_RANGES);
}

Test(task_inherit_child, no_tombstones_are_missed_past_the_bound)
{
    task_tell_bound(&rig->task, 0, BOUND, API_UNKNOWN);
    rig->stored[0] = BOUND;
    rig->stored[1] = rig->stored[2] = 100; /* their ends */
    rig->policies[0] = (struct task_policy){.compacted = true, .delete_retention_ms = 1000};
    cr_assert_str_eq(look(true), "V");
}

/* Whether another copy's state is faster goes by what there is to replay. */
Test(task_inherit_learner, what_is_past_the_bound_is_no_replay)
{
    rig->task.desired.seed = TASK_SEED_AUTO;
    rig->task.config.seed_records_min = 1000;
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
    rig->ranges[0].stable_end = rig->ranges[0].end = 5000;
    task_tell_bound(&rig->task, 0, BOUND, API_UNKNOWN);
    cr_assert_str_eq(look(false), "A");
}

Test(task_inherit_learner, compaction_past_the_bound_needs_no_copy)
{
    rig->task.desired.seed = TASK_SEED_AUTO;
    rig->task.config.seed_records_min = 1000;
    rig->stored[0] = API_UNKNOWN;
    rig->policies[0].compacted = true;
    task_tell_bound(&rig->task, 0, 0, API_UNKNOWN);
    cr_assert_str_eq(look(false), "V");
}

/* With `retained` nothing before the log's start is missed. */
static void retention_passes_the_bound(void)
{
    rig->task.config.history_retained = true;
    task_tell_bound(&rig->task, 0, BOUND, API_UNKNOWN);
    rig->ranges[0] = (struct task_range){.log_start = 90, .stable_end = 100, .end = 100};
}

Test(task_inherit_child, begins_no_later_than_at_the_bound)
{
    retention_passes_the_bound();
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->task.partitions[0].position, BOUND);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_inherit_learner, begins_no_later_than_at_the_bound)
{
    retention_passes_the_bound();
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_eq(rig->task.partitions[0].position, BOUND);
    cr_assert(task_is_inherited_whole(&rig->task.partitions[0]));
}

Test(task_inherit_child, only_the_own_keys_are_applied)
{
    const struct key_map map = {.partitions = {1, 3}, .processors = {1, 3}};

    cr_assert_eq(task_judge_key(&rig->task, 0, &map, 2, 5), TASK_VERDICT_APPLY);
    cr_assert_eq(task_judge_key(&rig->task, 0, &map, 0, 5), TASK_VERDICT_PASS);
    cr_assert_eq(task_judge_key(&rig->task, 0, &map, 1, 5), TASK_VERDICT_PASS);
    cr_assert_eq(task_judge_key(&rig->task, 2, &map, 1, 5), TASK_VERDICT_MISROUTED);
}

/* ---- the learner of a split */

static void tell_window(int64_t fence)
{
    const struct task_window told = {.told = true, .number = 1, .end = 10, .fence = fence};

    task_tell_window(&rig->task, 0, &told, rig->now_ms);
    (void)rig_tick(rig, 0);
}

static void read_to_limits(void)
{
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < RIG_PARTITIONS; i++)
            rig_read(rig, i, task_limit(&rig->task, i));
        (void)rig_tick(rig, 0);
    }
}

Test(task_inherit_learner, has_caught_up_when_the_window_is_closed)
{
    rig_go(rig, TASK_PHASE_LEARN);
    tell_window(API_UNKNOWN);
    (void)rig_follow(rig, 60, 50, 50);
    read_to_limits();
    cr_assert_eq(rig->task.partitions[0].position, 60, "it follows its parent's T1");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_LEARNING);
    tell_window(65);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_LEARNING, "the fence is ahead");
    (void)rig_follow(rig, 66, 50, 50);
    read_to_limits();
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
}

Test(task_inherit_learner, takes_no_vector_without_its_ancestor)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, API_UNKNOWN, 50, 50);
    cr_assert_eq(rig->task.partitions[2].t1, API_UNKNOWN);
}

Test(task_inherit_learner, goes_no_further_than_a_bound_that_is_decided)
{
    task_tell_bound(&rig->task, 0, BOUND, API_UNKNOWN);
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, API_UNKNOWN, 50, 50);
    read_to_limits();
    cr_assert_eq(rig->task.partitions[0].position, BOUND);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP, "whatever its windows say");
}
