/*
 * Reads: what the live map says counts, else what the frozen map says, else LMDB.
 *
 * The reader's view of LMDB is ended (store_env_rest) when a map is frozen and when the owner has
 * seen the end of its checkpoint, in the same step that drops the frozen map: a view from before
 * that commit is never looked at without the frozen map. It pins no more than the last commit's
 * pages, because each checkpoint starts with a freeze.
 */
#include "agent/store_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/processor.h"
#include "common/mem.h"

/* ---- one row ----------------------------------------------------------------------------------
 */

static enum err_code answer(const struct store_entry *entry, int64_t alive_from_ms,
                            const void **ret_value, size_t *ret_bytes)
{
    if (entry->deleted || entry->record_time_ms < alive_from_ms)
        return ERR_NOT_FOUND;
    *ret_value = entry->value;
    *ret_bytes = entry->value_bytes;
    return ERR_NONE;
}

static enum err_code get_from_disk(struct store *store, const struct store_row *row,
                                   int64_t alive_from_ms, const void **ret_value, size_t *ret_bytes,
                                   struct err *reterr)
{
    struct store_row_key encoded;
    struct store_row_view view;
    MDB_val key, value;
    enum err_code code = store_env_view(store, reterr);
    int detail;

    if (code != ERR_NONE)
        return code;
    store_row_encode_key(row, &encoded);
    key = (MDB_val){.mv_size = encoded.bytes, .mv_data = encoded.data};
    detail = mdb_get(store->reader, store->rows_dbi, &key, &value);
    if (detail == MDB_NOTFOUND)
        return ERR_NOT_FOUND;
    if (detail != 0)
        return store_env_error(detail, "reading the state", reterr);
    code = store_row_decode(key, value, &view, reterr);
    if (code != ERR_NONE)
        return code;
    if (!store_row_equal(row, &view.row))
        return store_row_collision(row, reterr);
    if (view.record_time_ms < alive_from_ms)
        return ERR_NOT_FOUND;
    *ret_value = view.value;
    *ret_bytes = view.value_bytes;
    return ERR_NONE;
}

static void assert_row(const struct store_row *row)
{
    assert(row->key_bytes <= UINT32_MAX);
    assert(row->subkey_bytes <= BATON_SUBKEY_BYTES_MAX);
}

enum err_code store_get(struct store *store, struct store_row row, int64_t alive_from_ms,
                        const void **ret_value, size_t *ret_bytes, struct err *reterr)
{
    const uint64_t hash = store_map_hash(store->live, &row);
    const struct store_entry *entry;

    assert_row(&row);
    entry = store_map_find(store->live, &row, hash);
    if (entry == NULL && store->frozen != NULL)
        entry = store_map_find(store->frozen, &row, hash);
    if (entry != NULL)
        return answer(entry, alive_from_ms, ret_value, ret_bytes);
    return get_from_disk(store, &row, alive_from_ms, ret_value, ret_bytes, reterr);
}

/* ---- all rows of a key ------------------------------------------------------------------------
 *
 * Three sources, each in the order of subkeys, are merged: the maps' rows (collected and sorted),
 * and in LMDB the range of rows with short subkeys (a cursor) and that with long ones (collected
 * and sorted, as LMDB keeps only the start of a long subkey in order).
 */
struct found { /* a row of the key; borrowed from a map or a page */
    const unsigned char *subkey;
    size_t subkey_bytes;
    const void *value;
    size_t value_bytes;
    int64_t record_time_ms;
    bool deleted;
    uint8_t rank; /* of those with the same subkey the lowest counts: live 0, frozen 1, LMDB 2 */
};

struct found_list {
    struct found *items;
    size_t count, capacity, next;
};

struct walk {
    struct store *store;
    const struct store_row *key;
    struct found_list maps, long_rows;
    MDB_cursor *cursor; /* on the rows with short subkeys */
    struct store_row_key prefix;
    struct found short_row; /* that the cursor is on */
    bool short_row_left;
    struct err *reterr;
};

