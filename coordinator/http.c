#include "coordinator/http.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/problem.h"
#include "common/logger.h"
#include "common/mem.h"
#include "coordinator/http_private.h"
#include "coordinator/request.h"

#define THREADS          2
#define RECEIVE_MS       30000
#define SEND_MS          60000
#define DRAIN_MS         2000
#define BODIES_BYTES_MAX ((size_t)512 * 1024 * 1024)
#define RETRY_AFTER_S    1
#define AGENT_PREFIX     "/agent/"

#define TYPE_JSON    "application/json"
#define TYPE_PROBLEM "application/problem+json"

/* ---- answers */

/* `value` stays the caller's. */
static struct httpd_response make_response(uint32_t status, const struct schema_type *type,
                                           const void *value)
{
    struct httpd_response response = {.status = status};
    if (type == NULL)
        return response;
    response.body = codec_encode(type, value, &response.body_bytes);
    httpd_response_header(&response, "Content-Type", "%s",
                          type == &schema_problem_body ? TYPE_PROBLEM : TYPE_JSON);
    /* What is true now need not be true in a moment. */
    httpd_response_header(&response, "Cache-Control", "no-store");
    return response;
}

/* Takes the problem. */
static struct httpd_response problem_response(struct problem_body *problem)
{
    struct httpd_response response = make_response(problem->status, &schema_problem_body, problem);
    if (problem->status == 503)
        httpd_response_header(&response, "Retry-After", "%d", RETRY_AFTER_S);
    schema_free(&schema_problem_body, problem);
    return response;
}

void exchange_problem(struct exchange *exchange, const char *code, const char *format, ...)
{
    char detail[API_TEXT_BYTES_MAX + 1];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(detail, sizeof(detail), format, args); /* a long text is cut */
    va_end(args);
    struct problem_body problem;
    problem_body(&problem, code, "%s", detail);
    struct httpd_response response = problem_response(&problem);
    if (strcmp(code, "method_not_allowed") == 0)
        httpd_response_header(&response, "Allow", "%s", exchange->match.allow);
    httpd_answer(exchange->request, &response);
}

void exchange_faults(struct exchange *exchange, struct codec_faults *faults)
{
    assert(faults->count > 0);
    struct problem_body problem;
    problem_body(&problem, "invalid_request", "%s %s", faults->items[0].pointer,
                 faults->items[0].detail);
    problem_take_faults(&problem, faults);
    struct httpd_response response = problem_response(&problem);
    httpd_answer(exchange->request, &response);
}

void exchange_value(struct exchange *exchange, const struct schema_type *type, const void *value,
                    uint64_t etag)
{
    struct httpd_response response = make_response(200, type, value);
    if (etag != 0)
        httpd_response_header(&response, "ETag", "\"%llu\"", (unsigned long long)etag);
    httpd_answer(exchange->request, &response);
}

void exchange_text(struct exchange *exchange, const char *content_type, char *text, size_t bytes,
                   bool is_static)
{
    struct httpd_response response = {
        .status = 200, .body = text, .body_bytes = bytes, .body_static = is_static};
    httpd_response_header(&response, "Content-Type", "%s", content_type);
    httpd_answer(exchange->request, &response);
}

/* The dashboard's own files, and nothing from anywhere else: names in the API come from outside. */
#define CONTENT_POLICY                                                                             \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "                \
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* Kept by browsers, but asked for each time: a new version of the program is seen at once. */
void exchange_file(struct exchange *exchange, const struct web_file *file)
{
    const char *known = httpd_header(exchange->request, "If-None-Match", NULL);
    struct httpd_response response = {.status = 304};
    if (known == NULL || strstr(known, file->etag) == NULL) {
        response.status = 200;
        response.body = (char *)file->text;
        response.body_bytes = file->bytes;
        response.body_static = true;
        httpd_response_header(&response, "Content-Type", "%s", file->content_type);
        httpd_response_header(&response, "Content-Security-Policy", "%s", CONTENT_POLICY);
        httpd_response_header(&response, "X-Content-Type-Options", "nosniff");
        httpd_response_header(&response, "Referrer-Policy", "no-referrer");
    }
    httpd_response_header(&response, "Cache-Control", "no-cache");
    httpd_response_header(&response, "ETag", "%s", file->etag);
    httpd_answer(exchange->request, &response);
}

