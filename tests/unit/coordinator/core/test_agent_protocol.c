/* Versions of the agent protocol: releases that meet. */
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

TestSuite(agent_protocol, .init = setup, .fini = teardown);

static struct agent *agent(const char *agent_id)
{
    return cluster_agent(&world.cluster, agent_id);
}

static void register_as(struct agent_registration registration)
{
    struct coord_event event = world_event(&world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = registration;
    world_step(&world, event);
}

Test(agent_protocol, ranges_must_overlap)
{
    static const struct {
        uint32_t minimum, version;
        bool accepted;
    } rows[] = {
        {2, 2, true}, {1, 9, true}, {1, 1, false}, {3, 9, false}, {0, 0, false}, {3, 1, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *id = mem_printf("a%zu", i);
        struct agent_registration registration = world_registration(id, i + 1);
        registration.protocol_minimum = rows[i].minimum;
        registration.protocol = rows[i].version;
        register_as(registration);
        if (rows[i].accepted) {
            world_expect_status(&world, 200);
            cr_assert_eq(agent(id)->row.protocol, 2);
        } else {
            world_expect_problem(&world, "protocol_unsupported");
            cr_assert_null(agent(id));
        }
        free(id);
    }
}

/* A coordinator that is upgraded before its agents, and one that was upgraded too far for them. */
Test(agent_protocol, refusals_say_which_side_is_to_be_upgraded)
{
    static const struct {
        struct protocol_range coordinator, agent;
        const char *text; /* NULL: accepted */
        uint32_t chosen;
    } rows[] = {
        {{1, 2}, {1, 1}, NULL, 1},
        {{1, 2}, {1, 2}, NULL, 2},
        {{2, 3}, {1, 1}, "upgrade the agent", 0},
        {{1, 1}, {2, 3}, "upgrade the coordinator", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *id = mem_printf("a%zu", i);
        struct agent_registration registration = world_registration(id, i + 1);
        world.cluster.config.protocol = rows[i].coordinator;
        registration.protocol_minimum = rows[i].agent.minimum;
        registration.protocol = rows[i].agent.version;
        register_as(registration);
        if (rows[i].text == NULL) {
            world_expect_status(&world, 200);
            cr_assert_eq(agent(id)->row.protocol, rows[i].chosen);
        } else {
            const struct problem_body *problem =
                world_expect_problem(&world, "protocol_unsupported");
            cr_assert(strstr(problem->detail, rows[i].text) != NULL, "%s", problem->detail);
            cr_assert_null(agent(id));
        }
        free(id);
    }
}

/* Whoever was welcomed by another release registers anew, so that it is refused, or speaks another
 * version from then on. */
Test(agent_protocol, who_speaks_a_version_of_before_is_told_to_register)
{
    world_register(&world, "a1", 1);
    world_expect_status(&world, 200);
    world.cluster.config.protocol = (struct protocol_range){2, 3};
    world_poll(&world, "a1", 1, none, 1000);
    world_expect_status(&world, 200); /* it is spoken still */
    world.cluster.config.protocol = (struct protocol_range){3, 4};
    world_poll(&world, "a1", 1, none, 1000);
    const struct problem_body *problem = world_expect_problem(&world, "agent_unknown");
    cr_assert(strstr(problem->detail, "version 2 of the agent protocol") != NULL, "%s",
              problem->detail);
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    world_expect_problem(&world, "agent_unknown");
    struct agent_registration registration = world_registration("a1", 1);
    registration.protocol = 3;
    register_as(registration);
    world_expect_status(&world, 200);
    cr_assert_eq(agent("a1")->row.protocol, 3);
}
