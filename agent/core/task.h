/*
 * The decisions of one task: what to open, how far to read, when to commit, when to stop. Pure:
 * time and everything that was seen of Kafka and of the disk come inside events; the shell
 * (agent/task_thread.c) carries the actions out in their order and answers each with an event.
 * Owned by the task's thread.
 *
 *                         .-> LEARN -.  (learners, until they are told to be active)
 *                         |          v
 *   OPEN -> RANGES -> VERIFY -> PRODUCER -> COMMITTED -> REPLAY -> STAMP -> ACTIVE
 *   '------ OPENING -------'    '------------- REPLAYING -------------'     |    |
 *            |  ^                                                           |    |
 *            v  |                                                           |    |
 *            SEED (SEEDING)                                                 |    |
 *                               ^                                           |    |
 *                               '---------------- REINIT <------------------'    |
 *                                     CLOSED <- CHECKPOINT <- RELEASE <----------'
 *                                               '---- RELEASING ----'
 *
 *   ACTIVE -> REINIT -> PAUSED -> PRODUCER ... STAMP -> ACTIVE (resumed) or PAUSED (still paused)
 *   PAUSED -> COMMITTED -> REPLAY -> PAUSED (waiting: others' commits are followed)
 *
 * States are what users see (api/types.h: OPENING, REPLAYING, ...); `phase` is the step inside one.
 * phase_table in task.c lists the allowed successors. What holds in each phase:
 *
 * - OPEN, RANGES, VERIFY: nothing is applied. RANGES asks the broker for log start and end, VERIFY
 *   compares the fingerprint of the last record applied with the topic (a recreated topic has valid
 *   offsets and other contents).
 * - SEED: the state of another copy is on its way; nothing is applied, what there was before is
 *   still in place (task_seed.c). Then RANGES again.
 * - LEARN: records before `limit` = the T1 that is followed are applied silently; without one
 *   nothing is. LEARNING or, by D3.5, CAUGHT_UP. Nothing is asked of Kafka but records: no producer
 *   has been initialised. Left in place for PRODUCER: what was learned and fetched stays.
 * - PRODUCER, COMMITTED: nothing is applied; positions are T2. The order init -> committed offsets
 *   -> check is D3.1.
 * - REPLAY: records before `limit` = T1 are applied silently. Positions never pass T1.
 * - STAMP: limits are lifted; the first commit (all of S1, own epoch) is asked for. Not yet active.
 * - ACTIVE: the first commit has succeeded: our stamp is on every partition of S1.
 * - REINIT: the epoch rose or the job is paused: last commit under the old one, then PRODUCER
 *   again, or PAUSED.
 * - PAUSED: the owner of a paused job: all that was applied is committed, nothing is read, there is
 *   no producer. A stamp in a paused job carries no output, and none is made when somebody else has
 *   committed in the meantime. Left through D3.1, to renew the offsets (D3.7), too. While others in
 *   the group are waited for it is left each second for what they have committed, and no stamp is
 *   made at all, nor is one while the job is frozen for others' sake.
 * - RELEASE, CHECKPOINT: stopping, or S1 is given up: last commit, then the state is written. From
 *   CHECKPOINT on nothing is consumed; `released` says so when it was asked for, once that last
 *   commit has succeeded; the writing waits then until the release is known to be durable (a stop)
 *   or a second has passed. A doubtful one is repaired as any other and the release begins anew:
 *   never reported. In RELEASE a higher epoch takes it back (REINIT's way); a task that has
 *   released only closes, whatever it is told, and whoever has S1 given back starts another one.
 * - CLOSED: the end, once CLOSE has been answered.
 * - FENCED: someone newer was seen. Nothing is open. Left only for a higher epoch; never
 *   initialises again for this one.
 * - FAILED: stopped with a problem; tried again at `retry_ms` or when what is desired changes.
 *
 * A split (task_split.c) is no phase: an ACTIVE task commits once, with the new processor's stamp
 * on what that gets, and goes on with the rest. Whoever finds that stamp at an activation has been
 * told of the same split, or is fenced. What the new processor inherits of partitions that stay is
 * decided by the same commit (task_inherit.c).
 *
 * From anywhere: a failed or doubtful commit drops what is not checkpointed and goes to PRODUCER
 * (the one repair), a newer owner leads to FENCED, what can not be gone on with to FAILED, a stop
 * to CLOSED.
 *
 * Rules kept here: D3.1 (order of an activation), D3.2 (T2 <= T1 at rest, one repair: drop what is
 * not checkpointed, replay), D3.3 (limits), D3.4 (T1 at activation), D3.5 (caught up), D3.6
 * (history: what may be replayed, and that a replay has met what its owner had met), D3.7
 * (committed offsets are renewed).
 */
