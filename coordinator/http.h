/*
 * The coordinator's HTTP side: routes of api/routes.h on the server of common/httpd.h.
 *
 * HTTP threads check and decode requests, answer reads at once from the published view, and post
 * everything else to the owner thread, whose answers come back by token (http_answer).
 *
 *   any method, path  ->  404, 405, unknown query parameters, content type  ->  handlers.c
 *     reads           ->  published view  ->  answer
 *     writes, waits   ->  decode, check  ->  httpd_defer  ->  coordinator_post  ...  http_answer
 */
#ifndef BATON_COORDINATOR_HTTP_H
#define BATON_COORDINATOR_HTTP_H

#include <stdbool.h>

#include "common/err.h"
#include "common/httpd.h"
#include "common/listener.h"
#include "coordinator/core/update.h"
#include "coordinator/metrics.h"

struct http;

struct http_config {
    struct metrics_sources sources; /* coordinator, kafka and publisher, all borrowed */
    unsigned connections_max;
};

struct http *http_create(void);
void http_destroy(struct http *http); /* NULL is fine */

/* Serves on the listener (taking its descriptor) from now on. */
enum err_code http_start(struct http *http, const struct http_config *config,
                         const struct listener *listener, struct err *reterr) MUSTCHECK;

/* Answers who waits, lets answers out, closes. The owner thread must still be at work. */
void http_stop(struct http *http);

/* The owner thread's answers; takes the content. A client that has gone meanwhile is no failure. */
void http_answer(void *context, struct answer *answer);

#endif
