/* The writing half of api/codec.h. Only for api/codec*.c. */
#ifndef BATON_API_CODEC_WRITE_H
#define BATON_API_CODEC_WRITE_H

#include <jansson.h>

#include "api/schema.h"
#include "common/strbuf.h"

void codec_write_object(const struct schema_type *type, const void *value, struct strbuf *out);
void codec_write_string(const char *text, struct strbuf *out); /* quoted and escaped; NULL: null */

/* Any value as compact text with sorted keys: equal values give equal texts. At most
 * API_JSON_DEPTH_MAX deep. */
void codec_write_json(json_t *json, struct strbuf *out);

#endif
