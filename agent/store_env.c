/* LMDB environments: creating, opening, growing; what its codes mean. */
#include "agent/store_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/store_view.h"
#include "common/mem.h"

#define NEW_DIRECTORY    "new"
#define MAP_BYTES_FIRST  (UINT64_C(64) * 1024 * 1024)
#define MAP_BYTES_ALIGN  (UINT64_C(64) * 1024) /* any page size divides it */
#define CREATE_MAP_BYTES (UINT64_C(1) * 1024 * 1024)
#define READERS_MAX      (2 + STORE_VIEWS_MAX)

/* ---- errors -----------------------------------------------------------------------------------
 */

static enum err_code meaning(int code)
{
    switch (code) {
    case MDB_MAP_FULL:
        return ERR_LIMIT;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
    case MDB_CURSOR_FULL:
    case MDB_NOTFOUND:
        return ERR_CORRUPT;
    default:
        return ERR_IO;
    }
}

enum err_code store_env_error(int code, const char *doing, struct err *reterr)
{
    (void)err_set(reterr, meaning(code), "%s: %s", doing, mdb_strerror(code));
    if (reterr != NULL) {
        reterr->detail = code;
        /* After a failed write of a meta page LMDB refuses everything until it is opened again. */
        reterr->fatal = code == MDB_PANIC;
        reterr->retriable = !reterr->fatal && meaning(code) != ERR_CORRUPT;
    }
    return meaning(code);
}

/*
 * LMDB found its own data impossible. The file was sound when it was opened, so this is damage
 * since, or a bug; going on could write nonsense. The mark makes the next start set the state aside
 * even when the file looks sound again, so the agent does not end here for ever.
 */
static void on_assert(MDB_env *env, const char *text)
{
    const char *directory = mdb_env_get_userctx(env);
    char *path = store_dir_path(directory, STORE_SUSPECT_FILE);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    (void)dprintf(STDERR_FILENO, "state %s: LMDB: assertion failed: %s\n", directory, text);
    if (fd >= 0) {
        (void)dprintf(fd, "LMDB: assertion failed: %s\n", text);
        (void)close(fd);
    }
    abort();
}

/* ---- creating ---------------------------------------------------------------------------------
 */

int store_env_put_meta(MDB_txn *txn, MDB_dbi dbi, const struct store_meta *meta)
{
    struct strbuf buf = {0};
    MDB_val key = {.mv_size = strlen(STORE_META_KEY), .mv_data = STORE_META_KEY}, value;
    int code;

    store_meta_encode(meta, &buf);
    value = (MDB_val){.mv_size = buf.bytes, .mv_data = buf.data};
    code = mdb_put(txn, dbi, &key, &value, 0);
    strbuf_finish(&buf);
    return code;
}

static int write_first(MDB_env *env, const struct store_meta *meta)
{
    MDB_txn *txn;
    MDB_dbi rows, metas;
    int code = mdb_txn_begin(env, NULL, 0, &txn);

    if (code != 0)
        return code;
    code = mdb_dbi_open(txn, STORE_ROWS, MDB_CREATE, &rows);
    if (code == 0)
        code = mdb_dbi_open(txn, STORE_METAS, MDB_CREATE, &metas);
    if (code == 0)
        code = store_env_put_meta(txn, metas, meta);
    if (code != 0) {
        mdb_txn_abort(txn);
        return code;
    }
    return mdb_txn_commit(txn);
}

/* In a directory of its own; synced, whatever the configuration: it happens once. */
static int create_at(const char *directory, const struct store_meta *meta)
{
    MDB_env *env = NULL;
    int code = mdb_env_create(&env);

    if (code != 0)
        return code;
    code = mdb_env_set_maxdbs(env, 2);
    if (code == 0)
        code = mdb_env_set_mapsize(env, CREATE_MAP_BYTES);
    if (code == 0)
        code = mdb_env_open(env, directory, MDB_NOLOCK, 0600);
    if (code == 0)
        code = write_first(env, meta);
    mdb_env_close(env);
    return code;
}

static enum err_code clear_new(const char *directory, struct err *reterr)
{
    enum err_code code = store_dir_remove(directory, STORE_DATA_FILE, reterr);

    if (code == ERR_NONE && rmdir(directory) != 0 && errno != ENOENT)
        code = err_set(reterr, ERR_IO, "%s: can not remove it: %s", directory, strerror(errno));
    return code;
}

/* An interrupted creation leaves NEW_DIRECTORY only, so a data.mdb that is there was once whole. */
enum err_code store_env_create(struct store *store, struct err *reterr)
{
    char *made = store_dir_path(store->directory, NEW_DIRECTORY);
    char *from = store_dir_path(made, STORE_DATA_FILE);
    char *to = store_dir_path(store->directory, STORE_DATA_FILE);
    enum err_code code = ERR_NONE;
    int detail;

