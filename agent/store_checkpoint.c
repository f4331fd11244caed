/*
 * One checkpoint: the changed rows, sorted, and the meta record with its positions go to LMDB in
 * one commit. A checkpoint that fails changes nothing on disk and nothing in store->meta, so it can
 * be written again.
 */
#include "agent/store_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"

/* A checkpoint of n rows looks at this many, and n more, for rows past their time to live. */
#define SWEEP_ROWS_MIN ((uint64_t)2000)

struct item {          /* a changed row on its way to LMDB */
    uint64_t order[2]; /* start of the key, so that most comparisons need no more */
    const unsigned char *key;
    size_t key_bytes;
    const struct store_entry *entry;
};

struct writing {
    struct store *store;
    MDB_txn *txn;
    MDB_cursor *cursor; /* on rows */
    struct arena arena; /* of the items' keys */
    struct item *items;
    size_t item_count;
    struct strbuf value;
    struct store_meta next; /* store->meta with this checkpoint's changes; owns nothing */
    struct err *reterr;
};

static enum err_code lmdb_error(struct writing *writing, int code)
{
    return store_env_error(code, "writing", writing->reterr);
}

/* ---- sorting ----------------------------------------------------------------------------------
 */

static uint64_t order_word(const struct store_row_key *key, size_t offset)
{
    uint64_t word = 0;

    for (size_t i = offset; i < offset + 8; i++)
        word = word << 8 | (i < key->bytes ? key->data[i] : 0);
    return word;
}

static int compare_items(const void *left, const void *right)
{
    const struct item *a = left, *b = right;

    for (size_t i = 0; i < 2; i++) {
        if (a->order[i] != b->order[i])
            return a->order[i] < b->order[i] ? -1 : 1;
    }
    return store_bytes_compare(a->key, a->key_bytes, b->key, b->key_bytes);
}

static struct store_row row_of(const struct store_entry *entry)
{
    return (struct store_row){.root = entry->root,
                              .key = entry->bytes,
                              .key_bytes = entry->key_bytes,
                              .subkey = store_entry_subkey(entry),
                              .subkey_bytes = entry->subkey_bytes};
}

/* In the order of LMDB's keys: neighbours share pages, so each page is written once. */
static void sort_rows(struct writing *writing, const struct store_map *map)
{
    writing->items = mem_calloc(map->rows.count, sizeof(*writing->items));
    for (size_t i = 0; i < map->rows.capacity; i++) {
        const struct store_entry *entry = map->rows.items[i].entry;
        struct store_row_key key;
        struct store_row row;

        if (entry == NULL)
            continue;
        row = row_of(entry);
        store_row_encode_key(&row, &key);
        writing->items[writing->item_count++] =
            (struct item){.order = {order_word(&key, 0), order_word(&key, 8)},
                          .key = arena_copy(&writing->arena, key.data, key.bytes),
                          .key_bytes = key.bytes,
                          .entry = entry};
    }
    assert(writing->item_count == map->rows.count);
    qsort(writing->items, writing->item_count, sizeof(*writing->items), compare_items);
}

/* ---- rows -------------------------------------------------------------------------------------
 */

static enum err_code forget_row(struct writing *writing, uint64_t checksum)
{
    const int code = mdb_cursor_del(writing->cursor, 0);

    if (code != 0)
        return lmdb_error(writing, code);
    writing->next.digest -= checksum;
    writing->next.rows--;
    return ERR_NONE;
}

static enum err_code write_row(struct writing *writing, const struct item *item)
{
    const struct store_row row = row_of(item->entry);
    MDB_val key = {.mv_size = item->key_bytes, .mv_data = (void *)item->key}, value;
    struct store_row_view old = {0};
    uint64_t checksum;
    bool found;
    int code = mdb_cursor_get(writing->cursor, &key, &value, MDB_SET);

    if (code != 0 && code != MDB_NOTFOUND)
        return lmdb_error(writing, code);
    found = code == 0;
    if (found && store_row_decode(key, value, &old, writing->reterr) != ERR_NONE)
        return ERR_CORRUPT;
    if (found && !store_row_equal(&row, &old.row))
        return store_row_collision(&row, writing->reterr);
    if (item->entry->deleted)
        return found ? forget_row(writing, old.checksum) : ERR_NONE;
    checksum = store_row_encode_value(key, &row, item->entry->record_time_ms, item->entry->value,
                                      item->entry->value_bytes, &writing->value);
    value = (MDB_val){.mv_size = writing->value.bytes, .mv_data = writing->value.data};
    code = mdb_cursor_put(writing->cursor, &key, &value, found ? MDB_CURRENT : 0);
    if (code != 0)
        return lmdb_error(writing, code);
    writing->next.digest += checksum - old.checksum;
    writing->next.rows += found ? 0 : 1;
    return ERR_NONE;
}

