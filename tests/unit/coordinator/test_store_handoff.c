/* Hand-overs and arrivals on disk: as they were after a load, in pages, and in a database that is
 * older than they are. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/rows.h"
#include "coordinator/store.h"
#include "tests/unit/coordinator/store_rig.h"

static struct store_rig at;
static const char *const both[] = {"a1", "a2", NULL};

/* a1 runs j1, and every update goes to the store. */
static void setup(void)
{
    store_rig_init_job(&at);
}

static void teardown(void)
{
    store_rig_finish(&at);
}

TestSuite(store_handoff, .init = setup, .fini = teardown);

static struct handoff_page page_of(struct store_handoff_query query)
{
    struct handoff_page page;
    struct err err;
    cr_assert_eq(store_handoffs(at.store, query, &page, &err), ERR_NONE, "%s", err.text);
    return page;
}

Test(store_handoff, is_loaded_as_it_was_after_every_change)
{
    world_register(&at.world, "a2", 2);
    cr_assert_eq(at.world.cluster.handoffs.count, 2);
    store_fixture_check(at.store, &at.world.cluster);
    for (int round = 0; at.world.cluster.handoffs.count > 0; round++) {
        cr_assert_lt(round, 20);
        for (size_t i = 0; both[i] != NULL; i++) {
            world_report(&at.world, both[i], TASK_STATE_ACTIVE);
            store_fixture_check(at.store, &at.world.cluster);
            world_pass(&at.world, 10);
        }
    }
    cr_assert_eq(world_count_owned(&at.world, "j1", "a2"), 2);
}

Test(store_handoff, ended_ones_are_history_with_all_that_was_known)
{
    world_register(&at.world, "a2", 2);
    uint64_t first = at.world.cluster.handoffs.items[0]->row.id;
    world_calm_down(&at.world, both);
    struct handoff_page page = page_of((struct store_handoff_query){.limit = 10});
    cr_assert_eq(page.items.count, 2);
    cr_assert_null(page.next);
    const struct handoff_view *view = &page.items.items[1];
    cr_assert_eq(view->id, first, "the newest first");
    cr_assert_eq(view->state, HANDOFF_STATE_DONE);
    cr_assert_str_eq(view->job, "j1");
    cr_assert_str_eq(view->source, "a1");
    cr_assert_str_eq(view->target, "a2");
    cr_assert_gt(view->target_epoch, view->source_epoch);
    cr_assert_eq(view->partitions.count, 2);
    cr_assert_eq(view->partitions.items[1], view->partitions.items[0] + 4);
    cr_assert_geq(view->learning_ms, 0);
    cr_assert_geq(view->output_gap_ms, 0);
    cr_assert_not_null(strstr(view->reason, "a2 is new to the job"));
    cr_assert_null(view->error);
    schema_free(&schema_handoff_page, &page);

    struct handoff_view alone;
    struct err err;
    cr_assert_eq(store_handoff(at.store, first, &alone, &err), ERR_NONE);
    cr_assert_eq(alone.id, first);
    schema_free(&schema_handoff_view, &alone);
    cr_assert_eq(store_handoff(at.store, 4711, &alone, &err), ERR_NOT_FOUND);
}

Test(store_handoff, pages_follow_each_other_and_filters_hold)
{
    world_register(&at.world, "a2", 2);
    world_calm_down(&at.world, both);
    struct coord_event event = world_event(&at.world, COORD_EVENT_MOVE, "j1");
    event.move.processor = 0;
    world_step(&at.world, event);
    struct handoff_page page = page_of((struct store_handoff_query){.limit = 2});
    cr_assert_eq(page.items.count, 2);
    cr_assert_not_null(page.next);
    uint64_t before = strtoull(page.next, NULL, 10);
    cr_assert_eq(before, page.items.items[1].id);
    schema_free(&schema_handoff_page, &page);
    page = page_of((struct store_handoff_query){.limit = 2, .before = before});
    cr_assert_eq(page.items.count, 1);
    cr_assert_null(page.next);
    schema_free(&schema_handoff_page, &page);
    page = page_of((struct store_handoff_query){
        .limit = 5, .only_state = true, .state = HANDOFF_STATE_LEARNING});
    cr_assert_eq(page.items.count, 1);
    cr_assert_str_eq(page.items.items[0].operation, "op-2");
    schema_free(&schema_handoff_page, &page);
    page = page_of((struct store_handoff_query){.limit = 5, .job = "none"});
    cr_assert_eq(page.items.count, 0);
    schema_free(&schema_handoff_page, &page);
}

Test(store_handoff, history_is_kept_up_to_its_limit_and_running_ones_always)
{
    store_retain(at.store, (struct store_retention){.events = 1000, .operations = 1000});
    world_register(&at.world, "a2", 2);
    world_report(&at.world, "a1", TASK_STATE_ACTIVE);
    struct handoff_page page = page_of((struct store_handoff_query){.limit = 10});
    cr_assert_eq(page.items.count, 2);
    schema_free(&schema_handoff_page, &page);
    world_calm_down(&at.world, both);
    page = page_of((struct store_handoff_query){.limit = 10});
    cr_assert_eq(page.items.count, 0);
    schema_free(&schema_handoff_page, &page);
}

