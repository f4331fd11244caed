/* The part of the metrics that is about jobs, processors and agents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "common/prom.h"
#include "coordinator/metrics.h"
#include "coordinator/metrics_view.h"

/* ---- one sample a processor */

struct processor_metric {
    const char *name;
    enum prom_type type;
    const char *help;
    int64_t (*read)(const struct processor_view *view); /* below 0: not known, no sample */
};

static int64_t read_records(const struct processor_view *view)
{
    return (int64_t)view->records;
}

static int64_t read_outputs(const struct processor_view *view)
{
    return (int64_t)view->outputs;
}

static int64_t read_replayed(const struct processor_view *view)
{
    return (int64_t)view->replayed;
}

static int64_t read_dead_lettered(const struct processor_view *view)
{
    return (int64_t)view->dead_lettered;
}

static int64_t read_commits(const struct processor_view *view)
{
    return (int64_t)view->commits;
}

static int64_t read_aborts(const struct processor_view *view)
{
    return (int64_t)view->aborts;
}

static int64_t read_lag(const struct processor_view *view)
{
    return view->lag_records;
}

static int64_t read_epoch(const struct processor_view *view)
{
    return (int64_t)view->epoch;
}

static int64_t read_state_rows(const struct processor_view *view)
{
    return (int64_t)view->state_rows;
}

static int64_t read_state_bytes(const struct processor_view *view)
{
    return (int64_t)view->state_bytes;
}

/* The counters are those of the owner's task: they start anew with each of its starts. */
static const struct processor_metric processor_metrics[] = {
    {"baton_processor_lag_records", PROM_TYPE_GAUGE,
     "Records not yet processed; no sample while unknown.", read_lag},
    {"baton_processor_epoch", PROM_TYPE_GAUGE, "Epoch of the processor's owner.", read_epoch},
    {"baton_processor_records_total", PROM_TYPE_COUNTER,
     "Records processed since the start of the owner's task.", read_records},
    {"baton_processor_outputs_total", PROM_TYPE_COUNTER,
     "Records written to the output topic since the start of the owner's task.", read_outputs},
    {"baton_processor_replayed_total", PROM_TYPE_COUNTER,
     "Records replayed without output since the start of the owner's task.", read_replayed},
    {"baton_processor_dead_lettered_total", PROM_TYPE_COUNTER,
     "Records written to the dead letter topic since the start of the owner's task.",
     read_dead_lettered},
    {"baton_processor_commits_total", PROM_TYPE_COUNTER,
     "Commits since the start of the owner's task.", read_commits},
    {"baton_processor_aborts_total", PROM_TYPE_COUNTER,
     "Transactions given up since the start of the owner's task.", read_aborts},
    {"baton_processor_state_rows", PROM_TYPE_GAUGE, "Rows in the processor's state.",
     read_state_rows},
    {"baton_processor_state_bytes", PROM_TYPE_GAUGE, "Bytes of the processor's state on disk.",
     read_state_bytes},
};

static void number_text(uint32_t number, char text[12])
{
    (void)snprintf(text, 12, "%u", number);
}

static void print_processor_metric(struct strbuf *buf, const struct view *view,
                                   const struct processor_metric *metric)
{
    prom_family(buf, metric->name, metric->type, metric->help);
    for (size_t j = 0; j < view->jobs.count; j++) {
        const struct view_job *job = view->jobs.items[j];
        for (size_t p = 0; p < job->processors.count; p++) {
            char number[12];
            int64_t value = metric->read(&job->processors.items[p]);
            number_text((uint32_t)p, number);
            if (value >= 0)
                prom_sample_int(buf, metric->name,
                                PROM_LABELS({"job", job->job.name}, {"processor", number}), value);
        }
    }
}

