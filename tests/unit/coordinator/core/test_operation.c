/* Operations: repeated until Kafka says that it is done, through failures and restarts. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;

static void setup(void)
{
    world_init(&world);
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(operation, .init = setup, .fini = teardown);

static const struct operation *creation(void)
{
    return cluster_operation(&world.cluster, 1);
}

/* Created; its commit is under way. */
static void create(void)
{
    world_put(&world, "j1", world_spec("j1"));
    world_reply_well(&world);
    cr_assert_eq(world.calls.items[0].kind, KAFKA_CALL_COMMIT);
}

Test(operation, failed_steps_are_repeated_ever_more_slowly)
{
    static const int64_t backoffs_ms[] = {250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000};
    create();
    for (size_t i = 0; i < sizeof(backoffs_ms) / sizeof(backoffs_ms[0]); i++) {
        world.random = i % 2 == 0 ? 0 : (uint64_t)backoffs_ms[i] / 2; /* the ends of the jitter */
        int64_t expected_ms = i % 2 == 0 ? backoffs_ms[i] / 2 : backoffs_ms[i];
        world_reply_failed(&world, "no broker answers", false);
        cr_assert_str_eq(creation()->row.error, "no broker answers");
        cr_assert_eq(creation()->row.state, OPERATION_STATE_RUNNING);
        /* Said once, not with every try. */
        cr_assert_eq(world_count_events(&world, "operation_waiting"), i == 0);
        world_pass(&world, expected_ms - 1);
        cr_assert_eq(world.calls.count, 0, "try %zu came early", i);
        world_pass(&world, 1);
        cr_assert_eq(world.calls.count, 1, "try %zu is late", i);
    }
    world_reply_well(&world);
    cr_assert_eq(creation()->row.state, OPERATION_STATE_SUCCEEDED);
    cr_assert_null(creation()->row.error);
    cr_assert_eq(cluster_job(&world.cluster, "j1")->row.state, JOB_STATE_RUNNING);
}

Test(operation, refusal_is_repeated_too_and_says_why)
{
    create();
    world_reply_failed(&world, "group \"group-j1\" has 2 members", true);
    cr_assert_eq(creation()->row.state, OPERATION_STATE_RUNNING);
    cr_assert_str_eq(creation()->row.error, "group \"group-j1\" has 2 members");
    world_pass(&world, 250);
    world_reply_well(&world);
    cr_assert_eq(creation()->row.state, OPERATION_STATE_SUCCEEDED);
}

/* The reply of a commit may be lost although Kafka has carried it out, and the other way round
 * (D6). */
Test(operation, commit_is_judged_by_what_kafka_holds)
{
    create();
    /* Said to be done, but Kafka holds nothing. */
    world_reply(&world, (struct kafka_result){0});
    cr_assert_str_eq(creation()->row.error, "Kafka holds no offset for \"orders\" partition 0");
    world_pass(&world, 250);

    /* Said to have failed, but all is there. */
    const struct kafka_call *call = &world.calls.items[0];
    struct kafka_result result = {.failed = true, .detail = mem_strdup("timed out")};
    result.committed.items = mem_calloc(call->offsets.count, sizeof(struct kafka_offset));
    result.committed.count = call->offsets.count;
    for (size_t i = 0; i < call->offsets.count; i++) {
        /* In the broker's own order. */
        const struct kafka_offset *offset = &call->offsets.items[call->offsets.count - 1 - i];
        result.committed.items[i] = *offset;
        result.committed.items[i].metadata = mem_strdup(offset->metadata);
    }
    world_reply(&world, result);
    cr_assert_eq(creation()->row.state, OPERATION_STATE_SUCCEEDED);
}

enum spoiling { SPOILED_OFFSET, SPOILED_METADATA, SPOILED_UNKNOWN, SPOILED_PARTITION };

