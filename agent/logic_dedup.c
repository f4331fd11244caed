/*
 * The built-in `dedup`: passes the first record of each identity of a key on, drops the repeats.
 *
 * Config (all optional):
 * - by: what an identity is.
 *   - "value" (default): key and value, byte for byte; null differs from empty.
 *   - "header:<name>": key and the value of that header, the last one if there are several. A
 *     record without the header is an error.
 *   - "key": one record per key, ever.
 * - max_remembered: 1..1000000, default 1000, not with "key": how many identities each key
 *   remembers. A new one pushes the oldest out (by when it was first seen; repeats do not renew
 *   it), which then passes once more.
 *
 * With state_ttl an identity is forgotten that much record time after it passed.
 *
 * Rows of a key, by subkey, so that each record costs a fixed number of reads and writes whatever
 * is remembered:
 *
 * - "": 8 bytes sequence number of the oldest identity, 8 bytes that of the next new one.
 * - "i" + SHA-256: an identity; 8 bytes sequence number.
 * - "n": the null identity; likewise.
 * - "s" + sequence number: the subkey of the identity that has it.
 *
 * Numbers are big-endian. A digest that nobody can make collide stands for "byte for byte", so rows
 * stay small. By "key" there is only the main row, and it is empty.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/logic_private.h"
#include "api/schema.h"
#include "common/hash/sha256.h"
#include "common/mem.h"

#define MAX_REMEMBERED_DEFAULT 1000
#define MAX_REMEMBERED_MOST    1000000
#define HEADER_PREFIX          "header:"
#define BY_BYTES_MAX           256
#define NUMBER_BYTES           ((size_t)8)

struct dedup_config {
    char *by;
    int64_t max_remembered; /* 0: not given */
};

enum dedup_by { DEDUP_BY_VALUE, DEDUP_BY_KEY, DEDUP_BY_HEADER };

struct dedup {
    struct dedup_config config;
    enum dedup_by by;
    const char *header; /* within config.by */
};

/* ---- config ---------------------------------------------------------------------------------- */

static const struct schema_field config_fields[] = {
    {.name = "by",
     .kind = SCHEMA_STRING,
     .offset = offsetof(struct dedup_config, by),
     .min = 1,
     .max = BY_BYTES_MAX,
     .fallback_text = "value",
     .help = "What makes a record a repeat of another one of its key: \"value\", \"key\" or "
             "\"header:<name>\"."},
    {.name = "max_remembered",
     .kind = SCHEMA_INT64,
     .offset = offsetof(struct dedup_config, max_remembered),
     .min = 1,
     .max = MAX_REMEMBERED_MOST,
     .fallback = 0,
     .help = "How many identities a key remembers; default 1000, not with \"by\": \"key\"."},
};

static const struct schema_type config_type = {
    .name = "dedup_config",
    .bytes = sizeof(struct dedup_config),
    .fields = config_fields,
    .field_count = sizeof(config_fields) / sizeof(config_fields[0]),
};

static enum baton_status settle_config(struct dedup *dedup, char *error, size_t error_bytes)
{
    struct dedup_config *config = &dedup->config;
    size_t prefix = strlen(HEADER_PREFIX);

    if (strcmp(config->by, "value") == 0) {
        dedup->by = DEDUP_BY_VALUE;
    } else if (strcmp(config->by, "key") == 0) {
        dedup->by = DEDUP_BY_KEY;
    } else if (strncmp(config->by, HEADER_PREFIX, prefix) == 0 && config->by[prefix] != '\0') {
        dedup->by = DEDUP_BY_HEADER;
        dedup->header = config->by + prefix;
    } else {
        snprintf(error, error_bytes,
                 "/by: must be \"value\", \"key\" or \"header:<name of a header>\"");
        return BATON_PROCESSOR_ERROR;
    }
    if (dedup->by == DEDUP_BY_KEY && config->max_remembered != 0) {
        snprintf(error, error_bytes,
                 "/max_remembered: does not go with \"by\": \"key\", which remembers each key");
        return BATON_PROCESSOR_ERROR;
    }
    if (config->max_remembered == 0)
        config->max_remembered = MAX_REMEMBERED_DEFAULT;
    return BATON_PROCESSOR_OK;
}

static void dedup_destroy(void *instance)
{
    struct dedup *dedup = instance;

    schema_free(&config_type, &dedup->config);
    free(dedup);
}

