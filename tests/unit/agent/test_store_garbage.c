/* What a split leaves behind: removed little by little, nothing else, and over kills. */
#include "garbage_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/store_owner.h"
#include "common/clock.h"

#define OWN 3 /* of the fixture */
TestSuite(store_garbage, .init = garbage_init, .fini = garbage_finish, .timeout = 60);

static uint64_t count_there(uint32_t count, uint32_t root)
{
    uint64_t there = 0;

    for (uint32_t i = root == 3 ? 0 : 1; i < count; i += 2)
        there += garbage_has(garbage_row(root, garbage_name(i), ""));
    return there;
}

Test(store_garbage, takes_every_row_of_the_child_and_none_of_the_parent)
{
    static char long_key[1000], long_subkey[600];
    static const char *const subkeys[] = {"", "a", "zz"};
    /* 3 and 11 stay with 3 of 8 processors, 7 and 15 are 7's then. */
    static const uint32_t roots[] = {3, 7, 11, 15};
    const struct store_owners owners = garbage_owners(16, 8);
    struct store_row rows[32];
    size_t count = 0;

    memset(long_key, 'k', sizeof(long_key) - 1);
    memset(long_subkey, 's', sizeof(long_subkey) - 1);
    fixture_open(&garbage_fixture, STORE_FRESH);
    for (size_t r = 0; r < 4; r++) {
        for (size_t s = 0; s < 3; s++) {
            rows[count++] = garbage_row(roots[r], "key", subkeys[s]);
            rows[count++] = garbage_row(roots[r], long_key, subkeys[s]);
        }
        rows[count++] = garbage_row(roots[r], "key", long_subkey);
        rows[count++] = garbage_row(roots[r], long_key, long_subkey);
    }
    for (size_t i = 0; i < count; i++)
        garbage_put(rows[i]);
    garbage_checkpoint(1);
    cr_assert_not(garbage_is_pending(), "nothing was split");
    store_tell_owners(garbage_fixture.store, &owners);
    cr_assert(garbage_is_pending());
    garbage_remove_all();
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(garbage_has(rows[i]), rows[i].root % 8 == 3, "row %zu of root %" PRIu32, i,
                     rows[i].root);
    cr_assert_eq(garbage_removed(), count / 2);
    cr_assert_eq(garbage_rows(), count / 2);
    cr_assert_eq(fixture_offset(&garbage_fixture), 1, "T2 is what it was");
    garbage_fixture.config.owners = owners;
    fixture_reopen(&garbage_fixture, STORE_KEPT); /* the rows add up */
    cr_assert_not(garbage_is_pending());
    cr_assert_eq(garbage_rows(), count / 2);
}

Test(store_garbage, goes_by_the_full_key_where_a_root_has_several_processors)
{
    /* Goal: 16 partitions became 64, 4 processors 32: root 3 has partitions of 3 and of 19. */
    static char long_key[3000];
    const struct store_owners owners = garbage_owners(64, 32);
    uint64_t stayed = 0;

    memset(long_key, 'x', sizeof(long_key) - 1);
    garbage_fixture.config.owners = garbage_owners(64, 4);
    fixture_open(&garbage_fixture, STORE_FRESH);
    for (uint32_t i = 0; i < 600; i++) {
        long_key[sizeof(long_key) - 2] = (char)('a' + i % 26);
        long_key[sizeof(long_key) - 3] = (char)('a' + i / 26);
        garbage_put(garbage_row(3, long_key, i % 2 == 0 ? "" : "sub"));
        garbage_put(garbage_row(3, garbage_name(i), ""));
    }
    garbage_checkpoint(1);
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_remove_all();
    for (uint32_t i = 0; i < 1200; i++) {
        const char *key = i < 600 ? long_key : garbage_name(i - 600);
        uint32_t hash, partition;
        struct store_row row;

        long_key[sizeof(long_key) - 2] = (char)('a' + i % 26);
        long_key[sizeof(long_key) - 3] = (char)('a' + i / 26 % 26);
        row = garbage_row(3, key, i < 600 && i % 2 == 1 ? "sub" : "");
        /* By the definition: 64 = 16 * 2^2 and 32 = 4 * 2^3, so both are plain remainders. */
        hash = key_hash(KEY_HASH_MURMUR2, key, strlen(key));
        partition = hash % 64;
        if (partition % 16 != 3) /* the hash does not explain where it is */
            cr_assert(garbage_has(row));
        else
            cr_assert_eq(garbage_has(row), partition % 32 == 3, "%s", key);
        stayed += garbage_has(row);
    }
    cr_assert_gt(garbage_removed(), 10);
    cr_assert_eq(stayed + garbage_removed(), 1200);
}

