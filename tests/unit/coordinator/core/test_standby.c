/* Standbys in the coordinator's core: where they are, what they are told, and what becomes of them
 * when their owner is lost or leaves. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;
static const char *const both[] = {"a1", "a2", NULL};
static const char *const three[] = {"a1", "a2", "a3", NULL};
static const char *const a2_a3[] = {"a2", "a3", NULL};
static int64_t committed; /* T1 of every partition, as owners report it */

static void register_in(const char *agent_id, uint64_t incarnation, const char *zone,
                        uint32_t capacity)
{
    struct coord_event event = world_event(&world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration(agent_id, incarnation);
    event.registration.capacity = capacity;
    if (zone != NULL) {
        event.registration.tags.items = mem_calloc(1, sizeof(struct tag));
        event.registration.tags.count = 1;
        event.registration.tags.items[0] =
            (struct tag){.name = mem_strdup("zone"), .value = mem_strdup(zone)};
    }
    world_step(&world, event);
    world_expect_status(&world, 200);
}

static struct job_spec spec_of(uint32_t standbys)
{
    struct job_spec spec = world_spec("j1");
    spec.standbys = standbys;
    return spec;
}

static void setup(void)
{
    committed = 1000000;
    world_init(&world);
    world_register(&world, "a1", 1);
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(standby, .init = setup, .fini = teardown);

static struct processor *processor_of(uint32_t number)
{
    return &cluster_job(&world.cluster, "j1")->processors.items[number];
}

static const char *owner_of(uint32_t number)
{
    return processor_of(number)->placement.agent;
}

/* The one standby of the processor. */
static const char *standby_of(uint32_t number)
{
    cr_assert_eq(processor_of(number)->standbys.count, 1, "processor %u has %zu", number,
                 processor_of(number)->standbys.count);
    return processor_of(number)->standbys.items[0].row.agent;
}

static size_t count_standbys(const char *agent_id)
{
    size_t count = 0;
    for (uint32_t p = 0; p < 4; p++)
        count += cluster_standby(processor_of(p), agent_id) != NULL;
    return count;
}

static void fill_progress(const struct document_task *task, int64_t learned,
                          struct task_report *report)
{
    report->progress.items = mem_calloc(task->owned.count, sizeof(struct partition_progress));
    report->progress.count = task->owned.count;
    for (size_t i = 0; i < task->owned.count; i++)
        report->progress.items[i] =
            (struct partition_progress){.partition = task->owned.items[i],
                                        .t1 = committed,
                                        .t2 = task->role == TASK_ROLE_ACTIVE ? committed : learned,
                                        .log_start = 0,
                                        .stable_end = committed,
                                        .end = committed};
}

/* All is well with it, but who learns is this far behind. */
static void report_behind(const char *agent_id, int64_t behind)
{
    struct agent_report report = world_report_of(&world, agent_id, TASK_STATE_ACTIVE);
    struct agent_document document;
    cluster_document(&world.cluster, cluster_agent(&world.cluster, agent_id), &document);
    for (size_t i = 0; i < document.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        fill_progress(&document.tasks.items[i], committed - behind, task);
        if (task->role != TASK_ROLE_ACTIVE && behind > 10000)
            task->state = TASK_STATE_LEARNING;
    }
    schema_free(&schema_agent_document, &document);
    world_send_report(&world, agent_id, report);
}

static void report_all(const char *const *agent_ids)
{
    for (int round = 0; round < 6; round++)
        for (size_t i = 0; agent_ids[i] != NULL; i++)
            report_behind(agent_ids[i], 0);
}

static void pass(int64_t ms, const char *const *agent_ids)
{
    for (int64_t passed_ms = 0; passed_ms < ms; passed_ms += 500) {
        world_pass(&world, 500);
        for (size_t i = 0; agent_ids[i] != NULL; i++)
            report_behind(agent_ids[i], 0);
    }
}

/* j1 is a1's and a2's, each the other's standby, and a3 came later and is established. */
static void begin_three(void)
{
    register_in("a2", 2, NULL, 100);
    register_in("a3", 3, NULL, 100);
    world_create_spec(&world, "j1", spec_of(1));
    report_all(three);
    pass(3000, three);
    cr_assert_eq(world.cluster.handoffs.count, 0);
}

static void expect_role(const char *agent_id, uint32_t number, enum task_role role)
{
    struct agent_document document;
    const struct document_task *found = NULL;
    cluster_document(&world.cluster, cluster_agent(&world.cluster, agent_id), &document);
    for (size_t i = 0; i < document.tasks.count; i++)
        if (document.tasks.items[i].processor == number)
            found = &document.tasks.items[i];
    cr_assert_not_null(found, "%s has no task of processor %u", agent_id, number);
    cr_assert_eq(found->role, role, "%s has processor %u as %d", agent_id, number,
                 (int)found->role);
    if (role == TASK_ROLE_STANDBY) {
        cr_assert_eq(found->epoch, 0);
        cr_assert_eq(found->handoff, 0);
    }
    schema_free(&schema_agent_document, &document);
}

/* ---- where they are */

Test(standby, nobody_is_one_s_own)
{
    world_create_spec(&world, "j1", spec_of(1));
    report_all((const char *const[]){"a1", NULL});
    for (uint32_t p = 0; p < 4; p++) {
        cr_assert_eq(processor_of(p)->standbys.count, 0);
        cr_assert_eq(processor_of(p)->standby_lack, STANDBY_LACK_AGENT);
        cr_assert_neq(processor_of(p)->standby_lack_at, 0);
    }
    register_in("a2", 2, NULL, 100);
    pass(3000, both);
    for (uint32_t p = 0; p < 4; p++) {
        cr_assert_str_eq(standby_of(p), strcmp(owner_of(p), "a1") == 0 ? "a2" : "a1");
        cr_assert_eq(processor_of(p)->standby_lack_at, 0);
    }
}

Test(standby, is_told_its_role_and_how_far_it_may_go)
{
    begin_three();
    const char *holder = standby_of(0);
    expect_role(holder, 0, TASK_ROLE_STANDBY);
    report_behind(owner_of(0), 0);
    committed += 5;
    report_behind(owner_of(0), 0);
    report_behind(holder, 0);
    const struct report_answer *answer = world_answer(&world)->body;
    bool told = false;
    for (size_t i = 0; i < answer->follow.count; i++)
        if (answer->follow.items[i].processor == 0) {
            told = true;
            for (size_t k = 0; k < answer->follow.items[i].committed.count; k++)
                cr_assert_eq(answer->follow.items[i].committed.items[k].offset, committed);
        }
    cr_assert(told);
}

Test(standby, stateless_jobs_have_none)
{
    register_in("a2", 2, NULL, 100);
    struct job_spec spec = spec_of(1);
    spec.stateful = false;
    world_create_spec(&world, "j1", spec);
    report_all(both);
    cr_assert_eq(count_standbys("a1") + count_standbys("a2"), 0);
}

Test(standby, goes_to_another_zone)
{
    world_deregister(&world, "a1", 1);
    world_forget(&world, "a1");
    register_in("a1", 11, "north", 100);
    register_in("a2", 2, "north", 100);
    register_in("a3", 3, "south", 100);
    world_create_spec(&world, "j1", spec_of(1));
    report_all(three);
    for (uint32_t p = 0; p < 4; p++)
        cr_assert_eq(strcmp(owner_of(p), "a3") == 0, strcmp(standby_of(p), "a3") != 0);
}

Test(standby, as_many_as_the_job_wants)
{
    begin_three();
    struct job_spec spec = spec_of(2);
    world_put(&world, "j1", spec);
    report_all(three);
    for (uint32_t p = 0; p < 4; p++)
        cr_assert_eq(processor_of(p)->standbys.count, 2);
    world_put(&world, "j1", spec_of(1));
    for (uint32_t p = 0; p < 4; p++)
        cr_assert_eq(processor_of(p)->standbys.count, 1);
    world_put(&world, "j1", spec_of(0));
    world_reply_all_well(&world);
    cr_assert_eq(count_standbys("a1") + count_standbys("a2") + count_standbys("a3"), 0);
}

Test(standby, nothing_moves_without_a_reason)
{
    begin_three();
    uint64_t before = world.cluster.meta.decision;
    register_in("a4", 4, "elsewhere", 100);
    const char *const four[] = {"a1", "a2", "a3", "a4", NULL};
    pass(3000, four);
    size_t started = world_count_traced(&world, "standby_started");
    uint64_t after = world.cluster.meta.decision;
    pass(60000, four);
    cr_assert_gt(after, before);
    cr_assert_eq(world.cluster.meta.decision, after);
    cr_assert_eq(world_count_traced(&world, "standby_started"), started);
}

Test(standby, learn_in_slots_that_are_free)
{
    register_in("a2", 2, NULL, 100);
    struct job_spec spec = spec_of(1);
    spec.max_learners = 1;
    world_create_spec(&world, "j1", spec);
    cr_assert_eq(count_standbys("a1") + count_standbys("a2"), 1);
    size_t waiting = 0;
    for (uint32_t p = 0; p < 4; p++)
        waiting += processor_of(p)->standby_lack == STANDBY_LACK_SLOT;
    cr_assert_eq(waiting, 3);
    report_all(both); /* each that has caught up lets the next one begin */
    report_all(both);
    cr_assert_eq(count_standbys("a1") + count_standbys("a2"), 4);
}

Test(standby, gives_way_to_owners)
{
    world_deregister(&world, "a1", 1);
    world_forget(&world, "a1");
    register_in("a1", 11, NULL, 4);
    register_in("a2", 2, NULL, 4);
    world_create_spec(&world, "j1", spec_of(1));
    report_all(both);
    cr_assert_eq(count_standbys("a1") + count_standbys("a2"), 4);
    pass(15000, (const char *const[]){"a2", NULL}); /* a1 is lost */
    cr_assert_eq(world_count_owned(&world, "j1", "a2"), 4);
    cr_assert_eq(count_standbys("a2"), 0);
}

/* ---- failover */

Test(standby, takes_over_at_once)
{
    begin_three();
    const char *const left[] = {"a2", "a3", NULL};
    uint32_t lost = 0;
    const char *holder[4] = {NULL};
    for (uint32_t p = 0; p < 4; p++) {
        if (strcmp(owner_of(p), "a1") == 0) {
            holder[p] = strcmp(standby_of(p), "a2") == 0 ? "a2" : "a3";
            lost++;
        }
    }
    cr_assert_gt(lost, 0);
    pass(WORLD_TIMEOUT_MS + 500, left);
    for (uint32_t p = 0; p < 4; p++) {
        if (holder[p] == NULL)
            continue;
        cr_assert_str_eq(owner_of(p), holder[p], "processor %u is %s's", p, owner_of(p));
        expect_role(holder[p], p, TASK_ROLE_ACTIVE);
    }
    report_all(left);
    cr_assert_eq(world.cluster.handoffs.count, 0);
    for (uint32_t p = 0; p < 4; p++)
        if (holder[p] != NULL)
            cr_assert_str_neq(standby_of(p), "a1", "it has another one by now");
}

Test(standby, that_has_not_learned_enough_does_not)
{
    begin_three();
    report_behind("a2", 500000);
    report_behind("a3", 500000);
    for (int64_t passed_ms = 0; passed_ms < WORLD_TIMEOUT_MS + 20000; passed_ms += 500) {
        world_pass(&world, 500);
        report_behind("a2", 500000);
        report_behind("a3", 500000);
    }
    cr_assert_gt(world_count_owned(&world, "j1", "a1"), 0, "it is waited for");
    report_all(a2_a3); /* now they have */
    cr_assert_eq(world_count_owned(&world, "j1", "a1"), 0);
}

/* Who was lost before may have come back while nobody listened. */
Test(standby, waits_until_the_lost_one_could_be_heard_after_a_restart)
{
    begin_three();
    for (int64_t passed_ms = 0; passed_ms < WORLD_TIMEOUT_MS + 1000; passed_ms += 500) {
        world_pass(&world, 500);
        report_behind("a2", 500000);
        report_behind("a3", 500000);
    }
    cr_assert_eq(cluster_agent(&world.cluster, "a1")->row.state, AGENT_STATE_LOST);
    world_restart(&world);
    report_all(a2_a3);
    cr_assert_gt(world_count_owned(&world, "j1", "a1"), 0);
    pass(WORLD_TIMEOUT_MS, a2_a3);
    cr_assert_eq(world_count_owned(&world, "j1", "a1"), 0);
}

Test(standby, waits_for_who_left_in_order)
{
    begin_three();
    size_t owned = world_count_owned(&world, "j1", "a1");
    world_deregister(&world, "a1", 1);
    pass(20000, a2_a3);
    cr_assert_eq(world_count_owned(&world, "j1", "a1"), owned);
    pass(11000, a2_a3);
    cr_assert_eq(world_count_owned(&world, "j1", "a1"), 0);
}

/* Its owner is there, but has lost its disk, and what it would rebuild the state from is gone. */
Test(standby, takes_over_from_who_can_not_rebuild_it)
{
    begin_three();
    pass(11000, three); /* T1 is stored */
    char *owner = mem_strdup(owner_of(0)), *holder = mem_strdup(standby_of(0));
    struct agent_report report = world_report_of(&world, owner, TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        if (task->processor != 0)
            continue;
        task->state = TASK_STATE_FAILED;
        task->problems.items = mem_calloc(1, sizeof(struct task_problem));
        task->problems.count = 1;
        task->problems.items[0] = (struct task_problem){.code = mem_strdup("history_incomplete"),
                                                        .detail = mem_strdup("it starts at 17")};
    }
    world_send_report(&world, owner, report);
    cr_assert_str_eq(owner_of(0), holder);
    cr_assert(processor_of(0)->handoff->row.forced);
    free(owner);
    free(holder);
}

/* ---- its own agent */

Test(standby, stays_when_its_agent_is_back_in_time)
{
    begin_three();
    size_t standbys = count_standbys("a1"), started = world_count_traced(&world, "standby_started");
    cr_assert_gt(standbys, 0);
    world_deregister(&world, "a1", 1);
    pass(5000, a2_a3);
    world_register(&world, "a1", 12);
    report_all(three);
    cr_assert_eq(count_standbys("a1"), standbys);
    cr_assert_eq(world_count_traced(&world, "standby_started"), started);
}

Test(standby, goes_elsewhere_when_its_agent_is_gone)
{
    begin_three();
    pass(WORLD_TIMEOUT_MS + 31000, a2_a3);
    cr_assert_eq(count_standbys("a1"), 0);
    for (uint32_t p = 0; p < 4; p++)
        cr_assert_str_neq(standby_of(p), "a1");
}

Test(standby, goes_elsewhere_when_its_agent_can_not_rebuild_it)
{
    begin_three();
    struct agent_report report = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        if (task->role != TASK_ROLE_STANDBY)
            continue;
        task->state = TASK_STATE_FAILED;
        task->problems.items = mem_calloc(1, sizeof(struct task_problem));
        task->problems.count = 1;
        task->problems.items[0] = (struct task_problem){.code = mem_strdup("history_incomplete"),
                                                        .detail = mem_strdup("it starts at 17")};
    }
    world_send_report(&world, "a1", report);
    cr_assert_eq(count_standbys("a1"), 0);
    for (uint32_t p = 0; p < 4; p++)
        cr_assert_leq(processor_of(p)->standbys.count, 1);
}

Test(standby, cordons_leave_them)
{
    begin_three();
    size_t standbys = count_standbys("a1");
    struct coord_event event = world_event(&world, COORD_EVENT_ELIGIBILITY, "a1");
    event.eligibility.schedulable = false;
    world_step(&world, event);
    pass(3000, three);
    cr_assert_eq(count_standbys("a1"), standbys);
}

/* ---- hand-overs */

static void drain(const char *agent_id)
{
    struct coord_event event = world_event(&world, COORD_EVENT_DRAIN, agent_id);
    event.drain = (struct drain_request){.deadline_ms = API_UNKNOWN};
    world_step(&world, event);
    world_expect_status(&world, 202);
}

Test(standby, gets_what_is_drained)
{
    begin_three();
    const char *holder[4] = {NULL};
    for (uint32_t p = 0; p < 4; p++)
        if (strcmp(owner_of(p), "a1") == 0)
            holder[p] = strcmp(standby_of(p), "a2") == 0 ? "a2" : "a3";
    drain("a1");
    cr_assert_eq(count_standbys("a1"), 0);
    for (uint32_t p = 0; p < 4; p++) {
        if (holder[p] == NULL)
            continue;
        cr_assert_not_null(processor_of(p)->handoff);
        cr_assert_str_eq(processor_of(p)->handoff->row.target, holder[p]);
        cr_assert_eq(processor_of(p)->standbys.count, 0, "the target is in its place");
        expect_role(holder[p], p, TASK_ROLE_LEARNER);
    }
    pass(5000, three);
    for (uint32_t p = 0; p < 4; p++) {
        if (holder[p] != NULL)
            cr_assert_str_eq(owner_of(p), holder[p]);
        cr_assert_str_neq(standby_of(p), "a1");
    }
}

Test(standby, is_one_again_when_its_hand_over_is_cancelled)
{
    begin_three();
    const char *holder = strcmp(standby_of(0), "a1") == 0   ? "a1"
                         : strcmp(standby_of(0), "a2") == 0 ? "a2"
                                                            : "a3";
    struct coord_event move = world_event(&world, COORD_EVENT_MOVE, "j1");
    move.move.processor = 0;
    world_step(&world, move);
    world_expect_status(&world, 202);
    cr_assert_not_null(processor_of(0)->handoff);
    cr_assert_str_eq(processor_of(0)->handoff->row.target, holder, "who has it is best");
    report_behind(holder, 20000);
    struct coord_event event = world_event(&world, COORD_EVENT_HANDOFF_CANCEL, NULL);
    event.handoff = processor_of(0)->handoff->row.id;
    world_step(&world, event);
    world_expect_status(&world, 200);
    cr_assert_str_eq(standby_of(0), holder);
    expect_role(holder, 0, TASK_ROLE_STANDBY);
}

/* ---- what lasts */

Test(standby, survives_a_restart_of_the_coordinator)
{
    begin_three();
    size_t started = world_count_traced(&world, "standby_started");
    world_restart(&world);
    report_all(three);
    cr_assert_eq(world_count_traced(&world, "standby_started"), started);
    for (uint32_t p = 0; p < 4; p++)
        cr_assert_eq(processor_of(p)->standbys.count, 1);
}

Test(standby, ends_with_its_job)
{
    begin_three();
    world_delete(&world, "j1");
    world_expect_status(&world, 202);
    cr_assert_eq(count_standbys("a1") + count_standbys("a2") + count_standbys("a3"), 0);
}