static enum baton_status dedup_create(const char *config, void **ret_instance, char *error,
                                      size_t error_bytes)
{
    struct dedup *dedup = mem_calloc(1, sizeof(*dedup));

    if (logic_config_decode(&config_type, config, &dedup->config, error, error_bytes) !=
        BATON_PROCESSOR_OK) {
        free(dedup);
        return BATON_PROCESSOR_ERROR;
    }
    if (settle_config(dedup, error, error_bytes) != BATON_PROCESSOR_OK) {
        dedup_destroy(dedup);
        return BATON_PROCESSOR_ERROR;
    }
    *ret_instance = dedup;
    return BATON_PROCESSOR_OK;
}

/* ---- identities ------------------------------------------------------------------------------ */

struct identity { /* the subkey of an identity's row */
    unsigned char subkey[1 + SHA256_BYTES];
    size_t bytes;
};

static void identity_of(struct baton_bytes bytes, struct identity *ret_identity)
{
    if (bytes.data == NULL) {
        ret_identity->subkey[0] = 'n';
        ret_identity->bytes = 1;
        return;
    }
    ret_identity->subkey[0] = 'i';
    sha256(bytes.data, bytes.bytes, ret_identity->subkey + 1);
    ret_identity->bytes = sizeof(ret_identity->subkey);
}

/* False when the record lacks the header. */
static bool identify(const struct dedup *dedup, const struct baton_record *record,
                     struct identity *ret_identity)
{
    if (dedup->by == DEDUP_BY_VALUE) {
        identity_of(record->value, ret_identity);
        return true;
    }
    for (size_t i = record->header_count; i-- > 0;) {
        if (strcmp(record->headers[i].name, dedup->header) == 0) {
            identity_of(record->headers[i].value, ret_identity);
            return true;
        }
    }
    return false;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct span { /* the sequence numbers in use: oldest <= s < next */
    uint64_t oldest, next;
};

static void store_number(uint64_t number, unsigned char bytes[NUMBER_BYTES])
{
    for (size_t i = NUMBER_BYTES; i-- > 0; number >>= 8)
        bytes[i] = (unsigned char)number;
}

static uint64_t load_number(const unsigned char *bytes)
{
    uint64_t number = 0;

    for (size_t i = 0; i < NUMBER_BYTES; i++)
        number = number << 8 | bytes[i];
    return number;
}

static struct baton_bytes subkey_of(const struct identity *identity)
{
    return (struct baton_bytes){.data = identity->subkey, .bytes = identity->bytes};
}

struct sequence_subkey {
    unsigned char bytes[1 + NUMBER_BYTES];
};

static struct baton_bytes sequence_subkey(uint64_t sequence, struct sequence_subkey *room)
{
    room->bytes[0] = 's';
    store_number(sequence, room->bytes + 1);
    return (struct baton_bytes){.data = room->bytes, .bytes = sizeof(room->bytes)};
}

static enum baton_status get_span(struct baton_context *context, struct span *ret_span, char *error,
                                  size_t error_bytes)
{
    struct baton_bytes row;
    enum baton_status status =
        context->operations->get(context, (struct baton_bytes){.data = NULL}, &row);

    if (status == BATON_PROCESSOR_NOT_FOUND) {
        *ret_span = (struct span){.oldest = 0, .next = 0};
        return BATON_PROCESSOR_OK;
    }
    if (status != BATON_PROCESSOR_OK)
        return status;
    if (row.bytes != 2 * NUMBER_BYTES) {
        snprintf(error, error_bytes, "a main row of %zu bytes, 16 expected", row.bytes);
        return BATON_PROCESSOR_IO;
    }
    ret_span->oldest = load_number(row.data);
    ret_span->next = load_number((const unsigned char *)row.data + NUMBER_BYTES);
    return BATON_PROCESSOR_OK;
}

static enum baton_status put_span(struct baton_context *context, struct span span)
{
    unsigned char row[2 * NUMBER_BYTES];

