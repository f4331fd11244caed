#include "tests/sim/kafka_model.h"

#include <assert.h>
#include <stdlib.h>

#include "common/hash/linhash.h"
#include "common/mem.h"

#define EXPIRY_MS 120000 /* transaction.timeout.ms of agents */

void kafka_open(struct kafka_model *model, size_t partitions, size_t processors,
                struct kafka_watcher watcher)
{
    assert(partitions <= KAFKA_PARTITIONS_MAX);
    assert(processors <= partitions);
    model->processor_count = processors;
    model->partitions_initial = partitions;
    model->processors_initial = processors;
    model->watcher = watcher;
    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++) {
        struct kafka_log *partition = &model->partitions[i];

        model->owner_of[i] = (uint32_t)(i % processors);
        for (size_t w = 0; w < KAFKA_WRITERS; w++)
            partition->writer_at[w] = API_UNKNOWN;
        model->group.of[i].offset = API_UNKNOWN;
        for (size_t k = 0; k < KAFKA_PROCESSORS_MAX; k++)
            model->transactions[k].offsets.of[i].offset = API_UNKNOWN;
    }
    kafka_grow(model, partitions);
}

void kafka_grow(struct kafka_model *model, size_t partitions)
{
    assert(partitions <= KAFKA_PARTITIONS_MAX);
    for (size_t i = 0; i < partitions; i++) {
        struct kafka_log *partition = &model->partitions[i];

        if (partition->before != NULL)
            continue;
        if (i >= model->partitions_initial)
            model->owner_of[i] =
                model->owner_of[linhash_parent((uint32_t)i, (uint32_t)model->partitions_initial)];
        partition->before =
            mem_grow(NULL, 0, &partition->before_capacity, sizeof(*partition->before));
        partition->before[0] = (struct kafka_counts){{0}};
    }
    model->partition_count = partitions;
}

void kafka_close(struct kafka_model *model)
{
    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++) {
        free(model->partitions[i].records);
        free(model->partitions[i].before);
    }
    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++)
        free(model->transactions[i].outputs);
}

uint32_t kafka_processor_of(const struct kafka_model *model, size_t partition)
{
    return model->owner_of[partition];
}

uint32_t kafka_place(const struct kafka_model *model, size_t partition, uint8_t key,
                     size_t partitions)
{
    uint32_t initial = (uint32_t)model->partitions_initial;
    uint32_t hash = linhash_root((uint32_t)partition, initial) + initial * key;

    return linhash_bucket(hash,
                          (struct linhash_size){.initial = initial, .now = (uint32_t)partitions});
}

/* ---- the input's side */

static bool is_readable(const struct kafka_record *record)
{
    return !record->marker && !record->gone && record->fate == KAFKA_COMMITTED;
}

/* Moves the last stable offset on, and the reference counts with it. */
static void settle_stable(struct kafka_log *partition)
{
    int64_t stable = (int64_t)partition->count;

    for (size_t w = 0; w < KAFKA_WRITERS; w++) {
        if (partition->writer_at[w] != API_UNKNOWN && partition->writer_at[w] < stable)
            stable = partition->writer_at[w];
    }
    for (; partition->stable < stable; partition->stable++) {
        size_t at = (size_t)partition->stable;
        const struct kafka_record *record = &partition->records[at];

        partition->before = mem_grow(partition->before, at + 1, &partition->before_capacity,
                                     sizeof(*partition->before));
        partition->before[at + 1] = partition->before[at];
        if (is_readable(record) && !record->poison)
            partition->before[at + 1].of[record->key]++;
    }
}

static void append(struct kafka_log *partition, struct kafka_record record)
{
    partition->records = mem_grow(partition->records, partition->count, &partition->capacity,
                                  sizeof(*partition->records));
    partition->records[partition->count++] = record;
}

void kafka_append(struct kafka_model *model, size_t partition, uint8_t key, bool poison)
{
    append(&model->partitions[partition],
           (struct kafka_record){
               .key = key, .writer = KAFKA_NO_WRITER, .fate = KAFKA_COMMITTED, .poison = poison});
    settle_stable(&model->partitions[partition]);
}

