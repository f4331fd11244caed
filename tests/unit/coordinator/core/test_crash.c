/* Records whose logic ends agents (S31): whoever gets the processor is told what others have met.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/step_internal.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

TestSuite(crash, .init = rig_setup, .fini = rig_teardown);

/* Job j1 of a1: four processors, eight partitions of one topic: processor 0 has 0 and 4. */

static const char *const only_a2[] = {"a2", NULL};

static struct crash_note *make_notes(uint32_t count)
{
    struct crash_note *notes = mem_calloc(1, sizeof(*notes));
    notes[0] = (struct crash_note){
        .job = mem_strdup("j1"),
        .job_incarnation = mem_strdup(cluster_job(&rig_world.cluster, "j1")->row.incarnation),
        .build = mem_strdup("0123456789abcdef"),
        .partition = 4,
        .offset = 17,
        .count = count};
    return notes;
}

static void report_crashes(const char *agent_id, uint32_t count)
{
    struct agent_report report = world_report_of(&rig_world, agent_id, TASK_STATE_ACTIVE);
    report.crashes.items = make_notes(count);
    report.crashes.count = 1;
    world_send_report(&rig_world, agent_id, report);
}

/* All that the agent reports, with T1 of partition 4. */
static void report_t1(const char *agent_id, int64_t t1)
{
    struct agent_report report = world_report_of(&rig_world, agent_id, TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        if (task->processor != 0)
            continue;
        cr_assert_gt(task->epoch, 0);
        cr_assert_null(task->progress.items);
        task->progress.items = mem_calloc(1, sizeof(*task->progress.items));
        task->progress.count = 1;
        task->progress.items[0] = (struct partition_progress){
            .partition = 4, .t1 = t1, .t2 = t1, .log_start = 0, .stable_end = 100, .end = 100};
    }
    report.crashes.items = make_notes(1);
    report.crashes.count = 1;
    world_send_report(&rig_world, agent_id, report);
}

/* Crashes of others that the owner is told of. */
static uint32_t count_told(const char *agent_id, uint32_t processor)
{
    struct agent_document document;
    uint32_t count = UINT32_MAX;
    cluster_document(&rig_world.cluster, cluster_agent(&rig_world.cluster, agent_id), &document);
    for (size_t i = 0; i < document.tasks.count; i++) {
        const struct document_task *task = &document.tasks.items[i];
        if (task->processor != processor || task->role != TASK_ROLE_ACTIVE)
            continue;
        count = 0;
        for (size_t k = 0; k < task->crashes.count; k++) {
            cr_assert_str_neq(task->crashes.items[k].agent, agent_id, "its own it knows itself");
            cr_assert_eq(task->crashes.items[k].offset, 17);
            count += task->crashes.items[k].count;
        }
    }
    schema_free(&schema_agent_document, &document);
    return count;
}

/* a2 has all then. */
static void lose_a1(void)
{
    world_register(&rig_world, "a2", 2);
    world_pass_reporting(&rig_world, 60000, only_a2);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a2"), 4);
}

static struct document_version version_of(const char *agent_id)
{
    return cluster_document_version(&rig_world.cluster,
                                    cluster_agent(&rig_world.cluster, agent_id));
}

Test(crash, owner_is_told_what_others_have_met)
{
    report_crashes("a1", 1);
    cr_assert_eq(count_told("a1", 0), 0);
    lose_a1();
    cr_assert_eq(count_told("a2", 0), 2, "the one it told of, and what it was lost of");
    cr_assert_eq(count_told("a2", 1), 0, "another's partitions");
    struct document_version before = version_of("a2");
    struct coord_event event = world_event(&rig_world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration("a1", 3);
    event.registration.crashes.items = make_notes(1);
    event.registration.crashes.count = 1;
    world_step(&rig_world, event);
    cr_assert_eq(count_told("a2", 0), 1, "it was lost of something else");
    cr_assert_gt(cluster_compare_versions(version_of("a2"), before), 0);
    report_crashes("a1", 1);
    cr_assert_eq(world_count_traced(&rig_world, "logic_crash_noted"), 1, "that is known");
    before = version_of("a2");
    report_crashes("a1", 2);
    cr_assert_eq(world_count_traced(&rig_world, "logic_crash_noted"), 2);
    cr_assert_eq(count_told("a2", 0), 2);
    cr_assert_gt(cluster_compare_versions(version_of("a2"), before), 0);
}

Test(crash, lost_owners_count_only_where_a_record_has_ended_somebody)
{
    lose_a1();
    cr_assert_eq(count_told("a2", 0), 0);
    report_crashes("a2", 1);
    cr_assert_eq(count_told("a2", 0), 1, "a1 was lost with it, too, and can not say of what");
    world_pass_reporting(&rig_world, FENCE_CALM_MS + 1000, only_a2);
    cr_assert_eq(count_told("a2", 0), 0, "it has worked for long: a1 was lost of something else");
}

Test(crash, of_a_job_of_old_or_a_forgotten_agent_are_nobodys)
{
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    report.crashes.items = make_notes(3);
    report.crashes.count = 1;
    free(report.crashes.items[0].job_incarnation);
    report.crashes.items[0].job_incarnation = mem_strdup("99999999-9999-4999-8999-999999999999");
    world_send_report(&rig_world, "a1", report);
    lose_a1();
    cr_assert_eq(count_told("a2", 0), 0);
    world_forget(&rig_world, "a1");
    cr_assert_eq(count_told("a2", 0), 0);
}

Test(crash, that_a_commit_has_passed_are_nobodys)
{
    static const int64_t t1[] = {17, 18};
    static const uint32_t told[] = {2, 0};
    for (size_t i = 0; i < 2; i++) {
        if (i > 0) {
            rig_teardown();
            rig_setup();
        }
        report_t1("a1", t1[i]);
        lose_a1();
        cr_assert_eq(count_told("a2", 0), told[i],
                     "T1 %lld: it was lost of something else if the record is behind",
                     (long long)t1[i]);
    }
}

/* One of a processor that does not own the partition any more, and one of whoever does. */
static void report_two(uint32_t first, uint32_t second)
{
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    struct crash_note *notes = mem_calloc(2, sizeof(*notes));
    const uint32_t partitions[] = {first, second};
    for (size_t i = 0; i < 2; i++) {
        struct crash_note *made = make_notes(1);
        notes[i] = *made;
        notes[i].partition = partitions[i];
        free(made);
    }
    report.crashes.items = notes;
    report.crashes.count = 2;
    world_send_report(&rig_world, "a1", report);
}

Test(crash, all_that_concern_the_processor_are_told)
{
    report_two(0, 4);
    lose_a1();
    cr_assert_eq(count_told("a2", 0), 4, "both records, and what it was lost of may be either");
}

Test(crash, in_another_order_are_known)
{
    report_two(1, 4);
    cr_assert_eq(world_count_traced(&rig_world, "logic_crash_noted"), 2);
    report_two(4, 1);
    cr_assert_eq(world_count_traced(&rig_world, "logic_crash_noted"), 2);
    cr_assert_eq(world_count_traced(&rig_world, "logic_crash_cleared"), 0);
}
