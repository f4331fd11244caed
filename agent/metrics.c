#include "agent/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/schema.h"
#include "common/prom.h"

#define TASK_STATES (TASK_STATE_FAILED + 1)

void metrics_view_destroy(struct metrics_view *view)
{
    if (view == NULL)
        return;
    schema_free(&schema_agent_report, &view->report);
    free(view);
}

/* Tasks that are there come first in a report; those after them have closed, and another task of
 * the same job and processor may be there already. */
static size_t present(const struct metrics_view *view)
{
    size_t count = view->tasks.running + view->tasks.down;
    assert(count <= view->report.tasks.count);
    return count;
}

/* ---- the agent */

static void print_int(struct strbuf *buf, const char *name, enum prom_type type, const char *help,
                      int64_t value)
{
    prom_family(buf, name, type, help);
    prom_sample_int(buf, name, NULL, value);
}

static void print_agent(const struct metrics_view *view, const char *librdkafka, struct strbuf *buf)
{
    prom_family(buf, "baton_agent_build_info", PROM_TYPE_GAUGE, "Versions in use; always 1.");
    prom_sample_int(buf, "baton_agent_build_info",
                    PROM_LABELS({"version", BATON_VERSION}, {"librdkafka", librdkafka}), 1);
    prom_family(buf, "baton_agent_start_time_seconds", PROM_TYPE_GAUGE,
                "When the agent was started, in seconds since 1970.");
    prom_sample_double(buf, "baton_agent_start_time_seconds", NULL,
                       (double)view->started_at / 1000);
    print_int(buf, "baton_agent_ready", PROM_TYPE_GAUGE,
              "1 when the agent is registered and has applied its tasks.", view->ready);
    print_int(buf, "baton_agent_stopping", PROM_TYPE_GAUGE, "1 when the agent is on its way out.",
              view->report.stopping);
    print_int(buf, "baton_agent_capacity", PROM_TYPE_GAUGE, "Most tasks that the agent takes.",
              view->capacity);
    print_int(buf, "baton_agent_document_start", PROM_TYPE_GAUGE,
              "First part of the version of the tasks' document: starts of the coordinator.",
              (int64_t)view->report.version.start);
    print_int(buf, "baton_agent_document_decision", PROM_TYPE_GAUGE,
              "Second part of that version: decisions of the coordinator.",
              (int64_t)view->report.version.decision);
}

static void print_channel(struct strbuf *buf, const char *name, const char *help,
                          const struct link_counts *link, bool failures)
{
    prom_family(buf, name, PROM_TYPE_COUNTER, help);
    prom_sample_int(buf, name, PROM_LABELS({"operation", "register"}),
                    (int64_t)(failures ? link->registration_failures : link->registrations));
    prom_sample_int(buf, name, PROM_LABELS({"operation", "poll"}),
                    (int64_t)(failures ? link->poll_failures : link->polls));
    prom_sample_int(buf, name, PROM_LABELS({"operation", "report"}),
                    (int64_t)(failures ? link->report_failures : link->reports));
}

static void print_link(const struct metrics_view *view, struct strbuf *buf)
{
    print_int(buf, "baton_agent_coordinator_up", PROM_TYPE_GAUGE,
              "1 when the coordinator answers as it should; tasks go on either way.",
              view->link.up);
    print_channel(buf, "baton_agent_coordinator_requests_total",
                  "Requests to the coordinator, those that failed included.", &view->link, false);
    print_channel(buf, "baton_agent_coordinator_failures_total",
                  "Requests to the coordinator that were not answered as they should be.",
                  &view->link, true);
}

/* What the agent sends to others of its states. */
static void print_snapshots(const struct metrics_view *view, struct strbuf *buf)
{
    const struct snapshot_serve_counts *counts = &view->snapshots;
    print_int(buf, "baton_agent_snapshots_sending", PROM_TYPE_GAUGE,
              "States that are being sent to other agents.", (int64_t)counts->transfers);
    prom_family(buf, "baton_agent_snapshots_total", PROM_TYPE_COUNTER,
                "States that other agents asked for: sent whole, not asked for any more, refused.");
    prom_sample_int(buf, "baton_agent_snapshots_total", PROM_LABELS({"result", "completed"}),
                    (int64_t)counts->completed);
    prom_sample_int(buf, "baton_agent_snapshots_total", PROM_LABELS({"result", "expired"}),
                    (int64_t)counts->expired);
    prom_sample_int(buf, "baton_agent_snapshots_total", PROM_LABELS({"result", "refused"}),
                    (int64_t)counts->refused);
    print_int(buf, "baton_agent_snapshot_bytes_total", PROM_TYPE_COUNTER,
              "Bytes of states that were sent to other agents.", (int64_t)counts->bytes);
    print_int(buf, "baton_agent_snapshot_rows_total", PROM_TYPE_COUNTER,
              "Rows of states that were sent whole to other agents.", (int64_t)counts->rows);
}

