/* Hand-overs as readers see them: how far they are, what they wait for, what they took. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/view.h"
#include "coordinator/metrics.h"
#include "coordinator/metrics_handoff.h"
#include "coordinator/publish.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;
static const char *const both[] = {"a1", "a2", NULL};

/* a1 has the four processors of j1; a2 has just come and shall have two of them. */
static void setup(void)
{
    world_init(&world);
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    world_register(&world, "a2", 2);
    cr_assert_eq(world.cluster.handoffs.count, 2);
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(publish_handoff, .init = setup, .fini = teardown);

/* Free with schema_free. */
static struct handoff_view first_view(void)
{
    struct handoff_view view;
    view_handoff(&world.cluster.handoffs.items[0]->row, &view);
    publish_complete_handoff(&world.cluster, world.cluster.handoffs.items[0], &view);
    return view;
}

static void expect_waiting(const char *words)
{
    struct handoff_view view = first_view();
    cr_assert_not_null(view.waiting);
    cr_assert_not_null(strstr(view.waiting, words), "%s", view.waiting);
    schema_free(&schema_handoff_view, &view);
}

/* The first learner of a2 is so far, at such a rate; a1 takes in 100 records a second. */
static void learn(int64_t t1, int64_t t2, double replayed_per_s, const char *problem)
{
    struct agent_report report = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++)
        report.tasks.items[i].records_per_s = 100;
    world_send_report(&world, "a1", report);
    report = world_report_of(&world, "a2", TASK_STATE_LEARNING);
    struct task_report *task = &report.tasks.items[0];
    task->progress.items = mem_calloc(1, sizeof(struct partition_progress));
    task->progress.count = 1;
    task->progress.items[0] = (struct partition_progress){
        .partition = task->processor, .t1 = t1, .t2 = t2, .stable_end = 900, .end = 900};
    task->caught_up_lag = t1 - t2;
    task->replayed_per_s = replayed_per_s;
    if (problem != NULL) {
        task->problems.items = mem_calloc(1, sizeof(struct task_problem));
        task->problems.count = 1;
        task->problems.items[0] =
            (struct task_problem){.code = mem_strdup(problem), .detail = mem_strdup("see there")};
    }
    world_send_report(&world, "a2", report);
}

Test(publish_handoff, tells_how_far_a_learner_is_and_how_long_it_takes)
{
    expect_waiting("has not reported the learner yet");
    learn(900, 300, 400, NULL);
    struct handoff_view view = first_view();
    cr_assert_eq(view.state, HANDOFF_STATE_LEARNING);
    cr_assert_eq(view.lag_records, 600);
    cr_assert_eq(view.replay_records, 600);
    cr_assert_eq(view.eta_ms, 2000, "600 records at 400 less 100 a second");
    cr_assert_eq(view.learned_records, 300);
    cr_assert_eq(view.target_records, 900);
    cr_assert_float_eq(view.replayed_per_s, 400, 0.01);
    cr_assert_float_eq(view.incoming_per_s, 100, 0.01);
    cr_assert_str_eq(view.waiting, "600 records to go");
    cr_assert_null(view.stuck);
    schema_free(&schema_handoff_view, &view);
}

static void seed(uint64_t rows, double rows_per_s)
{
    struct agent_report report = world_report_of(&world, "a2", TASK_STATE_SEEDING);
    struct task_report *task = &report.tasks.items[0];
    task->seed_source = mem_strdup("a1");
    task->seed_rows = rows;
    task->seed_rows_total = 10000;
    task->seed_rows_per_s = rows_per_s;
    world_send_report(&world, "a2", report);
}

Test(publish_handoff, tells_how_fast_a_state_comes_from_another_agent)
{
    seed(0, 0);
    expect_waiting("the state is coming from agent a1: 0 of 10000 rows");
    struct handoff_view view = first_view();
    cr_assert_null(strstr(view.waiting, "rows/s"), "not known yet: %s", view.waiting);
    schema_free(&schema_handoff_view, &view);
    seed(4000, 1500);
    expect_waiting("4000 of 10000 rows, 1500 rows/s: the rest in 4.0 s");
}

static void expect_stuck(const char *code)
{
    struct handoff_view view = first_view();
    if (code == NULL)
        cr_assert_null(view.stuck, "%s", view.stuck);
    else
        cr_assert_str_eq(view.stuck, code);
    schema_free(&schema_handoff_view, &view);
}

