/* Reading everything that is durable into a cluster. Rows are checked as if someone had edited
 * them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/schema.h"
#include "common/mem.h"
#include "common/rng.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/rows.h"
#include "coordinator/store_internal.h"

static_assert(UUID_TEXT_BYTES == API_UUID_BYTES + 1, "a UUID's text with its NUL");

/* ---- meta */

static enum err_code make_meta(struct store *store, struct cluster *cluster, struct err *reterr)
{
    struct update update = {0};
    struct change change = {.kind = CHANGE_META};
    rng_uuid(change.meta.cluster);
    update_change(&update, cluster, &change);
    enum err_code code = store_commit(store, &update, reterr);
    update_finish(&update);
    return code;
}

static enum err_code load_meta(struct store *store, struct cluster *cluster, struct err *reterr)
{
    bool found;
    sqlite3_stmt *statement = store_statement(store, STORE_META_GET);
    enum err_code code = store_next(store, statement, &found, reterr);
    if (code != ERR_NONE)
        return code;
    if (!found)
        return make_meta(store, cluster, reterr);
    struct change change = {.kind = CHANGE_META};
    uint64_t *const numbers[] = {&change.meta.start_number, &change.meta.decision,
                                 &change.meta.epoch,        &change.meta.event_id,
                                 &change.meta.operation_id, &change.meta.handoff_id};
    for (int i = 0; code == ERR_NONE && i < 6; i++)
        code = store_column_uint(store, statement, i + 1, numbers[i], reterr);
    const char *uuid = store_column_peek(statement, 0);
    if (code == ERR_NONE && !schema_uuid_valid(uuid))
        code = store_corrupt(store, "the cluster's UUID", reterr);
    if (code == ERR_NONE) {
        memcpy(change.meta.cluster, uuid, UUID_TEXT_BYTES);
        cluster_apply(cluster, &change);
    }
    store_leave(statement);
    return code;
}

/* ---- agents */

static enum err_code load_tags(struct store *store, struct agent_row *row, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_TAG_LIST);
    store_bind_text(statement, 1, row->agent_id);
    size_t capacity = 0;
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        row->tags.items = mem_grow(row->tags.items, row->tags.count, &capacity, sizeof(struct tag));
        row->tags.items[row->tags.count++] = (struct tag){.name = store_column_text(statement, 0),
                                                          .value = store_column_text(statement, 1)};
    }
}

/* Its texts are the caller's to free in any case. */
static enum err_code read_drain(struct store *store, sqlite3_stmt *statement,
                                struct agent_drain *ret_drain, struct err *reterr)
{
    int state = 0, on_deadline;
    bool asked = sqlite3_column_type(statement, 13) != SQLITE_NULL;
    enum err_code code =
        store_column_enum(store, statement, 14, schema_names_drain_deadline, &on_deadline, reterr);
    if (code == ERR_NONE && asked)
        code = store_column_enum(store, statement, 13, schema_names_drain_state, &state, reterr);
    if (code == ERR_NONE)
        code = store_column_count(store, statement, 17, UINT32_MAX, &ret_drain->processors, reterr);
    if (code != ERR_NONE)
        return code;
    ret_drain->asked = asked;
    ret_drain->state = (enum drain_state)state;
    ret_drain->on_deadline = (enum drain_deadline)on_deadline;
    ret_drain->until_restart = store_column_int(statement, 15) != 0;
    ret_drain->overdue = store_column_int(statement, 16) != 0;
    ret_drain->reason = store_column_text(statement, 18);
    ret_drain->actor = store_column_text(statement, 19);
    ret_drain->error = store_column_text(statement, 20);
    ret_drain->deadline_ms = store_column_known(statement, 21);
    ret_drain->deadline_at = store_column_known(statement, 22);
    ret_drain->started_at = store_column_known(statement, 23);
    ret_drain->ended_at = store_column_known(statement, 24);
    return ERR_NONE;
}

