#include "common/hash/linhash.h"

#include <criterion/criterion.h>

#define INITIAL_MAX 9
#define NOW_MAX     80

/*
 * Linear hashing told step by step, without a formula: each bucket holds the hashes of one residue
 * class. A split halves the class of the bucket under the pointer; when the pointer has been
 * through all, it starts again over twice as many.
 */
struct model {
    struct {
        uint32_t residue, modulus, parent;
    } buckets[NOW_MAX];
    uint32_t initial, count, pointer, level;
};

static void model_init(struct model *model, uint32_t initial)
{
    *model = (struct model){.initial = initial, .count = initial};
    for (uint32_t b = 0; b < initial; b++) {
        model->buckets[b].residue = b;
        model->buckets[b].modulus = initial;
    }
}

static void model_split(struct model *model)
{
    uint32_t parent = model->pointer;
    uint32_t child = model->count;
    uint32_t modulus = model->buckets[parent].modulus;

    model->buckets[child].residue = model->buckets[parent].residue + modulus;
    model->buckets[child].modulus = 2 * modulus;
    model->buckets[child].parent = parent;
    model->buckets[parent].modulus = 2 * modulus;
    model->count++;
    model->pointer++;
    if (model->pointer == model->initial << model->level) {
        model->pointer = 0;
        model->level++;
    }
}

static uint32_t model_bucket(const struct model *model, uint32_t hash)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t b = 0; b < model->count; b++) {
        if (hash % model->buckets[b].modulus == model->buckets[b].residue) {
            cr_assert_eq(found, UINT32_MAX, "hash %u is in two buckets of the model", hash);
            found = b;
        }
    }
    cr_assert_neq(found, UINT32_MAX, "hash %u is in no bucket of the model", hash);
    return found;
}

static void assert_as_model(const struct model *model, uint32_t hash)
{
    struct linhash_size size = {.initial = model->initial, .now = model->count};
    uint32_t bucket = linhash_bucket(hash, size);
    cr_assert_eq(bucket, model_bucket(model, hash), "hash %u over (%u, %u): bucket %u", hash,
                 size.initial, size.now, bucket);
}

Test(linhash, equals_splitting_step_by_step)
{
    for (uint32_t initial = 1; initial <= INITIAL_MAX; initial++) {
        struct model model;
        for (model_init(&model, initial);; model_split(&model)) {
            struct linhash_size size = {.initial = initial, .now = model.count};
            cr_assert_eq(linhash_level(size), model.level);
            cr_assert_eq(linhash_split_pointer(size), model.pointer);
            for (uint32_t hash = 0; hash < 3 * model.count; hash++) {
                assert_as_model(&model, hash);
                assert_as_model(&model, UINT32_MAX - hash);
                assert_as_model(&model, (UINT32_MAX >> 1) - hash);
            }
            if (model.count == NOW_MAX)
                break;
        }
        for (uint32_t b = initial; b < NOW_MAX; b++)
            cr_assert_eq(linhash_parent(b, initial), model.buckets[b].parent);
    }
}

/* The formula as D2 has it, with a level that is counted and not computed. */
static uint32_t closed_form(uint32_t hash, uint32_t initial, uint32_t now)
{
    uint64_t width = initial; /* n0 * 2^L */
    while (2 * width <= now)
        width *= 2;
    uint64_t a = hash % width;
    if (a < now - width)
        a = hash % (2 * width);
    return (uint32_t)a;
}

Test(linhash, equals_its_closed_form)
{
    for (uint32_t initial = 1; initial <= INITIAL_MAX; initial++) {
        for (uint32_t now = initial; now <= NOW_MAX; now++) {
            struct linhash_size size = {.initial = initial, .now = now};
            for (uint32_t hash = 0; hash < 6 * NOW_MAX; hash++) {
                uint32_t spread = hash * UINT32_C(2654435761);
                cr_assert_eq(linhash_bucket(hash, size), closed_form(hash, initial, now));
                cr_assert_eq(linhash_bucket(spread, size), closed_form(spread, initial, now));
            }
        }
    }
}

