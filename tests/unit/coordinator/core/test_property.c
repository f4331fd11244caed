/*
 * Random histories: agents that come, go, are cut off, doubled and fenced; a broker that fails; a
 * coordinator that restarts and whose commits fail; clients that put, delete, wait and go away.
 * world_step checks the rules after each event; here are added that the same events give the same
 * updates, and that everything comes to an end once the world is kind again.
 *
 * Each seed is printed to stderr before it runs. BATON_SEED=n runs that one alone and prints what
 * happened.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "common/rng.h"
#include "coordinator/core/dry_run.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/view.h"
#include "tests/unit/coordinator/core/world.h"

#define SEEDS  120
#define STEPS  250
#define AGENTS 4
#define JOBS   3
#define OLD    8

struct story {
    struct world world;
    struct rng rng;
    uint64_t incarnations[AGENTS]; /* 0: never registered */
    uint64_t incarnation_last;
    struct {
        const char *agent_id;
        struct agent_report report;
    } old[OLD];            /* late copies of reports */
    uint64_t waiting[OLD]; /* requests that may go away */
};

static const char *const agent_ids[AGENTS] = {"a1", "a2", "a3", "a4"};
static const char *const job_names[JOBS] = {"j1", "j2", "j3"};

static uint64_t below(struct story *history, uint64_t bound)
{
    return rng_below(&history->rng, bound);
}

/* ---- requests */

static void put_something(struct story *history)
{
    const char *name = job_names[below(history, JOBS)];
    /* Now and then the group of another job, an impossible count, a change of what can not change.
     */
    struct job_spec spec = world_spec(below(history, 8) != 0 ? name : "j1");
    spec.processors = below(history, 10) != 0 ? 4 : (uint32_t)(1 + below(history, 12));
    spec.delivery = strcmp(name, "j2") == 0 ? DELIVERY_AT_LEAST_ONCE : DELIVERY_EXACTLY_ONCE;
    spec.partitioner = strcmp(name, "j3") == 0 ? PARTITIONER_AUTO : PARTITIONER_MURMUR2;
    spec.commit_interval_ms = 100 + (int64_t)below(history, 3);
    spec.history = below(history, 4) != 0 ? HISTORY_FULL : HISTORY_RETAINED;
    struct coord_event event = world_event(&history->world, COORD_EVENT_JOB_PUT, name);
    event.spec = spec;
    event.if_match = below(history, 6) == 0 ? 1 + below(history, 3) : 0;
    event.if_none_match = below(history, 6) == 0;
    history->waiting[below(history, OLD)] = event.request;
    world_step(&history->world, event);
}

static void delete_something(struct story *history)
{
    struct coord_event event =
        world_event(&history->world, COORD_EVENT_JOB_DELETE, job_names[below(history, JOBS)]);
    event.if_match = below(history, 5) == 0 ? 1 : 0;
    world_step(&history->world, event);
}

static void ask_for_operation(struct story *history)
{
    bool cancel = below(history, 4) == 0;
    struct coord_event event = world_event(
        &history->world, cancel ? COORD_EVENT_OPERATION_CANCEL : COORD_EVENT_OPERATION_WAIT, NULL);
    event.operation = 1 + below(history, history->world.cluster.meta.operation_id + 1);
    event.wait_ms = (int64_t)below(history, 20000);
    history->waiting[below(history, OLD)] = event.request;
    world_step(&history->world, event);
}

static void go_away(struct story *history)
{
    struct world *world = &history->world;
    uint64_t request = history->waiting[below(history, OLD)];
    for (size_t i = 0; i < world->open.count; i++) {
        if (world->open.items[i] == request) {
            world_gone(world, request);
            return;
        }
    }
}

static void move_something(struct story *history)
{
    struct world *world = &history->world;
    const char *name = job_names[below(history, JOBS)];
    if (below(history, 4) == 0) {
        world_step(world, world_event(world, COORD_EVENT_REBALANCE, name));
        return;
    }
    if (below(history, 4) == 0) {
        struct coord_event expand = world_event(world, COORD_EVENT_EXPAND, name);
        expand.expansion = (struct expansion_request){.processors = (int64_t)below(history, 9),
                                                      .partitions = API_UNKNOWN};
        world_step(world, expand);
        return;
    }
    struct coord_event event = world_event(world, COORD_EVENT_MOVE, name);
    event.move.processor = (uint32_t)below(history, 5);
    if (below(history, 3) != 0)
        event.move.agent = mem_strdup(agent_ids[below(history, AGENTS)]);
    world_step(world, event);
}

