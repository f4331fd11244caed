/* Views of a store's last checkpoint, for other threads. */
#include "agent/store_view.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store_internal.h"
#include "agent/store_owner.h"
#include "common/mem.h"

/* That are looked at for one page, of a part: what is left out takes time as well. */
#define PAGE_ROWS_MAX     20000
#define PAGE_LOOKED_BYTES (UINT64_C(4) * 1024 * 1024)

struct store_share {
    pthread_mutex_t lock; /* protects all below, and every use of the views' transactions */
    unsigned references;
    MDB_env *env; /* NULL: the store is closed */
    MDB_dbi rows_dbi, meta_dbi;
    struct store_view *views;
    unsigned view_count;
};

struct store_view {
    struct store_share *share;
    struct store_view *next;
    MDB_txn *txn; /* NULL: revoked */
    MDB_cursor *cursor;
    bool begun; /* the cursor stands on a row that was read */
    struct strbuf meta;
    uint64_t rows, file_bytes;
    bool narrow;
    struct store_part part;
    uint64_t read, digest; /* number and sum of the rows that were read */
};

/* ---- the owner's side */

struct store_share *store_share_create(void)
{
    struct store_share *share = mem_calloc(1, sizeof(*share));

    share->references = 1;
    (void)pthread_mutex_init(&share->lock, NULL); /* default attributes: never fails on Linux */
    return share;
}

struct store_share *store_share_acquire(struct store *store)
{
    struct store_share *share = store->share;

    pthread_mutex_lock(&share->lock);
    share->references++;
    pthread_mutex_unlock(&share->lock);
    return share;
}

void store_share_release(struct store_share *share)
{
    bool last;

    if (share == NULL)
        return;
    pthread_mutex_lock(&share->lock);
    last = --share->references == 0;
    pthread_mutex_unlock(&share->lock);
    if (!last)
        return;
    assert(share->env == NULL);
    assert(share->views == NULL);
    pthread_mutex_destroy(&share->lock);
    free(share);
}

void store_share_attach(struct store *store)
{
    struct store_share *share = store->share;

    pthread_mutex_lock(&share->lock);
    assert(share->env == NULL);
    share->env = store->env;
    share->rows_dbi = store->rows_dbi;
    share->meta_dbi = store->meta_dbi;
    pthread_mutex_unlock(&share->lock);
}

static void end_view(struct store_view *view)
{
    if (view->txn == NULL)
        return;
    mdb_cursor_close(view->cursor);
    mdb_txn_abort(view->txn);
    view->txn = NULL;
    view->cursor = NULL;
}

void store_share_revoke(struct store_share *share)
{
    pthread_mutex_lock(&share->lock);
    for (struct store_view *view = share->views; view != NULL; view = view->next)
        end_view(view);
}

void store_share_restore(struct store_share *share)
{
    pthread_mutex_unlock(&share->lock);
}

void store_share_detach(struct store *store)
{
    store_share_revoke(store->share);
    store->share->env = NULL;
    store_share_restore(store->share);
}

/* ---- views */

static enum err_code read_meta(struct store_view *view, struct err *reterr)
{
    MDB_val key = {.mv_size = strlen(STORE_META_KEY), .mv_data = STORE_META_KEY}, value;
    struct store_meta meta;
    enum err_code code;
    int detail = mdb_get(view->txn, view->share->meta_dbi, &key, &value);

    if (detail != 0)
        return store_env_error(detail, "reading the state's meta record", reterr);
    code = store_meta_decode(value, &meta, reterr);
    if (code != ERR_NONE)
        return code;
    view->rows = meta.rows;
    if (meta.sequence == 0)
        code = err_set(reterr, ERR_NOT_FOUND, "the state has not seen a checkpoint yet");
    store_meta_finish(&meta);
    strbuf_add(&view->meta, value.mv_data, value.mv_size);
    return code;
}

/* Under the share's lock. */
static enum err_code begin_view(struct store_view *view, struct err *reterr)
{
    int detail = mdb_txn_begin(view->share->env, NULL, MDB_RDONLY, &view->txn);

