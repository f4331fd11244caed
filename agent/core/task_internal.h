/* Shared by the files of the task core: task.c (dispatch, ticks), task_open.c (until active),
 * task_learn.c (learners), task_commit.c (when active). */
#ifndef BATON_AGENT_CORE_TASK_INTERNAL_H
#define BATON_AGENT_CORE_TASK_INTERNAL_H

#include "agent/core/task.h"

#define TASK_BACKOFF_MIN_MS 100
#define TASK_BACKOFF_MAX_MS 10000
/* A problem of the topic or its offsets is looked at again. */
#define TASK_RECHECK_MS 10000
/* Committed offsets are renewed at most hourly (D3.7). */
#define TASK_RENEW_MS INT64_C(3600000)
/* at_least_once reads the stamps once a second (D6). */
#define TASK_WATCH_MS 1000
/* A problem that is over stays readable for that long. */
#define TASK_NOTICE_MS 60000
/* A T1 that was told longer ago says nothing about being caught up (D3.5). */
#define TASK_FOLLOW_MS 2000
/* Over that time a learner should come closer to its owner. */
#define TASK_PACE_MS 10000

void task_push(struct task_actions *actions, enum task_action action);

/* Pushes an action whose answer the task waits for. Asserts that none is outstanding. */
void task_ask(struct task *task, struct task_actions *actions, enum task_action action);
void task_move(struct task *task, enum task_phase phase, int64_t now_ms);

void task_set_problem(struct task *task, const char *code, const char *detail, int64_t now_ms);
void task_set_problem_at(struct task *task, size_t index, const char *code, const char *detail,
                         int64_t now_ms);
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

/* task_open.c */
void task_store_opened(struct task *task, const struct task_event *event,
                       struct task_actions *actions);
void task_ranges(struct task *task, const struct task_event *event, struct task_actions *actions);
void task_verified(struct task *task, const struct task_event *event, struct task_actions *actions);
void task_committed_read(struct task *task, const struct task_event *event,
                         struct task_actions *actions);
void task_replay_check(struct task *task, int64_t now_ms);
void task_hold(struct task *task);            /* no partition may be read past where it is */
void task_drop_checkpoint(struct task *task); /* the store has none under way any more */

/* task_learn.c */
void task_learn(struct task *task, struct task_actions *actions, int64_t now_ms);
void task_follow(struct task *task, const struct task_event *event, struct task_actions *actions);
void task_learn_check(struct task *task, struct task_actions *actions, int64_t now_ms);
int64_t task_wake_learning(const struct task *task);

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

#endif
