/* The tables of what people and tools read, and the list of all types. */
#include "api/schema_fields.h"

const char *const schema_names_job_state[] = {"creating", "running", "deleting", "failed", NULL};
const char *const schema_names_operation_state[] = {"pending", "running",   "succeeded",
                                                    "failed",  "cancelled", NULL};
const char *const schema_names_handoff_kind[] = {"relocate", "split", NULL};
const char *const schema_names_handoff_state[] = {"learning",  "caught_up",  "releasing",
                                                  "released",  "activating", "done",
                                                  "cancelled", "failed",     NULL};
const char *const schema_names_agent_state[] = {"alive", "stopped", "lost", NULL};
const char *const schema_names_drain_state[] = {"draining", "drained", "cancelled", NULL};
const char *const schema_names_drain_deadline[] = {"force", "cancel", NULL};
const char *const schema_names_problem_severity[] = {"warning", "critical", NULL};

#define ITEMS_MAX            10000 /* of one page; what a request may ask for is less */
#define INPUT_PARTITIONS_MAX (API_INPUTS_MAX * API_PARTITIONS_MAX)

static const struct schema_field job_view_fields[] = {
    FIELD_NAME(job_view, name, .required = true, .help = "Name of the job."),
    FIELD_UUID(job_view, incarnation, .required = true,
               .help = "UUID that the job got at its creation; a new job of the same name has "
                       "another one."),
    FIELD_ENUM(job_view, state, schema_names_job_state, .required = true,
               .help = "Where the job is in its life."),
    FIELD_UINT64(job_view, generation, .required = true,
                 .help = "Rises with every change of the spec; the ETag is made of it."),
    FIELD_TIME(job_view, created_at, .required = true, .help = "When the job was created."),
    FIELD_OBJECT(job_view, spec, job_spec, .help = "The specification, defaults filled in."),
    FIELD_STRING(job_view, operation, 1, 64,
                 .help = "Id of the operation that creates or deletes the job, or null."),
    FIELD_OBJECT(job_view, pause, pause_view,
                 .help = "Whether it is paused, who said so, and why."),
    FIELD_STRINGS(job_view, warnings, 64, API_TEXT_BYTES_MAX, .required = true,
                  .help = "What was noticed at creation and may hurt later."),
};
SCHEMA_TYPE(job_view, "A job: its specification and where it is in its life.");

