/* What is wrong with a job, from everywhere it can be seen: reports, placements, Kafka, the map. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/core/placing.h"
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

static void add_reported(struct search *search, const char *agent_id,
                         const struct task_report *report)
{
    for (size_t i = 0; i < report->problems.count; i++) {
        const struct task_problem *problem = &report->problems.items[i];
        add(search, problem->code, (struct where){report->processor, agent_id, problem->since_at},
            text_printf("%s", problem->detail));
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
            text_printf("agent %s was not heard of since the coordinator started",
                        placement->agent));
        return;
    }
    where.since_at = agent->seen_at;
    clock_format(agent->seen_at, seen);
    add(search, "agent_lost", where,
        text_printf(agent->row.state == AGENT_STATE_STOPPED
                        ? "agent %s has left at %s and is not back"
                        : "agent %s was last heard of at %s",
                    placement->agent, seen));
}

/* Agents as the planner sees them. */
struct agent_counts {
    size_t alive;  /* and take tasks */
    size_t barred; /* alive, too, but cordoned or drained */
    bool room;     /* one that takes tasks has some */
};

static struct agent_counts count_agents(const struct search *search)
{
    const struct cluster *cluster = search->cluster;
    uint32_t *tasks = cluster_count_tasks(cluster);
    struct agent_counts counts = {0};
    for (size_t a = 0; a < cluster->agents.count; a++) {
        const struct agent *agent = cluster->agents.items[a];
        if (!cluster_agent_alive(cluster, agent, search->now_ms) || agent->stopping)
            continue;
        if (!cluster_agent_schedulable(agent)) {
            counts.barred++;
            continue;
        }
        counts.alive++;
        counts.room = counts.room || tasks[a] < agent->row.capacity;
    }
    free(tasks);
    return counts;
}

static void add_why(struct search *search, const struct placement_row *placement,
                    struct agent_counts counts)
{
    struct where where = {(int64_t)placement->processor, NULL, placement->changed_at};
    if (counts.alive == 0 && counts.barred > 0)
        add(search, "no_agent", where,
            text_printf("%zu agents are alive and all are cordoned or drained", counts.barred));
    else if (counts.alive == 0 && placement->agent == NULL)
        add(search, "no_agent", where, text_printf("no agent is alive"));
    else if (counts.alive > 0 && !counts.room && counts.barred == 0)
        add(search, "capacity_exhausted", where,
            text_printf("%zu agents are alive and all are full", counts.alive));
    else if (counts.alive > 0 && !counts.room)
        add(search, "capacity_exhausted", where,
            text_printf("%zu agents are alive and all are full; %zu more are cordoned or drained",
                        counts.alive, counts.barred));
}

/* Nobody owns it, or its owner is gone for longer than it is waited for. */
static bool is_homeless(const struct search *search, const struct processor *processor)
{
    return processor->placement.agent == NULL ||
           search->now_ms >=
               placing_given_up_at(search->cluster, search->job, processor, search->now_ms);
}

static void add_homeless(struct search *search)
{
    struct agent_counts counts = {0};
    bool counted = false;
    for (size_t p = 0; p < search->job->processors.count; p++) {
        const struct processor *processor = &search->job->processors.items[p];
        const struct placement_row *placement = &processor->placement;
        if (!is_homeless(search, processor))
            continue;
        if (!counted) /* the same for all of them */
            counts = count_agents(search);
        counted = true;
        add_why(search, placement, counts);
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
            add_reported(search, processor->placement.agent, report);
    }
}

/* Of those who learn: their owners go on meanwhile. */
static void add_of_learners(struct search *search)
{
    for (size_t p = 0; p < search->job->processors.count; p++) {
        const struct processor *processor = &search->job->processors.items[p];
        const struct task_report *report = cluster_learner_report(search->cluster, processor);
        if (report != NULL)
            add_reported(search, processor->handoff->row.target, report);
        for (size_t s = 0; s < processor->standbys.count; s++) {
            const struct standby *standby = &processor->standbys.items[s];
            report = cluster_standby_report(search->cluster, standby);
            if (report != NULL)
                add_reported(search, standby->row.agent, report);
        }
    }
}

