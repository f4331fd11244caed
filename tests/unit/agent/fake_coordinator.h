/*
 * A scripted HTTP server for the tests of the link to the coordinator: a list of answers for each
 * kind of request, of which the last one repeats. It speaks over plain sockets, so that it can also
 * say what no HTTP server would. Any thread may call.
 */
#ifndef BATON_TESTS_FAKE_COORDINATOR_H
#define BATON_TESTS_FAKE_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what a coordinator says, as texts */

#define FAKE_CLUSTER "22222222-2222-4222-8222-222222222222"
#define FAKE_JOB     "44444444-4444-4444-8444-444444444444"

#define FAKE_WELCOME_OF(cluster, report_interval)                                                  \
    "{\"cluster\":\"" cluster "\",\"protocol\":2,\"agent_timeout\":\"10s\","                       \
    "\"report_interval\":\"" report_interval "\",\"poll_wait\":\"25s\"}"
#define FAKE_WELCOME FAKE_WELCOME_OF(FAKE_CLUSTER, "100ms")

/* A document of the job "orders" with 2 partitions and 2 processors; `tasks` of FAKE_TASK. */
#define FAKE_DOCUMENT(version, tasks)                                                              \
    "{\"version\":\"" version "\",\"jobs\":[{\"name\":\"orders\",\"incarnation\":\"" FAKE_JOB      \
    "\",\"spec\":{\"inputs\":[\"in\"],\"output\":\"out\",\"group_id\":\"g\",\"logic\":{\"kind\":"  \
    "\"builtin\",\"name\":\"count\",\"version\":\"1\"},\"processors\":2},\"partitions_initial\":"  \
    "2,"                                                                                           \
    "\"partitions\":2,\"processors_initial\":2,\"processors\":2,\"partitioner\":\"murmur2\","      \
    "\"paused\":false,\"origins\":[{\"topic\":0,\"partition\":0,\"offset\":0},{\"topic\":0,"       \
    "\"partition\":1,\"offset\":5}]}],\"tasks\":[" tasks "]}"
#define FAKE_TASK(processor)                                                                       \
    "{\"job\":\"orders\",\"processor\":" processor ",\"role\":\"active\",\"epoch\":7,"             \
    "\"handoff\":0,\"owned\":[" processor "],\"read\":[" processor "]}"
#define FAKE_PROBLEM(status, code)                                                                 \
    "{\"type\":\"urn:baton:problem:" code "\",\"title\":\"t\",\"status\":" status                  \
    ",\"detail\":\"because\",\"code\":\"" code "\",\"errors\":[]}"

enum fake_route { FAKE_REGISTER, FAKE_POLL, FAKE_REPORT, FAKE_DEREGISTER, FAKE_OTHER, FAKE_ROUTES };

struct fake_answer {
    unsigned status;
    const char *body;     /* NULL: none */
    const char *header;   /* one more line, "Retry-After: 1"; or NULL */
    const char *raw;      /* instead of all that: these bytes, then the connection is closed */
    size_t padding_bytes; /* blanks before the body */
    bool hold;            /* no answer until fake_release or the end */
};

struct fake_coordinator;

/* Bound to a port of 127.0.0.1 but refusing connections until fake_listen. */
struct fake_coordinator *fake_create(void);
void fake_listen(struct fake_coordinator *fake);
void fake_destroy(struct fake_coordinator *fake);

const char *fake_url(const struct fake_coordinator *fake);

/* Adds to the answers of a route; texts are borrowed. */
void fake_script(struct fake_coordinator *fake, enum fake_route route, struct fake_answer answer);
void fake_release(struct fake_coordinator *fake); /* what is held is answered */

/* Waits for the route's request number `number` (from 1); false after 30 s. */
bool fake_wait(struct fake_coordinator *fake, enum fake_route route, size_t number);
size_t fake_count(struct fake_coordinator *fake, enum fake_route route);
/* "POST /agent/v1/agents" and the body of that request; valid until fake_destroy. */
const char *fake_line(struct fake_coordinator *fake, enum fake_route route, size_t number);
const char *fake_body(struct fake_coordinator *fake, enum fake_route route, size_t number);
int64_t fake_time_ms(struct fake_coordinator *fake, enum fake_route route, size_t number);

#endif