#ifndef BATON_AGENT_CORE_TASK_H
#define BATON_AGENT_CORE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/stamp.h"
#include "api/types.h"
#include "common/fsm.h"
#include "common/hash/key_map.h"

#define TASK_NEVER        INT64_MAX
#define TASK_UNLIMITED    INT64_MAX
#define TASK_ACTIONS_MAX  16
#define TASK_DETAIL_BYTES 512
/* Levels of linear hashing between one partition and API_PARTITIONS_MAX. */
#define TASK_ANCESTORS_MAX 14
#define TASK_NO_PARENT     SIZE_MAX

enum task_phase {
    TASK_PHASE_OPEN,
    TASK_PHASE_RANGES,
    TASK_PHASE_SEED,
    TASK_PHASE_VERIFY,
    TASK_PHASE_LEARN,
    TASK_PHASE_PRODUCER,
    TASK_PHASE_COMMITTED,
    TASK_PHASE_REPLAY,
    TASK_PHASE_STAMP,
    TASK_PHASE_ACTIVE,
    TASK_PHASE_PAUSED,
    TASK_PHASE_REINIT,
    TASK_PHASE_RELEASE,
    TASK_PHASE_CHECKPOINT,
    TASK_PHASE_CLOSED,
    TASK_PHASE_FENCED,
    TASK_PHASE_FAILED,
    TASK_PHASE_COUNT
};

/*
 * An action with an arrow is answered by exactly one of the events named, some time later; the task
 * waits for one answer at a time. When the task turns elsewhere in the meantime (it fails, is
 * fenced, drops its state) the answer still comes, and is known to be late because another one is
 * awaited: answers come in the order of their actions.
 */
enum task_action {
    TASK_ACTION_OPEN_STORE,   /* -> STORE_OPENED or STORE_FAILED */
    TASK_ACTION_QUERY_RANGES, /* -> RANGES or RANGES_FAILED */
    TASK_ACTION_SEED, /* get another copy's state and put it in place of the own -> SEEDED; or
                         nothing has changed -> SEED_FAILED; or the store is not open any more ->
                         STORE_FAILED */
    TASK_ACTION_CANCEL_SEED,     /* let the answer of SEED come soon */
    TASK_ACTION_VERIFY,          /* compare fingerprints -> VERIFIED, VERIFY_FAILED */
    TASK_ACTION_WARM_PRODUCER,   /* make a handle ahead and let it connect, no more. When it can not
                                    be made OPEN_PRODUCER will say so. */
    TASK_ACTION_OPEN_PRODUCER,   /* the warm handle or a fresh one, never one that was initialised;
                                    init_transactions -> PRODUCER_READY, PRODUCER_FAILED */
    TASK_ACTION_FETCH_COMMITTED, /* stable offsets with metadata of S1 -> COMMITTED_READ,
                                    COMMITTED_FAILED */
    TASK_ACTION_ASSIGN,     /* read all of S2 from `position`; what was fetched before is dropped */
    TASK_ACTION_COMMIT,     /* outputs, and partitions whose `committing` is set -> COMMIT_DONE,
                               COMMIT_FAILED */
    TASK_ACTION_CHECKPOINT, /* freeze the state at the positions. Not waited for: CHECKPOINTED once
                               it is on disk; before that CHECKPOINT_FAILED when it is tried again.
                               Neither comes any more after the answer of DROP_STATE, OPEN_STORE or
                               CLOSE. */
    TASK_ACTION_CLOSE_PRODUCER, /* destroy; what is not committed is given up */
    TASK_ACTION_DROP_STATE,     /* drop what is not checkpointed -> STATE_DROPPED or STORE_FAILED */
    TASK_ACTION_SET_ASIDE,      /* close the store and rename its files; OPEN_STORE follows later */
    TASK_ACTION_UNASSIGN,       /* read nothing more; drop what was fetched */
    TASK_ACTION_FORGET, /* drop all that there is of the partitions that are `given`, go on reading
                           the others, then task_forget; all of it before the next action */
    TASK_ACTION_CLOSE,  /* close consumer, producer, store -> CLOSED */
    TASK_ACTION_REPORT  /* tell the coordinator now */
};

