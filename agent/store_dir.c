/* Directories of states: making, locking, setting aside. */
#include "agent/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

#define LOCK_FILE       "lock"
#define AGENT_LOCK_FILE "agent.lock"
#define REASON_FILE     "reason"
#define HOLDER_BYTES    512 /* of a lock file's text that is read */
#define ASIDE_MAX       10000
#define LOCK_TRIES      10

char *store_dir_path(const char *directory, const char *name)
{
    return mem_printf("%s/%s", directory, name);
}

static enum err_code io_error(struct err *reterr, const char *path, const char *doing)
{
    const int detail = errno;
    const enum err_code code =
        err_set(reterr, ERR_IO, "%s: can not %s: %s", path, doing, strerror(detail));

    if (reterr != NULL)
        reterr->detail = detail;
    return code;
}

/* ---- making -----------------------------------------------------------------------------------
 */

enum err_code store_dir_create(const char *directory, struct err *reterr)
{
    char *path = mem_strdup(directory);
    enum err_code code = ERR_NONE;

    for (char *end = path + 1; code == ERR_NONE && *end != '\0'; end++) {
        if (*end != '/')
            continue;
        *end = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            code = io_error(reterr, path, "create the directory");
        *end = '/';
    }
    if (code == ERR_NONE && mkdir(path, 0700) != 0 && errno != EEXIST)
        code = io_error(reterr, path, "create the directory");
    free(path);
    return code;
}

enum err_code store_dir_remove(const char *directory, const char *name, struct err *reterr)
{
    char *path = store_dir_path(directory, name);
    enum err_code code = ERR_NONE;

    if (unlink(path) != 0 && errno != ENOENT)
        code = io_error(reterr, path, "remove it");
    free(path);
    return code;
}

enum err_code store_dir_sync(const char *directory, struct err *reterr)
{
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum err_code code = ERR_NONE;

    if (fd < 0)
        return io_error(reterr, directory, "open the directory");
    if (fsync(fd) != 0)
        code = io_error(reterr, directory, "sync the directory");
    (void)close(fd); /* synced, or reported already */
    return code;
}

/* ---- locks ------------------------------------------------------------------------------------
 */

/* First line of the file; empty when there is none. */
static void read_line(int fd, char line[HOLDER_BYTES])
{
    const ssize_t bytes = pread(fd, line, HOLDER_BYTES - 1, 0);

    line[bytes < 0 ? 0 : bytes] = '\0';
    line[strcspn(line, "\n")] = '\0';
}

/* The new line is there before what is left of a longer one is cut: a kill between leaves no empty
 * file. */
static enum err_code write_line(int fd, const char *path, const char *line, struct err *reterr)
{
    const size_t bytes = strlen(line);

    if (pwrite(fd, line, bytes, 0) != (ssize_t)bytes || ftruncate(fd, (off_t)bytes) != 0)
        return io_error(reterr, path, "write to it");
    return ERR_NONE;
}

static bool is_still_at(int fd, const char *path)
{
    struct stat held, there;

    return fstat(fd, &held) == 0 && stat(path, &there) == 0 && held.st_dev == there.st_dev &&
           held.st_ino == there.st_ino;
}

/* ERR_LOCKED with the holder's line as text. */
static enum err_code lock_file(const char *path, int *ret_fd, struct err *reterr)
{
    char holder[HOLDER_BYTES];

    for (int i = 0; i < LOCK_TRIES; i++) {
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
            return io_error(reterr, path, "open or create it");
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            /* The file may have been set aside with its directory while we opened it. */
            if (is_still_at(fd, path)) {
                *ret_fd = fd;
                return ERR_NONE;
            }
            (void)close(fd); /* nothing was written */
            continue;
        }
        if (errno == EWOULDBLOCK) {
            read_line(fd, holder);
            (void)close(fd); /* nothing was written */
            return err_set(reterr, ERR_LOCKED, "%s", holder);
        }
        if (errno != EINTR) {
            const enum err_code code = io_error(reterr, path, "lock it");
            (void)close(fd); /* nothing was written */
            return code;
        }
        (void)close(fd); /* nothing was written */
    }
    return err_set(reterr, ERR_LOCKED, "(changing)");
}

