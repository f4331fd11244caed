/* When what a split leaves behind may not be removed, and when it must be for others' sake. */
#include "garbage_rig.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"

TestSuite(store_garbage_room, .init = garbage_init, .fini = garbage_finish, .timeout = 60);

Test(store_garbage_room, a_coordinator_that_knows_nothing_of_it_ends_it)
{
    struct store_owners owners = garbage_owners(16, 8);
    const struct store_owners none = {0};

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(100);
    store_tell_owners(garbage_fixture.store, &owners);
    cr_assert(garbage_is_pending());
    store_tell_owners(garbage_fixture.store, &none);
    cr_assert_not(garbage_is_pending());
    garbage_step();
    cr_assert_eq(garbage_rows(), 100);
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_remove_all();
    cr_assert_eq(garbage_rows(), 50);
}

Test(store_garbage_room, makes_room_for_a_checkpoint_that_found_none)
{
    /* Goal: what the checkpoint has of before the split is found when it is written at last. */
    const struct store_owners owners = garbage_owners(16, 8);
    struct err error = {0};

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(100);
    garbage_put(garbage_row(7, "a: frozen before the split", ""));
    garbage_fixture.store->map_bytes_max = (int64_t)garbage_fixture.store->map_bytes;
    store_test_fail_flush(garbage_fixture.store, MDB_MAP_FULL, 1);
    garbage_freeze(101);
    cr_assert_neq(store_flush_wait(garbage_fixture.store, INT64_MAX, &error), ERR_NONE);
    store_tell_owners(garbage_fixture.store, &owners);
    for (int i = 0; i < 3; i++) {
        garbage_fixture.store->garbage.due_mono_ms = 0;
        garbage_step();
    }
    cr_assert_eq(garbage_removed(), 50);
    cr_assert(garbage_is_pending(), "it is not the last look");
    cr_assert_eq(store_flush_state(garbage_fixture.store, &error), STORE_FLUSH_FAILED);
    store_flush_retry(garbage_fixture.store);
    cr_assert_eq(store_flush_wait(garbage_fixture.store, INT64_MAX, &error), ERR_NONE, "%s",
                 error.text);
    cr_assert_eq(garbage_rows(), 51);
    garbage_remove_all();
    cr_assert_eq(garbage_rows(), 50);
    cr_assert_not(garbage_has(garbage_row(7, "a: frozen before the split", "")));
}

Test(store_garbage_room, a_checkpoint_is_tried_again_after_the_step_under_way)
{
    const struct store_owners owners = garbage_owners(16, 8);
    struct err error = {0};

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(ROWS_MAX);
    garbage_fixture.store->map_bytes_max = (int64_t)garbage_fixture.store->map_bytes;
    store_test_fail_flush(garbage_fixture.store, MDB_MAP_FULL, 1);
    garbage_freeze(ROWS_MAX + 1);
    cr_assert_neq(store_flush_wait(garbage_fixture.store, INT64_MAX, &error), ERR_NONE);
    store_tell_owners(garbage_fixture.store, &owners);
    store_test_hold_flush(garbage_fixture.store, true);
    cr_assert_eq(store_remove_garbage(garbage_fixture.store, INT64_MAX, &error), ERR_NONE);
    cr_assert(garbage_fixture.store->garbage.running);
    store_flush_retry(garbage_fixture.store);
    cr_assert_eq(store_flush_state(garbage_fixture.store, &error), STORE_FLUSH_RUNNING);
    store_test_hold_flush(garbage_fixture.store, false);
    cr_assert_eq(store_flush_wait(garbage_fixture.store, INT64_MAX, &error), ERR_NONE, "%s",
                 error.text);
    garbage_remove_all();
    cr_assert_eq(garbage_rows(), ROWS_MAX / 2);
}

Test(store_garbage_room, a_step_that_finds_no_room_is_made_smaller)
{
    const struct store_owners owners = garbage_owners(16, 8);

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(ROWS_MAX);
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_fixture.store->map_bytes_max = (int64_t)garbage_fixture.store->map_bytes;
    store_test_fail_flush(garbage_fixture.store, MDB_MAP_FULL, 6);
    for (int i = 0; i < 6; i++) {
        garbage_step();
        cr_assert_leq(garbage_fixture.store->garbage.due_mono_ms, clock_mono_ms(), "at once");
    }
    garbage_step();
    cr_assert_leq(garbage_fixture.store->flusher.removal.rows_max, 2000 >> 6);
    cr_assert_eq(garbage_fixture.store->flusher.outcome.code, ERR_NONE);
    garbage_remove_all();
    cr_assert_eq(garbage_rows(), ROWS_MAX / 2);
}

Test(store_garbage_room, what_it_has_done_is_synced_at_its_end)
{
    const struct store_owners owners = garbage_owners(16, 8);

    garbage_fixture.config.sync = false;
    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(ROWS_MAX);
    garbage_checkpoint(ROWS_MAX);
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_step();
    cr_assert_not(garbage_fixture.store->meta.synced);
    garbage_remove_all();
    cr_assert(garbage_fixture.store->meta.synced);
    garbage_fixture.config.owners = owners;
    fixture_reopen(&garbage_fixture, STORE_KEPT);
}
