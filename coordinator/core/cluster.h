/*
 * What the coordinator knows, in memory: the durable part (a fold of the changes of
 * coordinator/core/update.h) and the observations (what agents report), which may be lost at any
 * time.
 *
 * Owned by the owner thread alone. Pure data: no clock, no I/O. Times named *_ms are the owner's
 * monotonic clock, as it came inside events; times named *_at are wall time for people.
 *
 * Invariants (checked by cluster_check, which tests and the simulator call after every step):
 *   - a placement exists for every processor 0..M-1 of a job; `agent` is NULL while unassigned,
 * else it names an agent that is here, with the incarnation that it is registered under;
 *   - only processors of a job in state RUNNING or DELETING have an owner;
 *   - epochs are handed out from `epoch`, never twice, never lower than one handed out before;
 *   - counts never shrink: N >= N0, M >= M0, N >= M; N0 and M0 never change;
 *   - every input partition has exactly one origin (T0) and one start, in the same order;
 *   - an operation that is not finished belongs to a job that exists and that names it;
 *   - no two jobs have the same group;
 *   - a processor has at most one hand-over that has not ended. Until it is RELEASED the placement
 * is the source's, under the epoch that the hand-over names; from then on it is the target's.
 */
#ifndef BATON_COORDINATOR_CORE_CLUSTER_H
#define BATON_COORDINATOR_CORE_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"
#include "common/fsm.h"

/* ---- durable rows; each has one change kind and one table */

struct meta_row {
    char cluster[API_UUID_BYTES + 1];
    uint64_t start_number; /* rises at every start of the coordinator */
    uint64_t decision;     /* rises with every durable decision */
    uint64_t epoch;        /* highest epoch handed out */
    uint64_t event_id;     /* highest event id */
    uint64_t operation_id; /* highest operation number */
    uint64_t handoff_id;   /* highest number of a hand-over */
};

struct job_row {
    char *name;
    char *incarnation;
    enum job_state state;
    uint64_t generation;
    int64_t created_at;
    struct job_spec spec;
    uint32_t partitions_initial, partitions; /* N0, N */
    uint32_t processors_initial, processors; /* M0, M */
    uint64_t map_version;
    enum effective_partitioner partitioner;
    char *partitioner_reason;
    uint64_t operation; /* that creates or deletes it; 0: none */
    struct {
        char **items;
        size_t count;
    } warnings; /* retention, compaction, N0 != M0 * 2^j, ... */
    struct {
        struct input_offset *items;
        size_t count;
    } origins; /* T0, by topic then partition */
    struct {
        struct input_offset *items;
        size_t count;
    } starts; /* first T1, committed at creation */
};

struct placement_row {
    char *job;
    uint32_t processor;
    char *agent;             /* NULL: unassigned */
    char *agent_incarnation; /* that the epoch was given to */
    uint64_t epoch;          /* 0: never had an owner */
    bool activated;          /* the owner has reported ACTIVE under this epoch */
    uint64_t handoff;        /* that the placement came by; 0: none */
    char *trouble; /* "fenced", or the code of the problem that it failed with, while an event says
                      so and none says that it is over; NULL: none */
    char *reason;  /* of the last change, for people */
    int64_t changed_at;
};

struct agent_row {
    char *agent_id;
    char *incarnation;
    enum agent_state state; /* LOST is an observation: stored as it was when it was decided */
    char *version;
    char *address;
    uint32_t protocol;
    uint32_t capacity;
    struct {
        struct tag *items;
        size_t count;
    } tags;
    int64_t registered_at;
};

/* States before RELEASED, and those in which the time is taken: LEARNING to ACTIVATING. */
#define HANDOFF_PHASES HANDOFF_STATE_DONE

struct handoff_row { /* see coordinator/core/handoff.h */
    uint64_t id;
    enum handoff_kind kind;
    char *job;
    char *job_incarnation;
    uint32_t processor;
    struct uint_list partitions; /* S1 that moves */
    enum handoff_state state;
    bool forced;  /* the source was lost: its steps were skipped */
    bool planned; /* made by the planner, which may take it back; else somebody asked for it */
    char *source, *source_incarnation;
    uint64_t source_epoch;
    char *target, *target_incarnation;
    uint64_t target_epoch; /* 0 until RELEASED */
    uint64_t operation;    /* that it is part of; 0: none */
    char *reason;
    char *error; /* why it was cancelled or failed; NULL */
    int64_t started_at, changed_at;
    int64_t stopped_at; /* when the source was told to stop, or last heard of; API_UNKNOWN */
    int64_t spent_ms[HANDOFF_PHASES]; /* by state; API_UNKNOWN: it was not in it */
    int64_t output_gap_ms;            /* API_UNKNOWN: not known yet */
};

