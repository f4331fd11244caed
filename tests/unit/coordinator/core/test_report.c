/* Reports: what they change, and what of them is stored. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;
static const char *const a1[] = {"a1", NULL};

static void setup(void)
{
    world_init(&world);
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(report, .init = setup, .fini = teardown);

static const struct placement_row *placement(uint32_t processor)
{
    return world_placement(&world, "j1", processor);
}

/* All tasks ACTIVE but processor 0, which is in this state, with this problem (NULL: none). */
static void report_first(enum task_state state, const char *code)
{
    struct agent_report report = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    report.tasks.items[0].state = state;
    if (code != NULL) {
        report.tasks.items[0].problems.items = mem_calloc(1, sizeof(struct task_problem));
        report.tasks.items[0].problems.count = 1;
        report.tasks.items[0].problems.items[0] =
            (struct task_problem){.code = mem_strdup(code), .detail = mem_strdup("it broke")};
    }
    world_send_report(&world, "a1", report);
}

Test(report, is_answered_and_published)
{
    world_report(&world, "a1", TASK_STATE_OPENING);
    world_expect_status(&world, 200);
    cr_assert_eq(world_answer(&world)->type, &schema_report_answer);
    cr_assert(world.update.publish);
    cr_assert_eq(world.update.changes.count, 0, "an observation is no decision");
    const struct agent *agent = cluster_agent(&world.cluster, "a1");
    cr_assert_eq(agent->seen_ms, world.now_ms);
    cr_assert_eq(
        cluster_compare_versions(agent->applied, cluster_document_version(&world.cluster, agent)),
        0);
}

Test(report, first_active_of_an_epoch_is_an_event_and_no_later_one)
{
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(world_count_events(&world, "processor_active"), 4);
    cr_assert(placement(0)->activated);
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(world.update.changes.count, 0);
    world_restart(&world);
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(world_count_events(&world, "processor_active"), 0, "it is durable");
    world_pass_reporting(&world, 3000, a1);
    world_pass(&world, 2000);
    world_register(&world, "a1", 2);
    cr_assert_not(placement(0)->activated);
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(world_count_events(&world, "processor_active"), 4);
}

Test(report, activation_does_not_renew_the_document)
{
    uint64_t before = cluster_agent(&world.cluster, "a1")->document_decision;
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    cr_assert_eq(cluster_agent(&world.cluster, "a1")->document_decision, before);
}

/* D4: active, released and fenced count only with the placement's owner, incarnation and epoch. */
Test(report, anything_but_the_owners_report_for_the_epoch_is_an_observation)
{
    static const enum task_state states[] = {TASK_STATE_ACTIVE, TASK_STATE_FENCED,
                                             TASK_STATE_FAILED};
    world_register(&world, "a2", 2);
    for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++) {
        for (int spoiled = 0; spoiled < 4; spoiled++) {
            struct agent_report report = world_report_of(&world, "a1", states[s]);
            for (size_t i = 0; i < report.tasks.count; i++) {
                struct task_report *task = &report.tasks.items[i];
                if (spoiled == 0)
                    task->epoch--;
                else if (spoiled == 1)
                    task->epoch += 1000;
                else if (spoiled == 2)
                    task->job_incarnation[0] = 'f';
                else
                    task->role = TASK_ROLE_LEARNER;
            }
            world_send_report(&world, "a1", report);
            world_expect_status(&world, 200);
            cr_assert_eq(world.update.changes.count, 0, "state %d, spoiled %d", (int)states[s],
                         spoiled);
        }
        /* Another agent speaks of what is not its own. */
        struct agent_report report = world_report_of(&world, "a1", states[s]);
        free(report.incarnation);
        report.incarnation = mem_strdup(cluster_agent(&world.cluster, "a2")->row.incarnation);
        world_send_report(&world, "a2", report);
        world_expect_status(&world, 200);
        cr_assert_eq(world.update.changes.count, 0);
        cr_assert_eq(cluster_agent(&world.cluster, "a2")->strays.count, 4);
    }
    cr_assert_not(placement(0)->activated);
}

