/* Reports: what agents say of their tasks. Most of it is observation; only what changes for people
 * or for the fence is a decision. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/step_job.h"
#include "coordinator/core/step_recovery.h"

/* Of a failed task that names no problem. */
#define FAILED_WITHOUT_CODE "task_failed"

/* ---- what a report changes */

static void set_trouble(struct step *step, struct processor *processor, const char *trouble)
{
    struct change change = step_placement_change(processor);
    rows_text_set(&change.placement.trouble, trouble);
    step_change(step, &change);
}

static void is_active(struct step *step, const struct job *job, struct processor *processor,
                      const struct agent *agent)
{
    int64_t now_ms = step->event->now_ms;
    const struct placement_row *placement = &processor->placement;
    if (processor->active_since_ms == 0)
        processor->active_since_ms = now_ms;
    if (now_ms - processor->active_since_ms >= FENCE_CALM_MS) {
        processor->fence_backoff_ms = 0;
        processor->fence_retry_ms = 0;
        cluster_forget_lost(processor); /* no record has ended it for so long */
    }
    if (placement->activated && placement->trouble == NULL)
        return;
    bool first = !placement->activated, settled = placement->settled;
    struct change change = step_placement_change(processor);
    change.placement.activated = true;
    change.placement.settled = true;
    if (first) {
        step_note_active(step, processor, &change);
        step_note_chosen(step, processor, &change);
    }
    rows_text_set(&change.placement.trouble, NULL);
    step_change(step, &change);
    if (!settled && placement->processor >= job->row.processors_initial)
        step_job_renew_documents(step, job); /* what it needed of its parent may go */
    step_event(step,
               (struct event_about){first ? "processor_active" : "processor_recovered",
                                    .processor = processor, .agent = agent->row.agent_id},
               "epoch %llu", (unsigned long long)placement->epoch);
}

/*
 * The rightful owner was fenced by a late zombie: it never initialises again under this epoch, so
 * it needs a new one (D6). The first at once; with a second process that keeps coming back, ever
 * more slowly.
 */
static void is_fenced(struct step *step, struct processor *processor, struct agent *agent)
{
    int64_t now_ms = step->event->now_ms;
    const struct placement_row *placement = &processor->placement;
    struct event_about about = {.processor = processor, .agent = agent->row.agent_id};
    unsigned long long epoch = placement->epoch;
    if (now_ms < processor->fence_retry_ms) {
        if (rows_text_equal(placement->trouble, "fenced"))
            return;
        set_trouble(step, processor, "fenced");
        about.kind = "processor_fenced";
        step_event(step, about, "epoch %llu: another producer has taken over", epoch);
        return;
    }
    int64_t backoff_ms = processor->fence_backoff_ms * 2;
    if (backoff_ms < FENCE_BACKOFF_MS_MIN)
        backoff_ms = FENCE_BACKOFF_MS_MIN;
    if (backoff_ms > FENCE_BACKOFF_MS_MAX)
        backoff_ms = FENCE_BACKOFF_MS_MAX;
    step_give(step, processor, agent, "fenced",
              "its owner was fenced and is still the rightful one");
    processor->fence_backoff_ms = backoff_ms;
    processor->fence_retry_ms = now_ms + backoff_ms;
    about.kind = "processor_refenced";
    about.actor = ACTOR_COORDINATOR;
    step_event(step, about, "epoch %llu was fenced; epoch %llu takes its place", epoch,
               (unsigned long long)placement->epoch);
}

static void is_failed(struct step *step, struct processor *processor, const struct agent *agent)
{
    const struct task_report *report = &processor->observed.report;
    const char *code =
        report->problems.count > 0 ? report->problems.items[0].code : FAILED_WITHOUT_CODE;
    const char *detail =
        report->problems.count > 0 ? report->problems.items[0].detail : "the agent gave no detail";
    if (rows_text_equal(processor->placement.trouble, code))
        return;
    set_trouble(step, processor, code);
    step_event(step,
               (struct event_about){"processor_failed", .processor = processor,
                                    .agent = agent->row.agent_id},
               "%s: %s", code, detail);
}

