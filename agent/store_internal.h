/*
 * What the files of the store share (agent/store.h is the contract for everyone else).
 *
 *   store.c        opens, closes, freezes; follows the flusher's outcomes       owner thread
 *   store_read.c   reads: live map, frozen map, LMDB                            owner thread
 *   store_flush.c  the flusher thread
 *   store_checkpoint.c  one checkpoint, which is one LMDB commit                flusher thread
 *   store_garbage.c  rows that splits have left behind                          both, see there
 *   store_commit.c   one LMDB commit: rows, and what they add up to             flusher thread
 *   store_owner.c    whose row it is                                            any thread
 *   store_env.c    LMDB environments: creating, opening, growing, error texts
 *   store_map.c    the in-memory map of changed rows
 *   store_row.c    rows as bytes, checksums
 *   store_meta.c   the meta record: positions, lineage, what the rows add up to
 *   store_check.c  proves a data file sound before LMDB touches it
 *   store_page.c   pages of the data file, for store_check.c
 *   store_view.c   views of the last checkpoint                                 any thread
 *   store_seed.c   makes a data file out of such a view's rows                  a thread of its own
 *   store_dir.c    directories, locks, setting aside
 *
 * Who touches what: the owner thread has everything except while a checkpoint runs. From the moment
 * it is requested until it is seen as ended (both under flusher.lock), the flusher owns
 * flusher.job, flusher.outcome, `meta` and the write transaction; the frozen map is read by both
 * and changed by none; the map size of the environment is not changed. The same holds for a step of
 * removal, of which the flusher has flusher.removal; a checkpoint that is asked for meanwhile waits
 * for its end, and the owner fills in flusher.job already.
 */
#ifndef BATON_AGENT_STORE_INTERNAL_H
#define BATON_AGENT_STORE_INTERNAL_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/store.h"
#include "common/arena.h"
#include "common/err.h"
#include "common/strbuf.h"

/* ---- store_map.c ------------------------------------------------------------------------------
 *
 * Rows changed since the last checkpoint: put or deleted. Entries never move, so pointers into them
 * hold until store_map_clear. Grows with what is put; the owner watches store_map_bytes.
 *
 * Why not uthash: its function of the key can be made to collide by whoever chooses keys, it takes
 * 56 bytes of links an entry, and each entry is freed by itself. Measured with 1 M keys of 19 bytes
 * on one core: insert 1.0 s, find 0.7 s, free 0.1 s, 160 MB; here 0.4 s, 0.35 s, 0.02 s, 108 MB.
 */
struct store_entry {
    uint64_t hash;
    struct store_entry *next_of_key; /* rows of the same key that have a subkey, no order */
    unsigned char *value;
    int64_t record_time_ms;
    uint32_t root;
    uint32_t key_bytes;
    uint32_t subkey_bytes;
    uint32_t value_bytes;
    uint32_t value_capacity;
    bool deleted;
    unsigned char bytes[]; /* key, subkey; then the first value */
};

struct store_slot {
    uint64_t hash;
    struct store_entry *entry; /* NULL: free */
};

struct store_slots { /* open addressing, linear probing, capacity a power of two or 0 */
    struct store_slot *items;
    size_t capacity;
    size_t count;
};

struct store_map {
    struct arena arena;
    struct store_slots rows; /* by root, key and subkey */
    struct store_slots keys; /* by root and key: head of the rows that have a subkey */
    uint64_t seed;
    size_t arena_bytes;
};

void store_map_init(struct store_map *map);
void store_map_clear(struct store_map *map); /* empty again; frees the memory */
size_t store_map_bytes(const struct store_map *map);

/* The hash is the same in all maps of one seed, so it is computed once for live and frozen. */
uint64_t store_map_hash(const struct store_map *map, const struct store_row *row);
/* NULL when the map says nothing about the row; a deleted row is an entry with `deleted`. */
const struct store_entry *store_map_find(const struct store_map *map, const struct store_row *row,
                                         uint64_t hash);
