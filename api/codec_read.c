#include "api/codec_read.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "api/codec_say.h"
#include "api/codec_write.h"
#include "api/text.h"
#include "common/mem.h"
#include "common/opts.h"
#include "common/strbuf.h"
#include "common/utf8.h"

struct reader {
    struct codec_faults *faults;
    struct strbuf pointer; /* to the value that is being read */
    struct codec_read_how how;
};

/* ---- where we are, and what is wrong there */

#define POINTER_NAME_BYTES_MAX 128 /* of a key that we do not know; keys of ours are shorter */

static void pointer_push(struct reader *reader, const char *name)
{
    size_t bytes = strlen(name);
    if (bytes > POINTER_NAME_BYTES_MAX)
        bytes = utf8_cut(name, POINTER_NAME_BYTES_MAX);
    strbuf_puts(&reader->pointer, "/");
    for (size_t i = 0; i < bytes; i++) { /* RFC 6901, section 3 */
        if (name[i] == '~')
            strbuf_puts(&reader->pointer, "~0");
        else if (name[i] == '/')
            strbuf_puts(&reader->pointer, "~1");
        else
            strbuf_add(&reader->pointer, &name[i], 1);
    }
}

static void pointer_pop(struct reader *reader, size_t bytes)
{
    reader->pointer.bytes = bytes;
    if (reader->pointer.data != NULL)
        reader->pointer.data[bytes] = '\0';
}

static void fault(struct reader *reader, const char *detail)
{
    codec_faults_add(reader->faults, strbuf_text(&reader->pointer), "%s", detail);
}

static void fault_value(struct reader *reader, const struct schema_field *field, json_t *json)
{
    if (codec_faults_full(reader->faults))
        return;
    struct strbuf detail = {0};
    strbuf_puts(&detail, "must be ");
    codec_say_allowed(field, &detail);
    strbuf_puts(&detail, ", not ");
    codec_say_given(json, &detail);
    fault(reader, strbuf_text(&detail));
    strbuf_finish(&detail);
}

static void fault_missing(struct reader *reader, const struct schema_field *field)
{
    struct strbuf detail = {0};
    strbuf_puts(&detail, "is required and must be ");
    codec_say_allowed(field, &detail);
    size_t bytes = reader->pointer.bytes;
    pointer_push(reader, field->name);
    fault(reader, strbuf_text(&detail));
    pointer_pop(reader, bytes);
    strbuf_finish(&detail);
}

static void fault_unknown(struct reader *reader, const struct schema_type *type, const char *name)
{
    const char *meant = codec_say_meant(type, name);
    struct strbuf detail = {0};
    strbuf_puts(&detail, "is not a known field");
    if (meant != NULL)
        strbuf_printf(&detail, "; did you mean \"%s\"?", meant);
    size_t bytes = reader->pointer.bytes;
    pointer_push(reader, name);
    fault(reader, strbuf_text(&detail));
    pointer_pop(reader, bytes);
    strbuf_finish(&detail);
}

/* ---- scalar kinds: each answers whether the value is allowed, and stores it only then */

#define STORE(ctype, field, value, content)                                                        \
    do {                                                                                           \
        ctype stored_ = (content);                                                                 \
        memcpy((char *)(value) + (field)->offset, &stored_, sizeof(stored_));                      \
    } while (0)

/* The valid text of a string value, or NULL. */
static const char *string_of(json_t *json)
{
    return json_string_value(json); /* no NUL inside: the parser refuses it */
}

static bool text_allowed(const struct schema_field *field, const char *text)
{
    switch (field->kind) {
    case SCHEMA_NAME:
        return schema_name_valid(text);
    case SCHEMA_AGENT_ID:
        return schema_agent_id_valid(text);
    case SCHEMA_TOPIC:
        return schema_topic_valid(text);
    case SCHEMA_UUID:
        return schema_uuid_valid(text);
    default: {
        int64_t bytes = (int64_t)strlen(text);
        return bytes >= field->min && bytes <= field->max;
    }
    }
}

static bool read_text(const struct schema_field *field, json_t *json, void *value)
{
    const char *text = string_of(json);
    if (text == NULL || !text_allowed(field, text))
        return false;
    STORE(char *, field, value, mem_strdup(text));
    return true;
}

