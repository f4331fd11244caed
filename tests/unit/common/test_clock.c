#include "common/clock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

Test(clock, formats_wall_time)
{
    static const struct {
        int64_t wall_ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {-1000, "1969-12-31T23:59:59.000Z"},
        {INT64_C(951782400123), "2000-02-29T00:00:00.123Z"},
        {INT64_C(1795975923123), "2026-11-29T18:12:03.123Z"},
        {INT64_C(253402300799999), "9999-12-31T23:59:59.999Z"},
        {INT64_C(253402300800000), "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {INT64_C(-62167219200000), "0000-01-01T00:00:00.000Z"},
        {INT64_C(-62167219200001), "0000-01-01T00:00:00.000Z"},
        {INT64_MIN, "0000-01-01T00:00:00.000Z"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[CLOCK_TEXT_BYTES];
        clock_format(cases[i].wall_ms, text);
        cr_assert_str_eq(text, cases[i].text, "%s, not %s", text, cases[i].text);
    }
}

/* The time zone of the machine must not show. */
Test(clock, formats_in_utc)
{
    char text[CLOCK_TEXT_BYTES];
    cr_assert_eq(setenv("TZ", "Pacific/Kiritimati", 1), 0);
    tzset();
    clock_format(0, text);
    cr_assert_str_eq(text, "1970-01-01T00:00:00.000Z");
}

Test(clock, monotonic_time_does_not_go_back)
{
    int64_t before_us = clock_mono_us();
    int64_t between_ms = clock_mono_ms();
    int64_t after_us = clock_mono_us();
    cr_assert_leq(before_us / 1000, between_ms);
    cr_assert_leq(between_ms, after_us / 1000);
}

/* The two clocks are the system's, in the promised units. */
Test(clock, is_the_systems)
{
    struct timespec mono;
    int64_t wall_ms = clock_wall_ms();
    time_t wall = time(NULL);
    cr_assert_leq(wall_ms / 1000, wall + 1);
    cr_assert_geq(wall_ms / 1000, wall - 60);
    int64_t mono_ms = clock_mono_ms();
    cr_assert_eq(clock_gettime(CLOCK_MONOTONIC, &mono), 0);
    cr_assert_leq(mono_ms / 1000, mono.tv_sec);
    cr_assert_geq(mono_ms / 1000, mono.tv_sec - 60);
}
