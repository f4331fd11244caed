#include "coordinator/archive.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "api/schema.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"
#include "coordinator/archive_backup.h"

#define WAITS_MAX     1000
#define RETRY_AFTER_S 1

struct archive_wait {
    struct archive_query query;
    int64_t deadline_ms;
};

/* ---- answers */

struct answer archive_problem(uint64_t request, const char *code, const char *detail)
{
    struct problem_body *body = mem_calloc(1, sizeof(*body));
    problem_body(body, code, "%s", detail);
    return (struct answer){.request = request,
                           .status = body->status,
                           .type = &schema_problem_body,
                           .body = body,
                           .retry_after_s = strcmp(code, "store_failed") == 0 ? RETRY_AFTER_S : 0};
}

static void answer_problem(struct archive *archive, uint64_t request, const char *code,
                           const char *detail)
{
    struct answer problem = archive_problem(request, code, detail);
    archive->answer(archive->context, &problem);
}

static void answer_unreadable(struct archive *archive, uint64_t request, const struct err *err)
{
    log_error("store_read_failed", LOG_STR("detail", err->text), LOG_END);
    answer_problem(archive, request, "store_failed", "the database could not be read");
}

/* Takes what `body` owns. */
static void answer_body(struct archive *archive, uint64_t request, const struct schema_type *type,
                        const void *body)
{
    struct answer page = {
        .request = request, .status = 200, .type = type, .body = mem_memdup(body, type->bytes)};
    archive->answer(archive->context, &page);
}

/* ---- events */

/* False: there is nothing yet, and the question may wait. */
static bool answer_events(struct archive *archive, const struct archive_query *query, bool may_wait)
{
    struct event_page page = {0};
    struct err err;
    struct store_event_query wanted = {
        .after = query->after, .job = query->job, .limit = query->limit, .last = query->last};
    if (store_events(archive->store, wanted, &page, &err) != ERR_NONE) {
        answer_unreadable(archive, query->request, &err);
        return true;
    }
    if (page.items.count == 0 && may_wait) {
        schema_free(&schema_event_page, &page);
        return false;
    }
    answer_body(archive, query->request, &schema_event_page, &page);
    return true;
}

static void ask_events(struct archive *archive, struct archive_query *query)
{
    bool may_wait = query->wait_ms > 0 && archive->waits.count < WAITS_MAX;
    if (answer_events(archive, query, may_wait))
        return;
    archive->waits.items = mem_grow(archive->waits.items, archive->waits.count,
                                    &archive->waits.capacity, sizeof(*archive->waits.items));
    int64_t wait_ms = query->wait_ms < archive->wait_ms_max ? query->wait_ms : archive->wait_ms_max;
    archive->waits.items[archive->waits.count++] =
        (struct archive_wait){.query = *query, .deadline_ms = clock_mono_ms() + wait_ms};
    *query = (struct archive_query){.kind = ARCHIVE_QUERY_EVENTS};
}

static bool has_event(const struct update *update, const char *job)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct change *change = &update->changes.items[i];
        if (change->kind == CHANGE_EVENT &&
            (job == NULL || (change->event.job != NULL && strcmp(change->event.job, job) == 0)))
            return true;
    }
    return false;
}

void archive_see_update(struct archive *archive, const struct update *update)
{
    size_t kept = 0;
    for (size_t i = 0; i < archive->waits.count; i++) {
        struct archive_wait wait = archive->waits.items[i];
        if (has_event(update, wait.query.job) && answer_events(archive, &wait.query, true))
            archive_query_finish(&wait.query);
        else
            archive->waits.items[kept++] = wait;
    }
    archive->waits.count = kept;
}

void archive_forget(struct archive *archive, uint64_t request)
{
    size_t kept = 0;
    for (size_t i = 0; i < archive->waits.count; i++) {
        struct archive_wait wait = archive->waits.items[i];
        if (wait.query.request == request)
            archive_query_finish(&wait.query);
        else
            archive->waits.items[kept++] = wait;
    }
    archive->waits.count = kept;
}

int64_t archive_deadline_ms(const struct archive *archive)
{
    int64_t deadline_ms = archive->backup != NULL ? 0 : INT64_MAX; /* whenever nobody else comes */
    for (size_t i = 0; i < archive->waits.count; i++) {
        if (archive->waits.items[i].deadline_ms < deadline_ms)
            deadline_ms = archive->waits.items[i].deadline_ms;
    }
    return deadline_ms;
}

void archive_tick(struct archive *archive, int64_t now_ms)
{
    size_t kept = 0;
    archive_backup_tick(archive);
    for (size_t i = 0; i < archive->waits.count; i++) {
        struct archive_wait wait = archive->waits.items[i];
        if (wait.deadline_ms > now_ms) {
            archive->waits.items[kept++] = wait;
            continue;
        }
        (void)answer_events(archive, &wait.query, false); /* always true then */
        archive_query_finish(&wait.query);
    }
    archive->waits.count = kept;
}

static void complete(const struct archive *archive, const struct schema_type *type, void *view)
{
    if (archive->complete != NULL)
        archive->complete(archive->context, type, view);
}

/* ---- operations */

