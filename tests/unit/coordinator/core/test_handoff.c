/* Hand-overs: their states, who moves them and who does not. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(handoff, .init = rig_setup, .fini = rig_teardown);

/* ---- the table */

Test(handoff, table_is_the_drawing)
{
    static const struct {
        enum handoff_state from;
        enum handoff_state to[5];
        size_t count;
    } rows[] = {
        {HANDOFF_STATE_LEARNING,
         {HANDOFF_STATE_CAUGHT_UP, HANDOFF_STATE_RELEASED, HANDOFF_STATE_CANCELLED},
         3},
        {HANDOFF_STATE_CAUGHT_UP,
         {HANDOFF_STATE_LEARNING, HANDOFF_STATE_RELEASING, HANDOFF_STATE_RELEASED,
          HANDOFF_STATE_CANCELLED},
         4},
        {HANDOFF_STATE_RELEASING, {HANDOFF_STATE_RELEASED, HANDOFF_STATE_CANCELLED}, 2},
        {HANDOFF_STATE_RELEASED, {HANDOFF_STATE_ACTIVATING, HANDOFF_STATE_FAILED}, 2},
        {HANDOFF_STATE_ACTIVATING,
         {HANDOFF_STATE_RELEASED, HANDOFF_STATE_DONE, HANDOFF_STATE_FAILED},
         3},
        {HANDOFF_STATE_DONE, {0}, 0},
        {HANDOFF_STATE_CANCELLED, {0}, 0},
        {HANDOFF_STATE_FAILED, {0}, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fsm fsm;
        fsm_init(&fsm, &handoff_table, (int)rows[i].from, 1);
        uint32_t allowed = 0, expected = 0;
        for (int next = 0; next < handoff_table.state_count; next++)
            allowed |= fsm_allows(&fsm, next) ? FSM_BIT(next) : 0;
        for (size_t n = 0; n < rows[i].count; n++)
            expected |= FSM_BIT(rows[i].to[n]);
        cr_assert_eq(allowed, expected, "from %s", handoff_table.states[i].name);
        cr_assert_eq(handoff_ended(rows[i].from), rows[i].count == 0);
        cr_assert_str_eq(handoff_table.states[i].name, schema_names_handoff_state[i]);
    }
}

/* ---- all goes well */

Test(handoff, goes_through_its_states_with_what_each_end_is_told)
{
    uint64_t epoch = rig_placement(0)->epoch;
    rig_bring_to(HANDOFF_STATE_LEARNING);
    rig_expect_task("a1", TASK_ROLE_ACTIVE, epoch, false);
    rig_expect_task("a2", TASK_ROLE_LEARNER, 0, false);
    struct document_version of_source =
        cluster_document_version(&rig_world.cluster, cluster_agent(&rig_world.cluster, "a1"));
    world_report(&rig_world, "a2", TASK_STATE_LEARNING);
    cr_assert_eq(rig_world.update.changes.count, 0, "learning is an observation");
    cr_assert_eq(cluster_compare_versions(
                     of_source, cluster_document_version(&rig_world.cluster,
                                                         cluster_agent(&rig_world.cluster, "a1"))),
                 0, "the source hears nothing of it");

    world_pass(&rig_world, 700);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    rig_expect_state(0, HANDOFF_STATE_RELEASING);
    cr_assert_eq(world_count_events(&rig_world, "handoff_caught_up"), 1);
    cr_assert_eq(world_count_events(&rig_world, "handoff_releasing"), 1);
    cr_assert_eq(rig_placement(0)->epoch, epoch);
    cr_assert_str_eq(rig_placement(0)->agent, "a1");
    rig_expect_task("a1", TASK_ROLE_ACTIVE, epoch, true);
    rig_expect_task("a2", TASK_ROLE_LEARNER, 0, false);

    world_pass(&rig_world, 30);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    rig_expect_state(0, HANDOFF_STATE_RELEASED);
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
    cr_assert_gt(rig_placement(0)->epoch, epoch);
    cr_assert_eq(rig_placement(0)->handoff, rig_handoff(0)->row.id);
    rig_expect_no_task("a1");
    rig_expect_task("a2", TASK_ROLE_ACTIVE, rig_placement(0)->epoch, false);

    world_pass(&rig_world, 5);
    world_report(&rig_world, "a2", TASK_STATE_OPENING);
    rig_expect_state(0, HANDOFF_STATE_ACTIVATING);
    world_pass(&rig_world, 15);
    struct handoff_row row = {0};
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < rig_world.update.changes.count; i++)
        if (rig_world.update.changes.items[i].kind == CHANGE_HANDOFF)
            row = rig_world.update.changes.items[i].handoff;
    cr_assert_eq(row.state, HANDOFF_STATE_DONE);
    cr_assert_null(rig_handoff(0));
    cr_assert(rig_placement(0)->activated);
    cr_assert_eq(row.spent_ms[HANDOFF_STATE_LEARNING], 700);
    cr_assert_eq(row.spent_ms[HANDOFF_STATE_CAUGHT_UP], 0);
    cr_assert_eq(row.spent_ms[HANDOFF_STATE_RELEASING], 30);
    cr_assert_eq(row.spent_ms[HANDOFF_STATE_RELEASED], 5);
    cr_assert_eq(row.spent_ms[HANDOFF_STATE_ACTIVATING], 15);
    cr_assert_eq(row.output_gap_ms, 50);
    cr_assert_not(row.forced);
    cr_assert_eq(row.partitions.count, 2);
    rig_expect_task("a2", TASK_ROLE_ACTIVE, rig_placement(0)->epoch, false);
    cr_assert_eq(rig_operation(rig_world.cluster.meta.operation_id)->state,
                 OPERATION_STATE_SUCCEEDED);
}