static enum err_code read_agent(struct store *store, sqlite3_stmt *statement,
                                struct agent_row *ret_row, struct err *reterr)
{
    int state;
    enum err_code code =
        store_column_enum(store, statement, 2, schema_names_agent_state, &state, reterr);
    if (code != ERR_NONE)
        return code;
    struct agent_row row = {.state = (enum agent_state)state,
                            .registered_at = store_column_int(statement, 7)};
    code = store_column_count(store, statement, 5, UINT32_MAX, &row.protocol, reterr);
    if (code == ERR_NONE)
        code = store_column_count(store, statement, 6, API_TASKS_MAX, &row.capacity, reterr);
    if (code == ERR_NONE)
        code = store_column_count(store, statement, 8, API_TASKS_MAX, &row.max_learners, reterr);
    if (code != ERR_NONE)
        return code;
    row.agent_id = store_column_text(statement, 0);
    row.incarnation = store_column_text(statement, 1);
    row.version = store_column_text(statement, 3);
    row.address = store_column_text(statement, 4);
    row.eligibility = (struct agent_eligibility){.cordoned = store_column_int(statement, 9) != 0,
                                                 .reason = store_column_text(statement, 10),
                                                 .actor = store_column_text(statement, 11),
                                                 .changed_at = store_column_known(statement, 12)};
    code = read_drain(store, statement, &row.drain, reterr);
    if (code == ERR_NONE)
        code = load_tags(store, &row, reterr);
    if (code != ERR_NONE) {
        rows_finish_agent(&row);
        return code;
    }
    *ret_row = row;
    return ERR_NONE;
}

static enum err_code load_agents(struct store *store, struct cluster *cluster, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_AGENT_LIST);
    for (;;) {
        bool found;
        struct change change = {.kind = CHANGE_AGENT};
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        code = read_agent(store, statement, &change.agent, reterr);
        if (code != ERR_NONE) {
            store_leave(statement);
            return code;
        }
        cluster_apply(cluster, &change);
    }
}

/* ---- jobs */

static enum err_code load_warnings(struct store *store, struct job_row *row, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_WARNING_LIST);
    store_bind_text(statement, 1, row->name);
    size_t capacity = 0;
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        row->warnings.items =
            mem_grow(row->warnings.items, row->warnings.count, &capacity, sizeof(char *));
        row->warnings.items[row->warnings.count++] = store_column_text(statement, 0);
    }
}

static enum err_code load_origins(struct store *store, struct job_row *row, struct err *reterr)
{
    size_t expected = row->spec.inputs.count * row->partitions;
    row->origins.items = mem_calloc(expected, sizeof(struct input_offset));
    row->starts.items = mem_calloc(expected, sizeof(struct input_offset));
    sqlite3_stmt *statement = store_statement(store, STORE_ORIGIN_LIST);
    store_bind_text(statement, 1, row->name);
    for (;;) {
        bool found;
        struct input_offset origin;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        code = store_column_count(store, statement, 0, API_INPUTS_MAX, &origin.topic, reterr);
        if (code == ERR_NONE)
            code = store_column_count(store, statement, 1, API_PARTITIONS_MAX, &origin.partition,
                                      reterr);
        if (code == ERR_NONE && row->origins.count == expected)
            code = store_corrupt(store, "more origins than partitions", reterr);
        if (code != ERR_NONE) {
            store_leave(statement);
            return code;
        }
        struct input_offset start = origin;
        origin.offset = store_column_int(statement, 2);
        start.offset = store_column_int(statement, 3);
        row->origins.items[row->origins.count++] = origin;
        row->starts.items[row->starts.count++] = start;
    }
}

static enum err_code read_spec(struct store *store, sqlite3_stmt *statement, int column,
                               struct job_spec *ret_spec, struct err *reterr)
{
    const char *text = store_column_peek(statement, column);
    struct err err;
    if (codec_decode(&schema_job_spec, text, strlen(text), ret_spec, NULL, &err) == ERR_NONE)
        return ERR_NONE;
    return store_corrupt(store, err.text, reterr);
}

