#include "agent/endpoint_snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/schema.h"
#include "common/clock.h"

#define NUMBER_DIGITS_MAX 20

static enum err_code read_number(const char *name, const char *text, uint64_t most,
                                 uint64_t *ret_number, struct err *reterr)
{
    size_t digits = strspn(text, "0123456789");

    errno = 0;
    *ret_number = strtoull(text, NULL, 10);
    if (digits == 0 || digits > NUMBER_DIGITS_MAX || text[digits] != '\0' || errno == ERANGE ||
        *ret_number > most)
        return err_set(reterr, ERR_INVALID, "%s must be a number from 0 to %llu", name,
                       (unsigned long long)most);
    return ERR_NONE;
}

static enum err_code read_parameter(const struct httpd_parameter *parameter,
                                    struct snapshot_request *request, struct err *reterr)
{
    if (strcmp(parameter->name, "session") == 0)
        return read_number("session", parameter->value, UINT64_MAX, &request->session, reterr);
    if (strcmp(parameter->name, "page") == 0)
        return read_number("page", parameter->value, UINT64_MAX, &request->number, reterr);
    if (strcmp(parameter->name, "incarnation") != 0)
        return err_set(reterr, ERR_INVALID,
                       "%.60s is not known: this path takes incarnation, "
                       "session and page",
                       parameter->name);
    if (!schema_uuid_valid(parameter->value))
        return err_set(reterr, ERR_INVALID,
                       "incarnation must be the UUID of the job's incarnation");
    request->key.incarnation = parameter->value;
    return ERR_NONE;
}

static enum err_code read_query(const struct httpd_request *request,
                                struct snapshot_request *ret_request, struct err *reterr)
{
    enum err_code code = ERR_NONE;

    for (size_t i = 0; i < request->target.query_count && code == ERR_NONE; i++)
        code = read_parameter(&request->target.query[i], ret_request, reterr);
    if (code == ERR_NONE && ret_request->key.incarnation == NULL)
        code = err_set(reterr, ERR_INVALID, "incarnation is required");
    return code;
}

/* "" when there is none: it opens nothing. */
static const char *find_token(const struct httpd_request *request)
{
    static const char scheme[] = "Bearer ";
    bool repeated;
    const char *value = httpd_header(request, "Authorization", &repeated);

    if (value == NULL || repeated || strncasecmp(value, scheme, sizeof(scheme) - 1) != 0)
        return "";
    return value + sizeof(scheme) - 1;
}

static const char *problem_of(enum err_code code)
{
    switch (code) {
    case ERR_INVALID:
        return "invalid_query";
    case ERR_FENCED:
        return "snapshot_refused";
    case ERR_NOT_FOUND:
        return "snapshot_not_found";
    case ERR_LIMIT:
        return "busy";
    default:
        return "snapshot_ended";
    }
}

const char *endpoint_snapshot(struct snapshot_serve *serve, const struct httpd_request *request,
                              const struct route_match *match, char **ret_page, size_t *ret_bytes,
                              char *ret_detail)
{
    struct snapshot_request wanted = {.key = {.job = match->parameters[0]}};
    struct strbuf buf = {0};
    uint64_t processor;
    struct err err = {0};
    enum err_code code = read_query(request, &wanted, &err);

    if (code == ERR_NONE &&
        (serve == NULL || read_number("processor", match->parameters[1], API_PARTITIONS_MAX - 1,
                                      &processor, &err) != ERR_NONE))
        code = err_set(&err, ERR_NOT_FOUND, "there is no such state");
    if (code == ERR_NONE) {
        wanted.key.processor = (uint32_t)processor;
        wanted.token = find_token(request);
        code = snapshot_serve_page(serve, &wanted, clock_mono_ms(), &buf, &err);
    }
    if (code != ERR_NONE) {
        strbuf_finish(&buf);
        (void)snprintf(ret_detail, ERR_TEXT_BYTES, "%s", err.text);
        return problem_of(code);
    }
    *ret_bytes = buf.bytes;
    *ret_page = strbuf_take(&buf);
    return NULL;
}
