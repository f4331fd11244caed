#include "coordinator/core/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/plan_internal.h"

bool plan_is_refused(const struct plan_refusal *refusals, size_t count, const char *job,
                     const char *agent_id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(refusals[i].job, job) == 0 && strcmp(refusals[i].agent_id, agent_id) == 0)
            return true;
    return false;
}

int plan_compare_candidates(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    return strcmp(left->agent->agent_id, right->agent->agent_id);
}

static int compare_items(const void *a, const void *b)
{
    const struct plan_processor *left = ((const struct item *)a)->processor;
    const struct plan_processor *right = ((const struct item *)b)->processor;
    int order = strcmp(left->job, right->job);
    if (order != 0)
        return order;
    return left->processor < right->processor ? -1 : left->processor > right->processor;
}

bool plan_has_room(const struct candidate *candidate)
{
    return !candidate->agent->cordoned && candidate->tasks < candidate->agent->capacity;
}

size_t plan_find_candidate(const struct planning *planning, const char *agent_id)
{
    if (agent_id == NULL)
        return PLAN_NOBODY;
    struct plan_agent agent = {.agent_id = agent_id};
    struct candidate key = {.agent = &agent};
    const struct candidate *found =
        bsearch(&key, planning->candidates, planning->input->agent_count, sizeof(struct candidate),
                plan_compare_candidates);
    return found != NULL ? (size_t)(found - planning->candidates) : PLAN_NOBODY;
}

void plan_add(struct planning *planning, enum plan_kind kind, const struct item *item,
              const char *target, char *reason)
{
    struct plan *plan = planning->plan;
    assert(plan->change_count < planning->input->processor_count);
    plan->changes[plan->change_count++] = (struct plan_change){
        .kind = kind, .processor = item->index, .target = target, .reason = reason};
}

bool plan_has_intent(const struct item *item)
{
    return item->processor->target != NULL && !item->processor->fixed;
}

/* ---- preparing */

static struct item describe(struct planning *planning, size_t index)
{
    const struct plan_processor *processor = &planning->input->processors[index];
    struct item item = {.processor = processor,
                        .index = index,
                        .owner = plan_find_candidate(planning, processor->owner),
                        .target = plan_find_candidate(planning, processor->target)};
    item.wanted = processor->fixed ? item.target : item.owner;
    item.movable = item.owner != PLAN_NOBODY && !processor->gone && !processor->fixed;
    item.homeless = (processor->owner == NULL || processor->gone) && !processor->fixed;
    return item;
}

static void number_jobs(struct planning *planning)
{
    size_t job = 0;
    for (size_t i = 0; i < planning->input->processor_count; i++) {
        if (i > 0 &&
            strcmp(planning->items[i].processor->job, planning->items[i - 1].processor->job) != 0)
            job++;
        planning->items[i].job = job;
    }
}

static void prepare_items(struct planning *planning)
{
    const struct plan_input *input = planning->input;
    planning->items = mem_calloc(input->processor_count, sizeof(struct item));
    for (size_t i = 0; i < input->processor_count; i++) {
        struct item *item = &planning->items[i];
        *item = describe(planning, i);
        if (item->processor->fixed && item->owner != PLAN_NOBODY && item->owner != item->target)
            planning->candidates[item->owner].total--; /* it will have left */
    }
    qsort(planning->items, input->processor_count, sizeof(struct item), compare_items);
    number_jobs(planning);
}

static void prepare(struct planning *planning)
{
    const struct plan_input *input = planning->input;
    planning->candidates = mem_calloc(input->agent_count, sizeof(struct candidate));
    for (size_t i = 0; i < input->agent_count; i++)
        planning->candidates[i] = (struct candidate){.agent = &input->agents[i],
                                                     .tasks = input->agents[i].load,
                                                     .total = input->agents[i].load};
    qsort(planning->candidates, input->agent_count, sizeof(struct candidate),
          plan_compare_candidates);
    prepare_items(planning);
}

/* ---- job by job */

static void mark_newcomers(struct planning *planning, const struct job_range *job)
{
    const struct plan_input *input = planning->input;
    for (size_t i = 0; i < input->newcomer_count; i++) {
        if (strcmp(input->newcomers[i].job, job->items[0].processor->job) != 0)
            continue;
        size_t at = plan_find_candidate(planning, input->newcomers[i].agent_id);
        if (at != PLAN_NOBODY)
            planning->candidates[at].newcomer = !planning->candidates[at].agent->cordoned;
    }
}

static void count_job(struct planning *planning, const struct job_range *job)
{
    for (size_t i = 0; i < planning->input->agent_count; i++) {
        struct candidate *candidate = &planning->candidates[i];
        candidate->in_job = candidate->movable = candidate->intents = 0;
        candidate->newcomer = false;
    }
    for (size_t i = 0; i < job->count; i++) {
        const struct item *item = &job->items[i];
        if (item->wanted == PLAN_NOBODY)
            continue;
        planning->candidates[item->wanted].in_job++;
        planning->candidates[item->wanted].movable += item->movable;
        planning->candidates[item->wanted].intents += item->movable && item->wanted != item->owner;
    }
    mark_newcomers(planning, job);
}

void plan_for_each_job(struct planning *planning,
                       void (*visit)(struct planning *planning, const struct job_range *job))
{
    size_t count = planning->input->processor_count;
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count; end++)
            if (planning->items[end].job != planning->items[first].job)
                break;
        struct job_range job = {.items = &planning->items[first], .count = end - first};
        count_job(planning, &job);
        visit(planning, &job);
    }
}

/* ---- */

void plan_compute(const struct plan_input *input, struct plan *ret_plan)
{
    struct planning planning = {.input = input, .plan = ret_plan};
    *ret_plan = (struct plan){0};
    ret_plan->changes = mem_calloc(input->processor_count, sizeof(struct plan_change));
    prepare(&planning);
    plan_place_homeless(&planning);
    plan_even_out(&planning);
    plan_add_moves(&planning);
    for (size_t i = 0; i < input->processor_count; i++)
        free(planning.items[i].reason);
    free(planning.candidates);
    free(planning.items);
}

void plan_finish(struct plan *plan)
{
    for (size_t i = 0; i < plan->change_count; i++)
        free(plan->changes[i].reason);
    free(plan->changes);
    *plan = (struct plan){0};
}
