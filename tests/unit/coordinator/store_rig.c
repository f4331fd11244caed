#include "tests/unit/coordinator/store_rig.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>

static void stored(struct world *from, const struct update *update)
{
    struct store_rig *at =
        (struct store_rig *)(void *)((char *)from - offsetof(struct store_rig, world));
    struct err err;
    cr_assert_eq(store_commit(at->store, update, &err), ERR_NONE, "%s", err.text);
}

void store_rig_go_on(struct store_rig *at, struct cluster *loaded)
{
    world_init_from(&at->world, loaded, stored, NULL);
}

void store_rig_init(struct store_rig *at)
{
    struct cluster loaded;
    store_fixture_init(&at->fixture);
    at->store = store_fixture_open(&at->fixture);
    store_fixture_load(at->store, &loaded);
    store_rig_go_on(at, &loaded);
}

void store_rig_init_job(struct store_rig *at)
{
    store_rig_init(at);
    world_register(&at->world, "a1", 1);
    world_create(&at->world, "j1");
    world_report(&at->world, "a1", TASK_STATE_ACTIVE);
}

void store_rig_finish(struct store_rig *at)
{
    world_finish(&at->world);
    store_close(at->store);
    store_fixture_finish(&at->fixture);
}

void store_rig_leave(struct store_rig *at, const char *path)
{
    world_finish(&at->world);
    store_close(at->store);
    cr_assert_eq(rename(at->fixture.path, path), 0);
    store_fixture_finish(&at->fixture);
}
