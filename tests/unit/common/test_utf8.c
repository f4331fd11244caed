#include "common/utf8.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct {
    const char *text;
    size_t bytes, length;
} cases[] = {
    {"", 0, 0},
    {"\0", 1, 1},
    {"a", 1, 1},
    {"\x7f", 1, 1},
    {"\x80", 1, 0},
    {"\xc1\xbf", 2, 0}, /* overlong */
    {"\xc2\x80", 2, 2},
    {"\xc3", 1, 0}, /* cut off */
    {"\xdf\xbf", 2, 2},
    {"\xe0\x9f\xbf", 3, 0}, /* overlong */
    {"\xe0\xa0\x80", 3, 3},
    {"\xe2\x82\xac", 2, 0}, /* the euro sign, cut off */
    {"\xe2\x82\xac", 3, 3},
    {"\xe2\x82\x28", 3, 0},
    {"\xed\x9f\xbf", 3, 3},
    {"\xed\xa0\x80", 3, 0},     /* a surrogate */
    {"\xf0\x8f\xbf\xbf", 4, 0}, /* overlong */
    {"\xf0\x9f\x98\x80", 4, 4},
    {"\xf0\x9f\x98\x80", 3, 0},
    {"\xf0\x9f\x98\x28", 4, 0},
    {"\xf4\x8f\xbf\xbf", 4, 4},
    {"\xf4\x90\x80\x80", 4, 0}, /* past U+10FFFF */
    {"\xf5\x80\x80\x80", 4, 0},
    {"\xff", 1, 0},
};

Test(utf8, length_of_the_first_character)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t length = utf8_char(cases[i].text, cases[i].bytes);
        cr_assert_eq(length, cases[i].length, "case %zu: %zu", i, length);
    }
}

/* Every code point, encoded by the definition, is one valid character; every surrogate is not. */
Test(utf8, accepts_every_code_point_but_surrogates)
{
    for (unsigned point = 0x80; point <= 0x10FFFF; point++) {
        char text[4];
        size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        unsigned lead = length == 2 ? 0xC0 : length == 3 ? 0xE0 : 0xF0;
        for (size_t i = length - 1, rest = point; i > 0; i--, rest >>= 6)
            text[i] = (char)(0x80 | (rest & 0x3F));
        text[0] = (char)(lead | point >> (6 * (length - 1)));
        bool surrogate = point >= 0xD800 && point <= 0xDFFF;
        if (utf8_char(text, length) != (surrogate ? 0 : length))
            cr_assert_fail("U+%04X", point);
    }
}

Test(utf8, valid_texts)
{
    cr_assert(utf8_valid("", 0));
    cr_assert(utf8_valid("na\xc3\xafve \xe2\x82\xac", 10));
    cr_assert_not(utf8_valid("na\xc3\xafve \xe2\x82\xac", 9));
    cr_assert_not(utf8_valid("a\x80z", 3));
}

Test(utf8, cuts_between_characters)
{
    const char *text = "a\xc3\xa4\xf0\x9f\x98\x80z"; /* 1, 2, 4 and 1 bytes */
    static const size_t expected[] = {0, 1, 1, 3, 3, 3, 3, 7};

    for (size_t max = 0; max < sizeof(expected) / sizeof(expected[0]); max++)
        cr_assert_eq(utf8_cut(text, max), expected[max], "at most %zu", max);
    /* What is not UTF-8 is cut anywhere rather than searched through. */
    cr_assert_eq(utf8_cut("\x80\x80\x80\x80\x80\x80\x80\x80", 6), 6);
}
