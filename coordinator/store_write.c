/* Updates become durable: one transaction each, in the order in which the step recorded its
 * changes. */
#include <assert.h>
#include <stdlib.h>

#include "api/codec.h"
#include "api/schema.h"
#include "common/hook.h"
#include "coordinator/core/view.h"
#include "coordinator/store_internal.h"

/* Old history goes at least twice as fast as new comes, and some more, so that a lowered limit is
 * reached, too. */
#define PRUNE_FACTOR 2
#define PRUNE_EXTRA  16

static enum err_code write_meta(struct store *store, const struct meta_row *row, struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_META_PUT);
    store_bind_text(statement, 1, row->cluster);
    store_bind_uint(statement, 2, row->start_number);
    store_bind_uint(statement, 3, row->decision);
    store_bind_uint(statement, 4, row->epoch);
    store_bind_uint(statement, 5, row->event_id);
    store_bind_uint(statement, 6, row->operation_id);
    store_bind_uint(statement, 7, row->handoff_id);
    return store_run(store, STORE_META_PUT, reterr);
}

/* ---- jobs */

static enum err_code write_job_row(struct store *store, const struct job_row *row,
                                   struct err *reterr)
{
    char *spec = codec_encode(&schema_job_spec, &row->spec, NULL);
    sqlite3_stmt *statement = store_statement(store, STORE_JOB_PUT);
    store_bind_text(statement, 1, row->name);
    store_bind_text(statement, 2, row->incarnation);
    store_bind_text(statement, 3, schema_enum_name(schema_names_job_state, (int)row->state));
    store_bind_uint(statement, 4, row->generation);
    store_bind_int(statement, 5, row->created_at);
    store_bind_text(statement, 6, row->spec.group_id);
    store_bind_int(statement, 7, row->partitions_initial);
    store_bind_int(statement, 8, row->partitions);
    store_bind_int(statement, 9, row->processors_initial);
    store_bind_int(statement, 10, row->processors);
    store_bind_uint(statement, 11, row->map_version);
    store_bind_text(statement, 12,
                    schema_enum_name(schema_names_effective_partitioner, (int)row->partitioner));
    store_bind_text(statement, 13, row->partitioner_reason);
    store_bind_uint(statement, 14, row->operation);
    store_bind_text(statement, 15, spec);
    store_bind_hold(statement, 16, &row->pause);
    enum err_code code = store_run(store, STORE_JOB_PUT, reterr);
    free(spec);
    return code;
}

static enum err_code write_inputs(struct store *store, const struct job_row *row,
                                  struct err *reterr)
{
    enum err_code code = ERR_NONE;
    for (size_t i = 0; code == ERR_NONE && i < row->spec.inputs.count; i++) {
        sqlite3_stmt *statement = store_statement(store, STORE_INPUT_PUT);
        store_bind_text(statement, 1, row->name);
        store_bind_int(statement, 2, (int64_t)i);
        store_bind_text(statement, 3, row->spec.inputs.items[i]);
        code = store_run(store, STORE_INPUT_PUT, reterr);
    }
    return code;
}

static enum err_code write_warnings(struct store *store, const struct job_row *row,
                                    struct err *reterr)
{
    store_bind_text(store_statement(store, STORE_WARNINGS_CLEAR), 1, row->name);
    enum err_code code = store_run(store, STORE_WARNINGS_CLEAR, reterr);
    for (size_t i = 0; code == ERR_NONE && i < row->warnings.count; i++) {
        sqlite3_stmt *statement = store_statement(store, STORE_WARNING_PUT);
        store_bind_text(statement, 1, row->name);
        store_bind_int(statement, 2, (int64_t)i);
        store_bind_text(statement, 3, row->warnings.items[i]);
        code = store_run(store, STORE_WARNING_PUT, reterr);
    }
    return code;
}

/* Origins never move (D1): once all are there, a change of the job has nothing to say about them;
 * an expansion adds those of new partitions. */
