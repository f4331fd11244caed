/* Which states are dropped, and which must stay. The clock is handed in; files have their real
 * times. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"

#define AGE_MS INT64_C(3600000)

static struct store_fixture fixture;

static struct {
    size_t dropped, failed;
    int64_t idle_ms; /* of the last one */
    uint64_t bytes;
    int wanted; /* processor that the agent shall have; -1: none */
} looked;

static void setup(void)
{
    fixture_init(&fixture);
    fixture.identity.job = "job";
    looked.wanted = -1;
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store_expire, .init = setup, .fini = teardown, .timeout = 60);

static bool is_wanted(void *arg, const char *job, uint32_t processor)
{
    cr_assert_eq(arg, &looked);
    cr_assert_str_eq(job, "job");
    return (int)processor == looked.wanted;
}

static void note_dropped(void *arg, const char *directory, int64_t idle_ms, uint64_t bytes)
{
    cr_assert_eq(arg, &looked);
    cr_assert_eq(strncmp(directory, fixture.root, strlen(fixture.root)), 0);
    looked.dropped++;
    looked.idle_ms = idle_ms;
    looked.bytes = bytes;
}

static void note_failed(void *arg, const char *directory, const char *reason)
{
    cr_assert_eq(arg, &looked);
    cr_log_info("%s: %s", directory, reason);
    looked.failed++;
}

static void look(int64_t later_ms)
{
    const struct store_expire order = {.state_dir = fixture.root,
                                       .now_at = clock_wall_ms() + later_ms,
                                       .age_ms = AGE_MS,
                                       .wanted = is_wanted,
                                       .dropped = note_dropped,
                                       .failed = note_failed,
                                       .arg = &looked};

    looked.dropped = looked.failed = 0;
    store_expire(&order);
}

static void expect(int64_t later_ms, size_t dropped, size_t failed)
{
    look(later_ms);
    cr_assert_eq(looked.dropped, dropped, "%zu are dropped", looked.dropped);
    cr_assert_eq(looked.failed, failed, "%zu failed", looked.failed);
}

static void make_state(void)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_checkpoint(&fixture, 7);
    fixture_close(&fixture);
}

Test(store_expire, goes_when_it_is_old_enough_and_no_sooner)
{
    make_state();
    expect(AGE_MS - 60000, 0, 0);
    cr_assert(fixture_exists(fixture.directory));
    expect(AGE_MS + 60000, 1, 0);
    cr_assert_not(fixture_exists(fixture.directory));
    cr_assert_geq(looked.idle_ms, AGE_MS);
    cr_assert_gt(looked.bytes, 0);
    fixture_open(&fixture, STORE_FRESH); /* it can be learned again */
}

Test(store_expire, what_is_open_stays_however_old)
{
    make_state();
    fixture_open(&fixture, STORE_KEPT);
    expect(100 * AGE_MS, 0, 0);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "1");
    fixture_put(&fixture, "a", "2");
    fixture_checkpoint(&fixture, 8);
    fixture_reopen(&fixture, STORE_KEPT);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "2");
}

Test(store_expire, what_the_agent_shall_have_stays_even_when_no_task_has_it_open)
{
    make_state();
    looked.wanted = (int)fixture.identity.processor;
    expect(100 * AGE_MS, 0, 0);
    fixture_open(&fixture, STORE_KEPT);
}

/* Any of its files' times, the newest one. */
Test(store_expire, the_last_use_of_any_of_its_files_counts)
{
    const struct timespec used = {.tv_sec = (time_t)((clock_wall_ms() + AGE_MS) / 1000)};
    const struct timespec times[2] = {used, used};
    char path[4096];

    make_state();
    snprintf(path, sizeof(path), "%s/data.mdb", fixture.directory);
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    expect(AGE_MS + 60000, 0, 0);
    fixture_open(&fixture, STORE_KEPT);
    fixture_close(&fixture);
    expect(3 * AGE_MS, 1, 0);
}

static void make_file(const char *directory, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, "x", 1), 1);
    close(fd);
}

static void name_beside(char path[4096], const char *name)
{
    snprintf(path, 4096, "%s/job/%s", fixture.root, name);
}

Test(store_expire, what_was_set_aside_goes_even_beside_one_that_is_wanted)
{
    char aside[4096];

    make_state();
    name_beside(aside, "3.aside-1");
    cr_assert_eq(mkdir(aside, 0700), 0);
    make_file(aside, "data.mdb");
    make_file(aside, "reason");
    looked.wanted = (int)fixture.identity.processor;
    expect(AGE_MS - 60000, 0, 0);
    expect(AGE_MS + 60000, 1, 0);
    cr_assert_not(fixture_exists(aside));
    cr_assert(fixture_exists(fixture.directory));
}

Test(store_expire, what_is_no_state_stays)
{
    static const char *const names[] = {"03", "new", "3.aside", "notes", "3.backup"};
    char path[4096];

    make_state();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        name_beside(path, names[i]);
        cr_assert_eq(mkdir(path, 0700), 0);
    }
    expect(100 * AGE_MS, 1, 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        name_beside(path, names[i]);
        cr_assert(fixture_exists(path), "%s", names[i]);
    }
}

/* A kill in the middle of a removal. */
Test(store_expire, what_was_begun_is_finished)
{
    char removing[4096];

    make_state();
    name_beside(removing, "3.removing");
    cr_assert_eq(rename(fixture.directory, removing), 0);
    expect(0, 0, 0);
    cr_assert_not(fixture_exists(removing));
}

Test(store_expire, what_can_not_be_removed_is_said_and_the_others_go)
{
    char path[4096];

    make_state();
    snprintf(path, sizeof(path), "%s/inner", fixture.directory);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(fixture.directory, sizeof(fixture.directory), "%s/job/12", fixture.root);
    fixture.identity.processor = 12;
    make_state();
    expect(100 * AGE_MS, 1, 1);
}

Test(store_expire, an_empty_job_goes_with_its_last_state)
{
    char path[4096];

    make_state();
    snprintf(path, sizeof(path), "%s/job", fixture.root);
    expect(100 * AGE_MS, 1, 0);
    cr_assert_not(fixture_exists(path));
    expect(100 * AGE_MS, 0, 0);
}
