/*
 * How the tables of api/schema.h are written: one macro a kind, which takes the struct and the
 * member and checks at compile time that the member is of the C type that the kind stands for. Only
 * for api/schema_*.c.
 *
 * What follows the fixed arguments is more designators: `.required = true, .help = "..."`.
 */
#ifndef BATON_API_SCHEMA_FIELDS_H
#define BATON_API_SCHEMA_FIELDS_H

#include "api/schema.h"

#define SCHEMA_MEMBER(owner, member) (((struct owner *)0)->member)
#define SCHEMA_CHECK(condition)      (0 * sizeof(char[(condition) ? 1 : -1]))

#define SCHEMA_OFFSET(owner, member, ctype)                                                        \
    (offsetof(struct owner, member) +                                                              \
     SCHEMA_CHECK(__builtin_types_compatible_p(__typeof__(SCHEMA_MEMBER(owner, member)), ctype)))
#define SCHEMA_OFFSET_ENUM(owner, member)                                                          \
    (offsetof(struct owner, member) +                                                              \
     SCHEMA_CHECK(sizeof(SCHEMA_MEMBER(owner, member)) == sizeof(int)))
#define SCHEMA_OFFSET_LIST(owner, member, ctype)                                                   \
    (offsetof(struct owner, member) +                                                              \
     SCHEMA_CHECK(                                                                                 \
         __builtin_types_compatible_p(__typeof__(*SCHEMA_MEMBER(owner, member).items), ctype)) +   \
     SCHEMA_CHECK(sizeof(SCHEMA_MEMBER(owner, member)) == sizeof(struct schema_list)) +            \
     SCHEMA_CHECK(offsetof(__typeof__(SCHEMA_MEMBER(owner, member)), count) ==                     \
                  offsetof(struct schema_list, count)))

#define FIELD_TEXT(text_kind, owner, member, ...)                                                  \
    {                                                                                              \
        .name = #member, .kind = (text_kind), .offset = SCHEMA_OFFSET(owner, member, char *),      \
        __VA_ARGS__                                                                                \
    }
#define FIELD_STRING(owner, member, bytes_min, bytes_max, ...)                                     \
    FIELD_TEXT(SCHEMA_STRING, owner, member, .min = (bytes_min), .max = (bytes_max), __VA_ARGS__)
#define FIELD_NAME(owner, member, ...)     FIELD_TEXT(SCHEMA_NAME, owner, member, __VA_ARGS__)
#define FIELD_AGENT_ID(owner, member, ...) FIELD_TEXT(SCHEMA_AGENT_ID, owner, member, __VA_ARGS__)
#define FIELD_TOPIC(owner, member, ...)    FIELD_TEXT(SCHEMA_TOPIC, owner, member, __VA_ARGS__)
#define FIELD_UUID(owner, member, ...)     FIELD_TEXT(SCHEMA_UUID, owner, member, __VA_ARGS__)
#define FIELD_JSON(owner, member, bytes_max, ...)                                                  \
    FIELD_TEXT(SCHEMA_JSON, owner, member, .max = (bytes_max), __VA_ARGS__)

#define FIELD_BOOL(owner, member, ...)                                                             \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_BOOL, .offset = SCHEMA_OFFSET(owner, member, bool),        \
        __VA_ARGS__                                                                                \
    }
#define FIELD_UINT32(owner, member, lowest, highest, ...)                                          \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_UINT32, .offset = SCHEMA_OFFSET(owner, member, uint32_t),  \
        .min = (lowest), .max = (highest), __VA_ARGS__                                             \
    }
#define FIELD_UINT64(owner, member, ...)                                                           \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_UINT64, .offset = SCHEMA_OFFSET(owner, member, uint64_t),  \
        .max = INT64_MAX, __VA_ARGS__                                                              \
    }
#define FIELD_INT64(owner, member, lowest, highest, ...)                                           \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_INT64, .offset = SCHEMA_OFFSET(owner, member, int64_t),    \
        .min = (lowest), .max = (highest), __VA_ARGS__                                             \
    }
