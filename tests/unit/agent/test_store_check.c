/*
 * Damage to the data file of a closed store: flipped bytes on every page, cuts, missing records.
 * What comes out must be the right content or a state set aside, and the process must live.
 */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/store_page.h"
#include "common/mem.h"

#define PAGE_BYTES   4096
#define FILLER_ROWS  1000
#define FILLER_BYTES 240 /* of a key, so that the tree gets three levels */
#define LAST_OFFSET  4

static struct store_fixture fixture;
static struct model model;
static char pristine[160]; /* a copy of the data file */
static int64_t file_bytes;

static struct store_row filler_row(int number, char key[FILLER_BYTES + 1])
{
    snprintf(key, FILLER_BYTES + 1, "%08d-%0*d", (int)((uint32_t)number * 2654435761u % 100000000),
             FILLER_BYTES - 9, number);
    return (struct store_row){.root = 2, .key = key, .key_bytes = FILLER_BYTES};
}

static void put_fillers(int first, int step, const char *value)
{
    char key[FILLER_BYTES + 1];

    for (int i = first; i < FILLER_ROWS; i += step)
        store_put(fixture.store, filler_row(i, key), 0, value, strlen(value));
}

/* A file with all there can be: branch pages in three levels, overflow pages, several records of
 * free pages, long keys, deleted rows. */
static void make_state(void)
{
    struct rng rng;

    rng_init(&rng, 11);
    fixture_open(&fixture, STORE_FRESH);
    put_fillers(0, 1, "1");
    for (int index = 0; index < MODEL_ROWS; index++)
        model_put(&model, fixture.store, index, (uint32_t)index, 0);
    fixture_checkpoint(&fixture, 1);
    put_fillers(0, 2, "22");
    fixture_checkpoint(&fixture, 2);
    put_fillers(0, 3, "333");
    for (int i = 0; i < MODEL_ROWS; i++)
        model_put(&model, fixture.store, (int)rng_below(&rng, MODEL_ROWS), 100 + (uint32_t)i, 0);
    fixture_checkpoint(&fixture, 3);
    for (int index = 0; index < MODEL_ROWS; index += 5)
        model_delete(&model, fixture.store, index);
    fixture_checkpoint(&fixture, LAST_OFFSET);
    fixture_close(&fixture);
}

static const char *filler_value(int number)
{
    return number % 3 == 0 ? "333" : number % 2 == 0 ? "22" : "1";
}

static void setup(void)
{
    struct stat status;

    fixture_init(&fixture);
    make_state();
    snprintf(pristine, sizeof(pristine), "%s/pristine", fixture.root);
    fixture_copy_file(fixture.data_path, pristine);
    cr_assert_eq(stat(pristine, &status), 0);
    file_bytes = status.st_size;
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store_check, .init = setup, .fini = teardown, .timeout = 110);

/* ---- one trial --------------------------------------------------------------------------------
 */

/* As exit codes: none that a sanitizer or a signal would give. */
enum verdict { SAME = 40, DETECTED, WRONG, CRASHED };

static enum verdict compare_fillers(char what[WHAT_BYTES])
{
    char key[FILLER_BYTES + 1];

    for (int i = 0; i < FILLER_ROWS; i++) {
        const void *value = NULL;
        size_t bytes = 0;
        enum err_code code =
            store_get(fixture.store, filler_row(i, key), INT64_MIN, &value, &bytes, NULL);

        if (code == ERR_CORRUPT)
            return DETECTED;
        if (code != ERR_NONE || bytes != strlen(filler_value(i)) ||
            memcmp(value, filler_value(i), bytes) != 0) {
            snprintf(what, WHAT_BYTES, "filler %d: %s", i, err_name(code));
            return WRONG;
        }
    }
    return SAME;
}

static enum verdict compare_all(char what[WHAT_BYTES])
{
    enum err_code code = model_compare(&model, fixture.store, INT64_MIN, what);

    if (code == ERR_NONE)
        return compare_fillers(what);
    return code == ERR_CORRUPT ? DETECTED : WRONG;
}

