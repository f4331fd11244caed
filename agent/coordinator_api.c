#include "agent/coordinator_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/reconcile.h"
#include "api/codec.h"
#include "api/protocol.h"
#include "api/text.h"
#include "common/mem.h"

struct call {
    const char *method;
    char *url;  /* owned */
    char *body; /* owned; NULL: none */
    size_t body_bytes;
    int64_t total_ms;
};

static enum coordinator_outcome failed(struct coordinator_failure *reterr, const char *text)
{
    snprintf(reterr->text, sizeof(reterr->text), "%s", text);
    reterr->retry_after_ms = -1;
    return COORDINATOR_FAILED;
}

/* Carries the call out and frees what it owns. */
static enum coordinator_outcome perform(const struct coordinator_api *api,
                                        struct http_client *client, struct call *call,
                                        struct http_answer *ret_answer,
                                        struct coordinator_failure *reterr)
{
    struct http_request request = {
        .method = call->method,
        .url = call->url,
        .body = call->body,
        .body_bytes = call->body_bytes,
        .connect_ms = api->connect_ms < call->total_ms ? api->connect_ms : call->total_ms,
        .total_ms = call->total_ms,
        .answer_bytes_max = api->answer_bytes_max,
    };
    struct err err;
    enum err_code code = http_client_request(client, &request, ret_answer, &err);
    free(call->url);
    free(call->body);
    if (code == ERR_CONFLICT)
        return COORDINATOR_INTERRUPTED;
    return code == ERR_NONE ? COORDINATOR_OK : failed(reterr, err.text);
}

static enum coordinator_outcome outcome_of(const char *code)
{
    static const struct {
        const char *code;
        enum coordinator_outcome outcome;
    } table[] = {
        {"agent_unknown", COORDINATOR_UNKNOWN},
        {"superseded", COORDINATOR_SUPERSEDED},
        {"agent_id_in_use", COORDINATOR_IN_USE},
        {"protocol_unsupported", COORDINATOR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(code, table[i].code) == 0)
            return table[i].outcome;
    }
    return COORDINATOR_FAILED;
}

/* Of an answer that is no success: what its problem body says. Whatever answers without one (a
 * proxy, another program on that port) is only tried again: it can not speak for the coordinator.
 */
static enum coordinator_outcome refused(const struct http_answer *answer,
                                        struct coordinator_failure *reterr)
{
    struct problem_body problem;
    struct codec_faults faults = {0};
    enum coordinator_outcome outcome = COORDINATOR_FAILED;

    enum err_code code = codec_decode(&schema_problem_body, answer->body, answer->body_bytes,
                                      &problem, &faults, NULL);
    if (code == ERR_NONE) {
        outcome = outcome_of(problem.code);
        snprintf(reterr->text, sizeof(reterr->text), "it answers %u %s: %s", answer->status,
                 problem.code, problem.detail != NULL ? problem.detail : problem.title);
        schema_free(&schema_problem_body, &problem);
    } else {
        snprintf(reterr->text, sizeof(reterr->text),
                 "it answers %u without a problem body: is this a baton coordinator?",
                 answer->status);
    }
    codec_faults_finish(&faults);
    reterr->retry_after_ms = answer->retry_after_ms;
    return outcome;
}

static enum coordinator_outcome decode(const struct http_answer *answer,
                                       const struct schema_type *type, void *ret_value,
                                       struct coordinator_failure *reterr)
{
    struct codec_faults faults = {0};
    struct err err;
    char text[ERR_TEXT_BYTES];

    enum err_code code =
        codec_decode(type, answer->body, answer->body_bytes, ret_value, &faults, &err);
    if (code == ERR_INVALID && faults.count > 0)
        snprintf(text, sizeof(text), "its %s is not of the agreed form: %s: %.300s", type->name,
                 faults.items[0].pointer, faults.items[0].detail);
    else
        snprintf(text, sizeof(text), "its %s is not of the agreed form: %.400s", type->name,
                 code == ERR_NONE ? "" : err.text);
    codec_faults_finish(&faults);
    return code == ERR_NONE ? COORDINATOR_OK : failed(reterr, text);
}