    code = clear_new(made, reterr);
    if (code == ERR_NONE)
        code = store_dir_create(made, reterr);
    if (code == ERR_NONE) {
        detail = create_at(made, &store->meta);
        if (detail != 0)
            code = store_env_error(detail, made, reterr);
    }
    if (code == ERR_NONE && rename(from, to) != 0)
        code = err_set(reterr, ERR_IO, "%s: can not rename it: %s", from, strerror(errno));
    if (code == ERR_NONE)
        code = clear_new(made, reterr);
    if (code == ERR_NONE)
        code = store_dir_sync(store->directory, reterr);
    free(to);
    free(from);
    free(made);
    return code;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static uint64_t limited(const struct store *store, uint64_t bytes)
{
    if (bytes > (uint64_t)store->map_bytes_max)
        bytes = (uint64_t)store->map_bytes_max;
    return bytes / MAP_BYTES_ALIGN * MAP_BYTES_ALIGN;
}

int store_env_file_bytes(MDB_env *env, uint64_t *ret_bytes)
{
    MDB_envinfo info;
    MDB_stat stat;
    int code = mdb_env_info(env, &info);

    if (code == 0)
        code = mdb_env_stat(env, &stat);
    if (code == 0)
        *ret_bytes = (info.me_last_pgno + 1) * stat.ms_psize;
    return code;
}

static int open_databases(struct store *store)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);

    if (code != 0)
        return code;
    code = mdb_dbi_open(txn, STORE_ROWS, 0, &store->rows_dbi);
    if (code == 0)
        code = mdb_dbi_open(txn, STORE_METAS, 0, &store->meta_dbi);
    if (code != 0) {
        mdb_txn_abort(txn);
        return code;
    }
    return mdb_txn_commit(txn); /* keeps the handles */
}

static int open_env(struct store *store)
{
    /* No read-ahead: the check has just read the file, and later reads jump. */
    const unsigned flags = MDB_NOTLS | MDB_NORDAHEAD | (store->sync ? 0 : MDB_NOSYNC);
    int code = mdb_env_create(&store->env);

    if (code == 0)
        code = mdb_env_set_userctx(store->env, store->directory);
    if (code == 0)
        code = mdb_env_set_assert(store->env, on_assert);
    if (code == 0)
        code = mdb_env_set_maxdbs(store->env, 2);
    if (code == 0)
        code = mdb_env_set_maxreaders(store->env, READERS_MAX);
    if (code == 0)
        code = mdb_env_set_mapsize(store->env, limited(store, MAP_BYTES_FIRST));
    if (code == 0)
        code = mdb_env_open(store->env, store->directory, flags, 0600);
    if (code == 0)
        code = open_databases(store);
    if (code == 0)
        code = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &store->reader);
    if (code == 0)
        mdb_txn_reset(store->reader);
    return code;
}

enum err_code store_env_open(struct store *store, struct err *reterr)
{
    enum err_code code;
    MDB_envinfo info;
    int detail;

    /* LMDB's table of readers holds nothing worth keeping: we hold the directory's lock. */
    code = store_dir_remove(store->directory, STORE_LOCKS_FILE, reterr);
    if (code != ERR_NONE)
        return code;
    detail = open_env(store);
    if (detail == 0)
        detail = store_env_file_bytes(store->env, &store->file_bytes);
    if (detail == 0)
        detail = mdb_env_info(store->env, &info);
    if (detail != 0) {
        code = store_env_error(detail, store->directory, reterr);
        store_env_close(store);
        return code;
    }
    store->map_bytes = info.me_mapsize;
    store_share_attach(store);
    return ERR_NONE;
}

void store_env_close(struct store *store)
{
    if (store->reader != NULL)
        mdb_txn_abort(store->reader);
    store->reader = NULL;
    store->reader_active = false;
    store_share_detach(store);
    if (store->env != NULL)
        mdb_env_close(store->env);
    store->env = NULL;
}

/* ---- the map ----------------------------------------------------------------------------------
 */

enum err_code store_env_grow(struct store *store, uint64_t bytes, struct err *reterr)
{
    const uint64_t wanted = limited(store, bytes);
    int code;

    assert(!store->reader_active);
    if (wanted <= store->map_bytes)
        return ERR_NONE;
    store_share_revoke(store->share);
    code = mdb_env_set_mapsize(store->env, wanted);
    store_share_restore(store->share);
    if (code != 0) {
        /* LMDB has unmapped the old map by now. */
        store->broken = true;
        store_share_detach(store);
        return store_env_error(code, "growing the map", reterr);
    }
    store->map_bytes = wanted;
    return ERR_NONE;
}

/* ---- the reader -------------------------------------------------------------------------------
 */

void store_env_rest(struct store *store)
{
    if (store->reader_active)
        mdb_txn_reset(store->reader);
    store->reader_active = false;
}

static enum err_code refuse_broken(struct err *reterr)
{
    (void)err_set(reterr, ERR_IO, "the state's file can no longer be used: open it again");
    if (reterr != NULL)
        reterr->fatal = true;
    return ERR_IO;
}

enum err_code store_env_view(struct store *store, struct err *reterr)
{
    int code;

    if (store->reader_active)
        return ERR_NONE;
    if (store->broken)
        return refuse_broken(reterr);
    code = mdb_txn_renew(store->reader);
    if (code != 0)
        return store_env_error(code, "reading the state", reterr);
    store->reader_active = true;
    return ERR_NONE;
}
