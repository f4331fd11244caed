/* common/httpd.c over real sockets. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/httpd.h"
#include "common/mem.h"

#define BODY_MAX 1000

struct server {
    struct httpd *httpd;
    struct listener listener;
    sem_t deferred; /* posted for each deferred request */
    sem_t gone;     /* ... whose client went away */
    uint64_t token; /* of the last deferred request */
    int finished;   /* sum of statuses */
};

static struct httpd_response text_response(uint32_t status, const char *text)
{
    return (struct httpd_response){
        .status = status, .body = mem_strdup(text), .body_bytes = strlen(text)};
}

static size_t body_bytes_max(void *context, const struct httpd_request *request)
{
    (void)context;
    return strcmp(request->target.path, "/big") == 0 ? 100 * BODY_MAX : BODY_MAX;
}

/* "/echo": method, parameter, header and body; "/defer": answered by the test; "/static": shared
 * memory. */
static void handle(void *context, struct httpd *httpd, struct httpd_request *request)
{
    struct server *server = context;
    (void)httpd;
    if (strcmp(request->target.path, "/defer") == 0) {
        uint64_t token = httpd_defer(request);
        __atomic_store_n(&server->token, token, __ATOMIC_SEQ_CST);
        sem_post(&server->deferred);
        return;
    }
    if (strcmp(request->target.path, "/static") == 0) {
        static char shared[] = "shared";
        struct httpd_response response = {
            .status = 200, .body = shared, .body_bytes = 6, .body_static = true};
        httpd_answer(request, &response);
        return;
    }
    bool repeated = false;
    const char *header = httpd_header(request, "x-test", &repeated);
    char *text = mem_printf("%s|%s|%s|%s%s|%s", request->method, request->peer,
                            request->target.query_count > 0 ? request->target.query[0].value : "-",
                            header == NULL ? "-" : header, repeated ? "+" : "",
                            request->body == NULL ? "-" : request->body);
    struct httpd_response response = text_response(200, text);
    free(text);
    httpd_response_header(&response, "X-Answer", "%d", 42);
    httpd_answer(request, &response);
}

static void refuse(void *context, const struct httpd_request *request, enum httpd_refusal refusal,
                   const char *detail, struct httpd_response *ret_response)
{
    static const uint32_t status[] = {[HTTPD_REFUSAL_TARGET] = 400,
                                      [HTTPD_REFUSAL_TOO_LARGE] = 413,
                                      [HTTPD_REFUSAL_BUSY] = 503,
                                      [HTTPD_REFUSAL_STOPPING] = 503};
    (void)context;
    cr_assert_not_null(request->target.path);
    *ret_response = text_response(status[refusal], detail);
}

static void gone(void *context, uint64_t token)
{
    struct server *server = context;
    cr_assert_eq(token, __atomic_load_n(&server->token, __ATOMIC_SEQ_CST));
    sem_post(&server->gone);
}

static void finished(void *context, const struct httpd_request *request, uint32_t status)
{
    struct server *server = context;
    (void)request;
    __atomic_add_fetch(&server->finished, (int)status, __ATOMIC_SEQ_CST);
}

static void start(struct server *server, struct httpd_config config)
{
    struct err err = {0};
    *server = (struct server){0};
    sem_init(&server->deferred, 0, 0);
    sem_init(&server->gone, 0, 0);
    cr_assert_eq(listener_open("127.0.0.1:0", &server->listener, &err), ERR_NONE, "%s", err.text);
    config.listen_fd = server->listener.fd;
    config.threads = config.threads == 0 ? 2 : config.threads;
    config.connections_max = config.connections_max == 0 ? 100 : config.connections_max;
    config.receive_ms = config.receive_ms == 0 ? 10000 : config.receive_ms;
    config.send_ms = config.send_ms == 0 ? 10000 : config.send_ms;
    config.bodies_bytes_max = config.bodies_bytes_max == 0 ? 1000000 : config.bodies_bytes_max;
    config.context = server;
    config.body_bytes_max = body_bytes_max;
    config.handle = handle;
    config.refuse = refuse;
    config.gone = gone;
    config.finished = finished;
    cr_assert_eq(httpd_start(&config, &server->httpd, &err), ERR_NONE, "%s", err.text);
}