void http_answer(void *context, struct answer *answer)
{
    struct http *http = context;
    struct httpd_response response = make_response(answer->status, answer->type, answer->body);
    if (answer->etag != 0)
        httpd_response_header(&response, "ETag", "\"%llu\"", (unsigned long long)answer->etag);
    if (answer->location != NULL)
        httpd_response_header(&response, "Location", "%s", answer->location);
    if (answer->retry_after_s != 0)
        httpd_response_header(&response, "Retry-After", "%u", answer->retry_after_s);
    else if (answer->status == 503)
        httpd_response_header(&response, "Retry-After", "%d", RETRY_AFTER_S);
    (void)httpd_respond(http->httpd, answer->request, &response); /* false: the client went */
    if (answer->body != NULL)
        schema_free(answer->type, answer->body);
    free(answer->body);
    free(answer->location);
    *answer = (struct answer){0};
}

/* ---- to the owner thread */

static void answer_busy(struct http *http, uint64_t token)
{
    struct problem_body problem;
    problem_body(&problem, "busy", "too many requests wait for the coordinator");
    struct httpd_response response = problem_response(&problem);
    (void)httpd_respond(http->httpd, token, &response); /* false: the client went */
}

void exchange_post(struct exchange *exchange, struct coord_event *event)
{
    struct http *http = exchange->http;
    event->request = httpd_defer(exchange->request);
    uint64_t token = event->request;
    if (!coordinator_post(http->config.sources.coordinator, event)) {
        coord_event_finish(event);
        answer_busy(http, token);
    }
}

void exchange_ask(struct exchange *exchange, struct archive_query *query)
{
    struct http *http = exchange->http;
    query->request = httpd_defer(exchange->request);
    uint64_t token = query->request;
    if (!coordinator_ask(http->config.sources.coordinator, query)) {
        archive_query_finish(query);
        answer_busy(http, token);
    }
}

/* ---- bodies */

static bool decode_by(enum err_code (*decode)(const struct schema_type *type, const char *text,
                                              size_t bytes, void *ret_value,
                                              struct codec_faults *reterr_faults,
                                              struct err *reterr),
                      struct exchange *exchange, const struct schema_type *type, void *ret_value)
{
    const struct httpd_request *request = exchange->request;
    if (!request_is_json(httpd_header(request, "Content-Type", NULL))) {
        exchange_problem(exchange, "unsupported_media_type",
                         "the body must be sent with Content-Type: application/json");
        return false;
    }
    struct codec_faults faults = {0};
    struct err err;
    enum err_code code = decode(type, request->body == NULL ? "" : request->body,
                                request->body_bytes, ret_value, &faults, &err);
    if (code == ERR_NONE)
        return true;
    if (code == ERR_INVALID)
        exchange_faults(exchange, &faults);
    else
        exchange_problem(exchange, "malformed_json", "%s", err.text);
    codec_faults_finish(&faults);
    return false;
}

bool exchange_decode(struct exchange *exchange, const struct schema_type *type, void *ret_value)
{
    return decode_by(codec_decode, exchange, type, ret_value);
}

bool exchange_decode_known(struct exchange *exchange, const struct schema_type *type,
                           void *ret_value)
{
    return decode_by(codec_decode_known, exchange, type, ret_value);
}

/* ---- the server's callbacks */

static bool is_agent_path(const char *path)
{
    return strncmp(path, AGENT_PREFIX, strlen(AGENT_PREFIX)) == 0;
}

static size_t body_bytes_max(void *context, const struct httpd_request *request)
{
    (void)context;
    return is_agent_path(request->target.path) ? API_AGENT_BODY_BYTES_MAX : API_BODY_BYTES_MAX;
}

