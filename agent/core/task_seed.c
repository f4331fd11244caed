/*
 * Seeding (D3.6, D8): the state comes from another copy, its last checkpoint as of T2, and only
 * what follows is replayed.
 *
 * It is begun where the log was looked at, and for one of two reasons. *Needed*: what the topics
 * hold is not enough for a replay, so without a copy the task can not go on. *Faster*: there is no
 * local state, and much to replay. Local state from which a replay can start always wins: it is
 * fresher than having none, and nobody is asked for anything. After some
 * failures one that is only faster is given up and the replay begins; where it is needed the task
 * halts with what is wrong with the log, as without a copy, and begins anew some time later.
 *
 * What comes is treated as kept state: its positions are looked up in the log and its fingerprints
 * verified, so a copy that is itself too old, or of a topic that was recreated, is found out here.
 */
#include "agent/core/task_internal.h"

#include <string.h>

#define TRIES_MAX        3 /* of a seed that is only faster */
#define TRIES_NEEDED_MAX 8 /* longer than an agent is called alive without being heard */

/* The topic is compacted, or was: at T0 a replay finds less than there was. */
static bool is_left_short(const struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        const struct task_partition *partition = &task->partitions[i];

        if (task_counts(task) && partition->policy.compacted &&
            partition->position == partition->t0 &&
            task_up_to_bound(partition, partition->range.end) > partition->t0)
            return true;
    }
    return false;
}

/* Offsets, of which markers and gaps are some; without local state T2 is T0. */
static int64_t replay_of(const struct task *task)
{
    int64_t sum = 0;

    for (size_t i = 0; i < task->partition_count; i++) {
        const struct task_partition *partition = &task->partitions[i];
        int64_t ahead =
            task_up_to_bound(partition, partition->range.stable_end) - partition->position;

        if (ahead > 0 && __builtin_add_overflow(sum, ahead, &sum))
            return INT64_MAX;
    }
    return sum;
}

/* `lost`: the problem of the log, NULL when there is none. */
static bool wants_seed(const struct task *task, const char *lost, bool *ret_needed)
{
    *ret_needed = false;
    if (task->desired.seed == TASK_SEED_NONE || !task->config.stateful || task->seed_given_up)
        return false;
    /* Nothing shorter than the log is mended by a copy. */
    if (lost != NULL && strcmp(lost, "topic_truncated") == 0)
        return false;
    *ret_needed = lost != NULL || is_left_short(task);
    return *ret_needed || (!task->kept && replay_of(task) >= (task->desired.seed == TASK_SEED_FIRST
                                                                  ? 1
                                                                  : task->config.seed_records_min));
}

bool task_seed(struct task *task, struct task_actions *actions, const char *lost, int64_t now_ms)
{
    bool needed;

    if (!wants_seed(task, lost, &needed))
        return false;
    task->seed_needed = needed;
    task->retry_ms = now_ms;
    if (task->seeded) { /* what came a moment ago was already too old */
        task_back_off(task, now_ms);
        if (++task->seed_failures >= TRIES_NEEDED_MAX) {
            task->seed_given_up = true;
            return false;
        }
    }
    task_enter(task, actions, TASK_PHASE_SEED, now_ms);
    return true;
}

void task_seeded(struct task *task, const struct task_event *event, struct task_actions *actions)
{
    task_clear_problem_of(task, "seeding_failed");
    task->seeded = true;
    task->retry_ms = event->now_ms;
    task_store_opened(task, event, actions);
}

void task_seed_failed(struct task *task, const struct task_event *event,
                      struct task_actions *actions)
{
    task_set_problem(task, "seeding_failed", event->detail, event->now_ms);
    task->seed_failures++;
    task_back_off(task, event->now_ms);
    if (task->desired.seed != TASK_SEED_NONE &&
        task->seed_failures < (task->seed_needed ? TRIES_NEEDED_MAX : TRIES_MAX))
        return;
    /* By replay, then; when the log does not allow that the task halts, and looks again later. */
    task->seed_given_up = true;
    task->retry_ms = event->now_ms;
    task_enter(task, actions, TASK_PHASE_RANGES, event->now_ms);
}

void task_seed_desired(struct task *task, struct task_actions *actions, enum task_seed before,
                       int64_t now_ms)
{
    enum task_seed seed = task->desired.seed;
    bool lost =
        strcmp(task->code, "history_incomplete") == 0 || strcmp(task->code, "history_lost") == 0;

    if (task->phase.state == TASK_PHASE_SEED && seed == TASK_SEED_NONE) {
        if (task->waiting)
            task_push(actions, TASK_ACTION_CANCEL_SEED);
        else
            task->retry_ms = now_ms;
    } else if (task->phase.state == TASK_PHASE_FAILED && lost && before == TASK_SEED_NONE &&
               seed != TASK_SEED_NONE) {
        task->retry_ms = now_ms; /* now there is a copy */
    }
}

void task_seed_stop(struct task *task, struct task_actions *actions)
{
    if (task->phase.state == TASK_PHASE_SEED && task->waiting)
        task_push(actions, TASK_ACTION_CANCEL_SEED);
}
