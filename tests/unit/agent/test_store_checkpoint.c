/* Checkpoints: one at a time, dropped, failing, tried again. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/mem.h"

static struct store_fixture fixture;

static void setup(void)
{
    fixture_init(&fixture);
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store_checkpoint, .init = setup, .fini = teardown);

Test(store_checkpoint, takes_no_second_checkpoint_while_one_is_written)
{
    const struct store_position position = {.next_offset = 2};
    struct err error = {0};

    fixture_open(&fixture, STORE_FRESH);
    cr_assert_eq(store_flush_state(fixture.store, NULL), STORE_FLUSH_IDLE);
    store_test_hold_flush(fixture.store, true);
    fixture_put(&fixture, "a", "1");
    fixture_freeze(&fixture, 1);
    fixture_put(&fixture, "a", "2");
    cr_assert_not(store_freeze(fixture.store, &position, 1));
    cr_assert_eq(store_flush_state(fixture.store, NULL), STORE_FLUSH_RUNNING);
    cr_assert_eq(store_flush_wait(fixture.store, clock_mono_ms() + 30, &error), ERR_TIMEOUT);
    cr_assert_eq(error.code, ERR_TIMEOUT);
    cr_assert_eq(store_flush_wait(fixture.store, 0, &error), ERR_TIMEOUT);

    /* After: the refused freeze has changed nothing. */
    store_test_hold_flush(fixture.store, false);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_NONE);
    cr_assert_eq(fixture_offset(&fixture), 1);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "2");
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "1");
}

static void wake(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

Test(store_checkpoint, wakes_the_owner_once_for_each_checkpoint)
{
    int woken = 0;

    cr_assert_eq(store_open(&fixture.config, &fixture.identity, wake, &woken, &fixture.store,
                            &fixture.condition, fixture.reason, NULL),
                 ERR_NONE);
    fixture_checkpoint(&fixture, 1);
    store_test_fail_flush(fixture.store, EIO, 1);
    fixture_freeze(&fixture, 2);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_IO);
    fixture_close(&fixture); /* joins the thread that calls */
    cr_assert_eq(__atomic_load_n(&woken, __ATOMIC_SEQ_CST), 2);
}

Test(store_checkpoint, drops_the_live_map_and_waits_for_the_frozen_one)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_put(&fixture, "b", "1");
    fixture_freeze(&fixture, 1);
    fixture_put(&fixture, "a", "2");
    store_delete(fixture.store, fixture_row("b"));
    fixture_put(&fixture, "c", "2");
    cr_assert_eq(store_drop_live(fixture.store, NULL), ERR_NONE);
    cr_assert_eq(store_flush_state(fixture.store, NULL), STORE_FLUSH_IDLE);
    cr_assert_eq(fixture_offset(&fixture), 1);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "1");
    cr_assert_str_eq(fixture_get(&fixture, "b"), "1");
    cr_assert_null(fixture_get(&fixture, "c"));
}

Test(store_checkpoint, keeps_what_could_not_be_written_and_tries_again)
{
    static const int codes[] = {ENOSPC, EIO, EDQUOT, MDB_TXN_FULL};
    const struct store_position position = {.next_offset = 9};

    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "0");
    fixture_checkpoint(&fixture, 0);
    for (int i = 0; i < 4; i++) {
        char value[16];
        struct err error = {0};

        snprintf(value, sizeof(value), "%d", i + 1);
        store_test_fail_flush(fixture.store, codes[i], 2);
        fixture_put(&fixture, "a", value);
        fixture_freeze(&fixture, i + 1);
        for (int attempt = 0; attempt < 2; attempt++) {
            cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_IO);
            cr_assert_eq(error.detail, codes[i]);
            cr_assert(error.retriable);
            cr_assert_not_null(strstr(error.text, fixture.directory), "%s", error.text);
            cr_assert_not_null(strstr(error.text, mdb_strerror(codes[i])), "%s", error.text);
            cr_assert_eq(store_flush_state(fixture.store, &error), STORE_FLUSH_FAILED);
            cr_assert_not(store_freeze(fixture.store, &position, 1));
            cr_assert_str_eq(fixture_get(&fixture, "a"), value);
            cr_assert_eq(fixture_offset(&fixture), i);
            store_flush_retry(fixture.store);
        }
        cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, NULL), ERR_NONE);
        cr_assert_eq(fixture_offset(&fixture), i + 1);
    }
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "4");
}

Test(store_checkpoint, reports_a_failed_checkpoint_when_the_live_map_is_dropped)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_checkpoint(&fixture, 1);
    store_test_fail_flush(fixture.store, ENOSPC, 1);
    fixture_put(&fixture, "a", "2");
    fixture_freeze(&fixture, 2);
    fixture_put(&fixture, "a", "3");

    cr_assert_eq(store_drop_live(fixture.store, NULL), ERR_IO);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "2");
    store_flush_retry(fixture.store);
    cr_assert_eq(store_drop_live(fixture.store, NULL), ERR_NONE);
    cr_assert_eq(fixture_offset(&fixture), 2);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "2");
}

Test(store_checkpoint, gives_up_a_failed_checkpoint_when_it_is_closed)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_checkpoint(&fixture, 1);
    store_test_fail_flush(fixture.store, ENOSPC, 1);
    fixture_put(&fixture, "a", "2");
    fixture_freeze(&fixture, 2);
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_eq(fixture_offset(&fixture), 1);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "1");
}

Test(store_checkpoint, is_to_be_opened_again_after_a_panic_of_lmdb)
{
    struct err error = {0};

    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_checkpoint(&fixture, 1);
    store_test_fail_flush(fixture.store, MDB_PANIC, 1);
    fixture_put(&fixture, "a", "2");
    fixture_freeze(&fixture, 2);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_IO);
    cr_assert(error.fatal);
    store_flush_retry(fixture.store); /* can not help */
    cr_assert_eq(store_flush_state(fixture.store, &error), STORE_FLUSH_FAILED);
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_eq(fixture_offset(&fixture), 1);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "1");
}

/* A real refusal of the kernel: files may not grow any more. */
Test(store_checkpoint, survives_a_disk_that_is_full)
{
    struct rlimit limit = {.rlim_cur = 256 * 1024, .rlim_max = RLIM_INFINITY};
    struct err error = {0};
    char *value = mem_calloc(1, 512 * 1024);

    signal(SIGXFSZ, SIG_IGN);
    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_checkpoint(&fixture, 1);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    store_put(fixture.store, fixture_row("large"), 0, value, 512 * 1024);
    fixture_put(&fixture, "a", "2");
    fixture_freeze(&fixture, 2);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_IO);
    cr_assert(error.detail == EFBIG || error.detail == EIO, "%s", error.text); /* whole, cut */
    cr_assert_not_null(strstr(error.text, "bytes are free"), "%s", error.text);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "2");

    /* After: there is room again. */
    limit.rlim_cur = RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    store_flush_retry(fixture.store);
    cr_assert_eq(store_flush_wait(fixture.store, INT64_MAX, &error), ERR_NONE, "%s", error.text);
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_eq(fixture_offset(&fixture), 2);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "2");
    free(value);
}
