/*
 * Rows as bytes. Numbers are little-endian except where a row's key is ordered by them. The layout
 * is part of STORE_FORMAT: change one, raise the other.
 */
#include "agent/store_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "api/processor.h"
#include "common/mem.h"

/* ---- row keys ---------------------------------------------------------------------------------
 *
 *   kind 1 byte, root 4 bytes big-endian, then
 *   short key:    key length 2 bytes big-endian, key      long key (> 256): XXH3-128 of the key
 *   short subkey: subkey                                  long subkey: its start, XXH3-128 of it
 *
 * Whether a subkey is long depends on how much room its key leaves, so all rows of one key with
 * short subkeys are one range in the order of subkeys, and those with long subkeys are another, in
 * order up to the part that was cut.
 */
#define KEY_SHORT_BYTES_MAX ((size_t)256)
#define HASH_BYTES          ((size_t)16)
#define KEY_OFFSET          ((size_t)7) /* kind, root, length */
#define LONG_KEY_OFFSET     ((size_t)5) /* kind, root */

static void put_big_endian(unsigned char *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(number >> (8 * (bytes - 1 - i)));
}

static uint64_t get_big_endian(const unsigned char *from, size_t bytes)
{
    uint64_t number = 0;

    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | from[i];
    return number;
}

static bool key_is_long(const struct store_row *row)
{
    return row->key_bytes > KEY_SHORT_BYTES_MAX;
}

static void add_bytes(struct store_row_key *key, const void *data, size_t bytes)
{
    assert(bytes <= sizeof(key->data) - key->bytes);
    if (bytes > 0)
        memcpy(key->data + key->bytes, data, bytes);
    key->bytes += bytes;
}

static void add_hash(struct store_row_key *key, const void *data, size_t bytes)
{
    XXH128_canonical_t hash;

    XXH128_canonicalFromHash(&hash, XXH3_128bits(data, bytes));
    add_bytes(key, hash.digest, sizeof(hash.digest));
}

void store_row_encode_prefix(const struct store_row *row, bool long_subkey,
                             struct store_row_key *ret_prefix)
{
    enum store_row_kind kind = long_subkey ? STORE_ROW_LONG_SUBKEY : STORE_ROW_PLAIN;

    if (key_is_long(row))
        kind = long_subkey ? STORE_ROW_LONG_BOTH : STORE_ROW_LONG_KEY;
    ret_prefix->data[0] = (unsigned char)kind;
    put_big_endian(ret_prefix->data + 1, row->root, 4);
    ret_prefix->bytes = LONG_KEY_OFFSET;
    if (key_is_long(row)) {
        add_hash(ret_prefix, row->key, row->key_bytes);
        return;
    }
    put_big_endian(ret_prefix->data + LONG_KEY_OFFSET, row->key_bytes, 2);
    ret_prefix->bytes = KEY_OFFSET;
    add_bytes(ret_prefix, row->key, row->key_bytes);
}

void store_row_encode_key(const struct store_row *row, struct store_row_key *ret_key)
{
    const size_t key_bytes =
        key_is_long(row) ? LONG_KEY_OFFSET + HASH_BYTES : KEY_OFFSET + row->key_bytes;
    const size_t room = STORE_ROW_KEY_BYTES_MAX - key_bytes;
    const bool long_subkey = row->subkey_bytes > room;

    store_row_encode_prefix(row, long_subkey, ret_key);
    assert(ret_key->bytes == key_bytes);
    if (!long_subkey) {
        add_bytes(ret_key, row->subkey, row->subkey_bytes);
        return;
    }
    add_bytes(ret_key, row->subkey, room - HASH_BYTES);
    add_hash(ret_key, row->subkey, row->subkey_bytes);
}

/* ---- row values -------------------------------------------------------------------------------
 *
 *   checksum 8 bytes: XXH3-64 of the rest, seeded with XXH3-64 of the row's key in LMDB
 *   record time 8 bytes
 *   all kinds but PLAIN: key length 4 bytes, subkey length 4 bytes, key, subkey
 *   value
 */
#define CHECKSUM_BYTES ((size_t)8)
#define HEAD_BYTES     ((size_t)16) /* checksum, record time */
#define NAMES_OFFSET   ((size_t)24) /* head, two lengths */

uint64_t store_checksum(const void *key, size_t key_bytes, const void *rest, size_t rest_bytes)
{
    return XXH3_64bits_withSeed(rest, rest_bytes, XXH3_64bits(key, key_bytes));
}

uint64_t store_row_encode_value(MDB_val key, const struct store_row *row, int64_t record_time_ms,
                                const void *value, size_t bytes, struct strbuf *ret_value)
{
    unsigned char head[NAMES_OFFSET] = {0};
    const bool named = *(const unsigned char *)key.mv_data != STORE_ROW_PLAIN;
    uint64_t sum;

    store_number_put(head + CHECKSUM_BYTES, (uint64_t)record_time_ms, 8);
    store_number_put(head + HEAD_BYTES, row->key_bytes, 4);
    store_number_put(head + HEAD_BYTES + 4, row->subkey_bytes, 4);
    strbuf_clear(ret_value);
    strbuf_add(ret_value, head, named ? NAMES_OFFSET : HEAD_BYTES);
    if (named) {
        strbuf_add(ret_value, row->key, row->key_bytes);
        strbuf_add(ret_value, row->subkey, row->subkey_bytes);
    }
    strbuf_add(ret_value, value, bytes);
    sum = store_checksum(key.mv_data, key.mv_size, ret_value->data + CHECKSUM_BYTES,
                         ret_value->bytes - CHECKSUM_BYTES);
    store_number_put((unsigned char *)ret_value->data, sum, CHECKSUM_BYTES);
    return sum;
}

