#include "garbage_rig.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct store_fixture garbage_fixture;

struct store_owners garbage_owners(uint32_t partitions, uint32_t processors)
{
    return (struct store_owners){
        .map = {.hash = KEY_HASH_MURMUR2,
                .partitions = {.initial = 16, .now = partitions},
                .processors = {.initial = 4, .now = processors}},
        .hashed = true,
    };
}

void garbage_init(void)
{
    fixture_init(&garbage_fixture);
    garbage_fixture.config.owners = garbage_owners(16, 4);
}

void garbage_finish(void)
{
    fixture_finish(&garbage_fixture);
}

struct store_row garbage_row(uint32_t root, const char *key, const char *subkey)
{
    return (struct store_row){.root = root,
                              .key = key,
                              .key_bytes = strlen(key),
                              .subkey = subkey,
                              .subkey_bytes = strlen(subkey)};
}

void garbage_put(struct store_row row)
{
    store_put(garbage_fixture.store, row, 7, "value", 5);
}

bool garbage_has(struct store_row row)
{
    const void *value;
    size_t bytes;
    struct err error = {0};
    enum err_code code = store_get(garbage_fixture.store, row, INT64_MIN, &value, &bytes, &error);

    cr_assert(code == ERR_NONE || code == ERR_NOT_FOUND, "%s", error.text);
    return code == ERR_NONE;
}

uint64_t garbage_rows(void)
{
    uint64_t rows, bytes;

    store_size(garbage_fixture.store, &rows, &bytes);
    return rows;
}

uint64_t garbage_removed(void)
{
    uint64_t count;
    bool pending;

    store_count_garbage(garbage_fixture.store, &count, &pending);
    return count;
}

bool garbage_is_pending(void)
{
    uint64_t count;
    bool pending;

    store_count_garbage(garbage_fixture.store, &count, &pending);
    return pending;
}

/* Begins a step when one is to be made, and waits for its end. */
void garbage_step(void)
{
    struct err error = {0};

    cr_assert_eq(store_remove_garbage(garbage_fixture.store, INT64_MAX, &error), ERR_NONE, "%s",
                 error.text);
    while (garbage_fixture.store->garbage.running) {
        (void)store_flush_await(garbage_fixture.store, INT64_MAX);
        store_follow_flusher(garbage_fixture.store);
    }
}

void garbage_remove_all(void)
{
    for (int i = 0; garbage_is_pending(); i++) {
        cr_assert_lt(i, ROWS_MAX, "it comes to an end");
        garbage_step();
    }
}

void garbage_freeze(int64_t next_offset)
{
    const struct store_position position = {
        .partition = 3, .root = 3, .next_offset = next_offset, .record_time_ms = -1};

    cr_assert(store_freeze(garbage_fixture.store, &position, 1));
}

void garbage_checkpoint(int64_t next_offset)
{
    struct err error = {0};

    garbage_freeze(next_offset);
    cr_assert_eq(store_flush_wait(garbage_fixture.store, INT64_MAX, &error), ERR_NONE, "%s",
                 error.text);
}

/* A key without a zero byte. */
const char *garbage_name(uint32_t number)
{
    static char name[16];

    snprintf(name, sizeof(name), "key-%" PRIu32, number);
    return name;
}

void garbage_fill(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        garbage_put(garbage_row(i % 2 == 0 ? 3 : 7, garbage_name(i), ""));
    garbage_checkpoint(count);
}
