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
static void look_at_one(struct step *step, const struct job *job, struct processor *processor)
{
    uint64_t digest = cluster_digest_seeds(step->cluster, job, processor);
    if (digest == processor->seeds)
        return;
    processor->seeds = digest;
    renew_holders(step, processor);
}

/* What was split off and its parent depend on each other's; of several it is one after another. */
static void look_at(struct step *step, const char *job_name, uint32_t number)
{
    const struct job *job = cluster_job(step->cluster, job_name);
    if (job == NULL || number >= job->processors.count + job->nascent)
        return;
    uint32_t parent = cluster_parent(job, number);
    struct processor *child = cluster_split_child(job, number);
    look_at_one(step, job, &job->processors.items[number]);
    if (child != NULL)
        look_at_one(step, job, child);
    if (parent == number || parent >= job->processors.count)
        return;
    look_at_one(step, job, &job->processors.items[parent]);
    struct processor *sibling = cluster_split_child(job, parent);
    if (sibling != NULL)
        look_at_one(step, job, sibling);
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
        for (size_t p = 0; p < job->processors.count + job->nascent; p++)
            if (has_task(&job->processors.items[p], agent_id))
                look_at(step, job->row.name, (uint32_t)p);
    }
}

static void look_at_splits(struct step *step)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++) {
        const struct job *job = step->cluster->jobs.items[i];
        for (size_t p = job->row.processors_initial; p < job->processors.count + job->nascent; p++)
            look_at(step, job->row.name, (uint32_t)p);
    }
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
        case CHANGE_AGENT_REMOVED: /* it may still be named as the target of a split */
            look_at_splits(step);
            break;
        case CHANGE_PLACEMENT:
            look_at(step, change->placement.job, change->placement.processor);
            break;
        case CHANGE_HANDOFF:
            look_at(step, change->handoff.job, change->handoff.processor);
            if (change->handoff.kind == HANDOFF_KIND_SPLIT)
                look_at(step, change->handoff.job, (uint32_t)change->handoff.parent);
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
