#include "agent/logic.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/logic_overlay.h"
#include "agent/logic_private.h"
#include "agent/store.h"
#include "api/schema.h"
#include "common/arena.h"
#include "common/mem.h"

/* More room for outputs than this is given back after the call that needed it. */
#define OUTPUTS_KEPT 1024

struct logic {
    struct baton_context context; /* first: operations get its address and find the logic */
    const struct baton_processor *processor;
    void *instance;
    bool has_output;

    /* The call that is going on; record is NULL when there is none. */
    const struct baton_record *record;
    pthread_t thread;
    struct store *store;
    struct logic_place place;
    int64_t alive_from_ms;
    bool keep_outputs; /* false while replaying */
    bool iterating;
    bool emitted_nowhere; /* the job has no output: the call fails, also in replays */
    bool state_missed;    /* the job is stateless: a call that touches state fails */
    struct err
        failed; /* the store's first failure: the call fails with it, whatever the logic returns */

    /* What the call did so far. Emptied after each call; the memory stays. */
    size_t call_bytes;
    struct logic_overlay changes;
    struct arena arena; /* of the outputs */
    struct baton_output *outputs;
    size_t output_count;
    size_t output_capacity;
};

/* ---- what the logic may call ----------------------------------------------------------------- */

static struct logic *logic_of(struct baton_context *context)
{
    return (struct logic *)context;
}

/*
 * A context that was kept beyond its call, handed to another thread or used by a visitor must not
 * reach the store: such a logic would not be a function of its record any more.
 */
static enum baton_status check_use(const struct logic *logic)
{
    if (logic->record == NULL || !pthread_equal(logic->thread, pthread_self()))
        return BATON_PROCESSOR_ERROR;
    if (logic->iterating)
        return BATON_PROCESSOR_ERROR;
    if (logic->failed.code != ERR_NONE)
        return BATON_PROCESSOR_IO;
    return BATON_PROCESSOR_OK;
}

/* As check_use, for what touches the state. */
static enum baton_status check_state(struct logic *logic)
{
    enum baton_status status = check_use(logic);

    if (status == BATON_PROCESSOR_OK && logic->store == NULL) {
        logic->state_missed = true;
        return BATON_PROCESSOR_ERROR;
    }
    return status;
}

/* A length without data is a mistake of the caller that must not become a read. */
static bool is_sound(struct baton_bytes bytes)
{
    return bytes.data != NULL || bytes.bytes == 0;
}

static enum baton_status check_subkey(struct baton_bytes subkey)
{
    if (!is_sound(subkey) || subkey.bytes > BATON_SUBKEY_BYTES_MAX)
        return BATON_PROCESSOR_LIMIT;
    return BATON_PROCESSOR_OK;
}

/* Counts a change or an output against the limit of the call. By what was asked for, so that a
 * replay refuses the same. */
static bool charge(struct logic *logic, size_t bytes)
{
    size_t left = BATON_CALL_BYTES_MAX - logic->call_bytes;

    if (left < BATON_CALL_OVERHEAD_BYTES || left - BATON_CALL_OVERHEAD_BYTES < bytes)
        return false;
    logic->call_bytes += bytes + BATON_CALL_OVERHEAD_BYTES;
    return true;
}

static struct store_row row_of(const struct logic *logic, struct baton_bytes subkey)
{
    return (struct store_row){.root = logic->place.root,
                              .key = logic->record->key.data,
                              .key_bytes = logic->record->key.bytes,
                              .subkey = subkey.data,
                              .subkey_bytes = subkey.bytes};
}

/* The store has told why; the call can only fail now, even if the logic swallows the status. */
static enum baton_status store_failed(const struct logic *logic, enum err_code code)
{
    assert(logic->failed.code == code);
    return BATON_PROCESSOR_IO;
}

static enum baton_status read_row(struct logic *logic, struct baton_bytes subkey,
                                  struct baton_bytes *ret_value)
{
    unsigned char copy[BATON_SUBKEY_BYTES_MAX];
    struct baton_bytes value = {.data = NULL};
    enum err_code code;

