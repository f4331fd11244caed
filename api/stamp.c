#include "api/stamp.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static int append(char *text, int length, int64_t number)
{
    if (number == API_UNKNOWN)
        return length;
    length +=
        snprintf(text + length, STAMP_TEXT_BYTES - (size_t)length, " %lld", (long long)number);
    assert(length < STAMP_TEXT_BYTES);
    return length;
}

void stamp_format(const struct stamp *stamp, char ret_text[STAMP_TEXT_BYTES])
{
    int length = snprintf(ret_text, STAMP_TEXT_BYTES, "b1 %s %u %llu", stamp->incarnation,
                          stamp->processor, (unsigned long long)stamp->epoch);

    assert(length > 0 && length < STAMP_TEXT_BYTES - 2);
    if (stamp->records == API_UNKNOWN && stamp->bound != API_UNKNOWN) {
        memcpy(ret_text + length, " -", sizeof(" -"));
        length += 2;
    }
    length = append(ret_text, length, stamp->records);
    length = append(ret_text, length, stamp->bound);
    if (stamp->bound != API_UNKNOWN)
        (void)append(ret_text, length, stamp->bound_records);
}

/* Decimal digits without sign or leading zeros, ended by a space or by the text's end; NULL when it
 * is not that. */
static const char *parse_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *p = text;

    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (number > (max - digit) / 10)
            return NULL;
        number = number * 10 + digit;
    }
    if (p == text || (*p != ' ' && *p != '\0') || (*text == '0' && p != text + 1))
        return NULL;
    *ret_number = number;
    return p;
}

/* A UUID in lower case and nothing else: any other text of that length was written by someone else.
 */
static bool is_uuid(const char *text)
{
    for (int i = 0; i < API_UUID_BYTES; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');

        if (dash ? text[i] != '-' : !digit)
            return false;
    }
    return true;
}

/* " <records>|-[ <bound>[ <records at it>]]", or nothing. */
static bool parse_counts(const char *p, struct stamp *stamp)
{
    int64_t *const fields[] = {&stamp->records, &stamp->bound, &stamp->bound_records};
    bool left_out = strncmp(p, " - ", 3) == 0; /* only where something follows */
    size_t i = left_out ? 1 : 0;

    if (left_out)
        p += 2;
    for (; *p == ' ' && i < sizeof(fields) / sizeof(fields[0]); i++) {
        uint64_t number;

        p = parse_number(p + 1, INT64_MAX, &number);
        if (p == NULL)
            return false;
        *fields[i] = (int64_t)number;
    }
    return *p == '\0';
}

bool stamp_parse(const char *text, struct stamp *ret_stamp)
{
    struct stamp stamp = {
        .records = API_UNKNOWN, .bound = API_UNKNOWN, .bound_records = API_UNKNOWN};
    uint64_t processor, epoch;
    const char *p;

    if (text == NULL || strncmp(text, "b1 ", 3) != 0)
        return false;
    text += 3;
    if (!is_uuid(text) || text[API_UUID_BYTES] != ' ')
        return false;
    memcpy(stamp.incarnation, text, API_UUID_BYTES);
    p = parse_number(text + API_UUID_BYTES + 1, UINT32_MAX, &processor);
    if (p == NULL || *p != ' ')
        return false;
    p = parse_number(p + 1, UINT64_MAX, &epoch);
    if (p == NULL || !parse_counts(p, &stamp))
        return false;
    stamp.processor = (uint32_t)processor;
    stamp.epoch = epoch;
    *ret_stamp = stamp;
    return true;
}
