#include "common/httpd.h"
#include "common/httpd_private.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

/*
 * A body that is too large is read and thrown away up to here before it is refused, so that the
 * client, which may look for an answer only after it has sent all, gets the answer and not a reset
 * connection.
 */
#define DISCARD_BYTES_MAX  ((size_t)32 * 1024 * 1024)
#define BODY_BYTES_FIRST   ((size_t)4096)
#define HEAD_BYTES_MAX     ((size_t)32 * 1024)
#define THREADS_MAX        16
#define HEADER_VALUE_BYTES 1024 /* of an answer; they are the program's own */
/* Descriptors that the rest of the process needs: databases, Kafka connections, logs. */
#define OTHER_FILES 512

/* ---- bodies */

static bool reserve_body_bytes(struct httpd *httpd, size_t bytes)
{
    uint64_t total = __atomic_add_fetch(&httpd->counts.body_bytes, bytes, __ATOMIC_RELAXED);
    if (total <= httpd->config.bodies_bytes_max)
        return true;
    (void)__atomic_sub_fetch(&httpd->counts.body_bytes, bytes, __ATOMIC_RELAXED);
    return false;
}

static void free_body(struct httpd_exchange *exchange)
{
    (void)__atomic_sub_fetch(&exchange->httpd->counts.body_bytes, exchange->body_capacity,
                             __ATOMIC_RELAXED);
    free(exchange->body);
    exchange->body = NULL;
    exchange->body_capacity = 0;
    exchange->body_bytes = 0;
}

static void refuse(struct httpd_exchange *exchange, enum httpd_refusal refusal, const char *detail)
{
    exchange->refused = true;
    exchange->refusal = refusal;
    (void)snprintf(exchange->refusal_detail, sizeof(exchange->refusal_detail), "%s", detail);
    free_body(exchange);
}

static void refuse_too_large(struct httpd_exchange *exchange)
{
    char detail[80];
    (void)snprintf(detail, sizeof(detail), "the body may have at most %zu bytes",
                   exchange->body_bytes_max);
    refuse(exchange, HTTPD_REFUSAL_TOO_LARGE, detail);
}

/* Room for `bytes` and a NUL. */
static bool grow_body(struct httpd_exchange *exchange, size_t bytes)
{
    size_t wanted = exchange->body_capacity == 0 ? BODY_BYTES_FIRST : exchange->body_capacity;
    while (wanted < bytes + 1)
        wanted *= 2;
    if (wanted == exchange->body_capacity)
        return true;
    if (!reserve_body_bytes(exchange->httpd, wanted - exchange->body_capacity))
        return false;
    exchange->body = mem_realloc(exchange->body, wanted, 1);
    exchange->body_capacity = wanted;
    return true;
}

/* False: the connection is to be closed without an answer. */
static bool add_body(struct httpd_exchange *exchange, const char *data, size_t bytes)
{
    if (!exchange->refused && bytes > exchange->body_bytes_max - exchange->body_bytes)
        refuse_too_large(exchange);
    if (!exchange->refused && !grow_body(exchange, exchange->body_bytes + bytes))
        refuse(exchange, HTTPD_REFUSAL_BUSY, "too many requests with large bodies at a time");
    if (exchange->refused) {
        exchange->body_bytes_discarded += bytes;
        return exchange->body_bytes_discarded <= DISCARD_BYTES_MAX;
    }
    assert(exchange->body != NULL);
    memcpy(exchange->body + exchange->body_bytes, data, bytes);
    exchange->body_bytes += bytes;
    exchange->body[exchange->body_bytes] = '\0';
    return true;
}

/* ---- answers */

void httpd_response_finish(struct httpd_response *response)
{
    for (size_t i = 0; i < response->header_count; i++)
        free(response->headers[i].value);
    if (!response->body_static)
        free(response->body);
    *response = (struct httpd_response){0};
}

void httpd_response_header(struct httpd_response *response, const char *name, const char *format,
                           ...)
{
    char value[HEADER_VALUE_BYTES];
    va_list args;
    assert(response->header_count < HTTPD_HEADERS_MAX);
    va_start(args, format);
    int length = vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    assert(length >= 0 && (size_t)length < sizeof(value));
    response->headers[response->header_count].name = name;
    response->headers[response->header_count].value = mem_strdup(value);
    response->header_count++;
}