Test(handoff, document_of_the_owner_stays_as_it_is_when_the_hand_over_ends)
{
    rig_bring_to(HANDOFF_STATE_ACTIVATING);
    struct document_version before =
        cluster_document_version(&rig_world.cluster, cluster_agent(&rig_world.cluster, "a2"));
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_null(rig_handoff(0));
    cr_assert_eq(cluster_compare_versions(
                     before, cluster_document_version(&rig_world.cluster,
                                                      cluster_agent(&rig_world.cluster, "a2"))),
                 0);
}

Test(handoff, of_a_job_without_state_skips_learning)
{
    world_delete(&rig_world, "j1");
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_reply_all_well(&rig_world);
    struct job_spec spec = world_spec("j1");
    spec.stateful = false;
    world_create_spec(&rig_world, "j1", spec);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_register(&rig_world, "a2", 2);
    cr_assert_eq(rig_world.cluster.handoffs.count, 2);
    rig_expect_state(0, HANDOFF_STATE_RELEASING);
    rig_expect_no_task("a2");
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    cr_assert_eq(world_count_traced(&rig_world, "handoff_done"), 2);
}

Test(handoff, survives_a_restart_in_every_state)
{
    for (int state = 0; state < HANDOFF_PHASES; state++) {
        rig_teardown();
        rig_setup();
        rig_bring_to((enum handoff_state)state);
        uint64_t id = rig_handoff(0)->row.id;
        world_pass(&rig_world, 300);
        world_restart(&rig_world);
        rig_expect_state(0, (enum handoff_state)state);
        cr_assert_eq(rig_handoff(0)->row.id, id);
        world_calm_down(&rig_world, rig_both);
        cr_assert_str_eq(rig_placement(0)->agent, "a2", "state %d", state);
        cr_assert(rig_placement(0)->activated);
    }
}

/* ---- only what matches counts */

Test(handoff, only_a_matching_learner_is_caught_up)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    for (int spoiled = 0; spoiled < 5; spoiled++) {
        struct agent_report report = world_report_of(&rig_world, "a2", TASK_STATE_ACTIVE);
        struct task_report *task = &report.tasks.items[0];
        if (spoiled == 0)
            task->handoff++;
        else if (spoiled == 1)
            task->handoff = 0;
        else if (spoiled == 2)
            task->epoch = 7;
        else if (spoiled == 3)
            task->role = TASK_ROLE_STANDBY;
        else
            task->job_incarnation[0] = 'f';
        world_send_report(&rig_world, "a2", report);
        cr_assert_eq(rig_world.update.changes.count, 0, "spoiled %d", spoiled);
        rig_expect_state(0, HANDOFF_STATE_LEARNING);
    }
}

