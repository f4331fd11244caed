/* Agents: registering, polling, leaving, being lost, coming back, being forgotten. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;
static const struct document_version none = {0, 0};

static void setup(void)
{
    world_init(&world);
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(agent, .init = setup, .fini = teardown);

static struct agent *agent(const char *agent_id)
{
    return cluster_agent(&world.cluster, agent_id);
}

static const char *owner(uint32_t processor)
{
    return world_placement(&world, "j1", processor)->agent;
}

static uint64_t epoch(uint32_t processor)
{
    return world_placement(&world, "j1", processor)->epoch;
}

static void register_as(struct agent_registration registration)
{
    struct coord_event event = world_event(&world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = registration;
    world_step(&world, event);
}

/* ---- registration */

Test(agent, is_welcomed)
{
    world_register(&world, "a1", 1);
    world_expect_status(&world, 200);
    const struct agent_welcome *welcome = world_answer(&world)->body;
    cr_assert_eq(world_answer(&world)->type, &schema_agent_welcome);
    cr_assert_str_eq(welcome->cluster, world.cluster.meta.cluster);
    cr_assert_eq(welcome->protocol, API_PROTOCOL_VERSION);
    cr_assert_eq(welcome->agent_timeout_ms, WORLD_TIMEOUT_MS);
    cr_assert_eq(welcome->report_interval_ms, 500);
    cr_assert_eq(welcome->poll_wait_ms, WORLD_WAIT_MS);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_ALIVE);
    cr_assert_eq(world_count_events(&world, "agent_registered"), 1);
}

Test(agent, number_of_agents_is_limited)
{
    for (size_t i = 0; i < API_AGENTS_MAX; i++) {
        struct cluster *clusters[] = {&world.cluster, &world.fold};
        for (size_t c = 0; c < 2; c++) {
            struct change change = {.kind = CHANGE_AGENT,
                                    .agent = {.agent_id = mem_printf("old%zu", i),
                                              .incarnation = mem_strdup("x"),
                                              .state = AGENT_STATE_LOST}};
            cluster_apply(clusters[c], &change);
        }
    }
    world_register(&world, "a1", 1);
    world_expect_problem(&world, "limit_reached");
    world_forget(&world, "old7");
    world_register(&world, "a1", 1);
    world_expect_status(&world, 200);
}

/* S30: a cloned host is refused, a restart is not. */
Test(agent, id_is_held_while_its_holder_is_heard_of)
{
    static const char *const a1[] = {"a1", NULL};
    world_register(&world, "a1", 1);
    world_pass_reporting(&world, 3000, a1);
    world_pass(&world, 1999);
    world_register(&world, "a1", 2);
    world_expect_problem(&world, "agent_id_in_use");
    cr_assert_eq(world_answer(&world)->retry_after_s, 1);
    cr_assert_eq(world.update.changes.count, 0);

    /* A poll is as good a sign of life as a report. */
    (void)world_poll(&world, "a1", 1, none, 0);
    world_pass(&world, 1999);
    world_register(&world, "a1", 2);
    world_expect_problem(&world, "agent_id_in_use");
    world_pass(&world, 1);
    world_register(&world, "a1", 2);
    world_expect_status(&world, 200);
}

Test(agent, id_is_held_for_a_moment_after_a_restart_of_the_coordinator)
{
    world_register(&world, "a1", 1);
    world_pass(&world, 5000);
    world_restart(&world);
    world_register(&world, "a1", 2); /* the first one may be alive: it had no time to say so */
    world_expect_problem(&world, "agent_id_in_use");
    world_pass(&world, 2000);
    world_register(&world, "a1", 2);
    world_expect_status(&world, 200);
}

Test(agent, stopped_or_lost_holder_frees_the_id_at_once)
{
    world_register(&world, "a1", 1);
    world_deregister(&world, "a1", 1);
    world_register(&world, "a1", 2);
    world_expect_status(&world, 200);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_ALIVE);
    world_pass(&world, WORLD_TIMEOUT_MS);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_LOST);
    world_register(&world, "a1", 3);
    world_expect_status(&world, 200);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_ALIVE);
}

