/* Requests that the owner thread answers: changes, waits, history. Here they are checked and
 * decoded. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/spec.h"
#include "api/text.h"
#include "common/mem.h"
#include "coordinator/core/view.h"
#include "coordinator/http_private.h"
#include "coordinator/request.h"

static const struct httpd_target *target_of(const struct exchange *exchange)
{
    return &exchange->request->target;
}

char *handlers_write_actor(const struct exchange *exchange)
{
    return mem_printf("api %s", exchange->request->peer);
}

/* A parameter or header that is wrong is answered here: false. */
static bool check_query(struct exchange *exchange, enum err_code code, const struct err *err)
{
    if (code != ERR_NONE)
        exchange_problem(exchange, "invalid_query", "%s", err->text);
    return code == ERR_NONE;
}

/* NULL when absent; false: it is there twice, which is answered. */
static bool single_header(struct exchange *exchange, const char *name, const char **ret_value)
{
    bool repeated = false;
    *ret_value = httpd_header(exchange->request, name, &repeated);
    if (repeated)
        exchange_problem(exchange, "invalid_header", "%s is given more than once", name);
    return !repeated;
}

static bool read_if_match(struct exchange *exchange, struct coord_event *event)
{
    const char *value = NULL;
    struct err err;
    if (!single_header(exchange, "If-Match", &value))
        return false;
    if (request_if_match(value, &event->if_match, &err) == ERR_NONE)
        return true;
    exchange_problem(exchange, "invalid_header", "%s", err.text);
    return false;
}

static bool read_if_none_match(struct exchange *exchange, struct coord_event *event)
{
    const char *value = NULL;
    struct err err;
    if (!single_header(exchange, "If-None-Match", &value))
        return false;
    if (request_if_none_match(value, &event->if_none_match, &err) == ERR_NONE)
        return true;
    exchange_problem(exchange, "invalid_header", "%s", err.text);
    return false;
}

/* ---- jobs */

bool handlers_write_check_job(struct exchange *exchange)
{
    const char *name = exchange->match.parameters[0];
    if (schema_name_valid(name))
        return true;
    exchange_problem(exchange, "malformed_target",
                     "\"%s\" can not be the name of a job: it must be 1 to %d of the characters "
                     "a-z, 0-9, '.', '_' and '-', the first a letter or a digit",
                     name, API_NAME_BYTES_MAX);
    return false;
}

static bool decode_spec(struct exchange *exchange, struct job_spec *ret_spec)
{
    if (!exchange_decode(exchange, &schema_job_spec, ret_spec))
        return false;
    spec_complete(ret_spec);
    struct codec_faults faults = {0};
    enum err_code code = spec_check(ret_spec, &faults);
    if (code != ERR_NONE) {
        exchange_faults(exchange, &faults);
        schema_free(&schema_job_spec, ret_spec);
    }
    codec_faults_finish(&faults);
    return code == ERR_NONE;
}

static void put_job(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_JOB_PUT};
    if (!handlers_write_check_job(exchange) || !read_if_match(exchange, &event) ||
        !read_if_none_match(exchange, &event))
        return;
    if (event.if_none_match && event.if_match != 0) {
        exchange_problem(exchange, "invalid_header",
                         "If-Match and If-None-Match can not be true together");
        return;
    }
    if (!decode_spec(exchange, &event.spec))
        return;
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

static void delete_job(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_JOB_DELETE};
    if (!handlers_write_check_job(exchange) || !read_if_match(exchange, &event))
        return;
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

static void move_processor(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_MOVE};
    if (!handlers_write_check_job(exchange) ||
        !exchange_decode(exchange, &schema_move_request, &event.move))
        return;
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

static void rebalance_job(struct exchange *exchange)
{
    struct rebalance_request request = {0};
    if (!handlers_write_check_job(exchange) ||
        !exchange_decode(exchange, &schema_rebalance_request, &request))
        return;
    struct coord_event event = {.kind = COORD_EVENT_REBALANCE,
                                .name = mem_strdup(exchange->match.parameters[0]),
                                .reason = request.reason,
                                .plan = request.plan,
                                .actor = handlers_write_actor(exchange)};
    exchange_post(exchange, &event);
}

static void hold_job(struct exchange *exchange)
{
    bool pause = exchange->match.route->id == ROUTE_JOB_PAUSE;
    struct pause_request request = {0};
    if (!handlers_write_check_job(exchange) ||
        !exchange_decode(exchange, &schema_pause_request, &request))
        return;
    struct coord_event event = {.kind = pause ? COORD_EVENT_PAUSE : COORD_EVENT_RESUME,
                                .name = mem_strdup(exchange->match.parameters[0]),
                                .reason = request.reason,
                                .actor = handlers_write_actor(exchange)};
    exchange_post(exchange, &event);
}

