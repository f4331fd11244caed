/*
 * Linear hashing (Litwin 1980; D2 of the design): key -> partition over (N0, N), and partition ->
 * processor over (M0, M).
 *
 *   linhash(h, n0, n): level L = floor(log2(n / n0)); a = h mod (n0 * 2^L);
 *                      if a < n - n0 * 2^L then a = h mod (n0 * 2^(L+1)).
 *
 * Growing n by one moves members only from one parent bucket to the new one. For n = n0 * 2^j it
 * equals h mod n, which is what every stock Kafka producer does. Pure; any thread.
 */
#ifndef BATON_COMMON_HASH_LINHASH_H
#define BATON_COMMON_HASH_LINHASH_H

#include <stdint.h>

/* The initial and the present number of buckets, in a struct so that the two can not be swapped. 1
 * <= initial <= now. */
struct linhash_size {
    uint32_t initial, now;
};

uint32_t linhash_bucket(uint32_t hash, struct linhash_size size);
uint32_t linhash_level(struct linhash_size size); /* L */
uint32_t linhash_split_pointer(
    struct linhash_size size); /* now - initial * 2^L: the next bucket to be split */
uint32_t linhash_parent(uint32_t bucket, uint32_t initial); /* asserts bucket >= initial */
uint32_t linhash_root(uint32_t bucket,
                      uint32_t initial); /* the ancestor below initial; itself when it is below */

/* Writes the ancestors of bucket, nearest first, ending with its root; returns how many (0..32). */
uint32_t linhash_ancestors(uint32_t bucket, uint32_t initial, uint32_t ret_ancestors[32]);

#endif
