#include "api/codec_say.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "api/codec_write.h"
#include "api/text.h"
#include "common/utf8.h"

/* ---- what is allowed */

static void say_text(const struct schema_field *field, struct strbuf *out)
{
    if (field->min > 0)
        strbuf_printf(out, "a text of %" PRId64 " to %" PRId64 " bytes", field->min, field->max);
    else
        strbuf_printf(out, "a text of at most %" PRId64 " bytes", field->max);
}

static void say_duration(const struct schema_field *field, struct strbuf *out)
{
    char lowest[TEXT_BYTES], highest[TEXT_BYTES];
    text_duration(field->min, lowest);
    text_duration(field->max, highest);
    strbuf_printf(out, "a duration from \"%s\" to \"%s\" with the unit ms, s, m, h or d", lowest,
                  highest);
}

static void say_names(const char *const *names, struct strbuf *out)
{
    strbuf_puts(out, "one of ");
    for (size_t i = 0; names[i] != NULL; i++)
        strbuf_printf(out, "%s\"%s\"", i > 0 ? ", " : "", names[i]);
}

static const char *element_words(enum schema_kind element)
{
    switch (element) {
    case SCHEMA_OBJECT:
        return "objects";
    case SCHEMA_TOPIC:
        return "topic names";
    case SCHEMA_UINT32:
        return "whole numbers";
    default:
        return "texts";
    }
}

static void say_list(const struct schema_field *field, struct strbuf *out)
{
    const char *words = element_words(field->element);
    if (field->min > 0)
        strbuf_printf(out, "a list of %" PRId64 " to %" PRId64 " %s", field->min, field->max,
                      words);
    else
        strbuf_printf(out, "a list of at most %" PRId64 " %s", field->max, words);
}

void codec_say_allowed(const struct schema_field *field, struct strbuf *out)
{
    switch (field->kind) {
    case SCHEMA_STRING:
        say_text(field, out);
        break;
    case SCHEMA_NAME:
        strbuf_puts(out,
                    "a name of 1 to 63 characters a-z, 0-9, \".\", \"_\" and \"-\" that starts "
                    "with a letter or digit");
        break;
    case SCHEMA_AGENT_ID:
        strbuf_puts(out, "a name of 1 to 63 characters a-z, A-Z, 0-9, \".\", \"_\" and \"-\" that "
                         "starts with a letter or digit");
        break;
    case SCHEMA_TOPIC:
        strbuf_puts(out, "a topic name of 1 to 249 characters a-z, A-Z, 0-9, \".\", \"_\" and "
                         "\"-\", not \".\" or \"..\"");
        break;
    case SCHEMA_UUID:
        strbuf_puts(out, "a UUID in lower case");
        break;
    case SCHEMA_JSON:
        strbuf_printf(out, "an object of at most %" PRId64 " bytes as compact JSON and %d levels",
                      field->max, SCHEMA_JSON_DEPTH_MAX);
        break;
    case SCHEMA_BOOL:
        strbuf_puts(out, "true or false");
        break;
    case SCHEMA_UINT32:
    case SCHEMA_UINT64:
    case SCHEMA_INT64:
    case SCHEMA_KNOWABLE:
        strbuf_printf(out, "a whole number from %" PRId64 " to %" PRId64, field->min, field->max);
        break;
    case SCHEMA_TIME:
        strbuf_puts(out, "a time in UTC like \"2026-11-29T18:12:03.123Z\"");
        break;
    case SCHEMA_DURATION:
        say_duration(field, out);
        break;
    case SCHEMA_DOUBLE:
        strbuf_printf(out, "a number from %" PRId64 " to %" PRId64, field->min, field->max);
        break;
    case SCHEMA_ENUM:
        say_names(field->names, out);
        break;
    case SCHEMA_VERSION:
        strbuf_puts(out, "a version like \"3.17\"");
        break;
    case SCHEMA_OBJECT:
        strbuf_puts(out, "an object");
        break;
    case SCHEMA_LIST:
        say_list(field, out);
        break;
    }
    if (schema_nullable(field))
        strbuf_puts(out, ", or null");
}

/* ---- what was given */

#define QUOTE_BYTES_MAX 40

static void say_string(json_t *json, struct strbuf *out)
{
    char text[QUOTE_BYTES_MAX + 1];
    size_t bytes = json_string_length(json);
    if (bytes > QUOTE_BYTES_MAX) {
        strbuf_printf(out, "a text of %zu bytes", bytes);
        return;
    }
    memcpy(text, json_string_value(json), bytes);
    text[bytes] = '\0';
    codec_write_string(text, out);
}

void codec_say_given(json_t *json, struct strbuf *out)
{
    if (json_is_object(json))
        strbuf_puts(out, "an object");
    else if (json_is_array(json))
        strbuf_printf(out, "a list of %zu", json_array_size(json));
    else if (json_is_string(json))
        say_string(json, out);
    else
        codec_write_json(json, out);
}

/* ---- what was meant */

#define NAME_BYTES_MAX 40

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Edits (one letter more, less or other, two neighbours swapped) that lead from a to b; case counts
 * nothing. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][NAME_BYTES_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    size_t columns = strlen(b);
    for (size_t j = 0; j <= columns; j++)
        above[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            row[j] = smallest(above[j] + 1, row[j - 1] + 1, above[j - 1] + !same);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smallest(row[j], row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[columns];
}

const char *codec_say_meant(const struct schema_type *type, const char *name)
{
    size_t bytes = strlen(name);
    if (bytes > NAME_BYTES_MAX)
        return NULL;
    const char *best = NULL;
    size_t best_distance = bytes < 4 ? 1 : bytes < 9 ? 2 : 3; /* further away is another word */
    for (size_t i = 0; i < type->field_count; i++) {
        const char *candidate = type->fields[i].name;
        assert(strlen(candidate) <= NAME_BYTES_MAX);
        size_t candidate_distance = distance(name, candidate);
        if (candidate_distance <= best_distance &&
            (best == NULL || candidate_distance < best_distance)) {
            best = candidate;
            best_distance = candidate_distance;
        }
    }
    return best;
}
