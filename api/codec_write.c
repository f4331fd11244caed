#include "api/codec_write.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/text.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/utf8.h"

/* ---- texts */

static void write_escaped(char character, struct strbuf *out)
{
    static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: character, letter */
    for (size_t i = 0; escapes[i] != '\0'; i += 2) {
        if (character == escapes[i]) {
            char pair[] = {'\\', escapes[i + 1]};
            strbuf_add(out, pair, sizeof(pair));
            return;
        }
    }
    strbuf_printf(out, "\\u%04x", (unsigned)(unsigned char)character);
}

static bool needs_escape(char character)
{
    return (unsigned char)character < 0x20 || character == '"' || character == '\\';
}

void codec_write_string(const char *text, struct strbuf *out)
{
    if (text == NULL) {
        strbuf_puts(out, "null");
        return;
    }
    strbuf_puts(out, "\"");
    size_t bytes = strlen(text);
    size_t start = 0; /* of the run that goes out as it is */
    for (size_t i = 0; i < bytes;) {
        size_t length = utf8_char(text + i, bytes - i);
        if (length > 0 && !needs_escape(text[i])) {
            i += length;
            continue;
        }
        strbuf_add(out, text + start, i - start);
        if (length == 0)
            strbuf_puts(out, "?");
        else
            write_escaped(text[i], out);
        start = ++i;
    }
    strbuf_add(out, text + start, bytes - start);
    strbuf_puts(out, "\"");
}

/* ---- JSON values, of a logic's config */

static int by_name(const void *a, const void *b)
{
    const char *const *left = a;
    const char *const *right = b;
    return strcmp(*left, *right);
}

static void write_sorted(json_t *json, struct strbuf *out)
{
    size_t count = json_object_size(json);
    const char **names = mem_calloc(count, sizeof(*names));
    size_t filled = 0;
    for (void *at = json_object_iter(json); at != NULL; at = json_object_iter_next(json, at))
        names[filled++] = json_object_iter_key(at);
    assert(filled == count);
    qsort(names, count, sizeof(*names), by_name);

    strbuf_puts(out, "{");
    for (size_t i = 0; i < count; i++) {
        strbuf_puts(out, i > 0 ? "," : "");
        codec_write_string(names[i], out);
        strbuf_puts(out, ":");
        codec_write_json(json_object_get(json, names[i]), out);
    }
    strbuf_puts(out, "}");
    free(names);
}

static void write_double(double number, struct strbuf *out)
{
    char text[TEXT_BYTES];
    text_double(number, text);
    strbuf_puts(out, text);
}

void codec_write_json(json_t *json, struct strbuf *out)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        write_sorted(json, out);
        return;
    case JSON_ARRAY:
        strbuf_puts(out, "[");
        for (size_t i = 0; i < json_array_size(json); i++) {
            strbuf_puts(out, i > 0 ? "," : "");
            codec_write_json(json_array_get(json, i), out);
        }
        strbuf_puts(out, "]");
        return;
    case JSON_STRING:
        codec_write_string(json_string_value(json), out);
        return;
    case JSON_INTEGER:
        strbuf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
        return;
    case JSON_REAL:
        write_double(json_real_value(json), out);
        return;
    case JSON_TRUE:
        strbuf_puts(out, "true");
        return;
    case JSON_FALSE:
        strbuf_puts(out, "false");
        return;
    case JSON_NULL:
        strbuf_puts(out, "null");
        return;
    }
    assert(false && "a type of jansson's");
}

/* ---- fields */

#define LOAD(ctype, field, value)                                                                  \
    __extension__({                                                                                \
        ctype loaded_;                                                                             \
        memcpy(&loaded_, (const char *)(value) + (field)->offset, sizeof(loaded_));                \
        loaded_;                                                                                   \
    })

static void write_field(const struct schema_field *field, const void *value, struct strbuf *out);

