/* A data file made of the rows of another copy. */
#include "agent/store_seed.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/store_internal.h"
#include "agent/store_owner.h"
#include "common/clock.h"
#include "common/mem.h"

#define SEED_DIRECTORY "seed"
#define FINISHED_FILE  "finished.mdb" /* data.mdb, once it is whole */
#define MAP_SLACK      (UINT64_C(64) * 1024 * 1024)
#define MAP_ALIGN      (UINT64_C(64) * 1024)
/* Rows of one LMDB transaction: its changed pages are held in memory. */
#define BATCH_BYTES ((size_t)16 * 1024 * 1024)

struct store_seed {
    char *directory; /* <state>/seed */
    MDB_env *env;
    MDB_dbi rows_dbi, meta_dbi;
    MDB_txn *txn; /* NULL: none is open */
    MDB_cursor *cursor;
    size_t batch_bytes;
    struct store_meta meta;
    struct store_row_key last; /* key of the last row; no bytes: none yet */
    uint64_t rows, digest;
    bool part;
    struct store_owners owners; /* of a part */
    bool finished;
};

static enum err_code lmdb_error(int code, struct err *reterr)
{
    if (code == MDB_MAP_FULL)
        return err_set(reterr, ERR_LIMIT,
                       "the state that was sent needs more than there is room for: raise "
                       "state_bytes_max");
    return store_env_error(code, "writing what was sent", reterr);
}

/* ---- the directory */

static enum err_code clear_directory(const char *directory, struct err *reterr)
{
    enum err_code code = store_dir_remove(directory, STORE_DATA_FILE, reterr);

    if (code == ERR_NONE)
        code = store_dir_remove(directory, FINISHED_FILE, reterr);
    if (code == ERR_NONE && rmdir(directory) != 0 && errno != ENOENT)
        code = err_set(reterr, ERR_IO, "%s: can not remove it: %s", directory, strerror(errno));
    return code;
}

enum err_code store_seed_clear(const char *directory, struct err *reterr)
{
    char *path = store_dir_path(directory, SEED_DIRECTORY);
    enum err_code code = clear_directory(path, reterr);

    free(path);
    return code;
}

/* ---- beginning */

static int open_env(struct store_seed *seed, uint64_t map_bytes)
{
    /* Synced once, at the end; nobody else opens it. */
    int code = mdb_env_create(&seed->env);

    if (code == 0)
        code = mdb_env_set_maxdbs(seed->env, 2);
    if (code == 0)
        code = mdb_env_set_mapsize(seed->env, map_bytes);
    if (code == 0)
        code = mdb_env_open(seed->env, seed->directory, MDB_NOLOCK | MDB_NOSYNC, 0600);
    if (code == 0)
        code = mdb_txn_begin(seed->env, NULL, 0, &seed->txn);
    if (code == 0)
        code = mdb_dbi_open(seed->txn, STORE_ROWS, MDB_CREATE, &seed->rows_dbi);
    if (code == 0)
        code = mdb_dbi_open(seed->txn, STORE_METAS, MDB_CREATE, &seed->meta_dbi);
    if (code == 0)
        code = mdb_cursor_open(seed->txn, seed->rows_dbi, &seed->cursor);
    return code;
}

static enum err_code take_meta(struct store_seed *seed, const struct store_identity *identity,
                               const void *meta, size_t meta_bytes, struct err *reterr)
{
    MDB_val value = {.mv_size = meta_bytes, .mv_data = (void *)meta};
    enum err_code code = store_meta_decode(value, &seed->meta, reterr);

    if (code == ERR_NONE)
        code = store_meta_judge(&seed->meta, identity, reterr);
    if (code == ERR_NONE && seed->meta.sequence == 0)
        code = err_set(reterr, ERR_CORRUPT, "what was sent has not seen a checkpoint");
    if (code != ERR_NONE)
        return code;
    free(seed->meta.boot_id);
    seed->meta.boot_id = mem_strdup(identity->boot_id);
    seed->meta.clean = seed->meta.synced = true; /* as it is when it is finished */
    seed->meta.written_ms = clock_wall_ms();     /* whoever has it is at work */
    return ERR_NONE;
}

/* A copy without holes is smaller than the file that it is of. */
static uint64_t map_bytes_of(uint64_t file_bytes, int64_t most)
{
    uint64_t bytes = file_bytes > (uint64_t)most ? (uint64_t)most : file_bytes;

    bytes += bytes / 4 + MAP_SLACK;
    if (bytes > (uint64_t)most)
        bytes = (uint64_t)most;
    return bytes / MAP_ALIGN * MAP_ALIGN;
}