static size_t depth_of(json_t *json)
{
    size_t deepest = 0;
    for (size_t i = 0; i < json_array_size(json); i++) {
        size_t depth = depth_of(json_array_get(json, i));
        deepest = depth > deepest ? depth : deepest;
    }
    for (void *at = json_object_iter(json); at != NULL; at = json_object_iter_next(json, at)) {
        size_t depth = depth_of(json_object_iter_value(at));
        deepest = depth > deepest ? depth : deepest;
    }
    return json_is_object(json) || json_is_array(json) ? deepest + 1 : 0;
}

static bool read_config(const struct schema_field *field, json_t *json, void *value)
{
    if (!json_is_object(json) || depth_of(json) > SCHEMA_JSON_DEPTH_MAX)
        return false;
    struct strbuf text = {0};
    codec_write_json(json, &text);
    if (text.bytes > (size_t)field->max) {
        strbuf_finish(&text);
        return false;
    }
    STORE(char *, field, value, strbuf_take(&text));
    return true;
}

static bool integer_of(const struct reader *reader, json_t *json, int64_t *ret_number)
{
    if (json_is_integer(json)) {
        *ret_number = json_integer_value(json);
        return true;
    }
    const double exact_max = 9007199254740992.0; /* 2^53: above, doubles skip integers */
    double number = json_real_value(json);       /* 0 when it is no real */
    if (!reader->how.integers_as_reals || !json_is_real(json) || trunc(number) != number ||
        fabs(number) > exact_max)
        return false;
    *ret_number = (int64_t)number;
    return true;
}

static bool read_integer(const struct reader *reader, const struct schema_field *field,
                         json_t *json, void *value)
{
    int64_t number;
    if (!integer_of(reader, json, &number) || number < field->min || number > field->max)
        return false;
    if (field->kind == SCHEMA_UINT32)
        STORE(uint32_t, field, value, (uint32_t)number);
    else if (field->kind == SCHEMA_UINT64)
        STORE(uint64_t, field, value, (uint64_t)number);
    else
        STORE(int64_t, field, value, number);
    return true;
}

static bool read_double(const struct schema_field *field, json_t *json, void *value)
{
    if (!json_is_number(json))
        return false;
    double number = json_number_value(json);
    if (number < (double)field->min || number > (double)field->max)
        return false;
    STORE(double, field, value, number);
    return true;
}

static bool read_time(const struct schema_field *field, json_t *json, void *value)
{
    const char *text = string_of(json);
    int64_t at;
    if (text == NULL || !text_time_parse(text, &at))
        return false;
    STORE(int64_t, field, value, at);
    return true;
}

static bool read_duration(const struct schema_field *field, json_t *json, void *value)
{
    const char *text = string_of(json);
    int64_t ms;
    if (text == NULL || !opts_duration_parse(text, &ms) || ms < field->min || ms > field->max)
        return false;
    STORE(int64_t, field, value, ms);
    return true;
}

static bool read_enum(const struct schema_field *field, json_t *json, void *value)
{
    const char *text = string_of(json);
    int number;
    if (text == NULL || !schema_enum_parse(field->names, text, &number))
        return false;
    STORE(int, field, value, number);
    return true;
}

static bool read_version(const struct schema_field *field, json_t *json, void *value)
{
    const char *text = string_of(json);
    struct document_version version;
    if (text == NULL || !text_version_parse(text, &version))
        return false;
    STORE(struct document_version, field, value, version);
    return true;
}

static bool read_bool(const struct schema_field *field, json_t *json, void *value)
{
    if (!json_is_boolean(json))
        return false;
    STORE(bool, field, value, json_is_true(json));
    return true;
}

