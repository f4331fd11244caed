/*
 * The coordinator's database, as coordinator/store.h has it: the newest row of each key, changed in
 * whole updates. It outlives the coordinator. Events are not kept: nothing is decided by them.
 */
#ifndef BATON_TESTS_SIM_DURABLE_MODEL_H
#define BATON_TESTS_SIM_DURABLE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/update.h"
#include "tests/sim/mutation.h"

struct durable_model {
    struct change *rows; /* hand-overs only while they have not ended */
    size_t count, capacity;
};

void durable_open(struct durable_model *durable); /* an empty database: its first meta row */
void durable_commit(struct durable_model *durable, const struct update *update,
                    enum mutation mutation);
/* Into a cluster that was initialised. */
void durable_load(const struct durable_model *durable, struct cluster *cluster);
void durable_close(struct durable_model *durable);

/* NULL: there is no such row. Borrowed until the next commit. */
const struct placement_row *durable_placement(const struct durable_model *durable, const char *job,
                                              uint32_t processor);
const struct agent_row *durable_agent(const struct durable_model *durable, const char *agent_id);
const struct handoff_row *durable_handoff(const struct durable_model *durable, uint64_t id);
bool durable_skips(const struct durable_model *durable, uint32_t partition, int64_t offset);
const struct standby_row *durable_standby(const struct durable_model *durable, const char *job,
                                          uint32_t processor, const char *agent_id);

#endif