static void cancel_handoff(struct story *history)
{
    struct world *world = &history->world;
    struct coord_event event = world_event(world, COORD_EVENT_HANDOFF_CANCEL, NULL);
    size_t running = world->cluster.handoffs.count;
    event.handoff = running > 0 ? world->cluster.handoffs.items[below(history, running)]->row.id
                                : 1 + below(history, 20);
    world_step(world, event);
}

/* ---- agents */

static void register_something(struct story *history)
{
    size_t which = below(history, AGENTS);
    if (history->incarnations[which] == 0 || below(history, 2) == 0)
        history->incarnations[which] = ++history->incarnation_last;
    struct coord_event event = world_event(&history->world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration(agent_ids[which], history->incarnations[which]);
    event.registration.capacity = (uint32_t)(1 + below(history, 8));
    world_step(&history->world, event);
}

static void leave_or_be_forgotten(struct story *history)
{
    size_t which = below(history, AGENTS);
    if (below(history, 2) == 0)
        world_deregister(&history->world, agent_ids[which], history->incarnations[which]);
    else
        world_forget(&history->world, agent_ids[which]);
}

static void cordon_something(struct story *history)
{
    struct coord_event event =
        world_event(&history->world, COORD_EVENT_ELIGIBILITY, agent_ids[below(history, AGENTS)]);
    event.eligibility.schedulable = below(history, 3) != 0;
    if (below(history, 2) == 0)
        event.eligibility.reason = mem_strdup("a disk");
    world_step(&history->world, event);
}

static void drain_something(struct story *history)
{
    const char *agent_id = agent_ids[below(history, AGENTS)];
    if (below(history, 3) == 0) {
        world_step(&history->world,
                   world_event(&history->world, COORD_EVENT_DRAIN_CANCEL, agent_id));
        return;
    }
    struct coord_event event = world_event(&history->world, COORD_EVENT_DRAIN, agent_id);
    event.drain = (struct drain_request){
        .deadline_ms = below(history, 3) == 0 ? API_UNKNOWN : (int64_t)(1 + below(history, 20000)),
        .on_deadline = (enum drain_deadline)below(history, 2),
        .until_restart = below(history, 4) == 0,
    };
    world_step(&history->world, event);
}

/* ---- looks ahead */

static void draw_plan(struct story *history, struct plan_request *ret_request)
{
    const char *agent_id = agent_ids[below(history, AGENTS)];
    const char *job = job_names[below(history, JOBS)];
    schema_default(&schema_plan_request, ret_request);
    ret_request->change = (enum planned_change)below(history, PLANNED_CHANGE_COUNT);
    if (ret_request->change <= PLANNED_CHANGE_UNCORDON) {
        ret_request->agents.items = mem_calloc(1, sizeof(char *));
        ret_request->agents.items[0] = mem_strdup(agent_id);
        ret_request->agents.count = 1;
    } else if (ret_request->change != PLANNED_CHANGE_ADD_AGENTS) {
        ret_request->job = mem_strdup(job);
    }
    if (ret_request->change == PLANNED_CHANGE_MOVE) {
        ret_request->processor = (int64_t)below(history, 5);
        ret_request->target = below(history, 2) == 0 ? mem_strdup(agent_id) : NULL;
    }
    if (ret_request->change == PLANNED_CHANGE_STANDBYS)
        ret_request->standbys = (int64_t)below(history, 3);
}

/* The request itself, for one that is one. */
static struct coord_event request_of(struct story *history, const struct plan_request *request,
                                     const char *plan)
{
    struct world *world = &history->world;
    struct coord_event event;
    switch (request->change) {
    case PLANNED_CHANGE_DRAIN:
        event = world_event(world, COORD_EVENT_DRAIN, request->agents.items[0]);
        schema_default(&schema_drain_request, &event.drain);
        event.drain.plan = mem_strdup(plan);
        return event;
    case PLANNED_CHANGE_REBALANCE:
        event = world_event(world, COORD_EVENT_REBALANCE, request->job);
        event.plan = mem_strdup(plan);
        return event;
    case PLANNED_CHANGE_MOVE:
        event = world_event(world, COORD_EVENT_MOVE, request->job);
        event.move = (struct move_request){.processor = (uint32_t)request->processor,
                                           .agent = rows_text_copy(request->target),
                                           .plan = mem_strdup(plan)};
        return event;
    default:
        event = world_event(world, COORD_EVENT_ELIGIBILITY, request->agents.items[0]);
        event.eligibility.schedulable = request->change == PLANNED_CHANGE_UNCORDON;
        event.eligibility.plan = mem_strdup(plan);
        return event;
    }
}

/* What was planned is what then moves. */
static void carry_plan_out(struct story *history, const struct plan_request *request,
                           const char *plan)
{
    struct world *world = &history->world;
    struct cluster before;
    struct plan_moves moves;
    char id[API_PLAN_ID_BYTES + 1];
    cluster_copy(&before, &world->cluster);
    world_step(world, request_of(history, request, plan));
    cr_assert_lt(world_answer(world)->status, 300, "what was planned is refused");
    for (int i = 0; i < 100 && world->cluster.place_ms <= world->now_ms; i++)
        world_step(world, world_event(world, COORD_EVENT_TICK, NULL));
    dry_run_compare(&before, &world->cluster, &moves);
    dry_run_hash(&moves, id);
    cr_assert_str_eq(id, plan, "%zu things move, others than planned", moves.count);
    dry_run_finish_moves(&moves);
    cluster_finish(&before);
}

static void look_ahead(struct story *history)
{
    struct world *world = &history->world;
    struct plan_request request;
    struct coord_event event = world_event(world, COORD_EVENT_PLAN, NULL);
    const char *detail;
    draw_plan(history, &request);
    cr_assert_null(dry_run_find_fault(&request, &detail));
    schema_copy(&schema_plan_request, &event.plan_request, &request);
    world_step(world, event);
    world_expect_status(world, 200);
    const struct plan_view *view = world_answer(world)->body;
    char *plan = rows_text_copy(view->plan);
    if (plan != NULL)
        carry_plan_out(history, &request, plan);
    free(plan);
    schema_free(&schema_plan_request, &request);
}

static void poll_something(struct story *history)
{
    struct world *world = &history->world;
    size_t which = below(history, AGENTS);
    const struct agent *agent = cluster_agent(&world->cluster, agent_ids[which]);
    struct document_version after = {0};
    if (agent != NULL && below(history, 3) != 0)
        after = cluster_document_version(&world->cluster, agent);
    history->waiting[below(history, OLD)] =
        world_poll(world, agent_ids[which], history->incarnations[which], after,
                   (int64_t)below(history, 30000));
}

static void copy_report(struct agent_report *ret_copy, const struct agent_report *report)
{
    schema_copy(&schema_agent_report, ret_copy, report);
}

static void spoil_report(struct story *history, struct agent_report *report)
{
    for (size_t i = 0; i < report->tasks.count; i++) {
        struct task_report *task = &report->tasks.items[i];
        static const enum task_state telling[] = {TASK_STATE_ACTIVE, TASK_STATE_FENCED,
                                                  TASK_STATE_FAILED};
        task->state = below(history, 3) == 0
                          ? (enum task_state)below(history, TASK_STATE_FAILED + 1)
                          : telling[below(history, 3)];
        if (task->role == TASK_ROLE_LEARNER) {
            static const enum task_state learning[] = {TASK_STATE_OPENING, TASK_STATE_LEARNING,
                                                       TASK_STATE_CAUGHT_UP, TASK_STATE_FAILED};
            task->state = learning[below(history, below(history, 4) == 0 ? 4 : 3)];
            task->caught_up_lag = (int64_t)below(history, 1000);
        }
        task->released = below(history, 4) == 0 ? !task->released : task->released;
        if (below(history, 10) == 0)
            task->handoff += below(history, 2);
        if (below(history, 10) == 0)
            task->epoch += below(history, 3);
        task->progress.items = mem_calloc(1, sizeof(struct partition_progress));
        task->progress.count = 1;
        task->progress.items[0] = (struct partition_progress){.partition = task->processor,
                                                              .t0 = 0,
                                                              .t1 = (int64_t)below(history, 100),
                                                              .t2 = API_UNKNOWN};
    }
    if (report->tasks.count > 0 && below(history, 5) == 0)
        schema_free(&schema_task_report, &report->tasks.items[--report->tasks.count]);
}

static void report_something(struct story *history)
{
    struct world *world = &history->world;
    const char *agent_id = agent_ids[below(history, AGENTS)];
    size_t slot = below(history, OLD);
    if (history->old[slot].agent_id != NULL && below(history, 4) == 0) {
        struct agent_report late;
        copy_report(&late, &history->old[slot].report);
        world_send_report(world, history->old[slot].agent_id, late);
        return;
    }
    if (cluster_agent(&world->cluster, agent_id) == NULL)
        return;
    bool calm = below(history, 2) == 0;
    struct agent_report report = world_report_of(world, agent_id, TASK_STATE_ACTIVE);
    if (!calm)
        spoil_report(history, &report);
    if (history->old[slot].agent_id != NULL)
        schema_free(&schema_agent_report, &history->old[slot].report);
    history->old[slot].agent_id = agent_id;
    copy_report(&history->old[slot].report, &report);
    world_send_report(world, agent_id, report);
}

/* ---- Kafka, time, and the coordinator's own life */

static void answer_call(struct story *history)
{
    struct world *world = &history->world;
    if (world->calls.count == 0)
        return;
    uint64_t way = below(history, 10);
    if (way == 0) {
        world_reply_failed(world, "no broker answers", false);
    } else if (way == 1) {
        world_reply_failed(world, "refused", true);
    } else if (way == 2 && world->calls.items[0].kind == KAFKA_CALL_INSPECT) {
        struct kafka_inspection inspection = world_inspection(&world->calls.items[0], 8);
        inspection.output.exists = below(history, 2) == 0;
        inspection.inputs.items[0].partitions.items[2].end =
            below(history, 2) == 0 ? API_UNKNOWN : 100;
        world_reply_inspection(world, inspection);
    } else if (way == 3 && world->calls.items[0].kind == KAFKA_CALL_COMMIT) {
        world_reply(world, (struct kafka_result){0}); /* Kafka holds nothing */
    } else {
        world_reply_well(world);
    }
}

static void late_answer(struct story *history)
{
    struct coord_event event = world_event(&history->world, COORD_EVENT_KAFKA, NULL);
    event.kafka = (struct kafka_result){.id = 1 + below(history, 40), .kind = KAFKA_CALL_COMMIT};
    world_step(&history->world, event);
}

static void stand_still(struct story *history)
{
    int64_t ms = (int64_t)below(history, 60000);
    history->world.now_ms += ms;
    history->world.now_at += ms;
}

static void lose_something(struct story *history)
{
    struct world *world = &history->world;
    struct coord_event event;
    if (below(history, 2) == 0) {
        event = world_event(world, COORD_EVENT_AGENT_REGISTER, NULL);
        event.registration = world_registration(agent_ids[0], ++history->incarnation_last);
    } else {
        event = world_event(world, COORD_EVENT_JOB_DELETE, job_names[below(history, JOBS)]);
    }
    world_lose_step(world, event);
}

static void happen(struct story *history)
{
    history->world.random = rng_next(&history->rng);
    uint64_t what = below(history, 100);
    if (what < 10)
        put_something(history);
    else if (what < 13)
        delete_something(history);
    else if (what < 18)
        ask_for_operation(history);
    else if (what < 19)
        go_away(history);
    else if (what < 20)
        cancel_handoff(history);
    else if (what < 22)
        move_something(history);
    else if (what < 27)
        register_something(history);
    else if (what < 30)
        leave_or_be_forgotten(history);
    else if (what < 31)
        cordon_something(history);
    else if (what < 33)
        drain_something(history);
    else if (what < 35)
        look_ahead(history);
    else if (what < 38)
        poll_something(history);
    else if (what < 62)
        report_something(history);
    else if (what < 78)
        answer_call(history);
    else if (what < 79)
        late_answer(history);
    else if (what < 96)
        world_pass(&history->world, (int64_t)below(history, below(history, 8) == 0 ? 15000 : 900));
    else if (what < 97)
        stand_still(history);
    else if (what < 98)
        world_restart(&history->world);
    else
        lose_something(history);
}

/* ---- the kind end: whatever happened, everything is finished and has an owner */

static void check_settled(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->operations.count; i++)
        cr_assert(view_operation_finished(cluster->operations.items[i]->row.state),
                  "op-%" PRIu64 " never ends", cluster->operations.items[i]->row.id);
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        cr_assert_eq(job->row.state, JOB_STATE_RUNNING);
        for (size_t p = 0; p < job->processors.count; p++) {
            const struct placement_row *placement = &job->processors.items[p].placement;
            cr_assert_not_null(placement->agent, "%s/%zu has no owner", job->row.name, p);
            cr_assert(placement->activated, "%s/%zu is not active", job->row.name, p);
            cr_assert_null(placement->trouble);
        }
    }
    cr_assert_eq(cluster->handoffs.count, 0, "hand-over %" PRIu64 " never ends",
                 cluster->handoffs.items[0]->row.id);
}

