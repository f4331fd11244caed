#include "common/hash/murmur2.h"

#define SEED       UINT32_C(0x9747b28c)
#define MULTIPLIER UINT32_C(0x5bd1e995)
#define SHIFT      24

/* Java reads the bytes as little endian on every machine. */
static uint32_t read_le32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t murmur2(const void *key, size_t bytes)
{
    const unsigned char *at = key;
    uint32_t hash = SEED ^ (uint32_t)bytes; /* a Kafka key is shorter than 2^31 */

    for (; bytes >= 4; at += 4, bytes -= 4) {
        uint32_t block = read_le32(at) * MULTIPLIER;
        block ^= block >> SHIFT;
        hash *= MULTIPLIER;
        hash ^= block * MULTIPLIER;
    }
    if (bytes > 0) {
        for (size_t i = 0; i < bytes; i++)
            hash ^= (uint32_t)at[i] << (8 * i);
        hash *= MULTIPLIER;
    }
    hash ^= hash >> 13;
    hash *= MULTIPLIER;
    hash ^= hash >> 15;
    return hash;
}
