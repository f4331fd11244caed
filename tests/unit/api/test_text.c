#include "api/text.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/opts.h"
#include "common/rng.h"

#define WALL_MS_MAX INT64_C(253402300799999)

Test(text, times)
{
    static const struct {
        const char *text;
        int64_t at;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.001Z", 1},
        {"2026-11-29T18:12:03.123Z", INT64_C(1795975923123)},
        {"2026-11-29T18:12:03.1Z", INT64_C(1795975923100)},
        {"2026-11-29T18:12:03.123999999Z", INT64_C(1795975923123)},
        {"2000-02-29T23:59:59.999Z", INT64_C(951868799999)},
        {"9999-12-31T23:59:59.999Z", WALL_MS_MAX},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t at = -7;
        cr_assert(text_time_parse(cases[i].text, &at), "%s", cases[i].text);
        cr_assert_eq(at, cases[i].at, "%s: %lld", cases[i].text, (long long)at);
    }
}

Test(text, times_that_are_none)
{
    static const char *const texts[] = {"",
                                        "2026-11-29",
                                        "2026-11-29T18:12:03",
                                        "2026-11-29T18:12:03+00:00",
                                        "2026-11-29 18:12:03Z",
                                        "2026-11-29t18:12:03z",
                                        "2026-11-29T18:12:03.Z",
                                        "2026-11-29T18:12:03.123Z ",
                                        "2026-11-31T00:00:00Z",
                                        "2026-02-29T00:00:00Z",
                                        "2100-02-29T00:00:00Z",
                                        "2026-00-01T00:00:00Z",
                                        "2026-13-01T00:00:00Z",
                                        "2026-01-00T00:00:00Z",
                                        "2026-01-01T24:00:00Z",
                                        "2026-01-01T00:60:00Z",
                                        "2026-01-01T00:00:60Z",
                                        "1969-12-31T23:59:59Z",
                                        "20260-01-01T00:00:00Z",
                                        "2026-1-01T00:00:00Z",
                                        "+026-01-01T00:00:00Z"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int64_t at = -7;
        cr_assert_not(text_time_parse(texts[i], &at), "%s", texts[i]);
        cr_assert_eq(at, -7);
    }
}

/* The C library's calendar writes, ours reads. */
Test(text, times_read_back_what_the_clock_writes)
{
    struct rng rng;
    rng_init(&rng, 1);
    for (int i = 0; i < 20000; i++) {
        int64_t at = (int64_t)rng_below(&rng, WALL_MS_MAX + 1), again;
        char text[CLOCK_TEXT_BYTES];
        clock_format(at, text);
        cr_assert(text_time_parse(text, &again), "%s", text);
        cr_assert_eq(at, again, "%s", text);
    }
}

Test(text, durations)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{0, "0s"},        {1, "1ms"},       {999, "999ms"},   {1000, "1s"},
                 {1500, "1500ms"}, {90000, "90s"},   {600000, "10m"},  {3600000, "1h"},
                 {5400000, "90m"}, {86400000, "1d"}, {90000000, "25h"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[TEXT_BYTES];
        text_duration(cases[i].ms, text);
        cr_assert_str_eq(text, cases[i].text);
    }
}

Test(text, durations_read_back)
{
    static const uint64_t units[] = {1, 1000, 60000, 3600000, 86400000};
    struct rng rng;
    rng_init(&rng, 2);
    for (int i = 0; i < 5000; i++) {
        int64_t ms = (int64_t)(rng_below(&rng, 100000) * units[rng_below(&rng, 5)]), again;
        char text[TEXT_BYTES];
        text_duration(ms, text);
        cr_assert(opts_duration_parse(text, &again), "%s", text);
        cr_assert_eq(ms, again, "%s", text);
    }
}

