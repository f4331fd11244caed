/*
 * A life cycle as a table: states, allowed successors, time spent in each.
 *
 * One function changes the state. It asserts that the table allows the change (an illegal change is
 * our own mistake) and gives the caller the time spent, for its one trace record. Time comes from
 * the caller, so cores can use it.
 */
#ifndef BATON_COMMON_FSM_H
#define BATON_COMMON_FSM_H

#include <stdbool.h>
#include <stdint.h>

#define FSM_STATES_MAX 32

struct fsm_table {
    const char *name; /* of the life cycle, for traces */
    int state_count;  /* 1..FSM_STATES_MAX */
    struct {
        const char *name;
        uint32_t next; /* bit s is set when state s may follow; a state never follows itself */
    } states[FSM_STATES_MAX];
};

struct fsm {
    const struct fsm_table *table;
    int state;
    int64_t since_ms; /* time of the last change, in the caller's clock */
};

#define FSM_BIT(state) (UINT32_C(1) << (state))

/* Also asserts that the table is well-formed. */
void fsm_init(struct fsm *fsm, const struct fsm_table *table, int state, int64_t now_ms);
bool fsm_allows(const struct fsm *fsm, int state);
/* Asserts fsm_allows; returns the milliseconds spent in the state that is left, 0 when the clock
 * was set back. */
int64_t fsm_move(struct fsm *fsm, int state, int64_t now_ms);
const char *fsm_state_name(const struct fsm_table *table, int state); /* asserts the range */

#endif
