/* Partitions that leave a running task (agent/task_split.c). */
#include "tests/sim/agent_model.h"
#include "tests/sim/world.h"

static void move(struct sim_task *task, size_t to, size_t from)
{
    task->next[to] = task->next[from];
    task->offsets[to] = task->offsets[from];
    task->records[to] = task->records[from];
    task->ranges[to] = task->ranges[from];
    task->committed[to] = task->committed[from];
    task->rested[to] = task->rested[from];
    task->followed[to] = task->followed[from];
    task->early[to] = task->early[from];
}

/* Events that wait for their turn: one that is of a partition which has gone means nothing. */
static void move_events(struct sim_task *task, const size_t *moved)
{
    for (size_t i = 0; i < task->event_count; i++) {
        struct task_event *event = &task->events[(task->event_next + i) % SIM_EVENTS_MAX];

        if (event->kind != TASK_EVENT_POSITION_LOST && event->kind != TASK_EVENT_RECORD_REFUSED)
            continue;
        if (moved[event->index] == SIZE_MAX)
            *event = (struct task_event){.kind = TASK_EVENT_TICK};
        else
            event->index = moved[event->index];
    }
}

void agent_forget(struct world *world, struct sim_task *task)
{
    size_t moved[KAFKA_PARTITIONS_MAX], kept = 0;

    for (size_t i = 0;
         i < task->core.partition_count && world->config.mutation == MUTATION_SPLIT_KEPT; i++) {
        if (!task->core.partitions[i].given)
            continue;
        task->core.partitions[i].limit = TASK_UNLIMITED;
        task->core.partitions[i].owned = true;
        task->core.partitions[i].given = false;
    }
    for (size_t i = 0; i < task->core.partition_count; i++) {
        moved[i] = task->core.partitions[i].given ? SIZE_MAX : kept;
        if (!task->core.partitions[i].given)
            move(task, kept++, i);
    }
    world->tally->of[TALLY_SPLIT_FOUND] += task->core.phase.state != TASK_PHASE_ACTIVE;
    move_events(task, moved);
    task_forget(&task->core);
}

void agent_take_split(const struct document_task *told, struct sim_task *task)
{
    task->inbox.split =
        (struct task_split){told->split_handoff, told->split_processor, told->split_epoch};
    task->inbox.leaving = task->inbox.owned = task->inbox.reads = 0;
    for (size_t i = 0; i < told->read.count; i++)
        task->inbox.reads |= UINT32_C(1) << told->read.items[i];
    for (size_t i = 0; i < told->split_partitions.count; i++)
        task->inbox.leaving |= UINT32_C(1) << told->split_partitions.items[i];
    for (size_t i = 0; i < told->owned.count; i++)
        task->inbox.owned |= UINT32_C(1) << told->owned.items[i];
}

void agent_use_split(const struct world *world, struct sim_task *task, struct task_desired *desired)
{
    bool untold = world->config.mutation == MUTATION_SPLIT_UNTOLD &&
                  task->core.phase.state != TASK_PHASE_ACTIVE;

    if (!desired->learner && !untold)
        desired->split = task->inbox.split;
    for (size_t i = 0; i < task->core.partition_count; i++)
        task->core.partitions[i].leaving =
            (task->inbox.leaving >> agent_partition(task, i) & 1) != 0;
}

static uint32_t held(const struct sim_task *task)
{
    uint32_t has = 0;

    for (size_t i = 0; i < task->core.partition_count; i++)
        has |= UINT32_C(1) << agent_partition(task, i);
    return has;
}

uint32_t agent_told_sets(const struct sim_task *task)
{
    bool gone = task->core.split_done != 0 && task->core.split_done == task->inbox.split.handoff;

    return gone ? task->inbox.reads & ~task->inbox.leaving : task->inbox.reads;
}

bool agent_has_same_sets(const struct sim_task *task)
{
    return held(task) == agent_told_sets(task);
}

bool agent_has_smaller_sets(const struct sim_task *task)
{
    return !agent_has_same_sets(task) && (held(task) & ~agent_told_sets(task)) == 0;
}
