#include "coordinator/core/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/plan_internal.h"

static int compare_candidates(const void *a, const void *b)
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
    return candidate->tasks < candidate->agent->capacity;
}

size_t plan_find_candidate(const struct planning *planning, const char *agent_id)
{
    if (agent_id == NULL)
        return PLAN_NOBODY;
    struct plan_agent agent = {.agent_id = agent_id};
    struct candidate key = {.agent = &agent};
    const struct candidate *found =
        bsearch(&key, planning->candidates, planning->input->agent_count, sizeof(struct candidate),
                compare_candidates);
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

static void prepare_items(struct planning *planning)
{
    const struct plan_input *input = planning->input;
    planning->items = mem_calloc(input->processor_count, sizeof(struct item));
    for (size_t i = 0; i < input->processor_count; i++) {
        const struct plan_processor *processor = &input->processors[i];
        struct item *item = &planning->items[i];
        *item = (struct item){.processor = processor,
                              .index = i,
                              .owner = plan_find_candidate(planning, processor->owner),
                              .target = plan_find_candidate(planning, processor->target)};
        item->wanted = processor->fixed ? item->target : item->owner;
        item->movable = item->owner != PLAN_NOBODY && !processor->gone && !processor->fixed;
        if (processor->fixed && item->owner != PLAN_NOBODY && item->owner != item->target)
            planning->candidates[item->owner].total--; /* it will have left */
    }
    qsort(planning->items, input->processor_count, sizeof(struct item), compare_items);
}

static void prepare(struct planning *planning)
{
    const struct plan_input *input = planning->input;
    planning->candidates = mem_calloc(input->agent_count, sizeof(struct candidate));
    for (size_t i = 0; i < input->agent_count; i++)
        planning->candidates[i] = (struct candidate){.agent = &input->agents[i],
                                                     .tasks = input->agents[i].load,
                                                     .total = input->agents[i].load};
    qsort(planning->candidates, input->agent_count, sizeof(struct candidate), compare_candidates);
    prepare_items(planning);
}

/* ---- what has no owner, or none any more */

static bool is_homeless(const struct item *item)
{
    return item->processor->owner == NULL || item->processor->gone;
}

static char *say_why(const struct item *item, char *choice)
{
    char *reason = item->processor->owner == NULL
                       ? mem_printf("no owner; %s", choice)
                       : mem_printf("agent %s is gone; %s", item->processor->owner, choice);
    free(choice);
    return reason;
}

/* Takes the text of why it is this one. */
static void place(struct planning *planning, struct item *item, size_t at, char *choice)
{
    struct candidate *candidate = &planning->candidates[at];
    plan_add(planning, PLAN_KIND_PLACE, item, candidate->agent->agent_id, say_why(item, choice));
    item->wanted = at;
    item->movable = false;
    /* Its learner there has taken the room already. */
    if (item->target != at) {
        candidate->tasks++;
        candidate->total++;
    }
}

/* First those whose state is somewhere: only there nothing, or little, has to be learned. */
static void place_known(struct planning *planning, struct item **homeless, size_t *count)
{
    size_t left = 0;
    for (size_t i = 0; i < *count; i++) {
        struct item *item = homeless[i];
        size_t kept = plan_find_candidate(planning, item->processor->kept_on);
        if (item->target != PLAN_NOBODY)
            place(planning, item, item->target,
                  mem_printf("%s has learned it", item->processor->target));
        else if (kept != PLAN_NOBODY && plan_has_room(&planning->candidates[kept]))
            place(planning, item, kept, mem_printf("%s keeps its state", item->processor->kept_on));
        else
            homeless[left++] = item;
    }
    *count = left;
}

struct heap { /* least loaded first, then by id; only those with room */
    struct candidate **items;
    size_t count;
};

static bool goes_before(const struct candidate *a, const struct candidate *b)
{
    if (a->tasks != b->tasks)
        return a->tasks < b->tasks;
    return compare_candidates(a, b) < 0;
}

static void sift_down(struct heap *heap, size_t index)
{
    for (;;) {
        size_t first = index;
        for (size_t child = index * 2 + 1; child <= index * 2 + 2; child++)
            if (child < heap->count && goes_before(heap->items[child], heap->items[first]))
                first = child;
        if (first == index)
            return;
        struct candidate *moved = heap->items[index];
        heap->items[index] = heap->items[first];
        heap->items[first] = moved;
        index = first;
    }
}

static void build_heap(struct planning *planning, struct heap *heap)
{
    heap->items = mem_calloc(planning->input->agent_count, sizeof(struct candidate *));
    for (size_t i = 0; i < planning->input->agent_count; i++)
        if (plan_has_room(&planning->candidates[i]))
            heap->items[heap->count++] = &planning->candidates[i];
    for (size_t i = heap->count / 2; i-- > 0;)
        sift_down(heap, i);
}

/* Then the rest, each to the least loaded. */
static void place_rest(struct planning *planning, struct item **homeless, size_t count)
{
    struct heap heap = {0};
    build_heap(planning, &heap);
    uint32_t unplaced = 0;
    for (size_t i = 0; i < count; i++) {
        if (heap.count == 0) {
            unplaced += homeless[i]->processor->owner == NULL;
            continue;
        }
        struct candidate *least = heap.items[0];
        place(planning, homeless[i], (size_t)(least - planning->candidates),
              mem_printf("%s has the fewest tasks (%u)", least->agent->agent_id, least->tasks));
        if (!plan_has_room(least))
            heap.items[0] = heap.items[--heap.count];
        sift_down(&heap, 0);
    }
    free(heap.items);
    if (planning->input->agent_count == 0)
        planning->plan->unplaced_no_agent = unplaced;
    else
        planning->plan->unplaced_no_capacity = unplaced;
}

static void place_homeless(struct planning *planning)
{
    size_t count = 0;
    struct item **homeless = mem_calloc(planning->input->processor_count, sizeof(struct item *));
    for (size_t i = 0; i < planning->input->processor_count; i++)
        if (is_homeless(&planning->items[i]) && !planning->items[i].processor->fixed)
            homeless[count++] = &planning->items[i];
    place_known(planning, homeless, &count);
    place_rest(planning, homeless, count);
    free(homeless);
}

/* ---- */

void plan_compute(const struct plan_input *input, struct plan *ret_plan)
{
    struct planning planning = {.input = input, .plan = ret_plan};
    *ret_plan = (struct plan){0};
    ret_plan->changes = mem_calloc(input->processor_count, sizeof(struct plan_change));
    prepare(&planning);
    place_homeless(&planning);
    plan_even_out(&planning);
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
