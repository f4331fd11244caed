/*
 * D3.6: a state is made by replay only of what its owner has met, all of it.
 *
 * Whether a topic's log still holds everything is asked in two ways. Before a replay from T0: is
 * the topic compacted? Then a learner does not begin. And after any replay, of a learner, a restart
 * or a repair: has it met as many records up to T1 as the stamp of T1 says that the owner had met?
 * The second needs no knowledge of what has been done to the topic in the meantime: a policy can be
 * changed back, and compaction may run between a checkpoint and a crash.
 *
 * Logic that rebuilds from the latest record of a key counts nothing: what compaction leaves is
 * enough for it, from T0. From T2 it is not when the state is older than the tombstones that were
 * there (S16): a key that was deleted in between, and whose tombstone is gone, would come back.
 */
#include "agent/core/task_internal.h"

#include <stdio.h>
#include <string.h>

bool task_counts(const struct task *task)
{
    return task->config.stateful && !task->config.history_retained && !task->rebuilds_from_latest;
}

void task_count_record(struct task *task, size_t index)
{
    task->partitions[index].met = task->partitions[index].position - 1;
    if (task->partitions[index].records != API_UNKNOWN)
        task->partitions[index].records++;
}

static int64_t records_of(const struct task *task, const struct task_event *event, size_t index)
{
    if (!task_counts(task))
        return API_UNKNOWN;
    if (event->offsets[index] == API_UNKNOWN)
        return 0;
    return event->records != NULL ? event->records[index] : API_UNKNOWN;
}

void task_take_positions(struct task *task, const struct task_event *event)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];
        int64_t offset = event->offsets[i];

        partition->position = offset == API_UNKNOWN ? partition->t0 : offset;
        partition->records = records_of(task, event, i);
        partition->checkpointed = partition->position;
        partition->limit = partition->position;
        partition->committing = API_UNKNOWN;
    }
}

/* There are records that the kept state lacks, and some of them may be gone without a trace. */
static bool may_lack_tombstones(const struct task *task, const struct task_partition *partition,
                                int64_t now_ms)
{
    return partition->position > partition->t0 &&
           partition->position < task_up_to_bound(partition, partition->range.end) &&
           partition->policy.compacted &&
           (task->state_at_ms == TASK_NEVER ||
            now_ms - task->state_at_ms >= partition->policy.delete_retention_ms);
}

bool task_judge_age(struct task *task, int64_t now_ms)
{
    char text[TASK_DETAIL_BYTES / 2];

    for (size_t i = 0; i < task->partition_count; i++) {
        const struct task_partition *partition = &task->partitions[i];

        if (!task->config.stateful || !task->rebuilds_from_latest ||
            !may_lack_tombstones(task, partition, now_ms))
            continue;
        if (task->state_at_ms == TASK_NEVER)
            (void)snprintf(text, sizeof(text), "nobody knows when the state was written");
        else
            (void)snprintf(text, sizeof(text), "the state was written %lld s ago",
                           (long long)(now_ms - task->state_at_ms) / 1000);
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
                       ", the topic is compacted and keeps tombstones for %lld s: deleted keys "
                       "could come back",
                       (long long)partition->policy.delete_retention_ms / 1000);
        task_set_problem_at(task, i, "state_set_aside", text, now_ms);
        return true;
    }
    return false;
}

bool task_wants_policy(const struct task *task)
{
    if (task->phase.state != TASK_PHASE_RANGES)
        return false;
    if (task->config.stateful && task->rebuilds_from_latest)
        return task->kept;
    if (!task_counts(task))
        return false;
    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].position == task->partitions[i].t0)
            return true;
    }
    return false;
}

bool task_is_compacted(const struct task *task, size_t index)
{
    const struct task_partition *partition = &task->partitions[index];

    return task_counts(task) && partition->policy.compacted &&
           partition->position == partition->t0 && partition->t1 > partition->t0;
}

bool task_judge_replay(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    char text[TASK_DETAIL_BYTES / 2];

    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        if (partition->given || !task_counts(task) || partition->records_owed == API_UNKNOWN)
            continue;
        if (partition->records == API_UNKNOWN) /* of a state from before there were counts */
            partition->records = partition->records_owed;
        if (partition->records == partition->records_owed)
            continue;
        (void)snprintf(text, sizeof(text),
                       "the state is made of %lld records, its owner had met %lld up to T1: the "
                       "topic was compacted, or changed",
                       (long long)partition->records, (long long)partition->records_owed);
        task_set_problem_at(task, i, "history_incomplete", text, now_ms);
        task_fail(task, actions, TASK_NEVER, now_ms); /* it would come out the same */
        return false;
    }
    return true;
}

/*
 * The stable end is asked for before the end, and records come in between: an open transaction is
 * one that holds the same stable end at two looks in a row. What one look shows can be either.
 */
void task_find_pinned(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];
        const struct task_range *range = &partition->range;

        if (range->stable_end >= range->end)
            partition->pin = TASK_PIN_NONE;
        else if (partition->pin == TASK_PIN_UNKNOWN)
            partition->pin = TASK_PIN_PERHAPS;
        else
            partition->pin =
                partition->pinned_at == range->stable_end ? TASK_PIN_HELD : TASK_PIN_NONE;
        partition->pinned_at = range->stable_end < range->end ? range->stable_end : API_UNKNOWN;
    }
}

void task_unpin(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        task->partitions[i].pin = TASK_PIN_UNKNOWN;
        task->partitions[i].pinned_at = API_UNKNOWN;
    }
}

bool task_is_pinned(const struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].owned && task->partitions[i].pin >= TASK_PIN_PERHAPS)
            return true;
    }
    return false;
}

bool task_awaits_ranges(const struct task *task)
{
    return task->phase.state == TASK_PHASE_LEARN && task_is_pinned(task);
}
