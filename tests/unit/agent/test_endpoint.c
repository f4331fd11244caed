#include "agent/endpoint.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/http_client.h"
#include "api/codec.h"
#include "common/clock.h"
#include "common/mem.h"

static struct endpoint *endpoint;
static struct http_client *client;

static void setup(void)
{
    struct err err;
    cr_assert_eq(http_client_global_init(NULL), ERR_NONE);
    client = http_client_create("test");
    cr_assert_eq(endpoint_start("127.0.0.1:0", NULL, &endpoint, &err), ERR_NONE, "%s", err.text);
}

static void teardown(void)
{
    http_client_destroy(client);
    endpoint_destroy(endpoint);
    http_client_global_finish();
}

TestSuite(endpoint, .init = setup, .fini = teardown, .timeout = 60);

static struct http_answer ask(const char *method, const char *path)
{
    struct http_answer answer = {0};
    struct err err;
    char *url = mem_printf("http://%s%s", endpoint_address(endpoint), path);
    struct http_request request = {.method = method,
                                   .url = url,
                                   .connect_ms = 3000,
                                   .total_ms = 10000,
                                   .answer_bytes_max = 1 << 20};
    cr_assert_eq(http_client_request(client, &request, &answer, &err), ERR_NONE, "%s", err.text);
    free(url);
    return answer;
}

static void expect(const char *method, const char *path, unsigned status, const char *words)
{
    struct http_answer answer = ask(method, path);
    cr_assert_eq(answer.status, status, "%s %s: %u", method, path, answer.status);
    cr_assert_not_null(strstr(answer.body, words), "%s", answer.body);
    http_answer_finish(&answer);
}

static void publish(bool ready)
{
    struct metrics_view *view = mem_calloc(1, sizeof(*view));
    *view = (struct metrics_view){.ready = ready, .reason = "no document yet", .capacity = 5};
    endpoint_publish(endpoint, view);
}

Test(endpoint, is_ready_when_the_view_says_so)
{
    expect("GET", "/readyz", 503, "the agent is starting");
    publish(false);
    expect("GET", "/readyz", 503, "no document yet");
    publish(true);
    expect("GET", "/readyz", 200, "ok\n");
    publish(false);
    expect("GET", "/readyz", 503, "no document yet");
}

Test(endpoint, is_healthy_while_the_control_thread_is_alive)
{
    expect("GET", "/healthz", 200, "ok\n");
    endpoint_beat(endpoint, clock_mono_ms() - ENDPOINT_BEAT_MS_MAX - 100);
    expect("GET", "/healthz", 503, "no sign of life");
    endpoint_beat(endpoint, clock_mono_ms());
    expect("GET", "/healthz", 200, "ok\n");
}

Test(endpoint, shows_the_metrics_of_the_view)
{
    publish(true);
    expect("GET", "/metrics", 200, "\nbaton_agent_capacity 5\n");
}

Test(endpoint, says_its_version)
{
    struct version_view version;
    struct codec_faults faults = {0};
    struct http_answer answer = ask("GET", "/version");
    cr_assert_eq(
        codec_decode(&schema_version_view, answer.body, answer.body_bytes, &version, &faults, NULL),
        ERR_NONE);
    cr_assert_str_eq(version.component, "baton-agent");
    cr_assert_str_eq(version.version, BATON_VERSION);
    cr_assert_null(version.sqlite);
    schema_free(&schema_version_view, &version);
    http_answer_finish(&answer);
}

Test(endpoint, refuses_what_it_does_not_know)
{
    expect("GET", "/v1/jobs", 404, "not_found");
    expect("GET", "/openapi.json", 404, "not_found");
    expect("DELETE", "/metrics", 405, "GET, HEAD");
    expect("GET", "/metrics?x=1", 400, "invalid_query");
    expect("GET", "/%zz", 400, "malformed_target");
}

Test(endpoint, a_wrong_address_is_an_error)
{
    struct endpoint *other;
    struct err err;
    cr_assert_eq(endpoint_start("nonsense", NULL, &other, &err), ERR_INVALID);
    cr_assert_eq(endpoint_start(endpoint_address(endpoint), NULL, &other, &err), ERR_IO);
    cr_assert_gt(strlen(err.text), 0);
}
