/*
 * The skips of a job out of what agents were told (recovery.h): a state that is built anew must
 * pass the same records as the one that was lost.
 *
 * A skip was durable before anybody was told of it, and none is ever taken back: those in any
 * document of the job's incarnation hold, however old it is. Who asked for them, when and why is
 * not in the documents.
 */
#include <string.h>

#include "common/hash/linhash.h"
#include "common/mem.h"
#include "coordinator/core/step_recovery.h"

#define REASON "an agent was told to pass it when the coordinator's database was recovered"

struct tally { /* of one job */
    size_t taken;
    size_t refused;
};

/* The job can not have it: what agents say is input. */
static bool is_refused(const struct job *job, const struct input_offset *told)
{
    return told->topic >= job->row.spec.inputs.count || told->partition >= job->row.partitions ||
           told->offset < 0 || job->skips.count >= API_SKIPS_MAX ||
           cluster_count_skips(job, told->topic, told->partition) >= API_SKIPS_PARTITION_MAX;
}

static void take(struct step *step, const struct job *job, const struct input_offset *told)
{
    struct linhash_size size = {.initial = job->row.processors_initial, .now = job->row.processors};
    struct change change = {.kind = CHANGE_SKIP,
                            .skip = {.job = mem_strdup(job->row.name),
                                     .topic = told->topic,
                                     .partition = told->partition,
                                     .offset = told->offset,
                                     .processor = linhash_bucket(told->partition, size),
                                     .reason = mem_strdup(REASON),
                                     .actor = mem_strdup(ACTOR_COORDINATOR),
                                     .skipped_at = step->event->now_at}};
    step_change(step, &change);
}

static void take_task(struct step *step, const struct job *job, const struct document_task *task,
                      struct tally *tally)
{
    for (size_t i = 0; i < task->skips.count; i++) {
        const struct input_offset *told = &task->skips.items[i];
        if (cluster_skip(job, told->topic, told->partition, told->offset) != NULL)
            continue;
        if (is_refused(job, told)) {
            tally->refused++;
            continue;
        }
        take(step, job, told);
        tally->taken++;
    }
}

static void take_job(struct step *step, struct job *job)
{
    const struct recovery *recovery = &step->cluster->recovery;
    struct tally tally = {0};
    for (size_t i = 0; i < recovery->agents.count; i++) {
        const struct agent_registration *said = &recovery->agents.items[i].said;
        if (!step_recovered_knows(said, job))
            continue;
        for (size_t t = 0; t < said->tasks.count; t++)
            if (strcmp(said->tasks.items[t].job, job->row.name) == 0)
                take_task(step, job, &said->tasks.items[t], &tally);
    }
    if (tally.taken > 0)
        job->skips_decision = step->cluster->meta.decision;
    if (tally.taken > 0 || tally.refused > 0)
        step_event(step, (struct event_about){"skips_recovered", .job = job->row.name},
                   "%zu records that agents pass and the database did not know of; %zu were not "
                   "taken over: the job can not have them",
                   tally.taken, tally.refused);
}

void step_recovered_skips(struct step *step)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++)
        take_job(step, step->cluster->jobs.items[i]);
}
