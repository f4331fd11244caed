/* More partitions: the operation, whatever Kafka says and whenever the coordinator dies; settle
 * windows by what owners report. The rig's job has 8 partitions and 4 processors. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/step_group.h"
#include "coordinator/core/view.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

#define WANTED 16

TestSuite(expand_partitions, .init = rig_setup, .fini = rig_teardown);

static struct job *job(void)
{
    return cluster_job(&rig_world.cluster, "j1");
}

static void ask(int64_t partitions)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_EXPAND, "j1");
    event.expansion.processors = API_UNKNOWN;
    event.expansion.partitions = partitions;
    world_step(&rig_world, event);
}

static struct operation *operation(void)
{
    return rig_world.cluster.operations.items[rig_world.cluster.operations.count - 1];
}

/* What the group holds: of the first `count` partitions `offset`, with the stamp that the new ones
 * are given, or a foreign one. */
static void reply_held(uint32_t count, int64_t offset, bool foreign)
{
    struct kafka_result result = {0};
    result.committed.items = mem_calloc(count, sizeof(struct kafka_offset));
    for (uint32_t p = 0; p < count; p++)
        result.committed.items[p] = (struct kafka_offset){
            .partition = p,
            .offset = offset,
            .metadata = foreign ? mem_strdup("not ours") : step_start_stamp(&job()->row, p)};
    result.committed.count = count;
    world_reply(&rig_world, result);
}

static void expect_call(enum kafka_call_kind kind)
{
    if (rig_world.calls.count == 0) /* a step that is tried again */
        world_pass(&rig_world, 30000);
    while (rig_world.calls.count > 0 && rig_world.calls.items[0].kind == KAFKA_CALL_TOPICS &&
           kind != KAFKA_CALL_TOPICS)
        world_reply_well(&rig_world);
    cr_assert_gt(rig_world.calls.count, 0, "no call of kind %d", (int)kind);
    cr_assert_eq(rig_world.calls.items[0].kind, kind, "kind %d",
                 (int)rig_world.calls.items[0].kind);
}

static void go_to_commit_of(uint32_t wanted)
{
    uint32_t before = job()->row.partitions;
    ask(wanted);
    world_expect_status(&rig_world, 202);
    expect_call(KAFKA_CALL_SAMPLE);
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_INSPECT);
    world_reply_inspection(&rig_world, world_inspection(&rig_world.calls.items[0], before));
    expect_call(KAFKA_CALL_CREATE_PARTITIONS);
    cr_assert_eq(rig_world.calls.items[0].partitions, wanted);
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_STAMPS);
    cr_assert_eq(job()->row.partitions, before, "nobody reads them before the offsets are there");
}

static void go_to_commit(void)
{
    go_to_commit_of(WANTED);
}

static void expand_to(uint32_t wanted)
{
    uint32_t before = job()->row.partitions;
    go_to_commit_of(wanted);
    reply_held(before, 40, false);
    expect_call(KAFKA_CALL_COMMIT);
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_STAMPS);
    reply_held(wanted, 0, false);
    cr_assert_eq(job()->row.partitions, wanted);
}

static void expand_well(void)
{
    expand_to(WANTED);
}

static struct window *window(uint32_t partition)
{
    struct window *found = cluster_window(job(), 0, partition);
    cr_assert_not_null(found);
    return found;
}

