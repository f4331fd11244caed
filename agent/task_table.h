/*
 * The tasks that the agent has, and the carrying out of what agent/core/reconcile.h decides about
 * them. Owned by the control thread; nothing here waits, but for the join of a thread that has
 * ended.
 *
 * A task that could not be started is kept as FAILED with a problem and tried again with growing
 * pauses; the others go on. A task that was stopped is reported once more in its last state
 * (CLOSED) and then forgotten; its state directory stays. One that has released what it owned is
 * reported so until the document drops it or names it anew.
 */
#ifndef BATON_AGENT_TASK_TABLE_H
#define BATON_AGENT_TASK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/task_thread.h"
#include "api/types.h"

struct task_table;

struct task_ops { /* the functions of agent/task_thread.h; unit tests have their own */
    enum err_code (*start)(const struct task_thread_context *context,
                           const struct document_job *job, const struct document_task *task,
                           struct task_thread **ret_thread, struct err *reterr);
    void (*desire)(struct task_thread *thread, const struct document_job *job,
                   const struct document_task *task);
    void (*follow)(struct task_thread *thread, const struct input_offset *committed, size_t count);
    void (*stop)(struct task_thread *thread);
    bool (*ended)(const struct task_thread *thread);
    void (*join)(struct task_thread *thread);
    void (*report)(struct task_thread *thread, struct task_report *ret_report);
};

/* Both borrowed for the table's life. */
struct task_table *task_table_create(const struct task_ops *ops,
                                     const struct task_thread_context *context);
/* All threads must have ended (task_table_count().running is 0). NULL is fine. */
void task_table_destroy(struct task_table *table);

/* Takes the document (zeroes it), which reconcile_check accepted, and acts on it. */
void task_table_want(struct task_table *table, struct agent_document *document, int64_t now_ms);

/* Nothing is wanted any more, whatever documents come: tasks commit, write their state, close. */
void task_table_stop(struct task_table *table, int64_t now_ms);

/* Joins threads that have ended, starts what waited for that or for its retry. Call after the
 * context's `changed`, at task_table_wake_ms, and every 100 ms while something stops. */
void task_table_step(struct task_table *table, int64_t now_ms);
int64_t task_table_wake_ms(const struct task_table *table); /* INT64_MAX: never */

/* Each task that the document wants, or that there is still. */
void task_table_list(const struct task_table *table,
                     void (*visit)(void *arg, const char *job, uint32_t processor), void *arg);

struct task_table_counts {
    size_t wanted;  /* by the document */
    size_t running; /* that have a thread; of these: */
    size_t stopping;
    size_t down; /* wanted but without a thread */
};
struct task_table_counts task_table_count(const struct task_table *table);

/* Deep copies of the reports of all tasks that are there, and after them of those that closed since
 * the last report that was delivered. */
void task_table_collect(const struct task_table *table, struct agent_report *report);
/* What was collected just now is on its way to the coordinator, and no other is ... */
void task_table_sending(struct task_table *table);
/* ... and has arrived: what closed before it is told. */
void task_table_delivered(struct task_table *table);

/* Of the answer to the report that was sent last. */
void task_table_follow(struct task_table *table, const struct report_answer *answer);

/* Logs which tasks have not ended, for a stop that waits no longer. */
void task_table_log_running(const struct task_table *table);

#endif
