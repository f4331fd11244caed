/* Settle windows on disk. */
#include "coordinator/store_internal.h"

enum err_code store_write_window(struct store *store, const struct window_row *row,
                                 struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_WINDOW_PUT);
    store_bind_text(statement, 1, row->job);
    store_bind_int(statement, 2, row->window.topic);
    store_bind_int(statement, 3, row->window.partition);
    store_bind_uint(statement, 4, row->window.number);
    store_bind_int(statement, 5, row->window.first_end);
    store_bind_int(statement, 6, row->window.end);
    store_bind_known(statement, 7, row->window.fence);
    store_bind_int(statement, 8, row->opened_at);
    store_bind_known(statement, 9, row->closed_at);
    store_bind_uint(statement, 10, row->old_records);
    store_bind_known(statement, 11, row->old_at);
    store_bind_int(statement, 12, row->stale);
    return store_run(store, STORE_WINDOW_PUT, reterr);
}

/* Of a partition that is there; cluster_check knows what else there is to say about it. */
static bool has_place(const struct cluster *cluster, sqlite3_stmt *statement)
{
    const struct job *job = cluster_job(cluster, store_column_peek(statement, 0));
    int64_t topic = store_column_int(statement, 1), partition = store_column_int(statement, 2);
    return job != NULL && topic >= 0 && (uint64_t)topic < job->row.spec.inputs.count &&
           partition >= 0 && partition < job->row.partitions &&
           store_column_int(statement, 3) > 0 && store_column_int(statement, 9) >= 0;
}

enum err_code store_load_windows(struct store *store, struct cluster *cluster, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_WINDOW_LIST);
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        if (!has_place(cluster, statement)) {
            store_leave(statement);
            return store_corrupt(store, "a settle window of a partition that no job has", reterr);
        }
        struct change change = {
            .kind = CHANGE_WINDOW,
            .window = {.job = store_column_text(statement, 0),
                       .window = {.topic = (uint32_t)store_column_int(statement, 1),
                                  .partition = (uint32_t)store_column_int(statement, 2),
                                  .number = (uint64_t)store_column_int(statement, 3),
                                  .first_end = store_column_int(statement, 4),
                                  .end = store_column_int(statement, 5),
                                  .fence = store_column_known(statement, 6)},
                       .opened_at = store_column_int(statement, 7),
                       .closed_at = store_column_known(statement, 8),
                       .old_records = (uint64_t)store_column_int(statement, 9),
                       .old_at = store_column_known(statement, 10),
                       .stale = store_column_int(statement, 11) != 0}};
        cluster_apply(cluster, &change);
    }
}