/* ---- sweep ------------------------------------------------------------------------------------
 */

struct cutoff { /* rows of the root with a record time below are dead for every record still to come
                 */
    uint32_t root;
    int64_t alive_from_ms;
};

static int compare_cutoffs(const void *left, const void *right)
{
    const struct cutoff *a = left, *b = right;

    return a->root < b->root ? -1 : a->root > b->root;
}

/*
 * By the slowest partition of each root, whose record time only rises: reads of any partition of
 * the root, now or in a replay from these positions, take the swept rows for absent anyway.
 */
static struct cutoff *compute_cutoffs(const struct store_flush_job *job, int64_t state_ttl_ms,
                                      size_t *ret_count)
{
    struct cutoff *cutoffs = mem_calloc(job->position_count, sizeof(*cutoffs));
    size_t count = 0;

    for (size_t i = 0; i < job->position_count; i++) {
        /* -1, when there was no record yet, is below the time of any row. */
        cutoffs[i].root = job->positions[i].root;
        cutoffs[i].alive_from_ms = job->positions[i].record_time_ms - state_ttl_ms;
    }
    qsort(cutoffs, job->position_count, sizeof(*cutoffs), compare_cutoffs);
    for (size_t i = 0; i < job->position_count; i++) {
        if (count == 0 || cutoffs[count - 1].root != cutoffs[i].root)
            cutoffs[count++] = cutoffs[i];
        else if (cutoffs[i].alive_from_ms < cutoffs[count - 1].alive_from_ms)
            cutoffs[count - 1].alive_from_ms = cutoffs[i].alive_from_ms;
    }
    *ret_count = count;
    return cutoffs;
}

static bool is_dead(const struct store_row_view *view, const struct cutoff *cutoffs, size_t count)
{
    const struct cutoff wanted = {.root = view->row.root};
    const struct cutoff *cutoff =
        bsearch(&wanted, cutoffs, count, sizeof(*cutoffs), compare_cutoffs);

    return cutoff != NULL && view->record_time_ms < cutoff->alive_from_ms;
}

/* Leaves in next.sweep where the next checkpoint goes on. */
static enum err_code sweep_rows(struct writing *writing, const struct cutoff *cutoffs, size_t count)
{
    struct store_row_key *sweep = &writing->next.sweep;
    MDB_val key = {.mv_size = sweep->bytes, .mv_data = sweep->data}, value;
    uint64_t room = SWEEP_ROWS_MIN + writing->item_count;
    int code = mdb_cursor_get(writing->cursor, &key, &value,
                              sweep->bytes == 0 ? MDB_FIRST : MDB_SET_RANGE);

    for (; code == 0 && room > 0; room--) {
        struct store_row_view view;
        enum err_code result = store_row_decode(key, value, &view, writing->reterr);

        if (result == ERR_NONE && is_dead(&view, cutoffs, count))
            result = forget_row(writing, view.checksum);
        if (result != ERR_NONE)
            return result;
        code = mdb_cursor_get(writing->cursor, &key, &value, MDB_NEXT);
    }
    if (code != 0 && code != MDB_NOTFOUND)
        return lmdb_error(writing, code);
    sweep->bytes = 0;
    if (code == 0) {
        assert(key.mv_size <= sizeof(sweep->data));
        memcpy(sweep->data, key.mv_data, key.mv_size);
        sweep->bytes = key.mv_size;
    }
    return ERR_NONE;
}

static enum err_code sweep(struct writing *writing, const struct store_flush_job *job)
{
    struct cutoff *cutoffs;
    size_t count;
    enum err_code code;

    if (writing->store->state_ttl_ms <= 0)
        return ERR_NONE;
    cutoffs = compute_cutoffs(job, writing->store->state_ttl_ms, &count);
    code = sweep_rows(writing, cutoffs, count);
    free(cutoffs);
    return code;
}

/* ---- one checkpoint ---------------------------------------------------------------------------
 */

