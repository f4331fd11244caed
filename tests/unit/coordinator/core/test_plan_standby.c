/* Where standbys are: small tables, and what holds for every plan of a random cluster. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/rng.h"
#include "coordinator/core/plan_standby.h"

#define AGENTS     8
#define PROCESSORS 48
#define HOLDINGS   256

static const char *const names[AGENTS] = {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"};
static const char *const zones[] = {NULL, "north", "south", "east"};

struct fleet {
    struct plan_host hosts[AGENTS];
    struct plan_guarded processors[PROCESSORS];
    struct plan_holding holdings[HOLDINGS];
    struct plan_refusal refusals[AGENTS];
    struct plan_standby_input input;
};

static void prepare(struct fleet *fleet, size_t agents, size_t processors, uint32_t wanted)
{
    memset(fleet, 0, sizeof(*fleet));
    for (size_t a = 0; a < agents; a++)
        fleet->hosts[a] = (struct plan_host){.agent_id = names[a], .capacity = 100};
    for (size_t p = 0; p < processors; p++) {
        size_t owner = p % agents;
        fleet->processors[p] = (struct plan_guarded){
            .job = "j", .processor = (uint32_t)p, .wanted = wanted, .owner = names[owner]};
        fleet->hosts[owner].load++;
    }
    fleet->input = (struct plan_standby_input){.hosts = fleet->hosts,
                                               .host_count = agents,
                                               .processors = fleet->processors,
                                               .processor_count = processors,
                                               .holdings = fleet->holdings,
                                               .refusals = fleet->refusals};
}

static void hold(struct fleet *fleet, size_t processor, size_t agent, bool learning)
{
    cr_assert_lt(fleet->input.holding_count, HOLDINGS);
    fleet->holdings[fleet->input.holding_count++] = (struct plan_holding){
        .processor = processor, .agent_id = names[agent], .learning = learning};
}

static void refuse(struct fleet *fleet, size_t agent)
{
    fleet->refusals[fleet->input.refusal_count++] = (struct plan_refusal){"j", names[agent]};
}

static void drop(struct fleet *fleet, size_t processor, const char *agent_id)
{
    size_t at = 0;
    while (fleet->holdings[at].processor != processor ||
           strcmp(fleet->holdings[at].agent_id, agent_id) != 0)
        cr_assert_lt(++at, fleet->input.holding_count, "it ends one that is not there");
    fleet->holdings[at] = fleet->holdings[--fleet->input.holding_count];
}

static size_t index_of(const struct fleet *fleet, const char *agent_id)
{
    for (size_t a = 0; a < fleet->input.host_count; a++)
        if (strcmp(fleet->hosts[a].agent_id, agent_id) == 0)
            return a;
    return SIZE_MAX;
}

/* As the coordinator does at once. */
static void carry_out(struct fleet *fleet, const struct plan_standbys *plan)
{
    for (size_t i = 0; i < plan->change_count; i++) {
        const struct plan_standby_change *change = &plan->changes[i];
        cr_assert_not_null(change->reason);
        if (change->kind == PLAN_STANDBY_END) {
            cr_assert(i == 0 || plan->changes[i - 1].kind == PLAN_STANDBY_END, "ends come first");
            drop(fleet, change->processor, change->agent_id);
        } else {
            cr_assert_lt(fleet->input.holding_count, HOLDINGS);
            fleet->holdings[fleet->input.holding_count++] = (struct plan_holding){
                .processor = change->processor, .agent_id = change->agent_id, .learning = true};
        }
    }
}

/* How many it has changed. */
static size_t plan_and_do(struct fleet *fleet)
{
    struct plan_standbys plan;
    plan_standby_compute(&fleet->input, &plan);
    carry_out(fleet, &plan);
    size_t changes = plan.change_count;
    plan_standby_finish(&plan);
    return changes;
}

static size_t count_on(const struct fleet *fleet, size_t agent)
{
    size_t count = 0;
    for (size_t i = 0; i < fleet->input.holding_count; i++)
        count += strcmp(fleet->holdings[i].agent_id, names[agent]) == 0;
    return count;
}

