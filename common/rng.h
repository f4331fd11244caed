/*
 * Randomness. rng_bytes is for identities (UUIDs) and comes from getrandom(2). struct rng is a
 * small seeded generator (xoshiro256**) for jitter and for the simulator, where the same seed must
 * give the same run. Never for secrets.
 */
#ifndef BATON_COMMON_RNG_H
#define BATON_COMMON_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_init(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t bound); /* 0..bound-1 without bias; bound >= 1 */

void rng_bytes(void *data, size_t bytes); /* aborts when the kernel gives none */

#define UUID_TEXT_BYTES 37
void rng_uuid(char text[UUID_TEXT_BYTES]); /* random UUID (version 4), lower case */

#endif
