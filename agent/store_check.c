/*
 * Proves that a data file is sound before LMDB maps it.
 *
 * LMDB trusts what it reads: a flipped byte in a page header makes it crash or answer "not found",
 * a flipped byte in its list of free pages makes it overwrite live ones later, and a file that was
 * cut short kills the process with SIGBUS. So the file is read here first, with pread and with
 * every number checked before it is used. Sound means:
 *
 *   - both meta pages are of the one format known here, and their transaction numbers follow each
 *     other as commits make them;
 *   - every page of every tree is inside the file, says its own number and kind, is used once, and
 *     is not listed as free; its nodes fill it without gap or overlap;
 *   - keys ascend, and lie between the separators above them; depth and counts are those on record;
 *   - the meta record and every row match their checksums, and the rows add up (number, and sum of
 *     checksums) to what the meta record of the same commit says, so none is missing, doubled or
 *     old.
 *
 * What can still differ without being noticed is what nobody reads: unused room, separators that
 * still separate, the older of the two meta pages' roots, free pages that are no longer listed.
 *
 * Cost: 1 M rows of 60 bytes (210 MB with free pages) take 0.07 s from the page cache.
 */
#include "agent/store_internal.h"
#include "agent/store_page.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

#if MDB_VERSION_MAJOR != 0 || MDB_VERSION_MINOR != 9
#error "the layout of the data file is known for LMDB 0.9 only"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the layout of the data file is known for little-endian hosts only"
#endif
_Static_assert(sizeof(size_t) == 8, "the layout of the data file is known for 64-bit hosts only");

#define DEPTH_MAX 32

/* ---- state ------------------------------------------------------------------------------------
 */

struct bytes {
    const unsigned char *data; /* as a bound: NULL is no bound */
    size_t bytes;
};

enum tree_kind { TREE_FREE, TREE_MAIN, TREE_META, TREE_ROWS };

struct tree {
    enum tree_kind kind;
    struct tree_record record; /* what is said about it */
    struct tree_record seen;   /* what is there */
};

struct check {
    int fd;
    uint64_t file_bytes;
    size_t page_bytes;
    uint64_t page_limit; /* one past the last page in use, ever */
    uint64_t transaction;
    unsigned char *used; /* bitmap: pages of trees, and pages listed as free */
    uint16_t *extents; /* of the page at hand: at a node's start, its length in cells of 2 bytes */
    unsigned char *pages[DEPTH_MAX]; /* the path that is being walked */
    unsigned char *run;              /* data of one overflow run */
    size_t run_capacity;
    struct tree meta_tree, rows_tree;
    bool meta_tree_found, rows_tree_found;
    struct store_meta meta;
    bool meta_found;
    uint64_t rows, digest;
    struct err *reterr;
};