Test(report, unknown_jobs_processors_and_partitions_are_left_out)
{
    struct agent_report report = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    report.tasks.items[1].processor = 9999;
    free(report.tasks.items[2].job);
    report.tasks.items[2].job = mem_strdup("gone");
    struct task_report *task = &report.tasks.items[0];
    task->progress.items = mem_calloc(3, sizeof(struct partition_progress));
    task->progress.count = 3;
    task->progress.items[0] = (struct partition_progress){.topic = 1, .partition = 0};
    task->progress.items[1] = (struct partition_progress){.topic = 0, .partition = 8};
    task->progress.items[2] = (struct partition_progress){.topic = 0, .partition = 4, .t1 = 5};
    task->consuming.items = mem_calloc(2, sizeof(uint32_t));
    task->consuming.count = 2;
    task->consuming.items[0] = 8;
    task->consuming.items[1] = 4;
    world_send_report(&world, "a1", report);
    const struct processor *processor = &cluster_job(&world.cluster, "j1")->processors.items[0];
    cr_assert_eq(processor->observed.report.progress.count, 1);
    cr_assert_eq(processor->observed.report.progress.items[0].partition, 4);
    cr_assert_eq(processor->observed.report.consuming.count, 1);
    cr_assert_eq(processor->observed.report.consuming.items[0], 4);
    cr_assert_eq(cluster_agent(&world.cluster, "a1")->strays.count, 2);
}

/* ---- failing and recovering */

Test(report, failures_are_events_when_they_change)
{
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    report_first(TASK_STATE_FAILED, "record_failed");
    cr_assert_eq(world_count_events(&world, "processor_failed"), 1);
    cr_assert_str_eq(placement(0)->trouble, "record_failed");
    report_first(TASK_STATE_FAILED, "record_failed");
    cr_assert_eq(world.update.changes.count, 0);
    report_first(TASK_STATE_REPLAYING, NULL); /* it tries again: not over yet */
    report_first(TASK_STATE_FAILED, "record_failed");
    cr_assert_eq(world.update.changes.count, 0);
    report_first(TASK_STATE_FAILED, "store_failed");
    cr_assert_eq(world_count_events(&world, "processor_failed"), 1);
    report_first(TASK_STATE_FAILED, NULL);
    cr_assert_str_eq(placement(0)->trouble, "task_failed");
    report_first(TASK_STATE_ACTIVE, NULL);
    cr_assert_eq(world_count_events(&world, "processor_recovered"), 1);
    cr_assert_null(placement(0)->trouble);
    report_first(TASK_STATE_ACTIVE, NULL);
    cr_assert_eq(world.update.changes.count, 0);
}

Test(report, trouble_is_remembered_over_a_restart)
{
    report_first(TASK_STATE_FAILED, "record_failed");
    world_restart(&world);
    report_first(TASK_STATE_FAILED, "record_failed");
    cr_assert_eq(world_count_events(&world, "processor_failed"), 0);
    report_first(TASK_STATE_ACTIVE, NULL);
    cr_assert_eq(world_count_events(&world, "processor_active"), 1);
    cr_assert_eq(world_count_events(&world, "processor_recovered"), 0, "one event says it");
    cr_assert_null(placement(0)->trouble);
}

/* ---- fenced (D6, S42): the rightful owner gets a new epoch */

Test(report, fenced_owner_gets_a_new_epoch_at_once)
{
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    uint64_t before = placement(0)->epoch, others = placement(1)->epoch;
    uint64_t document = cluster_agent(&world.cluster, "a1")->document_decision;
    report_first(TASK_STATE_FENCED, NULL);
    cr_assert_gt(placement(0)->epoch, before);
    cr_assert_str_eq(placement(0)->agent, "a1");
    cr_assert_not(placement(0)->activated);
    cr_assert_eq(placement(1)->epoch, others);
    cr_assert_gt(cluster_agent(&world.cluster, "a1")->document_decision, document);
    cr_assert_eq(world_count_events(&world, "processor_refenced"), 1);
    report_first(TASK_STATE_ACTIVE, NULL);
    cr_assert_eq(world_count_events(&world, "processor_active"), 1);
    cr_assert_null(placement(0)->trouble);
}

Test(report, stale_fenced_is_ignored)
{
    struct agent_report stale = world_report_of(&world, "a1", TASK_STATE_FENCED);
    report_first(TASK_STATE_FENCED, NULL);
    uint64_t before = placement(0)->epoch;
    stale.tasks.count = 4;
    for (size_t i = 1; i < 4; i++)
        stale.tasks.items[i].state = TASK_STATE_ACTIVE;
    world_pass_reporting(&world, 5000, a1);
    world_send_report(&world, "a1", stale);
    cr_assert_eq(placement(0)->epoch, before);
}

