#include "api/schema.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static_assert(sizeof(enum task_state) == sizeof(int), "SCHEMA_ENUM reads and writes an int");
static_assert(sizeof(enum logic_kind) == sizeof(int), "SCHEMA_ENUM reads and writes an int");
static_assert(offsetof(struct uint_list, items) == offsetof(struct schema_list, items),
              "every list is laid out as struct schema_list");
static_assert(offsetof(struct uint_list, count) == offsetof(struct schema_list, count),
              "every list is laid out as struct schema_list");

/* Fields are copied to and from their place by memcpy: the compiler knows it under another type. */
#define LOAD(ctype, field, value)                                                                  \
    __extension__({                                                                                \
        ctype loaded_;                                                                             \
        memcpy(&loaded_, (const char *)(value) + (field)->offset, sizeof(loaded_));                \
        loaded_;                                                                                   \
    })
#define STORE(ctype, field, value, content)                                                        \
    do {                                                                                           \
        ctype stored_ = (content);                                                                 \
        memcpy((char *)(value) + (field)->offset, &stored_, sizeof(stored_));                      \
    } while (0)

static void *place(const struct schema_field *field, void *value)
{
    return (char *)value + field->offset;
}

static const void *const_place(const struct schema_field *field, const void *value)
{
    return (const char *)value + field->offset;
}

static bool is_text(enum schema_kind kind)
{
    switch (kind) {
    case SCHEMA_STRING:
    case SCHEMA_NAME:
    case SCHEMA_AGENT_ID:
    case SCHEMA_TOPIC:
    case SCHEMA_UUID:
    case SCHEMA_JSON:
        return true;
    default:
        return false;
    }
}

bool schema_nullable(const struct schema_field *field)
{
    if (field->kind == SCHEMA_KNOWABLE || field->kind == SCHEMA_TIME)
        return true;
    if (field->kind == SCHEMA_DURATION)
        return field->fallback == API_UNKNOWN;
    return is_text(field->kind) && !field->required && field->fallback_text == NULL;
}

/* ---- lists */

size_t schema_element_bytes(const struct schema_field *field)
{
    assert(field->kind == SCHEMA_LIST);
    switch (field->element) {
    case SCHEMA_OBJECT:
        return field->type->bytes;
    case SCHEMA_STRING:
    case SCHEMA_TOPIC:
        return sizeof(char *);
    case SCHEMA_UINT32:
        return sizeof(uint32_t);
    default:
        assert(false && "a list of this kind");
        return 0;
    }
}

struct schema_list schema_list_get(const struct schema_field *field, const void *value)
{
    assert(field->kind == SCHEMA_LIST);
    return LOAD(struct schema_list, field, value);
}

void schema_list_set(const struct schema_field *field, void *value, struct schema_list list)
{
    assert(field->kind == SCHEMA_LIST);
    STORE(struct schema_list, field, value, list);
}

static char *text_at(const struct schema_list *list, size_t index)
{
    char *text;
    memcpy(&text, (const char *)list->items + index * sizeof(text), sizeof(text));
    return text;
}

static void *object_at(const struct schema_field *field, const struct schema_list *list,
                       size_t index)
{
    return (char *)list->items + index * field->type->bytes;
}

/* ---- default */

void schema_field_default(const struct schema_field *field, void *value)
{
    switch (field->kind) {
    case SCHEMA_STRING:
    case SCHEMA_NAME:
    case SCHEMA_AGENT_ID:
    case SCHEMA_TOPIC:
    case SCHEMA_UUID:
    case SCHEMA_JSON:
        STORE(char *, field, value,
              field->fallback_text != NULL ? mem_strdup(field->fallback_text) : NULL);
        return;
    case SCHEMA_BOOL:
        STORE(bool, field, value, field->fallback != 0);
        return;
    case SCHEMA_UINT32:
        STORE(uint32_t, field, value, (uint32_t)field->fallback);
        return;
    case SCHEMA_UINT64:
        STORE(uint64_t, field, value, (uint64_t)field->fallback);
        return;
    case SCHEMA_INT64:
    case SCHEMA_KNOWABLE:
    case SCHEMA_TIME:
    case SCHEMA_DURATION:
        STORE(int64_t, field, value, field->fallback);
        return;
    case SCHEMA_DOUBLE:
        STORE(double, field, value, (double)field->fallback);
        return;
    case SCHEMA_ENUM:
        STORE(int, field, value, (int)field->fallback);
        return;
    case SCHEMA_OBJECT:
        schema_default(field->type, place(field, value));
        return;
    case SCHEMA_VERSION:
        STORE(struct document_version, field, value, ((struct document_version){0}));
        return;
    case SCHEMA_LIST:
        schema_list_set(field, value, (struct schema_list){0});
        return;
    }
    assert(false && "a kind of the table");
}

