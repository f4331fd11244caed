#include "common/httpd_target.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/utf8.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes in place; texts only get shorter. `what` names the part in errors. */
static enum err_code decode(char *text, bool is_query, const char *what, struct err *reterr)
{
    char *out = text;
    for (const char *in = text; *in != '\0'; in++) {
        char c = *in;
        if (c == '+' && is_query) {
            c = ' ';
        } else if (c == '%') {
            int high = hex_digit(in[1]);
            int low = high < 0 ? -1 : hex_digit(in[2]);
            if (low < 0)
                return err_set(reterr, ERR_INVALID,
                               "%s: '%%' must be followed by two hexadecimal digits", what);
            c = (char)(high << 4 | low);
            if (c == '\0')
                return err_set(reterr, ERR_INVALID, "%s: %%00 is not allowed", what);
            if (c == '/' && !is_query)
                return err_set(reterr, ERR_INVALID, "%s: %%2F is not allowed", what);
            in += 2;
        }
        *out++ = c;
    }
    *out = '\0';
    if (!utf8_valid(text, strlen(text)))
        return err_set(reterr, ERR_INVALID, "%s: is not UTF-8", what);
    return ERR_NONE;
}

static enum err_code add_parameter(struct httpd_target *target, char *text, struct err *reterr)
{
    char *value = strchr(text, '=');
    if (value != NULL)
        *value++ = '\0';
    else
        value = text + strlen(text);

    enum err_code code = decode(text, true, "query parameter's name", reterr);
    if (code == ERR_NONE && text[0] == '\0')
        code = err_set(reterr, ERR_INVALID, "a query parameter has no name");
    if (code == ERR_NONE)
        code = decode(value, true, text, reterr);
    if (code != ERR_NONE)
        return code;
    for (size_t i = 0; i < target->query_count; i++) {
        if (strcmp(target->query[i].name, text) == 0)
            return err_set(reterr, ERR_INVALID, "query parameter '%.100s' is given twice", text);
    }
    if (target->query_count == HTTPD_QUERY_MAX)
        return err_set(reterr, ERR_INVALID, "more than %d query parameters", HTTPD_QUERY_MAX);
    target->query[target->query_count++] = (struct httpd_parameter){.name = text, .value = value};
    return ERR_NONE;
}

static enum err_code parse_query(struct httpd_target *target, char *text, struct err *reterr)
{
    while (text != NULL && *text != '\0') {
        char *next = strchr(text, '&');
        if (next != NULL)
            *next++ = '\0';
        enum err_code code = *text == '\0' ? ERR_NONE : add_parameter(target, text, reterr);
        if (code != ERR_NONE)
            return code;
        text = next;
    }
    return ERR_NONE;
}

enum err_code httpd_target_parse(const char *text, struct httpd_target *ret_target,
                                 struct err *reterr)
{
    size_t bytes = strlen(text);
    if (bytes > HTTPD_TARGET_BYTES_MAX)
        return err_set(reterr, ERR_LIMIT, "the address has more than %d bytes",
                       HTTPD_TARGET_BYTES_MAX);
    if (text[0] != '/')
        return err_set(reterr, ERR_INVALID, "the address must start with '/'");

    struct httpd_target target = {.memory = mem_memdup(text, bytes + 1)};
    target.path = target.memory;
    char *query = strchr(target.memory, '?');
    if (query != NULL)
        *query++ = '\0';
    enum err_code code = decode(target.memory, false, "path", reterr);
    if (code == ERR_NONE)
        code = parse_query(&target, query, reterr);
    if (code != ERR_NONE) {
        httpd_target_finish(&target);
        return code;
    }
    *ret_target = target;
    return ERR_NONE;
}

void httpd_target_finish(struct httpd_target *target)
{
    free(target->memory);
    *target = (struct httpd_target){0};
}
