/*
 * Memory that is handed out piece by piece and taken back all at once, for work that ends soon (one
 * record, one request). Pieces never move, so they may be copied from one to another. Owned by one
 * thread; zero-initialised is empty and valid.
 *
 * A reset keeps one chunk, so work that fits into ARENA_CHUNK_BYTES allocates nothing once it has
 * warmed up, and one huge piece is not held for ever. Sizes that outsiders choose are limited
 * before they come here (common/mem.h).
 */
#ifndef BATON_COMMON_ARENA_H
#define BATON_COMMON_ARENA_H

#include <stddef.h>

#define ARENA_CHUNK_BYTES ((size_t)64 * 1024)

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* the one in use first */
};

/* Aligned for any type, not zeroed; never NULL, also for 0 bytes. Valid until the next reset. */
void *arena_alloc(struct arena *arena, size_t bytes)
    __attribute__((warn_unused_result, returns_nonnull));
/* `data` may be NULL when `bytes` is 0, and may lie in the same arena. */
void *arena_copy(struct arena *arena, const void *data, size_t bytes)
    __attribute__((warn_unused_result, returns_nonnull));

void arena_reset(struct arena *arena);
void arena_finish(struct arena *arena);

#endif
