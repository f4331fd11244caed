/*
 * The state changes of one process() call: what the logic put and deleted, by subkey, before it is
 * known whether the call succeeds. Reads of the call look here first, then in the store.
 *
 * An AA tree (Andersson 1993) over an array: ordered as the store orders subkeys, O(log n) whatever
 * subkeys a record makes the logic choose, and emptied in O(1). A hash table would need a sort for
 * each iteration and can be attacked.
 *
 * Bytes are copied in and stay where they are until logic_overlay_reset, so a value that was found
 * may be set again under another subkey. Pure; owned by one task's logic.
 */
#ifndef BATON_AGENT_LOGIC_OVERLAY_H
#define BATON_AGENT_LOGIC_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/processor.h"
#include "common/arena.h"

struct logic_overlay_change {
    struct baton_bytes subkey;
    struct baton_bytes value; /* data NULL: the row is deleted */
};

struct logic_overlay_node;

struct logic_overlay { /* zero-initialised is empty and valid */
    struct arena arena;
    struct logic_overlay_node *nodes; /* nodes[0] stands for "no node" */
    size_t node_count;                /* 0 when empty, else 1 + changes */
    size_t node_capacity;
    uint32_t root;
};

/* Bytewise, a prefix before what it starts: <0, 0, >0. */
int logic_overlay_compare(struct baton_bytes left, struct baton_bytes right);

/* A later change of a subkey takes the place of an earlier one. Callers limit bytes and changes of
 * a call. */
void logic_overlay_set(struct logic_overlay *overlay, struct baton_bytes subkey,
                       struct baton_bytes value);

/* False when the call did not change this row; otherwise the value, data NULL when it is deleted.
 */
bool logic_overlay_find(const struct logic_overlay *overlay, struct baton_bytes subkey,
                        struct baton_bytes *ret_value);

/* Depth of an AA tree is at most 2 log2(n + 1); n is a uint32_t. */
#define LOGIC_OVERLAY_DEPTH_MAX 64

struct logic_overlay_cursor { /* a walk in the order of subkeys; void once the overlay is changed */
    const struct logic_overlay *overlay;
    int depth;
    uint32_t path[LOGIC_OVERLAY_DEPTH_MAX];
};

void logic_overlay_walk(struct logic_overlay_cursor *cursor, const struct logic_overlay *overlay);
/* The change at the cursor, NULL past the last; valid until the overlay is changed. */
const struct logic_overlay_change *logic_overlay_peek(const struct logic_overlay_cursor *cursor);
void logic_overlay_next(struct logic_overlay_cursor *cursor);

void logic_overlay_reset(
    struct logic_overlay *overlay); /* keeps a little memory: no allocation in the steady state */
void logic_overlay_finish(struct logic_overlay *overlay);

#endif