static void print_tasks(const struct metrics_view *view, struct strbuf *buf)
{
    int64_t counts[TASK_STATES] = {0};
    for (size_t i = 0; i < present(view); i++)
        counts[view->report.tasks.items[i].state]++;

    prom_family(buf, "baton_agent_tasks", PROM_TYPE_GAUGE, "Tasks of the agent by state.");
    for (int state = 0; state < TASK_STATES; state++)
        prom_sample_int(buf, "baton_agent_tasks",
                        PROM_LABELS({"state", schema_enum_name(schema_names_task_state, state)}),
                        counts[state]);
    print_int(buf, "baton_agent_tasks_wanted", PROM_TYPE_GAUGE,
              "Tasks that the coordinator wants the agent to have.", (int64_t)view->tasks.wanted);
}

/* ---- tasks: a family is a name, a help text and how to get its value from a report */

/* The sum over partitions of `to` - `from`; -1 while any of them is not known, or none is there. */
static int64_t gap(const struct task_report *task, bool to_end)
{
    int64_t sum = 0;
    for (size_t i = 0; i < task->progress.count; i++) {
        const struct partition_progress *progress = &task->progress.items[i];
        int64_t from = to_end ? progress->t1 : progress->t2;
        int64_t to = to_end ? progress->stable_end : progress->t1;
        if (from == API_UNKNOWN || to == API_UNKNOWN)
            return -1;
        sum += to > from ? to - from : 0;
    }
    return task->progress.count == 0 ? -1 : sum;
}

/* Of the owner alone: what a learner knows of it is the same lag, seen later. */
static int64_t lag_of(const struct task_report *task)
{
    return task->role == TASK_ROLE_ACTIVE ? gap(task, true) : -1;
}

static int64_t caught_up_lag_of(const struct task_report *task)
{
    return task->caught_up_lag; /* API_UNKNOWN is -1: no sample */
}

static int64_t released_of(const struct task_report *task)
{
    return task->released ? 1 : 0;
}

static int64_t replay_of(const struct task_report *task)
{
    return gap(task, false);
}

#define FIELD_OF(name)                                                                             \
    static int64_t name##_of(const struct task_report *task)                                       \
    {                                                                                              \
        return (int64_t)task->name;                                                                \
    }
FIELD_OF(epoch)
FIELD_OF(records)
FIELD_OF(outputs)
FIELD_OF(replayed)
FIELD_OF(dead_lettered)
FIELD_OF(commits)
FIELD_OF(aborts)
FIELD_OF(state_rows)
FIELD_OF(state_bytes)
FIELD_OF(garbage_rows)
FIELD_OF(garbage_left)

static const struct task_family {
    const char *name;
    enum prom_type type;
    const char *help;
    int64_t (*value)(const struct task_report *task); /* -1: not known, no sample */
} task_families[] = {
    {"baton_task_epoch", PROM_TYPE_GAUGE, "Epoch that the task works under.", epoch_of},
    {"baton_task_lag_records", PROM_TYPE_GAUGE,
     "Owners: records between committed (T1) and the last stable offset; absent while not known.",
     lag_of},
    {"baton_task_replay_records", PROM_TYPE_GAUGE,
     "Records between the state (T2) and committed (T1); absent while not known.", replay_of},
    {"baton_task_caught_up_lag_records", PROM_TYPE_GAUGE,
     "Learners: most records of a partition between the state (T2) and the committed offset (T1) "
     "that is followed; absent while not known.",
     caught_up_lag_of},
    {"baton_task_released", PROM_TYPE_GAUGE,
     "1 when the task has committed and given up what it owned.", released_of},
    {"baton_task_records_total", PROM_TYPE_COUNTER, "Records applied with output.", records_of},
    {"baton_task_outputs_total", PROM_TYPE_COUNTER, "Records written to the output topic.",
     outputs_of},
    {"baton_task_replayed_total", PROM_TYPE_COUNTER, "Records applied without output.",
     replayed_of},
    {"baton_task_dead_lettered_total", PROM_TYPE_COUNTER,
     "Records written to the dead letter topic.", dead_lettered_of},
    {"baton_task_commits_total", PROM_TYPE_COUNTER, "Commits that succeeded.", commits_of},
    {"baton_task_aborts_total", PROM_TYPE_COUNTER, "Transactions given up.", aborts_of},
    {"baton_task_state_rows", PROM_TYPE_GAUGE, "Rows in the state, as of the last checkpoint.",
     state_rows_of},
    {"baton_task_state_bytes", PROM_TYPE_GAUGE,
     "Bytes of the state on disk, as of the last checkpoint.", state_bytes_of},
    {"baton_task_garbage_rows_total", PROM_TYPE_COUNTER,
     "Rows removed that splits have left behind, since the state was opened.", garbage_rows_of},
    {"baton_task_garbage_left", PROM_TYPE_GAUGE,
     "1 while there may be more of them, which are looked for in the background.", garbage_left_of},
};

