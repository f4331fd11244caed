/* Shared by the files of the task core: task.c (dispatch, ticks), task_open.c (until active),
 * task_seed.c (from another copy), task_learn.c (learners), task_commit.c (when active),
 * task_pause.c (owners that are paused), task_split.c (a part of S1 goes), task_inherit.c (what
 * comes from ancestors that others own), task_choice.c (what people decide about offsets and
 * records). */
#ifndef BATON_AGENT_CORE_TASK_INTERNAL_H
#define BATON_AGENT_CORE_TASK_INTERNAL_H

#include "agent/core/task.h"

#define TASK_BACKOFF_MIN_MS 100
#define TASK_BACKOFF_MAX_MS 10000
/* A problem of the topic or its offsets is looked at again. */
#define TASK_RECHECK_MS 10000
/* For so long a topic that is not there may only be news that has not come to all brokers. */
#define TASK_MISSING_MS 10000
/* Committed offsets are renewed hourly, or at a quarter of their retention if that is less (D3.7).
 */
#define TASK_RENEW_MS INT64_C(3600000)
/* at_least_once reads the stamps once a second (D6). */
#define TASK_WATCH_MS 1000
/* While others in the group are waited for, what they have committed is read once a second. */
#define TASK_TRAIL_MS 1000
/* A problem that is over stays readable for that long. */
#define TASK_NOTICE_MS 60000
/* A T1 that was told longer ago says nothing about being caught up (D3.5). */
#define TASK_FOLLOW_MS 2000
/* Released: whoever takes over goes first, then the state is written. */
#define TASK_REST_MS 1000
/* Over that time a learner should come closer to its owner. */
#define TASK_PACE_MS 10000

void task_push(struct task_actions *actions, enum task_action action);

/* Pushes an action whose answer the task waits for. Asserts that none is outstanding. */
void task_ask(struct task *task, struct task_actions *actions, enum task_action action);
void task_move(struct task *task, enum task_phase phase, int64_t now_ms);

void task_set_problem(struct task *task, const char *code, const char *detail, int64_t now_ms);
void task_set_problem_at(struct task *task, size_t index, const char *code, const char *detail,
                         int64_t now_ms);
/* After a failure whose problem is set. True: it is more than a delay, the task fails and looks
 * again later. A topic that is gone for good is waited for in vain, and while a learner only waits
 * its hand-over does not end (S8). */
bool task_back_off_from(struct task *task, const struct task_event *event);
void task_clear_problem(struct task *task);
void task_clear_problem_of(struct task *task, const char *code); /* unless it is another one */

/* Gives up the answer that is outstanding: it will be late. */
void task_give_up(struct task *task);

/* Closes everything for good; phase CLOSED. */
void task_end(struct task *task, struct task_actions *actions, int64_t now_ms);
/* Closes everything and waits for `retry_ms` (TASK_NEVER: for a change of what is desired). The
 * problem is set before. */
void task_fail(struct task *task, struct task_actions *actions, int64_t retry_ms, int64_t now_ms);
void task_fence(struct task *task, struct task_actions *actions, const char *detail,
                int64_t now_ms);

/* Sets retry_ms for what just failed: at once, then after TASK_BACKOFF_MIN_MS doubling to
 * TASK_BACKOFF_MAX_MS, until a commit has moved an offset. */
void task_back_off(struct task *task, int64_t now_ms);

/* Enters `phase` and asks for its action, at once or at retry_ms. */
void task_enter(struct task *task, struct task_actions *actions, enum task_phase phase,
                int64_t now_ms);

/* task_history.c */
bool task_counts(const struct task *task); /* a replay must meet what the owner has met */
/* Puts each partition where the store says; T0 where it knows nothing. */
void task_take_positions(struct task *task, const struct task_event *event);
/* D3.6: a replay of partition `index` from T0 up to the T1 that is known would come out short. */
bool task_is_compacted(const struct task *task, size_t index);
/* S16, at RANGES: the kept state is too old for what compaction has left; the problem is set. */
bool task_judge_age(struct task *task, int64_t now_ms);
/* D3.6: all of S1 is at T1. False: records are missing from what was replayed; halted. */
bool task_judge_replay(struct task *task, struct task_actions *actions, int64_t now_ms);
/* S7: looks at new ranges for open transactions. */
void task_find_pinned(struct task *task);
void task_unpin(struct task *task);           /* nothing is read any more */
bool task_is_pinned(const struct task *task); /* any of S1 is, or may be */

/* task_grow.c */
void task_init_partition(struct task_partition *partition); /* but for place, owned and t0 */
void task_find_parents(struct task *task);

/* task_inherit.c */
/* A split is desired, another one than before: what was decided in that is over. */
void task_forget_split_bounds(struct task *task);
/* The bound that the split's commit is to give, or has given, the parent of partition `index`,
 * which leaves; into the stamp. */
void task_stamp_bound(const struct task *task, size_t index, struct stamp *stamp);
/* That commit is done, or its stamp was found. */
void task_take_split_bound(struct task *task, size_t index, int64_t bound, int64_t records);
bool task_ancestors_learned(const struct task *task); /* D3.5 */
/* An end, or a start, of its log as far as it matters to the task: of what is inherited nothing
 * past the bound is part of the state. */