static enum err_code write_origins(struct store *store, const struct job_row *row,
                                   struct err *reterr)
{
    bool found;
    sqlite3_stmt *statement = store_statement(store, STORE_ORIGIN_COUNT);
    store_bind_text(statement, 1, row->name);
    enum err_code code = store_next(store, statement, &found, reterr);
    if (code != ERR_NONE)
        return code;
    assert(found); /* count(*) always gives a row */
    size_t stored = (size_t)store_column_int(statement, 0);
    store_leave(statement);
    if (stored == row->origins.count)
        return ERR_NONE;
    assert(row->starts.count == row->origins.count);
    for (size_t i = 0; code == ERR_NONE && i < row->origins.count; i++) {
        statement = store_statement(store, STORE_ORIGIN_PUT);
        store_bind_text(statement, 1, row->name);
        store_bind_int(statement, 2, row->origins.items[i].topic);
        store_bind_int(statement, 3, row->origins.items[i].partition);
        store_bind_int(statement, 4, row->origins.items[i].offset);
        store_bind_int(statement, 5, row->starts.items[i].offset);
        code = store_run(store, STORE_ORIGIN_PUT, reterr);
    }
    return code;
}

static enum err_code write_job(struct store *store, const struct job_row *row, struct err *reterr)
{
    enum err_code code = write_job_row(store, row, reterr);
    if (code == ERR_NONE)
        code = write_inputs(store, row, reterr);
    if (code == ERR_NONE)
        code = write_warnings(store, row, reterr);
    if (code == ERR_NONE)
        code = write_origins(store, row, reterr);
    if (code == ERR_NONE)
        code = store_write_group_hold(store, row, reterr);
    return code;
}

static enum err_code remove_job(struct store *store, const char *name, struct err *reterr)
{
    store_bind_text(store_statement(store, STORE_JOB_REMOVE), 1, name);
    return store_run(store, STORE_JOB_REMOVE, reterr);
}

/* ---- processors */

static enum err_code write_placement(struct store *store, const struct placement_row *row,
                                     struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_PLACEMENT_PUT);
    store_bind_text(statement, 1, row->job);
    store_bind_int(statement, 2, row->processor);
    store_bind_text(statement, 3, row->agent);
    store_bind_text(statement, 4, row->agent_incarnation);
    store_bind_uint(statement, 5, row->epoch);
    store_bind_int(statement, 6, row->activated);
    store_bind_text(statement, 7, row->trouble);
    store_bind_text(statement, 8, row->reason);
    store_bind_int(statement, 9, row->changed_at);
    store_bind_uint(statement, 10, row->handoff);
    char *paused = store_print_offsets(row->paused_t1.items, row->paused_t1.count);
    store_bind_text(statement, 11, paused);
    char *chosen = store_print_chosen(row);
    store_bind_text(statement, 12, chosen);
    char *bounds = store_print_bounds(row);
    store_bind_text(statement, 13, bounds);
    store_bind_int(statement, 14, row->settled);
    enum err_code code = store_run(store, STORE_PLACEMENT_PUT, reterr);
    free(bounds);
    free(chosen);
    free(paused);
    return code;
}

static enum err_code write_observation(struct store *store, const struct observation_row *row,
                                       struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_OFFSETS_CLEAR);
    store_bind_text(statement, 1, row->job);
    store_bind_int(statement, 2, row->processor);
    enum err_code code = store_run(store, STORE_OFFSETS_CLEAR, reterr);
    for (size_t i = 0; code == ERR_NONE && i < row->progress.count; i++) {
        const struct partition_progress *progress = &row->progress.items[i];
        statement = store_statement(store, STORE_OFFSET_PUT);
        store_bind_text(statement, 1, row->job);
        store_bind_int(statement, 2, row->processor);
        store_bind_int(statement, 3, progress->topic);
        store_bind_int(statement, 4, progress->partition);
        store_bind_known(statement, 5, progress->t0);
        store_bind_known(statement, 6, progress->t1);
        store_bind_known(statement, 7, progress->t2);
        store_bind_int(statement, 8, row->at);
        code = store_run(store, STORE_OFFSET_PUT, reterr);
    }
    return code;
}

/* ---- agents */

