/* From the state on disk to the first commit: opening, comparing with the topics, D3.1's
 * activation, replay. */
#include "agent/core/task_internal.h"

#include <assert.h>
#include <string.h>

void task_hold(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++)
        task->partitions[i].limit = task->partitions[i].position;
}

void task_drop_checkpoint(struct task *task)
{
    task->checkpoint_running = false;
    task->checkpoint_failing = false;
    task->full = false;
}

/* A T2 below T0 can not be of this job. */
static bool is_of_job(const struct task *task, const int64_t *offsets)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        if (offsets[i] != API_UNKNOWN && offsets[i] < task->partitions[i].t0)
            return false;
    }
    return true;
}

/* The state is of no use: starts over without it. The problem is set before. */
static void set_aside(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    task_back_off(task, now_ms); /* should it come up again */
    task->assigned = false;
    task_push(actions, TASK_ACTION_CLOSE_PRODUCER);
    task_push(actions, TASK_ACTION_UNASSIGN);
    task_push(actions, TASK_ACTION_SET_ASIDE);
    task_enter(task, actions, TASK_PHASE_OPEN, now_ms);
}

void task_store_opened(struct task *task, const struct task_event *event,
                       struct task_actions *actions)
{
    task_drop_checkpoint(task);
    if (event->set_aside)
        task_set_problem(task, "state_set_aside", event->detail, event->now_ms);
    task->kept = false;
    task->rebuilds_from_latest = event->rebuilds_from_latest;
    task->state_at_ms =
        event->state_age_ms == API_UNKNOWN ? TASK_NEVER : event->now_ms - event->state_age_ms;
    if (!is_of_job(task, event->offsets)) {
        task_set_problem(task, "state_set_aside", "the stored position is below the job's origin",
                         event->now_ms);
        set_aside(task, actions, event->now_ms);
        return;
    }
    task_take_positions(task, event);
    for (size_t i = 0; i < task->partition_count; i++)
        task->kept = task->kept || event->offsets[i] != API_UNKNOWN;
    task_enter(task, actions, TASK_PHASE_RANGES, event->now_ms);
}

static bool ranges_known(const struct task *task, const struct task_range *ranges)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        if (ranges[i].log_start == API_UNKNOWN || ranges[i].end == API_UNKNOWN)
            return false;
    }
    return true;
}

/* D3.6 and D3.12 for one partition: the problem's code, or NULL. May move the position of a job
 * that allows it. */
static const char *judge_history(const struct task *task, struct task_partition *partition)
{
    const struct task_range *range = &partition->range;

    if (task_is_inherited_whole(partition)) /* what became of it since is its owner's to see to */
        return NULL;
    if (partition->position > range->end)
        return "topic_truncated";
    if (range->log_start <= partition->position)
        return NULL;
    if (!task->config.stateful || task->config.history_retained) {
        partition->position = task_up_to_bound(partition, range->log_start);
        partition->limit = partition->position;
        return NULL;
    }
    return partition->position == partition->t0 ? "history_incomplete" : "history_lost";
}

/* Of the first partition that has a problem. */
static const char *judge_log(struct task *task, size_t *ret_index)
{
    const char *code = NULL;

    for (size_t i = 0; i < task->partition_count && code == NULL; i++) {
        code = judge_history(task, &task->partitions[i]);
        *ret_index = i;
    }
    return code;
}

void task_asks_ranges(struct task *task, int64_t now_ms)
{
    task->asked_ms = now_ms;
    for (size_t i = 0; i < task->partition_count; i++)
        task->partitions[i].t1_asked = task->partitions[i].t1;
}

/*
 * While working: a log that ends before what was committed is not the log that was read (S8). Only
 * what was committed when the end was asked for counts: since then more may have come.
 */