    store_number(span.oldest, row);
    store_number(span.next, row + NUMBER_BYTES);
    return context->operations->put(context, (struct baton_bytes){.data = NULL},
                                    (struct baton_bytes){.data = row, .bytes = sizeof(row)});
}

/*
 * Deletes what has the number `sequence`. With state_ttl its rows may be gone, and its identity may
 * have come again under a later number: that one stays.
 */
static enum baton_status forget(struct baton_context *context, uint64_t sequence, char *error,
                                size_t error_bytes)
{
    const struct baton_operations *operations = context->operations;
    struct sequence_subkey room;
    struct identity identity;
    struct baton_bytes row;
    enum baton_status status = operations->get(context, sequence_subkey(sequence, &room), &row);

    if (status == BATON_PROCESSOR_NOT_FOUND)
        return BATON_PROCESSOR_OK;
    if (status != BATON_PROCESSOR_OK)
        return status;
    if (row.bytes == 0 || row.bytes > sizeof(identity.subkey)) {
        snprintf(error, error_bytes, "a sequence row of %zu bytes, 1 to %zu expected", row.bytes,
                 sizeof(identity.subkey));
        return BATON_PROCESSOR_IO;
    }
    memcpy(identity.subkey, row.data, row.bytes);
    identity.bytes = row.bytes;
    status = operations->get(context, subkey_of(&identity), &row);
    if (status == BATON_PROCESSOR_OK && row.bytes == NUMBER_BYTES &&
        load_number(row.data) == sequence)
        status = operations->del(context, subkey_of(&identity));
    if (status != BATON_PROCESSOR_OK && status != BATON_PROCESSOR_NOT_FOUND)
        return status;
    return operations->del(context, sequence_subkey(sequence, &room));
}

static enum baton_status remember(struct baton_context *context, const struct identity *identity,
                                  uint64_t sequence)
{
    const struct baton_operations *operations = context->operations;
    struct sequence_subkey room;
    unsigned char number[NUMBER_BYTES];
    enum baton_status status;

    store_number(sequence, number);
    status = operations->put(context, subkey_of(identity),
                             (struct baton_bytes){.data = number, .bytes = sizeof(number)});
    if (status != BATON_PROCESSOR_OK)
        return status;
    return operations->put(context, sequence_subkey(sequence, &room), subkey_of(identity));
}

/* ---- records --------------------------------------------------------------------------------- */

/* Remembers a new identity and makes room for it. */
static enum baton_status admit(const struct dedup *dedup, struct baton_context *context,
                               const struct identity *identity, char *error, size_t error_bytes)
{
    struct span span = {.oldest = 0};
    enum baton_status status = get_span(context, &span, error, error_bytes);

    if (status == BATON_PROCESSOR_OK &&
        span.next - span.oldest >= (uint64_t)dedup->config.max_remembered)
        status = forget(context, span.oldest++, error, error_bytes);
    if (status == BATON_PROCESSOR_OK)
        status = remember(context, identity, span.next++);
    if (status == BATON_PROCESSOR_OK)
        status = put_span(context, span);
    return status;
}

static enum baton_status pass_on(const struct baton_record *record, struct baton_context *context)
{
    struct baton_output output = {.key = record->key, .value = record->value};

    return context->operations->emit(context, &output);
}

static enum baton_status process_by_key(const struct baton_record *record,
                                        struct baton_context *context)
{
    const struct baton_bytes main_row = {.data = NULL};
    struct baton_bytes row;
    enum baton_status status = context->operations->get(context, main_row, &row);

    if (status == BATON_PROCESSOR_OK)
        return BATON_PROCESSOR_OK; /* seen before */
    if (status != BATON_PROCESSOR_NOT_FOUND)
        return status;
    status = context->operations->put(context, main_row, (struct baton_bytes){.data = ""});
    if (status != BATON_PROCESSOR_OK)
        return status;
    return pass_on(record, context);
}

static enum baton_status dedup_process(void *instance, const struct baton_record *record,
                                       struct baton_context *context, char *error,
                                       size_t error_bytes)
{
    const struct dedup *dedup = instance;
    struct identity identity;
    struct baton_bytes row;
    enum baton_status status;

    if (dedup->by == DEDUP_BY_KEY)
        return process_by_key(record, context);
    if (!identify(dedup, record, &identity)) {
        snprintf(error, error_bytes, "the record has no header \"%s\"", dedup->header);
        return BATON_PROCESSOR_ERROR;
    }
    status = context->operations->get(context, subkey_of(&identity), &row);
    if (status == BATON_PROCESSOR_OK)
        return BATON_PROCESSOR_OK; /* a repeat */
    if (status != BATON_PROCESSOR_NOT_FOUND)
        return status;
    status = admit(dedup, context, &identity, error, error_bytes);
    if (status != BATON_PROCESSOR_OK)
        return status;
    return pass_on(record, context);
}

const struct baton_processor logic_dedup = {
    .abi = BATON_PROCESSOR_ABI,
    .name = "dedup",
    .version = "1",
    .create = dedup_create,
    .process = dedup_process,
    .destroy = dedup_destroy,
};
