/* Jobs that are paused and resumed, and planned hand-overs that are held back. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(pause, .init = rig_setup, .fini = rig_teardown);

#define GRACE_MS 30000 /* rejoin_grace of world_spec */

static void ask(enum coord_event_kind kind, const char *reason)
{
    struct coord_event event = world_event(&rig_world, kind, "j1");
    event.reason = reason != NULL ? mem_strdup(reason) : NULL;
    world_step(&rig_world, event);
}

static void pause_job(void)
{
    ask(COORD_EVENT_PAUSE, "a test");
    world_expect_status(&rig_world, 200);
}

static void resume_job(void)
{
    ask(COORD_EVENT_RESUME, NULL);
    world_expect_status(&rig_world, 200);
}

static void set_maintenance(bool enabled)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_MAINTENANCE, NULL);
    event.maintenance.enabled = enabled;
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 200);
}

static const struct pause_view *answered(void)
{
    world_expect_status(&rig_world, 200);
    return &((const struct job_view *)world_answer(&rig_world)->body)->pause;
}

static bool is_told(const char *agent_id)
{
    struct agent_document document;
    cluster_document(&rig_world.cluster, cluster_agent(&rig_world.cluster, agent_id), &document);
    cr_assert_eq(document.jobs.count, 1);
    bool paused = document.jobs.items[0].paused;
    schema_free(&schema_agent_document, &document);
    return paused;
}

/* The owner says that it rests, at this T1 of each partition. */
static void report_paused(const char *agent_id, int64_t t1)
{
    struct agent_report report = world_report_of(&rig_world, agent_id, TASK_STATE_PAUSED);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        struct uint_list owned;
        cluster_owned_partitions(cluster_job(&rig_world.cluster, "j1"), task->processor, &owned);
        task->progress.items = mem_calloc(owned.count, sizeof(*task->progress.items));
        for (size_t k = 0; k < owned.count; k++)
            task->progress.items[task->progress.count++] = (struct partition_progress){
                .partition = owned.items[k], .t0 = 0, .t1 = t1, .t2 = t1};
        free(owned.items);
    }
    world_send_report(&rig_world, agent_id, report);
}

static uint64_t epoch_of(uint32_t number)
{
    return rig_placement(number)->epoch;
}

/* ---- the request */

Test(pause, says_who_when_and_why_and_repeats_nothing)
{
    ask(COORD_EVENT_PAUSE, "a disk");
    cr_assert(answered()->paused);
    cr_assert_str_eq(answered()->reason, "a disk");
    cr_assert_str_eq(answered()->actor, WORLD_ACTOR);
    cr_assert_eq(answered()->changed_at, rig_world.now_at);
    cr_assert_eq(world_count_events(&rig_world, "job_paused"), 1);
    int64_t at = rig_world.now_at;
    uint64_t epoch = epoch_of(0);
    world_pass(&rig_world, 5000);
    ask(COORD_EVENT_PAUSE, "a disk");
    cr_assert_eq(answered()->changed_at, at);
    cr_assert_eq(rig_world.update.changes.count, 0);
    ask(COORD_EVENT_PAUSE, "two disks"); /* it is the same pause still */
    cr_assert_str_eq(answered()->reason, "two disks");
    cr_assert_eq(answered()->changed_at, at);
    cr_assert_eq(epoch_of(0), epoch);
    ask(COORD_EVENT_RESUME, "mended");
    cr_assert_not(answered()->paused);
    cr_assert_eq(world_count_events(&rig_world, "job_resumed"), 1);
    epoch = epoch_of(0);
    ask(COORD_EVENT_RESUME, "mended");
    cr_assert_not(answered()->paused);
    cr_assert_eq(rig_world.update.changes.count, 0);
    cr_assert_eq(epoch_of(0), epoch);
}

Test(pause, of_an_unknown_job_or_one_that_goes_is_refused)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_PAUSE, "nothing");
    world_step(&rig_world, event);
    world_expect_problem(&rig_world, "job_not_found");
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_JOB_DELETE, "j1"));
    ask(COORD_EVENT_PAUSE, NULL);
    world_expect_problem(&rig_world, "job_deleting");
}

Test(pause, moves_are_refused_meanwhile)
{
    rig_add_established();
    pause_job();
    rig_move(0, "a2");
    world_expect_problem(&rig_world, "move_refused");
    rig_rebalance();
    world_expect_problem(&rig_world, "move_refused");
    resume_job();
    rig_move(0, "a2");
    world_expect_status(&rig_world, 202);
}

/* ---- owners */

