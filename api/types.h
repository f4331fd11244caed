/*
 * The words of baton's HTTP API as plain data: what outsiders program against, and what coordinator
 * and agent exchange.
 *
 * No behaviour but copy, compare and free, which follow from the tables in api/schema.h. JSON goes
 * in and out through api/codec.h by the same tables, so a field exists in one place. Strings are
 * owned by their struct (heap, NUL-terminated UTF-8). Every offset is the *next offset to read*;
 * API_UNKNOWN (-1) is "not known" and JSON null, never 0. Times named `_at` are milliseconds of
 * wall time since 1970 and RFC 3339 texts in JSON. Durations are milliseconds here and texts
 * ("10m") in JSON.
 */
#ifndef BATON_API_TYPES_H
#define BATON_API_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_UNKNOWN INT64_C(-1)

/* The agent protocol: an agent and a coordinator work together when their ranges [minimum, version]
 * overlap. */
#define API_PROTOCOL_VERSION 1
#define API_PROTOCOL_MINIMUM 1

/* Limits. Input over them is refused by name before memory is taken. */
#define API_BODY_BYTES_MAX       (1024 * 1024)      /* of a public request; 413 */
#define API_AGENT_BODY_BYTES_MAX (16 * 1024 * 1024) /* of a register or report; 413 */
#define API_JSON_DEPTH_MAX       16
#define API_JSON_VALUES_MAX      600000 /* of one body: small ones take 100 times their text */
#define API_NAME_BYTES_MAX       63     /* [a-z0-9][a-z0-9._-]*; agents may use upper case */
#define API_TOPIC_BYTES_MAX      249 /* Kafka's own limit, [a-zA-Z0-9._-]+ but not "." and ".." */
#define API_GROUP_BYTES_MAX      249
#define API_TEXT_BYTES_MAX       1024 /* reasons and details */
#define API_CONFIG_BYTES_MAX     (64 * 1024)
#define API_INPUTS_MAX           16
#define API_PARTITIONS_MAX       10000
#define API_JOBS_MAX             1000
#define API_AGENTS_MAX           1000
#define API_TASKS_MAX            10000 /* of one agent */
#define API_TAGS_MAX             32
#define API_UUID_BYTES           36

/* ---------------------------------------------------------------- the job's specification (D7) */

enum logic_kind { LOGIC_KIND_BUILTIN, LOGIC_KIND_PLUGIN, LOGIC_KIND_EXEC };
enum delivery { DELIVERY_EXACTLY_ONCE, DELIVERY_AT_LEAST_ONCE };
enum partitioner { PARTITIONER_AUTO, PARTITIONER_MURMUR2, PARTITIONER_CRC32, PARTITIONER_OPAQUE };
enum start { START_EARLIEST, START_LATEST, START_COMMITTED };
enum history { HISTORY_FULL, HISTORY_RETAINED };
enum interleaving { INTERLEAVING_NONE, INTERLEAVING_ANY }; /* D12; see api/spec.h */
enum expansion_order { EXPANSION_ORDER_MERGE, EXPANSION_ORDER_HOLD };
enum on_error { ON_ERROR_HALT, ON_ERROR_SKIP, ON_ERROR_DEAD_LETTER };
enum null_key { NULL_KEY_SKIP, NULL_KEY_HALT };
enum seed { SEED_AUTO, SEED_REPLAY, SEED_SNAPSHOT };

struct job_logic {
    enum logic_kind kind;
    char *name;
    char *version;
    char *config; /* compact text of a JSON object, which it is in JSON; "{}" when absent */
};

struct job_spec {
    struct {
        char **items;
        size_t count;
    } inputs;     /* 1..API_INPUTS_MAX co-partitioned topics, distinct */
    char *output; /* NULL: the logic emits nothing anybody reads; emitting is an error then */
    char *group_id;
    struct job_logic logic;
    enum delivery delivery;
    bool stateful;
    uint32_t processors;         /* M0; 1..API_PARTITIONS_MAX */
    uint32_t initial_partitions; /* N0; 0: today's count */
    enum partitioner partitioner;
    enum start start;
    bool reset_offsets;
    enum history history;
    enum interleaving interleaving;
    enum expansion_order expansion_order;
    int64_t settle_ms;
    int64_t acceptable_lag; /* records per partition */
    uint32_t max_learners;  /* 0: no limit of the job's */
    uint32_t standbys;
    bool auto_expand;
    uint32_t max_processors;    /* 0: no limit but N */
    int64_t commit_interval_ms; /* 10..60000 */
    enum on_error on_error;
    char *dead_letter_topic; /* NULL: none */
    enum null_key null_key;
    int64_t state_ttl_ms; /* 0: rows live for ever */
    int64_t rejoin_grace_ms;
    enum seed seed;
    bool provenance;
};

/* ---------------------------------------------------------------- coordinator <-> agent (D6) */

enum task_role { TASK_ROLE_LEARNER, TASK_ROLE_STANDBY, TASK_ROLE_ACTIVE };

