/* What a logic may not do: use its context outside of the call, go over limits; and rows that end
 * by state_ttl. */
#include "agent/logic.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "scripted.h"

/* ---- misuse of the context ------------------------------------------------------------------- */

static struct scripted_call kept_call;

static enum baton_status keep_call(struct scripted_call *call)
{
    kept_call = *call;
    scripted_put(call, "a", "1");
    return BATON_PROCESSOR_OK;
}

static void assert_refused(struct scripted_call *call)
{
    struct baton_bytes value;
    struct strbuf text = {.data = NULL};

    cr_assert_eq(call->operations->get(call->context, rig_bytes("a"), &value),
                 BATON_PROCESSOR_ERROR);
    cr_assert_eq(scripted_put(call, "a", "misuse"), BATON_PROCESSOR_ERROR);
    cr_assert_eq(scripted_del(call, "a"), BATON_PROCESSOR_ERROR);
    cr_assert_eq(scripted_emit(call, "k", "misuse"), BATON_PROCESSOR_ERROR);
    cr_assert_eq(call->operations->iterate(call->context, scripted_add_row, &text),
                 BATON_PROCESSOR_ERROR);
    cr_assert_eq(text.bytes, 0);
}

Test(logic, a_context_kept_beyond_its_call_does_nothing)
{
    struct rig rig;

    scripted_start(&rig, true);
    cr_assert_str_eq(scripted_run(&rig, keep_call), "");
    assert_refused(&kept_call);
    cr_assert_str_eq(scripted_run(&rig, keep_call), "");
    scripted_assert_stored(&rig, "3/k/a=1@1000\n");
    rig_finish(&rig);
}

static void *use_in_thread(void *arg)
{
    assert_refused(arg);
    return NULL;
}

static enum baton_status start_thread(struct scripted_call *call)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, use_in_thread, call), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    return scripted_put(call, "a", "1");
}

Test(logic, a_context_in_another_thread_does_nothing)
{
    struct rig rig;

    scripted_start(&rig, true);
    cr_assert_str_eq(scripted_run(&rig, start_thread), "");
    scripted_assert_stored(&rig, "3/k/a=1@1000\n");
    rig_finish(&rig);
}

static enum baton_status misuse_in_visit(void *arg, struct baton_bytes subkey,
                                         struct baton_bytes value)
{
    (void)subkey; /* any row will do */
    (void)value;
    assert_refused(arg);
    return BATON_PROCESSOR_OK;
}

static enum baton_status misuse_in_iteration(struct scripted_call *call)
{
    scripted_put(call, "b", "2");
    cr_assert_eq(call->operations->iterate(call->context, misuse_in_visit, call),
                 BATON_PROCESSOR_OK);
    return scripted_put(call, "c", "3"); /* the iteration is over */
}

