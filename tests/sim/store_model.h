/*
 * A small model of a task's store (agent/store.h) in virtual time: counts by key, live in memory,
 * frozen for a checkpoint under way, and on disk. A crash leaves the disk. A checkpoint takes its
 * time, may fail and is tried again; it reaches the disk at once, or not at all. Of an agent and a
 * processor; the disk outlives the agent.
 */
#ifndef BATON_TESTS_SIM_STORE_MODEL_H
#define BATON_TESTS_SIM_STORE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/kafka_model.h"

struct store_image {
    int64_t learned[KAFKA_PARTITIONS_MAX]; /* T2; API_UNKNOWN: of no partition of the task */
    int64_t records[KAFKA_PARTITIONS_MAX]; /* that were met up to T2 (D3.6) */
    struct kafka_counts counts[KAFKA_PARTITIONS_MAX];
};

struct store_position { /* of one partition */
    int64_t learned, records;
};

enum store_model_flush { STORE_MODEL_IDLE, STORE_MODEL_RUNNING, STORE_MODEL_FAILED };

struct store_model {
    /* on disk */
    bool exists;
    bool damaged; /* whoever reads it next finds out */
    struct store_image disk;
    /* in memory */
    bool open;
    struct kafka_counts live[KAFKA_PARTITIONS_MAX]; /* as a reader sees it: through all layers */
    uint32_t dirty;                                 /* changes since the last freeze */
    struct store_image frozen;
    enum store_model_flush flush;
    int64_t flush_due_ms;
    bool torn; /* a mutation: counts and T2 are two writes */
    bool half_written;
};

enum store_model_condition { STORE_MODEL_FRESH, STORE_MODEL_KEPT, STORE_MODEL_SET_ASIDE };

enum store_model_condition store_model_open(struct store_model *store);
/* One record; returns the key's new count. */
uint32_t store_model_apply(struct store_model *store, size_t partition, uint8_t key);
/* By partition. Asserts that no checkpoint is under way. */
void store_model_freeze(struct store_model *store, const struct store_position *positions,
                        int64_t due_ms);
/* The checkpoint's time has come: true when the disk changed. */
bool store_model_flush(struct store_model *store, bool fail, int64_t retry_ms);
/* False: the checkpoint under way failed; the live part is dropped all the same. Not while it runs.
 */
bool store_model_drop_live(struct store_model *store);
void store_model_close(struct store_model *store); /* not while a checkpoint runs */
void store_model_set_aside(struct store_model *store);
void store_model_crash(struct store_model *store);

#endif