static void stop(struct server *server)
{
    httpd_destroy(server->httpd);
    sem_destroy(&server->deferred);
    sem_destroy(&server->gone);
}

static int dial(const struct server *server)
{
    long port = strtol(strrchr(server->listener.address, ':') + 1, NULL, 10);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads until `ending` is at the end of what came, or the peer closes. */
static const char *hear(int fd, const char *ending)
{
    static char text[8192];
    size_t bytes = 0;
    size_t ending_bytes = strlen(ending);
    for (;;) {
        ssize_t got = recv(fd, text + bytes, sizeof(text) - 1 - bytes, 0);
        if (got <= 0)
            break;
        bytes += (size_t)got;
        text[bytes] = '\0';
        if (ending_bytes > 0 && bytes >= ending_bytes &&
            strcmp(text + bytes - ending_bytes, ending) == 0)
            break;
    }
    text[bytes] = '\0';
    return text;
}

static void expect(int fd, const char *status, const char *ending)
{
    const char *text = hear(fd, ending);
    cr_assert_eq(strncmp(text, status, strlen(status)), 0, "%s", text);
    size_t bytes = strlen(text);
    cr_assert(bytes >= strlen(ending) && strcmp(text + bytes - strlen(ending), ending) == 0, "%s",
              text);
}

static void wait_for(sem_t *semaphore)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 20;
    cr_assert_eq(sem_timedwait(semaphore, &deadline), 0);
}

/* Goal: method, parameters, headers and bodies reach the handler, on one connection after another
 * request. */
Test(httpd, answers_requests, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){0});
    int fd = dial(&server);
    say(fd, "GET /echo?a=x%20y HTTP/1.1\r\nHost: h\r\nX-Test: one\r\n\r\n");
    expect(fd, "HTTP/1.1 200", "\r\n\r\nGET|127.0.0.1|x y|one|-");
    say(fd,
        "PUT /echo HTTP/1.1\r\nHost: h\r\nX-Test: 1\r\nx-test: 2\r\nContent-Length: 4\r\n\r\nbo");
    say(fd, "dy");
    expect(fd, "HTTP/1.1 200", "\r\n\r\nPUT|127.0.0.1|-|1+|body");
    say(fd,
        "PUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    expect(fd, "HTTP/1.1 200", "|-|-|abc");
    say(fd, "GET /static HTTP/1.1\r\nHost: h\r\n\r\n");
    expect(fd, "HTTP/1.1 200", "shared");
    say(fd, "HEAD /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    const char *head = hear(fd, "\r\n\r\n");
    cr_assert_not_null(strstr(head, "X-Answer: 42"));
    cr_assert_not_null(strstr(head, "Content-Length: 20"), "%s", head);
    close(fd);
    stop(&server);
    cr_assert_eq(server.finished, 5 * 200);
}

/* Goal: a bad target is refused by our own callback, also when a body follows. */
Test(httpd, refuses_bad_target, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){0});
    int fd = dial(&server);
    say(fd, "GET /a%zz HTTP/1.1\r\nHost: h\r\n\r\n");
    expect(fd, "HTTP/1.1 400", "must be followed by two hexadecimal digits");
    say(fd, "PUT /a?x=1&x=2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
    expect(fd, "HTTP/1.1 400", "'x' is given twice");
    say(fd, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n"); /* the connection lives on */
    expect(fd, "HTTP/1.1 200", "|-");
    close(fd);
    stop(&server);
}

/* Goal: a body one byte over the limit is refused and never reaches the handler, however it is
 * sent. */
Test(httpd, limits_bodies, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){0});
    char *body = mem_calloc(BODY_MAX + 2, 1);
    memset(body, 'b', BODY_MAX);

    int fd = dial(&server);
    say(fd, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n");
    say(fd, body);
    expect(fd, "HTTP/1.1 200", "bbbb");
    say(fd, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
    say(fd, body);
    say(fd, "b");
    expect(fd, "HTTP/1.1 413", "at most 1000 bytes");
    say(fd, "PUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n");
    say(fd, body);
    say(fd, "\r\n1\r\nb\r\n0\r\n\r\n");
    expect(fd, "HTTP/1.1 413", "at most 1000 bytes");
    close(fd);

    fd = dial(&server); /* a client that asks first hears no before it has sent anything */
    say(fd,
        "PUT /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n");
    expect(fd, "HTTP/1.1 413", "at most 1000 bytes");
    close(fd);
    fd = dial(&server); /* nor is a flood taken in */
    say(fd, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n");
    cr_assert_eq(strncmp(hear(fd, ""), "HTTP/1.1 413", 12), 0);
    close(fd);
    free(body);
    stop(&server);
}

/* Goal: all bodies together are limited; the memory is given back when a request ends. */
Test(httpd, limits_all_bodies, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){.bodies_bytes_max = 70000});
    char *body = mem_calloc(40001, 1);
    memset(body, 'b', 40000);
    struct httpd_counts counts;

    int first = dial(&server);
    say(first, "PUT /big HTTP/1.1\r\nHost: h\r\nContent-Length: 40001\r\n\r\n");
    say(first, body); /* one byte is missing: held */
    do
        httpd_count(server.httpd, &counts);
    while (counts.body_bytes < 40000);
    int second = dial(&server);
    say(second, "PUT /big HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n");
    say(second, body);
    expect(second, "HTTP/1.1 503", "large bodies at a time");
    close(first);
    do
        httpd_count(server.httpd, &counts);
    while (counts.body_bytes > 0);
    say(second, "PUT /big HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n");
    say(second, body);
    cr_assert_eq(strncmp(hear(second, "bbb"), "HTTP/1.1 200", 12), 0);
    close(second);
    free(body);
    stop(&server);
}

