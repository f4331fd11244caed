#include "tests/sim/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/world.h"

#define IDLE_TURNS_MAX 3

void checks_fail(struct world *world, const char *format, ...)
{
    va_list args;

    if (world->checks.failed)
        return; /* the first one tells */
    world->checks.failed = true;
    va_start(args, format);
    (void)vsnprintf(world->checks.text, sizeof(world->checks.text), format, args);
    va_end(args);
    world_trace(world, "FAILED: %s", world->checks.text);
}

/* ---- what becomes visible in Kafka */

/* The value that the logic must give out for a record: the key's count after it. */
static uint32_t value_of(const struct world *world, size_t partition, int64_t offset, uint8_t key)
{
    return world->config.stateful ? kafka_reference(&world->kafka, partition, offset + 1).of[key]
                                  : 0;
}

static void check_value(struct world *world, const struct kafka_output *output)
{
    uint32_t value = value_of(world, output->partition, output->offset, output->key);

    if (output->value != value)
        checks_fail(world, "partition %u offset %lld: output %u, the reference has %u",
                    output->partition, (long long)output->offset, output->value, value);
}

/* Outputs of one partition in a transaction, from `*at` on, against the records from T1 to the new
 * one. */
static void check_outputs_of(struct world *world, const struct kafka_transaction *transaction,
                             size_t partition)
{
    int64_t end = transaction->offsets.of[partition].offset;
    int64_t offset = world->checks.committed[partition];

    if (end == API_UNKNOWN)
        end = offset;
    for (size_t i = 0; i < transaction->output_count; i++) {
        const struct kafka_output *output = &transaction->outputs[i];

        if (output->partition != partition)
            continue;
        while (offset < end && !checks_is_due(world, partition, offset))
            offset++;
        if (output->offset != offset || offset >= end) {
            checks_fail(world,
                        "partition %zu: an output of offset %lld, but offset %lld is the next "
                        "without one and T1 will be %lld",
                        partition, (long long)output->offset, (long long)offset, (long long)end);
            return;
        }
        check_value(world, output);
        guests_check_output(world, output);
        world->checks.outputs[partition][output->key]++;
        offset++;
    }
    for (; offset < end; offset++) {
        if (checks_is_due(world, partition, offset))
            checks_fail(world, "partition %zu: offset %lld is passed without its output", partition,
                        (long long)offset);
    }
}

/* An offset that will be committed by the owner of a processor. */
static void check_offset(struct world *world, uint32_t processor, size_t partition,
                         const struct task_committed *committed)
{
    struct checks *checks = &world->checks;
    bool splits = committed->stamp.processor != processor;
    uint64_t epoch = committed->stamp.epoch;
    uint64_t believed = checks->believed[kafka_processor_of(&world->kafka, partition)];

    if (committed->offset > kafka_range(&world->kafka, partition).stable_end)
        checks_fail(world, "partition %zu: T1 %lld is past the last stable offset", partition,
                    (long long)committed->offset);
    if (world->config.exactly_once && kafka_processor_of(&world->kafka, partition) != processor)
        checks_fail(world, "partition %zu is committed by processor %u, but it is that of %u",
                    partition, processor, kafka_processor_of(&world->kafka, partition));
    /* A new processor's epoch may be older than that of its parent's present owner. */
    if (world->config.exactly_once && !splits) {
        if (committed->offset < checks->committed[partition])
            checks_fail(world, "partition %zu: T1 goes back from %lld to %lld", partition,
                        (long long)checks->committed[partition], (long long)committed->offset);
        if (epoch < checks->stamped[partition])
            checks_fail(world, "partition %zu: epoch %llu commits after %llu", partition,
                        (unsigned long long)epoch, (unsigned long long)checks->stamped[partition]);
        if (epoch <= checks->released[kafka_processor_of(&world->kafka, partition)])
            checks_fail(world, "partition %zu: epoch %llu commits after it was released", partition,
                        (unsigned long long)epoch);
        if (epoch < believed)
            checks_fail(world, "partition %zu: epoch %llu commits, but %llu was reported active",
                        partition, (unsigned long long)epoch, (unsigned long long)believed);
    }
    checks->committed[partition] = committed->offset;
    checks->stamped[partition] = epoch;
    if (committed->offset > checks->highest[partition])
        checks->highest[partition] = committed->offset;
}

