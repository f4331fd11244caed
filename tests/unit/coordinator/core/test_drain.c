/* Drains: agents that are to leave, from the request to their end. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(drain, .init = rig_setup, .fini = rig_teardown);

#define MINUTE_MS INT64_C(60000)

static void ask(const char *agent_id, int64_t deadline_ms, enum drain_deadline on_deadline,
                bool until_restart)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_DRAIN, agent_id);
    event.drain = (struct drain_request){.deadline_ms = deadline_ms,
                                         .on_deadline = on_deadline,
                                         .until_restart = until_restart,
                                         .reason = mem_strdup("it is replaced")};
    world_step(&rig_world, event);
}

static void drain(const char *agent_id)
{
    ask(agent_id, API_UNKNOWN, DRAIN_DEADLINE_FORCE, false);
}

static const struct drain_view *expect_answer(uint32_t status, enum drain_state state)
{
    world_expect_status(&rig_world, status);
    const struct drain_view *view = world_answer(&rig_world)->body;
    cr_assert_eq(view->state, state);
    cr_assert_eq(view->safe_to_stop, state == DRAIN_STATE_DRAINED);
    return view;
}

static void cancel(const char *agent_id)
{
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_DRAIN_CANCEL, agent_id));
}

static const struct agent_drain *drain_of(const char *agent_id)
{
    return &cluster_agent(&rig_world.cluster, agent_id)->row.drain;
}

static size_t owned(const char *agent_id)
{
    return world_count_owned(&rig_world, "j1", agent_id);
}

/* a1 has all four, a2 is established and a3 is not there. */
static void expect_drained(const char *agent_id)
{
    cr_assert_eq(owned(agent_id), 0);
    cr_assert_eq(drain_of(agent_id)->state, DRAIN_STATE_DRAINED);
    cr_assert_eq(world_count_traced(&rig_world, "drain_done"), 1);
}

/* ---- the request */

Test(drain, of_an_unknown_agent_is_refused)
{
    drain("nobody");
    world_expect_problem(&rig_world, "agent_not_found");
    cancel("nobody");
    world_expect_problem(&rig_world, "agent_not_found");
    cancel("a1");
    world_expect_problem(&rig_world, "drain_not_found");
}

Test(drain, of_the_last_capable_agent_is_refused)
{
    drain("a1");
    world_expect_problem(&rig_world, "drain_refused");
    cr_assert_not(drain_of("a1")->asked);
    rig_add_established();
    drain("a2"); /* which has nothing */
    expect_answer(202, DRAIN_STATE_DRAINING);
    cr_assert_eq(drain_of("a2")->state, DRAIN_STATE_DRAINED);
    drain("a1");
    world_expect_problem(&rig_world, "drain_refused");
    cancel("a2");
    expect_answer(200, DRAIN_STATE_CANCELLED);
    drain("a1");
    expect_answer(202, DRAIN_STATE_DRAINING);
}

Test(drain, is_not_refused_because_of_what_is_learned_from_it_already)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration("a2", 2);
    event.registration.capacity = 1;
    world_step(&rig_world, event);
    cr_assert_eq(rig_world.cluster.handoffs.count, 1, "which is all that it has room for");
    drain("a1");
    expect_answer(202, DRAIN_STATE_DRAINING);
}

Test(drain, moves_all_to_an_established_agent_and_says_when_it_is_safe)
{
    rig_add_established();
    drain("a1");
    const struct drain_view *view = expect_answer(202, DRAIN_STATE_DRAINING);
    cr_assert_eq(view->processors, 4);
    cr_assert_eq(view->left.count, 4);
    cr_assert_str_eq(view->reason, "it is replaced");
    cr_assert_str_eq(view->actor, WORLD_ACTOR);
    cr_assert_eq(view->deadline_at, API_UNKNOWN);
    for (uint32_t i = 0; i < 4; i++)
        rig_expect_state(i, HANDOFF_STATE_LEARNING);
    world_calm_down(&rig_world, rig_both);
    expect_drained("a1");
    cr_assert_eq(owned("a2"), 4);
    drain("a1");
    view = expect_answer(200, DRAIN_STATE_DRAINED);
    cr_assert_eq(view->left.count, 0);
    cr_assert_eq(view->ended_at, drain_of("a1")->ended_at);
}

Test(drain, is_not_done_while_the_state_may_be_needed)
{
    rig_add_established();
    drain("a1");
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE); /* caught up: RELEASING */
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE); /* RELEASED */
    cr_assert_eq(owned("a1"), 0);
    cr_assert_eq(drain_of("a1")->state, DRAIN_STATE_DRAINING);
    world_calm_down(&rig_world, rig_both);
    expect_drained("a1");
}

