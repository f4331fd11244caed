/* UTF-8 as of RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. Pure; any thread.
 */
#ifndef BATON_COMMON_UTF8_H
#define BATON_COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length (1..4) of the valid character at the start of `text`; 0 when there is none in `bytes`
 * bytes. */
size_t utf8_char(const char *text, size_t bytes);

bool utf8_valid(const char *text, size_t bytes);

/* The longest length <= bytes_max that does not cut a character of `text`, which has more than
 * bytes_max bytes. */
size_t utf8_cut(const char *text, size_t bytes_max);

#endif
