/* Which hand-overs there are: for newcomers, and those that somebody asks for. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(handoff_plan, .init = rig_setup, .fini = rig_teardown);

/* ---- newcomers */

Test(handoff_plan, newcomer_gets_half_and_nothing_more_moves)
{
    world_register(&rig_world, "a2", 2);
    cr_assert_eq(rig_world.cluster.handoffs.count, 2);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 2);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    cr_assert_eq(world_count_traced(&rig_world, "handoff_done"), 2);
    cr_assert_not(cluster_arrival(cluster_job(&rig_world.cluster, "j1"), "a2")->open);
    uint64_t epoch = rig_world.cluster.meta.epoch;
    world_pass_reporting(&rig_world, 120000, rig_both);
    cr_assert_eq(rig_world.cluster.meta.epoch, epoch);
    world_restart(&rig_world);
    world_pass_reporting(&rig_world, 60000, rig_both);
    cr_assert_eq(rig_world.cluster.meta.epoch, epoch);
}

Test(handoff_plan, max_learners_are_kept_and_all_that_is_owed_comes)
{
    struct job_spec spec = world_spec("j2");
    spec.processors = 8;
    spec.max_learners = 2;
    world_create_spec(&rig_world, "j2", spec);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_register(&rig_world, "a2", 2);
    for (int i = 0; i < 200; i++) {
        size_t learners = 0;
        for (size_t h = 0; h < rig_world.cluster.handoffs.count; h++)
            learners += strcmp(rig_world.cluster.handoffs.items[h]->row.job, "j2") == 0 &&
                        handoff_before_release(rig_world.cluster.handoffs.items[h]->row.state);
        cr_assert_leq(learners, 2);
        world_report(&rig_world, i % 2 == 0 ? "a1" : "a2", TASK_STATE_ACTIVE);
    }
    cr_assert_eq(world_count_owned(&rig_world, "j2", "a2"), 4);
}

/* S22: the number of moves is what is owed, and the end is even. */
Test(handoff_plan, five_agents_join_one_second_apart)
{
    static const char *const names[] = {"a1", "a2", "a3", "a4", "a5", "a6", NULL};
    for (int slow = 0; slow < 3; slow++) {
        rig_teardown();
        rig_setup();
        struct job_spec spec = world_spec("j2");
        spec.processors = 8;
        world_create_spec(&rig_world, "j2", spec);
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
        for (uint64_t i = 1; i < 6; i++) {
            world_register(&rig_world, names[i], i + 1);
            /* What is learned meanwhile: nothing, all of it, or some. */
            for (uint64_t n = 0; n <= i; n++)
                world_report(&rig_world, names[n],
                             slow == 0 || (slow == 2 && n % 2 == 0) ? TASK_STATE_LEARNING
                                                                    : TASK_STATE_ACTIVE);
            world_pass(&rig_world, 1000);
        }
        world_calm_down(&rig_world, names);
        size_t least = 100, most = 0;
        for (uint64_t i = 0; i < 6; i++) {
            size_t owned = world_count_owned(&rig_world, "j2", names[i]);
            least = owned < least ? owned : least;
            most = owned > most ? owned : most;
            size_t all = owned + world_count_owned(&rig_world, "j1", names[i]);
            cr_assert_eq(all, 2, "%s ends with %zu", names[i], all);
        }
        cr_assert_leq(most - least, 1);
        /* Nothing had to move twice where nothing was learned before all had come. */
        if (slow == 0)
            cr_assert_eq(world_count_traced(&rig_world, "handoff_done"), 10);
        uint64_t epoch = rig_world.cluster.meta.epoch;
        world_pass_reporting(&rig_world, 30000, names);
        cr_assert_eq(rig_world.cluster.meta.epoch, epoch);
    }
}

Test(handoff_plan, fewer_tasks_than_agents_come_to_rest)
{
    world_register(&rig_world, "a2", 2);
    world_register(&rig_world, "a3", 3);
    world_calm_down(&rig_world, rig_three);
    struct job_spec spec = world_spec("j2");
    spec.processors = 1;
    world_create_spec(&rig_world, "j2", spec);
    world_calm_down(&rig_world, rig_three);
    uint64_t epoch = rig_world.cluster.meta.epoch;
    for (int i = 0; i < 5; i++) {
        world_pass_reporting(&rig_world, 20000, rig_three);
        cr_assert_eq(rig_world.cluster.meta.epoch, epoch);
        cr_assert_eq(rig_world.cluster.handoffs.count, 0);
    }
}

/* S21: never two at once for one processor, which cluster_check asserts in every step. */
Test(handoff_plan, newer_plan_supersedes_what_is_learned_and_finishes_what_was_released)
{
    world_register(&rig_world, "a2", 2);
    cr_assert_eq(rig_world.cluster.handoffs.count, 2);
    world_report(&rig_world, "a2", TASK_STATE_LEARNING);
    world_register(&rig_world, "a3", 3);
    world_calm_down(&rig_world, rig_three);
    cr_assert_geq(world_count_owned(&rig_world, "j1", "a2"), 1);
    cr_assert_geq(world_count_owned(&rig_world, "j1", "a3"), 1);
    cr_assert_eq(world_count_traced(&rig_world, "handoff_done"), 2);
}