static void keep_vector(struct world *world, uint32_t processor)
{
    struct checks *checks = &world->checks;
    size_t count = checks->vectors[processor].count;

    checks->vectors[processor].items =
        mem_grow(checks->vectors[processor].items, count, &checks->vectors[processor].capacity,
                 sizeof(*checks->vectors[processor].items));
    memcpy(checks->vectors[processor].items[count].of, checks->committed,
           sizeof(checks->committed));
    checks->vectors[processor].count++;
}

static void on_transaction(void *arg, uint32_t processor,
                           const struct kafka_transaction *transaction)
{
    struct world *world = arg;

    world_trace(world, "kafka: the transaction of processor %u is committed", processor);
    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        check_outputs_of(world, transaction, i);
        if (transaction->offsets.of[i].offset != API_UNKNOWN)
            check_offset(world, processor, i, &transaction->offsets.of[i]);
    }
    checks_bounds(world, processor, &transaction->offsets);
    keep_vector(world, processor);
    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        if (transaction->offsets.of[i].offset != API_UNKNOWN &&
            transaction->offsets.of[i].stamp.processor != processor)
            keep_vector(world, transaction->offsets.of[i].stamp.processor);
    }
}

static void on_output(void *arg, const struct kafka_output *output)
{
    check_value(arg, output);
    guests_check_output(arg, output);
}

/* Without transactions: what is before T1 has been put out. */
static void on_offsets(void *arg, uint32_t processor, const struct kafka_offsets *offsets)
{
    struct world *world = arg;

    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        int64_t offset = offsets->of[i].offset;

        if (offset == API_UNKNOWN)
            continue;
        world_trace(world, "kafka: processor %u commits partition %zu at %lld under epoch %llu",
                    processor, i, (long long)offset,
                    (unsigned long long)offsets->of[i].stamp.epoch);
        for (int64_t at = world->checks.highest[i]; at < offset; at++) {
            if (checks_is_due(world, i, at) && world->kafka.partitions[i].records[at].outputs == 0)
                checks_fail(world, "partition %zu: offset %lld is passed without its output", i,
                            (long long)at);
        }
        check_offset(world, processor, i, &offsets->of[i]);
    }
    checks_bounds(world, processor, offsets);
}

struct kafka_watcher checks_watcher(struct world *world)
{
    return (struct kafka_watcher){world, on_transaction, on_output, on_offsets};
}

void checks_start(struct world *world, size_t partition, int64_t offset)
{
    if (world->checks.stamped[partition] != 0)
        checks_fail(world, "partition %zu: its start is committed over epoch %llu", partition,
                    (unsigned long long)world->checks.stamped[partition]);
    world->checks.committed[partition] = world->checks.highest[partition] = offset;
}

bool checks_is_untouched(const struct world *world, size_t partition)
{
    return partition >= world->config.partitions && world->checks.stamped[partition] == 0;
}

void checks_started(struct world *world)
{
    for (uint32_t i = 0; i < world->kafka.processor_count; i++)
        keep_vector(world, i);
}

void checks_finish(struct checks *checks)
{
    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++)
        free(checks->vectors[i].items);
    free(checks->told.items);
}

/* ---- hand-overs */

/* Nothing has been told yet. */
static bool follows_nothing(const struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        if (task->core.partitions[i].t1 != API_UNKNOWN)
            return false;
    }
    return true;
}

/* Of what was added since it was told the last one it knows nothing. */
static bool is_vector(const struct sim_task *task, const struct checks_vector *vector)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        if (task->core.partitions[i].t1 == API_UNKNOWN ||
            task->core.partitions[i].bound != API_UNKNOWN)
            continue;
        if (task->core.partitions[i].t1 != vector->of[agent_partition(task, i)])
            return false;
    }
    return true;
}

