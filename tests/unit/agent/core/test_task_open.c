/* From the start to the first commit: the order of D3.1, T1 and history judged, failures. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/task_internal.h"
#include "common/mem.h"
#include "tests/unit/agent/core/task_rig.h"

static struct rig *const rig = &rig_shared;

TestSuite(task_open, .init = rig_setup, .fini = rig_teardown);

static void restart_with(struct task_config config)
{
    rig_finish(rig);
    memcpy(config.incarnation, RIG_INCARNATION, sizeof(config.incarnation));
    config.processor = 5;
    config.commit_interval_ms = 100;
    config.checkpoint_interval_ms = 10000;
    rig_init_config(rig, &config);
}

Test(task_open, activation_keeps_the_order)
{
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_START), "O");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STORE_OPENED), "R");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "V");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_OPENING);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_VERIFIED), "P");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_REPLAYING);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_PRODUCER_READY), "F");
    cr_assert(!task_may_read(&rig->task));
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "A");

    cr_assert_eq(rig_phase(rig), TASK_PHASE_REPLAY);
    cr_assert(task_may_read(&rig->task));
    cr_assert(!task_may_output(&rig->task));
    cr_assert_eq(rig->task.partitions[0].limit, 50);
    rig_read_all(rig, 49);
    cr_assert_str_eq(rig_tick(rig, 1), "");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_REPLAY);
    rig_read_all(rig, 50);
    cr_assert_str_eq(rig_tick(rig, 1), "");

    cr_assert_eq(rig_phase(rig), TASK_PHASE_STAMP);
    cr_assert(task_may_output(&rig->task));
    cr_assert_eq(task_state(&rig->task), TASK_STATE_REPLAYING, "not active before the stamp");
    rig_read(rig, 1, 53); /* the first commit may carry output */
    cr_assert_str_eq(rig_tick(rig, 0), "C");
    cr_assert(!task_may_read(&rig->task));
    cr_assert_eq(rig->task.partitions[0].committing, 50, "unmoved, but stamped");
    cr_assert_eq(rig->task.partitions[1].committing, 53);
    cr_assert_eq(rig->task.partitions[2].committing, 50);
    cr_assert_eq(task_stamp(&rig->task, 0).epoch, RIG_EPOCH);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMIT_DONE), "!");
    cr_assert_eq(task_state(&rig->task), TASK_STATE_ACTIVE);
    cr_assert_eq(rig->task.partitions[1].t1, 53);
}

Test(task_open, without_state_nothing_is_verified_and_all_is_replayed)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
    (void)rig_give(rig, TASK_EVENT_START);
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "P");
    rig_go(rig, TASK_PHASE_REPLAY);
    cr_assert_eq(rig->task.partitions[2].position, 0);
}

Test(task_open, nothing_to_replay_goes_straight_to_the_stamp)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = 50;
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "A");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_STAMP);
}

/* ---- D3.1: who is there already? */

Test(task_open, stamps_of_others)
{
    static const struct {
        const char *name;
        struct stamp stamp;
        enum task_phase after;
    } table[] = {
        {"an older epoch",
         {RIG_INCARNATION, 5, RIG_EPOCH - 1, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN},
         TASK_PHASE_REPLAY},
        {"start offsets of the coordinator",
         {RIG_INCARNATION, 5, 0, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN},
         TASK_PHASE_REPLAY},
        {"our own, of a commit nobody knew the end of",
         {RIG_INCARNATION, 5, RIG_EPOCH, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN},
         TASK_PHASE_REPLAY},
        {"a newer epoch",
         {RIG_INCARNATION, 5, RIG_EPOCH + 1, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN},
         TASK_PHASE_FENCED},
        {"another processor",
         {RIG_INCARNATION, 6, RIG_EPOCH - 1, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN},
         TASK_PHASE_FENCED},
        {"another job",
         {RIG_OTHER, 5, RIG_EPOCH - 1, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN},
         TASK_PHASE_FENCED},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        rig_go(rig, TASK_PHASE_COMMITTED);
        rig->committed[2].stamp = table[i].stamp; /* one of three is enough */
        cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ),
                         table[i].after == TASK_PHASE_FENCED ? "X!" : "A", "%s", table[i].name);
        cr_assert_eq(rig_phase(rig), table[i].after, "%s", table[i].name);
        rig_teardown();
        rig_setup();
    }
}

