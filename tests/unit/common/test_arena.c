#include "common/arena.h"

#include <criterion/criterion.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

Test(arena, pieces_are_aligned_apart_and_keep_their_bytes)
{
    struct arena arena = {0};
    char *pieces[300];

    /* Goal: three chunks full of small pieces; none overlaps or moves. */
    for (int i = 0; i < 300; i++) {
        pieces[i] = arena_alloc(&arena, 501);
        cr_assert_eq((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        memset(pieces[i], i % 251, 501);
    }
    for (int i = 0; i < 300; i++) {
        for (int at = 0; at < 501; at++)
            cr_assert_eq((unsigned char)pieces[i][at], i % 251);
    }
    arena_finish(&arena);
}

Test(arena, empty_pieces_are_there_and_differ)
{
    struct arena arena = {0};
    void *one = arena_alloc(&arena, 0);
    void *two = arena_copy(&arena, NULL, 0);

    cr_assert_not_null(one);
    cr_assert_not_null(two);
    cr_assert_neq(one, two);
    arena_finish(&arena);
}

Test(arena, copies_from_itself)
{
    struct arena arena = {0};
    char *one = arena_copy(&arena, "moving would break this", 24);
    char *two;

    /* Goal: the copy needs a new chunk while its source lies in the old one. */
    for (int i = 0; i < 20; i++) {
        two = arena_copy(&arena, one, 24);
        cr_assert_str_eq(two, "moving would break this");
        memset(arena_alloc(&arena, ARENA_CHUNK_BYTES / 3), 0, 1);
        one = two;
    }
    arena_finish(&arena);
}

Test(arena, an_outsize_piece_does_not_waste_the_chunk_in_use)
{
    struct arena arena = {0};
    char *before = arena_alloc(&arena, 16);
    char *huge = arena_alloc(&arena, 10 * ARENA_CHUNK_BYTES);
    char *after = arena_alloc(&arena, 16);

    memset(huge, 'x', 10 * ARENA_CHUNK_BYTES);
    cr_assert_eq(after, before + 16);
    arena_finish(&arena);
}

Test(arena, reset_reuses_the_same_memory)
{
    struct arena arena = {0};
    void *first = arena_alloc(&arena, 100);

    for (int round = 0; round < 5; round++) {
        arena_reset(&arena);
        cr_assert_eq(arena_alloc(&arena, 100), first);
    }
    /* A huge first piece is not the one that is kept. */
    arena_finish(&arena);
    memset(arena_alloc(&arena, 2 * ARENA_CHUNK_BYTES), 0, 1);
    arena_reset(&arena);
    cr_assert_null(arena.chunks);
    arena_finish(&arena);
}
