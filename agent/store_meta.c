/*
 * The meta record: what the state is of, where it stands, and what its rows add up to. It is
 * written in the same LMDB commit as the rows of a checkpoint.
 *
 *   checksum 8 bytes (as a row's), format 4
 *   processor 4, flags 1, sequence 8, written 8, rows 8, digest 8
 *   cluster, job, job incarnation, logic, boot id: length 4 bytes, text
 *   sweep: length 4 bytes, key
 *   clean for 4 bytes, removing for 4 bytes; removing: length 4 bytes, key
 *   positions: count 4 bytes, 53 bytes each
 *
 * Formats 1 to 4 are read too. Positions had 52 bytes, without the flags. 1 to 3 do not say what
 * splits have left behind. 1 and 2 had no time of writing, and positions of format 1 had 44 bytes,
 * without the number of records.
 */
#include "agent/store_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define CHECKSUM_BYTES   ((size_t)8)
#define POSITION_BYTES   ((size_t)44) /* of the shortest */
#define FORMAT_UNCOUNTED UINT32_C(1)
#define FORMAT_UNDATED   UINT32_C(2)
#define FORMAT_UNCLEANED UINT32_C(3)
#define FORMAT_UNFLAGGED UINT32_C(4)
#define FLAG_LEFT_WHOLE  1u /* of a position */
#define FLAG_CLEAN       1u
#define FLAG_SYNCED      2u

/* ---- writing ----------------------------------------------------------------------------------
 */

static void add_number(struct strbuf *buf, uint64_t number, size_t bytes)
{
    unsigned char data[8];

    store_number_put(data, number, bytes);
    strbuf_add(buf, data, bytes);
}

static void add_bytes(struct strbuf *buf, const void *data, size_t bytes)
{
    assert(bytes <= UINT32_MAX);
    add_number(buf, bytes, 4);
    strbuf_add(buf, data, bytes);
}

static void add_text(struct strbuf *buf, const char *text)
{
    add_bytes(buf, text, strlen(text));
}

static void add_position(struct strbuf *buf, const struct store_position *position)
{
    add_number(buf, position->topic, 4);
    add_number(buf, position->partition, 4);
    add_number(buf, position->root, 4);
    add_number(buf, (uint64_t)position->next_offset, 8);
    add_number(buf, (uint64_t)position->record_time_ms, 8);
    add_number(buf, (uint64_t)position->last_offset, 8);
    add_number(buf, position->last_fingerprint, 8);
    add_number(buf, (uint64_t)position->records, 8);
    add_number(buf, position->left_whole ? FLAG_LEFT_WHOLE : 0, 1);
}

