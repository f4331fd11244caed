/*
 * A stand-in for the coordinator until its own core joins the simulator: it says which agent owns a
 * processor under which epoch, gives every change of hands and every start of an agent a higher
 * one, and believes reports only when they echo the epoch. It hands processors over (D4: learn,
 * release, activate; taken back or forced when an agent is lost). Its documents are late, lost and
 * sent again, and agents take the newest; reports and the T1 that learners are told are lost,
 * doubled, and overtake each other.
 */
#ifndef BATON_TESTS_SIM_COORDINATOR_MODEL_H
#define BATON_TESTS_SIM_COORDINATOR_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"
#include "tests/sim/kafka_model.h"

#define SIM_MAIL_MAX 32

struct world;

struct sim_report { /* of one task */
    size_t agent;
    uint32_t start; /* of the agent */
    uint32_t processor;
    bool learner;
    enum task_state state;
    uint64_t epoch, handoff;
    bool released;
    int64_t t1[KAFKA_PARTITIONS_MAX], t2[KAFKA_PARTITIONS_MAX]; /* by partition */
    char code[64];
    int64_t due_ms; /* when it arrives */
};

struct sim_wanted { /* what one document says */
    uint64_t version;
    bool skip_poison; /* the spec's on_error */
    struct {
        bool wanted;
        enum task_role role;
        uint64_t epoch, handoff;
        bool release;
    } of[KAFKA_PROCESSORS_MAX];
};

enum sim_handoff_stage {
    SIM_HANDOFF_NONE,
    SIM_HANDOFF_LEARNING,
    SIM_HANDOFF_RELEASING,
    SIM_HANDOFF_ACTIVATING /* the target is the owner */
};

struct sim_handoff {
    enum sim_handoff_stage stage;
    uint64_t id;
    size_t target;
};

struct sim_follow { /* an answer on its way to a learner */
    bool sending;
    size_t agent;
    int64_t due_ms;
    int64_t t1[KAFKA_PARTITIONS_MAX];
};

struct sim_placement {
    size_t owner;
    uint64_t epoch;
    uint64_t newest_active; /* highest epoch that was reported active */
    bool idle;              /* not to run for now; until `back_ms` */
    int64_t back_ms;
    int64_t decided_ms;
    bool fenced, failed; /* its owner says so, of this epoch */
    bool t1_known;
    int64_t t1[KAFKA_PARTITIONS_MAX]; /* of one report of its owner */
    struct sim_handoff handoff;
    struct sim_follow follow;
};

struct sim_contact { /* an agent as it is seen from here */
    int64_t heard_ms;
    bool sending;
    int64_t due_ms;
    struct sim_wanted document; /* on its way */
    uint64_t applied;
};

struct sim_coordinator {
    uint64_t version, epoch, handoff;
    bool skip_poison;
    int64_t origins[KAFKA_PARTITIONS_MAX]; /* T0 */
    struct sim_placement placements[KAFKA_PROCESSORS_MAX];
    struct sim_contact contacts[2];
    struct sim_report mail[SIM_MAIL_MAX]; /* on its way here */
    size_t mail_count;
};

void coordinator_open(struct world *world);
/* An agent has started: what it owns gets higher epochs before its first document. */
void coordinator_register(struct world *world, size_t agent);
void coordinator_move(struct world *world, uint32_t processor, size_t owner);
void coordinator_raise(struct world *world, uint32_t processor);
void coordinator_idle(struct world *world, uint32_t processor, int64_t back_ms);
void coordinator_hand_over(struct world *world, uint32_t processor, size_t target);
/* Before it is released; what was to be released gets a new epoch. */
void coordinator_cancel(struct world *world, uint32_t processor);
void coordinator_respec(struct world *world);
void coordinator_post(struct world *world, const struct sim_report *report);
/* One turn: documents, lost agents, releases that end. */
void coordinator_turn(struct world *world);
int64_t coordinator_due_ms(const struct world *world);

#endif
