/*
 * store_check.c against damage that is aimed: one structure of the data file at a time, with
 * everything else left in order, and the text that says which rule was broken.
 */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/store_page.h"
#include "common/mem.h"

#define PAGE_BYTES ((size_t)4096)

static struct store_fixture fixture;
static unsigned char *image, *pristine; /* of the data file */
static size_t image_bytes;

/* ---- finding one's way ------------------------------------------------------------------------
 */

static unsigned char *page_at(uint64_t number)
{
    cr_assert_lt(number, image_bytes / PAGE_BYTES);
    return image + number * PAGE_BYTES;
}

static struct meta_page *newer_meta(void)
{
    struct meta_page *metas[2] = {(struct meta_page *)(void *)page_at(0),
                                  (struct meta_page *)(void *)page_at(1)};

    return metas[metas[0]->transaction < metas[1]->transaction];
}

static uint64_t number_at(const unsigned char *at)
{
    uint64_t number;

    memcpy(&number, at, sizeof(number));
    return number;
}

static void set_number(const unsigned char *at, uint64_t number)
{
    memcpy((unsigned char *)at, &number, sizeof(number));
}

static void set_half(unsigned char *page, size_t offset, uint16_t number)
{
    memcpy(page + offset, &number, sizeof(number));
}

static uint16_t half_at(const unsigned char *page, size_t offset)
{
    uint16_t number;

    memcpy(&number, page + offset, sizeof(number));
    return number;
}

/* The record of a database in LMDB's main database, where it lies (not aligned). */
static unsigned char *record_at(const char *name)
{
    unsigned char *page = page_at(newer_meta()->main.root);

    for (size_t i = 0; i < store_page_count(page); i++) {
        const struct store_node node = store_page_node(page, i);

        if (node.key_bytes == strlen(name) && memcmp(node.key, name, node.key_bytes) == 0)
            return (unsigned char *)node.data;
    }
    cr_assert(false, "no database %s", name);
    return NULL;
}

static struct tree_record record_of(const char *name)
{
    struct tree_record record;

    memcpy(&record, record_at(name), sizeof(record));
    return record;
}

static void set_record(const char *name, struct tree_record record)
{
    memcpy(record_at(name), &record, sizeof(record));
}

static unsigned char *rows_branch(void)
{
    return page_at(record_of("rows").root);
}

/* Leaf below the root's second child: not the first, so it has a bound on both sides. */
static unsigned char *rows_leaf(void)
{
    cr_assert_eq(record_of("rows").depth, 2);
    return page_at(store_page_node(rows_branch(), 1).child);
}

static unsigned char *free_leaf(void)
{
    cr_assert_eq(newer_meta()->free.depth, 1);
    return page_at(newer_meta()->free.root);
}

/* The longest list of free pages that lies in the leaf: count, then descending numbers. */
static const unsigned char *free_list(void)
{
    const unsigned char *page = free_leaf(), *longest = NULL;

    for (size_t i = 0; i < store_page_count(page); i++) {
        const struct store_node node = store_page_node(page, i);

        if ((node.flags & F_BIGDATA) == 0 &&
            (longest == NULL || number_at(node.data) > number_at(longest)))
            longest = node.data;
    }
    cr_assert_not_null(longest);
    cr_assert_gt(number_at(longest), 2);
    return longest;
}

/* Where the node with its data on an overflow run says so. */
static const unsigned char *run_reference(void)
{
    for (size_t child = 0; child < store_page_count(rows_branch()); child++) {
        const unsigned char *page = page_at(store_page_node(rows_branch(), child).child);

        for (size_t i = 0; i < store_page_count(page); i++) {
            const struct store_node node = store_page_node(page, i);

            if ((node.flags & F_BIGDATA) != 0)
                return node.data;
        }
    }
    cr_assert(false, "no overflow run");
    return NULL;
}

static unsigned char *run_page(void)
{
    return page_at(number_at(run_reference()));
}

#define LOWER_OFFSET ((size_t)12)
#define UPPER_OFFSET ((size_t)14)
#define FLAGS_OFFSET ((size_t)10)

/* ---- damage ---------------------------------------------------------------------------------- */

#define DAMAGE(name, statement)                                                                    \
    static void name(void)                                                                         \
    {                                                                                              \
        statement;                                                                                 \
    }

static void list_a_used_page_as_free(void)
{
    set_number(free_list() + 8, record_of("rows").root);
    set_number(free_list(), 1); /* one entry is in order */
}