static size_t count_of(const struct fleet *fleet, size_t processor)
{
    size_t count = 0;
    for (size_t i = 0; i < fleet->input.holding_count; i++)
        count += fleet->holdings[i].processor == processor;
    return count;
}

static bool holds(const struct fleet *fleet, size_t processor, size_t agent)
{
    for (size_t i = 0; i < fleet->input.holding_count; i++)
        if (fleet->holdings[i].processor == processor &&
            strcmp(fleet->holdings[i].agent_id, names[agent]) == 0)
            return true;
    return false;
}

static enum standby_lack lack_of(const struct fleet *fleet, size_t processor)
{
    struct plan_standbys plan;
    plan_standby_compute(&fleet->input, &plan);
    enum standby_lack lack = plan.lacks[processor];
    plan_standby_finish(&plan);
    return lack;
}

/* The reason of the one end of the plan. */
static void expect_end(const struct fleet *fleet, size_t agent, const char *why)
{
    struct plan_standbys plan;
    size_t ends = 0;
    plan_standby_compute(&fleet->input, &plan);
    for (size_t i = 0; i < plan.change_count; i++) {
        if (plan.changes[i].kind != PLAN_STANDBY_END)
            continue;
        ends++;
        cr_assert_str_eq(plan.changes[i].agent_id, names[agent]);
        cr_assert_not_null(strstr(plan.changes[i].reason, why), "%s", plan.changes[i].reason);
    }
    cr_assert_eq(ends, 1);
    plan_standby_finish(&plan);
}

static struct fleet fleet;

/* ---- who gets one */

Test(plan_standby, spreads_them_evenly_and_over_all_others)
{
    prepare(&fleet, 4, 24, 1);
    plan_and_do(&fleet);
    for (size_t a = 0; a < 4; a++) {
        size_t of[4] = {0};
        cr_assert_eq(count_on(&fleet, a), 6);
        for (size_t p = 0; p < 24; p++)
            for (size_t b = 0; b < 4; b++)
                of[b] += p % 4 == a && holds(&fleet, p, b);
        cr_assert_eq(of[a], 0, "not with its owner");
        for (size_t b = 0; b < 4; b++)
            cr_assert(b == a || of[b] > 0, "all of %s's are with others than %s", names[a],
                      names[b]);
    }
    cr_assert_eq(plan_and_do(&fleet), 0);
}

Test(plan_standby, everybody_has_a_first_one_before_a_second_one)
{
    prepare(&fleet, 3, 3, 2);
    for (size_t a = 0; a < 3; a++)
        fleet.hosts[a].capacity = a == 0 ? 2 : 3; /* room for 1, 2 and 2 */
    plan_and_do(&fleet);
    cr_assert_eq(fleet.input.holding_count, 5);
    for (size_t p = 0; p < 3; p++) {
        cr_assert_geq(count_of(&fleet, p), 1);
        cr_assert_eq(lack_of(&fleet, p),
                     count_of(&fleet, p) == 2 ? STANDBY_LACK_NONE : STANDBY_LACK_AGENT);
    }
    for (size_t a = 0; a < 3; a++)
        fleet.hosts[a].capacity = 3;
    plan_and_do(&fleet);
    for (size_t p = 0; p < 3; p++) {
        cr_assert_eq(count_of(&fleet, p), 2);
        cr_assert_eq(lack_of(&fleet, p), STANDBY_LACK_NONE);
    }
}

Test(plan_standby, another_zone_goes_before_the_load)
{
    prepare(&fleet, 3, 1, 1);
    fleet.hosts[0].zone = fleet.hosts[1].zone = "north";
    fleet.hosts[2].zone = "south";
    fleet.hosts[2].load = 50;
    plan_and_do(&fleet);
    cr_assert(holds(&fleet, 0, 2));
}

