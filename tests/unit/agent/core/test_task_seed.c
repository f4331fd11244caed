/* When a state is got from another copy, and what comes of it (D3.6, D8). */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig rig_memory, *const rig = &rig_memory;

static void finish(void)
{
    rig_finish(rig);
}

TestSuite(task_seed, .fini = finish);

static const struct task_config config = {
    .incarnation = RIG_INCARNATION,
    .processor = 5,
    .exactly_once = true,
    .stateful = true,
    .commit_interval_ms = 100,
    .checkpoint_interval_ms = 10000,
    .acceptable_lag = 4,
    .seed_records_min = 1000,
};

static void begin(enum task_seed seed)
{
    rig_init_desired(rig, &config,
                     &(struct task_desired){.learner = true, .handoff = RIG_HANDOFF, .seed = seed});
}

static void forget_state(void)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
}

static void lose_history(void)
{
    rig->ranges[1].log_start = 45;
}

/* To the answer of the first look at the log. */
static const char *look(void)
{
    (void)rig_give(rig, TASK_EVENT_START);
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    return rig_give(rig, TASK_EVENT_RANGES);
}

static const char *want(enum task_seed seed)
{
    return rig_want(rig,
                    (struct task_desired){.learner = true, .handoff = RIG_HANDOFF, .seed = seed});
}

Test(task_seed, whatever_the_log_lacks_is_got_from_a_copy)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    lose_history();
    cr_assert_str_eq(look(), "G");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_SEEDING);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_SEEDED), "R");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "V");
    cr_assert_eq(rig->task.partitions[1].position, 48);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_VERIFIED), "A");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_LEARN);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_seed, local_state_wins_while_the_log_goes_on_from_it)
{
    begin(TASK_SEED_FIRST);
    cr_assert_str_eq(look(), "V");
    rig_finish(rig);
    begin(TASK_SEED_AUTO);
    lose_history(); /* behind T2 as well */
    cr_assert_str_eq(look(), "G");
}

Test(task_seed, goes_by_what_there_is_to_replay)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    cr_assert_str_eq(look(), "A", "a short replay needs nobody");
    rig_finish(rig);
    begin(TASK_SEED_AUTO);
    forget_state();
    rig->ranges[2].stable_end = rig->ranges[2].end = 1000;
    cr_assert_str_eq(look(), "G");
    rig_finish(rig);
    begin(TASK_SEED_FIRST);
    forget_state();
    cr_assert_str_eq(look(), "G");
    rig_finish(rig);
    begin(TASK_SEED_FIRST);
    forget_state();
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->ranges[i].stable_end = rig->ranges[i].end = 0;
    cr_assert_str_eq(look(), "A", "there is no state yet that anybody could have");
}

Test(task_seed, without_a_copy_or_without_leave_it_halts)
{
    begin(TASK_SEED_NONE);
    forget_state();
    lose_history();
    cr_assert_str_eq(look(), "X!");
    cr_assert_str_eq(rig->task.code, "history_incomplete");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    (void)want(TASK_SEED_AUTO); /* somebody has a copy now */
    cr_assert_str_eq(rig_tick(rig, 0), "O");
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "G");
}

Test(task_seed, of_a_compacted_topic)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    rig->policies[0].compacted = true;
    cr_assert_str_eq(look(), "G");
    (void)rig_give(rig, TASK_EVENT_SEEDED);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    (void)rig_give(rig, TASK_EVENT_VERIFIED);
    (void)rig_follow(rig, 60, 60, 60);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_LEARN, "%s", rig->task.detail);
}

