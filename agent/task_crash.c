/* A task whose logic crashes at a record is not begun for ever (S31). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/task_private.h"
#include "api/schema.h"
#include "common/mem.h"
#include "common/strbuf.h"

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

static bool is_at(const struct crash_place *a, const struct crash_place *b)
{
    return a->topic == b->topic && a->partition == b->partition && a->offset == b->offset;
}

/* What another agent says of the same logic. */
static bool is_of_this_build(const struct task_thread *thread, const struct crash_note *note)
{
    return strcmp(note->build, crash_file_build(thread->crashes)) == 0;
}

static struct crash_place place_of(const struct crash_note *note)
{
    return (struct crash_place){note->topic, note->partition, note->offset};
}

/* All that is known of crashes at one record, this agent's and the others'. */
static uint64_t count_at(const struct task_thread *thread, const struct crash_place *place)
{
    const struct document_task *told = &thread->desired;
    struct crash_place own;
    uint64_t count = crash_file_count(thread->crashes, &own);

    if (count > 0 && !is_at(&own, place))
        count = 0;
    for (size_t i = 0; i < told->crashes.count; i++) {
        const struct crash_note *note = &told->crashes.items[i];
        const struct crash_place at = place_of(note);

        if (is_of_this_build(thread, note) && is_at(&at, place))
            count += note->count;
    }
    return count;
}

static bool is_deadly(const struct task_thread *thread, const struct crash_place *place,
                      size_t *ret_index)
{
    if (count_at(thread, place) < CRASHES_MAX)
        return false;
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        if (partition->topic != place->topic || partition->partition != place->partition)
            continue;
        *ret_index = i;
        return !task_is_skipped(&thread->core, i, place->offset);
    }
    return false;
}

/* The record at which the logic has ended agents so often that the task is not begun; false: it may
 * be. A learner does not come to it. */
static bool find_deadly(const struct task_thread *thread, size_t *ret_index,
                        struct crash_place *ret_place)
{
    const struct document_task *told = &thread->desired;

    if (thread->core.desired.learner)
        return false;
    if (crash_file_count(thread->crashes, ret_place) > 0 && is_deadly(thread, ret_place, ret_index))
        return true;
    for (size_t i = 0; i < told->crashes.count; i++) {
        *ret_place = place_of(&told->crashes.items[i]);
        if (is_deadly(thread, ret_place, ret_index))
            return true;
    }
    return false;
}

/* "agent-1 2, agent-2 1" */
static void say_who(const struct task_thread *thread, const struct crash_place *place,
                    struct strbuf *buf)
{
    const struct document_task *told = &thread->desired;
    struct crash_place own;
    uint32_t count = crash_file_count(thread->crashes, &own);

    if (count > 0 && is_at(&own, place))
        strbuf_printf(buf, "%s %" PRIu32, thread->context->options->agent_id, count);
    for (size_t i = 0; i < told->crashes.count; i++) {
        const struct crash_note *note = &told->crashes.items[i];
        const struct crash_place at = place_of(note);

        if (is_of_this_build(thread, note) && is_at(&at, place))
            strbuf_printf(buf, "%s%s %" PRIu32, buf->bytes > 0 ? ", " : "", note->agent,
                          note->count);
    }
}

static void refuse(struct task_thread *thread, size_t index, const struct crash_place *place)
{
    struct strbuf who = {0};
    struct task_event *event;
    char text[ERR_TEXT_BYTES];

    say_who(thread, place, &who);
    (void)snprintf(
        text, sizeof(text),
        "the logic has ended agents' processes at this record (%.160s), and is not tried "
        "again: pass the record by a skip, or correct the logic; noted in %s.crashes",
        strbuf_text(&who), thread->directory);
    strbuf_finish(&who);
    event = task_thread_event(thread, TASK_EVENT_RECORD_REFUSED, "logic_crashed", text);
    event->index = index;
    event->offset = place->offset;
}

bool task_crash_stops(struct task_thread *thread)
{
    struct crash_place place;
    size_t index;

    if (!find_deadly(thread, &index, &place))
        return false;
    refuse(thread, index, &place);
    return true;
}

bool task_crash_refuses(struct task_thread *thread, size_t index, int64_t offset)
{
    const struct task_partition *partition = &thread->core.partitions[index];
    const struct crash_place place = {partition->topic, partition->partition, offset};
    bool named = false;

    for (size_t i = 0; i < thread->desired.crashes.count && !named; i++) {
        const struct crash_place at = place_of(&thread->desired.crashes.items[i]);

        named = is_at(&at, &place);
    }
    if (!named || count_at(thread, &place) < CRASHES_MAX)
        return false;
    refuse(thread, index, &place);
    return true;
}

bool task_crash_is_news(const struct task_thread *thread, const struct document_task *task)
{
    const struct document_task *told = &thread->desired;
    size_t index;
    int64_t offset;

    if (!task_halted(&thread->core, &index, &offset) ||
        strcmp(thread->core.code, "logic_crashed") != 0)
        return false;
    if (task->crashes.count != told->crashes.count)
        return true;
    for (size_t i = 0; i < task->crashes.count; i++)
        if (!schema_equal(&schema_crash_note, &task->crashes.items[i], &told->crashes.items[i]))
            return true;
    return false;
}
