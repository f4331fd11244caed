/*
 * Cordons: whether an agent may receive processors. What holds is of the agent's id, so that it
 * outlives its starts and the coordinator's. What a cordon cancels, step_advance_handoffs does.
 */
#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/view.h"

static void answer(struct step *step, const struct agent *agent)
{
    struct eligibility_view *view = mem_calloc(1, sizeof(*view));
    view_eligibility(&agent->row, view);
    step_answer(step, step->event->request, 200, &schema_eligibility_view, view);
}

static void set(struct step *step, struct agent *agent)
{
    const struct eligibility_request *wish = &step->event->eligibility;
    struct change change = step_agent_change(agent);
    struct agent_eligibility *eligibility = &change.agent.eligibility;
    eligibility->cordoned = !wish->schedulable;
    rows_text_set(&eligibility->reason, wish->reason);
    rows_text_set(&eligibility->actor,
                  step->event->actor != NULL ? step->event->actor : ACTOR_COORDINATOR);
    eligibility->changed_at = step->event->now_at;
    step_change(step, &change);
    bool open = wish->schedulable;
    step_event(step,
               (struct event_about){open ? "agent_uncordoned" : "agent_cordoned",
                                    .agent = agent->row.agent_id},
               "%s", wish->reason != NULL ? wish->reason : "asked for without a reason");
    step->place = true;
}

void step_eligibility(struct step *step)
{
    const struct coord_event *event = step->event;
    struct agent *agent = cluster_agent(step->cluster, event->name);
    if (agent == NULL) {
        step_problem(step, event->request, "agent_not_found", "there is no agent %s", event->name);
        return;
    }
    const struct agent_eligibility *eligibility = &agent->row.eligibility;
    bool cordoned = eligibility->cordoned;
    /* Repeated, it is the same decision still: the first one's time and name stay. */
    if (cordoned == event->eligibility.schedulable ||
        !rows_text_equal(eligibility->reason, event->eligibility.reason))
        set(step, agent);
    if (cordoned && event->eligibility.schedulable)
        step_note_uncordoned(step, agent);
    answer(step, agent);
}
