/* Learners: silent up to the T1 that they follow, and when they have caught up with it. */
#include "agent/core/task_internal.h"

#include <stdio.h>
#include <string.h>

/* D3.3: nothing at or past the T1 that is known; a position past it (the T1 is an older one) waits
 * where it is. */
static void set_limits(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        partition->limit = partition->position;
        if (task->config.stateful && partition->t1 != API_UNKNOWN &&
            partition->t1 > partition->position)
            partition->limit = partition->t1;
    }
}

int64_t task_caught_up_lag(const struct task *task)
{
    int64_t most = 0;

    if (!task->desired.learner || task->followed_ms == TASK_NEVER)
        return API_UNKNOWN;
    for (size_t i = 0; i < task->partition_count; i++) {
        const struct task_partition *partition = &task->partitions[i];

        if (partition->t1 - partition->position > most)
            most = partition->t1 - partition->position;
    }
    return task->config.stateful ? most : 0; /* without state there is nothing to learn */
}

static void set_pace(struct task *task, int64_t now_ms)
{
    task->pace_ms = now_ms;
    task->pace_lag = task_caught_up_lag(task);
}

/* Is it held up by its own slowness? Looked at now and then: the lag jumps with every T1 told. */
static void check_pace(struct task *task, int64_t now_ms)
{
    int64_t lag = task_caught_up_lag(task);
    char text[TASK_DETAIL_BYTES];

    if (task->caught_up || lag == API_UNKNOWN || task->pace_lag == API_UNKNOWN) {
        task_clear_problem_of(task, "learning_too_slow");
        set_pace(task, now_ms);
        return;
    }
    if (now_ms - task->pace_ms < TASK_PACE_MS)
        return;
    if (lag < task->pace_lag) {
        task_clear_problem_of(task, "learning_too_slow");
    } else if (task->code[0] == '\0' || strcmp(task->code, "learning_too_slow") == 0) {
        (void)snprintf(text, sizeof(text),
                       "%lld records behind the owner, %lld ms ago %lld: they come in as fast as "
                       "they are learned",
                       (long long)lag, (long long)(now_ms - task->pace_ms),
                       (long long)task->pace_lag);
        task_set_problem(task, "learning_too_slow", text, now_ms);
    }
    set_pace(task, now_ms);
}

/* D3.5, on positions. */
void task_learn_check(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    int64_t lag = task_caught_up_lag(task);
    bool caught_up = lag != API_UNKNOWN && lag <= task->config.acceptable_lag &&
                     now_ms - task->followed_ms <= TASK_FOLLOW_MS && !task_is_pinned(task) &&
                     task_ancestors_learned(task);

    if (caught_up != task->caught_up)
        task_push(actions, TASK_ACTION_REPORT);
    task->caught_up = caught_up;
    if (caught_up && !task->warm) {
        task->warm = true;
        task_push(actions, TASK_ACTION_WARM_PRODUCER);
    }
    check_pace(task, now_ms);
}

/* D3.6: with its owner at work there is a better copy than what compaction has left. */
static bool is_refused(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        if (!task_is_compacted(task, i))
            continue;
        task_set_problem_at(task, i, "history_incomplete", "the topic is compacted", now_ms);
        task_fail(task, actions, now_ms + TASK_RECHECK_MS, now_ms);
        return true;
    }
    return false;
}

void task_learn(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    if (is_refused(task, actions, now_ms))
        return;
    task_move(task, TASK_PHASE_LEARN, now_ms);
    task_settle_problem(task, now_ms);
    set_limits(task);
    if (task->config.stateful && !task->assigned) {
        task_push(actions, TASK_ACTION_ASSIGN);
        task->assigned = true;
    }
    task->checkpoint_due_ms = now_ms + task->config.checkpoint_interval_ms;
    set_pace(task, now_ms);
    task_learn_check(task, actions, now_ms);
}

/* Takes a vector whole or not at all: T1 of two commits together is a state that nobody was in. */
void task_follow(struct task *task, const struct task_event *event, struct task_actions *actions)
{
    if (!task->desired.learner)
        return;
    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].bound == API_UNKNOWN && event->offsets[i] == API_UNKNOWN)
            return;
    }
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        partition->t1 = partition->bound != API_UNKNOWN ? partition->bound : event->offsets[i];
    }
    task->followed_ms = event->now_ms;
    if (task->phase.state != TASK_PHASE_LEARN || is_refused(task, actions, event->now_ms))
        return;
    set_limits(task);
    task_learn_check(task, actions, event->now_ms);
}

/* When being caught up is over, unless a newer T1 is told before. */
int64_t task_wake_learning(const struct task *task)
{
    return task->caught_up ? task->followed_ms + TASK_FOLLOW_MS + 1 : TASK_NEVER;
}