static void refuse(void *context, const struct httpd_request *request, enum httpd_refusal refusal,
                   const char *detail, struct httpd_response *ret_response)
{
    static const char *const codes[] = {
        [HTTPD_REFUSAL_TARGET] = "malformed_target",
        [HTTPD_REFUSAL_TOO_LARGE] = "body_too_large",
        [HTTPD_REFUSAL_BUSY] = "busy",
        [HTTPD_REFUSAL_STOPPING] = "starting",
    };
    struct problem_body problem;
    (void)context;
    (void)request;
    problem_body(&problem, codes[refusal], "%s", detail);
    *ret_response = problem_response(&problem);
}

static void serve(struct exchange *exchange)
{
    const struct httpd_request *request = exchange->request;
    struct err err;
    if (exchange->match.route == NULL) {
        if (exchange->match.allow[0] != '\0')
            exchange_problem(exchange, "method_not_allowed", "%s does not take %s; it takes %s",
                             request->target.path, request->method, exchange->match.allow);
        else
            exchange_problem(exchange, "not_found", "there is nothing at %s", request->target.path);
        return;
    }
    if (request_check_query(&request->target, exchange->match.route, &err) != ERR_NONE) {
        exchange_problem(exchange, "invalid_query", "%s", err.text);
        return;
    }
    if (handlers_is_read(exchange->match.route->id))
        handlers_read(exchange);
    else
        handlers_write(exchange);
}

/* The route is kept with the request, for the count of answers. */
static void handle(void *context, struct httpd *httpd, struct httpd_request *request)
{
    struct exchange exchange = {.http = context, .httpd = httpd, .request = request};
    routes_match(request->method, request->target.path, false, &exchange.match);
    request->context = (void *)exchange.match.route;
    serve(&exchange);
}

static void gone(void *context, uint64_t token)
{
    struct http *http = context;
    struct coord_event event = {.kind = COORD_EVENT_REQUEST_GONE, .request = token};
    /* When it is not accepted, the wait ends at its deadline, with an answer to nobody. */
    if (!coordinator_post(http->config.sources.coordinator, &event))
        coord_event_finish(&event);
}

static void finished(void *context, const struct httpd_request *request, uint32_t status)
{
    struct http *http = context;
    const struct route *route = request->context;
    metrics_count_request(&http->requests, route == NULL ? METRICS_NO_ROUTE : route->id, status);
    log_debug("http_request", LOG_STR("method", request->method),
              LOG_STR("path", request->target.path), LOG_STR("peer", request->peer),
              LOG_INT("status", status), LOG_END);
}

/* Of libmicrohttpd; mostly about clients that speak something else or went away. */
static void message(void *context, const char *text)
{
    (void)context;
    log_debug("http_message", LOG_STR("text", text), LOG_END);
}

/* ---- life */

struct http *http_create(void)
{
    return mem_calloc(1, sizeof(struct http));
}

void http_destroy(struct http *http)
{
    if (http == NULL)
        return;
    httpd_destroy(http->httpd);
    free(http);
}

enum err_code http_start(struct http *http, const struct http_config *config,
                         const struct listener *listener, struct err *reterr)
{
    http->config = *config;
    struct httpd_config server = {
        .listen_fd = listener->fd,
        .threads = THREADS,
        .connections_max = config->connections_max,
        .receive_ms = RECEIVE_MS,
        .send_ms = SEND_MS,
        .bodies_bytes_max = BODIES_BYTES_MAX,
        .context = http,
        .body_bytes_max = body_bytes_max,
        .handle = handle,
        .refuse = refuse,
        .gone = gone,
        .finished = finished,
        .message = message,
    };
    enum err_code code = httpd_start(&server, &http->httpd, reterr);
    struct httpd_counts counts;
    if (code != ERR_NONE)
        return code;
    httpd_count(http->httpd, &counts);
    if (counts.connections_max < config->connections_max)
        log_warn("http_connections_limited", LOG_INT("wanted", config->connections_max),
                 LOG_INT("allowed", counts.connections_max),
                 LOG_STR("detail", "the limit of open files is too low for http_connections_max"),
                 LOG_END);
    return ERR_NONE;
}

void http_stop(struct http *http)
{
    if (http != NULL)
        httpd_stop(http->httpd, DRAIN_MS);
}
