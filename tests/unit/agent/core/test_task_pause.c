/* Owners of a paused job: how they stop, what they leave alone meanwhile, and how they go on. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig *const rig = &rig_shared;

TestSuite(task_pause, .init = rig_setup_started, .fini = rig_teardown_started);

static const struct task_desired paused = {.epoch = RIG_EPOCH, .paused = true};
static const struct task_desired paused_anew = {.epoch = RIG_EPOCH + 1, .paused = true};
static const struct task_desired resumed = {.epoch = RIG_EPOCH + 1};

/* Active, something put out, then paused: T1 is 60. */
static void pause_at_60(void)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, paused);
    rig_go(rig, TASK_PHASE_PAUSED);
    if (rig->task.checkpoint_running)
        (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
}

static void commit_by_tool(size_t index, int64_t offset)
{
    rig->committed[index] = (struct task_committed){.offset = offset};
}

static void expect_paused(void)
{
    cr_assert_eq(task_state(&rig->task), TASK_STATE_PAUSED);
    cr_assert_not(task_may_read(&rig->task));
    cr_assert_not(task_may_output(&rig->task));
}

static bool has_action(char letter)
{
    return strchr(rig->letters, letter) != NULL;
}

Test(task_pause, commits_closes_its_producer_and_writes_the_state)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    cr_assert_str_eq(rig_want(rig, paused), "C");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_ACTIVE);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "pK!");
    expect_paused();
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH);
    cr_assert_eq(rig->committed[1].offset, 60);
    (void)rig_give(rig, TASK_EVENT_CHECKPOINTED);
    cr_assert_eq(rig->stored[1], 60);
    cr_assert_str_eq(rig_tick(rig, 60000), "");
    expect_paused();
}

Test(task_pause, with_nothing_new_needs_no_commit)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_settle(rig);
    cr_assert(strchr(rig_want(rig, paused), 'C') == NULL);
    expect_paused();
}

Test(task_pause, at_least_once_makes_sure_of_t1)
{
    rig->task.config.exactly_once = false;
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert(task_is_clean(&rig->task));
    cr_assert_str_eq(rig_want(rig, paused), "C");
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    expect_paused();
}

Test(task_pause, a_doubtful_last_commit_is_repaired_before_it_rests)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig_read_all(rig, 60);
    (void)rig_want(rig, paused);
    (void)rig_give(rig, TASK_EVENT_COMMIT_FAILED);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_REPLAYING);
    rig_go(rig, TASK_PHASE_PAUSED);
    expect_paused();
    cr_assert_eq(rig->committed[1].offset, 50); /* what was in doubt had not landed */
    cr_assert_eq(rig->task.partitions[1].position, 50);
}

Test(task_pause, resumed_goes_through_the_whole_activation)
{
    pause_at_60();
    cr_assert_str_eq(rig_want(rig, resumed), "P");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_PRODUCER_READY), "F");
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_STAMP);
    cr_assert_eq(rig->task.partitions[1].limit, TASK_UNLIMITED);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 60);
    cr_assert_eq(rig->committed[1].stamp.epoch, RIG_EPOCH + 1);
    cr_assert_eq(rig->task.partitions[1].rested, API_UNKNOWN);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_pause, of_an_activation_under_way_stamps_without_output)
{
    rig_go(rig, TASK_PHASE_REPLAY);
    (void)rig_want(rig, paused);
    rig_go(rig, TASK_PHASE_STAMP);
    cr_assert_eq(rig->task.partitions[1].limit, 50);
    rig_go(rig, TASK_PHASE_PAUSED);
    expect_paused();
    cr_assert_eq(rig->committed[1].offset, 50);
    cr_assert_eq(rig->committed[1].stamp.epoch, RIG_EPOCH);
}

Test(task_pause, a_new_epoch_stamps_and_rests_again)
{
    pause_at_60();
    cr_assert_str_eq(rig_want(rig, paused_anew), "P");
    rig_go(rig, TASK_PHASE_PAUSED);
    expect_paused();
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH + 1);
    cr_assert_eq(rig->committed[1].offset, 60);
    cr_assert_eq(rig->committed[1].stamp.epoch, RIG_EPOCH + 1);
}

Test(task_pause, a_newer_owner_fences_it)
{
    pause_at_60();
    (void)rig_want(rig, resumed);
    rig_go(rig, TASK_PHASE_COMMITTED);
    rig->committed[2].stamp.epoch = RIG_EPOCH + 5;
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FENCED);
}

/* ---- offsets that others commit (S45) */

Test(task_pause, a_higher_offset_set_meanwhile_is_learned_up_to_and_gone_on_from)
{
    pause_at_60();
    commit_by_tool(1, 75);
    (void)rig_want(rig, resumed);
    rig_go(rig, TASK_PHASE_REPLAY);
    cr_assert_eq(rig->task.partitions[1].limit, 75); /* silently */
    cr_assert_eq(rig->task.partitions[0].limit, 60);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 75);
    cr_assert_eq(rig->committed[1].stamp.epoch, RIG_EPOCH + 1);
    cr_assert_str_eq(rig->task.code, "offsets_accepted");
    cr_assert_not_null(strstr(rig->task.detail, "partition 1"));
    (void)rig_tick(rig, TASK_NOTICE_MS);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_pause, the_same_offset_written_by_others_is_no_news)
{
    pause_at_60();
    commit_by_tool(1, 60);
    (void)rig_want(rig, resumed);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig->task.code, "");
    cr_assert(rig->committed[1].stamped);
}

static void expect_refused(const char *code)
{
    (void)rig_want(rig, resumed);
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, code);
}

