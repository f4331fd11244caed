/*
 * Rows that a split has left behind (D3.10): they are another processor's now, nobody reaches them
 * here, and they take up room. Nothing depends on their being gone, so they go when it costs
 * nobody anything: a few at a time, in commits of their own between two checkpoints, a small share
 * of the time. What has been looked at is in the meta record, so a start goes on where the last
 * run has stopped; and once all has been looked at the record says for how many processors that
 * holds, so nothing is looked at until this one is split again.
 *
 *   owner:   store_tell_owners .. store_remove_garbage --request--> step --wake--> ... (pause)
 *
 * LMDB uses the pages that become free again for what is written later; the file does not shrink.
 */
#include "agent/store_internal.h"
#include "agent/store_owner.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"

#define STEP_ROWS_MAX  2000
#define STEP_MS_MAX    10
#define LOOK_ROWS      64 /* between two looks at the clock, unless they are large */
#define LOOK_BYTES     (UINT64_C(256) * 1024)
#define PAUSE_MS_MIN   20
#define PAUSE_SHARE    9 /* times what the step took: a tenth of the time at most */
#define RETRY_PAUSE_MS 60000

/* ---- one step; flusher thread */

struct step {
    struct store_commit commit;
    struct store_removal *removal;
    int64_t begun_ms;
    uint64_t unseen_rows, unseen_bytes; /* since the last look at the clock */
};

static bool is_over(struct step *step, uint64_t looked)
{
    if (looked >= step->removal->rows_max)
        return true;
    if (step->unseen_rows < LOOK_ROWS && step->unseen_bytes < LOOK_BYTES)
        return false;
    step->unseen_rows = step->unseen_bytes = 0;
    return atomic_load(&step->commit.store->flusher.hurry) ||
           clock_mono_ms() - step->begun_ms >= STEP_MS_MAX;
}

static enum err_code look_at(struct step *step, MDB_val key, MDB_val value)
{
    struct store_row_view view;
    enum err_code code = store_row_decode(key, value, &view, step->commit.reterr);

    step->unseen_rows++;
    step->unseen_bytes += key.mv_size + value.mv_size;
    if (code != ERR_NONE ||
        !store_owner_is_other(&step->removal->owners, step->commit.store->processor, &view.row))
        return code;
    step->removal->removed++;
    return store_commit_forget(&step->commit, view.checksum);
}

/* Leaves in `next` where the next step goes on. */
static enum err_code look_at_rows(struct step *step)
{
    struct store_meta *next = &step->commit.next;
    struct store_row_key *at = &next->removing;
    MDB_val key = {.mv_size = at->bytes, .mv_data = at->data}, value;
    int code = mdb_cursor_get(step->commit.cursor, &key, &value,
                              at->bytes == 0 ? MDB_FIRST : MDB_SET_RANGE);

    for (uint64_t looked = 0; code == 0 && !is_over(step, looked); looked++) {
        enum err_code result = look_at(step, key, value);

        if (result != ERR_NONE)
            return result;
        code = mdb_cursor_get(step->commit.cursor, &key, &value, MDB_NEXT);
    }
    if (code != 0 && code != MDB_NOTFOUND)
        return store_commit_error(&step->commit, code);
    at->bytes = 0;
    step->removal->done = code != 0;
    if (step->removal->done && step->removal->again) {
        next->removing_for = 0;
    } else if (step->removal->done) {
        next->clean_for = next->removing_for;
        next->synced = true; /* with all before: there may be no checkpoint for long */
    } else {
        assert(key.mv_size <= sizeof(at->data));
        memcpy(at->data, key.mv_data, key.mv_size);
        at->bytes = key.mv_size;
    }
    return ERR_NONE;
}

/* From here on nobody can learn from here what has left. free() */
static struct store_position *forget_left(struct store_meta *next, const struct step *step)
{
    const struct store_owners *owners = &step->removal->owners;
    struct store_position *kept = mem_calloc(next->position_count, sizeof(*kept));
    bool *read = mem_calloc(owners->map.partitions.now, sizeof(*read));
    size_t count = 0;

    store_owner_mark_read(owners, step->commit.store->processor, read);
    for (size_t i = 0; i < next->position_count; i++) {
        /* One that the count does not hold yet is newer than what was told. */
        if (next->positions[i].partition >= owners->map.partitions.now ||
            read[next->positions[i].partition])
            kept[count++] = next->positions[i];
    }
    free(read);
    next->positions = kept;
    next->position_count = count;
    return kept;
}

enum err_code store_garbage_step(struct store *store, struct err *reterr)
{
    struct store_removal *removal = &store->flusher.removal;
    struct step step = {.commit = {.store = store, .reterr = reterr},
                        .removal = removal,
                        .begun_ms = clock_mono_ms()};
    struct store_meta *next = &step.commit.next;
    struct store_position *positions = NULL;
    enum err_code code = store_commit_begin(&step.commit);

