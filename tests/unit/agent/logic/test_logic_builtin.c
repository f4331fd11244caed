#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/logic_private.h"
#include "rig.h"

static void assert_stored(const struct rig *rig, const char *expected)
{
    char *dump = fake_store_dump(rig->store);

    cr_assert_str_eq(dump, expected);
    free(dump);
}

/* ---- the table ------------------------------------------------------------------------------- */

Test(logic_builtin, each_is_complete_and_of_version_1)
{
    static const char *const names[] = {"count", "sum", "latest", "dedup"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct baton_processor *processor = logic_builtin(names[i]);

        cr_assert_not_null(processor, "%s", names[i]);
        cr_assert_eq(processor->abi, BATON_PROCESSOR_ABI);
        cr_assert_str_eq(processor->name, names[i]);
        cr_assert_str_eq(processor->version, "1");
        cr_assert_not_null(processor->create);
        cr_assert_not_null(processor->process);
        cr_assert_not_null(processor->destroy);
        /* Only what the newest record of a key restores may take its history from a compacted topic
         * (D3.6). */
        cr_assert_eq(processor->flags == BATON_PROCESSOR_REBUILD_FROM_LATEST,
                     strcmp(names[i], "latest") == 0);
    }
    cr_assert_null(logic_builtin("counts"));
    cr_assert_null(logic_builtin(""));
}

Test(logic_builtin, those_without_config_refuse_every_key_by_name)
{
    static const char *const names[] = {"count", "sum", "latest"};
    struct logic_spec spec = {.kind = LOGIC_KIND_BUILTIN, .version = "1", .has_output = true};
    struct logic *logic = NULL;
    struct err err;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        spec.name = names[i];
        spec.config = "{\"colour\":\"red\"}";
        cr_assert_eq(logic_create(&spec, &logic, &err), ERR_INVALID);
        cr_assert_not_null(strstr(err.text, "/colour"), "%s", err.text);
        spec.config = "[]";
        cr_assert_eq(logic_create(&spec, &logic, &err), ERR_INVALID);
        spec.config = "{";
        cr_assert_eq(logic_create(&spec, &logic, &err), ERR_INVALID);
        spec.config = NULL;
        cr_assert_eq(logic_create(&spec, &logic, &err), ERR_NONE);
        cr_assert_eq(logic_processor(logic), logic_builtin(names[i]));
        logic_destroy(logic);
    }
}

/* ---- count ----------------------------------------------------------------------------------- */

Test(logic_builtin, count_counts_each_key_by_itself)
{
    struct rig rig;

    rig_start_builtin(&rig, "count", "{}");
    cr_assert_str_eq(rig_send(&rig, "a", "x"), "a=1;");
    cr_assert_str_eq(rig_send(&rig, "b", "x"), "b=1;");
    cr_assert_str_eq(rig_send(&rig, "a", NULL), "a=2;"); /* a tombstone is a record */
    cr_assert_str_eq(rig_send(&rig, "", "x"), "=1;");
    cr_assert_str_eq(rig_send(&rig, "a", "x"), "a=3;");
    assert_stored(&rig, "3//=\\00\\00\\00\\00\\00\\00\\00\\01@1000\n"
                        "3/a/=\\00\\00\\00\\00\\00\\00\\00\\03@1000\n"
                        "3/b/=\\00\\00\\00\\00\\00\\00\\00\\01@1000\n");
    rig_finish(&rig);
}

Test(logic_builtin, count_goes_on_from_a_silent_replay)
{
    struct rig rig;

    rig_start_builtin(&rig, "count", "{}");
    rig.replaying = true;
    for (int i = 0; i < 300; i++)
        cr_assert_str_eq(rig_send(&rig, "a", "x"), "");
    rig.replaying = false;
    cr_assert_str_eq(rig_send(&rig, "a", "x"), "a=301;");
    rig_finish(&rig);
}

Test(logic_builtin, count_reads_and_writes_once_a_record)
{
    struct rig rig;

    rig_start_builtin(&rig, "count", "{}");
    for (int i = 0; i < 10; i++)
        rig_send(&rig, "a", "x");
    cr_assert_eq(fake_store_reads(rig.store), 10);
    cr_assert_eq(fake_store_writes(rig.store), 10);
    rig_finish(&rig);
}

static void store_main_row(struct rig *rig, const void *value, size_t bytes)
{
    store_put(rig->store, (struct store_row){.root = 3, .key = "a", .key_bytes = 1}, 1000, value,
              bytes);
}

Test(logic_builtin, count_and_sum_do_not_guess_at_a_strange_row)
{
    static const char *const names[] = {"count", "sum"};
    struct rig rig;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        rig_start_builtin(&rig, names[i], "{}");
        store_main_row(&rig, "12", 2);
        cr_assert_not_null(
            strstr(rig_send(&rig, "a", "1"), "can not read its state: a row of 2 bytes"));
        cr_assert_eq(rig.err.code, ERR_IO); /* not an error that a policy may skip */
        assert_stored(&rig, "3/a/=12@1000\n");
        rig_finish(&rig);
    }
}

Test(logic_builtin, count_ends_at_64_bits)
{
    struct rig rig;

    rig_start_builtin(&rig, "count", "{}");
    store_main_row(&rig, "\x7f\xff\xff\xff\xff\xff\xff\xfe", 8);
    cr_assert_str_eq(rig_send(&rig, "a", "x"), "a=9223372036854775807;");
    cr_assert_str_eq(rig_send(&rig, "a", "x"), "error: count: the count would pass 64 bits");
    cr_assert_eq(rig.err.code, ERR_LOGIC);
    rig_finish(&rig);
}

