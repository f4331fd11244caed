/*
 * A logic whose process() is a function of the test, and short ways to call the context in it.
 * Reached through statics: Criterion runs each test in a process of its own.
 */
#ifndef BATON_TESTS_SCRIPTED_H
#define BATON_TESTS_SCRIPTED_H

#include "api/processor.h"
#include "rig.h"

struct scripted_call { /* what a process() of a test works with */
    const struct baton_record *record;
    struct baton_context *context;
    const struct baton_operations *operations;
    char *error;
    size_t error_bytes;
};

extern enum baton_status (*scripted_process)(struct scripted_call *call);
extern int scripted_destroyed; /* instances so far */

void scripted_start(struct rig *rig, bool has_output);
/* Lets `process` work on a record (k, v); the text of its outputs, as rig_send. */
const char *scripted_run(struct rig *rig, enum baton_status (*process)(struct scripted_call *call));

/* The context's operations, with texts. */
enum baton_status scripted_put(struct scripted_call *call, const char *subkey, const char *value);
enum baton_status scripted_del(struct scripted_call *call, const char *subkey);
enum baton_status scripted_emit(struct scripted_call *call, const char *key, const char *value);
/* The row's text, "-" when there is none, "?" when it can not be read; valid until the next use. */
const char *scripted_get(struct scripted_call *call, const char *subkey);
/* A visitor: adds "subkey=value " to a struct strbuf. */
enum baton_status scripted_add_row(void *arg, struct baton_bytes subkey, struct baton_bytes value);

void scripted_assert_rows(struct scripted_call *call, const char *expected);
void scripted_assert_stored(const struct rig *rig,
                            const char *expected); /* fake_store_dump's text */

#endif
