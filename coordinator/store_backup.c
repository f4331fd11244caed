#include "coordinator/store_backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "coordinator/store_internal.h"

/* Of 4 KiB: what is read, written and synchronised in one slice. */
#define SLICE_PAGES 64

struct store_backup {
    char *path, *part;
    int fd; /* of the part, to synchronise it */
    sqlite3 *copy;
    sqlite3_backup *running;
    bool done;
};

static enum err_code fail_errno(const struct store_backup *backup, const char *doing,
                                struct err *reterr)
{
    return err_set(reterr, ERR_IO, "backup %s: %s: %s", backup->path, doing, strerror(errno));
}

static enum err_code fail_sqlite(const struct store_backup *backup, int result, struct err *reterr)
{
    return err_set(reterr, ERR_IO, "backup %s: %s", backup->path, sqlite3_errstr(result));
}

/* No journal and no synchronising of its own: a part that is not whole is thrown away, and slices
 * are synchronised one by one, so that the end does not take long. */
static enum err_code open_copy(struct store *store, struct store_backup *backup, struct err *reterr)
{
    char *pragmas = mem_printf("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"
                               "PRAGMA cache_size = %d",
                               SLICE_PAGES);
    int result =
        sqlite3_open_v2(backup->part, &backup->copy,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_exec(backup->copy, pragmas, NULL, NULL, NULL);
    free(pragmas);
    if (result != SQLITE_OK)
        return fail_sqlite(backup, result, reterr);
    backup->running = sqlite3_backup_init(backup->copy, "main", store->db, "main");
    if (backup->running == NULL)
        return fail_sqlite(backup, sqlite3_extended_errcode(backup->copy), reterr);
    return ERR_NONE;
}

enum err_code store_backup_begin(struct store *store, const char *path,
                                 struct store_backup **ret_backup, struct err *reterr)
{
    if (access(path, F_OK) == 0)
        return err_set(reterr, ERR_INVALID, "backup %s: there is such a file already", path);
    struct store_backup *backup = mem_calloc(1, sizeof(*backup));
    backup->path = mem_strdup(path);
    backup->part = mem_printf("%s.part", path);
    backup->fd = open(backup->part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    enum err_code code =
        backup->fd < 0 ? fail_errno(backup, "making it", reterr) : open_copy(store, backup, reterr);
    if (code != ERR_NONE) {
        store_backup_end(backup);
        return code;
    }
    *ret_backup = backup;
    return ERR_NONE;
}

static void close_copy(struct store_backup *backup)
{
    (void)sqlite3_backup_finish(backup->running); /* repeats the last step's error */
    (void)sqlite3_close(backup->copy);            /* nothing of it is left in use */
    backup->running = NULL;
    backup->copy = NULL;
}

/* The folder, too: else the name could be gone after a crash. */
static enum err_code sync_folder(const struct store_backup *backup, struct err *reterr)
{
    char *folder = mem_strdup(backup->path), *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    int fd = open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum err_code code =
        fd < 0 || fsync(fd) != 0 ? fail_errno(backup, "writing its folder", reterr) : ERR_NONE;
    if (fd >= 0)
        (void)close(fd); /* it was only synchronised */
    free(folder);
    return code;
}

static enum err_code complete(struct store_backup *backup, int64_t *ret_bytes, struct err *reterr)
{
    struct stat status;
    close_copy(backup);
    if (fdatasync(backup->fd) != 0 || fstat(backup->fd, &status) != 0)
        return fail_errno(backup, "writing it", reterr);
    if (rename(backup->part, backup->path) != 0)
        return fail_errno(backup, "giving it its name", reterr);
    backup->done = true;
    *ret_bytes = status.st_size;
    return sync_folder(backup, reterr);
}

enum err_code store_backup_step(struct store_backup *backup, bool *ret_done, int64_t *ret_bytes,
                                struct err *reterr)
{
    int result = sqlite3_backup_step(backup->running, SLICE_PAGES);
    *ret_done = result == SQLITE_DONE;
    if (result == SQLITE_DONE)
        return complete(backup, ret_bytes, reterr);
    if (result == SQLITE_OK)
        result = sqlite3_db_cacheflush(backup->copy);
    if (result != SQLITE_OK)
        return fail_sqlite(backup, result, reterr);
    if (fdatasync(backup->fd) != 0)
        return fail_errno(backup, "writing it", reterr);
    return ERR_NONE;
}

void store_backup_end(struct store_backup *backup)
{
    if (backup == NULL)
        return;
    close_copy(backup);
    if (backup->fd >= 0)
        (void)close(backup->fd); /* what counts was synchronised */
    if (!backup->done)
        (void)unlink(backup->part); /* it is in nobody's way */
    free(backup->path);
    free(backup->part);
    free(backup);
}
