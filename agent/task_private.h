/*
 * One task's insides, shared by task_thread.c (life, inbox), task_act.c (carries actions out),
 * task_read.c (the hot path) and task_report.c. Everything is the task thread's own but what stands
 * under `lock`, and `ended`.
 */
#ifndef BATON_AGENT_TASK_PRIVATE_H
#define BATON_AGENT_TASK_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/consumer.h"
#include "agent/core/task.h"
#include "agent/logic.h"
#include "agent/observer.h"
#include "agent/producer.h"
#include "agent/store.h"
#include "agent/task_thread.h"

#define TASK_EVENTS_MAX 8

struct task_event_slot { /* an event with a text of its own, waiting for its turn */
    struct task_event event;
    char code[64];
    char detail[TASK_DETAIL_BYTES];
};

struct task_counters {
    uint64_t records, outputs, replayed, skipped_null_key, skipped_error, dead_lettered, commits,
        aborts;
};

struct task_rate { /* records a second over the last RATE_WINDOW_MS */
    int64_t since_ms;
    uint64_t records, replayed;
    double records_per_s, replayed_per_s;
};

struct task_thread {
    const struct task_thread_context *context;
    pthread_t thread;
    int wake_fd; /* eventfd: poked by control, librdkafka and the flusher */
    atomic_bool ended;

    pthread_mutex_t lock; /* protects the block below; nothing is called under it */
    struct {
        bool stop, desired;
        struct document_job job;
        struct document_task task;
        struct input_offset *followed; /* heap; NULL: none */
        size_t followed_count;
    } inbox; /* the latest wins: what is desired is a state, not a message; so is what is followed
              */
    struct task_report report;

    /* the task thread's own */
    struct document_job job;
    struct document_task desired;
    char *directory, *logic_id, *client_id, *transactional_id;
    struct task core;
    struct consumer *consumer;
    struct observer_watch *watch; /* with the consumer: log start and ends of its partitions */
    struct producer *producer;
    struct store *store;
    struct logic *logic;
    struct store_position *lineage; /* per partition: next_offset is filled in at a checkpoint */
    int64_t *offsets;               /* scratch of events, per partition */
    int64_t *followed;
    struct task_range *ranges;
    int64_t
        *blocked;   /* per partition: stable end that an open transaction pinned at the last look */
    bool *stuck;    /* ... and at the one before as well */
    char **failing; /* per partition: why it can not be read at present; NULL: it can */
    struct task_committed *committed;
    struct task_event_slot events[TASK_EVENTS_MAX];
    size_t event_next, event_count;
    int64_t wake_ms;
    bool flush_running; /* a CHECKPOINT was given to the store and has not been answered */
    bool flush_failed;
    int64_t flush_retry_ms;
    int64_t ranges_due_ms;
    int64_t report_due_ms;
    int64_t reported_phase;
    bool brokers_down;
    int64_t stuck_since_at, failing_since_at, brokers_since_at; /* 0: not at present */
    size_t read_next; /* partition that is read first in the next round */
    struct baton_header *headers;
    size_t headers_capacity;
    enum err_code sink_code; /* of the first output that could not be sent */
    struct err sink_err;
    int64_t problem_wall_at;
    char problem_code[64];
    struct task_counters counters;
    struct task_rate rate;
};

/* ---- task_thread.c */

/* Queues an event for the core; `detail` is copied. */
struct task_event *task_thread_event(struct task_thread *thread, enum task_event_kind kind,
                                     const char *code, const char *detail);
void task_thread_wake(void *arg);                                       /* any thread */
void task_thread_wait(struct task_thread *thread, int64_t deadline_ms); /* until woken or then */

/* ---- task_act.c */

void task_act(struct task_thread *thread, enum task_action action);
void task_act_serve_ranges(struct task_thread *thread,
                           int64_t now_ms); /* RANGES, also in between */
/* What the producer's error means to the core; COMMIT_FAILED or OUTPUT_FAILED when it is no fence.
 */
void task_act_producer_error(struct task_thread *thread, enum task_event_kind kind,
                             const struct err *err);
void task_act_serve_store(struct task_thread *thread,
                          int64_t now_ms); /* how is the checkpoint getting on? */

/* ---- task_report.c */

void task_report_fill(struct task_thread *thread, struct task_report *report);
/* When it is due; report_due_ms 0: at once, and the coordinator is to hear it at once. */
void task_report_publish(struct task_thread *thread, int64_t now_ms);

/* ---- task_read.c */

/* One round over the partitions, some milliseconds long; true when anything was done. Queues events
 * when something stops the task. */
bool task_read_round(struct task_thread *thread);
/* Partition `index` fails with `detail` (copied), or does not any more (NULL). */
void task_read_note(struct task_thread *thread, size_t index, const char *detail);
uint64_t task_read_fingerprint(const rd_kafka_message_t *message);

#endif
