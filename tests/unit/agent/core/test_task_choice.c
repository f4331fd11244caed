/* What people decide: committed offsets that are chosen, records that are passed. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig *const rig = &rig_shared;

TestSuite(task_choice, .init = rig_setup_started, .fini = rig_teardown_started);

#define NONE                                                                                       \
    {                                                                                              \
        API_UNKNOWN, API_UNKNOWN                                                                   \
    }

static void commit_by_tool(size_t index, int64_t offset)
{
    rig->committed[index] = (struct task_committed){.offset = offset};
}

/* Halted by what is committed of partition 1. */
static void halt_at(int64_t offset)
{
    commit_by_tool(1, offset);
    rig_go(rig, TASK_PHASE_FAILED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
}

static void choose(int64_t found, int64_t offset)
{
    const struct task_choice chosen[RIG_PARTITIONS] = {NONE, {found, offset}, NONE};

    (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_DESIRED,
                                                  .desired = {.epoch = RIG_EPOCH + 1},
                                                  .chosen = chosen});
}

Test(task_choice, all_that_was_found_is_shown_apart_from_t1)
{
    commit_by_tool(0, 70);
    commit_by_tool(2, API_UNKNOWN);
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "offsets_changed"); /* the first */
    cr_assert(rig->task.partitions[0].strange && rig->task.partitions[2].strange);
    cr_assert_not(rig->task.partitions[1].strange);
    cr_assert_eq(rig->task.partitions[0].found, 70);
    cr_assert_eq(rig->task.partitions[2].found, API_UNKNOWN);
    cr_assert_eq(rig->task.partitions[0].t1, API_UNKNOWN, "nobody is to follow it");
    cr_assert_eq(rig->task.partitions[1].t1, 50);
}

Test(task_choice, restored_it_goes_on_where_it_was_and_commits_that)
{
    halt_at(70);
    choose(70, 50);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 50);
    cr_assert(rig->committed[1].stamped);
    cr_assert_eq(rig->committed[1].stamp.epoch, RIG_EPOCH + 1);
    cr_assert_eq(rig->task.partitions[1].position, 50);
    cr_assert_eq(rig->task.code[0], '\0');
}

Test(task_choice, restored_where_there_was_nothing)
{
    halt_at(API_UNKNOWN);
    cr_assert_str_eq(rig->task.code, "offsets_expired");
    choose(API_UNKNOWN, 50);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 50);
}

Test(task_choice, accepted_above_it_learns_up_to_there)
{
    halt_at(70);
    choose(70, 70);
    rig_go(rig, TASK_PHASE_REPLAY);
    cr_assert_eq(rig->task.partitions[1].limit, 70);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 70);
}

Test(task_choice, accepted_below_t2_the_state_is_rebuilt)
{
    halt_at(20);
    choose(20, 20);
    do
        (void)rig_give(rig, rig_good_answer(rig->awaited));
    while (strchr(rig->letters, 'S') == NULL);
    cr_assert_str_eq(rig->task.code, "state_ahead");
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 20);
    cr_assert_eq(rig->task.partitions[1].position, 20);
}

Test(task_choice, is_about_what_was_found_and_nothing_else)
{
    halt_at(70);
    commit_by_tool(1, 75);
    choose(70, 50);
    rig_go(rig, TASK_PHASE_FAILED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    while (rig_phase(rig) != TASK_PHASE_FAILED || rig->task.waiting)
        (void)rig_give(rig, rig_good_answer(rig->awaited));
    cr_assert_str_eq(rig->task.code, "offsets_changed");
    cr_assert_eq(rig->task.partitions[1].found, 75);
    cr_assert_not(rig->committed[1].stamped);
}

Test(task_choice, is_over_when_the_task_is_active)
{
    halt_at(70);
    choose(70, 50);
    rig_go(rig, TASK_PHASE_ACTIVE);
    choose(70, 50); /* an old document, or one that does not know yet */
    cr_assert_eq(rig->task.partitions[1].chosen.offset, API_UNKNOWN);
}

Test(task_choice, a_state_that_can_not_be_rebuilt_waits_for_one)
{
    rig->ranges[1].log_start = 10;
    rig->committed[1].offset = 30; /* T2 is 40, the stamp is right */
    rig_go(rig, TASK_PHASE_FAILED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig->task.code, "state_ahead");
    cr_assert(rig->task.partitions[1].strange);
    cr_assert_eq(rig->task.partitions[1].found, 30);
    choose(30, 40);
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->committed[1].offset, 40);
}

/* ---- records */

Test(task_choice, a_record_that_halts_it_is_named_until_it_is_told_something_new)
{
    size_t index = 0;
    int64_t offset = 0;

    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_give_event(
        rig, (struct task_event){.kind = TASK_EVENT_RECORD_REFUSED, .index = 1, .offset = 50});
    cr_assert_not(task_halted(&rig->task, &index, &offset), "its last commit is under way");
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert(task_halted(&rig->task, &index, &offset));
    cr_assert_eq(index, 1);
    cr_assert_eq(offset, 50);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    (void)rig_desire(rig, RIG_EPOCH, true);
    cr_assert_not(task_halted(&rig->task, &index, &offset));
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_not(task_halted(&rig->task, &index, &offset));
}

Test(task_choice, a_record_can_halt_it_before_anything_is_open)
{
    size_t index = 0;
    int64_t offset = 0;

    (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_RECORD_REFUSED,
                                                  .code = "logic_crashed",
                                                  .index = 2,
                                                  .offset = 77});
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "logic_crashed");
    cr_assert(task_halted(&rig->task, &index, &offset));
    cr_assert_eq(offset, 77);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig_tick(rig, 3600000), "", "it is not tried again by itself");
}

Test(task_choice, skips_are_of_single_records)
{
    static const struct input_offset skips[] = {{0, 1, 5}, {0, 1, 7}, {0, 1, 90}};

    rig->task.partitions[1].skips = skips;
    rig->task.partitions[1].skip_count = 3;
    cr_assert(task_is_skipped(&rig->task, 1, 5));
    cr_assert_not(task_is_skipped(&rig->task, 1, 6));
    cr_assert(task_is_skipped(&rig->task, 1, 7));
    cr_assert(task_is_skipped(&rig->task, 1, 90));
    cr_assert_not(task_is_skipped(&rig->task, 1, 91));
    cr_assert_not(task_is_skipped(&rig->task, 0, 5));
}
