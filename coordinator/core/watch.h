/*
 * What Kafka's description of its topics says is wrong with a job that runs (D3.12): topics that
 * are gone, partitions that nobody reads, history that is not kept. Internal to coordinator/core;
 * a pure function of the job's row and the description.
 */
#ifndef BATON_COORDINATOR_CORE_WATCH_H
#define BATON_COORDINATOR_CORE_WATCH_H

#include "coordinator/core/update.h"

/*
 * Replaces the findings by those of `inspection` (of a KAFKA_CALL_TOPICS of this job). What was
 * found before keeps the time since when it is so.
 */
void watch_judge(const struct job_row *row, const struct kafka_inspection *inspection,
                 int64_t now_at, struct job_topics *topics);

#endif
