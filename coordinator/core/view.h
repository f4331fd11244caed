/*
 * The views of api/types.h that are made from one row: what the core answers with, what the shell
 * publishes, and what the store's history pages hold are the same. Pure; the owner thread.
 */
#ifndef BATON_COORDINATOR_CORE_VIEW_H
#define BATON_COORDINATOR_CORE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/cluster.h"

/* Free with schema_free(&schema_job_view) and schema_free(&schema_operation_view), ... */
void view_job(const struct job_row *row, struct job_view *ret_view);
/* Without what the cluster tells of one under way (waiting, handoff, eta_ms, cancellable and what
 * to do about it): coordinator/publish.h adds that. */
void view_operation(const struct operation_row *row, struct operation_view *ret_view);
/* Without what only reports tell (lag, rate, what it waits for): those are unknown. */
void view_handoff(const struct handoff_row *row, struct handoff_view *ret_view);

void view_skip(const struct job_row *job, const struct skip_row *row, struct skip_view *ret_view);
void view_pause(const struct hold *hold, struct pause_view *ret_view);
void view_maintenance(const struct maintenance_row *row, struct maintenance_view *ret_view);
void view_eligibility(const struct agent_row *row, struct eligibility_view *ret_view);
/* With what it has still; how far that is, coordinator/publish_drain.c adds. */
void view_drain(const struct cluster *cluster, const struct agent *agent,
                struct drain_view *ret_view);

/* "op-<number>", as operations are named outside: free(). */
char *view_operation_name(uint64_t id);
/* The way back; false when `text` is not of that form. */
bool view_operation_parse(const char *text, uint64_t *ret_id);

const char *view_operation_kind(enum operation_kind kind); /* "create_job", ... */
bool view_operation_finished(enum operation_state state);  /* succeeded, failed, cancelled */

#endif
