#include "agent/snapshot_fetch.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/http_client.h"
#include "agent/snapshot_page.h"
#include "agent/store_seed.h"
#include "api/processor.h"
#include "common/clock.h"
#include "common/hook.h"
#include "common/mem.h"

#define CONNECT_MS     3000
#define RETRY_MS       ((int64_t)300)
#define PAGE_BYTES_MAX (BATON_STATE_VALUE_BYTES_MAX + ((size_t)1024 * 1024))

struct source {
    char *agent, *address;
    bool parent;
};

struct snapshot_fetch {
    struct source *sources;
    size_t source_count;
    char *token;
    uint32_t parent;
    struct store_owners owners;
    struct store_position *needed;
    size_t needed_count;
    struct store_config store;
    struct store_identity identity;
    char *texts[6]; /* what the two point to */
    void (*wake)(void *arg);
    void *wake_arg;
    struct http_client *client;
    pthread_t thread;

    pthread_mutex_t lock; /* protects the block below */
    pthread_cond_t changed;
    bool cancelled;
    enum snapshot_fetch_state state;
    struct snapshot_progress progress;
    struct err err;
};

struct transfer { /* from one source, from its first page */
    struct snapshot_fetch *fetch;
    const struct source *source;
    uint64_t session, number, chain;
    uint32_t pause_ms;
    struct store_seed *seed;
    uint64_t rows_total;
    bool ended;
};

/* ---- waiting */

static bool is_cancelled(struct snapshot_fetch *fetch)
{
    bool cancelled;

    pthread_mutex_lock(&fetch->lock);
    cancelled = fetch->cancelled;
    pthread_mutex_unlock(&fetch->lock);
    return cancelled;
}

static enum err_code refuse_cancelled(struct err *reterr)
{
    return err_set(reterr, ERR_CONFLICT, "it was cancelled");
}

/* False: cancelled. */
static bool rest(struct snapshot_fetch *fetch, int64_t pause_ms)
{
    const int64_t until_ms = clock_mono_ms() + pause_ms;
    const struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    bool cancelled;
    int code = 0;

    pthread_mutex_lock(&fetch->lock);
    while (code == 0 && !fetch->cancelled && pause_ms > 0)
        code = pthread_cond_timedwait(&fetch->changed, &fetch->lock, &until);
    cancelled = fetch->cancelled;
    pthread_mutex_unlock(&fetch->lock);
    return !cancelled;
}

/* ---- one page */

static enum err_code judge_status(const struct http_answer *answer, struct err *reterr)
{
    switch (answer->status) {
    case 200:
        return ERR_NONE;
    case 403:
        return err_set(reterr, ERR_FENCED, "it does not know the token (yet)");
    case 404:
        return err_set(reterr, ERR_NOT_FOUND, "it has no checkpoint of it at present");
    case 410:
        return err_set(reterr, ERR_STALE, "it has ended the transfer");
    case 503:
        return err_set(reterr, ERR_LIMIT, "it is busy or stopping");
    default:
        return err_set(reterr, ERR_PROTOCOL, "it answered with status %" PRIu32, answer->status);
    }
}

static enum err_code request_page(struct transfer *transfer, struct http_answer *ret_answer,
                                  struct err *reterr)
{
    struct snapshot_fetch *fetch = transfer->fetch;
    char *url =
        mem_printf("%s/agent/v1/snapshots/%s/%u?incarnation=%s&session=%" PRIu64 "&page=%" PRIu64,
                   transfer->source->address, fetch->identity.job,
                   transfer->source->parent ? fetch->parent : fetch->identity.processor,
                   fetch->identity.job_incarnation, transfer->session, transfer->number);
    const struct http_request request = {.method = "GET",
                                         .url = url,
                                         .bearer = fetch->token,
                                         .connect_ms = CONNECT_MS,
                                         .total_ms = SNAPSHOT_REQUEST_MS,
                                         .answer_bytes_max = PAGE_BYTES_MAX};
    enum err_code code = http_client_request(fetch->client, &request, ret_answer, reterr);

    free(url);
    return code;
}