Test(task_open, stamps_of_partitions_that_are_only_read_do_not_fence)
{
    rig->task.partitions[2].owned = false;
    task_tell_bound(&rig->task, 2, rig->committed[2].offset, API_UNKNOWN);
    rig_go(rig, TASK_PHASE_COMMITTED);
    rig->committed[2].stamp.processor = 6;
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_REPLAY);
}

Test(task_open, fenced_never_initialises_again_for_its_epoch)
{
    rig_go(rig, TASK_PHASE_PRODUCER);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_PRODUCER_FENCED), "X!");
    cr_assert_str_eq(rig->task.code, "fenced");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CLOSED), "");
    cr_assert_eq(rig->actions.wake_ms, TASK_NEVER);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH, true), "");
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH - 1, false), "");
    cr_assert_str_eq(rig_tick(rig, 1000000), "");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FENCED);

    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "O");
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->task.epoch_working, RIG_EPOCH + 1);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_open, fenced_while_a_higher_epoch_is_known_opens_when_all_is_closed)
{
    rig_go(rig, TASK_PHASE_PRODUCER);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_PRODUCER_FENCED), "X!");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CLOSED), "O");
}

/* ---- D3.4: T1 at activation */

Test(task_open, committed_offsets_that_can_not_be_ours)
{
    static const struct {
        const char *name;
        struct task_committed committed;
        int64_t log_start;
        const char *code;
    } table[] = {
        {"none stored", {.offset = API_UNKNOWN}, 0, "offsets_expired"},
        {"by a tool", {.offset = 50, .stamped = false}, 0, "offsets_changed"},
        {"below T0",
         {50, true, {RIG_INCARNATION, 5, 6, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN}},
         0,
         "offsets_changed"},
        {"below the log start",
         {150, true, {RIG_INCARNATION, 5, 6, API_UNKNOWN, API_UNKNOWN, API_UNKNOWN}},
         160,
         "history_lost"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int64_t t0 = table[i].committed.offset == 50 && table[i].committed.stamped ? 60 : 0;

        rig_set_origin(rig, 1, t0);
        rig->stored[1] = table[i].log_start == 0 ? 60 : 160;
        rig->ranges[1] = (struct task_range){table[i].log_start, 200, 200};
        rig_go(rig, TASK_PHASE_COMMITTED);
        rig->committed[1] = table[i].committed;
        cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "X!", "%s", table[i].name);
        cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED, "%s", table[i].name);
        cr_assert_str_eq(rig->task.code, table[i].code, "%s", table[i].name);
        cr_assert_str_eq(rig_give(rig, TASK_EVENT_CLOSED), "");
        cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_RECHECK_MS, "%s", table[i].name);
        rig_teardown();
        rig_setup();
    }
}

Test(task_open, state_ahead_is_set_aside_and_relearned)
{
    rig->stored[1] = 60; /* T1 is 50 */
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "pUSO");
    cr_assert_str_eq(rig->task.code, "state_ahead");
    rig_go(rig, TASK_PHASE_REPLAY);
    cr_assert_eq(rig->task.partitions[1].position, 0);
    rig_go(rig, TASK_PHASE_ACTIVE);
    /* People can still read what happened, for a while. */
    cr_assert_str_eq(rig->task.code, "state_ahead");
    rig_tick(rig, TASK_NOTICE_MS);
    cr_assert_str_eq(rig->task.code, "");
}

Test(task_open, state_ahead_is_kept_when_there_is_no_other)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->ranges[i].log_start = 10; /* T0 is 0: a new state can not be made */
    rig->stored[1] = 60;
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "X!");
    cr_assert_str_eq(rig->task.code, "state_ahead");
    cr_assert_eq(rig->stored[1], 60);
}

Test(task_open, at_least_once_goes_on_from_its_state_when_a_zombie_turned_t1_back)
{
    restart_with((struct task_config){.stateful = true});
    rig->stored[1] = 60;
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "A");
    cr_assert_eq(rig->task.partitions[1].t1, 60);
    rig_go(rig, TASK_PHASE_STAMP);
    (void)rig_tick(rig, 0);
    cr_assert_eq(rig->task.partitions[1].committing, 60);
    (void)rig_give(rig, TASK_EVENT_COMMIT_DONE);
    cr_assert_str_eq(rig->task.code, "state_ahead", "it is reported");
}

Test(task_open, without_state_t2_is_t1)
{
    restart_with((struct task_config){.exactly_once = true, .stateful = false});
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
    rig->ranges[0].log_start = 20; /* T0 is gone, and no one minds */
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "A");
    cr_assert_eq(rig_phase(rig), TASK_PHASE_STAMP);
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        cr_assert_eq(rig->task.partitions[i].position, 50);
}

