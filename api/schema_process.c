/* The tables of what a daemon says of itself, and of refused requests. */
#include "api/schema_fields.h"

static const struct schema_field version_view_fields[] = {
    FIELD_STRING(version_view, version, 1, 64, .required = true, .help = "Version of baton."),
    FIELD_STRING(version_view, component, 1, 64, .required = true,
                 .help = "baton-coordinator or baton-agent."),
    FIELD_UINT32(version_view, protocol, 1, UINT32_MAX, .required = true,
                 .help = "Highest version of the agent protocol."),
    FIELD_UINT32(version_view, protocol_minimum, 1, UINT32_MAX, .required = true,
                 .help = "Lowest version of the agent protocol."),
    FIELD_STRING(version_view, librdkafka, 1, 64, .help = "Version of librdkafka in use."),
    FIELD_STRING(version_view, sqlite, 1, 64,
                 .help = "Version of SQLite in use; null on an agent."),
    FIELD_STRING(version_view, microhttpd, 1, 64, .help = "Version of libmicrohttpd in use."),
};
SCHEMA_TYPE(version_view, "What is running.");

static const struct schema_field field_error_fields[] = {
    FIELD_STRING(field_error, pointer, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "JSON pointer (RFC 6901) into the body; \"\" is the body itself."),
    FIELD_STRING(field_error, detail, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "What is wrong and what is allowed."),
};
SCHEMA_TYPE(field_error, "One thing that is wrong with a request's body.");

static const struct schema_field problem_body_fields[] = {
    FIELD_STRING(problem_body, type, 1, API_TEXT_BYTES_MAX, .required = true,
                 .help = "urn:baton:problem: and the code."),
    FIELD_STRING(problem_body, title, 1, API_TEXT_BYTES_MAX, .required = true,
                 .help = "What the code means."),
    FIELD_UINT32(problem_body, status, 400, 599, .required = true, .help = "HTTP status."),
    FIELD_STRING(problem_body, detail, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "What happened this time, and what to do."),
    FIELD_NAME(problem_body, code, .required = true, .help = "Stable code for programs."),
    FIELD_OBJECTS(problem_body, errors, field_error, 20, .required = true,
                  .help = "Where the body is wrong; up to 20 places."),
};
SCHEMA_TYPE(problem_body, "Why a request was refused (RFC 9457).");
