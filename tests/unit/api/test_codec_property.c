/*
 * Properties of the codec that hold for every type, walked by the tables with random values and
 * random damage. A failure names the type and the seed, which repeat it.
 */
#include "api/codec.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/unit/api/random_value.h"

#define SEEDS 60

struct sample { /* a random value of a type, and its text */
    const struct schema_type *type;
    uint64_t seed;
    struct rng rng;
    void *value;
    char *text;
    size_t bytes;
};

static void sample_init(struct sample *sample, const struct schema_type *type, uint64_t seed)
{
    *sample = (struct sample){.type = type, .seed = seed, .value = mem_calloc(1, type->bytes)};
    rng_init(&sample->rng, seed);
    random_value(type, &sample->rng, sample->value);
    sample->text = codec_encode(type, sample->value, &sample->bytes);
}

static void sample_finish(struct sample *sample)
{
    schema_free(sample->type, sample->value);
    free(sample->value);
    free(sample->text);
}

static void for_every_type(void (*act)(struct sample *sample))
{
    const struct schema_type *type;
    for (size_t i = 0; (type = schema_type_at(i)) != NULL; i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct sample sample;
            sample_init(&sample, type, seed);
            act(&sample);
            sample_finish(&sample);
        }
    }
}

#define ABOUT(sample) (sample)->type->name, (unsigned long long)(sample)->seed

/* ---- round trip */

static void check_round_trip(struct sample *sample)
{
    cr_assert_eq(sample->bytes, strlen(sample->text));
    void *again = mem_calloc(1, sample->type->bytes);
    struct err err = {0};
    struct codec_faults faults = {0};
    enum err_code code =
        codec_decode(sample->type, sample->text, sample->bytes, again, &faults, &err);
    cr_assert_eq(code, ERR_NONE, "%s seed %llu: %s in %s", ABOUT(sample), err.text, sample->text);
    cr_assert(schema_equal(sample->type, sample->value, again), "%s seed %llu", ABOUT(sample));

    char *text = codec_encode(sample->type, again, NULL);
    cr_assert_str_eq(text, sample->text, "%s seed %llu", ABOUT(sample));
    free(text);
    schema_free(sample->type, again);
    free(again);
}

Test(codec_property, every_type_survives_a_round_trip)
{
    for_every_type(check_round_trip);
}

static void check_copy(struct sample *sample)
{
    void *copy = mem_calloc(1, sample->type->bytes);
    schema_copy(sample->type, copy, sample->value);
    cr_assert(schema_equal(sample->type, sample->value, copy), "%s seed %llu", ABOUT(sample));
    schema_free(sample->type, sample->value); /* the copy owns all that it has */
    char *text = codec_encode(sample->type, copy, NULL);
    cr_assert_str_eq(text, sample->text, "%s seed %llu", ABOUT(sample));
    free(text);
    schema_free(sample->type, copy);
    free(copy);
}

Test(codec_property, a_copy_is_equal_and_apart)
{
    for_every_type(check_copy);
}

/* ---- damage: never a crash, never a leak, and what is accepted is stable */

static void check_decode(struct sample *sample, const char *text, size_t bytes)
{
    void *value = mem_calloc(1, sample->type->bytes);
    struct err err = {0};
    struct codec_faults faults = {0};
    enum err_code code = codec_decode(sample->type, text, bytes, value, &faults, &err);
    if (code == ERR_NONE) {
        char *first = codec_encode(sample->type, value, NULL);
        void *again = mem_calloc(1, sample->type->bytes);
        cr_assert_eq(codec_decode(sample->type, first, strlen(first), again, &faults, &err),
                     ERR_NONE, "%s seed %llu: %s", ABOUT(sample), err.text);
        char *second = codec_encode(sample->type, again, NULL);
        cr_assert_str_eq(first, second, "%s seed %llu", ABOUT(sample));
        free(first);
        free(second);
        schema_free(sample->type, again);
        free(again);
        schema_free(sample->type, value);
    } else {
        cr_assert(code == ERR_PROTOCOL || code == ERR_INVALID);
        cr_assert_eq(err.code, code);
        cr_assert_neq(err.text[0], '\0');
        cr_assert_eq(faults.count > 0, code == ERR_INVALID, "%s seed %llu", ABOUT(sample));
        cr_assert_leq(faults.count, CODEC_FAULTS_MAX);
    }
    for (size_t i = 0; i < faults.count; i++) {
        cr_assert(faults.items[i].pointer[0] == '\0' || faults.items[i].pointer[0] == '/');
        cr_assert_leq(strlen(faults.items[i].pointer), API_TEXT_BYTES_MAX);
        cr_assert_leq(strlen(faults.items[i].detail), API_TEXT_BYTES_MAX);
    }
    codec_faults_finish(&faults);
    free(value);
}

