/*
 * One LMDB commit: what changes in the rows, and the meta record that says what they add up to. One
 * that fails changes nothing on disk and nothing in store->meta, so it can be made again.
 */
#include "agent/store_internal.h"

#include <stdlib.h>

#include "common/mem.h"

enum err_code store_commit_error(struct store_commit *commit, int code)
{
    return store_env_error(code, "writing", commit->reterr);
}

/* The record of the next commit: as the last, with what every commit changes. */
static void prepare_meta(struct store_commit *commit)
{
    const struct store_meta *meta = &commit->store->meta;

    commit->next = *meta;
    commit->next.clean = false;
    /* The first commit on a file that says "clean" is synced in any case: from the second on, pages
       of the clean state are reused, and a file that still says so after a power cut would lie. */
    commit->next.synced = commit->store->sync || meta->clean;
}

enum err_code store_commit_begin(struct store_commit *commit)
{
    int code;

    prepare_meta(commit);
    code = mdb_txn_begin(commit->store->env, NULL, 0, &commit->txn);
    if (code != 0)
        return store_commit_error(commit, code);
    code = mdb_cursor_open(commit->txn, commit->store->rows_dbi, &commit->cursor);
    if (code != 0) {
        mdb_txn_abort(commit->txn);
        return store_commit_error(commit, code);
    }
    return ERR_NONE;
}

enum err_code store_commit_forget(struct store_commit *commit, uint64_t checksum)
{
    const int code = mdb_cursor_del(commit->cursor, 0);

    if (code != 0)
        return store_commit_error(commit, code);
    commit->next.digest -= checksum;
    commit->next.rows--;
    return ERR_NONE;
}

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

static int finish(struct store_commit *commit)
{
    MDB_env *env = commit->store->env;
    /* Synced against the configuration: see prepare_meta. */
    const bool sync_once = commit->next.synced && !commit->store->sync;
    int code = 0;

    if (sync_once)
        code = mdb_env_set_flags(env, MDB_NOSYNC, 0);
    if (code != 0) {
        mdb_txn_abort(commit->txn);
        return code;
    }
    code = mdb_txn_commit(commit->txn);
    if (sync_once)
        (void)mdb_env_set_flags(env, MDB_NOSYNC, 1); /* else more is synced than need be */
    return code;
}

/* The positions are the commit's own, or those that were there. */
static void adopt_meta(struct store *store, const struct store_meta *next)
{
    struct store_position *old = store->meta.positions;

    store->meta = *next;
    if (next->positions == old)
        return;
    store->meta.positions =
        mem_memdup(next->positions, next->position_count * sizeof(*next->positions));
    free(old);
}

enum err_code store_commit_end(struct store_commit *commit, enum err_code result)
{
    int code;

    mdb_cursor_close(commit->cursor);
    if (result != ERR_NONE) {
        mdb_txn_abort(commit->txn);
        return result;
    }
    code = injected_failure(commit->store);
    if (code == 0)
        code = store_env_put_meta(commit->txn, commit->store->meta_dbi, &commit->next);
    if (code != 0)
        mdb_txn_abort(commit->txn);
    else
        code = finish(commit);
    if (code != 0)
        return store_commit_error(commit, code);
    adopt_meta(commit->store, &commit->next);
    return ERR_NONE;
}