Test(task_open, without_state_unprocessed_records_are_not_skipped_either)
{
    restart_with((struct task_config){.exactly_once = true, .stateful = false});
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
    rig->ranges[0].log_start = 51;
    rig_go(rig, TASK_PHASE_COMMITTED);
    (void)rig_give(rig, TASK_EVENT_COMMITTED_READ);
    cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED);
    cr_assert_str_eq(rig->task.code, "history_lost");
}

Test(task_open, retained_history_does_not_relearn_for_ever)
{
    /* T2 is moved up to the log start; T1 lies below it: records were lost before they were
     * processed. It is no state_ahead, which would be set aside and come again without end. */
    restart_with(
        (struct task_config){.exactly_once = true, .stateful = true, .history_retained = true});
    rig->ranges[0] = (struct task_range){80, 100, 100};
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "X!");
    cr_assert_str_eq(rig->task.code, "history_lost");
}

/* ---- D3.6, D3.12: what the log holds */

Test(task_open, history)
{
    static const struct {
        const char *name;
        int64_t stored, log_start, end;
        bool retained;
        const char *code; /* NULL: it goes on */
    } table[] = {
        {"all is there", 40, 0, 100, false, NULL},
        {"the log starts at T2", 40, 40, 100, false, NULL},
        {"emptied, read to its end", 40, 40, 40, false, NULL},
        {"never written", API_UNKNOWN, 0, 0, false, NULL},
        {"the log start passed T2", 40, 41, 100, false, "history_lost"},
        {"no state, and the log start passed T0", API_UNKNOWN, 1, 100, false, "history_incomplete"},
        {"the same, which the logic does not mind", API_UNKNOWN, 1, 100, true, NULL},
        {"the log ends before T2", 40, 0, 39, false, "topic_truncated"},
        {"the log ends before T2, whatever the logic minds", 40, 0, 39, true, "topic_truncated"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].retained)
            restart_with((struct task_config){
                .exactly_once = true, .stateful = true, .history_retained = true});
        rig->stored[1] = table[i].stored;
        rig->ranges[1] = (struct task_range){table[i].log_start, table[i].end, table[i].end};
        rig_go(rig, TASK_PHASE_RANGES);
        (void)rig_give(rig, TASK_EVENT_RANGES);
        if (table[i].code == NULL) {
            cr_assert_str_eq(rig->task.code, "", "%s", table[i].name);
            cr_assert_eq(rig_phase(rig), TASK_PHASE_VERIFY, "%s", table[i].name);
        } else {
            cr_assert_str_eq(rig->task.code, table[i].code, "%s", table[i].name);
            cr_assert_eq(rig_phase(rig), TASK_PHASE_FAILED, "%s", table[i].name);
        }
        rig_teardown();
        rig_setup();
    }
}

Test(task_open, unknown_ranges_are_asked_again_and_never_taken_for_empty)
{
    rig_go(rig, TASK_PHASE_RANGES);
    rig->ranges[2] = (struct task_range){API_UNKNOWN, API_UNKNOWN, API_UNKNOWN};
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "");
    cr_assert_str_eq(rig->task.code, "kafka_unreachable");
    cr_assert_str_eq(rig_tick(rig, 0), "R");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES_FAILED), "");
    rig->ranges[2] = (struct task_range){0, 100, 100};
    cr_assert_str_eq(rig_tick(rig, TASK_BACKOFF_MIN_MS), "R");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "V");
}

/* A learner asks, is activated and reads T1, and only then is answered. */
Test(task_open, an_end_that_was_asked_for_before_t1_was_read_truncates_nothing)
{
    rig_go(rig, TASK_PHASE_RANGES);
    task_asks_ranges(&rig->task, rig->now_ms);
    rig_go(rig, TASK_PHASE_ACTIVE);
    rig->ranges[0].end = rig->task.partitions[0].t1 - 1;
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "");
}

Test(task_open, a_log_that_ends_before_t1_is_given_a_bounded_wait)
{
    rig_go(rig, TASK_PHASE_REPLAY);
    rig->ranges[1] = (struct task_range){0, 45, 45};
    task_asks_ranges(&rig->task, rig->now_ms);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "X!");
    cr_assert_str_eq(rig->task.code, "topic_truncated");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CLOSED), "");
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_RECHECK_MS);
}

