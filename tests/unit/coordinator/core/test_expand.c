/* Expansions that somebody asks for: what is refused, with nothing changed. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(expand, .init = rig_setup, .fini = rig_teardown);

static void ask(const char *job, int64_t processors, int64_t partitions)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_EXPAND, job);
    event.expansion.processors = processors;
    event.expansion.partitions = partitions;
    world_step(&rig_world, event);
}

/* The expansion is refused like this, and nothing has come of it. */
static void expect_refusal(int64_t processors, int64_t partitions, const char *detail)
{
    uint64_t decision = rig_world.cluster.meta.decision;
    ask("j1", processors, partitions);
    const struct problem_body *body = world_expect_problem(&rig_world, "expansion_refused");
    cr_assert_not_null(strstr(body->detail, detail), "%s", body->detail);
    cr_assert_eq(rig_world.cluster.meta.decision, decision);
}

Test(expand, counts_that_can_not_be_are_refused)
{
    uint32_t partitions = cluster_job(&rig_world.cluster, "j1")->row.partitions;
    expect_refusal(4, API_UNKNOWN, "has 4 processors already");
    expect_refusal(1, API_UNKNOWN, "can not have fewer");
    expect_refusal(partitions + 1, API_UNKNOWN, "expand the partitions first");
    ask("j9", 5, API_UNKNOWN);
    (void)world_expect_problem(&rig_world, "job_not_found");
}

Test(expand, a_paused_job_is_refused)
{
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_PAUSE, "j1"));
    expect_refusal(5, API_UNKNOWN, "resume it first");
}
