/* What is told of the last document, and that it is never more than a coordinator takes. */
#include "agent/core/registration.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define CLUSTER "c0c0c0c0-0000-4000-8000-000000000000"

static const struct agent_registration base = {.agent_id = (char *)"a1", .capacity = 3};
static struct document_job job;
static struct document_task task;
static struct agent_document told;

static void setup(void)
{
    job = (struct document_job){.name = (char *)"orders"};
    task = (struct document_task){.job = (char *)"orders"};
    told = (struct agent_document){.version = {3, 17},
                                   .jobs = {.items = &job, .count = 1},
                                   .tasks = {.items = &task, .count = 1}};
}

TestSuite(registration, .init = setup);

static bool complete(void)
{
    struct agent_registration said;
    bool all = registration_complete(&base, (char *)CLUSTER, &told, &said);
    cr_assert_str_eq(said.agent_id, "a1");
    cr_assert_eq(said.capacity, 3);
    cr_assert_str_eq(said.cluster, CLUSTER);
    cr_assert_eq(said.document.decision, all ? 17 : 0);
    cr_assert_eq(said.jobs.count, all ? 1 : 0);
    cr_assert_eq(said.tasks.count, all ? 1 : 0);
    return all;
}

Test(registration, tells_all_of_the_last_document)
{
    cr_assert(complete());
    struct agent_registration said;
    cr_assert(registration_complete(&base, (char *)"", &told, &said));
    cr_assert_null(said.cluster, "none yet");
}

/* Whatever there can be many of; only their number is looked at. */
Test(registration, over_the_limit_tells_nothing_of_it)
{
    size_t *const counts[] = {&job.origins.count,    &task.owned.count,  &task.read.count,
                              &task.paused_t1.count, &task.chosen.count, &task.skips.count,
                              &task.sources.count,   &task.readers.count};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        *counts[i] = REGISTRATION_NUMBERS_MAX / 8;
        cr_assert(complete(), "list %zu", i);
        *counts[i] = REGISTRATION_NUMBERS_MAX + 1;
        cr_assert_not(complete(), "list %zu", i);
        *counts[i] = 0;
    }
}

Test(registration, counts_what_the_logic_is_configured_with)
{
    size_t bytes = (size_t)64 * (REGISTRATION_NUMBERS_MAX + 1);
    job.spec.logic.config = mem_calloc(bytes + 1, 1);
    memset(job.spec.logic.config, ' ', bytes);
    cr_assert_not(complete());
    job.spec.logic.config[bytes / 2] = '\0';
    cr_assert(complete());
    free(job.spec.logic.config);
}
