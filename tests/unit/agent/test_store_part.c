/* The part of a state that a split takes away: whole, of one checkpoint, and nothing else. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/store_seed.h"
#include "agent/store_view.h"
#include "store_fixture.h"

/* Of 16 partitions processor 3 of 4 has 3, 7, 11 and 15; 7 gets 7 and 15. */
static const uint32_t partitions[] = {3, 7, 11, 15};
static struct store_fixture giver, taker;
static struct store_part part;

static struct store_owners owners_of(uint32_t processors)
{
    return (struct store_owners){.map = {.partitions = {.initial = 16, .now = 16},
                                         .processors = {.initial = 4, .now = processors}}};
}

static void setup(void)
{
    fixture_init(&giver);
    fixture_init(&taker);
    giver.config.owners = owners_of(4);
    taker.config.owners = owners_of(4);
    taker.identity.processor = 7;
    part = (struct store_part){.owners = owners_of(8), .processor = 7};
    fixture_open(&giver, STORE_FRESH);
    fixture_open(&taker, STORE_FRESH);
}

static void teardown(void)
{
    fixture_finish(&giver);
    fixture_finish(&taker);
}

TestSuite(store_part, .init = setup, .fini = teardown, .timeout = 60);

static struct store_row row_at(uint32_t root, const char *key)
{
    return (struct store_row){.root = root, .key = key, .key_bytes = strlen(key)};
}

static struct store_position position_at(uint32_t partition, int64_t next_offset)
{
    return (struct store_position){.partition = partition,
                                   .root = partition,
                                   .next_offset = next_offset,
                                   .record_time_ms = -1,
                                   .last_offset = next_offset - 1,
                                   .records = next_offset};
}

/* At offset + partition each. */
static void checkpoint(const uint32_t *of, size_t count, int64_t offset)
{
    struct store_position positions[4];
    struct err err = {0};

    for (size_t i = 0; i < count; i++)
        positions[i] = position_at(of[i], offset + of[i]);
    cr_assert(store_freeze(giver.store, positions, count));
    cr_assert_eq(store_flush_wait(giver.store, INT64_MAX, &err), ERR_NONE, "%s", err.text);
}

static void fill(void)
{
    static char long_key[700];

    memset(long_key, 'l', sizeof(long_key) - 1);
    for (size_t p = 0; p < 4; p++) {
        for (int i = 0; i < 30; i++) {
            char key[16];

            snprintf(key, sizeof(key), "key-%d", i);
            store_put(giver.store, row_at(partitions[p], key), 5, &partitions[p], 4);
        }
        store_put(giver.store, row_at(partitions[p], long_key), 5, &partitions[p], 4);
    }
    checkpoint(partitions, 4, 100);
}

static struct store_view *open_view(void)
{
    struct store_share *share = store_share_acquire(giver.store);
    struct store_view *view;
    struct err err = {0};

    cr_assert_eq(store_view_open(share, &view, &err), ERR_NONE, "%s", err.text);
    store_share_release(share);
    return view;
}

static enum err_code try_narrow(void)
{
    struct store_view *view = open_view();
    enum err_code code = store_view_narrow(view, &part, NULL);

    store_view_close(view);
    return code;
}

static struct store_seed *begin(struct store_view *view)
{
    struct store_seed *seed;
    struct err err = {0};
    size_t bytes;
    const void *meta = store_view_meta(view, &bytes);

    cr_assert_eq(store_seed_begin(&taker.config, &taker.identity, meta, bytes,
                                  store_view_file_bytes(view), &seed, &err),
                 ERR_NONE, "%s", err.text);
    store_seed_expect_part(seed, &part.owners);
    return seed;
}

static enum err_code copy_rows(struct store_view *view, struct store_seed *seed)
{
    enum err_code code = ERR_NONE;
    struct strbuf buf = {0};
    uint32_t rows;