    /* The subkey may lie in the value of an earlier get, whose memory the store may use for this
     * one. */
    if (subkey.bytes > 0)
        memcpy(copy, subkey.data, subkey.bytes);
    subkey.data = copy;
    code = store_get(logic->store, row_of(logic, subkey), logic->alive_from_ms, &value.data,
                     &value.bytes, &logic->failed);
    if (code == ERR_NOT_FOUND)
        return BATON_PROCESSOR_NOT_FOUND;
    if (code != ERR_NONE)
        return store_failed(logic, code);
    *ret_value = value;
    return BATON_PROCESSOR_OK;
}

static enum baton_status operation_get(struct baton_context *context, struct baton_bytes subkey,
                                       struct baton_bytes *ret_value)
{
    struct logic *logic = logic_of(context);
    enum baton_status status = check_state(logic);
    struct baton_bytes value;

    if (status == BATON_PROCESSOR_OK)
        status = check_subkey(subkey);
    if (status != BATON_PROCESSOR_OK)
        return status;
    if (!logic_overlay_find(&logic->changes, subkey, &value))
        return read_row(logic, subkey, ret_value);
    if (value.data == NULL)
        return BATON_PROCESSOR_NOT_FOUND;
    *ret_value = value;
    return BATON_PROCESSOR_OK;
}

static enum baton_status operation_put(struct baton_context *context, struct baton_bytes subkey,
                                       struct baton_bytes value)
{
    struct logic *logic = logic_of(context);
    enum baton_status status = check_state(logic);

    if (status == BATON_PROCESSOR_OK)
        status = check_subkey(subkey);
    if (status != BATON_PROCESSOR_OK)
        return status;
    if (value.data == NULL || value.bytes > BATON_STATE_VALUE_BYTES_MAX)
        return BATON_PROCESSOR_LIMIT;
    if (!charge(logic, subkey.bytes + value.bytes))
        return BATON_PROCESSOR_LIMIT;
    logic_overlay_set(&logic->changes, subkey, value);
    return BATON_PROCESSOR_OK;
}

static enum baton_status operation_del(struct baton_context *context, struct baton_bytes subkey)
{
    struct logic *logic = logic_of(context);
    enum baton_status status = check_state(logic);

    if (status == BATON_PROCESSOR_OK)
        status = check_subkey(subkey);
    if (status != BATON_PROCESSOR_OK)
        return status;
    if (!charge(logic, subkey.bytes))
        return BATON_PROCESSOR_LIMIT;
    logic_overlay_set(&logic->changes, subkey, (struct baton_bytes){.data = NULL});
    return BATON_PROCESSOR_OK;
}

struct merge { /* of the store's rows with the call's changes, both in the order of subkeys */
    struct logic_overlay_cursor changes;
    enum baton_status (*visit)(void *arg, struct baton_bytes subkey, struct baton_bytes value);
    void *arg;
    enum baton_status status; /* the visitor's last answer */
};

/* Visits the rows that this call put, up to but without `end` (NULL: all the rest). False when the
 * visitor has enough. */
static bool visit_changes(struct merge *merge, const struct baton_bytes *end)
{
    const struct logic_overlay_change *change;

    while ((change = logic_overlay_peek(&merge->changes)) != NULL) {
        if (end != NULL && logic_overlay_compare(change->subkey, *end) >= 0)
            break;
        if (change->value.data != NULL)
            merge->status = merge->visit(merge->arg, change->subkey, change->value);
        logic_overlay_next(&merge->changes);
        if (merge->status != BATON_PROCESSOR_OK)
            return false;
    }
    return true;
}

static bool visit_stored(void *arg, const void *subkey, size_t subkey_bytes, const void *value,
                         size_t value_bytes)
{
    struct merge *merge = arg;
    struct baton_bytes at = {.data = subkey, .bytes = subkey_bytes};
    const struct logic_overlay_change *change;

    if (!visit_changes(merge, &at))
        return false;
    change = logic_overlay_peek(&merge->changes);
    if (change != NULL && logic_overlay_compare(change->subkey, at) == 0)
        return true; /* changed by this call: its new value, if any, is visited as a change */
    merge->status =
        merge->visit(merge->arg, at, (struct baton_bytes){.data = value, .bytes = value_bytes});
    return merge->status == BATON_PROCESSOR_OK;
}

