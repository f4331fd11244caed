#include "agent/store_internal.h"
#include "agent/store_view.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/processor.h"
#include "common/mem.h"

#define CACHE_BYTES_MIN ((int64_t)64 * 1024)
#define MAP_BYTES_MIN   ((int64_t)1024 * 1024)

/* ---- opening ----------------------------------------------------------------------------------
 */

static void first_meta(struct store *store, const struct store_identity *identity)
{
    store->meta = (struct store_meta){.format = STORE_FORMAT,
                                      .processor = identity->processor,
                                      .clean = true,
                                      .synced = true,
                                      .cluster = mem_strdup(identity->cluster),
                                      .job = mem_strdup(identity->job),
                                      .job_incarnation = mem_strdup(identity->job_incarnation),
                                      .logic = mem_strdup(identity->logic),
                                      .boot_id = mem_strdup(identity->boot_id)};
}

static enum err_code create_fresh(struct store *store, const struct store_identity *identity,
                                  struct err *reterr)
{
    enum err_code code;

    first_meta(store, identity);
    code = store_env_create(store, reterr);
    return code == ERR_NONE ? store_env_open(store, reterr) : code;
}

/* What an assertion of LMDB left behind. */
enum err_code store_judge_suspect(const char *directory, struct err *reterr)
{
    char *path = store_dir_path(directory, STORE_SUSPECT_FILE);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[256];
    ssize_t bytes;

    free(path);
    if (fd < 0)
        return ERR_NONE;
    bytes = read(fd, text, sizeof(text) - 1);
    (void)close(fd); /* only read from */
    text[bytes < 0 ? 0 : bytes] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return err_set(reterr, ERR_CORRUPT, "an earlier run found it damaged: %s", text);
}

/*
 * Pages that were not synced may be lost, some and not others, when the machine went down. What was
 * cleanly closed is synced.
 */
enum err_code store_judge_trust(const struct store_meta *meta, const char *boot_id,
                                struct err *reterr)
{
    if (meta->synced || strcmp(meta->boot_id, boot_id) == 0)
        return ERR_NONE;
    return err_set(reterr, ERR_CORRUPT,
                   "not closed cleanly before the machine went down, and its last checkpoint was "
                   "not synced");
}

/* ERR_NOT_FOUND: there is nothing. ERR_CORRUPT, ERR_FOREIGN, ERR_UNSUPPORTED: not to be served. */
static enum err_code open_kept(struct store *store, const struct store_identity *identity,
                               struct err *reterr)
{
    char *path = store_dir_path(store->directory, STORE_DATA_FILE);
    enum err_code code = store_judge_suspect(store->directory, reterr);

    if (code == ERR_NONE)
        code = store_check_file(path, &store->meta, reterr);
    free(path);
    if (code == ERR_NONE)
        code = store_meta_judge(&store->meta, identity, reterr);
    if (code == ERR_NONE)
        code = store_judge_trust(&store->meta, identity->boot_id, reterr);
    if (code != ERR_NONE)
        return code;
    free(store->meta.boot_id); /* of the next commit */
    store->meta.boot_id = mem_strdup(identity->boot_id);
    return store_env_open(store, reterr);
}

/* The lock is on a file inside the directory, so it moves along and a new directory needs a new
 * one. */
static enum err_code start_over(struct store *store, const char *reason, struct err *reterr)
{
    enum err_code code;
    int fd;

    store_env_close(store);
    store_meta_finish(&store->meta);
    code = store_dir_set_aside(store->directory, reason, reterr);
    if (code == ERR_NONE)
        code = store_dir_create(store->directory, reterr);
    if (code == ERR_NONE)
        code = store_dir_lock(store->directory, &fd, reterr);
    if (code != ERR_NONE)
        return code;
    (void)close(store->lock_fd); /* of what was set aside */
    store->lock_fd = fd;
    return ERR_NONE;
}

static enum err_code open_state(struct store *store, const struct store_identity *identity,
                                enum store_condition *ret_condition, char *ret_reason,
                                struct err *reterr)
{
    enum store_condition condition = STORE_FRESH;
    struct err found = {0};
    enum err_code code = open_kept(store, identity, &found);

