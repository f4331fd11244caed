#include "agent/logic.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scripted.h"

/* ---- changes and outputs --------------------------------------------------------------------- */

static enum baton_status put_a_b_c(struct scripted_call *call)
{
    scripted_put(call, "b", "2");
    scripted_put(call, "a", "1");
    scripted_put(call, "c", "3");
    return BATON_PROCESSOR_OK;
}

static enum baton_status change_and_look(struct scripted_call *call)
{
    cr_assert_str_eq(scripted_get(call, "b"), "2");
    scripted_put(call, "b", "two");
    cr_assert_str_eq(scripted_get(call, "b"), "two");
    scripted_del(call, "a");
    cr_assert_str_eq(scripted_get(call, "a"), "-");
    scripted_put(call, "a0", "between");
    scripted_put(call, "d", "last");
    scripted_del(call, "d");
    scripted_put(call, "", "main");
    scripted_put(call, "c", "");
    cr_assert_str_eq(scripted_get(call, "c"), "");
    cr_assert_str_eq(scripted_get(call, "nowhere"), "-");
    scripted_assert_rows(call, "=main a0=between b=two c= ");
    return BATON_PROCESSOR_OK;
}

static enum baton_status change_look_and_fail(struct scripted_call *call)
{
    change_and_look(call);
    scripted_emit(call, "k", "never");
    snprintf(call->error, call->error_bytes, "changed its mind");
    return BATON_PROCESSOR_ERROR;
}

Test(logic, a_call_reads_its_own_writes_and_stores_them_when_it_succeeds)
{
    struct rig rig;

    scripted_start(&rig, true);
    cr_assert_str_eq(scripted_run(&rig, put_a_b_c), "");
    scripted_assert_stored(&rig, "3/k/a=1@1000\n3/k/b=2@1000\n3/k/c=3@1000\n");

    /* Goal: an error leaves no trace, and the next call starts from what was. */
    cr_assert_str_eq(scripted_run(&rig, change_look_and_fail), "error: scripted: changed its mind");
    cr_assert_eq(rig.err.code, ERR_LOGIC);
    scripted_assert_stored(&rig, "3/k/a=1@1000\n3/k/b=2@1000\n3/k/c=3@1000\n");

    rig.place.record_time_ms = 2000;
    cr_assert_str_eq(scripted_run(&rig, change_and_look), "");
    scripted_assert_stored(&rig,
                           "3/k/=main@2000\n3/k/a0=between@2000\n3/k/b=two@2000\n3/k/c=@2000\n");
    rig_finish(&rig);
    cr_assert_eq(scripted_destroyed, 1);
}

static enum baton_status see_nothing(struct scripted_call *call)
{
    scripted_assert_rows(call, "");
    cr_assert_str_eq(scripted_get(call, "a"), "-");
    return BATON_PROCESSOR_OK;
}

Test(logic, rows_belong_to_one_key_and_root)
{
    struct rig rig;

    scripted_start(&rig, true);
    scripted_run(&rig, put_a_b_c);
    scripted_process = see_nothing;
    cr_assert_str_eq(rig_send(&rig, "", "v"), "");
    cr_assert_str_eq(rig_send(&rig, "kk", "v"), "");
    rig.place.root = 4;
    cr_assert_str_eq(rig_send(&rig, "k", "v"), "");
    rig_finish(&rig);
}

static enum baton_status stop_after_two(void *arg, struct baton_bytes subkey,
                                        struct baton_bytes value)
{
    scripted_add_row(arg, subkey, value);
    return strchr(strchr(strbuf_text(arg), ' ') + 1, ' ') == NULL ? BATON_PROCESSOR_OK
                                                                  : BATON_PROCESSOR_STOP;
}

static enum baton_status refuse_row(void *arg, struct baton_bytes subkey, struct baton_bytes value)
{
    (void)subkey; /* any row will do */
    (void)value;
    ++*(int *)arg;
    return BATON_PROCESSOR_ERROR;
}

static enum baton_status iterate_in_part(struct scripted_call *call)
{
    struct strbuf text = {.data = NULL};
    int visits = 0;

