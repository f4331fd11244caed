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

void agent_forget(struct sim_task *task)
{
    size_t moved[KAFKA_PARTITIONS_MAX], kept = 0;

    for (size_t i = 0; i < task->core.partition_count; i++) {
        moved[i] = task->core.partitions[i].given ? SIZE_MAX : kept;
        if (!task->core.partitions[i].given)
            move(task, kept++, i);
    }
    move_events(task, moved);
    task_forget(&task->core);
}
