#include "common/utf8.h"

static bool in_range(unsigned char byte, unsigned char first, unsigned char last)
{
    return byte >= first && byte <= last;
}

/* What RFC 3629's grammar allows as the second byte; the further ones are always 80..BF. */
static bool second_allowed(unsigned char lead, unsigned char second)
{
    switch (lead) {
    case 0xE0:
        return in_range(second, 0xA0, 0xBF); /* below are overlong forms */
    case 0xED:
        return in_range(second, 0x80, 0x9F); /* above are surrogates */
    case 0xF0:
        return in_range(second, 0x90, 0xBF); /* below are overlong forms */
    case 0xF4:
        return in_range(second, 0x80, 0x8F); /* above is past U+10FFFF */
    default:
        return in_range(second, 0x80, 0xBF);
    }
}

size_t utf8_char(const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t length;

    if (bytes == 0)
        return 0;
    if (at[0] < 0x80)
        return 1;
    if (in_range(at[0], 0xC2, 0xDF))
        length = 2;
    else if (in_range(at[0], 0xE0, 0xEF))
        length = 3;
    else if (in_range(at[0], 0xF0, 0xF4))
        length = 4;
    else
        return 0;
    if (bytes < length || !second_allowed(at[0], at[1]))
        return 0;
    for (size_t i = 2; i < length; i++) {
        if (!in_range(at[i], 0x80, 0xBF))
            return 0;
    }
    return length;
}

bool utf8_valid(const char *text, size_t bytes)
{
    while (bytes > 0) {
        size_t length = utf8_char(text, bytes);
        if (length == 0)
            return false;
        text += length;
        bytes -= length;
    }
    return true;
}

size_t utf8_cut(const char *text, size_t bytes_max)
{
    size_t cut = bytes_max;

    /* A character has at most three continuation bytes; more are not UTF-8, cut anywhere then. */
    for (int i = 0; i < 3 && cut > 0 && in_range((unsigned char)text[cut], 0x80, 0xBF); i++)
        cut--;
    return in_range((unsigned char)text[cut], 0x80, 0xBF) ? bytes_max : cut;
}