void kafka_append_open(struct kafka_model *model, size_t partition, uint8_t key, uint8_t writer)
{
    struct kafka_log *at = &model->partitions[partition];

    if (at->writer_at[writer] == API_UNKNOWN)
        at->writer_at[writer] = (int64_t)at->count;
    append(at, (struct kafka_record){.key = key, .writer = writer, .fate = KAFKA_OPEN});
}

void kafka_end_writer(struct kafka_model *model, uint8_t writer, bool commit)
{
    for (size_t i = 0; i < model->partition_count; i++) {
        struct kafka_log *partition = &model->partitions[i];

        if (partition->writer_at[writer] == API_UNKNOWN)
            continue;
        for (size_t at = (size_t)partition->writer_at[writer]; at < partition->count; at++) {
            struct kafka_record *record = &partition->records[at];

            if (record->writer == writer && record->fate == KAFKA_OPEN)
                record->fate = commit ? KAFKA_COMMITTED : KAFKA_ABORTED;
        }
        append(partition, (struct kafka_record){
                              .marker = true, .writer = KAFKA_NO_WRITER, .fate = KAFKA_COMMITTED});
        partition->writer_at[writer] = API_UNKNOWN;
        settle_stable(partition);
    }
}

void kafka_delete_records(struct kafka_model *model, size_t partition, int64_t before)
{
    struct kafka_log *at = &model->partitions[partition];

    if (before > at->stable)
        before = at->stable;
    if (before > at->log_start)
        at->log_start = before;
}

void kafka_clean(struct kafka_model *model, size_t partition)
{
    struct kafka_log *at = &model->partitions[partition];

    for (int64_t i = at->log_start; i < at->stable; i++) {
        struct kafka_record *record = &at->records[i];

        if (record->marker || record->fate == KAFKA_ABORTED)
            record->gone = true;
    }
}

void kafka_compact(struct kafka_model *model, size_t partition, int64_t before)
{
    struct kafka_log *at = &model->partitions[partition];
    bool newer[KAFKA_KEYS] = {false};

    for (int64_t i = before - 1; i >= at->log_start; i--) {
        struct kafka_record *record = &at->records[i];

        if (record->marker || record->gone || record->fate != KAFKA_COMMITTED)
            continue;
        if (newer[record->key]) {
            record->gone = true;
            at->compacted = i + 1 > at->compacted ? i + 1 : at->compacted;
        }
        newer[record->key] = true;
    }
}

int64_t kafka_met(const struct kafka_model *model, size_t partition, int64_t offset)
{
    const struct kafka_log *at = &model->partitions[partition];
    int64_t met = 0;

    for (int64_t i = at->origin; i < offset; i++)
        met += !at->records[i].marker && at->records[i].fate == KAFKA_COMMITTED;
    return met;
}

int64_t kafka_end_of(const struct kafka_model *model, size_t partition)
{
    return (int64_t)model->partitions[partition].count;
}

struct task_range kafka_range(const struct kafka_model *model, size_t partition)
{
    const struct kafka_log *at = &model->partitions[partition];

    return (struct task_range){at->log_start, at->stable, (int64_t)at->count};
}

struct kafka_counts kafka_reference(const struct kafka_model *model, size_t partition,
                                    int64_t offset)
{
    const struct kafka_log *at = &model->partitions[partition];
    struct kafka_counts counts;

    assert(offset >= at->origin);
    assert(offset <= at->stable);
    counts = at->before[offset];
    for (size_t i = 0; i < KAFKA_KEYS; i++)
        counts.of[i] -= at->before[at->origin].of[i];
    return counts;
}

bool kafka_is_due(const struct kafka_model *model, size_t partition, int64_t offset)
{
    const struct kafka_record *record = &model->partitions[partition].records[offset];

    return !record->marker && record->fate == KAFKA_COMMITTED && !record->poison;
}

struct kafka_item kafka_read(const struct kafka_model *model, size_t partition, int64_t offset)
{
    const struct kafka_log *at = &model->partitions[partition];

    if (offset < at->log_start || offset > (int64_t)at->count)
        return (struct kafka_item){.kind = KAFKA_ITEM_LOST};
    for (; offset < at->stable; offset++) {
        const struct kafka_record *record = &at->records[offset];

        if (is_readable(record))
            return (struct kafka_item){KAFKA_ITEM_RECORD, offset, record->key, record->poison};
    }
    return (struct kafka_item){.kind = KAFKA_ITEM_END, .offset = at->stable};
}

