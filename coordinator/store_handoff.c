/* Hand-overs on disk: written, loaded, and read in pages. */
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "api/schema.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/view.h"
#include "coordinator/store_internal.h"

#define LIMIT_MAX 1000

/* Columns from this one on: the times in each state. */
#define COLUMN_SPENT 21

/* ---- partitions: "[0,4]" */

static char *print_partitions(const struct uint_list *partitions)
{
    struct strbuf text = {0};
    strbuf_printf(&text, "[");
    for (size_t i = 0; i < partitions->count; i++)
        strbuf_printf(&text, "%s%u", i > 0 ? "," : "", partitions->items[i]);
    strbuf_printf(&text, "]");
    return strbuf_take(&text);
}

/* Exactly what print_partitions writes; false: it is something else. */
static bool parse_partitions(const char *text, struct uint_list *ret_partitions)
{
    struct uint_list partitions = {0};
    size_t capacity = 0;
    bool valid = *text == '[';
    const char *at = text + 1;
    while (valid && *at != ']') {
        char *end = NULL;
        unsigned long number = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : ULONG_MAX;
        valid = number < API_PARTITIONS_MAX && (*end == ',' || *end == ']') &&
                partitions.count < API_PARTITIONS_MAX;
        if (!valid)
            break;
        partitions.items =
            mem_grow(partitions.items, partitions.count, &capacity, sizeof(uint32_t));
        partitions.items[partitions.count++] = (uint32_t)number;
        at = *end == ',' ? end + 1 : end;
    }
    valid = valid && at[1] == '\0';
    if (valid)
        *ret_partitions = partitions;
    else
        free(partitions.items);
    return valid;
}

/* ---- rows */

enum err_code store_write_handoff(struct store *store, const struct handoff_row *row,
                                  struct err *reterr)
{
    char *partitions = print_partitions(&row->partitions);
    sqlite3_stmt *statement = store_statement(store, STORE_HANDOFF_PUT);
    store_bind_uint(statement, 1, row->id);
    store_bind_text(statement, 2, schema_enum_name(schema_names_handoff_kind, (int)row->kind));
    store_bind_text(statement, 3, row->job);
    store_bind_text(statement, 4, row->job_incarnation);
    store_bind_int(statement, 5, row->processor);
    store_bind_text(statement, 6, partitions);
    store_bind_text(statement, 7, schema_enum_name(schema_names_handoff_state, (int)row->state));
    store_bind_int(statement, 8, row->forced);
    store_bind_int(statement, 9, row->planned);
    store_bind_text(statement, 10, row->source);
    store_bind_text(statement, 11, row->source_incarnation);
    store_bind_uint(statement, 12, row->source_epoch);
    store_bind_text(statement, 13, row->target);
    store_bind_text(statement, 14, row->target_incarnation);
    store_bind_uint(statement, 15, row->target_epoch);
    store_bind_uint(statement, 16, row->operation);
    store_bind_text(statement, 17, row->reason);
    store_bind_text(statement, 18, row->error);
    store_bind_int(statement, 19, row->started_at);
    store_bind_int(statement, 20, row->changed_at);
    store_bind_known(statement, 21, row->stopped_at);
    for (int i = 0; i < HANDOFF_PHASES; i++)
        store_bind_known(statement, COLUMN_SPENT + 1 + i, row->spent_ms[i]);
    store_bind_known(statement, COLUMN_SPENT + 1 + HANDOFF_PHASES, row->output_gap_ms);
    store_bind_known(statement, COLUMN_SPENT + 2 + HANDOFF_PHASES, row->parent);
    enum err_code code = store_run(store, STORE_HANDOFF_PUT, reterr);
    free(partitions);
    return code;
}