/* Without transactions late commits land in between, so that there are other vectors as well. */
void checks_followed(struct world *world, const struct sim_task *task)
{
    const struct checks *checks = &world->checks;

    if (!task->core.desired.learner || !world->config.exactly_once || follows_nothing(task))
        return;
    /* What a split makes follows its parent until it is released. */
    for (uint32_t from = 0; from < KAFKA_PROCESSORS_MAX; from++) {
        if (from != task->processor && from != task->core.config.parent)
            continue;
        for (size_t i = checks->vectors[from].count; i > 0; i--) {
            if (is_vector(task, &checks->vectors[from].items[i - 1]))
                return;
        }
    }
    checks_fail(world, "agent %zu task %u follows a T1 that was never committed as one",
                task->agent, task->processor);
}

void checks_given(struct world *world, const struct sim_task *task, size_t partition,
                  int64_t offset)
{
    if (durable_skips(&world->durable, (uint32_t)partition, offset))
        checks_fail(world,
                    "agent %zu task %u: partition %zu offset %lld is to be passed, and is given to "
                    "the logic",
                    task->agent, task->processor, partition, (long long)offset);
}

static void check_learner(struct world *world, const struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        size_t partition = agent_partition(task, i);

        if (task->core.partitions[i].limit > world->checks.highest[partition])
            checks_fail(world, "partition %zu: a learner may read up to %lld, but T1 is %lld",
                        partition, (long long)task->core.partitions[i].limit,
                        (long long)world->checks.highest[partition]);
    }
}

/* At the first time that it says so nobody else can have committed, unless by force. */
void checks_released(struct world *world, const struct sim_report *report)
{
    struct checks *checks = &world->checks;

    for (size_t i = 0; i < world->kafka.partition_count && world->config.exactly_once; i++) {
        if (kafka_processor_of(&world->kafka, i) != report->processor ||
            report->t0[i] == API_UNKNOWN) /* it has not heard of an expansion yet */
            continue;
        if (checks->stamped[i] < report->epoch)
            checks_fail(world, "partition %zu: released under epoch %llu, the stamp is of %llu", i,
                        (unsigned long long)report->epoch, (unsigned long long)checks->stamped[i]);
        if (checks->stamped[i] == report->epoch && report->t2[i] != checks->committed[i])
            checks_fail(world, "partition %zu: released at %lld, but T1 is %lld", i,
                        (long long)report->t2[i], (long long)checks->committed[i]);
    }
    if (report->epoch > checks->released[report->processor])
        checks->released[report->processor] = report->epoch;
}

/* ---- the cores */

/* Of all that ever have an epoch, restarts and zombies among them, one works under it. */
void checks_commits(struct world *world, const struct sim_task *task)
{
    struct checks_told *told = checks_epoch(&world->checks, task->core.epoch_working);
    size_t agent = world->agents[task->agent].identity;
    uint32_t start = world->agents[task->agent].starts;

    if (told->commits && (told->commits_agent != agent || told->commits_start != start))
        checks_fail(world, "epoch %llu is that of agents %zu and %zu",
                    (unsigned long long)task->core.epoch_working, told->commits_agent, agent);
    told->commits = true;
    told->commits_agent = agent;
    told->commits_start = start;
}

static void check_stamped(struct world *world, const struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        size_t partition = agent_partition(task, i);

        if (task->core.partitions[i].owned &&
            world->checks.stamped[partition] < task->core.epoch_working)
            checks_fail(world, "active under epoch %llu, but partition %zu has the stamp of %llu",
                        (unsigned long long)task->core.epoch_working, partition,
                        (unsigned long long)world->checks.stamped[partition]);
    }
}

