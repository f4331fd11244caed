#include "coordinator/core/handoff.h"

#include <string.h>

#define NEXT(state) FSM_BIT(HANDOFF_STATE_##state)

const struct fsm_table handoff_table = {
    .name = "handoff",
    .state_count = HANDOFF_STATE_FAILED + 1,
    .states =
        {
            [HANDOFF_STATE_LEARNING] = {"learning",
                                        NEXT(CAUGHT_UP) | NEXT(RELEASED) | NEXT(CANCELLED)},
            [HANDOFF_STATE_CAUGHT_UP] = {"caught_up", NEXT(LEARNING) | NEXT(RELEASING) |
                                                          NEXT(RELEASED) | NEXT(CANCELLED)},
            [HANDOFF_STATE_RELEASING] = {"releasing", NEXT(RELEASED) | NEXT(CANCELLED)},
            [HANDOFF_STATE_RELEASED] = {"released", NEXT(ACTIVATING) | NEXT(FAILED)},
            [HANDOFF_STATE_ACTIVATING] = {"activating", NEXT(RELEASED) | NEXT(DONE) | NEXT(FAILED)},
            [HANDOFF_STATE_DONE] = {"done", 0},
            [HANDOFF_STATE_CANCELLED] = {"cancelled", 0},
            [HANDOFF_STATE_FAILED] = {"failed", 0},
        },
};

bool handoff_ended(enum handoff_state state)
{
    return handoff_table.states[state].next == 0;
}

bool handoff_before_release(enum handoff_state state)
{
    return state == HANDOFF_STATE_LEARNING || state == HANDOFF_STATE_CAUGHT_UP ||
           state == HANDOFF_STATE_RELEASING;
}

bool handoff_is_cancellable(const struct handoff_row *row)
{
    return handoff_before_release(row->state) &&
           (row->kind != HANDOFF_KIND_SPLIT || row->state != HANDOFF_STATE_RELEASING);
}

bool handoff_is_hopeless(const char *code)
{
    static const char *const codes[] = {"history_incomplete", "history_lost", "topic_recreated",
                                        "topic_truncated"};

    for (size_t i = 0; code != NULL && i < sizeof(codes) / sizeof(codes[0]); i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return false;
}

bool handoff_is_released(const struct handoff_row *row, const struct task_report *report)
{
    return row->state == HANDOFF_STATE_RELEASING && report->role == TASK_ROLE_ACTIVE &&
           report->epoch == row->source_epoch && report->handoff == row->id && report->released &&
           report->consuming.count == 0;
}

bool handoff_is_of_learner(const struct handoff_row *row, const struct task_report *report)
{
    return handoff_before_release(row->state) && report->role == TASK_ROLE_LEARNER &&
           report->epoch == 0 && report->handoff == row->id;
}

bool handoff_is_split(const struct handoff_row *row, const struct task_report *report)
{
    if (row->state != HANDOFF_STATE_RELEASING || report->role != TASK_ROLE_ACTIVE ||
        report->epoch != row->source_epoch || report->split != row->id)
        return false;
    for (size_t i = 0; i < report->consuming.count; i++)
        for (size_t k = 0; k < row->partitions.count; k++)
            if (report->consuming.items[i] == row->partitions.items[k])
                return false;
    return true;
}