static void add_found(struct found_list *list, struct found found)
{
    list->items = mem_grow(list->items, list->count, &list->capacity, sizeof(*list->items));
    list->items[list->count++] = found;
}

static int compare_found(const void *left, const void *right)
{
    const struct found *a = left, *b = right;
    const int order = store_bytes_compare(a->subkey, a->subkey_bytes, b->subkey, b->subkey_bytes);

    return order != 0 ? order : (int)a->rank - (int)b->rank;
}

static void add_entry(struct walk *walk, const struct store_entry *entry, uint8_t rank)
{
    add_found(&walk->maps, (struct found){.subkey = store_entry_subkey(entry),
                                          .subkey_bytes = entry->subkey_bytes,
                                          .value = entry->value,
                                          .value_bytes = entry->value_bytes,
                                          .record_time_ms = entry->record_time_ms,
                                          .deleted = entry->deleted,
                                          .rank = rank});
}

static void collect_map(struct walk *walk, const struct store_map *map, uint8_t rank)
{
    struct store_row main_row = *walk->key;
    const struct store_entry *entry;

    main_row.subkey_bytes = 0;
    entry = store_map_find(map, &main_row, store_map_hash(map, &main_row));
    if (entry != NULL)
        add_entry(walk, entry, rank);
    entry = store_map_rows_of_key(map, &main_row);
    for (; entry != NULL; entry = entry->next_of_key)
        add_entry(walk, entry, rank);
}

static void collect_maps(struct walk *walk)
{
    collect_map(walk, walk->store->live, 0);
    if (walk->store->frozen != NULL)
        collect_map(walk, walk->store->frozen, 1);
    if (walk->maps.count > 1)
        qsort(walk->maps.items, walk->maps.count, sizeof(*walk->maps.items), compare_found);
}

/*
 * What the cursor is on after `detail` = mdb_cursor_get. ERR_NOT_FOUND: past the rows that start
 * with `prefix`.
 */
static enum err_code take_row(struct walk *walk, const struct store_row_key *prefix, int detail,
                              MDB_val key, MDB_val value, struct found *ret_found)
{
    struct store_row_view view;
    enum err_code code;

    if (detail == MDB_NOTFOUND)
        return ERR_NOT_FOUND;
    if (detail != 0)
        return store_env_error(detail, "reading the state", walk->reterr);
    if (key.mv_size < prefix->bytes || memcmp(key.mv_data, prefix->data, prefix->bytes) != 0)
        return ERR_NOT_FOUND;
    code = store_row_decode(key, value, &view, walk->reterr);
    if (code != ERR_NONE)
        return code;
    if (view.row.key_bytes != walk->key->key_bytes ||
        (view.row.key_bytes > 0 && memcmp(view.row.key, walk->key->key, view.row.key_bytes) != 0))
        return store_row_collision(walk->key, walk->reterr);
    *ret_found = (struct found){.subkey = view.row.subkey,
                                .subkey_bytes = view.row.subkey_bytes,
                                .value = view.value,
                                .value_bytes = view.value_bytes,
                                .record_time_ms = view.record_time_ms,
                                .rank = 2};
    return ERR_NONE;
}

static enum err_code collect_long_rows(struct walk *walk)
{
    struct store_row_key prefix;
    struct found found;
    MDB_val key, value;
    enum err_code code;
    int detail;

    store_row_encode_prefix(walk->key, true, &prefix);
    key = (MDB_val){.mv_size = prefix.bytes, .mv_data = prefix.data};
    detail = mdb_cursor_get(walk->cursor, &key, &value, MDB_SET_RANGE);
    for (;;) {
        code = take_row(walk, &prefix, detail, key, value, &found);
        if (code != ERR_NONE)
            break;
        add_found(&walk->long_rows, found);
        detail = mdb_cursor_get(walk->cursor, &key, &value, MDB_NEXT);
    }
    if (code != ERR_NOT_FOUND)
        return code;
    if (walk->long_rows.count > 1)
        qsort(walk->long_rows.items, walk->long_rows.count, sizeof(*walk->long_rows.items),
              compare_found);
    return ERR_NONE;
}

