#include "common/hook.h"

#ifdef BATON_TEST_HOOKS

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACE_BYTES 256

static void give_up(const char *why)
{
    (void)fprintf(stderr, "BATON_HOOK: %s; it is name[@where]:count:kill, stop or hold\n", why);
    abort();
}

/* What follows the name of the point in `wanted`, or NULL when it names another one. */
static const char *skip_name(const char *wanted, const char *name)
{
    size_t length = strlen(name);

    if (wanted == NULL || strncmp(wanted, name, length) != 0 ||
        (wanted[length] != ':' && wanted[length] != '@'))
        return NULL;
    return wanted + length;
}

/* What follows the place in `wanted`, or NULL when it names another one. */
static const char *skip_place(const char *wanted, const char *place)
{
    const char *colon = strchr(wanted, ':');

    if (colon == NULL)
        give_up("no count");
    if (*wanted == ':')
        return wanted;
    wanted++;
    return strlen(place) == (size_t)(colon - wanted) &&
                   strncmp(wanted, place, (size_t)(colon - wanted)) == 0
               ? colon
               : NULL;
}

/* Opening a pipe for reading waits for its writer. */
static void hold(void)
{
    const char *path = getenv("BATON_HOOK_FIFO");
    int fd;

    if (path == NULL)
        give_up("BATON_HOOK_FIFO is not set");
    do
        fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        give_up("BATON_HOOK_FIFO can not be opened");
    (void)close(fd); /* only read from */
}

static void strike(const char *name, const char *place, const char *action)
{
    (void)dprintf(STDERR_FILENO, "event=hook name=%s where=%s action=%s\n", name, place, action);
    if (strcmp(action, "kill") == 0)
        (void)raise(SIGKILL);
    else if (strcmp(action, "stop") == 0)
        (void)raise(SIGSTOP);
    else if (strcmp(action, "hold") == 0)
        hold();
    else
        give_up("no such action");
}

void hook_pass(const char *name, const char *where, ...)
{
    static atomic_uint passed;
    const char *rest = skip_name(getenv("BATON_HOOK"), name);
    char place[PLACE_BYTES] = "";
    unsigned int count;
    char action[8];
    va_list arguments;

    if (rest == NULL)
        return;
    if (where != NULL) {
        va_start(arguments, where);
        (void)vsnprintf(place, sizeof(place), where, arguments);
        va_end(arguments);
    }
    rest = skip_place(rest, place);
    if (rest == NULL)
        return;
    if (sscanf(rest, ":%u:%7s", &count, action) != 2)
        give_up("no action");
    if (atomic_fetch_add(&passed, 1) + 1 == count)
        strike(name, place, action);
}

#else

/* An empty translation unit is not C. */
typedef int hook_is_for_test_builds;

#endif
