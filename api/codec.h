/*
 * JSON <-> the types of api/types.h, by the tables of api/schema.h. The only user of the JSON library (jansson).
 *
 * Decoding is strict: UTF-8, one value, no duplicate keys, depth <= API_JSON_DEPTH_MAX, no unknown fields, right types and
 * ranges, every required field. It does not stop at the first fault: up to 20 are listed, each with an RFC 6901 pointer and a
 * text that says what is allowed. Any thread may call.
 */
#ifndef BATON_API_CODEC_H
#define BATON_API_CODEC_H

#include <stddef.h>

#include "api/schema.h"
#include "common/err.h"

struct codec_faults { /* zero-initialise; finish with codec_faults_finish */
    struct field_error *items;
    size_t count;
};

/* ERR_PROTOCOL: not JSON at all (position in the text). ERR_INVALID: `reterr_faults` says where. ret_value as schema_default fills it where fields are absent. */
enum err_code codec_decode(const struct schema_type *type, const char *text, size_t bytes, void *ret_value,
                           struct codec_faults *reterr_faults, struct err *reterr) MUSTCHECK;
void codec_faults_finish(struct codec_faults *faults);

/* Compact JSON text, fields in the order of the table; free(). NULL strings, API_UNKNOWN -> null. */
char *codec_encode(const struct schema_type *type, const void *value, size_t *ret_bytes);

#endif
