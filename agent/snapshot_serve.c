#include "agent/snapshot_serve.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/snapshot_page.h"
#include "agent/store_view.h"
#include "common/hook.h"
#include "common/mem.h"
#include "common/rng.h"

struct tokens {
    char **items;
    size_t count;
};

struct copy { /* of one task */
    struct copy *next;
    char *job, *incarnation;
    uint32_t processor;
    struct store_share *share; /* NULL: not offered */
    struct tokens whole, in_part;
    struct store_part part; /* of in_part */
};

struct session {
    struct session *next;
    struct copy *copy;
    uint64_t id;
    char *token;
    char *place; /* "job/processor", for tests */
    struct store_view *view;
    bool in_part;
    bool busy; /* a thread makes a page, outside of the lock; only it touches what is below */
    bool over; /* ended while it was busy: that thread takes it apart */
    int64_t begun_ms, used_ms;
    uint64_t next_number;
    uint64_t chain;
    uint64_t rows;
    bool rows_ended;
    struct strbuf page; /* the last one, to be given again */
    bool done;          /* under the lock: its last page was made, it is no transfer any more */
};

struct snapshot_serve {
    struct snapshot_limits limits;
    pthread_mutex_t lock; /* protects all below; the disk is not read under it */
    struct copy *copies;
    struct session *sessions;
    int64_t budget_due_ms; /* what was sent so far is within the rate at this time */
    struct snapshot_serve_counts counts;
};

struct snapshot_serve *snapshot_serve_create(const struct snapshot_limits *limits)
{
    struct snapshot_serve *serve = mem_calloc(1, sizeof(*serve));

    assert(limits->transfers_max >= 1);
    serve->limits = *limits;
    (void)pthread_mutex_init(&serve->lock, NULL); /* default attributes: never fails on Linux */
    return serve;
}

/* ---- sessions; under the lock */

static void free_session(struct session *session)
{
    store_view_close(session->view);
    strbuf_finish(&session->page);
    free(session->token);
    free(session->place);
    free(session);
}

static void end_session(struct snapshot_serve *serve, struct session *session)
{
    struct session **at = &serve->sessions;

    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    serve->counts.transfers -= !session->done;
    session->over = true;
    if (!session->busy)
        free_session(session);
}

static bool is_among(const struct tokens *tokens, const char *token)
{
    bool found = false;

    for (size_t i = 0; i < tokens->count; i++)
        found |= snapshot_token_equal(tokens->items[i], token);
    return found;
}

static bool is_permitted(const struct copy *copy, const char *token)
{
    bool whole = is_among(&copy->whole, token), in_part = is_among(&copy->in_part, token);

    return whole || in_part;
}

/* Those that are out of their right, or all of the copy. */
static void end_sessions(struct snapshot_serve *serve, const struct copy *copy, bool all)
{
    struct session *next;

    for (struct session *at = serve->sessions; at != NULL; at = next) {
        next = at->next;
        if (at->copy == copy && (all || !is_permitted(copy, at->token)))
            end_session(serve, at);
    }
}

void snapshot_serve_expire(struct snapshot_serve *serve, int64_t now_ms)
{
    struct session *next;

    pthread_mutex_lock(&serve->lock);
    for (struct session *at = serve->sessions; at != NULL; at = next) {
        bool idle = now_ms - at->used_ms >= SNAPSHOT_IDLE_MS && !at->busy;

        next = at->next;
        if (!idle && now_ms - at->begun_ms < SNAPSHOT_AGE_MS)
            continue;
        serve->counts.expired += !at->done;
        end_session(serve, at);
    }
    pthread_mutex_unlock(&serve->lock);
}

/* ---- copies; under the lock */

static bool is_of(const struct copy *copy, const struct snapshot_key *key)
{
    return copy->processor == key->processor && strcmp(copy->job, key->job) == 0 &&
           strcmp(copy->incarnation, key->incarnation) == 0;
}

static struct copy *find_copy(const struct snapshot_serve *serve, const struct snapshot_key *key)
{
    struct copy *copy = serve->copies;

    while (copy != NULL && !is_of(copy, key))
        copy = copy->next;
    return copy;
}

static struct copy *make_copy(struct snapshot_serve *serve, const struct snapshot_key *key)
{
    struct copy *copy = find_copy(serve, key);