static bool fail(struct check *check, uint64_t page, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail(struct check *check, uint64_t page, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* cut is fine: it is for people */
    va_end(args);
    (void)err_set(check->reterr, ERR_CORRUPT, "page %" PRIu64 ": %s", page, text);
    return false;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool read_at(struct check *check, uint64_t page, uint64_t offset, void *data, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        const ssize_t got =
            pread(check->fd, (char *)data + done, bytes - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(check, page, "can not be read: %s", strerror(errno));
        if (got == 0)
            return fail(check, page, "the file is cut short");
        done += (size_t)got;
    }
    return true;
}

static bool mark_used(struct check *check, uint64_t page)
{
    unsigned char *byte;

    if (page < PAGE_FIRST || page >= check->page_limit)
        return fail(check, page, "there is no such page");
    byte = &check->used[page / 8];
    if ((*byte & (1u << (page % 8))) != 0)
        return fail(check, page, "is used twice");
    *byte |= (unsigned char)(1u << (page % 8));
    return true;
}

/* The data of a node on an overflow run of pages. */
static bool read_run(struct check *check, struct tree *tree, uint64_t page, size_t bytes)
{
    const uint64_t pages_min = (PAGE_HEADER_BYTES - 1 + bytes) / check->page_bytes + 1;
    struct page_header header;

    if (page < PAGE_FIRST || page >= check->page_limit)
        return fail(check, page, "there is no such page");
    if (!read_at(check, page, page * check->page_bytes, &header, sizeof(header)))
        return false;
    if (header.number != page || header.flags != P_OVERFLOW || header.pages < pages_min ||
        header.pages > check->page_limit - page)
        return fail(check, page, "is not the overflow run it should be");
    for (uint64_t i = 0; i < header.pages; i++) {
        if (!mark_used(check, page + i))
            return false;
    }
    tree->seen.overflow_pages += header.pages;
    if (page * check->page_bytes + PAGE_HEADER_BYTES + bytes > check->file_bytes)
        return fail(check, page, "the file is cut short");
    if (bytes > check->run_capacity) {
        check->run = mem_realloc(check->run, bytes, 1);
        check->run_capacity = bytes;
    }
    return read_at(check, page, page * check->page_bytes + PAGE_HEADER_BYTES, check->run, bytes);
}

/* ---- content ----------------------------------------------------------------------------------
 */

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes.bytes == strlen(text) && memcmp(bytes.data, text, bytes.bytes) == 0;
}

/* A record of the list of free pages: key, the transaction that freed them; count, descending
 * numbers. */
static bool visit_free(struct check *check, uint64_t page, struct bytes key, struct bytes value)
{
    const size_t room = value.bytes / 8;
    uint64_t transaction, count, above = UINT64_MAX;

    if (key.bytes != 8 || room == 0 || value.bytes % 8 != 0)
        return fail(check, page, "a record of free pages is not of the known form");
    memcpy(&transaction, key.data, 8);
    memcpy(&count, value.data, 8);
    if (transaction == 0 || transaction > check->transaction || count > room - 1)
        return fail(check, page, "a record of free pages is not of the known form");
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t number;

        memcpy(&number, value.data + 8 * i, 8);
        if (number >= above)
            return fail(check, page, "free pages are not in order");
        if (!mark_used(check, number))
            return false;
        above = number;
    }
    return true;
}

static bool visit_main(struct check *check, uint64_t page, struct bytes key, struct bytes value)
{
    struct tree *tree = NULL;
    bool *found = NULL;

    if (is_text(key, "rows")) {
        tree = &check->rows_tree;
        found = &check->rows_tree_found;
    } else if (is_text(key, "meta")) {
        tree = &check->meta_tree;
        found = &check->meta_tree_found;
    }
    if (tree == NULL || value.bytes != sizeof(tree->record))
        return fail(check, page, "an unknown database");
    memcpy(&tree->record, value.data, sizeof(tree->record));
    if (tree->record.flags != 0 || tree->record.pad != 0)
        return fail(check, page, "a database of an unknown kind");
    *found = true;
    return true;
}

static bool visit_meta(struct check *check, uint64_t page, struct bytes key, struct bytes value)
{
    const MDB_val data = {.mv_size = value.bytes, .mv_data = (void *)value.data};

    if (!is_text(key, STORE_META_KEY))
        return fail(check, page, "an unknown meta record");
    if (store_meta_decode(data, &check->meta, check->reterr) != ERR_NONE)
        return false;
    check->meta_found = true;
    return true;
}

static bool visit_row(struct check *check, uint64_t page, struct bytes key, struct bytes value)
{
    const MDB_val name = {.mv_size = key.bytes, .mv_data = (void *)key.data};
    const MDB_val data = {.mv_size = value.bytes, .mv_data = (void *)value.data};
    struct store_row_view view;

    if (store_row_decode(name, data, &view, check->reterr) != ERR_NONE) {
        (void)err_prefix(check->reterr, "page %" PRIu64, page);
        return false;
    }
    check->rows++;
    check->digest += view.checksum;
    return true;
}

