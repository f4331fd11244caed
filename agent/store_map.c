#include "agent/store_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/mem.h"
#include "common/rng.h"

#define SLOTS_CAPACITY_MIN ((size_t)256)
#define ARENA_ALIGN        ((size_t)16) /* of common/arena.h: what a piece really takes */

static size_t aligned(size_t bytes)
{
    return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

/* ---- hash table -------------------------------------------------------------------------------
 */

static void slots_insert(struct store_slot *items, size_t capacity, struct store_slot slot)
{
    size_t index = slot.hash & (capacity - 1);

    while (items[index].entry != NULL)
        index = (index + 1) & (capacity - 1);
    items[index] = slot;
}

/* At most five eighths full: linear probing stays short. */
static void slots_make_room(struct store_slots *slots)
{
    size_t capacity = slots->capacity == 0 ? SLOTS_CAPACITY_MIN : slots->capacity * 2;
    struct store_slot *items;

    if (slots->count < slots->capacity / 8 * 5)
        return;
    items = mem_calloc(capacity, sizeof(*items));
    for (size_t i = 0; i < slots->capacity; i++) {
        if (slots->items[i].entry != NULL)
            slots_insert(items, capacity, slots->items[i]);
    }
    free(slots->items);
    slots->items = items;
    slots->capacity = capacity;
}

static void slots_add(struct store_slots *slots, uint64_t hash, struct store_entry *entry)
{
    slots_make_room(slots);
    slots_insert(slots->items, slots->capacity, (struct store_slot){.hash = hash, .entry = entry});
    slots->count++;
}

static void slots_clear(struct store_slots *slots)
{
    free(slots->items);
    *slots = (struct store_slots){0};
}

/* ---- entries ----------------------------------------------------------------------------------
 */

static bool is_of_key(const struct store_entry *entry, const struct store_row *row)
{
    return entry->root == row->root && entry->key_bytes == row->key_bytes &&
           (row->key_bytes == 0 || memcmp(entry->bytes, row->key, row->key_bytes) == 0);
}

static bool is_row(const struct store_entry *entry, const struct store_row *row)
{
    return is_of_key(entry, row) && entry->subkey_bytes == row->subkey_bytes &&
           (row->subkey_bytes == 0 ||
            memcmp(store_entry_subkey(entry), row->subkey, row->subkey_bytes) == 0);
}

static struct store_slot *find_key(const struct store_map *map, const struct store_row *row,
                                   uint64_t hash)
{
    const struct store_slots *slots = &map->keys;
    size_t index = hash & (slots->capacity - 1);

    if (slots->capacity == 0)
        return NULL;
    for (; slots->items[index].entry != NULL; index = (index + 1) & (slots->capacity - 1)) {
        if (slots->items[index].hash == hash && is_of_key(slots->items[index].entry, row))
            return &slots->items[index];
    }
    return NULL;
}

static struct store_entry *find_row(const struct store_map *map, const struct store_row *row,
                                    uint64_t hash)
{
    const struct store_slots *slots = &map->rows;
    size_t index = hash & (slots->capacity - 1);

    if (slots->capacity == 0)
        return NULL;
    for (; slots->items[index].entry != NULL; index = (index + 1) & (slots->capacity - 1)) {
        if (slots->items[index].hash == hash && is_row(slots->items[index].entry, row))
            return slots->items[index].entry;
    }
    return NULL;
}

/* The key's part of the hash, with the root and the length in the seed: no copy is made. */
static uint64_t hash_of_key(const struct store_map *map, const struct store_row *row)
{
    const uint64_t seed = map->seed ^ ((uint64_t)row->root << 32) ^ row->key_bytes;

    return XXH3_64bits_withSeed(row->key, row->key_bytes, seed);
}

static void *take_memory(struct store_map *map, size_t bytes)
{
    map->arena_bytes += aligned(bytes);
    return arena_alloc(&map->arena, bytes);
}

static void link_to_key(struct store_map *map, const struct store_row *row,
                        struct store_entry *entry)
{
    const uint64_t hash = hash_of_key(map, row);
    struct store_slot *slot = find_key(map, row, hash);

    if (slot == NULL) {
        slots_add(&map->keys, hash, entry);
        return;
    }
    entry->next_of_key = slot->entry;
    slot->entry = entry;
}

static struct store_entry *add_entry(struct store_map *map, const struct store_row *row,
                                     uint64_t hash, size_t value_bytes)
{
    const size_t fixed = sizeof(struct store_entry) + row->key_bytes + row->subkey_bytes;
    const size_t bytes = aligned(fixed + value_bytes);
    struct store_entry *entry = take_memory(map, bytes);

    *entry = (struct store_entry){.hash = hash,
                                  .root = row->root,
                                  .key_bytes = (uint32_t)row->key_bytes,
                                  .subkey_bytes = (uint32_t)row->subkey_bytes,
                                  .value_capacity = (uint32_t)(bytes - fixed)};
    if (row->key_bytes > 0)
        memcpy(entry->bytes, row->key, row->key_bytes);
    if (row->subkey_bytes > 0)
        memcpy(entry->bytes + row->key_bytes, row->subkey, row->subkey_bytes);
    entry->value = entry->bytes + row->key_bytes + row->subkey_bytes;
    slots_add(&map->rows, hash, entry);
    if (row->subkey_bytes > 0)
        link_to_key(map, row, entry);
    return entry;
}

/* Room doubles, so a value that grows byte by byte wastes no more than it takes. */
static unsigned char *room_for_value(struct store_map *map, struct store_entry *entry, size_t bytes)
{
    size_t capacity = (size_t)entry->value_capacity * 2;

    if (bytes <= entry->value_capacity)
        return entry->value;
    capacity = aligned(capacity < bytes ? bytes : capacity);
    entry->value_capacity = (uint32_t)capacity;
    return take_memory(map, capacity);
}

/* ---- interface --------------------------------------------------------------------------------
 */

void store_map_init(struct store_map *map)
{
    *map = (struct store_map){0};
    rng_bytes(&map->seed, sizeof(map->seed));
}

void store_map_clear(struct store_map *map)
{
    slots_clear(&map->rows);
    slots_clear(&map->keys);
    arena_finish(&map->arena);
    map->arena_bytes = 0;
}

size_t store_map_bytes(const struct store_map *map)
{
    return map->arena_bytes + (map->rows.capacity + map->keys.capacity) * sizeof(struct store_slot);
}

uint64_t store_map_hash(const struct store_map *map, const struct store_row *row)
{
    const uint64_t hash = hash_of_key(map, row);

    return row->subkey_bytes == 0 ? hash
                                  : XXH3_64bits_withSeed(row->subkey, row->subkey_bytes, hash);
}

const struct store_entry *store_map_find(const struct store_map *map, const struct store_row *row,
                                         uint64_t hash)
{
    return find_row(map, row, hash);
}

void store_map_put(struct store_map *map, const struct store_row *row, uint64_t hash,
                   int64_t record_time_ms, const void *value, size_t bytes)
{
    struct store_entry *entry = find_row(map, row, hash);
    unsigned char *room;

    if (entry == NULL)
        entry = add_entry(map, row, hash, bytes);
    room = room_for_value(map, entry, bytes);
    if (bytes > 0)
        memmove(room, value, bytes); /* the value may be the very one that is replaced */
    entry->value = room;
    entry->value_bytes = (uint32_t)bytes;
    entry->record_time_ms = record_time_ms;
    entry->deleted = false;
}

void store_map_delete(struct store_map *map, const struct store_row *row, uint64_t hash)
{
    struct store_entry *entry = find_row(map, row, hash);

    if (entry == NULL)
        entry = add_entry(map, row, hash, 0);
    entry->value_bytes = 0;
    entry->deleted = true;
}

const struct store_entry *store_map_rows_of_key(const struct store_map *map,
                                                const struct store_row *row)
{
    const struct store_slot *slot = find_key(map, row, hash_of_key(map, row));

    return slot == NULL ? NULL : slot->entry;
}

int store_bytes_compare(const void *left, size_t left_bytes, const void *right, size_t right_bytes)
{
    const size_t common = left_bytes < right_bytes ? left_bytes : right_bytes;
    const int order = common == 0 ? 0 : memcmp(left, right, common);

    if (order != 0)
        return order;
    return left_bytes < right_bytes ? -1 : left_bytes > right_bytes;
}
