/* The view that readers get, made from the core's own world. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/schema.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/metrics.h"
#include "coordinator/publish.h"
#include "tests/unit/coordinator/core/world.h"

struct play {
    struct world world;
    struct publisher *publisher;
    struct publish_dirty dirty;
    const struct view *view; /* the newest one, referenced */
};

/* Publishes what is marked; everything when `all`. */
static void publish(struct play *play, bool all)
{
    play->dirty.all = play->dirty.all || all;
    publish_build(play->publisher, &play->world.cluster, play->world.now_ms, &play->dirty);
    publish_release(play->view);
    play->view = publish_acquire(play->publisher);
}

static void begin(struct play *play)
{
    *play = (struct play){.publisher = publisher_create()};
    world_init(&play->world);
    cr_assert_null(publish_acquire(play->publisher));
    publish(play, true);
}

static void end(struct play *play)
{
    publish_release(play->view);
    publish_clear(&play->dirty);
    publisher_destroy(play->publisher);
    world_finish(&play->world);
}

/* t1, t2 and ends of the task's partitions, all the same; 100 records are in each. */
static void add_progress(const struct world *world, struct task_report *task, int64_t t1,
                         int64_t t2)
{
    const struct job *job = cluster_job(&world->cluster, task->job);
    struct uint_list owned;
    cluster_owned_partitions(job, task->processor, &owned);
    task->progress.items = mem_calloc(owned.count, sizeof(*task->progress.items));
    task->progress.count = owned.count;
    for (size_t i = 0; i < owned.count; i++)
        task->progress.items[owned.count - 1 - i] = /* any order will do */
            (struct partition_progress){.partition = owned.items[i],
                                        .t0 = 0,
                                        .t1 = t1,
                                        .t2 = t2,
                                        .log_start = 0,
                                        .stable_end = 100,
                                        .end = 120};
    free(owned.items);
}

struct said {
    enum task_state state;
    int64_t t1, t2;
};

static void report(struct play *play, const char *agent_id, struct said said)
{
    struct agent_report report = world_report_of(&play->world, agent_id, said.state);
    for (size_t i = 0; i < report.tasks.count; i++) {
        add_progress(&play->world, &report.tasks.items[i], said.t1, said.t2);
        report.tasks.items[i].records = 10;
        report.tasks.items[i].records_per_s = 2.5;
        report.tasks.items[i].replayed_per_s = said.state == TASK_STATE_REPLAYING ? 50 : 0;
        report.tasks.items[i].state_rows = 3;
    }
    world_send_report(&play->world, agent_id, report);
}

/* A value of the view is one that the contract allows: it is encoded, and read back strictly. */
static void expect_sound(const struct schema_type *type, const void *value)
{
    size_t bytes = 0;
    char *text = codec_encode(type, value, &bytes);
    void *back = mem_calloc(1, type->bytes);
    struct codec_faults faults = {0};
    struct err err = {0};
    enum err_code code = codec_decode(type, text, bytes, back, &faults, &err);
    cr_assert_eq(code, ERR_NONE, "%s: %s %s in %s", type->name,
                 faults.count > 0 ? faults.items[0].pointer : err.text,
                 faults.count > 0 ? faults.items[0].detail : "", text);
    schema_free(type, back);
    codec_faults_finish(&faults);
    free(back);
    free(text);
}

static void expect_sound_view(const struct view *view)
{
    for (size_t j = 0; j < view->jobs.count; j++) {
        const struct view_job *job = view->jobs.items[j];
        expect_sound(&schema_job_view, &job->job);
        expect_sound(&schema_job_status, &job->status);
        for (size_t p = 0; p < job->processors.count; p++)
            expect_sound(&schema_processor_view, &job->processors.items[p]);
        for (size_t p = 0; p < job->problems.count; p++)
            expect_sound(&schema_problem_view, &job->problems.items[p]);
    }
    for (size_t a = 0; a < view->agents->count; a++)
        expect_sound(&schema_agent_view, &view->agents->items[a]);
    for (size_t o = 0; o < view->operations->count; o++)
        expect_sound(&schema_operation_view, &view->operations->items[o]);
}

static const struct view_job *only_job(const struct play *play)
{
    expect_sound_view(play->view);
    cr_assert_eq(play->view->jobs.count, 1);
    return play->view->jobs.items[0];
}

