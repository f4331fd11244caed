/*
 * One task's insides, shared by task_thread.c (life, inbox), task_act.c (carries actions out),
 * task_read.c (the hot path), task_seed.c (snapshots) and task_report.c. Everything is the task
 * thread's own but what stands under `lock`, and `ended`.
 */
#ifndef BATON_AGENT_TASK_PRIVATE_H
#define BATON_AGENT_TASK_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/consumer.h"
#include "agent/core/task.h"
#include "agent/crash.h"
#include "agent/logic.h"
#include "agent/observer.h"
#include "agent/producer.h"
#include "agent/snapshot_fetch.h"
#include "agent/snapshot_serve.h"
#include "agent/store.h"
#include "agent/task_thread.h"
#include "common/hook.h"

#define TASK_EVENTS_MAX 8

/* A point of this task, for tests: its place is job/processor/phase. */
#define HOOK_HERE(thread, point)                                                                   \
    HOOK_AT(point, "%s/%u/%s", (thread)->job.name, (thread)->desired.processor,                    \
            task_phase_name((enum task_phase)(thread)->core.phase.state))
/* The same, and `point`_of, whose place is job/processor/how many partitions the task has: what
 * comes first after it has grown. */
#define HOOK_HERE_OF(thread, point)                                                                \
    do {                                                                                           \
        HOOK_HERE(thread, point);                                                                  \
        HOOK_AT(point "_of", "%s/%u/%zu", (thread)->job.name, (thread)->desired.processor,         \
                (thread)->core.partition_count);                                                   \
    } while (0)

struct task_event_slot { /* an event with a text of its own, waiting for its turn */
    struct task_event event;
    char code[64];
    char detail[TASK_DETAIL_BYTES];
};

