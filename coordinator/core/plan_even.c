/*
 * Evening out, towards newcomers only.
 *
 * First, of each job, hand-overs under way that are still of use are kept, the most advanced first,
 * and agents that are to leave are emptied. Then, as long as a newcomer has two of a job's
 * processors less than somebody else, it gets one from who has most; then the same for the
 * processors of all jobs together, where that leaves the job as even as it is. To start takes a
 * difference of two, to be kept a difference of one, so a plan that is carried out in part stays
 * what it was.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/plan_internal.h"

/* ---- counting */

/* Hand-overs that may be taken back count where they come from until they are kept. */
static void take_intents_back(struct planning *planning)
{
    for (size_t i = 0; i < planning->input->processor_count; i++) {
        const struct item *item = &planning->items[i];
        if (!item->movable || !plan_has_intent(item) || item->target == PLAN_NOBODY)
            continue;
        planning->candidates[item->target].tasks--;
        planning->candidates[item->target].total--;
    }
}

/* The item ends up with `to` instead of with whom it would have. */
static void shift(struct planning *planning, struct item *item, size_t to)
{
    struct candidate *left = &planning->candidates[item->wanted];
    struct candidate *gets = &planning->candidates[to];
    left->in_job--;
    left->total--;
    left->movable--;
    if (item->owner != item->wanted)
        left->intents--;
    if (item->owner != item->wanted && item->wanted == item->target)
        left->tasks--; /* its learner goes */
    gets->in_job++;
    gets->total++;
    gets->movable++;
    if (item->owner != to)
        gets->intents++;
    if (item->owner != to && item->target == to)
        gets->tasks++; /* its learner stays */
    item->wanted = to;
    item->order = ++planning->decided;
}

/* ---- what is under way */

static int compare_progress(const void *a, const void *b)
{
    const struct plan_processor *left = (*(struct item *const *)a)->processor;
    const struct plan_processor *right = (*(struct item *const *)b)->processor;
    if (left->behind != right->behind)
        return left->behind < right->behind ? -1 : 1;
    return left->processor < right->processor ? -1 : left->processor > right->processor;
}

static bool is_still_of_use(const struct planning *planning, const struct item *item)
{
    if (item->target == PLAN_NOBODY)
        return false;
    const struct candidate *source = &planning->candidates[item->owner];
    const struct candidate *target = &planning->candidates[item->target];
    if (source->agent->leaving)
        return !target->agent->cordoned;
    return target->newcomer && source->in_job > target->in_job;
}

static void keep_intents(struct planning *planning, const struct job_range *job)
{
    size_t count = 0;
    struct item **intents = mem_calloc(job->count, sizeof(struct item *));
    for (size_t i = 0; i < job->count; i++)
        if (job->items[i].movable && plan_has_intent(&job->items[i]))
            intents[count++] = &job->items[i];
    qsort(intents, count, sizeof(struct item *), compare_progress);
    for (size_t i = 0; i < count; i++)
        if (is_still_of_use(planning, intents[i]))
            shift(planning, intents[i], intents[i]->target);
    free(intents);
}

/* ---- what is owed */

/* Which of several like ones to move: what costs least. Lower goes first. */
static int rank(const struct planning *planning, const struct item *item, size_t to)
{
    const char *agent_id = planning->candidates[to].agent->agent_id;
    const struct plan_processor *processor = item->processor;
    bool kept = (processor->kept_on != NULL && strcmp(processor->kept_on, agent_id) == 0) ||
                (processor->standby_on != NULL && strcmp(processor->standby_on, agent_id) == 0);
    if (item->owner == to)
        return 0; /* not to be moved at all */
    if (item->owner != item->wanted)
        return kept ? 1 : 2; /* on its way already: one move all the same */
    return kept ? 3 : 4;
}

static bool is_cheaper(const struct planning *planning, const struct item *a, const struct item *b,
                       size_t to)
{
    int left = rank(planning, a, to), right = rank(planning, b, to);
    if (left != right)
        return left < right;
    /* Of those under way the one that has come least far, of kept ones the one that lacks least;
     * else the lowest number. */
    if (left == 1 || left == 2)
        return a->processor->behind > b->processor->behind;
    return left == 3 && a->processor->kept_behind < b->processor->kept_behind;
}

static struct item *choose_item(const struct planning *planning, const struct job_range *job,
                                size_t from, size_t to)
{
    struct item *best = NULL;
    for (size_t i = 0; i < job->count; i++) {
        struct item *item = &job->items[i];
        if (item->movable && item->wanted == from &&
            (best == NULL || is_cheaper(planning, item, best, to)))
            best = item;
    }
    assert(best != NULL);
    return best;
}

