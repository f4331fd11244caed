#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/listener.h"

/* Goal: port 0 gives a real port, and the text says which; loopback is told from the rest. */
Test(listener, binds)
{
    static const struct {
        const char *address, *starts;
        bool loopback;
    } cases[] = {
        {"127.0.0.1:0", "127.0.0.1:", true},
        {"127.8.8.8:0", "127.8.8.8:", true},
        {"localhost:0", "", true},
        {"0.0.0.0:0", "0.0.0.0:", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct listener listener = {.fd = -1};
        struct err err = {0};
        cr_assert_eq(listener_open(cases[i].address, &listener, &err), ERR_NONE, "%s", err.text);
        cr_assert_geq(listener.fd, 0);
        cr_assert_eq(strncmp(listener.address, cases[i].starts, strlen(cases[i].starts)), 0);
        cr_assert_str_neq(strrchr(listener.address, ':'), ":0");
        cr_assert_eq(listener.loopback, cases[i].loopback);
        close(listener.fd);
    }
}

Test(listener, refuses_bad_form)
{
    static const char *const cases[] = {
        "",       "7420",      ":7420",        "localhost",     "localhost:", "localhost:x",
        "[]:1",   "::1:7420",  "1.2.3.4:-1",   "1.2.3.4:65536", "1.2.3.4:1 ", "1.2.3.4:999999",
        "[::1]7", "host:12:3", "http://host:1"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct listener listener = {.fd = -1};
        struct err err = {0};
        cr_assert_eq(listener_open(cases[i], &listener, &err), ERR_INVALID, "%s", cases[i]);
        cr_assert_not_null(strstr(err.text, "host:port"));
        cr_assert_eq(listener.fd, -1);
    }
}

/* Goal: an address that is in use or not ours is named together with the reason. */
Test(listener, says_why_it_can_not_bind)
{
    struct listener first = {.fd = -1};
    struct listener second = {.fd = -1};
    struct err err = {0};
    cr_assert_eq(listener_open("127.0.0.1:0", &first, &err), ERR_NONE);

    cr_assert_eq(listener_open(first.address, &second, &err), ERR_IO);
    cr_assert_not_null(strstr(err.text, first.address));
    cr_assert_not_null(strstr(err.text, "in use"));
    cr_assert_eq(err.detail, EADDRINUSE);

    cr_assert_eq(listener_open("192.0.2.1:0", &second, &err), ERR_IO);
    cr_assert_not_null(strstr(err.text, "192.0.2.1:0"));
    cr_assert_eq(second.fd, -1);
    close(first.fd);
}
