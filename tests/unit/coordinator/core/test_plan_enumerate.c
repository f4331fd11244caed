/*
 * The planner on every small cluster: what D5 promises, without a sample.
 *
 * The worlds are small (up to four agents, six processors, two jobs) and complete: every way in
 * which processors can be spread, every set of newcomers, hand-overs under way in every state. What
 * is owed is counted by trying out every end.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/coordinator/core/plan_rig.h"

#define AGENTS_MAX     4
#define PROCESSORS_MAX 6
#define AMPLE          99

/* ---- spreads: how many processors of a job each agent has */

struct spread {
    uint32_t of[AGENTS_MAX];
};

struct spreads {
    struct spread items[128];
    size_t count;
};

static void add_spreads(struct spreads *spreads, struct spread *made, size_t agent, size_t agents,
                        uint32_t left)
{
    if (agent + 1 == agents) {
        made->of[agent] = left;
        cr_assert_lt(spreads->count, sizeof(spreads->items) / sizeof(spreads->items[0]));
        spreads->items[spreads->count++] = *made;
        return;
    }
    for (uint32_t n = 0; n <= left; n++) {
        made->of[agent] = n;
        add_spreads(spreads, made, agent + 1, agents, left - n);
    }
}

static void list_spreads(struct spreads *ret_spreads, size_t agents, uint32_t processors)
{
    struct spread made = {{0}};
    ret_spreads->count = 0;
    add_spreads(ret_spreads, &made, 0, agents, processors);
}

struct world {
    size_t agents, jobs;
    struct spread jobs_before[2];
    unsigned newcomers[2]; /* bits, by job */
};

static const char *describe(const struct world *world)
{
    static char text[160];
    int bytes = 0;
    for (size_t j = 0; j < world->jobs; j++) {
        bytes += snprintf(text + bytes, sizeof(text) - (size_t)bytes, "j%zu:", j);
        for (size_t a = 0; a < world->agents; a++)
            bytes += snprintf(text + bytes, sizeof(text) - (size_t)bytes, " %u%s",
                              world->jobs_before[j].of[a],
                              (world->newcomers[j] >> a & 1) != 0 ? "n" : "");
        bytes += snprintf(text + bytes, sizeof(text) - (size_t)bytes, "; ");
    }
    return text;
}

static void make_fleet(const struct world *world, struct fleet *ret_fleet)
{
    memset(ret_fleet, 0, sizeof(*ret_fleet));
    plan_rig_add_agents(ret_fleet, world->agents, AMPLE);
    for (size_t j = 0; j < world->jobs; j++)
        for (size_t a = 0; a < world->agents; a++) {
            plan_rig_add_processors(ret_fleet, plan_rig_jobs[j], world->jobs_before[j].of[a], a);
            if ((world->newcomers[j] >> a & 1) != 0)
                plan_rig_add_newcomer(ret_fleet, plan_rig_jobs[j], a);
        }
}

/* ---- what is owed */

static uint32_t total_of(const struct spread *ends, size_t jobs, size_t agent)
{
    uint32_t total = 0;
    for (size_t j = 0; j < jobs; j++)
        total += ends[j].of[agent];
    return total;
}

/* Nobody has two more of a job than a newcomer, or two more of everything and more of the job. */
static bool is_even(const struct world *world, const struct spread *ends)
{
    for (size_t j = 0; j < world->jobs; j++)
        for (size_t n = 0; n < world->agents; n++)
            for (size_t a = 0; (world->newcomers[j] >> n & 1) != 0 && a < world->agents; a++)
                if (ends[j].of[a] >= ends[j].of[n] + 2 ||
                    (ends[j].of[a] > ends[j].of[n] &&
                     total_of(ends, world->jobs, a) >= total_of(ends, world->jobs, n) + 2))
                    return false;
    return true;
}

/* UINT32_MAX: an agent that is established would get something. */
static uint32_t count_moves(const struct world *world, size_t job, const struct spread *end)
{
    uint32_t moves = 0;
    for (size_t a = 0; a < world->agents; a++) {
        if (end->of[a] <= world->jobs_before[job].of[a])
            continue;
        if ((world->newcomers[job] >> a & 1) == 0)
            return UINT32_MAX;
        moves += end->of[a] - world->jobs_before[job].of[a];
    }
    return moves;
}

