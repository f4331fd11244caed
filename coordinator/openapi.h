/* api/openapi.json, built into the program. Any thread. */
#ifndef BATON_COORDINATOR_OPENAPI_H
#define BATON_COORDINATOR_OPENAPI_H

#include <stddef.h>

const char *openapi_text(size_t *ret_bytes); /* lives as long as the program */

#endif