static enum err_code next_short_row(struct walk *walk, MDB_cursor_op operation)
{
    MDB_val key = {.mv_size = walk->prefix.bytes, .mv_data = walk->prefix.data}, value = {0};
    const int detail = mdb_cursor_get(walk->cursor, &key, &value, operation);
    const enum err_code code = take_row(walk, &walk->prefix, detail, key, value, &walk->short_row);

    walk->short_row_left = code == ERR_NONE;
    return code == ERR_NOT_FOUND ? ERR_NONE : code;
}

static const struct found *lesser(const struct found *left, const struct found *right)
{
    if (left == NULL || right == NULL)
        return left == NULL ? right : left;
    return compare_found(left, right) < 0 ? left : right;
}

static const struct found *head_of(const struct found_list *list)
{
    return list->next < list->count ? &list->items[list->next] : NULL;
}

/* Takes the row that comes first from its source; false in *ret_found.. when there is none left. */
static enum err_code next_found(struct walk *walk, struct found *ret_found, bool *ret_left)
{
    const struct found *map_row = head_of(&walk->maps);
    const struct found *long_row = head_of(&walk->long_rows);
    const struct found *short_row = walk->short_row_left ? &walk->short_row : NULL;
    const struct found *first = lesser(map_row, lesser(short_row, long_row));

    *ret_left = first != NULL;
    if (first == NULL)
        return ERR_NONE;
    *ret_found = *first;
    if (first == short_row)
        return next_short_row(walk, MDB_NEXT);
    if (first == map_row)
        walk->maps.next++;
    else
        walk->long_rows.next++;
    return ERR_NONE;
}

static enum err_code start_walk(struct walk *walk)
{
    enum err_code code = store_env_view(walk->store, walk->reterr);
    int detail;

    if (code != ERR_NONE)
        return code;
    detail = mdb_cursor_open(walk->store->reader, walk->store->rows_dbi, &walk->cursor);
    if (detail != 0)
        return store_env_error(detail, "reading the state", walk->reterr);
    collect_maps(walk);
    code = collect_long_rows(walk);
    if (code != ERR_NONE)
        return code;
    store_row_encode_prefix(walk->key, false, &walk->prefix);
    return next_short_row(walk, MDB_SET_RANGE);
}

static void finish_walk(struct walk *walk)
{
    if (walk->cursor != NULL)
        mdb_cursor_close(walk->cursor);
    free(walk->maps.items);
    free(walk->long_rows.items);
}

enum err_code store_iterate(struct store *store, struct store_row key, int64_t alive_from_ms,
                            bool (*visit)(void *arg, const void *subkey, size_t subkey_bytes,
                                          const void *value, size_t value_bytes),
                            void *arg, struct err *reterr)
{
    struct walk walk = {.store = store, .key = &key, .reterr = reterr};
    struct found found, before = {.subkey = NULL};
    bool left = true, visited = false, go_on = true;
    enum err_code code;

    assert_row(&key);
    code = start_walk(&walk);
    while (code == ERR_NONE && left && go_on) {
        code = next_found(&walk, &found, &left);
        if (code != ERR_NONE || !left)
            break;
        /* The first of several with one subkey is the newest and hides the others. */
        if (visited && store_bytes_compare(before.subkey, before.subkey_bytes, found.subkey,
                                           found.subkey_bytes) == 0)
            continue;
        visited = true;
        before = found;
        if (!found.deleted && found.record_time_ms >= alive_from_ms)
            go_on = visit(arg, found.subkey, found.subkey_bytes, found.value, found.value_bytes);
    }
    finish_walk(&walk);
    return code;
}