    switch (code) {
    case ERR_NONE:
        *ret_condition = store->meta.sequence > 0 ? STORE_KEPT : STORE_FRESH;
        return ERR_NONE;
    case ERR_NOT_FOUND:
        break;
    case ERR_CORRUPT:
    case ERR_FOREIGN:
    case ERR_UNSUPPORTED:
        condition = STORE_SET_ASIDE;
        code = start_over(store, found.text, reterr);
        if (code != ERR_NONE) {
            (void)err_prefix(reterr, "setting aside (%s)", found.text);
            return code;
        }
        break;
    default:
        if (reterr != NULL)
            *reterr = found;
        return code;
    }
    code = create_fresh(store, identity, reterr);
    if (code != ERR_NONE)
        return code;
    *ret_condition = condition;
    if (condition == STORE_SET_ASIDE && ret_reason != NULL)
        (void)snprintf(ret_reason, ERR_TEXT_BYTES, "%s", found.text); /* as long as err's text */
    return ERR_NONE;
}

/* Ends everything but the directory; the flusher has stopped. */
static void free_store(struct store *store)
{
    store_env_close(store);
    store_map_clear(&store->maps[0]);
    store_map_clear(&store->maps[1]);
    store_meta_finish(&store->meta);
    free(store->flusher.job.positions);
    free(store->positions);
    free(store->left);
    free(store->directory);
    if (store->lock_fd >= 0)
        (void)close(store->lock_fd); /* the lock ends with it */
    store_share_release(store->share);
    free(store);
}

static struct store *create_store(const struct store_config *config, void (*wake)(void *arg),
                                  void *wake_arg)
{
    struct store *store = mem_calloc(1, sizeof(*store));

    assert(config->cache_bytes_max >= CACHE_BYTES_MIN);
    assert(config->map_bytes_max >= MAP_BYTES_MIN);
    assert(config->state_ttl_ms >= 0);
    store->directory = mem_strdup(config->directory);
    store->cache_bytes_max = config->cache_bytes_max;
    store->map_bytes_max = config->map_bytes_max;
    store->sync = config->sync;
    store->state_ttl_ms = config->state_ttl_ms;
    store->garbage.owners = config->owners;
    store->wake = wake;
    store->wake_arg = wake_arg;
    store->lock_fd = -1;
    store->share = store_share_create();
    store_map_init(&store->maps[0]);
    store->maps[1] = store->maps[0]; /* empty, with the same seed */
    store->live = &store->maps[0];
    return store;
}

static void adopt_positions(struct store *store, const struct store_position *positions,
                            size_t count)
{
    free(store->positions);
    store->positions = mem_memdup(positions, count * sizeof(*positions));
    store->position_count = count;
}

enum err_code store_open(const struct store_config *config, const struct store_identity *identity,
                         void (*wake)(void *arg), void *wake_arg, struct store **ret_store,
                         enum store_condition *ret_condition, char *ret_reason, struct err *reterr)
{
    struct store *store = create_store(config, wake, wake_arg);
    enum store_condition condition = STORE_FRESH;
    enum err_code code = store_dir_create(store->directory, reterr);

    if (code == ERR_NONE)
        code = store_dir_lock(store->directory, &store->lock_fd, reterr);
    store->processor = identity->processor;
    if (code == ERR_NONE)
        code = open_state(store, identity, &condition, ret_reason, reterr);
    if (code == ERR_NONE)
        code = store_flush_start(store, reterr);
    if (code != ERR_NONE) {
        free_store(store);
        return code;
    }
    adopt_positions(store, store->meta.positions, store->meta.position_count);
    store->rows = store->meta.rows;
    store->written_ms = store->meta.sequence > 0 ? store->meta.written_ms : -1;
    store->garbage.clean_for =
        store->meta.sequence > 0 ? store->meta.clean_for : config->owners.map.processors.now;
    store_tell_owners(store, &config->owners);
    *ret_condition = condition;
    *ret_store = store;
    return ERR_NONE;
}

/* ---- checkpoints ------------------------------------------------------------------------------
 */

static void drop_frozen(struct store *store)
{
    store_map_clear(store->frozen);
    store->frozen = NULL;
}

/* The view of LMDB goes before the map that hid what is old in it (store_read.c). */
static void take_success(struct store *store)
{
    store_env_rest(store);
    drop_frozen(store);
    if (store->garbage.frozen_before)
        store->garbage.due_mono_ms = 0;
    store->garbage.frozen_before = false;
    adopt_positions(store, store->flusher.job.positions, store->flusher.job.position_count);
    store->rows = store->meta.rows;
    store->written_ms = store->meta.sequence > 0 ? store->meta.written_ms : -1;
    store->file_bytes = store->flusher.outcome.file_bytes;
}

