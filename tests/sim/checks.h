/*
 * What must hold, looked at when it is decided and not only at the end:
 *
 * - the invariants of every core (task_check), after each of its steps;
 * - a transaction carries exactly the outputs of the records between the committed offsets before
 *   and after it, in order and with the reference's values: so every input record has one effect,
 *   never more (exactly_once); without transactions every record before a committed offset has an
 *   output, and every output is right;
 * - nobody commits under an older epoch than one that was reported active (exactly_once), and
 *   committed offsets never go back;
 * - the state on disk is the reference's at its T2, and T2 is not past T1;
 * - a learner follows a T1 that was committed as one, and has no state past it;
 * - who says released has all of S1 committed under that epoch, and commits nothing under it after;
 * - a task is active only when its stamp is on all of S1; never initialises again for an epoch it
 *   was fenced in; does not turn in circles;
 * - in the end all is read, all is put out, and all tasks close.
 *
 * Of the coordinator (checks_coordinator.c):
 * - the invariants of its core (cluster_check), after each of its steps and each load;
 * - every request has exactly one answer, in time; no call to Kafka has the number of another;
 * - what an agent is told is durable, is told to the start that is registered and to no earlier
 *   one; an epoch is told to one start of one agent, of one processor; versions of documents rise,
 *   and one version has one content;
 * - a processor changes hands only when its owner released it, or was lost for as long as the
 *   timeout and the grace say, or people took it away; never goes back to an older epoch;
 * - a processor counts as active only when the epoch's stamp is on all of S1;
 * - a message of an earlier start is refused;
 * - planned hand-overs are no more than what happened accounts for, what fails is tried again in
 *   its time, and the planner takes back its own only when something happened; in the end none is
 *   open, and the loads are even where that was asked.
 *
 * Of agents that are cordoned or to leave (checks_drain.c):
 * - who is drained owns nothing and is nobody's source any more; when it is stopped nothing moves;
 * - nothing goes to who is cordoned or to leave, but what was on its last steps there, or back;
 * - both last until people end them, a deadline does, or a new start where that was asked;
 * - a deadline is kept: neither early nor late, and nothing that could be forced is left after it;
 * - a drain that is cancelled takes its hand-overs with it; in the end, forced or not, it is done.
 */
#ifndef BATON_TESTS_SIM_CHECKS_H
#define BATON_TESTS_SIM_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/step.h"
#include "tests/sim/kafka_model.h"
#include "tests/sim/network.h"
#include "tests/sim/store_model.h"

struct sim_request;
struct world;
struct sim_report;
struct sim_task;

struct checks_vector { /* T1 of one commit */
    int64_t of[KAFKA_PARTITIONS_MAX];
};

struct checks_told { /* of one epoch */
    bool told, commits;
    bool rested; /* its task has said that it stopped */
    size_t agent, commits_agent;
    uint32_t start, commits_start;
    uint32_t processor;
};

struct checks_owner { /* of a processor, as the coordinator's memory has it */
    int agent;        /* -1: none */
    uint32_t start;
    uint64_t epoch;
    bool activated;
    uint64_t handoff; /* under way; 0: none */
    enum handoff_state state;
    int source, target;
    bool forced;
    bool asked;        /* it is part of an operation of people's */
    uint32_t standbys; /* agents, a bit each */
};

struct checks_leaver { /* an agent, as people had it before the step */
    bool leaving, overdue, cordoned;
    uint32_t idle_steps; /* overdue, with something that could have been forced */
};

struct checks_contact { /* an agent, as the coordinator hears it */
    uint32_t start;
    int64_t heard_ms;
    int64_t gone_ms; /* since when it counts as lost or stopped; 0: it does not */
    struct document_version version;
    uint64_t content; /* of the document with that version */
};

struct checks_storm {
    uint64_t planned;    /* hand-overs */
    uint64_t taken_back; /* by the planner itself */
    uint64_t cancelled;  /* for other reasons */
    uint64_t stirs;      /* what may make another plan of the old one */
    uint64_t handoff;    /* highest number that was durable */
};

struct checks {
    bool failed;
    char text[256];
    int64_t committed[KAFKA_PARTITIONS_MAX];            /* T1 as it was accepted */
    int64_t highest[KAFKA_PARTITIONS_MAX];              /* of all T1 that ever were */
    uint64_t stamped[KAFKA_PARTITIONS_MAX];             /* epoch of the accepted commit */
    uint32_t outputs[KAFKA_PARTITIONS_MAX][KAFKA_KEYS]; /* accepted ones, of each key */
    uint64_t released[KAFKA_PROCESSORS_MAX];            /* highest epoch that was said to be */
    int64_t bound[KAFKA_PROCESSORS_MAX]; /* of the parent's partition, when it was split off ... */
    bool bounded[KAFKA_PROCESSORS_MAX];  /* ... if it was */
    struct {
        struct checks_vector *items;
        size_t count, capacity;
    } vectors[KAFKA_PROCESSORS_MAX]; /* all that were accepted */
    /* of the coordinator */
    uint64_t believed[KAFKA_PROCESSORS_MAX]; /* highest epoch that it took for active */
    struct {
        struct checks_told *items; /* by epoch */
        size_t count;
    } told;
    struct checks_owner before[KAFKA_PROCESSORS_MAX]; /* the step under way */
    struct checks_contact contacts[SIM_AGENTS_MAX];
    uint32_t processors; /* of the job, before the step; 0: there is none */
    bool superseded;     /* the event of the step is of an earlier start of its agent */
    struct checks_storm storm;
    struct checks_leaver leavers[SIM_AGENTS_MAX];
    bool planned; /* the event of the step names its plan */
    char plan[API_PLAN_ID_BYTES + 1];
    struct cluster plan_before; /* then: what was before the step */
    bool at_rest;               /* nothing may change hands or epochs */
};

