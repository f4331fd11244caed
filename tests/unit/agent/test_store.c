#include "store_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/processor.h"
#include "common/mem.h"

static struct store_fixture fixture;

static void setup(void)
{
    fixture_init(&fixture);
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store, .init = setup, .fini = teardown);

/* ---- life -------------------------------------------------------------------------------------
 */

Test(store, is_fresh_then_kept_with_its_rows_and_positions)
{
    const struct store_position positions[] = {
        {.topic = 0,
         .partition = 7,
         .root = 3,
         .next_offset = INT64_MAX,
         .record_time_ms = 1700000000000,
         .last_offset = INT64_MAX - 1,
         .last_fingerprint = UINT64_MAX},
        {.topic = 1,
         .partition = UINT32_MAX,
         .root = UINT32_MAX,
         .record_time_ms = -1,
         .last_offset = -1},
    };
    const struct store_position *found;
    size_t count = 9;
    struct stat status;

    fixture_open(&fixture, STORE_FRESH);
    cr_assert_eq(stat(fixture.directory, &status), 0);
    cr_assert_eq(status.st_mode & 0777, 0700);
    (void)store_positions(fixture.store, &count);
    cr_assert_eq(count, 0);
    fixture_put(&fixture, "a", "1");
    cr_assert(store_freeze(fixture.store, positions, 2));
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_NONE);

    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "1");
    cr_assert_null(fixture_get(&fixture, "b"));
    found = store_positions(fixture.store, &count);
    cr_assert_eq(count, 2);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(found[i].topic, positions[i].topic);
        cr_assert_eq(found[i].partition, positions[i].partition);
        cr_assert_eq(found[i].root, positions[i].root);
        cr_assert_eq(found[i].next_offset, positions[i].next_offset);
        cr_assert_eq(found[i].record_time_ms, positions[i].record_time_ms);
        cr_assert_eq(found[i].last_offset, positions[i].last_offset);
        cr_assert_eq(found[i].last_fingerprint, positions[i].last_fingerprint);
    }
}

Test(store, that_never_saw_a_checkpoint_is_fresh_again)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_reopen(&fixture, STORE_FRESH);
    cr_assert_null(fixture_get(&fixture, "a"));
}

Test(store, keeps_an_empty_checkpoint)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_checkpoint(&fixture, 0);
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_eq(fixture_offset(&fixture), 0);
}

Test(store, does_not_mind_an_interrupted_creation)
{
    char path[256];

    /* Before: killed in the middle of creating: a half-made file in `new`, no data.mdb. */
    fixture_open(&fixture, STORE_FRESH);
    fixture_close(&fixture);
    cr_assert_eq(unlink(fixture.data_path), 0);
    snprintf(path, sizeof(path), "%s/new", fixture.directory);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/new/data.mdb", fixture.directory);
    fixture_copy_file("/proc/self/cmdline", path);

    fixture_open(&fixture, STORE_FRESH);
    fixture_checkpoint(&fixture, 5);
    cr_assert_not(fixture_exists(path));
}

/* ---- rows -------------------------------------------------------------------------------------
 */

Test(store, reads_live_then_frozen_then_disk)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "disk", "d");
    fixture_put(&fixture, "frozen", "d");
    fixture_put(&fixture, "live", "d");
    fixture_put(&fixture, "gone", "d");
    fixture_checkpoint(&fixture, 1);

    /* Act: while the second checkpoint is held, a row in each layer over the ones below. */
    store_test_hold_flush(fixture.store, true);
    fixture_put(&fixture, "frozen", "f");
    fixture_put(&fixture, "live", "f");
    store_delete(fixture.store, fixture_row("gone"));
    fixture_freeze(&fixture, 2);
    fixture_put(&fixture, "live", "l");
    cr_assert_str_eq(fixture_get(&fixture, "disk"), "d");
    cr_assert_str_eq(fixture_get(&fixture, "frozen"), "f");
    cr_assert_str_eq(fixture_get(&fixture, "live"), "l");
    cr_assert_null(fixture_get(&fixture, "gone"));
    cr_assert_eq(fixture_offset(&fixture), 1);

    /* After: the same when the frozen map is gone, though the reader had looked at LMDB before. */
    store_test_hold_flush(fixture.store, false);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_NONE);
    cr_assert_str_eq(fixture_get(&fixture, "disk"), "d");
    cr_assert_str_eq(fixture_get(&fixture, "frozen"), "f");
    cr_assert_str_eq(fixture_get(&fixture, "live"), "l");
    cr_assert_null(fixture_get(&fixture, "gone"));
    cr_assert_eq(fixture_offset(&fixture), 2);
}

