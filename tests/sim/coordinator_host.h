/*
 * The coordinator: the core under test (coordinator/core/step.h) in a shell that does what
 * coordinator/coordinator.c does, in the same order, one small step at a time: one event, one
 * commit, one call to Kafka, one answer. Between any two of them it can stop for a while or for
 * ever. What it knows is in memory; what it wrote is in the durable model, from which a new start,
 * or the same one after a commit that failed, loads it.
 */
#ifndef BATON_TESTS_SIM_COORDINATOR_HOST_H
#define BATON_TESTS_SIM_COORDINATOR_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/step.h"
#include "tests/sim/network.h"

#define HOST_MAIL_MAX     128
#define HOST_WAITING_MAX  128
#define HOST_WALL_MS      INT64_C(1700000000000) /* wall time when the world begins */
#define HOST_OPERATOR     SIM_AGENTS_MAX         /* who asks: no agent but a person */
#define HOST_UUID_PATTERN "5e5e5e5e-0000-4000-8000-%012llx"

struct world;

struct sim_request { /* that is to be answered */
    uint64_t id;
    enum coord_event_kind event;
    size_t asker; /* agent, or HOST_OPERATOR */
    enum message_kind kind;
    uint32_t start, number;
    int64_t deadline_ms; /* 0: the core has not seen it; from then on it has until then */
    bool gone;           /* its client went away: an answer is nobody's */
};

enum host_stage { HOST_IDLE, HOST_COMMIT, HOST_CALLS, HOST_ANSWERS };

struct sim_host {
    bool alive, paused;
    int64_t back_ms;
    uint32_t actions_done; /* since the world began; for sweeps */

    struct cluster cluster;
    bool loaded;
    int64_t wake_ms, load_ms;
    int64_t loaded_ms; /* since when it hears agents */
    struct coord_event mail[HOST_MAIL_MAX];
    size_t mail_count;
    bool ticked; /* the last event was a tick */

    enum host_stage stage;
    struct update update; /* under way */
    size_t next;          /* call or answer */

    uint64_t request; /* the last number */
    struct sim_request waiting[HOST_WAITING_MAX];
    size_t waiting_count;
};

void host_start(struct world *world);
void host_crash(struct world *world);
/* Its next small step; false: it has nothing to do yet. */
bool host_turn(struct world *world);
int64_t host_due_ms(const struct world *world);
void host_receive(struct world *world, struct message *message); /* takes the event */
/* A person asks; takes the event. The number of the request; 0: it could not be sent. */
uint64_t host_ask(struct world *world, struct coord_event *event);
void host_deliver(struct world *world, struct kafka_result *result); /* Kafka's; takes it */
/* One of those that wait goes away. */
void host_leave(struct world *world);
bool host_has_people(const struct world *world); /* who wait for an answer */
void host_finish(struct world *world);

/* The job that the world is about, as the coordinator has it in memory; NULL: none. */
struct job *host_job(const struct world *world);

#endif