enum task_event_kind {
    TASK_EVENT_START, /* once, the first. offsets, chosen: as in DESIRED */
    TASK_EVENT_TICK,
    TASK_EVENT_DESIRED, /* desired, restart: what is desired has changed. offsets: T1 at which the
                           processor was paused, API_UNKNOWN: it was not; NULL: none was.
                           chosen: T1 that somebody has chosen; NULL: none */
    TASK_EVENT_FOLLOW,  /* offsets: T1 of each partition, of one commit of the owner; API_UNKNOWN
                           where  it was not told. For learners. */
    TASK_EVENT_STOP,
    TASK_EVENT_STORE_OPENED,  /* offsets: T2 of each partition, API_UNKNOWN where it has none;
                                 records: up to there, likewise */
    TASK_EVENT_STORE_FAILED,  /* an answer; or at any time: the state can not be read */
    TASK_EVENT_STORE_CORRUPT, /* at any time: the state is damaged */
    TASK_EVENT_RANGES,        /* ranges[] of each partition; an answer, or looked up in between */
    TASK_EVENT_RANGES_FAILED,
    TASK_EVENT_SEEDED, /* as STORE_OPENED */
    TASK_EVENT_SEED_FAILED,
    TASK_EVENT_VERIFIED,
    TASK_EVENT_VERIFY_MISMATCH,
    TASK_EVENT_VERIFY_FAILED,
    TASK_EVENT_PRODUCER_READY,
    TASK_EVENT_PRODUCER_FENCED,
    TASK_EVENT_PRODUCER_FAILED,
    TASK_EVENT_COMMITTED_READ, /* offsets (API_UNKNOWN: none stored) and stamps of each owned
                                  partition */
    TASK_EVENT_COMMITTED_FAILED,
    TASK_EVENT_COMMIT_DONE,
    TASK_EVENT_COMMIT_FENCED, /* an answer; or at any time: the producer says so */
    TASK_EVENT_COMMIT_FAILED, /* FAILED: refused, or no one knows how it ended */
    TASK_EVENT_OUTPUT_FAILED, /* at any time: an output was refused for good, or the producer broke
                               */
    TASK_EVENT_ASSIGN_FAILED, /* right after ASSIGN: it was refused, nothing will be read */
    TASK_EVENT_CHECKPOINTED,
    TASK_EVENT_CHECKPOINT_FAILED, /* the store tries again by itself; fatal: it does not */
    TASK_EVENT_STATE_DROPPED,     /* offsets and records as in STORE_OPENED */
    TASK_EVENT_POSITION_LOST,     /* partition `index` can not be read at its position */
    TASK_EVENT_RECORD_REFUSED, /* the record at `offset` of `index` stops the task; problem code in
                                  `code`. Also an answer to OPEN_STORE: it is not even begun */
    TASK_EVENT_FULL,           /* the state's cache asks for an early commit and checkpoint */
    TASK_EVENT_CLOSED,
    TASK_EVENT_COUNT
};

struct task_range {
    int64_t log_start, stable_end, end;
};

/* How a topic is cleaned. */
struct task_policy {
    bool compacted;
    int64_t delete_retention_ms; /* a tombstone stays for so long at least */
};

/* Does an open transaction of an input's producer hold the stable end of a partition (S7)? */
enum task_pin {
    TASK_PIN_UNKNOWN, /* not looked yet */
    TASK_PIN_NONE,
    TASK_PIN_PERHAPS, /* it was below the end at the one look so far */
    TASK_PIN_HELD     /* and has not moved since */
};

