/* A database that is lost or old: found out, refused, and recovered from what agents and Kafka
 * know. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "api/stamp.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/world.h"

#define OTHER_CLUSTER "c0c0c0c0-0000-4000-8000-000000000000"

static struct world now; /* the cluster as it is */
static struct world old; /* the coordinator on another database */

static const char *const both[] = {"a1", "a2", NULL};

static void set_up(void)
{
    world_init(&now);
    world_create(&now, "j");
    world_register(&now, "a1", 1);
    world_register(&now, "a2", 2);
    world_calm_down(&now, both);
    now.cluster.config.verify = true;
}

static void tear_down(void)
{
    world_finish(&now);
    world_finish(&old);
    old = (struct world){0};
}

TestSuite(recovery, .init = set_up, .fini = tear_down);

/* ---- playing */

static void take_copy(struct cluster *ret_copy)
{
    world_copy(ret_copy, &now.cluster);
    ret_copy->config.verify = true;
}

/* An agent's new start, and what it brings: a higher epoch of what it has. */
static void start_anew(const char *agent_id, uint64_t incarnation)
{
    world_pass_reporting(&now, 3000, (const char *const[]){"a2", NULL});
    world_register(&now, agent_id, incarnation);
    world_expect_status(&now, 200);
    world_calm_down(&now, both);
}

