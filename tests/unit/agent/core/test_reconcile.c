#include "agent/core/reconcile.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"

#define OLD "00000000-0000-4000-8000-000000000001"
#define NEW "00000000-0000-4000-8000-000000000002"

static uint32_t partition_numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};

static struct document_job a_job(const char *name, const char *incarnation)
{
    return (struct document_job){.name = (char *)name,
                                 .incarnation = (char *)incarnation,
                                 .partitions_initial = 8,
                                 .partitions = 8,
                                 .processors_initial = 8,
                                 .processors = 8};
}

static struct document_task a_task(const char *job, uint32_t processor, uint64_t epoch)
{
    return (struct document_task){.job = (char *)job,
                                  .processor = processor,
                                  .role = epoch == 0 ? TASK_ROLE_LEARNER : TASK_ROLE_ACTIVE,
                                  .epoch = epoch,
                                  .owned = {&partition_numbers[processor], 1},
                                  .read = {&partition_numbers[processor], 1}};
}

/* One job "orders" of incarnation NEW, and what the document says of its processor 3. */
static struct document_job job;
static struct document_task wanted;
static struct agent_document document;

static void setup(void)
{
    job = a_job("orders", NEW);
    wanted = a_task("orders", 3, 7);
    document = (struct agent_document){.jobs = {.items = &job, 1}, .tasks = {.items = &wanted, 1}};
}

TestSuite(reconcile, .init = setup);

static void expect(const struct agent_document *of, const struct reconcile_slot *slots,
                   size_t count, int64_t now_ms, const char *kinds)
{
    static const char letters[] = "XRDS"; /* stop, remove, desire, start */
    struct reconcile_actions actions;
    char found[64] = "";

    reconcile_compute(of, slots, count, now_ms, &actions);
    for (size_t i = 0; i < actions.count; i++)
        found[i] = letters[actions.items[i].kind];
    cr_assert_str_eq(found, kinds);
    reconcile_actions_finish(&actions);
}

Test(reconcile, starts_what_is_wanted)
{
    struct reconcile_actions actions;
    reconcile_compute(&document, NULL, 0, 0, &actions);

    cr_assert_eq(actions.count, 1);
    cr_assert_eq(actions.items[0].kind, RECONCILE_START);
    cr_assert_eq(actions.items[0].slot, RECONCILE_NONE);
    cr_assert_eq(actions.items[0].task, 0);
    cr_assert_eq(actions.items[0].job, 0);
    reconcile_actions_finish(&actions);
}