Test(publish_handoff, tells_why_a_learner_is_stuck)
{
    learn(900, 300, 50, NULL);
    expect_waiting("more come in (100/s) than it learns (50/s)");
    expect_stuck("learning_too_slow");
    struct handoff_view view = first_view();
    cr_assert_eq(view.eta_ms, API_UNKNOWN, "never, at this rate");
    schema_free(&schema_handoff_view, &view);
    learn(900, 300, 400, "blocked_by_open_transaction");
    expect_waiting("blocked_by_open_transaction: see there");
    expect_stuck("blocked_by_open_transaction");
    learn(900, 300, 400, "store_failed");
    expect_stuck("store_failed");
    learn(900, 300, 400, "state_set_aside"); /* is over, and was no hindrance */
    expect_waiting("600 records to go");
    expect_stuck(NULL);
    learn(900, 300, 0, NULL); /* it has only just begun */
    expect_stuck(NULL);
    learn(API_UNKNOWN, 300, 400, NULL);
    expect_waiting("not known yet how far the source has committed");
    expect_stuck("source_not_heard");
    world_report(&world, "a1", TASK_STATE_FENCED); /* its new epoch is not reported yet */
    expect_waiting("the source does not report");
    expect_stuck("source_not_heard");
}

/* All learners of a2 have. */
static void fail(const char *code)
{
    struct agent_report report = world_report_of(&world, "a2", TASK_STATE_FAILED);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->problems.items = mem_calloc(1, sizeof(struct task_problem));
        task->problems.count = 1;
        task->problems.items[0] =
            (struct task_problem){.code = mem_strdup(code), .detail = mem_strdup("see there")};
    }
    world_send_report(&world, "a2", report);
}

Test(publish_handoff, processor_shows_who_learns_it)
{
    struct publisher *publisher = publisher_create();
    struct publish_dirty dirty = {.all = true};
    uint32_t moving = world.cluster.handoffs.items[0]->row.processor;
    for (int reported = 0; reported < 2; reported++) {
        if (reported)
            learn(900, 300, 400, NULL);
        publish_build(publisher, &world.cluster, world.now_ms, &dirty);
        const struct view *view = publish_acquire(publisher);
        const struct processor_view *processor =
            &view_find_job(view, "j1")->processors.items[moving];
        cr_assert_eq(processor->learners.count, 1);
        const struct learner_view *learner = &processor->learners.items[0];
        cr_assert_str_eq(learner->agent, "a2");
        cr_assert_str_eq(learner->state, reported ? "learning" : "assigned");
        cr_assert_eq(learner->handoff, view->handoffs.items[0].id);
        cr_assert_eq(learner->partitions.count, reported ? 1 : 0);
        cr_assert_eq(learner->replay_records, reported ? 600 : API_UNKNOWN);
        cr_assert_eq(learner->eta_ms, reported ? 2000 : API_UNKNOWN);
        if (reported) {
            const struct partition_view *partition = &learner->partitions.items[0];
            cr_assert_eq(partition->t1, 900);
            cr_assert_eq(partition->t2, 300);
            cr_assert_eq(partition->lag_records, 600);
            cr_assert(partition->owned);
            cr_assert_eq(learner->reported_at, world.now_at);
        }
        size_t others = 0;
        for (size_t i = 0; i < 4; i++)
            others += view_find_job(view, "j1")->processors.items[i].learners.count;
        cr_assert_eq(others, 2, "one each of the two hand-overs");
        publish_release(view);
        dirty.all = true;
    }
    publisher_destroy(publisher);
    publish_clear(&dirty);
}

