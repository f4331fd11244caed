/*
 * Memory that is there or ends the process.
 *
 * baton is crash-only: everything that matters is in Kafka, SQLite or LMDB before anyone hears of
 * it, and kill -9 at any moment loses nothing. A daemon that limps on without memory is worse than
 * one that restarts, so these functions check every allocation in one place and, when it fails,
 * write one line to stderr and abort(). None of them returns NULL.
 *
 * The rule that makes this safe: a size that a user, a peer or a file can choose is limited
 * *before* it comes here (request bodies, key and value lengths, counts of partitions, ...), and
 * the refusal is tested.
 *
 * Any thread may call these. Free with free().
 */
#ifndef BATON_COMMON_MEM_H
#define BATON_COMMON_MEM_H

#include <stddef.h>

/* Zeroed memory for `count` elements of `bytes` each; the product is checked for overflow. */
void *mem_calloc(size_t count, size_t bytes)
    __attribute__((malloc, warn_unused_result, returns_nonnull));

/* As realloc, for `count` elements of `bytes` each; new memory is not zeroed. count 0 gives a valid
 * pointer. */
void *mem_realloc(void *old, size_t count, size_t bytes)
    __attribute__((warn_unused_result, returns_nonnull));

char *mem_strdup(const char *text) __attribute__((malloc, warn_unused_result, returns_nonnull));
void *mem_memdup(const void *data, size_t bytes)
    __attribute__((malloc, warn_unused_result, returns_nonnull));

/* printf into new memory. */
char *mem_printf(const char *format, ...)
    __attribute__((format(printf, 1, 2), malloc, warn_unused_result, returns_nonnull));

/*
 * Room for one more element in an array that grows by doubling: returns the (possibly moved) array
 * with capacity for at least `count + 1`, and updates *capacity. New memory is not zeroed.
 */
void *mem_grow(void *array, size_t count, size_t *capacity, size_t bytes)
    __attribute__((warn_unused_result, returns_nonnull));

#endif
