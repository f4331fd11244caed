#include "coordinator/core/plan_standby.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define NOBODY SIZE_MAX

struct host {
    const struct plan_host *row;
    uint32_t standbys; /* on it, and to come */
    uint32_t learners; /* likewise, with those of hand-overs */
};

struct guarded {
    const struct plan_guarded *row;
    size_t index;                  /* in the input */
    size_t owner, target, kept_on; /* hosts, or NOBODY */
    size_t job;                    /* number of its job, in the order of names */
    size_t *holders;               /* hosts */
    size_t holder_count, holder_capacity;
    uint32_t have; /* standbys, and those to come */
};

struct holding {
    const struct plan_holding *row;
    size_t processor; /* of the sorted ones */
    size_t host;      /* or NOBODY */
    bool ends;
};

struct planning {
    const struct plan_standby_input *input;
    struct host *hosts;         /* by agent id */
    struct guarded *processors; /* by job, then number */
    size_t *sorted;             /* where a row of the input is among them */
    struct holding *holdings;   /* by processor, then agent id */
    uint32_t *of_jobs;          /* learners of each job */
    uint32_t *shared; /* by owner and host: standbys that the host has of the owner's processors */
    struct plan_standbys *plan;
};

/* ---- preparing */

static int compare_hosts(const void *a, const void *b)
{
    return strcmp(((const struct host *)a)->row->agent_id, ((const struct host *)b)->row->agent_id);
}

static int compare_processors(const void *a, const void *b)
{
    const struct plan_guarded *left = ((const struct guarded *)a)->row;
    const struct plan_guarded *right = ((const struct guarded *)b)->row;
    int order = strcmp(left->job, right->job);
    if (order != 0)
        return order;
    return left->processor < right->processor ? -1 : left->processor > right->processor;
}

static int compare_holdings(const void *a, const void *b)
{
    const struct holding *left = a, *right = b;
    if (left->processor != right->processor)
        return left->processor < right->processor ? -1 : 1;
    return strcmp(left->row->agent_id, right->row->agent_id);
}

static size_t find_host(const struct planning *planning, const char *agent_id)
{
    struct plan_host row = {.agent_id = agent_id};
    struct host key = {.row = &row};
    const struct host *found = agent_id == NULL
                                   ? NULL
                                   : bsearch(&key, planning->hosts, planning->input->host_count,
                                             sizeof(struct host), compare_hosts);
    return found != NULL ? (size_t)(found - planning->hosts) : NOBODY;
}

static void prepare_hosts(struct planning *planning)
{
    const struct plan_standby_input *input = planning->input;
    planning->hosts = mem_calloc(input->host_count, sizeof(struct host));
    planning->shared = mem_calloc(input->host_count * input->host_count, sizeof(uint32_t));
    for (size_t i = 0; i < input->host_count; i++)
        planning->hosts[i] =
            (struct host){.row = &input->hosts[i], .learners = input->hosts[i].learners};
    qsort(planning->hosts, input->host_count, sizeof(struct host), compare_hosts);
}

static void prepare_processors(struct planning *planning)
{
    const struct plan_standby_input *input = planning->input;
    size_t count = input->processor_count, job = 0;
    planning->processors = mem_calloc(count, sizeof(struct guarded));
    planning->sorted = mem_calloc(count, sizeof(size_t));
    planning->of_jobs = mem_calloc(count, sizeof(uint32_t));
    for (size_t i = 0; i < count; i++)
        planning->processors[i] = (struct guarded){.row = &input->processors[i], .index = i};
    qsort(planning->processors, count, sizeof(struct guarded), compare_processors);
    for (size_t i = 0; i < count; i++) {
        struct guarded *guarded = &planning->processors[i];
        if (i > 0 && strcmp(guarded->row->job, planning->processors[i - 1].row->job) != 0)
            job++;
        guarded->job = job;
        guarded->owner = find_host(planning, guarded->row->owner);
        guarded->target = find_host(planning, guarded->row->target);
        guarded->kept_on = find_host(planning, guarded->row->kept_on);
        planning->sorted[guarded->index] = i;
        planning->of_jobs[job] += guarded->row->learning;
    }
}

