#include "coordinator/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/store_internal.h"

#define EVENTS_KEPT     100000
#define OPERATIONS_KEPT 10000
#define HANDOFFS_KEPT   10000

/* ---- errors */

static enum err_code code_of(int result)
{
    switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_LOCKED;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERR_CORRUPT;
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return ERR_IO;
    default:
        return ERR_INTERNAL;
    }
}

enum err_code store_fail(const struct store *store, int result, const char *doing,
                         struct err *reterr)
{
    enum err_code code = code_of(result);
    if (reterr == NULL)
        return code;
    if (code == ERR_LOCKED)
        err_set(reterr, code,
                "database %s is in use by another process; stop that coordinator, or give this one "
                "a database of its own",
                store->path);
    else
        err_set(reterr, code, "database %s: %s: %s", store->path, doing, sqlite3_errstr(result));
    reterr->detail = result;
    reterr->retriable = code == ERR_IO;
    return code;
}

enum err_code store_corrupt(const struct store *store, const char *what, struct err *reterr)
{
    return err_set(reterr, ERR_CORRUPT,
                   "database %s is damaged: %s; restore it from a backup, or move it away to start "
                   "with an empty one",
                   store->path, what);
}

/* ---- running statements */

sqlite3_stmt *store_statement(struct store *store, enum store_statement statement)
{
    sqlite3_stmt *prepared = store->statements[statement];
    store_leave(prepared);
    return prepared;
}

void store_leave(sqlite3_stmt *statement)
{
    (void)sqlite3_reset(statement); /* repeats the error of the step before, which was handled */
    (void)sqlite3_clear_bindings(statement); /* always succeeds */
}

/* A wrong index is our own mistake; out of memory is handled as everywhere else (common/mem.h). */
static void check_bound(int result)
{
    if (result == SQLITE_NOMEM)
        abort();
    assert(result == SQLITE_OK);
}

void store_bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    check_bound(text != NULL ? sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC)
                             : sqlite3_bind_null(statement, index));
}

void store_bind_int(sqlite3_stmt *statement, int index, int64_t number)
{
    check_bound(sqlite3_bind_int64(statement, index, number));
}

void store_bind_uint(sqlite3_stmt *statement, int index, uint64_t number)
{
    assert(number <= INT64_MAX);
    store_bind_int(statement, index, (int64_t)number);
}

void store_bind_known(sqlite3_stmt *statement, int index, int64_t number)
{
    if (number == API_UNKNOWN)
        check_bound(sqlite3_bind_null(statement, index));
    else
        store_bind_int(statement, index, number);
}

#ifdef BATON_TEST_HOOKS
void store_fail_at(struct store *store, uint64_t statement, enum store_failure failure)
{
    store->fail_at = statement != 0 ? store->run + statement : 0;
    store->failure = failure;
}

uint64_t store_statements(const struct store *store)
{
    return store->run;
}
#endif

/* sqlite3_step, unless a test wants it to fail. Rows after a statement's first are not counted. */
static int run_counted(struct store *store, sqlite3_stmt *statement)
{
    if (sqlite3_stmt_busy(statement))
        return sqlite3_step(statement);
    store->run++;
    if (store->run != store->fail_at)
        return sqlite3_step(statement);
    if (store->failure == STORE_FAILURE_AFTER)
        (void)sqlite3_step(statement); /* whatever it did, it is called a failure */
    return SQLITE_FULL;
}

enum err_code store_run(struct store *store, enum store_statement statement, struct err *reterr)
{
    sqlite3_stmt *prepared = store->statements[statement];
    int result = run_counted(store, prepared);
    store_leave(prepared);
    if (result == SQLITE_DONE)
        return ERR_NONE;
    return store_fail(store, result, "writing", reterr);
}

enum err_code store_next(struct store *store, sqlite3_stmt *statement, bool *ret_row,
                         struct err *reterr)
{
    int result = run_counted(store, statement);
    if (result == SQLITE_ROW) {
        *ret_row = true;
        return ERR_NONE;
    }
    store_leave(statement);
    if (result != SQLITE_DONE)
        return store_fail(store, result, "reading", reterr);
    *ret_row = false;
    return ERR_NONE;
}

/* ---- columns */

const char *store_column_peek(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text != NULL ? (const char *)text : "";
}

char *store_column_text(sqlite3_stmt *statement, int column)
{
    if (sqlite3_column_type(statement, column) == SQLITE_NULL)
        return NULL;
    return mem_strdup(store_column_peek(statement, column));
}

int64_t store_column_int(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_int64(statement, column);
}

int64_t store_column_known(sqlite3_stmt *statement, int column)
{
    if (sqlite3_column_type(statement, column) == SQLITE_NULL)
        return API_UNKNOWN;
    return sqlite3_column_int64(statement, column);
}

enum err_code store_column_count(const struct store *store, sqlite3_stmt *statement, int column,
                                 uint32_t max, uint32_t *ret_count, struct err *reterr)
{
    int64_t number = sqlite3_column_int64(statement, column);
    if (number < 0 || number > max)
        return store_corrupt(store, sqlite3_column_name(statement, column), reterr);
    *ret_count = (uint32_t)number;
    return ERR_NONE;
}

