/* What http.c (the server's callbacks, answers) and handlers*.c (what each route does) share. */
#ifndef BATON_COORDINATOR_HTTP_PRIVATE_H
#define BATON_COORDINATOR_HTTP_PRIVATE_H

#include "api/codec_faults.h"
#include "api/routes.h"
#include "api/schema.h"
#include "coordinator/http.h"
#include "coordinator/web.h"

struct http {
    struct http_config config;
    struct httpd *httpd;
    struct metrics_requests requests; /* atomic counters */
};

struct exchange { /* one request, in its HTTP thread */
    struct http *http;
    struct httpd *httpd;
    struct httpd_request *request;
    struct route_match match; /* route is not NULL */
};

/* ---- answers; each request gets exactly one, or is posted */

void exchange_problem(struct exchange *exchange, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The problem of a body with its faults (taken); the first one is the detail. */
void exchange_faults(struct exchange *exchange, struct codec_faults *faults);
/* 200 with the value, which stays the caller's; `etag` 0: none. */
void exchange_value(struct exchange *exchange, const struct schema_type *type, const void *value,
                    uint64_t etag);
void exchange_text(struct exchange *exchange, const char *content_type, char *text, size_t bytes,
                   bool is_static); /* takes the text unless it is static */

void exchange_file(struct exchange *exchange, const struct web_file *file); /* 200, or 304 */

/* Hands the event to the owner thread, which answers; takes its content in any case. */
void exchange_post(struct exchange *exchange, struct coord_event *event);
void exchange_ask(struct exchange *exchange, struct archive_query *query);

/* Decodes the body; false: it was answered with what is wrong. */
bool exchange_decode(struct exchange *exchange, const struct schema_type *type, void *ret_value);

/* The same, passing over fields that are not known: of an agent that is newer. */
bool exchange_decode_known(struct exchange *exchange, const struct schema_type *type,
                           void *ret_value);

/* ---- handlers.c: reads; handlers_write.c: all that the owner thread answers, of which
 * handlers_agent.c has what agents ask */

void handlers_read(struct exchange *exchange);
void handlers_write(struct exchange *exchange);
void handlers_agent(struct exchange *exchange);
bool handlers_is_read(enum route_id id);

/* "api <peer>": free() */
char *handlers_write_actor(const struct exchange *exchange);
/* That the path names what can be a job; false: answered. */
bool handlers_write_check_job(struct exchange *exchange);

/* handlers_plan.c: looks ahead, and expansions. */
void handlers_plan(struct exchange *exchange);

#endif