    if (detail != 0) {
        view->txn = NULL;
        return store_env_error(detail, "reading the state", reterr);
    }
    detail = mdb_cursor_open(view->txn, view->share->rows_dbi, &view->cursor);
    if (detail == 0)
        detail = store_env_file_bytes(view->share->env, &view->file_bytes);
    if (detail == 0)
        return read_meta(view, reterr);
    return store_env_error(detail, "reading the state", reterr);
}

static void free_view(struct store_view *view)
{
    strbuf_finish(&view->meta);
    free(view);
}

enum err_code store_view_open(struct store_share *share, struct store_view **ret_view,
                              struct err *reterr)
{
    struct store_view *view = mem_calloc(1, sizeof(*view));
    enum err_code code = ERR_NONE;

    view->share = share;
    pthread_mutex_lock(&share->lock);
    if (share->env == NULL)
        code = err_set(reterr, ERR_UNAVAILABLE, "the state is closed");
    else if (share->view_count == STORE_VIEWS_MAX)
        code = err_set(reterr, ERR_LIMIT, "the state is being read by %d others", STORE_VIEWS_MAX);
    else
        code = begin_view(view, reterr);
    if (code == ERR_NONE) {
        share->references++;
        share->view_count++;
        view->next = share->views;
        share->views = view;
    } else if (view->txn != NULL) {
        if (view->cursor != NULL)
            mdb_cursor_close(view->cursor);
        mdb_txn_abort(view->txn);
    }
    pthread_mutex_unlock(&share->lock);
    if (code == ERR_NONE)
        *ret_view = view;
    else
        free_view(view);
    return code;
}

void store_view_close(struct store_view *view)
{
    struct store_share *share;
    struct store_view **at;

    if (view == NULL)
        return;
    share = view->share;
    pthread_mutex_lock(&share->lock);
    end_view(view);
    for (at = &share->views; *at != view; at = &(*at)->next)
        assert(*at != NULL);
    *at = view->next;
    share->view_count--;
    pthread_mutex_unlock(&share->lock);
    free_view(view);
    store_share_release(share);
}

const void *store_view_meta(const struct store_view *view, size_t *ret_bytes)
{
    *ret_bytes = view->meta.bytes;
    return view->meta.data;
}

uint64_t store_view_rows(const struct store_view *view)
{
    return view->rows;
}

uint64_t store_view_file_bytes(const struct store_view *view)
{
    return view->file_bytes;
}

/* ---- a part */

static bool knows(const struct store_meta *meta, uint32_t topic, uint32_t partition)
{
    for (size_t i = 0; i < meta->position_count; i++) {
        if (meta->positions[i].topic == topic && meta->positions[i].partition == partition)
            return true;
    }
    return false;
}

/* Of every topic, all partitions that its state comes from: one that lacks its position would be
 * replayed from its start, onto rows that have all of it. */
static bool knows_all(const struct store_meta *meta, const struct store_part *part)
{
    uint32_t count = part->owners.map.partitions.now, topics = 0;
    bool *read = mem_calloc(count, sizeof(*read)), all = true;

    for (size_t i = 0; i < meta->position_count; i++) {
        if (meta->positions[i].topic >= topics)
            topics = meta->positions[i].topic + 1;
    }
    store_owner_mark_read(&part->owners, part->processor, read);
    for (uint32_t partition = 0; partition < count; partition++) {
        for (uint32_t topic = 0; read[partition] && topic < topics; topic++)
            all = all && knows(meta, topic, partition);
    }
    free(read);
    return all && topics > 0;
}

