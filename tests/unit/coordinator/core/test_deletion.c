/* Deletion of jobs: what it waits for, and what comes in which order. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;

static void setup(void)
{
    world_init(&world);
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(deletion, .init = setup, .fini = teardown);

static const struct operation_view *expect_operation(uint32_t status)
{
    world_expect_status(&world, status);
    const struct answer *answer = world_answer(&world);
    cr_assert_eq(answer->type, &schema_operation_view);
    return answer->body;
}

Test(deletion, delete_without_tasks_fences_and_removes)
{
    world_create(&world, "j1");
    world_delete(&world, "j1");
    const struct operation_view *view = expect_operation(202);
    cr_assert_str_eq(view->kind, "delete_job");
    cr_assert_str_eq(world_answer(&world)->location, "/v1/operations/op-2");
    cr_assert_eq(world_count_events(&world, "job_deleting"), 1);
    const struct kafka_call *call = &world.calls.items[0];
    cr_assert_eq(call->kind, KAFKA_CALL_FENCE);
    cr_assert_eq(call->transactional_ids.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        char *expected =
            cluster_transactional_id(&world.cluster, cluster_job(&world.cluster, "j1"), i);
        cr_assert_str_eq(call->transactional_ids.items[i], expected);
        free(expected);
    }
    world_reply_well(&world);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
    cr_assert_eq(world_count_events(&world, "job_deleted"), 1);
    cr_assert_eq(cluster_operation(&world.cluster, 2)->row.state, OPERATION_STATE_SUCCEEDED);
}

Test(deletion, at_least_once_needs_no_fence)
{
    struct job_spec spec = world_spec("j1");
    spec.delivery = DELIVERY_AT_LEAST_ONCE;
    world_create_spec(&world, "j1", spec);
    world_delete(&world, "j1");
    world_expect_status(&world, 202);
    cr_assert_eq(world.calls.count, 0);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
}

Test(deletion, second_delete_is_the_same_operation)
{
    world_create(&world, "j1");
    world_delete(&world, "j1");
    world_delete(&world, "j1");
    cr_assert_str_eq(expect_operation(202)->id, "op-2");
    cr_assert_eq(world.update.changes.count, 0);
    world_put(&world, "j1", world_spec("j1"));
    world_expect_problem(&world, "job_deleting");
    world_reply_all_well(&world);
    world_delete(&world, "j1");
    world_expect_problem(&world, "job_not_found");
}

Test(deletion, delete_ends_a_creation_under_way)
{
    world_put(&world, "j1", world_spec("j1"));
    world_reply_well(&world); /* created; the commit is under way */
    world_delete(&world, "j1");
    cr_assert_eq(cluster_operation(&world.cluster, 1)->row.state, OPERATION_STATE_CANCELLED);
    world_reply_well(&world); /* the commit's answer is nobody's */
    cr_assert_eq(world.update.changes.count, 0);
    world_reply_all_well(&world);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
}

Test(deletion, reason_of_a_deletion_is_kept)
{
    world_create(&world, "j1");
    struct coord_event event = world_event(&world, COORD_EVENT_JOB_DELETE, "j1");
    event.reason = mem_strdup("moved to the new cluster");
    world_step(&world, event);
    cr_assert_str_eq(expect_operation(202)->reason, "moved to the new cluster");
}

/* ---- waiting until the tasks are closed */

/* An agent works the job, by its newest document. */
static void run_on_agent(void)
{
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    world_report(&world, "a1", TASK_STATE_ACTIVE);
}

static bool fences(void)
{
    return world.calls.count == 1 && world.calls.items[0].kind == KAFKA_CALL_FENCE;
}

Test(deletion, delete_waits_until_the_agent_has_closed_the_tasks)
{
    run_on_agent();
    struct agent_report closing = world_report_of(&world, "a1", TASK_STATE_RELEASING);
    struct agent_report closed = world_report_of(&world, "a1", TASK_STATE_CLOSED);
    world_delete(&world, "j1");
    cr_assert_not(fences());
    struct document_version version =
        cluster_document_version(&world.cluster, cluster_agent(&world.cluster, "a1"));
    closing.version = version;
    world_send_report(&world, "a1", closing);
    cr_assert_not(fences());
    closed.version = version;
    world_send_report(&world, "a1", closed);
    cr_assert(fences());
}

/* An agent that has not seen the document with the task yet would open it after the fence. */
Test(deletion, delete_waits_for_an_agent_that_works_by_an_older_document)
{
    world_register(&world, "a1", 1);
    struct agent_report before = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    world_create(&world, "j1");
    world_delete(&world, "j1");
    world_send_report(&world, "a1", before); /* no task in it, but that is no news */
    cr_assert_not(fences());
    world_report(&world, "a1", TASK_STATE_ACTIVE); /* by the newest, which wants none */
    cr_assert(fences());
}

