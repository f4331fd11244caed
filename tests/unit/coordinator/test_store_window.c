/* Settle windows on disk: as they were after every change, and brought up to date. */
#include <criterion/criterion.h>

#include "coordinator/store.h"
#include "tests/unit/coordinator/store_rig.h"

static struct store_rig at;

static void setup(void)
{
    store_rig_init(&at);
    world_register(&at.world, "a1", 1);
}

static void teardown(void)
{
    store_rig_finish(&at);
}

TestSuite(store_window, .init = setup, .fini = teardown);

/* A job whose topics have eight partitions, and had so many once. */
static void create(const char *name, uint32_t initial)
{
    struct job_spec spec = world_spec(name);
    spec.initial_partitions = initial;
    world_create_spec(&at.world, name, spec);
}

static int64_t first_end(const struct cluster *cluster, const char *name, uint32_t partition)
{
    const struct window *window = cluster_window(cluster_job(cluster, name), 0, partition);
    cr_assert_not_null(window);
    return window->row.window.first_end;
}

Test(store_window, is_loaded_as_it_was)
{
    create("j1", 4);
    cr_assert_eq(first_end(&at.world.cluster, "j1", 4), 100);
    store_fixture_check(at.store, &at.world.cluster);
}

/* Once the next expansion let an older build apply what lay in such partitions before it. */
Test(store_window, keys_of_what_an_expansion_made_are_checked_from_the_first_record_on)
{
    create("j1", 0);
    create("j2", 4);
    store_close(at.store);
    store_fixture_sql(&at.fixture,
                      "UPDATE jobs SET partitions_initial = 4 WHERE name = 'j1';"
                      "INSERT INTO settle_windows SELECT 'j1', topic, partition, number, first_end,"
                      " end, fence, opened_at, closed_at, old_records, old_at, stale"
                      " FROM settle_windows WHERE job = 'j2';"
                      "PRAGMA user_version = 15");
    at.store = store_fixture_open(&at.fixture);
    struct cluster loaded;
    store_fixture_load(at.store, &loaded);
    cr_assert_eq(first_end(&loaded, "j1", 3), 100);
    cr_assert_eq(first_end(&loaded, "j1", 4), 0);
    cr_assert_eq(first_end(&loaded, "j2", 4), 100, "they were there before the job");
    cluster_finish(&loaded);
}
