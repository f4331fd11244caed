/*
 * Order across expansions, at random: one topic that is doubled twice while producers write, each
 * key by one producer that hears of the new count at a time of its own, in one step or two; and a
 * task that reads, commits, loses its uncommitted state, replays and grows. Each key's records must
 * be processed in the order in which they were written, whatever partition they lie in, and so must
 * those of a learner that follows. The same runs with a rule left out must be found.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "common/rng.h"

#define INITIAL     1
#define MOST        4
#define KEYS        12
#define LOG_MAX     600
#define STEPS       500
#define SEEDS       300
#define INCARNATION "0a1b2c3d-0000-4000-8000-000000000001"

enum broken {
    BROKEN_NOTHING,
    BROKEN_NO_HOLD,       /* records of descendants do not wait */
    BROKEN_STABLE_END,    /* ancestors are waited for up to their last stable offset alone (S44) */
    BROKEN_PARENT_ONLY,   /* ... not further up than the parent */
    BROKEN_ENDS_FIRST,    /* ends of ancestors are asked for before those of descendants */
    BROKEN_EARLY_SETTLE,  /* windows are closed while producers write by the old count */
    BROKEN_REPLAY_NO_HOLD /* replays do not wait */
};

struct entry {
    uint32_t key, number; /* of the key */
    bool open;            /* in a transaction that has not ended */
};

struct log {
    struct entry entries[LOG_MAX];
    int64_t count;
};

struct play {
    enum broken broken;
    struct rng rng;
    struct log logs[MOST];
    uint32_t partitions;    /* of the topic */
    uint32_t known[KEYS];   /* by each key's producer */
    uint32_t written[KEYS]; /* records */
    uint32_t done[KEYS];    /* processed, in the task's state */
    uint32_t kept[KEYS];    /* ... as of its last commit, which is its checkpoint, too */
    int64_t kept_at[MOST];
    struct task task;
    int64_t now_ms;
    struct task_range ranges[MOST];
    bool asked;
    uint64_t number; /* of the windows */
    const char *fault;
};

static int64_t between(struct play *play, int64_t low, int64_t high)
{
    return low + (int64_t)(rng_next(&play->rng) % (uint64_t)(high - low + 1));
}

/* ---- the topic */

static uint32_t place(uint32_t key, uint32_t partitions)
{
    return linhash_bucket(key, (struct linhash_size){.initial = INITIAL, .now = partitions});
}

static int64_t stable_end(const struct log *log)
{
    int64_t end = 0;
    while (end < log->count && !log->entries[end].open)
        end++;
    return end;
}

static void end_transactions(struct play *play)
{
    for (size_t p = 0; p < MOST; p++)
        for (int64_t i = 0; i < play->logs[p].count; i++)
            play->logs[p].entries[i].open = false;
}

/* A producer waits for what it has written before it writes the key elsewhere. In a transaction it
 * is the next write to another partition that another process makes meanwhile. */
static void write_one(struct play *play)
{
    uint32_t key = (uint32_t)between(play, 0, KEYS - 1);
    struct log *log;

    if (play->known[key] < play->partitions && between(play, 0, 9) == 0)
        play->known[key] = between(play, 0, 1) == 0 ? play->partitions : play->known[key] * 2;
    log = &play->logs[place(key, play->known[key])];
    if (log->count == LOG_MAX)
        return;
    log->entries[log->count++] = (struct entry){
        .key = key, .number = ++play->written[key], .open = between(play, 0, 29) == 0};
}

/* ---- the task */

static void give(struct play *play, struct task_event event)
{
    struct task_actions actions;

    event.now_ms = play->now_ms;
    task_step(&play->task, &event, &actions);
    if (task_check(&play->task) != NULL && play->broken == BROKEN_NOTHING)
        play->fault = task_check(&play->task);
}

static void open_task(struct play *play)
{
    const struct task_config config = {.incarnation = INCARNATION,
                                       .exactly_once = true,
                                       .stateful = true,
                                       .commit_interval_ms = 10,
                                       .checkpoint_interval_ms = 1000000,
                                       .partitions_initial = INITIAL,
                                       .settle_ms = INT64_MAX};
    const struct task_desired desired = {.epoch = 1};
    struct task_partition *partitions = mem_calloc(INITIAL, sizeof(*partitions));

    for (uint32_t i = 0; i < INITIAL; i++)
        partitions[i] = (struct task_partition){.partition = i, .owned = true};
    task_init(&play->task, &config, &desired, partitions, INITIAL, play->now_ms);
}