/* Asked for again when it did not come. */
static enum err_code get_page(struct transfer *transfer, struct http_answer *ret_answer,
                              struct err *reterr)
{
    enum err_code code = ERR_NONE;

    for (int i = 0; i < SNAPSHOT_TRIES_MAX; i++) {
        if (!rest(transfer->fetch, i == 0 ? transfer->pause_ms : RETRY_MS << i))
            return refuse_cancelled(reterr);
        code = request_page(transfer, ret_answer, reterr);
        if (code != ERR_UNAVAILABLE && code != ERR_TIMEOUT && code != ERR_PROTOCOL)
            break;
    }
    if (code != ERR_NONE)
        return code;
    code = judge_status(ret_answer, reterr);
    if (code != ERR_NONE)
        http_answer_finish(ret_answer);
    return code;
}

/* ---- what the pages hold */

/* What it does not know would be replayed from its start, onto rows that have all of it. */
static enum err_code expect_part(struct transfer *transfer, struct err *reterr)
{
    const struct snapshot_fetch *fetch = transfer->fetch;

    store_seed_expect_part(transfer->seed, &fetch->owners);
    for (size_t i = 0; i < fetch->needed_count; i++) {
        const struct store_position *needed = &fetch->needed[i];

        if (!store_seed_bound(transfer->seed, needed))
            return err_set(reterr, ERR_NOT_FOUND,
                           "its copy does not know input %" PRIu32 " partition %" PRIu32,
                           needed->topic, needed->partition);
    }
    return ERR_NONE;
}

static enum err_code take_head(struct transfer *transfer, const struct snapshot_page *page,
                               struct err *reterr)
{
    const struct snapshot_fetch *fetch = transfer->fetch;
    struct snapshot_head head;
    enum err_code code = snapshot_head_read(page, &head, reterr);

    if (code != ERR_NONE)
        return code;
    transfer->session = page->session;
    transfer->rows_total = head.rows;
    code = store_seed_begin(&fetch->store, &fetch->identity, head.meta, head.meta_bytes,
                            head.file_bytes, &transfer->seed, reterr);
    return code == ERR_NONE && transfer->source->parent ? expect_part(transfer, reterr) : code;
}

static enum err_code read_end(struct transfer *transfer, const struct snapshot_page *page,
                              uint64_t *ret_rows, struct err *reterr)
{
    uint64_t digest;
    enum err_code code;

    if (!transfer->source->parent)
        return snapshot_total_read(page, ret_rows, reterr);
    code = snapshot_sum_read(page, ret_rows, &digest, reterr);
    if (code == ERR_NONE)
        store_seed_tell_sum(transfer->seed, *ret_rows, digest);
    return code;
}

static enum err_code take_end(struct transfer *transfer, const struct snapshot_page *page,
                              struct err *reterr)
{
    uint64_t rows;
    enum err_code code = read_end(transfer, page, &rows, reterr);

    if (code == ERR_NONE && rows != store_seed_rows(transfer->seed))
        code = err_set(reterr, ERR_CORRUPT, "%" PRIu64 " rows came, %" PRIu64 " were sent",
                       store_seed_rows(transfer->seed), rows);
    if (code == ERR_NONE)
        code = store_seed_finish(transfer->seed, reterr);
    transfer->ended = code == ERR_NONE;
    return code;
}

static enum err_code take_page(struct transfer *transfer, const struct http_answer *answer,
                               struct err *reterr)
{
    struct snapshot_page page;
    enum err_code code =
        snapshot_page_read(answer->body, answer->body_bytes, &transfer->chain, &page, reterr);

    if (code != ERR_NONE)
        return code;
    if (page.number != transfer->number ||
        (transfer->session != 0 && page.session != transfer->session))
        return err_set(reterr, ERR_CORRUPT, "another page came than the one asked for");
    transfer->pause_ms = page.pause_ms;
    if (transfer->number++ == 0)
        return take_head(transfer, &page, reterr);
    if (page.kind == SNAPSHOT_ROWS)
        return store_seed_add(transfer->seed, page.payload, page.payload_bytes, page.rows, reterr);
    return take_end(transfer, &page, reterr);
}

