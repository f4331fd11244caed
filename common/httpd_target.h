/*
 * The target of an HTTP request: "/v1/jobs/a%20b?limit=10&cursor=x" -> path and query parameters,
 * decoded.
 *
 * Strict: a bad percent-escape, an escaped NUL or slash, text that is not UTF-8, an empty or a
 * repeated parameter name and too many parameters are errors that say which. "+" is a space in the
 * query, as browsers and client libraries send it. Pure; any thread.
 */
#ifndef BATON_COMMON_HTTPD_TARGET_H
#define BATON_COMMON_HTTPD_TARGET_H

#include <stddef.h>

#include "common/err.h"

#define HTTPD_QUERY_MAX        16
#define HTTPD_TARGET_BYTES_MAX 8192

struct httpd_parameter {
    const char *name;
    const char *value; /* "" when there is no "=" */
};

struct httpd_target { /* zero-initialise; finish with httpd_target_finish */
    char *memory;     /* holds the texts below */
    const char *path;
    struct httpd_parameter query[HTTPD_QUERY_MAX];
    size_t query_count;
};

enum err_code httpd_target_parse(const char *text, struct httpd_target *ret_target,
                                 struct err *reterr) MUSTCHECK;
void httpd_target_finish(struct httpd_target *target);

#endif
