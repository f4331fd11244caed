/* Others in the groups of jobs: when they are looked for, and what is held back for their sake. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/world.h"

#define INTERVAL_MS 2000

static struct world world;
static const char *const agents[] = {"a1", NULL};

static void setup(void)
{
    world_init(&world);
    world.cluster.config.groups_interval_ms = INTERVAL_MS;
    world_register(&world, "a1", 1);
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(group, .init = setup, .fini = teardown);

static struct job *the_job(void)
{
    struct job *job = cluster_job(&world.cluster, "j1");
    cr_assert_not_null(job);
    return job;
}

static enum group_hold hold(void)
{
    return the_job()->row.group.hold;
}

/* Passes time until the next look, and answers it. */
static void look(uint32_t members)
{
    for (int64_t ms = 0; world.calls.count == 0 && ms <= INTERVAL_MS; ms += 100)
        world_pass_reporting(&world, 100, agents);
    cr_assert_eq(world.calls.count, 1);
    cr_assert_eq(world.calls.items[0].kind, KAFKA_CALL_GROUPS);
    struct kafka_result result = {.groups.items = mem_calloc(1, sizeof(struct kafka_group)),
                                  .groups.count = 1};
    cr_assert_eq(world.calls.items[0].groups.count, 1);
    result.groups.items[0] =
        (struct kafka_group){.group_id = mem_strdup(world.calls.items[0].groups.items[0]),
                             .members = members,
                             .who = members > 0 ? mem_strdup("old-app at 10.0.0.1") : NULL};
    world_reply(&world, result);
}

static void create(enum start start)
{
    struct job_spec spec = world_spec("j1");
    spec.start = start;
    world_put(&world, "j1", spec);
    struct kafka_inspection inspection = world_inspection(&world.calls.items[0], 8);
    for (size_t p = 0; start == START_COMMITTED && p < 8; p++)
        inspection.inputs.items[0].partitions.items[p].committed = 10;
    inspection.group_members = start == START_COMMITTED ? 2 : 0;
    world_reply_inspection(&world, inspection);
    while (the_job()->row.state != JOB_STATE_RUNNING)
        world_reply_well(&world);
}

static void work(void)
{
    create(START_EARLIEST);
    look(0);
    world_pass_reporting(&world, 200, agents);
    cr_assert(world_placement(&world, "j1", 0)->activated);
}

static struct document_job told(void)
{
    struct agent_document document;
    cluster_document(&world.cluster, cluster_agent(&world.cluster, "a1"), &document);
    cr_assert_eq(document.jobs.count, 1);
    struct document_job job = {.paused = document.jobs.items[0].paused,
                               .frozen = document.jobs.items[0].frozen,
                               .waiting = document.jobs.items[0].waiting};
    schema_free(&schema_agent_document, &document);
    return job;
}

static void ask(enum coord_event_kind kind)
{
    world_step(&world, world_event(&world, kind, "j1"));
    world_expect_status(&world, 200);
}

static uint64_t epoch(void)
{
    return world_placement(&world, "j1", 0)->epoch;
}

/* ---- frozen */

Test(group, members_freeze_the_job_at_the_first_look)
{
    work();
    uint64_t before = epoch();
    look(1);
    cr_assert_eq(hold(), GROUP_HOLD_FROZEN);
    cr_assert_eq(world_count_traced(&world, "job_frozen"), 1);
    cr_assert(told().paused && told().frozen && !told().waiting);
    cr_assert_eq(epoch(), before);
    cr_assert_eq(world_placement(&world, "j1", 0)->paused_t1.count, 0);
}

Test(group, it_thaws_when_two_looks_in_a_row_find_nobody)
{
    work();
    uint64_t before = epoch();
    look(1);
    look(0);
    cr_assert_eq(hold(), GROUP_HOLD_FROZEN);
    look(1);
    look(0);
    cr_assert_eq(hold(), GROUP_HOLD_FROZEN);
    look(0);
    cr_assert_eq(hold(), GROUP_HOLD_NONE);
    cr_assert_eq(world_count_traced(&world, "job_thawed"), 1);
    cr_assert_gt(epoch(), before);
    cr_assert_not(told().paused);
}

Test(group, a_restart_keeps_the_hold_and_looks_again)
{
    work();
    look(2);
    world_restart(&world);
    cr_assert_eq(hold(), GROUP_HOLD_FROZEN);
    cr_assert(told().frozen);
    world.cluster.config.groups_interval_ms = INTERVAL_MS;
    look(0);
    look(0);
    cr_assert_eq(hold(), GROUP_HOLD_NONE);
}

Test(group, a_look_that_fails_changes_nothing_and_is_said)
{
    work();
    for (int64_t ms = 0; world.calls.count == 0 && ms <= INTERVAL_MS; ms += 100)
        world_pass_reporting(&world, 100, agents);
    world_reply_failed(&world, "no broker", false);
    cr_assert_eq(hold(), GROUP_HOLD_NONE);
    cr_assert_neq(the_job()->group.failing_at, 0);
    cr_assert_str_eq(the_job()->group.error, "no broker");
    look(0);
    cr_assert_eq(the_job()->group.failing_at, 0);
}