struct task_counters {
    uint64_t records, outputs, replayed, skipped_null_key, skipped_error, skipped_asked,
        dead_lettered, commits, aborts;
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
    struct snapshot_fetch *fetch;     /* while the state of another copy is on its way */
    struct snapshot_progress seeding; /* of the last one; no source: there was none */
    struct logic *logic;
    struct crash_file *crashes; /* with the logic */
    struct crash_place crashed; /* of its last crashes in a row, of this build; */
    uint32_t crashed_count;     /* 0: none */
    bool crash_noted;           /* whatever build it is of, at `crash_note` */
    struct crash_place crash_note;
    struct store_position *lineage; /* per partition: next_offset is filled in at a checkpoint */
    int64_t *offsets, *records;     /* scratch of events, per partition */
    int64_t *followed;
    int64_t *rested;
    struct task_choice *chosen;
    struct task_range *ranges;
    struct task_policy *policies;
    char **failing; /* per partition: why it can not be read at present; NULL: it can */
    struct task_committed *committed;
    struct task_event_slot events[TASK_EVENTS_MAX];
    size_t event_next, event_count;
    int64_t wake_ms;
    bool flush_running; /* a CHECKPOINT was given to the store and has not been answered */
    bool flush_failed;
    int64_t flush_retry_ms;
    int64_t ranges_due_ms;
    bool ranges_out;   /* they were asked for, and there is no answer yet */
    int64_t ranges_ms; /* when the last answer came */
    int64_t report_due_ms;
    int64_t reported_phase;
    bool brokers_down;
    int64_t stuck_since_at, failing_since_at, brokers_since_at; /* 0: not at present */
    size_t read_next; /* partition that is read first in the next round */
    bool order_held;  /* a record waits for its ancestors, and newer ranges would tell for which */
    int64_t grow_since_ms; /* since when more partitions could not be taken; 0: they could */
    int64_t grow_retry_ms; /* what is in the inbox is not looked at before */
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

/* ---- task_told.c */

/* The offsets of the task's partitions out of a list; what it does not name is unknown. */
void task_told_offsets(const struct task_thread *thread, const struct input_offset *items,
                       size_t count, int64_t *ret_offsets);
/* T1 at which the processor was paused, per partition; NULL: it was not. Good until the next call.
 */
const int64_t *task_told_rested(struct task_thread *thread, const struct document_task *task);
/* T1 that somebody has chosen, likewise. */
const struct task_choice *task_told_chosen(struct task_thread *thread,
                                           const struct document_task *task);
/* The core's partitions point at the skips of thread->desired, which is new. */
void task_told_skips(struct task_thread *thread);
bool task_told_same_skips(const struct document_task *a, const struct document_task *b);

int64_t task_told_origin(const struct document_job *job, uint32_t topic, uint32_t partition);
bool task_told_holds(const struct uint_list *list, uint32_t number);
/* Up to where ancestors count, of thread->desired, which is new. */
/* The job's map when it has so many processors. False: nobody knows the keys' hash, and where they
 * belong. */
bool task_told_map(const struct document_job *job, uint32_t processors, struct key_map *ret_map);
void task_told_bounds(struct task_thread *thread);
/* The settle windows of thread->job, which is new. */
void task_told_windows(struct task_thread *thread);
/* The job's, or for ever where nobody could tell old-count records from others. */
int64_t task_told_settle_ms(const struct document_job *job);
/* New partitions wait until the windows are closed; never for one that can not close. */
bool task_told_holds_descendants(const struct document_job *job);

/* ---- task_verify.c */

/* Where to read the partition from; API_UNKNOWN: not at all, its log may have gone past what was
 * needed of it. */
int64_t task_verify_start_of(const struct task_partition *partition);
void task_verify(struct task_thread *thread); /* answers TASK_ACTION_VERIFY */

/* ---- task_grow.c */

enum task_grow_result {
    TASK_GROW_DONE,
    TASK_GROW_LATER,     /* after grow_retry_ms: the brokers do not know the partitions yet */
    TASK_GROW_IMPOSSIBLE /* the task is to be closed and begun anew */
};

/* It may take the partitions of `task` without being closed. */
bool task_grow_possible(const struct task_thread *thread, const struct task_desired *desired,
                        const struct document_task *task);
/* DONE: thread->job and ->desired are the caller's to change. */
enum task_grow_result task_grow_try(struct task_thread *thread, const struct document_job *job,
                                    const struct document_task *task);

/* A new watch of all partitions instead of the one there may be. */
void task_watch_anew(struct task_thread *thread);

/* ---- task_split.c */

/* The core's partitions are `leaving` as thread->desired says, which is new. */
void task_split_told(struct task_thread *thread);
/* The task has the partitions that it is told to have, but for those that have left it as told. */
bool task_split_same_sets(const struct task_thread *thread, const struct document_task *task);
/* The partitions that are `given` have gone. */
void task_split_forget(struct task_thread *thread);

/* ---- task_crash.c */

void task_crash_open(struct task_thread *thread); /* the logic has been opened */
/* The logic has ended agents at this record so often that it is not tried again: an event is
 * queued. Before T1 (silent) a commit has passed it: there only this agent's own crashes count. */
bool task_crash_refuses(struct task_thread *thread, size_t index, int64_t offset, bool silent);
/* The note of this agent's last crash goes when a commit has passed the record. */
void task_crash_serve(struct task_thread *thread);
/* It was stopped because of others' crashes, and those that it is told now are others. */
bool task_crash_is_news(const struct task_thread *thread, const struct document_task *task);

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

void task_act_describe_store(const struct task_thread *thread, struct store_config *ret_config,
                             struct store_identity *ret_identity); /* borrowed from the thread */
enum err_code task_act_open_state(struct task_thread *thread, enum store_condition *ret_condition,
                                  char *ret_reason, struct err *reterr) MUSTCHECK;
/* STORE_OPENED or SEEDED, with what the store knows. */
struct task_event *task_act_opened(struct task_thread *thread, enum task_event_kind kind,
                                   const char *reason);

/* ---- task_garbage.c */

struct store_owners task_garbage_owners(const struct task_thread *thread); /* as thread->job says */
/* With so many processors; of 0 when that is fewer than there were at first. */
struct store_owners task_garbage_owners_with(const struct task_thread *thread, uint32_t processors);
/* The partition is about to be forgotten: it has left by a split. */
void task_garbage_left(struct task_thread *thread, size_t index);
void task_garbage_told(struct task_thread *thread);                  /* thread->job is new */
void task_garbage_serve(struct task_thread *thread, int64_t now_ms); /* goes on with it, when due */

/* ---- task_seed.c */

void task_seed_permit(struct task_thread *thread); /* as `desired` says */
void task_seed_offer(struct task_thread *thread);  /* the store is open */
void task_seed_withdraw(struct task_thread *thread);
void task_seed_end(struct task_thread *thread); /* nobody may read anything any more */
void task_seed_start(struct task_thread *thread);
void task_seed_cancel(struct task_thread *thread);
void task_seed_serve(struct task_thread *thread); /* how is it getting on? */
void task_seed_close(struct task_thread *thread);

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
