/* The settle windows of a job's partitions. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/rows.h"

static int compare(const struct settle_window *window, uint32_t topic, uint32_t partition)
{
    if (window->topic != topic)
        return window->topic < topic ? -1 : 1;
    return (window->partition > partition) - (window->partition < partition);
}

static bool find(const struct job *job, uint32_t topic, uint32_t partition, size_t *ret_index)
{
    size_t low = 0, high = job->windows.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&job->windows.items[middle].row.window, topic, partition) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_index = low;
    return low < job->windows.count &&
           compare(&job->windows.items[low].row.window, topic, partition) == 0;
}

struct window *cluster_window(const struct job *job, uint32_t topic, uint32_t partition)
{
    size_t index;
    return find(job, topic, partition, &index) ? &job->windows.items[index] : NULL;
}

void cluster_apply_window(struct cluster *cluster, struct window_row *row)
{
    size_t index;
    struct job *job = cluster_job(cluster, row->job);
    if (find(job, row->window.topic, row->window.partition, &index)) {
        rows_finish_window(&job->windows.items[index].row);
    } else {
        job->windows.items = mem_grow(job->windows.items, job->windows.count,
                                      &job->windows.capacity, sizeof(struct window));
        memmove(&job->windows.items[index + 1], &job->windows.items[index],
                (job->windows.count - index) * sizeof(struct window));
        job->windows.items[index] = (struct window){0};
        job->windows.count++;
    }
    job->windows.items[index].row = *row;
    *row = (struct window_row){0};
}

struct settle_window *cluster_list_windows(const struct job *job)
{
    struct settle_window *items = mem_calloc(job->windows.count, sizeof(*items));
    for (size_t i = 0; i < job->windows.count; i++)
        items[i] = job->windows.items[i].row.window;
    return items;
}

const char *cluster_check_windows(const struct job *job)
{
    for (size_t i = 0; i < job->windows.count; i++) {
        const struct window_row *row = &job->windows.items[i].row;
        const struct settle_window *window = &row->window;
        if (window->topic >= job->row.spec.inputs.count ||
            window->partition >= job->row.partitions ||
            job->row.partitions == job->row.partitions_initial)
            return "a settle window of a partition that can have none";
        if (window->number == 0 || window->first_end < 0 || window->end < window->first_end ||
            (window->fence != API_UNKNOWN && window->fence < window->end))
            return "a settle window with offsets that can not be";
        if (i > 0 &&
            compare(&job->windows.items[i - 1].row.window, window->topic, window->partition) >= 0)
            return "settle windows are not in order, or one is there twice";
    }
    return NULL;
}

void cluster_finish_windows(struct job *job)
{
    for (size_t i = 0; i < job->windows.count; i++)
        rows_finish_window(&job->windows.items[i].row);
    free(job->windows.items);
}

/* ---- rows */

void rows_copy_window(struct window_row *ret_copy, const struct window_row *row)
{
    *ret_copy = *row;
    ret_copy->job = rows_text_copy(row->job);
}

void rows_finish_window(struct window_row *row)
{
    free(row->job);
    *row = (struct window_row){0};
}

bool rows_window_equal(const struct window_row *a, const struct window_row *b)
{
    return rows_text_equal(a->job, b->job) && a->window.topic == b->window.topic &&
           a->window.partition == b->window.partition && a->window.number == b->window.number &&
           a->window.first_end == b->window.first_end && a->window.end == b->window.end &&
           a->window.fence == b->window.fence && a->opened_at == b->opened_at &&
           a->closed_at == b->closed_at && a->old_records == b->old_records &&
           a->old_at == b->old_at && a->stale == b->stale;
}
