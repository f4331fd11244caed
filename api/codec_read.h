/* The reading half of api/codec.h. Only for api/codec*.c. */
#ifndef BATON_API_CODEC_READ_H
#define BATON_API_CODEC_READ_H

#include <jansson.h>

#include "api/codec_faults.h"
#include "api/schema.h"

struct codec_read_how {
    /* The text was parsed with JSON_DECODE_INT_AS_REAL, only to find the place of a number that is
     * too large; the value is of no use then. */
    bool integers_as_reals;
    bool known_only; /* other fields are passed over */
};

/*
 * Fills `value` (zeroed memory; always left such that schema_free may be called on it) and adds
 * what is wrong to `faults`.
 */
void codec_read(const struct schema_type *type, json_t *json, struct codec_read_how how,
                void *value, struct codec_faults *faults);

#endif
