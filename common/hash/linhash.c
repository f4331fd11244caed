#include "common/hash/linhash.h"

#include <assert.h>

/*
 * The largest initial * 2^level <= limit. Doubling happens in 64 bits, since a count just below
 * 2^32 doubles past 32; the answer always fits, being no more than limit.
 */
static uint32_t largest_doubling(uint32_t initial, uint32_t limit, uint32_t *ret_level)
{
    assert(initial >= 1);
    assert(initial <= limit);
    uint64_t doubled = initial;
    uint32_t level = 0;
    while (doubled * 2 <= limit) {
        doubled *= 2;
        level++;
    }
    *ret_level = level;
    return (uint32_t)doubled;
}

uint32_t linhash_bucket(uint32_t hash, struct linhash_size size)
{
    uint32_t level;
    uint32_t base = largest_doubling(size.initial, size.now, &level);
    uint32_t bucket = hash % base;
    if (bucket < size.now - base) /* already split at this level */
        bucket = (uint32_t)(hash % ((uint64_t)base * 2));
    assert(bucket < size.now);
    return bucket;
}

uint32_t linhash_level(struct linhash_size size)
{
    uint32_t level;
    (void)largest_doubling(size.initial, size.now, &level); /* only the level is asked for */
    return level;
}

uint32_t linhash_split_pointer(struct linhash_size size)
{
    uint32_t level;
    return size.now - largest_doubling(size.initial, size.now, &level);
}

uint32_t linhash_parent(uint32_t bucket, uint32_t initial)
{
    uint32_t level;
    assert(bucket >= initial);
    return bucket - largest_doubling(initial, bucket, &level);
}

uint32_t linhash_root(uint32_t bucket, uint32_t initial)
{
    assert(initial >= 1);
    while (bucket >= initial)
        bucket = linhash_parent(bucket, initial);
    return bucket;
}

uint32_t linhash_ancestors(uint32_t bucket, uint32_t initial, uint32_t ret_ancestors[32])
{
    uint32_t count = 0;
    assert(initial >= 1);
    while (bucket >= initial) {
        assert(count <
               32); /* each step takes away the highest doubling, of which 32 bits hold 32 */
        bucket = linhash_parent(bucket, initial);
        ret_ancestors[count++] = bucket;
    }
    return count;
}
