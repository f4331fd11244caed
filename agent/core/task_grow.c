/*
 * More partitions for a task that works, without opening it anew: what it has is read on as if
 * nothing had happened (D3.9). New ones stand behind the others, so that an index keeps its
 * meaning.
 */
#include "agent/core/task_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash/linhash.h"
#include "common/mem.h"

/* ---- who descends from whom */

struct place {
    uint32_t topic, partition;
    size_t index;
};

static int places_compare(const void *a, const void *b)
{
    const struct place *left = a, *right = b;

    if (left->topic != right->topic)
        return left->topic < right->topic ? -1 : 1;
    return (left->partition > right->partition) - (left->partition < right->partition);
}

static bool is_new(const struct task *task, const struct task_partition *partition)
{
    return task->config.partitions_initial != 0 &&
           partition->partition >= task->config.partitions_initial;
}

/* An ancestor that the task does not read has no say: only S1 alone could lack one. */
static size_t find_parent(const struct task *task, const struct place *places,
                          const struct task_partition *partition)
{
    struct place wanted = {
        .topic = partition->topic,
        .partition = linhash_parent(partition->partition, task->config.partitions_initial)};
    const struct place *found =
        bsearch(&wanted, places, task->partition_count, sizeof(*places), places_compare);

    return found == NULL ? TASK_NO_PARENT : found->index;
}

void task_find_parents(struct task *task)
{
    struct place *places = mem_calloc(task->partition_count, sizeof(*places));

    for (size_t i = 0; i < task->partition_count; i++)
        places[i] = (struct place){task->partitions[i].topic, task->partitions[i].partition, i};
    qsort(places, task->partition_count, sizeof(*places), places_compare);
    task->has_descendants = false;
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        partition->parent =
            is_new(task, partition) ? find_parent(task, places, partition) : TASK_NO_PARENT;
        task->has_descendants = task->has_descendants || partition->parent != TASK_NO_PARENT;
    }
    free(places);
}

/* ---- more of them */

void task_init_partition(struct task_partition *partition)
{
    partition->t1 = partition->t1_asked = API_UNKNOWN;
    partition->position = partition->t0;
    partition->met = INT64_MAX;
    partition->checkpointed = partition->t0;
    partition->freezing = partition->t0;
    partition->limit = partition->t0;
    partition->clear = partition->t0;
    partition->gate = API_UNKNOWN;
    partition->committing = API_UNKNOWN;
    partition->range = (struct task_range){API_UNKNOWN, API_UNKNOWN, API_UNKNOWN};
    partition->records = partition->records_owed = API_UNKNOWN;
    partition->pin = TASK_PIN_UNKNOWN;
    partition->pinned_at = API_UNKNOWN;
    partition->rested = API_UNKNOWN;
    partition->chosen = (struct task_choice){API_UNKNOWN, API_UNKNOWN};
    partition->bound = partition->bound_records = API_UNKNOWN;
    partition->split_bound = partition->split_bound_records = API_UNKNOWN;
    partition->strange = false;
    partition->found = API_UNKNOWN;
    partition->window = (struct task_window){.end = API_UNKNOWN,
                                             .fence = API_UNKNOWN,
                                             .mark = API_UNKNOWN,
                                             .old_at = API_UNKNOWN,
                                             .old_offset = API_UNKNOWN};
}

bool task_may_grow(const struct task *task, const struct task_desired *desired)
{
    if (task->waiting || task->stopping || task->halting || desired->release || desired->paused)
        return false;
    if (task->phase.state == TASK_PHASE_LEARN)
        return task->desired.learner && desired->learner;
    return task->phase.state == TASK_PHASE_ACTIVE && !desired->learner &&
           desired->epoch == task->epoch_working && task->desired.epoch == task->epoch_working;
}

void task_grow(struct task *task, const struct task_partition *added, size_t count, int64_t now_ms)
{
    size_t before = task->partition_count;
    bool active = task->phase.state == TASK_PHASE_ACTIVE;

    assert(active || task->phase.state == TASK_PHASE_LEARN);
    assert(!task->waiting);
    task->partitions = mem_realloc(task->partitions, before + count, sizeof(*task->partitions));
    task->partition_count = before + count;
    for (size_t i = before; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        *partition = added[i - before];
        task_init_partition(partition);
        partition->records = task_counts(task) ? 0 : API_UNKNOWN;
        if (active && partition->owned) {
            /* The coordinator has committed it before it told anybody of the partition, and under
             * this epoch nobody else can have read it since. */
            partition->t1 = partition->t0;
            partition->limit = TASK_UNLIMITED;
        }
    }
    task_find_parents(task);
    if (active) { /* the own stamp on them, whether there is anything to read or not */
        task->commit_all = true;
        task->commit_due_ms = now_ms;
    } else {
        task->caught_up = false;
        task->followed_ms = TASK_NEVER; /* the vector that was told lacks them */
    }
}
