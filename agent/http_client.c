#include "agent/http_client.h"

#include <assert.h>
#include <curl/curl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/strbuf.h"

#define RETRY_AFTER_MS_MAX (60 * 60 * 1000)

struct http_client {
    CURL *easy;
    CURLM *multi; /* only because curl_multi_poll can be woken by another thread */
    struct curl_slist *headers;
    struct curl_slist *bearer; /* of the request under way; NULL: none */
    char detail[CURL_ERROR_SIZE];
    atomic_bool interrupted;

    /* Of the request under way. */
    struct strbuf body;
    size_t body_bytes_max;
    bool too_large;
    int64_t retry_after_ms;
};

enum err_code http_client_global_init(struct err *reterr)
{
    CURLcode rc = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (rc != CURLE_OK)
        return err_set(reterr, ERR_INTERNAL, "libcurl does not start: %s", curl_easy_strerror(rc));
    return ERR_NONE;
}

void http_client_global_finish(void)
{
    curl_global_cleanup();
}

/* Options of the library that we link with fail only by our own mistake or without memory. */
static void check_easy(CURLcode rc)
{
    assert(rc == CURLE_OK);
}

static void check_multi(CURLMcode rc)
{
    assert(rc == CURLM_OK);
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct http_client *client = arg;
    size_t bytes = size * count;
    if (bytes > client->body_bytes_max - client->body.bytes) {
        client->too_large = true;
        return CURL_WRITEFUNC_ERROR;
    }
    strbuf_add(&client->body, data, bytes);
    return bytes;
}

/* The value in seconds, -1 when it is no number (the form with a date is not used between us). */
static int64_t parse_retry_after_ms(const char *text, size_t bytes)
{
    int64_t value_ms = 0;
    size_t digits = 0;
    while (bytes > 0 && (*text == ' ' || *text == '\t'))
        text++, bytes--;
    for (; digits < bytes && text[digits] >= '0' && text[digits] <= '9'; digits++) {
        value_ms = value_ms * 10 + (text[digits] - '0') * 1000;
        if (value_ms > RETRY_AFTER_MS_MAX)
            value_ms = RETRY_AFTER_MS_MAX;
    }
    return digits == 0 ? -1 : value_ms;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    static const char name[] = "retry-after:";
    struct http_client *client = arg;
    size_t bytes = size * count, name_bytes = sizeof(name) - 1;
    if (bytes > name_bytes && strncasecmp(data, name, name_bytes) == 0)
        client->retry_after_ms = parse_retry_after_ms(data + name_bytes, bytes - name_bytes);
    return bytes;
}

struct http_client *http_client_create(const char *user_agent)
{
    struct http_client *client = mem_calloc(1, sizeof(*client));
    atomic_init(&client->interrupted, false);
    client->easy = curl_easy_init();
    client->multi = curl_multi_init();
    assert(client->easy != NULL);
    assert(client->multi != NULL);

    client->headers = curl_slist_append(NULL, "Content-Type: application/json");
    assert(client->headers != NULL);
    /* Without this libcurl holds a larger body back until the server says "continue". */
    struct curl_slist *headers = curl_slist_append(client->headers, "Expect:");
    assert(headers != NULL);

    CURL *easy = client->easy;
    check_easy(curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L));
    /* An interrupt must not wait for a name server that does not answer. */
    check_easy(curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L));
    check_easy(curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https"));
    check_easy(curl_easy_setopt(easy, CURLOPT_PROXY, ""));
    check_easy(curl_easy_setopt(easy, CURLOPT_USERAGENT, user_agent));
    check_easy(curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L));
    check_easy(curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1));
    check_easy(curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->detail));
    check_easy(curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body));
    check_easy(curl_easy_setopt(easy, CURLOPT_WRITEDATA, client));
    check_easy(curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header));
    check_easy(curl_easy_setopt(easy, CURLOPT_HEADERDATA, client));
    return client;
}

void http_client_destroy(struct http_client *client)
{
    if (client == NULL)
        return;
    curl_easy_cleanup(client->easy);
    check_multi(curl_multi_cleanup(client->multi));
    curl_slist_free_all(client->headers);
    curl_slist_free_all(client->bearer);
    strbuf_finish(&client->body);
    free(client);
}

void http_client_interrupt(struct http_client *client)
{
    atomic_store(&client->interrupted, true);
    check_multi(curl_multi_wakeup(client->multi));
}

void http_client_resume(struct http_client *client)
{
    atomic_store(&client->interrupted, false);
}

static void set_bearer(struct http_client *client, const char *token)
{
    char *header;

    curl_slist_free_all(client->bearer);
    client->bearer = NULL;
    if (token == NULL)
        return;
    header = mem_printf("Authorization: Bearer %s", token);
    client->bearer = curl_slist_append(NULL, header);
    assert(client->bearer != NULL);
    free(header);
}

