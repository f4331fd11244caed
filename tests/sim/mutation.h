/*
 * Rules of D3 to D6 broken on purpose, to show that the simulator would notice. The cores are not
 * changed for it: what they are told and what they ask for is bent on the way, or their state after
 * a step. What the database or the shell does wrong is done wrong there (durable_model.c,
 * coordinator_host.c, agent_link.c).
 */
#ifndef BATON_TESTS_SIM_MUTATION_H
#define BATON_TESTS_SIM_MUTATION_H

#include <stdbool.h>

#include "agent/core/task.h"
#include "coordinator/core/step.h"

#define MUTATION_KINDS(X)                                                                          \
    X(NO_COUNT, "no-count", "how many records a state is made of is not compared")                 \
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
    X(SEED_LATE_T2, "seed-late-t2",                                                                \
      "T2 of a snapshot is taken when it ends, its rows when it began")                            \
    X(SEED_SHORT, "seed-short", "a snapshot is taken for whole that is not")                       \
    X(UNKNOWN_IS_ZERO, "unknown-is-zero", "offsets that could not be read are taken for T0")       \
    X(OUTPUT_IN_REPLAY, "output-in-replay", "outputs are not suppressed while replaying")          \
    X(STOP_DROPS_BATCH, "stop-checkpoints-first", "a stop checkpoints without its last commit")    \
    X(LEARN_PAST_T1, "learn-past-t1", "a learner goes past the T1 that it follows")                \
    X(T1_MIXED, "t1-mixed", "a learner takes T1 of two commits for one")                           \
    X(EARLY_RELEASED, "early-released", "released is said before the last commit succeeded")       \
    X(RELEASED_IN_DOUBT, "released-in-doubt", "released is said after a commit of unknown end")    \
    X(RELEASED_COPIED, "released-copied", "the epoch of a release is copied from the document")    \
    X(SAME_EPOCH_BACK, "same-epoch-back", "what is given back keeps its epoch")                    \
    X(OLD_RELEASE, "old-release", "a release under an older epoch is believed")                    \
    X(OLD_ACTIVE, "old-active", "a task that is active under an older epoch counts as active")     \
    X(OLD_START, "old-start", "reports of an earlier start of the agent count")                    \
    X(POLL_UNBOUND, "poll-unbound", "an earlier start of the agent is told what to do")            \
    X(REGISTER_KEEPS_EPOCH, "register-keeps-epoch", "a new start goes by the old one's epochs")    \
    X(EARLY_FORCE, "early-force", "an agent is called lost although it was heard")                 \
    X(NO_GRACE, "no-grace", "a lost agent's processors are relearned elsewhere at once")           \
    X(STANDBY_UNREADY, "standby-unready", "a standby that has not learned is taken for ready")     \
    X(TOLD_BEFORE_DURABLE, "told-before-durable", "documents are sent before the commit")          \
    X(VERSION_NOT_DURABLE, "version-not-durable", "a restart counts document versions anew")       \
    X(START_NOT_RAISED, "start-not-raised", "a restart does not raise the start number")           \
    X(EPOCH_NOT_DURABLE, "epoch-not-durable", "a restart hands out epochs again")                  \
    X(END_NOT_DURABLE, "end-not-durable", "the end of a hand-over is not written")                 \
    X(OLD_DOCUMENT, "old-document", "an agent works by an older document")                         \
    X(SKIP_UNTOLD, "skip-untold", "learners do not hear of skips")                                 \
    X(SKIP_ANY, "skip-any", "records that stop nobody are skipped")                                \
    X(GUESTS_UNSEEN, "guests-unseen", "members of the job's group are not seen")                   \
    X(FROZEN_WORKS, "frozen-works", "an owner says that it has stopped, and works on")             \
    X(DRAINED_EARLY, "drained-early", "drained is said before the hand-overs from it have ended")  \
    X(DRAIN_FORGOTTEN, "drain-forgotten", "a new start of the agent ends its drain and cordon")    \
    X(DRAIN_KEEPS_MOVING, "drain-keeps-moving", "a cancelled drain's hand-overs go on")            \
    X(LEAVER_RECEIVES, "leaver-receives", "an agent that is to leave gets more")                   \
    X(CORDON_RECEIVES, "cordon-receives", "a cordoned agent gets more")                            \
    X(DEADLINE_FORGOTTEN, "deadline-forgotten", "a restart forgets the deadlines of drains")       \
    X(DEADLINE_EARLY, "deadline-early", "a deadline is taken for passed")                          \
    X(DEADLINE_WAITS, "deadline-waits", "after its deadline a drain waits as before")              \
    X(FORCE_KEEPS_EPOCH, "force-keeps-epoch", "who takes over from a leaver works by its epoch")   \
    X(FORCE_TO_LEAVER, "force-to-leaver", "what is forced from a leaver is given to it")           \
    X(PLAN_IGNORED, "plan-ignored", "requests are carried out whatever their plan says")           \
    X(SPLIT_OWN_STAMP, "split-own-stamp", "what leaves in a split has its parent's stamp")         \
    X(SPLIT_UNTOLD, "split-untold", "the parent's next owner is not told of the split")            \
    X(SPLIT_BY_DOCUMENT, "split-by-document", "a split is done when it is asked for")              \
    X(SPLIT_KEPT, "split-kept", "what has left in a split is worked on as before")                 \
    X(BOUND_IGNORED, "bound-ignored", "an ancestor is read up to its end, not to its bound")       \
    X(BOUND_LATE, "bound-late", "the bound is past where the split was committed")                 \
    X(KEYS_UNFILTERED, "keys-unfiltered", "all records of an ancestor are taken")                  \
    X(LEFT_KEYS_TAKEN, "left-keys-taken", "records of keys that have left are taken as before")    \
    X(KEEPS_TRYING, "keeps-trying", "who can not learn is made to try again at once")

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

/* ---- mutation_coordinator.c */

/* Before the core sees the event. */
void mutation_bend_coord_event(struct world *world, struct coord_event *event);
/* After the core's step: its memory and what it asks for may be changed. */
void mutation_bend_update(struct world *world, const struct coord_event *event,
                          struct update *update);

/* Everywhere that the step has put a new epoch of it the old one takes its place. */
void mutation_keep_epoch(struct update *update, struct processor *processor, uint64_t old);

/* ---- mutation_drain.c: the same, for those of drains and cordons */

void mutation_bend_drain_event(struct world *world, const struct coord_event *event);
void mutation_bend_drain_update(struct world *world, const struct coord_event *event,
                                struct update *update);

#endif
