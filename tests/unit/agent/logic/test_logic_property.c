/*
 * Random records against a model: a table of keys and subkeys that is copied before each call and
 * kept or dropped after it. What the logic sees during the call, the outputs, and all rows after it
 * must be the model's, whatever mix of changes, reads, refusals, store failures, replays and expiry
 * came before.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/logic_private.h"
#include "common/rng.h"
#include "rig.h"

#define KEYS    3
#define SUBKEYS 12
#define SEEDS   300
#define RECORDS 60

/* In bytewise order. */
static const char *const keys[KEYS] = {"", "k", "kk"};
static const char *const subkeys[SUBKEYS] = {"",    "A",   "a",  "aa", "aaa", "ab",
                                             "abc", "abd", "ac", "b",  "ba",  "z"};

struct model_row {
    bool there;
    int value;
    int64_t time_ms;
};

struct model {
    struct model_row rows[KEYS][SUBKEYS];
};

struct world { /* one seed's run; reached by process() through a static, each test being a process
                */
    struct rng rng;
    struct rig rig;
    struct model model;             /* what is stored */
    struct model_row work[SUBKEYS]; /* of the current call and key */
    struct strbuf outputs;          /* expected of the current call */
    bool lost;                      /* the store failed in this call */
    unsigned calls_until_failure;   /* reads of the store left; 0: none fails */
    enum baton_status answer;
    struct { /* how often each kind was seen: a run that never sees one proves nothing about it */
        int stored, refused, failed, expired, stopped;
    } seen;
};

static struct world *world;

static size_t pick(size_t bound)
{
    return (size_t)rng_below(&world->rng, bound);
}

static bool is_alive(const struct model_row *row)
{
    const struct logic_place *place = &world->rig.place;

    if (!row->there)
        return false;
    if (place->state_ttl_ms == 0 || row->time_ms >= place->record_time_ms - place->state_ttl_ms)
        return true;
    world->seen.expired++;
    return false;
}

/* Whether the store's next read fails; the logic then only sees IO. */
static enum baton_status expect(enum baton_status status)
{
    return world->lost ? BATON_PROCESSOR_IO : status;
}

static void count_store_read(void)
{
    if (world->calls_until_failure > 0 && --world->calls_until_failure == 0)
        world->lost = true;
}

/* ---- one random call on the context, with what the model says of it
 * ------------------------------ */

static bool changed_in_call[SUBKEYS];

static void do_put(struct baton_context *context, size_t subkey)
{
    char text[16];
    int value = (int)pick(1000);
    enum baton_status status;

    snprintf(text, sizeof(text), "%d", value);
    status = context->operations->put(context, rig_bytes(subkeys[subkey]), rig_bytes(text));
    cr_assert_eq(status, expect(BATON_PROCESSOR_OK));
    if (status != BATON_PROCESSOR_OK)
        return;
    world->work[subkey] = (struct model_row){
        .there = true, .value = value, .time_ms = world->rig.place.record_time_ms};
    changed_in_call[subkey] = true;
}

static void do_del(struct baton_context *context, size_t subkey)
{
    enum baton_status status = context->operations->del(context, rig_bytes(subkeys[subkey]));

    cr_assert_eq(status, expect(BATON_PROCESSOR_OK));
    if (status != BATON_PROCESSOR_OK)
        return;
    world->work[subkey].there = false;
    changed_in_call[subkey] = true;
}

static void do_get(struct baton_context *context, size_t subkey)
{
    const struct model_row *row = &world->work[subkey];
    struct baton_bytes value = {.data = NULL};
    enum baton_status status;
    char text[16];

    status = context->operations->get(context, rig_bytes(subkeys[subkey]), &value);
    if (!changed_in_call[subkey] && !world->lost)
        count_store_read();
    cr_assert_eq(status, expect(is_alive(row) ? BATON_PROCESSOR_OK : BATON_PROCESSOR_NOT_FOUND));
    if (status != BATON_PROCESSOR_OK)
        return;
    snprintf(text, sizeof(text), "%d", row->value);
    cr_assert_eq(value.bytes, strlen(text));
    cr_assert_eq(memcmp(value.data, text, value.bytes), 0);
}

struct visits {
    struct strbuf text;
    size_t left; /* STOP after so many */
};

static enum baton_status visit(void *arg, struct baton_bytes subkey, struct baton_bytes value)
{
    struct visits *visits = arg;

    strbuf_add(&visits->text, subkey.data, subkey.bytes);
    strbuf_puts(&visits->text, "=");
    strbuf_add(&visits->text, value.data, value.bytes);
    strbuf_puts(&visits->text, " ");
    if (--visits->left > 0)
        return BATON_PROCESSOR_OK;
    world->seen.stopped++;
    return BATON_PROCESSOR_STOP;
}

static void do_iterate(struct baton_context *context)
{
    struct visits visits = {.left = 1 + pick(SUBKEYS + 1)};
    struct strbuf expected = {.data = NULL};
    size_t left = visits.left;
    bool was_lost = world->lost;
    enum baton_status status = context->operations->iterate(context, visit, &visits);

    if (!was_lost)
        count_store_read();
    cr_assert_eq(status, expect(BATON_PROCESSOR_OK));
    for (size_t i = 0; i < SUBKEYS && left > 0 && status == BATON_PROCESSOR_OK; i++) {
        if (!is_alive(&world->work[i]))
            continue;
        strbuf_printf(&expected, "%s=%d ", subkeys[i], world->work[i].value);
        left--;
    }
    cr_assert_str_eq(strbuf_text(&visits.text), strbuf_text(&expected));
    strbuf_finish(&visits.text);
    strbuf_finish(&expected);
}

