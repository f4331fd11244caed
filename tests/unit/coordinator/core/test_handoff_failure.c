/* What becomes of a hand-over when something fails, and of processors whose agent is lost. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(handoff_failure, .init = rig_setup, .fini = rig_teardown);

/* ---- before the release any failure leaves the processor with its source */

Test(handoff_failure, target_that_fails_is_out_and_the_source_goes_on)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    uint64_t epoch = rig_placement(0)->epoch;
    struct agent_report report = world_report_of(&rig_world, "a2", TASK_STATE_FAILED);
    report.tasks.items[0].problems.items = mem_calloc(1, sizeof(struct task_problem));
    report.tasks.items[0].problems.count = 1;
    report.tasks.items[0].problems.items[0] = (struct task_problem){
        .code = mem_strdup("history_incomplete"), .detail = mem_strdup("orders 3 starts at 17")};
    world_send_report(&rig_world, "a2", report);
    cr_assert_null(rig_handoff(0));
    cr_assert_eq(world_count_events(&rig_world, "handoff_cancelled"), 1);
    cr_assert_eq(rig_placement(0)->epoch, epoch, "nothing changes for the source");
    rig_expect_no_task("a2");
    const struct operation_row *row = rig_operation(rig_world.cluster.meta.operation_id);
    cr_assert_eq(row->state, OPERATION_STATE_FAILED);
    cr_assert_not_null(strstr(row->error, "history_incomplete: orders 3 starts at 17"));
}

Test(handoff_failure, target_lost_before_the_release_gives_back_under_a_new_epoch)
{
    for (int state = 0; state < HANDOFF_STATE_RELEASING; state++) {
        rig_teardown();
        rig_setup();
        rig_bring_to((enum handoff_state)state);
        uint64_t epoch = rig_placement(0)->epoch;
        for (int i = 0; i < 21; i++) {
            world_report(&rig_world, "a1", TASK_STATE_REPLAYING);
            world_pass(&rig_world, 500);
        }
        cr_assert_null(rig_handoff(0), "state %d", state);
        cr_assert_str_eq(rig_placement(0)->agent, "a1");
        cr_assert_eq(rig_placement(0)->epoch, epoch);
    }
    rig_teardown();
    rig_setup();
    rig_bring_to(HANDOFF_STATE_RELEASING);
    uint64_t epoch = rig_placement(0)->epoch;
    world_deregister(&rig_world, "a2", 2);
    cr_assert_null(rig_handoff(0));
    cr_assert_str_eq(rig_placement(0)->agent, "a1");
    cr_assert_gt(rig_placement(0)->epoch, epoch, "it may have stopped already");
    rig_expect_task("a1", TASK_ROLE_ACTIVE, rig_placement(0)->epoch, false);
    /* What it says of the old epoch now is too late. */
    cr_assert_eq(world_count_events(&rig_world, "processor_given_back"), 1);
}

Test(handoff_failure, source_that_does_not_release_in_time_keeps_it_under_a_new_epoch)
{
    rig_bring_to(HANDOFF_STATE_RELEASING);
    uint64_t epoch = rig_placement(0)->epoch;
    for (int i = 0; i < 50 && rig_handoff(0) != NULL; i++) {
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        world_report(&rig_world, "a1", TASK_STATE_RELEASING);
        world_pass(&rig_world, 500);
    }
    cr_assert_null(rig_handoff(0));
    cr_assert_str_eq(rig_placement(0)->agent, "a1");
    cr_assert_gt(rig_placement(0)->epoch, epoch);
    rig_expect_task("a1", TASK_ROLE_ACTIVE, rig_placement(0)->epoch, false);
}

Test(handoff_failure, source_that_is_fenced_or_starts_anew_while_it_releases_keeps_it)
{
    for (int way = 0; way < 3; way++) {
        rig_teardown();
        rig_setup();
        rig_bring_to(HANDOFF_STATE_RELEASING);
        uint64_t epoch = rig_placement(0)->epoch;
        if (way == 0) {
            world_report(&rig_world, "a1", TASK_STATE_FENCED);
        } else if (way == 1) {
            world_report(&rig_world, "a1", TASK_STATE_FAILED);
        } else {
            world_pass(&rig_world, 2000);
            world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
            world_register(&rig_world, "a1", 7);
        }
        cr_assert_null(rig_handoff(0), "way %d", way);
        cr_assert_str_eq(rig_placement(0)->agent, "a1");
        cr_assert_gt(rig_placement(0)->epoch, epoch);
        rig_expect_task("a1", TASK_ROLE_ACTIVE, rig_placement(0)->epoch, false);
    }
}

