#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/logic_private.h"
#include "common/mem.h"
#include "common/rng.h"
#include "rig.h"

/* Sends values of key "k" and gathers those that pass, e.g. "ab" for the values a, b. */
static const char *passing(struct rig *rig, const char *values)
{
    static char passed[128];
    size_t count = 0;

    for (const char *value = values; *value != '\0'; value++) {
        char text[2] = {*value, '\0'};
        const char *outputs = rig_send(rig, "k", text);

        cr_assert_null(strstr(outputs, "error"), "%s", outputs);
        if (outputs[0] != '\0')
            passed[count++] = *value;
    }
    passed[count] = '\0';
    return passed;
}

static void assert_config_refused(const char *config, const char *part)
{
    struct logic_spec spec = {
        .kind = LOGIC_KIND_BUILTIN, .name = "dedup", .version = "1", .config = config};
    struct logic *logic = NULL;
    struct err err;

    cr_assert_eq(logic_create(&spec, &logic, &err), ERR_INVALID, "%s", config);
    cr_assert_not_null(strstr(err.text, part), "\"%s\" lacks \"%s\"", err.text, part);
}

Test(logic_dedup, config_is_strict)
{
    assert_config_refused("{\"by\":\"colour\"}", "/by: must be \"value\", \"key\" or \"header:");
    assert_config_refused("{\"by\":\"header:\"}", "/by: must be");
    assert_config_refused("{\"by\":\"\"}", "/by");
    assert_config_refused("{\"by\":1}", "/by");
    assert_config_refused("{\"max_remembered\":0}", "/max_remembered");
    assert_config_refused("{\"max_remembered\":1000001}", "/max_remembered");
    assert_config_refused("{\"max_remembered\":\"10\"}", "/max_remembered");
    assert_config_refused("{\"max_remembered\":1.5}", "/max_remembered");
    assert_config_refused("{\"by\":\"key\",\"max_remembered\":5}",
                          "/max_remembered: does not go with");
    assert_config_refused("{\"window\":5}", "/window");
    assert_config_refused("{\"by\":\"value\",\"by\":\"key\"}", "by");
    assert_config_refused("[]", "refuses it: must be an object");
}

Test(logic_dedup, by_value_passes_the_first_of_each_key_and_value)
{
    struct rig rig;

    rig_start_builtin(&rig, "dedup", "{}");
    cr_assert_str_eq(rig_send(&rig, "k", "1"), "k=1;");
    cr_assert_str_eq(rig_send(&rig, "k", "1"), "");
    cr_assert_str_eq(rig_send(&rig, "k", "2"), "k=2;");
    cr_assert_str_eq(rig_send(&rig, "k", "1"), "");
    cr_assert_str_eq(rig_send(&rig, "other", "1"), "other=1;");
    cr_assert_str_eq(rig_send(&rig, "k", ""), "k=;");
    cr_assert_str_eq(rig_send(&rig, "k", NULL), "k=~;"); /* null is not empty */
    cr_assert_str_eq(rig_send(&rig, "k", NULL), "");
    cr_assert_str_eq(rig_send(&rig, "k", ""), "");
    rig_finish(&rig);
}

Test(logic_dedup, by_key_passes_one_record_a_key)
{
    struct rig rig;

    rig_start_builtin(&rig, "dedup", "{\"by\":\"key\"}");
    cr_assert_str_eq(rig_send(&rig, "k", "1"), "k=1;");
    cr_assert_str_eq(rig_send(&rig, "k", "2"), "");
    cr_assert_str_eq(rig_send(&rig, "", "2"), "=2;");
    cr_assert_str_eq(rig_send(&rig, "", NULL), "");
    cr_assert_eq(fake_store_rows(rig.store), 2);
    rig_finish(&rig);
}

static const char *send_with_id(struct rig *rig, const char *value, const char *id)
{
    struct baton_header headers[] = {{.name = "id", .value = rig_bytes("overridden")},
                                     {.name = "id", .value = rig_bytes(id)},
                                     {.name = "id2", .value = rig_bytes(value)}};
    struct baton_record record = rig_record("k", value);

    record.headers = headers;
    record.header_count = 3;
    return rig_apply(rig, &record);
}

Test(logic_dedup, by_header_goes_by_the_last_header_of_that_name)
{
    struct rig rig;

    rig_start_builtin(&rig, "dedup", "{\"by\":\"header:id\"}");
    cr_assert_str_eq(send_with_id(&rig, "1", "x"), "k=1[id:overridden,id:x,id2:1,];");
    cr_assert_str_eq(send_with_id(&rig, "2", "x"), "");
    cr_assert_str_eq(send_with_id(&rig, "3", "y"), "k=3[id:overridden,id:y,id2:3,];");
    cr_assert_str_eq(send_with_id(&rig, "4", NULL), "k=4[id:overridden,id:~,id2:4,];");
    cr_assert_str_eq(send_with_id(&rig, "5", NULL), "");
    cr_assert_str_eq(rig_send(&rig, "k", "6"), "error: dedup: the record has no header \"id\"");
    cr_assert_eq(rig.err.code, ERR_LOGIC);
    rig_finish(&rig);
}

Test(logic_dedup, the_oldest_is_forgotten_first_and_repeats_do_not_renew)
{
    struct rig rig;

    rig_start_builtin(&rig, "dedup", "{\"max_remembered\":3}");
    /* d pushes a out although a was repeated last; then a pushes b out, b pushes c out. */
    cr_assert_str_eq(passing(&rig, "abcad"), "abcd");
    cr_assert_str_eq(passing(&rig, "abcdd"), "abcd");
    cr_assert_str_eq(passing(&rig, "dcb"), "");
    /* Goal: bounded. Three identities, three numbers, the main row. */
    cr_assert_eq(fake_store_rows(rig.store), 7);
    rig_finish(&rig);
}

