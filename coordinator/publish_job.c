#include "coordinator/publish_job.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "api/text.h"
#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/core/view.h"
#include "coordinator/publish_learner.h"

#define TREND_WEIGHT 0.3 /* of the newest of the changes */

static char *copy_text(const char *text)
{
    return text == NULL ? NULL : mem_strdup(text);
}

/* ---- offsets */

/* Offsets come in some fixed order, so the one asked for next is near the one found last. */
struct offsets {
    const struct partition_progress *seen; /* reported last, else stored by an earlier run */
    size_t seen_count, seen_at;
    const struct input_offset *origins,
        *starts; /* in the same order (coordinator/core/cluster.h) */
    size_t origin_count, origin_at;
};

static struct offsets begin_offsets(const struct job *job, const struct processor *processor)
{
    struct offsets offsets = {.seen = processor->stored.items,
                              .seen_count = processor->stored.count,
                              .origins = job->row.origins.items,
                              .starts = job->row.starts.items,
                              .origin_count = job->row.origins.count};
    if (processor->observed.known) {
        offsets.seen = processor->observed.report.progress.items;
        offsets.seen_count = processor->observed.report.progress.count;
    }
    return offsets;
}

/* NULL: nothing is known. */
static const struct partition_progress *find_seen(struct offsets *offsets, uint32_t topic,
                                                  uint32_t partition)
{
    for (size_t i = 0; i < offsets->seen_count; i++) {
        size_t at = (offsets->seen_at + i) % offsets->seen_count;
        if (offsets->seen[at].topic == topic && offsets->seen[at].partition == partition) {
            offsets->seen_at = at;
            return &offsets->seen[at];
        }
    }
    return NULL;
}