static void hold(struct planning *planning, struct guarded *guarded, size_t host, bool learning)
{
    guarded->holders = mem_grow(guarded->holders, guarded->holder_count, &guarded->holder_capacity,
                                sizeof(size_t));
    guarded->holders[guarded->holder_count++] = host;
    guarded->have++;
    planning->hosts[host].standbys++;
    if (guarded->owner != NOBODY)
        planning->shared[guarded->owner * planning->input->host_count + host]++;
    if (learning) {
        planning->hosts[host].learners++;
        planning->of_jobs[guarded->job]++;
    }
}

static void prepare_holdings(struct planning *planning)
{
    const struct plan_standby_input *input = planning->input;
    planning->holdings = mem_calloc(input->holding_count, sizeof(struct holding));
    for (size_t i = 0; i < input->holding_count; i++)
        planning->holdings[i] =
            (struct holding){.row = &input->holdings[i],
                             .processor = planning->sorted[input->holdings[i].processor],
                             .host = find_host(planning, input->holdings[i].agent_id)};
    qsort(planning->holdings, input->holding_count, sizeof(struct holding), compare_holdings);
    for (size_t i = 0; i < input->holding_count; i++) {
        const struct holding *holding = &planning->holdings[i];
        if (holding->host != NOBODY)
            hold(planning, &planning->processors[holding->processor], holding->host,
                 holding->row->learning);
    }
}

/* ---- what ends */

static bool is_refused(const struct planning *planning, const struct guarded *guarded, size_t host)
{
    const struct plan_standby_input *input = planning->input;
    return plan_is_refused(input->refusals, input->refusal_count, guarded->row->job,
                           planning->hosts[host].row->agent_id);
}

/* Takes the reason. */
static void change(struct planning *planning, enum plan_standby_kind kind,
                   const struct guarded *guarded, const char *agent_id, char *reason)
{
    struct plan_standbys *plan = planning->plan;
    plan->changes = mem_grow(plan->changes, plan->change_count, &plan->change_capacity,
                             sizeof(struct plan_standby_change));
    plan->changes[plan->change_count++] = (struct plan_standby_change){
        .kind = kind, .processor = guarded->index, .agent_id = agent_id, .reason = reason};
}

/* Takes the reason. */
static void end(struct planning *planning, struct holding *holding, char *reason)
{
    struct guarded *guarded = &planning->processors[holding->processor];
    struct host *host = &planning->hosts[holding->host];
    size_t at = 0;
    while (guarded->holders[at] != holding->host)
        at++;
    memmove(&guarded->holders[at], &guarded->holders[at + 1],
            (guarded->holder_count - at - 1) * sizeof(size_t));
    guarded->holder_count--;
    guarded->have--;
    host->standbys--;
    if (guarded->owner != NOBODY)
        planning->shared[guarded->owner * planning->input->host_count + holding->host]--;
    if (holding->row->learning) {
        host->learners--;
        planning->of_jobs[guarded->job]--;
    }
    holding->ends = true;
    change(planning, PLAN_STANDBY_END, guarded, host->row->agent_id, reason);
}

static void end_lost(struct planning *planning)
{
    for (size_t i = 0; i < planning->input->holding_count; i++) {
        struct holding *holding = &planning->holdings[i];
        const struct guarded *guarded = &planning->processors[holding->processor];
        if (holding->host == NOBODY) {
            holding->ends = true;
            change(planning, PLAN_STANDBY_END, guarded, holding->row->agent_id,
                   mem_printf("agent %s is not here any more", holding->row->agent_id));
            continue;
        }
        const struct plan_host *host = planning->hosts[holding->host].row;
        if (holding->row->lost != NULL)
            end(planning, holding, mem_printf("agent %s %s", host->agent_id, holding->row->lost));
        else if (is_refused(planning, guarded, holding->host))
            end(planning, holding, mem_printf("agent %s can not rebuild it", host->agent_id));
    }
}

