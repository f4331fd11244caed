/*
 * Pages of an LMDB data file, as far as store_check.c has to know them: their layout, and whether
 * what a branch or leaf page says about itself can be believed. Pure: bytes in, answers out.
 *
 * The layout is that of LMDB 0.9 on 64-bit little-endian hosts (data version 1, unchanged since
 * 2011; names as in its mdb.c). Nothing here may be asked about a page that store_page_problem
 * refuses.
 */
#ifndef BATON_AGENT_STORE_PAGE_H
#define BATON_AGENT_STORE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define META_MAGIC        UINT32_C(0xBEEFC0DE)
#define META_VERSION      UINT32_C(1)
#define PAGE_HEADER_BYTES ((size_t)16)
#define NODE_HEADER_BYTES ((size_t)8)
#define PAGE_BYTES_MIN    ((size_t)512)
#define PAGE_BYTES_MAX    ((size_t)32768)
#define PAGE_NONE         UINT64_MAX
#define PAGE_FIRST        UINT64_C(2) /* after the two meta pages */

enum page_flags { P_BRANCH = 1, P_LEAF = 2, P_OVERFLOW = 4, P_META = 8 };
enum node_flags { F_BIGDATA = 1, F_SUBDATA = 2 };

struct page_header {
    uint64_t number;
    uint16_t pad; /* not used by our databases */
    uint16_t flags;
    union {
        struct {
            uint16_t lower, upper; /* free room of a branch or leaf */
        };
        uint32_t pages; /* of an overflow run */
    };
};

struct node_header {
    uint16_t low, high; /* leaf: size of the data; branch: child, with flags on top */
    uint16_t flags;
    uint16_t key_bytes;
};

struct tree_record { /* MDB_db */
    uint32_t pad;
    uint16_t flags;
    uint16_t depth;
    uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

struct meta_page { /* MDB_meta behind its page header */
    struct page_header header;
    uint32_t magic, version;
    uint64_t address, map_bytes; /* not used: no MDB_FIXEDMAP, and we choose the size */
    struct tree_record free, main;
    uint64_t last_page, transaction;
};

_Static_assert(sizeof(struct page_header) == PAGE_HEADER_BYTES, "as in mdb.c");
_Static_assert(sizeof(struct node_header) == NODE_HEADER_BYTES, "as in mdb.c");
_Static_assert(sizeof(struct tree_record) == 48, "as in mdb.c");
_Static_assert(sizeof(struct meta_page) == PAGE_HEADER_BYTES + 136, "as in mdb.c");

struct store_node { /* of a branch or leaf; borrowed from the page */
    uint16_t flags;
    uint16_t key_bytes;
    const unsigned char *key;
    uint64_t child;            /* branch */
    size_t data_bytes;         /* leaf; with F_BIGDATA not here but on an overflow run */
    const unsigned char *data; /* leaf; with F_BIGDATA the run's page number (8 bytes) */
};

/*
 * NULL when `data`, the page of that number, is a well-formed branch or leaf with at least
 * `count_min` nodes which fill it without gap or overlap; otherwise what is wrong. `extents` is
 * scratch for page_bytes / 2 numbers.
 */
const char *store_page_problem(const unsigned char *data, size_t page_bytes, uint64_t number,
                               bool branch, size_t count_min, uint16_t *extents);
size_t store_page_count(const unsigned char *data);
struct store_node store_page_node(const unsigned char *data, size_t index);

#endif