Test(agent, new_start_gets_new_epochs_before_its_first_document)
{
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    uint64_t before[4];
    for (uint32_t i = 0; i < 4; i++)
        before[i] = epoch(i);
    uint64_t poll =
        world_poll(&world, "a1", 1, cluster_document_version(&world.cluster, agent("a1")), 20000);
    world_pass(&world, 2000);
    world_register(&world, "a1", 2);
    world_expect_status(&world, 200);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_gt(epoch(i), before[i]);
        cr_assert_str_eq(owner(i), "a1");
        cr_assert_str_eq(world_placement(&world, "j1", i)->agent_incarnation,
                         agent("a1")->row.incarnation);
    }
    /* In the update that registers it, and the old start's poll ends with it. */
    cr_assert_eq(world_count_changes(&world, CHANGE_AGENT), 1);
    cr_assert_eq(world_count_changes(&world, CHANGE_PLACEMENT), 4);
    cr_assert_eq(world_find_answer(&world, poll)->status, 409);

    /* The old start is told so, whatever it asks, and changes nothing. */
    uint64_t now = epoch(0);
    (void)world_poll(&world, "a1", 1, none, 20000);
    world_expect_problem(&world, "superseded");
    struct agent_report report = world_report_of(&world, "a1", TASK_STATE_FENCED);
    world_uuid(1, report.incarnation);
    world_send_report(&world, "a1", report);
    world_expect_problem(&world, "superseded");
    world_deregister(&world, "a1", 1);
    world_expect_problem(&world, "superseded");
    cr_assert_eq(epoch(0), now);
}

Test(agent, same_start_again_changes_nothing)
{
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    uint64_t before = epoch(0);
    world_register(&world, "a1", 1);
    world_expect_status(&world, 200);
    cr_assert_eq(world.update.changes.count, 0);
    cr_assert_eq(epoch(0), before);

    /* It may say something new of itself, though. */
    struct agent_registration registration = world_registration("a1", 1);
    registration.capacity = 7;
    register_as(registration);
    cr_assert_eq(agent("a1")->row.capacity, 7);
    cr_assert_eq(epoch(0), before);
}

Test(agent, start_that_has_left_does_not_come_back)
{
    world_register(&world, "a1", 1);
    world_deregister(&world, "a1", 1);
    world_expect_status(&world, 204);
    world_register(&world, "a1", 1); /* a late copy of its first message */
    world_expect_problem(&world, "superseded");
    (void)world_poll(&world, "a1", 1, none, 20000);
    world_expect_problem(&world, "superseded");
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_STOPPED);
    world_deregister(&world, "a1", 1);
    world_expect_status(&world, 204);
    cr_assert_eq(world.update.changes.count, 0);
}

Test(agent, leaving_ends_its_poll)
{
    world_register(&world, "a1", 1);
    uint64_t poll =
        world_poll(&world, "a1", 1, cluster_document_version(&world.cluster, agent("a1")), 20000);
    world_deregister(&world, "a1", 1);
    cr_assert_eq(world_find_answer(&world, poll)->status, 409);
}

Test(agent, unknown_one_is_told_to_register)
{
    (void)world_poll(&world, "nobody", 1, none, 20000);
    world_expect_problem(&world, "agent_unknown");
    world_deregister(&world, "nobody", 1);
    world_expect_problem(&world, "agent_unknown");
    world_forget(&world, "nobody");
    world_expect_problem(&world, "agent_not_found");
}

/* ---- placement */

Test(agent, processors_wait_for_an_agent_and_say_so)
{
    world_create(&world, "j1");
    cr_assert_str_eq(world_placement(&world, "j1", 0)->reason, "no owner; no agent is alive");
    cr_assert_eq(epoch(0), 0);
    world_register(&world, "a1", 1);
    cr_assert_eq(world_count_events(&world, "processor_assigned"), 4);
    cr_assert_str_eq(owner(3), "a1");
    cr_assert_str_eq(world_placement(&world, "j1", 0)->reason,
                     "no owner; a1 has the fewest tasks (0)");
}

Test(agent, capacity_is_kept_and_a_newcomer_gets_only_what_is_free)
{
    struct agent_registration small = world_registration("a1", 1);
    small.capacity = 3;
    register_as(small);
    world_create(&world, "j1");
    cr_assert_null(owner(3));
    cr_assert_str_eq(world_placement(&world, "j1", 3)->reason,
                     "no owner; the agents have no room left");
    uint64_t before = epoch(0);
    world_register(&world, "a2", 2);
    cr_assert_str_eq(owner(3), "a2");
    cr_assert_str_eq(owner(0), "a1");
    cr_assert_eq(epoch(0), before);
}

