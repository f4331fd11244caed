/* The tables of a job's specification: what people write. */
#include "api/schema_fields.h"

static const char *const names_logic_kind[] = {"builtin", "plugin", "exec", NULL};
static const char *const names_delivery[] = {"exactly_once", "at_least_once", NULL};
const char *const schema_names_partitioner[] = {"auto", "murmur2", "crc32", "opaque", NULL};
static const char *const names_start[] = {"earliest", "latest", "committed", NULL};
static const char *const names_history[] = {"full", "retained", NULL};
static const char *const names_interleaving[] = {"none", "any", NULL};
static const char *const names_expansion_order[] = {"merge", "hold", NULL};
static const char *const names_on_error[] = {"halt", "skip", "dead_letter", NULL};
static const char *const names_null_key[] = {"skip", "halt", NULL};
static const char *const names_seed[] = {"auto", "replay", "snapshot", NULL};

static const struct schema_field job_logic_fields[] = {
    FIELD_ENUM(job_logic, kind, names_logic_kind, .required = true,
               .help = "Where the logic comes from: built into the agent, a shared object in the "
                       "agent's plugin folder, or a child process (exec is not available in this "
                       "version)."),
    FIELD_NAME(job_logic, name, .required = true,
               .help = "Name of the logic; built-ins are count, sum, latest and dedup."),
    FIELD_STRING(job_logic, version, 1, API_NAME_BYTES_MAX,
                 .help = "Version of the logic; \"1\" for a built-in when absent, required for a "
                         "plugin. Only agents that have this very version get the job."),
    FIELD_JSON(job_logic, config, API_CONFIG_BYTES_MAX, .fallback_text = "{}",
               .help = "Settings of the logic, an object whose content the logic itself checks."),
};
SCHEMA_TYPE(job_logic, "What is done with each record of a job.");

/* Immutable is what the state or the outputs so far are a function of, and what names the job's
 * place in Kafka. */
