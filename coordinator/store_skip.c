/* Records that are passed, and committed offsets that were chosen, on disk. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/store_internal.h"

/* ---- skips */

enum err_code store_write_skip(struct store *store, const struct skip_row *row, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_SKIP_PUT);
    store_bind_text(statement, 1, row->job);
    store_bind_int(statement, 2, row->topic);
    store_bind_int(statement, 3, row->partition);
    store_bind_int(statement, 4, row->offset);
    store_bind_int(statement, 5, row->processor);
    store_bind_text(statement, 6, row->reason);
    store_bind_text(statement, 7, row->actor);
    store_bind_int(statement, 8, row->skipped_at);
    return store_run(store, STORE_SKIP_PUT, reterr);
}

/* Of a job that is here; cluster_check knows what else there is to say about it. */
static bool has_job(const struct cluster *cluster, sqlite3_stmt *statement)
{
    const struct job *job = cluster_job(cluster, store_column_peek(statement, 0));
    int64_t topic = store_column_int(statement, 1), partition = store_column_int(statement, 2);
    int64_t processor = store_column_int(statement, 4);
    return job != NULL && topic >= 0 && (uint64_t)topic < job->row.spec.inputs.count &&
           partition >= 0 && partition < job->row.partitions && processor >= 0 &&
           processor < job->row.processors;
}

enum err_code store_load_skips(struct store *store, struct cluster *cluster, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_SKIP_LIST);
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        if (!has_job(cluster, statement)) {
            store_leave(statement);
            return store_corrupt(store, "a skip of a record that no job has", reterr);
        }
        struct change change = {.kind = CHANGE_SKIP,
                                .skip = {.job = store_column_text(statement, 0),
                                         .topic = (uint32_t)store_column_int(statement, 1),
                                         .partition = (uint32_t)store_column_int(statement, 2),
                                         .offset = store_column_int(statement, 3),
                                         .processor = (uint32_t)store_column_int(statement, 4),
                                         .reason = store_column_text(statement, 5),
                                         .actor = store_column_text(statement, 6),
                                         .skipped_at = store_column_int(statement, 7)}};
        cluster_apply(cluster, &change);
    }
}

/* ---- "[[0,4,1000,990],[0,5,-1,990]]" */

char *store_print_chosen(const struct placement_row *row)
{
    struct strbuf text = {0};
    if (row->chosen.count == 0)
        return NULL;
    for (size_t i = 0; i < row->chosen.count; i++) {
        const struct chosen_offset *chosen = &row->chosen.items[i];
        strbuf_printf(&text, "%s[%u,%u,%" PRId64 ",%" PRId64 "]", i > 0 ? "," : "[", chosen->topic,
                      chosen->partition, chosen->found, chosen->offset);
    }
    strbuf_printf(&text, "]");
    return strbuf_take(&text);
}

/* One "[0,4,1000,990]"; NULL: it is none. */
static const char *parse_one(const char *text, struct chosen_offset *ret_chosen)
{
    int bytes = 0;
    struct chosen_offset chosen;
    if (sscanf(text, "[%" SCNu32 ",%" SCNu32 ",%" SCNd64 ",%" SCNd64 "]%n", &chosen.topic,
               &chosen.partition, &chosen.found, &chosen.offset, &bytes) != 4 ||
        bytes == 0 || chosen.topic >= API_INPUTS_MAX || chosen.partition >= API_PARTITIONS_MAX ||
        chosen.found < API_UNKNOWN || chosen.offset < 0)
        return NULL;
    *ret_chosen = chosen;
    return text + bytes;
}

bool store_parse_chosen(const char *text, struct placement_row *row)
{
    size_t capacity = 0;
    bool valid = *text == '\0' || *text == '[';
    const char *at = text;
    while (valid && *at != '\0' && strcmp(at, "]") != 0) {
        struct chosen_offset chosen;
        const char *end = parse_one(at + 1, &chosen); /* behind '[' at first, then ',' */
        valid = end != NULL && (*end == ',' || strcmp(end, "]") == 0);
        if (!valid)
            break;
        row->chosen.items =
            mem_grow(row->chosen.items, row->chosen.count, &capacity, sizeof(struct chosen_offset));
        row->chosen.items[row->chosen.count++] = chosen;
        at = end;
    }
    if (!valid)
        free(row->chosen.items);
    return valid;
}
