/*
 * A task core with the other side played by the test: what the store and Kafka would answer is data
 * that a test changes before it goes on. Partition 0..2 of one topic, all owned; see rig_init for
 * their offsets.
 */
#ifndef BATON_TESTS_UNIT_AGENT_CORE_TASK_RIG_H
#define BATON_TESTS_UNIT_AGENT_CORE_TASK_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/task.h"

#define RIG_PARTITIONS  3
#define RIG_INCARNATION "0a1b2c3d-0000-4000-8000-000000000001"
#define RIG_OTHER       "0a1b2c3d-0000-4000-8000-000000000002"
#define RIG_EPOCH       7
#define RIG_HANDOFF     31

struct rig {
    struct task task;
    struct task_actions actions; /* of the last event */
    char letters[TASK_ACTIONS_MAX + 1];
    int64_t now_ms;
    /* what would be answered */
    int64_t stored[RIG_PARTITIONS];   /* T2 on disk */
    int64_t copy[RIG_PARTITIONS];     /* T2 of the copy that a seed brings */
    int64_t records[RIG_PARTITIONS];  /* up to there; API_UNKNOWN at first */
    int64_t freezing[RIG_PARTITIONS]; /* of the checkpoint under way */
    struct task_range ranges[RIG_PARTITIONS];
    struct task_policy policies[RIG_PARTITIONS];
    struct task_committed committed[RIG_PARTITIONS];
    bool awaiting; /* an action without its answer; the latest one */
    enum task_action awaited;
};

/*
 * The rig of suites that need nothing else, one to a process: TestSuite's .init and .fini.
 * `_started` has been given START, and its end has to be one that a stop gets past.
 */
extern struct rig rig_shared;
void rig_setup(void);
void rig_teardown(void);
void rig_setup_started(void);
void rig_teardown_started(void);

/* T0 = 0, log 0..100, T1 = 50, T2 = 40 in every partition; stamps of epoch RIG_EPOCH - 1. */
void rig_init(struct rig *rig);
void rig_init_config(struct rig *rig, const struct task_config *config);
void rig_init_desired(struct rig *rig, const struct task_config *config,
                      const struct task_desired *desired);
/* As rig_init, but a learner for RIG_HANDOFF; acceptable lag 4. */
void rig_init_learner(struct rig *rig);
void rig_finish(struct rig *rig);
void rig_set_origin(struct rig *rig, size_t index, int64_t t0); /* before the first event */

/*
 * Gives one event, filled in with what would be answered; checks task_check; returns the actions as
 * letters: Open store, Ranges, Get a seed, cancel it (g), Verify, Warm producer, Producer, Fetch
 * committed, Assign, Commit, cheKpoint, close producer (p), Drop state, Set aside, Unassign, forget
 * what Left, close (X), report (!).
 */
const char *rig_give(struct rig *rig, enum task_event_kind kind);
const char *rig_give_event(struct rig *rig, struct task_event event);
const char *rig_tick(struct rig *rig, int64_t after_ms);
const char *rig_desire(struct rig *rig, uint64_t epoch, bool restart);
const char *rig_want(struct rig *rig, struct task_desired desired);
const char *rig_follow(struct rig *rig, int64_t t1_0, int64_t t1_1, int64_t t1_2);

/* The good answer to what is awaited. */
enum task_event_kind rig_good_answer(enum task_action action);

/* Answers well and ticks until `phase` is reached for the first time; asserts that it is. */
void rig_go(struct rig *rig, enum task_phase phase);
/* Answers well and ticks until nothing is awaited and no tick is due. */
void rig_settle(struct rig *rig);
/* STOP, then good answers only: asserts that the task closes. */
void rig_expect_stops(struct rig *rig);

/* Goes through partition `index` up to `position`: over markers and gaps, or over a record at each
 * offset. */
void rig_read_records(struct rig *rig, size_t index, int64_t position);
void rig_read(struct rig *rig, size_t index, int64_t position);
void rig_read_all(struct rig *rig, int64_t position);

enum task_phase rig_phase(const struct rig *rig);

#define rig_assert(condition)                                                                      \
    cr_assert(condition, "phase %s, problem '%s' (%s), actions '%s', wake %lld, now %lld",         \
              task_phase_name(rig_phase(rig)), rig->task.code, rig->task.detail, rig->letters,     \
              (long long)rig->actions.wake_ms, (long long)rig->now_ms)

#endif
