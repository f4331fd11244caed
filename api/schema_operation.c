/* The table of operations, as people and tools read them. */
#include "api/schema_fields.h"

static const struct schema_field operation_view_fields[] = {
    FIELD_STRING(operation_view, id, 1, 64, .required = true, .help = "Id of the operation."),
    FIELD_NAME(operation_view, kind, .required = true,
               .help = "create_job, delete_job, move, rebalance, expand_processors or "
                       "expand_partitions."),
    FIELD_NAME(operation_view, job, .required = true, .help = "Name of the job."),
    FIELD_ENUM(operation_view, state, schema_names_operation_state, .required = true,
               .help = "Where the operation is in its life."),
    FIELD_STRING(operation_view, step, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "What it is doing, for a person."),
    FIELD_KNOWABLE(operation_view, step_number, .required = true,
                   .help = "Of expansions: the step or the split that runs, or was the last to "
                           "begin, from 1 on; null: of other kinds, or not known."),
    FIELD_KNOWABLE(operation_view, steps, .required = true,
                   .help = "Of expansions: how many steps or splits there are."),
    FIELD_KNOWABLE(operation_view, from, .required = true,
                   .help = "Of expansions: processors or partitions when it began; null: of other "
                           "kinds, or not known."),
    FIELD_KNOWABLE(operation_view, to, .required = true,
                   .help = "Of expansions: processors or partitions that are wanted."),
    FIELD_KNOWABLE(operation_view, reached, .required = true,
                   .help = "Of expansions: processors or partitions that the job has, or had when "
                           "it ended."),
    FIELD_KNOWABLE(operation_view, handoff, .required = true,
                   .help = "Number of the hand-over that it waits for now, or null."),
    FIELD_STRING(operation_view, waiting, 0, API_TEXT_BYTES_MAX,
                 .help = "What it waits for, for a person; null: it has ended, or that is not "
                         "known."),
    FIELD_KNOWABLE(operation_view, eta_ms, .required = true,
                   .help = "Of expand_processors: milliseconds until the last split has learned, "
                           "at the present rates; null when that can not be told."),
    FIELD_BOOL(operation_view, cancellable, .required = true,
               .help = "Whether DELETE would be accepted now."),
    FIELD_STRING(operation_view, action, 0, API_TEXT_BYTES_MAX,
                 .help = "What to do about it; null: nothing need be done."),
    FIELD_STRING(operation_view, actor, 0, 255,
                 .help = "Who asked for it: api and an address, or coordinator; null: that is not "
                         "known."),
    FIELD_STRING(operation_view, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Reason that the caller gave, or null."),
    FIELD_STRING(operation_view, error, 0, API_TEXT_BYTES_MAX,
                 .help = "Why it failed, or what it is retrying, or null."),
    FIELD_TIME(operation_view, created_at, .required = true, .help = "When it was asked for."),
    FIELD_TIME(operation_view, updated_at, .required = true, .help = "When it changed last."),
};
SCHEMA_TYPE(operation_view, "A change that takes time, and how far it is.");