Test(store_garbage, removes_nothing_by_a_hash_that_nobody_knows)
{
    struct store_owners owners = garbage_owners(64, 32);

    owners.hashed = false;
    garbage_fixture.config.owners = garbage_owners(64, 4);
    fixture_open(&garbage_fixture, STORE_FRESH);
    for (uint32_t i = 0; i < 200; i++)
        garbage_put(garbage_row(3, garbage_name(i), ""));
    garbage_checkpoint(1);
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_remove_all();
    cr_assert_eq(garbage_removed(), 0);
    cr_assert_eq(garbage_rows(), 200);
}

Test(store_garbage, a_key_without_a_place_is_nobodys_for_certain)
{
    struct store_owners owners = garbage_owners(64, 32);
    const struct store_row empty = garbage_row(0, "", ""), other = garbage_row(0, "x", "");

    owners.map.hash = KEY_HASH_CRC32;
    cr_assert_not(store_owner_is_other(&owners, OWN, &empty));
    owners.map.partitions.now = 16; /* as it was at first: where it is, it is */
    owners.map.processors.now = 8;
    cr_assert(store_owner_is_other(&owners, OWN, &empty));
    cr_assert(store_owner_is_other(&owners, OWN, &other));
}

Test(store_garbage, agrees_with_linear_hashing_for_every_map)
{
    /* What is in the partitions of a processor is never another's; all else always is. */
    for (uint32_t processors = 4; processors <= 40; processors++) {
        for (uint32_t partitions = processors > 16 ? processors : 16; partitions <= 80;
             partitions += 3) {
            const struct store_owners owners = garbage_owners(partitions, processors);

            for (uint32_t i = 0; i < 40; i++) {
                const char *key = garbage_name(i);
                uint32_t partition = key_partition(&owners.map, key, strlen(key));
                uint32_t processor = key_processor(&owners.map, partition);
                struct store_row row = garbage_row(linhash_root(partition, 16), key, "");

                cr_assert_not(store_owner_is_other(&owners, processor, &row));
                cr_assert(store_owner_is_other(&owners, (processor + 1) % processors, &row));
            }
        }
    }
}

Test(store_garbage, scans_only_after_a_split_of_its_own)
{
    struct store_owners owners = garbage_owners(16, 7);
    uint64_t sequence;

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(10);
    sequence = garbage_fixture.store->meta.sequence;
    store_tell_owners(garbage_fixture.store, &owners); /* 4, 5, 6 are of others */
    cr_assert_not(garbage_is_pending());
    garbage_step();
    cr_assert_eq(garbage_fixture.store->meta.clean_for, 4, "nothing was written");
    garbage_checkpoint(11);
    cr_assert_eq(garbage_fixture.store->meta.clean_for, 7);
    owners.map.processors.now = 8;
    store_tell_owners(garbage_fixture.store, &owners);
    cr_assert(garbage_is_pending());
    garbage_remove_all();
    cr_assert_eq(garbage_fixture.store->meta.clean_for, 8);
    cr_assert_eq(garbage_fixture.store->meta.sequence, sequence + 1,
                 "no checkpoint was made of it");
    store_tell_owners(garbage_fixture.store, &owners);
    cr_assert_not(garbage_is_pending());
}

Test(store_garbage, of_a_state_that_an_older_agent_wrote_all_is_looked_at)
{
    garbage_fixture.config.owners = (struct store_owners){0};
    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(10);
    cr_assert_eq(garbage_fixture.store->meta.clean_for, 0);
    garbage_fixture.config.owners = garbage_owners(16, 8);
    fixture_reopen(&garbage_fixture, STORE_KEPT);
    garbage_remove_all();
    cr_assert_eq(garbage_rows(), 5);
    cr_assert_eq(count_there(10, 3), 5);
}

Test(store_garbage, a_new_processor_has_nothing_to_remove)
{
    struct store_owners owners = garbage_owners(16, 7);

    garbage_fixture.identity.processor = 7;
    garbage_fixture.config.owners = owners;
    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(10);
    cr_assert_not(garbage_is_pending());
    owners.map.processors.now = 8;
    store_tell_owners(garbage_fixture.store, &owners);
    cr_assert_not(garbage_is_pending());
    garbage_step();
    cr_assert_eq(garbage_rows(), 10);
}