Test(handoff, only_a_matching_release_counts)
{
    rig_bring_to(HANDOFF_STATE_RELEASING);
    uint64_t epoch = rig_placement(0)->epoch;
    for (int spoiled = 0; spoiled < 6; spoiled++) {
        struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
        struct task_report *task = &report.tasks.items[0];
        if (spoiled == 0)
            task->handoff++;
        else if (spoiled == 1)
            task->epoch--;
        else if (spoiled == 2)
            task->released = false; /* the end of its commit is not known */
        else if (spoiled == 3)
            task->role = TASK_ROLE_LEARNER;
        else if (spoiled == 4)
            task->job_incarnation[0] = 'f';
        if (spoiled == 5) { /* it says so and goes on */
            task->consuming.items = mem_calloc(1, sizeof(uint32_t));
            task->consuming.count = 1;
        }
        world_send_report(&rig_world, "a1", report);
        rig_expect_state(0, HANDOFF_STATE_RELEASING);
        cr_assert_eq(rig_placement(0)->epoch, epoch, "spoiled %d", spoiled);
    }
    /* Nor another agent's word for it. */
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    free(report.incarnation);
    report.incarnation = mem_strdup(cluster_agent(&rig_world.cluster, "a2")->row.incarnation);
    world_send_report(&rig_world, "a2", report);
    rig_expect_state(0, HANDOFF_STATE_RELEASING);
}

Test(handoff, released_before_it_was_asked_for_is_an_observation)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    report.tasks.items[0].released = true;
    report.tasks.items[0].handoff = rig_handoff(0)->row.id;
    world_send_report(&rig_world, "a1", report);
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
}

Test(handoff, learner_that_falls_behind_learns_again)
{
    rig_bring_to(HANDOFF_STATE_CAUGHT_UP);
    rig_expect_state(0, HANDOFF_STATE_CAUGHT_UP);
    world_report(&rig_world, "a2", TASK_STATE_LEARNING);
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    rig_expect_state(0, HANDOFF_STATE_CAUGHT_UP);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    rig_expect_state(0, HANDOFF_STATE_RELEASING);
}

/* ---- following */

static const struct report_answer *answer_of_report(const char *agent_id)
{
    world_report(&rig_world, agent_id, TASK_STATE_LEARNING);
    return world_answer(&rig_world)->body;
}

Test(handoff, learner_follows_one_fresh_vector_of_the_owner)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    struct task_report *task = &report.tasks.items[0];
    task->progress.items = mem_calloc(3, sizeof(struct partition_progress));
    task->progress.count = 3;
    task->progress.items[0] = (struct partition_progress){.partition = 0, .t1 = 40, .t2 = 45};
    task->progress.items[1] = (struct partition_progress){.partition = 4, .t1 = API_UNKNOWN};
    task->progress.items[2] =
        (struct partition_progress){.partition = 1, .t1 = 9}; /* not its own */
    world_send_report(&rig_world, "a1", report);
    cr_assert_eq(((const struct report_answer *)world_answer(&rig_world)->body)->follow.count, 0,
                 "the owner follows nobody");
    const struct report_answer *answer = answer_of_report("a2");
    cr_assert_eq(answer->follow.count, 1);
    cr_assert_str_eq(answer->follow.items[0].job, "j1");
    cr_assert_eq(answer->follow.items[0].processor, 0);
    cr_assert_eq(answer->follow.items[0].committed.count, 1, "what is not known is left out");
    cr_assert_eq(answer->follow.items[0].committed.items[0].partition, 0);
    cr_assert_eq(answer->follow.items[0].committed.items[0].offset, 40);
    world_pass(&rig_world, CLUSTER_FOLLOW_MS);
    cr_assert_eq(answer_of_report("a2")->follow.count, 1);
    world_pass(&rig_world, 1);
    cr_assert_eq(answer_of_report("a2")->follow.count, 0, "what is old is not said again");
}

/* With an older one a learner that has learned nothing could be caught up. */
Test(handoff, nothing_is_followed_from_before_the_hand_over)
{
    rig_add_established();
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_pass(&rig_world, 1);
    rig_move(0, "a2");
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    cr_assert_eq(answer_of_report("a2")->follow.count, 0);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(answer_of_report("a2")->follow.count, 1);
}

Test(handoff, nothing_is_followed_under_another_epoch)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    report.tasks.items[0].epoch--;
    world_send_report(&rig_world, "a1", report);
    cr_assert_eq(answer_of_report("a2")->follow.count, 0);
}
