/* What differs between a cluster and what has become of it, and what that takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/hash/sha256.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/core/dry_run.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/view.h"

/* In the order in which a step begins them. */
enum rank { RANK_ASSIGN, RANK_CANCEL, RANK_HANDOFF, RANK_WAIT, RANK_QUEUE, RANK_END, RANK_STANDBY };

struct ranked {
    struct plan_move move;
    enum rank rank;
    uint64_t order; /* within the rank */
};

struct comparison {
    const struct cluster *before, *after;
    const struct job *was, *is; /* the job that is looked at, in both */
    struct ranked *items;
    size_t count, capacity;
};

/* ---- what a move takes */

static int64_t add(int64_t sum, int64_t more)
{
    int64_t total;
    if (sum < 0 || more < 0)
        return API_UNKNOWN;
    return __builtin_add_overflow(sum, more, &total) ? INT64_MAX : total;
}

static const struct kept_state *find_kept(const struct comparison *comparison, const char *agent_id,
                                          uint32_t processor)
{
    const struct agent *agent = cluster_agent(comparison->before, agent_id);
    for (size_t i = 0; agent != NULL && i < agent->kept.count; i++) {
        const struct kept_state *kept = &agent->kept.items[i];
        if (kept->processor == processor &&
            strcmp(kept->job_incarnation, comparison->was->row.incarnation) == 0)
            return kept;
    }
    return NULL;
}

/* Where who has this state (NULL: none) goes on. */
static int64_t find_begin(const struct kept_state *kept, const struct partition_progress *progress)
{
    for (size_t i = 0; kept != NULL && i < kept->learned.count; i++)
        if (kept->learned.items[i].topic == progress->topic &&
            kept->learned.items[i].partition == progress->partition)
            return kept->learned.items[i].offset;
    return progress->t0;
}

static int64_t count_replay(const struct comparison *comparison, const struct processor *processor,
                            const char *agent_id)
{
    const struct partition_progress *items = processor->stored.items;
    size_t count = processor->stored.count;
    if (processor->observed.known) {
        items = processor->observed.report.progress.items;
        count = processor->observed.report.progress.count;
    }
    const struct kept_state *kept = find_kept(comparison, agent_id, processor->placement.processor);
    int64_t sum = count > 0 ? 0 : API_UNKNOWN;
    for (size_t i = 0; i < count; i++) {
        int64_t begin = find_begin(kept, &items[i]);
        if (begin < 0 || items[i].t1 < 0)
            return API_UNKNOWN;
        sum = add(sum, items[i].t1 > begin ? items[i].t1 - begin : 0);
    }
    return sum;
}

static int64_t estimate(int64_t records, double per_s)
{
    double ms = per_s > 0 ? (double)records / per_s * 1000.0 : 1e15;
    if (records == 0)
        return 0;
    return records > 0 && ms < 1e15 ? (int64_t)ms : API_UNKNOWN;
}

static void measure(const struct comparison *comparison, const struct processor *processor,
                    struct plan_move *move)
{
    const struct job *job = comparison->was;
    const struct task_report *owner = cluster_report(comparison->before, processor);
    bool ends = move->kind == PLANNED_KIND_CANCEL || move->kind == PLANNED_KIND_END_STANDBY;
    move->records = move->state_bytes = move->eta_ms = 0;
    if (!job->row.spec.stateful || ends)
        return;
    const struct standby *standby =
        move->target != NULL ? cluster_standby(processor, move->target) : NULL;
    if (standby != NULL)
        move->records = cluster_standby_lag(comparison->before, job, processor, standby).sum;
    else
        move->records =
            move->target != NULL ? count_replay(comparison, processor, move->target) : API_UNKNOWN;
    move->state_bytes = owner != NULL && owner->state_bytes <= INT64_MAX
                            ? (int64_t)owner->state_bytes
                            : API_UNKNOWN;
    move->eta_ms =
        estimate(move->records, job->replayed_per_s - (owner != NULL ? owner->records_per_s : 0));
}