struct task_labels { /* of one task; the texts live in it */
    char processor[16];
    const char *job;
};

static struct task_labels labels_of(const struct task_report *task)
{
    struct task_labels labels = {.job = task->job};
    snprintf(labels.processor, sizeof(labels.processor), "%" PRIu32, task->processor);
    return labels;
}

#define TASK_LABELS(labels, ...)                                                                   \
    PROM_LABELS({"job", (labels).job}, {"processor", (labels).processor}, __VA_ARGS__)

static void print_family(const struct metrics_view *view, const struct task_family *family,
                         struct strbuf *buf)
{
    prom_family(buf, family->name, family->type, family->help);
    for (size_t i = 0; i < present(view); i++) {
        const struct task_report *task = &view->report.tasks.items[i];
        struct task_labels labels = labels_of(task);
        int64_t value = family->value(task);
        if (value >= 0)
            prom_sample_int(buf, family->name, TASK_LABELS(labels, {NULL, NULL}), value);
    }
}

static void print_skipped(const struct metrics_view *view, struct strbuf *buf)
{
    prom_family(buf, "baton_task_skipped_total", PROM_TYPE_COUNTER,
                "Records passed over: without a key, refused by the logic, or by request.");
    for (size_t i = 0; i < present(view); i++) {
        const struct task_report *task = &view->report.tasks.items[i];
        struct task_labels labels = labels_of(task);
        prom_sample_int(buf, "baton_task_skipped_total",
                        TASK_LABELS(labels, {"reason", "null_key"}),
                        (int64_t)task->skipped_null_key);
        prom_sample_int(buf, "baton_task_skipped_total", TASK_LABELS(labels, {"reason", "error"}),
                        (int64_t)task->skipped_error);
        prom_sample_int(buf, "baton_task_skipped_total", TASK_LABELS(labels, {"reason", "asked"}),
                        (int64_t)task->skipped_asked);
    }
}

static void print_states(const struct metrics_view *view, struct strbuf *buf)
{
    prom_family(buf, "baton_task_state", PROM_TYPE_GAUGE,
                "1 for the state that the task is in; other states have no sample.");
    for (size_t i = 0; i < present(view); i++) {
        const struct task_report *task = &view->report.tasks.items[i];
        struct task_labels labels = labels_of(task);
        const char *role = schema_enum_name(schema_names_task_role, (int)task->role);
        const char *state = schema_enum_name(schema_names_task_state, (int)task->state);
        prom_sample_int(buf, "baton_task_state",
                        TASK_LABELS(labels, {"role", role}, {"state", state}), 1);
    }
}

static void print_problems(const struct metrics_view *view, struct strbuf *buf)
{
    prom_family(buf, "baton_task_problem", PROM_TYPE_GAUGE,
                "1 for each problem that the task has now.");
    for (size_t i = 0; i < present(view); i++) {
        const struct task_report *task = &view->report.tasks.items[i];
        struct task_labels labels = labels_of(task);
        for (size_t k = 0; k < task->problems.count; k++)
            prom_sample_int(buf, "baton_task_problem",
                            TASK_LABELS(labels, {"code", task->problems.items[k].code}), 1);
    }
}

void metrics_print(const struct metrics_view *view, const char *librdkafka, struct strbuf *buf)
{
    print_agent(view, librdkafka, buf);
    print_link(view, buf);
    print_snapshots(view, buf);
    print_tasks(view, buf);
    print_states(view, buf);
    for (size_t i = 0; i < sizeof(task_families) / sizeof(task_families[0]); i++)
        print_family(view, &task_families[i], buf);
    print_skipped(view, buf);
    print_problems(view, buf);
}
