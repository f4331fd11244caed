/*
 * New owners for what agents have that are to leave. This is the one case in which established
 * agents learn: each processor goes to who has a standby of it, else to who keeps its state, else
 * to who has the fewest of the job, where a newcomer counts one less, for it shall get its share
 * anyway.
 */
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/plan_internal.h"

static bool is_refused(const struct planning *planning, const struct item *item,
                       const struct candidate *candidate)
{
    const struct plan_input *input = planning->input;
    return plan_is_refused(input->refusals, input->refusal_count, item->processor->job,
                           candidate->agent->agent_id);
}

static bool may_take(const struct planning *planning, const struct item *item,
                     const struct candidate *candidate)
{
    return !candidate->agent->cordoned && candidate->total < candidate->agent->capacity &&
           !is_refused(planning, item, candidate);
}

static bool is(const struct candidate *candidate, const char *agent_id)
{
    return agent_id != NULL && strcmp(candidate->agent->agent_id, agent_id) == 0;
}

/* How many of the job it has, with what it is owed taken into account. */
static uint32_t weigh(const struct candidate *candidate)
{
    return candidate->in_job * 2 + (candidate->newcomer ? 0 : 1);
}

static bool goes_before(const struct item *item, const struct candidate *a,
                        const struct candidate *b)
{
    bool avoid_a = is(a, item->processor->avoid), avoid_b = is(b, item->processor->avoid);
    if (avoid_a != avoid_b)
        return avoid_b;
    bool holds_a = is(a, item->processor->standby_on), holds_b = is(b, item->processor->standby_on);
    if (holds_a != holds_b)
        return holds_a;
    bool kept_a = is(a, item->processor->kept_on), kept_b = is(b, item->processor->kept_on);
    if (kept_a != kept_b)
        return kept_a;
    if (weigh(a) != weigh(b))
        return weigh(a) < weigh(b);
    return a->total < b->total;
}

static size_t choose_target(const struct planning *planning, const struct item *item)
{
    size_t best = PLAN_NOBODY;
    for (size_t i = 0; i < planning->input->agent_count; i++)
        if (may_take(planning, item, &planning->candidates[i]) &&
            (best == PLAN_NOBODY ||
             goes_before(item, &planning->candidates[i], &planning->candidates[best])))
            best = i;
    return best;
}

static char *say_why(const struct item *item, const char *leaver, const struct candidate *target)
{
    const char *agent_id = target->agent->agent_id;
    if (is(target, item->processor->standby_on))
        return mem_printf("%s is to leave; %s has its standby", leaver, agent_id);
    if (is(target, item->processor->kept_on))
        return mem_printf("%s is to leave; %s keeps its state", leaver, agent_id);
    return mem_printf("%s is to leave; %s has %u processors of the job%s", leaver, agent_id,
                      target->in_job, target->newcomer ? " and is new to it" : "");
}

void plan_leave(struct planning *planning, const struct job_range *job)
{
    for (size_t i = 0; i < job->count; i++) {
        struct item *item = &job->items[i];
        if (!item->movable || !planning->candidates[item->wanted].agent->leaving)
            continue;
        const char *leaver = planning->candidates[item->owner].agent->agent_id;
        size_t to = choose_target(planning, item);
        if (to == PLAN_NOBODY) {
            if (!plan_has_intent(item)) /* else it is cancelled, which says so */
                plan_add(planning, PLAN_KIND_WAIT, item, NULL,
                         mem_printf("%s is to leave, but no agent can take it: the others are "
                                    "cordoned, drained, full, or can not rebuild its state",
                                    leaver));
            continue;
        }
        char *reason = say_why(item, leaver, &planning->candidates[to]);
        plan_decide(planning, item, to, reason);
    }
}
