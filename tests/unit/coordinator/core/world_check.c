/* What must hold after every step of the core, the trace of what it did, and counts of that. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/rows.h"
#include "tests/unit/coordinator/core/world_check.h"

/* ---- changes */

void world_copy_change(struct cluster *cluster, const struct change *change)
{
    struct change copy;
    change_copy(&copy, change);
    cluster_apply(cluster, &copy);
}

void world_copy_standbys(struct cluster *cluster, const struct job *job)
{
    for (size_t p = 0; p < job->processors.count; p++)
        for (size_t s = 0; s < job->processors.items[p].standbys.count; s++)
            world_copy_change(
                cluster,
                &(struct change){.kind = CHANGE_STANDBY,
                                 .standby = job->processors.items[p].standbys.items[s].row});
}

/* Compares rows as changes, so that the one comparison of rows serves. The rows stay their owners'.
 */
#define ROWS_EQUAL(row_kind, member, a, b)                                                         \
    change_equal(&(struct change){.kind = (row_kind), .member = (a)},                              \
                 &(struct change){.kind = (row_kind), .member = (b)})

static void check_same_job(const struct job *a, const struct job *b)
{
    cr_assert(ROWS_EQUAL(CHANGE_JOB, job, a->row, b->row), "job %s", a->row.name);
    cr_assert_eq(a->processors.count, b->processors.count);
    for (size_t i = 0; i < a->processors.count; i++) {
        const struct processor *left = &a->processors.items[i], *right = &b->processors.items[i];
        cr_assert(ROWS_EQUAL(CHANGE_PLACEMENT, placement, left->placement, right->placement),
                  "placement %zu of %s", i, a->row.name);
        cr_assert(rows_progress_equal(left->stored.items, left->stored.count, right->stored.items,
                                      right->stored.count));
        cr_assert_eq(left->stored_at, right->stored_at);
        cr_assert_eq(left->handoff == NULL, right->handoff == NULL);
        cr_assert_eq(left->standbys.count, right->standbys.count);
        for (size_t s = 0; s < left->standbys.count; s++)
            cr_assert(ROWS_EQUAL(CHANGE_STANDBY, standby, left->standbys.items[s].row,
                                 right->standbys.items[s].row),
                      "standby %zu of processor %zu of %s", s, i, a->row.name);
    }
    cr_assert_eq(a->skips.count, b->skips.count);
    for (size_t i = 0; i < a->skips.count; i++)
        cr_assert(ROWS_EQUAL(CHANGE_SKIP, skip, a->skips.items[i], b->skips.items[i]),
                  "skip %zu of %s", i, a->row.name);
    cr_assert_eq(a->windows.count, b->windows.count);
    for (size_t i = 0; i < a->windows.count; i++)
        cr_assert(
            ROWS_EQUAL(CHANGE_WINDOW, window, a->windows.items[i].row, b->windows.items[i].row),
            "settle window %zu of %s", i, a->row.name);
    cr_assert_eq(a->arrivals.count, b->arrivals.count);
    for (size_t i = 0; i < a->arrivals.count; i++)
        cr_assert(ROWS_EQUAL(CHANGE_ARRIVAL, arrival, a->arrivals.items[i], b->arrivals.items[i]),
                  "arrival of %s", a->arrivals.items[i].agent);
}

void world_check_same(const struct cluster *a, const struct cluster *b)
{
    cr_assert(ROWS_EQUAL(CHANGE_META, meta, a->meta, b->meta), "meta");
    cr_assert(ROWS_EQUAL(CHANGE_MAINTENANCE, maintenance, a->maintenance, b->maintenance),
              "maintenance");
    cr_assert_eq(a->jobs.count, b->jobs.count);
    for (size_t i = 0; i < a->jobs.count; i++)
        check_same_job(a->jobs.items[i], b->jobs.items[i]);
    cr_assert_eq(a->agents.count, b->agents.count);
    for (size_t i = 0; i < a->agents.count; i++)
        cr_assert(ROWS_EQUAL(CHANGE_AGENT, agent, a->agents.items[i]->row, b->agents.items[i]->row),
                  "agent %s", a->agents.items[i]->row.agent_id);
    cr_assert_eq(a->handoffs.count, b->handoffs.count);
    for (size_t i = 0; i < a->handoffs.count; i++)
        cr_assert(ROWS_EQUAL(CHANGE_HANDOFF, handoff, a->handoffs.items[i]->row,
                             b->handoffs.items[i]->row),
                  "hand-over %" PRIu64, a->handoffs.items[i]->row.id);
    cr_assert_eq(a->operations.count, b->operations.count);
    for (size_t i = 0; i < a->operations.count; i++)
        cr_assert(ROWS_EQUAL(CHANGE_OPERATION, operation, a->operations.items[i]->row,
                             b->operations.items[i]->row));
}