/* Nothing arrives, leaves or is asked for: nothing moves. */
static void check_rest(struct story *history)
{
    struct world *world = &history->world;
    uint64_t epoch = world->cluster.meta.epoch, handoff = world->cluster.meta.handoff_id;
    for (int round = 0; round < 60; round++) {
        for (size_t i = 0; i < AGENTS; i++)
            world_report(world, agent_ids[i], TASK_STATE_ACTIVE);
        world_pass(world, 500);
    }
    cr_assert_eq(world->cluster.meta.epoch, epoch, "something moved without a reason");
    cr_assert_eq(world->cluster.meta.handoff_id, handoff);
}

static void settle(struct story *history)
{
    struct world *world = &history->world;
    world_pass(world, WORLD_TIMEOUT_MS);
    for (size_t i = 0; i < AGENTS; i++) {
        struct coord_event event = world_event(world, COORD_EVENT_AGENT_REGISTER, NULL);
        history->incarnations[i] = ++history->incarnation_last;
        event.registration = world_registration(agent_ids[i], history->incarnations[i]);
        world_step(world, event);
        world_expect_status(world, 200);
        event = world_event(world, COORD_EVENT_ELIGIBILITY, agent_ids[i]);
        event.eligibility.schedulable = true;
        world_step(world, event);
        world_step(world, world_event(world, COORD_EVENT_DRAIN_CANCEL, agent_ids[i]));
    }
    for (int round = 0; round < 90; round++) {
        while (world->calls.count > 0)
            world_reply_well(world);
        for (size_t i = 0; i < AGENTS; i++)
            world_report(world, agent_ids[i], TASK_STATE_ACTIVE);
        world_pass(world, 500);
    }
    cr_assert_eq(world->open.count, 0, "a request still waits after all deadlines");
    check_settled(&world->cluster);
    check_rest(history);
}

