#include "agent/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "api/types.h"
#include "common/mem.h"

#define LINE_BYTES_MAX 256
/* The last lines are of interest, and a crash adds one. */
#define TAIL_BYTES (LINE_BYTES_MAX * (CRASHES_MAX + 1))

struct crash_file {
    char *path;
    char *parent; /* folder of it */
    char *incarnation;
    char *build;
    char *prefix; /* "c1 <incarnation> <build> " */
};

/* What the thread is at; the handler runs in the thread that has crashed. */
static _Thread_local struct {
    const struct crash_file *file; /* NULL: not inside of the logic */
    struct crash_place place;
} inside;

static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#define CAUGHT_COUNT (sizeof(caught) / sizeof(caught[0]))

/* What was done with them before: the default, or a sanitizer's report. */
static struct sigaction before[CAUGHT_COUNT];

/* ---- in the handler: only what is async-signal-safe */

static size_t put_text(char *line, size_t at, const char *text)
{
    for (; *text != '\0' && at < LINE_BYTES_MAX - 1; text++)
        line[at++] = *text;
    return at;
}

static size_t put_number(char *line, size_t at, uint64_t number)
{
    char digits[21];
    size_t first = sizeof(digits) - 1;

    digits[first] = '\0';
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return put_text(line, at, &digits[first]);
}

static void note(const struct crash_file *file, struct crash_place place)
{
    char line[LINE_BYTES_MAX];
    size_t bytes = put_text(line, 0, file->prefix);
    int fd = open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    ssize_t written;

    if (fd < 0)
        return; /* there is nobody to tell */
    bytes = put_number(line, bytes, place.topic);
    bytes = put_text(line, bytes, " ");
    bytes = put_number(line, bytes, place.partition);
    bytes = put_text(line, bytes, " ");
    bytes = put_number(line, bytes, (uint64_t)place.offset);
    line[bytes++] = '\n';
    written = write(fd, line, bytes);
    (void)written; /* as above; a line that is cut does not count */
}

/* The signal is raised again, for whoever had it before, and comes when the handler has returned.
 */
static void handle(int signal)
{
    const struct crash_file *file = inside.file;
    int error = errno;

    inside.file = NULL;
    if (file != NULL)
        note(file, inside.place);
    for (size_t i = 0; i < CAUGHT_COUNT; i++)
        if (caught[i] == signal)
            (void)sigaction(signal, &before[i], NULL); /* it took the same one before */
    errno = error;
    (void)raise(signal);
}

void crash_install(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};

    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < CAUGHT_COUNT; i++)
        (void)sigaction(caught[i], &action, &before[i]); /* fails for what is no signal only */
}

/* ---- the thread */

void crash_thread_begin(void)
{
    static _Thread_local unsigned char alternate[16 * 1024];
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    stack_t present;

    if (sigaltstack(NULL, &present) == 0 && (present.ss_flags & SS_DISABLE) == 0)
        return;                      /* a sanitizer's, which it frees itself */
    (void)sigaltstack(&stack, NULL); /* without it only an overflow of the stack is not noted */
}

void crash_enter(const struct crash_file *file, struct crash_place place)
{
    inside.place = place;
    inside.file = file;
}

void crash_leave(void)
{
    inside.file = NULL;
}

/* ---- the file */

/* False: it can not be read to its end. */
static bool digest(int fd, uint64_t *ret_digest)
{
    XXH3_state_t state;
    unsigned char bytes[16 * 1024];
    ssize_t got;

    (void)XXH3_64bits_reset(&state); /* these fail for NULL only */
    while ((got = read(fd, bytes, sizeof(bytes))) > 0)
        (void)XXH3_64bits_update(&state, bytes, (size_t)got);
    *ret_digest = XXH3_64bits_digest(&state);
    return got == 0;
}

char *crash_build(const char *path)
{
    uint64_t sum;
    bool whole;
    int fd;

    if (path == NULL)
        return mem_strdup("builtin");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mem_strdup("");
    whole = digest(fd, &sum);
    (void)close(fd); /* only read from */
    return whole ? mem_printf("%016" PRIx64, sum) : mem_strdup("");
}

struct crash_file *crash_file_create(const char *directory, const char *incarnation,
                                     const char *build)
{
    struct crash_file *file = mem_calloc(1, sizeof(*file));
    const char *slash = strrchr(directory, '/');
    char *parent = mem_strdup(directory);

    if (slash != NULL) {
        parent[slash - directory] = '\0';
        (void)mkdir(parent, 0700); /* it is there, or the store will say what is wrong */
    }
    file->parent = parent;
    file->incarnation = mem_strdup(incarnation);
    file->path = mem_printf("%s.crashes", directory);
    file->build = mem_strdup(build[0] != '\0' ? build : "?");
    file->prefix = mem_printf("c1 %s %s ", incarnation, file->build);
    return file;
}

