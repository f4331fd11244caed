/* What a task says of itself: to the coordinator, and to the agent's metrics. */
#include <stdio.h>
#include <string.h>

#include "agent/task_private.h"
#include "api/schema.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"

#define REPORT_INTERVAL_MS 100
#define RATE_WINDOW_MS     2000
/* A working task asks every two seconds, one that has failed looks again after ten. */
#define RANGES_FRESH_MS 15000

static void add_problem(struct task_report *report, const char *code, const char *detail,
                        int64_t since_at)
{
    size_t count = report->problems.count;

    report->problems.items =
        mem_realloc(report->problems.items, count + 1, sizeof(*report->problems.items));
    report->problems.items[count] = (struct task_problem){
        .code = mem_strdup(code), .detail = mem_strdup(detail), .since_at = since_at};
    report->problems.count = count + 1;
}

/* When something that is (still) there began: `before` if it was there already. */
static int64_t since(bool there, int64_t before)
{
    if (!there)
        return 0;
    return before != 0 ? before : clock_wall_ms();
}

static void report_stuck(struct task_thread *thread, struct task_report *report)
{
    const struct task_partition *partition = NULL;
    char text[128];

    for (size_t i = 0; i < thread->core.partition_count && partition == NULL; i++) {
        const struct task_partition *each = &thread->core.partitions[i];

        if (each->pin == TASK_PIN_HELD && each->owned && each->position >= each->range.stable_end)
            partition = each;
    }
    thread->stuck_since_at = since(partition != NULL, thread->stuck_since_at);
    if (partition == NULL)
        return;
    (void)snprintf(text, sizeof(text),
                   "input %u partition %u: offsets %lld to %lld are behind an open transaction",
                   partition->topic, partition->partition, (long long)partition->range.stable_end,
                   (long long)partition->range.end);
    add_problem(report, "blocked_by_open_transaction", text, thread->stuck_since_at);
}

static void report_failing(struct task_thread *thread, struct task_report *report)
{
    const struct task_partition *partition = NULL;
    const char *detail = NULL;
    char text[TASK_DETAIL_BYTES];

    for (size_t i = 0; i < thread->core.partition_count && detail == NULL; i++) {
        partition = &thread->core.partitions[i];
        detail = thread->failing[i];
    }
    thread->failing_since_at = since(detail != NULL, thread->failing_since_at);
    if (detail == NULL)
        return;
    (void)snprintf(text, sizeof(text), "input %u partition %u can not be read: %s",
                   partition->topic, partition->partition, detail);
    add_problem(report, "kafka_unreachable", text, thread->failing_since_at);
}

/* Phases are logged as they come; a task may also stay in one because of a problem. */
static void note_problem(struct task_thread *thread)
{
    const char *code = thread->core.code;

    if (strcmp(thread->problem_code, code) == 0)
        return;
    log_write(code[0] != '\0' ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
              code[0] != '\0' ? "task_problem" : "task_problem_over",
              LOG_STR("job", thread->job.name), LOG_INT("processor", thread->desired.processor),
              LOG_INT("epoch", thread->core.epoch_working),
              LOG_STR("phase", task_phase_name((enum task_phase)thread->core.phase.state)),
              LOG_STR("problem", code[0] != '\0' ? code : thread->problem_code),
              LOG_STR("detail", thread->core.detail), LOG_END);
    (void)snprintf(thread->problem_code, sizeof(thread->problem_code), "%s", code);
    thread->problem_wall_at = clock_wall_ms();
}

static void report_brokers_down(const struct task_thread *thread, struct task_report *report)
{
    const char *reason = consumer_down_reason(thread->consumer);
    char text[TASK_DETAIL_BYTES];

    (void)snprintf(text, sizeof(text), "no broker can be reached%s%s",
                   reason[0] == '\0' ? "" : ": ", reason);
    add_problem(report, "kafka_unreachable", text, thread->brokers_since_at);
}

static void report_problems(struct task_thread *thread, struct task_report *report)
{
    note_problem(thread);
    if (thread->core.code[0] != '\0')
        add_problem(report, thread->core.code, thread->core.detail, thread->problem_wall_at);
    report_stuck(thread, report);
    report_failing(thread, report);
    thread->brokers_since_at = since(thread->brokers_down, thread->brokers_since_at);
    if (thread->brokers_down && thread->consumer != NULL && thread->core.code[0] == '\0' &&
        thread->failing_since_at == 0)
        report_brokers_down(thread, report);
}

