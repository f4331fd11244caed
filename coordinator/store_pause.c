/* What people hold back, and where it stood then. */
#include <stdlib.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/store_internal.h"

void store_bind_hold(sqlite3_stmt *statement, int first, const struct hold *hold)
{
    store_bind_int(statement, first, hold->on);
    store_bind_text(statement, first + 1, hold->reason);
    store_bind_text(statement, first + 2, hold->actor);
    store_bind_known(statement, first + 3, hold->changed_at);
}

void store_read_hold(sqlite3_stmt *statement, int first, struct hold *ret_hold)
{
    *ret_hold = (struct hold){.on = store_column_int(statement, first) != 0,
                              .reason = store_column_text(statement, first + 1),
                              .actor = store_column_text(statement, first + 2),
                              .changed_at = store_column_known(statement, first + 3)};
}

/* ---- offsets of inputs: topic, partition, offset */

char *store_print_offsets(const struct input_offset *items, size_t count)
{
    struct strbuf text = {0};
    for (size_t i = 0; i < count; i++)
        store_list_add(
            &text, 1,
            &(struct store_list_row){items[i].topic, items[i].partition, {items[i].offset}});
    return store_list_end(&text);
}

struct offsets {
    struct input_offset *items;
    size_t count, capacity;
};

static bool take_offset(void *arg, const struct store_list_row *read)
{
    struct offsets *offsets = arg;
    if (read->numbers[0] < 0)
        return false;
    offsets->items =
        mem_grow(offsets->items, offsets->count, &offsets->capacity, sizeof(*offsets->items));
    offsets->items[offsets->count++] = (struct input_offset){
        .topic = read->topic, .partition = read->partition, .offset = read->numbers[0]};
    return true;
}

bool store_parse_offsets(const char *text, struct input_offset **ret_items, size_t *ret_count)
{
    struct offsets offsets = {0};
    if (!store_list_read(text, 1, take_offset, &offsets)) {
        free(offsets.items);
        return false;
    }
    *ret_items = offsets.items;
    *ret_count = offsets.count;
    return true;
}

/* ---- maintenance */

enum err_code store_write_maintenance(struct store *store, const struct maintenance_row *row,
                                      struct err *reterr)
{
    store_bind_hold(store_statement(store, STORE_MAINTENANCE_PUT), 1, &row->hold);
    return store_run(store, STORE_MAINTENANCE_PUT, reterr);
}

enum err_code store_load_maintenance(struct store *store, struct cluster *cluster,
                                     struct err *reterr)
{
    bool found;
    sqlite3_stmt *statement = store_statement(store, STORE_MAINTENANCE_GET);
    enum err_code code = store_next(store, statement, &found, reterr);
    if (code != ERR_NONE || !found)
        return code;
    struct change change = {.kind = CHANGE_MAINTENANCE};
    store_read_hold(statement, 0, &change.maintenance.hold);
    store_leave(statement);
    cluster_apply(cluster, &change);
    return ERR_NONE;
}