void crash_file_destroy(struct crash_file *file)
{
    if (file == NULL)
        return;
    free(file->path);
    free(file->parent);
    free(file->incarnation);
    free(file->build);
    free(file->prefix);
    free(file);
}

/* The end of the file as a text; its first line may be cut. */
static void read_tail(const char *path, char *ret_text, size_t bytes_max)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    off_t end;
    ssize_t bytes = 0;

    ret_text[0] = '\0';
    if (fd < 0)
        return;
    end = lseek(fd, 0, SEEK_END);
    if (end > 0)
        bytes = pread(fd, ret_text, bytes_max - 1,
                      end > (off_t)bytes_max - 1 ? end - ((off_t)bytes_max - 1) : 0);
    ret_text[bytes > 0 ? bytes : 0] = '\0';
    (void)close(fd); /* only read from */
}

/* False: the line is not of this build of the logic, or not whole. */
static bool read_line(const char *prefix, const char *line, struct crash_place *ret_place)
{
    int used = 0;

    if (strncmp(line, prefix, strlen(prefix)) != 0)
        return false;
    line += strlen(prefix);
    return sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNd64 "%n", &ret_place->topic,
                  &ret_place->partition, &ret_place->offset, &used) == 3 &&
           line[used] == '\0' && ret_place->offset >= 0;
}

static uint32_t count_in_a_row(const char *path, const char *prefix, struct crash_place *ret_place)
{
    char text[TAIL_BYTES + 1], *rest = text, *line;
    uint32_t count = 0;

    read_tail(path, text, sizeof(text));
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        struct crash_place place;

        if (!read_line(prefix, line, &place)) {
            count = 0;
            continue;
        }
        if (count > 0 &&
            (place.topic != ret_place->topic || place.partition != ret_place->partition ||
             place.offset != ret_place->offset))
            count = 0;
        *ret_place = place;
        count++;
    }
    return count;
}

uint32_t crash_file_count(const struct crash_file *file, struct crash_place *ret_place)
{
    return count_in_a_row(file->path, file->prefix, ret_place);
}

/* What the last whole line is of: "c1 <incarnation> <build> ..." */
static bool read_last(const char *path, char **ret_incarnation, char **ret_build)
{
    char text[TAIL_BYTES + 1], incarnation[LINE_BYTES_MAX], build[LINE_BYTES_MAX];
    char *rest = text, *line, *last = NULL;

    read_tail(path, text, sizeof(text));
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL)
        last = line;
    if (last == NULL || strlen(last) >= LINE_BYTES_MAX ||
        sscanf(last, "c1 %255s %255s ", incarnation, build) != 2)
        return false;
    *ret_incarnation = mem_strdup(incarnation);
    *ret_build = mem_strdup(build);
    return true;
}

bool crash_file_last(const char *path, char **ret_incarnation, char **ret_build,
                     struct crash_place *ret_place, uint32_t *ret_count)
{
    char *incarnation, *build, *prefix;

    if (!read_last(path, &incarnation, &build))
        return false;
    prefix = mem_printf("c1 %s %s ", incarnation, build);
    *ret_count = count_in_a_row(path, prefix, ret_place);
    free(prefix);
    if (*ret_count == 0) {
        free(incarnation);
        free(build);
        return false;
    }
    *ret_incarnation = incarnation;
    *ret_build = build;
    return true;
}

bool crash_file_noted(const struct crash_file *file, struct crash_place *ret_place)
{
    char *incarnation, *build;
    uint32_t count;
    bool mine;

    if (!crash_file_last(file->path, &incarnation, &build, ret_place, &count))
        return false;
    mine = strcmp(incarnation, file->incarnation) == 0;
    free(incarnation);
    free(build);
    return mine;
}

enum err_code crash_file_forget(const struct crash_file *file, struct err *reterr)
{
    enum err_code code = ERR_NONE;
    int fd;

    if (unlink(file->path) != 0 && errno != ENOENT)
        return err_set(reterr, ERR_IO, "%s: remove it: %s", file->path, strerror(errno));
    fd = open(file->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(reterr, ERR_IO, "%s: open the directory: %s", file->parent, strerror(errno));
    if (fsync(fd) != 0)
        code = err_set(reterr, ERR_IO, "%s: sync the directory: %s", file->parent, strerror(errno));
    (void)close(fd); /* synced, or reported already */
    return code;
}

const char *crash_file_build(const struct crash_file *file)
{
    return file->build;
}
