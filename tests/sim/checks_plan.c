/* What was planned is what then moves: of requests that name their plan. */
#include <string.h>

#include "api/schema.h"
#include "coordinator/core/dry_run.h"
#include "tests/sim/checks.h"
#include "tests/sim/world.h"

void checks_before_plan(struct world *world, struct coord_event *event)
{
    struct checks *checks = &world->checks;
    char **plan = step_plan_of(event);

    checks->planned = plan != NULL && *plan != NULL;
    if (!checks->planned)
        return;
    memcpy(checks->plan, *plan, sizeof(checks->plan));
    cluster_copy(&checks->plan_before, &world->host.cluster);
}

static bool is_refused(const struct update *update, uint64_t request, const char **ret_code)
{
    for (size_t i = 0; i < update->answers.count; i++) {
        const struct answer *answer = &update->answers.items[i];

        if (answer->request != request || answer->type != &schema_problem_body)
            continue;
        *ret_code = ((const struct problem_body *)answer->body)->code;
        return true;
    }
    return false;
}

/* While the step asks for another look at once, more of the plan is to come. */
static void compare(struct world *world)
{
    struct plan_moves moves;
    char id[API_PLAN_ID_BYTES + 1];

    if (world->host.cluster.place_ms <= world->now_ms)
        return;
    dry_run_compare(&world->checks.plan_before, &world->host.cluster, &moves);
    dry_run_hash(&moves, id);
    if (strcmp(id, world->checks.plan) != 0)
        checks_fail(world, "%zu things move, others than were planned", moves.count);
    world->tally->of[moves.count > 0 ? TALLY_PLAN_MOVED : TALLY_PLAN_EMPTY]++;
    dry_run_finish_moves(&moves);
}

void checks_after_plan(struct world *world, const struct coord_event *event,
                       const struct update *update)
{
    const char *code = NULL;

    if (!world->checks.planned)
        return;
    if (!is_refused(update, event->request, &code) && update->changes.count > 0)
        compare(world);
    else if (code != NULL && strcmp(code, "plan_stale") == 0)
        world->tally->of[TALLY_PLAN_STALE]++;
    cluster_finish(&world->checks.plan_before);
    world->checks.planned = false;
}
