/* The examples of api/openapi.yaml are what the codec takes and gives. The rest of the contract is
 * held by tests/system/test_contract_static.py. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/spec.h"
#include "common/mem.h"

/* The tests run in the root of the tree. */
static json_t *load_examples(void)
{
    json_error_t error;
    json_t *document = json_load_file("api/openapi.json", JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(document, "line %d: %s", error.line, error.text);
    json_t *examples =
        json_incref(json_object_get(json_object_get(document, "components"), "examples"));
    json_decref(document);
    return examples;
}

static const struct schema_type *type_of(const char *example)
{
    const struct schema_type *type;
    for (size_t i = 0; (type = schema_type_at(i)) != NULL; i++)
        if (strcmp(type->name, example) == 0)
            return type;
    if (strcmp(example, "operation_view_expanding") == 0)
        return &schema_operation_view;
    return strncmp(example, "job_spec_", 9) == 0 ? &schema_job_spec : NULL;
}

static void check_spec(const char *name, void *value)
{
    struct codec_faults faults = {0};
    spec_complete(value);
    cr_assert_eq(spec_check(value, &faults), ERR_NONE, "%s: %s %s", name, faults.items[0].pointer,
                 faults.items[0].detail);
}

Test(openapi, examples_are_decoded)
{
    json_t *examples = load_examples();
    const char *name;
    json_t *example;
    size_t count = 0;
    json_object_foreach(examples, name, example)
    {
        const struct schema_type *type = type_of(name);
        cr_assert_not_null(type, "%s is an example of nothing", name);
        char *text = json_dumps(json_object_get(example, "value"), 0);
        void *value = mem_calloc(1, type->bytes);
        struct err err = {0};
        cr_assert_eq(codec_decode(type, text, strlen(text), value, NULL, &err), ERR_NONE, "%s: %s",
                     name, err.text);
        if (type == &schema_job_spec)
            check_spec(name, value);
        schema_free(type, value);
        free(value);
        free(text);
        count++;
    }
    cr_assert_gt(count, 15);
    json_decref(examples);
}

/* An answer's example shows exactly what the codec writes, field for field. */
Test(openapi, examples_of_answers_are_what_is_encoded)
{
    static const char *const answers[] = {"job_view",
                                          "job_status",
                                          "processor_view",
                                          "map_view",
                                          "map_key_view",
                                          "agent_view",
                                          "operation_view",
                                          "event_page",
                                          "problem_page",
                                          "agent_welcome",
                                          "version_view",
                                          "handoff_view",
                                          "operation_view_expanding"};
    json_t *examples = load_examples();
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        const struct schema_type *type = type_of(answers[i]);
        json_t *example = json_object_get(json_object_get(examples, answers[i]), "value");
        cr_assert_not_null(example, "%s", answers[i]);
        char *text = json_dumps(example, 0);
        void *value = mem_calloc(1, type->bytes);
        cr_assert_eq(codec_decode(type, text, strlen(text), value, NULL, NULL), ERR_NONE);
        char *encoded = codec_encode(type, value, NULL);
        json_t *again = json_loads(encoded, 0, NULL);
        cr_assert(json_equal(example, again), "%s: %s", answers[i], encoded);
        json_decref(again);
        free(encoded);
        schema_free(type, value);
        free(value);
        free(text);
    }
    json_decref(examples);
}
