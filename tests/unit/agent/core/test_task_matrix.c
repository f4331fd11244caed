/*
 * Every event in every phase, with its answer outstanding and without: nothing asserts, every
 * invariant holds, no answer that was never asked for is taken for one, and a stop still ends the
 * task. And the same in random order.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "common/rng.h"
#include "tests/unit/agent/core/task_rig.h"

enum variant {
    VARIANT_WAITING, /* as the phase is entered: mostly with an answer outstanding */
    VARIANT_QUIET,   /* nothing outstanding: between a failure and its retry, or at work */
    VARIANT_STOPPING,
    VARIANT_CHECKPOINT, /* one is running */
    VARIANT_COUNT
};

struct cell {
    enum task_phase phase;
    enum variant variant;
    enum task_event_kind kind;
};

static void read_some(struct rig *rig)
{
    if (task_may_read(&rig->task) && rig->task.partitions[0].position < 50)
        rig_read(rig, 0, rig->task.partitions[0].position + 1);
    else if (task_may_read(&rig->task) && rig->task.partitions[0].limit == TASK_UNLIMITED)
        rig_read(rig, 0, rig->task.partitions[0].position + 1);
}

/* The failure after which a phase waits for its retry. */
static void fail_once(struct rig *rig)
{
    static const enum task_event_kind failures[] = {
        [TASK_ACTION_OPEN_STORE] = TASK_EVENT_STORE_FAILED,
        [TASK_ACTION_QUERY_RANGES] = TASK_EVENT_RANGES_FAILED,
        [TASK_ACTION_SEED] = TASK_EVENT_SEED_FAILED,
        [TASK_ACTION_VERIFY] = TASK_EVENT_VERIFY_FAILED,
        [TASK_ACTION_OPEN_PRODUCER] = TASK_EVENT_PRODUCER_FAILED,
        [TASK_ACTION_FETCH_COMMITTED] = TASK_EVENT_COMMITTED_FAILED,
        [TASK_ACTION_CLOSE] = TASK_EVENT_CLOSED,
    };

    if (rig->task.waiting && failures[rig->task.awaited] != 0)
        (void)rig_give(rig, failures[rig->task.awaited]);
}

static void to_phase(struct rig *rig, enum task_phase phase)
{
    switch (phase) {
    case TASK_PHASE_LEARN:
        rig_go(rig, phase);
        (void)rig_follow(rig, 60, 60, 60);
        break;
    case TASK_PHASE_SEED:
        rig->ranges[1].log_start = 45;
        rig->task.desired.seed = TASK_SEED_AUTO;
        (void)rig_give(rig, TASK_EVENT_START);
        rig_go(rig, phase);
        break;
    case TASK_PHASE_REINIT:
        rig_go(rig, TASK_PHASE_ACTIVE);
        read_some(rig);
        (void)rig_desire(rig, RIG_EPOCH + 1, false);
        break;
    case TASK_PHASE_PAUSED:
        rig_go(rig, TASK_PHASE_ACTIVE);
        read_some(rig);
        (void)rig_want(rig, (struct task_desired){.epoch = RIG_EPOCH, .paused = true});
        rig_go(rig, phase);
        break;
    case TASK_PHASE_RELEASE:
    case TASK_PHASE_CHECKPOINT:
    case TASK_PHASE_CLOSED:
        rig_go(rig, TASK_PHASE_ACTIVE);
        read_some(rig);
        (void)rig_give(rig, TASK_EVENT_STOP);
        if (phase != TASK_PHASE_RELEASE)
            rig_go(rig, phase);
        break;
    case TASK_PHASE_FENCED:
        rig_go(rig, TASK_PHASE_PRODUCER);
        (void)rig_give(rig, TASK_EVENT_PRODUCER_FENCED);
        break;
    case TASK_PHASE_FAILED:
        rig_go(rig, TASK_PHASE_VERIFY);
        (void)rig_give(rig, TASK_EVENT_VERIFY_MISMATCH);
        break;
    default:
        (void)rig_give(rig, TASK_EVENT_START);
        rig_go(rig, phase);
        break;
    }
    cr_assert_eq(rig_phase(rig), phase);
}

