#include "coordinator/core/creation.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/world.h"

/*
 * Before: a job of 4 processors over two topics of 8 partitions, with output and dead letter topic,
 * all well. Each row spoils something and names the faults that are then found, in their order:
 * "code pointer".
 */
struct fixture {
    struct job_spec spec;
    struct kafka_inspection inspection;
};

struct row {
    const char *goal;
    void (*spoil)(struct fixture *fixture);
    const char *faults[4];
    const char *detail;  /* is part of the first fault's text */
    const char *unknown; /* is part of what is not known; NULL: all is */
};

static void make_fixture(struct fixture *ret_fixture)
{
    struct job_spec spec = world_spec("j1");
    spec.inputs.items = mem_realloc(spec.inputs.items, 2, sizeof(char *));
    spec.inputs.items[spec.inputs.count++] = mem_strdup("payments");
    spec.dead_letter_topic = mem_strdup("letters");
    struct kafka_call call = {.output = spec.output, .dead_letter = spec.dead_letter_topic};
    call.inputs.items = spec.inputs.items;
    call.inputs.count = spec.inputs.count;
    ret_fixture->inspection = world_inspection(&call, 8);
    ret_fixture->spec = spec;
}

static void finish_fixture(struct fixture *fixture)
{
    struct kafka_result result = {.inspection = fixture->inspection};
    kafka_result_finish(&result);
    schema_free(&schema_job_spec, &fixture->spec);
}

static struct kafka_topic *input(struct fixture *fixture, size_t index)
{
    return &fixture->inspection.inputs.items[index];
}

static void commit(struct fixture *fixture, size_t topic, size_t partition, int64_t offset)
{
    input(fixture, topic)->partitions.items[partition].committed = offset;
}

static void commit_all(struct fixture *fixture)
{
    fixture->spec.start = START_COMMITTED;
    for (size_t t = 0; t < 2; t++)
        for (size_t p = 0; p < 8; p++)
            commit(fixture, t, p, 50);
}

static void spoil_nothing(struct fixture *fixture)
{
    (void)fixture;
}

static void hide_topic(struct kafka_topic *topic)
{
    topic->exists = false;
    topic->partition_count = 0;
    free(topic->partitions.items);
    topic->partitions.items = NULL;
    topic->partitions.count = 0;
}

static void spoil_input(struct fixture *fixture)
{
    hide_topic(input(fixture, 1));
}

static void spoil_both_inputs_and_output(struct fixture *fixture)
{
    hide_topic(input(fixture, 0));
    hide_topic(input(fixture, 1));
    hide_topic(&fixture->inspection.output);
}

static void spoil_outputs(struct fixture *fixture)
{
    hide_topic(&fixture->inspection.output);
    hide_topic(&fixture->inspection.dead_letter);
}

static void spoil_counts(struct fixture *fixture)
{
    input(fixture, 1)->partition_count = 6;
    input(fixture, 1)->partitions.count = 6;
}

static void spoil_size(struct fixture *fixture)
{
    for (size_t i = 0; i < 2; i++)
        input(fixture, i)->partition_count = API_PARTITIONS_MAX + 1;
}

static void spoil_processors(struct fixture *fixture)
{
    fixture->spec.processors = 9;
    fixture->spec.initial_partitions = 10;
}

static void spoil_brokers(struct fixture *fixture)
{
    fixture->inspection.transactions_supported = false;
    fixture->inspection.broker_detail = mem_strdup("version 2.4");
}

static void spoil_brokers_at_least_once(struct fixture *fixture)
{
    spoil_brokers(fixture);
    fixture->spec.delivery = DELIVERY_AT_LEAST_ONCE;
}

static void spoil_members(struct fixture *fixture)
{
    fixture->inspection.group_members = 2;
    fixture->inspection.group_state = mem_strdup("Stable");
}