/*
 * Without an answer there is no telling what came since: the lag of an hour ago is not that of now.
 * A task that has failed because of what was committed was judged by its ranges, and so is the
 * offset that an operator chooses instead (step_offsets): they stand until it looks again.
 */
static bool ranges_hold(const struct task_thread *thread)
{
    bool strange = false;

    for (size_t i = 0; i < thread->core.partition_count && !strange; i++)
        strange = thread->core.partitions[i].strange;
    return (strange && thread->core.phase.state == TASK_PHASE_FAILED) ||
           clock_mono_ms() - thread->ranges_ms <= RANGES_FRESH_MS;
}

/* A position is proof of an end at least there, whatever an older answer said. */
static int64_t end_at(int64_t end, int64_t position)
{
    return end != API_UNKNOWN && end < position ? position : end;
}

static void report_progress(const struct task_thread *thread, struct task_report *report)
{
    static const struct task_range unknown = {API_UNKNOWN, API_UNKNOWN, API_UNKNOWN};
    size_t count = thread->core.partition_count;
    bool hold = ranges_hold(thread);

    report->progress.items = mem_calloc(count, sizeof(*report->progress.items));
    report->progress.count = count;
    for (size_t i = 0; i < count; i++) {
        const struct task_partition *from = &thread->core.partitions[i];
        const struct task_range *range = hold ? &from->range : &unknown;

        report->progress.items[i] = (struct partition_progress){
            .topic = from->topic,
            .partition = from->partition,
            .t0 = from->t0,
            .t1 = from->t1,
            .t2 = from->position,
            .log_start = range->log_start,
            .stable_end = end_at(range->stable_end, from->position),
            .end = end_at(range->end, from->position),
        };
    }
}

static void report_halted(const struct task_thread *thread, struct task_report *report)
{
    size_t index;
    int64_t offset;

    if (!task_halted(&thread->core, &index, &offset))
        return;
    report->halted.items = mem_calloc(1, sizeof(*report->halted.items));
    report->halted.count = 1;
    report->halted.items[0] =
        (struct input_offset){.topic = thread->core.partitions[index].topic,
                              .partition = thread->core.partitions[index].partition,
                              .offset = offset};
}

static void report_found(const struct task_thread *thread, struct task_report *report)
{
    if (thread->core.phase.state != TASK_PHASE_FAILED)
        return;
    report->found.items = mem_calloc(thread->core.partition_count, sizeof(*report->found.items));
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *from = &thread->core.partitions[i];

        if (from->strange)
            report->found.items[report->found.count++] = (struct input_offset){
                .topic = from->topic, .partition = from->partition, .offset = from->found};
    }
}

static void report_windows(const struct task_thread *thread, struct task_report *report)
{
    size_t count = thread->core.partition_count;

    report->windows.items = mem_calloc(count, sizeof(*report->windows.items));
    for (size_t i = 0; i < count; i++) {
        const struct task_partition *from = &thread->core.partitions[i];

        if (!from->window.told || !from->owned)
            continue;
        report->windows.items[report->windows.count++] =
            (struct window_report){.topic = from->topic,
                                   .partition = from->partition,
                                   .number = from->window.number,
                                   .old_records = from->window.old_records,
                                   .old_at = from->window.old_at,
                                   .settled = task_settled(&thread->core, i),
                                   .stale = from->window.stale};
        if (task_settled(&thread->core, i) != API_UNKNOWN)
            HOOK_HERE(thread, "window_settled");
    }
}

static void report_split_bounds(const struct task_thread *thread, struct task_report *report)
{
    size_t count = thread->core.partition_count;

    report->split_bounds.items = mem_calloc(count, sizeof(*report->split_bounds.items));
    for (size_t i = 0; i < count; i++) {
        const struct task_partition *from = &thread->core.partitions[i];

        if (from->split_bound != API_UNKNOWN)
            report->split_bounds.items[report->split_bounds.count++] =
                (struct ancestor_bound){.topic = from->topic,
                                        .partition = from->partition,
                                        .offset = from->split_bound,
                                        .records = from->split_bound_records};
    }
}

static void copy_consuming(const struct task_thread *thread, struct task_report *report)
{
    const struct task *core = &thread->core;

    if (!task_may_output(core))
        return;
    report->consuming.items = mem_calloc(core->partition_count, sizeof(*report->consuming.items));
    for (size_t i = 0; i < core->partition_count; i++)
        if (core->partitions[i].topic == 0 && core->partitions[i].owned)
            report->consuming.items[report->consuming.count++] = core->partitions[i].partition;
}

