#include "api/codec_faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "common/utf8.h"

#define CUT_MARK "..."

static void cut(char *text)
{
    size_t bytes = strlen(text);
    if (bytes <= API_TEXT_BYTES_MAX)
        return;
    size_t kept = utf8_cut(text, API_TEXT_BYTES_MAX - strlen(CUT_MARK));
    memcpy(text + kept, CUT_MARK, sizeof(CUT_MARK));
}

__attribute__((format(printf, 1, 0))) static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return mem_strdup("is wrong"); /* a format of ours that no argument can fill */
    cut(text);
    return text;
}

void codec_faults_add(struct codec_faults *faults, const char *pointer, const char *format, ...)
{
    if (codec_faults_full(faults))
        return;
    if (faults->items == NULL)
        faults->items = mem_calloc(CODEC_FAULTS_MAX, sizeof(*faults->items));

    struct field_error *fault = &faults->items[faults->count++];
    fault->pointer = mem_strdup(pointer);
    cut(fault->pointer);
    va_list args;
    va_start(args, format);
    fault->detail = format_text(format, args);
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
