/*
 * Rules of D3 broken on purpose, to show that the simulator would notice. The core is not changed
 * for it: what it is told and what it asks for is bent on the way, or its state after a step.
 */
#ifndef BATON_TESTS_SIM_MUTATION_H
#define BATON_TESTS_SIM_MUTATION_H

#include <stdbool.h>

#include "agent/core/task.h"

#define MUTATION_KINDS(X)                                                                          \
    X(NO_STAMP, "no-stamp", "active without the first commit")                                     \
    X(PARTIAL_STAMP, "partial-stamp", "the first commit stamps only what moved")                   \
    X(NO_METADATA_CHECK, "no-metadata-check", "stamps of newer owners are not looked at")          \
    X(T1_BEFORE_INIT, "t1-before-init", "committed offsets are read before the init")              \
    X(EARLY_CHECKPOINT, "early-checkpoint", "the state is written before the commit")              \
    X(REPAIR_KEEPS_STATE, "repair-keeps-state", "a repair replays without dropping")               \
    X(REPLAY_PAST_T1, "replay-past-t1", "a replay goes past T1")                                   \
    X(TRUST_IN_DOUBT, "trust-in-doubt", "a commit of unknown end is taken for done")               \
    X(FENCED_REINITS, "fenced-reinits", "FENCED initialises again for its epoch")                  \
    X(PRODUCER_REUSED, "producer-reused", "the producer is used on after an indefinite commit")    \
    X(TORN_CHECKPOINT, "torn-checkpoint", "state and T2 are written apart")                        \
    X(LATE_FREEZE, "late-freeze", "T2 of a checkpoint is taken when it ends")                      \
    X(UNKNOWN_IS_ZERO, "unknown-is-zero", "offsets that could not be read are taken for T0")       \
    X(OUTPUT_IN_REPLAY, "output-in-replay", "outputs are not suppressed while replaying")          \
    X(STOP_DROPS_BATCH, "stop-checkpoints-first", "a stop checkpoints without its last commit")    \
    X(LEARN_PAST_T1, "learn-past-t1", "a learner goes past the T1 that it follows")                \
    X(T1_MIXED, "t1-mixed", "a learner takes T1 of two commits for one")                           \
    X(EARLY_RELEASED, "early-released", "released is said before the last commit succeeded")       \
    X(RELEASED_IN_DOUBT, "released-in-doubt", "released is said after a commit of unknown end")    \
    X(RELEASED_COPIED, "released-copied", "the epoch of a release is copied from the document")    \
    X(SAME_EPOCH_BACK, "same-epoch-back", "what is given back keeps its epoch")                    \
    X(OLD_RELEASE, "old-release", "a release under an older epoch is believed")

enum mutation {
    MUTATION_NONE,
#define MUTATION_ENUM(name, option, text) MUTATION_##name,
    MUTATION_KINDS(MUTATION_ENUM)
#undef MUTATION_ENUM
        MUTATION_COUNT
};

extern const char *const mutation_options[MUTATION_COUNT];
extern const char *const mutation_texts[MUTATION_COUNT];

struct sim_report;
struct sim_task;
struct world;

/* Before the core sees the event; it may be changed. */
void mutation_bend_event(enum mutation mutation, struct sim_task *task, struct task_event *event);
/* After the core's step: its state and actions may be changed. */
void mutation_bend_step(enum mutation mutation, struct sim_task *task,
                        const struct task_event *event, struct task_actions *actions);

/* What is reported of a task. */
void mutation_bend_report(const struct world *world, struct sim_report *report);

#endif
