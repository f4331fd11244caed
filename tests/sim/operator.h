/*
 * The people at the API: they create the job, change it, move and even out its processors, cancel
 * what is under way, cordon, drain and forget agents, stop those that are drained, and delete the
 * job in the end. They see what the coordinator publishes, and ask again when no answer comes.
 */
#ifndef BATON_TESTS_SIM_OPERATOR_H
#define BATON_TESTS_SIM_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/step.h"

struct sim_request;
struct world;

struct sim_operator {
    bool wants_job, wants_skip;
    bool wants_pause, wants_maintenance; /* not any more at the end */
    bool reopens;                        /* in the end: nobody is to be cordoned, or to leave ... */
    int leaver;                          /* ... but this one; -1: nobody */
    struct drain_request parting;        /* how it is asked; without a reason */
    int64_t parting_ms;                  /* when that was granted; 0: it was not yet */
    int64_t ask_ms;                      /* not before */
    uint64_t request;                    /* of the wishes above, under way; 0: none */
};

/* What is wanted and not there yet is asked for. */
void operator_turn(struct world *world);
int64_t operator_due_ms(const struct world *world);
void operator_strike(struct world *world); /* one wish, by chance */
/* To that agent; -1: wherever the coordinator likes. */
void operator_move(struct world *world, uint32_t processor, int agent);
void operator_rebalance(struct world *world);
/* In the end this agent is to leave; it is drawn how. */
void operator_send_away(struct world *world, size_t agent);
/* What is not as they want it; NULL: nothing. */
const char *operator_miss(const struct world *world);
/* A process that the coordinator says may be stopped is stopped, in one way or another. */
void operator_stop(struct world *world, size_t agent);
void operator_take(struct world *world, const struct sim_request *request,
                   const struct answer *answer);
void operator_forget(struct world *world); /* no answer will come any more */

#endif
