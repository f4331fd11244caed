/*
 * A stand-in for agent/store.c in the tests of logic: rows in memory, reads that fail when told to.
 * What a read hands out is freed at the moment from which the contract calls it invalid, so that
 * the sanitizer sees any use after that.
 */
#ifndef BATON_TESTS_FAKE_STORE_H
#define BATON_TESTS_FAKE_STORE_H

#include "agent/store.h"

struct store *fake_store_create(void);
void fake_store_destroy(struct store *store);

/* The `read`-th get or iterate from now on (1: the next) fails with `code`; later ones work again.
 */
void fake_store_fail(struct store *store, unsigned read, enum err_code code);

size_t fake_store_rows(const struct store *store);
unsigned fake_store_reads(const struct store *store);
unsigned fake_store_writes(const struct store *store);

/* All rows as text "root/key/subkey=value@time\n" in order; bytes that are not printable as \xx.
 * free() it. */
char *fake_store_dump(const struct store *store);

#endif
