#include "common/hash/crc32.h"

/*
 * The remainders of four bits by the reversed polynomial EDB88320. Why not zlib's: the pure cores
 * use this hash and link without any library; and keys are short, so that larger tables would win
 * nothing.
 */
static const uint32_t remainders[16] = {
    UINT32_C(0x00000000), UINT32_C(0x1db71064), UINT32_C(0x3b6e20c8), UINT32_C(0x26d930ac),
    UINT32_C(0x76dc4190), UINT32_C(0x6b6b51f4), UINT32_C(0x4db26158), UINT32_C(0x5005713c),
    UINT32_C(0xedb88320), UINT32_C(0xf00f9344), UINT32_C(0xd6d6a3e8), UINT32_C(0xcb61b38c),
    UINT32_C(0x9b64c2b0), UINT32_C(0x86d3d2d4), UINT32_C(0xa00ae278), UINT32_C(0xbdbdf21c),
};

uint32_t crc32_hash(const void *key, size_t bytes)
{
    const unsigned char *at = key;
    uint32_t hash = UINT32_MAX;

    for (size_t i = 0; i < bytes; i++) {
        hash ^= at[i];
        hash = (hash >> 4) ^ remainders[hash & 0x0F];
        hash = (hash >> 4) ^ remainders[hash & 0x0F];
    }
    return ~hash;
}
