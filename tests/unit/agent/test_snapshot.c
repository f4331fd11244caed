/* Both ends of a snapshot, over HTTP. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/endpoint.h"
#include "agent/http_client.h"
#include "agent/snapshot_fetch.h"
#include "agent/snapshot_page.h"
#include "agent/snapshot_serve.h"
#include "agent/store_seed.h"
#include "agent/store_view.h"
#include "common/clock.h"
#include "common/mem.h"
#include "store_fixture.h"

#define INCARNATION "5b0c1c0e-7e5c-4e0b-9f0e-3f1f3a1a0c11"
#define TOKEN       "0123456789abcdef"

static struct store_fixture giver, taker;
static struct model model;
static struct snapshot_serve *serve;
static struct endpoint *endpoint;
static char *address;
static const struct snapshot_key key = {"orders", INCARNATION, 3};
static int woken = -1;

static void setup(void)
{
    const struct snapshot_limits limits = {.transfers_max = 2};

    cr_assert_eq(http_client_global_init(NULL), ERR_NONE);
    fixture_init(&giver);
    fixture_init(&taker);
    giver.identity.job_incarnation = taker.identity.job_incarnation = INCARNATION;
    fixture_open(&giver, STORE_FRESH);
    fixture_open(&taker, STORE_FRESH);
    model = (struct model){0};
    for (int i = 0; i < MODEL_ROWS; i++)
        model_put(&model, giver.store, i, (uint32_t)i, 1000 + i);
    fixture_checkpoint(&giver, 42);
    serve = snapshot_serve_create(&limits);
    cr_assert_eq(endpoint_start("127.0.0.1:0", serve, &endpoint, NULL), ERR_NONE);
    address = mem_printf("http://%s", endpoint_address(endpoint));
    woken = eventfd(0, EFD_CLOEXEC);
}

static void teardown(void)
{
    endpoint_destroy(endpoint);
    snapshot_serve_destroy(serve);
    fixture_finish(&giver);
    fixture_finish(&taker);
    free(address);
    (void)close(woken);
    http_client_global_finish();
}

TestSuite(snapshot, .init = setup, .fini = teardown, .timeout = 120);

static void offer(void)
{
    snapshot_serve_offer(serve, &key, store_share_acquire(giver.store));
}

static void permit(const char *token)
{
    snapshot_serve_permit(serve, &key, &token, token == NULL ? 0 : 1);
}

static enum err_code ask(uint64_t session, uint64_t number, int64_t now_ms, struct strbuf *buf)
{
    const struct snapshot_request request = {key, TOKEN, session, number};

    return snapshot_serve_page(serve, &request, now_ms, buf, NULL);
}

/* Begins a transfer; its session. */
static uint64_t begin(int64_t now_ms)
{
    struct strbuf buf = {0};
    struct snapshot_page page;
    uint64_t chain = 0;

    cr_assert_eq(ask(0, 0, now_ms, &buf), ERR_NONE);
    cr_assert_eq(snapshot_page_read(buf.data, buf.bytes, &chain, &page, NULL), ERR_NONE);
    strbuf_finish(&buf);
    return page.session;
}

static struct snapshot_serve_counts counts(void)
{
    struct snapshot_serve_counts counts;

    snapshot_serve_count(serve, &counts);
    return counts;
}

/* ---- the sender */

Test(snapshot, opens_with_its_token_only)
{
    struct strbuf buf = {0};

    offer();
    cr_assert_eq(ask(0, 0, 0, &buf), ERR_FENCED);
    permit("0123456789abcdeX");
    cr_assert_eq(ask(0, 0, 0, &buf), ERR_FENCED);
    permit("0123456789abcde");
    cr_assert_eq(ask(0, 0, 0, &buf), ERR_FENCED);
    permit("");
    cr_assert_eq(ask(0, 0, 0, &buf), ERR_FENCED);
    permit(TOKEN);
    cr_assert_eq(ask(0, 0, 0, &buf), ERR_NONE);
    permit(NULL);
    cr_assert_eq(ask(0, 0, 0, &buf), ERR_FENCED);
    cr_assert_eq(counts().transfers, 0, "a right that was withdrawn ends the transfer");
    cr_assert_eq(counts().refused, 5);
    strbuf_finish(&buf);
}

Test(snapshot, permitted_before_it_is_offered_is_not_there_yet)
{
    struct strbuf buf = {0};

    permit(TOKEN);
    cr_assert_eq(ask(0, 0, 0, &buf), ERR_NOT_FOUND);
    offer();
    cr_assert_eq(ask(0, 0, 0, &buf), ERR_NONE);
    snapshot_serve_withdraw(serve, &key);
    cr_assert_eq(ask(0, 0, 0, &buf), ERR_NOT_FOUND);
    cr_assert_eq(counts().transfers, 0);
    strbuf_finish(&buf);
}

