/* What is wrong with a job, from everywhere it can be seen: reports, placements, Kafka, the map. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/publish_job.h"

struct search {
    const struct cluster *cluster;
    const struct job *job;
    int64_t now_ms;
    struct view_job *view;
    size_t capacity;
};

struct where {
    int64_t processor; /* API_UNKNOWN: the whole job */
    const char *agent; /* or NULL */
    int64_t since_at;
};

static void add(struct search *search, const char *code, struct where where, char *detail)
{
    const struct problem_entry *entry = problem_lookup(code);
    struct view_job *view = search->view;
    view->problems.items = mem_grow(view->problems.items, view->problems.count, &search->capacity,
                                    sizeof(*view->problems.items));
    /* A newer agent may know a problem that this coordinator does not: shown as it came. */
    view->problems.items[view->problems.count++] = (struct problem_view){
        .code = mem_strdup(code),
        .severity = entry != NULL ? entry->severity : PROBLEM_SEVERITY_CRITICAL,
        .job = mem_strdup(search->job->row.name),
        .processor = where.processor,
        .agent = where.agent == NULL ? NULL : mem_strdup(where.agent),
        .since_at = where.since_at,
        .detail = detail,
        .action = mem_strdup(entry != NULL ? entry->action
                                           : "See the documentation of the agent's version."),
    };
}

static void add_reported(struct search *search, const struct processor *processor,
                         const struct task_report *report)
{
    for (size_t i = 0; i < report->problems.count; i++) {
        const struct task_problem *problem = &report->problems.items[i];
        add(search, problem->code,
            (struct where){report->processor, processor->placement.agent, problem->since_at},
            publish_text("%s", problem->detail));
    }
}

static void add_absent_owner(struct search *search, const struct processor *processor,
                             const struct agent *agent)
{
    const struct placement_row *placement = &processor->placement;
    struct where where = {placement->processor, placement->agent, placement->changed_at};
    char seen[CLOCK_TEXT_BYTES];
    if (agent == NULL || agent->seen_ms == 0) {
        add(search, "agent_lost", where,
            publish_text("agent %s was not heard of since the coordinator started",
                         placement->agent));
        return;
    }
    where.since_at = agent->seen_at;
    clock_format(agent->seen_at, seen);
    add(search, "agent_lost", where,
        publish_text(agent->row.state == AGENT_STATE_STOPPED
                         ? "agent %s has left at %s and is not back"
                         : "agent %s was last heard of at %s",
                     placement->agent, seen));
}

static int compare_agent(const void *agent_id, const void *item)
{
    return strcmp(agent_id, (*(struct agent *const *)item)->row.agent_id);
}

/* Tasks placed on each agent; free(). */
static uint32_t *count_loads(const struct cluster *cluster)
{
    uint32_t *loads = mem_calloc(cluster->agents.count, sizeof(*loads));
    for (size_t j = 0; j < cluster->jobs.count; j++) {
        const struct job *job = cluster->jobs.items[j];
        for (size_t p = 0; p < job->processors.count; p++) {
            const char *owner = job->processors.items[p].placement.agent;
            struct agent **found =
                owner == NULL ? NULL
                              : bsearch(owner, cluster->agents.items, cluster->agents.count,
                                        sizeof(struct agent *), compare_agent);
            if (found != NULL)
                loads[found - cluster->agents.items]++;
        }
    }
    return loads;
}

/* Agents that are alive, and whether one of them has room. */
static void count_agents(const struct search *search, size_t *ret_alive, bool *ret_room)
{
    const struct cluster *cluster = search->cluster;
    uint32_t *loads = count_loads(cluster);
    *ret_alive = 0;
    *ret_room = false;
    for (size_t a = 0; a < cluster->agents.count; a++) {
        const struct agent *agent = cluster->agents.items[a];
        if (!cluster_agent_alive(cluster, agent, search->now_ms))
            continue;
        (*ret_alive)++;
        *ret_room = *ret_room || loads[a] < agent->row.capacity;
    }
    free(loads);
}

static void add_unassigned(struct search *search)
{
    size_t alive = SIZE_MAX;
    bool room = false;
    for (size_t p = 0; p < search->job->processors.count; p++) {
        const struct placement_row *placement = &search->job->processors.items[p].placement;
        if (placement->agent != NULL)
            continue;
        if (alive == SIZE_MAX) /* the same for all of them */
            count_agents(search, &alive, &room);
        struct where where = {(int64_t)p, NULL, placement->changed_at};
        if (alive == 0)
            add(search, "no_agent", where, publish_text("no agent is alive"));
        else if (!room)
            add(search, "capacity_exhausted", where,
                publish_text("%zu agents are alive and all are full", alive));
    }
}

static void add_of_processors(struct search *search)
{
    for (size_t p = 0; p < search->job->processors.count; p++) {
        const struct processor *processor = &search->job->processors.items[p];
        if (processor->placement.agent == NULL)
            continue;
        const struct agent *agent = cluster_agent(search->cluster, processor->placement.agent);
        if (agent == NULL || !cluster_agent_alive(search->cluster, agent, search->now_ms)) {
            add_absent_owner(search, processor, agent);
            continue;
        }
        const struct task_report *report = cluster_report(search->cluster, processor);
        if (report != NULL)
            add_reported(search, processor, report);
    }
}

static void add_of_job(struct search *search)
{
    const struct job *job = search->job;
    if (job->row.partitioner == EFFECTIVE_PARTITIONER_OPAQUE &&
        job->row.spec.partitioner == PARTITIONER_AUTO)
        add(search, "partitioner_opaque", (struct where){API_UNKNOWN, NULL, job->row.created_at},
            publish_text("%s", job->row.partitioner_reason != NULL ? job->row.partitioner_reason
                                                                   : "no hash explains the keys"));
}

void publish_find_problems(const struct cluster *cluster, const struct job *job, int64_t now_ms,
                           struct view_job *view)
{
    struct search search = {.cluster = cluster, .job = job, .now_ms = now_ms, .view = view};
    add_of_job(&search);
    add_of_processors(&search);
    if (job->row.state == JOB_STATE_RUNNING)
        add_unassigned(&search);
}
