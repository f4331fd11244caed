/* Standbys as readers see them: how far they are, how many are missing, and why. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/publish_job.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;
static const char *const a1[] = {"a1", NULL}, *const both[] = {"a1", "a2", NULL};

static void register_in(const char *agent_id, uint64_t incarnation, const char *zone)
{
    struct coord_event event = world_event(&world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration(agent_id, incarnation);
    event.registration.tags.items = mem_calloc(1, sizeof(struct tag));
    event.registration.tags.count = 1;
    event.registration.tags.items[0] =
        (struct tag){.name = mem_strdup("zone"), .value = mem_strdup(zone)};
    world_step(&world, event);
}

/* a1 has j1, which wants a standby; a2 is there or not. */
static void setup(void)
{
    world_init(&world);
    register_in("a1", 1, "north");
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(publish_standby, .init = setup, .fini = teardown);

static void create(const char *const *agent_ids)
{
    struct job_spec spec = world_spec("j1");
    spec.standbys = 1;
    world_create_spec(&world, "j1", spec);
    world_calm_down(&world, agent_ids);
}

static struct view_job *make_view(void)
{
    return publish_make_job(&world.cluster, cluster_job(&world.cluster, "j1"), NULL, world.now_ms);
}

/* The detail of the one problem of the code, or NULL: free(). */
static char *find_problem(const char *code)
{
    struct view_job *view = make_view();
    char *detail = NULL;
    for (size_t i = 0; i < view->problems.count; i++) {
        const struct problem_view *problem = &view->problems.items[i];
        if (strcmp(problem->code, code) != 0)
            continue;
        cr_assert_null(detail, "it is said twice");
        cr_assert_eq(problem->severity, PROBLEM_SEVERITY_WARNING);
        cr_assert_eq(problem->processor, API_UNKNOWN);
        cr_assert_gt(problem->since_at, 0);
        detail = mem_strdup(problem->detail);
    }
    publish_free_job(view);
    return detail;
}

/* Owners have committed 1000 records of each partition, standbys have learned so many. */
static void report(const char *agent_id, int64_t learned)
{
    struct agent_report report = world_report_of(&world, agent_id, TASK_STATE_ACTIVE);
    struct agent_document document;
    cluster_document(&world.cluster, cluster_agent(&world.cluster, agent_id), &document);
    for (size_t i = 0; i < document.tasks.count; i++) {
        const struct uint_list *owned = &document.tasks.items[i].owned;
        struct task_report *task = &report.tasks.items[i];
        bool active = task->role == TASK_ROLE_ACTIVE;
        task->progress.items = mem_calloc(owned->count, sizeof(struct partition_progress));
        task->progress.count = owned->count;
        for (size_t k = 0; k < owned->count; k++)
            task->progress.items[k] = (struct partition_progress){.partition = owned->items[k],
                                                                  .t1 = 1000000,
                                                                  .t2 = active ? 1000000 : learned,
                                                                  .stable_end = 1000000,
                                                                  .end = 1000000};
        task->replayed_per_s = active ? 0 : 1000;
    }
    schema_free(&schema_agent_document, &document);
    world_send_report(&world, agent_id, report);
}

Test(publish_standby, says_how_far_each_is)
{
    register_in("a2", 2, "south");
    create(both);
    report("a1", 900000);
    report("a2", 900000);
    struct view_job *view = make_view();
    cr_assert_eq(view->status.standbys_wanted, 4);
    cr_assert_eq(view->status.standbys_ready, 0);
    for (size_t p = 0; p < 4; p++) {
        cr_assert_eq(view->processors.items[p].standbys.count, 1);
        const struct standby_view *standby = &view->processors.items[p].standbys.items[0];
        cr_assert_str_neq(standby->agent, view->processors.items[p].agent);
        cr_assert_str_eq(standby->zone, strcmp(standby->agent, "a1") == 0 ? "north" : "south");
        cr_assert_not(standby->ready);
        cr_assert_eq(standby->lag_records, 100000);
        cr_assert_eq(standby->replay_records, 200000);
        cr_assert_eq(standby->eta_ms, 200000);
        cr_assert_not_null(standby->waiting);
    }
    publish_free_job(view);
    report("a1", 999000);
    report("a2", 999000);
    view = make_view();
    cr_assert_eq(view->status.standbys_ready, 4);
    const struct standby_view *standby = &view->processors.items[0].standbys.items[0];
    cr_assert(standby->ready);
    cr_assert_str_eq(standby->state, "caught_up");
    cr_assert_null(standby->waiting);
    size_t bytes;
    char *text = codec_encode(&schema_standby_view, standby, &bytes);
    cr_assert_not_null(strstr(text, "\"ready\":true"), "%s", text);
    free(text);
    publish_free_job(view);
    cr_assert_null(find_problem("standbys_missing"));
}

Test(publish_standby, too_few_agents_are_a_problem)
{
    create(a1);
    char *detail = find_problem("standbys_missing");
    cr_assert_not_null(detail);
    cr_assert_not_null(strstr(detail, "4 of 4 processors"), "%s", detail);
    free(detail);
    register_in("a2", 2, "south");
    world_calm_down(&world, both);
    cr_assert_null(find_problem("standbys_missing"));
}

Test(publish_standby, so_are_too_few_zones)
{
    register_in("a2", 2, "north");
    create(both);
    char *detail = find_problem("standbys_missing");
    cr_assert_not_null(detail);
    cr_assert_not_null(strstr(detail, "no standby in another zone"), "%s", detail);
    free(detail);
}
