#include "agent/snapshot_page.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC       UINT32_C(0x31505342) /* "BSP1" */
#define HEAD_BYTES  ((size_t)40)
#define SUM_BYTES   ((size_t)8)
#define META_OFFSET ((size_t)16) /* in the payload of HEAD */
#define TOTAL_BYTES ((size_t)8)

static void put(unsigned char *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(number >> (8 * i));
}

static uint64_t get(const void *from, size_t bytes)
{
    const unsigned char *data = from;
    uint64_t number = 0;

    for (size_t i = 0; i < bytes; i++)
        number |= (uint64_t)data[i] << (8 * i);
    return number;
}

void snapshot_page_begin(struct strbuf *buf)
{
    static const unsigned char head[HEAD_BYTES];

    strbuf_clear(buf);
    strbuf_add(buf, head, sizeof(head));
}

void snapshot_page_end(struct strbuf *buf, const struct snapshot_page *page, uint64_t *chain)
{
    unsigned char *head = (unsigned char *)buf->data;
    unsigned char sum[SUM_BYTES];

    assert(buf->bytes >= HEAD_BYTES);
    assert(buf->bytes - HEAD_BYTES <= UINT32_MAX);
    put(head, MAGIC, 4);
    put(head + 4, SNAPSHOT_FORMAT, 4);
    put(head + 8, page->session, 8);
    put(head + 16, page->number, 8);
    put(head + 24, page->kind, 4);
    put(head + 28, page->rows, 4);
    put(head + 32, page->pause_ms, 4);
    put(head + 36, buf->bytes - HEAD_BYTES, 4);
    *chain = XXH3_64bits_withSeed(buf->data, buf->bytes, *chain);
    put(sum, *chain, sizeof(sum));
    strbuf_add(buf, sum, sizeof(sum));
}

enum err_code snapshot_page_read(const void *data, size_t bytes, uint64_t *chain,
                                 struct snapshot_page *ret_page, struct err *reterr)
{
    const unsigned char *head = data;
    uint64_t sum;

    if (bytes < HEAD_BYTES + SUM_BYTES || get(head, 4) != MAGIC)
        return err_set(reterr, ERR_CORRUPT, "what came is no page of a snapshot");
    if (get(head + 4, 4) != SNAPSHOT_FORMAT)
        return err_set(reterr, ERR_UNSUPPORTED,
                       "the snapshot is of format %" PRIu64 ", this agent reads %d: upgrade the "
                       "older of the two agents",
                       get(head + 4, 4), SNAPSHOT_FORMAT);
    sum = XXH3_64bits_withSeed(data, bytes - SUM_BYTES, *chain);
    if (get(head + bytes - SUM_BYTES, SUM_BYTES) != sum)
        return err_set(reterr, ERR_CORRUPT, "a page does not match its checksum");
    if (get(head + 36, 4) != bytes - HEAD_BYTES - SUM_BYTES)
        return err_set(reterr, ERR_CORRUPT, "a page is not as long as it says");
    *ret_page = (struct snapshot_page){.session = get(head + 8, 8),
                                       .number = get(head + 16, 8),
                                       .kind = (enum snapshot_kind)get(head + 24, 4),
                                       .rows = (uint32_t)get(head + 28, 4),
                                       .pause_ms = (uint32_t)get(head + 32, 4),
                                       .payload = head + HEAD_BYTES,
                                       .payload_bytes = bytes - HEAD_BYTES - SUM_BYTES};
    *chain = sum;
    return ERR_NONE;
}

void snapshot_head_add(struct strbuf *buf, const struct snapshot_head *head)
{
    unsigned char numbers[META_OFFSET];

    put(numbers, head->rows, 8);
    put(numbers + 8, head->file_bytes, 8);
    strbuf_add(buf, numbers, sizeof(numbers));
    strbuf_add(buf, head->meta, head->meta_bytes);
}

enum err_code snapshot_head_read(const struct snapshot_page *page, struct snapshot_head *ret_head,
                                 struct err *reterr)
{
    const unsigned char *data = page->payload;

    if (page->kind != SNAPSHOT_HEAD || page->payload_bytes < META_OFFSET)
        return err_set(reterr, ERR_CORRUPT, "the first page is no head");
    *ret_head = (struct snapshot_head){.rows = get(data, 8),
                                       .file_bytes = get(data + 8, 8),
                                       .meta = data + META_OFFSET,
                                       .meta_bytes = page->payload_bytes - META_OFFSET};
    return ERR_NONE;
}

void snapshot_total_add(struct strbuf *buf, uint64_t rows)
{
    unsigned char number[TOTAL_BYTES];

    put(number, rows, sizeof(number));
    strbuf_add(buf, number, sizeof(number));
}

enum err_code snapshot_total_read(const struct snapshot_page *page, uint64_t *ret_rows,
                                  struct err *reterr)
{
    if (page->kind != SNAPSHOT_END || page->payload_bytes != TOTAL_BYTES)
        return err_set(reterr, ERR_CORRUPT, "the last page is no end");
    *ret_rows = get(page->payload, TOTAL_BYTES);
    return ERR_NONE;
}

void snapshot_sum_add(struct strbuf *buf, uint64_t rows, uint64_t digest)
{
    unsigned char numbers[2 * TOTAL_BYTES];

    put(numbers, rows, TOTAL_BYTES);
    put(numbers + TOTAL_BYTES, digest, TOTAL_BYTES);
    strbuf_add(buf, numbers, sizeof(numbers));
}

enum err_code snapshot_sum_read(const struct snapshot_page *page, uint64_t *ret_rows,
                                uint64_t *ret_digest, struct err *reterr)
{
    const unsigned char *data = page->payload;

    if (page->kind != SNAPSHOT_PART_END || page->payload_bytes != 2 * TOTAL_BYTES)
        return err_set(reterr, ERR_CORRUPT, "the last page is no end of a part");
    *ret_rows = get(data, TOTAL_BYTES);
    *ret_digest = get(data + TOTAL_BYTES, TOTAL_BYTES);
    return ERR_NONE;
}
