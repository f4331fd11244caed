#include "common/mem.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Under AddressSanitizer a refused allocation must come back as NULL, as it does without. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static bool all_zero(const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != 0)
            return false;
    }
    return true;
}

Test(mem, calloc_is_zeroed)
{
    unsigned char *data = mem_calloc(100, 7);
    cr_assert(all_zero(data, 700));
    free(data);
}

/* Nothing is still a pointer: callers never look for NULL. */
Test(mem, nothing_is_a_valid_pointer)
{
    void *pointers[] = {mem_calloc(0, 8), mem_calloc(8, 0), mem_realloc(NULL, 0, 8),
                        mem_memdup(NULL, 0)};
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
        cr_assert_not_null(pointers[i], "case %zu", i);
        free(pointers[i]);
    }
    char *data = mem_realloc(mem_strdup("abc"), 0, 1);
    cr_assert_not_null(data);
    free(data);
}

Test(mem, realloc_keeps_what_fits)
{
    char *text = mem_strdup("0123456789");
    text = mem_realloc(text, 1000, 10);
    cr_assert_str_eq(text, "0123456789");
    free(text);
}

Test(mem, copies_are_their_own)
{
    char source[] = "a\0b";
    char *bytes = mem_memdup(source, sizeof(source));
    char *text = mem_strdup(source);
    source[0] = 'x';
    cr_assert_arr_eq(bytes, "a\0b", sizeof(source));
    cr_assert_str_eq(text, "a");
    free(bytes);
    free(text);
}

Test(mem, printf_formats_any_length)
{
    char *text = mem_printf("%0*d-%s", 5000, 7, "end");
    cr_assert_eq(strlen(text), 5004);
    cr_assert_str_eq(text + 4999, "7-end");
    free(text);
}

Test(mem, grow_doubles_and_keeps_the_elements)
{
    uint32_t *array = NULL;
    size_t capacity = 0;
    size_t moves = 0;

    for (uint32_t count = 0; count < 1000; count++) {
        size_t before = capacity;
        array = mem_grow(array, count, &capacity, sizeof(*array));
        cr_assert_gt(capacity, count);
        moves += capacity != before;
        array[count] = count;
    }
    for (uint32_t i = 0; i < 1000; i++)
        cr_assert_eq(array[i], i);
    cr_assert_leq(moves, 8); /* 8, 16, ... 1024 */
    free(array);
}

/* Each of these asks for more than there can be. The sizes are read from here so that no compiler
 * sees them. */
static volatile size_t half = SIZE_MAX / 2 + 2;

static void calloc_product_wraps(void)
{
    free(mem_calloc(half, 2));
}

static void realloc_product_wraps(void)
{
    free(mem_realloc(NULL, half, 2));
}

static void grow_wraps(void)
{
    size_t capacity = half;
    free(mem_grow(NULL, half, &capacity, 1));
}

static void allocator_refuses(void)
{
    free(mem_calloc(half / 2, 1));
}

/* The death is told in one line, and is an abort that leaves a core and not an exit. */
static void assert_gives_up(void (*ask)(void))
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        if (dup2(ends[1], STDERR_FILENO) < 0)
            _exit(2);
        ask();
        _exit(0);
    }
    close(ends[1]);

    char said[4096] = "";
    size_t bytes = 0;
    for (ssize_t got; (got = read(ends[0], said + bytes, sizeof(said) - 1 - bytes)) > 0;)
        bytes += (size_t)got;
    said[bytes] = '\0';
    close(ends[0]);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status), "ended with status %#x and said: %s", status, said);
    cr_assert_eq(WTERMSIG(status), SIGABRT);
    cr_assert_not_null(strstr(said, "out of memory: "), "said: %s", said);
}

Test(mem, gives_up_on_overflow)
{
    assert_gives_up(calloc_product_wraps);
    assert_gives_up(realloc_product_wraps);
    assert_gives_up(grow_wraps);
}

Test(mem, gives_up_when_the_allocator_does)
{
    assert_gives_up(allocator_refuses);
}
