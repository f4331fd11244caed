/* The words of faults: what a field allows, what was given instead, what was meant. Only for
 * api/codec*.c. */
#ifndef BATON_API_CODEC_SAY_H
#define BATON_API_CODEC_SAY_H

#include <jansson.h>

#include "api/schema.h"
#include "common/strbuf.h"

/* "a whole number from 1 to 10000" */
void codec_say_allowed(const struct schema_field *field, struct strbuf *out);

/* "0", "\"abc\"", "a list of 17": short, and never the content of an object. */
void codec_say_given(json_t *json, struct strbuf *out);

/* The field whose name is close to `name`, or NULL. */
const char *codec_say_meant(const struct schema_type *type, const char *name);

#endif
