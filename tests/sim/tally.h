/* How often each kind of thing happened, over all seeds: a kind that never did fails the run, since
 * then nothing was shown for it. */
#ifndef BATON_TESTS_SIM_TALLY_H
#define BATON_TESTS_SIM_TALLY_H

#include <stdint.h>

#define TALLY_KINDS(X)                                                                             \
    X(CRASH, "agents crashed")                                                                     \
    X(PAUSE, "agents paused")                                                                      \
    X(NEVER_RETURNS, "agents that never came back")                                                \
    X(LEFT, "agents that left in order")                                                           \
    X(ZOMBIE, "agents that came back when another was active")                                     \
    X(GHOST, "agents that started on another host while they only stood still")                    \
    X(CUT_BOTH, "agents cut off from the coordinator")                                             \
    X(CUT_ONE, "agents cut off in one direction")                                                  \
    X(HOST_CRASH, "coordinators crashed")                                                          \
    X(HOST_CRASH_EARLY, "... before what they decided was durable")                                \
    X(HOST_CRASH_LATE, "... after that, before all were told")                                     \
    X(HOST_PAUSE, "coordinators paused")                                                           \
    X(HOST_START, "coordinators started")                                                          \
    X(STORE_FAILED, "commits of the coordinator that failed")                                      \
    X(REQUEST_LOST, "requests lost")                                                               \
    X(REQUEST_TWICE, "requests that came twice")                                                   \
    X(ANSWER_LOST, "answers lost")                                                                 \
    X(RESET, "connections that broke")                                                             \
    X(MESSAGE_LATE, "requests and answers that came late")                                         \
    X(CUT_OFF, "requests and answers cut off")                                                     \
    X(REQUEST_GONE, "requests that nobody waited for any more")                                    \
    X(REGISTERED, "starts of agents registered")                                                   \
    X(IN_USE, "registrations refused: the old start was heard a moment ago")                       \
    X(IN_USE_FOR_LONG, "agents that gave up: another one had their name")                          \
    X(SUPERSEDED_AGENT, "agents that were superseded")                                             \
    X(UNKNOWN_AGENT, "agents that had been forgotten")                                             \
    X(AGENT_LOST, "agents called lost")                                                            \
    X(AGENT_RETURNED, "agents heard of again")                                                     \
    X(AGENT_STOPPED, "agents signed off")                                                          \
    X(FORGOTTEN, "agents forgotten")                                                               \
    X(DOCUMENT, "documents told")                                                                  \
    X(OLD_DOCUMENT, "documents that were overtaken, ignored")                                      \
    X(OBSERVATION, "observations stored")                                                          \
    X(CALL, "calls of the coordinator to Kafka")                                                   \
    X(CALL_FAILED, "... that failed")                                                              \
    X(OPERATION_RETRY, "operations that had to try again")                                         \
    X(JOB_CREATED, "jobs created")                                                                 \
    X(JOB_RUNNING, "jobs that came to run")                                                        \
    X(JOB_DELETED, "jobs deleted")                                                                 \
    X(JOB_PAUSED, "pauses of the job asked for")                                                   \
    X(JOB_RESUMED, "... and resumes")                                                              \
    X(GUESTS, "looks at the group that found others there")                                        \
    X(FROZEN, "... and the job frozen")                                                            \
    X(MAINTENANCE, "switches of the maintenance asked for")                                        \
    X(ASKED, "requests of people granted")                                                         \
    X(ASKED_IN_VAIN, "requests of people refused")                                                 \
    X(MOVE, "moves asked for")                                                                     \
    X(REBALANCE, "rebalances asked for")                                                           \
    X(OPERATION_CANCEL, "operations cancelled")                                                    \
    X(PLAN_MOVED, "requests with a plan that moved what it says")                                  \
    X(PLAN_EMPTY, "... whose plan moves nothing")                                                  \
    X(PLAN_STALE, "... refused: something else would have moved")                                  \
    X(EXPANDED, "expansions of partitions done")                                                   \
    X(WINDOW_CLOSED, "settle windows closed")                                                      \
    X(GROWN, "owners at work that took more partitions")                                           \
    X(GROWN_LEARNER, "learners that did")                                                          \
    X(GROWN_ANEW, "tasks that began anew for them")                                                \
    X(CORDONED, "agents cordoned")                                                                 \
    X(UNCORDONED, "agents uncordoned")                                                             \
    X(DRAIN, "drains begun")                                                                       \
    X(DRAIN_CHANGED, "drains asked for anew, otherwise")                                           \
    X(DRAIN_REFUSED, "drains refused: nobody else could take anything")                            \
    X(DRAIN_DONE, "drains done")                                                                   \
    X(DRAIN_CANCELLED, "drains cancelled")                                                         \
    X(DRAIN_ENDED_LATE, "... by their deadline")                                                   \
    X(DRAIN_ENDED_ANEW, "... by a new start of the agent")                                         \
    X(DRAIN_OVERDUE, "drains whose deadline passed, to be forced")                                 \
    X(DRAIN_FORCED, "processors taken over for that")                                              \
    X(SAFE_STOP, "drained agents stopped")                                                         \
    X(SAFE_STOP_AT_REST, "... when all was at rest: nothing moved")                                \
    X(EMPTY, "worlds that end with an agent drained")                                              \
    X(EVEN, "worlds left alone that end even")                                                     \
    X(EVENED, "loads evened out in the end")                                                       \
    X(SEEDED, "states that came as snapshots")                                                     \
    X(SEEDED_NEEDED, "... where the topics did not hold enough")                                   \
    X(SEED_FAILED, "snapshots that did not come")                                                  \
    X(STOP, "tasks stopped")                                                                       \
    X(HANDOFF, "hand-overs begun")                                                                 \
    X(HANDOFF_PLANNED, "hand-overs that the planner made")                                         \
    X(HANDOFF_ASKED, "hand-overs that were asked for")                                             \
    X(EXPANSION, "expansions asked for")                                                           \
    X(SPLIT, "splits released")                                                                    \
    X(SPLIT_INHERITS, "... of processors that inherit")                                            \
    X(INHERITED, "records that were inherited")                                                    \
    X(OLD_COUNT, "records by an earlier count of partitions")                                      \
    X(MISROUTED, "... of keys that had left")                                                      \
    X(SPLIT_FOUND, "... that another owner, or a repair, found done")                              \
    X(RELEASING, "sources told to release")                                                        \
    X(RELEASED, "releases believed")                                                               \
    X(HANDOFF_DONE, "hand-overs done")                                                             \
    X(HANDOFF_FAILED, "hand-overs failed after the release")                                       \
    X(CANCEL, "hand-overs cancelled")                                                              \
    X(TAKEN_BACK, "hand-overs that the planner took back")                                         \
    X(GIVE_BACK, "processors given back")                                                          \
    X(FORCED, "hand-overs forced")                                                                 \
    X(FAILOVER, "processors taken from lost agents")                                               \
    X(STANDBY, "standbys begun")                                                                   \
    X(STANDBY_ENDED, "standbys ended")                                                             \
    X(STANDBY_FAILOVER, "standbys that took over")                                                 \
    X(STANDBY_LEARNS, "standbys that became the target of a hand-over")                            \
    X(LEARNER, "learners started")                                                                 \
    X(FOLLOW, "T1 told to learners")                                                               \
    X(CAUGHT_UP, "learners caught up for the first time")                                          \
    X(WARM, "producers initialised that were warm")                                                \
    X(IN_PLACE, "learners made active in place")                                                   \
    X(RAISE, "epochs raised: the rightful owner was fenced")                                       \
    X(PROCESSOR_FAILED, "processors failed")                                                       \
    X(RECOVERED, "processors recovered")                                                           \
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
    X(SKIP, "records that were to be passed by request")                                           \
    X(SKIPPED, "... and were, in each task that came to one")                                      \
    X(RESPEC, "specs changed")                                                                     \
    X(ABORTED_INPUT, "input transactions aborted")                                                 \
    X(CLEANED, "partitions cleaned of markers")                                                    \
    X(COMPACTED, "partitions compacted")                                                           \
    X(SHORT, "... of which a state was made that is refused")                                      \
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