static void to_variant(struct rig *rig, enum variant variant)
{
    if (variant == VARIANT_QUIET) {
        fail_once(rig);
        read_some(rig);
    } else if (variant == VARIANT_STOPPING) {
        (void)rig_give(rig, TASK_EVENT_STOP);
    } else if (variant == VARIANT_CHECKPOINT && !rig->task.checkpoint_running) {
        read_some(rig);
        rig->now_ms += 10000;
        (void)rig_give(rig, TASK_EVENT_TICK);
        if (rig->task.waiting && rig->task.awaited == TASK_ACTION_COMMIT)
            (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
        read_some(rig);
    }
}

static bool is_observation(enum task_event_kind kind)
{
    switch (kind) {
    case TASK_EVENT_START:
    case TASK_EVENT_TICK:
    case TASK_EVENT_DESIRED:
    case TASK_EVENT_FOLLOW:
    case TASK_EVENT_STOP:
    case TASK_EVENT_STORE_FAILED:
    case TASK_EVENT_STORE_CORRUPT:
    case TASK_EVENT_RANGES:
    case TASK_EVENT_COMMIT_FENCED:
    case TASK_EVENT_OUTPUT_FAILED:
    case TASK_EVENT_ASSIGN_FAILED:
    case TASK_EVENT_CHECKPOINTED:
    case TASK_EVENT_CHECKPOINT_FAILED:
    case TASK_EVENT_POSITION_LOST:
    case TASK_EVENT_RECORD_REFUSED:
    case TASK_EVENT_FULL:
        return true;
    default:
        return false;
    }
}

static void check_cell(const struct cell *cell)
{
    struct rig rig_memory, *rig = &rig_memory;
    struct task before;
    bool answers;

    if (cell->phase == TASK_PHASE_LEARN)
        rig_init_learner(rig);
    else
        rig_init(rig);
    to_phase(rig, cell->phase);
    to_variant(rig, cell->variant);
    before = rig->task;
    answers = rig->task.waiting && cell->kind == rig_good_answer(rig->task.awaited);
    (void)rig_give_event(rig, (struct task_event){.kind = cell->kind,
                                                  .index = 1,
                                                  .offset = 51,
                                                  .desired = {.epoch = RIG_EPOCH + 2},
                                                  .detail = "matrix"});
    if (!answers && !is_observation(cell->kind) && !before.waiting)
        cr_assert(rig->task.phase.state == before.phase.state && !rig->task.waiting &&
                      rig->actions.count == 0,
                  "an answer to nothing was taken");
    rig_expect_stops(rig);
    rig_finish(rig);
}

ParameterizedTestParameters(task_matrix, every_event_in_every_phase)
{
    static struct cell cells[TASK_PHASE_COUNT * VARIANT_COUNT];
    size_t count = 0;

    for (int phase = 0; phase < TASK_PHASE_COUNT; phase++) {
        for (int variant = 0; variant < VARIANT_COUNT; variant++)
            cells[count++] = (struct cell){(enum task_phase)phase, (enum variant)variant, 0};
    }
    return cr_make_param_array(struct cell, cells, count);
}

ParameterizedTest(struct cell *cell, task_matrix, every_event_in_every_phase)
{
    for (int kind = 0; kind < TASK_EVENT_COUNT; kind++) {
        cell->kind = (enum task_event_kind)kind;
        check_cell(cell);
    }
}

/* ---- in any order */

static struct task_event random_event(struct rig *rig, struct rng *rng)
{
    struct task_event event = {.kind = (enum task_event_kind)rng_below(rng, TASK_EVENT_COUNT),
                               .index = rng_below(rng, RIG_PARTITIONS),
                               .offset = (int64_t)rng_below(rng, 100),
                               .desired = {.epoch = RIG_EPOCH + rng_below(rng, 20),
                                           .handoff = rng_below(rng, 3),
                                           .learner = rng_below(rng, 2) == 0,
                                           .release = rng_below(rng, 8) == 0,
                                           .paused = rng_below(rng, 3) == 0,
                                           .seed = (enum task_seed)rng_below(rng, 3)},
                               .restart = rng_below(rng, 2) == 0,
                               .set_aside = rng_below(rng, 8) == 0,
                               .fatal = rng_below(rng, 8) == 0,
                               .code = rng_below(rng, 2) == 0 ? NULL : "output_failed",
                               .detail = rng_below(rng, 2) == 0 ? NULL : "random"};

    if (event.kind == TASK_EVENT_STOP && rng_below(rng, 20) != 0)
        event.kind = TASK_EVENT_TICK;
    if (rig->task.waiting && rng_below(rng, 3) != 0)
        event.kind = rig_good_answer(rig->task.awaited);
    return event;
}

/* Somebody else's commit, as if by a tool. */
static void random_foreign(struct rig *rig, struct rng *rng)
{
    size_t index = rng_below(rng, RIG_PARTITIONS);

    if (rig_phase(rig) == TASK_PHASE_PAUSED && rng_below(rng, 4) == 0)
        rig->committed[index] = (struct task_committed){.offset = rig->committed[index].offset +
                                                                  (int64_t)rng_below(rng, 10) - 2};
}

/* What a consumer would do: some records, up to the limit. */
static void random_reads(struct rig *rig, struct rng *rng)
{
    for (size_t i = 0; i < RIG_PARTITIONS && task_may_read(&rig->task); i++) {
        int64_t position = rig->task.partitions[i].position + (int64_t)rng_below(rng, 10);
        int64_t limit = rig->task.partitions[i].limit;

        rig_read(rig, i, position < limit ? position : limit);
        if (rig->ranges[i].end < rig->task.partitions[i].position)
            rig->ranges[i].end = rig->task.partitions[i].position;
    }
}

/* What is promised of wake_ms: a tick then does something, so a shell that only ticks comes to
 * rest. */
static void expect_rest(struct rig *rig)
{
    int ticks = 0;

    while (!rig->task.waiting && rig->actions.wake_ms <= rig->now_ms) {
        rig_assert(ticks++ < 10);
        (void)rig_give(rig, TASK_EVENT_TICK);
    }
}

Test(task_matrix, random_order)
{
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct rig rig_memory, *rig = &rig_memory;
        struct rng rng;

        rng_init(&rng, seed);
        if (rng_below(&rng, 2) == 0)
            rig_init_learner(rig);
        else
            rig_init(rig);
        rig->task.config.exactly_once = rng_below(&rng, 3) != 0;
        rig->task.config.stateful = rng_below(&rng, 4) != 0;
        if (rng_below(&rng, 3) == 0)
            rig->ranges[rng_below(&rng, RIG_PARTITIONS)].log_start = 45;
        rig->task.desired.seed = (enum task_seed)rng_below(&rng, 3);
        (void)rig_give(rig, TASK_EVENT_START);
        for (int step = 0; step < 150; step++) {
            random_reads(rig, &rng);
            random_foreign(rig, &rng);
            (void)rig_give_event(rig, random_event(rig, &rng));
            rig->now_ms += (int64_t)rng_below(&rng, 3) * 200;
            expect_rest(rig);
        }
        rig_expect_stops(rig);
        rig_finish(rig);
    }
}
