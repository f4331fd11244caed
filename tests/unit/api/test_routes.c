#include "api/routes.h"

#include <criterion/criterion.h>
#include <string.h>

Test(routes, matches)
{
    static const struct {
        const char *method, *path;
        enum route_id id;
        const char *first, *second;
    } cases[] = {
        {"GET", "/v1/jobs", ROUTE_JOBS_LIST, "", ""},
        {"HEAD", "/v1/jobs", ROUTE_JOBS_LIST, "", ""},
        {"PUT", "/v1/jobs/orders", ROUTE_JOB_PUT, "orders", ""},
        {"GET", "/v1/jobs/orders", ROUTE_JOB_GET, "orders", ""},
        {"DELETE", "/v1/jobs/orders", ROUTE_JOB_DELETE, "orders", ""},
        {"GET", "/v1/jobs/status", ROUTE_JOB_GET, "status", ""},
        {"GET", "/v1/jobs/status/status", ROUTE_JOB_STATUS, "status", ""},
        {"GET", "/v1/jobs/orders/problems", ROUTE_JOB_PROBLEMS, "orders", ""},
        {"GET", "/v1/jobs/orders/processors", ROUTE_JOB_PROCESSORS, "orders", ""},
        {"GET", "/v1/jobs/orders/processors/17", ROUTE_JOB_PROCESSOR, "orders", "17"},
        {"GET", "/v1/jobs/orders/map", ROUTE_JOB_MAP, "orders", ""},
        {"GET", "/v1/jobs/a b?{}", ROUTE_JOB_GET, "a b?{}", ""},
        {"GET", "/v1/agents", ROUTE_AGENTS_LIST, "", ""},
        {"GET", "/v1/agents/a1", ROUTE_AGENT_GET, "a1", ""},
        {"DELETE", "/v1/agents/a1", ROUTE_AGENT_FORGET, "a1", ""},
        {"GET", "/v1/operations", ROUTE_OPERATIONS_LIST, "", ""},
        {"GET", "/v1/operations/op-1", ROUTE_OPERATION_GET, "op-1", ""},
        {"DELETE", "/v1/operations/op-1", ROUTE_OPERATION_CANCEL, "op-1", ""},
        {"GET", "/v1/events", ROUTE_EVENTS, "", ""},
        {"POST", "/agent/v1/agents", ROUTE_AGENT_REGISTER, "", ""},
        {"DELETE", "/agent/v1/agents/a1", ROUTE_AGENT_DEREGISTER, "a1", ""},
        {"GET", "/agent/v1/agents/a1/assignment", ROUTE_AGENT_ASSIGNMENT, "a1", ""},
        {"POST", "/agent/v1/agents/a1/report", ROUTE_AGENT_REPORT, "a1", ""},
        {"GET", "/healthz", ROUTE_HEALTHZ, "", ""},
        {"GET", "/readyz", ROUTE_READYZ, "", ""},
        {"GET", "/metrics", ROUTE_METRICS, "", ""},
        {"GET", "/version", ROUTE_VERSION, "", ""},
        {"GET", "/openapi.json", ROUTE_OPENAPI, "", ""},
        {"GET", "/", ROUTE_DASHBOARD, "", ""},
        {"GET", "/web/dashboard.css", ROUTE_DASHBOARD_STYLE, "", ""},
        {"GET", "/web/dashboard.js", ROUTE_DASHBOARD_SCRIPT, "", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct route_match match;
        routes_match(cases[i].method, cases[i].path, false, &match);
        cr_assert_not_null(match.route, "%s %s", cases[i].method, cases[i].path);
        cr_assert_eq(match.route->id, cases[i].id, "%s", cases[i].path);
        cr_assert_str_eq(match.parameters[0], cases[i].first);
        cr_assert_str_eq(match.parameters[1], cases[i].second);
        cr_assert_str_eq(match.allow, "");
    }
}

Test(routes, no_such_path)
{
    static const char *const paths[] = {"",
                                        "/web",
                                        "/web/",
                                        "//",
                                        "v1/jobs",
                                        "/v1",
                                        "/v1/",
                                        "/v1/jobs/",
                                        "/v1/jobs//status",
                                        "/v1/jobs/orders/",
                                        "/v1/jobs/orders/status/",
                                        "/v1/jobs/orders/Status",
                                        "/v1/jobs/orders/statusx",
                                        "/v1/jobs/orders/processors/1/2",
                                        "/v1//jobs",
                                        "/V1/jobs",
                                        "/v1/job",
                                        "/v2/jobs",
                                        "/healthz/",
                                        "/agent/v1/agents/a1/assignments",
                                        "/{job}"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct route_match match;
        routes_match("GET", paths[i], false, &match);
        cr_assert_null(match.route, "%s", paths[i]);
        cr_assert_str_eq(match.allow, "", "%s", paths[i]);
    }
}

Test(routes, other_methods_of_a_path_are_told)
{
    static const struct {
        const char *method, *path, *allow;
        bool on_agent;
    } cases[] = {
        {"POST", "/v1/jobs", "GET, HEAD", false},
        {"PATCH", "/v1/jobs/a", "PUT, GET, HEAD, DELETE", false},
        {"OPTIONS", "/agent/v1/agents", "POST", false},
        {"GET", "/agent/v1/agents", "POST", false},
        {"HEAD", "/agent/v1/agents/a1/report", "POST", false},
        {"get", "/v1/jobs", "GET, HEAD", false},
        {"DELETE", "/healthz", "GET, HEAD", true},
        {"POST", "/v1/jobs", "", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct route_match match;
        routes_match(cases[i].method, cases[i].path, cases[i].on_agent, &match);
        cr_assert_null(match.route);
        cr_assert_str_eq(match.allow, cases[i].allow, "%s %s", cases[i].method, cases[i].path);
    }
}

Test(routes, an_agent_has_its_own)
{
    static const char *const own[] = {"/healthz", "/readyz", "/metrics", "/version"};
    static const char *const others[] = {"/v1/jobs", "/openapi.json", "/v1/agents/a1"};
    struct route_match match;
    for (size_t i = 0; i < 4; i++) {
        routes_match("GET", own[i], true, &match);
        cr_assert_not_null(match.route, "%s", own[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        routes_match("GET", others[i], true, &match);
        cr_assert_null(match.route, "%s", others[i]);
    }
}

Test(routes, a_parameter_has_a_limit)
{
    char path[sizeof("/v1/jobs/") + ROUTES_PARAMETER_BYTES] = "/v1/jobs/";
    size_t start = strlen(path);
    memset(path + start, 'a', ROUTES_PARAMETER_BYTES - 1);
    struct route_match match;
    routes_match("GET", path, false, &match);
    cr_assert_not_null(match.route);
    cr_assert_str_eq(match.parameters[0], path + start);

    path[start + ROUTES_PARAMETER_BYTES - 1] = 'a';
    routes_match("GET", path, false, &match);
    cr_assert_null(match.route);
}

Test(routes, the_table_is_in_order)
{
    const struct route *route;
    size_t i = 0;
    for (; (route = routes_at(i)) != NULL; i++) {
        cr_assert_eq((size_t)route->id, i, "%s %s", route->method, route->path);
        cr_assert(route->on_coordinator || route->on_agent);
        cr_assert_null(route->query[5], "no NULL after the last one");
    }
    cr_assert_eq(i, ROUTE_DASHBOARD_SCRIPT + 1);
}