    /* The stop falls on a stored row, then on a changed one before and after all stored ones. */
    cr_assert_eq(call->operations->iterate(call->context, stop_after_two, &text),
                 BATON_PROCESSOR_OK);
    cr_assert_str_eq(strbuf_text(&text), "a=1 b=2 ");
    scripted_put(call, "Z", "0");
    scripted_put(call, "aa", "1.5");
    strbuf_clear(&text);
    cr_assert_eq(call->operations->iterate(call->context, stop_after_two, &text),
                 BATON_PROCESSOR_OK);
    cr_assert_str_eq(strbuf_text(&text), "Z=0 a=1 ");
    scripted_del(call, "Z");
    scripted_del(call, "a");
    scripted_del(call, "b");
    scripted_del(call, "c");
    scripted_put(call, "x", "1");
    scripted_put(call, "y", "2");
    strbuf_clear(&text);
    cr_assert_eq(call->operations->iterate(call->context, stop_after_two, &text),
                 BATON_PROCESSOR_OK);
    cr_assert_str_eq(strbuf_text(&text), "aa=1.5 x=1 ");
    strbuf_finish(&text);

    cr_assert_eq(call->operations->iterate(call->context, refuse_row, &visits),
                 BATON_PROCESSOR_ERROR);
    cr_assert_eq(visits, 1);
    return BATON_PROCESSOR_OK;
}

Test(logic, a_visitor_ends_the_iteration)
{
    struct rig rig;

    scripted_start(&rig, true);
    scripted_run(&rig, put_a_b_c);
    cr_assert_str_eq(scripted_run(&rig, iterate_in_part), "");
    rig_finish(&rig);
}

static enum baton_status copy_rows_around(struct scripted_call *call)
{
    struct baton_bytes value, other;

    /* Goal: what get handed out may be the argument of the very next call. */
    cr_assert_eq(call->operations->get(call->context, rig_bytes("a"), &value), BATON_PROCESSOR_OK);
    cr_assert_eq(call->operations->get(call->context, value, &other), BATON_PROCESSOR_OK);
    cr_assert_eq(call->operations->put(call->context, other, other), BATON_PROCESSOR_OK);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(call->operations->get(call->context, rig_bytes("found"), &value),
                     BATON_PROCESSOR_OK);
        cr_assert_eq(call->operations->put(call->context, rig_bytes("found"), value),
                     BATON_PROCESSOR_OK);
    }
    return BATON_PROCESSOR_OK;
}

static enum baton_status put_references(struct scripted_call *call)
{
    scripted_put(call, "a", "b");
    scripted_put(call, "b", "found");
    return BATON_PROCESSOR_OK;
}

Test(logic, arguments_may_be_what_get_handed_out)
{
    struct rig rig;

    scripted_start(&rig, true);
    scripted_run(&rig, put_references);
    cr_assert_str_eq(scripted_run(&rig, copy_rows_around), "");
    scripted_assert_stored(&rig, "3/k/a=b@1000\n3/k/b=found@1000\n3/k/found=found@1000\n");
    rig_finish(&rig);
}

static enum baton_status emit_from_one_buffer(struct scripted_call *call)
{
    char key[16], value[16], name[16];
    struct baton_header header = {.name = name, .value = {.data = value, .bytes = 2}};
    struct baton_output output = {.key = {.data = key, .bytes = 2},
                                  .value = {.data = value, .bytes = 2},
                                  .headers = &header,
                                  .header_count = 1};

    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        snprintf(value, sizeof(value), "v%d", i);
        snprintf(name, sizeof(name), "h%d", i);
        cr_assert_eq(call->operations->emit(call->context, &output), BATON_PROCESSOR_OK);
    }
    memset(key, 'x', sizeof(key));
    memset(value, 'x', sizeof(value));
    memset(name, 'x', sizeof(name));
    return BATON_PROCESSOR_OK;
}

Test(logic, outputs_are_copied_and_keep_their_order)
{
    struct rig rig;

    scripted_start(&rig, true);
    cr_assert_str_eq(scripted_run(&rig, emit_from_one_buffer),
                     "k0=v0[h0:v0,];k1=v1[h1:v1,];k2=v2[h2:v2,];");
    rig.replaying = true;
    cr_assert_str_eq(scripted_run(&rig, emit_from_one_buffer), "");
    rig_finish(&rig);
}

