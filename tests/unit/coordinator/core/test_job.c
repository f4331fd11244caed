/* PUT of jobs: what is answered, what becomes durable, and in which order. */
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

TestSuite(job, .init = setup, .fini = teardown);

static const struct job_view *expect_job(uint32_t status)
{
    world_expect_status(&world, status);
    const struct answer *answer = world_answer(&world);
    cr_assert_eq(answer->type, &schema_job_view);
    return answer->body;
}

/* ---- creation */

Test(job, put_waits_for_kafka_and_stores_nothing_before)
{
    world_put(&world, "j1", world_spec("j1"));
    world_expect_none(&world);
    cr_assert_eq(world.update.changes.count, 0);
    cr_assert_eq(world.calls.count, 1);
    const struct kafka_call *call = &world.calls.items[0];
    cr_assert_eq(call->kind, KAFKA_CALL_INSPECT);
    cr_assert_str_eq(call->group_id, "group-j1");
    cr_assert_str_eq(call->inputs.items[0], "orders");
    cr_assert_str_eq(call->output, "counts");
    cr_assert_null(call->dead_letter);
    cr_assert(call->transactions);
}

Test(job, is_durable_before_it_is_answered_and_before_kafka_is_touched)
{
    world_put(&world, "j1", world_spec("j1"));
    world_reply_well(&world);
    const struct job_view *view = expect_job(201);
    const struct answer *answer = world_answer(&world);
    cr_assert_eq(answer->etag, 1);
    cr_assert_str_eq(answer->location, "/v1/jobs/j1");
    cr_assert_eq(view->state, JOB_STATE_CREATING);
    cr_assert_eq(view->generation, 1);
    cr_assert_str_eq(view->operation, "op-1");
    /* In the one update: job, placements without owner, operation, event. The commit is only asked
     * for by it. */
    cr_assert_eq(world_count_changes(&world, CHANGE_JOB), 1);
    cr_assert_eq(world_count_changes(&world, CHANGE_PLACEMENT), 4);
    cr_assert_eq(world_count_changes(&world, CHANGE_OPERATION), 1);
    cr_assert_eq(world_count_events(&world, "job_created"), 1);
    cr_assert_eq(world.calls.count, 1);
    cr_assert_eq(world.calls.items[0].kind, KAFKA_CALL_COMMIT);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_null(world_placement(&world, "j1", i)->agent);
        cr_assert_eq(world_placement(&world, "j1", i)->epoch, 0);
    }
}

Test(job, its_operation_says_who_asked_though_kafka_had_to_answer_first)
{
    world_put(&world, "j1", world_spec("j1"));
    world_reply_well(&world);
    cr_assert_str_eq(cluster_operation(&world.cluster, 1)->row.actor, WORLD_ACTOR);
}

Test(job, start_offsets_carry_incarnation_processor_and_epoch_0)
{
    world_put(&world, "j1", world_spec("j1"));
    world_reply_well(&world);
    const struct kafka_call *call = &world.calls.items[0];
    const struct job *job = cluster_job(&world.cluster, "j1");
    cr_assert_eq(call->offsets.count, 8);
    for (uint32_t i = 0; i < 8; i++) {
        char *expected = mem_printf("b1 %s %u 0", job->row.incarnation, i % 4);
        cr_assert_eq(call->offsets.items[i].partition, i);
        cr_assert_eq(call->offsets.items[i].offset, 0);
        cr_assert_str_eq(call->offsets.items[i].metadata, expected);
        free(expected);
    }
}

Test(job, runs_once_the_offsets_are_there)
{
    world_put(&world, "j1", world_spec("j1"));
    world_reply_well(&world);
    world_reply_well(&world);
    const struct job *job = cluster_job(&world.cluster, "j1");
    cr_assert_eq(job->row.state, JOB_STATE_RUNNING);
    cr_assert_eq(job->row.partitioner, EFFECTIVE_PARTITIONER_MURMUR2);
    cr_assert_eq(cluster_operation(&world.cluster, 1)->row.state, OPERATION_STATE_SUCCEEDED);
    cr_assert_eq(world_count_events(&world, "job_running"), 1);
    cr_assert_eq(world.calls.count, 0, "nothing to sample: the specification says murmur2");
}

