/*
 * Others in the groups of running jobs (D6). One look at all groups every groups_interval_ms; a
 * transactional commit is accepted even while a group has members, so nothing in Kafka keeps a
 * plain consumer and a job from processing the same records. The coordinator does:
 *
 *             members appear                      the group is empty again
 *   NONE ---------------------> FROZEN ------------------------------------------> NONE
 *    |                            | paused, resumed: what they commit is meant
 *    |  paused, resumed           v
 *    '------------------------> WAITING ------------------------------------------> NONE
 *                               STARTING --- it is empty; its offsets get our stamp -----> NONE
 *
 * While there is a hold the documents of owners say that they put nothing out (cluster_map.c). A
 * job that is paused does not change its hold: then others may be in the group. Every owner gets a
 * new epoch when a hold ends, and so goes through D3.1: with FROZEN the offsets must still carry
 * our stamp, else it halts with `offsets_changed`.
 *
 * A hold ends after EMPTY_LOOKS looks in a row that found nobody and began after the hold did: old
 * consumers that are restarted one after the other, or rebalance, are not gone at the first. What
 * was seen is not durable, the hold is.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/stamp.h"
#include "common/mem.h"
#include "coordinator/core/step_group.h"
#include "coordinator/core/step_job.h"

#define EMPTY_LOOKS 2

/* ---- looking */

bool step_groups_watched(const struct cluster *cluster)
{
    return cluster->config.groups_interval_ms > 0;
}

int64_t step_groups_wake(const struct cluster *cluster)
{
    return step_groups_watched(cluster) && cluster->groups_call == 0 ? cluster->groups_ms
                                                                     : INT64_MAX;
}

void step_groups_due(struct step *step)
{
    step->cluster->groups_ms = step->event->now_ms;
}

static size_t count_running(const struct cluster *cluster)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster->jobs.count; i++)
        count += cluster->jobs.items[i]->row.state == JOB_STATE_RUNNING;
    return count;
}

void step_look_at_groups(struct step *step)
{
    struct cluster *cluster = step->cluster;
    if (step->event->now_ms < step_groups_wake(cluster) || !step_groups_watched(cluster))
        return;
    size_t running = count_running(cluster);
    cluster->groups_ms = INT64_MAX;
    if (running == 0)
        return;
    struct kafka_call *call = step_call_of_all(step, KAFKA_CALL_GROUPS);
    call->groups.items = mem_calloc(running, sizeof(char *));
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job_row *row = &cluster->jobs.items[i]->row;
        if (row->state == JOB_STATE_RUNNING)
            call->groups.items[call->groups.count++] = mem_strdup(row->spec.group_id);
    }
    cluster->groups_call = call->id;
}

/* ---- holds */

static void set_hold(struct step *step, struct job *job, enum group_hold hold)
{
    struct change change = step_job_change(job);
    change.job.group.hold = hold;
    change.job.group.since_at = hold == GROUP_HOLD_NONE ? API_UNKNOWN : step->event->now_at;
    step_change(step, &change);
    job->group.from_call = step->cluster->call;
    job->group.empty_looks = 0;
    step_job_renew_documents(step, job);
    step->place = true;
}

static void freeze(struct step *step, struct job *job)
{
    set_hold(step, job, GROUP_HOLD_FROZEN);
    step_event(step,
               (struct event_about){"job_frozen", .job = job->row.name, .actor = ACTOR_COORDINATOR},
               "group \"%s\" has %u members: %s", job->row.spec.group_id, job->group.members,
               job->group.who);
    step_hold_back(step, job, "others are in the job's group");
}

static void lift(struct step *step, struct job *job)
{
    bool frozen = job->row.group.hold == GROUP_HOLD_FROZEN;
    set_hold(step, job, GROUP_HOLD_NONE);
    step_give_all_anew(step, job, "the job's group is empty");
    step_event(step,
               (struct event_about){frozen ? "job_thawed" : "job_took_over", .job = job->row.name,
                                    .actor = ACTOR_COORDINATOR},
               "group \"%s\" is empty", job->row.spec.group_id);
}

void step_group_wait(struct step *step, struct job *job)
{
    if (job->row.group.hold != GROUP_HOLD_STARTING)
        set_hold(step, job, GROUP_HOLD_WAITING);
    /* Who has left for good was seen to be gone; only who was there is waited for longer. */
    job->group.empty_looks = job->group.members == 0 ? EMPTY_LOOKS - 1 : 0;
    job->group.from_call = step->cluster->call;
    step_groups_due(step);
}

/* ---- start "committed": the offsets get our stamp before anyone goes on from them */

static void claim(struct step *step, struct job *job)
{
    const struct job_row *row = &job->row;
    struct kafka_call *call = step_call(step, KAFKA_CALL_CLAIM, &row->spec, row->name);
    call->offsets.items = mem_calloc(row->starts.count, sizeof(struct kafka_offset));
    for (size_t i = 0; i < row->starts.count; i++) {
        const struct input_offset *start = &row->starts.items[i];
        call->offsets.items[call->offsets.count++] =
            (struct kafka_offset){.topic = start->topic,
                                  .partition = start->partition,
                                  .offset = API_UNKNOWN,
                                  .metadata = step_start_stamp(row, start->partition)};
    }
    job->group.claim = call->id;
}