static void check_spoiled(enum spoiling spoiling, const char *expected)
{
    const struct kafka_call *call = &world.calls.items[0];
    struct kafka_result result = {0};
    result.committed.items = mem_calloc(call->offsets.count, sizeof(struct kafka_offset));
    result.committed.count = call->offsets.count;
    for (size_t i = 0; i < call->offsets.count; i++) {
        result.committed.items[i] = call->offsets.items[i];
        result.committed.items[i].metadata = mem_strdup(call->offsets.items[i].metadata);
    }
    struct kafka_offset *spoiled = &result.committed.items[5];
    switch (spoiling) {
    case SPOILED_OFFSET:
        spoiled->offset = 7;
        break;
    case SPOILED_METADATA:
        free(spoiled->metadata);
        spoiled->metadata = NULL;
        break;
    case SPOILED_UNKNOWN:
        spoiled->offset = API_UNKNOWN;
        break;
    case SPOILED_PARTITION:
        spoiled->partition = 4000000000;
        break;
    }
    world_reply(&world, result);
    cr_assert_not_null(creation()->row.error);
    cr_assert_not_null(strstr(creation()->row.error, expected), "%s", creation()->row.error);
    world_pass(&world, 30000);
}

Test(operation, commit_with_anything_else_is_repeated)
{
    create();
    check_spoiled(SPOILED_OFFSET, "partition 5: 7 instead of 0");
    check_spoiled(SPOILED_METADATA, "foreign metadata");
    check_spoiled(SPOILED_UNKNOWN, "holds no offset for \"orders\" partition 5");
    check_spoiled(SPOILED_PARTITION, "holds no offset for \"orders\" partition 5");
    world_reply_well(&world);
    cr_assert_eq(creation()->row.state, OPERATION_STATE_SUCCEEDED);
}

Test(operation, unfinished_ones_are_resumed_after_a_restart)
{
    create();
    uint64_t before = world.calls.items[0].id;
    world_restart(&world);
    cr_assert_eq(world.calls.count, 1);
    cr_assert_eq(world.calls.items[0].kind, KAFKA_CALL_COMMIT);
    cr_assert_gt(world.calls.items[0].id, before, "ids of calls are not used twice");
    cr_assert_eq(world.calls.items[0].offsets.count, 8);

    /* The answer to the call from before is nobody's. */
    struct coord_event late = world_event(&world, COORD_EVENT_KAFKA, NULL);
    late.kafka = (struct kafka_result){
        .id = before, .kind = KAFKA_CALL_COMMIT, .failed = true, .detail = mem_strdup("late")};
    world_step(&world, late);
    cr_assert_null(creation()->row.error);
    world_reply_well(&world);
    cr_assert_eq(creation()->row.state, OPERATION_STATE_SUCCEEDED);
}

Test(operation, sampling_is_resumed_without_committing_again)
{
    struct job_spec spec = world_spec("j1");
    spec.partitioner = PARTITIONER_AUTO;
    world_put(&world, "j1", spec);
    world_reply_well(&world);
    world_reply_well(&world);
    cr_assert_eq(world.calls.items[0].kind, KAFKA_CALL_SAMPLE);
    world_restart(&world);
    cr_assert_eq(world.calls.count, 1);
    cr_assert_eq(world.calls.items[0].kind, KAFKA_CALL_SAMPLE);
    world_reply_failed(&world, "no broker answers", false);
    world_pass(&world, 250);
    world_reply_well(&world);
    cr_assert_eq(creation()->row.state, OPERATION_STATE_SUCCEEDED);
}

Test(operation, fence_that_fails_keeps_the_job)
{
    world_create(&world, "j1");
    world_delete(&world, "j1");
    world_reply_failed(&world, "transactional.id refused", false);
    cr_assert_not_null(cluster_job(&world.cluster, "j1"));
    cr_assert_str_eq(cluster_operation(&world.cluster, 2)->row.error, "transactional.id refused");
    world_pass(&world, 250);
    world_reply_well(&world);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
}

Test(operation, long_reasons_are_cut_at_a_character)
{
    create();
    char detail[3001];
    memset(detail, 'x', sizeof(detail) - 1);
    detail[sizeof(detail) - 1] = '\0';
    memcpy(detail + 1020, "\xc3\xa9", 2); /* with the mark its second byte would be the 1025th */
    world_reply_failed(&world, detail, false);
    cr_assert_eq(strlen(creation()->row.error), 1023);
    cr_assert_str_eq(creation()->row.error + 1019, "x...");
}

/* ---- waiting for one */

static uint64_t wait_for(uint64_t operation, int64_t wait_ms)
{
    struct coord_event event = world_event(&world, COORD_EVENT_OPERATION_WAIT, NULL);
    event.operation = operation;
    event.wait_ms = wait_ms;
    world_step(&world, event);
    return world.requests;
}