static void check_epoch(struct world *world, const struct placement_row *row)
{
    const struct job *job = cluster_job(&world->fold, row->job);
    uint64_t before = job != NULL ? job->processors.items[row->processor].placement.epoch : 0;
    const struct handoff *by = cluster_handoff(&world->fold, row->handoff);
    bool split = by != NULL && by->row.kind == HANDOFF_KIND_SPLIT;
    if (row->epoch == before)
        return;
    if (split && before == 0 && row->epoch == by->row.target_epoch)
        return; /* it was handed out before the release */
    cr_assert_gt(row->epoch, world->epoch_max, "epoch %" PRIu64 " was handed out before",
                 row->epoch);
    world->epoch_max = row->epoch;
}

/* The epoch of what a split makes is handed out, and durable, before its source is told. */
static void check_split_epoch(struct world *world, const struct handoff_row *row)
{
    const struct handoff *known = cluster_handoff(&world->fold, row->id);
    if (row->kind != HANDOFF_KIND_SPLIT || row->target_epoch == 0 || known == NULL ||
        known->row.target_epoch != 0)
        return;
    cr_assert_gt(row->target_epoch, world->epoch_max);
    world->epoch_max = row->target_epoch;
}

void world_check_changes(struct world *world)
{
    bool decision = false, meta = false, renumbered = false, recovered = false;
    for (size_t i = 0; i < world->update.changes.count; i++) {
        const struct change *change = &world->update.changes.items[i];
        cr_assert_not(meta, "the meta row comes last");
        if (change->kind == CHANGE_PLACEMENT)
            check_epoch(world, &change->placement);
        if (change->kind == CHANGE_HANDOFF)
            check_split_epoch(world, &change->handoff);
        if (change->kind == CHANGE_EVENT) {
            cr_assert_eq(change->event.id, world->event_max + 1);
            world->event_max = change->event.id;
            cr_assert_not_null(change->event.detail);
            cr_assert_gt(strlen(change->event.detail), 0);
        }
        recovered = recovered || (change->kind == CHANGE_EVENT &&
                                  strcmp(change->event.kind, "database_recovered") == 0);
        if (change->kind == CHANGE_META) {
            meta = true;
            renumbered = change->meta.start_number > world->fold.meta.start_number;
            if (recovered)
                cr_assert_gt(change->meta.decision, world->fold.meta.decision);
            else
                cr_assert_eq(change->meta.decision, world->fold.meta.decision + decision);
        } else if (change->kind != CHANGE_OBSERVATION) {
            decision = true;
        }
        world_copy_change(&world->fold, change);
    }
    cr_assert_eq(decision || renumbered, meta, "a decision is numbered, an observation is not");
}

void world_close_request(struct world *world, uint64_t request)
{
    for (size_t i = 0; i < world->open.count; i++) {
        if (world->open.items[i] == request) {
            world->open.items[i] = world->open.items[--world->open.count];
            return;
        }
    }
    cr_assert_fail("request %" PRIu64 " was answered twice, or never made", request);
}

static bool waits(const struct cluster *cluster, uint64_t request)
{
    for (size_t i = 0; i < cluster->polls.count; i++)
        if (cluster->polls.items[i].request == request)
            return true;
    for (size_t i = 0; i < cluster->operation_waits.count; i++)
        if (cluster->operation_waits.items[i].request == request)
            return true;
    for (size_t i = 0; i < cluster->creations.count; i++)
        if (cluster->creations.items[i].request == request)
            return true;
    return false;
}

void world_check_answers(struct world *world)
{
    for (size_t i = 0; i < world->update.answers.count; i++) {
        const struct answer *answer = &world->update.answers.items[i];
        world_close_request(world, answer->request);
        cr_assert_geq(answer->status, 200);
        cr_assert_eq(answer->type == NULL, answer->body == NULL);
        cr_assert_eq(answer->status == 204, answer->body == NULL);
    }
    for (size_t i = 0; i < world->open.count; i++)
        cr_assert(waits(&world->cluster, world->open.items[i]), "request %" PRIu64 " was forgotten",
                  world->open.items[i]);
}