static void spoil_commits(struct fixture *fixture)
{
    commit(fixture, 0, 3, 0); /* an offset of 0 is one, too */
}

static void reset_commits(struct fixture *fixture)
{
    spoil_commits(fixture);
    fixture->spec.reset_offsets = true;
}

static void spoil_missing(struct fixture *fixture)
{
    commit_all(fixture);
    commit(fixture, 1, 2, API_UNKNOWN);
    commit(fixture, 1, 5, API_UNKNOWN);
}

static void spoil_all_missing(struct fixture *fixture)
{
    fixture->spec.start = START_COMMITTED;
}

static void spoil_below(struct fixture *fixture)
{
    commit_all(fixture);
    input(fixture, 0)->partitions.items[1].log_start = 19400;
    input(fixture, 0)->partitions.items[1].stable_end = 20000;
    input(fixture, 0)->partitions.items[1].end = 20000;
    commit(fixture, 0, 1, 17091);
}

static void spoil_past_end(struct fixture *fixture)
{
    commit_all(fixture);
    commit(fixture, 0, 0, 101);
}

static void commit_at_the_edges(struct fixture *fixture)
{
    commit_all(fixture);
    commit(fixture, 0, 0, 0);
    commit(fixture, 0, 1, 100);
}

static void spoil_log_start(struct fixture *fixture)
{
    input(fixture, 1)->partitions.items[7].log_start = API_UNKNOWN;
}

static void spoil_end(struct fixture *fixture)
{
    input(fixture, 1)->partitions.items[7].end = API_UNKNOWN;
}

static void spoil_offsets(struct fixture *fixture)
{
    free(input(fixture, 0)->partitions.items);
    input(fixture, 0)->partitions.items = NULL;
    input(fixture, 0)->partitions.count = 0;
}

static void spoil_count(struct fixture *fixture)
{
    spoil_offsets(fixture);
    input(fixture, 0)->partition_count = 0;
}

static void spoil_offsets_and_output(struct fixture *fixture)
{
    spoil_end(fixture);
    hide_topic(&fixture->inspection.output);
}

static const struct row rows[] = {
    {.goal = "all well", spoil_nothing},
    {.goal = "an unknown input",
     spoil_input,
     {"topic_unknown /inputs/1"},
     "\"payments\" does not exist"},
    {.goal = "all unknown topics are named together",
     spoil_both_inputs_and_output,
     {"topic_unknown /inputs/0", "topic_unknown /inputs/1", "output_unknown /output"}},
    {.goal = "output and dead letter topic",
     spoil_outputs,
     {"output_unknown /output", "topic_unknown /dead_letter_topic"}},
    {.goal = "unequal counts",
     spoil_counts,
     {"partition_counts_differ /inputs"},
     "has 8 partitions"},
    {.goal = "more partitions than a job may have",
     spoil_size,
     {"invalid_request /inputs/0", "invalid_request /inputs/1"},
     "may have at most 10000",
     "\"orders\""},
    {.goal = "more processors than partitions, more initial ones than there are",
     spoil_processors,
     {"too_many_processors /processors", "invalid_request /initial_partitions"},
     "9 processors, but the inputs have 8 partitions"},
    {.goal = "brokers without transactions",
     spoil_brokers,
     {"broker_too_old /delivery"},
     "version 2.4"},
    {.goal = "they do for at_least_once", spoil_brokers_at_least_once},
    {.goal = "members",
     spoil_members,
     {"group_has_members /group_id"},
     "has 2 members (state Stable)"},
    {.goal = "commits", spoil_commits, {"group_has_offsets /group_id"}, "for 1 of the inputs' 16"},
    {.goal = "commits to be overwritten", reset_commits},
    {.goal = "start committed, some missing",
     spoil_missing,
     {"offsets_missing /start"},
     "\"payments\" for partitions 2, 5"},
    {.goal = "start committed, none there (S10)",
     spoil_all_missing,
     {"offsets_missing /start", "offsets_missing /start"},
     "for partitions 0, 1, 2, 3, 4, 5, 6, 7"},
    {.goal = "start committed below the log start (S3)",
     spoil_below,
     {"offsets_missing /start"},
     "committed at 17091, but the topic holds 19400 to 20000"},
    {.goal = "start committed past the end", spoil_past_end, {"offsets_missing /start"}, "at 101"},
    {.goal = "start committed at the log start and at the end", commit_at_the_edges},
    {.goal = "an unknown log start is not 0 (S9)",
     spoil_log_start,
     {NULL},
     NULL,
     "\"payments\" partition 7"},
    {.goal = "an unknown end is not 0 (S9)", spoil_end, {NULL}, NULL, "\"payments\" partition 7"},
    {.goal = "offsets of a topic that were not told", spoil_offsets, {NULL}, NULL, "\"orders\""},
    {.goal = "a count that was not told",
     spoil_count,
     {NULL},
     NULL,
     "how many partitions \"orders\""},
    {.goal = "what is surely wrong is said, whatever else is unknown",
     spoil_offsets_and_output,
     {"output_unknown /output"},
     NULL,
     "\"payments\" partition 7"},
};

