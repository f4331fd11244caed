/*
 * kill -9 at random moments while checkpoints are written. Afterwards the state must be the effect
 * of exactly the records before its positions, whatever the moment was.
 */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

#define KEYS       300
#define PARTITIONS 3
#define KILLS      80

/*
 * Record i goes to partition i mod 3 as offset i / 3 and adds i to the sum of key (i * 7 mod 300);
 * every 11th record deletes its key. A function of i, so the reference needs no memory of the run.
 */
struct cell {
    bool there;
    uint64_t sum, count;
};

static void apply_reference(struct cell cells[KEYS], uint64_t record)
{
    struct cell *cell = &cells[record * 7 % KEYS];

    if (record % 11 == 10) {
        *cell = (struct cell){0};
        return;
    }
    cell->there = true;
    cell->sum += record;
    cell->count++;
}

static struct store_row row_of(uint64_t number, char key[32])
{
    snprintf(key, 32, "key-%" PRIu64, number);
    return (struct store_row){.key = key, .key_bytes = strlen(key)};
}

/* The value's length depends on the count, so rows move between pages and onto overflow pages. */
#define VALUE_BYTES_MAX 6000
static size_t value_bytes(uint64_t count)
{
    return 16 + count * 37 % (VALUE_BYTES_MAX - 16);
}

static bool apply(struct store *store, uint64_t record)
{
    char key[32];
    const struct store_row row = row_of(record * 7 % KEYS, key);
    static unsigned char value[VALUE_BYTES_MAX];
    uint64_t sum = 0, count = 0;
    const void *found = NULL;
    size_t bytes = 0;
    enum err_code code = store_get(store, row, INT64_MIN, &found, &bytes, NULL);

    if (code != ERR_NONE && code != ERR_NOT_FOUND)
        return false;
    if (record % 11 == 10) {
        store_delete(store, row);
        return true;
    }
    if (code == ERR_NONE) {
        sum = store_number_get(found, 8);
        count = store_number_get((const unsigned char *)found + 8, 8);
    }
    store_number_put(value, sum + record, 8);
    store_number_put(value + 8, count + 1, 8);
    store_put(store, row, 0, value, value_bytes(count + 1));
    return true;
}

/* Records done are those below `record`. */
static void positions_at(uint64_t record, struct store_position positions[PARTITIONS])
{
    for (uint64_t p = 0; p < PARTITIONS; p++)
        positions[p] = (struct store_position){.partition = (uint32_t)p,
                                               .next_offset = (int64_t)((record + 2 - p) / 3)};
}

/* The record that the store goes on with; its positions must be those of one record boundary. */
static uint64_t resume_record(struct store *store)
{
    struct store_position wanted[PARTITIONS];
    size_t count;
    const struct store_position *positions = store_positions(store, &count);
    uint64_t record = 0;

    if (count == 0)
        return 0;
    cr_assert_eq(count, PARTITIONS);
    for (size_t p = 0; p < PARTITIONS; p++)
        record += (uint64_t)positions[p].next_offset;
    positions_at(record, wanted);
    for (size_t p = 0; p < PARTITIONS; p++)
        cr_assert_eq(positions[p].next_offset, wanted[p].next_offset);
    return record;
}

/* The child: works until it is killed. Says when its first checkpoint is on disk. */
static void work(struct store_fixture *fixture, int ready_fd)
{
    uint64_t record;
    int frozen = 0;

    if (fixture_try_open(fixture, NULL) != ERR_NONE || fixture->condition == STORE_SET_ASIDE)
        _exit(1);
    record = resume_record(fixture->store);
    for (;;) {
        struct store_position positions[PARTITIONS];

        if (!apply(fixture->store, record++))
            _exit(2);
        if (record % 97 != 0)
            continue;
        positions_at(record, positions);
        if (store_flush_state(fixture->store, NULL) == STORE_FLUSH_FAILED)
            _exit(3);
        if (store_freeze(fixture->store, positions, PARTITIONS))
            frozen++; /* the one before has ended */
        else if (store_flush_wait(fixture->store, INT64_MAX, NULL) != ERR_NONE)
            _exit(4);
        if (frozen == 2 && write(ready_fd, "r", 1) != 1)
            _exit(5);
    }
}

static void assert_state(struct store_fixture *fixture, struct cell cells[KEYS])
{
    for (uint64_t number = 0; number < KEYS; number++) {
        char key[32];
        const void *found = NULL;
        size_t bytes = 0;
        struct err error = {0};
        const enum err_code code =
            store_get(fixture->store, row_of(number, key), INT64_MIN, &found, &bytes, &error);

        cr_assert_eq(code, cells[number].there ? ERR_NONE : ERR_NOT_FOUND, "%s", error.text);
        if (!cells[number].there)
            continue;
        cr_assert_eq(store_number_get(found, 8), cells[number].sum);
        cr_assert_eq(store_number_get((const unsigned char *)found + 8, 8), cells[number].count);
        cr_assert_eq(bytes, value_bytes(cells[number].count));
    }
}

/* Every third child is killed whatever it is at: opening, checking, its first checkpoint. */
static void wait_until_ready(int ready_fd, int number)
{
    char byte;

    if (number % 3 != 0)
        cr_assert_eq(read(ready_fd, &byte, 1), 1, "the child ended by itself");
}

static void kill_after(pid_t child, int64_t microseconds)
{
    const struct timespec time = {.tv_nsec = microseconds * 1000};
    int status;

    /* The moment is what is being tested: nothing is waited for. */
    (void)nanosleep(&time, NULL); /* allow(nanosleep): see above */
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status), "the child ended by itself: %x", status);
}

static void kill_many_times(bool sync, int kills, uint64_t seed)
{
    static struct cell cells[KEYS];
    struct store_fixture fixture;
    struct rng rng;
    uint64_t done = 0;
    int moved = 0;

    memset(cells, 0, sizeof(cells));
    rng_init(&rng, seed);
    fixture_init(&fixture);
    fixture.config.sync = sync;
    for (int i = 0; i < kills; i++) {
        uint64_t record;
        int ready[2];
        pid_t child;

        cr_assert_eq(pipe(ready), 0);
        child = fork();
        cr_assert_geq(child, 0);
        if (child == 0)
            work(&fixture, ready[1]);
        cr_assert_eq(close(ready[1]), 0);
        wait_until_ready(ready[0], i);
        kill_after(child, (int64_t)rng_below(&rng, 40000));
        cr_assert_eq(close(ready[0]), 0);
        if (i % 2 == 1)
            continue; /* the next child finds what this one left, with no clean close between */
        cr_assert_eq(fixture_try_open(&fixture, NULL), ERR_NONE);
        cr_assert_neq(fixture.condition, STORE_SET_ASIDE, "%s", fixture.reason);
        record = resume_record(fixture.store);
        cr_assert_geq(record, done, "went back from %" PRIu64 " to %" PRIu64, done, record);
        moved += record > done;
        for (; done < record; done++)
            apply_reference(cells, done);
        assert_state(&fixture, cells);
        fixture_close(&fixture);
    }
    cr_log_info("%d kills, %d looks after progress, %" PRIu64 " records", kills, moved, done);
    /* Of two children one at least got to a checkpoint; before the first look there was only one.
     */
    cr_assert_geq(moved, kills / 2 - 1);
    fixture_finish(&fixture);
}

Test(store_crash, leaves_the_effect_of_exactly_the_records_before_the_positions)
{
    kill_many_times(false, KILLS, 1);
}

Test(store_crash, leaves_it_with_synced_checkpoints_too)
{
    kill_many_times(true, KILLS / 4, 2);
}
