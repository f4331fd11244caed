/* The tables of moves that people ask for, and of looks ahead. */
#include "api/schema_fields.h"

const char *const schema_names_planned_change[] = {"drain",     "cordon", "uncordon", "add_agents",
                                                   "rebalance", "move",   "standbys", NULL};
const char *const schema_names_planned_kind[] = {"assign",  "take_over",   "hand_over", "cancel",
                                                 "standby", "end_standby", "split",     NULL};

static const struct schema_field move_request_fields[] = {
    FIELD_UINT32(move_request, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Number of the processor to move."),
    FIELD_AGENT_ID(move_request, agent,
                   .help = "Agent that shall get it; null: the one that the planner finds best."),
    FIELD_STRING(move_request, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, for people who look later; or null."),
    FIELD_STRING(move_request, plan, 32, 32,
                 .help = "Id of a plan for this very request: refused (plan_stale) when it would "
                         "not move the same any more; null: whatever it moves."),
};
SCHEMA_TYPE(move_request, "A processor to move.");

static const struct schema_field rebalance_request_fields[] = {
    FIELD_STRING(rebalance_request, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, for people who look later; or null."),
    FIELD_STRING(rebalance_request, plan, 32, 32,
                 .help = "Id of a plan for this very request: refused (plan_stale) when it would "
                         "not move the same any more; null: whatever it moves."),
};
SCHEMA_TYPE(rebalance_request, "A wish to even out the job's processors over the agents now.");

static const struct schema_field expansion_request_fields[] = {
    FIELD_KNOWABLE(expansion_request, processors,
                   .help = "Processors that the job shall have: more than now, at most as many as "
                           "it has partitions. Null: leave them."),
    FIELD_KNOWABLE(expansion_request, partitions,
                   .help =
                       "Partitions that each input topic shall have: more than now. Null: leave "
                       "them. Exactly one of the two is given."),
    FIELD_BOOL(expansion_request, dry_run,
               .help = "Only answer what it would take, or why it would be refused."),
    FIELD_STRING(expansion_request, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, for people who look later; or null."),
};
SCHEMA_TYPE(expansion_request, "More processors, or more partitions, for a job.");

static const struct schema_field plan_request_fields[] = {
    FIELD_ENUM(plan_request, change, schema_names_planned_change, .required = true,
               .help =
                   "What would be done. drain, cordon and uncordon take agents; add_agents "
                   "count and capacity; rebalance job; move job, processor and target; standbys "
                   "job and standbys. A field that the change does not take is refused."),
    FIELD_STRINGS(plan_request, agents, API_PLAN_AGENTS_MAX, API_NAME_BYTES_MAX,
                  .help = "Agents that it is done to, one after the other."),
    FIELD_NAME(plan_request, job, .help = "Job that it is done to."),
    FIELD_AGENT_ID(plan_request, target,
                   .help = "move: who shall get it; null: whom the planner finds best."),
    FIELD_KNOWABLE(plan_request, processor, .help = "move: number of the processor."),
    FIELD_KNOWABLE(plan_request, count, .help = "add_agents: how many come, 1 to 100; null: one."),
    FIELD_KNOWABLE(plan_request, capacity,
                   .help = "add_agents: most tasks that each of them takes, 1 to 10000; null: 64."),
    FIELD_KNOWABLE(plan_request, standbys,
                   .help = "standbys: how many each processor shall have, 0 to 16."),
};
SCHEMA_TYPE(plan_request, "A change to look ahead at; nothing is done.");

static const struct schema_field plan_move_fields[] = {
    FIELD_ENUM(plan_move, kind, schema_names_planned_kind, .required = true,
               .help = "assign: it has no owner and gets one; take_over: another agent becomes the "
                       "owner without the steps of the present one; hand_over: the target learns "
                       "it, then the source gives it up; cancel: the hand-over under way to the "
                       "target ends, and the source keeps it; standby: the target learns it for "
                       "good; end_standby: the source is its standby no more; split: a new "
                       "processor gets a part of what the source has."),
    FIELD_BOOL(plan_move, waits, .required = true,
               .help = "Whether it would not begin at once; the reason says what it waits for."),
    FIELD_NAME(plan_move, job, .required = true, .help = "Name of the job."),
    FIELD_UINT32(plan_move, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Number of the processor."),
    FIELD_AGENT_ID(plan_move, source, .help = "Agent that has it now, or null."),
    FIELD_AGENT_ID(plan_move, target,
                   .help = "Agent that gets it; null: none can take it as things are. Agents that "
                           "are not there yet are named new-1, new-2, ..."),
    FIELD_STRING(plan_move, reason, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "Why it moves, or what it waits for."),
    FIELD_KNOWABLE(plan_move, records, .required = true,
                   .help = "Offsets that the target has to replay, less what it knows already; an "
                           "upper bound for records. Null while it can not be told."),
    FIELD_KNOWABLE(plan_move, state_bytes, .required = true,
                   .help = "Bytes that the state takes on its owner's disk; null while unknown."),
    FIELD_KNOWABLE(plan_move, eta_ms, .required = true,
                   .help = "Milliseconds from its begin until the target has learned it, at the "
                           "rate that the job's last learner had; null when that is not known, or "
                           "more comes in than is learned."),
};
SCHEMA_TYPE(plan_move, "One thing that would move.");

static const struct schema_field plan_view_fields[] = {
    FIELD_ENUM(plan_view, change, schema_names_planned_change, .required = true,
               .help = "The change, as it was asked for."),
    FIELD_STRING(plan_view, plan, API_PLAN_ID_BYTES, API_PLAN_ID_BYTES,
                 .help = "Id of the plan, for `plan` of the request that carries the change out: "
                         "the same as long as the same would move. Null for what is not one "
                         "request: several agents, add_agents and standbys; and when refused."),
    FIELD_STRING(plan_view, refused, 1, 64,
                 .help = "Code of the problem that the change would be refused with, or null."),
    FIELD_STRING(plan_view, refused_detail, 0, API_TEXT_BYTES_MAX,
                 .help = "What that problem would say, or null."),
    FIELD_OBJECTS(plan_view, moves, plan_move, API_PLAN_MOVES_MAX, .required = true,
                  .help = "What would move, in the order in which it would begin."),
    FIELD_KNOWABLE(plan_view, records, .required = true,
                   .help = "Records of all moves; null when those of some are unknown."),
    FIELD_KNOWABLE(plan_view, state_bytes, .required = true,
                   .help = "Bytes of state of all moves; null when those of some are unknown."),
    FIELD_KNOWABLE(plan_view, eta_ms, .required = true,
                   .help = "Milliseconds until all is learned, when as many learn at a time as "
                           "would begin at once; null when that of some is unknown."),
};
SCHEMA_TYPE(plan_view, "What a change would move, and what that would take.");

static const struct schema_field expansion_plan_fields[] = {
    FIELD_NAME(expansion_plan, job, .required = true, .help = "Name of the job."),
    FIELD_UINT32(expansion_plan, processors, 1, API_PARTITIONS_MAX, .required = true,
                 .help = "Processors that it would have."),
    FIELD_UINT32(expansion_plan, partitions, 1, API_PARTITIONS_MAX, .required = true,
                 .help = "Partitions that each input topic would have."),
    FIELD_OBJECTS(expansion_plan, moves, plan_move, API_PLAN_MOVES_MAX, .required = true,
                  .help = "What would move, one after the other."),
    FIELD_KNOWABLE(expansion_plan, records, .required = true,
                   .help = "Records of all moves; null when those of some are unknown."),
    FIELD_KNOWABLE(expansion_plan, state_bytes, .required = true,
                   .help = "Bytes of state of all moves; null when those of some are unknown."),
    FIELD_KNOWABLE(expansion_plan, eta_ms, .required = true,
                   .help = "Milliseconds until all is learned; null when that of some is unknown."),
};
SCHEMA_TYPE(expansion_plan, "What an expansion would take.");