Test(snapshot, gives_a_page_again_and_none_out_of_turn)
{
    struct strbuf first = {0}, again = {0};
    uint64_t session, last = 1;

    offer();
    permit(TOKEN);
    session = begin(0);
    cr_assert_eq(ask(session, 2, 0, &first), ERR_STALE);
    cr_assert_eq(ask(session, 1, 0, &first), ERR_NONE);
    cr_assert_eq(ask(session, 1, 0, &again), ERR_NONE);
    cr_assert_eq(first.bytes, again.bytes);
    cr_assert_arr_eq(first.data, again.data, first.bytes);
    cr_assert_eq(ask(session, 0, 0, &again), ERR_STALE);
    cr_assert_eq(ask(session + 1, 2, 0, &again), ERR_STALE);
    while (counts().completed == 0)
        cr_assert_eq(ask(session, ++last, 0, &again), ERR_NONE);
    cr_assert_eq(counts().transfers, 0);
    cr_assert_eq(ask(session, last, 0, &again), ERR_NONE);
    cr_assert_eq(ask(session, last + 1, 0, &again), ERR_STALE);
    cr_assert_eq(counts().completed, 1);
    cr_assert_eq(counts().rows, MODEL_ROWS);
    strbuf_finish(&first);
    strbuf_finish(&again);
}

Test(snapshot, transfers_are_bounded_in_number_and_in_time)
{
    const char *tokens[] = {TOKEN, "other-token-0001", "third-token-0001"};
    struct strbuf buf = {0};
    uint64_t session;

    offer();
    snapshot_serve_permit(serve, &key, tokens, 3);
    session = begin(0);
    for (size_t i = 1; i < 3; i++) {
        const struct snapshot_request request = {key, tokens[i], 0, 0};

        cr_assert_eq(snapshot_serve_page(serve, &request, 0, &buf, NULL),
                     i == 1 ? ERR_NONE : ERR_LIMIT);
    }
    cr_assert_eq(ask(session, 1, SNAPSHOT_IDLE_MS - 1, &buf), ERR_NONE);
    snapshot_serve_expire(serve, SNAPSHOT_IDLE_MS);
    cr_assert_eq(counts().transfers, 1, "only the one that was not asked for anything has ended");
    cr_assert_eq(begin(SNAPSHOT_IDLE_MS) == session, false);
    cr_assert_eq(counts().transfers, 1, "who begins anew has one transfer still");
    snapshot_serve_expire(serve, 3 * (int64_t)SNAPSHOT_AGE_MS);
    cr_assert_eq(counts().transfers, 0);
    cr_assert_eq(ask(session, 2, 0, &buf), ERR_STALE);
    strbuf_finish(&buf);
}

Test(snapshot, a_rate_is_kept_by_pauses)
{
    const struct snapshot_limits limits = {.transfers_max = 1, .bytes_per_s_max = 1000};
    struct snapshot_serve *slow = snapshot_serve_create(&limits);
    const char *token = TOKEN;
    struct snapshot_request request = {key, TOKEN, 0, 0};
    struct strbuf buf = {0};
    struct snapshot_page page;
    uint64_t chain = 0;
    size_t head_bytes;

    snapshot_serve_offer(slow, &key, store_share_acquire(giver.store));
    snapshot_serve_permit(slow, &key, &token, 1);
    cr_assert_eq(snapshot_serve_page(slow, &request, 100, &buf, NULL), ERR_NONE);
    cr_assert_eq(snapshot_page_read(buf.data, buf.bytes, &chain, &page, NULL), ERR_NONE);
    head_bytes = buf.bytes;
    request.session = page.session;
    request.number = 1;
    cr_assert_eq(snapshot_serve_page(slow, &request, 100, &buf, NULL), ERR_NONE);
    cr_assert_eq(snapshot_page_read(buf.data, buf.bytes, &chain, &page, NULL), ERR_NONE);
    cr_assert_eq(page.pause_ms, head_bytes, "a byte a millisecond");
    snapshot_serve_destroy(slow);
    strbuf_finish(&buf);
}

/* ---- the receiver */

static void wake(void *arg)
{
    const uint64_t one = 1;

    (void)arg;
    cr_assert_eq(write(woken, &one, sizeof(one)), sizeof(one));
}

static struct snapshot_fetch *start(const struct snapshot_source *sources, size_t count,
                                    const char *token)
{
    const struct snapshot_fetch_config config = {.sources = sources,
                                                 .source_count = count,
                                                 .token = token,
                                                 .store = taker.config,
                                                 .identity = taker.identity,
                                                 .wake = wake};
    struct snapshot_fetch *fetch;

    cr_assert_eq(snapshot_fetch_start(&config, &fetch, NULL), ERR_NONE);
    return fetch;
}