void world_check_cordons(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->handoffs.count; i++) {
        const struct handoff_row *row = &cluster->handoffs.items[i]->row;
        cr_assert((row->state != HANDOFF_STATE_LEARNING && row->state != HANDOFF_STATE_CAUGHT_UP) ||
                      cluster_agent_schedulable(cluster_agent(cluster, row->target)),
                  "hand-over %" PRIu64 " to %s, which is cordoned", row->id, row->target);
    }
}

/* ---- documents: a new content has a higher version, and versions never go back */

struct world_documents world_list_documents(const struct cluster *cluster)
{
    struct world_documents documents = {
        .items = mem_calloc(cluster->agents.count, sizeof(struct agent_document)),
        .agent_ids = mem_calloc(cluster->agents.count, sizeof(char *)),
        .count = cluster->agents.count,
    };
    for (size_t i = 0; i < documents.count; i++) {
        const struct agent *agent = cluster->agents.items[i];
        documents.agent_ids[i] = mem_strdup(agent->row.agent_id);
        cluster_document(cluster, agent, &documents.items[i]);
    }
    return documents;
}

static void check_document(const struct cluster *cluster, const char *agent_id,
                           struct agent_document *before)
{
    const struct agent *agent = cluster_agent(cluster, agent_id);
    if (agent == NULL)
        return;
    struct agent_document after;
    cluster_document(cluster, agent, &after);
    cr_assert_leq(after.version.decision, cluster->meta.decision);
    int order = cluster_compare_versions(after.version, before->version);
    cr_assert_geq(order, 0, "the document of %s went back", agent_id);
    after.version = before->version;
    cr_assert(order > 0 || schema_equal(&schema_agent_document, before, &after),
              "the document of %s changed under its version", agent_id);
    schema_free(&schema_agent_document, &after);
}

void world_check_documents(const struct cluster *cluster, struct world_documents *documents)
{
    for (size_t i = 0; i < documents->count; i++) {
        check_document(cluster, documents->agent_ids[i], &documents->items[i]);
        free(documents->agent_ids[i]);
        schema_free(&schema_agent_document, &documents->items[i]);
    }
    free(documents->agent_ids);
    free(documents->items);
}

/* ---- the trace */

static void trace_arrival(struct strbuf *trace, const struct arrival_row *row)
{
    strbuf_printf(trace, "  arrival of %s to %s %s\n", row->agent, row->job,
                  row->open ? "open" : "closed");
}

static void trace_window(struct strbuf *trace, const struct window_row *row)
{
    strbuf_printf(trace,
                  "  window %s/%u/%u number %" PRIu64 " end %" PRId64 " fence %" PRId64 "%s\n",
                  row->job, row->window.topic, row->window.partition, row->window.number,
                  row->window.end, row->window.fence, row->stale ? " again" : "");
}

