/*
 * One table a type: fields with name, kind, place, limits. From it follow strict decoding and
 * encoding (api/codec.h) and, here without any JSON library so that the cores can use them,
 * default, copy, compare and free.
 *
 * The tables are constant; any thread may use them.
 */
#ifndef BATON_API_SCHEMA_H
#define BATON_API_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"

enum schema_kind {
    SCHEMA_STRING,   /* char *; min..max is the length in bytes */
    SCHEMA_NAME,     /* char *; [a-z0-9][a-z0-9._-]{0,62} */
    SCHEMA_AGENT_ID, /* char *; [a-zA-Z0-9][a-zA-Z0-9._-]{0,62} */
    SCHEMA_TOPIC,    /* char *; Kafka's rule */
    SCHEMA_UUID,     /* char *; lower case */
    SCHEMA_JSON,     /* char *; a JSON object as compact text with sorted keys; max bytes */
    SCHEMA_BOOL,     /* bool */
    SCHEMA_UINT32,   /* uint32_t; min..max */
    SCHEMA_UINT64,   /* uint64_t; JSON integer, 0..2^63-1 */
    SCHEMA_INT64,    /* int64_t; min..max */
    SCHEMA_KNOWABLE, /* int64_t >= 0, or API_UNKNOWN and JSON null */
    SCHEMA_TIME,     /* int64_t wall ms, RFC 3339 text; API_UNKNOWN and null */
    SCHEMA_DURATION, /* int64_t ms, text "10s"; min..max in ms */
    SCHEMA_DOUBLE,   /* double, finite */
    SCHEMA_ENUM,     /* int-sized enum; `names` in the order of the enumerators, NULL-terminated */
    SCHEMA_VERSION,  /* struct document_version, "3.17" */
    SCHEMA_OBJECT,   /* embedded struct described by `type`; always required */
    SCHEMA_LIST      /* struct {T *items; size_t count}, T by `element`; min..max is the count */
};

/* Levels of a SCHEMA_JSON value: it must still fit where its holder is deep inside another type. */
#define SCHEMA_JSON_DEPTH_MAX 8

struct schema_type;

struct schema_field {
    const char *name;
    enum schema_kind kind;
    size_t offset;
    bool required;  /* decoding: must be there (and not null unless the kind says so) */
    bool immutable; /* job_spec: can not change after creation */
    int64_t min, max;
    const char *const *names;
    const struct schema_type *type; /* SCHEMA_OBJECT; SCHEMA_LIST of objects */
    enum schema_kind element;       /* SCHEMA_LIST: OBJECT, STRING, TOPIC or UINT32 */
    int64_t element_max; /* SCHEMA_LIST of STRING: most bytes of one; of UINT32: highest value */
    int64_t fallback;    /* number, bool or enum when absent */
    const char *fallback_text; /* string kinds when absent; NULL: NULL */
    const char *help;          /* one sentence for docs and errors: unit, default, meaning */
};

struct schema_type {
    const char *name; /* also of the component in api/openapi.yaml */
    size_t bytes;
    const struct schema_field *fields;
    size_t field_count;
    const char *help; /* one sentence for docs */
};

extern const struct schema_type schema_job_spec, schema_agent_offer, schema_agent_registration,
    schema_agent_welcome, schema_agent_document, schema_agent_report, schema_report_answer,
    schema_job_view, schema_job_status, schema_learner_view, schema_processor_view, schema_map_view,
    schema_map_key_view, schema_problem_view, schema_agent_view, schema_operation_view,
    schema_event_view, schema_job_page, schema_processor_page, schema_problem_page,
    schema_agent_page, schema_operation_page, schema_handoff_page, schema_event_page,
    schema_handoff_view, schema_move_request, schema_rebalance_request, schema_pause_view,
    schema_group_view, schema_pause_request, schema_maintenance_view, schema_maintenance_request,
    schema_eligibility_view, schema_eligibility_request, schema_drain_request,
    schema_drain_left_view, schema_drain_view, schema_version_view, schema_problem_body,
    schema_document_job, schema_document_task, schema_document_source, schema_task_report,
    schema_input_offset, schema_kept_state, schema_tag, schema_follow, schema_job_logic,
    schema_partition_progress, schema_task_problem, schema_partition_view, schema_map_partition,
    schema_field_error, schema_standby_view, schema_chosen_offset, schema_record_view,
    schema_skip_request, schema_skip_view, schema_skip_page, schema_offsets_request,
    schema_offset_choice_view, schema_offsets_view, schema_plan_request, schema_plan_move,
    schema_plan_view, schema_backup_view, schema_expansion_request, schema_expansion_plan,
    schema_settle_window, schema_window_report, schema_ancestor_bound;

const struct schema_type *schema_type_at(size_t index); /* every type once; NULL past the end */

/* The memory is set, what it held is not freed. */
void schema_default(const struct schema_type *type, void *value);
void schema_field_default(const struct schema_field *field, void *value); /* one field of it */

void schema_copy(const struct schema_type *type, void *ret_copy, const void *value); /* deep */
bool schema_equal(const struct schema_type *type, const void *a, const void *b);
void schema_free(const struct schema_type *type, void *value); /* what it owns, then zeroes it */

/* The first immutable field of job_spec that differs, or NULL. */
const struct schema_field *schema_immutable_change(const struct schema_type *type,
                                                   const void *before, const void *after);

/* JSON null is a value of it: KNOWABLE, TIME, a text kind that is not required and has no fallback.
 */
bool schema_nullable(const struct schema_field *field);

/* A list of any element type, as its memory is; `value` is the struct that holds the field. */
struct schema_list {
    void *items;
    size_t count;
};
size_t schema_element_bytes(const struct schema_field *field);
struct schema_list schema_list_get(const struct schema_field *field, const void *value);
void schema_list_set(const struct schema_field *field, void *value, struct schema_list list);

const char *schema_enum_name(const char *const *names, int value); /* asserts the range */
bool schema_enum_parse(const char *const *names, const char *text, int *ret_value);
extern const char *const schema_names_task_role[];
extern const char *const schema_names_task_state[];
extern const char *const schema_names_job_state[];
extern const char *const schema_names_group_hold[];
extern const char *const schema_names_operation_state[];
extern const char *const schema_names_handoff_kind[];
extern const char *const schema_names_handoff_state[];
extern const char *const schema_names_agent_state[];
extern const char *const schema_names_agent_leaving[];
extern const char *const schema_names_drain_state[];
extern const char *const schema_names_drain_deadline[];
extern const char *const schema_names_offsets_action[];
extern const char *const schema_names_planned_change[];
extern const char *const schema_names_planned_kind[];
extern const char *const schema_names_partitioner[];
extern const char *const schema_names_effective_partitioner[];
extern const char *const schema_names_problem_severity[];

bool schema_name_valid(const char *text); /* SCHEMA_NAME's rule */
bool schema_agent_id_valid(const char *text);
bool schema_topic_valid(const char *text);
bool schema_uuid_valid(const char *text); /* lower case */

#endif
