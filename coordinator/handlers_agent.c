/* What agents ask: decoded and checked here, answered by the owner thread. */
#include <assert.h>
#include <stdlib.h>

#include "api/codec.h"
#include "api/protocol.h"
#include "common/mem.h"
#include "coordinator/http_private.h"
#include "coordinator/request.h"

static const struct httpd_target *target_of(const struct exchange *exchange)
{
    return &exchange->request->target;
}

static char *agent_actor(const char *agent_id)
{
    return mem_printf("agent %s", agent_id);
}

/* A parameter that is wrong is answered here: false. */
static bool check_query(struct exchange *exchange, enum err_code code, const struct err *err)
{
    if (code != ERR_NONE)
        exchange_problem(exchange, "invalid_query", "%s", err->text);
    return code == ERR_NONE;
}

/*
 * Whether agent and coordinator have a version in common, by what is the same in all versions: what
 * else a newer agent says may not be readable here. `ret_newer`: it speaks more than we do. False:
 * it was answered. A body without ranges is refused by the decoding proper.
 */
static bool check_offer(struct exchange *exchange, bool *ret_newer)
{
    const struct protocol_range own = protocol_own();
    const struct httpd_request *request = exchange->request;
    struct agent_offer offer;
    *ret_newer = false;
    if (codec_decode_known(&schema_agent_offer, request->body == NULL ? "" : request->body,
                           request->body_bytes, &offer, NULL, NULL) != ERR_NONE)
        return true;
    const struct protocol_range range = {offer.protocol_minimum, offer.protocol};
    bool common = protocol_choose(range, own) != 0;
    if (!common) {
        char *why = protocol_refusal(offer.agent_id, offer.version, range, own);
        exchange_problem(exchange, "protocol_unsupported", "%s", why);
        free(why);
    }
    *ret_newer = offer.protocol > own.version;
    schema_free(&schema_agent_offer, &offer);
    return common;
}

static void register_agent(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_AGENT_REGISTER};
    bool newer;
    if (!check_offer(exchange, &newer))
        return;
    if (newer ? !exchange_decode_known(exchange, &schema_agent_registration, &event.registration)
              : !exchange_decode(exchange, &schema_agent_registration, &event.registration))
        return;
    event.actor = agent_actor(event.registration.agent_id);
    exchange_post(exchange, &event);
}

static bool check_agent_id(struct exchange *exchange)
{
    const char *agent_id = exchange->match.parameters[0];
    if (schema_agent_id_valid(agent_id))
        return true;
    exchange_problem(exchange, "agent_unknown", "agent \"%s\" is not registered", agent_id);
    return false;
}

static void deregister_agent(struct exchange *exchange)
{
    const char *incarnation = NULL;
    struct err err;
    if (!check_agent_id(exchange) ||
        !check_query(exchange, request_incarnation(target_of(exchange), &incarnation, &err), &err))
        return;
    struct coord_event event = {.kind = COORD_EVENT_AGENT_DEREGISTER,
                                .name = mem_strdup(exchange->match.parameters[0]),
                                .incarnation = mem_strdup(incarnation),
                                .actor = agent_actor(exchange->match.parameters[0])};
    exchange_post(exchange, &event);
}

static void poll_assignment(struct exchange *exchange)
{
    const struct httpd_target *target = target_of(exchange);
    struct coord_event event = {.kind = COORD_EVENT_POLL};
    const char *incarnation = NULL;
    struct err err;
    if (!check_agent_id(exchange) ||
        !check_query(exchange, request_incarnation(target, &incarnation, &err), &err) ||
        !check_query(exchange, request_version(target, "after", &event.after, &err), &err) ||
        !check_query(exchange, request_wait(target, &event.wait_ms, &err), &err))
        return;
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.incarnation = mem_strdup(incarnation);
    event.actor = agent_actor(event.name);
    exchange_post(exchange, &event);
}

static void report(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_REPORT};
    if (!check_agent_id(exchange) ||
        !exchange_decode(exchange, &schema_agent_report, &event.report))
        return;
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.actor = agent_actor(event.name);
    exchange_post(exchange, &event);
}

void handlers_agent(struct exchange *exchange)
{
    switch ((int)exchange->match.route->id) {
    case ROUTE_AGENT_REGISTER:
        register_agent(exchange);
        return;
    case ROUTE_AGENT_DEREGISTER:
        deregister_agent(exchange);
        return;
    case ROUTE_AGENT_ASSIGNMENT:
        poll_assignment(exchange);
        return;
    case ROUTE_AGENT_REPORT:
        report(exchange);
        return;
    default:
        assert(!"a route that the owner thread answers");
    }
}
