/*
 * The built-in logics but dedup, against the same interface as plugins (api/processor.h), and the
 * table of all of them.
 *
 * count and sum keep 8 bytes, big-endian, in the key's main row. Their outputs are decimal text.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/logic_private.h"
#include "api/codec.h"
#include "api/schema.h"

#define DECIMAL_BYTES 24 /* an int64_t with sign and NUL */

static const struct baton_bytes main_row = {.data = NULL, .bytes = 0};

enum baton_status logic_config_decode(const struct schema_type *type, const char *config,
                                      void *ret_value, char *error, size_t error_bytes)
{
    struct codec_faults faults = {.count = 0};
    struct err err;
    enum err_code code = codec_decode(type, config, strlen(config), ret_value, &faults, &err);

    if (code == ERR_INVALID && faults.count > 0) {
        const char *pointer = faults.items[0].pointer; /* "": the config itself */

        snprintf(error, error_bytes, "%s%s%s", pointer, pointer[0] != '\0' ? ": " : "",
                 faults.items[0].detail);
    } else if (code != ERR_NONE) {
        snprintf(error, error_bytes, "%s", err.text);
    }
    codec_faults_finish(&faults);
    return code == ERR_NONE ? BATON_PROCESSOR_OK : BATON_PROCESSOR_ERROR;
}

/* ---- what they share ------------------------------------------------------------------------- */

/* For logics that have nothing to configure and keep nothing but state. */
static enum baton_status create_plain(const char *config, void **ret_instance, char *error,
                                      size_t error_bytes)
{
    static const struct schema_type no_keys = {.name = "no_config", .bytes = 1};
    char nothing;

    if (logic_config_decode(&no_keys, config, &nothing, error, error_bytes) != BATON_PROCESSOR_OK)
        return BATON_PROCESSOR_ERROR;
    *ret_instance = NULL;
    return BATON_PROCESSOR_OK;
}

static void destroy_plain(void *instance)
{
    (void)instance; /* there is none */
}

/* A row that is not there counts as 0. */
static enum baton_status get_number(struct baton_context *context, int64_t *ret_number, char *error,
                                    size_t error_bytes)
{
    struct baton_bytes row;
    enum baton_status status = context->operations->get(context, main_row, &row);
    uint64_t bits = 0;

    if (status == BATON_PROCESSOR_NOT_FOUND) {
        *ret_number = 0;
        return BATON_PROCESSOR_OK;
    }
    if (status != BATON_PROCESSOR_OK)
        return status;
    if (row.bytes != sizeof(bits)) {
        snprintf(error, error_bytes, "a row of %zu bytes, 8 expected", row.bytes);
        return BATON_PROCESSOR_IO;
    }
    for (size_t i = 0; i < sizeof(bits); i++)
        bits = bits << 8 | ((const unsigned char *)row.data)[i];
    *ret_number = (int64_t)bits;
    return BATON_PROCESSOR_OK;
}

static enum baton_status put_number(struct baton_context *context, int64_t number)
{
    unsigned char row[sizeof(number)];
    uint64_t bits = (uint64_t)number;

    for (size_t i = sizeof(row); i-- > 0; bits >>= 8)
        row[i] = (unsigned char)bits;
    return context->operations->put(context, main_row,
                                    (struct baton_bytes){.data = row, .bytes = sizeof(row)});
}

/* Stores the key's new number and emits it. */
static enum baton_status answer_number(struct baton_context *context,
                                       const struct baton_record *record, int64_t number)
{
    char text[DECIMAL_BYTES];
    struct baton_output output = {.key = record->key, .value.data = text};
    enum baton_status status = put_number(context, number);

    if (status != BATON_PROCESSOR_OK)
        return status;
    output.value.bytes = (size_t)snprintf(text, sizeof(text), "%" PRId64, number);
    return context->operations->emit(context, &output);
}

/* ---- count ----------------------------------------------------------------------------------- */

