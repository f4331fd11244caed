/*
 * The parts of a cluster that only coordinator/core changes. Everything durable goes through
 * update_change, which ends in cluster_apply; these are its tools and those for what lives in
 * memory alone.
 */
#ifndef BATON_COORDINATOR_CORE_CLUSTER_INTERNAL_H
#define BATON_COORDINATOR_CORE_CLUSTER_INTERNAL_H

#include "coordinator/core/cluster.h"

/* Finished operations beyond these are in the store alone. */
#define CLUSTER_OPERATIONS_FINISHED_MAX 1000

/* Where it is, or where it would have to be inserted. */
bool cluster_find_job(const struct cluster *cluster, const char *name, size_t *ret_index);
bool cluster_find_agent(const struct cluster *cluster, const char *agent_id, size_t *ret_index);
bool cluster_find_operation(const struct cluster *cluster, uint64_t id, size_t *ret_index);
bool cluster_find_handoff(const struct cluster *cluster, uint64_t id, size_t *ret_index);
bool cluster_find_arrival(const struct job *job, const char *agent_id, size_t *ret_index);
bool cluster_find_standby(const struct processor *processor, const char *agent_id,
                          size_t *ret_index);

void cluster_apply_skip(struct cluster *cluster, struct skip_row *row); /* takes it */
/* The skips of partitions in `read`, for a document: free(). */
struct input_offset *cluster_list_skips(const struct job *job, const struct uint_list *read,
                                        size_t *ret_count);
const char *cluster_check_skips(const struct job *job);
void cluster_finish_skips(struct job *job);

void cluster_apply_window(struct cluster *cluster, struct window_row *row); /* takes it */
/* All windows of the job, for a document: free(). */
struct settle_window *cluster_list_windows(const struct job *job);
const char *cluster_check_windows(const struct job *job);
void cluster_finish_windows(struct job *job);

void cluster_finish_observed(struct processor_observed *observed);
void cluster_finish_standby(struct standby *standby);
void cluster_finish_processor(struct processor *processor);
void cluster_destroy_job(struct job *job);
void cluster_destroy_agent(struct agent *agent);
void cluster_destroy_operation(struct operation *operation);
void cluster_destroy_handoff(struct handoff *handoff);

/* Takes the report, which came as a part of the agent's newest one. */
void cluster_set_observed(struct processor_observed *observed, const struct agent *agent,
                          struct task_report *report);
void cluster_forget_learner(struct processor *processor);
void cluster_clear_findings(struct job_topics *topics);
void cluster_clear_strays(struct agent *agent);
void cluster_clear_kept(struct agent *agent);
/* The agent that this was reported by has no task of it any more, but its state. */
void cluster_note_kept(const struct cluster *cluster, const struct processor_observed *observed);

void cluster_remove_poll(struct cluster *cluster, size_t index);
void cluster_remove_operation_wait(struct cluster *cluster, size_t index);
struct pending_creation cluster_take_creation(struct cluster *cluster, size_t index);
void cluster_finish_creation(struct pending_creation *creation);

/* When an agent that is not heard of until then is lost. */
int64_t cluster_agent_deadline(const struct cluster *cluster, const struct agent *agent);

#endif
