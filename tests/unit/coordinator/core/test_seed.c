/* Who may get a state from whom, as documents say it (D3.6, D8). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

static void setup(void)
{
    rig_setup();
    rig_add_established();
    rig_world.cluster.config.seed_secret[0] = 7;
}

TestSuite(seed, .init = setup, .fini = rig_teardown);

static struct agent *agent_of(const char *agent_id)
{
    return cluster_agent(&rig_world.cluster, agent_id);
}

static void set_address(const char *agent_id, char *address)
{
    struct coord_event event = world_event(&rig_world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration(agent_id, agent_id[1] == '1' ? 1 : 2);
    free(event.registration.address);
    event.registration.address = address;
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 200);
}

/* Processor 0 in the agent's document; free with schema_free. */
static struct document_task task_of(const char *agent_id)
{
    struct agent_document document;
    struct document_task task = {0};
    cluster_document(&rig_world.cluster, agent_of(agent_id), &document);
    for (size_t i = 0; i < document.tasks.count; i++)
        if (document.tasks.items[i].processor == 0)
            schema_copy(&schema_document_task, &task, &document.tasks.items[i]);
    schema_free(&schema_agent_document, &document);
    cr_assert_not_null(task.job, "%s has no task of it", agent_id);
    return task;
}

static void begin(void)
{
    rig_move(0, "a2");
    rig_expect_state(0, HANDOFF_STATE_LEARNING);
}

Test(seed, learner_is_told_of_its_owner_who_is_told_its_token)
{
    begin();
    struct document_task owner = task_of("a1"), learner = task_of("a2");
    cr_assert_eq(learner.sources.count, 1);
    cr_assert_str_eq(learner.sources.items[0].agent, "a1");
    cr_assert_str_eq(learner.sources.items[0].address, "http://a1:7421");
    cr_assert_eq(strlen(learner.seed_token), 64);
    cr_assert_eq(learner.readers.count, 0, "nobody is to have what it has not learned");
    cr_assert_eq(owner.readers.count, 1);
    cr_assert_str_eq(owner.readers.items[0], learner.seed_token);
    cr_assert_eq(owner.sources.count, 0);
    cr_assert_null(owner.seed_token);
    schema_free(&schema_document_task, &owner);
    schema_free(&schema_document_task, &learner);
}

Test(seed, both_documents_are_new_when_it_begins_and_when_it_ends)
{
    uint64_t owner = agent_of("a1")->document_decision;
    uint64_t learner = agent_of("a2")->document_decision;
    rig_move(0, "a2");
    cr_assert_gt(agent_of("a1")->document_decision, owner);
    cr_assert_gt(agent_of("a2")->document_decision, learner);
    owner = agent_of("a1")->document_decision;
    struct coord_event event = world_event(&rig_world, COORD_EVENT_HANDOFF_CANCEL, NULL);
    event.handoff = rig_handoff(0)->row.id;
    world_step(&rig_world, event);
    cr_assert_gt(agent_of("a1")->document_decision, owner);
    struct document_task task = task_of("a1");
    cr_assert_eq(task.readers.count, 0, "its right has ended");
    schema_free(&schema_document_task, &task);
}

/* That processor's task in the agent's document; free with schema_free. */
static struct document_task task_of_processor(const char *agent_id, uint32_t processor)
{
    struct agent_document document;
    struct document_task task = {0};
    cluster_document(&rig_world.cluster, agent_of(agent_id), &document);
    for (size_t i = 0; i < document.tasks.count; i++)
        if (document.tasks.items[i].processor == processor)
            schema_copy(&schema_document_task, &task, &document.tasks.items[i]);
    schema_free(&schema_agent_document, &document);
    cr_assert_not_null(task.job, "%s has no task of it", agent_id);
    return task;
}

