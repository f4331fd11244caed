#include "agent/endpoint.h"
#include "agent/endpoint_snapshot.h"

#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/problem.h"
#include "api/protocol.h"
#include "api/routes.h"
#include "common/clock.h"
#include "common/httpd.h"
#include "common/listener.h"
#include "common/logger.h"
#include "common/mem.h"
#include "common/prom.h"

#define CONNECTIONS_MAX  64
#define RECEIVE_MS       10000
#define SEND_MS          30000
#define BODIES_BYTES_MAX 65536
#define DRAIN_MS         500

struct shared_view {
    struct metrics_view *view;
    unsigned references; /* under the endpoint's lock */
};

struct endpoint {
    struct listener listener;
    struct snapshot_serve *snapshots;
    struct httpd *httpd;
    _Atomic int64_t beat_ms;
    pthread_mutex_t lock; /* protects `shared` and the counts of references; nothing is called */
    struct shared_view *shared; /* never NULL */
};

static void check(int rc)
{
    assert(rc == 0);
}

static struct shared_view *acquire(struct endpoint *endpoint)
{
    check(pthread_mutex_lock(&endpoint->lock));
    struct shared_view *shared = endpoint->shared;
    shared->references++;
    check(pthread_mutex_unlock(&endpoint->lock));
    return shared;
}

static void release(struct endpoint *endpoint, struct shared_view *shared)
{
    check(pthread_mutex_lock(&endpoint->lock));
    bool is_last = --shared->references == 0;
    check(pthread_mutex_unlock(&endpoint->lock));
    if (!is_last)
        return;
    metrics_view_destroy(shared->view);
    free(shared);
}

void endpoint_publish(struct endpoint *endpoint, struct metrics_view *view)
{
    struct shared_view *shared = mem_calloc(1, sizeof(*shared));
    *shared = (struct shared_view){.view = view, .references = 1};
    check(pthread_mutex_lock(&endpoint->lock));
    struct shared_view *old = endpoint->shared;
    endpoint->shared = shared;
    check(pthread_mutex_unlock(&endpoint->lock));
    release(endpoint, old);
}

void endpoint_beat(struct endpoint *endpoint, int64_t now_ms)
{
    atomic_store(&endpoint->beat_ms, now_ms);
}

/* ---- answers */

static struct httpd_response text_response(uint32_t status, const char *type, char *body,
                                           size_t bytes)
{
    struct httpd_response response = {.status = status, .body = body, .body_bytes = bytes};
    httpd_response_header(&response, "Content-Type", "%s", type);
    httpd_response_header(&response, "Cache-Control", "no-store");
    return response;
}

static struct httpd_response problem_response(const char *code, const char *detail)
{
    struct problem_body problem;
    size_t bytes;
    problem_body(&problem, code, "%s", detail);
    char *body = codec_encode(&schema_problem_body, &problem, &bytes);
    struct httpd_response response =
        text_response(problem.status, "application/problem+json", body, bytes);
    if (problem.status == 503)
        httpd_response_header(&response, "Retry-After", "1");
    schema_free(&schema_problem_body, &problem);
    return response;
}

static struct httpd_response ok_response(void)
{
    return text_response(200, "text/plain; charset=utf-8", mem_strdup("ok\n"), 3);
}

static struct httpd_response answer_health(struct endpoint *endpoint)
{
    int64_t silent_ms = clock_mono_ms() - atomic_load(&endpoint->beat_ms);
    if (silent_ms <= ENDPOINT_BEAT_MS_MAX)
        return ok_response();
    char *detail = mem_printf("the control thread has shown no sign of life for %lld ms",
                              (long long)silent_ms);
    struct httpd_response response = problem_response("starting", detail);
    free(detail);
    return response;
}

static struct httpd_response answer_ready(struct endpoint *endpoint)
{
    struct shared_view *shared = acquire(endpoint);
    struct httpd_response response =
        shared->view->ready ? ok_response() : problem_response("starting", shared->view->reason);
    release(endpoint, shared);
    return response;
}

static struct httpd_response answer_metrics(struct endpoint *endpoint)
{
    struct strbuf buf = {0};
    struct shared_view *shared = acquire(endpoint);
    metrics_print(shared->view, rd_kafka_version_str(), &buf);
    release(endpoint, shared);
    size_t bytes = buf.bytes;
    return text_response(200, PROM_CONTENT_TYPE, strbuf_take(&buf), bytes);
}

static struct httpd_response answer_version(void)
{
    struct version_view version = {.version = (char *)BATON_VERSION,
                                   .component = (char *)"baton-agent",
                                   .protocol = protocol_own().version,
                                   .protocol_minimum = protocol_own().minimum,
                                   .librdkafka = (char *)rd_kafka_version_str(),
                                   .microhttpd = (char *)MHD_get_version()};
    size_t bytes;
    char *body = codec_encode(&schema_version_view, &version, &bytes);
    return text_response(200, "application/json", body, bytes);
}

