/*
 * One simulated world: a seed, virtual time, Kafka, disks, agents, a coordinator, and people. Every
 * step lets one thing happen somewhere; the checks look on. The same seed gives the same run.
 *
 *   main.c        seeds, mutations, the summary
 *   sweep.c       one actor is stopped at each of its actions
 *   world.c       what happens next; world_end.c: the end, when all must come to rest
 *   chaos.c       crashes, pauses, cuts, and what else befalls a world
 *   operator.c    what people ask of the coordinator
 *   guests.c      others in the job's group
 *   agent_*.c     an agent around the core under test (agent/core), as agent/ has it
 *   network.c     between agents and coordinator
 *   coordinator_host.c  the coordinator around the core under test (coordinator/core)
 *   durable_model.c, kafka_admin.c  its database and its Kafka thread
 *   kafka_model.c, store_model.c
 *   checks.c, checks_coordinator.c, checks_failover.c, checks_drain.c  what must hold
 *   mutation.c, mutation_coordinator.c, mutation_drain.c  rules broken on purpose, which the
 *                 checks must find
 */
#ifndef BATON_TESTS_SIM_WORLD_H
#define BATON_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/rng.h"
#include "tests/sim/agent_model.h"
#include "tests/sim/checks.h"
#include "tests/sim/coordinator_host.h"
#include "tests/sim/durable_model.h"
#include "tests/sim/guests.h"
#include "tests/sim/kafka_admin.h"
#include "tests/sim/kafka_model.h"
#include "tests/sim/mutation.h"
#include "tests/sim/network.h"
#include "tests/sim/operator.h"
#include "tests/sim/tally.h"

#define WORLD_AGENTS SIM_AGENTS_MAX
/* Of an agent whose host was given up a second process may live on: an earlier start of it. */
#define WORLD_GHOST     WORLD_AGENTS
#define WORLD_PROCESSES (WORLD_AGENTS + 1)
#define WORLD_JOB       "counts"

enum world_sweep { WORLD_NO_SWEEP, WORLD_SWEEP_PAUSE, WORLD_SWEEP_CRASH };
enum world_victim {
    WORLD_VICTIM_OWNER,  /* given up; it comes back when the other one is active */
    WORLD_VICTIM_SOURCE, /* of a hand-over, counted from its beginning ... */
    WORLD_VICTIM_TARGET,
    WORLD_VICTIM_COORDINATOR,
    WORLD_VICTIM_COUNT
};

struct world_config {
    uint64_t seed;
    uint32_t steps; /* before the end begins */
    bool trace;
    enum mutation mutation;
    /* Instead of chance: the victim is stopped at its action number `sweep_at` and comes back. The
     * first agent is the owner and the source. */
    enum world_sweep sweep;
    enum world_victim victim;
    uint32_t sweep_at;
    /* drawn from the seed by world_run unless `drawn` */
    bool drawn;
    bool exactly_once, stateful;
    size_t partitions, processors;
    uint32_t fault_permille; /* of the calls that go wrong */
    uint32_t chaos_permille; /* of the steps that befall the world */
    bool damages;            /* disks are damaged */
    bool truncates;          /* records are deleted that may still be needed */
    bool compacts;           /* records are compacted away that may still be needed */
    bool poisons;            /* records that the logic refuses */
    uint32_t cache_records;  /* that fit before the cache is full */
    int64_t acceptable_lag;
    int64_t step_ms_max; /* that a step takes */
    size_t agents;
    uint32_t capacity, max_learners, standbys;
    int64_t rejoin_grace_ms;
    struct coord_config core;
    bool never_returns; /* one agent does not, once it has crashed */
    bool left_alone;    /* no wishes of people and no faults: who comes gets its share */
    bool evens_out;     /* in the end people ask for it */
    bool sends_away;    /* in the end one agent is to leave ... */
    bool sends_at_once; /* ... from its beginning on, whatever goes on then */
    bool expands;       /* people ask for more processors */
    bool grows;         /* ... and for more partitions, often */
    bool tells_kept;    /* agents say at their start what state they have */
};

struct world {
    struct world_config config;
    struct rng rng;
    int64_t now_ms;
    uint64_t steps;
    bool calm;                         /* the end: no faults, no chaos, no new input */
    int64_t old_until_ms;              /* producers of earlier counts write until then */
    bool sweeping;                     /* the sweep's stop has not come yet */
    bool handing_over;                 /* the sweep's hand-over has begun ... */
    uint32_t handing_from;             /* ... at this action of the victim */
    bool halted[KAFKA_PROCESSORS_MAX]; /* in the end: rightly */
    size_t left; /* at the end: from this partition on, records were gone before the job had them */
    char incarnation[API_UUID_BYTES + 1]; /* of the job, once there is one */
    struct sim_guests guests;             /* in its group */
    struct kafka_model kafka;
    struct sim_admin admin;
    struct durable_model durable;
    struct sim_host host;
    struct sim_operator operator;
    struct network network;
    struct sim_agent agents[WORLD_PROCESSES];
    struct checks checks;
    struct tally *tally;
};

/* False: a check failed; world->checks has the text. The world is closed either way. */
bool world_run(struct world *world, const struct world_config *config, struct tally *tally);

/* ---- for the parts of the world */

bool world_chance(struct world *world, uint32_t permille); /* never when calm */
int64_t world_between(struct world *world, int64_t from, int64_t to);
void world_trace(const struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The owner's task in the agent, if it is active there under the placement's epoch; else NULL. */
const struct sim_task *world_active(const struct world *world, uint32_t processor);
void world_step(struct world *world);
/* The process that is this start of this agent; NULL: it is no more. */
const struct sim_agent *world_process(const struct world *world, size_t identity, uint32_t start);

/* world_end.c: all comes to rest, is looked at, and is closed */
void world_end(struct world *world);

/* sweep.c */
struct world_config sweep_config(enum world_sweep sweep, enum world_victim victim, uint32_t at,
                                 uint64_t seed);
void sweep_step(struct world *world); /* instead of world_step */

/* chaos.c */
void chaos_strike(struct world *world);
void chaos_input(struct world *world); /* the job's input goes on */
void chaos_end(struct world *world);   /* whatever is open is ended */
void chaos_late(struct world *world);
/* A paused agent starts on another host; the old process is the world's ghost. */
void chaos_replace(struct world *world, size_t agent);
void chaos_end_ghost(struct world *world);

#endif