/* Reports FENCED twice a second; returns after how long the epoch rises. */
static int64_t fenced_until_new_epoch(int64_t limit_ms)
{
    uint64_t before = placement(0)->epoch;
    for (int64_t passed_ms = 0; passed_ms <= limit_ms; passed_ms += 500) {
        report_first(TASK_STATE_FENCED, NULL);
        if (placement(0)->epoch != before)
            return passed_ms;
        world_pass(&world, 500);
    }
    return -1;
}

Test(report, fenced_again_and_again_gets_epochs_ever_more_slowly)
{
    static const int64_t expected_ms[] = {0, 1000, 2000, 4000, 8000, 16000, 30000, 30000};
    for (size_t i = 0; i < sizeof(expected_ms) / sizeof(expected_ms[0]); i++)
        cr_assert_eq(fenced_until_new_epoch(60000), expected_ms[i], "time %zu", i);

    /* A moment of being active does not count as over. */
    report_first(TASK_STATE_ACTIVE, NULL);
    cr_assert_eq(fenced_until_new_epoch(60000), 30000);

    /* A minute of it does. */
    world_pass_reporting(&world, 61000, a1);
    cr_assert_eq(fenced_until_new_epoch(60000), 0);
    cr_assert_eq(fenced_until_new_epoch(60000), 1000);
}

/* Only an uninterrupted minute counts. */
Test(report, minute_of_being_active_begins_anew_after_a_failure)
{
    cr_assert_eq(fenced_until_new_epoch(60000), 0);
    cr_assert_eq(fenced_until_new_epoch(60000), 1000);
    world_pass_reporting(&world, 50000, a1);
    report_first(TASK_STATE_FAILED, NULL);
    world_pass_reporting(&world, 50000, a1);
    cr_assert_eq(fenced_until_new_epoch(60000), 0, "the last time was long ago");
    cr_assert_eq(fenced_until_new_epoch(60000), 4000, "but is not forgotten");
}

Test(report, another_owner_starts_with_no_record_of_being_fenced)
{
    cr_assert_eq(fenced_until_new_epoch(60000), 0);
    cr_assert_eq(fenced_until_new_epoch(60000), 1000);
    world_deregister(&world, "a1", 1);
    world_forget(&world, "a1");
    world_register(&world, "a2", 2);
    uint64_t before = placement(0)->epoch;
    world_report(&world, "a2", TASK_STATE_FENCED);
    cr_assert_gt(placement(0)->epoch, before);
}

Test(report, fenced_while_waiting_is_said_once)
{
    report_first(TASK_STATE_FENCED, NULL);
    report_first(TASK_STATE_ACTIVE, NULL);
    report_first(TASK_STATE_FENCED, NULL); /* within the second */
    cr_assert_eq(world_count_events(&world, "processor_fenced"), 1);
    cr_assert_str_eq(placement(0)->trouble, "fenced");
    report_first(TASK_STATE_FENCED, NULL);
    cr_assert_eq(world.update.changes.count, 0);
}

Test(report, job_that_is_being_deleted_gets_no_new_epochs)
{
    struct agent_report fenced = world_report_of(&world, "a1", TASK_STATE_FENCED);
    uint64_t before = placement(0)->epoch;
    world_delete(&world, "j1");
    world_send_report(&world, "a1", fenced);
    cr_assert_eq(placement(0)->epoch, before);
}

/* ---- observations in the store */

static void report_progress(const char *agent_id, int64_t t1)
{
    struct agent_report report = world_report_of(&world, agent_id, TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->progress.items = mem_calloc(1, sizeof(struct partition_progress));
        task->progress.count = 1;
        task->progress.items[0] = (struct partition_progress){.partition = task->processor,
                                                              .t0 = 0,
                                                              .t1 = t1,
                                                              .t2 = API_UNKNOWN,
                                                              .log_start = 0,
                                                              .stable_end = t1 + 5,
                                                              .end = t1 + 5};
    }
    world_send_report(&world, agent_id, report);
}

/* Ticks for so long, and counts the observations that were recorded. */
static size_t stored_within(int64_t ms)
{
    size_t count = 0;
    int64_t end_ms = world.now_ms + ms;
    while (world.update.wake_ms <= end_ms) {
        int64_t wait_ms = world.update.wake_ms - world.now_ms;
        world.now_ms += wait_ms > 0 ? wait_ms : 0;
        world_step(&world, world_event(&world, COORD_EVENT_TICK, NULL));
        size_t stored = world_count_changes(&world, CHANGE_OBSERVATION);
        cr_assert_leq(stored, 64);
        cr_assert(stored == 0 || world_count_changes(&world, CHANGE_META) == 0,
                  "observations travel alone and are no decision");
        count += stored;
    }
    world.now_ms = end_ms;
    return count;
}

