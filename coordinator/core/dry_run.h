/*
 * What a change would move (D5: the planner that decides answers the dry runs, too): the very step
 * that would carry the change out runs on a copy of the cluster, and the copy is compared with what
 * is. Pure; nothing of the cluster changes.
 */
#ifndef BATON_COORDINATOR_CORE_DRY_RUN_H
#define BATON_COORDINATOR_CORE_DRY_RUN_H

#include "coordinator/core/step.h"

/* A request whose fields were checked (dry_run_find_fault); free with schema_free. */
void dry_run(const struct cluster *cluster, const struct coord_event *event,
             const struct plan_request *request, struct plan_view *ret_view);

/* The first field that the change does not take, or lacks, or whose value is out of range, and
 * what is wrong; NULL: the request is fine. Static texts. */
const char *dry_run_find_fault(const struct plan_request *request, const char **ret_detail);

/*
 * The id of what the event would move now, as a plan for the same request has it. False: the
 * request would change nothing, or be refused, so there is nothing that could differ.
 */
bool dry_run_identify(const struct cluster *cluster, const struct coord_event *event,
                      char ret_id[API_PLAN_ID_BYTES + 1]);

/* Where an event that moves something has the plan that it is to come to (step_plan.c); NULL: its
 * kind has none. */
char **step_plan_of(struct coord_event *event);

/* ---- dry_run_moves.c */

/* What differs between a cluster and what has become of it, in the order in which it begins. */
struct plan_moves {
    struct plan_move *items;
    size_t count, capacity;
};
void dry_run_compare(const struct cluster *before, const struct cluster *after,
                     struct plan_moves *ret_moves);
void dry_run_finish_moves(struct plan_moves *moves);
/* Their id: of what moves from where to where, not of reasons, amounts and times. */
void dry_run_hash(const struct plan_moves *moves, char ret_id[API_PLAN_ID_BYTES + 1]);

#endif
