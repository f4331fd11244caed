/* The table of backups, as people and tools read them. */
#include "api/schema_fields.h"

static const struct schema_field backup_view_fields[] = {
    FIELD_STRING(backup_view, file, 1, 4400, .required = true,
                 .help = "Path of the copy on the coordinator's host."),
    FIELD_UINT64(backup_view, bytes, .required = true, .help = "Its size."),
    FIELD_TIME(backup_view, started_at, .required = true, .help = "When it was begun."),
    FIELD_INT64(backup_view, took_ms, 0, INT64_MAX, .required = true,
                .help = "Milliseconds until it was whole and on disk: what was decided up to then "
                        "is in it."),
};
SCHEMA_TYPE(backup_view, "A copy of the coordinator's database.");
