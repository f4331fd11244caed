#include "tests/unit/coordinator/core/handoff_rig.h"

#include <criterion/criterion.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"

struct world rig_world;
const char *const rig_both[] = {"a1", "a2", NULL};
const char *const rig_a1[] = {"a1", NULL};
const char *const rig_a2[] = {"a2", NULL};
const char *const rig_a2_a3[] = {"a2", "a3", NULL};
const char *const rig_three[] = {"a1", "a2", "a3", NULL};

/* a1 has all four processors of j1, active. */
void rig_setup(void)
{
    world_init(&rig_world);
    world_register(&rig_world, "a1", 1);
    world_create(&rig_world, "j1");
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
}

void rig_teardown(void)
{
    world_finish(&rig_world);
}

struct processor *rig_processor(uint32_t number)
{
    return &cluster_job(&rig_world.cluster, "j1")->processors.items[number];
}

const struct placement_row *rig_placement(uint32_t number)
{
    return world_placement(&rig_world, "j1", number);
}

struct handoff *rig_handoff(uint32_t number)
{
    return rig_processor(number)->handoff;
}

void rig_expect_state(uint32_t number, enum handoff_state state)
{
    cr_assert_not_null(rig_handoff(number), "processor %u has no hand-over", number);
    cr_assert_eq(rig_handoff(number)->row.state, state, "processor %u is %s", number,
                 schema_enum_name(schema_names_handoff_state, (int)rig_handoff(number)->row.state));
}

/* The task of processor 0 in the agent's document; NULL: it has none. */
static const struct document_task *rig_task_of(const char *agent_id,
                                               struct agent_document *document)
{
    cluster_document(&rig_world.cluster, cluster_agent(&rig_world.cluster, agent_id), document);
    for (size_t i = 0; i < document->tasks.count; i++)
        if (document->tasks.items[i].processor == 0)
            return &document->tasks.items[i];
    return NULL;
}

void rig_expect_task(const char *agent_id, enum task_role role, uint64_t epoch, bool release)
{
    struct agent_document document;
    const struct document_task *task = rig_task_of(agent_id, &document);
    cr_assert_not_null(task);
    cr_assert_eq(task->role, role);
    cr_assert_eq(task->epoch, epoch);
    cr_assert_eq(task->release, release);
    if (role == TASK_ROLE_LEARNER || release)
        cr_assert_eq(task->handoff, rig_handoff(0)->row.id);
    schema_free(&schema_agent_document, &document);
}

void rig_expect_no_task(const char *agent_id)
{
    struct agent_document document;
    cr_assert_null(rig_task_of(agent_id, &document));
    schema_free(&schema_agent_document, &document);
}

void rig_move(uint32_t number, const char *agent_id)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_MOVE, "j1");
    event.move.processor = number;
    event.move.agent = agent_id != NULL ? mem_strdup(agent_id) : NULL;
    world_step(&rig_world, event);
}

void rig_rebalance(void)
{
    world_step(&rig_world, world_event(&rig_world, COORD_EVENT_REBALANCE, "j1"));
}

void rig_expand(int64_t processors)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_EXPAND, "j1");
    event.expansion.processors = processors;
    event.expansion.partitions = API_UNKNOWN;
    world_step(&rig_world, event);
}

const struct operation_row *rig_operation(uint64_t id)
{
    return &cluster_operation(&rig_world.cluster, id)->row;
}

/* a2 is there, but not owed anything: only what is asked for moves. */
void rig_add_established(void)
{
    world_register(&rig_world, "a2", 2);
    while (rig_world.cluster.handoffs.count > 0) {
        struct coord_event event = world_event(&rig_world, COORD_EVENT_HANDOFF_CANCEL, NULL);
        event.handoff = rig_world.cluster.handoffs.items[0]->row.id;
        world_step(&rig_world, event);
        world_expect_status(&rig_world, 200);
    }
    world_pass_reporting(&rig_world, HANDOFF_STATE_DONE * 3000, rig_both);
    cr_assert_eq(rig_world.cluster.handoffs.count, 0);
    cr_assert_eq(world_count_owned(&rig_world, "j1", "a1"), 4);
}

void rig_fail(const char *agent_id, const char *code)
{
    struct agent_report report = world_report_of(&rig_world, agent_id, TASK_STATE_FAILED);
    for (size_t i = 0; code != NULL && i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->problems.items = mem_calloc(1, sizeof(struct task_problem));
        task->problems.count = 1;
        task->problems.items[0] = (struct task_problem){
            .code = mem_strdup(code), .detail = mem_strdup("orders 3 starts at 17")};
    }
    world_send_report(&rig_world, agent_id, report);
}

/* The hand-over of processor 0 from a1 to a2 is brought into this state. */
void rig_bring_to(enum handoff_state state)
{
    rig_add_established();
    rig_move(0, "a2");
    world_expect_status(&rig_world, 202);
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
    if (state == HANDOFF_STATE_LEARNING)
        return;
    if (state == HANDOFF_STATE_CAUGHT_UP) /* which lasts only while the source is not active */
        world_report(&rig_world, "a1", TASK_STATE_REPLAYING);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    if (state == HANDOFF_STATE_CAUGHT_UP)
        return;
    rig_expect_state(0, HANDOFF_STATE_RELEASING);
    if (state == HANDOFF_STATE_RELEASING)
        return;
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    rig_expect_state(0, HANDOFF_STATE_RELEASED);
    if (state == HANDOFF_STATE_RELEASED)
        return;
    world_report(&rig_world, "a2", TASK_STATE_REPLAYING);
    rig_expect_state(0, HANDOFF_STATE_ACTIVATING);
}
