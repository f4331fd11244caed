#include "api/text.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/utf8.h"

#define CUT_MARK "..."

/* ---- texts for people */

char *text_vprintf(const char *format, va_list args)
{
    char text[API_TEXT_BYTES_MAX + 1];
    int bytes = vsnprintf(text, sizeof(text), format, args);
    assert(bytes >= 0);
    if (bytes > API_TEXT_BYTES_MAX) {
        size_t kept = utf8_cut(text, API_TEXT_BYTES_MAX - strlen(CUT_MARK));
        memcpy(text + kept, CUT_MARK, sizeof(CUT_MARK));
    }
    return mem_strdup(text);
}

char *text_printf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = text_vprintf(format, args);
    va_end(args);
    return text;
}

/* ---- numbers */

static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

/* Reads the digits at *text; stops after the last one. */
static bool digits_parse(const char **text, uint64_t max, uint64_t *ret_number)
{
    const char *at = *text;
    if (!is_digit(at[0]) || (at[0] == '0' && is_digit(at[1])))
        return false;
    uint64_t number = 0;
    for (; is_digit(*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (digit > max || number > (max - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *text = at;
    *ret_number = number;
    return true;
}

bool text_uint_parse(const char *text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number;
    if (!digits_parse(&text, max, &number) || *text != '\0')
        return false;
    *ret_number = number;
    return true;
}

void text_double(double number, char ret_text[TEXT_BYTES])
{
    if (isnan(number))
        number = 0;
    if (isinf(number))
        number = number > 0 ? DBL_MAX : -DBL_MAX;

    for (int digits = DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
        int length = snprintf(ret_text, TEXT_BYTES - 2, "%.*g", digits, number);
        assert(length > 0 && length < TEXT_BYTES - 2);
        if (strtod(ret_text, NULL) == number)
            break;
    }
    char *comma = strchr(ret_text, ','); /* of a locale */
    if (comma != NULL)
        *comma = '.';
    if (strpbrk(ret_text, ".e") == NULL)
        memcpy(ret_text + strlen(ret_text), ".0", 3);
}

/* ---- versions */

bool text_version_parse(const char *text, struct document_version *ret_version)
{
    struct document_version version;
    if (!digits_parse(&text, INT64_MAX, &version.start) || *text++ != '.' ||
        !digits_parse(&text, INT64_MAX, &version.decision) || *text != '\0')
        return false;
    *ret_version = version;
    return true;
}

void text_version(struct document_version version, char ret_text[TEXT_BYTES])
{
    int length =
        snprintf(ret_text, TEXT_BYTES, "%" PRIu64 ".%" PRIu64, version.start, version.decision);
    assert(length > 0 && length < TEXT_BYTES);
}

/* ---- durations */

void text_duration(int64_t ms, char ret_text[TEXT_BYTES])
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};

    assert(ms >= 0);
    if (ms == 0) {
        (void)snprintf(ret_text, TEXT_BYTES, "0s"); /* fits */
        return;
    }
    size_t i = 0;
    while (ms % units[i].ms != 0)
        i++;
    int length = snprintf(ret_text, TEXT_BYTES, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
    assert(length > 0 && length < TEXT_BYTES);
}

/* ---- times */

/* Exactly `count` digits at *text. */
static bool fixed_parse(const char **text, int count, int lowest, int highest, int *ret_number)
{
    int number = 0;
    for (int i = 0; i < count; i++) {
        if (!is_digit((*text)[i]))
            return false;
        number = number * 10 + ((*text)[i] - '0');
    }
    if (number < lowest || number > highest)
        return false;
    *text += count;
    *ret_number = number;
    return true;
}

static bool mark_parse(const char **text, char mark)
{
    if (**text != mark)
        return false;
    (*text)++;
    return true;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t days_before_year(int year) /* since 1970; year >= 1970 */
{
    int64_t past = year - 1;
    int64_t leaps = past / 4 - past / 100 + past / 400;
    const int64_t leaps_before_1970 = 1969 / 4 - 1969 / 100 + 1969 / 400;
    return (int64_t)(year - 1970) * 365 + leaps - leaps_before_1970;
}

static bool date_parse(const char **text, int64_t *ret_days)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (!fixed_parse(text, 4, 1970, 9999, &year) || !mark_parse(text, '-') ||
        !fixed_parse(text, 2, 1, 12, &month) || !mark_parse(text, '-'))
        return false;
    int last = month_days[month - 1] + (month == 2 && is_leap(year));
    if (!fixed_parse(text, 2, 1, last, &day))
        return false;
    int64_t days = days_before_year(year) + day - 1;
    for (int i = 1; i < month; i++)
        days += month_days[i - 1] + (i == 2 && is_leap(year));
    *ret_days = days;
    return true;
}

/* An absent fraction is 0. */
static bool fraction_parse(const char **text, int64_t *ret_ms)
{
    int64_t ms = 0;
    if (mark_parse(text, '.')) {
        if (!is_digit(**text))
            return false;
        int64_t scale = 100;
        for (; is_digit(**text); (*text)++) {
            ms += (**text - '0') * scale;
            scale /= 10;
        }
    }
    *ret_ms = ms;
    return true;
}

bool text_time_parse(const char *text, int64_t *ret_at)
{
    int64_t days, ms;
    int hour, minute, second;
    if (!date_parse(&text, &days) || !mark_parse(&text, 'T') ||
        !fixed_parse(&text, 2, 0, 23, &hour) || !mark_parse(&text, ':') ||
        !fixed_parse(&text, 2, 0, 59, &minute) || !mark_parse(&text, ':') ||
        !fixed_parse(&text, 2, 0, 59, &second) || !fraction_parse(&text, &ms) ||
        !mark_parse(&text, 'Z') || *text != '\0')
        return false;
    *ret_at = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + ms;
    return true;
}
