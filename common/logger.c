#include "common/logger.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/utf8.h"

/* POSIX makes a write of up to PIPE_BUF bytes atomic on a pipe, also between processes. */
#define LINE_BYTES        PIPE_BUF
#define CUT_PAIR          " cut=true\n"
#define LINE_BYTES_USABLE (LINE_BYTES - sizeof(CUT_PAIR))

/* One long text must not push the other pairs out of the line. Counts what is written, escaped. */
#define VALUE_BYTES_MAX 1024

static enum log_level level_min = LOG_LEVEL_INFO;

static const char *const level_names[] = {
    [LOG_LEVEL_DEBUG] = "debug",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_ERROR] = "error",
};
#define LEVEL_COUNT (sizeof(level_names) / sizeof(level_names[0]))

struct line {
    char data[LINE_BYTES];
    size_t bytes;
    bool full; /* something did not fit; nothing is added any more */
};

static void line_add(struct line *line, const char *data, size_t bytes)
{
    if (line->full || bytes > LINE_BYTES_USABLE - line->bytes) {
        line->full = true;
        return;
    }
    memcpy(line->data + line->bytes, data, bytes);
    line->bytes += bytes;
}

static void line_puts(struct line *line, const char *text)
{
    line_add(line, text, strlen(text));
}

/* C0, DEL and the C1 controls (U+0080..U+009F): they can end a line or steer a terminal. */
static bool is_control(const char *at, size_t length)
{
    const unsigned char *byte = (const unsigned char *)at;
    if (length == 1)
        return byte[0] < 0x20 || byte[0] == 0x7F;
    return length == 2 && byte[0] == 0xC2 && byte[1] < 0xA0;
}

/*
 * Writes the character at `at` as it stands inside quotes, in JSON's escapes as logfmt readers know
 * them. `length` is 0 for a byte that is not UTF-8. Returns the bytes written to `out`.
 */
static size_t escape(const char *at, size_t length, char out[8])
{
    if (length == 0)
        return (size_t)snprintf(out, 8, "\\ufffd");
    switch (*at) {
    case '"':
    case '\\':
        return (size_t)snprintf(out, 8, "\\%c", *at);
    case '\n':
        return (size_t)snprintf(out, 8, "\\n");
    case '\r':
        return (size_t)snprintf(out, 8, "\\r");
    case '\t':
        return (size_t)snprintf(out, 8, "\\t");
    default:
        break;
    }
    if (is_control(at, length)) {
        /* The last byte of U+0080..U+009F in UTF-8 equals the code point. */
        return (size_t)snprintf(out, 8, "\\u%04x", (unsigned)(unsigned char)at[length - 1]);
    }
    memcpy(out, at, length);
    return length;
}

static bool needs_quotes(const char *text, size_t bytes)
{
    if (bytes == 0 || bytes > VALUE_BYTES_MAX || !utf8_valid(text, bytes))
        return true;
    for (size_t i = 0; i < bytes; i++) {
        if (strchr(" =\"\\", text[i]) != NULL || is_control(text + i, 1))
            return true;
        if (i + 1 < bytes && is_control(text + i, 2))
            return true;
    }
    return false;
}

static void line_add_quoted(struct line *line, const char *text, size_t bytes)
{
    line_puts(line, "\"");
    for (size_t written = 0; bytes > 0;) {
        char out[8];
        size_t length = utf8_char(text, bytes);
        size_t escaped = escape(text, length, out);
        written += escaped;
        if (written > VALUE_BYTES_MAX) {
            line_puts(line, "...");
            break;
        }
        line_add(line, out, escaped);
        length = length == 0 ? 1 : length;
        text += length;
        bytes -= length;
    }
    line_puts(line, "\"");
}

static void line_add_text(struct line *line, const char *text)
{
    size_t bytes = text == NULL ? 0 : strlen(text);
    if (text == NULL)
        line_puts(line, "null");
    else if (needs_quotes(text, bytes))
        line_add_quoted(line, text, bytes);
    else
        line_add(line, text, bytes);
}

static void line_add_key(struct line *line, const char *key)
{
    assert(key[0] != '\0');
    assert(!needs_quotes(key, strlen(key)));
    line_puts(line, " ");
    line_puts(line, key);
    line_puts(line, "=");
}

/* A pair that does not fit is left out whole, so that what is in the line can be trusted. */
static void line_add_pair(struct line *line, const char *key, enum log_kind kind, va_list *args)
{
    char number[40];
    size_t bytes_before = line->bytes;

    line_add_key(line, key);
    switch (kind) {
    case LOG_KIND_STR:
        line_add_text(line, va_arg(*args, const char *));
        break;
    case LOG_KIND_INT:
        (void)snprintf(number, sizeof(number), "%lld", (long long)va_arg(*args, int64_t));
        line_puts(line, number);
        break;
    case LOG_KIND_DOUBLE:
        (void)snprintf(number, sizeof(number), "%.6g", va_arg(*args, double));
        line_puts(line, number);
        break;
    case LOG_KIND_BOOL:
        line_puts(line, va_arg(*args, int) ? "true" : "false");
        break;
    case LOG_KIND_END:
        assert(!"a pair of kind LOG_KIND_END");
    }
    if (line->full)
        line->bytes = bytes_before;
}

static void line_write(struct line *line)
{
    const char *end = line->full ? CUT_PAIR : "\n";
    memcpy(line->data + line->bytes, end, strlen(end));
    line->bytes += strlen(end);

    ssize_t written;
    do
        written = write(STDERR_FILENO, line->data, line->bytes);
    while (written < 0 && errno == EINTR);
    /* A log that can not be written (disk full, reader gone) has no one to be told to. */
}

void log_set_level(enum log_level level)
{
    assert((size_t)level < LEVEL_COUNT);
    level_min = level;
}

void log_write(enum log_level level, const char *event, ...)
{
    if (level < level_min)
        return;
    assert((size_t)level < LEVEL_COUNT);

    int errno_before = errno; /* a caller may log first and look at errno then */
    char now[CLOCK_TEXT_BYTES];
    clock_format(clock_wall_ms(), now);
    struct line line;
    line.bytes = 0;
    line.full = false;
    line_puts(&line, "ts=");
    line_puts(&line, now);
    line_puts(&line, " level=");
    line_puts(&line, level_names[level]);
    line_puts(&line, " event=");
    line_add_text(&line, event);

    va_list args;
    va_start(args, event);
    for (const char *key; (key = va_arg(args, const char *)) != NULL;) {
        enum log_kind kind = (enum log_kind)va_arg(args, int);
        line_add_pair(&line, key, kind, &args);
    }
    va_end(args);
    line_write(&line);
    errno = errno_before;
}
