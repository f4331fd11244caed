/* Crashes of the logic are counted by record; each happens in a process of its own. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/crash.h"
#include "agent/crash_list.h"
#include "api/schema.h"
#include "common/mem.h"

static char root[] = "/tmp/baton-crash-XXXXXX";
static char *directory, *path;

static void setup(void)
{
    cr_assert_not_null(mkdtemp(root));
    directory = mem_printf("%s/job/3", root);
    path = mem_printf("%s.crashes", directory);
}

static void teardown(void)
{
    char *job = mem_printf("%s/job", root);
    (void)unlink(path);
    (void)rmdir(job);
    cr_assert_eq(rmdir(root), 0);
    free(job);
    free(directory);
    free(path);
}

TestSuite(crash, .init = setup, .fini = teardown);

static const struct crash_place place = {1, 7, 123456789012345};

/* The signal that the child has ended with; a sanitizer reports it and exits instead: what it says
 * of that is no finding. */
static int crash_in(const char *build, struct crash_place at, bool in_logic, int number)
{
    int status;
    pid_t child = fork();

    cr_assert_geq(child, 0);
    if (child == 0) {
        struct crash_file *file = crash_file_create(directory, "incarnation", build);
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

        (void)dup2(nowhere, STDERR_FILENO);
        crash_install();
        crash_thread_begin();
        crash_enter(file, at);
        if (!in_logic)
            crash_leave();
        (void)raise(number);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return number;
    cr_assert(WIFSIGNALED(status));
    return WTERMSIG(status);
}

static uint32_t count(const char *build, struct crash_place *ret_place)
{
    struct crash_file *file = crash_file_create(directory, "incarnation", build);
    uint32_t found = crash_file_count(file, ret_place);

    crash_file_destroy(file);
    return found;
}

Test(crash, in_a_row_at_one_record_are_counted)
{
    static const int signals[] = {SIGSEGV, SIGABRT, SIGFPE};
    struct crash_place found;

    cr_assert_eq(count("a", &found), 0);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(crash_in("a", place, true, signals[i]), signals[i], "it ends as ever");
        cr_assert_eq(count("a", &found), i + 1);
        cr_assert_eq(found.topic, 1);
        cr_assert_eq(found.partition, 7);
        cr_assert_eq(found.offset, 123456789012345);
    }
}

Test(crash, of_anything_else_are_not_counted)
{
    struct crash_place found;

    cr_assert_eq(crash_in("a", place, false, SIGSEGV), SIGSEGV);
    cr_assert_eq(crash_in("a", place, true, SIGKILL), SIGKILL);
    cr_assert_eq(count("a", &found), 0);
}

Test(crash, at_another_record_begin_anew)
{
    const struct crash_place next = {1, 7, 123456789012346};
    struct crash_place found;

    (void)crash_in("a", place, true, SIGSEGV);
    (void)crash_in("a", place, true, SIGSEGV);
    (void)crash_in("a", next, true, SIGSEGV);
    cr_assert_eq(count("a", &found), 1);
    cr_assert_eq(found.offset, next.offset);
}

Test(crash, of_another_build_are_not_of_this_one)
{
    struct crash_place found;

    for (int i = 0; i < 3; i++)
        (void)crash_in("a", place, true, SIGSEGV);
    cr_assert_eq(count("a", &found), 3);
    cr_assert_eq(count("b", &found), 0);
}

Test(crash, more_than_are_read_are_still_enough)
{
    struct crash_place found;

    for (int i = 0; i < 20; i++)
        (void)crash_in("a", place, true, SIGSEGV);
    cr_assert_geq(count("a", &found), (uint32_t)CRASHES_MAX);
}

Test(crash, a_line_that_is_not_whole_counts_for_nothing)
{
    static const char *const lines[] = {"x\n",
                                        "c1 incarnation a 1 7\n",
                                        "c1 incarnation a 1 7 5",
                                        "c1 incarnation a 1 7 5 \n",
                                        "c1 incarnation a 1 7 -5\n",
                                        "c1 other a 1 7 5\n"};
    struct crash_place found;

    (void)crash_in("a", place, true, SIGSEGV);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        FILE *file = fopen(path, "we");

        cr_assert_not_null(file);
        cr_assert_geq(fputs(lines[i], file), 0);
        cr_assert_eq(fclose(file), 0);
        cr_assert_eq(count("a", &found), 0, "%s", lines[i]);
    }
}

Test(crash, builds_differ_by_what_is_at_the_path)
{
    struct crash_file *file = crash_file_create(directory, "incarnation", "");
    char *builtin = crash_build(NULL), *missing = crash_build("/nonexistent"), *root_build;

    cr_assert_str_eq(builtin, "builtin");
    cr_assert_str_eq(missing, "");
    root_build = crash_build(root);
    cr_assert_str_eq(root_build, "", "no file");
    free(root_build);
    free(builtin);
    free(missing);
    crash_file_destroy(file);
    crash_file_destroy(NULL);
}