/* Goal: an answer by token reaches its client; a second one, or one to nobody, is told so. */
Test(httpd, answers_deferred, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){0});
    int fd = dial(&server);
    struct httpd_counts counts;
    for (int i = 0; i < 3; i++) {
        say(fd, "PUT /defer HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab");
        wait_for(&server.deferred);
        httpd_count(server.httpd, &counts);
        cr_assert_eq(counts.deferred, 1);
        struct httpd_response response = text_response(202, "later");
        cr_assert(httpd_respond(server.httpd, server.token, &response));
        expect(fd, "HTTP/1.1 202", "later");
        response = text_response(202, "twice");
        cr_assert_not(httpd_respond(server.httpd, server.token, &response));
    }
    close(fd);
    stop(&server);
}

/* Goal: a waiting client that goes away is noticed, and its place is free again. */
Test(httpd, notices_gone_clients, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){.connections_max = 2, .threads = 1});
    for (int i = 0; i < 5; i++) {
        int fd = dial(&server);
        say(fd, "GET /defer HTTP/1.1\r\nHost: h\r\n\r\n");
        wait_for(&server.deferred);
        close(fd);
        wait_for(&server.gone);
        struct httpd_response response = text_response(200, "to nobody");
        cr_assert_not(httpd_respond(server.httpd, server.token, &response));
    }
    struct httpd_counts counts;
    httpd_count(server.httpd, &counts);
    cr_assert_eq(counts.gone, 5);
    cr_assert_eq(counts.deferred, 0);
    stop(&server);
    cr_assert_eq(server.finished, 0);
}

/* Goal: neither a head nor a body that trickles in holds a connection for longer than receive_ms.
 */
Test(httpd, closes_slow_senders, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){.receive_ms = 700});
    static const char *const starts[] = {
        "", "GET /echo HT", "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n"};
    for (size_t i = 0; i < 3; i++) {
        int64_t start_ms = clock_mono_ms(); /* before the server's clock for it begins to run */
        int fd = dial(&server);
        say(fd, starts[i]);
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        while (poll(&poll_fd, 1, 50) == 0) /* a byte every 50 ms */
            (void)send(fd, "x", strlen(starts[i]) > 0 ? 1 : 0, MSG_NOSIGNAL);
        cr_assert_leq(clock_mono_ms() - start_ms, 15000);
        cr_assert_geq(clock_mono_ms() - start_ms, 600);
        close(fd);
    }
    struct httpd_counts counts;
    httpd_count(server.httpd, &counts);
    cr_assert_eq(counts.overdue, 3);
    stop(&server);
}

