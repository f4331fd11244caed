/* D3.6: of what a state may be made by replay, and that nothing is missing in it. S7: partitions
 * that an open transaction holds. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig rig_memory, *const rig = &rig_memory;

static const struct task_config usual = {
    .incarnation = RIG_INCARNATION,
    .processor = 5,
    .exactly_once = true,
    .stateful = true,
    .commit_interval_ms = 100,
    .checkpoint_interval_ms = 10000,
    .acceptable_lag = 4,
};

static void setup(void)
{
    rig_init(rig);
}

static void teardown(void)
{
    rig_expect_stops(rig);
    rig_finish(rig);
}

TestSuite(task_history, .init = setup, .fini = teardown);

static void begin(struct task_config config, bool learner)
{
    const struct task_desired desired = {
        .epoch = learner ? 0 : RIG_EPOCH, .learner = learner, .handoff = learner ? RIG_HANDOFF : 0};

    rig_finish(rig);
    rig_init_desired(rig, &config, &desired);
}

static void forget_state(void)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
}

static void compact(bool compacted)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->policies[i].compacted = compacted;
}

/* T1 = 50 was committed when so many records had been met. */
static void owe(int64_t records)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->committed[i].stamp.records = records;
}

/* ---- when it has to be known */

Test(task_history, whether_topics_are_compacted_is_asked_when_a_state_is_made_from_t0)
{
    static const struct {
        const char *name;
        bool learner, stateful, retained, latest;
        int64_t stored;
        bool asked;
    } table[] = {
        {"no state", false, true, false, false, API_UNKNOWN, true},
        {"no state, a learner", true, true, false, false, API_UNKNOWN, true},
        {"it stands at T0", false, true, false, false, 0, true},
        {"kept state", false, true, false, false, 40, false},
        {"a stateless job", false, false, false, false, API_UNKNOWN, false},
        {"retained history", false, true, true, false, API_UNKNOWN, false},
        {"rebuilds from the latest", false, true, false, true, API_UNKNOWN, false},
        {"rebuilds from the latest, kept state", false, true, false, true, 40, true},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct task_config config = usual;

        config.stateful = table[i].stateful;
        config.history_retained = table[i].retained;
        begin(config, table[i].learner);
        for (size_t p = 0; p < RIG_PARTITIONS; p++)
            rig->stored[p] = table[i].stored;
        cr_assert_not(task_wants_policy(&rig->task));
        (void)rig_give(rig, TASK_EVENT_START);
        cr_assert_str_eq(
            rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_STORE_OPENED,
                                                    .rebuilds_from_latest = table[i].latest}),
            "R");
        cr_assert_eq(task_wants_policy(&rig->task), table[i].asked, "%s", table[i].name);
        (void)rig_give(rig, TASK_EVENT_RANGES);
        cr_assert_not(task_wants_policy(&rig->task));
    }
}

/* ---- learners */

static void expect_refused(void)
{
    rig_assert(rig_phase(rig) == TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->letters, "X!");
    cr_assert_str_eq(rig->task.code, "history_incomplete");
    cr_assert(strstr(rig->task.detail, "compacted") != NULL, "%s", rig->task.detail);
}

Test(task_history, a_learner_does_not_begin_on_a_compacted_topic)
{
    begin(usual, true);
    forget_state();
    compact(true);
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 0, 0, 1);
    expect_refused();
    cr_assert_eq(rig->task.partitions[2].position, 0, "nothing was applied");
}

Test(task_history, a_refused_learner_looks_again_and_goes_on_when_the_topic_is_mended)
{
    begin(usual, true);
    forget_state();
    compact(true);
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 50, 50, 50);
    expect_refused();
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_RECHECK_MS);
    (void)rig_tick(rig, TASK_RECHECK_MS);
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    (void)rig_give(rig, TASK_EVENT_RANGES); /* T1 is known by now: no need to wait for it */
    expect_refused();
    compact(false);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    (void)rig_tick(rig, TASK_RECHECK_MS);
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "A");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_LEARN);
    cr_assert_eq(rig->task.partitions[0].limit, 50);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_history, a_learner_of_a_job_that_has_met_nothing_begins_on_any_topic)
{
    begin(usual, true);
    forget_state();
    compact(true);
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 0, 0, 0);
    rig_assert(task_state(&rig->task) == TASK_STATE_CAUGHT_UP);
}

Test(task_history, a_learner_with_kept_state_goes_on_from_it)
{
    begin(usual, true);
    compact(true);
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 50, 50, 50);
    rig_assert(rig_phase(rig) == TASK_PHASE_LEARN);
}