static int injected_failure(struct store *store)
{
    int code = 0;

#ifdef BATON_TEST_HOOKS
    pthread_mutex_lock(&store->flusher.lock);
    while (store->flusher.hold)
        pthread_cond_wait(&store->flusher.changed, &store->flusher.lock);
    if (store->flusher.fail_times > 0) {
        store->flusher.fail_times--;
        code = store->flusher.fail_code;
    }
    pthread_mutex_unlock(&store->flusher.lock);
#else
    (void)store; /* for tests only */
#endif
    return code;
}

static enum err_code write_all(struct writing *writing, const struct store_flush_job *job)
{
    enum err_code result = ERR_NONE;
    int code;

    for (size_t i = 0; i < writing->item_count && result == ERR_NONE; i++)
        result = write_row(writing, &writing->items[i]);
    if (result == ERR_NONE)
        result = sweep(writing, job);
    if (result != ERR_NONE)
        return result;
    code = injected_failure(writing->store);
    if (code == 0)
        code = store_env_put_meta(writing->txn, writing->store->meta_dbi, &writing->next);
    return code == 0 ? ERR_NONE : lmdb_error(writing, code);
}

static enum err_code commit(struct writing *writing)
{
    MDB_env *env = writing->store->env;
    /* Synced against the configuration: see prepare_meta. */
    const bool sync_once = writing->next.synced && !writing->store->sync;
    int code = 0;

    if (sync_once)
        code = mdb_env_set_flags(env, MDB_NOSYNC, 0);
    if (code != 0) {
        mdb_txn_abort(writing->txn);
        return lmdb_error(writing, code);
    }
    code = mdb_txn_commit(writing->txn);
    if (sync_once)
        (void)mdb_env_set_flags(env, MDB_NOSYNC, 1); /* else more is synced than need be */
    return code == 0 ? ERR_NONE : lmdb_error(writing, code);
}

static enum err_code begin(struct writing *writing)
{
    int code = mdb_txn_begin(writing->store->env, NULL, 0, &writing->txn);

    if (code != 0)
        return lmdb_error(writing, code);
    code = mdb_cursor_open(writing->txn, writing->store->rows_dbi, &writing->cursor);
    if (code != 0) {
        mdb_txn_abort(writing->txn);
        return lmdb_error(writing, code);
    }
    return ERR_NONE;
}

/* The record of the next commit: as the last, with what a checkpoint changes. */
static void prepare_meta(struct writing *writing, const struct store_flush_job *job)
{
    const struct store_meta *meta = &writing->store->meta;

    writing->next = *meta;
    writing->next.sequence = meta->sequence + 1;
    writing->next.written_ms = clock_wall_ms();
    writing->next.clean = false;
    /* The first commit on a file that says "clean" is synced in any case: from the second on, pages
       of the clean state are reused, and a file that still says so after a power cut would lie. */
    writing->next.synced = writing->store->sync || meta->clean;
    writing->next.positions = job->positions;
    writing->next.position_count = job->position_count;
}

static void adopt_meta(struct store *store, const struct store_meta *next)
{
    struct store_position *old = store->meta.positions;

    store->meta = *next;
    store->meta.positions =
        mem_memdup(next->positions, next->position_count * sizeof(*next->positions));
    free(old);
}

enum err_code store_checkpoint_write(struct store *store, struct err *reterr)
{
    const struct store_flush_job *job = &store->flusher.job;
    struct writing writing = {.store = store, .reterr = reterr};
    enum err_code code;

    prepare_meta(&writing, job);
    sort_rows(&writing, job->map);
    code = begin(&writing);
    if (code == ERR_NONE) {
        code = write_all(&writing, job);
        mdb_cursor_close(writing.cursor);
        if (code == ERR_NONE)
            code = commit(&writing);
        else
            mdb_txn_abort(writing.txn);
    }
    if (code == ERR_NONE)
        adopt_meta(store, &writing.next);
    strbuf_finish(&writing.value);
    free(writing.items);
    arena_finish(&writing.arena);
    return code;
}

void store_checkpoint_mark_clean(struct store *store)
{
    struct store_meta next = store->meta;
    MDB_txn *txn;

    if (store->meta.clean)
        return;
    next.clean = true;
    next.synced = true;
    /* LMDB syncs all data pages, those of earlier commits too, before it writes the meta page. */
    if (mdb_env_set_flags(store->env, MDB_NOSYNC, 0) != 0 ||
        mdb_txn_begin(store->env, NULL, 0, &txn) != 0)
        return;
    if (store_env_put_meta(txn, store->meta_dbi, &next) != 0) {
        mdb_txn_abort(txn);
        return;
    }
    if (mdb_txn_commit(txn) == 0)
        store->meta = next;
}
