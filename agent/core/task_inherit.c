/*
 * What a processor inherits: records of its keys in partitions that another processor owns (D4).
 *
 * While a topic has its first partitions a key has one partition for ever, and a split moves whole
 * partitions. In a topic that has grown a key's older records lie in the ancestors of its
 * partition, and those may stay with the parent of the split. The new processor reads them up to a
 * bound: the parent's position in the commit that gives the other partitions away. Before it the
 * parent has applied every record of these keys, from there on it applies none: with that commit
 * they are not its own. So the bound is decided by Kafka, for ever, in the moment in which the
 * offsets change hands; it stands in the stamp of the partition of the processor's own number, in
 * that commit and in every one afterwards, and whoever finds it there says the same.
 *
 * A processor's ancestors are those of the partition of its own number: each of its partitions
 * descends from that, and where partitions were initially processors times a power of two the two
 * trees are one (D2). The nearest is the one that its own split left behind; the bounds of the
 * others are those of the processors on the way.
 *
 * Of an inherited partition only records of the own keys are applied; others move the position, and
 * count as met. It is never committed, and at the bound nothing more of it is read.
 */
#include "agent/core/task_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/hash/linhash.h"

bool task_is_inherited(const struct task_partition *partition)
{
    return !partition->owned && !partition->given;
}

bool task_is_inherited_whole(const struct task_partition *partition)
{
    return task_is_inherited(partition) && partition->bound != API_UNKNOWN &&
           partition->position >= partition->bound;
}

int64_t task_up_to_bound(const struct task_partition *partition, int64_t offset)
{
    if (task_is_inherited(partition) && partition->bound != API_UNKNOWN &&
        offset > partition->bound)
        return partition->bound;
    return offset;
}

void task_tell_bound(struct task *task, size_t index, int64_t bound, int64_t records)
{
    struct task_partition *partition = &task->partitions[index];

    if (!task_is_inherited(partition) || bound == API_UNKNOWN)
        return; /* what is known from elsewhere is so for ever */
    partition->bound = bound;
    partition->bound_records = records;
    partition->t1 = bound; /* what is followed ends there */
}

/* ---- the parent's side */

void task_forget_split_bounds(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++)
        task->partitions[i].split_bound = task->partitions[i].split_bound_records = API_UNKNOWN;
}

/* The partition of the new processor's number: where it begins among the partitions. */
static bool is_root_of_split(const struct task *task, const struct task_partition *partition)
{
    return partition->partition == task->desired.split.processor &&
           partition->parent != TASK_NO_PARENT;
}

void task_stamp_bound(const struct task *task, size_t index, struct stamp *stamp)
{
    const struct task_partition *partition = &task->partitions[index];
    const struct task_partition *parent;

    stamp->bound = stamp->bound_records = API_UNKNOWN;
    if (partition->parent == TASK_NO_PARENT)
        return;
    parent = &task->partitions[partition->parent];
    if (task->splitting && partition->leaving) {
        if (!is_root_of_split(task, partition))
            return;
        stamp->bound = parent->position; /* which the same commit makes its T1 */
        stamp->bound_records = parent->records;
    } else if (partition->partition == task->config.processor && task_is_inherited(parent)) {
        stamp->bound = parent->bound;
        stamp->bound_records = parent->bound_records;
    }
}

void task_take_split_bound(struct task *task, size_t index, int64_t bound, int64_t records)
{
    const struct task_partition *partition = &task->partitions[index];

    if (!is_root_of_split(task, partition))
        return;
    task->partitions[partition->parent].split_bound = bound;
    task->partitions[partition->parent].split_bound_records = records;
}

/* What was given before it is gone from the indexes, and nothing is known of its ancestors then. */
bool task_is_left_whole(const struct task *task, size_t index)
{
    const struct task_partition *at = &task->partitions[index];

    while (at->parent != TASK_NO_PARENT) {
        at = &task->partitions[at->parent];
        if (at->given)
            continue;
        if (task_is_inherited(at)
                ? !task_is_inherited_whole(at)
                : at->split_bound == API_UNKNOWN || at->position < at->split_bound)
            return false;
    }
    return at->partition < task->config.partitions_initial || task->config.partitions_initial == 0;
}

/* ---- the child's side */

static bool is_learned(const struct task_partition *partition)
{
    const struct task_window *window = &partition->window;

    if (partition->bound != API_UNKNOWN)
        return partition->position >= partition->bound;
    return task_is_settled(window) && partition->t1 >= window->fence &&
           partition->position >= window->fence;
}

bool task_ancestors_learned(const struct task *task)
{
    for (size_t i = 0; i < task->partition_count && task->config.stateful; i++) {
        if (task_is_inherited(&task->partitions[i]) && !is_learned(&task->partitions[i]))
            return false;
    }
    return true;
}

