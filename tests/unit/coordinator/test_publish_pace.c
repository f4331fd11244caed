/* When a view is published: at the times of the pace, and before a client hears of its change. */
#include <criterion/criterion.h>

#include "api/schema.h"
#include "coordinator/publish_pace.h"

/* An update of one change, and of one answer unless `status` is 0. */
struct what {
    enum change_kind change;
    uint32_t status;
    const struct schema_type *type;
};

static bool see(struct publish_pace *pace, struct what what)
{
    struct change change = {.kind = what.change};
    struct answer answer = {.request = 1, .status = what.status, .type = what.type};
    struct update update = {.changes = {.items = &change, .count = 1, .capacity = 1},
                            .answers = {.items = &answer, .count = what.status == 0 ? 0 : 1}};
    return publish_pace_see(pace, &update);
}

/* Goal: whatever a client of the API is told of its change, it can read at once. */
Test(publish_pace, clients_read_what_they_wrote)
{
    const struct schema_type *const types[] = {
        &schema_job_view,     &schema_operation_view,   &schema_handoff_view,
        &schema_drain_view,   &schema_eligibility_view, &schema_maintenance_view,
        &schema_offsets_view, &schema_skip_view,        NULL};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct publish_pace pace = {.published_ms = 1000, .took_ms = 50};
        cr_assert(see(&pace, (struct what){CHANGE_AGENT, types[i] == NULL ? 204 : 202, types[i]}),
                  "answer %zu", i);
    }
}

/* Goal: who asks whether something has ended, and hears that it has, can read what it has made. */
Test(publish_pace, clients_read_what_they_hear_of)
{
    struct publish_pace pace = {.published_ms = 1000, .took_ms = 50};
    cr_assert_not(see(&pace, (struct what){CHANGE_META, 200, &schema_operation_view}));
    cr_assert_not(see(&pace, (struct what){CHANGE_AGENT, 200, &schema_report_answer}));
    cr_assert_not(see(&pace, (struct what){CHANGE_OBSERVATION, 204, NULL}), "an agent's poll");
    cr_assert(see(&pace, (struct what){CHANGE_META, 200, &schema_operation_view}),
              "decided before");
    publish_pace_done(&pace, 50, 1100);
    cr_assert_not(see(&pace, (struct what){CHANGE_META, 200, &schema_operation_view}));
}

/* Goal: agents, of which there are many, do not make a view each. */
Test(publish_pace, agents_wait_for_no_view)
{
    const struct schema_type *const types[] = {&schema_agent_welcome, &schema_agent_document,
                                               &schema_report_answer};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct publish_pace pace = {.published_ms = 1000, .took_ms = 50};
        cr_assert_not(see(&pace, (struct what){CHANGE_AGENT, 200, types[i]}), "answer %zu", i);
        cr_assert_eq(publish_pace_due_ms(&pace), 1200);
    }
}

/* Goal: what was refused, and what nobody waits for, is published after the pause only. */
Test(publish_pace, refusals_wait)
{
    struct publish_pace pace = {.published_ms = 1000, .took_ms = 50};
    cr_assert_not(see(&pace, (struct what){CHANGE_AGENT, 409, &schema_problem_body}));
    cr_assert_not(see(&pace, (struct what){CHANGE_AGENT, 0, NULL}));
}

/* Goal: observations are gathered, decisions are not, and both leave the owner thread its time. */
Test(publish_pace, decisions_come_before_observations)
{
    struct publish_pace pace = {0};
    publish_pace_done(&pace, 10, 1000);
    cr_assert_not(see(&pace, (struct what){CHANGE_OBSERVATION, 200, &schema_report_answer}));
    cr_assert_eq(publish_pace_due_ms(&pace), 1100, "gathered for a while");
    cr_assert_not(see(&pace, (struct what){CHANGE_AGENT, 0, NULL}));
    cr_assert_eq(publish_pace_due_ms(&pace), 1040, "four times the work");
    cr_assert_not(see(&pace, (struct what){CHANGE_META, 0, NULL}));
    cr_assert_eq(publish_pace_due_ms(&pace), 1040, "what is urgent stays urgent");

    publish_pace_done(&pace, 50, 2050);
    cr_assert_eq(publish_pace_due_ms(&pace), 2250, "also without anything urgent");
}
