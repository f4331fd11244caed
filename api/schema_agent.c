/* The tables of what agents and coordinator exchange (D6). */
#include "api/schema_fields.h"

const char *const schema_names_agent_leaving[] = {"no", "drain", "release", NULL};
const char *const schema_names_task_role[] = {"learner", "standby", "active", NULL};
const char *const schema_names_task_state[] = {"opening",   "seeding", "learning", "caught_up",
                                               "replaying", "active",  "paused",   "releasing",
                                               "closed",    "fenced",  "failed",   NULL};
const char *const schema_names_effective_partitioner[] = {"undetermined", "murmur2", "crc32",
                                                          "opaque", NULL};

/* Every list of partitions of all inputs. */
#define INPUT_OFFSETS_MAX (API_INPUTS_MAX * API_PARTITIONS_MAX)

static const struct schema_field tag_fields[] = {
    FIELD_STRING(tag, name, 1, 63, .required = true, .help = "What the tag is about, like zone."),
    FIELD_STRING(tag, value, 0, 255, .required = true, .help = "Its value for this agent."),
};
SCHEMA_TYPE(tag, "A property of an agent's host.");

static const struct schema_field input_offset_fields[] = {
    FIELD_UINT32(input_offset, topic, 0, API_INPUTS_MAX - 1, .required = true,
                 .help = "Index of the topic in the job's inputs."),
    FIELD_UINT32(input_offset, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_KNOWABLE(input_offset, offset, .required = true, .help = "Next offset to read."),
};
SCHEMA_TYPE(input_offset, "An offset in one partition of one of the job's inputs.");

static const struct schema_field chosen_offset_fields[] = {
    FIELD_UINT32(chosen_offset, topic, 0, API_INPUTS_MAX - 1, .required = true,
                 .help = "Index of the topic in the job's inputs."),
    FIELD_UINT32(chosen_offset, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_KNOWABLE(chosen_offset, found, .required = true,
                   .help = "Committed offset that this is about; null: none is committed."),
    FIELD_INT64(chosen_offset, offset, 0, INT64_MAX, .required = true,
                .help = "Offset to go on from instead (T1)."),
};
SCHEMA_TYPE(chosen_offset, "What somebody has decided about a committed offset.");

static const struct schema_field settle_window_fields[] = {
    FIELD_UINT32(settle_window, topic, 0, API_INPUTS_MAX - 1, .required = true,
                 .help = "Index of the topic in the job's inputs."),
    FIELD_UINT32(settle_window, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_UINT64(settle_window, number, .required = true,
                 .help = "Rises each time that the window is opened."),
    FIELD_INT64(settle_window, first_end, 0, INT64_MAX, .required = true,
                .help = "Where the partition ended before its topic was expanded for the first "
                        "time; 0: an expansion made it. From there on keys are checked."),
    FIELD_INT64(settle_window, end, 0, INT64_MAX, .required = true,
                .help = "Where the partition ended before its topic had the newest count."),
    FIELD_KNOWABLE(settle_window, fence, .required = true,
                   .help = "Where the window was closed; null: it is open."),
};
SCHEMA_TYPE(settle_window,
            "Whether producers may still write by the old number of partitions to one of them.");

static const struct schema_field window_report_fields[] = {
    FIELD_UINT32(window_report, topic, 0, API_INPUTS_MAX - 1, .required = true,
                 .help = "Index of the topic in the job's inputs."),
    FIELD_UINT32(window_report, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_UINT64(window_report, number, .required = true,
                 .help = "Opening of the window that this is about."),
    FIELD_UINT64(window_report, old_records, .required = true,
                 .help = "Old-count records met since the task's start."),
    FIELD_TIME(window_report, old_at, .help = "When the last of them was met; null: none was."),
    FIELD_KNOWABLE(window_report, settled,
                   .help = "Committed offset past an end that was asked for when there had been no "
                           "old-count record for as long as the job's settle; null: not yet."),
    FIELD_BOOL(window_report, stale, .help = "One came after the window was closed."),
};
SCHEMA_TYPE(window_report, "What a task has met in a settle window.");

static const struct schema_field kept_state_fields[] = {
    FIELD_NAME(kept_state, job, .required = true, .help = "Job that the state belongs to."),
    FIELD_UUID(kept_state, job_incarnation, .required = true, .help = "Incarnation of that job."),
    FIELD_UINT32(kept_state, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor number."),
    FIELD_OBJECTS(kept_state, learned, input_offset, INPUT_OFFSETS_MAX,
                  .help = "Next offset to apply to the state, per topic and partition (T2)."),
};
SCHEMA_TYPE(kept_state, "State of a processor that an agent has on its disk.");

static const struct schema_field agent_offer_fields[] = {
    FIELD_AGENT_ID(agent_offer, agent_id, .required = true, .help = "Name of the agent."),
    FIELD_UINT32(agent_offer, protocol, 1, UINT32_MAX, .required = true,
                 .help = "Highest protocol version that the agent speaks."),
    FIELD_UINT32(agent_offer, protocol_minimum, 1, UINT32_MAX, .required = true,
                 .help = "Lowest protocol version that the agent speaks."),
    FIELD_STRING(agent_offer, version, 1, 64, .help = "Version of the agent's software."),
};
SCHEMA_TYPE(agent_offer, "The protocol versions of a registration.");

static const struct schema_field agent_registration_fields[] = {
    FIELD_AGENT_ID(agent_registration, agent_id, .required = true,
                   .help = "Name of the agent, unique in the cluster."),
    FIELD_UUID(agent_registration, incarnation, .required = true,
               .help = "UUID of this start of the agent."),
    FIELD_UINT32(agent_registration, protocol, 1, UINT32_MAX, .required = true,
                 .help = "Highest protocol version that the agent speaks."),
    FIELD_UINT32(agent_registration, protocol_minimum, 1, UINT32_MAX, .required = true,
                 .help = "Lowest protocol version that the agent speaks."),
    FIELD_STRING(agent_registration, version, 1, 64, .required = true,
                 .help = "Version of the agent's software, for people."),
    FIELD_STRING(agent_registration, address, 1, 255,
                 .help = "URL of the agent's own endpoint, or null."),
    FIELD_UINT32(agent_registration, capacity, 1, API_TASKS_MAX, .required = true,
                 .help = "Most tasks that the agent takes."),
    FIELD_UINT32(agent_registration, max_learners, 0, API_TASKS_MAX,
                 .help = "Most tasks that learn on the agent at a time; 0: no limit."),
    FIELD_OBJECTS(agent_registration, tags, tag, API_TAGS_MAX,
                  .help = "Properties of the host, like its zone."),
    FIELD_OBJECTS(agent_registration, kept, kept_state, API_TASKS_MAX,
                  .help = "State that the agent has on its disk."),
    FIELD_OBJECTS(agent_registration, crashes, crash_note, API_TASKS_MAX,
                  .help = "Where logic has ended earlier processes of this agent."),
    FIELD_UUID(agent_registration, cluster,
               .help = "UUID of the cluster that this start works for; null: none yet."),
    FIELD_VERSION(agent_registration, document,
                  .help = "Version of the newest document that it was told; \"0.0\": none."),
    FIELD_OBJECTS(agent_registration, jobs, document_job, API_JOBS_MAX,
                  .help = "The jobs of that document, for a coordinator that has lost its "
                          "database."),
    FIELD_OBJECTS(agent_registration, tasks, document_task, API_TASKS_MAX,
                  .help = "The tasks of that document."),
};
SCHEMA_TYPE(agent_registration, "What an agent says of itself at its start.");

static const struct schema_field agent_welcome_fields[] = {
    FIELD_UUID(agent_welcome, cluster, .required = true, .help = "UUID of the cluster."),
    FIELD_UINT32(agent_welcome, protocol, 1, UINT32_MAX, .required = true,
                 .help = "Protocol version that the two will speak."),
    FIELD_DURATION(agent_welcome, agent_timeout_ms, "agent_timeout", 0, SCHEMA_DAY_MS,
                   .required = true,
                   .help = "An agent that was not heard of for this long is called lost."),
    FIELD_DURATION(agent_welcome, report_interval_ms, "report_interval", 0, SCHEMA_HOUR_MS,
                   .required = true, .help = "Time between two reports when nothing changes."),
    FIELD_DURATION(agent_welcome, poll_wait_ms, "poll_wait", 0, SCHEMA_HOUR_MS, .required = true,
                   .help = "How long a poll for the assignment may wait."),
};
SCHEMA_TYPE(agent_welcome, "What the coordinator answers to a registration.");

static const struct schema_field document_job_fields[] = {
    FIELD_NAME(document_job, name, .required = true, .help = "Name of the job."),
    FIELD_UUID(document_job, incarnation, .required = true,
               .help = "UUID that the job got at its creation."),
    FIELD_OBJECT(document_job, spec, job_spec, .help = "The job's specification."),
    FIELD_UINT32(document_job, partitions_initial, 1, API_PARTITIONS_MAX, .required = true,
                 .help = "Initial number of partitions (N0)."),
    FIELD_UINT32(document_job, partitions, 1, API_PARTITIONS_MAX, .required = true,
                 .help = "Number of partitions now (N)."),
    FIELD_UINT32(document_job, processors_initial, 1, API_PARTITIONS_MAX, .required = true,
                 .help = "Initial number of processors (M0)."),
    FIELD_UINT32(document_job, processors, 1, API_PARTITIONS_MAX, .required = true,
                 .help = "Number of processors now (M)."),
    FIELD_UINT32(document_job, processors_settled, 0, API_PARTITIONS_MAX,
                 .help = "So many of them have all that they need of those they were split from: "
                         "what was left behind there may go. 0: not said."),
    FIELD_ENUM(document_job, partitioner, schema_names_effective_partitioner, .required = true,
               .help = "How producers were found to spread keys over partitions."),
    FIELD_BOOL(document_job, paused, .required = true,
               .help =
                   "The owners put nothing out and commit nothing: the job is paused, or others "
                   "are in its group."),
    FIELD_BOOL(document_job, frozen,
               .help =
                   "With paused: others are in the group, and what they commit is not accepted."),
    FIELD_BOOL(document_job, waiting,
               .help = "With paused: the job follows what the others in the group commit, and goes "
                       "on from there when they have left."),
    FIELD_OBJECTS(document_job, origins, input_offset, INPUT_OFFSETS_MAX, .required = true,
                  .help = "First offset that is part of the state, of every input partition (T0)."),
    FIELD_OBJECTS(document_job, windows, settle_window, INPUT_OFFSETS_MAX,
                  .help =
                      "Settle windows of the input partitions that others were split off from."),
};
SCHEMA_TYPE(document_job, "A job as its agents need to know it.");

static const struct schema_field ancestor_bound_fields[] = {
    FIELD_UINT32(ancestor_bound, topic, 0, API_INPUTS_MAX - 1, .required = true,
                 .help = "Index of the topic in the job's inputs."),
    FIELD_UINT32(ancestor_bound, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Number of the ancestor."),
    FIELD_KNOWABLE(ancestor_bound, offset, .required = true,
                   .help = "Its records before this offset are part of the state, none from there "
                           "on."),
    FIELD_KNOWABLE(ancestor_bound, records,
                   .help = "How many records its owner had met up to there; null: not counted."),
};
SCHEMA_TYPE(ancestor_bound, "Up to where an ancestor's records are part of a state.");

static const struct schema_field document_source_fields[] = {
    FIELD_AGENT_ID(document_source, agent, .required = true, .help = "Name of the agent."),
    FIELD_STRING(document_source, address, 1, 255, .required = true,
                 .help = "URL of its endpoint."),
    FIELD_BOOL(document_source, parent,
               .help = "What it has is the state of the processor that this one is split off from: "
                       "it gives the part that goes."),
};
SCHEMA_TYPE(document_source, "An agent that has a copy of a task's state.");

static const struct schema_field crash_note_fields[] = {
    FIELD_NAME(crash_note, job, .required = true, .help = "Name of the job."),
    FIELD_UUID(crash_note, job_incarnation, .required = true, .help = "Which job of that name."),
    FIELD_AGENT_ID(crash_note, agent, .help = "Name of the agent; null in what it says itself."),
    FIELD_STRING(crash_note, build, 1, API_BUILD_BYTES, .required = true,
                 .help = "Digest of the logic's file; crashes of another do not count."),
    FIELD_UINT32(crash_note, topic, 0, API_INPUTS_MAX - 1, .required = true,
                 .help = "Index of the input topic."),
    FIELD_UINT32(crash_note, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition of the record."),
    FIELD_INT64(crash_note, offset, 0, INT64_MAX, .required = true,
                .help = "Offset of the record."),
    FIELD_UINT32(crash_note, count, 1, UINT32_MAX, .required = true,
                 .help = "Crashes in a row at this record."),
};
SCHEMA_TYPE(crash_note, "Crashes of the logic at one record, on one agent.");

static const struct schema_field document_task_fields[] = {
    FIELD_NAME(document_task, job, .required = true, .help = "Name of the job."),
    FIELD_UINT32(document_task, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor number."),
    FIELD_ENUM(document_task, role, schema_names_task_role, .required = true,
               .help = "What the agent shall be for this processor."),
    FIELD_UINT64(document_task, epoch, .required = true,
                 .help = "Epoch of the activation; 0 for learners and standbys."),
    FIELD_UINT64(document_task, handoff, .required = true,
                 .help = "Number of the hand-over that this is part of; 0: none."),
    FIELD_BOOL(document_task, release,
               .help = "An active task shall finish its batch, commit and give its partitions up."),
    FIELD_UINT64(document_task, split_handoff,
                 .help = "Number of the split: an active task shall finish its batch, commit, give "
                         "split_partitions up and go on with the rest; 0: none."),
    FIELD_UINT32(document_task, split_processor, 0, API_PARTITIONS_MAX - 1,
                 .help = "New processor that gets them; their last offsets here carry its stamp."),
    FIELD_UINT64(document_task, split_epoch, .help = "Epoch of that stamp."),
    FIELD_UINTS(document_task, split_partitions, API_PARTITIONS_MAX, API_PARTITIONS_MAX - 1,
                .help = "Partitions that leave, ascending; empty: none."),
    FIELD_UINTS(document_task, owned, API_PARTITIONS_MAX, API_PARTITIONS_MAX - 1, .required = true,
                .help = "Partitions to consume with output (S1), ascending."),
    FIELD_UINTS(document_task, read, API_PARTITIONS_MAX, API_PARTITIONS_MAX - 1, .required = true,
                .help = "Partitions that the state comes from (S2), ascending, all of S1 among "
                        "them."),
    FIELD_OBJECTS(document_task, bounds, ancestor_bound, INPUT_OFFSETS_MAX,
                  .help = "Up to where those count that are read and not owned; what is not named "
                          "here is not decided yet."),
    FIELD_OBJECTS(document_task, paused_t1, input_offset, INPUT_OFFSETS_MAX,
                  .help = "Committed offsets (T1) at which the processor was paused, until it is "
                          "active again: higher ones that others commit meanwhile are accepted."),
    FIELD_OBJECTS(document_task, chosen, chosen_offset, INPUT_OFFSETS_MAX,
                  .help = "Committed offsets (T1) as somebody has chosen them, until the processor "
                          "is active again."),
    FIELD_OBJECTS(document_task, skips, input_offset, API_SKIPS_MAX,
                  .help = "Records that are never given to the logic, ascending."),
    FIELD_OBJECTS(document_task, sources, document_source, API_AGENTS_MAX,
                  .help = "Agents to ask for a snapshot of the state, in this order."),
    FIELD_STRING(document_task, seed_token, 1, 64,
                 .help = "Token to ask them with; null: there are none."),
    FIELD_STRINGS(document_task, readers, API_AGENTS_MAX, 64,
                  .help = "Tokens of those who may have a snapshot of this task's state."),
    FIELD_OBJECTS(document_task, crashes, crash_note, API_AGENTS_MAX,
                  .help = "Where other agents' processes were ended by this logic."),
    FIELD_STRINGS(document_task, part_readers, API_AGENTS_MAX, 64,
                  .help = "Tokens of those who may have the part of it that a split gives to "
                          "part_processor."),
    FIELD_UINT32(document_task, part_processor, 0, API_PARTITIONS_MAX - 1,
                 .help = "Processor that is split off from this one; with part_readers."),
};
SCHEMA_TYPE(document_task, "A task that an agent shall have.");

static const struct schema_field agent_document_fields[] = {
    FIELD_VERSION(agent_document, version, .required = true,
                  .help = "Version of this document; a lower one than last seen is ignored."),
    FIELD_OBJECTS(agent_document, jobs, document_job, API_JOBS_MAX, .required = true,
                  .help = "The jobs that the tasks belong to."),
    FIELD_OBJECTS(agent_document, tasks, document_task, API_TASKS_MAX, .required = true,
                  .help = "All tasks that the agent shall have, and no others."),
};
SCHEMA_TYPE(agent_document, "All that an agent shall do; replaces what it was told before.");

static const struct schema_field partition_progress_fields[] = {
    FIELD_UINT32(partition_progress, topic, 0, API_INPUTS_MAX - 1, .required = true,
                 .help = "Index of the topic in the job's inputs."),
    FIELD_UINT32(partition_progress, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_KNOWABLE(partition_progress, t0, .required = true,
                   .help = "First offset that is part of the job's state."),
    FIELD_KNOWABLE(partition_progress, t1, .required = true,
                   .help = "Next offset to consume, as committed."),
    FIELD_KNOWABLE(partition_progress, t2, .required = true,
                   .help = "Next offset to apply to this task's state."),
    FIELD_KNOWABLE(partition_progress, log_start, .required = true,
                   .help = "First offset that is still in the log."),
    FIELD_KNOWABLE(partition_progress, stable_end, .required = true,
                   .help = "Last stable offset: how far read_committed readers get."),
    FIELD_KNOWABLE(partition_progress, end, .required = true,
                   .help = "High watermark; above stable_end a transaction is open."),
};
SCHEMA_TYPE(partition_progress, "Offsets in one partition that a task reads.");

static const struct schema_field task_problem_fields[] = {
    FIELD_NAME(task_problem, code, .required = true, .help = "Code of a named problem."),
    FIELD_STRING(task_problem, detail, 0, API_TEXT_BYTES_MAX, .required = true,
                 .help = "What happened, for a person."),
    FIELD_TIME(task_problem, since_at, .required = true, .help = "Since when."),
};
SCHEMA_TYPE(task_problem, "A named problem of a task.");

static const struct schema_field task_report_fields[] = {
    FIELD_NAME(task_report, job, .required = true, .help = "Name of the job."),
    FIELD_UUID(task_report, job_incarnation, .required = true, .help = "Incarnation of the job."),
    FIELD_UINT32(task_report, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor number."),
    FIELD_ENUM(task_report, role, schema_names_task_role, .required = true,
               .help = "Role in which the task runs."),
    FIELD_ENUM(task_report, state, schema_names_task_state, .required = true,
               .help = "State of the task."),
    FIELD_UINT64(task_report, epoch, .required = true, .help = "Epoch that the task works under."),
    FIELD_UINT64(task_report, handoff, .required = true,
                 .help = "Hand-over that the document named; 0: none."),
    FIELD_BOOL(task_report, released,
               .help = "The last commit under this epoch succeeded and the task consumes nothing "
                       "any more."),
    FIELD_UINT64(task_report, split,
                 .help = "Number of the split whose partitions it has given up: their committed "
                         "offsets carry the new processor's stamp; 0: none."),
    FIELD_OBJECTS(task_report, split_bounds, ancestor_bound, INPUT_OFFSETS_MAX,
                  .help =
                      "Up to where records of their keys count in those of their ancestors that "
                      "stay here."),
    FIELD_KNOWABLE(task_report, caught_up_lag,
                   .help = "Most records of one partition of S1 between what a learner has applied "
                           "and the commit that it follows; null while unknown or no learner."),
    FIELD_UINTS(task_report, consuming, API_PARTITIONS_MAX, API_PARTITIONS_MAX - 1,
                .required = true,
                .help = "Partitions that the task consumes with output at this moment."),
    FIELD_OBJECTS(task_report, progress, partition_progress, INPUT_OFFSETS_MAX, .required = true,
                  .help = "Offsets of the partitions of S2."),
    FIELD_OBJECTS(task_report, halted, input_offset, 1,
                  .help = "The record that the task can not pass until somebody does something."),
    FIELD_OBJECTS(task_report, found, input_offset, INPUT_OFFSETS_MAX,
                  .help =
                      "Committed offsets that the task does not go on from, and so waits; null: "
                      "there is none."),
    FIELD_OBJECTS(task_report, windows, window_report, INPUT_OFFSETS_MAX,
                  .help = "Settle windows of the partitions of S1."),
    FIELD_UINT64(task_report, records, .required = true,
                 .help = "Records applied with output since the task's start."),
    FIELD_UINT64(task_report, outputs, .required = true,
                 .help = "Records written to the output topic since the task's start."),
    FIELD_UINT64(task_report, replayed, .required = true,
                 .help = "Records applied without output since the task's start."),
    FIELD_UINT64(task_report, skipped_null_key, .required = true,
                 .help = "Records skipped because they have no key."),
    FIELD_UINT64(task_report, skipped_error, .required = true,
                 .help = "Records skipped because the logic returned an error."),
    FIELD_UINT64(task_report, skipped_asked, .help = "Records passed because somebody said so."),
    FIELD_UINT64(task_report, dead_lettered, .required = true,
                 .help = "Records written to the dead letter topic."),
    FIELD_UINT64(task_report, commits, .required = true, .help = "Commits that succeeded."),
    FIELD_UINT64(task_report, aborts, .required = true, .help = "Transactions given up."),
    FIELD_DOUBLE(task_report, records_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records applied with output per second, over the last seconds."),
    FIELD_DOUBLE(task_report, replayed_per_s, SCHEMA_RATE_MAX, .required = true,
                 .help = "Records applied without output per second, over the last seconds."),
    FIELD_UINT64(task_report, state_rows, .required = true, .help = "Rows in the state."),
    FIELD_UINT64(task_report, state_bytes, .required = true, .help = "Bytes of the state on disk."),
    FIELD_UINT64(task_report, garbage_rows,
                 .help = "Rows that splits have left behind, removed since the state was opened."),
    FIELD_BOOL(task_report, garbage_left,
               .help = "There may be more of them, which are looked for in the background."),
    FIELD_AGENT_ID(task_report, seed_source,
                   .help = "Agent that the state was got from as a snapshot, or is being; null: "
                           "none."),
    FIELD_UINT64(task_report, seed_rows, .help = "Rows of that snapshot that have come."),
    FIELD_UINT64(task_report, seed_rows_total, .help = "Rows that it has."),
    FIELD_UINT64(task_report, seed_bytes, .help = "Bytes that have come."),
    FIELD_DOUBLE(task_report, seed_rows_per_s, SCHEMA_RATE_MAX,
                 .help = "Rows per second since it began; 0 when it has ended."),
    FIELD_OBJECTS(task_report, problems, task_problem, 64, .required = true,
                  .help = "What is wrong with the task."),
};
SCHEMA_TYPE(task_report, "What a task is and has done.");

static const struct schema_field agent_report_fields[] = {
    FIELD_UUID(agent_report, incarnation, .required = true,
               .help = "UUID of this start of the agent."),
    FIELD_VERSION(agent_report, version, .required = true,
                  .help = "Version of the document that the agent works by; \"0.0\": none yet."),
    FIELD_BOOL(agent_report, stopping, .required = true,
               .help = "The agent is on its way out and has committed everything."),
    FIELD_ENUM(agent_report, leaving, schema_names_agent_leaving,
               .help = "no: it stays, or comes back; drain: it works on until others have what it "
                       "has; release: others shall take that over without waiting for it."),
    FIELD_OBJECTS(agent_report, tasks, task_report, API_TASKS_MAX, .required = true,
                  .help = "The tasks that there are."),
    FIELD_OBJECTS(agent_report, crashes, crash_note, API_TASKS_MAX,
                  .help = "Where logic has ended earlier processes of this agent."),
};
SCHEMA_TYPE(agent_report, "What an agent has and does at this moment.");

static const struct schema_field follow_fields[] = {
    FIELD_NAME(follow, job, .required = true, .help = "Name of the job."),
    FIELD_UINT32(follow, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor number."),
    FIELD_OBJECTS(follow, committed, input_offset, INPUT_OFFSETS_MAX, .required = true,
                  .help = "Committed offsets (T1) of one commit of the owner."),
};
SCHEMA_TYPE(follow, "How far one learner may apply records.");

static const struct schema_field report_answer_fields[] = {
    FIELD_BOOL(report_answer, safe_to_stop,
               .help = "The agent is to leave and has nothing any more."),
    FIELD_BOOL(report_answer, drain_refused,
               .help = "The agent wants to leave, but nobody could take what it has."),
    FIELD_OBJECTS(report_answer, follow, follow, API_TASKS_MAX, .required = true,
                  .help = "How far the agent's learners may apply records."),
};
SCHEMA_TYPE(report_answer, "What the coordinator answers to a report.");
