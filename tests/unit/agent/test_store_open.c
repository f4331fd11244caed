/* store_open's judgement: whose state it is, whether it can be trusted, who holds it. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct store_fixture fixture;

static void setup(void)
{
    fixture_init(&fixture);
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store_open, .init = setup, .fini = teardown);

static bool aside_exists(int number)
{
    char path[256];

    snprintf(path, sizeof(path), "%s.aside-%d/data.mdb", fixture.directory, number);
    return fixture_exists(path);
}

static void make_state(void)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_checkpoint(&fixture, 1);
    fixture_close(&fixture);
}

Test(store_open, sets_aside_what_is_another_ones)
{
    struct {
        struct store_identity identity;
        const char *field;
    } table[6];

    for (int i = 0; i < 6; i++)
        table[i].identity = fixture.identity;
    table[0].identity.cluster = "cluster-2";
    table[0].field = "cluster:";
    table[1].identity.job = "payments";
    table[1].field = "job:";
    table[2].identity.job_incarnation = "incarnation-2";
    table[2].field = "job incarnation:";
    table[3].identity.processor = 4;
    table[3].field = "processor:";
    table[4].identity.logic = "builtin/count/2";
    table[4].field = "logic:";
    table[5].identity.logic = "";
    table[5].field = "logic:";

    make_state();
    for (int i = 0; i < 6; i++) {
        /* Each found what the one before left, and differs from it in this field (or two). */
        fixture.identity = table[i].identity;
        fixture_open(&fixture, STORE_SET_ASIDE);
        cr_assert(aside_exists(i + 1));
        cr_assert_null(fixture_get(&fixture, "a"));
        fixture_put(&fixture, "a", "1");
        fixture_checkpoint(&fixture, 1);
        cr_assert_eq(fixture_offset(&fixture), 1);
        fixture_close(&fixture);
    }
    /* Alone, against the first: the text starts with the field and names both. */
    for (int i = 0; i < 6; i++) {
        struct store_meta meta = {.cluster = "cluster-1",
                                  .job = "orders",
                                  .job_incarnation = "incarnation-1",
                                  .processor = 3,
                                  .logic = "builtin/count/1"};
        struct err error = {0};

        cr_assert_eq(store_meta_judge(&meta, &table[i].identity, &error), ERR_FOREIGN);
        cr_assert_eq(strncmp(error.text, table[i].field, strlen(table[i].field)), 0, "%s",
                     error.text);
    }
}

Test(store_open, leaves_the_reason_with_what_it_sets_aside)
{
    char path[256], text[ERR_TEXT_BYTES + 2] = "";
    FILE *file;

    make_state();
    fixture.identity.job = "payments";
    fixture_open(&fixture, STORE_SET_ASIDE);
    cr_assert_str_eq(fixture.reason, "job: the state is of 'orders', not of 'payments'");
    snprintf(path, sizeof(path), "%s.aside-1/reason", fixture.directory);
    file = fopen(path, "r");
    cr_assert_not_null(file);
    cr_assert_not_null(fgets(text, sizeof(text), file));
    fclose(file);
    text[strcspn(text, "\n")] = '\0';
    cr_assert_str_eq(text, fixture.reason);
}

static void raise_format(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg)
{
    MDB_val key = {.mv_size = 4, .mv_data = "meta"}, value;
    struct store_meta decoded = {0};
    struct strbuf buf = {0};

    (void)rows;
    (void)arg;
    cr_assert_eq(mdb_get(txn, meta, &key, &value), 0);
    cr_assert_eq(store_meta_decode(value, &decoded, NULL), ERR_NONE);
    decoded.format++;
    store_meta_encode(&decoded, &buf);
    value = (MDB_val){.mv_size = buf.bytes, .mv_data = buf.data};
    cr_assert_eq(mdb_put(txn, meta, &key, &value, 0), 0);
    store_meta_finish(&decoded);
    strbuf_finish(&buf);
}

Test(store_open, sets_aside_another_format)
{
    make_state();
    fixture_edit(&fixture, raise_format, NULL);
    fixture_open(&fixture, STORE_SET_ASIDE);
    cr_assert_eq(strncmp(fixture.reason, "format:", 7), 0, "%s", fixture.reason);
}