Test(agent, one_that_is_on_its_way_out_gets_nothing_new)
{
    world_register(&world, "a1", 1);
    struct agent_report report = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    report.stopping = true;
    world_send_report(&world, "a1", report);
    world_create(&world, "j1");
    cr_assert_null(owner(0));
    world_report(&world, "a1", TASK_STATE_ACTIVE); /* it stays, after all */
    cr_assert_str_eq(owner(0), "a1");

    /* What it owns stays its own; a new start is a new beginning. */
    report = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    report.stopping = true;
    world_send_report(&world, "a1", report);
    cr_assert_str_eq(owner(0), "a1");
    world_deregister(&world, "a1", 1);
    world_register(&world, "a1", 2);
    world_create(&world, "j2");
    cr_assert_str_eq(world_placement(&world, "j2", 0)->agent, "a1");
}

Test(agent, most_advanced_kept_state_wins)
{
    world_create(&world, "j1");
    const char *incarnation = cluster_job(&world.cluster, "j1")->row.incarnation;
    const char *ids[] = {"a1", "a2", "a3"};
    static const int64_t learned[2][3] = {{10, 90, 10}, {10, 500, 90}};
    /* Until there is an agent that may take tasks, all three are to be known: capacity keeps them
     * from being placed. */
    for (size_t i = 0; i < 3; i++) {
        struct agent_registration registration = world_registration(ids[i], i + 1);
        registration.capacity = 0;
        registration.kept.items = mem_calloc(2, sizeof(struct kept_state));
        registration.kept.count = 2;
        for (uint32_t k = 0; k < 2; k++) {
            struct kept_state *kept = &registration.kept.items[k];
            *kept = (struct kept_state){.job = mem_strdup("j1"),
                                        .job_incarnation = mem_strdup(incarnation),
                                        .processor = k};
            kept->learned.items = mem_calloc(2, sizeof(struct input_offset));
            kept->learned.count = 2;
            kept->learned.items[0].offset = learned[k][i];
            kept->learned.items[1] = (struct input_offset){.partition = 4, .offset = API_UNKNOWN};
        }
        if (i == 1) /* state of another job of the same name is not this one's */
            registration.kept.items[1].job_incarnation[0] = 'f';
        register_as(registration);
    }
    cr_assert_null(owner(0));
    for (size_t i = 0; i < 3; i++) {
        agent(ids[i])->row.capacity = 10;
        cluster_agent(&world.fold, ids[i])->row.capacity = 10;
    }
    world_register(&world, "a4", 4); /* anything that lets the coordinator place */
    cr_assert_str_eq(owner(0), "a2");
    cr_assert_str_eq(world_placement(&world, "j1", 0)->reason, "no owner; a2 keeps its state");
    cr_assert_str_eq(owner(1), "a3");
    cr_assert_str_neq(owner(2), owner(0));
}

/* ---- polls */

static const struct agent_document *document_in(const struct answer *answer)
{
    cr_assert_not_null(answer);
    cr_assert_eq(answer->status, 200);
    cr_assert_eq(answer->type, &schema_agent_document);
    return answer->body;
}

Test(agent, poll_answers_at_once_what_is_new_and_waits_otherwise)
{
    world_register(&world, "a1", 1);
    uint64_t poll = world_poll(&world, "a1", 1, none, 20000);
    struct document_version version = document_in(world_find_answer(&world, poll))->version;
    cr_assert_eq(version.start, 1);

    poll = world_poll(&world, "a1", 1, version, 20000);
    world_expect_none(&world);
    world_create(&world, "j1");
    const struct agent_document *document = document_in(world_find_answer(&world, poll));
    cr_assert_eq(document->tasks.count, 4);
    cr_assert_gt(cluster_compare_versions(document->version, version), 0);
}

