/* Evening out towards newcomers: tables, and properties on random clusters. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/rng.h"
#include "coordinator/core/plan.h"

#define AGENTS     8
#define JOBS       4
#define PROCESSORS 96

/* A cluster whose loads are those of its processors. */
struct fleet {
    char names[AGENTS][8];
    struct plan_agent agents[AGENTS];
    size_t agent_count;
    struct plan_processor processors[PROCESSORS];
    size_t processor_count;
    struct plan_newcomer newcomers[AGENTS * JOBS];
    size_t newcomer_count;
};

static const char *const job_names[JOBS] = {"j0", "j1", "j2", "j3"};

static void add_agents(struct fleet *fleet, size_t count, uint32_t capacity)
{
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(fleet->names[i], sizeof(fleet->names[i]), "a%zu", i);
        fleet->agents[i] = (struct plan_agent){.agent_id = fleet->names[i], .capacity = capacity};
    }
    fleet->agent_count = count;
}

static void add_processors(struct fleet *fleet, const char *job, size_t count, size_t owner)
{
    uint32_t first = 0;
    for (size_t i = 0; i < fleet->processor_count; i++)
        first += strcmp(fleet->processors[i].job, job) == 0;
    for (size_t i = 0; i < count; i++)
        fleet->processors[fleet->processor_count++] =
            (struct plan_processor){.job = job,
                                    .processor = first + (uint32_t)i,
                                    .owner = fleet->names[owner],
                                    .behind = PLAN_UNKNOWN};
}

static void add_newcomer(struct fleet *fleet, const char *job, size_t agent)
{
    fleet->newcomers[fleet->newcomer_count++] =
        (struct plan_newcomer){.job = job, .agent_id = fleet->names[agent]};
}

static size_t agent_number(const struct fleet *fleet, const char *agent_id)
{
    for (size_t i = 0; agent_id != NULL && i < fleet->agent_count; i++)
        if (strcmp(fleet->names[i], agent_id) == 0)
            return i;
    return SIZE_MAX;
}

static void count_loads(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->agent_count; i++)
        fleet->agents[i].load = 0;
    for (size_t i = 0; i < fleet->processor_count; i++) {
        const struct plan_processor *processor = &fleet->processors[i];
        size_t owner = agent_number(fleet, processor->owner);
        size_t target = agent_number(fleet, processor->target);
        if (owner != SIZE_MAX)
            fleet->agents[owner].load++;
        if (target != SIZE_MAX && target != owner)
            fleet->agents[target].load++;
    }
}

static void make_plan(struct fleet *fleet, struct plan *ret_plan)
{
    count_loads(fleet);
    plan_compute(&(struct plan_input){.agents = fleet->agents,
                                      .agent_count = fleet->agent_count,
                                      .processors = fleet->processors,
                                      .processor_count = fleet->processor_count,
                                      .newcomers = fleet->newcomers,
                                      .newcomer_count = fleet->newcomer_count},
                 ret_plan);
}

/* As the coordinator does at once: learners start and go, nothing has arrived yet. */
static void begin(struct fleet *fleet, const struct plan *plan)
{
    for (size_t i = 0; i < plan->change_count; i++) {
        struct plan_processor *processor = &fleet->processors[plan->changes[i].processor];
        size_t target = agent_number(fleet, plan->changes[i].target);
        if (plan->changes[i].kind == PLAN_KIND_PLACE) {
            processor->owner = fleet->names[target];
            processor->target = NULL;
            processor->gone = processor->fixed = false;
        } else {
            processor->target = target != SIZE_MAX ? fleet->names[target] : NULL;
        }
    }
}

/* Those of them that this says arrive. */
static void arrive(struct fleet *fleet, struct rng *rng, bool all)
{
    for (size_t i = 0; i < fleet->processor_count; i++) {
        struct plan_processor *processor = &fleet->processors[i];
        if (processor->target == NULL || (!all && rng_below(rng, 2) == 0))
            continue;
        processor->owner = processor->target;
        processor->target = NULL;
        processor->fixed = false;
    }
}

