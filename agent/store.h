/*
 * The local state of one task: LMDB under a write-back cache, with the offsets it stands for.
 *
 * One LMDB environment per task in `state_dir/<job>/<processor>/` (data.mdb, meta checked at open).
 * Owned by the task's thread; a flusher thread inside writes checkpoints. Everything the logic
 * changes goes to the *live* map. A checkpoint freezes it just after a Kafka commit: the live map
 * becomes the *frozen* one, and the flusher writes it sorted, together with its offsets (T2) and
 * lineage, in one LMDB transaction. Reads look at live, frozen, LMDB in that order.
 *
 *   logic --> live map --store_freeze--> frozen map --flusher--> LMDB
 *                                                    (rows + T2 + lineage: one commit)
 *
 * After a crash or an aborted transaction what is not checkpointed is dropped (store_drop_live, or
 * simply a new open) and replayed from T2. So at rest: the rows are exactly the effect of all
 * records before T2, of every partition.
 *
 * Rows in LMDB. Key: 1 byte kind, 4 bytes big-endian root partition, 2 bytes big-endian key length,
 * key, subkey. LMDB allows 511 bytes, we use 400: for a key over 256 bytes its XXH3-128 stands in
 * place of length and key, and of a subkey that does not fit there is as much of its start as fits
 * and its XXH3-128; the kind says which. So rows of one key are neighbours in the order of their
 * subkeys, and those with long subkeys are neighbours of each other. Where a hash stands, key and
 * subkey are kept in full in the value and compared at every read: two that collide are an error,
 * never each other's. The root partition of a record's partition (its ancestor below N0, see
 * linhash_root) never changes when partitions are added, is the same for all records of one key,
 * and needs no knowledge of the producers' hash. (D8 has the hash here; a job whose topics are
 * still empty does not know its hash yet, and keys that two producers hash differently must not
 * share a row, or a replay could interleave them differently.)
 *
 * Value: 8 bytes XXH3-64 over the whole row (key included), 8 bytes record time, then the value.
 *
 * What is detected. LMDB has no checksums and trusts its pages, so store_open first reads the whole
 * file itself (store_check.c): page structure, list of free pages, every row's checksum, and that
 * the rows add up to what the last checkpoint left. A file that was damaged or cut while it was
 * closed is never served and never crashes the agent. Every row read later is checked again. What
 * remains is damage while the file is open: a flipped byte in an inner page can then make LMDB miss
 * a row or end the process; the next open finds it.
 *
 * Cost of opening: about 0.1 s for 1 M small rows in the page cache, else what the disk takes to
 * read the file once.
 */
#ifndef BATON_AGENT_STORE_H
#define BATON_AGENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash/key_map.h"

struct store;

/* What a state must match to be served. All strings are borrowed during the call. */
struct store_identity {
    const char *cluster; /* UUID of the coordinator's cluster */
    const char *job;
    const char *job_incarnation; /* UUID */
    uint32_t processor;
    const char *logic;   /* "builtin/count/1": another logic can not read this state */
    const char *boot_id; /* of this boot: an unclean file of another boot is trusted only if it was
                            synced */
};

/* By what a row's owner is told (agent/store_owner.h). */
struct store_owners {
    struct key_map map; /* processors.now 0: nobody has said anything, and nothing is removed */
    bool hashed;        /* map.hash is what producers use */
};

struct store_config {
    const char *directory;   /* of this task; created (0700) when absent, with its parents */
    int64_t cache_bytes_max; /* live map's size that asks for an early checkpoint; >= 64 KiB */
    int64_t map_bytes_max;   /* LMDB map size limit; the map grows towards it; >= 1 MiB */
    bool sync; /* fdatasync at each checkpoint; a store that is closed is synced anyway */
    int64_t state_ttl_ms; /* 0: none; rows whose record time is older than their root's time - ttl
                             are swept */
    struct store_owners owners; /* as store_tell_owners */
};

/* Position in one input partition; the unit of T2 and of the lineage. `topic` is the index in the
 * job's inputs. */
struct store_position {
    uint32_t topic;
    uint32_t partition;
    uint32_t root;
    int64_t next_offset;       /* T2: next offset to apply; never -1 */
    int64_t record_time_ms;    /* highest timestamp of the records met; -1 when none */
    int64_t last_offset;       /* of the last record applied; -1 when none */
    uint64_t last_fingerprint; /* XXH3-64 of that record's key, value and timestamp
                                  (store_fingerprint) */
    int64_t records;           /* applied since the job's origin; -1 when nobody counted */
    bool whole;                /* nothing of it is read any more, from these positions on or in a
                                  replay from them; not stored */
    bool left_whole;           /* as store_leave has it; of what is read false */
};