static enum baton_status emit_kinds(struct scripted_call *call)
{
    struct baton_header headers[] = {{.name = "a", .value = {.data = "1", .bytes = 1}},
                                     {.name = "a", .value = {.data = NULL}}};
    struct baton_output output = {.key = rig_bytes(NULL), .value = rig_bytes("keyless")};

    call->operations->emit(call->context, &output); /* headers of the input */
    output = (struct baton_output){.key = rig_bytes("k"), .headers = headers};
    call->operations->emit(call->context, &output); /* a tombstone without headers */
    output.value = rig_bytes("");
    output.header_count = 2;
    call->operations->emit(call->context, &output); /* an empty value, own headers */
    return BATON_PROCESSOR_OK;
}

Test(logic, headers_are_passed_on_unless_the_output_has_its_own)
{
    const struct baton_header headers[] = {{.name = "trace", .value = {.data = "t1", .bytes = 2}},
                                           {.name = "none", .value = {.data = NULL}}};
    struct baton_record record = rig_record("k", "v");
    struct rig rig;

    scripted_start(&rig, true);
    record.headers = headers;
    record.header_count = 2;
    scripted_process = emit_kinds;
    cr_assert_str_eq(rig_apply(&rig, &record), "~=keyless[trace:t1,none:~,];k=~;k=[a:1,a:~,];");
    rig_finish(&rig);
}

/* ---- failures -------------------------------------------------------------------------------- */

static enum baton_status status_to_return;

static enum baton_status return_status(struct scripted_call *call)
{
    scripted_put(call, "a", "1");
    scripted_emit(call, "k", "v");
    return status_to_return;
}

Test(logic, a_status_that_is_not_ok_undoes_the_call)
{
    static const struct {
        enum baton_status status;
        enum err_code code;
        const char *text;
    } cases[] = {
        {BATON_PROCESSOR_ERROR, ERR_LOGIC, "error: scripted: it gives no reason"},
        {BATON_PROCESSOR_LIMIT, ERR_LOGIC,
         "error: scripted: over a limit of state or output: it gives no reason"},
        {BATON_PROCESSOR_NOT_FOUND, ERR_LOGIC,
         "error: scripted: process() returned 1, which is not one of its answers"},
        {BATON_PROCESSOR_STOP, ERR_LOGIC,
         "error: scripted: process() returned 2, which is not one of its answers"},
        {(enum baton_status)77, ERR_LOGIC,
         "error: scripted: process() returned 77, which is not one of its answers"},
        /* Not an error of the record, so nothing that a policy may skip. */
        {BATON_PROCESSOR_IO, ERR_IO, "error: scripted can not read its state: it gives no reason"},
    };
    struct rig rig;

    scripted_start(&rig, true);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        status_to_return = cases[i].status;
        cr_assert_str_eq(scripted_run(&rig, return_status), cases[i].text);
        cr_assert_eq(rig.err.code, cases[i].code);
        cr_assert_eq(fake_store_writes(rig.store), 0);
        rig.replaying = !rig.replaying; /* the outcome is the same in a replay */
        cr_assert_str_eq(scripted_run(&rig, return_status), cases[i].text);
        rig.replaying = !rig.replaying;
    }
    status_to_return = BATON_PROCESSOR_OK;
    cr_assert_str_eq(scripted_run(&rig, return_status), "k=v;");
    rig_finish(&rig);
}

static enum baton_status overflow_error_text(struct scripted_call *call)
{
    memset(call->error, 'e', call->error_bytes); /* no NUL */
    return BATON_PROCESSOR_ERROR;
}

static enum baton_status bad_error_text(struct scripted_call *call)
{
    snprintf(call->error, call->error_bytes, "\xff\xfe!");
    return BATON_PROCESSOR_ERROR;
}

Test(logic, error_texts_are_bounded_and_utf8)
{
    struct rig rig;

    scripted_start(&rig, true);
    cr_assert_not_null(strstr(scripted_run(&rig, overflow_error_text), "eeee..."));
    cr_assert_str_eq(scripted_run(&rig, bad_error_text), "error: scripted: ?\?!");
    rig_finish(&rig);
}