enum task_state {
    TASK_STATE_OPENING,
    TASK_STATE_SEEDING,
    TASK_STATE_LEARNING,
    TASK_STATE_CAUGHT_UP,
    TASK_STATE_REPLAYING,
    TASK_STATE_ACTIVE,
    TASK_STATE_RELEASING,
    TASK_STATE_CLOSED,
    TASK_STATE_FENCED,
    TASK_STATE_FAILED
};

struct uint_list {
    uint32_t *items;
    size_t count;
};

/* The hash by which keys were found to be spread over partitions; UNDETERMINED until there were
 * records to tell. */
enum effective_partitioner {
    EFFECTIVE_PARTITIONER_UNDETERMINED,
    EFFECTIVE_PARTITIONER_MURMUR2,
    EFFECTIVE_PARTITIONER_CRC32,
    EFFECTIVE_PARTITIONER_OPAQUE
};

struct tag {
    char *name;
    char *value;
};

struct input_offset {
    uint32_t topic; /* index in spec.inputs */
    uint32_t partition;
    int64_t offset;
};

struct kept_state {
    char *job;
    char *job_incarnation;
    uint32_t processor;
    struct {
        struct input_offset *items;
        size_t count;
    } learned; /* T2 */
};

/* POST /agent/v1/agents */
struct agent_registration {
    char *agent_id;
    char *incarnation; /* UUID of this start */
    uint32_t protocol;
    uint32_t protocol_minimum;
    char *version;     /* of the agent's software, for people */
    char *address;     /* http://host:port of the agent's own endpoint, or NULL */
    uint32_t capacity; /* most tasks, 1..API_TASKS_MAX */
    struct {
        struct tag *items;
        size_t count;
    } tags;
    struct {
        struct kept_state *items;
        size_t count;
    } kept;
};

struct agent_welcome { /* the answer */
    char *cluster;     /* UUID made when the coordinator's database was made */
    uint32_t protocol;
    int64_t agent_timeout_ms;
    int64_t report_interval_ms;
    int64_t poll_wait_ms;
};

/* A document's version: (coordinator's start number, number of its last durable decision); "3.17"
 * in JSON. */
struct document_version {
    uint64_t start;
    uint64_t decision;
};

struct document_job {
    char *name;
    char *incarnation; /* UUID given at creation */
    struct job_spec spec;
    uint32_t partitions_initial; /* N0 */
    uint32_t partitions;         /* N */
    uint32_t processors_initial; /* M0 */
    uint32_t processors;         /* M */
    enum effective_partitioner partitioner;
    bool paused;
    struct {
        struct input_offset *items;
        size_t count;
    } origins; /* T0 of every input partition */
};

struct document_task {
    char *job;
    uint32_t processor;
    enum task_role role;
    uint64_t epoch;         /* 0 for learners and standbys */
    uint64_t handoff;       /* 0: none */
    bool release;           /* role active: finish the batch, commit, give S1 up (D4) */
    struct uint_list owned; /* S1, ascending */
    struct uint_list read;  /* S2, ascending, holds all of S1 */
};

/* GET /agent/v1/agents/{id}/assignment?incarnation=&after=&wait= : all tasks that the agent shall
 * have, nothing else */
struct agent_document {
    struct document_version version;
    struct {
        struct document_job *items;
        size_t count;
    } jobs;
    struct {
        struct document_task *items;
        size_t count;
    } tasks;
};

struct partition_progress {
    uint32_t topic; /* index in spec.inputs */
    uint32_t partition;
    int64_t t0, t1, t2; /* API_UNKNOWN when not known */
    int64_t log_start;  /* first offset still in the log */
    int64_t stable_end; /* last stable offset: read_committed readers get this far */
    int64_t end; /* high watermark (read_uncommitted); above stable_end: a transaction is open */
};

struct task_problem {
    char *code; /* of api/problem.h's list */
    char *detail;
    int64_t since_at;
};

struct task_report {
    char *job;
    char *job_incarnation;
    uint32_t processor;
    enum task_role role;
    enum task_state state;
    uint64_t epoch;
    uint64_t handoff;
    bool released; /* the last commit under `epoch` succeeded and nothing is consumed any more */
    int64_t caught_up_lag;      /* learner: most records of a partition of S1 between T2 and the T1
                                   that it follows; API_UNKNOWN otherwise and while not known */
    struct uint_list consuming; /* partitions that it consumes with output at this moment */
    struct {
        struct partition_progress *items;
        size_t count;
    } progress;       /* of S2 */
    uint64_t records; /* applied with output since the task's start */
    uint64_t outputs;
    uint64_t replayed; /* applied silently since the task's start */
    uint64_t skipped_null_key;
    uint64_t skipped_error;
    uint64_t dead_lettered;
    uint64_t commits;
    uint64_t aborts;
    double records_per_s; /* over the last seconds */
    double replayed_per_s;
    uint64_t state_rows;
    uint64_t state_bytes;
    struct {
        struct task_problem *items;
        size_t count;
    } problems;
};

