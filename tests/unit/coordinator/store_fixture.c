#include "tests/unit/coordinator/store_fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/coordinator/core/world.h"

void store_fixture_init(struct store_fixture *fixture)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(fixture->folder, sizeof(fixture->folder), "%s/baton-store-XXXXXX",
                   base != NULL ? base : "/tmp");
    cr_assert_not_null(mkdtemp(fixture->folder));
    (void)snprintf(fixture->path, sizeof(fixture->path), "%s/baton.db", fixture->folder);
}

void store_fixture_finish(struct store_fixture *fixture)
{
    DIR *folder = opendir(fixture->folder);
    if (folder == NULL)
        return;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        (void)unlinkat(dirfd(folder), entry->d_name, 0); /* "." and ".." refuse */
    (void)closedir(folder);
    (void)rmdir(fixture->folder);
}

struct store *store_fixture_open(const struct store_fixture *fixture)
{
    struct store *store = NULL;
    struct err err;
    enum err_code code = store_open(fixture->path, &store, &err);
    cr_assert_eq(code, ERR_NONE, "%s", err.text);
    return store;
}

void store_fixture_refused(const char *path, enum err_code code, const char *words)
{
    struct store *store = NULL;
    struct err err = {0};
    cr_assert_eq(store_open(path, &store, &err), code, "%s: %s", err_name(err.code), err.text);
    cr_assert_eq(err.code, code);
    cr_assert_null(store);
    char *copy = strdup(words), *rest = copy;
    for (char *word = strsep(&rest, "|"); word != NULL; word = strsep(&rest, "|"))
        cr_assert_not_null(strstr(err.text, word), "no \"%s\" in: %s", word, err.text);
    free(copy);
}

void store_fixture_sql(const struct store_fixture *fixture, const char *sql)
{
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(fixture->path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    cr_assert_eq(sqlite3_close(db), SQLITE_OK);
}

void store_fixture_load(struct store *store, struct cluster *ret_cluster)
{
    struct err err;
    cluster_init(ret_cluster, (struct coord_config){.protocol = PROTOCOL_RANGE_OURS,
                                                    .agent_timeout_ms = WORLD_TIMEOUT_MS,
                                                    .report_interval_ms = 500,
                                                    .poll_wait_ms_max = WORLD_WAIT_MS});
    enum err_code code = store_load(store, ret_cluster, &err);
    cr_assert_eq(code, ERR_NONE, "%s", err.text);
}

void store_fixture_check(struct store *store, const struct cluster *cluster)
{
    struct cluster loaded;
    store_fixture_load(store, &loaded);
    world_check_same(&loaded, cluster);
    cluster_finish(&loaded);
}