static enum err_code write_tags(struct store *store, const struct agent_row *row,
                                struct err *reterr)
{
    store_bind_text(store_statement(store, STORE_TAGS_CLEAR), 1, row->agent_id);
    enum err_code code = store_run(store, STORE_TAGS_CLEAR, reterr);
    for (size_t i = 0; code == ERR_NONE && i < row->tags.count; i++) {
        sqlite3_stmt *statement = store_statement(store, STORE_TAG_PUT);
        store_bind_text(statement, 1, row->agent_id);
        store_bind_int(statement, 2, (int64_t)i);
        store_bind_text(statement, 3, row->tags.items[i].name);
        store_bind_text(statement, 4, row->tags.items[i].value);
        code = store_run(store, STORE_TAG_PUT, reterr);
    }
    return code;
}

static void bind_drain(sqlite3_stmt *statement, const struct agent_drain *drain)
{
    const char *state =
        drain->asked ? schema_enum_name(schema_names_drain_state, (int)drain->state) : NULL;
    store_bind_text(statement, 14, state);
    store_bind_text(statement, 15,
                    schema_enum_name(schema_names_drain_deadline, (int)drain->on_deadline));
    store_bind_int(statement, 16, drain->until_restart);
    store_bind_int(statement, 17, drain->overdue);
    store_bind_int(statement, 18, drain->processors);
    store_bind_text(statement, 19, drain->reason);
    store_bind_text(statement, 20, drain->actor);
    store_bind_text(statement, 21, drain->error);
    store_bind_known(statement, 22, drain->deadline_ms);
    store_bind_known(statement, 23, drain->deadline_at);
    store_bind_known(statement, 24, drain->started_at);
    store_bind_known(statement, 25, drain->ended_at);
}

static enum err_code write_agent(struct store *store, const struct agent_row *row,
                                 struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_AGENT_PUT);
    store_bind_text(statement, 1, row->agent_id);
    store_bind_text(statement, 2, row->incarnation);
    store_bind_text(statement, 3, schema_enum_name(schema_names_agent_state, (int)row->state));
    store_bind_text(statement, 4, row->version);
    store_bind_text(statement, 5, row->address);
    store_bind_int(statement, 6, row->protocol);
    store_bind_int(statement, 7, row->capacity);
    store_bind_int(statement, 8, row->registered_at);
    store_bind_int(statement, 9, row->max_learners);
    store_bind_int(statement, 10, row->eligibility.cordoned);
    store_bind_text(statement, 11, row->eligibility.reason);
    store_bind_text(statement, 12, row->eligibility.actor);
    store_bind_known(statement, 13, row->eligibility.changed_at);
    bind_drain(statement, &row->drain);
    enum err_code code = store_run(store, STORE_AGENT_PUT, reterr);
    return code == ERR_NONE ? write_tags(store, row, reterr) : code;
}

static enum err_code remove_agent(struct store *store, const char *agent_id, struct err *reterr)
{
    store_bind_text(store_statement(store, STORE_AGENT_REMOVE), 1, agent_id);
    return store_run(store, STORE_AGENT_REMOVE, reterr);
}

/* ---- history */

static enum err_code write_operation(struct store *store, const struct operation_row *row,
                                     struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_OPERATION_PUT);
    store_bind_uint(statement, 1, row->id);
    store_bind_text(statement, 2, schema_enum_name(store_names_kind, (int)row->kind));
    store_bind_text(statement, 3, row->job);
    store_bind_text(statement, 4, row->job_incarnation);
    store_bind_text(statement, 5, schema_enum_name(schema_names_operation_state, (int)row->state));
    store_bind_text(statement, 6, schema_enum_name(store_names_step, (int)row->step));
    store_bind_text(statement, 7, row->reason);
    store_bind_text(statement, 8, row->error);
    store_bind_int(statement, 9, row->created_at);
    store_bind_int(statement, 10, row->updated_at);
    store_bind_known(statement, 11, row->processor);
    store_bind_text(statement, 12, row->target);
    store_bind_known(statement, 13, row->goal);
    char *ends = store_print_offsets(row->ends.items, row->ends.count);
    store_bind_text(statement, 14, ends);
    store_bind_text(statement, 15, row->actor);
    store_bind_known(statement, 16, row->count_before);
    store_bind_known(statement, 17, row->count_reached);
    enum err_code code = store_run(store, STORE_OPERATION_PUT, reterr);
    free(ends);
    return code;
}