static void watch_ranges(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        const struct task_partition *partition = &task->partitions[i];

        if (task_is_inherited_whole(partition) || partition->range.end == API_UNKNOWN ||
            partition->t1_asked == API_UNKNOWN || partition->t1_asked <= partition->range.end)
            continue;
        task_set_problem_at(task, i, "topic_truncated",
                            "the topic ends before the committed offset", now_ms);
        task_fail(task, actions, now_ms + TASK_RECHECK_MS, now_ms);
        return;
    }
}

/* The state is open, and of this topic. */
static void begin(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    if (task->desired.learner)
        task_learn(task, actions, now_ms);
    else
        task_enter(task, actions, TASK_PHASE_PRODUCER, now_ms);
}

void task_ranges(struct task *task, const struct task_event *event, struct task_actions *actions)
{
    enum task_phase phase = (enum task_phase)task->phase.state;
    const char *code;
    size_t index = 0;

    if (!ranges_known(task, event->ranges)) {
        if (phase != TASK_PHASE_RANGES)
            return; /* what was seen before is still the best that is known */
        task_set_problem(task, "kafka_unreachable",
                         "the broker did not say where the partitions start and end",
                         event->now_ms);
        task_back_off(task, event->now_ms);
        return;
    }
    for (size_t i = 0; i < task->partition_count; i++) {
        task->partitions[i].range = event->ranges[i];
        if (event->policies != NULL)
            task->partitions[i].policy = event->policies[i];
    }
    task_find_pinned(task);
    task_find_settled(task);
    if (phase == TASK_PHASE_LEARN || (phase >= TASK_PHASE_REPLAY && phase <= TASK_PHASE_PAUSED))
        watch_ranges(task, actions, event->now_ms);
    if (phase != TASK_PHASE_RANGES)
        return;
    code = judge_log(task, &index);
    if (code == NULL && task_judge_age(task, event->now_ms)) {
        set_aside(task, actions, event->now_ms);
        return;
    }
    if (task_seed(task, actions, code, event->now_ms))
        return;
    if (code != NULL) {
        task_set_problem_at(task, index, code,
                            task->seed_given_up ? "position is outside of the log, and no copy came"
                                                : "position is outside of the log",
                            event->now_ms);
        task_fail(task, actions, event->now_ms + TASK_RECHECK_MS, event->now_ms);
    } else if (task->kept) {
        task_enter(task, actions, TASK_PHASE_VERIFY, event->now_ms);
    } else {
        begin(task, actions, event->now_ms);
    }
}

void task_verified(struct task *task, const struct task_event *event, struct task_actions *actions)
{
    switch (event->kind) {
    case TASK_EVENT_VERIFIED:
        begin(task, actions, event->now_ms);
        break;
    case TASK_EVENT_VERIFY_MISMATCH:
        task_set_problem_at(task, event->index, "topic_recreated",
                            "the record before the stored position is not the one that was read",
                            event->now_ms);
        task_fail(task, actions, event->now_ms + TASK_RECHECK_MS, event->now_ms);
        break;
    default: /* perhaps the log was cut in the meantime: look at its ranges again, too */
        task_set_problem(task, "kafka_unreachable", event->detail, event->now_ms);
        task_back_off(task, event->now_ms);
        task_enter(task, actions, TASK_PHASE_RANGES, event->now_ms);
        break;
    }
}

static bool is_of_another(const struct task *task, const struct task_committed *committed)
{
    return strcmp(committed->stamp.incarnation, task->config.incarnation) != 0;
}

static bool is_ours(const struct task *task, const struct task_committed *committed)
{
    return committed->stamped && !is_of_another(task, committed);
}

/* D3.1: somebody else's stamp, or a newer one of this processor. While others are waited for that
 * of a job which had the group before them is as good as none. */
static bool is_fencing(const struct task *task, const struct task_committed *committed)
{
    if (!committed->stamped || (task->desired.waiting && is_of_another(task, committed)))
        return false;
    /* Without transactions a commit from before the split may have landed last: one of ours, as
     * one of an older owner is. */
    if (!task->config.exactly_once && committed->stamp.processor == task->config.parent &&
        committed->stamp.epoch < task->epoch_working)
        return is_of_another(task, committed);
    return (is_of_another(task, committed) ||
            committed->stamp.processor != task->config.processor ||
            committed->stamp.epoch > task->epoch_working);
}