enum err_code store_seed_begin(const struct store_config *config,
                               const struct store_identity *identity, const void *meta,
                               size_t meta_bytes, uint64_t file_bytes, struct store_seed **ret_seed,
                               struct err *reterr)
{
    struct store_seed *seed = mem_calloc(1, sizeof(*seed));
    enum err_code code = take_meta(seed, identity, meta, meta_bytes, reterr);
    int detail;

    seed->directory = store_dir_path(config->directory, SEED_DIRECTORY);
    if (code == ERR_NONE)
        code = clear_directory(seed->directory, reterr);
    if (code == ERR_NONE)
        code = store_dir_create(seed->directory, reterr);
    if (code == ERR_NONE) {
        detail = open_env(seed, map_bytes_of(file_bytes, config->map_bytes_max));
        if (detail != 0)
            code = lmdb_error(detail, reterr);
    }
    if (code != ERR_NONE) {
        store_seed_destroy(seed);
        return code;
    }
    *ret_seed = seed;
    return ERR_NONE;
}

/* ---- rows */

static enum err_code put_row(struct store_seed *seed, MDB_val key, MDB_val value,
                             struct err *reterr)
{
    struct store_row_view view;
    enum err_code code = store_row_decode(key, value, &view, reterr);
    int detail;

    if (code != ERR_NONE)
        return code;
    if (seed->part && store_owner_is_other(&seed->owners, seed->meta.processor, &view.row))
        return err_set(reterr, ERR_CORRUPT, "a row is another processor's");
    if (key.mv_size > sizeof(seed->last.data))
        return err_set(reterr, ERR_CORRUPT, "a row's key is too long");
    if (seed->rows > 0 &&
        store_bytes_compare(key.mv_data, key.mv_size, seed->last.data, seed->last.bytes) <= 0)
        return err_set(reterr, ERR_CORRUPT, "rows are not in order");
    detail = mdb_cursor_put(seed->cursor, &key, &value, MDB_APPEND);
    if (detail != 0)
        return lmdb_error(detail, reterr);
    memcpy(seed->last.data, key.mv_data, key.mv_size);
    seed->last.bytes = key.mv_size;
    seed->digest += view.checksum;
    seed->rows++;
    seed->batch_bytes += key.mv_size + value.mv_size;
    return ERR_NONE;
}

static void close_cursor(struct store_seed *seed)
{
    if (seed->cursor != NULL)
        mdb_cursor_close(seed->cursor);
    seed->cursor = NULL;
}

static enum err_code next_batch(struct store_seed *seed, struct err *reterr)
{
    int code;

    close_cursor(seed);
    code = mdb_txn_commit(seed->txn);
    seed->txn = NULL;
    if (code == 0)
        code = mdb_txn_begin(seed->env, NULL, 0, &seed->txn);
    if (code == 0)
        code = mdb_cursor_open(seed->txn, seed->rows_dbi, &seed->cursor);
    seed->batch_bytes = 0;
    return code == 0 ? ERR_NONE : lmdb_error(code, reterr);
}

/* False: what is left is no row. */
static bool split_row(const unsigned char **data, size_t *left, MDB_val *ret_key,
                      MDB_val *ret_value)
{
    size_t key_bytes, value_bytes;

    if (*left < STORE_SEED_ROW_HEAD)
        return false;
    key_bytes = store_number_get(*data, 2);
    value_bytes = store_number_get(*data + 2, 4);
    if (key_bytes + value_bytes > *left - STORE_SEED_ROW_HEAD)
        return false;
    *ret_key = (MDB_val){.mv_size = key_bytes, .mv_data = (void *)(*data + STORE_SEED_ROW_HEAD)};
    *ret_value = (MDB_val){.mv_size = value_bytes,
                           .mv_data = (void *)(*data + STORE_SEED_ROW_HEAD + key_bytes)};
    *data += STORE_SEED_ROW_HEAD + key_bytes + value_bytes;
    *left -= STORE_SEED_ROW_HEAD + key_bytes + value_bytes;
    return true;
}