static void update_rate(struct task_thread *thread, int64_t now_ms)
{
    struct task_rate *rate = &thread->rate;
    int64_t spent_ms = now_ms - rate->since_ms;

    if (spent_ms < RATE_WINDOW_MS)
        return;
    rate->records_per_s =
        (double)(thread->counters.records - rate->records) * 1000 / (double)spent_ms;
    rate->replayed_per_s =
        (double)(thread->counters.replayed - rate->replayed) * 1000 / (double)spent_ms;
    rate->records = thread->counters.records;
    rate->replayed = thread->counters.replayed;
    rate->since_ms = now_ms;
}

/* What the task is, not what it was told to become a moment ago. */
static double seed_rate(const struct task_thread *thread, int64_t now_ms)
{
    int64_t spent_ms = now_ms - thread->seeding.begun_ms;

    if (thread->fetch == NULL || spent_ms <= 0)
        return 0;
    return (double)thread->seeding.rows * 1000 / (double)spent_ms;
}

static enum task_role role_of(const struct task_thread *thread)
{
    if (!thread->core.desired.learner)
        return TASK_ROLE_ACTIVE;
    return thread->desired.role == TASK_ROLE_STANDBY ? TASK_ROLE_STANDBY : TASK_ROLE_LEARNER;
}

static void report_store(struct task_thread *thread, struct task_report *report)
{
    store_size(thread->store, &report->state_rows, &report->state_bytes);
    store_count_garbage(thread->store, &report->garbage_rows, &report->garbage_left);
}

void task_report_fill(struct task_thread *thread, struct task_report *report)
{
    *report = (struct task_report){
        .job = mem_strdup(thread->job.name),
        .job_incarnation = mem_strdup(thread->job.incarnation),
        .processor = thread->desired.processor,
        .role = role_of(thread),
        .state = task_state(&thread->core),
        .epoch = task_epoch(&thread->core),
        .handoff = thread->core.desired.handoff,
        .released = thread->core.released,
        .split = thread->core.split_done,
        .caught_up_lag = task_caught_up_lag(&thread->core),
        .records = thread->counters.records,
        .outputs = thread->counters.outputs,
        .replayed = thread->counters.replayed,
        .skipped_null_key = thread->counters.skipped_null_key,
        .skipped_error = thread->counters.skipped_error,
        .skipped_asked = thread->counters.skipped_asked,
        .dead_lettered = thread->counters.dead_lettered,
        .commits = thread->counters.commits,
        .aborts = thread->counters.aborts,
        .records_per_s = thread->rate.records_per_s,
        .replayed_per_s = thread->rate.replayed_per_s,
    };
    copy_consuming(thread, report);
    report_progress(thread, report);
    report_halted(thread, report);
    report_found(thread, report);
    report_windows(thread, report);
    report_split_bounds(thread, report);
    report_problems(thread, report);
    if (thread->fetch != NULL)
        (void)snapshot_fetch_state(thread->fetch, &thread->seeding, NULL); /* task_seed.c looks */
    if (thread->seeding.source[0] != '\0')
        report->seed_source = mem_strdup(thread->seeding.source);
    report->seed_rows = thread->seeding.rows;
    report->seed_rows_total = thread->seeding.rows_total;
    report->seed_bytes = thread->seeding.bytes;
    report->seed_rows_per_s = seed_rate(thread, clock_mono_ms());
    if (thread->store != NULL)
        report_store(thread, report);
}

void task_report_publish(struct task_thread *thread, int64_t now_ms)
{
    struct task_report fresh, old;
    bool tell;

    if (now_ms < thread->report_due_ms)
        return;
    tell = thread->report_due_ms == 0;
    thread->report_due_ms = now_ms + REPORT_INTERVAL_MS;
    update_rate(thread, now_ms);
    task_report_fill(thread, &fresh);
    pthread_mutex_lock(&thread->lock);
    old = thread->report;
    thread->report = fresh;
    pthread_mutex_unlock(&thread->lock);
    schema_free(&schema_task_report, &old);
    if (tell)
        thread->context->changed(thread->context->arg);
    HOOK_HERE(thread, "reported");
}

void task_thread_report(struct task_thread *thread, struct task_report *ret_report)
{
    pthread_mutex_lock(&thread->lock);
    schema_copy(&schema_task_report, ret_report, &thread->report);
    pthread_mutex_unlock(&thread->lock);
}
