/* Splits of a job whose partitions have grown: j1 has 16 partitions that were 8, and 8 processors;
 * processor 8 gets partition 8, and inherits of partition 0. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/step_group.h"
#include "coordinator/core/step_job.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

#define CHILD 8
#define FENCE 120
#define BOUND 130

TestSuite(split_inherits, .init = rig_setup, .fini = rig_teardown);

static struct job *job(void)
{
    return cluster_job(&rig_world.cluster, "j1");
}

static const struct operation_row *operation(void)
{
    return rig_operation(rig_world.cluster.meta.operation_id);
}

static void ask_partitions(int64_t partitions)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_EXPAND, "j1");
    event.expansion.processors = API_UNKNOWN;
    event.expansion.partitions = partitions;
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 202);
}

/* The group holds the starts of the new ones from the second time on. */
static void expand_partitions(void)
{
    ask_partitions(16);
    for (int stamps = 0; job()->row.partitions == 8;) {
        if (rig_world.calls.count == 0)
            world_pass(&rig_world, 30000);
        if (rig_world.calls.items[0].kind != KAFKA_CALL_STAMPS) {
            world_reply_well(&rig_world);
            continue;
        }
        struct kafka_result result = {0};
        size_t count = stamps++ == 0 ? 8 : 16;
        result.committed.items = mem_calloc(count, sizeof(struct kafka_offset));
        result.committed.count = count;
        for (uint32_t p = 0; p < count; p++)
            result.committed.items[p] = (struct kafka_offset){
                .partition = p, .offset = 0, .metadata = step_start_stamp(&job()->row, p)};
        world_reply(&rig_world, result);
    }
}

/* Without transactions: not all of what leaves has left. */
static bool some_left;

/* Of processor 0: its window of partition 0, T1 there, and what its split has decided. */
static void report_parent(struct window_report told, int64_t t1, int64_t bound)
{
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        if (task->processor != 0)
            continue;
        const struct partition_progress progress = {
            .t0 = 0, .t1 = t1, .t2 = t1, .log_start = 0, .stable_end = t1, .end = t1};
        const struct ancestor_bound decided = {.offset = bound, .records = 99};
        task->windows.items = mem_memdup(&told, sizeof(told));
        task->windows.count = 1;
        task->progress.items = mem_memdup(&progress, sizeof(progress));
        task->progress.count = 1;
        if (some_left)
            task->split = 0;
        if (bound == API_UNKNOWN)
            continue;
        task->split_bounds.items = mem_memdup(&decided, sizeof(decided));
        task->split_bounds.count = 1;
    }
    world_send_report(&rig_world, "a1", report);
}

static const struct window_report open_window = {.number = 1, .settled = API_UNKNOWN},
                                  settled = {.number = 1, .settled = FENCE},
                                  stale = {.number = 1, .settled = API_UNKNOWN, .stale = true};

static void expect_state(enum handoff_state state)
{
    cr_assert_not_null(cluster_nascent(job()));
    cr_assert_eq(cluster_nascent(job())->handoff->row.state, state);
}

/* Up to 8 processors whole partitions move, whatever their windows say. */
static void begin(void)
{
    rig_add_established();
    expand_partitions();
    rig_expand(CHILD + 1);
    world_expect_status(&rig_world, 202);
    for (int i = 0; i < 100 && job()->row.processors < CHILD; i++) {
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    }
    cr_assert_eq(job()->row.processors, CHILD);
    for (int i = 0; i < 5; i++) {
        world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
        report_parent(open_window, FENCE, API_UNKNOWN);
    }
}

static void release(void)
{
    begin();
    report_parent(settled, FENCE, API_UNKNOWN);
    report_parent(settled, FENCE, API_UNKNOWN);
    expect_state(HANDOFF_STATE_RELEASING);
}

/* Its target's, or its owner's. */
static const struct document_task *find_task(struct agent_document *document)
{
    const char *agent_id = job()->nascent ? cluster_nascent(job())->handoff->row.target
                                          : world_placement(&rig_world, "j1", CHILD)->agent;
    cluster_document(&rig_world.cluster, cluster_agent(&rig_world.cluster, agent_id), document);
    for (size_t i = 0; i < document->tasks.count; i++)
        if (document->tasks.items[i].processor == CHILD)
            return &document->tasks.items[i];
    cr_assert(false, "%s has no such task", agent_id);
    return NULL;
}