/* All but its lists. */
static enum err_code read_job(struct store *store, sqlite3_stmt *statement, struct job_row *ret_row,
                              struct err *reterr)
{
    struct job_row row = {.created_at = store_column_int(statement, 4)};
    const struct {
        int column;
        uint64_t *number;
    } numbers[] = {{3, &row.generation}, {9, &row.map_version}, {12, &row.operation}};
    const struct {
        int column;
        uint32_t *count;
    } counts[] = {{5, &row.partitions_initial},
                  {6, &row.partitions},
                  {7, &row.processors_initial},
                  {8, &row.processors}};
    int state, partitioner;
    enum err_code code =
        store_column_enum(store, statement, 2, schema_names_job_state, &state, reterr);
    if (code == ERR_NONE)
        code = store_column_enum(store, statement, 10, schema_names_effective_partitioner,
                                 &partitioner, reterr);
    for (size_t i = 0; code == ERR_NONE && i < sizeof(counts) / sizeof(counts[0]); i++)
        code = store_column_count(store, statement, counts[i].column, API_PARTITIONS_MAX,
                                  counts[i].count, reterr);
    for (size_t i = 0; code == ERR_NONE && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        code = store_column_uint(store, statement, numbers[i].column, numbers[i].number, reterr);
    if (code == ERR_NONE && !schema_uuid_valid(store_column_peek(statement, 1)))
        code = store_corrupt(store, "a job's incarnation", reterr);
    if (code == ERR_NONE)
        code = read_spec(store, statement, 13, &row.spec, reterr);
    if (code != ERR_NONE)
        return code;
    row.state = (enum job_state)state;
    row.partitioner = (enum effective_partitioner)partitioner;
    row.name = store_column_text(statement, 0);
    row.incarnation = store_column_text(statement, 1);
    row.partitioner_reason = store_column_text(statement, 11);
    store_read_hold(statement, 14, &row.pause);
    *ret_row = row;
    return ERR_NONE;
}

static enum err_code load_jobs(struct store *store, struct cluster *cluster, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_JOB_LIST);
    for (;;) {
        bool found;
        struct change change = {.kind = CHANGE_JOB};
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        code = read_job(store, statement, &change.job, reterr);
        if (code == ERR_NONE)
            code = load_warnings(store, &change.job, reterr);
        if (code == ERR_NONE)
            code = load_origins(store, &change.job, reterr);
        if (code == ERR_NONE)
            code = store_load_group_hold(store, &change.job, reterr);
        if (code != ERR_NONE) {
            change_finish(&change);
            store_leave(statement);
            return code;
        }
        cluster_apply(cluster, &change);
    }
}

/* ---- processors */

static bool has_processor(const struct cluster *cluster, const char *name, int64_t processor)
{
    const struct job *job = cluster_job(cluster, name);
    return job != NULL && processor >= 0 && (uint64_t)processor < job->processors.count;
}

static bool has_partition(const struct cluster *cluster, const char *name, int64_t topic,
                          int64_t partition)
{
    const struct job *job = cluster_job(cluster, name);
    return job != NULL && topic >= 0 && (uint64_t)topic < job->row.spec.inputs.count &&
           partition >= 0 && partition < job->row.partitions;
}

static enum err_code load_placements(struct store *store, struct cluster *cluster,
                                     struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_PLACEMENT_LIST);
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        uint64_t epoch, handoff;
        int64_t processor = store_column_int(statement, 1);
        code = store_column_uint(store, statement, 4, &epoch, reterr);
        if (code == ERR_NONE)
            code = store_column_uint(store, statement, 9, &handoff, reterr);
        if (code == ERR_NONE && !has_processor(cluster, store_column_peek(statement, 0), processor))
            code = store_corrupt(store, "a placement without its job", reterr);
        struct placement_row paused = {0};
        if (code == ERR_NONE &&
            !store_parse_offsets(store_column_peek(statement, 10), &paused.paused_t1.items,
                                 &paused.paused_t1.count))
            code = store_corrupt(store, "the offsets at which a processor was paused", reterr);
        if (code == ERR_NONE && !store_parse_chosen(store_column_peek(statement, 11), &paused)) {
            free(paused.paused_t1.items);
            code = store_corrupt(store, "the committed offsets that were chosen", reterr);
        }
        if (code == ERR_NONE && !store_parse_bounds(store_column_peek(statement, 12), &paused)) {
            free(paused.paused_t1.items);
            free(paused.chosen.items);
            code = store_corrupt(store, "the bounds of a processor's ancestors", reterr);
        }
        if (code != ERR_NONE) {
            store_leave(statement);
            return code;
        }
        struct change change = {.kind = CHANGE_PLACEMENT,
                                .placement = {.job = store_column_text(statement, 0),
                                              .processor = (uint32_t)processor,
                                              .agent = store_column_text(statement, 2),
                                              .agent_incarnation = store_column_text(statement, 3),
                                              .epoch = epoch,
                                              .activated = store_column_int(statement, 5) != 0,
                                              .settled = store_column_int(statement, 13) != 0,
                                              .handoff = handoff,
                                              .trouble = store_column_text(statement, 6),
                                              .reason = store_column_text(statement, 7),
                                              .changed_at = store_column_int(statement, 8)}};
        change.placement.paused_t1.items = paused.paused_t1.items;
        change.placement.paused_t1.count = paused.paused_t1.count;
        change.placement.chosen.items = paused.chosen.items;
        change.placement.chosen.count = paused.chosen.count;
        change.placement.bounds.items = paused.bounds.items;
        change.placement.bounds.count = paused.bounds.count;
        cluster_apply(cluster, &change);
    }
}