/* ---- the output's side */

static void empty(struct kafka_transaction *transaction)
{
    transaction->stage = KAFKA_EMPTY;
    transaction->output_count = 0;
    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        transaction->offsets.of[i].offset = API_UNKNOWN;
}

/* A split that is committed: its processor has the partition from here on. A late commit of its
 * parent does not take it back. */
static void note_splits(struct kafka_model *model, const struct kafka_offsets *offsets)
{
    for (size_t i = 0; i < model->partition_count; i++) {
        uint32_t processor = offsets->of[i].stamp.processor;

        if (offsets->of[i].offset == API_UNKNOWN || processor <= model->owner_of[i])
            continue;
        model->owner_of[i] = processor;
        if (processor >= model->processor_count)
            model->processor_count = processor + 1;
    }
}

static void store_offsets(struct kafka_model *model, const struct kafka_offsets *offsets)
{
    for (size_t i = 0; i < model->partition_count; i++) {
        if (offsets->of[i].offset != API_UNKNOWN)
            model->group.of[i] = offsets->of[i];
    }
}

static void complete_outputs(struct kafka_model *model, struct kafka_transaction *transaction)
{
    for (size_t i = 0; i < transaction->output_count; i++) {
        const struct kafka_output *output = &transaction->outputs[i];

        model->partitions[output->partition].records[output->offset].outputs++;
    }
    transaction->outputs_due = false;
}

static void complete_offsets(struct kafka_model *model, struct kafka_transaction *transaction)
{
    store_offsets(model, &transaction->offsets);
    transaction->offsets_due = false;
}

static void complete(struct kafka_model *model, struct kafka_transaction *transaction)
{
    if (transaction->outputs_due)
        complete_outputs(model, transaction);
    if (transaction->offsets_due)
        complete_offsets(model, transaction);
    empty(transaction);
}

static void abort_open(struct kafka_model *model, struct kafka_transaction *transaction)
{
    if (transaction->stage == KAFKA_COMMITTING)
        complete(model, transaction);
    else if (transaction->stage == KAFKA_ONGOING)
        model->aborts++;
    empty(transaction);
}

uint32_t kafka_init_producer(struct kafka_model *model, uint32_t processor)
{
    struct kafka_transaction *transaction = &model->transactions[processor];

    abort_open(model, transaction);
    return ++transaction->epoch;
}

void kafka_expire(struct kafka_model *model, uint32_t processor)
{
    struct kafka_transaction *transaction = &model->transactions[processor];

    if (transaction->stage != KAFKA_ONGOING)
        return;
    abort_open(model, transaction);
    transaction->epoch++;
    model->expiries++;
}

/* A request of the producer with `epoch` that needs an open transaction. */
static enum kafka_reply begin(struct kafka_model *model, struct kafka_transaction *transaction,
                              uint32_t epoch, int64_t now_ms)
{
    if (epoch != transaction->epoch)
        return KAFKA_FENCED;
    if (transaction->stage == KAFKA_COMMITTING) /* the client waits for the markers */
        complete(model, transaction);
    if (transaction->stage == KAFKA_EMPTY)
        transaction->since_ms = now_ms;
    transaction->stage = KAFKA_ONGOING;
    return KAFKA_OK;
}

enum kafka_reply kafka_produce(struct kafka_model *model, uint32_t processor, uint32_t epoch,
                               const struct kafka_output *output, int64_t now_ms)
{
    struct kafka_transaction *transaction = &model->transactions[processor];
    enum kafka_reply result = begin(model, transaction, epoch, now_ms);

    if (result != KAFKA_OK)
        return result;
    transaction->outputs = mem_grow(transaction->outputs, transaction->output_count,
                                    &transaction->output_capacity, sizeof(*transaction->outputs));
    transaction->outputs[transaction->output_count++] = *output;
    return KAFKA_OK;
}

enum kafka_reply kafka_send_offsets(struct kafka_model *model, uint32_t processor, uint32_t epoch,
                                    const struct kafka_offsets *offsets, int64_t now_ms)
{
    struct kafka_transaction *transaction = &model->transactions[processor];
    enum kafka_reply result = begin(model, transaction, epoch, now_ms);

    for (size_t i = 0; i < model->partition_count && result == KAFKA_OK; i++) {
        if (offsets->of[i].offset != API_UNKNOWN)
            transaction->offsets.of[i] = offsets->of[i];
    }
    return result;
}

