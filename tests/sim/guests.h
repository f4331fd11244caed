/* Members of the job's group that are not the job's: see guests.c. */
#ifndef BATON_TESTS_SIM_GUESTS_H
#define BATON_TESTS_SIM_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/step.h"
#include "tests/sim/kafka_model.h"

struct world;
struct world_config;

struct sim_guests { /* as the last look that Kafka has answered found them */
    uint64_t call;
    uint32_t members;
};

/* They may, in such a world: the coordinator is to look. */
bool guests_come(const struct world_config *config);
uint32_t guests_count(const struct world *world); /* now */
/* In the end nobody is there: nor in an answer that was long on its way. */
void guests_before_end(struct world *world, struct kafka_result *result);
/* Members were told: the job must be held. Who has said that it stopped is remembered. */
void guests_after_step(struct world *world, const struct coord_event *event);
/* Under an epoch whose task has said that it stopped nothing is put out. */
void guests_check_output(struct world *world, const struct kafka_output *output);

#endif
