/* Valid random values of any type of the schema, by its table. */
#ifndef BATON_TESTS_UNIT_API_RANDOM_VALUE_H
#define BATON_TESTS_UNIT_API_RANDOM_VALUE_H

#include "api/schema.h"
#include "common/rng.h"

/* Lists hold 0 to 3 elements (or the least that is allowed); free with schema_free. */
void random_value(const struct schema_type *type, struct rng *rng, void *ret_value);

#endif