/* ---- collecting */

struct found {
    enum planned_kind kind;
    enum rank rank;
    uint64_t order;
    const char *source, *target, *reason;
};

static void note(struct comparison *comparison, const struct processor *was, struct found found)
{
    comparison->items = mem_grow(comparison->items, comparison->count, &comparison->capacity,
                                 sizeof(struct ranked));
    struct ranked *ranked = &comparison->items[comparison->count++];
    *ranked =
        (struct ranked){.rank = found.rank,
                        .order = found.order,
                        .move = {.kind = found.kind,
                                 .waits = found.rank == RANK_WAIT || found.rank == RANK_QUEUE,
                                 .job = mem_strdup(comparison->was->row.name),
                                 .processor = was->placement.processor,
                                 .source = rows_text_copy(found.source),
                                 .target = rows_text_copy(found.target),
                                 .reason = mem_strdup(found.reason != NULL ? found.reason : "")}};
    measure(comparison, was, &ranked->move);
}

static void compare_handoffs(struct comparison *comparison, const struct processor *was,
                             const struct processor *is)
{
    const struct handoff_row *old = was->handoff != NULL ? &was->handoff->row : NULL;
    const struct handoff_row *new = is->handoff != NULL ? &is->handoff->row : NULL;
    if (old != NULL && (new == NULL || new->id != old->id))
        note(comparison, was,
             (struct found){PLANNED_KIND_CANCEL, RANK_CANCEL, old->id, old->source, old->target,
                            "it is not wanted any more"});
    if (new != NULL && (old == NULL || new->id != old->id || new->forced != old->forced ||
                        strcmp(new->target, old->target) != 0))
        note(comparison, was,
             (struct found){new->forced ? PLANNED_KIND_TAKE_OVER : PLANNED_KIND_HAND_OVER,
                            RANK_HANDOFF, new->id, new->source, new->target, new->reason});
    else if (new == NULL && is->placement.agent != NULL &&
             !rows_text_equal(was->placement.agent, is->placement.agent))
        note(comparison, was,
             (struct found){PLANNED_KIND_ASSIGN, RANK_ASSIGN, is->placement.epoch,
                            was->placement.agent, is->placement.agent, is->placement.reason});
}

/* What waited for the same before is not the change's doing. */
static void compare_waits(struct comparison *comparison, const struct processor *was,
                          const struct processor *is)
{
    if (is->waits != NULL &&
        (was->waits == NULL || !rows_text_equal(was->waits_for, is->waits_for)))
        note(comparison, was,
             (struct found){PLANNED_KIND_HAND_OVER, RANK_WAIT, is->waits_order, is->placement.agent,
                            is->waits_for, is->waits});
}

/* One that becomes the owner or learns to become it is the same task still. */
static bool becomes_more(const struct processor *is, const char *agent_id)
{
    return rows_text_equal(is->placement.agent, agent_id) ||
           (is->handoff != NULL && strcmp(is->handoff->row.target, agent_id) == 0);
}

static void compare_standbys(struct comparison *comparison, const struct processor *was,
                             const struct processor *is)
{
    for (size_t i = 0; i < is->standbys.count; i++) {
        const struct standby_row *row = &is->standbys.items[i].row;
        if (cluster_standby(was, row->agent) == NULL)
            note(comparison, was,
                 (struct found){PLANNED_KIND_STANDBY, RANK_STANDBY, i, is->placement.agent,
                                row->agent, row->reason});
    }
    for (size_t i = 0; i < was->standbys.count; i++) {
        const char *agent_id = was->standbys.items[i].row.agent;
        if (cluster_standby(is, agent_id) == NULL && !becomes_more(is, agent_id))
            note(comparison, was,
                 (struct found){PLANNED_KIND_END_STANDBY, RANK_END, i, agent_id, NULL,
                                "it is not wanted any more, or its room is needed"});
    }
}

