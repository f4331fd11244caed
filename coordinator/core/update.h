/*
 * What one step of the coordinator asks its shell to do, in this order: make the changes durable in
 * one transaction, then start the Kafka calls, then answer, then publish. If storing fails, none of
 * it happens: the shell drops the cluster from memory, loads it again, and answers 503 (D6).
 *
 * `changes` is the only way in which durable state changes (update_change applies each to the
 * cluster as it is recorded), so that a log of updates could be replayed elsewhere (D12 b).
 */
#ifndef BATON_COORDINATOR_CORE_UPDATE_H
#define BATON_COORDINATOR_CORE_UPDATE_H

#include "coordinator/core/cluster.h"

struct schema_type;

enum change_kind {
    CHANGE_META,
    CHANGE_JOB,
    CHANGE_JOB_REMOVED, /* job.name only; its placements and observations go with it */
    CHANGE_PLACEMENT,
    CHANGE_AGENT,
    CHANGE_AGENT_REMOVED, /* agent.agent_id only */
    CHANGE_OPERATION,
    CHANGE_HANDOFF, /* one that has ended leaves the memory */
    CHANGE_ARRIVAL,
    CHANGE_STANDBY,
    CHANGE_STANDBY_REMOVED, /* standby.job, .processor and .agent only */
    CHANGE_MAINTENANCE,
    CHANGE_SKIP,
    CHANGE_WINDOW,
    CHANGE_EVENT,
    CHANGE_OBSERVATION /* T1/T2 of a processor; not a decision, written in slices */
};

struct observation_row {
    char *job;
    uint32_t processor;
    int64_t at;
    struct {
        struct partition_progress *items;
        size_t count;
    } progress;
};

struct change { /* owns its row */
    enum change_kind kind;
    union {
        struct meta_row meta;
        struct job_row job;
        struct placement_row placement;
        struct agent_row agent;
        struct operation_row operation;
        struct handoff_row handoff;
        struct arrival_row arrival;
        struct standby_row standby;
        struct maintenance_row maintenance;
        struct skip_row skip;
        struct window_row window;
        struct event_view event;
        struct observation_row observation;
    };
};

/*
 * ---- calls to Kafka: carried out by the Kafka thread one after the other in the order of their
 * ids, each answered by one COORD_EVENT_KAFKA with the same id
 */

enum kafka_call_kind {
    KAFKA_CALL_INSPECT, /* topics, group, offsets: see struct kafka_inspection */
    KAFKA_CALL_COMMIT, /* commit `offsets` with `metadata`, the group being empty; then read back */
    KAFKA_CALL_SAMPLE, /* up to 1,000 keyed records of each partition: which hash explains all? */
    KAFKA_CALL_FENCE,  /* init_transactions once for each of `transactional_ids` */
    KAFKA_CALL_TOPICS, /* of a job that runs: the topics of an INSPECT, and where inputs start */
    KAFKA_CALL_GROUPS, /* who is in each of `groups` */
    KAFKA_CALL_CLAIM,  /* what is committed, again with the metadata of `offsets`, which the broker
                          refuses while the group has members; then read back */
    KAFKA_CALL_CREATE_PARTITIONS, /* each input gets `partitions`, if it has fewer; then how many
                                     each has */
    KAFKA_CALL_STAMPS, /* what the group has committed for the first `partitions` of each input */
    KAFKA_CALL_COUNT
};

struct kafka_offset {
    uint32_t topic;
    uint32_t partition;
    int64_t offset;
    char *metadata;
};

struct kafka_call { /* owns its texts */
    uint64_t id;
    enum kafka_call_kind kind;
    char *job;
    char *group_id;
    struct {
        char **items;
        size_t count;
    } inputs;
    char *output, *dead_letter;              /* INSPECT, TOPICS; may be NULL */
    bool transactions;                       /* INSPECT: exactly_once needs brokers >= 2.5 */
    uint32_t partitions_initial, partitions; /* SAMPLE; STAMPS and
                                                CREATE_PARTITIONS have the latter alone */
    struct {
        struct kafka_offset *items;
        size_t count;
    } offsets; /* COMMIT, CLAIM */
    struct {
        char **items;
        size_t count;
    } transactional_ids; /* FENCE */
    struct {
        char **items;
        size_t count;
    } groups; /* GROUPS */
};

