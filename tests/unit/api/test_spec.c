#include "api/spec.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "common/mem.h"

/* The least spec with `members` laid over it. */
static void make_spec(const char *members, struct job_spec *ret_spec)
{
    json_t *json =
        json_pack("{s:[s], s:s, s:s, s:i, s:{s:s, s:s}}", "inputs", "in", "output", "out",
                  "group_id", "g", "processors", 4, "logic", "kind", "builtin", "name", "count");
    json_t *over = json_loads(members, 0, NULL);
    cr_assert_not_null(over, "%s", members);
    json_object_update(json, over);
    char *text = json_dumps(json, 0);
    struct err err = {0};
    cr_assert_eq(codec_decode(&schema_job_spec, text, strlen(text), ret_spec, NULL, &err), ERR_NONE,
                 "%s: %s", members, err.text);
    spec_complete(ret_spec);
    free(text);
    json_decref(over);
    json_decref(json);
}

Test(spec, a_built_in_gets_its_version)
{
    struct job_spec spec;
    make_spec("{}", &spec);
    cr_assert_str_eq(spec.logic.version, "1");
    schema_free(&schema_job_spec, &spec);

    make_spec("{\"logic\":{\"kind\":\"plugin\",\"name\":\"p\"}}", &spec);
    cr_assert_null(spec.logic.version);
    schema_free(&schema_job_spec, &spec);
}

Test(spec, accepted)
{
    static const char *const accepted[] = {
        "{}",
        "{\"output\":null}",
        "{\"inputs\":[\"a\",\"b\"],\"interleaving\":\"any\"}",
        ("{\"inputs\":[\"a\",\"b\"],\"stateful\":false,\"logic\":{\"kind\":\"plugin\",\"name\":"
         "\"p\","
         "\"version\":\"1.0.0\"}}"),
        "{\"on_error\":\"dead_letter\",\"dead_letter_topic\":\"dlq\"}",
        "{\"max_processors\":4}",
        "{\"max_processors\":0}",
        "{\"start\":\"committed\"}",
        "{\"start\":\"latest\",\"reset_offsets\":true}",
        "{\"seed\":\"replay\"}",
        "{\"provenance\":true}",
        "{\"state_ttl\":\"1d\"}",
        "{\"logic\":{\"kind\":\"builtin\",\"name\":\"dedup\",\"version\":\"1\"}}",
        "{\"group_id\":\"with space and \xc3\xa9\"}",
    };
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        struct job_spec spec;
        struct codec_faults faults = {0};
        make_spec(accepted[i], &spec);
        cr_assert_eq(spec_check(&spec, &faults), ERR_NONE, "%s", accepted[i]);
        cr_assert_eq(faults.count, 0);
        schema_free(&schema_job_spec, &spec);
    }
}