static enum baton_status operation_iterate(struct baton_context *context,
                                           enum baton_status (*visit)(void *arg,
                                                                      struct baton_bytes subkey,
                                                                      struct baton_bytes value),
                                           void *arg)
{
    struct logic *logic = logic_of(context);
    enum baton_status status = check_state(logic);
    struct merge merge = {.visit = visit, .arg = arg, .status = BATON_PROCESSOR_OK};
    enum err_code code;

    if (status != BATON_PROCESSOR_OK)
        return status;
    logic->iterating = true;
    logic_overlay_walk(&merge.changes, &logic->changes);
    code = store_iterate(logic->store, row_of(logic, (struct baton_bytes){.data = NULL}),
                         logic->alive_from_ms, visit_stored, &merge, &logic->failed);
    if (code == ERR_NONE && merge.status == BATON_PROCESSOR_OK)
        visit_changes(&merge, NULL);
    logic->iterating = false;
    if (code != ERR_NONE)
        return store_failed(logic, code);
    return merge.status == BATON_PROCESSOR_STOP ? BATON_PROCESSOR_OK : merge.status;
}

static bool add_size(size_t *total, size_t bytes)
{
    if (bytes > BATON_OUTPUT_BYTES_MAX - *total)
        return false;
    *total += bytes;
    return true;
}

/* The size that counts for the limits; false when it is over one or a null is where none may be. */
static bool measure_output(const struct baton_output *output, size_t *ret_bytes)
{
    size_t total = 0;

    if (!is_sound(output->key) || !is_sound(output->value))
        return false;
    if (output->headers == NULL && output->header_count > 0)
        return false;
    if (!add_size(&total, output->key.bytes) || !add_size(&total, output->value.bytes))
        return false;
    for (size_t i = 0; i < output->header_count; i++) {
        const struct baton_header *header = &output->headers[i];

        if (header->name == NULL || !is_sound(header->value))
            return false;
        if (!add_size(&total, strlen(header->name)) || !add_size(&total, header->value.bytes) ||
            !add_size(&total, BATON_CALL_OVERHEAD_BYTES))
            return false;
    }
    *ret_bytes = total;
    return true;
}

static struct baton_bytes copy_bytes(struct arena *arena, struct baton_bytes bytes)
{
    if (bytes.data != NULL)
        bytes.data = arena_copy(arena, bytes.data, bytes.bytes);
    return bytes;
}

static const struct baton_header *copy_headers(struct arena *arena,
                                               const struct baton_header *headers, size_t count)
{
    struct baton_header *copies = arena_alloc(arena, count * sizeof(*copies));

    for (size_t i = 0; i < count; i++) {
        const char *name = headers[i].name;

        copies[i].name = arena_copy(arena, name, strlen(name) + 1);
        copies[i].value = copy_bytes(arena, headers[i].value);
    }
    return copies;
}

static void keep_output(struct logic *logic, const struct baton_output *output)
{
    struct baton_output *kept;

    logic->outputs = mem_grow(logic->outputs, logic->output_count, &logic->output_capacity,
                              sizeof(*logic->outputs));
    kept = &logic->outputs[logic->output_count++];
    kept->key = copy_bytes(&logic->arena, output->key);
    kept->value = copy_bytes(&logic->arena, output->value);
    if (output->headers == NULL) {
        kept->headers = logic->record->headers;
        kept->header_count = logic->record->header_count;
    } else {
        kept->headers = copy_headers(&logic->arena, output->headers, output->header_count);
        kept->header_count = output->header_count;
    }
}

static enum baton_status operation_emit(struct baton_context *context,
                                        const struct baton_output *output)
{
    struct logic *logic = logic_of(context);
    enum baton_status status = check_use(logic);
    size_t bytes;

    if (status != BATON_PROCESSOR_OK)
        return status;
    if (!measure_output(output, &bytes) || !charge(logic, bytes))
        return BATON_PROCESSOR_LIMIT;
    if (!logic->has_output) {
        logic->emitted_nowhere = true;
        return BATON_PROCESSOR_ERROR;
    }
    if (logic->keep_outputs)
        keep_output(logic, output);
    return BATON_PROCESSOR_OK;
}

static const struct baton_operations operations = {
    .get = operation_get,
    .put = operation_put,
    .del = operation_del,
    .iterate = operation_iterate,
    .emit = operation_emit,
};

/* ---- one record ------------------------------------------------------------------------------ */

