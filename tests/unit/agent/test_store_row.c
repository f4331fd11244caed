#include "store_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char letters[2000];

static struct store_row row_of(size_t key_bytes, size_t subkey_bytes)
{
    memset(letters, 'a', sizeof(letters));
    return (struct store_row){.root = 0x01020304,
                              .key = letters,
                              .key_bytes = key_bytes,
                              .subkey = letters,
                              .subkey_bytes = subkey_bytes};
}

Test(store_row, key_has_the_layout_of_its_kind)
{
    static const struct {
        size_t key_bytes, subkey_bytes, bytes;
        enum store_row_kind kind;
    } table[] = {
        {0, 0, 7, STORE_ROW_PLAIN},           {1, 392, 400, STORE_ROW_PLAIN},
        {1, 393, 400, STORE_ROW_LONG_SUBKEY}, {256, 0, 263, STORE_ROW_PLAIN},
        {256, 137, 400, STORE_ROW_PLAIN},     {256, 138, 400, STORE_ROW_LONG_SUBKEY},
        {257, 0, 21, STORE_ROW_LONG_KEY},     {2000, 379, 400, STORE_ROW_LONG_KEY},
        {257, 380, 400, STORE_ROW_LONG_BOTH}, {2000, 1024, 400, STORE_ROW_LONG_BOTH},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct store_row row = row_of(table[i].key_bytes, table[i].subkey_bytes);
        struct store_row_key key;

        store_row_encode_key(&row, &key);
        cr_assert_eq(key.bytes, table[i].bytes, "line %zu: %zu", i, key.bytes);
        cr_assert_eq(key.data[0], table[i].kind, "line %zu", i);
        cr_assert_arr_eq(key.data + 1, "\x01\x02\x03\x04", 4);
        if (table[i].key_bytes <= 256) {
            cr_assert_eq(key.data[5] << 8 | key.data[6], (int)table[i].key_bytes);
            cr_assert_arr_eq(key.data + 7, letters, table[i].key_bytes);
        }
    }
}

static int compare_keys(const struct store_row *left, const struct store_row *right)
{
    struct store_row_key a, b;

    store_row_encode_key(left, &a);
    store_row_encode_key(right, &b);
    return store_bytes_compare(a.data, a.bytes, b.data, b.bytes);
}

/* Plain rows of one key, sorted by key in LMDB, are sorted by subkey, and no other key is between.
 */
Test(store_row, keys_of_one_key_are_neighbours_in_the_order_of_subkeys)
{
    struct rng rng;

    rng_init(&rng, 3);
    for (int i = 0; i < 20000; i++) {
        unsigned char bytes[3][8];
        size_t lengths[3];
        struct store_row rows[3];

        for (int n = 0; n < 3; n++) {
            lengths[n] = rng_below(&rng, 9);
            for (size_t b = 0; b < 8; b++)
                bytes[n][b] = (unsigned char)(rng_below(&rng, 3) * 127);
            rows[n] = (struct store_row){
                .key = "key", .key_bytes = 3, .subkey = bytes[n], .subkey_bytes = lengths[n]};
        }
        cr_assert_eq(compare_keys(&rows[0], &rows[1]) < 0,
                     store_bytes_compare(bytes[0], lengths[0], bytes[1], lengths[1]) < 0);
        rows[2].key = bytes[2];
        rows[2].key_bytes = lengths[2];
        cr_assert_eq(compare_keys(&rows[0], &rows[2]) < 0, compare_keys(&rows[1], &rows[2]) < 0);
    }
}

Test(store_row, comes_back_as_it_was_in_all_kinds)
{
    struct strbuf buf = {0};

    for (int index = 0; index < MODEL_ROWS; index++) {
        const struct store_row row = model_row(index);
        struct store_row_key key;
        struct store_row_view view;
        MDB_val name, data;
        size_t bytes = 0;
        const void *value = model_value((uint32_t)index, &bytes);
        uint64_t sum;

        store_row_encode_key(&row, &key);
        name = (MDB_val){.mv_size = key.bytes, .mv_data = key.data};
        sum = store_row_encode_value(name, &row, -index, value, bytes, &buf);
        data = (MDB_val){.mv_size = buf.bytes, .mv_data = buf.data};
        cr_assert_eq(store_row_decode(name, data, &view, NULL), ERR_NONE);
        cr_assert(store_row_equal(&row, &view.row));
        cr_assert_eq(view.record_time_ms, -index);
        cr_assert_eq(view.checksum, sum);
        cr_assert_eq(view.value_bytes, bytes);
        cr_assert_arr_eq(view.value, value, bytes);
    }
    strbuf_finish(&buf);
}