static uint32_t count_in_job(const struct fleet *fleet, const char *job, size_t agent)
{
    uint32_t count = 0;
    for (size_t i = 0; i < fleet->processor_count; i++)
        count += strcmp(fleet->processors[i].job, job) == 0 &&
                 agent_number(fleet, fleet->processors[i].owner) == agent;
    return count;
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
        add_agents(&fleet, row->agents, 99);
        for (size_t a = 0; a < row->agents; a++) {
            add_processors(&fleet, "j0", row->before[a], a);
            if (row->newcomers[a]) {
                add_newcomer(&fleet, "j0", a);
                fleet.agents[a].capacity = row->capacity;
            }
        }
        make_plan(&fleet, &plan);
        cr_assert_eq(plan.change_count, row->moves, "%s: %zu moves", row->goal, plan.change_count);
        begin(&fleet, &plan);
        arrive(&fleet, NULL, true);
        for (size_t a = 0; a < row->agents; a++)
            cr_assert_eq(count_in_job(&fleet, "j0", a), row->after[a], "%s: agent %zu has %u",
                         row->goal, a, count_in_job(&fleet, "j0", a));
        plan_finish(&plan);
    }
}

Test(plan_even, says_why)
{
    static struct fleet fleet;
    struct plan plan;
    add_agents(&fleet, 2, 99);
    add_processors(&fleet, "j0", 3, 0);
    add_newcomer(&fleet, "j0", 1);
    make_plan(&fleet, &plan);
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
    add_agents(&fleet, 2, 99);
    add_processors(&fleet, "j0", 8, 0);
    add_newcomer(&fleet, "j0", 1);
    fleet.processors[7].target = fleet.names[1];
    fleet.processors[5].kept_on = fleet.names[1];
    make_plan(&fleet, &plan);
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
    add_agents(&fleet, 2, 99);
    for (size_t j = 0; j < JOBS; j++) {
        add_processors(&fleet, job_names[j], 1, 0);
        add_newcomer(&fleet, job_names[j], 1);
    }
    make_plan(&fleet, &plan);
    cr_assert_eq(plan.change_count, 2);
    cr_assert_str_eq(plan.changes[0].reason,
                     "a1 is new to the job and has 0 processors of all jobs, a0 has 4");
    plan_finish(&plan);
}

Test(plan_even, takes_over_what_is_gone_where_it_was_learned)
{
    static struct fleet fleet;
    struct plan plan;
    add_agents(&fleet, 3, 99);
    add_processors(&fleet, "j0", 2, 0);
    for (size_t i = 0; i < 2; i++) {
        fleet.processors[i].owner = "lost";
        fleet.processors[i].gone = true;
    }
    add_processors(&fleet, "j0", 3, 1);
    fleet.processors[0].target = fleet.names[1];
    make_plan(&fleet, &plan);
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
    add_agents(&fleet, 2, 99);
    add_processors(&fleet, "j0", 4, 0);
    for (size_t i = 0; i < 4; i++)
        fleet.processors[i].owner = "away";
    add_newcomer(&fleet, "j0", 1);
    make_plan(&fleet, &plan);
    cr_assert_eq(plan.change_count, 0);
    plan_finish(&plan);
}

/* ---- properties */

static void make_fleet(struct rng *rng, struct fleet *ret_fleet)
{
    struct fleet *fleet = ret_fleet;
    memset(fleet, 0, sizeof(*fleet));
    add_agents(fleet, 1 + rng_below(rng, AGENTS), 99);
    size_t jobs = 1 + rng_below(rng, JOBS);
    for (size_t j = 0; j < jobs; j++) {
        bool established[AGENTS] = {false};
        for (size_t n = 1 + rng_below(rng, 20); n > 0; n--) {
            size_t owner = rng_below(rng, 1 + fleet->agent_count / 2);
            owner = owner < fleet->agent_count ? owner : 0;
            add_processors(fleet, job_names[j], 1, owner);
            established[owner] = true;
        }
        for (size_t a = 0; a < fleet->agent_count; a++)
            if (!established[a] && rng_below(rng, 3) != 0)
                add_newcomer(fleet, job_names[j], a);
    }
    for (size_t i = 0; i < fleet->processor_count; i++)
        if (rng_below(rng, 4) == 0)
            fleet->processors[i].kept_on = fleet->names[rng_below(rng, fleet->agent_count)];
}

static void tighten(struct rng *rng, struct fleet *fleet)
{
    count_loads(fleet);
    for (size_t a = 0; a < fleet->agent_count; a++)
        fleet->agents[a].capacity = fleet->agents[a].load + (uint32_t)rng_below(rng, 4);
}