static void print_skipped(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_processor_skipped_total", PROM_TYPE_COUNTER,
                "Records passed by since the start of the owner's task, by reason.");
    for (size_t j = 0; j < view->jobs.count; j++) {
        const struct view_job *job = view->jobs.items[j];
        for (size_t p = 0; p < job->processors.count; p++) {
            const struct processor_view *processor = &job->processors.items[p];
            char number[12];
            number_text((uint32_t)p, number);
            prom_sample_int(
                buf, "baton_processor_skipped_total",
                PROM_LABELS({"job", job->job.name}, {"processor", number}, {"reason", "null_key"}),
                (int64_t)processor->skipped_null_key);
            prom_sample_int(
                buf, "baton_processor_skipped_total",
                PROM_LABELS({"job", job->job.name}, {"processor", number}, {"reason", "error"}),
                (int64_t)processor->skipped_error);
            prom_sample_int(
                buf, "baton_processor_skipped_total",
                PROM_LABELS({"job", job->job.name}, {"processor", number}, {"reason", "asked"}),
                (int64_t)processor->skipped_asked);
        }
    }
}

/* ---- one sample a job */

struct job_metric {
    const char *name, *help;
    int64_t (*read)(const struct job_status *status); /* below 0: not known, no sample */
};

static int64_t read_job_lag(const struct job_status *status)
{
    return status->lag_records;
}

static int64_t read_job_replay(const struct job_status *status)
{
    return status->replay_records;
}

static int64_t read_standbys_wanted(const struct job_status *status)
{
    return status->standbys_wanted;
}

static int64_t read_standbys_ready(const struct job_status *status)
{
    return status->standbys_ready;
}

static int64_t read_windows_open(const struct job_status *status)
{
    return status->windows_open;
}

static int64_t read_windows_stale(const struct job_status *status)
{
    return status->windows_stale;
}

static int64_t read_old_records(const struct job_status *status)
{
    return (int64_t)status->old_records;
}

static int64_t read_group_members(const struct job_status *status)
{
    return status->group.members;
}

static const struct job_metric group_members_metric = {
    "baton_job_group_members",
    "Members of the job's group that are not the job's, at the last look.", read_group_members};

static const struct job_metric job_metrics[] = {
    {"baton_job_lag_records",
     "Records not yet processed, of all partitions; no sample while unknown.", read_job_lag},
    {"baton_job_replay_records",
     "Records still to be replayed into state before processing goes on.", read_job_replay},
    {"baton_job_standbys_wanted", "Standbys that the job is to have, of all processors.",
     read_standbys_wanted},
    {"baton_job_standbys_ready", "Standbys that would take over at once.", read_standbys_ready},
    {"baton_job_settle_windows_open", "Partitions whose settle window after an expansion is open.",
     read_windows_open},
    {"baton_job_settle_windows_stale",
     "Those of them that are open again: an old-count record came after they were closed.",
     read_windows_stale},
    {"baton_job_old_count_records",
     "Records met since the newest expansion whose producers did not know of it.",
     read_old_records},
};

static void print_job_metric(struct strbuf *buf, const struct view *view,
                             const struct job_metric *metric)
{
    prom_family(buf, metric->name, PROM_TYPE_GAUGE, metric->help);
    for (size_t j = 0; j < view->jobs.count; j++) {
        const struct job_status *status = &view->jobs.items[j]->status;
        int64_t value = metric->read(status);
        if (value >= 0)
            prom_sample_int(buf, metric->name, PROM_LABELS({"job", status->name}), value);
    }
}

static void print_job_rates(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_job_records_per_second", PROM_TYPE_GAUGE,
                "Records processed per second, as the agents measure it.");
    for (size_t j = 0; j < view->jobs.count; j++)
        prom_sample_double(buf, "baton_job_records_per_second",
                           PROM_LABELS({"job", view->jobs.items[j]->status.name}),
                           view->jobs.items[j]->status.records_per_s);
    prom_family(buf, "baton_job_replayed_per_second", PROM_TYPE_GAUGE,
                "Records replayed per second, as the agents measure it.");
    for (size_t j = 0; j < view->jobs.count; j++)
        prom_sample_double(buf, "baton_job_replayed_per_second",
                           PROM_LABELS({"job", view->jobs.items[j]->status.name}),
                           view->jobs.items[j]->status.replayed_per_s);
}

/* ---- counts by a word */

