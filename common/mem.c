#include "common/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CAPACITY_FIRST 8

static _Noreturn void give_up(size_t count, size_t bytes)
{
    /* Nothing here may allocate: a buffer on the stack and one write. */
    char line[96];
    int length = snprintf(line, sizeof(line), "out of memory: %zu x %zu bytes\n", count, bytes);
    if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0) {
        /* Nobody is left to tell. */
    }
    abort();
}

void *mem_calloc(size_t count, size_t bytes)
{
    /* calloc may answer NULL for nothing; callers were promised a pointer. */
    if (count == 0 || bytes == 0) {
        count = 1;
        bytes = 1;
    }
    void *memory = calloc(count, bytes);
    if (memory == NULL)
        give_up(count, bytes);
    return memory;
}

void *mem_realloc(void *old, size_t count, size_t bytes)
{
    if (count == 0 || bytes == 0) {
        count = 1;
        bytes = 1;
    }
    void *memory = reallocarray(old, count, bytes);
    if (memory == NULL)
        give_up(count, bytes);
    return memory;
}

char *mem_strdup(const char *text)
{
    return mem_memdup(text, strlen(text) + 1);
}

void *mem_memdup(const void *data, size_t bytes)
{
    void *memory = mem_realloc(NULL, bytes, 1);
    if (bytes > 0)
        memcpy(memory, data, bytes);
    return memory;
}

char *mem_printf(const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        give_up(1, 0);
    return text;
}

void *mem_grow(void *array, size_t count, size_t *capacity, size_t bytes)
{
    if (count < *capacity)
        return array;
    size_t wanted = CAPACITY_FIRST;
    if (count >= CAPACITY_FIRST) {
        if (count > SIZE_MAX / 2)
            give_up(count, bytes);
        wanted = count * 2;
    }
    array = mem_realloc(array, wanted, bytes);
    *capacity = wanted;
    return array;
}
