/*
 * Order across an expansion of partitions (D3.9), and the settle windows of those that have
 * children (D4).
 *
 * A key moves from a partition (an ancestor) to a new one (its descendant) when its producer hears
 * of the new count. A record of a descendant is applied only after everything that was in any of
 * its ancestors when it was there, so that each producer's order of a key holds. `clear` of a
 * descendant says how far that is known: records at or past it are not applied. It is raised by a
 * gate: "what lies before `gate` was there at a moment at which the ancestors ended at `needs`; so
 * it may be applied once they are applied up to there". One gate at a time, kept until it opens:
 * otherwise a steady stream into an ancestor would put it off for ever.
 *
 * - Live, while a window of an ancestor is open: one answer of the brokers is a gate. The observer
 *   asks for stable ends first, and for ends afterwards: what lies below the stable end of the
 *   descendant was there when the ancestors' ends were asked for. The ends are high watermarks: an
 *   open transaction on an ancestor holds the descendants (S44).
 * - Replaying or learning: T1 of the descendant, and of each ancestor min(its fence, T1): what the
 *   owner had committed at one moment it had applied in this order. Past the fence the ancestor has
 *   no records of the descendant's keys, but such as were counted and reported.
 * - An ancestor that another processor owns (task_inherit.c): its bound, once that is decided.
 * - Live, and every window is closed: no bound.
 */
#include "agent/core/task_internal.h"

#include <assert.h>

static bool is_descendant(const struct task_partition *partition)
{
    return partition->parent != TASK_NO_PARENT;
}

/* An ancestor that nobody has told anything about is as one whose window has just been opened. */
bool task_is_settled(const struct task_window *window)
{
    return window->told && window->fence != API_UNKNOWN && !window->stale;
}

/* Of an inherited one everything that counts has been applied before the task was active. */
static bool ancestors_settled(const struct task *task, const struct task_partition *partition)
{
    for (size_t i = partition->parent; i != TASK_NO_PARENT; i = task->partitions[i].parent) {
        if (task->partitions[i].owned && !task_is_settled(&task->partitions[i].window))
            return false;
    }
    return true;
}

/* ---- gates */

static void close_gate(struct task_partition *partition)
{
    partition->clear = partition->position;
    partition->gate = API_UNKNOWN;
}

/* How far the ancestor must be applied; API_UNKNOWN: nobody knows yet. */
static int64_t needed_of(const struct task *task, const struct task_partition *ancestor)
{
    const struct task_window *window = &ancestor->window;

    if (task_is_inherited(ancestor) && ancestor->bound != API_UNKNOWN)
        return ancestor->bound;
    if (task->order == TASK_ORDER_LIVE)
        return ancestor->range.end;
    return window->told && window->fence != API_UNKNOWN && window->fence < ancestor->t1
               ? window->fence
               : ancestor->t1;
}

static void set_gate(const struct task *task, struct task_partition *partition)
{
    int64_t to = task->order == TASK_ORDER_LIVE ? partition->range.stable_end : partition->t1;
    size_t count = 0;

    if (to == API_UNKNOWN || to <= partition->clear)
        return;
    for (size_t i = partition->parent; i != TASK_NO_PARENT; i = task->partitions[i].parent) {
        assert(count < TASK_ANCESTORS_MAX);
        partition->needs[count] = needed_of(task, &task->partitions[i]);
        if (partition->needs[count++] == API_UNKNOWN)
            return;
    }
    partition->gate = to;
}

static bool is_open(const struct task *task, const struct task_partition *partition)
{
    size_t count = 0;

    for (size_t i = partition->parent; i != TASK_NO_PARENT; i = task->partitions[i].parent) {
        if (task->partitions[i].position < partition->needs[count++])
            return false;
    }
    return true;
}

static void pass_gate(struct task *task, struct task_partition *partition)
{
    if (partition->gate == API_UNKNOWN)
        set_gate(task, partition);
    if (partition->gate == API_UNKNOWN || !is_open(task, partition))
        return;
    if (partition->gate > partition->clear) {
        partition->clear = partition->gate;
        task->cleared = true;
    }
    partition->gate = API_UNKNOWN;
}

static void order_live(struct task *task, struct task_partition *partition)
{
    if (ancestors_settled(task, partition)) {
        task->cleared = task->cleared || partition->clear != TASK_UNLIMITED;
        partition->clear = TASK_UNLIMITED;
        return;
    }
    if (partition->clear == TASK_UNLIMITED || task->config.hold_descendants)
        close_gate(partition);
    if (!task->config.hold_descendants)
        pass_gate(task, partition);
}

