#include "coordinator/openapi.h"

/* The Makefile makes these out of the file. */
extern const unsigned char embed_api_openapi_json[];
extern const unsigned char embed_api_openapi_json_end[];

const char *openapi_text(size_t *ret_bytes)
{
    *ret_bytes = (size_t)(embed_api_openapi_json_end - embed_api_openapi_json);
    return (const char *)embed_api_openapi_json;
}