Test(task_open, unknown_ranges_in_between_change_nothing)
{
    rig_go(rig, TASK_PHASE_REPLAY);
    rig->ranges[1] = (struct task_range){API_UNKNOWN, API_UNKNOWN, API_UNKNOWN};
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_RANGES), "");
    cr_assert_eq(rig->task.partitions[1].range.end, 100);
}

Test(task_open, other_contents_at_the_stored_position)
{
    rig_go(rig, TASK_PHASE_VERIFY);
    cr_assert_str_eq(
        rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_VERIFY_MISMATCH, .index = 1}),
        "X!");
    cr_assert_str_eq(rig->task.code, "topic_recreated");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig_tick(rig, TASK_RECHECK_MS), "O");
}

/* The log may be cut between RANGES and VERIFY: then only new ranges say so. */
Test(task_open, a_verification_that_failed_looks_at_the_ranges_again)
{
    rig_go(rig, TASK_PHASE_VERIFY);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_VERIFY_FAILED), "R");
    rig->ranges[0].log_start = 60;
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_str_eq(rig->task.code, "history_lost");
}

Test(task_open, state_below_the_origin_is_set_aside_without_spinning)
{
    rig_set_origin(rig, 1, 41);
    rig_go(rig, TASK_PHASE_OPEN);
    (void)rig_give(rig, TASK_EVENT_START);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STORE_OPENED), "pUSO");
    cr_assert_str_eq(rig->task.code, "state_set_aside");
    rig->stored[1] = 40; /* it could not be renamed and is still there */
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_STORE_OPENED), "pUS");
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_BACKOFF_MIN_MS);
}

Test(task_open, state_that_the_store_set_aside_is_said)
{
    for (size_t i = 0; i < RIG_PARTITIONS; i++)
        rig->stored[i] = API_UNKNOWN;
    (void)rig_give(rig, TASK_EVENT_START);
    (void)rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_STORE_OPENED,
                                                  .set_aside = true,
                                                  .detail = "row 3: checksum"});
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_str_eq(rig->task.code, "state_set_aside");
    cr_assert_str_eq(rig->task.detail, "row 3: checksum");
}

/* ---- failures on the way */

Test(task_open, failures_are_tried_again_where_they_happened)
{
    static const struct {
        enum task_phase phase;
        enum task_event_kind failure;
        const char *at_once, *again;
        enum task_phase after;
    } table[] = {
        {TASK_PHASE_RANGES, TASK_EVENT_RANGES_FAILED, "", "R", TASK_PHASE_RANGES},
        {TASK_PHASE_PRODUCER, TASK_EVENT_PRODUCER_FAILED, "p", "P", TASK_PHASE_PRODUCER},
        {TASK_PHASE_COMMITTED, TASK_EVENT_COMMITTED_FAILED, "", "F", TASK_PHASE_COMMITTED},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        rig_go(rig, table[i].phase);
        for (int64_t pause_ms = 0; pause_ms <= 2 * TASK_BACKOFF_MAX_MS;
             pause_ms = pause_ms == 0 ? TASK_BACKOFF_MIN_MS : pause_ms * 2) {
            int64_t bounded_ms = pause_ms < TASK_BACKOFF_MAX_MS ? pause_ms : TASK_BACKOFF_MAX_MS;

            cr_assert_str_eq(rig_give(rig, table[i].failure), table[i].at_once);
            cr_assert_eq(rig_phase(rig), table[i].after);
            cr_assert_str_eq(rig->task.code, "kafka_unreachable");
            cr_assert_eq(rig->actions.wake_ms, rig->now_ms + bounded_ms);
            if (bounded_ms > 0)
                cr_assert_str_eq(rig_tick(rig, bounded_ms - 1), "");
            cr_assert_str_eq(rig_tick(rig, bounded_ms > 0 ? 1 : 0), table[i].again);
        }
        rig_go(rig, TASK_PHASE_ACTIVE);
        cr_assert_str_eq(rig->task.code, "");
        rig_teardown();
        rig_setup();
    }
}

