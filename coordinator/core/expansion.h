/* What an expansion of processors would take, and why it goes where it goes. Pure. */
#ifndef BATON_COORDINATOR_CORE_EXPANSION_H
#define BATON_COORDINATOR_CORE_EXPANSION_H

#include "coordinator/core/cluster.h"

/* All splits up to `goal` processors, as they would begin now; free with schema_free. */
void expansion_look_ahead(const struct cluster *cluster, const struct job *job, uint32_t goal,
                          int64_t now_ms, struct expansion_plan *ret_plan);

/* Why the target gets the new processor: free(). `wish` NULL: nobody gave a reason for it. */
char *expansion_explain(const struct job *job, uint32_t processor, const struct agent *target,
                        const char *wish);

#endif