Test(drain, is_not_done_while_a_processor_is_on_its_way_to_it)
{
    rig_add_established();
    rig_move(0, "a2");
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE); /* caught up */
    rig_expect_state(0, HANDOFF_STATE_RELEASING);
    drain("a2");
    const struct drain_view *view = expect_answer(202, DRAIN_STATE_DRAINING);
    cr_assert_eq(view->left.count, 1);
    world_calm_down(&rig_world, rig_both);
    expect_drained("a2");
    cr_assert_eq(owned("a1"), 4);
}

Test(drain, a_newcomer_gets_what_an_established_agent_does_not_need)
{
    rig_add_established();
    rig_move(0, "a2");
    world_calm_down(&rig_world, rig_both);
    rig_move(1, "a2");
    world_calm_down(&rig_world, rig_both);
    drain("a1");
    world_register(&rig_world, "a3", 3);
    world_calm_down(&rig_world, rig_three);
    expect_drained("a1");
    cr_assert_eq(owned("a2"), 2);
    cr_assert_eq(owned("a3"), 2);
}

Test(drain, a_drained_agent_receives_nothing_until_it_is_cancelled)
{
    rig_add_established();
    drain("a1");
    world_calm_down(&rig_world, rig_both);
    rig_move(0, "a1");
    const struct problem_body *problem = world_expect_problem(&rig_world, "move_refused");
    cr_assert_not_null(strstr(problem->detail, "drained"), "%s", problem->detail);
    rig_rebalance();
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a1"), 0);
    world_pass_reporting(&rig_world, 3000, rig_a2);
    world_register(&rig_world, "a1", 7); /* it starts anew */
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a1"), 0);
    cancel("a1");
    expect_answer(200, DRAIN_STATE_CANCELLED);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a1"), 2, "it is a newcomer");
}

Test(drain, until_restart_ends_with_the_next_start)
{
    rig_add_established();
    ask("a1", API_UNKNOWN, DRAIN_DEADLINE_FORCE, true);
    world_calm_down(&rig_world, rig_both);
    expect_drained("a1");
    world_register(&rig_world, "a1", 1); /* the same start again */
    cr_assert_eq(drain_of("a1")->state, DRAIN_STATE_DRAINED);
    world_pass_reporting(&rig_world, 3000, rig_a2);
    world_register(&rig_world, "a1", 7);
    cr_assert_eq(drain_of("a1")->state, DRAIN_STATE_CANCELLED);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a1"), 2);
}

Test(drain, goes_on_after_a_restart_of_the_coordinator)
{
    rig_add_established();
    ask("a1", MINUTE_MS, DRAIN_DEADLINE_CANCEL, false);
    world_restart(&rig_world);
    cr_assert_eq(drain_of("a1")->state, DRAIN_STATE_DRAINING);
    cr_assert_eq(drain_of("a1")->deadline_ms, MINUTE_MS);
    world_calm_down(&rig_world, rig_both);
    expect_drained("a1");
    world_pass_reporting(&rig_world, 2 * MINUTE_MS, rig_both);
    cr_assert_eq(drain_of("a1")->state, DRAIN_STATE_DRAINED, "its deadline is no more");
}

/* ---- the leaver, or its target, is lost */

Test(drain, a_leaver_that_stops_is_not_waited_for)
{
    rig_add_established();
    drain("a1");
    world_deregister(&rig_world, "a1", 1);
    cr_assert_eq(owned("a2"), 4, "no grace: it does not come back");
    world_calm_down(&rig_world, rig_a2);
    expect_drained("a1");
}

Test(drain, a_target_that_can_not_learn_is_followed_by_another)
{
    rig_add_established();
    world_register(&rig_world, "a3", 3);
    while (rig_world.cluster.handoffs.count > 0) {
        struct coord_event event = world_event(&rig_world, COORD_EVENT_HANDOFF_CANCEL, NULL);
        event.handoff = rig_world.cluster.handoffs.items[0]->row.id;
        world_step(&rig_world, event);
    }
    drain("a1");
    cr_assert_str_eq(rig_handoff(0)->row.target, "a2");
    cr_assert_str_eq(rig_handoff(1)->row.target, "a3");
    rig_fail("a2", "history_incomplete");
    cr_assert_null(rig_handoff(0));
    world_pass_reporting(&rig_world, 15000, rig_three);
    expect_drained("a1");
    cr_assert_eq(owned("a3"), 4);
}

Test(drain, that_nobody_can_take_over_from_waits_and_says_so)
{
    rig_add_established();
    drain("a1");
    rig_fail("a2", "history_incomplete");
    world_pass_reporting(&rig_world, 15000, rig_both);
    cr_assert_eq(owned("a1"), 4);
    cr_assert_not_null(rig_processor(0)->waits);
    cr_assert_not_null(strstr(rig_processor(0)->waits, "no agent can take it"), "%s",
                       rig_processor(0)->waits);
    world_register(&rig_world, "a3", 3);
    world_pass_reporting(&rig_world, 15000, rig_three);
    expect_drained("a1");
    cr_assert_eq(owned("a3"), 4);
}

