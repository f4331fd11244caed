/* Looks ahead: what a change would move, and requests that hold for one plan only. That a plan is
 * what then happens, test_property.c tries with random clusters. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/dry_run.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(dry_run, .init = rig_setup, .fini = rig_teardown);

static struct plan_request wish(enum planned_change change)
{
    struct plan_request request;
    schema_default(&schema_plan_request, &request);
    request.change = change;
    return request;
}

static void name_agents(struct plan_request *request, size_t count, const char *const agents[])
{
    request->agents.items = mem_calloc(count, sizeof(char *));
    request->agents.count = count;
    for (size_t i = 0; i < count; i++)
        request->agents.items[i] = mem_strdup(agents[i]);
}

/* Takes the request. Borrowed until the next step. */
static const struct plan_view *look(struct plan_request request)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_PLAN, NULL);
    const char *detail;
    cr_assert_null(dry_run_find_fault(&request, &detail));
    event.plan_request = request;
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 200);
    cr_assert_eq(rig_world.update.changes.count, 0, "a look has changed something");
    return world_answer(&rig_world)->body;
}

static const struct plan_view *look_at_drain(const char *agent_id)
{
    struct plan_request request = wish(PLANNED_CHANGE_DRAIN);
    name_agents(&request, 1, &agent_id);
    return look(request);
}

static void expect_move(const struct plan_view *view, size_t index, enum planned_kind kind,
                        uint32_t processor, const char *source, const char *target)
{
    cr_assert_lt(index, view->moves.count, "only %zu moves", view->moves.count);
    const struct plan_move *move = &view->moves.items[index];
    cr_assert_eq(move->kind, kind);
    cr_assert_eq(move->processor, processor);
    cr_assert_str_eq(move->job, "j1");
    cr_assert_str_eq(move->source, source);
    cr_assert_str_eq(move->target, target);
    cr_assert_str_neq(move->reason, "");
}

static void move_with_plan(uint32_t processor, const char *agent_id, const char *plan)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_MOVE, "j1");
    event.move = (struct move_request){
        .processor = processor, .agent = mem_strdup(agent_id), .plan = mem_strdup(plan)};
    world_step(&rig_world, event);
}

/* T0 0, T1 1,000 of each partition, and a state of 4,096 bytes. */
static void report_progress(const char *agent_id)
{
    struct agent_report report = world_report_of(&rig_world, agent_id, TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->state_bytes = 4096;
        task->progress.items = mem_calloc(1, sizeof(struct partition_progress));
        task->progress.count = 1;
        task->progress.items[0] = (struct partition_progress){
            .partition = task->processor, .t0 = 0, .t1 = 1000, .t2 = 1000};
    }
    world_send_report(&rig_world, agent_id, report);
}

/* ---- the answer */

Test(dry_run, of_a_drain_lists_what_would_go_where)
{
    rig_add_established();
    const struct plan_view *view = look_at_drain("a1");
    cr_assert_null(view->refused);
    cr_assert_eq(view->moves.count, 4);
    for (uint32_t p = 0; p < 4; p++)
        expect_move(view, p, PLANNED_KIND_HAND_OVER, p, "a1", "a2");
    cr_assert_eq(strlen(view->plan), API_PLAN_ID_BYTES);
}

Test(dry_run, of_a_drain_of_the_last_agent_says_why_it_is_refused)
{
    const struct plan_view *view = look_at_drain("a1");
    cr_assert_str_eq(view->refused, "drain_refused");
    cr_assert_not_null(strstr(view->refused_detail, "agent a1 has 4 processors"));
    cr_assert_null(view->plan);
    cr_assert_eq(view->moves.count, 0);
    cr_assert_str_eq(look_at_drain("nobody")->refused, "agent_not_found");
}

Test(dry_run, of_several_agents_is_one_after_the_other_and_has_no_id)
{
    static const char *const both[] = {"a1", "a2"};
    rig_add_established();
    struct plan_request request = wish(PLANNED_CHANGE_DRAIN);
    name_agents(&request, 2, both);
    const struct plan_view *view = look(request);
    cr_assert_eq(view->moves.count, 4);
    for (size_t i = 0; i < view->moves.count; i++) {
        cr_assert(view->moves.items[i].waits);
        cr_assert_null(view->moves.items[i].target, "who is left?");
    }
    world_register(&rig_world, "a3", 3);
    request = wish(PLANNED_CHANGE_DRAIN);
    name_agents(&request, 2, both);
    view = look(request);
    cr_assert_null(view->refused);
    cr_assert_null(view->plan);
    for (size_t i = 0; i < view->moves.count; i++)
        if (view->moves.items[i].kind == PLANNED_KIND_HAND_OVER)
            cr_assert_str_eq(view->moves.items[i].target, "a3");
}

