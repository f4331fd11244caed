/* A growing byte buffer that is always NUL-terminated. Owned by one thread; zero-initialised is
 * empty and valid. */
#ifndef BATON_COMMON_STRBUF_H
#define BATON_COMMON_STRBUF_H

#include <stddef.h>

struct strbuf {
    char *data; /* NULL while nothing was ever added: use strbuf_text to read */
    size_t bytes;
    size_t capacity;
};

void strbuf_add(struct strbuf *buf, const void *data, size_t bytes);
void strbuf_puts(struct strbuf *buf, const char *text);
void strbuf_printf(struct strbuf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void strbuf_clear(struct strbuf *buf);             /* keeps the memory */
const char *strbuf_text(const struct strbuf *buf); /* never NULL */
char *
strbuf_take(struct strbuf *buf); /* hands the text to the caller (free()); buf is empty again */
void strbuf_finish(struct strbuf *buf);

#endif