Test(pause, owners_keep_what_they_have_and_are_told)
{
    uint64_t epoch = epoch_of(2);
    cr_assert_not(is_told("a1"));
    pause_job();
    cr_assert(is_told("a1"));
    cr_assert_eq(epoch_of(2), epoch);
    report_paused("a1", 10);
    cr_assert_eq(world_count_events(&rig_world, "processor_paused"), 4);
    cr_assert_eq(rig_placement(2)->paused_t1.count, 2);
    cr_assert_eq(rig_placement(2)->paused_t1.items[1].offset, 10);
    report_paused("a1", 10);
    cr_assert_eq(rig_world.update.changes.count, 0);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
}

Test(pause, resumed_each_has_a_new_epoch_and_hears_where_it_stood)
{
    pause_job();
    report_paused("a1", 10);
    uint64_t epoch = epoch_of(0);
    resume_job();
    cr_assert_gt(epoch_of(0), epoch);
    cr_assert_not(is_told("a1"));
    struct agent_document document;
    cluster_document(&rig_world.cluster, cluster_agent(&rig_world.cluster, "a1"), &document);
    cr_assert_eq(document.tasks.items[0].paused_t1.count, 2);
    cr_assert_eq(document.tasks.items[0].paused_t1.items[0].offset, 10);
    schema_free(&schema_agent_document, &document);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(rig_placement(0)->paused_t1.count, 0);
    cr_assert_eq(world_count_events(&rig_world, "offsets_accepted"), 0);
}

Test(pause, offsets_that_an_owner_took_over_are_an_event)
{
    pause_job();
    report_paused("a1", 10);
    resume_job();
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    struct task_report *task = &report.tasks.items[1];
    task->problems.items = mem_calloc(1, sizeof(*task->problems.items));
    task->problems.count = 1;
    task->problems.items[0] = (struct task_problem){.code = mem_strdup("offsets_accepted"),
                                                    .detail = mem_strdup("at 75")};
    world_send_report(&rig_world, "a1", report);
    cr_assert_eq(world_count_events(&rig_world, "offsets_accepted"), 1);
}

Test(pause, what_an_owner_says_of_an_older_epoch_is_nothing)
{
    pause_job();
    struct agent_report old = world_report_of(&rig_world, "a1", TASK_STATE_PAUSED);
    resume_job();
    world_send_report(&rig_world, "a1", old);
    cr_assert_eq(world_count_events(&rig_world, "processor_paused"), 0);
}

Test(pause, outlives_starts_of_agent_and_coordinator)
{
    pause_job();
    report_paused("a1", 10);
    world_restart(&rig_world);
    cr_assert(cluster_job(&rig_world.cluster, "j1")->row.pause.on);
    cr_assert_eq(rig_placement(0)->paused_t1.count, 2);
    world_pass(&rig_world, 5000);
    uint64_t epoch = epoch_of(0);
    world_register(&rig_world, "a1", 9);
    cr_assert_gt(epoch_of(0), epoch);
    cr_assert(is_told("a1"));
    cr_assert_eq(rig_placement(0)->paused_t1.count, 2);
}

Test(pause, a_lost_owner_is_replaced_by_one_that_is_paused)
{
    rig_add_established();
    pause_job();
    report_paused("a1", 10);
    for (int i = 0; i < (GRACE_MS + 15000) / 500; i++) {
        world_pass(&rig_world, 500);
        world_report(&rig_world, "a2", TASK_STATE_REPLAYING);
    }
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
    cr_assert(is_told("a2"));
    cr_assert_eq(rig_placement(0)->paused_t1.count, 2);
    rig_expect_state(0, HANDOFF_STATE_ACTIVATING);
    report_paused("a2", 10);
    cr_assert_null(rig_handoff(0));
}

/* ---- hand-overs */

Test(pause, cancels_what_was_not_released)
{
    static const enum handoff_state states[] = {HANDOFF_STATE_LEARNING, HANDOFF_STATE_CAUGHT_UP,
                                                HANDOFF_STATE_RELEASING};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (i > 0) {
            rig_teardown();
            rig_setup();
        }
        rig_bring_to(states[i]);
        uint64_t operation = rig_handoff(0)->row.operation, epoch = epoch_of(0);
        pause_job();
        cr_assert_null(rig_handoff(0));
        cr_assert_eq(rig_operation(operation)->state, OPERATION_STATE_CANCELLED);
        cr_assert_str_eq(rig_placement(0)->agent, "a1");
        /* Whether it has stopped already nobody knows: only a new epoch tells. */
        cr_assert_eq(epoch_of(0) > epoch, states[i] == HANDOFF_STATE_RELEASING);
    }
}

