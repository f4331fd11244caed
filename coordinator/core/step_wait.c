/* Requests about operations: waiting for one, cancelling one. */
#include "common/mem.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/view.h"

static struct operation *find_asked(struct step *step)
{
    struct operation *operation = cluster_operation(step->cluster, step->event->operation);
    if (operation == NULL)
        step_problem(step, step->event->request, "operation_not_found",
                     "there is no operation op-%llu", (unsigned long long)step->event->operation);
    return operation;
}

void step_answer_ended(struct step *step, uint64_t request, uint64_t id)
{
    const struct operation *operation = cluster_operation(step->cluster, id);
    if (operation != NULL)
        step_answer_operation(step, request, 200, operation);
    else
        step_problem(step, request, "operation_not_found",
                     "operation op-%llu ended and was dropped from memory", (unsigned long long)id);
}

void step_operation_wait(struct step *step)
{
    struct cluster *cluster = step->cluster;
    const struct coord_event *event = step->event;
    const struct operation *operation = find_asked(step);
    if (operation == NULL)
        return;
    if (cluster->operation_waits.count >= OPERATION_WAITS_MAX) {
        step_answer_operation(step, event->request, 200, operation);
        return;
    }
    int64_t wait_ms = event->wait_ms;
    if (wait_ms > cluster->config.poll_wait_ms_max)
        wait_ms = cluster->config.poll_wait_ms_max;
    cluster->operation_waits.items =
        mem_grow(cluster->operation_waits.items, cluster->operation_waits.count,
                 &cluster->operation_waits.capacity, sizeof(struct waiting_operation));
    cluster->operation_waits.items[cluster->operation_waits.count++] =
        (struct waiting_operation){.request = event->request,
                                   .operation = event->operation,
                                   .deadline_ms = event->now_ms + wait_ms};
}

void step_answer_operation_waits(struct step *step)
{
    struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->operation_waits.count;) {
        const struct waiting_operation *wait = &cluster->operation_waits.items[i];
        const struct operation *operation = cluster_operation(cluster, wait->operation);
        if (operation != NULL && !view_operation_finished(operation->row.state) &&
            step->event->now_ms < wait->deadline_ms) {
            i++;
            continue;
        }
        step_answer_ended(step, wait->request, wait->operation);
        cluster_remove_operation_wait(cluster, i);
    }
}

/*
 * Moves, rebalances and expansions can be cancelled as far as nothing is past return. Creations and
 * deletions can not: a creation that is not wanted any more is ended by deleting the job, and a
 * deletion has closed tasks already.
 */
void step_operation_cancel(struct step *step)
{
    const struct operation *operation = find_asked(step);
    if (operation == NULL)
        return;
    const struct operation_row *row = &operation->row;
    if (row->state == OPERATION_STATE_CANCELLED) {
        step_answer_operation(step, step->event->request, 200, operation);
        return;
    }
    if (!view_operation_finished(row->state) &&
        (row->kind == OPERATION_KIND_MOVE || row->kind == OPERATION_KIND_REBALANCE)) {
        step_cancel_move(step, cluster_operation(step->cluster, row->id));
        return;
    }
    if (!view_operation_finished(row->state) && row->kind == OPERATION_KIND_EXPAND_PARTITIONS) {
        step_cancel_partitions(step, cluster_operation(step->cluster, row->id));
        return;
    }
    if (!view_operation_finished(row->state) && row->kind == OPERATION_KIND_EXPAND_PROCESSORS) {
        step_cancel_expansion(step, cluster_operation(step->cluster, row->id));
        return;
    }
    const char *why = "it has ended already";
    if (!view_operation_finished(row->state))
        why = row->kind == OPERATION_KIND_CREATE_JOB
                  ? "delete the job instead, which ends its creation"
                  : "a deletion closes the job's tasks at once and can not be undone";
    step_problem(step, step->event->request, "operation_not_cancellable", "op-%llu: %s",
                 (unsigned long long)row->id, why);
}