/* Goal: a client that ends in the middle of a request does not keep its place. */
Test(httpd, lets_ended_clients_go, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){.receive_ms = 30000});
    static const char *const starts[] = {
        "GET /echo HT", "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\nabc",
        "PUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"};
    int64_t start_ms = clock_mono_ms();
    int fds[3];
    for (size_t i = 0; i < 3; i++) {
        fds[i] = dial(&server);
        say(fds[i], starts[i]);
        shutdown(fds[i], SHUT_WR);
    }
    for (size_t i = 0; i < 3; i++) {
        cr_assert_str_eq(hear(fds[i], ""), "");
        close(fds[i]);
    }
    cr_assert_leq(clock_mono_ms() - start_ms, 10000);
    int whole = dial(&server); /* one that has said all before it ends is answered */
    say(whole, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    shutdown(whole, SHUT_WR);
    expect(whole, "HTTP/1.1 200", "|-");
    close(whole);
    stop(&server);
}

/* Goal: a wait is not ended by receive_ms: its owner has its own deadline. */
Test(httpd, lets_deferred_requests_wait, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){.receive_ms = 300, .send_ms = 300});
    int fd = dial(&server);
    say(fd, "GET /defer HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for(&server.deferred);
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    cr_assert_eq(poll(&poll_fd, 1, 1500), 0);
    struct httpd_response response = text_response(200, "at last");
    cr_assert(httpd_respond(server.httpd, server.token, &response));
    expect(fd, "HTTP/1.1 200", "at last");
    close(fd);
    stop(&server);
}

/* Goal: stopping answers who waits, lets answers out, and is refused nothing by libmicrohttpd. */
Test(httpd, stops_with_waiting_requests, .timeout = 60)
{
    struct server server;
    start(&server, (struct httpd_config){0});
    int fds[10];
    for (int i = 0; i < 10; i++) {
        fds[i] = dial(&server);
        say(fds[i], "GET /defer HTTP/1.1\r\nHost: h\r\n\r\n");
        wait_for(&server.deferred);
    }
    int idle = dial(&server);
    httpd_stop(server.httpd, 5000);
    struct httpd_response response = text_response(200, "too late");
    cr_assert_not(httpd_respond(server.httpd, server.token, &response));
    for (int i = 0; i < 10; i++) {
        expect(fds[i], "HTTP/1.1 503", "stopping");
        close(fds[i]);
    }
    close(idle);
    stop(&server);
    cr_assert_eq(server.finished, 10 * 503);
}

struct load {
    struct server *server;
    int failures;
};

static void *defer_and_ask(void *context)
{
    struct load *load = context;
    int fd = dial(load->server);
    for (int i = 0; i < 200; i++) {
        say(fd, i % 2 == 0 ? "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n"
                           : "GET /static HTTP/1.1\r\nHost: h\r\n\r\n");
        char text[1024];
        ssize_t bytes = recv(fd, text, sizeof(text) - 1, 0);
        if (bytes <= 0 || strncmp(text, "HTTP/1.1 200", 12) != 0)
            load->failures++;
    }
    close(fd);
    return NULL;
}

/* Goal: many slow connections and several clients at once do not disturb each other. */
Test(httpd, serves_beside_slow_connections, .timeout = 120)
{
    struct server server;
    start(&server, (struct httpd_config){.connections_max = 400, .receive_ms = 100000});
    int slow[200];
    for (int i = 0; i < 200; i++) {
        slow[i] = dial(&server);
        say(slow[i], "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
    }
    pthread_t threads[4];
    struct load loads[4];
    for (int i = 0; i < 4; i++) {
        loads[i] = (struct load){.server = &server};
        pthread_create(&threads[i], NULL, defer_and_ask, &loads[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(loads[i].failures, 0);
    }
    for (int i = 0; i < 200; i++) {
        say(slow[i], "defghij");
        char text[1024] = {0};
        cr_assert_gt(recv(slow[i], text, sizeof(text) - 1, 0), 0);
        cr_assert_eq(strncmp(text, "HTTP/1.1 200", 12), 0);
        close(slow[i]);
    }
    stop(&server);
}
