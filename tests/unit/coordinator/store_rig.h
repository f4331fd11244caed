/* A coordinator's core whose every update goes to a store on disk, for tests of what comes back. */
#ifndef BATON_TESTS_COORDINATOR_STORE_RIG_H
#define BATON_TESTS_COORDINATOR_STORE_RIG_H

#include "coordinator/store.h"
#include "tests/unit/coordinator/core/world.h"
#include "tests/unit/coordinator/store_fixture.h"

struct store_rig {
    struct store_fixture fixture;
    struct store *store;
    struct world world; /* as it was loaded from an empty store */
};

void store_rig_init(struct store_rig *at);
void store_rig_init_job(struct store_rig *at); /* and a1 runs j1 */
/* Goes on from what was loaded, which it takes; the world before has been finished. */
void store_rig_go_on(struct store_rig *at, struct cluster *loaded);
void store_rig_finish(struct store_rig *at);
void store_rig_leave(struct store_rig *at,
                     const char *path); /* finish; the database is kept there */

#endif