    for (bool end = false; !end && code == ERR_NONE;) {
        strbuf_clear(&buf);
        cr_assert_eq(store_view_read(view, 200, &buf, &rows, &end, NULL), ERR_NONE);
        code = store_seed_add(seed, buf.data, buf.bytes, rows, NULL);
    }
    strbuf_finish(&buf);
    return code;
}

#define BOUND         60
#define BOUND_RECORDS 55
static uint32_t bounded = UINT32_MAX; /* partition that is read up to there */
static int64_t last_known = INT64_MAX;

/* The whole way. */
static void seed_taker(void)
{
    struct store_view *view = open_view();
    struct store_seed *seed;
    struct err err = {0};
    uint64_t rows, digest;

    cr_assert_eq(store_view_narrow(view, &part, &err), ERR_NONE, "%s", err.text);
    seed = begin(view);
    for (size_t p = 0; p < 4; p++)
        cr_assert_eq(
            store_seed_bound(seed, &(struct store_position){.partition = partitions[p],
                                                            .next_offset = partitions[p] == bounded
                                                                               ? BOUND
                                                                               : INT64_MAX,
                                                            .last_offset = last_known,
                                                            .records = BOUND_RECORDS}),
            partitions[p] % 8 == 7);
    cr_assert_eq(copy_rows(view, seed), ERR_NONE);
    store_view_sum(view, &rows, &digest);
    store_seed_tell_sum(seed, rows, digest);
    cr_assert_eq(store_seed_finish(seed, &err), ERR_NONE, "%s", err.text);
    store_seed_destroy(seed);
    store_view_close(view);
    fixture_close(&taker);
    cr_assert_eq(store_seed_install(taker.directory, &err), ERR_NONE, "%s", err.text);
    fixture_open(&taker, STORE_KEPT);
}

static void expect_taken(int64_t offset)
{
    size_t count;
    const struct store_position *positions = store_positions(taker.store, &count);
    uint64_t rows, bytes;

    cr_assert_eq(count, 2);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(positions[i].partition, i == 0 ? 7 : 15);
        cr_assert_eq(positions[i].next_offset, offset + positions[i].partition);
        cr_assert_eq(positions[i].records, offset + positions[i].partition);
    }
    store_size(taker.store, &rows, &bytes);
    cr_assert_eq(rows, 62);
    for (size_t p = 0; p < 4; p++) {
        const void *value;
        size_t value_bytes;
        enum err_code code = store_get(taker.store, row_at(partitions[p], "key-7"), INT64_MIN,
                                       &value, &value_bytes, NULL);

        cr_assert_eq(code, partitions[p] % 8 == 7 ? ERR_NONE : ERR_NOT_FOUND);
        if (code == ERR_NONE)
            cr_assert_arr_eq(value, &partitions[p], 4);
    }
}

Test(store_part, is_what_the_child_has_and_no_more)
{
    uint64_t removed;
    bool pending;

    fill();
    seed_taker();
    expect_taken(100);
    part.owners = owners_of(8);
    store_tell_owners(taker.store, &part.owners);
    store_count_garbage(taker.store, &removed, &pending);
    cr_assert_not(pending, "there is nothing to look for");
}

Test(store_part, rests_at_the_bound_of_what_is_inherited)
{
    size_t count;
    const struct store_position *positions;

    fill(); /* the sender is at 115 there */
    bounded = 15;
    last_known = BOUND - 1;
    seed_taker();
    positions = store_positions(taker.store, &count);
    cr_assert_eq(count, 2);
    cr_assert_eq(positions[0].next_offset, 107);
    cr_assert_eq(positions[1].next_offset, BOUND);
    cr_assert_eq(positions[1].records, BOUND_RECORDS);
    cr_assert_eq(positions[1].last_offset, -1);
}

Test(store_part, has_no_last_record_where_the_bound_is_not_known_yet)
{
    size_t count;
    const struct store_position *positions;

    fill();
    last_known = -1;
    seed_taker();
    expect_taken(100);
    positions = store_positions(taker.store, &count);
    cr_assert_eq(positions[1].last_offset, -1, "a record that the child reads on is told by that");
}