Test(reconcile, one_slot_in_each_situation)
{
    struct document_job old_job = a_job("orders", OLD), paused = job;
    struct document_task other = a_task("orders", 4, 7), learner = a_task("orders", 3, 0);
    struct document_task newer = a_task("orders", 3, 8), older = a_task("orders", 3, 6);
    paused.paused = true;

    const struct {
        const char *goal;
        struct reconcile_slot slot;
        const char *kinds; /* at time 100 */
    } table[] = {
        {"as it should be", {&job, &wanted, RECONCILE_RUNNING, 0, false}, ""},
        {"another epoch", {&job, &newer, RECONCILE_RUNNING, 0, false}, "D"},
        {"another role", {&job, &learner, RECONCILE_RUNNING, 0, false}, "D"},
        {"another spec of the job", {&paused, &wanted, RECONCILE_RUNNING, 0, false}, "D"},
        {"not wanted: start ours, stop it", {&job, &other, RECONCILE_RUNNING, 0, false}, "XS"},
        {"not wanted and stopping", {&job, &other, RECONCILE_STOPPING, 0, false}, "S"},
        {"not wanted and down", {&job, &other, RECONCILE_DOWN, 0, false}, "RS"},
        {"old incarnation runs: no start", {&old_job, &wanted, RECONCILE_RUNNING, 0, false}, "X"},
        {"old incarnation closes", {&old_job, &wanted, RECONCILE_STOPPING, 0, false}, ""},
        {"old incarnation is down", {&old_job, &wanted, RECONCILE_DOWN, 0, false}, "RS"},
        {"named again while it closes", {&job, &wanted, RECONCILE_STOPPING, 0, false}, ""},
        {"down and its time has come", {&job, &wanted, RECONCILE_DOWN, 100, false}, "S"},
        {"down and waiting", {&job, &wanted, RECONCILE_DOWN, 101, false}, ""},
        {"down and waiting, other wish", {&paused, &wanted, RECONCILE_DOWN, 101, false}, "S"},
        {"fenced or released under this epoch", {&job, &wanted, RECONCILE_DOWN, 0, true}, ""},
        {"fenced, other spec, same epoch", {&paused, &wanted, RECONCILE_DOWN, 0, true}, ""},
        {"fenced under a newer epoch", {&job, &newer, RECONCILE_DOWN, 0, true}, ""},
        {"fenced under an older epoch", {&job, &older, RECONCILE_DOWN, 0, true}, "S"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        cr_log_info("%s", table[i].goal);
        expect(&document, &table[i].slot, 1, 100, table[i].kinds);
    }
}

Test(reconcile, a_fenced_owner_may_become_a_learner)
{
    struct reconcile_slot slot = {&job, &wanted, RECONCILE_DOWN, 0, true};
    struct document_task learner = a_task("orders", 3, 0);
    document.tasks.items = &learner;
    expect(&document, &slot, 1, 0, "S");
}

Test(reconcile, a_stop_wants_nothing)
{
    struct document_task other = a_task("orders", 4, 7), third = a_task("orders", 5, 7);
    struct reconcile_slot slots[] = {{&job, &wanted, RECONCILE_RUNNING, 0, false},
                                     {&job, &other, RECONCILE_STOPPING, 0, false},
                                     {&job, &third, RECONCILE_DOWN, 999, false}};
    expect(NULL, slots, 3, 0, "XR");
}

Test(reconcile, wakes_for_the_next_retry)
{
    struct document_task other = a_task("orders", 4, 7), third = a_task("orders", 5, 7);
    struct reconcile_slot slots[] = {{&job, &wanted, RECONCILE_DOWN, 500, false},
                                     {&job, &other, RECONCILE_DOWN, 400, false},
                                     {&job, &third, RECONCILE_DOWN, 300, true}};

    cr_assert_eq(reconcile_wake_ms(slots, 3, 100), 400);
    cr_assert_eq(reconcile_wake_ms(slots, 3, 400), 500);
    cr_assert_eq(reconcile_wake_ms(slots, 3, 500), INT64_MAX);
    cr_assert_eq(reconcile_wake_ms(NULL, 0, 0), INT64_MAX);
}

/* It was told to learn while it closed, as a zombie that comes back is: nothing else starts it. */
Test(reconcile, wakes_for_a_spent_one_that_is_to_learn)
{
    struct document_task learner = a_task("orders", 5, 0);
    struct reconcile_slot slots[] = {{&job, &learner, RECONCILE_DOWN, 300, true}};

    learner.role = TASK_ROLE_LEARNER;
    cr_assert_eq(reconcile_wake_ms(slots, 1, 100), 300);
}

Test(reconcile, versions_compare_by_start_then_decision)
{
    struct document_version low = {1, 900}, middle = {2, 1}, high = {2, 2};

    cr_assert_eq(reconcile_version_compare(low, middle), -1);
    cr_assert_eq(reconcile_version_compare(middle, high), -1);
    cr_assert_eq(reconcile_version_compare(high, high), 0);
    cr_assert_eq(reconcile_version_compare(high, low), 1);
}

/* ---- property: whatever happens on the way, the slots become what the last document says */

#define SLOTS_MAX 64
#define TASKS_MAX 16

struct world {
    struct rng rng;
    int64_t now_ms;
    struct document_job jobs[3]; /* one of a's incarnations, one of b's, and c of no task */
    struct document_task tasks[TASKS_MAX];
    struct agent_document document;
    struct model {
        struct document_job job;
        struct document_task task;
        enum reconcile_state state;
        int64_t retry_ms;
        bool fenced, removed;
    } slots[SLOTS_MAX];
    size_t slot_count;
    int starts, stops, desires, removals, fences;
};

static void random_document(struct world *world)
{
    static const char *const incarnations[] = {OLD, NEW};
    world->jobs[0] = a_job("a", incarnations[rng_below(&world->rng, 2)]);
    world->jobs[1] = a_job("b", incarnations[rng_below(&world->rng, 2)]);
    world->jobs[2] = a_job("c", OLD);
    for (int i = 0; i < 3; i++)
        world->jobs[i].paused = rng_below(&world->rng, 4) == 0;

    size_t count = 0;
    for (uint32_t place = 0; place < 8; place++) {
        if (rng_below(&world->rng, 3) == 0)
            continue;
        world->tasks[count++] =
            a_task(place % 2 == 0 ? "a" : "b", place / 2, rng_below(&world->rng, 4));
    }
    world->document = (struct agent_document){.jobs = {.items = world->jobs, 3},
                                              .tasks = {.items = world->tasks, count}};
    cr_assert_eq(reconcile_check(&world->document, NULL), ERR_NONE);
}

static void shuffle(struct rng *rng, void *array, size_t count, size_t bytes)
{
    char swap[sizeof(struct reconcile_slot) + sizeof(struct document_task)];
    cr_assert_leq(bytes, sizeof(swap));
    for (size_t i = count; i > 1; i--) {
        char *one = (char *)array + (i - 1) * bytes;
        char *two = (char *)array + rng_below(rng, i) * bytes;
        memcpy(swap, one, bytes);
        memmove(one, two, bytes);
        memcpy(two, swap, bytes);
    }
}

/* What an action means, without the positions: "S a 3 <incarnation>". */
static int text_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static size_t describe(const struct agent_document *of, const struct reconcile_slot *slots,
                       const struct reconcile_actions *actions, char ret_texts[][80])
{
    for (size_t i = 0; i < actions->count; i++) {
        const struct reconcile_action *action = &actions->items[i];
        const struct document_task *task = action->task == RECONCILE_NONE
                                               ? slots[action->slot].task
                                               : &of->tasks.items[action->task];
        const struct document_job *of_job =
            action->task == RECONCILE_NONE ? slots[action->slot].job : &of->jobs.items[action->job];
        cr_assert_str_eq(task->job, of_job->name);
        snprintf(ret_texts[i], 80, "%d %d %s %u %s", action->kind, action->slot == RECONCILE_NONE,
                 task->job, task->processor, of_job->incarnation);
    }
    qsort(ret_texts, actions->count, 80, text_compare);
    return actions->count;
}

static void check_order_independence(struct world *world, const struct reconcile_slot *slots,
                                     const struct reconcile_actions *actions)
{
    struct reconcile_slot other_slots[SLOTS_MAX];
    struct document_task other_tasks[TASKS_MAX];
    struct agent_document other = world->document;
    struct reconcile_actions other_actions;
    char texts[SLOTS_MAX][80] = {{0}}, other_texts[SLOTS_MAX][80] = {{0}};

    memcpy(other_slots, slots, world->slot_count * sizeof(*slots));
    memcpy(other_tasks, world->tasks, sizeof(other_tasks));
    other.tasks.items = other_tasks;
    shuffle(&world->rng, other_slots, world->slot_count, sizeof(*other_slots));
    shuffle(&world->rng, other_tasks, other.tasks.count, sizeof(*other_tasks));
    reconcile_compute(&other, other_slots, world->slot_count, world->now_ms, &other_actions);

    cr_assert_eq(describe(&world->document, slots, actions, texts),
                 describe(&other, other_slots, &other_actions, other_texts));
    cr_assert_arr_eq(texts, other_texts, sizeof(texts));
    reconcile_actions_finish(&other_actions);
}

static void carry_out(struct world *world, const struct reconcile_action *action)
{
    struct model *slot = action->slot == RECONCILE_NONE ? NULL : &world->slots[action->slot];
    switch (action->kind) {
    case RECONCILE_STOP:
        cr_assert_eq(slot->state, RECONCILE_RUNNING);
        slot->state = RECONCILE_STOPPING;
        world->stops++;
        break;
    case RECONCILE_REMOVE:
        cr_assert_eq(slot->state, RECONCILE_DOWN);
        slot->removed = true;
        world->removals++;
        break;
    case RECONCILE_DESIRE:
        cr_assert_eq(slot->state, RECONCILE_RUNNING);
        slot->job = world->document.jobs.items[action->job];
        slot->task = world->document.tasks.items[action->task];
        world->desires++;
        break;
    case RECONCILE_START:
        if (slot == NULL) {
            cr_assert_lt(world->slot_count, SLOTS_MAX);
            slot = &world->slots[world->slot_count++];
        } else {
            cr_assert_eq(slot->state, RECONCILE_DOWN);
        }
        *slot = (struct model){.job = world->document.jobs.items[action->job],
                               .task = world->document.tasks.items[action->task],
                               .state = RECONCILE_RUNNING};
        world->starts++;
        break;
    }
}

/* One of a key, and one thread at most on a state directory. */
static void check_slots(const struct world *world)
{
    for (size_t i = 0; i < world->slot_count; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct model *one = &world->slots[i], *two = &world->slots[k];
            if (strcmp(one->task.job, two->task.job) != 0 ||
                one->task.processor != two->task.processor)
                continue;
            cr_assert_str_neq(one->job.incarnation, two->job.incarnation);
            cr_assert(one->state == RECONCILE_DOWN || two->state == RECONCILE_DOWN);
        }
    }
}