static void trace_change(struct strbuf *trace, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_META:
        strbuf_printf(trace, "  meta %" PRIu64 ".%" PRIu64 " epoch %" PRIu64 "\n",
                      change->meta.start_number, change->meta.decision, change->meta.epoch);
        return;
    case CHANGE_JOB:
        strbuf_printf(trace, "  job %s state %d generation %" PRIu64 "\n", change->job.name,
                      (int)change->job.state, change->job.generation);
        return;
    case CHANGE_JOB_REMOVED:
        strbuf_printf(trace, "  job %s removed\n", change->job.name);
        return;
    case CHANGE_PLACEMENT:
        strbuf_printf(trace, "  %s/%u on %s epoch %" PRIu64 " %s\n", change->placement.job,
                      change->placement.processor,
                      change->placement.agent != NULL ? change->placement.agent : "-",
                      change->placement.epoch, change->placement.reason);
        return;
    case CHANGE_AGENT:
        strbuf_printf(trace, "  agent %s %s state %d\n", change->agent.agent_id,
                      change->agent.incarnation, (int)change->agent.state);
        return;
    case CHANGE_AGENT_REMOVED:
        strbuf_printf(trace, "  agent %s removed\n", change->agent.agent_id);
        return;
    case CHANGE_OPERATION:
        strbuf_printf(trace, "  op-%" PRIu64 " step %d state %d %s\n", change->operation.id,
                      (int)change->operation.step, (int)change->operation.state,
                      change->operation.error != NULL ? change->operation.error : "");
        return;
    case CHANGE_HANDOFF:
        strbuf_printf(trace,
                      "  handoff %" PRIu64 " %s/%u state %d %s epoch %" PRIu64
                      " to %s epoch %" PRIu64 " %s\n",
                      change->handoff.id, change->handoff.job, change->handoff.processor,
                      (int)change->handoff.state, change->handoff.source,
                      change->handoff.source_epoch, change->handoff.target,
                      change->handoff.target_epoch,
                      change->handoff.error != NULL ? change->handoff.error : "");
        return;
    case CHANGE_MAINTENANCE:
        strbuf_printf(trace, "  maintenance %s\n", change->maintenance.hold.on ? "on" : "off");
        return;
    case CHANGE_SKIP:
        strbuf_printf(trace, "  skip %s/%u/%u at %" PRId64 "\n", change->skip.job,
                      change->skip.topic, change->skip.partition, change->skip.offset);
        return;
    case CHANGE_WINDOW:
        trace_window(trace, &change->window);
        return;
    case CHANGE_ARRIVAL:
        trace_arrival(trace, &change->arrival);
        return;
    case CHANGE_STANDBY:
    case CHANGE_STANDBY_REMOVED:
        strbuf_printf(trace, "  standby %s/%u on %s %s\n", change->standby.job,
                      change->standby.processor, change->standby.agent,
                      change->kind == CHANGE_STANDBY ? "is there" : "is gone");
        return;
    case CHANGE_EVENT:
        strbuf_printf(trace, "  event %" PRIu64 " %s by %s: %s\n", change->event.id,
                      change->event.kind, change->event.actor, change->event.detail);
        return;
    case CHANGE_OBSERVATION:
        strbuf_printf(trace, "  observed %s/%u\n", change->observation.job,
                      change->observation.processor);
        return;
    }
}

void world_trace_update(struct world *world, const struct coord_event *event)
{
    struct strbuf *trace = &world->trace;
    strbuf_printf(trace, "%" PRId64 " event %d %s\n", event->now_ms, (int)event->kind,
                  event->name != NULL ? event->name : "");
    for (size_t i = 0; i < world->update.changes.count; i++)
        trace_change(trace, &world->update.changes.items[i]);
    for (size_t i = 0; i < world->update.calls.count; i++)
        strbuf_printf(trace, "  call %" PRIu64 " kind %d\n", world->update.calls.items[i].id,
                      (int)world->update.calls.items[i].kind);
    for (size_t i = 0; i < world->update.answers.count; i++)
        strbuf_printf(trace, "  answer %" PRIu64 " status %u\n",
                      world->update.answers.items[i].request,
                      world->update.answers.items[i].status);
    strbuf_printf(trace, "  wake %" PRId64 "\n", world->update.wake_ms);
}

/* ---- counts */

size_t world_count_events(const struct world *world, const char *kind)
{
    size_t count = 0;
    for (size_t i = 0; i < world->update.changes.count; i++)
        count += world->update.changes.items[i].kind == CHANGE_EVENT &&
                 strcmp(world->update.changes.items[i].event.kind, kind) == 0;
    return count;
}

size_t world_count_changes(const struct world *world, enum change_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < world->update.changes.count; i++)
        count += world->update.changes.items[i].kind == kind;
    return count;
}

size_t world_count_owned(const struct world *world, const char *job, const char *agent_id)
{
    size_t count = 0;
    const struct job *found = cluster_job(&world->cluster, job);
    cr_assert_not_null(found);
    for (size_t i = 0; i < found->processors.count; i++)
        count += found->processors.items[i].placement.agent != NULL &&
                 strcmp(found->processors.items[i].placement.agent, agent_id) == 0;
    return count;
}

size_t world_count_traced(const struct world *world, const char *kind)
{
    size_t count = 0;
    char *needle = mem_printf(" %s by ", kind);
    for (const char *at = strstr(strbuf_text(&world->trace), needle); at != NULL;
         at = strstr(at + 1, needle))
        count++;
    free(needle);
    return count;
}