/* Agents that can not have their share: the job has fewer hosts than people think. */
static void add_refused(struct search *search)
{
    for (size_t i = 0; i < search->job->arrivals.count; i++) {
        const struct arrival_row *arrival = &search->job->arrivals.items[i];
        const struct agent *agent = cluster_agent(search->cluster, arrival->agent);
        if (arrival->refused == NULL || agent == NULL ||
            strcmp(agent->row.incarnation, arrival->incarnation) != 0 ||
            !cluster_agent_alive(search->cluster, agent, search->now_ms))
            continue;
        add(search, arrival->refused,
            (struct where){arrival->refused_processor, arrival->agent, arrival->refused_at},
            text_printf("agent %s can not learn it, its owner goes on: %s", arrival->agent,
                        arrival->refused_detail));
    }
}

/* Owners that are to leave, and stay because of these. */
static void add_untaken(struct search *search)
{
    for (size_t p = 0; p < search->job->processors.count; p++) {
        const struct processor *processor = &search->job->processors.items[p];
        const struct placement_row *placement = &processor->placement;
        if (processor->untaken_at != 0)
            add(search, "drain_waits",
                (struct where){placement->processor, placement->agent, processor->untaken_at},
                text_printf("%s", processor->waits));
    }
}

static void earliest(int64_t at, int64_t *ret_at)
{
    if (*ret_at == API_UNKNOWN || at < *ret_at)
        *ret_at = at;
}

/* One for the job: it is the same for most of its processors. */
static void add_unguarded(struct search *search)
{
    const struct job *job = search->job;
    size_t count = 0;
    int64_t since_at = API_UNKNOWN;
    for (size_t p = 0; p < job->processors.count; p++) {
        const struct processor *processor = &job->processors.items[p];
        if (processor->standby_lack_at == 0)
            continue;
        count++;
        earliest(processor->standby_lack_at, &since_at);
    }
    if (count > 0)
        add(search, "standbys_missing", (struct where){API_UNKNOWN, NULL, since_at},
            text_printf("%zu of %zu processors have fewer than the job's %u standbys: no other "
                        "agent is alive, neither cordoned nor drained, has room and can rebuild "
                        "the state",
                        count, job->processors.count, job->row.spec.standbys));
}

/* Whether all standbys go with the owner's zone; since when, then. */
static bool share_zone(const struct search *search, const struct processor *processor,
                       int64_t *ret_at)
{
    const struct agent *owner = processor->placement.agent == NULL
                                    ? NULL
                                    : cluster_agent(search->cluster, processor->placement.agent);
    const char *zone = owner != NULL ? cluster_agent_zone(owner) : NULL;
    int64_t since_at = processor->placement.changed_at;
    for (size_t s = 0; s < processor->standbys.count; s++) {
        const struct standby_row *row = &processor->standbys.items[s].row;
        const char *other = cluster_agent_zone(cluster_agent(search->cluster, row->agent));
        if (zone == NULL || other == NULL || strcmp(zone, other) != 0)
            return false;
        if (row->started_at > since_at)
            since_at = row->started_at;
    }
    *ret_at = since_at;
    return processor->standbys.count > 0;
}

static void add_zones(struct search *search)
{
    const struct job *job = search->job;
    size_t count = 0;
    int64_t since_at = API_UNKNOWN, at;
    for (size_t p = 0; p < job->processors.count; p++) {
        if (!share_zone(search, &job->processors.items[p], &at))
            continue;
        count++;
        earliest(at, &since_at);
    }
    if (count > 0)
        add(search, "standbys_missing", (struct where){API_UNKNOWN, NULL, since_at},
            text_printf("%zu of %zu processors have no standby in another zone than their owner's",
                        count, job->processors.count));
}

static void add_of_topics(struct search *search)
{
    const struct job_topics *topics = &search->job->topics;
    for (size_t i = 0; i < topics->findings.count; i++) {
        const struct job_finding *finding = &topics->findings.items[i];
        add(search, finding->code, (struct where){API_UNKNOWN, NULL, finding->since_at},
            text_printf("%s", finding->detail));
    }
}

