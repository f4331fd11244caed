/*
 * JSON <-> the types of api/types.h, by the tables of api/schema.h. The only user of the JSON
 * library (jansson).
 *
 * Decoding is strict: UTF-8, one value, no duplicate keys, depth <= API_JSON_DEPTH_MAX, no unknown
 * fields, right types and ranges, every required field. It does not stop at the first fault: up to
 * 20 are listed, each with an RFC 6901 pointer and a text that says what is allowed. Any thread may
 * call.
 */
#ifndef BATON_API_CODEC_H
#define BATON_API_CODEC_H

#include <stddef.h>

#include "api/codec_faults.h"
#include "api/schema.h"
#include "common/err.h"

/*
 * ERR_PROTOCOL: not JSON at all, too deep, too many values, or with a key twice in one object
 * (position in the text). ERR_INVALID: `reterr_faults` says where (NULL: only the first fault, in
 * reterr's text, is wanted). ret_value as schema_default fills it where fields are absent; free
 * with schema_free.
 */
enum err_code codec_decode(const struct schema_type *type, const char *text, size_t bytes,
                           void *ret_value, struct codec_faults *reterr_faults,
                           struct err *reterr) MUSTCHECK;

/* The same, but fields that the tables do not know are passed over: of a peer that is newer. */
enum err_code codec_decode_known(const struct schema_type *type, const char *text, size_t bytes,
                                 void *ret_value, struct codec_faults *reterr_faults,
                                 struct err *reterr) MUSTCHECK;

/*
 * Compact JSON text, fields in the order of the table; free(). NULL strings, API_UNKNOWN -> null.
 * ret_bytes may be NULL. What JSON can not say is bent, so that a peer's odd report never stops us:
 * a byte that is not UTF-8 becomes '?', a counter over 2^63-1 becomes that.
 */
char *codec_encode(const struct schema_type *type, const void *value, size_t *ret_bytes);

#endif