static void check_faults(const struct row *row, const struct creation_verdict *verdict)
{
    size_t count = 0;
    while (count < 4 && row->faults[count] != NULL)
        count++;
    cr_assert_eq(verdict->faults.count, count, "%s: %zu faults, first %s", row->goal,
                 verdict->faults.count,
                 verdict->faults.count > 0 ? verdict->faults.items[0].detail : "");
    cr_assert_eq(verdict->code == NULL, count == 0, "%s", row->goal);
    for (size_t i = 0; i < count; i++) {
        const char *pointer = strchr(row->faults[i], ' ') + 1;
        cr_assert_str_eq(verdict->faults.items[i].pointer, pointer, "%s", row->goal);
    }
    if (count == 0)
        return;
    size_t code_bytes = (size_t)(strchr(row->faults[0], ' ') - row->faults[0]);
    cr_assert_eq(strlen(verdict->code), code_bytes, "%s: %s", row->goal, verdict->code);
    cr_assert_eq(strncmp(verdict->code, row->faults[0], code_bytes), 0, "%s", row->goal);
    cr_assert_geq(problem_find(verdict->code)->status, 400);
    if (row->detail != NULL)
        cr_assert_not_null(strstr(verdict->faults.items[0].detail, row->detail), "%s: %s",
                           row->goal, verdict->faults.items[0].detail);
}

Test(creation, judges_by_the_table)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture fixture;
        struct creation_verdict verdict;
        make_fixture(&fixture);
        rows[i].spoil(&fixture);
        creation_judge(&fixture.spec, &fixture.inspection, &verdict);
        check_faults(&rows[i], &verdict);
        cr_assert_eq(verdict.unknown == NULL, rows[i].unknown == NULL, "%s: %s", rows[i].goal,
                     verdict.unknown);
        if (rows[i].unknown != NULL)
            cr_assert_not_null(strstr(verdict.unknown, rows[i].unknown), "%s: %s", rows[i].goal,
                               verdict.unknown);
        bool accepted = verdict.code == NULL && verdict.unknown == NULL;
        cr_assert_eq(verdict.origins.count, accepted ? 16 : 0, "%s", rows[i].goal);
        cr_assert_eq(verdict.starts.count, accepted ? 16 : 0, "%s", rows[i].goal);
        creation_finish(&verdict);
        finish_fixture(&fixture);
    }
}