/*
 * How an agent's incarnation stands to a job that it came to. `open`: it is a newcomer, which is
 * still owed processors; closed, it is established and only receives what has no owner (D5).
 * Without a row nobody has looked yet.
 */
struct arrival_row {
    char *job;
    char *agent;
    char *incarnation;
    bool open;
};

enum operation_kind {
    OPERATION_KIND_CREATE_JOB,
    OPERATION_KIND_DELETE_JOB,
    OPERATION_KIND_MOVE,
    OPERATION_KIND_REBALANCE
};

enum operation_step {
    /* create_job */
    OPERATION_STEP_COMMIT_STARTS, /* commit the start offsets with metadata, then read them back */
    OPERATION_STEP_SAMPLE,        /* find the partitioner */
    /* delete_job */
    OPERATION_STEP_CLOSE_TASKS, /* wait until no live agent reports a task of it */
    OPERATION_STEP_FENCE,       /* initialise every transactional.id ever used once */
    /* move */
    OPERATION_STEP_QUEUE,     /* wait until the processor's present hand-over has ended */
    OPERATION_STEP_HAND_OVER, /* wait for the hand-over of the same operation */
    /* rebalance */
    OPERATION_STEP_EVEN_OUT, /* until no agent of the job is owed anything */
    OPERATION_STEP_END
};

struct operation_row {
    uint64_t id; /* "op-<id>" outside */
    enum operation_kind kind;
    char *job;
    char *job_incarnation;
    enum operation_state state;
    enum operation_step step;
    int64_t processor; /* move; API_UNKNOWN */
    char *target;      /* move: agent id, or NULL */
    char *reason;      /* given by the caller, or NULL */
    char *error;       /* why it failed, or what it retries; NULL */
    int64_t created_at;
    int64_t updated_at;
};

/* ---- observations */

/*
 * The last report of a placement's owner about the processor. The placement may have changed since:
 * what speaks for it now is cluster_report's answer alone; the rest is an observation, to show and
 * to store.
 */
struct processor_observed {
    bool known; /* a report for the present incarnation of the job is here */
    char *agent;
    char *agent_incarnation;
    struct task_report report;
    uint64_t
        serial; /* agent.reports when it came: lower than now when the newest does not list it */
    int64_t received_ms;
    int64_t received_at;
    int64_t stored_ms; /* when its offsets were last written to the store; 0: never in this run */
};

/* ---- in memory */

struct handoff { /* one that has not ended */
    struct handoff_row row;
    struct fsm fsm;  /* its state, and since when in this run's clock */
    int64_t stop_ms; /* stopped_at in this run's clock; 0: it was in an earlier run */
};

struct processor {
    struct placement_row placement;
    struct processor_observed observed;
    struct handoff *handoff;           /* borrowed from cluster.handoffs; NULL: none */
    struct processor_observed learner; /* of the hand-over's target, while it is not the owner */
    int64_t handoff_retry_ms; /* after one was cancelled: earliest time of the planner's next */
    struct {
        struct partition_progress *items;
        size_t count;
    } stored;                /* T0, T1 and T2 as they were last stored, also by an earlier run */
    int64_t stored_at;       /* API_UNKNOWN: never */
    int64_t active_since_ms; /* 0: the owner does not report it active */
    int64_t fence_retry_ms;  /* earliest time at which a FENCED rightful owner gets a new epoch */
    int64_t fence_backoff_ms;
};

struct job {
    struct job_row row;
    struct {
        struct processor *items;
        size_t count;
    } processors; /* 0..M-1 */
    struct {
        struct arrival_row *items;
        size_t count, capacity;
    } arrivals; /* by agent; at most one of an agent */
};

struct stray_task { /* in an agent's last report, although its placement is another agent's or
                       nobody's */
    char *job;
    char *job_incarnation;
    uint32_t processor;
    enum task_state state;
    uint64_t epoch;
};

struct agent {
    struct agent_row row;
    int64_t seen_ms; /* last register, poll or report; 0: not since this start of the coordinator */
    int64_t seen_at;
    struct document_version applied;
    uint64_t document_decision; /* decision that last changed its document */
    uint64_t reports;           /* received in this run */
    int64_t gone_ms; /* since when it is called lost or stopped, in this run; 0: it is not */
    bool stopping;   /* it says that it is on its way out: it gets nothing new */
    struct {
        struct kept_state *items;
        size_t count;
    } kept;
    struct {
        struct stray_task *items;
        size_t count, capacity;
    } strays;
};

struct operation {
    struct operation_row row;
    uint64_t call;    /* id of the Kafka call under way; 0: none */
    int64_t retry_ms; /* earliest time of the next call */
    int64_t backoff_ms;
    uint64_t decision; /* delete_job: owners must work by a document of this start that is not
                          older; 0 after a restart, where any of the new start will do */
};

