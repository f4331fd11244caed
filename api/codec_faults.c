#include "api/codec_faults.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/utf8.h"

#define CUT_MARK "..."

/* `bytes` is what the whole text needs; `text` holds what fits. */
static char *cut_copy(char text[API_TEXT_BYTES_MAX + 1], size_t bytes)
{
    if (bytes > API_TEXT_BYTES_MAX) {
        size_t kept = utf8_cut(text, API_TEXT_BYTES_MAX - strlen(CUT_MARK));
        memcpy(text + kept, CUT_MARK, sizeof(CUT_MARK));
    }
    return mem_strdup(text);
}

void codec_faults_add(struct codec_faults *faults, const char *pointer, const char *format, ...)
{
    if (codec_faults_full(faults))
        return;
    if (faults->items == NULL)
        faults->items = mem_calloc(CODEC_FAULTS_MAX, sizeof(*faults->items));
    struct field_error *fault = &faults->items[faults->count++];

    char text[API_TEXT_BYTES_MAX + 1];
    int bytes = snprintf(text, sizeof(text), "%s", pointer);
    assert(bytes >= 0);
    fault->pointer = cut_copy(text, (size_t)bytes);

    va_list args;
    va_start(args, format);
    bytes = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert(bytes >= 0);
    fault->detail = cut_copy(text, (size_t)bytes);
}

bool codec_faults_full(const struct codec_faults *faults)
{
    return faults->count >= CODEC_FAULTS_MAX;
}

void codec_faults_finish(struct codec_faults *faults)
{
    for (size_t i = 0; i < faults->count; i++) {
        free(faults->items[i].pointer);
        free(faults->items[i].detail);
    }
    free(faults->items);
    *faults = (struct codec_faults){0};
}
