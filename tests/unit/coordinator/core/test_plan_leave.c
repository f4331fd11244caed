/* What agents have that are to leave: tables, and properties on random clusters. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/rng.h"
#include "tests/unit/coordinator/core/plan_rig.h"

#define AGENTS PLAN_RIG_AGENTS

struct row {
    const char *goal;
    uint32_t before[AGENTS];
    bool leaving[AGENTS], newcomers[AGENTS];
    uint32_t capacity;
    size_t agents;
    uint32_t after[AGENTS];
};

static const struct row rows[] = {
    {"the only other one gets all", {4, 0}, {true}, {false}, 99, 2, {0, 4}},
    {"established agents share it", {4, 1, 2}, {true}, {false}, 99, 3, {0, 4, 3}},
    {"a newcomer goes first", {4, 4, 0}, {true}, {false, false, true}, 99, 3, {0, 4, 4}},
    {"and takes no more than its share", {6, 0, 0}, {true}, {false, false, true}, 99, 3, {0, 3, 3}},
    {"a newcomer gets its share of others, too",
     {1, 5, 0},
     {true},
     {false, false, true},
     99,
     3,
     {0, 3, 3}},
    {"the old half of a fleet",
     {4, 4, 0, 0},
     {true, true},
     {false, false, true, true},
     99,
     4,
     {0, 0, 4, 4}},
    {"capacity is kept", {4, 0, 0}, {true}, {false}, 1, 3, {2, 1, 1}},
    {"with nobody else all stays", {3}, {true}, {false}, 99, 1, {3}},
    {"who has nothing leaves nothing", {0, 3}, {true}, {false}, 99, 2, {0, 3}},
};

static void make_fleet(const struct row *row, struct fleet *ret_fleet)
{
    memset(ret_fleet, 0, sizeof(*ret_fleet));
    plan_rig_add_agents(ret_fleet, row->agents, row->capacity);
    for (size_t a = 0; a < row->agents; a++) {
        plan_rig_add_processors(ret_fleet, "j0", row->before[a], a);
        ret_fleet->agents[a].leaving = ret_fleet->agents[a].cordoned = row->leaving[a];
        if (row->newcomers[a])
            plan_rig_add_newcomer(ret_fleet, "j0", a);
    }
}

Test(plan_leave, follows_the_table)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        static struct fleet fleet;
        struct plan plan;
        make_fleet(row, &fleet);
        plan_rig_plan(&fleet, &plan);
        plan_rig_check(&fleet, &plan, row->goal);
        plan_rig_begin(&fleet, &plan);
        plan_rig_arrive_all(&fleet);
        plan_finish(&plan);
        for (size_t a = 0; a < row->agents; a++)
            cr_assert_eq(plan_rig_count_in_job(&fleet, "j0", a), row->after[a],
                         "%s: agent %zu has %u", row->goal, a,
                         plan_rig_count_in_job(&fleet, "j0", a));
        plan_rig_plan(&fleet, &plan);
        cr_assert_eq(plan_rig_count_changes(&plan), 0, "%s: it goes on", row->goal);
        plan_finish(&plan);
    }
}

static const struct plan_change *plan_one(struct fleet *fleet, struct plan *ret_plan)
{
    plan_rig_plan(fleet, ret_plan);
    cr_assert_eq(ret_plan->change_count, 1);
    return &ret_plan->changes[0];
}

Test(plan_leave, goes_to_who_keeps_the_state)
{
    static const struct row row = {"", {1, 0, 1}, {true}, {false}, 99, 3, {0}};
    static struct fleet fleet;
    struct plan plan;
    make_fleet(&row, &fleet);
    fleet.processors[0].kept_on = fleet.names[2];
    const struct plan_change *change = plan_one(&fleet, &plan);
    cr_assert_str_eq(change->target, "a2");
    cr_assert_not_null(strstr(change->reason, "keeps its state"), "%s", change->reason);
    plan_finish(&plan);
}

Test(plan_leave, goes_elsewhere_after_a_failure_if_it_can)
{
    static const struct row row = {"", {1, 0, 1}, {true}, {false}, 99, 3, {0}};
    static struct fleet fleet;
    struct plan plan;
    make_fleet(&row, &fleet);
    fleet.processors[0].avoid = fleet.names[1];
    cr_assert_str_eq(plan_one(&fleet, &plan)->target, "a2");
    plan_finish(&plan);
    fleet.agents[2].cordoned = true;
    cr_assert_str_eq(plan_one(&fleet, &plan)->target, "a1", "else there again");
    plan_finish(&plan);
}

Test(plan_leave, does_not_go_to_who_can_not_rebuild_it)
{
    static const struct row row = {"", {1, 0}, {true}, {false}, 99, 2, {0}};
    static struct fleet fleet;
    struct plan plan;
    make_fleet(&row, &fleet);
    fleet.refusals[fleet.refusal_count++] = (struct plan_refusal){"j0", fleet.names[1]};
    const struct plan_change *change = plan_one(&fleet, &plan);
    cr_assert_eq(change->kind, PLAN_KIND_WAIT);
    cr_assert_null(change->target);
    plan_finish(&plan);
}

Test(plan_leave, keeps_what_is_under_way)
{
    static const struct row row = {"", {2, 0, 0}, {true}, {false, false, true}, 99, 3, {0}};
    static struct fleet fleet;
    struct plan plan;
    make_fleet(&row, &fleet);
    fleet.processors[0].target = fleet.names[1];
    fleet.processors[0].learning = true;
    cr_assert_str_eq(plan_one(&fleet, &plan)->target, "a2");
    plan_finish(&plan);
}

/* ---- random clusters */