Test(job, auto_partitioner_is_sampled)
{
    struct job_spec spec = world_spec("j1");
    spec.partitioner = PARTITIONER_AUTO;
    world_put(&world, "j1", spec);
    world_reply_well(&world);
    world_reply_well(&world);
    cr_assert_eq(cluster_job(&world.cluster, "j1")->row.state, JOB_STATE_CREATING);
    cr_assert_eq(world.calls.items[0].kind, KAFKA_CALL_SAMPLE);
    cr_assert_eq(world.calls.items[0].partitions, 8);
    world_reply(&world, (struct kafka_result){.sample = {.keyed = 50, .crc32 = 50}});
    const struct job *job = cluster_job(&world.cluster, "j1");
    cr_assert_eq(job->row.state, JOB_STATE_RUNNING);
    cr_assert_eq(job->row.partitioner, EFFECTIVE_PARTITIONER_CRC32);
    cr_assert_not_null(strstr(job->row.partitioner_reason, "crc32"));
}

Test(job, faults_are_answered_together_and_nothing_is_stored)
{
    struct job_spec spec = world_spec("j1");
    spec.processors = 9;
    world_put(&world, "j1", spec);
    struct kafka_inspection inspection = world_inspection(&world.calls.items[0], 8);
    inspection.output.exists = false;
    inspection.group_members = 1;
    world_reply_inspection(&world, inspection);
    const struct problem_body *problem = world_expect_problem(&world, "too_many_processors");
    cr_assert_eq(problem->status, 422);
    cr_assert_eq(problem->errors.count, 3);
    cr_assert_str_eq(problem->errors.items[1].pointer, "/output");
    cr_assert_eq(world.update.changes.count, 0);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
    /* The name and the group are free again. */
    world_create(&world, "j1");
}

Test(job, unknown_offsets_and_a_silent_broker_are_503)
{
    world_put(&world, "j1", world_spec("j1"));
    struct kafka_inspection inspection = world_inspection(&world.calls.items[0], 8);
    inspection.inputs.items[0].partitions.items[3].end = API_UNKNOWN;
    world_reply_inspection(&world, inspection);
    world_expect_problem(&world, "kafka_unavailable");
    cr_assert_gt(world_answer(&world)->retry_after_s, 0);

    world_put(&world, "j1", world_spec("j1"));
    world_reply_failed(&world, "all brokers are down", false);
    const struct problem_body *problem = world_expect_problem(&world, "kafka_unavailable");
    cr_assert_str_eq(problem->detail, "all brokers are down");

    world_put(&world, "j1", world_spec("j1"));
    world_pass(&world, 31000);
    world_expect_problem(&world, "kafka_unavailable");
    world_reply_well(&world); /* too late: nobody's any more */
    world_expect_none(&world);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
}

Test(job, second_put_of_the_name_is_busy_meanwhile)
{
    world_put(&world, "j1", world_spec("j1"));
    world_put(&world, "j1", world_spec("j1"));
    world_expect_problem(&world, "busy");
    cr_assert_eq(world_answer(&world)->retry_after_s, 1);
    uint64_t first = world.requests - 1;
    world_reply_well(&world);
    cr_assert_eq(world_find_answer(&world, first)->status, 201);
}

Test(job, put_whose_client_went_away_is_forgotten)
{
    world_put(&world, "j1", world_spec("j1"));
    world_gone(&world, world.requests);
    world_reply_well(&world);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
    world_create(&world, "j1");
}

Test(job, has_a_group_of_its_own)
{
    world_create(&world, "j1");
    world_put(&world, "j2", world_spec("j1"));
    world_expect_problem(&world, "group_in_use");
    /* Also while the other one still waits for Kafka. */
    world_put(&world, "j3", world_spec("j3"));
    world_put(&world, "j4", world_spec("j3"));
    const struct problem_body *problem = world_expect_problem(&world, "group_in_use");
    cr_assert_not_null(strstr(problem->detail, "\"j3\""));
}

