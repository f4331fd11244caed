#include "common/strbuf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* Makes room for `bytes` more and the NUL. */
static void reserve(struct strbuf *buf, size_t bytes)
{
    assert(bytes < SIZE_MAX - buf->bytes);
    size_t needed = buf->bytes + bytes + 1;
    if (needed <= buf->capacity)
        return;
    buf->data = mem_grow(buf->data, needed - 1, &buf->capacity, 1);
}

void strbuf_add(struct strbuf *buf, const void *data, size_t bytes)
{
    reserve(buf, bytes);
    if (bytes > 0)
        memcpy(buf->data + buf->bytes, data, bytes);
    buf->bytes += bytes;
    buf->data[buf->bytes] = '\0';
}

void strbuf_puts(struct strbuf *buf, const char *text)
{
    strbuf_add(buf, text, strlen(text));
}

void strbuf_printf(struct strbuf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    /* Only a bad format or two gigabytes make it fail: our own mistake either way. */
    assert(length >= 0);
    reserve(buf, (size_t)length);
    (void)vsnprintf(buf->data + buf->bytes, (size_t)length + 1, format, again); /* as measured */
    va_end(again);
    buf->bytes += (size_t)length;
}

void strbuf_clear(struct strbuf *buf)
{
    buf->bytes = 0;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

const char *strbuf_text(const struct strbuf *buf)
{
    return buf->data != NULL ? buf->data : "";
}

char *strbuf_take(struct strbuf *buf)
{
    char *text = buf->data != NULL ? buf->data : mem_strdup("");
    *buf = (struct strbuf){0};
    return text;
}

void strbuf_finish(struct strbuf *buf)
{
    free(buf->data);
    *buf = (struct strbuf){0};
}