/* `value` may lie in this map. */
void store_map_put(struct store_map *map, const struct store_row *row, uint64_t hash,
                   int64_t record_time_ms, const void *value, size_t bytes);
void store_map_delete(struct store_map *map, const struct store_row *row, uint64_t hash);
/* Head of the list (next_of_key) of the key's rows that have a subkey; row->subkey is not looked
 * at. */
const struct store_entry *store_map_rows_of_key(const struct store_map *map,
                                                const struct store_row *row);

static inline const unsigned char *store_entry_subkey(const struct store_entry *entry)
{
    return entry->bytes + entry->key_bytes;
}

/* Bytewise, a prefix before what it starts. */
int store_bytes_compare(const void *left, size_t left_bytes, const void *right, size_t right_bytes);

/* Numbers in the data file, little-endian. */
static inline void store_number_put(unsigned char *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(number >> (8 * i));
}

static inline uint64_t store_number_get(const unsigned char *from, size_t bytes)
{
    uint64_t number = 0;

    for (size_t i = 0; i < bytes; i++)
        number |= (uint64_t)from[i] << (8 * i);
    return number;
}

/* ---- store_row.c ------------------------------------------------------------------------------
 */

#define STORE_ROW_KEY_BYTES_MAX 400

enum store_row_kind { /* first byte of a row's key; bit 1: long key, bit 0 (of kind - 1): long
                         subkey */
                      STORE_ROW_PLAIN = 1,
                      STORE_ROW_LONG_SUBKEY = 2,
                      STORE_ROW_LONG_KEY = 3,
                      STORE_ROW_LONG_BOTH = 4
};

struct store_row_key { /* a row's key in LMDB */
    size_t bytes;
    unsigned char data[STORE_ROW_KEY_BYTES_MAX];
};

struct store_row_view { /* a row as read from LMDB, verified; all borrowed from the page */
    struct store_row row;
    int64_t record_time_ms;
    const void *value;
    size_t value_bytes;
    uint64_t checksum;
};

void store_row_encode_key(const struct store_row *row, struct store_row_key *ret_key);
/* What all rows of the key with short (or long) subkeys start with in LMDB. */
void store_row_encode_prefix(const struct store_row *row, bool long_subkey,
                             struct store_row_key *ret_prefix);
/* Replaces what is in `ret_value`; returns the row's checksum. */
uint64_t store_row_encode_value(MDB_val key, const struct store_row *row, int64_t record_time_ms,
                                const void *value, size_t bytes, struct strbuf *ret_value);
/* ERR_CORRUPT when the checksum or the form is wrong. */
enum err_code store_row_decode(MDB_val key, MDB_val value, struct store_row_view *ret_view,
                               struct err *reterr) MUSTCHECK;
/* True when both name the same row in full: a long key in LMDB is only a hash. */
bool store_row_equal(const struct store_row *left, const struct store_row *right);
enum err_code store_row_collision(const struct store_row *row, struct err *reterr);

/* Sum over `rest`, bound to the key it is stored under. */
uint64_t store_checksum(const void *key, size_t key_bytes, const void *rest, size_t rest_bytes);

/* ---- store_meta.c -----------------------------------------------------------------------------
 */

#define STORE_FORMAT   UINT32_C(5)
#define STORE_META_KEY "meta"

struct store_meta { /* the one record of the meta database */
    uint32_t format;
    uint32_t processor;
    bool clean;         /* written when the store was closed: synced, nothing after it */
    bool synced;        /* this commit was synced */
    uint64_t sequence;  /* of checkpoints; 0: there was none yet */
    int64_t written_ms; /* wall time of the last one; -1: an older format did not say */
    uint64_t rows;
    uint64_t digest; /* sum of all rows' checksums: the set of rows is what it was at that commit */
    char *cluster, *job, *job_incarnation, *logic, *boot_id;
    struct store_row_key sweep; /* the row that the sweep goes on at; no bytes: the first */
    uint32_t clean_for; /* no row of any other among so many processors is here; 0: nobody knows */
    uint32_t removing_for;         /* what is being removed: for so many; <= clean_for: nothing */
    struct store_row_key removing; /* goes on at this row; no bytes: the first */
    struct store_position *positions;
    size_t position_count;
};

