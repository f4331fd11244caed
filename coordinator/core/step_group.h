/* Others in the groups of running jobs: see step_group.c for the holds and what changes them.
 * Internal to coordinator/core. */
#ifndef BATON_COORDINATOR_CORE_STEP_GROUP_H
#define BATON_COORDINATOR_CORE_STEP_GROUP_H

#include "coordinator/core/step_internal.h"

/* Groups are looked at at all. If not, nothing is ever held for their sake. */
bool step_groups_watched(const struct cluster *cluster);
/* The next look is to be made at once. */
void step_groups_due(struct step *step);
/* When time alone brings the next look; INT64_MAX: never. */
int64_t step_groups_wake(const struct cluster *cluster);
void step_look_at_groups(struct step *step);
/* Of the call of cluster.groups_call. */
void step_groups_result(struct step *step);
/* False: the answer is not to a claim of any job. */
bool step_claim_result(struct step *step);

/* The job was resumed: it goes on when a look that begins now has found its group empty. */
void step_group_wait(struct step *step, struct job *job);

/* ---- elsewhere */

/* step_pause.c: what of the job's hand-overs is before the release comes to nothing. */
void step_hold_back(struct step *step, struct job *job, const char *why);
/* step_pause.c: all owners activate under new epochs. */
void step_give_all_anew(struct step *step, struct job *job, const char *reason);
/* step_operation.c: the stamp of a start offset; free(). */
char *step_start_stamp(const struct job_row *row, uint32_t partition);

#endif
