/* Settle windows as readers see them. Owner thread. */
#include "common/mem.h"
#include "coordinator/publish_job.h"

static bool is_open(const struct window *window)
{
    return window->row.window.fence == API_UNKNOWN;
}

static int64_t last_met(const struct window *window)
{
    return window->more > 0 ? window->more_at : window->row.old_at;
}

/*
 * A lower bound: `settle` after the last old-count record, or after it was opened. The owner counts
 * on a clock of its own, from its start on, and must have committed what came until then (D4).
 * While nobody knows the keys' hash no owner can tell that there was none.
 */
static int64_t closes_at(const struct job *job, const struct window *window)
{
    int64_t quiet_at = window->row.opened_at;
    if (!is_open(window) || (job->row.partitioner != EFFECTIVE_PARTITIONER_MURMUR2 &&
                             job->row.partitioner != EFFECTIVE_PARTITIONER_CRC32))
        return API_UNKNOWN;
    if (last_met(window) > quiet_at)
        quiet_at = last_met(window);
    return quiet_at + job->row.spec.settle_ms;
}

void publish_fill_window(const struct job *job, uint32_t topic, struct partition_view *view)
{
    const struct window *window = cluster_window(job, topic, view->partition);
    view->window_at = view->fence = view->old_records = view->old_at = view->window_closes_at =
        API_UNKNOWN;
    if (window == NULL)
        return;
    view->window = mem_strdup(is_open(window) ? "open" : "closed");
    view->window_at = is_open(window) ? window->row.opened_at : window->row.closed_at;
    view->fence = window->row.window.fence;
    view->old_records = (int64_t)(window->row.old_records + window->more);
    view->old_at = last_met(window);
    view->window_stale = window->row.stale;
    view->window_closes_at = closes_at(job, window);
}

void publish_sum_windows(const struct job *job, struct job_status *status)
{
    status->old_at = status->windows_close_at = API_UNKNOWN;
    for (size_t i = 0; i < job->windows.count; i++) {
        const struct window *window = &job->windows.items[i];
        int64_t at = closes_at(job, window);
        status->windows_open += is_open(window);
        status->windows_stale += window->row.stale;
        status->old_records += window->row.old_records + window->more;
        if (last_met(window) > status->old_at)
            status->old_at = last_met(window);
        if (at != API_UNKNOWN &&
            (status->windows_close_at == API_UNKNOWN || at < status->windows_close_at))
            status->windows_close_at = at;
    }
}