Test(expand_partitions, all_steps_in_their_order)
{
    uint64_t version = job()->row.map_version;
    go_to_commit();
    reply_held(8, 40, false);
    expect_call(KAFKA_CALL_COMMIT);
    const struct kafka_call *call = &rig_world.calls.items[0];
    cr_assert_eq(call->offsets.count, 8, "of the new ones only");
    for (size_t i = 0; i < 8; i++) {
        cr_assert_eq(call->offsets.items[i].partition, 8 + i);
        cr_assert_eq(call->offsets.items[i].offset, 0);
    }
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_STAMPS);
    cr_assert_eq(job()->row.partitions, 8, "what is held is asked for first");
    reply_held(WANTED, 0, false);
    cr_assert_eq(job()->row.partitions, WANTED);
    cr_assert_eq(job()->row.map_version, version + 1);
    cr_assert_eq(job()->row.origins.items[15].offset, 0);
    cr_assert_eq(operation()->row.state, OPERATION_STATE_SUCCEEDED);
    cr_assert_str_eq(operation()->row.actor, WORLD_ACTOR);
    cr_assert_eq(operation()->row.count_before, 8);
    cr_assert_eq(operation()->row.count_reached, WANTED);
    cr_assert_eq(job()->windows.count, 8);
    cr_assert_eq(window(3)->row.window.end, 100, "as the inspection said");
    cr_assert_eq(window(3)->row.window.fence, API_UNKNOWN);
    cr_assert_null(cluster_window(job(), 0, 8));
    cr_assert_eq(world_count_traced(&rig_world, "expansion_began"), 1);
    cr_assert_eq(world_count_traced(&rig_world, "expansion_done"), 1);
    world_restart(&rig_world);
    cr_assert_eq(job()->windows.count, 8);
}

Test(expand_partitions, each_step_is_repeated_after_a_restart)
{
    ask(WANTED);
    for (int step = 0; step < 200 && job()->row.partitions != WANTED; step++) {
        world_restart(&rig_world);
        while (rig_world.calls.count > 0 && rig_world.calls.items[0].kind == KAFKA_CALL_TOPICS)
            world_reply_well(&rig_world);
        if (rig_world.calls.count == 0) {
            world_pass(&rig_world, 1000);
            continue;
        }
        if (rig_world.calls.items[0].kind == KAFKA_CALL_STAMPS)
            reply_held(step % 2 == 0 ? 12 : WANTED, 0, false);
        else
            world_reply_well(&rig_world);
    }
    cr_assert_eq(job()->row.partitions, WANTED);
    cr_assert_eq(operation()->row.state, OPERATION_STATE_SUCCEEDED);
}

Test(expand_partitions, what_kafka_refuses_changes_nothing)
{
    ask(WANTED);
    expect_call(KAFKA_CALL_SAMPLE);
    world_reply(&rig_world, (struct kafka_result){
                                .sample = {.keyed = 90, .murmur2 = 12, .crc32 = 90, .both = 12}});
    cr_assert_eq(operation()->row.state, OPERATION_STATE_FAILED);
    cr_assert_not_null(strstr(operation()->row.error, "murmur2"));
    cr_assert_eq(job()->row.partitions, 8);
    ask(WANTED);
    expect_call(KAFKA_CALL_SAMPLE);
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_INSPECT);
    world_reply_inspection(&rig_world, world_inspection(&rig_world.calls.items[0], WANTED + 1));
    cr_assert_eq(operation()->row.state, OPERATION_STATE_FAILED);
    cr_assert_not_null(strstr(operation()->row.error, "already"));
    cr_assert_eq(job()->windows.count, 0);
}

/* One that was just started answers that there is no such topic, or tells of earlier counts. */
static void reply_behind(size_t kind, uint32_t count)
{
    struct kafka_inspection inspection = world_inspection(&rig_world.calls.items[0], count);
    if (kind < 2)
        inspection.inputs.items[0].partition_count = 0;
    if (kind == 0)
        inspection.inputs.items[0].exists = false;
    world_reply_inspection(&rig_world, inspection);
}

Test(expand_partitions, a_broker_that_is_behind_ends_nothing)
{
    static const char *const expected[] = {"does not exist", "Kafka did not say", "has 4"};
    static const enum kafka_call_kind calls[] = {KAFKA_CALL_INSPECT, KAFKA_CALL_CREATE_PARTITIONS};
    ask(WANTED);
    expect_call(KAFKA_CALL_SAMPLE);
    world_reply_well(&rig_world);
    for (size_t i = 0; i < 2; i++) {
        for (size_t kind = 0; kind < 3; kind++) {
            expect_call(calls[i]);
            reply_behind(kind, 4);
            cr_assert_eq(operation()->row.state, OPERATION_STATE_RUNNING, "%s: %s", expected[kind],
                         operation()->row.error);
            cr_assert_not_null(strstr(operation()->row.error, expected[kind]), "%s: %s",
                               expected[kind], operation()->row.error);
        }
        expect_call(calls[i]);
        world_reply_well(&rig_world);
        cr_assert_null(operation()->row.error);
    }
    expect_call(KAFKA_CALL_STAMPS);
    reply_held(WANTED, 0, false);
    cr_assert_eq(job()->row.partitions, WANTED);
}

