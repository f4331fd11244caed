/*
 * Where a key belongs: key -> partition -> processor, by linear hashing (D2 of the design). The one
 * place that turns a key into a number, for all who route or look by keys. Pure; any thread.
 */
#ifndef BATON_COMMON_HASH_KEY_MAP_H
#define BATON_COMMON_HASH_KEY_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash/linhash.h"

enum key_hash {
    KEY_HASH_MURMUR2, /* of Java's clients, and librdkafka's murmur2 partitioners */
    KEY_HASH_CRC32,   /* of librdkafka's consistent partitioners */
};

struct key_map {
    enum key_hash hash;
    struct linhash_size partitions; /* N0, N */
    struct linhash_size processors; /* M0, M; M <= N */
};

/* What producers take for the key's hash: murmur2 without its sign bit. */
uint32_t key_hash(enum key_hash hash, const void *key, size_t bytes);

/* Whether producers by that hash agree where the key belongs. Not on the empty one by crc32:
 * librdkafka's consistent_random takes it for none and puts it anywhere, other clients do not. */
bool key_has_place(enum key_hash hash, size_t bytes);

uint32_t key_partition(const struct key_map *map, const void *key, size_t bytes);

/* Who has that partition. While N grows it stays the same when N0 = M0 * 2^j (D2). */
uint32_t key_processor(const struct key_map *map, uint32_t partition);

#endif