#define FIELD_KNOWABLE(owner, member, ...)                                                         \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_KNOWABLE, .offset = SCHEMA_OFFSET(owner, member, int64_t), \
        .max = INT64_MAX, .fallback = API_UNKNOWN, __VA_ARGS__                                     \
    }
#define FIELD_TIME(owner, member, ...)                                                             \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_TIME, .offset = SCHEMA_OFFSET(owner, member, int64_t),     \
        .fallback = API_UNKNOWN, __VA_ARGS__                                                       \
    }
/* `json_name` is the member's name without the unit, which the text carries itself. */
#define FIELD_DURATION(owner, member, json_name, lowest_ms, highest_ms, ...)                       \
    {                                                                                              \
        .name = (json_name), .kind = SCHEMA_DURATION,                                              \
        .offset = SCHEMA_OFFSET(owner, member, int64_t), .min = (lowest_ms), .max = (highest_ms),  \
        __VA_ARGS__                                                                                \
    }
#define FIELD_DOUBLE(owner, member, highest, ...)                                                  \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_DOUBLE, .offset = SCHEMA_OFFSET(owner, member, double),    \
        .max = (highest), __VA_ARGS__                                                              \
    }
#define FIELD_ENUM(owner, member, enum_names, ...)                                                 \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_ENUM, .offset = SCHEMA_OFFSET_ENUM(owner, member),         \
        .names = (enum_names), __VA_ARGS__                                                         \
    }
#define FIELD_VERSION(owner, member, ...)                                                          \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_VERSION,                                                   \
        .offset = SCHEMA_OFFSET(owner, member, struct document_version), __VA_ARGS__               \
    }
#define FIELD_OBJECT(owner, member, ctype, ...)                                                    \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_OBJECT,                                                    \
        .offset = SCHEMA_OFFSET(owner, member, struct ctype), .type = &schema_##ctype,             \
        .required = true, __VA_ARGS__                                                              \
    }

#define FIELD_LIST(owner, member, ctype, element_kind, count_min, count_max, ...)                  \
    {                                                                                              \
        .name = #member, .kind = SCHEMA_LIST, .offset = SCHEMA_OFFSET_LIST(owner, member, ctype),  \
        .element = (element_kind), .min = (count_min), .max = (count_max), __VA_ARGS__             \
    }
#define FIELD_OBJECTS(owner, member, ctype, count_max, ...)                                        \
    FIELD_LIST(owner, member, struct ctype, SCHEMA_OBJECT, 0, count_max, .type = &schema_##ctype,  \
               __VA_ARGS__)
#define FIELD_STRINGS(owner, member, count_max, bytes_max, ...)                                    \
    FIELD_LIST(owner, member, char *, SCHEMA_STRING, 0, count_max, .element_max = (bytes_max),     \
               __VA_ARGS__)
#define FIELD_TOPICS(owner, member, count_min, count_max, ...)                                     \
    FIELD_LIST(owner, member, char *, SCHEMA_TOPIC, count_min, count_max, __VA_ARGS__)
#define FIELD_UINTS(owner, member, count_max, highest, ...)                                        \
    FIELD_LIST(owner, member, uint32_t, SCHEMA_UINT32, 0, count_max, .element_max = (highest),     \
               __VA_ARGS__)

#define SCHEMA_TYPE(type_name, help_text)                                                          \
    const struct schema_type schema_##type_name = {                                                \
        .name = #type_name,                                                                        \
        .bytes = sizeof(struct type_name),                                                         \
        .fields = type_name##_fields,                                                              \
        .field_count = sizeof(type_name##_fields) / sizeof(type_name##_fields[0]),                 \
        .help = (help_text),                                                                       \
    }

#define SCHEMA_HOUR_MS INT64_C(3600000)
#define SCHEMA_DAY_MS  (24 * SCHEMA_HOUR_MS)

/* More records a second than any machine handles; bounds sums over hostile reports. */
#define SCHEMA_RATE_MAX INT64_C(1000000000000)

#endif
