#include "common/rng.h"

#include <criterion/criterion.h>
#include <string.h>

/* The first numbers of the authors' xoshiro256starstar.c from the state 1, 2, 3, 4. */
Test(rng, is_xoshiro256starstar)
{
    static const uint64_t expected[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832),
        UINT64_C(10595114339597558777),
        UINT64_C(2904607092377533576),
    };
    struct rng rng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        cr_assert_eq(rng_next(&rng), expected[i], "number %zu", i);
}

/* The first numbers of the authors' splitmix64.c. */
Test(rng, is_seeded_by_splitmix64)
{
    struct rng rng;
    rng_init(&rng, UINT64_C(1477776061723855037));
    cr_assert_eq(rng.s[0], UINT64_C(1985237415132408290));
    cr_assert_eq(rng.s[1], UINT64_C(2979275885539914483));
    cr_assert_eq(rng.s[2], UINT64_C(13511426838097143398));
    cr_assert_eq(rng.s[3], UINT64_C(8488337342461049707));
}

Test(rng, the_same_seed_gives_the_same_run)
{
    struct rng one, two, other;
    bool differs = false;
    rng_init(&one, 42);
    rng_init(&two, 42);
    rng_init(&other, 43);
    for (int i = 0; i < 100; i++) {
        uint64_t value = rng_next(&one);
        cr_assert_eq(value, rng_next(&two));
        differs = differs || value != rng_next(&other);
    }
    cr_assert(differs);
}

Test(rng, below_stays_below)
{
    static const uint64_t bounds[] = {1, 2, 3, 7, 1000, UINT64_C(1) << 63, UINT64_MAX};
    struct rng rng;
    rng_init(&rng, 1);
    for (size_t b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++) {
        for (int i = 0; i < 1000; i++)
            cr_assert_lt(rng_below(&rng, bounds[b]), bounds[b]);
    }
}

/*
 * A bound of 3 * 2^62 shows the bias of a plain remainder: it would give the lowest third twice as
 * often as each other third. 30,000 throws give 10,000 to each with a deviation of 82; 600 is over
 * seven deviations.
 */
Test(rng, below_has_no_bias)
{
    struct rng rng;
    int thirds[3] = {0};
    rng_init(&rng, 7);
    for (int i = 0; i < 30000; i++)
        thirds[rng_below(&rng, UINT64_C(3) << 62) >> 62]++;
    for (int t = 0; t < 3; t++)
        cr_assert(thirds[t] > 9400 && thirds[t] < 10600, "third %d: %d", t, thirds[t]);
}

/* Fills all that was asked for, also past the 256 bytes that getrandom gives in one piece, and
 * nothing behind. */
Test(rng, bytes_fill_exactly)
{
    static const size_t lengths[] = {0, 1, 16, 256, 257, 1000};
    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        unsigned char seen[1001] = {0};
        /* A random byte is 0 once in 256; over 20 fills none stays 0 by chance. */
        for (int round = 0; round < 20; round++) {
            unsigned char data[1001] = {0};
            rng_bytes(data, lengths[l]);
            for (size_t i = 0; i < sizeof(data); i++)
                seen[i] |= data[i];
        }
        for (size_t i = 0; i < sizeof(seen); i++)
            cr_assert_eq(seen[i] != 0, i < lengths[l], "byte %zu of %zu", i, lengths[l]);
    }
}

Test(rng, uuids_are_of_version_4_and_differ)
{
    char uuids[100][UUID_TEXT_BYTES];
    for (int i = 0; i < 100; i++) {
        const char *uuid = uuids[i];
        rng_uuid(uuids[i]);
        cr_assert_eq(strlen(uuid), 36);
        for (size_t c = 0; c < 36; c++) {
            const char *allowed = "0123456789abcdef";
            if (c == 8 || c == 13 || c == 18 || c == 23)
                allowed = "-";
            else if (c == 14)
                allowed = "4";
            else if (c == 19)
                allowed = "89ab";
            cr_assert_not_null(strchr(allowed, uuid[c]), "character %zu of %s", c, uuid);
        }
        for (int other = 0; other < i; other++)
            cr_assert_str_neq(uuid, uuids[other]);
    }
}
