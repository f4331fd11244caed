#include "common/fsm.h"

#include <assert.h>
#include <stddef.h>

static void table_check(const struct fsm_table *table)
{
    assert(table->name != NULL);
    assert(table->state_count >= 1);
    assert(table->state_count <= FSM_STATES_MAX);
    uint32_t known = UINT32_MAX >> (FSM_STATES_MAX - table->state_count);
    for (int i = 0; i < table->state_count; i++) {
        assert(table->states[i].name != NULL);
        assert((table->states[i].next & ~known) == 0);
        assert((table->states[i].next & FSM_BIT(i)) == 0);
    }
}

static bool is_state(const struct fsm_table *table, int state)
{
    return state >= 0 && state < table->state_count;
}

void fsm_init(struct fsm *fsm, const struct fsm_table *table, int state, int64_t now_ms)
{
    table_check(table);
    assert(is_state(table, state));
    *fsm = (struct fsm){.table = table, .state = state, .since_ms = now_ms};
}

bool fsm_allows(const struct fsm *fsm, int state)
{
    return is_state(fsm->table, state) &&
           (fsm->table->states[fsm->state].next & FSM_BIT(state)) != 0;
}

int64_t fsm_move(struct fsm *fsm, int state, int64_t now_ms)
{
    assert(fsm_allows(fsm, state));
    /* A clock that was set back gives no negative durations. */
    int64_t spent_ms = now_ms > fsm->since_ms ? now_ms - fsm->since_ms : 0;
    fsm->state = state;
    fsm->since_ms = now_ms;
    return spent_ms;
}

const char *fsm_state_name(const struct fsm_table *table, int state)
{
    assert(is_state(table, state));
    return table->states[state].name;
}