enum err_code store_column_uint(const struct store *store, sqlite3_stmt *statement, int column,
                                uint64_t *ret_number, struct err *reterr)
{
    int64_t number = sqlite3_column_int64(statement, column);
    if (number < 0)
        return store_corrupt(store, sqlite3_column_name(statement, column), reterr);
    *ret_number = (uint64_t)number;
    return ERR_NONE;
}

enum err_code store_column_enum(const struct store *store, sqlite3_stmt *statement, int column,
                                const char *const *names, int *ret_value, struct err *reterr)
{
    if (schema_enum_parse(names, store_column_peek(statement, column), ret_value))
        return ERR_NONE;
    return store_corrupt(store, sqlite3_column_name(statement, column), reterr);
}

/* ---- opening: what is there, before SQLite may touch it */

/* The folder that the database is in: free(). */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return mem_strdup(".");
    char *folder = mem_strdup(path);
    folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

/* SQLite keeps its log beside the database, so the folder must be writable, too. */
static enum err_code check_folder(const char *path, struct err *reterr)
{
    char *folder = folder_of(path);
    enum err_code code = ERR_NONE;
    struct stat status;
    if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode))
        code = err_set(reterr, ERR_IO, "database %s: there is no folder %s; make it first", path,
                       folder);
    else if (euidaccess(folder, W_OK | X_OK) != 0)
        code = err_set(reterr, ERR_IO, "database %s: folder %s is not writable: %s", path, folder,
                       strerror(errno));
    free(folder);
    return code;
}

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* A rollback journal beside the file: the database's making was cut short, and SQLite knows how to
 * undo it. */
static bool has_journal(const char *path)
{
    char *journal = mem_printf("%s-journal", path);
    bool there = access(journal, F_OK) == 0;
    free(journal);
    return there;
}

/*
 * Looks at the file's header without SQLite, which might recover, and so change, a database that is
 * not ours. The id stands in the header from the first commit on, because the tables are made
 * before the write-ahead log is switched on.
 */
static enum err_code check_header(const char *path, struct err *reterr)
{
    unsigned char header[100];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return ERR_NONE;
    if (fd < 0)
        return err_set(reterr, ERR_IO, "database %s can not be read: %s", path, strerror(errno));
    ssize_t bytes = read(fd, header, sizeof(header));
    int error = errno;
    (void)close(fd); /* it was only read */
    if (bytes < 0)
        return err_set(reterr, ERR_IO, "database %s can not be read: %s", path, strerror(error));
    if (bytes == 0)
        return ERR_NONE; /* an empty file is an empty database */
    if (bytes < (ssize_t)sizeof(header) || memcmp(header, "SQLite format 3", 16) != 0) {
        if (has_journal(path))
            return ERR_NONE;
        return err_set(
            reterr, ERR_CORRUPT,
            "%s is not a SQLite database, or its beginning is damaged; restore it from a "
            "backup, or name another file",
            path);
    }
    if (big_endian(header + 68) != STORE_APPLICATION_ID)
        return err_set(reterr, ERR_FOREIGN,
                       "database %s is not that of a baton coordinator; name another file", path);
    return ERR_NONE;
}

/* ---- opening: with SQLite */

static enum err_code execute(struct store *store, const char *sql, const char *doing,
                             struct err *reterr)
{
    int result = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return result == SQLITE_OK ? ERR_NONE : store_fail(store, result, doing, reterr);
}

/* The first column of the first row of a query that surely has one. */
static enum err_code query(struct store *store, const char *sql, char **ret_text,
                           struct err *reterr)
{
    sqlite3_stmt *statement;
    int result = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);
    if (result != SQLITE_OK)
        return store_fail(store, result, "reading", reterr);
    result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        *ret_text = mem_strdup(store_column_peek(statement, 0));
    (void)sqlite3_finalize(statement); /* repeats the step's error */
    return result == SQLITE_ROW ? ERR_NONE : store_fail(store, result, "reading", reterr);
}

static enum err_code query_number(struct store *store, const char *sql, int64_t *ret_number,
                                  struct err *reterr)
{
    char *text;
    enum err_code code = query(store, sql, &text, reterr);
    if (code != ERR_NONE)
        return code;
    *ret_number = strtoll(text, NULL, 10);
    free(text);
    return ERR_NONE;
}

static enum err_code check_intact(struct store *store, struct err *reterr)
{
    char *text;
    enum err_code code = query(store, "PRAGMA quick_check(1)", &text, reterr);
    if (code != ERR_NONE)
        return code;
    if (strcmp(text, "ok") != 0)
        code = store_corrupt(store, text, reterr);
    free(text);
    return code;
}

