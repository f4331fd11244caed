/* A view of one store makes the state of another. */
#include "agent/store_seed.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store_view.h"
#include "common/mem.h"
#include "store_fixture.h"

static struct store_fixture giver, taker;
static struct model model;

static void setup(void)
{
    fixture_init(&giver);
    fixture_init(&taker);
    fixture_open(&giver, STORE_FRESH);
    fixture_open(&taker, STORE_FRESH);
    model = (struct model){0};
}

static void teardown(void)
{
    fixture_finish(&giver);
    fixture_finish(&taker);
}

TestSuite(store_seed, .init = setup, .fini = teardown, .timeout = 120);

static void fill(void)
{
    for (int i = 0; i < MODEL_ROWS; i++)
        model_put(&model, giver.store, i, (uint32_t)i, 1000 + i);
    fixture_checkpoint(&giver, 42);
}

static struct store_view *open_view(void)
{
    struct store_share *share = store_share_acquire(giver.store);
    struct store_view *view;
    struct err err = {0};

    cr_assert_eq(store_view_open(share, &view, &err), ERR_NONE, "%s", err.text);
    store_share_release(share);
    return view;
}

static struct store_seed *begin(struct store_view *view)
{
    struct store_seed *seed;
    struct err err = {0};
    size_t bytes;
    const void *meta = store_view_meta(view, &bytes);

    cr_assert_eq(store_seed_begin(&taker.config, &taker.identity, meta, bytes,
                                  store_view_file_bytes(view), &seed, &err),
                 ERR_NONE, "%s", err.text);
    return seed;
}

/* All rows, in small parts. */
static void copy_rows(struct store_view *view, struct store_seed *seed)
{
    struct strbuf buf = {0};
    struct err err = {0};
    uint32_t rows;

    for (bool end = false; !end;) {
        strbuf_clear(&buf);
        cr_assert_eq(store_view_read(view, 1, &buf, &rows, &end, &err), ERR_NONE, "%s", err.text);
        cr_assert(end || rows == 1);
        cr_assert_eq(store_seed_add(seed, buf.data, buf.bytes, rows, &err), ERR_NONE, "%s",
                     err.text);
    }
    strbuf_finish(&buf);
}

static void install(void)
{
    struct err err = {0};

    fixture_close(&taker);
    cr_assert_eq(store_seed_install(taker.directory, &err), ERR_NONE, "%s", err.text);
    fixture_open(&taker, STORE_KEPT);
}

Test(store_seed, holds_the_same_rows_and_positions)
{
    struct store_view *view;
    struct store_seed *seed;

    fill();
    view = open_view();
    seed = begin(view);
    copy_rows(view, seed);
    cr_assert_eq(store_seed_rows(seed), MODEL_ROWS);
    cr_assert_eq(store_seed_finish(seed, NULL), ERR_NONE);
    store_seed_destroy(seed);
    store_view_close(view);
    install();
    model_assert_equal(&model, taker.store, INT64_MIN);
    cr_assert_eq(fixture_offset(&taker), 42);
    /* It goes on as any other. */
    model_put(&model, taker.store, 3, 77, 5000);
    fixture_checkpoint(&taker, 43);
    fixture_reopen(&taker, STORE_KEPT);
    model_assert_equal(&model, taker.store, INT64_MIN);
}

Test(store_seed, view_is_of_one_checkpoint_whatever_follows)
{
    struct model later;
    struct store_view *view;
    struct store_seed *seed;

    fill();
    view = open_view();
    later = model;
    for (int i = 0; i < MODEL_ROWS; i += 2)
        model_delete(&later, giver.store, i);
    fixture_checkpoint(&giver, 50);
    seed = begin(view);
    copy_rows(view, seed);
    cr_assert_eq(store_seed_finish(seed, NULL), ERR_NONE);
    store_seed_destroy(seed);
    store_view_close(view);
    install();
    model_assert_equal(&model, taker.store, INT64_MIN);
    cr_assert_eq(fixture_offset(&taker), 42);
    model_assert_equal(&later, giver.store, INT64_MIN);
}

Test(store_seed, nothing_of_it_is_seen_before_it_is_installed)
{
    struct store_view *view;
    struct store_seed *seed;

    fill();
    view = open_view();
    seed = begin(view);
    copy_rows(view, seed);
    fixture_reopen(&taker, STORE_FRESH); /* as after a crash midway */
    cr_assert_eq(store_seed_finish(seed, NULL), ERR_NONE);
    store_seed_destroy(seed);
    store_view_close(view);
    fixture_reopen(&taker, STORE_FRESH);
    cr_assert_eq(store_seed_clear(taker.directory, NULL), ERR_NONE);
    fixture_close(&taker);
    cr_assert_eq(store_seed_install(taker.directory, NULL), ERR_NOT_FOUND);
    fixture_open(&taker, STORE_FRESH);
}

