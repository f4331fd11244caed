/* A task whose logic crashes at a record is not begun for ever (S31). */
#include <stdio.h>
#include <stdlib.h>

#include "agent/task_private.h"
#include "common/mem.h"

/* Its crashes count from here on; of another build they begin anew. */
void task_crash_open(struct task_thread *thread)
{
    const struct job_logic *logic = &thread->job.spec.logic;
    char *path = logic->kind == LOGIC_KIND_PLUGIN
                     ? mem_printf("%s/%s-%s.so", thread->context->options->plugin_dir, logic->name,
                                  logic->version)
                     : NULL;
    char *build = crash_build(path);

    thread->crashes = crash_file_create(thread->directory, thread->job.incarnation, build);
    free(build);
    free(path);
}

/* The record at which the logic has ended the process so often that the task is not begun; false:
 * it may be. A learner does not come to it. */
static bool find_deadly(const struct task_thread *thread, size_t *ret_index, int64_t *ret_offset)
{
    struct crash_place place;

    if (thread->core.desired.learner || crash_file_count(thread->crashes, &place) < CRASHES_MAX)
        return false;
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        if (partition->topic != place.topic || partition->partition != place.partition)
            continue;
        *ret_index = i;
        *ret_offset = place.offset;
        return !task_is_skipped(&thread->core, i, place.offset);
    }
    return false;
}

bool task_crash_stops(struct task_thread *thread)
{
    struct task_event *event;
    size_t index;
    int64_t offset;
    char text[ERR_TEXT_BYTES];

    if (!find_deadly(thread, &index, &offset))
        return false;
    (void)snprintf(text, sizeof(text),
                   "the logic has ended the agent's process %d times in a row at this record, and "
                   "is not tried again; the crashes are noted in %s.crashes",
                   CRASHES_MAX, thread->directory);
    event = task_thread_event(thread, TASK_EVENT_RECORD_REFUSED, "logic_crashed", text);
    event->index = index;
    event->offset = offset;
    return true;
}
