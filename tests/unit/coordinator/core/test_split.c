/* Splits: j1 has processors 0 to 3 of 8 partitions on a1; a2 gets processor 4, with partition 4. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(split, .init = rig_setup, .fini = rig_teardown);

static struct job *job(void)
{
    return cluster_job(&rig_world.cluster, "j1");
}

static const struct handoff_row *split(void)
{
    cr_assert_not_null(cluster_nascent(job()), "no split is under way");
    return &cluster_nascent(job())->handoff->row;
}

static const struct operation_row *operation(void)
{
    return rig_operation(rig_world.cluster.meta.operation_id);
}

/* The task of the processor in the agent's document; NULL: it has none. Free the document. */
static const struct document_task *find_task(const char *agent_id, uint32_t processor,
                                             struct agent_document *ret_document)
{
    cluster_document(&rig_world.cluster, cluster_agent(&rig_world.cluster, agent_id), ret_document);
    for (size_t i = 0; i < ret_document->tasks.count; i++)
        if (ret_document->tasks.items[i].processor == processor)
            return &ret_document->tasks.items[i];
    return NULL;
}

static void expect_none(const char *agent_id, uint32_t processor)
{
    struct agent_document document;
    cr_assert_null(find_task(agent_id, processor, &document));
    schema_free(&schema_agent_document, &document);
}

static void expect_owned(const char *agent_id, uint32_t processor, enum task_role role,
                         size_t count, uint64_t told)
{
    struct agent_document document;
    const struct document_task *task = find_task(agent_id, processor, &document);
    cr_assert_not_null(task);
    cr_assert_eq(task->role, role);
    cr_assert_eq(task->owned.count, count);
    cr_assert_eq(task->read.count, count);
    cr_assert_eq(task->split_handoff, told);
    schema_free(&schema_agent_document, &document);
}

static void bring_to(enum handoff_state state)
{
    if (cluster_agent(&rig_world.cluster, "a2") == NULL)
        rig_add_established();
    rig_expand(5);
    world_expect_status(&rig_world, 202);
    cr_assert_eq(split()->state, HANDOFF_STATE_LEARNING);
    if (state == HANDOFF_STATE_LEARNING)
        return;
    if (state == HANDOFF_STATE_CAUGHT_UP) /* which lasts only while the source is not active */
        world_report(&rig_world, "a1", TASK_STATE_REPLAYING);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_eq(split()->state, state == HANDOFF_STATE_CAUGHT_UP ? HANDOFF_STATE_CAUGHT_UP
                                                                  : HANDOFF_STATE_RELEASING);
    if (state == HANDOFF_STATE_CAUGHT_UP || state == HANDOFF_STATE_RELEASING)
        return;
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    rig_expect_state(4, HANDOFF_STATE_RELEASED);
    if (state == HANDOFF_STATE_RELEASED)
        return;
    world_report(&rig_world, "a2", TASK_STATE_REPLAYING);
    rig_expect_state(4, HANDOFF_STATE_ACTIVATING);
}

Test(split, goes_from_the_parent_to_who_has_least)
{
    uint64_t version = job()->row.map_version;
    bring_to(HANDOFF_STATE_LEARNING);
    cr_assert_str_eq(split()->source, "a1");
    cr_assert_str_eq(split()->target, "a2");
    cr_assert_eq(split()->partitions.count, 1);
    cr_assert_eq(split()->partitions.items[0], 4);
    expect_owned("a2", 4, TASK_ROLE_LEARNER, 1, 0);
    expect_owned("a1", 0, TASK_ROLE_ACTIVE, 2, 0);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    uint64_t epoch = split()->target_epoch;
    cr_assert_gt(epoch, split()->source_epoch);
    expect_owned("a1", 0, TASK_ROLE_ACTIVE, 2, split()->id);
    cr_assert_eq(job()->row.processors, 4, "not before it is released");
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(job()->row.processors, 5);
    cr_assert_eq(job()->row.map_version, version + 1);
    cr_assert_str_eq(rig_placement(4)->agent, "a2");
    cr_assert_eq(rig_placement(4)->epoch, epoch, "the one that its offsets carry");
    expect_owned("a1", 0, TASK_ROLE_ACTIVE, 1, 0);
    expect_owned("a2", 4, TASK_ROLE_ACTIVE, 1, 0);
    world_calm_down(&rig_world, rig_both);
    cr_assert_null(rig_handoff(4));
    cr_assert_eq(operation()->state, OPERATION_STATE_SUCCEEDED);
    cr_assert(rig_placement(4)->activated);
}

