/*
 * Others in the job's group, who come and go (S36). They commit nothing: what a job makes of
 * others' offsets is for the unit tests of its task. When they are there follows from seed and time
 * alone, so that worlds without them are what they were.
 */
#include "tests/sim/guests.h"

#include "coordinator/core/cluster.h"
#include "tests/sim/world.h"

#define GUESTS_PERIOD_MS 9000
#define GUESTS_FROM_MS   5000
#define GUESTS_TO_MS     7000

bool guests_come(const struct world_config *config)
{
    return config->seed % 3 == 1 && !config->left_alone && !config->compacts &&
           config->sweep == WORLD_NO_SWEEP;
}

uint32_t guests_count(const struct world *world)
{
    int64_t at_ms = world->now_ms % GUESTS_PERIOD_MS;

    if (world->calm || world->config.core.groups_interval_ms == 0)
        return 0;
    return at_ms >= GUESTS_FROM_MS && at_ms < GUESTS_TO_MS ? 2 : 0;
}

void guests_before_end(struct world *world, struct kafka_result *result)
{
    for (size_t i = 0; world->calm && i < result->groups.count; i++)
        result->groups.items[i].members = world->guests.members = 0;
}

static bool is_held(const struct job *job)
{
    return job == NULL || job->row.state != JOB_STATE_RUNNING || cluster_is_held(job);
}

/* Owners that have said they stopped. It is said for one epoch: who has an older one and hears
 * nothing is shut out by the stamp of the next who works, and whoever rests puts none (D6, S36). */
static void note_rested(struct world *world, const struct job *job)
{
    for (uint32_t i = 0; job != NULL && i < job->processors.count; i++) {
        const struct task_report *report =
            cluster_report(&world->host.cluster, &job->processors.items[i]);

        if (report != NULL && report->state == TASK_STATE_PAUSED)
            checks_epoch(&world->checks, report->epoch)->rested = true;
    }
}

void guests_after_step(struct world *world, const struct coord_event *event)
{
    const struct job *job = host_job(world);
    bool told = event->kind == COORD_EVENT_KAFKA && event->kafka.id == world->guests.call &&
                !event->kafka.failed;

    if (event->kind == COORD_EVENT_REPORT)
        note_rested(world, job);
    /* Before it knows that its database is the newest it decides nothing, and looks again. */
    if (!told || world->host.cluster.recovery.state != RECOVERY_NONE)
        return;
    world->tally->of[TALLY_GUESTS] += world->guests.members > 0;
    world->tally->of[TALLY_FROZEN] +=
        job != NULL && job->row.group.hold == GROUP_HOLD_FROZEN && world->guests.members > 0;
    if (world->guests.members > 0 && !is_held(job))
        checks_fail(world, "the job's group has members, and the job goes on");
}

void guests_check_output(struct world *world, const struct kafka_output *output)
{
    uint32_t processor = kafka_processor_of(&world->kafka, output->partition);

    if (checks_epoch(&world->checks, output->epoch)->rested)
        checks_fail(world, "processor %u: epoch %llu puts something out after it said it stopped",
                    processor, (unsigned long long)output->epoch);
}
