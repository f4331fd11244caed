#include "coordinator/request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/schema.h"
#include "api/text.h"
#include "common/mem.h"
#include "common/opts.h"
#include "common/strbuf.h"

#define SHOWN_BYTES 100 /* of a value in an error's text */

/* ---- parameters */

const char *request_parameter(const struct httpd_target *target, const char *name)
{
    for (size_t i = 0; i < target->query_count; i++) {
        if (strcmp(target->query[i].name, name) == 0)
            return target->query[i].value;
    }
    return NULL;
}

static bool route_takes(const struct route *route, const char *name)
{
    for (size_t i = 0; i < sizeof(route->query) / sizeof(route->query[0]); i++) {
        if (route->query[i] != NULL && strcmp(route->query[i], name) == 0)
            return true;
    }
    return false;
}

static void list_parameters(const struct route *route, struct strbuf *buf)
{
    for (size_t i = 0; i < sizeof(route->query) / sizeof(route->query[0]); i++) {
        if (route->query[i] != NULL)
            strbuf_printf(buf, "%s%s", i == 0 ? "" : ", ", route->query[i]);
    }
}

enum err_code request_check_query(const struct httpd_target *target, const struct route *route,
                                  struct err *reterr)
{
    for (size_t i = 0; i < target->query_count; i++) {
        if (route_takes(route, target->query[i].name))
            continue;
        struct strbuf known = {0};
        list_parameters(route, &known);
        (void)err_set(reterr, ERR_INVALID, "\"%.*s\" is not a parameter of this path; %s%s",
                      SHOWN_BYTES, target->query[i].name,
                      known.bytes > 0 ? "it takes " : "it takes none", strbuf_text(&known));
        strbuf_finish(&known);
        return ERR_INVALID;
    }
    return ERR_NONE;
}

enum err_code request_number(const struct httpd_target *target, const char *name, uint64_t fallback,
                             uint64_t *ret_number, struct err *reterr)
{
    const char *text = request_parameter(target, name);
    *ret_number = fallback;
    if (text == NULL || text_uint_parse(text, INT64_MAX, ret_number))
        return ERR_NONE;
    return err_set(reterr, ERR_INVALID, "%s must be a whole number from 0 on, not \"%.*s\"", name,
                   SHOWN_BYTES, text);
}

static enum err_code read_limit(const struct httpd_target *target, const char *name,
                                uint32_t *ret_limit, struct err *reterr)
{
    const char *text = request_parameter(target, name);
    uint64_t number = REQUEST_LIMIT_DEFAULT;
    if (text != NULL && (!text_uint_parse(text, REQUEST_LIMIT_MAX, &number) || number == 0))
        return err_set(reterr, ERR_INVALID, "%s must be a whole number from 1 to %d, not \"%.*s\"",
                       name, REQUEST_LIMIT_MAX, SHOWN_BYTES, text);
    *ret_limit = (uint32_t)number;
    return ERR_NONE;
}

enum err_code request_limit(const struct httpd_target *target, uint32_t *ret_limit,
                            struct err *reterr)
{
    return read_limit(target, "limit", ret_limit, reterr);
}

enum err_code request_limit_or_last(const struct httpd_target *target, uint32_t *ret_limit,
                                    bool *ret_last, struct err *reterr)
{
    bool last = request_parameter(target, "last") != NULL;
    if (last && request_parameter(target, "limit") != NULL)
        return err_set(reterr, ERR_INVALID, "limit and last exclude each other: give one of them");
    enum err_code code = read_limit(target, last ? "last" : "limit", ret_limit, reterr);
    if (code == ERR_NONE)
        *ret_last = last;
    return code;
}

enum err_code request_wait(const struct httpd_target *target, int64_t *ret_wait_ms,
                           struct err *reterr)
{
    const char *text = request_parameter(target, "wait");
    int64_t wait_ms = 0;
    if (text != NULL && (!opts_duration_parse(text, &wait_ms) || wait_ms > REQUEST_WAIT_MS_MAX))
        return err_set(reterr, ERR_INVALID,
                       "wait must be a duration from 0s to %ds, like 25s, not \"%.*s\"",
                       REQUEST_WAIT_MS_MAX / 1000, SHOWN_BYTES, text);
    *ret_wait_ms = wait_ms;
    return ERR_NONE;
}

enum err_code request_version(const struct httpd_target *target, const char *name,
                              struct document_version *ret_version, struct err *reterr)
{
    const char *text = request_parameter(target, name);
    *ret_version = (struct document_version){0};
    if (text == NULL || text_version_parse(text, ret_version))
        return ERR_NONE;
    return err_set(reterr, ERR_INVALID, "%s must be a version like 3.17, not \"%.*s\"", name,
                   SHOWN_BYTES, text);
}

enum err_code request_incarnation(const struct httpd_target *target, const char **ret_incarnation,
                                  struct err *reterr)
{
    const char *text = request_parameter(target, "incarnation");
    if (text == NULL)
        return err_set(reterr, ERR_INVALID,
                       "incarnation is required: the UUID of the agent's start");
    if (!schema_uuid_valid(text))
        return err_set(reterr, ERR_INVALID,
                       "incarnation must be a UUID in lower case, not \"%.*s\"", SHOWN_BYTES, text);
    *ret_incarnation = text;
    return ERR_NONE;
}

