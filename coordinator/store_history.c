/* Pages of what was: events and operations, also those that are no longer in memory. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/view.h"
#include "coordinator/store_internal.h"

#define LIMIT_MAX 1000

/* One row more than was asked for is read: it tells that there is a next page. */
static char *cursor_after(uint64_t id)
{
    return mem_printf("%" PRIu64, id);
}

/* ---- events */

static void read_event(sqlite3_stmt *statement, struct event_view *ret_view)
{
    int64_t operation = store_column_known(statement, 6);
    *ret_view = (struct event_view){
        .id = (uint64_t)store_column_int(statement, 0),
        .at = store_column_int(statement, 1),
        .kind = store_column_text(statement, 2),
        .job = store_column_text(statement, 3),
        .processor = store_column_known(statement, 4),
        .agent = store_column_text(statement, 5),
        .operation = operation > 0 ? view_operation_name((uint64_t)operation) : NULL,
        .actor = store_column_text(statement, 7),
        .detail = store_column_text(statement, 8),
    };
}

static sqlite3_stmt *event_statement(struct store *store, const struct store_event_query *query)
{
    enum store_statement of_all = query->last ? STORE_EVENT_LAST : STORE_EVENT_PAGE;
    enum store_statement of_job = query->last ? STORE_EVENT_LAST_OF_JOB : STORE_EVENT_PAGE_OF_JOB;
    sqlite3_stmt *statement = store_statement(store, query->job != NULL ? of_job : of_all);
    store_bind_uint(statement, 1, query->after <= INT64_MAX ? query->after : INT64_MAX);
    store_bind_int(statement, 2, (int64_t)query->limit + !query->last);
    if (query->job != NULL)
        store_bind_text(statement, 3, query->job);
    return statement;
}

enum err_code store_events(struct store *store, struct store_event_query query,
                           struct event_page *ret_page, struct err *reterr)
{
    assert(query.limit >= 1 && query.limit <= LIMIT_MAX);
    sqlite3_stmt *statement = event_statement(store, &query);
    struct event_page page = {0};
    page.items.items = mem_calloc(query.limit, sizeof(struct event_view));
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE) {
            schema_free(&schema_event_page, &page);
            return code;
        }
        if (!found)
            break;
        if (page.items.count == query.limit) {
            page.next = cursor_after(page.items.items[query.limit - 1].id);
            store_leave(statement);
            break;
        }
        read_event(statement, &page.items.items[page.items.count++]);
    }
    *ret_page = page;
    return ERR_NONE;
}

/* ---- operations */

static enum err_code read_operation_view(struct store *store, sqlite3_stmt *statement,
                                         struct operation_view *ret_view, struct err *reterr)
{
    struct operation_row row;
    enum err_code code = store_read_operation(store, statement, &row, reterr);
    if (code != ERR_NONE)
        return code;
    view_operation(&row, ret_view);
    rows_finish_operation(&row);
    return ERR_NONE;
}

/* Fills the page up; the statement is left by the caller. */
static enum err_code fill_operations(struct store *store, sqlite3_stmt *statement, uint32_t limit,
                                     struct operation_page *page, struct err *reterr)
{
    uint64_t last = 0;
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        if (page->items.count == limit) {
            page->next = cursor_after(last);
            return ERR_NONE;
        }
        last = (uint64_t)store_column_int(statement, 0);
        code = read_operation_view(store, statement, &page->items.items[page->items.count], reterr);
        if (code != ERR_NONE)
            return code;
        page->items.count++;
    }
}

enum err_code store_operations(struct store *store, struct store_operation_query query,
                               struct operation_page *ret_page, struct err *reterr)
{
    assert(query.limit >= 1 && query.limit <= LIMIT_MAX);
    bool bounded = query.before != 0 && query.before <= INT64_MAX;
    sqlite3_stmt *statement = store_statement(store, STORE_OPERATION_PAGE);
    store_bind_int(statement, 1, bounded ? (int64_t)query.before : INT64_MAX);
    store_bind_text(statement, 2, query.job);
    store_bind_text(
        statement, 3,
        query.only_state ? schema_enum_name(schema_names_operation_state, (int)query.state) : NULL);
    store_bind_int(statement, 4, (int64_t)query.limit + 1);
    struct operation_page page = {0};
    page.items.items = mem_calloc(query.limit, sizeof(struct operation_view));
    enum err_code code = fill_operations(store, statement, query.limit, &page, reterr);
    store_leave(statement);
    if (code == ERR_NONE)
        *ret_page = page;
    else
        schema_free(&schema_operation_page, &page);
    return code;
}

enum err_code store_operation(struct store *store, uint64_t id, struct operation_view *ret_view,
                              struct err *reterr)
{
    bool found = false;
    sqlite3_stmt *statement = store_statement(store, STORE_OPERATION_GET);
    store_bind_uint(statement, 1, id <= INT64_MAX ? id : INT64_MAX);
    enum err_code code = store_next(store, statement, &found, reterr);
    if (code == ERR_NONE && !found)
        return err_set(reterr, ERR_NOT_FOUND, "there is no operation op-%" PRIu64, id);
    if (code == ERR_NONE)
        code = read_operation_view(store, statement, ret_view, reterr);
    store_leave(statement);
    return code;
}
