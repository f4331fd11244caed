/*
 * The dashboard: files of coordinator/web/, built into the program. They read the API with the
 * rights of whoever opens them and change nothing. Any thread.
 */
#ifndef BATON_COORDINATOR_WEB_H
#define BATON_COORDINATOR_WEB_H

#include <stddef.h>

#include "api/routes.h"

struct web_file {
    const char *content_type;
    const char *text;
    size_t bytes;
    char etag[24]; /* quoted, of the contents */
};

/* `route` is one of ROUTE_DASHBOARD*. */
void web_file(enum route_id route, struct web_file *ret_file);

#endif
