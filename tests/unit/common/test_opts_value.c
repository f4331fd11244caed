#include "common/opts_value.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/strbuf.h"
#include "tests/unit/common/opts_fixture.h"

struct value_case {
    const char *argument;
    int64_t value; /* INT64_MIN: refused */
};

/* One argument that sets an int64_t field; refused ones must leave no other trace than their error.
 */
static void assert_values(const struct value_case *cases, size_t count, size_t offset)
{
    for (size_t i = 0; i < count; i++) {
        struct run *run = run_opts(NULL, ARGS("--state_dir=/s", cases[i].argument));
        const char *name = cases[i].argument + 2;
        int64_t value;
        memcpy(&value, (char *)&run->options + offset, sizeof(value));
        if (cases[i].value == INT64_MIN) {
            cr_assert_eq(run->code, ERR_INVALID, "%s was taken", cases[i].argument);
            cr_assert_not_null(strstr(run->err.text, ": must be a whole number "));
            cr_assert_eq(strncmp(run->err.text + 2, name, strcspn(name, "=")), 0);
        } else {
            assert_runs(run);
            cr_assert_eq(value, cases[i].value, "%s", cases[i].argument);
        }
        run_finish(run);
    }
}
#define ASSERT_VALUES(field, ...)                                                                  \
    do {                                                                                           \
        static const struct value_case cases[] = {__VA_ARGS__};                                    \
        assert_values(cases, sizeof(cases) / sizeof(cases[0]), offsetof(struct options, field));   \
    } while (0)
#define REFUSED INT64_MIN

Test(opts_value, numbers_are_strict)
{
    ASSERT_VALUES(port, {"--port=1", 1}, {"--port=65535", 65535}, {"--port=0", REFUSED},
                  {"--port=65536", REFUSED}, {"--port=", REFUSED}, {"--port= 1", REFUSED},
                  {"--port=1 ", REFUSED}, {"--port=+1", REFUSED}, {"--port=-1", REFUSED},
                  {"--port=0x10", REFUSED}, {"--port=010", REFUSED}, {"--port=1e3", REFUSED},
                  {"--port=1.0", REFUSED}, {"--port=80a", REFUSED}, {"--port=-", REFUSED},
                  {"--port=18446744073709551617", REFUSED}); /* 2^64 + 1 */
    ASSERT_VALUES(
        offset, {"--offset=0", 0}, {"--offset=-1", -1}, {"--offset=9223372036854775807", INT64_MAX},
        {"--offset=-9223372036854775807", -INT64_MAX}, {"--offset=9223372036854775808", REFUSED},
        {"--offset=-9223372036854775809", REFUSED}, {"--offset=--1", REFUSED},
        {"--offset=99999999999999999999999", REFUSED});
    struct run *run = run_opts(NULL, ARGS("--state_dir=/s", "--offset=-9223372036854775808"));
    assert_runs(run);
    cr_assert_eq(run->options.offset, INT64_MIN);
    run_finish(run);
}

Test(opts_value, durations_have_a_unit)
{
    ASSERT_VALUES(poll_timeout_ms, {"--poll_timeout=0ms", 0}, {"--poll_timeout=0d", 0},
                  {"--poll_timeout=1s", 1000}, {"--poll_timeout=59m", 3540000},
                  {"--poll_timeout=1h", 3600000}, {"--poll_timeout=3600001ms", REFUSED},
                  {"--poll_timeout=1d", REFUSED}, {"--poll_timeout=1", REFUSED},
                  {"--poll_timeout=s", REFUSED}, {"--poll_timeout=1 s", REFUSED},
                  {"--poll_timeout=1S", REFUSED}, {"--poll_timeout=1m30s", REFUSED},
                  {"--poll_timeout=-1s", REFUSED}, {"--poll_timeout=1.5s", REFUSED});
}

