/* The checks that world_step makes. Internal to the world. */
#ifndef BATON_TESTS_COORDINATOR_CORE_WORLD_CHECK_H
#define BATON_TESTS_COORDINATOR_CORE_WORLD_CHECK_H

#include "tests/unit/coordinator/core/world.h"

/* Applies a copy. */
void world_copy_change(struct cluster *cluster, const struct change *change);

/* The last update's changes are numbered as they must be; they go to the fold. */
void world_check_changes(struct world *world);

/* Each of its answers is the first to an open request; every other open request waits. */
void world_check_answers(struct world *world);
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

void world_trace_update(struct world *world, const struct coord_event *event);

#endif
