#include "api/routes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define COORDINATOR .on_coordinator = true
#define AGENT       .on_agent = true
#define BOTH        .on_coordinator = true, .on_agent = true

static const struct route routes[] = {
    {ROUTE_JOBS_LIST, "GET", "/v1/jobs", {"limit", "cursor"}, COORDINATOR},
    {ROUTE_JOB_PUT, "PUT", "/v1/jobs/{job}", {0}, COORDINATOR},
    {ROUTE_JOB_GET, "GET", "/v1/jobs/{job}", {0}, COORDINATOR},
    {ROUTE_JOB_DELETE, "DELETE", "/v1/jobs/{job}", {0}, COORDINATOR},
    {ROUTE_JOB_STATUS, "GET", "/v1/jobs/{job}/status", {0}, COORDINATOR},
    {ROUTE_JOB_PROBLEMS, "GET", "/v1/jobs/{job}/problems", {0}, COORDINATOR},
    {ROUTE_JOB_PROCESSORS, "GET", "/v1/jobs/{job}/processors", {"limit", "cursor"}, COORDINATOR},
    {ROUTE_JOB_PROCESSOR, "GET", "/v1/jobs/{job}/processors/{n}", {0}, COORDINATOR},
    {ROUTE_JOB_MAP, "GET", "/v1/jobs/{job}/map", {"key", "key_encoding"}, COORDINATOR},
    {ROUTE_JOB_MOVE, "POST", "/v1/jobs/{job}/moves", {0}, COORDINATOR},
    {ROUTE_JOB_REBALANCE, "POST", "/v1/jobs/{job}/rebalance", {0}, COORDINATOR},
    {ROUTE_JOB_EXPAND, "POST", "/v1/jobs/{job}/expansions", {0}, COORDINATOR},
    {ROUTE_JOB_PAUSE, "PUT", "/v1/jobs/{job}/pause", {0}, COORDINATOR},
    {ROUTE_JOB_RESUME, "PUT", "/v1/jobs/{job}/resume", {0}, COORDINATOR},
    {ROUTE_JOB_SKIPS, "GET", "/v1/jobs/{job}/skips", {0}, COORDINATOR},
    {ROUTE_JOB_SKIP, "POST", "/v1/jobs/{job}/skips", {0}, COORDINATOR},
    {ROUTE_JOB_OFFSETS, "POST", "/v1/jobs/{job}/offsets", {0}, COORDINATOR},
    {ROUTE_PLAN, "POST", "/v1/plans", {0}, COORDINATOR},
    {ROUTE_MAINTENANCE_GET, "GET", "/v1/maintenance", {0}, COORDINATOR},
    {ROUTE_MAINTENANCE_PUT, "PUT", "/v1/maintenance", {0}, COORDINATOR},
    {ROUTE_BACKUP, "POST", "/v1/backups", {0}, COORDINATOR},
    {ROUTE_AGENTS_LIST, "GET", "/v1/agents", {0}, COORDINATOR},
    {ROUTE_AGENT_GET, "GET", "/v1/agents/{agent}", {0}, COORDINATOR},
    {ROUTE_AGENT_FORGET, "DELETE", "/v1/agents/{agent}", {0}, COORDINATOR},
    {ROUTE_ELIGIBILITY_GET, "GET", "/v1/agents/{agent}/eligibility", {0}, COORDINATOR},
    {ROUTE_ELIGIBILITY_PUT, "PUT", "/v1/agents/{agent}/eligibility", {0}, COORDINATOR},
    {ROUTE_DRAIN_GET, "GET", "/v1/agents/{agent}/drain", {0}, COORDINATOR},
    {ROUTE_DRAIN_PUT, "PUT", "/v1/agents/{agent}/drain", {0}, COORDINATOR},
    {ROUTE_DRAIN_CANCEL, "DELETE", "/v1/agents/{agent}/drain", {0}, COORDINATOR},
    {ROUTE_OPERATIONS_LIST,
     "GET",
     "/v1/operations",
     {"job", "state", "limit", "cursor"},
     COORDINATOR},
    {ROUTE_OPERATION_GET, "GET", "/v1/operations/{id}", {"wait"}, COORDINATOR},
    {ROUTE_OPERATION_CANCEL, "DELETE", "/v1/operations/{id}", {0}, COORDINATOR},
    {ROUTE_HANDOFFS_LIST, "GET", "/v1/handoffs", {"job", "state", "limit", "cursor"}, COORDINATOR},
    {ROUTE_HANDOFF_GET, "GET", "/v1/handoffs/{id}", {0}, COORDINATOR},
    {ROUTE_HANDOFF_CANCEL, "DELETE", "/v1/handoffs/{id}", {0}, COORDINATOR},
    {ROUTE_EVENTS, "GET", "/v1/events", {"after", "wait", "limit", "last", "job"}, COORDINATOR},

    {ROUTE_AGENT_REGISTER, "POST", "/agent/v1/agents", {0}, COORDINATOR},
    {ROUTE_AGENT_DEREGISTER, "DELETE", "/agent/v1/agents/{id}", {"incarnation"}, COORDINATOR},
    {ROUTE_AGENT_ASSIGNMENT,
     "GET",
     "/agent/v1/agents/{id}/assignment",
     {"incarnation", "after", "wait"},
     COORDINATOR},
    {ROUTE_AGENT_REPORT, "POST", "/agent/v1/agents/{id}/report", {0}, COORDINATOR},
    {ROUTE_SNAPSHOT,
     "GET",
     "/agent/v1/snapshots/{job}/{n}",
     {"incarnation", "session", "page"},
     AGENT},

    {ROUTE_HEALTHZ, "GET", "/healthz", {0}, BOTH},
    {ROUTE_READYZ, "GET", "/readyz", {0}, BOTH},
    {ROUTE_METRICS, "GET", "/metrics", {0}, BOTH},
    {ROUTE_VERSION, "GET", "/version", {0}, BOTH},
    {ROUTE_OPENAPI, "GET", "/openapi.json", {0}, COORDINATOR},
    {ROUTE_DASHBOARD, "GET", "/", {0}, COORDINATOR},
    {ROUTE_DASHBOARD_STYLE, "GET", "/web/dashboard.css", {0}, COORDINATOR},
    {ROUTE_DASHBOARD_SCRIPT, "GET", "/web/dashboard.js", {0}, COORDINATOR},
};

