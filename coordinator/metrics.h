/*
 * GET /metrics: everything that the coordinator counts, as Prometheus text. Reads the published
 * view and atomic counters; any thread.
 */
#ifndef BATON_COORDINATOR_METRICS_H
#define BATON_COORDINATOR_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "common/httpd.h"
#include "common/strbuf.h"
#include "coordinator/coordinator.h"
#include "coordinator/kafka.h"
#include "coordinator/publish.h"

struct metrics_sources { /* all borrowed */
    struct coordinator *coordinator;
    struct kafka *kafka;
    struct publisher *publisher;
};

#define METRICS_ROUTES_MAX   64
#define METRICS_STATUSES_MAX 24

struct metrics_requests { /* HTTP answers by route and status; zero-initialise */
    uint64_t counts[METRICS_ROUTES_MAX + 1][METRICS_STATUSES_MAX]; /* the last row: no route */
};

#define METRICS_NO_ROUTE METRICS_ROUTES_MAX

/* `route` is an enum route_id or METRICS_NO_ROUTE. Any thread. */
void metrics_count_request(struct metrics_requests *requests, size_t route, uint32_t status);

void metrics_print(struct strbuf *buf, const struct metrics_sources *sources,
                   const struct metrics_requests *requests, struct httpd *httpd);

/* The part that is about the cluster; `view` NULL: nothing was published yet. */
void metrics_print_view(struct strbuf *buf, const struct view *view);

#endif