/* Somebody has chosen: where `found` is committed (API_UNKNOWN: nothing), T1 is `offset`
 * (API_UNKNOWN: nobody has). */
struct task_choice {
    int64_t found, offset;
};

struct task_committed {
    int64_t offset;
    bool stamped;
    struct stamp stamp;
};

/* A part of S1 goes to a new processor (D4): whose first stamp is put on it by its last commit
 * here.
 */
struct task_split {
    uint64_t handoff; /* 0: none */
    uint32_t processor;
    uint64_t epoch;
};

/* Whether there is another copy to get the state from, and when it is asked for. */
enum task_seed {
    TASK_SEED_NONE,
    TASK_SEED_AUTO, /* when it must be, or is faster than a replay */
    TASK_SEED_FIRST /* whenever there is no local state */
};

struct task_desired {
    uint64_t epoch;   /* 0: of a learner. Never goes back. */
    uint64_t handoff; /* that it learns or releases for; 0: none */
    bool learner;     /* learns without output; once false it stays so for the task's life */
    bool release;     /* give S1 up as soon as it is held under `epoch` and all is committed */
    struct task_split split; /* of the partitions that are `leaving` */
    bool paused;             /* own S1, but put nothing out and commit nothing new */
    enum task_seed seed;
    bool frozen;  /* ... for others are in the group: not even a stamp is put on its offsets */
    bool waiting; /* ... the same, and what they commit is followed, to go on from there */
};

struct task_event {
    enum task_event_kind kind;
    int64_t now_ms;
    const int64_t *offsets;           /* per partition of the task, same order */
    const int64_t *records;           /* likewise; NULL: not known */
    const struct task_choice *chosen; /* per partition */
    const struct task_range *ranges;
    const struct task_policy *policies; /* RANGES: per partition; NULL: they were not asked for, see
                                           task_wants_policy */
    const struct task_committed *committed;
    size_t index;
    int64_t offset;
    struct task_desired desired; /* DESIRED */
    bool restart;                /* DESIRED: something else changed: a FAILED task tries again */
    bool set_aside;              /* STORE_OPENED: earlier state was renamed and is not served */
    bool rebuilds_from_latest;   /* STORE_OPENED: what compaction leaves is history enough for the
                                    logic */
    int64_t state_age_ms;        /* STORE_OPENED, SEEDED: since it was written, wall time;
                                    API_UNKNOWN: nobody can say */
    bool fatal;                  /* *_FAILED: trying again at once is no use */
    const char *code;            /* problem code, where the event brings one */
    const char *detail;          /* text for people; borrowed during the step */
};

/*
 * The settle window of a partition that has descendants (D4), and what the task has met of
 * old-count records: such as lie where their key was put before the topic was expanded.
 */
struct task_window {
    /* as the coordinator says */
    bool told;
    uint64_t number;   /* rises each time that it is opened */
    int64_t first_end; /* from there on keys are checked to belong to the processor */
    int64_t end;       /* from there on old-count records are counted */
    int64_t fence;     /* API_UNKNOWN: it is open */
    /* as the task sees it */
    bool stale;           /* an old-count record came past the fence: as good as open again */
    uint64_t old_records; /* since the task's start */
    int64_t old_at;       /* wall time of the last one; API_UNKNOWN: there was none */
    int64_t old_offset;   /* of the last one, in a replay too; API_UNKNOWN: there was none */
    int64_t quiet_ms;     /* since when there was none */
    int64_t mark; /* an end that was asked for when it had been quiet for long enough; API_UNKNOWN:
                     not yet */
};