Test(handoff_failure, source_that_starts_anew_while_the_target_learns_does_not_stop_it)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    uint64_t id = rig_handoff(0)->row.id;
    world_pass(&rig_world, 2000);
    world_report(&rig_world, "a2", TASK_STATE_LEARNING);
    world_register(&rig_world, "a1", 7);
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    cr_assert_eq(rig_handoff(0)->row.id, id);
    cr_assert_eq(rig_handoff(0)->row.source_epoch, rig_placement(0)->epoch);
    world_calm_down(&rig_world, rig_both);
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
}

Test(handoff_failure, source_that_is_fenced_while_the_target_learns_does_not_stop_it)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    world_report(&rig_world, "a1", TASK_STATE_FENCED);
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    cr_assert_eq(rig_handoff(0)->row.source_epoch, rig_placement(0)->epoch);
    world_calm_down(&rig_world, rig_both);
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
}

/* ---- after it somebody must finish */

Test(handoff_failure, target_that_is_fenced_gets_another_epoch_and_goes_on)
{
    rig_bring_to(HANDOFF_STATE_ACTIVATING);
    uint64_t epoch = rig_placement(0)->epoch;
    world_report(&rig_world, "a2", TASK_STATE_FENCED);
    rig_expect_state(0, HANDOFF_STATE_RELEASED);
    cr_assert_gt(rig_placement(0)->epoch, epoch);
    cr_assert_eq(rig_handoff(0)->row.target_epoch, rig_placement(0)->epoch);
    world_calm_down(&rig_world, rig_both);
    cr_assert_null(rig_handoff(0));
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
}

Test(handoff_failure, target_that_starts_anew_after_the_release_goes_on)
{
    rig_bring_to(HANDOFF_STATE_ACTIVATING);
    world_pass(&rig_world, 2000);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_register(&rig_world, "a2", 8);
    rig_expect_state(0, HANDOFF_STATE_RELEASED);
    world_calm_down(&rig_world, rig_both);
    cr_assert_null(rig_handoff(0));
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
}

Test(handoff_failure, target_lost_after_the_release_hands_back_to_who_has_the_state)
{
    for (int state = HANDOFF_STATE_RELEASED; state < HANDOFF_PHASES; state++) {
        rig_teardown();
        rig_setup();
        rig_bring_to((enum handoff_state)state);
        uint64_t id = rig_handoff(0)->row.id, epoch = rig_placement(0)->epoch;
        world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS, rig_a1);
        world_calm_down(&rig_world, rig_a1);
        cr_assert_str_eq(rig_placement(0)->agent, "a1", "state %d", state);
        cr_assert_gt(rig_placement(0)->epoch, epoch);
        cr_assert_eq(rig_placement(0)->handoff, id, "it is the same hand-over");
        cr_assert(rig_placement(0)->activated);
        cr_assert_null(rig_handoff(0));
    }
}

Test(handoff_failure, target_that_fails_after_the_release_hands_back)
{
    rig_bring_to(HANDOFF_STATE_ACTIVATING);
    uint64_t epoch = rig_placement(0)->epoch;
    world_report(&rig_world, "a2", TASK_STATE_FAILED);
    cr_assert_null(rig_handoff(0));
    cr_assert_eq(world_count_events(&rig_world, "handoff_failed"), 1);
    cr_assert_str_eq(rig_placement(0)->agent, "a1");
    cr_assert_gt(rig_placement(0)->epoch, epoch);
    world_calm_down(&rig_world, rig_both);
    cr_assert(rig_placement(0)->activated);
}

Test(handoff_failure, both_lost_after_the_release_a_third_agent_finishes)
{
    rig_bring_to(HANDOFF_STATE_RELEASED);
    world_register(&rig_world, "a3", 3);
    uint64_t epoch = rig_placement(0)->epoch;
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + 31000, (const char *const[]){"a3", NULL});
    world_calm_down(&rig_world, (const char *const[]){"a3", NULL});
    cr_assert_str_eq(rig_placement(0)->agent, "a3");
    cr_assert_gt(rig_placement(0)->epoch, epoch);
    cr_assert(rig_placement(0)->activated);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a3"), 4);
}

/* ---- lost agents */

