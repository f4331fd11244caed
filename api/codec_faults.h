/*
 * What is wrong with a request: up to CODEC_FAULTS_MAX places, each with an RFC 6901 pointer and a
 * text that says what is allowed. Apart from api/codec.h so that checks without JSON (api/spec.h)
 * can add to it. Owned by one thread.
 */
#ifndef BATON_API_CODEC_FAULTS_H
#define BATON_API_CODEC_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

#include "api/types.h"

#define CODEC_FAULTS_MAX 20

struct codec_faults { /* zero-initialise; finish with codec_faults_finish */
    struct field_error *items;
    size_t count;
};

/* Adds a fault; does nothing when there are CODEC_FAULTS_MAX. Texts over API_TEXT_BYTES_MAX are
 * cut. */
void codec_faults_add(struct codec_faults *faults, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool codec_faults_full(const struct codec_faults *faults);
void codec_faults_finish(struct codec_faults *faults); /* frees and empties */

#endif
