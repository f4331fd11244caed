/*
 * Whose row is this? (D3.10) State belongs to keys, and a key to a processor, so the owner of a row
 * follows from the row and from how many partitions and processors there are. Pure; any thread.
 */
#ifndef BATON_AGENT_STORE_OWNER_H
#define BATON_AGENT_STORE_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/store.h"

/*
 * True when the row is another processor's for certain. A row's root, which is the partition that
 * its key was in before any expansion, decides wherever all partitions of a root are with one
 * processor. Where they are not, the key decides, if producers' hash is known; a row of a key that
 * the hash puts under another root than it was found in is nobody's for certain, and so is one of a
 * key that has no place by it, and every row while the hash is not known.
 */
bool store_owner_is_other(const struct store_owners *owners, uint32_t processor,
                          const struct store_row *row);

/* Marks what the state of the processor comes from (S2): its partitions and their ancestors.
 * `ret_read`: one for each of owners->map.partitions.now, all false. */
void store_owner_mark_read(const struct store_owners *owners, uint32_t processor, bool *ret_read);

/* A processor between `before` (or M0, when that is higher) and `owners` was split off from this
 * one: rows of it may be here. */
bool store_owner_has_split(const struct store_owners *owners, uint32_t processor, uint32_t before);

#endif