/* As the first version left it. */
Test(store_handoff, older_database_is_brought_up_to_date)
{
    store_close(at.store);
    store_fixture_sql(
        &at.fixture,
        "DROP TABLE standbys; DROP TABLE handoffs; DROP TABLE arrivals; ALTER TABLE meta DROP "
        "COLUMN handoff_id;"
        "ALTER TABLE placements DROP COLUMN handoff; ALTER TABLE operations DROP COLUMN target;"
        "ALTER TABLE operations DROP COLUMN processor; ALTER TABLE operations DROP COLUMN goal;"
        "ALTER TABLE agents DROP COLUMN max_learners;"
        "ALTER TABLE agents DROP COLUMN cordoned;"
        "ALTER TABLE agents DROP COLUMN cordon_reason;"
        "ALTER TABLE agents DROP COLUMN cordon_actor;"
        "ALTER TABLE agents DROP COLUMN cordon_changed_at;"
        "ALTER TABLE jobs DROP COLUMN paused; ALTER TABLE jobs DROP COLUMN pause_reason;"
        "ALTER TABLE jobs DROP COLUMN pause_actor;"
        "ALTER TABLE jobs DROP COLUMN pause_changed_at;"
        "ALTER TABLE placements DROP COLUMN paused_t1; DROP TABLE maintenance;"
        "ALTER TABLE operations DROP COLUMN ends; ALTER TABLE operations DROP COLUMN actor;"
        "ALTER TABLE operations DROP COLUMN count_before;"
        "ALTER TABLE operations DROP COLUMN count_reached;"
        "DROP TABLE settle_windows; ALTER TABLE placements DROP COLUMN bounds;"
        "ALTER TABLE placements DROP COLUMN settled;"
        "DROP TABLE skips; ALTER TABLE placements DROP COLUMN chosen; DROP TABLE group_holds;");
    static const char *const drain[] = {"state",       "on_deadline", "until_restart", "overdue",
                                        "processors",  "reason",      "actor",         "error",
                                        "deadline_ms", "deadline_at", "started_at",    "ended_at"};
    for (size_t i = 0; i < sizeof(drain) / sizeof(drain[0]); i++) {
        char sql[64];
        (void)snprintf(sql, sizeof(sql), "ALTER TABLE agents DROP COLUMN drain_%s", drain[i]);
        store_fixture_sql(&at.fixture, sql);
    }
    store_fixture_sql(&at.fixture, "PRAGMA user_version = 1");
    at.store = store_fixture_open(&at.fixture);
    struct cluster loaded;
    store_fixture_load(at.store, &loaded);
    cr_assert_eq(loaded.handoffs.count, 0);
    cr_assert_eq(loaded.jobs.items[0]->arrivals.count, 0);
    cr_assert_str_eq(loaded.jobs.items[0]->processors.items[3].placement.agent, "a1");
    cr_assert_eq(loaded.operations.items[0]->row.processor, API_UNKNOWN);
    cr_assert(cluster_agent_schedulable(cluster_agent(&loaded, "a1")));
    cr_assert_eq(cluster_agent(&loaded, "a1")->row.eligibility.changed_at, API_UNKNOWN);
    cr_assert_not(cluster_agent_leaving(cluster_agent(&loaded, "a1")));
    world_finish(&at.world);
    store_rig_go_on(&at, &loaded);
    world_report(&at.world, "a1", TASK_STATE_ACTIVE);
    world_register(&at.world, "a2", 2);
    world_calm_down(&at.world, both);
    cr_assert_eq(world_count_owned(&at.world, "j1", "a2"), 2, "a newcomer, as everywhere");
    store_fixture_check(at.store, &at.world.cluster);
}

Test(store_handoff, edited_rows_are_refused)
{
    static const char *const edits[] = {
        "UPDATE handoffs SET partitions = '[0,x]'", "UPDATE handoffs SET partitions = '[0'",
        "UPDATE handoffs SET state = 'sleeping'",   "UPDATE handoffs SET processor = 99999",
        "UPDATE handoffs SET processor = 7",        "UPDATE handoffs SET source_epoch = -1",
        "UPDATE handoffs SET target = source",      "UPDATE meta SET handoff_id = 0",
    };
    world_register(&at.world, "a2", 2);
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        store_close(at.store);
        store_fixture_sql(&at.fixture, "CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM handoffs");
        store_fixture_sql(&at.fixture, edits[i]);
        at.store = store_fixture_open(&at.fixture);
        struct cluster loaded;
        struct err err;
        cluster_init(&loaded, at.world.cluster.config);
        cr_assert_eq(store_load(at.store, &loaded, &err), ERR_CORRUPT, "%s", edits[i]);
        cluster_finish(&loaded);
        store_close(at.store);
        store_fixture_sql(&at.fixture,
                          "DELETE FROM handoffs; INSERT INTO handoffs SELECT * FROM kept;"
                          "UPDATE meta SET handoff_id = 2");
        at.store = store_fixture_open(&at.fixture);
        store_fixture_check(at.store, &at.world.cluster);
    }
}