Test(logic, a_visitor_that_calls_the_context_does_nothing)
{
    struct rig rig;

    scripted_start(&rig, true);
    scripted_run(&rig, keep_call);
    cr_assert_str_eq(scripted_run(&rig, misuse_in_iteration), "");
    scripted_assert_stored(&rig, "3/k/a=1@1000\n3/k/b=2@1000\n3/k/c=3@1000\n");
    rig_finish(&rig);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static char *big; /* BATON_STATE_VALUE_BYTES_MAX + 1 zero bytes, of which few are touched */

static struct baton_bytes big_bytes(size_t bytes)
{
    return (struct baton_bytes){.data = big, .bytes = bytes};
}

static enum baton_status go_over_limits(struct scripted_call *call)
{
    const struct baton_operations *operations = call->operations;
    struct baton_context *context = call->context;
    struct baton_bytes null_with_length = {.data = NULL, .bytes = 1}, value;
    struct baton_header headers[] = {{.name = NULL}, {.name = "h", .value = null_with_length}};
    struct baton_output outputs[] = {
        {.key = big_bytes(1), .value = big_bytes(BATON_OUTPUT_BYTES_MAX)},
        {.key = big_bytes(BATON_OUTPUT_BYTES_MAX), .value = big_bytes(1)},
        {.key = big_bytes(SIZE_MAX), .value = big_bytes(SIZE_MAX)},
        {.key = null_with_length},
        {.value = null_with_length},
        {.header_count = 1},
        {.headers = headers, .header_count = 1},
        {.headers = headers + 1, .header_count = 1},
    };

    scripted_put(call, "a", "1");
    cr_assert_eq(operations->get(context, big_bytes(BATON_SUBKEY_BYTES_MAX + 1), &value),
                 BATON_PROCESSOR_LIMIT);
    cr_assert_eq(operations->get(context, null_with_length, &value), BATON_PROCESSOR_LIMIT);
    cr_assert_eq(operations->put(context, big_bytes(BATON_SUBKEY_BYTES_MAX + 1), big_bytes(1)),
                 BATON_PROCESSOR_LIMIT);
    cr_assert_eq(
        operations->put(context, rig_bytes("a"), big_bytes(BATON_STATE_VALUE_BYTES_MAX + 1)),
        BATON_PROCESSOR_LIMIT);
    cr_assert_eq(operations->put(context, rig_bytes("a"), rig_bytes(NULL)), BATON_PROCESSOR_LIMIT);
    cr_assert_eq(operations->put(context, rig_bytes("a"), null_with_length), BATON_PROCESSOR_LIMIT);
    cr_assert_eq(operations->del(context, big_bytes(BATON_SUBKEY_BYTES_MAX + 1)),
                 BATON_PROCESSOR_LIMIT);
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
        cr_assert_eq(operations->emit(context, &outputs[i]), BATON_PROCESSOR_LIMIT, "%zu", i);
    cr_assert_str_eq(scripted_get(call, "a"), "1");
    return BATON_PROCESSOR_OK;
}

static enum baton_status reach_limits(struct scripted_call *call)
{
    const struct baton_operations *operations = call->operations;

    cr_assert_eq(operations->put(call->context, big_bytes(BATON_SUBKEY_BYTES_MAX), big_bytes(1)),
                 BATON_PROCESSOR_OK);
    cr_assert_eq(
        operations->put(call->context, rig_bytes("b"), big_bytes(BATON_STATE_VALUE_BYTES_MAX)),
        BATON_PROCESSOR_OK);
    return BATON_PROCESSOR_OK;
}

Test(logic, calls_over_a_limit_are_refused_and_change_nothing)
{
    struct rig rig;

    big = mem_calloc(1, BATON_STATE_VALUE_BYTES_MAX + 1);
    scripted_start(&rig, true);
    cr_assert_str_eq(scripted_run(&rig, go_over_limits), "");
    scripted_assert_stored(&rig, "3/k/a=1@1000\n");
    rig.replaying = true;
    cr_assert_str_eq(scripted_run(&rig, go_over_limits), "");
    cr_assert_str_eq(scripted_run(&rig, reach_limits), "");
    cr_assert_eq(fake_store_rows(rig.store), 3);
    rig_finish(&rig);
    free(big);
}

#define PIECE ((size_t)16 * 1024 * 1024)

/* How many of these calls fit into one process(). */
static int emits_that_fit, puts_that_fit;

static enum baton_status fill_with_outputs(struct scripted_call *call)
{
    struct baton_output output = {.value = big_bytes(PIECE)};

    for (emits_that_fit = 0; call->operations->emit(call->context, &output) == BATON_PROCESSOR_OK;)
        emits_that_fit++;
    return BATON_PROCESSOR_OK;
}

static enum baton_status fill_with_deletes(struct scripted_call *call)
{
    for (puts_that_fit = 0; scripted_del(call, "a") == BATON_PROCESSOR_OK;)
        puts_that_fit++;
    return BATON_PROCESSOR_OK;
}

Test(logic, one_call_can_not_gather_without_bound)
{
    struct rig rig;

    /* Goal: 15 pieces of 16 MiB, since each costs a little more than its bytes; the same count in a
     * replay. */
    big = mem_calloc(1, PIECE);
    scripted_start(&rig, true);
    rig.replaying = true;
    cr_assert_str_eq(scripted_run(&rig, fill_with_outputs), "");
    cr_assert_eq(emits_that_fit, 15);
    cr_assert_str_eq(scripted_run(&rig, fill_with_outputs), "");
    cr_assert_eq(emits_that_fit, 15); /* counted anew for each call */

    cr_assert_str_eq(scripted_run(&rig, fill_with_deletes), "");
    cr_assert_eq(puts_that_fit, BATON_CALL_BYTES_MAX / (BATON_CALL_OVERHEAD_BYTES + 1));
    rig_finish(&rig);
    free(big);
}

/* ---- state_ttl ------------------------------------------------------------------------------- */

static enum baton_status put_a_b_c(struct scripted_call *call)
{
    scripted_put(call, "b", "2");
    scripted_put(call, "a", "1");
    scripted_put(call, "c", "3");
    return BATON_PROCESSOR_OK;
}

static enum baton_status see_nothing(struct scripted_call *call)
{
    scripted_assert_rows(call, "");
    cr_assert_str_eq(scripted_get(call, "a"), "-");
    return BATON_PROCESSOR_OK;
}

static enum baton_status see_a_b_c(struct scripted_call *call)
{
    cr_assert_str_eq(scripted_get(call, "b"), "2");
    scripted_assert_rows(call, "a=1 b=2 c=3 ");
    return BATON_PROCESSOR_OK;
}

Test(logic, rows_end_by_record_time)
{
    static const struct {
        int64_t record_time_ms, state_ttl_ms;
        bool alive;
    } cases[] = {
        {1500, 500, true},
        {1501, 500, false},
        {INT64_MAX, 0, true},
        {INT64_MIN, 500, true},
        /* no such time minus 500 */ {INT64_MAX, INT64_MAX, true},
        {INT64_MAX, 1, false},
        {-1, 1, true},
    };
    struct rig rig;

    scripted_start(&rig, true);
    scripted_run(&rig, put_a_b_c); /* at 1000 */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rig.place.record_time_ms = cases[i].record_time_ms;
        rig.place.state_ttl_ms = cases[i].state_ttl_ms;
        cr_assert_str_eq(scripted_run(&rig, cases[i].alive ? see_a_b_c : see_nothing), "",
                         "case %zu", i);
    }
    rig_finish(&rig);
}
