#include "agent/core/backoff.h"

#include <criterion/criterion.h>

#include "common/rng.h"

Test(backoff, doubles_up_to_the_most_and_starts_again_after_a_success)
{
    static const int64_t pauses_ms[] = {200, 400, 800, 1600, 3200, 5000, 5000};
    struct backoff backoff;
    backoff_init(&backoff, 200, 5000);

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
            /* Before: random numbers that choose the shortest and the longest pause in turn. */
            int64_t half_ms = (pauses_ms[i] + 1) / 2;
            struct backoff copy = backoff;
            cr_assert_eq(backoff_next_ms(&copy, 0), half_ms);
            cr_assert_eq(backoff_next_ms(&backoff, (uint64_t)(pauses_ms[i] - half_ms)),
                         pauses_ms[i]);
        }
        backoff_reset(&backoff);
    }
}

Test(backoff, every_pause_is_in_range)
{
    struct rng rng;
    rng_init(&rng, 1);
    for (int64_t max_ms = 1; max_ms < 50; max_ms++) {
        struct backoff backoff;
        backoff_init(&backoff, 1 + (int64_t)rng_below(&rng, (uint64_t)max_ms), max_ms);
        for (int i = 0; i < 20; i++) {
            int64_t pause_ms = backoff_next_ms(&backoff, rng_next(&rng));
            cr_assert_geq(pause_ms, 1);
            cr_assert_leq(pause_ms, max_ms);
            cr_assert_geq(pause_ms, (backoff.min_ms + 1) / 2);
        }
    }
}

Test(backoff, a_limit_holds_from_the_next_pause_on)
{
    struct backoff backoff;
    backoff_init(&backoff, 200, 5000);
    for (int i = 0; i < 6; i++)
        (void)backoff_next_ms(&backoff, 0);
    backoff_limit(&backoff, 500);
    cr_assert_eq(backoff_next_ms(&backoff, 250), 500);
    cr_assert_eq(backoff_next_ms(&backoff, 250), 500);
    backoff_limit(&backoff, 100);
    cr_assert_eq(backoff_next_ms(&backoff, 100), 200, "never below the least");
    backoff_limit(&backoff, INT64_MAX);
    cr_assert_eq(backoff.max_ms, 5000, "never above the most");
}

Test(backoff, jitter_spreads)
{
    struct rng rng;
    int64_t least_ms = INT64_MAX, most_ms = 0;
    rng_init(&rng, 2);
    for (int i = 0; i < 200; i++) {
        struct backoff backoff;
        backoff_init(&backoff, 200, 5000);
        int64_t pause_ms = backoff_next_ms(&backoff, rng_next(&rng));
        least_ms = pause_ms < least_ms ? pause_ms : least_ms;
        most_ms = pause_ms > most_ms ? pause_ms : most_ms;
    }
    cr_assert_lt(least_ms, 110);
    cr_assert_gt(most_ms, 190);
}