const struct route *routes_at(size_t index)
{
    return index < sizeof(routes) / sizeof(routes[0]) ? &routes[index] : NULL;
}

/* A route of the pattern matches the path, segment by segment; a parameter takes one that is not
 * empty. */
static bool path_matches(const char *pattern, const char *path,
                         char parameters[ROUTES_PARAMETERS_MAX][ROUTES_PARAMETER_BYTES])
{
    size_t parameter = 0;
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        size_t pattern_bytes = strcspn(pattern, "/");
        size_t path_bytes = strcspn(path, "/");
        if (*pattern == '{') {
            assert(parameter < ROUTES_PARAMETERS_MAX);
            if (path_bytes == 0 || path_bytes >= ROUTES_PARAMETER_BYTES)
                return false;
            memcpy(parameters[parameter], path, path_bytes);
            parameters[parameter++][path_bytes] = '\0';
        } else if (pattern_bytes != path_bytes || memcmp(pattern, path, path_bytes) != 0) {
            return false;
        }
        pattern += pattern_bytes;
        path += path_bytes;
    }
    return *pattern == '\0' && *path == '\0';
}

static void allow(struct route_match *match, const char *method)
{
    size_t bytes = strlen(match->allow);
    int length = snprintf(match->allow + bytes, sizeof(match->allow) - bytes, "%s%s",
                          bytes > 0 ? ", " : "", method);
    assert(length > 0 && (size_t)length < sizeof(match->allow) - bytes);
    if (strcmp(method, "GET") == 0)
        allow(match, "HEAD");
}

void routes_match(const char *method, const char *path, bool on_agent,
                  struct route_match *ret_match)
{
    *ret_match = (struct route_match){0};
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    const struct route *route;
    for (size_t i = 0; (route = routes_at(i)) != NULL; i++) {
        struct route_match match = {.route = route};
        if (!(on_agent ? route->on_agent : route->on_coordinator) ||
            !path_matches(route->path, path, match.parameters))
            continue;
        if (strcmp(route->method, wanted) == 0) {
            *ret_match = match;
            return;
        }
        allow(ret_match, route->method);
    }
}
