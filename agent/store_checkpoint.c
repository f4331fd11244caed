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
#include "common/hash/linhash.h"
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
    struct store_commit commit;
    struct arena arena; /* of the items' keys */
    struct item *items;
    size_t item_count;
    struct strbuf value;
};

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

static enum err_code write_row(struct writing *writing, const struct item *item)
{
    const struct store_row row = row_of(item->entry);
    MDB_val key = {.mv_size = item->key_bytes, .mv_data = (void *)item->key}, value;
    struct store_row_view old = {0};
    uint64_t checksum;
    bool found;
    int code = mdb_cursor_get(writing->commit.cursor, &key, &value, MDB_SET);

    if (code != 0 && code != MDB_NOTFOUND)
        return store_commit_error(&writing->commit, code);
    found = code == 0;
    if (found && store_row_decode(key, value, &old, writing->commit.reterr) != ERR_NONE)
        return ERR_CORRUPT;
    if (found && !store_row_equal(&row, &old.row))
        return store_row_collision(&row, writing->commit.reterr);
    if (item->entry->deleted)
        return found ? store_commit_forget(&writing->commit, old.checksum) : ERR_NONE;
    checksum = store_row_encode_value(key, &row, item->entry->record_time_ms, item->entry->value,
                                      item->entry->value_bytes, &writing->value);
    value = (MDB_val){.mv_size = writing->value.bytes, .mv_data = writing->value.data};
    code = mdb_cursor_put(writing->commit.cursor, &key, &value, found ? MDB_CURRENT : 0);
    if (code != 0)
        return store_commit_error(&writing->commit, code);
    writing->commit.next.digest += checksum - old.checksum;
    writing->commit.next.rows += found ? 0 : 1;
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
 * the root, now or in a replay from these positions, take the swept rows for absent anyway. One
 * that is not read any more stands still for ever, and nothing would die.
 */
static struct cutoff *compute_cutoffs(const struct store_flush_job *job, int64_t state_ttl_ms,
                                      size_t *ret_count)
{
    struct cutoff *cutoffs = mem_calloc(job->position_count, sizeof(*cutoffs));
    size_t read = 0, count = 0;

    for (size_t i = 0; i < job->position_count; i++) {
        if (job->positions[i].whole)
            continue;
        /* -1, when there was no record yet, is below the time of any row. */
        cutoffs[read].root = job->positions[i].root;
        cutoffs[read++].alive_from_ms = job->positions[i].record_time_ms - state_ttl_ms;
    }
    qsort(cutoffs, read, sizeof(*cutoffs), compare_cutoffs);
    for (size_t i = 0; i < read; i++) {
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
    struct store_row_key *sweep = &writing->commit.next.sweep;
    MDB_val key = {.mv_size = sweep->bytes, .mv_data = sweep->data}, value;
    uint64_t room = SWEEP_ROWS_MIN + writing->item_count;
    int code = mdb_cursor_get(writing->commit.cursor, &key, &value,
                              sweep->bytes == 0 ? MDB_FIRST : MDB_SET_RANGE);

    for (; code == 0 && room > 0; room--) {
        struct store_row_view view;
        enum err_code result = store_row_decode(key, value, &view, writing->commit.reterr);

        if (result == ERR_NONE && is_dead(&view, cutoffs, count))
            result = store_commit_forget(&writing->commit, view.checksum);
        if (result != ERR_NONE)
            return result;
        code = mdb_cursor_get(writing->commit.cursor, &key, &value, MDB_NEXT);
    }
    if (code != 0 && code != MDB_NOTFOUND)
        return store_commit_error(&writing->commit, code);
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

    if (writing->commit.store->state_ttl_ms <= 0)
        return ERR_NONE;
    cutoffs = compute_cutoffs(job, writing->commit.store->state_ttl_ms, &count);
    code = sweep_rows(writing, cutoffs, count);
    free(cutoffs);
    return code;
}

/* ---- one checkpoint ---------------------------------------------------------------------------
 */

static enum err_code write_all(struct writing *writing, const struct store_flush_job *job)
{
    enum err_code result = ERR_NONE;

    for (size_t i = 0; i < writing->item_count && result == ERR_NONE; i++)
        result = write_row(writing, &writing->items[i]);
    return result == ERR_NONE ? sweep(writing, job) : result;
}

static const struct store_position *find(const struct store_position *positions, size_t count,
                                         uint32_t topic, uint32_t partition)
{
    for (size_t i = 0; i < count; i++) {
        if (positions[i].topic == topic && positions[i].partition == partition)
            return &positions[i];
    }
    return NULL;
}

/* Of what has left: an ancestor of it is still read, and has gone on. */
static bool is_passed_by(const struct store_meta *before, const struct store_flush_job *job,
                         const struct store_position *left)
{
    uint32_t at = left->partition;

    while (at >= job->partitions_initial) {
        const struct store_position *now, *then;

        at = linhash_parent(at, job->partitions_initial);
        now = find(job->positions, job->read_count, left->topic, at);
        then = find(before->positions, before->position_count, left->topic, at);
        if (now != NULL && (then == NULL || now->next_offset != then->next_offset))
            return true;
    }
    return false;
}

/* Those of the job, and of what has left and whose rows are still as they were, with all that
 * belongs into them. free() */
static struct store_position *merge_positions(const struct store_meta *before,
                                              const struct store_flush_job *job, size_t *ret_count)
{
    size_t most = job->position_count + before->position_count, count = 0;
    struct store_position *merged = mem_calloc(most, sizeof(*merged));

    for (size_t i = 0; i < job->position_count; i++) {
        const struct store_position *position = &job->positions[i];

        if (i < job->read_count ||
            (job->keeps_left && (position->left_whole || !is_passed_by(before, job, position))))
            merged[count++] = *position;
    }
    for (size_t i = 0; job->keeps_left && i < before->position_count; i++) {
        const struct store_position *position = &before->positions[i];
        /* Both are mostly in the same order. */
        bool same = i < job->position_count && job->positions[i].topic == position->topic &&
                    job->positions[i].partition == position->partition;

        if (!same &&
            find(job->positions, job->position_count, position->topic, position->partition) ==
                NULL &&
            (position->left_whole || !is_passed_by(before, job, position)))
            merged[count++] = *position;
    }
    *ret_count = count;
    return merged;
}

static void change_meta(struct store_meta *next, const struct store_flush_job *job)
{
    next->sequence++;
    next->written_ms = clock_wall_ms();
    next->clean_for = job->clean_for;
    if (job->looks_anew) {
        next->removing_for = 0;
        next->removing.bytes = 0;
    }
    next->positions = merge_positions(next, job, &next->position_count);
}

enum err_code store_checkpoint_write(struct store *store, struct err *reterr)
{
    const struct store_flush_job *job = &store->flusher.job;
    struct writing writing = {.commit = {.store = store, .reterr = reterr}};
    struct store_position *positions = NULL;
    enum err_code code;

    sort_rows(&writing, job->map);
    code = store_commit_begin(&writing.commit);
    if (code == ERR_NONE) {
        change_meta(&writing.commit.next, job);
        positions = writing.commit.next.positions;
        code = store_commit_end(&writing.commit, write_all(&writing, job));
    }
    free(positions);
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
