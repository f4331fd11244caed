/* state_ttl: what the sweep removes is only what no read would have found. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TTL_MS 100

static struct store_fixture fixture;

static void setup(void)
{
    fixture_init(&fixture);
    fixture.config.state_ttl_ms = TTL_MS;
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store_sweep, .init = setup, .fini = teardown);

static void put_at(uint32_t root, const char *key, int64_t time_ms)
{
    struct store_row row = fixture_row(key);

    row.root = root;
    store_put(fixture.store, row, time_ms, "1", 1);
}

static bool is_there(uint32_t root, const char *key)
{
    struct store_row row = fixture_row(key);
    const void *value;
    size_t bytes;

    row.root = root;
    return store_get(fixture.store, row, INT64_MIN, &value, &bytes, NULL) == ERR_NONE;
}

static void checkpoint(const struct store_position *positions, size_t count)
{
    cr_assert(store_freeze(fixture.store, positions, count));
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_NONE);
}

static uint64_t rows_on_disk(void)
{
    uint64_t rows, bytes;

    store_size(fixture.store, &rows, &bytes);
    return rows;
}

Test(store_sweep, goes_by_the_slowest_partition_of_the_root)
{
    /* Goal: root 1 has partitions at 500 and 300, root 2 one at 1000, root 3 one without a record.
     */
    const struct store_position positions[] = {
        {.partition = 1, .root = 1, .record_time_ms = 500},
        {.partition = 9, .root = 1, .record_time_ms = 300},
        {.partition = 2, .root = 2, .record_time_ms = 1000},
        {.partition = 3, .root = 3, .record_time_ms = 1000},
        {.partition = 7, .root = 3, .record_time_ms = -1},
    };

    fixture_open(&fixture, STORE_FRESH);
    put_at(1, "dead", 199);
    put_at(1, "alive", 200);
    put_at(2, "dead", 899);
    put_at(2, "alive", 900);
    put_at(3, "unknown", -1);
    put_at(4, "of no position", 0);
    checkpoint(positions, 5);
    cr_assert_not(is_there(1, "dead"));
    cr_assert(is_there(1, "alive"));
    cr_assert_not(is_there(2, "dead"));
    cr_assert(is_there(2, "alive"));
    cr_assert(is_there(3, "unknown"));
    cr_assert(is_there(4, "of no position"));
    cr_assert_eq(rows_on_disk(), 4);
    fixture_reopen(&fixture, STORE_KEPT); /* the rows add up */
    cr_assert_eq(rows_on_disk(), 4);
}

Test(store_sweep, is_not_held_up_by_what_is_not_read_any_more)
{
    const struct store_position positions[] = {
        {.partition = 1, .root = 1, .record_time_ms = 200, .whole = true},
        {.partition = 9, .root = 1, .record_time_ms = 500},
        {.partition = 2, .root = 2, .record_time_ms = 1000, .whole = true},
    };

    fixture_open(&fixture, STORE_FRESH);
    put_at(1, "dead", 399);
    put_at(1, "alive", 400);
    put_at(2, "of nothing that is read", 0);
    checkpoint(positions, 3);
    cr_assert_not(is_there(1, "dead"));
    cr_assert(is_there(1, "alive"));
    cr_assert(is_there(2, "of nothing that is read"));
}

Test(store_sweep, does_nothing_without_a_ttl)
{
    const struct store_position position = {.record_time_ms = INT64_MAX};

    fixture.config.state_ttl_ms = 0;
    fixture_open(&fixture, STORE_FRESH);
    put_at(0, "old", 0);
    checkpoint(&position, 1);
    checkpoint(&position, 1);
    cr_assert(is_there(0, "old"));
}

Test(store_sweep, leaves_rows_that_were_put_again)
{
    const struct store_position first = {.record_time_ms = 50};
    const struct store_position later = {.record_time_ms = 1000};

    fixture_open(&fixture, STORE_FRESH);
    put_at(0, "in the frozen map", 0);
    put_at(0, "in the live map", 0);
    put_at(0, "nowhere", 0);
    checkpoint(&first, 1);
    cr_assert_eq(rows_on_disk(), 3);
    store_test_hold_flush(fixture.store, true);
    put_at(0, "in the frozen map", 1000);
    cr_assert(store_freeze(fixture.store, &later, 1));
    put_at(0, "in the live map", 1000);
    store_test_hold_flush(fixture.store, false);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_NONE);
    cr_assert_eq(rows_on_disk(), 1);
    cr_assert(is_there(0, "in the frozen map"));
    cr_assert(is_there(0, "in the live map"));
    cr_assert_not(is_there(0, "nowhere"));
    checkpoint(&later, 1);
    cr_assert_eq(rows_on_disk(), 2);
}

/* 10,000 rows that die at once, in checkpoints that change nothing: 2,000 each, over a restart too.
 */
Test(store_sweep, is_bounded_and_goes_on_where_it_stopped)
{
    const struct store_position young = {.record_time_ms = 0};
    const struct store_position old = {.record_time_ms = 1000};
    char key[32];

    fixture.config.cache_bytes_max = INT64_C(64) * 1024 * 1024;
    fixture_open(&fixture, STORE_FRESH);
    for (int i = 0; i < 10000; i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        put_at(0, key, i % 2 == 0 ? 0 : 1000); /* every second one stays */
    }
    checkpoint(&young, 1);
    cr_assert_eq(rows_on_disk(), 10000);
    for (int i = 1; i <= 5; i++) {
        checkpoint(&old, 1);
        cr_assert_lt(rows_on_disk(), 10000 - 1000 * (uint64_t)i + 200);
        cr_assert_gt(rows_on_disk(), 10000 - 1000 * (uint64_t)i - 200);
        fixture_reopen(&fixture, STORE_KEPT);
    }
    checkpoint(&old, 1);
    cr_assert_eq(rows_on_disk(), 5000);
    for (int i = 0; i < 10000; i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        cr_assert_eq(is_there(0, key), i % 2 == 1);
    }
}

Test(store_sweep, changes_nothing_that_a_read_can_see)
{
    static struct model model;
    struct rng rng;
    uint32_t number = 0;
    uint64_t rows_min = UINT64_MAX;

    /* All rows of the model are of two roots; the sweep takes most of what is not touched for 100
     * ms. */
    rng_init(&rng, 7);
    fixture_open(&fixture, STORE_FRESH);
    for (int64_t now_ms = 0; now_ms < 3000; now_ms++) {
        const struct store_position positions[] = {
            {.root = 0, .record_time_ms = now_ms, .next_offset = now_ms},
            {.root = UINT32_MAX, .record_time_ms = now_ms, .next_offset = now_ms}};

        if (rng_below(&rng, 4) == 0)
            model_put(&model, fixture.store, (int)rng_below(&rng, MODEL_ROWS), ++number, now_ms);
        if (rng_below(&rng, 20) == 0)
            model_delete(&model, fixture.store, (int)rng_below(&rng, MODEL_ROWS));
        if (rng_below(&rng, 10) == 0 && !store_freeze(fixture.store, positions, 2))
            cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_NONE);
        if (rng_below(&rng, 10) == 0)
            model_assert_equal(&model, fixture.store, now_ms - TTL_MS);
        if (now_ms > 1000 && rows_on_disk() < rows_min)
            rows_min = rows_on_disk();
    }
    cr_assert_lt(rows_min, 40, "the sweep never removed anything: %" PRIu64, rows_min);
}
