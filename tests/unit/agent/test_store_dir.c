/* state_dir's lock: one agent, known by its id. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct store_fixture fixture;
static char state_dir[96], lock_path[128];

static void setup(void)
{
    fixture_init(&fixture);
    snprintf(state_dir, sizeof(state_dir), "%s/a/state", fixture.root);
    snprintf(lock_path, sizeof(lock_path), "%s/agent.lock", state_dir);
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store_dir, .init = setup, .fini = teardown);

static void read_lock(char text[256])
{
    const int fd = open(lock_path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes;

    cr_assert_geq(fd, 0);
    bytes = read(fd, text, 255);
    cr_assert_geq(bytes, 0);
    text[bytes] = '\0';
    cr_assert_eq(close(fd), 0);
}

static void write_lock(const char *text)
{
    const int fd = open(lock_path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    cr_assert_eq(close(fd), 0);
}

Test(store_dir, lock_holds_the_agent_and_its_pid)
{
    char text[256], wanted[64];
    int fd = -1;

    cr_assert_eq(store_lock_directory(state_dir, "agent-1", &fd, NULL), ERR_NONE);
    snprintf(wanted, sizeof(wanted), "agent-1 %d\n", getpid());
    read_lock(text);
    cr_assert_str_eq(text, wanted);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    cr_assert_eq(close(fd), 0);
}

Test(store_dir, second_live_agent_is_refused_and_told_who_is_there)
{
    char wanted[32];
    struct err error = {0};
    int fd = -1, second = -1;

    cr_assert_eq(store_lock_directory(state_dir, "agent-1", &fd, NULL), ERR_NONE);
    for (int i = 0; i < 2; i++) {
        /* The same id too: a cloned host. */
        cr_assert_eq(
            store_lock_directory(state_dir, i == 0 ? "agent-2" : "agent-1", &second, &error),
            ERR_LOCKED);
        snprintf(wanted, sizeof(wanted), "pid %d", getpid());
        cr_assert_not_null(strstr(error.text, wanted), "%s", error.text);
        cr_assert_not_null(strstr(error.text, "'agent-1'"), "%s", error.text);
        cr_assert_not_null(strstr(error.text, state_dir), "%s", error.text);
        cr_assert_eq(second, -1);
    }
    cr_assert_eq(close(fd), 0);
}

Test(store_dir, lock_ends_with_the_process_that_held_it)
{
    char byte;
    int ready[2], status, fd = -1;
    pid_t child;

    cr_assert_eq(pipe(ready), 0);
    child = fork();
    if (child == 0) {
        if (store_lock_directory(state_dir, "agent-1", &fd, NULL) != ERR_NONE ||
            write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    cr_assert_eq(store_lock_directory(state_dir, "agent-1", &fd, NULL), ERR_LOCKED);
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(store_lock_directory(state_dir, "agent-1", &fd, NULL), ERR_NONE);
    cr_assert_eq(close(fd), 0);
}

Test(store_dir, another_agents_directory_is_refused_and_the_text_says_what_to_do)
{
    struct err error = {0};
    char text[256];
    int fd = -1;

    cr_assert_eq(store_lock_directory(state_dir, "agent-1", &fd, NULL), ERR_NONE);
    cr_assert_eq(close(fd), 0);
    read_lock(text);
    cr_assert_eq(store_lock_directory(state_dir, "agent-2", &fd, &error), ERR_FOREIGN);
    cr_assert_not_null(strstr(error.text, "'agent-1'"), "%s", error.text);
    cr_assert_not_null(strstr(error.text, "'agent-2'"), "%s", error.text);
    cr_assert_not_null(strstr(error.text, lock_path), "%s", error.text);
    /* After: refused means untouched, and doing what it says helps. */
    cr_assert_eq(store_lock_directory(state_dir, "agent-1", &fd, NULL), ERR_NONE);
    cr_assert_eq(close(fd), 0);
    cr_assert_eq(unlink(lock_path), 0);
    cr_assert_eq(store_lock_directory(state_dir, "agent-2", &fd, NULL), ERR_NONE);
    cr_assert_eq(close(fd), 0);
}

Test(store_dir, lock_file_is_read_whatever_is_in_it)
{
    static const struct {
        const char *text;
        enum err_code wanted;
    } table[] = {
        {"", ERR_NONE},                   /* created, killed before it was written */
        {"agent-1 99999999\n", ERR_NONE}, /* a longer pid than ours */
        {"agent-1 7\n99999\n", ERR_NONE}, /* killed before the rest was cut */
        {"agent-1", ERR_NONE},            /* no pid */
        {"agent-10 7\n", ERR_FOREIGN},    /* starts alike */
        {"agent 7\n", ERR_FOREIGN},
        {"some thing else entirely", ERR_FOREIGN},
    };
    char text[256], wanted[64];
    int fd = -1;

    cr_assert_eq(store_lock_directory(state_dir, "agent-1", &fd, NULL), ERR_NONE);
    cr_assert_eq(close(fd), 0);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        write_lock(table[i].text);
        cr_assert_eq(store_lock_directory(state_dir, "agent-1", &fd, NULL), table[i].wanted,
                     "line %zu", i);
        read_lock(text);
        if (table[i].wanted != ERR_NONE) {
            cr_assert_str_eq(text, table[i].text);
            continue;
        }
        snprintf(wanted, sizeof(wanted), "agent-1 %d\n", getpid());
        cr_assert_str_eq(text, wanted);
        cr_assert_eq(close(fd), 0);
    }
}

Test(store_dir, names_a_directory_that_can_not_be_made)
{
    struct err error = {0};
    int fd = -1;

    cr_assert_eq(store_lock_directory("/proc/none/state", "agent-1", &fd, &error), ERR_IO);
    cr_assert_not_null(strstr(error.text, "/proc/none"), "%s", error.text);
}
