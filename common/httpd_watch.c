#include "common/httpd_private.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

#define WATCH_EVENTS    64
#define WATCH_PERIOD_MS 500
#define ENDED_MS        2000

/* ---- connections */

static void describe_peer(struct MHD_Connection *mhd, struct httpd_connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const void *address = NULL;
    int family = info == NULL ? AF_UNSPEC : info->client_addr->sa_family;
    if (family == AF_INET)
        address = &((const struct sockaddr_in *)info->client_addr)->sin_addr;
    else if (family == AF_INET6)
        address = &((const struct sockaddr_in6 *)info->client_addr)->sin6_addr;
    if (address == NULL ||
        inet_ntop(family, address, connection->peer, sizeof(connection->peer)) == NULL)
        memcpy(connection->peer, "unknown", sizeof("unknown"));
}

static void connection_open(struct httpd *httpd, struct MHD_Connection *mhd, void **socket_context)
{
    struct httpd_connection *connection = mem_calloc(1, sizeof(*connection));
    connection->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    describe_peer(mhd, connection);
    *socket_context = connection;

    pthread_mutex_lock(&httpd->lock);
    connection->deadline_ms = clock_mono_ms() + httpd->config.receive_ms;
    connection->next = httpd->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    httpd->connections = connection;
    httpd->counts.connections++;
    pthread_mutex_unlock(&httpd->lock);
}

static void connection_closed(struct httpd *httpd, void **socket_context)
{
    struct httpd_connection *connection = *socket_context;
    if (connection == NULL)
        return;
    pthread_mutex_lock(&httpd->lock);
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        httpd->connections = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    httpd->counts.connections--;
    pthread_mutex_unlock(&httpd->lock);
    free(connection);
    *socket_context = NULL;
}

/* CLOSED comes before libmicrohttpd closes the socket, so a descriptor in the list is never
 * another's. */
void httpd_on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_open(context, mhd, socket_context);
    else
        connection_closed(context, socket_context);
}

void httpd_set_phase(struct httpd *httpd, struct httpd_connection *connection,
                     enum httpd_phase phase)
{
    pthread_mutex_lock(&httpd->lock);
    connection->phase = phase;
    connection->ended = false;
    switch (phase) {
    case HTTPD_PHASE_RECEIVING:
        connection->deadline_ms = clock_mono_ms() + httpd->config.receive_ms;
        break;
    case HTTPD_PHASE_HANDLING:
        connection->deadline_ms = INT64_MAX;
        break;
    case HTTPD_PHASE_SENDING:
        connection->deadline_ms = clock_mono_ms() + httpd->config.send_ms;
        break;
    }
    pthread_mutex_unlock(&httpd->lock);
}

/*
 * When the rest of a request and the end of the connection arrive together, libmicrohttpd 0.9.75
 * with epoll reads the one and never sees the other. A request that is not whole by then will not
 * be: such a connection gets ENDED_MS, time for its HTTP thread to serve what is whole, and no
 * more.
 */
static void find_ended(struct httpd *httpd)
{
    pthread_mutex_lock(&httpd->lock);
    size_t count = 0;
    struct pollfd *fds = mem_calloc(httpd->counts.connections, sizeof(*fds));
    for (struct httpd_connection *at = httpd->connections; at != NULL; at = at->next)
        fds[count++] =
            (struct pollfd){.fd = at->phase == HTTPD_PHASE_RECEIVING && !at->ended ? at->fd : -1,
                            .events = POLLRDHUP};
    int ended = poll(fds, count, 0);
    int64_t limit_ms = clock_mono_ms() + ENDED_MS;
    count = 0;
    for (struct httpd_connection *at = httpd->connections; at != NULL && ended > 0; at = at->next) {
        if (fds[count++].revents == 0)
            continue;
        at->ended = true;
        if (at->deadline_ms > limit_ms)
            at->deadline_ms = limit_ms;
    }
    pthread_mutex_unlock(&httpd->lock);
    free(fds);
}

/* Shutting the socket down makes its HTTP thread see an end and close it; closing is not ours. */
static void close_overdue(struct httpd *httpd)
{
    pthread_mutex_lock(&httpd->lock);
    int64_t now_ms = clock_mono_ms();
    for (struct httpd_connection *at = httpd->connections; at != NULL; at = at->next) {
        if (at->deadline_ms > now_ms || at->overdue)
            continue;
        at->overdue = true;
        httpd->counts.overdue += !at->ended;
        (void)shutdown(at->fd, SHUT_RDWR); /* an error means that it has ended already */
    }
    pthread_mutex_unlock(&httpd->lock);
}

/* ---- deferred requests whose client goes away */

void httpd_watch_add(struct httpd *httpd, const struct httpd_exchange *exchange)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT,
                                .data = {.u64 = exchange->token}};
    /* Without memory in the kernel the client's end is noticed at the deadline of its wait. */
    (void)epoll_ctl(httpd->watch_fd, EPOLL_CTL_ADD, exchange->connection->fd, &event);
}

void httpd_watch_remove(struct httpd *httpd, const struct httpd_exchange *exchange)
{
    (void)epoll_ctl(httpd->watch_fd, EPOLL_CTL_DEL, exchange->connection->fd, NULL);
}

static void drop(struct httpd *httpd, uint64_t token)
{
    pthread_mutex_lock(&httpd->lock);
    struct httpd_exchange *exchange = httpd_take_deferred(httpd, token);
    if (exchange != NULL) {
        exchange->dropped = true;
        httpd->counts.gone++;
        httpd_resume(exchange);
    }
    pthread_mutex_unlock(&httpd->lock);
    if (exchange != NULL && httpd->config.gone != NULL)
        httpd->config.gone(httpd->config.context, token);
}

static void *watch(void *context)
{
    struct httpd *httpd = context;
    struct epoll_event events[WATCH_EVENTS];
    for (bool stop = false; !stop;) {
        int count = epoll_wait(httpd->watch_fd, events, WATCH_EVENTS, WATCH_PERIOD_MS);
        assert(count >= 0 || errno == EINTR);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == 0)
                stop = true;
            else
                drop(httpd, events[i].data.u64);
        }
        find_ended(httpd);
        close_overdue(httpd);
    }
    return NULL;
}

enum err_code httpd_watch_start(struct httpd *httpd, struct err *reterr)
{
    httpd->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    httpd->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};
    if (httpd->watch_fd < 0 || httpd->stop_fd < 0 ||
        epoll_ctl(httpd->watch_fd, EPOLL_CTL_ADD, httpd->stop_fd, &event) != 0)
        return err_set(reterr, ERR_IO, "can not watch connections: %s", strerrordesc_np(errno));
    int rc = pthread_create(&httpd->watcher, NULL, watch, httpd);
    if (rc != 0) {
        (void)close(httpd->stop_fd);
        httpd->stop_fd = -1;
        return err_set(reterr, ERR_IO, "can not start a thread: %s", strerrordesc_np(rc));
    }
    (void)pthread_setname_np(httpd->watcher, "http-watch");
    return ERR_NONE;
}

void httpd_watch_stop(struct httpd *httpd)
{
    if (httpd->stop_fd >= 0) {
        uint64_t one = 1;
        ssize_t written = write(httpd->stop_fd, &one, sizeof(one));
        assert(written == sizeof(one));
        pthread_join(httpd->watcher, NULL);
        (void)close(httpd->stop_fd);
    }
    if (httpd->watch_fd >= 0)
        (void)close(httpd->watch_fd);
    httpd->stop_fd = -1;
    httpd->watch_fd = -1;
}
