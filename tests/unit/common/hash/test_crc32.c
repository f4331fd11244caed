#include "common/hash/crc32.h"

#include <criterion/criterion.h>
#include <string.h>

/* The check value of the CRC catalogues, and values of zlib's crc32. */
Test(crc32, known_answers)
{
    cr_assert_eq(crc32_hash("123456789", 9), UINT32_C(0xcbf43926));
    cr_assert_eq(crc32_hash("", 0), 0);
    cr_assert_eq(crc32_hash(NULL, 0), 0);
    cr_assert_eq(crc32_hash("a", 1), UINT32_C(0xe8b7be43));
    cr_assert_eq(crc32_hash("\0", 1), UINT32_C(0xd202ef8d));
    cr_assert_eq(crc32_hash("\xff\xff\xff\xff", 4), UINT32_C(0xffffffff));
    cr_assert_eq(crc32_hash("The quick brown fox jumps over the lazy dog", 43),
                 UINT32_C(0x414fa339));
}

/* Bit by bit, as the definition says, over every byte value and position of a short key. */
static uint32_t slow_crc32(const unsigned char *key, size_t bytes)
{
    uint32_t hash = UINT32_MAX;
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        uint32_t in = (key[bit / 8] >> (bit % 8)) & 1u;
        hash = ((hash ^ in) & 1u) != 0 ? (hash >> 1) ^ UINT32_C(0xedb88320) : hash >> 1;
    }
    return ~hash;
}

Test(crc32, equals_the_definition)
{
    unsigned char key[5];
    for (unsigned value = 0; value < 256; value++) {
        for (size_t at = 0; at < sizeof(key); at++) {
            memset(key, 0x5a, sizeof(key));
            key[at] = (unsigned char)value;
            cr_assert_eq(crc32_hash(key, sizeof(key)), slow_crc32(key, sizeof(key)));
        }
    }
}
