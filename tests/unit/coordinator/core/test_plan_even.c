/* Evening out towards newcomers: tables, and properties on random clusters. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/rng.h"
#include "tests/unit/coordinator/core/plan_rig.h"

#define AGENTS     PLAN_RIG_AGENTS
#define JOBS       PLAN_RIG_JOBS
#define PROCESSORS PLAN_RIG_PROCESSORS

/* About half of those under way. */
static void arrive_some(struct fleet *fleet, struct rng *rng)
{
    for (size_t i = 0; i < fleet->processor_count; i++)
        if (rng_below(rng, 2) == 0)
            plan_rig_arrive(fleet, i);
}

/* ---- tables: how many of each agent of one job in the end, and in how many moves */

struct row {
    const char *goal;
    uint32_t before[AGENTS];
    bool newcomers[AGENTS];
    uint32_t capacity;
    size_t agents;
    uint32_t after[AGENTS];
    size_t moves;
};

static const struct row rows[] = {
    {"a newcomer gets half", {8, 0}, {false, true}, 99, 2, {4, 4}, 4},
    {"established agents never swap", {8, 0}, {false, false}, 99, 2, {8, 0}, 0},
    {"a difference of one is tolerated", {1, 0}, {false, true}, 99, 2, {1, 0}, 0},
    {"a difference of two is not", {2, 0}, {false, true}, 99, 2, {1, 1}, 1},
    {"only towards newcomers", {6, 0, 3}, {false, true, false}, 99, 3, {3, 3, 3}, 3},
    {"an uneven past is not made good", {9, 3, 0}, {false, false, true}, 99, 3, {5, 3, 4}, 4},
    {"five at once",
     {20, 0, 0, 0, 0, 0},
     {false, true, true, true, true, true},
     99,
     6,
     {4, 4, 3, 3, 3, 3},
     16},
    {"capacity is kept", {8, 0}, {false, true}, 2, 2, {6, 2}, 2},
    {"more agents than processors",
     {2, 0, 0, 0},
     {false, true, true, true},
     99,
     4,
     {1, 1, 0, 0},
     1},
};

Test(plan_even, follows_the_table)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        static struct fleet fleet;
        memset(&fleet, 0, sizeof(fleet));
        struct plan plan;
        plan_rig_add_agents(&fleet, row->agents, 99);
        for (size_t a = 0; a < row->agents; a++) {
            plan_rig_add_processors(&fleet, "j0", row->before[a], a);
            if (row->newcomers[a]) {
                plan_rig_add_newcomer(&fleet, "j0", a);
                fleet.agents[a].capacity = row->capacity;
            }
        }
        plan_rig_plan(&fleet, &plan);
        cr_assert_eq(plan.change_count, row->moves, "%s: %zu moves", row->goal, plan.change_count);
        plan_rig_begin(&fleet, &plan);
        plan_rig_arrive_all(&fleet);
        for (size_t a = 0; a < row->agents; a++)
            cr_assert_eq(plan_rig_count_in_job(&fleet, "j0", a), row->after[a],
                         "%s: agent %zu has %u", row->goal, a,
                         plan_rig_count_in_job(&fleet, "j0", a));
        plan_finish(&plan);
    }
}

Test(plan_even, says_why)
{
    static struct fleet fleet;
    struct plan plan;
    plan_rig_add_agents(&fleet, 2, 99);
    plan_rig_add_processors(&fleet, "j0", 3, 0);
    plan_rig_add_newcomer(&fleet, "j0", 1);
    plan_rig_plan(&fleet, &plan);
    cr_assert_eq(plan.change_count, 1);
    cr_assert_eq(plan.changes[0].kind, PLAN_KIND_HAND_OVER);
    cr_assert_str_eq(plan.changes[0].reason,
                     "a1 is new to the job and has 0 of its processors, a0 has 3");
    plan_finish(&plan);
}

Test(plan_even, prefers_what_is_under_way_and_what_is_kept)
{
    static struct fleet fleet;
    struct plan plan;
    plan_rig_add_agents(&fleet, 2, 99);
    plan_rig_add_processors(&fleet, "j0", 8, 0);
    plan_rig_add_newcomer(&fleet, "j0", 1);
    fleet.processors[7].target = fleet.names[1];
    fleet.processors[5].kept_on = fleet.names[1];
    plan_rig_plan(&fleet, &plan);
    bool moved[8] = {false};
    for (size_t i = 0; i < plan.change_count; i++)
        moved[plan.changes[i].processor] = true;
    cr_assert_eq(plan.change_count, 3, "7 is under way");
    cr_assert(moved[5] && moved[0] && moved[1]);
    plan_finish(&plan);
}