/* Opens, compares, writes two checkpoints (which take pages from the list of free ones), opens
 * again and compares again. In a child. */
static enum verdict use_state(char what[WHAT_BYTES])
{
    struct err error = {0};
    enum verdict verdict;

    if (fixture_try_open(&fixture, &error) != ERR_NONE) {
        snprintf(what, WHAT_BYTES, "open: %s", error.text);
        return WRONG;
    }
    if (fixture.condition == STORE_SET_ASIDE)
        return DETECTED;
    snprintf(what, WHAT_BYTES, "condition %d, offset %" PRId64, fixture.condition,
             fixture_offset(&fixture));
    if (fixture.condition != STORE_KEPT || fixture_offset(&fixture) != LAST_OFFSET)
        return WRONG;
    verdict = compare_all(what);
    if (verdict != SAME)
        return verdict;
    for (int i = 0; i < 3; i++) {
        put_fillers(0, 1, i < 2 ? "changed" : "");
        for (int number = 0; i == 2 && number < FILLER_ROWS; number++) {
            char key[FILLER_BYTES + 1];

            store_put(fixture.store, filler_row(number, key), 0, filler_value(number),
                      strlen(filler_value(number)));
        }
        fixture_freeze(&fixture, LAST_OFFSET + 1 + i);
        if (store_flush_wait(fixture.store, INT64_MAX, &error) != ERR_NONE) {
            snprintf(what, WHAT_BYTES, "flush: %s", error.text);
            return error.code == ERR_CORRUPT ? DETECTED : WRONG;
        }
    }
    store_close(fixture.store);
    fixture.store = NULL;
    if (fixture_try_open(&fixture, &error) != ERR_NONE || fixture.condition != STORE_KEPT) {
        snprintf(what, WHAT_BYTES, "second open: %s", fixture.reason);
        return WRONG;
    }
    return compare_all(what);
}

static enum verdict try_in_child(void)
{
    const pid_t child = fork();
    int status;

    cr_assert_geq(child, 0);
    if (child == 0) {
        char what[WHAT_BYTES] = "";
        enum verdict verdict = use_state(what);

        if (verdict == WRONG)
            dprintf(STDERR_FILENO, "%s\n", what);
        _exit((int)verdict);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) < SAME || WEXITSTATUS(status) > WRONG)
        return CRASHED;
    return (enum verdict)WEXITSTATUS(status);
}

/* A state that was set aside took its directory along; the trial goes on in the new one. */
static void restore(void)
{
    char aside[160];

    snprintf(aside, sizeof(aside), "%s.aside-1", fixture.directory);
    if (fixture_exists(aside))
        fixture_remove_tree(aside);
    fixture_copy_file(pristine, fixture.data_path);
}

static void flip(int64_t offset, unsigned char mask)
{
    const int fd = open(fixture.data_path, O_RDWR | O_CLOEXEC);
    unsigned char byte;

    cr_assert_geq(fd, 0);
    cr_assert_eq(pread(fd, &byte, 1, offset), 1);
    byte ^= mask;
    cr_assert_eq(pwrite(fd, &byte, 1, offset), 1);
    cr_assert_eq(close(fd), 0);
}

/* ---- flipped bytes ----------------------------------------------------------------------------
 */

struct tally {
    int trials, same, detected;
};

static void try_flip(struct tally *tally, int64_t offset, unsigned char mask)
{
    enum verdict verdict;

    restore();
    flip(offset, mask);
    verdict = try_in_child();
    cr_assert(verdict == SAME || verdict == DETECTED,
              "byte %" PRId64 " of page %" PRId64 " ^ %d: %s", offset % PAGE_BYTES,
              offset / PAGE_BYTES, mask, verdict == CRASHED ? "crashed" : "wrong content");
    tally->trials++;
    tally->same += verdict == SAME;
    tally->detected += verdict == DETECTED;
}

static unsigned char random_mask(struct rng *rng)
{
    /* Half of them a single bit, which is what wears out first. */
    if (rng_below(rng, 2) == 0)
        return (unsigned char)(1u << rng_below(rng, 8));
    return (unsigned char)(1 + rng_below(rng, 255));
}

