#include "api/schema.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/unit/api/random_value.h"

/* ---- the tables themselves */

static size_t field_bytes(const struct schema_field *field)
{
    switch (field->kind) {
    case SCHEMA_BOOL:
        return sizeof(bool);
    case SCHEMA_UINT32:
        return sizeof(uint32_t);
    case SCHEMA_ENUM:
        return sizeof(int);
    case SCHEMA_VERSION:
        return sizeof(struct document_version);
    case SCHEMA_OBJECT:
        return field->type->bytes;
    case SCHEMA_LIST:
        return sizeof(struct schema_list);
    case SCHEMA_UINT64:
    case SCHEMA_INT64:
    case SCHEMA_KNOWABLE:
    case SCHEMA_TIME:
    case SCHEMA_DURATION:
    case SCHEMA_DOUBLE:
        return 8;
    default:
        return sizeof(char *);
    }
}

/* Of the field that starts at `offset`; of the type itself at its end. */
static size_t alignment_at(const struct schema_type *type, size_t offset)
{
    for (size_t i = 0; i < type->field_count; i++)
        if (type->fields[i].offset == offset && field_bytes(&type->fields[i]) < 8)
            return field_bytes(&type->fields[i]);
    return 8;
}

/* A member that no table knows would be lost on its way through JSON, a copy or a comparison. */
Test(schema, every_member_is_in_its_table_once)
{
    const struct schema_type *type;
    for (size_t i = 0; (type = schema_type_at(i)) != NULL; i++) {
        unsigned char *covered = mem_calloc(type->bytes, 1);
        for (size_t f = 0; f < type->field_count; f++) {
            const struct schema_field *field = &type->fields[f];
            for (size_t b = 0; b < field_bytes(field); b++)
                cr_assert_eq(covered[field->offset + b]++, 0, "%s.%s lies on another field",
                             type->name, field->name);
        }
        /* Only padding may be left, which is less than what the next field is aligned to. */
        size_t gap = 0;
        for (size_t b = 0; b <= type->bytes; b++) {
            if (b < type->bytes && covered[b] == 0) {
                gap++;
                continue;
            }
            cr_assert(gap == 0 || gap < alignment_at(type, b),
                      "%s has a member before byte %zu that its table lacks", type->name, b);
            gap = 0;
        }
        free(covered);
    }
}

Test(schema, names_are_unique_and_every_field_has_help)
{
    const struct schema_type *type;
    for (size_t i = 0; (type = schema_type_at(i)) != NULL; i++) {
        cr_assert_eq(type->help[strlen(type->help) - 1], '.', "%s", type->name);
        for (size_t f = 0; f < type->field_count; f++) {
            const struct schema_field *field = &type->fields[f];
            for (size_t g = 0; g < f; g++)
                cr_assert_str_neq(type->fields[g].name, field->name, "in %s", type->name);
            cr_assert_not_null(field->help, "%s.%s", type->name, field->name);
            cr_assert_eq(field->help[strlen(field->help) - 1], '.', "%s.%s", type->name,
                         field->name);
        }
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(schema_type_at(j)->name, type->name);
    }
}

/* What a table calls the default must itself be allowed. */
Test(schema, defaults_are_within_the_limits)
{
    const struct schema_type *type;
    for (size_t i = 0; (type = schema_type_at(i)) != NULL; i++) {
        for (size_t f = 0; f < type->field_count; f++) {
            const struct schema_field *field = &type->fields[f];
            if (field->required || schema_nullable(field)) /* the default is null */
                continue;
            switch (field->kind) {
            case SCHEMA_UINT32:
            case SCHEMA_INT64:
            case SCHEMA_DURATION:
                cr_assert(field->fallback >= field->min && field->fallback <= field->max, "%s.%s",
                          type->name, field->name);
                break;
            case SCHEMA_ENUM:
                (void)schema_enum_name(field->names, (int)field->fallback); /* asserts */
                break;
            default:
                break;
            }
        }
    }
}

