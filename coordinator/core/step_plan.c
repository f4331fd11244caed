/* Looks ahead, and requests that hold only for what was looked at. */
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/dry_run.h"
#include "coordinator/core/step_internal.h"

void step_plan(struct step *step)
{
    struct plan_view *view = mem_calloc(1, sizeof(*view));
    dry_run(step->cluster, step->event, &step->event->plan_request, view);
    step_answer(step, step->event->request, 200, &schema_plan_view, view);
}

char **step_plan_of(struct coord_event *event)
{
    switch (event->kind) {
    case COORD_EVENT_DRAIN:
        return &event->drain.plan;
    case COORD_EVENT_ELIGIBILITY:
        return &event->eligibility.plan;
    case COORD_EVENT_MOVE:
        return &event->move.plan;
    case COORD_EVENT_REBALANCE:
        return &event->plan;
    default:
        return NULL;
    }
}

bool step_plan_is_stale(struct step *step)
{
    char **plan = step_plan_of(step->event);
    char now[API_PLAN_ID_BYTES + 1];
    if (plan == NULL || *plan == NULL || !dry_run_identify(step->cluster, step->event, now) ||
        strcmp(*plan, now) == 0)
        return false;
    step_problem(step, step->event->request, "plan_stale",
                 "by now it would move something else than plan %s says", *plan);
    return true;
}
