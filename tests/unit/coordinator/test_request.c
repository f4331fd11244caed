#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/request.h"

/* A target with one parameter, or none when `name` is NULL. */
static struct httpd_target one(const char *name, const char *value)
{
    struct httpd_target target = {.path = "/"};
    if (name != NULL) {
        target.query[0] = (struct httpd_parameter){name, value};
        target.query_count = 1;
    }
    return target;
}

static void expect_error(enum err_code code, const struct err *err, const char *says)
{
    cr_assert_eq(code, ERR_INVALID);
    cr_assert_not_null(strstr(err->text, says), "%s", err->text);
}

Test(request, refuses_unknown_parameters_by_name)
{
    static const struct route takes_two = {.query = {"limit", "cursor"}};
    static const struct route takes_none = {.query = {0}};
    struct err err = {0};
    struct httpd_target target = one("limit", "1");
    cr_assert_eq(request_check_query(&target, &takes_two, &err), ERR_NONE);
    target = one("Limit", "1");
    expect_error(request_check_query(&target, &takes_two, &err), &err,
                 "\"Limit\" is not a parameter of this path; it takes limit, cursor");
    target = one("x", "1");
    expect_error(request_check_query(&target, &takes_none, &err), &err, "it takes none");
    target = one(NULL, NULL);
    cr_assert_eq(request_check_query(&target, &takes_none, &err), ERR_NONE);
}

