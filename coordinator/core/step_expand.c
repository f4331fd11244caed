/*
 * More processors, or more partitions, that somebody asked for: what is refused of either, and the
 * operations of the former.
 */
#include <inttypes.h>

#include "api/schema.h"
#include "coordinator/core/step_internal.h"

static void refuse(struct step *step, const char *detail)
{
    step_problem(step, step->event->request, "expansion_refused", "%s", detail);
}

/* ---- what holds for both */

/* A job that can be expanded now; NULL: answered why not. */
static struct job *find_expandable(struct step *step)
{
    const struct coord_event *event = step->event;
    struct job *job = cluster_job(step->cluster, event->name);
    if (job == NULL) {
        step_problem(step, event->request, "job_not_found", "there is no job \"%s\"", event->name);
        return NULL;
    }
    const struct operation *present = step_find_expansion(step->cluster, job);
    if (job->row.state != JOB_STATE_RUNNING)
        step_problem(step, event->request, "expansion_refused", "job \"%s\" is %s, not running",
                     job->row.name, schema_enum_name(schema_names_job_state, (int)job->row.state));
    else if (job->row.pause.on)
        refuse(step, "the job is paused, and nothing of it moves; resume it first");
    else if (cluster_is_held(job))
        refuse(step, "others are in the job's group, and nothing of it moves until they have left");
    else if (present != NULL)
        step_problem(step, event->request, "expansion_refused",
                     "op-%" PRIu64 " expands the job already; wait for its end, or cancel it",
                     present->row.id);
    else
        return job;
    return NULL;
}

/* ---- processors */

/* Counts that can not be; true: answered. */
static bool refuse_processors(struct step *step, const struct job *job, int64_t wanted)
{
    const struct job_row *row = &job->row;
    uint64_t request = step->event->request;
    if (wanted <= row->processors)
        step_problem(step, request, "expansion_refused",
                     "the job has %u processors already, and can not have fewer: ask for more than "
                     "that",
                     row->processors);
    else if (wanted > row->partitions)
        step_problem(step, request, "expansion_refused",
                     "%" PRId64 " processors are more than the %u partitions of an input: those "
                     "without one would have nothing to do; expand the partitions first",
                     wanted, row->partitions);
    else if (row->spec.max_processors != 0 && wanted > row->spec.max_processors)
        step_problem(step, request, "expansion_refused",
                     "the job's max_processors is %u; raise it first", row->spec.max_processors);
    else if (row->partitions != row->partitions_initial)
        refuse(step, "the job's partitions have been expanded; processors of such a job can not be "
                     "split in this version");
    else
        return false;
    return true;
}

static void expand_processors(struct step *step, struct job *job)
{
    if (refuse_processors(step, job, step->event->expansion.processors))
        return;
    refuse(step, "processors can not be expanded in this version");
}

void step_expand(struct step *step)
{
    struct job *job = find_expandable(step);
    if (job == NULL)
        return;
    if (step->event->expansion.processors != API_UNKNOWN)
        expand_processors(step, job);
    else
        step_expand_partitions(step, job);
}