/* The own stamp on the partition of the own number, where it says a bound; or NULL. */
static const struct stamp *stamp_of_bound(const struct task *task, size_t index,
                                          const struct task_committed *committed)
{
    const struct task_partition *partition = &task->partitions[index], *parent;

    if (!partition->owned || partition->partition != task->config.processor ||
        partition->parent == TASK_NO_PARENT)
        return NULL;
    parent = &task->partitions[partition->parent];
    if (!task_is_inherited(parent) || !committed->stamped ||
        committed->stamp.processor != task->config.processor ||
        strcmp(committed->stamp.incarnation, task->config.incarnation) != 0)
        return NULL;
    return committed->stamp.bound >= parent->t0 ? &committed->stamp : NULL;
}

/* Without transactions a stamp may be one that was never decided; the coordinator's word counts. */
static bool contradicts(const struct task *task, int64_t told, int64_t stamped)
{
    return task->config.exactly_once && told != API_UNKNOWN && told != stamped;
}

bool task_take_stamped(struct task *task, const struct task_event *event,
                       struct task_actions *actions)
{
    char text[TASK_DETAIL_BYTES / 2];

    for (size_t i = 0; i < task->partition_count; i++) {
        const struct stamp *stamp = stamp_of_bound(task, i, &event->committed[i]);
        size_t parent = task->partitions[i].parent;

        if (stamp == NULL)
            continue;
        if (contradicts(task, task->partitions[parent].bound, stamp->bound)) {
            (void)snprintf(text, sizeof(text),
                           "its records are part of the state up to %lld as the coordinator says, "
                           "up to %lld as is committed: the coordinator's database or the "
                           "group's offsets were changed",
                           (long long)task->partitions[parent].bound, (long long)stamp->bound);
            task_set_problem_at(task, parent, "history_incomplete", text, event->now_ms);
            task_fail(task, actions, event->now_ms + TASK_RECHECK_MS, event->now_ms);
            return false;
        }
        if (task->partitions[parent].bound == API_UNKNOWN)
            task_tell_bound(task, parent, stamp->bound, stamp->bound_records);
    }
    return true;
}

/*
 * A part of the parent's state that was taken before anybody knew the bound, which was decided by
 * then. What the parent has met past it is of other keys, so the part is as good as at the bound,
 * unless the task itself has read on from there.
 */
static void rest_at_bound(struct task_partition *partition)
{
    if (partition->bound == API_UNKNOWN || partition->position <= partition->bound ||
        partition->met >= partition->bound)
        return;
    partition->position = partition->checkpointed = partition->freezing = partition->bound;
    partition->records = partition->bound_records;
}

bool task_take_inherited(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        if (!task_is_inherited(partition))
            continue;
        rest_at_bound(partition);
        partition->t1 = partition->bound;
        partition->records_owed = partition->bound_records;
        if (partition->bound != API_UNKNOWN &&
            (!task_is_compacted(task, i) || partition->records_owed != API_UNKNOWN))
            continue;
        task_set_problem_at(task, i, "history_incomplete",
                            partition->bound == API_UNKNOWN
                                ? "nobody knows up to where its records are part of the state"
                                : "the topic is compacted",
                            now_ms);
        task_fail(task, actions, now_ms + TASK_RECHECK_MS, now_ms);
        return false;
    }
    return true;
}

/* ---- keys */

/* Processors as this task knows of them: its own may be new, and so may be the one that a split has
 * made by its commit, before any document says so. */
static uint32_t owner_of(const struct task *task, const struct task_partition *partition,
                         const struct key_map *map, uint32_t place)
{
    struct key_map known = *map;

    if (known.processors.now <= task->config.processor)
        known.processors.now = task->config.processor + 1;
    if (partition->split_bound != API_UNKNOWN &&
        known.processors.now <= task->desired.split.processor)
        known.processors.now = task->desired.split.processor + 1;
    return key_processor(&known, place);
}

/*
 * Misrouted: no count of partitions puts the key here. Looked for from the first expansion on, in
 * every replay as well; before that any record was taken where it was. (What the owner meets
 * between that end and its hearing of the expansion is taken, too, and a replay would pass it: such
 * records count as wrong where they are, then and later.)
 */
enum task_verdict task_judge_key(const struct task *task, size_t index, const struct key_map *map,
                                 uint32_t place, int64_t offset)
{
    const struct task_partition *partition = &task->partitions[index];
    bool own = owner_of(task, partition, map, place) == task->config.processor;
    bool is_new = partition->partition >= task->config.partitions_initial;

    if (own)
        return TASK_VERDICT_APPLY;
    if (task_is_inherited(partition))
        return TASK_VERDICT_PASS;
    if (partition->window.told ? offset >= partition->window.first_end : is_new)
        return TASK_VERDICT_MISROUTED;
    return TASK_VERDICT_APPLY;
}