Test(plan_standby, two_go_to_two_zones)
{
    prepare(&fleet, 4, 1, 2);
    fleet.hosts[0].zone = "north";
    fleet.hosts[1].zone = fleet.hosts[2].zone = "south";
    fleet.hosts[3].zone = "east";
    fleet.hosts[3].load = 50;
    plan_and_do(&fleet);
    cr_assert(holds(&fleet, 0, 3));
    cr_assert(holds(&fleet, 0, 1));
}

Test(plan_standby, goes_to_who_keeps_the_state)
{
    prepare(&fleet, 3, 1, 1);
    fleet.hosts[2].load = 50;
    fleet.processors[0].kept_on = names[2];
    plan_and_do(&fleet);
    cr_assert(holds(&fleet, 0, 2));
}

Test(plan_standby, does_not_go_to_who_may_not_have_it)
{
    prepare(&fleet, 5, 1, 1);
    fleet.hosts[1].barred = true;
    fleet.hosts[2].capacity = 0;
    fleet.processors[0].target = names[3]; /* as good as one */
    refuse(&fleet, 4);
    cr_assert_eq(plan_and_do(&fleet), 0);
    cr_assert_eq(lack_of(&fleet, 0), STANDBY_LACK_TARGET);
    fleet.processors[0].wanted = 2;
    cr_assert_eq(plan_and_do(&fleet), 0);
    cr_assert_eq(lack_of(&fleet, 0), STANDBY_LACK_AGENT);
}

Test(plan_standby, without_owner_there_is_nothing_to_follow)
{
    prepare(&fleet, 3, 1, 1);
    fleet.processors[0].owner = NULL;
    cr_assert_eq(plan_and_do(&fleet), 0);
    hold(&fleet, 0, 1, false);
    cr_assert_eq(plan_and_do(&fleet), 0, "what is there stays");
}

/* ---- slots */

Test(plan_standby, waits_for_a_slot_of_its_agent)
{
    prepare(&fleet, 2, 4, 1);
    fleet.hosts[1].max_learners = 1;
    fleet.hosts[1].learners = 1; /* of a hand-over */
    plan_and_do(&fleet);
    cr_assert_eq(count_on(&fleet, 1), 0);
    cr_assert_eq(lack_of(&fleet, 0), STANDBY_LACK_SLOT);
    cr_assert_eq(count_on(&fleet, 0), 2);
    fleet.hosts[1].learners = 0;
    plan_and_do(&fleet);
    cr_assert_eq(count_on(&fleet, 1), 1);
}

Test(plan_standby, waits_for_a_slot_of_its_job)
{
    prepare(&fleet, 3, 6, 1);
    for (size_t p = 0; p < 6; p++)
        fleet.processors[p].max_learners = 2;
    fleet.processors[5].learning = true;
    for (size_t done = 1; done <= 6; done++) {
        cr_assert_eq(plan_and_do(&fleet), 1);
        cr_assert_eq(fleet.input.holding_count, done);
        for (size_t i = 0; i < done; i++)
            fleet.holdings[i].learning = false; /* it has caught up */
    }
    cr_assert_eq(plan_and_do(&fleet), 0);
}

/* ---- what ends */

Test(plan_standby, stays_where_it_is)
{
    prepare(&fleet, 3, 1, 1);
    fleet.hosts[0].zone = fleet.hosts[1].zone = "north";
    fleet.hosts[2].zone = "south";
    fleet.hosts[1].load = 90;
    hold(&fleet, 0, 1, true);
    fleet.hosts[1].barred = true;
    cr_assert_eq(plan_and_do(&fleet), 0);
}

Test(plan_standby, ends_with_its_agent)
{
    prepare(&fleet, 3, 1, 1);
    hold(&fleet, 0, 1, false);
    fleet.hosts[1].barred = true;
    fleet.holdings[0].lost = "is gone";
    expect_end(&fleet, 1, "a1 is gone");
    plan_and_do(&fleet);
    cr_assert(holds(&fleet, 0, 2), "and goes elsewhere");
}

Test(plan_standby, ends_where_it_can_not_be_rebuilt)
{
    prepare(&fleet, 3, 1, 1);
    hold(&fleet, 0, 1, true);
    refuse(&fleet, 1);
    expect_end(&fleet, 1, "can not rebuild");
    plan_and_do(&fleet);
    cr_assert(holds(&fleet, 0, 2));
}