/* ---- as the agent itself says */

static const struct report_answer *say_leaving(const char *agent_id, enum agent_leaving leaving,
                                               bool stopping)
{
    struct agent_report report = world_report_of(&rig_world, agent_id, TASK_STATE_ACTIVE);
    report.leaving = leaving;
    report.stopping = stopping;
    world_send_report(&rig_world, agent_id, report);
    return world_answer(&rig_world)->body;
}

Test(drain, an_agent_that_is_told_to_stop_asks_for_it)
{
    rig_add_established();
    cr_assert_not(say_leaving("a1", AGENT_LEAVING_DRAIN, false)->safe_to_stop);
    cr_assert(drain_of("a1")->until_restart);
    for (int i = 0; i < 8; i++) {
        say_leaving("a1", AGENT_LEAVING_DRAIN, false);
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    }
    cr_assert(say_leaving("a1", AGENT_LEAVING_DRAIN, false)->safe_to_stop);
    expect_drained("a1");
    cr_assert_eq(world_count_traced(&rig_world, "drain_requested"), 1);
    world_deregister(&rig_world, "a1", 1);
    world_pass_reporting(&rig_world, 3000, rig_a2);
    world_register(&rig_world, "a1", 7);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a1"), 2, "it is back");
}

Test(drain, an_agent_that_nobody_can_follow_is_told_so)
{
    const struct report_answer *answer = say_leaving("a1", AGENT_LEAVING_DRAIN, false);
    cr_assert(answer->drain_refused);
    cr_assert_not(answer->safe_to_stop);
    cr_assert_not(drain_of("a1")->asked);
}

Test(drain, a_release_is_not_waited_for)
{
    rig_add_established();
    say_leaving("a1", AGENT_LEAVING_RELEASE, true);
    world_deregister(&rig_world, "a1", 1);
    cr_assert_eq(owned("a2"), 4);
    world_calm_down(&rig_world, rig_a2);
    expect_drained("a1");
}

Test(drain, a_release_of_the_only_one_waits_for_it)
{
    say_leaving("a1", AGENT_LEAVING_RELEASE, true);
    world_deregister(&rig_world, "a1", 1);
    world_pass(&rig_world, 3000);
    world_register(&rig_world, "a1", 7);
    world_calm_down(&rig_world, rig_a1);
    cr_assert_eq(owned("a1"), 4);
    cr_assert(rig_placement(0)->activated);
}

/* ---- deadlines */

Test(drain, force_lets_the_learners_take_over_at_once)
{
    rig_add_established();
    ask("a1", MINUTE_MS, DRAIN_DEADLINE_FORCE, false);
    world_pass(&rig_world, 5000);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_report(&rig_world, "a2", TASK_STATE_LEARNING);
    for (int i = 0; i < 108; i++) {
        world_pass(&rig_world, 500);
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
        world_report(&rig_world, "a2", TASK_STATE_LEARNING);
    }
    cr_assert_eq(owned("a1"), 4, "the time is not over");
    world_pass(&rig_world, 2000);
    cr_assert_eq(owned("a2"), 4);
    cr_assert(drain_of("a1")->overdue);
    cr_assert_eq(world_count_traced(&rig_world, "drain_overdue"), 1);
    cr_assert_eq(world_count_traced(&rig_world, "handoff_forced"), 4);
    world_calm_down(&rig_world, rig_both);
    expect_drained("a1");
}

Test(drain, force_does_not_need_a_learner)
{
    rig_add_established();
    struct coord_event event = world_event(&rig_world, COORD_EVENT_JOB_PUT, "j1");
    schema_copy(&schema_job_spec, &event.spec, &cluster_job(&rig_world.cluster, "j1")->row.spec);
    event.spec.max_learners = 1;
    world_step(&rig_world, event);
    ask("a1", 1000, DRAIN_DEADLINE_FORCE, false);
    cr_assert_eq(rig_world.cluster.handoffs.count, 1);
    world_pass(&rig_world, 1500);
    cr_assert_eq(owned("a2"), 4);
    world_calm_down(&rig_world, rig_both);
    expect_drained("a1");
}

Test(drain, cancel_leaves_the_rest_where_it_is)
{
    rig_add_established();
    struct coord_event event = world_event(&rig_world, COORD_EVENT_JOB_PUT, "j1");
    schema_copy(&schema_job_spec, &event.spec, &cluster_job(&rig_world.cluster, "j1")->row.spec);
    event.spec.max_learners = 1;
    world_step(&rig_world, event);
    ask("a1", MINUTE_MS, DRAIN_DEADLINE_CANCEL, false);
    while (owned("a2") == 0) {
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    }
    for (int i = 0; i < 130; i++) {
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
        world_report(&rig_world, "a2", TASK_STATE_LEARNING);
        world_pass(&rig_world, 500);
    }
    cr_assert_eq(drain_of("a1")->state, DRAIN_STATE_CANCELLED);
    cr_assert_str_eq(drain_of("a1")->error, "its deadline has passed");
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a1"), 3);
    cr_assert_eq(owned("a2"), 1);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
}

