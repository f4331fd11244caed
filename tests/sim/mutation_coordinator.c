/* Rules of the coordinator, broken on purpose. */
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/dry_run.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"
#include "tests/sim/mutation.h"
#include "tests/sim/world.h"

/* ---- what the core is told */

static bool is_of(const struct placement_row *placement, const char *agent_id)
{
    return placement->agent != NULL && strcmp(placement->agent, agent_id) == 0;
}

static void believe_release(const struct job *job, const char *agent_id, struct task_report *report)
{
    const struct processor *processor = &job->processors.items[report->processor];

    if (processor->handoff == NULL || processor->handoff->row.state != HANDOFF_STATE_RELEASING ||
        !report->released || !is_of(&processor->placement, agent_id))
        return;
    report->epoch = processor->placement.epoch;
    report->handoff = processor->handoff->row.id;
}

static void believe_active(const struct job *job, const char *agent_id, struct task_report *report)
{
    const struct processor *processor = &job->processors.items[report->processor];

    if (report->state == TASK_STATE_ACTIVE && is_of(&processor->placement, agent_id))
        report->epoch = processor->placement.epoch;
}

static void believe_standby(const struct job *job, const char *agent_id, struct task_report *report)
{
    (void)job; /* the others look at it */
    (void)agent_id;
    for (size_t i = 0; report->role == TASK_ROLE_STANDBY && i < report->progress.count; i++)
        report->progress.items[i].t2 = INT64_MAX;
    if (report->role == TASK_ROLE_STANDBY)
        report->state = TASK_STATE_CAUGHT_UP;
}

/* The owner of the record is taken for stopped by it. */
static void pretend_halted(struct world *world, const struct skip_request *wish)
{
    const struct job *job = host_job(world);

    if (job == NULL || wish->partition >= job->processors.count)
        return;
    struct processor_observed *observed = &job->processors.items[wish->partition].observed;
    if (!observed->known || observed->report.halted.count > 0)
        return;
    observed->report.state = TASK_STATE_FAILED;
    observed->report.halted.items = mem_calloc(1, sizeof(*observed->report.halted.items));
    observed->report.halted.items[0] =
        (struct input_offset){.partition = wish->partition, .offset = wish->offset};
    observed->report.halted.count = 1;
}

static void bend_tasks(struct world *world, struct coord_event *event,
                       void (*bend)(const struct job *job, const char *agent_id,
                                    struct task_report *report))
{
    const struct job *job = host_job(world);

    if (event->kind != COORD_EVENT_REPORT || job == NULL)
        return;
    for (size_t i = 0; i < event->report.tasks.count; i++) {
        struct task_report *report = &event->report.tasks.items[i];

        /* A split may have been called off since. */
        if (report->processor < job->processors.count + job->nascent)
            bend(job, event->name, report);
    }
}

static void bind_to_present(struct world *world, const char *agent_id, char **incarnation)
{
    const struct agent *agent = cluster_agent(&world->host.cluster, agent_id);

    if (agent != NULL)
        rows_text_set(incarnation, agent->row.incarnation);
}

/* One that the core has just heard of is taken for silent. */
static void forget_to_hear(struct world *world)
{
    struct cluster *cluster = &world->host.cluster;
    int64_t past_ms = world->now_ms - cluster->config.agent_timeout_ms - 1;

    if (cluster->agents.count == 0 || world_between(world, 0, 30) != 0)
        return;
    cluster->listening_ms = past_ms > 0 ? past_ms : 1;
    cluster->agents.items[world_between(world, 0, (int64_t)cluster->agents.count - 1)]->seen_ms =
        past_ms > 0 ? past_ms : 1;
}

static void end_grace(struct world *world)
{
    struct cluster *cluster = &world->host.cluster;

    for (size_t i = 0; i < cluster->agents.count; i++) {
        struct agent *agent = cluster->agents.items[i];

        if (agent->gone_ms > world->config.rejoin_grace_ms)
            agent->gone_ms = world->now_ms - world->config.rejoin_grace_ms;
    }
    cluster->place_ms = world->now_ms;
}

static void forget_plan(char **plan)
{
    free(*plan);
    *plan = NULL;
}