Test(task_seed, that_is_needed_is_tried_for_long_and_again_later)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    lose_history();
    (void)look();
    for (int i = 0; i < 7; i++) {
        (void)rig_give(rig, TASK_EVENT_SEED_FAILED);
        cr_assert_str_eq(rig->task.code, "seeding_failed");
        cr_assert_eq(task_state(&rig->task), TASK_STATE_SEEDING);
        cr_assert_eq(rig->task.partitions[1].position, 0, "nothing is applied meanwhile");
        cr_assert_str_eq(rig_tick(rig, TASK_BACKOFF_MAX_MS), "G");
    }
    (void)rig_give(rig, TASK_EVENT_SEED_FAILED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "X!", "it halts");
    cr_assert_str_eq(rig->task.code, "history_incomplete");
    cr_assert(strstr(rig->task.detail, "no copy came") != NULL, "%s", rig->task.detail);
    rig_go(rig, TASK_PHASE_SEED);
    (void)rig_give(rig, TASK_EVENT_SEEDED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "V");
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_seed, that_is_only_faster_is_given_up_for_a_replay)
{
    begin(TASK_SEED_FIRST);
    forget_state();
    (void)look();
    (void)rig_give(rig, TASK_EVENT_SEED_FAILED);
    (void)rig_tick(rig, TASK_BACKOFF_MAX_MS);
    (void)rig_give(rig, TASK_EVENT_SEED_FAILED);
    (void)rig_tick(rig, TASK_BACKOFF_MAX_MS);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_SEED_FAILED), "R");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "A");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_LEARN);
}

Test(task_seed, copies_that_are_too_old_are_found_out_and_others_waited_for)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    lose_history();
    rig->copy[1] = 44;
    (void)look();
    (void)rig_give(rig, TASK_EVENT_SEEDED);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_SEED);
    rig_go(rig, TASK_PHASE_RANGES);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_SEED);
    cr_assert_not(rig->task.waiting, "not again at once");
    rig->copy[1] = 48;
    rig_go(rig, TASK_PHASE_LEARN);
}

Test(task_seed, copies_of_another_topic_are_found_out)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    lose_history();
    (void)look();
    (void)rig_give(rig, TASK_EVENT_SEEDED);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    (void)rig_give(rig, TASK_EVENT_VERIFY_MISMATCH);
    cr_assert_str_eq(rig->task.code, "topic_recreated");
}

Test(task_seed, a_log_that_passes_a_learner_is_no_end_while_there_is_a_copy)
{
    begin(TASK_SEED_AUTO);
    (void)look();
    rig_go(rig, TASK_PHASE_LEARN);
    lose_history();
    (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_POSITION_LOST,
                                                  .index = 1,
                                                  .code = "history_lost",
                                                  .detail = "the broker refuses it"});
    cr_assert_str_eq(rig->task.code, "seeding_failed");
    rig_go(rig, TASK_PHASE_SEED);
    rig_go(rig, TASK_PHASE_LEARN);
    cr_assert_eq(rig->task.partitions[1].position, 48);
}

Test(task_seed, stops_at_any_time)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    lose_history();
    (void)look();
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "g");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_SEED_FAILED), "X");
    rig_finish(rig);

    begin(TASK_SEED_AUTO);
    forget_state();
    lose_history();
    (void)look();
    (void)rig_give(rig, TASK_EVENT_SEED_FAILED);
    (void)rig_tick(rig, 0);
    (void)rig_give(rig, TASK_EVENT_SEED_FAILED); /* it waits for its next try */
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STOP), "X");
}

Test(task_seed, ends_when_the_last_copy_is_gone)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    lose_history();
    (void)look();
    cr_assert_str_eq(want(TASK_SEED_NONE), "g");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_SEED_FAILED), "R");
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_str_eq(rig->task.code, "history_incomplete");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FAILED);
}

Test(task_seed, an_owner_gets_it_too_and_goes_on_as_from_kept_state)
{
    rig_init_desired(rig, &config,
                     &(struct task_desired){.epoch = RIG_EPOCH, .seed = TASK_SEED_AUTO});
    forget_state();
    lose_history();
    cr_assert_str_eq(look(), "G");
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->task.partitions[1].position, 50);
}

Test(task_seed, promoted_meanwhile_it_waits_for_the_state)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    lose_history();
    (void)look();
    cr_assert_str_eq(
        rig_want(rig, (struct task_desired){.epoch = RIG_EPOCH, .seed = TASK_SEED_AUTO}), "");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_SEED);
    (void)rig_give(rig, TASK_EVENT_SEEDED);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_VERIFIED), "P");
}

Test(task_seed, damage_while_it_is_installed_is_a_failure_of_the_store)
{
    begin(TASK_SEED_AUTO);
    forget_state();
    lose_history();
    (void)look();
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STORE_FAILED), "X!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FAILED);
    rig_go(rig, TASK_PHASE_LEARN);
}
