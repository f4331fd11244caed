#include "agent/store_page.h"

#include <string.h>

#define KEY_BYTES_MAX ((size_t)511)

static struct page_header header_of(const unsigned char *data)
{
    struct page_header header;

    memcpy(&header, data, sizeof(header));
    return header;
}

static size_t offset_of(const unsigned char *data, size_t index)
{
    uint16_t offset;

    memcpy(&offset, data + PAGE_HEADER_BYTES + 2 * index, sizeof(offset));
    return offset;
}

size_t store_page_count(const unsigned char *data)
{
    return (header_of(data).lower - PAGE_HEADER_BYTES) / 2;
}

struct store_node store_page_node(const unsigned char *data, size_t index)
{
    const unsigned char *start = data + offset_of(data, index);
    struct node_header header;

    memcpy(&header, start, sizeof(header));
    return (struct store_node){.flags = header.flags,
                               .key_bytes = header.key_bytes,
                               .key = start + NODE_HEADER_BYTES,
                               .child = header.low | (uint64_t)header.high << 16 |
                                        (uint64_t)header.flags << 32,
                               .data_bytes = header.low | (size_t)header.high << 16,
                               .data = start + NODE_HEADER_BYTES + header.key_bytes};
}

/* What the node takes of its page. */
static size_t node_bytes(const struct store_node *node, bool branch)
{
    size_t bytes = NODE_HEADER_BYTES + node->key_bytes;

    if (!branch)
        bytes += (node->flags & F_BIGDATA) != 0 ? sizeof(uint64_t) : node->data_bytes;
    return (bytes + 1) & ~(size_t)1;
}

/* At each node's start in `extents`, its length in cells of two bytes. */
static const char *measure_nodes(const unsigned char *data, size_t page_bytes, bool branch,
                                 uint16_t *extents)
{
    const size_t upper = header_of(data).upper, count = store_page_count(data);

    for (size_t i = 0; i < count; i++) {
        const size_t offset = offset_of(data, i);
        struct store_node node;
        size_t bytes;

        if (offset % 2 != 0 || offset < upper || offset > page_bytes - NODE_HEADER_BYTES)
            return "a node is outside the page";
        node = store_page_node(data, i);
        bytes = node_bytes(&node, branch);
        if (bytes > page_bytes - offset || node.key_bytes > KEY_BYTES_MAX)
            return "a node is outside the page";
        extents[offset / 2] = (uint16_t)(bytes / 2);
    }
    return NULL;
}

const char *store_page_problem(const unsigned char *data, size_t page_bytes, uint64_t number,
                               bool branch, size_t count_min, uint16_t *extents)
{
    const struct page_header header = header_of(data);
    size_t seen = 0;
    const char *problem;

    if (header.number != number || header.flags != (branch ? P_BRANCH : P_LEAF))
        return "is not the page it should be";
    if (header.lower < PAGE_HEADER_BYTES || header.lower % 2 != 0 || header.upper % 2 != 0 ||
        header.lower > header.upper || header.upper > page_bytes)
        return "its header is damaged";
    if (store_page_count(data) < count_min)
        return "holds too few nodes";
    memset(extents, 0, page_bytes / 2 * sizeof(*extents));
    problem = measure_nodes(data, page_bytes, branch, extents);
    if (problem != NULL)
        return problem;
    for (size_t cell = header.upper / 2; cell < page_bytes / 2; seen++) {
        if (extents[cell] == 0)
            return "nodes do not fill the page";
        cell += extents[cell];
    }
    return seen == store_page_count(data) ? NULL : "nodes overlap";
}
