/* Cordons: who may receive processors, and what becomes of what was on its way. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(cordon, .init = rig_setup, .fini = rig_teardown);

#define GRACE_MS 30000 /* rejoin_grace of world_spec */

static void set(const char *agent_id, bool schedulable, const char *reason)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_ELIGIBILITY, agent_id);
    event.eligibility.schedulable = schedulable;
    event.eligibility.reason = reason != NULL ? mem_strdup(reason) : NULL;
    world_step(&rig_world, event);
}

static const struct eligibility_view *expect_answer(bool schedulable)
{
    world_expect_status(&rig_world, 200);
    const struct eligibility_view *view = world_answer(&rig_world)->body;
    cr_assert_eq(view->schedulable, schedulable);
    return view;
}

static const struct agent *agent_of(const char *agent_id)
{
    return cluster_agent(&rig_world.cluster, agent_id);
}

static size_t owned(const char *agent_id)
{
    return world_count_owned(&rig_world, "j1", agent_id);
}

/* ---- the request */

Test(cordon, says_who_when_and_why_and_repeats_nothing)
{
    set("a1", false, "a disk");
    const struct eligibility_view *view = expect_answer(false);
    cr_assert_str_eq(view->reason, "a disk");
    cr_assert_str_eq(view->actor, WORLD_ACTOR);
    cr_assert_eq(view->changed_at, rig_world.now_at);
    int64_t at = rig_world.now_at;
    cr_assert_eq(world_count_events(&rig_world, "agent_cordoned"), 1);
    world_pass(&rig_world, 5000);
    set("a1", false, "a disk");
    cr_assert_eq(expect_answer(false)->changed_at, at);
    cr_assert_eq(rig_world.update.changes.count, 0);
    set("a1", false, "two disks");
    cr_assert_str_eq(expect_answer(false)->reason, "two disks");
    cr_assert_eq(world_count_events(&rig_world, "agent_cordoned"), 1);
    set("a1", true, NULL);
    cr_assert_null(expect_answer(true)->reason);
    cr_assert_eq(world_count_events(&rig_world, "agent_uncordoned"), 1);
    set("a1", true, NULL);
    expect_answer(true);
    cr_assert_eq(rig_world.update.changes.count, 0);
    cr_assert_eq(owned("a1"), 4);
}

Test(cordon, of_an_unknown_agent_is_refused)
{
    set("nobody", false, NULL);
    world_expect_problem(&rig_world, "agent_not_found");
}

Test(cordon, of_who_was_never_asked_about_is_open_since_never)
{
    cr_assert_not(agent_of("a1")->row.eligibility.cordoned);
    cr_assert_eq(agent_of("a1")->row.eligibility.changed_at, API_UNKNOWN);
}

Test(cordon, outlives_starts_of_agent_and_coordinator)
{
    world_register(&rig_world, "a2", 2);
    set("a2", false, "a disk");
    world_register(&rig_world, "a2", 2); /* the same start again */
    cr_assert(agent_of("a2")->row.eligibility.cordoned);
    world_pass(&rig_world, 3000);
    world_register(&rig_world, "a2", 3);
    cr_assert(agent_of("a2")->row.eligibility.cordoned);
    world_restart(&rig_world);
    cr_assert(agent_of("a2")->row.eligibility.cordoned);
    cr_assert_str_eq(agent_of("a2")->row.eligibility.reason, "a disk");
    world_pass_reporting(&rig_world, 20000, rig_both);
    cr_assert_eq(owned("a2"), 0);
    world_deregister(&rig_world, "a2", 3);
    world_forget(&rig_world, "a2");
    world_register(&rig_world, "a2", 4);
    cr_assert_not(agent_of("a2")->row.eligibility.cordoned, "a forgotten agent is another one");
}

/* ---- what it receives */

Test(cordon, newcomer_gets_nothing_until_it_is_uncordoned)
{
    world_register(&rig_world, "a2", 2);
    set("a2", false, NULL);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
    world_pass_reporting(&rig_world, 20000, rig_both);
    cr_assert_eq(owned("a1"), 4);
    set("a2", true, NULL);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a2"), 2, "it is a newcomer still");
}

Test(cordon, who_owns_a_part_is_owed_the_rest_afterwards)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_JOB_PUT, "j1");
    schema_copy(&schema_job_spec, &event.spec, &cluster_job(&rig_world.cluster, "j1")->row.spec);
    event.spec.max_learners = 1;
    world_step(&rig_world, event);
    world_register(&rig_world, "a2", 2);
    cr_assert_eq(rig_world.cluster.handoffs.count, 1);
    while (owned("a2") == 0) {
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    }
    set("a2", false, NULL);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a2"), 1);
    set("a2", true, NULL);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a2"), 2);
}

