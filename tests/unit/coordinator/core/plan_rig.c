#include "tests/unit/coordinator/core/plan_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

const char *const plan_rig_jobs[PLAN_RIG_JOBS] = {"j0", "j1", "j2", "j3"};

/* ---- making */

static const char *text_of(const struct fleet *copy, const struct fleet *from, const char *agent_id)
{
    size_t agent = plan_rig_agent(from, agent_id);
    return agent != SIZE_MAX ? copy->names[agent] : agent_id;
}

void plan_rig_copy(struct fleet *ret_copy, const struct fleet *from)
{
    *ret_copy = *from;
    for (size_t i = 0; i < from->agent_count; i++)
        ret_copy->agents[i].agent_id = ret_copy->names[i];
    for (size_t i = 0; i < from->processor_count; i++) {
        struct plan_processor *processor = &ret_copy->processors[i];
        processor->owner = text_of(ret_copy, from, processor->owner);
        processor->target = text_of(ret_copy, from, processor->target);
        processor->kept_on = text_of(ret_copy, from, processor->kept_on);
        processor->avoid = text_of(ret_copy, from, processor->avoid);
    }
    for (size_t i = 0; i < from->newcomer_count; i++)
        ret_copy->newcomers[i].agent_id = text_of(ret_copy, from, from->newcomers[i].agent_id);
    for (size_t i = 0; i < from->refusal_count; i++)
        ret_copy->refusals[i].agent_id = text_of(ret_copy, from, from->refusals[i].agent_id);
}

void plan_rig_add_agents(struct fleet *fleet, size_t count, uint32_t capacity)
{
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(fleet->names[i], sizeof(fleet->names[i]), "a%zu", i);
        fleet->agents[i] = (struct plan_agent){.agent_id = fleet->names[i], .capacity = capacity};
    }
    fleet->agent_count = count;
}

void plan_rig_add_processors(struct fleet *fleet, const char *job, size_t count, size_t owner)
{
    uint32_t first = 0;
    for (size_t i = 0; i < fleet->processor_count; i++)
        first += strcmp(fleet->processors[i].job, job) == 0;
    for (size_t i = 0; i < count; i++)
        fleet->processors[fleet->processor_count++] =
            (struct plan_processor){.job = job,
                                    .processor = first + (uint32_t)i,
                                    .owner = fleet->names[owner],
                                    .behind = PLAN_UNKNOWN,
                                    .kept_behind = PLAN_UNKNOWN};
}

void plan_rig_add_newcomer(struct fleet *fleet, const char *job, size_t agent)
{
    fleet->newcomers[fleet->newcomer_count++] =
        (struct plan_newcomer){.job = job, .agent_id = fleet->names[agent]};
}

/* ---- looking */

bool plan_rig_is_newcomer(const struct fleet *fleet, const char *job, const char *agent_id)
{
    for (size_t i = 0; i < fleet->newcomer_count; i++)
        if (strcmp(fleet->newcomers[i].job, job) == 0 &&
            strcmp(fleet->newcomers[i].agent_id, agent_id) == 0)
            return true;
    return false;
}

size_t plan_rig_agent(const struct fleet *fleet, const char *agent_id)
{
    for (size_t i = 0; agent_id != NULL && i < fleet->agent_count; i++)
        if (strcmp(fleet->names[i], agent_id) == 0)
            return i;
    return SIZE_MAX;
}

void plan_rig_count_loads(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->agent_count; i++)
        fleet->agents[i].load = 0;
    for (size_t i = 0; i < fleet->processor_count; i++) {
        const struct plan_processor *processor = &fleet->processors[i];
        size_t owner = plan_rig_agent(fleet, processor->owner);
        size_t target = plan_rig_agent(fleet, processor->target);
        if (owner != SIZE_MAX)
            fleet->agents[owner].load++;
        if (target != SIZE_MAX && target != owner)
            fleet->agents[target].load++;
    }
}

uint32_t plan_rig_count_in_job(const struct fleet *fleet, const char *job, size_t agent)
{
    uint32_t count = 0;
    for (size_t i = 0; i < fleet->processor_count; i++)
        count += strcmp(fleet->processors[i].job, job) == 0 &&
                 plan_rig_agent(fleet, fleet->processors[i].owner) == agent;
    return count;
}

/* ---- plans */

void plan_rig_plan(struct fleet *fleet, struct plan *ret_plan)
{
    plan_rig_count_loads(fleet);
    plan_compute(&(struct plan_input){.agents = fleet->agents,
                                      .agent_count = fleet->agent_count,
                                      .processors = fleet->processors,
                                      .processor_count = fleet->processor_count,
                                      .newcomers = fleet->newcomers,
                                      .newcomer_count = fleet->newcomer_count,
                                      .refusals = fleet->refusals,
                                      .refusal_count = fleet->refusal_count},
                 ret_plan);
}

size_t plan_rig_count_changes(const struct plan *plan)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->change_count; i++)
        count += plan->changes[i].kind != PLAN_KIND_WAIT;
    return count;
}