static uint32_t count_processors(const struct world *world, size_t job)
{
    uint32_t count = 0;
    for (size_t a = 0; a < world->agents; a++)
        count += world->jobs_before[job].of[a];
    return count;
}

/* The fewest moves to any even end. */
static uint32_t count_owed(const struct world *world)
{
    static struct spreads ends[2];
    uint32_t least = UINT32_MAX;
    for (size_t j = 0; j < 2; j++)
        list_spreads(&ends[j], world->agents, j < world->jobs ? count_processors(world, j) : 0);
    for (size_t i = 0; i < ends[0].count; i++) {
        uint32_t first = count_moves(world, 0, &ends[0].items[i]);
        for (size_t k = 0; first < least && k < (world->jobs > 1 ? ends[1].count : 1); k++) {
            struct spread both[2] = {ends[0].items[i], ends[1].items[k]};
            uint32_t second = world->jobs > 1 ? count_moves(world, 1, &both[1]) : 0;
            if (second != UINT32_MAX && first + second < least && is_even(world, both))
                least = first + second;
        }
    }
    return least;
}

/* ---- carrying out */

static void expect_rest(struct fleet *fleet, const struct world *world, const char *when)
{
    struct plan plan;
    plan_rig_plan(fleet, &plan);
    cr_assert_eq(plan.change_count, 0, "%s, %s: %s", describe(world), when,
                 plan.change_count > 0 ? plan.changes[0].reason : "");
    plan_finish(&plan);
}

enum progress { PROGRESS_LEARNING, PROGRESS_RELEASING, PROGRESS_ACTIVATING, PROGRESS_DONE };

static void put(struct fleet *fleet, size_t processor, enum progress progress)
{
    struct plan_processor *row = &fleet->processors[processor];
    row->fixed = progress == PROGRESS_RELEASING || progress == PROGRESS_ACTIVATING;
    if (progress == PROGRESS_ACTIVATING)
        row->owner = row->target;
    row->learning = progress < PROGRESS_ACTIVATING;
    if (progress == PROGRESS_DONE)
        plan_rig_arrive(fleet, processor);
}

/* Whatever has come how far, in whatever order: there is nothing more to do. */
static void check_every_progress(const struct fleet *begun, const struct plan *plan,
                                 const struct world *world)
{
    static struct fleet fleet;
    size_t ways = 1;
    for (size_t i = 0; i < plan->change_count; i++)
        ways *= PROGRESS_DONE + 1;
    for (size_t way = 0; way < ways; way++) {
        plan_rig_copy(&fleet, begun);
        size_t rest = way;
        for (size_t i = 0; i < plan->change_count; i++, rest /= PROGRESS_DONE + 1)
            put(&fleet, plan->changes[i].processor, (enum progress)(rest % (PROGRESS_DONE + 1)));
        expect_rest(&fleet, world, "on the way");
    }
}

/* `spare`: moves that there may be beyond the fewest. */
static void check_world(const struct world *world, uint32_t spare)
{
    static struct fleet fleet;
    struct plan plan;
    struct spread ends[2];
    make_fleet(world, &fleet);
    plan_rig_plan(&fleet, &plan);
    plan_rig_check(&fleet, &plan, describe(world));
    for (size_t i = 0; i < plan.change_count; i++)
        cr_assert_eq(plan.changes[i].kind, PLAN_KIND_HAND_OVER);
    uint32_t owed = count_owed(world);
    cr_assert(plan.change_count >= owed && plan.change_count <= owed + spare,
              "%s: %zu moves, %u are owed", describe(world), plan.change_count, owed);
    plan_rig_begin(&fleet, &plan);
    check_every_progress(&fleet, &plan, world);
    plan_rig_arrive_all(&fleet);
    expect_rest(&fleet, world, "done");
    for (size_t j = 0; j < world->jobs; j++)
        for (size_t a = 0; a < world->agents; a++)
            ends[j].of[a] = plan_rig_count_in_job(&fleet, plan_rig_jobs[j], a);
    cr_assert(is_even(world, ends), "%s", describe(world));
    plan_finish(&plan);
}