/* POST /agent/v1/agents/{id}/report */
struct agent_report {
    char *incarnation;
    struct document_version version; /* of the document that it works by; 0.0: none yet */
    bool stopping; /* the agent is on its way out: commits are done, it will be back or not */
    struct {
        struct task_report *items;
        size_t count;
    } tasks;
};

struct follow { /* T1 for one learner, one vector of one commit of its owner */
    char *job;
    uint32_t processor;
    struct {
        struct input_offset *items;
        size_t count;
    } committed;
};

struct report_answer {
    struct {
        struct follow *items;
        size_t count;
    } follow;
};

/* ---------------------------------------------------------------- what people and tools read (D7)
 */

enum job_state { JOB_STATE_CREATING, JOB_STATE_RUNNING, JOB_STATE_DELETING, JOB_STATE_FAILED };

struct job_view {
    char *name;
    char *incarnation;
    enum job_state state;
    uint64_t generation; /* rises with every change of the spec; the ETag */
    int64_t created_at;
    struct job_spec spec;
    char *operation; /* id of the operation that creates or deletes it, or NULL */
    struct {
        char **items;
        size_t count;
    } warnings;
};

struct job_status { /* flat numbers; sums over the job's processors */
    char *name;
    enum job_state state;
    uint32_t partitions_initial, partitions, processors_initial, processors;
    uint32_t processors_active, processors_replaying, processors_unassigned, processors_failed;
    uint32_t agents; /* that hold a task of it */
    uint32_t handoffs_running;
    int64_t lag_records;     /* sum of stable_end - T1; API_UNKNOWN while any is unknown */
    int64_t lag_records_max; /* of one partition */
    int64_t replay_records;  /* sum of T1 - T2 where T2 < T1 */
    double records_per_s;
    double replayed_per_s;
    uint64_t state_rows, state_bytes;
    uint32_t problems;
    int64_t observed_at; /* oldest of the reports that this sums up; API_UNKNOWN when none */
};

struct partition_view {
    char *topic;
    uint32_t partition;
    bool owned; /* in S1 */
    int64_t t0, t1, t2, log_start, stable_end, end;
    int64_t lag_records; /* stable_end - t1 */
};

struct processor_view {
    char *job;
    uint32_t processor;
    char *agent; /* owner, or NULL */
    char *agent_incarnation;
    bool agent_alive;
    uint64_t epoch;
    char *state; /* the owner task's state as reported for this epoch, or "unassigned", "assigned",
                    "agent_lost" */
    struct uint_list owned; /* S1 */
    struct uint_list read;  /* S2 */
    int64_t lag_records;
    double records_per_s, replayed_per_s;
    int64_t eta_ms; /* until it has caught up at the present rate; API_UNKNOWN when it can not be
                       told */
    char *reason;   /* why it is where it is, for a person, or NULL */
    uint64_t records, outputs, replayed, skipped_null_key, skipped_error, dead_lettered, commits,
        aborts;
    uint64_t state_rows, state_bytes;
    int64_t reported_at;
    struct {
        struct partition_view *items;
        size_t count;
    } partitions;
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
};

/* One move of a processor's partitions (D4); drawn in coordinator/core/handoff.h. This version
 * makes no splits. */
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
    enum handoff_state state;
    bool forced;                    /* the source was not waited for: it was lost */
    char *source;                   /* agent that gives it up */
    char *target;                   /* agent that gets it; a later one when the first was lost */
    uint64_t source_epoch;          /* that the source gives up */
    uint64_t target_epoch;          /* that the target activates under; 0: not decided yet */
    struct uint_list partitions;    /* S1 that moves */
    char *operation;                /* that asked for it, or NULL */
    char *reason;                   /* why it was started */
    char *error;                    /* why it was cancelled or failed, or NULL */
    char *waiting;                  /* what it waits for, for a person; NULL when it has ended */
    int64_t lag_records;            /* the target's caught_up_lag */
    int64_t replay_records;         /* records of S2 that the target has still to apply */
    double replayed_per_s;          /* the target's rate */
    int64_t eta_ms;                 /* until it has caught up at that rate; API_UNKNOWN */
    int64_t started_at, changed_at; /* changed_at: of the present state */
    int64_t learning_ms, caught_up_ms, releasing_ms, released_ms,
        activating_ms;     /* spent in each state; API_UNKNOWN: not been there */
    int64_t output_gap_ms; /* from the word to stop (forced: the source's last report) until the
                              target's first commit was reported; API_UNKNOWN: not yet */
};

/* POST /v1/jobs/{job}/moves */
struct move_request {
    uint32_t processor;
    char *agent; /* target; NULL: the planner chooses */
    char *reason;
};

/* POST /v1/jobs/{job}/rebalance */
struct rebalance_request {
    char *reason;
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
    char *kind; /* "create_job", "delete_job", "move", "rebalance" */
    char *job;
    enum operation_state state;
    char *step;   /* what it is doing or waiting for, for a person */
    char *reason; /* given by the caller, or NULL */
    char *error;  /* why it failed or what it retries, or NULL */
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