void store_meta_encode(const struct store_meta *meta, struct strbuf *ret_value);
/* ERR_CORRUPT; ERR_UNSUPPORTED when it is sound but of another format. Free with store_meta_finish.
 */
enum err_code store_meta_decode(MDB_val value, struct store_meta *ret_meta,
                                struct err *reterr) MUSTCHECK;
void store_meta_finish(struct store_meta *meta);
/* ERR_FOREIGN with a text that names the field in which the state is another one's. */
enum err_code store_meta_judge(const struct store_meta *meta, const struct store_identity *identity,
                               struct err *reterr) MUSTCHECK;

/* ---- store_check.c ----------------------------------------------------------------------------
 */

/*
 * Reads the whole data file with pread and proves it sound: see the file's head for what that
 * means. On success *ret_meta is the meta record. ERR_NOT_FOUND: no such file. ERR_CORRUPT,
 * ERR_UNSUPPORTED (format). ERR_IO: may not be opened (permission, descriptors); a read error is
 * ERR_CORRUPT.
 */
enum err_code store_check_file(const char *path, struct store_meta *ret_meta,
                               struct err *reterr) MUSTCHECK;

/* The same for the meta record and the pages that lead to it: a few reads, whatever the size. That
 * the rows are sound only store_check_file says. */
enum err_code store_check_meta(const char *path, struct store_meta *ret_meta,
                               struct err *reterr) MUSTCHECK;

/* ---- store_dir.c ------------------------------------------------------------------------------
 */

enum err_code store_dir_create(const char *directory, struct err *reterr) MUSTCHECK;
enum err_code store_dir_lock(const char *directory, int *ret_fd, struct err *reterr) MUSTCHECK;
/* Renames to <directory>.aside-<n>, the first free n >= 1, and leaves the reason in it. */
enum err_code store_dir_set_aside(const char *directory, const char *reason,
                                  struct err *reterr) MUSTCHECK;
/* A number as task_thread.c writes it; so "3.aside-1", "03" and "new" are none. */
bool store_read_processor(const char *name, uint32_t *ret_processor);

char *store_dir_path(const char *directory, const char *name); /* free() */
/* Removes files; what is not there is fine. */
enum err_code store_dir_remove(const char *directory, const char *name,
                               struct err *reterr) MUSTCHECK;
enum err_code store_dir_sync(const char *directory, struct err *reterr) MUSTCHECK;

/* ---- store_env.c ------------------------------------------------------------------------------
 */

#define STORE_DATA_FILE    "data.mdb"
#define STORE_SUSPECT_FILE "suspect"
#define STORE_LOCKS_FILE   "lock.mdb"
#define STORE_ROWS         "rows"
#define STORE_METAS        "meta"

/* An LMDB code as ours; `doing` starts the text. MDB_MAP_FULL is ERR_LIMIT here. */
enum err_code store_env_error(int code, const char *doing, struct err *reterr);
/* Makes a sound empty data.mdb, whole or not at all. */
enum err_code store_env_create(struct store *store, struct err *reterr) MUSTCHECK;
/* Opens data.mdb, which was checked. */
enum err_code store_env_open(struct store *store, struct err *reterr) MUSTCHECK;
void store_env_close(struct store *store); /* a store that has none open is fine */
/* Gives the map room for at least `bytes` when the limit allows; no transaction may be active. */
enum err_code store_env_grow(struct store *store, uint64_t bytes, struct err *reterr) MUSTCHECK;
/* Puts the meta record into a write transaction; an LMDB code. */
int store_env_put_meta(MDB_txn *txn, MDB_dbi dbi, const struct store_meta *meta) MUSTCHECK;
/* Bytes of the data file up to the last page in use; an LMDB code. */
int store_env_file_bytes(MDB_env *env, uint64_t *ret_bytes) MUSTCHECK;
/* Ends the reader's view of LMDB; the next read sees the last commit. */
void store_env_rest(struct store *store);
/* Begins it unless it is there. */
enum err_code store_env_view(struct store *store, struct err *reterr) MUSTCHECK;