/* Bytes that mean something to JSON find more than any bytes would. */
static void set_random_byte(char *place, struct rng *rng)
{
    static const char bytes[] = "\"\\{}[]:,0-9.eE+ntfu/ \n\x00\x7f\xc3\xff";
    uint64_t any = rng_next(rng);
    if (rng_below(rng, 3) == 0)
        memcpy(place, &any, 1);
    else
        *place = bytes[rng_below(rng, sizeof(bytes) - 1)];
}

static void check_damage(struct sample *sample)
{
    char *text = mem_memdup(sample->text, sample->bytes);
    size_t bytes = sample->bytes;
    uint64_t times = 1 + rng_below(&sample->rng, 3);
    for (uint64_t i = 0; i < times; i++) {
        size_t at = (size_t)rng_below(&sample->rng, bytes);
        switch (rng_below(&sample->rng, 3)) {
        case 0:
            set_random_byte(text + at, &sample->rng);
            break;
        case 1: /* one less */
            memmove(text + at, text + at + 1, bytes - at - 1);
            bytes -= bytes > 1;
            break;
        default: /* cut */
            bytes = at > 0 ? at : 1;
            break;
        }
    }
    check_decode(sample, text, bytes);
    free(text);
}

Test(codec_property, damaged_bytes_are_refused_or_stable)
{
    for (int round = 0; round < 3; round++)
        for_every_type(check_damage);
}

/* ---- a value of another type: the fault points at it */

struct spot { /* a value inside a document */
    json_t *parent;
    const char *name; /* in an object */
    size_t index;     /* in a list */
    char pointer[512];
};

/* Picks one of the values below `json` at random, each equally likely (reservoir sampling). */
static void pick(json_t *json, const char *pointer, struct rng *rng, size_t *seen,
                 struct spot *ret_spot)
{
    const char *name;
    json_t *child;
    size_t index;
    char below[sizeof(ret_spot->pointer)];
    json_object_foreach(json, name, child)
    {
        (void)snprintf(below, sizeof(below), "%s/%s", pointer, name);
        if (rng_below(rng, ++*seen) == 0) {
            *ret_spot = (struct spot){.parent = json, .name = name};
            memcpy(ret_spot->pointer, below, sizeof(below));
        }
        pick(child, below, rng, seen, ret_spot);
    }
    json_array_foreach(json, index, child)
    {
        (void)snprintf(below, sizeof(below), "%s/%zu", pointer, index);
        if (rng_below(rng, ++*seen) == 0) {
            *ret_spot = (struct spot){.parent = json, .index = index};
            memcpy(ret_spot->pointer, below, sizeof(below));
        }
        pick(child, below, rng, seen, ret_spot);
    }
}

static json_t *spot_value(const struct spot *spot)
{
    return json_is_object(spot->parent) ? json_object_get(spot->parent, spot->name)
                                        : json_array_get(spot->parent, spot->index);
}

static void spot_set(const struct spot *spot, json_t *value)
{
    if (json_is_object(spot->parent))
        json_object_set_new(spot->parent, spot->name, value);
    else
        json_array_set_new(spot->parent, spot->index, value);
}

/* Something that no field which holds `old` may hold. */
static json_t *other_type(const json_t *old, struct rng *rng)
{
    if (json_is_string(old) || json_is_null(old))
        return rng_below(rng, 2) == 0 ? json_true() : json_pack("{s:i}", "x", 1);
    if (json_is_number(old))
        return rng_below(rng, 2) == 0 ? json_string("1") : json_pack("[i]", 1);
    if (json_is_boolean(old))
        return rng_below(rng, 2) == 0 ? json_null() : json_integer(1);
    return rng_below(rng, 2) == 0 ? json_null() : json_string("");
}

static void check_swap(struct sample *sample)
{
    json_t *json = json_loads(sample->text, 0, NULL);
    cr_assert_not_null(json);
    struct spot spot = {0};
    size_t seen = 0;
    pick(json, "", &sample->rng, &seen, &spot);
    if (seen > 0 && strstr(spot.pointer, "/config/") == NULL) { /* a config is free inside */
        spot_set(&spot, other_type(spot_value(&spot), &sample->rng));
        char *text = json_dumps(json, 0);
        void *value = mem_calloc(1, sample->type->bytes);
        struct codec_faults faults = {0};
        struct err err = {0};
        cr_assert_eq(codec_decode(sample->type, text, strlen(text), value, &faults, &err),
                     ERR_INVALID, "%s seed %llu: accepted at %s: %s", ABOUT(sample), spot.pointer,
                     text);
        cr_assert_eq(faults.count, 1, "%s seed %llu: %s", ABOUT(sample), err.text);
        cr_assert_str_eq(faults.items[0].pointer, spot.pointer, "%s seed %llu", ABOUT(sample));
        codec_faults_finish(&faults);
        free(value);
        free(text);
    }
    json_decref(json);
}

