/* One job as readers see it: placement and observation joined. Internal to publish; owner thread.
 */
#ifndef BATON_COORDINATOR_PUBLISH_JOB_H
#define BATON_COORDINATOR_PUBLISH_JOB_H

#include "api/text.h"
#include "coordinator/publish.h"

struct view_trend {      /* of one processor's lag */
    int64_t at;          /* of the report; API_UNKNOWN: none */
    int64_t lag_records; /* API_UNKNOWN: not known */
    double per_s;        /* how fast it changes, smoothed; below 0: it shrinks */
};

/* `before` is the job's view that was published last, or NULL. */
struct view_job *publish_make_job(const struct cluster *cluster, const struct job *job,
                                  const struct view_job *before, int64_t now_ms);
void publish_free_job(struct view_job *view);

/* All that is wrong with the job, into view->problems; publish_problems.c. */
void publish_find_problems(const struct cluster *cluster, const struct job *job, int64_t now_ms,
                           struct view_job *view);

/* The settle window of the partition that the view is of; publish_window.c. */
void publish_fill_window(const struct job *job, uint32_t topic, struct partition_view *view);
void publish_sum_windows(const struct job *job, struct job_status *status); /* of all */

/* What the core has noted of an operation that does not get on, without "waits: "; borrowed. */
const char *publish_obstacle(const struct operation_row *row);

#endif
