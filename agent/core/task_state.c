/* What others see of a task, and what it may do. */
#include "agent/core/task_internal.h"

enum task_state task_state(const struct task *task)
{
    switch ((enum task_phase)task->phase.state) {
    case TASK_PHASE_OPEN:
    case TASK_PHASE_RANGES:
    case TASK_PHASE_VERIFY:
        return TASK_STATE_OPENING;
    case TASK_PHASE_SEED:
        return TASK_STATE_SEEDING;
    case TASK_PHASE_LEARN:
        return task->caught_up ? TASK_STATE_CAUGHT_UP : TASK_STATE_LEARNING;
    case TASK_PHASE_COMMITTED:
    case TASK_PHASE_REPLAY:
        return task_is_trailing(task) ? TASK_STATE_PAUSED : TASK_STATE_REPLAYING;
    case TASK_PHASE_PRODUCER:
    case TASK_PHASE_STAMP:
        return TASK_STATE_REPLAYING;
    case TASK_PHASE_ACTIVE:
    case TASK_PHASE_REINIT:
        return TASK_STATE_ACTIVE;
    case TASK_PHASE_PAUSED:
        return TASK_STATE_PAUSED;
    case TASK_PHASE_RELEASE:
    case TASK_PHASE_CHECKPOINT:
        return TASK_STATE_RELEASING;
    case TASK_PHASE_FENCED:
        return TASK_STATE_FENCED;
    case TASK_PHASE_FAILED:
        return TASK_STATE_FAILED;
    case TASK_PHASE_CLOSED:
    case TASK_PHASE_COUNT:
        break;
    }
    return task->fenced ? TASK_STATE_FENCED : TASK_STATE_CLOSED;
}

uint64_t task_epoch(const struct task *task)
{
    bool opening = task->phase.state <= TASK_PHASE_VERIFY || task->phase.state == TASK_PHASE_FAILED;
    uint64_t epoch = opening ? task->epoch_tried : task->epoch_working;

    return epoch != 0 ? epoch : task->desired.epoch;
}

bool task_may_read(const struct task *task)
{
    enum task_phase phase = (enum task_phase)task->phase.state;

    return task->assigned && !task->waiting && !task->halting &&
           !(task->full && task->checkpoint_running) &&
           (phase == TASK_PHASE_LEARN || phase == TASK_PHASE_REPLAY || phase == TASK_PHASE_STAMP ||
            phase == TASK_PHASE_ACTIVE);
}

bool task_may_output(const struct task *task)
{
    return task->phase.state == TASK_PHASE_STAMP || task->phase.state == TASK_PHASE_ACTIVE;
}
