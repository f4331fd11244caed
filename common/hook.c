#include "common/hook.h"

#ifdef BATON_TEST_HOOKS

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hook_pass(const char *name)
{
    static atomic_uint passed;
    const char *wanted = getenv("BATON_HOOK");
    size_t length = strlen(name);
    unsigned int count;
    char action[8];

    if (wanted == NULL || strncmp(wanted, name, length) != 0 || wanted[length] != ':')
        return;
    if (sscanf(wanted + length + 1, "%u:%7s", &count, action) != 2) {
        (void)fprintf(stderr, "BATON_HOOK must be name:count:kill or name:count:stop\n");
        abort();
    }
    if (atomic_fetch_add(&passed, 1) + 1 == count)
        (void)raise(strcmp(action, "stop") == 0 ? SIGSTOP : SIGKILL);
}

#else

/* An empty translation unit is not C. */
typedef int hook_is_for_test_builds;

#endif
