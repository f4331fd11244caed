/*
 * Named points at which a test can end or hold the process, to show what a crash exactly there
 * leaves. In test builds only (BATON_TEST_HOOKS); elsewhere HOOK and HOOK_AT do nothing.
 *
 * BATON_HOOK=name[@where]:count:action in the environment acts when the point `name` is passed for
 * the count-th time (1..). Many points are passed by several tasks, over and over: with @where only
 * the passes of HOOK_AT count whose place is exactly that, such as a job, processor and phase. Any
 * thread may pass a point. Actions:
 *
 *   kill   SIGKILL to itself
 *   stop   SIGSTOP to itself (a test resumes it with SIGCONT)
 *   hold   only the thread waits, all others go on: until somebody opens the named pipe
 *          BATON_HOOK_FIFO for writing
 *
 * Whatever strikes says so before, on stderr (event=hook), for a test to know that it did.
 */
#ifndef BATON_COMMON_HOOK_H
#define BATON_COMMON_HOOK_H

#include <stddef.h>

/* `where` is the format of the place, NULL: it has none. */
void hook_pass(const char *name, const char *where, ...) __attribute__((format(printf, 2, 3)));

#ifdef BATON_TEST_HOOKS
#define HOOK_AT(name, ...) hook_pass(name, __VA_ARGS__)
#else
/* Compiled, so that it stays right, and left out. */
#define HOOK_AT(name, ...)                                                                         \
    do {                                                                                           \
        if (0)                                                                                     \
            hook_pass(name, __VA_ARGS__);                                                          \
    } while (0)
#endif
#define HOOK(name) HOOK_AT(name, NULL)

#endif