/* Moves that were asked for and have not begun. */
static void compare_queues(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->after->operations.count; i++) {
        const struct operation_row *row = &comparison->after->operations.items[i]->row;
        const struct operation *known = cluster_operation(comparison->before, row->id);
        if (row->kind != OPERATION_KIND_MOVE || row->step != OPERATION_STEP_QUEUE ||
            view_operation_finished(row->state) || known != NULL ||
            strcmp(row->job_incarnation, comparison->was->row.incarnation) != 0)
            continue;
        const struct processor *was = &comparison->was->processors.items[row->processor];
        note(comparison, was,
             (struct found){PLANNED_KIND_HAND_OVER, RANK_QUEUE, row->id, was->placement.agent,
                            row->target,
                            row->error != NULL ? row->error
                                               : "waits until the hand-over under way has ended"});
    }
}

/* ---- order */

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    int order = strcmp(left->move.job, right->move.job);
    if (order != 0)
        return order;
    return left->move.processor < right->move.processor
               ? -1
               : left->move.processor > right->move.processor;
}

static void take_in_order(struct comparison *comparison, struct plan_moves *ret_moves)
{
    qsort(comparison->items, comparison->count, sizeof(struct ranked), compare_ranked);
    *ret_moves = (struct plan_moves){
        .items = mem_calloc(comparison->count, sizeof(struct plan_move)),
        .count = comparison->count,
        .capacity = comparison->count,
    };
    for (size_t i = 0; i < comparison->count; i++)
        ret_moves->items[i] = comparison->items[i].move;
    free(comparison->items);
}

void dry_run_compare(const struct cluster *before, const struct cluster *after,
                     struct plan_moves *ret_moves)
{
    struct comparison comparison = {.before = before, .after = after, .items = mem_calloc(0, 1)};
    for (size_t i = 0; i < before->jobs.count; i++) {
        comparison.was = before->jobs.items[i];
        comparison.is = cluster_job(after, comparison.was->row.name);
        if (comparison.is == NULL)
            continue;
        for (size_t p = 0; p < comparison.was->processors.count; p++) {
            const struct processor *was = &comparison.was->processors.items[p];
            const struct processor *is = &comparison.is->processors.items[p];
            compare_handoffs(&comparison, was, is);
            compare_waits(&comparison, was, is);
            compare_standbys(&comparison, was, is);
        }
        compare_queues(&comparison);
    }
    take_in_order(&comparison, ret_moves);
}

void dry_run_finish_moves(struct plan_moves *moves)
{
    for (size_t i = 0; i < moves->count; i++)
        schema_free(&schema_plan_move, &moves->items[i]);
    free(moves->items);
    *moves = (struct plan_moves){0};
}

/* ---- their id */

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* When they begin is not part of it: a slot that has got free makes no other plan. */
void dry_run_hash(const struct plan_moves *moves, char ret_id[API_PLAN_ID_BYTES + 1])
{
    char **lines = mem_calloc(moves->count, sizeof(char *));
    struct strbuf all = {0};
    uint8_t digest[SHA256_BYTES];
    for (size_t i = 0; i < moves->count; i++) {
        const struct plan_move *move = &moves->items[i];
        lines[i] = mem_printf("%d %s %u %s %s\n", (int)move->kind, move->job, move->processor,
                              move->source != NULL ? move->source : "-",
                              move->target != NULL ? move->target : "-");
    }
    qsort(lines, moves->count, sizeof(char *), compare_lines);
    for (size_t i = 0; i < moves->count; i++) {
        strbuf_puts(&all, lines[i]);
        free(lines[i]);
    }
    free(lines);
    sha256(strbuf_text(&all), all.bytes, digest);
    strbuf_finish(&all);
    for (size_t i = 0; i < API_PLAN_ID_BYTES / 2; i++)
        (void)snprintf(ret_id + 2 * i, 3, "%02x", digest[i]); /* fits */
}