/* Only what the owner says under the placement's epoch speaks for the placement (D4). */
static void judge(struct step *step, struct job *job, struct processor *processor,
                  struct agent *agent)
{
    const struct task_report *report = &processor->observed.report;
    if (job->row.state != JOB_STATE_RUNNING || report->role != TASK_ROLE_ACTIVE ||
        report->epoch != processor->placement.epoch)
        return;
    step_window_reports(step, job, processor);
    step_split_source_reported(step, job, processor);
    if (step_handoff_owner_reported(step, processor))
        return;
    if (report->state == TASK_STATE_ACTIVE) {
        is_active(step, job, processor, agent);
        return;
    }
    processor->active_since_ms = 0;
    if (report->state == TASK_STATE_PAUSED)
        step_is_paused(step, job, processor);
    else if (report->state == TASK_STATE_FENCED)
        is_fenced(step, processor, agent);
    else if (report->state == TASK_STATE_FAILED) {
        is_failed(step, processor, agent);
        step_standby_rescue(step, job, processor);
    }
}

/* ---- taking a report in */

/* Partitions that the job does not have are dropped here, so that nobody else need look out for
 * them. */
static void drop_unknown_partitions(const struct job_row *row, struct task_report *report)
{
    size_t kept = 0;
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *progress = &report->progress.items[i];
        if (progress->topic < row->spec.inputs.count && progress->partition < row->partitions)
            report->progress.items[kept++] = *progress;
    }
    report->progress.count = kept;
    kept = 0;
    for (size_t i = 0; i < report->consuming.count; i++)
        if (report->consuming.items[i] < row->partitions)
            report->consuming.items[kept++] = report->consuming.items[i];
    report->consuming.count = kept;
}

/* NULL: not a processor that the agent owns or learns. */
static struct processor *find_task(const struct cluster *cluster, const struct agent *agent,
                                   const struct task_report *report, struct job **ret_job,
                                   bool *ret_learns)
{
    struct job *job = cluster_job(cluster, report->job);
    if (job == NULL || strcmp(job->row.incarnation, report->job_incarnation) != 0 ||
        report->processor >= job->processors.count + job->nascent)
        return NULL;
    struct processor *processor = &job->processors.items[report->processor];
    bool learns = processor->handoff != NULL &&
                  handoff_is_of_learner(&processor->handoff->row, report) &&
                  strcmp(processor->handoff->row.target, agent->row.agent_id) == 0;
    if (!learns && !rows_text_equal(processor->placement.agent, agent->row.agent_id))
        return NULL;
    *ret_job = job;
    *ret_learns = learns;
    return processor;
}

/* Takes the texts that it needs. */
static void note_stray(struct agent *agent, struct task_report *report)
{
    agent->strays.items = mem_grow(agent->strays.items, agent->strays.count,
                                   &agent->strays.capacity, sizeof(struct stray_task));
    agent->strays.items[agent->strays.count++] =
        (struct stray_task){.job = report->job,
                            .job_incarnation = report->job_incarnation,
                            .processor = report->processor,
                            .state = report->state,
                            .epoch = report->epoch};
    report->job = NULL;
    report->job_incarnation = NULL;
}

/* True: it was one of a standby that the agent has. */
static bool take_standby(struct step *step, struct agent *agent, struct task_report *report)
{
    const struct job *job = cluster_job(step->cluster, report->job);
    if (report->role != TASK_ROLE_STANDBY || report->epoch != 0 || job == NULL ||
        strcmp(job->row.incarnation, report->job_incarnation) != 0 ||
        report->processor >= job->processors.count)
        return false;
    struct processor *processor = &job->processors.items[report->processor];
    struct standby *standby = cluster_standby(processor, agent->row.agent_id);
    if (standby == NULL)
        return false;
    drop_unknown_partitions(&job->row, report);
    cluster_set_observed(&standby->observed, agent, report);
    step_standby_reported(step, job, processor, standby);
    return true;
}

/* For estimates of what would be learned. */
static void note_rate(struct step *step, const struct task_report *report)
{
    struct job *job = cluster_job(step->cluster, report->job);
    if (job != NULL && report->state == TASK_STATE_LEARNING && report->replayed_per_s > 0)
        job->replayed_per_s = report->replayed_per_s;
}

