#include "coordinator/recovery_log.h"

#include <stdlib.h>

#include "common/logger.h"
#include "coordinator/core/rows.h"

static void say(enum recovery_state before, const struct cluster *cluster)
{
    const struct recovery *recovery = &cluster->recovery;
    switch (recovery->state) {
    case RECOVERY_OUTDATED:
        log_error("database_outdated", LOG_STR("detail", recovery->detail),
                  LOG_STR("effect", "nothing is changed; agents go on with what they were told"),
                  LOG_END);
        return;
    case RECOVERY_COLLECTING:
        log_warn("recovering", LOG_STR("detail", recovery->detail), LOG_END);
        return;
    case RECOVERY_VERIFYING:
        log_info("verifying",
                 LOG_STR("detail", "Kafka is asked whether the database is the newest"), LOG_END);
        return;
    case RECOVERY_NONE:
        if (before == RECOVERY_COLLECTING)
            log_info("recovered", LOG_INT("epoch", cluster->meta.epoch),
                     LOG_STR("detail", "take `recover` out of the configuration, if it is there"),
                     LOG_END);
        return;
    }
}

bool recovery_log_see(struct recovery_log *log, const struct cluster *cluster)
{
    const struct recovery *recovery = &cluster->recovery;
    if (log->state == recovery->state && rows_text_equal(log->detail, recovery->detail))
        return false;
    say(log->state, cluster);
    log->state = recovery->state;
    rows_text_set(&log->detail, recovery->detail);
    return true;
}

void recovery_log_finish(struct recovery_log *log)
{
    free(log->detail);
    *log = (struct recovery_log){0};
}
