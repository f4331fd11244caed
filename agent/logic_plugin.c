#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/logic_private.h"
#include "common/mem.h"

/* A file that was loaded. It is known by what it is, not by its name: several tasks use one, and
 * names can be re-used. */
struct plugin {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec modified;
    int fd; /* stays open, see load_file */
    const struct baton_processor *(*entry)(void);
};

/*
 * What this process has loaded; the one thing here that tasks share. `lock` protects all of it and
 * is held while a file is loaded, so that two tasks load it once. A plugin's constructors run under
 * it; they can not call the agent.
 */
static struct {
    pthread_mutex_t lock;
    struct plugin *items;
    size_t count;
    size_t capacity;
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Code in this process can do all the agent can, so only its user and root may have a say in it. */
static enum err_code check_trust(const char *path, const struct stat *status, struct err *reterr)
{
    if (status->st_uid != 0 && status->st_uid != geteuid())
        return err_set(reterr, ERR_INVALID,
                       "%s belongs to user %u; it must belong to root or to the agent's user %u: "
                       "chown it",
                       path, (unsigned)status->st_uid, (unsigned)geteuid());
    if ((status->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return err_set(reterr, ERR_INVALID,
                       "%s can be written by other users (mode %03o): chmod go-w it", path,
                       (unsigned)(status->st_mode & 0777));
    return ERR_NONE;
}

static enum err_code open_failed(const char *path, int error, struct err *reterr)
{
    enum err_code code;

    switch (error) {
    case ENOENT:
        code = err_set(reterr, ERR_NOT_FOUND,
                       "%s does not exist: put the plugin there on every agent that should run it",
                       path);
        break;
    case ELOOP:
        code =
            err_set(reterr, ERR_INVALID, "%s is a symbolic link: put the file itself there", path);
        break;
    default:
        code = err_set(reterr, ERR_IO, "%s can not be opened: %s", path, strerror(error));
        break;
    }
    if (reterr != NULL)
        reterr->detail = error;
    return code;
}

static enum err_code open_folder(const char *path, int *ret_fd, struct err *reterr)
{
    struct stat status;
    enum err_code code;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return open_failed(path, errno, reterr);
    if (fstat(fd, &status) != 0)
        code = err_set(reterr, ERR_IO, "%s: %s", path, strerror(errno));
    else
        code = check_trust(path, &status, reterr);
    if (code == ERR_NONE)
        *ret_fd = fd;
    else
        close(fd);
    return code;
}

/* Opens file `name` of the folder and checks what it has opened. O_NONBLOCK: a FIFO must not keep
 * the task waiting. */
static enum err_code open_file(int folder_fd, const char *name, const char *path, int *ret_fd,
                               struct stat *ret_status, struct err *reterr)
{
    enum err_code code = ERR_NONE;
    int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return open_failed(path, errno, reterr);
    if (fstat(fd, ret_status) != 0)
        code = err_set(reterr, ERR_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(ret_status->st_mode))
        code = err_set(reterr, ERR_INVALID, "%s is not a regular file", path);
    else
        code = check_trust(path, ret_status, reterr);
    if (code == ERR_NONE)
        *ret_fd = fd;
    else
        close(fd);
    return code;
}

static struct plugin *find_loaded(const struct stat *status)
{
    for (size_t i = 0; i < loaded.count; i++) {
        struct plugin *plugin = &loaded.items[i];

        if (plugin->device == status->st_dev && plugin->inode == status->st_ino)
            return plugin;
    }
    return NULL;
}

static bool is_unchanged(const struct plugin *plugin, const struct stat *status)
{
    return plugin->bytes == status->st_size && plugin->modified.tv_sec == status->st_mtim.tv_sec &&
           plugin->modified.tv_nsec == status->st_mtim.tv_nsec;
}

static enum err_code link_failed(const char *path, const char *loader_path, struct err *reterr)
{
    const char *text = dlerror();
    size_t prefix = strlen(loader_path);

    if (text == NULL)
        text = "no reason given";
    /* The loader names the file by the path it was given, which means nothing to the operator. */
    if (strncmp(text, loader_path, prefix) == 0 && strncmp(text + prefix, ": ", 2) == 0)
        text += prefix + 2;
    return err_set(reterr, ERR_UNSUPPORTED,
                   "%s can not be loaded: %s (is it a shared object for this machine, with all its "
                   "libraries there?)",
                   path, text);
}

/*
 * Loads what `fd` is open on and enters it in the list. The path through /proc makes the loader
 * take the very file that was checked, whatever has been put in its place since. The descriptor
 * stays open for ever: the loader knows objects by path, so a number that came back would get the
 * old object for another file.
 */
static enum err_code load_file(int fd, const struct stat *status, const char *path,
                               const struct plugin **ret_plugin, struct err *reterr)
{
    char loader_path[32];
    void *handle;
    void *symbol;
    struct plugin plugin = {.device = status->st_dev,
                            .inode = status->st_ino,
                            .bytes = status->st_size,
                            .modified = status->st_mtim,
                            .fd = fd};

    snprintf(loader_path, sizeof(loader_path), "/proc/self/fd/%d", fd);
    handle = dlopen(loader_path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        enum err_code code = link_failed(path, loader_path, reterr);

        close(fd);
        return code;
    }
    symbol = dlsym(handle, "baton_processor_entry");
    /* POSIX wants a data pointer to hold a function's; ISO C has no cast for it. */
    static_assert(sizeof(plugin.entry) == sizeof(symbol), "function pointers fit a void pointer");
    memcpy(&plugin.entry, &symbol, sizeof(symbol));
    loaded.items = mem_grow(loaded.items, loaded.count, &loaded.capacity, sizeof(*loaded.items));
    loaded.items[loaded.count] = plugin;
    *ret_plugin = &loaded.items[loaded.count++];
    return ERR_NONE;
}

/* Takes `fd` over. */
static enum err_code find_or_load(int fd, const struct stat *status, const char *path,
                                  const struct plugin **ret_plugin, struct err *reterr)
{
    const struct plugin *plugin = find_loaded(status);

    if (plugin == NULL)
        return load_file(fd, status, path, ret_plugin, reterr);
    close(fd);
    if (!is_unchanged(plugin, status))
        return err_set(reterr, ERR_CONFLICT,
                       "%s was overwritten while this agent had it loaded: restart the agent, and "
                       "replace plugins by moving a new file into place (mv, install)",
                       path);
    *ret_plugin = plugin;
    return ERR_NONE;
}

static bool is_text(const char *text, const char *expected)
{
    return text != NULL && strcmp(text, expected) == 0;
}

static enum err_code check_processor(const struct baton_processor *processor, const char *path,
                                     const struct logic_spec *spec, struct err *reterr)
{
    if (processor == NULL)
        return err_set(reterr, ERR_UNSUPPORTED, "%s: baton_processor_entry() returned NULL", path);
    /* Nothing after the ABI number is read before it is known to be ours. */
    if (processor->abi != BATON_PROCESSOR_ABI)
        return err_set(reterr, ERR_UNSUPPORTED,
                       "%s is built for processor ABI %u, this agent has %d: rebuild it with this "
                       "version's <baton/processor.h>",
                       path, (unsigned)processor->abi, BATON_PROCESSOR_ABI);
    if ((processor->flags & ~BATON_PROCESSOR_REBUILD_FROM_LATEST) != 0)
        return err_set(reterr, ERR_UNSUPPORTED,
                       "%s sets flags (0x%x) that this agent does not know", path,
                       (unsigned)processor->flags);
    if (!is_text(processor->name, spec->name) || !is_text(processor->version, spec->version))
        return err_set(
            reterr, ERR_UNSUPPORTED,
            "%s says it is \"%s\" version \"%s\": name the file <name>-<version>.so after "
            "that",
            path, processor->name != NULL ? processor->name : "",
            processor->version != NULL ? processor->version : "");
    if (processor->create == NULL || processor->process == NULL || processor->destroy == NULL)
        return err_set(reterr, ERR_UNSUPPORTED,
                       "%s: create, process and destroy must all be set in its baton_processor",
                       path);
    return ERR_NONE;
}

static enum err_code load_from(int folder_fd, const char *name, const char *path,
                               const struct logic_spec *spec,
                               const struct baton_processor **ret_processor, struct err *reterr)
{
    const struct baton_processor *(*entry)(void) = NULL;
    const struct baton_processor *processor;
    const struct plugin *plugin = NULL;
    struct stat status = {.st_size = 0};
    int fd = -1;
    enum err_code code = open_file(folder_fd, name, path, &fd, &status, reterr);

    if (code != ERR_NONE)
        return code;
    pthread_mutex_lock(&loaded.lock);
    code = find_or_load(fd, &status, path, &plugin, reterr);
    if (plugin != NULL)
        entry = plugin->entry; /* the list may move once the lock is free */
    pthread_mutex_unlock(&loaded.lock);
    if (code != ERR_NONE)
        return code;
    if (entry == NULL)
        return err_set(reterr, ERR_UNSUPPORTED,
                       "%s does not export baton_processor_entry (see <baton/processor.h>)", path);
    processor = entry();
    code = check_processor(processor, path, spec, reterr);
    if (code == ERR_NONE)
        *ret_processor = processor;
    return code;
}

enum err_code logic_plugin_load(const struct logic_spec *spec,
                                const struct baton_processor **ret_processor, struct err *reterr)
{
    enum err_code code;
    char *name;
    char *path;
    int folder_fd = -1;

    if (spec->plugin_dir == NULL || spec->plugin_dir[0] == '\0')
        return err_set(reterr, ERR_NOT_FOUND,
                       "this agent has no plugin_dir: set it and put %s-%s.so there", spec->name,
                       spec->version);
    code = open_folder(spec->plugin_dir, &folder_fd, reterr);
    if (code != ERR_NONE)
        return code;
    name = mem_printf("%s-%s.so", spec->name, spec->version);
    path = mem_printf("%s/%s", spec->plugin_dir, name);
    code = load_from(folder_fd, name, path, spec, ret_processor, reterr);
    free(path);
    free(name);
    close(folder_fd);
    return code;
}