/* Offsets of one processor, while its rows come. */
struct collecting {
    struct observation_row row;
    size_t capacity;
};

static void apply_collected(struct cluster *cluster, struct collecting *collecting)
{
    if (collecting->row.job == NULL)
        return;
    struct change change = {.kind = CHANGE_OBSERVATION, .observation = collecting->row};
    *collecting = (struct collecting){0};
    cluster_apply(cluster, &change);
}

static enum err_code collect(struct store *store, struct cluster *cluster, sqlite3_stmt *statement,
                             struct collecting *collecting, struct err *reterr)
{
    struct observation_row *row = &collecting->row;
    const char *job = store_column_peek(statement, 6);
    int64_t processor = store_column_int(statement, 7);
    if (row->job == NULL || strcmp(row->job, job) != 0 || row->processor != processor) {
        apply_collected(cluster, collecting);
        if (!has_processor(cluster, job, processor))
            return store_corrupt(store, "offsets without their job", reterr);
        *row = (struct observation_row){.job = mem_strdup(job),
                                        .processor = (uint32_t)processor,
                                        .at = store_column_int(statement, 5)};
    }
    int64_t topic = store_column_int(statement, 0), partition = store_column_int(statement, 1);
    if (!has_partition(cluster, job, topic, partition))
        return store_corrupt(store, "offsets of a partition that the job does not have", reterr);
    struct partition_progress progress = {.topic = (uint32_t)topic,
                                          .partition = (uint32_t)partition,
                                          .t0 = store_column_known(statement, 2),
                                          .t1 = store_column_known(statement, 3),
                                          .t2 = store_column_known(statement, 4),
                                          .log_start = API_UNKNOWN,
                                          .stable_end = API_UNKNOWN,
                                          .end = API_UNKNOWN};
    row->progress.items = mem_grow(row->progress.items, row->progress.count, &collecting->capacity,
                                   sizeof(struct partition_progress));
    row->progress.items[row->progress.count++] = progress;
    return ERR_NONE;
}

static enum err_code load_offsets(struct store *store, struct cluster *cluster, struct err *reterr)
{
    struct collecting collecting = {0};
    sqlite3_stmt *statement = store_statement(store, STORE_OFFSET_LIST);
    bool found = true;
    enum err_code code = ERR_NONE;
    while (code == ERR_NONE && found) {
        code = store_next(store, statement, &found, reterr);
        if (code == ERR_NONE && found)
            code = collect(store, cluster, statement, &collecting, reterr);
    }
    store_leave(statement);
    if (code == ERR_NONE)
        apply_collected(cluster, &collecting);
    free(collecting.row.job);
    free(collecting.row.progress.items);
    return code;
}

/* ---- operations */

