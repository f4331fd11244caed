/*
 * Owners for processors that have none, or whose owner is gone.
 *
 * First those whose state is somewhere: only there nothing, or little, has to be learned. The rest
 * goes to the least loaded, in three steps. How many each agent gets of all jobs together makes the
 * loads even; which of these are of which job then keeps every job spread as well as that allows;
 * at last each processor goes to the least loaded of those that get one of its job.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/plan_internal.h"

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
    item->movable = item->homeless = false;
    item->placed = true;
    /* Its learner there has taken the room already. */
    if (item->target != at) {
        candidate->tasks++;
        candidate->total++;
    }
}

/* ---- where the state is */

static bool target_may_take(const struct planning *planning, const struct item *item)
{
    return item->target != PLAN_NOBODY && !planning->candidates[item->target].agent->cordoned;
}

/* The learner, unless somebody else's kept state is known to be further. */
static bool learner_is_best(const struct item *item, size_t keeper)
{
    const struct plan_processor *processor = item->processor;
    return keeper == PLAN_NOBODY || processor->behind <= processor->kept_behind;
}

/* One that is ready goes before all others: it works, which a state on a disk has still to show.
 * Its place is there already, and the standby gives it up for that. */
static void place_on_standby(struct planning *planning, struct item *item)
{
    const struct plan_processor *processor = item->processor;
    size_t holder = plan_find_candidate(planning, processor->standby_on);
    if (holder == PLAN_NOBODY || planning->candidates[holder].agent->cordoned)
        return;
    bool learner = target_may_take(planning, item) && processor->behind < processor->standby_behind;
    bool keeper = processor->kept_behind < processor->standby_behind;
    if (processor->standby_ready || (!learner && !keeper))
        place(planning, item, holder, mem_printf("%s has its standby", processor->standby_on));
}

static void place_known(struct planning *planning, struct item *item)
{
    size_t keeper = plan_find_candidate(planning, item->processor->kept_on);
    if (keeper != PLAN_NOBODY && keeper != item->target &&
        !plan_has_room(&planning->candidates[keeper]))
        keeper = PLAN_NOBODY;
    if (target_may_take(planning, item) && learner_is_best(item, keeper))
        place(planning, item, item->target,
              mem_printf("%s has learned it", item->processor->target));
    else if (keeper != PLAN_NOBODY && (keeper != item->target || target_may_take(planning, item)))
        place(planning, item, keeper, mem_printf("%s keeps its state", item->processor->kept_on));
}

/* ---- the least loaded */

struct heap {
    struct candidate **items;
    size_t count;
    bool (*goes_before)(const struct candidate *a, const struct candidate *b);
};

static void sift_down(struct heap *heap, size_t index)
{
    for (;;) {
        size_t first = index;
        for (size_t child = index * 2 + 1; child <= index * 2 + 2; child++)
            if (child < heap->count && heap->goes_before(heap->items[child], heap->items[first]))
                first = child;
        if (first == index)
            return;
        struct candidate *moved = heap->items[index];
        heap->items[index] = heap->items[first];
        heap->items[first] = moved;
        index = first;
    }
}

/* Of those candidates that `belongs` picks. */
static struct heap
build_heap(struct planning *planning, bool (*belongs)(const struct candidate *candidate),
           bool (*goes_before)(const struct candidate *a, const struct candidate *b))
{
    struct heap heap = {.goes_before = goes_before};
    heap.items = mem_calloc(planning->input->agent_count, sizeof(struct candidate *));
    for (size_t i = 0; i < planning->input->agent_count; i++)
        if (belongs(&planning->candidates[i]))
            heap.items[heap.count++] = &planning->candidates[i];
    for (size_t i = heap.count / 2; i-- > 0;)
        sift_down(&heap, i);
    return heap;
}

/* The first one has changed; it goes when it does not belong any more. */
static void settle_first(struct heap *heap, bool belongs)
{
    if (!belongs)
        heap->items[0] = heap->items[--heap->count];
    sift_down(heap, 0);
}