static struct httpd_response answer_snapshot(struct endpoint *endpoint,
                                             const struct httpd_request *request,
                                             const struct route_match *match)
{
    char *page;
    size_t bytes;
    char detail[ERR_TEXT_BYTES];
    const char *code =
        endpoint_snapshot(endpoint->snapshots, request, match, &page, &bytes, detail);

    return code != NULL ? problem_response(code, detail)
                        : text_response(200, "application/octet-stream", page, bytes);
}

static struct httpd_response no_route(const struct httpd_request *request, const char *allow)
{
    if (allow[0] == '\0')
        return problem_response("not_found", "the agent has /healthz, /readyz, /metrics and "
                                             "/version; the API is the coordinator's");
    char *detail = mem_printf("%.16s is not among %s", request->method, allow);
    struct httpd_response response = problem_response("method_not_allowed", detail);
    httpd_response_header(&response, "Allow", "%s", allow);
    free(detail);
    return response;
}

static struct httpd_response respond(struct endpoint *endpoint, const struct httpd_request *request)
{
    struct route_match match;
    routes_match(request->method, request->target.path, true, &match);
    if (match.route == NULL)
        return no_route(request, match.allow);
    if (match.route->id == ROUTE_SNAPSHOT)
        return answer_snapshot(endpoint, request, &match);
    if (request->target.query_count > 0)
        return problem_response("invalid_query", "this path takes no query parameters");
    switch (match.route->id) {
    case ROUTE_HEALTHZ:
        return answer_health(endpoint);
    case ROUTE_READYZ:
        return answer_ready(endpoint);
    case ROUTE_METRICS:
        return answer_metrics(endpoint);
    case ROUTE_VERSION:
        return answer_version();
    default:
        assert(!"a route of the agent without an answer");
        abort();
    }
}

/* ---- callbacks of the server; HTTP thread */

static size_t on_body_bytes_max(void *context, const struct httpd_request *request)
{
    (void)context;
    (void)request;
    return 0; /* no route takes one */
}

static void on_request(void *context, struct httpd *httpd, struct httpd_request *request)
{
    (void)httpd;
    struct httpd_response response = respond(context, request);
    httpd_answer(request, &response);
}

static const char *refusal_code(enum httpd_refusal refusal)
{
    switch (refusal) {
    case HTTPD_REFUSAL_TOO_LARGE:
        return "body_too_large";
    case HTTPD_REFUSAL_BUSY:
        return "busy";
    case HTTPD_REFUSAL_STOPPING:
        return "starting";
    default:
        return "malformed_target";
    }
}

static void on_refusal(void *context, const struct httpd_request *request,
                       enum httpd_refusal refusal, const char *detail,
                       struct httpd_response *ret_response)
{
    (void)context;
    (void)request;
    *ret_response = problem_response(refusal_code(refusal), detail);
}

static void on_message(void *context, const char *text)
{
    (void)context;
    log_debug("httpd", LOG_STR("text", text), LOG_END);
}

enum err_code endpoint_start(const char *listen, struct snapshot_serve *snapshots,
                             struct endpoint **ret_endpoint, struct err *reterr)
{
    struct endpoint *endpoint = mem_calloc(1, sizeof(*endpoint));
    struct metrics_view *view = mem_calloc(1, sizeof(*view));

    endpoint->snapshots = snapshots;
    view->reason = "the agent is starting";
    endpoint->shared = mem_calloc(1, sizeof(*endpoint->shared));
    *endpoint->shared = (struct shared_view){.view = view, .references = 1};
    check(pthread_mutex_init(&endpoint->lock, NULL));
    atomic_init(&endpoint->beat_ms, clock_mono_ms());

    enum err_code code = listener_open(listen, &endpoint->listener, reterr);
    if (code == ERR_NONE) {
        struct httpd_config config = {
            .listen_fd = endpoint->listener.fd,
            .threads = 2, /* a page that waits for the disk holds up half of the connections */
            .connections_max = CONNECTIONS_MAX,
            .receive_ms = RECEIVE_MS,
            .send_ms = SEND_MS,
            .bodies_bytes_max = BODIES_BYTES_MAX,
            .context = endpoint,
            .body_bytes_max = on_body_bytes_max,
            .handle = on_request,
            .refuse = on_refusal,
            .message = on_message,
        };
        code = httpd_start(&config, &endpoint->httpd, reterr);
    }
    if (code != ERR_NONE) {
        endpoint_destroy(endpoint);
        return code;
    }
    *ret_endpoint = endpoint;
    return ERR_NONE;
}

const char *endpoint_address(const struct endpoint *endpoint)
{
    return endpoint->listener.address;
}

void endpoint_destroy(struct endpoint *endpoint)
{
    if (endpoint == NULL)
        return;
    httpd_stop(endpoint->httpd, DRAIN_MS);
    httpd_destroy(endpoint->httpd);
    release(endpoint, endpoint->shared);
    check(pthread_mutex_destroy(&endpoint->lock));
    free(endpoint);
}
