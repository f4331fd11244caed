/* Expansions as readers see them: how far, how long, what they wait for, what to do about it. j1
 * has processors 0 to 3 of 8 partitions on a1; a2 is there, and gets processor 4, with partition 4.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/view.h"
#include "coordinator/metrics.h"
#include "coordinator/publish.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;
static const char *const both[] = {"a1", "a2", NULL};

static void setup(void)
{
    world_init(&world);
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    world_report(&world, "a1", TASK_STATE_ACTIVE);
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(publish_operation, .init = setup, .fini = teardown);

static void expand(int64_t processors, int64_t partitions)
{
    struct coord_event event = world_event(&world, COORD_EVENT_EXPAND, "j1");
    event.expansion = (struct expansion_request){processors, partitions, false, mem_strdup("grow")};
    world_step(&world, event);
    world_expect_status(&world, 202);
}

/* a2 has come, and is not owed anything: only the split moves. */
static void add_a2(void)
{
    world_register(&world, "a2", 2);
    while (world.cluster.handoffs.count > 0) {
        struct coord_event event = world_event(&world, COORD_EVENT_HANDOFF_CANCEL, NULL);
        event.handoff = world.cluster.handoffs.items[0]->row.id;
        world_step(&world, event);
        world_expect_status(&world, 200);
    }
    world_pass_reporting(&world, 15000, both);
    cr_assert_eq(world.cluster.handoffs.count, 0);
}

/* The newest operation; free with schema_free. */
static struct operation_view newest(void)
{
    const struct operation *operation =
        world.cluster.operations.items[world.cluster.operations.count - 1];
    struct operation_view view;
    view_operation(&operation->row, &view);
    publish_complete_operation(&world.cluster, operation, &view);
    return view;
}

static void expect_waiting(const char *waiting, const char *action)
{
    struct operation_view view = newest();
    cr_assert_not_null(view.waiting);
    cr_assert_not_null(strstr(view.waiting, waiting), "%s", view.waiting);
    if (action == NULL)
        cr_assert_null(view.action, "%s", view.action);
    else
        cr_assert(view.action != NULL && strstr(view.action, action) != NULL, "%s", view.action);
    schema_free(&schema_operation_view, &view);
}

static void add_progress(struct task_report *task, int64_t t2)
{
    const struct job *job = cluster_job(&world.cluster, "j1");
    struct uint_list read;
    cluster_read_partitions(job, task->processor, &read);
    task->progress.items = mem_calloc(read.count, sizeof(*task->progress.items));
    task->progress.count = read.count;
    for (size_t i = 0; i < read.count; i++)
        task->progress.items[i] = (struct partition_progress){
            .partition = read.items[i], .t1 = 900, .t2 = t2, .stable_end = 900, .end = 900};
    free(read.items);
}

static void tell(const char *agent_id, enum task_state state, int64_t t2, double replayed_per_s)
{
    struct agent_report report = world_report_of(&world, agent_id, state);
    for (size_t i = 0; i < report.tasks.count; i++) {
        add_progress(&report.tasks.items[i], t2);
        report.tasks.items[i].replayed_per_s = replayed_per_s;
    }
    world_send_report(&world, agent_id, report);
}

/* What the view says of it, a DELETE does. */
static void expect_cancellable(bool cancellable)
{
    struct operation_view view = newest();
    cr_assert_eq(view.cancellable, cancellable);
    schema_free(&schema_operation_view, &view);
    struct coord_event event = world_event(&world, COORD_EVENT_OPERATION_CANCEL, "j1");
    event.operation = world.cluster.meta.operation_id;
    world_step(&world, event);
    if (cancellable)
        world_expect_status(&world, 200);
    else
        (void)world_expect_problem(&world, "operation_not_cancellable");
}

static void expect_counts(const struct operation_view *view, int64_t number, int64_t steps,
                          int64_t reached)
{
    cr_assert_eq(view->step_number, number, "step %lld", (long long)view->step_number);
    cr_assert_eq(view->steps, steps, "of %lld", (long long)view->steps);
    cr_assert_eq(view->reached, reached, "reached %lld", (long long)view->reached);
}