Test(plan_enumerate, one_job_takes_the_fewest_moves_and_then_rests)
{
    static struct spreads spreads;
    for (size_t agents = 1; agents <= AGENTS_MAX; agents++)
        for (uint32_t processors = 0; processors <= PROCESSORS_MAX; processors++) {
            list_spreads(&spreads, agents, processors);
            for (size_t s = 0; s < spreads.count; s++)
                for (unsigned newcomers = 0; newcomers < 1U << agents; newcomers++)
                    check_world(&(struct world){.agents = agents,
                                                .jobs = 1,
                                                .jobs_before = {spreads.items[s]},
                                                .newcomers = {newcomers}},
                                0);
        }
}

/* Established, agents keep what they have, however uneven that is. */
Test(plan_enumerate, nothing_moves_when_nothing_has_changed)
{
    static struct spreads spreads[2];
    static struct fleet fleet;
    for (size_t agents = 1; agents <= AGENTS_MAX; agents++) {
        list_spreads(&spreads[0], agents, 3);
        list_spreads(&spreads[1], agents, 3);
        for (size_t s = 0; s < spreads[0].count; s++)
            for (size_t t = 0; t < spreads[1].count; t++) {
                struct world world = {.agents = agents,
                                      .jobs = 2,
                                      .jobs_before = {spreads[0].items[s], spreads[1].items[t]}};
                make_fleet(&world, &fleet);
                expect_rest(&fleet, &world, "nothing has changed");
            }
    }
}

static void check_two_jobs(size_t agents, uint32_t first, uint32_t second, uint32_t spare)
{
    static struct spreads spreads[2];
    list_spreads(&spreads[0], agents, first);
    list_spreads(&spreads[1], agents, second);
    for (size_t s = 0; s < spreads[0].count; s++)
        for (size_t t = 0; t < spreads[1].count; t++)
            for (unsigned newcomers = 0; newcomers < 1U << (2 * agents); newcomers++) {
                unsigned mask = (1U << agents) - 1;
                check_world(
                    &(struct world){.agents = agents,
                                    .jobs = 2,
                                    .jobs_before = {spreads[0].items[s], spreads[1].items[t]},
                                    .newcomers = {newcomers & mask, newcomers >> agents}},
                    spare);
            }
}

Test(plan_enumerate, two_jobs_take_the_fewest_moves_and_then_rest)
{
    for (uint32_t first = 1; first <= 3; first++)
        for (uint32_t second = first; second <= 3; second++)
            for (size_t agents = 1; agents <= 3; agents++)
                check_two_jobs(agents, first, second, 0);
}

/* Job by job, so where agents are new to one job and not to the other, a move for the sum may come
 * on top that a cleverer choice before would have saved: one, in one world of sixty. */
Test(plan_enumerate, four_agents_with_two_jobs_take_one_move_more_at_most)
{
    static struct spreads spreads;
    list_spreads(&spreads, 4, 3);
    for (size_t s = 0; s < spreads.count; s++)
        for (size_t t = 0; t < spreads.count; t++)
            for (unsigned first = 0; first < 16; first += 3)
                for (unsigned second = 0; second < 16; second += 5)
                    check_world(&(struct world){.agents = 4,
                                                .jobs = 2,
                                                .jobs_before = {spreads.items[s], spreads.items[t]},
                                                .newcomers = {first, second}},
                                first != second);
}

/* ---- every state of every processor */

#define STATE_AGENTS     3
#define STATE_PROCESSORS 3
#define LOST             "lost"

/*
 * Number `state` of one processor: without owner; owned; its owner is away; it is gone; with a
 * hand-over that learns (nothing known, or nearly there), is being released, or was released; the
 * owner of one that learned is gone. 0: there are no more states.
 */