static void say(struct world *world, struct agent_registration said)
{
    struct coord_event event = world_event(world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = said;
    world_step(world, event);
}

/* What Kafka holds: every partition stamped with this epoch, at offset 70. */
static uint32_t stamped_by; /* processor */
static int64_t stamped_bound = API_UNKNOWN;

static void reply_stamps(struct world *world, const char *incarnation, uint64_t epoch)
{
    cr_assert_gt(world->calls.count, 0, "Kafka was not asked");
    const struct kafka_call *call = &world->calls.items[0];
    struct kafka_result result = {0};
    struct stamp stamp = {.processor = stamped_by,
                          .epoch = epoch,
                          .records = API_UNKNOWN,
                          .bound = stamped_bound,
                          .bound_records = API_UNKNOWN};
    char text[STAMP_TEXT_BYTES];
    cr_assert_eq(call->kind, KAFKA_CALL_STAMPS);
    cr_assert_str_eq(call->group_id, "group-j");
    memcpy(stamp.incarnation, incarnation, sizeof(stamp.incarnation));
    stamp_format(&stamp, text);
    result.committed.items = mem_calloc(call->partitions, sizeof(struct kafka_offset));
    result.committed.count = call->partitions;
    for (uint32_t p = 0; p < call->partitions; p++)
        result.committed.items[p] =
            (struct kafka_offset){.partition = p, .offset = 70, .metadata = mem_strdup(text)};
    world_reply(world, result);
}

static const char *incarnation_now(void)
{
    return cluster_job(&now.cluster, "j")->row.incarnation;
}

static void expect_works(struct world *world)
{
    cr_assert_eq(world->cluster.recovery.state, RECOVERY_NONE);
    cr_assert_gt(world_count_traced(world, "coordinator_started"), 0);
}

static void expect_outdated(struct world *world, const char *text)
{
    cr_assert_eq(world->cluster.recovery.state, RECOVERY_OUTDATED);
    cr_assert_not_null(strstr(world->cluster.recovery.detail, text), "%s",
                       world->cluster.recovery.detail);
    world_pass(world, 100000);
    world_put(world, "other", world_spec("other"));
    (void)world_expect_problem(world, "database_outdated");
    say(world, world_registration_of(&now, "a1"));
    (void)world_expect_problem(world, "database_outdated");
    cr_assert_eq(world->cluster.recovery.state, RECOVERY_OUTDATED);
}

static void restart_recovering(struct cluster *copy)
{
    copy->config.recover = true;
    world_init_from(&old, copy, NULL, NULL);
    cr_assert_eq(old.cluster.recovery.state, RECOVERY_COLLECTING);
}

/* Epochs are above all that were; each processor is its owner's of the cluster as it is. */
static void expect_owners_as_now(void)
{
    const struct job *job = cluster_job(&now.cluster, "j");
    for (uint32_t p = 0; p < job->processors.count; p++) {
        const struct placement_row *placement = world_placement(&old, "j", p);
        cr_assert_gt(placement->epoch, now.cluster.meta.epoch);
        cr_assert_str_eq(placement->agent, job->processors.items[p].placement.agent);
        cr_assert_str_eq(placement->agent_incarnation,
                         job->processors.items[p].placement.agent_incarnation);
    }
}

/* ---- finding out */

Test(recovery, nothing_is_decided_before_kafka_has_answered)
{
    world_restart(&now);
    cr_assert_eq(now.cluster.recovery.state, RECOVERY_VERIFYING);
    world_register(&now, "a1", 7);
    (void)world_expect_problem(&now, "starting");
    world_put(&now, "other", world_spec("other"));
    (void)world_expect_problem(&now, "starting");
    reply_stamps(&now, incarnation_now(), now.cluster.meta.epoch);
    expect_works(&now);
    world_report(&now, "a1", TASK_STATE_ACTIVE);
    world_expect_status(&now, 200);
}

Test(recovery, without_jobs_there_is_nothing_to_ask)
{
    struct cluster empty;
    cluster_init(&empty, now.cluster.config);
    world_init_from(&old, &empty, NULL, NULL);
    expect_works(&old);
}

Test(recovery, a_higher_epoch_in_kafka_is_the_end)
{
    world_restart(&now);
    reply_stamps(&now, incarnation_now(), now.cluster.meta.epoch + 1);
    expect_outdated(&now, "Kafka's offsets of job j carry epoch");
}

Test(recovery, stamps_of_others_say_nothing)
{
    world_restart(&now);
    reply_stamps(&now, OTHER_CLUSTER, now.cluster.meta.epoch + 100);
    expect_works(&now);
}

Test(recovery, a_silent_kafka_holds_it_up_for_a_time_and_is_heard_later)
{
    world_restart(&now);
    world_reply_failed(&now, "no broker", false);
    world_pass(&now, WORLD_TIMEOUT_MS - 1);
    cr_assert_eq(now.cluster.recovery.state, RECOVERY_VERIFYING);
    world_pass(&now, 1);
    expect_works(&now);
    if (now.calls.count > 0)
        world_reply_failed(&now, "no broker", false);
    world_pass_reporting(&now, 15000, both);
    reply_stamps(&now, incarnation_now(), now.cluster.meta.epoch + 1);
    expect_outdated(&now, "Kafka's offsets");
}

Test(recovery, an_agent_with_a_newer_document_is_the_end_and_nobody_waits_on)
{
    struct cluster copy;
    take_copy(&copy);
    world_init_from(&old, &copy, NULL, NULL);
    reply_stamps(&old, incarnation_now(), 0);
    expect_works(&old);
    char uuid[API_UUID_BYTES + 1];
    world_uuid(2, uuid);
    uint64_t poll = world_poll(
        &old, "a2", 2, cluster_document_version(&old.cluster, cluster_agent(&old.cluster, "a2")),
        20000);
    for (int i = 0; i < 20; i++)
        start_anew("a1", 10 + (uint64_t)i);
    struct agent_report report = world_report_of(&now, "a2", TASK_STATE_ACTIVE);
    report.version = (struct document_version){1, now.cluster.meta.decision};
    world_send_report(&old, "a2", report);
    (void)world_expect_problem(&old, "database_outdated");
    cr_assert_not_null(world_find_answer(&old, poll));
    expect_outdated(&old, "agent a2 works by document");
}

Test(recovery, a_later_start_of_an_agent_is_not_called_superseded)
{
    struct cluster copy;
    take_copy(&copy);
    world_init_from(&old, &copy, NULL, NULL);
    reply_stamps(&old, incarnation_now(), 0);
    for (int i = 0; i < 20; i++)
        start_anew("a1", 10 + (uint64_t)i);
    struct agent_report report = world_report_of(&now, "a1", TASK_STATE_ACTIVE);
    world_send_report(&old, "a1", report);
    (void)world_expect_problem(&old, "agent_unknown");
    say(&old, world_registration_of(&now, "a1"));
    (void)world_expect_problem(&old, "database_outdated");
}

Test(recovery, an_agent_of_another_cluster_is_told_ours_and_not_let_in)
{
    struct cluster empty;
    cluster_init(&empty, now.cluster.config);
    memcpy(empty.meta.cluster, OTHER_CLUSTER, sizeof(empty.meta.cluster));
    world_init_from(&old, &empty, NULL, NULL);
    say(&old, world_registration_of(&now, "a1"));
    const struct answer *answer = world_answer(&old);
    cr_assert_eq(answer->type, &schema_agent_welcome);
    cr_assert_str_eq(((const struct agent_welcome *)answer->body)->cluster, OTHER_CLUSTER);
    cr_assert_eq(world_count_events(&old, "agent_of_other_cluster"), 1);
    cr_assert_eq(old.cluster.agents.count, 0);
    say(&old, world_registration_of(&now, "a1"));
    cr_assert_eq(world_count_events(&old, "agent_of_other_cluster"), 0, "not each time");
}

/* ---- recovering */

Test(recovery, an_old_database_takes_epochs_and_owners_from_the_agents)
{
    struct cluster copy;
    take_copy(&copy);
    start_anew("a1", 10);
    restart_recovering(&copy);
    world_put(&old, "other", world_spec("other"));
    (void)world_expect_problem(&old, "recovering");
    world_send_report(&old, "a2", world_report_of(&now, "a2", TASK_STATE_ACTIVE));
    (void)world_expect_problem(&old, "agent_unknown");
    say(&old, world_registration_of(&now, "a1"));
    (void)world_expect_problem(&old, "recovering");
    say(&old, world_registration_of(&now, "a2"));
    reply_stamps(&old, incarnation_now(), now.cluster.meta.epoch - 1);
    world_pass(&old, WORLD_TIMEOUT_MS - 1);
    cr_assert_eq(old.cluster.recovery.state, RECOVERY_COLLECTING);
    world_pass(&old, 1);
    expect_works(&old);
    cr_assert_eq(world_count_traced(&old, "database_recovered"), 1);
    expect_owners_as_now();
    cr_assert_gt(old.cluster.meta.start_number, now.cluster.meta.start_number);
    cr_assert_not(cluster_job(&old.cluster, "j")->row.pause.on);
}

Test(recovery, epochs_are_above_those_of_an_owner_that_is_not_heard)
{
    struct cluster copy;
    take_copy(&copy);
    restart_recovering(&copy);
    say(&old, world_registration_of(&now, "a1"));
    reply_stamps(&old, incarnation_now(), 900);
    world_pass(&old, WORLD_TIMEOUT_MS);
    expect_works(&old);
    for (uint32_t p = 0; p < 4; p++)
        cr_assert_gt(world_placement(&old, "j", p)->epoch, 900);
    /* It stays the owner, and is waited for as ever. */
    cr_assert_eq(world_count_owned(&old, "j", "a2"), world_count_owned(&now, "j", "a2"));
}

Test(recovery, it_waits_for_kafka_however_long_that_takes)
{
    struct cluster copy;
    take_copy(&copy);
    restart_recovering(&copy);
    say(&old, world_registration_of(&now, "a1"));
    for (int i = 0; i < 30; i++) {
        world_reply_failed(&old, "no broker", false);
        world_pass(&old, 3000);
        cr_assert_eq(old.cluster.recovery.state, RECOVERY_COLLECTING);
    }
    reply_stamps(&old, incarnation_now(), 1);
    expect_works(&old);
}

Test(recovery, a_lost_database_becomes_the_agents_cluster_with_jobs_and_origins)
{
    struct cluster empty;
    const struct job *job = cluster_job(&now.cluster, "j");
    cluster_init(&empty, now.cluster.config);
    memcpy(empty.meta.cluster, OTHER_CLUSTER, sizeof(empty.meta.cluster));
    start_anew("a1", 10);
    restart_recovering(&empty);
    say(&old, world_registration_of(&now, "a1"));
    say(&old, world_registration_of(&now, "a2"));
    reply_stamps(&old, incarnation_now(), now.cluster.meta.epoch);
    world_pass(&old, WORLD_TIMEOUT_MS);
    expect_works(&old);
    const struct job *recovered = cluster_job(&old.cluster, "j");
    cr_assert_not_null(recovered);
    cr_assert_str_eq(old.cluster.meta.cluster, now.cluster.meta.cluster);
    cr_assert_str_eq(recovered->row.incarnation, job->row.incarnation);
    cr_assert(schema_equal(&schema_job_spec, &recovered->row.spec, &job->row.spec));
    cr_assert_eq(recovered->row.origins.count, job->row.origins.count);
    for (size_t i = 0; i < job->row.origins.count; i++) {
        cr_assert_eq(recovered->row.origins.items[i].offset, job->row.origins.items[i].offset);
        cr_assert_eq(recovered->row.starts.items[i].offset, 70, "T1 of today");
    }
    cr_assert_gt(recovered->row.generation, job->row.generation);
    expect_owners_as_now();
}

Test(recovery, agents_of_two_clusters_are_not_brought_together)
{
    struct cluster empty;
    cluster_init(&empty, now.cluster.config);
    memcpy(empty.meta.cluster, OTHER_CLUSTER, sizeof(empty.meta.cluster));
    restart_recovering(&empty);
    struct agent_registration other = world_registration_of(&now, "a2");
    memset(other.cluster, 'd', 8);
    say(&old, world_registration_of(&now, "a1"));
    say(&old, other);
    while (old.calls.count > 0)
        reply_stamps(&old, incarnation_now(), 1);
    world_pass(&old, 60000);
    cr_assert_eq(old.cluster.recovery.state, RECOVERY_COLLECTING);
    cr_assert_not_null(strstr(old.cluster.recovery.detail, "two clusters"));
    say(&old, world_registration_of(&now, "a2"));
    world_pass(&old, 60000);
    expect_works(&old);
}

Test(recovery, a_job_that_no_agent_knows_is_paused)
{
    struct cluster copy;
    world_create(&now, "gone");
    world_calm_down(&now, both);
    take_copy(&copy);
    world_delete(&now, "gone");
    world_calm_down(&now, both);
    world_reply_all_well(&now);
    world_calm_down(&now, both);
    cr_assert_null(cluster_job(&now.cluster, "gone"));
    restart_recovering(&copy);
    say(&old, world_registration_of(&now, "a1"));
    say(&old, world_registration_of(&now, "a2"));
    while (old.calls.count > 0)
        world_reply_well(&old);
    world_pass(&old, WORLD_TIMEOUT_MS);
    expect_works(&old);
    cr_assert(cluster_job(&old.cluster, "gone")->row.pause.on);
    cr_assert_not(cluster_job(&old.cluster, "j")->row.pause.on);
}

Test(recovery, a_job_made_anew_since_takes_the_place_of_its_old_self)
{
    struct cluster copy;
    take_copy(&copy);
    world_delete(&now, "j");
    world_calm_down(&now, both);
    world_reply_all_well(&now);
    world_create(&now, "j");
    world_calm_down(&now, both);
    restart_recovering(&copy);
    say(&old, world_registration_of(&now, "a1"));
    say(&old, world_registration_of(&now, "a2"));
    while (old.calls.count > 0)
        world_reply_well(&old);
    world_pass(&old, WORLD_TIMEOUT_MS);
    expect_works(&old);
    cr_assert_str_eq(cluster_job(&old.cluster, "j")->row.incarnation, incarnation_now());
    expect_owners_as_now();
}

Test(recovery, a_database_that_is_the_newest_loses_nothing)
{
    struct cluster copy;
    take_copy(&copy);
    restart_recovering(&copy);
    say(&old, world_registration_of(&now, "a1"));
    say(&old, world_registration_of(&now, "a2"));
    reply_stamps(&old, incarnation_now(), now.cluster.meta.epoch);
    world_pass(&old, WORLD_TIMEOUT_MS);
    expect_owners_as_now();
    cr_assert_eq(cluster_job(&old.cluster, "j")->row.generation,
                 cluster_job(&now.cluster, "j")->row.generation);
    cr_assert_not(old.cluster.config.recover, "once is enough");
}

/* ---- others in the job's group */

/* What is recovered when the agents were told that. */
static const struct job_row *recover_with(bool paused, bool frozen, bool waiting)
{
    struct cluster empty;
    cluster_init(&empty, now.cluster.config);
    memcpy(empty.meta.cluster, OTHER_CLUSTER, sizeof(empty.meta.cluster));
    start_anew("a1", 10);
    restart_recovering(&empty);
    for (size_t i = 0; i < 2; i++) {
        struct agent_registration said = world_registration_of(&now, both[i]);
        for (size_t k = 0; k < said.jobs.count; k++) {
            said.jobs.items[k].paused = paused;
            said.jobs.items[k].frozen = frozen;
            said.jobs.items[k].waiting = waiting;
        }
        say(&old, said);
    }
    reply_stamps(&old, incarnation_now(), now.cluster.meta.epoch);
    world_pass(&old, WORLD_TIMEOUT_MS);
    return &cluster_job(&old.cluster, "j")->row;
}

Test(recovery, a_job_that_people_paused_is_paused)
{
    const struct job_row *row = recover_with(true, false, false);
    cr_assert(row->pause.on);
    cr_assert_eq(row->group.hold, GROUP_HOLD_NONE);
}

Test(recovery, a_frozen_job_is_frozen_for_what_others_commit_is_not_to_be_accepted)
{
    const struct job_row *row = recover_with(true, true, false);
    cr_assert_not(row->pause.on);
    cr_assert_eq(row->group.hold, GROUP_HOLD_FROZEN);
}

Test(recovery, a_job_that_waits_for_others_to_leave_waits)
{
    const struct job_row *row = recover_with(true, false, true);
    cr_assert_not(row->pause.on);
    cr_assert_eq(row->group.hold, GROUP_HOLD_WAITING);
}

/* ---- splits that the database does not know */

static void expand(void)
{
    struct coord_event event = world_event(&now, COORD_EVENT_EXPAND, "j");
    event.expansion = (struct expansion_request){5, API_UNKNOWN, false, NULL};
    world_step(&now, event);
    world_expect_status(&now, 202);
}

static void recover_from(struct cluster *copy)
{
    restart_recovering(copy);
    say(&old, world_registration_of(&now, "a1"));
    say(&old, world_registration_of(&now, "a2"));
    reply_stamps(&old, incarnation_now(), now.cluster.meta.epoch - 1);
    world_pass(&old, WORLD_TIMEOUT_MS);
    expect_works(&old);
}

Test(recovery, agents_know_of_a_processor_more)
{
    struct cluster copy;
    take_copy(&copy);
    expand();
    world_calm_down(&now, both);
    recover_from(&copy);
    cr_assert_eq(cluster_job(&old.cluster, "j")->row.processors, 5);
    expect_owners_as_now();
}

Test(recovery, what_is_committed_knows_of_a_processor_more)
{
    struct cluster copy;
    take_copy(&copy);
    stamped_by = 4; /* as nobody who is heard knows */
    recover_from(&copy);
    cr_assert_eq(cluster_job(&old.cluster, "j")->row.processors, 5);
    world_calm_down(&old, both);
    cr_assert_not_null(world_placement(&old, "j", 4)->agent);
}

/* The source may do so at any time, and nobody else would be let in then. */
Test(recovery, a_split_that_a_source_was_told_of_goes_on)
{
    for (int known = 0; known < 2; known++) {
        struct cluster copy;
        tear_down();
        set_up();
        if (known == 0)
            take_copy(&copy);
        expand();
        for (int i = 0; i < 6; i++) {
            const struct processor *nascent = cluster_nascent(cluster_job(&now.cluster, "j"));
            if (nascent->handoff->row.state == HANDOFF_STATE_RELEASING)
                break;
            world_report(&now, nascent->handoff->row.target, TASK_STATE_ACTIVE);
        }
        if (known != 0)
            take_copy(&copy);
        const struct handoff_row *row =
            &cluster_nascent(cluster_job(&now.cluster, "j"))->handoff->row;
        cr_assert_eq(row->state, HANDOFF_STATE_RELEASING);
        recover_from(&copy);
        const struct processor *nascent = cluster_nascent(cluster_job(&old.cluster, "j"));
        cr_assert_not_null(nascent);
        cr_assert_eq(nascent->handoff->row.id, row->id);
        cr_assert_eq(nascent->handoff->row.target_epoch, row->target_epoch);
        world_calm_down(&old, both);
        cr_assert_eq(cluster_job(&old.cluster, "j")->row.processors, 5);
        cr_assert_eq(world_placement(&old, "j", 4)->epoch, row->target_epoch);
    }
}

/* An agent that has processor 4 was told that. */
static struct agent_registration registration_with(struct ancestor_bound told)
{
    struct agent_registration said = world_registration_of(&now, "a1");
    cr_assert_gt(said.tasks.count, 0);
    said.tasks.items[0].processor = 4;
    said.tasks.items[0].bounds.items = mem_memdup(&told, sizeof(told));
    said.tasks.items[0].bounds.count = 1;
    return said;
}

/* Of a job on topics that have grown: processor 4 inherits of partition 0. */
static void recover_grown(int64_t bound, const struct ancestor_bound *told)
{
    struct cluster copy;
    struct job_spec spec = world_spec("j");
    tear_down();
    world_init(&now);
    spec.initial_partitions = 4;
    world_put(&now, "j", spec);
    world_reply_all_well(&now);
    world_register(&now, "a1", 1);
    world_register(&now, "a2", 2);
    world_calm_down(&now, both);
    now.cluster.config.verify = true;
    take_copy(&copy);
    stamped_by = 4;
    stamped_bound = bound;
    restart_recovering(&copy);
    say(&old, told == NULL ? world_registration_of(&now, "a1") : registration_with(*told));
    say(&old, world_registration_of(&now, "a2"));
    reply_stamps(&old, incarnation_now(), now.cluster.meta.epoch - 1);
    world_pass(&old, WORLD_TIMEOUT_MS);
    expect_works(&old);
    cr_assert_eq(cluster_job(&old.cluster, "j")->row.processors, 5);
}

Test(recovery, up_to_where_a_processor_inherits_is_in_its_stamp)
{
    recover_grown(33, NULL);
    const struct placement_row *row = world_placement(&old, "j", 4);
    cr_assert_eq(row->bounds.count, 1);
    cr_assert_eq(row->bounds.items[0].partition, 0);
    cr_assert_eq(row->bounds.items[0].offset, 33);
    cr_assert_eq(world_count_traced(&old, "job_not_recovered"), 0);
}

Test(recovery, what_nobody_has_reported_active_may_need_its_parents_state)
{
    recover_grown(33, NULL);
    cr_assert_eq(cluster_settled(cluster_job(&old.cluster, "j")), 4);
    world_calm_down(&old, both);
    cr_assert_eq(cluster_settled(cluster_job(&old.cluster, "j")), 5);
}

Test(recovery, up_to_where_a_processor_inherits_is_not_guessed)
{
    recover_grown(API_UNKNOWN, NULL);
    cr_assert_eq(world_placement(&old, "j", 4)->bounds.count, 0);
    cr_assert_eq(world_count_traced(&old, "job_not_recovered"), 1);
}

Test(recovery, up_to_where_a_processor_inherits_is_what_its_agent_was_told)
{
    recover_grown(API_UNKNOWN, &(struct ancestor_bound){.offset = 44, .records = API_UNKNOWN});
    cr_assert_eq(world_placement(&old, "j", 4)->bounds.count, 1);
    cr_assert_eq(world_placement(&old, "j", 4)->bounds.items[0].offset, 44);
}

/* The next start would find the database corrupt. */
Test(recovery, what_can_be_no_bound_is_not_kept)
{
    recover_grown(API_UNKNOWN, &(struct ancestor_bound){.offset = API_UNKNOWN});
    cr_assert_eq(world_placement(&old, "j", 4)->bounds.count, 0);
    cr_assert_eq(world_count_traced(&old, "job_not_recovered"), 1);
}