static void make_random(struct rng *rng, struct fleet *ret_fleet)
{
    memset(ret_fleet, 0, sizeof(*ret_fleet));
    size_t agents = 2 + rng_below(rng, 5);
    plan_rig_add_agents(ret_fleet, agents, 99);
    for (size_t a = 0; a < agents; a++) {
        ret_fleet->agents[a].capacity = (uint32_t)(4 + rng_below(rng, 30));
        ret_fleet->agents[a].max_learners = (uint32_t)rng_below(rng, 3);
        ret_fleet->agents[a].leaving = rng_below(rng, 3) == 0;
        ret_fleet->agents[a].cordoned = ret_fleet->agents[a].leaving || rng_below(rng, 6) == 0;
        for (size_t j = 0; j < 2; j++) {
            uint32_t count = (uint32_t)rng_below(rng, 4);
            plan_rig_add_processors(ret_fleet, plan_rig_jobs[j], count, a);
            if (count == 0 && rng_below(rng, 2) == 0)
                plan_rig_add_newcomer(ret_fleet, plan_rig_jobs[j], a);
        }
    }
}

static size_t count_left(const struct fleet *fleet)
{
    size_t left = 0;
    for (size_t i = 0; i < fleet->processor_count; i++)
        left += fleet->agents[plan_rig_agent(fleet, fleet->processors[i].owner)].leaving;
    return left;
}

static size_t count_room(const struct fleet *fleet)
{
    size_t room = 0;
    for (size_t a = 0; a < fleet->agent_count; a++)
        if (!fleet->agents[a].cordoned && fleet->agents[a].load < fleet->agents[a].capacity)
            room += fleet->agents[a].capacity - fleet->agents[a].load;
    return room;
}

/* Whatever comes and is carried out, in whatever parts, leavers end empty if there is room, and
 * then nothing moves any more. */
Test(plan_leave, empties_random_clusters)
{
    struct rng rng;
    size_t emptied = 0, stuck = 0;
    rng_init(&rng, 20261130);
    for (int round = 0; round < 3000; round++) {
        static struct fleet fleet;
        char what[32];
        make_random(&rng, &fleet);
        plan_rig_count_loads(&fleet);
        bool enough = count_room(&fleet) >= count_left(&fleet);
        (void)snprintf(what, sizeof(what), "round %d", round);
        size_t owed = count_left(&fleet), changes = 1;
        for (int i = 0; i < 200 && changes > 0; i++) {
            struct plan plan;
            plan_rig_plan(&fleet, &plan);
            plan_rig_check(&fleet, &plan, what);
            changes = plan_rig_count_changes(&plan);
            plan_rig_begin(&fleet, &plan);
            plan_finish(&plan);
            for (size_t p = 0; p < fleet.processor_count; p++)
                if (fleet.processors[p].target != NULL && (++changes, rng_below(&rng, 2) == 0))
                    plan_rig_arrive(&fleet, p);
        }
        cr_assert_eq(changes, 0, "%s never ends", what);
        if (enough)
            cr_assert_eq(count_left(&fleet), 0, "%s: %zu are left", what, count_left(&fleet));
        emptied += owed > 0 && count_left(&fleet) == 0;
        stuck += count_left(&fleet) > 0;
    }
    cr_assert_gt(emptied, 500);
    cr_assert_gt(stuck, 50);
}
