/* Expansions that somebody asks for: what is refused, with nothing changed. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(expand, .init = rig_setup, .fini = rig_teardown);

/* The expansion is refused like this, and nothing has come of it. */
static void expect_refusal(int64_t processors, const char *detail)
{
    uint64_t decision = rig_world.cluster.meta.decision;
    rig_expand(processors);
    const struct problem_body *body = world_expect_problem(&rig_world, "expansion_refused");
    cr_assert_not_null(strstr(body->detail, detail), "%s", body->detail);
    cr_assert_eq(rig_world.cluster.meta.decision, decision);
}

Test(expand, counts_that_can_not_be_are_refused)
{
    uint32_t partitions = cluster_job(&rig_world.cluster, "j1")->row.partitions;
    expect_refusal(4, "has 4 processors already");
    expect_refusal(1, "can not have fewer");
    expect_refusal(partitions + 1, "more than the 8 partitions");
    struct coord_event event = world_event(&rig_world, COORD_EVENT_EXPAND, "j9");
    event.expansion.processors = 5;
    world_step(&rig_world, event);
    (void)world_expect_problem(&rig_world, "job_not_found");
}

Test(expand, a_paused_job_is_refused)
{
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_PAUSE, "j1"));
    expect_refusal(5, "resume it first");
}

Test(expand, one_at_a_time)
{
    rig_expand(5);
    world_expect_status(&rig_world, 202);
    expect_refusal(6, "wait for its end, or cancel it");
}

static void look_ahead(int64_t processors, struct expansion_plan *ret_plan)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_EXPAND, "j1");
    uint64_t decision = rig_world.cluster.meta.decision;
    event.expansion = (struct expansion_request){processors, API_UNKNOWN, true, NULL};
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 200);
    schema_copy(&schema_expansion_plan, ret_plan, world_answer(&rig_world)->body);
    cr_assert_eq(rig_world.cluster.meta.decision, decision);
}

Test(expand, a_dry_run_says_what_would_go_where)
{
    struct expansion_plan plan;
    rig_add_established();
    look_ahead(7, &plan);
    cr_assert_eq(plan.processors, 7);
    cr_assert_eq(plan.moves.count, 3);
    for (size_t i = 0; i < plan.moves.count; i++) {
        cr_assert_eq(plan.moves.items[i].processor, 4 + i);
        cr_assert_eq(plan.moves.items[i].kind, PLANNED_KIND_SPLIT);
        cr_assert_str_eq(plan.moves.items[i].source, "a1");
        cr_assert_str_eq(plan.moves.items[i].target, "a2", "it has none, then one, then two");
        cr_assert_eq(plan.moves.items[i].waits, i > 0);
    }
    schema_free(&schema_expansion_plan, &plan);
}
