#include "coordinator/metrics.h"

#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/routes.h"
#include "api/schema.h"
#include "common/mem.h"
#include "common/prom.h"

/* ---- requests */

static const uint32_t statuses[METRICS_STATUSES_MAX] = {200, 201, 202, 204, 304, 400,
                                                        404, 405, 409, 412, 413, 414,
                                                        415, 422, 431, 500, 503, 0 /* any other */};

void metrics_count_request(struct metrics_requests *requests, size_t route, uint32_t status)
{
    size_t index = 0;
    assert(route <= METRICS_ROUTES_MAX);
    while (statuses[index] != 0 && statuses[index] != status)
        index++;
    __atomic_add_fetch(&requests->counts[route][index], 1, __ATOMIC_RELAXED);
}

static void print_requests_of(struct strbuf *buf, const struct metrics_requests *requests,
                              size_t row, const char *method, const char *path)
{
    for (size_t i = 0; i < METRICS_STATUSES_MAX; i++) {
        uint64_t count = __atomic_load_n(&requests->counts[row][i], __ATOMIC_RELAXED);
        char status[16];
        if (count == 0)
            continue;
        (void)snprintf(status, sizeof(status), "%u", statuses[i]);
        prom_sample_int(buf, "baton_http_requests_total",
                        PROM_LABELS({"method", method}, {"route", path},
                                    {"status", statuses[i] == 0 ? "other" : status}),
                        (int64_t)count);
    }
}

static void print_requests(struct strbuf *buf, const struct metrics_requests *requests)
{
    prom_family(buf, "baton_http_requests_total", PROM_TYPE_COUNTER,
                "Requests that were answered, by route and status.");
    const struct route *route;
    for (size_t i = 0; (route = routes_at(i)) != NULL; i++)
        print_requests_of(buf, requests, (size_t)route->id, route->method, route->path);
    print_requests_of(buf, requests, METRICS_NO_ROUTE, "", "");
}

/* ---- the process */

static void print_gauge(struct strbuf *buf, const char *name, const char *help, int64_t value)
{
    prom_family(buf, name, PROM_TYPE_GAUGE, help);
    prom_sample_int(buf, name, NULL, value);
}

static void print_counter(struct strbuf *buf, const char *name, const char *help, uint64_t value)
{
    prom_family(buf, name, PROM_TYPE_COUNTER, help);
    prom_sample_int(buf, name, NULL, (int64_t)value);
}

static void print_httpd(struct strbuf *buf, struct httpd *httpd)
{
    struct httpd_counts counts;
    httpd_count(httpd, &counts);
    print_gauge(buf, "baton_http_connections", "HTTP connections that are open.",
                (int64_t)counts.connections);
    print_gauge(buf, "baton_http_waiting_requests",
                "Requests that wait for an answer of the owner thread.", (int64_t)counts.deferred);
    print_gauge(buf, "baton_http_body_bytes", "Bytes of request bodies in memory.",
                (int64_t)counts.body_bytes);
    print_counter(buf, "baton_http_overdue_connections_total",
                  "Connections that were closed because they took too long.", counts.overdue);
    print_counter(buf, "baton_http_gone_requests_total", "Waiting requests whose client went away.",
                  counts.gone);
}

static void print_owner(struct strbuf *buf, const struct coordinator *coordinator)
{
    struct coordinator_counts counts;
    coordinator_count(coordinator, &counts);
    print_gauge(buf, "baton_coordinator_working",
                "1 while the store is loaded and takes commits, else 0.",
                coordinator_working(coordinator));
    print_gauge(buf, "baton_mailbox_messages", "Messages that wait for the owner thread.",
                (int64_t)counts.mailbox);
    print_counter(buf, "baton_mailbox_refused_total",
                  "Requests that were answered busy because the mailbox was full.", counts.refused);
    print_counter(buf, "baton_kafka_calls_not_taken_total",
                  "Calls to Kafka that failed because too many waited.", counts.calls_refused);
    print_counter(buf, "baton_steps_total", "Events that the owner thread has carried out.",
                  counts.steps);
    print_counter(buf, "baton_publications_total", "Views that were published for readers.",
                  counts.publications);
    print_counter(buf, "baton_store_failures_total", "Commits to the database that failed.",
                  counts.commit_failures);
    prom_family(buf, "baton_store_commit_seconds", PROM_TYPE_HISTOGRAM,
                "Time of commits to the database.");
    prom_histogram_print(buf, "baton_store_commit_seconds", NULL,
                         coordinator_commit_times(coordinator));
    metrics_handoffs_print(buf, coordinator_handoffs(coordinator));
}

static void print_kafka(struct strbuf *buf, const struct kafka *kafka)
{
    struct kafka_counts counts;
    kafka_count(kafka, &counts);
    prom_family(buf, "baton_kafka_calls_total", PROM_TYPE_COUNTER,
                "Calls to Kafka that have ended, by kind.");
    for (enum kafka_call_kind kind = 0; kind < KAFKA_CALL_COUNT; kind++)
        prom_sample_int(buf, "baton_kafka_calls_total",
                        PROM_LABELS({"call", kafka_call_name(kind)}), (int64_t)counts.calls[kind]);
    prom_family(buf, "baton_kafka_call_failures_total", PROM_TYPE_COUNTER,
                "Calls to Kafka that have failed, by kind.");
    for (enum kafka_call_kind kind = 0; kind < KAFKA_CALL_COUNT; kind++)
        prom_sample_int(buf, "baton_kafka_call_failures_total",
                        PROM_LABELS({"call", kafka_call_name(kind)}),
                        (int64_t)counts.failures[kind]);
}

static void print_build(struct strbuf *buf)
{
    prom_family(buf, "baton_build_info", PROM_TYPE_GAUGE, "Versions, as labels; always 1.");
    prom_sample_int(buf, "baton_build_info",
                    PROM_LABELS({"component", "baton-coordinator"}, {"version", BATON_VERSION},
                                {"librdkafka", rd_kafka_version_str()}),
                    1);
}

void metrics_print(struct strbuf *buf, const struct metrics_sources *sources,
                   const struct metrics_requests *requests, struct httpd *httpd)
{
    print_build(buf);
    print_owner(buf, sources->coordinator);
    print_kafka(buf, sources->kafka);
    print_httpd(buf, httpd);
    print_requests(buf, requests);
    const struct view *view = publish_acquire(sources->publisher);
    metrics_print_view(buf, view);
    publish_release(view);
}
