#include "common/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

#define CUT_MARK "..."

/* Texts quote names and replies of others; JSON and logs that carry them must stay UTF-8. */
static void scrub(char *text)
{
    size_t bytes = strlen(text);
    while (bytes > 0) {
        size_t length = utf8_char(text, bytes);
        if (length == 0) {
            *text = '?';
            length = 1;
        }
        text += length;
        bytes -= length;
    }
}

/* `bytes` is what the whole text needs without its NUL; `text` holds what fits. */
static void mark_cut(char text[ERR_TEXT_BYTES], size_t bytes)
{
    if (bytes < ERR_TEXT_BYTES)
        return;
    size_t cut = utf8_cut(text, ERR_TEXT_BYTES - sizeof(CUT_MARK));
    memcpy(text + cut, CUT_MARK, sizeof(CUT_MARK));
}

static size_t format_text(char text[ERR_TEXT_BYTES], const char *format, va_list args)
{
    int length = vsnprintf(text, ERR_TEXT_BYTES, format, args);
    if (length < 0)
        length = snprintf(text, ERR_TEXT_BYTES, "(a text that could not be formatted)");
    return (size_t)length;
}

enum err_code err_set(struct err *reterr, enum err_code code, const char *format, ...)
{
    assert(code != ERR_NONE);
    if (reterr == NULL)
        return code;

    /* Formatted beside, since the arguments may point into reterr. */
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    size_t bytes = format_text(text, format, args);
    va_end(args);
    mark_cut(text, bytes);
    scrub(text);

    *reterr = (struct err){.code = code};
    memcpy(reterr->text, text, strlen(text) + 1);
    return code;
}

enum err_code err_prefix(struct err *reterr, const char *format, ...)
{
    if (reterr == NULL)
        return ERR_INTERNAL;

    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    size_t bytes = format_text(text, format, args);
    va_end(args);
    if (bytes < ERR_TEXT_BYTES) {
        /* vsnprintf left room for at least the NUL; the rest is cut where it does not fit. */
        int more = snprintf(text + bytes, ERR_TEXT_BYTES - bytes, ": %s", reterr->text);
        bytes += (size_t)more;
    }
    mark_cut(text, bytes);
    scrub(text);
    memcpy(reterr->text, text, strlen(text) + 1);
    return reterr->code;
}

const char *err_name(enum err_code code)
{
    switch (code) {
    case ERR_NONE:
        return "none";
    case ERR_INVALID:
        return "invalid";
    case ERR_NOT_FOUND:
        return "not_found";
    case ERR_CONFLICT:
        return "conflict";
    case ERR_STALE:
        return "stale";
    case ERR_LIMIT:
        return "limit";
    case ERR_IO:
        return "io";
    case ERR_CORRUPT:
        return "corrupt";
    case ERR_FOREIGN:
        return "foreign";
    case ERR_LOCKED:
        return "locked";
    case ERR_TIMEOUT:
        return "timeout";
    case ERR_UNAVAILABLE:
        return "unavailable";
    case ERR_KAFKA:
        return "kafka";
    case ERR_FENCED:
        return "fenced";
    case ERR_HISTORY:
        return "history";
    case ERR_UNSUPPORTED:
        return "unsupported";
    case ERR_PROTOCOL:
        return "protocol";
    case ERR_LOGIC:
        return "logic";
    case ERR_INTERNAL:
        return "internal";
    }
    return "unknown";
}