Test(spec, refused)
{
    static const struct {
        const char *members, *pointer, *words;
    } cases[] = {
        {"{\"inputs\":[\"a\",\"b\"]}", "/interleaving", "a replay can not repeat the order"},
        {"{\"inputs\":[\"a\",\"b\",\"a\"],\"interleaving\":\"any\"}", "/inputs/2",
         "\"a\" is there"},
        {"{\"output\":\"in\"}", "/output", "must not be one of the inputs"},
        {"{\"group_id\":\"a\\nb\"}", "/group_id", "control characters"},
        {"{\"group_id\":\"a\x7f\"}", "/group_id", "control characters"},
        {"{\"logic\":{\"kind\":\"builtin\",\"name\":\"counter\"}}", "/logic/name",
         "one of \"count\", \"sum\", \"latest\", \"dedup\""},
        {"{\"logic\":{\"kind\":\"builtin\",\"name\":\"count\",\"version\":\"2\"}}",
         "/logic/version", "must be \"1\""},
        {"{\"stateful\":false}", "/stateful", "must be true for a built-in"},
        {"{\"logic\":{\"kind\":\"plugin\",\"name\":\"p\"}}", "/logic/version", "is required"},
        {"{\"logic\":{\"kind\":\"plugin\",\"name\":\"p\",\"version\":\"../../x\"}}",
         "/logic/version", "must be 1 to 63 characters"},
        {"{\"logic\":{\"kind\":\"exec\",\"name\":\"p\"}}", "/logic/kind",
         "not available in this version"},
        {"{\"on_error\":\"dead_letter\"}", "/dead_letter_topic", "is required"},
        {"{\"dead_letter_topic\":\"dlq\"}", "/dead_letter_topic", "is used only with"},
        {"{\"on_error\":\"dead_letter\",\"dead_letter_topic\":\"in\"}", "/dead_letter_topic",
         "must not be one of the inputs"},
        {"{\"on_error\":\"dead_letter\",\"dead_letter_topic\":\"out\"}", "/dead_letter_topic",
         "must differ from the output"},
        {"{\"max_processors\":3}", "/max_processors", "at least `processors` (4), not 3"},
        {"{\"start\":\"committed\",\"reset_offsets\":true}", "/reset_offsets", "contradicts"},
        {"{\"stateful\":false,\"state_ttl\":\"1h\",\"logic\":{\"kind\":\"plugin\",\"name\":\"p\","
         "\"version\":\"1\"}}",
         "/state_ttl", "no meaning"},
        {"{\"provenance\":true,\"output\":null}", "/provenance", "needs an output topic"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job_spec spec;
        struct codec_faults faults = {0};
        make_spec(cases[i].members, &spec);
        cr_assert_eq(spec_check(&spec, &faults), ERR_INVALID, "%s", cases[i].members);
        cr_assert_eq(faults.count, 1, "%s", cases[i].members);
        cr_assert_str_eq(faults.items[0].pointer, cases[i].pointer);
        cr_assert_not_null(strstr(faults.items[0].detail, cases[i].words), "%s",
                           faults.items[0].detail);
        codec_faults_finish(&faults);
        schema_free(&schema_job_spec, &spec);
    }
}

Test(spec, faults_are_added_to_those_there)
{
    struct job_spec spec;
    struct codec_faults faults = {0};
    codec_faults_add(&faults, "/a", "first");
    make_spec("{\"provenance\":true,\"output\":null,\"max_processors\":3}", &spec);
    cr_assert_eq(spec_check(&spec, &faults), ERR_INVALID);
    cr_assert_eq(faults.count, 3);
    cr_assert_str_eq(faults.items[0].detail, "first");
    codec_faults_finish(&faults);

    for (int i = 0; i < CODEC_FAULTS_MAX; i++)
        codec_faults_add(&faults, "", "%d", i);
    cr_assert_eq(spec_check(&spec, &faults), ERR_INVALID);
    cr_assert_eq(faults.count, CODEC_FAULTS_MAX);
    codec_faults_finish(&faults);
    schema_free(&schema_job_spec, &spec);
}

Test(spec, every_immutable_field_has_an_advice)
{
    size_t count = 0;
    for (size_t i = 0; i < schema_job_spec.field_count; i++) {
        if (!schema_job_spec.fields[i].immutable)
            continue;
        cr_assert_gt(strlen(spec_immutable_advice(&schema_job_spec.fields[i])), 40);
        count++;
    }
    cr_assert_eq(count, 13);
}

Test(spec, advice_for_a_field_that_may_change_is_our_own_mistake, .signal = SIGABRT)
{
    for (size_t i = 0; i < schema_job_spec.field_count; i++)
        if (!schema_job_spec.fields[i].immutable)
            (void)spec_immutable_advice(&schema_job_spec.fields[i]);
}

Test(codec_faults, texts_are_cut_at_a_whole_character)
{
    char *text = mem_calloc(API_TEXT_BYTES_MAX + 10, 1);
    for (size_t i = 0; i + 1 < API_TEXT_BYTES_MAX + 9; i += 2) {
        text[i] = '\xc3';
        text[i + 1] = '\xa9';
    }
    struct codec_faults faults = {0};
    codec_faults_add(&faults, text, "%s", text);
    cr_assert_eq(strlen(faults.items[0].detail), API_TEXT_BYTES_MAX - 1);
    cr_assert_str_eq(faults.items[0].detail + API_TEXT_BYTES_MAX - 4, "...");
    cr_assert_str_eq(faults.items[0].pointer, faults.items[0].detail);
    free(text);
    codec_faults_finish(&faults);
    cr_assert_eq(faults.count, 0);
    codec_faults_finish(&faults);
}