Test(publish_operation, tells_which_split_runs_and_how_long_all_take)
{
    add_a2();
    tell("a1", TASK_STATE_ACTIVE, 900, 0);
    expand(7, API_UNKNOWN);
    struct operation_view view = newest();
    expect_counts(&view, 1, 3, 4);
    cr_assert_eq(view.from, 4);
    cr_assert_eq(view.to, 7);
    cr_assert_str_eq(view.actor, WORLD_ACTOR);
    cr_assert_str_eq(view.reason, "grow");
    cr_assert_eq(view.handoff, (int64_t)world.cluster.handoffs.items[0]->row.id);
    cr_assert_eq(view.eta_ms, API_UNKNOWN, "nobody has learned anything of it yet");
    cr_assert(view.cancellable);
    schema_free(&schema_operation_view, &view);
    expect_waiting("processor 4, split off 0, to agent a2, learning: agent a2 has not reported",
                   NULL);
    tell("a2", TASK_STATE_LEARNING, 300, 400);
    view = newest();
    cr_assert_eq(view.eta_ms, 1500 + 2 * 900 * 1000 / 400, "600 to go, and two partitions of 900");
    schema_free(&schema_operation_view, &view);
    expect_waiting("600 records to go", NULL);
}

Test(publish_operation, counts_on_as_splits_are_released)
{
    add_a2();
    expand(6, API_UNKNOWN);
    world_report(&world, "a2", TASK_STATE_ACTIVE);
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(cluster_job(&world.cluster, "j1")->row.processors, 5);
    struct operation_view view = newest();
    expect_counts(&view, 2, 2, 5);
    cr_assert(view.cancellable, "the last one has not begun");
    schema_free(&schema_operation_view, &view);
    for (int i = 0; i < 20 && world.cluster.handoffs.count > 0 &&
                    world.cluster.handoffs.items[0]->row.processor == 4;
         i++)
        world_report(&world, i % 2 == 0 ? "a2" : "a1", TASK_STATE_ACTIVE);
    while (cluster_nascent(cluster_job(&world.cluster, "j1"))->handoff->row.state !=
           HANDOFF_STATE_RELEASING)
        world_report(&world, "a2", TASK_STATE_ACTIVE);
    expect_cancellable(false); /* its source has been told */
    world_calm_down(&world, both);
    view = newest();
    expect_counts(&view, 2, 2, 6);
    cr_assert_eq(view.state, OPERATION_STATE_SUCCEEDED);
    cr_assert_null(view.waiting);
    cr_assert_eq(view.handoff, API_UNKNOWN);
    cr_assert_not(view.cancellable);
    schema_free(&schema_operation_view, &view);
}

Test(publish_operation, a_cancelled_one_keeps_how_far_it_got)
{
    add_a2();
    expand(7, API_UNKNOWN);
    world_report(&world, "a2", TASK_STATE_ACTIVE);
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    expect_cancellable(true);
    world_calm_down(&world, both);
    world_restart(&world);
    struct operation_view view = newest();
    cr_assert_eq(view.state, OPERATION_STATE_CANCELLED);
    expect_counts(&view, 2, 3, 5);
    cr_assert_null(view.action);
    schema_free(&schema_operation_view, &view);
}

Test(publish_operation, says_why_no_split_begins_and_what_to_do)
{
    world_report(&world, "a1", TASK_STATE_REPLAYING);
    expand(5, API_UNKNOWN);
    expect_waiting("the processor to be split is not active", "goes on by itself");
    struct operation_view view = newest();
    cr_assert_eq(view.eta_ms, API_UNKNOWN);
    cr_assert_eq(view.handoff, API_UNKNOWN);
    cr_assert_eq(strncmp(view.waiting, "waits", 5) == 0, false, "%s", view.waiting);
    schema_free(&schema_operation_view, &view);
}

static void fail(const char *code)
{
    struct agent_report report = world_report_of(&world, "a2", TASK_STATE_FAILED);
    struct task_report *task = &report.tasks.items[0];
    task->problems.items = mem_calloc(1, sizeof(struct task_problem));
    task->problems.count = 1;
    task->problems.items[0] =
        (struct task_problem){.code = mem_strdup(code), .detail = mem_strdup("see there")};
    world_send_report(&world, "a2", report);
}