Test(handoff_failure, lost_owner_has_its_grace_then_others_take_over)
{
    world_register(&rig_world, "a2", 2);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + 29000, rig_a2);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 2, "it may come back");
    world_pass_reporting(&rig_world, 2000, rig_a2);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
    cr_assert_eq(world_count_traced(&rig_world, "handoff_forced"), 2);
    world_calm_down(&rig_world, rig_a2);
    for (uint32_t i = 0; i < 4; i++)
        cr_assert(rig_placement(i)->activated);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
    /* S23: it comes back, and owns nothing here any more; its share it learns like a newcomer. */
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(world_count_events(&rig_world, "agent_returned"), 1);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
    cr_assert_eq(rig_world.cluster.handoffs.count, 2);
    world_pass_reporting(&rig_world, 30000, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    cr_assert_eq(world_count_traced(&rig_world, "handoff_forced"), 2);
}

Test(handoff_failure, owner_that_returns_within_its_grace_keeps_everything)
{
    world_register(&rig_world, "a2", 2);
    world_calm_down(&rig_world, rig_both);
    uint64_t epoch = rig_world.cluster.meta.epoch;
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + 20000, rig_a2);
    world_pass_reporting(&rig_world, 60000, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 2);
    cr_assert_eq(rig_world.cluster.meta.epoch, epoch);
}

Test(handoff_failure, learner_that_caught_up_takes_over_from_a_lost_source_at_once)
{
    static const enum handoff_state states[] = {HANDOFF_STATE_CAUGHT_UP, HANDOFF_STATE_RELEASING};
    for (size_t i = 0; i < 2; i++) {
        rig_teardown();
        rig_setup();
        rig_bring_to(states[i]);
        uint64_t epoch = rig_placement(0)->epoch;
        world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + 500, rig_a2);
        cr_assert_str_eq(rig_placement(0)->agent, "a2");
        cr_assert_gt(rig_placement(0)->epoch, epoch);
        cr_assert_str_eq(rig_placement(1)->agent, "a1", "nobody has learned the others");
        world_calm_down(&rig_world, rig_a2);
        cr_assert_null(rig_handoff(0));
        cr_assert_eq(world_count_traced(&rig_world, "handoff_forced"), 1);
    }
}

Test(handoff_failure, learner_that_is_on_its_way_takes_over_after_the_grace)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    for (int i = 0; i < 75; i++) {
        world_report(&rig_world, "a2", TASK_STATE_LEARNING);
        world_pass(&rig_world, 500);
    }
    cr_assert_str_eq(rig_placement(0)->agent, "a1");
    for (int i = 0; i < 10; i++) {
        world_report(&rig_world, "a2", TASK_STATE_LEARNING);
        world_pass(&rig_world, 500);
    }
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
    cr_assert_str_eq(rig_placement(1)->agent, "a2");
    cr_assert(rig_handoff(0)->row.forced);
}

Test(handoff_failure, forgotten_source_is_taken_over_from_at_once)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    for (int i = 0; i < 22; i++) {
        world_report(&rig_world, "a2", TASK_STATE_LEARNING);
        world_pass(&rig_world, 500);
    }
    world_forget(&rig_world, "a1");
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
    cr_assert(rig_handoff(0)->row.forced);
    world_calm_down(&rig_world, rig_a2);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
}

Test(handoff_failure, forgotten_target_is_no_target_any_more)
{
    for (int state = 0; state < HANDOFF_PHASES; state++) {
        rig_teardown();
        rig_setup();
        rig_bring_to((enum handoff_state)state);
        world_deregister(&rig_world, "a2", 2);
        world_forget(&rig_world, "a2");
        world_calm_down(&rig_world, rig_a1);
        cr_assert_eq(rig_world.cluster.handoffs.count, 0, "state %d", state);
        cr_assert_str_eq(rig_placement(0)->agent, "a1");
        cr_assert(rig_placement(0)->activated);
    }
}

/* What it can not go on with it can not release either. */
Test(handoff_failure, learner_that_has_caught_up_takes_over_from_a_source_that_has_failed)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    world_report(&rig_world, "a1", TASK_STATE_FAILED);
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE); /* caught up */
    rig_expect_state(0, HANDOFF_STATE_RELEASED);
    cr_assert(rig_handoff(0)->row.forced);
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
    cr_assert_str_eq(rig_placement(1)->agent, "a1", "nobody has learned the others");
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_null(rig_handoff(0));
}