static const struct schema_field job_status_fields[] = {
    FIELD_NAME(job_status, name, .required = true, .help = "Name of the job."),
    FIELD_ENUM(job_status, state, schema_names_job_state, .required = true,
               .help = "Where the job is in its life."),
    FIELD_UINT32(job_status, partitions_initial, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Initial number of partitions (N0)."),
    FIELD_UINT32(job_status, partitions, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Number of partitions now (N)."),
    FIELD_UINT32(job_status, processors_initial, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Initial number of processors (M0)."),
    FIELD_UINT32(job_status, processors, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Number of processors now (M)."),
    FIELD_BOOL(job_status, paused, .required = true,
               .help = "The job is paused: it is to put nothing out."),
    FIELD_STRING(job_status, paused_reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why it is paused, or null."),
    FIELD_STRING(job_status, paused_by, 0, 255, .help = "Who paused it; null: it is not paused."),
    FIELD_TIME(job_status, paused_at, .required = true,
               .help = "Since when it is paused; null: it is not."),
    FIELD_OBJECT(job_status, group, group_view, .help = "Who else is in its group."),
    FIELD_UINT32(job_status, processors_active, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Processors that process records."),
    FIELD_UINT32(job_status, processors_replaying, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Processors that rebuild their state before they go on."),
    FIELD_UINT32(job_status, processors_unassigned, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Processors that no agent has."),
    FIELD_UINT32(job_status, processors_failed, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Processors that stopped because of a problem."),
    FIELD_UINT32(job_status, processors_paused, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Processors that have committed what they put out, and stopped, because "
                         "the job is paused, or others are in its group."),
    FIELD_UINT32(job_status, agents, 0, API_AGENTS_MAX, .required = true,
                 .help = "Agents that hold a task of the job."),
    FIELD_UINT32(job_status, handoffs_running, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Hand-overs under way."),
    FIELD_UINT32(job_status, standbys_wanted, 0, UINT32_MAX, .required = true,
                 .help = "Standbys that the job is to have."),
    FIELD_UINT32(job_status, standbys_ready, 0, UINT32_MAX, .required = true,
                 .help = "Standbys that would take over at once."),
    FIELD_KNOWABLE(job_status, lag_records, .required = true,
                   .help = "Records not yet processed, of all partitions; null while that of any "
                           "partition is unknown."),
    FIELD_KNOWABLE(job_status, lag_records_max, .required = true,
                   .help = "Records not yet processed of the partition that has most."),
    FIELD_KNOWABLE(job_status, replay_records, .required = true,
                   .help = "Records still to be replayed into state."),
    FIELD_DOUBLE(job_status, records_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records processed per second."),
    FIELD_DOUBLE(job_status, replayed_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records replayed per second."),
    FIELD_UINT64(job_status, state_rows, .required = true, .help = "Rows in the state."),
    FIELD_UINT64(job_status, state_bytes, .required = true, .help = "Bytes of the state on disk."),
    FIELD_UINT32(job_status, windows_open, 0, UINT32_MAX, .required = true,
                 .help = "Partitions of all inputs whose settle window is open."),
    FIELD_UINT32(job_status, windows_stale, 0, UINT32_MAX, .required = true,
                 .help = "Those of them that are open again: an old-count record came too late."),
    FIELD_UINT64(job_status, old_records, .required = true,
                 .help = "Old-count records met since the newest expansion."),
    FIELD_TIME(job_status, old_at, .help = "When the last of them was met; null: none was."),
    FIELD_TIME(job_status, windows_close_at,
               .help = "The first open window is closed then at the earliest; null: none is open, "
                       "or none can be closed, for nobody knows how keys are placed."),
    FIELD_UINT32(job_status, problems, 0, UINT32_MAX, .required = true,
                 .help = "Number of problems, see /problems."),
    FIELD_TIME(job_status, observed_at, .required = true,
               .help = "Time of the oldest report that this sums up; null when there is none."),
};
SCHEMA_TYPE(job_status,
            "A job in numbers, for dashboards and autoscalers; sums over its processors.");

static const struct schema_field partition_view_fields[] = {
    FIELD_TOPIC(partition_view, topic, .required = true, .help = "Name of the input topic."),
    FIELD_UINT32(partition_view, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_BOOL(partition_view, owned, .required = true,
               .help = "Whether the processor consumes it with output (it is in S1)."),
    FIELD_KNOWABLE(partition_view, t0, .required = true,
                   .help = "First offset that is part of the job's state."),
    FIELD_KNOWABLE(partition_view, t1, .required = true,
                   .help = "Next offset to consume, as committed."),
    FIELD_KNOWABLE(partition_view, t2, .required = true,
                   .help = "Next offset to apply to the state."),
    FIELD_KNOWABLE(partition_view, log_start, .required = true,
                   .help = "First offset that is still in the log."),
    FIELD_KNOWABLE(partition_view, stable_end, .required = true,
                   .help = "Last stable offset: how far read_committed readers get."),
    FIELD_KNOWABLE(partition_view, end, .required = true,
                   .help = "High watermark; above stable_end a transaction is open."),
    FIELD_KNOWABLE(partition_view, lag_records, .required = true,
                   .help = "Records not yet processed (stable_end - t1)."),
    FIELD_STRING(partition_view, window, 1, 16,
                 .help =
                     "Its settle window after an expansion: open or closed; null: it has none."),
    FIELD_TIME(partition_view, window_at, .help = "Since when the window is so."),
    FIELD_KNOWABLE(partition_view, fence,
                   .help = "Offset at which the window was closed; null while it is not."),
    FIELD_KNOWABLE(partition_view, old_records,
                   .help = "Old-count records met in the window: their producers did not know the "
                           "present number of partitions."),
    FIELD_TIME(partition_view, old_at, .help = "When the last of them was met; null: none was."),
    FIELD_BOOL(partition_view, window_stale, .required = true,
               .help = "The window is open again: one came after it had been closed."),
    FIELD_TIME(partition_view, window_closes_at,
               .help =
                   "The window is closed then at the earliest: an owner that starts anew counts "
                   "`settle` anew; null: it is not open, or can not be closed, for nobody knows "
                   "how keys are placed."),
};
SCHEMA_TYPE(partition_view, "Offsets in one partition that a processor reads.");

static const struct schema_field learner_view_fields[] = {
    FIELD_AGENT_ID(learner_view, agent, .required = true, .help = "Agent that learns it."),
    FIELD_UINT64(learner_view, handoff, .required = true,
                 .help = "Number of the hand-over that it learns for."),
    FIELD_STRING(learner_view, state, 1, 64, .required = true,
                 .help = "State of its task, or assigned while it has not reported it."),
    FIELD_KNOWABLE(learner_view, learned_records, .required = true,
                   .help = "Offsets from T0 to T2 that it has learned; null while unknown."),
    FIELD_KNOWABLE(learner_view, target_records, .required = true,
                   .help = "Offsets from T0 to the T1 that it follows; null while unknown."),
    FIELD_KNOWABLE(learner_view, lag_records, .required = true,
                   .help = "Most records of one partition that it is behind the owner; null while "
                           "unknown."),
    FIELD_KNOWABLE(learner_view, replay_records, .required = true,
                   .help = "Records that it has still to learn; null while unknown."),
    FIELD_KNOWABLE(learner_view, eta_ms, .required = true,
                   .help = "Milliseconds until it has caught up at its rate less the owner's; null "
                           "when that can not be told, or never happens."),
    FIELD_DOUBLE(learner_view, replayed_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records that it learns per second."),
    FIELD_DOUBLE(learner_view, incoming_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records that the owner processes per second meanwhile."),
    FIELD_STRING(learner_view, stuck, 1, 64,
                 .help = "Why it does not get on: the code of a problem, or source_not_heard; null "
                         "when it does."),
    FIELD_STRING(learner_view, waiting, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "What it waits for, for a person."),
    FIELD_TIME(learner_view, reported_at, .required = true,
               .help = "Time of the report that this is from; null when there is none."),
    FIELD_OBJECTS(learner_view, partitions, partition_view, INPUT_PARTITIONS_MAX, .required = true,
                  .help = "Its offsets in every partition of S2; t1 is the one that it follows."),
};
SCHEMA_TYPE(learner_view, "Someone who learns a processor silently, to take it over.");

static const struct schema_field processor_view_fields[] = {
    FIELD_NAME(processor_view, job, .required = true, .help = "Name of the job."),
    FIELD_UINT32(processor_view, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor number."),
    FIELD_AGENT_ID(processor_view, agent, .help = "Agent that owns it, or null."),
    FIELD_UUID(processor_view, agent_incarnation,
               .help = "The start of that agent that the epoch was given to, or null."),
    FIELD_BOOL(processor_view, agent_alive, .required = true,
               .help = "Whether that agent was heard of within the agent timeout."),
    FIELD_UINT64(processor_view, epoch, .required = true, .help = "Epoch of the owner; 0: none."),
    FIELD_STRING(processor_view, state, 1, 64, .required = true,
                 .help = "State of the owner's task as reported for this epoch, or unassigned, "
                         "assigned, agent_lost."),
    FIELD_UINTS(processor_view, owned, API_PARTITIONS_MAX, API_PARTITIONS_MAX - 1, .required = true,
                .help = "Partitions consumed with output (S1)."),
    FIELD_UINTS(processor_view, read, API_PARTITIONS_MAX, API_PARTITIONS_MAX - 1, .required = true,
                .help = "Partitions that the state comes from (S2)."),
    FIELD_KNOWABLE(processor_view, lag_records, .required = true,
                   .help = "Records of S1 not yet processed; null while unknown."),
    FIELD_DOUBLE(processor_view, records_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records processed per second."),
    FIELD_DOUBLE(processor_view, replayed_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records replayed per second."),
    FIELD_KNOWABLE(processor_view, eta_ms, .required = true,
                   .help = "Milliseconds until it has caught up at the present rate; null when "
                           "that can not be told."),
    FIELD_STRING(processor_view, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why it is where it is, for a person, or null."),
    FIELD_UINT64(processor_view, records, .required = true,
                 .help = "Records processed since the task's start."),
    FIELD_UINT64(processor_view, outputs, .required = true,
                 .help = "Records written to the output topic since the task's start."),
    FIELD_UINT64(processor_view, replayed, .required = true,
                 .help = "Records replayed since the task's start."),
    FIELD_UINT64(processor_view, skipped_null_key, .required = true,
                 .help = "Records skipped because they have no key."),
    FIELD_UINT64(processor_view, skipped_error, .required = true,
                 .help = "Records skipped because the logic returned an error."),
    FIELD_UINT64(processor_view, skipped_asked, .required = true,
                 .help = "Records passed because somebody said so (/v1/jobs/{job}/skips)."),
    FIELD_UINT64(processor_view, dead_lettered, .required = true,
                 .help = "Records written to the dead letter topic."),
    FIELD_UINT64(processor_view, commits, .required = true, .help = "Commits that succeeded."),
    FIELD_UINT64(processor_view, aborts, .required = true, .help = "Transactions given up."),
    FIELD_UINT64(processor_view, state_rows, .required = true, .help = "Rows in the state."),
    FIELD_UINT64(processor_view, state_bytes, .required = true,
                 .help = "Bytes of the state on disk."),
    FIELD_UINT64(processor_view, garbage_rows, .required = true,
                 .help = "Rows that splits have left behind, removed since the state was opened."),
    FIELD_BOOL(processor_view, garbage_left, .required = true,
               .help = "There may be more of them, which are looked for in the background."),
    FIELD_TIME(processor_view, reported_at, .required = true,
               .help = "Time of the report that this is from; null when there is none."),
    FIELD_OBJECTS(processor_view, halted, record_view, 1, .required = true,
                  .help = "The record that it can not pass, until somebody does something; empty: "
                          "there is none."),
    FIELD_OBJECTS(processor_view, partitions, partition_view, INPUT_PARTITIONS_MAX,
                  .required = true, .help = "Offsets of every partition of S2."),
    FIELD_OBJECTS(processor_view, learners, learner_view, API_AGENTS_MAX, .required = true,
                  .help = "Who learns it at the moment, to take it over."),
    FIELD_OBJECTS(processor_view, standbys, standby_view, API_AGENTS_MAX, .required = true,
                  .help = "Who learns it for good, to have its state when the owner is lost."),
};
SCHEMA_TYPE(processor_view, "A processor: who has it, how far it is, and why.");

static const struct schema_field map_partition_fields[] = {
    FIELD_UINT32(map_partition, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_UINT32(map_partition, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor that owns it."),
    FIELD_AGENT_ID(map_partition, agent, .help = "Agent that owns that processor, or null."),
    FIELD_KNOWABLE(map_partition, parent, .required = true,
                   .help = "Partition that it was split from; null: it is an initial one."),
};
SCHEMA_TYPE(map_partition, "Where one partition belongs.");

static const struct schema_field map_view_fields[] = {
    FIELD_NAME(map_view, job, .required = true, .help = "Name of the job."),
    FIELD_UINT64(map_view, version, .required = true, .help = "Rises with every expansion."),
    FIELD_UINT32(map_view, partitions_initial, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Initial number of partitions (N0)."),
    FIELD_UINT32(map_view, partitions, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Number of partitions now (N)."),
    FIELD_UINT32(map_view, partitions_level, 0, 31, .required = true,
                 .help = "How often the partitions have doubled."),
    FIELD_UINT32(map_view, partitions_split_pointer, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Partition that is split next."),
    FIELD_UINT32(map_view, processors_initial, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Initial number of processors (M0)."),
    FIELD_UINT32(map_view, processors, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Number of processors now (M)."),
    FIELD_UINT32(map_view, processors_level, 0, 31, .required = true,
                 .help = "How often the processors have doubled."),
    FIELD_UINT32(map_view, processors_split_pointer, 0, API_PARTITIONS_MAX, .required = true,
                 .help = "Processor that is split next."),
    FIELD_ENUM(map_view, partitioner, schema_names_effective_partitioner, .required = true,
               .help = "How producers were found to spread keys over partitions."),
    FIELD_STRING(map_view, partitioner_reason, 0, API_TEXT_BYTES_MAX,
                 .help = "How that was found, or null."),
    FIELD_OBJECTS(map_view, items, map_partition, API_PARTITIONS_MAX, .required = true,
                  .help = "Every partition with its processor."),
};
SCHEMA_TYPE(map_view,
            "How the job's keys are spread over partitions, and partitions over processors.");

static const struct schema_field map_key_view_fields[] = {
    FIELD_NAME(map_key_view, job, .required = true, .help = "Name of the job."),
    FIELD_STRING(map_key_view, key, 0, API_BODY_BYTES_MAX, .required = true,
                 .help = "The key as it was given."),
    FIELD_ENUM(map_key_view, partitioner, schema_names_effective_partitioner, .required = true,
               .help = "Hash that was used."),
    FIELD_UINT32(map_key_view, hash, 0, UINT32_MAX, .required = true, .help = "Hash of the key."),
    FIELD_UINTS(map_key_view, path, 32, API_PARTITIONS_MAX - 1, .required = true,
                .help = "Partitions that the key was in, from the initial one to the present one."),
    FIELD_UINT32(map_key_view, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition that the key belongs to."),
    FIELD_UINT32(map_key_view, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor that owns that partition."),
    FIELD_AGENT_ID(map_key_view, agent, .help = "Agent that owns that processor, or null."),
};
SCHEMA_TYPE(map_key_view, "Where one key belongs, and how it got there.");

static const struct schema_field problem_view_fields[] = {
    FIELD_NAME(problem_view, code, .required = true, .help = "Code of the problem."),
    FIELD_ENUM(problem_view, severity, schema_names_problem_severity, .required = true,
               .help = "critical: something does not work; warning: it may not for long."),
    FIELD_NAME(problem_view, job, .required = true, .help = "Name of the job."),
    FIELD_KNOWABLE(problem_view, processor, .required = true,
                   .help = "Processor number; null: the whole job."),
    FIELD_AGENT_ID(problem_view, agent, .help = "Agent that has it, or null."),
    FIELD_TIME(problem_view, since_at, .required = true, .help = "Since when."),
    FIELD_STRING(problem_view, detail, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "What happened, for a person."),
    FIELD_STRING(problem_view, action, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "What to do about it."),
};
SCHEMA_TYPE(problem_view, "A named problem of a job, with what to do about it.");

static const struct schema_field drain_left_view_fields[] = {
    FIELD_NAME(drain_left_view, job, .required = true, .help = "Name of the job."),
    FIELD_UINT32(drain_left_view, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor number."),
    FIELD_KNOWABLE(drain_left_view, handoff, .required = true,
                   .help = "Number of its hand-over; null: it has not begun."),
    FIELD_AGENT_ID(drain_left_view, target, .help = "Agent that gets it, or null."),
    FIELD_NAME(drain_left_view, state, .help = "State of the hand-over, or null."),
    FIELD_STRING(drain_left_view, waiting, 0, API_TEXT_BYTES_MAX,
                 .help = "What it waits for, for a person, or null."),
    FIELD_NAME(drain_left_view, stuck, .help = "Code of the problem that keeps it, or null."),
    FIELD_KNOWABLE(drain_left_view, lag_records, .required = true,
                   .help = "Records that the target has still to learn, or null."),
    FIELD_KNOWABLE(drain_left_view, eta_ms, .required = true,
                   .help = "Milliseconds until the target has caught up, or null."),
};
SCHEMA_TYPE(drain_left_view, "A processor that a draining agent has still.");

static const struct schema_field drain_view_fields[] = {
    FIELD_AGENT_ID(drain_view, agent, .required = true, .help = "Name of the agent."),
    FIELD_ENUM(drain_view, state, schema_names_drain_state, .required = true,
               .help = "draining; drained, it has nothing any more and gets nothing; cancelled."),
    FIELD_BOOL(drain_view, safe_to_stop, .required = true,
               .help = "The agent may be stopped, in any way: nothing is lost or pauses."),
    FIELD_DURATION(drain_view, deadline_ms, "deadline", 0, INT64_MAX, .fallback = API_UNKNOWN,
                   .help = "How long it may take, or null."),
    FIELD_ENUM(drain_view, on_deadline, schema_names_drain_deadline, .required = true,
               .help = "What is done when that time is over."),
    FIELD_BOOL(drain_view, until_restart, .required = true,
               .help = "It ends when the agent starts anew."),
    FIELD_BOOL(drain_view, overdue, .required = true,
               .help = "The deadline has passed, and what was left was forced."),
    FIELD_STRING(drain_view, reason, 0, API_TEXT_BYTES_MAX, .help = "Why, or null."),
    FIELD_STRING(drain_view, actor, 0, 255, .required = true, .help = "Who asked for it."),
    FIELD_STRING(drain_view, error, 0, API_TEXT_BYTES_MAX,
                 .help = "Why it was cancelled, or null."),
    FIELD_TIME(drain_view, started_at, .required = true, .help = "When it was asked for."),
    FIELD_TIME(drain_view, deadline_at, .required = true, .help = "When its time is over."),
    FIELD_TIME(drain_view, ended_at, .required = true, .help = "When it ended, or null."),
    FIELD_UINT32(drain_view, processors, 0, UINT32_MAX, .required = true,
                 .help = "Processors that it had when it was asked to leave."),
    FIELD_KNOWABLE(drain_view, eta_ms, .required = true,
                   .help = "Milliseconds until the slowest has caught up; null: not known."),
    FIELD_OBJECTS(drain_view, left, drain_left_view, API_TASKS_MAX, .required = true,
                  .help = "What it has still."),
};
SCHEMA_TYPE(drain_view, "How far an agent is with leaving.");

static const struct schema_field agent_view_fields[] = {
    FIELD_AGENT_ID(agent_view, agent_id, .required = true, .help = "Name of the agent."),
    FIELD_UUID(agent_view, incarnation, .required = true,
               .help = "UUID of the start that registered last."),
    FIELD_ENUM(agent_view, state, schema_names_agent_state, .required = true,
               .help = "alive, stopped (it said so), or lost (not heard of for too long)."),
    FIELD_STRING(agent_view, version, 1, 64, .required = true,
                 .help = "Version of the agent's software."),
    FIELD_STRING(agent_view, address, 1, 255, .help = "URL of its own endpoint, or null."),
    FIELD_UINT32(agent_view, protocol, 1, UINT32_MAX, .required = true,
                 .help = "Protocol version that is spoken with it."),
    FIELD_UINT32(agent_view, capacity, 1, API_TASKS_MAX, .required = true,
                 .help = "Most tasks that it takes."),
    FIELD_UINT32(agent_view, max_learners, 0, API_TASKS_MAX, .required = true,
                 .help = "Most tasks that learn on it at a time; 0: no limit."),
    FIELD_OBJECTS(agent_view, tags, tag, API_TAGS_MAX, .required = true,
                  .help = "Properties of the host."),
    FIELD_UINT32(agent_view, tasks, 0, UINT32_MAX, .required = true,
                 .help = "Tasks that it should have."),
    FIELD_UINT32(agent_view, tasks_active, 0, UINT32_MAX, .required = true,
                 .help = "Tasks that it reported as active."),
    FIELD_TIME(agent_view, registered_at, .required = true, .help = "When it registered."),
    FIELD_TIME(agent_view, seen_at, .required = true,
               .help = "When it was heard of last; null: not since the coordinator's start."),
    FIELD_VERSION(agent_view, assigned, .required = true, .help = "Version of its document."),
    FIELD_VERSION(agent_view, applied, .required = true,
                  .help = "Version of the document that it works by."),
    FIELD_OBJECT(agent_view, eligibility, eligibility_view,
                 .help = "Whether it may receive processors."),
    FIELD_NAME(agent_view, drain, .help = "draining or drained; null: it is not to leave."),
    FIELD_BOOL(agent_view, safe_to_stop, .required = true, .help = "It is drained."),
};
SCHEMA_TYPE(agent_view, "An agent.");

static const struct schema_field handoff_view_fields[] = {
    FIELD_UINT64(handoff_view, id, .required = true, .help = "Number of the hand-over; rises."),
    FIELD_ENUM(handoff_view, kind, schema_names_handoff_kind, .required = true,
               .help = "relocate: a processor goes to another agent as a whole; split: a part "
                       "of it, to a new processor."),
    FIELD_NAME(handoff_view, job, .required = true, .help = "Name of the job."),
    FIELD_UINT32(handoff_view, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor number; of a split that of the new one."),
    FIELD_KNOWABLE(handoff_view, parent, .required = true,
                   .help = "Of a split: number of the processor that it takes partitions of; "
                           "else null."),
    FIELD_ENUM(handoff_view, state, schema_names_handoff_state, .required = true,
               .help = "Where the hand-over is; done, cancelled and failed are ends."),
    FIELD_BOOL(
        handoff_view, forced, .required = true,
        .help = "The source's last steps were not waited for: it was lost, or its drain was late."),
    FIELD_AGENT_ID(handoff_view, source, .required = true, .help = "Agent that gives it up."),
    FIELD_AGENT_ID(handoff_view, target, .required = true, .help = "Agent that gets it."),
    FIELD_UINT64(handoff_view, source_epoch, .required = true,
                 .help = "Epoch that the source gives up."),
    FIELD_UINT64(handoff_view, target_epoch, .required = true,
                 .help = "Epoch that the target activates under; 0: not decided yet."),
    FIELD_UINTS(handoff_view, partitions, API_PARTITIONS_MAX, API_PARTITIONS_MAX - 1,
                .required = true, .help = "Partitions that move (S1)."),
    FIELD_STRING(handoff_view, operation, 1, 64,
                 .help = "Id of the operation that asked for it, or null."),
    FIELD_STRING(handoff_view, reason, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "Why it was started."),
    FIELD_STRING(handoff_view, error, 0, API_TEXT_BYTES_MAX,
                 .help = "Why it was cancelled or failed, or null."),
    FIELD_STRING(handoff_view, waiting, 0, API_TEXT_BYTES_MAX,
                 .help = "What it waits for, for a person; null when it has ended."),
    FIELD_STRING(handoff_view, stuck, 1, 64,
                 .help = "Why it does not get on: the code of a problem of the target (of a split "
                         "in releasing: of the owner of the parent), or source_not_heard; null "
                         "when it does."),
    FIELD_KNOWABLE(handoff_view, lag_records, .required = true,
                   .help = "Most records of one partition that the target is behind the source; "
                           "null while unknown."),
    FIELD_KNOWABLE(handoff_view, replay_records, .required = true,
                   .help = "Records that the target has still to learn; null while unknown."),
    FIELD_KNOWABLE(handoff_view, learned_records, .required = true,
                   .help = "Offsets from T0 to T2 that the target has learned; null while "
                           "unknown."),
    FIELD_KNOWABLE(handoff_view, target_records, .required = true,
                   .help = "Offsets from T0 to the T1 that the target follows; null while "
                           "unknown."),
    FIELD_DOUBLE(handoff_view, replayed_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records that the target learns per second."),
    FIELD_DOUBLE(handoff_view, incoming_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records that the source processes per second meanwhile."),
    FIELD_KNOWABLE(handoff_view, eta_ms, .required = true,
                   .help = "Milliseconds until the target has caught up at its rate less the "
                           "source's; null when that can not be told, or never happens."),
    FIELD_TIME(handoff_view, started_at, .required = true, .help = "When it was decided."),
    FIELD_TIME(handoff_view, changed_at, .required = true,
               .help = "When it came into its present state."),
    FIELD_KNOWABLE(handoff_view, learning_ms, .required = true,
                   .help = "Time in the state learning; null: it was not in it."),
    FIELD_KNOWABLE(handoff_view, caught_up_ms, .required = true,
                   .help = "Time in the state caught_up; null: it was not in it."),
    FIELD_KNOWABLE(handoff_view, releasing_ms, .required = true,
                   .help = "Time in the state releasing; null: it was not in it."),
    FIELD_KNOWABLE(handoff_view, released_ms, .required = true,
                   .help = "Time in the state released; null: it was not in it."),
    FIELD_KNOWABLE(handoff_view, activating_ms, .required = true,
                   .help = "Time in the state activating; null: it was not in it."),
    FIELD_KNOWABLE(handoff_view, output_gap_ms, .required = true,
                   .help = "Time from the word to the source to stop (forced: its last report) "
                           "until the target's first commit was reported; null: not yet."),
};
SCHEMA_TYPE(handoff_view, "One move of a processor's partitions from an agent to another.");

static const struct schema_field event_view_fields[] = {
    FIELD_UINT64(event_view, id, .required = true, .help = "Number of the event; rises."),
    FIELD_TIME(event_view, at, .required = true, .help = "When it happened."),
    FIELD_NAME(event_view, kind, .required = true,
               .help = "What happened, like job_created or processor_assigned."),
    FIELD_NAME(event_view, job, .help = "Name of the job, or null."),
    FIELD_KNOWABLE(event_view, processor, .required = true, .help = "Processor number, or null."),
    FIELD_AGENT_ID(event_view, agent, .help = "Name of the agent, or null."),
    FIELD_STRING(event_view, operation, 1, 64, .help = "Id of the operation, or null."),
    FIELD_STRING(event_view, actor, 0, 255, .required = true,
                 .help = "Who did it: api and an address, agent and its name, or coordinator."),
    FIELD_STRING(event_view, detail, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "Why, for a person."),
};
SCHEMA_TYPE(event_view, "Something that happened.");

/* A page of any kind. */
#define PAGE(page, view)                                                                           \
    static const struct schema_field page##_fields[] = {                                           \
        FIELD_OBJECTS(page, items, view, ITEMS_MAX, .required = true, .help = "The entries."),     \
        FIELD_STRING(page, next, 1, API_TEXT_BYTES_MAX,                                            \
                     .help = "Cursor of the next page; null: this is the last one."),              \
    };                                                                                             \
    SCHEMA_TYPE(page, "A page of a list.")

PAGE(job_page, job_view);
PAGE(processor_page, processor_view);
PAGE(problem_page, problem_view);
PAGE(agent_page, agent_view);
PAGE(operation_page, operation_view);
PAGE(handoff_page, handoff_view);
PAGE(event_page, event_view);

/* ---- all of them, in the order of api/types.h */

static const struct schema_type *const types[] = {
    &schema_job_logic,
    &schema_job_spec,
    &schema_tag,
    &schema_input_offset,
    &schema_chosen_offset,
    &schema_settle_window,
    &schema_ancestor_bound,
    &schema_window_report,
    &schema_kept_state,
    &schema_crash_note,
    &schema_agent_registration,
    &schema_agent_welcome,
    &schema_document_job,
    &schema_document_task,
    &schema_document_source,
    &schema_agent_document,
    &schema_partition_progress,
    &schema_task_problem,
    &schema_task_report,
    &schema_agent_report,
    &schema_follow,
    &schema_report_answer,
    &schema_job_view,
    &schema_job_status,
    &schema_partition_view,
    &schema_learner_view,
    &schema_standby_view,
    &schema_record_view,
    &schema_backup_view,
    &schema_processor_view,
    &schema_map_partition,
    &schema_map_view,
    &schema_map_key_view,
    &schema_problem_view,
    &schema_pause_view,
    &schema_group_view,
    &schema_pause_request,
    &schema_maintenance_view,
    &schema_maintenance_request,
    &schema_skip_request,
    &schema_skip_view,
    &schema_offsets_request,
    &schema_offset_choice_view,
    &schema_offsets_view,
    &schema_eligibility_view,
    &schema_eligibility_request,
    &schema_drain_request,
    &schema_drain_left_view,
    &schema_drain_view,
    &schema_agent_view,
    &schema_operation_view,
    &schema_handoff_view,
    &schema_move_request,
    &schema_rebalance_request,
    &schema_expansion_request,
    &schema_plan_request,
    &schema_plan_move,
    &schema_plan_view,
    &schema_expansion_plan,
    &schema_event_view,
    &schema_job_page,
    &schema_processor_page,
    &schema_problem_page,
    &schema_agent_page,
    &schema_operation_page,
    &schema_handoff_page,
    &schema_skip_page,
    &schema_event_page,
    &schema_version_view,
    &schema_field_error,
    &schema_problem_body,
};

const struct schema_type *schema_type_at(size_t index)
{
    return index < sizeof(types) / sizeof(types[0]) ? types[index] : NULL;
}
