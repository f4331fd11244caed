/*
 * What a recovery makes of what agents and Kafka know (recovery.h): epochs go on above the highest
 * that anyone knows, jobs are those of the newest documents, and whoever was told the highest epoch
 * of a processor has it again, under a new one. Where nobody knows, nothing is guessed: a job that
 * the database has and no agent is paused, for it may have been deleted since.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/core/step_job.h"
#include "coordinator/core/step_recovery.h"
#include "coordinator/core/view.h"

#define REASON "the coordinator's database was recovered"

struct recovered {
    struct step *step;
    struct meta_row before; /* of the database as it was found */
    bool adopted;           /* the database knew nothing: the agents' cluster is ours */
    bool outdated;          /* somebody knew more than the database */
    uint64_t epoch;         /* highest that anyone knew */
    size_t jobs_taken, jobs_paused;
    size_t kept, without_owner; /* processors */
};

static const struct agent_registration *said_by(const struct cluster *cluster, size_t index)
{
    return &cluster->recovery.agents.items[index].said;
}

/* ---- the cluster's name */

char *step_recovered_obstacle(const struct cluster *cluster)
{
    const struct agent_registration *first = NULL;
    if (cluster->jobs.count > 0)
        return NULL; /* agents of other clusters were not heard */
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        const struct agent_registration *said = said_by(cluster, i);
        if (said->cluster == NULL || said->jobs.count == 0)
            continue;
        if (first == NULL)
            first = said;
        if (strcmp(first->cluster, said->cluster) != 0)
            return text_printf(
                "agents of two clusters have registered: %s works for %s, %s for %s. "
                "Stop those that are not to be recovered, and start again",
                first->agent_id, first->cluster, said->agent_id, said->cluster);
    }
    return NULL;
}

static void adopt_cluster(struct recovered *recovered)
{
    struct cluster *cluster = recovered->step->cluster;
    if (cluster->jobs.count > 0)
        return;
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        const struct agent_registration *said = said_by(cluster, i);
        if (said->cluster == NULL || said->jobs.count == 0 ||
            strcmp(said->cluster, cluster->meta.cluster) == 0)
            continue;
        assert(strlen(said->cluster) == API_UUID_BYTES);
        memcpy(cluster->meta.cluster, said->cluster, API_UUID_BYTES + 1);
        recovered->adopted = true;
        return;
    }
}

/* ---- counters */

static void raise(uint64_t *number, uint64_t known)
{
    if (known > *number)
        *number = known;
}

static void raise_counters(struct recovered *recovered)
{
    struct cluster *cluster = recovered->step->cluster;
    struct meta_row *meta = &cluster->meta;
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        const struct agent_registration *said = said_by(cluster, i);
        raise(&meta->start_number, said->document.start + 1);
        raise(&meta->decision, said->document.decision);
        for (size_t t = 0; t < said->tasks.count; t++) {
            raise(&meta->epoch, said->tasks.items[t].epoch);
            raise(&meta->handoff_id, said->tasks.items[t].handoff);
            raise(&meta->handoff_id, said->tasks.items[t].split_handoff);
            raise(&meta->epoch, said->tasks.items[t].split_epoch);
        }
    }
    for (size_t i = 0; i < cluster->recovery.stamps.count; i++)
        raise(&meta->epoch, cluster->recovery.stamps.items[i].epoch);
    recovered->epoch = meta->epoch;
    recovered->outdated = recovered->adopted || meta->epoch > recovered->before.epoch ||
                          meta->decision > recovered->before.decision;
}

/* ---- jobs */

/* What is told next is about more processors. */
static void end_split(struct step *step, const struct job *job)
{
    if (job->nascent)
        step_handoff_end(step, cluster_nascent(job)->handoff, HANDOFF_STATE_CANCELLED, REASON,
                         NULL);
}

/* It is of an earlier time: deleted since, and another has its name or its group. */
static void drop_job(struct step *step, struct job *job)
{
    struct operation *operation = cluster_operation(step->cluster, job->row.operation);
    end_split(step, job);
    if (operation != NULL && !view_operation_finished(operation->row.state))
        step_end_operation(step, operation, OPERATION_STATE_CANCELLED, REASON);
    step_event(step, (struct event_about){"job_deleted", .job = job->row.name},
               "%s: another job of a later time has its name or its group", REASON);
    struct change change = {.kind = CHANGE_JOB_REMOVED, .job = {.name = mem_strdup(job->row.name)}};
    step_change(step, &change);
}