Test(deletion, lost_and_stopped_agents_do_not_hold_a_deletion_up)
{
    run_on_agent();
    world_delete(&world, "j1");
    world_pass(&world, WORLD_TIMEOUT_MS);
    cr_assert_eq(cluster_agent(&world.cluster, "a1")->row.state, AGENT_STATE_LOST);
    cr_assert(fences());
}

Test(deletion, agent_that_leaves_lets_a_deletion_go_on)
{
    run_on_agent();
    world_delete(&world, "j1");
    cr_assert_not(fences());
    world_deregister(&world, "a1", 1);
    cr_assert(fences());
}

Test(deletion, delete_waits_for_tasks_that_nobody_placed_there)
{
    run_on_agent();
    struct agent_report stray = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    world_pass(&world, WORLD_TIMEOUT_MS);
    world_forget(&world, "a1");
    world_delete(&world, "j1");
    cr_assert(fences());
    world_reply_failed(&world, "not now", false);

    /* Again, with the forgotten agent back and still at work. */
    world_finish(&world);
    schema_free(&schema_agent_report, &stray);
    world_init(&world);
    run_on_agent();
    stray = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    world_pass(&world, WORLD_TIMEOUT_MS);
    world_forget(&world, "a1");
    world_register(&world, "b", 2);
    world_report(&world, "b", TASK_STATE_ACTIVE);
    cr_assert_str_eq(world_placement(&world, "j1", 0)->agent, "b");
    world_register(&world, "a1", 1);
    struct agent_report closed;
    schema_copy(&schema_agent_report, &closed, &stray);
    for (size_t i = 0; i < closed.tasks.count; i++)
        closed.tasks.items[i].state = TASK_STATE_CLOSED;
    world_send_report(&world, "a1", stray);
    world_delete(&world, "j1");
    world_report(&world, "b", TASK_STATE_ACTIVE);
    cr_assert_not(fences(), "a1 has a task of the job");
    world_send_report(&world, "a1", closed);
    cr_assert(fences());
}

Test(deletion, deletion_that_waits_says_for_whom)
{
    run_on_agent();
    struct agent_report stuck = world_report_of(&world, "a1", TASK_STATE_RELEASING);
    world_delete(&world, "j1");
    world_pass(&world, 4000);
    world_send_report(&world, "a1", stuck);
    cr_assert_null(cluster_operation(&world.cluster, 2)->row.error);
    world_pass(&world, 1500);
    cr_assert_str_eq(cluster_operation(&world.cluster, 2)->row.error,
                     "agent a1 has not closed processor 0");
}

Test(deletion, deletion_goes_on_after_a_restart)
{
    run_on_agent();
    struct agent_report closed = world_report_of(&world, "a1", TASK_STATE_CLOSED);
    world_delete(&world, "j1");
    struct document_version old =
        cluster_document_version(&world.cluster, cluster_agent(&world.cluster, "a1"));
    world_restart(&world);
    cr_assert_not(fences());
    closed.version = old;
    world_send_report(&world, "a1", closed);
    cr_assert_not(fences(), "a document from before the restart says nothing");
    world_report(&world, "a1", TASK_STATE_CLOSED);
    cr_assert(fences());
    world_restart(&world);
    cr_assert(fences(), "the fence is repeated");
    world_reply_well(&world);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
}

/* The new start of the owner has not said yet by what it works. */
Test(deletion, waits_for_a_new_start_of_the_owner)
{
    run_on_agent();
    struct agent_report releasing = world_report_of(&world, "a1", TASK_STATE_RELEASING);
    world_delete(&world, "j1");
    releasing.version =
        cluster_document_version(&world.cluster, cluster_agent(&world.cluster, "a1"));
    world_send_report(&world, "a1", releasing);
    world_pass(&world, 2000);
    world_register(&world, "a1", 2);
    cr_assert_not(fences());
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    cr_assert(fences());
}

Test(deletion, room_that_becomes_free_is_used)
{
    struct coord_event event = world_event(&world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration("a1", 1);
    event.registration.capacity = 4;
    world_step(&world, event);
    world_create(&world, "j1");
    world_create(&world, "j2");
    cr_assert_null(world_placement(&world, "j2", 0)->agent);
    world_delete(&world, "j1");
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    world_reply_well(&world);
    cr_assert_str_eq(world_placement(&world, "j2", 0)->agent, "a1");
}
