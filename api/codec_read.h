/* The reading half of api/codec.h. Only for api/codec*.c. */
#ifndef BATON_API_CODEC_READ_H
#define BATON_API_CODEC_READ_H

#include <jansson.h>

#include "api/codec_faults.h"
#include "api/schema.h"

/*
 * Fills `value` (zeroed memory; always left such that schema_free may be called on it) and adds
 * what is wrong to `faults`. `integers_as_reals`: the text was parsed with JSON_DECODE_INT_AS_REAL,
 * only to find the place of a number that is too large; the value is of no use then.
 */
void codec_read(const struct schema_type *type, json_t *json, bool integers_as_reals, void *value,
                struct codec_faults *faults);

#endif