/* An epoch that was never worked under is no reason to try at once again and again. */
Test(task_open, a_store_that_does_not_open_is_tried_with_growing_pauses)
{
    int64_t before_ms = rig->now_ms;
    int tries = 0;

    (void)rig_give(rig, TASK_EVENT_START);
    while (rig->now_ms < before_ms + 60000) {
        if (rig->task.waiting && rig->task.awaited == TASK_ACTION_OPEN_STORE) {
            tries++;
            (void)rig_give(rig, TASK_EVENT_STORE_FAILED);
        } else if (rig->task.waiting) {
            (void)rig_give(rig, rig_good_answer(rig->task.awaited));
        } else {
            rig_assert(rig->actions.wake_ms != TASK_NEVER);
            (void)rig_tick(rig, rig->actions.wake_ms - rig->now_ms);
        }
        rig_assert(tries < 30);
    }
    cr_assert_geq(tries, 10);
}

Test(task_open, a_halt_for_history_is_not_retried_at_once)
{
    rig->ranges[0].log_start = 60;
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CLOSED), "");
    cr_assert_str_eq(rig_tick(rig, TASK_RECHECK_MS - 1), "");
    cr_assert_str_eq(rig_tick(rig, 1), "O");
}

Test(task_open, a_higher_epoch_or_a_change_is_a_reason_to_try_at_once)
{
    rig->ranges[0].log_start = 60;
    rig_go(rig, TASK_PHASE_FAILED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "O");
    (void)rig_give(rig, TASK_EVENT_STORE_OPENED);
    (void)rig_give(rig, TASK_EVENT_RANGES);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, true), "");
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_CLOSED), "");
    cr_assert_str_eq(rig_tick(rig, 0), "O");
}

Test(task_open, a_state_is_reported_for_the_epoch_that_it_is_of)
{
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH, "from the start");
    rig_go(rig, TASK_PHASE_ACTIVE);
    (void)rig_give(rig, TASK_EVENT_COMMIT_FENCED);
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH);
    (void)rig_desire(rig, RIG_EPOCH + 1, false);
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH + 1, "opening");
    rig->ranges[0].log_start = 60;
    rig_go(rig, TASK_PHASE_FAILED);
    cr_assert_eq(task_epoch(&rig->task), RIG_EPOCH + 1, "failed before any init");
}

Test(task_open, fatal_failures_wait_for_the_recheck)
{
    rig_go(rig, TASK_PHASE_PRODUCER);
    cr_assert_str_eq(rig_give_event(rig, (struct task_event){.kind = TASK_EVENT_PRODUCER_FAILED,
                                                             .code = "kafka_unreachable",
                                                             .fatal = true}),
                     "X!");
    (void)rig_give(rig, TASK_EVENT_CLOSED);
    cr_assert_eq(rig->actions.wake_ms, rig->now_ms + TASK_RECHECK_MS);
}

Test(task_open, a_higher_epoch_found_while_opening_is_used_from_the_start)
{
    rig_go(rig, TASK_PHASE_RANGES);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 3, false), "");
    rig_go(rig, TASK_PHASE_ACTIVE);
    cr_assert_eq(rig->task.epoch_working, RIG_EPOCH + 3);
    cr_assert_eq(rig->committed[0].stamp.epoch, RIG_EPOCH + 3);
}

/* Offsets that are held up by somebody's open transaction: only an init ends that. */
Test(task_open, a_higher_epoch_while_offsets_can_not_be_read_starts_the_activation_anew)
{
    rig_go(rig, TASK_PHASE_COMMITTED);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_FAILED), "");
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 1, false), "pP");
    cr_assert_eq(rig->task.epoch_working, RIG_EPOCH + 1);
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    (void)rig_desire(rig, RIG_EPOCH + 2, false);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_FAILED), "pP", "or while it is asked");
    cr_assert_eq(rig->task.epoch_working, RIG_EPOCH + 2);
}

Test(task_open, a_higher_epoch_during_the_init_or_the_replay_starts_the_activation_anew)
{
    rig_go(rig, TASK_PHASE_COMMITTED);
    (void)rig_desire(rig, RIG_EPOCH + 1, false);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "ApP");
    cr_assert_eq(rig->task.epoch_working, RIG_EPOCH + 1);
    rig_go(rig, TASK_PHASE_REPLAY);
    rig_read(rig, 0, 45);
    cr_assert_str_eq(rig_desire(rig, RIG_EPOCH + 2, false), "pP");
    cr_assert_eq(rig->task.partitions[0].limit, 45, "nothing is applied in the meantime");
    (void)rig_give(rig, TASK_EVENT_PRODUCER_READY);
    cr_assert_str_eq(rig_give(rig, TASK_EVENT_COMMITTED_READ), "", "reading goes on where it was");
    cr_assert_eq(rig->task.partitions[0].limit, 50);
}