static enum err_code write_arrival(struct store *store, const struct arrival_row *row,
                                   struct err *reterr)
{
    sqlite3_stmt *statement = store_statement(store, STORE_ARRIVAL_PUT);
    store_bind_text(statement, 1, row->job);
    store_bind_text(statement, 2, row->agent);
    store_bind_text(statement, 3, row->incarnation);
    store_bind_int(statement, 4, row->open);
    store_bind_text(statement, 5, row->refused);
    store_bind_text(statement, 6, row->refused_detail);
    store_bind_uint(statement, 7, row->refused_processor);
    store_bind_int(statement, 8, row->refused_at);
    return store_run(store, STORE_ARRIVAL_PUT, reterr);
}

static enum err_code write_event(struct store *store, const struct event_view *event,
                                 struct err *reterr)
{
    uint64_t operation;
    sqlite3_stmt *statement = store_statement(store, STORE_EVENT_PUT);
    store_bind_uint(statement, 1, event->id);
    store_bind_int(statement, 2, event->at);
    store_bind_text(statement, 3, event->kind);
    store_bind_text(statement, 4, event->job);
    store_bind_known(statement, 5, event->processor);
    store_bind_text(statement, 6, event->agent);
    if (event->operation != NULL && view_operation_parse(event->operation, &operation))
        store_bind_uint(statement, 7, operation);
    store_bind_text(statement, 8, event->actor);
    store_bind_text(statement, 9, event->detail);
    return store_run(store, STORE_EVENT_PUT, reterr);
}

/* The newest time of what an update adds to history, which stands for now; API_UNKNOWN: none. */
static int64_t newest_at(const struct update *update)
{
    int64_t newest = API_UNKNOWN;
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct change *change = &update->changes.items[i];
        int64_t at = change->kind == CHANGE_EVENT       ? change->event.at
                     : change->kind == CHANGE_OPERATION ? change->operation.updated_at
                     : change->kind == CHANGE_HANDOFF   ? change->handoff.changed_at
                                                        : API_UNKNOWN;
        newest = at > newest ? at : newest;
    }
    return newest;
}

static enum err_code prune(struct store *store, enum store_statement statement, uint64_t kept,
                           size_t added, int64_t oldest_at, struct err *reterr)
{
    if (added == 0)
        return ERR_NONE;
    sqlite3_stmt *prepared = store_statement(store, statement);
    store_bind_uint(prepared, 1, kept);
    store_bind_uint(prepared, 2, added * PRUNE_FACTOR + PRUNE_EXTRA);
    store_bind_int(prepared, 3, oldest_at);
    return store_run(store, statement, reterr);
}

static enum err_code prune_history(struct store *store, const struct update *update,
                                   struct err *reterr)
{
    size_t events = 0, operations = 0, handoffs = 0;
    for (size_t i = 0; i < update->changes.count; i++) {
        events += update->changes.items[i].kind == CHANGE_EVENT;
        operations += update->changes.items[i].kind == CHANGE_OPERATION;
        handoffs += update->changes.items[i].kind == CHANGE_HANDOFF;
    }
    const struct store_retention *kept = &store->retention;
    int64_t oldest_at = kept->age_ms > 0 ? newest_at(update) - kept->age_ms : INT64_MIN;
    enum err_code code = prune(store, STORE_EVENT_PRUNE, kept->events, events, oldest_at, reterr);
    if (code == ERR_NONE)
        code = prune(store, STORE_OPERATION_PRUNE, kept->operations, operations, oldest_at, reterr);
    if (code == ERR_NONE)
        code = prune(store, STORE_HANDOFF_PRUNE, kept->handoffs, handoffs, oldest_at, reterr);
    return code;
}

/* ---- one transaction */

