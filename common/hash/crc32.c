#include "common/hash/crc32.h"

#include <zlib.h>

uint32_t crc32_hash(const void *key, size_t bytes)
{
    return (uint32_t)crc32_z(0, key, bytes);
}