static void count_core(struct world *world, struct sim_task *task, int before)
{
    uint64_t *of = world->tally->of;

    of[TALLY_SHORT] += task->core.phase.state == TASK_PHASE_FAILED && before != TASK_PHASE_FAILED &&
                       strstr(task->core.detail, "is made of") != NULL;

    of[TALLY_IN_PLACE] +=
        before == TASK_PHASE_LEARN && task->core.phase.state == TASK_PHASE_PRODUCER;
    switch ((enum task_phase)task->core.phase.state) {
    case TASK_PHASE_ACTIVE:
        of[TALLY_ACTIVATION]++;
        break;
    case TASK_PHASE_FENCED:
        task->fenced_epoch = task->core.epoch_working;
        of[TALLY_FENCED_INIT] += before == TASK_PHASE_PRODUCER;
        of[TALLY_FENCED_STAMP] += before == TASK_PHASE_COMMITTED;
        of[TALLY_FENCED_COMMIT] += before > TASK_PHASE_COMMITTED;
        break;
    case TASK_PHASE_PRODUCER:
        of[TALLY_REINIT] += before == TASK_PHASE_REINIT || before == TASK_PHASE_ACTIVE;
        break;
    case TASK_PHASE_OPEN:
    case TASK_PHASE_FAILED:
    case TASK_PHASE_REPLAY:
    case TASK_PHASE_STAMP:
        of[TALLY_STATE_AHEAD] +=
            before == TASK_PHASE_COMMITTED && strcmp(task->core.code, "state_ahead") == 0;
        break;
    default:
        break;
    }
}

/* Nobody but the tasks commits offsets here, and no topic is ever made anew. */
static void check_code(struct world *world, const struct sim_task *task)
{
    static const char *const impossible[] = {"offsets_changed", "offsets_expired",
                                             "topic_recreated", "topic_truncated"};
    const char *code = task->core.code;

    for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
        if (strcmp(code, impossible[i]) == 0)
            checks_fail(world, "agent %zu task %u halts with %s", task->agent, task->processor,
                        code);
    }
    if (world->config.exactly_once && strcmp(code, "state_ahead") == 0)
        checks_fail(world, "agent %zu task %u: the state is ahead of T1: %s", task->agent,
                    task->processor, task->core.detail);
}

void checks_core(struct world *world, struct sim_task *task, int phase_before)
{
    const char *broken = task_check(&task->core);

    if (task->core.phase.state != phase_before)
        count_core(world, task, phase_before);
    check_code(world, task);
    if (task->core.phase.state == TASK_PHASE_LEARN && world->config.stateful)
        check_learner(world, task);
    if (world->config.mutation != MUTATION_NONE)
        return; /* what is bent is bent; the question is whether its effects are seen */
    if (broken != NULL)
        checks_fail(world, "agent %zu task %u: %s", task->agent, task->processor, broken);
    if (task->core.phase.state == TASK_PHASE_ACTIVE && phase_before == TASK_PHASE_STAMP &&
        world->config.exactly_once)
        check_stamped(world, task);
}

void checks_init(struct world *world, const struct sim_task *task)
{
    if (task->core.epoch_working <= task->fenced_epoch)
        checks_fail(world, "agent %zu task %u initialises for epoch %llu, which it was fenced in",
                    task->agent, task->processor, (unsigned long long)task->core.epoch_working);
}

/* A thread that turns in circles: it has nothing to do, and does not wait either. */
void checks_turn(struct world *world, struct sim_task *task)
{
    if (task->worked || task->wait_ms > world->now_ms)
        task->idle_turns = 0;
    else if (++task->idle_turns > IDLE_TURNS_MAX && world->config.mutation == MUTATION_NONE)
        checks_fail(world, "agent %zu task %u spins in phase %s", task->agent, task->processor,
                    task_phase_name((enum task_phase)task->core.phase.state));
}

/* ---- the disk */