/* Takes over the exchange's response. */
static enum MHD_Result queue_response(struct httpd_exchange *exchange)
{
    struct httpd *httpd = exchange->httpd;
    struct httpd_response *response = &exchange->response;
    assert(exchange->answered);
    struct MHD_Response *mhd = MHD_create_response_from_buffer(
        response->body_bytes, response->body,
        response->body_static ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
    if (mhd == NULL)
        return MHD_NO; /* without memory the connection closes */
    response->body = NULL;
    enum MHD_Result result = MHD_YES;
    for (size_t i = 0; i < response->header_count && result == MHD_YES; i++)
        result =
            MHD_add_response_header(mhd, response->headers[i].name, response->headers[i].value);
    uint32_t status = response->status;
    httpd_response_finish(response);

    httpd_set_phase(httpd, exchange->connection, HTTPD_PHASE_SENDING);
    if (result == MHD_YES && !exchange->dropped && httpd->config.finished != NULL)
        httpd->config.finished(httpd->config.context, &exchange->request, status);
    if (result == MHD_YES)
        result = MHD_queue_response(exchange->mhd, status, mhd);
    MHD_destroy_response(mhd);
    return result;
}

static void answer_refusal(struct httpd_exchange *exchange)
{
    struct httpd *httpd = exchange->httpd;
    httpd->config.refuse(httpd->config.context, &exchange->request, exchange->refusal,
                         exchange->refusal_detail, &exchange->response);
    exchange->answered = true;
}

void httpd_answer(struct httpd_request *request, struct httpd_response *response)
{
    struct httpd_exchange *exchange = (struct httpd_exchange *)request;
    assert(!exchange->chosen);
    exchange->chosen = true;
    exchange->answered = true;
    exchange->response = *response;
    *response = (struct httpd_response){0};
}

struct header_search {
    const char *name, *value;
    size_t count;
};

static enum MHD_Result find_header(void *context, enum MHD_ValueKind kind, const char *key,
                                   const char *value)
{
    struct header_search *search = context;
    (void)kind; /* asked for headers only */
    if (strcasecmp(key, search->name) == 0) {
        search->value = search->count == 0 ? value : search->value;
        search->count++;
    }
    return MHD_YES;
}

const char *httpd_header(const struct httpd_request *request, const char *name, bool *ret_repeated)
{
    const struct httpd_exchange *exchange = (const struct httpd_exchange *)request;
    struct header_search search = {.name = name};
    (void)MHD_get_connection_values(exchange->mhd, MHD_HEADER_KIND, find_header, &search);
    if (ret_repeated != NULL)
        *ret_repeated = search.count > 1;
    return search.value;
}

/* ---- deferred requests */

uint64_t httpd_defer(struct httpd_request *request)
{
    struct httpd_exchange *exchange = (struct httpd_exchange *)request;
    struct httpd *httpd = exchange->httpd;
    assert(!exchange->chosen);
    exchange->chosen = true;
    free_body(exchange); /* waits can be long */
    exchange->request.body = NULL;
    exchange->request.body_bytes = 0;

    pthread_mutex_lock(&httpd->lock);
    uint64_t token = ++httpd->token;
    exchange->token = token;
    MHD_suspend_connection(exchange->mhd);
    struct httpd_exchange **bucket = &httpd->deferred[token % HTTPD_BUCKETS];
    exchange->next = *bucket;
    *bucket = exchange;
    httpd->counts.deferred++;
    httpd_watch_add(httpd, exchange);
    bool stopping = httpd->stopping;
    pthread_mutex_unlock(&httpd->lock);

    if (stopping) {
        struct httpd_response response = {0};
        httpd->config.refuse(httpd->config.context, request, HTTPD_REFUSAL_STOPPING,
                             "the server is stopping", &response);
        (void)httpd_respond(httpd, token, &response); /* false: its client went first */
    }
    return token;
}

struct httpd_exchange *httpd_take_deferred(struct httpd *httpd, uint64_t token)
{
    struct httpd_exchange **at = &httpd->deferred[token % HTTPD_BUCKETS];
    while (*at != NULL && (*at)->token != token)
        at = &(*at)->next;
    struct httpd_exchange *exchange = *at;
    if (exchange == NULL)
        return NULL;
    *at = exchange->next;
    exchange->next = NULL;
    httpd->counts.deferred--;
    httpd_watch_remove(httpd, exchange);
    return exchange;
}

void httpd_resume(struct httpd_exchange *exchange)
{
    assert(exchange->answered || exchange->dropped);
    MHD_resume_connection(exchange->mhd);
}

bool httpd_respond(struct httpd *httpd, uint64_t token, struct httpd_response *response)
{
    pthread_mutex_lock(&httpd->lock);
    struct httpd_exchange *exchange = httpd_take_deferred(httpd, token);
    if (exchange != NULL) {
        exchange->response = *response;
        *response = (struct httpd_response){0};
        exchange->answered = true;
        httpd_resume(exchange);
    }
    pthread_mutex_unlock(&httpd->lock);
    httpd_response_finish(response);
    return exchange != NULL;
}

/* ---- libmicrohttpd's callbacks; all but `on_panic` run in an HTTP thread */

/* We decode the target ourselves, strictly: libmicrohttpd is told to leave escapes as they are. */
static size_t keep_escapes(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context;
    (void)mhd;
    return strlen(text);
}

/* The request line is there. What is returned comes back as *exchange_pointer below. */
static void *on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
    struct httpd *httpd = context;
    struct httpd_exchange *exchange = mem_calloc(1, sizeof(*exchange));
    exchange->httpd = httpd;
    exchange->mhd = mhd;
    exchange->connection =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    exchange->request.peer = exchange->connection->peer;