/* Each bit of a row's key and value, each shorter length, and each other row's key. */
Test(store_row, damage_is_detected_whatever_it_is)
{
    static const int indices[] = {0, 9, 10, 31, 34, 39, 52, 54};
    struct strbuf buf = {0};

    for (size_t n = 0; n < sizeof(indices) / sizeof(indices[0]); n++) {
        const struct store_row row = model_row(indices[n]);
        struct store_row_key key;
        struct store_row_view view;
        MDB_val name, data;

        store_row_encode_key(&row, &key);
        name = (MDB_val){.mv_size = key.bytes, .mv_data = key.data};
        store_row_encode_value(name, &row, 5, "value", 5, &buf);
        data = (MDB_val){.mv_size = buf.bytes, .mv_data = buf.data};
        cr_assert_eq(store_row_decode(name, data, &view, NULL), ERR_NONE);
        for (size_t bit = 0; bit < 8 * key.bytes; bit++) {
            key.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
            cr_assert_eq(store_row_decode(name, data, &view, NULL), ERR_CORRUPT);
            key.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        for (size_t bit = 0; bit < 8 * buf.bytes; bit++) {
            buf.data[bit / 8] = (char)(buf.data[bit / 8] ^ 1 << bit % 8);
            cr_assert_eq(store_row_decode(name, data, &view, NULL), ERR_CORRUPT);
            buf.data[bit / 8] = (char)(buf.data[bit / 8] ^ 1 << bit % 8);
        }
        for (data.mv_size = 0; data.mv_size < buf.bytes; data.mv_size++)
            cr_assert_eq(store_row_decode(name, data, &view, NULL), ERR_CORRUPT);
        for (name.mv_size = 0; name.mv_size < key.bytes; name.mv_size++)
            cr_assert_eq(store_row_decode(name, data, &view, NULL), ERR_CORRUPT);
    }
    strbuf_finish(&buf);
}

/* Rows with a right checksum that nobody of ours wrote. */
Test(store_row, a_false_form_is_refused)
{
    static const struct {
        const char *key;
        size_t key_bytes;
        size_t key_length, subkey_length; /* in the value */
    } table[] = {
        {"\x00\0\0\0\0\0\0", 7, 0, 0},               /* no kind */
        {"\x05\0\0\0\0\0\0", 7, 0, 0},               /* an unknown kind */
        {"\x01\0\0\0\0\0", 6, 0, 0},                 /* cut short */
        {"\x01\0\0\0\0\0\x01", 7, 0, 0},             /* a key of 1 byte that is not there */
        {"\x03\0\0\0\0hhhhhhhhhhhhhhh", 20, 0, 0},   /* a hash of 15 bytes */
        {"\x03\0\0\0\0hhhhhhhhhhhhhhhh", 21, 10, 0}, /* names longer than the value */
        {"\x03\0\0\0\0hhhhhhhhhhhhhhhh", 21, UINT32_MAX, UINT32_MAX},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        unsigned char value[28] = {0};
        const MDB_val name = {.mv_size = table[i].key_bytes, .mv_data = (void *)table[i].key};
        const MDB_val data = {.mv_size = sizeof(value), .mv_data = value};
        struct store_row_view view;

        store_number_put(value + 16, table[i].key_length, 4);
        store_number_put(value + 20, table[i].subkey_length, 4);
        store_number_put(
            value, store_checksum(name.mv_data, name.mv_size, value + 8, sizeof(value) - 8), 8);
        cr_assert_eq(store_row_decode(name, data, &view, NULL), ERR_CORRUPT, "line %zu", i);
    }
}

/* ---- two rows with one hash -------------------------------------------------------------------
 */

static struct store_fixture fixture;

/* In place of the only row: another long key under the same hash, with right checksum and sums. */
static void forge(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg)
{
    struct store_row other = model_row(4 * MODEL_SUBKEYS);
    char name[257];
    struct store_meta decoded = {0};
    struct strbuf buf = {0};
    MDB_cursor *cursor;
    MDB_val key, value;

    (void)arg;
    cr_assert_eq(mdb_cursor_open(txn, rows, &cursor), 0);
    cr_assert_eq(mdb_cursor_get(cursor, &key, &value, MDB_FIRST), 0);
    memset(name, 'z', sizeof(name));
    other.key = name;
    decoded.digest = store_row_encode_value(key, &other, 0, "other", 5, &buf);
    value = (MDB_val){.mv_size = buf.bytes, .mv_data = buf.data};
    cr_assert_eq(mdb_cursor_put(cursor, &key, &value, MDB_CURRENT), 0);
    mdb_cursor_close(cursor);

    const uint64_t digest = decoded.digest;
    key = (MDB_val){.mv_size = 4, .mv_data = "meta"};
    cr_assert_eq(mdb_get(txn, meta, &key, &value), 0);
    cr_assert_eq(store_meta_decode(value, &decoded, NULL), ERR_NONE);
    decoded.digest = digest;
    store_meta_encode(&decoded, &buf);
    value = (MDB_val){.mv_size = buf.bytes, .mv_data = buf.data};
    cr_assert_eq(mdb_put(txn, meta, &key, &value, 0), 0);
    store_meta_finish(&decoded);
    strbuf_finish(&buf);
}

static bool visit_none(void *arg, const void *subkey, size_t subkey_bytes, const void *value,
                       size_t value_bytes)
{
    (void)arg;
    (void)subkey;
    (void)subkey_bytes;
    (void)value;
    (void)value_bytes;
    cr_assert(false, "a row of another key");
    return false;
}

Test(store_row, a_collision_of_hashes_is_an_error_never_another_keys_row)
{
    const struct store_row row = model_row(4 * MODEL_SUBKEYS);
    const struct store_position position = {.next_offset = 2};
    const void *value;
    size_t bytes;
    struct err error = {0};

    fixture_init(&fixture);
    fixture_open(&fixture, STORE_FRESH);
    store_put(fixture.store, row, 0, "1", 1);
    fixture_checkpoint(&fixture, 1);
    fixture_close(&fixture);
    fixture_edit(&fixture, forge, NULL);
    fixture_open(&fixture, STORE_KEPT);
    cr_assert_eq(store_get(fixture.store, row, INT64_MIN, &value, &bytes, &error), ERR_CORRUPT);
    cr_assert_not_null(strstr(error.text, "hash"), "%s", error.text);
    cr_assert_eq(store_iterate(fixture.store, row, INT64_MIN, visit_none, NULL, &error),
                 ERR_CORRUPT);
    store_put(fixture.store, row, 0, "2", 1);
    cr_assert(store_freeze(fixture.store, &position, 1));
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_CORRUPT);
    cr_assert_not_null(strstr(error.text, "hash"), "%s", error.text);
    fixture_finish(&fixture);
}
