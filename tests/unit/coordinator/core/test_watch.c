/* What the description of its topics says is wrong with a job that runs, and when they are looked
 * at. */
#include "coordinator/core/watch.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/unit/coordinator/core/world.h"

#define INTERVAL_MS  10000
#define RETENTION_MS INT64_C(604800000)

static struct world world;

static void setup(void)
{
    world_init(&world);
    world.cluster.config.topics_interval_ms = INTERVAL_MS;
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(watch, .init = setup, .fini = teardown);

/* ---- what is found */

/*
 * Before: a job of two inputs of 8 partitions from offset 0 on, with output and dead letter topic,
 * all well. Each row spoils something and names what is found, in its order: "code topic".
 */
struct fixture {
    struct job_row *row;
    struct kafka_inspection inspection;
    int64_t age_ms; /* of the job */
};

struct row {
    const char *goal;
    void (*spoil)(struct fixture *fixture);
    const char *findings[3];
    const char *detail; /* is part of the first finding's text */
};

static struct kafka_topic *input(struct fixture *fixture, size_t index)
{
    return &fixture->inspection.inputs.items[index];
}

static void spoil_nothing(struct fixture *fixture)
{
    (void)fixture;
}

static void spoil_input_gone(struct fixture *fixture)
{
    input(fixture, 1)->exists = false;
    input(fixture, 1)->partition_count = 0;
    input(fixture, 1)->partitions.count = 0;
}

static void spoil_outputs_gone(struct fixture *fixture)
{
    fixture->inspection.output.exists = false;
    fixture->inspection.dead_letter.exists = false;
}

static void spoil_more_partitions(struct fixture *fixture)
{
    struct kafka_topic *topic = input(fixture, 0);
    topic->partition_count = 12;
    topic->partitions.items =
        mem_realloc(topic->partitions.items, 12, sizeof(struct kafka_partition));
    for (size_t p = topic->partitions.count; p < 12; p++)
        topic->partitions.items[p] = (struct kafka_partition){.log_start = 700};
    topic->partitions.count = 12;
}

static void spoil_fewer_partitions(struct fixture *fixture)
{
    struct kafka_topic *topic = input(fixture, 0);
    topic->partition_count = 3;
    topic->partitions.count = 3;
    topic->compacted = true; /* of another topic: nothing more is said of it */
}

static void spoil_gone(struct fixture *fixture)
{
    input(fixture, 1)->partitions.items[5].log_start = 500;
    input(fixture, 1)->partitions.items[7].log_start = 1;
}

static void spoil_unknown_start(struct fixture *fixture)
{
    input(fixture, 1)->partitions.items[5].log_start = API_UNKNOWN;
}

static void spoil_later_origin(struct fixture *fixture)
{
    fixture->row->origins.items[8 + 5].offset = 500;
    input(fixture, 1)->partitions.items[5].log_start = 500;
}

static void spoil_gone_retained(struct fixture *fixture)
{
    spoil_gone(fixture);
    fixture->row->spec.history = HISTORY_RETAINED;
}

static void spoil_gone_stateless(struct fixture *fixture)
{
    spoil_gone(fixture);
    fixture->row->spec.stateful = false;
}

static void spoil_gone_standby(struct fixture *fixture)
{
    spoil_gone(fixture);
    fixture->row->spec.standbys = 1;
}

static void spoil_compacted(struct fixture *fixture)
{
    input(fixture, 0)->compacted = true;
}

static void spoil_compacted_plugin(struct fixture *fixture)
{
    spoil_compacted(fixture);
    fixture->row->spec.logic.kind = LOGIC_KIND_PLUGIN;
}

static void spoil_compacted_latest(struct fixture *fixture)
{
    spoil_compacted(fixture);
    free(fixture->row->spec.logic.name);
    fixture->row->spec.logic.name = mem_strdup("latest");
}

static void limit(struct fixture *fixture, int64_t age_ms)
{
    input(fixture, 0)->deletes = true;
    input(fixture, 0)->retention_ms = RETENTION_MS;
    fixture->age_ms = age_ms;
}

static void spoil_young(struct fixture *fixture)
{
    limit(fixture, RETENTION_MS / 2 - 1);
}

static void spoil_old(struct fixture *fixture)
{
    limit(fixture, RETENTION_MS / 2);
}

static void spoil_old_unlimited(struct fixture *fixture)
{
    limit(fixture, RETENTION_MS);
    input(fixture, 0)->retention_ms = -1; /* by bytes: only the log's start tells */
}

static void spoil_old_gone(struct fixture *fixture)
{
    limit(fixture, RETENTION_MS);
    input(fixture, 0)->partitions.items[0].log_start = 9;
}

static const struct row rows[] = {
    {"all well", spoil_nothing, {NULL}, NULL},
    {"an input is gone",
     spoil_input_gone,
     {"topic_missing payments"},
     "input \"payments\" does not exist"},
    {"outputs are gone",
     spoil_outputs_gone,
     {"topic_missing counts", "topic_missing letters"},
     "output \"counts\" does not exist"},
    {"more partitions",
     spoil_more_partitions,
     {"partitions_changed orders"},
     "has 12 partitions, the job reads the first 8"},
    {"fewer partitions", spoil_fewer_partitions, {"topic_recreated orders"}, "had 8"},
    {"records are gone",
     spoil_gone,
     {"retention_risk payments"},
     "partition 5: records from 0 to 500, which the state is made of, are gone, and such of 1 "
     "more"},
    {"a start that is not known is not one", spoil_unknown_start, {NULL}, NULL},
    {"records before T0 are not needed", spoil_later_origin, {NULL}, NULL},
    {"history: retained", spoil_gone_retained, {NULL}, NULL},
    {"no state", spoil_gone_stateless, {NULL}, NULL},
    {"a standby", spoil_gone_standby, {NULL}, NULL},
    {"compacted", spoil_compacted, {"retention_risk orders"}, "is compacted"},
    {"compacted, plugin",
     spoil_compacted_plugin,
     {"retention_risk orders"},
     "leaves, unless the plugin says that it can"},
    {"compacted, latest", spoil_compacted_latest, {NULL}, NULL},
    {"half of the retention is not over", spoil_young, {NULL}, NULL},
    {"half of the retention is over", spoil_old, {"retention_risk orders"}, "keeps records for 7d"},
    {"retention by bytes", spoil_old_unlimited, {NULL}, NULL},
    {"old and gone: once", spoil_old_gone, {"retention_risk orders"}, "from 0 to 9"},
};

static void expect_findings(const struct row *row, const struct job_topics *topics)
{
    size_t count = 0;
    while (count < 3 && row->findings[count] != NULL)
        count++;
    cr_assert_eq(topics->findings.count, count, "%s: %zu findings", row->goal,
                 topics->findings.count);
    for (size_t i = 0; i < count; i++) {
        const struct job_finding *finding = &topics->findings.items[i];
        char *text = mem_printf("%s %s", finding->code, finding->topic);
        cr_expect_str_eq(text, row->findings[i], "%s: %s", row->goal, text);
        free(text);
    }
    if (row->detail != NULL)
        cr_expect_not_null(strstr(topics->findings.items[0].detail, row->detail), "%s: %s",
                           row->goal, topics->findings.items[0].detail);
}

static struct job *create_with_two_inputs(void)
{
    struct job_spec spec = world_spec("j1");
    spec.inputs.items = mem_realloc(spec.inputs.items, 2, sizeof(char *));
    spec.inputs.items[spec.inputs.count++] = mem_strdup("payments");
    spec.interleaving = INTERLEAVING_ANY;
    spec.dead_letter_topic = mem_strdup("letters");
    return world_create_spec(&world, "j1", spec);
}

static struct kafka_inspection describe(const struct job *job)
{
    struct kafka_call call = {.output = job->row.spec.output,
                              .dead_letter = job->row.spec.dead_letter_topic};
    call.inputs.items = job->row.spec.inputs.items;
    call.inputs.count = job->row.spec.inputs.count;
    return world_inspection(&call, 8);
}

static void judge(const struct row *row)
{
    world_init(&world);
    struct job *job = create_with_two_inputs();
    struct job_topics topics = {0};
    struct fixture fixture = {.row = &job->row, .inspection = describe(job)};
    row->spoil(&fixture);
    watch_judge(&job->row, &fixture.inspection, job->row.created_at + fixture.age_ms, &topics);
    expect_findings(row, &topics);
    struct kafka_result result = {.inspection = fixture.inspection};
    kafka_result_finish(&result);
    /* All well again: nothing stays. */
    fixture.inspection = describe(job);
    watch_judge(&job->row, &fixture.inspection, job->row.created_at, &topics);
    cr_assert_eq(topics.findings.count, 0, "%s: stays", row->goal);
    result = (struct kafka_result){.inspection = fixture.inspection};
    kafka_result_finish(&result);
    free(topics.findings.items);
    world_finish(&world);
}

Test(watch_judge, names_what_is_wrong)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        judge(&rows[i]);
}