Test(store, puts_a_value_that_it_has_just_handed_out)
{
    char large[5000];
    const void *value = NULL;
    size_t bytes = 0;

    /* Goal: from live map and from LMDB, onto the same row and onto another, shorter and as it is.
     */
    memset(large, 'x', sizeof(large));
    fixture_open(&fixture, STORE_FRESH);
    for (int round = 0; round < 2; round++) {
        const char *to = round == 0 ? "live" : "disk";

        store_put(fixture.store, fixture_row("a"), 0, large, sizeof(large));
        if (round == 1)
            fixture_checkpoint(&fixture, 1);
        cr_assert_eq(store_get(fixture.store, fixture_row("a"), INT64_MIN, &value, &bytes, NULL),
                     ERR_NONE);
        store_put(fixture.store, fixture_row(to), 0, value, bytes);
        cr_assert_eq(store_get(fixture.store, fixture_row(to), INT64_MIN, &value, &bytes, NULL),
                     ERR_NONE);
        cr_assert_eq(bytes, sizeof(large));
        cr_assert_arr_eq(value, large, sizeof(large));
        store_put(fixture.store, fixture_row(to), 0, (const char *)value + 1, bytes - 1);
        cr_assert_eq(store_get(fixture.store, fixture_row(to), INT64_MIN, &value, &bytes, NULL),
                     ERR_NONE);
        cr_assert_eq(bytes, sizeof(large) - 1);
        cr_assert_arr_eq(value, large, sizeof(large) - 1);
    }
}

Test(store, holds_values_up_to_the_limit)
{
    unsigned char *large = mem_realloc(NULL, BATON_STATE_VALUE_BYTES_MAX, 1);
    const void *value = NULL;
    size_t bytes = 0;

    for (size_t i = 0; i < BATON_STATE_VALUE_BYTES_MAX; i++)
        large[i] = (unsigned char)(i * 31 >> 5);
    fixture_open(&fixture, STORE_FRESH);
    store_put(fixture.store, fixture_row("a"), 0, large, BATON_STATE_VALUE_BYTES_MAX);
    cr_assert(store_is_full(fixture.store));
    fixture_checkpoint(&fixture, 1);
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_eq(store_get(fixture.store, fixture_row("a"), INT64_MIN, &value, &bytes, NULL),
                 ERR_NONE);
    cr_assert_eq(bytes, BATON_STATE_VALUE_BYTES_MAX);
    cr_assert_eq(memcmp(value, large, bytes), 0);
    free(large);
}

Test(store, takes_rows_before_alive_from_for_absent)
{
    static const struct {
        int64_t time_ms, alive_from_ms;
        bool there;
    } table[] = {
        {100, INT64_MIN, true}, {100, 100, true}, {100, 101, false}, {-1, -1, true}, {-1, 0, false},
    };

    fixture_open(&fixture, STORE_FRESH);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (int layer = 0; layer < 2; layer++) {
            const void *value;
            size_t bytes;
            const enum err_code wanted = table[i].there ? ERR_NONE : ERR_NOT_FOUND;

            store_put(fixture.store, fixture_row("a"), table[i].time_ms, "1", 1);
            if (layer == 1)
                fixture_checkpoint(&fixture, 1);
            cr_assert_eq(store_get(fixture.store, fixture_row("a"), table[i].alive_from_ms, &value,
                                   &bytes, NULL),
                         wanted, "line %zu, layer %d", i, layer);
        }
    }
}