Test(agent, poll_ends_without_news_when_its_time_is_over)
{
    world_register(&world, "a1", 1);
    struct document_version version = cluster_document_version(&world.cluster, agent("a1"));
    uint64_t poll = world_poll(&world, "a1", 1, version, 3000);
    world_pass(&world, 2999);
    cr_assert_null(world_find_answer(&world, poll));
    world_pass(&world, 1);
    cr_assert_eq(world_find_answer(&world, poll)->status, 204);
    poll = world_poll(&world, "a1", 1, version, 0);
    cr_assert_eq(world_find_answer(&world, poll)->status, 204);

    /* No wait is longer than the coordinator allows. */
    static const char *const a1[] = {"a1", NULL};
    poll = world_poll(&world, "a1", 1, version, 10000000);
    world_pass_reporting(&world, WORLD_WAIT_MS - 500, a1);
    world_pass(&world, 500);
    cr_assert_eq(world_find_answer(&world, poll)->status, 204);
}

Test(agent, newer_poll_takes_the_place_of_the_older)
{
    world_register(&world, "a1", 1);
    struct document_version version = cluster_document_version(&world.cluster, agent("a1"));
    uint64_t older = world_poll(&world, "a1", 1, version, 20000);
    uint64_t newer = world_poll(&world, "a1", 1, version, 20000);
    cr_assert_eq(world_find_answer(&world, older)->status, 204);
    cr_assert_null(world_find_answer(&world, newer));
    world_create(&world, "j1");
    (void)document_in(world_find_answer(&world, newer));
}

Test(agent, another_agents_news_do_not_end_a_poll)
{
    world_register(&world, "a1", 1);
    uint64_t poll =
        world_poll(&world, "a1", 1, cluster_document_version(&world.cluster, agent("a1")), 20000);
    world_register(&world, "a2", 2);
    cr_assert_null(world_find_answer(&world, poll));
}

Test(agent, documents_are_new_after_a_restart)
{
    world_register(&world, "a1", 1);
    struct document_version version = cluster_document_version(&world.cluster, agent("a1"));
    world_restart(&world);
    uint64_t poll = world_poll(&world, "a1", 1, version, 20000);
    version = document_in(world_find_answer(&world, poll))->version;
    cr_assert_eq(version.start, 2);
    cr_assert_eq(version.decision, world.cluster.meta.decision);

    /* A version from a start that is still to come: not newer than what we have, so it waits. */
    poll = world_poll(&world, "a1", 1, (struct document_version){9, 0}, 1000);
    cr_assert_null(world_find_answer(&world, poll));
    world_pass(&world, 1000);
    cr_assert_eq(world_find_answer(&world, poll)->status, 204);
}

Test(agent, poll_whose_client_went_away_is_forgotten)
{
    world_register(&world, "a1", 1);
    uint64_t poll =
        world_poll(&world, "a1", 1, cluster_document_version(&world.cluster, agent("a1")), 20000);
    world_gone(&world, poll);
    world_create(&world, "j1");
    cr_assert_null(world_find_answer(&world, poll));
}

/* ---- being lost */

Test(agent, is_lost_after_the_timeout_and_keeps_what_it_owns)
{
    world_register(&world, "a1", 1);
    world_register(&world, "a2", 2);
    world_create(&world, "j1");
    uint64_t before = epoch(0);
    static const char *const a2[] = {"a2", NULL};
    world_pass_reporting(&world, WORLD_TIMEOUT_MS - 500, a2);
    world_pass(&world, 499);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_ALIVE);
    world_pass(&world, 1);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_LOST);
    cr_assert_eq(agent("a2")->row.state, AGENT_STATE_ALIVE);
    cr_assert_eq(world_count_events(&world, "agent_lost"), 1);
    cr_assert_str_eq(owner(0), "a1");
    cr_assert_eq(epoch(0), before);

    /* It was only cut off: it goes on where it was. */
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    world_expect_status(&world, 200);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_ALIVE);
    cr_assert_eq(world_count_events(&world, "agent_returned"), 1);
    cr_assert_eq(epoch(0), before);
}

Test(agent, lost_one_gets_nothing_new_until_it_is_back)
{
    world_register(&world, "a1", 1);
    world_pass(&world, WORLD_TIMEOUT_MS);
    world_create(&world, "j1");
    cr_assert_null(owner(0));
    (void)world_poll(&world, "a1", 1, none, 0);
    cr_assert_str_eq(owner(0), "a1");
}