/* ---- trust ------------------------------------------------------------------------------------
 */

/* In a child that ends without closing: the kernel has what it wrote, nothing was marked. */
static void run_and_die(int checkpoints)
{
    const pid_t child = fork();
    int status;

    cr_assert_geq(child, 0);
    if (child == 0) {
        struct err error = {0};

        if (fixture_try_open(&fixture, &error) != ERR_NONE)
            _exit(1);
        for (int i = 0; i < checkpoints; i++) {
            const struct store_position position = {.next_offset = i + 1};

            store_put(fixture.store, fixture_row("a"), 0, "1", 1);
            if (!store_freeze(fixture.store, &position, 1) ||
                store_flush_wait(fixture.store, INT64_MAX, NULL) != ERR_NONE)
                _exit(2);
        }
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

Test(store_open, trusts_an_unclean_state_of_another_boot_only_when_it_was_synced)
{
    static const struct {
        const char *goal;
        bool sync, closed_first; /* a run that is closed, then one that dies */
        int checkpoints;         /* of the run that dies */
        const char *next_boot;
        enum store_condition wanted;
    } table[] = {
        {"killed, same boot: the kernel has it all", false, false, 3, "boot-1", STORE_KEPT},
        {"machine went down, not synced", false, false, 3, "boot-2", STORE_SET_ASIDE},
        {"machine went down, synced", true, false, 3, "boot-2", STORE_KEPT},
        {"the first checkpoint is synced in any case", false, false, 1, "boot-2", STORE_KEPT},
        {"nothing was written yet", false, false, 0, "boot-2", STORE_FRESH},
        {"closed, then nothing was written", false, true, 0, "boot-2", STORE_KEPT},
        {"the first after a close is synced too", false, true, 1, "boot-2", STORE_KEPT},
        {"the second is not", false, true, 2, "boot-2", STORE_SET_ASIDE},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char directory[128];
        bool kept;

        snprintf(directory, sizeof(directory), "%s/%zu", fixture.root, i);
        fixture.config.directory = directory;
        fixture.config.sync = table[i].sync;
        fixture.identity.boot_id = "boot-1";
        if (table[i].closed_first) {
            run_and_die(3);
            fixture_open(&fixture, STORE_KEPT);
            fixture_close(&fixture);
        }
        run_and_die(table[i].checkpoints);
        fixture.identity.boot_id = table[i].next_boot;
        cr_assert_eq(fixture_try_open(&fixture, NULL), ERR_NONE);
        cr_assert_eq(fixture.condition, table[i].wanted, "%s: %d", table[i].goal,
                     fixture.condition);
        if (table[i].wanted == STORE_SET_ASIDE)
            cr_assert_not_null(strstr(fixture.reason, "not synced"), "%s", fixture.reason);
        kept = fixture.condition == STORE_KEPT;
        fixture_close(&fixture);
        /* After: closed cleanly, so trusted on any boot. */
        fixture.identity.boot_id = "boot-3";
        fixture_open(&fixture, kept ? STORE_KEPT : STORE_FRESH);
        fixture_close(&fixture);
    }
}

Test(store_open, sets_aside_what_lmdb_found_damaged)
{
    char path[256];
    FILE *file;

    make_state();
    snprintf(path, sizeof(path), "%s/suspect", fixture.directory);
    file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs("LMDB: assertion failed: x > 1\n", file);
    fclose(file);
    fixture_open(&fixture, STORE_SET_ASIDE);
    cr_assert_not_null(strstr(fixture.reason, "x > 1"), "%s", fixture.reason);
    fixture_reopen(&fixture, STORE_FRESH); /* the mark went along */
}

/* ---- holders and permissions ------------------------------------------------------------------
 */

Test(store_open, is_refused_while_another_process_holds_the_state)
{
    int ready[2], end[2], status;
    char byte = 0, wanted[64];
    struct err error = {0};
    pid_t child;

    cr_assert_eq(pipe(ready), 0);
    cr_assert_eq(pipe(end), 0);
    child = fork();
    if (child == 0) {
        if (fixture_try_open(&fixture, &error) != ERR_NONE || write(ready[1], "r", 1) != 1)
            _exit(1);
        (void)!read(end[0], &byte, 1); /* until the parent says or is gone */
        _exit(0);
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    cr_assert_eq(fixture_try_open(&fixture, &error), ERR_LOCKED);
    snprintf(wanted, sizeof(wanted), "pid %d", child);
    cr_assert_not_null(strstr(error.text, wanted), "%s", error.text);
    cr_assert_not_null(strstr(error.text, fixture.directory), "%s", error.text);
    cr_assert_null(fixture.store);

    /* After: the holder is gone, also when it did not say so. */
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    fixture_open(&fixture, STORE_FRESH);
}

Test(store_open, is_refused_when_this_process_has_it_open_already)
{
    struct store_fixture second = fixture;
    struct err error = {0};

    fixture_open(&fixture, STORE_FRESH);
    cr_assert_eq(fixture_try_open(&second, &error), ERR_LOCKED);
}

Test(store_open, names_a_directory_that_can_not_be_made)
{
    char file[128], directory[256];
    struct err error = {0};

    snprintf(file, sizeof(file), "%s/file", fixture.root);
    fixture_copy_file("/proc/self/cmdline", file);
    snprintf(directory, sizeof(directory), "%s/job/3", file);
    fixture.config.directory = directory;
    cr_assert_eq(fixture_try_open(&fixture, &error), ERR_IO);
    cr_assert_not_null(strstr(error.text, file), "%s", error.text);
    cr_assert_not_null(strstr(error.text, "Not a directory"), "%s", error.text);
}

Test(store_open, says_when_the_disk_has_no_room_for_a_new_state)
{
    struct rlimit limit = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY};
    struct err error = {0};

    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(fixture_try_open(&fixture, &error), ERR_IO);
    cr_assert_not_null(strstr(error.text, fixture.directory), "%s", error.text);
    limit.rlim_cur = RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    fixture_open(&fixture, STORE_FRESH);
}

/* As a user who may not write there; root may, so a child gives that up first. */
static int open_as_nobody(void)
{
    struct err error = {0};
    enum err_code code;

    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 1;
    code = fixture_try_open(&fixture, &error);
    if (code != ERR_IO)
        return 2;
    if (strstr(error.text, fixture.directory) == NULL)
        return 3;
    return strstr(error.text, "Permission denied") == NULL ? 4 : 0;
}

Test(store_open, names_what_it_may_not_write)
{
    static const mode_t modes[] = {0755, 0777}; /* of the state's directory; data.mdb is not ours */

    cr_assert_eq(chmod(fixture.root, 0755), 0);
    make_state();
    for (int i = 0; i < 2; i++) {
        char path[256], lock_path[256];
        pid_t child;
        int status;

        snprintf(path, sizeof(path), "%s/job", fixture.root);
        snprintf(lock_path, sizeof(lock_path), "%s/lock", fixture.directory);
        cr_assert_eq(chmod(path, 0755), 0);
        cr_assert_eq(chmod(fixture.directory, modes[i]), 0);
        cr_assert_eq(chmod(lock_path, i == 0 ? 0600 : 0666), 0);
        cr_assert_eq(chmod(fixture.data_path, i == 0 ? 0600 : 0400), 0);
        child = fork();
        if (child == 0)
            _exit(open_as_nobody());
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "mode %o: status %x", modes[i],
                  status);
    }
    fixture_open(&fixture, STORE_KEPT); /* nothing was set aside for want of a permission */
}

Test(store_open, set_aside_gives_the_state_up_and_lets_the_next_begin_anew)
{
    struct err error = {0};

    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_checkpoint(&fixture, 1);
    fixture_put(&fixture, "a", "2");
    fixture_freeze(&fixture, 2);
    cr_assert_eq(store_set_aside(fixture.store, "a row does not match", &error), ERR_NONE, "%s",
                 error.text);
    fixture.store = NULL;
    cr_assert(aside_exists(1));
    cr_assert_not(fixture_exists(fixture.directory));
    fixture_open(&fixture, STORE_FRESH);
    fixture_checkpoint(&fixture, 1);
    cr_assert_eq(store_set_aside(fixture.store, "again", &error), ERR_NONE);
    fixture.store = NULL;
    cr_assert(aside_exists(2));
}