Test(publish_handoff, what_learners_and_refused_agents_lack_is_a_problem_of_the_job)
{
    struct publisher *publisher = publisher_create();
    struct publish_dirty dirty = {.all = true};
    static const char *const codes[] = {"blocked_by_open_transaction", "history_incomplete", NULL};
    uint32_t moving = world.cluster.handoffs.items[0]->row.processor;
    for (size_t i = 0; i < 3; i++) {
        if (i == 0)
            learn(900, 300, 400, codes[i]);
        if (i == 1)
            fail("history_incomplete");
        if (i == 2) { /* a new start of the agent has another chance */
            world_pass_reporting(&world, 3000, (const char *const[]){"a1", NULL});
            world_register(&world, "a2", 9);
        }
        dirty.all = true;
        publish_build(publisher, &world.cluster, world.now_ms, &dirty);
        const struct view *view = publish_acquire(publisher);
        const struct view_job *job = view_find_job(view, "j1");
        cr_assert_eq(job->problems.count, codes[i] != NULL, "%zu", i);
        if (codes[i] != NULL) {
            const struct problem_view *problem = &job->problems.items[0];
            cr_assert_str_eq(problem->code, codes[i]);
            cr_assert_str_eq(problem->agent, "a2");
            cr_assert_eq(problem->processor, moving);
            cr_assert_not_null(strstr(problem->detail, "see there"));
        }
        publish_release(view);
    }
    publisher_destroy(publisher);
    publish_clear(&dirty);
}

Test(publish_handoff, is_in_the_view_as_long_as_it_is_under_way)
{
    struct publisher *publisher = publisher_create();
    struct publish_dirty dirty = {.all = true};
    struct strbuf buf = {0};
    publish_build(publisher, &world.cluster, world.now_ms, &dirty);
    const struct view *view = publish_acquire(publisher);
    cr_assert_eq(view->handoffs.count, 2);
    cr_assert_eq(view_find_job(view, "j1")->status.handoffs_running, 2);
    cr_assert_eq(view_find_agent(view, "a2")->tasks, 2, "learners are tasks");
    uint32_t moving = view->handoffs.items[0].processor;
    cr_assert_not_null(strstr(view_find_job(view, "j1")->processors.items[moving].reason,
                              "being handed over to a2"));
    metrics_print_view(&buf, view);
    cr_assert_not_null(
        strstr(strbuf_text(&buf), "\nbaton_handoffs_running{state=\"learning\"} 2\n"));
    strbuf_finish(&buf);
    publish_release(view);
    world_calm_down(&world, both);
    dirty.all = true;
    publish_build(publisher, &world.cluster, world.now_ms, &dirty);
    view = publish_acquire(publisher);
    cr_assert_eq(view->handoffs.count, 0);
    cr_assert_eq(view_find_job(view, "j1")->status.handoffs_running, 0);
    publish_release(view);
    publisher_destroy(publisher);
    publish_clear(&dirty);
}

static void see(struct metrics_handoffs *metrics, enum handoff_state state, bool forced)
{
    struct change change = {.kind = CHANGE_HANDOFF,
                            .handoff = {.state = state,
                                        .forced = forced,
                                        .spent_ms = {40, API_UNKNOWN, 20, 3, 7},
                                        .output_gap_ms = 30}};
    struct update update = {.changes = {.items = &change, .count = 1}};
    metrics_handoffs_see(metrics, &update);
}

Test(publish_handoff, metrics_count_what_has_ended)
{
    static const char *const lines[] = {
        "\nbaton_handoffs_total{result=\"done\"} 2\n",
        "\nbaton_handoffs_total{result=\"cancelled\"} 1\n",
        "\nbaton_handoffs_total{result=\"failed\"} 1\n",
        "\nbaton_handoffs_forced_total 1\n",
        "\nbaton_handoff_phase_seconds_count{phase=\"releasing\"} 2\n",
        "\nbaton_handoff_phase_seconds_count{phase=\"caught_up\"} 0\n",
        "\nbaton_handoff_phase_seconds_bucket{phase=\"learning\",le=\"0.05\"} 2\n",
        "\nbaton_handoff_output_gap_seconds_sum 0.06\n",
    };
    struct metrics_handoffs metrics;
    struct strbuf buf = {0};
    metrics_handoffs_init(&metrics);
    see(&metrics, HANDOFF_STATE_LEARNING, false);
    see(&metrics, HANDOFF_STATE_DONE, false);
    see(&metrics, HANDOFF_STATE_DONE, true);
    see(&metrics, HANDOFF_STATE_CANCELLED, false);
    see(&metrics, HANDOFF_STATE_FAILED, false);
    metrics_handoffs_print(&buf, &metrics);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        cr_assert_not_null(strstr(strbuf_text(&buf), lines[i]), "%s\n%s", lines[i],
                           strbuf_text(&buf));
    strbuf_finish(&buf);
}