static bool stop_at_second(void *arg, const void *subkey, size_t subkey_bytes, const void *value,
                           size_t value_bytes)
{
    int *visited = arg;

    (void)subkey;
    (void)subkey_bytes;
    (void)value;
    (void)value_bytes;
    return ++*visited < 2;
}

Test(store, iterates_until_the_visitor_stops)
{
    int visited = 0;

    fixture_open(&fixture, STORE_FRESH);
    for (int i = 0; i < 5; i++) {
        const char c = (char)('a' + i);
        const struct store_row row = {.key = "k", .key_bytes = 1, .subkey = &c, .subkey_bytes = 1};

        store_put(fixture.store, row, 0, "1", 1);
    }
    cr_assert_eq(
        store_iterate(fixture.store, fixture_row("k"), INT64_MIN, stop_at_second, &visited, NULL),
        ERR_NONE);
    cr_assert_eq(visited, 2);
}

Test(store, is_full_when_the_live_map_is_over_its_size)
{
    char key[32];
    int rows = 0;

    fixture.config.cache_bytes_max = 64 * 1024;
    fixture_open(&fixture, STORE_FRESH);
    for (; !store_is_full(fixture.store); rows++) {
        snprintf(key, sizeof(key), "key-%d", rows);
        fixture_put(&fixture, key, "1");
        cr_assert_lt(rows, 10000);
    }
    cr_assert_gt(rows, 100);
    cr_assert_gt(store_live_bytes(fixture.store), 64 * 1024);
    fixture_freeze(&fixture, 1);
    cr_assert_not(store_is_full(fixture.store));
}

/* ---- numbers --------------------------------------------------------------------------------- */

Test(store, tells_its_size_as_of_the_last_checkpoint)
{
    uint64_t rows = 9, bytes = 0;
    struct stat status;

    fixture_open(&fixture, STORE_FRESH);
    store_size(fixture.store, &rows, &bytes);
    cr_assert_eq(rows, 0);
    fixture_put(&fixture, "a", "1");
    fixture_put(&fixture, "b", "1");
    store_delete(fixture.store, fixture_row("never there"));
    store_size(fixture.store, &rows, &bytes);
    cr_assert_eq(rows, 0);
    fixture_checkpoint(&fixture, 1);
    store_size(fixture.store, &rows, &bytes);
    cr_assert_eq(rows, 2);
    cr_assert_eq(stat(fixture.data_path, &status), 0);
    cr_assert_eq(bytes, (uint64_t)status.st_size);
    fixture_put(&fixture, "b", "2");
    store_delete(fixture.store, fixture_row("a"));
    fixture_checkpoint(&fixture, 2);
    store_size(fixture.store, &rows, &bytes);
    cr_assert_eq(rows, 1);
    fixture_reopen(&fixture, STORE_KEPT);
    store_size(fixture.store, &rows, &bytes);
    cr_assert_eq(rows, 1);
    cr_assert_gt(bytes, 0);
}

Test(store, fingerprints_tell_records_apart_and_stay_what_they_are)
{
    /* The first is frozen: lineage on disk must be understood by every later version. */
    cr_assert_eq(store_fingerprint("key", 3, "value", 5, 1700000000000),
                 UINT64_C(0xbcd382812a66f776));
    cr_assert_eq(store_fingerprint("key", 3, "value", 5, 1),
                 store_fingerprint("key", 3, "value", 5, 1));
    cr_assert_neq(store_fingerprint("key", 3, "value", 5, 1),
                  store_fingerprint("key", 3, "value", 5, 2));
    cr_assert_neq(store_fingerprint("keyv", 4, "alue", 4, 1),
                  store_fingerprint("key", 3, "value", 5, 1));
    cr_assert_neq(store_fingerprint(NULL, 0, "value", 5, 1),
                  store_fingerprint("", 0, "value", 5, 1));
    cr_assert_neq(store_fingerprint("key", 3, NULL, 0, 1), store_fingerprint("key", 3, "", 0, 1));
}