enum err_code store_seed_add(struct store_seed *seed, const void *rows, size_t bytes,
                             uint32_t count, struct err *reterr)
{
    const unsigned char *data = rows;
    MDB_val key, value;

    assert(!seed->finished);
    for (uint32_t i = 0; i < count; i++) {
        enum err_code code;

        if (!split_row(&data, &bytes, &key, &value))
            return err_set(reterr, ERR_CORRUPT, "a row is cut short");
        code = put_row(seed, key, value, reterr);
        if (code == ERR_NONE && seed->batch_bytes >= BATCH_BYTES)
            code = next_batch(seed, reterr);
        if (code != ERR_NONE)
            return code;
    }
    return bytes == 0 ? ERR_NONE : err_set(reterr, ERR_CORRUPT, "there is more than the rows");
}

/* ---- a part */

void store_seed_expect_part(struct store_seed *seed, const struct store_owners *owners)
{
    assert(seed->rows == 0);
    seed->part = true;
    seed->owners = *owners;
}

void store_seed_tell_sum(struct store_seed *seed, uint64_t rows, uint64_t digest)
{
    assert(seed->part);
    seed->meta.rows = rows;
    seed->meta.digest = digest;
}

bool store_seed_bound(struct store_seed *seed, const struct store_position *bound)
{
    for (size_t i = 0; i < seed->meta.position_count; i++) {
        struct store_position *position = &seed->meta.positions[i];

        if (position->topic != bound->topic || position->partition != bound->partition)
            continue;
        if (position->next_offset > bound->next_offset) {
            position->next_offset = bound->next_offset;
            position->records = bound->records;
        }
        if (position->last_offset > bound->last_offset)
            position->last_offset = -1;
        return true;
    }
    return false;
}

/* ---- the end */

static enum err_code write_end(struct store_seed *seed, struct err *reterr)
{
    char *from = store_dir_path(seed->directory, STORE_DATA_FILE);
    char *to = store_dir_path(seed->directory, FINISHED_FILE);
    enum err_code code = ERR_NONE;
    int detail;

    close_cursor(seed);
    detail = store_env_put_meta(seed->txn, seed->meta_dbi, &seed->meta);
    if (detail == 0) {
        detail = mdb_txn_commit(seed->txn);
        seed->txn = NULL;
    }
    if (detail == 0)
        detail = mdb_env_sync(seed->env, 1);
    if (detail != 0)
        code = lmdb_error(detail, reterr);
    if (code == ERR_NONE) {
        mdb_env_close(seed->env);
        seed->env = NULL;
    }
    if (code == ERR_NONE && rename(from, to) != 0)
        code = err_set(reterr, ERR_IO, "%s: can not rename it: %s", from, strerror(errno));
    if (code == ERR_NONE)
        code = store_dir_sync(seed->directory, reterr);
    free(to);
    free(from);
    return code;
}

enum err_code store_seed_finish(struct store_seed *seed, struct err *reterr)
{
    enum err_code code;

    if (seed->rows != seed->meta.rows || seed->digest != seed->meta.digest)
        return err_set(reterr, ERR_CORRUPT,
                       "the rows are not those of the checkpoint: %" PRIu64 " came, %" PRIu64
                       " are on record",
                       seed->rows, seed->meta.rows);
    code = write_end(seed, reterr);
    seed->finished = code == ERR_NONE;
    return code;
}

void store_seed_destroy(struct store_seed *seed)
{
    if (seed == NULL)
        return;
    close_cursor(seed);
    if (seed->txn != NULL)
        mdb_txn_abort(seed->txn);
    if (seed->env != NULL)
        mdb_env_close(seed->env);
    if (!seed->finished)
        (void)clear_directory(seed->directory, NULL); /* the next one clears it, too */
    store_meta_finish(&seed->meta);
    free(seed->directory);
    free(seed);
}

uint64_t store_seed_rows(const struct store_seed *seed)
{
    return seed->rows;
}

enum err_code store_seed_install(const char *directory, struct err *reterr)
{
    char *seed = store_dir_path(directory, SEED_DIRECTORY);
    char *from = store_dir_path(seed, FINISHED_FILE);
    char *to = store_dir_path(directory, STORE_DATA_FILE);
    enum err_code code = ERR_NONE;

    if (rename(from, to) != 0)
        code = err_set(reterr, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO,
                       "%s: can not take it over: %s", from, strerror(errno));
    if (code == ERR_NONE)
        code = store_dir_sync(directory, reterr);
    if (code == ERR_NONE)
        code = clear_directory(seed, reterr);
    free(to);
    free(from);
    free(seed);
    return code;
}
