/* The table of standbys, as people and tools read them. */
#include "api/schema_fields.h"

static const struct schema_field standby_view_fields[] = {
    FIELD_AGENT_ID(standby_view, agent, .required = true, .help = "Agent that has it."),
    FIELD_STRING(standby_view, zone, 0, 255, .help = "The agent's tag zone, or null."),
    FIELD_STRING(standby_view, state, 1, 64, .required = true,
                 .help = "State of its task, or assigned while it has not reported it."),
    FIELD_BOOL(standby_view, ready, .required = true,
               .help = "It would take over at once: it is within acceptable_lag of its owner."),
    FIELD_KNOWABLE(standby_view, lag_records, .required = true,
                   .help = "Most records of one partition that it is behind what its owner had "
                           "committed by its last report; null while unknown."),
    FIELD_KNOWABLE(standby_view, replay_records, .required = true,
                   .help = "Records that it has still to learn; null while unknown."),
    FIELD_KNOWABLE(standby_view, eta_ms, .required = true,
                   .help = "Milliseconds until it has caught up at its rate less the owner's; null "
                           "when that can not be told, or never happens."),
    FIELD_DOUBLE(standby_view, replayed_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records that it learns per second."),
    FIELD_STRING(standby_view, stuck, 1, 64,
                 .help = "Why it does not get on: the code of a problem, or source_not_heard; null "
                         "when it does."),
    FIELD_STRING(standby_view, waiting, 0, API_TEXT_BYTES_MAX,
                 .help = "What it waits for, for a person; null: it is ready."),
    FIELD_TIME(standby_view, reported_at, .required = true,
               .help = "Time of the report that this is from; null when there is none."),
    FIELD_STRING(standby_view, reason, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "Why this agent."),
    FIELD_TIME(standby_view, started_at, .required = true, .help = "Since when it has it."),
};
SCHEMA_TYPE(standby_view, "Someone who learns a processor for good, to have its state when the "
                          "owner is lost.");
