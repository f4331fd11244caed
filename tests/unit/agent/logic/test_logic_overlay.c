#include "agent/logic_overlay.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/rng.h"

static struct baton_bytes text_bytes(const char *text)
{
    return (struct baton_bytes){.data = text, .bytes = text != NULL ? strlen(text) : 0};
}

/* 3 bytes, in the order of the number. */
static struct baton_bytes number_bytes(uint32_t number, unsigned char room[3])
{
    room[0] = (unsigned char)(number >> 16);
    room[1] = (unsigned char)(number >> 8);
    room[2] = (unsigned char)number;
    return (struct baton_bytes){.data = room, .bytes = 3};
}

Test(logic_overlay, subkeys_are_ordered_bytewise_with_prefixes_first)
{
    static const char *const ordered[] = {"", "a", "aa", "ab", "b", "\x7f", "\x80", "\xff"};
    const size_t count = sizeof(ordered) / sizeof(ordered[0]);

    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            int order = logic_overlay_compare(text_bytes(ordered[i]), text_bytes(ordered[j]));

            cr_assert_eq((order > 0) - (order < 0), (i > j) - (i < j), "%zu %zu", i, j);
        }
    }
    cr_assert_eq(logic_overlay_compare(text_bytes(NULL), text_bytes("")), 0);
}

Test(logic_overlay, an_empty_one_finds_and_walks_nothing)
{
    struct logic_overlay overlay = {.root = 0};
    struct logic_overlay_cursor cursor;
    struct baton_bytes value;

    cr_assert_not(logic_overlay_find(&overlay, text_bytes("a"), &value));
    logic_overlay_walk(&cursor, &overlay);
    cr_assert_null(logic_overlay_peek(&cursor));
    logic_overlay_reset(&overlay);
    logic_overlay_finish(&overlay);
}

Test(logic_overlay, the_last_change_of_a_subkey_counts)
{
    struct logic_overlay overlay = {.root = 0};
    struct baton_bytes value = {.data = NULL};

    logic_overlay_set(&overlay, text_bytes("a"), text_bytes("1"));
    logic_overlay_set(&overlay, text_bytes("a"), text_bytes(NULL));
    cr_assert(logic_overlay_find(&overlay, text_bytes("a"), &value));
    cr_assert_null(value.data);
    logic_overlay_set(&overlay, text_bytes("a"), text_bytes(""));
    cr_assert(logic_overlay_find(&overlay, text_bytes("a"), &value));
    cr_assert_not_null(value.data);
    cr_assert_eq(value.bytes, 0);
    logic_overlay_reset(&overlay);
    cr_assert_not(logic_overlay_find(&overlay, text_bytes("a"), &value));
    logic_overlay_finish(&overlay);
}

#define NUMBERS 20000

struct model { /* for each number: 0 unchanged, 1 deleted, else the value + 2 */
    uint32_t values[NUMBERS];
};

static void check_against(const struct logic_overlay *overlay, const struct model *model)
{
    struct logic_overlay_cursor cursor;
    unsigned char room[3];

    logic_overlay_walk(&cursor, overlay);
    for (uint32_t number = 0; number < NUMBERS; number++) {
        struct baton_bytes subkey = number_bytes(number, room), value = {.data = NULL};
        bool found = logic_overlay_find(overlay, subkey, &value);
        const struct logic_overlay_change *change = logic_overlay_peek(&cursor);
        uint32_t expected = model->values[number];

        cr_assert_eq(found, expected != 0);
        if (!found)
            continue;
        cr_assert_eq(logic_overlay_compare(change->subkey, subkey), 0);
        cr_assert_eq(change->value.data, value.data);
        cr_assert_eq(value.data == NULL, expected == 1);
        if (expected > 1) {
            cr_assert_eq(value.bytes, sizeof(uint32_t));
            cr_assert_eq(*(const uint32_t *)value.data, expected - 2); /* the arena aligns */
        }
        logic_overlay_next(&cursor);
    }
    cr_assert_null(logic_overlay_peek(&cursor));
}

static void change(struct logic_overlay *overlay, struct model *model, uint32_t number,
                   uint32_t value)
{
    unsigned char room[3];
    uint32_t content = value - 2;
    struct baton_bytes bytes = {.data = NULL};

    if (value > 1)
        bytes = (struct baton_bytes){.data = &content, .bytes = sizeof(content)};
    logic_overlay_set(overlay, number_bytes(number, room), bytes);
    model->values[number] = value;
}

Test(logic_overlay, behaves_like_a_sorted_map_in_every_order_of_insertion)
{
    struct logic_overlay overlay = {.root = 0};
    struct model *model = mem_calloc(1, sizeof(*model));
    struct rng rng;

    rng_init(&rng, 7);
    for (int round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < NUMBERS; i++) {
            uint32_t number = (uint32_t)rng_below(&rng, NUMBERS);

            if (round == 0)
                number = i; /* ascending: the depth of an unbalanced tree would be 20,000 */
            else if (round == 1)
                number = NUMBERS - 1 - i;
            else if (round == 2)
                number = i % 2 == 0 ? i / 2 : NUMBERS - 1 - i / 2;
            change(&overlay, model, number, 1 + (uint32_t)rng_below(&rng, 1000));
        }
        check_against(&overlay, model);
        logic_overlay_reset(&overlay);
        memset(model, 0, sizeof(*model));
        check_against(&overlay, model);
    }
    logic_overlay_finish(&overlay);
    free(model);
}

Test(logic_overlay, small_calls_reuse_the_same_memory)
{
    struct logic_overlay overlay = {.root = 0};
    const struct logic_overlay_node *nodes;
    struct baton_bytes first = {.data = NULL}, value = {.data = NULL};

    logic_overlay_set(&overlay, text_bytes(""), text_bytes("value"));
    cr_assert(logic_overlay_find(&overlay, text_bytes(""), &first));
    nodes = overlay.nodes;
    for (int i = 0; i < 10; i++) {
        logic_overlay_reset(&overlay);
        logic_overlay_set(&overlay, text_bytes(""), text_bytes("value"));
        cr_assert(logic_overlay_find(&overlay, text_bytes(""), &value));
        cr_assert_eq(value.data, first.data);
        cr_assert_eq(overlay.nodes, nodes);
    }
    logic_overlay_finish(&overlay);
}

Test(logic_overlay, a_huge_call_does_not_keep_its_memory)
{
    struct logic_overlay overlay = {.root = 0};
    unsigned char room[3];

    for (uint32_t i = 0; i < NUMBERS; i++)
        logic_overlay_set(&overlay, number_bytes(i, room), text_bytes("x"));
    logic_overlay_reset(&overlay);
    cr_assert_eq(overlay.node_capacity, 0);
    cr_assert_null(overlay.nodes);
    logic_overlay_finish(&overlay);
}
