#include "common/opts_value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/utf8.h"

/* How much of a wrong value an error text repeats. */
#define QUOTED_BYTES_MAX 60

struct unit {
    const char *name;
    int64_t factor;
};

/* Largest first, so that the first one that divides a value prints it best. The last one has
 * factor 1. */
static const struct unit duration_units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};
static const struct unit bytes_units[] = {
    {"GiB", 1 << 30},
    {"MiB", 1 << 20},
    {"KiB", 1 << 10},
    {"", 1},
};
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Reads decimal digits and moves *text past them. False without a digit, with a leading zero (some
 * readers take 010 for eight), or when the value does not fit.
 */
static bool digits_parse(const char **text, uint64_t *ret_value)
{
    const char *at = *text;
    uint64_t value = 0;

    if (at[0] == '0' && at[1] >= '0' && at[1] <= '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    }
    if (at == *text)
        return false;
    *text = at;
    *ret_value = value;
    return true;
}

static bool integer_parse(const char *text, int64_t *ret_value)
{
    uint64_t magnitude;
    int64_t value;
    bool negative = *text == '-';

    if (negative)
        text++;
    if (!digits_parse(&text, &magnitude) || *text != '\0')
        return false;
    if (negative ? __builtin_sub_overflow(0, magnitude, &value)
                 : __builtin_add_overflow(0, magnitude, &value))
        return false;
    *ret_value = value;
    return true;
}

static bool quantity_parse(const char *text, const struct unit *units, size_t count,
                           int64_t *ret_value)
{
    uint64_t number;

    if (!digits_parse(&text, &number))
        return false;
    for (size_t i = 0; i < count; i++) {
        int64_t value;
        if (strcmp(text, units[i].name) != 0)
            continue;
        if (__builtin_mul_overflow(number, units[i].factor, &value))
            return false;
        *ret_value = value;
        return true;
    }
    return false;
}

bool opts_duration_parse(const char *text, int64_t *ret_ms)
{
    return quantity_parse(text, duration_units, COUNT_OF(duration_units), ret_ms);
}

static void quantity_print(int64_t value, const struct unit *units, size_t count,
                           struct strbuf *buf)
{
    size_t i = 0;
    while (i + 1 < count && (value == 0 || value % units[i].factor != 0))
        i++;
    strbuf_printf(buf, "%" PRId64 "%s", value / units[i].factor, units[i].name);
}

static bool bool_parse(const char *text, bool *ret_value)
{
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return false;
    *ret_value = text[0] == 't';
    return true;
}

static bool choice_parse(const char *text, const char *const *choices, int *ret_index)
{
    for (int i = 0; choices[i] != NULL; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

static enum err_code refuse(const struct opts_entry *entry, const char *text, struct err *reterr)
{
    struct strbuf message = {0};
    size_t bytes = strlen(text);

    strbuf_puts(&message, "must be ");
    opts_value_describe(entry, &message);
    if (!entry->secret && bytes <= QUOTED_BYTES_MAX)
        strbuf_printf(&message, ", not \"%s\"", text);
    else if (!entry->secret)
        strbuf_printf(&message, ", not \"%.*s...\" (%zu bytes)",
                      (int)utf8_cut(text, QUOTED_BYTES_MAX), text, bytes);
    enum err_code code = err_set(reterr, ERR_INVALID, "%s", strbuf_text(&message));
    strbuf_finish(&message);
    return code;
}

static bool in_range(const struct opts_entry *entry, int64_t value)
{
    return value >= entry->min && value <= entry->max;
}

static void *field_of(const struct opts_entry *entry, void *options)
{
    return (char *)options + entry->offset;
}

static bool string_set(const struct opts_entry *entry, const char *text, void *options)
{
    if (!in_range(entry, (int64_t)strlen(text)))
        return false;
    char *copy = mem_strdup(text); /* first: `text` may be the field's own */
    opts_value_clear(entry, options);
    memcpy(field_of(entry, options), &copy, sizeof(copy));
    return true;
}

static bool bool_set(const struct opts_entry *entry, const char *text, void *options)
{
    bool value;
    if (!bool_parse(text, &value))
        return false;
    memcpy(field_of(entry, options), &value, sizeof(value));
    return true;
}

static bool choice_set(const struct opts_entry *entry, const char *text, void *options)
{
    int index;
    if (!choice_parse(text, entry->choices, &index))
        return false;
    memcpy(field_of(entry, options), &index, sizeof(index));
    return true;
}

static bool integer_set(const struct opts_entry *entry, const char *text, void *options)
{
    int64_t value = 0;
    bool parsed = false;

    if (entry->type == OPTS_INT)
        parsed = integer_parse(text, &value);
    else if (entry->type == OPTS_DURATION)
        parsed = opts_duration_parse(text, &value);
    else
        parsed = quantity_parse(text, bytes_units, COUNT_OF(bytes_units), &value);
    if (!parsed || !in_range(entry, value))
        return false;
    memcpy(field_of(entry, options), &value, sizeof(value));
    return true;
}

enum err_code opts_value_set(const struct opts_entry *entry, const char *text, void *options,
                             struct err *reterr)
{
    bool done = false;

    switch (entry->type) {
    case OPTS_STRING:
        done = string_set(entry, text, options);
        break;
    case OPTS_INT:
    case OPTS_DURATION:
    case OPTS_BYTES:
        done = integer_set(entry, text, options);
        break;
    case OPTS_BOOL:
        done = bool_set(entry, text, options);
        break;
    case OPTS_CHOICE:
        done = choice_set(entry, text, options);
        break;
    }
    return done ? ERR_NONE : refuse(entry, text, reterr);
}

void opts_value_clear(const struct opts_entry *entry, void *options)
{
    char *text;
    if (entry->type != OPTS_STRING)
        return;
    memcpy(&text, field_of(entry, options), sizeof(text));
    free(text);
    text = NULL;
    memcpy(field_of(entry, options), &text, sizeof(text));
}

static void choices_print(const char *const *choices, struct strbuf *buf)
{
    for (size_t i = 0; choices[i] != NULL; i++) {
        if (i > 0)
            strbuf_puts(buf, choices[i + 1] == NULL ? " or " : ", ");
        strbuf_puts(buf, choices[i]);
    }
}

void opts_value_describe(const struct opts_entry *entry, struct strbuf *buf)
{
    switch (entry->type) {
    case OPTS_STRING:
        strbuf_printf(buf, "text of %" PRId64 " to %" PRId64 " bytes", entry->min, entry->max);
        break;
    case OPTS_INT:
        strbuf_printf(buf, "a whole number from %" PRId64 " to %" PRId64, entry->min, entry->max);
        break;
    case OPTS_DURATION:
        strbuf_puts(buf, "a whole number with ms, s, m, h or d, from ");
        quantity_print(entry->min, duration_units, COUNT_OF(duration_units), buf);
        strbuf_puts(buf, " to ");
        quantity_print(entry->max, duration_units, COUNT_OF(duration_units), buf);
        break;
    case OPTS_BYTES:
        strbuf_puts(buf, "a whole number of bytes or with KiB, MiB or GiB, from ");
        quantity_print(entry->min, bytes_units, COUNT_OF(bytes_units), buf);
        strbuf_puts(buf, " to ");
        quantity_print(entry->max, bytes_units, COUNT_OF(bytes_units), buf);
        break;
    case OPTS_BOOL:
        strbuf_puts(buf, "true or false");
        break;
    case OPTS_CHOICE:
        choices_print(entry->choices, buf);
        break;
    }
}

const char *opts_value_type(enum opts_type type)
{
    switch (type) {
    case OPTS_STRING:
        return "text";
    case OPTS_INT:
        return "number";
    case OPTS_DURATION:
        return "duration";
    case OPTS_BYTES:
        return "size";
    case OPTS_BOOL:
        return "bool";
    case OPTS_CHOICE:
        return "choice";
    }
    return "unknown";
}