static enum err_code write_change(struct store *store, const struct change *change,
                                  struct err *reterr)
{
    switch (change->kind) {
    case CHANGE_META:
        return write_meta(store, &change->meta, reterr);
    case CHANGE_JOB:
        return write_job(store, &change->job, reterr);
    case CHANGE_JOB_REMOVED:
        return remove_job(store, change->job.name, reterr);
    case CHANGE_PLACEMENT:
        return write_placement(store, &change->placement, reterr);
    case CHANGE_AGENT:
        return write_agent(store, &change->agent, reterr);
    case CHANGE_AGENT_REMOVED:
        return remove_agent(store, change->agent.agent_id, reterr);
    case CHANGE_OPERATION:
        return write_operation(store, &change->operation, reterr);
    case CHANGE_HANDOFF:
        return store_write_handoff(store, &change->handoff, reterr);
    case CHANGE_ARRIVAL:
        return write_arrival(store, &change->arrival, reterr);
    case CHANGE_STANDBY:
        return store_write_standby(store, &change->standby, reterr);
    case CHANGE_STANDBY_REMOVED:
        return store_remove_standby(store, &change->standby, reterr);
    case CHANGE_MAINTENANCE:
        return store_write_maintenance(store, &change->maintenance, reterr);
    case CHANGE_SKIP:
        return store_write_skip(store, &change->skip, reterr);
    case CHANGE_WINDOW:
        return store_write_window(store, &change->window, reterr);
    case CHANGE_EVENT:
        return write_event(store, &change->event, reterr);
    case CHANGE_OBSERVATION:
        return write_observation(store, &change->observation, reterr);
    }
    assert(!"a kind of change");
    return ERR_INTERNAL;
}

static enum err_code write_changes(struct store *store, const struct update *update,
                                   struct err *reterr)
{
    enum err_code code = ERR_NONE;
    for (size_t i = 0; code == ERR_NONE && i < update->changes.count; i++)
        code = write_change(store, &update->changes.items[i], reterr);
    if (code == ERR_NONE)
        code = prune_history(store, update, reterr);
    return code;
}

/* The points of an operation's steps, for tests: the place is job/step. */
static void pass_operations(const struct update *update, const char *name)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct operation_row *row = &update->changes.items[i].operation;
        if (update->changes.items[i].kind == CHANGE_OPERATION)
            HOOK_AT(name, "%s/%s", row->job, schema_enum_name(store_names_step, (int)row->step));
    }
}

/* The points of a hand-over's transition, for tests: the place is job/processor/state. */
static void pass_handoffs(const struct update *update, const char *name)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct handoff_row *row = &update->changes.items[i].handoff;
        if (update->changes.items[i].kind == CHANGE_HANDOFF)
            HOOK_AT(name, "%s/%u/%s", row->job, row->processor,
                    schema_enum_name(schema_names_handoff_state, (int)row->state));
    }
}

/* The points of a settle window, for tests: the place is job/open or job/closed. */
static void pass_windows(const struct update *update, const char *name)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct window_row *row = &update->changes.items[i].window;
        if (update->changes.items[i].kind == CHANGE_WINDOW)
            HOOK_AT(name, "%s/%s", row->job, row->window.fence == API_UNKNOWN ? "open" : "closed");
    }
}

enum err_code store_commit(struct store *store, const struct update *update, struct err *reterr)
{
    if (update->changes.count == 0)
        return ERR_NONE;
    pass_handoffs(update, "handoff_before_commit");
    pass_operations(update, "operation_before_commit");
    pass_windows(update, "window_before_commit");
    (void)store_statement(store, STORE_BEGIN);
    enum err_code code = store_run(store, STORE_BEGIN, reterr);
    if (code == ERR_NONE)
        code = write_changes(store, update, reterr);
    if (code == ERR_NONE)
        code = store_run(store, STORE_COMMIT, reterr);
    /* Some failures end the transaction by themselves. A rollback that fails leaves what closing
     * the database, or the next one, undoes. */
    if (code != ERR_NONE && sqlite3_get_autocommit(store->db) == 0)
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    if (code == ERR_NONE) {
        pass_handoffs(update, "handoff_after_commit");
        pass_operations(update, "operation_after_commit");
        pass_windows(update, "window_after_commit");
    }
    return code;
}