static enum err_code read_numbers(const struct store *store, sqlite3_stmt *statement,
                                  struct handoff_row *row, struct err *reterr)
{
    const struct {
        int column;
        uint64_t *number;
    } numbers[] = {
        {0, &row->id}, {11, &row->source_epoch}, {14, &row->target_epoch}, {15, &row->operation}};
    enum err_code code =
        store_column_count(store, statement, 4, API_PARTITIONS_MAX - 1, &row->processor, reterr);
    for (size_t i = 0; code == ERR_NONE && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        code = store_column_uint(store, statement, numbers[i].column, numbers[i].number, reterr);
    row->forced = store_column_int(statement, 7) != 0;
    row->planned = store_column_int(statement, 8) != 0;
    row->started_at = store_column_int(statement, 18);
    row->changed_at = store_column_int(statement, 19);
    row->stopped_at = store_column_known(statement, 20);
    for (int i = 0; i < HANDOFF_PHASES; i++)
        row->spent_ms[i] = store_column_known(statement, COLUMN_SPENT + i);
    row->output_gap_ms = store_column_known(statement, COLUMN_SPENT + HANDOFF_PHASES);
    row->parent = store_column_known(statement, COLUMN_SPENT + 1 + HANDOFF_PHASES);
    return code;
}

enum err_code store_read_handoff(const struct store *store, sqlite3_stmt *statement,
                                 struct handoff_row *ret_row, struct err *reterr)
{
    int kind, state;
    struct handoff_row row = {0};
    enum err_code code =
        store_column_enum(store, statement, 1, schema_names_handoff_kind, &kind, reterr);
    if (code == ERR_NONE)
        code = store_column_enum(store, statement, 6, schema_names_handoff_state, &state, reterr);
    if (code == ERR_NONE)
        code = read_numbers(store, statement, &row, reterr);
    if (code == ERR_NONE && !parse_partitions(store_column_peek(statement, 5), &row.partitions))
        code = store_corrupt(store, "the partitions of a hand-over", reterr);
    if (code != ERR_NONE)
        return code;
    row.kind = (enum handoff_kind)kind;
    row.state = (enum handoff_state)state;
    row.job = store_column_text(statement, 2);
    row.job_incarnation = store_column_text(statement, 3);
    row.source = store_column_text(statement, 9);
    row.source_incarnation = store_column_text(statement, 10);
    row.target = store_column_text(statement, 12);
    row.target_incarnation = store_column_text(statement, 13);
    row.reason = store_column_text(statement, 16);
    row.error = store_column_text(statement, 17);
    *ret_row = row;
    return ERR_NONE;
}

/* ---- loading */

/* One a processor, of a job that is here: what cluster_apply takes for granted. */
static bool has_place(const struct cluster *cluster, const struct handoff_row *row)
{
    const struct job *job = cluster_job(cluster, row->job);
    if (job == NULL)
        return false;
    if (row->kind == HANDOFF_KIND_SPLIT && row->processor == job->processors.count)
        return !job->nascent && handoff_before_release(row->state) &&
               row->processor < job->row.partitions;
    return row->processor < job->processors.count &&
           job->processors.items[row->processor].handoff == NULL;
}

enum err_code store_load_handoffs(struct store *store, struct cluster *cluster, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_HANDOFF_LIST);
    for (;;) {
        bool found;
        struct change change = {.kind = CHANGE_HANDOFF};
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        code = store_read_handoff(store, statement, &change.handoff, reterr);
        if (code == ERR_NONE && !has_place(cluster, &change.handoff)) {
            change_finish(&change);
            code =
                store_corrupt(store, "a hand-over without its processor, or a second one", reterr);
        }
        if (code != ERR_NONE) {
            store_leave(statement);
            return code;
        }
        cluster_apply(cluster, &change);
    }
}

/* ---- pages */

static enum err_code read_view(const struct store *store, sqlite3_stmt *statement,
                               struct handoff_view *ret_view, struct err *reterr)
{
    struct handoff_row row;
    enum err_code code = store_read_handoff(store, statement, &row, reterr);
    if (code != ERR_NONE)
        return code;
    view_handoff(&row, ret_view);
    rows_finish_handoff(&row);
    return ERR_NONE;
}

/* One row more than was asked for is read: it tells that there is a next page. */
static enum err_code fill_page(struct store *store, sqlite3_stmt *statement, uint32_t limit,
                               struct handoff_page *page, struct err *reterr)
{
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        if (page->items.count == limit) {
            page->next = mem_printf("%" PRIu64, page->items.items[limit - 1].id);
            return ERR_NONE;
        }
        code = read_view(store, statement, &page->items.items[page->items.count], reterr);
        if (code != ERR_NONE)
            return code;
        page->items.count++;
    }
}

enum err_code store_handoffs(struct store *store, struct store_handoff_query query,
                             struct handoff_page *ret_page, struct err *reterr)
{
    assert(query.limit >= 1 && query.limit <= LIMIT_MAX);
    bool bounded = query.before != 0 && query.before <= INT64_MAX;
    sqlite3_stmt *statement = store_statement(store, STORE_HANDOFF_PAGE);
    store_bind_int(statement, 1, bounded ? (int64_t)query.before : INT64_MAX);
    store_bind_text(statement, 2, query.job);
    store_bind_text(
        statement, 3,
        query.only_state ? schema_enum_name(schema_names_handoff_state, (int)query.state) : NULL);
    store_bind_int(statement, 4, (int64_t)query.limit + 1);
    struct handoff_page page = {0};
    page.items.items = mem_calloc(query.limit, sizeof(struct handoff_view));
    enum err_code code = fill_page(store, statement, query.limit, &page, reterr);
    store_leave(statement);
    if (code == ERR_NONE)
        *ret_page = page;
    else
        schema_free(&schema_handoff_page, &page);
    return code;
}

enum err_code store_handoff(struct store *store, uint64_t id, struct handoff_view *ret_view,
                            struct err *reterr)
{
    bool found = false;
    sqlite3_stmt *statement = store_statement(store, STORE_HANDOFF_GET);
    store_bind_uint(statement, 1, id <= INT64_MAX ? id : INT64_MAX);
    enum err_code code = store_next(store, statement, &found, reterr);
    if (code == ERR_NONE && !found)
        return err_set(reterr, ERR_NOT_FOUND, "there is no hand-over %" PRIu64, id);
    if (code == ERR_NONE)
        code = read_view(store, statement, ret_view, reterr);
    store_leave(statement);
    return code;
}
