/* Requests for pages of snapshots, as the endpoint answers them. HTTP threads. */
#ifndef BATON_AGENT_ENDPOINT_SNAPSHOT_H
#define BATON_AGENT_ENDPOINT_SNAPSHOT_H

#include <stddef.h>

#include "agent/snapshot_serve.h"
#include "api/routes.h"
#include "common/err.h"
#include "common/httpd.h"

/* NULL: `ret_page` (free()) is the answer. Else a problem code, and the text for people in
 * `ret_detail` (ERR_TEXT_BYTES). `serve` NULL: the agent gives none. */
const char *endpoint_snapshot(struct snapshot_serve *serve, const struct httpd_request *request,
                              const struct route_match *match, char **ret_page, size_t *ret_bytes,
                              char *ret_detail);

#endif
