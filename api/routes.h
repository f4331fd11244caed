/*
 * The routes of both daemons in one table: what the HTTP servers dispatch on and what a test holds
 * equal to api/openapi.yaml. Pure; any thread.
 */
#ifndef BATON_API_ROUTES_H
#define BATON_API_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#define ROUTES_PARAMETERS_MAX  2
#define ROUTES_PARAMETER_BYTES 256

enum route_id { /* in the order of the table */
                ROUTE_JOBS_LIST,
                ROUTE_JOB_PUT,
                ROUTE_JOB_GET,
                ROUTE_JOB_DELETE,
                ROUTE_JOB_STATUS,
                ROUTE_JOB_PROBLEMS,
                ROUTE_JOB_PROCESSORS,
                ROUTE_JOB_PROCESSOR,
                ROUTE_JOB_MAP,
                ROUTE_JOB_MOVE,
                ROUTE_JOB_REBALANCE,
                ROUTE_JOB_EXPAND,
                ROUTE_JOB_PAUSE,
                ROUTE_JOB_RESUME,
                ROUTE_JOB_SKIPS,
                ROUTE_JOB_SKIP,
                ROUTE_JOB_OFFSETS,
                ROUTE_PLAN,
                ROUTE_MAINTENANCE_GET,
                ROUTE_MAINTENANCE_PUT,
                ROUTE_BACKUP,
                ROUTE_AGENTS_LIST,
                ROUTE_AGENT_GET,
                ROUTE_AGENT_FORGET,
                ROUTE_ELIGIBILITY_GET,
                ROUTE_ELIGIBILITY_PUT,
                ROUTE_DRAIN_GET,
                ROUTE_DRAIN_PUT,
                ROUTE_DRAIN_CANCEL,
                ROUTE_OPERATIONS_LIST,
                ROUTE_OPERATION_GET,
                ROUTE_OPERATION_CANCEL,
                ROUTE_HANDOFFS_LIST,
                ROUTE_HANDOFF_GET,
                ROUTE_HANDOFF_CANCEL,
                ROUTE_EVENTS,
                ROUTE_AGENT_REGISTER,
                ROUTE_AGENT_DEREGISTER,
                ROUTE_AGENT_ASSIGNMENT,
                ROUTE_AGENT_REPORT,
                ROUTE_SNAPSHOT,
                ROUTE_HEALTHZ,
                ROUTE_READYZ,
                ROUTE_METRICS,
                ROUTE_VERSION,
                ROUTE_OPENAPI,
                ROUTE_DASHBOARD,
                ROUTE_DASHBOARD_STYLE,
                ROUTE_DASHBOARD_SCRIPT
};

struct route {
    enum route_id id;
    const char *method;
    const char *path;     /* "/v1/jobs/{job}/processors/{n}" */
    const char *query[6]; /* names of the query parameters that it takes; others are refused by
                             name; NULL after the last */
    bool on_coordinator, on_agent;
};

struct route_match {
    const struct route
        *route; /* NULL: none; then `allow` tells whether the path exists with other methods */
    char parameters[ROUTES_PARAMETERS_MAX][ROUTES_PARAMETER_BYTES];
    char allow[64]; /* "GET, PUT" for 405; "" for 404 */
};

/*
 * `path` is percent-decoded already. HEAD matches GET. A parameter is one segment, 1 to
 * ROUTES_PARAMETER_BYTES - 1 bytes; those of the matched route are in the order of its path, the
 * others "".
 */
void routes_match(const char *method, const char *path, bool on_agent,
                  struct route_match *ret_match);
const struct route *routes_at(size_t index); /* NULL past the end */

#endif