/* Runs the migrations from `version` on, inside the caller's transaction. */
static enum err_code migrate(struct store *store, int version, struct err *reterr)
{
    enum err_code code = ERR_NONE;
    while (code == ERR_NONE && version < store_schema_version())
        code = execute(store, store_schema_migration(++version), "making its tables", reterr);
    if (code != ERR_NONE)
        return code;
    char *sql = mem_printf("PRAGMA application_id = %d; PRAGMA user_version = %d",
                           STORE_APPLICATION_ID, version);
    code = execute(store, sql, "numbering its tables", reterr);
    free(sql);
    return code;
}

/* Inside a transaction that locks everybody else out: is it ours, whole, and of a version that we
 * know? Then up to date. */
static enum err_code check_and_migrate(struct store *store, struct err *reterr)
{
    int64_t application_id, version, tables;
    enum err_code code = query_number(store, "PRAGMA application_id", &application_id, reterr);
    if (code == ERR_NONE)
        code = query_number(store, "PRAGMA user_version", &version, reterr);
    if (code == ERR_NONE)
        code = query_number(store, "SELECT count(*) FROM sqlite_schema", &tables, reterr);
    if (code != ERR_NONE)
        return code;
    if (application_id == 0 && version == 0 && tables == 0)
        return migrate(store, 0, reterr);
    if (application_id != STORE_APPLICATION_ID)
        return err_set(reterr, ERR_FOREIGN,
                       "database %s is not that of a baton coordinator; name another file",
                       store->path);
    if (version > store_schema_version())
        return err_set(reterr, ERR_UNSUPPORTED,
                       "database %s was written by a newer baton (format %lld, this one knows %d); "
                       "install that version, or restore a backup from before the upgrade",
                       store->path, (long long)version, store_schema_version());
    code = check_intact(store, reterr);
    if (code == ERR_NONE && version < store_schema_version())
        code = migrate(store, (int)version, reterr);
    return code;
}

static enum err_code take_over(struct store *store, struct err *reterr)
{
    /* EXCLUSIVE before the first access: the lock is then held until the end, and the write-ahead
     * log needs no shared memory. */
    enum err_code code = execute(
        store, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF", "opening", reterr);
    if (code == ERR_NONE)
        code = execute(store, "BEGIN EXCLUSIVE", "locking", reterr);
    if (code != ERR_NONE)
        return code;
    code = check_and_migrate(store, reterr);
    if (code != ERR_NONE) {
        (void)execute(store, "ROLLBACK", "giving up", NULL); /* closing would do the same */
        return code;
    }
    code = execute(store, "COMMIT", "making its tables", reterr);
    if (code == ERR_NONE)
        code = execute(store,
                       "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                       "PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 16777216",
                       "opening", reterr);
    char *mode;
    if (code == ERR_NONE)
        code = query(store, "PRAGMA journal_mode = WAL", &mode, reterr);
    if (code != ERR_NONE)
        return code;
    if (strcmp(mode, "wal") != 0)
        code = err_set(reterr, ERR_UNSUPPORTED,
                       "database %s: its file system does not take a write-ahead log (mode %s)",
                       store->path, mode);
    free(mode);
    return code;
}

static enum err_code prepare(struct store *store, struct err *reterr)
{
    for (int i = 0; i < STORE_STATEMENT_COUNT; i++) {
        int result = sqlite3_prepare_v3(store->db, store_schema_statement((enum store_statement)i),
                                        -1, SQLITE_PREPARE_PERSISTENT, &store->statements[i], NULL);
        if (result != SQLITE_OK)
            return store_fail(store, result, sqlite3_errmsg(store->db), reterr);
    }
    return ERR_NONE;
}

static enum err_code open_file(struct store *store, struct err *reterr)
{
    int result = sqlite3_open_v2(store->path, &store->db,
                                 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                     SQLITE_OPEN_EXRESCODE,
                                 NULL);
    if (result != SQLITE_OK)
        return store_fail(store, result, "opening", reterr);
    if (sqlite3_db_readonly(store->db, "main") == 1)
        return err_set(reterr, ERR_IO, "database %s is not writable; check its owner and mode",
                       store->path);
    return ERR_NONE;
}

enum err_code store_open(const char *path, struct store **ret_store, struct err *reterr)
{
    enum err_code code = check_folder(path, reterr);
    if (code == ERR_NONE)
        code = check_header(path, reterr);
    if (code != ERR_NONE)
        return code;
    struct store *store = mem_calloc(1, sizeof(*store));
    store->path = mem_strdup(path);
    store->retention = (struct store_retention){EVENTS_KEPT, OPERATIONS_KEPT, HANDOFFS_KEPT, 0};
    code = open_file(store, reterr);
    if (code == ERR_NONE)
        code = take_over(store, reterr);
    if (code == ERR_NONE)
        code = prepare(store, reterr);
    if (code != ERR_NONE) {
        store_close(store);
        return code;
    }
    *ret_store = store;
    return ERR_NONE;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    for (int i = 0; i < STORE_STATEMENT_COUNT; i++)
        (void)sqlite3_finalize(store->statements[i]); /* repeats an old error */
    (void)sqlite3_close(
        store->db); /* nothing of it is left in use; what was committed is durable */
    free(store->path);
    free(store);
}

void store_retain(struct store *store, struct store_retention retention)
{
    store->retention = retention;
}
