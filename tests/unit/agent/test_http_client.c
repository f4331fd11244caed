#include "agent/http_client.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tests/unit/agent/fake_coordinator.h"

static struct fake_coordinator *fake;
static struct http_client *client;

static void setup(void)
{
    cr_assert_eq(http_client_global_init(NULL), ERR_NONE);
    fake = fake_create();
    client = http_client_create("test");
}

static void teardown(void)
{
    http_client_destroy(client);
    fake_destroy(fake);
    http_client_global_finish();
}

TestSuite(http_client, .init = setup, .fini = teardown, .timeout = 60);

static enum err_code get(size_t bytes_max, struct http_answer *ret_answer, struct err *reterr)
{
    struct http_request request = {.method = "GET",
                                   .url = fake_url(fake),
                                   .connect_ms = 20000,
                                   .total_ms = 20000,
                                   .answer_bytes_max = bytes_max};
    return http_client_request(client, &request, ret_answer, reterr);
}

Test(http_client, an_answer_may_be_as_large_as_said_and_no_larger)
{
    struct http_answer answer = {0};
    struct err err;
    fake_script(fake, FAKE_OTHER, (struct fake_answer){.status = 200, .body = "12345"});
    fake_listen(fake);

    cr_assert_eq(get(5, &answer, &err), ERR_NONE);
    cr_assert_eq(answer.status, 200);
    cr_assert_str_eq(answer.body, "12345");
    cr_assert_eq(answer.body_bytes, 5);
    http_answer_finish(&answer);
    cr_assert_eq(get(4, &answer, &err), ERR_LIMIT);
    cr_assert_str_eq(err.text, "the answer has more than 4 bytes");
    /* The client is as good as new. */
    cr_assert_eq(get(5, &answer, &err), ERR_NONE);
    http_answer_finish(&answer);
}

Test(http_client, an_endless_answer_is_cut_off)
{
    struct http_answer answer = {0};
    struct err err;
    fake_script(fake, FAKE_OTHER,
                (struct fake_answer){.status = 200, .body = "x", .padding_bytes = 4000000});
    fake_listen(fake);
    cr_assert_eq(get(1000, &answer, &err), ERR_LIMIT);
}

Test(http_client, any_status_is_an_answer)
{
    struct http_answer answer = {0};
    struct err err;
    fake_script(fake, FAKE_OTHER, (struct fake_answer){.status = 503, .header = "Retry-After: 7"});
    fake_script(fake, FAKE_OTHER,
                (struct fake_answer){.status = 204, .header = "Retry-After: soon"});
    fake_script(
        fake, FAKE_OTHER,
        (struct fake_answer){.status = 200, .header = "Retry-After: 99999999999999999999999999"});
    fake_listen(fake);

    cr_assert_eq(get(10, &answer, &err), ERR_NONE);
    cr_assert_eq(answer.status, 503);
    cr_assert_eq(answer.retry_after_ms, 7000);
    cr_assert_str_eq(answer.body, "");
    http_answer_finish(&answer);
    cr_assert_eq(get(10, &answer, &err), ERR_NONE);
    cr_assert_eq(answer.retry_after_ms, -1);
    http_answer_finish(&answer);
    cr_assert_eq(get(10, &answer, &err), ERR_NONE);
    cr_assert_eq(answer.retry_after_ms, 3600000); /* cut at an hour */
    http_answer_finish(&answer);
}

Test(http_client, nobody_there)
{
    struct http_answer answer = {0};
    struct err err;
    cr_assert_eq(get(10, &answer, &err), ERR_UNAVAILABLE);
    cr_assert_gt(strlen(err.text), 0);
}

static void *interrupt_main(void *arg)
{
    (void)arg;
    cr_assert(fake_wait(fake, FAKE_OTHER, 1));
    http_client_interrupt(client);
    return NULL;
}

Test(http_client, another_thread_interrupts_it)
{
    struct http_answer answer = {0};
    struct err err;
    pthread_t thread;
    fake_script(fake, FAKE_OTHER, (struct fake_answer){.status = 204, .hold = true});
    fake_script(fake, FAKE_OTHER, (struct fake_answer){.status = 204});
    fake_listen(fake);

    int64_t started_ms = clock_mono_ms();
    cr_assert_eq(pthread_create(&thread, NULL, interrupt_main, NULL), 0);
    cr_assert_eq(get(10, &answer, &err), ERR_CONFLICT);
    pthread_join(thread, NULL);
    cr_assert_lt(clock_mono_ms() - started_ms, 10000);

    cr_assert_eq(get(10, &answer, &err), ERR_CONFLICT);
    cr_assert_eq(fake_count(fake, FAKE_OTHER), 1);
    http_client_resume(client);
    cr_assert_eq(get(10, &answer, &err), ERR_NONE);
    http_answer_finish(&answer);
}

Test(http_client, a_proxy_of_the_environment_is_not_asked)
{
    struct http_answer answer = {0};
    struct err err;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    fake_script(fake, FAKE_OTHER, (struct fake_answer){.status = 204});
    fake_listen(fake);
    cr_assert_eq(get(10, &answer, &err), ERR_NONE);
    http_answer_finish(&answer);
}

Test(http_client, checks_addresses)
{
    static const struct {
        const char *url;
        const char *base; /* NULL: refused */
    } table[] = {
        {"http://127.0.0.1:7420", "http://127.0.0.1:7420"},
        {"http://127.0.0.1:7420/", "http://127.0.0.1:7420"},
        {"https://host.example/baton//", "https://host.example/baton"},
        {"http://[::1]:7420", "http://[::1]:7420"},
        {"", NULL},
        {"127.0.0.1:7420", NULL},
        {"localhost:7420", NULL},
        {"ftp://host/", NULL},
        {"file:///etc/passwd", NULL},
        {"http://", NULL},
        {"http://host:99999", NULL},
        {"http://host:port", NULL},
        {"http://ho st/", NULL},
        {"http://user:secret@host/", NULL},
        {"http://host/?x=1", NULL},
        {"http://host/#x", NULL},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char *base = NULL;
        struct err err;
        enum err_code code = http_client_check_url(table[i].url, &base, &err);
        if (table[i].base == NULL) {
            cr_assert_eq(code, ERR_INVALID, "%s", table[i].url);
            cr_assert_null(base);
            continue;
        }
        cr_assert_eq(code, ERR_NONE, "%s: %s", table[i].url, err.text);
        cr_assert_str_eq(base, table[i].base);
        free(base);
    }
}