static void ask_operations(struct archive *archive, const struct archive_query *query)
{
    struct operation_page page = {0};
    struct err err;
    struct store_operation_query wanted = {.before = query->before,
                                           .job = query->job,
                                           .only_state = query->only_state,
                                           .state = query->state,
                                           .limit = query->limit};
    if (store_operations(archive->store, wanted, &page, &err) != ERR_NONE) {
        answer_unreadable(archive, query->request, &err);
        return;
    }
    for (size_t i = 0; i < page.items.count; i++)
        complete(archive, &schema_operation_view, &page.items.items[i]);
    answer_body(archive, query->request, &schema_operation_page, &page);
}

/* False: the request was answered that there is none, or that it could not be read. */
static bool find_operation(struct archive *archive, uint64_t request, uint64_t id,
                           struct operation_view *ret_view)
{
    struct err err;
    enum err_code code = store_operation(archive->store, id, ret_view, &err);
    if (code == ERR_NOT_FOUND) {
        char detail[64];
        (void)snprintf(detail, sizeof(detail), "there is no operation op-%llu",
                       (unsigned long long)id);
        answer_problem(archive, request, "operation_not_found", detail);
    } else if (code != ERR_NONE) {
        answer_unreadable(archive, request, &err);
    }
    return code == ERR_NONE;
}

static void ask_operation(struct archive *archive, uint64_t request, uint64_t id)
{
    struct operation_view view = {0};
    if (!find_operation(archive, request, id, &view))
        return;
    complete(archive, &schema_operation_view, &view);
    answer_body(archive, request, &schema_operation_view, &view);
}

/* It ended long ago: waiting for it is over, and there is nothing to cancel. */
void archive_old_operation(struct archive *archive, const struct coord_event *event)
{
    struct operation_view view = {0};
    if (event->kind == COORD_EVENT_OPERATION_WAIT) {
        ask_operation(archive, event->request, event->operation);
        return;
    }
    if (!find_operation(archive, event->request, event->operation, &view))
        return;
    schema_free(&schema_operation_view, &view);
    answer_problem(archive, event->request, "operation_not_cancellable", "it has ended already");
}

/* ---- hand-overs */

static void ask_handoffs(struct archive *archive, const struct archive_query *query)
{
    struct handoff_page page = {0};
    struct err err;
    struct store_handoff_query wanted = {.before = query->before,
                                         .job = query->job,
                                         .only_state = query->only_state,
                                         .state = query->handoff_state,
                                         .limit = query->limit};
    if (store_handoffs(archive->store, wanted, &page, &err) != ERR_NONE) {
        answer_unreadable(archive, query->request, &err);
        return;
    }
    for (size_t i = 0; i < page.items.count; i++)
        complete(archive, &schema_handoff_view, &page.items.items[i]);
    answer_body(archive, query->request, &schema_handoff_page, &page);
}

/* False: the request was answered that there is none, or that it could not be read. */
static bool find_handoff(struct archive *archive, uint64_t request, uint64_t id,
                         struct handoff_view *ret_view)
{
    struct err err;
    enum err_code code = store_handoff(archive->store, id, ret_view, &err);
    if (code == ERR_NOT_FOUND) {
        char detail[64];
        (void)snprintf(detail, sizeof(detail), "there is no hand-over %llu",
                       (unsigned long long)id);
        answer_problem(archive, request, "handoff_not_found", detail);
    } else if (code != ERR_NONE) {
        answer_unreadable(archive, request, &err);
    }
    return code == ERR_NONE;
}

static void ask_handoff(struct archive *archive, uint64_t request, uint64_t id)
{
    struct handoff_view view = {0};
    if (!find_handoff(archive, request, id, &view))
        return;
    complete(archive, &schema_handoff_view, &view);
    answer_body(archive, request, &schema_handoff_view, &view);
}

void archive_old_handoff(struct archive *archive, const struct coord_event *event)
{
    struct handoff_view view = {0};
    if (!find_handoff(archive, event->request, event->handoff, &view))
        return;
    schema_free(&schema_handoff_view, &view);
    answer_problem(archive, event->request, "handoff_not_cancellable", "it has ended already");
}

/* ---- */

void archive_ask(struct archive *archive, struct archive_query *query)
{
    switch (query->kind) {
    case ARCHIVE_QUERY_EVENTS:
        ask_events(archive, query);
        return;
    case ARCHIVE_QUERY_OPERATIONS:
        ask_operations(archive, query);
        return;
    case ARCHIVE_QUERY_OPERATION:
        ask_operation(archive, query->request, query->operation);
        return;
    case ARCHIVE_QUERY_HANDOFFS:
        ask_handoffs(archive, query);
        return;
    case ARCHIVE_QUERY_HANDOFF:
        ask_handoff(archive, query->request, query->handoff);
        return;
    case ARCHIVE_QUERY_BACKUP:
        archive_backup_ask(archive, query->request);
        return;
    }
    assert(!"a kind of query");
}

void archive_query_finish(struct archive_query *query)
{
    free(query->job);
    query->job = NULL;
}

void archive_init(struct archive *archive, struct store *store, int64_t wait_ms_max,
                  void (*answer)(void *context, struct answer *answer), void *context)
{
    *archive = (struct archive){
        .store = store, .wait_ms_max = wait_ms_max, .answer = answer, .context = context};
}

void archive_finish(struct archive *archive)
{
    for (size_t i = 0; i < archive->waits.count; i++)
        archive_query_finish(&archive->waits.items[i].query);
    free(archive->waits.items);
    archive_backup_finish(archive);
    *archive = (struct archive){0};
}
