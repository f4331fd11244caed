/* A task whose logic crashes at a record stops there at last (S31). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/task_private.h"
#include "api/schema.h"
#include "common/logger.h"
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
    thread->crashed_count = crash_file_count(thread->crashes, &thread->crashed);
    thread->crash_noted = crash_file_noted(thread->crashes, &thread->crash_note);
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

/* All that is known of crashes at one record, this agent's and, `of_all`, the others'. */
static uint64_t count_at(const struct task_thread *thread, const struct crash_place *place,
                         bool of_all)
{
    const struct document_task *told = &thread->desired;
    uint64_t count = 0;

    if (thread->crashed_count > 0 && is_at(&thread->crashed, place))
        count = thread->crashed_count;
    for (size_t i = 0; of_all && i < told->crashes.count; i++) {
        const struct crash_note *note = &told->crashes.items[i];
        const struct crash_place at = place_of(note);

        if (is_of_this_build(thread, note) && is_at(&at, place))
            count += note->count;
    }
    return count;
}

/* "agent-1 2, agent-2 1" */
static void say_who(const struct task_thread *thread, const struct crash_place *place,
                    struct strbuf *buf)
{
    const struct document_task *told = &thread->desired;

    if (thread->crashed_count > 0 && is_at(&thread->crashed, place))
        strbuf_printf(buf, "%s %" PRIu32, thread->context->options->agent_id,
                      thread->crashed_count);
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

bool task_crash_refuses(struct task_thread *thread, size_t index, int64_t offset, bool silent)
{
    const struct task_partition *partition = &thread->core.partitions[index];
    const struct crash_place place = {partition->topic, partition->partition, offset};

    if (thread->crashed_count == 0 && (silent || thread->desired.crashes.count == 0))
        return false;
    if (count_at(thread, &place, !silent) < CRASHES_MAX)
        return false;
    refuse(thread, index, &place);
    return true;
}

static bool has_passed(const struct task_thread *thread, const struct crash_place *place)
{
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        if (partition->topic == place->topic && partition->partition == place->partition)
            return (partition->owned ? partition->t1 : partition->position) > place->offset;
    }
    return false; /* it belongs to another processor now: the coordinator knows its T1 */
}

void task_crash_serve(struct task_thread *thread)
{
    struct err err;

    /* Not while it replays: T1 may be past the record by another agent's work, and what this one
     * met there counts until it has come by itself. */
    if (!thread->crash_noted || !task_may_output(&thread->core) ||
        !has_passed(thread, &thread->crash_note))
        return;
    if (crash_file_forget(thread->crashes, &err) != ERR_NONE)
        log_warn("crash_note_kept", LOG_STR("job", thread->job.name),
                 LOG_INT("processor", thread->desired.processor), LOG_STR("error", err.text),
                 LOG_STR("effect", "tried again when the task is opened the next time"), LOG_END);
    thread->crash_noted = false;
    thread->crashed_count = 0;
    thread->context->crash_passed(thread->context->arg);
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