static enum baton_status swallow_get(struct scripted_call *call)
{
    scripted_put(call, "a", "1");
    scripted_emit(call, "k", "v");
    cr_assert_str_eq(scripted_get(call, "b"), "?");
    /* The call is lost: it must not go on with half a view of its state. */
    cr_assert_eq(scripted_put(call, "b", "0"), BATON_PROCESSOR_IO);
    cr_assert_eq(scripted_del(call, "b"), BATON_PROCESSOR_IO);
    cr_assert_eq(scripted_emit(call, "k", "v"), BATON_PROCESSOR_IO);
    cr_assert_str_eq(scripted_get(call, "a"), "?");
    cr_assert_eq(call->operations->iterate(call->context, scripted_add_row, NULL),
                 BATON_PROCESSOR_IO);
    return BATON_PROCESSOR_OK;
}

static enum baton_status swallow_iterate(struct scripted_call *call)
{
    struct strbuf text = {.data = NULL};

    scripted_put(call, "a", "1");
    cr_assert_eq(call->operations->iterate(call->context, scripted_add_row, &text),
                 BATON_PROCESSOR_IO);
    cr_assert_eq(text.bytes, 0);
    snprintf(call->error, call->error_bytes, "hides the cause");
    return BATON_PROCESSOR_ERROR;
}

Test(logic, a_store_that_fails_stops_the_task_whatever_the_logic_returns)
{
    struct rig rig;

    scripted_start(&rig, true);
    fake_store_fail(rig.store, 1, ERR_IO);
    cr_assert_str_eq(scripted_run(&rig, swallow_get), "error: the fake store fails read 1");
    cr_assert_eq(rig.err.code, ERR_IO);
    cr_assert_eq(fake_store_writes(rig.store), 0);

    fake_store_fail(rig.store, 1, ERR_CORRUPT);
    cr_assert_str_eq(scripted_run(&rig, swallow_iterate), "error: the fake store fails read 2");
    cr_assert_eq(rig.err.code, ERR_CORRUPT);
    cr_assert_eq(fake_store_writes(rig.store), 0);

    cr_assert_str_eq(scripted_run(&rig, put_a_b_c), ""); /* nothing sticks to the logic */
    rig_finish(&rig);
}

Test(logic, a_caller_may_not_want_the_text)
{
    struct baton_record record = rig_record("k", "v");
    struct rig rig;

    scripted_start(&rig, true);
    scripted_process = overflow_error_text;
    cr_assert_eq(logic_apply(rig.logic, rig.store, rig.place, &record, NULL, NULL), ERR_LOGIC);
    scripted_process = swallow_get;
    fake_store_fail(rig.store, 1, ERR_CORRUPT);
    cr_assert_eq(logic_apply(rig.logic, rig.store, rig.place, &record, NULL, NULL), ERR_CORRUPT);
    rig_finish(&rig);
}

static enum baton_status never_called(struct scripted_call *call)
{
    (void)call; /* it is a mistake that it was called */
    cr_assert_fail();
    return BATON_PROCESSOR_OK;
}

Test(logic, a_record_without_key_is_refused)
{
    struct baton_record record = rig_record(NULL, "v");
    struct rig rig;

    scripted_start(&rig, true);
    scripted_process = never_called;
    cr_assert_str_eq(rig_apply(&rig, &record),
                     "error: scripted: the record has no key, and state belongs to keys");
    cr_assert_eq(rig.err.code, ERR_LOGIC);
    scripted_process = put_a_b_c;
    record = rig_record("", "v"); /* an empty key is a key */
    cr_assert_str_eq(rig_apply(&rig, &record), "");
    cr_assert_eq(fake_store_rows(rig.store), 3);
    rig_finish(&rig);
}

static enum baton_status emit_and_ignore(struct scripted_call *call)
{
    scripted_put(call, "a", "1");
    cr_assert_eq(scripted_emit(call, "k", "v"), BATON_PROCESSOR_ERROR);
    return BATON_PROCESSOR_OK;
}

Test(logic, emitting_fails_the_record_when_the_job_has_no_output)
{
    const char *text =
        "error: scripted: emits, but the job has no output topic (spec field \"output\")";
    struct rig rig;

    scripted_start(&rig, false);
    cr_assert_str_eq(scripted_run(&rig, emit_and_ignore), text);
    rig.replaying = true;
    cr_assert_str_eq(scripted_run(&rig, emit_and_ignore), text);
    cr_assert_eq(fake_store_writes(rig.store), 0);
    cr_assert_str_eq(scripted_run(&rig, put_a_b_c), ""); /* one that does not emit is fine */
    rig_finish(&rig);
}