static void take_task(struct step *step, struct agent *agent, struct task_report *report)
{
    struct cluster *cluster = step->cluster;
    struct job *job;
    bool learns;
    note_rate(step, report);
    if (take_standby(step, agent, report))
        return;
    struct processor *processor = find_task(cluster, agent, report, &job, &learns);
    if (processor == NULL) {
        note_stray(agent, report);
        return;
    }
    drop_unknown_partitions(&job->row, report);
    if (learns) {
        cluster_set_observed(&processor->learner, agent, report);
        step_handoff_learner_reported(step, processor);
        return;
    }
    step_keep_told(processor);
    cluster_set_observed(&processor->observed, agent, report);
    int64_t due_ms = processor->observed.stored_ms != 0
                         ? processor->observed.stored_ms + OBSERVATION_INTERVAL_MS
                         : step->event->now_ms;
    if (due_ms < cluster->observations_ms)
        cluster->observations_ms = due_ms;
    judge(step, job, processor, agent);
}

/* Not before it has all skips: a record that one is about may be below that T1. */
static void follow(const struct step *step, const struct agent *agent, const struct job *job,
                   uint32_t processor, struct report_answer *answer, size_t *capacity)
{
    if (!cluster_knows_skips(step->cluster, job, agent))
        return;
    answer->follow.items =
        mem_grow(answer->follow.items, answer->follow.count, capacity, sizeof(struct follow));
    answer->follow.count += cluster_follow(step->cluster, job, processor, step->event->now_ms,
                                           &answer->follow.items[answer->follow.count]);
}

static void follow_standbys(const struct step *step, const struct agent *agent,
                            struct report_answer *answer, size_t *capacity)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++) {
        const struct job *job = step->cluster->jobs.items[i];
        if (job->row.spec.standbys == 0)
            continue;
        for (uint32_t p = 0; p < job->processors.count; p++)
            if (cluster_standby(&job->processors.items[p], agent->row.agent_id) != NULL)
                follow(step, agent, job, p, answer, capacity);
    }
}

/* How far its learners and standbys may go: what their owners have committed, as far as that is
 * fresh (D3.3). */
static void answer_follow(struct step *step, const struct agent *agent)
{
    const struct cluster *cluster = step->cluster;
    const struct agent_drain *drain = &agent->row.drain;
    bool leaving = cluster_agent_leaving(agent);
    struct report_answer *answer = mem_calloc(1, sizeof(*answer));
    answer->safe_to_stop = leaving && drain->state == DRAIN_STATE_DRAINED;
    answer->drain_refused = !leaving && step->event->report.leaving != AGENT_LEAVING_NO;
    size_t capacity = 0;
    for (size_t i = 0; i < cluster->handoffs.count; i++) {
        const struct handoff_row *row = &cluster->handoffs.items[i]->row;
        if (!handoff_before_release(row->state) || strcmp(row->target, agent->row.agent_id) != 0)
            continue;
        follow(step, agent, cluster_job(cluster, row->job), row->processor, answer, &capacity);
    }
    follow_standbys(step, agent, answer, &capacity);
    step_answer(step, step->event->request, 200, &schema_report_answer, answer);
}

static uint64_t highest_epoch(const struct agent_report *report)
{
    uint64_t epoch = 0;
    for (size_t i = 0; i < report->tasks.count; i++)
        if (report->tasks.items[i].epoch > epoch)
            epoch = report->tasks.items[i].epoch;
    return epoch;
}

void step_report(struct step *step)
{
    const struct coord_event *event = step->event;
    struct agent_report *report = &step->event->report;
    if (step_recovery_doubt_heard(step, report->incarnation, report->version,
                                  highest_epoch(report)))
        return;
    struct agent *agent = step_heard(step, event->name, report->incarnation);
    if (agent == NULL)
        return;
    agent->reports++;
    agent->applied = report->version;
    if (agent->stopping && !report->stopping)
        step->place = true; /* it stays, after all */
    agent->stopping = report->stopping;
    step_take_crashes(step, agent, report->crashes.items, report->crashes.count);
    report->crashes.items = NULL;
    report->crashes.count = 0;
    step_drain_wished(step, agent, report->leaving);
    cluster_clear_strays(agent);
    for (size_t i = 0; i < report->tasks.count; i++)
        take_task(step, agent, &report->tasks.items[i]);
    step->update->publish = true;
    answer_follow(step, agent);
}

