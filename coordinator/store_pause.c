/* What people hold back, and where it stood then. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- "[[0,4,1000],[0,5,990]]" */

char *store_print_offsets(const struct input_offset *items, size_t count)
{
    struct strbuf text = {0};
    if (count == 0)
        return NULL;
    for (size_t i = 0; i < count; i++)
        strbuf_printf(&text, "%s[%u,%u,%" PRId64 "]", i > 0 ? "," : "[", items[i].topic,
                      items[i].partition, items[i].offset);
    strbuf_printf(&text, "]");
    return strbuf_take(&text);
}

/* One "[0,4,1000]"; NULL: it is none. */
static const char *parse_one(const char *text, struct input_offset *ret_t1)
{
    int bytes = 0;
    int64_t offset;
    uint32_t topic, partition;
    if (sscanf(text, "[%" SCNu32 ",%" SCNu32 ",%" SCNd64 "]%n", &topic, &partition, &offset,
               &bytes) != 3 ||
        bytes == 0 || topic >= API_INPUTS_MAX || partition >= API_PARTITIONS_MAX || offset < 0)
        return NULL;
    *ret_t1 = (struct input_offset){.topic = topic, .partition = partition, .offset = offset};
    return text + bytes;
}

bool store_parse_offsets(const char *text, struct input_offset **ret_items, size_t *ret_count)
{
    struct input_offset *items = NULL;
    size_t count = 0, capacity = 0;
    bool valid = *text == '\0' || *text == '[';
    const char *at = text;
    while (valid && *at != '\0' && strcmp(at, "]") != 0) {
        struct input_offset t1;
        const char *end = parse_one(at + 1, &t1); /* behind '[' at first, then ',' */
        valid = end != NULL && (*end == ',' || strcmp(end, "]") == 0);
        if (!valid)
            break;
        items = mem_grow(items, count, &capacity, sizeof(*items));
        items[count++] = t1;
        at = end;
    }
    if (!valid) {
        free(items);
        return false;
    }
    *ret_items = items;
    *ret_count = count;
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