static bool find_fence(struct task *task, const struct task_event *event,
                       struct task_actions *actions)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        if (!task->partitions[i].owned || !is_fencing(task, &event->committed[i]))
            continue;
        task_fence(task, actions, "the committed offsets carry the stamp of a newer owner",
                   event->now_ms);
        return true;
    }
    return false;
}

/* What is wrong with T1 of one partition: a problem's code, or NULL (D3.4). */
static const char *judge_committed(const struct task *task, const struct task_partition *partition,
                                   int64_t offset, bool ours)
{
    int64_t done = offset; /* what is before it needs no reading any more */

    if (offset == API_UNKNOWN)
        return "offsets_expired";
    if ((!ours && !task_is_accepted(task, partition, offset)) || offset < partition->t0)
        return "offsets_changed";
    if (!task->config.exactly_once && partition->checkpointed > done)
        done = partition->checkpointed;
    return done < partition->range.log_start ? "history_lost" : NULL;
}

/*
 * A replay from T0 of a compacted topic. When the stamp of T1 says how many records it is to meet
 * it may be tried: there is no other state, and nothing can come out short unnoticed.
 */
static bool is_rebuildable(const struct task *task, size_t index)
{
    return !task_is_compacted(task, index) || task->partitions[index].records_owed != API_UNKNOWN;
}

/* T1 of partition `index`, and what is wrong with it: a problem's code, or NULL. */
static const char *take_one(struct task *task, size_t index, const struct task_committed *committed,
                            int64_t now_ms)
{
    struct task_partition *partition = &task->partitions[index];
    bool chosen = task_is_chosen(partition, committed->offset);
    bool ours = chosen || is_ours(task, committed); /* what was chosen is as good as that */
    int64_t offset = chosen ? partition->chosen.offset : committed->offset;
    const char *code = judge_committed(task, partition, offset, ours);

    partition->t1 = offset;
    partition->records_owed = ours && !chosen ? committed->stamp.records : API_UNKNOWN;
    if (code == NULL && !chosen && !committed->stamped)
        task_accept(task, index, offset, now_ms);
    return code == NULL && !is_rebuildable(task, index) ? "history_incomplete" : code;
}

/* T1 of each owned partition; false: halted with the first problem. Of offsets that somebody has to
 * decide about all are shown. */
static bool take_committed(struct task *task, const struct task_event *event,
                           struct task_actions *actions)
{
    bool taken = true;

    task->foreign = task->desired.frozen || task->desired.waiting;
    for (size_t i = 0; i < task->partition_count; i++) {
        const char *code;

        if (!task->partitions[i].owned)
            continue;
        code = take_one(task, i, &event->committed[i], event->now_ms);
        if (code == NULL)
            continue;
        if (taken)
            task_set_problem_at(task, i, code, "seen in the committed offsets at activation",
                                event->now_ms);
        taken = false;
        if (strncmp(code, "offsets_", strlen("offsets_")) == 0)
            task_set_strange(&task->partitions[i], event->committed[i].offset);
    }
    if (!taken)
        task_fail(task, actions, event->now_ms + TASK_RECHECK_MS, event->now_ms);
    return taken;
}

/* D3.6: could a new state be made by replay? */
static bool is_replayable(const struct task *task)
{
    if (task->config.history_retained)
        return true;
    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].range.log_start > task->partitions[i].t0)
            return false;
    }
    return true;
}

/* Somebody has to decide about what is committed below T2. */
static void show_behind(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        if (partition->owned && partition->t1 < partition->position)
            task_set_strange(partition, partition->t1);
    }
}

