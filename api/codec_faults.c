#include "api/codec_faults.h"

#include <stdarg.h>
#include <stdlib.h>

#include "api/text.h"
#include "common/mem.h"

void codec_faults_add(struct codec_faults *faults, const char *pointer, const char *format, ...)
{
    if (codec_faults_full(faults))
        return;
    if (faults->items == NULL)
        faults->items = mem_calloc(CODEC_FAULTS_MAX, sizeof(*faults->items));
    struct field_error *fault = &faults->items[faults->count++];

    fault->pointer = text_printf("%s", pointer);
    va_list args;
    va_start(args, format);
    fault->detail = text_vprintf(format, args);
    va_end(args);
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