/* How many processors the agent hears to have all they need, and in which decision. */
static uint32_t settled_at(const char *agent_id, uint64_t *ret_decision)
{
    struct agent_document document;
    cluster_document(&rig_world.cluster, cluster_agent(&rig_world.cluster, agent_id), &document);
    cr_assert_eq(document.jobs.count, 1);
    uint32_t settled = document.jobs.items[0].processors_settled;
    *ret_decision = document.version.decision;
    schema_free(&schema_agent_document, &document);
    return settled;
}

Test(split, what_it_leaves_behind_may_go_when_it_is_over)
{
    uint64_t before, after;
    rig_add_established();
    cr_assert_eq(settled_at("a1", &before), 4);
    bring_to(HANDOFF_STATE_LEARNING);
    cr_assert_eq(settled_at("a1", &before), 4);
    rig_teardown();
    rig_setup();
    bring_to(HANDOFF_STATE_ACTIVATING);
    cr_assert_eq(job()->row.processors, 5);
    cr_assert_eq(settled_at("a1", &before), 4, "its target can still be lost");
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_null(rig_handoff(4));
    cr_assert_eq(settled_at("a1", &after), 5);
    cr_assert_gt(after, before, "the parent's owner is told, though nothing else changes for it");
}

/* Its target is taken out of the cluster's books, which ends the split, not what it needs. */
Test(split, what_it_leaves_behind_stays_when_it_has_failed)
{
    uint64_t decision;
    bring_to(HANDOFF_STATE_ACTIVATING);
    world_deregister(&rig_world, "a2", 2);
    world_forget(&rig_world, "a2");
    world_expect_status(&rig_world, 204);
    cr_assert_null(rig_handoff(4));
    cr_assert_eq(settled_at("a1", &decision), 4, "nobody has its rows");
    world_restart(&rig_world);
    cr_assert_eq(settled_at("a1", &decision), 4);
    world_calm_down(&rig_world, rig_a1);
    cr_assert(rig_placement(4)->activated);
    cr_assert_eq(settled_at("a1", &decision), 5);
    world_deregister(&rig_world, "a1", 1);
    world_register(&rig_world, "a1", 11);
    cr_assert_not(rig_placement(4)->activated);
    cr_assert_eq(settled_at("a1", &decision), 5, "once is enough");
}

/* Records that are gone are not needed while somebody has what they added up to. */
Test(split, history_that_is_gone_does_not_end_it_while_the_parent_gives)
{
    uint64_t decision;
    bring_to(HANDOFF_STATE_ACTIVATING);
    rig_fail("a2", "history_incomplete");
    rig_expect_state(4, HANDOFF_STATE_ACTIVATING);
    cr_assert_str_eq(rig_placement(4)->trouble, "history_incomplete");
    cr_assert_eq(settled_at("a1", &decision), 4);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(operation()->state, OPERATION_STATE_SUCCEEDED);
    cr_assert_eq(settled_at("a1", &decision), 5);
}

Test(split, several_run_one_after_another)
{
    rig_add_established();
    rig_expand(8);
    for (int i = 0; i < 100 && operation()->state == OPERATION_STATE_RUNNING; i++) {
        cr_assert_leq(rig_world.cluster.handoffs.count, 1);
        world_report(&rig_world, i % 2 == 0 ? "a1" : "a2", TASK_STATE_ACTIVE);
    }
    cr_assert_eq(operation()->state, OPERATION_STATE_SUCCEEDED);
    cr_assert_eq(job()->row.processors, 8);
    cr_assert_eq(world_count_traced(&rig_world, "processor_added"), 4);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
}

Test(split, one_agent_can_have_all)
{
    rig_expand(6);
    world_calm_down(&rig_world, rig_a1);
    cr_assert_eq(operation()->state, OPERATION_STATE_SUCCEEDED);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 6);
}