static bool is_begun(const struct task *task)
{
    return task->phase.state == TASK_PHASE_REPLAY || task->phase.state == TASK_PHASE_STAMP;
}

/* Brings it from wherever it is to REPLAY, or past it, with what was kept; nothing of this is under
 * test. */
static void begin(struct play *play)
{
    struct task *task = &play->task;
    int64_t offsets[MOST];
    struct task_committed committed[MOST];
    struct task_range ranges[MOST];

    for (size_t i = 0; i < task->partition_count; i++) {
        offsets[i] = 0; /* it has no checkpoint: all is replayed */
        committed[i] = (struct task_committed){
            .offset = play->kept_at[i], .stamped = true, .stamp = task_stamp(task, i)};
        ranges[i] = (struct task_range){0, play->logs[i].count, play->logs[i].count};
    }
    for (int i = 0; i < 20 && !is_begun(task); i++) {
        static const enum task_event_kind answers[] = {
            [TASK_ACTION_OPEN_STORE] = TASK_EVENT_STORE_OPENED,
            [TASK_ACTION_QUERY_RANGES] = TASK_EVENT_RANGES,
            [TASK_ACTION_VERIFY] = TASK_EVENT_VERIFIED,
            [TASK_ACTION_OPEN_PRODUCER] = TASK_EVENT_PRODUCER_READY,
            [TASK_ACTION_FETCH_COMMITTED] = TASK_EVENT_COMMITTED_READ,
            [TASK_ACTION_DROP_STATE] = TASK_EVENT_STATE_DROPPED,
            [TASK_ACTION_COMMIT] = TASK_EVENT_COMMIT_FAILED};
        enum task_event_kind kind = TASK_EVENT_TICK;

        if (task->waiting)
            kind = answers[task->awaited];
        else if (task->phase.state == TASK_PHASE_OPEN && task->retry_ms == 0)
            kind = TASK_EVENT_START;
        play->now_ms += 20000;
        give(play, (struct task_event){
                       .kind = kind, .offsets = offsets, .committed = committed, .ranges = ranges});
    }
    cr_assert(is_begun(task), "%s", task_phase_name((enum task_phase)task->phase.state));
    memset(play->done, 0, sizeof(play->done));
}

static void fail(struct play *play)
{
    if (play->task.phase.state != TASK_PHASE_ACTIVE)
        return;
    give(play, (struct task_event){.kind = TASK_EVENT_OUTPUT_FAILED});
    begin(play);
}

static void grow(struct play *play, uint32_t wanted)
{
    struct task_partition added[MOST] = {0};
    uint32_t before = play->partitions;

    play->partitions = wanted;
    for (uint32_t p = before; p < wanted; p++)
        added[p - before] = (struct task_partition){.partition = p, .owned = true};
    task_grow(&play->task, added, wanted - before, play->now_ms);
    play->number++;
    for (size_t i = 0; i < wanted; i++) {
        struct task_window told = {.told = true,
                                   .number = play->number,
                                   .fence = play->broken == BROKEN_EARLY_SETTLE ? 0 : API_UNKNOWN};
        task_tell_window(&play->task, i, &told, play->now_ms);
    }
}

static void look_at(struct play *play, bool ends)
{
    for (size_t i = 0; i < play->task.partition_count; i++) {
        if (ends)
            play->ranges[i].end = play->broken == BROKEN_STABLE_END ? stable_end(&play->logs[i])
                                                                    : play->logs[i].count;
        else
            play->ranges[i].stable_end = stable_end(&play->logs[i]);
    }
}

/* The two halves of a question, with writes between them. */
static void ask(struct play *play)
{
    if (!play->asked) {
        memset(play->ranges, 0, sizeof(play->ranges));
        task_asks_ranges(&play->task, play->now_ms);
        look_at(play, play->broken == BROKEN_ENDS_FIRST);
        play->asked = true;
        return;
    }
    look_at(play, play->broken != BROKEN_ENDS_FIRST);
    play->asked = false;
    for (size_t i = 0; i < play->task.partition_count; i++) {
        if (play->ranges[i].end < play->ranges[i].stable_end)
            play->ranges[i].end = play->ranges[i].stable_end;
    }
    give(play, (struct task_event){.kind = TASK_EVENT_RANGES, .ranges = play->ranges});
}