Test(pause, lets_what_was_released_arrive)
{
    rig_bring_to(HANDOFF_STATE_RELEASED);
    uint64_t operation = rig_handoff(0)->row.operation;
    pause_job();
    cr_assert_not_null(rig_handoff(0));
    cr_assert(is_told("a2"));
    report_paused("a2", 10);
    cr_assert_null(rig_handoff(0));
    cr_assert_eq(rig_operation(operation)->state, OPERATION_STATE_SUCCEEDED);
    cr_assert_str_eq(rig_placement(0)->agent, "a2");
}

Test(pause, resumed_before_it_arrived_the_target_has_the_new_epoch)
{
    rig_bring_to(HANDOFF_STATE_ACTIVATING);
    pause_job();
    resume_job();
    cr_assert_eq(rig_handoff(0)->row.target_epoch, epoch_of(0));
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_null(rig_handoff(0));
}

Test(pause, newcomers_wait_and_get_their_share_afterwards)
{
    pause_job();
    world_register(&rig_world, "a2", 2);
    world_pass_reporting(&rig_world, 5000, rig_both);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
    size_t waiting = 0;
    for (uint32_t i = 0; i < 4; i++)
        waiting += rig_processor(i)->waits != NULL &&
                   strstr(rig_processor(i)->waits, "the job is paused") != NULL;
    cr_assert_eq(waiting, 2);
    resume_job();
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

/* ---- maintenance */

Test(pause, maintenance_says_who_when_and_why_and_outlives_a_start)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_MAINTENANCE, NULL);
    event.maintenance.enabled = true;
    event.maintenance.reason = mem_strdup("brokers");
    world_step(&rig_world, event);
    const struct maintenance_view *view = world_answer(&rig_world)->body;
    cr_assert(view->enabled);
    cr_assert_str_eq(view->reason, "brokers");
    cr_assert_str_eq(view->actor, WORLD_ACTOR);
    cr_assert_eq(view->changed_at, rig_world.now_at);
    cr_assert_eq(world_count_events(&rig_world, "maintenance_on"), 1);
    world_restart(&rig_world);
    cr_assert(rig_world.cluster.maintenance.hold.on);
    set_maintenance(false);
    cr_assert_eq(world_count_events(&rig_world, "maintenance_off"), 1);
    set_maintenance(false);
    cr_assert_eq(rig_world.update.changes.count, 0);
}

Test(pause, maintenance_holds_newcomers_back)
{
    set_maintenance(true);
    world_register(&rig_world, "a2", 2);
    world_pass_reporting(&rig_world, 60000, rig_both);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 0);
    set_maintenance(false);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

Test(pause, maintenance_lets_what_is_under_way_and_what_is_asked_for_go_on)
{
    world_register(&rig_world, "a2", 2);
    cr_assert_gt(rig_world.cluster.handoffs.count, 0);
    set_maintenance(true);
    world_register(&rig_world, "a3", 3); /* who would be better off with some of it */
    world_calm_down(&rig_world, rig_three);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a3"), 0);
    uint32_t number = 0;
    while (strcmp(rig_placement(number)->agent, "a1") != 0)
        number++;
    rig_move(number, "a3");
    world_expect_status(&rig_world, 202);
    world_calm_down(&rig_world, rig_three);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a3"), 1);
}

Test(pause, maintenance_lets_a_rebalance_go_on)
{
    set_maintenance(true);
    world_register(&rig_world, "a2", 2);
    rig_rebalance();
    world_expect_status(&rig_world, 202);
    world_calm_down(&rig_world, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 2);
}

Test(pause, maintenance_lets_others_take_over_from_the_lost)
{
    rig_add_established();
    set_maintenance(true);
    world_pass_reporting(&rig_world, GRACE_MS + 15000, rig_a2);
    world_calm_down(&rig_world, rig_a2);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
}

static void drain(int64_t deadline_ms)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_DRAIN, "a1");
    event.drain =
        (struct drain_request){.deadline_ms = deadline_ms, .on_deadline = DRAIN_DEADLINE_FORCE};
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 202);
}

Test(pause, maintenance_holds_drains_back_but_not_their_deadlines)
{
    rig_add_established();
    set_maintenance(true);
    drain(60000);
    world_pass_reporting(&rig_world, 50000, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
    cr_assert_not_null(strstr(rig_processor(0)->waits, "maintenance"));
    world_pass_reporting(&rig_world, 15000, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
}

Test(pause, a_paused_job_keeps_a_drain_waiting_until_its_deadline)
{
    rig_add_established();
    pause_job();
    report_paused("a1", 10);
    drain(60000);
    for (int i = 0; i < 100; i++) {
        world_pass(&rig_world, 500);
        report_paused("a1", 10);
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    }
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
    cr_assert_not_null(strstr(rig_processor(0)->waits, "the job is paused"));
    world_pass_reporting(&rig_world, 15000, rig_both);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
    cr_assert(is_told("a2"));
}