static void prepare(struct http_client *client, const struct http_request *request)
{
    CURL *easy = client->easy;
    assert(request->bearer == NULL || request->body == NULL);
    set_bearer(client, request->bearer);
    strbuf_clear(&client->body);
    client->body_bytes_max = request->answer_bytes_max;
    client->too_large = false;
    client->retry_after_ms = -1;
    client->detail[0] = '\0';

    check_easy(curl_easy_setopt(easy, CURLOPT_URL, request->url));
    if (request->body != NULL) {
        curl_off_t bytes = (curl_off_t)request->body_bytes;
        check_easy(curl_easy_setopt(easy, CURLOPT_POST, 1L));
        check_easy(curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body));
        check_easy(curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, bytes));
        check_easy(curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers));
    } else {
        check_easy(curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L));
        check_easy(curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->bearer));
    }
    check_easy(curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method));
    check_easy(curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)request->connect_ms));
    check_easy(curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->total_ms));
}

static enum err_code interrupted(struct err *reterr)
{
    return err_set(reterr, ERR_CONFLICT, "interrupted");
}

/* Until the transfer has ended or was interrupted; *ret_result is the transfer's own result. */
static enum err_code drive(struct http_client *client, CURLcode *ret_result, struct err *reterr)
{
    int running = 1;
    while (running > 0) {
        if (atomic_load(&client->interrupted))
            return interrupted(reterr);
        CURLMcode rc = curl_multi_perform(client->multi, &running);
        if (rc == CURLM_OK && running > 0)
            rc = curl_multi_poll(client->multi, NULL, 0, 1000, NULL);
        if (rc != CURLM_OK)
            return err_set(reterr, ERR_UNAVAILABLE, "libcurl: %s", curl_multi_strerror(rc));
    }
    int left;
    CURLMsg *message = curl_multi_info_read(client->multi, &left);
    assert(message != NULL);
    assert(message->msg == CURLMSG_DONE);
    *ret_result = message->data.result;
    return ERR_NONE;
}

static enum err_code judge(const struct http_client *client, CURLcode result, struct err *reterr)
{
    const char *detail = client->detail[0] != '\0' ? client->detail : curl_easy_strerror(result);
    if (client->too_large)
        return err_set(reterr, ERR_LIMIT, "the answer has more than %zu bytes",
                       client->body_bytes_max);
    switch (result) {
    case CURLE_OK:
        return ERR_NONE;
    case CURLE_OPERATION_TIMEDOUT:
        return err_set(reterr, ERR_TIMEOUT, "%s", detail);
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
        return err_set(reterr, ERR_PROTOCOL, "%s", detail);
    default:
        return err_set(reterr, ERR_UNAVAILABLE, "%s", detail);
    }
}

enum err_code http_client_request(struct http_client *client, const struct http_request *request,
                                  struct http_answer *ret_answer, struct err *reterr)
{
    assert(request->connect_ms >= 1);
    assert(request->total_ms >= request->connect_ms);
    if (atomic_load(&client->interrupted))
        return interrupted(reterr);

    prepare(client, request);
    check_multi(curl_multi_add_handle(client->multi, client->easy));
    CURLcode result = CURLE_OK;
    enum err_code code = drive(client, &result, reterr);
    check_multi(curl_multi_remove_handle(client->multi, client->easy));
    if (code == ERR_NONE)
        code = judge(client, result, reterr);
    if (code != ERR_NONE)
        return code;

    long status = 0;
    check_easy(curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status));
    ret_answer->status = (uint32_t)status;
    ret_answer->retry_after_ms = client->retry_after_ms;
    ret_answer->body_bytes = client->body.bytes;
    ret_answer->body = client->body.bytes > 0 ? strbuf_take(&client->body) : mem_strdup("");
    return ERR_NONE;
}

void http_answer_finish(struct http_answer *answer)
{
    free(answer->body);
    *answer = (struct http_answer){0};
}

/* ---- addresses */

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool there = curl_url_get(url, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return there;
}

static enum err_code check_parts(CURLU *url, struct err *reterr)
{
    char *scheme = NULL;
    CURLUcode rc = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0);
    bool known = rc == CURLUE_OK && (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    if (!known)
        return err_set(reterr, ERR_INVALID, "it must begin with http:// or https://");
    if (has_part(url, CURLUPART_QUERY) || has_part(url, CURLUPART_FRAGMENT))
        return err_set(reterr, ERR_INVALID, "it must have no query and no fragment");
    if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
        return err_set(reterr, ERR_INVALID, "it must have no user and no password");
    return ERR_NONE;
}

enum err_code http_client_check_url(const char *url, char **ret_base, struct err *reterr)
{
    CURLU *parsed = curl_url();
    assert(parsed != NULL);
    char *text = NULL;
    enum err_code code = ERR_NONE;

    CURLUcode rc = curl_url_set(parsed, CURLUPART_URL, url, 0);
    if (rc != CURLUE_OK)
        code = err_set(reterr, ERR_INVALID, "not an address such as http://host:7420 (%s)",
                       curl_url_strerror(rc));
    if (code == ERR_NONE)
        code = check_parts(parsed, reterr);
    if (code == ERR_NONE) {
        rc = curl_url_get(parsed, CURLUPART_URL, &text, 0);
        assert(rc == CURLUE_OK);
        *ret_base = mem_strdup(text);
        for (size_t bytes = strlen(*ret_base); bytes > 0 && (*ret_base)[bytes - 1] == '/'; bytes--)
            (*ret_base)[bytes - 1] = '\0';
    }
    curl_free(text);
    curl_url_cleanup(parsed);
    return code;
}