/* It is made of less than there was, because the rest had been compacted away. */
static bool is_short(const struct world *world, size_t partition, const struct store_model *store)
{
    int64_t learned = store->disk.learned[partition];

    return world->kafka.partitions[partition].compacted > 0 && learned != API_UNKNOWN &&
           store->disk.records[partition] < kafka_met(&world->kafka, partition, learned);
}

/* A replay from there would meet too little, or the state has. */
static bool lacks_records(const struct world *world, size_t partition,
                          const struct store_model *disk, int64_t learned)
{
    return learned < world->kafka.partitions[partition].compacted ||
           (disk->exists && !disk->damaged && is_short(world, partition, disk));
}

void checks_disk(struct world *world, const struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        size_t partition = agent_partition(task, i);
        int64_t learned = task->store->disk.learned[partition];
        const char *wrong;

        /* Rows of what has gone to a new processor are unreachable here: an owner finds it gone
         * before it reads, and what others make of a state without its T2 is never served. */
        if (learned == API_UNKNOWN ||
            kafka_processor_of(&world->kafka, partition) > task->processor)
            continue;
        if (learned > world->checks.highest[partition]) {
            checks_fail(world, "partition %zu: T2 %lld on disk is past T1 %lld", partition,
                        (long long)learned, (long long)world->checks.highest[partition]);
            return;
        }
        if (is_short(world, partition, task->store))
            continue; /* it must not come to work */
        wrong = checks_counts(world, task->processor, partition, learned,
                              &task->store->disk.counts[partition]);
        if (wrong != NULL)
            checks_fail(world, "processor %u, partition %zu: the state on disk at %lld %s",
                        task->processor, partition, (long long)learned, wrong);
    }
}

/* ---- the end */

/* Who needs the partition's history: what has gone to a processor that the coordinator does not
 * know of yet is still read by its parent. */
static uint32_t read_by(const struct world *world, size_t partition)
{
    const struct job *job = host_job(world);
    uint32_t processor = kafka_processor_of(&world->kafka, partition);

    return processor < job->processors.count ? processor : cluster_parent(job, processor);
}

bool checks_is_halted(const struct world *world, uint32_t processor, size_t agent)
{
    const struct store_model *disk = &world->agents[agent].disks[processor];

    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        int64_t log_start = kafka_range(&world->kafka, i).log_start;
        int64_t learned = disk->exists && !disk->damaged && disk->disk.learned[i] != API_UNKNOWN
                              ? disk->disk.learned[i]
                              : world->kafka.partitions[i].origin;

        if (checks_inherits(world, processor, i) && world->config.stateful &&
            ((learned < checks_bound_of(world, processor, i) &&
              (learned < log_start || lacks_records(world, i, disk, learned))) ||
             (disk->exists && !disk->damaged && is_short(world, i, disk))))
            return true;
        if (read_by(world, i) == processor &&
            (world->checks.committed[i] < log_start ||
             (world->config.stateful &&
              (learned < log_start || lacks_records(world, i, disk, learned)))))
            return true;
    }
    return false;
}

void checks_end(struct world *world)
{
    for (size_t i = 0; i < world->left; i++) {
        if (world->halted[kafka_processor_of(&world->kafka, i)])
            continue;
        if (world->checks.committed[i] != kafka_end_of(&world->kafka, i))
            checks_fail(world, "partition %zu: T1 ends at %lld, the log at %lld", i,
                        (long long)world->checks.committed[i],
                        (long long)kafka_end_of(&world->kafka, i));
        for (int64_t at = world->kafka.partitions[i].origin; at < kafka_end_of(&world->kafka, i);
             at++) {
            uint32_t outputs = world->kafka.partitions[i].records[at].outputs;
            bool due = checks_is_due(world, i, at);

            /* Without transactions its parent may have tried to give it away more than once. */
            if (!world->config.exactly_once && checks_has_left(world, i, at))
                continue;
            if (due ? outputs == 0 || (world->config.exactly_once && outputs != 1) : outputs != 0)
                checks_fail(world, "partition %zu: offset %lld has %u outputs in the end", i,
                            (long long)at, outputs);
        }
    }
}