/* Returns how many actions there were. */
static size_t reconcile_once(struct world *world)
{
    struct reconcile_slot slots[SLOTS_MAX];
    struct reconcile_actions actions;

    for (size_t i = 0; i < world->slot_count; i++) {
        const struct model *slot = &world->slots[i];
        slots[i] = (struct reconcile_slot){&slot->job, &slot->task, slot->state, slot->retry_ms,
                                           slot->fenced};
    }
    reconcile_compute(&world->document, slots, world->slot_count, world->now_ms, &actions);
    check_order_independence(world, slots, &actions);
    size_t count = actions.count;
    for (size_t i = 0; i < count; i++)
        carry_out(world, &actions.items[i]);
    reconcile_actions_finish(&actions);

    size_t kept = 0;
    for (size_t i = 0; i < world->slot_count; i++) {
        if (!world->slots[i].removed)
            world->slots[kept++] = world->slots[i];
    }
    world->slot_count = kept;
    check_slots(world);
    return count;
}

static void end_threads(struct world *world, bool all_stopping)
{
    for (size_t i = 0; i < world->slot_count; i++) {
        struct model *slot = &world->slots[i];
        if (slot->state == RECONCILE_STOPPING && (all_stopping || rng_below(&world->rng, 3) == 0)) {
            slot->state = RECONCILE_DOWN;
            slot->retry_ms = world->now_ms;
        } else if (slot->state == RECONCILE_RUNNING && !all_stopping &&
                   rng_below(&world->rng, 10) == 0) {
            slot->state = RECONCILE_DOWN;
            slot->fenced = slot->task.epoch > 0 && rng_below(&world->rng, 2) == 0;
            slot->retry_ms = world->now_ms + (int64_t)rng_below(&world->rng, 50);
            world->fences += slot->fenced;
        }
    }
}