static void finish_history(struct story *history)
{
    for (size_t i = 0; i < OLD; i++)
        if (history->old[i].agent_id != NULL)
            schema_free(&schema_agent_report, &history->old[i].report);
    world_finish(&history->world);
}

/* The trace: free(). */
static char *run(uint64_t seed)
{
    static struct story history;
    memset(&history, 0, sizeof(history));
    rng_init(&history.rng, seed);
    world_init(&history.world);
    for (int i = 0; i < STEPS; i++)
        happen(&history);
    settle(&history);
    char *trace = strbuf_take(&history.world.trace);
    finish_history(&history);
    return trace;
}

/* What must have happened in some history, or the histories test nothing. */
static const char *const kinds[] = {
    "job_created",          "job_running",         "job_updated",         "job_deleting",
    "job_deleted",          "agent_registered",    "agent_lost",          "agent_returned",
    "agent_stopped",        "agent_forgotten",     "processor_assigned",  "processor_unassigned",
    "processor_active",     "processor_failed",    "processor_recovered", "processor_refenced",
    "processor_fenced",     "operation_waiting",   "coordinator_started", "move_requested",
    "rebalance_requested",  "operation_cancelled", "handoff_started",     "handoff_caught_up",
    "handoff_learning",     "handoff_releasing",   "handoff_released",    "handoff_activating",
    "handoff_done",         "handoff_cancelled",   "handoff_failed",      "handoff_forced",
    "processor_given_back", "agent_cordoned",      "agent_uncordoned",    "drain_requested",
    "drain_changed",        "drain_done",          "drain_overdue",       "drain_cancelled",
    "expansion_requested",  "processor_added",
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void count_kinds(const char *trace, size_t counts[KINDS])
{
    for (size_t i = 0; i < KINDS; i++) {
        char *needle = mem_printf(" %s by ", kinds[i]);
        for (const char *at = strstr(trace, needle); at != NULL; at = strstr(at + 1, needle))
            counts[i]++;
        free(needle);
    }
}

Test(property, random_histories_keep_the_rules)
{
    size_t counts[KINDS] = {0};
    const char *only = getenv("BATON_SEED");
    uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1;
    uint64_t last = only != NULL ? first : SEEDS;
    for (uint64_t seed = first; seed <= last; seed++) {
        (void)fprintf(stderr, "seed %" PRIu64 "\n", seed);
        char *trace = run(seed);
        if (only != NULL)
            (void)fputs(trace, stderr);
        count_kinds(trace, counts);
        if (seed % 10 == 1) {
            char *again = run(seed);
            cr_assert_str_eq(again, trace, "seed %" PRIu64 ": the same events, another outcome",
                             seed);
            free(again);
        }
        free(trace);
    }
    for (size_t i = 0; only == NULL && i < KINDS; i++)
        cr_assert_gt(counts[i], 0, "no history had a %s", kinds[i]);
}