Test(plan_even, small_jobs_are_evened_out_by_the_sum)
{
    static struct fleet fleet;
    struct plan plan;
    plan_rig_add_agents(&fleet, 2, 99);
    for (size_t j = 0; j < JOBS; j++) {
        plan_rig_add_processors(&fleet, plan_rig_jobs[j], 1, 0);
        plan_rig_add_newcomer(&fleet, plan_rig_jobs[j], 1);
    }
    plan_rig_plan(&fleet, &plan);
    cr_assert_eq(plan.change_count, 2);
    cr_assert_str_eq(plan.changes[0].reason,
                     "a1 is new to the job and has 0 processors of all jobs, a0 has 4");
    plan_finish(&plan);
}

Test(plan_even, takes_over_what_is_gone_where_it_was_learned)
{
    static struct fleet fleet;
    struct plan plan;
    plan_rig_add_agents(&fleet, 3, 99);
    plan_rig_add_processors(&fleet, "j0", 2, 0);
    for (size_t i = 0; i < 2; i++) {
        fleet.processors[i].owner = "lost";
        fleet.processors[i].gone = true;
    }
    plan_rig_add_processors(&fleet, "j0", 3, 1);
    fleet.processors[0].target = fleet.names[1];
    plan_rig_plan(&fleet, &plan);
    cr_assert_eq(plan.change_count, 2);
    cr_assert_eq(plan.changes[0].kind, PLAN_KIND_PLACE);
    cr_assert_str_eq(plan.changes[0].target, "a1");
    cr_assert_str_eq(plan.changes[0].reason, "agent lost is gone; a1 has learned it");
    cr_assert_str_eq(plan.changes[1].target, "a0");
    plan_finish(&plan);
}

Test(plan_even, lost_owners_in_their_grace_stay_out_of_it)
{
    static struct fleet fleet;
    struct plan plan;
    plan_rig_add_agents(&fleet, 2, 99);
    plan_rig_add_processors(&fleet, "j0", 4, 0);
    for (size_t i = 0; i < 4; i++)
        fleet.processors[i].owner = "away";
    plan_rig_add_newcomer(&fleet, "j0", 1);
    plan_rig_plan(&fleet, &plan);
    cr_assert_eq(plan.change_count, 0);
    plan_finish(&plan);
}

/* ---- properties */

static void make_fleet(struct rng *rng, struct fleet *ret_fleet)
{
    struct fleet *fleet = ret_fleet;
    memset(fleet, 0, sizeof(*fleet));
    plan_rig_add_agents(fleet, 1 + rng_below(rng, AGENTS), 99);
    size_t jobs = 1 + rng_below(rng, JOBS);
    for (size_t j = 0; j < jobs; j++) {
        bool established[AGENTS] = {false};
        for (size_t n = 1 + rng_below(rng, 20); n > 0; n--) {
            size_t owner = rng_below(rng, 1 + fleet->agent_count / 2);
            owner = owner < fleet->agent_count ? owner : 0;
            plan_rig_add_processors(fleet, plan_rig_jobs[j], 1, owner);
            established[owner] = true;
        }
        for (size_t a = 0; a < fleet->agent_count; a++)
            if (!established[a] && rng_below(rng, 3) != 0)
                plan_rig_add_newcomer(fleet, plan_rig_jobs[j], a);
    }
    for (size_t i = 0; i < fleet->processor_count; i++)
        if (rng_below(rng, 4) == 0)
            fleet->processors[i].kept_on = fleet->names[rng_below(rng, fleet->agent_count)];
}

static void tighten(struct rng *rng, struct fleet *fleet)
{
    plan_rig_count_loads(fleet);
    for (size_t a = 0; a < fleet->agent_count; a++)
        fleet->agents[a].capacity = fleet->agents[a].load + (uint32_t)rng_below(rng, 4);
}

static const char *name_seed(uint64_t seed)
{
    static char name[32];
    (void)snprintf(name, sizeof(name), "seed %llu", (unsigned long long)seed);
    return name;
}

static void expect_rest(struct fleet *fleet, uint64_t seed, const char *when)
{
    struct plan plan;
    plan_rig_plan(fleet, &plan);
    cr_assert_eq(plan.change_count, 0, "seed %llu, %s: %s", (unsigned long long)seed, when,
                 plan.changes[0].reason);
    plan_finish(&plan);
}

/* Whoever is new and has room has at most one less of the job than anybody else. */
static void check_even(struct fleet *fleet, uint64_t seed)
{
    plan_rig_count_loads(fleet);
    for (size_t n = 0; n < fleet->newcomer_count; n++) {
        size_t agent = plan_rig_agent(fleet, fleet->newcomers[n].agent_id);
        const char *job = fleet->newcomers[n].job;
        if (fleet->agents[agent].load >= fleet->agents[agent].capacity)
            continue;
        for (size_t a = 0; a < fleet->agent_count; a++)
            cr_assert_leq(plan_rig_count_in_job(fleet, job, a),
                          plan_rig_count_in_job(fleet, job, agent) + 1,
                          "seed %llu: %s has too few of %s", (unsigned long long)seed,
                          fleet->names[agent], job);
    }
}