static void expect_end(struct snapshot_fetch *fetch, enum snapshot_fetch_state wanted,
                       const char *words)
{
    struct pollfd fd = {.fd = woken, .events = POLLIN};
    struct snapshot_progress progress;
    struct err err = {0};
    uint64_t count;

    cr_assert_eq(poll(&fd, 1, 60000), 1);
    cr_assert_eq(read(woken, &count, sizeof(count)), sizeof(count));
    cr_assert_eq(snapshot_fetch_state(fetch, &progress, &err), wanted, "%s", err.text);
    cr_assert(words == NULL || strstr(err.text, words) != NULL, "%s", err.text);
    if (wanted == SNAPSHOT_FETCH_DONE) {
        cr_assert_eq(progress.rows, progress.rows_total);
        cr_assert_gt(progress.bytes, 0);
        cr_assert_str_eq(progress.source, "giver");
    }
}

Test(snapshot, comes_over_whole)
{
    const struct snapshot_source sources[] = {{"gone", "http://127.0.0.1:1", false},
                                              {"giver", address, false}};
    struct snapshot_fetch *fetch;

    offer();
    permit(TOKEN);
    fetch = start(sources, 2, TOKEN); /* the first one is not there */
    expect_end(fetch, SNAPSHOT_FETCH_DONE, NULL);
    snapshot_fetch_destroy(fetch);
    fixture_close(&taker);
    cr_assert_eq(store_seed_install(taker.directory, NULL), ERR_NONE);
    fixture_open(&taker, STORE_KEPT);
    model_assert_equal(&model, taker.store, INT64_MIN);
    cr_assert_eq(fixture_offset(&taker), 42);
}

/* Of 4 processors 3 has partition 7 of 8, which becomes the first of processor 7. */
static const struct store_owners split_owners = {
    .map = {.partitions = {.initial = 8, .now = 8}, .processors = {.initial = 4, .now = 8}}};

static void offer_part(const struct store_position *positions, size_t count)
{
    const struct store_part part = {.owners = split_owners, .processor = 7};
    const char *token = TOKEN;
    struct err err = {0};

    for (uint32_t i = 0; i < 5000; i++) {
        char name[16];
        struct store_row row = {.root = i % 2 == 0 ? 3 : 7, .key = name};

        row.key_bytes = (size_t)snprintf(name, sizeof(name), "key-%u", i);
        store_put(giver.store, row, 1, &i, sizeof(i));
    }
    cr_assert(store_freeze(giver.store, positions, count));
    cr_assert_eq(store_flush_wait(giver.store, INT64_MAX, &err), ERR_NONE, "%s", err.text);
    offer();
    snapshot_serve_permit_part(serve, &key, &part, &token, 1);
}

static struct snapshot_fetch *start_part(void)
{
    static const struct store_position needed = {.partition = 7, .next_offset = INT64_MAX};
    const struct snapshot_source source = {"giver", address, true};
    struct snapshot_fetch_config config = {.sources = &source,
                                           .source_count = 1,
                                           .token = TOKEN,
                                           .parent = 3,
                                           .owners = split_owners,
                                           .needed = &needed,
                                           .needed_count = 1,
                                           .store = taker.config,
                                           .wake = wake};
    struct snapshot_fetch *fetch;
    struct pollfd fd = {.fd = woken, .events = POLLIN};

    fixture_close(&taker);
    taker.identity.processor = 7;
    fixture_open(&taker, STORE_SET_ASIDE); /* it was another processor's */
    config.identity = taker.identity;
    cr_assert_eq(snapshot_fetch_start(&config, &fetch, NULL), ERR_NONE);
    cr_assert_eq(poll(&fd, 1, 60000), 1);
    return fetch;
}

Test(snapshot, a_part_is_of_the_child_alone)
{
    const struct store_position positions[] = {
        {.partition = 3, .root = 3, .next_offset = 33, .record_time_ms = -1},
        {.partition = 7, .root = 7, .next_offset = 77, .record_time_ms = -1}};
    struct snapshot_fetch *fetch;
    struct err err = {0};
    const struct store_position *taken;
    uint64_t rows, bytes, wanted = 2500;
    size_t count;

    offer_part(positions, 2);
    fetch = start_part();
    cr_assert_eq(snapshot_fetch_state(fetch, NULL, &err), SNAPSHOT_FETCH_DONE, "%s", err.text);
    snapshot_fetch_destroy(fetch);
    fixture_close(&taker);
    cr_assert_eq(store_seed_install(taker.directory, NULL), ERR_NONE);
    fixture_open(&taker, STORE_KEPT);
    store_size(taker.store, &rows, &bytes);
    for (int i = 0; i < MODEL_ROWS; i++)
        wanted += model_row(i).root % 8 == 7;
    cr_assert_eq(rows, wanted);
    taken = store_positions(taker.store, &count);
    cr_assert_eq(count, 1);
    cr_assert_eq(taken[0].partition, 7);
    cr_assert_eq(taken[0].next_offset, 77);
}

