#include "coordinator/core/plan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/rng.h"

#define ROWS_MAX 16

/* Goal, what is there before, and where each processor without owner goes: "-" to nobody. */
struct row {
    const char *goal;
    struct plan_agent agents[ROWS_MAX];
    struct plan_processor processors[ROWS_MAX];
    const char *expected[ROWS_MAX]; /* in the order of processors; NULL: nothing changes */
    const char *reason;             /* of the first change; NULL: not looked at */
    uint32_t no_agent, no_capacity;
};

static const struct row rows[] = {
    {.goal = "nothing to do, nothing done",
     .agents = {{"a1", 10, 1}},
     .processors = {{"j", 0, "a1", NULL}}},
    {.goal = "what has an owner is never moved, however uneven the loads are",
     .agents = {{"a1", 10, 2}, {"a2", 10, 0}},
     .processors = {{"j", 0, "a1", NULL}, {"j", 1, "a1", "a2"}}},
    {.goal = "the least loaded first, then by id",
     .agents = {{"a2", 10, 0}, {"a1", 10, 0}, {"a3", 10, 3}},
     .processors = {{"j", 0, NULL, NULL}, {"j", 1, NULL, NULL}, {"j", 2, NULL, NULL}},
     .expected = {"a1", "a2", "a1"},
     .reason = "no owner; a1 has the fewest tasks (0)"},
    {.goal = "loads count what was placed by this plan",
     .agents = {{"a1", 10, 5}, {"a2", 10, 3}},
     .processors = {{"j", 0, NULL, NULL}, {"j", 1, NULL, NULL}, {"j", 2, NULL, NULL}},
     .expected = {"a2", "a2", "a1"},
     .reason = "no owner; a2 has the fewest tasks (3)"},
    {.goal = "kept state wins over a lower load",
     .agents = {{"a1", 10, 9}, {"a2", 10, 0}},
     .processors = {{"j", 0, NULL, "a1"}, {"j", 1, NULL, NULL}},
     .expected = {"a1", "a2"},
     .reason = "no owner; a1 keeps its state"},
    {.goal = "kept state is placed before others take its holder's room",
     .agents = {{"a1", 1, 0}},
     .processors = {{"j", 0, NULL, NULL}, {"j", 1, NULL, "a1"}},
     .expected = {"-", "a1"},
     .no_capacity = 1},
    {.goal = "a holder that is full or not there is passed over",
     .agents = {{"a1", 1, 1}, {"a2", 10, 5}},
     .processors = {{"j", 0, NULL, "a1"}, {"j", 1, NULL, "gone"}},
     .expected = {"a2", "a2"}},
    {.goal = "capacity is kept; the rest stays without owner",
     .agents = {{"a1", 2, 1}, {"a2", 1, 0}},
     .processors = {{"j", 0, NULL, NULL}, {"j", 1, NULL, NULL}, {"j", 2, NULL, NULL}},
     .expected = {"a2", "a1", "-"},
     .no_capacity = 1},
    {.goal = "an agent over its capacity, lowered since, gets nothing",
     .agents = {{"a1", 1, 3}},
     .processors = {{"j", 0, NULL, NULL}},
     .expected = {"-"},
     .no_capacity = 1},
    {.goal = "without agents nothing is placed, and that is another reason",
     .processors = {{"j", 0, NULL, "a1"}, {"j", 1, NULL, NULL}},
     .expected = {"-", "-"},
     .no_agent = 2},
    {.goal = "jobs go by name, not by their order in the input",
     .agents = {{"a1", 1, 0}},
     .processors = {{"k", 0, NULL, NULL}, {"j", 7, NULL, NULL}},
     .expected = {"-", "a1"},
     .no_capacity = 1},
};

static size_t count_agents(const struct row *row)
{
    size_t count = 0;
    while (count < ROWS_MAX && row->agents[count].agent_id != NULL)
        count++;
    return count;
}

static size_t count_processors(const struct row *row)
{
    size_t count = 0;
    while (count < ROWS_MAX && row->processors[count].job != NULL)
        count++;
    return count;
}

static const struct plan_change *find_change(const struct plan *plan, size_t processor)
{
    for (size_t i = 0; i < plan->change_count; i++)
        if (plan->changes[i].processor == processor)
            return &plan->changes[i];
    return NULL;
}

Test(plan, follows_the_table)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct plan_input input = {.agents = row->agents,
                                   .agent_count = count_agents(row),
                                   .processors = row->processors,
                                   .processor_count = count_processors(row)};
        struct plan plan;
        plan_compute(&input, &plan);
        for (size_t p = 0; p < input.processor_count; p++) {
            const struct plan_change *change = find_change(&plan, p);
            const char *expected = row->expected[p];
            if (expected == NULL || strcmp(expected, "-") == 0)
                cr_assert_null(change, "%s: processor %zu", row->goal, p);
            else
                cr_assert(change != NULL && strcmp(change->target, expected) == 0,
                          "%s: processor %zu went to %s", row->goal, p,
                          change != NULL ? change->target : "nobody");
        }
        if (row->reason != NULL)
            cr_assert_str_eq(find_change(&plan, 0)->reason, row->reason, "%s", row->goal);
        cr_assert_eq(plan.unplaced_no_agent, row->no_agent, "%s", row->goal);
        cr_assert_eq(plan.unplaced_no_capacity, row->no_capacity, "%s", row->goal);
        plan_finish(&plan);
    }
}

