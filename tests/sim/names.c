/* What traces call events and actions. */
#include "tests/sim/agent_model.h"

#define EVENT(name)  [TASK_EVENT_##name] = #name
#define ACTION(name) [TASK_ACTION_##name] = #name

const char *agent_event_name(enum task_event_kind kind)
{
    static const char *const names[TASK_EVENT_COUNT] = {
        EVENT(START),
        EVENT(TICK),
        EVENT(DESIRED),
        EVENT(FOLLOW),
        EVENT(STOP),
        EVENT(STORE_OPENED),
        EVENT(STORE_FAILED),
        EVENT(STORE_CORRUPT),
        EVENT(RANGES),
        EVENT(RANGES_FAILED),
        EVENT(SEEDED),
        EVENT(SEED_FAILED),
        EVENT(VERIFIED),
        EVENT(VERIFY_MISMATCH),
        EVENT(VERIFY_FAILED),
        EVENT(PRODUCER_READY),
        EVENT(PRODUCER_FENCED),
        EVENT(PRODUCER_FAILED),
        EVENT(COMMITTED_READ),
        EVENT(COMMITTED_FAILED),
        EVENT(COMMIT_DONE),
        EVENT(COMMIT_FENCED),
        EVENT(COMMIT_FAILED),
        EVENT(OUTPUT_FAILED),
        EVENT(ASSIGN_FAILED),
        EVENT(CHECKPOINTED),
        EVENT(CHECKPOINT_FAILED),
        EVENT(STATE_DROPPED),
        EVENT(POSITION_LOST),
        EVENT(RECORD_REFUSED),
        EVENT(FULL),
        EVENT(CLOSED),
    };

    return names[kind];
}

const char *agent_action_name(enum task_action action)
{
    static const char *const names[] = {
        ACTION(OPEN_STORE),      ACTION(QUERY_RANGES), ACTION(VERIFY),        ACTION(OPEN_PRODUCER),
        ACTION(FETCH_COMMITTED), ACTION(ASSIGN),       ACTION(COMMIT),        ACTION(CHECKPOINT),
        ACTION(CLOSE_PRODUCER),  ACTION(DROP_STATE),   ACTION(SET_ASIDE),     ACTION(UNASSIGN),
        ACTION(CLOSE),           ACTION(REPORT),       ACTION(WARM_PRODUCER), ACTION(SEED),
        ACTION(CANCEL_SEED),     ACTION(FORGET),
    };

    return names[action];
}