struct word_count {
    const char *word;
    int64_t count;
};

struct word_counts {
    struct word_count *items;
    size_t count, capacity;
};

static void count_word(struct word_counts *counts, const char *word)
{
    for (size_t i = 0; i < counts->count; i++) {
        if (strcmp(counts->items[i].word, word) == 0) {
            counts->items[i].count++;
            return;
        }
    }
    counts->items =
        mem_grow(counts->items, counts->count, &counts->capacity, sizeof(*counts->items));
    counts->items[counts->count++] = (struct word_count){.word = word, .count = 1};
}

static void print_jobs_by_state(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_jobs", PROM_TYPE_GAUGE, "Jobs by state.");
    for (int state = 0; schema_names_job_state[state] != NULL; state++) {
        int64_t count = 0;
        for (size_t j = 0; j < view->jobs.count; j++)
            count += (int)view->jobs.items[j]->job.state == state;
        prom_sample_int(buf, "baton_jobs", PROM_LABELS({"state", schema_names_job_state[state]}),
                        count);
    }
}

static void print_agents_by_state(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_agents", PROM_TYPE_GAUGE, "Agents by state.");
    for (int state = 0; schema_names_agent_state[state] != NULL; state++) {
        int64_t count = 0;
        for (size_t a = 0; a < view->agents->count; a++)
            count += (int)view->agents->items[a].state == state;
        prom_sample_int(buf, "baton_agents",
                        PROM_LABELS({"state", schema_names_agent_state[state]}), count);
    }
}

static void print_schedulable(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_agent_schedulable", PROM_TYPE_GAUGE,
                "0: the agent is cordoned, and receives nothing; else 1.");
    for (size_t a = 0; a < view->agents->count; a++)
        prom_sample_int(buf, "baton_agent_schedulable",
                        PROM_LABELS({"agent", view->agents->items[a].agent_id}),
                        view->agents->items[a].eligibility.schedulable);
}

static void print_drains(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_agent_draining", PROM_TYPE_GAUGE,
                "1: the agent is giving away what it has, because it is to leave.");
    for (size_t a = 0; a < view->agents->count; a++) {
        const struct agent_view *agent = &view->agents->items[a];
        prom_sample_int(buf, "baton_agent_draining", PROM_LABELS({"agent", agent->agent_id}),
                        agent->drain != NULL && !agent->safe_to_stop);
    }
    prom_family(buf, "baton_agent_safe_to_stop", PROM_TYPE_GAUGE,
                "1: the agent is drained; stopping it costs nothing.");
    for (size_t a = 0; a < view->agents->count; a++)
        prom_sample_int(buf, "baton_agent_safe_to_stop",
                        PROM_LABELS({"agent", view->agents->items[a].agent_id}),
                        view->agents->items[a].safe_to_stop);
    prom_family(buf, "baton_drain_processors_left", PROM_TYPE_GAUGE,
                "Processors that a draining agent has still; 0 when it is drained.");
    for (size_t d = 0; d < view->drains.count; d++)
        if (view->drains.items[d].state != DRAIN_STATE_CANCELLED)
            prom_sample_int(buf, "baton_drain_processors_left",
                            PROM_LABELS({"agent", view->drains.items[d].agent}),
                            (int64_t)view->drains.items[d].left.count);
}

static void print_holds(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_job_paused", PROM_TYPE_GAUGE,
                "1: somebody has paused the job, which puts nothing out; else 0.");
    for (size_t j = 0; j < view->jobs.count; j++)
        prom_sample_int(buf, "baton_job_paused",
                        PROM_LABELS({"job", view->jobs.items[j]->job.name}),
                        view->jobs.items[j]->job.pause.paused);
    prom_family(buf, "baton_maintenance", PROM_TYPE_GAUGE,
                "1: somebody holds planned hand-overs back; else 0.");
    prom_sample_int(buf, "baton_maintenance", NULL, view->maintenance.enabled);
}