/* ---- properties, on random inputs */

#define AGENTS     9
#define PROCESSORS 60

struct random_input {
    char names[AGENTS][8];
    struct plan_agent agents[AGENTS];
    struct plan_processor processors[PROCESSORS];
    struct plan_input input;
};

static void make_input(struct rng *rng, struct random_input *ret_random)
{
    struct random_input *random = ret_random;
    size_t agents = rng_below(rng, AGENTS + 1), processors = rng_below(rng, PROCESSORS + 1);
    for (size_t i = 0; i < agents; i++) {
        (void)snprintf(random->names[i], sizeof(random->names[i]), "a%zu", i);
        random->agents[i] = (struct plan_agent){.agent_id = random->names[i],
                                                .capacity = (uint32_t)rng_below(rng, 20),
                                                .load = (uint32_t)rng_below(rng, 10)};
    }
    for (size_t i = 0; i < processors; i++) {
        bool owned = rng_below(rng, 3) == 0, kept = agents > 0 && rng_below(rng, 3) == 0;
        random->processors[i] = (struct plan_processor){
            .job = i % 2 == 0 ? "j" : "k",
            .processor = (uint32_t)(i / 2),
            .owner = owned ? "other" : NULL,
            .kept_on = kept ? random->names[rng_below(rng, agents)] : NULL,
        };
    }
    random->input = (struct plan_input){.agents = random->agents,
                                        .agent_count = agents,
                                        .processors = random->processors,
                                        .processor_count = processors};
}

static void check_plan(const struct plan_input *input, const struct plan *plan, uint64_t seed)
{
    uint64_t room = 0, without_owner = 0;
    bool placed[PROCESSORS] = {false};
    for (size_t i = 0; i < input->processor_count; i++)
        without_owner += input->processors[i].owner == NULL;
    for (size_t a = 0; a < input->agent_count; a++) {
        const struct plan_agent *agent = &input->agents[a];
        uint32_t given = 0;
        for (size_t i = 0; i < plan->change_count; i++)
            given += strcmp(plan->changes[i].target, agent->agent_id) == 0;
        cr_assert(given == 0 || agent->load + given <= agent->capacity, "seed %llu: %s is over",
                  (unsigned long long)seed, agent->agent_id);
        room += agent->capacity > agent->load ? agent->capacity - agent->load : 0;
    }
    for (size_t i = 0; i < plan->change_count; i++) {
        size_t processor = plan->changes[i].processor;
        cr_assert_null(input->processors[processor].owner, "seed %llu", (unsigned long long)seed);
        cr_assert_not(placed[processor], "seed %llu: placed twice", (unsigned long long)seed);
        placed[processor] = true;
    }
    /* As many as there is room for, and every one of the rest is counted. */
    cr_assert_eq(plan->change_count, without_owner < room ? without_owner : room);
    cr_assert_eq(plan->change_count + plan->unplaced_no_agent + plan->unplaced_no_capacity,
                 without_owner);
}

/* The same rows in another order give the same placement. */
static void check_shuffled(struct rng *rng, const struct plan_input *input, const struct plan *plan)
{
    struct plan_agent agents[AGENTS];
    struct plan_processor processors[PROCESSORS];
    size_t source[PROCESSORS];
    for (size_t i = 0; i < input->agent_count; i++) {
        size_t at = rng_below(rng, i + 1);
        agents[i] = agents[at];
        agents[at] = input->agents[i];
    }
    for (size_t i = 0; i < input->processor_count; i++) {
        size_t at = rng_below(rng, i + 1);
        processors[i] = processors[at];
        source[i] = source[at];
        processors[at] = input->processors[i];
        source[at] = i;
    }
    struct plan_input shuffled = *input;
    shuffled.agents = agents;
    shuffled.processors = processors;
    struct plan other;
    plan_compute(&shuffled, &other);
    cr_assert_eq(other.change_count, plan->change_count);
    for (size_t i = 0; i < other.change_count; i++) {
        const struct plan_change *same = find_change(plan, source[other.changes[i].processor]);
        cr_assert_not_null(same);
        cr_assert_str_eq(other.changes[i].target, same->target);
        cr_assert_str_eq(other.changes[i].reason, same->reason);
    }
    plan_finish(&other);
}

Test(plan, keeps_its_rules_on_random_inputs)
{
    static struct random_input random;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct rng rng;
        struct plan plan;
        rng_init(&rng, seed);
        make_input(&rng, &random);
        plan_compute(&random.input, &plan);
        check_plan(&random.input, &plan, seed);
        check_shuffled(&rng, &random.input, &plan);
        plan_finish(&plan);
    }
}