    if (code != ERR_NONE)
        return code;
    if (next->removing_for != removal->owners.map.processors.now) {
        next->removing_for = removal->owners.map.processors.now;
        next->removing.bytes = 0;
        positions = forget_left(next, &step);
    }
    code = store_commit_end(&step.commit, look_at_rows(&step));
    free(positions);
    removal->took_ms = clock_mono_ms() - step.begun_ms;
    return code;
}

/* ---- when; owner thread */

void store_tell_owners(struct store *store, const struct store_owners *owners)
{
    struct store_garbage *garbage = &store->garbage;
    uint32_t now = owners->map.processors.now;
    bool grown = now > garbage->owners.map.processors.now;

    store_follow_flusher(store);
    garbage->owners = *owners;
    if (now <= garbage->clean_for) { /* 0: a coordinator that knows nothing of it */
        garbage->pending = false;
        return;
    }
    if (!store_owner_has_split(owners, store->processor, garbage->clean_for)) {
        garbage->clean_for = now; /* with the next checkpoint on disk; else it is found again */
        garbage->pending = false;
        return;
    }
    garbage->pending = true;
    garbage->freeze_first = garbage->freeze_first || (grown && store->live->rows.count > 0);
    garbage->frozen_before = garbage->frozen_before || (grown && store->frozen != NULL);
}

/* A checkpoint that found no room is waited for by nobody, and what is removed makes room for it.
 * What was changed before the owners were told, it writes afterwards: then all is looked at anew
 * (store_checkpoint.c). */
static bool makes_room(const struct store *store)
{
    return store->flush_failed && store->flush_error.detail == MDB_MAP_FULL;
}

static bool is_due(struct store *store, int64_t now_mono_ms)
{
    const struct store_garbage *garbage = &store->garbage;

    if (!garbage->pending || garbage->running || store->broken ||
        garbage->owners.map.processors.now == 0 || now_mono_ms < garbage->due_mono_ms)
        return false;
    return store->frozen == NULL ? !garbage->freeze_first : makes_room(store);
}

enum err_code store_remove_garbage(struct store *store, int64_t now_mono_ms, struct err *reterr)
{
    struct store_garbage *garbage = &store->garbage;

    store_follow_flusher(store);
    if (garbage->corrupt) {
        if (reterr != NULL)
            *reterr = garbage->error;
        return ERR_CORRUPT;
    }
    if (!is_due(store, now_mono_ms))
        return ERR_NONE;
    atomic_store(&store->flusher.hurry, false);
    store->flusher.removal = (struct store_removal){
        .owners = garbage->owners,
        .rows_max = STEP_ROWS_MAX >> garbage->halvings,
        .again = garbage->freeze_first || garbage->frozen_before,
    };
    garbage->running = true;
    store_flush_request(store, FLUSH_REMOVAL);
    return ERR_NONE;
}

/* A page that is changed is copied first, so even removing needs room; fewer rows need less. */
static void make_room(struct store *store)
{
    struct store_garbage *garbage = &store->garbage;
    const uint64_t before = store->map_bytes;

    if (store_env_grow(store, before * 2, NULL) == ERR_NONE && store->map_bytes > before) {
        garbage->due_mono_ms = 0;
    } else if (STEP_ROWS_MAX >> (garbage->halvings + 1) > 0) {
        garbage->halvings++;
        garbage->due_mono_ms = 0;
    }
}

void store_garbage_took(struct store *store)
{
    const struct store_removal *removal = &store->flusher.removal;
    const struct store_flush_outcome *outcome = &store->flusher.outcome;
    struct store_garbage *garbage = &store->garbage;
    int64_t pause_ms = removal->took_ms * PAUSE_SHARE;

    garbage->running = false;
    store_env_rest(store); /* what it sees would not be used again */
    if (outcome->code == ERR_NONE) {
        garbage->removed += removal->removed;
        garbage->clean_for = store->meta.clean_for;
        garbage->pending = garbage->clean_for < garbage->owners.map.processors.now;
        garbage->halvings = 0;
        if (pause_ms < PAUSE_MS_MIN)
            pause_ms = PAUSE_MS_MIN;
        /* What is looked at again waits for the checkpoint. */
        garbage->due_mono_ms =
            clock_mono_ms() + (removal->done && removal->again ? RETRY_PAUSE_MS : pause_ms);
        store->rows = store->meta.rows;
        store->file_bytes = outcome->file_bytes;
        return;
    }
    garbage->due_mono_ms = clock_mono_ms() + RETRY_PAUSE_MS;
    if (outcome->code == ERR_LIMIT)
        make_room(store);
    garbage->corrupt = outcome->code == ERR_CORRUPT;
    garbage->error = outcome->error;
    store->broken = store->broken || outcome->error.fatal;
}

void store_count_garbage(struct store *store, uint64_t *ret_removed, bool *ret_pending)
{
    store_follow_flusher(store);
    *ret_removed = store->garbage.removed;
    *ret_pending = store->garbage.pending;
}