struct task_partition {
    uint32_t topic, partition;
    bool owned;    /* in S1 */
    bool leaving;  /* in the split of the newest document; set by the owner between two steps */
    bool given;    /* to the split's new processor: in S1 no more, and gone with FORGET */
    int64_t bound; /* of an ancestor in S2 that another processor owns (task_inherit.c): up to there
                      its records are part of the state, for ever; API_UNKNOWN: not decided yet, a
                      learner follows T1 */
    int64_t bound_records; /* of T0 up to the bound, as the stamp that decided it says; API_UNKNOWN:
                              nobody counted */
    int64_t split_bound;   /* of the parent in the split of the newest document: the bound that the
                              split's commit has given it; API_UNKNOWN: that is not done */
    int64_t split_bound_records;
    int64_t t0;
    int64_t t1;       /* committed; API_UNKNOWN until read from Kafka. Of a learner: the one
                         that it follows */
    int64_t t1_asked; /* t1 when `range` was asked for */
    int64_t position; /* T2 in memory: next offset to apply */
    int64_t met; /* the last record that was read here, or by whom the copy is of that there was
                    before: of what is inherited never the parent. API_UNKNOWN: none. Set by the
                    owner when it tells T2; INT64_MAX: it does not say */
    int64_t checkpointed;      /* T2 on disk */
    int64_t freezing;          /* T2 of the checkpoint under way */
    int64_t limit;             /* records at or past it are not applied */
    int64_t committing;        /* offset in the commit under way; API_UNKNOWN: not in it */
    struct task_range range;   /* API_UNKNOWN until known */
    struct task_policy policy; /* of its topic, as far as it was asked */
    int64_t records;      /* of T0 up to `position`, that were met; API_UNKNOWN: nobody counted */
    int64_t records_owed; /* up to T1, as the stamp of T1 says; API_UNKNOWN likewise */
    int64_t rested; /* T1 at which the processor was paused, until it is active again: offsets that
                       others commit meanwhile are theirs to choose from there on (D3.4);
                       API_UNKNOWN: it was not */
    struct task_choice chosen; /* until it is active */
    bool strange;  /* what was committed is not gone on from: the task has failed with it ... */
    int64_t found; /* ... and this is it, API_UNKNOWN: nothing */
    const struct input_offset *skips; /* records that are not given to the logic, ascending;
                                         borrowed from the owner, who sets them between two steps */
    size_t skip_count;
    enum task_pin pin;
    int64_t pinned_at; /* stable end below the end when last looked; API_UNKNOWN: it was not */
    size_t parent;     /* index of the partition that it was split from; TASK_NO_PARENT: none */
    int64_t clear;     /* of one with a parent: records at or past it wait for its ancestors ... */
    int64_t gate; /* ... and this will be it (API_UNKNOWN: not known) when they have been applied
                     up to: */
    int64_t needs[TASK_ANCESTORS_MAX]; /* nearest ancestor first */
    struct task_window window;
};

struct task_config { /* fixed for the task's life; texts are borrowed from the owner */
    char incarnation[API_UUID_BYTES + 1];
    uint32_t processor;
    uint32_t parent; /* that it was split from; the same number: from none */
    bool exactly_once;
    bool stateful;         /* false: nothing is replayed, T2 is T1 */
    bool history_retained; /* the logic needs no more than the topic keeps */
    int64_t commit_interval_ms;
    int64_t checkpoint_interval_ms;
    int64_t acceptable_lag;      /* records of a partition (D3.5) */
    int64_t seed_records_min;    /* so many to replay, and a copy's state is asked for first */
    uint32_t partitions_initial; /* N0; 0: there are no ancestors */
    bool hold_descendants;       /* until the windows of all their ancestors are closed */
    int64_t settle_ms;
};

/* By what descendants are held back: see task_order.c. */
enum task_order { TASK_ORDER_NONE, TASK_ORDER_REPLAY, TASK_ORDER_LIVE };