static bool is_newcomer(const struct fleet *fleet, const char *job, const char *agent_id)
{
    for (size_t i = 0; i < fleet->newcomer_count; i++)
        if (strcmp(fleet->newcomers[i].job, job) == 0 &&
            strcmp(fleet->newcomers[i].agent_id, agent_id) == 0)
            return true;
    return false;
}

static void check_moves(const struct fleet *fleet, const struct plan *plan, uint64_t seed)
{
    uint32_t given[AGENTS] = {0};
    bool moved[PROCESSORS] = {false};
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_change *change = &plan->changes[i];
        const struct plan_processor *processor = &fleet->processors[change->processor];
        cr_assert_not(moved[change->processor], "seed %llu", (unsigned long long)seed);
        moved[change->processor] = true;
        cr_assert_not_null(change->reason);
        if (change->kind != PLAN_KIND_HAND_OVER)
            continue;
        cr_assert(is_newcomer(fleet, processor->job, change->target), "seed %llu: %s is none",
                  (unsigned long long)seed, change->target);
        cr_assert_str_neq(change->target, processor->owner);
        given[agent_number(fleet, change->target)]++;
    }
    for (size_t a = 0; a < fleet->agent_count; a++)
        cr_assert(given[a] == 0 || fleet->agents[a].load + given[a] <= fleet->agents[a].capacity,
                  "seed %llu: %s is over", (unsigned long long)seed, fleet->names[a]);
}

static void expect_rest(struct fleet *fleet, uint64_t seed, const char *when)
{
    struct plan plan;
    make_plan(fleet, &plan);
    cr_assert_eq(plan.change_count, 0, "seed %llu, %s: %s", (unsigned long long)seed, when,
                 plan.changes[0].reason);
    plan_finish(&plan);
}

/* Whoever is new and has room has at most one less of the job than anybody else. */
static void check_even(struct fleet *fleet, uint64_t seed)
{
    count_loads(fleet);
    for (size_t n = 0; n < fleet->newcomer_count; n++) {
        size_t agent = agent_number(fleet, fleet->newcomers[n].agent_id);
        const char *job = fleet->newcomers[n].job;
        if (fleet->agents[agent].load >= fleet->agents[agent].capacity)
            continue;
        for (size_t a = 0; a < fleet->agent_count; a++)
            cr_assert_leq(count_in_job(fleet, job, a), count_in_job(fleet, job, agent) + 1,
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
        make_plan(&fleet, &plan);
        check_moves(&fleet, &plan, seed);
        moves += plan.change_count;
        begin(&fleet, &plan);
        plan_finish(&plan);
        if (tight) /* what leaves makes room for more */
            continue;
        expect_rest(&fleet, seed, "begun");
        arrive(&fleet, &rng, false);
        expect_rest(&fleet, seed, "half done");
        arrive(&fleet, &rng, true);
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
        add_agents(&fleet, agents, 99);
        add_processors(&fleet, "j0", 1 + rng_below(&rng, 40), 0);
        at_once = fleet;
        for (size_t i = 0; i < at_once.processor_count; i++)
            at_once.processors[i].owner = at_once.names[0];
        for (size_t i = 0; i < agents; i++)
            at_once.agents[i].agent_id = at_once.names[i];
        for (size_t a = 1; a < agents; a++)
            add_newcomer(&at_once, "j0", a);
        make_plan(&at_once, &plan);
        size_t owed = plan.change_count;
        plan_finish(&plan);
        for (size_t a = 1; a < agents; a++) {
            add_newcomer(&fleet, "j0", a);
            make_plan(&fleet, &plan);
            check_moves(&fleet, &plan, seed);
            begin(&fleet, &plan);
            plan_finish(&plan);
        }
        size_t moves = 0;
        for (size_t i = 0; i < fleet.processor_count; i++)
            moves += fleet.processors[i].target != NULL;
        cr_assert_eq(moves, owed, "seed %llu: %zu moves for %zu", (unsigned long long)seed, moves,
                     owed);
        arrive(&fleet, &rng, true);
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
        make_plan(&fleet, &plan);
        if (seed % 2 == 0) { /* also with some under way */
            begin(&fleet, &plan);
            fleet.newcomer_count -= fleet.newcomer_count > 0;
            plan_finish(&plan);
            make_plan(&fleet, &plan);
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