Test(drain, a_deadline_passes_while_the_coordinator_is_away)
{
    rig_add_established();
    ask("a1", MINUTE_MS, DRAIN_DEADLINE_CANCEL, false);
    rig_world.now_ms += 2 * MINUTE_MS;
    rig_world.now_at += 2 * MINUTE_MS;
    world_restart(&rig_world);
    cr_assert_eq(drain_of("a1")->state, DRAIN_STATE_CANCELLED);
}

Test(drain, asked_again_its_time_goes_on_and_another_time_begins_anew)
{
    rig_add_established();
    ask("a1", MINUTE_MS, DRAIN_DEADLINE_CANCEL, false);
    int64_t deadline_at = drain_of("a1")->deadline_at;
    world_pass(&rig_world, 1000);
    ask("a1", MINUTE_MS, DRAIN_DEADLINE_CANCEL, false);
    cr_assert_eq(expect_answer(200, DRAIN_STATE_DRAINING)->deadline_at, deadline_at);
    cr_assert_eq(rig_world.update.changes.count, 0);
    ask("a1", 2 * MINUTE_MS, DRAIN_DEADLINE_CANCEL, false);
    cr_assert_eq(expect_answer(202, DRAIN_STATE_DRAINING)->deadline_at,
                 rig_world.now_at + 2 * MINUTE_MS);
    cr_assert_eq(world_count_events(&rig_world, "drain_changed"), 1);
}

/* ---- DELETE in every phase */

static void cancel_in(enum handoff_state state)
{
    rig_add_established();
    drain("a1");
    if (state == HANDOFF_STATE_CAUGHT_UP) /* which lasts only while the source is not active */
        world_report(&rig_world, "a1", TASK_STATE_REPLAYING);
    if (state >= HANDOFF_STATE_CAUGHT_UP)
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    if (state >= HANDOFF_STATE_RELEASED)
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    if (state >= HANDOFF_STATE_ACTIVATING)
        world_report(&rig_world, "a2", TASK_STATE_REPLAYING);
    rig_expect_state(0, state);
    cancel("a1");
    expect_answer(200, DRAIN_STATE_CANCELLED);
    size_t stays = handoff_before_release(state) ? 4 : 0;
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    if (stays > 0) {
        world_calm_down(&rig_world, rig_both);
        cr_assert_eq(rig_world.cluster.handoffs.count, 0);
        cr_assert_eq(owned("a1"), 4);
    } else {
        world_calm_down(&rig_world, rig_both);
        cr_assert_eq(owned("a1"), 2, "it has nothing, so it is a newcomer again");
    }
    cr_assert(rig_placement(0)->activated);
    cancel("a1");
    expect_answer(200, DRAIN_STATE_CANCELLED);
    cr_assert_eq(world_count_traced(&rig_world, "drain_cancelled"), 1);
}

Test(drain, cancelled_while_learning)
{
    cancel_in(HANDOFF_STATE_LEARNING);
}

Test(drain, cancelled_when_caught_up)
{
    cancel_in(HANDOFF_STATE_CAUGHT_UP);
}

Test(drain, cancelled_while_the_source_releases)
{
    cancel_in(HANDOFF_STATE_RELEASING);
}

Test(drain, cancelled_when_it_was_released)
{
    cancel_in(HANDOFF_STATE_RELEASED);
}

Test(drain, cancelled_while_the_target_activates)
{
    cancel_in(HANDOFF_STATE_ACTIVATING);
}

/* ---- a fleet */

Test(drain, of_the_old_half_moves_nothing_twice)
{
    world_register(&rig_world, "a2", 2);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(owned("a2"), 2);
    uint64_t before = rig_world.cluster.meta.handoff_id;
    static const char *const all[] = {"a1", "a2", "a3", "a4", NULL};
    world_register(&rig_world, "a3", 3);
    world_register(&rig_world, "a4", 4);
    drain("a1");
    drain("a2");
    world_calm_down(&rig_world, all);
    cr_assert_eq(drain_of("a1")->state, DRAIN_STATE_DRAINED);
    cr_assert_eq(drain_of("a2")->state, DRAIN_STATE_DRAINED);
    cr_assert_eq(owned("a3"), 2);
    cr_assert_eq(owned("a4"), 2);
    cr_assert_eq(rig_world.cluster.meta.handoff_id - before, 4);
}
