/*
 * Reads tests/golden/partitions.txt (made by make_partitions.py, which says what is in it), for the
 * unit tests of all who route by key. Run from the root of the tree. The test's thread only.
 */
#ifndef BATON_TESTS_GOLDEN_PARTITIONS_H
#define BATON_TESTS_GOLDEN_PARTITIONS_H

#include <stddef.h>
#include <stdint.h>

#include "common/hash/linhash.h"

#define GOLDEN_KEY_BYTES_MAX 1025
#define GOLDEN_SIZES         2 /* a line */
#define GOLDEN_KEYS_MIN      10000

struct golden_key {
    unsigned char bytes[GOLDEN_KEY_BYTES_MAX];
    size_t count;
    uint32_t murmur2; /* without the sign bit */
    uint32_t crc32;
    struct {
        struct linhash_size size;
        uint32_t by_murmur2, by_crc32; /* partitions */
    } places[GOLDEN_SIZES];
};

/* Calls check for each key of the file. Fails the test when a line is not as it should be, or when
 * there are less than GOLDEN_KEYS_MIN. The key is valid until check returns. */
void golden_each_key(void (*check)(const struct golden_key *key));

#endif