Test(opts_value, sizes_may_have_a_unit)
{
    ASSERT_VALUES(cache_bytes, {"--cache=1024", 1024}, {"--cache=1KiB", 1024},
                  {"--cache=3MiB", 3 << 20}, {"--cache=1024GiB", INT64_C(1) << 40},
                  {"--cache=1025GiB", REFUSED}, {"--cache=1023", REFUSED},
                  {"--cache=1kib", REFUSED}, {"--cache=1KB", REFUSED}, {"--cache=1K", REFUSED},
                  {"--cache=1 KiB", REFUSED}, {"--cache=-1KiB", REFUSED},
                  {"--cache=17179869185GiB", REFUSED}, /* 2^64 + 2^30 */
                  {"--cache=8589934592GiB", REFUSED}); /* 2^63 */
}

Test(opts_value, duration_parse)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } cases[] = {
        {"250ms", 250},
        {"10s", 10000},
        {"5m", 300000},
        {"2h", 7200000},
        {"7d", 604800000},
        {"0s", 0},
        {"9223372036854775807ms", INT64_MAX},
        {"9223372036854775808ms", -1},
        {"9223372036854775s", INT64_C(9223372036854775000)},
        {"9223372036854776s", -1},
        {"106751991167d", INT64_C(9223372036828800000)},
        {"106751991168d", -1},
        {"213503982335d", -1}, /* past 2^64 milliseconds: wraps to little */
        {"18446744073709551616ms", -1},
        {"", -1},
        {"5", -1},
        {"ms", -1},
        {"05s", -1},
        {"+5s", -1},
        {" 5s", -1},
        {"5s ", -1},
        {"5min", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t ms = -1;
        bool parsed = opts_duration_parse(cases[i].text, &ms);
        cr_assert_eq(parsed, cases[i].ms != -1, "%s", cases[i].text);
        cr_assert_eq(ms, cases[i].ms, "%s", cases[i].text); /* left alone when refused */
    }
}

Test(opts_value, errors_say_what_is_allowed)
{
    const char *dir = "--state_dir=/s";

    assert_fails(NULL, ARGS(dir, "--port=http"), ERR_INVALID,
                 "--port: must be a whole number from 1 to 65535, not \"http\"");
    assert_fails(NULL, ARGS(dir, "--poll_timeout=2h"), ERR_INVALID,
                 "--poll_timeout: must be a whole number with ms, s, m, h or d, from 0ms to 1h, "
                 "not \"2h\"");
    assert_fails(NULL, ARGS(dir, "--cache=5"), ERR_INVALID,
                 "--cache: must be a whole number of bytes or with KiB, MiB or GiB, from 1KiB to "
                 "1024GiB, not \"5\"");
    assert_fails(NULL, ARGS(dir, "--verbose=yes"), ERR_INVALID,
                 "--verbose: must be true or false, not \"yes\"");
    assert_fails(NULL, ARGS(dir, "--verbose=TRUE"), ERR_INVALID,
                 "--verbose: must be true or false, not \"TRUE\"");
    assert_fails(NULL, ARGS(dir, "--color=Red"), ERR_INVALID,
                 "--color: must be red, green or blue, not \"Red\"");
    assert_fails(NULL, ARGS(dir, "--title=ninebytes"), ERR_INVALID,
                 "--title: must be text of 0 to 8 bytes, not \"ninebytes\"");
    assert_fails(NULL, ARGS("--state_dir="), ERR_INVALID,
                 "--state_dir: must be text of 1 to 4096 bytes, not \"\"");
}

Test(opts_value, a_long_wrong_value_is_shortened)
{
    struct strbuf argument = {0}, expected = {0};
    strbuf_puts(&argument, "--port=x");
    strbuf_puts(&expected, "--port: must be a whole number from 1 to 65535, not \"x");
    for (int i = 0; i < 50; i++)
        strbuf_puts(&argument, "\xc3\xa4");
    for (int i = 0; i < 29; i++) /* 59 of 60 bytes: the next one would be half a character */
        strbuf_puts(&expected, "\xc3\xa4");
    strbuf_puts(&expected, "...\" (101 bytes)");
    assert_fails(NULL, ARGS(strbuf_text(&argument)), ERR_INVALID, strbuf_text(&expected));
    strbuf_finish(&argument);
    strbuf_finish(&expected);
}
