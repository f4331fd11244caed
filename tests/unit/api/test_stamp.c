#include "api/stamp.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/rng.h"

#define UUID "0a1b2c3d-4e5f-4a6b-8c7d-9e8f7a6b5c4d"

Test(stamp, is_written_as_other_tools_read_it)
{
    struct stamp stamp = {UUID, 7, 42, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN};
    char text[STAMP_TEXT_BYTES];

    stamp_format(&stamp, text);
    cr_assert_str_eq(text, "b1 " UUID " 7 42");
    stamp.records = 0;
    stamp_format(&stamp, text);
    cr_assert_str_eq(text, "b1 " UUID " 7 42 0");
    stamp.records = 123456;
    stamp_format(&stamp, text);
    cr_assert_str_eq(text, "b1 " UUID " 7 42 123456");
    stamp.bound = 77;
    stamp_format(&stamp, text);
    cr_assert_str_eq(text, "b1 " UUID " 7 42 123456 77");
    stamp.bound_records = 70;
    stamp_format(&stamp, text);
    cr_assert_str_eq(text, "b1 " UUID " 7 42 123456 77 70");
    stamp.records = API_UNKNOWN;
    stamp_format(&stamp, text);
    cr_assert_str_eq(text, "b1 " UUID " 7 42 - 77 70");
}

Test(stamp, the_longest_fits)
{
    const struct stamp stamp = {UUID, UINT32_MAX, UINT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    struct stamp parsed;
    char text[STAMP_TEXT_BYTES];

    stamp_format(&stamp, text);
    cr_assert_lt(strlen(text), STAMP_TEXT_BYTES);
    cr_assert(stamp_parse(text, &parsed));
    cr_assert_eq(parsed.processor, UINT32_MAX);
    cr_assert_eq(parsed.epoch, UINT64_MAX);
    cr_assert_eq(parsed.records, INT64_MAX);
}

Test(stamp, what_is_written_is_read)
{
    struct rng rng;

    rng_init(&rng, 1);
    for (int i = 0; i < 2000; i++) {
        struct stamp stamp, parsed;
        char text[STAMP_TEXT_BYTES];

        rng_uuid(stamp.incarnation);
        stamp.processor = (uint32_t)(rng_next(&rng) >> rng_below(&rng, 32));
        stamp.epoch = rng_next(&rng) >> rng_below(&rng, 64);
        stamp.records =
            i % 3 == 0 ? API_UNKNOWN : (int64_t)(rng_next(&rng) >> (1 + rng_below(&rng, 63)));
        stamp.bound =
            i % 2 == 0 ? API_UNKNOWN : (int64_t)(rng_next(&rng) >> (1 + rng_below(&rng, 63)));
        stamp.bound_records = i % 4 != 1 ? API_UNKNOWN : stamp.bound / 2;
        stamp_format(&stamp, text);
        cr_assert(stamp_parse(text, &parsed), "%s", text);
        cr_assert_str_eq(parsed.incarnation, stamp.incarnation);
        cr_assert_eq(parsed.processor, stamp.processor);
        cr_assert_eq(parsed.epoch, stamp.epoch);
        cr_assert_eq(parsed.records, stamp.records);
        cr_assert_eq(parsed.bound, stamp.bound);
        cr_assert_eq(parsed.bound_records, stamp.bound_records);
    }
}

Test(stamp, anything_else_is_foreign)
{
    static const char *const texts[] = {
        NULL,
        "",
        "b1",
        "b1 ",
        "consumer-1",
        "b2 " UUID " 7 42",
        "B1 " UUID " 7 42",
        " b1 " UUID " 7 42",
        "b1  " UUID " 7 42",
        "b1 " UUID,
        "b1 " UUID " ",
        "b1 " UUID " 7",
        "b1 " UUID " 7 ",
        "b1 " UUID " 7 42 ",
        "b1 " UUID " 7 42\n",
        "b1 " UUID " 7 42 1 ",
        "b1 " UUID " 7 42 1 1 1 1",
        "b1 " UUID " 7 42 1 1 1 ",
        "b1 " UUID " 7 42 1 -",
        "b1 " UUID " 7 42 -",
        "b1 " UUID " 7 42 - ",
        "b1 " UUID " 7 42 - - 1",
        "b1 " UUID " 7 42 -1 1",
        "b1 " UUID " 7 42 01",
        "b1 " UUID " 7 42 -1",
        "b1 " UUID " 7 42 x",
        "b1 " UUID " 7 42 9223372036854775808",
        "b1 " UUID "  7 42",
        "b1 " UUID " 7  42",
        "b1 " UUID "\t7 42",
        "b1 " UUID " 07 42",
        "b1 " UUID " 7 042",
        "b1 " UUID " 00 42",
        "b1 " UUID " -7 42",
        "b1 " UUID " +7 42",
        "b1 " UUID " 7 -42",
        "b1 " UUID " 7.0 42",
        "b1 " UUID " 0x7 42",
        "b1 " UUID " x 42",
        "b1 " UUID " 7 x",
        "b1 " UUID " 4294967296 42",
        "b1 " UUID " 7 18446744073709551616",
        "b1 " UUID " 7 99999999999999999999999999999999999999999",
        "b1 0A1B2C3D-4E5F-4A6B-8C7D-9E8F7A6B5C4D 7 42",
        "b1 0a1b2c3d-4e5f-4a6b-8c7d-9e8f7a6b5c4 7 42",
        "b1 0a1b2c3d-4e5f-4a6b-8c7d-9e8f7a6b5c4d0 7 42",
        "b1 0a1b2c3d04e5f04a6b08c7d09e8f7a6b5c4d 7 42",
        "b1 ga1b2c3d-4e5f-4a6b-8c7d-9e8f7a6b5c4d 7 42",
        "b1 0a1b2c3d-4e5f-4a6b-8c7d-9e8f7a6b 5c4 7 42",
        "b1 ------------------------------------ 7 42",
        "b1                                      7 42",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct stamp stamp = {.epoch = 99};

        cr_assert(!stamp_parse(texts[i], &stamp), "'%s'", texts[i]);
        cr_assert_eq(stamp.epoch, 99, "'%s' is refused, but was written down", texts[i]);
    }
}

/* Metadata comes from Kafka with any contents: no prefix of a stamp, and no change of one byte in
 * it, may be read past its end or be taken for the same stamp. */
Test(stamp, is_not_fooled_by_cut_or_changed_texts)
{
    const char *whole = "b1 " UUID " 7 42";
    struct stamp stamp;

    for (size_t bytes = 0; bytes < strlen(whole) - 1; bytes++) {
        char text[STAMP_TEXT_BYTES];

        (void)snprintf(text, sizeof(text), "%.*s", (int)bytes, whole);
        cr_assert(!stamp_parse(text, &stamp), "'%s'", text);
    }
    for (size_t i = 0; i < strlen(whole); i++) {
        for (int byte = 1; byte < 256; byte++) {
            char text[STAMP_TEXT_BYTES];

            (void)snprintf(text, sizeof(text), "%s", whole);
            if ((unsigned char)text[i] == byte)
                continue;
            text[i] = (char)byte;
            if (stamp_parse(text, &stamp))
                cr_assert(stamp.records != API_UNKNOWN || stamp.processor != 7 ||
                              stamp.epoch != 42 || strcmp(stamp.incarnation, UUID) != 0,
                          "'%s'", text);
        }
    }
}
