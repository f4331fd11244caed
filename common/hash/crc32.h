/* CRC-32 (IEEE 802.3, as zlib's crc32), which librdkafka's default `consistent_random` partitioner
 * uses. Pure. */
#ifndef BATON_COMMON_HASH_CRC32_H
#define BATON_COMMON_HASH_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_hash(const void *key, size_t bytes);

#endif
