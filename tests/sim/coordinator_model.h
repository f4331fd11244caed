/*
 * A stand-in for the coordinator until its own core joins the simulator: it says which agent owns a
 * processor under which epoch, gives every change of hands and every start of an agent a higher
 * one, and believes reports only when they echo the epoch. Its documents are late, lost and sent
 * again; agents take the newest.
 */
#ifndef BATON_TESTS_SIM_COORDINATOR_MODEL_H
#define BATON_TESTS_SIM_COORDINATOR_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"
#include "tests/sim/kafka_model.h"

struct world;

struct sim_wanted { /* what one document says */
    uint64_t version;
    bool skip_poison; /* the spec's on_error */
    struct {
        bool owned;
        uint64_t epoch;
    } of[KAFKA_PROCESSORS_MAX];
};

struct sim_placement {
    size_t owner;
    uint64_t epoch;
    uint64_t newest_active; /* highest epoch that was reported active */
    bool released;          /* not to run for now; until `back_ms` */
    int64_t back_ms;
    int64_t decided_ms;
    bool fenced, failed; /* its owner says so, of this epoch */
};

struct sim_contact { /* an agent as it is seen from here */
    int64_t heard_ms;
    bool sending;
    int64_t due_ms;
    struct sim_wanted document; /* on its way */
    uint64_t applied;
};

struct sim_coordinator {
    uint64_t version, epoch;
    bool skip_poison;
    int64_t origins[KAFKA_PARTITIONS_MAX]; /* T0 */
    struct sim_placement placements[KAFKA_PROCESSORS_MAX];
    struct sim_contact contacts[2];
};

void coordinator_open(struct world *world);
/* An agent has started: what it owns gets higher epochs before its first document. */
void coordinator_register(struct world *world, size_t agent);
void coordinator_move(struct world *world, uint32_t processor, size_t owner);
void coordinator_raise(struct world *world, uint32_t processor);
void coordinator_release(struct world *world, uint32_t processor, int64_t back_ms);
void coordinator_respec(struct world *world);
/* A report of one task. */
void coordinator_hear(struct world *world, size_t agent, uint32_t processor, enum task_state state,
                      uint64_t epoch, const char *code);
/* One turn: documents, lost agents, releases that end. */
void coordinator_turn(struct world *world);
int64_t coordinator_due_ms(const struct world *world);

#endif
