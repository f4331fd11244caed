#include "common/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

struct arena_chunk {
    struct arena_chunk *next;
    size_t capacity;
    size_t used;
    alignas(max_align_t) unsigned char data[];
};

static struct arena_chunk *chunk_create(size_t capacity)
{
    struct arena_chunk *chunk = mem_realloc(NULL, sizeof(*chunk) + capacity, 1);

    chunk->next = NULL;
    chunk->capacity = capacity;
    chunk->used = 0;
    return chunk;
}

/* The chunk that has room for `bytes`. An outsize piece gets its own, behind the one in use. */
static struct arena_chunk *chunk_with_room(struct arena *arena, size_t bytes)
{
    struct arena_chunk *first = arena->chunks;
    struct arena_chunk *chunk;

    if (first != NULL && first->capacity - first->used >= bytes)
        return first;
    chunk = chunk_create(bytes > ARENA_CHUNK_BYTES ? bytes : ARENA_CHUNK_BYTES);
    if (first != NULL && bytes > ARENA_CHUNK_BYTES) {
        chunk->next = first->next;
        first->next = chunk;
    } else {
        chunk->next = first;
        arena->chunks = chunk;
    }
    return chunk;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    const size_t align = alignof(max_align_t);
    struct arena_chunk *chunk;
    size_t room;
    void *piece;

    /* An empty piece takes room too: pieces have different addresses, so none looks like another's
     * end. */
    assert(bytes <= SIZE_MAX / 2);
    room = bytes == 0 ? align : (bytes + align - 1) / align * align;
    chunk = chunk_with_room(arena, room);
    piece = chunk->data + chunk->used;
    chunk->used += room;
    return piece;
}

void *arena_copy(struct arena *arena, const void *data, size_t bytes)
{
    void *piece = arena_alloc(arena, bytes);

    if (bytes > 0)
        memcpy(piece, data, bytes);
    return piece;
}

void arena_reset(struct arena *arena)
{
    struct arena_chunk *kept = NULL;

    while (arena->chunks != NULL) {
        struct arena_chunk *chunk = arena->chunks;

        arena->chunks = chunk->next;
        if (kept == NULL && chunk->capacity == ARENA_CHUNK_BYTES)
            kept = chunk;
        else
            free(chunk);
    }
    if (kept != NULL) {
        kept->next = NULL;
        kept->used = 0;
    }
    arena->chunks = kept;
}

void arena_finish(struct arena *arena)
{
    arena_reset(arena);
    free(arena->chunks);
    arena->chunks = NULL;
}
