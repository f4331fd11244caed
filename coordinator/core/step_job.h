/* What step_job.c and step_creation.c share. Internal to coordinator/core. */
#ifndef BATON_COORDINATOR_CORE_STEP_JOB_H
#define BATON_COORDINATOR_CORE_STEP_JOB_H

#include "coordinator/core/creation.h"
#include "coordinator/core/step_internal.h"

/* The job gets a new generation with this specification, which is taken; `verdict` NULL: its
 * warnings stay. */
void step_job_update(struct step *step, struct job *job, struct job_spec *spec,
                     struct creation_verdict *verdict, const char *actor);

/* The verdict's warnings become the row's. */
void step_job_take_warnings(struct job_row *row, struct creation_verdict *verdict);

/* All owners of its processors get new documents. */
void step_job_renew_documents(struct step *step, const struct job *job);

#endif