    struct err err;
    if (httpd_target_parse(target, &exchange->request.target, &err) != ERR_NONE) {
        refuse(exchange, HTTPD_REFUSAL_TARGET, err.text);
        exchange->request.target.path = "";
    }
    pthread_mutex_lock(&httpd->lock);
    httpd->open_requests++;
    pthread_mutex_unlock(&httpd->lock);
    return exchange;
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **exchange_pointer,
                         enum MHD_RequestTerminationCode code)
{
    struct httpd *httpd = context;
    struct httpd_exchange *exchange = *exchange_pointer;
    (void)mhd;
    (void)code;
    if (exchange == NULL)
        return;
    httpd_set_phase(httpd, exchange->connection, HTTPD_PHASE_RECEIVING);
    pthread_mutex_lock(&httpd->lock);
    if (--httpd->open_requests == 0)
        pthread_cond_broadcast(&httpd->idle);
    pthread_mutex_unlock(&httpd->lock);

    free_body(exchange);
    httpd_response_finish(&exchange->response);
    httpd_target_finish(&exchange->request.target);
    free(exchange);
    *exchange_pointer = NULL;
}

/* False when there is no such header, or it is not a number (libmicrohttpd refuses that itself). */
static bool declared_body_bytes(const struct httpd_exchange *exchange, uint64_t *ret_bytes)
{
    const char *text = httpd_header(&exchange->request, MHD_HTTP_HEADER_CONTENT_LENGTH, NULL);
    if (text == NULL || text[0] == '\0' || text[strspn(text, "0123456789")] != '\0')
        return false;
    errno = 0;
    *ret_bytes = strtoull(text, NULL, 10);
    if (errno == ERANGE)
        *ret_bytes = UINT64_MAX;
    return true;
}

/*
 * The head is there, the body is not read. A client that waits for "100 Continue", or declares so
 * much that we would not even throw it away, is refused at once; others are let finish, so that
 * they see the answer.
 */
static enum MHD_Result on_head(struct httpd_exchange *exchange, const char *method)
{
    struct httpd *httpd = exchange->httpd;
    exchange->head_seen = true;
    exchange->request.method = method;
    exchange->body_bytes_max =
        httpd->config.body_bytes_max(httpd->config.context, &exchange->request);
    uint64_t declared = 0;
    if (!declared_body_bytes(exchange, &declared))
        return MHD_YES;
    if (!exchange->refused && declared > exchange->body_bytes_max)
        refuse_too_large(exchange);
    bool expects = httpd_header(&exchange->request, MHD_HTTP_HEADER_EXPECT, NULL) != NULL;
    if (exchange->refused && (expects || declared > DISCARD_BYTES_MAX)) {
        answer_refusal(exchange);
        return queue_response(exchange);
    }
    return MHD_YES;
}

