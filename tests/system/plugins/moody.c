/*
 * Logic for tests: counts the records of a key, as the built-in `count` does, but for the value
 * "bad". While the file of `crash` is there it crashes at it, while that of `fail` is there it
 * refuses it; without either it counts it as any other. So whether a record was given to the logic
 * again, in a replay, can be told from the count.
 */
#include "api/processor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct moody {
    char crash[512], fail[512];
};

static enum baton_status create(const char *config, void **ret_instance, char *error,
                                size_t error_bytes)
{
    struct moody *moody = calloc(1, sizeof(*moody));

    if (moody == NULL || sscanf(config, "{\"crash\":\"%511[^\"]\",\"fail\":\"%511[^\"]\"}",
                                moody->crash, moody->fail) != 2) {
        (void)snprintf(error, error_bytes, "crash and fail are missing");
        free(moody);
        return BATON_PROCESSOR_ERROR;
    }
    *ret_instance = moody;
    return BATON_PROCESSOR_OK;
}

static enum baton_status count(const struct baton_record *record, struct baton_context *context)
{
    static const struct baton_bytes row = {"", 0};
    struct baton_bytes before;
    struct baton_output output = {.key = record->key};
    unsigned long number = 0;
    char text[32];
    enum baton_status status = context->operations->get(context, row, &before);

    if (status != BATON_PROCESSOR_OK && status != BATON_PROCESSOR_NOT_FOUND)
        return status;
    if (status == BATON_PROCESSOR_OK)
        memcpy(&number, before.data, sizeof(number));
    number++;
    status = context->operations->put(context, row, (struct baton_bytes){&number, sizeof(number)});
    if (status != BATON_PROCESSOR_OK)
        return status;
    output.value.data = text;
    output.value.bytes = (size_t)snprintf(text, sizeof(text), "%lu", number);
    return context->operations->emit(context, &output);
}

static enum baton_status process(void *instance, const struct baton_record *record,
                                 struct baton_context *context, char *error, size_t error_bytes)
{
    const struct moody *moody = instance;

    if (record->value.bytes == 3 && memcmp(record->value.data, "bad", 3) == 0) {
        if (access(moody->crash, F_OK) == 0)
            abort();
        if (access(moody->fail, F_OK) == 0) {
            (void)snprintf(error, error_bytes, "a bad record");
            return BATON_PROCESSOR_ERROR;
        }
    }
    return count(record, context);
}

static void destroy(void *instance)
{
    free(instance);
}

const struct baton_processor *baton_processor_entry(void)
{
    static const struct baton_processor processor = {.abi = BATON_PROCESSOR_ABI,
                                                     .name = "moody",
                                                     .version = "1",
                                                     .create = create,
                                                     .process = process,
                                                     .destroy = destroy};

    return &processor;
}