static bool visit(struct check *check, struct tree *tree, uint64_t page, struct bytes key,
                  struct bytes value)
{
    tree->seen.entries++;
    switch (tree->kind) {
    case TREE_FREE:
        return visit_free(check, page, key, value);
    case TREE_MAIN:
        return visit_main(check, page, key, value);
    case TREE_META:
        return visit_meta(check, page, key, value);
    case TREE_ROWS:
        break;
    }
    return visit_row(check, page, key, value);
}

/* ---- pages ------------------------------------------------------------------------------------
 */

static int compare(const struct tree *tree, struct bytes left, struct bytes right)
{
    uint64_t a, b;

    if (tree->kind != TREE_FREE)
        return store_bytes_compare(left.data, left.bytes, right.data, right.bytes);
    memcpy(&a, left.data, 8); /* MDB_INTEGERKEY; the length was checked */
    memcpy(&b, right.data, 8);
    return a < b ? -1 : a > b;
}

static struct bytes key_of(const struct store_node *node)
{
    return (struct bytes){.data = node->key, .bytes = node->key_bytes};
}

/* Keys ascend and lie in [low, high). The first key of a branch means "below all" and is not looked
 * at. */
static bool check_keys(struct check *check, const struct tree *tree, const unsigned char *data,
                       uint64_t page, bool branch, struct bytes low, struct bytes high)
{
    const size_t count = store_page_count(data), first = branch ? 1 : 0;
    struct bytes before = low;

    for (size_t i = first; i < count; i++) {
        const struct store_node node = store_page_node(data, i);
        const struct bytes key = key_of(&node);
        int order;

        if (key.bytes == 0 || (tree->kind == TREE_FREE && key.bytes != 8))
            return fail(check, page, "a key has the wrong length");
        order = before.data == NULL ? -1 : compare(tree, before, key);
        /* A bound from above may be the first key itself, a key before it may not. */
        if (order > 0 || (order == 0 && i > first))
            return fail(check, page, "keys are not in order");
        before = key;
    }
    if (high.data != NULL && before.data != NULL && compare(tree, before, high) >= 0)
        return fail(check, page, "keys are not in order");
    return true;
}

static bool check_leaf(struct check *check, struct tree *tree, const unsigned char *data,
                       uint64_t page)
{
    const size_t count = store_page_count(data);
    const unsigned flags_wanted = tree->kind == TREE_MAIN ? F_SUBDATA : 0;

    tree->seen.leaf_pages++;
    for (size_t i = 0; i < count; i++) {
        const struct store_node node = store_page_node(data, i);
        const struct bytes key = key_of(&node);
        struct bytes value = {.data = node.data, .bytes = node.data_bytes};

        if ((node.flags & ~(unsigned)F_BIGDATA) != flags_wanted)
            return fail(check, page, "a node of an unknown kind");
        if ((node.flags & F_BIGDATA) != 0) {
            uint64_t run;

            memcpy(&run, value.data, 8);
            if (!read_run(check, tree, run, value.bytes))
                return false;
            value.data = check->run;
        }
        if (!visit(check, tree, page, key, value))
            return false;
    }
    return true;
}

static bool walk_page(struct check *check, struct tree *tree, uint64_t page, size_t level,
                      struct bytes low, struct bytes high)
{
    const bool branch = level + 1 < tree->record.depth;
    /* LMDB asserts two children in all trees but the list of free pages. */
    const size_t count_min = branch && tree->kind != TREE_FREE ? 2 : 1;
    const unsigned char *data;
    const char *problem;
    size_t count;

    if (!mark_used(check, page))
        return false;
    if (check->pages[level] == NULL)
        check->pages[level] = mem_calloc(check->page_bytes, 1);
    data = check->pages[level];
    if (!read_at(check, page, page * check->page_bytes, check->pages[level], check->page_bytes))
        return false;
    problem = store_page_problem(data, check->page_bytes, page, branch, count_min, check->extents);
    if (problem != NULL)
        return fail(check, page, "%s", problem);
    if (!check_keys(check, tree, data, page, branch, low, high))
        return false;
    if (!branch)
        return check_leaf(check, tree, data, page);
    tree->seen.branch_pages++;
    count = store_page_count(data);
    for (size_t i = 0; i < count; i++) {
        const struct store_node node = store_page_node(data, i);
        struct bytes next = high;

        if (i + 1 < count) {
            const struct store_node after = store_page_node(data, i + 1);
            next = key_of(&after);
        }
        if (!walk_page(check, tree, node.child, level + 1, i == 0 ? low : key_of(&node), next))
            return false;
    }
    return true;
}

