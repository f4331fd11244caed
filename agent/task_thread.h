/*
 * One task: a thread that runs the pure core (agent/core/task.h) and carries out its actions. It
 * alone owns the task's consumer, producer, store and logic.
 *
 * The agent's control thread starts it, tells it what is desired, and reads its report. Messages go
 * in through a bounded mailbox; the report comes out as a copy under a small lock that protects
 * only that copy.
 *
 *   control thread --start/desire/follow/stop--> task thread --changed()--> control side
 *                  <------------- report (copy) -------------
 */
#ifndef BATON_AGENT_TASK_THREAD_H
#define BATON_AGENT_TASK_THREAD_H

#include "agent/options.h"
#include "api/types.h"
#include "common/err.h"

struct observer;
struct snapshot_serve;
struct task_thread;

struct task_thread_context { /* the same for all tasks; outlives them */
    const struct agent_options *options;
    const struct opts_kafka *kafka;
    const char *cluster; /* UUID, from the coordinator's welcome */
    const char *boot_id;
    struct observer *observer;        /* says where partitions start and end */
    struct snapshot_serve *snapshots; /* what tasks give to others; NULL: nothing */
    /* Called by the task's thread when something happened that the coordinator should hear at once
       (became active, fenced, failed, closed, caught up or not any more, released). Must not block.
     */
    void (*changed)(void *arg);
    /* Likewise, when a note of a crash is not on the disk any more. */
    void (*crash_passed)(void *arg);
    void *arg;
};

/* Copies job and task. The context is borrowed for the task's life. */
enum err_code task_thread_start(const struct task_thread_context *context,
                                const struct document_job *job, const struct document_task *task,
                                struct task_thread **ret_thread, struct err *reterr) MUSTCHECK;

/* Control thread. A new desired state of the same job incarnation and processor (role, epoch, S1,
 * S2, spec, paused). Copies. */
void task_thread_desire(struct task_thread *thread, const struct document_job *job,
                        const struct document_task *task);

/* Control thread. T1 that a learner may go up to: one vector of one commit, taken whole or, when it
 * lacks a partition of S1, not at all. The latest replaces one that was not taken yet. Copies. */
void task_thread_follow(struct task_thread *thread, const struct input_offset *committed,
                        size_t count);

/* Control thread. Finish the batch, commit, checkpoint, close; returns at once. Safe to call again.
 */
void task_thread_stop(struct task_thread *thread);

/* Any thread: everything is closed and the thread is about to end (join returns soon). */
bool task_thread_ended(const struct task_thread *thread);

/* Control thread: waits for the end and frees. */
void task_thread_join(struct task_thread *thread);

/* Any thread. A deep copy; free with schema_free(&schema_task_report). */
void task_thread_report(struct task_thread *thread, struct task_report *ret_report);

#endif