static bool set_state(struct plan_processor *processor, const struct fleet *fleet, unsigned state)
{
    if (state < STATE_AGENTS) {
        processor->owner = fleet->names[state];
        return true;
    }
    state -= STATE_AGENTS;
    if (state < 3) {
        processor->owner = state == 0 ? NULL : LOST;
        processor->gone = state == 2;
        processor->kept_on = fleet->names[1];
        return true;
    }
    state -= 3;
    if (state < STATE_AGENTS) {
        processor->owner = LOST;
        processor->gone = true;
        processor->target = fleet->names[state];
        processor->learning = true;
        return true;
    }
    state -= STATE_AGENTS;
    unsigned owner = state % STATE_AGENTS, way = state / STATE_AGENTS;
    size_t target = (owner + 1 + way % (STATE_AGENTS - 1)) % STATE_AGENTS;
    way /= STATE_AGENTS - 1;
    processor->target = fleet->names[target];
    processor->owner = fleet->names[way == 3 ? target : owner];
    processor->behind = way == 1 ? 7 : PLAN_UNKNOWN;
    processor->learning = way < 3;
    processor->fixed = way >= 2;
    return way < 4;
}

/* Two processors of j0 and one of j1. False: there are no more. */
static bool make_states(struct fleet *ret_fleet, const unsigned states[STATE_PROCESSORS])
{
    memset(ret_fleet, 0, sizeof(*ret_fleet));
    plan_rig_add_agents(ret_fleet, STATE_AGENTS, AMPLE);
    plan_rig_add_processors(ret_fleet, "j0", 2, 0);
    plan_rig_add_processors(ret_fleet, "j1", 1, 0);
    for (size_t i = 0; i < STATE_PROCESSORS; i++)
        if (!set_state(&ret_fleet->processors[i], ret_fleet, states[i]))
            return false;
    return true;
}

static unsigned count_states(void)
{
    static struct fleet fleet;
    unsigned states[STATE_PROCESSORS] = {0};
    while (make_states(&fleet, states))
        states[0]++;
    return states[0];
}

/* Calls visit with every fleet. */
static void for_each_states(void (*visit)(struct fleet *fleet, const char *what))
{
    static struct fleet fleet;
    char what[64];
    unsigned count = count_states(), states[STATE_PROCESSORS];
    cr_assert_eq(count, 3 + 3 + 3 + 4 * 6);
    for (states[0] = 0; states[0] < count; states[0]++)
        for (states[1] = 0; states[1] < count; states[1]++)
            for (states[2] = 0; states[2] < count; states[2]++) {
                cr_assert(make_states(&fleet, states));
                (void)snprintf(what, sizeof(what), "states %u %u %u", states[0], states[1],
                               states[2]);
                visit(&fleet, what);
            }
}

static void add_newcomers(struct fleet *fleet, unsigned bits)
{
    fleet->newcomer_count = 0;
    for (size_t a = 0; a < STATE_AGENTS; a++)
        for (size_t j = 0; j < 2; j++)
            if ((bits >> (2 * a + j) & 1) != 0)
                plan_rig_add_newcomer(fleet, plan_rig_jobs[j], a);
}

/* ---- the order of rows */

static const size_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static void check_same(const struct plan *plan, const struct plan *other, const size_t *source,
                       const char *what)
{
    cr_assert_eq(other->change_count, plan->change_count, "%s", what);
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_change *a = &plan->changes[i], *b = &other->changes[i];
        cr_assert_eq(source[b->processor], a->processor, "%s", what);
        cr_assert_eq(b->kind, a->kind, "%s", what);
        cr_assert_str_eq(b->reason, a->reason, "%s", what);
        cr_assert_eq(a->target == NULL, b->target == NULL, "%s", what);
        cr_assert(a->target == NULL || strcmp(a->target, b->target) == 0, "%s", what);
    }
}

static void check_orders(struct fleet *fleet, const char *what)
{
    static struct fleet other;
    struct plan plan, again;
    add_newcomers(fleet, 0x2b); /* 0 and 1 to j0, 0 and 2 to j1 */
    fleet->agents[1].max_learners = 1;
    plan_rig_plan(fleet, &plan);
    for (size_t o = 1; o < 6; o++) {
        plan_rig_copy(&other, fleet);
        for (size_t i = 0; i < 3; i++) {
            other.processors[i] = fleet->processors[orders[o][i]];
            other.agents[i] = fleet->agents[orders[(o + 2) % 6][i]];
        }
        for (size_t i = 0; i < fleet->newcomer_count; i++)
            other.newcomers[i] = fleet->newcomers[(i + o) % fleet->newcomer_count];
        plan_compute(&(struct plan_input){.agents = other.agents,
                                          .agent_count = other.agent_count,
                                          .processors = other.processors,
                                          .processor_count = other.processor_count,
                                          .newcomers = other.newcomers,
                                          .newcomer_count = other.newcomer_count},
                     &again);
        check_same(&plan, &again, orders[o], what);
        plan_finish(&again);
    }
    plan_finish(&plan);
}