enum coordinator_outcome coordinator_api_register(const struct coordinator_api *api,
                                                  struct http_client *client,
                                                  const struct agent_registration *registration,
                                                  struct agent_welcome *ret_welcome,
                                                  struct coordinator_failure *reterr)
{
    struct http_answer answer = {0};
    struct agent_welcome welcome;
    struct call call = {.method = "POST",
                        .url = mem_printf("%s/agent/v1/agents", api->url),
                        .total_ms = api->request_ms};
    call.body = codec_encode(&schema_agent_registration, registration, &call.body_bytes);

    enum coordinator_outcome outcome = perform(api, client, &call, &answer, reterr);
    if (outcome != COORDINATOR_OK)
        return outcome;
    if (answer.status != 200 && answer.status != 201)
        outcome = refused(&answer, reterr);
    else
        outcome = decode(&answer, &schema_agent_welcome, &welcome, reterr);
    http_answer_finish(&answer);
    if (outcome != COORDINATOR_OK)
        return outcome;

    struct protocol_range own = protocol_own();
    if (welcome.protocol < own.minimum || welcome.protocol > own.version) {
        outcome = failed(reterr, "it chose a protocol version that was not offered");
        schema_free(&schema_agent_welcome, &welcome);
        return outcome;
    }
    *ret_welcome = welcome;
    return COORDINATOR_OK;
}

enum coordinator_outcome coordinator_api_poll(const struct coordinator_api *api,
                                              struct http_client *client,
                                              struct document_version after, int64_t wait_ms,
                                              struct agent_document *ret_document,
                                              struct coordinator_failure *reterr)
{
    struct http_answer answer = {0};
    struct agent_document document;
    struct err err;
    char version[TEXT_BYTES], wait[TEXT_BYTES];

    text_version(after, version);
    text_duration(wait_ms, wait);
    struct call call = {
        .method = "GET",
        .url = mem_printf("%s/agent/v1/agents/%s/assignment?incarnation=%s&after=%s&wait=%s",
                          api->url, api->agent_id, api->incarnation, version, wait),
        .total_ms = wait_ms + api->request_ms};

    enum coordinator_outcome outcome = perform(api, client, &call, &answer, reterr);
    if (outcome != COORDINATOR_OK)
        return outcome;
    if (answer.status == 204)
        outcome = COORDINATOR_NO_NEWS;
    else if (answer.status != 200)
        outcome = refused(&answer, reterr);
    else
        outcome = decode(&answer, &schema_agent_document, &document, reterr);
    http_answer_finish(&answer);
    if (outcome != COORDINATOR_OK)
        return outcome;

    if (reconcile_check(&document, &err) != ERR_NONE) {
        char text[ERR_TEXT_BYTES];
        snprintf(text, sizeof(text), "its document contradicts itself: %.400s", err.text);
        schema_free(&schema_agent_document, &document);
        return failed(reterr, text);
    }
    *ret_document = document;
    return COORDINATOR_OK;
}

enum coordinator_outcome coordinator_api_report(const struct coordinator_api *api,
                                                struct http_client *client,
                                                const struct agent_report *report,
                                                struct report_answer *ret_answer,
                                                struct coordinator_failure *reterr)
{
    struct http_answer answer = {0};
    struct call call = {.method = "POST",
                        .url = mem_printf("%s/agent/v1/agents/%s/report", api->url, api->agent_id),
                        .total_ms = api->request_ms};
    call.body = codec_encode(&schema_agent_report, report, &call.body_bytes);

    enum coordinator_outcome outcome = perform(api, client, &call, &answer, reterr);
    if (outcome != COORDINATOR_OK)
        return outcome;
    outcome = answer.status == 200 ? decode(&answer, &schema_report_answer, ret_answer, reterr)
                                   : refused(&answer, reterr);
    http_answer_finish(&answer);
    return outcome;
}

enum coordinator_outcome coordinator_api_deregister(const struct coordinator_api *api,
                                                    struct http_client *client,
                                                    struct coordinator_failure *reterr)
{
    struct http_answer answer = {0};
    struct call call = {.method = "DELETE",
                        .url = mem_printf("%s/agent/v1/agents/%s?incarnation=%s", api->url,
                                          api->agent_id, api->incarnation),
                        .total_ms = api->request_ms};

    enum coordinator_outcome outcome = perform(api, client, &call, &answer, reterr);
    if (outcome != COORDINATOR_OK)
        return outcome;
    if (answer.status != 200 && answer.status != 204)
        outcome = refused(&answer, reterr);
    http_answer_finish(&answer);
    return outcome;
}
