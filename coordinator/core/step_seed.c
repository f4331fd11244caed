/* Documents of those who may get a state from each other (cluster_seed.c). */
#include <assert.h>
#include <string.h>

#include "coordinator/core/step_internal.h"
#include "coordinator/core/step_job.h"

static void renew(struct step *step, const char *agent_id)
{
    struct agent *agent = agent_id == NULL ? NULL : cluster_agent(step->cluster, agent_id);
    if (agent != NULL)
        step_renew_document(step, agent);
}

static void renew_holders(struct step *step, const struct processor *processor)
{
    renew(step, processor->placement.agent);
    if (processor->handoff != NULL)
        renew(step, processor->handoff->row.target);
    for (size_t i = 0; i < processor->standbys.count; i++)
        renew(step, processor->standbys.items[i].row.agent);
}

/* Whoever is not among them any more has had its document renewed by what ended it. */
static void look_at(struct step *step, const char *job_name, uint32_t number)
{
    struct job *job = cluster_job(step->cluster, job_name);
    if (job == NULL || number >= job->processors.count)
        return;
    struct processor *processor = &job->processors.items[number];
    uint64_t digest = cluster_digest_seeds(step->cluster, job, processor);
    if (digest == processor->seeds)
        return;
    processor->seeds = digest;
    renew_holders(step, processor);
}

static void look_at_job(struct step *step, const char *job_name)
{
    const struct job *job = cluster_job(step->cluster, job_name);
    for (size_t i = 0; job != NULL && i < job->processors.count; i++)
        look_at(step, job_name, (uint32_t)i);
}

static bool has_task(const struct processor *processor, const char *agent_id)
{
    const struct handoff *handoff = processor->handoff;
    return (processor->placement.agent != NULL &&
            strcmp(processor->placement.agent, agent_id) == 0) ||
           (handoff != NULL && strcmp(handoff->row.target, agent_id) == 0) ||
           cluster_standby(processor, agent_id) != NULL;
}

/* It may be reached elsewhere now. */
static void look_at_agent(struct step *step, const char *agent_id)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++) {
        const struct job *job = step->cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++)
            if (has_task(&job->processors.items[p], agent_id))
                look_at(step, job->row.name, (uint32_t)p);
    }
}

/* All agents of the job are told how many processors have what they need. */
static void look_at_split(struct step *step, const struct handoff_row *row)
{
    const struct job *job = cluster_job(step->cluster, row->job);
    bool over = row->state == HANDOFF_STATE_DONE || row->state == HANDOFF_STATE_FAILED;
    if (row->kind == HANDOFF_KIND_SPLIT && over && job != NULL)
        step_job_renew_documents(step, job);
}

void step_renew_seeds(struct step *step)
{
    size_t count = step->update->changes.count; /* renewing adds none */
    for (size_t i = 0; i < count; i++) {
        const struct change *change = &step->update->changes.items[i];
        switch (change->kind) {
        case CHANGE_JOB:
            look_at_job(step, change->job.name);
            break;
        case CHANGE_AGENT:
            look_at_agent(step, change->agent.agent_id);
            break;
        case CHANGE_PLACEMENT:
            look_at(step, change->placement.job, change->placement.processor);
            break;
        case CHANGE_HANDOFF:
            look_at(step, change->handoff.job, change->handoff.processor);
            look_at_split(step, &change->handoff);
            break;
        case CHANGE_STANDBY:
        case CHANGE_STANDBY_REMOVED:
            look_at(step, change->standby.job, change->standby.processor);
            break;
        default:
            break;
        }
    }
}