Test(request, reads_limits)
{
    static const struct {
        const char *text;
        uint32_t limit; /* 0: refused */
    } cases[] = {{NULL, 100}, {"1", 1},   {"1000", 1000}, {"1001", 0},
                 {"0", 0},    {"-1", 0},  {"01", 0},      {"", 0},
                 {"1e3", 0},  {"10 ", 0}, {"x", 0},       {"99999999999999999999", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct httpd_target target = one(cases[i].text == NULL ? NULL : "limit", cases[i].text);
        uint32_t limit = 0;
        struct err err = {0};
        enum err_code code = request_limit(&target, &limit, &err);
        if (cases[i].limit == 0)
            expect_error(code, &err, "limit must be a whole number from 1 to 1000");
        else
            cr_assert_eq(limit, cases[i].limit, "%s", cases[i].text);
    }
}

Test(request, reads_limit_or_last_but_not_both)
{
    struct httpd_target target = one("last", "7");
    uint32_t limit = 0;
    bool last = false;
    struct err err = {0};
    cr_assert_eq(request_limit_or_last(&target, &limit, &last, &err), ERR_NONE);
    cr_assert(last && limit == 7);
    target = one("limit", "8");
    cr_assert_eq(request_limit_or_last(&target, &limit, &last, &err), ERR_NONE);
    cr_assert(!last && limit == 8);
    target = one(NULL, NULL);
    cr_assert_eq(request_limit_or_last(&target, &limit, &last, &err), ERR_NONE);
    cr_assert(!last && limit == 100);
    target = one("last", "0");
    expect_error(request_limit_or_last(&target, &limit, &last, &err), &err,
                 "last must be a whole number from 1 to 1000");
    target.query[target.query_count++] = (struct httpd_parameter){"limit", "1"};
    expect_error(request_limit_or_last(&target, &limit, &last, &err), &err,
                 "limit and last exclude each other");
}

Test(request, reads_waits)
{
    static const struct {
        const char *text;
        int64_t wait_ms; /* -1: refused */
    } cases[] = {{NULL, 0},   {"0s", 0},  {"25s", 25000}, {"1m", 60000}, {"60s", 60000},
                 {"61s", -1}, {"2m", -1}, {"250ms", 250}, {"1h", -1},    {"10", -1},
                 {"", -1},    {"s", -1},  {"1.5s", -1},   {"-1s", -1},   {"25S", -1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct httpd_target target = one(cases[i].text == NULL ? NULL : "wait", cases[i].text);
        int64_t wait_ms = -2;
        struct err err = {0};
        enum err_code code = request_wait(&target, &wait_ms, &err);
        if (cases[i].wait_ms < 0)
            expect_error(code, &err, "wait must be a duration from 0s to 60s");
        else
            cr_assert_eq(wait_ms, cases[i].wait_ms, "%s", cases[i].text);
    }
}

Test(request, reads_numbers_and_versions)
{
    struct err err = {0};
    uint64_t number = 0;
    struct httpd_target target = one("after", "9223372036854775807");
    cr_assert_eq(request_number(&target, "after", 7, &number, &err), ERR_NONE);
    cr_assert_eq(number, INT64_MAX);
    target = one("after", "9223372036854775808");
    expect_error(request_number(&target, "after", 7, &number, &err), &err, "after must be");
    target = one(NULL, NULL);
    cr_assert_eq(request_number(&target, "after", 7, &number, &err), ERR_NONE);
    cr_assert_eq(number, 7);

    struct document_version version = {9, 9};
    target = one("after", "3.17");
    cr_assert_eq(request_version(&target, "after", &version, &err), ERR_NONE);
    cr_assert(version.start == 3 && version.decision == 17);
    target = one(NULL, NULL);
    cr_assert_eq(request_version(&target, "after", &version, &err), ERR_NONE);
    cr_assert(version.start == 0 && version.decision == 0);
    target = one("after", "3");
    expect_error(request_version(&target, "after", &version, &err), &err, "a version like 3.17");
}

Test(request, wants_an_incarnation)
{
    const char *incarnation = NULL;
    struct err err = {0};
    struct httpd_target target = one("incarnation", "5c4b8a3e-7d52-4f0e-9a51-0f6f4b3c2d1e");
    cr_assert_eq(request_incarnation(&target, &incarnation, &err), ERR_NONE);
    cr_assert_str_eq(incarnation, "5c4b8a3e-7d52-4f0e-9a51-0f6f4b3c2d1e");
    target = one("incarnation", "5C4B8A3E-7D52-4F0E-9A51-0F6F4B3C2D1E");
    expect_error(request_incarnation(&target, &incarnation, &err), &err, "in lower case");
    target = one(NULL, NULL);
    expect_error(request_incarnation(&target, &incarnation, &err), &err, "is required");
}

Test(request, reads_job_names)
{
    const char *job = "x";
    struct err err = {0};
    struct httpd_target target = one(NULL, NULL);
    cr_assert_eq(request_job(&target, &job, &err), ERR_NONE);
    cr_assert_null(job);
    target = one("job", "orders");
    cr_assert_eq(request_job(&target, &job, &err), ERR_NONE);
    cr_assert_str_eq(job, "orders");
    target = one("job", "Orders!");
    expect_error(request_job(&target, &job, &err), &err, "not \"Orders!\"");
}

static struct httpd_target key_target(const char *key, const char *encoding)
{
    struct httpd_target target = one("key", key);
    if (encoding != NULL)
        target.query[target.query_count++] = (struct httpd_parameter){"key_encoding", encoding};
    return target;
}

/* Goal: any bytes can be asked for, and only one text stands for them. */
Test(request, reads_keys)
{
    static const struct {
        const char *text, *encoding, *key;
        size_t bytes;
    } cases[] = {{"k1", NULL, "k1", 2},
                 {"", NULL, "", 0},
                 {"caf\xC3\xA9", "text", "caf\xC3\xA9", 5},
                 {"", "base64", "", 0},
                 {"aA==", "base64", "h", 1},
                 {"aGk=", "base64", "hi", 2},
                 {"aGkh", "base64", "hi!", 3},
                 {"AAH/+w==", "base64", "\x00\x01\xff\xfb", 4},
                 {"AAH/ w==", "base64", "\x00\x01\xff\xfb", 4}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct httpd_target target = key_target(cases[i].text, cases[i].encoding);
        char *key = NULL;
        size_t bytes = 99;
        cr_assert_eq(request_key(&target, &key, &bytes, NULL), ERR_NONE, "%s", cases[i].text);
        cr_assert_eq(bytes, cases[i].bytes, "%s", cases[i].text);
        cr_assert_eq(memcmp(key, cases[i].key, bytes), 0);
        free(key);
    }
}

Test(request, refuses_bad_keys)
{
    static const char *const bad[] = {"a",    "aa",   "aaa",      "aa=a", "====",   "a===",
                                      "aGl=", "aB==", "aGk=aGk=", "aG-_", "aGkh\n", "aGkhaGk"};
    char *key = NULL;
    size_t bytes = 0;
    struct err err = {0};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct httpd_target target = key_target(bad[i], "base64");
        expect_error(request_key(&target, &key, &bytes, &err), &err, "RFC 4648");
    }
    struct httpd_target target = key_target("k", "hex");
    expect_error(request_key(&target, &key, &bytes, &err), &err, "must be text or base64");
    target = one("key_encoding", "base64");
    expect_error(request_key(&target, &key, &bytes, &err), &err, "without key");
    target = one(NULL, NULL);
    cr_assert_eq(request_key(&target, &key, &bytes, &err), ERR_NONE);
    cr_assert_null(key);
}

/* Goal: only what can be told apart from everything else is taken for a condition. */
Test(request, reads_conditions)
{
    static const struct {
        const char *value;
        uint64_t generation; /* 7777: refused */
    } cases[] = {{NULL, 0},
                 {"*", UINT64_MAX},
                 {"\"1\"", 1},
                 {"\"17\"", 17},
                 {"17", 7777},
                 {"\"0\"", 7777},
                 {"\"01\"", 7777},
                 {"\"\"", 7777},
                 {"W/\"1\"", 7777},
                 {"\"x\"", 7777},
                 {"", 7777},
                 {"\"1\", \"2\"", 7777},
                 {"\"1\" ", 7777},
                 {"\"", 7777},
                 {"**", 7777},
                 {"\"-1\"", 7777},
                 {"\"9223372036854775808\"", 7777},
                 {"\"99999999999999999999999999\"", 7777}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t generation = 1;
        struct err err = {0};
        enum err_code code = request_if_match(cases[i].value, &generation, &err);
        if (cases[i].generation == 7777)
            expect_error(code, &err, "If-Match must be one ETag");
        else
            cr_assert_eq(generation, cases[i].generation, "%s", cases[i].value);
    }
    bool must_not_exist = true;
    struct err err = {0};
    cr_assert_eq(request_if_none_match(NULL, &must_not_exist, &err), ERR_NONE);
    cr_assert_not(must_not_exist);
    cr_assert_eq(request_if_none_match("*", &must_not_exist, &err), ERR_NONE);
    cr_assert(must_not_exist);
    expect_error(request_if_none_match("\"1\"", &must_not_exist, &err), &err, "must be *");
}

Test(request, knows_json)
{
    static const char *const good[] = {
        "application/json", "Application/JSON", "application/json; charset=utf-8",
        "application/json;charset=UTF-8", "application/json ; charset=\"utf-8\""};
    static const char *const bad[] = {"",
                                      "text/plain",
                                      "application/json2",
                                      "application/jsonp",
                                      "application/x-www-form-urlencoded",
                                      "application/json; charset=latin1",
                                      "application/json;",
                                      "application/json, text/plain",
                                      "json"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_assert(request_is_json(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(request_is_json(bad[i]), "%s", bad[i]);
    cr_assert_not(request_is_json(NULL));
}