Test(expand_partitions, offsets_of_somebody_else_are_not_overwritten)
{
    go_to_commit();
    reply_held(WANTED, 7, true);
    cr_assert_eq(job()->row.partitions, 8);
    cr_assert_not_null(strstr(operation()->row.error, "delete it"));
    expect_call(KAFKA_CALL_STAMPS);
    reply_held(8, 7, false);
    expect_call(KAFKA_CALL_COMMIT);
}

Test(expand_partitions, it_can_be_cancelled_until_partitions_are_added)
{
    ask(WANTED);
    struct coord_event event = world_event(&rig_world, COORD_EVENT_OPERATION_CANCEL, NULL);
    event.operation = operation()->row.id;
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 200);
    cr_assert_eq(operation()->row.state, OPERATION_STATE_CANCELLED);
    while (rig_world.calls.count > 0)
        world_reply_well(&rig_world);
    go_to_commit();
    event = world_event(&rig_world, COORD_EVENT_OPERATION_CANCEL, NULL);
    event.operation = operation()->row.id;
    world_step(&rig_world, event);
    (void)world_expect_problem(&rig_world, "operation_not_cancellable");
}

Test(expand_partitions, it_can_be_cancelled_while_kafka_refuses_to_add_them)
{
    ask(WANTED);
    expect_call(KAFKA_CALL_SAMPLE);
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_INSPECT);
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_CREATE_PARTITIONS);
    world_reply(&rig_world,
                (struct kafka_result){.failed = true, .detail = mem_strdup("Policy violation")});
    cr_assert_not_null(strstr(operation()->row.error, "Policy violation"));
    struct coord_event event = world_event(&rig_world, COORD_EVENT_OPERATION_CANCEL, NULL);
    event.operation = operation()->row.id;
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 200);
    cr_assert_eq(operation()->row.state, OPERATION_STATE_CANCELLED);
    cr_assert_eq(world_count_traced(&rig_world, "operation_cancelled"), 1);
}

/* It is dropped from memory when it ends, and what it was is not looked at any more. */
Test(expand_partitions, one_that_waited_while_many_others_ended_can_be_cancelled)
{
    const struct cluster *cluster = &rig_world.cluster;
    ask(WANTED);
    uint64_t id = operation()->row.id;
    for (int i = 0; i < 3000 && cluster->operations.items[0]->row.id != id; i++)
        world_step(&rig_world, world_event(&rig_world, COORD_EVENT_REBALANCE, "j1"));
    cr_assert_eq(cluster->operations.items[0]->row.id, id, "all before it are dropped");
    struct coord_event event = world_event(&rig_world, COORD_EVENT_OPERATION_CANCEL, NULL);
    event.operation = id;
    world_step(&rig_world, event);
    (void)world_expect_problem(&rig_world, "operation_not_found");
    cr_assert_null(cluster_operation(cluster, id));
    cr_assert_eq(world_count_traced(&rig_world, "operation_cancelled"), 1);
}

Test(expand_partitions, a_deletion_ends_it)
{
    go_to_commit();
    uint64_t id = operation()->row.id;
    world_delete(&rig_world, "j1");
    cr_assert_eq(cluster_operation(&rig_world.cluster, id)->row.state, OPERATION_STATE_CANCELLED);
}

Test(expand_partitions, partitions_that_somebody_has_added_are_adopted)
{
    struct kafka_call call = {0};
    char *inputs[] = {(char *)(uintptr_t) "orders"};
    call.inputs.items = inputs;
    call.inputs.count = 1;
    rig_world.cluster.config.topics_interval_ms = 5000;
    rig_world.cluster.topics_ms = 0; /* the first look is due */
    world_pass(&rig_world, 1);
    expect_call(KAFKA_CALL_TOPICS);
    world_reply_inspection(&rig_world, world_inspection(&call, WANTED));
    expect_call(KAFKA_CALL_SAMPLE);
    cr_assert_eq(operation()->row.goal, WANTED);
    cr_assert_str_eq(operation()->row.actor, "coordinator", "nobody has asked baton for it");
}