static void show_progress(struct transfer *transfer, size_t bytes)
{
    struct snapshot_fetch *fetch = transfer->fetch;

    pthread_mutex_lock(&fetch->lock);
    fetch->progress.rows = store_seed_rows(transfer->seed);
    fetch->progress.rows_total = transfer->rows_total; /* of a part: of the whole */
    fetch->progress.bytes += bytes;
    pthread_mutex_unlock(&fetch->lock);
}

/* ---- a transfer */

static enum err_code run_transfer(struct transfer *transfer, struct err *reterr)
{
    enum err_code code = ERR_NONE;

    while (code == ERR_NONE && !transfer->ended) {
        struct http_answer answer = {0};

        code = get_page(transfer, &answer, reterr);
        if (code != ERR_NONE)
            break;
        HOOK_AT("snapshot_fetch_page", "%s/%u", transfer->fetch->identity.job,
                transfer->fetch->identity.processor);
        code = take_page(transfer, &answer, reterr);
        if (code == ERR_NONE)
            show_progress(transfer, answer.body_bytes);
        http_answer_finish(&answer);
    }
    store_seed_destroy(transfer->seed);
    return code;
}

static void begin_progress(struct snapshot_fetch *fetch, const struct source *source)
{
    pthread_mutex_lock(&fetch->lock);
    fetch->progress = (struct snapshot_progress){.begun_ms = clock_mono_ms()};
    (void)snprintf(fetch->progress.source, sizeof(fetch->progress.source), "%s", source->agent);
    pthread_mutex_unlock(&fetch->lock);
}

/* What another transfer from there may mend: it ended, or something on the way was damaged. */
static bool may_restart(enum err_code code)
{
    return code == ERR_STALE || code == ERR_CORRUPT || code == ERR_UNAVAILABLE ||
           code == ERR_TIMEOUT || code == ERR_PROTOCOL;
}

static enum err_code fetch_from(struct snapshot_fetch *fetch, const struct source *source,
                                struct err *reterr)
{
    enum err_code code = ERR_NONE;

    for (int i = 0; i <= SNAPSHOT_RESTARTS_MAX; i++) {
        struct transfer transfer = {.fetch = fetch, .source = source};

        if (!rest(fetch, i * RETRY_MS))
            return refuse_cancelled(reterr);
        begin_progress(fetch, source);
        code = run_transfer(&transfer, reterr);
        if (!may_restart(code) || transfer.number == 0) /* it did not even begin */
            break;
    }
    if (code != ERR_NONE)
        (void)err_prefix(reterr, "from agent %s", source->agent);
    return code;
}

static enum err_code fetch_all(struct snapshot_fetch *fetch, struct err *reterr)
{
    enum err_code code = err_set(reterr, ERR_NOT_FOUND, "there is no copy to get it from");

    for (size_t i = 0; i < fetch->source_count; i++) {
        code = fetch_from(fetch, &fetch->sources[i], reterr);
        if (code == ERR_NONE || is_cancelled(fetch))
            break;
    }
    return code;
}

static void *run(void *arg)
{
    struct snapshot_fetch *fetch = arg;
    struct err err = {0};
    enum err_code code = fetch_all(fetch, &err);

    pthread_mutex_lock(&fetch->lock);
    fetch->state = code == ERR_NONE ? SNAPSHOT_FETCH_DONE : SNAPSHOT_FETCH_FAILED;
    fetch->err = err;
    pthread_mutex_unlock(&fetch->lock);
    fetch->wake(fetch->wake_arg);
    return NULL;
}

/* ---- life */

static const char *keep(struct snapshot_fetch *fetch, size_t index, const char *text)
{
    fetch->texts[index] = mem_strdup(text);
    return fetch->texts[index];
}

static struct snapshot_fetch *create(const struct snapshot_fetch_config *config)
{
    struct snapshot_fetch *fetch = mem_calloc(1, sizeof(*fetch));
    pthread_condattr_t attributes;

