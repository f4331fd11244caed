#include "common/hash/sha256.h"

#include <string.h>

#define BLOCK_BYTES  64
#define LENGTH_BYTES 8

/* FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64
 * primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t word, int bits)
{
    return (word >> bits) | (word << (32 - bits));
}

static uint32_t load_be32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
           (uint32_t)bytes[3];
}

static void expand(const uint8_t block[BLOCK_BYTES], uint32_t w[64])
{
    for (int t = 0; t < 16; t++)
        w[t] = load_be32(block + (size_t)4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        uint32_t s0 = rotate_right(a, 7) ^ rotate_right(a, 18) ^ (a >> 3);
        uint32_t s1 = rotate_right(b, 17) ^ rotate_right(b, 19) ^ (b >> 10);

        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

static void compress(uint32_t hash[8], const uint8_t block[BLOCK_BYTES])
{
    uint32_t w[64];
    uint32_t v[8]; /* a..h of the standard */

    expand(block, w);
    memcpy(v, hash, sizeof(v));
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotate_right(v[4], 6) ^ rotate_right(v[4], 11) ^ rotate_right(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + round_constants[t] + w[t];
        uint32_t s0 = rotate_right(v[0], 2) ^ rotate_right(v[0], 13) ^ rotate_right(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++)
        hash[i] += v[i];
}

/* The last one or two blocks: the rest of the data, a one bit, zeros, the length in bits. */
static void compress_tail(uint32_t hash[8], const uint8_t *rest, size_t rest_bytes, uint64_t bytes)
{
    uint8_t tail[2 * BLOCK_BYTES] = {0};
    size_t tail_bytes =
        rest_bytes + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    uint64_t bits = bytes * 8;

    if (rest_bytes > 0)
        memcpy(tail, rest, rest_bytes);
    tail[rest_bytes] = 0x80;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        tail[tail_bytes - 1 - i] = (uint8_t)(bits >> (8 * i));
    for (size_t at = 0; at < tail_bytes; at += BLOCK_BYTES)
        compress(hash, tail + at);
}

void sha256(const void *data, size_t bytes, uint8_t ret_digest[SHA256_BYTES])
{
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *at = data;
    size_t left = bytes;

    while (left >= BLOCK_BYTES) {
        compress(hash, at);
        at += BLOCK_BYTES;
        left -= BLOCK_BYTES;
    }
    compress_tail(hash, at, left, bytes);
    for (int i = 0; i < 32; i++)
        ret_digest[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
}