Test(dry_run, of_agents_to_come_names_them)
{
    struct plan_request request = wish(PLANNED_CHANGE_ADD_AGENTS);
    request.count = 3;
    const struct plan_view *view = look(request);
    cr_assert_eq(view->moves.count, 3);
    cr_assert_str_eq(view->moves.items[0].target, "new-1");
    cr_assert_null(view->plan);
    cr_assert_null(cluster_agent(&rig_world.cluster, "new-1"));
}

Test(dry_run, of_a_rebalance_is_what_it_would_begin)
{
    rig_add_established();
    struct plan_request request = wish(PLANNED_CHANGE_REBALANCE);
    request.job = mem_strdup("j1");
    const struct plan_view *view = look(request);
    cr_assert_eq(view->moves.count, 2);
    request = wish(PLANNED_CHANGE_REBALANCE);
    request.job = mem_strdup("j9");
    cr_assert_str_eq(look(request)->refused, "job_not_found");
}

Test(dry_run, of_standbys_lists_those_that_would_be_begun_and_ended)
{
    rig_add_established();
    struct plan_request request = wish(PLANNED_CHANGE_STANDBYS);
    request.job = mem_strdup("j1");
    request.standbys = 1;
    const struct plan_view *view = look(request);
    cr_assert_gt(view->moves.count, 0);
    expect_move(view, 0, PLANNED_KIND_STANDBY, 0, "a1", "a2");
    cr_assert_eq(rig_processor(0)->standbys.count, 0);
}

Test(dry_run, of_a_cordon_shows_what_it_would_cancel)
{
    static const char *const target[] = {"a2"};
    world_register(&rig_world, "a2", 2);
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    struct plan_request request = wish(PLANNED_CHANGE_CORDON);
    name_agents(&request, 1, target);
    const struct plan_view *view = look(request);
    cr_assert_eq(view->moves.count, 2);
    expect_move(view, 0, PLANNED_KIND_CANCEL, 0, "a1", "a2");
}