static bool walk_tree(struct check *check, struct tree *tree)
{
    static const struct bytes unbounded = {0};
    const struct tree_record *record = &tree->record, *seen = &tree->seen;

    if (record->depth > DEPTH_MAX || (record->depth == 0) != (record->root == PAGE_NONE))
        return fail(check, record->root, "a tree's depth or root is damaged");
    if (record->depth > 0 && !walk_page(check, tree, record->root, 0, unbounded, unbounded))
        return false;
    if (record->branch_pages != seen->branch_pages || record->leaf_pages != seen->leaf_pages ||
        record->overflow_pages != seen->overflow_pages || record->entries != seen->entries)
        return fail(check, record->root, "a tree's counts are not what is there");
    return true;
}

/* ---- the file ---------------------------------------------------------------------------------
 */

static bool read_meta_page(struct check *check, uint64_t number, struct meta_page *ret_meta)
{
    struct meta_page meta;

    if (!read_at(check, number, number * check->page_bytes, &meta, sizeof(meta)))
        return false;
    if (meta.header.number != number || meta.header.flags != P_META || meta.magic != META_MAGIC)
        return fail(check, number, "is not a meta page");
    if (meta.version != META_VERSION)
        return fail(check, number, "LMDB's data version is %" PRIu32 ", known is %" PRIu32,
                    meta.version, META_VERSION);
    if (meta.free.pad < PAGE_BYTES_MIN || meta.free.pad > PAGE_BYTES_MAX ||
        (meta.free.pad & (meta.free.pad - 1)) != 0)
        return fail(check, number, "the page size is damaged");
    if (meta.free.flags != MDB_INTEGERKEY || meta.main.flags != 0)
        return fail(check, number, "flags of an unknown kind");
    *ret_meta = meta;
    return true;
}

/* Chooses as LMDB does: the meta page of the later commit. */
static bool read_meta_pages(struct check *check, struct meta_page *ret_meta)
{
    struct meta_page metas[2] = {0};
    unsigned newer;

    if (!read_meta_page(check, 0, &metas[0]))
        return false;
    check->page_bytes = metas[0].free.pad;
    if (!read_meta_page(check, 1, &metas[1]))
        return false;
    if (metas[1].free.pad != check->page_bytes)
        return fail(check, 1, "the page size is damaged");
    newer = metas[0].transaction < metas[1].transaction;
    /* Commit n writes meta page n mod 2; ours starts with commit 1. */
    if (metas[newer].transaction != metas[!newer].transaction + 1 ||
        metas[newer].transaction % 2 != newer)
        return fail(check, newer, "the commits' numbers do not follow each other");
    *ret_meta = metas[newer];
    return true;
}

/*
 * Pages freed by the commit that allocated them need not be in the file, so it may be somewhat
 * shorter than the last page; the factor bounds what a damaged number can make us allocate.
 */
static bool take_limits(struct check *check, const struct meta_page *meta)
{
    const uint64_t file_pages = check->file_bytes / check->page_bytes;

    if (meta->last_page < 1 || meta->last_page > file_pages * 4 + 65536)
        return fail(check, meta->last_page, "the last page is far outside the file");
    check->page_limit = meta->last_page + 1;
    check->transaction = meta->transaction;
    check->used = mem_calloc(check->page_limit / 8 + 1, 1);
    check->extents = mem_calloc(check->page_bytes / 2, sizeof(*check->extents));
    return true;
}