static enum task_order order_of(const struct task *task)
{
    switch (task->phase.state) {
    case TASK_PHASE_LEARN:
    case TASK_PHASE_REPLAY:
        return TASK_ORDER_REPLAY;
    case TASK_PHASE_STAMP:
    case TASK_PHASE_ACTIVE:
        return TASK_ORDER_LIVE;
    default:
        return TASK_ORDER_NONE;
    }
}

void task_order(struct task *task, int64_t now_ms)
{
    enum task_order before = task->order;

    task->order = order_of(task);
    for (size_t i = 0; i < task->partition_count && task->order != before; i++) {
        struct task_partition *partition = &task->partitions[i];

        close_gate(partition);
        /* What an owner before has met it may not have lived to tell: the time begins anew. */
        partition->window.quiet_ms = now_ms;
        partition->window.mark = API_UNKNOWN;
    }
    for (size_t i = 0; i < task->partition_count && task->has_descendants; i++) {
        struct task_partition *partition = &task->partitions[i];

        if (!is_descendant(partition))
            continue;
        if (task->order == TASK_ORDER_NONE)
            close_gate(partition);
        else if (task->order == TASK_ORDER_REPLAY)
            pass_gate(task, partition);
        else
            order_live(task, partition);
    }
}

int64_t task_limit(const struct task *task, size_t index)
{
    const struct task_partition *partition = &task->partitions[index];

    return is_descendant(partition) && partition->clear < partition->limit ? partition->clear
                                                                           : partition->limit;
}

bool task_awaits_order(const struct task *task, size_t index)
{
    const struct task_partition *partition = &task->partitions[index];

    return task->order == TASK_ORDER_LIVE && is_descendant(partition) &&
           partition->clear < partition->limit && partition->gate == API_UNKNOWN &&
           !task->config.hold_descendants;
}

bool task_take_cleared(struct task *task)
{
    bool cleared = task->cleared;

    task->cleared = false;
    return cleared;
}

/* ---- windows */

/* One past the fence: a replay would not wait for it, so the window is to be opened again. It may
 * have come before the fence was told, and be told of with the next report. */
static void tell_late(struct task_window *window)
{
    if (window->told && window->fence != API_UNKNOWN && window->old_offset >= window->fence)
        window->stale = true;
}

void task_tell_window(struct task *task, size_t index, const struct task_window *told,
                      int64_t now_ms)
{
    struct task_window *window = &task->partitions[index].window;
    bool same = window->told && told->told && window->number == told->number;

    if (!same)
        *window = (struct task_window){.quiet_ms = now_ms,
                                       .mark = API_UNKNOWN,
                                       .old_records = window->old_records,
                                       .old_at = window->old_at,
                                       .old_offset = window->old_offset};
    window->told = told->told;
    window->number = told->number;
    window->first_end = told->first_end;
    window->end = told->end;
    window->fence = told->fence;
    tell_late(window);
}

bool task_meet_old(struct task *task, size_t index, int64_t now_ms, int64_t now_at)
{
    struct task_window *window = &task->partitions[index].window;
    bool late = task_is_settled(window);

    window->old_records++;
    window->old_at = now_at;
    window->old_offset = task->partitions[index].position - 1;
    window->quiet_ms = now_ms;
    window->mark = API_UNKNOWN;
    window->stale = window->stale || late;
    return late;
}

void task_meet_old_again(struct task *task, size_t index)
{
    struct task_window *window = &task->partitions[index].window;

    window->old_offset = task->partitions[index].position - 1;
    tell_late(window);
}

void task_find_settled(struct task *task)
{
    if (task->order != TASK_ORDER_LIVE)
        return;
    for (size_t i = 0; i < task->partition_count; i++) {
        struct task_window *window = &task->partitions[i].window;

        if (window->told && window->fence == API_UNKNOWN && window->mark == API_UNKNOWN &&
            task->asked_ms - window->quiet_ms >= task->config.settle_ms)
            window->mark = task->partitions[i].range.end;
    }
}

int64_t task_settled(const struct task *task, size_t index)
{
    const struct task_partition *partition = &task->partitions[index];
    int64_t mark = partition->window.mark;

    return task->phase.state == TASK_PHASE_ACTIVE && mark != API_UNKNOWN && partition->t1 >= mark
               ? partition->t1
               : API_UNKNOWN;
}