int64_t task_up_to_bound(const struct task_partition *partition, int64_t offset);
/* At an activation: bounds that only the own stamps know. False: they say another one than the
 * coordinator; failed. */
bool task_take_stamped(struct task *task, const struct task_event *event,
                       struct task_actions *actions);
/* At an activation: T1 of ancestors is their bound. False: nobody knows one; failed. */
bool task_take_inherited(struct task *task, struct task_actions *actions, int64_t now_ms);

/* task_order.c */
bool task_is_settled(const struct task_window *window);
void task_order(struct task *task, int64_t now_ms); /* after each step */
void task_find_settled(struct task *task);          /* there are new ranges */

/* task_open.c */
void task_store_opened(struct task *task, const struct task_event *event,
                       struct task_actions *actions);
void task_ranges(struct task *task, const struct task_event *event, struct task_actions *actions);
void task_verified(struct task *task, const struct task_event *event, struct task_actions *actions);
void task_committed_read(struct task *task, const struct task_event *event,
                         struct task_actions *actions);
void task_replay_check(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_hold(struct task *task);            /* no partition may be read past where it is */
void task_drop_checkpoint(struct task *task); /* the store has none under way any more */

/* task_seed.c */
/* At RANGES, `lost` is what is wrong with the log, or NULL. True: SEED has been entered. */
bool task_seed(struct task *task, struct task_actions *actions, const char *lost, int64_t now_ms);
void task_seeded(struct task *task, const struct task_event *event, struct task_actions *actions);
void task_seed_failed(struct task *task, const struct task_event *event,
                      struct task_actions *actions);
/* What is desired has changed, `before` was desired before. */
void task_seed_desired(struct task *task, struct task_actions *actions, enum task_seed before,
                       int64_t now_ms);
void task_seed_stop(struct task *task, struct task_actions *actions);

/* task_learn.c */
void task_learn(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_follow(struct task *task, const struct task_event *event, struct task_actions *actions);
void task_learn_check(struct task *task, struct task_actions *actions, int64_t now_ms);
int64_t task_wake_learning(const struct task *task);

/* task_pause.c */
/* From ACTIVE: the last commit, then rest. */
void task_pause(struct task *task, struct task_actions *actions, int64_t now_ms);
/* All of S1 is at T1 and committed. */
void task_rest(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_tick_paused(struct task *task, struct task_actions *actions, int64_t now_ms);
int64_t task_wake_paused(const struct task *task); /* but for the checkpoint */
/* T1 at which it was paused, as the coordinator knows it. */
void task_take_rested(struct task *task, const struct task_event *event);
void task_forget_rested(struct task *task); /* it is active */
/* D3.4: the offset, without our stamp, was committed while the processor was paused. */
bool task_is_accepted(const struct task *task, const struct task_partition *partition,
                      int64_t offset);
/* Waiting, and not far behind what others commit. */
bool task_is_trailing(const struct task *task);
/* T1 is a new one: is it still so? */
void task_judge_trailing(struct task *task);
/* T1 of a partition whose offset is accepted: that one, or of a task that is still paused the one
 * that it has itself committed. */
void task_accept(struct task *task, size_t index, int64_t offset, int64_t now_ms);

/* task_choice.c */
void task_take_chosen(struct task *task, const struct task_event *event);
void task_forget_chosen(struct task *task); /* it is active */
/* Somebody has chosen what T1 is where this is committed. */
bool task_is_chosen(const struct task_partition *partition, int64_t committed);
/* The task fails because of what is committed there. */
void task_set_strange(struct task_partition *partition, int64_t committed);
void task_clear_strange(struct task *task);

/* task_commit.c */
void task_checkpoint_if_due(struct task *task, struct task_actions *actions, int64_t now_ms);
/* Work has begun: what was wrong until now is over, or still worth reading for a while. */
void task_settle_problem(struct task *task, int64_t now_ms);
void task_drop_notice(struct task *task, int64_t now_ms);
bool task_is_clean(const struct task *task); /* every owned position is committed */
bool task_is_checkpointed(const struct task *task);
void task_commit(struct task *task, struct task_actions *actions);
void task_commit_done(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_checkpoint(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_checkpointed(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_repair(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_state_dropped(struct task *task, const struct task_event *event,
                        struct task_actions *actions);
void task_release(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_reinit(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_refuse(struct task *task, const struct task_event *event, struct task_actions *actions);
void task_checkpoint_failed(struct task *task, const struct task_event *event,
                            struct task_actions *actions);
void task_tick_working(struct task *task, struct task_actions *actions, int64_t now_ms);
/* When the next tick has something to do in LEARN, REPLAY, STAMP or ACTIVE. */
int64_t task_wake_working(const struct task *task, int64_t now_ms);

/* task_split.c */
/* S1 is held, and a part of it is to go. */
bool task_is_to_split(const struct task *task);
void task_split(struct task *task, struct task_actions *actions);
void task_split_done(struct task *task, struct task_actions *actions); /* that commit is done */
/* At an activation: what has gone before, by what is committed. */
void task_find_given(struct task *task, const struct task_event *event,
                     struct task_actions *actions);

#endif
