#include "coordinator/options.h"

#include <stddef.h>

#include "common/logger.h"

static const char *const log_levels[] = {[LOG_LEVEL_DEBUG] = "debug",
                                         [LOG_LEVEL_INFO] = "info",
                                         [LOG_LEVEL_WARN] = "warn",
                                         [LOG_LEVEL_ERROR] = "error",
                                         NULL};

#define FIELD(member) .offset = offsetof(struct coordinator_options, member)
#define SECOND        1000
#define MINUTE        (60 * SECOND)
#define HOUR          (60 * MINUTE)

const struct opts_entry coordinator_options_table[] = {
    {.name = "listen",
     .type = OPTS_STRING,
     FIELD(listen),
     .fallback = "127.0.0.1:7420",
     .min = 1,
     .max = 300,
     .help = "Address of the HTTP API, as host:port; port 0 takes a free one. There is no "
             "authentication: let only trusted hosts reach it."},
    {.name = "database",
     .type = OPTS_STRING,
     FIELD(database),
     .fallback = "/var/lib/baton/coordinator.db",
     .min = 1,
     .max = 4000,
     .help = "Path of the database. It is made when there is none, as is its folder."},
    {.name = "backup_dir",
     .type = OPTS_STRING,
     FIELD(backup_dir),
     .fallback = "",
     .max = 4000,
     .help = "Folder for the copies of the database that POST /v1/backups makes. Empty: it makes "
             "none."},
    {.name = "agent_timeout",
     .type = OPTS_DURATION,
     FIELD(agent_timeout_ms),
     .fallback = "10s",
     .min = SECOND,
     .max = HOUR,
     .help = "An agent that is not heard of for so long is lost. A coordinator that has just "
             "started waits as long before it calls anyone lost."},
    {.name = "report_interval",
     .type = OPTS_DURATION,
     FIELD(report_interval_ms),
     .fallback = "500ms",
     .min = 50,
     /* Half of what CLUSTER_FOLLOW_MS, TASK_FOLLOW_MS and AGENT_ID_HELD_MS rest on: with rarer
      * reports no learner would ever count as caught up, and a second agent with the same id would
      * not be noticed. */
     .max = SECOND,
     .help = "How often agents report. Must be at most half of agent_timeout."},
    {.name = "poll_wait_max",
     .type = OPTS_DURATION,
     FIELD(poll_wait_max_ms),
     .fallback = "60s",
     .min = SECOND,
     .max = 60 * SECOND,
     .help = "The longest that a request may wait for news (wait=), and how long agents wait for "
             "their assignment. Lower it when a proxy ends idle requests earlier."},
    {.name = "http_connections_max",
     .type = OPTS_INT,
     FIELD(http_connections_max),
     .fallback = "4096",
     .min = 16,
     .max = 100000,
     .help = "Most HTTP connections at a time. An agent holds two; each waiting client one."},
    {.name = "history_age",
     .type = OPTS_DURATION,
     FIELD(history_age_ms),
     .fallback = "90d",
     .min = 0,
     .max = INT64_C(3650) * 24 * HOUR,
     .help = "Events, and operations and hand-overs that have ended, are dropped when they are "
             "older. 0: however old they are."},
    {.name = "history_events",
     .type = OPTS_INT,
     FIELD(history_events),
     .fallback = "100000",
     .min = 1000,
     .max = 100000000,
     .help = "Most events that are kept; the oldest go first."},
    {.name = "history_operations",
     .type = OPTS_INT,
     FIELD(history_operations),
     .fallback = "10000",
     .min = 1000,
     .max = 1000000,
     .help = "Most operations that have ended that are kept; the oldest go first."},
    {.name = "history_handoffs",
     .type = OPTS_INT,
     FIELD(history_handoffs),
     .fallback = "10000",
     .min = 1000,
     .max = 1000000,
     .help = "Most hand-overs that have ended that are kept; the oldest go first."},
    {.name = "recover",
     .type = OPTS_BOOL,
     FIELD(recover),
     .fallback = "false",
     .help = "The database is lost, or an old copy: this start takes epochs, jobs and owners from "
             "what agents and Kafka know, and changes nothing before. For one start; "
             "docs/operations.md says when."},
    {.name = "log_level",
     .type = OPTS_CHOICE,
     FIELD(log_level),
     .fallback = "info",
     .choices = log_levels,
     .help = "Least level of what is logged to stderr."},
};
const size_t coordinator_options_count =
    sizeof(coordinator_options_table) / sizeof(coordinator_options_table[0]);
