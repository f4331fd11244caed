#include "agent/logic_overlay.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define NO_NODE 0
/* More nodes than this are given back at a reset: one huge record must not cost memory for ever. */
#define NODES_KEPT 1024

struct logic_overlay_node {
    struct logic_overlay_change change;
    uint32_t left, right;
    uint32_t level; /* 0: NO_NODE; 1: a leaf */
};

int logic_overlay_compare(struct baton_bytes left, struct baton_bytes right)
{
    size_t common = left.bytes < right.bytes ? left.bytes : right.bytes;
    int order = common > 0 ? memcmp(left.data, right.data, common) : 0;

    if (order != 0)
        return order;
    return (left.bytes > right.bytes) - (left.bytes < right.bytes);
}

/* The node of `subkey`, or NO_NODE. */
static uint32_t find(const struct logic_overlay *overlay, struct baton_bytes subkey)
{
    uint32_t at = overlay->root;

    while (at != NO_NODE) {
        const struct logic_overlay_node *node = &overlay->nodes[at];
        int order = logic_overlay_compare(subkey, node->change.subkey);

        if (order == 0)
            break;
        at = order < 0 ? node->left : node->right;
    }
    return at;
}

/* A left child on its parent's level: rotate right. */
static uint32_t skew(struct logic_overlay_node *nodes, uint32_t at)
{
    uint32_t left = nodes[at].left;

    if (nodes[left].level != nodes[at].level)
        return at;
    nodes[at].left = nodes[left].right;
    nodes[left].right = at;
    return left;
}

/* Two right children in a row on one level: rotate left and lift the middle one. */
static uint32_t split(struct logic_overlay_node *nodes, uint32_t at)
{
    uint32_t right = nodes[at].right;

    if (nodes[nodes[right].right].level != nodes[at].level)
        return at;
    nodes[at].right = nodes[right].left;
    nodes[right].left = at;
    nodes[right].level++;
    return right;
}

/* Hangs `added` below `at`; returns the subtree's new root. As deep as the tree at most. */
static uint32_t insert(struct logic_overlay_node *nodes, uint32_t at, uint32_t added)
{
    if (at == NO_NODE)
        return added;
    if (logic_overlay_compare(nodes[added].change.subkey, nodes[at].change.subkey) < 0)
        nodes[at].left = insert(nodes, nodes[at].left, added);
    else
        nodes[at].right = insert(nodes, nodes[at].right, added);
    return split(nodes, skew(nodes, at));
}

static uint32_t add_node(struct logic_overlay *overlay)
{
    assert(overlay->node_count < UINT32_MAX);
    if (overlay->node_count == 0) {
        overlay->nodes =
            mem_grow(overlay->nodes, 0, &overlay->node_capacity, sizeof(*overlay->nodes));
        overlay->nodes[NO_NODE] = (struct logic_overlay_node){.level = 0};
        overlay->node_count = 1;
    }
    overlay->nodes = mem_grow(overlay->nodes, overlay->node_count, &overlay->node_capacity,
                              sizeof(*overlay->nodes));
    return (uint32_t)overlay->node_count++;
}

static struct baton_bytes copy_bytes(struct logic_overlay *overlay, struct baton_bytes bytes)
{
    return (struct baton_bytes){.data = arena_copy(&overlay->arena, bytes.data, bytes.bytes),
                                .bytes = bytes.bytes};
}

void logic_overlay_set(struct logic_overlay *overlay, struct baton_bytes subkey,
                       struct baton_bytes value)
{
    struct baton_bytes kept = {.data = NULL};
    uint32_t at = find(overlay, subkey);

    if (value.data != NULL)
        kept = copy_bytes(overlay, value);
    if (at == NO_NODE) {
        at = add_node(overlay);
        overlay->nodes[at] = (struct logic_overlay_node){
            .change.subkey = copy_bytes(overlay, subkey),
            .level = 1,
        };
        overlay->root = insert(overlay->nodes, overlay->root, at);
    }
    overlay->nodes[at].change.value = kept;
}

bool logic_overlay_find(const struct logic_overlay *overlay, struct baton_bytes subkey,
                        struct baton_bytes *ret_value)
{
    uint32_t at = find(overlay, subkey);

    if (at == NO_NODE)
        return false;
    *ret_value = overlay->nodes[at].change.value;
    return true;
}

/* The path holds the nodes still to be visited whose left side is done; the next one is on top. */
static void descend_left(struct logic_overlay_cursor *cursor, uint32_t at)
{
    while (at != NO_NODE) {
        assert(cursor->depth < LOGIC_OVERLAY_DEPTH_MAX);
        cursor->path[cursor->depth++] = at;
        at = cursor->overlay->nodes[at].left;
    }
}

void logic_overlay_walk(struct logic_overlay_cursor *cursor, const struct logic_overlay *overlay)
{
    cursor->overlay = overlay;
    cursor->depth = 0;
    descend_left(cursor, overlay->root);
}

const struct logic_overlay_change *logic_overlay_peek(const struct logic_overlay_cursor *cursor)
{
    if (cursor->depth == 0)
        return NULL;
    return &cursor->overlay->nodes[cursor->path[cursor->depth - 1]].change;
}

void logic_overlay_next(struct logic_overlay_cursor *cursor)
{
    assert(cursor->depth > 0);
    descend_left(cursor, cursor->overlay->nodes[cursor->path[--cursor->depth]].right);
}

void logic_overlay_reset(struct logic_overlay *overlay)
{
    arena_reset(&overlay->arena);
    overlay->node_count = 0;
    overlay->root = NO_NODE;
    if (overlay->node_capacity > NODES_KEPT) {
        free(overlay->nodes);
        overlay->nodes = NULL;
        overlay->node_capacity = 0;
    }
}

void logic_overlay_finish(struct logic_overlay *overlay)
{
    arena_finish(&overlay->arena);
    free(overlay->nodes);
    *overlay = (struct logic_overlay){.root = NO_NODE};
}
