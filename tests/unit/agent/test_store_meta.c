#include "store_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/mem.h"

static struct store_meta make_meta(size_t position_count)
{
    struct store_meta meta = {.format = STORE_FORMAT,
                              .processor = 5,
                              .clean = true,
                              .sequence = 77,
                              .written_ms = 1796000000123,
                              .rows = UINT64_MAX,
                              .digest = 0x123456789abcdef0,
                              .cluster = mem_strdup("cluster"),
                              .job = mem_strdup(""),
                              .job_incarnation = mem_strdup("incarnation"),
                              .logic = mem_strdup("builtin/count/1"),
                              .boot_id = mem_strdup("boot")};

    memcpy(meta.sweep.data, "\x01\0\xff", 3);
    meta.sweep.bytes = 3;
    meta.clean_for = 6;
    meta.removing_for = UINT32_MAX;
    memcpy(meta.removing.data, "\xff\0\x01", 3);
    meta.removing.bytes = 3;
    meta.positions = mem_calloc(position_count, sizeof(*meta.positions));
    meta.position_count = position_count;
    for (size_t i = 0; i < position_count; i++)
        meta.positions[i] = (struct store_position){.topic = (uint32_t)i,
                                                    .partition = UINT32_MAX,
                                                    .root = 3,
                                                    .next_offset = INT64_MAX,
                                                    .record_time_ms = -1,
                                                    .last_offset = -1,
                                                    .last_fingerprint = UINT64_MAX - i,
                                                    .records = INT64_MAX - (int64_t)i,
                                                    .left_whole = i % 2 == 1};
    return meta;
}

static MDB_val value_of(const struct strbuf *buf)
{
    return (MDB_val){.mv_size = buf->bytes, .mv_data = buf->data};
}

static void assert_equal(const struct store_meta *left, const struct store_meta *right)
{
    cr_assert_eq(left->processor, right->processor);
    cr_assert_eq(left->clean, right->clean);
    cr_assert_eq(left->synced, right->synced);
    cr_assert_eq(left->sequence, right->sequence);
    cr_assert_eq(left->rows, right->rows);
    cr_assert_eq(left->digest, right->digest);
    cr_assert_str_eq(left->cluster, right->cluster);
    cr_assert_str_eq(left->job, right->job);
    cr_assert_str_eq(left->job_incarnation, right->job_incarnation);
    cr_assert_str_eq(left->logic, right->logic);
    cr_assert_str_eq(left->boot_id, right->boot_id);
    cr_assert_eq(left->sweep.bytes, right->sweep.bytes);
    cr_assert_arr_eq(left->sweep.data, right->sweep.data, left->sweep.bytes);
    cr_assert_eq(left->position_count, right->position_count);
}

Test(store_meta, comes_back_as_it_was)
{
    for (size_t count = 0; count <= 1000; count += 500) {
        struct store_meta meta = make_meta(count), decoded = {0};
        struct strbuf buf = {0};

        store_meta_encode(&meta, &buf);
        cr_assert_eq(store_meta_decode(value_of(&buf), &decoded, NULL), ERR_NONE);
        assert_equal(&meta, &decoded);
        cr_assert_eq(decoded.written_ms, meta.written_ms);
        cr_assert_eq(decoded.clean_for, 6);
        cr_assert_eq(decoded.removing_for, UINT32_MAX);
        cr_assert_eq(decoded.removing.bytes, 3);
        cr_assert_arr_eq(decoded.removing.data, meta.removing.data, 3);
        for (size_t i = 0; i < count; i++) {
            cr_assert_eq(decoded.positions[i].topic, i);
            cr_assert_eq(decoded.positions[i].partition, UINT32_MAX);
            cr_assert_eq(decoded.positions[i].root, 3);
            cr_assert_eq(decoded.positions[i].next_offset, INT64_MAX);
            cr_assert_eq(decoded.positions[i].record_time_ms, -1);
            cr_assert_eq(decoded.positions[i].last_offset, -1);
            cr_assert_eq(decoded.positions[i].last_fingerprint, UINT64_MAX - i);
            cr_assert_eq(decoded.positions[i].records, INT64_MAX - (int64_t)i);
            cr_assert_eq(decoded.positions[i].left_whole, i % 2 == 1);
        }
        store_meta_finish(&decoded);
        store_meta_finish(&meta);
        strbuf_finish(&buf);
    }
}