/*
 * Mostly nobody reads this, and sending it is how libmicrohttpd finds out without a message about
 * an error. A client that has only shut down its own side does read it.
 */
static enum MHD_Result end_dropped(struct httpd_exchange *exchange)
{
    exchange->refusal = HTTPD_REFUSAL_BUSY;
    (void)snprintf(exchange->refusal_detail, sizeof(exchange->refusal_detail),
                   "the connection was ended while the request waited for its answer");
    answer_refusal(exchange);
    httpd_response_header(&exchange->response, MHD_HTTP_HEADER_CONNECTION, "close");
    return queue_response(exchange);
}

static enum MHD_Result on_complete(struct httpd_exchange *exchange)
{
    struct httpd *httpd = exchange->httpd;
    if (exchange->dropped)
        return end_dropped(exchange);
    if (exchange->answered)
        return queue_response(exchange);

    httpd_set_phase(httpd, exchange->connection, HTTPD_PHASE_HANDLING);
    if (exchange->refused) {
        answer_refusal(exchange);
        return queue_response(exchange);
    }
    exchange->request.body = exchange->body;
    exchange->request.body_bytes = exchange->body_bytes;
    httpd->config.handle(httpd->config.context, httpd, &exchange->request);
    assert(exchange->chosen);
    /* A deferred exchange may be another thread's by now: not looked at until it is resumed. */
    if (exchange->token != 0)
        return MHD_YES;
    return queue_response(exchange);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_bytes, void **exchange_pointer)
{
    struct httpd_exchange *exchange = *exchange_pointer;
    (void)context;
    (void)mhd;
    (void)url;
    (void)version;
    if (!exchange->head_seen)
        return on_head(exchange, method);
    if (*data_bytes > 0) {
        bool go_on = add_body(exchange, data, *data_bytes);
        *data_bytes = 0;
        return go_on ? MHD_YES : MHD_NO;
    }
    return on_complete(exchange);
}

static void on_message(void *context, const char *format, va_list args)
{
    const struct httpd *httpd = context;
    char text[256];
    if (httpd->config.message == NULL)
        return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the format is libmicrohttpd's */
    int length = vsnprintf(text, sizeof(text), format, args);
#pragma GCC diagnostic pop
    if (length <= 0)
        return;
    size_t end = strcspn(text, "\n");
    text[end] = '\0';
    httpd->config.message(httpd->config.context, text);
}

/* ---- start and stop */

/* Raises the soft limit of open files as far as needed and allowed; returns the connections that
 * fit. */
static unsigned fit_connections(unsigned wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return wanted;
    rlim_t needed = (rlim_t)wanted + OTHER_FILES;
    if (limit.rlim_cur < needed) {
        limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* what is allowed then is read below */
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= needed)
        return wanted;
    return limit.rlim_cur > 2 * OTHER_FILES ? (unsigned)(limit.rlim_cur - OTHER_FILES)
                                            : (unsigned)limit.rlim_cur / 2;
}

static enum err_code start_daemon(struct httpd *httpd, struct err *reterr)
{
    unsigned connections = fit_connections(httpd->config.connections_max);
    if (connections < httpd->config.threads)
        connections = httpd->config.threads;
    httpd->counts.connections_max = connections;
    /* libmicrohttpd counts its own timeout in seconds and starts it anew with each byte; the
     * watcher is what bounds a connection. */
    unsigned timeout_s = (unsigned)((httpd->config.receive_ms + 999) / 1000) + 1;
    struct MHD_OptionItem pool[] = {{MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
    if (httpd->config.threads > 1)
        pool[0] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE,
                                          (intptr_t)httpd->config.threads, NULL};
    errno = 0;
    httpd->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        on_request, httpd, MHD_OPTION_EXTERNAL_LOGGER, on_message, httpd, MHD_OPTION_LISTEN_SOCKET,
        httpd->listen_fd, MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT,
        timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEAD_BYTES_MAX, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, httpd, MHD_OPTION_NOTIFY_CONNECTION, httpd_on_connection, httpd,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, httpd, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes,
        NULL, MHD_OPTION_ARRAY, pool, MHD_OPTION_END);
    if (httpd->daemon == NULL) {
        httpd->listen_fd = -1; /* on some of its failures libmicrohttpd has closed it */
        return err_set(reterr, ERR_IO, "can not start the HTTP server: %s",
                       errno == 0 ? "libmicrohttpd refuses" : strerrordesc_np(errno));
    }
    return ERR_NONE;
}