Test(store_seed, short_doubled_and_disordered_rows_are_refused)
{
    struct strbuf first = {0}, second = {0};
    struct store_view *view;
    struct store_seed *seed;
    uint32_t rows;
    bool end;

    fill();
    view = open_view();
    cr_assert_eq(store_view_read(view, 1, &first, &rows, &end, NULL), ERR_NONE);
    cr_assert_eq(store_view_read(view, 1, &second, &rows, &end, NULL), ERR_NONE);

    seed = begin(view);
    cr_assert_eq(store_seed_add(seed, first.data, first.bytes, 1, NULL), ERR_NONE);
    cr_assert_eq(store_seed_finish(seed, NULL), ERR_CORRUPT, "rows are missing");
    store_seed_destroy(seed);

    seed = begin(view);
    cr_assert_eq(store_seed_add(seed, first.data, first.bytes, 1, NULL), ERR_NONE);
    cr_assert_eq(store_seed_add(seed, first.data, first.bytes, 1, NULL), ERR_CORRUPT);
    store_seed_destroy(seed);

    seed = begin(view);
    cr_assert_eq(store_seed_add(seed, second.data, second.bytes, 1, NULL), ERR_NONE);
    cr_assert_eq(store_seed_add(seed, first.data, first.bytes, 1, NULL), ERR_CORRUPT);
    store_seed_destroy(seed);

    strbuf_finish(&first);
    strbuf_finish(&second);
    store_view_close(view);
}

Test(store_seed, a_row_that_is_cut_or_changed_anywhere_is_refused)
{
    struct strbuf row = {0};
    struct store_view *view;
    uint32_t rows;
    bool end;

    fixture_put(&giver, "key", "value");
    fixture_checkpoint(&giver, 1);
    view = open_view();
    cr_assert_eq(store_view_read(view, 1, &row, &rows, &end, NULL), ERR_NONE);
    for (size_t i = 0; i < row.bytes; i++) {
        struct store_seed *seed = begin(view);
        char *part = mem_memdup(row.data, i);

        cr_assert_eq(store_seed_add(seed, part, i, 1, NULL), ERR_CORRUPT, "cut at %zu", i);
        store_seed_destroy(seed);
        free(part);
        row.data[i] = (char)(row.data[i] ^ 1);
        seed = begin(view);
        cr_assert_eq(store_seed_add(seed, row.data, row.bytes, 1, NULL), ERR_CORRUPT,
                     "changed at %zu", i);
        store_seed_destroy(seed);
        row.data[i] = (char)(row.data[i] ^ 1);
    }
    strbuf_finish(&row);
    store_view_close(view);
}

Test(store_seed, of_something_else_is_refused)
{
    struct store_seed *seed;
    struct err err = {0};
    struct store_view *view;
    const void *meta;
    size_t bytes;

    fill();
    view = open_view();
    meta = store_view_meta(view, &bytes);
    taker.identity.processor = 4;
    cr_assert_eq(store_seed_begin(&taker.config, &taker.identity, meta, bytes, 0, &seed, &err),
                 ERR_FOREIGN);
    taker.identity.processor = 3;
    cr_assert_eq(store_seed_begin(&taker.config, &taker.identity, meta, bytes - 1, 0, &seed, &err),
                 ERR_CORRUPT);
    store_view_close(view);
}

Test(store_seed, a_store_without_a_checkpoint_has_no_view)
{
    struct store_share *share = store_share_acquire(giver.store);
    struct store_view *view, *views[STORE_VIEWS_MAX];

    cr_assert_eq(store_view_open(share, &view, NULL), ERR_NOT_FOUND);
    fill();
    for (size_t i = 0; i < STORE_VIEWS_MAX; i++)
        cr_assert_eq(store_view_open(share, &views[i], NULL), ERR_NONE);
    cr_assert_eq(store_view_open(share, &view, NULL), ERR_LIMIT);
    for (size_t i = 0; i < STORE_VIEWS_MAX; i++)
        store_view_close(views[i]);
    cr_assert_eq(store_view_open(share, &view, NULL), ERR_NONE);
    store_view_close(view);
    fixture_close(&giver);
    cr_assert_eq(store_view_open(share, &view, NULL), ERR_UNAVAILABLE);
    store_share_release(share);
}

Test(store_seed, a_view_is_stale_once_the_store_is_closed_or_has_grown)
{
    struct strbuf buf = {0};
    struct store_view *view;
    const size_t bytes = 2 * 1024 * 1024;
    char *value = mem_calloc(bytes, 1);
    uint32_t rows;
    bool end;

    fill();
    view = open_view();
    for (int i = 0; i < 30; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "big-%d", i);
        store_put(giver.store, fixture_row(key), 0, value, bytes);
    }
    fixture_checkpoint(&giver, 60); /* over the first size of the map */
    cr_assert_eq(store_view_read(view, 1, &buf, &rows, &end, NULL), ERR_STALE);
    store_view_close(view);

    view = open_view();
    cr_assert_eq(store_view_read(view, 1, &buf, &rows, &end, NULL), ERR_NONE);
    fixture_close(&giver);
    cr_assert_eq(store_view_read(view, 1, &buf, &rows, &end, NULL), ERR_STALE);
    store_view_close(view);
    strbuf_finish(&buf);
    free(value);
}