DAMAGE(list_a_page_that_never_was, set_number(free_list() + 8, newer_meta()->last_page + 1))

static void list_a_meta_page_as_free(void)
{
    const unsigned char *list = free_list();

    set_number(list + 8 * number_at(list), 1);
}

static void swap_free_pages(void)
{
    const unsigned char *list = free_list();
    const uint64_t first = number_at(list + 8);

    set_number(list + 8, number_at(list + 16));
    set_number(list + 16, first);
}

DAMAGE(lengthen_the_free_list, set_number(free_list(), UINT64_MAX / 8))

static void free_pages_in_the_future(void)
{
    const size_t last = store_page_count(free_leaf()) - 1;

    set_number(store_page_node(free_leaf(), last).key, newer_meta()->transaction + 1);
}

DAMAGE(free_pages_in_no_transaction, set_number(store_page_node(free_leaf(), 0).key, 0))
DAMAGE(renumber_a_page, set_number(rows_leaf(), number_at(rows_leaf()) + 1))
DAMAGE(turn_a_leaf_into_a_branch, set_half(rows_leaf(), FLAGS_OFFSET, P_BRANCH))
DAMAGE(turn_a_leaf_into_a_fixed_size_one, set_half(rows_leaf(), FLAGS_OFFSET, P_LEAF | 0x20))

static void empty_a_leaf(void)
{
    set_half(rows_leaf(), LOWER_OFFSET, PAGE_HEADER_BYTES);
    set_half(rows_leaf(), UPPER_OFFSET, PAGE_BYTES);
}

DAMAGE(raise_lower_over_upper,
       set_half(rows_leaf(), LOWER_OFFSET, (uint16_t)(half_at(rows_leaf(), UPPER_OFFSET) + 2)))
DAMAGE(put_lower_into_the_header, set_half(rows_leaf(), LOWER_OFFSET, 8))
DAMAGE(put_upper_outside_the_page, set_half(rows_leaf(), UPPER_OFFSET, PAGE_BYTES + 2))
DAMAGE(put_a_node_outside_the_page, set_half(rows_leaf(), PAGE_HEADER_BYTES, PAGE_BYTES - 6))
DAMAGE(put_a_node_on_an_odd_byte, set_half(rows_leaf(), PAGE_HEADER_BYTES,
                                           (uint16_t)(half_at(rows_leaf(), PAGE_HEADER_BYTES) + 1)))
DAMAGE(put_two_nodes_on_one_place,
       set_half(rows_leaf(), PAGE_HEADER_BYTES, half_at(rows_leaf(), PAGE_HEADER_BYTES + 2)))

static void list_a_node_twice(void)
{
    unsigned char *page = rows_branch();
    const uint16_t lower = half_at(page, LOWER_OFFSET);

    set_half(page, lower, half_at(page, lower - 2u));
    set_half(page, LOWER_OFFSET, (uint16_t)(lower + 2));
}

DAMAGE(leave_room_below_the_nodes,
       set_half(rows_leaf(), UPPER_OFFSET, (uint16_t)(half_at(rows_leaf(), UPPER_OFFSET) - 2)))

static void make_a_key_too_long(void)
{
    unsigned char *page = rows_leaf();

    set_half(page, half_at(page, PAGE_HEADER_BYTES) + 6u, 5000);
}

static void make_a_value_too_long(void)
{
    unsigned char *page = rows_leaf();

    set_half(page, half_at(page, PAGE_HEADER_BYTES) + 2u, 1); /* 64 KiB more */
}

static void mark_a_node_as_many_values(void)
{
    unsigned char *page = rows_leaf();

    set_half(page, half_at(page, PAGE_HEADER_BYTES) + 4u, 4 /* F_DUPDATA */);
}

static void mark_a_node_as_a_database(void)
{
    unsigned char *page = rows_leaf();

    set_half(page, half_at(page, PAGE_HEADER_BYTES) + 4u, F_SUBDATA);
}

static void cut_a_branch_to_one_child(void)
{
    unsigned char *page = rows_branch();
    const uint16_t offset = half_at(page, PAGE_HEADER_BYTES);
    const size_t bytes = 8 + (size_t)((store_page_node(page, 0).key_bytes + 1) & ~1);

    memmove(page + PAGE_BYTES - bytes, page + offset, bytes);
    set_half(page, PAGE_HEADER_BYTES, (uint16_t)(PAGE_BYTES - bytes));
    set_half(page, LOWER_OFFSET, PAGE_HEADER_BYTES + 2);
    set_half(page, UPPER_OFFSET, (uint16_t)(PAGE_BYTES - bytes));
}

