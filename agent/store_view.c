/* Views of a store's last checkpoint, for other threads. */
#include "agent/store_view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store_internal.h"
#include "common/mem.h"

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
    struct store_row_view row;
    MDB_val key, value;
    int code = mdb_cursor_get(view->cursor, &key, &value, view->begun ? MDB_NEXT : MDB_FIRST);

    *ret_rows = 0;
    *ret_end = false;
    while (code == 0) {
        const enum err_code result = store_row_decode(key, value, &row, reterr);

        if (result != ERR_NONE)
            return result;
        add_row(buf, key, value);
        view->begun = true;
        (*ret_rows)++;
        if (buf->bytes - before >= bytes_max)
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