/* Index of T0 and of the first T1; SIZE_MAX: the job's creation has not come so far. */
static size_t find_origin(struct offsets *offsets, uint32_t topic, uint32_t partition)
{
    for (size_t i = 0; i < offsets->origin_count; i++) {
        size_t at = (offsets->origin_at + i) % offsets->origin_count;
        if (offsets->origins[at].topic == topic && offsets->origins[at].partition == partition) {
            offsets->origin_at = at;
            return at;
        }
    }
    return SIZE_MAX;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static bool contains(const struct uint_list *ascending, uint32_t value)
{
    return bsearch(&value, ascending->items, ascending->count, sizeof(value), compare_numbers) !=
           NULL;
}

static void fill_partition(const struct job *job, const struct processor *processor,
                           struct offsets *offsets, uint32_t topic, struct partition_view *view)
{
    const struct partition_progress *seen = find_seen(offsets, topic, view->partition);
    size_t origin = find_origin(offsets, topic, view->partition);
    view->topic = mem_strdup(job->row.spec.inputs.items[topic]);
    publish_fill_window(job, topic, view);
    view->t0 = origin != SIZE_MAX ? offsets->origins[origin].offset : API_UNKNOWN;
    view->t1 = seen != NULL ? seen->t1 : API_UNKNOWN;
    view->t2 = seen != NULL ? seen->t2 : API_UNKNOWN;
    view->log_start = seen != NULL ? seen->log_start : API_UNKNOWN;
    view->stable_end = seen != NULL ? seen->stable_end : API_UNKNOWN;
    view->end = seen != NULL ? seen->end : API_UNKNOWN;
    /* As long as nobody owned it, T1 is what was committed when the job was created. */
    if (seen == NULL && origin != SIZE_MAX && processor->placement.epoch == 0 &&
        job->row.state == JOB_STATE_RUNNING)
        view->t1 = offsets->starts[origin].offset;
    view->lag_records = API_UNKNOWN;
    if (view->t1 >= 0 && view->stable_end >= 0)
        view->lag_records = view->stable_end > view->t1 ? view->stable_end - view->t1 : 0;
}

static void fill_partitions(const struct job *job, const struct processor *processor,
                            struct processor_view *view)
{
    size_t topics = job->row.spec.inputs.count;
    view->partitions.count = view->read.count * topics;
    view->partitions.items = mem_calloc(view->partitions.count, sizeof(*view->partitions.items));
    struct offsets offsets = begin_offsets(job, processor);
    size_t at = 0;
    for (size_t topic = 0; topic < topics; topic++) {
        for (size_t i = 0; i < view->read.count; i++, at++) {
            struct partition_view *partition = &view->partitions.items[at];
            partition->partition = view->read.items[i];
            partition->owned = contains(&view->owned, partition->partition);
            fill_partition(job, processor, &offsets, (uint32_t)topic, partition);
        }
    }
}

/* Of the owned partitions; unknown while that of any is unknown. */
static int64_t sum_lag(const struct processor_view *view)
{
    int64_t sum = 0;
    for (size_t i = 0; i < view->partitions.count; i++) {
        const struct partition_view *partition = &view->partitions.items[i];
        if (!partition->owned)
            continue;
        if (partition->lag_records < 0 || __builtin_add_overflow(sum, partition->lag_records, &sum))
            return API_UNKNOWN;
    }
    return sum;
}

/* Records from T2 up to T1; what is not known counts as nothing. */
static int64_t sum_replay(const struct processor_view *view)
{
    int64_t sum = 0;
    for (size_t i = 0; i < view->partitions.count; i++) {
        const struct partition_view *partition = &view->partitions.items[i];
        if (partition->t1 >= 0 && partition->t2 >= 0 && partition->t2 < partition->t1 &&
            __builtin_add_overflow(sum, partition->t1 - partition->t2, &sum))
            return INT64_MAX;
    }
    return sum;
}

/* ---- state and why */

static bool is_replaying(enum task_state state)
{
    return state == TASK_STATE_OPENING || state == TASK_STATE_SEEDING ||
           state == TASK_STATE_LEARNING || state == TASK_STATE_CAUGHT_UP ||
           state == TASK_STATE_REPLAYING;
}

static const char *state_text(const struct processor_view *view, const struct task_report *report)
{
    if (view->agent == NULL)
        return "unassigned";
    if (!view->agent_alive)
        return "agent_lost";
    return report == NULL ? "assigned"
                          : schema_enum_name(schema_names_task_state, (int)report->state);
}

static char *explain_absence(const struct cluster *cluster, const struct processor_view *view)
{
    const struct agent *agent = cluster_agent(cluster, view->agent);
    char seen[CLOCK_TEXT_BYTES];
    if (agent != NULL && agent->row.state == AGENT_STATE_STOPPED)
        return text_printf("agent %s has left; waiting for it to come back", view->agent);
    if (agent == NULL || agent->seen_ms == 0)
        return text_printf("agent %s was not heard of since the coordinator started", view->agent);
    clock_format(agent->seen_at, seen);
    return text_printf("agent %s was last heard of at %s", view->agent, seen);
}

static char *explain_report(const struct processor_view *view, const struct task_report *report,
                            const struct handoff *handoff)
{
    if (report->problems.count > 0)
        return text_printf("%s: %s", report->problems.items[0].code,
                           report->problems.items[0].detail);
    switch (report->state) {
    case TASK_STATE_ACTIVE:
        return handoff == NULL ? NULL
                               : text_printf("being handed over to %s, see hand-over %" PRIu64,
                                             handoff->row.target, handoff->row.id);
    case TASK_STATE_OPENING:
        return text_printf("the agent is opening its state and its Kafka clients");
    case TASK_STATE_SEEDING:
        return text_printf("the agent is taking a copy of the state");
    case TASK_STATE_LEARNING:
    case TASK_STATE_REPLAYING:
        return text_printf("replaying without output: %" PRId64 " records to go", sum_replay(view));
    case TASK_STATE_CAUGHT_UP:
        return text_printf("caught up, not active yet");
    case TASK_STATE_PAUSED:
        return text_printf("paused: what it put out is committed, and it puts nothing out");
    case TASK_STATE_RELEASING:
        return text_printf("giving its partitions up");
    case TASK_STATE_CLOSED:
        return text_printf("the agent has closed the task");
    case TASK_STATE_FENCED:
        return text_printf("another producer took it over; it gets a new epoch");
    case TASK_STATE_FAILED:
        return text_printf("the task has failed");
    }
    assert(!"a task state");
    return NULL;
}

/* Why it is not processing, or not for long; NULL when it is. */
static char *explain(const struct cluster *cluster, const struct job *job,
                     const struct processor *processor, const struct processor_view *view,
                     const struct task_report *report)
{
    if (view->agent == NULL) {
        if (job->row.state == JOB_STATE_CREATING)
            return text_printf("the job is being created");
        return text_printf("waiting for an agent: %s", processor->placement.reason != NULL
                                                           ? processor->placement.reason
                                                           : "none has room");
    }
    if (!view->agent_alive)
        return explain_absence(cluster, view);
    if (report == NULL)
        return text_printf("agent %s has not reported it yet: %s", view->agent,
                           processor->placement.reason != NULL ? processor->placement.reason
                                                               : "it is new there");
    if (report->state == TASK_STATE_PAUSED && report->problems.count == 0 && !job->row.pause.on)
        return text_printf(job->row.group.hold == GROUP_HOLD_FROZEN
                               ? "frozen: others are in the job's group; what it put out is "
                                 "committed, and it puts nothing out"
                               : "waits until the others in the job's group have left; what they "
                                 "have committed is learned");
    char *reason = explain_report(view, report, processor->handoff);
    return reason == NULL && processor->waits != NULL ? text_printf("%s", processor->waits)
                                                      : reason;
}

/* ---- rates */

static void follow_trend(const struct processor_view *view, const struct view_trend *before,
                         struct view_trend *trend)
{
    *trend = (struct view_trend){.at = view->reported_at, .lag_records = view->lag_records};
    if (before == NULL || before->at < 0 || trend->at < 0 || before->lag_records < 0 ||
        trend->lag_records < 0)
        return;
    trend->per_s = before->per_s;
    if (trend->at <= before->at)
        return;
    double per_s = (double)(trend->lag_records - before->lag_records) * 1000.0 /
                   (double)(trend->at - before->at);
    trend->per_s = before->per_s * (1 - TREND_WEIGHT) + per_s * TREND_WEIGHT;
}

static int64_t milliseconds_for(int64_t records, double per_s)
{
    double ms = (double)records / per_s * 1000.0;
    return ms < 1e15 ? (int64_t)ms : API_UNKNOWN;
}

/* While it replays, until it can go on; then, until nothing is left to process. */
static int64_t estimate(const struct processor_view *view, const struct task_report *report,
                        const struct view_trend *trend)
{
    if (report == NULL || view->lag_records < 0)
        return API_UNKNOWN;
    if (is_replaying(report->state)) {
        int64_t left = sum_replay(view);
        if (left == 0)
            return 0;
        return report->replayed_per_s > 0 ? milliseconds_for(left, report->replayed_per_s)
                                          : API_UNKNOWN;
    }
    if (report->state != TASK_STATE_ACTIVE)
        return API_UNKNOWN;
    if (view->lag_records == 0)
        return 0;
    return trend->per_s < 0 ? milliseconds_for(view->lag_records, -trend->per_s) : API_UNKNOWN;
}

/* ---- a processor */

static void take_counters(const struct processor *processor, const struct task_report *current,
                          struct processor_view *view)
{
    view->reported_at = API_UNKNOWN;
    if (!processor->observed.known)
        return;
    const struct task_report *report = &processor->observed.report;
    view->reported_at = processor->observed.received_at;
    view->records = report->records;
    view->outputs = report->outputs;
    view->replayed = report->replayed;
    view->skipped_null_key = report->skipped_null_key;
    view->skipped_error = report->skipped_error;
    view->skipped_asked = report->skipped_asked;
    view->dead_lettered = report->dead_lettered;
    view->commits = report->commits;
    view->aborts = report->aborts;
    view->state_rows = report->state_rows;
    view->state_bytes = report->state_bytes;
    view->garbage_rows = report->garbage_rows;
    view->garbage_left = report->garbage_left;
    if (current == NULL) /* the rates of someone who no longer works are none */
        return;
    view->records_per_s = report->records_per_s;
    view->replayed_per_s = report->replayed_per_s;
}

/* `report`: of the owner, or NULL. */
static void fill_halted(const struct job *job, const struct task_report *report,
                        struct processor_view *view)
{
    if (report == NULL || report->halted.count == 0 ||
        report->halted.items[0].topic >= job->row.spec.inputs.count)
        return;
    const struct input_offset *halted = &report->halted.items[0];
    view->halted.items = mem_calloc(1, sizeof(*view->halted.items));
    view->halted.count = 1;
    view->halted.items[0] =
        (struct record_view){.topic = mem_strdup(job->row.spec.inputs.items[halted->topic]),
                             .partition = halted->partition,
                             .offset = halted->offset};
}

static void make_processor(const struct cluster *cluster, const struct job *job, uint32_t number,
                           int64_t now_ms, const struct view_trend *before,
                           struct view_trend *trend, struct processor_view *view)
{
    const struct processor *processor = &job->processors.items[number];
    const struct placement_row *placement = &processor->placement;
    const struct task_report *report = cluster_report(cluster, processor);
    *view = (struct processor_view){.job = mem_strdup(job->row.name),
                                    .processor = number,
                                    .agent = copy_text(placement->agent),
                                    .agent_incarnation = copy_text(placement->agent_incarnation),
                                    .epoch = placement->epoch};
    const struct agent *agent =
        placement->agent == NULL ? NULL : cluster_agent(cluster, placement->agent);
    view->agent_alive = agent != NULL && cluster_agent_alive(cluster, agent, now_ms);
    cluster_owned_partitions(job, number, &view->owned);
    cluster_read_partitions(job, number, &view->read);
    fill_partitions(job, processor, view);
    fill_halted(job, report, view);
    take_counters(processor, view->agent_alive ? report : NULL, view);
    /* Offsets of someone who has stopped speaking are shown, with their time; the lag is not theirs
     * to say any more. */
    view->lag_records = view->agent_alive && report != NULL ? sum_lag(view) : API_UNKNOWN;
    view->state = mem_strdup(state_text(view, report));
    view->reason = explain(cluster, job, processor, view, report);
    follow_trend(view, before, trend);
    view->eta_ms = estimate(view, view->agent_alive ? report : NULL, trend);
    publish_list_learners(cluster, job, processor, view);
    publish_list_standbys(cluster, job, processor, view);
}

/* ---- sums */

static int64_t add_known(int64_t sum, int64_t value)
{
    int64_t total;
    if (sum < 0 || value < 0)
        return API_UNKNOWN;
    return __builtin_add_overflow(sum, value, &total) ? INT64_MAX : total;
}

static void count_state(const struct processor_view *view, struct job_status *status)
{
    if (strcmp(view->state, "active") == 0)
        status->processors_active++;
    else if (strcmp(view->state, "paused") == 0)
        status->processors_paused++;
    else if (strcmp(view->state, "failed") == 0 || strcmp(view->state, "fenced") == 0)
        status->processors_failed++;
    else if (view->agent == NULL)
        status->processors_unassigned++;
    for (int state = 0; schema_names_task_state[state] != NULL; state++) {
        if (is_replaying((enum task_state)state) &&
            strcmp(view->state, schema_names_task_state[state]) == 0)
            status->processors_replaying++;
    }
}

static void add_processor(const struct processor_view *view, struct job_status *status)
{
    count_state(view, status);
    for (size_t i = 0; i < view->standbys.count; i++)
        status->standbys_ready += view->standbys.items[i].ready;
    status->lag_records = add_known(status->lag_records, view->lag_records);
    for (size_t i = 0; i < view->partitions.count; i++) {
        if (view->partitions.items[i].owned &&
            view->partitions.items[i].lag_records > status->lag_records_max)
            status->lag_records_max = view->partitions.items[i].lag_records;
    }
    status->replay_records = add_known(status->replay_records, sum_replay(view));
    status->records_per_s += view->records_per_s;
    status->replayed_per_s += view->replayed_per_s;
    status->state_rows += view->state_rows;
    status->state_bytes += view->state_bytes;
    if (view->reported_at >= 0 &&
        (status->observed_at < 0 || view->reported_at < status->observed_at))
        status->observed_at = view->reported_at;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Different owners. */
static uint32_t count_owners(const struct view_job *view)
{
    const char **owners = mem_calloc(view->processors.count, sizeof(*owners));
    size_t count = 0;
    uint32_t different = 0;
    for (size_t i = 0; i < view->processors.count; i++) {
        if (view->processors.items[i].agent != NULL)
            owners[count++] = view->processors.items[i].agent;
    }
    qsort(owners, count, sizeof(*owners), compare_texts);
    for (size_t i = 0; i < count; i++)
        different += i == 0 || strcmp(owners[i - 1], owners[i]) != 0;
    free(owners);
    return different;
}

static void say_group(const struct job *job, struct job_status *status)
{
    const struct group_row *row = &job->row.group;
    bool waits = row->hold == GROUP_HOLD_WAITING || row->hold == GROUP_HOLD_STARTING;
    status->group = (struct group_view){
        .hold = row->hold,
        .since = row->hold == GROUP_HOLD_NONE ? API_UNKNOWN : row->since_at,
        .members = job->group.known ? (int64_t)job->group.members : API_UNKNOWN,
        .who = copy_text(job->group.who),
        .ready = waits && status->processors_paused == status->processors,
    };
}

static void sum_up(const struct job *job, struct view_job *view)
{
    struct job_status *status = &view->status;
    *status = (struct job_status){
        .name = mem_strdup(job->row.name),
        .state = job->row.state,
        .partitions_initial = job->row.partitions_initial,
        .partitions = job->row.partitions,
        .processors_initial = job->row.processors_initial,
        .processors = job->row.processors,
        .standbys_wanted =
            job->row.spec.stateful ? job->row.processors * job->row.spec.standbys : 0,
        .lag_records_max = API_UNKNOWN,
        .observed_at = API_UNKNOWN,
        .paused = job->row.pause.on,
        .paused_at = API_UNKNOWN,
        .problems = (uint32_t)view->problems.count,
    };
    if (status->paused) {
        status->paused_reason = copy_text(job->row.pause.reason);
        status->paused_by = copy_text(job->row.pause.actor);
        status->paused_at = job->row.pause.changed_at;
    }
    for (size_t i = 0; i < view->processors.count; i++)
        add_processor(&view->processors.items[i], status);
    say_group(job, status);
    status->agents = count_owners(view);
    for (size_t i = 0; i < job->processors.count + job->nascent; i++)
        status->handoffs_running += job->processors.items[i].handoff != NULL;
    publish_sum_windows(job, status);
}

/* ---- the job */

struct view_job *publish_make_job(const struct cluster *cluster, const struct job *job,
                                  const struct view_job *before, int64_t now_ms)
{
    struct view_job *view = mem_calloc(1, sizeof(*view));
    view->references = 1;
    view_job(&job->row, &view->job);
    view->map_version = job->row.map_version;
    view->partitioner = job->row.partitioner;
    view->partitioner_reason = copy_text(job->row.partitioner_reason);
    view->processors.count = job->processors.count;
    view->processors.items = mem_calloc(job->processors.count, sizeof(*view->processors.items));
    view->trends = mem_calloc(job->processors.count, sizeof(*view->trends));
    bool same = before != NULL && before->processors.count == job->processors.count &&
                strcmp(before->job.incarnation, job->row.incarnation) == 0;
    for (size_t i = 0; i < job->processors.count; i++)
        make_processor(cluster, job, (uint32_t)i, now_ms, same ? &before->trends[i] : NULL,
                       &view->trends[i], &view->processors.items[i]);
    view->skips.count = job->skips.count;
    view->skips.items = mem_calloc(job->skips.count, sizeof(*view->skips.items));
    for (size_t i = 0; i < job->skips.count; i++)
        view_skip(&job->row, &job->skips.items[i], &view->skips.items[i]);
    publish_find_problems(cluster, job, now_ms, view);
    sum_up(job, view);
    return view;
}

void publish_free_job(struct view_job *view)
{
    schema_free(&schema_job_view, &view->job);
    schema_free(&schema_job_status, &view->status);
    for (size_t i = 0; i < view->processors.count; i++)
        schema_free(&schema_processor_view, &view->processors.items[i]);
    free(view->processors.items);
    for (size_t i = 0; i < view->problems.count; i++)
        schema_free(&schema_problem_view, &view->problems.items[i]);
    free(view->problems.items);
    for (size_t i = 0; i < view->skips.count; i++)
        schema_free(&schema_skip_view, &view->skips.items[i]);
    free(view->skips.items);
    free(view->partitioner_reason);
    free(view->trends);
    free(view);
}