Test(publish_operation, advises_by_what_its_learner_is_stuck_with)
{
    add_a2();
    expand(5, API_UNKNOWN);
    fail("store_failed");
    expect_waiting("store_failed: see there", "disk");
    fail("history_incomplete");
    struct operation_view view = newest();
    cr_assert_eq(view.state, OPERATION_STATE_FAILED);
    cr_assert_not_null(strstr(view.error, "history_incomplete"), "%s", view.error);
    cr_assert_not_null(strstr(view.action, "ask for 5 processors again"), "%s", view.action);
    expect_counts(&view, 1, 1, 4);
    schema_free(&schema_operation_view, &view);
}

/* The source is told to split 4 off 0. */
static void release(void)
{
    add_a2();
    expand(5, API_UNKNOWN);
    world_report(&world, "a2", TASK_STATE_ACTIVE);
    cr_assert_eq(world.cluster.handoffs.items[0]->row.state, HANDOFF_STATE_RELEASING);
}

static void expect_stuck(const char *code)
{
    struct handoff_view view;
    view_handoff(&world.cluster.handoffs.items[0]->row, &view);
    publish_complete_handoff(&world.cluster, world.cluster.handoffs.items[0], &view);
    cr_assert_eq(view.state, HANDOFF_STATE_RELEASING);
    if (code == NULL)
        cr_assert_null(view.stuck, "%s", view.stuck);
    else
        cr_assert_str_eq(view.stuck, code);
    schema_free(&schema_handoff_view, &view);
}

/* The source does not get to it. */
static void hold_up(enum task_state state, const char *code)
{
    struct agent_report report = world_report_of(&world, "a1", state);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->split = 0;
        if (code == NULL)
            continue;
        task->problems.items = mem_calloc(1, sizeof(struct task_problem));
        task->problems.count = 1;
        task->problems.items[0] =
            (struct task_problem){.code = mem_strdup(code), .detail = mem_strdup("offset 12: no")};
    }
    world_send_report(&world, "a1", report);
}

Test(publish_operation, a_release_waits_for_the_owner_of_the_parent)
{
    release();
    expect_waiting("releasing: the source commits the partitions that go", NULL);
    expect_stuck(NULL);
    hold_up(TASK_STATE_FAILED, "record_failed");
    expect_waiting("releasing: processor 0 is failed on agent a1 (record_failed: offset 12: no)",
                   "record");
    expect_stuck("record_failed");
    hold_up(TASK_STATE_REPLAYING, NULL);
    expect_waiting("releasing: processor 0 is replaying on agent a1: it commits", NULL);
    expect_stuck(NULL);
    world_pass(&world, 60000);
    cr_assert_eq(cluster_agent(&world.cluster, "a1")->row.state, AGENT_STATE_LOST);
    expect_waiting("releasing: the owner of processor 0 is not heard of", "/v1/agents/a1");
    expect_stuck("source_not_heard");
}

Test(publish_operation, before_the_release_its_hand_over_says_what_the_operation_waits_for)
{
    struct handoff_view view;
    add_a2();
    expand(5, API_UNKNOWN);
    world_report(&world, "a1", TASK_STATE_REPLAYING);
    world_report(&world, "a2", TASK_STATE_ACTIVE);
    struct operation *operation =
        world.cluster.operations.items[world.cluster.operations.count - 1];
    cr_assert_null(operation->row.error);
    for (int noted = 0; noted < 2; noted++) {
        if (noted)
            operation->row.error = mem_strdup("waits: settle windows are open");
        view_handoff(&world.cluster.handoffs.items[0]->row, &view);
        publish_complete_handoff(&world.cluster, world.cluster.handoffs.items[0], &view);
        cr_assert_eq(view.state, HANDOFF_STATE_CAUGHT_UP);
        cr_assert_str_eq(view.waiting,
                         noted ? "the target has caught up; settle windows are open"
                               : "the target has caught up; the source is not active, or about to "
                                 "leave");
        schema_free(&schema_handoff_view, &view);
    }
}