Test(creation, names_ten_partitions_and_counts_the_rest)
{
    struct kafka_call call = {0};
    char *name = (char *)"orders";
    call.inputs.items = &name;
    call.inputs.count = 1;
    struct kafka_inspection inspection = world_inspection(&call, 1000);
    struct job_spec spec = world_spec("j1");
    spec.start = START_COMMITTED;
    struct creation_verdict verdict;
    creation_judge(&spec, &inspection, &verdict);
    cr_assert_eq(verdict.faults.count, 1);
    cr_assert_not_null(
        strstr(verdict.faults.items[0].detail, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more"));
    creation_finish(&verdict);
    schema_free(&schema_job_spec, &spec);
    kafka_result_finish(&(struct kafka_result){.inspection = inspection});
}

/* ---- T0 and the first T1 (D1) */

Test(creation, origins_and_starts_follow_the_start)
{
    static const struct {
        enum start start;
        int64_t origin, first;
    } starts[] = {
        {START_EARLIEST, 10, 10}, /* T0 is where the log starts */
        {START_LATEST, 90, 90},   /* the high watermark, also with a transaction open */
        {START_COMMITTED, 10, 40},
    };
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        struct fixture fixture;
        struct creation_verdict verdict;
        make_fixture(&fixture);
        fixture.spec.start = starts[i].start;
        for (size_t t = 0; t < 2; t++)
            for (size_t p = 0; p < 8; p++)
                input(&fixture, t)->partitions.items[p] = (struct kafka_partition){
                    .log_start = 10 + (int64_t)p,
                    .stable_end = 80,
                    .end = 90 + (int64_t)t,
                    .committed = starts[i].start == START_COMMITTED ? 40 : API_UNKNOWN};
        creation_judge(&fixture.spec, &fixture.inspection, &verdict);
        cr_assert_null(verdict.code);
        for (size_t at = 0; at < 16; at++) {
            int64_t more = starts[i].start == START_LATEST ? (int64_t)(at / 8) : (int64_t)(at % 8);
            cr_assert_eq(verdict.origins.items[at].topic, at / 8);
            cr_assert_eq(verdict.origins.items[at].partition, at % 8);
            cr_assert_eq(verdict.origins.items[at].offset, starts[i].origin + more);
            cr_assert_eq(verdict.starts.items[at].offset,
                         starts[i].start == START_COMMITTED ? 40 : starts[i].first + more);
        }
        creation_finish(&verdict);
        finish_fixture(&fixture);
    }
}

/* ---- warnings */

struct warning_row {
    const char *goal;
    bool compacted, deletes;
    int64_t retention_ms;
    enum history history;
    const char *builtin; /* NULL: a plugin */
    bool stateless;
    uint32_t processors, initial_partitions;
    const char *expected[3]; /* each a part of the warning's text */
};

static const struct warning_row warning_rows[] = {
    {.goal = "nothing to warn of", .retention_ms = -1, .builtin = "count", .processors = 4},
    {.goal = "limited retention (D3.6)",
     .deletes = true,
     .retention_ms = 604800000,
     .builtin = "count",
     .processors = 4,
     .expected = {"keeps records for 7d only"}},
    {.goal = "limited by bytes",
     .deletes = true,
     .retention_ms = -1,
     .builtin = "count",
     .processors = 4,
     .expected = {"a limited number of bytes"}},
    {.goal = "the logic needs no more than the topic keeps",
     .deletes = true,
     .retention_ms = 1000,
     .history = HISTORY_RETAINED,
     .builtin = "count",
     .processors = 4},
    {.goal = "no state, nothing to rebuild",
     .deletes = true,
     .compacted = true,
     .retention_ms = 1000,
     .stateless = true,
     .processors = 4},
    {.goal = "compaction with count (S41)",
     .compacted = true,
     .retention_ms = -1,
     .builtin = "count",
     .processors = 4,
     .expected = {"is compacted"}},
    {.goal = "compaction with latest (S41)",
     .compacted = true,
     .retention_ms = -1,
     .builtin = "latest",
     .processors = 4},
    {.goal = "compaction with a plugin, which may be like latest",
     .compacted = true,
     .retention_ms = -1,
     .processors = 4,
     .expected = {"unless the plugin declares"}},
    {.goal = "both",
     .compacted = true,
     .deletes = true,
     .retention_ms = 60000,
     .builtin = "count",
     .processors = 4,
     .expected = {"keeps records for 1m only", "is compacted"}},
    {.goal = "partitions that can not be added (D2)",
     .retention_ms = -1,
     .builtin = "count",
     .processors = 3,
     .expected = {"adding partitions would move keys"}},
    {.goal = "a topic that was expanded by doubling",
     .retention_ms = -1,
     .builtin = "count",
     .processors = 4,
     .initial_partitions = 4},
    {.goal = "a topic that was expanded otherwise",
     .retention_ms = -1,
     .builtin = "count",
     .processors = 3,
     .initial_partitions = 6,
     .expected = {"linear-hashing partitioner"}},
};

Test(creation, warns_by_the_table)
{
    for (size_t i = 0; i < sizeof(warning_rows) / sizeof(warning_rows[0]); i++) {
        const struct warning_row *row = &warning_rows[i];
        struct fixture fixture;
        struct creation_verdict verdict;
        make_fixture(&fixture);
        fixture.spec.history = row->history;
        fixture.spec.stateful = !row->stateless;
        fixture.spec.processors = row->processors;
        fixture.spec.initial_partitions = row->initial_partitions;
        fixture.spec.logic.kind = row->builtin != NULL ? LOGIC_KIND_BUILTIN : LOGIC_KIND_PLUGIN;
        free(fixture.spec.logic.name);
        fixture.spec.logic.name = mem_strdup(row->builtin != NULL ? row->builtin : "latest");
        struct kafka_topic *topic = input(&fixture, 1);
        topic->compacted = row->compacted;
        topic->deletes = row->deletes;
        topic->retention_ms = row->retention_ms;
        creation_judge(&fixture.spec, &fixture.inspection, &verdict);
        cr_assert_null(verdict.code, "%s", row->goal);
        size_t count = 0;
        for (; count < 3 && row->expected[count] != NULL; count++)
            cr_assert(count < verdict.warnings.count &&
                          strstr(verdict.warnings.items[count], row->expected[count]) != NULL,
                      "%s: %s", row->goal, row->expected[count]);
        cr_assert_eq(verdict.warnings.count, count, "%s", row->goal);
        creation_finish(&verdict);
        finish_fixture(&fixture);
    }
}

/* ---- the partitioner (D2, S34) */

Test(creation, partitioner_is_the_hash_that_explains_all)
{
    static const struct {
        struct kafka_sample sample;
        enum effective_partitioner expected;
        const char *reason;
    } samples[] = {
        {{.keyed = 0, .keyless = 7}, EFFECTIVE_PARTITIONER_UNDETERMINED, "no record with a key"},
        {{.keyed = 500, .murmur2 = 500, .crc32 = 62, .both = 62},
         EFFECTIVE_PARTITIONER_MURMUR2,
         "all 500"},
        {{.keyed = 500, .murmur2 = 62, .crc32 = 500, .both = 62},
         EFFECTIVE_PARTITIONER_CRC32,
         "crc32 puts them"},
        {{.keyed = 3, .murmur2 = 3, .crc32 = 3, .both = 3},
         EFFECTIVE_PARTITIONER_UNDETERMINED,
         "and where crc32 does"},
        {{.keyed = 500, .murmur2 = 499, .crc32 = 60, .both = 59},
         EFFECTIVE_PARTITIONER_OPAQUE,
         "murmur2 explains 499 and crc32 60"},
        {{.keyed = 500}, EFFECTIVE_PARTITIONER_OPAQUE, "no single rule"},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        char *reason;
        cr_assert_eq(creation_partitioner(&samples[i].sample, &reason), samples[i].expected);
        cr_assert_not_null(strstr(reason, samples[i].reason), "%s", reason);
        free(reason);
    }
}