/* ---- when topics are looked at */

static void expect_look(const char *job)
{
    cr_assert_eq(world.calls.count, 1);
    cr_assert_eq(world.calls.items[0].kind, KAFKA_CALL_TOPICS);
    cr_assert_str_eq(world.calls.items[0].job, job);
}

/* The topics as they are, but for what the test did to the first input. */
static void reply(const struct job *job, uint32_t partitions)
{
    struct kafka_inspection inspection = describe(job);
    inspection.inputs.items[0].partition_count = partitions;
    world_reply_inspection(&world, inspection);
}

static const struct job_finding *only_finding(const struct job *job)
{
    cr_assert_eq(job->topics.findings.count, 1);
    return &job->topics.findings.items[0];
}

Test(watch, a_running_job_is_looked_at_again_and_again)
{
    struct job *job = world_create(&world, "j1");
    for (int i = 0; i < 3; i++) {
        world_pass(&world, INTERVAL_MS - 1);
        cr_assert_eq(world.calls.count, 0, "look %d came early", i);
        world_pass(&world, 1);
        expect_look("j1");
        cr_assert_str_eq(world.calls.items[0].inputs.items[0], "orders");
        cr_assert_str_eq(world.calls.items[0].output, "counts");
        cr_assert_null(world.calls.items[0].dead_letter);
        reply(job, 8);
        cr_assert_eq(job->topics.findings.count, 0);
    }
}