/* ---- storing observations, in slices */

/* INT64_MAX: there is nothing that is not stored yet. */
static int64_t due_at(const struct processor *processor)
{
    const struct processor_observed *observed = &processor->observed;
    if (!observed->known || observed->received_ms < observed->stored_ms)
        return INT64_MAX;
    return observed->stored_ms != 0 ? observed->stored_ms + OBSERVATION_INTERVAL_MS
                                    : observed->received_ms;
}

/* The entry of the same partition, or NULL. */
static const struct partition_progress *find_like(const struct partition_progress *items,
                                                  size_t count,
                                                  const struct partition_progress *like)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].topic == like->topic && items[i].partition == like->partition)
            return &items[i];
    return NULL;
}

static int64_t last_t1(const struct processor *processor, const struct partition_progress *like)
{
    const struct partition_progress *last =
        find_like(processor->told.items, processor->told.count, like);
    if (last == NULL)
        last = find_like(processor->stored.items, processor->stored.count, like);
    return last != NULL ? last->t1 : API_UNKNOWN;
}

/*
 * What is to be stored of a report. Ends are not kept. An offset that the task can not tell (it is
 * opening, or the group's offsets are gone) does not make us forget the one that was known: it is
 * what an operator needs then.
 */
static struct partition_progress *make_stored(const struct processor *processor,
                                              const struct task_report *report)
{
    struct partition_progress *items = mem_calloc(report->progress.count, sizeof(*items));
    for (size_t i = 0; i < report->progress.count; i++) {
        const struct partition_progress *told = &report->progress.items[i];
        const struct partition_progress *stored =
            find_like(processor->stored.items, processor->stored.count, told);
        items[i] = *told;
        items[i].log_start = items[i].stable_end = items[i].end = API_UNKNOWN;
        if (told->t1 == API_UNKNOWN)
            items[i].t1 = last_t1(processor, told);
        if (told->t2 == API_UNKNOWN && stored != NULL)
            items[i].t2 = stored->t2;
    }
    return items;
}

/* True: a row was recorded. False: what is stored is the same. */
static bool store_observation(struct step *step, struct processor *processor)
{
    struct processor_observed *observed = &processor->observed;
    const struct task_report *report = &observed->report;
    observed->stored_ms = step->event->now_ms;
    if (report->progress.count == 0)
        return false;
    struct partition_progress *items = make_stored(processor, report);
    if (rows_progress_equal(processor->stored.items, processor->stored.count, items,
                            report->progress.count)) {
        free(items);
        return false;
    }
    struct change change = {.kind = CHANGE_OBSERVATION,
                            .observation = {.job = mem_strdup(processor->placement.job),
                                            .processor = processor->placement.processor,
                                            .at = observed->received_at}};
    change.observation.progress.items = items;
    change.observation.progress.count = report->progress.count;
    update_change(step->update, step->cluster, &change);
    return true;
}

void step_store_observations(struct step *step)
{
    struct cluster *cluster = step->cluster;
    int64_t now_ms = step->event->now_ms, next_ms = INT64_MAX;
    size_t rows = 0;
    if (now_ms < cluster->observations_ms)
        return;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++) {
            struct processor *processor = &job->processors.items[p];
            int64_t due_ms = due_at(processor);
            if (due_ms <= now_ms && rows < OBSERVATION_ROWS_MAX) {
                rows += store_observation(step, processor);
                continue;
            }
            if (due_ms < next_ms)
                next_ms = due_ms;
        }
    }
    /* What did not fit waits a moment, for the events that came meanwhile. */
    if (next_ms <= now_ms)
        next_ms = now_ms + OBSERVATION_PAUSE_MS;
    cluster->observations_ms = next_ms;
}