Test(logic_dedup, one_remembered_drops_only_runs)
{
    struct rig rig;

    rig_start_builtin(&rig, "dedup", "{\"max_remembered\":1}");
    cr_assert_str_eq(passing(&rig, "aabbbaab"), "abab");
    rig_finish(&rig);
}

Test(logic_dedup, cost_of_a_record_does_not_grow_with_what_is_remembered)
{
    struct rig rig;
    unsigned reads, writes;

    rig_start_builtin(&rig, "dedup", "{\"max_remembered\":500}");
    for (int i = 0; i < 1500; i++) {
        char value[16];

        reads = fake_store_reads(rig.store);
        writes = fake_store_writes(rig.store);
        snprintf(value, sizeof(value), "%d", i);
        cr_assert_str_neq(rig_send(&rig, "k", value), "");
        cr_assert_leq(fake_store_reads(rig.store) - reads, 4);
        cr_assert_leq(fake_store_writes(rig.store) - writes, 5);
        reads = fake_store_reads(rig.store);
        writes = fake_store_writes(rig.store);
        cr_assert_str_eq(rig_send(&rig, "k", value), ""); /* a repeat: one read, no write */
        cr_assert_eq(fake_store_reads(rig.store) - reads, 1);
        cr_assert_eq(fake_store_writes(rig.store) - writes, 0);
    }
    cr_assert_eq(fake_store_rows(rig.store), 1001);
    rig_finish(&rig);
}

Test(logic_dedup, by_default_a_thousand_are_remembered)
{
    struct rig rig;
    char value[16];

    rig_start_builtin(&rig, "dedup", "{}");
    for (int i = 0; i < 1001; i++) {
        snprintf(value, sizeof(value), "%d", i);
        rig_send(&rig, "k", value);
    }
    cr_assert_str_eq(rig_send(&rig, "k", "1"), "");
    cr_assert_str_eq(rig_send(&rig, "k", "0"), "k=0;"); /* the thousand-and-first pushed it out */
    rig_finish(&rig);
}

Test(logic_dedup, with_state_ttl_an_identity_passes_again_after_it)
{
    struct rig rig;

    rig_start_builtin(&rig, "dedup", "{\"max_remembered\":2}");
    rig.place.state_ttl_ms = 100;
    cr_assert_str_eq(passing(&rig, "a"), "a"); /* number 0, at 1000 */
    rig.place.record_time_ms = 1090;
    cr_assert_str_eq(passing(&rig, "ab"), "b"); /* number 1 */
    rig.place.record_time_ms = 1101;
    cr_assert_str_eq(passing(&rig, "aba"), "a"); /* number 2; number 0 has expired by itself */
    rig.place.record_time_ms = 1150;
    cr_assert_str_eq(passing(&rig, "ab"), "");
    rig_finish(&rig);
}

Test(logic_dedup, an_identity_that_came_again_outlives_its_old_number)
{
    struct rig rig;

    /* Goal: the old number's row is still there, its identity expired and has a newer number. Times
     * of the two input partitions of one key may differ after an expansion, so the order of the
     * rows' times is not given. */
    rig_start_builtin(&rig, "dedup", "{\"max_remembered\":3}");
    rig.place.state_ttl_ms = 100;
    cr_assert_str_eq(passing(&rig, "a"), "a"); /* number 0 */
    rig.place.record_time_ms = 1050;
    cr_assert_str_eq(passing(&rig, "b"), "b"); /* number 1 */
    rig.place.record_time_ms = 1120;
    cr_assert_str_eq(passing(&rig, "a"), "a"); /* number 2, its number 0 has expired */
    rig.place.record_time_ms = 1060;           /* not so for this partition */
    cr_assert_str_eq(passing(&rig, "c"), "c"); /* pushes number 0 out */
    cr_assert_str_eq(passing(&rig, "abc"), "");
    rig_finish(&rig);
}

/* A dedup of single-byte values as simply as can be written: a list of what is remembered, oldest
 * first. */
struct model {
    char remembered[16];
    size_t count, max;
};

static bool model_passes(struct model *model, char value)
{
    if (memchr(model->remembered, value, model->count) != NULL)
        return false;
    if (model->count == model->max) {
        model->count--;
        memmove(model->remembered, model->remembered + 1, model->count);
    }
    model->remembered[model->count++] = value;
    return true;
}

Test(logic_dedup, equals_a_list_of_the_last_distinct_values)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct model model = {.max = 1 + seed % 9};
        char config[64], value[2] = "";
        struct rng rng;
        struct rig rig;

        rng_init(&rng, seed);
        snprintf(config, sizeof(config), "{\"max_remembered\":%zu}", model.max);
        rig_start_builtin(&rig, "dedup", config);
        for (int i = 0; i < 400; i++) {
            value[0] = (char)('a' + rng_below(&rng, 14));
            rig.replaying = rng_below(&rng, 4) == 0;
            bool passed = rig_send(&rig, "k", value)[0] != '\0';
            bool expected = model_passes(&model, value[0]);
            cr_assert_eq(passed, expected && !rig.replaying, "seed %d, record %d", (int)seed, i);
        }
        cr_assert_eq(fake_store_rows(rig.store), 1 + 2 * model.count);
        rig_finish(&rig);
    }
}