Test(plan_standby, of_those_too_many_the_one_in_the_worse_zone_ends)
{
    prepare(&fleet, 3, 1, 1);
    fleet.hosts[0].zone = fleet.hosts[1].zone = "north";
    fleet.hosts[2].zone = "south";
    fleet.hosts[2].load = 50;
    hold(&fleet, 0, 1, false);
    hold(&fleet, 0, 2, true);
    expect_end(&fleet, 1, "wants 1");
    fleet.hosts[2].zone = "north";
    expect_end(&fleet, 2, "wants 1"); /* then the one that knows less */
    fleet.holdings[1].learning = false;
    expect_end(&fleet, 2, "wants 1"); /* then the one with more beside it */
    fleet.hosts[1].load = 60;
    expect_end(&fleet, 1, "wants 1");
}

Test(plan_standby, gives_way_to_owners_and_learners)
{
    prepare(&fleet, 3, 2, 1);
    hold(&fleet, 0, 2, false);
    hold(&fleet, 1, 2, true);
    fleet.hosts[2].capacity = 3;
    fleet.hosts[2].load = 2;
    expect_end(&fleet, 2, "needs the room");
    plan_and_do(&fleet);
    cr_assert(holds(&fleet, 0, 2), "the one that knows more stays");
    cr_assert(holds(&fleet, 1, 0), "the other one goes elsewhere");
}

/* ---- what owners and hand-overs make of them (plan.h) */

static const struct plan_agent hosts_of_owners[] = {
    {.agent_id = "a1", .capacity = 9, .load = 3},
    {.agent_id = "a2", .capacity = 9, .load = 1, .max_learners = 1},
    {.agent_id = "a3", .capacity = 1, .load = 1},
};

/* One processor, of an agent that is gone or of a1; the one change of the plan, which is checked.
 */
static void expect_owner(struct plan_processor processor, const char *wanted, const char *why)
{
    struct plan_agent agents[3];
    memcpy(agents, hosts_of_owners, sizeof(agents));
    agents[0].leaving = agents[0].cordoned = !processor.gone;
    processor.job = "j";
    processor.owner = processor.gone ? "a0" : "a1";
    struct plan_input input = {
        .agents = agents, .agent_count = 3, .processors = &processor, .processor_count = 1};
    struct plan plan;
    plan_compute(&input, &plan);
    cr_assert_eq(plan.change_count, 1);
    cr_assert_str_eq(plan.changes[0].target, wanted, "%s", plan.changes[0].reason);
    cr_assert_eq(plan.changes[0].kind, processor.gone ? PLAN_KIND_PLACE : PLAN_KIND_HAND_OVER);
    cr_assert_not_null(strstr(plan.changes[0].reason, why), "%s", plan.changes[0].reason);
    plan_finish(&plan);
}

Test(plan_standby, takes_over_what_has_lost_its_owner)
{
    struct plan_processor lost = {.gone = true,
                                  .behind = PLAN_UNKNOWN,
                                  .kept_behind = PLAN_UNKNOWN,
                                  .standby_behind = 50,
                                  .standby_ready = true,
                                  .standby_on = "a1"};
    expect_owner(lost, "a1", "a1 has its standby");
    lost.kept_on = "a2"; /* ready, it goes before what is on a disk, however far that is */
    lost.kept_behind = 0;
    expect_owner(lost, "a1", "a1 has its standby");
    lost.target = "a2";
    lost.behind = 0;
    expect_owner(lost, "a1", "a1 has its standby");
    lost.standby_ready = false; /* else whoever is further */
    expect_owner(lost, "a2", "has learned it");
    lost.target = NULL;
    expect_owner(lost, "a2", "keeps its state");
    lost.kept_behind = 51;
    expect_owner(lost, "a1", "a1 has its standby");
    lost.standby_on = "a3"; /* whose place it is, though it is full */
    expect_owner(lost, "a3", "a3 has its standby");
}

