/* What earlier runs left, as it is told to the coordinator: read without trusting a byte of it. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INCARNATION "44444444-4444-4444-8444-444444444444"

static struct store_fixture fixture;

static struct {
    size_t found, skipped;
    uint32_t processor; /* of the last one found */
    int64_t next_offset;
    char reason[ERR_TEXT_BYTES]; /* of the last one skipped */
} listed;

static void setup(void)
{
    fixture_init(&fixture);
    fixture.identity.job = "job";
    fixture.identity.job_incarnation = INCARNATION;
}

static void teardown(void)
{
    fixture_finish(&fixture);
}

TestSuite(store_kept, .init = setup, .fini = teardown, .timeout = 60);

static void note_found(void *arg, const struct store_kept *kept)
{
    cr_assert_eq(arg, &listed);
    cr_assert_str_eq(kept->job, "job");
    cr_assert_str_eq(kept->job_incarnation, INCARNATION);
    cr_assert_eq(kept->position_count, 1);
    listed.found++;
    listed.processor = kept->processor;
    listed.next_offset = kept->positions[0].next_offset;
}

static void note_skipped(void *arg, const char *directory, const char *reason)
{
    cr_assert_eq(arg, &listed);
    cr_assert_eq(strncmp(directory, fixture.root, strlen(fixture.root)), 0);
    listed.skipped++;
    snprintf(listed.reason, sizeof(listed.reason), "%s", reason);
}

static void list(void)
{
    const struct store_kept_visitor visitor = {note_found, note_skipped, &listed};

    memset(&listed, 0, sizeof(listed));
    store_list_kept(fixture.root, "boot-1", &visitor);
}

static void expect(size_t found, size_t skipped, const char *reason)
{
    list();
    cr_assert_eq(listed.found, found, "%zu are found", listed.found);
    cr_assert_eq(listed.skipped, skipped, "%zu are skipped: %s", listed.skipped, listed.reason);
    cr_assert(reason == NULL || strstr(listed.reason, reason) != NULL, "%s", listed.reason);
}

static void make_state(int64_t next_offset)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_put(&fixture, "a", "1");
    fixture_checkpoint(&fixture, next_offset);
    fixture_close(&fixture);
}

Test(store_kept, tells_of_each_state_where_it_stands)
{
    make_state(77);
    expect(1, 0, NULL);
    cr_assert_eq(listed.processor, 3);
    cr_assert_eq(listed.next_offset, 77);
    snprintf(fixture.directory, sizeof(fixture.directory), "%s/job/12", fixture.root);
    fixture.identity.processor = 12;
    make_state(5);
    expect(2, 0, NULL);
}

/* The task that opens it afterwards finds what was there. */
Test(store_kept, changes_nothing)
{
    make_state(77);
    list();
    fixture_open(&fixture, STORE_KEPT);
    cr_assert_eq(fixture_offset(&fixture), 77);
    cr_assert_str_eq(fixture_get(&fixture, "a"), "1");
}

Test(store_kept, what_has_seen_no_checkpoint_is_nothing)
{
    fixture_open(&fixture, STORE_FRESH);
    fixture_close(&fixture);
    expect(0, 0, NULL);
}

Test(store_kept, no_directory_or_an_empty_one_is_nothing)
{
    char missing[128];
    const struct store_kept_visitor visitor = {note_found, note_skipped, &listed};

    expect(0, 0, NULL);
    snprintf(missing, sizeof(missing), "%s/missing", fixture.root);
    store_list_kept(missing, "boot-1", &visitor);
    cr_assert_eq(listed.found + listed.skipped, 0);
}

Test(store_kept, passes_over_what_is_no_state_of_a_task)
{
    static const char *const names[] = {"job/3.aside-1", "job/03", "job/-1", "job/x",
                                        "job/10000",     "Job",    "job/3 "};
    char to[160], from[160];

    make_state(77);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(to, sizeof(to), "%s/%s", fixture.root, names[i]);
        cr_assert_eq(mkdir(to, 0700), 0);
        snprintf(to, sizeof(to), "%s/%s/data.mdb", fixture.root, names[i]);
        snprintf(from, sizeof(from), "%s", fixture.data_path);
        fixture_copy_file(from, to);
    }
    expect(1, 0, NULL);
}

/* One that was copied, or whose directory was renamed, would not be served there. */
Test(store_kept, skips_a_state_that_is_not_in_its_place)
{
    char moved[128];

    make_state(77);
    snprintf(moved, sizeof(moved), "%s/job/4", fixture.root);
    cr_assert_eq(rename(fixture.directory, moved), 0);
    expect(0, 1, "processor 3 of job job");
}

Test(store_kept, skips_what_can_not_be_trusted)
{
    char mark[160];
    int fd;

    make_state(77);
    snprintf(mark, sizeof(mark), "%s/suspect", fixture.directory);
    fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
    expect(0, 1, "found it damaged");
    cr_assert_eq(unlink(mark), 0);
    expect(1, 0, NULL);
}

static void write_byte(off_t offset, unsigned char byte)
{
    const int fd = open(fixture.data_path, O_WRONLY | O_CLOEXEC);

    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

/* Every byte in turn: it is skipped, or what is told is still right. */
Test(store_kept, damage_is_skipped_or_harmless)
{
    unsigned char *data;
    struct stat status;
    size_t skipped = 0;
    int fd;

    make_state(77);
    fd = open(fixture.data_path, O_RDONLY | O_CLOEXEC);
    cr_assert_eq(fstat(fd, &status), 0);
    data = malloc((size_t)status.st_size);
    cr_assert_eq(read(fd, data, (size_t)status.st_size), status.st_size);
    close(fd);
    for (off_t i = 0; i < status.st_size; i++) {
        write_byte(i, data[i] ^ 0xa5);
        list();
        cr_assert_eq(listed.found + listed.skipped, 1);
        cr_assert(listed.found == 0 || listed.next_offset == 77, "byte %ld", (long)i);
        skipped += listed.skipped;
        write_byte(i, data[i]);
    }
    free(data);
    cr_assert_gt(skipped, 300); /* the meta record alone has as many */
}

Test(store_kept, file_that_was_cut_is_skipped)
{
    struct stat status;

    make_state(77);
    cr_assert_eq(stat(fixture.data_path, &status), 0);
    for (off_t bytes = 0; bytes < 3 * 4096; bytes += 512) {
        cr_assert_eq(truncate(fixture.data_path, bytes), 0);
        expect(0, 1, NULL);
        cr_assert_eq(truncate(fixture.data_path, status.st_size), 0);
    }
}