/* Through everything: open, read, write, open again, in a child. The header of each page once, and
 * one byte anywhere. */
Test(store_check, a_flipped_byte_on_any_page_is_detected_or_harmless)
{
    struct tally tally = {0};
    struct rng rng;

    rng_init(&rng, 2026);
    for (int64_t page = 0; page < file_bytes / PAGE_BYTES; page += page < 12 ? 1 : 4) {
        const int64_t start = page * PAGE_BYTES;

        try_flip(&tally, start + (int64_t)rng_below(&rng, 24), random_mask(&rng));
        try_flip(&tally, start + (int64_t)rng_below(&rng, PAGE_BYTES), random_mask(&rng));
    }
    cr_log_info("%d trials: %d detected, %d harmless", tally.trials, tally.detected, tally.same);
    cr_assert_gt(tally.detected, tally.trials / 5);
}

/* Both meta pages byte by byte: LMDB starts from them. */
Test(store_check, a_flipped_byte_of_a_meta_page_is_detected_or_harmless)
{
    struct tally tally = {0};
    struct rng rng;

    rng_init(&rng, 5);
    for (int page = 0; page < 2; page++) {
        for (int at = 0; at < (int)sizeof(struct meta_page); at++)
            try_flip(&tally, page * PAGE_BYTES + at, random_mask(&rng));
    }
    cr_log_info("%d trials: %d detected, %d harmless", tally.trials, tally.detected, tally.same);
    cr_assert_gt(tally.detected, 80);
}

/* The check alone, many more times: it must hold on its own against any nonsense. */
Test(store_check, survives_any_flips)
{
    struct rng rng;
    int64_t offsets[8];
    unsigned char masks[8];
    int detected = 0;

    rng_init(&rng, 77);
    for (int i = 0; i < 6000; i++) {
        const int count = 1 + i % 8;
        struct store_meta meta = {0};
        struct err error = {0};
        enum err_code code;

        for (int n = 0; n < count; n++) {
            const int64_t page = (int64_t)rng_below(&rng, (uint64_t)(file_bytes / PAGE_BYTES));

            offsets[n] = page * PAGE_BYTES +
                         (int64_t)rng_below(&rng, rng_below(&rng, 2) == 0 ? 64 : PAGE_BYTES);
            masks[n] = random_mask(&rng);
            flip(offsets[n], masks[n]);
        }
        code = store_check_file(fixture.data_path, &meta, &error);
        cr_assert(code == ERR_NONE || code == ERR_CORRUPT || code == ERR_UNSUPPORTED, "%s",
                  error.text);
        detected += code != ERR_NONE;
        store_meta_finish(&meta);
        for (int n = count - 1; n >= 0; n--)
            flip(offsets[n], masks[n]);
    }
    cr_assert_gt(detected, 3000);
    cr_assert_eq(try_in_child(),
                 SAME); /* every flip was taken back, so the trials were what they say */
}

/* ---- cuts -------------------------------------------------------------------------------------
 */

Test(store_check, a_file_cut_short_is_detected)
{
    for (int64_t left = 0; left < file_bytes; left = left * 5 / 4 + 100) {
        restore();
        cr_assert_eq(truncate(fixture.data_path, left), 0);
        cr_assert_eq(try_in_child(), DETECTED, "%" PRId64 " bytes left", left);
    }
    restore();
    cr_assert_eq(truncate(fixture.data_path, 0), 0);
    cr_assert_eq(try_in_child(), DETECTED);
}

/* The last pages one by one: those that are listed as free may go, the others are missed. */
Test(store_check, a_cut_of_the_last_pages_is_detected_or_harmless)
{
    int detected = 0;

    for (int64_t left = file_bytes - PAGE_BYTES; left > file_bytes - 12 * PAGE_BYTES;
         left -= PAGE_BYTES) {
        enum verdict verdict;

        restore();
        cr_assert_eq(truncate(fixture.data_path, left), 0);
        verdict = try_in_child();
        cr_assert(verdict == SAME || verdict == DETECTED);
        detected += verdict == DETECTED;
    }
    cr_log_info("%d of 11 detected", detected);
}