enum err_code request_job(const struct httpd_target *target, const char **ret_job,
                          struct err *reterr)
{
    const char *text = request_parameter(target, "job");
    if (text != NULL && !schema_name_valid(text))
        return err_set(reterr, ERR_INVALID, "job must be the name of a job, not \"%.*s\"",
                       SHOWN_BYTES, text);
    *ret_job = text;
    return ERR_NONE;
}

/* ---- keys */

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/*
 * RFC 4648, section 4: padded, and nothing in the bits that padding leaves over. A space stands for
 * "+", which is what a plus that was not percent-encoded has become in the query.
 */
static bool base64_decode(const char *text, char *out, size_t *ret_bytes)
{
    size_t length = strlen(text);
    size_t bytes = 0;
    if (length % 4 != 0)
        return false;
    for (size_t i = 0; i < length; i += 4) {
        bool last = i + 4 == length;
        size_t padding =
            last ? (text[i + 3] == '=') + (text[i + 3] == '=' && text[i + 2] == '=') : 0;
        uint32_t group = 0;
        for (size_t j = 0; j < 4; j++) {
            char c = (char)(text[i + j] == ' ' ? '+' : text[i + j]);
            int value = j >= 4 - padding ? 0 : base64_value(c);
            if (value < 0)
                return false;
            group = group << 6 | (uint32_t)value;
        }
        if ((padding == 1 && (group & 0xff) != 0) || (padding == 2 && (group & 0xffff) != 0))
            return false;
        for (size_t j = 0; j < 3 - padding; j++)
            out[bytes++] = (char)(group >> (16 - 8 * j));
    }
    *ret_bytes = bytes;
    return true;
}

enum err_code request_key(const struct httpd_target *target, char **ret_key, size_t *ret_bytes,
                          struct err *reterr)
{
    const char *text = request_parameter(target, "key");
    const char *encoding = request_parameter(target, "key_encoding");
    bool base64 = encoding != NULL && strcmp(encoding, "base64") == 0;
    if (encoding != NULL && !base64 && strcmp(encoding, "text") != 0)
        return err_set(reterr, ERR_INVALID, "key_encoding must be text or base64, not \"%.*s\"",
                       SHOWN_BYTES, encoding);
    *ret_key = NULL;
    *ret_bytes = 0;
    if (text == NULL && encoding != NULL)
        return err_set(reterr, ERR_INVALID, "key_encoding says nothing without key");
    if (text == NULL)
        return ERR_NONE;
    char *key = mem_strdup(text); /* decoding only shortens */
    size_t bytes = strlen(text);
    if (base64 && !base64_decode(text, key, &bytes)) {
        free(key);
        return err_set(reterr, ERR_INVALID, "key must be base64 as of RFC 4648, section 4");
    }
    *ret_key = key;
    *ret_bytes = bytes;
    return ERR_NONE;
}

/* ---- headers */

enum err_code request_if_match(const char *value, uint64_t *ret_generation, struct err *reterr)
{
    *ret_generation = 0;
    if (value == NULL)
        return ERR_NONE;
    if (strcmp(value, "*") == 0) {
        *ret_generation = UINT64_MAX;
        return ERR_NONE;
    }
    size_t bytes = strlen(value);
    char digits[24];
    if (bytes > 2 && bytes - 2 < sizeof(digits) && value[0] == '"' && value[bytes - 1] == '"') {
        memcpy(digits, value + 1, bytes - 2);
        digits[bytes - 2] = '\0';
        if (text_uint_parse(digits, INT64_MAX, ret_generation) && *ret_generation > 0)
            return ERR_NONE;
    }
    *ret_generation = 0;
    return err_set(reterr, ERR_INVALID,
                   "If-Match must be one ETag of a job, like \"3\" with its quotes, or *");
}

enum err_code request_if_none_match(const char *value, bool *ret_must_not_exist, struct err *reterr)
{
    *ret_must_not_exist = value != NULL;
    if (value == NULL || strcmp(value, "*") == 0)
        return ERR_NONE;
    return err_set(reterr, ERR_INVALID, "If-None-Match must be *: the job must not exist");
}

static const char *skip_space(const char *text)
{
    return text + strspn(text, " \t");
}

bool request_is_json(const char *value)
{
    static const char type[] = "application/json";
    static const char charset[] = "charset=";
    if (value == NULL || strncasecmp(value, type, strlen(type)) != 0)
        return false;
    const char *rest = skip_space(value + strlen(type));
    if (*rest == '\0')
        return true;
    if (*rest != ';')
        return false;
    rest = skip_space(rest + 1);
    if (strncasecmp(rest, charset, strlen(charset)) != 0)
        return false;
    rest += strlen(charset);
    return strcasecmp(rest, "utf-8") == 0 || strcasecmp(rest, "\"utf-8\"") == 0;
}