/* As if it were the state of that processor, of which nothing is known to be there yet. */
static void narrow_meta(struct store_meta *meta, const struct store_part *part)
{
    const struct key_map *map = &part->owners.map;
    bool *read = mem_calloc(map->partitions.now, sizeof(*read));
    size_t count = 0;

    store_owner_mark_read(&part->owners, part->processor, read);
    for (size_t i = 0; i < meta->position_count; i++) {
        if (meta->positions[i].partition < map->partitions.now &&
            read[meta->positions[i].partition]) {
            meta->positions[count] = meta->positions[i];
            meta->positions[count++].left_whole = false; /* there it is read */
        }
    }
    free(read);
    meta->position_count = count;
    meta->processor = part->processor;
    meta->rows = meta->digest = 0;
    meta->sweep.bytes = meta->removing.bytes = 0;
    meta->clean_for = map->processors.now;
    meta->removing_for = 0;
}

enum err_code store_view_narrow(struct store_view *view, const struct store_part *part,
                                struct err *reterr)
{
    MDB_val value = {.mv_size = view->meta.bytes, .mv_data = view->meta.data};
    struct store_meta meta;
    enum err_code code = store_meta_decode(value, &meta, reterr);

    if (code != ERR_NONE)
        return code;
    if (knows_all(&meta, part)) {
        narrow_meta(&meta, part);
        store_meta_encode(&meta, &view->meta);
        view->narrow = true;
        view->part = *part;
    } else {
        code = err_set(reterr, ERR_NOT_FOUND,
                       "this copy does not know all partitions of processor %" PRIu32,
                       part->processor);
    }
    store_meta_finish(&meta);
    return code;
}

void store_view_sum(const struct store_view *view, uint64_t *ret_rows, uint64_t *ret_digest)
{
    *ret_rows = view->read;
    *ret_digest = view->digest;
}

/* ---- reading */

static void add_row(struct strbuf *buf, MDB_val key, MDB_val value)
{
    unsigned char head[STORE_SEED_ROW_HEAD];

    store_number_put(head, key.mv_size, 2);
    store_number_put(head + 2, value.mv_size, 4);
    strbuf_add(buf, head, sizeof(head));
    strbuf_add(buf, key.mv_data, key.mv_size);
    strbuf_add(buf, value.mv_data, value.mv_size);
}

/* Under the share's lock. */
static enum err_code read_rows(struct store_view *view, size_t bytes_max, struct strbuf *buf,
                               uint32_t *ret_rows, bool *ret_end, struct err *reterr)
{
    const size_t before = buf->bytes;
    uint32_t looked = 0; /* the owner may be waiting for the end of this */
    uint64_t looked_bytes = 0;
    struct store_row_view row;
    MDB_val key, value;
    int code = mdb_cursor_get(view->cursor, &key, &value, view->begun ? MDB_NEXT : MDB_FIRST);

    *ret_rows = 0;
    *ret_end = false;
    while (code == 0) {
        const enum err_code result = store_row_decode(key, value, &row, reterr);

        if (result != ERR_NONE)
            return result;
        view->begun = true;
        if (!view->narrow ||
            !store_owner_is_other(&view->part.owners, view->part.processor, &row.row)) {
            add_row(buf, key, value);
            view->read++;
            view->digest += row.checksum;
            (*ret_rows)++;
        }
        looked_bytes += key.mv_size + value.mv_size;
        if (buf->bytes - before >= bytes_max || ++looked == PAGE_ROWS_MAX ||
            looked_bytes >= PAGE_LOOKED_BYTES)
            return ERR_NONE;
        code = mdb_cursor_get(view->cursor, &key, &value, MDB_NEXT);
    }
    if (code != MDB_NOTFOUND)
        return store_env_error(code, "reading the state", reterr);
    *ret_end = true;
    return ERR_NONE;
}

enum err_code store_view_read(struct store_view *view, size_t bytes_max, struct strbuf *buf,
                              uint32_t *ret_rows, bool *ret_end, struct err *reterr)
{
    enum err_code code;

    pthread_mutex_lock(&view->share->lock);
    if (view->txn == NULL)
        code = err_set(reterr, ERR_STALE, "the state was closed, or its file had to grow");
    else
        code = read_rows(view, bytes_max, buf, ret_rows, ret_end, reterr);
    pthread_mutex_unlock(&view->share->lock);
    return code;
}
