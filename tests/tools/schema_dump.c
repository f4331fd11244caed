/*
 * Prints what api/openapi.yaml has to agree with as JSON: the types of api/schema.h, the routes and
 * the problems. Used by scripts/openapi.py.
 */
#include <jansson.h>
#include <stdio.h>

#include "api/problem.h"
#include "api/routes.h"
#include "api/schema.h"

static const char *kind_name(enum schema_kind kind)
{
    static const char *const names[] = {
        [SCHEMA_STRING] = "string",     [SCHEMA_NAME] = "name",
        [SCHEMA_AGENT_ID] = "agent_id", [SCHEMA_TOPIC] = "topic",
        [SCHEMA_UUID] = "uuid",         [SCHEMA_JSON] = "json",
        [SCHEMA_BOOL] = "bool",         [SCHEMA_UINT32] = "uint32",
        [SCHEMA_UINT64] = "uint64",     [SCHEMA_INT64] = "int64",
        [SCHEMA_KNOWABLE] = "knowable", [SCHEMA_TIME] = "time",
        [SCHEMA_DURATION] = "duration", [SCHEMA_DOUBLE] = "double",
        [SCHEMA_ENUM] = "enum",         [SCHEMA_VERSION] = "version",
        [SCHEMA_OBJECT] = "object",     [SCHEMA_LIST] = "list",
    };
    return names[kind];
}

static json_t *dump_field(const struct schema_field *field)
{
    json_t *json = json_pack("{s:s, s:s, s:b, s:b, s:b, s:I, s:I, s:I, s:s?, s:s}", "name",
                             field->name, "kind", kind_name(field->kind), "required",
                             field->required, "nullable", schema_nullable(field), "immutable",
                             field->immutable, "min", (json_int_t)field->min, "max",
                             (json_int_t)field->max, "fallback", (json_int_t)field->fallback,
                             "fallback_text", field->fallback_text, "help", field->help);
    if (field->type != NULL)
        json_object_set_new(json, "type", json_string(field->type->name));
    if (field->kind == SCHEMA_LIST) {
        json_object_set_new(json, "element", json_string(kind_name(field->element)));
        json_object_set_new(json, "element_max", json_integer(field->element_max));
    }
    if (field->names != NULL) {
        json_t *names = json_array();
        for (size_t i = 0; field->names[i] != NULL; i++)
            json_array_append_new(names, json_string(field->names[i]));
        json_object_set_new(json, "names", names);
    }
    return json;
}

static json_t *dump_types(void)
{
    json_t *types = json_array();
    const struct schema_type *type;
    for (size_t i = 0; (type = schema_type_at(i)) != NULL; i++) {
        json_t *fields = json_array();
        for (size_t f = 0; f < type->field_count; f++)
            json_array_append_new(fields, dump_field(&type->fields[f]));
        json_array_append_new(types, json_pack("{s:s, s:s, s:o}", "name", type->name, "help",
                                               type->help, "fields", fields));
    }
    return types;
}

static json_t *dump_routes(void)
{
    json_t *routes = json_array();
    const struct route *route;
    for (size_t i = 0; (route = routes_at(i)) != NULL; i++) {
        json_t *query = json_array();
        for (size_t q = 0; route->query[q] != NULL; q++)
            json_array_append_new(query, json_string(route->query[q]));
        json_array_append_new(routes,
                              json_pack("{s:s, s:s, s:o, s:b, s:b}", "method", route->method,
                                        "path", route->path, "query", query, "on_coordinator",
                                        route->on_coordinator, "on_agent", route->on_agent));
    }
    return routes;
}

static json_t *dump_problems(void)
{
    json_t *problems = json_array();
    const struct problem_entry *entry;
    for (size_t i = 0; (entry = problem_at(i)) != NULL; i++)
        json_array_append_new(
            problems,
            json_pack("{s:s, s:i, s:b, s:s, s:s, s:s}", "code", entry->code, "status",
                      (int)entry->status, "of_job", entry->of_job, "severity",
                      schema_enum_name(schema_names_problem_severity, (int)entry->severity),
                      "title", entry->title, "action", entry->action));
    return problems;
}

int main(void)
{
    json_t *json = json_pack("{s:o, s:o, s:o}", "types", dump_types(), "routes", dump_routes(),
                             "problems", dump_problems());
    int failed = json == NULL || json_dumpf(json, stdout, JSON_INDENT(1)) != 0;
    json_decref(json);
    puts("");
    return failed || fflush(stdout) != 0 ? 1 : 0;
}
