/*
 * What people and tools read of baton's HTTP API (D7). A part of api/types.h, which says what holds
 * for all of it: include that.
 */
#ifndef BATON_API_TYPES_VIEW_H
#define BATON_API_TYPES_VIEW_H

/* Why a job holds its outputs back for the sake of its group, which others are in (D6). */
enum group_hold {
    GROUP_HOLD_NONE,
    GROUP_HOLD_FROZEN,  /* they came while it worked: what they commit is not accepted */
    GROUP_HOLD_WAITING, /* it was resumed: it follows what they have committed, and goes on from
                           there when they have left */
    GROUP_HOLD_STARTING /* the same of a job with start "committed" that has not begun yet; its
                           stamp is put on the offsets then */
};

struct group_view {
    enum group_hold hold;
    int64_t since;   /* API_UNKNOWN: there is no hold */
    int64_t members; /* at the last look; API_UNKNOWN: there was none since the start */
    char *who;       /* they, for people; or NULL */
    bool ready;      /* waiting or starting, and all owners have learned what they committed */
};

enum job_state { JOB_STATE_CREATING, JOB_STATE_RUNNING, JOB_STATE_DELETING, JOB_STATE_FAILED };

struct job_view {
    char *name;
    char *incarnation;
    enum job_state state;
    uint64_t generation; /* rises with every change of the spec; the ETag */
    int64_t created_at;
    struct job_spec spec;
    char *operation; /* id of the operation that creates or deletes it, or NULL */
    struct pause_view pause;
    struct {
        char **items;
        size_t count;
    } warnings;
};

struct job_status { /* flat numbers; sums over the job's processors */
    char *name;
    enum job_state state;
    uint32_t partitions_initial, partitions, processors_initial, processors;
    bool paused;         /* it is to put nothing out */
    char *paused_reason; /* why, or NULL, as the next, and while it is not */
    char *paused_by;
    int64_t paused_at; /* API_UNKNOWN: it is not */
    struct group_view group;
    uint32_t processors_active, processors_replaying, processors_unassigned, processors_failed;
    uint32_t processors_paused; /* that have committed what they put out, and stopped */
    uint32_t agents;            /* that hold a task of it */
    uint32_t handoffs_running;
    uint32_t standbys_wanted; /* by the spec, of all processors */
    uint32_t standbys_ready;  /* that would take over at once */
    int64_t lag_records;      /* sum of stable_end - T1; API_UNKNOWN while any is unknown */
    int64_t lag_records_max;  /* of one partition */
    int64_t replay_records;   /* sum of T1 - T2 where T2 < T1 */
    double records_per_s;
    double replayed_per_s;
    uint64_t state_rows, state_bytes;
    uint32_t windows_open;    /* settle windows: partitions of all inputs */
    uint32_t windows_stale;   /* of them: opened again, for an old-count record came too late */
    uint64_t old_records;     /* met in windows since they were opened by the newest expansion */
    int64_t old_at;           /* when the last of those was met; API_UNKNOWN: none was */
    int64_t windows_close_at; /* the first open one is closed then at the earliest; API_UNKNOWN:
                                 none is open, or none can be closed */
    uint32_t problems;
    int64_t observed_at; /* oldest of the reports that this sums up; API_UNKNOWN when none */
};

struct partition_view {
    char *topic;
    uint32_t partition;
    bool owned; /* in S1 */
    int64_t t0, t1, t2, log_start, stable_end, end;
    int64_t lag_records; /* stable_end - t1 */
    char *window;        /* its settle window: "open" or "closed"; NULL: it has none */
    int64_t window_at;   /* since when it is so; API_UNKNOWN without one */
    int64_t fence;       /* where it was closed; API_UNKNOWN while it is not */
    int64_t old_records; /* old-count records met in it; API_UNKNOWN without one */
    int64_t old_at;      /* when the last of them was met; API_UNKNOWN: none was */
    bool window_stale;   /* it is open again: one came after it had been closed */
    int64_t
        window_closes_at; /* at the earliest; API_UNKNOWN: it is not open, or can not be closed */
};

/*
 * Someone who learns a processor silently, to take it over. `stuck`: the code of a problem of
 * api/problem.h, or "source_not_heard": nobody tells it how far the owner has committed.
 */
struct learner_view {
    char *agent;
    uint64_t handoff;        /* that it learns for */
    char *state;             /* of its task, or "assigned": it was not reported yet */
    int64_t learned_records; /* offsets from T0 to T2; API_UNKNOWN: not known, as the next four */
    int64_t target_records;  /* offsets from T0 to the T1 that it follows */
    int64_t lag_records;     /* most of one partition */
    int64_t replay_records;  /* T1 - T2 of all */
    int64_t eta_ms;          /* until it has caught up; API_UNKNOWN also when it does not */
    double replayed_per_s, incoming_per_s; /* its rate, and the owner's */
    char *stuck;   /* why it does not get on; NULL: it does, or nobody can tell */
    char *waiting; /* the same for a person, and what it waits for when it is not stuck */
    int64_t reported_at;
    struct {
        struct partition_view *items;
        size_t count;
    } partitions; /* t1: the one that it follows */
};

