/*
 * What tests of hand-overs share: job j1 with four processors, all on agent a1 and active, and
 * agents a2 and a3 that may come. One world at a time.
 */
#ifndef BATON_TESTS_COORDINATOR_CORE_HANDOFF_RIG_H
#define BATON_TESTS_COORDINATOR_CORE_HANDOFF_RIG_H

#include "coordinator/core/handoff.h"
#include "tests/unit/coordinator/core/world.h"

extern struct world rig_world;
extern const char *const rig_both[],
    *const rig_a1[], *const rig_a2[], *const rig_a2_a3[],
                                          *const rig_three[]; /* agents, NULL after the last */

void rig_setup(void);
void rig_teardown(void);

/* ---- of job j1 */
struct processor *rig_processor(uint32_t number);
const struct placement_row *rig_placement(uint32_t number);
struct handoff *rig_handoff(uint32_t number); /* NULL: none is under way */
void rig_expect_state(uint32_t number, enum handoff_state state);

/* The task of processor 0 in the agent's document. */
void rig_expect_task(const char *agent_id, enum task_role role, uint64_t epoch, bool release);
void rig_expect_no_task(const char *agent_id);

void rig_move(uint32_t number, const char *agent_id); /* a request; NULL: to whom it likes */
void rig_rebalance(void);
void rig_expand(int64_t processors); /* a request */
const struct operation_row *rig_operation(uint64_t id);

/* a2 is there, but not owed anything: only what is asked for moves. */
void rig_add_established(void);
/* All tasks of the agent have failed with this problem; NULL: they name none. */
void rig_fail(const char *agent_id, const char *code);
/* A move of processor 0 from a1 to a2, the newest operation, is brought into this state. */
void rig_bring_to(enum handoff_state state);

#endif