/* LMDB calls a write that was cut short an I/O error, and the usual cause is a full disk. */
static void add_free_space(struct store *store, struct err *error)
{
    const struct err before = *error;
    struct statvfs status;

    if (error->code != ERR_IO || statvfs(store->directory, &status) != 0)
        return;
    (void)err_set(error, ERR_IO, "%s (%" PRIu64 " bytes are free there)", before.text,
                  (uint64_t)status.f_bavail * status.f_frsize);
    error->retriable = before.retriable;
    error->fatal = before.fatal;
    error->detail = before.detail;
}

static void take_failure(struct store *store, const struct err *error)
{
    store->flush_failed = true;
    store->flush_error = *error;
    add_free_space(store, &store->flush_error);
    (void)err_prefix(&store->flush_error, "checkpoint of %s", store->directory);
    if (store->flush_error.fatal)
        store->broken = true;
}

/* Twice the map, up to the limit: the flusher is idle and the reader rests, so it may move. */
static void take_full_map(struct store *store)
{
    const uint64_t before = store->map_bytes;
    struct err error = {0};

    store_env_rest(store);
    if (store_env_grow(store, before * 2, &error) != ERR_NONE) {
        take_failure(store, &error);
        return;
    }
    if (store->map_bytes > before) {
        store_flush_request(store, FLUSH_CHECKPOINT);
        return;
    }
    (void)err_set(&error, ERR_IO,
                  "the state needs more than the agent's option state_bytes_max (%" PRId64
                  " bytes): raise it and restart the agent, or give the job more processors "
                  "(POST /v1/jobs/{job}/expansions)",
                  store->map_bytes_max);
    error.detail = MDB_MAP_FULL;
    take_failure(store, &error);
}

/*
 * What the checkpoint can need at most, roughly: a copy of every page there is, the new rows with
 * half-filled pages and their keys, and the list of free pages. A guess that is too small costs a
 * second try, not the checkpoint.
 */
static void make_room(struct store *store)
{
    const uint64_t slack_bytes = UINT64_C(16) * 1024 * 1024;
    const uint64_t wanted =
        2 * store->file_bytes + 4 * (uint64_t)store_map_bytes(store->frozen) + slack_bytes;

    if (wanted > store->map_bytes && store_env_grow(store, wanted * 2, NULL) != ERR_NONE)
        assert(store->broken); /* the checkpoint says so */
}

/* The flusher is idle. */
static void request_checkpoint(struct store *store)
{
    struct err error = {0};

    store_env_rest(store);
    make_room(store);
    if (store->broken) {
        (void)err_set(&error, ERR_IO, "the state's file can no longer be used: open it again");
        error.fatal = true;
        take_failure(store, &error);
        return;
    }
    store->flusher.job.clean_for = store->garbage.clean_for;
    store->flusher.job.keeps_left = store->garbage.owners.map.processors.now > 0;
    store->flusher.job.partitions_initial = store->garbage.owners.map.partitions.initial;
    store->flusher.job.looks_anew = store->garbage.frozen_before;
    store_flush_request(store, FLUSH_CHECKPOINT);
}

void store_follow_flusher(struct store *store)
{
    if (store->garbage.running) {
        if (!store_flush_take(store))
            return;
        store_garbage_took(store);
        if (store->frozen != NULL && !store->flush_failed)
            request_checkpoint(store); /* it has waited for that */
        return;
    }
    if (store->frozen == NULL || store->flush_failed || !store_flush_take(store))
        return;
    if (store->flusher.outcome.code == ERR_NONE)
        take_success(store);
    else if (store->flusher.outcome.code == ERR_LIMIT)
        take_full_map(store);
    else
        take_failure(store, &store->flusher.outcome.error);
}

/* Those of what has left as well. */
static void take_positions(struct store *store, const struct store_position *positions,
                           size_t count)
{
    struct store_flush_job *job = &store->flusher.job;

    free(job->positions);
    job->map = store->frozen;
    job->read_count = count;
    job->position_count = count + store->left_count;
    job->positions = mem_calloc(job->position_count, sizeof(*positions));
    for (size_t i = 0; i < count; i++) {
        job->positions[i] = positions[i];
        job->positions[i].left_whole = false;
    }
    for (size_t i = 0; i < store->left_count; i++)
        job->positions[count + i] = store->left[i];
    store->left_count = 0;
}

void store_leave(struct store *store, const struct store_position *position)
{
    assert(position->next_offset >= 0);
    store->left = mem_realloc(store->left, store->left_count + 1, sizeof(*store->left));
    store->left[store->left_count++] = *position;
}

