/* How far learners are and what holds them. Internal to publish; owner thread. */
#ifndef BATON_COORDINATOR_PUBLISH_LEARNER_H
#define BATON_COORDINATOR_PUBLISH_LEARNER_H

#include "coordinator/publish_job.h"

/*
 * The numbers of a target that has still to learn, by its newest report (NULL: there is none), into
 * learned_records to incoming_per_s of the view; the others stay as they are.
 */
void publish_measure_learner(const struct cluster *cluster, const struct processor *processor,
                             const struct task_report *report, struct learner_view *view);
/* Sets stuck and waiting by what was measured. */
void publish_explain_learner(const struct cluster *cluster, const struct processor *processor,
                             const struct task_report *report, struct learner_view *view);
/* The code of what keeps a task from getting on, or NULL; borrowed. */
const char *publish_stuck(const struct task_report *report);
/* What it says of that; borrowed. */
const char *publish_detail(const struct task_report *report, const char *code);

/* Those who learn the processor. */
void publish_list_learners(const struct cluster *cluster, const struct job *job,
                           const struct processor *processor, struct processor_view *view);

/* Those who learn it for good. */
void publish_list_standbys(const struct cluster *cluster, const struct job *job,
                           const struct processor *processor, struct processor_view *view);

#endif