Test(store_part, is_not_given_without_all_positions)
{
    static const uint32_t without_7[] = {3, 11, 15};

    giver.config.owners = (struct store_owners){0}; /* so nothing that left is kept */
    fixture_reopen(&giver, STORE_FRESH);
    fill();
    cr_assert_eq(try_narrow(), ERR_NONE);
    checkpoint(without_7, 3, 200);
    cr_assert_eq(try_narrow(), ERR_NOT_FOUND);
}

Test(store_part, rows_of_others_are_refused)
{
    struct store_view *view, *whole;
    struct store_seed *seed;

    fill();
    view = open_view();
    whole = open_view();
    cr_assert_eq(store_view_narrow(view, &part, NULL), ERR_NONE);
    seed = begin(view);
    cr_assert_eq(copy_rows(whole, seed), ERR_CORRUPT);
    store_seed_destroy(seed);
    store_view_close(whole);
    store_view_close(view);
}

Test(store_part, rows_that_are_missing_are_missed)
{
    struct store_view *view;
    struct store_seed *seed;
    struct strbuf buf = {0};
    uint64_t rows, digest;
    uint32_t first;
    bool end;

    fill();
    view = open_view();
    cr_assert_eq(store_view_narrow(view, &part, NULL), ERR_NONE);
    seed = begin(view);
    cr_assert_eq(store_view_read(view, 1, &buf, &first, &end, NULL), ERR_NONE);
    cr_assert_eq(first, 1);
    cr_assert_eq(copy_rows(view, seed), ERR_NONE); /* without that one */
    store_view_sum(view, &rows, &digest);
    store_seed_tell_sum(seed, rows, digest);
    cr_assert_eq(store_seed_finish(seed, NULL), ERR_CORRUPT);
    store_seed_destroy(seed);
    store_view_close(view);
    strbuf_finish(&buf);
}

Test(store_part, can_be_had_after_it_has_left_until_it_is_removed)
{
    static const uint32_t kept[] = {3, 11};
    const struct store_position left[] = {position_at(7, 507), position_at(15, 515)};
    const struct store_owners owners = owners_of(8);
    struct err err = {0};

    fill();
    store_put(giver.store, row_at(7, "key-0"), 6, &partitions[1], 4);
    store_leave(giver.store, &left[0]);
    store_leave(giver.store, &left[1]);
    checkpoint(kept, 2, 900);
    checkpoint(kept, 2, 1000);
    fixture_reopen(&giver, STORE_KEPT);
    checkpoint(kept, 2, 1100);
    seed_taker();
    expect_taken(500);
    store_tell_owners(giver.store, &owners);
    cr_assert_eq(store_remove_garbage(giver.store, INT64_MAX, &err), ERR_NONE);
    while (giver.store->garbage.running) {
        (void)store_flush_await(giver.store, INT64_MAX);
        store_follow_flusher(giver.store);
    }
    cr_assert_eq(try_narrow(), ERR_NOT_FOUND);
    checkpoint(kept, 2, 1200);
    cr_assert_eq(try_narrow(), ERR_NOT_FOUND);
}

Test(store_part, what_was_dropped_has_not_left)
{
    static const uint32_t kept[] = {3, 11};
    const struct store_position left[] = {position_at(7, 507), position_at(15, 515)};

    fill();
    store_leave(giver.store, &left[0]);
    store_leave(giver.store, &left[1]);
    cr_assert_eq(store_drop_live(giver.store, NULL), ERR_NONE);
    checkpoint(kept, 2, 900);
    seed_taker();
    expect_taken(100);
}

/* ---- in a topic that has grown */

static void grow(uint32_t partitions_now, uint32_t processor)
{
    const struct key_map map = {.partitions = {.initial = 4, .now = partitions_now},
                                .processors = {.initial = 4, .now = processor + 1}};

    part = (struct store_part){.owners = {.map = map}, .processor = processor};
    giver.config.owners = part.owners;
    giver.config.owners.map.processors.now = processor;
    fixture_reopen(&giver, STORE_FRESH);
}