static void point_two_children_at_one_page(void)
{
    unsigned char *page = rows_branch();

    set_half(page, half_at(page, PAGE_HEADER_BYTES + 2),
             half_at(page, half_at(page, PAGE_HEADER_BYTES + 4)));
}

static void point_a_child_outside_the_file(void)
{
    unsigned char *page = rows_branch();

    set_half(page, half_at(page, PAGE_HEADER_BYTES + 2) + 4u, 1); /* page + 2^32 */
}

static void raise_a_separator(void)
{
    unsigned char *key = (unsigned char *)store_page_node(rows_branch(), 1).key;

    /* Over the first keys of its own child, still below the next separator. */
    memcpy(key, store_page_node(rows_leaf(), 1).key, store_page_node(rows_leaf(), 1).key_bytes);
}

static void lower_a_separator(void)
{
    const unsigned char *before = page_at(store_page_node(rows_branch(), 0).child);
    const struct store_node node = store_page_node(before, store_page_count(before) - 1);

    /* To the last key of the child before it, which then lies past it. */
    memcpy((unsigned char *)store_page_node(rows_branch(), 1).key, node.key, node.key_bytes);
}

static void swap_two_rows(void)
{
    unsigned char *page = rows_leaf();
    const uint16_t first = half_at(page, PAGE_HEADER_BYTES);

    set_half(page, PAGE_HEADER_BYTES, half_at(page, PAGE_HEADER_BYTES + 2));
    set_half(page, PAGE_HEADER_BYTES + 2, first);
}

static void change_a_value(void)
{
    unsigned char *data = (unsigned char *)store_page_node(rows_leaf(), 0).data;

    data[16] ^= 1;
}

DAMAGE(change_a_run, run_page()[PAGE_BYTES + 100] ^= 1)
DAMAGE(renumber_a_run, set_number(run_page(), number_at(run_page()) + 1))
DAMAGE(shorten_a_run, set_half(run_page(), LOWER_OFFSET, 1))
DAMAGE(lengthen_a_run,
       set_half(run_page(), LOWER_OFFSET, (uint16_t)(half_at(run_page(), LOWER_OFFSET) + 1)))
DAMAGE(lengthen_a_run_past_the_end, set_half(run_page(), UPPER_OFFSET, 1)) /* 65,536 pages more */
DAMAGE(point_a_run_outside_the_file, set_number(run_reference(), newer_meta()->last_page + 1))
DAMAGE(point_a_run_at_a_meta_page, set_number(run_reference(), 1))
#define CHANGE_RECORD(name, change)                                                                \
    static void name(void)                                                                         \
    {                                                                                              \
        struct tree_record record = record_of("rows");                                             \
        change;                                                                                    \
        set_record("rows", record);                                                                \
    }
CHANGE_RECORD(miscount_branches, record.branch_pages++)
CHANGE_RECORD(miscount_leaves, record.leaf_pages--)
CHANGE_RECORD(miscount_runs, record.overflow_pages++)
CHANGE_RECORD(miscount_entries, record.entries--)
CHANGE_RECORD(make_the_tree_deeper, record.depth++)
CHANGE_RECORD(make_the_tree_flatter, record.depth--)
CHANGE_RECORD(make_the_tree_bottomless, record.depth = 65535)
CHANGE_RECORD(lose_the_root, record.root = UINT64_MAX)
CHANGE_RECORD(lose_the_tree, record.root = UINT64_MAX; record.depth = 0)
CHANGE_RECORD(move_the_root, record.root = store_page_node(rows_branch(), 0).child)
CHANGE_RECORD(allow_many_values, record.flags = MDB_DUPSORT)
CHANGE_RECORD(fix_the_size_of_keys, record.pad = 8)

DAMAGE(rename_a_database,
       *(unsigned char *)store_page_node(page_at(newer_meta()->main.root), 0).key = 'M')
DAMAGE(skip_a_commit, newer_meta()->transaction += 2)
DAMAGE(double_a_commit, newer_meta()->transaction--)

static void put_the_commits_on_each_others_pages(void)
{
    for (uint64_t page = 0; page < 2; page++)
        ((struct meta_page *)(void *)page_at(page))->transaction--;
}