static int64_t limit_of(const struct play *play, size_t index)
{
    const struct task_partition *partition = &play->task.partitions[index];
    bool live = task_may_output(&play->task);

    if (play->broken == (live ? BROKEN_NO_HOLD : BROKEN_REPLAY_NO_HOLD))
        return partition->limit;
    return task_limit(&play->task, index);
}

static void read_one(struct play *play)
{
    size_t index = (size_t)between(play, 0, (int64_t)play->task.partition_count - 1);
    struct task_partition *partition = &play->task.partitions[index];
    const struct log *log = &play->logs[index];
    const struct entry *entry = &log->entries[partition->position];

    if (!task_may_read(&play->task) || partition->position >= stable_end(log) ||
        partition->position >= limit_of(play, index))
        return;
    if (entry->number != play->done[entry->key] + 1)
        play->fault = "a key's records were processed out of order";
    play->done[entry->key] = entry->number;
    if (limit_of(play, index) != task_limit(&play->task, index))
        partition->clear = partition->position + 1; /* the rule that is left out */
    task_progress(&play->task, index, partition->position + 1, play->now_ms);
}

static void tick(struct play *play)
{
    play->now_ms += between(play, 0, 6);
    if (play->broken == BROKEN_PARENT_ONLY)
        for (size_t i = 0; i < play->task.partition_count; i++)
            for (size_t n = 1; n < TASK_ANCESTORS_MAX; n++)
                play->task.partitions[i].needs[n] = 0;
    give(play, (struct task_event){.kind = TASK_EVENT_TICK});
    if (!play->task.waiting || play->task.awaited != TASK_ACTION_COMMIT)
        return;
    give(play, (struct task_event){.kind = TASK_EVENT_COMMIT_DONE});
    memcpy(play->kept, play->done, sizeof(play->kept));
    for (size_t i = 0; i < play->task.partition_count; i++)
        play->kept_at[i] = play->task.partitions[i].t1;
}

static void step(struct play *play)
{
    int64_t what = between(play, 0, 99);
    bool active = play->task.phase.state == TASK_PHASE_ACTIVE && !play->task.waiting;

    if (what < 30)
        write_one(play);
    else if (what < 60)
        read_one(play);
    else if (what < 80)
        tick(play);
    else if (what < 94)
        ask(play);
    else if (what < 97)
        end_transactions(play);
    else if (what == 97)
        fail(play);
    else if (active && play->partitions < MOST)
        grow(play, play->partitions * 2);
}

/* All that was written is processed once nobody writes any more. */
static void drain(struct play *play)
{
    end_transactions(play);
    for (int i = 0; i < 20000 && play->fault == NULL; i++) {
        bool all = true;
        for (size_t k = 0; k < KEYS; k++)
            all = all && play->done[k] == play->written[k];
        if (all)
            return;
        read_one(play);
        if (i % 8 == 0)
            tick(play);
        if (i % 16 == 0)
            ask(play);
    }
    if (play->fault == NULL)
        play->fault = "records are never processed";
}

static const char *run(enum broken broken, uint64_t seed, uint32_t *ret_partitions)
{
    struct play *play = mem_calloc(1, sizeof(*play));
    const char *fault;

    play->broken = broken;
    play->now_ms = 1000;
    play->partitions = INITIAL;
    rng_init(&play->rng, seed);
    for (size_t k = 0; k < KEYS; k++)
        play->known[k] = INITIAL;
    open_task(play);
    begin(play);
    for (int i = 0; i < STEPS && play->fault == NULL; i++)
        step(play);
    if (play->fault == NULL)
        drain(play);
    fault = play->fault;
    *ret_partitions = play->partitions;
    task_finish(&play->task);
    free(play);
    return fault;
}

Test(task_order_random, each_key_is_processed_in_the_order_in_which_it_was_written)
{
    uint32_t partitions;
    size_t grown = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *fault = run(BROKEN_NOTHING, seed, &partitions);
        cr_assert_null(fault, "seed %llu: %s", (unsigned long long)seed, fault);
        grown += partitions == MOST;
    }
    cr_assert_gt(grown, SEEDS / 2, "both expansions have happened in %zu of %d", grown, SEEDS);
}

Test(task_order_random, a_rule_that_is_left_out_is_found)
{
    uint32_t partitions;

    for (enum broken broken = BROKEN_NO_HOLD; broken <= BROKEN_REPLAY_NO_HOLD; broken++) {
        uint64_t seed = 1;
        while (seed <= SEEDS && run(broken, seed, &partitions) == NULL)
            seed++;
        cr_assert_leq(seed, SEEDS, "number %d is not found", (int)broken);
    }
}
