/*
 * What a request says outside of its body: query parameters and headers, strictly read. Errors are
 * ERR_INVALID and name the parameter or header and what is allowed. Pure; any thread.
 */
#ifndef BATON_COORDINATOR_REQUEST_H
#define BATON_COORDINATOR_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/routes.h"
#include "api/types.h"
#include "common/err.h"
#include "common/httpd_target.h"

#define REQUEST_LIMIT_DEFAULT 100
#define REQUEST_LIMIT_MAX     1000
#define REQUEST_WAIT_MS_MAX   60000

/* Every parameter is one that the route takes. */
enum err_code request_check_query(const struct httpd_target *target, const struct route *route,
                                  struct err *reterr) MUSTCHECK;

const char *request_parameter(const struct httpd_target *target, const char *name); /* NULL: none */

/* Each sets its default when the parameter is absent. */
enum err_code request_limit(const struct httpd_target *target, uint32_t *ret_limit,
                            struct err *reterr) MUSTCHECK;
/* `limit`, or `last` in its place; *ret_last says which. */
enum err_code request_limit_or_last(const struct httpd_target *target, uint32_t *ret_limit,
                                    bool *ret_last, struct err *reterr) MUSTCHECK;
enum err_code request_wait(const struct httpd_target *target, int64_t *ret_wait_ms,
                           struct err *reterr) MUSTCHECK;
/* 0..2^63-1 */
enum err_code request_number(const struct httpd_target *target, const char *name, uint64_t fallback,
                             uint64_t *ret_number, struct err *reterr) MUSTCHECK;
enum err_code request_version(const struct httpd_target *target, const char *name,
                              struct document_version *ret_version, struct err *reterr) MUSTCHECK;
/* Required. */
enum err_code request_incarnation(const struct httpd_target *target, const char **ret_incarnation,
                                  struct err *reterr) MUSTCHECK;
/* The name of a job; NULL when absent. */
enum err_code request_job(const struct httpd_target *target, const char **ret_job,
                          struct err *reterr) MUSTCHECK;

/* `key` as bytes, decoded by `key_encoding`: free(); NULL when there is no `key`. */
enum err_code request_key(const struct httpd_target *target, char **ret_key, size_t *ret_bytes,
                          struct err *reterr) MUSTCHECK;

/* If-Match: a generation, UINT64_MAX for "*", 0 when absent (NULL). */
enum err_code request_if_match(const char *value, uint64_t *ret_generation,
                               struct err *reterr) MUSTCHECK;
/* If-None-Match: "*" only. */
enum err_code request_if_none_match(const char *value, bool *ret_must_not_exist,
                                    struct err *reterr) MUSTCHECK;

/* Content-Type: application/json, with charset=utf-8 or without. `value` may be NULL. */
bool request_is_json(const char *value);

#endif