Test(plan_standby, gets_what_leaves_and_needs_no_slot)
{
    struct plan_processor leaving = {.behind = PLAN_UNKNOWN,
                                     .kept_behind = 0,
                                     .kept_on = "a3",
                                     .standby_behind = 9,
                                     .max_learners = 1,
                                     .standby_on = "a2"};
    expect_owner(leaving, "a2", "a2 has its standby");
}

/* ---- random clusters */

static void make_random(struct rng *rng, struct fleet *ret_fleet)
{
    size_t agents = 1 + rng_below(rng, AGENTS), processors = rng_below(rng, 20);
    bool zoned = rng_below(rng, 2) == 0;
    prepare(ret_fleet, agents, processors, 0);
    for (size_t a = 0; a < agents; a++) {
        struct plan_host *host = &ret_fleet->hosts[a];
        host->capacity = (uint32_t)(host->load + rng_below(rng, 9));
        host->max_learners = (uint32_t)rng_below(rng, 4);
        host->learners = (uint32_t)rng_below(rng, 2);
        host->barred = rng_below(rng, 6) == 0;
        host->zone = zoned ? zones[rng_below(rng, 4)] : NULL;
    }
    if (rng_below(rng, 4) == 0)
        refuse(ret_fleet, rng_below(rng, agents));
    for (size_t p = 0; p < processors; p++) {
        struct plan_guarded *guarded = &ret_fleet->processors[p];
        size_t owner = index_of(ret_fleet, guarded->owner);
        guarded->job = p % 3 == 0 ? "i" : "j";
        guarded->wanted = (uint32_t)rng_below(rng, 4);
        guarded->max_learners = p % 3 == 0 ? 3 : 0;
        size_t target = rng_below(rng, agents);
        if (rng_below(rng, 5) == 0 && target != owner) {
            guarded->target = names[target];
            guarded->learning = true;
        }
        if (rng_below(rng, 3) == 0)
            guarded->kept_on = names[rng_below(rng, agents)];
        for (size_t a = 0; a < agents; a++)
            if (a != owner && (guarded->target == NULL || a != target) && rng_below(rng, 4) == 0) {
                hold(ret_fleet, p, a, rng_below(rng, 2) == 0);
                if (rng_below(rng, 5) == 0)
                    ret_fleet->holdings[ret_fleet->input.holding_count - 1].lost = "is gone";
            }
        if (rng_below(rng, 10) == 0)
            guarded->owner = NULL;
    }
}

/* What holds after every plan. */
static void check(const struct fleet *before, const struct fleet *after, uint64_t seed)
{
    for (size_t p = 0; p < after->input.processor_count; p++) {
        const struct plan_guarded *guarded = &after->processors[p];
        cr_assert_leq(count_of(after, p), guarded->wanted, "seed %lu", seed);
        for (size_t a = 0; a < after->input.host_count; a++) {
            if (!holds(after, p, a))
                continue;
            cr_assert(guarded->owner == NULL || strcmp(guarded->owner, names[a]) != 0, "seed %lu",
                      seed);
            cr_assert(guarded->target == NULL || strcmp(guarded->target, names[a]) != 0, "seed %lu",
                      seed);
            cr_assert(holds(before, p, a) || !after->hosts[a].barred, "seed %lu", seed);
        }
    }
    for (size_t a = 0; a < after->input.host_count; a++) {
        const struct plan_host *host = &after->hosts[a];
        cr_assert_leq(host->load + count_on(after, a), host->capacity, "seed %lu", seed);
        size_t learning = host->learners, begun = 0;
        for (size_t i = 0; i < after->input.holding_count; i++) {
            const struct plan_holding *holding = &after->holdings[i];
            if (strcmp(holding->agent_id, host->agent_id) != 0)
                continue;
            cr_assert_null(holding->lost, "seed %lu", seed);
            learning += holding->learning;
            begun += !holds(before, holding->processor, a);
        }
        if (begun > 0 && host->max_learners > 0)
            cr_assert_leq(learning, host->max_learners, "seed %lu", seed);
    }
}