    if (copy != NULL)
        return copy;
    copy = mem_calloc(1, sizeof(*copy));
    copy->job = mem_strdup(key->job);
    copy->incarnation = mem_strdup(key->incarnation);
    copy->processor = key->processor;
    copy->next = serve->copies;
    serve->copies = copy;
    return copy;
}

static void set_tokens(struct tokens *tokens, const char *const *items, size_t count)
{
    for (size_t i = 0; i < tokens->count; i++)
        free(tokens->items[i]);
    free(tokens->items);
    *tokens = (struct tokens){.items = count == 0 ? NULL : mem_calloc(count, sizeof(char *))};
    for (; tokens->count < count; tokens->count++)
        tokens->items[tokens->count] = mem_strdup(items[tokens->count]);
}

static void drop_if_empty(struct snapshot_serve *serve, struct copy *copy)
{
    struct copy **at = &serve->copies;

    if (copy->share != NULL || copy->whole.count > 0 || copy->in_part.count > 0)
        return;
    while (*at != copy)
        at = &(*at)->next;
    *at = copy->next;
    free(copy->job);
    free(copy->incarnation);
    free(copy);
}

void snapshot_serve_offer(struct snapshot_serve *serve, const struct snapshot_key *key,
                          struct store_share *share)
{
    struct copy *copy;

    pthread_mutex_lock(&serve->lock);
    copy = make_copy(serve, key);
    end_sessions(serve, copy, true);
    store_share_release(copy->share);
    copy->share = share;
    pthread_mutex_unlock(&serve->lock);
}

void snapshot_serve_withdraw(struct snapshot_serve *serve, const struct snapshot_key *key)
{
    struct copy *copy;

    pthread_mutex_lock(&serve->lock);
    copy = find_copy(serve, key);
    if (copy != NULL) {
        end_sessions(serve, copy, true);
        store_share_release(copy->share);
        copy->share = NULL;
        drop_if_empty(serve, copy);
    }
    pthread_mutex_unlock(&serve->lock);
}

static void permit(struct snapshot_serve *serve, const struct snapshot_key *key,
                   const struct store_part *part, const char *const *tokens, size_t count)
{
    struct copy *copy;

    pthread_mutex_lock(&serve->lock);
    copy = make_copy(serve, key);
    set_tokens(part == NULL ? &copy->whole : &copy->in_part, tokens, count);
    if (part != NULL)
        copy->part = *part;
    end_sessions(serve, copy, false);
    if (copy->share == NULL && copy->whole.count == 0 && copy->in_part.count == 0)
        end_sessions(serve, copy, true);
    drop_if_empty(serve, copy);
    pthread_mutex_unlock(&serve->lock);
}

void snapshot_serve_permit(struct snapshot_serve *serve, const struct snapshot_key *key,
                           const char *const *tokens, size_t count)
{
    permit(serve, key, NULL, tokens, count);
}

void snapshot_serve_permit_part(struct snapshot_serve *serve, const struct snapshot_key *key,
                                const struct store_part *part, const char *const *tokens,
                                size_t count)
{
    permit(serve, key, part, tokens, count);
}

void snapshot_serve_destroy(struct snapshot_serve *serve)
{
    if (serve == NULL)
        return;
    while (serve->copies != NULL) {
        struct copy *copy = serve->copies;

        end_sessions(serve, copy, true);
        store_share_release(copy->share);
        copy->share = NULL;
        set_tokens(&copy->whole, NULL, 0);
        set_tokens(&copy->in_part, NULL, 0);
        drop_if_empty(serve, copy);
    }
    assert(serve->sessions == NULL);
    pthread_mutex_destroy(&serve->lock);
    free(serve);
}

bool snapshot_token_equal(const char *a, const char *b)
{
    const size_t bytes = strlen(a);
    unsigned char different = 0;

    if (bytes == 0 || strlen(b) != bytes) /* how long a token is, is no secret */
        return false;
    for (size_t i = 0; i < bytes; i++)
        different |= (unsigned char)a[i] ^ (unsigned char)b[i];
    return different == 0;
}

/* ---- pages */