static void check_converged(const struct world *world)
{
    size_t found = 0;
    for (size_t i = 0; i < world->document.tasks.count; i++) {
        const struct document_task *task = &world->document.tasks.items[i];
        const struct document_job *of_job = &world->jobs[task->job[0] == 'a' ? 0 : 1];
        for (size_t k = 0; k < world->slot_count; k++) {
            const struct model *slot = &world->slots[k];
            if (strcmp(slot->task.job, task->job) != 0 || slot->task.processor != task->processor)
                continue;
            cr_assert_str_eq(slot->job.incarnation, of_job->incarnation);
            found++;
            if (slot->fenced) {
                cr_assert_eq(slot->state, RECONCILE_DOWN);
                cr_assert_leq(task->epoch, slot->task.epoch);
                continue;
            }
            cr_assert_eq(slot->state, RECONCILE_RUNNING);
            cr_assert_eq(slot->task.epoch, task->epoch);
            cr_assert_eq(slot->job.paused, of_job->paused);
        }
    }
    cr_assert_eq(found, world->document.tasks.count);
    cr_assert_eq(found, world->slot_count);
}

Test(reconcile, converges_from_anywhere_with_one_thread_a_directory)
{
    struct world totals = {0};
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct world world = {0};
        cr_log_info("seed %llu", (unsigned long long)seed);
        rng_init(&world.rng, seed);
        random_document(&world);
        for (int step = 0; step < 60; step++) {
            if (rng_below(&world.rng, 4) == 0)
                random_document(&world);
            end_threads(&world, false);
            world.now_ms += (int64_t)rng_below(&world.rng, 20);
            reconcile_once(&world);
        }
        /* Act: the last document stays, whatever closes ends. A few rounds must be enough. */
        int rounds = 0;
        do {
            end_threads(&world, true);
            world.now_ms += 100;
            cr_assert_lt(rounds++, 4, "seed %llu does not settle", (unsigned long long)seed);
        } while (reconcile_once(&world) > 0);
        check_converged(&world);
        totals.starts += world.starts;
        totals.stops += world.stops;
        totals.desires += world.desires;
        totals.removals += world.removals;
        totals.fences += world.fences;
    }
    /* A kind that never happened would prove nothing. */
    cr_assert_gt(totals.starts, 1000);
    cr_assert_gt(totals.stops, 1000);
    cr_assert_gt(totals.desires, 1000);
    cr_assert_gt(totals.removals, 1000);
    cr_assert_gt(totals.fences, 300);
}

