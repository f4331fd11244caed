/*
 * A small model of Kafka in virtual time: what of it the rules of D3 lean on, and where it bites.
 *
 * Input partitions hold records, of transactions too, with markers, aborted ones and gaps; readers
 * are read_committed and get up to the last stable offset. One transactional.id a processor, with
 * producer epochs: an init aborts what is open and shuts out earlier producers. The end of a
 * transaction is accepted first and completed later, outputs and offsets apart; until then its
 * offsets are not stable. A request can be on its way long after its sender has given it up (see
 * kafka_send). There is no KIP-890: such a request counts for whatever transaction the producer has
 * open when it arrives.
 *
 * What becomes visible is told to the watcher (tests/sim/checks.h) in the moment it is decided.
 */
#ifndef BATON_TESTS_SIM_KAFKA_MODEL_H
#define BATON_TESTS_SIM_KAFKA_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/task.h"
#include "common/rng.h"

#define KAFKA_PARTITIONS_MAX 4
#define KAFKA_PROCESSORS_MAX 4
#define KAFKA_KEYS           4 /* of each initial partition; no key is in two of those */
#define KAFKA_WRITERS        2 /* transactional producers of the input */
#define KAFKA_FLIGHT_MAX     16
#define KAFKA_NO_WRITER      UINT8_MAX

enum kafka_fate { KAFKA_OPEN, KAFKA_COMMITTED, KAFKA_ABORTED };

struct kafka_counts { /* of the keys of one partition, by what its records had */
    uint32_t of[KAFKA_KEYS];
};

struct kafka_record { /* one offset of an input partition */
    bool marker;      /* end of a transaction: takes an offset, is no record */
    bool gone;        /* the cleaner took it: a gap */
    bool poison;      /* the logic refuses it; it has no effect */
    uint8_t key, writer;
    enum kafka_fate fate;
    uint32_t outputs; /* committed ones that it has */
};

struct kafka_log {
    struct kafka_record *records; /* by offset */
    struct kafka_counts *before;  /* what a reader has counted before this offset; up to `stable` */
    size_t count, capacity, before_capacity;
    int64_t log_start;
    int64_t stable;                   /* last stable offset */
    int64_t compacted;                /* compaction took records before it, none after */
    int64_t origin;                   /* where the reference begins to count */
    int64_t writer_at[KAFKA_WRITERS]; /* first offset of the open transaction; API_UNKNOWN: none */
};

struct kafka_output {
    uint32_t partition; /* of the input record */
    int64_t offset;
    uint8_t key;
    uint32_t value; /* the count that the logic gave out */
    uint64_t epoch; /* of the task */
};

struct kafka_offsets { /* by partition; offset API_UNKNOWN: not among them */
    struct task_committed of[KAFKA_PARTITIONS_MAX];
};

enum kafka_stage { KAFKA_EMPTY, KAFKA_ONGOING, KAFKA_COMMITTING };

struct kafka_transaction { /* of one transactional.id */
    uint32_t epoch;        /* of the producer initialised last */
    enum kafka_stage stage;
    int64_t since_ms;
    struct kafka_output *outputs;
    size_t output_count, output_capacity;
    struct kafka_offsets offsets;
    bool outputs_due, offsets_due; /* COMMITTING: not visible yet */
};

enum kafka_request_kind { KAFKA_REQUEST_INIT, KAFKA_REQUEST_END, KAFKA_REQUEST_OFFSETS };

struct kafka_request { /* one that its sender no longer waits for */
    enum kafka_request_kind kind;
    int64_t due_ms;
    uint32_t processor, epoch;
    struct kafka_offsets offsets;
};

struct kafka_watcher {
    void *arg;
    /* A transaction will be committed; nothing can stop it any more. */
    void (*transaction)(void *arg, uint32_t processor, const struct kafka_transaction *transaction);
    void (*output)(void *arg, const struct kafka_output *output); /* without one */
    void (*offsets)(void *arg, uint32_t processor, const struct kafka_offsets *offsets);
};

struct kafka_model {
    size_t partition_count;
    size_t partitions_initial, processors_initial; /* N0, M0 */
    size_t processor_count;                        /* that were ever stamped */
    uint32_t owner_of[KAFKA_PARTITIONS_MAX]; /* processor, by the newest split that is committed */
    struct kafka_log partitions[KAFKA_PARTITIONS_MAX];
    struct kafka_transaction transactions[KAFKA_PROCESSORS_MAX];
    struct kafka_offsets group;
    struct kafka_request flight[KAFKA_FLIGHT_MAX];
    size_t flight_count;
    struct kafka_watcher watcher;
    uint64_t aborts, expiries, late; /* for the summary */
};

