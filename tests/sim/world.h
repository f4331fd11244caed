/*
 * One simulated world: a seed, virtual time, Kafka, disks, agents and a coordinator. Every step
 * lets one thing happen somewhere; the checks look on. The same seed gives the same run.
 *
 *   main.c        seeds, sweeps, mutations, the summary
 *   world.c       what happens next; the end, when all must come to rest
 *   chaos.c       crashes, pauses, moves, and what else befalls a world
 *   agent_*.c     an agent's tasks around the core under test, as agent/task_*.c has them
 *   coordinator_model.c  who owns which processor under which epoch
 *   kafka_model.c, store_model.c
 *   checks.c      what must hold
 *   mutation.c    rules broken on purpose, which the checks must find
 */
#ifndef BATON_TESTS_SIM_WORLD_H
#define BATON_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/rng.h"
#include "tests/sim/agent_model.h"
#include "tests/sim/checks.h"
#include "tests/sim/coordinator_model.h"
#include "tests/sim/kafka_model.h"
#include "tests/sim/mutation.h"
#include "tests/sim/tally.h"

#define WORLD_AGENTS      2
#define WORLD_JOB         "counts"
#define WORLD_INCARNATION "5e5e5e5e-0000-4000-8000-000000000001"

enum world_sweep { WORLD_NO_SWEEP, WORLD_SWEEP_PAUSE, WORLD_SWEEP_CRASH };
enum world_victim {
    WORLD_VICTIM_OWNER,  /* the other one takes over by force, at once */
    WORLD_VICTIM_SOURCE, /* of a hand-over, counted from its beginning ... */
    WORLD_VICTIM_TARGET
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
    bool poisons;            /* records that the logic refuses */
    uint32_t cache_records;  /* that fit before the cache is full */
    int64_t acceptable_lag;
};

struct world {
    struct world_config config;
    struct rng rng;
    int64_t now_ms;
    uint64_t steps;
    bool calm;                         /* the end: no faults, no chaos, no new input */
    bool sweeping;                     /* the sweep's stop has not come yet */
    bool handing_over;                 /* the sweep's hand-over has begun ... */
    uint32_t handing_from;             /* ... at this action of the victim */
    bool halted[KAFKA_PROCESSORS_MAX]; /* in the end: rightly */
    struct kafka_model kafka;
    struct document_job jobs[2]; /* as documents have it; the second one skips poison */
    uint32_t owned_items[KAFKA_PROCESSORS_MAX][KAFKA_PARTITIONS_MAX];
    struct uint_list owned[KAFKA_PROCESSORS_MAX]; /* S1 */
    struct sim_coordinator coordinator;
    struct sim_agent agents[WORLD_AGENTS];
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

/* chaos.c */
void chaos_strike(struct world *world);
void chaos_input(struct world *world); /* the job's input goes on */
void chaos_end(struct world *world);   /* whatever is open is ended */

#endif