void mutation_bend_coord_event(struct world *world, struct coord_event *event)
{
    switch (world->config.mutation) {
    case MUTATION_OLD_RELEASE:
        bend_tasks(world, event, believe_release);
        break;
    case MUTATION_OLD_ACTIVE:
        bend_tasks(world, event, believe_active);
        break;
    case MUTATION_STANDBY_UNREADY:
        bend_tasks(world, event, believe_standby);
        break;
    case MUTATION_OLD_START:
        if (event->kind == COORD_EVENT_REPORT)
            bind_to_present(world, event->name, &event->report.incarnation);
        break;
    case MUTATION_SKIP_ANY:
        if (event->kind == COORD_EVENT_SKIP)
            pretend_halted(world, &event->skip);
        break;
    case MUTATION_POLL_UNBOUND:
        if (event->kind == COORD_EVENT_POLL)
            bind_to_present(world, event->name, &event->incarnation);
        break;
    case MUTATION_PLAN_IGNORED:
        if (step_plan_of(event) != NULL)
            forget_plan(step_plan_of(event));
        break;
    case MUTATION_EARLY_FORCE:
        if (event->kind != COORD_EVENT_START)
            forget_to_hear(world);
        break;
    case MUTATION_NO_GRACE:
        if (event->kind != COORD_EVENT_START)
            end_grace(world);
        break;
    case MUTATION_GUESTS_UNSEEN:
        for (size_t i = 0; event->kind == COORD_EVENT_KAFKA && i < event->kafka.groups.count; i++)
            event->kafka.groups.items[i].members = 0;
        break;
    default:
        mutation_bend_drain_event(world, event);
        break;
    }
}

/* ---- what the core does */

void mutation_keep_epoch(struct update *update, struct processor *processor, uint64_t old)
{
    uint64_t given = processor->placement.epoch;

    processor->placement.epoch = old;
    if (processor->handoff != NULL && processor->handoff->row.source_epoch == given)
        processor->handoff->row.source_epoch = old;
    if (processor->handoff != NULL && processor->handoff->row.target_epoch == given)
        processor->handoff->row.target_epoch = old;
    for (size_t i = 0; i < update->changes.count; i++) {
        struct change *change = &update->changes.items[i];

        if (change->kind == CHANGE_PLACEMENT && change->placement.epoch == given)
            change->placement.epoch = old;
        if (change->kind == CHANGE_HANDOFF && change->handoff.source_epoch == given)
            change->handoff.source_epoch = old;
        if (change->kind == CHANGE_HANDOFF && change->handoff.target_epoch == given)
            change->handoff.target_epoch = old;
    }
    for (size_t i = 0; i < update->answers.count; i++) {
        struct agent_document *document = update->answers.items[i].body;

        if (update->answers.items[i].type != &schema_agent_document)
            continue;
        for (size_t k = 0; k < document->tasks.count; k++) {
            if (document->tasks.items[k].epoch == given)
                document->tasks.items[k].epoch = old;
        }
    }
}

/* What an agent owned before the step and owns after it. */
static void keep_epochs(struct world *world, struct update *update, bool of_releases)
{
    const struct job *job = host_job(world);

    for (size_t i = 0; job != NULL && i < job->processors.count; i++) {
        struct processor *processor = &job->processors.items[i];
        const struct checks_owner *before = &world->checks.before[i];
        bool released = before->handoff != 0 && before->state == HANDOFF_STATE_RELEASING;

        if (before->agent >= 0 && processor->placement.agent != NULL &&
            agent_of_name(processor->placement.agent) == (size_t)before->agent &&
            processor->placement.epoch != before->epoch && released == of_releases)
            mutation_keep_epoch(update, processor, before->epoch);
    }
}

static void forget_failures(struct world *world)
{
    struct job *job = host_job(world);

    for (size_t i = 0; job != NULL && i < job->arrivals.count; i++)
        job->arrivals.items[i].open = true;
    for (size_t i = 0; job != NULL && i < job->processors.count; i++)
        job->processors.items[i].handoff_retry_ms = 0;
}

void mutation_bend_update(struct world *world, const struct coord_event *event,
                          struct update *update)
{
    switch (world->config.mutation) {
    case MUTATION_SAME_EPOCH_BACK:
        if (event->kind != COORD_EVENT_AGENT_REGISTER)
            keep_epochs(world, update, true);
        break;
    case MUTATION_REGISTER_KEEPS_EPOCH:
        if (event->kind == COORD_EVENT_AGENT_REGISTER)
            keep_epochs(world, update, false);
        break;
    case MUTATION_KEEPS_TRYING:
        forget_failures(world);
        break;
    default:
        mutation_bend_drain_update(world, event, update);
        break;
    }
}