Test(job, number_of_jobs_is_limited)
{
    struct job_row row = {0};
    for (size_t i = 0; i < API_JOBS_MAX - 1; i++) {
        struct change change = {.kind = CHANGE_JOB};
        struct cluster *clusters[] = {&world.cluster, &world.fold};
        for (size_t c = 0; c < 2; c++) {
            row = (struct job_row){.name = mem_printf("job%zu", i),
                                   .incarnation = mem_strdup("x"),
                                   .state = JOB_STATE_RUNNING,
                                   .spec = world_spec("x")};
            free(row.spec.group_id);
            row.spec.group_id = mem_printf("g%zu", i);
            row.spec.inputs.count = 0;
            row.partitions_initial = row.partitions = 4;
            row.processors_initial = row.processors = 4;
            free(row.spec.inputs.items[0]);
            change.job = row;
            change.kind = CHANGE_JOB;
            cluster_apply(clusters[c], &change);
        }
    }
    world_put(&world, "last", world_spec("last"));
    world_expect_none(&world);
    world_put(&world, "over", world_spec("over"));
    world_expect_problem(&world, "limit_reached");
}

Test(job, requests_that_wait_for_kafka_are_limited)
{
    for (size_t i = 0; i < 64; i++) {
        char *name = mem_printf("j%zu", i);
        world_put(&world, name, world_spec(name));
        world_expect_none(&world);
        free(name);
    }
    world_put(&world, "over", world_spec("over"));
    world_expect_problem(&world, "busy");
}

Test(job, warnings_are_part_of_the_job)
{
    world_put(&world, "j1", world_spec("j1"));
    struct kafka_inspection inspection = world_inspection(&world.calls.items[0], 8);
    inspection.inputs.items[0].compacted = true;
    world_reply_inspection(&world, inspection);
    const struct job_view *view = expect_job(201);
    cr_assert_eq(view->warnings.count, 1);
    cr_assert_not_null(strstr(view->warnings.items[0], "compacted"));
}

/* ---- conditions */

static void put_if(const char *name, struct job_spec spec, uint64_t if_match, bool if_none_match)
{
    struct coord_event event = world_event(&world, COORD_EVENT_JOB_PUT, name);
    event.spec = spec;
    event.if_match = if_match;
    event.if_none_match = if_none_match;
    world_step(&world, event);
}

Test(job, conditions_are_kept)
{
    put_if("j1", world_spec("j1"), 1, false);
    world_expect_problem(&world, "precondition_failed");
    put_if("j1", world_spec("j1"), UINT64_MAX, false);
    world_expect_problem(&world, "precondition_failed");
    put_if("j1", world_spec("j1"), 0, true);
    world_expect_none(&world);
    world_reply_all_well(&world);

    put_if("j1", world_spec("j1"), 0, true);
    world_expect_problem(&world, "precondition_failed");
    put_if("j1", world_spec("j1"), 2, false);
    world_expect_problem(&world, "precondition_failed");
    put_if("j1", world_spec("j1"), 1, false);
    world_expect_status(&world, 200);
    put_if("j1", world_spec("j1"), UINT64_MAX, false);
    world_expect_status(&world, 200);

    struct coord_event event = world_event(&world, COORD_EVENT_JOB_DELETE, "j1");
    event.if_match = 7;
    world_step(&world, event);
    world_expect_problem(&world, "precondition_failed");
    cr_assert_eq(cluster_job(&world.cluster, "j1")->row.state, JOB_STATE_RUNNING);
}

/* ---- update */

Test(job, put_of_the_same_changes_nothing)
{
    world_create(&world, "j1");
    world_put(&world, "j1", world_spec("j1"));
    const struct job_view *view = expect_job(200);
    cr_assert_eq(view->generation, 1);
    cr_assert_eq(world.update.changes.count, 0);
}

Test(job, update_raises_generation_and_renews_the_owners_documents)
{
    world_register(&world, "a1", 1);
    world_register(&world, "idle", 2);
    struct job_spec small = world_spec("j1");
    small.processors = 1;
    world_create_spec(&world, "j1", small);
    const struct agent *owner =
        cluster_agent(&world.cluster, world_placement(&world, "j1", 0)->agent);
    const struct agent *other =
        cluster_agent(&world.cluster, owner->row.agent_id[0] == 'a' ? "idle" : "a1");
    uint64_t before = owner->document_decision, other_before = other->document_decision;

    struct job_spec spec = world_spec("j1");
    spec.processors = 1;
    spec.commit_interval_ms = 500;
    spec.on_error = ON_ERROR_SKIP;
    world_put(&world, "j1", spec);
    const struct job_view *view = expect_job(200);
    cr_assert_eq(view->generation, 2);
    cr_assert_eq(world_answer(&world)->etag, 2);
    cr_assert_eq(view->spec.commit_interval_ms, 500);
    cr_assert_gt(owner->document_decision, before);
    cr_assert_eq(other->document_decision, other_before);
    cr_assert_eq(world_count_events(&world, "job_updated"), 1);
    for (size_t i = 0; i < world.update.changes.count; i++)
        if (world.update.changes.items[i].kind == CHANGE_EVENT)
            cr_assert_str_eq(world.update.changes.items[i].event.detail,
                             "generation 2; changed: commit_interval_ms, on_error");
}