struct task {
    struct task_config config;
    struct fsm phase;
    struct task_desired desired;
    uint64_t epoch_working; /* of the activation under way or done; stamps carry it */
    uint64_t epoch_tried; /* highest that opening was begun for: FAILED is left at once for more */
    struct task_partition *partitions;
    size_t partition_count;
    bool waiting; /* the answer of `awaited` is outstanding */
    enum task_action awaited;
    bool stopping;
    bool halting;          /* a record was refused: commit what is before it, then FAILED */
    bool restart;          /* what is desired changed while halting: FAILED is left at once */
    bool fenced;           /* in epoch_working; still so once it is closed */
    bool releasing;        /* RELEASE was entered because it was asked for */
    bool released;         /* ... and done, under epoch_working; the task only closes any more */
    int64_t rest_until_ms; /* CHECKPOINT: released, and disk and processor are left to whoever takes
                              over until then, or until a stop; TASK_NEVER: it does not rest */
    bool foreign;          /* paused: others have committed offsets, or may yet, which are left as
                              they are */
    bool trailing;         /* waiting: it has learned what others have committed, but for the lag
                              that is acceptable */
    int64_t trail_due_ms;  /* PAUSED and waiting: what they have committed is read again */
    bool caught_up;        /* LEARN: by D3.5 */
    bool warm;             /* a producer was made ahead */
    int64_t followed_ms;   /* when the T1 that is followed was told; TASK_NEVER: not yet */
    int64_t pace_ms;       /* LEARN: when `pace_lag` was measured */
    int64_t pace_lag;
    bool assigned;
    bool seed_needed;   /* SEED: a replay would come out short */
    bool seed_given_up; /* until the task opens anew */
    bool seeded;        /* the state came from another copy since it was opened */
    unsigned seed_failures;
    bool kept; /* the state is of an earlier run: its fingerprints are to be verified */
    bool rebuilds_from_latest;
    int64_t
        state_at_ms; /* when the state that was opened was written; TASK_NEVER: nobody can say */
    bool splitting;  /* the commit under way gives what is leaving to the split's processor */
    uint64_t split_done; /* hand-over of the split that has all it was to get from here; 0: none */
    bool commit_all;     /* the next commit stamps all of S1, moved or not */
    bool full;           /* the cache is full: no reading until it is frozen */
    bool checkpoint_running;
    bool checkpoint_failing; /* the running one failed and is tried again */
    int64_t commit_due_ms;   /* TASK_NEVER: nothing to commit */
    int64_t checkpoint_due_ms;
    int64_t renew_due_ms;  /* D3.7; TASK_NEVER: nothing of S1 was stamped yet */
    int64_t renew_ms;      /* from one renewal to the next */
    int64_t watch_due_ms;  /* at_least_once: committed metadata is read */
    int64_t notice_due_ms; /* ACTIVE: a problem that is over has been shown long enough */
    int64_t retry_ms;
    int64_t backoff_ms; /* before the retry after the next failure */
    int64_t asked_ms;   /* when ranges were asked for last */
    enum task_order order;
    bool has_descendants;
    bool cleared;  /* something that was held may be read now */
    char code[64]; /* problem; "" none */
    char detail[TASK_DETAIL_BYTES];
    int64_t problem_since_ms;
    size_t halted_index; /* the record that was refused; see task_halted */
    int64_t halted_offset;
};

struct task_actions {
    enum task_action items[TASK_ACTIONS_MAX];
    size_t count;
    int64_t wake_ms; /* call with TICK at this time at the latest */
};

/* Takes the partitions array (heap; sorted by topic, partition; t0 and owned set). */
void task_init(struct task *task, const struct task_config *config,
               const struct task_desired *desired, struct task_partition *partitions,
               size_t partition_count, int64_t now_ms);
void task_finish(struct task *task);

/* `ret_actions` is filled in. One event at a time; actions are carried out in order before the next
 * event is given. */
void task_step(struct task *task, const struct task_event *event, struct task_actions *ret_actions);

/*
 * The hot path between two steps, while task_may_read: partition `index` was applied up to
 * `position` (a record, a gap or the end of partition). Asserts that it does not go back nor past
 * the limit. Follow with TICK at the end of the round.
 */
void task_progress(struct task *task, size_t index, int64_t position, int64_t now_ms);

/* The record before `position` of partition `index` was one that the partition holds: not a marker,
 * a gap or an aborted one. Right after the task_progress that passed it. */
void task_count_record(struct task *task, size_t index);

bool task_may_read(
    const struct task *task); /* records may be applied now (each partition up to its limit) */
bool task_may_output(
    const struct task *task); /* their outputs are to be produced (STAMP, ACTIVE); else silently */
/* A task that is closed after it was fenced stays FENCED: whoever starts it anew must know. */
enum task_state task_state(const struct task *task);
/* The epoch that the state is of: a task that could not open has failed the one it tried. */
uint64_t task_epoch(const struct task *task);
/* The most records of a partition of S1 between T2 and the T1 that is followed; API_UNKNOWN when
 * the task is no learner or has not been told a T1. */
