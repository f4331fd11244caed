/* Committed offsets that somebody chooses for owners that wait because of them. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(offsets, .init = rig_setup, .fini = rig_teardown);

static void ask_with(struct offsets_request wish)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_OFFSETS, "j1");
    event.offsets = wish;
    world_step(&rig_world, event);
}

static void ask(enum offsets_action action)
{
    ask_with((struct offsets_request){.action = action, .reason = mem_strdup("a mistake")});
}

/* Processor 0 has partitions 0 and 4. */
static void add_progress(struct task_report *task, int64_t t1, int64_t t2)
{
    task->progress.items = mem_calloc(2, sizeof(*task->progress.items));
    task->progress.count = 2;
    for (uint32_t i = 0; i < 2; i++)
        task->progress.items[i] = (struct partition_progress){
            .partition = 4 * i, .t0 = 5, .t1 = t1, .t2 = t2, .log_start = 0, .end = 100};
}

static void work(int64_t t1)
{
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++)
        if (report.tasks.items[i].processor == 0)
            add_progress(&report.tasks.items[i], t1, t1);
    world_send_report(&rig_world, "a1", report);
}

/* Processor 0 waits: of partition 4 this is committed; T2 is 30. */
static void halt_at(int64_t found)
{
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        if (task->processor != 0)
            continue;
        task->state = TASK_STATE_FAILED;
        task->problems.items = mem_calloc(1, sizeof(*task->problems.items));
        task->problems.count = 1;
        task->problems.items[0] = (struct task_problem){.code = mem_strdup("offsets_changed"),
                                                        .detail = mem_strdup("a tool")};
        task->found.items = mem_calloc(1, sizeof(*task->found.items));
        task->found.count = 1;
        task->found.items[0] = (struct input_offset){.partition = 4, .offset = found};
        add_progress(task, API_UNKNOWN, 30);
    }
    world_send_report(&rig_world, "a1", report);
}

static const struct offset_choice_view *answered(void)
{
    world_expect_status(&rig_world, 200);
    const struct offsets_view *view = world_answer(&rig_world)->body;
    cr_assert_eq(view->offsets.count, 1);
    return &view->offsets.items[0];
}

static struct chosen_offset told(void)
{
    struct agent_document document;
    cluster_document(&rig_world.cluster, cluster_agent(&rig_world.cluster, "a1"), &document);
    cr_assert_eq(document.tasks.items[0].chosen.count, 1);
    struct chosen_offset chosen = document.tasks.items[0].chosen.items[0];
    schema_free(&schema_agent_document, &document);
    return chosen;
}

Test(offsets, restored_are_those_that_were_told_last)
{
    work(42);
    halt_at(20);
    uint64_t epoch = rig_placement(0)->epoch;
    ask(OFFSETS_ACTION_RESTORE);
    cr_assert_eq(answered()->found, 20);
    cr_assert_eq(answered()->offset, 42);
    cr_assert_eq(world_count_events(&rig_world, "offsets_restored"), 1);
    cr_assert_gt(rig_placement(0)->epoch, epoch);
    cr_assert_eq(told().partition, 4);
    cr_assert_eq(told().found, 20);
    cr_assert_eq(told().offset, 42);
    world_restart(&rig_world);
    cr_assert_eq(told().offset, 42);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(rig_placement(0)->chosen.count, 0);
}

Test(offsets, t1_that_was_told_last_outlives_a_restart)
{
    work(42);
    world_pass(&rig_world, 1000); /* it is stored */
    halt_at(20);
    world_restart(&rig_world);
    world_pass(&rig_world, 15000);
    halt_at(20);
    ask(OFFSETS_ACTION_RESTORE);
    cr_assert_eq(answered()->offset, 42);
}

Test(offsets, restored_are_not_below_what_the_state_has_learned)
{
    work(25);
    halt_at(API_UNKNOWN);
    ask(OFFSETS_ACTION_RESTORE);
    cr_assert_eq(answered()->found, API_UNKNOWN);
    cr_assert_eq(answered()->offset, 30);
}

Test(offsets, accepted_are_those_that_were_found)
{
    work(42);
    halt_at(60);
    ask(OFFSETS_ACTION_ACCEPT);
    cr_assert_eq(answered()->offset, 60);
    cr_assert_eq(told().found, 60);
    cr_assert_eq(told().offset, 60);
    cr_assert_eq(world_count_events(&rig_world, "offsets_accepted"), 1);
}