Test(store_check, pages_of_zeros_are_detected_or_harmless)
{
    static const char zeros[PAGE_BYTES];
    int detected = 0;

    for (int64_t page = 0; page < file_bytes / PAGE_BYTES; page += page < 4 ? 1 : 9) {
        enum verdict verdict;
        int fd;

        restore();
        fd = open(fixture.data_path, O_RDWR | O_CLOEXEC);
        cr_assert_eq(pwrite(fd, zeros, PAGE_BYTES, page * PAGE_BYTES), PAGE_BYTES);
        cr_assert_eq(close(fd), 0);
        verdict = try_in_child();
        cr_assert(verdict == SAME || verdict == DETECTED, "page %" PRId64, page);
        detected += verdict == DETECTED;
    }
    cr_assert_gt(detected, 10);
}

/* ---- records ----------------------------------------------------------------------------------
 */

static void remove_meta(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg)
{
    MDB_val key = {.mv_size = 4, .mv_data = "meta"};

    (void)rows;
    (void)arg;
    cr_assert_eq(mdb_del(txn, meta, &key, NULL), 0);
}

static void remove_meta_database(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg)
{
    (void)rows;
    (void)arg;
    cr_assert_eq(mdb_drop(txn, meta, 1), 0);
}

static void remove_row(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg)
{
    MDB_cursor *cursor;
    MDB_val key, value;

    (void)meta;
    (void)arg;
    cr_assert_eq(mdb_cursor_open(txn, rows, &cursor), 0);
    cr_assert_eq(mdb_cursor_get(cursor, &key, &value, MDB_FIRST), 0);
    cr_assert_eq(mdb_cursor_del(cursor, 0), 0);
    mdb_cursor_close(cursor);
}

/* The value of one row before its last change, with its right checksum: a page that was never
 * written. */
static void turn_row_back(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg)
{
    char name[FILLER_BYTES + 1];
    const struct store_row row = filler_row(0, name);
    struct store_row_key encoded;
    struct strbuf buf = {0};
    MDB_val key, value;

    (void)meta;
    (void)arg;
    store_row_encode_key(&row, &encoded);
    key = (MDB_val){.mv_size = encoded.bytes, .mv_data = encoded.data};
    store_row_encode_value(key, &row, 0, "22", 2, &buf);
    value = (MDB_val){.mv_size = buf.bytes, .mv_data = buf.data};
    cr_assert_eq(mdb_put(txn, rows, &key, &value, 0), 0);
    strbuf_finish(&buf);
}

static void add_foreign_database(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg)
{
    MDB_val key = {.mv_size = 1, .mv_data = "x"}, value = key;

    (void)rows;
    (void)meta;
    (void)arg;
    cr_assert_eq(mdb_put(txn, 1 /* LMDB's main database */, &key, &value, 0), 0);
}