static bool check_sums(struct check *check)
{
    if (!check->meta_found)
        return fail(check, 0, "there is no meta record");
    if (check->rows != check->meta.rows || check->digest != check->meta.digest)
        return fail(check, 0,
                    "%" PRIu64 " rows do not add up to the %" PRIu64 " of the last checkpoint",
                    check->rows, check->meta.rows);
    return true;
}

/* The meta record alone, and the pages that lead to it. */
static bool check_meta(struct check *check)
{
    struct meta_page meta = {0};
    struct tree main_tree = {.kind = TREE_MAIN};

    check->meta_tree.kind = TREE_META;
    check->rows_tree.kind = TREE_ROWS;
    if (!read_meta_pages(check, &meta) || !take_limits(check, &meta))
        return false;
    main_tree.record = meta.main;
    if (!walk_tree(check, &main_tree))
        return false;
    if (!check->meta_tree_found || !walk_tree(check, &check->meta_tree) || !check->meta_found)
        return fail(check, meta.main.root, "there is no meta record");
    return true;
}

static bool check_file(struct check *check)
{
    struct meta_page meta = {0};
    struct tree free_tree = {.kind = TREE_FREE}, main_tree = {.kind = TREE_MAIN};

    check->meta_tree.kind = TREE_META;
    check->rows_tree.kind = TREE_ROWS;
    if (!read_meta_pages(check, &meta) || !take_limits(check, &meta))
        return false;
    free_tree.record = meta.free;
    main_tree.record = meta.main;
    if (!walk_tree(check, &main_tree) || !walk_tree(check, &free_tree))
        return false;
    if (!check->meta_tree_found || !check->rows_tree_found)
        return fail(check, meta.main.root, "there is no meta record");
    return walk_tree(check, &check->meta_tree) && walk_tree(check, &check->rows_tree) &&
           check_sums(check);
}

/* Reads the file once in order: the walk jumps, which costs a seek or a round trip for each page.
 */
static void warm_up(const struct check *check)
{
    const size_t block_bytes = 1024 * 1024;
    const uint64_t memory_bytes =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    void *block;

    if (check->file_bytes > memory_bytes / 4)
        return;
    block = mem_realloc(NULL, block_bytes, 1);
    for (uint64_t offset = 0; offset < check->file_bytes; offset += block_bytes) {
        if (pread(check->fd, block, block_bytes, (off_t)offset) <= 0)
            break; /* the walk says what is wrong */
    }
    free(block);
}

static bool warm_up_and_check(struct check *check)
{
    warm_up(check);
    return check_file(check);
}

static enum err_code run_check(const char *path, bool (*prove)(struct check *check),
                               struct store_meta *ret_meta, struct err *reterr)
{
    struct err error = {0};
    struct check check = {.page_bytes = 0, .reterr = &error};
    struct stat status;
    bool sound;

    check.fd = open(path, O_RDONLY | O_CLOEXEC);
    if (check.fd < 0)
        return err_set(reterr, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: %s", path,
                       strerror(errno));
    if (fstat(check.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        (void)close(check.fd); /* only read from */
        return err_set(reterr, ERR_IO, "%s: not a regular file", path);
    }
    check.file_bytes = (uint64_t)status.st_size;
    sound = prove(&check);
    (void)close(check.fd); /* only read from */
    for (size_t i = 0; i < DEPTH_MAX; i++)
        free(check.pages[i]);
    free(check.used);
    free(check.extents);
    free(check.run);
    if (!sound) {
        store_meta_finish(&check.meta);
        if (reterr != NULL)
            *reterr = error;
        return error.code;
    }
    *ret_meta = check.meta;
    return ERR_NONE;
}

enum err_code store_check_file(const char *path, struct store_meta *ret_meta, struct err *reterr)
{
    return run_check(path, warm_up_and_check, ret_meta, reterr);
}

enum err_code store_check_meta(const char *path, struct store_meta *ret_meta, struct err *reterr)
{
    return run_check(path, check_meta, ret_meta, reterr);
}