Test(store_garbage, goes_on_after_a_kill_where_it_was)
{
    /* Goal: killed after each step, without closing: a copy of the file is what is left. */
    const struct store_owners owners = garbage_owners(16, 8);
    uint64_t all = 0, steps = 0;
    char copy[160];

    snprintf(copy, sizeof(copy), "%s/copy.mdb", garbage_fixture.root);
    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(ROWS_MAX);
    garbage_fixture.config.owners = owners;
    store_tell_owners(garbage_fixture.store, &owners);
    while (garbage_is_pending()) {
        uint64_t before = garbage_removed();

        garbage_step();
        all += garbage_removed() - before;
        steps++;
        fixture_copy_file(garbage_fixture.data_path, copy);
        fixture_close(&garbage_fixture);
        fixture_copy_file(copy, garbage_fixture.data_path);
        fixture_open(&garbage_fixture, STORE_KEPT);
        cr_assert_eq(fixture_offset(&garbage_fixture), ROWS_MAX);
        /* A step looks at 64 rows at least, however slow the machine is. */
        cr_assert_leq(steps, ROWS_MAX / 64 + 2, "it does not begin anew each time");
    }
    cr_assert_gt(steps, 2);
    cr_assert_eq(all, ROWS_MAX / 2, "each once");
    cr_assert_eq(count_there(ROWS_MAX, 3), ROWS_MAX / 2);
    cr_assert_eq(count_there(ROWS_MAX, 7), 0);
}

Test(store_garbage, begins_anew_when_there_is_another_split_meanwhile)
{
    struct store_owners owners = garbage_owners(16, 8);

    fixture_open(&garbage_fixture, STORE_FRESH);
    for (uint32_t i = 0; i < ROWS_MAX; i++)
        garbage_put(garbage_row(3, garbage_name(i), ""));
    garbage_put(garbage_row(11, "is 11's of 12", ""));
    garbage_put(garbage_row(1, "nobody's", "")); /* at the start: looked at by then */
    garbage_checkpoint(1);
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_step();
    cr_assert(garbage_is_pending());
    owners.map.processors.now = 12;
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_remove_all();
    cr_assert_eq(garbage_fixture.store->meta.clean_for, 12);
    cr_assert_not(garbage_has(garbage_row(11, "is 11's of 12", "")));
    cr_assert_eq(garbage_rows(), ROWS_MAX);
}

Test(store_garbage, waits_for_what_was_changed_before_it_was_told)
{
    const struct store_owners owners = garbage_owners(16, 8);

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(10);
    garbage_put(garbage_row(7, "not written yet", ""));
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_step();
    cr_assert_eq(garbage_removed(), 0);
    garbage_checkpoint(11);
    garbage_remove_all();
    cr_assert_not(garbage_has(garbage_row(7, "not written yet", "")));
    cr_assert_eq(garbage_rows(), 5);
}

Test(store_garbage, a_checkpoint_waits_for_the_end_of_a_step_and_nobody_else)
{
    const struct store_owners owners = garbage_owners(16, 8);
    struct err error = {0};

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(ROWS_MAX);
    store_tell_owners(garbage_fixture.store, &owners);
    store_test_hold_flush(garbage_fixture.store, true);
    cr_assert_eq(store_remove_garbage(garbage_fixture.store, INT64_MAX, &error), ERR_NONE);
    cr_assert(garbage_fixture.store->garbage.running);
    garbage_put(garbage_row(3, "put meanwhile", ""));
    garbage_freeze(ROWS_MAX + 1);
    cr_assert(garbage_has(garbage_row(3, "put meanwhile", "")));
    cr_assert(garbage_has(garbage_row(3, garbage_name(0), "")));
    cr_assert_eq(store_flush_state(garbage_fixture.store, &error), STORE_FLUSH_RUNNING);
    cr_assert_eq(store_flush_wait(garbage_fixture.store, clock_mono_ms(), &error), ERR_TIMEOUT);
    store_test_hold_flush(garbage_fixture.store, false);
    cr_assert_eq(store_flush_wait(garbage_fixture.store, INT64_MAX, &error), ERR_NONE, "%s",
                 error.text);
    cr_assert_eq(fixture_offset(&garbage_fixture), ROWS_MAX + 1);
    garbage_remove_all();
    cr_assert_eq(garbage_rows(), ROWS_MAX / 2 + 1);
    garbage_fixture.config.owners = owners;
    fixture_reopen(&garbage_fixture, STORE_KEPT);
    cr_assert(garbage_has(garbage_row(3, "put meanwhile", "")));
}

Test(store_garbage, a_store_may_be_closed_during_a_step)
{
    const struct store_owners owners = garbage_owners(16, 8);
    struct err error = {0};

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(ROWS_MAX);
    store_tell_owners(garbage_fixture.store, &owners);
    cr_assert_eq(store_remove_garbage(garbage_fixture.store, INT64_MAX, &error), ERR_NONE);
    garbage_fixture.config.owners = owners;
    fixture_reopen(&garbage_fixture, STORE_KEPT);
    cr_assert_eq(store_drop_live(garbage_fixture.store, &error), ERR_NONE);
    garbage_remove_all();
    cr_assert_eq(garbage_rows(), ROWS_MAX / 2);
}