Test(logic_builtin, store_failures_reach_the_caller)
{
    static const char *const names[] = {"count", "sum", "dedup"};
    struct rig rig;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        rig_start_builtin(&rig, names[i], "{}");
        fake_store_fail(rig.store, 1, ERR_CORRUPT);
        rig_send(&rig, "a", "1");
        cr_assert_eq(rig.err.code, ERR_CORRUPT);
        rig_finish(&rig);
    }
}

/* ---- sum ------------------------------------------------------------------------------------- */

Test(logic_builtin, sum_adds_up)
{
    static const struct {
        const char *value, *outputs;
    } steps[] = {
        {"5", "a=5;"},
        {"-7", "a=-2;"},
        {"+3", "a=1;"},
        {"0", "a=1;"},
        {"-0", "a=1;"},
        {"000000000000000000000000000000000000012", "a=13;"},
        {"9223372036854775794", "a=9223372036854775807;"},
        {"-9223372036854775808", "a=-1;"},
        {"-9223372036854775807", "a=-9223372036854775808;"},
    };
    struct rig rig;

    rig_start_builtin(&rig, "sum", "{}");
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        cr_assert_str_eq(rig_send(&rig, "a", steps[i].value), steps[i].outputs);
    rig_finish(&rig);
}

Test(logic_builtin, sum_refuses_what_is_not_a_number_and_says_nothing_of_the_content)
{
    static const char *const bad[] = {
        "",
        "-",
        "+",
        "abc123",
        "12 ",
        " 12",
        "1.5",
        "1e3",
        "--1",
        "0x10",
        "1,000",
        "1\n",
        "\xc2\xb2", /* a superscript two */
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999999",
    };
    struct rig rig;

    rig_start_builtin(&rig, "sum", "{}");
    rig_send(&rig, "a", "1");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_str_eq(rig_send(&rig, "a", bad[i]),
                         "error: sum: the value is not a number; a decimal integer of 64 bits is "
                         "wanted (optional sign, then digits)");
        cr_assert_eq(rig.err.code, ERR_LOGIC);
    }
    cr_assert_not_null(strstr(rig_send(&rig, "a", NULL), "the value is null"));
    cr_assert_str_eq(rig_send(&rig, "a", "1"), "a=2;");
    rig_finish(&rig);
}

Test(logic_builtin, sum_reads_no_further_than_the_value)
{
    struct baton_record record = rig_record("a", "12345");
    struct rig rig;

    rig_start_builtin(&rig, "sum", "{}");
    record.value.bytes = 2;
    cr_assert_str_eq(rig_apply(&rig, &record), "a=12;");
    record.value = (struct baton_bytes){.data = "1\0", .bytes = 2}; /* a NUL is no digit */
    rig_apply(&rig, &record);
    cr_assert_eq(rig.err.code, ERR_LOGIC);
    rig_finish(&rig);
}

Test(logic_builtin, sum_refuses_an_overflow_and_keeps_its_state)
{
    struct rig rig;

    rig_start_builtin(&rig, "sum", "{}");
    rig_send(&rig, "a", "9223372036854775807");
    cr_assert_str_eq(rig_send(&rig, "a", "1"),
                     "error: sum: the sum would leave the range of 64-bit integers");
    cr_assert_str_eq(rig_send(&rig, "a", "-9223372036854775808"), "a=-1;");
    rig_send(&rig, "b", "-9223372036854775808");
    rig_send(&rig, "b", "-1");
    cr_assert_eq(rig.err.code, ERR_LOGIC);
    cr_assert_str_eq(rig_send(&rig, "b", "1"), "b=-9223372036854775807;");
    rig_finish(&rig);
}

/* ---- latest ---------------------------------------------------------------------------------- */

Test(logic_builtin, latest_keeps_the_last_value_and_a_tombstone_deletes)
{
    struct rig rig;

    rig_start_builtin(&rig, "latest", "{}");
    cr_assert_str_eq(rig_send(&rig, "a", "1"), "a=1;");
    cr_assert_str_eq(rig_send(&rig, "b", "1"), "b=1;");
    cr_assert_str_eq(rig_send(&rig, "a", "2"), "a=2;");
    assert_stored(&rig, "3/a/=2@1000\n3/b/=1@1000\n");
    cr_assert_str_eq(rig_send(&rig, "a", NULL), "a=~;");
    cr_assert_str_eq(rig_send(&rig, "c", NULL), "c=~;"); /* of nothing: passed on all the same */
    cr_assert_str_eq(rig_send(&rig, "b", ""), "b=;");    /* empty is not null */
    assert_stored(&rig, "3/b/=@1000\n");
    rig_finish(&rig);
}

Test(logic_builtin, latest_deletes_in_a_silent_replay_too)
{
    struct rig rig;

    rig_start_builtin(&rig, "latest", "{}");
    rig.replaying = true;
    rig_send(&rig, "a", "1");
    rig_send(&rig, "a", NULL);
    assert_stored(&rig, "");
    rig_finish(&rig);
}

Test(logic_builtin, latest_needs_no_read)
{
    struct rig rig;

    rig_start_builtin(&rig, "latest", "{}");
    rig_send(&rig, "a", "1");
    rig_send(&rig, "a", NULL);
    cr_assert_eq(fake_store_reads(rig.store), 0);
    rig_finish(&rig);
}
