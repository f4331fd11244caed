/* The checks that world_step makes. Internal to the world. */
#ifndef BATON_TESTS_COORDINATOR_CORE_WORLD_CHECK_H
#define BATON_TESTS_COORDINATOR_CORE_WORLD_CHECK_H

#include "tests/unit/coordinator/core/world.h"

/* Applies a copy. */
void world_copy_change(struct cluster *cluster, const struct change *change);
/* Those of its processors. */
void world_copy_standbys(struct cluster *cluster, const struct job *job);

/* The last update's changes are numbered as they must be; they go to the fold. */
void world_check_changes(struct world *world);

/* Each of its answers is the first to an open request; every other open request waits. */
void world_check_answers(struct world *world);
/* Nothing is on its way to an agent that may not receive it. */
void world_check_cordons(const struct cluster *cluster);
void world_close_request(struct world *world, uint64_t request);

/* The documents of all agents, to compare with those after the step: a new content has a higher
 * version. */
struct world_documents {
    struct agent_document *items;
    char **agent_ids;
    size_t count;
};
struct world_documents world_list_documents(const struct cluster *cluster);
void world_check_documents(const struct cluster *cluster,
                           struct world_documents *documents); /* frees them */

/* What the event would do to a copy, before the step, and that the step did the same; the latter
 * frees the update. False: this kind of event is not tried. */
bool world_try_copy(const struct world *world, const struct coord_event *event,
                    struct update *ret_update);
void world_check_copy(const struct world *world, struct update *copied);

void world_trace_update(struct world *world, const struct coord_event *event);

#endif
