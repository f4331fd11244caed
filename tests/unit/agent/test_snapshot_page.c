/* Pages of a snapshot: what was changed on the way is not taken for one. */
#include "agent/snapshot_page.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define CHAIN UINT64_C(77)

static struct strbuf make_page(uint64_t *ret_chain)
{
    const struct snapshot_page page = {
        .session = 9, .number = 3, .kind = SNAPSHOT_ROWS, .rows = 2, .pause_ms = 40};
    struct strbuf buf = {0};

    snapshot_page_begin(&buf);
    strbuf_puts(&buf, "some rows");
    *ret_chain = CHAIN;
    snapshot_page_end(&buf, &page, ret_chain);
    return buf;
}

static enum err_code read_page(const void *data, size_t bytes, uint64_t chain)
{
    struct snapshot_page page;

    return snapshot_page_read(data, bytes, &chain, &page, NULL);
}

Test(snapshot_page, comes_out_as_it_went_in)
{
    uint64_t written, chain = CHAIN;
    struct strbuf buf = make_page(&written);
    struct snapshot_page page;

    cr_assert_eq(snapshot_page_read(buf.data, buf.bytes, &chain, &page, NULL), ERR_NONE);
    cr_assert_eq(chain, written);
    cr_assert_eq(page.session, 9);
    cr_assert_eq(page.number, 3);
    cr_assert_eq(page.kind, SNAPSHOT_ROWS);
    cr_assert_eq(page.rows, 2);
    cr_assert_eq(page.pause_ms, 40);
    cr_assert_eq(page.payload_bytes, strlen("some rows"));
    cr_assert_arr_eq(page.payload, "some rows", page.payload_bytes);
    strbuf_finish(&buf);
}

Test(snapshot_page, any_bit_that_flipped_is_noticed)
{
    uint64_t chain;
    struct strbuf buf = make_page(&chain);

    for (size_t i = 0; i < buf.bytes * 8; i++) {
        buf.data[i / 8] = (char)(buf.data[i / 8] ^ (1 << (i % 8)));
        cr_assert_neq(read_page(buf.data, buf.bytes, CHAIN), ERR_NONE, "bit %zu", i);
        buf.data[i / 8] = (char)(buf.data[i / 8] ^ (1 << (i % 8)));
    }
    cr_assert_eq(read_page(buf.data, buf.bytes, CHAIN), ERR_NONE);
    strbuf_finish(&buf);
}

Test(snapshot_page, cut_anywhere_or_longer_it_is_refused)
{
    uint64_t chain;
    struct strbuf buf = make_page(&chain);

    for (size_t bytes = 0; bytes < buf.bytes; bytes++) {
        char *part = mem_memdup(buf.data, bytes); /* so that a read past its end is found */

        cr_assert_eq(read_page(part, bytes, CHAIN), ERR_CORRUPT, "%zu bytes", bytes);
        free(part);
    }
    strbuf_add(&buf, "", 1);
    cr_assert_eq(read_page(buf.data, buf.bytes, CHAIN), ERR_CORRUPT);
    strbuf_finish(&buf);
}

Test(snapshot_page, fits_only_behind_the_page_before)
{
    uint64_t chain;
    struct strbuf buf = make_page(&chain);

    cr_assert_eq(read_page(buf.data, buf.bytes, CHAIN + 1), ERR_CORRUPT);
    cr_assert_eq(read_page(buf.data, buf.bytes, 0), ERR_CORRUPT);
    strbuf_finish(&buf);
}

Test(snapshot_page, head_and_end_have_their_form)
{
    const struct snapshot_head head = {.rows = 5, .file_bytes = 4096, .meta = "m", .meta_bytes = 1};
    struct strbuf buf = {0};
    struct snapshot_head found;
    uint64_t rows;

    snapshot_head_add(&buf, &head);
    struct snapshot_page page = {
        .kind = SNAPSHOT_HEAD, .payload = buf.data, .payload_bytes = buf.bytes};
    cr_assert_eq(snapshot_head_read(&page, &found, NULL), ERR_NONE);
    cr_assert_eq(found.rows, 5);
    cr_assert_eq(found.file_bytes, 4096);
    cr_assert_eq(found.meta_bytes, 1);
    page.payload_bytes = 15;
    cr_assert_eq(snapshot_head_read(&page, &found, NULL), ERR_CORRUPT);
    page.kind = SNAPSHOT_END;
    cr_assert_eq(snapshot_total_read(&page, &rows, NULL), ERR_CORRUPT);
    page.payload_bytes = 8;
    cr_assert_eq(snapshot_total_read(&page, &rows, NULL), ERR_NONE);
    cr_assert_eq(rows, 5);
    page.kind = SNAPSHOT_ROWS;
    cr_assert_eq(snapshot_total_read(&page, &rows, NULL), ERR_CORRUPT);
    strbuf_finish(&buf);
}