static void write_list(const struct schema_field *field, struct schema_list list,
                       struct strbuf *out)
{
    struct schema_field element = {.kind = field->element, .type = field->type};
    size_t bytes = schema_element_bytes(field);
    strbuf_puts(out, "[");
    for (size_t i = 0; i < list.count; i++) {
        strbuf_puts(out, i > 0 ? "," : "");
        write_field(&element, (const char *)list.items + i * bytes, out);
    }
    strbuf_puts(out, "]");
}

static void write_knowable(int64_t number, struct strbuf *out)
{
    if (number < 0)
        strbuf_puts(out, "null");
    else
        strbuf_printf(out, "%" PRId64, number);
}

static void write_time(int64_t at, struct strbuf *out)
{
    char text[CLOCK_TEXT_BYTES];
    if (at >= 0)
        clock_format(at, text);
    codec_write_string(at >= 0 ? text : NULL, out);
}

static void write_duration(int64_t ms, struct strbuf *out)
{
    char text[TEXT_BYTES];
    if (ms == API_UNKNOWN) {
        strbuf_puts(out, "null");
        return;
    }
    text_duration(ms, text);
    codec_write_string(text, out);
}

static void write_version(struct document_version version, struct strbuf *out)
{
    char text[TEXT_BYTES];
    text_version(version, text);
    codec_write_string(text, out);
}

static void write_config(const char *config, struct strbuf *out)
{
    /* Checked and compacted when it was decoded. */
    strbuf_puts(out, config != NULL ? config : "null");
}

static void write_uint64(uint64_t number, struct strbuf *out)
{
    strbuf_printf(out, "%" PRIu64, number <= INT64_MAX ? number : (uint64_t)INT64_MAX);
}

static void write_field(const struct schema_field *field, const void *value, struct strbuf *out)
{
    switch (field->kind) {
    case SCHEMA_STRING:
    case SCHEMA_NAME:
    case SCHEMA_AGENT_ID:
    case SCHEMA_TOPIC:
    case SCHEMA_UUID:
        codec_write_string(LOAD(char *, field, value), out);
        return;
    case SCHEMA_JSON:
        write_config(LOAD(char *, field, value), out);
        return;
    case SCHEMA_BOOL:
        strbuf_puts(out, LOAD(bool, field, value) ? "true" : "false");
        return;
    case SCHEMA_UINT32:
        strbuf_printf(out, "%" PRIu32, LOAD(uint32_t, field, value));
        return;
    case SCHEMA_UINT64:
        write_uint64(LOAD(uint64_t, field, value), out);
        return;
    case SCHEMA_INT64:
        strbuf_printf(out, "%" PRId64, LOAD(int64_t, field, value));
        return;
    case SCHEMA_KNOWABLE:
        write_knowable(LOAD(int64_t, field, value), out);
        return;
    case SCHEMA_TIME:
        write_time(LOAD(int64_t, field, value), out);
        return;
    case SCHEMA_DURATION:
        write_duration(LOAD(int64_t, field, value), out);
        return;
    case SCHEMA_DOUBLE:
        write_double(LOAD(double, field, value), out);
        return;
    case SCHEMA_ENUM:
        codec_write_string(schema_enum_name(field->names, LOAD(int, field, value)), out);
        return;
    case SCHEMA_VERSION:
        write_version(LOAD(struct document_version, field, value), out);
        return;
    case SCHEMA_OBJECT:
        codec_write_object(field->type, (const char *)value + field->offset, out);
        return;
    case SCHEMA_LIST:
        write_list(field, schema_list_get(field, value), out);
        return;
    }
    assert(false && "a kind of the table");
}

void codec_write_object(const struct schema_type *type, const void *value, struct strbuf *out)
{
    strbuf_puts(out, "{");
    for (size_t i = 0; i < type->field_count; i++) {
        const struct schema_field *field = &type->fields[i];
        strbuf_puts(out, i > 0 ? "," : "");
        codec_write_string(field->name, out);
        strbuf_puts(out, ":");
        write_field(field, value, out);
    }
    strbuf_puts(out, "}");
}
