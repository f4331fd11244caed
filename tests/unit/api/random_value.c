#include "tests/unit/api/random_value.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"

#define WALL_MS_MAX INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

#define STORE(ctype, field, value, content)                                                        \
    do {                                                                                           \
        ctype stored_ = (content);                                                                 \
        memcpy((char *)(value) + (field)->offset, &stored_, sizeof(stored_));                      \
    } while (0)

static bool one_in(struct rng *rng, uint64_t bound)
{
    return rng_below(rng, bound) == 0;
}

/* Often one of the ends, where mistakes are. */
static int64_t random_integer(struct rng *rng, int64_t min, int64_t max)
{
    if (one_in(rng, 8))
        return min;
    if (one_in(rng, 8))
        return max;
    uint64_t span = (uint64_t)max - (uint64_t)min;
    return (int64_t)((uint64_t)min +
                     (span == UINT64_MAX ? rng_next(rng) : rng_below(rng, span + 1)));
}

static char *random_of(struct rng *rng, const char *first, const char *all, size_t bytes_max)
{
    size_t bytes = 1 + (size_t)rng_below(rng, one_in(rng, 8) ? bytes_max : 12);
    char *text = mem_calloc(bytes + 1, 1);
    text[0] = first[rng_below(rng, strlen(first))];
    for (size_t i = 1; i < bytes; i++)
        text[i] = all[rng_below(rng, strlen(all))];
    return text;
}

/* All lengths of UTF-8, and what JSON has to escape. */
static char *random_text(struct rng *rng, int64_t bytes_min, int64_t bytes_max)
{
    static const char *const pieces[] = {"a",
                                         "Z",
                                         " ",
                                         "\"",
                                         "\\",
                                         "/",
                                         "\n",
                                         "\x01",
                                         "\x1f",
                                         "\x7f",
                                         "\xc3\xa9",
                                         "\xe2\x82\xac",
                                         "\xf0\x9f\x9a\x80",
                                         "~",
                                         "%s"};
    struct strbuf text = {0};
    uint64_t goal = rng_below(rng, one_in(rng, 16) ? 200 : 10);
    while (text.bytes < (size_t)bytes_min || goal-- > 0) {
        const char *piece = pieces[rng_below(rng, sizeof(pieces) / sizeof(pieces[0]))];
        if (text.bytes + strlen(piece) > (size_t)bytes_max)
            piece = "x";
        if (text.bytes + strlen(piece) > (size_t)bytes_max)
            break;
        strbuf_puts(&text, piece);
    }
    return strbuf_take(&text);
}

static char *random_config(struct rng *rng)
{
    static const char *const configs[] = {
        "{}", "{\"a\":1,\"b\":-9223372036854775808}",
        "{\"B\":true,\"a\":[1,2.5,\"x\",null],\"b\":{\"c\":{}}}",
        "{\"\":[],\"a\":1e+300,\"\xc3\xa9\":\"\\u0001\\\"\"}",
        "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}}"};
    return mem_strdup(configs[rng_below(rng, sizeof(configs) / sizeof(configs[0]))]);
}

#define LOWER_DIGITS "abcdefghijklmnopqrstuvwxyz0123456789"
#define ANY_DIGITS   LOWER_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static char *random_string(const struct schema_field *field, struct rng *rng)
{
    char uuid[UUID_TEXT_BYTES] = "01234567-89ab-4def-8123-456789abcdef";
    switch (field->kind) {
    case SCHEMA_NAME:
        return random_of(rng, LOWER_DIGITS, LOWER_DIGITS "._-", API_NAME_BYTES_MAX);
    case SCHEMA_AGENT_ID:
        return random_of(rng, ANY_DIGITS, ANY_DIGITS "._-", API_NAME_BYTES_MAX);
    case SCHEMA_TOPIC:
        return random_of(rng, ANY_DIGITS "_-", ANY_DIGITS "._-", API_TOPIC_BYTES_MAX);
    case SCHEMA_UUID:
        uuid[0] = "0123456789abcdef"[rng_below(rng, 16)];
        return mem_strdup(uuid);
    case SCHEMA_JSON:
        return random_config(rng);
    default:
        return random_text(rng, field->min, field->max);
    }
}

static void random_field(const struct schema_field *field, struct rng *rng, void *value);

static void random_list(const struct schema_field *field, struct rng *rng, void *value)
{
    struct schema_list list = {.count = (size_t)field->min + (size_t)rng_below(rng, 4)};
    if (list.count > (size_t)field->max)
        list.count = (size_t)field->max;
    if (list.count == 0)
        return;
    size_t bytes = schema_element_bytes(field);
    list.items = mem_calloc(list.count, bytes);
    struct schema_field element = {
        .kind = field->element, .required = true, .max = field->element_max, .type = field->type};
    for (size_t i = 0; i < list.count; i++)
        random_field(&element, rng, (char *)list.items + i * bytes);
    schema_list_set(field, value, list);
}

static double random_double(const struct schema_field *field, struct rng *rng)
{
    double part = (double)rng_below(rng, UINT64_C(1) << 53) / (double)(UINT64_C(1) << 53);
    return one_in(rng, 4) ? 0 : part * (double)(one_in(rng, 4) ? field->max : 1000);
}

static int random_enumerator(const struct schema_field *field, struct rng *rng)
{
    uint64_t count = 0;
    assert(field->names != NULL);
    while (field->names[count] != NULL)
        count++;
    return (int)rng_below(rng, count);
}

static void random_field(const struct schema_field *field, struct rng *rng, void *value)
{
    struct document_version version;
    if (schema_nullable(field) && one_in(rng, 3)) {
        schema_field_default(field, value);
        return;
    }
    switch (field->kind) {
    case SCHEMA_BOOL:
        STORE(bool, field, value, one_in(rng, 2));
        return;
    case SCHEMA_UINT32:
        STORE(uint32_t, field, value, (uint32_t)random_integer(rng, field->min, field->max));
        return;
    case SCHEMA_UINT64:
        STORE(uint64_t, field, value, (uint64_t)random_integer(rng, 0, INT64_MAX));
        return;
    case SCHEMA_INT64:
    case SCHEMA_KNOWABLE:
    case SCHEMA_DURATION:
        STORE(int64_t, field, value, random_integer(rng, field->min, field->max));
        return;
    case SCHEMA_TIME:
        STORE(int64_t, field, value, random_integer(rng, 0, WALL_MS_MAX));
        return;
    case SCHEMA_DOUBLE:
        STORE(double, field, value, random_double(field, rng));
        return;
    case SCHEMA_ENUM:
        STORE(int, field, value, random_enumerator(field, rng));
        return;
    case SCHEMA_VERSION:
        version.start = (uint64_t)random_integer(rng, 0, INT64_MAX);
        version.decision = (uint64_t)random_integer(rng, 0, INT64_MAX);
        STORE(struct document_version, field, value, version);
        return;
    case SCHEMA_OBJECT:
        random_value(field->type, rng, (char *)value + field->offset);
        return;
    case SCHEMA_LIST:
        random_list(field, rng, value);
        return;
    default:
        STORE(char *, field, value, random_string(field, rng));
        return;
    }
}

void random_value(const struct schema_type *type, struct rng *rng, void *ret_value)
{
    memset(ret_value, 0, type->bytes);
    for (size_t i = 0; i < type->field_count; i++)
        random_field(&type->fields[i], rng, ret_value);
}
