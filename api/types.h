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

#include "api/types_plan.h"
#include "api/types_request.h"

#define API_UNKNOWN INT64_C(-1)

/* The agent protocol: an agent and a coordinator work together when their ranges [minimum, version]
 * overlap. 2: settle windows, and bounds of what is inherited. An agent of 1 would pass over these,
 * and take records of an ancestor for its own: it is not spoken any more. */
#define API_PROTOCOL_VERSION 2
#define API_PROTOCOL_MINIMUM 2

/* Limits. Input over them is refused by name before memory is taken. */
#define API_BODY_BYTES_MAX       (1024 * 1024)      /* of a public request; 413 */
#define API_AGENT_BODY_BYTES_MAX (16 * 1024 * 1024) /* of a register or report; 413 */
#define API_JSON_DEPTH_MAX       16
#define API_JSON_VALUES_MAX      600000 /* of one body: small ones take 100 times their text */
#define API_NAME_BYTES_MAX       63     /* [a-z0-9][a-z0-9._-]*; agents may use upper case */
#define API_TOPIC_BYTES_MAX      249 /* Kafka's own limit, [a-zA-Z0-9._-]+ but not "." and ".." */
#define API_GROUP_BYTES_MAX      249
#define API_TEXT_BYTES_MAX       1024 /* reasons and details */
#define API_BUILD_BYTES          64   /* that tell one build of a logic from another */
#define API_CONFIG_BYTES_MAX     (64 * 1024)
#define API_INPUTS_MAX           16
#define API_PARTITIONS_MAX       10000
#define API_JOBS_MAX             1000
#define API_AGENTS_MAX           1000
#define API_TASKS_MAX            10000 /* of one agent */
#define API_TAGS_MAX             32
#define API_UUID_BYTES           36
#define API_SKIPS_MAX            1000 /* records of a job that are passed by somebody's word */
#define API_SKIPS_PARTITION_MAX  100  /* ... of one partition */

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
    TASK_STATE_PAUSED,
    TASK_STATE_RELEASING,
    TASK_STATE_CLOSED,
    TASK_STATE_FENCED,
    TASK_STATE_FAILED
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

/* Where the committed offset is `found` (API_UNKNOWN: there is none), T1 is `offset`. */
struct chosen_offset {
    uint32_t topic; /* index in spec.inputs */
    uint32_t partition;
    int64_t found;
    int64_t offset;
};

/*
 * The settle window of a partition from which others were split off (D4). Records that lie in it
 * although their key belongs to one of those are old-count records: their producers did not know
 * the new number of partitions.
 */
struct settle_window {
    uint32_t topic; /* index in spec.inputs */
    uint32_t partition;
    uint64_t number;   /* rises each time that it is opened */
    int64_t first_end; /* where it ended before there was more than one count, 0 if made later:
                          from there on keys are checked to belong to the processor */
    int64_t end;       /* where the partition ended before the newest count; from there on old-count
                          records are counted */
    int64_t fence;     /* where it was closed: no old-count record was expected from there on;
                          API_UNKNOWN: it is open */
};

/* What a task says of the settle window of a partition that it owns. */
struct window_report {
    uint32_t topic;
    uint32_t partition;
    uint64_t number;      /* of the opening that this is about */
    uint64_t old_records; /* old-count ones, since the task's start */
    int64_t old_at;       /* of the last one; API_UNKNOWN: there was none */
    int64_t settled; /* T1, past an end that was asked for when there had been none for `settle`;
                        API_UNKNOWN: not yet */
    bool stale;      /* one came after it was closed */
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

/* Crashes in a row of a job's logic at one record, on one agent (D3.8). */
struct crash_note {
    char *job;
    char *job_incarnation;
    char *agent; /* in a document; NULL in a report: who sends it */
    char *build; /* of the logic, the same for the same file on every host */
    uint32_t topic;
    uint32_t partition;
    int64_t offset;
    uint32_t count;
};

/* A document's version: (coordinator's start number, number of its last durable decision); "3.17"
 * in JSON. */
struct document_version {
    uint64_t start;
    uint64_t decision;
};

/* What is read first of a registration, whatever else is in it. */
struct agent_offer {
    char *agent_id;
    uint32_t protocol;
    uint32_t protocol_minimum;
    char *version; /* NULL: not said */
};

/* POST /agent/v1/agents */
struct agent_registration {
    char *agent_id;
    char *incarnation; /* UUID of this start */
    uint32_t protocol;
    uint32_t protocol_minimum;
    char *version;         /* of the agent's software, for people */
    char *address;         /* http://host:port of the agent's own endpoint, or NULL */
    uint32_t capacity;     /* most tasks, 1..API_TASKS_MAX */
    uint32_t max_learners; /* at a time; 0: no limit of the agent's */
    struct {
        struct tag *items;
        size_t count;
    } tags;
    struct {
        struct kept_state *items;
        size_t count;
    } kept;
    struct {
        struct crash_note *items;
        size_t count;
    } crashes; /* as in each report: it may be given a task before it makes one */