static int64_t alive_from(struct logic_place place)
{
    int64_t from_ms;

    /* Record times come from producers and can be anything. */
    if (place.state_ttl_ms <= 0 ||
        __builtin_sub_overflow(place.record_time_ms, place.state_ttl_ms, &from_ms))
        return INT64_MIN;
    return from_ms;
}

static void begin_call(struct logic *logic, struct store *store, struct logic_place place,
                       const struct baton_record *record, const struct logic_sink *sink)
{
    assert(logic->record == NULL);
    logic->record = record;
    logic->thread = pthread_self();
    logic->store = store;
    logic->place = place;
    logic->alive_from_ms = alive_from(place);
    logic->keep_outputs = sink != NULL;
    logic->emitted_nowhere = false;
    logic->state_missed = false;
    logic->failed.code = ERR_NONE;
}

static void end_call(struct logic *logic)
{
    logic->record = NULL;
    logic->store = NULL;
    logic->call_bytes = 0;
    logic_overlay_reset(&logic->changes);
    arena_reset(&logic->arena);
    logic->output_count = 0;
    if (logic->output_capacity > OUTPUTS_KEPT) {
        free(logic->outputs);
        logic->outputs = NULL;
        logic->output_capacity = 0;
    }
}

static enum err_code refuse(const struct logic *logic, enum baton_status status, const char *error,
                            struct err *reterr)
{
    const char *name = logic->processor->name;
    const char *text = error[0] != '\0' ? error : "it gives no reason";

    switch (status) {
    case BATON_PROCESSOR_ERROR:
        return err_set(reterr, ERR_LOGIC, "%s: %s", name, text);
    case BATON_PROCESSOR_LIMIT:
        return err_set(reterr, ERR_LOGIC, "%s: over a limit of state or output: %s", name, text);
    case BATON_PROCESSOR_IO:
        /* The store is well, so the logic can not make sense of a row. That does not repeat for
         * sure on another host: it must not be skipped like an error of the record. */
        return err_set(reterr, ERR_IO, "%s can not read its state: %s", name, text);
    case BATON_PROCESSOR_OK:
    case BATON_PROCESSOR_NOT_FOUND:
    case BATON_PROCESSOR_STOP:
        break;
    }
    return err_set(reterr, ERR_LOGIC, "%s: process() returned %d, which is not one of its answers",
                   name, (int)status);
}

/* What came of the call: ERR_NONE when its changes and outputs count. */
static enum err_code judge(const struct logic *logic, enum baton_status status, const char *error,
                           struct err *reterr)
{
    if (logic->failed.code != ERR_NONE) {
        if (reterr != NULL)
            *reterr = logic->failed;
        return logic->failed.code;
    }
    if (logic->state_missed)
        return err_set(reterr, ERR_LOGIC,
                       "%s: uses state, but the job has none (spec field \"stateful\")",
                       logic->processor->name);
    if (logic->emitted_nowhere)
        return err_set(reterr, ERR_LOGIC,
                       "%s: emits, but the job has no output topic (spec field \"output\")",
                       logic->processor->name);
    if (status != BATON_PROCESSOR_OK)
        return refuse(logic, status, error, reterr);
    return ERR_NONE;
}

static void hand_on(struct logic *logic, const struct logic_sink *sink)
{
    struct logic_overlay_cursor cursor;
    const struct logic_overlay_change *change;

    logic_overlay_walk(&cursor, &logic->changes);
    while ((change = logic_overlay_peek(&cursor)) != NULL) {
        struct store_row row = row_of(logic, change->subkey);

        if (change->value.data == NULL)
            store_delete(logic->store, row);
        else
            store_put(logic->store, row, logic->place.record_time_ms, change->value.data,
                      change->value.bytes);
        logic_overlay_next(&cursor);
    }
    for (size_t i = 0; i < logic->output_count; i++)
        sink->emit(sink->arg, logic->record, &logic->outputs[i]);
}

enum err_code logic_apply(struct logic *logic, struct store *store, struct logic_place place,
                          const struct baton_record *record, const struct logic_sink *sink,
                          struct err *reterr)
{
    char error[ERR_TEXT_BYTES];
    enum baton_status status;
    enum err_code code;

