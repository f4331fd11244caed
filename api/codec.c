#include "api/codec.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec_read.h"
#include "api/codec_write.h"
#include "common/mem.h"
#include "common/strbuf.h"

/* ---- text -> JSON */

/* What the parser would recurse and allocate by, looked at before it does. */
struct shape {
    size_t depth;
    size_t values; /* at least as many as there are */
};

/* Whether all else is JSON is for the parser to say. True: goes on. */
static bool shape_add(struct shape *shape, char character)
{
    if (character == '{' || character == '[') {
        shape->depth++;
        shape->values++;
    } else if (character == '}' || character == ']') {
        shape->depth -= shape->depth > 0;
    } else if (character == ',') {
        shape->values++;
    }
    return shape->depth <= API_JSON_DEPTH_MAX && shape->values <= API_JSON_VALUES_MAX;
}

static enum err_code check_shape(const char *text, size_t bytes, struct err *reterr)
{
    struct shape shape = {0};
    size_t line = 1, line_start = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        char character = text[i];
        if (character == '\n') {
            line++;
            line_start = i + 1;
        }
        if (in_string) {
            if (character == '\\')
                i++;
            else if (character == '"')
                in_string = false;
        } else if (character == '"') {
            in_string = true;
        } else if (!shape_add(&shape, character)) {
            bool deep = shape.depth > API_JSON_DEPTH_MAX;
            return err_set(reterr, ERR_PROTOCOL, "line %zu, column %zu: %s %d %s", line,
                           i - line_start + 1, deep ? "nested deeper than" : "more than",
                           deep ? API_JSON_DEPTH_MAX : API_JSON_VALUES_MAX,
                           deep ? "levels" : "values");
        }
    }
    return ERR_NONE;
}

static const char *explain(enum json_error_code code)
{
    switch (code) {
    case json_error_invalid_utf8:
        return "not UTF-8";
    case json_error_premature_end_of_input:
        return "the text ends too early";
    case json_error_end_of_input_expected:
        return "the text goes on after the end of the value";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "the character U+0000 is not allowed";
    case json_error_duplicate_key:
        return "a key occurs twice in one object";
    case json_error_numeric_overflow:
        return "a number is too large";
    case json_error_out_of_memory:
        return "out of memory";
    default:
        return "not JSON";
    }
}

static enum err_code report_parse(const json_error_t *error, struct err *reterr)
{
    return err_set(reterr, ERR_PROTOCOL, "line %d, column %d: %s (%s)", error->line, error->column,
                   explain(json_error_code(error)), error->text);
}

/* ---- JSON -> value */

static enum err_code report_faults(const struct codec_faults *faults, struct err *reterr)
{
    const struct field_error *first = &faults->items[0];
    const char *where = first->pointer[0] != '\0' ? first->pointer : "the body";
    if (faults->count == 1)
        return err_set(reterr, ERR_INVALID, "%s %s", where, first->detail);
    return err_set(reterr, ERR_INVALID, "%s %s (and %zu more)", where, first->detail,
                   faults->count - 1);
}

static enum err_code read_json(const struct schema_type *type, json_t *json,
                               struct codec_read_how how, void *ret_value,
                               struct codec_faults *reterr_faults, struct err *reterr)
{
    struct codec_faults faults = {0};
    void *value = mem_calloc(1, type->bytes);
    codec_read(type, json, how, value, &faults);
    if (faults.count == 0) {
        memcpy(ret_value, value, type->bytes);
        free(value);
        return ERR_NONE;
    }

    schema_free(type, value);
    free(value);
    enum err_code code = report_faults(&faults, reterr);
    if (reterr_faults != NULL)
        *reterr_faults = faults;
    else
        codec_faults_finish(&faults);
    return code;
}

/*
 * The parser stops at an integer over 64 bits without telling whose value it is. Reading once more
 * with integers as floating point numbers finds the field, when it is one of ours that takes no
 * such number.
 */
static enum err_code locate_overflow(const struct schema_type *type, const char *text, size_t bytes,
                                     struct codec_read_how how, const json_error_t *error,
                                     struct codec_faults *reterr_faults, struct err *reterr)
{
    json_error_t ignored;
    json_t *json = json_loadb(
        text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &ignored);
    if (json == NULL)
        return report_parse(error, reterr);
    void *value = mem_calloc(1, type->bytes);
    how.integers_as_reals = true;
    enum err_code code = read_json(type, json, how, value, reterr_faults, reterr);
    json_decref(json);
    if (code == ERR_NONE) {
        schema_free(type, value);
        code = report_parse(error, reterr);
    }
    free(value);
    return code;
}

static enum err_code decode(const struct schema_type *type, const char *text, size_t bytes,
                            struct codec_read_how how, void *ret_value,
                            struct codec_faults *reterr_faults, struct err *reterr)
{
    if (bytes == 0)
        return err_set(reterr, ERR_PROTOCOL, "the body is empty");
    enum err_code code = check_shape(text, bytes, reterr);
    if (code != ERR_NONE)
        return code;

    json_error_t error;
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (json == NULL && json_error_code(&error) == json_error_numeric_overflow)
        return locate_overflow(type, text, bytes, how, &error, reterr_faults, reterr);
    if (json == NULL)
        return report_parse(&error, reterr);
    code = read_json(type, json, how, ret_value, reterr_faults, reterr);
    json_decref(json);
    return code;
}

enum err_code codec_decode(const struct schema_type *type, const char *text, size_t bytes,
                           void *ret_value, struct codec_faults *reterr_faults, struct err *reterr)
{
    const struct codec_read_how strict = {0};
    return decode(type, text, bytes, strict, ret_value, reterr_faults, reterr);
}

enum err_code codec_decode_known(const struct schema_type *type, const char *text, size_t bytes,
                                 void *ret_value, struct codec_faults *reterr_faults,
                                 struct err *reterr)
{
    const struct codec_read_how known = {.known_only = true};
    return decode(type, text, bytes, known, ret_value, reterr_faults, reterr);
}

/* ---- value -> text */

char *codec_encode(const struct schema_type *type, const void *value, size_t *ret_bytes)
{
    struct strbuf text = {0};
    codec_write_object(type, value, &text);
    if (ret_bytes != NULL)
        *ret_bytes = text.bytes;
    return strbuf_take(&text);
}
