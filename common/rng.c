#include "common/rng.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

/* SplitMix64 (Steele, Lea, Flood 2014), as xoshiro's authors advise for seeding: never gives the
 * all-zero state. */
static uint64_t splitmix_next(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ (mixed >> 31);
}

void rng_init(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->s[i] = splitmix_next(&seed);
}

/* xoshiro256** 1.0 (Blackman and Vigna 2018). */
uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    assert(bound >= 1);
    /* The lowest 2^64 mod bound values are refused; what is left is a whole multiple of bound. */
    uint64_t refused = (UINT64_C(0) - bound) % bound;
    uint64_t value;
    do
        value = rng_next(rng);
    while (value < refused);
    return value % bound;
}

void rng_bytes(void *data, size_t bytes)
{
    unsigned char *at = data;
    while (bytes > 0) {
        ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            perror("getrandom");
            abort();
        }
        at += got;
        bytes -= (size_t)got;
    }
}

void rng_uuid(char text[UUID_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[16];

    rng_bytes(raw, sizeof(raw));
    raw[6] = (unsigned char)((raw[6] & 0x0F) | 0x40); /* version 4 */
    raw[8] = (unsigned char)((raw[8] & 0x3F) | 0x80); /* variant of RFC 9562 */
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *text++ = '-';
        *text++ = digits[raw[i] >> 4];
        *text++ = digits[raw[i] & 0x0F];
    }
    *text = '\0';
}