static void expect_problems(const struct view_job *job, const char *code, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < job->problems.count; i++)
        found += strcmp(job->problems.items[i].code, code) == 0;
    cr_assert_eq(found, count, "%zu times %s", found, code);
    cr_assert_eq(job->problems.count, count);
    cr_assert_eq(job->status.problems, count);
}

/* Goal: a job without agents says what it waits for, and knows no lag. */
Test(publish, shows_job_without_agents)
{
    struct play play;
    begin(&play);
    world_create(&play.world, "orders");
    publish(&play, true);
    const struct view_job *job = only_job(&play);

    cr_assert_eq(job->status.processors, 4);
    cr_assert_eq(job->status.processors_unassigned, 4);
    cr_assert_eq(job->status.agents, 0);
    cr_assert_eq(job->status.lag_records, API_UNKNOWN);
    cr_assert_eq(job->status.observed_at, API_UNKNOWN);
    expect_problems(job, "no_agent", 4);
    const struct processor_view *processor = &job->processors.items[1];
    cr_assert_str_eq(processor->state, "unassigned");
    cr_assert_not_null(strstr(processor->reason, "waiting for an agent"));
    cr_assert_eq(processor->partitions.count, 2);
    cr_assert_eq(processor->partitions.items[1].partition, 5);
    cr_assert_eq(processor->partitions.items[1].t0, 0);
    cr_assert_eq(processor->partitions.items[1].t1, 0); /* committed at creation */
    cr_assert_eq(processor->partitions.items[1].t2, API_UNKNOWN);
    cr_assert_eq(processor->eta_ms, API_UNKNOWN);
    cr_assert_eq(play.view->operations->count, 1);
    cr_assert_not_null(view_find_operation(play.view, "op-1"));
    cr_assert_null(view_find_operation(play.view, "op-2"));
    end(&play);
}

/* Goal: placement and report are joined by owner, incarnation and epoch; sums are sums. */
Test(publish, joins_reports)
{
    struct play play;
    begin(&play);
    world_create(&play.world, "orders");
    world_register(&play.world, "a1", 1);
    publish(&play, true);
    cr_assert_str_eq(only_job(&play)->processors.items[0].state, "assigned");
    cr_assert_not_null(strstr(only_job(&play)->processors.items[0].reason, "not reported"));

    report(&play, "a1", (struct said){TASK_STATE_ACTIVE, 90, 80});
    publish(&play, true);
    const struct view_job *job = only_job(&play);
    cr_assert_eq(job->status.processors_active, 4);
    cr_assert_eq(job->status.agents, 1);
    cr_assert_eq(job->status.lag_records, 8 * 10); /* 8 partitions */
    cr_assert_eq(job->status.lag_records_max, 10);
    cr_assert_eq(job->status.replay_records, 8 * 10);
    cr_assert_eq(job->status.state_rows, 12);
    cr_assert_float_eq(job->status.records_per_s, 10.0, 1e-9);
    cr_assert_eq(job->status.observed_at, play.world.now_at);
    expect_problems(job, "", 0);
    const struct processor_view *processor = &job->processors.items[3];
    cr_assert_str_eq(processor->state, "active");
    cr_assert_null(processor->reason);
    cr_assert_eq(processor->lag_records, 20);
    cr_assert_eq(processor->partitions.items[0].partition, 3);
    cr_assert_eq(processor->partitions.items[0].end, 120);
    const struct agent_view *agent = view_find_agent(play.view, "a1");
    cr_assert_eq(agent->tasks, 4);
    cr_assert_eq(agent->tasks_active, 4);
    cr_assert_null(view_find_agent(play.view, "a2"));
    end(&play);
}

/* Goal: a rebuild shows how much is left and how long it takes. */
Test(publish, estimates_replay)
{
    struct play play;
    begin(&play);
    world_create(&play.world, "orders");
    world_register(&play.world, "a1", 1);
    report(&play, "a1", (struct said){TASK_STATE_REPLAYING, 100, 25});
    publish(&play, true);
    const struct view_job *job = only_job(&play);
    cr_assert_eq(job->status.processors_replaying, 4);
    cr_assert_eq(job->processors.items[0].eta_ms, 3000); /* 150 records at 50 a second */
    cr_assert_not_null(strstr(job->processors.items[0].reason, "150 records to go"));
    end(&play);
}

