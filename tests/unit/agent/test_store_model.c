/* Random calls against a plain array of what the store should hold. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define SEEDS 12
#define STEPS 1200

struct run {
    struct store_fixture fixture;
    struct rng rng;
    struct model live, frozen, disk; /* what the layers should add up to */
    int64_t frozen_offset, disk_offset;
    bool pending; /* a checkpoint that may not be on disk yet */
    int64_t now_ms;
    uint32_t number;
    int counts[8]; /* of the kinds of steps that were taken */
};

enum step { STEP_FREEZE, STEP_WAIT, STEP_HELD_READS, STEP_FAIL, STEP_DROP, STEP_REOPEN };

static void settle(struct run *run)
{
    if (run->pending) {
        run->disk = run->frozen;
        run->disk_offset = run->frozen_offset;
    }
    run->pending = false;
}

static void freeze(struct run *run)
{
    const struct store_position position = {.next_offset = run->number};

    if (!store_freeze(run->fixture.store, &position, 1)) {
        cr_assert(run->pending); /* refused only while another is written */
        return;
    }
    settle(run);
    run->frozen = run->live;
    run->frozen_offset = run->number;
    run->pending = true;
}

static void wait(struct run *run)
{
    cr_assert_eq(store_flush_wait(run->fixture.store, INT64_MAX, NULL), ERR_NONE);
    settle(run);
    cr_assert_eq(fixture_offset(&run->fixture), run->disk_offset);
}

/* A checkpoint that can not end: reads must find it all in the frozen map. */
static void read_while_held(struct run *run)
{
    wait(run);
    store_test_hold_flush(run->fixture.store, true);
    freeze(run);
    for (int i = 0; i < 5; i++)
        model_put(&run->live, run->fixture.store, (int)rng_below(&run->rng, MODEL_ROWS),
                  ++run->number, run->now_ms);
    model_delete(&run->live, run->fixture.store, (int)rng_below(&run->rng, MODEL_ROWS));
    model_assert_equal(&run->live, run->fixture.store, INT64_MIN);
    store_test_hold_flush(run->fixture.store, false);
}

static void fail_once(struct run *run)
{
    wait(run);
    store_test_fail_flush(run->fixture.store, ENOSPC, 1);
    freeze(run);
    cr_assert_eq(store_flush_wait(run->fixture.store, INT64_MAX, NULL), ERR_IO);
    model_assert_equal(&run->live, run->fixture.store, INT64_MIN);
    store_flush_retry(run->fixture.store);
}

static void drop(struct run *run)
{
    cr_assert_eq(store_drop_live(run->fixture.store, NULL), ERR_NONE);
    settle(run);
    run->live = run->disk;
    cr_assert_eq(fixture_offset(&run->fixture), run->disk_offset);
    model_assert_equal(&run->live, run->fixture.store, INT64_MIN);
}

static void reopen(struct run *run)
{
    const bool empty = !run->pending && run->disk_offset < 0;

    fixture_reopen(&run->fixture, empty ? STORE_FRESH : STORE_KEPT);
    settle(run);
    run->live = run->disk;
    cr_assert_eq(fixture_offset(&run->fixture), run->disk_offset);
    model_assert_equal(&run->live, run->fixture.store, INT64_MIN);
}

static void take_step(struct run *run)
{
    static void (*const rare[])(struct run *) = {
        [STEP_FREEZE] = freeze,  [STEP_WAIT] = wait, [STEP_HELD_READS] = read_while_held,
        [STEP_FAIL] = fail_once, [STEP_DROP] = drop, [STEP_REOPEN] = reopen};
    const uint64_t dice = rng_below(&run->rng, 1000);
    const int index = (int)rng_below(&run->rng, MODEL_ROWS);

    run->now_ms += (int64_t)rng_below(&run->rng, 3);
    if (dice < 650) {
        model_put(&run->live, run->fixture.store, index, ++run->number, run->now_ms);
    } else if (dice < 850) {
        model_delete(&run->live, run->fixture.store, index);
    } else if (dice < 870) {
        model_assert_equal(&run->live, run->fixture.store,
                           run->now_ms - (int64_t)rng_below(&run->rng, 500));
    } else {
        const size_t kind = dice < 940 ? STEP_FREEZE : dice < 970 ? STEP_WAIT : 2 + dice % 4;

        rare[kind](run);
        run->counts[kind]++;
    }
}

static void run_seed(uint64_t seed, bool sync)
{
    static struct run run;

    memset(&run, 0, sizeof(run));
    rng_init(&run.rng, seed);
    run.frozen_offset = -1;
    run.disk_offset = -1;
    fixture_init(&run.fixture);
    run.fixture.config.sync = sync;
    fixture_open(&run.fixture, STORE_FRESH);
    for (int i = 0; i < STEPS; i++)
        take_step(&run);
    reopen(&run);
    for (int kind = STEP_FREEZE; kind <= STEP_REOPEN; kind++)
        cr_assert_gt(run.counts[kind], 0, "seed %d never took step %d", (int)seed, kind);
    fixture_finish(&run.fixture);
}

Test(store_model, holds_what_a_plain_array_holds)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(seed, false);
}

Test(store_model, holds_it_with_synced_checkpoints_too)
{
    run_seed(1000, true);
}