    fetch->sources = mem_calloc(config->source_count, sizeof(*fetch->sources));
    for (; fetch->source_count < config->source_count; fetch->source_count++) {
        const struct snapshot_source *source = &config->sources[fetch->source_count];

        fetch->sources[fetch->source_count] =
            (struct source){mem_strdup(source->agent), mem_strdup(source->address), source->parent};
    }
    fetch->token = mem_strdup(config->token);
    fetch->parent = config->parent;
    fetch->owners = config->owners;
    fetch->needed_count = config->needed_count;
    fetch->needed = mem_calloc(config->needed_count + 1, sizeof(*fetch->needed));
    for (size_t i = 0; i < config->needed_count; i++)
        fetch->needed[i] = config->needed[i];
    fetch->store = config->store;
    fetch->store.directory = keep(fetch, 0, config->store.directory);
    fetch->identity = config->identity;
    fetch->identity.cluster = keep(fetch, 1, config->identity.cluster);
    fetch->identity.job = keep(fetch, 2, config->identity.job);
    fetch->identity.job_incarnation = keep(fetch, 3, config->identity.job_incarnation);
    fetch->identity.logic = keep(fetch, 4, config->identity.logic);
    fetch->identity.boot_id = keep(fetch, 5, config->identity.boot_id);
    fetch->wake = config->wake;
    fetch->wake_arg = config->wake_arg;
    fetch->client = http_client_create("baton-agent/" BATON_VERSION);
    pthread_mutex_init(&fetch->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&fetch->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return fetch;
}

static void free_fetch(struct snapshot_fetch *fetch)
{
    http_client_destroy(fetch->client);
    for (size_t i = 0; i < fetch->source_count; i++) {
        free(fetch->sources[i].agent);
        free(fetch->sources[i].address);
    }
    free(fetch->sources);
    free(fetch->token);
    free(fetch->needed);
    for (size_t i = 0; i < sizeof(fetch->texts) / sizeof(fetch->texts[0]); i++)
        free(fetch->texts[i]);
    pthread_cond_destroy(&fetch->changed);
    pthread_mutex_destroy(&fetch->lock);
    free(fetch);
}

enum err_code snapshot_fetch_start(const struct snapshot_fetch_config *config,
                                   struct snapshot_fetch **ret_fetch, struct err *reterr)
{
    struct snapshot_fetch *fetch = create(config);
    sigset_t all, old;
    int code;

    (void)sigfillset(&all); /* signals are for the threads that expect them */
    code = pthread_sigmask(SIG_SETMASK, &all, &old);
    assert(code == 0);
    code = pthread_create(&fetch->thread, NULL, run, fetch);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL); /* what was set before can be set again */
    if (code != 0) {
        free_fetch(fetch);
        return err_set(reterr, ERR_IO, "starting a thread: %s", strerror(code));
    }
    (void)pthread_setname_np(fetch->thread, "snapshot-fetch"); /* for people */
    *ret_fetch = fetch;
    return ERR_NONE;
}

enum snapshot_fetch_state snapshot_fetch_state(struct snapshot_fetch *fetch,
                                               struct snapshot_progress *ret_progress,
                                               struct err *reterr)
{
    enum snapshot_fetch_state state;

    pthread_mutex_lock(&fetch->lock);
    state = fetch->state;
    if (ret_progress != NULL)
        *ret_progress = fetch->progress;
    if (state == SNAPSHOT_FETCH_FAILED && reterr != NULL)
        *reterr = fetch->err;
    pthread_mutex_unlock(&fetch->lock);
    return state;
}

void snapshot_fetch_cancel(struct snapshot_fetch *fetch)
{
    pthread_mutex_lock(&fetch->lock);
    fetch->cancelled = true;
    pthread_cond_broadcast(&fetch->changed);
    pthread_mutex_unlock(&fetch->lock);
    http_client_interrupt(fetch->client);
}

void snapshot_fetch_destroy(struct snapshot_fetch *fetch)
{
    if (fetch == NULL)
        return;
    snapshot_fetch_cancel(fetch);
    pthread_join(fetch->thread, NULL);
    free_fetch(fetch);
}