struct waiting_poll { /* an assignment request that waits for its document to change */
    uint64_t request;
    char *agent_id;
    struct document_version after;
    int64_t deadline_ms;
};

struct waiting_operation { /* GET /v1/operations/{id}?wait= */
    uint64_t request;
    uint64_t operation;
    int64_t deadline_ms;
};

/* A PUT that waits for the broker's answers; lost on a restart, the client repeats it. */
struct pending_creation {
    uint64_t request;
    uint64_t call;
    char *name;
    struct job_spec spec;
    char *actor;
    uint64_t generation; /* of the job that it changes; 0: it creates one */
    int64_t deadline_ms;
};

struct coord_config {
    int64_t agent_timeout_ms;
    int64_t report_interval_ms;
    int64_t poll_wait_ms_max;
};

struct cluster {
    struct coord_config config;
    struct meta_row meta;
    struct {
        struct job **items;
        size_t count, capacity;
    } jobs; /* by name */
    struct {
        struct agent **items;
        size_t count, capacity;
    } agents; /* by id */
    struct {
        struct operation **items;
        size_t count, capacity;
    } operations; /* by id; finished ones: the newest 1,000 */
    struct {
        struct handoff **items;
        size_t count, capacity;
    } handoffs; /* those that have not ended, by id */
    struct {
        struct waiting_poll *items;
        size_t count, capacity;
    } polls;
    struct {
        struct waiting_operation *items;
        size_t count, capacity;
    } operation_waits;
    struct {
        struct pending_creation *items;
        size_t count, capacity;
    } creations;
    uint64_t call;        /* highest Kafka call id; starts at start_number << 32, so an answer to a
                             call from before a reload is nobody's */
    int64_t listening_ms; /* since when it hears agents without a gap: the start, or the end of a
                             stall; nobody is called lost before listening_ms + agent_timeout */
    int64_t place_ms;     /* when time alone may change the plan; INT64_MAX: never */
    int64_t observations_ms; /* when the next observations may have to be stored; INT64_MAX: none */
    int64_t wake_ms;         /* what the last step asked for */
};

void cluster_init(struct cluster *cluster, struct coord_config config);
void cluster_finish(struct cluster *cluster);

struct job *cluster_job(const struct cluster *cluster, const char *name); /* NULL: none */
struct agent *cluster_agent(const struct cluster *cluster, const char *agent_id);
struct operation *cluster_operation(const struct cluster *cluster, uint64_t id);
struct handoff *cluster_handoff(const struct cluster *cluster, uint64_t id); /* not ended */
const struct arrival_row *cluster_arrival(const struct job *job, const char *agent_id);
/*
 * It is registered, neither stopped nor lost, and was seen within the agent timeout (or the
 * coordinator has not listened for that long yet).
 */
bool cluster_agent_alive(const struct cluster *cluster, const struct agent *agent, int64_t now_ms);

/*
 * What the placement's owner, by incarnation and epoch, says in its newest report, or NULL: the
 * only report that counts as the placement's state (D4). Borrowed until the next step.
 */
const struct task_report *cluster_report(const struct cluster *cluster,
                                         const struct processor *processor);

/* The same for the hand-over's target while it learns, or NULL. */
const struct task_report *cluster_learner_report(const struct cluster *cluster,
                                                 const struct processor *processor);

/*
 * T1 as the processor's owner committed it, for a learner: one vector of one commit, of the owner's
 * newest report (D3.3). False when that is older than CLUSTER_FOLLOW_MS or there is none: then
 * nothing is known. Free with schema_free(&schema_follow).
 */
#define CLUSTER_FOLLOW_MS 2000
bool cluster_follow(const struct cluster *cluster, const struct job *job, uint32_t processor,
                    int64_t now_ms, struct follow *ret_follow);

/* S1 and S2 of a processor by the job's map (D2): ascending; caller frees items. */
void cluster_owned_partitions(const struct job *job, uint32_t processor,
                              struct uint_list *ret_owned);
void cluster_read_partitions(const struct job *job, uint32_t processor, struct uint_list *ret_read);

/* (start_number, document_decision): the version of what cluster_document gives. */
struct document_version cluster_document_version(const struct cluster *cluster,
                                                 const struct agent *agent);
/* Below 0, 0, above 0: a is older than, the same as, newer than b. */
int cluster_compare_versions(struct document_version a, struct document_version b);

/* The desired tasks of one agent (D6); free with schema_free(&schema_agent_document). */
void cluster_document(const struct cluster *cluster, const struct agent *agent,
                      struct agent_document *ret_document);

/* "baton.<cluster>.<job>.<incarnation>.<processor>" (D3.1) is built in one place: free(). */
char *cluster_transactional_id(const struct cluster *cluster, const struct job *job,
                               uint32_t processor);

/* NULL when every invariant holds, else a static text that names the broken one. */
const char *cluster_check(const struct cluster *cluster);

#endif
