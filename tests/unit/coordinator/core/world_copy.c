/* A copy of the cluster decides what the cluster decides: tried at every step of every test. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/rows.h"
#include "tests/unit/coordinator/core/world_check.h"

static const struct schema_type *type_of(enum coord_event_kind kind)
{
    switch (kind) {
    case COORD_EVENT_AGENT_REGISTER:
        return &schema_agent_registration;
    case COORD_EVENT_REPORT:
        return &schema_agent_report;
    case COORD_EVENT_MOVE:
        return &schema_move_request;
    case COORD_EVENT_EXPAND:
        return &schema_expansion_request;
    case COORD_EVENT_ELIGIBILITY:
        return &schema_eligibility_request;
    case COORD_EVENT_DRAIN:
        return &schema_drain_request;
    case COORD_EVENT_MAINTENANCE:
        return &schema_maintenance_request;
    case COORD_EVENT_PLAN:
        return &schema_plan_request;
    case COORD_EVENT_SKIP:
        return &schema_skip_request;
    case COORD_EVENT_OFFSETS:
        return &schema_offsets_request;
    default:
        return NULL;
    }
}

static struct coord_event copy_event(const struct coord_event *event)
{
    const struct schema_type *type = type_of(event->kind);
    struct coord_event copy = *event;
    copy.actor = rows_text_copy(event->actor);
    copy.name = rows_text_copy(event->name);
    copy.incarnation = rows_text_copy(event->incarnation);
    copy.reason = rows_text_copy(event->reason);
    copy.plan = rows_text_copy(event->plan);
    if (type != NULL)
        schema_copy(type, &copy.spec, &event->spec); /* all members of the union begin there */
    return copy;
}

bool world_try_copy(const struct world *world, const struct coord_event *event,
                    struct update *ret_update)
{
    struct cluster cluster;
    /* PUTs that wait are not copied: one more is refused, and Kafka's answer may be for one. */
    if (event->kind == COORD_EVENT_KAFKA || event->kind == COORD_EVENT_JOB_PUT)
        return false;
    if (world->cluster.recovery.state != RECOVERY_NONE)
        return false; /* what it has collected is not copied */
    struct coord_event copy = copy_event(event);
    cluster_copy(&cluster, &world->cluster);
    *ret_update = (struct update){.wake_ms = INT64_MAX};
    coord_step(&cluster, &copy, ret_update);
    const char *broken = cluster_check(&cluster);
    cr_assert_null(broken, "of a copy: %s", broken);
    coord_event_finish(&copy);
    cluster_finish(&cluster);
    return true;
}

void world_check_copy(const struct world *world, struct update *copied)
{
    cr_assert_eq(copied->changes.count, world->update.changes.count,
                 "the copy decides %zu things, the cluster %zu", copied->changes.count,
                 world->update.changes.count);
    for (size_t i = 0; i < copied->changes.count; i++)
        cr_assert(change_equal(&copied->changes.items[i], &world->update.changes.items[i]),
                  "change %zu of a copy is another one", i);
    update_finish(copied);
}