bool store_freeze(struct store *store, const struct store_position *positions, size_t count)
{
    store_follow_flusher(store);
    if (store->frozen != NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        assert(positions[i].next_offset >= 0);
        assert(positions[i].record_time_ms >= -1);
    }
    store->frozen = store->live;
    store->live = store->frozen == &store->maps[0] ? &store->maps[1] : &store->maps[0];
    store->garbage.frozen_before = store->garbage.freeze_first;
    store->garbage.freeze_first = false;
    take_positions(store, positions, count);
    if (store->garbage.running)
        atomic_store(&store->flusher.hurry, true);
    else
        request_checkpoint(store);
    return true;
}

enum store_flush store_flush_state(struct store *store, struct err *reterr)
{
    store_follow_flusher(store);
    if (store->frozen == NULL)
        return STORE_FLUSH_IDLE;
    if (!store->flush_failed)
        return STORE_FLUSH_RUNNING;
    if (reterr != NULL)
        *reterr = store->flush_error;
    return STORE_FLUSH_FAILED;
}

void store_flush_retry(struct store *store)
{
    store_follow_flusher(store);
    if (!store->flush_failed || store->broken)
        return;
    store->flush_failed = false;
    if (store->garbage.running)
        atomic_store(&store->flusher.hurry, true);
    else
        request_checkpoint(store);
}

enum err_code store_flush_wait(struct store *store, int64_t deadline_mono_ms, struct err *reterr)
{
    for (;;) {
        enum store_flush state = store_flush_state(store, reterr);

        if (state == STORE_FLUSH_IDLE)
            return ERR_NONE;
        if (state == STORE_FLUSH_FAILED)
            return store->flush_error.code;
        if (!store_flush_await(store, deadline_mono_ms))
            return err_set(reterr, ERR_TIMEOUT, "the checkpoint of %s is still being written",
                           store->directory);
    }
}

enum err_code store_drop_live(struct store *store, struct err *reterr)
{
    store_map_clear(store->live);
    store->left_count = 0; /* the rows are as they were before */
    return store_flush_wait(store, INT64_MAX, reterr);
}

/* ---- closing ----------------------------------------------------------------------------------
 */

/* What can not be written now is replayed after the next start, from the positions before it. */
static void stop_writing(struct store *store)
{
    while (store_flush_state(store, NULL) == STORE_FLUSH_RUNNING)
        (void)store_flush_await(store, INT64_MAX); /* without a deadline it has ended */
    store_flush_stop(store);
    store_env_rest(store);
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    stop_writing(store);
    if (!store->broken)
        store_checkpoint_mark_clean(store);
    free_store(store);
}

enum err_code store_set_aside(struct store *store, const char *reason, struct err *reterr)
{
    char *directory = mem_strdup(store->directory);
    enum err_code code;

    stop_writing(store);
    store_env_close(store);
    /* Renamed while the lock is held, so nobody else has begun to use it. */
    code = store_dir_set_aside(directory, reason, reterr);
    free_store(store);
    free(directory);
    return code;
}

/* ---- rows and numbers -------------------------------------------------------------------------
 */

void store_put(struct store *store, struct store_row row, int64_t record_time_ms, const void *value,
               size_t bytes)
{
    assert(row.key_bytes <= UINT32_MAX);
    assert(row.subkey_bytes <= BATON_SUBKEY_BYTES_MAX);
    assert(bytes <= BATON_STATE_VALUE_BYTES_MAX);
    store_map_put(store->live, &row, store_map_hash(store->live, &row), record_time_ms, value,
                  bytes);
}

void store_delete(struct store *store, struct store_row row)
{
    assert(row.key_bytes <= UINT32_MAX);
    assert(row.subkey_bytes <= BATON_SUBKEY_BYTES_MAX);
    store_map_delete(store->live, &row, store_map_hash(store->live, &row));
}

const struct store_position *store_positions(struct store *store, size_t *ret_count)
{
    store_follow_flusher(store);
    *ret_count = store->position_count;
    return store->positions;
}

int64_t store_written_ms(struct store *store)
{
    store_follow_flusher(store);
    return store->written_ms;
}

void store_size(struct store *store, uint64_t *ret_rows, uint64_t *ret_bytes)
{
    store_follow_flusher(store);
    *ret_rows = store->rows;
    *ret_bytes = store->file_bytes;
}

bool store_is_full(const struct store *store)
{
    return store_live_bytes(store) > store->cache_bytes_max;
}

int64_t store_live_bytes(const struct store *store)
{
    return (int64_t)store_map_bytes(store->live);
}