static void set_maintenance(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_MAINTENANCE};
    if (!exchange_decode(exchange, &schema_maintenance_request, &event.maintenance))
        return;
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

static void skip_record(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_SKIP};
    if (!handlers_write_check_job(exchange) ||
        !exchange_decode(exchange, &schema_skip_request, &event.skip))
        return;
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

static void choose_offsets(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_OFFSETS};
    if (!handlers_write_check_job(exchange) ||
        !exchange_decode(exchange, &schema_offsets_request, &event.offsets))
        return;
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

static void mend_job(struct exchange *exchange)
{
    if (exchange->match.route->id == ROUTE_JOB_SKIP)
        skip_record(exchange);
    else
        choose_offsets(exchange);
}

static void make_backup(struct exchange *exchange)
{
    struct archive_query query = {.kind = ARCHIVE_QUERY_BACKUP};
    exchange_ask(exchange, &query);
}

/* ---- agents, as people see them */

static void forget_agent(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_AGENT_FORGET,
                                .name = mem_strdup(exchange->match.parameters[0]),
                                .actor = handlers_write_actor(exchange)};
    exchange_post(exchange, &event);
}

static void set_eligibility(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_ELIGIBILITY};
    if (!exchange_decode(exchange, &schema_eligibility_request, &event.eligibility))
        return;
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

static void drain_agent(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_DRAIN};
    if (!exchange_decode(exchange, &schema_drain_request, &event.drain))
        return;
    event.name = mem_strdup(exchange->match.parameters[0]);
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

static void cancel_drain(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_DRAIN_CANCEL,
                                .name = mem_strdup(exchange->match.parameters[0]),
                                .actor = handlers_write_actor(exchange)};
    exchange_post(exchange, &event);
}

/* ---- operations */

static bool read_operation_id(struct exchange *exchange, uint64_t *ret_id)
{
    const char *text = exchange->match.parameters[0];
    if (view_operation_parse(text, ret_id))
        return true;
    exchange_problem(exchange, "operation_not_found", "there is no operation \"%s\"", text);
    return false;
}

/* From the published view, when it is there. */
static bool answer_known_operation(struct exchange *exchange)
{
    const struct view *view = publish_acquire(exchange->http->config.sources.publisher);
    const struct operation_view *operation =
        view == NULL ? NULL : view_find_operation(view, exchange->match.parameters[0]);
    if (operation != NULL)
        exchange_value(exchange, &schema_operation_view, operation, 0);
    publish_release(view);
    return operation != NULL;
}

static void get_operation(struct exchange *exchange)
{
    uint64_t id = 0;
    int64_t wait_ms = 0;
    struct err err;
    if (!read_operation_id(exchange, &id) ||
        !check_query(exchange, request_wait(target_of(exchange), &wait_ms, &err), &err))
        return;
    if (wait_ms == 0) {
        if (answer_known_operation(exchange))
            return;
        struct archive_query query = {.kind = ARCHIVE_QUERY_OPERATION, .operation = id};
        exchange_ask(exchange, &query);
        return;
    }
    struct coord_event event = {.kind = COORD_EVENT_OPERATION_WAIT,
                                .operation = id,
                                .wait_ms = wait_ms,
                                .actor = handlers_write_actor(exchange)};
    exchange_post(exchange, &event);
}

static void cancel_operation(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_OPERATION_CANCEL};
    if (!read_operation_id(exchange, &event.operation))
        return;
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

static bool read_operation_state(struct exchange *exchange, struct archive_query *query)
{
    const char *text = request_parameter(target_of(exchange), "state");
    int state = 0;
    if (text == NULL)
        return true;
    if (!schema_enum_parse(schema_names_operation_state, text, &state)) {
        exchange_problem(exchange, "invalid_query",
                         "state must be pending, running, succeeded, failed or cancelled");
        return false;
    }
    query->only_state = true;
    query->state = (enum operation_state)state;
    return true;
}

static bool read_number_cursor(struct exchange *exchange, uint64_t *ret_before)
{
    const char *text = request_parameter(target_of(exchange), "cursor");
    if (text == NULL || (text_uint_parse(text, INT64_MAX, ret_before) && *ret_before > 0))
        return true;
    exchange_problem(exchange, "invalid_query",
                     "cursor must be `next` of the page before, as it is");
    return false;
}

static void list_operations(struct exchange *exchange)
{
    struct archive_query query = {.kind = ARCHIVE_QUERY_OPERATIONS};
    const char *job = NULL;
    struct err err;
    if (!check_query(exchange, request_limit(target_of(exchange), &query.limit, &err), &err) ||
        !check_query(exchange, request_job(target_of(exchange), &job, &err), &err) ||
        !read_operation_state(exchange, &query) || !read_number_cursor(exchange, &query.before))
        return;
    query.job = job == NULL ? NULL : mem_strdup(job);
    exchange_ask(exchange, &query);
}

/* ---- hand-overs */