Test(handoff_plan, lost_newcomer_gets_what_it_is_owed_when_it_returns)
{
    world_register(&rig_world, "a2", 2);
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + 1000, rig_a1);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
    world_calm_down(&rig_world, rig_both);
    world_pass_reporting(&rig_world, 2000, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

Test(handoff_plan, newcomer_that_comes_while_the_owner_is_away_is_not_passed_over)
{
    world_pass(&rig_world, WORLD_TIMEOUT_MS + 1000);
    world_register(&rig_world, "a2", 2);
    world_pass_reporting(&rig_world, 5000, rig_a2);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

/* ---- what was asked for */

Test(handoff_plan, move_is_refused_where_it_makes_no_sense)
{
    rig_add_established();
    rig_move(9, "a2");
    world_expect_problem(&rig_world, "processor_not_found");
    rig_move(0, "a9");
    world_expect_problem(&rig_world, "agent_not_found");
    struct coord_event event = world_event(&rig_world, COORD_EVENT_MOVE, "j9");
    world_step(&rig_world, event);
    world_expect_problem(&rig_world, "job_not_found");
    world_deregister(&rig_world, "a2", 2);
    rig_move(0, "a2");
    world_expect_problem(&rig_world, "move_refused");
    rig_move(0, NULL);
    world_expect_problem(&rig_world, "move_refused");
}

Test(handoff_plan, move_to_where_it_is_succeeds_without_one)
{
    rig_add_established();
    rig_move(0, "a1");
    world_expect_status(&rig_world, 202);
    cr_assert_eq(rig_operation(rig_world.cluster.meta.operation_id)->state,
                 OPERATION_STATE_SUCCEEDED);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
}

Test(handoff_plan, same_move_again_is_the_same_operation_and_another_one_is_refused)
{
    rig_add_established();
    world_register(&rig_world, "a3", 3);
    rig_move(0, "a2");
    uint64_t id = rig_world.cluster.meta.operation_id;
    rig_move(0, "a2");
    world_expect_status(&rig_world, 202);
    rig_move(0, NULL);
    world_expect_status(&rig_world, 202);
    cr_assert_eq(rig_world.cluster.meta.operation_id, id);
    rig_move(0, "a3");
    world_expect_problem(&rig_world, "move_refused");
}

Test(handoff_plan, move_supersedes_a_planned_one_and_waits_for_one_that_has_released)
{
    world_register(&rig_world, "a2", 2);
    world_register(&rig_world, "a3", 3);
    uint32_t learned = rig_handoff(0) != NULL ? 0 : rig_handoff(1) != NULL ? 1 : 2;
    const char *other = strcmp(rig_handoff(learned)->row.target, "a2") == 0 ? "a3" : "a2";
    uint64_t before = rig_handoff(learned)->row.id;
    rig_move(learned, other);
    world_expect_status(&rig_world, 202);
    cr_assert_neq(rig_handoff(learned)->row.id, before);
    cr_assert_str_eq(rig_handoff(learned)->row.target, other);
    cr_assert_not(rig_handoff(learned)->row.planned);
    world_calm_down(&rig_world, rig_three);
    cr_assert_str_eq(rig_placement(learned)->agent, other);
}

Test(handoff_plan, move_is_queued_behind_a_hand_over_that_must_finish)
{
    world_register(&rig_world, "a2", 2);
    uint32_t first = rig_handoff(0) != NULL ? 0 : 1;
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    rig_expect_state(first, HANDOFF_STATE_RELEASED);
    rig_move(first, "a1");
    world_expect_status(&rig_world, 202);
    uint64_t id = rig_world.cluster.meta.operation_id;
    cr_assert_eq(rig_operation(id)->step, OPERATION_STEP_QUEUE);
    world_restart(&rig_world);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(rig_operation(id)->state, OPERATION_STATE_SUCCEEDED);
    cr_assert_str_eq(rig_placement(first)->agent, "a1");
}

Test(handoff_plan, move_from_a_lost_owner_is_forced)
{
    rig_add_established();
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + 500, rig_a2);
    rig_move(0, "a2");
    world_expect_status(&rig_world, 202);
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
    cr_assert(rig_handoff(0)->row.forced);
    world_calm_down(&rig_world, rig_a2);
    cr_assert_eq(rig_operation(rig_world.cluster.meta.operation_id)->state,
                 OPERATION_STATE_SUCCEEDED);
}

static void cancel_operation(uint64_t id)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_OPERATION_CANCEL, NULL);
    event.operation = id;
    world_step(&rig_world, event);
}

