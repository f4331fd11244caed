/*
 * What agents and coordinator say to each other while it is on its way. An agent asks, the
 * coordinator answers (HTTP). Each of the two can be lost, late, doubled, overtaken by later ones;
 * an agent can be cut off, in one direction or in both. A coordinator that is down refuses at once,
 * one that is paused lets the request wait.
 *
 * It is a little worse than HTTP is: answers reach who has given up waiting for them, too.
 */
#ifndef BATON_TESTS_SIM_NETWORK_H
#define BATON_TESTS_SIM_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/step.h"

#define SIM_AGENTS_MAX       3
#define NETWORK_MESSAGES_MAX 64 /* more are lost */

struct world;

enum message_kind {
    MESSAGE_REGISTER,
    MESSAGE_POLL,
    MESSAGE_REPORT,
    MESSAGE_DEREGISTER,
    MESSAGE_KIND_COUNT
};

struct message {
    enum message_kind kind;
    bool is_answer;
    size_t agent;
    uint32_t start;  /* of the agent that asked */
    uint32_t number; /* of its request */
    int64_t due_ms;
    struct coord_event event; /* a request; owned */
    struct answer answer;     /* owned; status 0: nobody was there to answer */
};

struct network {
    struct message *messages[NETWORK_MESSAGES_MAX];
    size_t count;
    int64_t cut_asking_ms[SIM_AGENTS_MAX]; /* until when what it asks is lost ... */
    int64_t cut_hearing_ms[SIM_AGENTS_MAX];
};

/* Takes it. */
void network_send(struct world *world, struct message *message);
/* Hands over what has arrived. */
void network_turn(struct world *world);
void network_drop_answers(struct world *world, size_t agent); /* on their way to it */
int64_t network_due_ms(const struct world *world);
void network_finish(struct network *network);

#endif