/* Origins are complete and in order: then T0 of every partition is known (D1). */
static bool is_whole(const struct document_job *told)
{
    size_t expected = told->spec.inputs.count * told->partitions;
    if (told->origins.count != expected || told->processors_initial != told->spec.processors ||
        told->partitions < told->partitions_initial || told->partitions < told->processors ||
        told->processors < told->processors_initial || told->partitions_initial < 1)
        return false;
    for (size_t i = 0; i < expected; i++) {
        const struct input_offset *origin = &told->origins.items[i];
        if (origin->topic != i / told->partitions || origin->partition != i % told->partitions ||
            origin->offset < 0)
            return false;
    }
    return true;
}

/* Where it is said to have started: at T1 of today, as far as Kafka has it. */
static struct input_offset *make_starts(const struct cluster *cluster,
                                        const struct document_job *told)
{
    const struct recovery_stamps *stamps =
        step_recovery_stamps(cluster, told->name, told->incarnation);
    size_t bytes = told->origins.count * sizeof(struct input_offset);
    struct input_offset *starts = mem_memdup(told->origins.items, bytes);
    for (size_t i = 0; stamps != NULL && i < stamps->committed.count; i++) {
        const struct input_offset *held = &stamps->committed.items[i];
        if (held->topic >= told->spec.inputs.count || held->partition >= told->partitions)
            continue;
        struct input_offset *start =
            &starts[(size_t)held->topic * told->partitions + held->partition];
        if (held->offset > start->offset)
            start->offset = held->offset;
    }
    return starts;
}

static void set_pause(const struct step *step, struct job_row *row, bool on, const char *reason)
{
    if (row->pause.on == on)
        return;
    row->pause.on = on;
    rows_text_set(&row->pause.reason, reason);
    rows_text_set(&row->pause.actor, ACTOR_COORDINATOR);
    row->pause.changed_at = step->event->now_at;
}

/* Whether people hold it, or others who are in its group: what those may commit differs. */
static void set_holds(const struct step *step, struct job_row *row, const struct document_job *told)
{
    const struct recovery_stamps *stamps =
        step_recovery_stamps(step->cluster, told->name, told->incarnation);
    bool begun = told->spec.start != START_COMMITTED || (stamps != NULL && stamps->own);
    enum group_hold hold = told->frozen    ? GROUP_HOLD_FROZEN
                           : told->waiting ? (begun ? GROUP_HOLD_WAITING : GROUP_HOLD_STARTING)
                                           : GROUP_HOLD_NONE;

    row->group =
        (struct group_row){hold, hold == GROUP_HOLD_NONE ? API_UNKNOWN : step->event->now_at};
    set_pause(step, row, told->paused && !told->frozen && !told->waiting,
              "it was paused when the database was recovered");
}

/* What a document says of a job, over what is in the row. */
static void fill_row(const struct step *step, const struct document_job *told, uint64_t decision,
                     struct job_row *row)
{
    schema_free(&schema_job_spec, &row->spec);
    schema_copy(&schema_job_spec, &row->spec, &told->spec);
    free(row->origins.items);
    free(row->starts.items);
    row->origins.items =
        mem_memdup(told->origins.items, told->origins.count * sizeof(*told->origins.items));
    row->starts.items = make_starts(step->cluster, told);
    row->origins.count = row->starts.count = told->origins.count;
    row->partitions_initial = told->partitions_initial;
    row->partitions = told->partitions;
    row->processors_initial = told->processors_initial;
    row->processors = told->processors;
    row->partitioner = told->partitioner;
    /* Higher than any that was ever said of the job: each was raised by a decision. */
    raise(&row->generation, decision);
    raise(&row->map_version, decision);
    row->state = JOB_STATE_RUNNING;
    set_holds(step, row, told);
}