Test(task_history, ranges_looked_up_in_between_do_not_say_that_a_topic_is_not_compacted)
{
    begin(usual, true);
    forget_state();
    compact(true);
    rig_go(rig, TASK_PHASE_LEARN);
    compact(false); /* not asked, so not known */
    (void)rig_give(rig, TASK_EVENT_RANGES);
    (void)rig_follow(rig, 50, 50, 50);
    expect_refused();
}

/* ---- owners */

Test(task_history, an_owner_without_state_halts_on_a_compacted_topic_when_nobody_counted)
{
    forget_state();
    compact(true);
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "X!");
    cr_assert_str_eq(rig->task.code, "history_incomplete");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_RECHECK_MS);
}

Test(task_history, the_first_owner_of_a_job_begins_on_any_topic)
{
    forget_state();
    compact(true);
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->committed[i].offset = 0;
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "A");
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[0].stamp.records, 0);
}

/* Partition 1 holds `held` records of the 50 up to T1. */
static void replay(int64_t from, int64_t held)
{
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read_records(rig, 0, 50);
    rig_read_records(rig, 1, from + held);
    rig_read(rig, 1, 50);
    rig_read_records(rig, 2, 50);
    (void)rig_tick(rig, 1);
}

Test(task_history, a_replay_that_met_all_goes_on)
{
    forget_state();
    compact(true); /* perhaps nothing was removed */
    owe(50);
    replay(0, 50);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_STAMP);
    rig_read_records(rig, 0, 53);
    rig_read(rig, 1, 53); /* a marker */
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[0].stamp.records, 53);
    cr_assert_eq(rig->committed[1].stamp.records, 50);
    cr_assert_eq(rig->committed[1].offset, 53);
}

static void expect_halted(void)
{
    rig_assert(rig_phase(rig) == TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->letters, "X!", "nothing is committed");
    cr_assert_str_eq(rig->task.code, "history_incomplete");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->actions.wake_ms, TASK_NEVER, "it would come out the same");
}

/* Whatever the topic's policy is today: it says nothing about yesterday. */
Test(task_history, a_replay_that_lacks_one_record_halts)
{
    forget_state();
    owe(50);
    replay(0, 49);
    expect_halted();
    cr_assert(strstr(rig->task.detail, "partition 1") != NULL, "%s", rig->task.detail);
    cr_assert(strstr(rig->task.detail, "49 records") != NULL, "%s", rig->task.detail);
    cr_assert(strstr(rig->task.detail, "met 50") != NULL, "%s", rig->task.detail);
    (void)rig_desire(rig, RIG_EPOCH, true);
    cr_assert_str_eq(rig_tick(rig, 0), "O", "a change of the job may help");
}

Test(task_history, a_replay_from_kept_state_that_lacks_one_record_halts)
{
    owe(45);
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->records[i] = 35;
    replay(40, 9);
    expect_halted();
}

Test(task_history, a_state_that_came_out_short_is_not_served_when_it_was_written_either)
{
    owe(45);
    for (size_t i = 0; i < RIG_PARTITIONS; i++) {
        rig->stored[i] = 50;
        rig->records[i] = i == 2 ? 44 : 45;
    }
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "AX!");
    cr_assert_str_eq(rig->task.code, "history_incomplete");
}

Test(task_history, a_state_with_more_records_than_its_owner_met_is_not_served)
{
    owe(49);
    forget_state();
    replay(0, 50);
    expect_halted();
}

Test(task_history, what_nobody_counted_is_not_compared)
{
    owe(API_UNKNOWN); /* committed by hand, as docs/operations.md shows */
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->records[i] = 35;
    rig_go(rig, TASK_PHASE_REPLAY);
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig_read_records(rig, i, 50);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[2].stamp.records, 45, "and counted from here on");
}

Test(task_history, a_state_from_before_there_were_counts_takes_over_its_owners)
{
    owe(45);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].stamp.records, 45);
}

Test(task_history, jobs_that_need_no_more_than_the_topics_keep_are_not_counted)
{
    static const struct {
        bool stateful, retained, latest;
    } table[] = {{false, false, false}, {true, true, false}, {true, false, true}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct task_config config = usual;

        config.stateful = table[i].stateful;
        config.history_retained = table[i].retained;
        begin(config, false);
        forget_state();
        owe(50);
        compact(true);
        (void)rig_give(rig, TASK_EVENT_START);
        (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_STORE_OPENED,
                                                      .rebuilds_from_latest = table[i].latest});
        rig->awaited = rig->task.awaited;
        rig_go(rig, TASK_PHASE_ACTIVE);
        cr_assert_eq(rig->committed[0].stamp.records, API_UNKNOWN, "%zu", i);
    }
}

