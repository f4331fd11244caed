/*
 * What step_recovery.c, step_recovered.c and the rest of coord_step need of each other. Internal to
 * coordinator/core.
 */
#ifndef BATON_COORDINATOR_CORE_STEP_RECOVERY_H
#define BATON_COORDINATOR_CORE_STEP_RECOVERY_H

#include "coordinator/core/step_internal.h"

/* ---- step_recovery.c */

void step_recovery_begin(struct step *step);  /* after a start: VERIFYING or COLLECTING, or NONE */
void step_recovery(struct step *step);        /* any event in another state than NONE */
void step_recovery_verify(struct step *step); /* NONE: goes on asking Kafka, if it has to */
bool step_recovery_result(struct step *step); /* false: it is of a call of others */
int64_t step_recovery_wake(const struct cluster *cluster); /* INT64_MAX: never */

/*
 * NONE: an agent of this cluster goes by a document of this version and has tasks of this highest
 * epoch. True: the database is older than that; the request is answered, and nothing is to be
 * decided any more.
 */
bool step_recovery_doubt(struct step *step, const char *agent_id, struct document_version version,
                         uint64_t epoch);
/*
 * The same of a poll or a report. A start of the agent that is not the registered one may be of
 * another cluster, or of a later time: it is told to register, not that it was superseded, which
 * would end it.
 */
bool step_recovery_doubt_heard(struct step *step, const char *incarnation,
                               struct document_version version, uint64_t epoch);
/* The registration is of an agent that works for another cluster, which an event says now and then.
 */
bool step_recovery_is_foreign(struct step *step);

/* NULL: was not asked for. */
struct recovery_stamps *step_recovery_stamps(const struct cluster *cluster, const char *job,
                                             const char *incarnation);

/* ---- step_recovered.c */

/* Why what was collected can not be brought together, in words: free(). NULL: it can. */
char *step_recovered_obstacle(const struct cluster *cluster);
/* Epochs, jobs, agents and placements become what was collected. */
void step_recovered(struct step *step);
/* The agent's document has this incarnation of the job. */
bool step_recovered_knows(const struct agent_registration *said, const struct job *job);

/* ---- step_recovered_bounds.c */

/* Up to where processors inherit. After the jobs have the counts that they have. */
void step_recovered_bounds(struct step *step);

/* ---- step_recovered_skips.c */

/* Once the jobs are recovered, and before agents get new documents. */
void step_recovered_skips(struct step *step);

/* ---- step.c: the rest of a start, once the database is known to be the newest */
void step_begin_work(struct step *step);

#endif
