/* Standbys on disk: written and loaded. */
#include "coordinator/core/rows.h"
#include "coordinator/store_internal.h"

enum err_code store_write_standby(struct store *store, const struct standby_row *row,
                                  struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_STANDBY_PUT);
    store_bind_text(statement, 1, row->job);
    store_bind_int(statement, 2, row->processor);
    store_bind_text(statement, 3, row->agent);
    store_bind_text(statement, 4, row->agent_incarnation);
    store_bind_text(statement, 5, row->reason);
    store_bind_int(statement, 6, row->started_at);
    return store_run(store, STORE_STANDBY_PUT, reterr);
}

enum err_code store_remove_standby(struct store *store, const struct standby_row *row,
                                   struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_STANDBY_REMOVE);
    store_bind_text(statement, 1, row->job);
    store_bind_int(statement, 2, row->processor);
    store_bind_text(statement, 3, row->agent);
    return store_run(store, STORE_STANDBY_REMOVE, reterr);
}

/* Of a processor that is here: what cluster_apply takes for granted. */
static bool has_place(const struct cluster *cluster, sqlite3_stmt *statement, int64_t processor)
{
    const struct job *job = cluster_job(cluster, store_column_peek(statement, 0));
    return job != NULL && processor >= 0 && (uint64_t)processor < job->processors.count;
}

enum err_code store_load_standbys(struct store *store, struct cluster *cluster, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_STANDBY_LIST);
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        int64_t processor = store_column_int(statement, 1);
        if (!has_place(cluster, statement, processor)) {
            store_leave(statement);
            return store_corrupt(store, "a standby without its processor", reterr);
        }
        struct change change = {.kind = CHANGE_STANDBY,
                                .standby = {.job = store_column_text(statement, 0),
                                            .processor = (uint32_t)processor,
                                            .agent = store_column_text(statement, 2),
                                            .agent_incarnation = store_column_text(statement, 3),
                                            .reason = store_column_text(statement, 4),
                                            .started_at = store_column_int(statement, 5)}};
        cluster_apply(cluster, &change);
    }
}
