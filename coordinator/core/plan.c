#include "coordinator/core/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* An agent with the load that it has once the changes so far are carried out. */
struct candidate {
    const struct plan_agent *agent;
    uint32_t load;
};

struct planning {
    const struct plan_input *input;
    struct candidate *candidates; /* by agent id */
    struct candidate **heap;      /* least loaded first, then by id; only those with room */
    size_t heap_count;
    size_t *order; /* indices of the processors without owner, by job and number */
    size_t order_count;
    struct plan *plan;
};

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    return strcmp(left->agent->agent_id, right->agent->agent_id);
}

static int compare_processors(const void *a, const void *b, void *arg)
{
    const struct plan_processor *processors = arg;
    const struct plan_processor *left = &processors[*(const size_t *)a];
    const struct plan_processor *right = &processors[*(const size_t *)b];
    int order = strcmp(left->job, right->job);
    if (order != 0)
        return order;
    return left->processor < right->processor ? -1 : left->processor > right->processor;
}

static bool has_room(const struct candidate *candidate)
{
    return candidate->load < candidate->agent->capacity;
}

static void prepare(struct planning *planning)
{
    const struct plan_input *input = planning->input;
    planning->candidates = mem_calloc(input->agent_count, sizeof(struct candidate));
    for (size_t i = 0; i < input->agent_count; i++)
        planning->candidates[i] =
            (struct candidate){.agent = &input->agents[i], .load = input->agents[i].load};
    qsort(planning->candidates, input->agent_count, sizeof(struct candidate), compare_candidates);
    planning->order = mem_calloc(input->processor_count, sizeof(size_t));
    for (size_t i = 0; i < input->processor_count; i++)
        if (input->processors[i].owner == NULL)
            planning->order[planning->order_count++] = i;
    qsort_r(planning->order, planning->order_count, sizeof(size_t), compare_processors,
            (void *)input->processors);
}

static void assign(struct planning *planning, size_t processor, struct candidate *candidate,
                   char *reason)
{
    struct plan *plan = planning->plan;
    plan->changes[plan->change_count++] = (struct plan_change){
        .processor = processor, .target = candidate->agent->agent_id, .reason = reason};
    candidate->load++;
}

/* ---- first those whose state is kept somewhere: only there nothing has to be learned */

static struct candidate *find_candidate(struct planning *planning, const char *agent_id)
{
    struct plan_agent agent = {.agent_id = agent_id};
    struct candidate key = {.agent = &agent};
    return bsearch(&key, planning->candidates, planning->input->agent_count,
                   sizeof(struct candidate), compare_candidates);
}

static void place_kept(struct planning *planning)
{
    size_t left = 0;
    for (size_t i = 0; i < planning->order_count; i++) {
        size_t index = planning->order[i];
        const char *kept_on = planning->input->processors[index].kept_on;
        struct candidate *holder = kept_on != NULL ? find_candidate(planning, kept_on) : NULL;
        if (holder != NULL && has_room(holder))
            assign(planning, index, holder,
                   mem_printf("no owner; %s keeps its state", holder->agent->agent_id));
        else
            planning->order[left++] = index;
    }
    planning->order_count = left;
}

/* ---- then the rest, each to the least loaded */

static bool goes_before(const struct candidate *a, const struct candidate *b)
{
    if (a->load != b->load)
        return a->load < b->load;
    return compare_candidates(a, b) < 0;
}

static void sift_down(struct planning *planning, size_t index)
{
    struct candidate **heap = planning->heap;
    for (;;) {
        size_t first = index;
        for (size_t child = index * 2 + 1; child <= index * 2 + 2; child++)
            if (child < planning->heap_count && goes_before(heap[child], heap[first]))
                first = child;
        if (first == index)
            return;
        struct candidate *moved = heap[index];
        heap[index] = heap[first];
        heap[first] = moved;
        index = first;
    }
}

static void build_heap(struct planning *planning)
{
    planning->heap = mem_calloc(planning->input->agent_count, sizeof(struct candidate *));
    for (size_t i = 0; i < planning->input->agent_count; i++)
        if (has_room(&planning->candidates[i]))
            planning->heap[planning->heap_count++] = &planning->candidates[i];
    for (size_t i = planning->heap_count / 2; i-- > 0;)
        sift_down(planning, i);
}

static void place_rest(struct planning *planning)
{
    build_heap(planning);
    size_t i = 0;
    for (; i < planning->order_count && planning->heap_count > 0; i++) {
        struct candidate *least = planning->heap[0];
        assign(planning, planning->order[i], least,
               mem_printf("no owner; %s has the fewest tasks (%u)", least->agent->agent_id,
                          least->load));
        if (!has_room(least))
            planning->heap[0] = planning->heap[--planning->heap_count];
        sift_down(planning, 0);
    }
    uint32_t unplaced = (uint32_t)(planning->order_count - i);
    if (planning->input->agent_count == 0)
        planning->plan->unplaced_no_agent = unplaced;
    else
        planning->plan->unplaced_no_capacity = unplaced;
}

void plan_compute(const struct plan_input *input, struct plan *ret_plan)
{
    struct planning planning = {.input = input, .plan = ret_plan};
    *ret_plan = (struct plan){0};
    prepare(&planning);
    ret_plan->changes = mem_calloc(planning.order_count, sizeof(struct plan_change));
    place_kept(&planning);
    place_rest(&planning);
    free(planning.candidates);
    free(planning.heap);
    free(planning.order);
}

void plan_finish(struct plan *plan)
{
    for (size_t i = 0; i < plan->change_count; i++)
        free(plan->changes[i].reason);
    free(plan->changes);
    *plan = (struct plan){0};
}