Test(text, versions)
{
    struct document_version version = {7, 7};
    static const char *const refused[] = {"",     "1",    "1.",   ".1",   "1.2.3",
                                          "-1.2", "1.-2", "+1.2", " 1.2", "1.2 ",
                                          "01.2", "1.02", "1.2x", "a.b",  "9223372036854775808.0"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        cr_assert_not(text_version_parse(refused[i], &version), "%s", refused[i]);
        cr_assert_eq(version.start, 7);
    }
    static const char *const accepted[] = {"0.0", "3.17", "10.0",
                                           "9223372036854775807.9223372036854775807"};
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        char text[TEXT_BYTES];
        cr_assert(text_version_parse(accepted[i], &version), "%s", accepted[i]);
        text_version(version, text);
        cr_assert_str_eq(text, accepted[i]);
    }
}

Test(text, unsigned_numbers)
{
    static const struct {
        const char *text;
        uint64_t max, number;
        bool ok;
    } cases[] = {
        {"0", 0, 0, true},
        {"1", 0, 0, false},
        {"10", 10, 10, true},
        {"11", 10, 0, false},
        {"100", 10, 0, false},
        {"9", 5, 0, false},
        {"18446744073709551615", UINT64_MAX, UINT64_MAX, true},
        {"18446744073709551616", UINT64_MAX, 0, false},
        {"99999999999999999999999", UINT64_MAX, 0, false},
        {"", 10, 0, false},
        {"00", 10, 0, false},
        {"01", 10, 0, false},
        {"+1", 10, 0, false},
        {"-1", 10, 0, false},
        {" 1", 10, 0, false},
        {"1 ", 10, 0, false},
        {"0x1", 10, 0, false},
        {"1e1", 100, 0, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t number = 77;
        cr_assert_eq(text_uint_parse(cases[i].text, cases[i].max, &number), cases[i].ok, "%s",
                     cases[i].text);
        cr_assert_eq(number, cases[i].ok ? cases[i].number : 77, "%s", cases[i].text);
    }
}

Test(text, doubles)
{
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {1e21, "1e+21"},
        {1e15, "1e+15"},
        {123456.789, "123456.789"},
        {5e-324, "4.94065645841247e-324"},
    };
    char text[TEXT_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text_double(cases[i].number, text);
        cr_assert_str_eq(text, cases[i].text);
    }
    text_double(NAN, text);
    cr_assert_str_eq(text, "0.0");
    text_double(INFINITY, text);
    cr_assert_eq(strtod(text, NULL), DBL_MAX);
    text_double(-INFINITY, text);
    cr_assert_eq(strtod(text, NULL), -DBL_MAX);
}

Test(text, doubles_read_back)
{
    struct rng rng;
    rng_init(&rng, 5);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rng_next(&rng);
        double number;
        memcpy(&number, &bits, sizeof(number));
        if (!isfinite(number))
            continue;
        char text[TEXT_BYTES];
        text_double(number, text);
        cr_assert_eq(strtod(text, NULL), number, "%s", text);
        cr_assert_not_null(strpbrk(text, ".e"), "%s", text);
    }
}

/* Goal: what is too long is cut between characters, and shows it. */
Test(text, cuts_what_is_too_long)
{
    char whole[API_TEXT_BYTES_MAX + 1];
    memset(whole, 'x', API_TEXT_BYTES_MAX);
    whole[API_TEXT_BYTES_MAX] = '\0';
    char *text = text_printf("%s", whole);
    cr_assert_str_eq(text, whole);
    free(text);

    text = text_printf("%sx", whole);
    cr_assert_eq(strlen(text), API_TEXT_BYTES_MAX);
    cr_assert_str_eq(text + API_TEXT_BYTES_MAX - 4, "x...");
    free(text);

    whole[API_TEXT_BYTES_MAX - 4] = '\0';
    text = text_printf("%s\xe2\x82\xac\xe2\x82\xac", whole); /* the first would end past the mark */
    cr_assert_eq(strlen(text), API_TEXT_BYTES_MAX - 1);
    cr_assert_str_eq(text + API_TEXT_BYTES_MAX - 5, "x...");
    free(text);
}
