#include "api/stamp.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void stamp_format(const struct stamp *stamp, char ret_text[STAMP_TEXT_BYTES])
{
    int length = snprintf(ret_text, STAMP_TEXT_BYTES, "b1 %s %u %llu", stamp->incarnation,
                          stamp->processor, (unsigned long long)stamp->epoch);

    assert(length > 0 && length < STAMP_TEXT_BYTES);
    if (stamp->records == API_UNKNOWN)
        return;
    length += snprintf(ret_text + length, STAMP_TEXT_BYTES - (size_t)length, " %lld",
                       (long long)stamp->records);
    assert(length < STAMP_TEXT_BYTES);
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

bool stamp_parse(const char *text, struct stamp *ret_stamp)
{
    struct stamp stamp = {.records = API_UNKNOWN};
    uint64_t processor, epoch, records;
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
    if (p == NULL)
        return false;
    if (*p == ' ') {
        p = parse_number(p + 1, INT64_MAX, &records);
        if (p == NULL || *p != '\0')
            return false;
        stamp.records = (int64_t)records;
    }
    stamp.processor = (uint32_t)processor;
    stamp.epoch = epoch;
    *ret_stamp = stamp;
    return true;
}