enum err_code httpd_start(const struct httpd_config *config, struct httpd **ret_httpd,
                          struct err *reterr)
{
    assert(config->threads >= 1 && config->threads <= THREADS_MAX);
    assert(config->connections_max >= 1);
    assert(MHD_is_feature_supported(MHD_FEATURE_EPOLL) == MHD_YES);
    struct httpd *httpd = mem_calloc(1, sizeof(*httpd));
    httpd->config = *config;
    httpd->listen_fd = config->listen_fd;
    httpd->watch_fd = -1;
    httpd->stop_fd = -1;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&httpd->idle, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&httpd->lock, NULL);

    *ret_httpd = httpd; /* a request may be there before this function ends */
    enum err_code code = httpd_watch_start(httpd, reterr);
    if (code == ERR_NONE)
        code = start_daemon(httpd, reterr);
    if (code != ERR_NONE) {
        *ret_httpd = NULL;
        httpd_destroy(httpd);
    }
    return code;
}

/* Any deferred request's token, or 0. */
static uint64_t first_deferred(struct httpd *httpd)
{
    uint64_t token = 0;
    pthread_mutex_lock(&httpd->lock);
    for (size_t i = 0; i < HTTPD_BUCKETS && token == 0; i++)
        token = httpd->deferred[i] == NULL ? 0 : httpd->deferred[i]->token;
    pthread_mutex_unlock(&httpd->lock);
    return token;
}

static void answer_deferred(struct httpd *httpd)
{
    static const struct httpd_request unknown = {
        .method = "", .target = {.path = ""}, .peer = "unknown"};
    for (uint64_t token; (token = first_deferred(httpd)) != 0;) {
        struct httpd_response response = {0};
        httpd->config.refuse(httpd->config.context, &unknown, HTTPD_REFUSAL_STOPPING,
                             "the server is stopping", &response);
        (void)httpd_respond(httpd, token, &response); /* false: someone else answered */
    }
}

static void wait_until_idle(struct httpd *httpd, int64_t drain_ms)
{
    int64_t deadline_ms = clock_mono_ms() + drain_ms;
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ms / 1000),
                                .tv_nsec = (long)(deadline_ms % 1000) * 1000000};
    int rc = 0;
    pthread_mutex_lock(&httpd->lock);
    while (httpd->open_requests > 0 && rc == 0)
        rc = pthread_cond_timedwait(&httpd->idle, &httpd->lock, &deadline);
    pthread_mutex_unlock(&httpd->lock);
}

void httpd_stop(struct httpd *httpd, int64_t drain_ms)
{
    if (httpd == NULL || httpd->stopped)
        return;
    httpd->stopped = true;
    if (httpd->daemon != NULL) {
        (void)MHD_quiesce_daemon(httpd->daemon); /* gives back listen_fd, which we know */
        pthread_mutex_lock(&httpd->lock);
        httpd->stopping = true;
        pthread_mutex_unlock(&httpd->lock);
        answer_deferred(httpd);
        wait_until_idle(httpd, drain_ms);
        MHD_stop_daemon(httpd->daemon);
        httpd->daemon = NULL;
    }
    if (httpd->listen_fd >= 0)
        (void)close(httpd->listen_fd);
    httpd_watch_stop(httpd);
}

void httpd_destroy(struct httpd *httpd)
{
    if (httpd == NULL)
        return;
    httpd_stop(httpd, 0);
    pthread_cond_destroy(&httpd->idle);
    pthread_mutex_destroy(&httpd->lock);
    free(httpd);
}

void httpd_count(struct httpd *httpd, struct httpd_counts *ret_counts)
{
    pthread_mutex_lock(&httpd->lock);
    *ret_counts = httpd->counts;
    pthread_mutex_unlock(&httpd->lock);
    ret_counts->body_bytes = __atomic_load_n(&httpd->counts.body_bytes, __ATOMIC_RELAXED);
}
