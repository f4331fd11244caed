/* States that nobody uses any more are dropped when they have been left alone for long enough. */
#include "agent/store_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/schema.h"
#include "common/mem.h"

/* What a removal that was interrupted left behind; no task opens it. */
#define REMOVING_SUFFIX ".removing"
#define ASIDE_MARK      ".aside-"

struct expiry {
    const struct store_expire *order;
    const char *job; /* the directory's name */
};

static int64_t wall_ms(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000 + time->tv_nsec / 1000000;
}

/* ---- one folder */

/* Calls visit for each entry; stops at the first failure. */
static enum err_code each_entry(const char *directory,
                                enum err_code (*visit)(void *arg, const char *path,
                                                       const struct stat *about,
                                                       struct err *reterr),
                                void *arg, struct err *reterr)
{
    DIR *open = opendir(directory);
    struct dirent *entry;
    enum err_code code = ERR_NONE;

    if (open == NULL)
        return err_set(reterr, ERR_IO, "%s: %s", directory, strerror(errno));
    while (code == ERR_NONE && (entry = readdir(open)) != NULL) {
        char *path;
        struct stat about;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        path = store_dir_path(directory, entry->d_name);
        if (lstat(path, &about) == 0)
            code = visit(arg, path, &about, reterr);
        else if (errno != ENOENT)
            code = err_set(reterr, ERR_IO, "%s: %s", path, strerror(errno));
        free(path);
    }
    (void)closedir(open); /* only read from */
    return code;
}

struct use {
    int64_t last_at; /* newest change of content, name or owner: a copied state counts from then */
    uint64_t bytes;
};

static enum err_code note_use(void *arg, const char *path, const struct stat *about,
                              struct err *reterr)
{
    struct use *use = arg;

    (void)path;
    (void)reterr;
    if (wall_ms(&about->st_mtim) > use->last_at)
        use->last_at = wall_ms(&about->st_mtim);
    if (wall_ms(&about->st_ctim) > use->last_at)
        use->last_at = wall_ms(&about->st_ctim);
    use->bytes += (uint64_t)about->st_blocks * 512;
    return ERR_NONE;
}

static enum err_code find_use(const char *directory, struct use *ret_use, struct err *reterr)
{
    struct stat about;

    *ret_use = (struct use){0};
    if (stat(directory, &about) != 0)
        return err_set(reterr, ERR_IO, "%s: %s", directory, strerror(errno));
    (void)note_use(ret_use, directory, &about, reterr); /* it always succeeds */
    return each_entry(directory, note_use, ret_use, reterr);
}

static enum err_code remove_file(void *arg, const char *path, const struct stat *about,
                                 struct err *reterr)
{
    (void)arg;
    if (S_ISDIR(about->st_mode))
        return err_set(reterr, ERR_IO, "%s is a directory, which no state has", path);
    if (unlink(path) != 0 && errno != ENOENT)
        return err_set(reterr, ERR_IO, "%s: can not remove it: %s", path, strerror(errno));
    return ERR_NONE;
}

static enum err_code remove_folder(const char *directory, struct err *reterr)
{
    enum err_code code = each_entry(directory, remove_file, NULL, reterr);

    if (code == ERR_NONE && rmdir(directory) != 0)
        code = err_set(reterr, ERR_IO, "%s: can not remove it: %s", directory, strerror(errno));
    return code;
}

/* Out of the way of whoever opens it first: a kill in between leaves no half of a state there. */
static enum err_code take_away(const char *directory, struct err *reterr)
{
    char *removing = mem_printf("%s%s", directory, REMOVING_SUFFIX);
    enum err_code code = ERR_NONE;

    if (rename(directory, removing) != 0)
        code = err_set(reterr, ERR_IO, "%s: can not rename it: %s", directory, strerror(errno));
    if (code == ERR_NONE)
        code = remove_folder(removing, reterr);
    free(removing);
    return code;
}

/* ---- which */

static bool ends_with(const char *name, const char *suffix)
{
    size_t bytes = strlen(name), suffix_bytes = strlen(suffix);

    return bytes > suffix_bytes && strcmp(name + bytes - suffix_bytes, suffix) == 0;
}

/* "3", or what was "3" before it was set aside. */
static bool read_name(const char *name, uint32_t *ret_processor, bool *ret_aside)
{
    char text[16];
    size_t bytes = strspn(name, "0123456789");

    *ret_aside = strncmp(name + bytes, ASIDE_MARK, strlen(ASIDE_MARK)) == 0;
    if (bytes == 0 || bytes >= sizeof(text) || (name[bytes] != '\0' && !*ret_aside))
        return false;
    memcpy(text, name, bytes);
    text[bytes] = '\0';
    return store_read_processor(text, ret_processor);
}

static void expire(const struct expiry *expiry, const char *directory)
{
    const struct store_expire *order = expiry->order;
    struct use use;
    struct err error = {0};
    int lock_fd = -1;
    enum err_code code = find_use(directory, &use, &error);

    if (code == ERR_NONE && order->now_at - use.last_at < order->age_ms)
        return;
    /* Whoever opens it meanwhile waits, and finds nothing there afterwards. The lock's own line is
     * a use, too, so the age comes first. */
    if (code == ERR_NONE)
        code = store_dir_lock(directory, &lock_fd, &error);
    if (code == ERR_LOCKED)
        return; /* in use */
    if (code == ERR_NONE)
        code = take_away(directory, &error);
    if (lock_fd >= 0)
        (void)close(lock_fd); /* nothing was written that matters */
    if (code == ERR_NONE)
        order->dropped(order->arg, directory, order->now_at - use.last_at, use.bytes);
    else
        order->failed(order->arg, directory, error.text);
}

static enum err_code visit_state(void *arg, const char *path, const struct stat *about,
                                 struct err *reterr)
{
    const struct expiry *expiry = arg;
    const struct store_expire *order = expiry->order;
    const char *name = strrchr(path, '/') + 1;
    uint32_t processor;
    bool aside;

    (void)reterr;
    if (!S_ISDIR(about->st_mode))
        return ERR_NONE;
    if (ends_with(name, REMOVING_SUFFIX)) {
        struct err error = {0};

        if (remove_folder(path, &error) != ERR_NONE)
            order->failed(order->arg, path, error.text);
    } else if (read_name(name, &processor, &aside) &&
               (aside || !order->wanted(order->arg, expiry->job, processor))) {
        expire(expiry, path);
    }
    return ERR_NONE;
}

static enum err_code visit_job(void *arg, const char *path, const struct stat *about,
                               struct err *reterr)
{
    struct expiry expiry = {.order = arg, .job = strrchr(path, '/') + 1};
    struct err error = {0};

    (void)reterr;
    if (!S_ISDIR(about->st_mode) || !schema_name_valid(expiry.job))
        return ERR_NONE;
    if (each_entry(path, visit_state, &expiry, &error) != ERR_NONE)
        expiry.order->failed(expiry.order->arg, path, error.text);
    (void)rmdir(path); /* only when it is empty; a task that is to come makes it anew */
    return ERR_NONE;
}

void store_expire(const struct store_expire *order)
{
    struct err error = {0};

    if (each_entry(order->state_dir, visit_job, (void *)(uintptr_t)order, &error) != ERR_NONE)
        order->failed(order->arg, order->state_dir, error.text);
}
