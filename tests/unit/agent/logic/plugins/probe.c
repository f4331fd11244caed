/*
 * The plugin that test_logic_plugin.c compiles in variants: what its entry says is chosen by
 * macros. Each record's output value is "<tag>:<number of the instance>", so that a test sees which
 * code runs and whether two instances share it.
 */
#include "api/processor.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PROBE_ABI
#define PROBE_ABI BATON_PROCESSOR_ABI
#endif
#ifndef PROBE_FLAGS
#define PROBE_FLAGS 0
#endif
#ifndef PROBE_NAME
#define PROBE_NAME "probe"
#endif
#ifndef PROBE_VERSION
#define PROBE_VERSION "1"
#endif
#ifndef PROBE_CREATE
#define PROBE_CREATE probe_create
#endif
#ifndef PROBE_PROCESS
#define PROBE_PROCESS probe_process
#endif
#ifndef PROBE_DESTROY
#define PROBE_DESTROY probe_destroy
#endif
#ifndef PROBE_ENTRY
#define PROBE_ENTRY baton_processor_entry
#endif
#ifndef PROBE_ANSWER
#define PROBE_ANSWER &probe
#endif
#ifndef PROBE_TAG
#define PROBE_TAG "probe"
#endif

struct probe {
    int number;
};

static atomic_int instances;

/* Not static: a variant may leave one out of its table, and an unused static function is an error.
 */

enum baton_status probe_create(const char *config, void **ret_instance, char *error,
                               size_t error_bytes)
{
    struct probe *instance;

    if (strcmp(config, "{}") != 0) {
        snprintf(error, error_bytes, "takes no keys");
        return BATON_PROCESSOR_ERROR;
    }
    instance = malloc(sizeof(*instance));
    if (instance == NULL)
        return BATON_PROCESSOR_ERROR;
    instance->number = atomic_fetch_add(&instances, 1) + 1;
    *ret_instance = instance;
    return BATON_PROCESSOR_OK;
}

enum baton_status probe_process(void *instance, const struct baton_record *record,
                                struct baton_context *context, char *error, size_t error_bytes)
{
    char text[64];
    struct baton_output output = {.key = record->key, .value = {.data = text}};

    (void)error; /* it never refuses */
    (void)error_bytes;
    output.value.bytes = (size_t)snprintf(text, sizeof(text), "%s:%d", PROBE_TAG,
                                          ((struct probe *)instance)->number);
    return context->operations->emit(context, &output);
}

void probe_destroy(void *instance)
{
    free(instance);
}

extern const struct baton_processor probe;
const struct baton_processor probe = {
    .abi = PROBE_ABI,
    .flags = PROBE_FLAGS,
    .name = PROBE_NAME,
    .version = PROBE_VERSION,
    .create = PROBE_CREATE,
    .process = PROBE_PROCESS,
    .destroy = PROBE_DESTROY,
};

#ifdef PROBE_UNDEFINED
/* Nobody defines it: the loader has to say so. */
int probe_undefined(void);
int probe_calls_undefined(void);
int probe_calls_undefined(void)
{
    return probe_undefined();
}
#endif

BATON_PROCESSOR_EXPORT const struct baton_processor *PROBE_ENTRY(void);
BATON_PROCESSOR_EXPORT const struct baton_processor *PROBE_ENTRY(void)
{
    return PROBE_ANSWER;
}