static bool has_less_tasks(const struct candidate *a, const struct candidate *b)
{
    return a->tasks != b->tasks ? a->tasks < b->tasks : plan_compare_candidates(a, b) < 0;
}

static bool has_less_of_the_job(const struct candidate *a, const struct candidate *b)
{
    if (a->in_job != b->in_job)
        return a->in_job < b->in_job;
    if (a->share != b->share)
        return a->share > b->share;
    return plan_compare_candidates(a, b) < 0;
}

static bool has_share(const struct candidate *candidate)
{
    return candidate->share > 0;
}

static bool has_share_in_job(const struct candidate *candidate)
{
    return candidate->share_in_job > 0;
}

/* How many of `count` processors each agent gets; returns how many of them there is room for. */
static size_t share_out(struct planning *planning, size_t count)
{
    struct heap heap = build_heap(planning, plan_has_room, has_less_tasks);
    size_t placed = 0;
    for (; placed < count && heap.count > 0; placed++) {
        struct candidate *least = heap.items[0];
        least->share++;
        least->tasks++;
        settle_first(&heap, plan_has_room(least));
    }
    free(heap.items);
    for (size_t i = 0; i < planning->input->agent_count; i++)
        planning->candidates[i].tasks -= planning->candidates[i].share;
    return placed;
}

/* Which of their shares are of this job: it stays as even as the shares allow. */
static void share_job(struct planning *planning, size_t count)
{
    struct heap heap = build_heap(planning, has_share, has_less_of_the_job);
    for (; count > 0; count--) {
        struct candidate *least = heap.items[0];
        least->share--;
        least->share_in_job++;
        least->in_job++;
        settle_first(&heap, has_share(least));
    }
    free(heap.items);
}

static void place_job(struct planning *planning, const struct job_range *job)
{
    size_t count = 0;
    for (size_t i = 0; i < job->count; i++)
        count += job->items[i].homeless;
    if (count == 0)
        return;
    share_job(planning, count);
    struct heap heap = build_heap(planning, has_share_in_job, has_less_tasks);
    for (size_t i = 0; i < job->count; i++) {
        if (!job->items[i].homeless)
            continue;
        struct candidate *least = heap.items[0];
        place(planning, &job->items[i], (size_t)(least - planning->candidates),
              mem_printf("%s has the fewest tasks (%u)", least->agent->agent_id, least->tasks));
        least->share_in_job--;
        settle_first(&heap, has_share_in_job(least));
    }
    free(heap.items);
}

/* Those that nobody has room for are the last ones, by job and number. */
static void leave_rest(struct planning *planning, size_t room)
{
    uint32_t unplaced = 0;
    for (size_t i = 0; i < planning->input->processor_count; i++) {
        struct item *item = &planning->items[i];
        if (!item->homeless)
            continue;
        if (room > 0) {
            room--;
            continue;
        }
        item->homeless = false;
        unplaced += item->processor->owner == NULL;
    }
    bool anybody = false;
    for (size_t i = 0; i < planning->input->agent_count; i++)
        anybody = anybody || !planning->input->agents[i].cordoned;
    if (!anybody)
        planning->plan->unplaced_no_agent = unplaced;
    else
        planning->plan->unplaced_no_capacity = unplaced;
}

void plan_place_homeless(struct planning *planning)
{
    size_t count = 0;
    for (size_t i = 0; i < planning->input->processor_count; i++)
        if (planning->items[i].homeless)
            place_on_standby(planning, &planning->items[i]);
    for (size_t i = 0; i < planning->input->processor_count; i++) {
        if (planning->items[i].homeless)
            place_known(planning, &planning->items[i]);
        count += planning->items[i].homeless;
    }
    if (count == 0)
        return;
    leave_rest(planning, share_out(planning, count));
    plan_for_each_job(planning, place_job);
}