enum kafka_reply {
    KAFKA_OK,
    KAFKA_FENCED,
    KAFKA_UNSTABLE, /* offsets of a transaction that has not ended */
};

/* `model` is zeroed memory; partitions and processors as given; log starts and start offsets 0. */
void kafka_open(struct kafka_model *model, size_t partitions, size_t processors,
                struct kafka_watcher watcher);
void kafka_close(struct kafka_model *model);
/* More input partitions, at most KAFKA_PARTITIONS_MAX. */
void kafka_grow(struct kafka_model *model, size_t partitions);
uint32_t kafka_processor_of(const struct kafka_model *model, size_t partition);
/* Where a producer that knows so many partitions puts the key, which lies in `partition`, or in one
 * of its ancestors or descendants. */
uint32_t kafka_place(const struct kafka_model *model, size_t partition, uint8_t key,
                     size_t partitions);

/* ---- the input's side */

void kafka_append(struct kafka_model *model, size_t partition, uint8_t key, bool poison);
void kafka_append_open(struct kafka_model *model, size_t partition, uint8_t key, uint8_t writer);
void kafka_end_writer(struct kafka_model *model, uint8_t writer, bool commit);
/* Both change nothing that the state depends on: what was read stays read. */
void kafka_delete_records(struct kafka_model *model, size_t partition, int64_t before);
void kafka_clean(struct kafka_model *model, size_t partition); /* markers and aborted records */
/* Of the records before this offset only the newest of each key stays: who reads them again comes
 * short. */
void kafka_compact(struct kafka_model *model, size_t partition, int64_t before);

int64_t kafka_end_of(const struct kafka_model *model, size_t partition);
struct task_range kafka_range(const struct kafka_model *model, size_t partition);
/* Counts of the committed records from the origin to before `offset`, which is stable. */
struct kafka_counts kafka_reference(const struct kafka_model *model, size_t partition,
                                    int64_t offset);
/* How many records there were from the origin to before `offset`, which is stable. */
int64_t kafka_met(const struct kafka_model *model, size_t partition, int64_t offset);
/* A committed record that must have one output; it may be gone by now. */
bool kafka_is_due(const struct kafka_model *model, size_t partition, int64_t offset);

enum kafka_item_kind { KAFKA_ITEM_RECORD, KAFKA_ITEM_END, KAFKA_ITEM_LOST };

struct kafka_item {
    enum kafka_item_kind kind;
    int64_t offset; /* RECORD, END */
    uint8_t key;
    bool poison;
};

/* What a read_committed consumer finds at or after `offset`. */
struct kafka_item kafka_read(const struct kafka_model *model, size_t partition, int64_t offset);

/* ---- the output's side: requests of a producer with `epoch` */

uint32_t kafka_init_producer(struct kafka_model *model, uint32_t processor);
enum kafka_reply kafka_produce(struct kafka_model *model, uint32_t processor, uint32_t epoch,
                               const struct kafka_output *output, int64_t now_ms);
enum kafka_reply kafka_send_offsets(struct kafka_model *model, uint32_t processor, uint32_t epoch,
                                    const struct kafka_offsets *offsets, int64_t now_ms);
enum kafka_reply kafka_commit_transaction(struct kafka_model *model, uint32_t processor,
                                          uint32_t epoch);
/* The producer's time is up: aborted, and its owner shut out. */
void kafka_expire(struct kafka_model *model, uint32_t processor);

/* ---- without transactions */

void kafka_produce_plain(struct kafka_model *model, const struct kafka_output *output);
void kafka_commit_plain(struct kafka_model *model, uint32_t processor,
                        const struct kafka_offsets *offsets);

/* Committed offsets of the processor's partitions; those of others are left alone. */
enum kafka_reply kafka_fetch_offsets(const struct kafka_model *model, uint32_t wanted,
                                     struct task_committed *ret_committed);

/* ---- time */

/* Puts a request on its way, to arrive at its due time; dropped when too many are. */
void kafka_send(struct kafka_model *model, const struct kafka_request *request);
/* One step of the inside: a request arrives, or an accepted transaction gets on. */
void kafka_advance(struct kafka_model *model, struct rng *rng, int64_t now_ms);
/* Nothing more becomes visible by itself. */
bool kafka_is_at_rest(const struct kafka_model *model);

#endif
