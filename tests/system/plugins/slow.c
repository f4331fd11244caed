/*
 * Logic for tests: emits the record and takes `pause_us` of processor time for it, so that a small
 * number of records is a flood. Version 1 and version 2 (-DSLOW_VERSION) are the same.
 */
#include "api/processor.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifndef SLOW_VERSION
#define SLOW_VERSION "1"
#endif

static enum baton_status create(const char *config, void **ret_instance, char *error,
                                size_t error_bytes)
{
    long pause_us = 0;

    if (sscanf(config, "{\"pause_us\":%ld}", &pause_us) != 1) {
        (void)snprintf(error, error_bytes, "pause_us is missing");
        return BATON_PROCESSOR_ERROR;
    }
    *ret_instance = (void *)(intptr_t)pause_us;
    return BATON_PROCESSOR_OK;
}

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static enum baton_status process(void *instance, const struct baton_record *record,
                                 struct baton_context *context, char *error, size_t error_bytes)
{
    const struct baton_output output = {.key = record->key, .value = record->value};
    int64_t until_us = now_us() + (intptr_t)instance;

    (void)error;
    (void)error_bytes;
    while (now_us() < until_us)
        continue;
    return context->operations->emit(context, &output);
}

static void destroy(void *instance)
{
    (void)instance;
}

const struct baton_processor *baton_processor_entry(void)
{
    static const struct baton_processor processor = {.abi = BATON_PROCESSOR_ABI,
                                                     .name = "slow",
                                                     .version = SLOW_VERSION,
                                                     .create = create,
                                                     .process = process,
                                                     .destroy = destroy};

    return &processor;
}