void checks_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct kafka_watcher checks_watcher(struct world *world);

/* checks_inherit.c: of topics that have grown */

/* A transaction, or offsets without one, is accepted: what it says of bounds. */
void checks_bounds(struct world *world, uint32_t processor, const struct kafka_offsets *offsets);
/* The record's key has left the partition's owner when it is met: it has no output. */
bool checks_has_left(const struct world *world, size_t partition, int64_t offset);
/* A record that must have one output. */
bool checks_is_due(const struct world *world, size_t partition, int64_t offset);
/* The processor's state is made of records of the partition, which another one has. */
bool checks_inherits(const struct world *world, uint32_t processor, size_t partition);
/* Up to where that is; what it has learned counts for no more. */
int64_t checks_bound_of(const struct world *world, uint32_t processor, size_t partition);
/* Counts of the processor's own keys, as the state has them; NULL: right, else why not. */
const char *checks_counts(const struct world *world, uint32_t processor, size_t partition,
                          int64_t learned, const struct kafka_counts *counts);

/* An offset that the coordinator commits at the start. */
void checks_start(struct world *world, size_t partition, int64_t offset);
/* It was added by an expansion, and no owner has stamped it yet: those that are at work do so with
 * their next commit, under the fence that they have. */
bool checks_is_untouched(const struct world *world, size_t partition);
void checks_started(struct world *world); /* all of them have been told */
void checks_finish(struct checks *checks);
void checks_core(struct world *world, struct sim_task *task, int phase_before);
void checks_init(struct world *world, const struct sim_task *task);
void checks_followed(struct world *world, const struct sim_task *task);
/* The task gives the record to its logic, silently: others have been past it. */
void checks_given(struct world *world, const struct sim_task *task, size_t partition,
                  int64_t offset);
void checks_released(struct world *world, const struct sim_report *report); /* it says so */
void checks_commits(struct world *world, const struct sim_task *task);      /* it is about to */
void checks_accepted(struct world *world, size_t agent, const struct agent_document *document);
void checks_disk(struct world *world, const struct sim_task *task);
void checks_turn(struct world *world, struct sim_task *task);
/* Everything has come to rest: is it done, or rightly halted? */
void checks_end(struct world *world);
/* That agent can not go on: T2 of its disk, or T1, is no longer in the log. */
bool checks_is_halted(const struct world *world, uint32_t processor, size_t agent);

/* ---- checks_coordinator.c */

void checks_loaded(struct world *world);
void checks_before_step(struct world *world, struct coord_event *event);
void checks_after_step(struct world *world, const struct coord_event *event,
                       const struct update *update);
void checks_committed(struct world *world, const struct update *update);
/* The answer is about to go to an agent. */
void checks_told(struct world *world, const struct sim_request *request,
                 const struct answer *answer);
bool checks_is_even(const struct world *world); /* to one processor of the job */
struct checks_owner checks_describe(const struct world *world, const struct processor *processor);
struct checks_told *checks_epoch(struct checks *checks, uint64_t epoch);

/* ---- checks_failover.c */

/* It has changed hands without a release. */
void checks_taken(struct world *world, uint32_t processor, const struct checks_owner *before,
                  const struct checks_owner *after, const struct update *update);
uint32_t checks_list_standbys(const struct processor *processor); /* a bit each */
/* That this is a standby's task is durable. */
bool checks_is_standby(const struct world *world, const struct sim_request *request,
                       const struct document_task *task);
/* What is missing of them in the end; NULL: nothing. */
const char *checks_miss_standby(const struct world *world);

/* ---- checks_plan.c: of a request that names its plan */

void checks_before_plan(struct world *world, struct coord_event *event);
void checks_after_plan(struct world *world, const struct coord_event *event,
                       const struct update *update);

/* ---- checks_drain.c */

void checks_before_drain(struct world *world);
void checks_after_drain(struct world *world, const struct coord_event *event,
                        const struct update *update);
/* The agent was asked to leave, and is late with it: what it has is taken from it. */
bool checks_is_forced_out(const struct world *world, size_t agent);
bool checks_is_leaving(const struct world *world, size_t agent);
void checks_note_drain(struct world *world, const struct event_view *event); /* it is durable */

#endif
