/* Requests about what a change would take, and for more processors or partitions. */
#include <stdlib.h>

#include "common/mem.h"
#include "coordinator/core/dry_run.h"
#include "coordinator/http_private.h"

static void refuse_field(struct exchange *exchange, const char *pointer, const char *detail)
{
    struct codec_faults faults = {0};
    codec_faults_add(&faults, pointer, "%s", detail);
    exchange_faults(exchange, &faults);
    codec_faults_finish(&faults);
}

static void look_ahead(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_PLAN};
    const char *detail = NULL;
    if (!exchange_decode(exchange, &schema_plan_request, &event.plan_request))
        return;
    const char *pointer = dry_run_find_fault(&event.plan_request, &detail);
    if (pointer != NULL) {
        refuse_field(exchange, pointer, detail);
        schema_free(&schema_plan_request, &event.plan_request);
        return;
    }
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

/* NULL: one of the two counts is given, and can be one. */
static const char *find_expansion_fault(const struct expansion_request *request,
                                        const char **ret_detail)
{
    bool processors = request->processors != API_UNKNOWN;
    bool partitions = request->partitions != API_UNKNOWN;
    int64_t count = processors ? request->processors : request->partitions;
    *ret_detail = "give either processors or partitions: one is expanded at a time";
    if (processors == partitions)
        return "/processors";
    *ret_detail = "must be from 1 to 10000";
    if (count < 1 || count > API_PARTITIONS_MAX)
        return processors ? "/processors" : "/partitions";
    return NULL;
}

static void expand_job(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_EXPAND};
    const char *detail = NULL;
    if (!handlers_write_check_job(exchange) ||
        !exchange_decode(exchange, &schema_expansion_request, &event.expansion))
        return;
    const char *pointer = find_expansion_fault(&event.expansion, &detail);
    if (pointer != NULL) {
        refuse_field(exchange, pointer, detail);
        schema_free(&schema_expansion_request, &event.expansion);
        return;
    }
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

void handlers_plan(struct exchange *exchange)
{
    if (exchange->match.route->id == ROUTE_PLAN)
        look_ahead(exchange);
    else
        expand_job(exchange);
}