Test(offsets, tried_out_nothing_changes)
{
    halt_at(60);
    ask_with((struct offsets_request){.action = OFFSETS_ACTION_ACCEPT, .dry_run = true});
    cr_assert_eq(answered()->offset, 60);
    cr_assert_eq(rig_world.update.changes.count, 0);
}

static void expect_refused(const char *why)
{
    const struct problem_body *problem = world_expect_problem(&rig_world, "offsets_refused");
    cr_assert_not_null(strstr(problem->detail, why), "%s", problem->detail);
    cr_assert_eq(rig_world.update.changes.count, 0);
}

Test(offsets, that_can_not_be_taken_are_refused)
{
    work(42);
    ask(OFFSETS_ACTION_ACCEPT);
    expect_refused("no processor");
    halt_at(4);
    ask(OFFSETS_ACTION_ACCEPT);
    expect_refused("below T0");
    halt_at(101);
    ask(OFFSETS_ACTION_ACCEPT);
    expect_refused("past the end");
    halt_at(API_UNKNOWN);
    ask(OFFSETS_ACTION_ACCEPT);
    expect_refused("restore it");
}

static void ask_for(uint32_t first, uint32_t second)
{
    struct offsets_request wish = {.action = OFFSETS_ACTION_ACCEPT};
    wish.processors.items = mem_calloc(2, sizeof(uint32_t));
    wish.processors.items[0] = first;
    wish.processors.items[1] = second;
    wish.processors.count = 2;
    ask_with(wish);
}

Test(offsets, are_chosen_for_all_that_are_named_or_for_none)
{
    halt_at(60);
    ask_for(0, 1);
    expect_refused("processor 1 does not wait");
    ask_for(0, 0);
    expect_refused("named twice");
    ask_for(0, 4);
    world_expect_problem(&rig_world, "processor_not_found");
    cr_assert_eq(rig_placement(0)->chosen.count, 0);
}

Test(offsets, a_choice_goes_with_the_processor)
{
    rig_add_established();
    halt_at(60);
    ask(OFFSETS_ACTION_ACCEPT);
    for (int i = 0; i < 90; i++) { /* a1 is gone */
        world_pass(&rig_world, 500);
        world_report(&rig_world, "a2", TASK_STATE_REPLAYING);
    }
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
    cr_assert_eq(rig_placement(0)->chosen.count, 1);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_eq(rig_placement(0)->chosen.count, 0);
}

/* ---- the database is lost or old, and the owner knows what was chosen */

static struct world
    old; /* the coordinator on another database; rig_world is the cluster as it is */

static void recover(struct cluster *database)
{
    database->config.recover = true;
    world_init_from(&old, database, NULL, NULL);
    struct coord_event event = world_event(&old, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration_of(&rig_world, "a1");
    world_step(&old, event);
    world_reply_all_well(&old);
    world_pass(&old, WORLD_TIMEOUT_MS);
    cr_assert_eq(old.cluster.recovery.state, RECOVERY_NONE);
}

static void finish_old(void) /* the suite's own comes after it */
{
    world_finish(&old);
}

Test(offsets, chosen_ones_are_kept_by_a_recovery, .fini = finish_old)
{
    struct cluster copy;
    work(42);
    halt_at(20);
    world_copy(&copy, &rig_world.cluster);
    ask(OFFSETS_ACTION_RESTORE);
    recover(&copy);
    const struct placement_row *placement = world_placement(&old, "j1", 0);
    cr_assert_eq(placement->chosen.count, 1);
    cr_assert_eq(placement->chosen.items[0].partition, 4);
    cr_assert_eq(placement->chosen.items[0].found, 20);
    cr_assert_eq(placement->chosen.items[0].offset, 42);
}

Test(offsets, chosen_ones_that_were_carried_out_do_not_come_back_with_an_old_database,
     .fini = finish_old)
{
    struct cluster copy;
    work(42);
    halt_at(20);
    ask(OFFSETS_ACTION_RESTORE);
    world_copy(&copy, &rig_world.cluster);
    cr_assert_eq(told().offset, 42);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(rig_placement(0)->chosen.count, 0);
    recover(&copy);
    cr_assert_eq(world_placement(&old, "j1", 0)->chosen.count, 0);
}
