#include "tests/unit/agent/fake_coordinator.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/strbuf.h"

#define CONNECTIONS_MAX 256
#define ANSWERS_MAX     16
#define REQUESTS_MAX    1024

struct request {
    char *line;
    char *body;
    int64_t at_ms;
};

struct route {
    struct fake_answer answers[ANSWERS_MAX];
    size_t answer_count;
    struct request requests[REQUESTS_MAX];
    size_t request_count;
};

struct fake_coordinator {
    int fd;
    char url[64];
    pthread_t accept_thread;
    bool listening;

    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t changed;
    bool stopping;
    unsigned releases;
    struct route routes[FAKE_ROUTES];
    struct {
        pthread_t thread;
        int fd;
    } connections[CONNECTIONS_MAX];
    size_t connection_count;
};

struct connection {
    struct fake_coordinator *fake;
    int fd;
};

struct fake_coordinator *fake_create(void)
{
    struct fake_coordinator *fake = mem_calloc(1, sizeof(*fake));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    pthread_condattr_t attr;

    fake->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(fake->fd >= 0);
    assert(bind(fake->fd, (struct sockaddr *)&address, bytes) == 0);
    assert(getsockname(fake->fd, (struct sockaddr *)&address, &bytes) == 0);
    snprintf(fake->url, sizeof(fake->url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    pthread_mutex_init(&fake->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&fake->changed, &attr);
    pthread_condattr_destroy(&attr);
    return fake;
}

const char *fake_url(const struct fake_coordinator *fake)
{
    return fake->url;
}

/* Waits for a change until the time has come; under the lock. */
static bool wait_until(struct fake_coordinator *fake, int64_t until_ms)
{
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    return pthread_cond_timedwait(&fake->changed, &fake->lock, &until) == 0;
}

static bool send_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

/* Reads until `buf` holds a whole head; returns its length with the blank line, 0 at the end. */
static size_t read_head(int fd, struct strbuf *buf)
{
    char chunk[4096];
    for (;;) {
        const char *end = strstr(strbuf_text(buf), "\r\n\r\n");
        if (end != NULL)
            return (size_t)(end - strbuf_text(buf)) + 4;
        ssize_t got = recv(fd, chunk, sizeof(chunk), 0);
        if (got <= 0)
            return 0;
        strbuf_add(buf, chunk, (size_t)got);
    }
}

static bool read_request(int fd, char **ret_line, char **ret_body)
{
    struct strbuf buf = {0};
    char chunk[4096];
    size_t head_bytes = read_head(fd, &buf);
    if (head_bytes == 0) {
        strbuf_finish(&buf);
        return false;
    }
    const char *length = strcasestr(strbuf_text(&buf), "\r\nContent-Length:");
    size_t body_bytes = length == NULL ? 0 : strtoul(length + 17, NULL, 10);
    while (buf.bytes < head_bytes + body_bytes) {
        ssize_t got = recv(fd, chunk, sizeof(chunk), 0);
        if (got <= 0) {
            strbuf_finish(&buf);
            return false;
        }
        strbuf_add(&buf, chunk, (size_t)got);
    }
    *ret_body = mem_strdup(strbuf_text(&buf) + head_bytes);
    *ret_line = mem_printf("%.*s", (int)(strstr(buf.data, " HTTP/1.1") - buf.data), buf.data);
    strbuf_finish(&buf);
    return true;
}

static enum fake_route route_of(const char *line)
{
    if (strcmp(line, "POST /agent/v1/agents") == 0)
        return FAKE_REGISTER;
    if (strncmp(line, "GET ", 4) == 0 && strstr(line, "/assignment?") != NULL)
        return FAKE_POLL;
    if (strncmp(line, "POST ", 5) == 0 && strstr(line, "/report") != NULL)
        return FAKE_REPORT;
    return strncmp(line, "DELETE ", 7) == 0 ? FAKE_DEREGISTER : FAKE_OTHER;
}

/* Takes the texts. */
static struct fake_answer note(struct fake_coordinator *fake, char *line, char *body)
{
    pthread_mutex_lock(&fake->lock);
    struct route *route = &fake->routes[route_of(line)];
    assert(route->request_count < REQUESTS_MAX);
    assert(route->answer_count > 0);
    size_t number = route->request_count++;
    route->requests[number] = (struct request){line, body, clock_mono_ms()};
    pthread_cond_broadcast(&fake->changed);
    struct fake_answer answer =
        route->answers[number < route->answer_count ? number : route->answer_count - 1];
    unsigned releases = fake->releases;
    while (answer.hold && !fake->stopping && fake->releases == releases)
        wait_until(fake, clock_mono_ms() + 1000);
    pthread_mutex_unlock(&fake->lock);
    return answer;
}

static bool send_answer(int fd, const struct fake_answer *answer)
{
    if (answer->raw != NULL) {
        (void)send_all(fd, answer->raw, strlen(answer->raw)); /* closed in any case */
        return false;
    }
    struct strbuf buf = {0};
    size_t bytes = answer->body == NULL ? 0 : strlen(answer->body) + answer->padding_bytes;
    strbuf_printf(&buf, "HTTP/1.1 %u x\r\n%s%s", answer->status,
                  answer->header == NULL ? "" : answer->header,
                  answer->header == NULL ? "" : "\r\n");
    if (answer->status != 204)
        strbuf_printf(&buf, "Content-Length: %zu\r\n", bytes);
    strbuf_puts(&buf, "\r\n");
    for (size_t i = 0; i < answer->padding_bytes; i++)
        strbuf_puts(&buf, " ");
    strbuf_puts(&buf, answer->body == NULL ? "" : answer->body);
    bool sent = send_all(fd, buf.data, buf.bytes);
    strbuf_finish(&buf);
    return sent;
}

static void *connection_main(void *arg)
{
    struct connection connection = *(struct connection *)arg;
    char *line, *body;
    free(arg);
    while (read_request(connection.fd, &line, &body)) {
        struct fake_answer answer = note(connection.fake, line, body);
        if (!send_answer(connection.fd, &answer))
            break;
    }
    shutdown(connection.fd, SHUT_RDWR); /* closed at the end: the number must not be used again */
    return NULL;
}

static void *accept_main(void *arg)
{
    struct fake_coordinator *fake = arg;
    for (;;) {
        int fd = accept4(fake->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL; /* fake_destroy shut it down */
        struct connection *connection = mem_calloc(1, sizeof(*connection));
        *connection = (struct connection){fake, fd};
        pthread_mutex_lock(&fake->lock);
        assert(fake->connection_count < CONNECTIONS_MAX);
        size_t index = fake->connection_count++;
        fake->connections[index].fd = fd;
        assert(pthread_create(&fake->connections[index].thread, NULL, connection_main,
                              connection) == 0);
        pthread_mutex_unlock(&fake->lock);
    }
}

void fake_listen(struct fake_coordinator *fake)
{
    assert(listen(fake->fd, 64) == 0);
    assert(pthread_create(&fake->accept_thread, NULL, accept_main, fake) == 0);
    fake->listening = true;
}

void fake_destroy(struct fake_coordinator *fake)
{
    pthread_mutex_lock(&fake->lock);
    fake->stopping = true;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
    if (fake->listening) {
        shutdown(fake->fd, SHUT_RDWR);
        pthread_join(fake->accept_thread, NULL);
    }
    close(fake->fd);
    for (size_t i = 0; i < fake->connection_count; i++) {
        shutdown(fake->connections[i].fd, SHUT_RDWR);
        pthread_join(fake->connections[i].thread, NULL);
        close(fake->connections[i].fd);
    }
    for (int i = 0; i < FAKE_ROUTES; i++) {
        for (size_t k = 0; k < fake->routes[i].request_count; k++) {
            free(fake->routes[i].requests[k].line);
            free(fake->routes[i].requests[k].body);
        }
    }
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

void fake_script(struct fake_coordinator *fake, enum fake_route route, struct fake_answer answer)
{
    pthread_mutex_lock(&fake->lock);
    assert(fake->routes[route].answer_count < ANSWERS_MAX);
    fake->routes[route].answers[fake->routes[route].answer_count++] = answer;
    pthread_mutex_unlock(&fake->lock);
}

void fake_release(struct fake_coordinator *fake)
{
    pthread_mutex_lock(&fake->lock);
    fake->releases++;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
}

bool fake_wait(struct fake_coordinator *fake, enum fake_route route, size_t number)
{
    int64_t until_ms = clock_mono_ms() + 30000;
    pthread_mutex_lock(&fake->lock);
    while (fake->routes[route].request_count < number && clock_mono_ms() < until_ms)
        wait_until(fake, until_ms);
    bool there = fake->routes[route].request_count >= number;
    pthread_mutex_unlock(&fake->lock);
    return there;
}

size_t fake_count(struct fake_coordinator *fake, enum fake_route route)
{
    pthread_mutex_lock(&fake->lock);
    size_t count = fake->routes[route].request_count;
    pthread_mutex_unlock(&fake->lock);
    return count;
}

static struct request *find(struct fake_coordinator *fake, enum fake_route route, size_t number)
{
    assert(fake_wait(fake, route, number));
    return &fake->routes[route].requests[number - 1];
}

const char *fake_line(struct fake_coordinator *fake, enum fake_route route, size_t number)
{
    return find(fake, route, number)->line;
}

const char *fake_body(struct fake_coordinator *fake, enum fake_route route, size_t number)
{
    return find(fake, route, number)->body;
}

int64_t fake_time_ms(struct fake_coordinator *fake, enum fake_route route, size_t number)
{
    return find(fake, route, number)->at_ms;
}
