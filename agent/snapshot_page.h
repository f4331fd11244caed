/*
 * A snapshot on its way: pages, each one answer to one request (agent/snapshot_serve.h,
 * agent/snapshot_fetch.h).
 *
 *   page 0      HEAD  rows that there will be 8, bytes of the data file 8, meta record
 *   page 1..k   ROWS  rows as store_view_read gives them
 *   page k+1    END   rows in all 8; of a part: PART_END, rows in all 8, sum of their checksums 8
 *
 * Numbers are little-endian. Each page has a head of 40 bytes and ends with the XXH3-64 of all of
 * it before that, seeded with the checksum of the page before: a page that is damaged, missing,
 * doubled, or of another snapshot does not fit. The rows' own checksums, and their sum in the meta
 * record, are looked at by agent/store_seed.h besides. Of a part of a state (store_view_narrow) the
 * rows are counted as they are sent: HEAD has those of the whole copy, and the meta record none.
 *
 *   0 magic "BSP1", 4 format, 8 session, 16 number, 24 kind, 28 rows, 32 pause_ms, 36 payload bytes
 */
#ifndef BATON_AGENT_SNAPSHOT_PAGE_H
#define BATON_AGENT_SNAPSHOT_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/strbuf.h"

#define SNAPSHOT_FORMAT 1

enum snapshot_kind {
    SNAPSHOT_HEAD = 1,
    SNAPSHOT_ROWS = 2,
    SNAPSHOT_END = 3,
    SNAPSHOT_PART_END = 4
};

struct snapshot_page {
    uint64_t session; /* the sender's name for this transfer */
    uint64_t number;  /* 0.. */
    enum snapshot_kind kind;
    uint32_t rows;     /* in this page */
    uint32_t pause_ms; /* the next page is to be asked for no sooner */
    const void *payload;
    size_t payload_bytes;
};

/* Begins a page in `buf` (emptied): add the payload to it, then end it. */
void snapshot_page_begin(struct strbuf *buf);
/* Fills in the head (`payload` of `page` is not looked at) and adds the checksum. `chain`: of the
 * page before, 0 for the first; then this page's. */
void snapshot_page_end(struct strbuf *buf, const struct snapshot_page *page, uint64_t *chain);

/* `ret_page` points into `data`. ERR_CORRUPT, ERR_UNSUPPORTED (format); `chain` as above, changed
 * on success only. */
enum err_code snapshot_page_read(const void *data, size_t bytes, uint64_t *chain,
                                 struct snapshot_page *ret_page, struct err *reterr) MUSTCHECK;

struct snapshot_head {
    uint64_t rows, file_bytes;
    const void *meta;
    size_t meta_bytes;
};

void snapshot_head_add(struct strbuf *buf, const struct snapshot_head *head);
enum err_code snapshot_head_read(const struct snapshot_page *page, struct snapshot_head *ret_head,
                                 struct err *reterr) MUSTCHECK;
void snapshot_total_add(struct strbuf *buf, uint64_t rows);
enum err_code snapshot_total_read(const struct snapshot_page *page, uint64_t *ret_rows,
                                  struct err *reterr) MUSTCHECK;
void snapshot_sum_add(struct strbuf *buf, uint64_t rows, uint64_t digest); /* of PART_END */
enum err_code snapshot_sum_read(const struct snapshot_page *page, uint64_t *ret_rows,
                                uint64_t *ret_digest, struct err *reterr) MUSTCHECK;

#endif