Test(agent, nobody_is_lost_before_the_coordinator_has_listened_for_the_timeout)
{
    world_register(&world, "a1", 1);
    world_pass(&world, WORLD_TIMEOUT_MS - 1);
    world_restart(&world);
    world_pass(&world, WORLD_TIMEOUT_MS - 1);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_ALIVE);
    world_pass(&world, 1);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_LOST);
}

/* The coordinator stood still (stopped, or its host suspended): what agents sent meanwhile is still
 * to be read. */
Test(agent, nobody_is_lost_because_the_coordinator_stood_still)
{
    world_register(&world, "a1", 1);
    world_register(&world, "a2", 2);
    world.now_ms += 60000;
    world.now_at += 60000;
    world_report(&world, "a2", TASK_STATE_ACTIVE);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_ALIVE);
    world_pass(&world, WORLD_TIMEOUT_MS - 1);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_ALIVE);
    world_pass(&world, 1);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_LOST);
}

Test(agent, stopped_one_is_not_lost_and_its_processors_wait)
{
    world_register(&world, "a1", 1);
    world_register(&world, "a2", 2);
    world_create(&world, "j1");
    uint64_t before = epoch(0);
    world_deregister(&world, "a1", 1);
    static const char *const a2[] = {"a2", NULL};
    world_pass_reporting(&world, 2 * WORLD_TIMEOUT_MS, a2);
    cr_assert_eq(agent("a1")->row.state, AGENT_STATE_STOPPED);
    cr_assert_str_eq(owner(0), "a1");
    cr_assert_eq(epoch(0), before);
}

/* ---- being forgotten */

Test(agent, forgotten_ones_processors_go_to_others)
{
    world_register(&world, "a1", 1);
    world_register(&world, "a2", 2);
    world_create(&world, "j1");
    uint64_t before = epoch(0);
    world_forget(&world, "a1");
    cr_assert_not_null(
        strstr(world_expect_problem(&world, "agent_still_owns")->detail, "stop it first"));

    world_deregister(&world, "a1", 1);
    world_forget(&world, "a1");
    world_expect_status(&world, 204);
    cr_assert_null(agent("a1"));
    cr_assert_str_eq(owner(0), "a2");
    cr_assert_gt(epoch(0), before);
    cr_assert_eq(world_count_events(&world, "processor_unassigned"), 2);
    cr_assert_eq(world_count_events(&world, "processor_assigned"), 2);
    cr_assert_eq(world_count_events(&world, "agent_forgotten"), 1);
}

Test(agent, forgotten_one_may_register_as_a_newcomer)
{
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    world_pass(&world, WORLD_TIMEOUT_MS);
    uint64_t poll =
        world_poll(&world, "a1", 1, cluster_document_version(&world.cluster, agent("a1")), 20000);
    cr_assert_null(world_find_answer(&world, poll));
    world_pass(&world, WORLD_TIMEOUT_MS); /* it polls, but then nothing more */
    world_forget(&world, "a1");
    cr_assert_eq(world_find_answer(&world, poll)->status, 404);
    cr_assert_null(owner(0));
    uint64_t before = epoch(0);
    (void)world_poll(&world, "a1", 1, none, 20000);
    world_expect_problem(&world, "agent_unknown");
    world_register(&world, "a1", 1);
    world_expect_status(&world, 200);
    cr_assert_str_eq(owner(0), "a1");
    cr_assert_gt(epoch(0), before);
}

/* It still has the version of a document from before it was forgotten: what it gets now must be
 * newer. */
Test(agent, forgotten_one_gets_a_newer_document_than_it_had)
{
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    struct document_version had = cluster_document_version(&world.cluster, agent("a1"));
    world_pass(&world, WORLD_TIMEOUT_MS);
    world_register(&world, "a2", 2);
    world_forget(&world, "a1");
    cr_assert_str_eq(owner(0), "a2");
    world_register(&world, "a1", 1);
    uint64_t poll = world_poll(&world, "a1", 1, had, 20000);
    const struct agent_document *document = document_in(world_find_answer(&world, poll));
    for (size_t i = 0; i < document->tasks.count; i++) /* it is a newcomer now */
        cr_assert_eq(document->tasks.items[i].role, TASK_ROLE_LEARNER);
    cr_assert_eq(document->tasks.count, 2);
}
