/* The types of options: from text to the caller's field, and what is allowed, in words. Internal to
 * opts; pure. */
#ifndef BATON_COMMON_OPTS_VALUE_H
#define BATON_COMMON_OPTS_VALUE_H

#include "common/err.h"
#include "common/opts.h"
#include "common/strbuf.h"

/* Sets the entry's field in `options`; a text that was there before is freed. The error never
 * quotes a secret. */
enum err_code opts_value_set(const struct opts_entry *entry, const char *text, void *options,
                             struct err *reterr) MUSTCHECK;

/* Frees what opts_value_set allocated; fine for a zeroed field. */
void opts_value_clear(const struct opts_entry *entry, void *options);

/* Adds what is allowed, to follow "must be": "a whole number from 1 to 65535". */
void opts_value_describe(const struct opts_entry *entry, struct strbuf *buf);

/* "text", "number", "duration", ... */
const char *opts_value_type(enum opts_type type);

#endif