/* ---- store_view.c -----------------------------------------------------------------------------
 *
 * The owner's side of a share. Views are ended before the map moves and before the environment is
 * closed, for LMDB allows neither while a transaction is open in the process.
 */
struct store_share;

#define STORE_SEED_ROW_HEAD 6 /* bytes before key and value of a row on its way */

struct store_share *store_share_create(void);
void store_share_attach(struct store *store); /* the environment was opened */
void store_share_detach(struct store *store); /* and is about to be closed; ends all views */
/* Ends all views; none is opened and none reads until _restore. */
void store_share_revoke(struct store_share *share);
void store_share_restore(struct store_share *share);

/* ---- store_commit.c ---------------------------------------------------------------------------
 */

struct store_commit { /* a write transaction of the flusher thread */
    struct store *store;
    struct err *reterr;
    MDB_txn *txn;
    MDB_cursor *cursor;     /* on rows */
    struct store_meta next; /* store->meta with this commit's changes; owns nothing */
};

/* `store` and `reterr` are filled in. After an error there is nothing to end. */
enum err_code store_commit_begin(struct store_commit *commit) MUSTCHECK;
/* Writes `next` and commits unless `result` is an error; store->meta is `next` then. Returns
 * `result`, or why it could not. */
enum err_code store_commit_end(struct store_commit *commit, enum err_code result) MUSTCHECK;
/* Deletes the row under the cursor. */
enum err_code store_commit_forget(struct store_commit *commit, uint64_t checksum) MUSTCHECK;
/* An LMDB code as ours. */
enum err_code store_commit_error(struct store_commit *commit, int code);

/* ---- store_garbage.c --------------------------------------------------------------------------
 */

struct store_removal { /* one step, the flusher's while it runs */
    struct store_owners owners;
    uint64_t rows_max; /* that are looked at */
    bool again; /* what is written later may hold rows of others: this is not the last look */
    uint64_t removed;
    int64_t took_ms;
    bool done; /* there is nothing more to look at */
};

struct store_garbage { /* the owner's */
    struct store_owners owners;
    uint32_t clean_for;  /* as in the meta record that the owner has seen the end of, or newer */
    bool pending;        /* there may be rows to remove */
    bool freeze_first;   /* changes of before the owners were told may be in the live map */
    bool frozen_before;  /* and in the frozen one */
    unsigned halvings;   /* of a step's rows, since the file had no room for it */
    bool running;        /* a step was given to the flusher */
    bool corrupt;        /* `error` says what was found */
    int64_t due_mono_ms; /* when the next step may begin */
    uint64_t removed;
    struct err error;
};

/* Flusher: one step. */
enum err_code store_garbage_step(struct store *store, struct err *reterr) MUSTCHECK;
/* Owner: the step has ended, flusher.outcome is the owner's. */
void store_garbage_took(struct store *store);

/* ---- store_checkpoint.c -----------------------------------------------------------------------
 */

/* Flusher: writes flusher.job, and store->meta after it. ERR_LIMIT: the map is full. */
enum err_code store_checkpoint_write(struct store *store, struct err *reterr) MUSTCHECK;
/*
 * Owner, flusher stopped: makes everything durable and says so in the meta record. When it fails
 * the state is not marked, and the next start trusts it by its boot and its last sync.
 */
void store_checkpoint_mark_clean(struct store *store);

/* ---- store_flush.c ----------------------------------------------------------------------------
 */

