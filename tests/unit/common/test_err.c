#include "common/err.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "common/utf8.h"

Test(err, set_fills_all)
{
    struct err err;
    memset(&err, 0x5a, sizeof(err));

    cr_assert_eq(err_set(&err, ERR_LIMIT, "%d of %s", 3, "keys"), ERR_LIMIT);
    cr_assert_eq(err.code, ERR_LIMIT);
    cr_assert_not(err.retriable);
    cr_assert_not(err.fatal);
    cr_assert_not(err.abort_txn);
    cr_assert_eq(err.detail, 0);
    cr_assert_str_eq(err.text, "3 of keys");
}

Test(err, set_may_use_its_own_text)
{
    struct err err;
    (void)err_set(&err, ERR_IO, "disk full");
    (void)err_set(&err, ERR_CORRUPT, "after \"%s\": %s", err.text, err.text);
    cr_assert_str_eq(err.text, "after \"disk full\": disk full");
}

Test(err, prefix_keeps_code_and_flags)
{
    struct err err;
    (void)err_set(&err, ERR_KAFKA, "fenced");
    err.fatal = true;
    err.detail = -144;

    cr_assert_eq(err_prefix(&err, "job %s", "orders"), ERR_KAFKA);
    cr_assert_eq(err_prefix(&err, "agent"), ERR_KAFKA);
    cr_assert_str_eq(err.text, "agent: job orders: fenced");
    cr_assert(err.fatal);
    cr_assert_eq(err.detail, -144);
    (void)err_prefix(&err, "%s", err.text);
    cr_assert_str_eq(err.text, "agent: job orders: fenced: agent: job orders: fenced");
}

/* A failure stays one, whoever asked for no details. */
Test(err, null_is_allowed)
{
    cr_assert_eq(err_set(NULL, ERR_STALE, "%s", "x"), ERR_STALE);
    cr_assert_neq(err_prefix(NULL, "x"), ERR_NONE);
}

Test(err, success_is_no_error, .signal = SIGABRT)
{
    (void)err_set(NULL, ERR_NONE, "x");
}

Test(err, a_text_that_just_fits_is_whole)
{
    struct err err;
    (void)err_set(&err, ERR_IO, "%0511d", 7);
    cr_assert_eq(strlen(err.text), 511);
    cr_assert_str_eq(err.text + 508, "007");

    (void)err_set(&err, ERR_IO, "%0512d", 7);
    cr_assert_eq(strlen(err.text), 511);
    cr_assert_str_eq(err.text + 507, "0...");
}

/* For every number of bytes before a text of multi-byte characters, so that each place of a cut is
 * met. */
Test(err, cuts_at_a_whole_character)
{
    char wide[801];
    for (size_t i = 0; i < 800; i += 4)
        memcpy(wide + i, "\xf0\x9f\x98\x80", 5);

    for (int shift = 0; shift < 8; shift++) {
        struct err set, prefixed;
        (void)err_set(&set, ERR_IO, "%.*s%s", shift, "abcdefgh", wide);
        cr_assert(utf8_valid(set.text, strlen(set.text)), "shift %d: %s", shift, set.text);
        cr_assert_null(strchr(set.text, '?'), "half a character: %s", set.text);
        cr_assert_str_eq(set.text + strlen(set.text) - 3, "...");
        cr_assert_geq(strlen(set.text), ERR_TEXT_BYTES - 4);

        (void)err_set(&prefixed, ERR_IO, "%s", wide + 400);
        (void)err_prefix(&prefixed, "%.*s%.200s", shift, "abcdefgh", wide);
        cr_assert(utf8_valid(prefixed.text, strlen(prefixed.text)), "shift %d", shift);
        cr_assert_null(strchr(prefixed.text, '?'), "half a character: %s", prefixed.text);
        cr_assert_str_eq(prefixed.text + strlen(prefixed.text) - 3, "...");
    }
}

Test(err, a_prefix_that_fills_the_text_is_cut)
{
    struct err err;
    for (int length = 505; length <= 520; length++) {
        (void)err_set(&err, ERR_IO, "cause");
        (void)err_prefix(&err, "%0*d", length, 7);
        cr_assert_lt(strlen(err.text), ERR_TEXT_BYTES);
        cr_assert_str_eq(err.text + strlen(err.text) - 3, "...");
    }
    (void)err_set(&err, ERR_IO, "cause");
    (void)err_prefix(&err, "%0504d", 7);
    cr_assert_str_eq(err.text + 503, "7: cause");
}

/* Texts quote what others sent; JSON and logs carry them and must stay valid. */
Test(err, what_is_not_utf8_is_replaced)
{
    struct err err;
    (void)err_set(&err, ERR_INVALID, "name \"%s\"",
                  "\xff"
                  "a\xc3(\xe2\x82");
    cr_assert_str_eq(err.text, "name \"?a?(??\"");
}

Test(err, every_code_has_its_own_name)
{
    for (int a = ERR_NONE; a <= ERR_INTERNAL; a++) {
        const char *name = err_name((enum err_code)a);
        cr_assert_str_neq(name, "unknown", "code %d", a);
        cr_assert_eq(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
        for (int b = ERR_NONE; b < a; b++)
            cr_assert_str_neq(name, err_name((enum err_code)b));
    }
    cr_assert_str_eq(err_name(ERR_NOT_FOUND), "not_found");
    cr_assert_str_eq(err_name((enum err_code)1000), "unknown");
}
