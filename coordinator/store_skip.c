/* Records that are passed, and committed offsets that were chosen, on disk. */
#include <stdlib.h>

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

/* ---- chosen offsets: topic, partition, what was found there, what was chosen */

char *store_print_chosen(const struct placement_row *row)
{
    struct strbuf text = {0};
    for (size_t i = 0; i < row->chosen.count; i++) {
        const struct chosen_offset *chosen = &row->chosen.items[i];
        store_list_add(&text, 2,
                       &(struct store_list_row){
                           chosen->topic, chosen->partition, {chosen->found, chosen->offset}});
    }
    return store_list_end(&text);
}

static bool take_chosen(void *arg, const struct store_list_row *read)
{
    struct placement_row *row = arg;
    if (read->numbers[0] < API_UNKNOWN || read->numbers[1] < 0)
        return false;
    row->chosen.items =
        mem_realloc(row->chosen.items, row->chosen.count + 1, sizeof(*row->chosen.items));
    row->chosen.items[row->chosen.count++] = (struct chosen_offset){.topic = read->topic,
                                                                    .partition = read->partition,
                                                                    .found = read->numbers[0],
                                                                    .offset = read->numbers[1]};
    return true;
}

bool store_parse_chosen(const char *text, struct placement_row *row)
{
    if (store_list_read(text, 2, take_chosen, row))
        return true;
    free(row->chosen.items);
    return false;
}