static size_t count_paused(const struct view_job *view)
{
    size_t count = 0;
    for (size_t i = 0; i < view->processors.count; i++)
        count += strcmp(view->processors.items[i].state, "paused") == 0;
    return count;
}

static char *say_members(const struct job *job)
{
    const struct job_group *seen = &job->group;
    if (!seen->known)
        return text_printf("group \"%s\" is looked at", job->row.spec.group_id);
    return text_printf("group \"%s\" has %u members%s%s", job->row.spec.group_id, seen->members,
                       seen->who != NULL ? ": " : "", seen->who != NULL ? seen->who : "");
}

static void add_hold(struct search *search)
{
    const struct job *job = search->job;
    const struct group_row *row = &job->row.group;
    struct where where = {API_UNKNOWN, NULL, row->since_at};
    size_t paused = count_paused(search->view);
    char *members = say_members(job);
    if (row->hold == GROUP_HOLD_FROZEN)
        add(search, "group_intruded", where,
            text_printf("%s; %zu of %zu processors have stopped", members, paused,
                        job->processors.count));
    else if (row->hold != GROUP_HOLD_NONE)
        add(search, "group_awaited", where,
            text_printf("%s; %zu of %zu processors have learned what they committed%s%s", members,
                        paused, job->processors.count,
                        job->group.claim_error != NULL ? "; not taken over yet: " : "",
                        job->group.claim_error != NULL ? job->group.claim_error : ""));
    free(members);
}

static void add_of_group(struct search *search)
{
    const struct job_group *seen = &search->job->group;
    add_hold(search);
    if (seen->failing_at != 0)
        add(search, "group_unwatched", (struct where){API_UNKNOWN, NULL, seen->failing_at},
            text_printf("%s", seen->error));
}

/* One for the job: the windows of a topic have the same producers. */
static void add_stale(struct search *search)
{
    const struct job *job = search->job;
    const struct window *first = NULL;
    size_t count = 0;
    int64_t since_at = API_UNKNOWN;
    for (size_t i = 0; i < job->windows.count; i++) {
        const struct window *window = &job->windows.items[i];
        if (!window->row.stale)
            continue;
        first = count++ == 0 ? window : first;
        earliest(window->row.opened_at, &since_at);
    }
    if (first != NULL)
        add(search, "stale_after_settle", (struct where){API_UNKNOWN, NULL, since_at},
            text_printf("%zu partitions, first \"%s\" %u: old-count records came after their "
                        "settle windows were closed",
                        count, job->row.spec.inputs.items[first->row.window.topic],
                        first->row.window.partition));
}

static void add_of_job(struct search *search)
{
    const struct job *job = search->job;
    const struct hold *pause = &job->row.pause;
    if (pause->on)
        add(search, "paused", (struct where){API_UNKNOWN, NULL, pause->changed_at},
            text_printf("by %s%s%s", pause->actor, pause->reason != NULL ? ": " : "",
                        pause->reason != NULL ? pause->reason : ""));
    if (job->row.partitioner == EFFECTIVE_PARTITIONER_OPAQUE &&
        job->row.spec.partitioner == PARTITIONER_AUTO)
        add(search, "partitioner_opaque", (struct where){API_UNKNOWN, NULL, job->row.created_at},
            text_printf("%s", job->row.partitioner_reason != NULL ? job->row.partitioner_reason
                                                                  : "no hash explains the keys"));
}

void publish_find_problems(const struct cluster *cluster, const struct job *job, int64_t now_ms,
                           struct view_job *view)
{
    struct search search = {.cluster = cluster, .job = job, .now_ms = now_ms, .view = view};
    add_of_job(&search);
    add_of_processors(&search);
    add_of_learners(&search);
    add_refused(&search);
    if (job->row.state == JOB_STATE_RUNNING) {
        add_of_group(&search);
        add_of_topics(&search);
        add_stale(&search);
        add_homeless(&search);
        add_untaken(&search);
        add_unguarded(&search);
        add_zones(&search);
    }
}