Test(snapshot, a_part_that_is_not_known_is_not_given)
{
    const struct store_position position = {
        .partition = 3, .root = 3, .next_offset = 33, .record_time_ms = -1};
    struct snapshot_fetch *fetch;
    struct err err = {0};

    offer_part(&position, 1);
    fetch = start_part();
    cr_assert_eq(snapshot_fetch_state(fetch, NULL, &err), SNAPSHOT_FETCH_FAILED);
    cr_assert_not_null(strstr(err.text, "no checkpoint of it"), "%s", err.text);
    snapshot_fetch_destroy(fetch);
}

Test(snapshot, says_why_it_did_not_come)
{
    const struct snapshot_source sources[] = {{"giver", address, false}};
    struct snapshot_fetch *fetch;

    offer();
    permit("another-token-00");
    fetch = start(sources, 1, TOKEN);
    expect_end(fetch, SNAPSHOT_FETCH_FAILED, "from agent giver: it does not know the token");
    snapshot_fetch_destroy(fetch);
    fetch = start(sources, 0, TOKEN);
    expect_end(fetch, SNAPSHOT_FETCH_FAILED, "there is no copy");
    snapshot_fetch_destroy(fetch);
    fixture_reopen(&taker, STORE_FRESH);
}

Test(snapshot, another_jobs_state_is_refused)
{
    const struct snapshot_source sources[] = {{"giver", address, false}};
    struct snapshot_fetch *fetch;

    offer();
    permit(TOKEN);
    taker.identity.logic = "builtin/sum/1";
    fetch = start(sources, 1, TOKEN);
    expect_end(fetch, SNAPSHOT_FETCH_FAILED, "logic");
    snapshot_fetch_destroy(fetch);
    taker.identity.logic = giver.identity.logic;
}

Test(snapshot, can_be_cancelled_at_any_time)
{
    const struct snapshot_source sources[] = {{"giver", address, false}};

    offer();
    permit(TOKEN);
    for (int i = 0; i < 20; i++) {
        struct snapshot_fetch *fetch = start(sources, 1, TOKEN);

        snapshot_fetch_cancel(fetch);
        snapshot_fetch_destroy(fetch);
    }
    fixture_reopen(&taker, STORE_FRESH);
}

/* ---- the route */

static void expect_status(const char *path, const char *token, unsigned status, const char *words)
{
    struct http_client *client = http_client_create("test");
    struct http_answer answer = {0};
    char *url = mem_printf("%s/agent/v1/snapshots/%s", address, path);
    const struct http_request request = {.method = "GET",
                                         .url = url,
                                         .bearer = token,
                                         .connect_ms = 3000,
                                         .total_ms = 10000,
                                         .answer_bytes_max = 1 << 20};

    cr_assert_eq(http_client_request(client, &request, &answer, NULL), ERR_NONE);
    cr_assert_eq(answer.status, status, "%s: %u %s", path, answer.status, answer.body);
    cr_assert_not_null(strstr(answer.body, words), "%s: %s", path, answer.body);
    http_answer_finish(&answer);
    http_client_destroy(client);
    free(url);
}

Test(snapshot, route_says_what_is_wrong)
{
    offer();
    permit(TOKEN);
    expect_status("orders/3?incarnation=" INCARNATION, TOKEN, 200, "BSP1");
    expect_status("orders/3?incarnation=" INCARNATION, NULL, 403, "snapshot_refused");
    expect_status("orders/3?incarnation=" INCARNATION, "x", 403, "snapshot_refused");
    expect_status("orders/4?incarnation=" INCARNATION, TOKEN, 403, "snapshot_refused");
    expect_status("orders/x?incarnation=" INCARNATION, TOKEN, 404, "snapshot_not_found");
    expect_status("orders/3", TOKEN, 400, "incarnation is required");
    expect_status("orders/3?incarnation=7", TOKEN, 400, "UUID");
    expect_status("orders/3?incarnation=" INCARNATION "&page=x", TOKEN, 400, "page must be");
    expect_status("orders/3?incarnation=" INCARNATION "&pages=1", TOKEN, 400, "pages is not known");
    expect_status("orders/3?incarnation=" INCARNATION "&session=5&page=1", TOKEN, 410,
                  "snapshot_ended");
    fixture_close(&giver);
    expect_status("orders/3?incarnation=" INCARNATION, TOKEN, 404, "snapshot_not_found");
}