Test(job, immutable_fields_stay_and_the_answer_says_what_to_use)
{
    world_create(&world, "j1");
    for (size_t i = 0; i < 4; i++) {
        static const char *const fields[] = {"processors", "group_id", "delivery", "output"};
        struct job_spec spec = world_spec("j1");
        if (i == 0)
            spec.processors = 5;
        else if (i == 1)
            spec.group_id[0] = 'x';
        else if (i == 2)
            spec.delivery = DELIVERY_AT_LEAST_ONCE;
        else
            spec.output[0] = 'x';
        spec.commit_interval_ms = 500; /* what could change does not, either */
        world_put(&world, "j1", spec);
        const struct problem_body *problem = world_expect_problem(&world, "immutable_field");
        cr_assert_eq(problem->status, 409);
        cr_assert_eq(strncmp(problem->detail, fields[i], strlen(fields[i])), 0, "%s",
                     problem->detail);
        cr_assert_str_eq(problem->errors.items[0].pointer + 1, fields[i]);
        cr_assert_eq(world.update.changes.count, 0);
    }
    cr_assert_eq(cluster_job(&world.cluster, "j1")->row.generation, 1);
}

static struct job_spec dead_letter_spec(void)
{
    struct job_spec spec = world_spec("j1");
    spec.on_error = ON_ERROR_DEAD_LETTER;
    spec.dead_letter_topic = mem_strdup("letters");
    return spec;
}

Test(job, new_dead_letter_topic_is_checked_against_kafka)
{
    world_create(&world, "j1");
    world_put(&world, "j1", dead_letter_spec());
    world_expect_none(&world);
    cr_assert_null(world.calls.items[0].output, "only what may change is asked for");
    struct kafka_inspection inspection = world_inspection(&world.calls.items[0], 8);
    inspection.dead_letter.exists = false;
    inspection.group_members = 3; /* the job's own business by now */
    world_reply_inspection(&world, inspection);
    const struct problem_body *problem = world_expect_problem(&world, "topic_unknown");
    cr_assert_str_eq(problem->errors.items[0].pointer, "/dead_letter_topic");
    cr_assert_eq(world.update.changes.count, 0);

    world_put(&world, "j1", dead_letter_spec());
    world_reply_well(&world);
    cr_assert_eq(expect_job(200)->generation, 2);

    /* It is known now: no second question, also when something else changes. */
    struct job_spec spec = dead_letter_spec();
    spec.provenance = true;
    world_put(&world, "j1", spec);
    cr_assert_eq(expect_job(200)->generation, 3);
}

Test(job, history_decides_what_is_warned_of)
{
    world_put(&world, "j1", world_spec("j1"));
    struct kafka_inspection inspection = world_inspection(&world.calls.items[0], 8);
    inspection.inputs.items[0].deletes = true;
    world_reply_inspection(&world, inspection);
    cr_assert_eq(expect_job(201)->warnings.count, 1);
    world_reply_all_well(&world);

    struct job_spec spec = world_spec("j1");
    spec.history = HISTORY_RETAINED;
    world_put(&world, "j1", spec);
    inspection = world_inspection(&world.calls.items[0], 8);
    inspection.inputs.items[0].deletes = true;
    world_reply_inspection(&world, inspection);
    cr_assert_eq(expect_job(200)->warnings.count, 0);
}

Test(job, update_that_waits_meets_a_deletion)
{
    world_create(&world, "j1");
    world_put(&world, "j1", dead_letter_spec());
    uint64_t request = world.requests;
    world_delete(&world, "j1");
    world_reply_well(&world);
    const struct answer *answer = world_find_answer(&world, request);
    cr_assert_str_eq(((const struct problem_body *)answer->body)->code, "job_deleting");

    /* Or finds the job gone altogether. */
    world_reply_all_well(&world);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
}
