/* What is wrong with a task, as people read it. */
#include "agent/core/task_internal.h"

#include <stdio.h>
#include <string.h>

void task_set_problem(struct task *task, const char *code, const char *detail, int64_t now_ms)
{
    if (strcmp(task->code, code) != 0)
        task->problem_since_ms = now_ms;
    (void)snprintf(task->code, sizeof(task->code), "%s", code);
    (void)snprintf(task->detail, sizeof(task->detail), "%s", detail == NULL ? "" : detail);
}

void task_set_problem_at(struct task *task, size_t index, const char *code, const char *detail,
                         int64_t now_ms)
{
    const struct task_partition *partition = &task->partitions[index];
    char text[TASK_DETAIL_BYTES];

    (void)snprintf(text, sizeof(text),
                   "input %u partition %u: %s (T0 %lld, T1 %lld, T2 %lld, log %lld..%lld)",
                   partition->topic, partition->partition, detail, (long long)partition->t0,
                   (long long)partition->t1, (long long)partition->position,
                   (long long)partition->range.log_start, (long long)partition->range.end);
    task_set_problem(task, code, text, now_ms);
}

bool task_back_off_from(struct task *task, const struct task_event *event)
{
    bool gone = event->kind == TASK_EVENT_RANGES_FAILED &&
                strcmp(task->code, "topic_missing") == 0 &&
                event->now_ms - task->problem_since_ms >= TASK_MISSING_MS;

    task_back_off(task, event->now_ms);
    if (!event->fatal && !gone)
        return false;
    task->retry_ms = event->now_ms + TASK_RECHECK_MS;
    return true;
}

void task_clear_problem(struct task *task)
{
    task->code[0] = '\0';
    task->detail[0] = '\0';
}

void task_clear_problem_of(struct task *task, const char *code)
{
    if (strcmp(task->code, code) == 0)
        task_clear_problem(task);
}

/* What is over and was mended without anyone's doing is still worth reading for a while. */
static bool is_notice(const struct task *task)
{
    return strcmp(task->code, "state_set_aside") == 0 || strcmp(task->code, "state_ahead") == 0 ||
           strcmp(task->code, "offsets_accepted") == 0;
}

void task_settle_problem(struct task *task, int64_t now_ms)
{
    task->notice_due_ms = TASK_NEVER;
    if (is_notice(task))
        task->notice_due_ms = now_ms + TASK_NOTICE_MS;
    else if (!task->halting &&
             !(task->checkpoint_failing && strcmp(task->code, "store_failed") == 0))
        task_clear_problem(task);
}

void task_drop_notice(struct task *task, int64_t now_ms)
{
    if (now_ms < task->notice_due_ms)
        return;
    task->notice_due_ms = TASK_NEVER;
    if (is_notice(task))
        task_clear_problem(task);
}
