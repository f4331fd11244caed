#include "agent/core/registration.h"

#include <string.h>

/* What texts take in the room of numbers, which have some 100 bytes each at most. */
#define SOURCE_NUMBERS      4
#define CONFIG_NUMBER_BYTES 64

static size_t count_numbers(const struct agent_document *document)
{
    size_t count = 0;
    for (size_t i = 0; i < document->jobs.count; i++) {
        const char *config = document->jobs.items[i].spec.logic.config;
        count += document->jobs.items[i].origins.count;
        count += config != NULL ? strlen(config) / CONFIG_NUMBER_BYTES : 0;
    }
    for (size_t i = 0; i < document->tasks.count; i++) {
        const struct document_task *task = &document->tasks.items[i];
        count += task->owned.count + task->read.count + task->paused_t1.count + task->chosen.count +
                 task->skips.count + SOURCE_NUMBERS * task->sources.count + task->readers.count;
    }
    return count;
}

bool registration_complete(const struct agent_registration *base, char *cluster,
                           const struct agent_document *told,
                           struct agent_registration *ret_registration)
{
    *ret_registration = *base;
    ret_registration->cluster = cluster[0] != '\0' ? cluster : NULL;
    if (count_numbers(told) > REGISTRATION_NUMBERS_MAX)
        return false;
    ret_registration->document = told->version;
    ret_registration->jobs.items = told->jobs.items;
    ret_registration->jobs.count = told->jobs.count;
    ret_registration->tasks.items = told->tasks.items;
    ret_registration->tasks.count = told->tasks.count;
    return true;
}
