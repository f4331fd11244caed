/* When what a split leaves behind may not be removed, and when it must be for others' sake. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"

#define ROWS_MAX 20000

static struct store_fixture fixture;

static struct store_owners owners_of(uint32_t partitions, uint32_t processors)
{
    return (struct store_owners){
        .map = {.hash = KEY_HASH_MURMUR2,
                .partitions = {.initial = 16, .now = partitions},
                .processors = {.initial = 4, .now = processors}},
        .hashed = true,
    };
}

static void setup(void)
{
    fixture_init(&fixture);
    fixture.config.owners = owners_of(16, 4);
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store_garbage_room, .init = setup, .fini = teardown, .timeout = 60);

static struct store_row row_at(uint32_t root, const char *key, const char *subkey)
{
    return (struct store_row){.root = root,
                              .key = key,
                              .key_bytes = strlen(key),
                              .subkey = subkey,
                              .subkey_bytes = strlen(subkey)};
}

static void put(struct store_row row)
{
    store_put(fixture.store, row, 7, "value", 5);
}

static bool is_there(struct store_row row)
{
    const void *value;
    size_t bytes;
    struct err error = {0};
    enum err_code code = store_get(fixture.store, row, INT64_MIN, &value, &bytes, &error);

    cr_assert(code == ERR_NONE || code == ERR_NOT_FOUND, "%s", error.text);
    return code == ERR_NONE;
}

static uint64_t rows_on_disk(void)
{
    uint64_t rows, bytes;

    store_size(fixture.store, &rows, &bytes);
    return rows;
}

static uint64_t removed(void)
{
    uint64_t count;
    bool pending;

    store_count_garbage(fixture.store, &count, &pending);
    return count;
}

static bool is_pending(void)
{
    uint64_t count;
    bool pending;

    store_count_garbage(fixture.store, &count, &pending);
    return pending;
}

/* Begins a step when one is to be made, and waits for its end. */
static void step(void)
{
    struct err error = {0};

    cr_assert_eq(store_remove_garbage(fixture.store, INT64_MAX, &error), ERR_NONE, "%s",
                 error.text);
    while (fixture.store->garbage.running) {
        (void)store_flush_await(fixture.store, INT64_MAX);
        store_follow_flusher(fixture.store);
    }
}

static void remove_all(void)
{
    for (int i = 0; is_pending(); i++) {
        cr_assert_lt(i, ROWS_MAX, "it comes to an end");
        step();
    }
}

static void freeze(int64_t next_offset)
{
    const struct store_position position = {
        .partition = 3, .root = 3, .next_offset = next_offset, .record_time_ms = -1};

    cr_assert(store_freeze(fixture.store, &position, 1));
}

static void checkpoint(int64_t next_offset)
{
    struct err error = {0};

    freeze(next_offset);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_NONE, "%s", error.text);
}

/* A key without a zero byte. */
static const char *name_of(uint32_t number)
{
    static char name[16];

    snprintf(name, sizeof(name), "key-%" PRIu32, number);
    return name;
}

static void fill(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        put(row_at(i % 2 == 0 ? 3 : 7, name_of(i), ""));
    checkpoint(count);
}

Test(store_garbage_room, a_coordinator_that_knows_nothing_of_it_ends_it)
{
    struct store_owners owners = owners_of(16, 8);
    const struct store_owners none = {0};

    fixture_open(&fixture, STORE_FRESH);
    fill(100);
    store_tell_owners(fixture.store, &owners);
    cr_assert(is_pending());
    store_tell_owners(fixture.store, &none);
    cr_assert_not(is_pending());
    step();
    cr_assert_eq(rows_on_disk(), 100);
    store_tell_owners(fixture.store, &owners);
    remove_all();
    cr_assert_eq(rows_on_disk(), 50);
}

Test(store_garbage_room, makes_room_for_a_checkpoint_that_found_none)
{
    /* Goal: what the checkpoint has of before the split is found when it is written at last. */
    const struct store_owners owners = owners_of(16, 8);
    struct err error = {0};

    fixture_open(&fixture, STORE_FRESH);
    fill(100);
    put(row_at(7, "a: frozen before the split", ""));
    fixture.store->map_bytes_max = (int64_t)fixture.store->map_bytes;
    store_test_fail_flush(fixture.store, MDB_MAP_FULL, 1);
    freeze(101);
    cr_assert_neq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_NONE);
    store_tell_owners(fixture.store, &owners);
    for (int i = 0; i < 3; i++) {
        fixture.store->garbage.due_mono_ms = 0;
        step();
    }
    cr_assert_eq(removed(), 50);
    cr_assert(is_pending(), "it is not the last look");
    cr_assert_eq(store_flush_state(fixture.store, &error), STORE_FLUSH_FAILED);
    store_flush_retry(fixture.store);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_NONE, "%s", error.text);
    cr_assert_eq(rows_on_disk(), 51);
    remove_all();
    cr_assert_eq(rows_on_disk(), 50);
    cr_assert_not(is_there(row_at(7, "a: frozen before the split", "")));
}

Test(store_garbage_room, a_checkpoint_is_tried_again_after_the_step_under_way)
{
    const struct store_owners owners = owners_of(16, 8);
    struct err error = {0};

    fixture_open(&fixture, STORE_FRESH);
    fill(ROWS_MAX);
    fixture.store->map_bytes_max = (int64_t)fixture.store->map_bytes;
    store_test_fail_flush(fixture.store, MDB_MAP_FULL, 1);
    freeze(ROWS_MAX + 1);
    cr_assert_neq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_NONE);
    store_tell_owners(fixture.store, &owners);
    store_test_hold_flush(fixture.store, true);
    cr_assert_eq(store_remove_garbage(fixture.store, INT64_MAX, &error), ERR_NONE);
    cr_assert(fixture.store->garbage.running);
    store_flush_retry(fixture.store);
    cr_assert_eq(store_flush_state(fixture.store, &error), STORE_FLUSH_RUNNING);
    store_test_hold_flush(fixture.store, false);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_NONE, "%s", error.text);
    remove_all();
    cr_assert_eq(rows_on_disk(), ROWS_MAX / 2);
}

Test(store_garbage_room, a_step_that_finds_no_room_is_made_smaller)
{
    const struct store_owners owners = owners_of(16, 8);

    fixture_open(&fixture, STORE_FRESH);
    fill(ROWS_MAX);
    store_tell_owners(fixture.store, &owners);
    fixture.store->map_bytes_max = (int64_t)fixture.store->map_bytes;
    store_test_fail_flush(fixture.store, MDB_MAP_FULL, 6);
    for (int i = 0; i < 6; i++) {
        step();
        cr_assert_leq(fixture.store->garbage.due_mono_ms, clock_mono_ms(), "at once");
    }
    step();
    cr_assert_leq(fixture.store->flusher.removal.rows_max, 2000 >> 6);
    cr_assert_eq(fixture.store->flusher.outcome.code, ERR_NONE);
    remove_all();
    cr_assert_eq(rows_on_disk(), ROWS_MAX / 2);
}

Test(store_garbage_room, what_it_has_done_is_synced_at_its_end)
{
    const struct store_owners owners = owners_of(16, 8);

    fixture.config.sync = false;
    fixture_open(&fixture, STORE_FRESH);
    fill(ROWS_MAX);
    checkpoint(ROWS_MAX);
    store_tell_owners(fixture.store, &owners);
    step();
    cr_assert_not(fixture.store->meta.synced);
    remove_all();
    cr_assert(fixture.store->meta.synced);
    fixture.config.owners = owners;
    fixture_reopen(&fixture, STORE_KEPT);
}