/* Goal: while it catches up, the time left follows from how the lag shrinks; while it grows, nobody
 * knows. */
Test(publish, estimates_lag)
{
    struct play play;
    begin(&play);
    world_create(&play.world, "orders");
    world_register(&play.world, "a1", 1);
    for (int64_t t1 = 0; t1 <= 80; t1 += 10) {
        report(&play, "a1", (struct said){TASK_STATE_ACTIVE, t1, t1});
        publish(&play, true);
        world_pass(&play.world, 1000);
    }
    /* 20 records a second, smoothed: 40 are left. */
    int64_t eta_ms = only_job(&play)->processors.items[0].eta_ms;
    cr_assert(eta_ms >= 2000 && eta_ms < 2400, "%lld", (long long)eta_ms);
    for (int64_t t1 = 70; t1 >= 0; t1 -= 10) {
        report(&play, "a1", (struct said){TASK_STATE_ACTIVE, t1, t1});
        publish(&play, true);
        world_pass(&play.world, 1000);
    }
    cr_assert_eq(only_job(&play)->processors.items[0].eta_ms, API_UNKNOWN);
    report(&play, "a1", (struct said){TASK_STATE_ACTIVE, 100, 100});
    publish(&play, true);
    cr_assert_eq(only_job(&play)->processors.items[0].eta_ms, 0);
    end(&play);
}

/* Goal: an agent that is silent, or left, is a problem; its old numbers do not pass for today's. */
Test(publish, shows_absent_agents)
{
    struct play play;
    begin(&play);
    world_create(&play.world, "orders");
    world_register(&play.world, "a1", 1);
    report(&play, "a1", (struct said){TASK_STATE_ACTIVE, 90, 90});
    world_pass(&play.world, WORLD_TIMEOUT_MS + 1000);
    publish(&play, true);
    const struct view_job *job = only_job(&play);
    cr_assert_str_eq(job->processors.items[0].state, "agent_lost");
    cr_assert_not_null(strstr(job->processors.items[0].reason, "last heard of at"));
    cr_assert_not(job->processors.items[0].agent_alive);
    cr_assert_eq(job->processors.items[0].lag_records, API_UNKNOWN);
    cr_assert_float_eq(job->processors.items[0].records_per_s, 0, 1e-9);
    cr_assert_eq(job->processors.items[0].partitions.items[0].t1, 90); /* with its time */
    cr_assert_eq(job->status.processors_active, 0);
    expect_problems(job, "agent_lost", 4);
    cr_assert_eq(view_find_agent(play.view, "a1")->state, AGENT_STATE_LOST);
    end(&play);

    begin(&play);
    world_create(&play.world, "orders");
    world_register(&play.world, "a1", 1);
    world_deregister(&play.world, "a1", 1);
    publish(&play, true);
    expect_problems(only_job(&play), "agent_lost", 4);
    cr_assert_not_null(strstr(only_job(&play)->problems.items[0].detail, "has left"));
    end(&play);
}

/* Goal: what is found of a job's topics is a problem of the whole job, and marks no other job. */
Test(publish, shows_what_is_found_of_topics)
{
    struct play play;
    begin(&play);
    play.world.cluster.config.topics_interval_ms = 10000;
    world_create(&play.world, "orders");
    world_register(&play.world, "a1", 1);
    report(&play, "a1", (struct said){TASK_STATE_ACTIVE, 90, 90});
    publish(&play, true);
    world_pass(&play.world, 10000);
    report(&play, "a1", (struct said){TASK_STATE_ACTIVE, 90, 90});
    int64_t now_at = play.world.now_at;
    struct coord_event event = {.kind = COORD_EVENT_KAFKA, .kafka = {.job = "orders"}};
    world_reply_inspection(&play.world, world_inspection(&play.world.calls.items[0], 9));
    publish_mark_event(&play.dirty, &event);
    cr_assert(!play.dirty.all);
    cr_assert_eq(play.dirty.jobs.count, 1);
    publish(&play, false);
    expect_problems(only_job(&play), "partitions_changed", 1);
    const struct problem_view *problem = &only_job(&play)->problems.items[0];
    cr_assert_eq(problem->severity, PROBLEM_SEVERITY_WARNING);
    cr_assert_eq(problem->processor, API_UNKNOWN);
    cr_assert_null(problem->agent);
    cr_assert_eq(problem->since_at, now_at);
    cr_assert_not_null(strstr(problem->detail, "9 partitions"));
    end(&play);
}