Test(linhash, growing_by_one_moves_only_from_the_parent_to_the_new_bucket)
{
    for (uint32_t initial = 1; initial <= INITIAL_MAX; initial++) {
        for (uint32_t now = initial; now < NOW_MAX; now++) {
            struct linhash_size before = {.initial = initial, .now = now};
            struct linhash_size after = {.initial = initial, .now = now + 1};
            uint32_t moved = 0;
            for (uint32_t hash = 0; hash < 4 * NOW_MAX; hash++) {
                uint32_t from = linhash_bucket(hash, before);
                uint32_t to = linhash_bucket(hash, after);
                if (from == to)
                    continue;
                moved++;
                cr_assert_eq(to, now);
                cr_assert_eq(from, linhash_parent(now, initial));
                cr_assert_eq(from, linhash_split_pointer(before));
            }
            cr_assert_gt(moved, 0, "nothing moved from (%u, %u)", initial, now);
        }
    }
}

static uint32_t processor_of(uint32_t hash, struct linhash_size partitions,
                             struct linhash_size processors)
{
    return linhash_bucket(linhash_bucket(hash, partitions), processors);
}

/* Some hash's processor changes when partitions grow by one. */
static bool state_moves(uint32_t hash_max, struct linhash_size partitions,
                        struct linhash_size processors)
{
    struct linhash_size more = {partitions.initial, partitions.now + 1};
    for (uint32_t hash = 0; hash < hash_max; hash++)
        if (processor_of(hash, partitions, processors) != processor_of(hash, more, processors))
            return true;
    return false;
}

static bool is_doubling(uint32_t initial, uint32_t of)
{
    uint32_t width = of;
    while (width < initial)
        width *= 2;
    return width == initial;
}

/* The first rule of D2: no state moves, whatever N and M become, exactly when N0 = M0 * 2^j. */
Test(linhash, growing_partitions_moves_no_state_exactly_when_they_began_as_a_doubling)
{
    enum { SMALL = 9, GROWN = 40 };
    for (uint32_t n0 = 1; n0 <= SMALL; n0++) {
        for (uint32_t m0 = 1; m0 <= n0; m0++) {
            bool moves = false;
            for (uint32_t n = n0; n < GROWN; n++)
                for (uint32_t m = m0; m <= n; m++)
                    moves = moves || state_moves(4 * GROWN, (struct linhash_size){n0, n},
                                                 (struct linhash_size){m0, m});
            cr_assert_eq(moves, !is_doubling(n0, m0), "N0 = %u, M0 = %u", n0, m0);
        }
    }
}

/* The second: a new processor's partitions come from its parent alone, and all others stay. */
Test(linhash, growing_processors_moves_partitions_from_one_parent_to_the_new_one)
{
    enum { PARTITIONS = 64 };
    for (uint32_t m0 = 1; m0 <= INITIAL_MAX; m0++) {
        for (uint32_t m = m0; m < PARTITIONS; m++) {
            struct linhash_size before = {m0, m}, after = {m0, m + 1};
            for (uint32_t partition = 0; partition < PARTITIONS; partition++) {
                uint32_t from = linhash_bucket(partition, before);
                uint32_t to = linhash_bucket(partition, after);
                if (from == to)
                    continue;
                cr_assert_eq(to, m);
                cr_assert_eq(from, linhash_parent(m, m0));
            }
        }
    }
}

Test(linhash, equals_modulo_for_every_doubling)
{
    for (uint32_t initial = 1; initial <= INITIAL_MAX; initial++) {
        for (uint32_t level = 0; level <= 28; level++) {
            struct linhash_size size = {.initial = initial, .now = initial << level};
            cr_assert_eq(linhash_level(size), level);
            cr_assert_eq(linhash_split_pointer(size), 0);
            for (uint32_t step = 0; step < 200; step++) {
                uint32_t hash = step * UINT32_C(2654435761); /* spreads over all 32 bits */
                cr_assert_eq(linhash_bucket(hash, size), hash % size.now);
            }
        }
    }
}

