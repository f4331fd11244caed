/*
 * Settle windows (D4). An expansion opens one of each partition that has descendants. The owner
 * says when it may be closed: it alone knows when it met the last old-count record, on a clock of
 * its own, and what it has committed. A later old-count record opens it again; the owner holds the
 * descendants back at once, before anybody has told it to.
 */
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/step_job.h"

/* How many old-count records were met is stored so often, when nothing else of the window is. */
#define COUNT_INTERVAL_MS 10000

static struct change change_of(const struct window *window)
{
    struct change change = {.kind = CHANGE_WINDOW};
    rows_copy_window(&change.window, &window->row);
    change.window.old_records += window->more;
    if (window->more > 0)
        change.window.old_at = window->more_at;
    return change;
}

static void record(struct step *step, struct window *window, struct change *change)
{
    window->more = 0;
    window->stored_ms = step->event->now_ms;
    step_change(step, change);
}

/* ---- expansions */

/* An expansion has made what is new, and keys were checked in it from its first record on, though
 * it had no window. It is the same before and after it gets one. */
static int64_t first_end_of(const struct job *job, const struct input_offset *end)
{
    return end->partition < job->row.partitions_initial ? end->offset : 0;
}

static void open_one(struct step *step, const struct job *job, const struct input_offset *end,
                     int64_t first_end)
{
    const struct window *known = cluster_window(job, end->topic, end->partition);
    struct change change = {
        .kind = CHANGE_WINDOW,
        .window = {.job = mem_strdup(job->row.name),
                   .window = {.topic = end->topic,
                              .partition = end->partition,
                              .number = known != NULL ? known->row.window.number + 1 : 1,
                              .first_end = known != NULL ? known->row.window.first_end : first_end,
                              .end = end->offset,
                              .fence = API_UNKNOWN},
                   .opened_at = step->event->now_at,
                   .closed_at = API_UNKNOWN,
                   .old_at = API_UNKNOWN}};
    step_change(step, &change);
    struct window *window = cluster_window(job, end->topic, end->partition);
    window->more = 0;
    window->stored_ms = step->event->now_ms;
}

void step_open_windows(struct step *step, const struct job *job, const struct input_offset *ends,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        open_one(step, job, &ends[i], first_end_of(job, &ends[i]));
}

void step_open_first_windows(struct step *step, const struct job *job,
                             const struct input_offset *ends, size_t count)
{
    for (size_t i = 0; i < count; i++)
        open_one(step, job, &ends[i], ends[i].offset);
}

/* ---- recovery of a database that was lost, or is old */

/* What agents say is input. */
static bool is_possible(const struct job *job, const struct settle_window *told)
{
    return told->topic < job->row.spec.inputs.count && told->partition < job->row.partitions &&
           job->row.partitions > job->row.partitions_initial && told->number > 0 &&
           told->first_end >= 0 && told->end >= told->first_end &&
           (told->fence == API_UNKNOWN || told->fence >= told->end);
}

void step_recover_windows(struct step *step, const struct job *job, const struct document_job *told)
{
    for (size_t i = 0; i < told->windows.count; i++) {
        const struct settle_window *window = &told->windows.items[i];
        const struct window *known = cluster_window(job, window->topic, window->partition);
        if (!is_possible(job, window) ||
            (known != NULL && known->row.window.number > window->number))
            continue;
        int64_t now_at = step->event->now_at;
        struct change change = {
            .kind = CHANGE_WINDOW,
            .window = {.job = mem_strdup(job->row.name),
                       .window = *window,
                       .opened_at = known != NULL ? known->row.opened_at : now_at,
                       .closed_at = window->fence != API_UNKNOWN ? now_at : API_UNKNOWN,
                       .old_at = API_UNKNOWN}};
        step_change(step, &change);
    }
}

/* ---- reports */

/* The task counts from its start on, and another epoch may be another task. After a start of the
 * coordinator it is not known how much of that is stored: all that is stored may be. */
static void count_records(struct window *window, const struct window_report *told, uint64_t epoch)
{
    bool same = window->epoch == epoch && told->old_records >= window->reported;
    uint64_t known = same ? window->reported : window->epoch == 0 ? window->row.old_records : 0;
    uint64_t more = told->old_records > known ? told->old_records - known : 0;
    window->epoch = epoch;
    window->reported = told->old_records;
    window->more += more;
    if (more > 0)
        window->more_at = told->old_at;
}

struct tally {
    size_t closed, reopened;
    uint32_t topic, partition; /* of the first one */
};

static void note(struct tally *tally, const struct window_report *told)
{
    if (tally->closed + tally->reopened == 0) {
        tally->topic = told->topic;
        tally->partition = told->partition;
    }
}

static void judge(struct step *step, struct window *window, const struct window_report *told,
                  struct tally *tally)
{
    const struct settle_window *now = &window->row.window;
    struct change change;
    if (told->stale && now->fence != API_UNKNOWN) {
        change = change_of(window);
        change.window.window.number++;
        change.window.window.fence = API_UNKNOWN;
        change.window.opened_at = step->event->now_at;
        change.window.closed_at = API_UNKNOWN;
        change.window.stale = true;
        note(tally, told);
        tally->reopened++;
    } else if (!told->stale && now->fence == API_UNKNOWN && told->settled != API_UNKNOWN &&
               told->settled >= now->end) {
        change = change_of(window);
        change.window.window.fence = told->settled;
        change.window.closed_at = step->event->now_at;
        change.window.stale = false;
        note(tally, told);
        tally->closed++;
    } else if (window->more > 0 && step->event->now_ms - window->stored_ms >= COUNT_INTERVAL_MS) {
        change = change_of(window);
    } else {
        return;
    }
    record(step, window, &change);
}

static void say(struct step *step, const struct job *job, const struct processor *processor,
                const struct tally *tally)
{
    const char *topic = job->row.spec.inputs.items[tally->topic];
    const char *agent = processor->placement.agent;
    if (tally->reopened > 0)
        step_event(
            step,
            (struct event_about){"settle_window_reopened", .processor = processor, .agent = agent},
            "%zu partitions, first \"%s\" %u: a producer that does not know the present "
            "number of partitions has written again",
            tally->reopened, topic, tally->partition);
    if (tally->closed > 0)
        step_event(
            step,
            (struct event_about){"settle_window_closed", .processor = processor, .agent = agent},
            "%zu partitions, first \"%s\" %u: no old-count record for as long as `settle` "
            "says",
            tally->closed, topic, tally->partition);
    if (tally->reopened + tally->closed > 0)
        step_job_renew_documents(step, job);
}

void step_window_reports(struct step *step, const struct job *job, struct processor *processor)
{
    const struct task_report *report = &processor->observed.report;
    struct tally tally = {0};
    for (size_t i = 0; i < report->windows.count; i++) {
        const struct window_report *told = &report->windows.items[i];
        struct window *window = cluster_window(job, told->topic, told->partition);
        if (window == NULL || window->row.window.number != told->number)
            continue; /* it has not heard of the newest opening yet */
        count_records(window, told, report->epoch);
        judge(step, window, told, &tally);
    }
    say(step, job, processor, &tally);
}