Test(split_inherits, waits_for_the_settle_window_of_what_the_parent_keeps)
{
    begin();
    expect_state(HANDOFF_STATE_CAUGHT_UP);
    cr_assert_not_null(operation()->error);
    cr_assert_not_null(strstr(operation()->error, "settle windows of partition 0"), "%s",
                       operation()->error);
    report_parent(settled, FENCE, API_UNKNOWN);
    cr_assert_eq(cluster_window(job(), 0, 0)->row.window.fence, FENCE);
    report_parent(settled, FENCE - 1, API_UNKNOWN);
    expect_state(HANDOFF_STATE_RELEASING);
    cr_assert_null(operation()->error);
}

/* Nobody is to look for producers while nobody could tell of them. */
Test(split_inherits, says_that_the_parent_has_no_owner_at_work_before_it_says_more)
{
    begin();
    cr_assert_not_null(strstr(operation()->error, "settle windows"), "%s", operation()->error);
    world_report(&rig_world, "a1", TASK_STATE_REPLAYING);
    cr_assert_str_eq(operation()->error, "waits: the processor to be split is not active");
    world_pass_reporting(&rig_world, 30000, rig_a2); /* a1 is lost */
    cr_assert_not_null(strstr(operation()->error, "processor to be split"), "%s",
                       operation()->error);
    cr_assert_null(strstr(operation()->error, "producers"), "%s", operation()->error);
}

Test(split_inherits, a_window_that_its_owner_calls_stale_is_open)
{
    begin();
    report_parent(stale, FENCE, API_UNKNOWN);
    expect_state(HANDOFF_STATE_CAUGHT_UP);
}

Test(split_inherits, the_source_says_the_bound_or_nothing_is_released)
{
    release();
    report_parent(settled, FENCE + 20, API_UNKNOWN);
    expect_state(HANDOFF_STATE_RELEASING);
    report_parent(settled, FENCE + 20, BOUND);
    cr_assert_eq(job()->row.processors, CHILD + 1);
    const struct placement_row *row = world_placement(&rig_world, "j1", CHILD);
    cr_assert_eq(row->bounds.count, 1);
    cr_assert_eq(row->bounds.items[0].offset, BOUND);
    cr_assert_eq(row->bounds.items[0].records, 99);
    world_restart(&rig_world);
    cr_assert_eq(world_placement(&rig_world, "j1", CHILD)->bounds.items[0].offset, BOUND);
}

Test(split_inherits, the_document_tells_what_is_read_and_how_far)
{
    struct agent_document document;
    release();
    const struct document_task *task = find_task(&document);
    cr_assert_eq(task->read.count, 2);
    cr_assert_eq(task->read.items[0], 0);
    cr_assert_eq(task->owned.count, 1);
    cr_assert_eq(task->bounds.count, 0, "it is not decided");
    schema_free(&schema_agent_document, &document);
    report_parent(settled, FENCE + 20, BOUND);
    task = find_task(&document);
    cr_assert_eq(task->bounds.count, 1);
    cr_assert_eq(task->bounds.items[0].partition, 0);
    cr_assert_eq(task->bounds.items[0].offset, BOUND);
    schema_free(&schema_agent_document, &document);
}

Test(split_inherits, its_learner_never_follows_past_the_bound)
{
    struct follow follow;
    release();
    report_parent(settled, FENCE + 20, API_UNKNOWN);
    cr_assert(cluster_follow(&rig_world.cluster, job(), CHILD, rig_world.now_ms, &follow));
    cr_assert_eq(follow.committed.count, 1);
    cr_assert_eq(follow.committed.items[0].offset, FENCE + 20);
    schema_free(&schema_follow, &follow);
    some_left = true;
    report_parent(settled, FENCE + 20, BOUND);
    expect_state(HANDOFF_STATE_RELEASING);
    cr_assert(cluster_follow(&rig_world.cluster, job(), CHILD, rig_world.now_ms, &follow));
    cr_assert_eq(follow.committed.items[0].offset, BOUND);
    schema_free(&schema_follow, &follow);
}

/* Of a job on topics that had grown before it was created, from four partitions. */
static void expect_refusal(const char *name, uint32_t processors, enum partitioner partitioner,
                           const char *detail)
{
    struct job_spec spec = world_spec(name);
    spec.processors = processors;
    spec.initial_partitions = 4;
    spec.partitioner = partitioner;
    world_put(&rig_world, name, spec);
    world_reply_all_well(&rig_world);
    struct coord_event event = world_event(&rig_world, COORD_EVENT_EXPAND, name);
    event.expansion.processors = 5;
    event.expansion.partitions = API_UNKNOWN;
    world_step(&rig_world, event);
    const struct problem_body *body = world_expect_problem(&rig_world, "expansion_refused");
    cr_assert_not_null(strstr(body->detail, detail), "%s", body->detail);
}

Test(split_inherits, keys_that_nobody_can_place_are_not_split)
{
    expect_refusal("opaque", 4, PARTITIONER_OPAQUE, "nobody knows how keys are spread");
}
