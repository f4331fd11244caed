#include "api/problem.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "api/text.h"
#include "common/mem.h"

#define REQUEST(name, http_status, title_text, action_text)                                        \
    {                                                                                              \
        .code = (name), .status = (http_status), .title = (title_text), .action = (action_text)    \
    }
#define OF_JOB(name, http_status, how_bad, title_text, action_text)                                \
    {                                                                                              \
        .code = (name), .status = (http_status), .of_job = true, .severity = (how_bad),            \
        .title = (title_text), .action = (action_text)                                             \
    }
#define WARNING  PROBLEM_SEVERITY_WARNING
#define CRITICAL PROBLEM_SEVERITY_CRITICAL

static const struct problem_entry entries[] = {
    /* ---- the request itself */
    REQUEST("malformed_json", 400, "The body is not valid JSON",
            "Correct the body at the line and column that the detail names."),
    REQUEST(
        "malformed_target", 400, "The address of the request is malformed",
        "Percent-encode it as RFC 3986 says, each parameter at most once; the detail names what "
        "is wrong."),
    REQUEST("invalid_header", 400, "A request header is not valid",
            "Correct the header that the detail names, or leave it out."),
    REQUEST("invalid_query", 400, "A query parameter is not valid",
            "Correct the parameter that the detail names, or leave it out."),
    REQUEST("not_found", 404, "There is nothing at this path",
            "Compare the path with GET /openapi.json."),
    REQUEST("method_not_allowed", 405, "The path does not take this method",
            "Use one of the methods in the Allow header."),
    REQUEST("body_too_large", 413, "The body is larger than allowed",
            "Send a smaller body; the detail names the limit."),
    REQUEST("unsupported_media_type", 415, "The body is not of a type that is understood",
            "Send JSON with the header Content-Type: application/json."),
    REQUEST("invalid_request", 422, "The body is not valid",
            "Correct every field that `errors` lists; each text says what is allowed."),

    /* ---- things that are not there */
    REQUEST("job_not_found", 404, "There is no such job",
            "Compare the name with GET /v1/jobs; a deleted job is gone for good."),
    REQUEST("processor_not_found", 404, "The job has no such processor",
            "Use a number from 0 to the job's number of processors less one."),
    REQUEST("agent_not_found", 404, "There is no such agent",
            "Compare the name with GET /v1/agents; a forgotten agent appears again when it "
            "registers."),
    REQUEST("operation_not_found", 404, "There is no such operation",
            "Compare the id with GET /v1/operations; the oldest finished ones are dropped."),
    REQUEST("drain_not_found", 404, "The agent is not asked to leave",
            "PUT a drain first; GET /v1/agents shows which agents are drained."),
    REQUEST("handoff_not_found", 404, "There is no such hand-over",
            "Compare the number with GET /v1/handoffs; the oldest ended ones are dropped."),

    /* ---- jobs */
    REQUEST(
        "plan_stale", 412, "The request would not move what its plan says any more",
        "Ask POST /v1/plans again, look at the new plan, and repeat the request with its id, or "
        "without one."),
    REQUEST("precondition_failed", 412, "The job is not what If-Match or If-None-Match says",
            "Get the job again, apply your change to what it is now, and send it with its new "
            "ETag."),
    REQUEST("immutable_field", 409, "A field that can not change was changed",
            "Send the old value, or do what the detail says to get the new one."),
    REQUEST("job_deleting", 409, "The job is being deleted",
            "Wait until the operation that the detail names has ended, then try again."),
    REQUEST("group_in_use", 409, "Another job has this consumer group",
            "Give the job a group of its own: the group's committed offsets are one job's "
            "progress."),
    REQUEST("group_has_members", 409, "The consumer group has members",
            "Stop the consumers that the detail names, or give the job a group of its own; baton "
            "must be the group's only user. With \"start\": \"committed\" it takes over from "
            "them."),
    REQUEST("group_has_offsets", 409, "The consumer group has committed offsets",
            "Say \"start\": \"committed\" to go on from them, \"reset_offsets\": true to overwrite "
            "them, or use another group."),
    REQUEST("offsets_missing", 409, "The consumer group lacks committed offsets",
            "\"start\": \"committed\" needs one for every partition of every input: commit those "
            "that the detail names, or choose another start."),
    REQUEST("topic_unknown", 422, "A topic does not exist",
            "Create the topic that the detail names, or correct its name; baton creates none."),
    REQUEST("partition_counts_differ", 422, "The input topics have different partition counts",
            "Give all inputs the same number of partitions: a key must have the same partition "
            "number in each."),
    REQUEST("too_many_processors", 422, "There are more processors than partitions",
            "Ask for at most as many processors as the inputs have partitions."),
    REQUEST("output_unknown", 422, "The output topic does not exist",
            "Create the output topic, or correct its name; baton creates none."),
    REQUEST("broker_too_old", 422, "The brokers are too old for this delivery",
            "Upgrade the brokers to 2.5 or newer, or use \"delivery\": \"at_least_once\"."),
    REQUEST("partitioner_undetermined", 409, "It is not known yet how keys are placed",
            "Try again when there are records with keys to tell it by, or set the job's "
            "partitioner when you create it."),
    REQUEST("limit_reached", 409, "A limit of the cluster is reached",
            "Delete what is no longer needed; the detail names the limit."),
    REQUEST("operation_not_cancellable", 409, "The operation can not be cancelled",
            "Wait for it to end: it has ended already, or is past the point where it could be "
            "undone."),
    REQUEST("move_refused", 409, "The processor can not be moved like this",
            "The detail says why: the job must run, the processor have an owner, and the target be "
            "alive and have room."),
    REQUEST("expansion_refused", 409, "The job can not be expanded like this",
            "The detail says why, and what to do instead; nothing was changed."),
    REQUEST("skip_refused", 409, "The record can not be passed",
            "Only a record that stops a processor can be passed: GET .../processors names it in "
            "`halted`. The detail says why this one is not."),
    REQUEST("offsets_refused", 409, "Committed offsets can not be chosen like this",
            "The detail says why: a processor must have stopped because of its committed offsets, "
            "and the chosen ones be within the job's state and the log."),
    REQUEST("handoff_not_cancellable", 409, "The hand-over can not be cancelled",
            "It has ended, or its source has given the processor up and the target finishes; move "
            "the processor back afterwards."),

    /* ---- agents */
    REQUEST(
        "drain_refused", 409, "The agent can not be drained",
        "Start another agent, uncordon one or cancel its drain, or raise the capacity of one; then "
        "ask again."),
    REQUEST("agent_unknown", 404, "The agent is not registered",
            "The agent registers again by itself; when it does not, restart it."),
    REQUEST("agent_id_in_use", 409, "Another agent that is alive has this id",
            "Give each agent its own agent_id. After a restart of the same agent wait some "
            "seconds: it is accepted once the old process is no longer heard of."),
    REQUEST("superseded", 409, "A newer start of this agent has registered",
            "Nothing when the agent was restarted: the old process ends its tasks. Otherwise two "
            "hosts have one agent_id: give one of them another."),
    REQUEST("protocol_unsupported", 409, "Agent and coordinator have no protocol version in common",
            "Upgrade the older of the two; the detail names the versions."),
    REQUEST("agent_still_owns", 409, "The agent is alive",
            "Stop the agent first; only an agent that is stopped or lost can be forgotten."),
    REQUEST("backups_disabled", 409, "The coordinator has no folder for backups",
            "Set its option backup_dir to a folder that it may write to, and restart it."),

    /* ---- snapshots, which agents get from each other */
    REQUEST("snapshot_refused", 403, "The token does not open this state",
            "Nothing: the coordinator gives both agents a token, and the receiver asks again. When "
            "it lasts, compare the versions of both agents with the coordinator's."),
    REQUEST("snapshot_not_found", 404, "The agent has no such state to give",
            "Nothing: the receiver asks another holder, or again when there is a checkpoint."),
    REQUEST("snapshot_ended", 410, "The transfer of the snapshot has ended",
            "Nothing: the receiver begins anew. When it happens over and over, look at the "
            "sender's log and disk."),

    /* ---- the coordinator */
    REQUEST("internal", 500, "The coordinator made a mistake",
            "Report it with the coordinator's log lines of this moment; the request may be tried "
            "again."),
    REQUEST("busy", 503, "The coordinator has too much to do",
            "Try again after the time in the Retry-After header."),
    REQUEST("starting", 503, "It is starting or stopping",
            "Try again after the time in the Retry-After header; see /readyz."),
    REQUEST(
        "backup_failed", 503, "The backup could not be written",
        "Check space and permissions of the coordinator's backup_dir; the detail says what went "
        "wrong. The coordinator works on."),
    REQUEST("database_outdated", 503, "The coordinator's database is older than what others know",
            "Agents work on. Put the newest copy of the database in its place, or start the "
            "coordinator with --recover; docs/operations.md says how."),
    REQUEST("recovering", 503, "The coordinator collects what agents and Kafka know",
            "Agents work on. Try again after the time in the Retry-After header; see /readyz."),
    REQUEST("kafka_unavailable", 503, "Kafka did not answer the coordinator",
            "Check that the brokers are up and that the coordinator's kafka.* settings are right, "
            "then try again."),

    /* ---- history and offsets of a job */
    OF_JOB("history_incomplete", 0, CRITICAL, "State can not be rebuilt from what the topics hold",
           "Bring the state from the host that has it, when there is one (docs/operations.md says "
           "how). Otherwise set \"history\": \"retained\" if the logic needs no more than the "
           "topics keep, or create the job anew. Then lengthen the topics' retention."),
    OF_JOB("history_lost", 0, CRITICAL, "Records that the state still needs are gone",
           "Retention passed the state while it was behind. Bring newer state from a host that has "
           "it, when there is one (docs/operations.md says how). Otherwise set \"history\": "
           "\"retained\" if the logic can do without those records, or create the job anew. Then "
           "lengthen the topics' retention."),
    OF_JOB(
        "seeding_failed", 0, WARNING, "A copy of the state could not be fetched",
        "It is tried again by itself. See that agents reach each other at the addresses that GET "
        "/v1/agents shows (the agents' option `listen`), and that the sender's log shows no "
        "trouble with its state or disk; the detail says what went wrong with the last one."),
    OF_JOB("offsets_changed", 0, CRITICAL, "Someone else changed the committed offsets",
           "Find out who reset the group's offsets. POST /v1/jobs/{job}/offsets goes on where the "
           "job was (\"action\": \"restore\") or from the new ones (\"accept\"); \"dry_run\" says "
           "from where."),
    OF_JOB("offsets_expired", 0, CRITICAL, "The committed offsets are gone",
           "If the input topic was recreated, create the job anew. Otherwise they expired or were "
           "deleted: POST /v1/jobs/{job}/offsets with \"action\": \"restore\", and raise the "
           "brokers' offsets.retention.minutes."),
    OF_JOB("offsets_accepted", 0, WARNING, "Offsets that others committed were taken over",
           "They were committed while the job was paused, and are not below its own: what is "
           "before them counts as put out, and only its state was learned. Nothing is to be done "
           "when that was meant; the notice goes by itself."),
    OF_JOB("topic_recreated", 0, CRITICAL, "An input topic was deleted and created again",
           "The state is of records that no longer exist. Delete the job and create it anew."),
    OF_JOB("topic_truncated", 0, CRITICAL, "An input topic lost records that were processed",
           "Look for an unclean leader election or data loss on the brokers. The state and the "
           "outputs hold records that are gone; delete the job and create it anew when they must "
           "not."),
    OF_JOB("topic_missing", 0, CRITICAL, "A topic of the job does not exist",
           "Does the detail say \"authorization failed\", or is the topic there? Then it is an "
           "ACL: allow what docs/operations.md lists (Kafka settings and ACLs); nothing was lost, "
           "it goes on by itself, do not delete the job. A missing output or dead letter topic "
           "goes on once it is created. A deleted input can not be brought back: delete the job "
           "and create it anew."),
    OF_JOB("partitions_changed", 0, WARNING, "An input topic got partitions that are not read",
           "Someone added partitions outside baton: records in them wait, nothing is lost unless "
           "retention removes them. They are adopted by themselves when all inputs have the same "
           "number and the job allows it; the detail says what is in the way. Give the other "
           "inputs as many (kafka-topics --alter), or see to what it says; POST "
           "/v1/jobs/{job}/expansions tries again at once. When records of them are gone already, "
           "create the job anew from what the topics hold: none is passed over by itself."),
    OF_JOB("stale_after_settle", 0, WARNING,
           "A producer wrote by the old number of partitions after it had settled",
           "It was processed where it is, and the window is open again: new partitions wait for "
           "the old ones until it is quiet for as long as \"settle\" says. Between the closing and "
           "that record a key's records may have been processed out of order. Find the producer "
           "(metadata.max.age, a client that was asleep), and raise \"settle\" above the longest "
           "time that producers take to see new partitions."),
    OF_JOB("state_ahead", 0, CRITICAL, "The state is ahead of the committed offsets",
           "The group's offsets went back, or the state is not of this group. The state is set "
           "aside and rebuilt by itself; find out who reset the offsets."),
    OF_JOB("retention_risk", 0, WARNING, "The topics do not keep what a rebuild needs",
           "While no agent has lost its state nothing is wrong. Lengthen the input topics' "
           "retention and turn compaction off, or set \"history\": \"retained\" if the logic needs "
           "no more than they keep."),
    OF_JOB("blocked_by_open_transaction", 0, WARNING, "An open transaction holds a partition back",
           "A producer of the input topic, or one that commits for the job's group, has not ended "
           "its transaction. Find it with "
           "kafka-transactions.sh find-hanging; the broker aborts it after the producer's "
           "transaction timeout, or abort it there."),
    OF_JOB(
        "learning_too_slow", 0, WARNING, "A learner does not come closer to its owner",
        "Records come in as fast as they are learned, or it does not get them. Look at the "
        "learner's rate (replayed_per_s), its host's disk and network, and what else runs there. "
        "The owner goes on; the hand-over waits. Try a host that is less loaded, or a time with "
        "less input."),
    OF_JOB("drain_waits", 0, WARNING, "An agent can not leave: nobody can take what it has",
           "Start another agent, uncordon one or cancel its drain, or raise the capacity of one; "
           "one that can not rebuild the state is asked again after POST .../rebalance. Until then "
           "the owner goes on, and must not be stopped."),
    OF_JOB("standbys_missing", 0, WARNING, "Processors have fewer standbys than the job wants",
           "Start another agent, in another zone if the detail says so, uncordon one, or raise the "
           "capacity of one; or lower \"standbys\". Until then the loss of an agent costs the "
           "job's rejoin_grace and a rebuild."),
    OF_JOB("partitioner_opaque", 409, WARNING, "Keys are placed by a rule that is not known",
           "Processing is not affected, but a key can not be looked up and partitions can not be "
           "expanded. Let all producers use murmur2 (Java's default) or all crc32 (librdkafka's)."),

    OF_JOB("paused", 0, WARNING, "Somebody has paused the job",
           "Its lag grows, and its state is kept. PUT /v1/jobs/{job}/resume lets it go on exactly "
           "where it was; do so before retention passes what waits."),

    /* ---- the group and its fence */
    OF_JOB("group_intruded", 0, CRITICAL, "Other consumers are in the job's group",
           "Outputs are held back. Stop the members that the detail names, or give them another "
           "group.id; the job goes on by itself when the group is empty. When they are to have the "
           "group: pause the job."),
    OF_JOB("group_awaited", 0, WARNING, "The job waits for others to leave its group",
           "It learns what they commit, and takes over within seconds when the last one has left: "
           "stop them when the detail says that all processors have learned (docs/migration.md). "
           "To give up, pause or delete the job."),
    OF_JOB("group_unwatched", 0, WARNING, "Nobody can tell whether others are in the job's group",
           "The job goes on as it was; one that waits for its group goes on waiting. Check the "
           "brokers, and that the coordinator may describe the group; it is looked at again by "
           "itself."),
    OF_JOB("fenced", 0, CRITICAL, "Another producer took the processor over",
           "Expected for a moment after a hand-over. If it stays or comes again, look for a second "
           "process with the same transactional.id (the detail names it): a cloned host, or a "
           "second cluster that was restored from a copy of the database."),

    /* ---- records and logic */
    OF_JOB("record_failed", 0, CRITICAL, "The logic refused a record",
           "The processor waits at the record that the detail names. Pass it (POST "
           "/v1/jobs/{job}/skips), correct the logic, or set \"on_error\" to \"skip\" or "
           "\"dead_letter\"."),
    OF_JOB("misrouted", 0, CRITICAL, "A record lies where its key can not belong",
           "The processor waits at the record that the detail names: the state of its key is "
           "another processor's. Its producer places keys by another rule than the job's: let all "
           "producers use the same partitioner, and the linear-hashing one when the number of "
           "partitions is not the initial one times a power of two. Pass the record (POST "
           "/v1/jobs/{job}/skips), or set \"on_error\" to \"skip\" or \"dead_letter\"."),
    OF_JOB("null_key_halt", 0, CRITICAL, "A record has no key",
           "The processor waits at the record that the detail names, as \"null_key\": \"halt\" "
           "says. Pass it (POST /v1/jobs/{job}/skips), or set \"null_key\" to \"skip\"."),
    OF_JOB("logic_missing", 0, CRITICAL, "An agent does not have the job's logic",
           "Put the plugin, in the version that the detail names, into the agent's plugin folder; "
           "it is looked for again by itself."),
    OF_JOB("logic_crashed", 0, CRITICAL, "The logic has ended agents' processes again and again",
           "The processor stops at the record on every agent, other tasks go on. Pass the record "
           "that the detail names (POST /v1/jobs/{job}/skips), or install a corrected plugin and "
           "restart the agents."),
    OF_JOB("output_failed", 0, CRITICAL, "Outputs can not be written",
           "Check that the output topic exists, that the agent may write to it, and that the "
           "record is not larger than it takes; the detail has the broker's answer."),

    /* ---- agents and their disks */
    OF_JOB("no_agent", 0, CRITICAL, "There is no agent for a processor",
           "Start an agent, and check in its log that it reaches the coordinator; or uncordon one "
           "of those that the detail counts, or cancel its drain."),
    OF_JOB("capacity_exhausted", 0, CRITICAL, "The agents have no room for a processor",
           "Start another agent, or raise `capacity` of those there are."),
    OF_JOB("agent_lost", 0, CRITICAL, "The agent of a processor is not heard of",
           "Check the host and its connection to the coordinator. Its processors wait for it for "
           "the job's rejoin_grace, then other agents take them over; until then it may still "
           "process. When it is gone for good, forget it (DELETE /v1/agents/{agent}): that "
           "happens at once."),
    OF_JOB("state_set_aside", 0, WARNING, "State on disk was not usable and is rebuilt",
           "It is rebuilt by itself. Check the host's disk if it comes again; the unusable files "
           "are kept beside the state for a while."),
    OF_JOB("store_failed", 503, CRITICAL, "The disk refused to store",
           "Check space, permissions and health of the disk that the detail names, and the agent's "
           "option state_bytes_max if the detail says that the state needs more; it is tried again "
           "by itself."),

    OF_JOB(
        "task_not_started", 0, CRITICAL, "An agent can not start a task",
        "It is tried again by itself. The detail says what the agent's host lacks (threads, file "
        "descriptors, memory) or which Kafka setting librdkafka refuses."),

    /* ---- Kafka */
    OF_JOB("kafka_unreachable", 0, CRITICAL, "The brokers do not answer",
           "Check that the brokers are up and reachable from the agent or coordinator that the "
           "detail names, and that its kafka.* settings are right; it is tried again by itself."),
    OF_JOB("kafka_unauthorized", 0, CRITICAL, "The brokers do not allow an agent what a job needs",
           "Allow the user of the agent that the detail names what docs/operations.md lists "
           "(Kafka settings and ACLs); it is tried again by itself."),
    OF_JOB("transaction_failed", 0, WARNING, "A transaction failed and is repeated",
           "Nothing is lost or doubled. If it comes often, look at the brokers' health and at "
           "transaction.timeout.ms."),
};

const struct problem_entry *problem_at(size_t index)
{
    return index < sizeof(entries) / sizeof(entries[0]) ? &entries[index] : NULL;
}

const struct problem_entry *problem_lookup(const char *code)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        if (strcmp(entries[i].code, code) == 0)
            return &entries[i];
    return NULL;
}

const struct problem_entry *problem_find(const char *code)
{
    const struct problem_entry *entry = problem_lookup(code);
    assert(entry != NULL);
    return entry;
}

/* ---- bodies */

void problem_body(struct problem_body *ret_body, const char *code, const char *format, ...)
{
    const struct problem_entry *entry = problem_find(code);
    assert(entry->status != 0);

    va_list args;
    va_start(args, format);
    char *detail = text_vprintf(format, args);
    va_end(args);
    *ret_body = (struct problem_body){.type = mem_printf("urn:baton:problem:%s", code),
                                      .title = mem_strdup(entry->title),
                                      .status = entry->status,
                                      .detail = detail,
                                      .code = mem_strdup(code)};
}

void problem_take_faults(struct problem_body *body, struct codec_faults *faults)
{
    assert(body->errors.count == 0);
    body->errors.items = faults->items;
    body->errors.count = faults->count;
    *faults = (struct codec_faults){0};
}