static bool read_handoff_id(struct exchange *exchange, uint64_t *ret_id)
{
    const char *text = exchange->match.parameters[0];
    if (text_uint_parse(text, INT64_MAX, ret_id) && *ret_id > 0)
        return true;
    exchange_problem(exchange, "handoff_not_found", "there is no hand-over \"%s\"", text);
    return false;
}

static bool read_handoff_state(struct exchange *exchange, struct archive_query *query)
{
    const char *text = request_parameter(target_of(exchange), "state");
    int state = 0;
    if (text == NULL)
        return true;
    if (!schema_enum_parse(schema_names_handoff_state, text, &state)) {
        exchange_problem(exchange, "invalid_query",
                         "state must be learning, caught_up, releasing, released, activating, "
                         "done, cancelled or failed");
        return false;
    }
    query->only_state = true;
    query->handoff_state = (enum handoff_state)state;
    return true;
}

static void list_handoffs(struct exchange *exchange)
{
    struct archive_query query = {.kind = ARCHIVE_QUERY_HANDOFFS};
    const char *job = NULL;
    struct err err;
    if (!check_query(exchange, request_limit(target_of(exchange), &query.limit, &err), &err) ||
        !check_query(exchange, request_job(target_of(exchange), &job, &err), &err) ||
        !read_handoff_state(exchange, &query) || !read_number_cursor(exchange, &query.before))
        return;
    query.job = job == NULL ? NULL : mem_strdup(job);
    exchange_ask(exchange, &query);
}

static void get_handoff(struct exchange *exchange)
{
    struct archive_query query = {.kind = ARCHIVE_QUERY_HANDOFF};
    if (read_handoff_id(exchange, &query.handoff))
        exchange_ask(exchange, &query);
}

static void cancel_handoff(struct exchange *exchange)
{
    struct coord_event event = {.kind = COORD_EVENT_HANDOFF_CANCEL};
    if (!read_handoff_id(exchange, &event.handoff))
        return;
    event.actor = handlers_write_actor(exchange);
    exchange_post(exchange, &event);
}

/* ---- events */

static void list_events(struct exchange *exchange)
{
    struct archive_query query = {.kind = ARCHIVE_QUERY_EVENTS};
    const struct httpd_target *target = target_of(exchange);
    const char *job = NULL;
    struct err err;
    if (!check_query(exchange, request_limit_or_last(target, &query.limit, &query.last, &err),
                     &err) ||
        !check_query(exchange, request_number(target, "after", 0, &query.after, &err), &err) ||
        !check_query(exchange, request_wait(target, &query.wait_ms, &err), &err) ||
        !check_query(exchange, request_job(target, &job, &err), &err))
        return;
    query.job = job == NULL ? NULL : mem_strdup(job);
    exchange_ask(exchange, &query);
}

/* ---- dispatch */

void handlers_write(struct exchange *exchange)
{
    switch ((int)exchange->match.route->id) {
    case ROUTE_JOB_PUT:
        put_job(exchange);
        return;
    case ROUTE_JOB_DELETE:
        delete_job(exchange);
        return;
    case ROUTE_AGENT_FORGET:
        forget_agent(exchange);
        return;
    case ROUTE_ELIGIBILITY_PUT:
        set_eligibility(exchange);
        return;
    case ROUTE_DRAIN_PUT:
        drain_agent(exchange);
        return;
    case ROUTE_DRAIN_CANCEL:
        cancel_drain(exchange);
        return;
    case ROUTE_JOB_MOVE:
        move_processor(exchange);
        return;
    case ROUTE_JOB_REBALANCE:
        rebalance_job(exchange);
        return;
    case ROUTE_JOB_PAUSE:
    case ROUTE_JOB_RESUME:
        hold_job(exchange);
        return;
    case ROUTE_MAINTENANCE_PUT:
        set_maintenance(exchange);
        return;
    case ROUTE_PLAN:
    case ROUTE_JOB_EXPAND:
        handlers_plan(exchange);
        return;
    case ROUTE_HANDOFFS_LIST:
        list_handoffs(exchange);
        return;
    case ROUTE_HANDOFF_GET:
        get_handoff(exchange);
        return;
    case ROUTE_HANDOFF_CANCEL:
        cancel_handoff(exchange);
        return;
    case ROUTE_OPERATIONS_LIST:
        list_operations(exchange);
        return;
    case ROUTE_OPERATION_GET:
        get_operation(exchange);
        return;
    case ROUTE_OPERATION_CANCEL:
        cancel_operation(exchange);
        return;
    case ROUTE_EVENTS:
        list_events(exchange);
        return;
    case ROUTE_JOB_SKIP:
    case ROUTE_JOB_OFFSETS:
        mend_job(exchange);
        return;
    case ROUTE_BACKUP:
        make_backup(exchange);
        return;
    default:
        handlers_agent(exchange);
    }
}