enum kafka_reply kafka_commit_transaction(struct kafka_model *model, uint32_t processor,
                                          uint32_t epoch)
{
    struct kafka_transaction *transaction = &model->transactions[processor];

    if (epoch != transaction->epoch)
        return KAFKA_FENCED;
    if (transaction->stage != KAFKA_ONGOING)
        return KAFKA_OK; /* said twice */
    transaction->stage = KAFKA_COMMITTING;
    transaction->outputs_due = transaction->offsets_due = true;
    model->watcher.transaction(model->watcher.arg, processor, transaction);
    note_splits(model, &transaction->offsets);
    return KAFKA_OK;
}

/* ---- without transactions */

void kafka_produce_plain(struct kafka_model *model, const struct kafka_output *output)
{
    model->watcher.output(model->watcher.arg, output);
    model->partitions[output->partition].records[output->offset].outputs++;
}

void kafka_commit_plain(struct kafka_model *model, uint32_t processor,
                        const struct kafka_offsets *offsets)
{
    model->watcher.offsets(model->watcher.arg, processor, offsets);
    note_splits(model, offsets);
    store_offsets(model, offsets);
}

static bool is_pending(const struct kafka_transaction *transaction, size_t partition)
{
    return transaction->stage != KAFKA_EMPTY &&
           transaction->offsets.of[partition].offset != API_UNKNOWN;
}

enum kafka_reply kafka_fetch_offsets(const struct kafka_model *model, uint32_t wanted,
                                     struct task_committed *ret_committed)
{
    for (size_t i = 0; i < model->partition_count; i++) {
        for (size_t k = 0; k < KAFKA_PROCESSORS_MAX; k++) {
            if ((wanted >> i & 1) != 0 && is_pending(&model->transactions[k], i))
                return KAFKA_UNSTABLE;
        }
    }
    for (size_t i = 0; i < model->partition_count; i++) {
        if ((wanted >> i & 1) != 0)
            ret_committed[i] = model->group.of[i];
    }
    return KAFKA_OK;
}

/* ---- time */

void kafka_send(struct kafka_model *model, const struct kafka_request *request)
{
    if (model->flight_count < KAFKA_FLIGHT_MAX)
        model->flight[model->flight_count++] = *request;
}

static void arrive(struct kafka_model *model, size_t index)
{
    struct kafka_request request = model->flight[index];

    model->flight[index] = model->flight[--model->flight_count];
    model->late++;
    switch (request.kind) {
    case KAFKA_REQUEST_INIT:
        (void)kafka_init_producer(model, request.processor);
        break;
    case KAFKA_REQUEST_END:
        (void)kafka_commit_transaction(model, request.processor, request.epoch);
        break;
    case KAFKA_REQUEST_OFFSETS:
        kafka_commit_plain(model, request.processor, &request.offsets);
        break;
    }
}

void kafka_advance(struct kafka_model *model, struct rng *rng, int64_t now_ms)
{
    struct kafka_transaction *transaction =
        &model->transactions[rng_below(rng, model->processor_count)];

    for (size_t i = 0; i < model->flight_count; i++) {
        if (model->flight[i].due_ms > now_ms)
            continue;
        arrive(model, i);
        return;
    }
    if (transaction->stage == KAFKA_ONGOING && now_ms - transaction->since_ms > EXPIRY_MS)
        kafka_expire(model, (uint32_t)(transaction - model->transactions));
    if (transaction->stage != KAFKA_COMMITTING)
        return;
    if (transaction->outputs_due && (!transaction->offsets_due || rng_below(rng, 2) == 0))
        complete_outputs(model, transaction);
    else if (transaction->offsets_due)
        complete_offsets(model, transaction);
    if (!transaction->outputs_due && !transaction->offsets_due)
        empty(transaction);
}

bool kafka_is_at_rest(const struct kafka_model *model)
{
    for (size_t i = 0; i < model->processor_count; i++) {
        if (model->transactions[i].stage == KAFKA_COMMITTING)
            return false;
    }
    return model->flight_count == 0;
}
