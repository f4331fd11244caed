#include "scripted.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/logic_private.h"

enum baton_status (*scripted_process)(struct scripted_call *call);
int scripted_destroyed;

static enum baton_status create(const char *config, void **ret_instance, char *error,
                                size_t error_bytes)
{
    (void)config; /* none is used */
    (void)error;
    (void)error_bytes;
    *ret_instance = NULL;
    return BATON_PROCESSOR_OK;
}

static enum baton_status process(void *instance, const struct baton_record *record,
                                 struct baton_context *context, char *error, size_t error_bytes)
{
    struct scripted_call call = {.record = record,
                                 .context = context,
                                 .operations = context->operations,
                                 .error = error,
                                 .error_bytes = error_bytes};

    (void)instance; /* there is none */
    return scripted_process(&call);
}

static void destroy(void *instance)
{
    (void)instance; /* there is none */
    scripted_destroyed++;
}

static const struct baton_processor scripted = {
    .abi = BATON_PROCESSOR_ABI,
    .name = "scripted",
    .version = "1",
    .create = create,
    .process = process,
    .destroy = destroy,
};

void scripted_start(struct rig *rig, bool has_output)
{
    struct logic *logic = NULL;
    struct err err;

    cr_assert_eq(logic_create_from(&scripted, "{}", has_output, &logic, &err), ERR_NONE);
    rig_start(rig, logic);
}

const char *scripted_run(struct rig *rig,
                         enum baton_status (*process_record)(struct scripted_call *call))
{
    scripted_process = process_record;
    return rig_send(rig, "k", "v");
}

enum baton_status scripted_put(struct scripted_call *call, const char *subkey, const char *value)
{
    return call->operations->put(call->context, rig_bytes(subkey), rig_bytes(value));
}

enum baton_status scripted_del(struct scripted_call *call, const char *subkey)
{
    return call->operations->del(call->context, rig_bytes(subkey));
}

enum baton_status scripted_emit(struct scripted_call *call, const char *key, const char *value)
{
    struct baton_output output = {.key = rig_bytes(key), .value = rig_bytes(value)};

    return call->operations->emit(call->context, &output);
}

const char *scripted_get(struct scripted_call *call, const char *subkey)
{
    static char text[64];
    struct baton_bytes value = {.data = NULL};
    enum baton_status status = call->operations->get(call->context, rig_bytes(subkey), &value);

    if (status == BATON_PROCESSOR_OK)
        snprintf(text, sizeof(text), "%.*s", (int)value.bytes, (const char *)value.data);
    else
        snprintf(text, sizeof(text), "%s", status == BATON_PROCESSOR_NOT_FOUND ? "-" : "?");
    return text;
}

enum baton_status scripted_add_row(void *arg, struct baton_bytes subkey, struct baton_bytes value)
{
    cr_assert_not_null(value.data);
    strbuf_printf(arg, "%.*s=%.*s ", (int)subkey.bytes, (const char *)subkey.data, (int)value.bytes,
                  (const char *)value.data);
    return BATON_PROCESSOR_OK;
}

void scripted_assert_rows(struct scripted_call *call, const char *expected)
{
    struct strbuf text = {.data = NULL};

    cr_assert_eq(call->operations->iterate(call->context, scripted_add_row, &text),
                 BATON_PROCESSOR_OK);
    cr_assert_str_eq(strbuf_text(&text), expected);
    strbuf_finish(&text);
}

void scripted_assert_stored(const struct rig *rig, const char *expected)
{
    char *dump = fake_store_dump(rig->store);

    cr_assert_str_eq(dump, expected);
    free(dump);
}
