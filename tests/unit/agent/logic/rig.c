#include "rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

void rig_start(struct rig *rig, struct logic *logic)
{
    *rig = (struct rig){
        .store = fake_store_create(),
        .logic = logic,
        .place = {.root = 3, .record_time_ms = 1000},
    };
}

void rig_start_builtin(struct rig *rig, const char *name, const char *config)
{
    struct logic_spec spec = {.kind = LOGIC_KIND_BUILTIN,
                              .name = name,
                              .version = "1",
                              .config = config,
                              .has_output = true};
    struct logic *logic = NULL;
    struct err err;

    cr_assert_eq(logic_create(&spec, &logic, &err), ERR_NONE, "%s", err.text);
    rig_start(rig, logic);
}

void rig_finish(struct rig *rig)
{
    logic_destroy(rig->logic);
    fake_store_destroy(rig->store);
    strbuf_finish(&rig->outputs);
}

struct baton_bytes rig_bytes(const char *text)
{
    return (struct baton_bytes){.data = text, .bytes = text != NULL ? strlen(text) : 0};
}

struct baton_record rig_record(const char *key, const char *value)
{
    return (struct baton_record){.topic = "in",
                                 .partition = 1,
                                 .offset = 7,
                                 .timestamp_ms = 1000,
                                 .key = rig_bytes(key),
                                 .value = rig_bytes(value)};
}

static void add_bytes(struct strbuf *text, struct baton_bytes bytes)
{
    if (bytes.data == NULL)
        strbuf_puts(text, "~");
    else
        strbuf_add(text, bytes.data, bytes.bytes);
}

static void collect(void *arg, const struct baton_record *record, const struct baton_output *output)
{
    struct rig *rig = arg;

    (void)record; /* the same in all outputs */
    add_bytes(&rig->outputs, output->key);
    strbuf_puts(&rig->outputs, "=");
    add_bytes(&rig->outputs, output->value);
    if (output->header_count > 0) {
        strbuf_puts(&rig->outputs, "[");
        for (size_t i = 0; i < output->header_count; i++) {
            strbuf_printf(&rig->outputs, "%s:", output->headers[i].name);
            add_bytes(&rig->outputs, output->headers[i].value);
            strbuf_puts(&rig->outputs, ",");
        }
        strbuf_puts(&rig->outputs, "]");
    }
    strbuf_puts(&rig->outputs, ";");
}

const char *rig_apply(struct rig *rig, const struct baton_record *record)
{
    const struct logic_sink sink = {.emit = collect, .arg = rig};
    enum err_code code;

    strbuf_clear(&rig->outputs);
    code = logic_apply(rig->logic, rig->store, rig->place, record, rig->replaying ? NULL : &sink,
                       &rig->err);
    if (code != ERR_NONE) {
        cr_assert_eq(rig->outputs.bytes, 0, "an error has outputs");
        cr_assert_eq(rig->err.code, code);
        strbuf_printf(&rig->outputs, "error: %s", rig->err.text);
    }
    return strbuf_text(&rig->outputs);
}

const char *rig_send(struct rig *rig, const char *key, const char *value)
{
    struct baton_record record = rig_record(key, value);

    return rig_apply(rig, &record);
}