Test(split, outlives_a_restart_in_every_state)
{
    static const enum handoff_state states[] = {HANDOFF_STATE_LEARNING, HANDOFF_STATE_CAUGHT_UP,
                                                HANDOFF_STATE_RELEASING, HANDOFF_STATE_RELEASED,
                                                HANDOFF_STATE_ACTIVATING};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        rig_teardown();
        rig_setup();
        bring_to(states[i]);
        world_restart(&rig_world);
        world_calm_down(&rig_world, rig_both);
        cr_assert_eq(job()->row.processors, 5, "state %zu", i);
        cr_assert_eq(operation()->state, OPERATION_STATE_SUCCEEDED);
        cr_assert_str_eq(rig_placement(4)->agent, "a2");
    }
}

/* ---- cancelling */

static void cancel(uint64_t id)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_OPERATION_CANCEL, NULL);
    event.operation = id;
    world_step(&rig_world, event);
}

Test(split, cancelled_before_the_source_is_told_leaves_nothing)
{
    bring_to(HANDOFF_STATE_LEARNING);
    cancel(operation()->id);
    world_expect_status(&rig_world, 200);
    cr_assert_null(cluster_nascent(job()));
    expect_none("a2", 4);
    cr_assert_eq(operation()->state, OPERATION_STATE_CANCELLED);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(job()->row.processors, 4);
}

Test(split, can_not_be_cancelled_once_the_source_is_told)
{
    bring_to(HANDOFF_STATE_RELEASING);
    cancel(operation()->id);
    (void)world_expect_problem(&rig_world, "operation_not_cancellable");
    struct coord_event event = world_event(&rig_world, COORD_EVENT_HANDOFF_CANCEL, NULL);
    event.handoff = split()->id;
    world_step(&rig_world, event);
    (void)world_expect_problem(&rig_world, "handoff_not_cancellable");
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(job()->row.processors, 5);
}

Test(split, later_ones_are_not_begun_when_the_operation_is_cancelled)
{
    rig_add_established();
    rig_expand(8);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_eq(split()->state, HANDOFF_STATE_RELEASING);
    cancel(operation()->id);
    world_expect_status(&rig_world, 200);
    rig_expand(6); /* it waits for the one under way */
    world_expect_status(&rig_world, 202);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_eq(split()->processor, 4);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(job()->row.processors, 6);
}

Test(split, partitions_are_not_added_before_one_without_an_operation_is_over)
{
    rig_add_established();
    rig_expand(8);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cancel(operation()->id);
    cr_assert_eq(split()->state, HANDOFF_STATE_RELEASING);
    struct coord_event event = world_event(&rig_world, COORD_EVENT_EXPAND, "j1");
    event.expansion.processors = API_UNKNOWN;
    event.expansion.partitions = 16;
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 202);
    for (size_t i = 0; i < rig_world.calls.count; i++)
        cr_assert_neq(rig_world.calls.items[i].kind, KAFKA_CALL_SAMPLE);
    cr_assert_not_null(strstr(operation()->error, "being split"));
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(job()->row.processors, 5);
    for (int i = 0;
         i < 100 && operation()->state != OPERATION_STATE_SUCCEEDED && rig_world.calls.count == 0;
         i++)
        world_pass(&rig_world, 1000);
    bool sampled = false;
    for (size_t i = 0; i < rig_world.calls.count; i++)
        sampled = sampled || rig_world.calls.items[i].kind == KAFKA_CALL_SAMPLE;
    cr_assert(sampled, "it goes on by itself");
}

Test(split, a_hand_over_that_is_cancelled_ends_the_operation)
{
    bring_to(HANDOFF_STATE_LEARNING);
    struct coord_event event = world_event(&rig_world, COORD_EVENT_HANDOFF_CANCEL, NULL);
    event.handoff = split()->id;
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 200);
    cr_assert_eq(operation()->state, OPERATION_STATE_CANCELLED);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(job()->row.processors, 4);
}

Test(split, history_that_is_gone_fails_it_by_name)
{
    bring_to(HANDOFF_STATE_LEARNING);
    rig_fail("a2", "history_incomplete");
    cr_assert_null(cluster_nascent(job()));
    cr_assert_eq(operation()->state, OPERATION_STATE_FAILED);
    cr_assert_not_null(strstr(operation()->error, "history_incomplete"), "%s", operation()->error);
    cr_assert_not(cluster_is_refused(job(), cluster_agent(&rig_world.cluster, "a2")),
                  "others can be had from a copy");
}

/* ---- agents come and go */

static const char *const a1_a3[] = {"a1", "a3", NULL};

