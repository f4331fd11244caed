/*
 * An agent's side of the protocol, as agent/coordinator_link.c and agent/agent.c have it: it
 * registers, polls for its document and reports, one request of each kind at a time, and tries
 * again when no answer comes. When it leaves it closes its tasks, says so, and signs off.
 */
#ifndef BATON_TESTS_SIM_AGENT_LINK_H
#define BATON_TESTS_SIM_AGENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/network.h"

struct world;

enum link_leaving {
    LINK_STAYS,
    LINK_STOPS,   /* its tasks close */
    LINK_REPORTS, /* for the last time */
    LINK_SIGNS_OFF
};

struct sim_channel { /* of one kind of request */
    bool active;
    uint32_t number;
    int64_t deadline_ms; /* when it gives up waiting */
    int64_t retry_ms;    /* not before */
};

struct sim_link {
    bool registered;
    uint32_t number;
    struct sim_channel channels[MESSAGE_KIND_COUNT];
    struct document_version after;    /* of the document that it works by */
    struct document_version reported; /* of the report under way, or sent last */
    enum link_leaving leaving;
    bool ended;              /* superseded, or its name stays in use: it says nothing more */
    int64_t in_use_since_ms; /* 0: the last registration was not refused for that */
};

void link_start(struct world *world, size_t agent);
void link_tend(struct world *world, size_t agent);
void link_report_now(struct world *world, size_t agent);
void link_leave(struct world *world, size_t agent);
void link_take(struct world *world, size_t agent, struct message *message); /* an answer */
int64_t link_due_ms(const struct world *world, size_t agent);

/* How the coordinator knows agents, and how it is read back. */
const char *agent_name(size_t agent);
void agent_incarnation(size_t agent, uint32_t start, char ret_text[API_UUID_BYTES + 1]);
size_t agent_of_name(const char *name);
uint32_t agent_start_of(const char *incarnation);

#endif
