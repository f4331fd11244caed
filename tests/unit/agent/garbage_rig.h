/*
 * A store of processor 3, and rows of it and of processor 7 that a split would take, for the tests
 * of what removes those. One fixture: tests run one by one.
 */
#ifndef BATON_TESTS_GARBAGE_RIG_H
#define BATON_TESTS_GARBAGE_RIG_H

#include "agent/store_owner.h"
#include "store_fixture.h"

#define ROWS_MAX 20000 /* that a test fills in */

extern struct store_fixture garbage_fixture;

void garbage_init(void); /* before it is opened: 4 processors of 16 partitions */
void garbage_finish(void);
struct store_owners garbage_owners(uint32_t partitions, uint32_t processors);

struct store_row garbage_row(uint32_t root, const char *key, const char *subkey);
const char *garbage_name(uint32_t number); /* of a key; valid until the next call */
void garbage_put(struct store_row row);
void garbage_fill(uint32_t count); /* rows of roots 3 and 7 in turn, and a checkpoint */
bool garbage_has(struct store_row row);
uint64_t garbage_rows(void); /* on disk */

uint64_t garbage_removed(void);
bool garbage_is_pending(void);
void garbage_step(void); /* when one is to be made; waits for its end */
void garbage_remove_all(void);
void garbage_freeze(int64_t next_offset);
void garbage_checkpoint(int64_t next_offset); /* and waits */

#endif
