/* Pauses and maintenance on disk: as they were after a load, and in a database that is older. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/store.h"
#include "coordinator/store_internal.h"
#include "tests/unit/coordinator/store_rig.h"

static struct store_rig at;

static void setup(void)
{
    store_rig_init_job(&at);
    cr_assert_not(at.world.cluster.maintenance.hold.on);
    cr_assert_eq(at.world.cluster.maintenance.hold.changed_at, API_UNKNOWN);
}

static void teardown(void)
{
    store_rig_finish(&at);
}

TestSuite(store_pause, .init = setup, .fini = teardown);

static void hold(enum coord_event_kind kind, const char *reason)
{
    struct coord_event event = world_event(&at.world, kind, "j1");
    event.reason = reason != NULL ? mem_strdup(reason) : NULL;
    world_step(&at.world, event);
    world_expect_status(&at.world, 200);
    store_fixture_check(at.store, &at.world.cluster);
}

/* store_fixture_check compares all that is loaded; asserted is that there was something to lose. */
Test(store_pause, of_a_job_comes_back_as_it_was)
{
    cr_assert_eq(cluster_job(&at.world.cluster, "j1")->row.pause.changed_at, API_UNKNOWN);
    hold(COORD_EVENT_PAUSE, "it's a \"disk\"; --");
    cr_assert(cluster_job(&at.world.cluster, "j1")->row.pause.on);
    struct agent_report report = world_report_of(&at.world, "a1", TASK_STATE_PAUSED);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->progress.items = mem_calloc(2, sizeof(*task->progress.items));
        task->progress.count = 2;
        task->progress.items[0] =
            (struct partition_progress){.partition = task->processor, .t1 = INT64_MAX - 1};
        task->progress.items[1] =
            (struct partition_progress){.partition = task->processor + 4, .t1 = (int64_t)i};
    }
    world_send_report(&at.world, "a1", report);
    cr_assert_eq(world_placement(&at.world, "j1", 3)->paused_t1.count, 2);
    store_fixture_check(at.store, &at.world.cluster);
    hold(COORD_EVENT_RESUME, NULL);
    cr_assert_eq(world_placement(&at.world, "j1", 3)->paused_t1.count, 2);
    world_report(&at.world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(world_placement(&at.world, "j1", 3)->paused_t1.count, 0);
    store_fixture_check(at.store, &at.world.cluster);
}

static void look(uint32_t members)
{
    struct kafka_result result = {.groups.items = mem_calloc(1, sizeof(struct kafka_group)),
                                  .groups.count = 1};
    for (int i = 0; i < 20 && at.world.calls.count == 0; i++)
        world_pass(&at.world, 100);
    cr_assert_eq(at.world.calls.count, 1);
    result.groups.items[0] =
        (struct kafka_group){.group_id = mem_strdup(at.world.calls.items[0].groups.items[0]),
                             .members = members,
                             .who = members > 0 ? mem_strdup("it's \"me\"") : NULL};
    world_reply(&at.world, result);
    store_fixture_check(at.store, &at.world.cluster);
}

Test(store_pause, what_is_held_for_the_group_comes_back_as_it_was)
{
    const struct job *job = cluster_job(&at.world.cluster, "j1");
    at.world.cluster.config.groups_interval_ms = 1000;
    look(2);
    cr_assert_eq(job->row.group.hold, GROUP_HOLD_FROZEN);
    hold(COORD_EVENT_PAUSE, NULL);
    hold(COORD_EVENT_RESUME, NULL);
    cr_assert_eq(job->row.group.hold, GROUP_HOLD_WAITING);
    look(0);
    look(0);
    cr_assert_eq(job->row.group.hold, GROUP_HOLD_NONE);
}

Test(store_pause, maintenance_comes_back_as_it_was)
{
    for (int on = 1; on >= 0; on--) {
        struct coord_event event = world_event(&at.world, COORD_EVENT_MAINTENANCE, NULL);
        event.maintenance.enabled = on != 0;
        event.maintenance.reason = on != 0 ? mem_strdup("brokers") : NULL;
        world_step(&at.world, event);
        world_expect_status(&at.world, 200);
        cr_assert_eq(at.world.cluster.maintenance.hold.on, on != 0);
        store_fixture_check(at.store, &at.world.cluster);
    }
}

Test(store_pause, offsets_are_read_as_they_are_written_and_nothing_else_is)
{
    static const char *const broken[] = {"x",
                                         "[",
                                         "[[0,1,2]",
                                         "[0,1,2]",
                                         "[[0,1,2]x",
                                         "[[0,1,2],]",
                                         "[[0,1,-2]]",
                                         "[[99,1,2]]",
                                         "[[0,1,2]]]",
                                         "[[0,1,2],[0,2]]",
                                         "[[0,1,2];[0,2,2]]"};
    struct input_offset *items = NULL;
    size_t count = 9;
    cr_assert_null(store_print_offsets(NULL, 0));
    cr_assert(store_parse_offsets("", &items, &count));
    cr_assert_eq(count, 0);
    cr_assert(store_parse_offsets("[[0,1,2],[3,4,5]]", &items, &count));
    cr_assert_eq(count, 2);
    cr_assert_eq(items[1].offset, 5);
    char *text = store_print_offsets(items, count);
    cr_assert_str_eq(text, "[[0,1,2],[3,4,5]]");
    free(text);
    free(items);
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
        cr_assert_not(store_parse_offsets(broken[i], &items, &count), "%s", broken[i]);
}