/* Someone who learns a processor for good, to have its state when the owner is lost. */
struct standby_view {
    char *agent;
    char *zone;             /* the agent's tag, or NULL */
    char *state;            /* as of a learner */
    bool ready;             /* it would take over at once */
    int64_t lag_records;    /* most of one partition, behind the owner's last report */
    int64_t replay_records; /* as of a learner, and so the next five */
    int64_t eta_ms;
    double replayed_per_s;
    char *stuck;
    char *waiting; /* NULL: it is ready */
    int64_t reported_at;
    char *reason; /* why this agent */
    int64_t started_at;
};

/* The record that stops a processor. */
struct record_view {
    char *topic;
    uint32_t partition;
    int64_t offset;
};

struct processor_view {
    char *job;
    uint32_t processor;
    char *agent; /* owner, or NULL */
    char *agent_incarnation;
    bool agent_alive;
    uint64_t epoch;
    char *state; /* the owner task's for this epoch, or "unassigned", "assigned", "agent_lost" */
    struct uint_list owned; /* S1 */
    struct uint_list read;  /* S2 */
    int64_t lag_records;
    double records_per_s, replayed_per_s;
    int64_t eta_ms; /* until it has caught up at the present rate; API_UNKNOWN */
    char *reason;   /* why it is where it is, for a person, or NULL */
    uint64_t records, outputs, replayed, skipped_null_key, skipped_error, skipped_asked,
        dead_lettered, commits, aborts;
    uint64_t state_rows, state_bytes;
    int64_t reported_at;
    struct {
        struct record_view *items;
        size_t count;
    } halted; /* the record that it can not pass; empty: none */
    struct {
        struct partition_view *items;
        size_t count;
    } partitions;
    struct {
        struct learner_view *items;
        size_t count;
    } learners;
    struct {
        struct standby_view *items;
        size_t count;
    } standbys;
};

struct map_partition {
    uint32_t partition;
    uint32_t processor;
    char *agent;
    int64_t parent; /* API_UNKNOWN: none */
};

struct map_view {
    char *job;
    uint64_t version;
    uint32_t partitions_initial, partitions, partitions_level, partitions_split_pointer;
    uint32_t processors_initial, processors, processors_level, processors_split_pointer;
    enum effective_partitioner partitioner;
    char *partitioner_reason;
    struct {
        struct map_partition *items;
        size_t count;
    } items;
};

struct map_key_view {
    char *job;
    char *key;
    enum effective_partitioner
        partitioner; /* UNDETERMINED and OPAQUE answer 409: a key can not be placed */
    uint32_t hash;
    struct uint_list path; /* buckets from the initial one to the present one */
    uint32_t partition;
    uint32_t processor;
    char *agent;
};

enum problem_severity { PROBLEM_SEVERITY_WARNING, PROBLEM_SEVERITY_CRITICAL };

struct problem_view {
    char *code;
    enum problem_severity severity;
    char *job;
    int64_t processor; /* API_UNKNOWN: the whole job */
    char *agent;       /* or NULL */
    int64_t since_at;
    char *detail;
    char *action; /* what to do */
};

struct agent_view {
    char *agent_id;
    char *incarnation;
    enum agent_state { AGENT_STATE_ALIVE, AGENT_STATE_STOPPED, AGENT_STATE_LOST } state;
    char *version;
    char *address;
    uint32_t protocol;
    uint32_t capacity;
    uint32_t max_learners; /* 0: no limit of the agent's */
    struct {
        struct tag *items;
        size_t count;
    } tags;
    uint32_t tasks;        /* that it should have */
    uint32_t tasks_active; /* reported active */
    int64_t registered_at;
    int64_t seen_at;
    struct document_version assigned; /* version of its document */
    struct document_version applied;  /* version that it reported */
    struct eligibility_view eligibility;
    char *drain;       /* state of its drain; NULL: it is not to leave */
    bool safe_to_stop; /* it has left, see struct drain_view */
};

/* One move of a processor's partitions (D4); drawn in coordinator/core/handoff.h. */
enum handoff_kind { HANDOFF_KIND_RELOCATE, HANDOFF_KIND_SPLIT };

enum handoff_state {
    HANDOFF_STATE_LEARNING,
    HANDOFF_STATE_CAUGHT_UP,
    HANDOFF_STATE_RELEASING,
    HANDOFF_STATE_RELEASED,
    HANDOFF_STATE_ACTIVATING,
    HANDOFF_STATE_DONE,
    HANDOFF_STATE_CANCELLED,
    HANDOFF_STATE_FAILED
};

