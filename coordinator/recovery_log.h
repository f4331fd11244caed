/*
 * Says in the log when the coordinator is not the one that decides (coordinator/core/recovery.h):
 * that its database is old, that it recovers, and that it works again. Owner thread.
 */
#ifndef BATON_COORDINATOR_RECOVERY_LOG_H
#define BATON_COORDINATOR_RECOVERY_LOG_H

#include "coordinator/core/cluster.h"

struct recovery_log { /* zero-initialise; free with recovery_log_finish */
    enum recovery_state state;
    char *detail;
};

/* After each step: true when something has changed that readers are to see. */
bool recovery_log_see(struct recovery_log *log, const struct cluster *cluster);
void recovery_log_finish(struct recovery_log *log);

#endif