/* The record of format 4: the same with positions of 52 bytes. */
static void to_format_4(struct strbuf *buf, size_t position_count)
{
    unsigned char *data = (unsigned char *)buf->data;
    size_t first = buf->bytes - position_count * 53;

    for (size_t i = 0; i < position_count; i++)
        memmove(data + first + i * 52, data + first + i * 53, 52);
    buf->bytes -= position_count;
    store_number_put(data + 8, 4, 4);
    store_number_put(data, store_checksum("meta", 4, buf->data + 8, buf->bytes - 8), 8);
}

/* The record of format 3: the same without what splits have left behind. */
static void to_format_3(struct strbuf *buf, size_t position_count, size_t removing_bytes)
{
    unsigned char *data = (unsigned char *)buf->data;
    size_t tail = 4 + position_count * 52, gone = 12 + removing_bytes;

    to_format_4(buf, position_count);
    memmove(data + buf->bytes - tail - gone, data + buf->bytes - tail, tail);
    buf->bytes -= gone;
    store_number_put(data + 8, 3, 4);
    store_number_put(data, store_checksum("meta", 4, buf->data + 8, buf->bytes - 8), 8);
}

/* The record of format 2: and without the time of writing. */
static void to_format_2(struct strbuf *buf, size_t position_count)
{
    unsigned char *data = (unsigned char *)buf->data;

    to_format_3(buf, position_count, 3);
    memmove(data + 25, data + 33, buf->bytes - 33);
    buf->bytes -= 8;
    store_number_put(data + 8, 2, 4);
    store_number_put(data, store_checksum("meta", 4, buf->data + 8, buf->bytes - 8), 8);
}

/* The record of format 1: and with positions of 44 bytes. */
static void to_format_1(struct strbuf *buf, size_t position_count)
{
    unsigned char *data = (unsigned char *)buf->data;
    size_t first;

    to_format_2(buf, position_count);
    first = buf->bytes - position_count * 52;
    for (size_t i = 0; i < position_count; i++)
        memmove(data + first + i * 44, data + first + i * 52, 44);
    buf->bytes -= position_count * 8;
    store_number_put(data + 8, 1, 4);
    store_number_put(data, store_checksum("meta", 4, buf->data + 8, buf->bytes - 8), 8);
}

Test(store_meta, a_record_of_the_older_format_is_read_and_nobody_counted)
{
    struct store_meta meta = make_meta(3), decoded = {0};
    struct strbuf buf = {0};

    store_meta_encode(&meta, &buf);
    to_format_1(&buf, 3);
    cr_assert_eq(store_meta_decode(value_of(&buf), &decoded, NULL), ERR_NONE);
    assert_equal(&meta, &decoded);
    cr_assert_eq(decoded.format, STORE_FORMAT, "as it is written from now on");
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(decoded.positions[i].topic, i);
        cr_assert_eq(decoded.positions[i].next_offset, INT64_MAX);
        cr_assert_eq(decoded.positions[i].last_fingerprint, UINT64_MAX - i);
        cr_assert_eq(decoded.positions[i].records, -1);
    }
    cr_assert_eq(decoded.written_ms, -1);
    store_meta_finish(&decoded);
    store_meta_finish(&meta);
    strbuf_finish(&buf);
}

Test(store_meta, of_a_record_of_format_2_nobody_knows_when_it_was_written)
{
    struct store_meta meta = make_meta(3), decoded = {0};
    struct strbuf buf = {0};

    store_meta_encode(&meta, &buf);
    to_format_2(&buf, 3);
    cr_assert_eq(store_meta_decode(value_of(&buf), &decoded, NULL), ERR_NONE);
    assert_equal(&meta, &decoded);
    cr_assert_eq(decoded.written_ms, -1);
    cr_assert_eq(decoded.positions[2].records, INT64_MAX - 2);
    store_meta_finish(&decoded);
    store_meta_finish(&meta);
    strbuf_finish(&buf);
}

