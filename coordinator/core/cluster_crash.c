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

static int64_t t1_of(const struct partition_progress *items, size_t count,
                     const struct crash_note *note)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].topic == note->topic && items[i].partition == note->partition)
            return items[i].t1;
    return API_UNKNOWN;
}

/* Of the partition that the note is of, as an owner said it last, in an earlier run if need be. */
static int64_t last_t1(const struct processor *processor, const struct crash_note *note)
{
    const struct processor_observed *observed = &processor->observed;
    int64_t t1 = API_UNKNOWN;
    if (observed->known)
        t1 = t1_of(observed->report.progress.items, observed->report.progress.count, note);
    if (t1 == API_UNKNOWN)
        t1 = t1_of(processor->told.items, processor->told.count, note);
    return t1 != API_UNKNOWN ? t1 : t1_of(processor->stored.items, processor->stored.count, note);
}

/* A commit has passed the record: it can end nobody any more but who replays it, and that is each
 * agent's own matter. Where no T1 is known nothing has been passed. */
static bool is_passed(const struct processor *processor, const struct crash_note *note)
{
    int64_t t1 = last_t1(processor, note);
    return t1 != API_UNKNOWN && note->offset < t1;
}

/* What whoever owns the processor is to know. An agent may have several of one processor: an older
 * one of a processor that the partition has left by a split, too. */
static bool is_to_be_told(const struct job *job, const struct crash_note *note, uint32_t processor)
{
    return cluster_crash_concerns(job, note, processor) &&
           !is_passed(&job->processors.items[processor], note);
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

static bool is_alike(const struct crash_note *a, const struct crash_note *b)
{
    return a->topic == b->topic && a->partition == b->partition && a->offset == b->offset &&
           strcmp(a->build, b->build) == 0;
}

/* The lost agent counts as ended by this record. */
static void presume(const struct agent *lost, const struct crash_note *note,
                    struct document_task *task, size_t first)
{
    struct crash_note presumed = *note;
    for (size_t i = first; i < task->crashes.count; i++)
        if (strcmp(task->crashes.items[i].agent, lost->row.agent_id) == 0 &&
            is_alike(&task->crashes.items[i], note))
            return; /* another agent's note of it has been met already */
    presumed.count = 1;
    add(task, lost, &presumed);
}

/* Owners that were lost and can not say yet what of: where one was ended by a record that has not
 * been passed, they count as ended by it, too, or they would come to it in turn while each waits
 * for its next start. */
static void describe_lost(const struct cluster *cluster, const struct job *job,
                          const struct agent *agent, const struct crash_note *note,
                          struct document_task *task, size_t first)
{
    const struct processor *processor = &job->processors.items[task->processor];
    for (size_t i = 0; i < CLUSTER_LOST_MAX; i++) {
        const struct agent *lost =
            processor->lost[i] != NULL ? cluster_agent(cluster, processor->lost[i]) : NULL;
        if (lost != NULL && lost != agent)
            presume(lost, note, task, first);
    }
}

void cluster_describe_crashes(const struct cluster *cluster, const struct job *job,
                              const struct agent *agent, struct document_task *task)
{
    if (task->role != TASK_ROLE_ACTIVE)
        return;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *other = cluster->agents.items[i];
        for (size_t k = 0; other != agent && k < other->crashes.count; k++)
            if (is_to_be_told(job, &other->crashes.items[k], task->processor))
                add(task, other, &other->crashes.items[k]);
    }
    size_t first = task->crashes.count;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        const struct agent *any = cluster->agents.items[i];
        for (size_t k = 0; k < any->crashes.count; k++)
            if (is_to_be_told(job, &any->crashes.items[k], task->processor))
                describe_lost(cluster, job, agent, &any->crashes.items[k], task, first);
    }
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