static const struct schema_field job_spec_fields[] = {
    FIELD_TOPICS(job_spec, inputs, 1, API_INPUTS_MAX, .required = true, .immutable = true,
                 .help = "Input topics, distinct and with the same number of partitions; more than "
                         "one needs \"interleaving\": \"any\" when the job is stateful."),
    FIELD_TOPIC(job_spec, output, .immutable = true,
                .help = "Topic of the outputs; null when the logic emits nothing."),
    FIELD_STRING(job_spec, group_id, 1, API_GROUP_BYTES_MAX, .required = true, .immutable = true,
                 .help = "Kafka consumer group whose committed offsets are the job's progress; it "
                         "must have no members."),
    FIELD_OBJECT(job_spec, logic, job_logic, .immutable = true,
                 .help = "What is done with each record."),
    FIELD_ENUM(job_spec, delivery, names_delivery, .immutable = true,
               .fallback = DELIVERY_EXACTLY_ONCE,
               .help = "exactly_once writes outputs and offsets in Kafka transactions (brokers "
                       "from 2.5 on); at_least_once may repeat outputs after a failure."),
    FIELD_BOOL(job_spec, stateful, .immutable = true, .fallback = true,
               .help = "Whether the logic keeps state; false skips learning, and is for plugins "
                       "only."),
    FIELD_UINT32(job_spec, processors, 1, API_PARTITIONS_MAX, .required = true, .immutable = true,
                 .help = "Number of processors at creation (M0), at most the number of "
                         "partitions; remembered for ever."),
    FIELD_UINT32(job_spec, initial_partitions, 0, API_PARTITIONS_MAX, .immutable = true,
                 .help = "Number of partitions that the inputs had before they were ever expanded "
                         "(N0); 0: as many as now."),
    FIELD_ENUM(job_spec, partitioner, schema_names_partitioner, .immutable = true,
               .fallback = PARTITIONER_AUTO,
               .help = "How producers choose the partition of a key; auto finds out by reading "
                       "samples."),
    FIELD_ENUM(job_spec, start, names_start, .immutable = true, .fallback = START_EARLIEST,
               .help = "Where a new job starts: at the first record in the topics, after the last "
                       "one, or at the offsets that the group has committed. It waits until others "
                       "have left the group then."),
    FIELD_BOOL(job_spec, reset_offsets, .immutable = true,
               .help = "Allows creation on a group that has committed offsets: they are "
                       "overwritten as `start` says."),
    FIELD_ENUM(job_spec, history, names_history, .fallback = HISTORY_FULL,
               .help = "full: state may be rebuilt only from topics that still hold everything "
                       "since the job's start; retained: the logic needs no more than the topics "
                       "keep."),
    FIELD_ENUM(job_spec, interleaving, names_interleaving, .immutable = true,
               .fallback = INTERLEAVING_NONE,
               .help = "any says that the order in which records of different input topics meet "
                       "does not matter to the logic; a replay cannot repeat it."),
    FIELD_ENUM(job_spec, expansion_order, names_expansion_order, .fallback = EXPANSION_ORDER_MERGE,
               .help = "How records of a partition that an expansion added are ordered after those "
                       "of its ancestors: merge waits record by record, hold waits until the "
                       "settle window closes."),
    FIELD_DURATION(job_spec, settle_ms, "settle", 0, SCHEMA_DAY_MS, .fallback = 600000,
                   .help = "How long after a partition expansion producers may take to see the new "
                           "partitions."),
    FIELD_INT64(job_spec, acceptable_lag, 0, INT64_C(1000000000000), .fallback = 10000,
                .help = "A learner counts as caught up when it is at most this many records per "
                        "partition behind."),
    FIELD_UINT32(job_spec, max_learners, 0, API_PARTITIONS_MAX,
                 .help = "Most learners of this job at a time; 0: no limit."),
    FIELD_UINT32(job_spec, standbys, 0, 16,
                 .help = "Warm copies of each processor, on other agents: they take over at once "
                         "when its owner is lost."),
    FIELD_BOOL(job_spec, auto_expand,
               .help =
                   "Adds processors, one after the other, as long as there are more agents that "
                   "could have one than processors."),
    FIELD_UINT32(job_spec, max_processors, 0, API_PARTITIONS_MAX,
                 .help = "Most processors that the job may grow to; 0: as many as partitions."),
    FIELD_INT64(job_spec, commit_interval_ms, 10, 60000, .fallback = 100,
                .help = "Milliseconds between two commits of outputs and offsets while records "
                        "flow."),
    FIELD_ENUM(job_spec, on_error, names_on_error, .fallback = ON_ERROR_HALT,
               .help = "What happens to a record that the logic returns an error for."),
    FIELD_TOPIC(job_spec, dead_letter_topic,
                .help = "Where records go with \"on_error\": \"dead_letter\"; null otherwise."),
    FIELD_ENUM(job_spec, null_key, names_null_key, .fallback = NULL_KEY_SKIP,
               .help = "What happens to a record without a key: skip counts it and goes on."),
    FIELD_DURATION(job_spec, state_ttl_ms, "state_ttl", 0, 3650 * SCHEMA_DAY_MS, .immutable = true,
                   .help = "State of a key that no record touched for this long, by the time of "
                           "the partition's records, is dropped; \"0s\": never."),
    FIELD_DURATION(job_spec, rejoin_grace_ms, "rejoin_grace", 0, SCHEMA_DAY_MS, .fallback = 30000,
                   .help = "How long processors of a lost agent wait for it to come back before "
                           "another agent rebuilds them."),
    FIELD_ENUM(job_spec, seed, names_seed, .fallback = SEED_AUTO,
               .help =
                   "Where the state of a new copy comes from: replay of the topics, a snapshot of "
                   "another copy first, or auto, a snapshot where the topics no longer hold "
                   "enough or a replay would take longer."),
    FIELD_BOOL(job_spec, provenance,
               .help = "Adds headers baton-topic, baton-partition and baton-offset to each output; "
                       "needs an output topic."),
};
SCHEMA_TYPE(job_spec, "What a job shall be; the body of PUT /v1/jobs/{job}.");
