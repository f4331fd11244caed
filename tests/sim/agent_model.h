/*
 * An agent with its tasks: the cores under test (agent/core/task.h, agent/core/reconcile.h) in a
 * shell that does what agent/task_thread.c, task_act.c, task_read.c and task_table.c do, in the
 * same order, but takes one small step at a time: one event, one action, one request of an action,
 * one record. Between any two of them other things happen, the agent can stop for a minute or for
 * ever.
 */
#ifndef BATON_TESTS_SIM_AGENT_MODEL_H
#define BATON_TESTS_SIM_AGENT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/reconcile.h"
#include "agent/core/task.h"
#include "tests/sim/agent_link.h"
#include "tests/sim/kafka_model.h"
#include "tests/sim/store_model.h"

#define SIM_EVENTS_MAX 8
#define SIM_CLOSED_MAX 8

struct world;

struct sim_report { /* what one task says of itself (agent/task_report.c) */
    size_t agent;
    uint32_t processor;
    enum task_role role;
    enum task_state state;
    uint64_t epoch, handoff;
    bool released, consuming;
    uint64_t split;
    uint32_t owned;                            /* partitions, a bit each */
    int64_t split_bound[KAFKA_PARTITIONS_MAX]; /* by partition */
    int64_t split_bound_records[KAFKA_PARTITIONS_MAX];
    int64_t caught_up_lag;
    int64_t t0[KAFKA_PARTITIONS_MAX], t1[KAFKA_PARTITIONS_MAX]; /* by partition */
    int64_t t2[KAFKA_PARTITIONS_MAX];
    struct window_report windows[KAFKA_PARTITIONS_MAX]; /* number 0: it was told of none */
    size_t halted_partition;                            /* the record that stops it */
    int64_t halted_offset;                              /* API_UNKNOWN: none does */
    char code[64];
};

enum sim_fate { /* of a request */
                SIM_FATE_OK,
                SIM_FATE_REFUSED, /* answered with an error, not done */
                SIM_FATE_UNHEARD, /* done, but the answer never comes */
                SIM_FATE_LATE,    /* done after its sender has given up */
                SIM_FATE_LOST     /* never done, never answered */
};

struct sim_call { /* an action under way, or the ranges looked up in between */
    bool active;
    bool observing;
    enum task_action action;
    int stage;       /* COMMIT: outputs, offsets, end */
    int fault_stage; /* where `fate` strikes; the others go well */
    enum sim_fate fate;
    bool applied;
    bool failed; /* VERIFY: the record is not there */
    bool struck; /* its fate is on its way: what is due is the end of it */
    enum kafka_reply result;
    int64_t due_ms;      /* of the next part of it */
    int64_t deadline_ms; /* when its sender gives up */
};

struct sim_producer {
    bool warm, open, fenced, broken;
    uint32_t epoch;
    struct kafka_output *queue; /* given out by the logic, not sent yet */
    size_t count, capacity;
};

enum sim_stage {
    SIM_STAGE_INBOX,
    SIM_STAGE_STORE,
    SIM_STAGE_READ,
    SIM_STAGE_CLIENTS,
    SIM_STAGE_TICK,
    SIM_STAGE_REPORT,
    SIM_STAGE_WAIT
};

struct sim_task {
    size_t agent;
    uint32_t processor;
    struct task core;
    struct store_model *store; /* the agent's disk; NULL: the job has no state */
    bool store_open, consumer_open;
    int64_t next[KAFKA_PARTITIONS_MAX]; /* of the consumer, by the core's index */
    bool assigned;
    struct sim_producer producer;

