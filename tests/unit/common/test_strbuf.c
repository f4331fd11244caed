#include "common/strbuf.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

Test(strbuf, empty_is_valid)
{
    struct strbuf buf = {0};
    cr_assert_str_eq(strbuf_text(&buf), "");
    strbuf_clear(&buf);
    cr_assert_str_eq(strbuf_text(&buf), "");
    char *text = strbuf_take(&buf);
    cr_assert_str_eq(text, "");
    free(text);
    strbuf_finish(&buf);
    strbuf_finish(&buf);
}

Test(strbuf, adding_nothing_makes_a_text)
{
    struct strbuf buf = {0};
    strbuf_add(&buf, NULL, 0);
    strbuf_puts(&buf, "");
    strbuf_printf(&buf, "%s", "");
    cr_assert_eq(buf.bytes, 0);
    cr_assert_str_eq(buf.data, "");
    strbuf_finish(&buf);
}

/* Against a plain array, over every way of adding and sizes around each doubling. */
Test(strbuf, holds_what_was_added)
{
    struct strbuf buf = {0};
    char *expected = mem_calloc(300000, 1);
    size_t bytes = 0;

    for (size_t length = 0; length < 600; length++) {
        char piece[601];
        memset(piece, 'a' + (int)(length % 26), length);
        piece[length] = '\0';
        if (length % 3 == 0)
            strbuf_add(&buf, piece, length);
        else if (length % 3 == 1)
            strbuf_puts(&buf, piece);
        else
            strbuf_printf(&buf, "%s", piece);
        memcpy(expected + bytes, piece, length);
        bytes += length;
        cr_assert_eq(buf.bytes, bytes);
        cr_assert_lt(buf.bytes, buf.capacity);
        cr_assert_eq(buf.data[bytes], '\0');
    }
    cr_assert_arr_eq(buf.data, expected, bytes + 1);
    strbuf_finish(&buf);
    cr_assert_null(buf.data);
    free(expected);
}

Test(strbuf, printf_goes_on_at_the_end)
{
    struct strbuf buf = {0};
    strbuf_printf(&buf, "%d", 1);
    strbuf_printf(&buf, "-%05d-%s", 22, "three");
    cr_assert_str_eq(strbuf_text(&buf), "1-00022-three");
    strbuf_finish(&buf);
}

Test(strbuf, bytes_may_be_zero)
{
    struct strbuf buf = {0};
    strbuf_add(&buf, "a\0b", 3);
    strbuf_puts(&buf, "c");
    cr_assert_eq(buf.bytes, 4);
    cr_assert_arr_eq(buf.data, "a\0bc", 5);
    strbuf_finish(&buf);
}

Test(strbuf, clear_keeps_the_memory)
{
    struct strbuf buf = {0};
    strbuf_puts(&buf, "a long enough text to need some room");
    char *data = buf.data;
    strbuf_clear(&buf);
    cr_assert_str_eq(strbuf_text(&buf), "");
    strbuf_puts(&buf, "short");
    cr_assert_eq(buf.data, data);
    cr_assert_str_eq(strbuf_text(&buf), "short");
    strbuf_finish(&buf);
}

Test(strbuf, take_hands_over_and_starts_again)
{
    struct strbuf buf = {0};
    strbuf_puts(&buf, "one");
    char *one = strbuf_take(&buf);
    strbuf_puts(&buf, "two");
    cr_assert_str_eq(one, "one");
    cr_assert_str_eq(strbuf_text(&buf), "two");
    free(one);
    strbuf_finish(&buf);
}