int64_t task_caught_up_lag(const struct task *task);
/* Of a learner: whether it has caught up waits for ranges to be looked at again. */
bool task_awaits_ranges(const struct task *task);
/* Ranges are being asked for, whoever wanted it: the next RANGES are not older than this. */
void task_asks_ranges(struct task *task, int64_t now_ms);

/* ---- more partitions (task_grow.c), and order among them (task_order.c) */

/* It can be given more partitions as it is, when it is to become this; else it has to be closed and
 * begun anew. */
bool task_may_grow(const struct task *task, const struct task_desired *desired);
/* Between two steps. `added` are copied, as for task_init; they stand behind those that are there.
 */
void task_grow(struct task *task, const struct task_partition *added, size_t count, int64_t now_ms);
/* Records of the partition at or past it are not applied now. */
int64_t task_limit(const struct task *task, size_t index);
/* A record of the partition is held back for its ancestors, and newer ranges would say for which of
 * theirs. */
bool task_awaits_order(const struct task *task, size_t index);
/* Since the last call something that was held back has become readable. */
bool task_take_cleared(struct task *task);
/* Between two steps: what the coordinator says of the partition's settle window; only that part of
 * `told` counts. */
void task_tell_window(struct task *task, size_t index, const struct task_window *told,
                      int64_t now_ms);
/* Right after task_count_record, of one with output: it was an old-count record. True: its window
 * was closed. */
bool task_meet_old(struct task *task, size_t index, int64_t now_ms, int64_t now_at);
/* The same of one without output: whoever had met it may not have lived to tell. */
void task_meet_old_again(struct task *task, size_t index);
/* T1, when it is past an end that was asked for `settle_ms` after the last old-count record;
 * API_UNKNOWN: not yet. */
int64_t task_settled(const struct task *task, size_t index);

/* ---- ancestors that other processors own (task_inherit.c) */

/* In S2, not in S1, and never was: an ancestor. */
bool task_is_inherited(const struct task_partition *partition);
/* Nothing more of it will ever be needed. */
bool task_is_inherited_whole(const struct task_partition *partition);
/* Of a partition that was given to a split's processor: the state has all that it is to have of its
 * keys, wherever they lay. Else records are passed from here on that the new processor inherits. */
bool task_is_left_whole(const struct task *task, size_t index);
/* Between two steps: the bound as the coordinator says it; API_UNKNOWN: it does not know. */
void task_tell_bound(struct task *task, size_t index, int64_t bound, int64_t records);

enum task_verdict {
    TASK_VERDICT_APPLY,
    TASK_VERDICT_PASS,     /* it is another processor's: nothing that concerns this one */
    TASK_VERDICT_MISROUTED /* it is another processor's, and came to this one */
};
/* Of the record at `offset` whose key belongs to partition `place` by the newest map. */
enum task_verdict task_judge_key(const struct task *task, size_t index, const struct key_map *map,
                                 uint32_t place, int64_t offset);

/* True: QUERY_RANGES must also answer how topics are cleaned. */
bool task_wants_policy(const struct task *task);
/* The record is passed by somebody's word: it is not given to the logic, whether its outputs would
 * count or not, but it is met as any other (task_count_record). */
bool task_is_skipped(const struct task *task, size_t index, int64_t offset);
/* The task has FAILED with a record that it can not pass until it is told something new. */
bool task_halted(const struct task *task, size_t *ret_index, int64_t *ret_offset);
/* Between two steps: Kafka keeps committed offsets for so long, above 0; API_UNKNOWN: not known,
 * and what was said before still holds. */
void task_set_offsets_retention(struct task *task, int64_t retention_ms);
/* Of the offset of partition `index` that is being committed. */
struct stamp task_stamp(const struct task *task, size_t index);
/* FORGET has been carried out on all that is kept by index: the core does the same. */
void task_forget(struct task *task);
const char *task_phase_name(enum task_phase phase);

/* NULL when every invariant holds, else a static text that names the broken one; for tests and the
 * simulator. */
const char *task_check(const struct task *task);

#endif