Test(report, offsets_are_stored_at_most_every_ten_seconds_and_only_when_they_moved)
{
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    report_progress("a1", 10);
    cr_assert_eq(world.update.changes.count, 0,
                 "nobody waits for a disk because of an observation");
    cr_assert_eq(stored_within(500), 4);
    const struct processor *processor = &cluster_job(&world.cluster, "j1")->processors.items[2];
    cr_assert_eq(processor->stored.items[0].t1, 10);
    cr_assert_eq(processor->stored.items[0].t2, API_UNKNOWN);
    cr_assert_eq(processor->stored.items[0].end, API_UNKNOWN, "ends are not kept");

    size_t stored = 0;
    for (int i = 0; i < 18; i++) {
        report_progress("a1", 11 + i);
        stored += stored_within(500);
    }
    cr_assert_eq(stored, 0);
    report_progress("a1", 40);
    stored += stored_within(500);
    cr_assert_eq(stored, 4);
    cr_assert_eq(processor->stored.items[0].t1, 40);

    for (int i = 0; i < 25; i++) { /* a task that has nothing to tell takes nothing away */
        world_report(&world, "a1", TASK_STATE_OPENING);
        cr_assert_eq(stored_within(500), 0);
    }
    cr_assert_eq(processor->stored.items[0].t1, 40);
    for (int i = 0; i < 60; i++) { /* an idle job writes nothing */
        report_progress("a1", 40);
        cr_assert_eq(stored_within(500), 0);
    }
}

Test(report, many_offsets_are_stored_in_slices)
{
    struct job_spec spec = world_spec("wide");
    spec.processors = 200;
    world_put(&world, "wide", spec);
    world_reply_inspection(&world, world_inspection(&world.calls.items[0], 200));
    world_reply_well(&world);
    struct agent_registration registration = world_registration("big", 3);
    registration.capacity = 500;
    struct coord_event event = world_event(&world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = registration;
    world_step(&world, event);
    world_report(&world, "big", TASK_STATE_ACTIVE);
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    report_progress("big", 10);
    size_t owned = cluster_agent(&world.cluster, "big")->strays.count;
    cr_assert_eq(owned, 0);
    size_t tasks = 0;
    for (uint32_t i = 0; i < 200; i++)
        tasks += strcmp(world_placement(&world, "wide", i)->agent, "big") == 0;
    cr_assert_gt(tasks, 64);
    world_step(&world, world_event(&world, COORD_EVENT_TICK, NULL));
    cr_assert_eq(world_count_changes(&world, CHANGE_OBSERVATION), 64);
    cr_assert_gt(world.update.wake_ms, world.now_ms);
    cr_assert_leq(world.update.wake_ms, world.now_ms + 10);
    cr_assert_eq(stored_within(500), tasks - 64);
}

Test(report, stored_offsets_survive_a_restart)
{
    report_progress("a1", 10);
    (void)stored_within(500);
    world_restart(&world);
    const struct processor *processor = &cluster_job(&world.cluster, "j1")->processors.items[2];
    cr_assert_not(processor->observed.known, "nothing was reported in this run");
    cr_assert_eq(processor->stored.count, 1);
    cr_assert_eq(processor->stored.items[0].t1, 10);
    report_progress("a1", 10);
    cr_assert_eq(stored_within(500), 0, "it is stored already");
}

/* The case: a task opens again while the group's committed offsets are gone. */
Test(report, an_offset_that_can_not_be_told_does_not_replace_the_one_that_was)
{
    const struct processor *processor = &cluster_job(&world.cluster, "j1")->processors.items[2];

    report_progress("a1", 10);
    cr_assert_eq(stored_within(500), 4);
    for (int i = 0; i < 25; i++) {
        report_progress("a1", API_UNKNOWN);
        cr_assert_eq(stored_within(500), 0);
    }
    cr_assert_eq(processor->stored.items[0].t1, 10);
    report_progress("a1", 12);
    cr_assert_eq(stored_within(10000), 4);
    cr_assert_eq(processor->stored.items[0].t1, 12);
}