DAMAGE(change_the_magic, newer_meta()->magic ^= 256)
DAMAGE(change_the_version, newer_meta()->version = 2)
DAMAGE(change_the_page_size, ((struct meta_page *)(void *)page_at(1))->free.pad = 8192)
DAMAGE(make_the_page_size_odd, ((struct meta_page *)(void *)page_at(0))->free.pad = 4095)
DAMAGE(make_the_page_size_zero, ((struct meta_page *)(void *)page_at(0))->free.pad = 0)
DAMAGE(map_at_a_fixed_address, newer_meta()->free.flags |= MDB_FIXEDMAP)
DAMAGE(reverse_the_names, newer_meta()->main.flags |= MDB_REVERSEKEY)
DAMAGE(put_the_end_before_the_pages, newer_meta()->last_page = 3)
DAMAGE(put_the_end_far_away, newer_meta()->last_page = UINT64_MAX / 4096)
DAMAGE(make_a_meta_page_a_leaf, newer_meta()->header.flags = P_LEAF)
/* ---- the table --------------------------------------------------------------------------------
 */

static const struct {
    void (*damage)(void);
    const char *name;
    const char *text; /* part of what is said */
} table[] = {
#define LINE(name, text)                                                                           \
    {                                                                                              \
        name, #name, text                                                                          \
    }
    LINE(list_a_used_page_as_free, "is used twice"),
    LINE(list_a_page_that_never_was, "no such page"),
    LINE(list_a_meta_page_as_free, "no such page"),
    LINE(swap_free_pages, "free pages are not in order"),
    LINE(lengthen_the_free_list, "record of free pages"),
    LINE(free_pages_in_the_future, "record of free pages"),
    LINE(free_pages_in_no_transaction, "record of free pages"),
    LINE(renumber_a_page, "not the page it should be"),
    LINE(turn_a_leaf_into_a_branch, "not the page it should be"),
    LINE(turn_a_leaf_into_a_fixed_size_one, "not the page it should be"),
    LINE(empty_a_leaf, "too few nodes"),
    LINE(raise_lower_over_upper, "header is damaged"),
    LINE(put_lower_into_the_header, "header is damaged"),
    LINE(put_upper_outside_the_page, "header is damaged"),
    LINE(put_a_node_outside_the_page, "outside the page"),
    LINE(put_a_node_on_an_odd_byte, "outside the page"),
    LINE(put_two_nodes_on_one_place, "nodes do not fill"),
    LINE(list_a_node_twice, "nodes overlap"),
    LINE(leave_room_below_the_nodes, "nodes do not fill"),
    LINE(make_a_key_too_long, "outside the page"),
    LINE(make_a_value_too_long, "outside the page"),
    LINE(mark_a_node_as_many_values, "unknown kind"),
    LINE(mark_a_node_as_a_database, "unknown kind"),
    LINE(cut_a_branch_to_one_child, "too few nodes"),
    LINE(point_two_children_at_one_page, "not in order"),
    LINE(point_a_child_outside_the_file, "no such page"),
    LINE(raise_a_separator, "keys are not in order"),
    LINE(lower_a_separator, "keys are not in order"),
    LINE(swap_two_rows, "keys are not in order"),
    LINE(change_a_value, "checksum"),
    LINE(change_a_run, "checksum"),
    LINE(renumber_a_run, "overflow run"),
    LINE(shorten_a_run, "overflow run"),
    LINE(lengthen_a_run, ""), /* used twice, or miscounted */
    LINE(lengthen_a_run_past_the_end, "overflow run"),
    LINE(point_a_run_outside_the_file, "no such page"),
    LINE(point_a_run_at_a_meta_page, "no such page"),
    LINE(miscount_branches, "counts"),
    LINE(miscount_leaves, "counts"),
    LINE(miscount_runs, "counts"),
    LINE(miscount_entries, "counts"),
    LINE(make_the_tree_deeper, "not the page it should be"),
    LINE(make_the_tree_flatter, "not the page it should be"),
    LINE(make_the_tree_bottomless, "depth or root"),
    LINE(lose_the_root, "depth or root"),
    LINE(lose_the_tree, "counts"),
    LINE(move_the_root, "not the page it should be"),
    LINE(allow_many_values, "unknown kind"),
    LINE(fix_the_size_of_keys, "unknown kind"),
    LINE(rename_a_database, "unknown database"),
    LINE(skip_a_commit, "commits' numbers"),
    LINE(double_a_commit, "commits' numbers"),
    LINE(put_the_commits_on_each_others_pages, "commits' numbers"),
    LINE(change_the_magic, "not a meta page"),
    LINE(change_the_version, "version"),
    LINE(change_the_page_size, "page size"),
    LINE(make_the_page_size_odd, "page size"),
    LINE(make_the_page_size_zero, "page size"),
    LINE(map_at_a_fixed_address, "flags"),
    LINE(reverse_the_names, "flags"),
    LINE(put_the_end_before_the_pages, "no such page"),
    LINE(put_the_end_far_away, "far outside the file"),
    LINE(make_a_meta_page_a_leaf, "not a meta page"),
};

