/* Learners and targets that fail: for reasons that pass, and for such that do not (D3.6). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(handoff_refusal, .init = rig_setup, .fini = rig_teardown);

static size_t count_handoffs(void)
{
    return rig_world.cluster.handoffs.count;
}

static const struct arrival_row *arrival(const char *agent_id)
{
    return cluster_arrival(cluster_job(&rig_world.cluster, "j1"), agent_id);
}

/* Time passes, a1 works and a2 fails. */
static void pass_failing(int64_t ms, const char *code)
{
    for (int64_t passed = 0; passed < ms; passed += 500) {
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
        rig_fail("a2", code);
        world_pass(&rig_world, 500);
    }
}

static void add_newcomer(void)
{
    world_register(&rig_world, "a2", 2);
    cr_assert_eq(count_handoffs(), 2);
}

/* ---- which causes */

Test(handoff_refusal, what_can_not_come_back_is_hopeless)
{
    static const char *const hopeless[] = {"history_incomplete", "history_lost", "topic_recreated",
                                           "topic_truncated"};
    static const char *const passing[] = {NULL,
                                          "",
                                          "store_failed",
                                          "kafka_unreachable",
                                          "topic_missing",
                                          "logic_missing",
                                          "logic_crashed",
                                          "of_a_newer_agent"};
    for (size_t i = 0; i < sizeof(hopeless) / sizeof(hopeless[0]); i++)
        cr_assert(handoff_is_hopeless(hopeless[i]), "%s", hopeless[i]);
    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
        cr_assert_not(handoff_is_hopeless(passing[i]), "%zu", i);
}

/* ---- causes that do not pass */

Test(handoff_refusal, newcomer_without_history_is_not_asked_again_until_it_starts_anew)
{
    add_newcomer();
    uint64_t epoch = rig_world.cluster.meta.epoch;
    rig_fail("a2", "history_incomplete");
    cr_assert_eq(count_handoffs(), 0);
    cr_assert_eq(rig_world.cluster.meta.epoch, epoch, "the owner does not notice");
    cr_assert_not(arrival("a2")->open);
    cr_assert_str_eq(arrival("a2")->refused, "history_incomplete");
    cr_assert_str_eq(arrival("a2")->refused_detail, "orders 3 starts at 17");
    cr_assert_eq(arrival("a2")->refused_at, rig_world.now_at);
    world_pass_reporting(&rig_world, 3600000, rig_both);
    cr_assert_eq(count_handoffs(), 0);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
    world_restart(&rig_world);
    cr_assert_str_eq(arrival("a2")->refused, "history_incomplete", "a restart does not forget it");
    world_pass_reporting(&rig_world, 3000, rig_both);
    cr_assert_eq(count_handoffs(), 0);
    world_pass_reporting(&rig_world, 3000, rig_a1);
    world_register(&rig_world, "a2", 3);
    cr_assert_eq(count_handoffs(), 2);
    cr_assert_null(arrival("a2")->refused);
}