Test(cordon, who_owns_something_and_is_owed_nothing_gets_nothing_afterwards)
{
    world_register(&rig_world, "a2", 2);
    world_calm_down(&rig_world, rig_both);
    for (uint32_t i = 0; owned("a2") > 1; i++) {
        rig_move(i, "a1");
        world_calm_down(&rig_world, rig_both);
    }
    set("a2", false, NULL);
    set("a2", true, NULL);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a2"), 1);
}

Test(cordon, moves_to_it_are_refused_and_other_targets_found)
{
    rig_add_established();
    set("a2", false, NULL);
    rig_move(0, "a2");
    const struct problem_body *problem = world_expect_problem(&rig_world, "move_refused");
    cr_assert_not_null(strstr(problem->detail, "cordoned"), "%s", problem->detail);
    rig_move(0, NULL);
    world_expect_problem(&rig_world, "move_refused");
    set("a2", true, NULL);
    rig_move(0, NULL);
    world_expect_status(&rig_world, 202);
}

Test(cordon, failover_goes_past_it_even_where_the_state_is)
{
    world_register(&rig_world, "a2", 2);
    world_register(&rig_world, "a3", 3);
    world_calm_down(&rig_world, rig_three);
    rig_rebalance();
    world_calm_down(&rig_world, rig_three);
    set("a2", false, NULL);
    size_t before = owned("a2");
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + GRACE_MS + 1000, rig_a2_a3);
    world_calm_down(&rig_world, rig_a2_a3);
    cr_assert_eq(owned("a1"), 0);
    cr_assert_eq(owned("a2"), before);
    cr_assert_eq(owned("a3"), 4 - before);
}

Test(cordon, without_anybody_else_processors_wait_and_say_so)
{
    world_register(&rig_world, "a2", 2);
    set("a2", false, NULL);
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + 1000, rig_a2);
    world_forget(&rig_world, "a1");
    world_expect_status(&rig_world, 204);
    cr_assert_null(rig_placement(0)->agent);
    cr_assert_str_eq(rig_placement(0)->reason,
                     "no owner; 1 agents are alive and all are cordoned or drained");
    world_register(&rig_world, "a3", 3);
    cr_assert_eq(owned("a3"), 4);
    world_pass_reporting(&rig_world, 1000, rig_a2_a3);
    set("a2", true, NULL);
    world_calm_down(&rig_world, rig_a2_a3);
    cr_assert_eq(owned("a2"), 2);
}

/* ---- hand-overs towards it, in every state */

static void cordon_target_in(enum handoff_state state, bool survives)
{
    rig_bring_to(state);
    uint64_t operation = rig_handoff(0)->row.operation;
    set("a2", false, "a disk");
    expect_answer(false);
    if (survives) {
        rig_expect_state(0, state);
        world_calm_down(&rig_world, rig_both);
        cr_assert_str_eq(rig_placement(0)->agent, "a2");
        cr_assert_eq(rig_operation(operation)->state, OPERATION_STATE_SUCCEEDED);
        return;
    }
    cr_assert_null(rig_handoff(0));
    cr_assert_eq(world_count_events(&rig_world, "handoff_cancelled"), 1);
    cr_assert_str_eq(rig_placement(0)->agent, "a1");
    cr_assert_eq(rig_operation(operation)->state, OPERATION_STATE_FAILED);
    cr_assert_not_null(strstr(rig_operation(operation)->error, "cordoned"));
    rig_expect_no_task("a2");
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a1"), 4);
}

Test(cordon, of_a_target_while_it_learns)
{
    cordon_target_in(HANDOFF_STATE_LEARNING, false);
}

Test(cordon, of_a_target_that_has_caught_up)
{
    cordon_target_in(HANDOFF_STATE_CAUGHT_UP, false);
}

Test(cordon, of_a_target_whose_source_stops)
{
    cordon_target_in(HANDOFF_STATE_RELEASING, true);
}

Test(cordon, of_a_target_that_owns_it)
{
    cordon_target_in(HANDOFF_STATE_RELEASED, true);
}

Test(cordon, of_a_target_that_begins)
{
    cordon_target_in(HANDOFF_STATE_ACTIVATING, true);
}

Test(cordon, of_a_target_whose_move_waits_in_the_queue)
{
    rig_add_established();
    world_register(&rig_world, "a3", 3);
    rig_move(0, "a3");
    uint64_t first = rig_world.cluster.meta.operation_id;
    world_report(&rig_world, "a3", TASK_STATE_ACTIVE);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    rig_expect_state(0, HANDOFF_STATE_RELEASED);
    cr_assert_eq(rig_operation(first)->state, OPERATION_STATE_RUNNING);
    set("a3", false, NULL);
    world_calm_down(&rig_world, rig_three);
    cr_assert_str_eq(rig_placement(0)->agent, "a3");
    cr_assert_eq(rig_operation(first)->state, OPERATION_STATE_SUCCEEDED);
}

/* The source keeps giving: a cordon is about receiving. */
Test(cordon, of_a_source_changes_nothing)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    set("a1", false, NULL);
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    world_calm_down(&rig_world, rig_both);
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
    cr_assert_eq(owned("a1"), 3);
}
