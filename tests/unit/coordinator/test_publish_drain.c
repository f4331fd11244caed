/* Drains as readers see them: what is left, how long it takes, and what nobody can take. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/schema.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/metrics.h"
#include "coordinator/publish.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;
static struct publisher *publisher;
static const struct view *view; /* the newest one, referenced */
static const char *const both[] = {"a1", "a2", NULL};

/* a1 has the four processors of j1. */
static void setup(void)
{
    world_init(&world);
    publisher = publisher_create();
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    world_report(&world, "a1", TASK_STATE_ACTIVE);
}

static void teardown(void)
{
    publish_release(view);
    publisher_destroy(publisher);
    world_finish(&world);
}

TestSuite(publish_drain, .init = setup, .fini = teardown);

static void publish(void)
{
    struct publish_dirty dirty = {.all = true};
    publish_build(publisher, &world.cluster, world.now_ms, &dirty);
    publish_release(view);
    view = publish_acquire(publisher);
}

static void register_agent(const char *agent_id, uint64_t incarnation, uint32_t max_learners)
{
    struct coord_event event = world_event(&world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration(agent_id, incarnation);
    event.registration.max_learners = max_learners;
    world_step(&world, event);
}

static void drain(const char *agent_id)
{
    struct coord_event event = world_event(&world, COORD_EVENT_DRAIN, agent_id);
    event.drain = (struct drain_request){.deadline_ms = API_UNKNOWN};
    world_step(&world, event);
    world_expect_status(&world, 202);
}

static void cancel_drain(const char *agent_id)
{
    world_step(&world, world_event(&world, COORD_EVENT_DRAIN_CANCEL, agent_id));
    world_expect_status(&world, 200);
}

static void set_schedulable(const char *agent_id, bool schedulable)
{
    struct coord_event event = world_event(&world, COORD_EVENT_ELIGIBILITY, agent_id);
    event.eligibility.schedulable = schedulable;
    world_step(&world, event);
    world_expect_status(&world, 200);
}

/* All learners of a2 are 600 records behind a1, and learn at these rates, in order. */
static void learn(const double *rates)
{
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    struct agent_report report = world_report_of(&world, "a2", TASK_STATE_LEARNING);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->progress.items = mem_calloc(1, sizeof(struct partition_progress));
        task->progress.count = 1;
        task->progress.items[0] = (struct partition_progress){
            .partition = task->processor, .t1 = 900, .t2 = 300, .stable_end = 900, .end = 900};
        task->caught_up_lag = 600;
        task->replayed_per_s = rates[i];
    }
    world_send_report(&world, "a2", report);
    publish();
}

/* What the view has of the agent is what the contract allows: it is read back strictly. */
static const struct drain_view *shown(const char *agent_id)
{
    const struct drain_view *found = view_find_drain(view, agent_id);
    cr_assert_not_null(found);
    size_t bytes = 0;
    char *text = codec_encode(&schema_drain_view, found, &bytes);
    struct drain_view back;
    struct err err;
    cr_assert_eq(codec_decode(&schema_drain_view, text, bytes, &back, NULL, &err), ERR_NONE,
                 "%s in %s", err.text, text);
    schema_free(&schema_drain_view, &back);
    free(text);
    return found;
}

static void expect_metric(const char *line, bool there)
{
    struct strbuf buf = {0};
    metrics_print_view(&buf, view);
    cr_assert_eq(strstr(strbuf_text(&buf), line) != NULL, there, "%s in\n%s", line,
                 strbuf_text(&buf));
    strbuf_finish(&buf);
}

static size_t count_problems(const char *code)
{
    const struct view_job *job = view_find_job(view, "j1");
    size_t count = 0;
    for (size_t i = 0; i < job->problems.count; i++)
        count += strcmp(job->problems.items[i].code, code) == 0;
    return count;
}

/* ---- what is left */

Test(publish_drain, shows_each_hand_over_and_what_waits_for_its_turn)
{
    register_agent("a2", 2, 1);
    publish();
    cr_assert_null(view_find_drain(view, "a1"), "it is not asked to leave");
    expect_metric("\nbaton_agent_draining{agent=\"a1\"} 0\n", true);
    expect_metric("\nbaton_drain_processors_left{", false);
    drain("a1");
    learn((const double[]){400});
    const struct drain_view *drain = shown("a1");
    cr_assert_eq(drain->state, DRAIN_STATE_DRAINING);
    cr_assert_not(drain->safe_to_stop);
    cr_assert_eq(drain->processors, 4);
    cr_assert_eq(drain->left.count, 4);
    cr_assert_eq(drain->eta_ms, API_UNKNOWN, "three have not begun");
    size_t learning = 0;
    for (size_t i = 0; i < drain->left.count; i++) {
        const struct drain_left_view *left = &drain->left.items[i];
        cr_assert_eq(left->processor, i);
        if (left->handoff == API_UNKNOWN) {
            cr_assert_null(left->target);
            cr_assert_null(left->state);
            cr_assert_eq(left->lag_records, API_UNKNOWN);
            cr_assert_not_null(strstr(left->waiting, "waits for a learner slot"), "%s",
                               left->waiting);
            continue;
        }
        learning++;
        cr_assert_str_eq(left->target, "a2");
        cr_assert_str_eq(left->state, "learning");
        cr_assert_str_eq(left->waiting, "600 records to go");
        cr_assert_null(left->stuck);
        cr_assert_eq(left->lag_records, 600);
        cr_assert_eq(left->eta_ms, 1500);
    }
    cr_assert_eq(learning, 1);
    cr_assert_eq(count_problems("drain_waits"), 0, "there is somebody who will take them");
    expect_metric("\nbaton_agent_draining{agent=\"a1\"} 1\n", true);
    expect_metric("\nbaton_agent_draining{agent=\"a2\"} 0\n", true);
    expect_metric("\nbaton_agent_safe_to_stop{agent=\"a1\"} 0\n", true);
    expect_metric("\nbaton_drain_processors_left{agent=\"a1\"} 4\n", true);
    expect_metric("\nbaton_drain_processors_left{agent=\"a2\"}", false);
}

