/* What the daemons route by, on the vectors that the producers' partitioners are held to as well.
 */
#include <criterion/criterion.h>

#include "common/hash/key_map.h"
#include "tests/golden/partitions.h"

static void check_hashes(const struct golden_key *key)
{
    cr_assert_eq(key_hash(KEY_HASH_MURMUR2, key->bytes, key->count), key->murmur2, "%zu bytes",
                 key->count);
    cr_assert_eq(key_hash(KEY_HASH_CRC32, key->bytes, key->count), key->crc32, "%zu bytes",
                 key->count);
}

Test(golden, hashes)
{
    golden_each_key(check_hashes);
}

static void check_partitions(const struct golden_key *key)
{
    for (size_t i = 0; i < GOLDEN_SIZES; i++) {
        struct key_map map = {.hash = KEY_HASH_MURMUR2, .partitions = key->places[i].size};
        cr_assert_eq(key_partition(&map, key->bytes, key->count), key->places[i].by_murmur2,
                     "%u over (%u, %u)", key->murmur2, map.partitions.initial, map.partitions.now);
        map.hash = KEY_HASH_CRC32;
        cr_assert_eq(key_partition(&map, key->bytes, key->count), key->places[i].by_crc32,
                     "%u over (%u, %u)", key->crc32, map.partitions.initial, map.partitions.now);
    }
}

Test(golden, partitions)
{
    golden_each_key(check_partitions);
}

/* Wherever partitions grow to, a key stays on its processor when the first ones were a power of two
 * of them (D2). */
static void check_processors(const struct golden_key *key)
{
    struct key_map map = {.partitions = {.initial = 4, .now = 16}};
    for (map.processors.initial = 1; map.processors.initial <= 4; map.processors.initial *= 2) {
        for (uint32_t now = map.processors.initial; now <= 16; now++) {
            map.processors.now = now;
            map.partitions.now = 16;
            uint32_t before = key_processor(&map, key_partition(&map, key->bytes, key->count));
            map.partitions.now = 16 + now;
            cr_assert_eq(key_processor(&map, key_partition(&map, key->bytes, key->count)), before);
        }
    }
}

Test(golden, processors)
{
    golden_each_key(check_processors);
}
