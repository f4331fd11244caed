/*
 * One HTTP connection to the coordinator over libcurl: a request at a time, each with its own
 * timeouts and a limit on the answer, that another thread can interrupt.
 *
 * Owned by one thread, which alone calls http_client_request; http_client_interrupt may be called
 * by any thread while the client exists. The connection is kept between requests. Proxies of the
 * environment (http_proxy, ...) are not used: agents and coordinator are neighbours, and a proxy
 * for the outer world would be in the way. Redirects are not followed. https:// works with the
 * system's certificates.
 */
#ifndef BATON_AGENT_HTTP_CLIENT_H
#define BATON_AGENT_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct http_client;

struct http_request {
    const char *method;
    const char *url;
    const char *body; /* JSON; NULL: none */
    size_t body_bytes;
    const char *bearer; /* token of an Authorization header; NULL: none. Not with a body. */
    int64_t connect_ms; /* name, connection and TLS; 1..total_ms */
    int64_t total_ms;
    size_t answer_bytes_max; /* of the body; more is ERR_LIMIT */
};

struct http_answer { /* zero-initialise; finish with http_answer_finish */
    uint32_t status;
    char *body; /* NUL-terminated after body_bytes; never NULL */
    size_t body_bytes;
    int64_t retry_after_ms; /* of the answer's Retry-After in seconds; -1 when it has none */
};

/* For the whole process, once, while there is one thread; ERR_INTERNAL when the library refuses. */
enum err_code http_client_global_init(struct err *reterr) MUSTCHECK;
void http_client_global_finish(void);

struct http_client *http_client_create(const char *user_agent);
void http_client_destroy(struct http_client *client); /* NULL is fine */

/*
 * ERR_UNAVAILABLE: not reachable, broken off, ...; ERR_TIMEOUT; ERR_LIMIT; ERR_PROTOCOL: what came
 * is not HTTP; ERR_CONFLICT: interrupted. An answer of any status is a success.
 */
enum err_code http_client_request(struct http_client *client, const struct http_request *request,
                                  struct http_answer *ret_answer, struct err *reterr) MUSTCHECK;
void http_answer_finish(struct http_answer *answer);

/* The request under way, and every later one until _resume, ends at once with ERR_CONFLICT. */
void http_client_interrupt(struct http_client *client);
/* The owner, between requests: requests are made again. */
void http_client_resume(struct http_client *client);

/*
 * An absolute http:// or https:// address without query, fragment and user. `ret_base`, free(), has
 * no slash at the end, so that paths can be put behind it. ERR_INVALID says what is wrong.
 */
enum err_code http_client_check_url(const char *url, char **ret_base, struct err *reterr) MUSTCHECK;

#endif
