/*
 * What the coordinator makes durable: rows, each with one kind of change
 * (coordinator/core/update.h) and one table of the database. Pure data; a row owns its texts and
 * lists (coordinator/core/rows.h copies, compares and frees them). Times named *_at are wall time
 * for people.
 */
#ifndef BATON_COORDINATOR_CORE_DURABLE_H
#define BATON_COORDINATOR_CORE_DURABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"

struct meta_row {
    char cluster[API_UUID_BYTES + 1];
    uint64_t start_number; /* rises at every start of the coordinator */
    uint64_t decision;     /* rises with every durable decision */
    uint64_t epoch;        /* highest epoch handed out */
    uint64_t event_id;     /* highest event id */
    uint64_t operation_id; /* highest operation number */
    uint64_t handoff_id;   /* highest number of a hand-over */
};

/* People hold a job, or the planner, back: until they say otherwise, over restarts, too. */
struct hold {
    bool on;
    char *reason;       /* of the last change, or NULL */
    char *actor;        /* who made it; NULL: nobody has made one */
    int64_t changed_at; /* API_UNKNOWN: never */
};

struct maintenance_row { /* there is one: no planned hand-over begins while it is on */
    struct hold hold;
};

/* What the job holds back for the sake of its group, which others are in. */
struct group_row {
    enum group_hold hold;
    int64_t since_at; /* API_UNKNOWN: there is no hold */
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
    struct hold pause;
    struct group_row group;
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
    } starts; /* first T1, committed at creation; with start "committed": what the group had then */
};

struct placement_row {
    char *job;
    uint32_t processor;
    char *agent;             /* NULL: unassigned */
    char *agent_incarnation; /* that the epoch was given to */
    uint64_t epoch;          /* 0: never had an owner */
    bool activated;          /* the owner has reported ACTIVE under this epoch */
    bool settled;            /* an owner has, under any: it had all that the split gave it */
    uint64_t handoff;        /* that the placement came by; 0: none */
    char *trouble; /* "fenced", or the code of the problem that it failed with, while an event says
                      so and none says that it is over; NULL: none */
    char *reason;  /* of the last change, for people */
    int64_t changed_at;
    struct {
        struct input_offset *items;
        size_t count;
    } paused_t1; /* T1 as its owner reported it PAUSED, until an owner is active again; else empty
                  */
    struct {
        struct chosen_offset *items;
        size_t count;
    } chosen; /* T1 as somebody chose it instead of what Kafka had, until an owner is active */
    struct {
        struct ancestor_bound *items;
        size_t count;
    } bounds; /* of the nearest ancestor of its partitions, in each topic, where that is another
                 processor's: decided by the split that made this one, for ever; by topic */
};

/* A record that no task of the job gives to its logic: somebody said so. For the job's life, since
 * every rebuild of the state must pass it, too. */
struct skip_row {
    char *job;
    uint32_t topic, partition;
    int64_t offset;
    uint32_t processor; /* that it stopped */
    char *reason;       /* or NULL */
    char *actor;
    int64_t skipped_at;
};

/* Of a partition that others were split off from; from the first expansion on. */
struct window_row {
    char *job;
    struct settle_window window;
    int64_t opened_at;
    int64_t closed_at;    /* API_UNKNOWN: it is open */
    uint64_t old_records; /* met since it was opened by an expansion, as far as they are stored */
    int64_t old_at;       /* when the last of them was met; API_UNKNOWN */
    bool stale;           /* it is open again: one was met after it was closed */
};

/* What people decided about an agent: of the id, whichever start it is. */
struct agent_eligibility {
    bool cordoned;
    char *reason;       /* of the last change, or NULL */
    char *actor;        /* who made it; NULL: nobody has made one */
    int64_t changed_at; /* API_UNKNOWN: never */
};

/* Of the id as well, unless it is to last until the agent's next start. */
struct agent_drain {
    bool asked; /* false: nothing below holds */
    enum drain_state state;
    enum drain_deadline on_deadline;
    bool until_restart;
    bool overdue;        /* the deadline has passed, and what is left is forced */
    uint32_t processors; /* that it had when it was asked to leave */
    char *reason;        /* or NULL */
    char *actor;
    char *error;         /* why it was cancelled, or NULL */
    int64_t deadline_ms; /* as it was asked for; API_UNKNOWN: none */
    int64_t started_at;
    int64_t deadline_at; /* API_UNKNOWN: none */
    int64_t ended_at;    /* API_UNKNOWN: not yet */
};

struct agent_row {
    char *agent_id;
    char *incarnation;
    enum agent_state state; /* LOST is an observation: stored as it was when it was decided */
    char *version;
    char *address;
    uint32_t protocol;
    uint32_t capacity;
    uint32_t max_learners; /* at a time; 0: no limit */
    struct {
        struct tag *items;
        size_t count;
    } tags;
    int64_t registered_at;
    struct agent_eligibility eligibility;
    struct agent_drain drain;
};

/* States before RELEASED, and those in which the time is taken: LEARNING to ACTIVATING. */
#define HANDOFF_PHASES HANDOFF_STATE_DONE

struct handoff_row { /* see coordinator/core/handoff.h */
    uint64_t id;
    enum handoff_kind kind;
    char *job;
    char *job_incarnation;
    uint32_t processor;
    int64_t parent;              /* of a split: the processor that has them now; API_UNKNOWN */
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
 * Without a row nobody has looked yet. `refused`: closed because it can not have what it was owed;
 * that stands until it is opened again.
 */
struct arrival_row {
    char *job;
    char *agent;
    char *incarnation;
    bool open;
    char *refused; /* code of the problem that will not pass by itself; NULL: none */
    char *refused_detail;
    uint32_t refused_processor; /* that it could not learn, the first one */
    int64_t refused_at;
};

/* An agent that learns a processor for good, to have its state when the owner is gone. */
struct standby_row {
    char *job;
    uint32_t processor;
    char *agent;
    char *agent_incarnation;
    char *reason; /* why this agent, for people */
    int64_t started_at;
};

enum operation_kind {
    OPERATION_KIND_CREATE_JOB,
    OPERATION_KIND_DELETE_JOB,
    OPERATION_KIND_MOVE,
    OPERATION_KIND_REBALANCE,
    OPERATION_KIND_EXPAND_PROCESSORS,
    OPERATION_KIND_EXPAND_PARTITIONS
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
    /* expand_processors */
    OPERATION_STEP_SPLIT, /* one split after the other, until there are `goal` processors */
    /* expand_partitions: SAMPLE, then */
    OPERATION_STEP_RECORD_ENDS,       /* where the partitions end before there are more */
    OPERATION_STEP_CREATE_PARTITIONS, /* then COMMIT_STARTS, of the new ones */
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
    struct {
        struct input_offset *items;
        size_t count;
    } ends;       /* expand_partitions: by topic then partition, of those before it; else empty */
    int64_t goal; /* expansions: the count that is wanted; API_UNKNOWN */
    int64_t count_before;  /* ... that there was when it began, */
    int64_t count_reached; /* ... and that there is, or was at its end; API_UNKNOWN */
    char *actor;           /* who asked for it; NULL: a version that did not note it began it */
    char *reason;          /* given by the caller, or NULL */
    char *error;           /* why it failed, or what it retries; NULL */
    int64_t created_at;
    int64_t updated_at;
};

#endif
