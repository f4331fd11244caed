/*
 * A small HTTP/1.1 server over libmicrohttpd that both daemons use; it knows nothing of their
 * routes.
 *
 * Threads: some HTTP threads (epoll) call the callbacks of struct httpd_config; several may run at
 * the same time. A request is answered inside `handle` (httpd_answer), or later by its token from
 * any thread (httpd_defer, then httpd_respond). One more thread watches: deferred requests whose
 * client went away (libmicrohttpd does not look at suspended connections) and clients that take too
 * long to send a request or to take an answer (its own timeout starts anew with every byte).
 *
 *        head read         body read           httpd_defer          httpd_respond
 *   RECEIVING ----> limit --------> handle() ------------> DEFERRED --------> SENDING --> done
 *                    |                |                       |
 *                    |                | httpd_answer          '--> client gone: gone(token)
 *                    +--> refuse() ---+-------------------------------------> SENDING
 *
 * Limits: connections, time to receive a request and to send an answer, bytes of one body (per
 * request, by the callback) and of all bodies together, bytes and parameters of the target
 * (common/httpd_target.h), 32 KiB of head. What is not HTTP at all is answered by libmicrohttpd
 * itself with a plain 400 page.
 */
#ifndef BATON_COMMON_HTTPD_H
#define BATON_COMMON_HTTPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/httpd_target.h"
#include "common/listener.h"

struct httpd;

struct httpd_request { /* valid inside the callbacks only */
    const char *method;
    struct httpd_target target; /* path "" when it was refused as HTTPD_REFUSAL_TARGET */
    const char *peer;           /* the client's IP address */
    const char *body;           /* with a NUL after body_bytes; NULL when there is none */
    size_t body_bytes;
    void *context; /* the callbacks' own, NULL at first; nothing is done with it */
};

#define HTTPD_HEADERS_MAX 6

struct httpd_response { /* zero-initialise; the httpd_answer/_respond calls take it over */
    uint32_t status;
    struct {
        const char *name; /* static text */
        char *value;
    } headers[HTTPD_HEADERS_MAX];
    size_t header_count;
    char *body; /* freed with free() unless body_static */
    size_t body_bytes;
    bool body_static; /* lives as long as the server */
};

enum httpd_refusal {
    HTTPD_REFUSAL_TARGET,    /* the address is malformed: 400 */
    HTTPD_REFUSAL_TOO_LARGE, /* the body is larger than body_bytes_max said: 413 */
    HTTPD_REFUSAL_BUSY, /* all bodies together are too large, or the client ended while it waited:
                           503 */
    HTTPD_REFUSAL_STOPPING /* the server stops while the request is deferred: 503 */
};

struct httpd_config {
    int listen_fd;            /* taken over */
    unsigned threads;         /* 1..16 */
    unsigned connections_max; /* at most; fewer when the process may not open so many files */
    int64_t receive_ms;       /* from connecting, or the last answer, to the whole next request */
    int64_t send_ms;          /* to take an answer */
    size_t bodies_bytes_max;  /* of all requests in memory */

    void *context; /* first argument of the callbacks */
    /* Head read: the most bytes of body that this request may have. */
    size_t (*body_bytes_max)(void *context, const struct httpd_request *request);
    /* Whole request read. Calls httpd_answer or httpd_defer exactly once. */
    void (*handle)(void *context, struct httpd *httpd, struct httpd_request *request);
    /* Fills in the answer to a request that `handle` does not answer; `detail` is for people. Any
     * thread. */
    void (*refuse)(void *context, const struct httpd_request *request, enum httpd_refusal refusal,
                   const char *detail, struct httpd_response *ret_response);
    /* A deferred request's client is gone: its token is unknown now. Any thread. May be NULL. */
    void (*gone)(void *context, uint64_t token);
    /* An answer was chosen for the request (by whomever): for counting. May be NULL. */
    void (*finished)(void *context, const struct httpd_request *request, uint32_t status);
    /* libmicrohttpd's own messages; any thread. May be NULL. */
    void (*message)(void *context, const char *text);
};

/* *ret_httpd is set before the first callback, so that they can use it; NULL when it fails. */
enum err_code httpd_start(const struct httpd_config *config, struct httpd **ret_httpd,
                          struct err *reterr) MUSTCHECK;

/*
 * Accepts nothing more, answers what is deferred (HTTPD_REFUSAL_STOPPING), lets answers go out for
 * at most drain_ms, then closes. httpd_respond may be called until httpd_destroy (it answers
 * false). NULL is fine for both.
 */
void httpd_stop(struct httpd *httpd, int64_t drain_ms);
void httpd_destroy(struct httpd *httpd); /* stops first when that was not done */

/* A request's header, NULL when absent; `ret_repeated`, unless NULL, says whether it is there more
 * than once. */
const char *httpd_header(const struct httpd_request *request, const char *name, bool *ret_repeated);

void httpd_answer(struct httpd_request *request, struct httpd_response *response);

/* From now on the request is known by its token only (never 0); it can be answered before `handle`
 * returns. */
uint64_t httpd_defer(struct httpd_request *request);

/* Any thread. False when the client is gone, or the server stopped; the response is freed then. */
bool httpd_respond(struct httpd *httpd, uint64_t token, struct httpd_response *response);

/* Adds a header; the value is formatted, at most 1023 bytes. `name` must be a static text. */
void httpd_response_header(struct httpd_response *response, const char *name, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));
void httpd_response_finish(struct httpd_response *response);

struct httpd_counts {
    uint64_t
        connections_max; /* that the process may have open; below the config's when files are few */
    uint64_t connections; /* open now */
    uint64_t deferred;    /* requests that wait for an answer now */
    uint64_t body_bytes;  /* of all requests, now */
    uint64_t overdue;     /* connections closed because they took too long, ever */
    uint64_t gone;        /* clients gone before their deferred answer, ever */
};
void httpd_count(struct httpd *httpd, struct httpd_counts *ret_counts);

#endif