void plan_rig_begin(struct fleet *fleet, const struct plan *plan)
{
    for (size_t i = 0; i < plan->change_count; i++) {
        struct plan_processor *processor = &fleet->processors[plan->changes[i].processor];
        size_t target = plan_rig_agent(fleet, plan->changes[i].target);
        switch (plan->changes[i].kind) {
        case PLAN_KIND_PLACE:
            processor->owner = fleet->names[target];
            processor->target = NULL;
            processor->gone = processor->fixed = processor->learning = false;
            break;
        case PLAN_KIND_CANCEL:
            processor->target = NULL;
            processor->learning = false;
            break;
        case PLAN_KIND_HAND_OVER:
            processor->target = fleet->names[target];
            processor->learning = !processor->stateless;
            processor->behind = PLAN_UNKNOWN;
            break;
        case PLAN_KIND_WAIT:
            break;
        }
    }
}

void plan_rig_arrive(struct fleet *fleet, size_t index)
{
    struct plan_processor *processor = &fleet->processors[index];
    if (processor->target == NULL)
        return;
    processor->owner = processor->target;
    processor->target = NULL;
    processor->fixed = processor->learning = false;
}

void plan_rig_arrive_all(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->processor_count; i++)
        plan_rig_arrive(fleet, i);
}

/* ---- rules */

static void check_targets(const struct fleet *fleet, const struct plan *plan, const char *what)
{
    bool changed[PLAN_RIG_PROCESSORS] = {false};
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_change *change = &plan->changes[i];
        const struct plan_processor *processor = &fleet->processors[change->processor];
        cr_assert_not(changed[change->processor], "%s: a processor twice", what);
        changed[change->processor] = true;
        cr_assert_not_null(change->reason);
        size_t owner = plan_rig_agent(fleet, processor->owner);
        bool leaves = owner != SIZE_MAX && fleet->agents[owner].leaving && !processor->gone;
        if (leaves && change->kind == PLAN_KIND_WAIT && change->target == NULL)
            continue; /* nobody can take it */
        cr_assert_eq(change->target == NULL, change->kind == PLAN_KIND_CANCEL, "%s", what);
        if (change->kind == PLAN_KIND_CANCEL) {
            cr_assert(processor->target != NULL && !processor->fixed, "%s", what);
            continue;
        }
        size_t target = plan_rig_agent(fleet, change->target);
        cr_assert_neq(target, SIZE_MAX, "%s", what);
        cr_assert_not(fleet->agents[target].cordoned, "%s: %s is cordoned", what, change->target);
        if (change->kind == PLAN_KIND_PLACE) {
            cr_assert(processor->owner == NULL || processor->gone, "%s", what);
            continue;
        }
        cr_assert_not(processor->fixed, "%s", what);
        cr_assert(leaves || plan_rig_is_newcomer(fleet, processor->job, change->target),
                  "%s: %s is established", what, change->target);
        cr_assert_str_neq(change->target, processor->owner, "%s", what);
    }
}

static void check_room(const struct fleet *fleet, const struct plan *plan, const char *what)
{
    static struct fleet begun;
    bool given[PLAN_RIG_AGENTS] = {false};
    plan_rig_copy(&begun, fleet);
    plan_rig_begin(&begun, plan);
    plan_rig_count_loads(&begun);
    for (size_t i = 0; i < plan->change_count; i++)
        if (plan->changes[i].target != NULL && plan->changes[i].kind != PLAN_KIND_WAIT)
            given[plan_rig_agent(fleet, plan->changes[i].target)] = true;
    for (size_t a = 0; a < fleet->agent_count; a++)
        if (given[a] && begun.agents[a].load > fleet->agents[a].load)
            cr_assert_leq(begun.agents[a].load, fleet->agents[a].capacity, "%s: %s is over its",
                          what, fleet->names[a]);
}

/* Whoever gets a learner has not too many then; others may have had too many before. */
static void check_learners(const struct fleet *fleet, const struct plan *plan, const char *what)
{
    static struct fleet begun;
    plan_rig_copy(&begun, fleet);
    plan_rig_begin(&begun, plan);
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_change *change = &plan->changes[i];
        const struct plan_processor *processor = &begun.processors[change->processor];
        if (change->kind != PLAN_KIND_HAND_OVER || processor->stateless)
            continue;
        uint32_t on_agent = 0, of_job = 0;
        for (size_t p = 0; p < begun.processor_count; p++) {
            const struct plan_processor *other = &begun.processors[p];
            if (!other->learning)
                continue;
            on_agent += strcmp(other->target, change->target) == 0;
            of_job += strcmp(other->job, processor->job) == 0;
        }
        uint32_t max_learners = fleet->agents[plan_rig_agent(fleet, change->target)].max_learners;
        cr_assert(max_learners == 0 || on_agent <= max_learners, "%s: %u learn on %s", what,
                  on_agent, change->target);
        cr_assert(processor->max_learners == 0 || of_job <= processor->max_learners,
                  "%s: %u of the job learn", what, of_job);
    }
}

void plan_rig_check(const struct fleet *fleet, const struct plan *plan, const char *what)
{
    check_targets(fleet, plan, what);
    check_room(fleet, plan, what);
    check_learners(fleet, plan, what);
}