static void checkpoint_at(const struct store_position *positions, size_t count)
{
    struct err err = {0};

    cr_assert(store_freeze(giver.store, positions, count));
    cr_assert_eq(store_flush_wait(giver.store, INT64_MAX, &err), ERR_NONE, "%s", err.text);
}

#define CHECKPOINT(...)                                                                            \
    checkpoint_at((struct store_position[]){__VA_ARGS__},                                          \
                  sizeof((struct store_position[]){__VA_ARGS__}) / sizeof(struct store_position))

/* A standby that was behind the bound when it heard of the split: what it passes is missing. */
Test(store_part, is_not_given_once_its_keys_are_passed_in_an_ancestor)
{
    grow(16, 8);
    CHECKPOINT(position_at(0, 5000), position_at(8, 300));
    fixture_reopen(&giver, STORE_KEPT);
    cr_assert_eq(try_narrow(), ERR_NONE);
    CHECKPOINT(position_at(0, 5000));
    cr_assert_eq(try_narrow(), ERR_NONE, "nothing was passed yet");
    CHECKPOINT(position_at(0, 9000));
    cr_assert_eq(try_narrow(), ERR_NOT_FOUND);
    CHECKPOINT(position_at(0, 9000));
    cr_assert_eq(try_narrow(), ERR_NOT_FOUND, "and for ever");
}

/* An owner that finds the split done when it is behind the bound. */
Test(store_part, is_not_given_when_it_has_not_left_whole)
{
    struct store_position left = position_at(8, 300);

    grow(16, 8);
    CHECKPOINT(position_at(0, 5000), position_at(8, 300));
    store_leave(giver.store, &left);
    CHECKPOINT(position_at(0, 5000));
    cr_assert_eq(try_narrow(), ERR_NONE);
    CHECKPOINT(position_at(0, 9000));
    cr_assert_eq(try_narrow(), ERR_NOT_FOUND);
    CHECKPOINT(position_at(0, 9000), position_at(8, 300));
    store_leave(giver.store, &left);
    CHECKPOINT(position_at(0, 9500));
    cr_assert_eq(try_narrow(), ERR_NOT_FOUND, "in one checkpoint");
}

Test(store_part, that_has_left_whole_can_be_had_however_far_its_ancestors_are)
{
    struct store_position left = position_at(8, 300);

    grow(16, 8);
    CHECKPOINT(position_at(0, 5000), position_at(8, 200));
    left.left_whole = true;
    store_leave(giver.store, &left);
    CHECKPOINT(position_at(0, 9000));
    cr_assert_eq(try_narrow(), ERR_NONE);
    fixture_reopen(&giver, STORE_KEPT);
    CHECKPOINT(position_at(0, 9500));
    cr_assert_eq(try_narrow(), ERR_NONE);
    fixture_reopen(&giver, STORE_KEPT);
    cr_assert_eq(try_narrow(), ERR_NONE);
}

/* What is read has not left: the mark is of whom it left before. */
Test(store_part, is_marked_anew_where_it_is_read)
{
    struct store_position read = position_at(8, 300);

    grow(16, 8);
    read.left_whole = true;
    CHECKPOINT(position_at(0, 5000), read);
    CHECKPOINT(position_at(0, 9000));
    cr_assert_eq(try_narrow(), ERR_NOT_FOUND);
}

/* Of one that itself inherits: 24 was split off from 8, and 8 from 0. */
Test(store_part, is_not_given_once_its_keys_are_passed_in_what_the_parent_inherits)
{
    grow(32, 24);
    CHECKPOINT(position_at(8, 400), position_at(0, 50), position_at(24, 300));
    fixture_reopen(&giver, STORE_KEPT);
    CHECKPOINT(position_at(8, 400), position_at(0, 50));
    cr_assert_eq(try_narrow(), ERR_NONE);
    CHECKPOINT(position_at(8, 400), position_at(0, 60));
    cr_assert_eq(try_narrow(), ERR_NOT_FOUND);
}