/* A token is of one receiver, which has begun anew. */
static void end_sessions_of(struct snapshot_serve *serve, const struct copy *copy,
                            const char *token)
{
    struct session *next;

    for (struct session *at = serve->sessions; at != NULL; at = next) {
        next = at->next;
        if (at->copy == copy && snapshot_token_equal(at->token, token))
            end_session(serve, at);
    }
}

/* Of no more than the token opens. */
static enum err_code open_view(const struct copy *copy, const char *token,
                               struct store_view **ret_view, struct err *reterr)
{
    struct store_view *view;
    enum err_code code = store_view_open(copy->share, &view, reterr);

    if (code == ERR_NONE && !is_among(&copy->whole, token)) {
        code = store_view_narrow(view, &copy->part, reterr);
        if (code != ERR_NONE)
            store_view_close(view);
    }
    if (code == ERR_NONE)
        *ret_view = view;
    return code == ERR_UNAVAILABLE ? ERR_NOT_FOUND : code;
}

/* Under the lock. */
static enum err_code begin_session(struct snapshot_serve *serve, struct copy *copy,
                                   const char *token, int64_t now_ms, struct session **ret_session,
                                   struct err *reterr)
{
    struct store_view *view;
    struct session *session;
    enum err_code code;

    if (copy->share == NULL)
        return err_set(reterr, ERR_NOT_FOUND, "the state is not open at present");
    end_sessions_of(serve, copy, token);
    if (serve->counts.transfers >= serve->limits.transfers_max)
        return err_set(reterr, ERR_LIMIT, "%u snapshots are being sent already",
                       serve->limits.transfers_max);
    code = open_view(copy, token, &view, reterr);
    if (code != ERR_NONE)
        return code;
    session = mem_calloc(1, sizeof(*session));
    *session = (struct session){.next = serve->sessions,
                                .copy = copy,
                                .token = mem_strdup(token),
                                .place = mem_printf("%s/%u", copy->job, copy->processor),
                                .view = view,
                                .in_part = !is_among(&copy->whole, token),
                                .begun_ms = now_ms,
                                .used_ms = now_ms};
    while (session->id == 0)
        rng_bytes(&session->id, sizeof(session->id));
    serve->sessions = session;
    serve->counts.transfers++;
    serve->counts.begun++;
    *ret_session = session;
    return ERR_NONE;
}

/* Under the lock: the session of the request, not used by another thread. */
static enum err_code find_session(struct snapshot_serve *serve,
                                  const struct snapshot_request *request, int64_t now_ms,
                                  struct session **ret_session, struct err *reterr)
{
    struct copy *copy = find_copy(serve, &request->key);
    struct session *session;

    if (copy == NULL || !is_permitted(copy, request->token)) {
        serve->counts.refused++;
        return err_set(reterr, ERR_FENCED, "the token does not open this state here (yet)");
    }
    if (request->session == 0 && request->number == 0)
        return begin_session(serve, copy, request->token, now_ms, ret_session, reterr);
    for (session = serve->sessions; session != NULL; session = session->next) {
        if (session->id == request->session && session->copy == copy &&
            snapshot_token_equal(session->token, request->token))
            break;
    }
    if (session == NULL || session->busy)
        return err_set(reterr, ERR_STALE, "this transfer has ended: begin anew");
    if (request->number != session->next_number &&
        (request->number + 1 != session->next_number || session->next_number == 0))
        return err_set(reterr, ERR_STALE,
                       "page %" PRIu64 " can not be given, the next is %" PRIu64 ": begin anew",
                       request->number, session->next_number);
    if (session->done && request->number == session->next_number)
        return err_set(reterr, ERR_STALE, "this transfer is complete");
    *ret_session = session;
    return ERR_NONE;
}

static void add_head(struct session *session, struct snapshot_page *page)
{
    struct snapshot_head head = {.rows = store_view_rows(session->view),
                                 .file_bytes = store_view_file_bytes(session->view)};

    head.meta = store_view_meta(session->view, &head.meta_bytes);
    snapshot_head_add(&session->page, &head);
    page->kind = SNAPSHOT_HEAD;
}

static enum err_code add_rows(struct session *session, struct snapshot_page *page,
                              struct err *reterr)
{
    enum err_code code = store_view_read(session->view, SNAPSHOT_PAGE_BYTES, &session->page,
                                         &page->rows, &session->rows_ended, reterr);