    struct task_event events[SIM_EVENTS_MAX];
    size_t event_next, event_count;
    struct task_actions actions;
    size_t action_next;
    struct sim_call call;
    bool waits_for_flush; /* an action needs the checkpoint under way to end */
    enum sim_stage stage;
    uint32_t read_left;
    bool worked, poked, order_held;
    int64_t wake_ms, wait_ms, ranges_due_ms, report_due_ms;
    struct { /* a snapshot on its way */
        bool active, cancelled;
        size_t source;
        uint32_t starts; /* of the source, when it began */
        int64_t due_ms;
        struct store_image image;
    } seed;
    bool flush_running, flush_failed;
    int64_t flush_retry_ms;
    struct sim_report report;              /* as it was published last */
    int64_t offsets[KAFKA_PARTITIONS_MAX]; /* scratch of events, by the core's index */
    int64_t records[KAFKA_PARTITIONS_MAX];
    struct task_range ranges[KAFKA_PARTITIONS_MAX];
    struct task_committed committed[KAFKA_PARTITIONS_MAX];

    struct {
        bool stop, desired, follow;
        enum task_role role;
        uint64_t epoch, handoff;
        bool release;
        struct task_split split;
        uint32_t leaving, owned, reads; /* partitions, a bit each */
        struct key_map map;
        int64_t bounds[KAFKA_PARTITIONS_MAX], bound_records[KAFKA_PARTITIONS_MAX];
        bool skip_poison;
        int64_t followed[KAFKA_PARTITIONS_MAX]; /* by partition */
        bool paused, frozen, waiting;
        enum task_seed seed;
        uint32_t read_count; /* partitions; in the order of `read` */
        uint32_t read[KAFKA_PARTITIONS_MAX];
        int64_t origins[KAFKA_PARTITIONS_MAX];              /* likewise */
        struct settle_window windows[KAFKA_PARTITIONS_MAX]; /* by partition; number 0: none */
        bool rested;                                        /* `t1` is known */
        int64_t t1[KAFKA_PARTITIONS_MAX];
        struct input_offset skips[API_SKIPS_MAX];
        size_t skip_count;
    } inbox;
    struct input_offset skips[API_SKIPS_MAX]; /* as it was told last */
    int64_t rested[KAFKA_PARTITIONS_MAX];     /* as task_thread.c has it */
    enum task_role role;                      /* it was told last */
    int64_t followed[KAFKA_PARTITIONS_MAX];   /* scratch of FOLLOW, by the core's index */
    size_t skip_count;
    bool skip_poison;   /* the spec's on_error */
    struct key_map map; /* as it was told last */

    /* for the checks */
    uint64_t fenced_epoch; /* highest in which it was told of its fence */
    int64_t turn_ms;       /* turns without work at the same time */
    uint32_t idle_turns;
    /* for the mutations */
    struct task_committed early[KAFKA_PARTITIONS_MAX];
};

struct sim_slot { /* of agent/task_table.c */
    bool used;
    enum reconcile_state state;
    struct document_job job; /* as it was told last; owned */
    struct document_task told;
    bool spent;
    int64_t retry_ms;
    struct sim_task *task;
    struct sim_report report; /* DOWN: its last, which is told until the document drops it */
};

struct sim_agent {
    size_t identity; /* under which name it is known */
    bool alive, paused;
    bool lost;             /* for good: once it has ended it never comes back */
    uint32_t starts;       /* its incarnation */
    int64_t back_ms;       /* when a crashed one starts, a paused one goes on */
    uint32_t actions_done; /* since the world began; for sweeps */
    struct sim_link link;
    struct agent_document document; /* owned */
    struct sim_slot slots[KAFKA_PROCESSORS_MAX];
    struct sim_report closed[SIM_CLOSED_MAX]; /* last words of tasks that are gone */
    size_t closed_count, closed_sending;
    struct store_model disks[KAFKA_PROCESSORS_MAX];
};

/* ---- agent_table.c */

