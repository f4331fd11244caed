/* What the daemons route by, on the vectors that the producers' partitioners are held to as well.
 */
#include <criterion/criterion.h>

#include "common/hash/crc32.h"
#include "common/hash/linhash.h"
#include "common/hash/murmur2.h"
#include "tests/golden/partitions.h"

static void check_hashes(const struct golden_key *key)
{
    cr_assert_eq(murmur2(key->bytes, key->count) & 0x7fffffff, key->murmur2, "%zu bytes",
                 key->count);
    cr_assert_eq(crc32_hash(key->bytes, key->count), key->crc32, "%zu bytes", key->count);
}

Test(golden, hashes)
{
    golden_each_key(check_hashes);
}

static void check_partitions(const struct golden_key *key)
{
    for (size_t i = 0; i < GOLDEN_SIZES; i++) {
        struct linhash_size size = key->places[i].size;
        cr_assert_eq(linhash_bucket(key->murmur2, size), key->places[i].by_murmur2,
                     "%u over (%u, %u)", key->murmur2, size.initial, size.now);
        cr_assert_eq(linhash_bucket(key->crc32, size), key->places[i].by_crc32, "%u over (%u, %u)",
                     key->crc32, size.initial, size.now);
    }
}

Test(golden, partitions)
{
    golden_each_key(check_partitions);
}