/* ---- creation -------------------------------------------------------------------------------- */

static void assert_refused_spec(struct logic_spec spec, enum err_code code, const char *part)
{
    struct logic *logic = (struct logic *)&spec; /* to see that it stays untouched */
    struct err err;

    cr_assert_eq(logic_create(&spec, &logic, &err), code);
    cr_assert_eq((void *)logic, (void *)&spec);
    cr_assert_not_null(strstr(err.text, part), "\"%s\" lacks \"%s\"", err.text, part);
}

Test(logic, create_says_what_is_wrong)
{
    struct logic_spec good = {.kind = LOGIC_KIND_BUILTIN, .name = "count", .version = "1"};
    struct logic_spec spec = good;
    char name[65];

    spec.name = "counter";
    assert_refused_spec(spec, ERR_NOT_FOUND,
                        "no built-in logic \"counter\"; this agent has count, dedup, latest, sum");
    spec = good;
    spec.version = "2";
    assert_refused_spec(spec, ERR_UNSUPPORTED, "has version \"1\" here, the job asks for \"2\"");
    spec = good;
    spec.config = "{\"step\":2}";
    assert_refused_spec(spec, ERR_INVALID, "logic.config: count 1 refuses it: /step");
    spec = good;
    spec.kind = LOGIC_KIND_EXEC;
    assert_refused_spec(spec, ERR_UNSUPPORTED, "logic.kind");
    spec = good;
    spec.kind = LOGIC_KIND_PLUGIN;
    assert_refused_spec(spec, ERR_NOT_FOUND, "no plugin_dir: set it and put count-1.so there");

    static const char *const bad[] = {"",   "..", "../count", "a/b",      "a..b", "Count",
                                      "-a", ".a", "a b",      "\xc3\xa4", NULL,   "a\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        spec = good;
        spec.name = bad[i];
        assert_refused_spec(spec, ERR_INVALID, "logic.name: must be");
        spec = good;
        spec.version = bad[i];
        assert_refused_spec(spec, ERR_INVALID, "logic.version: must be");
    }
    memset(name, 'a', 64);
    name[64] = '\0';
    spec = good;
    spec.name = name;
    assert_refused_spec(spec, ERR_INVALID, "logic.name: must be 1 to 63");
    name[63] = '\0';
    assert_refused_spec(spec, ERR_NOT_FOUND, "no built-in logic");
}

Test(logic, destroying_nothing_is_fine)
{
    logic_destroy(NULL);
    cr_assert_eq(scripted_destroyed, 0);
}

/* ---- no state -------------------------------------------------------------------------------- */

static enum baton_status touch_state_and_hide_it(struct scripted_call *call)
{
    struct baton_bytes value = {.data = NULL}, subkey = {.data = NULL};
    struct baton_context *context = call->context;

    cr_assert_eq(call->operations->get(context, subkey, &value), BATON_PROCESSOR_ERROR);
    cr_assert_eq(call->operations->put(context, subkey, (struct baton_bytes){"v", 1}),
                 BATON_PROCESSOR_ERROR);
    cr_assert_eq(call->operations->del(context, subkey), BATON_PROCESSOR_ERROR);
    return BATON_PROCESSOR_OK;
}

static enum baton_status emit_only(struct scripted_call *call)
{
    scripted_emit(call, "k", "passed on");
    return BATON_PROCESSOR_OK;
}

Test(logic, a_stateless_job_has_no_state_to_touch)
{
    struct rig rig;
    struct store *store;

    scripted_start(&rig, true);
    store = rig.store;
    rig.store = NULL;
    cr_assert_str_eq(scripted_run(&rig, emit_only), "k=passed on;");
    cr_assert_str_eq(scripted_run(&rig, touch_state_and_hide_it),
                     "error: scripted: uses state, but the job has none (spec field \"stateful\")");
    cr_assert_eq(rig.err.code, ERR_LOGIC);
    rig.store = store;
    rig_finish(&rig);
}
