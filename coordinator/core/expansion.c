#include "coordinator/core/expansion.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/placing.h"
#include "coordinator/core/rows.h"

char *expansion_explain(const struct job *job, uint32_t processor, const struct agent *target,
                        const char *wish)
{
    uint32_t owned = 0;
    for (size_t p = 0; p < job->processors.count; p++)
        owned += rows_text_equal(job->processors.items[p].placement.agent, target->row.agent_id);
    return mem_printf("processor %u is split off processor %u%s%.200s; %s has the fewest of the "
                      "job, %u",
                      processor, cluster_parent(job, processor), wish != NULL ? ": " : "",
                      wish != NULL ? wish : "", target->row.agent_id, owned);
}

/* The job as it would be with that many processors, for its map alone. */
static struct job make_grown(const struct job *job, uint32_t processors)
{
    struct job grown = *job;
    grown.row.processors = processors;
    grown.nascent = false;
    return grown;
}

/* Who has these partitions now: the nearest of the processor's ancestors that is there. */
static const struct processor *find_present(const struct job *job, uint32_t processor)
{
    while (processor >= job->processors.count)
        processor = cluster_parent(job, processor);
    return &job->processors.items[processor];
}

/* Offsets from T0 to T1 of the partitions; API_UNKNOWN: of some the owner has not said. */
static int64_t count_records(const struct processor *owner, const struct uint_list *partitions,
                             size_t topics)
{
    const struct partition_progress *items = owner->stored.items;
    size_t count = owner->stored.count, met = 0;
    int64_t sum = 0;
    if (owner->observed.known) {
        items = owner->observed.report.progress.items;
        count = owner->observed.report.progress.count;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < partitions->count; k++) {
            if (items[i].partition != partitions->items[k])
                continue;
            if (items[i].t0 < 0 || items[i].t1 < items[i].t0 ||
                __builtin_add_overflow(sum, items[i].t1 - items[i].t0, &sum))
                return API_UNKNOWN;
            met++;
        }
    }
    return met == partitions->count * topics ? sum : API_UNKNOWN;
}

static int64_t estimate(int64_t records, double per_s)
{
    double ms = per_s > 0 ? (double)records / per_s * 1000.0 : 1e15;
    if (records == 0)
        return 0;
    return records > 0 && ms < 1e15 ? (int64_t)ms : API_UNKNOWN;
}

static int64_t add(int64_t sum, int64_t more)
{
    int64_t total;
    return sum < 0 || more < 0 || __builtin_add_overflow(sum, more, &total) ? API_UNKNOWN : total;
}

/* Of what the split has decided; API_UNKNOWN: nobody knows. */
static int64_t count_bounds(const struct job *job, uint32_t processor)
{
    const struct placement_row *row = &job->processors.items[processor].placement;
    int64_t sum = row->bounds.count == job->row.spec.inputs.count ? 0 : API_UNKNOWN;
    for (size_t i = 0; i < row->bounds.count; i++) {
        const struct ancestor_bound *bound = &row->bounds.items[i];
        size_t at = (size_t)bound->topic * job->row.partitions + bound->partition;
        sum = add(sum, bound->offset - job->row.origins.items[at].offset);
    }
    return sum;
}

/* In the ancestors that others keep: up to their bounds, or as far as their owners are now. */
static int64_t count_inherited(const struct job *job, uint32_t processor)
{
    int64_t sum = 0;
    for (; cluster_inherits(job, processor); processor = cluster_parent(job, processor)) {
        uint32_t ancestor = cluster_parent(job, processor);
        struct uint_list partitions = {.items = &ancestor, .count = 1};
        bool decided = processor < job->processors.count;
        sum = add(sum, decided ? count_bounds(job, processor)
                               : count_records(find_present(job, ancestor), &partitions,
                                               job->row.spec.inputs.count));
    }
    return sum;
}

static void describe(const struct job *job, uint32_t processor, const struct agent *target,
                     struct plan_move *ret_move)
{
    const struct processor *owner = find_present(job, processor);
    struct job grown = make_grown(job, processor + 1);
    struct uint_list partitions;
    cluster_owned_partitions(&grown, processor, &partitions);
    *ret_move = (struct plan_move){
        .kind = PLANNED_KIND_SPLIT,
        .waits = processor > job->row.processors,
        .job = mem_strdup(job->row.name),
        .processor = processor,
        .source = rows_text_copy(owner->placement.agent),
        .target = target != NULL ? mem_strdup(target->row.agent_id) : NULL,
        .reason = target != NULL
                      ? expansion_explain(job, processor, target, NULL)
                      : mem_strdup("no agent is alive, neither cordoned nor drained, and has room"),
    };
    if (job->row.spec.stateful) {
        ret_move->records = add(count_records(owner, &partitions, job->row.spec.inputs.count),
                                count_inherited(job, processor));
        ret_move->state_bytes = API_UNKNOWN; /* a part of the owner's */
        ret_move->eta_ms = estimate(ret_move->records, job->replayed_per_s);
    }
    free(partitions.items);
}

void expansion_look_ahead(const struct cluster *cluster, const struct job *job, uint32_t goal,
                          int64_t now_ms, struct expansion_plan *ret_plan)
{
    uint32_t *planned = mem_calloc(cluster->agents.count, sizeof(*planned));
    *ret_plan = (struct expansion_plan){
        .job = mem_strdup(job->row.name), .processors = goal, .partitions = job->row.partitions};
    ret_plan->moves.items = mem_calloc(goal - job->row.processors, sizeof(*ret_plan->moves.items));
    for (uint32_t processor = job->row.processors; processor < goal; processor++) {
        const struct agent *target = placing_choose_for_new(cluster, job, now_ms, planned);
        struct plan_move *move = &ret_plan->moves.items[ret_plan->moves.count++];
        size_t index;
        describe(job, processor, target, move);
        if (target != NULL && cluster_find_agent(cluster, target->row.agent_id, &index))
            planned[index]++;
        ret_plan->records = add(ret_plan->records, move->records);
        ret_plan->state_bytes = add(ret_plan->state_bytes, move->state_bytes);
        ret_plan->eta_ms = add(ret_plan->eta_ms, move->eta_ms); /* one after the other */
    }
    free(planned);
}