/* Goal: what an agent says is wrong is shown with what to do, also when only the agent knows it. */
Test(publish, shows_reported_problems)
{
    struct play play;
    begin(&play);
    world_create(&play.world, "orders");
    world_register(&play.world, "a1", 1);
    struct agent_report said = world_report_of(&play.world, "a1", TASK_STATE_FAILED);
    static const char *const codes[] = {"record_failed", "from_the_future"};
    for (size_t i = 0; i < 2; i++) {
        struct task_report *task = &said.tasks.items[i];
        task->problems.items = mem_calloc(1, sizeof(*task->problems.items));
        task->problems.count = 1;
        char *detail = mem_calloc(API_TEXT_BYTES_MAX + 1, 1);
        memset(detail, 'x', API_TEXT_BYTES_MAX);
        task->problems.items[0] =
            (struct task_problem){.code = mem_strdup(codes[i]), .detail = detail, .since_at = 5000};
    }
    world_send_report(&play.world, "a1", said);
    publish(&play, true);
    const struct view_job *job = only_job(&play);
    cr_assert_eq(job->problems.count, 2);
    cr_assert_eq(job->status.processors_failed, 4);
    cr_assert_eq(job->problems.items[0].since_at, 5000);
    cr_assert_str_eq(job->problems.items[0].agent, "a1");
    cr_assert_not_null(strstr(job->problems.items[0].action, "on_error"));
    cr_assert_not_null(strstr(job->problems.items[1].action, "documentation"));
    cr_assert_not_null(strstr(job->processors.items[0].reason, "record_failed"));
    end(&play);
}