void agent_start(struct world *world, size_t agent);
void agent_crash(struct world *world, size_t agent);
/* Takes what the document owns. */
void agent_take_document(struct world *world, size_t agent, struct agent_document *document);
/* Everything is to be closed; nothing is wanted any more. */
void agent_stop_tasks(struct world *world, size_t agent);
bool agent_is_idle(const struct world *world, size_t agent); /* no task runs */
/* The tasks' part of a report, and that it was heard. */
void agent_collect(struct world *world, size_t agent, struct agent_report *report);
void agent_delivered(struct world *world, size_t agent);
/* T1 by partition, of the answer to a report. */
void agent_take_follow(struct world *world, size_t agent, uint32_t processor, const int64_t *t1);
/* Tasks that have ended are taken down, and started again where they are wanted. */
void agent_tend(struct world *world, size_t agent);

/* ---- agent_model.c */

/* T1 at which it was paused, of each of Kafka's partitions; API_UNKNOWN where the document has
 * none. */
void agent_take_rested(const struct document_task *told, int64_t *ret_t1);
/* The skips in the document, for the inbox. */
void agent_take_skips(const struct world *world, const struct document_task *told,
                      struct sim_task *task);
struct sim_task *agent_task_start(struct world *world, size_t agent, const struct sim_slot *slot);
void agent_task_destroy(struct sim_task *task); /* as by a crash; NULL is fine */
bool agent_task_done(const struct sim_task *task);
/* From now on reports say of it what it is now. */
void agent_publish(struct world *world, struct sim_task *task);
/* A task's next small step; false: it has nothing to do yet. */
bool agent_step(struct world *world, struct sim_task *task);
bool agent_may_step(const struct world *world, const struct sim_task *task);
/* The flusher's step; false: no checkpoint is due. */
bool agent_flush(struct world *world, struct sim_task *task);
int64_t agent_due_ms(const struct sim_task *task);

/* ---- shared by agent_*.c */

struct task_event *agent_event(struct sim_task *task, enum task_event_kind kind, const char *code,
                               const char *detail);
/* As `told` says, into the task's inbox. */
void agent_take_partitions(const struct document_job *job, const struct document_task *told,
                           struct sim_task *task);
size_t agent_partition(const struct sim_task *task, size_t index); /* Kafka's number */
/* agent_read.c: the document's bounds of ancestors, from here on. */
void agent_use_bounds(const struct world *world, struct sim_task *task);
/* agent_call.c */
void agent_act(struct world *world, struct sim_task *task, enum task_action action);
void agent_observe_ranges(struct world *world, struct sim_task *task);
void agent_serve_call(struct world *world, struct sim_task *task);
void agent_take_positions(struct sim_task *task);
/* agent_split.c: partitions that were given away have left. */
void agent_forget(struct world *world, struct sim_task *task);
/* What the document says of a split, for the inbox. */
void agent_take_split(const struct document_task *told, struct sim_task *task);
/* It is about the core's partitions from here on. */
void agent_use_split(const struct world *world, struct sim_task *task,
                     struct task_desired *desired);
/* The task has the partitions that it is told to have, but for those that have left it as told. */
bool agent_has_same_sets(const struct sim_task *task);
/* The partitions that it was told, a bit each, but for those that it has given away. */
uint32_t agent_told_sets(const struct sim_task *task);
bool agent_has_smaller_sets(const struct sim_task *task); /* a part of those */
/* agent_seed.c */
void agent_seed_start(struct world *world, struct sim_task *task);
void agent_seed_cancel(struct world *world, struct sim_task *task);
void agent_seed_serve(struct world *world, struct sim_task *task);
/* Whether the document names somebody to ask (agent/task_thread.c). */
enum task_seed agent_seed_of(const struct document_job *job, const struct document_task *told);
/* agent_read.c */
void agent_read(struct world *world, struct sim_task *task);
void agent_poll_producer(struct world *world, struct sim_task *task);
/* Sends queued outputs, `most` of them at the most. */
enum kafka_reply agent_send_outputs(struct world *world, struct sim_task *task, size_t most);

const char *agent_event_name(enum task_event_kind kind);
const char *agent_action_name(enum task_action action);

#endif