Test(handoff_plan, move_can_be_cancelled_until_the_release)
{
    for (int state = 0; state < HANDOFF_PHASES; state++) {
        rig_teardown();
        rig_setup();
        rig_bring_to((enum handoff_state)state);
        uint64_t id = rig_world.cluster.meta.operation_id, epoch = rig_placement(0)->epoch;
        cancel_operation(id);
        if (!handoff_before_release((enum handoff_state)state)) {
            world_expect_problem(&rig_world, "operation_not_cancellable");
            continue;
        }
        world_expect_status(&rig_world, 200);
        cr_assert_eq(rig_operation(id)->state, OPERATION_STATE_CANCELLED);
        cr_assert_null(rig_handoff(0));
        cr_assert_str_eq(rig_placement(0)->agent, "a1");
        cr_assert_eq(rig_placement(0)->epoch > epoch, state == HANDOFF_STATE_RELEASING);
        rig_expect_no_task("a2");
    }
}

Test(handoff_plan, hand_over_can_be_cancelled_until_the_release)
{
    for (int state = 0; state < HANDOFF_PHASES; state++) {
        rig_teardown();
        rig_setup();
        rig_bring_to((enum handoff_state)state);
        struct coord_event event = world_event(&rig_world, COORD_EVENT_HANDOFF_CANCEL, NULL);
        event.handoff = rig_handoff(0)->row.id;
        world_step(&rig_world, event);
        if (!handoff_before_release((enum handoff_state)state)) {
            world_expect_problem(&rig_world, "handoff_not_cancellable");
            continue;
        }
        world_expect_status(&rig_world, 200);
        const struct handoff_view *view = world_answer(&rig_world)->body;
        cr_assert_eq(view->state, HANDOFF_STATE_CANCELLED);
        cr_assert_eq(rig_operation(rig_world.cluster.meta.operation_id)->state,
                     OPERATION_STATE_CANCELLED);
        world_pass_reporting(&rig_world, 30000, rig_both);
        cr_assert_str_eq(rig_placement(0)->agent, "a1");
        cr_assert(rig_placement(0)->activated);
    }
    struct coord_event event = world_event(&rig_world, COORD_EVENT_HANDOFF_CANCEL, NULL);
    event.handoff = 4711;
    world_step(&rig_world, event);
    world_expect_problem(&rig_world, "handoff_not_found");
}

Test(handoff_plan, rebalance_evens_out_among_established_agents)
{
    rig_add_established();
    rig_rebalance();
    world_expect_status(&rig_world, 202);
    uint64_t id = rig_world.cluster.meta.operation_id;
    rig_rebalance();
    cr_assert_eq(rig_world.cluster.meta.operation_id, id, "one is under way");
    cr_assert_eq(rig_world.cluster.handoffs.count, 2);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    cr_assert_eq(rig_operation(id)->state, OPERATION_STATE_SUCCEEDED);
    rig_rebalance();
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(rig_operation(id + 1)->state, OPERATION_STATE_SUCCEEDED, "it is even");
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
}

/* Everybody was gone meanwhile; what has got an owner again is all there is to even out. */
Test(handoff_plan, rebalance_ends_when_the_processors_have_owners_again)
{
    static const char *const nobody[] = {NULL};
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + 1000, nobody);
    rig_rebalance();
    world_expect_status(&rig_world, 202);
    uint64_t id = rig_world.cluster.meta.operation_id;
    cr_assert_eq(rig_operation(id)->state, OPERATION_STATE_RUNNING);
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_AGENT_FORGET, "a1"));
    world_expect_status(&rig_world, 204);
    world_register(&rig_world, "a2", 2);
    world_calm_down(&rig_world, rig_a2);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
    cr_assert_eq(rig_operation(id)->state, OPERATION_STATE_SUCCEEDED);
}

Test(handoff_plan, rebalance_can_be_cancelled)
{
    rig_add_established();
    rig_rebalance();
    cancel_operation(rig_world.cluster.meta.operation_id);
    world_expect_status(&rig_world, 200);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
    world_pass_reporting(&rig_world, 30000, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
}

Test(handoff_plan, deletion_of_the_job_ends_it_in_every_state)
{
    for (int state = 0; state < HANDOFF_PHASES; state++) {
        rig_teardown();
        rig_setup();
        rig_bring_to((enum handoff_state)state);
        uint64_t id = rig_world.cluster.meta.operation_id;
        world_delete(&rig_world, "j1");
        world_expect_status(&rig_world, 202);
        cr_assert_eq(rig_world.cluster.handoffs.count, 0);
        cr_assert_eq(rig_operation(id)->state, OPERATION_STATE_CANCELLED, "state %d", state);
        rig_expect_no_task("a2");
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        world_reply_all_well(&rig_world);
        cr_assert_null(cluster_job(&rig_world.cluster, "j1"));
    }
}

Test(handoff_plan, both_lost_before_the_release_others_take_over)
{
    rig_bring_to(HANDOFF_STATE_RELEASING);
    world_register(&rig_world, "a3", 3);
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + 31000, (const char *const[]){"a3", NULL});
    world_calm_down(&rig_world, (const char *const[]){"a3", NULL});
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a3"), 4);
    world_pass_reporting(&rig_world, 1000, rig_a2_a3);
    cr_assert_str_eq(rig_placement(0)->agent, "a3");
}