/* T1 < T2 (D3.4); false: the state is given up and relearned, or kept and the task halted. */
static bool settle_ahead(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        if (partition->given || partition->t1 >= partition->position)
            continue;
        task_set_problem_at(task, i, "state_ahead",
                            "the committed offset is below what the state has learned", now_ms);
        if (!task->config.exactly_once && partition->owned) {
            partition->t1 = partition->position;
            partition->records_owed = API_UNKNOWN; /* of the older T1 */
            continue;
        }
        /* A bound is for ever, so a state past it is of no use to anybody. */
        if (is_replayable(task) || (!partition->owned && task->desired.seed != TASK_SEED_NONE)) {
            set_aside(task, actions, now_ms);
        } else { /* there is no other state to be had */
            show_behind(task);
            task_fail(task, actions, now_ms + TASK_RECHECK_MS, now_ms);
        }
        return false;
    }
    return true;
}

/* A job without state needs nothing before T1. */
static void skip_to_committed(struct task *task)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_partition *partition = &task->partitions[i];

        if (!partition->owned)
            continue;
        if (partition->t1 != partition->position)
            task->assigned = false;
        partition->position = partition->checkpointed = partition->t1;
    }
}

/*
 * at_least_once, while at work: a commit of a zombie, or one of ours that was long on its way, has
 * landed last. It is put right at once: a successor without our state would start there, and a
 * zombie that sees no newer stamp goes on. What a tool committed is left as it is.
 */
static void watch_committed(struct task *task, const struct task_event *event)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        const struct task_committed *committed = &event->committed[i];

        if (!task->partitions[i].owned || !committed->stamped ||
            (committed->offset == task->partitions[i].t1 &&
             committed->stamp.epoch == task->epoch_working))
            continue;
        task->commit_all = true;
        task->commit_due_ms = event->now_ms;
    }
}

void task_committed_read(struct task *task, const struct task_event *event,
                         struct task_actions *actions)
{
    if (task->phase.state == TASK_PHASE_COMMITTED)
        task_find_given(task, event, actions);
    if (find_fence(task, event, actions))
        return;
    task_clear_problem_of(task, "kafka_unreachable");
    task_clear_problem_of(task, "kafka_unauthorized");
    task_clear_problem_of(task, "blocked_by_open_transaction");
    if (task->phase.state == TASK_PHASE_ACTIVE)
        watch_committed(task, event);
    if (task->phase.state != TASK_PHASE_COMMITTED)
        return;
    if (!take_committed(task, event, actions) || !task_take_stamped(task, event, actions) ||
        !task_take_inherited(task, actions, event->now_ms))
        return;
    if (!task->config.stateful)
        skip_to_committed(task);
    if (!settle_ahead(task, actions, event->now_ms))
        return;
    task_judge_trailing(task);
    for (size_t i = 0; i < task->partition_count; i++) {
        if (!task->partitions[i].given)
            task->partitions[i].limit = task->partitions[i].t1;
    }
    if (!task->assigned && (task->config.stateful || !task->foreign)) {
        task_push(actions, TASK_ACTION_ASSIGN);
        task->assigned = true;
    }
    task_move(task, TASK_PHASE_REPLAY, event->now_ms);
    if (!task_is_trailing(task)) /* else it is due as before */
        task->checkpoint_due_ms = event->now_ms + task->config.checkpoint_interval_ms;
    task_replay_check(task, actions, event->now_ms);
}

/* All of S1 at T1: lifts the limits, unless the job is paused. The first commit follows with the
 * next tick, after one round of reading, so it may carry output. */
void task_replay_check(struct task *task, struct task_actions *actions, int64_t now_ms)
{
    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].position < task->partitions[i].limit)
            return;
    }
    if (!task_judge_replay(task, actions, now_ms))
        return;
    if (task->foreign) { /* nobody's offsets are overwritten */
        task_rest(task, actions, now_ms);
        return;
    }
    for (size_t i = 0; i < task->partition_count; i++) {
        if (task->partitions[i].owned && !task->desired.paused)
            task->partitions[i].limit = TASK_UNLIMITED;
    }
    task->commit_all = true;
    task->commit_due_ms = now_ms;
    task_move(task, TASK_PHASE_STAMP, now_ms);
}