static enum operation_state state_in(const struct answer *answer)
{
    cr_assert_not_null(answer);
    cr_assert_eq(answer->status, 200);
    cr_assert_eq(answer->type, &schema_operation_view);
    return ((const struct operation_view *)answer->body)->state;
}

Test(operation, wait_ends_when_it_ends_or_when_time_is_over)
{
    create();
    cr_assert_eq(state_in(world_find_answer(&world, wait_for(1, 0))), OPERATION_STATE_RUNNING);

    uint64_t short_wait = wait_for(1, 100);
    uint64_t long_wait = wait_for(1, 1000000); /* bounded by the coordinator */
    world_expect_none(&world);
    world_pass(&world, 100);
    cr_assert_eq(state_in(world_find_answer(&world, short_wait)), OPERATION_STATE_RUNNING);
    world_pass(&world, WORLD_WAIT_MS - 100);
    cr_assert_eq(state_in(world_find_answer(&world, long_wait)), OPERATION_STATE_RUNNING);

    uint64_t until_end = wait_for(1, 10000);
    world_reply_well(&world);
    cr_assert_eq(state_in(world_find_answer(&world, until_end)), OPERATION_STATE_SUCCEEDED);
    cr_assert_eq(state_in(world_find_answer(&world, wait_for(1, 10000))),
                 OPERATION_STATE_SUCCEEDED);
    wait_for(77, 1000);
    world_expect_problem(&world, "operation_not_found");
}

Test(operation, wait_whose_client_went_away_is_forgotten)
{
    create();
    uint64_t request = wait_for(1, 10000);
    world_gone(&world, request);
    world_reply_well(&world);
    cr_assert_null(world_find_answer(&world, request));
}

Test(operation, waits_are_limited)
{
    create();
    for (size_t i = 0; i < 1000; i++)
        wait_for(1, 10000);
    world_expect_none(&world);
    cr_assert_eq(state_in(world_find_answer(&world, wait_for(1, 10000))), OPERATION_STATE_RUNNING);
}

/* ---- cancelling */

static void cancel(uint64_t operation)
{
    struct coord_event event = world_event(&world, COORD_EVENT_OPERATION_CANCEL, NULL);
    event.operation = operation;
    world_step(&world, event);
}

Test(operation, cancel_says_what_to_do_instead)
{
    create();
    cancel(1);
    cr_assert_not_null(strstr(world_expect_problem(&world, "operation_not_cancellable")->detail,
                              "delete the job instead"));
    world_delete(&world, "j1");
    cancel(1); /* it is cancelled: as was asked for */
    cr_assert_eq(state_in(world_answer(&world)), OPERATION_STATE_CANCELLED);
    cancel(2);
    world_expect_problem(&world, "operation_not_cancellable");
    world_reply_all_well(&world);
    cancel(2);
    cr_assert_not_null(
        strstr(world_expect_problem(&world, "operation_not_cancellable")->detail, "ended already"));
    cancel(3);
    world_expect_problem(&world, "operation_not_found");
}

/* ---- memory */

Test(operation, only_the_newest_finished_ones_stay_in_memory)
{
    for (uint64_t id = 1; id <= 1001; id++) {
        struct cluster *clusters[] = {&world.cluster, &world.fold};
        for (size_t i = 0; i < 2; i++) {
            struct change change = {.kind = CHANGE_OPERATION,
                                    .operation = {.id = id,
                                                  .job = mem_strdup("old"),
                                                  .job_incarnation = mem_strdup("x"),
                                                  .state = OPERATION_STATE_SUCCEEDED,
                                                  .step = OPERATION_STEP_END}};
            cluster_apply(clusters[i], &change);
            clusters[i]->meta.operation_id = id;
        }
    }
    cr_assert_eq(world.cluster.operations.count, 1000);
    cr_assert_null(cluster_operation(&world.cluster, 1));
    world_create(&world, "j1"); /* which starts and ends one more */
    cr_assert_eq(world.cluster.operations.count, 1000);
    cr_assert_null(cluster_operation(&world.cluster, 2));
    cr_assert_not_null(cluster_operation(&world.cluster, 1002));
}
