#include "store_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct store_map map;

static void setup(void)
{
    store_map_init(&map);
}

static void teardown(void)
{
    store_map_clear(&map);
}

TestSuite(store_map, .init = setup, .fini = teardown);

static void put(struct store_row row, const void *value, size_t bytes)
{
    store_map_put(&map, &row, store_map_hash(&map, &row), 7, value, bytes);
}

static const struct store_entry *find(struct store_row row)
{
    return store_map_find(&map, &row, store_map_hash(&map, &row));
}

Test(store_map, tells_rows_apart_by_all_their_parts)
{
    /* Goal: the same bytes cut differently, and the same row under another root, are other rows. */
    static const struct store_row rows[] = {
        {.root = 0, .key = "abc", .key_bytes = 3},
        {.root = 1, .key = "abc", .key_bytes = 3},
        {.root = 0, .key = "ab", .key_bytes = 2, .subkey = "c", .subkey_bytes = 1},
        {.root = 0, .key = "a", .key_bytes = 1, .subkey = "bc", .subkey_bytes = 2},
        {.root = 0, .key = "", .key_bytes = 0, .subkey = "abc", .subkey_bytes = 3},
        {.root = 0, .key = NULL, .key_bytes = 0},
    };
    const size_t count = sizeof(rows) / sizeof(rows[0]);

    for (size_t i = 0; i < count; i++) {
        cr_assert_null(find(rows[i]), "row %zu", i);
        put(rows[i], &i, sizeof(i));
    }
    cr_assert_eq(map.rows.count, count);
    for (size_t i = 0; i < count; i++) {
        const struct store_entry *entry = find(rows[i]);

        cr_assert_not_null(entry);
        cr_assert_eq(entry->value_bytes, sizeof(i));
        cr_assert_eq(memcmp(entry->value, &i, sizeof(i)), 0);
        cr_assert_eq(entry->record_time_ms, 7);
    }
}

Test(store_map, finds_rows_whose_hashes_are_the_same)
{
    static const struct store_row rows[] = {
        {.root = 1, .key = "one", .key_bytes = 3},
        {.root = 2, .key = "one", .key_bytes = 3},
        {.root = 1, .key = "two", .key_bytes = 3},
        {.root = 1, .key = "on", .key_bytes = 2},
        {.root = 1, .key = "on", .key_bytes = 2, .subkey = "e", .subkey_bytes = 1},
        {.root = 1, .key = "on", .key_bytes = 2, .subkey = "f", .subkey_bytes = 1},
        {.root = 1, .key = "o", .key_bytes = 1, .subkey = "ne", .subkey_bytes = 2},
    };
    const size_t count = sizeof(rows) / sizeof(rows[0]);

    for (size_t i = 0; i < count; i++) {
        cr_assert_null(store_map_find(&map, &rows[i], 42), "row %zu", i);
        store_map_put(&map, &rows[i], 42, 0, &i, sizeof(i));
    }
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(memcmp(store_map_find(&map, &rows[i], 42)->value, &i, sizeof(i)), 0);
}

Test(store_map, keeps_a_deleted_row_as_deleted_and_takes_it_back)
{
    const struct store_row row = fixture_row("a"), never = fixture_row("never put");

    put(row, "1", 1);
    store_map_delete(&map, &row, store_map_hash(&map, &row));
    store_map_delete(&map, &never, store_map_hash(&map, &never));
    cr_assert(find(row)->deleted);
    cr_assert(find(never)->deleted);
    put(row, "2", 1);
    cr_assert_not(find(row)->deleted);
    cr_assert_eq(map.rows.count, 2);
}

