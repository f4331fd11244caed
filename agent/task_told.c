/* What the coordinator says about the partitions of one task. */
#include <stdlib.h>

#include "agent/task_private.h"
#include "common/clock.h"

/* The offsets of the task's partitions out of a list; what it does not name is unknown. */
void task_told_offsets(const struct task_thread *thread, const struct input_offset *items,
                       size_t count, int64_t *ret_offsets)
{
    size_t next = 0; /* behind the last one found: they come in the same order */

    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        ret_offsets[i] = API_UNKNOWN;
        for (size_t k = 0; k < count && ret_offsets[i] == API_UNKNOWN; k++) {
            const struct input_offset *offset = &items[(next + k) % count];

            if (offset->topic != partition->topic || offset->partition != partition->partition)
                continue;
            ret_offsets[i] = offset->offset;
            next = (next + k + 1) % count;
        }
    }
}

/* NULL: it was not paused. Good until the next call. */
const int64_t *task_told_rested(struct task_thread *thread, const struct document_task *task)
{
    if (task->paused_t1.count == 0)
        return NULL;
    task_told_offsets(thread, task->paused_t1.items, task->paused_t1.count, thread->rested);
    return thread->rested;
}

/* NULL: nobody has chosen anything. Good until the next call. */
const struct task_choice *task_told_chosen(struct task_thread *thread,
                                           const struct document_task *task)
{
    if (task->chosen.count == 0)
        return NULL;
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        thread->chosen[i] = (struct task_choice){API_UNKNOWN, API_UNKNOWN};
        for (size_t k = 0; k < task->chosen.count; k++) {
            const struct chosen_offset *chosen = &task->chosen.items[k];

            if (chosen->topic == partition->topic && chosen->partition == partition->partition)
                thread->chosen[i] = (struct task_choice){chosen->found, chosen->offset};
        }
    }
    return thread->chosen;
}

/* Those of thread->desired, which are in the order of partitions. */
void task_told_skips(struct task_thread *thread)
{
    const struct input_offset *items = thread->desired.skips.items;

    for (size_t i = 0; i < thread->core.partition_count; i++) {
        struct task_partition *partition = &thread->core.partitions[i];

        partition->skips = NULL;
        partition->skip_count = 0;
        for (size_t k = 0; k < thread->desired.skips.count; k++) {
            if (items[k].topic != partition->topic || items[k].partition != partition->partition)
                continue;
            if (partition->skips == NULL)
                partition->skips = &items[k];
            partition->skip_count++;
        }
    }
}

bool task_told_same_skips(const struct document_task *a, const struct document_task *b)
{
    if (a->skips.count != b->skips.count)
        return false;
    for (size_t i = 0; i < a->skips.count; i++) {
        const struct input_offset *left = &a->skips.items[i], *right = &b->skips.items[i];

        if (left->topic != right->topic || left->partition != right->partition ||
            left->offset != right->offset)
            return false;
    }
    return true;
}

/* ---- partitions */

int64_t task_told_origin(const struct document_job *job, uint32_t topic, uint32_t partition)
{
    for (size_t i = 0; i < job->origins.count; i++) {
        if (job->origins.items[i].topic == topic && job->origins.items[i].partition == partition)
            return job->origins.items[i].offset;
    }
    return API_UNKNOWN;
}

bool task_told_holds(const struct uint_list *list, uint32_t number)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i] == number)
            return true;
    }
    return false;
}

/* ---- where keys belong */

bool task_told_map(const struct document_job *job, uint32_t processors, struct key_map *ret_map)
{
    *ret_map = (struct key_map){
        .hash =
            job->partitioner == EFFECTIVE_PARTITIONER_MURMUR2 ? KEY_HASH_MURMUR2 : KEY_HASH_CRC32,
        .partitions = {.initial = job->partitions_initial, .now = job->partitions},
        .processors = {.initial = job->processors_initial, .now = processors},
    };
    return job->partitioner == EFFECTIVE_PARTITIONER_MURMUR2 ||
           job->partitioner == EFFECTIVE_PARTITIONER_CRC32;
}

/* ---- ancestors that others own */

/* Those of thread->desired. */
void task_told_bounds(struct task_thread *thread)
{
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];
        int64_t bound = API_UNKNOWN, records = API_UNKNOWN;

        for (size_t k = 0; k < thread->desired.bounds.count; k++) {
            const struct ancestor_bound *told = &thread->desired.bounds.items[k];

            if (told->topic != partition->topic || told->partition != partition->partition)
                continue;
            bound = told->offset;
            records = told->records;
        }
        task_tell_bound(&thread->core, i, bound, records);
    }
}

/* ---- settle windows */

int64_t task_told_settle_ms(const struct document_job *job)
{
    return job->partitioner == EFFECTIVE_PARTITIONER_MURMUR2 ||
                   job->partitioner == EFFECTIVE_PARTITIONER_CRC32
               ? job->spec.settle_ms
               : INT64_MAX;
}

bool task_told_holds_descendants(const struct document_job *job)
{
    return job->spec.expansion_order == EXPANSION_ORDER_HOLD && job->windows.count > 0 &&
           task_told_settle_ms(job) != INT64_MAX;
}

static int windows_compare(const void *a, const void *b)
{
    const struct settle_window *left = a, *right = b;

    if (left->topic != right->topic)
        return left->topic < right->topic ? -1 : 1;
    return (left->partition > right->partition) - (left->partition < right->partition);
}

/* The document has them in the order of topics and partitions. */
void task_told_windows(struct task_thread *thread)
{
    const struct document_job *job = &thread->job;
    int64_t now_ms = clock_mono_ms();

    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];
        struct settle_window like = {.topic = partition->topic, .partition = partition->partition};
        struct task_window told = {.end = API_UNKNOWN, .fence = API_UNKNOWN};
        const struct settle_window *window =
            job->windows.count == 0 ? NULL
                                    : bsearch(&like, job->windows.items, job->windows.count,
                                              sizeof(like), windows_compare);

        if (window != NULL)
            told = (struct task_window){.told = true,
                                        .number = window->number,
                                        .first_end = window->first_end,
                                        .end = window->end,
                                        .fence = window->fence};
        task_tell_window(&thread->core, i, &told, now_ms);
        if (told.fence != API_UNKNOWN)
            HOOK_HERE(thread, "window_closed");
    }
}