struct handoff_view {
    uint64_t id;
    enum handoff_kind kind;
    char *job;
    uint32_t processor;
    int64_t parent; /* of a split: processor that it takes partitions of; API_UNKNOWN */
    enum handoff_state state;
    bool forced;                 /* the source was not waited for: lost, or late */
    char *source;                /* agent that gives it up */
    char *target;                /* agent that gets it; a later one when the first was lost */
    uint64_t source_epoch;       /* that the source gives up */
    uint64_t target_epoch;       /* that the target activates under; 0: not decided yet */
    struct uint_list partitions; /* S1 that moves */
    char *operation;             /* that asked for it, or NULL */
    char *reason;                /* why it was started */
    char *error;                 /* why it was cancelled or failed, or NULL */
    char *waiting;               /* what it waits for, for a person; NULL when it has ended */
    char *stuck;                 /* see struct learner_view; also of a target that has failed */
    int64_t lag_records;         /* the target's caught_up_lag */
    int64_t replay_records;      /* records of S2 that the target has still to apply */
    int64_t learned_records;     /* see struct learner_view, as the next one */
    int64_t target_records;
    double replayed_per_s;          /* the target's rate */
    double incoming_per_s;          /* the source's */
    int64_t eta_ms;                 /* until it has caught up at that rate; API_UNKNOWN */
    int64_t started_at, changed_at; /* changed_at: of the present state */
    int64_t learning_ms, caught_up_ms, releasing_ms, released_ms,
        activating_ms;     /* spent in each state; API_UNKNOWN: not been there */
    int64_t output_gap_ms; /* from the word to stop (forced: the source's last report) until the
                              target's first commit was reported; API_UNKNOWN: not yet */
};

enum operation_state {
    OPERATION_STATE_PENDING,
    OPERATION_STATE_RUNNING,
    OPERATION_STATE_SUCCEEDED,
    OPERATION_STATE_FAILED,
    OPERATION_STATE_CANCELLED
};

struct operation_view {
    char *id;
    char *kind; /* "create_job", "delete_job", "move", "rebalance", ... */
    char *job;
    enum operation_state state;
    char *step;                 /* what it is doing or waiting for, for a person */
    int64_t step_number, steps; /* of expansions; API_UNKNOWN: of other kinds, as the next three */
    int64_t from;               /* processors or partitions when it began */
    int64_t to;                 /* that are wanted */
    int64_t reached;            /* that there are, or were when it ended */
    int64_t handoff;            /* that it waits for now; API_UNKNOWN: for none */
    char *waiting;    /* what it waits for, for a person; NULL: it has ended, or nobody knows */
    int64_t eta_ms;   /* of expand_processors: until the last split has learned; API_UNKNOWN */
    bool cancellable; /* DELETE would be accepted now */
    char *action;     /* what to do; NULL: nothing need be done */
    char *actor;      /* who asked for it, or NULL: that is not known */
    char *reason;     /* given by the caller, or NULL */
    char *error;      /* why it failed or what it retries, or NULL */
    int64_t created_at;
    int64_t updated_at;
};

struct event_view {
    uint64_t id;
    int64_t at;
    char *kind; /* "job_created", "processor_assigned", "agent_lost", ... */
    char *job;  /* or NULL, as the next three */
    int64_t processor;
    char *agent;
    char *operation;
    char *actor;  /* who: "api <address>", "agent <id>", "coordinator" */
    char *detail; /* why, for a person */
};

/* Lists are pages: {"items": [...], "next": "<cursor>" or null}. */
struct job_page {
    struct {
        struct job_view *items;
        size_t count;
    } items;
    char *next;
};
struct processor_page {
    struct {
        struct processor_view *items;
        size_t count;
    } items;
    char *next;
};
struct problem_page {
    struct {
        struct problem_view *items;
        size_t count;
    } items;
    char *next;
};
struct agent_page {
    struct {
        struct agent_view *items;
        size_t count;
    } items;
    char *next;
};
struct operation_page {
    struct {
        struct operation_view *items;
        size_t count;
    } items;
    char *next;
};
struct handoff_page {
    struct {
        struct handoff_view *items;
        size_t count;
    } items;
    char *next;
};
struct skip_page {
    struct {
        struct skip_view *items;
        size_t count;
    } items;
    char *next; /* NULL: all are here */
};

struct event_page {
    struct {
        struct event_view *items;
        size_t count;
    } items;
    char *next;
};

struct version_view {
    char *version;
    char *component;
    uint32_t protocol, protocol_minimum;
    char *librdkafka, *sqlite, *microhttpd;
};

/* One thing wrong with a request; `pointer` is an RFC 6901 JSON pointer into the body ("" the body
 * itself). */
struct field_error {
    char *pointer;
    char *detail;
};

/* An RFC 9457 problem body (application/problem+json). */
struct problem_body {
    char *type;  /* "urn:baton:problem:<code>" */
    char *title; /* of the code's entry in api/problem.h */
    uint32_t status;
    char *detail; /* this occurrence, and what to do */
    char *code;
    struct {
        struct field_error *items;
        size_t count;
    } errors;
};

#endif