Test(publish_operation, a_release_waits_while_the_job_is_held)
{
    release();
    world_step(&world, world_event(&world, COORD_EVENT_PAUSE, "j1"));
    expect_waiting("releasing: the job is paused", "Resume the job");
    expect_stuck(NULL);
    cluster_job(&world.cluster, "j1")->row.pause.on = false;
    cluster_job(&world.cluster, "j1")->row.group.hold = GROUP_HOLD_FROZEN;
    expect_waiting("releasing: others are in the job's group", "Let the others leave");
    expect_stuck("group_intruded");
    cluster_job(&world.cluster, "j1")->row.group.hold = GROUP_HOLD_WAITING;
    expect_stuck("group_awaited");
}

/* ---- partitions */

static void serve(enum kafka_call_kind kind)
{
    while (world.calls.count > 0 && world.calls.items[0].kind != kind)
        world_reply_well(&world);
    cr_assert_gt(world.calls.count, 0);
    cr_assert_eq(world.calls.items[0].kind, kind);
}

Test(publish_operation, tells_which_step_of_more_partitions_runs)
{
    expand(API_UNKNOWN, 16);
    struct operation_view view = newest();
    expect_counts(&view, 1, 4, 8);
    cr_assert_eq(view.from, 8);
    cr_assert_eq(view.to, 16);
    cr_assert(view.cancellable);
    schema_free(&schema_operation_view, &view);
    serve(KAFKA_CALL_CREATE_PARTITIONS);
    expect_waiting("Kafka has not answered yet", NULL);
    world_reply_failed(&world, "no controller", false);
    expect_waiting("no controller", "goes on by itself");
    view = newest();
    expect_counts(&view, 3, 4, 8);
    schema_free(&schema_operation_view, &view);
    world_pass(&world, 60000);
    serve(KAFKA_CALL_STAMPS);
    view = newest();
    expect_counts(&view, 4, 4, 8);
    schema_free(&schema_operation_view, &view);
    expect_cancellable(false); /* topics never lose partitions */
}

Test(publish_operation, of_other_kinds_it_tells_what_a_move_waits_for)
{
    add_a2();
    struct coord_event event = world_event(&world, COORD_EVENT_MOVE, "j1");
    event.move.processor = 2;
    event.move.agent = mem_strdup("a2");
    world_step(&world, event);
    world_expect_status(&world, 202);
    struct operation_view view = newest();
    cr_assert_eq(view.steps, API_UNKNOWN);
    cr_assert_eq(view.from, API_UNKNOWN);
    cr_assert_eq(view.eta_ms, API_UNKNOWN);
    cr_assert_eq(view.handoff, (int64_t)world.cluster.handoffs.items[0]->row.id);
    schema_free(&schema_operation_view, &view);
    expect_waiting("processor 2 to agent a2, learning:", NULL);
    expect_cancellable(true);
}

Test(publish_operation, views_and_metrics_have_those_under_way)
{
    static const char *const lines[] = {
        "\nbaton_operations_running{kind=\"expand_processors\"} 1\n",
        "\nbaton_operations_running{kind=\"move\"} 0\n",
        "\nbaton_job_expanding{job=\"j1\",kind=\"expand_processors\"} 1\n",
        "\nbaton_job_expanding{job=\"j1\",kind=\"expand_partitions\"} 0\n",
        "\nbaton_job_splits_left{job=\"j1\"} 3\n",
        "\nbaton_job_settle_windows_stale{job=\"j1\"} 0\n",
    };
    struct publisher *publisher = publisher_create();
    struct publish_dirty dirty = {.all = true};
    struct strbuf buf = {0};
    add_a2();
    expand(7, API_UNKNOWN);
    publish_build(publisher, &world.cluster, world.now_ms, &dirty);
    const struct view *view = publish_acquire(publisher);
    cr_assert_eq(view->running.count, 1);
    cr_assert_not_null(view_find_operation(view, view->running.items[0].id)->waiting,
                       "the one that is complete is found");
    metrics_print_view(&buf, view);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        cr_assert_not_null(strstr(strbuf_text(&buf), lines[i]), "%s\n%s", lines[i],
                           strbuf_text(&buf));
    strbuf_finish(&buf);
    publish_release(view);
    publisher_destroy(publisher);
    publish_clear(&dirty);
}