/* What Kafka holds instead of what it should, in words: free(). NULL: all carry our stamp. */
static char *find_unclaimed(const struct job_row *row, const struct kafka_result *result)
{
    size_t claimed = 0;
    for (size_t i = 0; i < result->committed.count; i++) {
        const struct kafka_offset *held = &result->committed.items[i];
        if (held->topic >= row->spec.inputs.count || held->partition >= row->partitions)
            continue;
        char *wanted = step_start_stamp(row, held->partition);
        bool is_ours = held->offset != API_UNKNOWN && rows_text_equal(held->metadata, wanted);
        free(wanted);
        if (!is_ours)
            return mem_printf("Kafka holds no offset with the job's stamp for \"%s\" partition %u",
                              row->spec.inputs.items[held->topic], held->partition);
        claimed++;
    }
    return claimed == row->starts.count ? NULL : mem_strdup("Kafka did not name all partitions");
}

static struct job *find_claiming(const struct cluster *cluster, uint64_t call)
{
    for (size_t i = 0; i < cluster->jobs.count; i++)
        if (cluster->jobs.items[i]->group.claim == call)
            return cluster->jobs.items[i];
    return NULL;
}

/* Judged by what Kafka holds, whatever the reply was. A failure is tried again with the next look
 * that finds the group empty. */
bool step_claim_result(struct step *step)
{
    const struct kafka_result *result = &step->event->kafka;
    struct job *job = find_claiming(step->cluster, result->id);
    if (job == NULL)
        return false;
    char *missing = find_unclaimed(&job->row, result);
    job->group.claim = 0;
    if (missing == NULL && job->row.state == JOB_STATE_RUNNING && !job->row.pause.on) {
        lift(step, job);
    } else if (missing != NULL) {
        rows_text_set(&job->group.claim_error,
                      result->failed && result->detail != NULL ? result->detail : missing);
        step->update->publish = true;
    }
    free(missing);
    return true;
}

/* ---- what a look tells */

static void judge_hold(struct step *step, struct job *job)
{
    enum group_hold hold = job->row.group.hold;
    if (job->row.pause.on)
        return;
    if (job->group.members > 0 && hold == GROUP_HOLD_NONE)
        freeze(step, job);
    if (hold == GROUP_HOLD_NONE || job->group.empty_looks < EMPTY_LOOKS)
        return;
    if (hold != GROUP_HOLD_STARTING)
        lift(step, job);
    else if (job->group.claim == 0)
        claim(step, job);
}

static void judge_group(struct step *step, struct job *job, const struct kafka_group *group)
{
    struct job_group *seen = &job->group;
    if (!seen->known || seen->members != group->members || !rows_text_equal(seen->who, group->who))
        step->update->publish = true;
    seen->known = true;
    seen->members = group->members;
    rows_text_set(&seen->who, group->who);
    if (group->members > 0)
        seen->empty_looks = 0;
    else if (step->event->kafka.id > seen->from_call)
        seen->empty_looks++;
    judge_hold(step, job);
}

static struct job *find_user(const struct cluster *cluster, const char *group_id)
{
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        struct job *job = cluster->jobs.items[i];
        if (job->row.state == JOB_STATE_RUNNING && strcmp(job->row.spec.group_id, group_id) == 0)
            return job;
    }
    return NULL; /* deleted meanwhile */
}

/* `error` NULL: the look told what it was asked. */
static void note_error(struct step *step, struct job *job, const char *error)
{
    if (rows_text_equal(job->group.error, error))
        return;
    if (error == NULL)
        job->group.failing_at = 0;
    else if (job->group.failing_at == 0)
        job->group.failing_at = step->event->now_at;
    rows_text_set(&job->group.error, error);
    step->update->publish = true;
}

static void note_failure(struct step *step, const char *detail)
{
    struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++)
        note_error(step, cluster->jobs.items[i], detail != NULL ? detail : "no detail was given");
}

void step_groups_result(struct step *step)
{
    struct cluster *cluster = step->cluster;
    const struct kafka_result *result = &step->event->kafka;
    assert(result->id == cluster->groups_call);
    cluster->groups_call = 0;
    int64_t next_ms = step->event->now_ms + cluster->config.groups_interval_ms;
    if (next_ms < cluster->groups_ms) /* else it is wanted before that */
        cluster->groups_ms = next_ms;
    if (result->failed)
        note_failure(step, result->detail);
    for (size_t i = 0; i < result->groups.count && !result->failed; i++) {
        const struct kafka_group *group = &result->groups.items[i];
        struct job *job = find_user(cluster, group->group_id);
        if (job == NULL)
            continue;
        note_error(step, job, group->error);
        if (group->error == NULL)
            judge_group(step, job, group);
    }
}