void plan_decide(struct planning *planning, struct item *item, size_t to, char *reason)
{
    free(item->reason);
    item->reason = reason;
    shift(planning, item, to);
}

static void decide(struct planning *planning, const struct job_range *job, size_t from, size_t to,
                   char *reason)
{
    plan_decide(planning, choose_item(planning, job, from, to), to, reason);
}

static bool gives_before(const struct candidate *a, const struct candidate *b, bool by_total)
{
    if (by_total && a->total != b->total)
        return a->total > b->total;
    if (a->in_job != b->in_job)
        return a->in_job > b->in_job;
    if ((a->intents > 0) != (b->intents > 0))
        return a->intents > 0; /* it has something that moves anyway */
    return a->total > b->total;
}

/* It has so much more than the newcomer that a move makes the two more even. */
static bool may_give(const struct candidate *from, const struct candidate *to, bool by_total)
{
    if (from == to || from->movable == 0)
        return false;
    return by_total ? from->in_job >= to->in_job + 1 && from->total >= to->total + 2
                    : from->in_job >= to->in_job + 2;
}

/* Who has most of the job, or of everything. */
static size_t choose_source(const struct planning *planning, size_t to, bool by_total)
{
    size_t best = PLAN_NOBODY;
    for (size_t i = 0; i < planning->input->agent_count; i++) {
        const struct candidate *candidate = &planning->candidates[i];
        if (may_give(candidate, &planning->candidates[to], by_total) &&
            (best == PLAN_NOBODY || gives_before(candidate, &planning->candidates[best], by_total)))
            best = i;
    }
    return best;
}

static bool takes_before(const struct candidate *a, const struct candidate *b, bool by_total)
{
    if (!by_total && a->in_job != b->in_job)
        return a->in_job < b->in_job;
    return a->total < b->total;
}

/* The newcomer with the least that somebody can give something to, and who that is. */
static size_t choose_newcomer(const struct planning *planning, bool by_total, size_t *ret_source)
{
    size_t best = PLAN_NOBODY;
    for (size_t i = 0; i < planning->input->agent_count; i++) {
        const struct candidate *candidate = &planning->candidates[i];
        if (!candidate->newcomer || candidate->total >= candidate->agent->capacity ||
            (best != PLAN_NOBODY &&
             !takes_before(candidate, &planning->candidates[best], by_total)))
            continue;
        size_t source = choose_source(planning, i, by_total);
        if (source == PLAN_NOBODY)
            continue;
        best = i;
        *ret_source = source;
    }
    return best;
}

static bool move_in_job(struct planning *planning, const struct job_range *job)
{
    size_t from = PLAN_NOBODY, to = choose_newcomer(planning, false, &from);
    if (to == PLAN_NOBODY)
        return false;
    const struct candidate *source = &planning->candidates[from];
    const struct candidate *target = &planning->candidates[to];
    decide(planning, job, from, to,
           mem_printf("%s is new to the job and has %u of its processors, %s has %u",
                      target->agent->agent_id, target->in_job, source->agent->agent_id,
                      source->in_job));
    return true;
}

static bool move_by_total(struct planning *planning, const struct job_range *job)
{
    size_t from = PLAN_NOBODY, to = choose_newcomer(planning, true, &from);
    if (to == PLAN_NOBODY)
        return false;
    const struct candidate *source = &planning->candidates[from];
    const struct candidate *target = &planning->candidates[to];
    decide(planning, job, from, to,
           mem_printf("%s is new to the job and has %u processors of all jobs, %s has %u",
                      target->agent->agent_id, target->total, source->agent->agent_id,
                      source->total));
    return true;
}

static void even_in_job(struct planning *planning, const struct job_range *job)
{
    while (move_in_job(planning, job)) {}
}

static void even_by_total(struct planning *planning, const struct job_range *job)
{
    while (move_by_total(planning, job)) {}
}

/* ---- */

static void add_cancels(struct planning *planning)
{
    for (size_t i = 0; i < planning->input->processor_count; i++) {
        struct item *item = &planning->items[i];
        if (item->movable && plan_has_intent(item) && item->wanted == item->owner)
            plan_add(planning, PLAN_KIND_CANCEL, item, NULL,
                     planning->candidates[item->owner].agent->leaving
                         ? mem_printf("%s can not take it now", item->processor->target)
                         : mem_printf("it is not wanted any more: the loads are even without it"));
    }
}

void plan_even_out(struct planning *planning)
{
    take_intents_back(planning);
    plan_for_each_job(planning, keep_intents);
    plan_for_each_job(planning, plan_leave);
    plan_for_each_job(planning, even_in_job);
    /* A move of one job may make room for one of another. */
    size_t before;
    do {
        before = planning->decided;
        plan_for_each_job(planning, even_by_total);
    } while (planning->decided != before);
    add_cancels(planning);
}
