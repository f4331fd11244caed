/* Copies of the database that are made while it is written. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "coordinator/store_backup.h"
#include "tests/unit/coordinator/store_fixture.h"

static struct store_fixture fixture;
static struct store *store;
static struct cluster cluster;
static char copy_path[STORE_FIXTURE_PATH_BYTES + 32];

static void set_up(void)
{
    store_fixture_init(&fixture);
    store = store_fixture_open(&fixture);
    store_fixture_load(store, &cluster);
    (void)snprintf(copy_path, sizeof(copy_path), "%s/copy.db", fixture.folder);
}

static void tear_down(void)
{
    cluster_finish(&cluster);
    store_close(store);
    store_fixture_finish(&fixture);
}

TestSuite(store_backup, .init = set_up, .fini = tear_down);

/* Events, so many that the copy takes several slices. */
static void write_events(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct update update = {0};
        struct err err;
        struct change event = {.kind = CHANGE_EVENT,
                               .event = {.id = ++cluster.meta.event_id,
                                         .at = 1,
                                         .kind = mem_strdup("coordinator_started"),
                                         .processor = API_UNKNOWN,
                                         .actor = mem_strdup("test"),
                                         .detail = mem_calloc(1001, 1)}};
        memset(event.event.detail, 'x', 1000);
        struct change meta = {.kind = CHANGE_META, .meta = cluster.meta};
        update_change(&update, &cluster, &event);
        update_change(&update, &cluster, &meta);
        cr_assert_eq(store_commit(store, &update, &err), ERR_NONE, "%s", err.text);
        update_finish(&update);
    }
}

Test(store_backup, holds_what_was_committed_while_it_was_made)
{
    struct store_backup *backup;
    struct store *copy = NULL;
    struct err err;
    struct stat status;
    bool done = false;
    int64_t bytes = 0;
    unsigned slices = 0;
    write_events(1000);
    cr_assert_eq(store_backup_begin(store, copy_path, &backup, &err), ERR_NONE, "%s", err.text);
    while (!done) {
        cr_assert_eq(store_backup_step(backup, &done, &bytes, &err), ERR_NONE, "%s", err.text);
        cr_assert_eq(done, access(copy_path, F_OK) == 0, "it has its name when it is whole");
        if (!done)
            write_events(1);
        slices++;
    }
    store_backup_end(backup);
    cr_assert_gt(slices, 3);
    cr_assert_eq(stat(copy_path, &status), 0);
    cr_assert_eq(status.st_size, bytes);
    cr_assert_eq(store_open(copy_path, &copy, &err), ERR_NONE, "%s", err.text);
    store_fixture_check(copy, &cluster);
    store_close(copy);
}

Test(store_backup, never_overwrites_and_leaves_no_part)
{
    struct store_backup *backup;
    struct err err;
    bool done;
    int64_t bytes;
    char *part = mem_printf("%s.part", copy_path);
    write_events(500);
    cr_assert_eq(store_backup_begin(store, copy_path, &backup, &err), ERR_NONE, "%s", err.text);
    cr_assert_eq(store_backup_step(backup, &done, &bytes, &err), ERR_NONE, "%s", err.text);
    cr_assert_not(done);
    store_backup_end(backup);
    cr_assert_neq(access(copy_path, F_OK), 0);
    cr_assert_neq(access(part, F_OK), 0);
    FILE *file = fopen(copy_path, "w");
    cr_assert_not_null(file);
    (void)fclose(file);
    cr_assert_eq(store_backup_begin(store, copy_path, &backup, &err), ERR_INVALID);
    cr_assert_not_null(strstr(err.text, "already"));
    free(part);
}

Test(store_backup, a_folder_that_is_not_there_is_said)
{
    struct store_backup *backup;
    struct err err;
    char *path = mem_printf("%s/none/copy.db", fixture.folder);
    cr_assert_eq(store_backup_begin(store, path, &backup, &err), ERR_IO);
    cr_assert_not_null(strstr(err.text, path));
    write_events(1); /* the store is none the worse */
    free(path);
}