static void do_emit(struct baton_context *context)
{
    char text[16];
    struct baton_output output = {.key = rig_bytes("out"), .value.data = text};
    enum baton_status status;

    output.value.bytes = (size_t)snprintf(text, sizeof(text), "%zu", pick(1000));
    status = context->operations->emit(context, &output);
    cr_assert_eq(status, expect(BATON_PROCESSOR_OK));
    if (status == BATON_PROCESSOR_OK && !world->rig.replaying)
        strbuf_printf(&world->outputs, "out=%s;", text);
}

static void do_nonsense(struct baton_context *context, size_t subkey)
{
    cr_assert_eq(context->operations->put(context, rig_bytes(subkeys[subkey]), rig_bytes(NULL)),
                 expect(BATON_PROCESSOR_LIMIT));
}

static enum baton_status process(void *instance, const struct baton_record *record,
                                 struct baton_context *context, char *error, size_t error_bytes)
{
    (void)instance; /* there is none */
    (void)record;   /* the choices are random */
    for (size_t left = pick(30); left > 0; left--) {
        size_t subkey = pick(SUBKEYS);

        switch (pick(8)) {
        case 0:
        case 1:
            do_put(context, subkey);
            break;
        case 2:
            do_del(context, subkey);
            break;
        case 3:
        case 4:
            do_get(context, subkey);
            break;
        case 5:
            do_iterate(context);
            break;
        case 6:
            do_emit(context);
            break;
        default:
            do_nonsense(context, subkey);
            break;
        }
    }
    snprintf(error, error_bytes, "by chance");
    return world->answer;
}

static enum baton_status create(const char *config, void **ret_instance, char *error,
                                size_t error_bytes)
{
    (void)config; /* none is used */
    (void)error;
    (void)error_bytes;
    *ret_instance = NULL;
    return BATON_PROCESSOR_OK;
}

static void destroy(void *instance)
{
    (void)instance; /* there is none */
}

static const struct baton_processor random_logic = {
    .abi = BATON_PROCESSOR_ABI,
    .name = "random",
    .version = "1",
    .create = create,
    .process = process,
    .destroy = destroy,
};

/* ---- runs ------------------------------------------------------------------------------------ */

static void check_store(void)
{
    struct strbuf expected = {.data = NULL};
    char *dump = fake_store_dump(world->rig.store);

    for (size_t key = 0; key < KEYS; key++) {
        for (size_t i = 0; i < SUBKEYS; i++) {
            const struct model_row *row = &world->model.rows[key][i];

            if (row->there)
                strbuf_printf(&expected, "3/%s/%s=%d@%d\n", keys[key], subkeys[i], row->value,
                              (int)row->time_ms);
        }
    }
    cr_assert_str_eq(dump, strbuf_text(&expected));
    strbuf_finish(&expected);
    free(dump);
}

static void run_record(void)
{
    static const enum baton_status answers[] = {BATON_PROCESSOR_OK,    BATON_PROCESSOR_OK,
                                                BATON_PROCESSOR_OK,    BATON_PROCESSOR_ERROR,
                                                BATON_PROCESSOR_LIMIT, BATON_PROCESSOR_IO};
    size_t key = pick(KEYS);
    const char *result;

    memcpy(world->work, world->model.rows[key], sizeof(world->work));
    memset(changed_in_call, 0, sizeof(changed_in_call));
    strbuf_clear(&world->outputs);
    world->lost = false;
    world->answer = answers[pick(sizeof(answers) / sizeof(answers[0]))];
    world->calls_until_failure = pick(4) == 0 ? 1 + (unsigned)pick(6) : 0;
    fake_store_fail(world->rig.store, world->calls_until_failure,
                    pick(2) == 0 ? ERR_IO : ERR_CORRUPT);
    world->rig.replaying = pick(3) == 0;
    world->rig.place.record_time_ms += (int64_t)pick(30);
    result = rig_send(&world->rig, keys[key], "v");

    if (world->lost) {
        world->seen.failed++;
        cr_assert_not_null(strstr(result, "the fake store fails"));
    } else if (world->answer != BATON_PROCESSOR_OK) {
        world->seen.refused++;
        cr_assert_not_null(strstr(result, "by chance"));
    } else {
        world->seen.stored++;
        cr_assert_str_eq(result, strbuf_text(&world->outputs));
        memcpy(world->model.rows[key], world->work, sizeof(world->work));
    }
    check_store();
}

Test(logic_property, calls_equal_a_model_and_failed_ones_leave_no_trace)
{
    struct world state = {.lost = false};

    world = &state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct logic *logic = NULL;

        cr_log_info("seed %d", (int)seed); /* the last one named is the one that failed */
        rng_init(&state.rng, seed);
        memset(&state.model, 0, sizeof(state.model));
        cr_assert_eq(logic_create_from(&random_logic, "{}", true, &logic, NULL), ERR_NONE);
        rig_start(&state.rig, logic);
        state.rig.place.state_ttl_ms = pick(2) == 0 ? 0 : 1 + (int64_t)pick(200);
        for (int record = 0; record < RECORDS; record++)
            run_record();
        rig_finish(&state.rig);
    }
    strbuf_finish(&state.outputs);
    cr_assert_gt(state.seen.stored, SEEDS);
    cr_assert_gt(state.seen.refused, SEEDS);
    cr_assert_gt(state.seen.failed, SEEDS);
    cr_assert_gt(state.seen.expired, SEEDS);
    cr_assert_gt(state.seen.stopped, SEEDS);
}