    /* What a coordinator may not know that has lost its database, or has an older one. */
    char *cluster;                    /* that this start works for; NULL: none yet */
    struct document_version document; /* version of the newest one that it was told; 0.0: none */
    struct {
        struct document_job *items;
        size_t count;
    } jobs; /* of that document */
    struct {
        struct document_task *items;
        size_t count;
    } tasks; /* of that document */
};

struct agent_welcome { /* the answer */
    char *cluster;     /* UUID made when the coordinator's database was made */
    uint32_t protocol;
    int64_t agent_timeout_ms;
    int64_t report_interval_ms;
    int64_t poll_wait_ms;
};

struct document_job {
    char *name;
    char *incarnation; /* UUID given at creation */
    struct job_spec spec;
    uint32_t partitions_initial; /* N0 */
    uint32_t partitions;         /* N */
    uint32_t processors_initial; /* M0 */
    uint32_t processors;         /* M */
    uint32_t processors_settled; /* so many have all that they need of those they were split from;
                                    0: not said */
    enum effective_partitioner partitioner;
    bool paused;  /* its owners put nothing out and commit nothing */
    bool frozen;  /* ... because others are in its group, whose commits are not accepted */
    bool waiting; /* ... until others have left its group: what they commit is followed */
    struct {
        struct input_offset *items;
        size_t count;
    } origins; /* T0 of every input partition */
    struct {
        struct settle_window *items;
        size_t count;
    } windows; /* of every input partition that others were split off from */
};

/* Up to where an ancestor's records are part of the state of who descends from it (D4). */
struct ancestor_bound {
    uint32_t topic, partition; /* of the ancestor */
    int64_t offset;
    int64_t
        records; /* of T0 up to the offset, as its owner has met them; API_UNKNOWN: not counted */
};

struct document_source { /* an agent that has a copy of a task's state */
    char *agent;
    char *address; /* of its endpoint */
    bool parent;   /* of the parent's state, of which it gives the part that is the task's */
};

struct document_task {
    char *job;
    uint32_t processor;
    enum task_role role;
    uint64_t epoch;   /* 0 for learners and standbys */
    uint64_t handoff; /* 0: none */
    bool release;     /* role active: finish the batch, commit, give S1 up (D4) */
    uint64_t
        split_handoff; /* role active: ... give a part of S1 up, and go on with the rest; 0: no */
    uint32_t split_processor;          /* that gets it, and ... */
    uint64_t split_epoch;              /* ... the epoch that it gets it under */
    struct uint_list split_partitions; /* that part, ascending */
    struct uint_list owned;            /* S1, ascending */
    struct uint_list read;             /* S2, ascending, holds all of S1 */
    struct {
        struct ancestor_bound *items;
        size_t count;
    } bounds; /* of what is in S2 alone, as far as they are decided; by topic, then partition */
    struct {
        struct input_offset *items;
        size_t count;
    } paused_t1; /* T1 at which the processor was paused, until it is active again; else empty */
    struct {
        struct chosen_offset *items;
        size_t count;
    } chosen; /* T1 as somebody has chosen it, until the processor is active again; else empty */
    struct {
        struct input_offset *items;
        size_t count;
    } skips; /* records of S2 that are never given to the logic; ascending */
    struct {
        struct document_source *items;
        size_t count;
    } sources;        /* in the order in which to ask them for a snapshot */
    char *seed_token; /* to ask them with; NULL: there are none */
    struct {
        char **items;
        size_t count;
    } readers; /* tokens with which others may have a snapshot of this task's state */
    struct {
        struct crash_note *items;
        size_t count;
    } crashes; /* of other agents, in S1 */
    struct {
        char **items;
        size_t count;
    } part_readers; /* likewise, of the part of it that is part_processor's, by a split */
    uint32_t part_processor;
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
    bool released;  /* the last commit under `epoch` succeeded and nothing is consumed any more */
    uint64_t split; /* hand-over of the split whose partitions it has given up; 0: none */
    struct {
        struct ancestor_bound *items;
        size_t count;
    } split_bounds; /* that the split's commit has given to what stays here of their ancestors */
    int64_t caught_up_lag;      /* learner: most records of a partition of S1 between T2 and the T1
                                   that it follows; API_UNKNOWN otherwise and while not known */
    struct uint_list consuming; /* partitions that it consumes with output at this moment */
    struct {
        struct partition_progress *items;
        size_t count;
    } progress; /* of S2 */
    struct {
        struct input_offset *items;
        size_t count;
    } halted; /* the record that it can not pass, until somebody does something; empty: none */
    struct {
        struct input_offset *items;
        size_t count;
    } found; /* committed offsets that it does not go on from, and so waits; API_UNKNOWN: gone */
    struct {
        struct window_report *items;
        size_t count;
    } windows;        /* of S1, as far as it was told of them */
    uint64_t records; /* applied with output since the task's start */
    uint64_t outputs;
    uint64_t replayed; /* applied silently since the task's start */
    uint64_t skipped_null_key;
    uint64_t skipped_error;
    uint64_t skipped_asked; /* because somebody said so */
    uint64_t dead_lettered;
    uint64_t commits;
    uint64_t aborts;
    double records_per_s; /* over the last seconds */
    double replayed_per_s;
    uint64_t state_rows;
    uint64_t state_bytes;
    uint64_t garbage_rows; /* that splits have left behind, removed since the state was opened */
    bool garbage_left;     /* there may be more of them */
    char *seed_source;     /* agent that the state was got from, or is being; NULL: none */
    uint64_t seed_rows, seed_rows_total; /* of that snapshot */
    uint64_t seed_bytes;
    double seed_rows_per_s; /* since it began; 0 when it has ended */
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
    /* NO: it stays, or it comes back. DRAIN: it works on until others have what it has. RELEASE:
     * others shall take over what it has, it is not waited for. */
    enum agent_leaving { AGENT_LEAVING_NO, AGENT_LEAVING_DRAIN, AGENT_LEAVING_RELEASE } leaving;
    struct {
        struct task_report *items;
        size_t count;
    } tasks;
    struct {
        struct crash_note *items;
        size_t count;
    } crashes; /* that ended earlier runs of the agent, as its disk says */
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
    bool safe_to_stop;  /* it is to leave, and has nothing any more */
    bool drain_refused; /* it wants to leave, and nobody could take what it has */
    struct {
        struct follow *items;
        size_t count;
    } follow;
};

#include "api/types_view.h"

#endif
