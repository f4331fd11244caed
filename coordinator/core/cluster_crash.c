/*
 * Where logic has crashed agents (D3.8): each agent says what its disk holds of that, and whoever
 * is to own the partition is told of the others', so that a record which ends processes does not
 * begin to count anew with each agent that it comes to. Observations: agents say it again with each
 * report, so a coordinator that starts anew knows it before it calls anyone lost.
 */
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/rows.h"

void cluster_clear_crashes(struct agent *agent)
{
    for (size_t i = 0; i < agent->crashes.count; i++)
        schema_free(&schema_crash_note, &agent->crashes.items[i]);
    free(agent->crashes.items);
    agent->crashes.items = NULL;
    agent->crashes.count = 0;
}

bool cluster_crash_concerns(const struct job *job, const struct crash_note *note,
                            uint32_t processor)
{
    struct uint_list owned;
    bool found = false;
    if (strcmp(note->job, job->row.name) != 0 ||
        strcmp(note->job_incarnation, job->row.incarnation) != 0)
        return false;
    cluster_owned_partitions(job, processor, &owned);
    for (size_t i = 0; i < owned.count; i++)
        found = found || owned.items[i] == note->partition;
    free(owned.items);
    return found;
}

static void add(struct document_task *task, const struct agent *agent,
                const struct crash_note *note)
{
    if (task->crashes.items == NULL)
        task->crashes.items = mem_calloc(API_AGENTS_MAX, sizeof(*task->crashes.items));
    if (task->crashes.count == API_AGENTS_MAX)
        return; /* more than enough to stop it */
    struct crash_note *told = &task->crashes.items[task->crashes.count++];
    schema_copy(&schema_crash_note, told, note);
    free(told->agent);
    told->agent = mem_strdup(agent->row.agent_id);
}

static const struct crash_note *find_note(const struct agent *agent, const struct job *job,
                                          uint32_t processor)
{
    for (size_t i = 0; i < agent->crashes.count; i++)
        if (cluster_crash_concerns(job, &agent->crashes.items[i], processor))
            return &agent->crashes.items[i];
    return NULL;
}

/* A note of anybody's: there is a record that ends agents. */
static const struct crash_note *find_any_note(const struct cluster *cluster, const struct job *job,
                                              uint32_t processor)
{
    const struct crash_note *note = NULL;
    for (size_t i = 0; note == NULL && i < cluster->agents.count; i++)
        note = find_note(cluster->agents.items[i], job, processor);
    return note;
}

/* Owners that were lost and can not say yet what of: where one was ended by a record, they count as
 * ended by it, too, or they would come to it in turn while each waits for its next start. */
static void describe_lost(const struct cluster *cluster, const struct job *job,
                          const struct agent *agent, struct document_task *task)
{
    const struct processor *processor = &job->processors.items[task->processor];
    const struct crash_note *note = find_any_note(cluster, job, task->processor);
    for (size_t i = 0; note != NULL && i < CLUSTER_LOST_MAX; i++) {
        const struct agent *lost =
            processor->lost[i] != NULL ? cluster_agent(cluster, processor->lost[i]) : NULL;
        if (lost == NULL || lost == agent)
            continue;
        struct crash_note presumed = *note;
        presumed.count = 1;
        add(task, lost, &presumed);
    }
}

void cluster_describe_crashes(const struct cluster *cluster, const struct job *job,
                              const struct agent *agent, struct document_task *task)
{
    if (task->role != TASK_ROLE_ACTIVE)
        return;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *other = cluster->agents.items[i];
        const struct crash_note *note =
            other != agent ? find_note(other, job, task->processor) : NULL;
        if (note != NULL)
            add(task, other, note);
    }
    describe_lost(cluster, job, agent, task);
}

/* ---- lost owners */

void cluster_note_lost(struct processor *processor, const char *agent_id)
{
    for (size_t i = 0; i < CLUSTER_LOST_MAX; i++)
        if (rows_text_equal(processor->lost[i], agent_id))
            return;
    free(processor->lost[CLUSTER_LOST_MAX - 1]);
    memmove(&processor->lost[1], &processor->lost[0],
            (CLUSTER_LOST_MAX - 1) * sizeof(processor->lost[0]));
    processor->lost[0] = mem_strdup(agent_id);
}

void cluster_forget_lost(struct processor *processor)
{
    for (size_t i = 0; i < CLUSTER_LOST_MAX; i++)
        rows_text_set(&processor->lost[i], NULL);
}
