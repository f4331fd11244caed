/* A drain as readers see it: how far what is left is. Owner thread. */
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/view.h"
#include "coordinator/publish.h"

/* What the hand-over under way says of itself; it takes nothing from it. */
static void complete_left(const struct cluster *cluster, struct drain_left_view *left)
{
    const struct handoff *handoff =
        left->handoff != API_UNKNOWN ? cluster_handoff(cluster, (uint64_t)left->handoff) : NULL;
    if (handoff == NULL)
        return;
    struct handoff_view view;
    view_handoff(&handoff->row, &view);
    publish_complete_handoff(cluster, handoff, &view);
    free(left->waiting);
    free(left->stuck);
    left->waiting = view.waiting;
    left->stuck = view.stuck;
    view.waiting = view.stuck = NULL;
    left->lag_records = view.lag_records;
    left->eta_ms = view.eta_ms;
    schema_free(&schema_handoff_view, &view);
}

/* It is done when the slowest is; of what waits for its turn nobody knows. */
static int64_t estimate(const struct drain_view *view)
{
    int64_t eta_ms = 0;
    for (size_t i = 0; i < view->left.count; i++) {
        if (view->left.items[i].eta_ms == API_UNKNOWN)
            return API_UNKNOWN;
        if (view->left.items[i].eta_ms > eta_ms)
            eta_ms = view->left.items[i].eta_ms;
    }
    return eta_ms;
}

void publish_drains(const struct cluster *cluster, struct view_drains *ret_drains)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster->agents.count; i++)
        count += cluster->agents.items[i]->row.drain.asked;
    ret_drains->count = 0;
    ret_drains->items = mem_calloc(count, sizeof(*ret_drains->items));
    for (size_t i = 0; i < cluster->agents.count; i++) {
        if (!cluster->agents.items[i]->row.drain.asked)
            continue;
        struct drain_view *view = &ret_drains->items[ret_drains->count++];
        view_drain(cluster, cluster->agents.items[i], view);
        for (size_t l = 0; l < view->left.count; l++)
            complete_left(cluster, &view->left.items[l]);
        if (view->left.count > 0)
            view->eta_ms = estimate(view);
    }
}
