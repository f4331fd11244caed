/*
 * The last checkpoint of a store as others may read it, row by row, while its owner works on: what
 * a snapshot is made of (D8).
 *
 * The owner thread hands out a share; any thread opens views through it. A view is one LMDB read
 * transaction: rows, T2 and lineage of one commit, whatever is checkpointed meanwhile. The pages
 * that it sees are not used again as long as it is open, so the file grows with what is written
 * meanwhile: a view must not live for long. The owner revokes all views when it closes the store or
 * when its map has to grow; it waits for a read under way, which is one page, and for no more.
 *
 *   owner: store_share ... (map grows, store closes: every view is stale)
 *   any:   store_view_open -> store_view_read ... -> store_view_close
 */
#ifndef BATON_AGENT_STORE_VIEW_H
#define BATON_AGENT_STORE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/store.h"
#include "common/err.h"
#include "common/strbuf.h"

struct store_share;
struct store_view;

#define STORE_VIEWS_MAX 4 /* of one store at a time */

/* Owner thread. A reference of its own: give it back with store_share_release, also after the store
 * was closed. */
struct store_share *store_share_acquire(struct store *store);
void store_share_release(struct store_share *share); /* any thread; NULL is fine */

/* Any thread. ERR_NOT_FOUND: there was no checkpoint yet. ERR_UNAVAILABLE: the store is closed.
 * ERR_LIMIT: STORE_VIEWS_MAX are open. */
enum err_code store_view_open(struct store_share *share, struct store_view **ret_view,
                              struct err *reterr) MUSTCHECK;
void store_view_close(struct store_view *view); /* any thread; NULL is fine */

/* The meta record (store_meta.c) of the same commit: T2, lineage, what the rows add up to. */
const void *store_view_meta(const struct store_view *view, size_t *ret_bytes);
uint64_t store_view_rows(const struct store_view *view);
uint64_t store_view_file_bytes(const struct store_view *view); /* of the data file, about */

/* A part of a state: the rows of one processor that is, or was, split off from another. */
struct store_part {
    struct store_owners owners;
    uint32_t processor;
};

/*
 * From here on the view is of that part alone: its meta record is that of a state of `processor`,
 * but for what the rows add up to (store_view_sum). Before the first read. ERR_NOT_FOUND: the
 * checkpoint does not know all of its partitions, or not any more.
 */
enum err_code store_view_narrow(struct store_view *view, const struct store_part *part,
                                struct err *reterr) MUSTCHECK;

/* Of the rows that were read so far. */
void store_view_sum(const struct store_view *view, uint64_t *ret_rows, uint64_t *ret_digest);

/*
 * One thread at a time. Adds the next rows to `buf`, each as 2 bytes length of the key, 4 bytes
 * length of the value (little-endian), key, value, as they are in LMDB; about `bytes_max`, at least
 * one, of a part perhaps none. *ret_end: there are no more. Each row is verified. ERR_STALE: the
 * owner has revoked the view, begin anew. ERR_CORRUPT: a row is damaged.
 */
enum err_code store_view_read(struct store_view *view, size_t bytes_max, struct strbuf *buf,
                              uint32_t *ret_rows, bool *ret_end, struct err *reterr) MUSTCHECK;

#endif
