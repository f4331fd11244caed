/* What a job holds back for the sake of its group, on disk: a row while it does. */
#include "api/schema.h"
#include "coordinator/store_internal.h"

enum err_code store_write_group_hold(struct store *store, const struct job_row *row,
                                     struct err *reterr)
{
    bool held = row->group.hold != GROUP_HOLD_NONE;
    enum store_statement which = held ? STORE_GROUP_HOLD_PUT : STORE_GROUP_HOLD_REMOVE;
    sqlite3_stmt *statement = store_statement(store, which);
    store_bind_text(statement, 1, row->name);
    if (held) {
        store_bind_text(statement, 2,
                        schema_enum_name(schema_names_group_hold, (int)row->group.hold));
        store_bind_int(statement, 3, row->group.since_at);
    }
    return store_run(store, which, reterr);
}

enum err_code store_load_group_hold(struct store *store, struct job_row *row, struct err *reterr)
{
    bool found;
    int hold;
    sqlite3_stmt *statement = store_statement(store, STORE_GROUP_HOLD_GET);
    store_bind_text(statement, 1, row->name);
    row->group = (struct group_row){.since_at = API_UNKNOWN};
    enum err_code code = store_next(store, statement, &found, reterr);
    if (code != ERR_NONE || !found)
        return code;
    code = store_column_enum(store, statement, 0, schema_names_group_hold, &hold, reterr);
    if (code == ERR_NONE)
        row->group = (struct group_row){(enum group_hold)hold, store_column_int(statement, 1)};
    store_leave(statement);
    return code;
}