/* Nobody could say where keys of new partitions go: they are not adopted. */
static struct job *create_opaque(const char *name)
{
    struct job_spec spec = world_spec(name);
    spec.partitioner = PARTITIONER_OPAQUE;
    return world_create_spec(&world, name, spec);
}

Test(watch, a_finding_keeps_its_time_until_it_is_over)
{
    struct job *job = create_opaque("j1");
    world_pass(&world, INTERVAL_MS);
    int64_t since_at = world.now_at;
    reply(job, 12);
    cr_assert_str_eq(only_finding(job)->code, "partitions_changed");
    cr_assert_eq(only_finding(job)->since_at, since_at);
    world_pass(&world, INTERVAL_MS);
    reply(job, 16);
    cr_assert_eq(only_finding(job)->since_at, since_at);
    cr_assert_not_null(strstr(only_finding(job)->detail, "16 partitions"));
    world_pass(&world, INTERVAL_MS);
    reply(job, 8);
    cr_assert_eq(job->topics.findings.count, 0);
}

Test(watch, one_look_at_a_time)
{
    const struct job *first = world_create(&world, "j1");
    const struct job *second = world_create(&world, "j2");
    world_pass(&world, 5 * INTERVAL_MS); /* Kafka takes its time */
    expect_look("j1");
    reply(first, 8);
    cr_assert_eq(world.calls.count, 0, "others have their turn first");
    world_pass(&world, 100);
    expect_look("j2");
    reply(second, 8);
    world_pass(&world, INTERVAL_MS - 100);
    expect_look("j1");
}

Test(watch, brokers_that_do_not_answer_are_left_alone_for_a_while)
{
    struct job *job = create_opaque("j1");
    (void)world_create(&world, "j2");
    world_pass(&world, INTERVAL_MS);
    reply(job, 12);
    world_pass(&world, 100);
    world_reply_failed(&world, "no broker answers", false);
    world_pass(&world, INTERVAL_MS - 1);
    cr_assert_eq(world.calls.count, 0);
    world_pass(&world, 1);
    expect_look("j1");
    world_reply_failed(&world, "no broker answers", false);
    cr_assert_str_eq(only_finding(job)->code, "partitions_changed", "still the best that is known");
}

Test(watch, a_refusal_holds_up_no_other_job)
{
    (void)world_create(&world, "j1");
    const struct job *second = world_create(&world, "j2");
    world_pass(&world, INTERVAL_MS);
    expect_look("j1");
    world_reply_failed(&world, "not authorized", true);
    world_pass(&world, 100);
    for (int i = 0; i < 5; i++) {
        expect_look("j2");
        reply(second, 8);
        world_pass(&world, INTERVAL_MS);
    }
    expect_look("j2");
    reply(second, 8);
    world_pass(&world, INTERVAL_MS);
    expect_look("j1");
}

Test(watch, a_changed_job_is_looked_at_at_once)
{
    struct job *job = world_create(&world, "j1");
    struct job_spec spec = world_spec("j1");
    spec.commit_interval_ms += 1;
    world_put(&world, "j1", spec);
    expect_look("j1");
    reply(job, 8);
}

Test(watch, a_job_that_is_gone_is_not_judged)
{
    (void)world_create(&world, "j1");
    world_pass(&world, INTERVAL_MS);
    expect_look("j1");
    world_delete(&world, "j1");
    const struct job *second = NULL;
    struct kafka_inspection inspection = world_inspection(&world.calls.items[0], 12);
    world_reply_inspection(&world, inspection);
    world_reply_all_well(&world);
    cr_assert_null(cluster_job(&world.cluster, "j1"));
    second = world_create(&world, "j2");
    world_pass(&world, INTERVAL_MS);
    expect_look("j2");
    reply(second, 8);
}

Test(watch, after_a_restart_it_is_found_again)
{
    struct job *job = create_opaque("j1");
    world_pass(&world, INTERVAL_MS);
    reply(job, 12);
    world_restart(&world);
    job = cluster_job(&world.cluster, "j1");
    cr_assert_eq(job->topics.findings.count, 0);
    expect_look("j1");
    reply(job, 12);
    cr_assert_str_eq(only_finding(job)->code, "partitions_changed");
}