Test(task_history, a_zombies_older_commit_is_not_what_the_state_is_compared_with)
{
    struct task_config config = usual;

    config.exactly_once = false;
    begin(config, false);
    owe(30);
    for (size_t i = 0; i < RIG_PARTITIONS; i++) {
        rig->committed[i].offset = 35; /* T2 is 40 */
        rig->records[i] = 33;
    }
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[0].offset, 40);
    cr_assert_eq(rig->committed[0].stamp.records, 33);
}

Test(task_history, the_repair_counts_again_from_the_checkpoint)
{
    owe(50);
    forget_state();
    replay(0, 50);
    rig_go(rig, TASK_PHASE_ACTIVE);
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig_read_records(rig, i, 60);
    (void)rig_tick(rig, 100);
    cr_assert_eq(rig->task.awaited, TASK_ACTION_COMMIT);
    (void)rig_give(rig, TASK_EVENT_COMMIT_FAILED); /* and nothing was checkpointed yet */
    rig_go(rig, TASK_PHASE_REPLAY);
    cr_assert_eq(rig->task.partitions[0].records, 0);
    replay(0, 50);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_STAMP);
}

Test(task_history, a_learner_that_takes_over_has_met_all_or_halts)
{
    for (int missing = 0; missing < 2; missing++) {
        begin(usual, true);
        forget_state();
        owe(50);
        rig_go(rig, TASK_PHASE_LEARN);
        (void)rig_follow(rig, 50, 50, 50);
        for (size_t i = 0; i < RIG_PARTITIONS; i++) {
            rig_read_records(rig, i, 50 - missing);
            rig_read(rig, i, 50);
        }
        (void)rig_tick(rig, 1);
        (void)rig_want(rig, (struct task_desired){.epoch = RIG_EPOCH, .handoff = RIG_HANDOFF});
        rig_go(rig, missing ? TASK_PHASE_FAILED : TASK_PHASE_ACTIVE);
        if (missing)
            cr_assert_str_eq(rig->task.code, "history_incomplete");
    }
}

/* ---- open transactions (S7) */

/* The log ends at 100 and is readable up to `stable_end`. */
static void look(int64_t stable_end)
{
    rig->ranges[1].stable_end = stable_end;
    (void)rig_give(rig, TASK_EVENT_RANGES);
    (void)rig_follow(rig, 50, 50, 50);
}

static void learn_to_t1(void)
{
    rig_go(rig, TASK_PHASE_LEARN);
    (void)rig_follow(rig, 50, 50, 50);
    rig_read_all(rig, 50);
    (void)rig_follow(rig, 50, 50, 50);
}

Test(task_history, behind_an_open_transaction_a_learner_is_not_caught_up)
{
    begin(usual, true);
    learn_to_t1();
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
    cr_assert_not(task_awaits_ranges(&rig->task));
    look(50);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP, "records may be on their way");
    look(50);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_LEARNING);
    cr_assert_eq(rig->task.partitions[1].pin, TASK_PIN_HELD);
    cr_assert(task_awaits_ranges(&rig->task));
    cr_assert_eq(task_caught_up_lag(&rig->task), 0);
    look(52); /* that one has ended; another one is open now */
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
    look(52);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_LEARNING);
    look(100);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
}

Test(task_history, a_learner_that_opens_behind_an_open_transaction_waits_for_a_second_look)
{
    for (int open = 0; open < 2; open++) {
        begin(usual, true);
        rig->ranges[1].stable_end = 60;
        learn_to_t1();
        cr_assert_eq(task_state(&rig->task), TASK_STATE_LEARNING, "one look does not tell");
        cr_assert(task_awaits_ranges(&rig->task));
        look(open ? 60 : 61);
        cr_assert_eq(task_state(&rig->task), open ? TASK_STATE_LEARNING : TASK_STATE_CAUGHT_UP);
    }
}

Test(task_history, partitions_of_others_hold_nobody)
{
    begin(usual, true);
    rig->task.partitions[1].owned = false;
    task_tell_bound(&rig->task, 1, 50, API_UNKNOWN);
    rig->ranges[1].stable_end = 50;
    learn_to_t1();
    look(50);
    look(50);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_CAUGHT_UP);
}

Test(task_history, what_was_closed_is_held_by_nothing)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig->ranges[1].end = 105;
    (void)rig_give(rig, TASK_EVENT_RANGES);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_eq(rig->task.partitions[1].pin, TASK_PIN_HELD, "owners are held, too");
    cr_assert_not(task_awaits_ranges(&rig->task), "but nothing waits for it");
    (void)rig_give(rig, TASK_EVENT_STORE_FAILED);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
    cr_assert_eq(rig->task.partitions[1].pin, TASK_PIN_UNKNOWN);
}