static void print_groups(struct strbuf *buf, const struct view *view)
{
    print_job_metric(buf, view, &group_members_metric);
    prom_family(buf, "baton_job_group_hold", PROM_TYPE_GAUGE,
                "1: the job puts nothing out because of others in its group, in the way that the "
                "label says; else 0.");
    for (size_t j = 0; j < view->jobs.count; j++) {
        const struct job_status *status = &view->jobs.items[j]->status;
        for (int hold = GROUP_HOLD_FROZEN; schema_names_group_hold[hold] != NULL; hold++)
            prom_sample_int(
                buf, "baton_job_group_hold",
                PROM_LABELS({"job", status->name}, {"hold", schema_names_group_hold[hold]}),
                (int)status->group.hold == hold);
    }
}

static void print_processors_by_state(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_processors", PROM_TYPE_GAUGE, "Processors by job and state.");
    for (size_t j = 0; j < view->jobs.count; j++) {
        const struct view_job *job = view->jobs.items[j];
        struct word_counts counts = {0};
        for (size_t p = 0; p < job->processors.count; p++)
            count_word(&counts, job->processors.items[p].state);
        for (size_t i = 0; i < counts.count; i++)
            prom_sample_int(buf, "baton_processors",
                            PROM_LABELS({"job", job->job.name}, {"state", counts.items[i].word}),
                            counts.items[i].count);
        free(counts.items);
    }
}

static void print_handoffs(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_handoffs_running", PROM_TYPE_GAUGE, "Hand-overs under way, by state.");
    for (int state = 0; state < HANDOFF_PHASES; state++) {
        int64_t count = 0;
        for (size_t i = 0; i < view->handoffs.count; i++)
            count += (int)view->handoffs.items[i].state == state;
        prom_sample_int(buf, "baton_handoffs_running",
                        PROM_LABELS({"state", schema_names_handoff_state[state]}), count);
    }
}

static void print_problems(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_problems", PROM_TYPE_GAUGE, "Problems by job and code.");
    for (size_t j = 0; j < view->jobs.count; j++) {
        const struct view_job *job = view->jobs.items[j];
        struct word_counts counts = {0};
        for (size_t i = 0; i < job->problems.count; i++)
            count_word(&counts, job->problems.items[i].code);
        for (size_t i = 0; i < counts.count; i++)
            prom_sample_int(buf, "baton_problems",
                            PROM_LABELS({"job", job->job.name}, {"code", counts.items[i].word}),
                            counts.items[i].count);
        free(counts.items);
    }
}

/* ---- */

static void print_number(struct strbuf *buf, const char *name, enum prom_type type,
                         const char *help, uint64_t value)
{
    prom_family(buf, name, type, help);
    prom_sample_int(buf, name, NULL, (int64_t)value);
}

void metrics_print_view(struct strbuf *buf, const struct view *view)
{
    if (view == NULL)
        return;
    print_number(buf, "baton_epoch", PROM_TYPE_GAUGE, "Highest epoch that was given out.",
                 view->epoch);
    print_number(buf, "baton_decisions_total", PROM_TYPE_COUNTER,
                 "Durable decisions since the database was made.", view->decision);
    print_number(buf, "baton_events_total", PROM_TYPE_COUNTER,
                 "Events since the database was made.", view->event_id);
    print_number(buf, "baton_start_number", PROM_TYPE_GAUGE,
                 "Starts of the coordinator on this database.", view->start_number);
    print_jobs_by_state(buf, view);
    print_agents_by_state(buf, view);
    print_schedulable(buf, view);
    print_drains(buf, view);
    print_holds(buf, view);
    print_groups(buf, view);
    print_processors_by_state(buf, view);
    print_handoffs(buf, view);
    metrics_print_operations(buf, view);
    print_problems(buf, view);
    for (size_t i = 0; i < sizeof(job_metrics) / sizeof(job_metrics[0]); i++)
        print_job_metric(buf, view, &job_metrics[i]);
    print_job_rates(buf, view);
    for (size_t i = 0; i < sizeof(processor_metrics) / sizeof(processor_metrics[0]); i++)
        print_processor_metric(buf, view, &processor_metrics[i]);
    print_skipped(buf, view);
}
