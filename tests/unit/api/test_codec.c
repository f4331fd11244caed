#include "api/codec.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"

#define LEAST                                                                                      \
    "\"inputs\":[\"in\"],\"group_id\":\"g\",\"processors\":4,"                                     \
    "\"logic\":{\"kind\":\"builtin\",\"name\":\"count\"}"

struct outcome {
    enum err_code code;
    struct job_spec spec;
    struct codec_faults faults;
    struct err err;
};

static struct outcome decode(const char *text, size_t bytes)
{
    struct outcome outcome = {0};
    outcome.code =
        codec_decode(&schema_job_spec, text, bytes, &outcome.spec, &outcome.faults, &outcome.err);
    return outcome;
}

static void outcome_finish(struct outcome *outcome)
{
    schema_free(&schema_job_spec, &outcome->spec); /* zero when it failed */
    codec_faults_finish(&outcome->faults);
}

/* ---- what people may write */

Test(codec, the_least_spec_gets_the_defaults)
{
    struct outcome outcome = decode("{" LEAST "}", strlen("{" LEAST "}"));
    cr_assert_eq(outcome.code, ERR_NONE, "%s", outcome.err.text);
    char *text = codec_encode(&schema_job_spec, &outcome.spec, NULL);
    cr_assert_str_eq(
        text,
        "{\"inputs\":[\"in\"],\"output\":null,\"group_id\":\"g\",\"logic\":{\"kind\":\"builtin\","
        "\"name\":\"count\",\"version\":null,\"config\":{}},\"delivery\":\"exactly_once\","
        "\"stateful\":true,\"processors\":4,\"initial_partitions\":0,\"partitioner\":\"auto\","
        "\"start\":\"earliest\",\"reset_offsets\":false,\"history\":\"full\",\"interleaving\":"
        "\"none\",\"expansion_order\":\"merge\",\"settle\":\"10m\",\"acceptable_lag\":10000,"
        "\"max_learners\":0,\"standbys\":0,\"auto_expand\":false,\"max_processors\":0,"
        "\"commit_interval_ms\":100,\"on_error\":\"halt\",\"dead_letter_topic\":null,\"null_key\":"
        "\"skip\",\"state_ttl\":\"0s\",\"rejoin_grace\":\"30s\",\"seed\":\"auto\",\"provenance\":"
        "false}");
    free(text);
    outcome_finish(&outcome);
}

