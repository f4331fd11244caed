/*
 * What keeps a coordinator from deciding anything because its database may be older than what
 * others know (D6): part of struct cluster, in memory only. step_recovery.c performs every
 * transition.
 *
 *                 start                                        start with --recover
 *                   |                                                   |
 *   VERIFYING: asks Kafka for the stamps of each job         COLLECTING: hears what agents and
 *     |         |                                            Kafka know, for a set time
 *     |         | a higher epoch                                |
 *     |         v                                               v
 *     |      OUTDATED: for good                         step_recovered.c: epochs, jobs, placements
 *     v         ^                                               |
 *   NONE -------' an agent or Kafka knows more                  v
 *   (works)                                                   NONE
 *
 * In all but NONE nothing durable changes but the start number, agents are told to try again (their
 * tasks go on), and whoever asks for a change gets a problem that says why.
 */
#ifndef BATON_COORDINATOR_CORE_RECOVERY_H
#define BATON_COORDINATOR_CORE_RECOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"

enum recovery_state { RECOVERY_NONE, RECOVERY_VERIFYING, RECOVERY_OUTDATED, RECOVERY_COLLECTING };

struct recovery_agent { /* that has registered while COLLECTING */
    struct agent_registration said;
    int64_t heard_ms;
};

struct recovery_bound { /* of a processor's nearest ancestor, as its stamp says */
    uint32_t processor, topic;
    int64_t offset, records;
};

/* What Kafka holds for the group of a job: of the database, or of an agent's document. */
struct recovery_stamps {
    char *job;
    char *incarnation;
    bool read;
    uint64_t epoch;      /* highest in the stamps; 0: there are none */
    uint32_t processors; /* that have stamped, by the highest number; 0: none has */
    bool own;            /* an owner of this incarnation of the job has stamped */
    struct {
        struct input_offset *items;
        size_t count;
    } committed; /* T1 of those partitions that have one */
    struct {
        struct recovery_bound *items;
        size_t count;
    } bounds;
};

struct recovery {
    enum recovery_state state;
    uint64_t decision, epoch; /* the highest of the database when this start took it over: documents
                                 of earlier starts can tell of nothing above */
    int64_t deadline_ms;      /* VERIFYING: goes on without Kafka then; COLLECTING: is over then, if
                                 Kafka has answered */
    int64_t retry_ms;         /* earliest time of the next call */
    uint64_t call;            /* of KAFKA_CALL_STAMPS, one at a time; 0: none */
    char *detail;             /* OUTDATED: who knows what; COLLECTING: what it waits for; or NULL */
    int64_t foreign_ms;       /* when an agent of another cluster was last told of; 0: never */
    struct {
        struct recovery_agent *items; /* by agent id, one each */
        size_t count, capacity;
    } agents;
    struct {
        struct recovery_stamps *items;
        size_t count, capacity;
    } stamps;
};

void recovery_finish(struct recovery *recovery);

#endif