Test(publish_drain, takes_as_long_as_the_slowest)
{
    register_agent("a2", 2, 4);
    drain("a1");
    cr_assert_eq(world.cluster.handoffs.count, 4);
    learn((const double[]){400, 100, 300, 600});
    cr_assert_eq(shown("a1")->eta_ms, 6000);
    learn((const double[]){400, 100, 0, 600});
    cr_assert_eq(shown("a1")->eta_ms, API_UNKNOWN, "one has only just begun");
}

Test(publish_drain, says_when_it_is_safe_to_stop)
{
    register_agent("a2", 2, 4);
    drain("a1");
    world_calm_down(&world, both);
    publish();
    const struct drain_view *drain = shown("a1");
    cr_assert_eq(drain->state, DRAIN_STATE_DRAINED);
    cr_assert(drain->safe_to_stop);
    cr_assert_eq(drain->processors, 4);
    cr_assert_eq(drain->left.count, 0);
    cr_assert_eq(drain->eta_ms, API_UNKNOWN, "nothing is under way");
    const struct agent_view *agent = view_find_agent(view, "a1");
    cr_assert_str_eq(agent->drain, "drained");
    cr_assert(agent->safe_to_stop);
    expect_metric("\nbaton_agent_draining{agent=\"a1\"} 0\n", true);
    expect_metric("\nbaton_agent_safe_to_stop{agent=\"a1\"} 1\n", true);
    expect_metric("\nbaton_drain_processors_left{agent=\"a1\"} 0\n", true);
    cancel_drain("a1");
    publish();
    cr_assert_eq(shown("a1")->state, DRAIN_STATE_CANCELLED);
    cr_assert_not(shown("a1")->safe_to_stop);
    cr_assert_null(view_find_agent(view, "a1")->drain);
    expect_metric("\nbaton_agent_safe_to_stop{agent=\"a1\"} 0\n", true);
    expect_metric("\nbaton_drain_processors_left{", false);
}

/* ---- what nobody can take */

Test(publish_drain, what_nobody_can_take_is_a_problem)
{
    register_agent("a2", 2, 4);
    drain("a1");
    publish();
    cr_assert_eq(count_problems("drain_waits"), 0);
    set_schedulable("a2", false);
    int64_t since_at = world.now_at;
    for (int round = 0; round < 2; round++) {
        publish();
        cr_assert_eq(count_problems("drain_waits"), 4);
        const struct problem_view *problem = &view_find_job(view, "j1")->problems.items[1];
        cr_assert_eq(problem->severity, PROBLEM_SEVERITY_WARNING);
        cr_assert_eq(problem->processor, 1);
        cr_assert_str_eq(problem->agent, "a1");
        cr_assert_eq(problem->since_at, since_at, "for as long as it is so");
        cr_assert_str_eq(problem->detail,
                         "a1 is to leave, but no agent can take it: the others are cordoned, "
                         "drained, full, or can not rebuild its state");
        cr_assert_not_null(strstr(problem->action, "cancel its drain"));
        cr_assert_str_eq(shown("a1")->left.items[1].waiting, problem->detail);
        world_pass_reporting(&world, 3000, both);
        register_agent("a2", 3, 4); /* cordoned all the same: another plan */
    }
    set_schedulable("a2", true);
    publish();
    cr_assert_eq(count_problems("drain_waits"), 0);
    set_schedulable("a2", false);
    since_at = world.now_at;
    publish();
    cr_assert_eq(view_find_job(view, "j1")->problems.items[1].since_at, since_at);
    cancel_drain("a1");
    publish();
    cr_assert_eq(count_problems("drain_waits"), 0, "it may stay");
}

Test(publish_drain, drained_agents_are_counted_where_nobody_has_a_processor)
{
    world_delete(&world, "j1");
    world_report(&world, "a1", TASK_STATE_CLOSED);
    world_reply_all_well(&world);
    cr_assert_eq(world.cluster.jobs.count, 0);
    drain("a1"); /* it has nothing: drained */
    world_create(&world, "j1");
    publish();
    cr_assert_eq(count_problems("no_agent"), 4);
    const struct view_job *job = view_find_job(view, "j1");
    cr_assert_str_eq(job->problems.items[0].detail,
                     "1 agents are alive and all are cordoned or drained");
    cr_assert_str_eq(
        job->processors.items[0].reason,
        "waiting for an agent: no owner; 1 agents are alive and all are cordoned or drained");
    struct coord_event event = world_event(&world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration("a2", 2);
    event.registration.capacity = 1;
    world_step(&world, event);
    publish();
    cr_assert_eq(count_problems("capacity_exhausted"), 3);
    job = view_find_job(view, "j1");
    cr_assert_str_eq(job->problems.items[0].detail,
                     "1 agents are alive and all are full; 1 more are cordoned or drained");
    cr_assert_str_eq(
        job->processors.items[3].reason,
        "waiting for an agent: no owner; 1 agents have no room left, 1 are cordoned or drained");
}