enum err_code store_read_operation(const struct store *store, sqlite3_stmt *statement,
                                   struct operation_row *ret_row, struct err *reterr)
{
    int kind, state, step;
    enum err_code code = store_column_enum(store, statement, 1, store_names_kind, &kind, reterr);
    if (code == ERR_NONE)
        code = store_column_enum(store, statement, 4, schema_names_operation_state, &state, reterr);
    if (code == ERR_NONE)
        code = store_column_enum(store, statement, 5, store_names_step, &step, reterr);
    struct operation_row ends = {0};
    if (code == ERR_NONE &&
        !store_parse_offsets(store_column_peek(statement, 13), &ends.ends.items, &ends.ends.count))
        code = store_corrupt(store, "where partitions ended before an expansion", reterr);
    if (code != ERR_NONE)
        return code;
    *ret_row = (struct operation_row){.id = (uint64_t)store_column_int(statement, 0),
                                      .kind = (enum operation_kind)kind,
                                      .job = store_column_text(statement, 2),
                                      .job_incarnation = store_column_text(statement, 3),
                                      .state = (enum operation_state)state,
                                      .step = (enum operation_step)step,
                                      .reason = store_column_text(statement, 6),
                                      .error = store_column_text(statement, 7),
                                      .created_at = store_column_int(statement, 8),
                                      .updated_at = store_column_int(statement, 9),
                                      .processor = store_column_known(statement, 10),
                                      .target = store_column_text(statement, 11),
                                      .goal = store_column_known(statement, 12),
                                      .actor = store_column_text(statement, 14),
                                      .count_before = store_column_known(statement, 15),
                                      .count_reached = store_column_known(statement, 16)};
    ret_row->ends.items = ends.ends.items;
    ret_row->ends.count = ends.ends.count;
    return ERR_NONE;
}

static enum err_code load_operations(struct store *store, struct cluster *cluster,
                                     struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_OPERATION_LIST);
    store_bind_int(statement, 1, CLUSTER_OPERATIONS_FINISHED_MAX);
    for (;;) {
        bool found;
        struct change change = {.kind = CHANGE_OPERATION};
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        code = store_read_operation(store, statement, &change.operation, reterr);
        if (code != ERR_NONE) {
            store_leave(statement);
            return code;
        }
        cluster_apply(cluster, &change);
    }
}

/* ---- arrivals */

static enum err_code load_arrivals(struct store *store, struct cluster *cluster, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_ARRIVAL_LIST);
    for (;;) {
        bool found;
        enum err_code code = store_next(store, statement, &found, reterr);
        if (code != ERR_NONE || !found)
            return code;
        if (cluster_job(cluster, store_column_peek(statement, 0)) == NULL) {
            store_leave(statement);
            return store_corrupt(store, "an arrival without its job", reterr);
        }
        int64_t processor = store_column_int(statement, 6);
        if (processor < 0 || processor > UINT32_MAX) {
            store_leave(statement);
            return store_corrupt(store, "an arrival that was refused no processor", reterr);
        }
        struct change change = {.kind = CHANGE_ARRIVAL,
                                .arrival = {.job = store_column_text(statement, 0),
                                            .agent = store_column_text(statement, 1),
                                            .incarnation = store_column_text(statement, 2),
                                            .open = store_column_int(statement, 3) != 0,
                                            .refused = store_column_text(statement, 4),
                                            .refused_detail = store_column_text(statement, 5),
                                            .refused_processor = (uint32_t)processor,
                                            .refused_at = store_column_int(statement, 7)}};
        cluster_apply(cluster, &change);
    }
}

/* ---- all of it */

enum err_code store_load(struct store *store, struct cluster *cluster, struct err *reterr)
{
    static enum err_code (*const loaders[])(struct store *, struct cluster *, struct err *) = {
        load_meta,           store_load_maintenance, load_agents,         load_jobs,
        load_placements,     load_offsets,           store_load_handoffs, load_arrivals,
        store_load_standbys, load_operations,        store_load_skips,    store_load_windows};
    enum err_code code = ERR_NONE;
    for (size_t i = 0; code == ERR_NONE && i < sizeof(loaders) / sizeof(loaders[0]); i++)
        code = loaders[i](store, cluster, reterr);
    if (code != ERR_NONE)
        return code;
    const char *broken = cluster_check(cluster);
    return broken == NULL ? ERR_NONE : store_corrupt(store, broken, reterr);
}