Test(crash, that_was_passed_is_forgotten)
{
    struct crash_file *file = crash_file_create(directory, "incarnation", "b");
    struct crash_file *other = crash_file_create(directory, "another", "a");
    struct crash_place found;
    struct err err;

    cr_assert_not(crash_file_noted(file, &found));
    cr_assert_eq(crash_file_forget(file, &err), ERR_NONE, "there is none");
    (void)crash_in("a", place, true, SIGSEGV);
    cr_assert(crash_file_noted(file, &found), "of whatever build");
    cr_assert_eq(found.topic, place.topic);
    cr_assert_eq(found.partition, place.partition);
    cr_assert_eq(found.offset, place.offset);
    cr_assert_not(crash_file_noted(other, &found), "of a job of old");
    cr_assert_eq(crash_file_forget(file, &err), ERR_NONE);
    cr_assert_neq(access(path, F_OK), 0);
    cr_assert_not(crash_file_noted(file, &found));
    (void)crash_in("a", place, true, SIGSEGV);
    cr_assert_eq(count("a", &found), 1, "it begins anew");
    crash_file_destroy(file);
    crash_file_destroy(other);
}

/* ---- what the coordinator is told */

#define JOB_INCARNATION "44444444-4444-4444-8444-444444444444"

static void write_note(const char *text)
{
    struct crash_file *file = crash_file_create(directory, JOB_INCARNATION, "a"); /* the folder */
    FILE *stream = fopen(path, "w");

    cr_assert_not_null(stream);
    cr_assert_geq(fputs(text, stream), 0);
    cr_assert_eq(fclose(stream), 0);
    crash_file_destroy(file);
}

static void free_list(struct crash_note *notes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        schema_free(&schema_crash_note, &notes[i]);
    free(notes);
}

Test(crash, are_listed_with_what_they_are_of)
{
    size_t count;
    struct crash_note *notes;

    write_note("c1 " JOB_INCARNATION " old 1 7 5\n"
               "c1 " JOB_INCARNATION " new 1 7 5\nc1 " JOB_INCARNATION " new 1 7 5\n");
    notes = crash_list(root, &count);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(notes[0].job, "job");
    cr_assert_str_eq(notes[0].job_incarnation, JOB_INCARNATION);
    cr_assert_str_eq(notes[0].build, "new");
    cr_assert_eq(notes[0].topic, 1);
    cr_assert_eq(notes[0].partition, 7);
    cr_assert_eq(notes[0].offset, 5);
    cr_assert_eq(notes[0].count, 2, "of this build");
    free_list(notes, count);
}

Test(crash, that_nobody_can_tell_what_of_are_not_listed)
{
    static const char *const texts[] = {"",
                                        "x\n",
                                        "c1 no-uuid a 1 7 5\n",
                                        "c1 " JOB_INCARNATION " a 99 7 5\n",
                                        "c1 " JOB_INCARNATION " a 1 7 5\nx\n",
                                        "c1 " JOB_INCARNATION " a 1 7 5"};
    size_t count;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        write_note(texts[i]);
        struct crash_note *notes = crash_list(root, &count);
        cr_assert_eq(count, 0, "%s", texts[i]);
        free_list(notes, count);
    }
    free_list(crash_list("/nonexistent", &count), 0);
    cr_assert_eq(count, 0);
}

static void write_at(const char *name, const char *text)
{
    char *kept_directory = directory, *kept_path = path;

    directory = mem_printf("%s/job/%s", root, name);
    path = mem_printf("%s.crashes", directory);
    write_note(text);
    free(directory);
    free(path);
    directory = kept_directory;
    path = kept_path;
}

static void remove_at(const char *name)
{
    char *file = mem_printf("%s/job/%s.crashes", root, name);

    cr_assert_eq(unlink(file), 0);
    free(file);
}

Test(crash, are_listed_in_their_own_order_and_renewed)
{
    static const char *const names[] = {"5", "1", "9", "2", "7"};
    const size_t count = sizeof(names) / sizeof(names[0]);
    struct agent_registration registration = {0};

    for (size_t i = 0; i < count; i++) {
        char *text = mem_printf("c1 " JOB_INCARNATION " a 0 %s 5\n", names[i]);

        write_at(names[i], text);
        free(text);
    }
    crash_list_renew(root, &registration);
    cr_assert_eq(registration.crashes.count, count);
    for (size_t i = 1; i < count; i++)
        cr_assert_lt(registration.crashes.items[i - 1].partition,
                     registration.crashes.items[i].partition);
    for (size_t i = 0; i < count; i++)
        remove_at(names[i]);
    crash_list_renew(root, &registration);
    cr_assert_eq(registration.crashes.count, 0);
    cr_assert_null(registration.crashes.items);
}

Test(crash, a_build_is_what_the_file_holds)
{
    char *first, *second, *other, *copy = mem_printf("%s/copy", root);

    write_note("one");
    first = crash_build(path);
    cr_assert_eq(rename(path, copy), 0);
    second = crash_build(copy);
    cr_assert_str_eq(first, second, "wherever it is");
    cr_assert_eq(rename(copy, path), 0);
    write_note("two");
    other = crash_build(path);
    cr_assert_str_neq(first, other);
    free(first);
    free(second);
    free(other);
    free(copy);
}
