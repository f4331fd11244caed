/* Kafka's murmur2 (org.apache.kafka.common.utils.Utils.murmur2, seed 0x9747b28c), before the "&
 * 0x7fffffff". Pure. */
#ifndef BATON_COMMON_HASH_MURMUR2_H
#define BATON_COMMON_HASH_MURMUR2_H

#include <stddef.h>
#include <stdint.h>

uint32_t murmur2(const void *key, size_t bytes);

#endif
