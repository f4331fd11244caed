/* The tables of others in a job's group. */
#include "api/schema_fields.h"

const char *const schema_names_group_hold[] = {"none", "frozen", "waiting", "starting", NULL};

static const struct schema_field group_view_fields[] = {
    FIELD_ENUM(group_view, hold, schema_names_group_hold, .required = true,
               .help =
                   "What the job holds back for their sake. frozen: they came while it worked, "
                   "so it has stopped; waiting: it was resumed, and goes on from what they have "
                   "committed when they have left; starting: the same of a job that has not "
                   "begun yet (start committed)."),
    FIELD_TIME(group_view, since, .required = true,
               .help = "Since when it is so; null: it holds nothing back."),
    FIELD_KNOWABLE(group_view, members, .required = true,
                   .help = "Members of the group that are not the job's, at the last look; null: "
                           "the group was not looked at yet."),
    FIELD_STRING(group_view, who, 0, API_TEXT_BYTES_MAX,
                 .help = "Client ids and hosts of some of them, or null."),
    FIELD_BOOL(group_view, ready, .required = true,
               .help = "The job waits for them, and has learned what they have committed: it takes "
                       "over within seconds when they leave."),
};
SCHEMA_TYPE(group_view, "Others in the consumer group of a job.");