static void expect_part(const char *child_agent, size_t count)
{
    struct document_task parent = task_of_processor("a1", 0);
    struct document_task child = task_of_processor(child_agent, 4);
    cr_assert_eq(child.sources.count, count);
    cr_assert_eq(parent.part_readers.count, count);
    cr_assert_eq(parent.readers.count, 0, "nobody is to have all of it");
    cr_assert_eq(child.part_readers.count, 0);
    if (count == 1) {
        cr_assert_eq(parent.part_processor, 4);
        cr_assert_str_eq(child.sources.items[0].agent, "a1");
        cr_assert(child.sources.items[0].parent);
        cr_assert_str_eq(parent.part_readers.items[0], child.seed_token);
    } else {
        cr_assert_null(child.seed_token);
    }
    schema_free(&schema_document_task, &child);
    schema_free(&schema_document_task, &parent);
}

Test(seed, what_a_split_makes_is_told_of_the_parents_copies_until_it_is_over)
{
    uint64_t told = agent_of("a1")->document_decision;
    rig_expand(5);
    cr_assert_gt(agent_of("a1")->document_decision, told, "its owner is to give it");
    expect_part("a2", 1);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    rig_expect_state(4, HANDOFF_STATE_RELEASED);
    expect_part("a2", 1);
    world_calm_down(&rig_world, rig_both);
    cr_assert_null(rig_handoff(4));
    expect_part("a2", 0);
}

Test(seed, what_a_split_has_made_is_told_of_them_until_it_is_active)
{
    rig_expand(5);
    world_report(&rig_world, "a2", TASK_STATE_ACTIVE);
    world_report(&rig_world, "a1", TASK_STATE_ACTIVE);
    rig_expect_state(4, HANDOFF_STATE_RELEASED);
    world_deregister(&rig_world, "a2", 2);
    world_forget(&rig_world, "a2");
    cr_assert_null(rig_handoff(4), "the split has ended, its processor has never worked");
    for (int i = 0; i < 100 && rig_placement(4)->agent == NULL; i++)
        world_pass(&rig_world, 1000);
    cr_assert_not_null(rig_placement(4)->agent);
    expect_part(rig_placement(4)->agent, 1);
}

Test(seed, tokens_are_of_one_reader_one_start_and_one_run)
{
    begin();
    struct document_task before = task_of("a2"), after;
    rig_world.cluster.config.seed_secret[31] ^= 1;
    after = task_of("a2");
    cr_assert_str_neq(before.seed_token, after.seed_token, "another run of the coordinator");
    schema_free(&schema_document_task, &after);
    rig_world.cluster.config.seed_secret[31] ^= 1;
    after = task_of("a2");
    cr_assert_str_eq(before.seed_token, after.seed_token);
    schema_free(&schema_document_task, &after);
    char *incarnation = rig_handoff(0)->row.target_incarnation;
    char *other = mem_strdup(incarnation);
    other[0] = other[0] == 'a' ? 'b' : 'a';
    struct document_task owner = task_of("a1");
    rig_handoff(0)->row.target_incarnation = other;
    after = task_of("a1");
    cr_assert_str_neq(owner.readers.items[0], after.readers.items[0], "another start of its agent");
    rig_handoff(0)->row.target_incarnation = incarnation;
    free(other);
    schema_free(&schema_document_task, &owner);
    schema_free(&schema_document_task, &after);
    schema_free(&schema_document_task, &before);
}

Test(seed, nobody_is_asked_without_an_address_or_leave)
{
    set_address("a1", NULL);
    rig_move(0, "a2");
    struct document_task learner = task_of("a2");
    cr_assert_eq(learner.sources.count, 0, "agents that do not say where they are");
    cr_assert_null(learner.seed_token);
    schema_free(&schema_document_task, &learner);
    uint64_t told = agent_of("a2")->document_decision;
    set_address("a1", mem_strdup("http://elsewhere:1"));
    cr_assert_gt(agent_of("a2")->document_decision, told);
    learner = task_of("a2");
    cr_assert_str_eq(learner.sources.items[0].address, "http://elsewhere:1");
    schema_free(&schema_document_task, &learner);
    cluster_job(&rig_world.cluster, "j1")->row.spec.seed = SEED_REPLAY;
    learner = task_of("a2");
    cr_assert_eq(learner.sources.count, 0);
    schema_free(&schema_document_task, &learner);
}