struct kafka_partition {
    int64_t log_start, stable_end, end; /* API_UNKNOWN when the broker did not say: never 0 */
    int64_t committed;                  /* of the group; API_UNKNOWN: none stored */
    char *metadata;                     /* of the committed offset, or NULL */
};

struct kafka_topic {
    char *name;
    bool exists;
    uint32_t partition_count;
    bool compacted;       /* cleanup.policy has "compact" */
    bool deletes;         /* cleanup.policy has "delete" and retention.ms or .bytes is limited */
    int64_t retention_ms; /* -1: unlimited */
    struct {
        struct kafka_partition *items;
        size_t count;
    } partitions; /* inputs only */
};

struct kafka_inspection {
    struct {
        struct kafka_topic *items;
        size_t count;
    } inputs;                               /* in the order of the call */
    struct kafka_topic output, dead_letter; /* name NULL when not asked for */
    bool transactions_supported;
    char *broker_detail; /* what the brokers support, for the refusal's text */
    uint32_t group_members;
    char *group_who;   /* the members, for people; NULL: there are none */
    char *group_state; /* "Empty", "Stable", ..., or NULL when there is no such group */
};

struct kafka_sample { /* counts of records that were read */
    uint64_t keyed, keyless;
    uint64_t murmur2, crc32; /* keyed ones that lie where this hash puts them */
    uint64_t both;           /* ... that lie where both do: they tell nothing */
};

struct kafka_group {
    char *group_id;
    uint32_t members;
    char *who;   /* "app-1 at 10.0.0.1, ...", a few of them; NULL: there are none */
    char *error; /* why nothing is known of it; NULL: the above is known */
};

struct kafka_result { /* owned by the event; the step may take from it */
    uint64_t id;
    enum kafka_call_kind kind;
    char *job;    /* of the call */
    bool failed;  /* the call was not answered or refused: `detail` says why; repeat if it still
                     matters */
    bool refused; /* with failed: repeating is no use until something else changes */
    char *detail;
    struct kafka_inspection inspection;
    struct {
        struct kafka_offset *items;
        size_t count;
    } committed; /* COMMIT, CLAIM: what Kafka holds now; STAMPS: of those partitions that have an
                    offset */
    struct {
        struct kafka_group *items;
        size_t count;
    } groups; /* GROUPS: each that was asked for */
    struct kafka_sample sample;
};

void kafka_call_finish(struct kafka_call *call);
void kafka_result_finish(struct kafka_result *result);

/* ---- answers */

struct answer {
    uint64_t request;
    uint32_t status;
    const struct schema_type *type; /* NULL: no body */
    void *body;                     /* heap, owned; freed with schema_free and free */
    uint64_t etag;                  /* 0: none */
    uint32_t retry_after_s;         /* 0: none */
    char *location;                 /* or NULL */
};

struct update {
    struct {
        struct change *items;
        size_t count, capacity;
    } changes;
    struct {
        struct kafka_call *items;
        size_t count, capacity;
    } calls;
    struct {
        struct answer *items;
        size_t count, capacity;
    } answers;
    bool publish;    /* something that readers see has changed */
    int64_t wake_ms; /* when the step wants to be called at the latest; INT64_MAX: never */
};

void answer_finish(struct answer *answer);
void update_finish(struct update *update);

/*
 * Records `change` (taking it) and applies it to the cluster. The meta row is added by the step at
 * its end.
 */
void update_change(struct update *update, struct cluster *cluster, struct change *change);

/*
 * Applies one row while loading; takes it. Rows of a kind arrive in any order; meta first, jobs
 * before placements, observations, hand-overs, arrivals, standbys, skips and windows.
 */
void cluster_apply(struct cluster *cluster, struct change *change);

void change_copy(struct change *ret_copy, const struct change *change); /* deep */
bool change_equal(const struct change *a, const struct change *b);
void change_finish(struct change *change);

#endif
