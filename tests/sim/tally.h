/* How often each kind of thing happened, over all seeds: a kind that never did fails the run, since
 * then nothing was shown for it. */
#ifndef BATON_TESTS_SIM_TALLY_H
#define BATON_TESTS_SIM_TALLY_H

#include <stdint.h>

#define TALLY_KINDS(X)                                                                             \
    X(CRASH, "agents crashed")                                                                     \
    X(PAUSE, "agents paused")                                                                      \
    X(ZOMBIE, "agents that came back when another was active")                                     \
    X(STOP, "tasks stopped")                                                                       \
    X(MOVE, "processors moved")                                                                    \
    X(HANDOFF, "hand-overs begun")                                                                 \
    X(HANDOFF_DONE, "hand-overs done")                                                             \
    X(CANCEL, "hand-overs cancelled")                                                              \
    X(GIVE_BACK, "releases taken back")                                                            \
    X(FORCED, "hand-overs forced: the source was lost")                                            \
    X(LEARNER, "learners started")                                                                 \
    X(FOLLOW, "T1 told to learners")                                                               \
    X(CAUGHT_UP, "learners caught up for the first time")                                          \
    X(WARM, "producers initialised that were warm")                                                \
    X(IN_PLACE, "learners made active in place")                                                   \
    X(RELEASED, "releases believed")                                                               \
    X(STALE_RELEASED, "releases of an older epoch or hand-over, not believed")                     \
    X(STALE_FENCED, "fences of an older epoch, not believed")                                      \
    X(SUPERSEDED, "reports from before a restart, refused")                                        \
    X(REPORT_LOST, "reports lost")                                                                 \
    X(REPORT_TWICE, "reports that came twice")                                                     \
    X(REPORT_LATE, "reports that came late")                                                       \
    X(RAISE, "epochs raised")                                                                      \
    X(ACTIVATION, "activations")                                                                   \
    X(REINIT, "re-initialisations for a higher epoch")                                             \
    X(REPLAYED, "records replayed")                                                                \
    X(APPLIED, "records applied with output")                                                      \
    X(COMMIT, "commits")                                                                           \
    X(COMMIT_LOST, "indefinite commits that were not done")                                        \
    X(COMMIT_DONE, "indefinite commits that were done")                                            \
    X(COMMIT_LATE, "indefinite commits still on their way")                                        \
    X(LATE, "requests that arrived late")                                                          \
    X(ABORT, "transactions aborted by an init or a time-out")                                      \
    X(EXPIRY, "transactions timed out")                                                            \
    X(UNSTABLE, "offsets read while a transaction was ending")                                     \
    X(HICCUP, "offsets that could not be read")                                                    \
    X(REPAIR, "repairs")                                                                           \
    X(FENCED_INIT, "fenced at the init")                                                           \
    X(FENCED_STAMP, "fenced by a stamp")                                                           \
    X(FENCED_COMMIT, "fenced at a commit or in between")                                           \
    X(CHECKPOINT, "checkpoints on disk")                                                           \
    X(CHECKPOINT_FAILED, "checkpoints failed")                                                     \
    X(FULL, "full caches")                                                                         \
    X(KEPT, "states opened")                                                                       \
    X(DAMAGED, "states damaged")                                                                   \
    X(SET_ASIDE, "states set aside")                                                               \
    X(STATE_AHEAD, "states ahead of T1")                                                           \
    X(REFUSED, "records refused")                                                                  \
    X(RESPEC, "specs changed")                                                                     \
    X(ABORTED_INPUT, "input transactions aborted")                                                 \
    X(CLEANED, "partitions cleaned of markers")                                                    \
    X(TRUNCATED, "partitions truncated")                                                           \
    X(EMPTIED, "partitions emptied")                                                               \
    X(LOST, "positions lost")                                                                      \
    X(HALTED, "worlds that rightly end halted")                                                    \
    X(FINISHED, "worlds that end with all done")

enum tally_kind {
#define TALLY_ENUM(name, text) TALLY_##name,
    TALLY_KINDS(TALLY_ENUM)
#undef TALLY_ENUM
        TALLY_COUNT
};

struct tally {
    uint64_t of[TALLY_COUNT];
    uint64_t steps;
};

extern const char *const tally_texts[TALLY_COUNT];

#endif