enum store_condition {
    STORE_FRESH,    /* there was nothing, or nothing that had seen a checkpoint */
    STORE_KEPT,     /* the state of an earlier run, verified: positions are its T2 */
    STORE_SET_ASIDE /* there was something foreign, corrupt or untrusted: renamed to
                       <directory>.aside-<n>, starts fresh */
};

/*
 * Locks `directory` (flock; ERR_LOCKED names the holder), opens or creates. ERR_IO names what can
 * not be read or written. With STORE_SET_ASIDE, reterr-like detail is in ret_reason
 * (ERR_TEXT_BYTES), for a foreign state starting with the field that differs. `wake` (may be NULL)
 * is called by the flusher thread when a checkpoint has ended; it must not call the store and must
 * not block.
 */
enum err_code store_open(const struct store_config *config, const struct store_identity *identity,
                         void (*wake)(void *arg), void *wake_arg, struct store **ret_store,
                         enum store_condition *ret_condition, char *ret_reason,
                         struct err *reterr) MUSTCHECK;

/* Waits for a running checkpoint; drops the live map (and a frozen one whose checkpoint failed);
 * marks the state cleanly closed. NULL is fine. */
void store_close(struct store *store);

/* The positions of the last checkpoint that is on disk (T2 at rest). Valid until the next call.
 * Empty for a fresh store. */
const struct store_position *store_positions(struct store *store, size_t *ret_count);

/* Wall time of that checkpoint in ms; -1: there is none, or the state is from before that was kept.
 */
int64_t store_written_ms(struct store *store);

struct store_row { /* one row of a key; all borrowed */
    uint32_t root;
    const void *key;
    size_t key_bytes; /* any length below 4 GiB; 0 is an empty key */
    const void *subkey;
    size_t subkey_bytes; /* <= BATON_SUBKEY_BYTES_MAX */
};

/*
 * Reads. `alive_from_ms`: rows with a record time below it count as absent (state_ttl; INT64_MIN:
 * no limit). ERR_NOT_FOUND is the normal answer for "no such row" (reterr untouched). ERR_CORRUPT:
 * checksum, or a collision of hashes; the caller closes the store with store_set_aside. The value
 * is valid until the next call on this store, and may be the argument of that call when it is a
 * put.
 */
enum err_code store_get(struct store *store, struct store_row row, int64_t alive_from_ms,
                        const void **ret_value, size_t *ret_bytes, struct err *reterr) MUSTCHECK;
/* `bytes` <= BATON_STATE_VALUE_BYTES_MAX. */
void store_put(struct store *store, struct store_row row, int64_t record_time_ms, const void *value,
               size_t bytes);
void store_delete(struct store *store, struct store_row row);

/* All rows of the key (its subkey is not looked at) in the order of subkeys (bytewise); `visit`
 * returns false to stop and must not call the store. What it is given is valid until the next call
 * on this store. */
enum err_code store_iterate(struct store *store, struct store_row key, int64_t alive_from_ms,
                            bool (*visit)(void *arg, const void *subkey, size_t subkey_bytes,
                                          const void *value, size_t value_bytes),
                            void *arg, struct err *reterr) MUSTCHECK;

/* True when the live map is over cache_bytes_max: commit and freeze soon. */
bool store_is_full(const struct store *store);
int64_t store_live_bytes(const struct store *store);

/*
 * Freezes the live map as the effect of exactly the records before `positions` (all partitions of
 * the read set, each once). Call only just after a Kafka commit (or, silent, at a record boundary).
 * Returns false, and does nothing, while the last checkpoint is still being written or has failed.
 */
bool store_freeze(struct store *store, const struct store_position *positions,
                  size_t count) MUSTCHECK;

/*
 * The partition has left, by a split: its rows stay as they are before this position, which goes
 * with the next freeze. So whoever gets the partition can still learn it from here, until its rows
 * are removed (store_tell_owners).
 *
 * More of its keys' records may lie in ancestors of it that are still read, and from now on they
 * are passed there. With left_whole there are none: all that was to be applied is. Without it, and
 * of a partition that is gone from the read set when the store is opened, the position is given up
 * as soon as one of those ancestors goes on: from there the rows lack what was passed.
 */
void store_leave(struct store *store, const struct store_position *position);

enum store_flush { STORE_FLUSH_IDLE, STORE_FLUSH_RUNNING, STORE_FLUSH_FAILED };
/*
 * FAILED (disk full, I/O, limit of the map): text in reterr; the frozen map is kept, read from, and
 * tried again at the next store_flush_retry. With reterr->fatal a retry can not help: close the
 * store and open it again. ERR_CORRUPT: as for reads. Also lets the map grow when the flusher waits
 * for that, so call it (or store_flush_wait) after `wake`.
 */