/* ---- new partitions whose first records are gone */

#define GONE 500 /* of partition 9 the records below are gone */

static struct kafka_inspection inspection_of_gone(const struct kafka_call *call)
{
    struct kafka_inspection inspection = world_inspection(call, WANTED);
    inspection.inputs.items[0].partitions.items[9].log_start = GONE;
    inspection.inputs.items[0].partitions.items[9].stable_end = GONE;
    inspection.inputs.items[0].partitions.items[9].end = GONE;
    return inspection;
}

static void look_at_gone(void)
{
    rig_world.cluster.config.topics_interval_ms = 5000;
    rig_world.cluster.topics_ms = 0;
    job()->topics.due_ms = 0;
    world_pass(&rig_world, 1);
    for (size_t i = 0; i < rig_world.calls.count; i++) { /* it is the last of them */
        struct kafka_call call = rig_world.calls.items[i];
        if (call.kind != KAFKA_CALL_TOPICS)
            continue;
        rig_world.calls.items[i] = rig_world.calls.items[0];
        rig_world.calls.items[0] = call;
        world_reply_inspection(&rig_world, inspection_of_gone(&rig_world.calls.items[0]));
        return;
    }
    cr_assert_fail("nobody looks at the topics");
}

static void expect_nothing_changed(void)
{
    cr_assert_eq(job()->row.partitions, 8);
    cr_assert_eq(job()->row.origins.count, 8);
    cr_assert_eq(job()->windows.count, 0);
}

Test(expand_partitions, partitions_whose_first_records_are_gone_are_not_adopted)
{
    size_t count = rig_world.cluster.operations.count;
    look_at_gone();
    cr_assert_eq(rig_world.cluster.operations.count, count);
    expect_nothing_changed();
    cr_assert_eq(job()->topics.findings.count, 1);
    cr_assert_str_eq(job()->topics.findings.items[0].code, "partitions_changed");
    const char *detail = job()->topics.findings.items[0].detail;
    cr_assert_not_null(strstr(detail, "partition 9: records from 0 to 500 are gone"), "%s", detail);
    cr_assert_not_null(strstr(detail, "create the job anew"), "%s", detail);
}

Test(expand_partitions, nor_when_somebody_asks_for_them)
{
    ask(WANTED);
    expect_call(KAFKA_CALL_SAMPLE);
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_INSPECT);
    world_reply_inspection(&rig_world, inspection_of_gone(&rig_world.calls.items[0]));
    cr_assert_eq(operation()->row.state, OPERATION_STATE_FAILED);
    cr_assert_not_null(strstr(operation()->row.error, "from 0 to 500"), "%s",
                       operation()->row.error);
    expect_nothing_changed();
}

Test(expand_partitions, nor_when_records_go_before_they_are_read)
{
    go_to_commit();
    look_at_gone();
    cr_assert_eq(operation()->row.state, OPERATION_STATE_FAILED);
    cr_assert_not_null(strstr(operation()->row.error, "from 0 to 500"), "%s",
                       operation()->row.error);
    while (rig_world.calls.count > 0) /* the answer that was under way */
        reply_held(WANTED, 0, false);
    expect_nothing_changed();
}

/* ---- warnings */

static void grow_to(uint32_t partitions)
{
    ask(partitions);
    world_expect_status(&rig_world, 202);
    expect_call(KAFKA_CALL_SAMPLE);
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_INSPECT);
    world_reply_inspection(&rig_world,
                           world_inspection(&rig_world.calls.items[0], job()->row.partitions));
    expect_call(KAFKA_CALL_CREATE_PARTITIONS);
    world_reply_well(&rig_world);
    expect_call(KAFKA_CALL_STAMPS);
    reply_held(partitions, 0, false);
    cr_assert_eq(job()->row.partitions, partitions);
}

