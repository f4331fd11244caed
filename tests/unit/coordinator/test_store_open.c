/* Databases that are refused: each with its reason, and none is changed. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"
#include "coordinator/store.h"
#include "tests/unit/coordinator/core/world.h"
#include "tests/unit/coordinator/store_fixture.h"

static struct store_fixture fixture;

static void setup(void)
{
    store_fixture_init(&fixture);
}

static void teardown(void)
{
    store_fixture_finish(&fixture);
}

TestSuite(store_open, .init = setup, .fini = teardown);

struct content {
    char *data;
    size_t bytes;
};

static struct content read_file(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(fstat(fd, &status), 0);
    struct content content = {.data = mem_calloc(1, (size_t)status.st_size + 1),
                              .bytes = (size_t)status.st_size};
    cr_assert_eq(read(fd, content.data, content.bytes), (ssize_t)content.bytes);
    (void)close(fd);
    return content;
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, data, bytes), (ssize_t)bytes);
    (void)close(fd);
}

static void refused_unchanged(enum err_code code, const char *words)
{
    struct content before = read_file(fixture.path);
    store_fixture_refused(fixture.path, code, words);
    struct content after = read_file(fixture.path);
    cr_assert_eq(after.bytes, before.bytes);
    cr_assert_eq(memcmp(after.data, before.data, before.bytes), 0, "the file was changed");
    free(before.data);
    free(after.data);
}

/* A database with a job in it. */
static void make_database(void)
{
    struct world world;
    struct cluster loaded;
    struct store *store = store_fixture_open(&fixture);
    store_fixture_load(store, &loaded);
    world_init_from(&world, &loaded, NULL, NULL);
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    /* All of it in one update. */
    struct update update = {0};
    struct cluster copy;
    world_copy(&copy, &world.cluster);
    struct change changes[] = {
        {.kind = CHANGE_META, .meta = copy.meta},
        {.kind = CHANGE_AGENT, .agent = copy.agents.items[0]->row},
        {.kind = CHANGE_JOB, .job = copy.jobs.items[0]->row},
        {.kind = CHANGE_PLACEMENT, .placement = copy.jobs.items[0]->processors.items[0].placement},
        {.kind = CHANGE_PLACEMENT, .placement = copy.jobs.items[0]->processors.items[1].placement},
        {.kind = CHANGE_PLACEMENT, .placement = copy.jobs.items[0]->processors.items[2].placement},
        {.kind = CHANGE_PLACEMENT, .placement = copy.jobs.items[0]->processors.items[3].placement},
        {.kind = CHANGE_OPERATION, .operation = copy.operations.items[0]->row},
    };
    update.changes.items = changes;
    update.changes.count = sizeof(changes) / sizeof(changes[0]);
    cr_assert_eq(store_commit(store, &update, NULL), ERR_NONE);
    store_close(store);
    cluster_finish(&copy);
    world_finish(&world);
}

/* ---- not a database, or not ours */

Test(store_open, refuses_what_is_no_database)
{
    static const char text[] = "This was somebody's notes, much longer than the 100 bytes that are "
                               "looked at, and nobody wants to lose them to a typing mistake.";
    write_file(fixture.path, text, sizeof(text));
    refused_unchanged(ERR_CORRUPT, "not a SQLite database|baton.db|restore");
    write_file(fixture.path, "short", 5);
    refused_unchanged(ERR_CORRUPT, "not a SQLite database");
}

Test(store_open, refuses_another_programs_database)
{
    store_fixture_sql(
        &fixture,
        "PRAGMA journal_mode = WAL; CREATE TABLE notes (text); INSERT INTO notes VALUES ('x')");
    refused_unchanged(ERR_FOREIGN, "not that of a baton coordinator|baton.db");
    store_fixture_sql(&fixture, "PRAGMA application_id = 77");
    refused_unchanged(ERR_FOREIGN, "not that of a baton coordinator");
}

Test(store_open, refuses_a_newer_format)
{
    make_database();
    store_fixture_sql(&fixture, "PRAGMA user_version = 4711");
    refused_unchanged(ERR_UNSUPPORTED, "newer baton|4711|install that version");
}

Test(store_open, takes_an_empty_file_as_a_new_database)
{
    write_file(fixture.path, "", 0);
    store_close(store_fixture_open(&fixture));
}

/* ---- damaged (never overwritten) */

Test(store_open, refuses_a_damaged_page)
{
    make_database();
    struct content content = read_file(fixture.path);
    for (size_t page = 1; page < content.bytes / 4096; page++) {
        char *damaged = mem_memdup(content.data, content.bytes);
        memset(damaged + page * 4096, 0xa5, 512);
        write_file(fixture.path, damaged, content.bytes);
        refused_unchanged(ERR_CORRUPT, "baton.db");
        free(damaged);
    }
    write_file(fixture.path, content.data, content.bytes);
    store_close(store_fixture_open(&fixture));
    free(content.data);
}