Test(publish, shows_exhausted_capacity)
{
    struct play play;
    begin(&play);
    struct agent_registration small = world_registration("a1", 1);
    small.capacity = 3;
    struct coord_event event = world_event(&play.world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = small;
    world_step(&play.world, event);
    world_create(&play.world, "orders");
    publish(&play, true);
    expect_problems(only_job(&play), "capacity_exhausted", 1);
    cr_assert_eq(only_job(&play)->status.processors_unassigned, 1);
    end(&play);
}

static void register_small(struct play *play, const char *agent_id, uint64_t incarnation,
                           uint32_t capacity)
{
    struct coord_event event = world_event(&play->world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration(agent_id, incarnation);
    event.registration.capacity = capacity;
    world_step(&play->world, event);
}

/* Learners take room: an agent that only seems to have some is no reason to say nothing. */
Test(publish, shows_capacity_that_learners_have_exhausted)
{
    struct play play;
    begin(&play);
    register_small(&play, "a1", 1, 4);
    world_create(&play.world, "orders");
    world_report(&play.world, "a1", TASK_STATE_ACTIVE);
    register_small(&play, "a2", 2, 2);
    cr_assert_eq(play.world.cluster.handoffs.count, 2);
    struct job_spec spec = world_spec("second");
    spec.processors = 1;
    free(spec.inputs.items[0]);
    spec.inputs.items[0] = mem_strdup("other");
    world_create_spec(&play.world, "second", spec);
    publish(&play, true);
    const struct view *view = publish_acquire(play.publisher);
    const struct view_job *second = view_find_job(view, "second");
    cr_assert_null(second->processors.items[0].agent);
    cr_assert_eq(second->problems.count, 1);
    cr_assert_str_eq(second->problems.items[0].code, "capacity_exhausted");
    publish_release(view);
    end(&play);
}

/* What a lost agent had and nobody has room for is not only the lost agent's problem. */
Test(publish, shows_that_others_have_no_room_to_take_over)
{
    struct play play;
    begin(&play);
    world_register(&play.world, "a1", 1);
    world_create(&play.world, "orders");
    world_report(&play.world, "a1", TASK_STATE_ACTIVE);
    register_small(&play, "a2", 2, 1);
    world_pass_reporting(&play.world, WORLD_TIMEOUT_MS + 1000, (const char *const[]){"a2", NULL});
    publish(&play, true);
    expect_problems(only_job(&play), "agent_lost", 3); /* a2 had learned one */
    world_pass_reporting(&play.world, 31000, (const char *const[]){"a2", NULL});
    publish(&play, true);
    const struct view_job *job = only_job(&play);
    size_t lost = 0, full = 0;
    for (size_t i = 0; i < job->problems.count; i++) {
        lost += strcmp(job->problems.items[i].code, "agent_lost") == 0;
        full += strcmp(job->problems.items[i].code, "capacity_exhausted") == 0;
    }
    cr_assert_eq(lost, 3);
    cr_assert_eq(full, 3);
    end(&play);
}

/* What is owed to a newcomer but can not begin says what it waits for. */
Test(publish, shows_what_a_processor_waits_for)
{
    struct play play;
    begin(&play);
    world_register(&play.world, "a1", 1);
    world_create(&play.world, "orders");
    world_report(&play.world, "a1", TASK_STATE_ACTIVE);
    struct coord_event event = world_event(&play.world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration("a2", 2);
    event.registration.max_learners = 1;
    world_step(&play.world, event);
    publish(&play, true);
    const struct view_job *job = only_job(&play);
    size_t waiting = 0, moving = 0;
    for (size_t p = 0; p < job->processors.count; p++) {
        const char *reason = job->processors.items[p].reason;
        waiting += reason != NULL && strstr(reason, "waits for a learner slot") != NULL;
        moving += reason != NULL && strstr(reason, "being handed over") != NULL;
    }
    cr_assert_eq(waiting, 1);
    cr_assert_eq(moving, 1);
    end(&play);
}

static void cordon(struct play *play, const char *agent_id)
{
    struct coord_event event = world_event(&play->world, COORD_EVENT_ELIGIBILITY, agent_id);
    event.eligibility.reason = mem_strdup("a disk");
    world_step(&play->world, event);
}

/* Goal: whoever looks for why nobody has it is told that there are agents, but cordoned ones. */
Test(publish, shows_cordoned_agents)
{
    struct play play;
    struct strbuf buf = {0};
    begin(&play);
    world_create(&play.world, "orders");
    world_register(&play.world, "a1", 1);
    cordon(&play, "a1");
    world_deregister(&play.world, "a1", 1);
    world_forget(&play.world, "a1");
    world_register(&play.world, "a2", 2);
    cordon(&play, "a2");
    publish(&play, true);
    const struct agent_view *agent = view_find_agent(play.view, "a2");
    cr_assert_not(agent->eligibility.schedulable);
    cr_assert_str_eq(agent->eligibility.reason, "a disk");
    cr_assert_str_eq(agent->eligibility.actor, WORLD_ACTOR);
    metrics_print_view(&buf, play.view);
    cr_assert_not_null(strstr(strbuf_text(&buf), "\nbaton_agent_schedulable{agent=\"a2\"} 0\n"));
    strbuf_finish(&buf);
    end(&play);
}

Test(publish, counts_cordoned_agents_where_nobody_has_a_processor)
{
    struct play play;
    begin(&play);
    world_register(&play.world, "a1", 1);
    cordon(&play, "a1");
    world_create(&play.world, "orders");
    publish(&play, true);
    expect_problems(only_job(&play), "no_agent", 4);
    cr_assert_str_eq(only_job(&play)->problems.items[0].detail,
                     "1 agents are alive and all are cordoned or drained");
    cr_assert_not_null(strstr(only_job(&play)->processors.items[0].reason, "cordoned"));
    register_small(&play, "a2", 2, 1);
    publish(&play, true);
    expect_problems(only_job(&play), "capacity_exhausted", 3);
    cr_assert_str_eq(only_job(&play)->problems.items[0].detail,
                     "1 agents are alive and all are full; 1 more are cordoned or drained");
    end(&play);
}

/* Goal: an unchanged job is the same memory in the next view; a changed one is not, and the old
 * view still reads as before. */
Test(publish, shares_what_did_not_change)
{
    struct play play;
    begin(&play);
    world_register(&play.world, "a1", 1);
    world_create(&play.world, "first");
    publish(&play, true);
    world_register(&play.world, "a2", 2);
    publish(&play, true);
    struct job_spec spec = world_spec("second");
    spec.processors = 2; /* the room that is left until a1 has as few tasks as a2 */
    free(spec.inputs.items[0]);
    spec.inputs.items[0] = mem_strdup("other");
    world_create_spec(&play.world, "second", spec);
    publish(&play, true);
    const struct view *before = publish_acquire(play.publisher);
    const struct view_job *second = view_find_job(before, "second");
    const char *owner = second->processors.items[0].agent;
    cr_assert_str_eq(owner, "a2"); /* the emptier one */

    struct coord_event heard = {.kind = COORD_EVENT_REPORT, .name = "a1"};
    publish_mark_event(&play.dirty, &heard);
    cr_assert(publish_is_dirty(&play.dirty));
    report(&play, "a1", (struct said){TASK_STATE_ACTIVE, 90, 80});
    publish_mark_update(&play.dirty, &play.world.update);
    publish(&play, false);
    cr_assert_not(publish_is_dirty(&play.dirty));
    cr_assert_eq(view_find_job(play.view, "second"), second);
    cr_assert_neq(view_find_job(play.view, "first"), view_find_job(before, "first"));
    cr_assert_str_eq(view_find_job(before, "first")->processors.items[0].state, "assigned");
    cr_assert_str_eq(view_find_job(play.view, "first")->processors.items[0].state, "active");
    cr_assert_eq(play.view->operations, before->operations);
    cr_assert_eq(view_find_agent(play.view, "a1")->tasks_active, 4);

    world_delete(&play.world, "first");
    publish_mark_update(&play.dirty, &play.world.update);
    publish(&play, false);
    cr_assert_neq(play.view->operations, before->operations);
    cr_assert_eq(view_find_job(play.view, "first")->job.state, JOB_STATE_DELETING);
    cr_assert_eq(view_find_job(play.view, "second"), second);
    publish_release(before);
    end(&play);
}

/* Goal: metrics say the same as the view, and a name needs no care. */
Test(publish, feeds_metrics)
{
    struct play play;
    struct strbuf buf = {0};
    begin(&play);
    metrics_print_view(&buf, NULL);
    cr_assert_str_eq(strbuf_text(&buf), "");
    world_create(&play.world, "orders");
    world_register(&play.world, "a1", 1);
    report(&play, "a1", (struct said){TASK_STATE_ACTIVE, 90, 80});
    publish(&play, true);
    metrics_print_view(&buf, play.view);
    static const char *const lines[] = {
        "\nbaton_jobs{state=\"running\"} 1\n",
        "\nbaton_agents{state=\"alive\"} 1\n",
        "\nbaton_processors{job=\"orders\",state=\"active\"} 4\n",
        "\nbaton_job_lag_records{job=\"orders\"} 80\n",
        "\nbaton_job_replay_records{job=\"orders\"} 80\n",
        "\nbaton_job_records_per_second{job=\"orders\"} 10\n",
        "\nbaton_processor_lag_records{job=\"orders\",processor=\"3\"} 20\n",
        "\nbaton_processor_records_total{job=\"orders\",processor=\"0\"} 10\n",
        "\nbaton_processor_skipped_total{job=\"orders\",processor=\"0\",reason=\"null_key\"} 0\n",
        "\n# TYPE baton_processor_epoch gauge\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        cr_assert_not_null(strstr(strbuf_text(&buf), lines[i]), "%s\n%s", lines[i],
                           strbuf_text(&buf));
    cr_assert_null(strstr(strbuf_text(&buf), "baton_problems{"));
    strbuf_finish(&buf);
    end(&play);
}

/* Goal: answers are counted by route and status, an unknown status too. */
Test(metrics, counts_requests)
{
    struct metrics_requests *requests = mem_calloc(1, sizeof(*requests));
    metrics_count_request(requests, 0, 200);
    metrics_count_request(requests, 0, 200);
    metrics_count_request(requests, METRICS_NO_ROUTE, 404);
    metrics_count_request(requests, METRICS_NO_ROUTE, 999);
    uint64_t sum = 0;
    for (size_t i = 0; i < METRICS_STATUSES_MAX; i++)
        sum += requests->counts[METRICS_NO_ROUTE][i];
    cr_assert_eq(requests->counts[0][0], 2);
    cr_assert_eq(sum, 2);
    free(requests);
}