static void end_creation(struct step *step, const struct job *job)
{
    struct operation *operation = cluster_operation(step->cluster, job->row.operation);
    struct change change = step_job_change(job);
    change.job.state = JOB_STATE_RUNNING;
    step_change(step, &change);
    if (operation != NULL && !view_operation_finished(operation->row.state))
        step_end_operation(step, operation, OPERATION_STATE_SUCCEEDED, NULL);
}

static void take_job(struct recovered *recovered, const struct document_job *told,
                     struct document_version version)
{
    struct step *step = recovered->step;
    const struct job *known = cluster_job(step->cluster, told->name);
    struct change change = {.kind = CHANGE_JOB};
    if (known != NULL && known->row.state == JOB_STATE_CREATING)
        end_creation(step, known);
    if (known != NULL) {
        if (told->processors > known->row.processors)
            end_split(step, known);
        rows_copy_job(&change.job, &known->row);
    } else {
        change.job = (struct job_row){.name = mem_strdup(told->name),
                                      .incarnation = mem_strdup(told->incarnation),
                                      .created_at = step->event->now_at,
                                      .partitioner_reason = mem_strdup("as agents knew it"),
                                      .pause = {.changed_at = API_UNKNOWN},
                                      .group = {.since_at = API_UNKNOWN}};
    }
    fill_row(step, told, version.decision, &change.job);
    step_change(step, &change);
    step_recover_windows(step, cluster_job(step->cluster, told->name), told);
    recovered->jobs_taken++;
    step_event(step, (struct event_about){"job_recovered", .job = told->name},
               "incarnation %s, as document %llu.%llu of an agent describes it", told->incarnation,
               (unsigned long long)version.start, (unsigned long long)version.decision);
}

static struct job *find_by_group(const struct cluster *cluster, const char *group_id)
{
    for (size_t i = 0; i < cluster->jobs.count; i++)
        if (strcmp(cluster->jobs.items[i]->row.spec.group_id, group_id) == 0)
            return cluster->jobs.items[i];
    return NULL;
}

/* The newest word on a job, which the database may know, or know better. */
static void judge_job(struct recovered *recovered, const struct document_job *told,
                      struct document_version version)
{
    struct step *step = recovered->step;
    struct cluster *cluster = step->cluster;
    bool newer = recovered->adopted || version.decision > recovered->before.decision;
    struct job *known = cluster_job(cluster, told->name);
    bool same = known != NULL && strcmp(known->row.incarnation, told->incarnation) == 0;
    if (!newer && !(same && known->row.state == JOB_STATE_CREATING))
        return;
    if (!is_whole(told)) {
        step_event(step, (struct event_about){"job_not_recovered", .job = told->name},
                   "what agents know of it is not complete");
        return;
    }
    if (same &&
        (told->partitions < known->row.partitions || told->processors < known->row.processors ||
         known->row.state == JOB_STATE_DELETING))
        return; /* counts never shrink, and a deletion is not taken back */
    if (known != NULL && !same)
        drop_job(step, known);
    struct job *rival = find_by_group(cluster, told->spec.group_id);
    if (rival != NULL && strcmp(rival->row.name, told->name) != 0)
        drop_job(step, rival);
    take_job(recovered, told, version);
}

/* No other agent's document is newer and has a job of this name. */
static bool is_newest(const struct cluster *cluster, size_t agent, const char *name)
{
    struct document_version version = said_by(cluster, agent)->document;
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        const struct agent_registration *other = said_by(cluster, i);
        int order = cluster_compare_versions(other->document, version);
        if (i == agent || order < 0 || (order == 0 && i > agent))
            continue;
        for (size_t j = 0; j < other->jobs.count; j++)
            if (strcmp(other->jobs.items[j].name, name) == 0)
                return false;
    }
    return true;
}

static void take_jobs(struct recovered *recovered)
{
    const struct cluster *cluster = recovered->step->cluster;
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        const struct agent_registration *said = said_by(cluster, i);
        for (size_t j = 0; j < said->jobs.count; j++)
            if (is_newest(cluster, i, said->jobs.items[j].name))
                judge_job(recovered, &said->jobs.items[j], said->document);
    }
}

/* ---- agents */