Test(store_check, what_lmdb_finds_sound_but_is_not_what_was_written_is_detected)
{
    static const struct {
        void (*edit)(MDB_txn *, MDB_dbi, MDB_dbi, void *);
        const char *text;
    } table[] = {
        {remove_meta, "no meta record"},   {remove_meta_database, "no meta record"},
        {remove_row, "do not add up"},     {turn_row_back, "do not add up"},
        {add_foreign_database, "unknown"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        restore();
        fixture_edit(&fixture, table[i].edit, NULL);
        fixture_open(&fixture, STORE_SET_ASIDE);
        cr_assert_not_null(strstr(fixture.reason, table[i].text), "line %zu: %s", i,
                           fixture.reason);
        fixture_close(&fixture);
    }
}

Test(store_check, a_row_damaged_while_the_file_is_open_is_detected_at_the_read)
{
    static const char value[] = "a value that is found in the file";
    const struct store_position position = {.next_offset = 9};
    unsigned char *file = mem_calloc(1, (size_t)file_bytes + 1024 * 1024);
    struct err error = {0};
    const void *found;
    ssize_t bytes;
    size_t size;
    int fd, flips = 0;

    fixture_open(&fixture, STORE_KEPT);
    fixture_put(&fixture, "target", value);
    fixture_checkpoint(&fixture, 8);
    fd = open(fixture.data_path, O_RDONLY | O_CLOEXEC);
    bytes = pread(fd, file, (size_t)file_bytes + 1024 * 1024, 0);
    cr_assert_eq(close(fd), 0);
    for (ssize_t at = 0; at < bytes - (ssize_t)sizeof(value); at++) {
        if (memcmp(file + at, value, sizeof(value) - 1) != 0)
            continue;
        flip(at + 3, 1);
        flips++;
    }
    cr_assert_eq(flips, 1);
    cr_assert_eq(store_get(fixture.store, fixture_row("target"), INT64_MIN, &found, &size, &error),
                 ERR_CORRUPT);
    fixture_put(&fixture, "target", "overwritten");
    cr_assert(store_freeze(fixture.store, &position, 1));
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_CORRUPT);
    cr_assert_eq(store_set_aside(fixture.store, error.text, NULL), ERR_NONE);
    fixture.store = NULL;
    fixture_open(&fixture, STORE_FRESH);
    free(file);
}

/* In a child: the file is damaged under LMDB's eyes, which may crash it. All is put back as it was
 * read. */
static void use_while_damaged(int64_t offset, unsigned char mask)
{
    char key[FILLER_BYTES + 1];

    if (fixture_try_open(&fixture, NULL) != ERR_NONE || fixture.condition != STORE_KEPT)
        _exit(WRONG);
    flip(offset, mask);
    for (int i = 0; i < FILLER_ROWS; i++) {
        const struct store_row row = filler_row(i, key);
        const void *value;
        size_t bytes;

        if (store_get(fixture.store, row, INT64_MIN, &value, &bytes, NULL) == ERR_NONE)
            store_put(fixture.store, row, 0, value, bytes);
    }
    fixture_freeze(&fixture, LAST_OFFSET);
    (void)!store_flush_wait(fixture.store, INT64_MAX, NULL);
    store_close(fixture.store);
    _exit(SAME);
}

/* What LMDB can do to the process while it runs can not be helped; what is left is not served. */
Test(store_check, what_damage_while_the_file_is_open_has_led_to_is_found_by_the_next_open)
{
    struct rng rng;
    int ended = 0, detected = 0;

    rng_init(&rng, 404);
    for (int i = 0; i < 120; i++) {
        const int64_t page = 2 + (int64_t)rng_below(&rng, (uint64_t)(file_bytes / PAGE_BYTES) - 2);
        const int64_t offset = page * PAGE_BYTES + (int64_t)rng_below(&rng, 64);
        enum verdict verdict;
        pid_t child;
        int status;

        restore();
        child = fork();
        if (child == 0)
            use_while_damaged(offset, random_mask(&rng));
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(!WIFEXITED(status) || WEXITSTATUS(status) != WRONG);
        ended += WIFEXITED(status) && WEXITSTATUS(status) == SAME ? 0 : 1;
        verdict = try_in_child();
        cr_assert(verdict == SAME || verdict == DETECTED, "byte %" PRId64 " of page %" PRId64,
                  offset % PAGE_BYTES, page);
        detected += verdict == DETECTED;
        (void)random_mask(&rng); /* as the child did */
    }
    cr_log_info("%d of 120 detected, %d had ended the process", detected, ended);
    cr_assert_gt(detected, 10);
}

Test(store_check, tells_absent_from_unreadable)
{
    struct store_meta meta = {0};
    struct err error = {0};

    cr_assert_eq(store_check_file("/nonexistent/data.mdb", &meta, &error), ERR_NOT_FOUND);
    cr_assert_eq(store_check_file(fixture.root, &meta, &error), ERR_IO);
    cr_assert_eq(store_check_file(pristine, &meta, NULL), ERR_NONE);
    cr_assert_eq(meta.position_count, 1);
    store_meta_finish(&meta);
}
