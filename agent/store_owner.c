#include "agent/store_owner.h"

#include <assert.h>

/* What is taken of a partition's number to find its processor: M0 * 2^L, or the double. */
static uint64_t modulus_of(struct linhash_size size)
{
    uint64_t modulus = (uint64_t)size.initial << linhash_level(size);

    return modulus == size.now ? modulus : 2 * modulus;
}

/* The partitions of a root are apart by N0, so if that is a multiple of the modulus they all have
 * its processor. */
static bool root_decides(const struct key_map *map)
{
    return map->partitions.now == map->partitions.initial ||
           map->partitions.initial % modulus_of(map->processors) == 0;
}

bool store_owner_is_other(const struct store_owners *owners, uint32_t processor,
                          const struct store_row *row)
{
    const struct key_map *map = &owners->map;
    uint32_t partition = row->root;

    assert(map->processors.now > 0);
    if (!root_decides(map)) {
        if (!owners->hashed || !key_has_place(map->hash, row->key_bytes))
            return false;
        partition = key_partition(map, row->key, row->key_bytes);
        if (linhash_root(partition, map->partitions.initial) != row->root)
            return false;
    }
    return key_processor(map, partition) != processor;
}

void store_owner_mark_read(const struct store_owners *owners, uint32_t processor, bool *ret_read)
{
    const struct linhash_size size = owners->map.partitions;

    for (uint32_t partition = 0; partition < size.now; partition++) {
        uint32_t at = partition;

        if (key_processor(&owners->map, partition) != processor)
            continue;
        for (; at >= size.initial; at = linhash_parent(at, size.initial))
            ret_read[at] = true;
        ret_read[at] = true;
    }
}

bool store_owner_has_split(const struct store_owners *owners, uint32_t processor, uint32_t before)
{
    const struct linhash_size size = owners->map.processors;
    uint32_t first = before > size.initial ? before : size.initial;

    for (uint32_t child = first; child < size.now; child++) {
        if (linhash_parent(child, size.initial) == processor)
            return true;
    }
    return false;
}
