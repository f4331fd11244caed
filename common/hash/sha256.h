/* SHA-256 (FIPS 180-4), where two different inputs must not be taken for each other even if someone
 * tries. Pure. */
#ifndef BATON_COMMON_HASH_SHA256_H
#define BATON_COMMON_HASH_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

/* `data` may be NULL when `bytes` is 0. */
void sha256(const void *data, size_t bytes, uint8_t ret_digest[SHA256_BYTES]);

#endif