Test(plan_even, only_owed_moves_and_then_rest)
{
    static struct fleet fleet;
    size_t moves = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct rng rng;
        struct plan plan;
        rng_init(&rng, seed);
        make_fleet(&rng, &fleet);
        bool tight = rng_below(&rng, 3) == 0;
        if (tight)
            tighten(&rng, &fleet);
        plan_rig_plan(&fleet, &plan);
        plan_rig_check(&fleet, &plan, name_seed(seed));
        moves += plan.change_count;
        plan_rig_begin(&fleet, &plan);
        plan_finish(&plan);
        if (tight) /* what leaves makes room for more */
            continue;
        expect_rest(&fleet, seed, "begun");
        arrive_some(&fleet, &rng);
        expect_rest(&fleet, seed, "half done");
        plan_rig_arrive_all(&fleet);
        expect_rest(&fleet, seed, "done");
        check_even(&fleet, seed);
    }
    cr_assert_gt(moves, 2000);
}

/* One job, ample room: the fewest moves that make it even for newcomers, who come one by one while
 * those before them still learn, or have learned. */
Test(plan_even, newcomers_one_by_one_need_no_more_moves_than_all_at_once)
{
    static struct fleet fleet, at_once;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct rng rng;
        struct plan plan;
        rng_init(&rng, seed);
        memset(&fleet, 0, sizeof(fleet));
        size_t agents = 2 + rng_below(&rng, AGENTS - 1);
        plan_rig_add_agents(&fleet, agents, 99);
        plan_rig_add_processors(&fleet, "j0", 1 + rng_below(&rng, 40), 0);
        plan_rig_copy(&at_once, &fleet);
        for (size_t a = 1; a < agents; a++)
            plan_rig_add_newcomer(&at_once, "j0", a);
        plan_rig_plan(&at_once, &plan);
        size_t owed = plan.change_count;
        plan_finish(&plan);
        for (size_t a = 1; a < agents; a++) {
            plan_rig_add_newcomer(&fleet, "j0", a);
            plan_rig_plan(&fleet, &plan);
            plan_rig_check(&fleet, &plan, name_seed(seed));
            plan_rig_begin(&fleet, &plan);
            plan_finish(&plan);
        }
        size_t moves = 0;
        for (size_t i = 0; i < fleet.processor_count; i++)
            moves += fleet.processors[i].target != NULL;
        cr_assert_eq(moves, owed, "seed %llu: %zu moves for %zu", (unsigned long long)seed, moves,
                     owed);
        plan_rig_arrive_all(&fleet);
        check_even(&fleet, seed);
    }
}

/* The same rows in another order give the same plan. */
Test(plan_even, order_of_the_input_does_not_matter)
{
    static struct fleet fleet, shuffled;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct rng rng;
        struct plan plan, other;
        size_t source[PROCESSORS];
        rng_init(&rng, seed);
        make_fleet(&rng, &fleet);
        plan_rig_plan(&fleet, &plan);
        if (seed % 2 == 0) { /* also with some under way */
            plan_rig_begin(&fleet, &plan);
            fleet.newcomer_count -= fleet.newcomer_count > 0;
            plan_finish(&plan);
            plan_rig_plan(&fleet, &plan);
        }
        shuffled = fleet;
        for (size_t i = 0; i < fleet.processor_count; i++) {
            size_t at = rng_below(&rng, i + 1);
            shuffled.processors[i] = shuffled.processors[at];
            source[i] = source[at];
            shuffled.processors[at] = fleet.processors[i];
            source[at] = i;
        }
        for (size_t i = 0; i < fleet.agent_count; i++)
            shuffled.agents[i] = fleet.agents[fleet.agent_count - 1 - i];
        for (size_t i = 0; i < fleet.newcomer_count; i++)
            shuffled.newcomers[i] = fleet.newcomers[fleet.newcomer_count - 1 - i];
        plan_compute(&(struct plan_input){.agents = shuffled.agents,
                                          .agent_count = shuffled.agent_count,
                                          .processors = shuffled.processors,
                                          .processor_count = shuffled.processor_count,
                                          .newcomers = shuffled.newcomers,
                                          .newcomer_count = shuffled.newcomer_count},
                     &other);
        cr_assert_eq(other.change_count, plan.change_count);
        for (size_t i = 0; i < plan.change_count; i++) {
            cr_assert_eq(source[other.changes[i].processor], plan.changes[i].processor);
            cr_assert_eq(other.changes[i].kind, plan.changes[i].kind);
            cr_assert_str_eq(other.changes[i].reason, plan.changes[i].reason);
            cr_assert(plan.changes[i].target == NULL ||
                      strcmp(other.changes[i].target, plan.changes[i].target) == 0);
        }
        plan_finish(&plan);
        plan_finish(&other);
    }
}