static bool decode_plain(const unsigned char *key, size_t key_bytes, struct store_row *ret_row)
{
    size_t length;

    if (key_bytes < KEY_OFFSET)
        return false;
    length = get_big_endian(key + LONG_KEY_OFFSET, 2);
    if (length > key_bytes - KEY_OFFSET)
        return false;
    *ret_row = (struct store_row){.root = (uint32_t)get_big_endian(key + 1, 4),
                                  .key = key + KEY_OFFSET,
                                  .key_bytes = length,
                                  .subkey = key + KEY_OFFSET + length,
                                  .subkey_bytes = key_bytes - KEY_OFFSET - length};
    return true;
}

static bool decode_named(const unsigned char *key, size_t key_bytes, const unsigned char *value,
                         size_t value_bytes, struct store_row *ret_row)
{
    uint64_t key_length, subkey_length;

    if (key_bytes < LONG_KEY_OFFSET + HASH_BYTES || value_bytes < NAMES_OFFSET)
        return false;
    key_length = store_number_get(value + HEAD_BYTES, 4);
    subkey_length = store_number_get(value + HEAD_BYTES + 4, 4);
    if (key_length + subkey_length > value_bytes - NAMES_OFFSET)
        return false;
    *ret_row = (struct store_row){.root = (uint32_t)get_big_endian(key + 1, 4),
                                  .key = value + NAMES_OFFSET,
                                  .key_bytes = key_length,
                                  .subkey = value + NAMES_OFFSET + key_length,
                                  .subkey_bytes = subkey_length};
    return true;
}

enum err_code store_row_decode(MDB_val key, MDB_val value, struct store_row_view *ret_view,
                               struct err *reterr)
{
    const unsigned char *key_data = key.mv_data, *data = value.mv_data;
    struct store_row_view view = {0};
    size_t offset = HEAD_BYTES;
    bool formed = false;

    if (key.mv_size == 0 || value.mv_size < HEAD_BYTES)
        return err_set(reterr, ERR_CORRUPT, "a row is cut short");
    view.checksum = store_number_get(data, CHECKSUM_BYTES);
    if (store_checksum(key_data, key.mv_size, data + CHECKSUM_BYTES,
                       value.mv_size - CHECKSUM_BYTES) != view.checksum)
        return err_set(reterr, ERR_CORRUPT, "a row does not match its checksum");
    if (key_data[0] == STORE_ROW_PLAIN) {
        formed = decode_plain(key_data, key.mv_size, &view.row);
    } else if (key_data[0] <= STORE_ROW_LONG_BOTH) {
        formed = decode_named(key_data, key.mv_size, data, value.mv_size, &view.row);
        offset = NAMES_OFFSET + view.row.key_bytes + view.row.subkey_bytes;
    }
    if (!formed)
        return err_set(reterr, ERR_CORRUPT, "a row is not of the known form");
    view.record_time_ms = (int64_t)store_number_get(data + CHECKSUM_BYTES, 8);
    view.value = data + offset;
    view.value_bytes = value.mv_size - offset;
    *ret_view = view;
    return ERR_NONE;
}

static bool same_bytes(const void *left, size_t left_bytes, const void *right, size_t right_bytes)
{
    return left_bytes == right_bytes && (left_bytes == 0 || memcmp(left, right, left_bytes) == 0);
}

bool store_row_equal(const struct store_row *left, const struct store_row *right)
{
    return left->root == right->root &&
           same_bytes(left->key, left->key_bytes, right->key, right->key_bytes) &&
           same_bytes(left->subkey, left->subkey_bytes, right->subkey, right->subkey_bytes);
}

enum err_code store_row_collision(const struct store_row *row, struct err *reterr)
{
    return err_set(
        reterr, ERR_CORRUPT,
        "two rows have the same 128-bit hash (key of %zu bytes, subkey of %zu): the state "
        "can not hold both",
        row->key_bytes, row->subkey_bytes);
}

uint64_t store_fingerprint(const void *key, size_t key_bytes, const void *value, size_t value_bytes,
                           int64_t timestamp_ms)
{
    unsigned char head[24];
    uint64_t hash;

    /* A null key or value is another thing than an empty one. */
    store_number_put(head, (uint64_t)timestamp_ms, 8);
    store_number_put(head + 8, key == NULL ? UINT64_MAX : key_bytes, 8);
    store_number_put(head + 16, value == NULL ? UINT64_MAX : value_bytes, 8);
    hash = XXH3_64bits(head, sizeof(head));
    if (key != NULL)
        hash = XXH3_64bits_withSeed(key, key_bytes, hash);
    if (value != NULL)
        hash = XXH3_64bits_withSeed(value, value_bytes, hash);
    return hash;
}