Test(codec_property, a_value_of_another_type_is_pointed_at)
{
    for (int round = 0; round < 3; round++)
        for_every_type(check_swap);
}

/* ---- every field of every type, one at a time */

static void decode_expecting(struct sample *sample, json_t *json, enum err_code expected,
                             const char *pointer, const char *words)
{
    char *text = json_dumps(json, 0);
    void *value = mem_calloc(1, sample->type->bytes);
    struct codec_faults faults = {0};
    struct err err = {0};
    enum err_code code = codec_decode(sample->type, text, strlen(text), value, &faults, &err);
    cr_assert_eq(code, expected, "%s%s: %s", sample->type->name, pointer, err.text);
    if (code == ERR_NONE) {
        schema_free(sample->type, value);
    } else {
        cr_assert_eq(faults.count, 1, "%s%s", sample->type->name, pointer);
        cr_assert_str_eq(faults.items[0].pointer, pointer);
        cr_assert_not_null(strstr(faults.items[0].detail, words), "%s%s: %s", sample->type->name,
                           pointer, faults.items[0].detail);
    }
    codec_faults_finish(&faults);
    free(value);
    free(text);
}

static void check_absent(struct sample *sample)
{
    for (size_t i = 0; i < sample->type->field_count; i++) {
        const struct schema_field *field = &sample->type->fields[i];
        json_t *json = json_loads(sample->text, 0, NULL);
        char *pointer = mem_printf("/%s", field->name);
        json_object_del(json, field->name);
        decode_expecting(sample, json, field->required ? ERR_INVALID : ERR_NONE, pointer,
                         "is required and must be ");
        free(pointer);
        json_decref(json);
    }
}

static void check_null(struct sample *sample)
{
    for (size_t i = 0; i < sample->type->field_count; i++) {
        const struct schema_field *field = &sample->type->fields[i];
        json_t *json = json_loads(sample->text, 0, NULL);
        char *pointer = mem_printf("/%s", field->name);
        json_object_set_new(json, field->name, json_null());
        decode_expecting(sample, json, schema_nullable(field) ? ERR_NONE : ERR_INVALID, pointer,
                         ", not null");
        free(pointer);
        json_decref(json);
    }
}

static void check_misspelt(struct sample *sample)
{
    for (size_t i = 0; i < sample->type->field_count; i++) {
        const struct schema_field *field = &sample->type->fields[i];
        json_t *json = json_loads(sample->text, 0, NULL);
        char *name = mem_printf("%sx", field->name);
        char *pointer = mem_printf("/%s", name);
        char *words = mem_printf("did you mean \"%s\"?", field->name);
        json_object_set_new(json, name, json_integer(1));
        decode_expecting(sample, json, ERR_INVALID, pointer, words);
        free(words);
        free(pointer);
        free(name);
        json_decref(json);
    }
}

static bool is_integer(enum schema_kind kind)
{
    return kind == SCHEMA_UINT32 || kind == SCHEMA_UINT64 || kind == SCHEMA_INT64 ||
           kind == SCHEMA_KNOWABLE;
}

static void check_range(struct sample *sample, const struct schema_field *field, int64_t number,
                        bool allowed)
{
    json_t *json = json_loads(sample->text, 0, NULL);
    char *pointer = mem_printf("/%s", field->name);
    json_object_set_new(json, field->name, json_integer(number));
    decode_expecting(sample, json, allowed ? ERR_NONE : ERR_INVALID, pointer, "from ");
    free(pointer);
    json_decref(json);
}

static void check_ranges(struct sample *sample)
{
    for (size_t i = 0; i < sample->type->field_count; i++) {
        const struct schema_field *field = &sample->type->fields[i];
        if (!is_integer(field->kind))
            continue;
        check_range(sample, field, field->min, true);
        check_range(sample, field, field->max, true);
        check_range(sample, field, field->min - 1, false);
        if (field->max < INT64_MAX)
            check_range(sample, field, field->max + 1, false);
    }
}

static void once_for_every_type(void (*act)(struct sample *sample))
{
    const struct schema_type *type;
    for (size_t i = 0; (type = schema_type_at(i)) != NULL; i++) {
        struct sample sample;
        sample_init(&sample, type, 7);
        act(&sample);
        sample_finish(&sample);
    }
}

Test(codec_property, an_absent_field_is_required_or_has_a_default)
{
    once_for_every_type(check_absent);
}

Test(codec_property, null_is_allowed_where_the_schema_says)
{
    once_for_every_type(check_null);
}

Test(codec_property, a_misspelt_field_is_named_with_what_was_meant)
{
    once_for_every_type(check_misspelt);
}

Test(codec_property, ranges_hold_at_their_ends)
{
    once_for_every_type(check_ranges);
}