static bool same_zone(const struct planning *planning, size_t a, size_t b)
{
    const char *left = planning->hosts[a].row->zone, *right = planning->hosts[b].row->zone;
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

/* How badly the host shares its zone with who has the processor otherwise: 0 is best. */
static int count_clashes(const struct planning *planning, const struct guarded *guarded,
                         size_t host)
{
    bool owner = guarded->owner != NOBODY && same_zone(planning, guarded->owner, host);
    bool other = guarded->target != NOBODY && same_zone(planning, guarded->target, host);
    for (size_t i = 0; i < guarded->holder_count; i++)
        other = other ||
                (guarded->holders[i] != host && same_zone(planning, guarded->holders[i], host));
    return (owner ? 2 : 0) + (other ? 1 : 0);
}

/* Of two of one processor: the one in the worse zone, then the one that knows less, then the one
 * with more beside it. */
static bool ends_before(const struct planning *planning, const struct holding *a,
                        const struct holding *b)
{
    const struct guarded *guarded = &planning->processors[a->processor];
    int clashes_a = count_clashes(planning, guarded, a->host);
    int clashes_b = count_clashes(planning, guarded, b->host);
    if (clashes_a != clashes_b)
        return clashes_a > clashes_b;
    if (a->row->learning != b->row->learning)
        return a->row->learning;
    const struct host *left = &planning->hosts[a->host], *right = &planning->hosts[b->host];
    return left->row->load + left->standbys > right->row->load + right->standbys;
}

static void end_surplus(struct planning *planning)
{
    size_t count = planning->input->holding_count;
    for (size_t first = 0, next; first < count; first = next) {
        size_t processor = planning->holdings[first].processor;
        const struct guarded *guarded = &planning->processors[processor];
        for (next = first + 1; next < count; next++)
            if (planning->holdings[next].processor != processor)
                break;
        while (guarded->holder_count > guarded->row->wanted) {
            struct holding *worst = NULL;
            for (size_t i = first; i < next; i++)
                if (!planning->holdings[i].ends &&
                    (worst == NULL || ends_before(planning, &planning->holdings[i], worst)))
                    worst = &planning->holdings[i];
            end(planning, worst, mem_printf("the job wants %u standbys", guarded->row->wanted));
        }
    }
}

static bool is_full(const struct host *host)
{
    return host->row->load + host->standbys >= host->row->capacity;
}

/* Those that know less go first, of these the last ones. */
static void make_room(struct planning *planning)
{
    for (int learning = 1; learning >= 0; learning--) {
        for (size_t i = planning->input->holding_count; i-- > 0;) {
            struct holding *holding = &planning->holdings[i];
            if (holding->ends || holding->row->learning != (learning != 0))
                continue;
            const struct host *host = &planning->hosts[holding->host];
            if (host->row->load + host->standbys > host->row->capacity)
                end(planning, holding,
                    mem_printf("agent %s needs the room: its capacity is %u", host->row->agent_id,
                               host->row->capacity));
        }
    }
}

/* ---- what begins */

static bool may_get(const struct planning *planning, const struct guarded *guarded, size_t host)
{
    const struct plan_host *row = planning->hosts[host].row;
    if (row->barred || is_full(&planning->hosts[host]) || host == guarded->owner ||
        host == guarded->target)
        return false;
    for (size_t i = 0; i < guarded->holder_count; i++)
        if (guarded->holders[i] == host)
            return false;
    return !is_refused(planning, guarded, host);
}

static bool gets_before(const struct planning *planning, const struct guarded *guarded, size_t a,
                        size_t b)
{
    int clashes_a = count_clashes(planning, guarded, a);
    int clashes_b = count_clashes(planning, guarded, b);
    if (clashes_a != clashes_b)
        return clashes_a < clashes_b;
    if ((guarded->kept_on == a) != (guarded->kept_on == b))
        return guarded->kept_on == a;
    const struct host *left = &planning->hosts[a], *right = &planning->hosts[b];
    uint32_t tasks_a = left->row->load + left->standbys;
    uint32_t tasks_b = right->row->load + right->standbys;
    if (tasks_a != tasks_b)
        return tasks_a < tasks_b;
    /* What one agent has goes to many, should it be lost. */
    const uint32_t *shared = &planning->shared[guarded->owner * planning->input->host_count];
    return shared[a] < shared[b];
}

static size_t choose(const struct planning *planning, const struct guarded *guarded)
{
    size_t best = NOBODY;
    for (size_t i = 0; i < planning->input->host_count; i++)
        if (may_get(planning, guarded, i) &&
            (best == NOBODY || gets_before(planning, guarded, i, best)))
            best = i;
    return best;
}

static bool is_used_up(uint32_t learners, uint32_t max_learners)
{
    return max_learners > 0 && learners >= max_learners;
}

static char *say_why(const struct planning *planning, const struct guarded *guarded, size_t host)
{
    const struct host *chosen = &planning->hosts[host];
    const char *where = "";
    if (chosen->row->zone != NULL)
        where = count_clashes(planning, guarded, host) == 0 ? ", in a zone of its own"
                                                            : ", though in one zone with another";
    if (guarded->kept_on == host)
        return mem_printf("%s keeps its state%s", chosen->row->agent_id, where);
    return mem_printf("%s has %u tasks%s", chosen->row->agent_id,
                      chosen->row->load + chosen->standbys, where);
}

static void guard(struct planning *planning, struct guarded *guarded)
{
    enum standby_lack *lack = &planning->plan->lacks[guarded->index];
    size_t host = choose(planning, guarded);
    if (host == NOBODY) {
        *lack = STANDBY_LACK_AGENT;
        return;
    }
    if (is_used_up(planning->hosts[host].learners, planning->hosts[host].row->max_learners) ||
        is_used_up(planning->of_jobs[guarded->job], guarded->row->max_learners)) {
        *lack = STANDBY_LACK_SLOT;
        hold(planning, guarded, host, false); /* the place is taken, by who comes later */
        return;
    }
    change(planning, PLAN_STANDBY_BEGIN, guarded, planning->hosts[host].row->agent_id,
           say_why(planning, guarded, host));
    hold(planning, guarded, host, true);
}

/* Everybody gets a first one before anybody gets a second one. */
static void guard_all(struct planning *planning)
{
    uint32_t most = 0;
    for (size_t i = 0; i < planning->input->processor_count; i++)
        if (planning->processors[i].row->wanted > most)
            most = planning->processors[i].row->wanted;
    for (uint32_t round = 1; round <= most; round++) {
        for (size_t i = 0; i < planning->input->processor_count; i++) {
            struct guarded *guarded = &planning->processors[i];
            if (guarded->owner != NOBODY && guarded->row->wanted >= round && guarded->have < round)
                guard(planning, guarded);
        }
    }
}

/* The target of a hand-over that was a standby is one again when it comes to nothing; and when it
 * does not, the source has the state. */
static void count_targets(struct planning *planning)
{
    for (size_t i = 0; i < planning->input->processor_count; i++) {
        struct guarded *guarded = &planning->processors[i];
        if (guarded->row->target == NULL || guarded->have >= guarded->row->wanted)
            continue;
        guarded->have++;
        planning->plan->lacks[guarded->index] = STANDBY_LACK_TARGET;
    }
}

/* ---- */

void plan_standby_compute(const struct plan_standby_input *input, struct plan_standbys *ret_plan)
{
    struct planning planning = {.input = input, .plan = ret_plan};
    *ret_plan = (struct plan_standbys){0};
    ret_plan->lacks = mem_calloc(input->processor_count, sizeof(enum standby_lack));
    prepare_hosts(&planning);
    prepare_processors(&planning);
    prepare_holdings(&planning);
    end_lost(&planning);
    end_surplus(&planning);
    make_room(&planning);
    count_targets(&planning);
    guard_all(&planning);
    for (size_t i = 0; i < input->processor_count; i++)
        free(planning.processors[i].holders);
    free(planning.hosts);
    free(planning.processors);
    free(planning.sorted);
    free(planning.holdings);
    free(planning.of_jobs);
    free(planning.shared);
}

void plan_standby_finish(struct plan_standbys *plan)
{
    for (size_t i = 0; i < plan->change_count; i++)
        free(plan->changes[i].reason);
    free(plan->changes);
    free(plan->lacks);
    *plan = (struct plan_standbys){0};
}
