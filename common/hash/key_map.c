#include "common/hash/key_map.h"

#include "common/hash/crc32.h"
#include "common/hash/murmur2.h"

#define SIGN_BIT UINT32_C(0x80000000)

uint32_t key_hash(enum key_hash hash, const void *key, size_t bytes)
{
    return hash == KEY_HASH_MURMUR2 ? murmur2(key, bytes) & ~SIGN_BIT : crc32_hash(key, bytes);
}

bool key_has_place(enum key_hash hash, size_t bytes)
{
    return hash != KEY_HASH_CRC32 || bytes > 0;
}

uint32_t key_partition(const struct key_map *map, const void *key, size_t bytes)
{
    return linhash_bucket(key_hash(map->hash, key, bytes), map->partitions);
}

uint32_t key_processor(const struct key_map *map, uint32_t partition)
{
    return linhash_bucket(partition, map->processors);
}