Test(codec, a_config_is_kept_as_compact_sorted_text)
{
    static const struct {
        const char *config, *kept;
    } cases[] = {
        {"{ }", "{}"},
        {"{\"b\" : 1, \"a\" : {\"d\":[ ], \"c\":null}}", "{\"a\":{\"c\":null,\"d\":[]},\"b\":1}"},
        {"{\"rate\":0.1,\"whole\":1.0,\"big\":1e21,\"zero\":-0.0}",
         "{\"big\":1e+21,\"rate\":0.1,\"whole\":1.0,\"zero\":-0.0}"},
        {"{\"n\":-9223372036854775808,\"m\":9223372036854775807}",
         "{\"m\":9223372036854775807,\"n\":-9223372036854775808}"},
        {"{\"text\":\"\\u00e9\\ud83d\\ude80 \\\"\\\\\\/\\n\\u0001\"}",
         "{\"text\":\"\xc3\xa9\xf0\x9f\x9a\x80 \\\"\\\\/\\n\\u0001\"}"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text =
            mem_printf("{\"kind\":\"plugin\",\"name\":\"p\",\"config\":%s}", cases[i].config);
        struct job_logic logic;
        struct err err;
        cr_assert_eq(codec_decode(&schema_job_logic, text, strlen(text), &logic, NULL, &err),
                     ERR_NONE, "%s: %s", text, err.text);
        cr_assert_str_eq(logic.config, cases[i].kept);
        free(text);
        schema_free(&schema_job_logic, &logic);
    }
}

/* ---- faults, with their words */

Test(codec, faults_say_what_is_allowed)
{
    static const struct {
        const char *text, *pointer, *detail;
    } cases[] = {
        {"[]", "", "must be an object, not a list of 0"},
        {"3", "", "must be an object, not 3"},
        {"{" LEAST ",\"standbys\":1.5}", "/standbys",
         "must be a whole number from 0 to 16, not 1.5"},
        {"{" LEAST ",\"standbys\":\"1\"}", "/standbys",
         "must be a whole number from 0 to 16, not \"1\""},
        {"{" LEAST ",\"commit_interval_ms\":99999999999999999999}", "/commit_interval_ms",
         "must be a whole number from 10 to 60000, not 1e+20"},
        {"{" LEAST ",\"commit_interval_ms\":9}", "/commit_interval_ms",
         "must be a whole number from 10 to 60000, not 9"},
        {"{" LEAST ",\"on_error\":\"stop\"}", "/on_error",
         "must be one of \"halt\", \"skip\", \"dead_letter\", not \"stop\""},
        {"{" LEAST ",\"provenance\":1}", "/provenance", "must be true or false, not 1"},
        {"{" LEAST ",\"settle\":\"25h\"}", "/settle",
         "must be a duration from \"0s\" to \"1d\" with the unit ms, s, m, h or d, not \"25h\""},
        {"{" LEAST ",\"settle\":600}", "/settle",
         "must be a duration from \"0s\" to \"1d\" with the unit ms, s, m, h or d, not 600"},
        {"{" LEAST ",\"settle\":\"-1s\"}", "/settle",
         "must be a duration from \"0s\" to \"1d\" with the unit ms, s, m, h or d, not \"-1s\""},
        {"{" LEAST ",\"output\":\"..\"}", "/output",
         "must be a topic name of 1 to 249 characters a-z, A-Z, 0-9, \".\", \"_\" and \"-\", not "
         "\".\" or \"..\", or null, not \"..\""},
        {"{" LEAST ",\"output\":\"a topic name that is not allowed in Kafka\"}", "/output",
         "must be a topic name of 1 to 249 characters a-z, A-Z, 0-9, \".\", \"_\" and \"-\", not "
         "\".\" or \"..\", or null, not a text of 41 bytes"},
        {"{" LEAST ",\"a/b~\":0}", "/a~1b~0", "is not a known field"},
        {"{" LEAST ",\"on_eror\":0}", "/on_eror",
         "is not a known field; did you mean \"on_error\"?"},
        {"{" LEAST ",\"Output\":0}", "/Output", "is not a known field; did you mean \"output\"?"},
        {"{" LEAST ",\"steed\":0}", "/steed", "is not a known field; did you mean \"seed\"?"},
        {"{" LEAST ",\"threads\":0}", "/threads", "is not a known field"},
        {"{" LEAST ",\"\":0}", "/", "is not a known field"},
        {"{\"inputs\":[],\"group_id\":\"g\",\"processors\":4,\"logic\":{\"kind\":\"builtin\","
         "\"name\":\"count\"}}",
         "/inputs", "must be a list of 1 to 16 topic names, not a list of 0"},
        {"{\"inputs\":[\"a\",\"b c\"],\"group_id\":\"g\",\"processors\":4,\"logic\":{\"kind\":"
         "\"builtin\",\"name\":\"count\"}}",
         "/inputs/1",
         "must be a topic name of 1 to 249 characters a-z, A-Z, 0-9, \".\", \"_\" and \"-\", not "
         "\".\" or \"..\", not \"b c\""},
        {"{\"inputs\":[\"a\"],\"group_id\":\"g\",\"processors\":4,\"logic\":{\"kind\":\"builtin\","
         "\"name\":\"count\",\"config\":[]}}",
         "/logic/config",
         "must be an object of at most 65536 bytes as compact JSON and 8 levels, not a list of 0"},
        {"{\"inputs\":[\"a\"],\"group_id\":\"\",\"processors\":4,\"logic\":{\"kind\":\"builtin\","
         "\"name\":\"count\"}}",
         "/group_id", "must be a text of 1 to 249 bytes, not \"\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outcome outcome = decode(cases[i].text, strlen(cases[i].text));
        cr_assert_eq(outcome.code, ERR_INVALID, "%s", cases[i].text);
        cr_assert_eq(outcome.faults.count, 1, "%s: %s", cases[i].text, outcome.err.text);
        cr_assert_str_eq(outcome.faults.items[0].pointer, cases[i].pointer);
        cr_assert_str_eq(outcome.faults.items[0].detail, cases[i].detail);
        outcome_finish(&outcome);
    }
}

Test(codec, a_duration_may_be_null)
{
    static const struct {
        const char *text;
        int64_t ms;
        const char *written;
    } cases[] = {
        {"{}", API_UNKNOWN, "{\"deadline\":null,"},
        {"{\"deadline\":null}", API_UNKNOWN, "{\"deadline\":null,"},
        {"{\"deadline\":\"10m\"}", 600000, "{\"deadline\":\"10m\","},
        {"{\"deadline\":\"1ms\"}", 1, "{\"deadline\":\"1ms\","},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct drain_request request;
        struct err err;
        cr_assert_eq(codec_decode(&schema_drain_request, cases[i].text, strlen(cases[i].text),
                                  &request, NULL, &err),
                     ERR_NONE, "%s: %s", cases[i].text, err.text);
        cr_assert_eq(request.deadline_ms, cases[i].ms, "%s", cases[i].text);
        char *text = codec_encode(&schema_drain_request, &request, NULL);
        cr_assert_eq(strncmp(text, cases[i].written, strlen(cases[i].written)), 0, "%s", text);
        free(text);
        schema_free(&schema_drain_request, &request);
    }
}

Test(codec, a_duration_that_may_be_null_is_as_strict_as_others)
{
    static const struct {
        const char *text, *detail;
    } cases[] = {
        {"{\"deadline\":\"0s\"}", "\"0s\""},     {"{\"deadline\":\"366d\"}", "\"366d\""},
        {"{\"deadline\":\"-1ms\"}", "\"-1ms\""}, {"{\"deadline\":-1}", "-1"},
        {"{\"deadline\":\"\"}", "\"\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct drain_request request;
        struct codec_faults faults = {0};
        struct err err;
        cr_assert_eq(codec_decode(&schema_drain_request, cases[i].text, strlen(cases[i].text),
                                  &request, &faults, &err),
                     ERR_INVALID, "%s", cases[i].text);
        cr_assert_eq(faults.count, 1);
        char *detail =
            mem_printf("must be a duration from \"1ms\" to \"365d\" with the unit ms, s, m, h or "
                       "d, or null, not %s",
                       cases[i].detail);
        cr_assert_str_eq(faults.items[0].pointer, "/deadline");
        cr_assert_str_eq(faults.items[0].detail, detail);
        free(detail);
        codec_faults_finish(&faults);
    }
    /* Those that have a default are none of these. */
    struct outcome outcome =
        decode("{" LEAST ",\"settle\":null}", strlen("{" LEAST ",\"settle\":null}"));
    cr_assert_eq(outcome.code, ERR_INVALID);
    cr_assert_str_eq(outcome.faults.items[0].pointer, "/settle");
    outcome_finish(&outcome);
}

Test(codec, all_faults_are_listed_and_the_first_is_the_text)
{
    static const char text[] = "{\"inputs\":[\"a\"],\"processors\":0,\"logic\":{\"kind\":1}}";
    struct outcome outcome = decode(text, strlen(text));
    cr_assert_eq(outcome.code, ERR_INVALID);
    static const char *const pointers[] = {"/group_id", "/logic/kind", "/logic/name",
                                           "/processors"};
    cr_assert_eq(outcome.faults.count, 4);
    for (size_t i = 0; i < 4; i++)
        cr_assert_str_eq(outcome.faults.items[i].pointer, pointers[i]);
    cr_assert_str_eq(outcome.err.text,
                     "/group_id is required and must be a text of 1 to 249 bytes (and 3 more)");
    outcome_finish(&outcome);
}

Test(codec, no_more_than_twenty_faults)
{
    struct strbuf text = {0};
    strbuf_puts(&text, "{");
    for (int i = 0; i < 500; i++)
        strbuf_printf(&text, "\"unknown%d\":0,", i);
    strbuf_puts(&text, LEAST "}");
    struct outcome outcome = decode(text.data, text.bytes);
    cr_assert_eq(outcome.code, ERR_INVALID);
    cr_assert_eq(outcome.faults.count, CODEC_FAULTS_MAX);
    outcome_finish(&outcome);
    strbuf_finish(&text);
}

Test(codec, what_a_newer_peer_says_more_is_passed_over_and_all_else_is_checked)
{
    static const char more[] = "{\"agent_id\":\"a\",\"protocol\":9,\"protocol_minimum\":1,"
                               "\"new\":{\"x\":[1]}}",
                      wrong[] = "{\"agent_id\":\"a\",\"protocol\":0,\"new\":1}";
    struct agent_offer offer;
    struct codec_faults faults = {0};
    cr_assert_eq(codec_decode(&schema_agent_offer, more, strlen(more), &offer, NULL, NULL),
                 ERR_INVALID);
    cr_assert_eq(codec_decode_known(&schema_agent_offer, more, strlen(more), &offer, NULL, NULL),
                 ERR_NONE);
    cr_assert_eq(offer.protocol, 9);
    cr_assert_null(offer.version);
    schema_free(&schema_agent_offer, &offer);
    cr_assert_eq(
        codec_decode_known(&schema_agent_offer, wrong, strlen(wrong), &offer, &faults, NULL),
        ERR_INVALID);
    cr_assert_eq(faults.count, 2, "a value out of its range, and one that is missing");
    codec_faults_finish(&faults);
}

Test(codec, a_long_unknown_name_is_cut_at_a_whole_character)
{
    struct strbuf text = {0};
    strbuf_puts(&text, "{" LEAST ",\"x");
    for (int i = 0; i < 300000; i++)
        strbuf_puts(&text, "\xc3\xa9");
    strbuf_puts(&text, "\":0}");
    struct outcome outcome = decode(text.data, text.bytes);
    cr_assert_eq(outcome.code, ERR_INVALID);
    cr_assert_eq(strlen(outcome.faults.items[0].pointer), 1 + 127);
    outcome_finish(&outcome);
    strbuf_finish(&text);
}

Test(codec, the_caller_may_want_only_the_code)
{
    struct job_spec spec;
    cr_assert_eq(codec_decode(&schema_job_spec, "{}", 2, &spec, NULL, NULL), ERR_INVALID);
    cr_assert_eq(codec_decode(&schema_job_spec, "{", 1, &spec, NULL, NULL), ERR_PROTOCOL);
}

Test(codec, nothing_is_written_on_failure)
{
    struct job_spec spec, before;
    memset(&spec, 0x5a, sizeof(spec));
    memset(&before, 0x5a, sizeof(before));
    cr_assert_eq(codec_decode(&schema_job_spec, "{" LEAST ",\"seed\":1}",
                              strlen("{" LEAST ",\"seed\":1}"), &spec, NULL, NULL),
                 ERR_INVALID);
    cr_assert_arr_eq(&spec, &before, sizeof(spec));
}

/* ---- what is no JSON of ours at all */

static void expect_malformed(const char *text, size_t bytes, const char *words)
{
    struct outcome outcome = decode(text, bytes);
    cr_assert_eq(outcome.code, ERR_PROTOCOL, "%s", text);
    cr_assert_eq(outcome.faults.count, 0);
    cr_assert_not_null(strstr(outcome.err.text, words), "%s", outcome.err.text);
    outcome_finish(&outcome);
}

Test(codec, malformed_texts_are_told_with_their_place)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "the body is empty"},
        {"{", "line 1, column 1: the text ends too early"},
        {"{\n \"a\": tru\n}", "line 2, column 9: not JSON"},
        {"{\"a\":1}}", "line 1, column 8: the text goes on after the end of the value"},
        {"{\"a\":1,\"a\":2}", "a key occurs twice in one object"},
        {"{\"logic\":{\"x\":1,\"x\":2}}", "a key occurs twice in one object"},
        {"{\"a\":\"\\u0000\"}", "the character U+0000 is not allowed"},
        {"{\"\\u0000\":1}", "the character U+0000 is not allowed"},
        {"{\"a\":\"\xff\"}", "not UTF-8"},
        {"{\"a\":\"\xed\xa0\x80\"}", "not UTF-8"},
        {"{\"a\":1e999}", "a number is too large"},
        {"{'a':1}", "not JSON"},
        {"{\"a\":01}", "not JSON"},
        {"{\"a\":1,}", "not JSON"},
        {"{\"a\":NaN}", "not JSON"},
        {"\xef\xbb\xbf{}", "not JSON"},
        {"// x\n{}", "not JSON"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_malformed(cases[i].text, strlen(cases[i].text), cases[i].words);
    expect_malformed("{\0}", 3, "line 1");
}

/* In a config no field is at fault, so the number itself is. */
Test(codec, a_number_that_is_too_large_inside_a_config)
{
    static const char text[] =
        "{\"inputs\":[\"in\"],\"group_id\":\"g\",\"processors\":4,\"logic\":{\"kind\":\"builtin\","
        "\"name\":\"count\",\"config\":{\"a\":99999999999999999999}}}";
    expect_malformed(text, strlen(text), "a number is too large");
}

/* ---- depth */

/* {"group_id": [[...]]}: `depth` levels in all. */
static char *nested(size_t depth, const char *open, const char *close)
{
    struct strbuf text = {0};
    strbuf_puts(&text, "{\"group_id\":");
    for (size_t i = 1; i < depth; i++)
        strbuf_puts(&text, open);
    strbuf_puts(&text, "0");
    for (size_t i = 1; i < depth; i++)
        strbuf_puts(&text, close);
    strbuf_puts(&text, "}");
    return strbuf_take(&text);
}

Test(codec, depth_is_limited)
{
    char *allowed = nested(API_JSON_DEPTH_MAX, "[", "]");
    struct outcome outcome = decode(allowed, strlen(allowed));
    cr_assert_eq(outcome.code, ERR_INVALID); /* it was read: group_id is no list */
    outcome_finish(&outcome);
    free(allowed);

    static const size_t depths[] = {API_JSON_DEPTH_MAX + 1, 1000, 300000};
    for (size_t i = 0; i < 3; i++) {
        char *lists = nested(depths[i], "[", "]");
        expect_malformed(lists, strlen(lists), "nested deeper than 16 levels");
        free(lists);
        char *objects = nested(depths[i], "{\"a\":", "}");
        expect_malformed(objects, strlen(objects), "nested deeper than 16 levels");
        free(objects);
    }
}

Test(codec, brackets_in_texts_are_not_depth)
{
    static const char text[] =
        "{" LEAST ",\"output\":\"[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[{{{{{{{{{{{{{{{\"}";
    struct outcome outcome = decode(text, strlen(text));
    cr_assert_eq(outcome.code, ERR_INVALID);
    cr_assert_str_eq(outcome.faults.items[0].pointer, "/output");
    outcome_finish(&outcome);
}

/* {"group_id":[{},{},...]}: `count` commas and brackets. */
static char *crowd(size_t count)
{
    struct strbuf text = {0};
    strbuf_puts(&text, "{\"group_id\":[{}");
    size_t there = 3;
    for (; there + 2 <= count; there += 2)
        strbuf_puts(&text, ",{}");
    strbuf_puts(&text, there < count ? ",0]}" : "]}");
    return strbuf_take(&text);
}

/* An object takes a hundred times its two bytes of text. */
Test(codec, values_are_limited)
{
    char *allowed = crowd(API_JSON_VALUES_MAX);
    struct outcome outcome = decode(allowed, strlen(allowed));
    cr_assert_eq(outcome.code, ERR_INVALID, "%s", outcome.err.text); /* it was read */
    outcome_finish(&outcome);
    free(allowed);

    char *refused = crowd(API_JSON_VALUES_MAX + 1);
    expect_malformed(refused, strlen(refused), "more than 600000 values");
    free(refused);
}

static enum err_code decode_config(size_t depth, struct job_logic *ret_logic)
{
    struct strbuf text = {0};
    strbuf_puts(&text, "{\"kind\":\"builtin\",\"name\":\"count\",\"config\":{");
    for (size_t i = 1; i < depth; i++)
        strbuf_puts(&text, "\"a\":{");
    for (size_t i = 1; i < depth; i++)
        strbuf_puts(&text, "}");
    strbuf_puts(&text, "}}");
    enum err_code code =
        codec_decode(&schema_job_logic, text.data, text.bytes, ret_logic, NULL, NULL);
    strbuf_finish(&text);
    return code;
}

/* What a PUT accepts must come through to the agents, inside a larger document. */
Test(codec, the_deepest_config_fits_an_agents_document)
{
    struct job_logic logic = {0};
    cr_assert_eq(decode_config(SCHEMA_JSON_DEPTH_MAX + 1, &logic), ERR_INVALID);
    cr_assert_eq(decode_config(SCHEMA_JSON_DEPTH_MAX, &logic), ERR_NONE);

    struct outcome outcome = decode("{" LEAST "}", strlen("{" LEAST "}"));
    schema_free(&schema_job_logic, &outcome.spec.logic);
    struct document_job job = {.name = mem_strdup("j"),
                               .incarnation = mem_strdup("01234567-89ab-4def-8123-456789abcdef"),
                               .spec = outcome.spec,
                               .partitions_initial = 1,
                               .partitions = 1,
                               .processors_initial = 1,
                               .processors = 1};
    job.spec.logic = logic;
    struct agent_document document = {.jobs = {.items = mem_memdup(&job, sizeof(job)), .count = 1}};
    size_t bytes;
    char *text = codec_encode(&schema_agent_document, &document, &bytes);
    struct agent_document again;
    struct err err = {0};
    cr_assert_eq(codec_decode(&schema_agent_document, text, bytes, &again, NULL, &err), ERR_NONE,
                 "%s", err.text);
    cr_assert(schema_equal(&schema_agent_document, &document, &again));
    free(text);
    schema_free(&schema_agent_document, &again);
    schema_free(&schema_agent_document, &document);
}

Test(codec, a_config_over_its_limit_is_refused)
{
    struct strbuf text = {0};
    strbuf_puts(&text, "{\"kind\":\"builtin\",\"name\":\"count\",\"config\":{\"a\":\"");
    size_t fill = API_CONFIG_BYTES_MAX - strlen("{\"a\":\"\"}");
    for (size_t i = 0; i < fill; i++)
        strbuf_puts(&text, "x");
    struct strbuf longer = {0};
    strbuf_add(&longer, text.data, text.bytes);
    strbuf_puts(&longer, "x\"}}");
    strbuf_puts(&text, "\"}}");

    struct job_logic logic;
    cr_assert_eq(codec_decode(&schema_job_logic, text.data, text.bytes, &logic, NULL, NULL),
                 ERR_NONE);
    cr_assert_eq(strlen(logic.config), API_CONFIG_BYTES_MAX);
    schema_free(&schema_job_logic, &logic);
    cr_assert_eq(codec_decode(&schema_job_logic, longer.data, longer.bytes, &logic, NULL, NULL),
                 ERR_INVALID);
    strbuf_finish(&text);
    strbuf_finish(&longer);
}

/* ---- encoding what JSON can not say */

Test(codec, encoding_bends_what_json_can_not_say)
{
    struct map_key_view view = {.job = mem_strdup("j"), .key = mem_strdup("a\xff\xc3(\x7f\"")};
    char *text = codec_encode(&schema_map_key_view, &view, NULL);
    cr_assert_str_eq(text,
                     "{\"job\":\"j\",\"key\":\"a?\?(\x7f\\\"\",\"partitioner\":\"undetermined\","
                     "\"hash\":0,\"path\":[],\"partition\":0,\"processor\":0,\"agent\":null}");
    free(text);
    schema_free(&schema_map_key_view, &view);

    struct job_status status;
    schema_default(&schema_job_status, &status);
    status.state_rows = UINT64_MAX;
    status.records_per_s = 1.0 / 3;
    text = codec_encode(&schema_job_status, &status, NULL);
    cr_assert_not_null(strstr(text, "\"state_rows\":9223372036854775807,"));
    cr_assert_not_null(strstr(text, "\"records_per_s\":0.3333333333333333,"));
    cr_assert_not_null(strstr(text, "\"lag_records\":null,"));
    cr_assert_not_null(strstr(text, "\"observed_at\":null}"));
    free(text);
}