static enum baton_status count_process(void *instance, const struct baton_record *record,
                                       struct baton_context *context, char *error,
                                       size_t error_bytes)
{
    int64_t count;
    enum baton_status status = get_number(context, &count, error, error_bytes);

    (void)instance; /* there is none */
    if (status != BATON_PROCESSOR_OK)
        return status;
    if (count == INT64_MAX) {
        snprintf(error, error_bytes, "the count would pass 64 bits");
        return BATON_PROCESSOR_ERROR;
    }
    return answer_number(context, record, count + 1);
}

static const struct baton_processor logic_count = {
    .abi = BATON_PROCESSOR_ABI,
    .name = "count",
    .version = "1",
    .create = create_plain,
    .process = count_process,
    .destroy = destroy_plain,
};

/* ---- sum ------------------------------------------------------------------------------------- */

/* Optional sign, then one or more digits, nothing else; in the range of int64_t. */
static bool parse_decimal(struct baton_bytes value, int64_t *ret_number)
{
    const char *text = value.data;
    size_t at = 0;
    bool negative = false;
    int64_t number = 0;

    if (value.bytes > 0 && (text[0] == '-' || text[0] == '+')) {
        negative = text[0] == '-';
        at = 1;
    }
    if (at == value.bytes)
        return false;
    for (; at < value.bytes; at++) {
        int digit = text[at] - '0';

        if (digit < 0 || digit > 9)
            return false;
        /* Goes down for negative numbers: their range is one wider. */
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, negative ? -digit : digit, &number))
            return false;
    }
    *ret_number = number;
    return true;
}

static enum baton_status sum_process(void *instance, const struct baton_record *record,
                                     struct baton_context *context, char *error, size_t error_bytes)
{
    int64_t number, sum;
    enum baton_status status;

    (void)instance; /* there is none */
    if (record->value.data == NULL || !parse_decimal(record->value, &number)) {
        snprintf(
            error, error_bytes,
            "the value is %s; a decimal integer of 64 bits is wanted (optional sign, then digits)",
            record->value.data == NULL ? "null" : "not a number");
        return BATON_PROCESSOR_ERROR;
    }
    status = get_number(context, &sum, error, error_bytes);
    if (status != BATON_PROCESSOR_OK)
        return status;
    if (__builtin_add_overflow(sum, number, &sum)) {
        snprintf(error, error_bytes, "the sum would leave the range of 64-bit integers");
        return BATON_PROCESSOR_ERROR;
    }
    return answer_number(context, record, sum);
}

static const struct baton_processor logic_sum = {
    .abi = BATON_PROCESSOR_ABI,
    .name = "sum",
    .version = "1",
    .create = create_plain,
    .process = sum_process,
    .destroy = destroy_plain,
};

/* ---- latest ---------------------------------------------------------------------------------- */

static enum baton_status latest_process(void *instance, const struct baton_record *record,
                                        struct baton_context *context, char *error,
                                        size_t error_bytes)
{
    const struct baton_operations *operations = context->operations;
    struct baton_output output = {.key = record->key, .value = record->value};
    enum baton_status status;

    (void)instance; /* there is none */
    if (record->value.data == NULL)
        status = operations->del(context, main_row);
    else
        status = operations->put(context, main_row, record->value);
    if (status == BATON_PROCESSOR_OK)
        status = operations->emit(context, &output);
    if (status == BATON_PROCESSOR_LIMIT)
        snprintf(error, error_bytes, "key and value have %zu bytes",
                 record->key.bytes + record->value.bytes);
    return status;
}

static const struct baton_processor logic_latest = {
    .abi = BATON_PROCESSOR_ABI,
    .flags = BATON_PROCESSOR_REBUILD_FROM_LATEST,
    .name = "latest",
    .version = "1",
    .create = create_plain,
    .process = latest_process,
    .destroy = destroy_plain,
};

/* ---- the table ------------------------------------------------------------------------------- */

const struct baton_processor *logic_builtin(const char *name)
{
    static const struct baton_processor *const table[] = {&logic_count, &logic_sum, &logic_latest,
                                                          &logic_dedup};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    }
    return NULL;
}
