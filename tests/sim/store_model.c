#include "tests/sim/store_model.h"

#include <assert.h>
#include <string.h>

static void forget_disk(struct store_model *store)
{
    store->exists = false;
    store->damaged = false;
    memset(&store->disk, 0, sizeof(store->disk));
    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        store->disk.learned[i] = API_UNKNOWN;
}

static void forget_memory(struct store_model *store)
{
    store->open = false;
    store->dirty = 0;
    store->flush = STORE_MODEL_IDLE;
    store->half_written = false;
}

static void read_disk(struct store_model *store)
{
    memcpy(store->live, store->disk.counts, sizeof(store->live));
    store->dirty = 0;
}

enum store_model_condition store_model_open(struct store_model *store)
{
    enum store_model_condition condition = store->exists ? STORE_MODEL_KEPT : STORE_MODEL_FRESH;

    assert(!store->open);
    if (store->exists && store->damaged)
        condition = STORE_MODEL_SET_ASIDE;
    if (condition != STORE_MODEL_KEPT)
        forget_disk(store);
    forget_memory(store);
    store->open = true;
    read_disk(store);
    return condition;
}

uint32_t store_model_apply(struct store_model *store, size_t partition, uint8_t key)
{
    assert(store->open);
    store->dirty++;
    return ++store->live[partition].of[key];
}

void store_model_freeze(struct store_model *store, const struct store_position *positions,
                        int64_t due_ms)
{
    assert(store->open);
    assert(store->flush == STORE_MODEL_IDLE);
    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++) {
        store->frozen.learned[i] = positions[i].learned;
        store->frozen.records[i] = positions[i].records;
    }
    memcpy(store->frozen.counts, store->live, sizeof(store->frozen.counts));
    store->dirty = 0;
    store->flush = STORE_MODEL_RUNNING;
    store->flush_due_ms = due_ms;
}

bool store_model_flush(struct store_model *store, bool fail, int64_t retry_ms)
{
    assert(store->flush != STORE_MODEL_IDLE);
    if (fail) {
        store->flush = STORE_MODEL_FAILED;
        store->flush_due_ms = retry_ms;
        return false;
    }
    store->exists = true;
    if (store->torn && !store->half_written) {
        memcpy(store->disk.counts, store->frozen.counts, sizeof(store->disk.counts));
        store->half_written = true;
        return false;
    }
    store->disk = store->frozen;
    store->half_written = false;
    store->flush = STORE_MODEL_IDLE;
    return true;
}

bool store_model_drop_live(struct store_model *store)
{
    assert(store->flush != STORE_MODEL_RUNNING);
    read_disk(store);
    return store->flush == STORE_MODEL_IDLE;
}

void store_model_close(struct store_model *store)
{
    assert(store->flush != STORE_MODEL_RUNNING);
    forget_memory(store);
}

void store_model_set_aside(struct store_model *store)
{
    forget_memory(store);
    forget_disk(store);
}

void store_model_crash(struct store_model *store)
{
    forget_memory(store);
}