enum store_flush store_flush_state(struct store *store, struct err *reterr);
void store_flush_retry(struct store *store);
/* Waits for the running checkpoint up to deadline_mono_ms; ERR_TIMEOUT, or the flush's error. */
enum err_code store_flush_wait(struct store *store, int64_t deadline_mono_ms,
                               struct err *reterr) MUSTCHECK;

/*
 * Drops what was not frozen, waits for the running checkpoint. store_positions is then where the
 * replay starts. When the checkpoint fails, or had failed, the live map is dropped all the same and
 * the error is returned: retry the flush and call again, or close the store, which gives up the
 * frozen map too.
 */
enum err_code store_drop_live(struct store *store, struct err *reterr) MUSTCHECK;

/* Closes and renames the directory to <directory>.aside-<n>: corrupt state is kept for inspection
 * (the reason is in its file `reason`) and never served. The store is gone afterwards, also on
 * failure. */
enum err_code store_set_aside(struct store *store, const char *reason,
                              struct err *reterr) MUSTCHECK;

/*
 * What splits have left behind (store_garbage.c): rows that belong to processors up to
 * owners->map.processors.now, which have all they need, are removed little by little. Whatever is
 * told holds until it is told anew.
 */
void store_tell_owners(struct store *store, const struct store_owners *owners);
/*
 * Goes on with that when it is due: one step of the flusher thread, a few milliseconds, and a pause
 * after it. Call each turn; never blocks. ERR_CORRUPT: a row is damaged, as for reads. What else
 * fails is tried again later, and the next checkpoint tells of it.
 */
enum err_code store_remove_garbage(struct store *store, int64_t now_mono_ms,
                                   struct err *reterr) MUSTCHECK;
/* Rows removed since the store was opened, and whether there may be more. */
void store_count_garbage(struct store *store, uint64_t *ret_removed, bool *ret_pending);

/* Rows on disk and bytes used, as of the last checkpoint; for metrics and reports. */
void store_size(struct store *store, uint64_t *ret_rows, uint64_t *ret_bytes);

/* Of a record, for the lineage; the same on every host and in every version. NULL differs from
 * empty. */
uint64_t store_fingerprint(const void *key, size_t key_bytes, const void *value, size_t value_bytes,
                           int64_t timestamp_ms);

struct store_kept { /* a state that no task uses; all borrowed */
    const char *job, *job_incarnation;
    uint32_t processor;
    const struct store_position *positions; /* T2 at rest */
    size_t position_count;
};

struct store_kept_visitor {
    void (*found)(void *arg, const struct store_kept *kept);
    void (*skipped)(void *arg, const char *directory, const char *reason);
    void *arg;
};

/*
 * What earlier runs left under state_dir, which is locked, while no store in it is open: every
 * state that store_open could serve, as far as its meta record tells, and why each other one is not
 * among them. Only reads, and maps nothing, so that no damaged file can end the process; a few
 * pages of each, so that large states do not hold up the start. What was set aside before is passed
 * over.
 */
void store_list_kept(const char *state_dir, const char *boot_id,
                     const struct store_kept_visitor *visitor);

/* What is to be dropped; the functions are called while it is. */
struct store_expire {
    const char *state_dir;
    int64_t now_at; /* wall time, which outlives starts as the files' times do */
    int64_t age_ms; /* above 0: what was used since then stays */
    /* The agent shall have it: it stays, even when no task has it open at the moment. */
    bool (*wanted)(void *arg, const char *job, uint32_t processor);
    void (*dropped)(void *arg, const char *directory, int64_t idle_ms, uint64_t bytes);
    void (*failed)(void *arg, const char *directory, const char *reason); /* the others go on */
    void *arg;
};

/*
 * Drops each state under state_dir, which is locked, that is neither wanted nor open, and each that
 * was set aside, when it was used last (written, closed, set aside, copied here) longer than age_ms
 * ago. What is no state stays. Any thread; a store_open of the same directory at the same time
 * fails with ERR_LOCKED or ERR_IO, or starts fresh.
 */
void store_expire(const struct store_expire *order);

/* Locks a whole state_dir for this agent (flock on state_dir/agent.lock, holding agent id and pid),
 * creating it (0700) when absent; fd or an error that names the holder. ERR_FOREIGN when the
 * directory was made by another agent id. Keep the fd open while running. */
enum err_code store_lock_directory(const char *state_dir, const char *agent_id, int *ret_fd,
                                   struct err *reterr) MUSTCHECK;

#endif
