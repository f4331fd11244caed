/* Records that are passed by somebody's word stay passed when the database is lost or old. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/handoff_rig.h"

#define OTHER_CLUSTER "c0c0c0c0-0000-4000-8000-000000000000"

static struct world
    old; /* the coordinator on another database; rig_world is the cluster as it is */

static void tear_down(void)
{
    world_finish(&old);
    old = (struct world){0};
    rig_teardown();
}

/* Job j1: four processors on a1, eight partitions of one topic: processor 0 has 0 and 4. */
TestSuite(recovery_skips, .init = rig_setup, .fini = tear_down);

static void halt_at(uint32_t partition, int64_t offset)
{
    struct agent_report report = world_report_of(&rig_world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        if (task->processor != 0)
            continue;
        task->state = TASK_STATE_FAILED;
        task->halted.items = mem_calloc(1, sizeof(*task->halted.items));
        task->halted.count = 1;
        task->halted.items[0] = (struct input_offset){.partition = partition, .offset = offset};
    }
    world_send_report(&rig_world, "a1", report);
}

static void pass(uint32_t partition, int64_t offset)
{
    halt_at(partition, offset);
    struct coord_event event = world_event(&rig_world, COORD_EVENT_SKIP, "j1");
    event.skip.topic = mem_strdup("orders");
    event.skip.partition = partition;
    event.skip.offset = offset;
    world_step(&rig_world, event);
    world_expect_status(&rig_world, 201);
}

/* Takes the database and what the agent says. */
static void recover(struct cluster *database, struct agent_registration said)
{
    database->config.recover = true;
    world_init_from(&old, database, NULL, NULL);
    struct coord_event event = world_event(&old, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = said;
    world_step(&old, event);
    world_reply_all_well(&old);
    world_pass(&old, WORLD_TIMEOUT_MS);
    cr_assert_eq(old.cluster.recovery.state, RECOVERY_NONE);
}

/* As the owner of processor 0 is told. */
static size_t count_told(void)
{
    struct agent_document document;
    size_t count = SIZE_MAX;
    cluster_document(&old.cluster, cluster_agent(&old.cluster, "a1"), &document);
    for (size_t i = 0; i < document.tasks.count; i++)
        if (document.tasks.items[i].processor == 0)
            count = document.tasks.items[i].skips.count;
    schema_free(&schema_agent_document, &document);
    return count;
}

Test(recovery_skips, of_an_old_database_are_those_that_agents_know_as_well)
{
    struct cluster copy;
    pass(4, 17);
    world_copy(&copy, &rig_world.cluster);
    pass(0, 5);
    pass(4, 90);
    recover(&copy, world_registration_of(&rig_world, "a1"));
    const struct job *job = cluster_job(&old.cluster, "j1");
    cr_assert_eq(job->skips.count, 3);
    cr_assert_str_eq(cluster_skip(job, 0, 4, 17)->actor, WORLD_ACTOR, "what it knows, it keeps");
    const struct skip_row *skip = cluster_skip(job, 0, 4, 90);
    cr_assert_not_null(skip);
    cr_assert_eq(skip->processor, 0);
    cr_assert_str_eq(skip->actor, "coordinator");
    cr_assert_eq(world_count_traced(&old, "skips_recovered"), 1);
    cr_assert_eq(count_told(), 3);
    const struct agent *agent = cluster_agent(&old.cluster, "a1");
    cr_assert_not(cluster_knows_skips(&old.cluster, job, agent), "it has no document of this run");
    world_report(&old, "a1", TASK_STATE_ACTIVE);
    cr_assert(cluster_knows_skips(&old.cluster, job, agent));
}

Test(recovery_skips, of_a_lost_database_are_those_that_agents_know)
{
    struct cluster empty;
    pass(0, 5);
    cluster_init(&empty, rig_world.cluster.config);
    memcpy(empty.meta.cluster, OTHER_CLUSTER, sizeof(empty.meta.cluster));
    recover(&empty, world_registration_of(&rig_world, "a1"));
    cr_assert_not_null(cluster_skip(cluster_job(&old.cluster, "j1"), 0, 0, 5));
    cr_assert_eq(count_told(), 1);
}

Test(recovery_skips, of_the_newest_database_stay_as_they_are)
{
    struct cluster copy;
    pass(0, 5);
    world_copy(&copy, &rig_world.cluster);
    recover(&copy, world_registration_of(&rig_world, "a1"));
    cr_assert_eq(cluster_job(&old.cluster, "j1")->skips.count, 1);
    cr_assert_eq(world_count_traced(&old, "skips_recovered"), 0);
}

Test(recovery_skips, of_another_incarnation_say_nothing)
{
    struct cluster copy;
    world_copy(&copy, &rig_world.cluster);
    pass(0, 5);
    struct agent_registration said = world_registration_of(&rig_world, "a1");
    said.document.decision = 0; /* an old document, of a job that has had the name before */
    memset(said.jobs.items[0].incarnation, 'd', 8);
    recover(&copy, said);
    cr_assert_eq(cluster_job(&old.cluster, "j1")->skips.count, 0);
}

Test(recovery_skips, that_the_job_can_not_have_are_refused_and_counted)
{
    struct cluster copy;
    world_copy(&copy, &rig_world.cluster);
    struct agent_registration said = world_registration_of(&rig_world, "a1");
    struct document_task *task = &said.tasks.items[0];
    size_t count = API_SKIPS_PARTITION_MAX + 4;
    free(task->skips.items);
    task->skips.items = mem_calloc(count, sizeof(*task->skips.items));
    task->skips.count = count;
    for (size_t i = 0; i < count; i++) /* one more than there may be */
        task->skips.items[i] = (struct input_offset){.partition = 4, .offset = (int64_t)i};
    task->skips.items[1].partition = 8;
    task->skips.items[2].topic = 1;
    task->skips.items[3].offset = API_UNKNOWN;
    recover(&copy, said);
    const struct job *job = cluster_job(&old.cluster, "j1");
    cr_assert_eq(job->skips.count, API_SKIPS_PARTITION_MAX);
    cr_assert_eq(cluster_count_skips(job, 0, 4), API_SKIPS_PARTITION_MAX);
    cr_assert_not_null(strstr(strbuf_text(&old.trace), "100 records"));
    cr_assert_not_null(strstr(strbuf_text(&old.trace), "4 were not taken over"));
}
