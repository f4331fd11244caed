/* Who is owed processors: agents that return, that waited, that restart; and where states are. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(arrival, .init = rig_setup, .fini = rig_teardown);

#define GRACE_MS 30000 /* rejoin_grace of world_spec */

/* a1 and a2 have two processors each. */
static void share(void)
{
    world_register(&rig_world, "a2", 2);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

/* a1 is not heard of until a2 has everything. */
static void lose_a1(void)
{
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + GRACE_MS + 1000, rig_a2);
    world_calm_down(&rig_world, rig_a2);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
}

/* As it is when everything is at this offset, T1 and T2. */
static void report_at(const char *agent_id, int64_t offset)
{
    struct agent_report report = world_report_of(&rig_world, agent_id, TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->progress.items = mem_calloc(1, sizeof(struct partition_progress));
        task->progress.count = 1;
        task->progress.items[0] =
            (struct partition_progress){.partition = task->processor, .t1 = offset, .t2 = offset};
    }
    world_send_report(&rig_world, agent_id, report);
}

static void owned_by(const char *agent_id, bool ret_owned[4])
{
    for (uint32_t i = 0; i < 4; i++)
        ret_owned[i] = strcmp(rig_placement(i)->agent, agent_id) == 0;
}

static size_t count_done(void)
{
    return world_count_traced(&rig_world, "handoff_done");
}

/* ---- who returns */

Test(arrival, returned_agent_gets_what_it_had_and_nothing_more_moves)
{
    bool before[4], after[4];
    share();
    owned_by("a1", before);
    report_at("a1", 100);
    lose_a1();
    report_at("a2", 120);
    size_t done = count_done();
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_calm_down(&rig_world, rig_both);
    owned_by("a1", after);
    cr_assert_arr_eq(before, after, sizeof(before), "its state of them is on its disk");
    cr_assert_eq(count_done(), done + 2);
    world_pass_reporting(&rig_world, 60000, rig_both);
    cr_assert_eq(count_done(), done + 2);
    cr_assert_not(cluster_arrival(cluster_job(&rig_world.cluster, "j1"), "a1")->open);
}

/* What is being taken over at that moment it can have back only later: it is owed it still. */
Test(arrival, agent_that_returns_during_the_take_over_gets_its_share)
{
    rig_add_established();
    while (rig_world.cluster.handoffs.count == 0) {
        world_poll(&rig_world, "a2", 2, (struct document_version){0}, 0);
        world_pass(&rig_world, 500);
    }
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
    world_report(&rig_world, "a1", TASK_STATE_CLOSED);
    cr_assert_eq(rig_world.cluster.handoffs.count, 4);
    cr_assert_eq(count_done(), 0, "a2 has taken nothing over yet");
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

/* Whoever gave it up takes it back at once; that is a take-over as after the grace. */
Test(arrival, target_that_was_lost_after_the_release_gets_its_share_when_it_returns)
{
    rig_bring_to(HANDOFF_STATE_ACTIVATING);
    cr_assert_not(cluster_arrival(cluster_job(&rig_world.cluster, "j1"), "a2")->open);
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS, rig_a1);
    world_calm_down(&rig_world, rig_a1);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

Test(arrival, agent_that_flaps_has_to_stay_longer_each_time)
{
    static const int64_t pauses_ms[] = {0, 30000, 60000, 120000};
    share();
    for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
        lose_a1();
        world_pass_reporting(&rig_world, 500, rig_both);
        cr_assert_eq(rig_world.cluster.handoffs.count > 0, pauses_ms[i] == 0, "return %zu", i);
        if (pauses_ms[i] > 0)
            world_pass_reporting(&rig_world, pauses_ms[i] - 2000, rig_both);
        if (pauses_ms[i] > 0)
            cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4, "return %zu", i);
        world_pass_reporting(&rig_world, 5000, rig_both);
        cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2, "return %zu", i);
    }
    cr_assert_eq(world_count_traced(&rig_world, "agent_unsteady"), 3);
    /* After a calm hour it is trusted again. */
    world_pass_reporting(&rig_world, INT64_C(61) * 60000, rig_both);
    lose_a1();
    world_pass_reporting(&rig_world, 5000, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    cr_assert_eq(world_count_traced(&rig_world, "agent_unsteady"), 3);
}

/* Maintenance is no flapping. */
Test(arrival, agent_that_leaves_in_order_is_trusted_however_often)
{
    share();
    for (uint64_t i = 0; i < 4; i++) {
        world_deregister(&rig_world, "a1", i == 0 ? 1 : 100 + i);
        world_pass_reporting(&rig_world, GRACE_MS + 1000, rig_a2);
        cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
        world_register(&rig_world, "a1", 101 + i);
        world_pass_reporting(&rig_world, 5000, rig_both);
        cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2, "return %llu",
                     (unsigned long long)i);
    }
    cr_assert_eq(world_count_traced(&rig_world, "agent_unsteady"), 0);
}

Test(arrival, rebalance_overrides_the_pause)
{
    share();
    lose_a1();
    world_pass_reporting(&rig_world, 5000, rig_both);
    lose_a1();
    world_pass_reporting(&rig_world, 5000, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
    rig_rebalance();
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    cr_assert_eq(rig_operation(rig_world.cluster.meta.operation_id)->state,
                 OPERATION_STATE_SUCCEEDED);
}

/* What it is owed does not end with its process. */
Test(arrival, newcomer_that_restarts_midway_gets_the_rest)
{
    struct job_spec spec = world_spec("j2");
    spec.processors = 8;
    spec.max_learners = 1;
    world_create_spec(&rig_world, "j2", spec);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_register(&rig_world, "a2", 2);
    while (world_count_owned(&rig_world, "j2", "a2") == 0) {
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    }
    cr_assert_lt(world_count_owned(&rig_world, "j2", "a2"), 4);
    world_pass_reporting(&rig_world, 3000, rig_a1);
    world_register(&rig_world, "a2", 22);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j2", "a2"), 4);
}

/* ---- slots */

static size_t count_learners(const char *agent_id)
{
    size_t learners = 0;
    for (size_t i = 0; i < rig_world.cluster.handoffs.count; i++) {
        const struct handoff_row *row = &rig_world.cluster.handoffs.items[i]->row;
        learners += strcmp(row->target, agent_id) == 0 && handoff_before_release(row->state);
    }
    return learners;
}

static void register_limited(const char *agent_id, uint64_t incarnation, uint32_t max_learners)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration(agent_id, incarnation);
    event.registration.max_learners = max_learners;
    world_step(&rig_world, event);
}