Test(plan_enumerate, any_order_of_rows_gives_the_same_plan)
{
    for_each_states(check_orders);
}

/* ---- rules and rest */

struct limits {
    uint32_t capacity, max_learners, max_learners_of_job;
    unsigned cordoned, newcomers; /* bits */
};

/* Ample and tight, with and without somebody who may not receive. */
static const struct limits all_limits[] = {
    {AMPLE, 0, 0, 0, 0x3f}, {AMPLE, 1, 0, 0, 0x3f}, {AMPLE, 0, 1, 0, 0x3f}, {AMPLE, 0, 0, 1, 0x3f},
    {AMPLE, 1, 1, 6, 0x33}, {1, 0, 0, 0, 0x3f},     {2, 1, 0, 4, 0x0f},     {2, 0, 0, 0, 0x15},
    {0, 0, 0, 0, 0x3f},     {AMPLE, 0, 0, 7, 0x3f}, {AMPLE, 0, 0, 0, 0x28}, {1, 1, 1, 2, 0x3c},
};

static void set_limits(struct fleet *fleet, const struct limits *limits)
{
    add_newcomers(fleet, limits->newcomers);
    for (size_t a = 0; a < STATE_AGENTS; a++) {
        fleet->agents[a].capacity = limits->capacity;
        fleet->agents[a].max_learners = limits->max_learners;
        fleet->agents[a].cordoned = (limits->cordoned >> a & 1) != 0;
    }
    for (size_t i = 0; i < STATE_PROCESSORS; i++)
        fleet->processors[i].max_learners = limits->max_learners_of_job;
}

/* Plans are carried out until there is nothing to do and nothing under way; nothing is moved twice,
 * also not where room and slots are so few that they have to be waited for. */
static void carry_out_to_the_end(struct fleet *fleet, bool last_first, const char *what)
{
    unsigned moves[STATE_PROCESSORS] = {0};
    for (int turn = 0;; turn++) {
        struct plan plan;
        cr_assert_lt(turn, 20, "%s: no end", what);
        plan_rig_plan(fleet, &plan);
        plan_rig_check(fleet, &plan, what);
        for (size_t i = 0; i < plan.change_count; i++)
            moves[plan.changes[i].processor] += plan.changes[i].kind == PLAN_KIND_HAND_OVER;
        plan_rig_begin(fleet, &plan);
        size_t changes = plan_rig_count_changes(&plan);
        plan_finish(&plan);
        plan_rig_plan(fleet, &plan);
        plan_rig_check(fleet, &plan, what);
        plan_finish(&plan);
        bool arrived = false;
        for (size_t i = 0; i < STATE_PROCESSORS && !arrived; i++) {
            size_t index = last_first ? STATE_PROCESSORS - 1 - i : i;
            arrived = fleet->processors[index].target != NULL;
            plan_rig_arrive(fleet, index);
        }
        if (!arrived && changes == 0)
            break;
    }
    for (size_t i = 0; i < STATE_PROCESSORS; i++)
        cr_assert_leq(moves[i], 1, "%s: processor %zu moved %u times", what, i, moves[i]);
}

/* One of the limits and one of the two ways in turn: every pair of states meets all of them while
 * the third state changes. */
static void check_limits(struct fleet *fleet, const char *what)
{
    static size_t turn;
    size_t count = sizeof(all_limits) / sizeof(all_limits[0]);
    char text[96];
    (void)snprintf(text, sizeof(text), "%s, limits %zu", what, turn % count);
    set_limits(fleet, &all_limits[turn % count]);
    carry_out_to_the_end(fleet, turn / count % 2 == 1, text);
    turn++;
}

Test(plan_enumerate, rules_are_kept_from_every_state_to_the_end)
{
    for_each_states(check_limits);
}
