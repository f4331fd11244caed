/* The size of LMDB's map and of its file. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static struct store_fixture fixture;

static void setup(void)
{
    fixture_init(&fixture);
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store_env, .init = setup, .fini = teardown);

static void put_blocks(int count)
{
    static char block[1024 * 1024];
    char key[32];

    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "block-%d", i);
        memset(block, 'a' + i % 26, sizeof(block));
        store_put(fixture.store, fixture_row(key), 0, block, sizeof(block));
    }
}

static void assert_blocks(int count)
{
    for (int i = 0; i < count; i++) {
        char key[32];
        const void *value = NULL;
        size_t bytes = 0;

        snprintf(key, sizeof(key), "block-%d", i);
        cr_assert_eq(store_get(fixture.store, fixture_row(key), INT64_MIN, &value, &bytes, NULL),
                     ERR_NONE);
        cr_assert_eq(bytes, 1024 * 1024);
        cr_assert_eq(*(const char *)value, 'a' + i % 26);
        cr_assert_eq(((const char *)value)[bytes - 1], 'a' + i % 26);
    }
}

Test(store_env, grows_its_map)
{
    fixture_open(&fixture, STORE_FRESH);
    for (int i = 1; i <= 5; i++) {
        put_blocks(40 * i);
        cr_assert_not_null(fixture_get(&fixture, "nothing") == NULL ? ""
                                                                    : NULL); /* a view is held */
        fixture_checkpoint(&fixture, i);
        assert_blocks(40 * i);
    }
    cr_assert_gt(fixture.store->map_bytes, UINT64_C(200) * 1024 * 1024);
    fixture_reopen(&fixture, STORE_KEPT);
    assert_blocks(200);
}

/* The estimate of store_freeze is taken away: the flusher runs into the end of the map itself. */
Test(store_env, grows_its_map_when_the_flusher_finds_it_full)
{
    fixture_open(&fixture, STORE_FRESH);
    put_blocks(1);
    cr_assert_eq(mdb_env_set_mapsize(fixture.store->env, 2 * 1024 * 1024), 0);
    fixture.store->map_bytes = UINT64_C(512) * 1024 * 1024; /* what it believes */
    put_blocks(30);
    fixture_freeze(&fixture, 1);
    cr_assert_null(fixture_get(&fixture, "nothing")); /* the reader has a view while it grows */
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_NONE);
    cr_assert_eq(fixture.store->map_bytes, UINT64_C(1024) * 1024 * 1024);
    assert_blocks(30);
}

Test(store_env, says_when_the_limit_of_the_map_is_reached)
{
    struct err error = {0};

    fixture.config.map_bytes_max = 16 * 1024 * 1024;
    fixture_open(&fixture, STORE_FRESH);
    put_blocks(5);
    fixture_checkpoint(&fixture, 1);
    put_blocks(30);
    fixture_freeze(&fixture, 2);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_IO);
    cr_assert_eq(error.detail, MDB_MAP_FULL);
    cr_assert_not_null(strstr(error.text, "16777216"), "%s", error.text);
    assert_blocks(30); /* no state is lost, and reads go on */
    store_flush_retry(fixture.store);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_IO);

    /* After: opened with a higher limit it goes on from the last checkpoint. */
    fixture.config.map_bytes_max = 128 * 1024 * 1024;
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_eq(fixture_offset(&fixture), 1);
    put_blocks(30);
    fixture_checkpoint(&fixture, 2);
}

Test(store_env, opens_a_file_that_is_over_a_lowered_limit)
{
    struct err error = {0};

    fixture_open(&fixture, STORE_FRESH);
    put_blocks(20);
    fixture_checkpoint(&fixture, 1);
    fixture.config.map_bytes_max = 1024 * 1024;
    fixture_reopen(&fixture, STORE_KEPT);
    assert_blocks(20);
    put_blocks(20);
    fixture_freeze(&fixture, 2);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_IO);
    cr_assert_eq(error.detail, MDB_MAP_FULL);
}

Test(store_env, is_broken_but_alive_when_the_map_can_not_grow)
{
    struct rlimit limit;
    struct err error = {0};
    const void *value;
    size_t bytes;

    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_checkpoint(&fixture, 1);
    put_blocks(30);
    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    fixture.store->map_bytes =
        1; /* so that it wants to grow, as far as address space does not go */
    limit.rlim_cur = 64 * 1024 * 1024;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    fixture_freeze(&fixture, 2);
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_IO);
    cr_assert(error.fatal);
    assert_blocks(30); /* of the frozen map */
    cr_assert_eq(store_get(fixture.store, fixture_row("a"), INT64_MIN, &value, &bytes, &error),
                 ERR_IO);
    cr_assert(error.fatal);
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "1");
}

Test(store_env, reuses_pages_of_old_checkpoints)
{
    uint64_t rows, bytes, first_bytes = 0;

    /* Goal: a task that overwrites the same rows for ever does not fill the disk. */
    fixture_open(&fixture, STORE_FRESH);
    for (int i = 0; i < 200; i++) {
        for (int row = 0; row < 500; row++) {
            char key[32];

            snprintf(key, sizeof(key), "key-%d", row * 7919 % 500);
            (void)fixture_get(&fixture, key); /* the reader holds views, as in life */
            fixture_put(&fixture, key, i % 2 == 0 ? "one value" : "another value");
        }
        fixture_freeze(&fixture, i);
        (void)fixture_get(&fixture, "nothing");
        cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_NONE);
        store_size(fixture.store, &rows, &bytes);
        if (i == 10)
            first_bytes = bytes;
    }
    cr_assert_eq(rows, 500);
    cr_assert_leq(bytes, 2 * first_bytes, "%" PRIu64 " after 10, %" PRIu64 " after 200",
                  first_bytes, bytes);
}