Test(arrival, agent_learns_no_more_at_a_time_than_it_says)
{
    struct job_spec spec = world_spec("j2");
    spec.processors = 8;
    world_create_spec(&rig_world, "j2", spec);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    register_limited("a2", 2, 2);
    size_t waiting = 0;
    const struct job *job = cluster_job(&rig_world.cluster, "j2");
    for (size_t p = 0; p < job->processors.count; p++)
        waiting += job->processors.items[p].waits != NULL &&
                   strstr(job->processors.items[p].waits, "waits for a learner slot") != NULL;
    cr_assert_eq(count_learners("a2"), 2);
    cr_assert_gt(waiting, 0);
    for (int i = 0; i < 100; i++) {
        world_report(&rig_world, i % 2 == 0 ? "a2" : "a1", TASK_STATE_ACTIVE);
        cr_assert_leq(count_learners("a2"), 2);
        if (i == 50)
            world_restart(&rig_world); /* the limit is the row's */
    }
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    cr_assert_eq(world_count_owned(&rig_world, "j2", "a2"), 4);
    for (size_t p = 0; p < 8; p++)
        cr_assert_null(cluster_job(&rig_world.cluster, "j2")->processors.items[p].waits);
}

/* Who asks waits in turn, too, but before what is only owed. */
Test(arrival, move_that_is_asked_for_waits_for_a_slot)
{
    register_limited("a2", 2, 1);
    cr_assert_eq(count_learners("a2"), 1);
    uint32_t learned = rig_handoff(0) != NULL ? 0 : 1;
    rig_move(3, "a2");
    world_expect_status(&rig_world, 202);
    uint64_t id = rig_world.cluster.meta.operation_id;
    cr_assert_eq(rig_operation(id)->step, OPERATION_STEP_QUEUE);
    cr_assert_not_null(strstr(rig_operation(id)->error, "waits for a learner slot"));
    cr_assert_null(rig_handoff(3));
    while (rig_handoff(3) == NULL) {
        cr_assert_lt(count_done(), 2);
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
        cr_assert_leq(count_learners("a2"), 1);
    }
    cr_assert_null(rig_operation(id)->error);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(rig_operation(id)->state, OPERATION_STATE_SUCCEEDED);
    cr_assert_str_eq(rig_placement(learned)->agent, "a2");
    cr_assert_str_eq(rig_placement(3)->agent, "a2");
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

/* ---- where states are */

Test(arrival, failover_goes_to_the_owner_before_last)
{
    world_register(&rig_world, "a2", 2);
    world_calm_down(&rig_world, rig_both);
    world_register(&rig_world, "a3", 3);
    world_calm_down(&rig_world, rig_three);
    /* a3 is the least loaded, but it is a1 that had all of a2's processors once. */
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a3"), 1);
    bool lost[4];
    owned_by("a2", lost);
    world_pass_reporting(&rig_world, WORLD_TIMEOUT_MS + GRACE_MS + 1000,
                         (const char *const[]){"a1", "a3", NULL});
    for (uint32_t i = 0; i < 4; i++)
        if (lost[i])
            cr_assert_str_eq(rig_placement(i)->agent, "a1");
}

static void register_with_state(const char *agent_id, uint64_t incarnation, uint32_t processor,
                                int64_t offset)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration(agent_id, incarnation);
    struct kept_state *kept = mem_calloc(1, sizeof(*kept));
    *kept = (struct kept_state){
        .job = mem_strdup("j1"),
        .job_incarnation = mem_strdup(cluster_job(&rig_world.cluster, "j1")->row.incarnation),
        .processor = processor};
    kept->learned.items = mem_calloc(1, sizeof(struct input_offset));
    kept->learned.items[0] = (struct input_offset){.offset = offset};
    kept->learned.count = 1;
    event.registration.kept.items = kept;
    event.registration.kept.count = 1;
    world_step(&rig_world, event);
}

Test(arrival, newcomer_is_given_what_it_keeps)
{
    register_with_state("a2", 2, 3, 50);
    cr_assert_eq(rig_world.cluster.handoffs.count, 2, "%zu", rig_world.cluster.handoffs.count);
    cr_assert_not_null(rig_handoff(3));
    cr_assert_not_null(rig_handoff(0), "the other one is the first");
}

/* Of two that keep a state the one that is further gets it, whatever else it has to do. */
Test(arrival, failover_goes_to_the_most_advanced_state)
{
    world_pass(&rig_world, WORLD_TIMEOUT_MS + 1000);
    register_with_state("a2", 2, 3, 40);
    register_with_state("a3", 3, 3, 50);
    register_with_state("a4", 4, 3, 30);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0, "a1 may come back");
    world_pass_reporting(&rig_world, GRACE_MS, (const char *const[]){"a2", "a3", "a4", NULL});
    cr_assert_str_eq(rig_placement(3)->agent, "a3");
    cr_assert_not_null(strstr(rig_placement(3)->reason, "a3 keeps its state"));
}
