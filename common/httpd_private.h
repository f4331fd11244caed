/* What httpd.c (requests) and httpd_watch.c (connections, deadlines, clients that go away) share.
 */
#ifndef BATON_COMMON_HTTPD_PRIVATE_H
#define BATON_COMMON_HTTPD_PRIVATE_H

#include <microhttpd.h>
#include <pthread.h>

#include "common/httpd.h"

#define HTTPD_BUCKETS 1024

enum httpd_phase { HTTPD_PHASE_RECEIVING, HTTPD_PHASE_HANDLING, HTTPD_PHASE_SENDING };

struct httpd_connection { /* all under httpd.lock, but for `peer`, which never changes */
    struct httpd_connection *previous, *next;
    int fd; /* open as long as the connection is in the list */
    enum httpd_phase phase;
    int64_t deadline_ms; /* of the phase; INT64_MAX while handling */
    bool ended;          /* the client has sent all that it will, in this phase */
    bool overdue;        /* was shut down already */
    char peer[64];
};

struct httpd_exchange { /* one request and its answer; belongs to its connection's HTTP thread */
    struct httpd_request request; /* first: the callbacks' pointer is this one */
    struct httpd *httpd;
    struct MHD_Connection *mhd;
    struct httpd_connection *connection;
    char *target;       /* as the client wrote it */
    bool target_broken; /* with refusal TARGET */
    bool head_seen;
    char *body;
    size_t body_bytes, body_capacity, body_bytes_max, body_bytes_discarded;
    bool refused;
    enum httpd_refusal refusal;
    char refusal_detail[ERR_TEXT_BYTES];
    bool chosen; /* the callback answered or deferred */
    /* Written by the thread that takes the exchange out of the deferred ones, read after the
     * resume. */
    uint64_t token; /* 0: never deferred */
    struct httpd_exchange *next;
    bool answered, dropped;
    struct httpd_response response;
};

struct httpd {
    struct httpd_config config;
    struct MHD_Daemon *daemon;
    int listen_fd; /* -1 when closed */

    /* Protects all below. libmicrohttpd's resume may be called under it: it calls nothing back
     * while it holds its own lock. */
    pthread_mutex_t lock;
    pthread_cond_t idle; /* open_requests has become 0 */
    struct httpd_connection *connections;
    struct httpd_exchange *deferred[HTTPD_BUCKETS];
    uint64_t token; /* highest given out */
    size_t open_requests;
    bool stopping, stopped;
    struct httpd_counts counts; /* body_bytes is atomic instead */

    int watch_fd; /* epoll: deferred sockets by token, and stop_fd as token 0 */
    int stop_fd;
    pthread_t watcher;
};

/* Under the lock: takes the exchange out of the deferred ones; NULL when the token is unknown. */
struct httpd_exchange *httpd_take_deferred(struct httpd *httpd, uint64_t token);

/* Under the lock, after httpd_take_deferred and with answered or dropped set. */
void httpd_resume(struct httpd_exchange *exchange);

void httpd_set_phase(struct httpd *httpd, struct httpd_connection *connection,
                     enum httpd_phase phase);
void httpd_on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code);

void httpd_watch_add(struct httpd *httpd,
                     const struct httpd_exchange *exchange); /* under the lock */
void httpd_watch_remove(struct httpd *httpd, const struct httpd_exchange *exchange);
enum err_code httpd_watch_start(struct httpd *httpd, struct err *reterr) MUSTCHECK;
void httpd_watch_stop(struct httpd *httpd); /* fine when it was never started */

#endif