static void take_agents(struct recovered *recovered)
{
    struct step *step = recovered->step;
    struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        struct agent_registration *said = &cluster->recovery.agents.items[i].said;
        const struct agent *known = cluster_agent(cluster, said->agent_id);
        bool new_start = known == NULL || strcmp(known->row.incarnation, said->incarnation) != 0;
        struct change change = {.kind = CHANGE_AGENT};
        step_agent_row(step, said, known, &change.agent);
        step_change(step, &change);
        struct agent *agent = cluster_agent(cluster, said->agent_id);
        step_renew_document(step, agent);
        if (new_start)
            step_note_new_start(step, agent);
    }
}

/* ---- placements */

bool step_recovered_knows(const struct agent_registration *said, const struct job *job)
{
    for (size_t i = 0; i < said->jobs.count; i++)
        if (strcmp(said->jobs.items[i].name, job->row.name) == 0)
            return strcmp(said->jobs.items[i].incarnation, job->row.incarnation) == 0;
    return false;
}

/* The task of an owner in the agent's document, or NULL. */
static const struct document_task *find_owner(const struct agent_registration *said,
                                              const struct job *job, uint32_t processor)
{
    if (!step_recovered_knows(said, job))
        return NULL;
    for (size_t i = 0; i < said->tasks.count; i++) {
        const struct document_task *task = &said->tasks.items[i];
        if (task->role == TASK_ROLE_ACTIVE && task->processor == processor &&
            strcmp(task->job, job->row.name) == 0)
            return task;
    }
    return NULL;
}

/* Whoever was told the highest epoch; NULL: nobody has it. */
static const struct document_task *find_holder(const struct cluster *cluster, const struct job *job,
                                               uint32_t processor, struct agent **ret_agent)
{
    const struct document_task *best = NULL;
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        const struct agent_registration *said = said_by(cluster, i);
        const struct document_task *task = find_owner(said, job, processor);
        if (task == NULL || (best != NULL && task->epoch <= best->epoch))
            continue;
        best = task;
        *ret_agent = cluster_agent(cluster, said->agent_id);
    }
    return best;
}

static void *copy_items(const void *items, size_t bytes)
{
    return bytes == 0 ? NULL : mem_memdup(items, bytes);
}

static void give(struct step *step, struct processor *processor, struct agent *agent,
                 const struct document_task *task)
{
    step_give(step, processor, agent, NULL, REASON);
    if (task != NULL) {
        struct change change = step_placement_change(processor);
        free(change.placement.paused_t1.items);
        change.placement.paused_t1.count = task->paused_t1.count;
        change.placement.paused_t1.items = copy_items(
            task->paused_t1.items, task->paused_t1.count * sizeof(*task->paused_t1.items));
        /* What somebody has chosen holds until an owner is active: the document is the newer one,
         * also when it has none any more. */
        free(change.placement.chosen.items);
        change.placement.chosen.count = task->chosen.count;
        change.placement.chosen.items =
            copy_items(task->chosen.items, task->chosen.count * sizeof(*task->chosen.items));
        step_change(step, &change);
    }
    step_event(step,
               (struct event_about){"processor_assigned", .processor = processor,
                                    .agent = agent->row.agent_id, .actor = ACTOR_COORDINATOR},
               "epoch %llu: %s", (unsigned long long)processor->placement.epoch, REASON);
}

/* An owner of the database's that has told what it has, and has not told of this. */
static bool has_moved_away(const struct cluster *cluster, const char *agent_id)
{
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        const struct agent_registration *said = said_by(cluster, i);
        if (strcmp(said->agent_id, agent_id) == 0)
            return said->document.start > 0;
    }
    return false;
}

/* True: somebody has it. */
static bool place(struct recovered *recovered, const struct job *job, struct processor *processor)
{
    struct step *step = recovered->step;
    const struct placement_row *placement = &processor->placement;
    struct agent *agent = NULL;
    const struct document_task *task =
        job->row.state != JOB_STATE_RUNNING
            ? NULL
            : find_holder(step->cluster, job, placement->processor, &agent);
    if (task != NULL) {
        if (placement->agent != NULL && strcmp(placement->agent, agent->row.agent_id) != 0)
            step_take_away(step, processor, REASON);
        give(step, processor, agent, task);
        if (task->split_handoff != 0 && !job->nascent &&
            task->split_processor == job->processors.count &&
            task->split_processor < job->row.partitions)
            step_split_recovered(step, job, processor, task);
        return true;
    }
    if (placement->agent == NULL)
        return false;
    agent = cluster_agent(step->cluster, placement->agent);
    if (job->row.state != JOB_STATE_RUNNING || has_moved_away(step->cluster, placement->agent))
        step_take_away(step, processor, "no owner; " REASON);
    else
        give(step, processor, agent, NULL);
    return false;
}

