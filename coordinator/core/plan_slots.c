/*
 * Which moves begin now. A move needs room on its target; who has none yet, because of what is on
 * its way from there, is waited for: to go elsewhere first would be one move more. And a learner
 * reads as fast as it can, which the active tasks beside it feel: so only so many learn at a time,
 * on an agent and of a job. The others wait for a slot, in the order in which they were decided,
 * and those that may not start do not keep a slot from the rest.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/plan_internal.h"

static int compare_order(const void *a, const void *b)
{
    size_t left = (*(struct item *const *)a)->order, right = (*(struct item *const *)b)->order;
    return left < right ? -1 : left > right;
}

/* The hand-over under way goes on, and its target learns. */
static bool goes_on_learning(const struct item *item)
{
    if (!item->processor->learning || item->processor->target == NULL || item->placed)
        return false;
    return !item->movable || item->wanted == item->target;
}

static uint32_t *count_learners(struct planning *planning)
{
    size_t count = planning->input->processor_count;
    uint32_t *of_jobs = mem_calloc(count, sizeof(uint32_t));
    for (size_t i = 0; i < count; i++) {
        const struct item *item = &planning->items[i];
        if (!goes_on_learning(item))
            continue;
        of_jobs[item->job]++;
        if (item->target != PLAN_NOBODY)
            planning->candidates[item->target].learners++;
    }
    return of_jobs;
}

static bool is_used_up(uint32_t learners, uint32_t max_learners)
{
    return max_learners > 0 && learners >= max_learners;
}

/* Why it can not begin now; NULL: it can. */
static char *say_obstacle(const struct planning *planning, const struct item *item,
                          const uint32_t *of_jobs)
{
    const struct plan_processor *processor = item->processor;
    const struct candidate *target = &planning->candidates[item->wanted];
    const char *agent_id = target->agent->agent_id;
    if (processor->held != NULL)
        return mem_printf("to be handed over to %s; waits: %s", agent_id, processor->held);
    if (processor->resting)
        return mem_printf("to be handed over to %s; waits a while after its last hand-over, which "
                          "came to nothing",
                          agent_id);
    if (!plan_has_room(target))
        return mem_printf(
            "to be handed over to %s; waits for room there: it has %u tasks, which is "
            "its capacity",
            agent_id, target->tasks);
    /* Its standby there learns in any case, in no slot of a hand-over. */
    if (processor->stateless ||
        (processor->standby_on != NULL && strcmp(processor->standby_on, agent_id) == 0))
        return NULL;
    if (is_used_up(target->learners, target->agent->max_learners))
        return mem_printf("to be handed over to %s; waits for a learner slot: %u processors learn "
                          "there, which is the agent's max_learners",
                          agent_id, target->learners);
    if (is_used_up(of_jobs[item->job], processor->max_learners))
        return mem_printf("to be handed over to %s; waits for a learner slot: %u processors of the "
                          "job learn, which is the job's max_learners",
                          agent_id, of_jobs[item->job]);
    return NULL;
}

static void add_move(struct planning *planning, struct item *item, uint32_t *of_jobs)
{
    struct candidate *target = &planning->candidates[item->wanted];
    char *obstacle = say_obstacle(planning, item, of_jobs);
    if (obstacle != NULL) {
        /* Its present hand-over, to another agent, must not come to its end meanwhile. */
        bool cancel = plan_has_intent(item);
        plan_add(planning, cancel ? PLAN_KIND_CANCEL : PLAN_KIND_WAIT, item,
                 cancel ? NULL : target->agent->agent_id, obstacle);
        return;
    }
    target->tasks++;
    if (!item->processor->stateless) {
        target->learners++;
        of_jobs[item->job]++;
    }
    plan_add(planning, PLAN_KIND_HAND_OVER, item, target->agent->agent_id, item->reason);
    item->reason = NULL;
}

void plan_add_moves(struct planning *planning)
{
    size_t count = 0;
    struct item **moved = mem_calloc(planning->input->processor_count, sizeof(struct item *));
    for (size_t i = 0; i < planning->input->processor_count; i++) {
        struct item *item = &planning->items[i];
        bool under_way = plan_has_intent(item) && item->wanted == item->target;
        if (item->movable && item->wanted != item->owner && !under_way)
            moved[count++] = item;
    }
    qsort(moved, count, sizeof(struct item *), compare_order);
    uint32_t *of_jobs = count_learners(planning);
    for (size_t i = 0; i < count; i++)
        add_move(planning, moved[i], of_jobs);
    free(of_jobs);
    free(moved);
}
