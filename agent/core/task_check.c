/* The invariants of a task, for tests and the simulator. */
#include <stddef.h>

#include "agent/core/task.h"

static bool is_between(const struct task *task, enum task_phase first, enum task_phase last)
{
    return task->phase.state >= (int)first && task->phase.state <= (int)last;
}

/* A learner's position may be past an older T1 that it is told; it goes no further then. */
static const char *check_learner(const struct task_partition *partition)
{
    int64_t most = partition->position > partition->t1 ? partition->position : partition->t1;

    return partition->limit > most ? "a learner may pass the T1 that it follows" : NULL;
}

static const char *check_order(const struct task_partition *partition)
{
    if (partition->position < partition->t0)
        return "a position is below the origin";
    if (partition->checkpointed > partition->position)
        return "the checkpoint is ahead of the state";
    if (partition->position > partition->limit)
        return "a position is past its limit";
    if (partition->parent != TASK_NO_PARENT && partition->position > partition->clear)
        return "a partition is ahead of what its ancestors allow";
    return NULL;
}

/* Of a partition in S1, from REPLAY until everything is closed. */
static const char *check_owned(const struct task *task, const struct task_partition *partition)
{
    if (partition->t1 == API_UNKNOWN)
        return "T1 is not known";
    if (partition->checkpointed > partition->t1)
        return "T2 at rest is past T1";
    if (task->checkpoint_running && partition->freezing > partition->t1)
        return "a checkpoint is being made past T1";
    if (task->checkpoint_running && partition->freezing > partition->position)
        return "a checkpoint is being made of what was not applied";
    if (task->phase.state == TASK_PHASE_REPLAY && partition->limit > partition->t1)
        return "a replay may pass T1";
    if (is_between(task, TASK_PHASE_STAMP, TASK_PHASE_RELEASE) &&
        partition->position < partition->t1)
        return "a position with output is below T1";
    if (task->phase.state == TASK_PHASE_CHECKPOINT && partition->position > partition->t1)
        return "released with something not committed";
    if (task->phase.state == TASK_PHASE_PAUSED && partition->position != partition->t1)
        return "paused with something not committed";
    if (task->phase.state == TASK_PHASE_PAUSED && partition->limit != partition->position)
        return "paused and reading";
    return NULL;
}

static const char *check_partition(const struct task *task, const struct task_partition *partition)
{
    const char *broken = check_order(partition);
    bool committing = task->waiting && task->awaited == TASK_ACTION_COMMIT;

    if (broken != NULL)
        return broken;
    if (partition->given && (partition->owned || partition->limit != partition->position))
        return "what was given away is still worked on";
    if (partition->committing != API_UNKNOWN && !committing)
        return "an offset is being committed while no commit is under way";
    if (committing && partition->owned && partition->committing == API_UNKNOWN &&
        partition->position != partition->t1)
        return "a position has been left out of the commit under way";
    if (partition->committing != API_UNKNOWN && partition->committing != partition->position)
        return "the position moved during a commit";
    if (task->phase.state == TASK_PHASE_LEARN)
        return check_learner(partition);
    if (task->epoch_working == 0) /* a learner on its way out: bounded by what it was told then */
        return NULL;
    if (partition->owned && is_between(task, TASK_PHASE_REPLAY, TASK_PHASE_CHECKPOINT))
        return check_owned(task, partition);
    return NULL;
}

static bool is_asking_rightly(const struct task *task)
{
    static const enum task_phase phases[][2] = {
        [TASK_ACTION_OPEN_STORE] = {TASK_PHASE_OPEN, TASK_PHASE_OPEN},
        [TASK_ACTION_QUERY_RANGES] = {TASK_PHASE_RANGES, TASK_PHASE_RANGES},
        [TASK_ACTION_SEED] = {TASK_PHASE_SEED, TASK_PHASE_SEED},
        [TASK_ACTION_VERIFY] = {TASK_PHASE_VERIFY, TASK_PHASE_VERIFY},
        [TASK_ACTION_OPEN_PRODUCER] = {TASK_PHASE_PRODUCER, TASK_PHASE_PRODUCER},
        [TASK_ACTION_DROP_STATE] = {TASK_PHASE_PRODUCER, TASK_PHASE_PRODUCER},
        [TASK_ACTION_COMMIT] = {TASK_PHASE_STAMP, TASK_PHASE_RELEASE},
        [TASK_ACTION_CLOSE] = {TASK_PHASE_CLOSED, TASK_PHASE_FAILED},
    };

    if (!task->waiting)
        return true;
    if (task->awaited == TASK_ACTION_FETCH_COMMITTED)
        return task->phase.state == TASK_PHASE_COMMITTED || task->phase.state == TASK_PHASE_ACTIVE;
    return is_between(task, phases[task->awaited][0], phases[task->awaited][1]);
}

static const char *check_role(const struct task *task)
{
    if (task->desired.learner && is_between(task, TASK_PHASE_PRODUCER, TASK_PHASE_RELEASE))
        return "a learner has begun an activation";
    if (task->phase.state == TASK_PHASE_SEED && task->assigned)
        return "seeding and reading";
    if (task->caught_up && task->phase.state != TASK_PHASE_LEARN)
        return "caught up but not learning";
    if (task->releasing && !is_between(task, TASK_PHASE_RELEASE, TASK_PHASE_CHECKPOINT))
        return "releasing in a phase that does not";
    if (task->released && !is_between(task, TASK_PHASE_CHECKPOINT, TASK_PHASE_CLOSED))
        return "released but at work";
    if (task->rest_until_ms != TASK_NEVER &&
        (!task->released || task->phase.state != TASK_PHASE_CHECKPOINT))
        return "resting without having released";
    if (task->splitting && (!task->waiting || task->awaited != TASK_ACTION_COMMIT))
        return "a split without its commit";
    if (task->released && task->epoch_working == 0)
        return "released without an epoch";
    return NULL;
}

const char *task_check(const struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        const char *broken = check_partition(task, &task->partitions[i]);

        if (broken != NULL)
            return broken;
    }
    if (check_role(task) != NULL)
        return check_role(task);
    if (!is_asking_rightly(task))
        return "an answer is awaited that does not belong to the phase";
    if (task->phase.state == TASK_PHASE_ACTIVE && task->epoch_working == 0)
        return "active without an epoch";
    if (is_between(task, TASK_PHASE_FENCED, TASK_PHASE_FAILED) && task->code[0] == '\0')
        return "stopped without a problem";
    return NULL;
}