/* The same cluster with its rows in another order; `ret_where`: where a processor has gone. */
static void shuffle(struct rng *rng, const struct fleet *from, struct fleet *ret_to,
                    size_t *ret_where)
{
    *ret_to = *from;
    ret_to->input.hosts = ret_to->hosts;
    ret_to->input.processors = ret_to->processors;
    ret_to->input.holdings = ret_to->holdings;
    ret_to->input.refusals = ret_to->refusals;
    for (size_t i = 0; i < from->input.processor_count; i++)
        ret_where[i] = i;
    for (size_t i = from->input.host_count; i-- > 1;) {
        size_t j = rng_below(rng, i + 1);
        struct plan_host kept = ret_to->hosts[i];
        ret_to->hosts[i] = ret_to->hosts[j];
        ret_to->hosts[j] = kept;
    }
    for (size_t i = from->input.processor_count; i-- > 1;) {
        size_t j = rng_below(rng, i + 1), where = ret_where[i];
        ret_where[i] = ret_where[j];
        ret_where[j] = where;
    }
    for (size_t i = 0; i < from->input.processor_count; i++)
        ret_to->processors[ret_where[i]] = from->processors[i];
    for (size_t i = 0; i < from->input.holding_count; i++)
        ret_to->holdings[i].processor = ret_where[from->holdings[i].processor];
    for (size_t i = from->input.holding_count; i-- > 1;) {
        size_t j = rng_below(rng, i + 1);
        struct plan_holding kept = ret_to->holdings[i];
        ret_to->holdings[i] = ret_to->holdings[j];
        ret_to->holdings[j] = kept;
    }
}

static void expect_same(const struct fleet *fleet_a, const struct fleet *fleet_b,
                        const size_t *where, uint64_t seed)
{
    struct plan_standbys a, b;
    plan_standby_compute(&fleet_a->input, &a);
    plan_standby_compute(&fleet_b->input, &b);
    cr_assert_eq(a.change_count, b.change_count, "seed %lu", seed);
    for (size_t i = 0; i < a.change_count; i++) {
        cr_assert_eq(a.changes[i].kind, b.changes[i].kind, "seed %lu", seed);
        cr_assert_eq(where[a.changes[i].processor], b.changes[i].processor, "seed %lu", seed);
        cr_assert_str_eq(a.changes[i].agent_id, b.changes[i].agent_id, "seed %lu", seed);
        cr_assert_str_eq(a.changes[i].reason, b.changes[i].reason, "seed %lu", seed);
    }
    for (size_t p = 0; p < fleet_a->input.processor_count; p++)
        cr_assert_eq(a.lacks[p], b.lacks[where[p]], "seed %lu", seed);
    plan_standby_finish(&a);
    plan_standby_finish(&b);
}

Test(plan_standby, random_clusters)
{
    static struct fleet before, after, shuffled;
    size_t where[PROCESSORS], begun = 0, ended = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct rng rng;
        rng_init(&rng, seed);
        make_random(&rng, &before);
        shuffle(&rng, &before, &shuffled, where);
        expect_same(&before, &shuffled, where, seed);
        after = before;
        after.input.hosts = after.hosts;
        after.input.processors = after.processors;
        after.input.holdings = after.holdings;
        after.input.refusals = after.refusals;
        size_t count = before.input.holding_count, changes = plan_and_do(&after);
        check(&before, &after, seed);
        begun += after.input.holding_count > count;
        ended += after.input.holding_count < count || changes > 0;
        /* Those that have learned let the rest come; nothing that has begun is taken back. */
        for (bool learned = false;; learned = true) {
            for (size_t i = 0; learned && i < after.input.holding_count; i++)
                after.holdings[i].learning = false;
            count = after.input.holding_count;
            changes = plan_and_do(&after);
            check(&before, &after, seed);
            cr_assert_eq(after.input.holding_count, count + changes, "seed %lu: one ends", seed);
            if (changes == 0 && learned)
                break;
        }
    }
    cr_assert_gt(begun, 100);
    cr_assert_gt(ended, 100);
}
