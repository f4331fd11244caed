/* Standbys on disk: as they were after every change, and refused where somebody has edited them. */
#include <criterion/criterion.h>

#include "common/mem.h"
#include "coordinator/store.h"
#include "tests/unit/coordinator/store_rig.h"

static struct store_rig at;
static const char *const three[] = {"a1", "a2", "a3", NULL};

static struct job_spec spec_of(uint32_t standbys)
{
    struct job_spec spec = world_spec("j1");
    spec.standbys = standbys;
    return spec;
}

/* Three agents have j1 and its standbys, and every update goes to the store. */
static void setup(void)
{
    store_rig_init(&at);
    for (uint64_t i = 0; three[i] != NULL; i++)
        world_register(&at.world, three[i], i + 1);
    world_create_spec(&at.world, "j1", spec_of(1));
    world_calm_down(&at.world, three);
}

static void teardown(void)
{
    store_rig_finish(&at);
}

TestSuite(store_standby, .init = setup, .fini = teardown);

static size_t count_in(const struct cluster *cluster)
{
    size_t count = 0;
    for (size_t p = 0; p < 4; p++)
        count += cluster->jobs.items[0]->processors.items[p].standbys.count;
    return count;
}

static void expect_stored(size_t count)
{
    struct cluster loaded;
    store_fixture_check(at.store, &at.world.cluster);
    store_fixture_load(at.store, &loaded);
    cr_assert_eq(count_in(&loaded), count);
    cr_assert_eq(count_in(&at.world.cluster), count);
    for (size_t p = 0; p < 4; p++)
        for (size_t s = 0; s < loaded.jobs.items[0]->processors.items[p].standbys.count; s++) {
            const struct standby_row *row =
                &loaded.jobs.items[0]->processors.items[p].standbys.items[s].row;
            cr_assert_not_null(row->reason);
            cr_assert_neq(row->started_at, 0);
        }
    cluster_finish(&loaded);
}

Test(store_standby, is_loaded_as_it_was_after_every_change)
{
    expect_stored(4);
    world_put(&at.world, "j1", spec_of(2));
    expect_stored(8);
    world_deregister(&at.world, "a3", 3);
    world_register(&at.world, "a3", 13); /* another incarnation */
    expect_stored(8);
    world_put(&at.world, "j1", spec_of(1));
    expect_stored(4);
    world_put(&at.world, "j1", spec_of(0));
    world_reply_all_well(&at.world);
    expect_stored(0);
}

Test(store_standby, goes_with_its_agent)
{
    world_put(&at.world, "j1", spec_of(2));
    world_deregister(&at.world, "a3", 3);
    world_forget(&at.world, "a3");
    store_fixture_check(at.store, &at.world.cluster);
    for (size_t p = 0; p < 4; p++)
        cr_assert_null(cluster_standby(&at.world.cluster.jobs.items[0]->processors.items[p], "a3"));
}

Test(store_standby, edited_rows_are_refused)
{
    static const char *const edits[] = {
        "UPDATE standbys SET processor = 7 WHERE processor = 0",
        "UPDATE standbys SET processor = -1 WHERE processor = 0",
        "UPDATE standbys SET processor = 1 WHERE processor = 0",
        "UPDATE standbys SET agent_incarnation = 'another'",
        "UPDATE standbys SET agent = (SELECT agent FROM placements WHERE"
        " placements.job = standbys.job AND placements.processor = standbys.processor)",
    };
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        struct cluster loaded = {0};
        struct err err;
        store_close(at.store);
        store_fixture_sql(&at.fixture, "CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM standbys");
        store_fixture_sql(&at.fixture, edits[i]);
        at.store = store_fixture_open(&at.fixture);
        cluster_init(&loaded, at.world.cluster.config);
        cr_assert_eq(store_load(at.store, &loaded, &err), ERR_CORRUPT, "%s", edits[i]);
        cluster_finish(&loaded);
        store_close(at.store);
        store_fixture_sql(&at.fixture,
                          "DELETE FROM standbys; INSERT INTO standbys SELECT * FROM kept");
        at.store = store_fixture_open(&at.fixture);
    }
    expect_stored(4);
}
