/* The texts of scalar kinds in JSON and in query parameters: times, durations, versions, numbers;
 * and texts for people. Pure; any thread. */
#ifndef BATON_API_TEXT_H
#define BATON_API_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"

#define TEXT_BYTES 48 /* room for any of the texts below, with its NUL */

/* RFC 3339 in UTC, "2026-11-29T18:12:03.123Z"; the fraction may be absent or longer (what is below
 * a millisecond is cut). */
bool text_time_parse(const char *text, int64_t *ret_at);

/* "1500ms", "90s", "10m", "0s": the largest unit that divides it. ms >= 0. opts_duration_parse is
 * the way back. */
void text_duration(int64_t ms, char ret_text[TEXT_BYTES]);

/* "3.17"; each part is a whole number up to 2^63-1 without sign and without leading zeros. */
bool text_version_parse(const char *text, struct document_version *ret_version);
void text_version(struct document_version version, char ret_text[TEXT_BYTES]);

/* The shortest JSON number that reads back as the same double, always with a point or an exponent;
 * what is not finite becomes the nearest that is, NaN 0.0. */
void text_double(double number, char ret_text[TEXT_BYTES]);

/* Digits only: no sign, no space, no leading zero but "0"; false when it is not of that form or
 * over `max`. */
bool text_uint_parse(const char *text, uint64_t max, uint64_t *ret_number);

/* printf into new memory; what is longer than API_TEXT_BYTES_MAX is cut between characters, and
 * ends in "...". */
char *text_printf(const char *format, ...)
    __attribute__((format(printf, 1, 2), malloc, warn_unused_result, returns_nonnull));
char *text_vprintf(const char *format, va_list args)
    __attribute__((format(printf, 1, 0), malloc, warn_unused_result, returns_nonnull));

#endif