static void pause_job(struct recovered *recovered, const struct job *job)
{
    struct step *step = recovered->step;
    struct change change = step_job_change(job);
    set_pause(step, &change.job, true,
              "recovered from an old database, and no agent knows it: it may have been deleted");
    step_change(step, &change);
    step_event(step, (struct event_about){"job_paused", .job = job->row.name}, "%s",
               job->row.pause.reason);
    recovered->jobs_paused++;
}

/* It runs although its creation had not ended when the database was copied. */
static bool has_run(const struct cluster *cluster, const struct job *job)
{
    const struct recovery_stamps *stamps =
        step_recovery_stamps(cluster, job->row.name, job->row.incarnation);
    return stamps != NULL && stamps->own;
}

static void place_all(struct recovered *recovered)
{
    const struct cluster *cluster = recovered->step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        struct job *job = cluster->jobs.items[i];
        size_t kept = 0;
        if (job->row.state == JOB_STATE_CREATING && has_run(cluster, job))
            end_creation(recovered->step, job);
        for (size_t p = 0; p < job->processors.count; p++) {
            kept += place(recovered, job, &job->processors.items[p]);
            recovered->without_owner += job->processors.items[p].placement.agent == NULL;
        }
        recovered->kept += kept;
        if (kept == 0 && recovered->outdated && job->row.state == JOB_STATE_RUNNING &&
            !job->row.pause.on)
            pause_job(recovered, job);
    }
}

/* ---- all of it */

static void end_what_was_under_way(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        /* A source that was told to split may yet do so: that goes on. */
        step_cancel_handoffs(step, job, true, REASON);
        step_cancel_moves(step, job, REASON);
        step_end_expansions(step, job, REASON); /* what Kafka has of it is adopted */
        step_end_standbys(step, job, REASON);
    }
}

static void say(const struct recovered *recovered)
{
    const struct cluster *cluster = recovered->step->cluster;
    step_event(
        recovered->step, (struct event_about){.kind = "database_recovered"},
        "%s; epochs go on after %llu, the database had %llu; %zu agents have told what they "
        "know; %zu jobs as they describe them, %zu paused; %zu processors have their owners, "
        "%zu none",
        recovered->adopted    ? "from nothing"
        : recovered->outdated ? "it was old"
                              : "it was the newest",
        (unsigned long long)recovered->epoch, (unsigned long long)recovered->before.epoch,
        cluster->recovery.agents.count, recovered->jobs_taken, recovered->jobs_paused,
        recovered->kept, recovered->without_owner);
}

/* Processors only come about by a stamp on the offsets of what they get (D3.1): those that have one
 * are there, whatever database and agents know. */
static void grow_by_stamps(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        const struct recovery_stamps *stamps =
            step_recovery_stamps(cluster, job->row.name, job->row.incarnation);
        if (stamps == NULL || job->row.state != JOB_STATE_RUNNING ||
            stamps->processors <= job->row.processors || stamps->processors > job->row.partitions)
            continue;
        end_split(step, job);
        struct change change = step_job_change(job);
        change.job.processors = stamps->processors;
        change.job.map_version++;
        step_change(step, &change);
        step_event(step, (struct event_about){"job_recovered", .job = job->row.name},
                   "it has %u processors by what is committed", stamps->processors);
    }
}

void step_recovered(struct step *step)
{
    struct recovered recovered = {.step = step, .before = step->cluster->meta};
    adopt_cluster(&recovered);
    raise_counters(&recovered);
    end_what_was_under_way(step);
    take_jobs(&recovered);
    grow_by_stamps(step);
    step_recovered_bounds(step);
    step_recovered_skips(step);
    take_agents(&recovered);
    place_all(&recovered);
    say(&recovered);
}