Test(store_garbage, a_step_that_fails_is_made_again)
{
    const struct store_owners owners = garbage_owners(16, 8);

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(100);
    store_tell_owners(garbage_fixture.store, &owners);
    store_test_fail_flush(garbage_fixture.store, ENOSPC, 1);
    garbage_step();
    cr_assert_eq(garbage_removed(), 0);
    cr_assert(garbage_is_pending());
    cr_assert_eq(garbage_rows(), 100);
    cr_assert_gt(garbage_fixture.store->garbage.due_mono_ms, clock_mono_ms(), "not at once");
    store_test_fail_flush(garbage_fixture.store, MDB_MAP_FULL, 1);
    garbage_step();
    cr_assert_leq(garbage_fixture.store->garbage.due_mono_ms, clock_mono_ms(), "the map has grown");
    garbage_remove_all();
    cr_assert_eq(garbage_rows(), 50);
}

static void damage(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    unsigned char bytes[64];

    (void)meta;
    (void)arg;
    cr_assert_eq(mdb_cursor_open(txn, rows, &cursor), 0);
    cr_assert_eq(mdb_cursor_get(cursor, &key, &value, MDB_FIRST), 0);
    cr_assert_leq(value.mv_size, sizeof(bytes));
    memcpy(bytes, value.mv_data, value.mv_size);
    bytes[value.mv_size - 1] ^= 1;
    value.mv_data = bytes;
    cr_assert_eq(mdb_cursor_put(cursor, &key, &value, MDB_CURRENT), 0);
    mdb_cursor_close(cursor);
}

Test(store_garbage, a_damaged_row_is_told_of)
{
    const struct store_owners owners = garbage_owners(16, 8);
    struct err error = {0};
    MDB_txn *txn;

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(10);
    cr_assert_eq(mdb_txn_begin(garbage_fixture.store->env, NULL, 0, &txn), 0);
    damage(txn, garbage_fixture.store->rows_dbi, garbage_fixture.store->meta_dbi, NULL);
    cr_assert_eq(mdb_txn_commit(txn), 0);
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_step();
    cr_assert_eq(store_remove_garbage(garbage_fixture.store, INT64_MAX, &error), ERR_CORRUPT);
    cr_assert_not_null(strstr(error.text, "checksum"), "%s", error.text);
}

static int64_t file_bytes(void)
{
    struct stat status;

    cr_assert_eq(stat(garbage_fixture.data_path, &status), 0);
    return (int64_t)status.st_size;
}

Test(store_garbage, what_is_written_afterwards_takes_the_room)
{
    const struct store_owners owners = garbage_owners(16, 8);
    int64_t before;

    fixture_open(&garbage_fixture, STORE_FRESH);
    garbage_fill(ROWS_MAX);
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_remove_all();
    garbage_checkpoint(ROWS_MAX);
    before = file_bytes();
    for (uint32_t i = 0; i < ROWS_MAX / 4; i++)
        garbage_put(garbage_row(11, garbage_name(i), ""));
    garbage_checkpoint(ROWS_MAX + 1);
    cr_assert_eq(garbage_rows(), ROWS_MAX / 2 + ROWS_MAX / 4);
    cr_assert_eq(file_bytes(), before, "the file has not grown");
}

Test(store_garbage, rows_past_their_time_go_with_it)
{
    const struct store_owners owners = garbage_owners(16, 8);
    const struct store_position later[] = {
        {.partition = 3, .root = 3, .record_time_ms = 150, .next_offset = 2}};

    garbage_fixture.config.state_ttl_ms = 100;
    fixture_open(&garbage_fixture, STORE_FRESH);
    store_put(garbage_fixture.store, garbage_row(3, "dead", ""), 0, "1", 1);
    store_put(garbage_fixture.store, garbage_row(3, "alive", ""), 100, "1", 1);
    store_put(garbage_fixture.store, garbage_row(7, "dead", ""), 0, "1", 1);
    store_put(garbage_fixture.store, garbage_row(7, "alive", ""), 100, "1", 1);
    garbage_checkpoint(1);
    store_tell_owners(garbage_fixture.store, &owners);
    garbage_remove_all();
    cr_assert_eq(garbage_rows(), 2);
    cr_assert(store_freeze(garbage_fixture.store, later, 1));
    cr_assert_eq(store_flush_wait(garbage_fixture.store, INT64_MAX, NULL), ERR_NONE);
    cr_assert_eq(garbage_rows(), 1);
    cr_assert(garbage_has(garbage_row(3, "alive", "")));
}