Test(split, a_target_that_leaves_before_is_replaced)
{
    bring_to(HANDOFF_STATE_LEARNING);
    world_deregister(&rig_world, "a2", 2);
    world_register(&rig_world, "a3", 3);
    world_calm_down(&rig_world, a1_a3);
    cr_assert_eq(job()->row.processors, 5);
    cr_assert_eq(operation()->state, OPERATION_STATE_SUCCEEDED);
}

Test(split, a_target_that_is_lost_after_is_failed_over)
{
    bring_to(HANDOFF_STATE_RELEASING);
    uint64_t epoch = split()->target_epoch;
    world_register(&rig_world, "a3", 3);
    world_deregister(&rig_world, "a2", 2);
    cr_assert_eq(split()->state, HANDOFF_STATE_RELEASING);
    world_calm_down(&rig_world, a1_a3);
    cr_assert_eq(job()->row.processors, 5);
    cr_assert_geq(rig_placement(4)->epoch, epoch);
    cr_assert_str_neq(rig_placement(4)->agent, "a2");
    cr_assert(rig_placement(4)->activated);
}

Test(split, a_forgotten_target_does_not_undo_it)
{
    bring_to(HANDOFF_STATE_RELEASING);
    world_deregister(&rig_world, "a2", 2);
    world_forget(&rig_world, "a2");
    world_expect_status(&rig_world, 204);
    cr_assert_eq(split()->state, HANDOFF_STATE_RELEASING);
    world_calm_down(&rig_world, rig_a1);
    cr_assert_eq(job()->row.processors, 5);
    cr_assert_str_eq(rig_placement(4)->agent, "a1");
}

/* Before and after the source is told: the split goes on with the parent's next owner. */
Test(split, a_lost_source_is_failed_over_first)
{
    static const enum handoff_state states[] = {HANDOFF_STATE_LEARNING, HANDOFF_STATE_RELEASING};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        rig_teardown();
        rig_setup();
        bring_to(states[i]);
        uint64_t epoch = split()->target_epoch;
        size_t cancelled = world_count_traced(&rig_world, "handoff_cancelled");
        world_pass_reporting(&rig_world, 120000, rig_a2);
        cr_assert_str_eq(rig_placement(0)->agent, "a2");
        cr_assert_eq(job()->row.processors, 5);
        cr_assert_eq(operation()->state, OPERATION_STATE_SUCCEEDED);
        if (states[i] == HANDOFF_STATE_RELEASING)
            cr_assert_eq(rig_placement(4)->epoch, epoch, "the stamp may have been there");
        cr_assert_eq(world_count_traced(&rig_world, "handoff_cancelled"), cancelled);
    }
}

Test(split, a_source_with_a_new_start_is_told_again)
{
    bring_to(HANDOFF_STATE_RELEASING);
    uint64_t before = split()->source_epoch;
    world_deregister(&rig_world, "a1", 1);
    world_register(&rig_world, "a1", 11);
    cr_assert_gt(split()->source_epoch, before);
    cr_assert_eq(split()->source_epoch, rig_placement(0)->epoch);
    expect_owned("a1", 0, TASK_ROLE_ACTIVE, 2, split()->id);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(job()->row.processors, 5);
}

Test(split, only_the_owners_word_releases_it)
{
    bring_to(HANDOFF_STATE_RELEASING);
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++)
        if (report.tasks.items[i].processor == 0)
            report.tasks.items[i].epoch--; /* of an older activation */
    world_send_report(&rig_world, "a1", report);
    cr_assert_eq(job()->row.processors, 4);
    report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++)
        if (report.tasks.items[i].processor == 0) {
            report.tasks.items[i].consuming.items = mem_calloc(1, sizeof(uint32_t));
            report.tasks.items[i].consuming.items[0] = 4;
            report.tasks.items[i].consuming.count = 1; /* it still consumes what it has given */
        }
    world_send_report(&rig_world, "a1", report);
    cr_assert_eq(job()->row.processors, 4);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(job()->row.processors, 5);
}

/* ---- with other changes */

Test(split, no_other_hand_over_of_the_parent_begins)
{
    bring_to(HANDOFF_STATE_LEARNING);
    rig_move(0, "a2");
    world_expect_status(&rig_world, 202);
    cr_assert_null(rig_handoff(0), "it is queued");
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(job()->row.processors, 5);
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
}