void schema_default(const struct schema_type *type, void *value)
{
    memset(value, 0, type->bytes);
    for (size_t i = 0; i < type->field_count; i++)
        schema_field_default(&type->fields[i], value);
}

/* ---- copy */

static char *text_copy(const char *text)
{
    return text != NULL ? mem_strdup(text) : NULL;
}

static struct schema_list list_copy(const struct schema_field *field, struct schema_list list)
{
    struct schema_list copy = {0};
    if (list.count == 0)
        return copy;
    copy.items = mem_calloc(list.count, schema_element_bytes(field));
    copy.count = list.count;
    if (field->element == SCHEMA_UINT32) {
        memcpy(copy.items, list.items, list.count * sizeof(uint32_t));
        return copy;
    }
    for (size_t i = 0; i < list.count; i++) {
        if (field->element == SCHEMA_OBJECT) {
            schema_copy(field->type, object_at(field, &copy, i), object_at(field, &list, i));
            continue;
        }
        char *text = text_copy(text_at(&list, i));
        memcpy((char *)copy.items + i * sizeof(text), &text, sizeof(text));
    }
    return copy;
}

void schema_copy(const struct schema_type *type, void *ret_copy, const void *value)
{
    /* Plain members come along; what is owned is then replaced by a copy of its own. */
    memcpy(ret_copy, value, type->bytes);
    for (size_t i = 0; i < type->field_count; i++) {
        const struct schema_field *field = &type->fields[i];
        if (is_text(field->kind))
            STORE(char *, field, ret_copy, text_copy(LOAD(char *, field, value)));
        else if (field->kind == SCHEMA_OBJECT)
            schema_copy(field->type, place(field, ret_copy), const_place(field, value));
        else if (field->kind == SCHEMA_LIST)
            schema_list_set(field, ret_copy, list_copy(field, schema_list_get(field, value)));
    }
}

/* ---- compare */

static bool text_equal(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return strcmp(a, b) == 0;
}

static bool list_equal(const struct schema_field *field, struct schema_list a, struct schema_list b)
{
    if (a.count != b.count)
        return false;
    for (size_t i = 0; i < a.count; i++) {
        switch (field->element) {
        case SCHEMA_OBJECT:
            if (!schema_equal(field->type, object_at(field, &a, i), object_at(field, &b, i)))
                return false;
            break;
        case SCHEMA_UINT32:
            if (((const uint32_t *)a.items)[i] != ((const uint32_t *)b.items)[i])
                return false;
            break;
        default:
            if (!text_equal(text_at(&a, i), text_at(&b, i)))
                return false;
            break;
        }
    }
    return true;
}

