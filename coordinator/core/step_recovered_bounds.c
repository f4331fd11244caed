/*
 * Up to where processors inherit, when the database that held it was lost: from the stamps of their
 * own partitions, which each of their commits repeats, else from what agents were told. It never
 * changes, so whoever knows it is right. What nobody knows is not guessed: such a processor does
 * not work until somebody who knows has spoken, and its job's event says so.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/step_job.h"
#include "coordinator/core/step_recovery.h"

/* The database takes no other, and no start would read it again. */
static bool is_bound(const struct job *job, const struct ancestor_bound *bound)
{
    size_t at = (size_t)bound->topic * job->row.partitions + bound->partition;
    return at < job->row.origins.count && bound->offset >= job->row.origins.items[at].offset &&
           bound->offset >= 0 && bound->records >= API_UNKNOWN;
}

static bool find_stamped(const struct cluster *cluster, const struct job *job, uint32_t processor,
                         struct ancestor_bound *ret_bound)
{
    const struct recovery_stamps *stamps =
        step_recovery_stamps(cluster, job->row.name, job->row.incarnation);
    for (size_t i = 0; stamps != NULL && i < stamps->bounds.count; i++) {
        const struct recovery_bound *bound = &stamps->bounds.items[i];
        const struct ancestor_bound said = {.topic = bound->topic,
                                            .partition = ret_bound->partition,
                                            .offset = bound->offset,
                                            .records = bound->records};
        if (bound->processor != processor || bound->topic != ret_bound->topic ||
            !is_bound(job, &said))
            continue;
        *ret_bound = said;
        return true;
    }
    return false;
}

/* It, or one that descends from it: bounds of ancestors are the same for all of those. */
static bool descends(const struct job *job, uint32_t processor, uint32_t from)
{
    while (processor > from)
        processor = cluster_parent(job, processor);
    return processor == from;
}

static bool find_in_task(const struct job *job, const struct document_task *task,
                         struct ancestor_bound *ret_bound)
{
    for (size_t i = 0; i < task->bounds.count; i++) {
        const struct ancestor_bound *bound = &task->bounds.items[i];
        if (bound->topic != ret_bound->topic || bound->partition != ret_bound->partition ||
            !is_bound(job, bound))
            continue;
        *ret_bound = *bound;
        return true;
    }
    return false;
}

static bool find_told(const struct cluster *cluster, const struct job *job, uint32_t processor,
                      struct ancestor_bound *ret_bound)
{
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        const struct agent_registration *said = &cluster->recovery.agents.items[i].said;
        if (!step_recovered_knows(said, job))
            continue;
        for (size_t t = 0; t < said->tasks.count; t++) {
            const struct document_task *task = &said->tasks.items[t];
            if (strcmp(task->job, job->row.name) == 0 &&
                descends(job, task->processor, processor) && find_in_task(job, task, ret_bound))
                return true;
        }
    }
    return false;
}

static void say_unknown(struct step *step, const struct processor *processor, uint32_t topic)
{
    step_event(step, (struct event_about){"job_not_recovered", .processor = processor},
               "nobody knows up to where it inherits from partition %u of input %u, and it does "
               "not work until that is known: start an agent that had it, and recover again",
               cluster_parent(cluster_job(step->cluster, processor->placement.job),
                              processor->placement.processor),
               topic);
}

static void recover(struct step *step, const struct job *job, struct processor *processor)
{
    uint32_t number = processor->placement.processor, topics = (uint32_t)job->row.spec.inputs.count;
    if (processor->placement.bounds.count == topics)
        return;
    struct change change = step_placement_change(processor);
    struct placement_row *row = &change.placement;
    free(row->bounds.items);
    row->bounds.items = mem_calloc(topics, sizeof(*row->bounds.items));
    row->bounds.count = 0;
    for (uint32_t topic = 0; topic < topics; topic++) {
        struct ancestor_bound bound = {.topic = topic, .partition = cluster_parent(job, number)};
        if (find_stamped(step->cluster, job, number, &bound) ||
            find_told(step->cluster, job, number, &bound))
            row->bounds.items[row->bounds.count++] = bound;
        else
            say_unknown(step, processor, topic);
    }
    step_change(step, &change);
}

void step_recovered_bounds(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        for (uint32_t p = job->row.partitions_initial; p < job->processors.count; p++)
            if (cluster_inherits(job, p))
                recover(step, job, &job->processors.items[p]);
    }
}