Test(expand_partitions, only_the_count_that_there_is_is_warned_of)
{
    size_t others = job()->row.warnings.count;
    grow_to(12);
    cr_assert_eq(job()->row.warnings.count, others + 1);
    grow_to(14);
    cr_assert_eq(job()->row.warnings.count, others + 1);
    cr_assert_not_null(strstr(job()->row.warnings.items[others], "partitions (14)"));
    grow_to(16);
    cr_assert_eq(job()->row.warnings.count, others, "it is a doubled count");
}

/* ---- settle windows */

static void report_window(uint32_t partition, struct window_report told)
{
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        if (report.tasks.items[i].processor != partition % 4)
            continue;
        told.partition = partition;
        report.tasks.items[i].windows.items = mem_memdup(&told, sizeof(told));
        report.tasks.items[i].windows.count = 1;
    }
    world_send_report(&rig_world, "a1", report);
}

Test(expand_partitions, a_window_is_closed_and_opened_again_by_what_its_owner_reports)
{
    expand_well();
    world_calm_down(&rig_world, rig_a1);
    report_window(3, (struct window_report){
                         .number = 1, .old_records = 5, .old_at = 77, .settled = API_UNKNOWN});
    cr_assert_eq(window(3)->more, 5);
    report_window(
        3, (struct window_report){.number = 1, .old_records = 7, .old_at = 78, .settled = 99});
    cr_assert_eq(window(3)->row.window.fence, API_UNKNOWN, "that lies before its end");
    report_window(
        3, (struct window_report){.number = 1, .old_records = 7, .old_at = 78, .settled = 120});
    cr_assert_eq(window(3)->row.window.fence, 120);
    cr_assert_eq(window(3)->row.old_records, 7);
    cr_assert_eq(window(3)->row.old_at, 78);
    cr_assert_eq(world_count_events(&rig_world, "settle_window_closed"), 1);
    report_window(
        3, (struct window_report){
               .number = 1, .old_records = 8, .old_at = 90, .settled = API_UNKNOWN, .stale = true});
    cr_assert_eq(window(3)->row.window.fence, API_UNKNOWN);
    cr_assert_eq(window(3)->row.window.number, 2);
    cr_assert(window(3)->row.stale);
    cr_assert_eq(world_count_events(&rig_world, "settle_window_reopened"), 1);
    report_window(3, (struct window_report){.number = 1, .old_records = 8, .settled = 130});
    cr_assert_eq(window(3)->row.window.fence, API_UNKNOWN, "of another opening");
    uint64_t met = window(3)->row.old_records + window(3)->more;
    world_restart(&rig_world);
    world_calm_down(&rig_world, rig_a1);
    report_window(3, (struct window_report){.number = 2, .old_records = 8, .settled = API_UNKNOWN});
    cr_assert_eq(window(3)->row.old_records + window(3)->more, met, "they are counted once");
    report_window(3, (struct window_report){.number = 2, .old_records = 8, .settled = 150});
    cr_assert_eq(window(3)->row.window.fence, 150);
    cr_assert_not(window(3)->row.stale);
}

Test(expand_partitions, keys_of_what_an_expansion_made_are_checked_from_its_first_record_on)
{
    expand_well();
    expand_to(2 * WANTED);
    cr_assert_eq(window(3)->row.window.number, 2);
    cr_assert_eq(window(3)->row.window.first_end, 100, "older ones were taken where they were");
    cr_assert_eq(window(8)->row.window.first_end, 0, "as before it had a window");
    cr_assert_eq(window(8)->row.window.end, 100);
    cr_assert_null(cluster_window(job(), 0, WANTED));
}

Test(expand_partitions, what_had_grown_before_the_job_is_checked_from_its_creation_on)
{
    struct job_spec spec = world_spec("grown");
    spec.initial_partitions = 4;
    world_put(&rig_world, "grown", spec);
    world_reply_all_well(&rig_world);
    const struct job *grown = cluster_job(&rig_world.cluster, "grown");
    cr_assert_eq(grown->windows.count, 8);
    for (uint32_t p = 0; p < 8; p++)
        cr_assert_eq(cluster_window(grown, 0, p)->row.window.first_end, 100);
}