void store_meta_encode(const struct store_meta *meta, struct strbuf *ret_value)
{
    uint64_t sum;

    strbuf_clear(ret_value);
    add_number(ret_value, 0, CHECKSUM_BYTES);
    add_number(ret_value, meta->format, 4);
    add_number(ret_value, meta->processor, 4);
    add_number(ret_value, (meta->clean ? FLAG_CLEAN : 0) | (meta->synced ? FLAG_SYNCED : 0), 1);
    add_number(ret_value, meta->sequence, 8);
    add_number(ret_value, (uint64_t)meta->written_ms, 8);
    add_number(ret_value, meta->rows, 8);
    add_number(ret_value, meta->digest, 8);
    add_text(ret_value, meta->cluster);
    add_text(ret_value, meta->job);
    add_text(ret_value, meta->job_incarnation);
    add_text(ret_value, meta->logic);
    add_text(ret_value, meta->boot_id);
    add_bytes(ret_value, meta->sweep.data, meta->sweep.bytes);
    add_number(ret_value, meta->clean_for, 4);
    add_number(ret_value, meta->removing_for, 4);
    add_bytes(ret_value, meta->removing.data, meta->removing.bytes);
    assert(meta->position_count <= UINT32_MAX);
    add_number(ret_value, meta->position_count, 4);
    for (size_t i = 0; i < meta->position_count; i++)
        add_position(ret_value, &meta->positions[i]);
    sum = store_checksum(STORE_META_KEY, strlen(STORE_META_KEY), ret_value->data + CHECKSUM_BYTES,
                         ret_value->bytes - CHECKSUM_BYTES);
    store_number_put((unsigned char *)ret_value->data, sum, CHECKSUM_BYTES);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

struct reading {
    const unsigned char *data;
    size_t bytes; /* that are left */
    bool failed;  /* something was longer than what is left */
};

static const unsigned char *take(struct reading *reading, size_t bytes)
{
    const unsigned char *data = reading->data;

    if (reading->failed || bytes > reading->bytes) {
        reading->failed = true;
        return NULL;
    }
    reading->data += bytes;
    reading->bytes -= bytes;
    return data;
}

static uint64_t take_number(struct reading *reading, size_t bytes)
{
    const unsigned char *data = take(reading, bytes);

    return data == NULL ? 0 : store_number_get(data, bytes);
}

static char *take_text(struct reading *reading)
{
    const size_t bytes = take_number(reading, 4);
    const unsigned char *data = take(reading, bytes);
    char *text;

    if (data == NULL || memchr(data, '\0', bytes) != NULL) {
        reading->failed = true;
        return mem_strdup("");
    }
    text = mem_calloc(bytes + 1, 1);
    memcpy(text, data, bytes);
    return text;
}

static void take_key(struct reading *reading, struct store_row_key *ret_key)
{
    const size_t bytes = take_number(reading, 4);
    const unsigned char *data;

    if (bytes > STORE_ROW_KEY_BYTES_MAX)
        reading->failed = true;
    data = take(reading, bytes);
    if (data == NULL)
        return;
    memcpy(ret_key->data, data, bytes);
    ret_key->bytes = bytes;
}

static void take_position(struct reading *reading, uint32_t format,
                          struct store_position *ret_position)
{
    ret_position->topic = (uint32_t)take_number(reading, 4);
    ret_position->partition = (uint32_t)take_number(reading, 4);
    ret_position->root = (uint32_t)take_number(reading, 4);
    ret_position->next_offset = (int64_t)take_number(reading, 8);
    ret_position->record_time_ms = (int64_t)take_number(reading, 8);
    ret_position->last_offset = (int64_t)take_number(reading, 8);
    ret_position->last_fingerprint = take_number(reading, 8);
    ret_position->records = format == FORMAT_UNCOUNTED ? -1 : (int64_t)take_number(reading, 8);
    ret_position->left_whole =
        format > FORMAT_UNFLAGGED && (take_number(reading, 1) & FLAG_LEFT_WHOLE) != 0;
    if (ret_position->next_offset < 0)
        reading->failed = true;
}

static void take_positions(struct reading *reading, struct store_meta *meta)
{
    const size_t count = take_number(reading, 4);

    if (count > reading->bytes / POSITION_BYTES) {
        reading->failed = true;
        return;
    }
    meta->positions = mem_calloc(count, sizeof(*meta->positions));
    meta->position_count = count;
    for (size_t i = 0; i < count; i++)
        take_position(reading, meta->format, &meta->positions[i]);
}

static void take_meta(struct reading *reading, struct store_meta *meta)
{
    uint64_t flags;

    meta->processor = (uint32_t)take_number(reading, 4);
    flags = take_number(reading, 1);
    meta->clean = (flags & FLAG_CLEAN) != 0;
    meta->synced = (flags & FLAG_SYNCED) != 0;
    meta->sequence = take_number(reading, 8);
    meta->written_ms = meta->format <= FORMAT_UNDATED ? -1 : (int64_t)take_number(reading, 8);
    meta->rows = take_number(reading, 8);
    meta->digest = take_number(reading, 8);
    meta->cluster = take_text(reading);
    meta->job = take_text(reading);
    meta->job_incarnation = take_text(reading);
    meta->logic = take_text(reading);
    meta->boot_id = take_text(reading);
    take_key(reading, &meta->sweep);
    if (meta->format > FORMAT_UNCLEANED) {
        meta->clean_for = (uint32_t)take_number(reading, 4);
        meta->removing_for = (uint32_t)take_number(reading, 4);
        take_key(reading, &meta->removing);
    }
    take_positions(reading, meta);
    if (reading->bytes > 0)
        reading->failed = true;
}

enum err_code store_meta_decode(MDB_val value, struct store_meta *ret_meta, struct err *reterr)
{
    struct reading reading = {.data = value.mv_data, .bytes = value.mv_size};
    const uint64_t sum = take_number(&reading, CHECKSUM_BYTES);
    struct store_meta meta = {0};

    if (reading.failed)
        return err_set(reterr, ERR_CORRUPT, "the meta record is cut short");
    if (store_checksum(STORE_META_KEY, strlen(STORE_META_KEY), reading.data, reading.bytes) != sum)
        return err_set(reterr, ERR_CORRUPT, "the meta record does not match its checksum");
    meta.format = (uint32_t)take_number(&reading, 4);
    if (meta.format < FORMAT_UNCOUNTED || meta.format > STORE_FORMAT)
        return err_set(reterr, ERR_UNSUPPORTED,
                       "format: the state has %" PRIu32 ", this agent reads %" PRIu32, meta.format,
                       STORE_FORMAT);
    take_meta(&reading, &meta);
    if (reading.failed) {
        store_meta_finish(&meta);
        return err_set(reterr, ERR_CORRUPT, "the meta record is not of the known form");
    }
    meta.format = STORE_FORMAT; /* as it is written from now on */
    *ret_meta = meta;
    return ERR_NONE;
}

void store_meta_finish(struct store_meta *meta)
{
    free(meta->cluster);
    free(meta->job);
    free(meta->job_incarnation);
    free(meta->logic);
    free(meta->boot_id);
    free(meta->positions);
    *meta = (struct store_meta){0};
}

/* ---- judging ----------------------------------------------------------------------------------
 */

enum err_code store_meta_judge(const struct store_meta *meta, const struct store_identity *identity,
                               struct err *reterr)
{
    const struct {
        const char *name, *found, *wanted;
    } texts[] = {
        {"cluster", meta->cluster, identity->cluster},
        {"job", meta->job, identity->job},
        {"job incarnation", meta->job_incarnation, identity->job_incarnation},
        {"logic", meta->logic, identity->logic},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(texts[i].found, texts[i].wanted) != 0)
            return err_set(reterr, ERR_FOREIGN, "%s: the state is of '%s', not of '%s'",
                           texts[i].name, texts[i].found, texts[i].wanted);
    }
    if (meta->processor != identity->processor)
        return err_set(reterr, ERR_FOREIGN,
                       "processor: the state is of %" PRIu32 ", not of %" PRIu32, meta->processor,
                       identity->processor);
    return ERR_NONE;
}