Test(store_map, keeps_values_that_grow_and_shrink)
{
    const struct store_row row = fixture_row("a");
    unsigned char value[5000];
    size_t bytes_before;

    for (size_t i = 0; i < sizeof(value); i++)
        value[i] = (unsigned char)(i * 7);
    for (size_t bytes = 0; bytes <= sizeof(value); bytes++) {
        put(row, value, bytes);
        cr_assert_eq(find(row)->value_bytes, bytes);
        cr_assert_eq(bytes == 0 ? 0 : memcmp(find(row)->value, value, bytes), 0);
    }
    /* Growing byte by byte costs a few copies, not 5000, and the same size costs nothing. */
    bytes_before = store_map_bytes(&map);
    cr_assert_lt(bytes_before, 30000);
    for (int i = 0; i < 100; i++)
        put(row, value, sizeof(value) - (size_t)i % 2);
    cr_assert_eq(store_map_bytes(&map), bytes_before);
}

Test(store_map, lists_the_rows_of_a_key_that_have_a_subkey)
{
    struct rng rng;
    bool put_already[50][20] = {{false}};

    rng_init(&rng, 1);
    for (int i = 0; i < 3000; i++) {
        const unsigned char key = (unsigned char)rng_below(&rng, 50);
        const unsigned char subkey = (unsigned char)rng_below(&rng, 20);
        const struct store_row row = {.root = 5,
                                      .key = &key,
                                      .key_bytes = 1,
                                      .subkey = &subkey,
                                      .subkey_bytes = subkey == 0 ? 0 : 1};

        put_already[key][subkey] = true;
        put(row, "x", 1);
    }
    for (int key = 0; key < 50; key++) {
        const unsigned char byte = (unsigned char)key;
        const struct store_row row = {.root = 5, .key = &byte, .key_bytes = 1};
        const struct store_entry *entry = store_map_rows_of_key(&map, &row);
        int wanted = 0, found = 0;

        for (int subkey = 1; subkey < 20; subkey++)
            wanted += put_already[key][subkey] ? 1 : 0;
        for (; entry != NULL; entry = entry->next_of_key, found++) {
            cr_assert_eq(entry->subkey_bytes, 1);
            cr_assert(put_already[key][*store_entry_subkey(entry)]);
        }
        cr_assert_eq(found, wanted);
    }
}

Test(store_map, holds_many_rows_and_counts_their_bytes)
{
    const int rows = 200000;
    char key[32];

    for (int i = 0; i < rows; i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        put(fixture_row(key), &i, sizeof(i));
    }
    cr_assert_eq(map.rows.count, (size_t)rows);
    cr_assert_geq(map.rows.capacity / 8 * 5, map.rows.count);
    cr_assert_gt(store_map_bytes(&map), (size_t)rows * 60);
    cr_assert_lt(store_map_bytes(&map), (size_t)rows * 200);
    for (int i = 0; i < rows; i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        cr_assert_eq(memcmp(find(fixture_row(key))->value, &i, sizeof(i)), 0);
    }
    store_map_clear(&map);
    cr_assert_eq(store_map_bytes(&map), 0);
    cr_assert_null(find(fixture_row("key-1")));
    put(fixture_row("key-1"), "1", 1);
    cr_assert_not_null(find(fixture_row("key-1")));
}

Test(store_map, hashes_differ_from_map_to_map)
{
    struct store_map other;
    const struct store_row row = fixture_row("a");

    /* So nobody can choose keys that collide in every agent. */
    store_map_init(&other);
    cr_assert_neq(store_map_hash(&map, &row), store_map_hash(&other, &row));
}

Test(store_map, compares_bytes_as_lmdb_does)
{
    static const struct {
        const char *left, *right;
        int order;
    } table[] = {
        {"", "", 0},     {"", "a", -1},  {"a", "", 1},     {"a", "a", 0},
        {"a", "ab", -1}, {"b", "ab", 1}, {"\xff", "a", 1},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const int order = store_bytes_compare(table[i].left, strlen(table[i].left), table[i].right,
                                              strlen(table[i].right));

        cr_assert_eq((order > 0) - (order < 0), table[i].order, "line %zu", i);
    }
}