Test(schema, enumerators_have_their_names)
{
    static const struct {
        const char *const *names;
        int last;
        const char *name;
    } cases[] = {
        {schema_names_task_role, TASK_ROLE_ACTIVE, "active"},
        {schema_names_task_state, TASK_STATE_FAILED, "failed"},
        {schema_names_task_state, TASK_STATE_CAUGHT_UP, "caught_up"},
        {schema_names_job_state, JOB_STATE_FAILED, "failed"},
        {schema_names_operation_state, OPERATION_STATE_CANCELLED, "cancelled"},
        {schema_names_agent_state, AGENT_STATE_LOST, "lost"},
        {schema_names_partitioner, PARTITIONER_OPAQUE, "opaque"},
        {schema_names_effective_partitioner, EFFECTIVE_PARTITIONER_OPAQUE, "opaque"},
        {schema_names_problem_severity, PROBLEM_SEVERITY_CRITICAL, "critical"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_str_eq(schema_enum_name(cases[i].names, cases[i].last), cases[i].name);
        int value = -1;
        cr_assert(schema_enum_parse(cases[i].names, cases[i].name, &value));
        cr_assert_eq(value, cases[i].last);
        cr_assert_not(schema_enum_parse(cases[i].names, "other", &value));
        cr_assert_eq(value, cases[i].last);
    }
}

static const struct schema_field *field_of(const struct schema_type *type, const char *name)
{
    for (size_t i = 0; i < type->field_count; i++)
        if (strcmp(type->fields[i].name, name) == 0)
            return &type->fields[i];
    cr_assert_fail("%s has no field %s", type->name, name);
    return NULL;
}

Test(schema, the_specs_enumerators_have_their_names)
{
    static const struct {
        const char *field;
        int value;
        const char *name;
    } cases[] = {
        {"delivery", DELIVERY_AT_LEAST_ONCE, "at_least_once"},
        {"partitioner", PARTITIONER_CRC32, "crc32"},
        {"start", START_COMMITTED, "committed"},
        {"history", HISTORY_RETAINED, "retained"},
        {"interleaving", INTERLEAVING_ANY, "any"},
        {"expansion_order", EXPANSION_ORDER_HOLD, "hold"},
        {"on_error", ON_ERROR_DEAD_LETTER, "dead_letter"},
        {"null_key", NULL_KEY_HALT, "halt"},
        {"seed", SEED_SNAPSHOT, "snapshot"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct schema_field *field = field_of(&schema_job_spec, cases[i].field);
        cr_assert_str_eq(schema_enum_name(field->names, cases[i].value), cases[i].name);
        int count = 0;
        while (field->names[count] != NULL)
            count++;
        cr_assert_eq(count, cases[i].value + (strcmp(cases[i].field, "partitioner") == 0 ? 2 : 1));
    }
    const struct schema_field *kind = field_of(&schema_job_logic, "kind");
    cr_assert_str_eq(schema_enum_name(kind->names, LOGIC_KIND_EXEC), "exec");
}

/* ---- what follows from the tables */

Test(schema, default_of_a_spec)
{
    struct job_spec spec;
    memset(&spec, 0x5a, sizeof(spec));
    schema_default(&schema_job_spec, &spec);

    cr_assert_eq(spec.inputs.count, 0);
    cr_assert_null(spec.output);
    cr_assert_null(spec.group_id);
    cr_assert_null(spec.logic.name);
    cr_assert_str_eq(spec.logic.config, "{}");
    cr_assert_eq(spec.delivery, DELIVERY_EXACTLY_ONCE);
    cr_assert(spec.stateful);
    cr_assert_eq(spec.partitioner, PARTITIONER_AUTO);
    cr_assert_eq(spec.start, START_EARLIEST);
    cr_assert_eq(spec.history, HISTORY_FULL);
    cr_assert_eq(spec.interleaving, INTERLEAVING_NONE);
    cr_assert_eq(spec.expansion_order, EXPANSION_ORDER_MERGE);
    cr_assert_eq(spec.settle_ms, 600000);
    cr_assert_eq(spec.acceptable_lag, 10000);
    cr_assert_eq(spec.commit_interval_ms, 100);
    cr_assert_eq(spec.on_error, ON_ERROR_HALT);
    cr_assert_eq(spec.null_key, NULL_KEY_SKIP);
    cr_assert_eq(spec.state_ttl_ms, 0);
    cr_assert_eq(spec.rejoin_grace_ms, 30000);
    cr_assert_eq(spec.seed, SEED_AUTO);
    cr_assert_not(spec.provenance);
    schema_free(&schema_job_spec, &spec);
}

Test(schema, what_is_not_known_is_not_zero)
{
    struct processor_view view;
    schema_default(&schema_processor_view, &view);
    cr_assert_eq(view.lag_records, API_UNKNOWN);
    cr_assert_eq(view.eta_ms, API_UNKNOWN);
    cr_assert_eq(view.reported_at, API_UNKNOWN);
    schema_free(&schema_processor_view, &view);
}

Test(schema, free_leaves_zero_and_may_be_repeated)
{
    struct rng rng;
    rng_init(&rng, 3);
    const struct schema_type *type;
    for (size_t i = 0; (type = schema_type_at(i)) != NULL; i++) {
        void *value = mem_calloc(1, type->bytes);
        void *zero = mem_calloc(1, type->bytes);
        random_value(type, &rng, value);
        schema_free(type, value);
        cr_assert_arr_eq(value, zero, type->bytes, "%s", type->name);
        schema_free(type, value);
        free(value);
        free(zero);
    }
}

/* Two values that differ in one field only are never equal, whichever field it is. */
Test(schema, equal_looks_at_every_field)
{
    struct rng rng;
    rng_init(&rng, 4);
    const struct schema_type *type;
    for (size_t i = 0; (type = schema_type_at(i)) != NULL; i++) {
        void *a = mem_calloc(1, type->bytes);
        void *b = mem_calloc(1, type->bytes);
        for (size_t f = 0; f < type->field_count; f++) {
            const struct schema_field *field = &type->fields[f];
            size_t bytes = field_bytes(field);
            char *place = (char *)b + field->offset;
            bool changed = false;
            for (int tries = 0; tries < 50 && !changed; tries++) {
                random_value(type, &rng, a);
                schema_copy(type, b, a);
                cr_assert(schema_equal(type, a, b));
                /* Swap in this field of another value, and give back what it had. */
                void *other = mem_calloc(1, type->bytes);
                char *kept = mem_memdup(place, bytes);
                random_value(type, &rng, other);
                memcpy(place, (char *)other + field->offset, bytes);
                memcpy((char *)other + field->offset, kept, bytes);
                changed = !schema_equal(type, a, b);
                cr_assert_eq(changed, !schema_equal(type, b, a));
                free(kept);
                schema_free(type, other);
                free(other);
                schema_free(type, a);
                schema_free(type, b);
            }
            cr_assert(changed, "%s.%s never made a difference", type->name, field->name);
        }
        free(a);
        free(b);
    }
}

/* ---- what can not change */

Test(schema, immutable_change_names_the_field)
{
    struct job_spec before, after;
    schema_default(&schema_job_spec, &before);
    before.logic.name = mem_strdup("count");
    schema_copy(&schema_job_spec, &after, &before);
    cr_assert_null(schema_immutable_change(&schema_job_spec, &before, &after));

    after.acceptable_lag = 1;
    after.on_error = ON_ERROR_SKIP;
    after.history = HISTORY_RETAINED;
    after.null_key = NULL_KEY_HALT;
    after.commit_interval_ms = 1000;
    cr_assert_null(schema_immutable_change(&schema_job_spec, &before, &after));

    free(after.logic.config);
    after.logic.config = mem_strdup("{\"a\":1}");
    cr_assert_str_eq(schema_immutable_change(&schema_job_spec, &before, &after)->name, "logic");
    schema_free(&schema_job_spec, &after);

    schema_copy(&schema_job_spec, &after, &before);
    after.processors = 9;
    cr_assert_str_eq(schema_immutable_change(&schema_job_spec, &before, &after)->name,
                     "processors");
    schema_free(&schema_job_spec, &after);
    schema_free(&schema_job_spec, &before);
}

/* ---- rules of names */

static char *repeat(char character, size_t count)
{
    char *text = mem_calloc(count + 1, 1);
    memset(text, character, count);
    return text;
}

Test(schema, rules_of_names)
{
    static const struct {
        const char *text;
        bool name, agent_id, topic;
    } cases[] = {
        {"", false, false, false},         {"a", true, true, true},
        {"0", true, true, true},           {"a.b_c-9", true, true, true},
        {"A", false, true, true},          {"aB", false, true, true},
        {".a", false, false, true},        {"-a", false, false, true},
        {"_", false, false, true},         {".", false, false, false},
        {"..", false, false, false},       {"...", false, false, true},
        {"a b", false, false, false},      {"a/b", false, false, false},
        {"\xc3\xa9", false, false, false}, {"a\n", false, false, false},
        {"a\xff", false, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(schema_name_valid(cases[i].text), cases[i].name, "%s", cases[i].text);
        cr_assert_eq(schema_agent_id_valid(cases[i].text), cases[i].agent_id, "%s", cases[i].text);
        cr_assert_eq(schema_topic_valid(cases[i].text), cases[i].topic, "%s", cases[i].text);
    }
    char *longest = repeat('a', API_TOPIC_BYTES_MAX + 1);
    cr_assert_not(schema_topic_valid(longest));
    longest[API_TOPIC_BYTES_MAX] = '\0';
    cr_assert(schema_topic_valid(longest));
    longest[API_NAME_BYTES_MAX + 1] = '\0';
    cr_assert_not(schema_name_valid(longest));
    cr_assert_not(schema_agent_id_valid(longest));
    longest[API_NAME_BYTES_MAX] = '\0';
    cr_assert(schema_name_valid(longest));
    cr_assert(schema_agent_id_valid(longest));
    free(longest);
}

Test(schema, rules_of_uuids)
{
    cr_assert(schema_uuid_valid("01234567-89ab-4def-8123-456789abcdef"));
    static const char *const refused[] = {"",
                                          "01234567-89ab-4def-8123-456789abcde",
                                          "01234567-89ab-4def-8123-456789abcdef0",
                                          "01234567-89AB-4def-8123-456789abcdef",
                                          "01234567089ab-4def-8123-456789abcdef",
                                          "0123456--89ab-4def-8123-456789abcdef"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        cr_assert_not(schema_uuid_valid(refused[i]), "%s", refused[i]);
    char uuid[UUID_TEXT_BYTES];
    rng_uuid(uuid);
    cr_assert(schema_uuid_valid(uuid));
}