/* ---- tests ------------------------------------------------------------------------------------
 */

static void read_image(void)
{
    struct stat status;
    int fd;

    cr_assert_eq(stat(fixture.data_path, &status), 0);
    image_bytes = (size_t)status.st_size;
    image = mem_calloc(1, image_bytes);
    fd = open(fixture.data_path, O_RDONLY | O_CLOEXEC);
    cr_assert_eq(read(fd, image, image_bytes), (ssize_t)image_bytes);
    cr_assert_eq(close(fd), 0);
    pristine = mem_memdup(image, image_bytes);
}

static void write_image(void)
{
    const int fd = open(fixture.data_path, O_WRONLY | O_CLOEXEC);

    cr_assert_eq(write(fd, image, image_bytes), (ssize_t)image_bytes);
    cr_assert_eq(close(fd), 0);
}

/* Rows of two levels in keys of one length (so that one fits in another's place), one on an
 * overflow run of several pages, and lists of free pages. */
static void setup(void)
{
    static char value[9000];
    char key[32];

    fixture_init(&fixture);
    fixture_open(&fixture, STORE_FRESH);
    for (int checkpoint = 1; checkpoint <= 4; checkpoint++) {
        for (int i = 0; i < 1000; i += checkpoint) {
            snprintf(key, sizeof(key), "key-%06d", i);
            fixture_put(&fixture, key, checkpoint % 2 == 0 ? "one value" : "another value");
        }
        memset(value, 'a' + checkpoint, sizeof(value));
        store_put(fixture.store, fixture_row("key-000500"), 0, value, sizeof(value));
        fixture_checkpoint(&fixture, checkpoint);
    }
    fixture_close(&fixture);
    read_image();
}

static void teardown(void)
{
    free(image);
    free(pristine);
    fixture_finish(&fixture);
}

TestSuite(store_layout, .init = setup, .fini = teardown, .timeout = 110);

Test(store_layout, each_kind_of_damage_is_detected_by_its_rule)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct store_meta meta = {0};
        struct err error = {0};

        memcpy(image, pristine, image_bytes);
        table[i].damage();
        cr_assert_neq(memcmp(image, pristine, image_bytes), 0, "%s", table[i].name);
        write_image();
        cr_assert_eq(store_check_file(fixture.data_path, &meta, &error), ERR_CORRUPT, "%s",
                     table[i].name);
        cr_assert_not_null(strstr(error.text, table[i].text), "%s: %s", table[i].name, error.text);
    }
    memcpy(image, pristine, image_bytes);
    write_image();
    fixture_open(&fixture, STORE_KEPT);
}

/* The newest commit loses its number: what is left is the commit before, whole, with its own
 * positions. */
Test(store_layout, a_lost_commit_leaves_the_one_before)
{
    struct store_meta meta = {0};
    struct err error = {0};

    newer_meta()->transaction -= 2;
    write_image();
    cr_assert_eq(store_check_file(fixture.data_path, &meta, &error), ERR_NONE, "%s", error.text);
    cr_assert_not(meta.clean); /* the last commit was the mark of store_close */
    cr_assert_eq(meta.position_count, 1);
    cr_assert_eq(meta.positions[0].next_offset, 4);
    store_meta_finish(&meta);
}

/* A branch with one child, damaged while LMDB has it open: it asserts that there are two. */
Test(store_layout, an_assertion_of_lmdb_ends_the_process_and_sets_the_state_aside)
{
    const uint16_t lower = PAGE_HEADER_BYTES + 2;
    const off_t at = (off_t)(record_of("rows").root * PAGE_BYTES + LOWER_OFFSET);
    const pid_t child = fork();
    int status;

    if (child == 0) {
        const int fd = open(fixture.data_path, O_WRONLY | O_CLOEXEC);

        fixture_open(&fixture, STORE_KEPT);
        (void)!pwrite(fd, &lower, sizeof(lower), at);
        (void)fixture_get(&fixture, "key-000007");
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %x", status);

    /* After: set aside although the file is sound again. */
    write_image();
    fixture_open(&fixture, STORE_SET_ASIDE);
    cr_assert_not_null(strstr(fixture.reason, "assertion failed"), "%s", fixture.reason);
}
