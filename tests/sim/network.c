#include "tests/sim/network.h"

#include <assert.h>
#include <stdlib.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/sim/world.h"

static void message_finish(struct message *message)
{
    coord_event_finish(&message->event);
    answer_finish(&message->answer);
    free(message);
}

static bool is_lost(struct world *world, const struct message *message)
{
    const struct network *network = &world->network;
    int64_t cut_ms = message->is_answer ? network->cut_hearing_ms[message->agent]
                                        : network->cut_asking_ms[message->agent];

    if (world->now_ms < cut_ms) {
        world->tally->of[TALLY_CUT_OFF]++;
        return true;
    }
    if (world_chance(world, 2)) {
        world->tally->of[message->is_answer ? TALLY_ANSWER_LOST : TALLY_REQUEST_LOST]++;
        return true;
    }
    return network->count == NETWORK_MESSAGES_MAX;
}

static int64_t arrival_ms(struct world *world)
{
    if (!world_chance(world, 40))
        return world->now_ms + world_between(world, 0, 4);
    world->tally->of[TALLY_MESSAGE_LATE]++;
    return world->now_ms + world_between(world, 0, world_between(world, 0, 3) == 0 ? 8000 : 400);
}

/* Reports are what is worth it: that a poll or a registration comes twice the client sees to. */
static struct message *copy_request(const struct message *message)
{
    struct message *copy = mem_memdup(message, sizeof(*message));

    copy->event.actor = NULL;
    copy->event.reason = NULL;
    copy->event.name = message->event.name != NULL ? mem_strdup(message->event.name) : NULL;
    copy->event.incarnation =
        message->event.incarnation != NULL ? mem_strdup(message->event.incarnation) : NULL;
    if (message->kind == MESSAGE_REPORT)
        schema_copy(&schema_agent_report, &copy->event.report, &message->event.report);
    else if (message->kind == MESSAGE_REGISTER)
        schema_copy(&schema_agent_registration, &copy->event.registration,
                    &message->event.registration);
    return copy;
}

/* The connection breaks: whoever waits for an answer knows at once that there will be none. */
static void reset_connection(struct world *world, struct message *message)
{
    world->tally->of[TALLY_RESET]++;
    coord_event_finish(&message->event);
    answer_finish(&message->answer);
    message->is_answer = true;
}

static void put(struct world *world, struct message *message)
{
    if (is_lost(world, message)) {
        message_finish(message);
        return;
    }
    if (world_chance(world, 6))
        reset_connection(world, message);
    message->due_ms = arrival_ms(world);
    world->network.messages[world->network.count++] = message;
}

void network_send(struct world *world, struct message *message)
{
    if (!message->is_answer && world_chance(world, 20)) {
        world->tally->of[TALLY_REQUEST_TWICE]++;
        put(world, copy_request(message));
    }
    put(world, message);
}

/* True: it is out of the network. */
static bool deliver_request(struct world *world, struct message *message)
{
    const struct sim_host *host = &world->host;

    if (host->paused)
        return false;
    if (!host->alive) {
        struct message *refusal = mem_calloc(1, sizeof(*refusal));

        *refusal = (struct message){.kind = message->kind,
                                    .is_answer = true,
                                    .agent = message->agent,
                                    .start = message->start,
                                    .number = message->number};
        message_finish(message);
        network_send(world, refusal);
        return true;
    }
    host_receive(world, message);
    message_finish(message);
    return true;
}

static bool deliver_answer(struct world *world, struct message *message)
{
    const struct sim_agent *agent = world_process(world, message->agent, message->start);

    if (agent != NULL && agent->paused)
        return false;
    if (agent != NULL)
        link_take(world, (size_t)(agent - world->agents), message);
    message_finish(message);
    return true;
}

void network_turn(struct world *world)
{
    struct network *network = &world->network;

    for (size_t i = 0; i < network->count;) {
        struct message *message = network->messages[i];

        if (message->due_ms > world->now_ms) {
            i++;
            continue;
        }
        network->messages[i] = network->messages[--network->count];
        if (message->is_answer ? deliver_answer(world, message) : deliver_request(world, message))
            continue;
        /* Back to its place: what was sent meanwhile is behind it. */
        assert(network->count < NETWORK_MESSAGES_MAX);
        network->messages[network->count++] = network->messages[i];
        network->messages[i++] = message;
    }
}

void network_drop_answers(struct world *world, size_t agent)
{
    struct network *network = &world->network;

    for (size_t i = network->count; i-- > 0;) {
        if (!network->messages[i]->is_answer || network->messages[i]->agent != agent)
            continue;
        message_finish(network->messages[i]);
        network->messages[i] = network->messages[--network->count];
    }
}

int64_t network_due_ms(const struct world *world)
{
    int64_t due_ms = INT64_MAX;

    for (size_t i = 0; i < world->network.count; i++) {
        const struct message *message = world->network.messages[i];
        const struct sim_agent *agent = world_process(world, message->agent, message->start);
        bool waits = message->is_answer ? agent != NULL && agent->paused : world->host.paused;

        if (!waits && message->due_ms < due_ms)
            due_ms = message->due_ms;
    }
    return due_ms;
}

void network_finish(struct network *network)
{
    while (network->count > 0)
        message_finish(network->messages[--network->count]);
}