Test(store_meta, of_a_record_of_format_4_nobody_knows_whether_it_was_left_whole)
{
    struct store_meta meta = make_meta(3), decoded = {0};
    struct strbuf buf = {0};

    store_meta_encode(&meta, &buf);
    to_format_4(&buf, 3);
    cr_assert_eq(store_meta_decode(value_of(&buf), &decoded, NULL), ERR_NONE);
    assert_equal(&meta, &decoded);
    cr_assert_eq(decoded.removing.bytes, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(decoded.positions[i].records, INT64_MAX - (int64_t)i);
        cr_assert_not(decoded.positions[i].left_whole);
    }
    store_meta_finish(&decoded);
    store_meta_finish(&meta);
    strbuf_finish(&buf);
}

Test(store_meta, of_a_record_of_format_3_nobody_knows_what_splits_have_left)
{
    struct store_meta meta = make_meta(3), decoded = {0};
    struct strbuf buf = {0};

    store_meta_encode(&meta, &buf);
    to_format_3(&buf, 3, 3);
    cr_assert_eq(store_meta_decode(value_of(&buf), &decoded, NULL), ERR_NONE);
    assert_equal(&meta, &decoded);
    cr_assert_eq(decoded.written_ms, meta.written_ms);
    cr_assert_eq(decoded.clean_for, 0);
    cr_assert_eq(decoded.removing_for, 0);
    cr_assert_eq(decoded.removing.bytes, 0);
    store_meta_finish(&decoded);
    store_meta_finish(&meta);
    strbuf_finish(&buf);
}

Test(store_meta, damage_is_detected)
{
    struct store_meta meta = make_meta(2), decoded;
    struct strbuf buf = {0};
    MDB_val value;

    store_meta_encode(&meta, &buf);
    for (size_t bit = 0; bit < 8 * buf.bytes; bit++) {
        buf.data[bit / 8] = (char)(buf.data[bit / 8] ^ 1 << bit % 8);
        cr_assert_eq(store_meta_decode(value_of(&buf), &decoded, NULL), ERR_CORRUPT);
        buf.data[bit / 8] = (char)(buf.data[bit / 8] ^ 1 << bit % 8);
    }
    value = value_of(&buf);
    for (value.mv_size = 0; value.mv_size < buf.bytes; value.mv_size++)
        cr_assert_eq(store_meta_decode(value, &decoded, NULL), ERR_CORRUPT);
    store_meta_finish(&meta);
    strbuf_finish(&buf);
}

/* Each byte after the format set to each of a few values, with a right checksum: read or refused,
 * but never out of bounds (the address sanitizer watches) and never with a negative offset. */
Test(store_meta, a_false_form_is_refused_or_harmless)
{
    static const unsigned char values[] = {0, 1, 2, 0x7f, 0x80, 0xff};
    struct store_meta meta = make_meta(3);
    struct strbuf buf = {0};
    int refused = 0;

    store_meta_encode(&meta, &buf);
    for (size_t at = 12; at < buf.bytes; at++) {
        for (size_t i = 0; i < sizeof(values); i++) {
            const char before = buf.data[at];
            struct store_meta decoded = {0};
            enum err_code code;

            buf.data[at] = (char)values[i];
            store_number_put((unsigned char *)buf.data,
                             store_checksum("meta", 4, buf.data + 8, buf.bytes - 8), 8);
            code = store_meta_decode(value_of(&buf), &decoded, NULL);
            cr_assert(code == ERR_NONE || code == ERR_CORRUPT);
            refused += code == ERR_CORRUPT;
            for (size_t p = 0; p < decoded.position_count; p++)
                cr_assert_geq(decoded.positions[p].next_offset, 0);
            store_meta_finish(&decoded);
            buf.data[at] = before;
        }
    }
    cr_assert_gt(refused, 100);
    store_meta_finish(&meta);
    strbuf_finish(&buf);
}