Test(task_pause, a_lower_offset_set_meanwhile_is_refused)
{
    pause_at_60();
    commit_by_tool(1, 59);
    expect_refused("offsets_changed");
    /* Looking again changes nothing. */
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    (void)rig_tick(rig, TASK_RECHECK_MS);
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "offsets_changed");
}

Test(task_pause, an_offset_that_is_gone_is_refused)
{
    pause_at_60();
    commit_by_tool(1, API_UNKNOWN);
    expect_refused("offsets_expired");
}

Test(task_pause, what_is_set_once_it_works_again_is_refused)
{
    pause_at_60();
    (void)rig_want(rig, resumed);
    rig_go(rig, TASK_PHASE_ACTIVE);
    commit_by_tool(1, 75);
    (void)rig_want(rig, (struct task_desired){.epoch = RIG_EPOCH + 2});
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "offsets_changed");
}

Test(task_pause, what_others_set_is_not_stamped_while_it_is_paused)
{
    pause_at_60();
    commit_by_tool(1, 75);
    (void)rig_want(rig, paused_anew);
    rig_go(rig, TASK_PHASE_PAUSED);
    expect_paused();
    cr_assert_not(rig->committed[1].stamped);
    cr_assert_eq(rig->committed[1].offset, 75);
    cr_assert_eq(rig->task.partitions[1].t1, 60);
    cr_assert_eq(rig->task.partitions[1].position, 60);
    /* It may go back as far as T1. */
    commit_by_tool(1, 65);
    (void)rig_want(rig, (struct task_desired){.epoch = RIG_EPOCH + 2});
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 65);
}

/* ---- a task that begins with what the coordinator knows */

static const int64_t known_t1[RIG_PARTITIONS] = {50, 50, 50};

static void start_elsewhere(const struct task_desired *desired)
{
    struct task_config config = rig->task.config;

    rig_finish(rig);
    rig_init_desired(rig, &config, desired);
    (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_START, .offsets = known_t1});
}

Test(task_pause, another_agent_learns_up_to_t1_and_rests_there)
{
    start_elsewhere(&paused);
    commit_by_tool(1, 70);
    rig_go(rig, TASK_PHASE_PAUSED);
    expect_paused();
    cr_assert_eq(rig->task.partitions[1].position, 50);
    cr_assert_not(rig->committed[1].stamped);
    (void)rig_want(rig, resumed);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 70);
}

Test(task_pause, started_after_the_pause_it_accepts_what_was_set_during_it)
{
    start_elsewhere(&resumed);
    commit_by_tool(1, 70);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig->task.code, "offsets_accepted");
    cr_assert_eq(rig->committed[1].offset, 70);
}

Test(task_pause, started_after_the_pause_it_refuses_what_is_below_t1)
{
    start_elsewhere(&resumed);
    commit_by_tool(1, 45); /* T2 is 40 */
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "offsets_changed");
}

Test(task_pause, an_active_one_takes_no_old_t1)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_DESIRED,
                                                  .desired = {.epoch = RIG_EPOCH},
                                                  .offsets = known_t1});
    cr_assert_eq(rig->task.partitions[1].rested, API_UNKNOWN);
}

/* ---- renewal (D3.7) */

Test(task_pause, renews_the_offsets_hourly)
{
    pause_at_60();
    rig->committed[1].stamp.epoch = RIG_EPOCH - 1; /* shows that it is put anew */
    (void)rig_tick(rig, TASK_RENEW_MS);
    cr_assert(has_action('P'));
    rig_go(rig, TASK_PHASE_PAUSED);
    expect_paused();
    cr_assert_eq(rig->committed[1].offset, 60);
    cr_assert_eq(rig->committed[1].stamp.epoch, RIG_EPOCH);
    cr_assert_gt(rig->task.renew_due_ms, rig->now_ms);
}

Test(task_pause, renews_the_offsets_at_a_quarter_of_their_retention)
{
    task_set_offsets_retention(&rig->task, 60000); /* before anything is stamped */
    pause_at_60();
    cr_assert_str_eq(rig_tick(rig, 14000), "");
    (void)rig_tick(rig, 1000);
    cr_assert(has_action('P'));
    rig_go(rig, TASK_PHASE_PAUSED);
    cr_assert_eq(rig->task.renew_ms, 15000);
}

Test(task_pause, renews_nothing_over_what_others_committed)
{
    pause_at_60();
    commit_by_tool(0, 61);
    (void)rig_tick(rig, TASK_RENEW_MS);
    rig_go(rig, TASK_PHASE_PAUSED);
    cr_assert_not(rig->committed[0].stamped);
    cr_assert_eq(rig->committed[0].offset, 61);
    cr_assert_gt(rig->task.renew_due_ms, rig->now_ms);
    (void)rig_want(rig, resumed);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[0].offset, 61);
}

/* ---- what happens to a topic meanwhile */

Test(task_pause, a_truncated_topic_is_noticed)
{
    pause_at_60();
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->ranges[i].end = rig->ranges[i].stable_end = 55;
    task_asks_ranges(&rig->task, rig->now_ms);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FAILED);
    cr_assert_str_eq(rig->task.code, "topic_truncated");
}

Test(task_pause, a_refused_record_is_met_again_after_it)
{
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_give_event(
        rig, (struct task_event){
                 .kind = TASK_EVENT_RECORD_REFUSED, .index = 1, .offset = 50, .detail = "bad"});
    rig_go(rig, TASK_PHASE_FAILED);
    (void)rig_want(rig, paused);
    cr_assert_eq(task_state(&rig->task), TASK_STATE_FAILED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    (void)rig_want(rig, resumed);
    rig_go(rig, TASK_PHASE_ACTIVE);
}
