#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/hook.h"

/*
 * A child passes these points, in this order, with BATON_HOOK set so; the read end of its stderr
 * and its status come back. What it writes fits into the pipe.
 */
static const char *const places[] = {"job/0/active", "job/1/active", "job/0/release",
                                     "job/0/active"};

static void pass_all(void)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        HOOK_AT("commit", "%s", places[i]);
        dprintf(STDERR_FILENO, "passed %zu\n", i);
    }
    HOOK("plain");
    dprintf(STDERR_FILENO, "passed plain\n");
}

static int run_child(const char *wanted, char *ret_text, size_t bytes)
{
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t got;

    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setenv("BATON_HOOK", wanted, 1);
        pass_all();
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], ret_text + used, bytes - 1 - used)) > 0)
        used += (size_t)got;
    ret_text[used] = '\0';
    close(ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

/* NULL for `says`: it is not to strike. */
static void expect(const char *wanted, const char *says, const char *last_passed)
{
    char text[1024];
    int status = run_child(wanted, text, sizeof(text));

    if (says == NULL) {
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: %d", wanted, status);
        cr_assert_null(strstr(text, "event=hook"), "%s: %s", wanted, text);
        return;
    }
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: %d %s", wanted, status,
              text);
    cr_assert_not_null(strstr(text, says), "%s: %s", wanted, text);
    cr_assert_eq(strstr(text, last_passed) != NULL, true, "%s: %s", wanted, text);
}

Test(hook, counts_all_passes_of_a_point)
{
    expect("commit:1:kill", "event=hook name=commit where=job/0/active action=kill\n", "");
    expect("commit:3:kill", "event=hook name=commit where=job/0/release action=kill\n", "passed 1");
    expect("commit:5:kill", NULL, NULL);
    expect("plain:1:kill", "event=hook name=plain where= action=kill\n", "passed 3");
}

Test(hook, counts_only_the_passes_at_its_place)
{
    expect("commit@job/0/release:1:kill", "where=job/0/release", "passed 1");
    expect("commit@job/0/active:2:kill", "where=job/0/active", "passed 2");
    expect("commit@job/1/active:2:kill", NULL, NULL);
    expect("commit@job/0:1:kill", NULL, NULL);
    expect("commit@job/0/release/more:1:kill", NULL, NULL);
    expect("com:1:kill", NULL, NULL);
    expect("commits:1:kill", NULL, NULL);
}

Test(hook, ends_when_its_wish_can_not_be_read)
{
    static const char *const wrong[] = {"commit:x:kill", "commit@", "commit:1", "commit:1:sing"};
    char text[1024];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int status = run_child(wrong[i], text, sizeof(text));
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s: %d", wrong[i], status);
        cr_assert_not_null(strstr(text, "BATON_HOOK: "), "%s: %s", wrong[i], text);
    }
}

static void *hold_here(void *arg)
{
    HOOK_AT("held", "%s", "here");
    *(volatile int *)arg = 1;
    return NULL;
}

/* Only the thread waits: this one opens the pipe meanwhile. */
Test(hook, holds_the_thread_until_the_pipe_is_opened, .timeout = 60)
{
    char path[64];
    pthread_t thread;
    volatile int passed = 0;

    snprintf(path, sizeof(path), "/tmp/baton-hook-%d", (int)getpid());
    cr_assert_eq(mkfifo(path, 0600), 0);
    setenv("BATON_HOOK", "held@here:1:hold", 1);
    setenv("BATON_HOOK_FIFO", path, 1);
    cr_assert_eq(pthread_create(&thread, NULL, hold_here, (void *)&passed), 0);
    int fd = open(path, O_WRONLY); /* waits for its reader, which is the thread that is held */
    cr_assert_geq(fd, 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(passed, 1);
    close(fd);
    unlink(path);
}