Test(split, a_pause_undoes_it_and_it_begins_anew)
{
    bring_to(HANDOFF_STATE_LEARNING);
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_PAUSE, "j1"));
    cr_assert_null(cluster_nascent(job()));
    cr_assert_eq(operation()->state, OPERATION_STATE_RUNNING);
    world_report(&rig_world, "a1", TASK_STATE_PAUSED);
    cr_assert_null(cluster_nascent(job()));
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_RESUME, "j1"));
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(job()->row.processors, 5);
}

Test(split, a_pause_leaves_one_whose_source_is_told)
{
    bring_to(HANDOFF_STATE_RELEASING);
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_PAUSE, "j1"));
    cr_assert_eq(split()->state, HANDOFF_STATE_RELEASING);
    expect_owned("a1", 0, TASK_ROLE_ACTIVE, 2, split()->id);
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_RESUME, "j1"));
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(job()->row.processors, 5);
}

Test(split, a_deletion_ends_it)
{
    bring_to(HANDOFF_STATE_RELEASING);
    world_delete(&rig_world, "j1");
    cr_assert_null(cluster_nascent(job()));
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
}

Test(split, a_drain_of_the_source_goes_first)
{
    bring_to(HANDOFF_STATE_LEARNING);
    world_register(&rig_world, "a3", 3);
    struct coord_event event = world_event(&rig_world, COORD_EVENT_DRAIN, "a1");
    schema_default(&schema_drain_request, &event.drain);
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 202);
    world_calm_down(&rig_world, rig_three);
    cr_assert_eq(job()->row.processors, 5);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 0);
    cr_assert_eq(operation()->state, OPERATION_STATE_SUCCEEDED);
}

Test(split, without_state_there_is_nothing_to_learn)
{
    struct job_spec spec = world_spec("j2");
    spec.stateful = false;
    world_create_spec(&rig_world, "j2", spec);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    struct coord_event event = world_event(&rig_world, COORD_EVENT_EXPAND, "j2");
    event.expansion = (struct expansion_request){6, API_UNKNOWN, false, NULL};
    world_step(&rig_world, event);
    world_calm_down(&rig_world, rig_a1);
    cr_assert_eq(cluster_job(&rig_world.cluster, "j2")->row.processors, 6);
    cr_assert_eq(world_count_owned(&rig_world, "j2", "a1"), 6);
}

/* ---- by itself */

static struct job *create_growing(uint32_t most)
{
    struct job_spec spec = world_spec("j2");
    spec.processors = 1;
    spec.auto_expand = true;
    spec.max_processors = most;
    return world_create_spec(&rig_world, "j2", spec);
}

Test(split, a_job_grows_with_its_agents)
{
    const struct job *growing = create_growing(0);
    world_calm_down(&rig_world, rig_a1);
    cr_assert_eq(growing->row.processors, 1);
    world_register(&rig_world, "a2", 2);
    world_register(&rig_world, "a3", 3);
    world_calm_down(&rig_world, rig_three);
    cr_assert_eq(growing->row.processors, 3);
    cr_assert_str_eq(operation()->actor, "coordinator");
    cr_assert_eq(operation()->count_before, 2);
    cr_assert_eq(operation()->count_reached, 3);
    cr_assert_eq(world_count_owned(&rig_world, "j2", "a1"), 1);
    cr_assert_eq(world_count_owned(&rig_world, "j2", "a2"), 1);
    cr_assert_eq(world_count_owned(&rig_world, "j2", "a3"), 1);
    world_pass_reporting(&rig_world, 60000, rig_three);
    cr_assert_eq(growing->row.processors, 3, "and no further");
}

Test(split, a_job_grows_no_further_than_it_may)
{
    const struct job *growing = create_growing(2);
    world_register(&rig_world, "a2", 2);
    world_register(&rig_world, "a3", 3);
    world_calm_down(&rig_world, rig_three);
    cr_assert_eq(growing->row.processors, 2);
}

Test(split, a_job_that_can_not_grow_is_left_alone_for_a_while)
{
    const struct job *growing = create_growing(0);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_register(&rig_world, "a2", 2);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    cr_assert_not_null(cluster_nascent(growing));
    rig_fail("a2", "history_incomplete");
    cr_assert_null(cluster_nascent(growing));
    world_pass_reporting(&rig_world, 60000, rig_both);
    cr_assert_eq(growing->row.processors, 1);
    world_pass_reporting(&rig_world, 10 * 60000, rig_both);
    cr_assert_eq(growing->row.processors, 2);
}
