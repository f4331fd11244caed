/*
 * Makes a store's data file out of the rows of another copy (D8): the receiving end of a snapshot.
 *
 * Built in `<directory>/seed/`, which no other part of the store looks at; what is there becomes
 * the state only with store_seed_install, which is one rename. So a crash, or a failure at any
 * point, leaves the state as it was. What arrives is not trusted: each row must match its checksum,
 * keys must ascend, and all rows together must be what the meta record says (number, and sum of
 * checksums), as in a file that store_open reads, which proves the result once more.
 *
 *   begin(meta) -> add(rows) ... -> finish -> destroy -> [owner: store_close, install, store_open]
 *                                '-> destroy: all of it is removed
 *
 * One thread, any one; the task's directory may be open as a store meanwhile.
 */
#ifndef BATON_AGENT_STORE_SEED_H
#define BATON_AGENT_STORE_SEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/store.h"
#include "common/err.h"

struct store_seed;

/*
 * `meta` is the meta record of a view; `file_bytes` the size of its file, for the size of the map.
 * ERR_FOREIGN: it is the state of something else. ERR_CORRUPT, ERR_UNSUPPORTED: it can not be read.
 * ERR_IO: the disk. ERR_LIMIT: it is larger than map_bytes_max.
 */
enum err_code store_seed_begin(const struct store_config *config,
                               const struct store_identity *identity, const void *meta,
                               size_t meta_bytes, uint64_t file_bytes, struct store_seed **ret_seed,
                               struct err *reterr) MUSTCHECK;

/* After begin: it is a part of another processor's state (store_view_narrow). Rows of others are
 * refused, and what all of them add up to is told at the end. */
void store_seed_expect_part(struct store_seed *seed, const struct store_owners *owners);
void store_seed_tell_sum(struct store_seed *seed, uint64_t rows, uint64_t digest);
/* Whether its meta record knows the partition of `bound`. The sender may be further in it than
 * next_offset, with other keys only (D4: inherited partitions): it is taken to be there, with that
 * number of records. INT64_MAX: no bound. A last record past last_offset is forgotten. */
bool store_seed_bound(struct store_seed *seed, const struct store_position *bound);

/* `count` rows in the form of store_view_read. ERR_CORRUPT: not of that form, damaged, or not in
 * order. After any error only destroy. */
enum err_code store_seed_add(struct store_seed *seed, const void *rows, size_t bytes,
                             uint32_t count, struct err *reterr) MUSTCHECK;

/* All rows are there: ERR_CORRUPT when they are not those of the meta record. Then the file is
 * complete and on disk. */
enum err_code store_seed_finish(struct store_seed *seed, struct err *reterr) MUSTCHECK;

void store_seed_destroy(struct store_seed *seed); /* NULL is fine */

uint64_t store_seed_rows(const struct store_seed *seed); /* added so far */

/* While the store of the directory is closed: what was finished takes the place of its data file,
 * whole or not at all. ERR_NOT_FOUND: nothing was finished. */
enum err_code store_seed_install(const char *directory, struct err *reterr) MUSTCHECK;

/* Removes what an earlier run may have left. */
enum err_code store_seed_clear(const char *directory, struct err *reterr) MUSTCHECK;

#endif
