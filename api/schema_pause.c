/* The tables of what people hold back: jobs, planned hand-overs, and agents. */
#include "api/schema_fields.h"

static const struct schema_field pause_view_fields[] = {
    FIELD_BOOL(pause_view, paused, .required = true,
               .help = "Whether the job is paused: its state is kept, and nothing is put out."),
    FIELD_STRING(pause_view, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, as it was given with the last change; or null."),
    FIELD_STRING(pause_view, actor, 0, 255,
                 .help = "Who made the last change; null: nobody has made one."),
    FIELD_TIME(pause_view, changed_at, .required = true,
               .help = "When it was changed last; null: never."),
};
SCHEMA_TYPE(pause_view, "Whether a job is paused, who said so, and why.");

static const struct schema_field pause_request_fields[] = {
    FIELD_STRING(pause_request, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, for people who look later; or null."),
};
SCHEMA_TYPE(pause_request, "A wish to pause a job, or to resume it.");

static const struct schema_field maintenance_view_fields[] = {
    FIELD_BOOL(maintenance_view, enabled, .required = true,
               .help = "true: no planned hand-over begins, of no job; false: all is as usual."),
    FIELD_STRING(maintenance_view, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, as it was given with the last change; or null."),
    FIELD_STRING(maintenance_view, actor, 0, 255,
                 .help = "Who made the last change; null: nobody has made one."),
    FIELD_TIME(maintenance_view, changed_at, .required = true,
               .help = "When it was changed last; null: never."),
};
SCHEMA_TYPE(maintenance_view, "Whether planned hand-overs are held back, who said so, and why.");

static const struct schema_field maintenance_request_fields[] = {
    FIELD_BOOL(maintenance_request, enabled, .required = true,
               .help = "true: no planned hand-over begins any more; false: they begin again."),
    FIELD_STRING(maintenance_request, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, for people who look later; or null."),
};
SCHEMA_TYPE(maintenance_request, "A wish to hold planned hand-overs back, or to let them begin.");

static const struct schema_field eligibility_view_fields[] = {
    FIELD_BOOL(eligibility_view, schedulable, .required = true,
               .help = "Whether the agent may receive processors; false: it is cordoned."),
    FIELD_STRING(eligibility_view, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, as it was given with the last change; or null."),
    FIELD_STRING(eligibility_view, actor, 0, 255,
                 .help = "Who made the last change; null: nobody has made one."),
    FIELD_TIME(eligibility_view, changed_at, .required = true,
               .help = "When it was changed last; null: never."),
};
SCHEMA_TYPE(eligibility_view, "Whether an agent may receive processors, who said so, and why.");

static const struct schema_field eligibility_request_fields[] = {
    FIELD_BOOL(eligibility_request, schedulable, .required = true,
               .help = "false: cordon, nothing new comes to the agent; true: uncordon."),
    FIELD_STRING(eligibility_request, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, for people who look later; or null."),
    FIELD_STRING(eligibility_request, plan, 32, 32,
                 .help = "Id of a plan for this very request: refused (plan_stale) when it would "
                         "not move the same any more; null: whatever it moves."),
};
SCHEMA_TYPE(eligibility_request, "A wish to cordon an agent, or to uncordon it.");

static const struct schema_field drain_request_fields[] = {
    FIELD_DURATION(drain_request, deadline_ms, "deadline", 1, 365 * SCHEMA_DAY_MS,
                   .fallback = API_UNKNOWN,
                   .help = "How long it may take, from now on; null: as long as it takes."),
    FIELD_ENUM(drain_request, on_deadline, schema_names_drain_deadline,
               .help = "When that time is over. force: what is left is taken over at once by who "
                       "has learned most of it; cancel: it stays where it is."),
    FIELD_BOOL(drain_request, until_restart,
               .help = "true: it ends when the agent starts anew; false: it lasts until DELETE."),
    FIELD_STRING(drain_request, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, for people who look later; or null."),
    FIELD_STRING(drain_request, plan, 32, 32,
                 .help = "Id of a plan for this very request: refused (plan_stale) when it would "
                         "not move the same any more; null: whatever it moves."),
};
SCHEMA_TYPE(drain_request, "A wish that an agent gives away all that it has.");