Test(dry_run, says_what_waits_and_for_what)
{
    rig_add_established();
    struct coord_event event = world_event(&rig_world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration("a2", 2);
    event.registration.max_learners = 1;
    world_step(&rig_world, event);
    const struct plan_view *view = look_at_drain("a1");
    cr_assert_eq(view->moves.count, 4);
    cr_assert_not(view->moves.items[0].waits);
    for (size_t i = 1; i < 4; i++) {
        cr_assert(view->moves.items[i].waits);
        cr_assert_not_null(strstr(view->moves.items[i].reason, "max_learners"));
        cr_assert_str_eq(view->moves.items[i].target, "a2");
    }
}

Test(dry_run, counts_what_there_is_to_learn)
{
    rig_add_established();
    report_progress("a1");
    const struct plan_view *view = look_at_drain("a1");
    cr_assert_eq(view->moves.items[0].records, 1000);
    cr_assert_eq(view->moves.items[0].state_bytes, 4096);
    cr_assert_eq(view->moves.items[0].eta_ms, API_UNKNOWN, "nobody has learned yet");
    cr_assert_eq(view->records, 4000);
    cr_assert_eq(view->state_bytes, 4 * 4096);
    cr_assert_eq(view->eta_ms, API_UNKNOWN);
    cluster_job(&rig_world.cluster, "j1")->replayed_per_s = 500;
    view = look_at_drain("a1");
    cr_assert_eq(view->moves.items[0].eta_ms, 2000);
    cr_assert_eq(view->eta_ms, 2000, "all four learn at a time");
}

Test(dry_run, counts_only_what_a_kept_state_lacks)
{
    rig_add_established();
    report_progress("a1");
    struct agent_registration registration = world_registration("a2", 2);
    registration.kept.items = mem_calloc(1, sizeof(struct kept_state));
    registration.kept.count = 1;
    struct kept_state *kept = &registration.kept.items[0];
    kept->job = mem_strdup("j1");
    kept->job_incarnation = mem_strdup(cluster_job(&rig_world.cluster, "j1")->row.incarnation);
    kept->learned.items = mem_calloc(1, sizeof(struct input_offset));
    kept->learned.items[0] = (struct input_offset){.offset = 900};
    kept->learned.count = 1;
    struct coord_event event = world_event(&rig_world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = registration;
    world_step(&rig_world, event);
    const struct plan_view *view = look_at_drain("a1");
    for (size_t i = 0; i < view->moves.count; i++)
        cr_assert_eq(view->moves.items[i].records,
                     view->moves.items[i].processor == 0 ? 100 : 1000);
}

/* ---- requests that name their plan */

static char *plan_of_move(uint32_t processor, const char *agent_id)
{
    struct plan_request request = wish(PLANNED_CHANGE_MOVE);
    request.job = mem_strdup("j1");
    request.processor = processor;
    request.target = mem_strdup(agent_id);
    const struct plan_view *view = look(request);
    cr_assert_null(view->refused);
    return mem_strdup(view->plan);
}

Test(dry_run, a_request_may_name_its_plan)
{
    rig_add_established();
    char *plan = plan_of_move(0, "a2");
    move_with_plan(0, "a2", plan);
    world_expect_status(&rig_world, 202);
    move_with_plan(0, "a2", plan);
    world_expect_status(&rig_world, 202); /* repeated, as an answer was lost */
    free(plan);
}

Test(dry_run, a_request_whose_plan_is_out_of_date_is_refused)
{
    rig_add_established();
    char *plan = plan_of_move(0, "a2");
    move_with_plan(1, "a2", plan);
    world_expect_problem(&rig_world, "plan_stale");
    cr_assert_eq(rig_world.update.changes.count, 0);
    cr_assert_null(rig_handoff(1));
    free(plan);
    plan = mem_strdup(look_at_drain("a1")->plan);
    world_register(&rig_world, "a3", 3); /* which is better off with some of it */
    struct coord_event event = world_event(&rig_world, COORD_EVENT_DRAIN, "a1");
    schema_default(&schema_drain_request, &event.drain);
    event.drain.plan = plan;
    world_step(&rig_world, event);
    world_expect_problem(&rig_world, "plan_stale");
    cr_assert_not(cluster_agent(&rig_world.cluster, "a1")->row.drain.asked);
}

Test(dry_run, what_is_refused_anyway_says_why_instead)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_DRAIN, "a1");
    schema_default(&schema_drain_request, &event.drain);
    event.drain.plan = mem_strdup("00000000000000000000000000000000");
    world_step(&rig_world, event);
    world_expect_problem(&rig_world, "drain_refused");
}

Test(dry_run, what_was_learned_meanwhile_makes_no_other_plan)
{
    rig_add_established();
    report_progress("a1");
    char *plan = mem_strdup(look_at_drain("a1")->plan);
    world_pass(&rig_world, 3000);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    cr_assert_str_eq(look_at_drain("a1")->plan, plan);
    free(plan);
}

/* ---- the request */

static void expect_fault(struct plan_request request, const char *pointer)
{
    const char *detail = NULL;
    const char *found = dry_run_find_fault(&request, &detail);
    cr_assert_not_null(found, "%s", pointer);
    cr_assert_str_eq(found, pointer);
    cr_assert_not_null(detail);
    schema_free(&schema_plan_request, &request);
}

Test(dry_run, faults_are_named)
{
    struct plan_request request = wish(PLANNED_CHANGE_DRAIN);
    expect_fault(request, "/agents");
    request = wish(PLANNED_CHANGE_REBALANCE);
    expect_fault(request, "/job");
    request = wish(PLANNED_CHANGE_MOVE);
    request.job = mem_strdup("j1");
    expect_fault(request, "/processor");
    request = wish(PLANNED_CHANGE_STANDBYS);
    request.job = mem_strdup("j1");
    expect_fault(request, "/standbys");
    request = wish(PLANNED_CHANGE_ADD_AGENTS);
    request.standbys = 1;
    expect_fault(request, "/standbys");
    request = wish(PLANNED_CHANGE_ADD_AGENTS);
    request.count = 0;
    expect_fault(request, "/count");
    request.count = API_PLAN_AGENTS_MAX + 1;
    expect_fault(request, "/count");
    request = wish(PLANNED_CHANGE_ADD_AGENTS);
    request.capacity = 0;
    expect_fault(request, "/capacity");
}