static bool read_scalar(const struct reader *reader, const struct schema_field *field, json_t *json,
                        void *value)
{
    switch (field->kind) {
    case SCHEMA_STRING:
    case SCHEMA_NAME:
    case SCHEMA_AGENT_ID:
    case SCHEMA_TOPIC:
    case SCHEMA_UUID:
        return read_text(field, json, value);
    case SCHEMA_JSON:
        return read_config(field, json, value);
    case SCHEMA_BOOL:
        return read_bool(field, json, value);
    case SCHEMA_UINT32:
    case SCHEMA_UINT64:
    case SCHEMA_INT64:
    case SCHEMA_KNOWABLE:
        return read_integer(reader, field, json, value);
    case SCHEMA_TIME:
        return read_time(field, json, value);
    case SCHEMA_DURATION:
        return read_duration(field, json, value);
    case SCHEMA_DOUBLE:
        return read_double(field, json, value);
    case SCHEMA_ENUM:
        return read_enum(field, json, value);
    case SCHEMA_VERSION:
        return read_version(field, json, value);
    case SCHEMA_OBJECT:
    case SCHEMA_LIST:
        break;
    }
    assert(false && "a scalar kind");
    return false;
}

/* ---- objects and lists */

static void read_object(struct reader *reader, const struct schema_type *type, json_t *json,
                        void *value);
static void read_value(struct reader *reader, const struct schema_field *field, json_t *json,
                       void *value);

static void read_list(struct reader *reader, const struct schema_field *field, json_t *json,
                      void *value)
{
    size_t count = json_array_size(json);
    if (!json_is_array(json) || count < (size_t)field->min || count > (size_t)field->max) {
        fault_value(reader, field, json);
        return;
    }
    if (count == 0)
        return;
    size_t bytes = schema_element_bytes(field);
    struct schema_list list = {.items = mem_calloc(count, bytes), .count = count};
    schema_list_set(field, value, list);

    struct schema_field element = {.name = field->name,
                                   .kind = field->element,
                                   .required = true,
                                   .max = field->element_max,
                                   .type = field->type};
    size_t pointer_bytes = reader->pointer.bytes;
    for (size_t i = 0; i < count && !codec_faults_full(reader->faults); i++) {
        strbuf_printf(&reader->pointer, "/%zu", i);
        read_value(reader, &element, json_array_get(json, i), (char *)list.items + i * bytes);
        pointer_pop(reader, pointer_bytes);
    }
}

static void read_value(struct reader *reader, const struct schema_field *field, json_t *json,
                       void *value)
{
    if (field->kind == SCHEMA_OBJECT)
        read_object(reader, field->type, json, (char *)value + field->offset);
    else if (field->kind == SCHEMA_LIST)
        read_list(reader, field, json, value);
    else if (json_is_null(json) && schema_nullable(field))
        schema_field_default(field, value);
    else if (!read_scalar(reader, field, json, value))
        fault_value(reader, field, json);
}

static void report_unknown(struct reader *reader, const struct schema_type *type, json_t *json)
{
    for (void *at = json_object_iter(json); at != NULL; at = json_object_iter_next(json, at)) {
        const char *name = json_object_iter_key(at);
        bool known = false;
        for (size_t i = 0; i < type->field_count && !known; i++)
            known = strcmp(type->fields[i].name, name) == 0;
        if (!known && !codec_faults_full(reader->faults))
            fault_unknown(reader, type, name);
    }
}

static void read_object(struct reader *reader, const struct schema_type *type, json_t *json,
                        void *value)
{
    if (!json_is_object(json)) {
        const struct schema_field object = {.kind = SCHEMA_OBJECT};
        fault_value(reader, &object, json);
        return;
    }
    size_t known = 0;
    size_t pointer_bytes = reader->pointer.bytes;
    for (size_t i = 0; i < type->field_count; i++) {
        const struct schema_field *field = &type->fields[i];
        json_t *member = json_object_get(json, field->name);
        if (member == NULL) {
            if (field->required)
                fault_missing(reader, field);
            else
                schema_field_default(field, value);
            continue;
        }
        known++;
        pointer_push(reader, field->name);
        read_value(reader, field, member, value);
        pointer_pop(reader, pointer_bytes);
    }
    if (json_object_size(json) != known && !reader->how.known_only)
        report_unknown(reader, type, json);
}

void codec_read(const struct schema_type *type, json_t *json, struct codec_read_how how,
                void *value, struct codec_faults *faults)
{
    struct reader reader = {.faults = faults, .how = how};
    read_object(&reader, type, json, value);
    strbuf_finish(&reader.pointer);
}