static bool field_equal(const struct schema_field *field, const void *a, const void *b)
{
    switch (field->kind) {
    case SCHEMA_STRING:
    case SCHEMA_NAME:
    case SCHEMA_AGENT_ID:
    case SCHEMA_TOPIC:
    case SCHEMA_UUID:
    case SCHEMA_JSON:
        return text_equal(LOAD(char *, field, a), LOAD(char *, field, b));
    case SCHEMA_BOOL:
        return LOAD(bool, field, a) == LOAD(bool, field, b);
    case SCHEMA_UINT32:
        return LOAD(uint32_t, field, a) == LOAD(uint32_t, field, b);
    case SCHEMA_UINT64:
        return LOAD(uint64_t, field, a) == LOAD(uint64_t, field, b);
    case SCHEMA_INT64:
    case SCHEMA_KNOWABLE:
    case SCHEMA_TIME:
    case SCHEMA_DURATION:
        return LOAD(int64_t, field, a) == LOAD(int64_t, field, b);
    case SCHEMA_DOUBLE:
        return LOAD(double, field, a) == LOAD(double, field, b);
    case SCHEMA_ENUM:
        return LOAD(int, field, a) == LOAD(int, field, b);
    case SCHEMA_VERSION: {
        struct document_version left = LOAD(struct document_version, field, a);
        struct document_version right = LOAD(struct document_version, field, b);
        return left.start == right.start && left.decision == right.decision;
    }
    case SCHEMA_OBJECT:
        return schema_equal(field->type, const_place(field, a), const_place(field, b));
    case SCHEMA_LIST:
        return list_equal(field, schema_list_get(field, a), schema_list_get(field, b));
    }
    assert(false && "a kind of the table");
    return false;
}

bool schema_equal(const struct schema_type *type, const void *a, const void *b)
{
    for (size_t i = 0; i < type->field_count; i++)
        if (!field_equal(&type->fields[i], a, b))
            return false;
    return true;
}

const struct schema_field *schema_immutable_change(const struct schema_type *type,
                                                   const void *before, const void *after)
{
    for (size_t i = 0; i < type->field_count; i++)
        if (type->fields[i].immutable && !field_equal(&type->fields[i], before, after))
            return &type->fields[i];
    return NULL;
}

/* ---- free */

static void list_free(const struct schema_field *field, struct schema_list list)
{
    for (size_t i = 0; i < list.count; i++) {
        if (field->element == SCHEMA_OBJECT)
            schema_free(field->type, object_at(field, &list, i));
        else if (field->element != SCHEMA_UINT32)
            free(text_at(&list, i));
    }
    free(list.items);
}

void schema_free(const struct schema_type *type, void *value)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const struct schema_field *field = &type->fields[i];
        if (is_text(field->kind))
            free(LOAD(char *, field, value));
        else if (field->kind == SCHEMA_OBJECT)
            schema_free(field->type, place(field, value));
        else if (field->kind == SCHEMA_LIST)
            list_free(field, schema_list_get(field, value));
    }
    memset(value, 0, type->bytes);
}

/* ---- names */

const char *schema_enum_name(const char *const *names, int value)
{
    assert(value >= 0);
    for (int i = 0; i <= value; i++)
        assert(names[i] != NULL);
    return names[value];
}

bool schema_enum_parse(const char *const *names, const char *text, int *ret_value)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret_value = i;
            return true;
        }
    }
    return false;
}

/* ASCII only, whatever the locale says. */
#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define MARKS  "._-"

static bool text_valid(const char *text, const char *first, const char *all, size_t bytes_max)
{
    size_t bytes = strnlen(text, bytes_max + 1);
    return bytes >= 1 && bytes <= bytes_max && strchr(first, text[0]) != NULL &&
           strspn(text, all) == bytes;
}

bool schema_name_valid(const char *text)
{
    return text_valid(text, LOWER DIGITS, LOWER DIGITS MARKS, API_NAME_BYTES_MAX);
}

bool schema_agent_id_valid(const char *text)
{
    return text_valid(text, LOWER UPPER DIGITS, LOWER UPPER DIGITS MARKS, API_NAME_BYTES_MAX);
}

bool schema_topic_valid(const char *text)
{
    if (strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
        return false;
    return text_valid(text, LOWER UPPER DIGITS MARKS, LOWER UPPER DIGITS MARKS,
                      API_TOPIC_BYTES_MAX);
}

bool schema_uuid_valid(const char *text)
{
    for (size_t i = 0; i < API_UUID_BYTES; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (text[i] == '\0' || strchr(dash ? "-" : DIGITS "abcdef", text[i]) == NULL)
            return false;
    }
    return text[API_UUID_BYTES] == '\0';
}
