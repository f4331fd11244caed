/* Records that are passed by somebody's word: only those that stop a processor, and told to all. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(skip, .init = rig_setup, .fini = rig_teardown);

/* Job j1: four processors, eight partitions of one topic: processor 0 has 0 and 4. */

static void ask(const char *topic, uint32_t partition, int64_t offset)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_SKIP, "j1");
    event.skip.topic = mem_strdup(topic);
    event.skip.partition = partition;
    event.skip.offset = offset;
    event.skip.reason = mem_strdup("ticket 4711");
    world_step(&rig_world, event);
}

static void add_progress(struct task_report *task, uint32_t partition, int64_t t1, int64_t t2)
{
    task->progress.items = mem_calloc(1, sizeof(*task->progress.items));
    task->progress.count = 1;
    task->progress.items[0] =
        (struct partition_progress){.partition = partition, .t1 = t1, .t2 = t2};
}

/* Processor 0 of the agent reports that this record stops it. */
static void halt_at(const char *agent_id, uint32_t partition, int64_t offset)
{
    struct agent_report report = world_report_of(&rig_world, agent_id, TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        if (task->processor != 0 || task->role != TASK_ROLE_ACTIVE)
            continue;
        task->state = TASK_STATE_FAILED;
        task->problems.items = mem_calloc(1, sizeof(*task->problems.items));
        task->problems.count = 1;
        task->problems.items[0] = (struct task_problem){.code = mem_strdup("record_failed"),
                                                        .detail = mem_strdup("no number")};
        task->halted.items = mem_calloc(1, sizeof(*task->halted.items));
        task->halted.count = 1;
        task->halted.items[0] = (struct input_offset){.partition = partition, .offset = offset};
        add_progress(task, partition, offset, offset);
    }
    world_send_report(&rig_world, agent_id, report);
}

static size_t count_told(const char *agent_id, uint32_t processor)
{
    struct agent_document document;
    size_t count = SIZE_MAX;
    cluster_document(&rig_world.cluster, cluster_agent(&rig_world.cluster, agent_id), &document);
    for (size_t i = 0; i < document.tasks.count; i++)
        if (document.tasks.items[i].processor == processor)
            count = document.tasks.items[i].skips.count;
    schema_free(&schema_agent_document, &document);
    return count;
}

Test(skip, of_the_record_that_stops_it_is_decided_told_and_kept)
{
    halt_at("a1", 4, 17);
    ask("orders", 4, 17);
    world_expect_status(&rig_world, 201);
    const struct skip_view *view = world_answer(&rig_world)->body;
    cr_assert_str_eq(view->topic, "orders");
    cr_assert_eq(view->processor, 0);
    cr_assert_str_eq(view->reason, "ticket 4711");
    cr_assert_str_eq(view->actor, WORLD_ACTOR);
    cr_assert_eq(world_count_events(&rig_world, "record_skipped"), 1);
    cr_assert_eq(count_told("a1", 0), 1);
    cr_assert_eq(count_told("a1", 1), 0, "who does not read the partition need not know");
    world_restart(&rig_world);
    cr_assert_eq(count_told("a1", 0), 1);
    ask("orders", 4, 17);
    world_expect_status(&rig_world, 200);
    cr_assert_eq(rig_world.update.changes.count, 0);
}

Test(skip, of_any_other_record_is_refused)
{
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    ask("orders", 4, 17);
    cr_assert_not_null(strstr(world_expect_problem(&rig_world, "skip_refused")->detail, "active"));
    halt_at("a1", 4, 17);
    ask("orders", 4, 16);
    cr_assert_not_null(
        strstr(world_expect_problem(&rig_world, "skip_refused")->detail, "is in its state"));
    ask("orders", 4, 18);
    cr_assert_not_null(
        strstr(world_expect_problem(&rig_world, "skip_refused")->detail, "another record"));
    ask("orders", 0, 17);
    world_expect_problem(&rig_world, "skip_refused");
    ask("orders", 8, 17);
    world_expect_problem(&rig_world, "skip_refused");
    ask("other", 4, 17);
    world_expect_problem(&rig_world, "skip_refused");
    cr_assert_eq(count_told("a1", 0), 0);
}

Test(skip, of_what_an_owner_said_under_an_older_epoch_is_refused)
{
    halt_at("a1", 4, 17);
    world_pass(&rig_world, 5000);
    world_register(&rig_world, "a1", 9); /* it may have passed the record by now */
    ask("orders", 4, 17);
    world_expect_problem(&rig_world, "skip_refused");
}

Test(skip, of_an_unknown_job_or_one_that_goes_is_refused)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_SKIP, "nothing");
    event.skip.topic = mem_strdup("orders");
    world_step(&rig_world, event);
    world_expect_problem(&rig_world, "job_not_found");
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_JOB_DELETE, "j1"));
    ask("orders", 4, 17);
    world_expect_problem(&rig_world, "job_deleting");
}

Test(skip, are_no_more_of_a_partition_than_its_limit)
{
    for (int64_t i = 0; i < API_SKIPS_PARTITION_MAX; i++) {
        halt_at("a1", 4, 1000 - i); /* whatever their order */
        ask("orders", 4, 1000 - i);
        world_expect_status(&rig_world, 201);
    }
    halt_at("a1", 4, 2000);
    ask("orders", 4, 2000);
    world_expect_problem(&rig_world, "limit_reached");
    halt_at("a1", 0, 2000);
    ask("orders", 0, 2000);
    world_expect_status(&rig_world, 201);
}

static size_t count_followed(const char *agent_id, struct agent_report report)
{
    world_send_report(&rig_world, agent_id, report);
    return ((const struct report_answer *)world_answer(&rig_world)->body)->follow.count;
}

/* Else it could give the record to its logic. */
Test(skip, a_learner_follows_nobody_before_it_knows_it)
{
    rig_bring_to(HANDOFF_STATE_LEARNING);
    struct agent_report old = world_report_of(&rig_world, "a2", TASK_STATE_LEARNING);
    halt_at("a1", 4, 17);
    ask("orders", 4, 17);
    world_expect_status(&rig_world, 201);
    cr_assert_eq(count_told("a2", 0), 1);
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++)
        if (report.tasks.items[i].processor == 0)
            add_progress(&report.tasks.items[i], 4, 40, 40);
    world_send_report(&rig_world, "a1", report);
    cr_assert_eq(count_followed("a2", old), 0);
    cr_assert_eq(count_followed("a2", world_report_of(&rig_world, "a2", TASK_STATE_LEARNING)), 1);
}

/* S31 */
Test(skip, a_hand_over_whose_target_it_stops_is_done)
{
    rig_bring_to(HANDOFF_STATE_ACTIVATING);
    halt_at("a2", 4, 17);
    cr_assert_null(rig_handoff(0));
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
    cr_assert_str_eq(rig_placement(0)->trouble, "record_failed");
    ask("orders", 4, 17);
    world_expect_status(&rig_world, 201);
}
