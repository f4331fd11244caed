#include "common/fsm.h"

#include <criterion/criterion.h>
#include <signal.h>

enum { DOOR_OPEN, DOOR_CLOSED, DOOR_LOCKED, DOOR_COUNT };

static const struct fsm_table door = {
    .name = "door",
    .state_count = DOOR_COUNT,
    .states =
        {
            [DOOR_OPEN] = {"open", FSM_BIT(DOOR_CLOSED)},
            [DOOR_CLOSED] = {"closed", FSM_BIT(DOOR_OPEN) | FSM_BIT(DOOR_LOCKED)},
            [DOOR_LOCKED] = {"locked", FSM_BIT(DOOR_CLOSED)},
        },
};

Test(fsm, allows_what_the_table_says)
{
    static const bool allowed[DOOR_COUNT][DOOR_COUNT] = {
        [DOOR_OPEN] = {false, true, false},
        [DOOR_CLOSED] = {true, false, true},
        [DOOR_LOCKED] = {false, true, false},
    };
    for (int from = 0; from < DOOR_COUNT; from++) {
        struct fsm fsm;
        fsm_init(&fsm, &door, from, 0);
        for (int to = 0; to < DOOR_COUNT; to++)
            cr_assert_eq(fsm_allows(&fsm, to), allowed[from][to], "%d to %d", from, to);
        cr_assert_not(fsm_allows(&fsm, -1));
        cr_assert_not(fsm_allows(&fsm, DOOR_COUNT));
        cr_assert_not(fsm_allows(&fsm, FSM_STATES_MAX));
    }
}

Test(fsm, moves_and_measures)
{
    struct fsm fsm;
    fsm_init(&fsm, &door, DOOR_OPEN, 1000);
    cr_assert_eq(fsm.state, DOOR_OPEN);
    cr_assert_eq(fsm.since_ms, 1000);

    cr_assert_eq(fsm_move(&fsm, DOOR_CLOSED, 1250), 250);
    cr_assert_eq(fsm.state, DOOR_CLOSED);
    cr_assert_eq(fsm_move(&fsm, DOOR_LOCKED, 1250), 0);
    cr_assert_eq(fsm_move(&fsm, DOOR_CLOSED, 9000), 7750);
    cr_assert_eq(fsm.since_ms, 9000);
    /* Goal: a clock that was set back gives no negative time, and counts on from there. */
    cr_assert_eq(fsm_move(&fsm, DOOR_OPEN, 8000), 0);
    cr_assert_eq(fsm_move(&fsm, DOOR_CLOSED, 8100), 100);
}

Test(fsm, names_its_states)
{
    cr_assert_str_eq(fsm_state_name(&door, DOOR_OPEN), "open");
    cr_assert_str_eq(fsm_state_name(&door, DOOR_LOCKED), "locked");
}

/* A table may use all 32 states. */
Test(fsm, takes_a_full_table)
{
    struct fsm_table ring = {.name = "ring", .state_count = FSM_STATES_MAX};
    struct fsm fsm;
    for (int i = 0; i < FSM_STATES_MAX; i++) {
        ring.states[i].name = "state";
        ring.states[i].next = FSM_BIT((i + 1) % FSM_STATES_MAX);
    }
    fsm_init(&fsm, &ring, 0, 0);
    for (int i = 1; i <= FSM_STATES_MAX; i++)
        cr_assert_eq(fsm_move(&fsm, i % FSM_STATES_MAX, i), 1);
}

/* Illegal changes and tables are our own mistakes: the process ends where they are made. */
Test(fsm, illegal_move_aborts, .signal = SIGABRT)
{
    struct fsm fsm;
    fsm_init(&fsm, &door, DOOR_OPEN, 0);
    (void)fsm_move(&fsm, DOOR_LOCKED, 1);
}

Test(fsm, moving_to_itself_aborts, .signal = SIGABRT)
{
    struct fsm fsm;
    fsm_init(&fsm, &door, DOOR_OPEN, 0);
    (void)fsm_move(&fsm, DOOR_OPEN, 1);
}

Test(fsm, unknown_first_state_aborts, .signal = SIGABRT)
{
    struct fsm fsm;
    fsm_init(&fsm, &door, DOOR_COUNT, 0);
}

Test(fsm, unknown_state_has_no_name, .signal = SIGABRT)
{
    (void)fsm_state_name(&door, DOOR_COUNT);
}

Test(fsm, table_with_a_loop_aborts, .signal = SIGABRT)
{
    struct fsm_table table = door;
    struct fsm fsm;
    table.states[DOOR_OPEN].next |= FSM_BIT(DOOR_OPEN);
    fsm_init(&fsm, &table, DOOR_CLOSED, 0);
}

Test(fsm, table_with_an_unknown_successor_aborts, .signal = SIGABRT)
{
    struct fsm_table table = door;
    struct fsm fsm;
    table.states[DOOR_OPEN].next |= FSM_BIT(DOOR_COUNT);
    fsm_init(&fsm, &table, DOOR_CLOSED, 0);
}

Test(fsm, table_without_a_name_aborts, .signal = SIGABRT)
{
    struct fsm_table table = door;
    struct fsm fsm;
    table.states[DOOR_LOCKED].name = NULL;
    fsm_init(&fsm, &table, DOOR_CLOSED, 0);
}