enum err_code store_dir_lock(const char *directory, int *ret_fd, struct err *reterr)
{
    char *path = store_dir_path(directory, LOCK_FILE);
    struct err error;
    char line[32];
    int fd = -1;
    enum err_code code = lock_file(path, &fd, &error);

    if (code == ERR_LOCKED)
        (void)err_set(&error, ERR_LOCKED, "state %s is held by another process, pid %s", directory,
                      error.text[0] == '\0' ? "unknown" : error.text);
    if (code == ERR_NONE) {
        (void)snprintf(line, sizeof(line), "%ld\n", (long)getpid()); /* fits */
        code = write_line(fd, path, line, &error);
        if (code != ERR_NONE)
            (void)close(fd); /* the error is reported */
    }
    if (code == ERR_NONE)
        *ret_fd = fd;
    else if (reterr != NULL)
        *reterr = error;
    free(path);
    return code;
}

/* "<agent id> <pid>": cuts the line in two; the pid is empty when there is none. */
static const char *split_holder(char *line)
{
    char *space = strrchr(line, ' ');

    if (space == NULL)
        return "";
    *space = '\0';
    return space + 1;
}

static enum err_code claim(int fd, const char *path, const char *state_dir, const char *agent_id,
                           struct err *reterr)
{
    char holder[HOLDER_BYTES];
    char *line;
    enum err_code code;

    read_line(fd, holder);
    (void)split_holder(holder);
    if (holder[0] != '\0' && strcmp(holder, agent_id) != 0)
        return err_set(reterr, ERR_FOREIGN,
                       "state_dir %s was made by agent '%s', this is agent '%s': give each agent "
                       "its own state_dir; when agent '%s' is gone for good and its state shall be "
                       "taken over, remove %s",
                       state_dir, holder, agent_id, holder, path);
    line = mem_printf("%s %ld\n", agent_id, (long)getpid());
    code = write_line(fd, path, line, reterr);
    free(line);
    return code;
}

enum err_code store_lock_directory(const char *state_dir, const char *agent_id, int *ret_fd,
                                   struct err *reterr)
{
    char *path = store_dir_path(state_dir, AGENT_LOCK_FILE);
    struct err error;
    int fd = -1;
    enum err_code code = store_dir_create(state_dir, &error);

    if (code == ERR_NONE)
        code = lock_file(path, &fd, &error);
    if (code == ERR_LOCKED) {
        const char *pid = split_holder(error.text);

        (void)err_set(&error, ERR_LOCKED,
                      "state_dir %s is in use by agent '%s', pid %s: give each agent its own "
                      "state_dir",
                      state_dir, error.text, pid[0] == '\0' ? "unknown" : pid);
    }
    if (code == ERR_NONE) {
        code = claim(fd, path, state_dir, agent_id, &error);
        if (code != ERR_NONE)
            (void)close(fd); /* the error is reported */
    }
    if (code == ERR_NONE)
        *ret_fd = fd;
    else if (reterr != NULL)
        *reterr = error;
    free(path);
    return code;
}

/* ---- setting aside ----------------------------------------------------------------------------
 */

/* For people: a failure loses the text only. */
static void leave_reason(const char *directory, const char *reason)
{
    char *path = store_dir_path(directory, REASON_FILE);
    FILE *file = fopen(path, "we");

    if (file != NULL) {
        (void)fprintf(file, "%s\n", reason);
        (void)fclose(file);
    }
    free(path);
}

enum err_code store_dir_set_aside(const char *directory, const char *reason, struct err *reterr)
{
    enum err_code code = ERR_NONE;
    bool renamed = false;

    leave_reason(directory, reason);
    for (int i = 1; i <= ASIDE_MAX && !renamed && code == ERR_NONE; i++) {
        char *aside = mem_printf("%s.aside-%d", directory, i);

        /* The directory is not empty (it holds the lock file), so rename replaces nothing. */
        if (access(aside, F_OK) != 0) {
            renamed = rename(directory, aside) == 0;
            if (!renamed && errno != ENOTEMPTY && errno != EEXIST)
                code = io_error(reterr, directory, "set it aside");
        }
        free(aside);
    }
    if (code == ERR_NONE && !renamed)
        code =
            err_set(reterr, ERR_IO, "%s: %d states were set aside already", directory, ASIDE_MAX);
    return code;
}