Test(handoff_refusal, rebalance_asks_again_at_once_and_says_how_it_went)
{
    add_newcomer();
    rig_fail("a2", "history_incomplete");
    for (int mended = 0; mended < 2; mended++) {
        rig_rebalance();
        world_expect_status(&rig_world, 202);
        cr_assert_eq(count_handoffs(), 2);
        cr_assert_null(arrival("a2")->refused);
        const struct operation_row *row = rig_operation(rig_world.cluster.meta.operation_id);
        if (mended)
            world_calm_down(&rig_world, rig_both);
        else
            rig_fail("a2", "history_incomplete");
        world_pass_reporting(&rig_world, 1000, rig_both);
        cr_assert_eq(row->state, mended ? OPERATION_STATE_SUCCEEDED : OPERATION_STATE_FAILED);
        if (!mended)
            cr_assert_not_null(strstr(row->error, "history_incomplete: orders 3 starts at 17"));
    }
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

Test(handoff_refusal, change_of_the_job_asks_again)
{
    add_newcomer();
    rig_fail("a2", "history_incomplete");
    struct job_spec spec;
    schema_copy(&schema_job_spec, &spec, &cluster_job(&rig_world.cluster, "j1")->row.spec);
    spec.history = HISTORY_RETAINED;
    world_put(&rig_world, "j1", spec);
    world_reply_all_well(&rig_world);
    cr_assert_eq(count_handoffs(), 2);
    cr_assert_null(arrival("a2")->refused);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

/* ---- causes that pass */

Test(handoff_refusal, learner_that_fails_for_a_while_goes_on_by_itself)
{
    static const char *const codes[] = {"store_failed", "kafka_unreachable", "logic_missing", NULL};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        rig_teardown();
        rig_setup();
        add_newcomer();
        uint64_t id = rig_world.cluster.handoffs.items[0]->row.id;
        pass_failing(120000, codes[i]);
        cr_assert_eq(count_handoffs(), 2);
        cr_assert_eq(rig_world.cluster.handoffs.items[0]->row.id, id, "the same one");
        cr_assert(arrival("a2")->open);
        cr_assert_null(arrival("a2")->refused);
        world_calm_down(&rig_world, rig_both);
        cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    }
}

Test(handoff_refusal, learner_that_works_in_between_is_not_given_up)
{
    add_newcomer();
    for (int i = 0; i < 4; i++) {
        pass_failing(200000, "kafka_unreachable");
        world_report(&rig_world, "a2", TASK_STATE_LEARNING);
    }
    cr_assert_eq(world_count_traced(&rig_world, "handoff_cancelled"), 0);
}

Test(handoff_refusal, learner_that_opens_again_and_again_is_given_up)
{
    add_newcomer();
    for (int i = 0; i < 620 && count_handoffs() == 2; i++) {
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
        rig_fail("a2", "store_failed");
        world_report(&rig_world, "a2", TASK_STATE_OPENING);
        world_pass(&rig_world, 500);
    }
    cr_assert_eq(count_handoffs(), 0);
}

/* When hand-overs of processor 0 began, in seconds since the first. */
static size_t begin_again_and_again(const char *code, int64_t *times, size_t count)
{
    uint64_t last = 0;
    size_t found = 0;
    int64_t first_ms = rig_world.now_ms;
    for (int i = 0; i < 20000 && found < count; i++) {
        const struct handoff *handoff = rig_handoff(0) != NULL ? rig_handoff(0)
                                        : count_handoffs() > 0 ? rig_world.cluster.handoffs.items[0]
                                                               : NULL;
        if (handoff != NULL && handoff->row.id > last) {
            times[found++] = (rig_world.now_ms - first_ms) / 1000;
            last = rig_world.cluster.meta.handoff_id;
        }
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
        rig_fail("a2", code);
        world_pass(&rig_world, 500);
    }
    return found;
}

Test(handoff_refusal, learner_that_fails_for_long_is_tried_again_ever_later)
{
    int64_t times[5];
    add_newcomer();
    cr_assert_eq(begin_again_and_again("kafka_unreachable", times, 5), 5);
    /* Five minutes of patience, then a pause of 10 s, 20 s, ... */
    int64_t pause_s = 10;
    for (size_t i = 1; i < 5; i++, pause_s *= 2) {
        cr_assert_geq(times[i] - times[i - 1], 300 + pause_s - 1, "%zu", i);
        cr_assert_leq(times[i] - times[i - 1], 300 + pause_s + 2, "%zu", i);
    }
    cr_assert(arrival("a2")->open, "it is owed its share all the same");
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

Test(handoff_refusal, rebalance_does_not_wait_for_the_pause)
{
    add_newcomer();
    pass_failing(302000, "kafka_unreachable");
    cr_assert_eq(count_handoffs(), 0);
    rig_rebalance();
    cr_assert_eq(count_handoffs(), 2);
}

Test(handoff_refusal, learner_that_fails_while_the_source_stops_gives_back)
{
    rig_bring_to(HANDOFF_STATE_RELEASING);
    uint64_t epoch = rig_placement(0)->epoch;
    rig_fail("a2", "store_failed");
    cr_assert_null(rig_handoff(0));
    cr_assert_str_eq(rig_placement(0)->agent, "a1");
    cr_assert_gt(rig_placement(0)->epoch, epoch);
}

Test(handoff_refusal, learner_that_fails_after_it_had_caught_up_is_not_waited_for_by_the_source)
{
    rig_bring_to(HANDOFF_STATE_CAUGHT_UP);
    rig_fail("a2", "store_failed");
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    world_calm_down(&rig_world, rig_both);
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
}

/* ---- targets that own it already */

Test(handoff_refusal, target_without_history_gives_back_and_is_not_asked_again)
{
    add_newcomer();
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    const struct handoff *handoff = rig_world.cluster.handoffs.items[0];
    cr_assert_eq(handoff->row.state, HANDOFF_STATE_RELEASED);
    const struct processor *moving = rig_processor(handoff->row.processor);
    uint64_t epoch = moving->placement.epoch;
    rig_fail("a2", "history_incomplete"); /* its replay came out short */
    cr_assert_str_eq(moving->placement.agent, "a1");
    cr_assert_gt(moving->placement.epoch, epoch);
    cr_assert_str_eq(arrival("a2")->refused, "history_incomplete");
    world_calm_down(&rig_world, rig_both);
    world_pass_reporting(&rig_world, 600000, rig_both);
    cr_assert_eq(count_handoffs(), 0);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
}

Test(handoff_refusal, target_that_fails_for_a_while_is_not_tried_again_at_once)
{
    rig_bring_to(HANDOFF_STATE_ACTIVATING);
    rig_fail("a2", "store_failed");
    cr_assert_null(rig_handoff(0));
    cr_assert_str_eq(rig_placement(0)->agent, "a1");
    cr_assert_geq(rig_processor(0)->handoff_retry_ms, rig_world.now_ms + 10000);
    cr_assert_null(arrival("a2")->refused);
}

/* a1 is lost for good, a2 takes over and has nothing to rebuild the states from. */
static void lose_the_owner(void)
{
    rig_add_established();
    while (world_count_owned(&rig_world, "j1", "a2") < 4) {
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        world_pass(&rig_world, 500);
    }
    rig_fail("a2", "history_incomplete");
    for (uint32_t i = 0; i < 4; i++) {
        rig_expect_state(i, HANDOFF_STATE_ACTIVATING);
        cr_assert_str_eq(rig_placement(i)->agent, "a2");
        cr_assert_str_eq(rig_placement(i)->trouble, "history_incomplete");
    }
    for (int i = 0; i < 1000; i++) {
        rig_fail("a2", "history_incomplete");
        world_pass(&rig_world, 500);
    }
    cr_assert_eq(count_handoffs(), 4, "it waits for who has the state");
    cr_assert_eq(world_count_traced(&rig_world, "processor_failed"), 4, "said once");
}

Test(handoff_refusal, owner_that_returns_with_the_state_gets_it_back)
{
    for (int restarted = 0; restarted < 2; restarted++) {
        rig_teardown();
        rig_setup();
        lose_the_owner();
        uint64_t epoch = rig_world.cluster.meta.epoch;
        if (restarted)
            world_register(&rig_world, "a1", 7);
        else
            world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
        cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4, "%d", restarted);
        cr_assert_gt(rig_placement(0)->epoch, epoch);
        world_calm_down(&rig_world, rig_both);
        cr_assert_eq(count_handoffs(), 0);
        for (uint32_t i = 0; i < 4; i++) {
            cr_assert_str_eq(rig_placement(i)->agent, "a1");
            cr_assert(rig_placement(i)->activated);
            cr_assert_null(rig_placement(i)->trouble);
        }
    }
}

Test(handoff_refusal, owner_that_returns_without_the_state_does_not_make_it_go_round)
{
    lose_the_owner();
    world_register(&rig_world, "a1", 7);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
    uint64_t epoch = rig_world.cluster.meta.epoch;
    for (int i = 0; i < 2000; i++) {
        rig_fail("a1", "history_incomplete");
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        world_pass(&rig_world, 500);
    }
    cr_assert_leq(rig_world.cluster.meta.epoch, epoch + 4);
    cr_assert_str_eq(rig_placement(0)->trouble, "history_incomplete");
}

Test(handoff_refusal, new_owner_goes_on_when_the_operator_declares_its_history_enough)
{
    lose_the_owner();
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_eq(count_handoffs(), 0);
    cr_assert(rig_placement(3)->activated);
    cr_assert_null(rig_placement(3)->trouble);
}