    session->rows += page->rows;
    page->kind = SNAPSHOT_ROWS;
    return code;
}

static void add_end(struct session *session, struct snapshot_page *page)
{
    uint64_t rows, digest;

    store_view_sum(session->view, &rows, &digest);
    page->kind = session->in_part ? SNAPSHOT_PART_END : SNAPSHOT_END;
    if (session->in_part)
        snapshot_sum_add(&session->page, rows, digest);
    else
        snapshot_total_add(&session->page, rows);
}

/* Outside of the lock, the session is busy: the disk may take its time. */
static enum err_code make_page(struct session *session, uint32_t pause_ms, bool *ret_done,
                               struct err *reterr)
{
    struct snapshot_page page = {
        .session = session->id, .number = session->next_number, .pause_ms = pause_ms};
    enum err_code code = ERR_NONE;

    snapshot_page_begin(&session->page);
    if (page.number == 0) {
        add_head(session, &page);
    } else if (!session->rows_ended) {
        HOOK_AT("snapshot_serve_rows", "%s", session->place);
        code = add_rows(session, &page, reterr);
    } else {
        add_end(session, &page);
        store_view_close(session->view);
        session->view = NULL;
        *ret_done = true;
    }
    if (code != ERR_NONE)
        return code;
    snapshot_page_end(&session->page, &page, &session->chain);
    session->next_number++;
    return ERR_NONE;
}

/* Under the lock: what the last pages have cost is waited for before the next one. */
static uint32_t pause_of(struct snapshot_serve *serve, size_t bytes, int64_t now_ms)
{
    int64_t rate = serve->limits.bytes_per_s_max, wait_ms;

    if (rate == 0)
        return 0;
    if (serve->budget_due_ms < now_ms)
        serve->budget_due_ms = now_ms;
    serve->budget_due_ms += (int64_t)bytes * 1000 / rate;
    wait_ms = serve->budget_due_ms - now_ms;
    return wait_ms > SNAPSHOT_IDLE_MS / 2 ? SNAPSHOT_IDLE_MS / 2 : (uint32_t)wait_ms;
}

static void note_done(struct snapshot_serve *serve, struct session *session)
{
    session->done = true;
    serve->counts.completed++;
    serve->counts.rows += session->rows;
    serve->counts.transfers--;
}

static void settle_page(struct snapshot_serve *serve, struct session *session, enum err_code code,
                        struct strbuf *buf)
{
    session->busy = false;
    if (code == ERR_NONE && !session->over) {
        strbuf_clear(buf);
        strbuf_add(buf, session->page.data, session->page.bytes);
        serve->counts.bytes += session->page.bytes;
    }
    if (session->over)
        free_session(session);
    else if (code != ERR_NONE)
        end_session(serve, session);
}

enum err_code snapshot_serve_page(struct snapshot_serve *serve,
                                  const struct snapshot_request *request, int64_t now_ms,
                                  struct strbuf *buf, struct err *reterr)
{
    struct session *session = NULL;
    uint32_t pause_ms;
    bool done = false;
    enum err_code code;

    pthread_mutex_lock(&serve->lock);
    code = find_session(serve, request, now_ms, &session, reterr);
    if (code != ERR_NONE) {
        pthread_mutex_unlock(&serve->lock);
        return code;
    }
    session->used_ms = now_ms;
    if (request->number == session->next_number) {
        session->busy = true;
        pause_ms = pause_of(serve, session->page.bytes, now_ms);
        pthread_mutex_unlock(&serve->lock);
        code = make_page(session, pause_ms, &done, reterr);
        pthread_mutex_lock(&serve->lock);
        if (code == ERR_NONE && session->over)
            code = err_set(reterr, ERR_STALE, "this transfer was ended: begin anew");
        else if (code == ERR_NONE && done)
            note_done(serve, session);
    }
    settle_page(serve, session, code, buf);
    pthread_mutex_unlock(&serve->lock);
    return code;
}

void snapshot_serve_count(struct snapshot_serve *serve, struct snapshot_serve_counts *ret_counts)
{
    pthread_mutex_lock(&serve->lock);
    *ret_counts = serve->counts;
    pthread_mutex_unlock(&serve->lock);
}
