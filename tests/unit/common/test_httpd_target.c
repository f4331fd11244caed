#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/httpd_target.h"
#include "common/mem.h"

/* Goal: path and parameters arrive decoded, in the order in which they were written. */
Test(httpd_target, decodes)
{
    struct httpd_target target = {0};
    struct err err;
    enum err_code code = httpd_target_parse(
        "/v1/jobs/caf%C3%A9%20x?key=a+b%2Bc&limit=10&&flag&empty=&eq=a=b%26", &target, &err);

    cr_assert_eq(code, ERR_NONE);
    cr_assert_str_eq(target.path, "/v1/jobs/caf\xC3\xA9 x");
    static const struct httpd_parameter expected[] = {
        {"key", "a b+c"}, {"limit", "10"}, {"flag", ""}, {"empty", ""}, {"eq", "a=b&"}};
    cr_assert_eq(target.query_count, 5);
    for (size_t i = 0; i < 5; i++) {
        cr_assert_str_eq(target.query[i].name, expected[i].name);
        cr_assert_str_eq(target.query[i].value, expected[i].value);
    }
    httpd_target_finish(&target);
    cr_assert_null(target.memory);
}

/* Goal: a plus sign is itself in a path. */
Test(httpd_target, keeps_plus_in_path)
{
    struct httpd_target target = {0};
    cr_assert_eq(httpd_target_parse("/a+b", &target, NULL), ERR_NONE);
    cr_assert_str_eq(target.path, "/a+b");
    httpd_target_finish(&target);
}

/* Goal: what could be read in two ways is refused, and the text says what it was. */
Test(httpd_target, refuses)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "must start with '/'"},
        {"*", "must start with '/'"},
        {"http://host/v1/jobs", "must start with '/'"},
        {"/a%", "path: '%' must be followed"},
        {"/a%2", "path: '%' must be followed"},
        {"/a%zz", "path: '%' must be followed"},
        {"/a%2", "path: '%' must be followed"},
        {"/a%00", "path: %00"},
        {"/a%2Fb", "path: %2F"},
        {"/a%2fb", "path: %2F"},
        {"/%ff", "path: is not UTF-8"},
        {"/%C0%AF", "path: is not UTF-8"},
        {"/a?limit=%", "limit: '%' must be followed"},
        {"/a?limit=%00", "limit: %00"},
        {"/a?limit=%ff", "limit: is not UTF-8"},
        {"/a?%zz=1", "query parameter's name: '%'"},
        {"/a?=1", "has no name"},
        {"/a?limit=1&limit=2", "'limit' is given twice"},
        {"/a?limit=1&l%69mit=2", "'limit' is given twice"},
        {"/a?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q", "more than 16 query parameters"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct httpd_target target = {0};
        struct err err = {0};
        cr_assert_eq(httpd_target_parse(cases[i].text, &target, &err), ERR_INVALID, "%s",
                     cases[i].text);
        cr_assert_not_null(strstr(err.text, cases[i].says), "%s: %s", cases[i].text, err.text);
        cr_assert_null(target.memory); /* untouched */
    }
}

/* Goal: the length is limited before memory is taken. */
Test(httpd_target, refuses_long)
{
    char *text = mem_calloc(HTTPD_TARGET_BYTES_MAX + 2, 1);
    memset(text, 'a', HTTPD_TARGET_BYTES_MAX + 1);
    text[0] = '/';
    struct httpd_target target = {0};
    cr_assert_eq(httpd_target_parse(text, &target, NULL), ERR_LIMIT);
    text[HTTPD_TARGET_BYTES_MAX] = '\0';
    cr_assert_eq(httpd_target_parse(text, &target, NULL), ERR_NONE);
    httpd_target_finish(&target);
    free(text);
}