enum store_flush_phase { FLUSH_IDLE, FLUSH_REQUESTED, FLUSH_RUNNING, FLUSH_ENDED };
enum store_flush_work { FLUSH_CHECKPOINT, FLUSH_REMOVAL };

struct store_flush_job {
    const struct store_map *map;
    struct store_position *positions;
    size_t position_count;
    size_t read_count; /* of them, before those of what has left since the last one */
    uint32_t clean_for;
    bool keeps_left; /* positions of what has left are kept, for as long as its rows are ... */
    uint32_t partitions_initial; /* ... and nothing of them was passed in their ancestors */
    bool looks_anew; /* removing begins at the first row again: these may be behind it */
};

struct store_flush_outcome {
    enum err_code code; /* ERR_LIMIT: the map is full */
    struct err error;
    uint64_t file_bytes;
};

struct store_flusher {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* protects phase and stop (and hooks); nothing is called under it */
    pthread_cond_t changed;
    enum store_flush_phase phase;
    enum store_flush_work work;
    bool stop;
    atomic_bool hurry; /* a checkpoint waits for the end of a removal */
#ifdef BATON_TEST_HOOKS
    bool hold;
    int fail_code;
    unsigned fail_times;
#endif
    struct store_flush_job job;
    struct store_removal removal;
    struct store_flush_outcome outcome;
};

enum err_code store_flush_start(struct store *store, struct err *reterr) MUSTCHECK;
void store_flush_stop(struct store *store); /* waits for a running checkpoint; joins */
/* Owner: hands flusher.job, or flusher.removal, over. */
void store_flush_request(struct store *store, enum store_flush_work work);
/* Owner: true when what was requested has ended since it was last asked: flusher.outcome is the
 * owner's.
 */
bool store_flush_take(struct store *store);
/* Owner: waits until what is running has ended; false at the deadline (INT64_MAX: none). */
bool store_flush_await(struct store *store, int64_t deadline_mono_ms);
#ifdef BATON_TEST_HOOKS
/* The next `times` checkpoints fail with this LMDB code or errno just before their commit. */
void store_test_fail_flush(struct store *store, int code, unsigned times);
/* While held, a requested checkpoint does not end. */
void store_test_hold_flush(struct store *store, bool hold);
#endif

/* ---- store.c ----------------------------------------------------------------------------------
 */

/* Owner: everything that asks for the state of checkpoints, or begins anything, comes through here.
 */
void store_follow_flusher(struct store *store);

/* ERR_CORRUPT when an assertion of LMDB has left its mark (store_env.c). */
enum err_code store_judge_suspect(const char *directory, struct err *reterr) MUSTCHECK;
/* ERR_CORRUPT when the machine went down after what was not synced. */
enum err_code store_judge_trust(const struct store_meta *meta, const char *boot_id,
                                struct err *reterr) MUSTCHECK;

struct store {
    char *directory;
    uint32_t processor;
    int64_t cache_bytes_max;
    int64_t map_bytes_max;
    bool sync;
    int64_t state_ttl_ms;
    void (*wake)(void *arg);
    void *wake_arg;
    int lock_fd;

    MDB_env *env;
    MDB_dbi rows_dbi, meta_dbi;
    MDB_txn *reader;
    bool reader_active;
    uint64_t map_bytes;
    bool broken; /* the environment can no longer be used: errors are fatal */

    struct store_map maps[2];
    struct store_map *live;
    struct store_map *frozen; /* NULL: every checkpoint is on disk */
    bool flush_failed;
    struct err flush_error;

    struct store_meta meta;    /* what is on disk */
    int64_t written_ms;        /* likewise */
    uint64_t rows, file_bytes; /* as of the last checkpoint that the owner has seen the end of */
    struct store_position *positions; /* likewise */
    size_t position_count;
    struct store_position *left; /* to go with the next freeze */
    size_t left_count;

    struct store_garbage garbage;
    struct store_flusher flusher;
    struct store_share *share;
};

#endif