/* ---- what is no document */

Test(reconcile, check_refuses_what_contradicts_itself)
{
    struct document_job jobs[2] = {a_job("orders", NEW), a_job("orders", OLD)};
    struct document_task tasks[2] = {a_task("orders", 3, 7), a_task("orders", 3, 8)};
    uint32_t not_ascending[] = {2, 1}, out_of_range[] = {8}, twice[] = {1, 1};
    struct input_offset origin = {.topic = 0, .partition = 0};
    struct agent_document broken[12];
    struct document_task faulty[12];
    struct document_job faulty_job[12];
    const char *texts[12];
    size_t count = 0;
    struct err err;

    for (size_t i = 0; i < 12; i++) {
        faulty[i] = wanted;
        faulty_job[i] = job;
        broken[i] = (struct agent_document){.jobs = {.items = &faulty_job[i], 1},
                                            .tasks = {.items = &faulty[i], 1}};
    }
    texts[count] = "job orders: named twice";
    broken[count].jobs.items = jobs;
    broken[count++].jobs.count = 2;
    texts[count] = "task orders/3: named twice";
    broken[count].tasks.items = tasks;
    broken[count++].tasks.count = 2;
    texts[count] = "task gone/3: its job is not in the document";
    faulty[count++].job = (char *)"gone";
    texts[count] = "task orders/8: processor 8 of a job with 8";
    faulty[count++].processor = 8;
    texts[count] = "task orders/3: read: partitions do not ascend";
    faulty[count].read.items = not_ascending;
    faulty[count++].read.count = 2;
    texts[count] = "task orders/3: owned: partitions do not ascend";
    faulty[count].owned.items = twice;
    faulty[count++].owned.count = 2;
    texts[count] = "task orders/3: owned: partition 8 of a job with 8";
    faulty[count++].owned.items = out_of_range;
    texts[count] = "task orders/3: owned partitions that are not in the read set";
    faulty[count++].owned.items = &partition_numbers[4];
    texts[count] = "task orders/3: an active task without an epoch";
    faulty[count++].epoch = 0;
    texts[count] = "job orders: an origin of topic 0, partition 0";
    faulty_job[count].origins.items = &origin;
    faulty_job[count++].origins.count = 1;
    texts[count] = "job orders: 8 partitions that were 16";
    faulty_job[count++].partitions_initial = 16;
    texts[count] = "job orders: 8 processors that were 0";
    faulty_job[count++].processors_initial = 0;

    cr_assert_eq(count, 12);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(reconcile_check(&broken[i], &err), ERR_PROTOCOL, "%s", texts[i]);
        cr_assert_str_eq(err.text, texts[i]);
    }
    cr_assert_eq(reconcile_check(&document, &err), ERR_NONE);
}