    if (record->key.data == NULL)
        return err_set(reterr, ERR_LOGIC, "%s: the record has no key, and state belongs to keys",
                       logic->processor->name);
    begin_call(logic, store, place, record, sink);
    error[0] = '\0';
    status =
        logic->processor->process(logic->instance, record, &logic->context, error, sizeof(error));
    error[sizeof(error) - 1] = '\0';
    code = judge(logic, status, error, reterr);
    if (code == ERR_NONE)
        hand_on(logic, sink);
    end_call(logic);
    return code;
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum err_code check_name(const char *field, const char *name, struct err *reterr)
{
    /* These become part of a path: no slash by the rule, and no ".." either. */
    if (name == NULL || !schema_name_valid(name) || strstr(name, "..") != NULL)
        return err_set(
            reterr, ERR_INVALID,
            "%s: must be 1 to %d of a-z, 0-9, '.', '_', '-', begin with a letter or digit "
            "and hold no \"..\"",
            field, API_NAME_BYTES_MAX);
    return ERR_NONE;
}

static enum err_code find_builtin(const struct logic_spec *spec,
                                  const struct baton_processor **ret_processor, struct err *reterr)
{
    const struct baton_processor *processor = logic_builtin(spec->name);

    if (processor == NULL)
        return err_set(
            reterr, ERR_NOT_FOUND,
            "there is no built-in logic \"%s\"; this agent has count, dedup, latest, sum",
            spec->name);
    if (strcmp(processor->version, spec->version) != 0)
        return err_set(reterr, ERR_UNSUPPORTED,
                       "built-in logic \"%s\" has version \"%s\" here, the job asks for \"%s\"",
                       spec->name, processor->version, spec->version);
    *ret_processor = processor;
    return ERR_NONE;
}

static enum err_code find_processor(const struct logic_spec *spec,
                                    const struct baton_processor **ret_processor,
                                    struct err *reterr)
{
    enum err_code code = check_name("logic.name", spec->name, reterr);

    if (code == ERR_NONE)
        code = check_name("logic.version", spec->version, reterr);
    if (code != ERR_NONE)
        return code;
    switch (spec->kind) {
    case LOGIC_KIND_BUILTIN:
        return find_builtin(spec, ret_processor, reterr);
    case LOGIC_KIND_PLUGIN:
        return logic_plugin_load(spec, ret_processor, reterr);
    case LOGIC_KIND_EXEC:
        break;
    }
    return err_set(reterr, ERR_UNSUPPORTED,
                   "logic.kind: this agent runs logic of kind builtin and plugin only");
}

enum err_code logic_create_from(const struct baton_processor *processor, const char *config,
                                bool has_output, struct logic **ret_logic, struct err *reterr)
{
    char error[ERR_TEXT_BYTES];
    void *instance = NULL;
    enum baton_status status;
    struct logic *logic;

    error[0] = '\0';
    status = processor->create(config, &instance, error, sizeof(error));
    error[sizeof(error) - 1] = '\0';
    if (status != BATON_PROCESSOR_OK)
        return err_set(reterr, ERR_INVALID, "logic.config: %s %s refuses it: %s", processor->name,
                       processor->version, error[0] != '\0' ? error : "it gives no reason");
    logic = mem_calloc(1, sizeof(*logic));
    logic->context.operations = &operations;
    logic->processor = processor;
    logic->instance = instance;
    logic->has_output = has_output;
    *ret_logic = logic;
    return ERR_NONE;
}

enum err_code logic_create(const struct logic_spec *spec, struct logic **ret_logic,
                           struct err *reterr)
{
    const struct baton_processor *processor = NULL;
    enum err_code code = find_processor(spec, &processor, reterr);

    if (code != ERR_NONE)
        return code;
    assert(processor != NULL);
    return logic_create_from(processor, spec->config != NULL ? spec->config : "{}",
                             spec->has_output, ret_logic, reterr);
}

void logic_destroy(struct logic *logic)
{
    if (logic == NULL)
        return;
    assert(logic->record == NULL);
    logic->processor->destroy(logic->instance);
    logic_overlay_finish(&logic->changes);
    arena_finish(&logic->arena);
    free(logic->outputs);
    free(logic);
}

const struct baton_processor *logic_processor(const struct logic *logic)
{
    return logic->processor;
}
