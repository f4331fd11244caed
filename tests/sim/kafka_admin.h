/*
 * The coordinator's Kafka thread (coordinator/kafka.h): carries its calls out one after the other
 * over the model of Kafka, each in two steps: it arrives, its answer arrives. A call can fail, with
 * or without having been done. When the coordinator crashes its calls are gone; one that had
 * arrived stays done. (A commit that arrives after its sender's next start has gone on is not
 * modelled: no design that commits offsets without a transaction could bear it.)
 */
#ifndef BATON_TESTS_SIM_KAFKA_ADMIN_H
#define BATON_TESTS_SIM_KAFKA_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/update.h"

#define ADMIN_CALLS_MAX 32

struct world;

struct sim_admin {
    struct kafka_call calls[ADMIN_CALLS_MAX];
    size_t count;
    bool arrived; /* the first one: its answer is on the way */
    struct kafka_result result;
    int64_t due_ms;
    uint64_t last_id; /* of all calls that ever were */
};

void admin_post(struct world *world, struct kafka_call *call); /* takes it */
bool admin_turn(struct world *world);
int64_t admin_due_ms(const struct world *world);
void admin_crash(struct world *world);

#endif
