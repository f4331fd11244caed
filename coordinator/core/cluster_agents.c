/* What agents have: tasks, and states on their disks that no task uses. */
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"

bool cluster_agent_schedulable(const struct agent *agent)
{
    return !agent->row.eligibility.cordoned && !cluster_agent_leaving(agent);
}

bool cluster_agent_leaving(const struct agent *agent)
{
    return agent->row.drain.asked && agent->row.drain.state != DRAIN_STATE_CANCELLED;
}

const char *cluster_say_unschedulable(const struct agent *agent)
{
    return cluster_agent_leaving(agent) ? "to leave: it is drained" : "cordoned";
}

/* ---- tasks */

static void count_task(const struct cluster *cluster, const char *agent_id, uint32_t *tasks)
{
    size_t index;
    if (agent_id != NULL && cluster_find_agent(cluster, agent_id, &index))
        tasks[index]++;
}

/* Those that an agent is still to close are among them. */
uint32_t *cluster_count_tasks(const struct cluster *cluster)
{
    uint32_t *tasks = mem_calloc(cluster->agents.count, sizeof(uint32_t));
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count + job->nascent; p++) {
            const struct handoff *handoff = job->processors.items[p].handoff;
            count_task(cluster, job->processors.items[p].placement.agent, tasks);
            if (handoff != NULL && handoff_before_release(handoff->row.state))
                count_task(cluster, handoff->row.target, tasks);
        }
    }
    return tasks;
}

bool cluster_is_learning(const struct job *job, const struct handoff *handoff)
{
    return handoff != NULL && job->row.spec.stateful && handoff_before_release(handoff->row.state);
}

/* ---- kept states */

static struct kept_state *find_kept(const struct agent *agent, const struct task_report *report)
{
    for (size_t i = 0; i < agent->kept.count; i++) {
        struct kept_state *kept = &agent->kept.items[i];
        if (kept->processor == report->processor &&
            strcmp(kept->job_incarnation, report->job_incarnation) == 0)
            return kept;
    }
    return NULL;
}

/* Of jobs that are gone. */
static void drop_orphans(const struct cluster *cluster, struct agent *agent)
{
    size_t left = 0;
    for (size_t i = 0; i < agent->kept.count; i++) {
        const struct kept_state kept = agent->kept.items[i];
        const struct job *job = cluster_job(cluster, kept.job);
        if (job != NULL && strcmp(job->row.incarnation, kept.job_incarnation) == 0)
            agent->kept.items[left++] = kept;
        else
            schema_free(&schema_kept_state, &agent->kept.items[i]);
    }
    agent->kept.count = left;
}

static void fill_kept(const struct task_report *report, struct kept_state *ret_kept)
{
    *ret_kept = (struct kept_state){.job = mem_strdup(report->job),
                                    .job_incarnation = mem_strdup(report->job_incarnation),
                                    .processor = report->processor};
    ret_kept->learned.items = mem_calloc(report->progress.count, sizeof(struct input_offset));
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *progress = &report->progress.items[i];
        if (progress->t2 != API_UNKNOWN)
            ret_kept->learned.items[ret_kept->learned.count++] =
                (struct input_offset){progress->topic, progress->partition, progress->t2};
    }
}

void cluster_note_kept(const struct cluster *cluster, const struct processor_observed *observed)
{
    struct agent *agent = observed->known ? cluster_agent(cluster, observed->agent) : NULL;
    /* A new start has said itself what it has. */
    if (agent == NULL || strcmp(agent->row.incarnation, observed->agent_incarnation) != 0)
        return;
    drop_orphans(cluster, agent);
    struct kept_state *kept = find_kept(agent, &observed->report);
    if (kept != NULL) {
        schema_free(&schema_kept_state, kept);
    } else {
        agent->kept.items = mem_grow(agent->kept.items, agent->kept.count, &agent->kept.capacity,
                                     sizeof(struct kept_state));
        kept = &agent->kept.items[agent->kept.count++];
    }
    fill_kept(&observed->report, kept);
}