Test(linhash, the_root_of_a_hash_never_changes)
{
    for (uint32_t initial = 1; initial <= INITIAL_MAX; initial++) {
        for (uint32_t hash = 0; hash < 500; hash++) {
            for (uint32_t now = initial; now <= NOW_MAX; now++) {
                struct linhash_size size = {.initial = initial, .now = now};
                cr_assert_eq(linhash_root(linhash_bucket(hash, size), initial), hash % initial);
            }
        }
    }
}

/* What the read set of a new processor needs: whoever ever held a key of this bucket is an
 * ancestor. */
Test(linhash, every_earlier_bucket_of_a_hash_is_an_ancestor)
{
    for (uint32_t initial = 1; initial <= INITIAL_MAX; initial++) {
        for (uint32_t hash = 0; hash < 200; hash++) {
            struct linhash_size size = {.initial = initial, .now = NOW_MAX};
            uint32_t bucket = linhash_bucket(hash, size);
            uint32_t ancestors[32];
            uint32_t count = linhash_ancestors(bucket, initial, ancestors);
            uint32_t found = 0; /* nearest first, as buckets are met when now goes down */
            for (uint32_t at = bucket; size.now > initial;) {
                size.now--;
                uint32_t earlier = linhash_bucket(hash, size);
                if (earlier == at)
                    continue;
                cr_assert_lt(found, count);
                cr_assert_eq(ancestors[found], earlier);
                found++;
                at = earlier;
            }
            cr_assert_eq(found, count, "bucket %u over %u has an ancestor that held no such hash",
                         bucket, initial);
        }
    }
}

Test(linhash, ancestors_end_with_the_root)
{
    static const struct {
        uint32_t bucket, initial, count, ancestors[4];
    } cases[] = {
        {0, 1, 0, {0}},        {5, 6, 0, {0}},        {6, 6, 1, {0}},     {11, 6, 1, {5}},
        {13, 1, 3, {5, 1, 0}}, {14, 2, 3, {6, 2, 0}}, {29, 3, 2, {5, 2}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t ancestors[32];
        uint32_t count = linhash_ancestors(cases[i].bucket, cases[i].initial, ancestors);
        cr_assert_eq(count, cases[i].count, "case %zu: %u ancestors", i, count);
        for (uint32_t a = 0; a < count; a++)
            cr_assert_eq(ancestors[a], cases[i].ancestors[a], "case %zu, ancestor %u", i, a);
        uint32_t root = count > 0 ? ancestors[count - 1] : cases[i].bucket;
        cr_assert_eq(linhash_root(cases[i].bucket, cases[i].initial), root);
    }
}

Test(linhash, products_past_32_bits_do_not_wrap)
{
    struct linhash_size all = {.initial = 1, .now = UINT32_MAX};
    uint32_t ancestors[32];

    cr_assert_eq(linhash_level(all), 31);
    cr_assert_eq(linhash_split_pointer(all), UINT32_C(0x7fffffff));
    cr_assert_eq(linhash_bucket(UINT32_MAX, all), UINT32_C(0x7fffffff));
    cr_assert_eq(linhash_bucket(UINT32_MAX - 1, all), UINT32_MAX - 1);
    cr_assert_eq(linhash_ancestors(UINT32_MAX, 1, ancestors), 32);
    cr_assert_eq(ancestors[0], UINT32_C(0x7fffffff));
    cr_assert_eq(ancestors[31], 0);

    struct linhash_size wide = {.initial = UINT32_C(3000000000), .now = UINT32_C(3000000001)};
    cr_assert_eq(linhash_level(wide), 0);
    cr_assert_eq(linhash_split_pointer(wide), 1);
    cr_assert_eq(linhash_bucket(UINT32_C(3000000000), wide), UINT32_C(3000000000));
    cr_assert_eq(linhash_bucket(UINT32_C(3000000001), wide), 1);
    cr_assert_eq(linhash_parent(UINT32_C(4000000000), UINT32_C(3000000000)), UINT32_C(1000000000));
}
