/*
 * The life of a hand-over (D4): one move of a processor's partitions from an agent to another.
 *
 *   LEARNING <--> CAUGHT_UP --> RELEASING --> RELEASED <--> ACTIVATING --> DONE
 *       |            |             |             ^    \         /
 *       |            +-- forced ---|-------------+     +-> FAILED
 *       +--------------- forced ---|-------------+
 *       +------------+-------------+--> CANCELLED
 *
 *   LEARNING    the target replays silently; the source works on as if nothing were
 *   CAUGHT_UP   the target's newest report says that it has caught up (D3.5). From a source
 *               that has failed, or is lost, it takes over by force
 *   RELEASING   the source is told to commit and stop; its epoch still holds. Cancelled from here,
 *               the source gets a new epoch: it may have stopped already
 *   RELEASED    the target owns the processor, under a new epoch, durably; nobody works on it
 *   ACTIVATING  the target works towards its first commit under that epoch (D3.1)
 *   DONE        the first commit is there
 *   CANCELLED   the source has the processor, as before
 *   FAILED      after RELEASED the target could not; who owns the processor then is the placement's
 *               to say
 *
 * A job without state starts with RELEASING; a lost agent's processors start with RELEASED, forced.
 * A target that is lost or fenced after RELEASED goes back from ACTIVATING to RELEASED under a new
 * epoch, perhaps on another agent.
 *
 * A learner that fails for a reason that may pass (handoff_is_hopeless says which do not) is tried
 * again by its agent, and the hand-over stays in LEARNING for LEARNER_PATIENCE_MS. A target that
 * can not rebuild the state after a forced RELEASED keeps the hand-over in ACTIVATING until the
 * source, which has the state, is back and gets the processor again.
 *
 * A split makes a processor out of a part of another's partitions (step_split.c):
 *
 *   LEARNING <--> CAUGHT_UP --> RELEASING --> RELEASED <--> ACTIVATING --> DONE
 *       +-------------+--> CANCELLED
 *
 *   RELEASING   the epoch of the new processor is handed out. The parent's owner, whoever that
 *               becomes, is told to put it on the offsets of the partitions that go
 *   RELEASED    it has: in one update the job has a processor more, and the target owns it
 *
 * It is never forced and, once the source was told, never cancelled: the stamp may be there. Until
 * then it waits for whatever happens to its parent. A target that is lost in between is not missed:
 * who owns the new processor is decided at the release.
 *
 * Only reports that match agent, incarnation, epoch and number of the hand-over move it; anything
 * else is an observation. coordinator/core/step_handoff.c performs every transition, by
 * step_handoff_move. Pure.
 */
#ifndef BATON_COORDINATOR_CORE_HANDOFF_H
#define BATON_COORDINATOR_CORE_HANDOFF_H

#include <stdbool.h>

#include "coordinator/core/cluster.h"

extern const struct fsm_table handoff_table; /* states by enum handoff_state */

bool handoff_ended(enum handoff_state state);
/* The source owns the processor: what can still be cancelled. */
bool handoff_before_release(enum handoff_state state);

/* It can still come to nothing. A split whose source has been told can not: some of it may have
 * gone, for good, and nobody knows. */
bool handoff_is_cancellable(const struct handoff_row *row);

/* A task that fails with this problem (NULL: it named none) would fail again, whoever waits: the
 * records that it needs are gone, or are others. */
bool handoff_is_hopeless(const char *code);

/* What the source says of its task speaks for this hand-over. */
bool handoff_is_released(const struct handoff_row *row, const struct task_report *report);
/* What the owner of a split's parent says of its task speaks for the split. */
bool handoff_is_split(const struct handoff_row *row, const struct task_report *report);
/* What the target says of its learner speaks for this hand-over. */
bool handoff_is_of_learner(const struct handoff_row *row, const struct task_report *report);

#endif
