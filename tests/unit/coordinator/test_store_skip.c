/* What people decide about records and offsets, on disk: as it was, and refused when edited. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/mem.h"
#include "coordinator/store.h"
#include "coordinator/store_internal.h"
#include "tests/unit/coordinator/store_rig.h"

static struct store_rig at;

static void setup(void)
{
    store_rig_init_job(&at);
}

static void teardown(void)
{
    store_rig_finish(&at);
}

TestSuite(store_skip, .init = setup, .fini = teardown);

/* All processors wait at a record of their own, and for their offsets. */
static void halt(void)
{
    struct agent_report report = world_report_of(&at.world, "a1", TASK_STATE_FAILED);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->halted.items = mem_calloc(1, sizeof(*task->halted.items));
        task->halted.count = 1;
        task->halted.items[0] =
            (struct input_offset){.partition = task->processor, .offset = INT64_MAX - 2};
        task->found.items = mem_calloc(1, sizeof(*task->found.items));
        task->found.count = 1;
        task->found.items[0] =
            (struct input_offset){.partition = task->processor, .offset = API_UNKNOWN};
        task->progress.items = mem_calloc(1, sizeof(*task->progress.items));
        task->progress.count = 1;
        task->progress.items[0] = (struct partition_progress){.partition = task->processor,
                                                              .t1 = API_UNKNOWN,
                                                              .t2 = 42,
                                                              .log_start = API_UNKNOWN,
                                                              .stable_end = API_UNKNOWN,
                                                              .end = API_UNKNOWN};
    }
    world_send_report(&at.world, "a1", report);
}

static void skip(void)
{
    struct coord_event event = world_event(&at.world, COORD_EVENT_SKIP, "j1");
    event.skip.topic = mem_strdup("orders");
    event.skip.partition = 2;
    event.skip.offset = INT64_MAX - 2;
    event.skip.reason = mem_strdup("it's \"broken\"; --");
    world_step(&at.world, event);
    world_expect_status(&at.world, 201);
}

/* store_fixture_check compares all that is loaded; asserted is that there was something to lose. */
Test(store_skip, comes_back_as_it_was_and_goes_with_its_job)
{
    halt();
    skip();
    cr_assert_eq(cluster_job(&at.world.cluster, "j1")->skips.count, 1);
    store_fixture_check(at.store, &at.world.cluster);
    world_delete(&at.world, "j1");
    world_pass(&at.world, 60000);
    world_reply_all_well(&at.world);
    store_fixture_check(at.store, &at.world.cluster);
}

Test(store_skip, a_choice_comes_back_as_it_was)
{
    halt();
    struct coord_event event = world_event(&at.world, COORD_EVENT_OFFSETS, "j1");
    event.offsets.action = OFFSETS_ACTION_RESTORE;
    world_step(&at.world, event);
    world_expect_status(&at.world, 200);
    cr_assert_eq(world_placement(&at.world, "j1", 3)->chosen.count, 1);
    store_fixture_check(at.store, &at.world.cluster);
    world_report(&at.world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(world_placement(&at.world, "j1", 3)->chosen.count, 0);
    store_fixture_check(at.store, &at.world.cluster);
}

Test(store_skip, of_a_record_that_no_job_has_is_refused)
{
    halt();
    skip();
    store_close(at.store);
    store_fixture_sql(&at.fixture, "UPDATE skips SET partition = 8");
    at.store = store_fixture_open(&at.fixture);
    struct cluster cluster;
    struct err err;
    cluster_init(&cluster, at.world.cluster.config);
    cr_assert_eq(store_load(at.store, &cluster, &err), ERR_CORRUPT);
    cluster_finish(&cluster);
}

Test(store_skip, bounds_are_read_as_they_are_written_and_nothing_else_is)
{
    static const char *const broken[] = {"x",
                                         "[",
                                         "[[0,1,2,3]",
                                         "[[0,1,2]]",
                                         "[[0,1,2,3]x",
                                         "[[0,1,-1,3]]",
                                         "[[0,1,2,-2]]",
                                         "[[99,1,2,3]]"};
    struct placement_row row = {0};
    cr_assert_null(store_print_bounds(&row));
    cr_assert(store_parse_bounds("", &row));
    cr_assert_eq(row.bounds.count, 0);
    cr_assert(store_parse_bounds("[[0,1,2,-1],[1,1,5,4]]", &row));
    cr_assert_eq(row.bounds.count, 2);
    cr_assert_eq(row.bounds.items[0].records, API_UNKNOWN);
    cr_assert_eq(row.bounds.items[1].offset, 5);
    char *text = store_print_bounds(&row);
    cr_assert_str_eq(text, "[[0,1,2,-1],[1,1,5,4]]");
    free(text);
    free(row.bounds.items);
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        row = (struct placement_row){0};
        cr_assert_not(store_parse_bounds(broken[i], &row), "%s", broken[i]);
    }
}

Test(store_skip, choices_are_read_as_they_are_written_and_nothing_else_is)
{
    static const char *const broken[] = {"x",
                                         "[",
                                         "[[0,1,2,3]",
                                         "[[0,1,2]]",
                                         "[[0,1,2,3]x",
                                         "[[0,1,2,-1]]",
                                         "[[0,1,-2,3]]",
                                         "[[99,1,2,3]]",
                                         "[[0,1,2,3],]"};
    struct placement_row row = {0};
    cr_assert_null(store_print_chosen(&row));
    cr_assert(store_parse_chosen("", &row));
    cr_assert_eq(row.chosen.count, 0);
    cr_assert(store_parse_chosen("[[0,1,-1,2],[3,4,5,6]]", &row));
    cr_assert_eq(row.chosen.count, 2);
    cr_assert_eq(row.chosen.items[0].found, API_UNKNOWN);
    cr_assert_eq(row.chosen.items[1].offset, 6);
    char *text = store_print_chosen(&row);
    cr_assert_str_eq(text, "[[0,1,-1,2],[3,4,5,6]]");
    free(text);
    free(row.chosen.items);
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        row = (struct placement_row){0};
        cr_assert_not(store_parse_chosen(broken[i], &row), "%s", broken[i]);
    }
}