Test(store_open, refuses_a_file_that_was_cut_short)
{
    make_database();
    struct content content = read_file(fixture.path);
    cr_assert_gt(content.bytes, 3 * 4096);
    write_file(fixture.path, content.data, content.bytes - 2 * 4096);
    refused_unchanged(ERR_CORRUPT, "baton.db");
    write_file(fixture.path, content.data, 50);
    refused_unchanged(ERR_CORRUPT, "baton.db");
    free(content.data);
}

/* Rows that someone edited: whole as a database, but not what a coordinator could have written. */
Test(store_open, refuses_to_load_rows_that_can_not_be)
{
    static const char *const edits[] = {
        "UPDATE jobs SET state = 'happy'",
        "UPDATE jobs SET spec = '{\"inputs\": 7}'",
        "UPDATE jobs SET partitions = 4000000000",
        "UPDATE jobs SET generation = -1",
        "UPDATE jobs SET incarnation = 'me'",
        "UPDATE jobs SET operation = 77, state = 'deleting'",
        "DELETE FROM origins WHERE partition = 3",
        "INSERT INTO origins VALUES ('j1', 0, 8, 0, 0)",
        "UPDATE placements SET epoch = 1000000",
        "UPDATE placements SET epoch = -1",
        "UPDATE placements SET agent = 'nobody'",
        "UPDATE placements SET processor = 77 WHERE processor = 3",
        "INSERT INTO offsets VALUES ('j1', 0, 5, 0, 0, 0, 0, 0)",
        "INSERT INTO offsets VALUES ('j1', 9, 0, 0, 0, 0, 0, 0)",
        "UPDATE agents SET capacity = 1000000",
        "UPDATE agents SET max_learners = -1",
        "UPDATE operations SET state = 'running'",
        "UPDATE operations SET kind = 'other'",
        "UPDATE meta SET cluster = 'x'",
        "UPDATE meta SET decision = -5",
    };
    make_database();
    struct content content = read_file(fixture.path);
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        struct cluster cluster;
        struct err err = {0};
        write_file(fixture.path, content.data, content.bytes);
        store_fixture_sql(&fixture, edits[i]);
        struct store *store = store_fixture_open(&fixture);
        cluster_init(&cluster, (struct coord_config){.agent_timeout_ms = 1});
        cr_assert_eq(store_load(store, &cluster, &err), ERR_CORRUPT, "%s: %s", edits[i], err.text);
        cr_assert_not_null(strstr(err.text, "damaged"), "%s", err.text);
        cluster_finish(&cluster);
        store_close(store);
    }
    free(content.data);
}

/* ---- in use (S29) */

Test(store_open, refuses_a_second_opening)
{
    struct store *store = store_fixture_open(&fixture);
    store_fixture_refused(fixture.path, ERR_LOCKED, "in use by another process|baton.db");
    store_close(store);
    store_close(store_fixture_open(&fixture));
}

Test(store_open, refuses_what_another_process_has_open)
{
    int ready[2], done[2];
    char byte = 0;
    make_database();
    cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(done, O_CLOEXEC), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct store *store = NULL;
        if (store_open(fixture.path, &store, NULL) != ERR_NONE)
            _exit(1);
        if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1)
            _exit(2);
        _exit(0);
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    store_fixture_refused(fixture.path, ERR_LOCKED, "in use by another process|baton.db");
    cr_assert_eq(write(done[1], &byte, 1), 1);
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    store_close(store_fixture_open(&fixture)); /* its end frees it, whatever the end was */
}

/* ---- places where there can be none */

Test(store_open, names_the_folder_that_is_not_there)
{
    char path[STORE_FIXTURE_PATH_BYTES + 32];
    (void)snprintf(path, sizeof(path), "%s/gone/baton.db", fixture.folder);
    store_fixture_refused(path, ERR_IO, "there is no folder|/gone|make it");
    write_file(fixture.path, "", 0);
    (void)snprintf(path, sizeof(path), "%s/baton.db/x.db", fixture.folder);
    store_fixture_refused(path, ERR_IO, "there is no folder|baton.db");
    store_fixture_refused(fixture.folder, ERR_IO, "can not be read");
}

Test(store_open, names_the_folder_that_is_not_writable)
{
    cr_assert_eq(chmod(fixture.folder, 0555), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct store *store = NULL;
        struct err err = {0};
        if (geteuid() == 0 && seteuid(65534) != 0) /* root may write everywhere */
            _exit(1);
        enum err_code code = store_open(fixture.path, &store, &err);
        _exit(code == ERR_IO && strstr(err.text, "is not writable") != NULL &&
                      strstr(err.text, fixture.folder) != NULL
                  ? 0
                  : 2);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(chmod(fixture.folder, 0755), 0);
    cr_assert_eq(status, 0);
}

Test(store_open, names_the_file_that_is_not_writable)
{
    make_database();
    cr_assert_eq(chmod(fixture.path, 0444), 0);
    cr_assert_eq(chmod(fixture.folder, 0777), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct store *store = NULL;
        struct err err = {0};
        if (geteuid() == 0 && seteuid(65534) != 0)
            _exit(1);
        enum err_code code = store_open(fixture.path, &store, &err);
        _exit(code == ERR_IO && strstr(err.text, "not writable") != NULL ? 0 : 2);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
}