Test(group, nothing_moves_while_others_are_in_it)
{
    work();
    look(1);
    struct coord_event event = world_event(&world, COORD_EVENT_MOVE, "j1");
    event.move = (struct move_request){.processor = 0, .agent = mem_strdup("a1")};
    world_step(&world, event);
    (void)world_expect_problem(&world, "move_refused");
}

/* ---- pause and resume */

Test(group, a_paused_job_has_no_hold_and_resumed_looks_before_it_works)
{
    work();
    uint64_t before = epoch();
    ask(COORD_EVENT_PAUSE);
    look(1);
    cr_assert_eq(hold(), GROUP_HOLD_NONE);
    cr_assert(told().paused && !told().frozen && !told().waiting);
    look(0);
    ask(COORD_EVENT_RESUME);
    cr_assert_eq(hold(), GROUP_HOLD_WAITING);
    cr_assert_eq(epoch(), before);
    look(0); /* one is enough for who was not seen before */
    cr_assert_eq(hold(), GROUP_HOLD_NONE);
    cr_assert_gt(epoch(), before);
}

Test(group, a_look_from_before_the_resume_does_not_count)
{
    work();
    ask(COORD_EVENT_PAUSE);
    for (int64_t ms = 0; world.calls.count == 0 && ms <= INTERVAL_MS; ms += 100)
        world_pass_reporting(&world, 100, agents);
    ask(COORD_EVENT_RESUME);
    look(0);
    cr_assert_eq(hold(), GROUP_HOLD_WAITING);
    look(0);
    cr_assert_eq(hold(), GROUP_HOLD_NONE);
}

Test(group, resumed_it_waits_for_those_who_have_the_group)
{
    work();
    ask(COORD_EVENT_PAUSE);
    look(1);
    ask(COORD_EVENT_RESUME);
    look(1);
    cr_assert_eq(hold(), GROUP_HOLD_WAITING);
    cr_assert(told().paused && told().waiting && !told().frozen);
    look(0);
    cr_assert_eq(hold(), GROUP_HOLD_WAITING);
    look(0);
    cr_assert_eq(hold(), GROUP_HOLD_NONE);
    cr_assert_eq(world_count_traced(&world, "job_took_over"), 1);
}

Test(group, a_pause_makes_those_who_froze_it_welcome)
{
    work();
    look(1);
    ask(COORD_EVENT_PAUSE);
    cr_assert_not(told().frozen);
    ask(COORD_EVENT_RESUME);
    look(1);
    cr_assert_eq(hold(), GROUP_HOLD_WAITING);
}

/* ---- start "committed" */

static void claim(bool refused)
{
    cr_assert_eq(world.calls.count, 1);
    cr_assert_eq(world.calls.items[0].kind, KAFKA_CALL_CLAIM);
    cr_assert_eq(world.calls.items[0].offsets.count, 8);
    if (refused)
        world_reply_failed(&world, "it has members", true);
    else
        world_reply_well(&world);
}

Test(group, a_job_that_takes_over_waits_with_owners_and_commits_nothing)
{
    create(START_COMMITTED);
    cr_assert_eq(hold(), GROUP_HOLD_STARTING);
    cr_assert_not_null(world_placement(&world, "j1", 0)->agent);
    cr_assert(told().paused && told().waiting);
    uint64_t before = epoch();
    look(2);
    look(0);
    look(0);
    cr_assert_eq(hold(), GROUP_HOLD_STARTING);
    claim(true);
    cr_assert_eq(hold(), GROUP_HOLD_STARTING);
    cr_assert_str_eq(the_job()->group.claim_error, "it has members");
    look(0);
    claim(false);
    cr_assert_eq(hold(), GROUP_HOLD_NONE);
    cr_assert_gt(epoch(), before);
    cr_assert_eq(world_count_traced(&world, "job_took_over"), 1);
}

Test(group, a_pause_holds_the_take_over_up_but_not_the_learning)
{
    create(START_COMMITTED);
    ask(COORD_EVENT_PAUSE);
    cr_assert(told().waiting);
    look(0);
    look(0);
    look(0);
    cr_assert_eq(world.calls.count, 0);
    ask(COORD_EVENT_RESUME);
    cr_assert_eq(hold(), GROUP_HOLD_STARTING);
    look(0);
    claim(false);
    cr_assert_eq(hold(), GROUP_HOLD_NONE);
}

Test(group, a_claim_of_a_deleted_job_is_nobodys)
{
    create(START_COMMITTED);
    look(0);
    look(0);
    world_delete(&world, "j1");
    claim(false);
    cr_assert_eq(the_job()->row.state, JOB_STATE_DELETING);
}
